//! Compression from host memory to host memory in parts: strings by the chunks that share a symbol
//! table, numbers and booleans by bytes.
//!
//! What all parts take together is known only at the end, so that room for it is made by
//! what the first has taken; if that does not suffice there is more room, and one copy at
//! the end. Checksums are made of what has come down while more is on its way.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::checksum::xxh3_64;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::FieldRef;
use rayon::prelude::*;

use super::{download_piece, part_bytes, pipeline};
use crate::arrow_type;
use crate::chunk;
use crate::column::{CompressedColumn, compress_field, physical_of};
use crate::device::array::{DeviceSlice, HostBuffers};
use crate::device::column::{DeviceChunk, chunk_of};
use crate::device::pinned::{Piece, ResultMemory, WrittenPiece};
use crate::device::{Context, DeviceArray, DeviceColumn};
use crate::encode::{
    Encoder, compress_nested, encode_array, encodes_on_device, uses_device, verify,
};
use crate::encoding::Physical;
use crate::encoding::nested::comes_apart;
use crate::error::{Error, Result};
use crate::gpu::{Event, Stream};
use crate::options::Options;

/// Compresses an array that lies in host memory, to host memory.
pub(crate) fn compress(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
) -> Result<CompressedColumn> {
    arrow_type::check(field.data_type())?;
    if !uses_device(field.data_type()) {
        return compress_field(field.clone(), array, options);
    }
    // To verify, all of it has to be there again; leaves of nested columns are encoded together.
    let parts = match options.verify || !encodes_on_device(field.data_type()) {
        true => Vec::new(),
        false => parts_of(context, array, options),
    };
    match parts.len() {
        0 | 1 => compress_to_device(context, field, array, options)?.download(),
        _ => compress_parts(context, field, array, options, &parts),
    }
}

/// Compresses an array that lies in host memory, to device memory; of a type that devices compress.
pub(super) fn compress_to_device(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
) -> Result<DeviceColumn> {
    if comes_apart(field.data_type()) {
        return compress_nested(context, field, array, options);
    }
    let has_symbols = physical_of(array.data_type()) == Physical::Bytes;
    if array.is_empty() || options.verify || has_symbols {
        let on_device = DeviceArray::upload(context, array)?;
        let column = encode_array(field, &on_device, options, &mut ())?;
        verify(&column, || Ok(array.clone()), options)?;
        return Ok(column);
    }
    let (host, rows) = (HostParts::of(array)?, 0..array.len());
    // On two streams: several threads compress at a time, and a device has few queues.
    context.with_stream(|stream| {
        context.with_stream(|reader| {
            let on_device = host.host.upload(context, stream, array.data_type(), array.len())?;
            let mut encoder = Encoder::new([stream, reader], field, &on_device)?;
            encoder.require(rows.clone(), options)?;
            let written = encoder.part(rows.clone(), host.value_bytes(&rows), options)?;
            let (bodies, chunks): (Vec<_>, Vec<_>) = written.into_iter().unzip();
            let (chunks, ready) = (chunks.into_iter().flatten().collect(), stream.record()?);
            Ok(DeviceColumn::new(context.clone(), field.clone(), chunks, bodies, ready))
        })
    })
}

/// Rows that go together: of numbers and booleans [`part_bytes`], of strings the chunks that share
/// a symbol table.
fn parts_of(context: &Context, array: &ArrayRef, options: &Options) -> Vec<Range<usize>> {
    let (rows, chunk_rows) = (array.len(), options.chunk_rows);
    let of_chunks =
        |chunks: Range<usize>| chunks.start * chunk_rows..rows.min(chunks.end * chunk_rows);
    let chunks = rows.div_ceil(chunk_rows);
    let Some(bits) = physical_of(array.data_type()).bits() else {
        return options.groups(chunks).into_iter().map(of_chunks).collect();
    };
    let each = (part_bytes(context) * 8 / bits / chunk_rows).max(1);
    (0..chunks).step_by(each).map(|first| of_chunks(first..first + each)).collect()
}

/// A part of a compressed column on its way down.
struct Compressed {
    chunks: Range<usize>,
    bodies: DeviceSlice,
    /// Length of each body.
    lengths: Vec<usize>,
    piece: Piece,
    ready: Arc<dyn Event>,
}

/// Chunks, from the `first` one on, whose bodies come down in one copy of about so many bytes.
fn copied_together(chunks: &[DeviceChunk], first: usize, bytes: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut last = 0;
    for (index, chunk) in chunks.iter().enumerate().skip(first) {
        last += chunk.body_len();
        match ranges.last_mut() {
            Some(range) if last <= bytes => range.end = index + 1,
            _ => {
                ranges.push(index..index + 1);
                last = chunk.body_len();
            }
        }
    }
    ranges
}

/// What is copied to a device of some rows of an array, buffer by buffer.
struct HostParts {
    host: HostBuffers,
    rows: usize,
    /// Bits of a row in the first buffer.
    bits: usize,
}

impl HostParts {
    fn of(array: &ArrayRef) -> Result<Self> {
        let host = HostBuffers::of(array)?;
        let bits = physical_of(array.data_type()).bits();
        // Strings have an offset more than rows.
        let offset = || host.buffers[0].len() / (array.len() + 1) * 8;
        let bits = bits.unwrap_or_else(offset);
        Ok(Self { host, rows: array.len(), bits })
    }

    /// Where the bytes of strings begin that begin with a row.
    fn offset(&self, row: usize) -> usize {
        let width = self.bits / 8;
        let mut offset = [0; 8];
        offset[..width].copy_from_slice(&self.host.buffers[0][row * width..][..width]);
        u64::from_le_bytes(offset) as usize
    }

    fn is_strings(&self) -> bool {
        self.host.buffers.len() > 1
    }

    /// Whether a chunk of strings among some rows has more bytes than devices encode.
    fn has_long_chunk(&self, rows: &Range<usize>, chunk_rows: usize) -> bool {
        rows.clone().step_by(chunk_rows).any(|start| {
            let end = rows.end.min(start + chunk_rows);
            i32::try_from(self.offset(end) - self.offset(start)).is_err()
        })
    }

    /// Bytes of the last buffer for some rows: values.
    fn value_bytes(&self, rows: &Range<usize>) -> usize {
        self.bytes(rows).last().map_or(0, Range::len)
    }

    /// The bytes of each buffer for some rows. Of strings also the offset behind the last row, which
    /// the rows after it have as well.
    fn bytes(&self, rows: &Range<usize>) -> Vec<Range<usize>> {
        let first = rows.start * self.bits / 8;
        let mut all = Vec::with_capacity(2);
        if self.is_strings() {
            all.push(first..(rows.end + 1) * self.bits / 8);
            all.push(self.offset(rows.start)..self.offset(rows.end));
        } else {
            all.push(first..(rows.end * self.bits).div_ceil(8));
        }
        all
    }

    /// The copies that some rows need: buffers, the validity last, and the bytes of each. The
    /// validity of all rows goes with the first.
    fn copies(&self, rows: &Range<usize>, most: usize) -> Vec<(usize, Range<usize>)> {
        let mut all: Vec<_> = self.bytes(rows).into_iter().enumerate().collect();
        if let (0, Some(bits)) = (rows.start, &self.host.validity) {
            all.push((self.host.buffers.len(), 0..bits.len()));
        }
        let cut = |(buffer, bytes): (usize, Range<usize>)| {
            let starts = bytes.clone().step_by(most);
            starts.map(move |start| (buffer, start..bytes.end.min(start + most)))
        };
        all.into_iter().flat_map(cut).collect()
    }

    /// Copies bytes of a buffer to an array on the device.
    fn copy(
        &self,
        stream: &dyn Stream,
        (buffer, bytes): &(usize, Range<usize>),
        to: &DeviceArray,
    ) -> Result<()> {
        let (validity, slices) = to.slices();
        let from = self.host.buffers.get(*buffer).or(self.host.validity.as_ref());
        match from.zip(slices.get(*buffer).or(validity)) {
            Some((from, slice)) => {
                stream.upload(&from[bytes.clone()], slice.buffer(), slice.start() + bytes.start)
            }
            None => Err(Error::device("a buffer that the array lacks")),
        }
    }
}

/// Compresses an array in parts of some rows.
fn compress_parts(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
    parts: &[Range<usize>],
) -> Result<CompressedColumn> {
    let host = HostParts::of(array)?;
    // Kernels count the bytes of a chunk in 31 bits.
    if host.is_strings() && parts.iter().any(|rows| host.has_long_chunk(rows, options.chunk_rows)) {
        return compress_field(field.clone(), array, options);
    }
    let sums: Vec<OnceLock<u64>> =
        (0..array.len().div_ceil(options.chunk_rows)).map(|_| OnceLock::new()).collect();
    let mut chunks: Vec<DeviceChunk> = Vec::new();
    let mut memories: Vec<Arc<ResultMemory>> = Vec::new();
    let written = context.with_stream(|stream| {
        context.with_stream(|reader| {
            let on_device = host.host.allocate(context, stream, array.data_type(), array.len())?;
            let copies: Vec<Vec<_>> =
                parts.iter().map(|rows| host.copies(rows, part_bytes(context))).collect();
            let upload = |stream: &dyn Stream, part: usize, piece: usize| {
                host.copy(stream, &copies[part][piece], &on_device)
            };
            let pieces: Vec<usize> = copies.iter().map(Vec::len).collect();
            let mut encoder = Encoder::new([stream, reader], field, &on_device)?;
            encoder.require(parts[0].clone(), options)?;
            rayon::in_place_scope(|checks| {
                let mut piece_of = |len: usize, room: usize| -> Result<Piece> {
                    if let Some(piece) = memories.last().and_then(|memory| memory.cut(len)) {
                        return Ok(piece);
                    }
                    let memory = ResultMemory::new(context.pool(), room.max(len));
                    memories.push(memory.clone());
                    memory.cut(len).ok_or_else(|| Error::device("no room for a part"))
                };
                let work = |part: usize| -> Result<Vec<Compressed>> {
                    let rows = &parts[part];
                    let written = encoder.part(rows.clone(), host.value_bytes(rows), options)?;
                    // What the rest takes if it is like this part, and a little more.
                    let len = written.iter().map(|(bodies, _)| bodies.len()).sum::<usize>();
                    let [rest, own] = [rows.start..host.rows, rows.clone()]
                        .map(|rows| host.bytes(&rows).iter().map(Range::len).sum::<usize>());
                    let room = len as u128 * rest as u128 / own.max(1) as u128;
                    let room = room as usize / 16 * 17 + len / 16;
                    let mut compressed = Vec::new();
                    for (bodies, written) in written {
                        let ready = stream.record()?;
                        let mut at = 0;
                        let first = chunks.len();
                        chunks.extend(written);
                        for range in copied_together(&chunks, first, part_bytes(context)) {
                            let lengths: Vec<usize> =
                                chunks[range.clone()].iter().map(DeviceChunk::body_len).collect();
                            let len = lengths.iter().sum::<usize>();
                            compressed.push(Compressed {
                                chunks: range,
                                bodies: DeviceSlice::of(&bodies, at..at + len),
                                lengths,
                                piece: piece_of(len, room)?,
                                ready: ready.clone(),
                            });
                            at += len;
                        }
                    }
                    Ok(compressed)
                };
                let download = |stream: &dyn Stream, part: Compressed| {
                    let Compressed { chunks, bodies, lengths, piece, ready } = part;
                    let written = download_piece(stream, &ready, &bodies, piece)?;
                    let mut at = 0;
                    for (chunk, len) in chunks.zip(lengths) {
                        let (written, sum, range) = (written.clone(), &sums[chunk], at..at + len);
                        at += len;
                        checks.spawn(move |_| {
                            let _ = sum.set(xxh3_64(&written[range]));
                        });
                    }
                    Ok(written)
                };
                pipeline(context, stream, &pieces, &upload, work, &download)
            })
        })
    })?;
    let bodies = joined(memories, written);
    let mut at = 0;
    let arrived: Vec<(&DeviceChunk, u64, Buffer)> = (chunks.iter().zip(&sums))
        .map(|(chunk, sum)| {
            let body = bodies.slice_with_length(at, chunk.body_len());
            at += chunk.body_len();
            let sum = sum.get().ok_or_else(|| Error::device("a body without a checksum"))?;
            Ok((chunk, *sum, body))
        })
        .collect::<Result<_>>()?;
    let chunks = (arrived.into_par_iter().enumerate())
        .map(|(index, (chunk, sum, body))| {
            chunk_of(chunk, Some(sum), body, field).map_err(|error| error.in_chunk(index))
        })
        .collect::<Result<_>>()?;
    Ok(CompressedColumn::new(field.clone(), chunks, Vec::new()).with_bodies(bodies))
}

/// The bytes of all memories; a copy of them all where one did not suffice, or had room for
/// more than twice as many.
fn joined(memories: Vec<Arc<ResultMemory>>, written: Vec<Arc<WrittenPiece>>) -> Buffer {
    let mut written = written.into_iter().peekable();
    let mut buffers: Vec<Buffer> = Vec::new();
    let room: usize = memories.iter().map(|memory| memory.room()).sum();
    for memory in memories {
        let mut of_this = Vec::new();
        while let Some(part) = written.next_if(|part| part.is_of(&memory)) {
            of_this.push(part);
        }
        buffers.push(memory.finish(of_this));
    }
    // The result keeps all of the room as long as it lives.
    if buffers.len() == 1 && room / 2 <= buffers[0].len() {
        return buffers.remove(0);
    }
    chunk::joined(&buffers)
}
