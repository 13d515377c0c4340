//! What cutting promises, for shapes of values that matter.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::cut::{Cut, MOST_ENTRIES, Sample};
use super::vector::Joint;
use super::*;
use crate::lanes::simd::tests::at_each_level;
use crate::{CompressedColumn, Options, compress_array};

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

/// Uniform in [0, 1).
fn reals(len: usize) -> Vec<f64> {
    let mut next = random(len as u64);
    (0..len).map(|_| (next() >> 11) as f64 / (1_u64 << 53) as f64).collect()
}

/// Floats of 7 bits of mantissa, of either sign and several magnitudes.
fn halves(len: usize) -> Vec<f32> {
    let mut next = random(len as u64);
    let bits = |word: u64| (word as u32 & 0x807f_0000) | (120 + (word >> 40) as u32 % 8) << 23;
    (0..len).map(|_| f32::from_bits(bits(next()))).collect()
}

/// Compresses with this encoding only, which is chosen, and compares what comes back, also
/// value by value.
#[track_caller]
fn round_trip(array: &ArrayRef) -> CompressedColumn {
    let options = Options::default().with_encodings([Encoding::AlpRd]);
    let column = compress_array(array, &options).unwrap();
    assert_eq!(column.encoding().to_string(), "alp_rd", "{}", column.explain());
    assert!(&column.decompress().unwrap() == array);
    for row in (0..array.len()).step_by(13).chain([array.len() - 1]) {
        assert!(column.value(row).unwrap().into_inner() == array.slice(row, 1), "row {row}");
    }
    column
}

fn doubles(values: Vec<f64>) -> ArrayRef {
    Arc::new(Float64Array::from(values))
}

fn singles(values: Vec<f32>) -> ArrayRef {
    Arc::new(Float32Array::from(values))
}

/// The cut that a chunk of these words would get.
fn cut_of<T: Words>(physical: Physical, words: &[T], values: Values<'_>) -> (Cut, usize) {
    let input = Input::new(physical, values);
    let vectors = input.vectors();
    let (cut, cost) =
        Sample::draw(&input, words, (0..vectors).take(16)).cut(vectors, usize::MAX).unwrap();
    (cut, super::cut::of_all(cost, vectors))
}

fn cut_of_doubles(words: &[u64]) -> (Cut, usize) {
    cut_of(Physical::F64, words, Values::W64(words))
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn real_doubles_take_55_bits_with_few_exceptions() {
    let column = round_trip(&doubles(reals(131_072)));
    let bits = column.compressed_bytes() * 8;
    assert!((54 << 17..56 << 17).contains(&bits), "{bits} bits");
}

#[test]
fn reals_of_both_types_round_trip_with_exceptions_of_every_kind() {
    let specials = [f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE / 3.0, f64::MAX, 0.0];
    let mut values = reals(3 * 1024);
    for (value, special) in values.iter_mut().skip(5).step_by(97).zip(specials.iter().cycle()) {
        *value = *special;
    }
    // The first and the last slots of vectors, and a whole vector of exceptions.
    (values[0], values[1023], values[1024]) = (f64::NAN, -7e300, f64::from_bits(u64::MAX));
    round_trip(&doubles(values.clone()));
    let mut next = random(9);
    let mut wide = reals(32 * 1024);
    wide[5 * 1024..6 * 1024].fill_with(|| f64::from_bits(next()));
    round_trip(&doubles(wide));
    round_trip(&singles(values.iter().map(|value| *value as f32).collect()));
}

#[test]
fn zeros_at_the_end_are_not_stored() {
    let values = halves(4096);
    let column = round_trip(&singles(values.clone()));
    assert!(column.compressed_bytes() < 4096 * 13 / 8, "{} bytes", column.compressed_bytes());
    let widened: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    let column = round_trip(&doubles(widened.clone()));
    assert!(column.compressed_bytes() < 4096 * 13 / 8, "{} bytes", column.compressed_bytes());
    let (cut, _) = cut_of_doubles(&bits(&widened));
    assert_eq!((cut.shift, cut.width()), (45, 11));
}

#[test]
fn a_few_values_with_longer_ends_are_exceptions() {
    let mut values: Vec<f64> = halves(4096).into_iter().map(f64::from).collect();
    values.iter_mut().step_by(200).for_each(|value| *value = 0.1);
    let column = round_trip(&doubles(values));
    assert!(column.compressed_bytes() < 4096 * 14 / 8, "{} bytes", column.compressed_bytes());
}

#[test]
fn one_left_part_has_no_codes() {
    let values: Vec<f64> = reals(2048).into_iter().map(|value| 1.0 + value / 64.0).collect();
    let (cut, _) = cut_of_doubles(&bits(&values));
    assert_eq!((cut.entries, cut.code_bits()), (1, 0));
    round_trip(&doubles(values));
    round_trip(&doubles(vec![1.5; 70]));
    round_trip(&singles(vec![-1.5; 1025]));
}

#[test]
fn dictionaries_of_every_size_round_trip() {
    for entries in 1..=MOST_ENTRIES {
        for shift in [0, 20] {
            let mut next = random(entries as u64);
            let word = |next: &mut dyn FnMut() -> u64| {
                let left = 0x3ff0 + 0x2a5 * (next() % entries as u64);
                left << 48 | next() >> 16 >> shift << shift
            };
            let words: Vec<u64> = (0..4096).map(|_| word(&mut next)).collect();
            let (cut, estimate) = cut_of_doubles(&words);
            assert_eq!((cut.entries, cut.shift), (entries, shift));
            let values: Vec<f64> = words.iter().map(|word| f64::from_bits(*word)).collect();
            let column = round_trip(&doubles(values));
            let body = column.chunks()[0].body().len();
            assert!(body.abs_diff(estimate / 8) < 256, "{body} bytes, {} estimated", estimate / 8);
        }
    }
}

#[test]
fn nulls_cost_nothing_and_hide_what_stands_under_them() {
    let garbage = random(3);
    let with = |valid: &dyn Fn(usize) -> bool, garbage: &mut dyn FnMut() -> u64| {
        let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..2500).map(valid)));
        let values = reals(2500).into_iter().enumerate();
        let values = values.map(|(row, value)| match valid(row) {
            true => value,
            false => f64::from_bits(garbage()),
        });
        Arc::new(Float64Array::new(values.collect(), Some(nulls))) as ArrayRef
    };
    let patterns: [&dyn Fn(usize) -> bool; 5] = [
        &|row| row != 0,
        &|row| row != 2499,
        &|row| row % 2 == 0,
        &|row| row / 1024 != 1,
        &|row| row % 63 != 5,
    ];
    let mut garbage = garbage;
    for valid in patterns {
        let array = with(valid, &mut garbage);
        let options = Options::default().with_encodings([Encoding::AlpRd, Encoding::Ffor]);
        let column = compress_array(&array, &options).unwrap();
        assert!(column.decompress().unwrap() == array);
        let other = compress_array(&with(valid, &mut || 0), &options).unwrap();
        assert_eq!(column.chunks()[0].body(), other.chunks()[0].body());
    }
    // Nothing but nulls: there is no left part to choose.
    let all = Arc::new(Float64Array::from(vec![None; 1500])) as ArrayRef;
    let options = Options::default().with_encodings([Encoding::AlpRd]);
    assert!(compress_array(&all, &options).unwrap().decompress().unwrap() == all);
}

#[test]
fn any_bits_are_never_larger_than_plain() {
    let mut next = random(17);
    let values: Vec<f64> = (0..5000).map(|_| f64::from_bits(next())).collect();
    let options = Options::default().with_encodings([Encoding::AlpRd]);
    let column = compress_array(&doubles(values), &options).unwrap();
    assert_eq!(column.encoding().to_string(), "plain");
}

#[test]
fn values_that_the_sample_misses_make_a_plain_chunk_at_worst() {
    // 32 vectors, of which every other is sampled.
    let mut next = random(18);
    let value = |row: usize| match row / 1024 % 2 {
        0 => 1.5,
        _ => f64::from_bits(next()),
    };
    let values = doubles((0..32 * 1024).map(value).collect());
    let options = Options::default().with_encodings([Encoding::AlpRd]);
    let column = compress_array(&values, &options).unwrap();
    assert!(column.decompress().unwrap() == values);
    assert!(column.compressed_bytes() < 34 * 8 * 1024);
}

/// Every cut of a type, joined from any packed bits, one by one and all at once.
fn joins_alike<T: Words>() {
    let mut next = random(T::BITS as u64);
    for left in 1..=16 {
        for shift in [0, 1, T::BITS / 2 - 1, T::BITS - 16, T::BITS - left] {
            let Some(right) = (T::BITS - left).checked_sub(shift) else { continue };
            for entries in 1..=MOST_ENTRIES.min(1 << left) {
                let first = next() as u16 & ((1_u32 << left) - 1) as u16;
                let mut dictionary = [0; MOST_ENTRIES];
                for (at, entry) in dictionary[..entries].iter_mut().enumerate() {
                    *entry = ((usize::from(first) + at) & ((1 << left) - 1)) as u16;
                }
                let cut = Cut { right, shift, entries, dictionary };
                let parsed = Cut::parse::<T>(cut.to_parameter(), &dictionary).unwrap();
                assert_eq!(parsed, cut);
                let joint = Joint::<T>::new(&cut);
                let packed: Vec<T> = (0..joint.packed_len()).map(|_| T::truncate(next())).collect();
                at_each_level(|| {
                    let mut values = [T::MAX; VECTOR];
                    joint.unpack(&packed, &mut values);
                    for (index, value) in values.iter().enumerate().step_by(7) {
                        assert_eq!(joint.unpack_one(&packed, index), *value, "{cut:?}");
                        let code = crate::lanes::unpack_one(&packed, T::ZERO, cut.width(), index);
                        let code = code.widen().checked_shr(right as u32).unwrap_or(0) as usize;
                        let top = value.widen().checked_shr((right + shift) as u32).unwrap_or(0);
                        assert_eq!(top, u64::from(dictionary[code]), "{cut:?}");
                    }
                    // All with a left part of the dictionary are packed again to themselves.
                    let mut again = packed.clone();
                    let missed = joint.pack(&values, &[u64::MAX; 16], &mut again);
                    let mut back = [T::ZERO; VECTOR];
                    joint.unpack(&again, &mut back);
                    for (index, value) in values.iter().enumerate() {
                        let missed = missed[index / 64] >> (index % 64) & 1 == 1;
                        assert!(missed || back[index] == *value, "{cut:?}");
                        let known = dictionary[..entries]
                            .iter()
                            .any(|entry| u64::from(*entry) == value.widen() >> (right + shift));
                        assert_eq!(missed, !known, "{cut:?}");
                    }
                });
            }
        }
    }
}

#[test]
fn every_cut_joins_any_bits_alike_on_every_level() {
    joins_alike::<u32>();
    joins_alike::<u64>();
}

#[test]
fn of_equal_cuts_the_first_is_taken_and_entries_are_sorted_by_count() {
    let words: Vec<u64> = (0..1024).map(|row| [7, 7, 9, 3, 9][row % 5] << 52 | 1).collect();
    let (cut, _) = cut_of_doubles(&words);
    assert_eq!(cut.dictionary[..3], [7 << 4, 9 << 4, 3 << 4]);
    assert_eq!(cut.right, 48);
}

#[track_caller]
fn rejects(parameter: u64, dictionary: [u16; 8], what: &str) {
    let error = Cut::parse::<u64>(parameter, &dictionary).unwrap_err().to_string();
    assert!(error.contains(what), "{error}");
}

#[test]
fn rejects_cuts_that_leave_no_left_part_or_one_of_more_than_16_bits() {
    let one = [0; 8];
    for (right, shift) in [(64, 0), (0, 64), (32, 32), (255, 255)] {
        rejects(right | 1 << 8 | shift << 16, one, "left parts of 0 bits");
    }
    rejects(47 | 1 << 8, one, "left parts of 17 bits");
    rejects(1 << 8, one, "left parts of 64 bits");
    Cut::parse::<u64>(48 | 1 << 8, &one).unwrap();
    Cut::parse::<u64>(1 << 8 | 48 << 16, &one).unwrap();
    rejects(48 | 1 << 8 | 1 << 24, one, "unknown bits");
    rejects(48 | 1 << 8 | 1 << 63, one, "unknown bits");
}

#[test]
fn rejects_dictionaries_that_do_not_fit_their_number() {
    for entries in [0, 9, 255] {
        rejects(48 | entries << 8, [0; 8], &format!("{entries} left parts"));
    }
    rejects(48 | 2 << 8, [5, 5, 0, 0, 0, 0, 0, 0], "0x5 comes twice");
    rejects(48 | 2 << 8, [5, 6, 7, 0, 0, 0, 0, 0], "behind the last of 2");
    rejects(60 | 1 << 8, [16, 0, 0, 0, 0, 0, 0, 0], "0x10 is wider than 4 bits");
    rejects(63 | 3 << 8, [0, 1, 2, 0, 0, 0, 0, 0], "wider than 1 bits");
}
