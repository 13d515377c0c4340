//! Decompression of columns to host memory by the host and devices together.
//!
//! Every size is in the headers, so each unit knows its place in the buffers of the array, and all of
//! them are written there, whoever does it. Columns whose buffers are not cut at chunks (views,
//! FixedSizeBinary, nested ones, those carried as Arrow IPC) are done as a whole.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::{Fits, LONG_SPANS, Shares, Unit, Workers, lock, share};
use crate::chunk::Chunk;
use crate::column::{CompressedColumn, decode_to};
use crate::decode::{self, decodes_on_device, strings};
use crate::device::array::array_of;
use crate::device::column::explained;
use crate::device::pinned::{Piece, ResultMemory, WrittenPiece};
use crate::device::{Context, DeviceColumn};
use crate::error::{Error, Result};
use crate::transfer::decompress::{Sizes, cut};

/// Decompresses columns, whose memory has been checked.
pub(crate) fn decompress(
    workers: &Workers,
    columns: &[CompressedColumn],
) -> Result<(Vec<ArrayRef>, Shares)> {
    let arrays =
        columns.iter().map(|column| Array::of(workers, column)).collect::<Result<Vec<_>>>()?;
    let mut units: Vec<Unit> = Vec::new();
    for (index, array) in arrays.iter().enumerate() {
        units.extend(array.units(index));
    }
    workers.order(&mut units)?;
    let work = |context: Option<&Arc<Context>>, range: Range<usize>| -> Result<Part> {
        let (first, last) = (&units[range.start], &units[range.end - 1]);
        let array = &arrays[first.column];
        let part = array.part(context, first.chunks.start..last.chunks.end);
        part.map_err(|error| explained(array.column, error.in_column(array.column.field().name())))
    };
    let (done, shares) = share(
        workers,
        &LONG_SPANS,
        &units,
        &|unit| work(None, unit..unit + 1),
        &|context, units| work(Some(context), units),
    )?;
    let mut parts: Vec<Vec<Part>> = columns.iter().map(|_| Vec::new()).collect();
    for (range, part) in done {
        parts[units[range.start].column].push(part);
    }
    let arrays = arrays.into_iter().zip(parts).map(|(array, parts)| array.finish(parts));
    Ok((arrays.collect::<Result<_>>()?, shares))
}

/// What has come of some chunks.
enum Part {
    /// All of a column.
    Whole(ArrayRef),
    /// A piece of each buffer, the validity last if there is one.
    Pieces(Vec<Arc<WrittenPiece>>),
}

/// An array that is being written.
struct Array<'a> {
    column: &'a CompressedColumn,
    /// Only of arrays that are written in pieces.
    buffers: Option<Buffers>,
}

/// The buffers of an array and where chunks lie in them.
struct Buffers {
    sizes: Sizes,
    /// Values, or offsets and bytes of strings; the validity last if there is one.
    memories: Vec<Arc<ResultMemory>>,
    has_validity: bool,
    /// Chunks that are written as a whole, and where.
    slots: Vec<Slot>,
}

/// Chunks that are cut from others ([`cut`]).
struct Slot {
    chunks: Range<usize>,
    /// Bytes of strings before.
    start: usize,
    bytes: usize,
    /// The length of its piece of each buffer.
    lengths: Vec<usize>,
    /// The pieces; nothing while they are being written.
    pieces: Mutex<Vec<Piece>>,
}

impl<'a> Array<'a> {
    fn of(workers: &Workers, column: &'a CompressedColumn) -> Result<Self> {
        let sizes = Sizes::of(column.data_type()).filter(|_| decodes_on_device(column));
        let pool = workers.devices.first().map(|context| context.pool());
        let buffers = match (sizes, pool) {
            (Some(sizes), Some(pool)) => {
                let memory = |len| ResultMemory::new(pool, len);
                Some(Buffers::new(column, sizes, memory, workers.unit_bytes()))
            }
            _ => None,
        };
        let buffers =
            buffers.transpose().map_err(|error: Error| error.in_column(column.field().name()))?;
        Ok(Self { column, buffers })
    }

    fn units(&self, index: usize) -> Vec<Unit> {
        let unit = |chunks: Range<usize>, bytes, fits| Unit { column: index, chunks, bytes, fits };
        match &self.buffers {
            Some(buffers) => (buffers.slots.iter())
                .map(|slot| unit(slot.chunks.clone(), slot.bytes, Fits::Any))
                .collect(),
            None => {
                let fits = if decodes_on_device(self.column) { Fits::Alone } else { Fits::Host };
                let all = 0..self.column.chunks().len();
                vec![unit(all, self.column.decompressed_bytes(), fits)]
            }
        }
    }

    /// Decompresses some chunks, on a device or else on this thread.
    fn part(&self, context: Option<&Arc<Context>>, chunks: Range<usize>) -> Result<Part> {
        let Some(buffers) = &self.buffers else {
            return Ok(Part::Whole(match context {
                Some(context) => {
                    DeviceColumn::upload(context, self.column)?.decompress()?.to_host()?
                }
                None => self.column.decode()?,
            }));
        };
        let slots = buffers.slots_of(&chunks);
        let mut pieces = Buffers::take(slots);
        let start = slots.first().map_or(0, |slot| slot.start);
        let written = match context {
            Some(context) => self.on_device(context, &chunks, start, &mut pieces, buffers),
            None => self.on_host(&chunks, start, &mut pieces, buffers),
        };
        match written {
            Ok(()) => Ok(Part::Pieces(pieces.into_iter().map(Piece::into_written).collect())),
            Err(error) => {
                Buffers::put_back(slots, pieces);
                Err(error)
            }
        }
    }

    fn on_host(
        &self,
        chunks: &Range<usize>,
        start: usize,
        pieces: &mut [Piece],
        buffers: &Buffers,
    ) -> Result<()> {
        let some = &self.column.chunks()[chunks.clone()];
        let mut bytes: Vec<&mut [u8]> = pieces.iter_mut().map(Piece::zeroed).collect();
        let validity = if buffers.has_validity { bytes.pop() } else { None };
        decode_to(some, self.column.data_type(), &mut bytes, validity, start)
            .map_err(|error| error.after_chunks(chunks.start))
    }

    fn on_device(
        &self,
        context: &Arc<Context>,
        chunks: &Range<usize>,
        start: usize,
        pieces: &mut [Piece],
        buffers: &Buffers,
    ) -> Result<()> {
        let part = DeviceColumn::upload_chunks(context, self.column, chunks.clone())?;
        context.with_stream(|stream| {
            let started = decode::start(stream, &part, &mut ())?.behind(chunks.start);
            let (bitmap, slices) = started.array().slices();
            let (values, validity) = pieces.split_at_mut(slices.len());
            for (slice, piece) in slices.iter().zip(values) {
                piece.fill_with(|to| stream.download_to(slice.buffer(), slice.start(), to))?;
            }
            for piece in validity {
                match bitmap {
                    Some(bits) => {
                        piece
                            .fill_with(|to| stream.download_to(bits.buffer(), bits.start(), to))?;
                    }
                    None => piece.zeroed().fill(0xff),
                }
            }
            started.finish()?;
            Ok(())
        })?;
        if let (Sizes::Strings(width), true) = (&buffers.sizes, start > 0) {
            move_offsets(pieces[0].bytes_mut(), *width, start);
        }
        Ok(())
    }

    fn finish(self, parts: Vec<Part>) -> Result<ArrayRef> {
        let Some(Buffers { memories, has_validity, .. }) = self.buffers else {
            return match parts.into_iter().next() {
                Some(Part::Whole(array)) => Ok(array),
                _ => Err(Error::device("a column that nobody has decompressed")),
            };
        };
        let mut written: Vec<Vec<Arc<WrittenPiece>>> =
            memories.iter().map(|_| Vec::new()).collect();
        for part in parts {
            if let Part::Pieces(pieces) = part {
                written.iter_mut().zip(pieces).for_each(|(all, piece)| all.push(piece));
            }
        }
        let finish = |(memory, written): (Arc<ResultMemory>, _)| memory.finish(written);
        let mut buffers: Vec<Buffer> = memories.into_iter().zip(written).map(finish).collect();
        let rows = self.column.len();
        let validity = if has_validity { buffers.pop() } else { None };
        let nulls = validity.map(|bits| NullBuffer::new(BooleanBuffer::new(bits, 0, rows)));
        // SAFETY: every byte of each buffer has been written (`ResultMemory::finish`), by kernels
        // whose report has no fault (`Pending::finish`) or by `decode_to`: values of all rows;
        // offsets that rise from 0 to the number of bytes, each slot from where the one before
        // ends; strings of text types that are UTF-8.
        Ok(unsafe { array_of(self.column.data_type(), rows, nulls, buffers) })
    }
}

impl Buffers {
    /// Memory for all buffers, cut into slots of at least so many bytes of values.
    fn new(
        column: &CompressedColumn,
        sizes: Sizes,
        memory: impl Fn(usize) -> Arc<ResultMemory>,
        least: usize,
    ) -> Result<Self> {
        let chunks = column.chunks();
        let mut lengths = sizes.bytes(chunks);
        if let Sizes::Strings(width) = &sizes {
            strings::check(column.data_type(), lengths[1])?;
            lengths[0] += width;
        }
        let has_validity = column.null_count() > 0;
        if has_validity {
            lengths.push(column.len().div_ceil(8));
        }
        let memories: Vec<Arc<ResultMemory>> = lengths.into_iter().map(memory).collect();
        let mut start = 0;
        let slot = |range: Range<usize>| {
            let some = &chunks[range.clone()];
            let mut lengths = sizes.bytes(some);
            let bytes = lengths.iter().sum();
            let of_strings = lengths.get(1).copied().unwrap_or(0);
            if let (Sizes::Strings(width), true) = (&sizes, range.end == chunks.len()) {
                lengths[0] += width;
            }
            if has_validity {
                lengths.push(some.iter().map(Chunk::rows).sum::<usize>().div_ceil(8));
            }
            let cut = |(memory, len): (&Arc<ResultMemory>, &usize)| {
                memory.cut(*len).ok_or_else(|| Error::device("no room for a part"))
            };
            let pieces = memories.iter().zip(&lengths).map(cut).collect::<Result<_>>()?;
            start += of_strings;
            let start = start - of_strings;
            Ok(Slot { chunks: range, start, bytes, lengths, pieces: Mutex::new(pieces) })
        };
        let slots = cut(column, &sizes, least).into_iter().map(slot).collect::<Result<_>>()?;
        Ok(Self { sizes, memories, has_validity, slots })
    }

    /// The slots of some chunks.
    fn slots_of(&self, chunks: &Range<usize>) -> &[Slot] {
        let first = self.slots.partition_point(|slot| slot.chunks.start < chunks.start);
        let end = self.slots.partition_point(|slot| slot.chunks.start < chunks.end);
        &self.slots[first..end]
    }

    /// The pieces of consecutive slots, joined.
    fn take(slots: &[Slot]) -> Vec<Piece> {
        let mut all: Vec<Piece> = Vec::new();
        for slot in slots {
            let pieces = std::mem::take(&mut *lock(&slot.pieces));
            match all.is_empty() {
                true => all = pieces,
                false => {
                    let joined = all.into_iter().zip(pieces).map(|(one, next)| one.join(next));
                    all = joined.collect();
                }
            }
        }
        all
    }

    /// Gives back what [`Buffers::take`] has taken.
    fn put_back(slots: &[Slot], mut pieces: Vec<Piece>) {
        for slot in slots {
            let cut = |(piece, len): (Piece, &usize)| piece.split(*len);
            let (own, rest) = pieces.into_iter().zip(&slot.lengths).map(cut).unzip();
            *lock(&slot.pieces) = own;
            pieces = rest;
        }
    }
}

/// Adds the bytes before a part to its offsets, which count from 0.
fn move_offsets(offsets: &mut [u8], width: usize, start: usize) {
    match width {
        4 => bytemuck::cast_slice_mut::<u8, u32>(offsets)
            .iter_mut()
            .for_each(|at| *at = at.wrapping_add(start as u32)),
        _ => bytemuck::cast_slice_mut::<u8, u64>(offsets)
            .iter_mut()
            .for_each(|at| *at = at.wrapping_add(start as u64)),
    }
}
