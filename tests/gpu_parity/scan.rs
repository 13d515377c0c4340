//! Scans on a device keep what they keep on the CPU, which tests/scan.rs compares with
//! Arrow's kernels.

use arrow_array::*;
use arrow_schema::Schema;
use lanepack::scan::{Expr, Scan, col, sum};
use lanepack::{Engine, Error, Options, compress};
use std::sync::Arc;

use super::common::{Rng, skip};
use super::{NO_EMULATION, cuda, engines, random, without_compiler};

/// Runs random filters; how many of them the device ran.
pub fn random_scans(engine: &Engine, seeds: std::ops::Range<u64>, filters: usize) -> usize {
    let mut ran = 0;
    for seed in seeds {
        let mut rng = Rng(seed * 7_000_003 + 1);
        let batch = random::batch(&mut rng);
        let options = random::options(seed);
        let packed = compress(&batch, &options).unwrap();
        let on_device = engine.upload(&packed).unwrap();
        for index in 0..filters {
            let filter: Expr = random::filter(&mut rng, &batch, 3);
            let expected = match Scan::new(&packed).filter(filter.clone()).mask(&Engine::cpu()) {
                Err(error) if error.to_string().contains("128 bits") => continue,
                expected => expected.unwrap(),
            };
            // From host memory as well, now and then.
            let scan = match index % 8 {
                0 => Scan::new(&packed),
                _ => Scan::on_device(&on_device),
            };
            let scan = scan.filter(filter.clone());
            match scan.mask(engine) {
                // Arithmetic, where nothing compiles.
                Err(Error::NoDevice { what, .. }) => assert!(what.contains("compiler"), "{what}"),
                found => {
                    assert!(found.unwrap() == expected, "{filter} on {:?}", engine.device());
                    assert_eq!(scan.count(engine).unwrap(), expected.true_count(), "{filter}");
                    if index % 5 == 0 {
                        gather(engine, &scan, Scan::new(&packed).filter(filter), &batch);
                    }
                    ran += 1;
                }
            }
        }
    }
    ran
}

/// Compares the values of a few columns in the rows that are kept.
fn gather(engine: &Engine, scan: &Scan<'_>, on_cpu: Scan<'_>, batch: &RecordBatch) {
    let schema = batch.schema();
    let names: Vec<&str> =
        schema.fields().iter().map(|field| field.name().as_str()).step_by(3).collect();
    let found = scan.gather(&names, engine).unwrap();
    let expected = on_cpu.gather(&names, &Engine::cpu()).unwrap();
    for (found, expected) in found.columns().iter().zip(expected.columns()) {
        super::assert_same(found, expected, || format!("on {:?}", engine.device()));
    }
}

#[test]
fn devices_keep_what_the_cpu_keeps() {
    // On the emulation test by test, as without NVRTC; `fused` has the rest.
    for (engine, seeds) in [(without_compiler(), 0..60), (cuda(), 0..8)] {
        let Some(engine) = engine else { continue };
        let (count, filters) = (seeds.end as usize, 30);
        let ran = random_scans(&engine, seeds, filters);
        assert!(ran > count * filters / 3, "{ran} of {} filters ran", count * filters);
    }
}

#[test]
fn rows_of_chunks_at_odd_places_are_found() {
    let values = |start: i64, len: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + len));
        RecordBatch::try_from_iter([("x", values)]).unwrap()
    };
    for engine in engines() {
        let parts: Vec<RecordBatch> = [(0, 3), (3, 1100), (1103, 1), (1104, 2048), (3152, 70)]
            .map(|(start, len)| compress(&values(start, len), &Options::default()).unwrap())
            .to_vec();
        let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
        let filter = col("x").between(2, 1110).or(col("x").in_list([1500, 3151, 3200]));
        let rows = Scan::new(&joined).filter(filter).rows(&engine).unwrap();
        let expected: Vec<u64> = (2..=1110).chain([1500, 3151, 3200]).collect();
        assert_eq!(rows.values(), expected.as_slice());
        let all = Scan::new(&joined).filter(!col("x").is_null());
        assert_eq!(all.count(&engine).unwrap(), 3222);
    }
}

/// Ranges that end at, above and below values that are integers divided by a power of ten.
#[test]
fn divided_floats_are_compared_with_bounds_beside_them() {
    let value = |n: i32, places: i32| n as f32 / 10_f32.powi(places);
    let column = |places: i32| -> ArrayRef {
        let values = (0..3000).map(|row| match row % 500 {
            499 => f32::NAN,
            _ => value(row * 7919 % 65_536 - 30_000, places),
        });
        Arc::new(Float32Array::from_iter_values(values))
    };
    let batch = RecordBatch::try_from_iter([("a", column(1)), ("b", column(3))]).unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let encodings: Vec<String> = lanepack::columns(&packed)
        .unwrap()
        .iter()
        .map(|column| column.encoding().to_string())
        .collect();
    assert_eq!(encodings, ["alp", "alp"]);
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        for (name, places) in [("a", 1), ("b", 3)] {
            for n in [-30_000, -1, 0, 1, 7919, 35_000] {
                let bound = value(n, places);
                for bound in [bound, bound.next_up(), bound.next_down()] {
                    let other = value(n + 20_000, places);
                    for filter in
                        [col(name).lt(bound), col(name).gt(bound), col(name).between(bound, other)]
                    {
                        let found = Scan::on_device(&on_device).filter(filter.clone());
                        let expected = Scan::new(&packed).filter(filter.clone());
                        let expected = expected.mask(&Engine::cpu()).unwrap();
                        assert!(found.mask(&engine).unwrap() == expected, "{filter}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_the_columns_is_an_error() {
    let batch = RecordBatch::try_from_iter([
        ("x", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
    ])
    .unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        let scan = Scan::on_device(&on_device);
        let error = scan.clone().filter(col("y").gt(1)).mask(&engine).unwrap_err();
        assert!(matches!(error, Error::Expression { .. }), "{error}");
        // A batch on a device is no CPU's.
        let error = scan.mask(&Engine::cpu()).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        assert_eq!(scan.filter(col("x").gt(1)).count(&engine).unwrap(), 2);
    }
}

#[test]
fn without_a_compiler_there_are_filters_but_no_arithmetic() {
    let Some(engine) = without_compiler() else {
        return skip("LANEPACK_REQUIRE_SIMT", NO_EMULATION);
    };
    let batch = RecordBatch::try_from_iter([
        ("x", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef),
        ("y", Arc::new(Float64Array::from(vec![1.5, 2.5, 3.5]))),
    ])
    .unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let scan = Scan::new(&packed);
    let kept = scan.clone().filter(col("x").gt(0).and(col("y").lt(3.0)).or(col("x").is_null()));
    assert_eq!(kept.rows(&engine).unwrap().values(), &[0, 1]);
    let error = scan.clone().filter((col("x") + 1).gt(2)).mask(&engine).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    let error = scan.aggregate(&[sum(col("x"))], &engine).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
}

#[test]
fn batches_without_columns_are_scanned() {
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let bare = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
    let packed = compress(&bare.unwrap(), &Options::default()).unwrap();
    for engine in engines() {
        assert_eq!(Scan::new(&packed).count(&engine).unwrap(), 7);
        let on_device = engine.upload(&packed).unwrap();
        assert_eq!(Scan::on_device(&on_device).mask(&engine).unwrap().true_count(), 7);
    }
}
