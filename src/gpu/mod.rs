//! Devices that run kernels: memory, streams, launches.
//!
//! Two implement [`Device`]: `cuda`, a GPU through the driver, and `simt`, which
//! runs the same kernel sources as fibers on the host so that everything above
//! this line is tested without a GPU.
//!
//! ```text
//! Device --stream()--> Stream --allocate--> DeviceBuffer
//!                             --upload, fill, launch, download--> in order
//!                             --record--> Event: other streams wait for it
//! ```
//!
//! A launch of lanepack's own kernels is made of a [`kernels::Kernel`] and its argument, a struct of
//! `abi.rs` in which device addresses are [`DevicePtr`]s.
//!
//! Work on a stream runs in the order it was given; nothing here waits for it but
//! [`Stream::download`], [`Stream::copy_from_peer`], [`Stream::synchronize`], [`Event::elapsed`],
//! and [`Stream::upload`] from page-locked memory of more than 64 KiB. A buffer
//! is freed in the order of the stream that allocated it, after what any other
//! stream does with it: launches and copies say which buffers they use.

#![cfg_attr(
    not(all(feature = "_internals", feature = "cuda")),
    allow(dead_code, reason = "only devices are called, and only benches copy and measure")
)]

pub(crate) mod abi;
#[cfg(any(feature = "cuda", lanepack_simt))]
mod compiled;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub(crate) mod fault;
pub(crate) mod kernels;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "cuda")]
mod nvrtc;
mod pointer;
#[cfg(lanepack_simt)]
pub(crate) mod simt;

use std::any::Any;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use abi::Arguments;
use kernels::{BoundKernel, Kernel};
pub use pointer::DevicePtr;

use crate::error::Result;

/// Buffers have at least this many bytes more than asked for, which may be read
/// but hold anything; they begin at multiples of it.
pub(crate) const PADDING: usize = 256;

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its name, as the driver states it.
    pub name: String,
    /// Its number among the devices of its kind, from 0.
    pub ordinal: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block can have, if it asks for them.
    pub shared_memory: u32,
    /// Version of the driver, as in `13.0`.
    pub driver: String,
}

/// Where kernels of several streams wait for room, blocks of those with the higher priority
/// start first, and others only once none of these wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    Low,
    Usual,
    High,
    Urgent,
}

impl Priority {
    pub(crate) const COUNT: usize = Self::Urgent as usize + 1;
}

/// A device that kernels run on.
pub(crate) trait Device: fmt::Debug + Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Whether its memory is the host's: true of emulations only.
    fn is_host(&self) -> bool {
        false
    }

    /// Bytes of memory that are free now.
    fn free_memory(&self) -> Result<u64>;

    /// Bytes of memory that were allocated at most since this was asked the last time; none if the device
    /// does not count them.
    #[cfg(feature = "_internals")]
    fn peak_memory(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// A new stream.
    fn stream(&self, priority: Priority) -> Result<Arc<dyn Stream>>;

    /// Kernels compiled from one CUDA source for this device: once, whoever asks how often.
    /// The source may include the headers of the device library, `"lanepack/alp.cuh"`
    /// and the like, and nothing else.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error) with what the compiler says, in which the source is
    /// called `kernel.cu`; [`Error::NoDevice`](crate::Error) if there is no compiler.
    fn compile(&self, source: &str) -> Result<Arc<dyn Module>>;

    /// How many sources have been given to [`Device::compile`].
    fn compiled(&self) -> usize;

    /// Whether a source has been given to [`Device::compile`].
    fn has_compiled(&self, source: &str) -> bool;

    /// Lanepack's own kernels; none if the device does not tell about them.
    fn kernels(&self) -> Option<&dyn Module> {
        None
    }

    /// Page-locked memory of the host, at a multiple of [`PADDING`]: initialised, with any content.
    fn page_locked(&self, len: usize) -> Result<Box<dyn HostMemory>>;

    /// Whether it copies these bytes of the host by itself, as they lie in page-locked memory.
    fn is_page_locked(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Has allocations with some numbers fail, counted from 0 from now on. Whether one has failed since
    /// the last call. For tests: devices other than the emulation do nothing.
    #[cfg(lanepack_simt)]
    fn fail_allocations(&self, _numbers: std::ops::Range<u64>) -> bool {
        false
    }
}

/// Kernels that [`Device::compile`] has made.
pub(crate) trait Module: fmt::Debug + Send + Sync {
    /// What launches of a kernel have to fit.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error) if there is no kernel of this name.
    fn shape(&self, kernel: &str) -> Result<Shape>;

    /// What a kernel takes of a multiprocessor.
    ///
    /// # Errors
    /// As [`Module::shape`].
    fn resources(&self, kernel: &str) -> Result<Resources>;

    /// Where its code comes from.
    fn origin(&self) -> Origin;

    /// For implementations.
    fn as_any(&self) -> &dyn Any;
}

/// What a kernel takes of a multiprocessor, as far as the device tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Resources {
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Bytes of shared memory of a block that the kernel declares.
    pub shared: Option<u32>,
    /// Bytes of local memory of a thread: spilled registers, arrays that are indexed.
    pub local: Option<u32>,
}

/// Where the code of a module comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was made before the device was opened: lanepack's own kernels.
    BuiltIn,
    /// It was kept in a folder.
    Cache,
    /// It was compiled, which has taken so long.
    Compiled(Duration),
}

/// What launches of a kernel have to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of its argument, if the device tells.
    pub arguments: Option<usize>,
}

/// Page-locked memory of the host, which a device copies from and to by itself; freed
/// when dropped.
pub(crate) trait HostMemory: fmt::Debug + Send + Sync {
    /// Where it begins.
    fn start(&self) -> NonNull<u8>;

    /// Its length in bytes.
    fn len(&self) -> usize;
}

/// A queue of work on a device, done in order.
pub(crate) trait Stream: fmt::Debug + Send + Sync {
    /// What its device is.
    fn info(&self) -> &DeviceInfo;

    /// Uninitialised memory; at least [`PADDING`] bytes longer than `len`, which may be 0.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error) with the size asked for and the memory
    /// that is free, if there is not enough.
    fn allocate(&self, len: usize) -> Result<DeviceBuffer>;

    /// Memory of others as a buffer, of exactly `len` bytes, without padding. `owner` is
    /// dropped once the buffer is and nothing given so far uses it any more.
    ///
    /// # Safety
    /// `start` leads to `len` bytes of this device's memory that stay there, and are
    /// not written to by others, until `owner` is dropped.
    unsafe fn adopt(&self, start: DevicePtr<u8>, len: usize, owner: Owner) -> Result<DeviceBuffer>;

    /// Work given from now on waits for an event of others (`CUevent` for CUDA).
    ///
    /// # Safety
    /// `event` is a valid handle of an event of this device.
    unsafe fn wait_for_handle(&self, event: *mut std::ffi::c_void) -> Result<()>;

    /// Sets `len` bytes from `at` on to `byte`.
    fn fill(&self, target: &DeviceBuffer, at: usize, len: usize, byte: u8) -> Result<()>;

    /// Copies bytes to the device; has read them all when it returns. From page-locked
    /// memory, whoever has locked it, the device copies by itself.
    fn upload(&self, source: &[u8], target: &DeviceBuffer, at: usize) -> Result<()>;

    /// As [`Stream::upload`], without waiting for copies from page-locked memory.
    ///
    /// # Safety
    /// `source` stays, and is not written to, until this stream, or an event that it records later, has been
    /// waited for.
    unsafe fn start_upload(&self, source: &[u8], target: &DeviceBuffer, at: usize) -> Result<()>;

    /// Copies bytes from the device; waits for them, and so for all work before. To
    /// page-locked memory the device copies by itself. Every byte of `target` has been
    /// written unless this fails, and none is ever made uninitialised.
    fn download_to(
        &self,
        source: &DeviceBuffer,
        at: usize,
        target: &mut [MaybeUninit<u8>],
    ) -> Result<()>;

    /// As [`Stream::download_to`].
    fn download(&self, source: &DeviceBuffer, at: usize, target: &mut [u8]) -> Result<()> {
        let target = std::ptr::from_mut(target) as *mut [MaybeUninit<u8>];
        // SAFETY: the same bytes, borrowed as long; only initialised bytes are written.
        self.download_to(source, at, unsafe { &mut *target })
    }

    /// Copies bytes within the device.
    fn copy(
        &self,
        source: &DeviceBuffer,
        from: usize,
        target: &DeviceBuffer,
        to: usize,
        len: usize,
    ) -> Result<()>;

    /// Copies all of a buffer of another device of the same kind to the start of one of this device,
    /// which is at least as long; waits for the copy. The source has been written before. Bytes go
    /// directly from device to device where these reach each other's memory.
    fn copy_from_peer(&self, source: &DeviceBuffer, target: &DeviceBuffer) -> Result<()>;

    /// Starts a kernel.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;

    /// Marks this place in the stream.
    fn record(&self) -> Result<Arc<dyn Event>>;

    /// The same without a time, for threads that sleep while they wait. Takes an event that nobody waits for any
    /// more, if there is one: making and destroying events holds up other threads.
    fn record_again(&self, used: Option<Arc<dyn Event>>) -> Result<Arc<dyn Event>>;

    /// Work given from now on waits for an event of any stream of this device.
    fn wait(&self, event: &dyn Event) -> Result<()>;

    /// Waits for all work on this stream; reports what went wrong in it.
    fn synchronize(&self) -> Result<()>;
}

/// A place in a stream.
pub(crate) trait Event: fmt::Debug + Send + Sync {
    /// Waits for this event; reports what went wrong before it.
    fn synchronize(&self) -> Result<()>;

    /// Waits for this event, and tells the time between `earlier` and it.
    fn elapsed(&self, earlier: &dyn Event) -> Result<Duration>;

    /// Where the native handle stands (`CUevent*` for CUDA), for the Arrow C Device
    /// interface; as long as the event lives. Null where there is none.
    fn handle(&self) -> *mut std::ffi::c_void;

    /// For implementations.
    fn as_any(&self) -> &dyn Any;
}

/// A kernel to be started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// Where it is from; nothing for lanepack's own kernels.
    pub module: Option<&'a dyn Module>,
    /// Its name in the module.
    pub kernel: &'a str,
    /// Blocks of the grid; none start nothing.
    pub blocks: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory that a block asks for beside what the kernel declares.
    pub shared: u32,
    /// Bytes that all blocks read again and again in any order: fewer blocks may run at a time so that the
    /// first-level cache, which is of the same memory as shared memory, has room for them.
    #[cfg_attr(lanepack_simt, allow(dead_code, reason = "for GPUs"))]
    pub cache_bytes: usize,
    /// The bytes of its only argument, a plain struct.
    pub arguments: &'a [u8],
    /// The name of the struct, which the emulation compares with what the kernel takes; nothing for
    /// structs that are not known here.
    #[cfg_attr(not(lanepack_simt), allow(dead_code, reason = "for the emulation"))]
    pub arguments_type: Option<&'static str>,
    /// Every buffer that the arguments point into.
    pub buffers: &'a [&'a DeviceBuffer],
}

impl<'a> Launch<'a> {
    /// A launch of one of lanepack's own kernels.
    pub fn new<A: Arguments>(
        kernel: Kernel<A>,
        blocks: usize,
        argument: &'a A,
        buffers: &'a [&'a DeviceBuffer],
    ) -> Self {
        Self {
            module: None,
            kernel: kernel.name,
            blocks,
            threads: kernel.threads,
            shared: kernel.shared,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(argument),
            arguments_type: Some(A::NAME),
            buffers,
        }
    }

    /// The same of a kernel that has its argument.
    pub fn bound(kernel: &'a BoundKernel, blocks: usize, buffers: &'a [&'a DeviceBuffer]) -> Self {
        Self {
            module: None,
            kernel: kernel.name,
            blocks,
            threads: kernel.threads,
            shared: kernel.shared,
            cache_bytes: 0,
            arguments: &kernel.argument,
            arguments_type: Some(kernel.argument_type),
            buffers,
        }
    }
}

/// Memory of a device, freed when dropped.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    start: DevicePtr<u8>,
    len: usize,
    is_padded: bool,
    allocation: Box<dyn Allocation>,
}

/// What an implementation keeps with a buffer; frees it when dropped.
pub(crate) trait Allocation: fmt::Debug + Send + Sync {
    /// For implementations.
    fn as_any(&self) -> &dyn Any;
}

/// What keeps memory of others alive.
pub(crate) type Owner = Box<dyn Any + Send + Sync>;

impl DeviceBuffer {
    /// Memory of others, which may begin anywhere.
    pub fn adopted(start: DevicePtr<u8>, len: usize, allocation: Box<dyn Allocation>) -> Self {
        Self { start, len, is_padded: false, allocation }
    }

    /// Whether there are [`PADDING`] bytes behind it.
    pub fn is_padded(&self) -> bool {
        self.is_padded
    }

    /// A buffer that an implementation has allocated.
    pub fn new(start: DevicePtr<u8>, len: usize, allocation: Box<dyn Allocation>) -> Self {
        debug_assert!(start.address().is_multiple_of(PADDING as u64));
        Self { start, len, is_padded: true, allocation }
    }

    /// Its first byte, on the device, as a pointer to values; a multiple of [`PADDING`] unless it was
    /// adopted.
    pub fn pointer<T>(&self) -> DevicePtr<T> {
        self.start.cast()
    }

    /// The byte at `at` as a pointer to values.
    pub fn pointer_at<T>(&self, at: usize) -> DevicePtr<T> {
        self.start.byte_add(at).cast()
    }

    /// Whether a pointer leads to one of its bytes.
    pub fn contains<T>(&self, pointer: DevicePtr<T>) -> bool {
        let from = self.start.address();
        (from..from + self.len as u64).contains(&pointer.address())
    }

    /// Bytes asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What the implementation keeps with it.
    pub fn allocation(&self) -> &dyn Allocation {
        self.allocation.as_ref()
    }
}
