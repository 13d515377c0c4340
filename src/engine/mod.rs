//! Engines: what executes work on batches, the CPU or a GPU. All that users call passes here; the
//! work is that of the layers below.
//!
//! ```text
//! RecordBatch --compress (encode)--> compressed RecordBatch
//!                                      | upload (device)
//!                                      v
//!                                    CompressedDeviceBatch
//!                                      | decompress (decode)
//!                                      v
//! RecordBatch <--to_host (device)--- DeviceArray
//!
//! host to host    columns in parts that overlap (transfer)
//! kernel.rs       kernels of users, over the same columns and arrays
//! foreign.rs      arrays that others have put into device memory
//! ```
//!
//! Sizes come from headers that have been validated on the host, so a column is decompressed without
//! waiting for the device in between: the nodes of all its launches go up in one copy, the kernels
//! follow one another on a stream, and one report comes back, with what they found wrong and the nulls
//! they counted.

mod batches;
mod choice;
mod compress;
mod foreign;
mod kernel;
#[cfg(feature = "_internals")]
pub mod measure;
mod pinned;
#[cfg(all(test, lanepack_simt))]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

pub(crate) use choice::{Asked, FileScan};
pub use choice::{Choice, Predicted, Reason, WorkShares};
pub use kernel::{ColumnArgument, ColumnReader, DeviceMemory, Kernel, OnDevice};

use crate::batch;
use crate::cache;
use crate::column::{CompressedColumn, check_memory};
use crate::device::column::explained;
use crate::device::{CompressedDeviceBatch, Context};
use crate::error::{Error, Result};
#[cfg(lanepack_simt)]
use crate::gpu::simt::Emulation;
use crate::gpu::{Device, DeviceInfo};
use crate::memory::MemoryLimit;
use crate::model::{Model, Rates, Side};
use crate::transfer;
use crate::transfer::shared;

/// What executes: the CPU, one GPU, or whichever of both fits a batch. A clone is the same engine.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::{Engine, Options, compress};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let compressed = compress(&batch, &Options::default())?;
/// let engine = Engine::auto();
/// assert_eq!(engine.decompress(&compressed)?, batch);
/// println!("{}", engine.last_choice().unwrap()); // "CPU: no usable GPU: ..."
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    kind: Kind,
    /// Whether the CPU works beside devices that were asked for by name.
    with_cpu: bool,
    memory: MemoryLimit,
    device_memory: Option<u64>,
    /// Predictions of what calls take.
    model: Arc<Mutex<Model>>,
    /// Whom [`Engine::auto`] chooses from.
    sides: &'static [Side],
    last: Arc<Mutex<Option<Choice>>>,
}

#[derive(Debug, Clone)]
enum Kind {
    Cpu,
    /// At least one.
    Devices(Vec<Arc<Context>>),
    /// At least one device, or why there is none.
    Auto(Result<Vec<Arc<Context>>, String>),
}

impl Engine {
    /// The CPU.
    pub fn cpu() -> Self {
        Self::of(Kind::Cpu)
    }

    /// The NVIDIA GPU number `ordinal`, counted from 0 as the driver does.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no driver, no such device, one that is too
    /// old, or if lanepack was built without the feature `cuda`.
    #[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Self::devices(&[ordinal])
    }

    /// Several NVIDIA GPUs, each once, which share the work of every call on data in host memory.
    /// Data that stay in device memory ([`Engine::upload`], [`Engine::compress_to_device`]) lie on
    /// the first, and are scanned there.
    ///
    /// ```no_run
    /// use lanepack::Engine;
    /// let engine = Engine::devices(&[0, 1])?;
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Engine::cuda`]; [`Error::NoDevice`] for none, or one that is named twice.
    #[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]
    pub fn devices(ordinals: &[usize]) -> Result<Self> {
        let is_named_twice = |at: usize| ordinals[..at].contains(&ordinals[at]);
        if let Some(at) = (0..ordinals.len()).find(|at| is_named_twice(*at)) {
            return Err(Error::NoDevice { what: format!("device {} twice", ordinals[at]) });
        }
        if ordinals.is_empty() {
            return Err(Error::NoDevice { what: "none asked for".to_owned() });
        }
        let open = |ordinal: &usize| Ok(Context::new(open_cuda(*ordinal)?));
        Ok(Self::of(Kind::Devices(ordinals.iter().map(open).collect::<Result<_>>()?)))
    }

    /// All NVIDIA GPUs that there are; see [`Engine::devices`].
    ///
    /// # Errors
    /// As [`Engine::cuda`].
    #[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]
    pub fn all_devices() -> Result<Self> {
        match count_cuda()? {
            0 => Err(Error::NoDevice { what: "the driver knows none".to_owned() }),
            count => Self::devices(&(0..count).collect::<Vec<_>>()),
        }
    }

    /// How many NVIDIA GPUs there are.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no driver, an old one, or if lanepack was
    /// built without the feature `cuda`.
    #[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]
    pub fn cuda_devices() -> Result<usize> {
        count_cuda()
    }

    /// For each call whoever is predicted to take least: the CPU, the first GPU if there is one, or
    /// both together.
    ///
    /// Predictions are made of rates of the machine ([`Engine::calibrate`]) and corrected by what
    /// calls take. What a GPU leaves that lacks memory or fails the CPU does.
    /// [`Engine::last_choice`] says who did what, what was predicted and what it took.
    pub fn auto() -> Self {
        let contexts = open_cuda(0).map(|device| vec![Context::new(device)]);
        Self::of(Kind::Auto(contexts.map_err(|error| match error {
            Error::NoDevice { what } => what,
            other => other.to_string(),
        })))
    }

    /// An emulation of a GPU on the host, for tests.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn simt(seed: u64, memory: u64) -> Self {
        Self::simt_devices([Emulation { seed, memory, ..Emulation::default() }])
    }

    /// The same of a machine that has no compiler for kernels of queries.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn simt_without_compiler(seed: u64, memory: u64) -> Self {
        let emulation = Emulation { seed, memory, has_compiler: false, ..Emulation::default() };
        Self::simt_devices([emulation])
    }

    /// Emulations of GPUs.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn simt_devices(devices: impl IntoIterator<Item = Emulation>) -> Self {
        Self::of(Kind::Devices(contexts(devices)))
    }

    /// As [`Engine::auto`] with emulations of GPUs, if it has chosen these, or them and the CPU.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn simt_auto(devices: impl IntoIterator<Item = Emulation>, with_cpu: bool) -> Self {
        let sides = if with_cpu { &[Side::Both] } else { &[Side::Devices] };
        Self { sides, ..Self::of(Kind::Auto(Ok(contexts(devices)))) }
    }

    /// Has allocations of an emulation with some numbers fail, counted from 0 from now on. Whether one
    /// has failed since the last call.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn fail_allocations(&self, numbers: std::ops::Range<u64>) -> bool {
        self.context().is_ok_and(|context| context.device().fail_allocations(numbers))
    }

    /// How many kernels have been compiled since the device was opened.
    #[cfg(any(feature = "_internals", lanepack_simt))]
    #[doc(hidden)]
    pub fn compiled_kernels(&self) -> usize {
        self.context().map_or(0, |context| context.device().compiled())
    }

    fn of(kind: Kind) -> Self {
        let rates = match &kind {
            Kind::Devices(contexts) | Kind::Auto(Ok(contexts)) => contexts.first(),
            Kind::Cpu | Kind::Auto(Err(_)) => None,
        }
        .and_then(|context| Rates::read(&cache::folder()?, &machine(context)));
        Self {
            kind,
            with_cpu: false,
            memory: MemoryLimit::default(),
            device_memory: None,
            model: Arc::new(Mutex::new(Model::new(rates.unwrap_or_else(Rates::shipped)))),
            sides: &Side::ALL,
            last: Arc::default(),
        }
    }

    /// The CPU takes part in the work of GPUs that were asked for by name, on data in host memory: its
    /// threads and the GPUs take chunks from one queue until none is left. Bytes and values are the
    /// same whoever did what.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use lanepack::{Engine, Options};
    ///
    /// # let cuda = || Engine::cuda(0);
    /// let engine = match cuda() {
    ///     Ok(gpu) => gpu.with_cpu(),
    ///     Err(_) => Engine::cpu(),
    /// };
    /// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
    /// let compressed = engine.compress(&batch, &Options::default())?;
    /// assert_eq!(engine.decompress(&compressed)?, batch);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    #[must_use]
    pub fn with_cpu(self) -> Self {
        Self { with_cpu: true, ..self }
    }

    /// Sets how much memory of each GPU compression, decompression and scans of data in host memory are
    /// cut for: columns go through it in spans, on the assumption that work takes four times the bytes of
    /// values, and scans four times the compressed bytes. What work takes beyond that is not refused. Without a limit a column has to fit in most
    /// cases.
    ///
    /// A span is at least some chunks, when strings are compressed those that share a symbol table,
    /// and a whole column of views, FixedSizeBinary or a nested type that is decompressed. One that is
    /// longer than a quarter of the limit is done by the CPU where it takes part; else it is an
    /// [`Error::Options`] of the call, which states what is needed.
    #[must_use]
    pub fn with_device_memory_limit(self, bytes: u64) -> Self {
        Self { device_memory: Some(bytes), ..self }
    }

    /// Limits the bytes that the values of one call of [`Engine::decompress`] or of
    /// [`Scan::gather`](crate::scan::Scan::gather) take, those of a batch of a reader
    /// ([`ipc::Reader::with_engine`](crate::ipc::Reader::with_engine)), and of an uploaded batch that
    /// is decompressed on the device. More is an [`Error::MemoryLimit`] before memory is taken.
    ///
    /// By default 1 GiB and 32,768 times the compressed bytes, but, on Linux, no more than the machine has: so
    /// a few kilobytes of hostile input cannot take it all.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use lanepack::{Engine, Error, Options, compress};
    ///
    /// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
    /// let compressed = compress(&batch, &Options::default())?;
    /// let small = Engine::cpu().with_memory_limit(16);
    /// assert!(matches!(small.decompress(&compressed), Err(Error::MemoryLimit { needed: 24, .. })));
    /// assert_eq!(small.with_memory_limit(u64::MAX).decompress(&compressed)?, batch);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory: MemoryLimit::Bytes(bytes), ..self }
    }

    pub(crate) fn memory_limit(&self) -> MemoryLimit {
        self.memory
    }

    /// The first GPU that this engine uses; for [`Engine::auto`] of those it may use.
    pub fn device(&self) -> Option<&DeviceInfo> {
        self.contexts().first().map(|context| context.device().info())
    }

    /// The GPUs that this engine uses; for [`Engine::auto`] those it may use.
    pub fn device_infos(&self) -> Vec<&DeviceInfo> {
        self.contexts().iter().map(|context| context.device().info()).collect()
    }

    /// Bytes of the GPU's memory that are free now.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU, [`Error::Device`].
    pub fn free_memory(&self) -> Result<u64> {
        self.context()?.device().free_memory()
    }

    /// Decompresses every column of a batch to host memory; see
    /// [`decompress`](crate::decompress).
    ///
    /// Columns that are nested or carried as Arrow IPC are read by the CPU on any engine.
    ///
    /// # Errors
    /// As [`decompress`](crate::decompress); on a GPU also [`Error::DeviceMemory`]
    /// and [`Error::Device`].
    pub fn decompress(&self, compressed: &RecordBatch) -> Result<RecordBatch> {
        let schema = Arc::new(batch::decompressed_schema(&compressed.schema())?);
        self.decompress_columns(&schema, &batch::columns(compressed)?, compressed.num_rows())
    }

    /// Decompresses columns to a batch in host memory; `rows` counts where there are no columns.
    pub(crate) fn decompress_columns(
        &self,
        schema: &SchemaRef,
        columns: &[CompressedColumn],
        rows: usize,
    ) -> Result<RecordBatch> {
        check_memory(self.memory, columns)?;
        let rows = columns.first().map_or(rows, CompressedColumn::len);
        self.run(
            || self.decompression(columns),
            || batch::decompress_columns(schema.clone(), columns, rows),
            |context| batch::batch_of(schema.clone(), decompress_on(context, columns)?, rows),
            |workers| {
                let (arrays, shares) = shared::decompress(workers, columns)?;
                Ok((batch::batch_of(schema.clone(), arrays, rows)?, shares))
            },
        )
    }

    /// Decompresses a column to host memory; see [`CompressedColumn::decompress`].
    ///
    /// Columns that are nested or carried as Arrow IPC are read by the CPU on any engine.
    ///
    /// # Errors
    /// As [`CompressedColumn::decompress`]; on a GPU also [`Error::DeviceMemory`] and
    /// [`Error::Device`].
    pub fn decompress_column(&self, column: &CompressedColumn) -> Result<ArrayRef> {
        let columns = std::slice::from_ref(column);
        check_memory(self.memory, columns)?;
        self.run(
            || self.decompression(columns),
            || column.decode(),
            |context| Ok(decompress_on(context, columns)?.remove(0)),
            |workers| {
                let (mut arrays, shares) = shared::decompress(workers, columns)?;
                Ok((arrays.remove(0), shares))
            },
        )
    }

    /// Copies a compressed batch to the GPU, where it stays compressed. What is decompressed of it
    /// later keeps to this engine's [`Engine::with_memory_limit`].
    ///
    /// # Errors
    /// As [`columns`](crate::columns); [`Error::NoDevice`] for an engine without
    /// a GPU; [`Error::DeviceMemory`], [`Error::Device`].
    pub fn upload(&self, compressed: &RecordBatch) -> Result<CompressedDeviceBatch> {
        let context = self.context()?;
        let schema = Arc::new(batch::decompressed_schema(&compressed.schema())?);
        CompressedDeviceBatch::upload(
            context,
            schema,
            &batch::columns(compressed)?,
            compressed.num_rows(),
            self.memory,
        )
    }

    /// Copies a compressed batch from the memory of its GPU to that of the first GPU of this engine, which
    /// may be the same: directly where one GPU reaches the other's memory, by NVLink or PCIe, and through
    /// the host where not. Waits for the copy. What is decompressed of it later keeps to this engine's
    /// [`Engine::with_memory_limit`].
    ///
    /// From the first direct copy on, what lanepack allocates on the GPU of the batch is mapped for the
    /// other one as well.
    ///
    /// ```no_run
    /// use arrow_array::record_batch;
    /// use lanepack::{Engine, Options};
    ///
    /// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
    /// let on_first = Engine::cuda(0)?.compress_to_device(&batch, &Options::default())?;
    /// let on_second = Engine::cuda(1)?.copy_from_device(&on_first)?;
    /// assert_eq!(lanepack::decompress(&on_second.download()?)?, batch);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU; [`Error::DeviceMemory`], [`Error::Device`].
    pub fn copy_from_device(&self, batch: &CompressedDeviceBatch) -> Result<CompressedDeviceBatch> {
        batch.copy_to(self.context()?, self.memory)
    }
}

/// What rates of a machine are kept for.
pub(crate) fn machine(context: &Context) -> String {
    let (info, threads) = (context.device().info(), rayon::current_num_threads());
    let version = env!("CARGO_PKG_VERSION");
    format!("{}, driver {}, {threads} threads, lanepack {version}", info.name, info.driver)
}

impl Engine {
    /// Has the rates of a machine predict what calls take, from now on, for this engine and its clones.
    pub(crate) fn set_rates(&self, rates: Rates) {
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Model::new(rates);
    }

    /// The first GPU that was asked for by name; none for other engines.
    #[cfg(any(feature = "_internals", all(test, lanepack_simt)))]
    pub(crate) fn named_device(&self) -> Option<&Arc<Context>> {
        match &self.kind {
            Kind::Devices(contexts) => contexts.first(),
            Kind::Cpu | Kind::Auto(_) => None,
        }
    }

    /// The first GPU.
    pub(crate) fn context(&self) -> Result<&Arc<Context>> {
        match (&self.kind, self.contexts()) {
            (_, [first, ..]) => Ok(first),
            (Kind::Auto(Err(reason)), _) => Err(Error::NoDevice { what: reason.clone() }),
            _ => Err(Error::NoDevice { what: "a CPU engine".to_owned() }),
        }
    }

    /// The GPU that does all work, if there is one that does, and as a whole.
    pub(crate) fn only_device(&self) -> Option<&Arc<Context>> {
        match &self.kind {
            Kind::Devices(contexts) if !self.with_cpu && self.device_memory.is_none() => {
                contexts.first().filter(|_| contexts.len() == 1)
            }
            _ => None,
        }
    }

    /// All GPUs.
    fn contexts(&self) -> &[Arc<Context>] {
        match &self.kind {
            Kind::Devices(contexts) | Kind::Auto(Ok(contexts)) => contexts,
            Kind::Cpu | Kind::Auto(Err(_)) => &[],
        }
    }
}

#[cfg(lanepack_simt)]
fn contexts(devices: impl IntoIterator<Item = Emulation>) -> Vec<Arc<Context>> {
    let open = |(ordinal, options)| Context::new(crate::gpu::simt::open(ordinal, options));
    devices.into_iter().enumerate().map(open).collect()
}

#[cfg(feature = "cuda")]
fn open_cuda(ordinal: usize) -> Result<Arc<dyn Device>> {
    crate::gpu::cuda::open(ordinal)
}

#[cfg(feature = "cuda")]
fn count_cuda() -> Result<usize> {
    crate::gpu::cuda::devices()
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(_: usize) -> Result<Arc<dyn Device>> {
    Err(without_cuda())
}

#[cfg(not(feature = "cuda"))]
fn count_cuda() -> Result<usize> {
    Err(without_cuda())
}

#[cfg(not(feature = "cuda"))]
fn without_cuda() -> Error {
    Error::NoDevice { what: "lanepack was built without the feature \"cuda\"".to_owned() }
}

/// Decompresses columns on a device, each on a stream and thread of its own, so
/// that copies up, kernels and copies down of different columns overlap.
fn decompress_on(context: &Arc<Context>, columns: &[CompressedColumn]) -> Result<Vec<ArrayRef>> {
    let decompress = |column: &CompressedColumn| {
        let array = transfer::decompress(context, column);
        array.map_err(|error| explained(column, error.in_column(column.field().name())))
    };
    let side_by_side: Vec<Result<ArrayRef>> = columns.par_iter().map(decompress).collect();
    // What did not fit beside others may fit alone.
    (side_by_side.into_iter().zip(columns))
        .map(|(array, column)| match array {
            Err(Error::DeviceMemory { .. }) => decompress(column),
            array => array,
        })
        .collect()
}
