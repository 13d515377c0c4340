//! Compression, decompression and scans of data in host memory by the CPU, by a GPU, by both, and as
//! `Engine::auto` chooses, of columns of many sizes: where the crossing lies. Lines of JSON.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch, Scalar};
use arrow_schema::{Field, Schema};
use lanepack::scan::{Scan, col};
use lanepack::{Engine, Error, Options};
use serde_json::json;

use super::cases::{Failure, data_folder, read};
use super::generated::{Cascade, decimals};
use super::runs::Runs;
use super::sizes;

/// Arguments of `hybrid`.
#[derive(clap::Args)]
pub struct What {
    /// Least bytes of a column.
    #[arg(long, default_value_t = 64 << 10)]
    least: usize,
    /// Most bytes of a column; every size is four times the one before.
    #[arg(long, default_value_t = 4 << 30)]
    most: usize,
    /// Only columns whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Which GPUs.
    #[arg(long, value_delimiter = ',', default_values_t = [0])]
    devices: Vec<usize>,
    /// Timed runs, after three for warming up; of `Engine::auto` after 24, as it tries each side.
    /// Three times as many up to 16 MiB.
    #[arg(long, default_value_t = 8)]
    runs: usize,
    /// What every call took, on standard error.
    #[arg(long)]
    verbose: bool,
    /// Also GPUs whose memory is limited to a quarter of the values.
    #[arg(long)]
    limited: bool,
    /// Instead of columns of all sizes: batches of so many rows, and as many rows in one batch.
    #[arg(long, default_value_t = 0)]
    batch_rows: usize,
    /// How many batches.
    #[arg(long, default_value_t = 1000)]
    batches: usize,
    /// Leave the CPU alone out above so many bytes.
    #[arg(long, default_value_t = usize::MAX)]
    cpu_most: usize,
}

/// Columns of different encodings.
fn columns() -> Result<Vec<(&'static str, ArrayRef)>, Failure> {
    let text = data_folder().join("strings").join("l_comment.parquet");
    Ok(vec![
        ("f64 of 16 bits", decimals(true, 16, 8, 100.0)),
        ("u64 of 8 bits", Cascade::Packed(64, 8).array()),
        ("u32 growing by 8 bits", Cascade::Growing(32, 8).array()),
        ("u64 in runs up to 20", Cascade::Runs(64, 20).array()),
        ("u64 of 200 values", Cascade::Repeated(64, 200).array()),
        ("l_comment", read(&text, 0)?),
        ("strings of 300 values", Cascade::Words(300).array()),
    ])
}

/// About so many bytes of a column, repeated or cut, as a batch; less where offsets have 32 bits.
fn batch_of(array: &ArrayRef, bytes: usize) -> Result<RecordBatch, Failure> {
    let (all, values) = sizes(array);
    let rows = (bytes as u128 * array.len() as u128 / all as u128) as usize;
    let most = i32::MAX as u128 * array.len() as u128 / values.max(1) as u128;
    let has_offsets = array.data_type() == &arrow_schema::DataType::Utf8;
    let rows = if has_offsets { rows.min(most as usize) } else { rows };
    let mut left = rows;
    let mut parts: Vec<ArrayRef> = Vec::new();
    while left > 0 {
        let part = array.slice(0, left.min(array.len()));
        left -= part.len();
        parts.push(part);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    let array = arrow_select::concat::concat(&parts)?;
    let field = Field::new("value", array.data_type().clone(), true);
    Ok(RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array])?)
}

/// What comes of a call.
#[derive(PartialEq)]
enum Outcome {
    Batch(RecordBatch),
    Count(usize),
}

type Work<'a> = &'a dyn Fn(&Engine) -> Result<Outcome, Error>;

/// Calls on so many bytes are disturbed most: they are measured more often.
const SHORT: usize = 16 << 20;

/// An engine with its name, what its calls took, and whether their results were right.
type Measured<'a> = (&'static str, &'a Engine, Runs, bool);

/// Orders of four engines in which each follows each other one once: what a call leaves in caches and
/// threads is the same for all of them (E. J. Williams, 1949).
const ORDERS: [[usize; 4]; 4] = [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]];

/// Measures calls of some engines in turns, so that what disturbs the machine disturbs all of them.
fn in_turns<'a>(
    what: &What,
    operation: &str,
    bytes: usize,
    engines: &'a [(&'static str, Engine)],
    work: Work<'_>,
    expected: &Outcome,
) -> Result<Vec<Measured<'a>>, Failure> {
    let mut same = vec![true; engines.len()];
    for (same, (name, engine)) in same.iter_mut().zip(engines) {
        for _ in 0..if *name == "auto" { 24 } else { 3 } {
            *same &= work(engine)? == *expected;
            if let Some(choice) = engine.last_choice().filter(|_| what.verbose) {
                eprintln!("{operation} {name} {:?} {choice}", choice.took);
            }
        }
    }
    let runs = if bytes <= SHORT { 3 * what.runs } else { what.runs };
    let mut times = vec![Vec::with_capacity(runs); engines.len()];
    for run in 0..runs {
        let further = ORDERS[0].len()..engines.len();
        let order = ORDERS[run % ORDERS.len()].into_iter().chain(further);
        for index in order.filter(|index| *index < engines.len()) {
            let (times, same, (name, engine)) =
                (&mut times[index], &mut same[index], &engines[index]);
            // Caches are those of this engine, as if it had worked alone.
            if bytes <= SHORT {
                *same &= work(engine)? == *expected;
            }
            let start = Instant::now();
            let result = work(engine)?;
            times.push(start.elapsed());
            *same &= bytes > SHORT || result == *expected;
            if what.verbose {
                let choice = engine.last_choice().map(|choice| choice.to_string());
                eprintln!("{operation} {name} {:?} {choice:?}", times.last());
            }
        }
    }
    let measured = engines.iter().zip(times).zip(same);
    Ok(measured
        .map(|(((name, engine), times), same)| (*name, engine, times.into_iter().collect(), same))
        .collect())
}

/// Measures all cells; whether all results were right.
pub fn run(what: &What) -> Result<bool, Failure> {
    if what.batch_rows > 0 {
        return batches(what);
    }
    let gpu = || Engine::devices(&what.devices);
    let mut all_same = true;
    for (name, array) in columns()?.into_iter().filter(|(name, _)| name.contains(&what.only)) {
        let mut bytes = what.least;
        while bytes <= what.most {
            let batch = batch_of(&array, bytes)?;
            let size: usize = sizes(batch.column(0)).0;
            let packed = Engine::cpu().compress(&batch, &Options::default())?;
            for is_pinned in [false, true] {
                let limit = |engine: Engine| match is_pinned {
                    true => engine,
                    false => engine.with_pinned_limit(0),
                };
                let mut engines = vec![
                    ("cpu", Engine::cpu()),
                    ("gpu", limit(gpu()?)),
                    ("both", limit(gpu()?.with_cpu())),
                    ("auto", limit(Engine::auto())),
                ];
                if what.limited && size >= 256 << 20 {
                    let engine = limit(gpu()?).with_device_memory_limit(size as u64 / 4);
                    engines.push(("gpu, limited", engine));
                }
                let own = |batch: &RecordBatch| match is_pinned {
                    true => engines[1].1.pinned(batch),
                    false => Ok(batch.clone()),
                };
                let (batch, packed) = (own(&batch)?, own(&packed)?);
                let columns = lanepack::columns(&packed)?;
                let values = batch.column(0);
                let middle = Scalar::new(values.slice(values.len() / 2, 1));
                let filter = col("value").gt(middle);
                let scan = Scan::of(&columns).filter(filter);
                let kept = scan.count(&Engine::cpu())?;
                engines.retain(|(name, _)| *name != "cpu" || size <= what.cpu_most);
                let compress = |engine: &Engine| {
                    engine.compress(&batch, &Options::default()).map(Outcome::Batch)
                };
                let decompress = |engine: &Engine| engine.decompress(&packed).map(Outcome::Batch);
                let count = |engine: &Engine| scan.count(engine).map(Outcome::Count);
                let stored: usize = columns.iter().map(|column| column.compressed_bytes()).sum();
                for (operation, work, expected) in [
                    ("compress", &compress as Work<'_>, Outcome::Batch(packed.clone())),
                    ("decompress", &decompress, Outcome::Batch(batch.clone())),
                    ("scan", &count, Outcome::Count(kept)),
                ] {
                    for (engine_name, engine, times, same) in
                        in_turns(what, operation, size, &engines, work, &expected)?
                    {
                        all_same &= same;
                        let seconds = times.median().as_secs_f64();
                        let memory = if is_pinned { "page-locked" } else { "ordinary" };
                        let choice = engine.last_choice().map(|choice| choice.to_string());
                        println!(
                            "{}",
                            json!({
                                "column": name, "bytes": size, "stored": stored,
                                "memory": memory, "operation": operation,
                                "engine": engine_name, "seconds": seconds,
                                "gb_per_s": size as f64 / seconds / 1e9,
                                "same": same, "choice": choice,
                            })
                        );
                    }
                }
            }
            bytes *= 4;
        }
    }
    Ok(all_same)
}

/// Measures many small batches and one large one.
fn batches(what: &What) -> Result<bool, Failure> {
    let mut all_same = true;
    for (name, array) in columns()?.into_iter().filter(|(name, _)| name.contains(&what.only)) {
        let rows = what.batch_rows * what.batches;
        let bytes = (sizes(&array).0 as u128 * rows as u128 / array.len() as u128) as usize;
        let large = batch_of(&array, bytes)?;
        let rows = large.num_rows();
        let starts = (0..rows).step_by(what.batch_rows);
        let cut = |start| large.slice(start, what.batch_rows.min(rows - start));
        let batches: Vec<RecordBatch> = starts.map(cut).collect();
        let engines = [
            ("cpu", Engine::cpu()),
            ("gpu", Engine::devices(&what.devices)?),
            ("both", Engine::devices(&what.devices)?.with_cpu()),
            ("auto", Engine::auto()),
        ];
        let options = Options::default();
        let packed = Engine::cpu().compress(&large, &options)?;
        let all_packed = Engine::cpu().compress_batches(&batches, &options)?;
        for (engine_name, engine) in &engines {
            let one_up = || engine.compress(&large, &options).map(|_| ());
            let one_down = || engine.decompress(&packed).map(|_| ());
            let up = || engine.compress_batches(&batches, &options).map(|_| ());
            let down = || engine.decompress_batches(&all_packed).map(|_| ());
            let same = engine.compress_batches(&batches, &options)? == all_packed
                && engine.decompress_batches(&all_packed)? == batches;
            all_same &= same;
            for (operation, work) in [
                ("compress one", &one_up as &dyn Fn() -> Result<(), Error>),
                ("compress many", &up),
                ("decompress one", &one_down),
                ("decompress many", &down),
            ] {
                for _ in 0..if *engine_name == "auto" { 10 } else { 0 } {
                    work()?;
                }
                let times = Runs::measure(what.runs, || {
                    let start = Instant::now();
                    work()?;
                    Ok(start.elapsed())
                })?;
                let seconds = times.median().as_secs_f64();
                let choice = engine.last_choice().map(|choice| choice.to_string());
                println!(
                    "{}",
                    json!({
                        "column": name, "rows": rows, "batches": batches.len(),
                        "operation": operation, "engine": engine_name, "seconds": seconds,
                        "gb_per_s": bytes as f64 / seconds / 1e9, "same": same, "choice": choice,
                    })
                );
            }
        }
    }
    Ok(all_same)
}

/// Calibrates an engine with a cache folder of its own, and prints the rates that are kept there.
pub fn calibrate() -> Result<bool, Failure> {
    let folder = std::env::var_os("LANEPACK_CACHE_DIR").ok_or("LANEPACK_CACHE_DIR is not set")?;
    let engine = Engine::auto();
    for _ in 0..2 {
        let start = Instant::now();
        engine.calibrate()?;
        eprintln!("calibrated in {:.2} s", start.elapsed().as_secs_f64());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("rates-") {
            println!("{}", std::fs::read_to_string(path)?);
        }
    }
    Ok(true)
}
