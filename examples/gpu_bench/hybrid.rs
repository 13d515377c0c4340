//! Compression and decompression from host memory to host memory by the CPU, by a GPU, by both, and
//! as `Engine::auto` chooses, of columns of many sizes: where the crossing lies. Lines of JSON.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
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
    /// Timed runs, after two for warming up.
    #[arg(long, default_value_t = 5)]
    runs: usize,
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

/// Measures all cells; whether all results were right.
pub fn run(what: &What) -> Result<bool, Failure> {
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
                let engines = [
                    ("cpu", Engine::cpu()),
                    ("gpu", limit(gpu()?)),
                    ("both", limit(gpu()?.with_cpu())),
                    ("auto", limit(Engine::auto())),
                ];
                let own = |batch: &RecordBatch| match is_pinned {
                    true => engines[1].1.pinned(batch),
                    false => Ok(batch.clone()),
                };
                let (batch, packed) = (own(&batch)?, own(&packed)?);
                for (engine_name, engine) in &engines {
                    if *engine_name == "cpu" && size > what.cpu_most {
                        continue;
                    }
                    let compress = || engine.compress(&batch, &Options::default());
                    let decompress = || engine.decompress(&packed);
                    for (operation, work, expected) in [
                        ("compress", &compress as &dyn Fn() -> Result<RecordBatch, Error>, &packed),
                        ("decompress", &decompress, &batch),
                    ] {
                        let mut same = true;
                        let mut first = true;
                        let times = Runs::measure(what.runs, || {
                            let start = Instant::now();
                            let result = work()?;
                            let time = start.elapsed();
                            if std::mem::take(&mut first) {
                                same = result == *expected;
                            }
                            Ok(time)
                        })?;
                        all_same &= same;
                        let seconds = times.median().as_secs_f64();
                        let memory = if is_pinned { "page-locked" } else { "ordinary" };
                        let choice = engine.last_choice().map(|choice| choice.to_string());
                        println!(
                            "{}",
                            json!({
                                "column": name, "bytes": size, "memory": memory,
                                "operation": operation, "engine": engine_name,
                                "seconds": seconds, "gb_per_s": size as f64 / seconds / 1e9,
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
