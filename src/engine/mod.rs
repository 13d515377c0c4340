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

mod compress;
mod foreign;
mod kernel;
#[cfg(feature = "_internals")]
pub mod measure;
mod pinned;
#[cfg(all(test, lanepack_simt))]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

pub use kernel::{ColumnArgument, ColumnReader, DeviceMemory, Kernel, OnDevice};

use crate::batch;
use crate::column::{CompressedColumn, check_memory};
use crate::decode::decodes_on_device;
use crate::device::column::explained;
use crate::device::{CompressedDeviceBatch, Context};
use crate::error::{Error, Result};
use crate::gpu::{Device, DeviceInfo};
use crate::memory::MemoryLimit;
use crate::transfer;

/// Least bytes of decompressed values for which [`Engine::auto`] uses a GPU.
const AUTO_BYTES: usize = 64 << 20;

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
/// println!("{}", engine.last_choice().unwrap()); // "CPU: 24 bytes of values, ..."
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    kind: Kind,
    memory: MemoryLimit,
    last: Arc<Mutex<Option<Choice>>>,
}

#[derive(Debug, Clone)]
enum Kind {
    Cpu,
    Device(Arc<Context>),
    /// A device, or why there is none.
    Auto(Result<Arc<Context>, String>),
}

/// What an [`Engine`] runs on for one batch or array, and why: [`Engine::choose`],
/// [`Engine::last_choice`].
///
/// ```
/// use lanepack::Engine;
/// let choice = Engine::cpu().choose(&[]);
/// assert!(choice.device.is_none());
/// assert_eq!(choice.to_string(), "CPU: asked for");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The GPU; none for the CPU.
    pub device: Option<DeviceInfo>,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            None => write!(f, "CPU: {}", self.reason),
            Some(device) => write!(f, "{} {}: {}", device.name, device.ordinal, self.reason),
        }
    }
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
        Ok(Self::of(Kind::Device(Context::new(open_cuda(ordinal)?))))
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

    /// The first GPU for batches that are large enough, else the CPU.
    ///
    /// The rule: a GPU is used if there is one, the values that it would decode take
    /// 64 MiB or more (below that, starting and copying costs more than it saves),
    /// and its memory suffices.
    /// [`Engine::last_choice`] says what was used and why.
    pub fn auto() -> Self {
        let context = open_cuda(0).map(Context::new).map_err(|error| match error {
            Error::NoDevice { what } => what,
            other => other.to_string(),
        });
        Self::of(Kind::Auto(context))
    }

    /// An emulation of a GPU on the host, for tests.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn simt(seed: u64, memory: u64) -> Self {
        Self::of(Kind::Device(Context::new(crate::gpu::simt::open(seed, memory))))
    }

    /// The same of a machine that has no compiler for kernels of queries.
    #[cfg(lanepack_simt)]
    #[doc(hidden)]
    pub fn simt_without_compiler(seed: u64, memory: u64) -> Self {
        let device = crate::gpu::simt::open_without_compiler(seed, memory);
        Self::of(Kind::Device(Context::new(device)))
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
        Self { kind, memory: MemoryLimit::default(), last: Arc::default() }
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

    /// The GPU that this engine uses; for [`Engine::auto`] the one it may use.
    pub fn device(&self) -> Option<&DeviceInfo> {
        match &self.kind {
            Kind::Cpu | Kind::Auto(Err(_)) => None,
            Kind::Device(context) | Kind::Auto(Ok(context)) => Some(context.device().info()),
        }
    }

    /// Bytes of the GPU's memory that are free now.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU, [`Error::Device`].
    pub fn free_memory(&self) -> Result<u64> {
        self.context()?.device().free_memory()
    }

    /// What decompressing these columns would run on, and why.
    pub fn choose(&self, columns: &[CompressedColumn]) -> Choice {
        self.pick(bytes_of(columns)).1
    }

    /// What the last call of [`Engine::compress`], [`Engine::compress_array`],
    /// [`Engine::decompress`] or [`Engine::decompress_column`] ran on, and why.
    pub fn last_choice(&self) -> Option<Choice> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What work on so many bytes of values runs on.
    fn pick(&self, bytes: usize) -> (Option<&Arc<Context>>, Choice) {
        let cpu = |reason: String| (None, Choice { device: None, reason });
        fn gpu(context: &Arc<Context>, reason: String) -> (Option<&Arc<Context>>, Choice) {
            let device = Some(context.device().info().clone());
            (Some(context), Choice { device, reason })
        }
        match &self.kind {
            Kind::Cpu => cpu("asked for".to_owned()),
            Kind::Device(context) => gpu(context, "asked for".to_owned()),
            Kind::Auto(Err(what)) => cpu(Error::NoDevice { what: what.clone() }.to_string()),
            Kind::Auto(Ok(context)) => {
                if bytes >= AUTO_BYTES {
                    gpu(context, format!("{bytes} bytes of values, {AUTO_BYTES} or more"))
                } else {
                    cpu(format!("{bytes} bytes of values, less than {AUTO_BYTES}"))
                }
            }
        }
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
            bytes_of(columns),
            |context| batch::batch_of(schema.clone(), decompress_on(context, columns)?, rows),
            || batch::decompress_columns(schema.clone(), columns, rows),
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
            bytes_of(columns),
            |context| Ok(decompress_on(context, columns)?.remove(0)),
            || column.decode(),
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
}

impl Engine {
    /// Does work on `bytes` bytes of values where that pays, on the CPU if a device
    /// that was not asked for by name has too little memory; remembers the choice.
    fn run<T>(
        &self,
        bytes: usize,
        on_device: impl FnOnce(&Arc<Context>) -> Result<T>,
        on_cpu: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let (context, mut choice) = self.pick(bytes);
        let mut result = context.map(on_device);
        if let (Kind::Auto(_), Some(Err(error @ Error::DeviceMemory { .. }))) =
            (&self.kind, &result)
        {
            choice = Choice { device: None, reason: error.to_string() };
            result = None;
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(choice);
        result.unwrap_or_else(on_cpu)
    }

    /// The GPU that was asked for by name.
    pub(crate) fn named_device(&self) -> Option<&Arc<Context>> {
        match &self.kind {
            Kind::Device(context) => Some(context),
            Kind::Cpu | Kind::Auto(_) => None,
        }
    }

    fn context(&self) -> Result<&Arc<Context>> {
        match &self.kind {
            Kind::Device(context) | Kind::Auto(Ok(context)) => Ok(context),
            Kind::Cpu => Err(Error::NoDevice { what: "a CPU engine".to_owned() }),
            Kind::Auto(Err(reason)) => Err(Error::NoDevice { what: reason.clone() }),
        }
    }
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

/// Bytes of the values that a device would decode.
fn bytes_of(columns: &[CompressedColumn]) -> usize {
    let decoded = columns.iter().filter(|column| decodes_on_device(column));
    decoded.map(CompressedColumn::decompressed_bytes).sum()
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
