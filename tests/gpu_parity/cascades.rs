//! Cascades: encodings of children of other encodings, and those with exceptions, on a device
//! as on the CPU.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::scan::{Literal, Scan, col};
use lanepack::{CompressedColumn, Encoding, Engine, Options, compress_array};

use super::common::image::Image;
use super::common::*;
use super::{assert_same, engines, packed, thinned};

pub fn all_encodings() -> Options {
    Options::default().with_encodings(Encoding::ALL.iter().copied())
}

/// Compresses, and decompresses on a device, which must not leave it to the CPU.
#[track_caller]
fn check(engine: &Engine, array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    let uploaded = engine.upload(&packed(&column)).unwrap();
    let back = uploaded.decompress().unwrap().remove(0).to_host().unwrap();
    assert_same(&back, array, || format!("{} on {:?}", column.explain(), engine.device()));
    column
}

/// The same, of a column that is encoded so.
#[track_caller]
fn check_tree(engine: &Engine, array: impl Array + 'static, options: &Options, tree: &str) {
    let column = check(engine, &(Arc::new(array) as ArrayRef), options);
    assert_eq!(column.encoding().to_string(), tree, "{}", column.explain());
}

/// Numbers that grow by little, and at times by much.
fn walk(len: usize, step: u64, gaps: bool) -> impl Iterator<Item = u64> {
    let mut rng = Rng(3);
    let mut value = 0_u64;
    (0..len).map(move |row| {
        let gap = if gaps && row % 300 == 7 { 1 << 40 } else { 0 };
        value = value.wrapping_add(rng.below(step.max(1)) + 1000 + gap);
        value
    })
}

#[test]
fn deltas_of_every_type_and_width() {
    let options = Options::default().with_encodings([
        Encoding::Delta,
        Encoding::Ffor,
        Encoding::Constant,
        Encoding::Pfor,
    ]);
    for engine in engines() {
        for len in [1026, 2048, 3000, 9000] {
            let even = (0..len as i64).map(|i| i * 977 - 5);
            check_tree(&engine, Int64Array::from_iter_values(even), &options, "delta(constant)");
            for bits in [0, 1, 7, 20] {
                let values = || walk(len, 1 << bits, false);
                let wide = UInt64Array::from_iter_values(values());
                let narrow = Int32Array::from_iter_values(values().map(|value| value as i32));
                check(&engine, &(Arc::new(wide) as ArrayRef), &options);
                check(&engine, &(Arc::new(narrow) as ArrayRef), &options);
            }
            let gaps = Int64Array::from_iter_values(walk(len, 5, true).map(|value| value as i64));
            check_tree(&engine, gaps, &options, "delta(pfor)");
            let halves = walk(len, 3, false).map(|value| value as u16 ^ 0x5555);
            check(
                &engine,
                &(Arc::new(UInt16Array::from_iter_values(halves)) as ArrayRef),
                &options,
            );
            let wrapping = (0..len).map(|i| (i * 31 + i * i % 3) as i8);
            let wrapping = Int8Array::from_iter_values(wrapping);
            check_tree(&engine, wrapping, &options, "delta(ffor)");
        }
        // Nulls: what stands there leads to the values behind.
        for nulls in Nulls::ALL {
            let values = walk(5000, 100, false).map(|value| value as i64).collect::<Vec<_>>();
            let values = Int64Array::new(values.into(), nulls.bitmap(5000));
            check(&engine, &(Arc::new(values) as ArrayRef), &options);
        }
    }
}

#[test]
fn exceptions_of_integers() {
    let options = Options::default().with_encodings([Encoding::Pfor]);
    for engine in engines() {
        let mut rng = Rng(4);
        for every in [2, 10, 200, 2000] {
            let mut values = |bits: u32| -> Vec<u64> {
                let mut value = |row| match (row + 1) % every {
                    0 => rng.next() >> (64 - bits),
                    _ => rng.below(4) + 3,
                };
                (0..9100).map(&mut value).collect()
            };
            macro_rules! check_all {
                ($($array:ident $value:ty, $bits:expr;)*) => {$({
                    let values = values($bits).into_iter().map(|value| value as $value);
                    check(&engine, &(Arc::new($array::from_iter_values(values)) as ArrayRef), &options);
                })*};
            }
            check_all! {
                Int8Array i8, 8; UInt8Array u8, 8; Int16Array i16, 16; UInt16Array u16, 16;
                Int32Array i32, 32; UInt32Array u32, 32; Int64Array i64, 64; UInt64Array u64, 64;
            }
        }
        let mostly = (0..5000_i64).map(|row| if row % 700 == 9 { row << 33 } else { 77 });
        check_tree(&engine, Int64Array::from_iter_values(mostly), &options, "pfor");
        let mostly = (0..5000_u64).map(|row| if row % 70 == 9 { row as u8 } else { 77 });
        check_tree(&engine, UInt8Array::from_iter_values(mostly), &options, "pfor");
    }
}

#[test]
fn real_doubles_and_floats() {
    let options = Options::default().with_encodings([Encoding::AlpRd]);
    for engine in engines() {
        let mut rng = Rng(5);
        let mut real = || 1.0 + (rng.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let doubles: Vec<f64> = (0..5000).map(|_| real()).collect();
        check_tree(&engine, Float64Array::from(doubles.clone()), &options, "alp_rd");
        let strange = doubles.iter().enumerate().map(|(row, value)| match row % 250 {
            3 => f64::NAN,
            4 => -value * 1e200,
            _ => *value,
        });
        check_tree(&engine, Float64Array::from_iter_values(strange), &options, "alp_rd");
        let floats = doubles.iter().map(|value| *value as f32);
        check_tree(&engine, Float32Array::from_iter_values(floats), &options, "alp_rd");
        // Widened from 16 bits, and from 32.
        let bits = doubles.iter().map(|value| f32::from_bits((*value as f32).to_bits() & !0xffff));
        check_tree(&engine, Float32Array::from_iter_values(bits), &options, "alp_rd");
        let widened = doubles.iter().map(|value| f64::from(*value as f32));
        check_tree(&engine, Float64Array::from_iter_values(widened), &options, "alp_rd");
    }
}

#[test]
fn dictionaries_of_numbers() {
    let options = all_encodings();
    for engine in engines() {
        let mut rng = Rng(6);
        for distinct in [3, 200, 900] {
            let words: Vec<u64> = (0..distinct).map(|_| rng.next()).collect();
            let codes: Vec<usize> = (0..7000).map(|_| rng.below(distinct) as usize).collect();
            let values = || codes.iter().map(|code| words[*code]);
            let wide = UInt64Array::from_iter_values(values());
            let column = check(&engine, &(Arc::new(wide) as ArrayRef), &options);
            assert!(
                column.encoding().to_string().starts_with("dict(ffor"),
                "{}",
                column.encoding()
            );
            let narrow = Int32Array::from_iter_values(values().map(|value| value as i32));
            check(&engine, &(Arc::new(narrow) as ArrayRef), &options);
            let cents = codes.iter().map(|code| *code as f64 * 1e6 + 0.01);
            check(
                &engine,
                &(Arc::new(Float64Array::from_iter_values(cents)) as ArrayRef),
                &options,
            );
        }
        let few = Options::default().with_encodings([Encoding::Dict, Encoding::Ffor]);
        let shorts = (0..5000).map(|row| [7_u16, 60_000, 9_000][row * row % 3]);
        check_tree(&engine, UInt16Array::from_iter_values(shorts), &few, "dict(ffor, plain)");
        let bytes = (0..5000).map(|row| [7_i8, -100, 90][row * row % 3]);
        check_tree(&engine, Int8Array::from_iter_values(bytes), &few, "dict(ffor, plain)");
        // Codes that grow: scratch below scratch.
        let delta = Options::default().with_encodings([
            Encoding::Dict,
            Encoding::Delta,
            Encoding::Ffor,
            Encoding::Constant,
        ]);
        let sorted = (0..9000_u64).map(|row| (row / 3).pow(3) << 20);
        let column =
            check(&engine, &(Arc::new(UInt64Array::from_iter_values(sorted)) as ArrayRef), &delta);
        assert!(column.encoding().to_string().starts_with("dict(delta("), "{}", column.encoding());
    }
}

/// A text for each row, of few: an index into them.
fn picked(words: &[&str], rows: usize, mut pick: impl FnMut(usize) -> usize) -> Vec<Vec<u8>> {
    (0..rows).map(|row| words[pick(row) % words.len()].as_bytes().to_vec()).collect()
}

#[test]
fn dictionaries_of_strings() {
    let long = "long ".repeat(300);
    let words: [&[&str]; 4] = [
        &["alpha", "beta", "gamma ray", "delta"],
        &["", "a", "b"],
        &["x", "", &long, "€uro and ünicode", "just above sixteen bytes"],
        &["the same length", "for all of them", "fifteen letters"],
    ];
    for engine in engines() {
        let mut rng = Rng(7);
        for words in words {
            for rows in [1025, 3000, 9000] {
                let values = picked(words, rows, |_| rng.below(100) as usize);
                for data_type in [
                    DataType::Utf8,
                    DataType::LargeUtf8,
                    DataType::Utf8View,
                    DataType::Binary,
                    DataType::BinaryView,
                ] {
                    for nulls in [Nulls::None, Nulls::Random] {
                        let array = strings(&data_type, &values, nulls);
                        let options = all_encodings().with_chunk_rows(4096);
                        let column = check(&engine, &array, &options);
                        assert!(
                            column.encoding().to_string().contains("dict"),
                            "{}",
                            column.encoding()
                        );
                    }
                }
            }
        }
        let fixed = picked(words[3], 3000, |_| rng.below(100) as usize);
        check(
            &engine,
            &strings(&DataType::FixedSizeBinary(15), &fixed, Nulls::Random),
            &all_encodings(),
        );
    }
}

/// Lengths and limbs that are cascades themselves.
#[test]
fn children_of_strings_and_of_wide_decimals() {
    for engine in engines() {
        let mut rng = Rng(8);
        let values: Vec<Vec<u8>> = (0..5000)
            .map(|row| {
                let len = if row % 300 == 0 { 200 + rng.below(1000) } else { 3 };
                (0..len).map(|_| b"abcdefgh"[rng.below(8) as usize]).collect()
            })
            .collect();
        for encodings in [[Encoding::Fsst, Encoding::Pfor], [Encoding::Plain, Encoding::Pfor]] {
            let options = Options::default().with_encodings(encodings);
            let column = check(&engine, &strings(&DataType::Utf8, &values, Nulls::None), &options);
            assert!(column.encoding().to_string().contains("pfor"), "{}", column.encoding());
        }
        for (bits, tree) in [(20, "limbs(delta(ffor))"), (90, "limbs(")] {
            let decimals = walk(5000, 4, false).map(|value| i128::from(value) << (bits - 20));
            let decimals = Decimal128Array::from_iter_values(decimals);
            let decimals = decimals.with_precision_and_scale(38, 2).unwrap();
            let column = check(&engine, &(Arc::new(decimals) as ArrayRef), &all_encodings());
            assert!(column.encoding().to_string().starts_with(tree), "{}", column.encoding());
        }
    }
}

#[test]
fn every_type_size_and_null_pattern() {
    for engine in engines() {
        let mut case = 0;
        for data_type in encoded_types() {
            for len in [1, 63, 1023, 1024, 1025, 3000] {
                for shape in Shape::ALL {
                    for nulls in Nulls::ALL {
                        case += 1;
                        if !thinned(&engine, case, 3) {
                            check(
                                &engine,
                                &array_of(&data_type, len, shape, nulls),
                                &all_encodings(),
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Chunks of all encodings that begin anywhere.
#[test]
fn concatenations_of_chunks() {
    for engine in engines() {
        for data_type in encoded_types() {
            for shape in Shape::ALL {
                let parts: Vec<ArrayRef> = [1, 2125, 5, 1500]
                    .map(|len| array_of(&data_type, len, shape, Nulls::Random))
                    .into();
                let packed: Vec<RecordBatch> = (parts.iter())
                    .map(|part| {
                        packed(
                            &compress_array(part, &all_encodings().with_chunk_rows(2048)).unwrap(),
                        )
                    })
                    .collect();
                let joined =
                    arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                let expected = arrow_select::concat::concat(&parts).unwrap();
                let uploaded = engine.upload(&joined).unwrap();
                let back = uploaded.decompress().unwrap().remove(0).to_host().unwrap();
                assert_same(&back, &expected, || format!("{data_type} {shape:?}"));
            }
        }
    }
}

/// Chunks of one column that each have another encoding, at odd rows, under filters of one
/// column and of two, and gathered.
#[test]
fn scans_of_chunks_of_different_encodings() {
    let mut rng = Rng(9);
    let mut real = |row: usize| match row % 400 {
        7 => f64::from_bits(0x7ff8_0000_0000_1234),
        _ => 1.0 + (rng.next() >> 11) as f64 / (1_u64 << 53) as f64,
    };
    let parts: Vec<Vec<f64>> = vec![
        (0..1501).map(|row| [1.5, -7e300, 0.1 + 0.2, -0.0][row * 7 % 4]).collect(),
        (0..1025).map(|row| row as f64 / 100.0).collect(),
        (0..2003).map(&mut real).collect(),
        vec![2.5; 33],
        (0..3000).map(|row| (row / 500) as f64 * 1e-7 + 1.0).collect(),
    ];
    let encodings =
        [Encoding::Dict, Encoding::Alp, Encoding::AlpRd, Encoding::Constant, Encoding::Rle];
    let part = |(values, encoding): (&Vec<f64>, Encoding)| {
        let is_valid = |row: usize| row > 0 && row + 1 < values.len() && row % 50 != 3;
        let nulls = (0..values.len()).map(|row| encoding == Encoding::Alp || is_valid(row));
        let nulls = arrow_buffer::NullBuffer::from_iter(nulls);
        let numbers: ArrayRef = Arc::new(Float64Array::new(values.clone().into(), Some(nulls)));
        let rows = Int32Array::from_iter_values(0..values.len() as i32);
        let options = Options::default().with_encodings([encoding, Encoding::Ffor]);
        let batch = RecordBatch::try_from_iter([("x", numbers), ("n", Arc::new(rows) as ArrayRef)]);
        let packed = lanepack::compress(&batch.unwrap(), &options).unwrap();
        let column = lanepack::columns(&packed).unwrap().remove(0);
        assert!(column.encoding().to_string().starts_with(encoding.name()), "{}", column.explain());
        packed
    };
    let packed: Vec<RecordBatch> = parts.iter().zip(encodings).map(part).collect();
    let joined = arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
    let x = || col("x");
    let filters = [
        x().lt(1.5),
        x().eq(0.1 + 0.2),
        x().not_eq(2.5),
        x().in_list([1.5, 2.5, 3.25]),
        x().is_null(),
        x().between(1.0, 1.25).and(col("n").gt(100)),
        x().gt(2.0).or(col("n").lt(40)),
    ];
    for engine in engines() {
        let on_device = engine.upload(&joined).unwrap();
        for filter in &filters {
            let expected = Scan::new(&joined).filter(filter.clone());
            let scan = Scan::on_device(&on_device).filter(filter.clone());
            let mask = expected.mask(&Engine::cpu()).unwrap();
            assert!(mask.true_count() > 0, "{filter}");
            assert!(scan.mask(&engine).unwrap() == mask, "{filter} on {:?}", engine.device());
            let kept = expected.gather(&["x"], &Engine::cpu()).unwrap();
            let found = scan.gather(&["x"], &engine).unwrap();
            assert_same(found.column(0), kept.column(0), || filter.to_string());
        }
    }
}

#[test]
fn all_shared_files() {
    for engine in engines() {
        let emulated = engine.device().is_some_and(|device| device.name.contains("emulation"));
        for path in shared_files() {
            let whole = read_parquet(&path);
            let rows = if emulated { 4000 } else { whole.num_rows() };
            let batch = whole.slice(0, rows.min(whole.num_rows()));
            for column in batch.columns().iter().filter(|column| !is_carried(column.data_type())) {
                check(&engine, column, &all_encodings().with_chunk_rows(65_536));
            }
        }
    }
}

/// Whether only the CPU reads values of a type.
fn is_carried(data_type: &DataType) -> bool {
    data_type.is_nested()
        || matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
        || data_type.is_null()
}

#[test]
fn codes_without_a_value_are_errors() {
    for engine in engines() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(|i| i % 7)));
        let words = ["alpha", "beta", "gamma ray", "delta"];
        let text = StringArray::from_iter_values((0..1500).map(|row| words[row % 4]));
        for (array, codes) in [(numbers, 0), (Arc::new(text) as ArrayRef, 1)] {
            let mut image = Image::with(&array, Encoding::Dict);
            image.change(|tree| {
                let codes_are = tree.buffers[codes].len();
                assert_eq!(codes_are, 6000, "plain codes");
                tree.set_word(codes, 1100, 77);
            });
            let packed = super::batch_of(image.field.clone(), image.storage());
            let uploaded = engine.upload(&packed).unwrap();
            let expected = lanepack::decompress(&packed).unwrap_err().to_string();
            assert!(expected.contains("code 77 of a dictionary"), "{expected}");
            assert_eq!(uploaded.decompress().unwrap_err().to_string(), expected);
            // Scans look at all codes once.
            let literal = Literal::Arrow(array.slice(0, 1));
            let scan = Scan::on_device(&uploaded).filter(col("price").eq(literal));
            assert_eq!(scan.mask(&engine).unwrap_err().to_string(), expected);
            assert_eq!(scan.gather(&["price"], &engine).unwrap_err().to_string(), expected);
        }
    }
}

#[test]
fn runs_that_do_not_add_up_are_errors() {
    for engine in engines() {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(|i| i / 100)));
        let intact = Image::with(&array, Encoding::Rle);
        // Lengths of the runs of the second vector: 76, 100, ...
        let lengths = intact.tree().buffers.len() - 1;
        for (run, length) in [(0, 5_u16), (1, 0), (3, 101), (11, 1), (15, 101), (15, u16::MAX)] {
            let mut image = intact.clone();
            image.change(|tree| {
                assert_eq!(tree.buffers[lengths].len(), 32, "16 plain lengths");
                tree.buffers[lengths][run * 2..][..2].copy_from_slice(&length.to_le_bytes());
            });
            let packed = super::batch_of(image.field.clone(), image.storage());
            let expected = lanepack::decompress(&packed).unwrap_err().to_string();
            assert!(expected.contains("runs of vector"), "{run} {length}: {expected}");
            let error = engine.upload(&packed).unwrap().decompress().unwrap_err().to_string();
            assert_eq!(error, expected, "{run} {length}");
        }
    }
}

#[test]
fn runs_without_their_bits_are_errors() {
    for engine in engines() {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(|i| i / 2)));
        let intact = Image::with(&array, Encoding::Rle);
        for (byte, bits) in [(0, 0b0101_0100), (0, 0b0101_0111), (127, 0), (128, 0), (187, 0)] {
            let mut image = intact.clone();
            image.change(|tree| {
                assert_eq!(tree.buffers[1].len(), 188, "a bit for each value");
                tree.buffers[1][byte] = bits;
            });
            let packed = super::batch_of(image.field.clone(), image.storage());
            let expected = lanepack::decompress(&packed).unwrap_err().to_string();
            assert!(expected.contains("vector 0") || expected.contains("vector 1"), "{expected}");
            let error = engine.upload(&packed).unwrap().decompress().unwrap_err().to_string();
            assert_eq!(error, expected, "{byte} {bits}");
        }
    }
}
