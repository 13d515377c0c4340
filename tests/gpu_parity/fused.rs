//! Kernels made for a query: filters of several columns, arithmetic, aggregates. A shape of
//! query is compiled once and run with many literals.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::scan::{
    Aggregate, Expr, Literal, Scan, avg, col, count, count_rows, lit, max, min, sum,
};
use lanepack::{Engine, Error, Options, compress};

use super::common::Rng;
use super::{cuda, engines, random, simt};

/// A shape of query over a random batch, and filters of that shape with other literals.
struct Queries {
    packed: RecordBatch,
    filters: Vec<Expr>,
    aggregates: Vec<Aggregate>,
}

fn queries(seed: u64, literals: usize) -> Queries {
    let mut rng = Rng(seed * 9_000_011 + 5);
    let batch = random::batch(&mut rng);
    let chunk_rows = [1024, 2048, 131_072][seed as usize % 3];
    let packed = compress(&batch, &Options::default().with_chunk_rows(chunk_rows)).unwrap();
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
    if let Some(engine) = simt() {
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
