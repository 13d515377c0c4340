//! Kernels made for a query: filters of several columns, arithmetic, aggregates. A shape of
//! query is compiled once and run with many literals.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Schema};
use lanepack::scan::{
    Aggregate, Expr, Literal, Scan, avg, col, count, count_rows, lit, max, min, sum,
};
use lanepack::{Encoding, Engine, Error, Options, compress};

use super::common::image::Image;
use super::common::{Rng, skip};
use super::{NO_EMULATION, batch_of, cuda, engines, random, simt};

/// A shape of query over a random batch, and filters of that shape with other literals.
struct Queries {
    packed: RecordBatch,
    filters: Vec<Expr>,
    aggregates: Vec<Aggregate>,
}

fn queries(seed: u64, literals: usize) -> Queries {
    let mut rng = Rng(seed * 9_000_011 + 5);
    let batch = random::batch(&mut rng);
    let packed = compress(&batch, &random::options(seed)).unwrap();
    let filter = random::filter(&mut rng, &batch, 3);
    let mut filters = vec![filter.clone()];
    filters.extend((1..literals).map(|_| random::with_other_literals(&filter, &mut rng, &batch)));
    let mut aggregates = vec![count_rows()];
    for _ in 0..5 {
        let at = rng.below(batch.num_columns() as u64) as usize;
        let (schema, name) = (batch.schema(), batch.schema().field(at).name().clone());
        let column = || col(&name);
        let data_type = schema.field(at).data_type();
        let is_computed =
            (data_type.is_numeric() && *data_type != DataType::Float16) && !data_type.is_temporal();
        aggregates.push(match rng.below(if is_computed { 7 } else { 3 }) {
            0 => count(column()),
            1 => min(column()),
            2 => max(column()),
            3 => sum(column()),
            4 => avg(column()),
            5 => sum(column().to_float64() * lit(0.5)),
            _ => max(-column()),
        });
    }
    Queries { packed, filters, aggregates }
}

/// What an engine makes of one filter: the rows and the aggregates.
fn results(
    scan: &Scan<'_>,
    aggregates: &[Aggregate],
    engine: &Engine,
) -> [Result<Vec<String>, Error>; 2] {
    let bits = |mask: BooleanArray| {
        mask.values().iter().map(|bit| char::from(b'0' + u8::from(bit))).collect()
    };
    [
        scan.mask(engine).map(|mask| vec![bits(mask)]),
        scan.aggregate(aggregates, engine)
            .map(|found| found.columns().iter().map(|column| format!("{column:?}")).collect()),
    ]
}

/// Runs shapes of queries with some literals each; how many results were compared.
fn compare(engine: &Engine, seeds: std::ops::Range<u64>, literals: usize) -> usize {
    let mut compared = 0;
    for seed in seeds {
        let Queries { packed, filters, aggregates } = queries(seed, literals);
        let on_device = engine.upload(&packed).unwrap();
        for filter in filters {
            let expected =
                results(&Scan::new(&packed).filter(filter.clone()), &aggregates, &Engine::cpu());
            let scan = Scan::on_device(&on_device).filter(filter.clone());
            for (found, expected) in results(&scan, &aggregates, engine).into_iter().zip(expected) {
                match (found, expected) {
                    (Ok(found), Ok(expected)) => {
                        assert_eq!(found, expected, "{filter}, seed {seed}");
                        compared += 1;
                    }
                    (Err(found), Err(expected)) => {
                        assert_eq!(found.to_string(), expected.to_string(), "{filter}");
                    }
                    (found, expected) => panic!("{filter}: {found:?}, {expected:?} expected"),
                }
            }
        }
    }
    compared
}

#[test]
fn queries_give_what_they_give_on_the_cpu() {
    for (engine, shapes) in [(simt(), 24), (cuda(), 120)] {
        let Some(engine) = engine else { continue };
        let compared = compare(&engine, 0..shapes, 25);
        assert!(compared as u64 > shapes * 25, "{compared} results of {shapes} shapes");
    }
}

#[test]
fn literals_make_no_new_kernel() {
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values((0..5000).map(|at| at % 77)));
    let prices: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..5000).map(|at| f64::from(at) / 100.0)));
    let batch = RecordBatch::try_from_iter([("a", values), ("b", prices)]).unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    // A device of its own: all engines of a GPU share what is compiled.
    let Some(engine) = simt() else { return skip("LANEPACK_REQUIRE_SIMT", NO_EMULATION) };
    let on_device = engine.upload(&packed).unwrap();
    let before = engine.compiled_kernels();
    for (low, high) in [(3, 10.0), (4, 49.99), (76, 1e300), (-5, f64::NAN)] {
        let filter = col("a").gt(low).and(col("b").lt(high));
        let scan = Scan::on_device(&on_device).filter(filter.clone());
        let expected = Scan::new(&packed).filter(filter);
        assert_eq!(scan.count(&engine).unwrap(), expected.count(&Engine::cpu()).unwrap());
    }
    assert_eq!(engine.compiled_kernels() - before, 1);
}

/// Strings and numbers of a filter have one kernel, which serves other literals, and damage
/// to strings is an error of it.
#[test]
fn strings_are_tested_in_the_kernel_of_a_query() {
    let rows = 5000;
    let text = |row: i32| format!("item {} of {}", row * 7 % 500, row % 9);
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..rows).map(|row| {
        let is_valid = row % 13 != 5;
        is_valid.then(|| text(row))
    })));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values((0..rows).map(|at| at % 77)));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("s", texts.clone())]).unwrap();
    let options = Options::default().with_chunk_rows(2048);
    let packed = compress(&batch, &options).unwrap();
    let filter = |one: &str, part: &str, end: &str, low: i32| {
        let is_one = col("s").in_list([one, "item 14 of 2"]);
        col("n").lt(low).and(is_one.or(col("s").contains(part))).or(!col("s").lt(end))
    };
    let filters = [
        filter("item 7 of 1", "m 3", "item 6", 40),
        filter("no such", "9 of", "zzz", 70),
        filter("item 21 of 3", "nowhere", "item 499 of 8", 1),
    ];
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        let mut kept = 0;
        for filter in &filters {
            let expected = Scan::new(&packed).filter(filter.clone());
            let scan = Scan::on_device(&on_device).filter(filter.clone());
            let rows = expected.rows(&Engine::cpu()).unwrap();
            assert_eq!(scan.rows(&engine).unwrap(), rows, "{filter}");
            let aggregates = [sum(col("n")), count(col("s")), min(col("s"))];
            let [found, expected] = [
                scan.aggregate(&aggregates, &engine),
                expected.aggregate(&aggregates, &Engine::cpu()),
            ];
            assert_eq!(found.unwrap(), expected.unwrap(), "{filter}");
            kept += rows.len();
        }
        assert!(kept > 1000, "{kept} rows");
    }
    // A device of its own: all engines of a GPU share what is compiled.
    if let Some(engine) = simt() {
        let on_device = engine.upload(&packed).unwrap();
        let before = engine.compiled_kernels();
        for filter in &filters {
            Scan::on_device(&on_device).filter(filter.clone()).count(&engine).unwrap();
        }
        assert_eq!(engine.compiled_kernels() - before, 1);
    }

    // The same with a code that is none in the last chunk.
    let intact = Image::of(&texts.slice(4096, 904), &options);
    assert_eq!(intact.tree().nodes[0].encoding, Encoding::Fsst as u8);
    let mut image = intact.clone();
    image.change(|tree| {
        let symbols: u8 = tree.buffers[0][..8].iter().sum();
        let codes = tree.buffers[1].len();
        tree.buffers[1][codes / 2..].fill(symbols);
    });
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..904));
    let numbers = compress(&RecordBatch::try_from_iter([("n", numbers)]).unwrap(), &options);
    let with = |image: &Image| {
        let strings = batch_of(image.field.clone(), image.storage());
        let fields = [numbers.as_ref().unwrap().schema().field(0).clone(), image.field.clone()];
        let columns = vec![numbers.as_ref().unwrap().column(0).clone(), strings.column(0).clone()];
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).unwrap()
    };
    let of = |value: i32| col("n").gt_eq(value).and(col("price").contains("3 of"));
    for engine in engines() {
        let count =
            |image: &Image, filter: Expr| Scan::new(&with(image)).filter(filter).count(&engine);
        assert!(count(&intact, of(0)).unwrap() > 0);
        let error = count(&image, of(0)).unwrap_err();
        assert!(error.to_string().starts_with("column \"price\", chunk 0: "), "{error}");
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        let total = Scan::new(&with(&image)).filter(of(0)).aggregate(&[sum(col("n"))], &engine);
        assert_eq!(total.unwrap_err().to_string(), error.to_string());
        // Nobody asks for the strings.
        assert_eq!(count(&image, of(2000)).unwrap(), 0);
    }
}

/// More tests than shared memory has room for, and strings beside them.
#[test]
fn filters_of_many_columns() {
    let rows = 1500;
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("text {}", row % 5))));
    let names: Vec<String> = (0..60).map(|at| format!("c{at}")).collect();
    let column = |at: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * (at + 7) % 1009)))
    };
    let columns = names.iter().map(String::as_str).zip((0..60).map(column));
    let batch = RecordBatch::try_from_iter(columns.chain([("s", texts)])).unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let numbers = names.iter().map(|name| col(name).lt(1000)).reduce(Expr::and).unwrap();
    let filter = numbers.and(col("s").not_eq("text 3"));
    let expected = Scan::new(&packed).filter(filter.clone()).rows(&Engine::cpu()).unwrap();
    assert!(!expected.is_empty());
    for engine in engines() {
        let found = Scan::new(&packed).filter(filter.clone()).rows(&engine).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn sums_pass_64_bits_where_they_have_to() {
    let rows = 3000;
    let wide = |of: &dyn Fn(i128) -> i128, precision: u8| -> ArrayRef {
        let values = Decimal128Array::from_iter_values((0..rows).map(of));
        Arc::new(values.with_precision_and_scale(precision, 0).unwrap())
    };
    let large = 10_i128.pow(37);
    let batch = RecordBatch::try_from_iter([
        ("one_limb", wide(&|at| at * at - 5000, 15)),
        ("two_limbs", wide(&|at| if at % 2 == 0 { at - large } else { large - 7 * at }, 38)),
        (
            "longs",
            Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|at| i64::MAX / 5000 - at)))
                as ArrayRef,
        ),
        (
            "unsigned",
            Arc::new(UInt64Array::from_iter_values(
                (0..rows as u64).map(|at| u64::MAX / 9000 - at),
            )),
        ),
    ])
    .unwrap();
    // Some chunks have one limb, others two.
    let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
    let aggregates: Vec<Aggregate> = ["one_limb", "two_limbs", "longs", "unsigned"]
        .into_iter()
        .flat_map(|name| [sum(col(name)), min(col(name)), max(col(name)), avg(col(name))])
        .chain([min(col("longs") * lit(1000)), avg(col("longs") * lit(100_000) + col("unsigned"))])
        .collect();
    for engine in engines() {
        let filter = col("longs")
            .not_eq(i64::MAX / 5000 - 17)
            .and(col("one_limb").gt(lit(Literal::decimal(-4000, 0))));
        let expected =
            Scan::new(&packed).filter(filter.clone()).aggregate(&aggregates, &Engine::cpu());
        let found = Scan::new(&packed).filter(filter).aggregate(&aggregates, &engine);
        assert_eq!(found.unwrap(), expected.unwrap());
    }
}

/// Filters that keep from 1 to 1,000 rows of each vector: kernels aggregate few and many in two ways.
/// Results are equal bit for bit, so sums of floats have one order.
#[test]
fn few_rows_are_aggregated_as_many_are() {
    let rows = 11_500_i64;
    let mut rng = Rng(64);
    let keys: Vec<u32> = (0..rows).map(|row| (row * 389 % 1024) as u32).collect();
    let mut reals = || (rng.below(1 << 40) as f64 - 5e11) / 7.0;
    let doubles: Vec<Option<f64>> = (0..rows).map(|row| (row % 5 > 0).then(&mut reals)).collect();
    let wide = (0..rows).map(|row| (row - 3000) as i128 * if row < 4000 { 1 << 70 } else { 1 });
    let wide = Decimal128Array::from_iter_values(wide).with_precision_and_scale(38, 2).unwrap();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("key", Arc::new(UInt32Array::from(keys)) as ArrayRef, false),
        ("real", Arc::new(Float64Array::from(doubles.clone())), true),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(
                (0..rows).map(|at| (at * at % 9999) as f64 / 100.0),
            )),
            false,
        ),
        (
            "single",
            Arc::new(Float32Array::from_iter(doubles.iter().map(|real| real.map(|x| x as f32)))),
            true,
        ),
        ("number", Arc::new(Int64Array::from_iter_values((0..rows).map(|at| at * at - 7))), false),
        (
            "runs",
            Arc::new(Int32Array::from_iter_values((0..rows).map(|at| (at / 90) as i32))),
            false,
        ),
        ("wide", Arc::new(wide), false),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                (0..rows).map(|at| (at % 3 > 0).then_some(at % 7 < 2)),
            )),
            true,
        ),
    ])
    .unwrap();
    let of = |names: &[&str]| -> Vec<Aggregate> {
        let each = |name: &&str| match *name {
            "flag" => vec![min(col("flag")), max(col("flag"))],
            name => vec![sum(col(name)), min(col(name)), max(col(name)), count(col(name))],
        };
        names.iter().flat_map(each).collect()
    };
    let shapes = [
        of(&["number", "wide", "flag"]),
        of(&["real", "price", "single"]),
        of(&["runs", "number"]),
        vec![sum(col("price") * col("real")), sum(col("number")), sum(col("price")), count_rows()],
        vec![min(col("flag")), max(col("real")), sum(lit(3)), avg(col("runs").to_float64())],
    ];
    let plain = Options::default().with_encodings([]);
    for (options, shapes) in [(Options::default(), shapes.as_slice()), (plain, &shapes[..2])] {
        let packed = compress(&batch, &options.with_chunk_rows(9 * 1024)).unwrap();
        for engine in engines() {
            let on_device = engine.upload(&packed).unwrap();
            let few = |kept: i64| col("key").lt(kept).and(col("number").gt_eq(-7));
            // Beside tests of ranges one that reads two columns value by value.
            let compared = few(200).and(col("price").lt(col("number").to_float64()));
            let filters = [1, 31, 33, 63, 64, 65, 200, 1000].map(few);
            for filter in filters.into_iter().chain([compared]) {
                for aggregates in shapes {
                    let scan = Scan::new(&packed).filter(filter.clone());
                    let expected = scan.aggregate(aggregates, &Engine::cpu()).unwrap();
                    let scan = Scan::on_device(&on_device).filter(filter.clone());
                    let found = scan.aggregate(aggregates, &engine).unwrap();
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{filter}");
                }
            }
        }
    }
}

#[test]
fn rows_of_chunks_at_odd_places_are_aggregated() {
    let values = |start: i64, len: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + len));
        let doubled: ArrayRef = Arc::new(Float64Array::from_iter_values(
            (start..start + len).map(|at| at as f64 / 4.0),
        ));
        RecordBatch::try_from_iter([("x", values), ("y", doubled)]).unwrap()
    };
    let parts: Vec<RecordBatch> = [(0, 3), (3, 1100), (1103, 1), (1104, 2048), (3152, 70)]
        .map(|(start, len)| compress(&values(start, len), &Options::default()).unwrap())
        .to_vec();
    let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
    let filters = [
        col("x").gt(1).and(col("y").lt(800.0)),
        col("x").lt(5).or((col("x") + 1).gt(3200)).or(col("y").eq(276.0)),
        !(col("y") * 4.0).eq(col("x").to_float64()),
    ];
    for engine in engines() {
        for filter in &filters {
            let scan = Scan::new(&joined).filter(filter.clone());
            let rows = |engine: &Engine| scan.rows(engine).unwrap();
            assert_eq!(rows(&engine), rows(&Engine::cpu()), "{filter}");
            let aggregates = [sum(col("x")), sum(col("y")), count_rows()];
            let found = |engine: &Engine| scan.aggregate(&aggregates, engine).unwrap();
            assert_eq!(found(&engine), found(&Engine::cpu()), "{filter}");
        }
    }
}
