//! What the examples ssb and tpch are told, and how they run and time their queries.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use lanepack::Engine;

use super::compressed::{Database, Failure, Query, create};

/// Arguments.
#[derive(clap::Args)]
pub struct What {
    /// Size of the tables: 1 is 6 million rows of the largest.
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
    /// Prints the plan of each query before it runs.
    #[arg(long)]
    explain: bool,
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

/// Generates the tables, of a scale factor and to be written to a folder, and runs queries of them;
/// `facts` is the table whose rows are counted.
pub fn run(
    what: &What,
    generate: impl FnOnce(f64, Option<&Path>) -> Result<Database, Failure>,
    facts: &str,
    queries: &[Query],
) -> Result<(), Failure> {
    let folder = what.write.as_deref();
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)?;
    }
    let engine = match what.engine {
        By::Cpu => Engine::cpu(),
        By::Cuda => Engine::cuda(0)?,
        By::Auto => Engine::auto(),
    };
    let start = Instant::now();
    let mut database = generate(what.scale_factor, folder)?;
    let rows = database.rows(facts);
    println!(
        "scale factor {}: {rows} rows of {facts}; {:.1} MB, compressed {:.1} MB; made in {:.1} s",
        what.scale_factor,
        database.bytes as f64 / 1e6,
        database.compressed_bytes as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    if what.engine == By::Cuda && !what.host {
        database.upload(&engine)?;
    }
    println!(
        "{:<6} {:>10} {:>10} {:>14} {:>8}",
        "query", "ms", "lookups", "million rows/s", "groups"
    );
    let (mut logarithms, mut count) = (0.0, 0);
    for query in queries.iter().filter(|query| query.name.contains(&what.only)) {
        let mut best = [Duration::MAX; 2];
        database.explains = what.explain;
        let mut result = query.run(&database, &engine)?;
        database.explains = false;
        for _ in 0..what.runs {
            let start = Instant::now();
            let lookups = (query.lookups)(&database, &engine)?;
            let of_lookups = start.elapsed();
            result = (query.facts)(&database, &engine, &lookups)?;
            best = best.min([start.elapsed(), of_lookups]);
        }
        let [seconds, of_lookups] = best.map(|time| time.as_secs_f64());
        logarithms += seconds.ln();
        count += 1;
        println!(
            "{:<6} {:>10.2} {:>10.2} {:>14.0} {:>8}",
            query.name,
            seconds * 1e3,
            of_lookups * 1e3,
            rows as f64 / seconds / 1e6,
            result.num_rows()
        );
        if let Some(folder) = folder {
            let mut writer = create(folder, query.name, &result)?;
            writer.write(&result)?;
            writer.finish()?;
        }
    }
    let mean = (logarithms / f64::from(count.max(1))).exp();
    println!("geometric mean {:.2} ms, lookups included", mean * 1e3);
    Ok(())
}
