//! TPC-H: its tables at any scale factor, compressed, and its queries 1, 3, 5, 6, 12, 14 and 19 as
//! scans with lookups and groups.
//!
//! ```sh
//! cargo run --release --example tpch -- --scale-factor 1
//! cargo run --release --features cuda --example tpch -- --engine cuda --scale-factor 20
//! ```
//!
//! With a GPU the tables lie in its memory, with `--host` in host memory.
//!
//! TPC Benchmark H, Standard Specification, revision 3.0.1. The tables have its columns, sizes and
//! distributions (clauses 1.4 and 4.2), without partsupp, which these queries do not read; values are
//! drawn by a generator of this example, not by `dbgen`. Parameters are those of the queries'
//! validation (clauses 2.4.1 to 2.4.19). `--write FOLDER` writes the tables and the results as Arrow
//! files (scripts/check-tpch compares these with those of DuckDB or DataFusion).

#[path = "../support/benchmark.rs"]
mod benchmark;
#[path = "../support/compressed.rs"]
mod compressed;
#[path = "../support/generator.rs"]
mod generator;
mod queries;
mod tables;
mod text;

use clap::Parser;

/// Runs queries of TPC-H on compressed tables.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    what: benchmark::What,
}

fn main() -> Result<(), compressed::Failure> {
    benchmark::run(&Args::parse().what, tables::generate, "lineitem", &queries::QUERIES)
}
