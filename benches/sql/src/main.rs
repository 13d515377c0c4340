//! Queries on lanepack files beside the same on Parquet files (zstd, groups of as many rows as a chunk), by DataFusion
//! with the same settings, in turns.
//!
//! ```text
//! cargo run --release -p lanepack-bench-sql -- --folder /tmp/tpch --scale-factor 1
//! cargo run --release -p lanepack-bench-sql --features cuda -- --suite ssb --folder /tmp/ssb --engines cpu,cuda
//! ```
//!
//! Prints a line for each query: the least and the median time of each in ms and the quotient of the medians of the
//! first engine and of Parquet; then the geometric mean of the quotients and the sizes of the files. Results of all have
//! to be equal.

mod files;
mod ssb;
mod tpch;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use lanepack_datafusion::SessionContextExt;

use files::path;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Tables and queries.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Suite {
    Tpch,
    Ssb,
}

impl Suite {
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Tpch => &tpch::TABLES,
            Self::Ssb => &ssb::TABLES,
        }
    }

    fn generate(self, folder: &Path, of: f64, with_parquet: bool) -> Result<(), Failure> {
        match self {
            Self::Tpch => tpch::generate(folder, of, with_parquet),
            Self::Ssb => ssb::generate(folder, of, with_parquet),
        }
    }

    /// The queries by name, in order.
    fn queries(self) -> Result<Vec<(String, String)>, Failure> {
        let folder = match self {
            Self::Tpch => "../../crates/lanepack-datafusion/tests/tpch",
            Self::Ssb => "ssb",
        };
        let mut queries = Vec::new();
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let name = stem.trim_start_matches('q').trim_start_matches('0').to_owned();
            queries.push((stem.to_owned(), name, std::fs::read_to_string(&path)?));
        }
        queries.sort();
        Ok(queries.into_iter().map(|(_, name, sql)| (name, sql)).collect())
    }
}

#[derive(Debug, Parser)]
struct Arguments {
    /// Where the files are, or will be.
    #[arg(long)]
    folder: PathBuf,
    #[arg(long, default_value_t = 1.0)]
    scale_factor: f64,
    /// Runs of each query and format; one more comes first and is not counted.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Partitions and threads; by default all cores.
    #[arg(long)]
    threads: Option<usize>,
    #[arg(long, default_value = "tpch")]
    suite: Suite,
    /// Queries by their names (6, 2.1); by default all.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<String>,
    /// Values of lanepack.engine, each of which runs.
    #[arg(long, value_delimiter = ',', default_value = "cpu")]
    engines: Vec<String>,
    /// Settings of the sessions with lanepack files, such as lanepack.push_joins=false.
    #[arg(long, value_delimiter = ',')]
    set: Vec<String>,
    /// Leaves out Parquet.
    #[arg(long)]
    without_parquet: bool,
    /// Prints plans with what they took.
    #[arg(long)]
    explain: bool,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let with_parquet = !arguments.without_parquet;
    arguments.suite.generate(&arguments.folder, arguments.scale_factor, with_parquet)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(compare(&arguments, threads))
}

/// A session whose tables are files of one format.
async fn session(
    arguments: &Arguments,
    threads: usize,
    extension: &str,
    settings: &[(String, String)],
) -> Result<SessionContext, Failure> {
    let context =
        SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
    if extension == "lanepack" {
        lanepack_datafusion::register(&context);
    }
    for (name, value) in settings {
        context.sql(&format!("SET {name} = '{value}'")).await?.collect().await?;
    }
    for table in arguments.suite.tables() {
        let path = path(&arguments.folder, table, extension);
        let path = path.to_str().ok_or("a path that is no text")?;
        match extension {
            "lanepack" => context.register_lanepack(table, path).await?,
            _ => context.register_parquet(*table, path, ParquetReadOptions::default()).await?,
        }
    }
    Ok(context)
}

/// The sessions that run each query, with their names: those of lanepack first.
async fn sessions(
    arguments: &Arguments,
    threads: usize,
) -> Result<Vec<(String, SessionContext)>, Failure> {
    let mut sessions = Vec::new();
    let set = arguments.set.iter().map(|set| set.split_once('=').ok_or("a setting without '='"));
    let set = set.collect::<Result<Vec<_>, _>>()?;
    for engine in &arguments.engines {
        let settings = [("lanepack.engine", engine.as_str())].into_iter().chain(set.clone());
        let settings: Vec<_> =
            settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let session = session(arguments, threads, "lanepack", &settings).await?;
        sessions.push((engine.clone(), session));
    }
    if !arguments.without_parquet {
        sessions.push(("Parquet".to_owned(), session(arguments, threads, "parquet", &[]).await?));
        let pushed =
            ("datafusion.execution.parquet.pushdown_filters".to_owned(), "true".to_owned());
        let pushed = session(arguments, threads, "parquet", &[pushed]).await?;
        sessions.push(("its filters pushed down".to_owned(), pushed));
    }
    Ok(sessions)
}

async fn compare(arguments: &Arguments, threads: usize) -> Result<(), Failure> {
    let sessions = sessions(arguments, threads).await?;
    let parquet = arguments.engines.len();
    let names: Vec<&str> = sessions.iter().map(|(name, _)| name.as_str()).collect();
    println!("query, least and median ms: {}", names.join(", "));
    let mut quotients = Vec::new();
    for (query, sql) in arguments.suite.queries()? {
        if !arguments.queries.is_empty() && !arguments.queries.contains(&query) {
            continue;
        }
        if arguments.explain {
            for (_, context) in &sessions[..parquet] {
                // The first run is not that of a kernel that has yet to be compiled.
                run(context, &sql).await?;
                let batches =
                    context.sql(&format!("EXPLAIN ANALYZE {sql}")).await?.collect().await?;
                println!("{}", pretty_format_batches(&batches)?);
            }
            continue;
        }
        let mut expected: Option<Vec<String>> = None;
        for (name, context) in sessions.iter().rev() {
            let found = sorted(&run(context, &sql).await?.0)?;
            if expected.get_or_insert_with(|| found.clone()) != &found {
                return Err(format!("query {query}: results of {name} differ").into());
            }
        }
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); sessions.len()];
        for _ in 0..arguments.runs {
            for ((_, context), times) in sessions.iter().zip(&mut times) {
                times.push(run(context, &sql).await?.1);
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let median = |times: &[f64]| times[times.len() / 2];
        print!("{query:>5}");
        for times in &times {
            print!("  {:>8.1} {:>7.1}", times[0], median(times));
        }
        if let Some(other) = times.get(parquet) {
            let quotient = median(&times[0]) / median(other);
            quotients.push(quotient);
            print!("  {quotient:.3}");
        }
        println!();
    }
    if !quotients.is_empty() {
        let logs: f64 = quotients.iter().map(|quotient| quotient.ln()).sum();
        let mean = (logs / quotients.len() as f64).exp();
        let worst = quotients.iter().copied().fold(0.0, f64::max);
        println!("geometric mean {mean:.3}, most {worst:.3}");
    }
    for extension in ["lanepack", "parquet"] {
        let files = arguments.suite.tables().iter();
        let files =
            files.filter_map(|table| path(&arguments.folder, table, extension).metadata().ok());
        let bytes: u64 = files.map(|file| file.len()).sum();
        println!("{extension} files {:.1} MB", bytes as f64 / 1e6);
    }
    Ok(())
}

/// The rows of a query, and what it took in ms.
async fn run(context: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, f64), Failure> {
    let start = Instant::now();
    let batches = context.sql(sql).await?.collect().await?;
    Ok((batches, start.elapsed().as_secs_f64() * 1e3))
}

/// Rows as text, in an order of their own.
fn sorted(batches: &[RecordBatch]) -> Result<Vec<String>, Failure> {
    let text = pretty_format_batches(batches)?.to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Ok(lines)
}
