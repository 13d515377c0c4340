//! Values of kept rows on a device are those that the CPU gives.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use lanepack::scan::{Expr, Scan, col};
use lanepack::{Encoding, Engine, Error, Options, compress};

use super::common::image::Image;
use super::common::{Nulls, Rng, Shape, array_of, carried_arrays, encoded_types, strings};
use super::{assert_same, engines, thinned};

/// A column of row numbers beside one to be gathered.
fn beside(array: &ArrayRef) -> RecordBatch {
    let rows: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..array.len() as u32));
    RecordBatch::try_from_iter([("row", rows), ("price", array.clone())]).unwrap()
}

/// Filters that keep no row, all, runs, few and many.
fn filters(rows: usize, rng: &mut Rng) -> Vec<Expr> {
    let mut some = |count: u64| {
        let list: Vec<i64> = (0..count).map(|_| rng.below(rows as u64 + 1) as i64).collect();
        col("row").in_list(list)
    };
    vec![
        col("row").lt(0),
        col("row").gt_eq(0),
        col("row").between(rows as i64 / 3, rows as i64 / 2),
        some(1),
        some(30),
        !some(300),
        !col("row").eq(rows as i64 - 1),
    ]
}

#[track_caller]
fn check(engine: &Engine, packed: &RecordBatch, filters: &[Expr]) {
    let on_device = engine.upload(packed).unwrap();
    for filter in filters {
        let names = ["price", "row"];
        let expected =
            Scan::new(packed).filter(filter.clone()).gather(&names, &Engine::cpu()).unwrap();
        let scan = Scan::on_device(&on_device).filter(filter.clone());
        let found = scan.gather(&names, engine).unwrap();
        assert_eq!(found.schema(), expected.schema());
        for (found, expected) in found.columns().iter().zip(expected.columns()) {
            let what = || format!("{filter} of {} on {:?}", packed.num_rows(), engine.device());
            assert_same(found, expected, what);
        }
    }
}

#[test]
fn values_of_every_type_and_encoding() {
    for engine in engines() {
        let mut rng = Rng(41);
        let mut case = 0;
        for data_type in encoded_types() {
            for shape in Shape::ALL {
                for (nulls, rows) in [
                    (Nulls::None, 3000),
                    (Nulls::Random, 2100),
                    (Nulls::Vectors, 2500),
                    (Nulls::All, 40),
                ] {
                    for encodings in [Encoding::ON_GPUS, Encoding::ALL, &[Encoding::Plain]] {
                        let filters = filters(rows, &mut rng);
                        case += 1;
                        if thinned(&engine, case, 5) {
                            continue;
                        }
                        let array = array_of(&data_type, rows, shape, nulls);
                        let options = Options::default()
                            .with_chunk_rows([1024, 2048, 131_072][case % 3])
                            .with_encodings(encodings.iter().copied());
                        let packed = compress(&beside(&array), &options).unwrap();
                        check(&engine, &packed, &filters);
                    }
                }
            }
        }
    }
}

/// Exceptions in every place, kept and not, more of them than threads.
#[test]
fn exceptions_are_kept() {
    let mut rng = Rng(42);
    for every in [7, 40, 3] {
        let value = |row: u64, rng: &mut Rng| match rng.below(every) {
            0 => [f64::NAN, -0.0, f64::INFINITY, 1e300, 0.1 + 0.2][rng.below(5) as usize],
            _ => (row % 900) as f64 / 100.0,
        };
        let values: Vec<f64> = (0..3000).map(|row| value(row, &mut rng)).collect();
        let doubles: ArrayRef = Arc::new(Float64Array::from(values.clone()));
        let floats: ArrayRef =
            Arc::new(Float32Array::from_iter_values(values.iter().map(|value| *value as f32)));
        for engine in engines() {
            for array in [&doubles, &floats] {
                let options = Options::default().with_encodings([Encoding::Alp, Encoding::Ffor]);
                let packed = compress(&beside(array), &options).unwrap();
                check(&engine, &packed, &filters(3000, &mut rng));
            }
        }
    }
}

/// Strings of all lengths, escapes and empty ones, and all of the bytes at which runs meet.
#[test]
fn strings_of_every_length() {
    let mut rng = Rng(43);
    let value = |row: usize, rng: &mut Rng| -> Vec<u8> {
        let len = match row % 11 {
            0 => 0,
            1 => 250 + rng.below(12),
            2 if row.is_multiple_of(5) => rng.below(5000),
            _ => rng.below(20),
        };
        let is_text = rng.below(3) > 0;
        let byte = |at: u64, rng: &mut Rng| match is_text {
            true => b"the quick brown fox "[at as usize % 20],
            false => rng.next() as u8,
        };
        (0..len).map(|at| byte(at, rng)).collect()
    };
    let values: Vec<Vec<u8>> = (0..3300).map(|row| value(row, &mut rng)).collect();
    for engine in engines() {
        for data_type in [DataType::Binary, DataType::BinaryView] {
            let array = strings(&data_type, &values, Nulls::Random);
            for encoding in [Encoding::Fsst, Encoding::Plain] {
                let options = Options::default().with_encodings([encoding, Encoding::Ffor]);
                let packed = compress(&beside(&array), &options).unwrap();
                check(&engine, &packed, &filters(3300, &mut rng));
            }
        }
    }
}

/// Wide values of every number of limbs.
#[test]
fn limbs_are_kept() {
    let mut rng = Rng(44);
    let value = |row: usize, rng: &mut Rng| {
        let bits = [5, 60, 64, 100, 126, 180, 250][row / 1024];
        let value = i256::from_parts(
            u128::from(rng.next()) << 64 | u128::from(rng.next()),
            rng.next().into(),
        );
        let value = value.wrapping_rem(i256::from_i128(1) << bits);
        if rng.below(2) == 0 { value } else { value.wrapping_neg() }
    };
    let values: Vec<Option<i256>> =
        (0..7000).map(|row| Some(value(row, &mut rng)).filter(|_| row % 9 > 0)).collect();
    let wide: ArrayRef = Arc::new(
        Decimal256Array::from_iter(values.iter().copied())
            .with_data_type(DataType::Decimal256(76, 3)),
    );
    let narrow: ArrayRef = Arc::new(
        Decimal128Array::from_iter(
            values.iter().take(5000).map(|value| value.map(|value| value.as_i128())),
        )
        .with_data_type(DataType::Decimal128(38, 3)),
    );
    for engine in engines() {
        for array in [&wide, &narrow] {
            for encodings in [Encoding::ON_GPUS, Encoding::ALL, &[Encoding::Plain]] {
                let options = Options::default()
                    .with_chunk_rows(1024)
                    .with_encodings(encodings.iter().copied());
                let packed = compress(&beside(array), &options).unwrap();
                check(&engine, &packed, &filters(array.len(), &mut rng));
            }
        }
    }
}

/// Batches that were put together, whose chunks begin anywhere.
#[test]
fn chunks_at_odd_places() {
    for engine in engines() {
        for data_type in [
            DataType::Boolean,
            DataType::Int16,
            DataType::Float64,
            DataType::Utf8,
            DataType::Utf8View,
            DataType::FixedSizeBinary(5),
        ] {
            let mut at = 0;
            let parts = [3, 1100, 1, 2048, 70].map(|len| {
                let array = array_of(&data_type, len, Shape::Outliers, Nulls::Random);
                let rows: ArrayRef = Arc::new(UInt32Array::from_iter_values(at..at + len as u32));
                at += len as u32;
                let batch = RecordBatch::try_from_iter([("row", rows), ("price", array)]).unwrap();
                compress(&batch, &Options::default()).unwrap()
            });
            let joined = concat_batches(&parts[0].schema(), &parts).unwrap();
            check(&engine, &joined, &filters(3222, &mut Rng(45)));
        }
    }
}

#[test]
fn columns_are_named_as_asked() {
    let array = array_of(&DataType::Utf8, 50, Shape::Narrow, Nulls::None);
    let packed = compress(&beside(&array), &Options::default()).unwrap();
    let [list, ..] = &carried_arrays(50)[..] else { panic!("arrays") };
    let with_list = compress(&beside(list), &Options::default()).unwrap();
    for engine in engines() {
        // From host memory, twice the same, none, and without a filter.
        let scan = Scan::new(&packed).filter(col("row").lt(7));
        let found = scan.gather(&["price", "row", "price"], &engine).unwrap();
        assert_eq!(found, scan.gather(&["price", "row", "price"], &Engine::cpu()).unwrap());
        let none: [&str; 0] = [];
        assert_eq!(scan.gather(&none, &engine).unwrap().num_rows(), 7);
        let all = Scan::new(&packed).gather(&["price"], &engine).unwrap();
        assert_same(all.column(0), &array, || "all".to_owned());
        let error = scan.gather(&["cost"], &engine).unwrap_err();
        assert!(matches!(error, Error::Expression { .. }), "{error}");
        // Carried as Arrow IPC.
        let scan = Scan::new(&with_list).filter(col("row").lt(7));
        let error = scan.gather(&["price"], &engine).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert_eq!(scan.gather(&["row"], &engine).unwrap().num_rows(), 7);
        // No rows at all.
        let empty = compress(&beside(&array.slice(0, 0)), &Options::default()).unwrap();
        let found = Scan::new(&empty).gather(&["price"], &engine).unwrap();
        assert_eq!((found.num_rows(), found.num_columns()), (0, 1));
    }
}

/// Damaged strings whose rows are all kept are refused where the CPU refuses them, and
/// what is given is what the CPU gives.
#[test]
fn damaged_strings_are_refused() {
    let mut rng = Rng(46);
    let mut images = Vec::new();
    for data_type in [DataType::Utf8, DataType::BinaryView, DataType::FixedSizeBinary(5)] {
        for encoding in [Encoding::Fsst, Encoding::Plain] {
            for shape in [Shape::Narrow, Shape::Random] {
                let array = array_of(&data_type, 1100, shape, Nulls::Random);
                let options = Options::default().with_encodings([encoding, Encoding::Ffor]);
                images.push(Image::of(&array, &options));
            }
        }
    }
    for engine in engines() {
        let (mut given, mut errors, mut case) = (0, 0, 0);
        for intact in &images {
            for _ in 0..60 {
                let (image, damage) = intact.damaged(&mut rng, 2);
                case += 1;
                if thinned(&engine, case, 2) {
                    continue;
                }
                let packed = super::batch_of(image.field.clone(), image.storage());
                let cpu = Scan::new(&packed).gather(&["price"], &Engine::cpu());
                match (Scan::new(&packed).gather(&["price"], &engine), cpu) {
                    (Ok(found), Ok(expected)) => {
                        assert_same(found.column(0), expected.column(0), || format!("{damage:?}"));
                        given += 1;
                    }
                    (Err(error), _) => {
                        let text = error.to_string();
                        assert!(text.starts_with("column \"price\""), "{text}");
                        errors += 1;
                    }
                    (Ok(_), Err(error)) => panic!("{damage:?}: only the CPU says: {error}"),
                }
            }
        }
        println!("{given} given, {errors} errors");
        assert!(given > 50 && errors > 50, "{given} given, {errors} errors");
    }
}
