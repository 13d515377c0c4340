//! Filters of compressed strings in device memory.
//!
//! For each column equality with one of its values, IN with five, a prefix of three
//! characters and LIKE '%...%' with four: on the compressed column, and for the last also on
//! the same strings stored plain (which are the raw array, read by the same kernel) and
//! decompressed first. Then what a scan takes on the host's clock, the first of a column,
//! which brings its symbol tables to the host, and others, which make an automaton for each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Scalar, StringArray};
use arrow_schema::DataType;
use lanepack::scan::{Expr, Scan, col};
use lanepack::{CompressedDeviceBatch, Engine, Error};

use super::runs::Runs;
use super::scan::{First, decoding, first, is_right, plain, repeated, time, upload, without_nulls};
use super::{Case, Engines, RUNS, copies};

/// Names of the tests.
pub const TESTS: [&str; 4] = ["=", "IN", "prefix", "LIKE"];

/// LIKE among them.
pub const LIKE: usize = 3;

/// Scans of one column.
pub struct Scanned {
    /// Bytes of strings.
    pub size: usize,
    /// Compressed bytes and bitmap.
    pub touched: usize,
    /// The times, and the share of rows that are kept, for each of [`TESTS`].
    pub tests: Vec<(Runs, f64)>,
    /// Of the raw array, LIKE.
    pub raw: Runs,
    /// Decompression of the column.
    pub decoding: Runs,
    /// By the host's clock, LIKE.
    pub first: First,
    pub again: Runs,
    pub encoding: String,
    pub same: bool,
}

/// The head of the table.
pub fn head() -> String {
    let tests = TESTS.map(|test| format!("{test:>8} {:>7}", "kept"));
    format!(
        "{:<12} {:<24} {} {:>8} {:>8} {:>8} {:>9} {:>9}   GB/s of strings",
        "what",
        "case",
        tests.join(" "),
        "moved",
        "raw",
        "decoded",
        "first us",
        "again us"
    )
}

/// The line of a column.
pub fn text(case: &Case, scanned: &Scanned) -> String {
    let gb =
        |bytes: usize, time: Duration| format!("{:>8.0}", bytes as f64 / time.as_secs_f64() / 1e9);
    let rate = |time: Duration| gb(scanned.size, time);
    let tests = scanned.tests.iter();
    let tests: Vec<String> = tests
        .map(|(runs, share)| {
            format!("{} {:>7}", rate(runs.median()), format!("{:.2}%", share * 100.0))
        })
        .collect();
    format!(
        "{:<12} {:<24} {} {} {} {} {:>9} {:>9}{}",
        case.column.encoding(),
        case.name.chars().take(24).collect::<String>(),
        tests.join(" "),
        gb(scanned.touched, scanned.tests[LIKE].0.median()),
        rate(scanned.raw.median()),
        rate(scanned.raw.median() + scanned.decoding.median()),
        scanned.first.time.as_micros(),
        scanned.again.median().as_micros(),
        if scanned.same { "" } else { "  DIFFERENT" }
    )
}

/// A filter, and the rows that Arrow's kernels keep.
struct Test {
    filter: Expr,
    kept: BooleanArray,
}

fn tests(array: &StringArray) -> Result<Vec<Test>, Error> {
    let rows: Vec<usize> = (0..array.len()).filter(|row| array.is_valid(*row)).collect();
    let value = |part: usize| array.value(rows[rows.len() * part / 6]);
    let scalar = |text: &str| Scalar::new(StringArray::from(vec![text]));
    let likely = value(2);
    let prefix: String = likely.chars().take(3).collect();
    let part: String = likely.chars().skip(1).take(4).collect();
    let mut listed = arrow_ord::cmp::eq(array, &scalar(value(1)))?;
    for part in 2..6 {
        let other = arrow_ord::cmp::eq(array, &scalar(value(part)))?;
        listed = arrow_arith::boolean::or(&listed, &other)?;
    }
    let tests = vec![
        Test { filter: col("x").eq(likely), kept: arrow_ord::cmp::eq(array, &scalar(likely))? },
        Test { filter: col("x").in_list((1..6).map(value)), kept: listed },
        Test {
            filter: col("x").starts_with(prefix.as_str()),
            kept: arrow_string::like::starts_with(array, &scalar(&prefix))?,
        },
        Test {
            filter: col("x").contains(part.as_str()),
            kept: arrow_string::like::contains(array, &scalar(&part))?,
        },
    ];
    Ok(tests.into_iter().map(|test| Test { kept: without_nulls(&test.kept), ..test }).collect())
}

/// Measures one column; none if it is no text.
pub fn case(engines: &Engines, case: &Case, bytes: usize) -> Result<Option<Scanned>, Error> {
    if !matches!(case.array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    {
        return Ok(None);
    }
    // As Utf8, with empty strings for nulls: the same strings in all files.
    let texts = arrow_cast::cast(&case.array, &DataType::Utf8)?;
    let texts: StringArray =
        texts.as_string::<i32>().iter().map(|text| Some(text.unwrap_or(""))).collect();
    let texts: ArrayRef = Arc::new(texts);
    let (copies, _) = copies(&texts, bytes);
    let array = repeated(&texts, copies)?;
    let engine = &engines.pinned;
    let packed = upload(engine, &array, &case.options)?;
    column(engine, &texts, copies, packed, || upload(engine, &array, &plain())).map(Some)
}

/// Measures scans of `packed`, so many copies of an array of Utf8, not all null, as column
/// `x`, and of the same stored plain.
pub fn column(
    engine: &Engine,
    texts: &ArrayRef,
    copies: usize,
    packed: CompressedDeviceBatch,
    plain: impl FnOnce() -> Result<CompressedDeviceBatch, Error>,
) -> Result<Scanned, Error> {
    let tests = tests(texts.as_string::<i32>())?;
    let like = &tests[LIKE].filter;
    let first = first(engine, &packed, like)?;
    let again = Runs::measure(RUNS, || {
        let start = Instant::now();
        Scan::on_device(&packed).filter(like.clone()).count(engine)?;
        Ok(start.elapsed())
    })?;
    let mut measured = Vec::new();
    let mut same = true;
    for test in &tests {
        let (runs, mask) = time(engine, &packed, &test.filter)?;
        same &= is_right(&mask, &test.kept, copies);
        measured.push((runs, test.kept.true_count() as f64 / test.kept.len().max(1) as f64));
    }
    let column = &packed.columns()[0];
    let touched = column.device_bytes() + column.len() / 8;
    let encoding = column.download()?.encoding().to_string();
    let decoding = decoding(column)?;
    drop(packed);
    let (raw, _) = time(engine, &plain()?, like)?;
    let (size, tests) = (super::sizes(texts).1 * copies, measured);
    Ok(Scanned { size, touched, tests, raw, decoding, first, again, encoding, same })
}
