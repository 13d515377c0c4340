//! The Star Schema Benchmark: its tables at any scale factor, compressed, and its 13 queries as scans
//! with lookups and groups.
//!
//! ```sh
//! cargo run --release --example ssb -- --scale-factor 1
//! ```
//!
//! P. O'Neil, B. O'Neil, X. Chen: Star Schema Benchmark (revision 3, 2009). The tables have its columns,
//! sizes and distributions; values are drawn by a generator of this example, not by `dbgen`.
//! `--write FOLDER` writes the tables and the results as Arrow files (scripts/check-ssb compares
//! these with DuckDB's).

mod queries;
mod tables;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::{CompressedColumn, Engine, Options, columns};

use queries::QUERIES;
use tables::Tables;

type Failure = Box<dyn std::error::Error>;

/// Runs the Star Schema Benchmark on compressed tables.
#[derive(Parser)]
struct Args {
    /// Size of the tables: 1 is 6 million rows of lineorder.
    #[arg(long, default_value_t = 0.1)]
    scale_factor: f64,
    /// Timed runs of each query, of which the fastest counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Only queries whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Writes the tables and the results of the queries there.
    #[arg(long)]
    write: Option<PathBuf>,
}

/// The compressed columns of all tables.
pub struct Star {
    date: Vec<CompressedColumn>,
    customer: Vec<CompressedColumn>,
    supplier: Vec<CompressedColumn>,
    part: Vec<CompressedColumn>,
    lineorder: Vec<CompressedColumn>,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    if let Some(folder) = &args.write {
        std::fs::create_dir_all(folder)?;
    }
    let star = load(&args)?;
    let engine = Engine::cpu();
    let mut logarithms = 0.0;
    println!("{:<6} {:>10} {:>14} {:>8}", "query", "ms", "million rows/s", "groups");
    let chosen = QUERIES.iter().filter(|(name, _)| name.contains(&args.only));
    for (name, query) in chosen.clone() {
        let mut best = Duration::MAX;
        let mut result = query(&star, &engine)?;
        for _ in 0..args.runs {
            let start = Instant::now();
            result = query(&star, &engine)?;
            best = best.min(start.elapsed());
        }
        let rows = star.lineorder[0].len() as f64;
        let seconds = best.as_secs_f64();
        logarithms += seconds.ln();
        println!(
            "{name:<6} {:>10.2} {:>14.0} {:>8}",
            seconds * 1e3,
            rows / seconds / 1e6,
            result.num_rows()
        );
        if let Some(folder) = &args.write {
            write(&folder.join(format!("{name}.arrow")), &[result])?;
        }
    }
    let mean = (logarithms / chosen.count().max(1) as f64).exp();
    println!("geometric mean {:.2} ms, lookups included", mean * 1e3);
    Ok(())
}

/// Generates and compresses the tables.
fn load(args: &Args) -> Result<Star, Failure> {
    let tables = Tables::new(args.scale_factor);
    let progress = ProgressBar::new(tables.orders() as u64);
    progress.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} orders, {eta} left")?);
    let (mut bytes, mut compressed_bytes) = (0, 0);
    let mut compressed = |name: &str, batches: Vec<RecordBatch>| -> Result<_, Failure> {
        let mut packed = Vec::with_capacity(batches.len());
        for batch in &batches {
            bytes +=
                batch.columns().iter().map(|column| column.get_array_memory_size()).sum::<usize>();
            packed.push(lanepack::compress(batch, &Options::default())?);
        }
        if let Some(folder) = &args.write {
            write(&folder.join(format!("{name}.arrow")), &batches)?;
        }
        let schema = packed[0].schema();
        let all = arrow_select::concat::concat_batches(&schema, &packed)?;
        let columns = columns(&all)?;
        compressed_bytes += columns.iter().map(CompressedColumn::compressed_bytes).sum::<usize>();
        Ok(columns)
    };
    let star = Star {
        date: compressed("date", vec![tables.date()?])?,
        customer: compressed("customer", vec![tables.customer()?])?,
        supplier: compressed("supplier", vec![tables.supplier()?])?,
        part: compressed("part", vec![tables.part()?])?,
        lineorder: compressed("lineorder", tables.lineorder(&progress)?)?,
    };
    progress.finish_and_clear();
    println!(
        "scale factor {}: {} rows of lineorder; {:.1} MB, compressed {:.1} MB",
        args.scale_factor,
        star.lineorder[0].len(),
        bytes as f64 / 1e6,
        compressed_bytes as f64 / 1e6
    );
    Ok(star)
}

fn write(path: &Path, batches: &[RecordBatch]) -> Result<(), Failure> {
    let file = std::fs::File::create(path)?;
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batches[0].schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.finish()?)
}
