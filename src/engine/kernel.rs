//! Kernels of users: CUDA source on top of the device library, compiled for the device of
//! an engine, over compressed columns, arrays and memory there.
//!
//! All launches of an engine, and all copies to and from [`DeviceMemory`], follow one
//! another on one stream, in the order in which they were asked for: what a kernel reads
//! has been written, and nobody waits but for what is copied to the host. Columns and
//! arrays are made on other streams; a launch waits, on the device, until they are there.
//!
//! Kernels report damaged data of a column to the status word of its reader. Calls that wait for
//! kernels read the words of all launches so far: [`Context::settle`].

mod column;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{NoUninit, Pod};

pub use column::{ColumnArgument, ColumnReader};

use super::Engine;
use crate::device::{CompressedDeviceBatch, Context, DeviceArray, DeviceColumn};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DevicePtr, Event, Launch, Module, Shape};

/// A kernel that was compiled from CUDA source for the device of an [`Engine`].
///
/// [`Kernel::for_columns`] compiles a kernel for compressed columns: its source has a type for
/// each column, which reads values into registers whatever the encodings are
/// (docs/guide/kernels.md). A kernel takes one plain struct, declared in Rust as well, of columns
/// ([`ColumnReader::argument`]), pointers to [`DeviceMemory`] and numbers:
///
/// ```no_run
/// use arrow_array::record_batch;
/// use bytemuck::{Pod, Zeroable};
/// use lanepack::{ColumnArgument, DeviceMemory, DevicePtr, Engine, Kernel, Options, compress};
///
/// // The greatest value that is not null. A warp reads a vector of 1,024 rows.
/// const SOURCE: &str = r#"
/// using namespace lanepack;
/// struct Arguments {
///     Column0 ids;
///     u64* greatest;
///     u64 vectors;
/// };
/// LANEPACK_KERNEL(greatest, 32, 1, Arguments) {
///     LANEPACK_SHARED(Column0::Scratch, scratch);
///     const u32 chunk = blockIdx.x / args.vectors, vector = blockIdx.x % args.vectors;
///     if (vector >= args.ids.vectors(chunk)) return;
///     const Column0::Values values(args.ids, chunk, vector, scratch);
///     const u32 valid = args.ids.valid(chunk, vector, scratch);
///     for (u32 step = 0; step < 32; step++) {
///         if ((valid >> step & 1) != 0) atomicMax(args.greatest, values(step));
///     }
/// }
/// "#;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// struct Arguments {
///     ids: ColumnArgument,
///     greatest: DevicePtr<u64>,
///     vectors: u64,
/// }
///
/// let engine = Engine::cuda(0)?;
/// let batch = record_batch!(("id", UInt64, [1000, 1002, 1003]))?;
/// let on_device = engine.upload(&compress(&batch, &Options::default())?)?;
/// let ids = on_device.columns()[0].reader()?;
///
/// let kernel = Kernel::for_columns(&engine, "greatest", SOURCE, &[&ids])?;
/// let greatest = DeviceMemory::<u64>::zeros(&engine, 1)?;
/// let vectors = ids.vectors();
/// let arguments = Arguments {
///     ids: ids.argument(),
///     greatest: greatest.pointer(),
///     vectors: vectors as u64,
/// };
/// // SAFETY: the struct is that of the kernel, which writes one value at `greatest`.
/// unsafe { kernel.launch(ids.chunks() * vectors, 32, &arguments, &[&ids, &greatest])? };
/// println!("{}", greatest.to_vec()?[0]);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Kernel {
    context: Arc<Context>,
    module: Arc<dyn Module>,
    name: Arc<str>,
    shape: Shape,
    shared: u32,
    /// Forms of the readers that it was compiled for.
    columns: Arc<[String]>,
}

impl Kernel {
    /// Compiles `source` for columns, with a type for each: `Column0`, `Column1` and so on, in
    /// the order of `columns`. `"lanepack/column.cuh"` is included before the source and documents
    /// these types. Everything else is as for [`Kernel::from_source`].
    ///
    /// Launches must use readers of columns with the same encodings, in the same order; others
    /// are refused. The same source is compiled once for columns of the same types
    /// ([`ColumnReader::type_name`]).
    ///
    /// # Errors
    /// As [`Kernel::from_source`].
    pub fn for_columns(
        engine: &Engine,
        name: &str,
        source: &str,
        columns: &[&ColumnReader<'_>],
    ) -> Result<Self> {
        let kernel = Self::from_source(engine, name, &column::with_columns(source, columns))?;
        let columns = columns.iter().map(|column| column.form().to_owned()).collect();
        Ok(Self { columns, ..kernel })
    }

    /// Compiles `source` and takes the kernel `name` of it (the first word in
    /// `LANEPACK_KERNEL`). For GPUs NVRTC compiles, in some hundredths of a second; the
    /// same source is compiled once by an engine's device, and its code is kept in a
    /// folder for other processes (docs/guide/gpus.md).
    ///
    /// The source may include the headers of the device library, `"lanepack/fsst.cuh"` and
    /// the like, and nothing else; it may use integers of 128 bits. Products and sums are
    /// not fused, so that floats come out as on the CPU. A kernel that reads compressed columns
    /// by their nodes must handle every encoding that [`DeviceColumn::nodes`] lists;
    /// [`Kernel::for_columns`] does that for you.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU and where there is no NVRTC;
    /// [`Error::Device`] with what the compiler says, in which the source is called
    /// `kernel.cu`, or if it has no such kernel.
    pub fn from_source(engine: &Engine, name: &str, source: &str) -> Result<Self> {
        let context = engine.context()?.clone();
        let module = context.device().compile(source)?;
        let shape = module.shape(name)?;
        Ok(Self { context, module, name: name.into(), shape, shared: 0, columns: [].into() })
    }

    /// With so many bytes of shared memory for each block, beside what the kernel declares
    /// with `LANEPACK_SHARED`: the size of its `LANEPACK_DYNAMIC_SHARED`.
    pub fn with_shared_bytes(self, shared: u32) -> Self {
        Self { shared, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Threads of a block, as `LANEPACK_KERNEL` states them.
    pub fn threads(&self) -> u32 {
        self.shape.threads
    }

    /// Starts the kernel with `blocks` blocks of `threads` threads, as many as
    /// `LANEPACK_KERNEL` states; no blocks start nothing. Returns at once: what the kernel
    /// has written is there for the launches that follow, for [`DeviceMemory::to_vec`], and
    /// after [`Engine::synchronize`]; so are errors.
    ///
    /// `uses` is everything that the kernel reads and writes. It may be dropped once this
    /// returns, and is freed when the kernel has ended.
    ///
    /// Values of damaged columns are arbitrary: after each launch with such a column the next
    /// call that waits ([`DeviceMemory::to_vec`], [`Engine::synchronize`]) is
    /// [`Error::Corrupt`].
    ///
    /// # Errors
    /// [`Error::Device`] if the blocks or the arguments do not fit the kernel, if the readers
    /// among `uses` are not those of columns like the ones that it was compiled for, in their
    /// order, or if something is on another device.
    ///
    /// # Safety
    /// `arguments` are, byte for byte, the struct that the kernel takes. With them, and with
    /// these blocks, the kernel reads only what `uses` holds, writes only
    /// [`DeviceMemory`] among it, stays within its bounds, and is free of races. An
    /// emulated device checks most of that; on a GPU a kernel that goes astray may
    /// overwrite any memory of this process there, or leave the device unusable for it.
    pub unsafe fn launch<A: NoUninit>(
        &self,
        blocks: usize,
        threads: u32,
        arguments: &A,
        uses: &[&dyn OnDevice],
    ) -> Result<()> {
        let failed = |what: String| Error::device(format!("kernel {}: {what}", self.name));
        if threads == 0 || threads > self.shape.threads {
            return Err(failed(format!(
                "blocks of {threads} threads, the kernel is made for {}",
                self.shape.threads
            )));
        }
        let bytes = bytemuck::bytes_of(arguments);
        if let Some(expected) = self.shape.arguments.filter(|expected| *expected != bytes.len()) {
            return Err(failed(format!(
                "arguments of {} bytes, the kernel takes {expected}",
                bytes.len()
            )));
        }
        let stream = self.context.ordered()?;
        let mut buffers = Vec::new();
        let mut readers = Vec::new();
        for used in uses.iter().map(|used| used.parts()) {
            if !Arc::ptr_eq(used.context, &self.context) {
                return Err(failed("uses something of another engine".to_owned()));
            }
            used.ready.into_iter().try_for_each(|ready| stream.wait(ready))?;
            buffers.extend(used.buffers);
            readers.extend(used.reader);
        }
        if let Some(difference) = column::difference(&self.columns, &readers) {
            return Err(failed(difference));
        }
        let launched = stream.launch(&Launch {
            module: Some(self.module.as_ref()),
            kernel: &self.name,
            blocks,
            threads,
            shared: self.shared,
            cache_bytes: 0,
            arguments: bytes,
            arguments_type: None,
            buffers: &buffers,
        });
        // After the launch: what waits in between reads the words before the kernel has.
        for reader in readers {
            if let Some(status) = reader.status() {
                self.context.watch(status, reader.column().field().name());
            }
        }
        launched
    }
}

impl Engine {
    /// Waits until every [`Kernel`] launched so far has ended.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU, [`Error::Device`] if a kernel has
    /// failed, [`Error::Corrupt`] if one has found a column damaged.
    pub fn synchronize(&self) -> Result<()> {
        self.context()?.settle().map(|_| ())
    }
}

/// Data in device memory that kernels use: [`ColumnReader`], [`CompressedDeviceBatch`],
/// [`DeviceColumn`] and [`DeviceArray`], which they only read, and [`DeviceMemory`].
pub trait OnDevice {
    /// For [`Kernel::launch`].
    #[doc(hidden)]
    fn parts(&self) -> Parts<'_>;
}

/// What a launch has to know of something that it uses.
#[doc(hidden)]
#[derive(Debug)]
pub struct Parts<'a> {
    context: &'a Arc<Context>,
    buffers: Vec<&'a DeviceBuffer>,
    /// When they have been written, if that was elsewhere.
    ready: Vec<&'a dyn Event>,
    /// The reader, if it is one.
    reader: Option<&'a ColumnReader<'a>>,
}

impl OnDevice for DeviceColumn {
    fn parts(&self) -> Parts<'_> {
        let buffers = self.bodies().iter().map(AsRef::as_ref).collect();
        Parts { context: self.context(), buffers, ready: vec![self.ready()], reader: None }
    }
}

impl OnDevice for CompressedDeviceBatch {
    fn parts(&self) -> Parts<'_> {
        let (context, buffers, ready) = (self.context(), Vec::new(), Vec::new());
        let mut parts = Parts { context, buffers, ready, reader: None };
        for column in self.columns() {
            let Parts { buffers, ready, .. } = column.parts();
            parts.buffers.extend(buffers);
            parts.ready.extend(ready);
        }
        parts
    }
}

impl OnDevice for DeviceArray {
    fn parts(&self) -> Parts<'_> {
        let (validity, buffers) = self.slices();
        let slices = validity.into_iter().chain(buffers);
        Parts {
            context: self.context(),
            buffers: slices.map(|slice| slice.buffer().as_ref()).collect(),
            ready: vec![self.ready().as_ref()],
            reader: None,
        }
    }
}

/// Values in device memory, for kernels to read and to write; freed when dropped, after the
/// launches that use it.
///
/// ```no_run
/// use lanepack::{DeviceMemory, Engine};
/// let memory = DeviceMemory::from_slice(&Engine::cuda(0)?, &[1.5_f64, 2.5])?;
/// assert_eq!(memory.to_vec()?, [1.5, 2.5]);
/// # Ok::<(), lanepack::Error>(())
/// ```
pub struct DeviceMemory<T> {
    context: Arc<Context>,
    buffer: DeviceBuffer,
    len: usize,
    values: PhantomData<T>,
}

impl<T> fmt::Debug for DeviceMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = std::any::type_name::<T>();
        write!(f, "DeviceMemory({} x {of} at {:?})", self.len, self.pointer())
    }
}

impl<T> OnDevice for DeviceMemory<T> {
    fn parts(&self) -> Parts<'_> {
        let (buffers, ready) = (vec![&self.buffer], Vec::new());
        Parts { context: &self.context, buffers, ready, reader: None }
    }
}

impl<T: Pod> DeviceMemory<T> {
    /// `len` values whose bytes are zeros.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU; [`Error::DeviceMemory`] with the
    /// bytes needed and free, [`Error::Device`].
    pub fn zeros(engine: &Engine, len: usize) -> Result<Self> {
        let memory = Self::allocate(engine, len)?;
        memory.clear()?;
        Ok(memory)
    }

    /// A copy of values in host memory.
    ///
    /// # Errors
    /// As [`DeviceMemory::zeros`].
    pub fn from_slice(engine: &Engine, values: &[T]) -> Result<Self> {
        let memory = Self::allocate(engine, values.len())?;
        let bytes = bytemuck::cast_slice(values);
        memory.context.ordered()?.upload(bytes, &memory.buffer, 0)?;
        Ok(memory)
    }

    fn allocate(engine: &Engine, len: usize) -> Result<Self> {
        let context = engine.context()?.clone();
        let buffer = context.ordered()?.allocate(len.saturating_mul(size_of::<T>()))?;
        Ok(Self { context, buffer, len, values: PhantomData })
    }

    /// Sets every byte to zero, after the kernels launched so far.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn clear(&self) -> Result<()> {
        self.context.ordered()?.fill(&self.buffer, 0, self.buffer.len(), 0)
    }

    /// A copy of the values in host memory; waits for the kernels launched so far.
    ///
    /// # Errors
    /// [`Error::Device`] if a kernel has failed, [`Error::Corrupt`] if one has found a column
    /// damaged.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let stream = self.context.settle()?;
        let mut values = vec![T::zeroed(); self.len];
        stream.download(&self.buffer, 0, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }
}

impl<T> DeviceMemory<T> {
    /// The first value, on the device, at a multiple of 256: for the fields of a kernel's argument
    /// that are pointers.
    pub fn pointer(&self) -> DevicePtr<T> {
        self.buffer.pointer()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
