//! Copies between host and device through pinned memory.
//!
//! ```text
//! source --threads--> slot 0 --DMA--> device
//!          source --threads--> slot 1 --DMA--> device      ...
//! ```
//!
//! The device copies pinned memory by itself at the speed of the bus (55 GB/s on
//! PCIe 5), one thread copies memory at about 10 GB/s; so pieces are copied by
//! several threads while the device copies the piece before. Slots are allocated
//! when first needed, and then kept: pinning costs as much as copying.
//!
//! Nothing is copied from or to other memory directly, however short. The driver's
//! documentation ("API synchronization behavior") only says that such a copy *might*
//! be synchronous, so there is no moment at which the caller may have its bytes
//! back; short copies use small slots, of which there are enough that parameters
//! of dozens of kernels can wait in a stream without anybody waiting for them.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::driver::{Context, Memory, Pinned, Queue};
use crate::error::Result;

/// Copies up to this long use small slots.
const SMALL: usize = 64 << 10;
const SMALL_SLOTS: usize = 32;

/// Longer copies go in pieces of this size.
const LARGE: usize = 8 << 20;
const LARGE_SLOTS: usize = 4;

/// Pieces of one download that are under way at a time.
const DOWNLOADS: usize = 2;

/// What one thread copies at a time; shorter copies are not worth a thread.
const PART: usize = 1 << 20;

/// Threads of a copy. More than four gain nothing: they fill the bus.
const THREADS: usize = 4;

/// The pinned memory of a device.
#[derive(Debug)]
pub(super) struct Staging {
    small: Slots,
    large: Slots,
}

impl Staging {
    pub fn new(context: &Arc<Context>) -> Self {
        let slots = |size, most| Slots {
            context: context.clone(),
            size,
            most,
            state: Mutex::default(),
            returned: Condvar::new(),
        };
        Self { small: slots(SMALL, SMALL_SLOTS), large: slots(LARGE, LARGE_SLOTS) }
    }

    fn slots(&self, len: usize) -> &Slots {
        if len <= SMALL { &self.small } else { &self.large }
    }

    /// Copies bytes to the device; has read them all when it returns.
    pub fn upload(
        &self,
        queue: &Arc<Queue>,
        source: &[u8],
        memory: &Memory,
        mut at: usize,
    ) -> Result<()> {
        let slots = self.slots(source.len());
        for piece in source.chunks(slots.size) {
            let mut slot = slots.take()?;
            copy(piece, &mut slot.bytes()?[..piece.len()]);
            queue.send(&mut slot, piece.len(), memory, at)?;
            at += piece.len();
        }
        Ok(())
    }

    /// Copies bytes from the device, and waits for them.
    pub fn download(
        &self,
        queue: &Arc<Queue>,
        memory: &Memory,
        mut at: usize,
        target: &mut [u8],
    ) -> Result<()> {
        let slots = self.slots(target.len());
        let mut under_way: VecDeque<(Slot<'_>, &mut [u8])> = VecDeque::new();
        for piece in target.chunks_mut(slots.size) {
            // Who holds a slot must not wait for another: two could wait for each other.
            let mut slot = match under_way.len() {
                0 => slots.take()?,
                DOWNLOADS => arrive(&mut under_way)?.map_or_else(|| slots.take(), Ok)?,
                _ => match slots.take_if_any()? {
                    Some(slot) => slot,
                    None => arrive(&mut under_way)?.map_or_else(|| slots.take(), Ok)?,
                },
            };
            queue.receive(memory, at, &mut slot, piece.len())?;
            at += piece.len();
            under_way.push_back((slot, piece));
        }
        while arrive(&mut under_way)?.is_some() {}
        Ok(())
    }
}

/// Waits for the first piece under way, copies it to its place, and gives its slot.
fn arrive<'a>(under_way: &mut VecDeque<(Slot<'a>, &mut [u8])>) -> Result<Option<Slot<'a>>> {
    let Some((mut slot, piece)) = under_way.pop_front() else { return Ok(None) };
    copy(&slot.bytes()?[..piece.len()], piece);
    Ok(Some(slot))
}

/// Pinned buffers of one size.
#[derive(Debug)]
struct Slots {
    context: Arc<Context>,
    size: usize,
    most: usize,
    state: Mutex<Returned>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Returned {
    /// Buffers that nobody holds; the first has been returned first. The device may
    /// still be copying.
    free: VecDeque<Pinned>,
    /// Buffers that exist.
    made: usize,
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, Returned> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot; waits until there is one.
    fn take(&self) -> Result<Slot<'_>> {
        let mut state = self.state();
        while state.free.is_empty() && state.made == self.most {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.take_from(state)
    }

    /// A slot, unless others hold them all.
    fn take_if_any(&self) -> Result<Option<Slot<'_>>> {
        let state = self.state();
        if state.free.is_empty() && state.made == self.most {
            return Ok(None);
        }
        self.take_from(state).map(Some)
    }

    fn take_from(&self, mut state: MutexGuard<'_, Returned>) -> Result<Slot<'_>> {
        // One that is not idle would have to be waited for: better make another.
        let idle = state.free.front().is_some_and(Pinned::is_idle);
        if idle || state.made == self.most {
            return Ok(Slot { pinned: state.free.pop_front(), slots: self });
        }
        state.made += 1;
        drop(state);
        let made = Pinned::new(&self.context, self.size).inspect_err(|_| {
            self.state().made -= 1;
            self.returned.notify_one();
        })?;
        Ok(Slot { pinned: Some(made), slots: self })
    }
}

/// A pinned buffer that is returned when dropped.
#[derive(Debug)]
struct Slot<'a> {
    /// Nothing only in `drop`.
    pinned: Option<Pinned>,
    slots: &'a Slots,
}

impl Deref for Slot<'_> {
    type Target = Pinned;

    fn deref(&self) -> &Pinned {
        self.pinned.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Slot<'_> {
    fn deref_mut(&mut self) -> &mut Pinned {
        self.pinned.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.state().free.extend(self.pinned.take());
        self.slots.returned.notify_one();
    }
}

/// Copies bytes, long ones with several threads.
///
/// Threads of their own rather than rayon's: a worker of rayon's that waits may
/// take up another copy meanwhile, and wait there for the slot that it holds here.
fn copy(source: &[u8], target: &mut [u8]) {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let processors =
        *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
    let threads = source.len().div_ceil(PART).min(THREADS).min(processors);
    if threads <= 1 {
        target.copy_from_slice(source);
        return;
    }
    let parts = Mutex::new(target.chunks_mut(PART).zip(source.chunks(PART)));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((target, source)) = next() {
            target.copy_from_slice(source);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without a thread the others copy its part.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_every_byte_with_any_number_of_threads() {
        for len in [0, 1, PART - 1, PART, PART + 1, 5 * PART + 17] {
            let source: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
            let mut target = vec![0; len];
            copy(&source, &mut target);
            assert!(source == target, "{len} bytes");
        }
    }
}
