//! Dictionaries and runs of words: distinct values, codes, values and lengths of runs, and all that
//! these become, whose bytes are the CPU's.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer, i256};
use lanepack::{Effort, Encoding, Options, compress_array};

use super::common::*;
use super::integers::{TYPES, array_of, nulls_of, only};
use super::{check, engines, thinned};

fn small() -> Options {
    Options::default().with_effort(Effort::Small)
}

/// Nulls of all kinds, whole vectors among them.
fn nulls_and_vectors(len: usize) -> Vec<Option<NullBuffer>> {
    let of = |is_valid: &dyn Fn(usize) -> bool| {
        Some(NullBuffer::new(BooleanBuffer::from_iter((0..len).map(is_valid))))
    };
    let mut all = nulls_of(len);
    all.extend([
        of(&|row| row / 1024 != 1),
        of(&|row| row >= 1100),
        of(&|row| row < 900),
        of(&|row| (1024..2048).contains(&row) && row % 3 == 0),
    ]);
    all
}

/// Some of `distinct` values that lie far apart, in no order.
fn repeated(rng: &mut Rng, len: usize, distinct: u64) -> Vec<u64> {
    let values: Vec<u64> = (0..distinct).map(|_| rng.next()).collect();
    (0..len).map(|_| values[rng.below(distinct) as usize]).collect()
}

/// Runs of so many values at most, of some of `distinct` values.
fn runs(rng: &mut Rng, len: usize, longest: u64, distinct: u64) -> Vec<u64> {
    let values: Vec<u64> = (0..distinct).map(|_| rng.next()).collect();
    let mut words = Vec::with_capacity(len);
    while words.len() < len {
        let value = values[rng.below(distinct) as usize];
        let count = (1 + rng.below(longest) as usize).min(len - words.len());
        words.resize(words.len() + count, value);
    }
    words
}

#[test]
fn dictionaries_of_every_type() {
    let mut rng = Rng(81);
    for engine in engines() {
        let mut case = 0;
        for data_type in &TYPES {
            for distinct in [2, 3, 40, 700] {
                let words = repeated(&mut rng, 3000, distinct);
                for (index, nulls) in nulls_and_vectors(words.len()).into_iter().enumerate() {
                    case += 1;
                    if thinned(&engine, case, 3) {
                        continue;
                    }
                    let array = array_of(data_type, &words, nulls);
                    let chunk_rows = [1024, 2048, 4096][index % 3];
                    let few = only(&[Encoding::Dict, Encoding::Ffor]);
                    check(&engine, &array, &few.with_chunk_rows(chunk_rows));
                    check(&engine, &array, &small().with_chunk_rows(chunk_rows));
                }
            }
        }
    }
}

#[test]
fn runs_of_every_type() {
    let mut rng = Rng(82);
    for engine in engines() {
        let mut case = 0;
        for data_type in &TYPES {
            for (longest, distinct) in [(9, 5), (60, 2000), (2000, 3), (3, 2)] {
                let words = runs(&mut rng, 3000, longest, distinct);
                for (index, nulls) in nulls_and_vectors(words.len()).into_iter().enumerate() {
                    case += 1;
                    if thinned(&engine, case, 3) {
                        continue;
                    }
                    let array = array_of(data_type, &words, nulls);
                    let chunk_rows = [1024, 2048, 4096][index % 3];
                    let few = only(&[Encoding::Rle, Encoding::Ffor]);
                    check(&engine, &array, &few.with_chunk_rows(chunk_rows));
                    check(&engine, &array, &small().with_chunk_rows(chunk_rows));
                }
            }
        }
    }
}

/// Codes and values that are packed in every way, and runs of either.
#[test]
fn what_words_become_nests() {
    let rows = 6000_u64;
    let trees: [(&str, Vec<u64>, &[Encoding]); 6] = {
        use Encoding::*;
        let far = |value: u64| value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let of = |value: &dyn Fn(u64) -> u64| (0..rows).map(value).collect::<Vec<u64>>();
        [
            ("dict(ffor, plain)", of(&|row| far(row * row % 61)), &[Dict, Ffor]),
            ("dict(delta(", of(&|row| (row / 3) << 40 | (row / 3 % 7)), &[Dict, Delta, Pfor, Ffor]),
            ("dict(rle(", of(&|row| far(row / 50 % 9)), &[Dict, Rle, Ffor]),
            ("rle(dict(", of(&|row| far(row / 50 * (row / 50) % 9)), &[Dict, Rle, Ffor]),
            ("rle(delta(", of(&|row| row / 20 * 1000 + row / 20 % 3), &[Rle, Delta, Ffor, Pfor]),
            ("rle(delta(constant)", of(&|row| far(row / 16)), &[Rle, Delta, Constant]),
        ]
    };
    for engine in engines() {
        for (tree, words, encodings) in &trees {
            let array = Arc::new(UInt64Array::from(words.clone())) as ArrayRef;
            let column = compress_array(&array, &only(encodings)).unwrap();
            let found = column.encoding().to_string();
            let either = tree.starts_with("rle(dict") && found.starts_with("dict(rle");
            assert!(found.starts_with(tree) || either, "{found} instead of {tree}");
            for chunk_rows in [1024, 4096, 131_072] {
                check(&engine, &array, &only(encodings).with_chunk_rows(chunk_rows));
            }
        }
    }
}

/// Equal bits are equal values, and the greatest key of all is one as others.
#[test]
fn extreme_values_have_codes() {
    let ends = [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 0x7ff8 << 48, 0xfff8 << 48];
    let words: Vec<u64> = (0..3000_usize).map(|row| ends[row * row % 11 % 8]).collect();
    for engine in engines() {
        for nulls in nulls_of(words.len()).into_iter().take(4) {
            for data_type in &TYPES {
                check(&engine, &array_of(data_type, &words, nulls.clone()), &small());
            }
            let doubles: Vec<f64> = words.iter().map(|word| f64::from_bits(*word)).collect();
            let doubles = Float64Array::new(ScalarBuffer::from(doubles), nulls.clone());
            check(&engine, &(Arc::new(doubles) as ArrayRef), &small());
            let floats: Vec<f32> =
                words.iter().map(|word| f32::from_bits((*word >> 32) as u32)).collect();
            let floats = Float32Array::new(ScalarBuffer::from(floats), nulls.clone());
            check(&engine, &(Arc::new(floats) as ArrayRef), &small());
            type Half = <types::Float16Type as ArrowPrimitiveType>::Native;
            let halves: Vec<Half> =
                words.iter().map(|word| Half::from_bits((*word >> 48) as u16)).collect();
            let halves = Float16Array::new(ScalarBuffer::from(halves), nulls);
            check(&engine, &(Arc::new(halves) as ArrayRef), &small());
        }
    }
}

/// Dictionaries of decimals and of other floats, and of limbs of either kind.
#[test]
fn floats_and_limbs() {
    let mut rng = Rng(84);
    let rows = 5000;
    for engine in engines() {
        for distinct in [3, 90, 900] {
            let picks = repeated(&mut rng, rows, distinct);
            for nulls in nulls_and_vectors(rows) {
                let decimals: Vec<f64> =
                    picks.iter().map(|word| (word % 100_000) as f64 / 100.0).collect();
                let reals: Vec<f32> =
                    picks.iter().map(|word| (word % 1_000_003) as f32 / 7.0).collect();
                let wide: Vec<i128> =
                    picks.iter().map(|word| i128::from(*word) * 1_000_003).collect();
                let wide = Decimal128Array::new(ScalarBuffer::from(wide), nulls.clone());
                let arrays: [ArrayRef; 3] = [
                    Arc::new(Float64Array::new(ScalarBuffer::from(decimals), nulls.clone())),
                    Arc::new(Float32Array::new(ScalarBuffer::from(reals), nulls)),
                    Arc::new(wide.with_precision_and_scale(38, 2).unwrap()),
                ];
                for array in &arrays {
                    check(&engine, array, &small().with_chunk_rows(2048));
                }
            }
        }
    }
}

/// What a sample promises and the rest does not keep, and the other way round.
#[test]
fn samples_that_mislead() {
    let mut rng = Rng(85);
    let rows = 40 * 1024;
    // Of 40 vectors those are looked at.
    let is_sampled = |row: usize| (0..16).any(|index| index * 40 / 16 == row / 1024);
    let mut of = |sampled: u64, others: u64| -> Vec<u64> {
        let values: Vec<u64> = (0..50_000).map(|_| rng.next()).collect();
        (0..rows)
            .map(|row| values[rng.below(if is_sampled(row) { sampled } else { others }) as usize])
            .collect()
    };
    let cases = [of(3, 50_000), of(50_000, 3), of(500, 3000), of(1, 2), of(12_000, 40_000)];
    for engine in engines() {
        for words in &cases {
            for encodings in [&[Encoding::Dict, Encoding::Ffor] as &[_], Encoding::ALL] {
                check(&engine, &array_of(&TYPES[7], words, None), &only(encodings));
            }
        }
        for (sampled, others) in [(200, 1), (1, 200)] {
            let words: Vec<u64> = (0..rows)
                .map(|row| {
                    (row / if is_sampled(row) { sampled } else { others }) as u64 * 0x9e37_79b9
                })
                .collect();
            check(&engine, &array_of(&TYPES[5], &words, None), &only(&[Encoding::Rle]));
        }
    }
}

/// Chunks of one column that become different things, in parts of their own.
#[test]
fn chunks_differ() {
    let mut rng = Rng(86);
    let mut words = Vec::new();
    for part in 0..90_u64 {
        let more = match part % 5 {
            0 => repeated(&mut rng, 4096, 50),
            1 => runs(&mut rng, 4096, 70, 4000),
            2 => (0..4096).map(|_| rng.next()).collect(),
            3 => vec![part; 4096],
            _ => (0..4096).map(|row| row * 5 + part).collect(),
        };
        words.extend(more);
    }
    for engine in engines() {
        for nulls in nulls_of(words.len()).into_iter().take(3) {
            let array = array_of(&TYPES[7], &words, nulls);
            check(&engine, &array, &small().with_chunk_rows(4096));
            check(&engine, &array.slice(0, words.len() - 5), &small().with_chunk_rows(8192));
        }
    }
}

/// Codes and values of runs, of chunks of more vectors than are looked at, that have exceptions
/// and deltas.
#[test]
fn what_long_chunks_become_nests() {
    let mut rng = Rng(88);
    let rows = 24 * 1024;
    let values: Vec<u64> = (0..600).map(|_| rng.next()).collect();
    let mut pick = |row: usize| match rng.below(200) {
        0 => rng.below(600) as usize,
        _ => row % 3,
    };
    let rare: Vec<u64> = (0..rows).map(|row| values[pick(row)]).collect();
    let mut sorted = values.clone();
    sorted.sort_unstable();
    let ascending: Vec<u64> = (0..rows).map(|row| sorted[row * 600 / rows]).collect();
    let stairs: Vec<u64> = (0..rows as u64).map(|row| row / 7 * 1000 + row / 7 % 3).collect();
    let words = [rare.as_slice(), &ascending, &stairs, &rare[..9000]].concat();
    let options = small().with_chunk_rows(rows);
    let column = compress_array(&array_of(&TYPES[7], &words, None), &options).unwrap();
    for tree in ["dict(pfor", "rle("] {
        assert!(
            column.encoding().to_string().contains(tree),
            "{tree} is missing in {}",
            column.encoding()
        );
    }
    let texts: Vec<String> =
        words.iter().map(|word| format!("value {}", word % 1_000_003)).collect();
    let texts = Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
    for engine in engines() {
        for nulls in nulls_and_vectors(words.len()).into_iter().take(4) {
            check(&engine, &array_of(&TYPES[7], &words, nulls), &options);
        }
        check(&engine, &texts, &Options::default().with_chunk_rows(rows));
    }
}

/// Texts that come again, of every length from none.
fn texts(rng: &mut Rng, distinct: u64) -> Vec<String> {
    let word =
        |rng: &mut Rng| ["of", "", "pear", "a long one, with a comma", "42"][rng.below(5) as usize];
    (0..distinct)
        .map(|number| {
            let words: Vec<&str> = (0..rng.below(9)).map(|_| word(rng)).collect();
            format!(
                "{}{}",
                words.concat(),
                if number % 3 == 0 { number.to_string() } else { String::new() }
            )
        })
        .collect()
}

#[test]
fn dictionaries_of_strings() {
    let mut rng = Rng(91);
    for engine in engines() {
        for (number, distinct) in [2, 5, 60, 900].into_iter().enumerate() {
            let texts = texts(&mut rng, distinct);
            let picks: Vec<usize> = (0..5000).map(|_| rng.below(distinct) as usize).collect();
            for (index, nulls) in nulls_and_vectors(picks.len()).into_iter().enumerate() {
                if thinned(&engine, number + index, 2) {
                    continue;
                }
                let value = |row: usize| {
                    let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                    valid.then(|| texts[picks[row]].as_str())
                };
                let chunk_rows = [1024, 2048, 8192][index % 3];
                let rows = 0..picks.len();
                let arrays: [ArrayRef; 3] = [
                    Arc::new(StringArray::from_iter(rows.clone().map(value))),
                    Arc::new(LargeStringArray::from_iter(rows.clone().map(value))),
                    Arc::new(LargeBinaryArray::from_iter(
                        rows.map(|row| value(row).map(str::as_bytes)),
                    )),
                ];
                for array in &arrays[..if index % 3 == 0 { 3 } else { 1 }] {
                    check(&engine, array, &Options::default().with_chunk_rows(chunk_rows));
                    let few = only(&[Encoding::Dict, Encoding::Ffor]);
                    check(&engine, array, &few.with_chunk_rows(chunk_rows));
                    check(&engine, &array.slice(7, 3000), &Options::default());
                }
            }
        }
    }
}

/// Codes that are runs or ascend, and dictionaries with tables of the column and of their own.
#[test]
fn codes_and_dictionaries_of_strings_nest() {
    let mut rng = Rng(92);
    let long = |number: usize| format!("customer {number:08} of the {} market", number * 7919 % 13);
    let rows = 12_000;
    let columns: Vec<(&str, Vec<String>)> = vec![
        ("dict(", (0..rows).map(|row| long(row / 90 * 7919 % 101)).collect()),
        ("dict(delta(", (0..rows).map(|row| long(row / 3)).collect()),
        ("dict(", (0..rows).map(|row| long(row * row % 301)).collect()),
        ("dict(", (0..rows).map(|_| "x".repeat(rng.below(30) as usize)).collect()),
        ("dict(", (0..rows).map(|row| format!("{}", row % 2)).collect()),
        ("fsst(", (0..rows).map(long).collect()),
    ];
    for engine in engines() {
        for (tree, texts) in &columns {
            let array = Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
            let column = compress_array(&array, &Options::default()).unwrap();
            assert!(
                column.encoding().to_string().starts_with(tree),
                "{} instead of {tree}",
                column.explain()
            );
            for chunk_rows in [1024, 4096, 131_072] {
                check(&engine, &array, &Options::default().with_chunk_rows(chunk_rows));
                let few = [Encoding::Dict, Encoding::Fsst, Encoding::Pfor];
                check(&engine, &array, &only(&few).with_chunk_rows(chunk_rows));
            }
            let few = only(&[Encoding::Dict, Encoding::Rle, Encoding::Ffor]);
            check(&engine, &array, &few);
            let column = compress_array(&array, &few).unwrap();
            if texts[..90].iter().all(|text| *text == texts[0]) {
                assert!(
                    column.encoding().to_string().starts_with("dict(rle("),
                    "{}",
                    column.explain()
                );
            }
        }
    }
}

/// Chunks with and without dictionaries in windows of several, with nulls and short ones.
#[test]
fn chunks_of_strings_differ() {
    let mut rng = Rng(93);
    let mut values: Vec<Option<String>> = Vec::new();
    for part in 0..40_usize {
        let texts = texts(&mut rng, 40 + part as u64);
        values.extend((0..3072).map(|row| match part % 5 {
            0 => Some(texts[rng.below(texts.len() as u64) as usize].clone()),
            1 => Some(format!("{:x}", rng.next())),
            2 => Some("always the same".into()),
            3 => (row % 4 != 1).then(|| texts[row / 100 % texts.len()].clone()),
            _ => None,
        }));
    }
    values.truncate(values.len() - 333);
    for engine in engines() {
        let array = Arc::new(StringArray::from_iter(values.iter())) as ArrayRef;
        for (case, chunk_rows) in [1024, 3072, 131_072].into_iter().enumerate() {
            let mut options = Options::default().with_chunk_rows(chunk_rows);
            if !thinned(&engine, case, 2) {
                check(&engine, &array, &options);
            }
            options = options.with_group_rows(chunk_rows);
            if !thinned(&engine, case + 1, 2) {
                check(&engine, &array, &options);
            }
        }
    }
}

/// Nulls in just the vectors that samples look at, or in all others, or everywhere.
#[test]
fn nulls_that_mislead() {
    let vectors = 40;
    let is_sampled = |row: usize| (0..16).any(|index| index * vectors / 16 == row / 1024);
    let valid: [&dyn Fn(usize) -> bool; 4] =
        [&|row| !is_sampled(row), &is_sampled, &|_| false, &|row| row / 1024 == 1 && row % 5 > 0];
    for engine in engines() {
        for is_valid in valid {
            let rows = vectors * 1024;
            let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..rows).map(is_valid)));
            for data_type in [&TYPES[0], &TYPES[5], &TYPES[6]] {
                for words in [
                    (0..rows as u64).map(|row| row / 1024 % 2 * 77).collect::<Vec<_>>(),
                    (0..rows as u64).map(|row| ((row * row % 5) << 37) + row % 3).collect(),
                ] {
                    let array = array_of(data_type, &words, Some(nulls.clone()));
                    check(&engine, &array, &small());
                    check(&engine, &array, &small().without(Encoding::Constant));
                    check(&engine, &array, &only(&[Encoding::Rle, Encoding::Dict]));
                }
            }
            let texts = (0..rows).map(|row| is_valid(row).then(|| ["one", "other"][row / 9 % 2]));
            let texts = Arc::new(StringArray::from_iter(texts)) as ArrayRef;
            check(&engine, &texts, &Options::default());
            check(&engine, &texts, &Options::default().without(Encoding::Constant));
        }
    }
}

/// Words and strings that begin anywhere, few of them, and chunks of a single row.
#[test]
fn slices_and_few_rows() {
    let mut rng = Rng(94);
    let words = runs(&mut rng, 2100, 12, 9);
    let texts: Vec<String> = words.iter().map(|word| format!("text {}", word % 97)).collect();
    let texts = Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
    let wide: Vec<i256> =
        words.iter().map(|word| i256::from_i128(i128::from(*word) << 60)).collect();
    for engine in engines() {
        for nulls in nulls_of(words.len()).into_iter().take(4) {
            let wide = Decimal256Array::new(ScalarBuffer::from(wide.clone()), nulls.clone());
            let mut arrays = vec![texts.clone(), Arc::new(wide) as ArrayRef];
            arrays.extend(TYPES.iter().map(|data_type| array_of(data_type, &words, nulls.clone())));
            for array in arrays {
                for (start, len) in [(0, 1), (1, 2), (3, 5), (7, 33), (31, 1025), (65, 2035)] {
                    let options = Options::default().with_chunk_rows(1024);
                    check(&engine, &array.slice(start, len), &options);
                }
            }
        }
    }
}

/// On average as long as values of a dictionary may be, a little less and a little more.
#[test]
fn strings_as_long_as_dictionaries_take() {
    for engine in engines() {
        for more in [0, 1, 2] {
            let mut texts: Vec<String> =
                (0..64).map(|row| "ab".repeat(512) + &(row % 2).to_string()).collect();
            texts.iter_mut().for_each(|text| _ = text.remove(0));
            texts[5] = "x".repeat(1023 + more);
            let array = Arc::new(StringArray::from_iter_values(&texts)) as ArrayRef;
            check(&engine, &array, &Options::default());
            check(&engine, &array, &only(&[Encoding::Dict, Encoding::Ffor]));
        }
    }
}
