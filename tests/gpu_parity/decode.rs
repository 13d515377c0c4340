//! Decompression by kernels that have several ways: dictionaries that blocks have in shared memory,
//! wholly or in part, vectors of few and of many runs, codes that are runs, and what is damaged there.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use lanepack::{Encoding, Engine, Error, Options, compress_array};

use super::common::Rng;
use super::common::image::Image;
use super::integers::{array_of, only};
use super::{assert_same, batch_of, engines, packed};

/// Compresses an array on the CPU, decompresses it on a device, and gives its encodings: once as it
/// is and once in parts, whose chunks begin at odd rows.
#[track_caller]
fn decoded(engine: &Engine, array: &ArrayRef, options: &Options) -> String {
    let column = compress_array(array, options).unwrap();
    let parts = [1_001, 2_002, array.len()];
    let parts = parts.iter().scan(0, |from, len| {
        let len = (*len).min(array.len() - *from);
        *from += len;
        (len > 0).then(|| packed(&compress_array(&array.slice(*from - len, len), options).unwrap()))
    });
    let parts: Vec<RecordBatch> = parts.collect();
    let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
    for batch in [packed(&column), joined] {
        let uploaded = engine.upload(&batch).unwrap();
        let back = uploaded.decompress().unwrap().remove(0).to_host().unwrap();
        assert_same(&back, array, || format!("{} on {:?}", column.explain(), engine.device()));
    }
    column.encoding().to_string()
}

fn widths() -> [DataType; 4] {
    [DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64]
}

#[test]
fn dictionaries_of_every_size_are_read() {
    let options = Options::default();
    for engine in engines() {
        let mut rng = Rng(31);
        // 8 KB of values, more than that, and more than shared memory of the emulation has.
        for count in [1_000_u64, 1_025, 2_049, 5_000, 12_500] {
            let values: Vec<u64> = (0..count).map(|_| rng.next()).collect();
            let rows = if count < 5_000 { 12_345 } else { 131_072 };
            let words: Vec<u64> = (0..rows).map(|_| values[rng.below(count) as usize]).collect();
            let nulls = NullBuffer::from_iter((0..rows).map(|row| row % 7 != 3));
            for data_type in [DataType::UInt32, DataType::Int64] {
                for nulls in [None, Some(nulls.clone())] {
                    let array = array_of(&data_type, &words, nulls);
                    let encoding = decoded(&engine, &array, &options);
                    let is_wide = data_type == DataType::Int64;
                    assert!(!is_wide || encoding.contains("dict("), "{count}: {encoding}");
                }
            }
        }
    }
}

#[test]
fn codes_with_exceptions_are_looked_up() {
    // Mostly one of four values, of many.
    let options = only(&[Encoding::Dict, Encoding::Pfor]);
    for engine in engines() {
        let mut rng = Rng(32);
        let values: Vec<u64> = (0..2_500).map(|_| rng.next()).collect();
        let mut pick = |row: usize| match row % 40 {
            7 => values[rng.below(2_500) as usize],
            _ => values[row * row % 4],
        };
        let words: Vec<u64> = (0..20_000).map(&mut pick).collect();
        for data_type in [DataType::UInt16, DataType::UInt32, DataType::UInt64] {
            let array = array_of(&data_type, &words, None);
            let encoding = decoded(&engine, &array, &options);
            assert!(encoding.starts_with("dict(pfor"), "{encoding}");
        }
    }
}

#[test]
fn runs_of_every_number_are_spread() {
    let options = only(&[Encoding::Rle, Encoding::Ffor, Encoding::Pfor]);
    let lengths_of = |most: u64| {
        let mut rng = Rng(most);
        move || 1 + rng.below(most)
    };
    for engine in engines() {
        let mut found: Vec<String> = Vec::new();
        // Up to 1,024 runs a vector, and down to one.
        for most in [2, 3, 7, 40, 3_000] {
            // Values of any bits, of few, and with exceptions.
            for kind in 0..3 {
                let (mut length, mut left, mut value) = (lengths_of(most), 0, 0);
                let mut rng = Rng(33 + kind);
                let words: Vec<u64> = (0..11_111)
                    .map(|_| {
                        if left == 0 {
                            left = length();
                            let is_exception = rng.below(60) == 0;
                            value = match kind {
                                1 => value ^ (1 + rng.below(60)),
                                2 if !is_exception => 5 + (value + 1 + rng.below(200)) % 240,
                                _ => rng.next(),
                            };
                        }
                        left -= 1;
                        value
                    })
                    .collect();
                for data_type in widths() {
                    let array = array_of(&data_type, &words, None);
                    found.push(decoded(&engine, &array, &options));
                }
            }
        }
        // Values as they are, packed, and with exceptions, of runs marked by lengths and by bits.
        for values in ["plain", "ffor", "pfor"] {
            for end in [")", ", "] {
                let tree = format!("rle({values}{end}");
                let has = |encoding: &String| encoding.starts_with(&tree);
                assert!(found.iter().any(has), "no {tree} among {found:?}");
            }
        }
    }
}

#[test]
fn codes_of_runs_are_looked_up_once_a_run() {
    let options = only(&[Encoding::Dict, Encoding::Rle, Encoding::Ffor, Encoding::Pfor]);
    for engine in engines() {
        let mut rng = Rng(34);
        // Few runs, whose codes are looked up, and many, whose codes are spread first.
        for (count, longest) in [(300_u64, 12), (300, 5), (6_000, 12), (6_000, 5)] {
            let values: Vec<u64> = (0..count).map(|_| rng.next()).collect();
            let (mut left, mut value) = (0, 0);
            let words: Vec<u64> = (0..60_000)
                .map(|_| {
                    if left == 0 {
                        (left, value) = (1 + rng.below(longest), values[rng.below(count) as usize]);
                    }
                    left -= 1;
                    value
                })
                .collect();
            for data_type in [DataType::UInt16, DataType::UInt32, DataType::UInt64] {
                let array = array_of(&data_type, &words, None);
                let encoding = decoded(&engine, &array, &options);
                let is_wide = data_type == DataType::UInt64;
                assert!(!is_wide || encoding.contains("dict(rle("), "{encoding}");
            }
        }
    }
}

#[test]
fn deltas_of_every_width_are_added_up() {
    // Of 32 bits and more deltas are read one by one.
    for engine in engines() {
        for width in [1, 5, 8, 13, 17, 24, 25, 31, 32, 33, 40, 63] {
            for exceptions in [false, true] {
                let allowed = [Encoding::Delta, Encoding::Ffor, Encoding::Pfor];
                let options = only(&allowed[..2 + usize::from(exceptions)]);
                let mut rng = Rng(35);
                let mut sum = rng.next();
                let words: Vec<u64> = (0..5_333)
                    .map(|row| {
                        let is_exception = exceptions && row % 97 == 5;
                        let step =
                            if is_exception { rng.next() } else { rng.next() >> (64 - width) };
                        sum = sum.wrapping_add(step);
                        sum
                    })
                    .collect();
                for data_type in [DataType::UInt32, DataType::Int64] {
                    decoded(&engine, &array_of(&data_type, &words, None), &options);
                }
            }
        }
    }
}

#[test]
fn bitmaps_begin_at_any_bit() {
    for engine in engines() {
        let mut rng = Rng(36);
        for rows in [1, 31, 127, 128, 129, 1_000, 1_001, 1_128, 5_001, 20_000] {
            let flags: Vec<bool> = (0..rows).map(|_| rng.below(3) == 0).collect();
            let array: ArrayRef = Arc::new(BooleanArray::from(flags));
            decoded(&engine, &array, &Options::default());
        }
    }
}

#[test]
fn text_that_is_wrong_anywhere_is_an_error() {
    // A thread looks at 32 bytes: every place of these, and every kind of mistake.
    let text = "añ中文𝄞é😀한글ab".repeat(9);
    let wrong: [&[u8]; 9] = [
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\x80",
        b"\xed\xa0\x80",
        b"\xf0\x8f\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xe4\xb8a",
        b"\x80",
    ];
    for engine in engines() {
        for shift in 0..36 {
            let value = "x".repeat(shift) + &text;
            let values = [value.as_str(), "", "ok", value.as_str()];
            let array: ArrayRef = Arc::new(StringArray::from_iter_values(values));
            let image = Image::with(&array, Encoding::Plain);
            let batch = batch_of(image.field.clone(), image.storage());
            let back = engine.decompress(&batch).unwrap();
            assert_same(back.column(0), &array, || format!("behind {shift} bytes"));
            for (kind, bytes) in wrong.iter().enumerate() {
                // Between characters, and the last bytes of the first value.
                for at in [shift + kind % 2, value.len() - bytes.len()] {
                    let mut damaged = Image::with(&array, Encoding::Plain);
                    damaged.change(|tree| {
                        tree.buffers[0][at..at + bytes.len()].copy_from_slice(bytes)
                    });
                    let batch = batch_of(damaged.field.clone(), damaged.storage());
                    let what = format!("{bytes:x?} behind {at} bytes");
                    let error = lanepack::decompress(&batch).expect_err(&what);
                    assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error}");
                    let error = engine.decompress(&batch).expect_err(&what);
                    assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error}");
                }
            }
        }
    }
}
