//! Measures the rates that predictions are made of: [`Engine::calibrate`].
//!
//! Samples of a chunk, one for each kind of values, are compressed, decompressed and scanned by one
//! thread of the CPU. The device does so with that chunk alone and with many copies of it, which lie in
//! its memory: the difference is its rate, without what a call takes. Copies have rates of their own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array, Scalar,
    StringArray, UInt8Array, UInt16Array, UInt32Array,
};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use rayon::prelude::*;

use crate::batch::compressed_batch;
use crate::cache;
use crate::chunk::MAX_CHUNK_ROWS;
use crate::column::{CompressedColumn, compress_field, physical_of};
use crate::decode::decodes_on_device;
use crate::device::{Context, DeviceArray, PinnedBuffer};
use crate::encode::{encode_array, encodes_on_device};
use crate::engine::{Engine, machine};
use crate::error::Result;
use crate::model::{Kind, Rate, Rates, RatesByKind};
use crate::options::Options;
use crate::scan::{Expr, Scan, col};
use crate::transfer;

/// Copies of a sample that a device works on.
const COPIES: usize = 24;

/// The name of the samples' column.
const NAME: &str = "value";

/// Bytes whose copies are timed.
const COPIED: usize = 32 << 20;

impl Engine {
    /// Measures how fast the machine is, so that [`Engine::auto`] predicts well from the first call on:
    /// the buses, and for each kind of values a thread of the CPU and the first GPU. Takes less than
    /// two seconds.
    ///
    /// The rates are kept in the cache folder (`LANEPACK_CACHE_DIR`) for this device, driver, number of
    /// threads and release of lanepack; engines that are made later read them, this one and its clones
    /// use them at once. Without a file, or with one that is damaged, predictions begin with rates of
    /// an NVIDIA H200 with 16 cores. In both cases they are corrected by what calls take.
    ///
    /// ```no_run
    /// # use lanepack::Engine;
    /// let engine = Engine::auto();
    /// if engine.device().is_some() {
    ///     engine.calibrate()?;
    /// }
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoDevice`](crate::Error) for an engine without a GPU,
    /// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error). That the rates cannot be
    /// written is none.
    pub fn calibrate(&self) -> Result<()> {
        let context = self.context()?;
        // The limit is for what users decompress.
        let unlimited = self.clone().with_memory_limit(u64::MAX);
        let rates = measure(&unlimited, context, machine(context))?;
        // Those of emulations are of no use to others.
        if let Some(folder) = cache::folder().filter(|_| !context.device().is_host()) {
            let _ = rates.write(&folder);
        }
        self.set_rates(rates);
        Ok(())
    }
}

/// Values of every kind, a chunk of each.
fn samples(rows: usize) -> Vec<ArrayRef> {
    let mut state = 1_u64;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut numbers = |most: u64| (0..rows).map(|_| next() % most).collect::<Vec<u64>>();
    let mut sum = 0_i64;
    let longs =
        |values: Vec<u64>| Int64Array::from_iter_values(values.into_iter().map(|v| v as i64));
    let small = numbers(60_000);
    let few = numbers(200);
    let words = ["pack", "lane", "chunk", "vector", "column", "scan", "value", "row"];
    let text = |value: &u64| -> String {
        (0..4).map(|at| words[(*value >> (3 * at)) as usize % 8]).collect::<Vec<_>>().join(" ")
    };
    vec![
        Arc::new(longs(small.clone())),
        Arc::new(Int64Array::from_iter_values(numbers(200).into_iter().map(|step| {
            sum += step as i64;
            sum
        }))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|row| (few[row / 12] * 1009) as i64))),
        Arc::new(Int64Array::from_iter_values(few.iter().map(|value| (value * 999_983) as i64))),
        Arc::new(longs(small.iter().map(|value| value * 1_000_000).collect())),
        Arc::new(UInt32Array::from_iter_values(small.iter().map(|value| *value as u32))),
        Arc::new(UInt16Array::from_iter_values(numbers(2000).into_iter().map(|v| v as u16))),
        Arc::new(UInt8Array::from_iter_values(numbers(60).into_iter().map(|v| v as u8))),
        Arc::new(Float64Array::from_iter_values(small.iter().map(|value| *value as f64 / 100.0))),
        Arc::new(Float64Array::from_iter_values(small.iter().map(|value| (*value as f64).sqrt()))),
        Arc::new(Float32Array::from_iter_values(small.iter().map(|value| *value as f32 / 10.0))),
        Arc::new(BooleanArray::from_iter(small.iter().map(|value| Some(value % 2 == 0)))),
        Arc::new(Decimal128Array::from_iter_values(small.iter().map(|value| i128::from(*value)))),
        Arc::new(StringArray::from_iter_values(numbers(1 << 30).iter().map(text))),
        Arc::new(StringArray::from_iter_values(few.iter().map(text))),
    ]
}

/// The shortest time of some runs.
fn shortest(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(1e-9)
}

/// Kinds and their rates, one for each sample.
type Measured = Vec<(Kind, Rate)>;

fn measure(engine: &Engine, context: &Arc<Context>, machine: String) -> Result<Rates> {
    let is_slow = context.device().is_host();
    let (rows, copies) = if is_slow { (2048, 2) } else { (MAX_CHUNK_ROWS, COPIES) };
    let mut measured: [Measured; 3] = Default::default();
    let mut call = Duration::MAX;
    let engine_of_cpu = Engine::cpu();
    // On one of rayon's threads, so that no call waits until another thread wakes.
    let samples = rayon::scope(|_| {
        let samples = samples(rows).into_iter().map(|array| Sample::of(array, &engine_of_cpu));
        samples.collect::<Result<Vec<_>>>()
    })?;
    // Kernels of scans are compiled side by side.
    samples.par_iter().try_for_each(|one| one.on_device(engine, context, 1).map(|_| ()))?;
    for sample in samples {
        let [one, many] = [1, copies].map(|count| sample.on_device(engine, context, count));
        let bytes = sample.bytes * (copies - 1);
        // Where the copies took no longer than the one, by all of them.
        let of_device = |one: Duration, many: Duration| match many.checked_sub(one) {
            Some(more) if !more.is_zero() => rate(bytes, more),
            _ => rate(bytes, many),
        };
        let encoding = Some(sample.column.chunks()[0].root().encoding());
        let physical = physical_of(sample.array.data_type());
        let times = sample.times.iter().zip(one?).zip(many?);
        for (number, ((cpu, one), many)) in times.enumerate() {
            let rate = Rate { cpu: rate(sample.bytes, *cpu), device: of_device(one, many) };
            // What is compressed has no encoding yet.
            if number > 0 {
                measured[number].push((Kind { encoding, physical }, rate));
            }
            measured[number].push((Kind { encoding: None, physical }, rate));
        }
        let (field, options) = (&sample.field, Options::default());
        call = call.min(shortest(2, || {
            transfer::compress(context, field, &sample.array, &options).map(|_| ())
        })?);
        call = call.min(shortest(2, || transfer::decompress(context, &sample.column).map(|_| ()))?);
    }
    let copied = if is_slow { 1 << 20 } else { COPIED };
    let [up, down] = buses(context, copied)?;
    let memory = memory(4 * copied)?;
    let call = call.as_secs_f64();
    let [compress, decompress, scan] = measured.map(joined);
    Ok(Rates { machine, up, down, memory, call, compress, decompress, scan })
}

/// One rate for each kind: the geometric mean of its samples'.
fn joined(measured: Measured) -> RatesByKind {
    let mut logs = HashMap::<Kind, (f64, f64, f64)>::new();
    for (kind, rate) in measured {
        let (count, cpu, device) = logs.entry(kind.signed()).or_default();
        (*count, *cpu, *device) = (*count + 1.0, *cpu + rate.cpu.ln(), *device + rate.device.ln());
    }
    let mean = |(count, cpu, device): (f64, f64, f64)| Rate {
        cpu: (cpu / count).exp(),
        device: (device / count).exp(),
    };
    let mut rates = RatesByKind::default();
    logs.into_iter().for_each(|(kind, sums)| rates.insert(kind, mean(sums)));
    rates
}

/// A chunk of values.
struct Sample {
    field: FieldRef,
    array: ArrayRef,
    bytes: usize,
    column: CompressedColumn,
    /// Keeps about half of the values, or those that are equal to one.
    filter: Expr,
    /// What a thread of the CPU takes to compress, decompress and scan it.
    times: [Duration; 3],
}

impl Sample {
    fn of(array: ArrayRef, cpu: &Engine) -> Result<Self> {
        let field: FieldRef = Arc::new(Field::new(NAME, array.data_type().clone(), true));
        let options = Options::default();
        let mut column = compress_field(field.clone(), &array, &options)?;
        let compress = shortest(2, || {
            column = compress_field(field.clone(), &array, &options)?;
            Ok(())
        })?;
        let decompress = shortest(3, || column.decode().map(|_| ()))?;
        let middle = Scalar::new(array.slice(array.len() / 2, 1));
        let filter = match array.data_type() {
            DataType::Boolean => col(NAME).eq(middle),
            _ => col(NAME).gt(middle),
        };
        let columns = std::slice::from_ref(&column);
        let scan = Scan::of(columns).filter(filter.clone());
        let scan = shortest(3, || scan.count(cpu).map(|_| ()))?;
        let bytes = array.to_data().get_slice_memory_size().unwrap_or(0);
        Ok(Self { field, array, bytes, column, filter, times: [compress, decompress, scan] })
    }

    /// What compression, decompression and scans of so many copies take that lie on a device.
    fn on_device(
        &self,
        engine: &Engine,
        context: &Arc<Context>,
        copies: usize,
    ) -> Result<[Duration; 3]> {
        debug_assert!(encodes_on_device(self.array.data_type()) && decodes_on_device(&self.column));
        let arrays: Vec<&dyn Array> = (0..copies).map(|_| self.array.as_ref()).collect();
        let all = DeviceArray::upload(context, &arrow_select::concat::concat(&arrays)?)?;
        let compress = shortest(3, || {
            let column = encode_array(&self.field, &all, &Options::default(), &mut ())?;
            column.ready().synchronize()
        })?;
        let chunks = vec![self.column.chunks()[0].clone(); copies];
        let column = CompressedColumn::new(self.field.clone(), chunks, Vec::new());
        let schema = Arc::new(Schema::new(vec![self.field.clone()]));
        let batch = engine.upload(&compressed_batch(&schema, column.len(), &[column])?)?;
        let decompress = shortest(3, || batch.columns()[0].decompress().map(|_| ()))?;
        let scan = Scan::on_device(&batch).filter(self.filter.clone());
        let scan = shortest(3, || scan.count(engine).map(|_| ()))?;
        Ok([compress, decompress, scan])
    }
}

/// Bytes a second to the device and from it: page-locked memory, and other.
fn buses(context: &Arc<Context>, bytes: usize) -> Result<[[f64; 2]; 2]> {
    let mut pinned = PinnedBuffer::zeroed(context.pool(), bytes)?;
    let mut ordinary = vec![1_u8; bytes];
    context.with_stream(|stream| {
        let buffer = stream.allocate(bytes)?;
        let mut rates = [[0.0; 2]; 2];
        for (at, host) in [&mut *pinned, ordinary.as_mut_slice()].into_iter().enumerate() {
            let up = shortest(3, || {
                stream.upload(host, &buffer, 0)?;
                stream.synchronize()
            })?;
            let down = shortest(3, || stream.download(&buffer, 0, host))?;
            (rates[0][at], rates[1][at]) = (rate(bytes, up), rate(bytes, down));
        }
        Ok(rates)
    })
}

/// Bytes a second that all threads read and write when they copy more than caches hold.
fn memory(bytes: usize) -> Result<f64> {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let share = bytes.div_ceil(rayon::current_num_threads());
    let copy = shortest(3, || {
        (to.par_chunks_mut(share).zip(from.par_chunks(share)))
            .for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    })?;
    Ok(2.0 * rate(bytes, copy))
}
