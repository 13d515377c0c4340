//! Work that threads of the host and devices share: compression, decompression and scans
//! (`scan/host.rs`) of columns in host memory.
//!
//! ```text
//!            units, in order:  chunks of columns; strings by the chunks that share a symbol table
//! device 0, lanes -->  [ ][ ][ ][ ][ ] . . . . . . . . [ ][ ][ ][ ][ ]  <-- threads of the host
//! device 1, lanes -->   spans of consecutive units         unit by unit
//! ```
//!
//! There is one queue ([`queue::Queue`]). Nobody decides beforehand who does how much: whoever is
//! done takes more, and both ends meet. A device has a few *lanes*, each a thread that takes a span,
//! copies it up, works on it and copies the results down, so that copies in both directions and
//! kernels of different spans overlap, and device memory holds a few spans whatever a column has.
//! Those of several parts get shorter towards the end, so that the last one does not keep the others
//! waiting.
//!
//! Results are those of the units, whoever did them: chunks do not depend on each other. A device
//! without enough memory gives its span back and goes on with fewer lanes, then with shorter spans.
//! A device that fails gives back what it has taken, for others to do, if `Workers::is_lenient`; else
//! the call ends with its error.

mod batches;
mod bodies;
mod compress;
mod decompress;
mod queue;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use rayon::{ThreadPool, ThreadPoolBuilder};

pub(crate) use batches::{BatchColumns, compress_batches, decompress_batches};
pub(crate) use compress::compress;
pub(crate) use decompress::decompress;
use queue::Queue;
pub(crate) use queue::{Fits, Unit};

use super::{part_bytes, start};
use crate::device::Context;
use crate::error::{Error, Result};
use crate::threads::IDLE;

/// How many lanes a device has, and how many parts ([`part_bytes`]) a span has at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes {
    pub count: usize,
    pub parts: usize,
}

/// Spans whose parts overlap within a lane.
pub(crate) const LONG_SPANS: Lanes = Lanes { count: 4, parts: 8 };

/// Spans of one part, which wait for those before them to have a place ([`bodies::Bodies`]): the bus is
/// busy as long as two lanes copy while the others plan. Of page-locked Float64 values with 16 bits an
/// NVIDIA H200 compresses 44.7 GB/s with four lanes, 46.5 with six.
const SHORT_SPANS: Lanes = Lanes { count: 6, parts: 1 };

/// Units of a part ([`part_bytes`]): chunks that are shorter than one go together.
const UNITS: usize = 32;

/// Device memory that work on a span takes, as a multiple of its bytes: values, bodies, and what
/// kernels keep in between.
const PER_BYTE: usize = 4;

/// Who does the work of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workers {
    /// Threads of the host; none for devices alone.
    pub threads: usize,
    pub devices: Vec<Arc<Context>>,
    /// Bytes of its memory that each device may take.
    pub device_memory: Option<u64>,
    /// Whether others do what a device that fails has taken, the host above all.
    pub is_lenient: bool,
    /// How fast they are expected to be; none if nothing is known.
    pub rates: Option<Speeds>,
}

/// Bytes of values a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speeds {
    /// Of a thread of the host, and of all its threads on one unit.
    pub thread: f64,
    pub host: f64,
    /// Of all devices together.
    pub devices: f64,
}

impl Workers {
    /// One device alone.
    pub fn of(device: &Arc<Context>) -> Self {
        Self { devices: vec![device.clone()], ..Self::default() }
    }

    /// Least bytes of values of a unit.
    pub fn unit_bytes(&self) -> usize {
        let parts = self.devices.iter().map(|context| part_bytes(context));
        parts.min().map_or(1, |bytes| bytes / UNITS)
    }

    /// Bytes of a span that the limit of device memory has room for.
    fn room(&self) -> usize {
        let room = self.device_memory.map(|bytes| bytes / PER_BYTE as u64);
        room.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Whether the host takes part, or does what devices leave.
    pub fn has_host(&self) -> bool {
        self.threads > 0 || self.is_lenient
    }

    /// Puts units in order: last those of the host, which begins there. Those that are too long for
    /// devices are the host's where it takes part or does what devices leave.
    ///
    /// # Errors
    /// [`Error::Options`] where it does not, with what the longest needs.
    pub fn order(&self, units: &mut [Unit]) -> Result<()> {
        let (room, of_host) = (self.room(), self.has_host());
        for unit in units.iter_mut().filter(|unit| unit.bytes > room && of_host) {
            unit.fits = Fits::Host;
        }
        let on_device = units.iter().filter(|unit| unit.fits != Fits::Host);
        match on_device.map(|unit| unit.bytes).max() {
            Some(longest) if longest > room => {
                let needed = longest.saturating_mul(PER_BYTE);
                let limit = self.device_memory.unwrap_or(0);
                let what = format!("{limit} bytes; the longest part of a column needs {needed}");
                Err(Error::Options { name: "device_memory_limit", what })
            }
            _ => {
                units.sort_by_key(|unit| unit.fits == Fits::Host);
                Ok(())
            }
        }
    }
}

/// Who has done how much of a call, in bytes of values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    pub host: usize,
    /// For each device what it has done, and why it has given up, if it has.
    pub devices: Vec<(usize, Option<String>)>,
}

impl Shares {
    /// Of work that no device has done any of.
    pub fn of_host(workers: &Workers) -> Self {
        Self { host: 0, devices: vec![(0, None); workers.devices.len()] }
    }

    /// Of this work and then another part of it.
    pub fn and(mut self, other: Self) -> Self {
        self.host += other.host;
        for ((bytes, failure), (more, later)) in self.devices.iter_mut().zip(other.devices) {
            *bytes += more;
            *failure = failure.take().or(later);
        }
        self
    }
}

/// A device while work is shared.
struct DeviceState<'a> {
    context: &'a Arc<Context>,
    /// What is left has so many spans.
    divisor: usize,
    /// Most bytes of a span.
    longest: AtomicUsize,
    /// Lanes that take work.
    lanes: Mutex<usize>,
    /// Bytes of units that it has done.
    done: AtomicUsize,
    /// Why it takes no more.
    failure: OnceLock<Error>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> DeviceState<'a> {
    fn new(context: &'a Arc<Context>, lanes: &Lanes, room: usize, units: &[Unit]) -> Self {
        let on_device = units.iter().filter(|unit| unit.fits != Fits::Host);
        let unit = on_device.map(|unit| unit.bytes).max().unwrap_or(0);
        let count = lanes.count.min(room / unit.max(1)).max(1);
        Self {
            context,
            divisor: 2 * lanes.count,
            longest: (part_bytes(context) * lanes.parts).min(room / count).into(),
            lanes: count.into(),
            done: AtomicUsize::new(0),
            failure: OnceLock::new(),
        }
    }

    fn is_out(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Bytes of the next span, if so many are left for `devices` devices: the last ones are short.
    fn span(&self, left: usize, devices: usize) -> usize {
        let share = left / (self.divisor * devices);
        share.max(part_bytes(self.context)).min(self.longest.load(Ordering::Relaxed))
    }

    /// Whether a lane that lacks memory is to end: unless it is the only one.
    fn leaves(&self) -> bool {
        let mut lanes = lock(&self.lanes);
        let others = *lanes > 1;
        *lanes -= usize::from(others);
        others
    }
}

/// Units that are done, and what has come of them.
pub(crate) type Done<T> = Vec<(Range<usize>, T)>;

/// A call while it is shared.
struct Call<'a, T> {
    workers: &'a Workers,
    units: &'a [Unit],
    queue: Queue<'a>,
    devices: Vec<DeviceState<'a>>,
    host: AtomicUsize,
    done: Mutex<Done<T>>,
    /// What ends the call.
    error: FirstError,
    /// Whether a thread of the call has panicked, which ends it, too.
    has_panicked: AtomicBool,
}

/// Ends a call when it is dropped by a panic.
struct EndOnPanic<'c>(&'c AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The error of the first unit that has one.
#[derive(Debug, Default)]
struct FirstError(Mutex<Option<(usize, Error)>>);

impl FirstError {
    fn set(&self, unit: usize, error: Error) {
        let mut first = lock(&self.0);
        if first.as_ref().is_none_or(|(before, _)| unit < *before) {
            *first = Some((unit, error));
        }
    }

    fn is_set(&self) -> bool {
        lock(&self.0).is_some()
    }

    fn into_result(self) -> Result<()> {
        let first = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl<T: Send> Call<'_, T> {
    fn is_over(&self) -> bool {
        self.error.is_set() || self.has_panicked.load(Ordering::Relaxed)
    }

    fn bytes(&self, units: &Range<usize>) -> usize {
        self.units[units.clone()].iter().map(|unit| unit.bytes).sum()
    }

    /// A thread of the host: does units until none is left that it takes.
    fn host(
        &self,
        is_helper: bool,
        pays: impl Fn(&Unit, usize) -> bool,
        work: &impl Fn(usize) -> Result<T>,
    ) {
        let _end = EndOnPanic(&self.has_panicked);
        while !self.is_over()
            && let Some(unit) = self.queue.last(is_helper, &pays)
        {
            match work(unit) {
                Ok(result) => {
                    self.host.fetch_add(self.units[unit].bytes, Ordering::Relaxed);
                    lock(&self.done).push((unit..unit + 1, result));
                }
                Err(error) => self.error.set(unit, error),
            }
        }
    }

    /// A lane of a device: does spans until none is left or the device has failed.
    fn lane(
        &self,
        device: &DeviceState<'_>,
        work: &impl Fn(&Arc<Context>, Range<usize>) -> Result<T>,
    ) {
        let _end = EndOnPanic(&self.has_panicked);
        while !self.is_over()
            && !device.is_out()
            && let Some(units) = self.queue.first(|left| device.span(left, self.devices.len()))
        {
            let bytes = self.bytes(&units);
            match work(device.context, units.clone()) {
                Ok(result) => {
                    device.done.fetch_add(bytes, Ordering::Relaxed);
                    lock(&self.done).push((units, result));
                }
                Err(Error::DeviceMemory { .. }) if device.leaves() => {
                    return self.queue.give_back(units);
                }
                Err(Error::DeviceMemory { .. }) if units.len() > 1 => {
                    device.longest.store(bytes / 2, Ordering::Relaxed);
                    self.queue.give_back(units);
                }
                Err(error) if self.workers.is_lenient && is_of_device(&error) => {
                    let _ = device.failure.set(error);
                    self.queue.give_back(units);
                }
                Err(error) => self.error.set(units.start, error),
            }
        }
    }

    /// Lets lanes of devices and threads of the host take units until none is left, or nobody takes
    /// what is left. Without threads of its own the host does what no device does.
    fn round(
        &self,
        threads: usize,
        on_host: &(impl Fn(usize) -> Result<T> + Sync),
        on_device: &(impl Fn(&Arc<Context>, Range<usize>) -> Result<T> + Sync),
    ) {
        let devices = || self.devices.iter().filter(|device| !device.is_out());
        let has_devices = devices().next().is_some();
        // Of the last units those stay for devices that these do sooner.
        let pays = move |unit: &Unit, left: usize| match self.workers.rates {
            Some(Speeds { thread, host, devices }) if has_devices => {
                let rate = if unit.fits == Fits::Alone { host } else { thread };
                unit.bytes as f64 / rate <= left as f64 / devices
            }
            _ => true,
        };
        let is_helper = threads == 0;
        let helpers = || self.units.iter().filter(|unit| unit.fits == Fits::Host).count();
        let threads = match is_helper {
            true => helpers().min(rayon::current_num_threads()),
            false => threads,
        };
        thread::scope(|scope| {
            let mut started = Vec::new();
            for device in devices() {
                let lanes = *lock(&device.lanes);
                let lane = move || self.lane(device, on_device);
                started.extend((0..lanes).map_while(|_| start(scope, lane).ok()));
            }
            let host = move || self.host(is_helper, pays, on_host);
            let lanes = started.len();
            started.extend((0..threads).map_while(|_| start(scope, host).ok()));
            if threads > 0 && started.len() == lanes {
                host();
            }
            // Where no thread can be had this one does the work.
            if lanes == 0 {
                devices().for_each(|device| self.lane(device, on_device));
            }
            wait(&started);
            for thread in started {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
    }
}

/// Compresses a unit of the host, on a pool of threads that do nothing else: what devices wait for,
/// above all plans, is done by rayon's own, where it would stand in line behind such units.
fn on_pool_of_hosts<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static HOSTS: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let threads = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads());
        threads.thread_name(|index| format!("lanepack-{index}")).build().ok()
    };
    match HOSTS.get_or_init(start) {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Waits for threads. One of rayon's does meanwhile what its pool has to do: these threads may need
/// the pool, of which all others may wait here as well.
fn wait(threads: &[ScopedJoinHandle<'_, ()>]) {
    while rayon::current_thread_index().is_some()
        && threads.iter().any(|thread| !thread.is_finished())
    {
        if rayon::yield_now() != Some(rayon::Yield::Executed) {
            thread::sleep(IDLE);
        }
    }
}

/// Whether an error is one of a device, which the CPU does not have: it lacks memory, has failed, has
/// no compiler for kernels, or no kernel has room for a filter.
pub(crate) fn is_of_device(error: &Error) -> bool {
    use Error::{Device, DeviceMemory, Expression, NoDevice};
    matches!(error, DeviceMemory { .. } | Device { .. } | NoDevice { .. } | Expression { .. })
}

/// Has all units done: by threads of the host one by one, by devices in spans. The results, in the
/// order of columns and chunks, and who did how much.
///
/// An error is that of the first unit of those that were being done when one failed.
pub(crate) fn share<T: Send>(
    workers: &Workers,
    lanes: &Lanes,
    units: &[Unit],
    on_host: &(impl Fn(usize) -> Result<T> + Sync),
    on_device: &(impl Fn(&Arc<Context>, Range<usize>) -> Result<T> + Sync),
) -> Result<(Done<T>, Shares)> {
    let state = |context| DeviceState::new(context, lanes, workers.room(), units);
    let call = Call {
        workers,
        units,
        queue: Queue::new(units),
        devices: workers.devices.iter().map(state).collect(),
        host: AtomicUsize::new(0),
        done: Mutex::default(),
        error: FirstError::default(),
        has_panicked: AtomicBool::new(false),
    };
    let mut threads = match workers.devices.is_empty() {
        true => workers.threads.max(1),
        false => workers.threads,
    };
    // Once more where something was given back when others had stopped taking.
    while !call.is_over() && !call.queue.is_empty() {
        call.round(threads, on_host, on_device);
        if call.devices.iter().all(DeviceState::is_out) {
            threads = rayon::current_num_threads();
        }
    }
    call.error.into_result()?;
    let of_device = |device: DeviceState<'_>| {
        let failure = device.failure.into_inner().map(|error| error.to_string());
        (device.done.load(Ordering::Relaxed), failure)
    };
    let devices = call.devices.into_iter().map(of_device).collect();
    let mut done = call.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // What is too long for devices has moved behind the rest of its column.
    done.sort_by_key(|(range, _)| (units[range.start].column, units[range.start].chunks.start));
    Ok((done, Shares { host: call.host.load(Ordering::Relaxed), devices }))
}

#[cfg(all(test, lanepack_simt))]
mod tests;
