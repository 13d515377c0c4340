//! Every kernel on little data: what compute-sanitizer runs, each launch of which
//! takes it many times as long.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::scan::{Literal, Scan, col};
use lanepack::{Encoding, Engine, Lz, Options, compress, compress_array};

use super::cascades::all_encodings;
use super::common::image::Image;
use super::common::*;
use super::{assert_same, batch_of, check, engines, packed};

#[test]
fn every_type_and_encoding() {
    for engine in engines() {
        for data_type in encoded_types() {
            for shape in Shape::ALL {
                let array = array_of(&data_type, 2100, shape, Nulls::Random);
                check(&engine, &array, &Options::default());
                check(&engine, &array, &all_encodings());
            }
            for encoding in Encoding::ALL {
                let options = Options::default().with_encodings([*encoding]);
                let array = array_of(&data_type, 1300, Shape::Outliers, Nulls::Random);
                check(&engine, &array, &options);
            }
        }
    }
}

#[test]
fn filters() {
    for engine in engines() {
        assert!(super::scan::random_scans(&engine, 100..104, 12) > 10);
    }
}

/// Strings of unequal length under tests of each kind, some of them behind another test.
#[test]
fn filters_of_strings() {
    let text = |i: usize| format!("{} of {}", "lorem ipsum ".repeat(i * i % 23), i % 37);
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter((0..2500).map(|i| (i % 9 > 0).then(|| text(i)))));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..2500));
    let wide: ArrayRef = Arc::new(Decimal128Array::from_iter_values((0..2500).map(|i| i << 70)));
    let batch = RecordBatch::try_from_iter([("s", texts), ("x", numbers), ("d", wide)]).unwrap();
    let filters = [
        col("s").eq(text(3).as_str()),
        col("s").in_list((0..40).map(|i| text(i * 5))),
        col("s").contains("sum  of 1"),
        col("s").like("lorem%_3%").and(col("x").between(300, 1400)),
        col("s").contains("lorem ipsum ".repeat(16).as_str()),
        col("d").lt(Literal::Arrow(Arc::new(Decimal128Array::from_iter_values([1000 << 70])))),
    ];
    for engine in engines() {
        for encoding in [Encoding::Fsst, Encoding::Plain] {
            let options = Options::default().with_encodings([encoding]);
            let packed = compress(&batch, &options).unwrap();
            for filter in &filters {
                let scan = Scan::new(&packed).filter(filter.clone());
                let expected = scan.mask(&Engine::cpu()).unwrap();
                assert!(expected.true_count() > 0, "{filter}");
                assert!(scan.mask(&engine).unwrap() == expected, "{filter}");
            }
        }
    }
}

/// Segments of symbols of each size, with matches near and far, and without any; bytes that end
/// within a word.
#[test]
fn segments() {
    let words = |row: u64| ((row / 40 * row % 97) << 50) | (row % 3);
    let array: ArrayRef = Arc::new(UInt64Array::from_iter_values((0..2100).map(words)));
    let bytes: Vec<u8> = (0..4099).map(|at: u32| (at % 41 / 2 + at / 900) as u8).collect();
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values([bytes]));
    for engine in engines() {
        for level in [3, 5] {
            let lz =
                Lz::default().with_level(level).with_symbol_bytes(1).with_segment_symbols(1024);
            super::lz::of_lz(&bytes, &super::lz::only(lz));
            super::check(&engine, &bytes, &super::lz::only(lz));
        }
        for symbol_bytes in [1, 2, 4, 8] {
            for level in [2, 5] {
                let lz = Lz::default()
                    .with_level(level)
                    .with_symbol_bytes(symbol_bytes)
                    .with_segment_symbols(1024);
                super::check(&engine, &array, &super::lz::only(lz));
            }
        }
    }
}

#[test]
fn kernels_of_users() {
    engines().iter().for_each(|engine| super::kernels::in_order(engine, 10));
}

#[test]
fn chunks_at_odd_places() {
    for engine in engines() {
        for data_type in encoded_types() {
            let parts = [3, 1100, 1, 2048].map(|len| {
                let array = array_of(&data_type, len, Shape::Outliers, Nulls::Random);
                let options = if len % 2 == 0 { all_encodings() } else { Options::default() };
                packed(&compress_array(&array, &options).unwrap())
            });
            let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
            let expected = lanepack::decompress(&joined).unwrap();
            let back = engine.decompress(&joined).unwrap();
            assert_same(back.column(0), expected.column(0), || data_type.to_string());
        }
    }
}

#[test]
fn exceptions_and_long_strings() {
    let values = (0..3000).map(|row| if row % 37 == 5 { f64::NAN } else { row as f64 / 100.0 });
    let doubles: ArrayRef = Arc::new(Float64Array::from_iter_values(values.clone()));
    let floats: ArrayRef = Arc::new(Float32Array::from_iter_values(values.map(|v| v as f32)));
    let long = |i: usize| "lorem ipsum dolor sit amet ä ".repeat(i % 90);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..400).map(long)));
    for engine in engines() {
        for array in [&doubles, &floats, &texts] {
            check(&engine, array, &Options::default());
        }
    }
}

#[test]
fn damaged_codes() {
    let array = array_of(&DataType::Utf8, 1100, Shape::Narrow, Nulls::None);
    let whole = Image::with(&array, Encoding::Fsst);
    let mut rng = Rng(9);
    for engine in engines() {
        let mut errors = 0;
        for _ in 0..20 {
            let mut image = whole.clone();
            image.change(|tree| {
                for _ in 0..3 {
                    let at = rng.below(tree.buffers[1].len() as u64) as usize;
                    tree.buffers[1][at] = rng.next() as u8;
                }
            });
            let packed = batch_of(image.field.clone(), image.storage());
            errors += usize::from(engine.decompress(&packed).is_err());
        }
        assert!(errors > 0);
        check(&engine, &array, &Options::default());
    }
}

/// Divisors, quotients of every encoding, and bits as bytes, in chunks at odd places.
#[test]
fn multiples_and_rare_nulls() {
    let few = |encodings: &[Encoding]| Options::default().with_encodings(encodings.iter().copied());
    let value = |row: usize| (row * row % 500 + if row % 400 == 7 { 1 << 20 } else { 0 }) * 1000;
    let sets = [
        few(&[Encoding::Gcd, Encoding::Ffor, Encoding::Bits, Encoding::Pfor]),
        few(&[Encoding::Gcd, Encoding::Ffor, Encoding::Bits, Encoding::Rle]),
        Options::default(),
    ];
    let growing = few(&[Encoding::Gcd, Encoding::Delta, Encoding::Ffor, Encoding::Pfor]);
    for engine in engines() {
        for options in &sets {
            let parts = [3, 2600, 1, 2100].map(|len| {
                let rare = |row: usize| (row % 1301 != 5).then(|| value(row));
                let (small, wide) = ((0..len).map(rare), (0..len).map(rare));
                let arrays: [ArrayRef; 3] = [
                    Arc::new(UInt32Array::from_iter(small.map(|v| v.map(|v| v as u32)))),
                    Arc::new(Int64Array::from_iter(wide.map(|v| v.map(|v| 7 - v as i64)))),
                    Arc::new(BooleanArray::from_iter((0..len).map(|row| Some(row / 900 % 2 == 0)))),
                ];
                for array in &arrays {
                    check(&engine, array, options);
                }
                // Quotients that are no packed words are multiplied by a kernel of their own.
                let step = |row: usize| (row * 60 + row * row % 7) as i64 * 60_000;
                let steps = Int64Array::from_iter_values((0..len).map(step));
                check(&engine, &(Arc::new(steps) as ArrayRef), &growing);
                let named = ["small", "wide", "flags"].into_iter().zip(arrays);
                let named = named.map(|(name, array)| (name, array, true));
                let batch = RecordBatch::try_from_iter_with_nullable(named).unwrap();
                compress(&batch, options).unwrap()
            });
            let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
            let expected = lanepack::decompress(&joined).unwrap();
            let back = engine.decompress(&joined).unwrap();
            for (found, expected) in back.columns().iter().zip(expected.columns()) {
                assert_same(found, expected, || expected.data_type().to_string());
            }
            let filter =
                col("small").is_null().or(col("flags").eq(true).and(col("wide").lt(-9000)));
            let scan = Scan::new(&joined).filter(filter);
            assert!(scan.mask(&engine).unwrap() == scan.mask(&Engine::cpu()).unwrap());
        }
    }
}

/// Strings that are front-coded, those of a dictionary among them.
#[test]
fn front_coding() {
    let path = |row: usize| match row {
        0..1024 => (!row.is_multiple_of(9)).then(|| format!("/usr/share/doc/{:05}", row / 2)),
        _ => Some(format!("https://example.org/items/{:05}", row * 7919 % 60)),
    };
    let paths: ArrayRef = Arc::new(StringArray::from_iter((0..1500).map(path)));
    let options = all_encodings().with_chunk_rows(1024);
    let encoding = compress_array(&paths, &options).unwrap().encoding().to_string();
    assert!(encoding.contains("front(") && encoding.contains("dict("), "{encoding}");
    for engine in engines() {
        check(&engine, &paths, &options);
    }
}
