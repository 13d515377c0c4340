//! Filters of compressed columns in device memory.
//!
//! For each column `x <= v`, with the values v below which 0.01, 1, 10, 50 and 100 % of its
//! rows lie: on the compressed column, on the same column stored plain (which is the raw
//! array, read by the same kernel), and decompressed first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;
use lanepack::internals::measure;
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{CompressedDeviceBatch, DeviceColumn, Encoding, Engine, Error, Options, compress};
use rayon::prelude::*;

use super::runs::Runs;
use super::{Case, Engines, RUNS, copies};

/// Shares of the rows that are kept.
pub const SHARES: [f64; 5] = [0.0001, 0.01, 0.1, 0.5, 1.0];

/// A tenth among them.
pub const TENTH: usize = 2;

/// Scans of one column.
pub struct Scanned {
    /// Bytes of values.
    pub size: usize,
    /// Compressed bytes and bitmap.
    pub touched: usize,
    /// For each of [`SHARES`].
    pub shares: Vec<Runs>,
    /// Of the raw array, at a tenth.
    pub raw: Runs,
    /// Decompression of the column.
    pub decoding: Runs,
    pub first: First,
    pub encoding: String,
    pub same: bool,
}

impl Scanned {
    /// Bytes of values per second.
    pub fn rate(&self, time: Duration) -> f64 {
        self.size as f64 / time.as_secs_f64()
    }
}

/// The first scan of a column.
pub struct First {
    /// By the host's clock.
    pub time: Duration,
    /// Bytes of device memory that it keeps for the scans that follow.
    pub kept: u64,
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

/// The line of a column.
pub fn text(case: &Case, scanned: &Scanned) -> String {
    let gb = |rate: f64| format!("{:>8.0}", rate / 1e9);
    let rate = |time: Duration| gb(scanned.rate(time));
    let shares: Vec<String> = scanned.shares.iter().map(|runs| rate(runs.median())).collect();
    format!(
        "{:<12} {:<28} {} {} {} {}{}",
        case.column.encoding(),
        case.name.chars().take(28).collect::<String>(),
        shares.join(" "),
        gb(scanned.touched as f64 / scanned.shares[TENTH].median().as_secs_f64()),
        rate(scanned.raw.median()),
        rate(scanned.raw.median() + scanned.decoding.median()),
        if scanned.same { "" } else { "  DIFFERENT" }
    )
}

/// Measures one column of numbers; none if values of its type have no order or are not
/// scanned here (for strings see `scan_strings.rs`).
pub fn case(engines: &Engines, case: &Case, bytes: usize) -> Result<Option<Scanned>, Error> {
    if !is_scanned(case.array.data_type()) {
        return Ok(None);
    }
    let (copies, _) = copies(&case.array, bytes);
    let array = repeated(&case.array, copies)?;
    let engine = &engines.pinned;
    let plain = || upload(engine, &array, &plain());
    column(engine, case, copies, upload(engine, &array, &case.options)?, plain)
}

/// Whether values of a type are scanned here.
pub fn is_scanned(data_type: &DataType) -> bool {
    data_type.is_primitive() || *data_type == DataType::Boolean
}

/// Arrays as they are.
pub fn plain() -> Options {
    Options::default().with_encodings([Encoding::Plain])
}

/// Measures scans of `packed`, so many copies of a case's array as column `x`, and of the same
/// stored plain.
pub fn column(
    engine: &Engine,
    case: &Case,
    copies: usize,
    packed: CompressedDeviceBatch,
    plain: impl FnOnce() -> Result<CompressedDeviceBatch, Error>,
) -> Result<Option<Scanned>, Error> {
    let Ok(order) = arrow_ord::sort::sort_to_indices(&case.array, None, None) else {
        return Ok(None);
    };
    let valid = case.array.len() - case.array.null_count();
    if valid == 0 {
        return Ok(None);
    }
    let filters = SHARES.map(|share| {
        let rank = ((valid as f64 * share) as usize).clamp(1, valid) - 1;
        let row = order.value(case.array.null_count() + rank) as usize;
        let bound = case.array.slice(row, 1);
        (col("x").lt_eq(Literal::Arrow(bound.clone())), bound)
    });
    let first = match first(engine, &packed, &filters[TENTH].0) {
        Err(Error::NoDevice { .. } | Error::Expression { .. }) => return Ok(None),
        first => first?,
    };
    let mut shares = Vec::new();
    let mut same = true;
    for (filter, bound) in &filters {
        let (runs, mask) = time(engine, &packed, filter)?;
        same &= is_right(&mask, &expected(&case.array, bound)?, copies);
        shares.push(runs);
    }
    let column = &packed.columns()[0];
    let touched = column.device_bytes() + column.len() / 8;
    let encoding = column.download()?.encoding().to_string();
    let decoding = decoding(column)?;
    drop(packed);
    let (raw, _) = time(engine, &plain()?, &filters[TENTH].0)?;
    let size = super::sizes(&case.array).1 * copies;
    Ok(Some(Scanned { size, touched, shares, raw, decoding, first, encoding, same }))
}

/// Whether a mask is so many copies of another.
pub fn is_right(mask: &BooleanArray, expected: &BooleanArray, copies: usize) -> bool {
    let rows = expected.len();
    mask.null_count() == 0
        && mask.len() == copies * rows
        && (0..copies)
            .into_par_iter()
            .all(|copy| mask.slice(copy * rows, rows).values() == expected.values())
}

/// Counts the rows of a column that has not been scanned before.
pub fn first(
    engine: &Engine,
    batch: &CompressedDeviceBatch,
    filter: &Expr,
) -> Result<First, Error> {
    let free = engine.free_memory()?;
    let start = Instant::now();
    Scan::on_device(batch).filter(filter.clone()).count(engine)?;
    let time = start.elapsed();
    Ok(First { time, kept: free.saturating_sub(engine.free_memory()?) })
}

/// So many copies of an array, one behind the other.
pub fn repeated(array: &ArrayRef, copies: usize) -> Result<ArrayRef, Error> {
    let parts: Vec<&dyn Array> = vec![array; copies];
    Ok(concat(&parts)?)
}

/// The column `x`, compressed in device memory.
pub fn upload(
    engine: &Engine,
    array: &ArrayRef,
    options: &Options,
) -> Result<CompressedDeviceBatch, Error> {
    let field = Field::new("x", array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema, vec![array.clone()])?;
    engine.upload(&compress(&batch, options)?)
}

/// What the kernels of a filter take, and the rows that it keeps.
pub fn time(
    engine: &Engine,
    batch: &CompressedDeviceBatch,
    filter: &Expr,
) -> Result<(Runs, BooleanArray), Error> {
    let scan = Scan::on_device(batch).filter(filter.clone());
    let mask = scan.mask(engine)?;
    let runs = Runs::measure(RUNS, || {
        let kernels = scan.times(&[], engine)?.kernels;
        Ok(kernels.iter().filter(|(name, _)| !name.is_empty()).map(|(_, time)| *time).sum())
    })?;
    Ok((runs, mask))
}

/// What decompression of a column takes.
pub fn decoding(column: &DeviceColumn) -> Result<Runs, Error> {
    Runs::measure(RUNS, || Ok(measure::decompress(column)?.1.all))
}

/// The rows that Arrow's kernel keeps.
fn expected(array: &ArrayRef, bound: &ArrayRef) -> Result<BooleanArray, Error> {
    let bound = arrow_array::Scalar::new(bound.clone());
    Ok(without_nulls(&arrow_ord::cmp::lt_eq(array, &bound)?))
}

/// False where it is unknown.
pub fn without_nulls(kept: &BooleanArray) -> BooleanArray {
    match kept.nulls() {
        Some(nulls) => BooleanArray::new(kept.values() & nulls.inner(), None),
        None => kept.clone(),
    }
}
