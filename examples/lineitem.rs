//! TPC-H's lineitem as a file: what writing takes, beside Parquet, and what query 6 takes from it.
//!
//! ```sh
//! cargo run --release --example lineitem -- write /tmp/lineitem.lanepack
//! cargo run --release --example lineitem -- write --format parquet /tmp/lineitem.parquet
//! cargo run --release --example lineitem -- query /tmp/lineitem.lanepack
//! ```
//!
//! With a GPU (`--engine cuda`, feature `cuda`) the query is also run with its columns in GPU memory.
//!
//! Each run prints a line of JSON. Rows are generated while they are written, by one thread; `--format none`
//! generates them only. `peak_bytes` of writing is without what the generator has at the beginning. `scripts/record files` compares these figures with DuckDB's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_buffer::Buffer;
use clap::{Parser, Subcommand, ValueEnum};
use lanepack::file::{File, ReadAt, Writer};
use lanepack::scan::{Literal, Scan, col, sum};
use lanepack::{Engine, Options};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::{LineItemArrow, RecordBatchIterator};

/// TPC-H's lineitem as a file.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the table.
    Write {
        /// The file.
        path: PathBuf,
        /// What kind of file.
        #[arg(long, value_enum, default_value_t = Format::Lanepack)]
        format: Format,
        /// Size of the table: 1 is 6 million rows.
        #[arg(long, default_value_t = 1.0)]
        scale_factor: f64,
    },
    /// Opens a file of lanepack and runs query 6.
    Query {
        /// The file.
        path: PathBuf,
        /// Runs, of which the median counts.
        #[arg(long, default_value_t = 15)]
        runs: usize,
        /// Who runs it.
        #[arg(long, value_enum, default_value_t = By::Cpu)]
        engine: By,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Lanepack,
    /// Parquet with zstd(3).
    Parquet,
    /// No file.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// The CPU.
    Cpu,
    /// The first GPU (feature `cuda`).
    Cuda,
    /// Both, as is predicted to take least.
    Auto,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    match Args::parse().command {
        Command::Write { path, format, scale_factor } => write(&path, format, scale_factor),
        Command::Query { path, runs, engine } => {
            let engine = match engine {
                By::Cpu => Engine::cpu(),
                By::Cuda => Engine::cuda(0)?,
                By::Auto => Engine::auto(),
            };
            query(&path, runs, &engine)
        }
    }
}

fn write(path: &Path, format: Format, scale_factor: f64) -> Result<(), Failure> {
    let mut batches = LineItemArrow::new(LineItemGenerator::new(scale_factor, 1, 1));
    let schema = batches.schema().clone();
    // The generator makes its text with the first batch: 300 MB that are not the writer's.
    let first = batches.next();
    let before = forget_peak();
    let start = Instant::now();
    let mut rows = 0;
    let batches = first.into_iter().chain(batches).inspect(|batch| rows += batch.num_rows());
    match format {
        Format::Lanepack => {
            let mut writer = Writer::create(path, &schema, Options::default())?;
            for batch in batches {
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
        Format::Parquet => {
            let zstd = Compression::ZSTD(ZstdLevel::try_new(3)?);
            let properties = WriterProperties::builder().set_compression(zstd).build();
            let file = std::fs::File::create(path)?;
            let mut writer = ArrowWriter::try_new(file, schema, Some(properties))?;
            for batch in batches {
                writer.write(&batch)?;
            }
            writer.into_inner()?.sync_all()?;
        }
        Format::None => batches.for_each(drop),
    }
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    println!(
        r#"{{"rows":{rows},"seconds":{:.3},"bytes":{bytes},"peak_bytes":{}}}"#,
        start.elapsed().as_secs_f64(),
        memory("VmHWM").saturating_sub(before)
    );
    Ok(())
}

fn query(path: &Path, runs: usize, engine: &Engine) -> Result<(), Failure> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut revenue = 0;
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        let file = File::open(path)?;
        open.push(start.elapsed());
        revenue = query_6(&file.scan(), engine)?;
        all.push(start.elapsed());
    }
    let peak = memory("VmHWM");
    let source = Arc::new(Counting { file: std::fs::File::open(path)?, read: 0.into() });
    query_6(&File::from_source(source.clone())?.scan(), engine)?;
    let read = source.read.load(Ordering::Relaxed);
    print!(
        r#"{{"revenue":"{}.{:04}","open_ms":{:.3},"ms":{:.3},"bytes_read":{read},"peak_bytes":{}"#,
        revenue / 10_000,
        revenue % 10_000,
        milliseconds(open),
        milliseconds(all),
        peak
    );
    if engine.device().is_some() {
        let file = File::open(path)?;
        let columns = ["l_quantity", "l_extendedprice", "l_discount", "l_shipdate"];
        let (mut copy, mut resident) = (Vec::new(), Vec::new());
        for _ in 0..runs.max(1) {
            let start = Instant::now();
            let on_device = file.to_device(&columns, engine)?;
            copy.push(start.elapsed());
            let start = Instant::now();
            revenue = query_6(&Scan::on_device(&on_device), engine)?;
            resident.push(start.elapsed());
        }
        print!(
            r#","resident_revenue":"{}.{:04}","to_device_ms":{:.3},"resident_ms":{:.3}"#,
            revenue / 10_000,
            revenue % 10_000,
            milliseconds(copy),
            milliseconds(resident)
        );
    }
    println!("}}");
    Ok(())
}

/// The revenue, in units of 0.0001.
fn query_6(scan: &Scan<'_>, engine: &Engine) -> Result<i128, Failure> {
    let rows = col("l_shipdate")
        .gt_eq("1994-01-01")
        .and(col("l_shipdate").lt("1995-01-01"))
        .and(col("l_discount").between(Literal::decimal(5, 2), Literal::decimal(7, 2)))
        .and(col("l_quantity").lt(24));
    let revenue = sum(col("l_extendedprice") * col("l_discount"));
    let total: RecordBatch = scan.clone().filter(rows).aggregate(&[revenue], engine)?;
    Ok(total.column(0).as_primitive::<Decimal128Type>().value(0))
}

/// The median, in milliseconds.
fn milliseconds(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Bytes of memory of the process, by Linux's name: `VmRSS` now, `VmHWM` at most; 0 on other systems.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Lets the system find the most memory anew; what is in use now.
fn forget_peak() -> u64 {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    memory("VmRSS")
}

/// A file of the system that counts what is read.
#[derive(Debug)]
struct Counting {
    file: std::fs::File,
    read: AtomicU64,
}

impl ReadAt for Counting {
    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, range: std::ops::Range<u64>) -> lanepack::Result<Buffer> {
        use std::os::unix::fs::FileExt;
        self.read.fetch_add(range.end - range.start, Ordering::Relaxed);
        let mut bytes =
            arrow_buffer::MutableBuffer::from_len_zeroed((range.end - range.start) as usize);
        self.file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.into())
    }
}
