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
use lanepack::{Encoding, Error, Options};

use super::scan::{decoding, repeated, time, upload};
use super::{Case, Engines, RUNS, WARM_UP, copies, median};

/// What scans of one column came to.
pub struct Line {
    what: String,
    case: String,
    /// Bytes of strings a second, and the share of rows that are kept, for each test.
    tests: Vec<(f64, f64)>,
    /// Compressed bytes and bitmap a second, LIKE.
    moved: f64,
    /// Bytes of strings a second, LIKE, of the raw array, and decompressed first.
    raw: f64,
    decompressed: f64,
    /// On the host's clock, LIKE.
    first: Duration,
    again: Duration,
    pub same: bool,
}

/// The head of the table.
pub fn head() -> String {
    let tests = ["=", "IN", "prefix", "LIKE"].map(|test| format!("{test:>8} {:>7}", "kept"));
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

impl Line {
    pub fn text(&self) -> String {
        let gb = |rate: f64| format!("{:>8.0}", rate / 1e9);
        let tests = self.tests.iter();
        let tests: Vec<String> = tests
            .map(|(rate, share)| format!("{} {:>7}", gb(*rate), format!("{:.2}%", share * 100.0)))
            .collect();
        format!(
            "{:<12} {:<24} {} {} {} {} {:>9} {:>9}{}",
            self.what,
            self.case.chars().take(24).collect::<String>(),
            tests.join(" "),
            gb(self.moved),
            gb(self.raw),
            gb(self.decompressed),
            self.first.as_micros(),
            self.again.as_micros(),
            if self.same { "" } else { "  DIFFERENT" }
        )
    }
}

/// A filter, and the rows that Arrow's kernels keep.
struct Test {
    filter: Expr,
    kept: BooleanArray,
}

fn tests(array: &StringArray) -> Result<Vec<Test>, Error> {
    let value = |part: usize| array.value(array.len() * part / 6);
    let scalar = |text: &str| Scalar::new(StringArray::from(vec![text]));
    let likely = value(2);
    let prefix: String = likely.chars().take(3).collect();
    let part: String = likely.chars().skip(1).take(4).collect();
    let mut listed = arrow_ord::cmp::eq(array, &scalar(value(1)))?;
    for part in 2..6 {
        let other = arrow_ord::cmp::eq(array, &scalar(value(part)))?;
        listed = arrow_arith::boolean::or(&listed, &other)?;
    }
    Ok(vec![
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
    ])
}

/// Measures one column; none if it is no text.
pub fn case(engines: &Engines, case: &Case, bytes: usize) -> Result<Option<Line>, Error> {
    if !matches!(case.array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    {
        return Ok(None);
    }
    // As Utf8, with empty strings for nulls: the same strings in all files.
    let texts = arrow_cast::cast(&case.array, &DataType::Utf8)?;
    let texts: StringArray =
        texts.as_string::<i32>().iter().map(|text| Some(text.unwrap_or(""))).collect();
    let tests = tests(&texts)?;
    let texts: ArrayRef = Arc::new(texts);
    let (copies, one) = copies(&texts, bytes);
    let array = repeated(&texts, copies)?;
    let size = (one * copies) as f64;
    let engine = &engines.pinned;
    let packed = upload(engine, &array, &case.options)?;

    let like = &tests[3];
    let scan = || Scan::on_device(&packed).filter(like.filter.clone());
    let clocked = || -> Result<Duration, Error> {
        let start = Instant::now();
        scan().count(engine)?;
        Ok(start.elapsed())
    };
    let first = clocked()?;
    let again = (0..WARM_UP + RUNS).map(|_| clocked()).collect::<Result<Vec<_>, _>>()?;
    let mut rates = Vec::new();
    let mut same = true;
    let mut of_like = Duration::ZERO;
    for test in &tests {
        let (time, mask) = time(engine, &packed, &test.filter)?;
        let rows = test.kept.len();
        same &=
            (0..copies).all(|copy| mask.slice(copy * rows, rows).values() == test.kept.values());
        let share = test.kept.true_count() as f64 / rows.max(1) as f64;
        rates.push((size / time.as_secs_f64(), share));
        of_like = time;
    }
    let column = &packed.columns()[0];
    let touched = column.device_bytes() + array.len() / 8;
    let decoding = decoding(column)?;
    drop(packed);
    let plain = upload(engine, &array, &Options::default().with_encodings([Encoding::Plain]))?;
    let (raw, _) = time(engine, &plain, &like.filter)?;
    Ok(Some(Line {
        what: case.column.encoding(),
        case: case.name.clone(),
        tests: rates,
        moved: touched as f64 / of_like.as_secs_f64(),
        raw: size / raw.as_secs_f64(),
        decompressed: size / (raw + decoding).as_secs_f64(),
        first,
        again: median(again[WARM_UP..].to_vec()),
        same,
    }))
}
