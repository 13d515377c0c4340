//! Values of kept rows of compressed columns in device memory, gathered by `Scan::gather`.
//!
//! For each column the rows where a random number beside it lies below a bound: 0.1, 1, 10,
//! 50 and 100 % of them. The times are those of the kernels that gather; not the filter's, nor
//! that of the copy to the host.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use lanepack::scan::{Scan, col};
use lanepack::{Error, compress};

use super::runs::Runs;
use super::scan::{decoding, repeated};
use super::{Case, Engines, RUNS, copies};

/// Shares of the rows that are kept, and the numbers below which they lie.
pub const SHARES: [f64; 5] = [0.001, 0.01, 0.1, 0.5, 1.0];
const NUMBERS: u32 = 1_000_000;

/// Gathering of one column.
pub struct Gathered {
    /// For each of [`SHARES`] the times, and bytes of kept values.
    pub shares: Vec<(Runs, f64)>,
    /// Decompression of the whole column.
    pub decompressed: Runs,
    pub encoding: String,
    pub same: bool,
}

/// The head of the table.
pub fn head() -> String {
    let shares: Vec<String> = SHARES
        .iter()
        .map(|share| format!("{:>7} {:>6}", format!("{}%", share * 100.0), "us"))
        .collect();
    format!(
        "{:<12} {:<28} {} {:>8}   GB/s of kept values",
        "what",
        "case",
        shares.join(" "),
        "all us"
    )
}

/// The line of a column.
pub fn text(case: &Case, gathered: &Gathered) -> String {
    let share = |(runs, size): &(Runs, f64)| {
        let time = runs.median();
        format!("{:>7.0} {:>6}", size / time.as_secs_f64() / 1e9, time.as_micros())
    };
    let shares: Vec<String> = gathered.shares.iter().map(share).collect();
    format!(
        "{:<12} {:<28} {} {:>8}{}",
        case.column.encoding(),
        case.name.chars().take(28).collect::<String>(),
        shares.join(" "),
        gathered.decompressed.median().as_micros(),
        if gathered.same { "" } else { "  DIFFERENT" }
    )
}

/// Measures one column.
pub fn case(engines: &Engines, case: &Case, bytes: usize) -> Result<Gathered, Error> {
    let engine = &engines.pinned;
    let (copies, one) = copies(&case.array, bytes);
    let array = repeated(&case.array, copies)?;
    // A permutation of the numbers modulo a prime, the same for every column.
    let number = |row: usize| (row as u64 * 7_368_787 % 1_000_003) as u32 % NUMBERS;
    let numbers = UInt32Array::from_iter_values((0..array.len()).map(number));
    let columns: [(&str, ArrayRef); 2] = [("x", array.clone()), ("k", Arc::new(numbers.clone()))];
    let packed = engine.upload(&compress(&RecordBatch::try_from_iter(columns)?, &case.options)?)?;
    let mut shares = Vec::new();
    let mut same = true;
    for share in SHARES {
        let bound = (f64::from(NUMBERS) * share) as u32;
        let scan = Scan::on_device(&packed).filter(col("k").lt(bound));
        let runs = Runs::measure(RUNS, || {
            let kernels = scan.gather_times(&["x"], engine)?.kernels;
            // Not the filter's.
            let gathers =
                |name: &str| !name.is_empty() && !name.starts_with("select") && name != "scan";
            Ok(kernels.iter().filter(|(name, _)| gathers(name)).map(|(_, time)| *time).sum())
        })?;
        let mask: BooleanArray =
            numbers.values().iter().map(|number| Some(*number < bound)).collect();
        let kept = mask.true_count();
        if share <= 0.1 {
            let found = scan.gather(&["x"], engine)?;
            same &= *found.column(0) == arrow_select::filter::filter(&array, &mask)?;
        }
        let size = (one * copies) as f64 * kept as f64 / array.len() as f64;
        shares.push((runs, size));
    }
    let column = &packed.columns()[0];
    let encoding = column.download()?.encoding().to_string();
    Ok(Gathered { shares, decompressed: decoding(column)?, encoding, same })
}
