//! Work that threads of the host and devices share: compression and decompression of columns in host
//! memory.
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
//! Spans get shorter towards the end, so that the last one does not keep the others waiting.
//!
//! Results are those of the units, whoever did them: chunks do not depend on each other. A device
//! without enough memory gives its span back and goes on with fewer lanes, then with shorter spans.
//! A device that fails gives back what it has taken; others do it if `Workers::is_lenient`, else it
//! is an error.

mod compress;
mod decompress;
mod queue;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

pub(crate) use compress::compress;
pub(crate) use decompress::decompress;
use queue::Queue;
pub(crate) use queue::{Fits, Unit};

use super::{part_bytes, start};
use crate::device::Context;
use crate::error::{Error, Result};

/// Threads of a device that take spans.
const LANES: usize = 4;

/// Units of a part ([`part_bytes`]): chunks that are shorter than one go together.
const UNITS: usize = 32;

/// A span has at most so many times the bytes of a part ([`part_bytes`]).
const LONGEST: usize = 8;

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
    /// Bytes of values a second that the host is expected to do, with all its threads, and all
    /// devices together; none if nothing is known.
    pub rates: Option<[f64; 2]>,
}

impl Workers {
    /// Least bytes of values of a unit.
    fn unit_bytes(&self) -> usize {
        let parts = self.devices.iter().map(|context| part_bytes(context));
        parts.min().map_or(1, |bytes| bytes / UNITS)
    }
}

/// Who has done how much of a call, in bytes of values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    pub host: usize,
    /// For each device what it has done, and why it has given up, if it has.
    pub devices: Vec<(usize, Option<String>)>,
}

/// A device while work is shared.
struct DeviceState<'a> {
    context: &'a Arc<Context>,
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
    /// # Errors
    /// [`Error::Options`] if so much memory does not suffice for the longest unit.
    fn new(context: &'a Arc<Context>, memory: Option<u64>, units: &[Unit]) -> Result<Self> {
        let on_device = units.iter().filter(|unit| unit.fits != Fits::Host);
        let unit = on_device.map(|unit| unit.bytes).max().unwrap_or(0);
        let (mut lanes, mut longest) = (LANES, part_bytes(context) * LONGEST);
        if let Some(memory) = memory {
            let room = usize::try_from(memory / PER_BYTE as u64).unwrap_or(usize::MAX);
            if room < unit {
                let needed = unit.saturating_mul(PER_BYTE);
                let what = format!("{memory} bytes; the longest part of a column needs {needed}");
                return Err(Error::Options { name: "device_memory_limit", what });
            }
            lanes = lanes.min(room / unit.max(1)).max(1);
            longest = longest.min(room / lanes);
        }
        Ok(Self {
            context,
            longest: longest.into(),
            lanes: lanes.into(),
            done: AtomicUsize::new(0),
            failure: OnceLock::new(),
        })
    }

    fn is_out(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Bytes of the next span, if so many are left for `devices` devices: the last ones are short.
    fn span(&self, left: usize, devices: usize) -> usize {
        let share = left / (2 * LANES * devices);
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
type Done<T> = Vec<(Range<usize>, T)>;

/// A call while it is shared.
struct Call<'a, T> {
    units: &'a [Unit],
    queue: Queue<'a>,
    devices: Vec<DeviceState<'a>>,
    host: AtomicUsize,
    done: Mutex<Done<T>>,
    /// An error that ends the call, of the first unit that has one.
    error: Mutex<Option<(usize, Error)>>,
}

impl<T: Send> Call<'_, T> {
    fn fail(&self, unit: usize, error: Error) {
        let mut first = lock(&self.error);
        if first.as_ref().is_none_or(|(before, _)| unit < *before) {
            *first = Some((unit, error));
        }
    }

    fn is_over(&self) -> bool {
        lock(&self.error).is_some()
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
        while !self.is_over()
            && let Some(unit) = self.queue.last(is_helper, &pays)
        {
            match work(unit) {
                Ok(result) => {
                    self.host.fetch_add(self.units[unit].bytes, Ordering::Relaxed);
                    lock(&self.done).push((unit..unit + 1, result));
                }
                Err(error) => self.fail(unit, error),
            }
        }
    }

    /// A lane of a device: does spans until none is left or the device has failed.
    fn lane(
        &self,
        device: &DeviceState<'_>,
        work: &impl Fn(&Arc<Context>, Range<usize>) -> Result<T>,
    ) {
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
                Err(error @ (Error::DeviceMemory { .. } | Error::Device { .. })) => {
                    let _ = device.failure.set(error);
                    self.queue.give_back(units);
                }
                Err(error) => self.fail(units.start, error),
            }
        }
    }

    /// Lets lanes of devices and threads of the host take units until none is left, or nobody takes
    /// what is left. Without threads of its own the host does what no device does.
    fn round(
        &self,
        threads: usize,
        rates: Option<[f64; 2]>,
        on_host: &(impl Fn(usize) -> Result<T> + Sync),
        on_device: &(impl Fn(&Arc<Context>, Range<usize>) -> Result<T> + Sync),
    ) -> Result<()> {
        thread::scope(|scope| {
            for device in self.devices.iter().filter(|device| !device.is_out()) {
                for _ in 0..*lock(&device.lanes) {
                    start(scope, move || self.lane(device, on_device))?;
                }
            }
            let helpers = self.units.iter().filter(|unit| unit.fits == Fits::Host).count();
            let is_helper = threads == 0;
            let count = if is_helper { helpers.min(rayon::current_num_threads()) } else { threads };
            let lanes_work = self.devices.iter().any(|device| !device.is_out());
            // Of the last units those stay for devices that these do sooner.
            let pays = move |unit: &Unit, left: usize| match rates {
                Some([host, devices]) if lanes_work => {
                    let share = if unit.fits == Fits::Alone { 1.0 } else { threads.max(1) as f64 };
                    unit.bytes as f64 * share / host <= left as f64 / devices
                }
                _ => true,
            };
            for _ in 0..count {
                start(scope, move || {
                    yield_to_others();
                    self.host(is_helper, pays, on_host);
                })?;
            }
            Ok(())
        })
    }
}

/// Has the calling thread give way to others: to those that plan for devices, start kernels and copy,
/// which devices wait for.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // SAFETY: sets the nice value of the calling thread (0), to one that everybody may set; that it
    // fails does no harm.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
    }
}

/// Has all units done: by threads of the host one by one, by devices in spans. The results, in the
/// order of units, and who did how much.
///
/// An error is that of the first unit of those that were being done when one failed.
fn share<T: Send>(
    workers: &Workers,
    units: &[Unit],
    on_host: &(impl Fn(usize) -> Result<T> + Sync),
    on_device: &(impl Fn(&Arc<Context>, Range<usize>) -> Result<T> + Sync),
) -> Result<(Done<T>, Shares)> {
    let state = |context| DeviceState::new(context, workers.device_memory, units);
    let call = Call {
        units,
        queue: Queue::new(units),
        devices: workers.devices.iter().map(state).collect::<Result<_>>()?,
        host: AtomicUsize::new(0),
        done: Mutex::default(),
        error: Mutex::default(),
    };
    let mut threads = match workers.devices.is_empty() {
        true => workers.threads.max(1),
        false => workers.threads,
    };
    // Once more where something was given back when others had stopped taking.
    while !call.is_over() && !call.queue.is_empty() {
        call.round(threads, workers.rates, on_host, on_device)?;
        if !workers.is_lenient && call.devices.iter().any(DeviceState::is_out) {
            break;
        }
        if call.devices.iter().all(DeviceState::is_out) {
            threads = rayon::current_num_threads();
        }
    }
    let failures = call
        .devices
        .into_iter()
        .map(|device| (device.done.load(Ordering::Relaxed), device.failure.into_inner()));
    let error = call.error.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = error {
        return Err(error);
    }
    let mut devices = Vec::new();
    for (bytes, failure) in failures {
        match failure {
            Some(error) if !workers.is_lenient => return Err(error),
            failure => devices.push((bytes, failure.map(|error| error.to_string()))),
        }
    }
    let mut done = call.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(units, _)| units.start);
    Ok((done, Shares { host: call.host.load(Ordering::Relaxed), devices }))
}
