//! Copies between host and device: from and to page-locked memory directly, else
//! through slots of it.
//!
//! ```text
//! piece 0: thread 0 --> slot --DMA--> device
//! piece 1:   thread 1 --> slot --DMA--> device
//! piece 2:     thread 2 --> slot --DMA--> device      ...
//! ```
//!
//! The device copies page-locked memory by itself at the speed of the bus (55 GB/s on
//! PCIe 5), one thread copies memory at about 10 GB/s, and less if the pages that it
//! writes to are new; so every thread takes one piece after another, each through a slot
//! of its own. The threads are those of a pool that all copies share; starting some for each copy
//! took a quarter to a third of the time. Slots are allocated when first needed, and then kept:
//! pinning costs as much as copying.
//!
//! Nothing is copied from or to other memory directly, however short. The driver's
//! documentation ("API synchronization behavior") only says that such a copy *might*
//! be synchronous, so there is no moment at which the caller may have its bytes
//! back; short copies use small slots, of which there are enough that parameters
//! of dozens of kernels can wait in a stream without anybody waiting for them.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::driver::{Context, Memory, Queue, Slot};
use crate::error::Result;

/// Copies up to this long use small slots.
const SMALL: usize = 64 << 10;
const SMALL_SLOTS: usize = 32;

/// Longer copies go in pieces of this size.
const LARGE: usize = 2 << 20;
const LARGE_SLOTS: usize = 32;

/// Copies of page-locked memory from this length on wait for their turn.
const LONG: usize = 1 << 20;

/// Long copies that run at a time in a direction. Copies share the bandwidth of the bus: each of four
/// takes four times as long, so that kernels wait for all four. With two, the second copy is in its
/// stream when the first one ends.
const AT_A_TIME: usize = 2;

/// Threads of a copy. Twelve gain nothing over eight where pages are not new.
const THREADS: usize = 12;

/// The slots of a device.
#[derive(Debug)]
pub(super) struct Staging {
    context: Arc<Context>,
    small: Slots,
    large: Slots,
    up: Turns,
    down: Turns,
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
        let (small, large) = (slots(SMALL, SMALL_SLOTS), slots(LARGE, LARGE_SLOTS));
        let [up, down] = [(); 2].map(|()| Turns::new(AT_A_TIME));
        Self { context: context.clone(), small, large, up, down }
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
        at: usize,
    ) -> Result<()> {
        // Short copies do not wait for what is before them in the stream.
        if source.len() > SMALL && self.context.is_page_locked(source.as_ptr(), source.len()) {
            let _turn = (source.len() >= LONG).then(|| self.up.take());
            return queue.upload(source, memory, at);
        }
        let slots = self.slots(source.len());
        each_piece(source.chunks(slots.size).enumerate(), |(index, piece)| {
            let mut slot = slots.take()?;
            slot.bytes()?[..piece.len()].copy_from_slice(piece);
            queue.send(&mut slot, piece.len(), memory, at + index * slots.size)
        })
    }

    /// The same, without waiting for copies from page-locked memory.
    ///
    /// # Safety
    /// `source` stays, and is not written to, until the copy is done.
    pub unsafe fn start_upload(
        &self,
        queue: &Arc<Queue>,
        source: &[u8],
        memory: &Memory,
        at: usize,
    ) -> Result<()> {
        if source.len() > SMALL && self.context.is_page_locked(source.as_ptr(), source.len()) {
            // SAFETY: the caller's promise.
            return unsafe { queue.start_upload(source, memory, at) };
        }
        self.upload(queue, source, memory, at)
    }

    /// Copies bytes from the device, and waits for them.
    pub fn download(
        &self,
        queue: &Arc<Queue>,
        memory: &Memory,
        at: usize,
        target: &mut [MaybeUninit<u8>],
    ) -> Result<()> {
        let start = target.as_ptr().cast();
        if target.len() > SMALL && self.context.is_page_locked(start, target.len()) {
            let _turn = (target.len() >= LONG).then(|| self.down.take());
            return queue.download(memory, at, target);
        }
        let slots = self.slots(target.len());
        each_piece(target.chunks_mut(slots.size).enumerate(), |(index, piece)| {
            let mut slot = slots.take()?;
            queue.receive(memory, at + index * slots.size, &mut slot, piece.len())?;
            let bytes = &slot.bytes()?[..piece.len()];
            for (to, from) in piece.iter_mut().zip(bytes) {
                to.write(*from);
            }
            Ok(())
        })
    }
}

/// Threads that copy, whatever they copy: started once.
///
/// Not those that plan: one of rayon's that waits for a slot would be missing there.
fn copiers() -> Option<&'static rayon::ThreadPool> {
    static COPIERS: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let start = || {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = rayon::ThreadPoolBuilder::new().num_threads(THREADS.min(processors));
        threads.thread_name(|index| format!("lanepack-copy-{index}")).build().ok()
    };
    COPIERS.get_or_init(start).as_ref()
}

/// Does something for every piece, by the threads that copy; by the calling one where there is one
/// piece. A thread holds one slot at a time, so that none waits for another's.
fn each_piece<T: Send>(
    mut pieces: impl ExactSizeIterator<Item = T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let Some(copiers) = copiers().filter(|_| pieces.len() > 1) else {
        return pieces.try_for_each(work);
    };
    let failed = OnceLock::new();
    copiers.in_place_scope(|scope| {
        // Piece by piece, so that a short copy does not wait for all of a long one.
        for piece in pieces {
            let (work, failed) = (&work, &failed);
            scope.spawn(move |_| {
                if failed.get().is_none()
                    && let Err(error) = work(piece)
                {
                    let _ = failed.set(error);
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// A number of threads at a time.
#[derive(Debug)]
struct Turns {
    free: Mutex<usize>,
    returned: Condvar,
}

impl Turns {
    fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), returned: Condvar::new() }
    }

    /// Waits until it is the thread's turn, which lasts until what is returned is dropped.
    fn take(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.returned.wait_while(free, |free| *free == 0);
        *wait.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}

/// Page-locked buffers of one size.
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
    /// Slots that nobody holds; the first has been returned first. The device may
    /// still be copying.
    free: VecDeque<Slot>,
    /// Slots that exist.
    made: usize,
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, Returned> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot; waits until there is one.
    fn take(&self) -> Result<Taken<'_>> {
        let mut state = self.state();
        while state.free.is_empty() && state.made == self.most {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // One that is not idle would have to be waited for: better make another.
        let idle = state.free.front().is_some_and(Slot::is_idle);
        if idle || state.made == self.most {
            return Ok(Taken { slot: state.free.pop_front(), slots: self });
        }
        state.made += 1;
        drop(state);
        let made = Slot::new(&self.context, self.size, self.size > SMALL).inspect_err(|_| {
            self.state().made -= 1;
            self.returned.notify_one();
        })?;
        Ok(Taken { slot: Some(made), slots: self })
    }
}

/// A slot that is returned when dropped.
#[derive(Debug)]
struct Taken<'a> {
    /// Nothing only in `drop`.
    slot: Option<Slot>,
    slots: &'a Slots,
}

impl Deref for Taken<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        self.slot.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.slots.state().free.extend(self.slot.take());
        self.slots.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;

    #[test]
    fn every_piece_is_worked_on_once() {
        for pieces in [0, 1, 2, 100] {
            let done: Vec<_> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
            each_piece(done.iter(), |piece| {
                piece.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .unwrap();
            assert!(done.iter().all(|piece| piece.load(Ordering::Relaxed) == 1), "{pieces}");
        }
    }

    #[test]
    fn says_what_went_wrong_with_a_piece() {
        let fail = |piece| match piece {
            7 => Err(Error::device("seven")),
            _ => Ok(()),
        };
        assert!(each_piece(0..20_usize, fail).unwrap_err().to_string().contains("seven"));
    }
}
