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
//! these with those of DuckDB or DataFusion).

#[path = "../support/benchmark.rs"]
mod benchmark;
#[path = "../support/compressed.rs"]
mod compressed;
#[path = "../support/generator.rs"]
mod generator;
mod queries;
mod tables;

use clap::Parser;
use lanepack::Options;

/// Runs the Star Schema Benchmark on compressed tables.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    what: benchmark::What,
}

fn main() -> Result<(), compressed::Failure> {
    let generate = |scale_factor, folder: Option<&std::path::Path>| {
        tables::generate(scale_factor, None, &Options::default(), folder)
    };
    benchmark::run(&Args::parse().what, generate, "lineorder", &queries::QUERIES)
}
