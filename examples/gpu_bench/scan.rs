//! Filters of compressed columns in device memory.
//!
//! For each column `x <= v`, with the values v below which 0.01, 1, 10, 50 and 100 % of its
//! rows lie: on the compressed column, on the same column stored plain (which is the raw
//! array, read by the same kernel), and decompressed first.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;
use lanepack::internals::measure;
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{DeviceBatch, DeviceColumn, Encoding, Engine, Error, Options, compress};

use super::{Case, Engines, RUNS, WARM_UP, copies, median};

/// Shares of the rows that are kept.
const SHARES: [f64; 5] = [0.0001, 0.01, 0.1, 0.5, 1.0];

/// What scans of one column came to.
pub struct Line {
    pub what: String,
    pub case: String,
    /// Bytes of values a second for each of [`SHARES`].
    pub values: Vec<f64>,
    /// Compressed bytes and bitmap a second, at a tenth.
    pub moved: f64,
    /// Bytes of values a second, at a tenth, of the raw array, and decompressed first.
    pub raw: f64,
    pub decompressed: f64,
    pub same: bool,
}

/// The head of the table.
pub fn head() -> String {
    let shares: Vec<String> =
        SHARES.iter().map(|share| format!("{:>8}", format!("{} %", share * 100.0))).collect();
    format!(
        "{:<12} {:<28} {} {:>8} {:>8} {:>8}   GB/s of values",
        "what",
        "case",
        shares.join(" "),
        "moved",
        "raw",
        "decoded"
    )
}

impl Line {
    pub fn text(&self) -> String {
        let gb = |rate: f64| format!("{:>8.0}", rate / 1e9);
        let values: Vec<String> = self.values.iter().map(|rate| gb(*rate)).collect();
        format!(
            "{:<12} {:<28} {} {} {} {}{}",
            self.what,
            self.case.chars().take(28).collect::<String>(),
            values.join(" "),
            gb(self.moved),
            gb(self.raw),
            gb(self.decompressed),
            if self.same { "" } else { "  DIFFERENT" }
        )
    }
}

/// Measures one column of numbers; none if values of its type have no order or are not
/// scanned here (for strings see `scan_strings.rs`).
pub fn case(engines: &Engines, case: &Case, bytes: usize) -> Result<Option<Line>, Error> {
    let (copies, one) = copies(&case.array, bytes);
    let of_strings =
        !case.array.data_type().is_primitive() && *case.array.data_type() != DataType::Boolean;
    if of_strings {
        return Ok(None);
    }
    let Ok(order) = arrow_ord::sort::sort_to_indices(&case.array, None, None) else {
        return Ok(None);
    };
    let valid = case.array.len() - case.array.null_count();
    if valid == 0 {
        return Ok(None);
    }
    let array = repeated(&case.array, copies)?;
    let size = (one * copies) as f64;
    let packed = upload(&engines.pinned, &array, &case.options)?;
    let mut values = Vec::new();
    let mut same = true;
    let mut tenth = (Duration::ZERO, None);
    for share in SHARES {
        let rank = ((valid as f64 * share) as usize).clamp(1, valid) - 1;
        let nulls_first = case.array.null_count();
        let row = order.value(nulls_first + rank) as usize;
        let bound = case.array.slice(row, 1);
        let filter = col("x").lt_eq(Literal::Arrow(bound.clone()));
        let (time, mask) = match time(&engines.pinned, &packed, &filter) {
            Err(Error::NoDevice { .. } | Error::Expression { .. }) => return Ok(None),
            measured => measured?,
        };
        same &= mask == expected(&array, &bound)?;
        values.push(size / time.as_secs_f64());
        if share == 0.1 {
            tenth = (time, Some(filter));
        }
    }
    let (time_of_tenth, filter) = tenth;
    let filter = filter.expect("a tenth is among the shares");
    let column = &packed.columns()[0];
    let touched = column.device_bytes() + array.len() / 8;
    let decoding = decoding(column)?;
    let moved = touched as f64 / time_of_tenth.as_secs_f64();
    drop(packed);
    let plain =
        upload(&engines.pinned, &array, &Options::default().with_encodings([Encoding::Plain]))?;
    let (raw, _) = time(&engines.pinned, &plain, &filter)?;
    let decompressed = size / (raw + decoding).as_secs_f64();
    Ok(Some(Line {
        what: case.column.encoding(),
        case: case.name.clone(),
        values,
        moved,
        raw: size / raw.as_secs_f64(),
        decompressed,
        same,
    }))
}

/// So many copies of an array, one behind the other.
pub fn repeated(array: &ArrayRef, copies: usize) -> Result<ArrayRef, Error> {
    let parts: Vec<&dyn Array> = vec![array; copies];
    Ok(concat(&parts)?)
}

/// The column `x`, compressed in device memory.
pub fn upload(engine: &Engine, array: &ArrayRef, options: &Options) -> Result<DeviceBatch, Error> {
    let field = Field::new("x", array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema, vec![array.clone()])?;
    engine.upload(&compress(&batch, options)?)
}

/// What the kernels of a filter take, and the rows that it keeps.
pub fn time(
    engine: &Engine,
    batch: &DeviceBatch,
    filter: &Expr,
) -> Result<(Duration, BooleanArray), Error> {
    let scan = Scan::on_device(batch).filter(filter.clone());
    let mask = scan.mask(engine)?;
    let mut times = Vec::new();
    for run in 0..WARM_UP + RUNS {
        let kernels = scan.times(&[], engine)?.kernels;
        let time = kernels.iter().filter(|(name, _)| !name.is_empty()).map(|(_, time)| *time).sum();
        if run >= WARM_UP {
            times.push(time);
        }
    }
    Ok((median(times), mask))
}

/// What decompression of a column takes.
pub fn decoding(column: &DeviceColumn) -> Result<Duration, Error> {
    let mut times = Vec::new();
    for run in 0..WARM_UP + RUNS {
        let all = measure::decompress(column)?.1.all;
        if run >= WARM_UP {
            times.push(all);
        }
    }
    Ok(median(times))
}

/// What Arrow's kernel keeps.
fn expected(array: &ArrayRef, bound: &ArrayRef) -> Result<BooleanArray, Error> {
    let bound = arrow_array::Scalar::new(bound.clone());
    let kept = arrow_ord::cmp::lt_eq(array, &bound)?;
    let rows = (0..kept.len()).map(|row| Some(kept.is_valid(row) && kept.value(row)));
    Ok(match kept.null_count() {
        0 => kept,
        _ => rows.collect(),
    })
}
