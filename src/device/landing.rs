//! Bytes that are read into page-locked memory, and copied to a device as they arrive: chunks of files, that a
//! scan is going to read there.
//!
//! ```text
//! read and checked, by threads of the host   [part 0] [part 2] [part 4]     page-locked memory, used again
//!                                            [part 1]  [part 3]             as soon as it has been copied
//! copied, by the device                            [0][1]  [2][3]           device memory
//! ```
//!
//! Some MiB of the host's memory are used, however much is read: memory that stays in the processor's cache is
//! read into twice as fast as other memory. A part is copied once it has been read; of its chunks the host keeps
//! headers and bounds ([`LandedChunk`]). A copy of [`PART_BYTES`] takes the bus an eighth longer than its
//! share of a long copy, one of half as many bytes a fifth (docs/experiments.md, "Files to a GPU").

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arrow_buffer::Buffer;
use arrow_schema::FieldRef;

use super::Context;
use super::column::{Bounds, DeviceChunk, DeviceColumn};
use super::pinned::{ResultMemory, WrittenPiece};
use crate::chunk::{ALIGNMENT, Chunk, Header, Statistics};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DevicePtr, Event, Priority, Stream};

/// Bytes that are best copied at a time.
pub(crate) const PART_BYTES: usize = 2 << 20;
/// Bytes of host memory whose copies are under way, for each thread that reads, and of all together.
const UNDER_WAY: usize = PART_BYTES;
const MOST_UNDER_WAY: usize = 16 * UNDER_WAY;
/// Parts of so few bytes lie in memory that is not page-locked, and are copied before they are given back.
const SHORT: usize = 64 << 10;

/// Copies to the memory of a device.
#[derive(Debug)]
pub(crate) struct Landing {
    context: Arc<Context>,
    /// The stream of all copies, which are done in the order of their start.
    stream: Arc<dyn Stream>,
    under_way: Mutex<UnderWay>,
    /// Held by the thread that starts copies, for all others.
    starting: Mutex<()>,
}

#[derive(Debug, Default)]
struct UnderWay {
    /// Those that have been read, and are not started yet.
    read: VecDeque<Copy>,
    /// Those that have been started, about in that order.
    started: VecDeque<StartedCopy>,
    /// Host memory of both.
    bytes: usize,
    /// Events of copies that are done, to be used again.
    events: Vec<Arc<dyn Event>>,
    /// Why a copy could not be started: its bytes never arrive.
    failed: Option<String>,
}

/// A part that is to be copied to the device.
#[derive(Debug)]
struct Copy {
    source: Arc<WrittenPiece>,
    /// Bytes of the memory of the source.
    bytes: usize,
    target: Arc<DeviceBuffer>,
    at: usize,
}

/// A part that is being copied.
#[derive(Debug)]
struct StartedCopy {
    source: Arc<WrittenPiece>,
    bytes: usize,
    /// Behind the copy.
    done: Arc<dyn Event>,
}

/// A chunk that has been read and checked.
#[derive(Debug, Clone)]
pub(crate) struct LandedChunk {
    header: Header,
    statistics: Statistics,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    /// On the device, or on its way.
    Device(Arc<DeviceBuffer>, DevicePtr<u8>),
    /// Still to be copied.
    Host(Buffer),
}

impl LandedChunk {
    /// A chunk whose body goes to byte `at` of device memory. One that would not be aligned there is copied once
    /// more, from host memory of its own.
    pub fn on_device(chunk: &Chunk, memory: &Arc<DeviceBuffer>, at: usize) -> Self {
        let body = match at % ALIGNMENT {
            0 => Body::Device(memory.clone(), memory.pointer_at(at)),
            _ => Body::Host(Buffer::from(chunk.body().as_slice())),
        };
        Self::new(chunk, body)
    }

    /// A chunk whose body is in host memory, and stays there until its column is put together.
    pub fn on_host(chunk: &Chunk) -> Self {
        Self::new(chunk, Body::Host(chunk.body().clone()))
    }

    fn new(chunk: &Chunk, body: Body) -> Self {
        let header = chunk.parsed_header().clone();
        Self { header, statistics: chunk.statistics().clone(), body }
    }
}

impl Landing {
    /// A place for parts that are to be on a device.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device).
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let stream = context.lend_stream(Priority::Usual)?;
        let (under_way, starting) = Default::default();
        Ok(Self { context: context.clone(), stream, under_way, starting })
    }

    /// The device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Device memory that parts are to be copied to.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error::DeviceMemory), [`Error::Device`](crate::Error::Device).
    pub fn allocate(&self, len: usize) -> Result<Arc<DeviceBuffer>> {
        Ok(Arc::new(self.stream.allocate(len)?))
    }

    /// Lets `read` overwrite all of `len` bytes, whose content is arbitrary before, to be copied to byte `at` of
    /// device memory; waits before that while many bytes are under way. The copy is started by this call, or by
    /// one of another thread that has not returned yet. Gives the bytes, to make chunks of, which should go soon,
    /// as their memory is what the next parts are read to. It is page-locked within the engine's limit.
    pub fn copy(
        &self,
        len: usize,
        target: &Arc<DeviceBuffer>,
        at: usize,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Buffer> {
        self.check()?;
        self.wait_for_room()?;
        // Memory of one size is used again for any part.
        let room = if len <= SHORT { len } else { len.max(PART_BYTES) };
        let memory = ResultMemory::new(self.context.pool(), room);
        let mut piece = memory.cut(len).expect("as many bytes");
        read(piece.arbitrary())?;
        let source = piece.into_written();
        let bytes = WrittenPiece::to_buffer(&source);
        let copy = Copy { source, bytes: room, target: target.clone(), at };
        self.under_way().bytes += room;
        match memory.is_page_locked() {
            true => {
                self.under_way().read.push_back(copy);
                self.start_copies()?;
            }
            // Threads of the pool share it, so it waits for work of others.
            false => self.start(copy)?,
        }
        Ok(bytes)
    }

    /// Starts the copies of all parts that have been read, unless another thread is doing so: starting one takes
    /// some 20 us, and threads that wait for each other in the driver would read nothing.
    fn start_copies(&self) -> Result<()> {
        loop {
            let Some(starting) = (match self.starting.try_lock() {
                Ok(starting) => Some(starting),
                Err(TryLockError::Poisoned(starting)) => Some(starting.into_inner()),
                // That thread looks again after it has let go.
                Err(TryLockError::WouldBlock) => None,
            }) else {
                return Ok(());
            };
            self.start_read()?;
            drop(starting);
            if self.under_way().read.is_empty() {
                return Ok(());
            }
        }
    }

    /// Starts the copies of all parts that have been read; by the thread that holds `starting`.
    fn start_read(&self) -> Result<()> {
        loop {
            let Some(copy) = self.under_way().read.pop_front() else { return Ok(()) };
            self.start(copy)?;
        }
    }

    /// Starts a copy. After a failure all calls fail, as the copy may have been that of another one.
    fn start(&self, copy: Copy) -> Result<()> {
        let used = self.under_way().events.pop();
        // SAFETY: the source is kept until the stream, or an event behind the copy, has been waited for: here if
        // there is an error, else by `wait_for_room` or `drop`. Written pieces are not written to.
        let started = unsafe { self.stream.start_upload(&copy.source, &copy.target, copy.at) };
        match started.and_then(|()| self.stream.record_again(used)) {
            Ok(done) => {
                let Copy { source, bytes, .. } = copy;
                self.under_way().started.push_back(StartedCopy { source, bytes, done });
                Ok(())
            }
            Err(error) => {
                self.synchronize();
                let mut under_way = self.under_way();
                under_way.bytes -= copy.bytes;
                under_way.failed = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn check(&self) -> Result<()> {
        match &self.under_way().failed {
            Some(why) => Err(Error::device(format!("a copy before this failed: {why}"))),
            None => Ok(()),
        }
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all copies.
    fn synchronize(&self) {
        // Where this fails the device is lost, and its copies with it.
        let _ = self.stream.synchronize();
    }

    /// Waits for the oldest copies while there are many.
    fn wait_for_room(&self) -> Result<()> {
        let most = (UNDER_WAY * rayon::current_num_threads()).min(MOST_UNDER_WAY);
        loop {
            let oldest = {
                let mut under_way = self.under_way();
                if under_way.bytes < most {
                    return Ok(());
                }
                let Some(oldest) = under_way.started.pop_front() else { return Ok(()) };
                under_way.bytes -= oldest.bytes;
                oldest
            };
            let StartedCopy { source, done, .. } = oldest;
            if let Err(error) = done.synchronize() {
                self.synchronize();
                return Err(error);
            }
            drop(source);
            self.under_way().events.push(done);
        }
    }

    /// An event behind the copies of all calls that have returned.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device).
    pub fn arrival(&self) -> Result<Arc<dyn Event>> {
        // A thread that reads something else may still be about to start some of them.
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        self.start_read()?;
        self.check()?;
        self.stream.record()
    }

    /// A column of chunks, of which those that are on the device are there at `arrival`. What is not is copied
    /// now.
    pub fn column(
        &self,
        field: FieldRef,
        landed: Vec<LandedChunk>,
        arrival: &dyn Event,
    ) -> Result<DeviceColumn> {
        let on_host = |chunk: &LandedChunk| match &chunk.body {
            Body::Host(body) => body.len(),
            Body::Device(..) => 0,
        };
        self.context.with_stream(|stream| {
            stream.wait(arrival)?;
            let others = Arc::new(stream.allocate(landed.iter().map(on_host).sum())?);
            let (mut start, mut copied) = (0, 0);
            let (mut chunks, mut bodies) = (Vec::with_capacity(landed.len()), vec![others.clone()]);
            for LandedChunk { header, statistics, body } in landed {
                let at = match body {
                    Body::Device(memory, at) => {
                        if !bodies.iter().any(|known| Arc::ptr_eq(known, &memory)) {
                            bodies.push(memory);
                        }
                        at
                    }
                    Body::Host(body) => {
                        stream.upload(&body, &others, copied)?;
                        copied += body.len();
                        others.pointer_at(copied - body.len())
                    }
                };
                let rows = header.rows;
                chunks.push(DeviceChunk::new(header, true, Bounds::Known(statistics), at, start));
                start += rows;
            }
            let ready = stream.record()?;
            Ok(DeviceColumn::new(self.context.clone(), field, chunks, bodies, ready))
        })
    }
}

impl Drop for Landing {
    /// Waits for the copies, whose source may be used again then.
    fn drop(&mut self) {
        // By an event, as synchronizing a stream takes errors that were kept for somebody else.
        let copied = self.stream.record().and_then(|event| event.synchronize());
        if copied.is_err() {
            self.synchronize();
        }
        self.context.give_back(Priority::Usual, self.stream.clone());
    }
}

#[cfg(all(test, lanepack_simt))]
mod tests {
    use super::*;

    fn context() -> Arc<Context> {
        Context::new(crate::gpu::simt::open(0, crate::gpu::simt::Emulation::default()))
    }

    #[test]
    fn parts_arrive_and_their_memory_is_used_again() {
        let context = context();
        let landing = Landing::new(&context).unwrap();
        let most = (UNDER_WAY * rayon::current_num_threads()).min(MOST_UNDER_WAY);
        let (len, parts) = (PART_BYTES - 64, most / PART_BYTES + 3);
        let memory = landing.allocate(len * parts).unwrap();
        let mut starts = std::collections::HashSet::new();
        for part in 0..parts {
            let bytes = landing.copy(len, &memory, len * part, |bytes| {
                starts.insert(bytes.as_ptr() as usize);
                bytes.fill(part as u8);
                Ok(())
            });
            assert!(bytes.unwrap().iter().all(|byte| *byte == part as u8));
            assert!(landing.under_way().bytes < most + PART_BYTES);
        }
        assert!(starts.len() < parts, "{} places for {parts} parts", starts.len());
        landing.arrival().unwrap().synchronize().unwrap();
        let mut found = vec![0; len * parts];
        landing.stream.download(&memory, 0, &mut found).unwrap();
        let is_there = |(part, bytes): (usize, &[u8])| bytes.iter().all(|byte| *byte == part as u8);
        assert!(found.chunks(len).enumerate().all(is_there));
    }

    #[test]
    fn copies_that_another_thread_is_to_start_arrive() {
        let context = context();
        let landing = Landing::new(&context).unwrap();
        let (len, mut found) = (2 * SHORT, vec![0; 2 * SHORT]);
        let memory = landing.allocate(len).unwrap();
        let other = landing.starting.lock().unwrap();
        let read = |bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        };
        landing.copy(len, &memory, 0, read).unwrap();
        assert_eq!(landing.under_way().read.len(), 1);
        drop(other);
        landing.arrival().unwrap().synchronize().unwrap();
        landing.stream.download(&memory, 0, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_copy_that_could_not_be_started_is_an_error_of_all_that_follow() {
        let landing = Landing::new(&context()).unwrap();
        let memory = landing.allocate(64).unwrap();
        landing.under_way().failed = Some("no such stream".to_owned());
        let error = landing.copy(64, &memory, 0, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no such stream"), "{error}");
        assert!(landing.arrival().is_err());
    }

    #[test]
    fn what_was_not_read_is_not_copied() {
        let context = context();
        let landing = Landing::new(&context).unwrap();
        let memory = landing.allocate(64).unwrap();
        let failed = landing.copy(64, &memory, 0, |_| Err(Error::corrupt("unreadable")));
        assert!(failed.is_err() && landing.under_way().started.is_empty());
    }
}
