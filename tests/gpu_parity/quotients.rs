//! Multiples of a common divisor: divisors of chunks, quotients and all that these become, whose
//! bytes are the CPU's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use lanepack::{Encoding, Options, compress_array};

use super::common::image::{Image, Node};
use super::common::*;
use super::integers::{array_of, nulls_of, only};
use super::{assert_same, batch_of, check, engines};

const DIVIDED: [DataType; 4] =
    [DataType::Int32, DataType::UInt32, DataType::Int64, DataType::UInt64];

/// Multiples of `divisor` from `offset` on, of up to so many, and now and then of one much larger.
fn multiples(rng: &mut Rng, len: usize, divisor: u64, offset: u64, most: u64) -> Vec<u64> {
    (0..len)
        .map(|row| {
            let far = if row % 150 == 149 { 1 << 20 } else { 0 };
            offset.wrapping_add(divisor.wrapping_mul(rng.below(most) + far))
        })
        .collect()
}

#[test]
fn multiples_of_every_type() {
    let mut rng = Rng(101);
    let few = only(&[Encoding::Gcd, Encoding::Ffor, Encoding::Pfor]);
    for engine in engines() {
        for data_type in &DIVIDED {
            for (divisor, offset) in [(2, 0), (3, u64::MAX - 500), (1000, 7), (1 << 12, 1 << 31)] {
                let words = multiples(&mut rng, 3000, divisor, offset, 400);
                for (index, nulls) in nulls_of(words.len()).into_iter().enumerate() {
                    let array = array_of(data_type, &words, nulls);
                    let chunk_rows = [1024, 2048, 4096][index % 3];
                    check(&engine, &array, &few.clone().with_chunk_rows(chunk_rows));
                    check(&engine, &array, &Options::default().with_chunk_rows(chunk_rows));
                }
            }
        }
    }
}

/// The largest divisors and values, and values that are far apart or equal.
#[test]
fn extreme_divisors() {
    let cases: [&dyn Fn(u64) -> u64; 9] = [
        &|row| if row * row % 3 == 0 { 0 } else { u64::MAX },
        &|row| if row * row % 3 == 0 { 1 << 63 } else { (1 << 63) - 1 },
        &|row| (row * row % 7) << 61,
        &|row| (row * row % 5) << 29,
        &|row| row * row % 2 * 0xffff_ffff,
        &|row| row * row % 11 * 0x1234_5678_9abc,
        &|_| 977,
        &|row| row * 60,
        &|row| row * row % 97 * 3 + u64::from(row == 2999),
    ];
    for engine in engines() {
        for value in cases {
            let words: Vec<u64> = (0..3000).map(value).collect();
            for data_type in &DIVIDED {
                for nulls in nulls_of(words.len()).into_iter().take(3) {
                    let array = array_of(data_type, &words, nulls);
                    check(&engine, &array, &only(&[Encoding::Gcd, Encoding::Ffor]));
                    check(&engine, &array, &only(&[Encoding::Gcd]));
                    check(&engine, &array, &Options::default());
                }
            }
        }
    }
}

#[test]
fn quotients_nest() {
    let rows = 6000_u64;
    let trees: [(&str, Vec<u64>, &[Encoding]); 6] = {
        use Encoding::*;
        let of = |value: &dyn Fn(u64) -> u64| (0..rows).map(value).collect::<Vec<u64>>();
        let outlier = |row: u64| if row % 400 == 7 { 1 << 30 } else { 0 };
        [
            ("gcd(ffor)", of(&|row| row * row % 500 * 1000), &[Gcd, Ffor]),
            ("gcd(pfor)", of(&|row| (row * row % 500 + outlier(row)) * 1000), &[Gcd, Ffor, Pfor]),
            ("gcd(delta(", of(&|row| (row * 50 + row * row % 7) * 60_000), &[Gcd, Delta, Ffor]),
            (
                "gcd(delta(pfor",
                of(&|row| (row * 50 + row * row % 7 + row / 300 * 90_000) * 60_000),
                &[Gcd, Delta, Ffor, Pfor],
            ),
            ("dict(ffor, gcd(", of(&|row| (row * 7919 % 900).pow(3) * 10_000), &[Gcd, Dict, Ffor]),
            ("rle(gcd(", of(&|row| (row / 30).pow(2) % 700 * 1000), &[Rle, Gcd, Ffor]),
        ]
    };
    for engine in engines() {
        for (tree, words, encodings) in &trees {
            let array = Arc::new(UInt64Array::from(words.clone())) as ArrayRef;
            let column = compress_array(&array, &only(encodings)).unwrap();
            assert!(
                column.encoding().to_string().starts_with(tree),
                "{} instead of {tree}",
                column.explain()
            );
            for chunk_rows in [1024, 4096, 131_072] {
                check(&engine, &array, &only(encodings).with_chunk_rows(chunk_rows));
                check(&engine, &array.slice(77, 5000), &only(encodings));
            }
        }
    }
}

/// Divisors of the vectors that are looked at which others do not have, and the other way round;
/// of chunks of which some have divisors.
#[test]
fn divisors_that_mislead() {
    let vectors = 40;
    let is_sampled = |row: usize| (0..16).any(|index| index * vectors / 16 == row / 1024);
    let rows = vectors * 1024;
    let odd = |is_odd: &dyn Fn(usize) -> bool| -> Vec<u64> {
        (0..rows).map(|row| (row * row % 900 * 1000) as u64 + u64::from(is_odd(row))).collect()
    };
    let cases = [
        odd(&|_| false),
        odd(&|row| !is_sampled(row) && row % 500 == 3),
        odd(&|row| is_sampled(row) && row % 1024 == 1000),
        odd(&|row| row == 1024 + 5),
        odd(&|row| row / 8192 % 2 == 1),
    ];
    for engine in engines() {
        for words in &cases {
            for data_type in &DIVIDED {
                for nulls in nulls_of(rows).into_iter().take(3) {
                    let array = array_of(data_type, words, nulls);
                    let few = only(&[Encoding::Gcd, Encoding::Ffor]);
                    check(&engine, &array, &few);
                    check(&engine, &array, &few.with_chunk_rows(8192));
                    check(&engine, &array, &Options::default());
                }
            }
        }
    }
}

/// Limbs of decimals, and times of the types that have them.
#[test]
fn decimals_and_times() {
    let mut rng = Rng(104);
    let words = multiples(&mut rng, 5000, 86_400_000, 0, 20_000);
    let values: Vec<i64> = words.iter().map(|word| *word as i64).collect();
    let wide: Vec<i128> = words.iter().map(|word| i128::from(*word) * 1_000_000_007).collect();
    for engine in engines() {
        for nulls in nulls_of(words.len()) {
            let times: ScalarBuffer<i64> = values.clone().into();
            let amounts = values.iter().map(|value| i128::from(*value)).collect::<Vec<_>>();
            let arrays: [ArrayRef; 4] = [
                Arc::new(Date64Array::new(times.clone(), nulls.clone())),
                Arc::new(TimestampNanosecondArray::new(times, nulls.clone())),
                Arc::new(Decimal128Array::new(amounts.into(), nulls.clone())),
                Arc::new(Decimal128Array::new(wide.clone().into(), nulls)),
            ];
            for array in &arrays {
                check(&engine, array, &Options::default().with_chunk_rows(2048));
            }
        }
    }
}

/// Products wrap, as on the CPU; and quotients may be plain, which writers never need.
#[test]
fn quotients_that_are_too_great() {
    let values = (0..3000_i64).map(|i| 7 + i * i % 400 * 60);
    let array = Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
    let mut image = Image::of(&array, &only(&[Encoding::Gcd, Encoding::Ffor]));
    image.change(|tree| {
        let plain = Node { encoding: 0, physical: 8, len: 3000, buffers: 1, ..Node::default() };
        tree.nodes[1] = plain;
        let quotients: Vec<u64> = (0..3000).map(|row| u64::MAX - row * row).collect();
        tree.buffers = vec![quotients.iter().flat_map(|word| word.to_le_bytes()).collect()];
    });
    let packed = batch_of(image.field.clone(), image.storage());
    // At the start of a column, and behind three rows.
    let three = compress_array(&array.slice(0, 3), &Options::default()).unwrap();
    let three = batch_of(image.field.clone(), super::packed(&three).column(0).as_struct().clone());
    let behind = concat_batches(&packed.schema(), [&three, &packed]).unwrap();
    for engine in engines() {
        for packed in [&packed, &behind] {
            let expected = lanepack::decompress(packed).unwrap();
            let found = engine.decompress(packed).unwrap();
            assert_same(found.column(0), expected.column(0), || "quotients".into());
        }
    }
}
