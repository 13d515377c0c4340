//! Page-locked host memory: for users to fill, and for results to arrive in.
//!
//! ```text
//! Pool --allocate--> PinnedBuffer --into--> arrow Buffer --drop--> Pool
//!      --result----> ResultMemory --cut--> Piece --write--> WrittenPiece
//!                       '------finish(all written)--> arrow Buffer --drop--> Pool
//! ```
//!
//! A device copies from and to page-locked memory by itself, at the speed of the bus; all
//! else goes through slots of it (`gpu/cuda/staging.rs`), copied by threads. Locking pages
//! takes longer than copying them, so memory goes back to a pool when the last Arrow
//! buffer in it is dropped. The pool is bounded: what it keeps idle and what results hold
//! stay within a limit, and results beyond it, and those too short to gain, lie in
//! ordinary memory, which is not set to zeros before it is written.
//!
//! A result arrives in pieces, by several threads; a [`Piece`] is the only one to its range,
//! and becomes a [`WrittenPiece`] only when every byte of it has been written.

#[cfg(all(test, lanepack_simt))]
mod tests;

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut, Range};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::{Buffer, MutableBuffer};

use crate::error::{Error, Result};
use crate::gpu::{Device, HostMemory};
use crate::memory::advise_huge_pages;

/// Bytes of page-locked memory that results and idle memory of an engine may take.
const LIMIT: usize = 4 << 30;

/// Shorter results lie in ordinary memory.
const MIN_RESULT: usize = 1 << 20;

/// Page-locked memory comes in multiples of this, so that it fits more than one length.
const STEP: usize = 1 << 20;

/// Page-locked memory of a device that is reused.
#[derive(Debug)]
pub(crate) struct Pool {
    device: Arc<dyn Device>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Bytes that results hold.
    results: usize,
    /// What nobody holds; the first has been returned first.
    idle: Vec<Box<dyn HostMemory>>,
}

impl State {
    fn idle_bytes(&self) -> usize {
        self.idle.iter().map(|memory| memory.len()).sum()
    }

    /// The shortest idle memory of `len` bytes, unless it is more than twice as long; of some that are as short
    /// what was used last, which may still be in the processor's cache.
    fn take(&mut self, len: usize) -> Option<Box<dyn HostMemory>> {
        let fits = |memory: &dyn HostMemory| (len..=len.saturating_mul(2)).contains(&memory.len());
        let shortest = (self.idle.iter().enumerate().rev())
            .filter(|(_, memory)| fits(memory.as_ref()))
            .min_by_key(|(_, memory)| memory.len());
        let index = shortest?.0;
        Some(self.idle.remove(index))
    }

    /// Takes idle memory out, oldest first, until `more` bytes have room; what is to be freed.
    fn make_room(&mut self, more: usize) -> Vec<Box<dyn HostMemory>> {
        let mut out = Vec::new();
        while !self.idle.is_empty() && self.results + self.idle_bytes() + more > self.limit {
            out.push(self.idle.remove(0));
        }
        out
    }
}

impl Pool {
    pub fn new(device: &Arc<dyn Device>) -> Arc<Self> {
        let state = State { limit: LIMIT, results: 0, idle: Vec::new() };
        Arc::new(Self { device: device.clone(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limit; gives idle memory beyond it back to the system.
    pub fn set_limit(&self, bytes: usize) {
        let mut state = self.state();
        state.limit = bytes;
        let freed = state.make_room(0);
        // Freeing takes long, and nothing of the state.
        drop(state);
        drop(freed);
    }

    /// Whether a result of `len` bytes will lie in page-locked memory.
    pub fn has_room(&self, len: usize) -> bool {
        let state = self.state();
        len >= MIN_RESULT && state.results.saturating_add(len) <= state.limit
    }

    /// Page-locked memory of at least `len` bytes for a user, whatever the limit.
    fn allocate(self: &Arc<Self>, len: usize) -> Result<Block> {
        // No memory has more bytes than a slice may have.
        let len = (len.max(1).checked_next_multiple_of(STEP))
            .filter(|len| isize::try_from(*len).is_ok())
            .ok_or_else(|| Error::device(format!("{len} bytes of page-locked memory")))?;
        let idle = self.state().take(len);
        let memory = idle.map_or_else(|| self.device.page_locked(len), Ok)?;
        Ok(Block { memory: Some(memory), is_result: false, pool: self.clone() })
    }

    /// Page-locked memory for a result of `len` bytes; none if there is no more, or if
    /// the result is too short for it to pay.
    fn result(self: &Arc<Self>, len: usize) -> Option<Block> {
        if len < MIN_RESULT {
            return None;
        }
        let len = len.checked_next_multiple_of(STEP)?;
        let mut state = self.state();
        if let Some(memory) = state.take(len) {
            state.results += memory.len();
            return Some(Block { memory: Some(memory), is_result: true, pool: self.clone() });
        }
        if state.results + len > state.limit {
            return None;
        }
        let freed = state.make_room(len);
        state.results += len;
        drop(state);
        drop(freed);
        let Ok(memory) = self.device.page_locked(len) else {
            self.state().results -= len;
            return None;
        };
        Some(Block { memory: Some(memory), is_result: true, pool: self.clone() })
    }

    /// Takes back what a block held.
    fn give_back(&self, memory: Box<dyn HostMemory>, is_result: bool) {
        let len = memory.len();
        let mut state = self.state();
        if is_result {
            state.results -= len;
        }
        if state.results + len > state.limit {
            drop(state);
            return drop(memory);
        }
        // What was used last is kept, for what comes next is likely as long.
        let freed = state.make_room(len);
        state.idle.push(memory);
        drop(state);
        drop(freed);
    }
}

/// Memory of the pool, which goes back there when dropped.
#[derive(Debug)]
struct Block {
    /// Nothing only in `drop`.
    memory: Option<Box<dyn HostMemory>>,
    is_result: bool,
    pool: Arc<Pool>,
}

impl Block {
    fn start(&self) -> NonNull<u8> {
        self.memory.as_ref().map_or(NonNull::dangling(), |memory| memory.start())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory, self.is_result);
        }
    }
}

/// Page-locked host memory to be filled: a slice of bytes, zeros at first, that becomes an
/// Arrow [`Buffer`] without a copy.
///
/// A GPU copies from page-locked memory by itself, at the speed of the bus; from any
/// other memory threads of the host copy first. The memory goes back to its engine when
/// the last Arrow buffer in it is dropped, and is used again.
///
/// ```no_run
/// use arrow_array::Float64Array;
/// use arrow_buffer::{Buffer, ScalarBuffer};
/// use lanepack::Engine;
///
/// let engine = Engine::cuda(0)?;
/// let mut bytes = engine.pinned_buffer(1000 * 8)?;
/// for (row, value) in bytes.chunks_exact_mut(8).enumerate() {
///     value.copy_from_slice(&(row as f64).to_le_bytes());
/// }
/// let array = Float64Array::new(ScalarBuffer::from(Buffer::from(bytes)), None);
/// # Ok::<(), lanepack::Error>(())
/// ```
pub struct PinnedBuffer {
    block: Block,
    len: usize,
}

impl PinnedBuffer {
    /// `len` bytes, zeros.
    ///
    /// # Errors
    /// [`Error::Device`] if so much cannot be locked.
    pub(crate) fn zeroed(pool: &Arc<Pool>, len: usize) -> Result<Self> {
        let block = pool.allocate(len)?;
        // SAFETY: the block has at least so many bytes, which are nobody else's.
        unsafe { block.start().write_bytes(0, len) };
        Ok(Self { block, len })
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} bytes)", self.len)
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block has so many bytes, initialised by `PinnedBuffer::zeroed`.
        unsafe { std::slice::from_raw_parts(self.block.start().as_ptr(), self.len) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the block is this buffer's alone.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().as_ptr(), self.len) }
    }
}

impl From<PinnedBuffer> for Buffer {
    fn from(buffer: PinnedBuffer) -> Self {
        let (start, len) = (buffer.block.start(), buffer.len);
        // SAFETY: the block has so many initialised bytes, stays as long as the buffer,
        // and nobody else writes to it.
        unsafe {
            Buffer::from_custom_allocation(start, len, Arc::new(AssertUnwindSafe(buffer.block)))
        }
    }
}

/// Host memory that a result arrives in, piece by piece.
#[derive(Debug)]
pub(crate) struct ResultMemory {
    room: Room,
    start: NonNull<u8>,
    len: usize,
    /// Bytes that pieces have been cut of.
    cut: Mutex<usize>,
}

#[derive(Debug)]
enum Room {
    PageLocked(#[allow(dead_code, reason = "kept")] Block),
    Ordinary(MutableBuffer),
}

// SAFETY: owns its memory, which is reached through pieces of which no two overlap.
unsafe impl Send for ResultMemory {}
// SAFETY: as above.
unsafe impl Sync for ResultMemory {}

impl ResultMemory {
    /// Room for `len` bytes, page-locked where that pays.
    pub fn new(pool: &Arc<Pool>, len: usize) -> Arc<Self> {
        let (start, room) = match pool.result(len) {
            Some(block) => (block.start(), Room::PageLocked(block)),
            None => {
                let mut memory = MutableBuffer::with_capacity(len);
                advise_huge_pages(memory.as_ptr(), len);
                let start = NonNull::new(memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
                (start, Room::Ordinary(memory))
            }
        };
        Arc::new(Self { room, start, len, cut: Mutex::new(0) })
    }

    /// Whether a device copies from it by itself.
    pub fn is_page_locked(&self) -> bool {
        matches!(self.room, Room::PageLocked(_))
    }

    /// Bytes that there is room for.
    pub fn room(&self) -> usize {
        self.len
    }

    /// The next `len` bytes, if there are so many.
    pub fn cut(self: &Arc<Self>, len: usize) -> Option<Piece> {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let range = *cut..cut.checked_add(len).filter(|end| *end <= self.len)?;
        *cut = range.end;
        Some(Piece { part: WrittenPiece { memory: self.clone(), range }, is_written: false })
    }

    /// All of it as one piece.
    ///
    /// # Panics
    /// If a piece has been cut.
    pub fn all(self: &Arc<Self>) -> Piece {
        self.cut(self.len).expect("nothing has been cut")
    }

    /// The first bytes: those of `written`, one part behind the other.
    ///
    /// # Panics
    /// If a byte is missing.
    pub fn finish(self: Arc<Self>, written: Vec<Arc<WrittenPiece>>) -> Buffer {
        let len = written.iter().fold(0, |end, written| {
            assert!(written.is_of(&self) && written.range.start == end, "bytes are missing");
            written.range.end
        });
        drop(written);
        match Arc::try_unwrap(self) {
            Ok(Self { room: Room::Ordinary(mut memory), .. }) => {
                // SAFETY: allocated for at least so many bytes, which have been written.
                unsafe { memory.set_len(len) };
                memory.into()
            }
            // SAFETY: the bytes have been written, and stay as long as the memory;
            // whoever still has a `WrittenPiece` only reads.
            Ok(memory) => unsafe {
                let start = memory.start;
                Buffer::from_custom_allocation(start, len, Arc::new(AssertUnwindSafe(memory)))
            },
            // SAFETY: as above.
            Err(shared) => unsafe {
                Buffer::from_custom_allocation(
                    shared.start,
                    len,
                    Arc::new(AssertUnwindSafe(shared)),
                )
            },
        }
    }
}

/// A part of a result that is still to arrive.
#[derive(Debug)]
pub(crate) struct Piece {
    part: WrittenPiece,
    is_written: bool,
}

impl Piece {
    /// Its bytes.
    pub fn len(&self) -> usize {
        self.part.range.len()
    }

    /// Lets `write` write every byte, which it has done if it does not fail.
    pub fn write(
        mut self,
        write: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<()>,
    ) -> Result<Arc<WrittenPiece>> {
        self.fill_with(write)?;
        Ok(self.into_written())
    }

    /// The same of a piece that may be written once more.
    pub fn fill_with(
        &mut self,
        write: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<()>,
    ) -> Result<()> {
        self.is_written = false;
        write(self.uninit())?;
        self.is_written = true;
        Ok(())
    }

    /// Sets every byte to `byte`.
    pub fn fill(self, byte: u8) -> Result<Arc<WrittenPiece>> {
        self.write(|bytes| {
            bytes.fill(MaybeUninit::new(byte));
            Ok(())
        })
    }

    /// Sets every byte to zero, for somebody to write to.
    pub fn zeroed(&mut self) -> &mut [u8] {
        self.uninit().fill(MaybeUninit::new(0));
        self.is_written = true;
        self.bytes_mut()
    }

    /// Its bytes, whatever they are, for somebody to overwrite; zeros in ordinary memory.
    pub fn arbitrary(&mut self) -> &mut [u8] {
        match self.part.memory.room {
            // What is page-locked has been initialised (`Device::page_locked`).
            Room::PageLocked(_) => self.is_written = true,
            Room::Ordinary(_) => drop(self.zeroed()),
        }
        self.bytes_mut()
    }

    /// Its bytes.
    ///
    /// # Panics
    /// If they have not been written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.is_written, "a piece that has not been written");
        let bytes = std::ptr::from_mut(self.uninit()) as *mut [u8];
        // SAFETY: the same bytes, borrowed as long; `is_written`, asserted above, is set only once every
        // byte has been written, or where all are initialised.
        unsafe { &mut *bytes }
    }

    /// A part that has arrived.
    ///
    /// # Panics
    /// If it has not been written.
    pub fn into_written(self) -> Arc<WrittenPiece> {
        assert!(self.is_written, "a piece that has not been written");
        Arc::new(self.part)
    }

    /// This piece and the one that begins where it ends, as one.
    ///
    /// # Panics
    /// If the other one begins elsewhere.
    pub fn join(self, next: Self) -> Self {
        let WrittenPiece { memory, range } = self.part;
        let follows = next.part.is_of(&memory) && next.part.range.start == range.end;
        assert!(follows, "a piece that does not follow");
        let part = WrittenPiece { memory, range: range.start..next.part.range.end };
        Self { part, is_written: self.is_written && next.is_written }
    }

    /// The first `len` bytes, and the rest.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split(self, len: usize) -> (Self, Self) {
        let WrittenPiece { memory, range } = self.part;
        assert!(len <= range.len(), "a piece of fewer bytes");
        let middle = range.start + len;
        let piece = |range| {
            let part = WrittenPiece { memory: memory.clone(), range };
            Self { part, is_written: self.is_written }
        };
        (piece(range.start..middle), piece(middle..range.end))
    }

    fn uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        let WrittenPiece { memory, range } = &self.part;
        // SAFETY: within the memory, and no other piece's: `ResultMemory::cut` checks the length and
        // gives every byte once, `join` and `split` consume the pieces whose ranges they take.
        unsafe {
            let start = memory.start.as_ptr().add(range.start).cast();
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }
}

/// A part of a result that has arrived.
#[derive(Debug)]
pub(crate) struct WrittenPiece {
    memory: Arc<ResultMemory>,
    range: Range<usize>,
}

impl WrittenPiece {
    /// Its bytes as a buffer, which keeps the memory.
    pub fn to_buffer(this: &Arc<Self>) -> Buffer {
        let start = NonNull::from(&***this).cast();
        // SAFETY: the bytes have been written (`Piece::into_written` asserts it) and nobody writes to
        // them again, as that consumes the piece; they stay as long as `this`, which the buffer owns.
        unsafe {
            Buffer::from_custom_allocation(
                start,
                this.len(),
                Arc::new(AssertUnwindSafe(this.clone())),
            )
        }
    }

    /// Whether it is a part of `memory`.
    pub fn is_of(&self, memory: &Arc<ResultMemory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }
}

impl Deref for WrittenPiece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within the memory, and written (`Piece::write`); nobody writes
        // to it again.
        unsafe {
            let start = self.memory.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.range.len())
        }
    }
}
