//! Kernels of users: CUDA source on top of the device library, compiled for the device of
//! an engine, over compressed columns, arrays and memory there.
//!
//! All launches of an engine, and all copies to and from [`DeviceMemory`], follow one
//! another on one stream, in the order in which they were asked for: what a kernel reads
//! has been written, and nobody waits but for what is copied to the host. Columns and
//! arrays are made on other streams; a launch waits, on the device, until they are there.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};

use bytemuck::{NoUninit, Pod};

use super::{Context, DeviceArray, DeviceBatch, DeviceColumn, Engine};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, Event, Launch, Module, Priority, Shape, Stream};

/// A kernel that was compiled from CUDA source for the device of an [`Engine`].
///
/// Sources include the headers of the device library, which decode compressed columns value
/// by value in registers (docs/GPU.md). A kernel takes one plain struct, which Rust has as
/// well, with addresses of nodes ([`DeviceColumn::nodes`]) and of [`DeviceMemory`]:
///
/// ```no_run
/// use arrow_array::record_batch;
/// use bytemuck::{Pod, Zeroable};
/// use lanepack::{DeviceMemory, Engine, Kernel, Options, compress};
///
/// // The least base of all vectors of a column of 64-bit integers in FFOR.
/// const SOURCE: &str = r#"
/// #include "lanepack/ffor.cuh"
/// struct Arguments {
///     const lanepack::Node* nodes;
///     lanepack::u64* least;
/// };
/// LANEPACK_KERNEL(least_base, 128, 1, Arguments) {
///     const lanepack::Node& node = args.nodes[blockIdx.x];
///     if (node.encoding != lanepack::FFOR || threadIdx.x >= lanepack::vectors_of(node)) return;
///     atomicMin(args.least, lanepack::FforVector<lanepack::u64>(node, threadIdx.x).base);
/// }
/// "#;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// struct Arguments {
///     nodes: u64,
///     least: u64,
/// }
///
/// let engine = Engine::cuda(0)?;
/// let batch = record_batch!(("id", UInt64, [1000, 1002, 1003]))?;
/// let on_device = engine.upload(&compress(&batch, &Options::default())?)?;
/// let column = &on_device.columns()[0];
///
/// let kernel = Kernel::from_source(&engine, "least_base", SOURCE)?;
/// let nodes = DeviceMemory::from_slice(&engine, &column.nodes()?)?;
/// let least = DeviceMemory::from_slice(&engine, &[u64::MAX])?;
/// let arguments = Arguments { nodes: nodes.address(), least: least.address() };
/// // SAFETY: the struct is the kernel's, which stays within what its addresses lead to.
/// unsafe { kernel.launch(nodes.len(), 128, &arguments, &[column, &nodes, &least])? };
/// println!("{}", least.to_vec()?[0]);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Kernel {
    context: Arc<Context>,
    module: Arc<dyn Module>,
    name: Arc<str>,
    shape: Shape,
    shared: u32,
}

impl Kernel {
    /// Compiles `source` and takes the kernel `name` of it (the first word in
    /// `LANEPACK_KERNEL`). For GPUs NVRTC compiles, in some hundredths of a second; the
    /// same source is compiled once by an engine's device, and its code is kept in a
    /// folder for other processes (docs/GPU.md).
    ///
    /// The source may include the headers of the device library, `"lanepack/alp.cuh"` and
    /// the like, and nothing else; it may use integers of 128 bits. Products and sums are
    /// not fused, so that floats come out as on the CPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU and where there is no NVRTC;
    /// [`Error::Device`] with what the compiler says, in which the source is called
    /// `kernel.cu`, or if it has no such kernel.
    pub fn from_source(engine: &Engine, name: &str, source: &str) -> Result<Self> {
        let context = engine.context()?.clone();
        let module = context.device.compile(source)?;
        let shape = module.shape(name)?;
        Ok(Self { context, module, name: name.into(), shape, shared: 0 })
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

    /// Starts the kernel with `blocks` blocks of `threads` threads, as many as
    /// `LANEPACK_KERNEL` states; no blocks start nothing. Returns at once: what the kernel
    /// has written is there for the launches that follow, for [`DeviceMemory::to_vec`], and
    /// after [`Engine::synchronize`]; so are errors.
    ///
    /// `uses` is everything that the kernel reads and writes. It may be dropped once this
    /// returns, and is freed when the kernel has ended.
    ///
    /// # Errors
    /// [`Error::Device`] if the blocks or the arguments do not fit the kernel, or if
    /// something lies on another device.
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
        for used in uses.iter().map(|used| used.parts()) {
            if !Arc::ptr_eq(used.context, &self.context) {
                return Err(failed("uses something of another engine".to_owned()));
            }
            used.ready.into_iter().try_for_each(|ready| stream.wait(ready))?;
            buffers.extend(used.buffers);
        }
        stream.launch(&Launch {
            module: Some(self.module.as_ref()),
            kernel: &self.name,
            blocks,
            threads,
            shared: self.shared,
            arguments: bytes,
            buffers: &buffers,
        })
    }
}

impl Engine {
    /// Waits until every [`Kernel`] launched so far has ended.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU, [`Error::Device`] if a kernel has
    /// failed.
    pub fn synchronize(&self) -> Result<()> {
        self.context()?.ordered()?.synchronize()
    }
}

impl Context {
    /// The stream of kernels of users and of their memory.
    fn ordered(&self) -> Result<Arc<dyn Stream>> {
        let mut ordered = self.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = ordered.as_ref() {
            return Ok(stream.clone());
        }
        Ok(ordered.insert(self.device.stream(Priority::Usual)?).clone())
    }
}

/// What lies in device memory and kernels may use: [`DeviceBatch`], [`DeviceColumn`],
/// [`DeviceArray`], which they only read, and [`DeviceMemory`].
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
}

impl OnDevice for DeviceColumn {
    fn parts(&self) -> Parts<'_> {
        let buffers = self.bodies().iter().map(AsRef::as_ref).collect();
        Parts { context: self.context(), buffers, ready: vec![self.ready()] }
    }
}

impl OnDevice for DeviceBatch {
    fn parts(&self) -> Parts<'_> {
        let mut parts = Parts { context: self.context(), buffers: Vec::new(), ready: Vec::new() };
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
        }
    }
}

/// Values in device memory, for kernels to read and to write; freed when dropped, after the
/// launches that use it.
pub struct DeviceMemory<T> {
    context: Arc<Context>,
    buffer: DeviceBuffer,
    len: usize,
    values: PhantomData<T>,
}

impl<T> fmt::Debug for DeviceMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = std::any::type_name::<T>();
        write!(f, "DeviceMemory({} x {of} at {:#x})", self.len, self.buffer.address())
    }
}

impl<T> OnDevice for DeviceMemory<T> {
    fn parts(&self) -> Parts<'_> {
        Parts { context: &self.context, buffers: vec![&self.buffer], ready: Vec::new() }
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
    /// [`Error::Device`] if a kernel has failed.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let stream = self.context.ordered()?;
        // Names the kernel where one has failed.
        stream.synchronize()?;
        let mut values = vec![T::zeroed(); self.len];
        stream.download(&self.buffer, 0, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }
}

impl<T> DeviceMemory<T> {
    /// Where the first value lies on the device: at a multiple of 256.
    pub fn address(&self) -> u64 {
        self.buffer.address()
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
