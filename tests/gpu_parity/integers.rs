//! Integers with outliers, and those that follow each other: windows, deltas and exceptions of
//! both, whose bytes are the CPU's.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use lanepack::{Encoding, Options, compress_array};

use super::common::*;
use super::{check, engines};

pub const TYPES: [DataType; 8] = [
    DataType::Int8,
    DataType::UInt8,
    DataType::Int16,
    DataType::UInt16,
    DataType::Int32,
    DataType::UInt32,
    DataType::Int64,
    DataType::UInt64,
];

/// The lowest bits of words as values of a type.
pub fn array_of(data_type: &DataType, words: &[u64], nulls: Option<NullBuffer>) -> ArrayRef {
    macro_rules! array {
        ($array:ident, $word:ty) => {{
            let values: Vec<$word> = words.iter().map(|word| *word as $word).collect();
            Arc::new($array::new(ScalarBuffer::from(values), nulls)) as ArrayRef
        }};
    }
    match data_type {
        DataType::Int8 => array!(Int8Array, i8),
        DataType::UInt8 => array!(UInt8Array, u8),
        DataType::Int16 => array!(Int16Array, i16),
        DataType::UInt16 => array!(UInt16Array, u16),
        DataType::Int32 => array!(Int32Array, i32),
        DataType::UInt32 => array!(UInt32Array, u32),
        DataType::Int64 => array!(Int64Array, i64),
        DataType::Float64 => {
            let values: Vec<f64> = words.iter().map(|word| f64::from_bits(*word)).collect();
            Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
        }
        _ => array!(UInt64Array, u64),
    }
}

pub fn only(encodings: &[Encoding]) -> Options {
    Options::default().with_encodings(encodings.iter().copied())
}

/// Nulls in one row of so many, in others but these, first, last, and in whole words.
pub fn nulls_of(len: usize) -> Vec<Option<NullBuffer>> {
    let of = |is_valid: &dyn Fn(usize) -> bool| {
        Some(NullBuffer::new(BooleanBuffer::from_iter((0..len).map(is_valid))))
    };
    vec![
        None,
        of(&|row| row % 5 != 3),
        of(&|row| row % 7 == 2),
        of(&|row| row % 61 == 60),
        of(&|row| row >= 40),
        of(&|row| row + 40 < len),
        of(&|row| row / 96 % 2 == 1),
        of(&|row| row == len / 2),
        of(&|_| false),
    ]
}

/// Values near each other, those far from them, and what lies between.
fn outliers(rng: &mut Rng, len: usize, one_in: u64) -> Vec<u64> {
    (0..len)
        .map(|_| match rng.below(one_in) {
            0 => rng.next() >> rng.below(60),
            1 => 90 + rng.below(1000),
            _ => 100 + rng.below(9),
        })
        .collect()
}

/// Values that grow by so much, more or less, with a jump now and then.
fn steps(rng: &mut Rng, len: usize, step: u64, more: u64, jumps: u64) -> Vec<u64> {
    let mut value = rng.next();
    (0..len)
        .map(|_| {
            let jump = if rng.below(jumps) == 0 { rng.next() >> rng.below(63) } else { 0 };
            value = value.wrapping_add(step).wrapping_add(rng.below(more)).wrapping_add(jump);
            value
        })
        .collect()
}

#[test]
fn windows_with_exceptions_of_every_type() {
    let mut rng = Rng(71);
    let options = only(&[Encoding::Pfor]);
    for engine in engines() {
        for data_type in &TYPES {
            for one_in in [2, 9, 300, 3000] {
                let words = outliers(&mut rng, 3000, one_in);
                for nulls in nulls_of(words.len()) {
                    check(&engine, &array_of(data_type, &words, nulls), &options);
                }
            }
        }
    }
}

#[test]
fn deltas_of_every_type() {
    let mut rng = Rng(72);
    for engine in engines() {
        for data_type in &TYPES {
            for (step, more, jumps) in
                [(3, 1, 1 << 40), (0, 4, 1 << 40), (u64::MAX - 4, 3, 1 << 40), (1000, 30, 200)]
            {
                let words = steps(&mut rng, 3000, step, more, jumps);
                for (index, nulls) in nulls_of(words.len()).into_iter().enumerate() {
                    let array = array_of(data_type, &words, nulls);
                    for child in [Encoding::Ffor, Encoding::Pfor, Encoding::Constant] {
                        let chunk_rows = [1024, 2048][index % 2];
                        let options = only(&[Encoding::Delta, Encoding::Ffor, child]);
                        check(&engine, &array, &options.with_chunk_rows(chunk_rows));
                    }
                }
            }
        }
    }
}

/// Vectors of every length that ends a piece, a lane or a word, from rows that begin anywhere.
#[test]
fn short_vectors_and_slices() {
    let mut rng = Rng(73);
    let all = only(&[Encoding::Delta, Encoding::Pfor, Encoding::Ffor, Encoding::Constant]);
    for engine in engines() {
        for data_type in &TYPES {
            let words = steps(&mut rng, 2100, 7, 3, 150);
            for nulls in nulls_of(words.len()).into_iter().take(3) {
                let array = array_of(data_type, &words, nulls);
                for len in [1, 2, 3, 31, 32, 33, 63, 64, 65, 1000, 1023, 1024, 1025, 2049] {
                    check(&engine, &array.slice(0, len), &all);
                    check(&engine, &array.slice(2100 - len, len), &all);
                    check(&engine, &array.slice(13.min(2100 - len), len), &all);
                }
            }
        }
    }
}

/// Where windows are narrowed as often as they can be: values in ever smaller clusters, one
/// value in others of all widths, and two clusters far apart.
#[test]
fn windows_in_windows() {
    let mut rng = Rng(74);
    let options = only(&[Encoding::Pfor]);
    for engine in engines() {
        for data_type in &TYPES {
            let clusters: Vec<u64> = (0..4096).map(|_| rng.next() >> (rng.below(11) * 6)).collect();
            let spike: Vec<u64> = (0..4096)
                .map(|_| if rng.below(4) == 0 { rng.next() } else { 1 << 33 | 77 })
                .collect();
            let two: Vec<u64> = (0..4096)
                .map(|_| if rng.below(2) == 0 { rng.below(4) } else { u64::MAX - rng.below(4) })
                .collect();
            for words in [&clusters, &spike, &two] {
                check(&engine, &array_of(data_type, words, None), &options);
            }
        }
    }
}

/// Estimates look at 16 vectors: where others are different, all plans are tried.
#[test]
fn plans_that_do_not_keep_their_promise() {
    let mut rng = Rng(75);
    let (even, odd) = (steps(&mut rng, 48 << 10, 5, 1, 1 << 50), outliers(&mut rng, 48 << 10, 2));
    // Vectors that are sampled, and others.
    let is_sampled = |row: usize| (row / 1024).is_multiple_of(3);
    let pick = |row: usize| if is_sampled(row) { even[row] } else { odd[row] << 20 };
    let words: Vec<u64> = (0..even.len()).map(pick).collect();
    let array = array_of(&DataType::Int64, &words, None);
    let column = compress_array(&array, &Options::default()).unwrap();
    assert!(column.explain().contains("delta 1048 B"), "{}", column.explain());
    assert!(column.chunks()[0].body().len() > 200_000, "{}", column.explain());
    let steady: Vec<u64> = (0..even.len()).map(|row| even[row] % (1 << 30)).collect();
    for engine in engines() {
        check(&engine, &array, &Options::default());
        check(&engine, &array_of(&DataType::UInt32, &words, None), &Options::default());
        check(&engine, &array_of(&DataType::Int32, &steady, None), &Options::default());
    }
}

/// Chunks of a column that need measures of all their vectors or none, those that lose their
/// plan once these are made among them.
#[test]
fn vectors_that_no_estimate_looks_at() {
    let mut rng = Rng(79);
    const VECTORS: usize = 20;
    let rows = VECTORS * 1024;
    let is_sampled = |row: usize| (0..16).any(|index| index * VECTORS / 16 == row / 1024);
    let near = outliers(&mut rng, rows, 400);
    let far = outliers(&mut rng, rows, 3);
    let steps = steps(&mut rng, rows, 7, 3, 900);
    let noise: Vec<u64> = (0..rows).map(|_| rng.next()).collect();
    let mix = |sampled: &[u64], others: &[u64]| -> Vec<u64> {
        (0..rows).map(|row| if is_sampled(row) { sampled[row] } else { others[row] }).collect()
    };
    let all = [&near, &steps, &noise, &far];
    let mut words: Vec<u64> = all.iter().flat_map(|words| words.iter().copied()).collect();
    for sampled in all {
        for others in all.into_iter().filter(|others| *others != sampled) {
            words.extend(mix(sampled, others));
        }
    }
    // The last chunk has fewer vectors than are looked at.
    words.extend(&steps[..5000]);
    let options = Options::default().with_chunk_rows(rows);
    let column = compress_array(&array_of(&TYPES[7], &words, None), &options).unwrap();
    for encoding in ["ffor", "pfor", "delta(pfor)"] {
        let found = column.encoding().to_string();
        assert!(found.contains(encoding), "{encoding} is missing in {found}");
    }
    let patches = only(&[Encoding::Pfor, Encoding::Delta]).with_chunk_rows(rows);
    let deltas = only(&[Encoding::Delta, Encoding::Ffor]).with_chunk_rows(rows);
    for engine in engines() {
        for (index, data_type) in TYPES.iter().enumerate() {
            let array = array_of(data_type, &words, nulls_of(words.len()).swap_remove(index + 1));
            check(&engine, &array, &options);
            let few = if index % 2 == 0 { &patches } else { &deltas };
            check(&engine, &array, few);
            check(&engine, &array_of(data_type, &words[..rows * 5], None), &options);
        }
        // As many vectors as are looked at, and one more.
        for vectors in [16, 17] {
            let array = array_of(&TYPES[5], &words, None);
            check(&engine, &array, &Options::default().with_chunk_rows(vectors * 1024));
        }
        let codes: Vec<i128> = words.iter().map(|word| i128::from(*word) << 40).collect();
        let decimals = Decimal128Array::from(codes);
        check(&engine, &(Arc::new(decimals) as ArrayRef), &options);
    }
}

/// Limbs of decimals and lengths of strings are integers, too.
#[test]
fn deltas_and_exceptions_of_limbs_and_lengths() {
    let mut rng = Rng(76);
    let values = (0..3000).map(|row| {
        let step = i128::from(row) * 1_000_003 + i128::from(rng.below(5) as i64);
        if rng.below(90) == 0 { step << 64 } else { step }
    });
    let decimals = Decimal128Array::from_iter_values(values).with_precision_and_scale(38, 2);
    let lengths = (0..3000).map(|row| match rng.below(70) {
        0 => "x".repeat(400),
        _ => format!("{:0width$}", row, width = 5 + row / 1024),
    });
    let strings = StringArray::from_iter_values(lengths);
    let arrays: [ArrayRef; 2] = [Arc::new(decimals.unwrap()), Arc::new(strings)];
    for engine in engines() {
        for array in &arrays {
            for chunk_rows in [1024, 4096] {
                check(&engine, array, &Options::default().with_chunk_rows(chunk_rows));
            }
        }
    }
}

/// As many vectors as a chunk may have.
#[test]
fn full_chunks() {
    let mut rng = Rng(77);
    let len = lanepack::MAX_CHUNK_ROWS + 3000;
    let (near, grown) = (outliers(&mut rng, len, 40), steps(&mut rng, len, 9, 5, 900));
    // Neighbours differ alike: found once all deltas are there.
    let even: Vec<u64> = (0..len as u64).map(|row| row * 12_345).collect();
    let reals = (0..len).map(|_| f64::from_bits(0x3ff0 << 48 | rng.next() >> 12));
    let reals = Arc::new(Float64Array::from_iter_values(reals)) as ArrayRef;
    let without = Options::default().without(Encoding::Constant);
    for engine in engines() {
        for words in [&near, &grown, &even] {
            for data_type in [DataType::UInt8, DataType::Int32, DataType::Int64] {
                check(&engine, &array_of(&data_type, words, None), &Options::default());
            }
        }
        check(&engine, &array_of(&DataType::Int64, &even, None), &without);
        check(&engine, &reals, &Options::default());
    }
}
