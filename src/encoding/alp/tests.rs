//! Tests of the codec as a whole, by what it promises.

use super::search::{MAX_CANDIDATES, SAMPLED_VECTORS};
use super::*;
use crate::lanes::simd::tests::at_each_level;
use crate::lanes::{self, Lane, VECTOR};

const ALL: [u64; 16] = [u64::MAX; 16];

/// Random words, seeded: xorshift64.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn bits<F: AlpFloat>(values: &[F; VECTOR]) -> [F::Bits; VECTOR] {
    values.map(F::to_bits)
}

fn all_pairs<F: AlpFloat>() -> impl Iterator<Item = Exponents> {
    let products = (0..=F::MAX_EXPONENT).flat_map(|e| (0..=e).map(move |f| Exponents { e, f }));
    let most = if F::DIVIDES { F::MAX_EXPONENT } else { 0 };
    products.chain((1..=most).map(|e| Exponents { e, f: Exponents::DIVIDED }))
}

/// Encodes, packs, decodes, patches and compares; checks all invariants.
fn round_trip<F: AlpFloat>(values: &[F; VECTOR], valid: &[u64; 16], pair: Exponents) {
    let mut out = Encoded::new();
    encode_vector(values, valid, pair, &mut out);
    assert_eq!(out.exponents, pair);
    assert!(out.width as usize <= F::MAX_WIDTH);
    let count: u32 = out.exceptions.iter().map(|word| word.count_ones()).sum();
    assert_eq!(out.exception_count, count as usize);
    assert_eq!(out.size_bits(), estimate(values, valid, pair));

    let width = out.width as usize;
    let mut packed = vec![F::Bits::ZERO; lanes::packed_len::<F::Bits>(width)];
    lanes::pack(&out.values, F::Bits::ZERO, width, &mut packed);
    let mut decoded = [F::NAN; VECTOR];
    decode_vector(&packed, out.base, width, pair, &mut decoded);
    for i in 0..VECTOR {
        let is_valid = valid[i / 64] >> (i % 64) & 1 != 0;
        let is_exception = out.exceptions[i / 64] >> (i % 64) & 1 != 0;
        assert!(is_valid || !is_exception, "slot {i} is invalid and an exception");
        if is_exception || !is_valid {
            assert_eq!(out.values[i], F::Bits::ZERO, "slot {i} holds no value");
        } else {
            assert_eq!(decoded[i].to_bits(), values[i].to_bits(), "slot {i}, {pair:?}");
        }
        let one = decode_one::<F>(&packed, out.base, width, pair, i);
        assert_eq!(one.to_bits(), decoded[i].to_bits(), "slot {i} alone, {pair:?}");
    }
}

/// Vectors of every pattern class, from raw bits and from decimals.
fn patterns_f64() -> Vec<[f64; VECTOR]> {
    let mut next = random(7);
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        f64::from_bits(0x7FF0_0000_0000_0001), // signalling
        f64::from_bits(0xFFF8_1234_5678_9ABC),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        -f64::from_bits(0x000F_FFFF_FFFF_FFFF),
        f64::MAX,
        f64::MIN,
        1.5,
        -99.99,
    ];
    let mut all = vec![
        std::array::from_fn(|i| special[i % special.len()]),
        std::array::from_fn(|_| f64::from_bits(next())),
        std::array::from_fn(|i| if i % 100 == 3 { f64::NAN } else { i as f64 / 4.0 }),
        [-99.0; VECTOR],
    ];
    for places in 0..=17 {
        let scale = 10f64.powi(places);
        all.push(std::array::from_fn(|_| (next() as i64 >> 34) as f64 / scale));
    }
    for power in 49..64 {
        let near = 2f64.powi(power);
        all.push(std::array::from_fn(|i| {
            let value = near + (i as f64 - 512.0);
            if i % 2 == 0 { value } else { -value }
        }));
    }
    all
}

fn patterns_f32() -> Vec<[f32; VECTOR]> {
    let mut next = random(8);
    let mut all: Vec<[f32; VECTOR]> =
        patterns_f64().iter().map(|values| values.map(|value| value as f32)).collect();
    all.push(std::array::from_fn(|i| f32::from_bits(0x7F80_0001 + i as u32)));
    all.push(std::array::from_fn(|_| f32::from_bits(next() as u32)));
    for power in 20..25 {
        all.push(std::array::from_fn(|i| (1i64 << power) as f32 + i as f32 - 512.0));
    }
    all
}

#[test]
fn every_pattern_round_trips_bit_exactly_with_exceptions_patched() {
    // The outer pairs at each level, all of them at the best one.
    at_each_level(|| {
        for pair in [(0, 0), (14, 12), (18, 0), (18, 18)].map(|(e, f)| Exponents { e, f }) {
            patterns_f64().iter().for_each(|values| round_trip(values, &ALL, pair));
        }
        for pair in [(0, 0), (6, 4), (10, 0), (10, 10)].map(|(e, f)| Exponents { e, f }) {
            patterns_f32().iter().for_each(|values| round_trip(values, &ALL, pair));
        }
    });
    for (i, pair) in all_pairs::<f64>().enumerate() {
        let patterns = patterns_f64();
        round_trip(&patterns[i % patterns.len()], &ALL, pair);
    }
    for (i, pair) in all_pairs::<f32>().enumerate() {
        let patterns = patterns_f32();
        round_trip(&patterns[i % patterns.len()], &ALL, pair);
    }
}

#[test]
fn integers_up_to_the_limit_are_encoded_and_beyond_are_exceptions() {
    let limit = (1i64 << 51) - 1;
    let pair = Exponents { e: 0, f: 0 };
    let mut values = [0.0; VECTOR];
    values[..4].copy_from_slice(&[limit, -limit, limit + 1, -limit - 1].map(|n| n as f64));
    let mut out = Encoded::new();
    encode_vector(&values, &ALL, pair, &mut out);
    assert_eq!((out.base, out.width), (-limit, 52));
    assert_eq!(out.exceptions[0], 0b1100);
    round_trip(&values, &ALL, pair);

    let limit = (1i32 << 22) - 1;
    let mut values = [0f32; VECTOR];
    values[..4].copy_from_slice(&[limit, -limit, limit + 1, -limit - 1].map(|n| n as f32));
    let mut out = Encoded::new();
    encode_vector(&values, &ALL, pair, &mut out);
    assert_eq!((out.base, out.width), (-limit, 23));
    assert_eq!(out.exceptions[0], 0b1100);
    round_trip(&values, &ALL, pair);
}

#[test]
fn negative_zero_nan_and_infinities_are_always_exceptions() {
    let mut values = [1.0f64; VECTOR];
    values[..4].copy_from_slice(&[-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    for pair in all_pairs::<f64>() {
        let mut out = Encoded::new();
        encode_vector(&values, &ALL, pair, &mut out);
        assert_eq!(out.exceptions[0] & 0b1111, 0b1111, "{pair:?}");
    }
}

#[test]
fn invalid_slots_never_become_exceptions_whatever_they_hold() {
    at_each_level(|| {
        let mut next = random(9);
        for base in patterns_f64() {
            let valid: [u64; 16] = std::array::from_fn(|_| next());
            let mut values = base;
            for i in 0..VECTOR {
                if valid[i / 64] >> (i % 64) & 1 == 0 {
                    values[i] = [f64::NAN, 1e300, -0.0, 7e15][i % 4];
                }
            }
            let pair = choose(&values, &valid, &candidates(&[(&values, valid)]));
            round_trip(&values, &valid, pair);
            // What lies beneath has no influence on anything.
            let (mut with, mut without) = (Encoded::new(), Encoded::new());
            encode_vector(&values, &valid, pair, &mut with);
            encode_vector(&base, &valid, pair, &mut without);
            assert_eq!(with.values, without.values);
            assert_eq!((with.base, with.exceptions), (without.base, without.exceptions));
        }
    });
}

#[test]
fn a_vector_without_valid_values_has_width_0_and_no_exceptions() {
    let values = [f64::NAN; VECTOR];
    let valid = [0; 16];
    let pair = choose(&values, &valid, &candidates(&[(&values, valid)]));
    let mut out = Encoded::new();
    encode_vector(&values, &valid, pair, &mut out);
    assert_eq!((out.width, out.base, out.exception_count), (0, 0, 0));
    assert_eq!(out.values, [0; VECTOR]);
    round_trip(&[f32::NAN; VECTOR], &valid, Exponents { e: 10, f: 3 });
}

#[test]
fn only_exceptions_need_width_0() {
    let mut out = Encoded::new();
    encode_vector(&[f32::NAN; VECTOR], &ALL, Exponents::default(), &mut out);
    assert_eq!((out.width, out.base, out.exception_count), (0, 0, VECTOR));
    assert_eq!(out.values, [0; VECTOR]);
}

#[test]
fn decoding_is_total_for_any_bits_and_any_base() {
    let mut next = random(10);
    let packed: Vec<u64> = (0..52 * 16).map(|_| next()).collect();
    for base in [0, f64::MAX_BASE, -f64::MAX_BASE, i64::MAX, i64::MIN] {
        for pair in all_pairs::<f64>() {
            let mut out = [0.0; VECTOR];
            decode_vector(&packed, base, 52, pair, &mut out);
        }
    }
    let packed: Vec<u32> = (0..23 * 32).map(|_| next() as u32).collect();
    for base in [0, f32::MAX_BASE, -f32::MAX_BASE, i32::MAX, i32::MIN] {
        let mut out = [0f32; VECTOR];
        decode_vector(&packed, base, 23, Exponents { e: 10, f: 10 }, &mut out);
    }
}

#[test]
fn decoding_equals_integer_conversion_and_two_products() {
    at_each_level(|| {
        let mut next = random(11);
        for width in 0..=52 {
            let packed: Vec<u64> = (0..width * 16).map(|_| next()).collect();
            let base = next() as i64 >> 12;
            let pair = Exponents { e: (next() % 19) as u8, f: 0 };
            let pair = Exponents { f: (next() % (pair.e as u64 + 1)) as u8, ..pair };
            let mut out = [0.0; VECTOR];
            decode_vector(&packed, base, width, pair, &mut out);
            let mut words = [0; VECTOR];
            lanes::unpack(&packed, 0, width, &mut words);
            for (word, value) in words.into_iter().zip(out) {
                let n = (word as i64 + base) as f64;
                let expected = n * f64::power(pair.f) * f64::inverse_power(pair.e);
                assert_eq!(value.to_bits(), expected.to_bits());
            }
        }
    });
}

#[test]
#[should_panic(expected = "width exceeds the mantissa")]
fn decoding_refuses_a_width_beyond_the_mantissa() {
    decode_vector::<f32>(&[0; 24 * 32], 0, 24, Exponents::default(), &mut [0.0; VECTOR]);
}

#[test]
fn the_same_values_give_the_same_encoding_at_each_level() {
    let patterns = patterns_f64();
    let vectors: Vec<_> = patterns.iter().take(8).map(|values| (values, ALL)).collect();
    let expected = candidates(&vectors);
    at_each_level(|| {
        assert_eq!(candidates(&vectors), expected);
        for values in &patterns {
            let pair = choose(values, &ALL, &expected);
            let (mut one, mut two) = (Encoded::new(), Encoded::new());
            encode_vector(values, &ALL, pair, &mut one);
            two.values = bits(values); // stale contents don't matter
            encode_vector(values, &ALL, pair, &mut two);
            assert_eq!(one.values, two.values);
            assert_eq!(one.exceptions, two.exceptions);
        }
    });
}

#[test]
fn a_lone_vector_of_decimals_gets_the_best_of_all_pairs() {
    let mut next = random(12);
    for places in 0..=9 {
        let scale = 10f64.powi(places);
        let values: [f64; VECTOR] = std::array::from_fn(|_| (next() % 1_000_000) as f64 / scale);
        let best = all_pairs::<f64>().map(|pair| estimate(&values, &ALL, pair)).min();
        let chosen = choose(&values, &ALL, &candidates(&[(&values, ALL)]));
        assert_eq!(Some(estimate(&values, &ALL, chosen)), best, "{places} places");
    }
}

#[test]
fn candidates_serve_chunks_that_mix_decimal_places() {
    let mut next = random(13);
    let vectors: Vec<[f64; VECTOR]> = (0..8)
        .map(|v| {
            let scale = if v < 6 { 100.0 } else { 1e6 };
            std::array::from_fn(|_| (next() % 100_000) as f64 / scale)
        })
        .collect();
    let sampled: Vec<_> = vectors.iter().map(|values| (values, ALL)).collect();
    let found = candidates(&sampled);
    assert!((2..=MAX_CANDIDATES).contains(&found.len()), "{found:?}");
    for values in &vectors {
        assert!(estimate(values, &ALL, choose(values, &ALL, &found)) <= 17 * VECTOR + 800);
    }
}

#[test]
fn candidates_of_nothing_are_none_and_choose_still_answers() {
    assert_eq!(candidates::<f64>(&[]), []);
    let values: [f64; VECTOR] = std::array::from_fn(|i| i as f64 / 10.0);
    let pair = choose(&values, &ALL, &[]);
    assert!(pair.is_valid::<f64>());
    assert_eq!(estimate(&values, &ALL, pair), 10 * VECTOR);
}

#[test]
fn sampled_vectors_are_distinct_and_within_the_chunk() {
    for count in 0..300 {
        let taken: Vec<usize> = sampled_vectors(count).collect();
        assert_eq!(taken.len(), count.min(SAMPLED_VECTORS));
        assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(taken.iter().all(|&vector| vector < count));
    }
}

#[test]
fn trimming_shrinks_the_vector_and_keeps_every_value() {
    at_each_level(|| {
        let mut next = random(14);
        let mut trimmed = 0;
        for outliers in [0, 1, 3, 40, 500] {
            for sign in [1.0, -1.0] {
                let valid: [u64; 16] = std::array::from_fn(|_| next() | next());
                let mut values: [f64; VECTOR] =
                    std::array::from_fn(|_| (next() % 1000) as f64 / 10.0);
                for i in 0..outliers {
                    values[i * 2] = sign * (next() % (1 << 40)) as f64 / 10.0;
                }
                let pair = Exponents { e: 14, f: 13 };
                let mut out = Encoded::new();
                encode_vector(&values, &valid, pair, &mut out);
                let (before, made_before) = (out.size_bits(), out.exception_count);
                trim(&mut out, &valid);
                assert!(out.size_bits() <= before);
                trimmed += (out.size_bits() < before) as usize;
                let count: u32 = out.exceptions.iter().map(|word| word.count_ones()).sum();
                assert_eq!(out.exception_count, count as usize);
                assert!(out.exception_count >= made_before);
                for (exceptions, valid) in out.exceptions.iter().zip(&valid) {
                    assert_eq!(exceptions & !valid, 0);
                }
                let width = out.width as usize;
                let mut packed = vec![0; lanes::packed_len::<u64>(width)];
                lanes::pack(&out.values, 0, width, &mut packed);
                let mut decoded = [0.0; VECTOR];
                decode_vector(&packed, out.base, width, pair, &mut decoded);
                for i in 0..VECTOR {
                    if (valid[i / 64] & !out.exceptions[i / 64]) >> (i % 64) & 1 != 0 {
                        assert_eq!(decoded[i].to_bits(), values[i].to_bits(), "slot {i}");
                    } else {
                        assert_eq!(out.values[i], 0, "slot {i} holds no value");
                    }
                }
            }
        }
        assert!(trimmed >= 6, "{trimmed} of 10 trimmed");
    });
}

#[test]
fn one_outlier_among_equal_values_is_trimmed_to_width_0() {
    let mut values = [10.25f32; VECTOR];
    values[700] = -3000.5;
    let pair = choose(&values, &ALL, &candidates(&[(&values, ALL)]));
    let mut out = Encoded::new();
    encode_vector(&values, &ALL, pair, &mut out);
    trim(&mut out, &ALL);
    assert_eq!((out.width, out.exception_count), (0, 1));
    assert_eq!(out.exceptions[700 / 64], 1 << (700 % 64));
}

#[test]
fn trimming_leaves_vectors_of_no_spread_and_of_no_values_alone() {
    for values in [[1.5f64; VECTOR], [f64::NAN; VECTOR]] {
        for valid in [ALL, [0; 16]] {
            let mut out = Encoded::new();
            encode_vector(&values, &valid, Exponents { e: 1, f: 0 }, &mut out);
            let before = out.clone();
            trim(&mut out, &valid);
            assert_eq!(out.values, before.values);
            assert_eq!(out.exceptions, before.exceptions);
        }
    }
}

#[test]
fn values_that_are_no_decimals_cost_little_more_than_their_raw_bits() {
    let mut next = random(15);
    let vectors: Vec<[f64; VECTOR]> =
        (0..8).map(|_| std::array::from_fn(|_| f64::from_bits(next()))).collect();
    let sampled: Vec<_> = vectors.iter().map(|values| (values, ALL)).collect();
    // With what level one says, with nothing, and with what doesn't fit.
    for found in [candidates(&sampled), vec![], vec![Exponents { e: 3, f: 0 }]] {
        for values in &vectors {
            let size = estimate(values, &ALL, choose(values, &ALL, &found));
            assert!(size <= VECTOR * f64::EXCEPTION_BITS, "{found:?}: {size}");
        }
    }
}

/// Quotients are the numbers nearest to decimals, and a reciprocal with one step of Newton's, as
/// GPUs have it, gives the same.
#[test]
fn quotients_are_the_nearest_floats() {
    for e in 1..=10 {
        let pair = Exponents { e, f: Exponents::DIVIDED };
        assert!(pair.is_valid::<f32>() && !pair.is_valid::<f64>());
        let (divisor, reciprocal) = (f32::power(e), f32::inverse_power(e));
        // Up to the largest sum of a base and a packed integer that a reader accepts.
        for n in (-(1 << 22)..3 << 22).step_by(if e == 2 { 1 } else { 37 }) {
            let quotient = n as f32 / divisor;
            let about = n as f32 * reciprocal;
            let rest = (-about).mul_add(divisor, n as f32);
            assert_eq!(rest.mul_add(reciprocal, about).to_bits(), quotient.to_bits(), "{n} {e}");
        }
    }
    for text in ["655.35", "-41943.03", "0.01", "7.1"] {
        let hundredths = (text.parse::<f64>().unwrap() * 100.0).round() as f32;
        assert_eq!(text.parse::<f32>().unwrap(), hundredths / 100.0);
    }
}

#[test]
fn decimals_of_two_places_take_their_integers_bits() {
    let values: [f32; VECTOR] = std::array::from_fn(|i| (i * 7919 % 65536) as f32 / 100.0);
    let found = candidates(&[(&values, ALL), (&values, ALL)]);
    assert_eq!(found[0], Exponents { e: 2, f: Exponents::DIVIDED });
    let pair = choose(&values, &ALL, &found);
    let mut out = Encoded::new();
    encode_vector(&values, &ALL, pair, &mut out);
    assert_eq!((out.width, out.exception_count), (16, 0));
    round_trip(&values, &ALL, pair);
}
