//! TPC-H Q6 and SSB Q1 on compressed columns against Arrow's kernels on the raw arrays, on
//! one thread.
//!
//! Arrow's side is what an engine on arrow-rs does: one comparison after another, ANDs, the
//! two columns of the sum filtered, multiplied and added.

use std::hint::black_box;
use std::sync::Arc;

use arrow_arith::{aggregate, boolean, numeric};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, Decimal128Array, Float64Array, PrimitiveArray,
    RecordBatch, Scalar, UInt32Array,
};
use arrow_ord::cmp;
use arrow_select::filter::filter;
use lanepack::scan::{Scan, sum};
use lanepack::{CompressedColumn, Engine, Options, columns, compress};

use crate::{Pair, Visitor};

#[path = "../../../examples/support/queries.rs"]
pub mod tables;

use tables::{Money, Query, lineitem, lineorder, q1, q6};

/// Scale factor 1.
const ROWS: usize = 6_000_000;

const GROUP: &str = "queries (peer: Arrow kernels on raw arrays)";

/// Sums of either side, as numbers of one type.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sum {
    Integer(i128),
    Float(f64),
}

impl Sum {
    /// The first value of a column of sums.
    fn of(array: &ArrayRef) -> Self {
        if let Some(array) = array.as_primitive_opt::<Decimal128Type>() {
            Self::Integer(array.value(0))
        } else if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            Self::Integer(array.value(0).into())
        } else {
            Self::Float(array.as_primitive::<Float64Type>().value(0))
        }
    }

    /// Floats are added in another order by each side.
    fn equals(self, other: Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => (a - b).abs() <= a.abs() * 1e-9,
            _ => self == other,
        }
    }
}

fn both(left: &BooleanArray, right: &BooleanArray) -> BooleanArray {
    boolean::and(left, right).expect("of one length")
}

fn between(array: &dyn Datum, low: &dyn Datum, high: &dyn Datum) -> BooleanArray {
    let low = cmp::gt_eq(array, low).expect("comparable");
    both(&low, &cmp::lt_eq(array, high).expect("comparable"))
}

/// Two columns of a table, filtered, multiplied.
fn products(table: &RecordBatch, mask: &BooleanArray, names: [&str; 2]) -> ArrayRef {
    let [left, right] = names.map(|name| filter(&table[name], mask).expect("of one length"));
    numeric::mul(&left, &right).expect("products that fit")
}

/// TPC-H Q6 by Arrow's kernels.
fn q6_by_arrow(table: &RecordBatch, money: Money) -> Sum {
    let number = |hundredths: i128| -> Scalar<ArrayRef> {
        Scalar::new(match money {
            Money::Decimal => Arc::new(
                Decimal128Array::from(vec![hundredths])
                    .with_precision_and_scale(15, 2)
                    .expect("a precision that there is"),
            ),
            Money::Float64 => Arc::new(Float64Array::from(vec![hundredths as f64 / 100.0])),
        })
    };
    // 1994 as days since 1970.
    let [first, last] = [8766, 9130].map(PrimitiveArray::<Date32Type>::new_scalar);
    let mask = between(&table["l_shipdate"], &first, &last);
    let mask = both(&mask, &between(&table["l_discount"], &number(5), &number(7)));
    let small = cmp::lt(&table["l_quantity"], &number(2400)).expect("comparable");
    let products = products(table, &both(&mask, &small), ["l_extendedprice", "l_discount"]);
    match money {
        Money::Decimal => {
            let products = products.as_primitive::<Decimal128Type>();
            Sum::Integer(aggregate::sum(products).unwrap_or_default())
        }
        Money::Float64 => {
            let products = products.as_primitive::<Float64Type>();
            Sum::Float(aggregate::sum(products).unwrap_or_default())
        }
    }
}

/// Bounds of dates, discounts and quantities of SSB Q1.1 to Q1.3.
const Q1: [[[u32; 2]; 3]; 3] = [
    [[19930101, 19931231], [1, 3], [1, 24]],
    [[19940101, 19940131], [4, 6], [26, 35]],
    [[19940204, 19940210], [5, 7], [26, 35]],
];

/// One of SSB Q1.1 to Q1.3 by Arrow's kernels.
fn q1_by_arrow(table: &RecordBatch, bounds: [[u32; 2]; 3]) -> Sum {
    let names = ["lo_orderdate", "lo_discount", "lo_quantity"];
    let mask = (names.iter().zip(bounds))
        .map(|(name, bounds)| {
            let [low, high] = bounds.map(UInt32Array::new_scalar);
            between(&table[*name], &low, &high)
        })
        .reduce(|left, right| both(&left, &right))
        .expect("three conditions");
    let products = products(table, &mask, ["lo_extendedprice", "lo_discount"]);
    let products: PrimitiveArray<UInt64Type> =
        products.as_primitive::<UInt32Type>().unary(u64::from);
    Sum::Integer(aggregate::sum(&products).unwrap_or_default().into())
}

/// The sum of a query over compressed columns.
pub fn on_compressed(packed: &[CompressedColumn], query: &Query, engine: &Engine) -> ArrayRef {
    let scan = Scan::of(packed).filter(query.filter.clone());
    let result = scan.aggregate(&[sum(query.sum.clone())], engine).expect("a sum");
    result.column(0).clone()
}

/// Times a query on both sides, which have to agree.
fn compare(
    table: &RecordBatch,
    packed: &[CompressedColumn],
    query: &Query,
    what: &str,
    peer: impl Fn() -> Sum,
    visitor: &mut dyn Visitor,
) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let engine = Engine::cpu();
    let ours = || pool.install(|| on_compressed(packed, query, &engine));
    let (found, expected) = (Sum::of(&ours()), peer());
    assert!(found.equals(expected), "{}: {found:?}, not {expected:?}", query.name);
    let words = format!("{} {}", query.filter, query.sum);
    let used = table.schema_ref().fields().iter().filter(|field| words.contains(field.name()));
    let bytes = used.map(|field| table[field.name().as_str()].get_array_memory_size()).sum();
    visitor.pair(Pair::new(
        GROUP,
        format!("{}{what}, {} million rows", query.name, ROWS / 1_000_000),
        bytes,
        || drop(black_box(ours())),
        || {
            black_box(peer());
        },
    ));
}

/// The columns of a table, compressed and validated.
pub fn packed(table: &RecordBatch) -> Vec<CompressedColumn> {
    let packed = compress(table, &Options::default()).expect("a compressed batch");
    columns(&packed).expect("columns")
}

/// All comparisons of queries.
pub fn visit(visitor: &mut dyn Visitor) {
    if !visitor.wants("queries") {
        return;
    }
    for (money, what) in [(Money::Decimal, ", decimals"), (Money::Float64, ", Float64")] {
        let table = lineitem(ROWS, 1, money);
        let packed = packed(&table);
        compare(&table, &packed, &q6(money), what, || q6_by_arrow(&table, money), visitor);
    }
    let table = lineorder(ROWS, 1);
    let packed = packed(&table);
    for (query, bounds) in q1().iter().zip(Q1) {
        compare(&table, &packed, query, "", || q1_by_arrow(&table, bounds), visitor);
    }
}
