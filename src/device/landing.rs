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

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::Buffer;

use super::Context;
use super::column::{Bounds, DeviceChunk, DeviceColumn};
use super::pinned::{Piece, ResultMemory, WrittenPiece};
use crate::chunk::{Chunk, aligned};
use crate::column::CompressedColumn;
use crate::error::Result;
use crate::gpu::{DeviceBuffer, DevicePtr, Event};

/// Parts that have arrived, or are to, in the memory of a device.
#[derive(Debug)]
pub(crate) struct Landing {
    context: Arc<Context>,
    landed: Mutex<Vec<Landed>>,
}

/// A part that has arrived.
#[derive(Debug, Clone)]
struct Landed {
    /// Where it lies in host memory.
    host: Range<usize>,
    /// Where on the device.
    at: DevicePtr<u8>,
    /// In which memory.
    memory: Arc<DeviceMemory>,
}

/// Memory of a device, and since when it is there.
#[derive(Debug)]
struct DeviceMemory {
    buffer: Arc<DeviceBuffer>,
    ready: Arc<dyn Event>,
}

/// Room for a part.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    landing: &'a Landing,
    piece: Piece,
    at: usize,
    memory: Arc<DeviceMemory>,
}

impl Landing {
    /// A place for parts that are to be on a device.
    pub fn new(context: &Arc<Context>) -> Self {
        Self { context: context.clone(), landed: Mutex::default() }
    }

    /// Whether this is on a device.
    pub fn is_on(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// Room for parts of so many bytes, each from a multiple of 64 bytes on. Host memory is page-locked within
    /// the engine's limit.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error::DeviceMemory), [`Error::Device`](crate::Error::Device).
    pub fn rooms(&self, lens: &[usize]) -> Result<Vec<Room<'_>>> {
        let all = lens.iter().map(|len| aligned(*len)).sum();
        let host = ResultMemory::new(self.context.pool(), all);
        let memory = self.context.with_stream(|stream| {
            let buffer = Arc::new(stream.allocate(all)?);
            Ok(Arc::new(DeviceMemory { buffer, ready: stream.record()? }))
        })?;
        let mut end = 0;
        let room = |len: &usize| {
            let at = end;
            end += aligned(*len);
            let piece = host.cut(end - at).expect("as many bytes as all parts");
            Room { landing: self, piece: piece.split(*len).0, at, memory: memory.clone() }
        };
        Ok(lens.iter().map(room).collect())
    }

    /// A column whose chunks have been made of parts that arrived here, on the device. What did not arrive
    /// here is copied now.
    pub fn column(&self, column: &CompressedColumn) -> Result<DeviceColumn> {
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        landed.sort_unstable_by_key(|part| part.host.start);
        let place_of = |chunk: &Chunk| {
            let start = chunk.body().as_ptr() as usize;
            let part = &landed[..landed.partition_point(|part| part.host.start <= start)].last()?;
            let is_inside = start + chunk.body().len() <= part.host.end;
            let at = part.at.add(start - part.host.start);
            (is_inside && !chunk.body().is_empty()).then_some((at, &part.memory))
        };
        let others = column.chunks().iter().filter(|chunk| place_of(chunk).is_none());
        self.context.with_stream(|stream| {
            let of_others =
                Arc::new(stream.allocate(others.map(|chunk| chunk.body().len()).sum())?);
            let (mut start, mut copied) = (0, 0);
            let (mut chunks, mut bodies) = (Vec::new(), vec![of_others.clone()]);
            for chunk in column.chunks() {
                let at = match place_of(chunk) {
                    Some((at, memory)) => {
                        if !bodies.iter().any(|known| Arc::ptr_eq(known, &memory.buffer)) {
                            stream.wait(memory.ready.as_ref())?;
                            bodies.push(memory.buffer.clone());
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

impl Room<'_> {
    /// Lets `read` overwrite all bytes, whose content is arbitrary before, and copies them to the device. They
    /// are there when this returns.
    pub fn fill(mut self, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buffer> {
        read(self.piece.arbitrary())?;
        let written = self.piece.into_written();
        let context = &self.landing.context;
        context.with_stream(|stream| {
            stream.wait(self.memory.ready.as_ref())?;
            stream.upload(&written, &self.memory.buffer, self.at)?;
            stream.synchronize()
        })?;
        let host = WrittenPiece::to_buffer(&written);
        let start = host.as_ptr() as usize;
        let at = self.memory.buffer.pointer_at(self.at);
        let landed = Landed { host: start..start + host.len(), at, memory: self.memory };
        self.landing.landed.lock().unwrap_or_else(PoisonError::into_inner).push(landed);
        Ok(host)
    }
}
