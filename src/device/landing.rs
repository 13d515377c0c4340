//! Bytes that are read into page-locked memory, and copied to a device as they arrive: chunks of files, that a
//! scan is going to read there.
//!
//! ```text
//! read, by threads of the host   [part 0] [part 2]          page-locked memory
//!                                [part 1]  [part 3]
//! copied, by the device                  [0][1]   [2][3]    device memory, at the same distances
//! ```
//!
//! A [`Landing`] gives room for some parts at a time. Whoever reads a part fills its [`Room`] and gets the
//! bytes as a buffer of the host, of which chunks are made and checked. [`Landing::column`] finds the bodies
//! of these chunks on the device by where they lie in host memory.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::Buffer;

use super::Context;
use super::column::{Bounds, DeviceChunk, DeviceColumn};
use super::pinned::{Piece, ResultMemory, WrittenPiece};
use crate::chunk::{Chunk, aligned};
use crate::column::CompressedColumn;
use crate::error::Result;
use crate::gpu::{DeviceBuffer, DevicePtr, Priority, Stream};

/// Parts that are in the memory of a device, or on their way.
#[derive(Debug)]
pub(crate) struct Landing {
    context: Arc<Context>,
    /// The stream of all copies.
    stream: Arc<dyn Stream>,
    landed: Mutex<Vec<Landed>>,
}

/// A part that has been read.
#[derive(Debug, Clone)]
struct Landed {
    /// Where it lies in host memory, which stays until it has been copied.
    host: Arc<WrittenPiece>,
    /// Where on the device.
    at: DevicePtr<u8>,
    /// In which memory.
    memory: Arc<DeviceBuffer>,
}

/// Room for a part.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    landing: &'a Landing,
    piece: Piece,
    at: usize,
    memory: Arc<DeviceBuffer>,
}

impl Landing {
    /// A place for parts that are to be on a device.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device).
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let stream = context.lend_stream(Priority::Usual)?;
        Ok(Self { context: context.clone(), stream, landed: Mutex::default() })
    }

    /// Whether this is on a device.
    pub fn is_on(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// Room for parts of so many bytes, multiples of 64. Host memory is page-locked within the engine's limit.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error::DeviceMemory), [`Error::Device`](crate::Error::Device).
    pub fn rooms(&self, lens: &[usize]) -> Result<Vec<Room<'_>>> {
        debug_assert!(lens.iter().all(|len| *len == aligned(*len)), "multiples of 64");
        let all = lens.iter().sum();
        let host = ResultMemory::new(self.context.pool(), all);
        let memory = Arc::new(self.stream.allocate(all)?);
        let mut end = 0;
        let room = |len: &usize| {
            let (at, piece) = (end, host.cut(*len).expect("as many bytes as all parts"));
            end += len;
            Room { landing: self, piece, at, memory: memory.clone() }
        };
        Ok(lens.iter().map(room).collect())
    }

    /// A column whose chunks have been made of parts that were read to here, on the device. What was not is
    /// copied now.
    pub fn column(&self, column: &CompressedColumn) -> Result<DeviceColumn> {
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        landed.sort_unstable_by_key(|part| part.host.as_ptr());
        let place_of = |chunk: &Chunk| {
            let body = chunk.body().as_ptr_range();
            let before = landed.partition_point(|part| part.host.as_ptr() <= body.start);
            let part = landed[..before].last()?;
            let is_inside = body.end <= part.host.as_ptr_range().end && !body.is_empty();
            let at = part.at.add(body.start as usize - part.host.as_ptr() as usize);
            is_inside.then_some((at, &part.memory))
        };
        let others = column.chunks().iter().filter(|chunk| place_of(chunk).is_none());
        let arrived = self.stream.record()?;
        self.context.with_stream(|stream| {
            stream.wait(arrived.as_ref())?;
            let of_others =
                Arc::new(stream.allocate(others.map(|chunk| chunk.body().len()).sum())?);
            let (mut start, mut copied) = (0, 0);
            let (mut chunks, mut bodies) = (Vec::new(), vec![of_others.clone()]);
            for chunk in column.chunks() {
                let at = match place_of(chunk) {
                    Some((at, memory)) => {
                        if !bodies.iter().any(|known| Arc::ptr_eq(known, memory)) {
                            bodies.push(memory.clone());
                        }
                        at
                    }
                    None => {
                        stream.upload(chunk.body(), &of_others, copied)?;
                        copied += chunk.body().len();
                        of_others.pointer_at(copied - chunk.body().len())
                    }
                };
                let bounds = Bounds::Known(chunk.statistics().clone());
                let header = chunk.parsed_header().clone();
                chunks.push(DeviceChunk::new(header, true, bounds, at, start));
                start += chunk.rows();
            }
            let ready = stream.record()?;
            let field = column.field().clone();
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
            // Where this fails as well the device is lost, and its copies with it.
            let _ = self.stream.synchronize();
        }
        self.context.give_back(Priority::Usual, self.stream.clone());
    }
}

impl Room<'_> {
    /// Lets `read` overwrite all bytes, whose content is arbitrary before, and starts copying them to the
    /// device.
    pub fn fill(mut self, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buffer> {
        read(self.piece.arbitrary())?;
        let host = self.piece.into_written();
        let bytes = WrittenPiece::to_buffer(&host);
        let at = self.memory.pointer_at(self.at);
        let landed = Landed { host: host.clone(), at, memory: self.memory.clone() };
        // From now on it stays until the stream has been synchronized, whatever comes of the copy.
        self.landing.landed.lock().unwrap_or_else(PoisonError::into_inner).push(landed);
        // SAFETY: `host` stays in `landed` until `drop` of the landing has waited for the stream, and written
        // pieces are not written to.
        unsafe { self.landing.stream.start_upload(&host, &self.memory, self.at)? };
        Ok(bytes)
    }
}
