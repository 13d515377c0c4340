//! The host emulation as a device, for tests: kernels run as fibers (`kernels/simt`).
//!
//! Streams do their work at once, so events are times and nothing is ever waited
//! for; one lock per device keeps work of different streams apart. Beyond what the
//! kernels' sanitizers see, a launch checks what a GPU cannot: that it names every
//! buffer that its arguments point into, that no kernel has written into the padding
//! behind one, and that its argument is the struct that the kernel takes, by name.
//!
//! Sources are compiled while the program runs by the compiler that built it (object.rs).

mod ffi;
mod object;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::compiled::Compiled;
use super::{
    Allocation, Device, DeviceBuffer, DeviceInfo, DevicePtr, Event, HostMemory, Launch, Module,
    Origin, Owner, PADDING, Priority, Resources, Shape, Stream,
};
use crate::error::{Error, Place, Result};

/// Changes the order in which threads run, of every device.
const SEED_VARIABLE: &str = "LANEPACK_SIMT_SEED";

/// Holds everywhere in memory that was never written; `UNWRITTEN` in `kernels/simt/block.h`.
const UNWRITTEN: u8 = 0xA5;

/// The most blocks of a grid on any GPU.
const MAX_BLOCKS: usize = (1 << 31) - 1;

/// What an emulated device is like.
#[derive(Debug, Clone)]
pub struct Emulation {
    /// What the order of threads is drawn from.
    pub seed: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that a copy from or to it moves in a second; as many as the host can if none.
    pub bus: Option<u64>,
    /// Launches after which the device is lost: all that it is given from then on is an error.
    pub lost_after: Option<u64>,
    /// Whether it is on a machine with a compiler for kernels of queries.
    pub has_compiler: bool,
}

impl Default for Emulation {
    fn default() -> Self {
        Self { seed: 1, memory: 1 << 30, bus: None, lost_after: None, has_compiler: true }
    }
}

/// A device that runs kernels on the host.
#[derive(Debug)]
struct SimtDevice {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    info: DeviceInfo,
    options: Emulation,
    compiled: Compiled<SimtModule>,
    /// Held by whoever reads or writes memory of the device.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Launches so far: each gets another order of threads.
    launches: u64,
    /// The addresses of every buffer, without its padding.
    live: Vec<Range<u64>>,
    /// Allocations since it was said which of them are to fail.
    allocations: u64,
    failing: Range<u64>,
    /// Whether one has failed for that reason.
    has_failed: bool,
}

#[derive(Debug)]
struct SimtStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct SimtEvent {
    shared: Arc<Shared>,
    time: Instant,
}

#[derive(Debug)]
struct SimtMemory {
    shared: Arc<Shared>,
    memory: Backing,
}

#[derive(Debug)]
enum Backing {
    Own(ffi::Memory),
    /// Memory of others, from there on.
    Adopted(DevicePtr<u8>, #[allow(dead_code, reason = "kept")] Owner),
}

impl Backing {
    fn start(&self) -> *mut u8 {
        match self {
            Self::Own(memory) => memory.start(),
            Self::Adopted(start, _) => ptr::with_exposed_provenance_mut(start.address() as usize),
        }
    }

    /// Bytes that were allocated.
    fn size(&self) -> usize {
        match self {
            Self::Own(memory) => memory.size(),
            Self::Adopted(..) => 0,
        }
    }
}

/// Device number `ordinal`.
pub(crate) fn open(ordinal: usize, options: Emulation) -> Arc<dyn Device> {
    Arc::new(SimtDevice::with(ordinal, options))
}

impl SimtDevice {
    /// Device number `ordinal` with `memory` bytes, whose threads run in an order
    /// drawn from `seed`.
    #[cfg(test)]
    fn new(ordinal: usize, memory: u64, seed: u64) -> Self {
        Self::with(ordinal, Emulation { seed, memory, ..Emulation::default() })
    }

    /// A device whose threads run in an order drawn from its seed plus what `LANEPACK_SIMT_SEED`
    /// says.
    fn with(ordinal: usize, mut options: Emulation) -> Self {
        let more = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        options.seed = options.seed.wrapping_add(more.unwrap_or(0));
        let memory = options.memory;
        let info = DeviceInfo {
            name: "host emulation".to_owned(),
            ordinal,
            memory,
            compute_capability: (8, 0),
            multiprocessors: std::thread::available_parallelism()
                .map_or(1, |count| count.get() as u32),
            // `MAX_DYNAMIC_SHARED` of kernels/lanepack/base.cuh.
            shared_memory: 99 << 10,
            driver: "0.0".to_owned(),
        };
        let (compiled, state) = (Compiled::default(), Mutex::default());
        Self { shared: Arc::new(Shared { info, options, compiled, state }) }
    }
}

impl Device for SimtDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn is_host(&self) -> bool {
        true
    }

    fn free_memory(&self) -> Result<u64> {
        Ok(self.shared.info.memory - self.shared.lock().used)
    }

    fn stream(&self, _: Priority) -> Result<Arc<dyn Stream>> {
        self.shared.check(&self.shared.lock())?;
        Ok(Arc::new(SimtStream { shared: self.shared.clone() }))
    }

    fn compile(&self, source: &str) -> Result<Arc<dyn Module>> {
        if !self.shared.options.has_compiler {
            return Err(Error::NoDevice { what: "an emulation without a compiler".to_owned() });
        }
        let device = Arc::downgrade(&self.shared);
        let compile = || {
            let (object, origin) = object::load(source)?;
            Ok(SimtModule { device, object, origin })
        };
        Ok(self.shared.compiled.get(source, compile)?)
    }

    fn compiled(&self) -> usize {
        self.shared.compiled.len()
    }

    fn has_compiled(&self, source: &str) -> bool {
        self.shared.compiled.has(source)
    }

    fn fail_allocations(&self, numbers: Range<u64>) -> bool {
        let mut state = self.shared.lock();
        (state.allocations, state.failing) = (0, numbers);
        std::mem::take(&mut state.has_failed)
    }

    fn page_locked(&self, len: usize) -> Result<Box<dyn HostMemory>> {
        let failed = || Error::device(format!("{len} bytes of host memory"));
        let memory = ffi::Memory::allocate(len.max(1), PADDING).ok_or_else(failed)?;
        // SAFETY: the memory has so many bytes, which are nobody else's.
        unsafe { memory.start().write_bytes(UNWRITTEN, memory.size()) };
        Ok(Box::new(SimtHost(memory, len)))
    }
}

/// Kernels that were compiled for a device.
#[derive(Debug)]
struct SimtModule {
    /// Weak: the device holds what it has compiled.
    device: Weak<Shared>,
    object: ffi::Object,
    origin: Origin,
}

impl Module for SimtModule {
    fn shape(&self, kernel: &str) -> Result<Shape> {
        let shape = ffi::shape(self.object, kernel);
        shape.ok_or_else(|| Error::device(format!("kernel {kernel}: there is no such kernel")))
    }

    /// A host has no registers of threads.
    fn resources(&self, kernel: &str) -> Result<Resources> {
        self.shape(kernel).map(|_| Resources::default())
    }

    fn origin(&self) -> Origin {
        self.origin
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Ordinary memory that stands for page-locked memory.
#[derive(Debug)]
struct SimtHost(ffi::Memory, usize);

impl HostMemory for SimtHost {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.0.start()).unwrap_or(NonNull::dangling())
    }

    fn len(&self) -> usize {
        self.1
    }
}

impl Shared {
    /// A panic elsewhere leaves nothing half done: memory is bytes, and counts
    /// change in one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the time of a copy of so many bytes.
    fn copied(&self, bytes: usize) {
        if let Some(bus) = self.options.bus {
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / bus as f64));
        }
    }

    /// An error if the device is lost.
    fn check(&self, state: &State) -> Result<()> {
        match self.options.lost_after {
            Some(most) if state.launches >= most => Err(Error::device("the device is lost")),
            _ => Ok(()),
        }
    }

    /// The memory of a buffer, if it is of this device.
    fn memory<'a>(
        self: &Arc<Self>,
        buffer: &'a DeviceBuffer,
        what: &str,
    ) -> Result<&'a SimtMemory> {
        match buffer.allocation().as_any().downcast_ref::<SimtMemory>() {
            Some(memory) if Arc::ptr_eq(&memory.shared, self) => Ok(memory),
            _ => Err(Error::device(format!("{what}: a buffer of another device"))),
        }
    }

    /// The object of a module, if it is of this device.
    fn object(self: &Arc<Self>, module: &dyn Module) -> Result<ffi::Object> {
        match module.as_any().downcast_ref::<SimtModule>() {
            Some(module) if ptr::eq(module.device.as_ptr(), Arc::as_ptr(self)) => Ok(module.object),
            _ => Err(Error::device("kernels compiled for another device")),
        }
    }

    /// Where bytes `at..at + len` of a buffer begin, if it has them.
    fn part(
        self: &Arc<Self>,
        buffer: &DeviceBuffer,
        at: usize,
        len: usize,
        what: &str,
    ) -> Result<*mut u8> {
        let memory = self.memory(buffer, what)?;
        if at.checked_add(len).is_none_or(|end| end > buffer.len()) {
            return Err(Error::device(format!(
                "{what}: {len} bytes from {at} on of a buffer of {}",
                buffer.len()
            )));
        }
        Ok(memory.memory.start().wrapping_add(at))
    }
}

impl Stream for SimtStream {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn allocate(&self, len: usize) -> Result<DeviceBuffer> {
        let mut state = self.shared.lock();
        let total = self.shared.info.memory;
        let free = total - state.used;
        let full = || Error::DeviceMemory {
            place: Place::default(),
            needed: len as u64,
            free,
            total,
            device: self.shared.info.name.clone(),
        };
        state.allocations += 1;
        if state.failing.contains(&(state.allocations - 1)) {
            state.has_failed = true;
            return Err(full());
        }
        let size = len.checked_add(PADDING).ok_or_else(full)?;
        if size as u64 > free {
            return Err(full());
        }
        let memory = ffi::Memory::allocate(size, PADDING).ok_or_else(full)?;
        let address = memory.start() as u64;
        state.used += size as u64;
        state.live.push(address..address + len as u64);
        let memory = Backing::Own(memory);
        let allocation = SimtMemory { shared: self.shared.clone(), memory };
        Ok(DeviceBuffer::new(DevicePtr::from_address(address), len, Box::new(allocation)))
    }

    unsafe fn adopt(&self, start: DevicePtr<u8>, len: usize, owner: Owner) -> Result<DeviceBuffer> {
        let memory = Backing::Adopted(start, owner);
        let allocation = SimtMemory { shared: self.shared.clone(), memory };
        Ok(DeviceBuffer::adopted(start, len, Box::new(allocation)))
    }

    unsafe fn wait_for_handle(&self, _: *mut c_void) -> Result<()> {
        Ok(())
    }

    fn fill(&self, target: &DeviceBuffer, at: usize, len: usize, byte: u8) -> Result<()> {
        let _state = self.shared.lock();
        let to = self.shared.part(target, at, len, "fill")?;
        // SAFETY: `part` has checked that the buffer has these bytes; the lock is held.
        unsafe { ptr::write_bytes(to, byte, len) };
        Ok(())
    }

    fn upload(&self, source: &[u8], target: &DeviceBuffer, at: usize) -> Result<()> {
        self.shared.copied(source.len());
        let state = self.shared.lock();
        self.shared.check(&state)?;
        let to = self.shared.part(target, at, source.len(), "upload")?;
        // SAFETY: as in `fill`; no Rust slice ever covers memory of a device.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), to, source.len()) };
        Ok(())
    }

    unsafe fn start_upload(&self, source: &[u8], target: &DeviceBuffer, at: usize) -> Result<()> {
        self.upload(source, target, at)
    }

    fn download_to(
        &self,
        source: &DeviceBuffer,
        at: usize,
        target: &mut [MaybeUninit<u8>],
    ) -> Result<()> {
        self.shared.copied(target.len());
        let state = self.shared.lock();
        self.shared.check(&state)?;
        let from = self.shared.part(source, at, target.len(), "download")?;
        // SAFETY: as in `upload`; allocated memory holds a pattern, so all of it is initialised.
        unsafe { ptr::copy_nonoverlapping(from, target.as_mut_ptr().cast(), target.len()) };
        Ok(())
    }

    fn copy(
        &self,
        source: &DeviceBuffer,
        from: usize,
        target: &DeviceBuffer,
        to: usize,
        len: usize,
    ) -> Result<()> {
        let _state = self.shared.lock();
        let from = self.shared.part(source, from, len, "copy")?;
        let to = self.shared.part(target, to, len, "copy")?;
        if from.addr().abs_diff(to.addr()) < len {
            return Err(Error::device(format!("copy: {len} bytes onto themselves")));
        }
        // SAFETY: `part` has checked both ranges, which do not overlap; the lock is held.
        unsafe { ptr::copy_nonoverlapping(from, to, len) };
        Ok(())
    }

    fn copy_from_peer(&self, source: &DeviceBuffer, target: &DeviceBuffer) -> Result<()> {
        let of_peer = source.allocation().as_any().downcast_ref::<SimtMemory>();
        let of_peer = of_peer.ok_or_else(|| Error::device("a buffer of another kind of device"))?;
        let (len, what) = (source.len(), "copy from a peer");
        // One lock at a time.
        let mut bytes = Vec::<u8>::with_capacity(len);
        {
            let state = of_peer.shared.lock();
            of_peer.shared.check(&state)?;
            let from = of_peer.shared.part(source, 0, len, what)?;
            // SAFETY: `part` has checked the range; the lock is held, and the vector has room.
            unsafe {
                ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
                bytes.set_len(len);
            }
        }
        self.shared.copied(len);
        let state = self.shared.lock();
        self.shared.check(&state)?;
        let to = self.shared.part(target, 0, len, what)?;
        // SAFETY: `part` has checked the range; the lock is held.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let failed = |what: String| Error::device(format!("kernel {}: {what}", launch.kernel));
        let object = launch.module.map(|module| self.shared.object(module)).transpose()?;
        let mut state = self.shared.lock();
        self.shared.check(&state)?;
        let mut memories = Vec::with_capacity(launch.buffers.len());
        for buffer in launch.buffers {
            memories.push((self.shared.memory(buffer, launch.kernel)?, buffer.len()));
        }
        if launch.blocks > MAX_BLOCKS {
            return Err(failed(format!(
                "{} blocks, a grid has at most {MAX_BLOCKS}",
                launch.blocks
            )));
        }
        if let Some(address) = unnamed(&state.live, launch) {
            return Err(failed(format!(
                "an argument, {address:#x}, points into a buffer that the launch does not name"
            )));
        }
        let seed = self.shared.options.seed.wrapping_add(state.launches);
        state.launches += 1;
        // SAFETY: the lock keeps everyone else from the device's memory, and named
        // buffers outlive the call. A kernel that goes astray nevertheless is what
        // its sanitizers are for: they end the process.
        unsafe {
            let blocks = launch.blocks as u32;
            let arguments = (launch.arguments, launch.arguments_type);
            ffi::launch(object, launch.kernel, blocks, launch.threads, arguments, seed)
        }
        .map_err(failed)?;
        for (memory, len) in memories {
            if let Some(at) = memory.first_written(len) {
                return Err(failed(format!(
                    "has written {at} bytes past the end of a buffer of {len} bytes"
                )));
            }
        }
        Ok(())
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(SimtEvent { shared: self.shared.clone(), time: Instant::now() }))
    }

    fn record_again(&self, _: Option<Arc<dyn Event>>) -> Result<Arc<dyn Event>> {
        self.record()
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        SimtEvent::of(event, &self.shared).map(|_| ())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// An argument that points into a buffer that the launch does not name.
fn unnamed(live: &[Range<u64>], launch: &Launch<'_>) -> Option<u64> {
    let words = launch.arguments.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("chunks of 8"))).find(|address| {
        let buffer = live.iter().find(|buffer| buffer.contains(address));
        buffer.is_some_and(|buffer| {
            launch.buffers.iter().all(|named| named.pointer::<u8>().address() != buffer.start)
        })
    })
}

impl SimtEvent {
    fn of<'a>(event: &'a dyn Event, shared: &Arc<Shared>) -> Result<&'a Self> {
        match event.as_any().downcast_ref::<Self>() {
            Some(event) if Arc::ptr_eq(&event.shared, shared) => Ok(event),
            _ => Err(Error::device("an event of another device")),
        }
    }
}

impl Event for SimtEvent {
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn elapsed(&self, earlier: &dyn Event) -> Result<Duration> {
        let earlier = Self::of(earlier, &self.shared)?;
        Ok(self.time.saturating_duration_since(earlier.time))
    }

    fn handle(&self) -> *mut c_void {
        ptr::null_mut()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl SimtMemory {
    /// How far into the padding behind `len` bytes the first byte was written.
    fn first_written(&self, len: usize) -> Option<usize> {
        (len..self.memory.size())
            // SAFETY: within the allocation; called with the device's lock held.
            .position(|at| unsafe { self.memory.start().add(at).read() } != UNWRITTEN)
    }
}

impl Allocation for SimtMemory {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for SimtMemory {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.used -= self.memory.size() as u64;
        let start = self.memory.start() as u64;
        state.live.retain(|buffer| buffer.start != start);
    }
}
