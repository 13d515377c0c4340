//! Who does the work of a call, and what is reported of it.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;

use super::{Engine, Kind};
use crate::chunk::Chunk;
use crate::column::{CompressedColumn, array_bytes, physical_of};
use crate::decode::decodes_on_device;
use crate::device::Context;
use crate::encode::uses_device;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::model::{self, Column, Model, Operation, Side, Work};
use crate::options::Options;
use crate::transfer::shared::{self, Shares, Speeds, Workers};

/// What an [`Engine`] runs on for one batch or array, and why: [`Engine::choose`],
/// [`Engine::last_choice`].
///
/// ```
/// use lanepack::Engine;
/// let choice = Engine::cpu().choose(&[]);
/// assert!(choice.cpu && choice.devices.is_empty());
/// assert_eq!(choice.to_string(), "CPU: asked for");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Whether the CPU does some of the work or all of it. Beside GPUs it also does what they do not:
    /// see [`Engine::compress`].
    pub cpu: bool,
    /// The GPUs that take part.
    pub devices: Vec<DeviceInfo>,
    /// Why.
    pub reason: Reason,
    /// What the call was predicted to take; none for engines without a GPU, and for files that are read to a GPU
    /// that was asked for by name.
    pub predicted: Option<Predicted>,
    /// What it has taken; none before.
    pub took: Option<Duration>,
    /// How much each of them has done, where they have shared the work of a call.
    pub shares: Option<WorkShares>,
}

/// Why an [`Engine`] runs on what it does: [`Choice::reason`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It was asked for by name.
    AskedFor,
    /// [`Engine::auto`] has found no usable GPU: what is missing.
    NoDevice(String),
    /// It was predicted to take least: [`Choice::predicted`].
    Predicted,
}

/// What a call was predicted to take: [`Choice::predicted`]. Of a call that the CPU is predicted to end
/// before a GPU has begun, GPUs are predicted as if its memory were page-locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Predicted {
    /// By the CPU alone.
    pub cpu: Duration,
    /// By the GPUs alone.
    pub devices: Duration,
    /// By both together; of files, which one of them scans, the less of the two.
    pub both: Duration,
}

impl From<[Duration; 3]> for Predicted {
    fn from([cpu, devices, both]: [Duration; 3]) -> Self {
        Self { cpu, devices, both }
    }
}

/// How the work of a call was shared: [`Choice::shares`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkShares {
    /// Bytes of values that the CPU has compressed or decompressed; of scans bytes of compressed ones.
    pub cpu: usize,
    /// The same of each of [`Choice::devices`].
    pub devices: Vec<usize>,
    /// Why some of them gave up, with their numbers in [`Choice::devices`]: others have done their
    /// work.
    pub failures: Vec<(usize, String)>,
}

impl From<Shares> for WorkShares {
    fn from(shares: Shares) -> Self {
        let failures = shares.devices.iter().enumerate();
        let failures = failures.filter_map(|(at, (_, why))| Some((at, why.clone()?))).collect();
        let devices = shares.devices.iter().map(|(bytes, _)| *bytes).collect();
        Self { cpu: shares.host, devices, failures }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |f: &mut fmt::Formatter<'_>, bytes: Option<usize>| match bytes {
            Some(bytes) => write!(f, " ({bytes} bytes)"),
            None => Ok(()),
        };
        let mut separator = "";
        if self.cpu {
            f.write_str("CPU")?;
            bytes(f, self.shares.as_ref().map(|shares| shares.cpu))?;
            separator = ", ";
        }
        for (at, device) in self.devices.iter().enumerate() {
            write!(f, "{separator}{} {}", device.name, device.ordinal)?;
            bytes(f, self.shares.as_ref().and_then(|shares| shares.devices.get(at).copied()))?;
            separator = ", ";
        }
        match (&self.reason, self.predicted) {
            (Reason::AskedFor, _) => f.write_str(": asked for")?,
            (Reason::NoDevice(what), _) => {
                write!(f, ": {}", Error::NoDevice { what: what.clone() })?;
            }
            (Reason::Predicted, None) => f.write_str(": predicted to take least")?,
            (Reason::Predicted, Some(Predicted { cpu, devices, both })) => {
                let [cpu, devices, both] =
                    [cpu, devices, both].map(|time| time.as_secs_f64() * 1e3);
                write!(
                    f,
                    ": predicted {cpu:.3} ms by the CPU, {devices:.3} by the GPU, {both:.3} by both"
                )?;
            }
        }
        for (at, why) in self.shares.iter().flat_map(|shares| &shares.failures) {
            let name = self.devices.get(*at).map_or("", |device| &device.name);
            write!(f, "; {name} gave up: {why}")?;
        }
        Ok(())
    }
}

/// Who does the work of a call.
enum Plan {
    Cpu,
    /// One device, whose copies and kernels overlap in each column; and who does the work if it
    /// fails or lacks memory, if anybody.
    Device(Arc<Context>, Option<Workers>),
    /// Several, which take from one queue.
    Shared(Workers),
}

/// A call before anybody does its work.
pub(crate) struct Asked {
    /// Its memory is taken for page-locked until the driver has been asked.
    work: Work,
    /// The longest buffer that goes up to a device.
    up: Option<Buffer>,
}

/// Bytes that a thread reads from the system's cache and checks in a second (measured: 16 threads at a time of an
/// Intel Xeon).
const READ_BY_THREAD: f64 = 4e9;

/// Who scans chunks that are read on demand.
pub(crate) enum FileScan {
    Cpu,
    /// A GPU, which they are read to.
    Device(Arc<Context>),
    /// Who gets which is decided once they are in host memory, by this engine.
    Shared(Engine),
}

impl Choice {
    fn new(cpu: bool, devices: &[Arc<Context>], reason: Reason) -> Self {
        let devices = devices.iter().map(|context| context.device().info().clone()).collect();
        Self { cpu, devices, reason, predicted: None, took: None, shares: None }
    }

    fn by_times(cpu: bool, devices: &[Arc<Context>], times: [Duration; 3]) -> Self {
        Self { predicted: Some(times.into()), ..Self::new(cpu, devices, Reason::Predicted) }
    }

    /// Whether others do what a GPU cannot.
    pub(crate) fn is_lenient(&self) -> bool {
        self.reason == Reason::Predicted
    }

    /// The choice after a call that has taken so long, if it did not fail. If a GPU failed: why, and the bytes that
    /// the CPU and it have scanned.
    pub(crate) fn after(
        self,
        took: Option<Duration>,
        failed: Option<(String, usize, usize)>,
    ) -> Self {
        let shares = failed.map(|(why, cpu, device)| WorkShares {
            cpu,
            devices: vec![device],
            failures: vec![(0, why)],
        });
        Self { cpu: self.cpu || shares.is_some(), took, shares, ..self }
    }
}

impl Asked {
    /// Work on many batches: that on the first of them, so many times.
    pub(crate) fn times(self, batches: usize) -> Self {
        let of = |column: Column| Column {
            values: column.values.saturating_mul(batches),
            stored: column.stored.map(|bytes| bytes.saturating_mul(batches)),
            units: batches,
            ..column
        };
        let columns = self.work.columns.into_iter().map(of).collect();
        Self { work: Work { columns, ..self.work }, ..self }
    }
}

impl Engine {
    /// What decompressing these columns would run on, and why.
    pub fn choose(&self, columns: &[CompressedColumn]) -> Choice {
        self.pick(|| self.decompression(columns)).1
    }

    /// What the last call of [`Engine::compress`], [`Engine::compress_array`],
    /// [`Engine::decompress`], [`Engine::decompress_column`], [`Engine::compress_batches`],
    /// [`Engine::decompress_batches`] or of a [`Scan`](crate::scan::Scan) of data in host memory or
    /// of a file ran on, why, and what it took; of [`Batches`](crate::scan::Batches) up to the last one.
    pub fn last_choice(&self) -> Option<Choice> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decompression as work that is predicted.
    pub(super) fn decompression(&self, columns: &[CompressedColumn]) -> Asked {
        let Asked { mut work, up } = self.reading(Operation::Decompress, columns.iter());
        work.page_locked[1] = self.locks_results(work.values());
        Asked { work, up }
    }

    /// A scan as work that is predicted: of columns, of which some are `needed` for their values, with
    /// so many tests and aggregates.
    pub(crate) fn scanning(
        &self,
        columns: &[&CompressedColumn],
        needed: &[bool],
        effort: usize,
    ) -> Asked {
        let read = columns.iter().zip(needed).filter(|(_, needed)| **needed);
        let Asked { mut work, up } = self.reading(Operation::Scan, read.map(|(column, _)| *column));
        // What devices do not read of one column the CPU reads of all.
        let on_device = work.columns.iter().all(|column| column.on_device);
        work.columns.iter_mut().for_each(|column| column.on_device = on_device);
        Asked { work: Work { effort, ..work }, up }
    }

    /// Work on compressed columns; little comes down.
    fn reading<'a>(
        &self,
        operation: Operation,
        columns: impl Iterator<Item = &'a CompressedColumn> + Clone,
    ) -> Asked {
        let body = |column: &CompressedColumn| {
            column.chunks().iter().map(|chunk| chunk.body().len()).sum()
        };
        let of = |column: &CompressedColumn| Column {
            kind: model::Kind {
                encoding: column.chunks().first().map(|chunk| chunk.root().encoding()),
                physical: physical_of(column.data_type()),
            },
            values: column.decompressed_bytes(),
            stored: Some(body(column)),
            units: column.chunks().len(),
            on_device: decodes_on_device(column),
        };
        let bodies = columns.clone().flat_map(CompressedColumn::chunks).map(Chunk::body);
        let up = bodies.max_by_key(|body| body.len()).cloned();
        let work = Work {
            operation,
            effort: 0,
            columns: columns.map(of).collect(),
            page_locked: [true; 2],
            threads: rayon::current_num_threads(),
            devices: self.contexts().len(),
        };
        Asked { work, up }
    }

    /// Compression as work that is predicted.
    pub(super) fn compression(&self, arrays: &[ArrayRef], options: &Options) -> Asked {
        let of = |array: &ArrayRef| Column {
            kind: model::Kind { encoding: None, physical: physical_of(array.data_type()) },
            values: array_bytes(array),
            stored: None,
            units: array.len().div_ceil(options.chunk_rows),
            on_device: uses_device(array.data_type()),
        };
        let longest = |array: &ArrayRef| {
            array.to_data().buffers().iter().max_by_key(|buffer| buffer.len()).cloned()
        };
        let buffers = arrays.iter().filter_map(longest);
        let up = buffers.max_by_key(|buffer| buffer.len());
        let columns: Vec<Column> = arrays.iter().map(of).collect();
        let values = columns.iter().map(|column| column.values).sum();
        let work = Work {
            operation: Operation::Compress,
            effort: 0,
            columns,
            page_locked: [true, self.locks_results(values)],
            threads: options.threads.unwrap_or_else(rayon::current_num_threads),
            devices: self.contexts().len(),
        };
        Asked { work, up }
    }

    /// Asks the driver, which takes as long as a small call.
    fn is_page_locked(&self, bytes: &[u8]) -> bool {
        let context = self.contexts().first();
        context.is_some_and(|context| context.device().is_page_locked(bytes))
    }

    /// Whether results of so many bytes lie in page-locked memory.
    fn locks_results(&self, bytes: usize) -> bool {
        self.contexts().first().is_some_and(|context| context.pool().has_room(bytes))
    }

    /// Who does what is asked, and the work, which nobody looks at where there is no choice.
    fn pick(&self, asked: impl FnOnce() -> Asked) -> (Plan, Choice, Option<Work>) {
        let look_up = |Asked { mut work, up }: Asked| {
            work.page_locked[0] = up.is_some_and(|bytes| self.is_page_locked(&bytes));
            work
        };
        let rates = |work: &Work, [cpu, devices, _]: [Duration; 3]| {
            let values = work.shared_bytes().max(1) as f64;
            let [host, devices] = [cpu, devices].map(|time| values / time.as_secs_f64().max(1e-9));
            Some(Speeds { thread: host / work.threads.max(1) as f64, host, devices })
        };
        let workers =
            |work: &Work, contexts: &[Arc<Context>], with_cpu, is_lenient, times| Workers {
                rates: rates(work, times),
                threads: if with_cpu { work.threads_beside_devices() } else { 0 },
                devices: contexts.to_vec(),
                device_memory: self.device_memory,
                is_lenient,
            };
        match &self.kind {
            Kind::Cpu => (Plan::Cpu, Choice::new(true, &[], Reason::AskedFor), None),
            Kind::Devices(contexts) => {
                let work = look_up(asked());
                let (_, times) = self.model().choose(&work, &[Side::Devices]);
                let plan = match self.only_device() {
                    Some(context) => Plan::Device(context.clone(), None),
                    None => Plan::Shared(workers(&work, contexts, self.with_cpu, false, times)),
                };
                let reason = Reason::AskedFor;
                let choice = Choice::by_times(self.with_cpu, contexts, times);
                (plan, Choice { reason, ..choice }, Some(work))
            }
            Kind::Auto(Err(what)) => {
                (Plan::Cpu, Choice::new(true, &[], Reason::NoDevice(what.clone())), None)
            }
            Kind::Auto(Ok(contexts)) => {
                let asked = asked();
                let tiny = match self.sides.contains(&Side::Cpu) {
                    true => self.model().tiny(&asked.work),
                    false => None,
                };
                if let Some(times) = tiny {
                    return (Plan::Cpu, Choice::by_times(true, &[], times), None);
                }
                let (side, times, work) = self.best_side(asked, self.sides, look_up);
                let plan = match (side, self.lone(contexts)) {
                    (Side::Cpu, _) => Plan::Cpu,
                    (Side::Devices, Some(context)) => {
                        let others = workers(&work, contexts, false, true, times);
                        Plan::Device(context, Some(others))
                    }
                    (side, _) => {
                        let with_cpu = side == Side::Both;
                        Plan::Shared(workers(&work, contexts, with_cpu, true, times))
                    }
                };
                let used = if side == Side::Cpu { &[][..] } else { contexts.as_slice() };
                (plan, Choice::by_times(side != Side::Devices, used, times), Some(work))
            }
        }
    }

    /// Of some devices the only one, if columns go there as a whole.
    fn lone(&self, contexts: &[Arc<Context>]) -> Option<Arc<Context>> {
        match contexts {
            [context] if self.device_memory.is_none() => Some(context.clone()),
            _ => None,
        }
    }

    /// Whether work is the CPU's without a look at the memory: no device does it, or it is small.
    fn is_for_cpu(&self, work: &Work, sides: &[Side]) -> bool {
        let is_for_devices = work.columns.iter().any(|column| column.on_device);
        !is_for_devices || (sides.contains(&Side::Cpu) && self.model().is_small(work))
    }

    /// The side of some that is predicted to take least, the times of all, and the work, which `look_up` completes
    /// if it may be a device's.
    fn best_side(
        &self,
        asked: Asked,
        sides: &[Side],
        look_up: impl FnOnce(Asked) -> Work,
    ) -> (Side, [Duration; 3], Work) {
        let (work, sides) = match self.is_for_cpu(&asked.work, sides) {
            true => (asked.work, &[Side::Cpu][..]),
            false => (look_up(asked), sides),
        };
        let (side, times) = self.model().choose(&work, sides);
        (side, times, work)
    }

    /// Who scans chunks that are read on demand, and why, if that is decided for all of them; `asked` gives the
    /// work if there is any, where there is a choice.
    pub(crate) fn choose_for_file(
        &self,
        asked: impl FnOnce() -> Result<Option<Asked>>,
    ) -> Result<(FileScan, Option<Choice>)> {
        let by_cpu = |choice| Ok((FileScan::Cpu, Some(choice)));
        let contexts = match &self.kind {
            Kind::Cpu => return by_cpu(Choice::new(true, &[], Reason::AskedFor)),
            Kind::Auto(Err(what)) => {
                return by_cpu(Choice::new(true, &[], Reason::NoDevice(what.clone())));
            }
            Kind::Devices(contexts) => {
                return Ok(match self.only_device() {
                    Some(context) => {
                        let choice = Choice::new(false, contexts, Reason::AskedFor);
                        (FileScan::Device(context.clone()), Some(choice))
                    }
                    None => (FileScan::Shared(self.clone()), None),
                });
            }
            Kind::Auto(Ok(contexts)) => contexts,
        };
        // The CPU reads while a device scans: both together are not faster.
        let may_be = |side| self.sides.contains(&side);
        let Some(context) = self.lone(contexts).filter(|_| may_be(Side::Devices)) else {
            return Ok((FileScan::Shared(self.clone()), None));
        };
        let Some(Asked { work, .. }) = asked()? else {
            return by_cpu(Choice::new(true, &[], Reason::Predicted));
        };
        // What devices get goes through page-locked memory, while what follows is read.
        let read = work.shared_bytes() as f64 / (work.threads.max(1) as f64 * READ_BY_THREAD);
        let read = Duration::from_secs_f64(read);
        let (_, [cpu, devices, _]) = self.model().choose(&work, self.sides);
        let (cpu, devices) = (cpu.saturating_add(read), devices.max(read));
        let times = [cpu, devices, cpu.min(devices)];
        let is_the_cpus = self.is_for_cpu(&work, self.sides) || cpu <= devices;
        if may_be(Side::Cpu) && is_the_cpus {
            return by_cpu(Choice::by_times(true, &[], times));
        }
        Ok((FileScan::Device(context), Some(Choice::by_times(false, contexts, times))))
    }

    /// An engine of the CPU that is otherwise the same, and remembers calls of its own.
    pub(crate) fn with_cpu_only(&self) -> Self {
        Self { kind: Kind::Cpu, last: Arc::default(), ..self.clone() }
    }

    /// Sets what the last call has run on.
    pub(crate) fn remember(&self, choice: Choice) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(choice);
    }

    /// What some work would run on, and why; the device, if one alone would do all of it.
    pub(crate) fn planned(&self, asked: impl FnOnce() -> Asked) -> (Choice, Option<Arc<Context>>) {
        let (plan, choice, _) = self.pick(asked);
        match plan {
            Plan::Device(context, _) => (choice, Some(context)),
            Plan::Cpu | Plan::Shared(_) => (choice, None),
        }
    }

    /// Has those do some work for whom it pays; remembers who did, and what it took.
    pub(crate) fn run<T>(
        &self,
        asked: impl FnOnce() -> Asked,
        on_cpu: impl FnOnce() -> Result<T>,
        on_device: impl FnOnce(&Arc<Context>) -> Result<T>,
        shared: impl Fn(&Workers) -> Result<(T, Shares)>,
    ) -> Result<T> {
        let (plan, mut choice, work) = self.pick(asked);
        let side = match (choice.cpu, choice.devices.is_empty()) {
            (_, true) => Side::Cpu,
            (true, false) => Side::Both,
            (false, false) => Side::Devices,
        };
        let start = Instant::now();
        let mut by_all = |workers: &Workers| {
            shared(workers).map(|(result, shares)| {
                choice.cpu |= shares.host > 0;
                choice.shares = Some(shares.into());
                result
            })
        };
        let result = match plan {
            Plan::Cpu => on_cpu(),
            Plan::Device(context, others) => match (on_device(&context), others) {
                (Err(error), Some(workers)) if shared::is_of_device(&error) => by_all(&workers),
                (result, _) => result,
            },
            Plan::Shared(workers) => by_all(&workers),
        };
        let took = start.elapsed();
        if result.is_ok() {
            choice.took = Some(took);
            if let Some(work) = work {
                self.model().learn(&work, side, took);
            }
        }
        self.remember(choice);
        result
    }
}
