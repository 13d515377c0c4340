//! Filters of compressed columns against Arrow's kernels on the raw arrays, on one thread.
//!
//! Both make a BooleanArray. Columns have four million values, so that raw arrays do not
//! stay in the caches: integers of some widths, decimal floats of shared files and with
//! exceptions, and strings of shared files. Compressed columns have been validated
//! before, as raw arrays have been when they were made.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, Float64Array, Int32Array, Int64Array, RecordBatch,
    Scalar, StringArray,
};
use arrow_select::concat::concat;
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{CompressedColumn, Engine, Options, columns, compress};

use crate::{Pair, Visitor, data};

const ROWS: usize = 4 << 20;

const NUMBERS: &str = "scan of numbers (peer: Arrow kernels on raw arrays)";
const STRINGS: &str = "scan of strings (peer: Arrow kernels on raw arrays)";

/// An array of [`ROWS`] rows: `array`, so often.
fn tiled(array: &ArrayRef) -> ArrayRef {
    let copies: Vec<&dyn Array> = vec![array; ROWS.div_ceil(array.len())];
    concat(&copies).expect("arrays of one type").slice(0, ROWS)
}

fn packed(array: &ArrayRef) -> Vec<CompressedColumn> {
    let batch = RecordBatch::try_from_iter([("x", array.clone())]).expect("a batch");
    let packed = compress(&batch, &Options::default()).expect("a compressed batch");
    columns(&packed).expect("columns")
}

/// Times a filter on both sides, which have to agree.
fn compare(
    group: &'static str,
    name: String,
    array: &ArrayRef,
    expr: Expr,
    peer: impl Fn(&ArrayRef) -> BooleanArray,
    visitor: &mut dyn Visitor,
) {
    let packed = packed(array);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let engine = Engine::cpu();
    let ours = || pool.install(|| Scan::of(&packed).filter(expr.clone()).mask(&engine));
    let found = ours().expect("a mask");
    let expected = peer(array);
    assert!(found.values() == expected.values(), "{name}: masks differ");
    let percent = found.true_count() as f64 * 100.0 / found.len() as f64;
    let name = format!("{name}, {percent:.2} %");
    let bytes = array.get_array_memory_size();
    visitor.pair(Pair::new(
        group,
        name,
        bytes,
        || drop(black_box(ours())),
        || drop(black_box(peer(array))),
    ));
}

fn between(low: &dyn Datum, high: &dyn Datum, array: &ArrayRef) -> BooleanArray {
    let low = arrow_ord::cmp::gt_eq(array, low).expect("comparable");
    let high = arrow_ord::cmp::lt_eq(array, high).expect("comparable");
    arrow_arith::boolean::and(&low, &high).expect("of one length")
}

fn numbers(visitor: &mut dyn Visitor) {
    let mut state = 99_u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    for bits in [4, 8, 16, 24] {
        let mut value = || 1_000_000 + (next() & ((1 << bits) - 1)) as i64;
        let values: Vec<i64> = (0..ROWS).map(|_| value()).collect();
        let bound = 1_000_000 + (1 << bits) / 10;
        let long: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let int: ArrayRef =
            Arc::new(Int32Array::from_iter_values(values.iter().map(|value| *value as i32)));
        let scalar = Int64Array::new_scalar(bound);
        compare(
            NUMBERS,
            format!("Int64 < x, {bits} bits"),
            &long,
            col("x").lt(bound),
            |array| arrow_ord::cmp::lt(array, &scalar).expect("comparable"),
            visitor,
        );
        let scalar = Int32Array::new_scalar(bound as i32);
        compare(
            NUMBERS,
            format!("Int32 < x, {bits} bits"),
            &int,
            col("x").lt(bound),
            |array| arrow_ord::cmp::lt(array, &scalar).expect("comparable"),
            visitor,
        );
    }
    for (digits, special) in [(2, 0), (2, 8), (3, 0)] {
        // `special` of 1,024 values are exceptions.
        let mut value = || match next() % 1024 < special {
            true => f64::from_bits(next() << 20),
            false => (next() % 60_000) as f64 / 10_f64.powi(digits),
        };
        let values: Vec<f64> = (0..ROWS).map(|_| value()).collect();
        let array: ArrayRef = Arc::new(Float64Array::from(values));
        let (low, high) = (60.0, 90.0);
        let (low_scalar, high_scalar) =
            (Float64Array::new_scalar(low), Float64Array::new_scalar(high));
        let name = format!("Float64 BETWEEN, {digits} digits, {special} exceptions a vector");
        compare(
            NUMBERS,
            name,
            &array,
            col("x").between(low, high),
            |array| between(&low_scalar, &high_scalar, array),
            visitor,
        );
        let name = format!("Float64 < x, {digits} digits, {special} exceptions a vector");
        compare(
            NUMBERS,
            name,
            &array,
            col("x").lt(low),
            |array| arrow_ord::cmp::lt(array, &low_scalar).expect("comparable"),
            visitor,
        );
    }
    for file in data::files("floats").iter().filter(|file| file.is_real()) {
        let array = file.column();
        let Some(values) = array.as_primitive_opt::<Float64Type>().filter(|a| a.len() >= 4096)
        else {
            continue;
        };
        if values.null_count() > 0 {
            continue;
        }
        let mut sorted: Vec<f64> = values.values().to_vec();
        sorted.sort_by(f64::total_cmp);
        let bound = sorted[sorted.len() / 10];
        let scalar = Float64Array::new_scalar(bound);
        let array = tiled(&array);
        compare(
            NUMBERS,
            format!("{} < x", file.name),
            &array,
            col("x").lt(bound),
            |array| arrow_ord::cmp::lt(array, &scalar).expect("comparable"),
            visitor,
        );
    }
}

fn strings(visitor: &mut dyn Visitor) {
    for file in data::files("strings") {
        let array = arrow_cast_utf8(&file.column());
        let values = array.as_string::<i32>();
        let value = values.value(values.len() / 3).to_owned();
        let part: String = value.chars().skip(1).take(4).collect();
        let array = tiled(&array);
        let scalar = Scalar::new(Arc::new(StringArray::from(vec![value.as_str()])) as ArrayRef);
        compare(
            STRINGS,
            format!("{} = x", file.name),
            &array,
            col("x").eq(value.as_str()),
            |array| arrow_ord::cmp::eq(array, &scalar).expect("comparable"),
            visitor,
        );
        let scalar = Scalar::new(Arc::new(StringArray::from(vec![part.as_str()])) as ArrayRef);
        let contains = col("x").contains(Literal::from(part.as_str()));
        compare(
            STRINGS,
            format!("{} contains", file.name),
            &array,
            contains,
            |array| arrow_string::like::contains(array, &scalar).expect("strings"),
            visitor,
        );
        let prefix: String = value.chars().take(3).collect();
        let scalar = Scalar::new(Arc::new(StringArray::from(vec![prefix.as_str()])) as ArrayRef);
        let begins = col("x").starts_with(prefix.as_str());
        compare(
            STRINGS,
            format!("{} begins with", file.name),
            &array,
            begins,
            |array| arrow_string::like::starts_with(array, &scalar).expect("strings"),
            visitor,
        );
    }
}

/// A column of strings as Utf8, with empty strings for nulls.
fn arrow_cast_utf8(array: &ArrayRef) -> ArrayRef {
    let strings: StringArray = match array.as_string_view_opt() {
        Some(views) => views.iter().map(|value| Some(value.unwrap_or(""))).collect(),
        None => array.as_string::<i32>().iter().map(|value| Some(value.unwrap_or(""))).collect(),
    };
    Arc::new(strings)
}

/// All comparisons of scans.
pub fn visit(visitor: &mut dyn Visitor) {
    if visitor.wants("scan") {
        numbers(visitor);
        strings(visitor);
    }
}
