//! The Star Schema Benchmark: its tables at any scale factor, compressed, and its 13 queries as scans
//! with lookups and groups.
//!
//! ```sh
//! cargo run --release --example ssb -- --scale-factor 1
//! cargo run --release --features cuda --example ssb -- --engine cuda --scale-factor 20
//! ```
//!
//! With a GPU the tables lie in its memory, with `--host` in host memory.
//!
//! P. O'Neil, B. O'Neil, X. Chen: Star Schema Benchmark (revision 3, 2009). The tables have its columns,
//! sizes and distributions; values are drawn by a generator of this example, not by `dbgen`.
//! `--write FOLDER` writes the tables and the results as Arrow files (scripts/check-ssb compares
//! these with DuckDB's).

mod queries;
mod star;
mod tables;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use lanepack::{Engine, Options};

use queries::QUERIES;
use star::{Star, write};

type Failure = Box<dyn std::error::Error>;

/// Runs the Star Schema Benchmark on compressed tables.
#[derive(Parser)]
struct Args {
    /// Size of the tables: 1 is 6 million rows of lineorder.
    #[arg(long, default_value_t = 0.1)]
    scale_factor: f64,
    /// Who runs the queries.
    #[arg(long, value_enum, default_value_t = By::Cpu)]
    engine: By,
    /// Leaves the tables in host memory.
    #[arg(long)]
    host: bool,
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The CPU.
    Cpu,
    /// The first GPU.
    Cuda,
    /// Both, as is predicted to take least.
    Auto,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    if let Some(folder) = &args.write {
        std::fs::create_dir_all(folder)?;
    }
    let engine = match args.engine {
        By::Cpu => Engine::cpu(),
        By::Cuda => Engine::cuda(0)?,
        By::Auto => Engine::auto(),
    };
    let mut star =
        Star::generate(args.scale_factor, None, &Options::default(), args.write.as_deref())?;
    println!(
        "scale factor {}: {} rows of lineorder; {:.1} MB, compressed {:.1} MB",
        args.scale_factor,
        star.lineorder.rows(),
        star.bytes as f64 / 1e6,
        star.compressed_bytes as f64 / 1e6
    );
    if args.engine == By::Cuda && !args.host {
        star.upload(&engine)?;
    }
    let mut logarithms = 0.0;
    println!(
        "{:<6} {:>10} {:>10} {:>14} {:>8}",
        "query", "ms", "lookups", "million rows/s", "groups"
    );
    let chosen = QUERIES.iter().filter(|query| query.name.contains(&args.only));
    for query in chosen.clone() {
        let mut best = [Duration::MAX; 2];
        let mut result = query.run(&star, &engine)?;
        for _ in 0..args.runs {
            let start = Instant::now();
            let lookups = (query.lookups)(&star, &engine)?;
            let of_lookups = start.elapsed();
            result = (query.facts)(&star, &engine, &lookups)?;
            best = best.min([start.elapsed(), of_lookups]);
        }
        let rows = star.lineorder.rows() as f64;
        let [seconds, of_lookups] = best.map(|time| time.as_secs_f64());
        logarithms += seconds.ln();
        println!(
            "{:<6} {:>10.2} {:>10.2} {:>14.0} {:>8}",
            query.name,
            seconds * 1e3,
            of_lookups * 1e3,
            rows / seconds / 1e6,
            result.num_rows()
        );
        if let Some(folder) = &args.write {
            write(&folder.join(format!("{}.arrow", query.name)), &[result])?;
        }
    }
    let mean = (logarithms / chosen.count().max(1) as f64).exp();
    println!("geometric mean {:.2} ms, lookups included", mean * 1e3);
    Ok(())
}
