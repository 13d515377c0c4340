//! Measures decompression, compression and scans on a GPU, column by column:
//!
//! ```sh
//! cargo run --release --features cuda,_internals --example gpu_bench -- decode [FILES...]
//! cargo run --release --features cuda,_internals --example gpu_bench -- encode [FILES...]
//! cargo run --release --features cuda,_internals --example gpu_bench -- scan [FILES...]
//! cargo run --release --features cuda,_internals --example gpu_bench -- gather [FILES...]
//! cargo run --release --features cuda,_internals --example gpu_bench -- lz
//! cargo run --release --features cuda,_internals --example gpu_bench -- queries
//! cargo run --release --features cuda,_internals --example gpu_bench -- hybrid
//! cargo run --release --features cuda,_internals --example gpu_bench -- scaling --devices 0,1
//! cargo run --release --features cuda,_internals --example gpu_bench -- ssb --scale-factor 20
//! cargo run --release --features cuda,_internals --example gpu_bench -- record --out FILE --commit HASH
//! ```
//!
//! `decode`: every column of the Parquet files (by default all of the shared data), and
//! integers of every few widths, is compressed, repeated until its values take
//! more than 1 GB, uploaded, decompressed and compared with what went in; then
//! the kernels are timed with events on the device, the median of 15 runs after
//! two for warming up. Then the same from host memory to host memory, the median of 7 runs
//! after two. A line has:
//!
//! - `what`: the encoding, or `copy` for a copy within the device of as many bytes;
//! - `GB/s`: Arrow's buffers (values, offsets, bitmaps) made per second; for
//!   strings `values` has the same without offsets and bitmaps;
//! - `moved`: compressed bytes read plus bytes written per second, and `of copy`
//!   their share of what the copy moves in the same run;
//! - `ratio`: Arrow's bytes per compressed byte;
//! - `host`: Arrow's buffers per second from a compressed batch in ordinary host memory to
//!   arrays in ordinary host memory, and `pinned` from and to page-locked memory.
//!
//! `encode`: the same columns, repeated and copied to the device as Arrow arrays, are
//! compressed there, and what comes out is compared with the CPU's bytes. `GB/s` are
//! Arrow's buffers read per second, from the first kernel to the end of the last with
//! the host's work in between (`train`, `plan` and `assemble` in the last column); `host`
//! and `pinned` are from arrays in host memory to a compressed batch in host memory.
//!
//! `scan`: filters of the same columns in device memory to a bitmap, compared with
//! Arrow's kernels; see `gpu_bench/scan.rs` and, for strings, `gpu_bench/scan_strings.rs`.
//!
//! `gather`: values of the rows that a filter keeps; see `gpu_bench/gather.rs`.
//!
//! `lz`: decompression of LZ, then compression; see `gpu_bench/lz.rs`.
//!
//! `queries`: filters and aggregates of several columns; see `gpu_bench/queries.rs`.
//!
//! `hybrid`: the CPU, a GPU and both from host memory to host memory, by size; see
//! `gpu_bench/hybrid.rs`. `scaling`: several GPUs; see `gpu_bench/scaling.rs`. `ssb`: the Star Schema
//! Benchmark; see `gpu_bench/ssb.rs`.
//!
//! `record`: a fixed list of cases of all of these as one JSON document; see
//! `gpu_bench/record.rs` and `scripts/record`, which calls it.

#[path = "gpu_bench/cases.rs"]
mod cases;
#[path = "gpu_bench/decode.rs"]
mod decode;
#[path = "gpu_bench/document.rs"]
mod document;
#[path = "gpu_bench/encode.rs"]
mod encode;
#[path = "gpu_bench/gather.rs"]
mod gather;
#[path = "gpu_bench/generated.rs"]
mod generated;
#[path = "gpu_bench/host.rs"]
mod host;
#[path = "gpu_bench/hybrid.rs"]
mod hybrid;
#[path = "gpu_bench/list.rs"]
mod list;
#[path = "gpu_bench/lz.rs"]
mod lz;
#[path = "gpu_bench/queries.rs"]
mod queries;
#[path = "gpu_bench/record.rs"]
mod record;
#[path = "gpu_bench/runs.rs"]
mod runs;
#[path = "gpu_bench/scaling.rs"]
mod scaling;
#[path = "gpu_bench/scan.rs"]
mod scan;
#[path = "gpu_bench/scan_strings.rs"]
mod scan_strings;
#[path = "gpu_bench/ssb.rs"]
mod ssb;
#[path = "support/queries.rs"]
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use clap::{Parser, Subcommand};
use lanepack::internals::measure::{self, Times};
use lanepack::{Effort, Engine, Error, Options};
use serde_json::json;

use cases::{Case, Cases};
use host::{Engines, Rates};
use runs::Runs;

/// Measure lanepack on a GPU.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Decompression to device memory.
    Decode(What),
    /// Compression in device memory.
    Encode(What),
    /// Filters of compressed columns in device memory.
    Scan(What),
    /// Values of the rows that filters keep, of compressed columns in device memory.
    Gather(What),
    /// LZ: decompression to device memory, and compression in it.
    Lz(What),
    /// Queries over several columns.
    Queries(Rows),
    /// The CPU, a GPU, and both, from host memory to host memory, by size.
    Hybrid(hybrid::What),
    /// One, two, four, eight GPUs.
    Scaling(scaling::What),
    /// The Star Schema Benchmark.
    Ssb(ssb::What),
    /// Measures the rates of the machine and prints the file that they are kept in.
    Calibrate,
    /// A fixed list of cases with default options first, as a JSON document.
    Record(record::What),
}

#[derive(clap::Args)]
struct Rows {
    /// Rows of the tables.
    #[arg(long, default_value_t = 240_000_000)]
    rows: usize,
    /// Only queries whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Which GPU.
    #[arg(long, default_value_t = 0)]
    device: usize,
}

#[derive(clap::Args)]
struct What {
    /// Parquet files; without any, the shared data and generated numbers.
    files: Vec<PathBuf>,
    /// Lines of JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Bytes of values to work on at a time.
    #[arg(long, default_value_t = 1_050_000_000)]
    bytes: usize,
    /// Only cases whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// How much to try on columns of files: fast, balanced or small, whose strings GPUs do not
    /// write.
    #[arg(long, default_value = "balanced")]
    effort: Effort,
    /// Which GPU.
    #[arg(long, default_value_t = 0)]
    device: usize,
}

impl What {
    /// What is measured.
    fn cases(&self) -> Result<Cases, Box<dyn std::error::Error>> {
        Cases::new(&self.files, &self.only, Options::default().with_effort(self.effort))
    }
}

const WARM_UP: usize = 2;
const RUNS: usize = 15;
/// Runs from host to host, which take 50 times as long.
const HOST_RUNS: usize = 7;

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Decode(what) => run(&what, what.cases().map(Cases::with_cascades), decode::case),
        Command::Encode(what) => run(&what, what.cases().map(Cases::with_cascades), encode::case),
        Command::Scan(what) => run_scans(&what, scan_case),
        Command::Gather(what) => run_scans(&what, gather_case),
        Command::Lz(what) => run(&what, Ok(lz::cases(&what.only)), decode::case)
            .and_then(|same| Ok(same & run(&what, Ok(lz::cases(&what.only)), encode::case)?)),
        Command::Queries(what) => run_queries(&what),
        Command::Hybrid(what) => hybrid::run(&what),
        Command::Scaling(what) => scaling::run(&what),
        Command::Ssb(what) => ssb::run(&what),
        Command::Calibrate => hybrid::calibrate(),
        Command::Record(what) => record::run(&what),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for each case; whether all came out as they should.
fn run(
    what: &What,
    cases: Result<impl Iterator<Item = Case>, Box<dyn std::error::Error>>,
    measure: impl Fn(&Engines, &Case, usize, f64) -> Result<Line, Error>,
) -> Result<bool, Box<dyn std::error::Error>> {
    let engines = Engines::new(what.device)?;
    let engine = &engines.pinned;
    let info = engine.device().expect("a CUDA engine has a device");
    eprintln!("{}, driver {}, lanepack {}", info.name, info.driver, env!("CARGO_PKG_VERSION"));
    let printer = Printer { json: what.json };
    printer.head();
    let copy = copy_rate(engine, what.bytes)?;
    printer.line(&Line {
        what: "copy".to_owned(),
        case: "device to device".to_owned(),
        arrow: copy / 2.0,
        values: copy / 2.0,
        moved: copy,
        of_copy: 1.0,
        ratio: 1.0,
        host: None,
        kernels: String::new(),
    });
    let mut all_same = true;
    for case in cases? {
        let line = measure(&engines, &case, what.bytes, copy)
            .map_err(|error| format!("{}: {error}", case.name))?;
        all_same &= line.is_same();
        printer.line(&line);
    }
    Ok(all_same)
}

/// Prints a line for each column that is scanned; whether all masks were right.
fn run_scans(
    what: &What,
    measure: impl Fn(&Engines, &Case, usize) -> Result<Option<Row>, Error>,
) -> Result<bool, Box<dyn std::error::Error>> {
    let engines = Engines::new(what.device)?;
    let info = engines.pinned.device().expect("a CUDA engine has a device");
    eprintln!("{}, driver {}, lanepack {}", info.name, info.driver, env!("CARGO_PKG_VERSION"));
    let mut all_same = true;
    let mut last_head = String::new();
    for case in what.cases()?.with_cascades() {
        let row = measure(&engines, &case, what.bytes)
            .map_err(|error| format!("{}: {error}", case.name))?;
        let Some(Row { head, text, same }) = row else { continue };
        if head != last_head {
            println!("{head}");
            last_head = head;
        }
        all_same &= same;
        println!("{text}");
    }
    Ok(all_same)
}

/// Prints a line for each query; whether all results were right.
fn run_queries(what: &Rows) -> Result<bool, Box<dyn std::error::Error>> {
    let engine = Engine::cuda(what.device)?;
    Ok(queries::run(&engine, what.rows, &what.only)?)
}

/// A line of a table, its head, and whether results were as they should be.
struct Row {
    head: String,
    text: String,
    same: bool,
}

fn scan_case(engines: &Engines, case: &Case, bytes: usize) -> Result<Option<Row>, Error> {
    if let Some(scanned) = scan_strings::case(engines, case, bytes)? {
        let text = scan_strings::text(case, &scanned);
        return Ok(Some(Row { head: scan_strings::head(), text, same: scanned.same }));
    }
    let scanned = scan::case(engines, case, bytes)?;
    Ok(scanned.map(|scanned| {
        let text = scan::text(case, &scanned);
        Row { head: scan::head(), text, same: scanned.same }
    }))
}

fn gather_case(engines: &Engines, case: &Case, bytes: usize) -> Result<Option<Row>, Error> {
    let gathered = gather::case(engines, case, bytes)?;
    let text = gather::text(case, &gathered);
    Ok(Some(Row { head: gather::head(), text, same: gathered.same }))
}

/// Bytes per second that a copy within the device reads and writes.
fn copy_rate(engine: &Engine, bytes: usize) -> Result<f64, Error> {
    Ok(2.0 * bytes as f64 / copies_of(engine, bytes)?.median().as_secs_f64())
}

/// Times of copies of so many bytes within the device.
fn copies_of(engine: &Engine, bytes: usize) -> Result<Runs, Error> {
    let times = measure::copies(engine, bytes, WARM_UP + RUNS)?;
    Ok(times[WARM_UP..].iter().copied().collect())
}

/// One line of the table; rates in bytes per second.
struct Line {
    what: String,
    case: String,
    arrow: f64,
    values: f64,
    moved: f64,
    of_copy: f64,
    ratio: f64,
    /// From host to host, and whether all results were right; none of the copy.
    host: Option<Rates>,
    kernels: String,
}

impl Line {
    fn is_same(&self) -> bool {
        self.host.as_ref().is_none_or(|host| host.same)
    }
}

/// How many copies of a column, one behind the other, have `bytes` bytes; and the bytes
/// of the values of one.
fn copies(array: &ArrayRef, bytes: usize) -> (usize, usize) {
    let (all, values) = sizes(array);
    let most = match array.data_type() {
        DataType::Utf8 | DataType::Binary => (i32::MAX as usize / values.max(1)).max(1),
        _ => usize::MAX,
    };
    (bytes.div_ceil(all.max(1)).min(most), values)
}

/// Medians of each kernel's times, all its launches together.
fn kernels(runs: &[Times]) -> String {
    let kernels = kernel_times(runs);
    let kernels = kernels
        .iter()
        .map(|(name, time)| format!("{name} {:.0}", time.median().as_secs_f64() * 1e6));
    kernels.collect::<Vec<_>>().join(", ")
}

/// Each kernel's times, all its launches together, in the order of their first launches.
fn kernel_times(runs: &[Times]) -> Vec<(&'static str, Runs)> {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in &runs[0].kernels {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let of = |times: &Times, name: &str| -> Duration {
        times.kernels.iter().filter(|(kernel, _)| *kernel == name).map(|(_, time)| *time).sum()
    };
    let times = |name| (name, runs.iter().map(|run| of(run, name)).collect());
    names.into_iter().map(times).collect()
}

/// Bytes of Arrow's buffers, and of the values among them.
fn sizes(array: &ArrayRef) -> (usize, usize) {
    let data = array.to_data();
    let all = data.get_slice_memory_size().unwrap_or(0);
    let values = match data.data_type() {
        DataType::Utf8 | DataType::Binary => {
            let offsets = data.buffer::<i32>(0);
            (offsets[array.len()] - offsets[0]) as usize
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let offsets = data.buffer::<i64>(0);
            (offsets[array.len()] - offsets[0]) as usize
        }
        _ => all - array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8)),
    };
    (all, values)
}

struct Printer {
    json: bool,
}

impl Printer {
    fn head(&self) {
        if !self.json {
            println!(
                "{:<34} {:<26} {:>7} {:>7} {:>7} {:>8} {:>7} {:>6} {:>6}  kernels (us)",
                "what", "case", "GB/s", "values", "moved", "of copy", "ratio", "host", "pinned"
            );
        }
    }

    fn line(&self, line: &Line) {
        let gb = |rate: f64| rate / 1e9;
        let host = line.host.as_ref();
        let (host, pinned) = (
            host.map(|host| gb(host.rate(&host.ordinary))),
            host.map(|host| gb(host.rate(&host.pinned))),
        );
        if self.json {
            let line = json!({
                "what": line.what,
                "case": line.case,
                "arrow_gb_per_s": gb(line.arrow),
                "values_gb_per_s": gb(line.values),
                "moved_gb_per_s": gb(line.moved),
                "share_of_copy": line.of_copy,
                "ratio": line.ratio,
                "host_gb_per_s": host,
                "pinned_gb_per_s": pinned,
                "kernels_us": line.kernels,
                "same": line.is_same(),
            });
            println!("{line}");
        } else {
            let rate =
                |rate: Option<f64>| rate.map(|rate| format!("{rate:.1}")).unwrap_or_default();
            println!(
                "{:<34} {:<26} {:>7.0} {:>7.0} {:>7.0} {:>7.1}% {:>7.2} {:>6} {:>6}  {}{}",
                shorten(&line.what, 34),
                shorten(&line.case, 26),
                gb(line.arrow),
                gb(line.values),
                gb(line.moved),
                line.of_copy * 100.0,
                line.ratio,
                rate(host),
                rate(pinned),
                line.kernels,
                if line.is_same() { "" } else { "  DIFFERENT" }
            );
        }
    }
}

fn shorten(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}
