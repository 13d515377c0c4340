//! Joins with lookups and groups: what a GPU gives is what a loop over rows does.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, record_batch};
use arrow_schema::{Field, Schema};
use lanepack::internals::measure;
use lanepack::scan::{
    Expr, GroupTableKind, Lookup, Scan, avg, col, count_distinct, count_rows, max, min, sum,
};
use lanepack::{Encoding, Engine, Options, compress, decompress};
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};

use super::common::image::{Image, checksum_of_bounds};
use super::star::{asked, check, star};
use super::{batch_of, cuda, engines, simt};

#[test]
fn stars_give_what_a_loop_over_rows_does() {
    // Each has kernels of its own, which take a second of the emulation's compiler.
    for (engine, cases) in [(simt(), 10), (cuda(), 48)] {
        let Some(engine) = engine else { continue };
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let run = |(star, asked, is_resident)| check(&star, &asked, &engine, is_resident);
        TestRunner::new(config).run(&(star(), asked(), any::<bool>()), run).unwrap();
    }
}

/// Facts of many rows, whose keys are random, and a dimension with every second key.
fn many(rows: i64) -> (RecordBatch, Lookup) {
    let mix = |row: i64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 33) & 0x7fff_ffff;
    let batch = record_batch!(
        ("key", Int32, (0..rows).map(|row| (mix(row) % 3000) as i32).collect::<Vec<_>>()),
        ("value", Int64, (0..rows).map(|row| mix(row + 7) - (1 << 30)).collect::<Vec<_>>()),
        ("weight", Float64, (0..rows).map(|row| mix(row) as f64 * 1e-3).collect::<Vec<_>>()),
        ("wide", Int64, (0..rows).map(|row| mix(row) << 32).collect::<Vec<_>>())
    );
    let dimension = record_batch!(
        ("id", Int32, (0..1500).map(|row| row * 2).collect::<Vec<i32>>()),
        ("class", Utf8, (0..1500).map(|row| format!("class {}", row % 40)).collect::<Vec<_>>()),
        ("city", Int32, (0..1500).map(|row| row % 700).collect::<Vec<i32>>())
    );
    let options = Options::default().with_chunk_rows(8192);
    (
        compress(&batch.unwrap(), &options).unwrap(),
        Lookup::try_new(&dimension.unwrap(), "id").unwrap(),
    )
}

#[test]
fn groups_of_many_rows_are_those_of_the_cpu() {
    let (facts, lookup) = many(70_000);
    let aggregates = [
        count_rows(),
        sum(col("value")),
        sum(col("weight")),
        // Its sums pass 64 bits before they come to less.
        sum(col("wide").to_float64() * 0.5),
        min(col("value")),
        max(col("weight")),
        avg(col("value") * 3),
    ];
    // In shared memory, in global memory, by the CPU.
    for keys in [vec![], vec!["class"], vec!["city"], vec!["class", "city"], vec!["value"]] {
        let groups = |scan: Scan<'_>, engine: &Engine| {
            scan.join(col("key"), &lookup)
                .filter(col("value").gt(0).or(col("city").lt(300)))
                .group_by(keys.iter().map(|key| col(*key)))
                .aggregate(&aggregates, engine)
                .unwrap()
        };
        let expected = groups(Scan::new(&facts), &Engine::cpu());
        for engine in engines() {
            let resident = engine.upload(&facts).unwrap();
            assert_eq!(groups(Scan::on_device(&resident), &engine), expected, "{keys:?}");
            assert_eq!(groups(Scan::new(&facts), &engine), expected, "{keys:?}");
        }
    }
}

#[test]
fn groups_that_are_too_many_for_a_table_of_all_numbers_are_hashed() {
    let (facts, _) = many(70_000);
    // Some 1,000, 35,000 and 70,000 groups: a table grows once and twice, the last ones are too many for
    // that of the emulation.
    let cases = [(Some(1000_i64 << 20), true), (Some(0), true), (None, false)];
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        for (at, (least, fits_emulation)) in cases.into_iter().enumerate() {
            let groups = |scan: Scan<'_>, engine: &Engine| {
                let scan = match least {
                    Some(least) => scan.filter(col("value").gt(least)),
                    None => scan,
                };
                let groups = scan.group_by([col("value")]);
                groups.aggregate(&[count_rows(), count_distinct(col("key"))], engine).unwrap()
            };
            let expected = groups(Scan::new(&facts), &Engine::cpu());
            let (found, kernels) =
                measure::kernels_of(|| groups(Scan::on_device(&resident), &engine)).unwrap();
            assert_eq!(found, expected, "case {at}");
            let gathered = kernels.iter().filter(|(name, _)| *name == "gather_groups").count();
            let is_emulated = engine.device().unwrap().name.contains("emulat");
            if fits_emulation || !is_emulated {
                assert!(gathered > 0, "case {at}: {kernels:?}");
            } else {
                assert_eq!(gathered, 0, "case {at}: {kernels:?}");
            }
        }
    }
}

#[test]
fn vectors_without_keys_of_a_lookup_leave_no_rows() {
    let rows = 0..9000_i64;
    let middle = 1_u64 << 63;
    let batch = record_batch!(
        ("narrow", Int16, rows.clone().map(|row| i16::MAX - row as i16).collect::<Vec<_>>()),
        ("signed", Int32, rows.clone().map(|row| i32::MIN + row as i32).collect::<Vec<_>>()),
        ("unsigned", UInt64, rows.map(|row| middle - 4500 + row as u64).collect::<Vec<_>>())
    );
    let keys = record_batch!(
        ("narrow", Int16, (0..160).map(|at| i16::MAX - 7 * at).collect::<Vec<i16>>()),
        ("signed", Int32, (0..160).map(|at| i32::MIN + 3 * at).collect::<Vec<i32>>()),
        ("unsigned", UInt64, (0..160).map(|at| middle - 400 + 2 * at).collect::<Vec<u64>>())
    );
    let (batch, keys) = (batch.unwrap(), keys.unwrap());
    for encoding in [Encoding::Ffor, Encoding::Pfor] {
        let options = Options::default().with_encodings([encoding]).with_chunk_rows(4096);
        let packed = compress(&batch, &options).unwrap();
        for engine in engines() {
            let resident = engine.upload(&packed).unwrap();
            for name in ["narrow", "signed", "unsigned"] {
                let only = keys.project(&[keys.schema().index_of(name).unwrap()]).unwrap();
                let lookup = Lookup::try_new(&only, name).unwrap();
                let count = |scan: Scan<'_>, engine: &Engine| {
                    let scan = scan.semi_join(col(name), &lookup);
                    scan.aggregate(&[count_rows(), sum(col("narrow"))], engine).unwrap()
                };
                let expected = count(Scan::new(&packed), &Engine::cpu());
                assert_eq!(expected.column(0).as_primitive::<Int64Type>().value(0), 160, "{name}");
                assert_eq!(count(Scan::on_device(&resident), &engine), expected, "{name}");
            }
        }
    }
}

/// A column of strings most of whose chunks have dictionaries: others are short, have one string, nulls.
fn mostly_dictionaries() -> RecordBatch {
    let mut next = 0;
    let mut part = |names: Vec<Option<String>>| {
        let keys: Vec<i32> = (next..).take(names.len()).collect();
        next += names.len() as i32;
        let batch = record_batch!(("name", Utf8, names), ("key", Int32, keys)).unwrap();
        compress(&batch, &Options::default().with_chunk_rows(8192)).unwrap()
    };
    let name = |row: usize| Some(format!("a longer name for number {}", row * 7919 % 40));
    let parts = [
        part((0..40_000).map(name).collect()),
        part((0..60).map(|row| Some(format!("only here {}", row % 50))).collect()),
        part(vec![Some("one string".to_owned()); 300]),
        part((0..90).map(|row| name(row).filter(|_| row % 3 > 0)).collect()),
        part(vec![None; 20]),
        part((0..10_000).map(name).collect()),
    ];
    arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap()
}

#[test]
fn strings_have_codes_where_few_rows_have_no_dictionary() {
    let facts = mostly_dictionaries();
    let aggregates = [count_rows(), sum(col("key"))];
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        let groups = |scan: Scan<'_>, engine: &Engine| {
            scan.group_by([col("name")]).aggregate(&aggregates, engine).unwrap()
        };
        let expected = groups(Scan::new(&facts), &Engine::cpu());
        assert_eq!(expected.num_rows(), 92);
        assert_eq!(groups(Scan::on_device(&resident), &engine), expected);
        let plan = Scan::on_device(&resident).group_by([col("name")]);
        let plan = plan.explain(&aggregates, &engine).unwrap();
        assert_eq!(plan.groups().unwrap().table, GroupTableKind::SharedMemory);
        // The same column is filtered: by its codes, and by strings.
        let one = |name: &str| {
            let scan = Scan::on_device(&resident).filter(col("name").eq(name));
            scan.filter(col("key").gt_eq(0)).count(&engine).unwrap()
        };
        assert_eq!(one("only here 7"), 2);
        assert_eq!(one("one string"), 300);
        let rows = (0..40_000).chain((0..90).filter(|row| row % 3 > 0)).chain(0..10_000);
        let rows = rows.filter(|row| row * 7919 % 40 == 11).count();
        assert_eq!(one("a longer name for number 11"), rows);
        // The codes are those of a lookup's column too.
        let looked_up = |lookup: Lookup| {
            let keys = Scan::on_device(&resident).join(col("key"), &lookup);
            let filtered = keys.filter(col("looked up").not_eq("one string"));
            filtered.group_by([col("looked up")]).aggregate(&aggregates, &engine).unwrap()
        };
        let fields = facts.schema_ref().fields().iter().map(|field| match field.name().as_str() {
            "name" => field.as_ref().clone().with_name("looked up"),
            _ => field.as_ref().clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let dimension = RecordBatch::try_new(schema, facts.columns().to_vec()).unwrap();
        let by_host = Lookup::try_new(&decompress(&dimension).unwrap(), "key").unwrap();
        let dimension = engine.upload(&dimension).unwrap();
        let by_device = Scan::on_device(&dimension).lookup("key", &["looked up"], &engine).unwrap();
        let expected = looked_up(by_host);
        // Nulls are no other string.
        assert_eq!(expected.num_rows(), 90);
        assert_eq!(looked_up(by_device), expected);
    }
}

#[test]
fn rows_in_an_order_are_those_of_the_cpu() {
    let (facts, lookup) = many(5000);
    for engine in engines() {
        let resident = engine.upload(&facts).unwrap();
        for limit in [None, Some(0), Some(100), Some(9000)] {
            let rows = |scan: Scan<'_>, engine: &Engine| {
                let scan = scan.left_join(col("key"), &lookup).filter(col("value").gt(0));
                // Many rows are equal, keys that the lookup does not have null.
                let order = scan.order_by([("class", true), ("city", false)]);
                let first = limit.into_iter().fold(order, |order, limit| order.limit(limit));
                first.gather(&["value", "city", "weight"], engine).unwrap()
            };
            let expected = rows(Scan::new(&facts), &Engine::cpu());
            assert_eq!(rows(Scan::on_device(&resident), &engine), expected, "{limit:?}");
            assert_eq!(rows(Scan::new(&facts), &engine), expected, "{limit:?}");
        }
    }
}

#[test]
fn sums_of_floats_do_not_depend_on_engines() {
    let values = [1e300, 1.0, -1e300, f64::MIN_POSITIVE, 5e-324, -5e-324, 0.1, -0.0, 3e-310];
    let batch = record_batch!(
        ("key", Int64, (0..2000).map(|row| row % 3).collect::<Vec<i64>>()),
        ("value", Float64, (0..2000).map(|row| values[row * row % 9]).collect::<Vec<f64>>()),
        (
            "odd",
            Float64,
            (0..2000)
                .map(|row| match row % 7 {
                    0 if row % 3 == 0 => f64::INFINITY,
                    1 if row % 3 == 1 => f64::NAN,
                    _ => 0.5,
                })
                .collect::<Vec<f64>>()
        )
    );
    let packed = compress(&batch.unwrap(), &Options::default()).unwrap();
    let groups = |scan: Scan<'_>, engine: &Engine| {
        let groups = scan.group_by([col("key")]);
        let all = groups.aggregate(&[sum(col("value")), sum(col("odd"))], engine).unwrap();
        format!("{all:?}")
    };
    let expected = groups(Scan::new(&packed), &Engine::cpu());
    for engine in engines() {
        let resident = engine.upload(&packed).unwrap();
        assert_eq!(groups(Scan::on_device(&resident), &engine), expected);
    }
}

#[test]
fn lookups_of_batches_in_gpu_memory_are_those_of_the_host() {
    let dimension = record_batch!(
        (
            "id",
            Int16,
            (-300..900).map(|row| (row % 7 != 0).then_some(row as i16)).collect::<Vec<_>>()
        ),
        (
            "name",
            Utf8,
            (0..1200)
                .map(|row| (row % 5 != 0).then(|| format!("name {}", row % 70)))
                .collect::<Vec<_>>()
        ),
        (
            "size",
            Int32,
            (0..1200).map(|row| (row % 3 != 0).then_some(row % 90)).collect::<Vec<_>>()
        ),
        (
            "is_open",
            Boolean,
            (0..1200).map(|row| (row % 4 != 0).then_some(row % 8 > 3)).collect::<Vec<_>>()
        )
    )
    .unwrap();
    let facts = record_batch!(
        (
            "near",
            Int32,
            (0..5000)
                .map(|row| (row % 11 != 0).then_some(row * 7 % 1400 - 400))
                .collect::<Vec<_>>()
        ),
        (
            "positive",
            UInt64,
            (0..5000_u64)
                .map(|row| if row % 9 == 0 { u64::MAX - row } else { row % 1000 })
                .collect::<Vec<_>>()
        ),
        ("amount", Int64, (0..5000).collect::<Vec<i64>>())
    )
    .unwrap();
    let options = Options::default().with_chunk_rows(1024);
    let [dimension, facts] = [dimension, facts].map(|batch| compress(&batch, &options).unwrap());
    let columns = ["name", "size", "is_open"];
    let filters = [
        None,
        Some(col("id").gt_eq(0)),
        Some(col("size").gt(1000)),
        Some(col("name").eq("name 3")),
    ];
    for engine in engines() {
        let (resident, facts_there) =
            (engine.upload(&dimension).unwrap(), engine.upload(&facts).unwrap());
        for (at, filter) in filters.iter().enumerate() {
            let of = |scan: Scan<'_>, engine: &Engine| {
                let scan = filter.iter().fold(scan, |scan, filter| scan.filter(filter.clone()));
                scan.lookup("id", &columns, engine).unwrap()
            };
            let expected = of(Scan::new(&dimension), &Engine::cpu());
            let found = of(Scan::on_device(&resident), &engine);
            assert_eq!(found.len(), expected.len());
            let results = |lookup: &Lookup, scan: Scan<'_>, engine: &Engine, key: &str| {
                let joined = scan.left_join(col(key), lookup);
                let groups = joined.clone().group_by(columns.map(col));
                let sums = [sum(col("amount") * col("size")), count_rows()];
                let gathered = joined.filter(col("size").gt(20)).gather(&columns, engine);
                let groups = groups.aggregate(&sums, engine);
                format!(
                    "{:?} {:?}",
                    gathered.map_err(|error| error.to_string()),
                    groups.map_err(|error| error.to_string())
                )
            };
            let cpu = Engine::cpu();
            for key in ["near", "positive"] {
                let on_host = results(&expected, Scan::new(&facts), &cpu, key);
                let message = format!("filter {at}, {key}");
                assert_eq!(
                    results(&found, Scan::on_device(&facts_there), &engine, key),
                    on_host,
                    "{message}"
                );
                // By another engine than the one that has made it.
                assert_eq!(results(&found, Scan::new(&facts), &cpu, key), on_host, "{message}");
                assert_eq!(
                    results(&expected, Scan::on_device(&facts_there), &engine, key),
                    on_host,
                    "{message}"
                );
            }
        }
        let twice = record_batch!(("id", Int32, [4, 9, 4]), ("n", Int32, [1, 2, 3])).unwrap();
        let twice = engine.upload(&compress(&twice, &options).unwrap()).unwrap();
        let error = Scan::on_device(&twice).lookup("id", &["n"], &engine).unwrap_err();
        assert!(error.to_string().contains("key 4 of column \"id\" comes twice"), "{error}");
    }
}

#[test]
fn bounds_of_groups_are_as_wide_as_their_numbers() {
    let batch = record_batch!(
        ("key", Int64, [0, 0, 1, i64::MAX, i64::MIN]),
        ("wide", UInt64, [1, (1 << 63) + 2, 3, u64::MAX, 0]),
        ("ends", Int64, [i64::MIN, i64::MAX, 0, 5, -5])
    );
    let packed = compress(&batch.unwrap(), &Options::default()).unwrap();
    let wanted =
        [max(col("wide").to_float64()), min(col("ends")), max(col("ends")), sum(col("ends"))];
    for keys in [vec![], vec!["wide"], vec!["key"]] {
        let groups = |scan: Scan<'_>, engine: &Engine| {
            let scan = scan.filter(col("key").between(0, 1));
            let groups = scan.group_by(keys.iter().map(|key| col(*key)));
            groups.aggregate(&wanted, engine).unwrap()
        };
        let expected = groups(Scan::new(&packed), &Engine::cpu());
        for engine in engines() {
            let resident = engine.upload(&packed).unwrap();
            assert_eq!(groups(Scan::on_device(&resident), &engine), expected, "{keys:?}");
        }
    }
    let small = record_batch!(("key", Int64, [0, 0, 1]), ("wide", UInt64, [1, (1 << 63) + 2, 3]));
    let packed = compress(&small.unwrap(), &Options::default()).unwrap();
    let groups = |scan: Scan<'_>, engine: &Engine| {
        scan.group_by([col("key")]).aggregate(&wanted[..1], engine).unwrap()
    };
    for engine in engines() {
        let resident = engine.upload(&packed).unwrap();
        let expected = groups(Scan::new(&packed), &Engine::cpu());
        assert_eq!(groups(Scan::on_device(&resident), &engine), expected);
        let error = Scan::on_device(&resident)
            .group_by([col("key")])
            .with_group_limit(1)
            .aggregate(&[count_rows()], &engine)
            .unwrap_err();
        assert!(error.to_string().contains("more than 1 groups"), "{error}");
    }
}

#[test]
fn values_outside_the_bounds_of_their_column_are_damage() {
    let values: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..3000).map(|row| row * 7 % 501)));
    let options = Options::default();
    let sound = Image::of(&values, &options);
    let one = |bound: i64| Arc::new(Int64Array::from(vec![bound])) as ArrayRef;
    for bounds in [[0, 499], [1, 500], [200, 300]] {
        let mut image = sound.clone();
        image.set_bounds(one(bounds[0]), one(bounds[1]), checksum_of_bounds(bounds.map(Some)));
        let packed = batch_of(image.field.clone(), image.storage());
        let groups = |scan: Scan<'_>, key: Expr, engine: &Engine| {
            let groups = scan.group_by([key]).aggregate(&[count_rows()], engine);
            groups.unwrap_err().to_string()
        };
        let keys = [col("price"), col("price") * 3 + 1];
        let expected = keys.clone().map(|key| groups(Scan::new(&packed), key, &Engine::cpu()));
        for expected in &expected {
            assert!(expected.contains("a value outside the bounds of its column"), "{expected}");
        }
        for engine in engines() {
            let resident = engine.upload(&packed).unwrap();
            for (key, expected) in keys.iter().zip(&expected) {
                let found = groups(Scan::on_device(&resident), key.clone(), &engine);
                assert_eq!(found, *expected, "{key}");
            }
            // As a key, and as another column.
            let lookup = Scan::on_device(&resident).lookup("price", &["price"], &engine);
            let error = lookup.unwrap_err().to_string();
            assert!(error.contains("a value outside the bounds of its column"), "{error}");
        }
    }
}
