//! The CUDA driver: every use of cudarc, and every `unsafe` of this folder.
//!
//! Safe types around the driver's handles; each holds what it needs to stay
//! valid. They stand on cudarc's raw layers (`result` and `sys`): its safe slices
//! record two events for every use of a buffer and wait for them on every other
//! stream, where we need one event per foreign stream when a buffer is freed, and
//! it has neither memory pools of our own nor pinned memory that outlives a copy.
//!
//! ```text
//! Function -> Module -> Context <- Queue <- Memory
//!                          ^------ Mark <-- Slot
//!                          ^------ PageLocked <-'
//! ```
//!
//! `host.rs` has page-locked memory and the copies from and to it, `module.rs` kernels.

mod host;
mod module;

pub(super) use self::host::{PageLocked, Slot};
use self::module::OnChipMemory;
pub(super) use self::module::{Function, Module};

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUmemPool_attribute, CUresult};
use cudarc::driver::{CudaContext, sys::CUevent_flags};

use super::failure::{During, Version, no_device, reason};
use super::numa;
use crate::error::{Error, Place, Result};
use crate::gpu::{DeviceInfo, DevicePtr, Owner, PADDING, Priority};

/// The oldest driver that will do: CUDA 12, which is what the oldest NVRTC that
/// we look for compiles for. What we call of the driver has been there since 11.2.
const DRIVER_NEEDED: Version = Version { major: 12, minor: 0 };

/// Compute capability of the oldest device that kernels are compiled for.
const CAPABILITY_NEEDED: (u32, u32) = (8, 0);

/// The longest argument of a kernel.
const ARGUMENT_BYTES: usize = 4096;

/// Everything called below. cudarc panics where one is missing, so look first.
const FUNCTIONS: [&str; 49] = [
    "cuCtxGetCurrent",
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuPointerGetAttributes",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// The PCI address of a device, such as `0000:1B:00.0`; none if the driver does not say.
fn pci_address(device: sys::CUdevice) -> Option<String> {
    let mut text = [0; 32];
    let len = text.len() as i32;
    // SAFETY: writes so many bytes at most; the device comes from cuDeviceGet.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), len, device) }.result().ok()?;
    let bytes = text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
    String::from_utf8(bytes.collect()).ok()
}

/// Whether there is a driver's library.
pub(super) fn is_present() -> bool {
    // SAFETY: loads a library of the system by its well-known names; its
    // initialisers are the driver's own.
    unsafe { sys::is_culib_present() }
}

/// Loads the driver, and says which version it is.
fn load() -> Result<Version> {
    if !is_present() {
        return Err(no_device("no CUDA driver library (libcuda.so.1) found"));
    }
    for name in FUNCTIONS {
        // SAFETY: the library is there (checked above), so this cannot panic; the
        // symbol is only looked for, not called.
        let found = unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) };
        if found.is_err() {
            return Err(no_device(format!(
                "the CUDA driver library has no {name}: it is too old, CUDA {DRIVER_NEEDED} or \
                 later is needed"
            )));
        }
    }
    let mut version = 0;
    // SAFETY: writes one integer; may be called before cuInit.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().during("cuDriverGetVersion")?;
    let version = version.unsigned_abs();
    let version = Version { major: version / 1000, minor: version % 1000 / 10 };
    if version < DRIVER_NEEDED {
        return Err(no_device(format!(
            "the driver is too old: it is for CUDA {version}, {DRIVER_NEEDED} or later is needed"
        )));
    }
    match result::init() {
        Ok(()) => Ok(version),
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => {
            Err(no_device("a CUDA driver, but no device"))
        }
        Err(error) => Err(no_device(format!("the driver does not start: {}", reason(error)))),
    }
}

/// How many devices there are.
pub(super) fn devices() -> Result<usize> {
    load()?;
    let count = result::device::get_count().during("cuDeviceGetCount")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The primary context of a device, and a pool of its memory.
///
/// The pool is our own, so that trimming it and its threshold concern nobody else
/// in the process. It keeps up to half of the device's memory when it is unused:
/// with the driver's threshold of 0, every wait for a stream would give unused
/// memory back to the system, and the next batch would map it anew, which takes
/// longer than decoding it.
pub(super) struct Context {
    inner: Arc<CudaContext>,
    pool: sys::CUmemoryPool,
    pub info: DeviceInfo,
    /// That of a multiprocessor.
    on_chip: OnChipMemory,
    /// The NUMA node that the device is attached to, if there are several.
    node: Option<u32>,
    pub driver: Version,
    /// The first error of freeing something, until it is reported.
    deferred: Mutex<Option<Error>>,
    /// Where our own page-locked memory lies.
    page_locked: Mutex<Vec<Range<usize>>>,
    /// Devices that have asked for access to our pool, by number, with their primary contexts: these
    /// stay as long as the pool does.
    peers: Mutex<BTreeMap<usize, Arc<CudaContext>>>,
}

// SAFETY: a pool handle may be used by any thread; the driver locks what it must.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({:?})", self.info)
    }
}

impl Context {
    pub fn new(ordinal: usize) -> Result<Arc<Self>> {
        let driver = load()?;
        let devices = devices()?;
        if ordinal >= devices {
            return Err(no_device(match devices {
                0 => "a CUDA driver, but no device".to_owned(),
                _ => format!("device {ordinal} of {devices}; the first is device 0"),
            }));
        }
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let device = result::device::get(number).during("cuDeviceGet")?;
        let attribute = |attribute| {
            // SAFETY: the device comes from cuDeviceGet.
            let value = unsafe { result::device::get_attribute(device, attribute) };
            value.during("cuDeviceGetAttribute").map(|value| u32::try_from(value).unwrap_or(0))
        };
        let info = DeviceInfo {
            name: result::device::get_name(device).during("cuDeviceGetName")?,
            ordinal,
            // SAFETY: the device comes from cuDeviceGet.
            memory: unsafe { result::device::total_mem(device) }.during("cuDeviceTotalMem")? as u64,
            compute_capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_memory: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            driver: driver.to_string(),
        };
        let on_chip = OnChipMemory {
            shared: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            reserved: attribute(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
            registers: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        };
        let (major, minor) = info.compute_capability;
        if info.compute_capability < CAPABILITY_NEEDED {
            let (needed, of) = CAPABILITY_NEEDED;
            return Err(no_device(format!(
                "device {ordinal}, {}, is too old: it has compute capability {major}.{minor}, \
                 {needed}.{of} or later is needed",
                info.name
            )));
        }
        if attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
            return Err(no_device(format!(
                "device {ordinal}, {}, has no memory pools (a virtual GPU?)",
                info.name
            )));
        }

        let inner = CudaContext::new(ordinal).map_err(|error| {
            no_device(format!("device {ordinal}, {}: {}", info.name, reason(error)))
        })?;
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            win32SecurityAttributes: std::ptr::null_mut(),
            maxSize: 0,
            reserved: [0; 56],
        };
        // SAFETY: the properties are complete, with zeros where they are reserved.
        let pool =
            unsafe { result::mem_pool::create(&raw const properties) }.during("cuMemPoolCreate")?;
        let (deferred, page_locked, peers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let node = pci_address(device).and_then(|pci| numa::node_of(&pci));
        let context =
            Self { inner, pool, info, on_chip, node, driver, deferred, page_locked, peers };
        let mut threshold = context.info.memory / 2;
        // Else a stream may wait for another that has freed memory, unasked.
        let mut reuses_by_waiting = 0i32;
        // SAFETY: the attributes are an unsigned integer of 64 bits and an `int`, as the
        // variables are.
        unsafe {
            result::mem_pool::set_attribute(
                context.pool,
                CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut threshold).cast(),
            )
            .during("cuMemPoolSetAttribute")?;
            result::mem_pool::set_attribute(
                context.pool,
                CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                (&raw mut reuses_by_waiting).cast(),
            )
            .during("cuMemPoolSetAttribute")?;
        }
        Ok(Arc::new(context))
    }

    /// Every call of the driver works on the calling thread's current context.
    fn bind(&self) -> Result<()> {
        self.inner.bind_to_thread().during("cuCtxSetCurrent")
    }

    /// Keeps an error that a drop cannot return. The first one is reported by the
    /// next [`Queue::synchronize`] of this device.
    fn defer<T>(&self, result: Result<T>) {
        if let Err(error) = result {
            let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
            deferred.get_or_insert(error);
        }
    }

    fn pool_bytes(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        let mut bytes = 0u64;
        // SAFETY: the attributes asked for are unsigned integers of 64 bits.
        unsafe { result::mem_pool::get_attribute(self.pool, attribute, (&raw mut bytes).cast()) }
            .during("cuMemPoolGetAttribute")?;
        Ok(bytes)
    }

    /// Bytes of our pool that were in use at most since this was asked the last time.
    #[cfg(feature = "_internals")]
    pub fn peak_memory(&self) -> Result<u64> {
        self.bind()?;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        let peak = self.pool_bytes(attribute)?;
        let mut zero = 0_u64;
        // SAFETY: the attribute is an unsigned integer of 64 bits, which may only be set to 0.
        unsafe { result::mem_pool::set_attribute(self.pool, attribute, (&raw mut zero).cast()) }
            .during("cuMemPoolSetAttribute")?;
        Ok(peak)
    }

    /// Gives another device access to all of our pool from now on, once, if it can have it: copies to
    /// it go through the host otherwise.
    fn admit(&self, peer: &Self) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.insert(peer.info.ordinal, peer.inner.clone()).is_some() {
            return;
        }
        let device = peer.inner.cu_device();
        let mut can = 0;
        // SAFETY: both devices come from cuDeviceGet.
        let asked =
            unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, device, self.inner.cu_device()) };
        if asked.result().is_err() || can == 0 {
            return;
        }
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            // Pools have no access for reading alone.
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the pool is ours, and there is one description. Without access the copy is slower.
        let _ = unsafe { sys::cuMemPoolSetAccess(self.pool, &raw const access, 1) };
    }

    /// Bytes that can be allocated: what the device has, and what our pool keeps unused.
    pub fn free_memory(&self) -> Result<u64> {
        self.bind()?;
        let (free, _) = result::mem_get_info().during("cuMemGetInfo")?;
        let kept = self.pool_bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = self.pool_bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(free as u64 + kept.saturating_sub(used))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_ok() {
            // SAFETY: made by `new`, destroyed once; all memory holds this context,
            // so none is left. There is nobody to tell of an error.
            let _ = unsafe { result::mem_pool::destroy(self.pool) };
        }
    }
}

/// A stream. It does not synchronise with the legacy default stream.
pub(super) struct Queue {
    raw: sys::CUstream,
    pub context: Arc<Context>,
    /// The last kernel started, for the message when one has failed.
    kernel: Mutex<Option<Arc<str>>>,
}

// SAFETY: a stream handle may be used by any thread; the driver locks what it must.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:?} of device {})", self.raw, self.context.info.ordinal)
    }
}

impl Queue {
    /// A new stream.
    pub fn new(context: &Arc<Context>, priority: Priority) -> Result<Arc<Self>> {
        context.bind()?;
        let (least, greatest) =
            result::stream::get_priority_range().during("cuCtxGetStreamPriorityRange")?;
        // Numbers descend from the least to the greatest, which may be few.
        let priority = (least - priority as i32).max(greatest);
        let raw =
            result::stream::create_with_priority(result::stream::StreamKind::NonBlocking, priority)
                .during("cuStreamCreateWithPriority")?;
        Ok(Arc::new(Self { raw, context: context.clone(), kernel: Mutex::default() }))
    }

    /// Memory for `len` bytes and [`PADDING`] more, in the order of this stream.
    ///
    /// Only where there is not enough does this wait: for all work of the device,
    /// so that what has been freed is free, and can be given back and asked for anew.
    pub fn allocate(self: &Arc<Self>, len: usize) -> Result<Memory> {
        let context = &self.context;
        context.bind()?;
        let bytes = len.saturating_add(PADDING);
        let enough = bytes as u64 <= context.info.memory;
        let once = || {
            // SAFETY: pool and stream are alive, and of one device.
            unsafe { result::mem_pool::alloc_async(context.pool, bytes, self.raw) }
        };
        let mut address = if enough { once() } else { Err(OUT_OF_MEMORY) };
        if enough && address == Err(OUT_OF_MEMORY) {
            result::ctx::synchronize().during("cuCtxSynchronize")?;
            // SAFETY: the pool is alive; only memory that is not in use is given back.
            unsafe { result::mem_pool::trim_to(context.pool, 0) }.during("cuMemPoolTrimTo")?;
            address = once();
        }
        match address {
            Ok(address) => Ok(Memory {
                start: DevicePtr::from_address(address),
                len,
                home: self.clone(),
                guests: Mutex::default(),
                owner: None,
            }),
            Err(OUT_OF_MEMORY) => Err(Error::DeviceMemory {
                place: Place::default(),
                needed: bytes as u64,
                free: context.free_memory()?,
                total: context.info.memory,
                device: context.info.name.clone(),
            }),
            Err(error) => Err(error).during(&format!("allocating {bytes} bytes")),
        }
    }

    /// Memory of others, kept by `owner`.
    pub fn adopt(self: &Arc<Self>, start: DevicePtr<u8>, len: usize, owner: Owner) -> Memory {
        let owner = Some(owner);
        Memory { start, len, home: self.clone(), guests: Mutex::default(), owner }
    }

    /// That `memory` is of this device and has these bytes.
    pub fn check(&self, memory: &Memory, range: Range<usize>, what: &str) -> Result<()> {
        if !Arc::ptr_eq(&self.context, &memory.home.context) {
            return Err(Error::device(format!("{what}: a buffer of another device")));
        }
        if range.start > range.end || range.end > memory.len {
            return Err(Error::device(format!(
                "{what}: bytes {} to {} of a buffer of {}",
                range.start, range.end, memory.len
            )));
        }
        Ok(())
    }

    /// The address, for the driver, of `range` in `memory`, which is used on this stream from now on.
    fn use_of(self: &Arc<Self>, memory: &Memory, range: Range<usize>, what: &str) -> Result<u64> {
        let start = range.start;
        self.check(memory, range, what)?;
        memory.used_on(self);
        self.context.bind()?;
        Ok(memory.start.add(start).address())
    }

    pub fn fill(self: &Arc<Self>, memory: &Memory, range: Range<usize>, byte: u8) -> Result<()> {
        let len = range.len();
        let address = self.use_of(memory, range, "fill")?;
        if len == 0 {
            return Ok(());
        }
        // SAFETY: `use_of` has checked the range, and keeps the memory until this is done.
        unsafe { result::memset_d8_async(address, byte, len, self.raw) }.during("cuMemsetD8Async")
    }

    pub fn copy(
        self: &Arc<Self>,
        source: (&Memory, usize),
        target: (&Memory, usize),
        len: usize,
    ) -> Result<()> {
        let from = source.1..source.1.saturating_add(len);
        let to = target.1..target.1.saturating_add(len);
        let from = self.use_of(source.0, from, "copy")?;
        let to = self.use_of(target.0, to, "copy")?;
        if from < to + len as u64 && to < from + len as u64 {
            return Err(Error::device("copy: source and target overlap"));
        }
        if len == 0 {
            return Ok(());
        }
        // SAFETY: `use_of` has checked both ranges, and keeps the memory until this
        // is done; they do not overlap.
        unsafe { result::memcpy_dtod_async(to, from, len, self.raw) }.during("cuMemcpyDtoDAsync")
    }

    /// Copies memory of another device and waits for the copy: the source does not count this stream
    /// among those that use it, as events of one device cannot be recorded on streams of another.
    pub fn copy_from_peer(
        self: &Arc<Self>,
        source: &Memory,
        target: &Memory,
        len: usize,
    ) -> Result<()> {
        let peer = &source.home.context;
        source.home.check(source, 0..len, "copy from a peer")?;
        let to = self.use_of(target, 0..len, "copy from a peer")?;
        if len == 0 {
            return Ok(());
        }
        peer.admit(&self.context);
        self.context.bind()?;
        let (from, contexts) = (source.start.address(), [&self.context, peer]);
        let [own, of_peer] = contexts.map(|context| context.inner.cu_ctx());
        // SAFETY: both ranges have been checked, in the contexts of their devices; the source is
        // borrowed until the copy is done.
        let started = unsafe { result::memcpy_peer_async(own, to, of_peer, from, len, self.raw) };
        started.during("cuMemcpyPeerAsync")?;
        self.synchronize()
    }

    /// Starts a kernel with one plain struct as its argument.
    pub fn launch(
        self: &Arc<Self>,
        function: &Function,
        (blocks, threads, shared): (u32, u32, u32),
        arguments: &[u8],
        memories: &[&Memory],
    ) -> Result<()> {
        let name = &*function.name;
        let fail = |what: &str| Err(Error::device(format!("kernel {name}: {what}")));
        if !Arc::ptr_eq(&self.context, &function.module.context) {
            return fail("loaded on another device");
        }
        // As long as an argument can be, so that the driver finds as many bytes as
        // the kernel takes, whatever was given.
        let mut block = [0u64; ARGUMENT_BYTES / 8];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut block);
        let Some(target) = bytes.get_mut(..arguments.len()) else {
            return fail(&format!("{} bytes of arguments", arguments.len()));
        };
        target.copy_from_slice(arguments);
        for memory in memories {
            self.use_of(memory, 0..0, name)?;
        }
        self.context.bind()?;
        function.allow_shared(shared)?;
        *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(function.name.clone());
        let mut parameters = [block.as_mut_ptr().cast::<c_void>()];
        // SAFETY: the function is of a loaded module of this context (checked above)
        // and takes one argument, as all our kernels do; the driver copies it before
        // it returns. What it points into is listed in `memories`, which `use_of`
        // keeps until the kernel is done.
        unsafe {
            result::launch_kernel(
                function.raw,
                (blocks, 1, 1),
                (threads, 1, 1),
                shared,
                self.raw,
                &mut parameters,
            )
        }
        .during(&format!("kernel {name} ({blocks} blocks of {threads} threads)"))
    }

    pub fn record(&self, mark: &Mark) -> Result<()> {
        self.context.bind()?;
        // SAFETY: stream and event are alive; the driver refuses events of another device.
        unsafe { result::event::record(mark.raw, self.raw) }.during("cuEventRecord")
    }

    pub fn wait(&self, mark: &Mark) -> Result<()> {
        self.context.bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event are alive.
        unsafe { result::stream::wait_event(self.raw, mark.raw, flags) }.during("cuStreamWaitEvent")
    }

    /// Lets the stream wait for an event of others.
    ///
    /// # Safety
    /// `event` is a valid event of this device.
    pub unsafe fn wait_for_handle(&self, event: *mut c_void) -> Result<()> {
        self.context.bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream is alive, the event by the caller's promise.
        unsafe { result::stream::wait_event(self.raw, event.cast(), flags) }
            .during("cuStreamWaitEvent")
    }

    /// Waits for all work of the stream. Also reports what went wrong in freeing
    /// something of this device since the last time.
    pub fn synchronize(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the stream is alive.
        let done = unsafe { result::stream::synchronize(self.raw) };
        let kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match kernel {
            Some(kernel) => done.during(&format!("stream whose last kernel was {kernel}"))?,
            None => done.during("stream")?,
        }
        let deferred = self.context.deferred.lock().unwrap_or_else(PoisonError::into_inner).take();
        deferred.map_or(Ok(()), Err)
    }
}

const OUT_OF_MEMORY: DriverError = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once. Returns at once; the driver lets
        // the work of the stream end first.
        let destroy = || unsafe { result::stream::destroy(self.raw) }.during("cuStreamDestroy");
        self.context.defer(self.context.bind().and_then(|()| destroy()));
    }
}

/// Memory of a device, freed in the order of the stream that allocated it.
#[derive(Debug)]
pub(super) struct Memory {
    start: DevicePtr<u8>,
    len: usize,
    home: Arc<Queue>,
    /// Other streams that have used it.
    guests: Mutex<Vec<Arc<Queue>>>,
    /// Of memory of others, what keeps it.
    owner: Option<Owner>,
}

impl Memory {
    pub fn start(&self) -> DevicePtr<u8> {
        self.start
    }

    /// Bytes asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    fn used_on(&self, queue: &Arc<Queue>) {
        if Arc::ptr_eq(queue, &self.home) {
            return;
        }
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if !guests.iter().any(|guest| Arc::ptr_eq(guest, queue)) {
            guests.push(queue.clone());
        }
    }

    /// Frees it on its own stream, which first waits for what the others have been
    /// given so far. Nothing waits here.
    fn free(&mut self) -> Result<()> {
        let guests = self.guests.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = self.owner.take() {
            // Whoever owns it does not know of our streams.
            let mut done = Ok(());
            for queue in guests.drain(..).chain([self.home.clone()]) {
                done = done.and(queue.synchronize());
            }
            drop(owner);
            return done;
        }
        for guest in guests.drain(..) {
            let mark = Mark::new(&self.home.context, false)?;
            guest.record(&mark)?;
            self.home.wait(&mark)?;
        }
        self.home.context.bind()?;
        // SAFETY: allocated by `Queue::allocate`, freed once; every use on another
        // stream went through `used_on` and comes before this one.
        unsafe { result::free_async(self.start.address(), self.home.raw) }.during("cuMemFreeAsync")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Where waiting for a guest fails the memory is not freed: better lost than
        // written to by whoever gets it next.
        let freed = self.free();
        self.home.context.defer(freed);
    }
}

/// An event.
pub(super) struct Mark {
    raw: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: an event handle may be used by any thread; the driver locks what it must.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark({:?})", self.raw)
    }
}

impl Mark {
    pub fn new(context: &Arc<Context>, timing: bool) -> Result<Self> {
        context.bind()?;
        let flags = match timing {
            true => CUevent_flags::CU_EVENT_DEFAULT,
            false => CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let raw = result::event::create(flags).during("cuEventCreate")?;
        Ok(Self { raw, context: context.clone() })
    }

    /// One that a thread sleeps for; others spin.
    pub fn restful(context: &Arc<Context>) -> Result<Self> {
        context.bind()?;
        let flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32
            | CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { sys::cuEventCreate(&raw mut raw, flags) }.result().during("cuEventCreate")?;
        Ok(Self { raw, context: context.clone() })
    }

    /// Waits for it.
    pub fn synchronize(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.raw) }.during("event")
    }

    /// Whether what it marks is done. Errors show when it is waited for.
    fn is_done(&self) -> bool {
        // SAFETY: the event is alive.
        self.context.bind().is_ok() && unsafe { result::event::query(self.raw) }.is_ok()
    }

    /// Milliseconds from `earlier` to this one, both of which are done.
    pub fn milliseconds_since(&self, earlier: &Mark) -> Result<f32> {
        self.context.bind()?;
        // SAFETY: both events are alive; the driver refuses events of another device.
        unsafe { result::event::elapsed(earlier.raw, self.raw) }.during("cuEventElapsedTime")
    }

    /// Where the handle lies.
    pub fn handle(&self) -> *mut c_void {
        (&raw const self.raw).cast_mut().cast()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once. It need not be done.
        let destroy = || unsafe { result::event::destroy(self.raw) }.during("cuEventDestroy");
        self.context.defer(self.context.bind().and_then(|()| destroy()));
    }
}
