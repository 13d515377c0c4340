//! Times of launches and copies on a device, for benches.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::FieldRef;

use super::Engine;
use crate::decode;
use crate::device::marks::recorded;
use crate::device::{Context, DeviceArray, DeviceColumn, Marks, PinnedBuffer};
use crate::encode;
use crate::error::Result;
use crate::gpu::{DeviceBuffer, Event, Stream};
use crate::options::Options;

/// What the kernels of one decompression took, by events on the device.
#[derive(Debug, Clone)]
pub struct Times {
    /// From before the first launch to the end of the last.
    pub all: Duration,
    /// Each launch, by name, in order; without a name, what was between launches.
    pub kernels: Vec<(&'static str, Duration)>,
}

/// Records an event at each mark.
#[derive(Default)]
pub(crate) struct Recorder(Vec<(&'static str, Arc<dyn Event>)>);

impl Marks for Recorder {
    fn mark(&mut self, stream: &Arc<dyn Stream>, kernel: &'static str) -> Result<()> {
        self.0.push((kernel, stream.record()?));
        Ok(())
    }

    fn is_serial(&self) -> bool {
        true
    }
}

impl Recorder {
    pub fn times(self) -> Result<Times> {
        let marks = self.0;
        let between = |pair: &[(&'static str, Arc<dyn Event>)]| {
            Ok((pair[1].0, pair[1].1.elapsed(pair[0].1.as_ref())?))
        };
        let kernels = marks.windows(2).map(between).collect::<Result<_>>()?;
        let (first, last) = (&marks[0].1, &marks[marks.len() - 1].1);
        Ok(Times { all: last.elapsed(first.as_ref())?, kernels })
    }
}

/// Does some work and measures the kernels that scans start on this thread, by name. What is between
/// launches is left out.
///
/// # Errors
/// [`Error::Device`](crate::Error).
pub fn kernels_of<T>(work: impl FnOnce() -> T) -> Result<(T, Vec<(&'static str, Duration)>)> {
    let (result, marks) = recorded::of(work);
    let between = |pair: &[(&'static str, Arc<dyn Event>)]| {
        Ok((pair[1].0, pair[1].1.elapsed(pair[0].1.as_ref())?))
    };
    let kernels = marks.windows(2).filter(|pair| !pair[1].0.is_empty()).map(between);
    Ok((result, kernels.collect::<Result<_>>()?))
}

/// Bytes of an engine's GPU that were allocated at most since this was asked the last time; none if the
/// device does not count them.
///
/// # Errors
/// [`Error::Device`](crate::Error).
pub fn peak_device_memory(engine: &Engine) -> Result<Option<u64>> {
    engine.named_device().map_or(Ok(None), |context| context.device().peak_memory())
}

/// Decompresses a column and measures its kernels.
pub fn decompress(column: &DeviceColumn) -> Result<(DeviceArray, Times)> {
    column.context().with_stream(|stream| {
        let mut recorder = Recorder::default();
        let array = decode::start(stream, column, &mut recorder)?.finish()?;
        Ok((array, recorder.times()?))
    })
}

/// Only where the first launch is.
#[derive(Default)]
struct First(Option<Arc<dyn Event>>);

impl Marks for First {
    fn mark(&mut self, stream: &Arc<dyn Stream>, _: &'static str) -> Result<()> {
        if self.0.is_none() {
            self.0 = Some(stream.record()?);
        }
        Ok(())
    }
}

/// Compresses an array that is stored on a device and measures all of it, waits for the host
/// included.
pub fn compress(
    field: &FieldRef,
    array: &DeviceArray,
    options: &Options,
) -> Result<(DeviceColumn, Duration)> {
    let mut first = First::default();
    let column = encode::encode_array(field, array, options, &mut first)?;
    let all = match first.0 {
        Some(first) => column.ready().elapsed(first.as_ref())?,
        None => Duration::ZERO,
    };
    Ok((column, all))
}

/// Compresses an array that is stored on a device and measures it kernel by kernel, one after
/// the other.
pub fn compress_serially(
    field: &FieldRef,
    array: &DeviceArray,
    options: &Options,
) -> Result<(DeviceColumn, Times)> {
    let mut recorder = Recorder::default();
    let column = encode::encode_array(field, array, options, &mut recorder)?;
    Ok((column, recorder.times()?))
}

/// Times of `runs` copies of `bytes` bytes from one buffer of the device to another.
pub fn copies(engine: &Engine, bytes: usize, runs: usize) -> Result<Vec<Duration>> {
    engine.context()?.with_stream(|stream| {
        let (from, to) = (stream.allocate(bytes)?, stream.allocate(bytes)?);
        stream.fill(&from, 0, bytes, 0x5a)?;
        let copy = |_| {
            let start = stream.record()?;
            stream.copy(&from, 0, &to, 0, bytes)?;
            stream.record()?.elapsed(start.as_ref())
        };
        let times = (0..runs).map(copy).collect();
        stream.synchronize()?;
        times
    })
}

/// Page-locked memory and memory of the first GPU of an engine, between which bytes are copied.
pub struct Bus<'a> {
    context: &'a Arc<Context>,
    host: PinnedBuffer,
    device: DeviceBuffer,
}

impl<'a> Bus<'a> {
    /// Of so many bytes.
    pub fn new(engine: &'a Engine, bytes: usize) -> Result<Self> {
        let context = engine.context()?;
        let host = PinnedBuffer::zeroed(context.pool(), bytes)?;
        let device = context.with_stream(|stream| stream.allocate(bytes))?;
        Ok(Self { context, host, device })
    }

    /// Copies all bytes to the GPU, or from it, and waits.
    pub fn copy(&mut self, is_up: bool) -> Result<()> {
        let Self { context, host, device } = self;
        context.with_stream(|stream| {
            match is_up {
                true => stream.upload(host, device, 0)?,
                false => stream.download(device, 0, host)?,
            }
            stream.synchronize()
        })
    }
}
