//! TPC-H's queries on lanepack files beside the same on Parquet files (zstd, groups of as many rows as a chunk), by
//! DataFusion with the same settings, in turns.
//!
//! ```text
//! cargo run --release -p lanepack-bench-sql -- --folder /tmp/tpch --scale-factor 1
//! ```
//!
//! Prints a line for each query: the least and the median time of each in ms and the quotient of the medians; then
//! the geometric mean of the quotients and the sizes of the files. Results of both have to be equal.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use lanepack::Options;
use lanepack_datafusion::SessionContextExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow,
    RecordBatchIterator, RegionArrow, SupplierArrow,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TABLES: [&str; 8] =
    ["lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region"];
/// Rows of a chunk and of a group of rows.
const CHUNK_ROWS: usize = 131_072;

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
    /// Queries by their numbers; by default all.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<usize>,
    /// The setting lanepack.engine.
    #[arg(long, default_value = "cpu")]
    engine: String,
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
    generate(&arguments.folder, arguments.scale_factor)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(compare(&arguments, threads))
}

fn path(folder: &Path, table: &str, extension: &str) -> PathBuf {
    folder.join(format!("{table}.{extension}"))
}

/// Writes the files that are not there.
fn generate(folder: &Path, of: f64) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    for table in TABLES {
        let batches = || -> Box<dyn RecordBatchIterator> {
            match table {
                "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(of, 1, 1))),
                "orders" => Box::new(OrderArrow::new(OrderGenerator::new(of, 1, 1))),
                "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(of, 1, 1))),
                "part" => Box::new(PartArrow::new(PartGenerator::new(of, 1, 1))),
                "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(of, 1, 1))),
                "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(of, 1, 1))),
                "nation" => Box::new(NationArrow::new(NationGenerator::new(of, 1, 1))),
                _ => Box::new(RegionArrow::new(RegionGenerator::new(of, 1, 1))),
            }
        };
        let own = path(folder, table, "lanepack");
        if !own.exists() {
            let options = Options::default().with_chunk_rows(CHUNK_ROWS);
            let batches = batches();
            let mut writer = lanepack::file::Writer::create(&own, batches.schema(), options)?;
            for batch in batches {
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
        let other = path(folder, table, "parquet");
        if !other.exists() {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
                .set_max_row_group_row_count(Some(CHUNK_ROWS))
                .build();
            let batches = batches();
            let file = std::fs::File::create(&other)?;
            let mut writer =
                ArrowWriter::try_new(file, batches.schema().clone(), Some(properties))?;
            for batch in batches {
                writer.write(&batch)?;
            }
            writer.close()?;
        }
    }
    Ok(())
}

async fn compare(arguments: &Arguments, threads: usize) -> Result<(), Failure> {
    let config = SessionConfig::new().with_target_partitions(threads);
    let of_parquet = SessionContext::new_with_config(
        config.clone().set_bool("datafusion.execution.parquet.pushdown_filters", true),
    );
    let of_parquet_default = SessionContext::new_with_config(config.clone());
    let of_lanepack = SessionContext::new_with_config(config);
    lanepack_datafusion::register(&of_lanepack);
    of_lanepack
        .sql(&format!("SET lanepack.engine = '{}'", arguments.engine))
        .await?
        .collect()
        .await?;
    let (mut own_bytes, mut other_bytes) = (0, 0);
    for table in TABLES {
        let own = path(&arguments.folder, table, "lanepack");
        let other = path(&arguments.folder, table, "parquet");
        own_bytes += own.metadata()?.len();
        other_bytes += other.metadata()?.len();
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("a path that is no text");
        of_lanepack.register_lanepack(table, &text(&own)?).await?;
        for context in [&of_parquet, &of_parquet_default] {
            context.register_parquet(table, text(&other)?, ParquetReadOptions::default()).await?;
        }
    }
    let queries: Vec<usize> = match arguments.queries.is_empty() {
        true => (1..=22).collect(),
        false => arguments.queries.clone(),
    };
    println!(
        "query  lanepack least median  Parquet least median  its filters pushed down  lanepack / Parquet"
    );
    let mut quotients = Vec::new();
    for query in queries {
        let sql = query_of(query)?;
        if arguments.explain {
            let plan = format!("EXPLAIN ANALYZE {sql}");
            let batches = of_lanepack.sql(&plan).await?.collect().await?;
            println!("{}", pretty_format_batches(&batches)?);
            continue;
        }
        let expected = sorted(&run(&of_parquet_default, &sql).await?.0)?;
        let found = sorted(&run(&of_lanepack, &sql).await?.0)?;
        if expected != found {
            return Err(format!("query {query}: results differ").into());
        }
        run(&of_parquet, &sql).await?;
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..arguments.runs {
            let contexts = [&of_lanepack, &of_parquet_default, &of_parquet];
            for (context, times) in contexts.into_iter().zip(&mut times) {
                times.push(run(context, &sql).await?.1);
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let median = |times: &[f64]| times[times.len() / 2];
        let [own, other, pushed] = &times;
        let quotient = median(own) / median(other);
        quotients.push(quotient);
        println!(
            "{query:>5}  {:>8.1} {:>6.1}  {:>8.1} {:>6.1}  {:>8.1}  {quotient:.3}",
            own[0],
            median(own),
            other[0],
            median(other),
            median(pushed)
        );
    }
    let logs: f64 = quotients.iter().map(|quotient| quotient.ln()).sum();
    let mean = (logs / quotients.len().max(1) as f64).exp();
    let worst = quotients.iter().copied().fold(0.0, f64::max);
    println!("geometric mean {mean:.3}, most {worst:.3}");
    println!("files {:.1} MB, Parquet {:.1} MB", own_bytes as f64 / 1e6, other_bytes as f64 / 1e6);
    Ok(())
}

fn query_of(number: usize) -> Result<String, Failure> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/lanepack-datafusion/tests/tpch");
    Ok(std::fs::read_to_string(folder.join(format!("q{number:02}.sql")))?)
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
