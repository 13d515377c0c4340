//! TPC-H Q6 and Q19 and SSB Q1 on generated tables (`examples/support/queries.rs`), against plain
//! loops over the values.

#[path = "../../examples/support/queries.rs"]
mod tables;

use std::ops::RangeInclusive;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use lanepack::scan::{Scan, count_rows, sum};
use lanepack::{Engine, Options, compress};

use tables::{Money, Query, lineitem, lineitem_strings, lineorder, of_strings, q1, q6};

const ROWS: usize = 300_000;

/// The aggregates of a query: the sum, and how many rows it is of.
fn run(query: &Query, table: &RecordBatch) -> RecordBatch {
    let packed = compress(table, &Options::default()).unwrap();
    let scan = Scan::new(&packed).filter(query.filter.clone());
    scan.aggregate(&[sum(query.sum.clone()), count_rows()], &Engine::cpu()).unwrap()
}

fn counted(result: &RecordBatch) -> i64 {
    result.column(1).as_primitive::<Int64Type>().value(0)
}

/// Whether a share of the rows is what it should be, within five standard deviations.
fn assert_share(found: i64, of: usize, expected: f64) {
    let deviation = (of as f64 * expected * (1.0 - expected)).sqrt();
    let difference = (found as f64 - of as f64 * expected).abs();
    assert!(difference < 5.0 * deviation, "{found} of {of}, expected a share of {expected}");
}

/// 1994 as days since 1970.
const YEAR: RangeInclusive<i32> = 8766..=9130;

#[test]
fn q6_sums_decimals_exactly() {
    let table = lineitem(ROWS, 1, Money::Decimal);
    let values = |name: &str| table[name].as_primitive::<Decimal128Type>().values();
    let (quantity, price) = (values("l_quantity"), values("l_extendedprice"));
    let (discount, days) = (values("l_discount"), table["l_shipdate"].as_primitive::<Date32Type>());
    let kept = |row: &usize| {
        let [quantity, discount] = [quantity[*row], discount[*row]];
        YEAR.contains(&days.value(*row)) && (5..=7).contains(&discount) && quantity < 2400
    };
    let rows: Vec<usize> = (0..ROWS).filter(kept).collect();
    let expected: i128 = rows.iter().map(|row| price[*row] * discount[*row]).sum();
    let found = run(&q6(Money::Decimal), &table);
    let revenue = found.column(0).as_primitive::<Decimal128Type>();
    assert_eq!((revenue.value(0), revenue.scale()), (expected, 4));
    assert_eq!(counted(&found), rows.len() as i64);
    // A year of the seven in which orders are shipped; their first and last months have less.
    assert_share(counted(&found), ROWS, 365.0 / 2406.0 * 3.0 / 11.0 * 23.0 / 50.0);
}

#[test]
fn q6_sums_floats() {
    let table = lineitem(ROWS, 2, Money::Float64);
    let values = |name: &str| table[name].as_primitive::<Float64Type>().values();
    let (quantity, price) = (values("l_quantity"), values("l_extendedprice"));
    let (discount, days) = (values("l_discount"), table["l_shipdate"].as_primitive::<Date32Type>());
    let kept = |row: &usize| {
        let [quantity, discount] = [quantity[*row], discount[*row]];
        YEAR.contains(&days.value(*row)) && (0.05..=0.07).contains(&discount) && quantity < 24.0
    };
    let rows: Vec<usize> = (0..ROWS).filter(kept).collect();
    let expected: f64 = rows.iter().map(|row| price[*row] * discount[*row]).sum();
    let found = run(&q6(Money::Float64), &table);
    let revenue = found.column(0).as_primitive::<Float64Type>().value(0);
    assert!((revenue - expected).abs() < expected * 1e-12, "{revenue}, not {expected}");
    assert_eq!(counted(&found), rows.len() as i64);
}

#[test]
fn filters_of_strings_and_numbers() {
    let rows = 60_000;
    let table = lineitem_strings(rows, 4);
    let quantities = table["l_quantity"].as_primitive::<UInt32Type>();
    let days = table["l_shipdate"].as_primitive::<Date32Type>();
    let text = |name: &str, row: usize| table[name].as_string::<i32>().value(row).to_owned();
    let is_shipped = |row: &usize| {
        ["AIR", "REG AIR"].contains(&text("l_shipmode", *row).as_str())
            && text("l_shipinstruct", *row) == "DELIVER IN PERSON"
            && quantities.value(*row) <= 30
    };
    let is_special = |row: &usize| {
        let comment = text("l_comment", *row);
        let behind = comment.find("special").map(|at| &comment[at + 7..]);
        YEAR.contains(&days.value(*row)) && behind.is_some_and(|rest| rest.contains("requests"))
    };
    let queries = of_strings();
    let shares = [2.0 / 7.0 / 4.0 * 30.0 / 50.0, 365.0 / 2406.0 * 6.0 / 1600.0];
    let tests: [&dyn Fn(&usize) -> bool; 2] = [&is_shipped, &is_special];
    for ((query, test), share) in queries.iter().zip(tests).zip(shares) {
        let kept: Vec<usize> = (0..rows).filter(test).collect();
        let expected: u64 = kept.iter().map(|row| u64::from(quantities.value(*row))).sum();
        let found = run(query, &table);
        assert_eq!(found.column(0).as_primitive::<UInt64Type>().value(0), expected);
        assert_eq!(counted(&found), kept.len() as i64);
        assert_share(counted(&found), rows, share);
    }
}

#[test]
fn q1_sums_integers() {
    let table = lineorder(ROWS, 3);
    let values = |name: &str| table[name].as_primitive::<UInt32Type>().values();
    let (date, quantity) = (values("lo_orderdate"), values("lo_quantity"));
    let (discount, price) = (values("lo_discount"), values("lo_extendedprice"));
    let conditions: [(RangeInclusive<u32>, _, RangeInclusive<u32>, f64); 3] = [
        (19930101..=19931231, 1..=3, 1..=24, 365.0 / 2406.0 * 3.0 / 11.0 * 24.0 / 50.0),
        (19940101..=19940131, 4..=6, 26..=35, 31.0 / 2406.0 * 3.0 / 11.0 * 10.0 / 50.0),
        (19940204..=19940210, 5..=7, 26..=35, 7.0 / 2406.0 * 3.0 / 11.0 * 10.0 / 50.0),
    ];
    for (query, (dates, discounts, quantities, share)) in q1().iter().zip(conditions) {
        let kept = |row: &usize| {
            dates.contains(&date[*row])
                && discounts.contains(&discount[*row])
                && quantities.contains(&quantity[*row])
        };
        let rows: Vec<usize> = (0..ROWS).filter(kept).collect();
        let expected: i64 = rows.iter().map(|row| i64::from(price[*row] * discount[*row])).sum();
        let found = run(query, &table);
        let revenue = found.column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!((revenue, counted(&found)), (expected, rows.len() as i64), "{}", query.name);
        // Orders have four items on average, and one date.
        assert_share(counted(&found) / 4, ROWS / 4, share);
    }
}

#[test]
fn tables_have_the_published_distributions() {
    let table = lineorder(ROWS, 4);
    let values = |name: &str| table[name].as_primitive::<UInt32Type>().values();
    let count = |name: &str, value: u32| {
        values(name).iter().filter(|found| **found == value).count() as i64
    };
    for quantity in 1..=50 {
        assert_share(count("lo_quantity", quantity), ROWS, 1.0 / 50.0);
    }
    for discount in 0..=10 {
        assert_share(count("lo_discount", discount), ROWS, 1.0 / 11.0);
    }
    let dates = values("lo_orderdate");
    let (first, last) = (dates.iter().min().unwrap(), dates.iter().max().unwrap());
    assert_eq!((*first, *last), (19920101, 19980802));
    assert!(dates.contains(&19960229) && dates.iter().all(|d| d % 100 < 32));
    let (price, revenue) = (values("lo_extendedprice"), values("lo_revenue"));
    for (row, quantity) in values("lo_quantity").iter().enumerate() {
        assert!(
            (90_100..=209_899).contains(&(price[row] / quantity)) && price[row] % quantity == 0
        );
        let discount = u64::from(values("lo_discount")[row]);
        assert_eq!(u64::from(revenue[row]), u64::from(price[row]) * (100 - discount) / 100);
    }
    let days = lineitem(ROWS, 4, Money::Float64);
    let days = days["l_shipdate"].as_primitive::<Date32Type>().values();
    // From 1992-01-02 to 1998-12-01, of which the first and the last are rare.
    let (first, last) = (*days.iter().min().unwrap(), *days.iter().max().unwrap());
    assert!((8036..8050).contains(&first) && (10_548..=10_561).contains(&last), "{first} {last}");
}

#[test]
fn tables_come_from_their_seed_alone() {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let table = lineorder(ROWS, 5);
    assert_eq!(one.install(|| lineorder(ROWS, 5)), table);
    assert_ne!(lineorder(ROWS, 6), table);
    // Rows are drawn in blocks: a shorter table begins like a longer one of as many parts.
    assert_eq!(lineorder(1000, 5), table.slice(0, 1000));
    assert_eq!(lineorder(0, 5).num_rows(), 0);
}
