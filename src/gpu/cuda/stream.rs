//! Streams, events and buffers of a GPU, as the traits of [`crate::gpu`] have them.
//!
//! A buffer that is allocated on one stream may be used on another once that one
//! waits for an event recorded after the allocation; it may be dropped at any
//! time after that, since its own stream then waits for the other before freeing it.

use std::any::Any;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use super::driver::{Mark, Memory, Queue};
use super::{Kernels, Shared};
use crate::error::{Error, Result};
use crate::gpu::{
    Allocation, DeviceBuffer, DeviceInfo, DevicePtr, Event, Launch, Module, Owner, Priority, Stream,
};

/// Blocks that a grid can have in its first dimension.
const MAX_BLOCKS: u32 = i32::MAX as u32;

/// A stream of a GPU.
#[derive(Debug)]
pub(super) struct CudaStream {
    // Before `shared`: what is left of the stream goes before the kernels.
    queue: Arc<Queue>,
    shared: Arc<Shared>,
}

impl CudaStream {
    pub fn new(shared: &Arc<Shared>, priority: Priority) -> Result<Self> {
        Ok(Self { queue: Queue::new(&shared.context, priority)?, shared: shared.clone() })
    }
}

impl Allocation for Memory {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The memory of a buffer, which must be of a GPU.
fn memory(buffer: &DeviceBuffer) -> Result<&Memory> {
    let memory = buffer.allocation().as_any().downcast_ref();
    memory.ok_or_else(|| Error::device("a buffer of another kind of device"))
}

/// What was compiled for a GPU; whether for this one, the launch checks.
fn kernels(module: &dyn Module) -> Result<&Kernels> {
    let kernels = module.as_any().downcast_ref();
    kernels.ok_or_else(|| Error::device("kernels compiled for another kind of device"))
}

/// The range of `len` bytes from `at` on; past the end of everything if it overflows.
fn range(at: usize, len: usize) -> std::ops::Range<usize> {
    at..at.saturating_add(len)
}

impl Stream for CudaStream {
    fn info(&self) -> &DeviceInfo {
        &self.shared.context.info
    }

    fn allocate(&self, len: usize) -> Result<DeviceBuffer> {
        let memory = self.queue.allocate(len)?;
        Ok(DeviceBuffer::new(memory.start(), memory.len(), Box::new(memory)))
    }

    unsafe fn adopt(&self, start: DevicePtr<u8>, len: usize, owner: Owner) -> Result<DeviceBuffer> {
        let memory = self.queue.adopt(start, len, owner);
        Ok(DeviceBuffer::adopted(start, len, Box::new(memory)))
    }

    unsafe fn wait_for_handle(&self, event: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue.wait_for_handle(event) }
    }

    fn fill(&self, target: &DeviceBuffer, at: usize, len: usize, byte: u8) -> Result<()> {
        self.queue.fill(memory(target)?, range(at, len), byte)
    }

    fn upload(&self, source: &[u8], target: &DeviceBuffer, at: usize) -> Result<()> {
        self.queue.check(memory(target)?, range(at, source.len()), "upload")?;
        self.shared.staging.upload(&self.queue, source, memory(target)?, at)
    }

    unsafe fn start_upload(&self, source: &[u8], target: &DeviceBuffer, at: usize) -> Result<()> {
        self.queue.check(memory(target)?, range(at, source.len()), "upload")?;
        // SAFETY: the caller's promise.
        unsafe { self.shared.staging.start_upload(&self.queue, source, memory(target)?, at) }
    }

    fn download_to(
        &self,
        source: &DeviceBuffer,
        at: usize,
        target: &mut [MaybeUninit<u8>],
    ) -> Result<()> {
        self.queue.check(memory(source)?, range(at, target.len()), "download")?;
        self.shared.staging.download(&self.queue, memory(source)?, at, target)
    }

    fn copy(
        &self,
        source: &DeviceBuffer,
        from: usize,
        target: &DeviceBuffer,
        to: usize,
        len: usize,
    ) -> Result<()> {
        self.queue.copy((memory(source)?, from), (memory(target)?, to), len)
    }

    fn copy_from_peer(&self, source: &DeviceBuffer, target: &DeviceBuffer) -> Result<()> {
        self.queue.copy_from_peer(memory(source)?, memory(target)?, source.len())
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let name = launch.kernel;
        if launch.blocks == 0 {
            return Ok(());
        }
        let blocks = u32::try_from(launch.blocks).ok().filter(|&blocks| blocks <= MAX_BLOCKS);
        let blocks = blocks.ok_or_else(|| {
            Error::device(format!(
                "kernel {name}: {} blocks, there can be {MAX_BLOCKS}",
                launch.blocks
            ))
        })?;
        let kernels = launch.module.map_or(Ok(&self.shared.kernels), kernels)?;
        let function = kernels.function(name)?;
        let memories = launch.buffers.iter().map(|buffer| memory(buffer));
        let memories = memories.collect::<Result<Vec<_>>>()?;
        let shape = (blocks, launch.threads, launch.shared);
        function.prefer_cache(launch.threads, launch.shared, launch.cache_bytes);
        self.queue.launch(&function, shape, launch.arguments, &memories)
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        let mark = Mark::new(&self.shared.context, true)?;
        self.queue.record(&mark)?;
        Ok(Arc::new(CudaEvent { mark }))
    }

    fn record_again(&self, used: Option<Arc<dyn Event>>) -> Result<Arc<dyn Event>> {
        let event = match used {
            Some(used) => used,
            None => Arc::new(CudaEvent { mark: Mark::restful(&self.shared.context)? }),
        };
        self.queue.record(mark(event.as_ref())?)?;
        Ok(event)
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        self.queue.wait(mark(event)?)
    }

    fn synchronize(&self) -> Result<()> {
        self.queue.synchronize()
    }
}

/// A place in a stream, with its time.
#[derive(Debug)]
struct CudaEvent {
    mark: Mark,
}

fn mark(event: &dyn Event) -> Result<&Mark> {
    let event = event.as_any().downcast_ref::<CudaEvent>();
    Ok(&event.ok_or_else(|| Error::device("an event of another kind of device"))?.mark)
}

impl Event for CudaEvent {
    fn synchronize(&self) -> Result<()> {
        self.mark.synchronize()
    }

    fn elapsed(&self, earlier: &dyn Event) -> Result<Duration> {
        let earlier = mark(earlier)?;
        earlier.synchronize()?;
        self.mark.synchronize()?;
        let milliseconds = self.mark.milliseconds_since(earlier)?;
        // Below zero if the two are the other way round.
        Ok(Duration::from_secs_f64(f64::from(milliseconds).max(0.0) / 1e3))
    }

    fn handle(&self) -> *mut c_void {
        self.mark.handle()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
