//! Aggregates against plain loops over the values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::DataType;
use lanepack::scan::{Expr, Scan, avg, col, count, count_rows, lit, max, min, sum};
use lanepack::{Engine, Error, Options, compress};

use crate::common::Rng;
use crate::{oracle, random};

/// A batch of one row of aggregates.
fn one(
    batch: &RecordBatch,
    filter: Option<Expr>,
    aggregates: &[lanepack::scan::Aggregate],
) -> Result<RecordBatch, Error> {
    let packed = compress(batch, &Options::default().with_chunk_rows(2048)).unwrap();
    let scan = Scan::new(&packed);
    let scan = filter.into_iter().fold(scan, Scan::filter);
    scan.aggregate(aggregates, &Engine::cpu())
}

/// The integers of the valid values of a column.
fn integers(column: &ArrayRef) -> Option<Vec<i256>> {
    let column = match column.data_type() {
        DataType::Decimal128(..) => {
            let array = column.as_primitive::<Decimal128Type>();
            return Some(array.iter().flatten().map(i256::from_i128).collect());
        }
        DataType::UInt64 => {
            let array = column.as_primitive::<UInt64Type>();
            return Some(array.iter().flatten().map(|v| i256::from_i128(v.into())).collect());
        }
        of if of.is_integer() => arrow_cast::cast(column, &DataType::Int64).unwrap(),
        _ => return None,
    };
    let array = column.as_primitive::<Int64Type>();
    Some(array.iter().flatten().map(|value| i256::from_i128(value.into())).collect())
}

/// The sum of floats in the order that the docs state, for chunks of `chunk` rows.
fn sum_of_floats(values: &[Option<f64>], chunk: usize) -> f64 {
    let order = [
        0, 4, 8, 12, 16, 20, 24, 28, 2, 6, 10, 14, 18, 22, 26, 30, 1, 5, 9, 13, 17, 21, 25, 29, 3,
        7, 11, 15, 19, 23, 27, 31,
    ];
    let mut total = 0.0;
    for chunk in values.chunks(chunk) {
        let mut sum = 0.0;
        for vector in chunk.chunks(1024) {
            let mut lanes = [0.0; 32];
            for step in order {
                for (lane, sum) in lanes.iter_mut().enumerate() {
                    let value = vector.get(step * 32 + lane).copied().flatten();
                    *sum += value.unwrap_or(0.0);
                }
            }
            for apart in [16, 8, 4, 2, 1] {
                for lane in 0..apart {
                    lanes[lane] += lanes[lane + apart];
                }
            }
            sum += lanes[0];
        }
        total += sum;
    }
    total
}

#[test]
fn sums_and_bounds_are_those_of_the_kept_values() {
    for seed in 0..60 {
        let mut rng = Rng(seed * 31 + 7);
        let batch = random::batch(&mut rng);
        let filter = random::filter(&mut rng, &batch, 2);
        let kept = oracle::kept(&filter, &batch);
        let rows = arrow_select::filter::filter_record_batch(&batch, &kept).unwrap();
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            let name = field.name();
            let aggregates = [count_rows(), count(col(name)), min(col(name)), max(col(name))];
            let found = match one(&batch, Some(filter.clone()), &aggregates) {
                Err(error) if error.to_string().contains("128 bits") => continue,
                found => found.unwrap(),
            };
            let counts = |index: usize| found.column(index).as_primitive::<Int64Type>().value(0);
            assert_eq!(counts(0), rows.num_rows() as i64);
            assert_eq!(counts(1), (column.len() - column.null_count()) as i64, "{name}: {filter}");
            for (index, descending) in [(2, false), (3, true)] {
                let options = arrow_ord::sort::SortOptions { descending, nulls_first: false };
                let order = arrow_ord::sort::sort_limit(column, Some(options), Some(1)).unwrap();
                let expected =
                    if order.is_empty() { new_null_array(field.data_type(), 1) } else { order };
                assert_eq!(found.column(index), &expected, "{name}: {filter}");
            }
        }
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            let name = field.name();
            let Some(values) = integers(column) else { continue };
            let expected = values.iter().fold(i256::ZERO, |sum, value| sum.wrapping_add(*value));
            let found = one(&batch, Some(filter.clone()), &[sum(col(name)), avg(col(name))]);
            let (least, most) = match field.data_type() {
                DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                    (0, i128::from(u64::MAX))
                }
                DataType::Decimal128(..) => (-(10_i128.pow(38) - 1), 10_i128.pow(38) - 1),
                _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
            };
            let fits = expected.to_i128().is_some_and(|sum| (least..=most).contains(&sum));
            match found {
                Err(error) if error.to_string().contains("128 bits") => continue,
                Err(Error::TooLarge { .. }) => assert!(!fits, "{name}: {filter}"),
                found => {
                    let found = found.unwrap();
                    assert!(fits, "{name}: {filter}");
                    let sum = integers(found.column(0)).unwrap();
                    let mean = found.column(1).as_primitive::<Float64Type>();
                    if values.is_empty() {
                        assert!(sum.is_empty() && mean.is_null(0), "{name}: {filter}");
                        continue;
                    }
                    assert_eq!(sum, [expected], "{name}: {filter}");
                    let scale = match field.data_type() {
                        DataType::Decimal128(_, scale) => 10_f64.powi((*scale).into()),
                        _ => 1.0,
                    };
                    let expected = expected.to_i128().unwrap() as f64 / scale / values.len() as f64;
                    assert_eq!(mean.value(0), expected, "{name}: {filter}");
                }
            }
        }
    }
}

#[test]
fn floats_are_added_in_the_order_that_is_documented() {
    for seed in 0..20 {
        let mut rng = Rng(seed);
        let rows = 100 + rng.below(9000) as usize;
        let values: Vec<Option<f64>> = (0..rows)
            .map(|_| (rng.below(10) > 0).then(|| rng.below(100_000) as f64 / 7.0 - 3000.0))
            .collect();
        let keys: Vec<i32> = (0..rows).map(|_| rng.below(10) as i32).collect();
        let batch = RecordBatch::try_from_iter([
            ("x", Arc::new(Float64Array::from(values.clone())) as ArrayRef),
            ("k", Arc::new(Int32Array::from(keys.clone()))),
        ])
        .unwrap();
        let found = one(&batch, Some(col("k").lt(7)), &[sum(col("x")), avg(col("x"))]).unwrap();
        let kept: Vec<Option<f64>> =
            values.iter().zip(&keys).map(|(value, key)| value.filter(|_| *key < 7)).collect();
        let sum = sum_of_floats(&kept, 2048);
        assert_eq!(found.column(0).as_primitive::<Float64Type>().value(0), sum);
        let count = kept.iter().flatten().count();
        assert_eq!(found.column(1).as_primitive::<Float64Type>().value(0), sum / count as f64);
    }
}

#[test]
fn numbers_are_computed_exactly_and_typed_as_their_columns() {
    let prices = Decimal128Array::from(vec![1_050, 99_999, -250, 7]);
    let prices = prices.with_precision_and_scale(15, 2).unwrap();
    let discounts = Decimal64Array::from(vec![5, 10, 0, 4]);
    let discounts = discounts.with_precision_and_scale(5, 2).unwrap();
    let batch = RecordBatch::try_from_iter([
        ("price", Arc::new(prices) as ArrayRef),
        ("discount", Arc::new(discounts)),
        ("quantity", Arc::new(Int32Array::from(vec![Some(3), None, Some(-2), Some(i32::MAX)]))),
    ])
    .unwrap();
    let revenue = col("price") * (lit(1) - col("discount"));
    let found = one(
        &batch,
        Some(col("price").gt(lit(lanepack::scan::Literal::decimal(0, 0)))),
        &[
            sum(revenue.clone()).named("revenue"),
            max(col("quantity") * col("quantity")),
            min(-col("quantity")),
            avg(col("price")),
            count(revenue),
        ],
    )
    .unwrap();
    assert_eq!(found.schema().field(0).name(), "revenue");
    assert_eq!(found.schema().field(1).name(), "max(quantity * quantity)");
    // 10.50 * 0.95 + 999.99 * 0.90 + 0.07 * 0.96, with four digits behind the point.
    let expected = Decimal128Array::from(vec![1_050 * 95 + 99_999 * 90 + 7 * 96]);
    let expected: ArrayRef = Arc::new(expected.with_precision_and_scale(38, 4).unwrap());
    assert_eq!(found.column(0), &expected);
    let most = i64::from(i32::MAX);
    assert_eq!(found.column(1).as_primitive::<Int64Type>().value(0), most * most);
    assert_eq!(found.column(2).as_primitive::<Int64Type>().value(0), -most);
    assert_eq!(found.column(3).as_primitive::<Float64Type>().value(0), 1010.56 / 3.0);
    assert_eq!(found.column(4).as_primitive::<Int64Type>().value(0), 3);
}

#[test]
fn aggregates_of_nothing_are_null_and_count_zero() {
    let batch = RecordBatch::try_from_iter([
        ("x", Arc::new(Float64Array::from(vec![1.5, 2.5])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec!["a", "b"]))),
    ])
    .unwrap();
    let aggregates =
        [count_rows(), count(col("x")), sum(col("x")), min(col("x")), max(col("s")), avg(col("x"))];
    let found = one(&batch, Some(col("x").gt(9.0)), &aggregates).unwrap();
    let counts: Vec<i64> =
        (0..2).map(|index| found.column(index).as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(counts, [0, 0]);
    assert!((2..6).all(|index| found.column(index).is_null(0)));
    let found = one(&batch, None, &aggregates).unwrap();
    assert_eq!(found.column(2).as_primitive::<Float64Type>().value(0), 4.0);
    assert_eq!(found.column(4).as_string::<i32>().value(0), "b");
}
