//! Page-locked host memory, and the copies that the device makes from and to it.
//!
//! A copy from or to page-locked memory runs beside the host, and nothing but an event
//! behind it says when it is done. [`Queue::upload`] and [`Queue::download`] wait for
//! theirs before they return, so that whoever lent them the bytes need not know of it;
//! copies overlap because several threads make them. Only a [`Slot`] is let go of while
//! the device may still be copying: it owns its bytes, and waits before it shows or
//! frees them.
//!
//! Tried and lost: long copies in pieces of 2 MiB, two under way at a time, so that a short
//! copy, of a plan or a report that the host waits for, is not held up by long ones of
//! other streams. It took decompression of what does not compress from 32 to 37 GB/s, but
//! compression from 45 to 35 (24 of 64 bits): threads that sleep wake late while others
//! make checksums. Pieces of 4 MiB all given at once: nothing.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, MutexGuard, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUpointer_attribute as Attribute};

use super::super::failure::During;
use super::super::numa;
use super::{Context, Mark, Memory, Queue};
use crate::error::{Error, Result};
use crate::gpu::HostMemory;

/// Page-locked memory, initialised by the system: the driver maps pages of it.
pub(in super::super) struct PageLocked {
    pointer: NonNull<u8>,
    len: usize,
    context: Arc<Context>,
}

// SAFETY: owns its memory, as a `Box<[u8]>` would.
unsafe impl Send for PageLocked {}
// SAFETY: as above.
unsafe impl Sync for PageLocked {}

impl fmt::Debug for PageLocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageLocked({} bytes)", self.len)
    }
}

impl PageLocked {
    pub fn new(context: &Arc<Context>, len: usize) -> Result<Self> {
        context.bind()?;
        let failed = || format!("cuMemHostAlloc of {len} bytes");
        // SAFETY: no flags; the memory is freed by `drop`.
        let allocate = || unsafe { result::malloc_host(len.max(1), 0) };
        let pointer = numa::on_node(context.node, allocate).during(&failed())?;
        let pointer = NonNull::new(pointer.cast()).ok_or_else(|| Error::device(failed()))?;
        let start = pointer.as_ptr() as usize;
        context.page_locked().push(start..start + len);
        Ok(Self { pointer, len, context: context.clone() })
    }
}

impl HostMemory for PageLocked {
    fn start(&self) -> NonNull<u8> {
        self.pointer
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for PageLocked {
    fn drop(&mut self) {
        let start = self.pointer.as_ptr() as usize;
        self.context.page_locked().retain(|range| range.start != start);
        // SAFETY: allocated by `new`, freed once. No copy is under way: `Slot` waits for
        // its own before, and all others are waited for while the bytes are borrowed.
        let free = || unsafe { result::free_host(self.pointer.as_ptr().cast()) };
        let freed = self.context.bind().and_then(|()| free().during("cuMemFreeHost"));
        self.context.defer(freed);
    }
}

impl Context {
    fn page_locked(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.page_locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what is ours, so that the driver is asked.
    #[cfg(test)]
    pub fn forget_page_locked(&self) {
        self.page_locked().clear();
    }

    /// Whether the device may copy `len` bytes from `start` on by itself: they lie in one
    /// piece of page-locked memory, of ours or of whoever else is in this process.
    pub fn is_page_locked(&self, start: *const u8, len: usize) -> bool {
        let (start, end) = (start as usize, (start as usize).saturating_add(len));
        let ours = |range: &Range<usize>| range.start <= start && end <= range.end;
        if self.page_locked().iter().any(ours) {
            return true;
        }
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        let mut values = [0_u64; 4];
        let mut places = values.each_mut().map(|value| std::ptr::from_mut(value).cast());
        let (count, address) = (attributes.len() as u32, start as u64);
        // SAFETY: an attribute takes at most the eight bytes that each place has. The
        // address is not followed; one that the driver does not know leaves zeros.
        let asked = self.bind().is_ok()
            && unsafe {
                sys::cuPointerGetAttributes(
                    count,
                    attributes.as_mut_ptr(),
                    places.as_mut_ptr(),
                    address,
                )
            }
            .result()
            .is_ok();
        let [kind, managed, first, size] = values;
        let is_host = kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u64 && managed == 0;
        asked && is_host && first as usize <= start && end as u64 <= first.saturating_add(size)
    }
}

impl Queue {
    /// Copies page-locked bytes to the device, and waits.
    pub fn upload(self: &Arc<Self>, source: &[u8], memory: &Memory, at: usize) -> Result<()> {
        let address = self.use_of(memory, at..at.saturating_add(source.len()), "upload")?;
        let mark = Mark::restful(&self.context)?;
        // SAFETY: `use_of` has checked the range, and keeps the memory until this is
        // done; the source stays borrowed until `arrived` has waited.
        let copy = unsafe { result::memcpy_htod_async(address, source, self.raw) };
        copy.during("cuMemcpyHtoDAsync")?;
        self.arrived(&mark)
    }

    /// Starts copying page-locked bytes to the device.
    ///
    /// # Safety
    /// `source` stays, and is not written to, until the copy is done.
    pub unsafe fn start_upload(
        self: &Arc<Self>,
        source: &[u8],
        memory: &Memory,
        at: usize,
    ) -> Result<()> {
        let address = self.use_of(memory, at..at.saturating_add(source.len()), "upload")?;
        // SAFETY: `use_of` has checked the range, and keeps the memory until this is done; the source stays,
        // as the caller promises.
        let copy = unsafe { result::memcpy_htod_async(address, source, self.raw) };
        copy.during("cuMemcpyHtoDAsync")
    }

    /// Copies bytes from the device to page-locked memory, and waits.
    pub fn download(
        self: &Arc<Self>,
        memory: &Memory,
        at: usize,
        target: &mut [MaybeUninit<u8>],
    ) -> Result<()> {
        let address = self.use_of(memory, at..at.saturating_add(target.len()), "download")?;
        let mark = Mark::restful(&self.context)?;
        // SAFETY: as in `upload`.
        let copy = unsafe { result::memcpy_dtoh_async(target, address, self.raw) };
        copy.during("cuMemcpyDtoHAsync")?;
        self.arrived(&mark)
    }

    /// Waits for what has been started so far.
    fn arrived(&self, mark: &Mark) -> Result<()> {
        let arrived = self.record(mark).and_then(|()| mark.synchronize());
        if arrived.is_err() {
            // Names the kernel where one before has failed. Where this fails as well the
            // context is lost, and its copies with it.
            self.synchronize()?;
        }
        arrived
    }

    /// Starts copying the first `len` bytes of a slot to the device.
    pub fn send(
        self: &Arc<Self>,
        source: &mut Slot,
        len: usize,
        memory: &Memory,
        at: usize,
    ) -> Result<()> {
        let address = self.use_of(memory, at..at.saturating_add(len), "upload")?;
        let bytes = &source.bytes()?[..len];
        // SAFETY: `use_of` has checked the range, and keeps the memory until this is
        // done; `marked` keeps the slot's bytes from being touched until then.
        unsafe { result::memcpy_htod_async(address, bytes, self.raw) }
            .during("cuMemcpyHtoDAsync")?;
        self.marked(source)
    }

    /// Starts copying bytes from the device to the first `len` of a slot.
    pub fn receive(
        self: &Arc<Self>,
        memory: &Memory,
        at: usize,
        target: &mut Slot,
        len: usize,
    ) -> Result<()> {
        let address = self.use_of(memory, at..at.saturating_add(len), "download")?;
        let bytes = &mut target.bytes()?[..len];
        // SAFETY: as in `send`.
        unsafe { result::memcpy_dtoh_async(bytes, address, self.raw) }
            .during("cuMemcpyDtoHAsync")?;
        self.marked(target)
    }

    /// Makes a slot wait for the copy that has just been started.
    fn marked(self: &Arc<Self>, slot: &mut Slot) -> Result<()> {
        let marked = self.record(&slot.mark);
        if marked.is_err() {
            // The copy may run, and nothing tells when it is done but the stream.
            // If even that fails the context is lost, and the copy with it.
            let _ = self.synchronize();
        } else {
            slot.busy = true;
        }
        marked
    }
}

/// Page-locked memory that copies go through.
#[derive(Debug)]
pub(in super::super) struct Slot {
    memory: PageLocked,
    mark: Mark,
    /// Whether there is a copy to wait for.
    busy: bool,
}

impl Slot {
    /// `is_long` if threads that wait for it had better sleep: others want to copy.
    pub fn new(context: &Arc<Context>, len: usize, is_long: bool) -> Result<Self> {
        let mark = if is_long { Mark::restful(context)? } else { Mark::new(context, false)? };
        let memory = PageLocked::new(context, len)?;
        // SAFETY: `len` bytes have just been allocated, and are nobody else's.
        unsafe { memory.pointer.write_bytes(0, len) };
        Ok(Self { memory, mark, busy: false })
    }

    /// Whether [`bytes`](Self::bytes) need not wait.
    pub fn is_idle(&self) -> bool {
        !self.busy || self.mark.is_done()
    }

    /// The bytes, once the last copy from or to them is done.
    pub fn bytes(&mut self) -> Result<&mut [u8]> {
        if self.busy {
            self.mark.synchronize()?;
            self.busy = false;
        }
        let PageLocked { pointer, len, .. } = self.memory;
        // SAFETY: allocated and zeroed by `new`, borrowed as `self` is; the device
        // does not touch them, since `busy` is set for as long as it may.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), len) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Where waiting fails the context is lost, and its copies with it.
        let context = self.mark.context.clone();
        context.defer(self.bytes().map(drop));
    }
}
