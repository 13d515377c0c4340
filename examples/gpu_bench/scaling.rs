//! One, two, four, eight GPUs of one host: copies, compression, decompression and queries. Lines of
//! JSON, each with how many GPUs did it.
//!
//! Work from host memory to host memory is that of one engine of all GPUs, which share a queue, and is
//! limited by their buses: `bus up` and `bus down` copy page-locked memory to and from all of them at a
//! time. *Strong* has the same data for any number of GPUs, *weak* as much for each. Work in device
//! memory is that of an engine for each GPU, each in a thread of its own. *Copy* copies a compressed
//! batch from the memory of the first GPU to that of another.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use lanepack::internals::measure::Bus;
use lanepack::scan::{Scan, sum};
use lanepack::{CompressedDeviceBatch, Engine, Error, Options};
use serde_json::json;

use super::cases::Failure;
use super::generated::decimals;
use super::runs::Runs;
use super::sizes;
use super::tables::{self, Money};

/// Arguments of `scaling`.
#[derive(clap::Args)]
pub struct What {
    /// Which GPUs: the first, the first two, four, ... of them are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [0])]
    devices: Vec<usize>,
    /// Rows for each GPU.
    #[arg(long, default_value_t = 60_000_000)]
    rows: usize,
    /// Timed runs.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Bytes that a bus copies at a time.
const COPIED: usize = 256 << 20;

/// Calls on data in device memory that are timed together.
const REPEATED: usize = 8;

/// Data in page-locked memory, and its compressed form.
struct Data {
    name: &'static str,
    values: RecordBatch,
    query: Option<tables::Query>,
}

/// Rows of a column of floats and of the tables of two queries.
fn data(rows: usize) -> Result<Vec<Data>, Failure> {
    let one = decimals(true, 16, 8, 100.0);
    let mut parts: Vec<ArrayRef> = Vec::new();
    let mut left = rows;
    while left > 0 {
        parts.push(one.slice(0, left.min(one.len())));
        left -= parts[parts.len() - 1].len();
    }
    let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
    let floats = arrow_select::concat::concat(&parts)?;
    let schema = Schema::new(vec![Field::new("value", floats.data_type().clone(), false)]);
    let floats = RecordBatch::try_new(Arc::new(schema), vec![floats])?;
    let q1 = tables::q1().into_iter().next();
    Ok(vec![
        Data { name: "f64 of 16 bits", values: floats, query: None },
        Data { name: "SSB Q1.1", values: tables::lineorder(rows, 1), query: q1 },
        Data {
            name: "TPC-H Q6",
            values: tables::lineitem(rows, 1, Money::Decimal),
            query: Some(tables::q6(Money::Decimal)),
        },
    ])
}

/// Measures all numbers of GPUs; whether all results were right.
pub fn run(what: &What) -> Result<bool, Failure> {
    let mut all_same = true;
    let counts = [1, 2, 4, 8].into_iter().filter(|count| *count <= what.devices.len());
    let counts: Vec<usize> = counts.collect();
    for count in &counts {
        let devices = &what.devices[..*count];
        for (name, rate) in ["bus up", "bus down"].into_iter().zip(buses(devices, what.runs)?) {
            println!("{}", json!({"what": name, "gpus": count, "gb_per_s": rate / 1e9}));
        }
    }
    for is_weak in [false, true] {
        let most = counts.last().copied().unwrap_or(1);
        let all = data(what.rows * most)?;
        for count in &counts {
            let engine = Engine::devices(&what.devices[..*count])?.with_pinned_limit(usize::MAX);
            for data in &all {
                let share = if is_weak { *count } else { most };
                let rows = data.values.num_rows() / most * share;
                let values = data.values.slice(0, rows);
                all_same &= host_to_host(&engine, *count, is_weak, data, &values, what.runs)?;
            }
        }
    }
    let all = data(what.rows)?;
    for device in &what.devices[1..] {
        all_same &= copy(what.devices[0], *device, &all[0], what.runs)?;
    }
    for count in &counts {
        for data in &all {
            in_device_memory(&what.devices[..*count], data, what.runs)?;
        }
    }
    Ok(all_same)
}

/// Bytes a second that go up to all GPUs together, and down.
fn buses(devices: &[usize], runs: usize) -> Result<[f64; 2], Failure> {
    let engines = engines(devices)?;
    let mut buses =
        engines.iter().map(|engine| Bus::new(engine, COPIED)).collect::<Result<Vec<_>, _>>()?;
    let mut rates = [0.0; 2];
    for (rate, is_up) in rates.iter_mut().zip([true, false]) {
        let copy = |bus: &mut Bus<'_>| (0..4).try_for_each(|_| bus.copy(is_up));
        let time = together(&mut buses, runs, copy)?.median();
        *rate = (4 * COPIED * devices.len()) as f64 / time.as_secs_f64();
    }
    Ok(rates)
}

fn engines(devices: &[usize]) -> Result<Vec<Engine>, Error> {
    devices.iter().map(|device| Engine::cuda(*device)).collect()
}

/// Does `work` with all items at a time, each in a thread of its own.
fn together<T: Send>(
    items: &mut [T],
    runs: usize,
    work: impl Fn(&mut T) -> Result<(), Error> + Sync,
) -> Result<Runs, Error> {
    let (work, barrier) = (&work, &Barrier::new(items.len()));
    Runs::measure(runs, || {
        let times: Vec<Result<Duration, Error>> = thread::scope(|scope| {
            let one = |item| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    work(item)?;
                    Ok(start.elapsed())
                })
            };
            let threads: Vec<_> = items.iter_mut().map(one).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let times = times.into_iter().collect::<Result<Vec<Duration>, Error>>()?;
        Ok(times.into_iter().max().unwrap_or_default())
    })
}

/// Compression, decompression and a query from page-locked memory by one engine.
fn host_to_host(
    engine: &Engine,
    gpus: usize,
    is_weak: bool,
    data: &Data,
    values: &RecordBatch,
    runs: usize,
) -> Result<bool, Failure> {
    let values = engine.pinned(values)?;
    let bytes: usize = values.columns().iter().map(|column| sizes(column).0).sum();
    let packed = engine.pinned(&engine.compress(&values, &Options::default())?)?;
    let columns = lanepack::columns(&packed)?;
    let stored: usize = columns.iter().map(|column| column.compressed_bytes()).sum();
    let scaling = if is_weak { "weak" } else { "strong" };
    let print = |what: &str, runs: &Runs, same: bool| {
        let seconds = runs.median().as_secs_f64();
        let rates = [bytes, stored].map(|bytes| bytes as f64 / seconds / 1e9);
        println!(
            "{}",
            json!({
                "what": what, "data": data.name, "gpus": gpus, "scaling": scaling,
                "rows": values.num_rows(), "seconds": seconds, "gb_per_s": rates[0],
                "stored_gb_per_s": rates[1], "same": same,
            })
        );
        same
    };
    let timed = |work: &dyn Fn() -> Result<(), Error>| {
        Runs::measure(runs, || {
            let start = Instant::now();
            work()?;
            Ok(start.elapsed())
        })
    };
    let Some(query) = &data.query else {
        let compress = timed(&|| engine.compress(&values, &Options::default()).map(|_| ()))?;
        let same = packed == lanepack::compress(&values, &Options::default())?;
        let mut same = print("compress", &compress, same);
        let decompress = timed(&|| engine.decompress(&packed).map(|_| ()))?;
        same &= print("decompress", &decompress, engine.decompress(&packed)? == values);
        return Ok(same);
    };
    let scan = Scan::of(&columns).filter(query.filter.clone());
    let aggregates = [sum(query.sum.clone())];
    let found = scan.aggregate(&aggregates, engine)?;
    let time = timed(&|| scan.aggregate(&aggregates, engine).map(|_| ()))?;
    Ok(print("query", &time, found == scan.aggregate(&aggregates, &Engine::cpu())?))
}

/// Copies of a compressed batch from one GPU to another.
fn copy(from: usize, to: usize, data: &Data, runs: usize) -> Result<bool, Failure> {
    let [source, target] = [Engine::cuda(from)?, Engine::cuda(to)?];
    let batch = source.compress_to_device(&data.values, &Options::default())?;
    let bytes: usize = batch.columns().iter().map(|column| column.device_bytes()).sum();
    let time = Runs::measure(runs, || {
        let start = Instant::now();
        target.copy_from_device(&batch)?;
        Ok(start.elapsed())
    })?;
    let same = target.copy_from_device(&batch)?.download()? == batch.download()?;
    let rate = bytes as f64 / time.median().as_secs_f64() / 1e9;
    println!(
        "{}",
        json!({"what": "copy", "from": from, "to": to, "bytes": bytes, "gb_per_s": rate, "same": same})
    );
    Ok(same)
}

/// The same of data in device memory: each GPU has its own.
fn in_device_memory(devices: &[usize], data: &Data, runs: usize) -> Result<(), Failure> {
    let engines = engines(devices)?;
    let load = |engine: &Engine| -> Result<CompressedDeviceBatch, Error> {
        engine.compress_to_device(&data.values, &Options::default())
    };
    let batches = engines.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut items: Vec<_> = engines.iter().zip(&batches).collect();
    let print = |what: &str, runs: &Runs| {
        let seconds = runs.median().as_secs_f64() / REPEATED as f64;
        let rows = data.values.num_rows() * devices.len();
        println!(
            "{}",
            json!({
                "what": format!("{what}, device memory"), "data": data.name,
                "gpus": devices.len(), "scaling": "weak", "rows": rows, "seconds": seconds,
                "grows_per_s": rows as f64 / seconds / 1e9,
            })
        );
    };
    match &data.query {
        Some(query) => {
            let aggregates = [sum(query.sum.clone())];
            print(
                "query",
                &together(&mut items, runs, |(engine, batch)| {
                    let scan = Scan::on_device(batch).filter(query.filter.clone());
                    (0..REPEATED).try_for_each(|_| scan.aggregate(&aggregates, engine).map(|_| ()))
                })?,
            );
        }
        None => print(
            "decompress",
            &together(&mut items, runs, |(_, batch)| {
                (0..REPEATED).try_for_each(|_| {
                    batch.columns().iter().try_for_each(|one| one.decompress().map(|_| ()))
                })
            })?,
        ),
    }
    Ok(())
}
