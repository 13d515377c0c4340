//! Floats that are no decimals: cuts, dictionaries, exceptions and fallbacks of alp_rd, whose
//! bytes are the CPU's.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{NullBuffer, ScalarBuffer};
use lanepack::{Encoding, Options, compress_array};

use super::common::*;
use super::{check, engines};

/// Doubles of these bits.
fn doubles(words: &[u64], nulls: Option<NullBuffer>) -> ArrayRef {
    let values: Vec<f64> = words.iter().map(|word| f64::from_bits(*word)).collect();
    Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
}

/// Floats of the upper halves of these bits.
fn singles(words: &[u64], nulls: Option<NullBuffer>) -> ArrayRef {
    let values: Vec<f32> = words.iter().map(|word| f32::from_bits((word >> 32) as u32)).collect();
    Arc::new(Float32Array::new(ScalarBuffer::from(values), nulls))
}

fn both(words: &[u64], nulls: &Option<NullBuffer>) -> [ArrayRef; 2] {
    [doubles(words, nulls.clone()), singles(words, nulls.clone())]
}

fn alone() -> Options {
    Options::default().with_encodings([Encoding::AlpRd])
}

/// Words of these upper bits, in turn, above random ones, of which the lowest are zero.
fn words(rng: &mut Rng, len: usize, tops: &[u64], zeros: u32) -> Vec<u64> {
    let low = |rng: &mut Rng| rng.next() >> 16 >> zeros << zeros;
    (0..len).map(|row| tops[row % tops.len()] << 48 | low(rng)).collect()
}

/// Words of `count` left parts of every number of bits.
fn tops(count: u64) -> Vec<u64> {
    (0..count).map(|top| 0x3fe0 + top * 0x11 + (top << 9)).collect()
}

#[track_caller]
fn has_encodings(array: &ArrayRef, options: &Options, expected: &str) {
    let column = compress_array(array, options).unwrap();
    assert_eq!(column.encoding().to_string(), expected, "{}", column.explain());
}

#[test]
fn left_parts_and_zeros_of_every_number() {
    let mut rng = Rng(51);
    for engine in engines() {
        for count in [1, 2, 3, 5, 8, 9, 20] {
            for zeros in [0, 3, 33, 44, 48] {
                let words = words(&mut rng, 3000, &tops(count), zeros);
                for array in both(&words, &None) {
                    for chunk_rows in [1024, 4096] {
                        check(&engine, &array, &alone().with_chunk_rows(chunk_rows));
                    }
                }
            }
        }
    }
}

#[test]
fn nulls_anywhere() {
    let mut rng = Rng(52);
    let some = words(&mut rng, 5000, &tops(3), 20);
    let valid = |keep: &dyn Fn(usize) -> bool| Some((0..5000).map(keep).collect::<NullBuffer>());
    let patterns = [
        valid(&|row| row != 0),
        valid(&|row| row != 4999),
        valid(&|row| row >= 1024),
        valid(&|row| row / 1024 != 1),
        valid(&|row| row < 4096),
        valid(&|row| row % 63 != 5),
        valid(&|row| row == 4500),
        valid(&|_| false),
    ];
    for engine in engines() {
        for nulls in &patterns {
            for array in both(&some, nulls) {
                for chunk_rows in [1024, 8192] {
                    check(&engine, &array, &alone().with_chunk_rows(chunk_rows));
                }
                check(&engine, &array.slice(37, 4000), &alone());
                check(&engine, &array, &Options::default());
            }
        }
        for nulls in Nulls::ALL {
            for array in both(&some, &nulls.bitmap(5000)) {
                check(&engine, &array, &alone().with_chunk_rows(2048));
            }
        }
    }
}

#[test]
fn exceptions_of_every_kind_and_number() {
    let mut rng = Rng(53);
    let specials = [
        f64::NAN.to_bits(),
        0x7ff0_dead_beef_0001,
        0xfff8_1234_5678_9abc,
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        (-0.0_f64).to_bits(),
        0,
        1,
        u64::MAX,
        f64::MAX.to_bits(),
    ];
    for engine in engines() {
        // None but at the ends of vectors; some; most of a vector.
        for every in [1023, 97, 8, 2] {
            for zeros in [0, 46] {
                let mut words = words(&mut rng, 5 * 1024 + 77, &tops(4), zeros);
                let special = specials.iter().cycle();
                words.iter_mut().step_by(every).zip(special).for_each(|(word, of)| *word = *of);
                for array in both(&words, &None) {
                    for chunk_rows in [1024, 131_072] {
                        check(&engine, &array, &alone().with_chunk_rows(chunk_rows));
                    }
                    check(&engine, &array, &Options::default());
                }
            }
        }
        // A vector of nothing else, and values that need no bits beside those.
        let mut words = vec![1.5_f64.to_bits(); 4000];
        for array in both(&words, &None) {
            check(&engine, &array, &alone());
        }
        words[2048..3072].fill_with(|| rng.next());
        words[3999] = 1;
        for array in both(&words, &None) {
            check(&engine, &array, &alone());
        }
    }
}

/// Vectors that the sample misses make more exceptions than it promised.
#[test]
fn plain_where_exceptions_take_more() {
    let mut rng = Rng(54);
    // Of 32 vectors every other is looked at, of the others so many values fit not.
    for (every, expected) in [(1, "plain"), (9, "alp_rd")] {
        let word =
            |row: usize, rng: &mut Rng| match row / 1024 % 2 == 1 && row.is_multiple_of(every) {
                true => rng.next(),
                false => 0x3ff8 << 48 | rng.next() >> 16,
            };
        let words: Vec<u64> = (0..32 * 1024).map(|row| word(row, &mut rng)).collect();
        has_encodings(&doubles(&words, None), &alone(), expected);
        for engine in engines() {
            for array in both(&words, &None) {
                check(&engine, &array, &alone());
                check(&engine, &array, &Options::default());
            }
        }
    }
    let noise: Vec<u64> = (0..3000).map(|_| rng.next()).collect();
    for engine in engines() {
        for array in both(&noise, &None) {
            has_encodings(&array, &alone(), "plain");
            check(&engine, &array, &alone());
        }
    }
}

/// So few values are valid that zeros are dropped which none of them has.
#[test]
fn few_values_without_zeros() {
    for engine in engines() {
        for valid in [vec![700], vec![0, 1023], vec![5, 1029, 2047]] {
            let nulls: NullBuffer = (0..2048).map(|row| valid.contains(&row)).collect();
            let words: Vec<u64> = (0..2048).map(|row| 0x3ff1_2345_6789_abcd | row << 33).collect();
            has_encodings(&doubles(&words, Some(nulls.clone())), &alone(), "alp_rd");
            for array in both(&words, &Some(nulls)) {
                check(&engine, &array, &alone());
                check(&engine, &array, &alone().with_chunk_rows(1024));
            }
        }
    }
}

/// Chunks of decimals, of reals, of one value, of few values, and of noise.
#[test]
fn chunks_that_differ() {
    let mut rng = Rng(55);
    let value = |row: usize, rng: &mut Rng| match row / 2048 % 5 {
        0 => ((rng.below(9000) as f64) / 100.0).to_bits(),
        1 => (rng.below(1 << 53) as f64 / (1_u64 << 53) as f64).to_bits(),
        2 => 2.5_f64.to_bits(),
        3 => ([0.0, 0.5, 1.0, 2.5][rng.below(4) as usize] * 1024.0_f64).to_bits(),
        _ => rng.next(),
    };
    let words: Vec<u64> = (0..12 * 2048 + 5).map(|row| value(row, &mut rng)).collect();
    let array = doubles(&words, None);
    let options = Options::default().with_chunk_rows(2048);
    let found = compress_array(&array, &options).unwrap().encoding().to_string();
    for encoding in ["alp+", "alp_rd", "constant", "plain"] {
        assert!(found.contains(encoding), "{found}");
    }
    let floats: Float32Array =
        words.iter().map(|word| Some(f64::from_bits(*word) as f32)).collect();
    for engine in engines() {
        for array in [&array, &(Arc::new(floats.clone()) as ArrayRef)] {
            for chunk_rows in [1024, 2048, 65_536] {
                check(&engine, array, &options.clone().with_chunk_rows(chunk_rows));
            }
            for others in [Encoding::Alp, Encoding::Constant] {
                let options = options.clone().with_encodings([Encoding::AlpRd, others]);
                check(&engine, array, &options);
            }
        }
    }
}

/// Counts that are equal, runs that join as bits are dropped, any number of zeros and of
/// vectors: the choices have ties.
#[test]
fn choices_among_equals() {
    let mut rng = Rng(56);
    for engine in engines() {
        let mut cut = 0;
        for case in 0..80 {
            let vectors = [1, 2, 3, 4, 5, 9, 16, 17, 21][case % 9];
            let len = (vectors - 1) * 1024 + 1 + rng.below(1024) as usize;
            let spread = rng.below(16);
            let tops: Vec<u64> =
                (0..1 + rng.below(24)).map(|_| 0x4000 ^ rng.next() >> (63 - spread)).collect();
            let zeros: Vec<u64> = (0..1 + rng.below(4)).map(|_| rng.below(49)).collect();
            let in_turn = rng.below(2) == 0;
            let word = |row: usize, rng: &mut Rng| {
                let pick = if in_turn { row } else { rng.next() as usize >> 1 };
                let (top, zeros) = (tops[pick % tops.len()], zeros[pick / 3 % zeros.len()]);
                (top & 0xffff) << 48 | rng.next() >> 16 >> zeros << zeros
            };
            let words: Vec<u64> = (0..len).map(|row| word(row, &mut rng)).collect();
            let percent = [0, 0, 10, 60, 99][case % 5];
            let nulls: NullBuffer = (0..len).map(|_| rng.below(100) >= percent).collect();
            for array in both(&words, &(percent > 0).then_some(nulls)) {
                let options = alone().with_chunk_rows(32_768);
                let column = compress_array(&array, &options).unwrap();
                cut += usize::from(column.encoding().to_string() == "alp_rd");
                check(&engine, &array, &options);
            }
        }
        assert!(cut > 120, "{cut} of 160 are alp_rd");
    }
}
