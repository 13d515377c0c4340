//! The Star Schema Benchmark (examples/ssb) on a GPU: tables in its memory. Lines of JSON, one for each
//! query, with the time of its kernels and of the calls, with and without the lookups, and on raw
//! columns by the same kernels.
//!
//! Results are compared with those of the CPU on the compressed tables.

use std::time::Instant;

use lanepack::internals::measure;
use lanepack::{Encoding, Engine, Options};
use serde_json::json;

use compressed::{Database, Failure, Query};
use queries::QUERIES;

#[path = "../support/compressed.rs"]
mod compressed;
#[path = "../support/generator.rs"]
mod generator;
#[path = "../ssb/queries.rs"]
mod queries;
#[path = "../ssb/tables.rs"]
mod tables;

/// Columns of lineorder that queries read.
const COLUMNS: [&str; 9] = [
    "lo_custkey",
    "lo_partkey",
    "lo_suppkey",
    "lo_orderdate",
    "lo_quantity",
    "lo_extendedprice",
    "lo_discount",
    "lo_revenue",
    "lo_supplycost",
];

/// Arguments of `ssb`.
#[derive(clap::Args)]
pub struct What {
    /// Size of the tables: 1 is 6 million rows of lineorder.
    #[arg(long, default_value_t = 20.0)]
    scale_factor: f64,
    /// Timed runs.
    #[arg(long, default_value_t = 15)]
    runs: usize,
    /// Only queries whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Columns of lineorder as they are instead of compressed.
    #[arg(long)]
    raw: bool,
    /// Does not compare the results with the CPU's.
    #[arg(long)]
    unchecked: bool,
    /// Which GPU.
    #[arg(long, default_value_t = 0)]
    device: usize,
}

/// What a query took: medians, in microseconds.
struct Taken {
    kernels: Vec<(&'static str, f64)>,
    of_kernels: [f64; 2],
    calls: [f64; 2],
}

/// Measures the queries; whether all results were right.
pub fn run(what: &What) -> Result<bool, Failure> {
    let engine = Engine::cuda(what.device)?;
    let options = match what.raw {
        true => Options::default().with_encodings([Encoding::Plain]),
        false => Options::default(),
    };
    let start = Instant::now();
    let mut star = tables::generate(what.scale_factor, Some(&COLUMNS), &options, None)?;
    let rows = star.rows("lineorder") as f64;
    println!(
        "{}",
        json!({
            "scale_factor": what.scale_factor, "rows": rows, "raw": what.raw, "bytes": star.bytes,
            "compressed_bytes": star.compressed_bytes,
            "generated_s": start.elapsed().as_secs_f64(),
        })
    );
    let cpu = Engine::cpu();
    let chosen: Vec<&Query> =
        QUERIES.iter().filter(|query| query.name.contains(&what.only)).collect();
    let expected = match what.unchecked {
        true => Vec::new(),
        false => chosen.iter().map(|query| query.run(&star, &cpu)).collect::<Result<_, _>>()?,
    };
    star.upload(&engine)?;
    measure::peak_device_memory(&engine)?;
    let (mut are_right, mut logarithms) = (true, 0.0);
    for (index, query) in chosen.iter().enumerate() {
        let found = query.run(&star, &engine)?;
        let is_right = expected.get(index).is_none_or(|expected| *expected == found);
        are_right &= is_right;
        let taken = measured(query, &star, &engine, what.runs)?;
        let [of_lookups, of_facts] = taken.of_kernels;
        logarithms += (of_lookups + of_facts).ln();
        let grows = |us: f64| rows / us / 1e3;
        println!(
            "{}",
            json!({
                "query": query.name, "groups": found.num_rows(), "right": is_right,
                "grows_per_s": grows(of_facts),
                "grows_per_s_with_lookups": grows(of_lookups + of_facts),
                "kernels_us": of_facts, "lookups_us": of_lookups,
                "call_us": taken.calls[1], "lookup_calls_us": taken.calls[0],
                "peak_device_bytes": measure::peak_device_memory(&engine)?,
                "by_kernel_us": taken.kernels.iter()
                    .map(|(name, us)| json!([name, us])).collect::<Vec<_>>(),
            })
        );
    }
    let mean = (logarithms / chosen.len().max(1) as f64).exp();
    println!("{}", json!({ "geometric_mean_us": mean, "right": are_right }));
    Ok(are_right)
}

fn measured(
    query: &Query,
    star: &Database,
    engine: &Engine,
    runs: usize,
) -> Result<Taken, Failure> {
    let mut kernels: Vec<Vec<(&'static str, f64)>> = Vec::new();
    let mut of_kernels = [Vec::new(), Vec::new()];
    let mut calls = [Vec::new(), Vec::new()];
    for run in 0..runs + 2 {
        let (lookups, of_lookups) = measure::kernels_of(|| (query.lookups)(star, engine))?;
        let lookups = lookups?;
        let (result, of_facts) = measure::kernels_of(|| (query.facts)(star, engine, &lookups))?;
        result?;
        let us = |kernels: &[(&'static str, std::time::Duration)]| -> f64 {
            kernels.iter().map(|(_, time)| time.as_secs_f64() * 1e6).sum()
        };
        // Again without events.
        let start = Instant::now();
        let lookups = (query.lookups)(star, engine)?;
        let middle = start.elapsed();
        (query.facts)(star, engine, &lookups)?;
        let all = start.elapsed();
        if run < 2 {
            continue;
        }
        of_kernels[0].push(us(&of_lookups));
        of_kernels[1].push(us(&of_facts));
        calls[0].push(middle.as_secs_f64() * 1e6);
        calls[1].push((all - middle).as_secs_f64() * 1e6);
        let all = of_lookups.into_iter().chain(of_facts);
        kernels.push(all.map(|(name, time)| (name, time.as_secs_f64() * 1e6)).collect());
    }
    let [of_kernels, calls] = [of_kernels, calls].map(|both| both.map(median));
    Ok(Taken { kernels: kernels.swap_remove(runs / 2), of_kernels, calls })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
