//! Decompression from host memory to host memory: numbers, booleans, and strings with
//! offsets in parts, each some chunks.
//!
//! Every size is in the headers, so that all parts come down to their places in the
//! buffers of one array. Strings have their place on the device as well, where offsets go
//! on from part to part.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use super::{download_piece, part_bytes, pipeline};
use crate::chunk::Chunk;
use crate::column::{CompressedColumn, physical_of};
use crate::decode::{self, decodes_on_device, strings};
use crate::device::array::{DeviceSlice, array_of};
use crate::device::column::placed;
use crate::device::pinned::{Piece, ResultMemory, WrittenPiece};
use crate::device::{Context, DeviceColumn};
use crate::encoding;
use crate::error::{Error, Result};
use crate::gpu::{Event, Stream};

/// Parts with bitmaps begin at multiples of so many rows, so that these are cut at bytes.
pub(super) const ROWS: usize = 64;

/// Decompresses a column from host memory to host memory.
pub(crate) fn decompress(context: &Arc<Context>, column: &CompressedColumn) -> Result<ArrayRef> {
    if !decodes_on_device(column) {
        return column.decode();
    }
    let sizes = Sizes::of(column.data_type());
    let parts = sizes.as_ref().map(|sizes| cut(column, sizes, part_bytes(context)));
    match (sizes, parts) {
        (Some(sizes), Some(parts)) if parts.len() > 1 => {
            decompress_parts(context, column, &sizes, &parts)
        }
        _ => DeviceColumn::upload(context, column)?.decompress()?.to_host(),
    }
}

/// How long the buffers of arrays of a type are.
pub(super) enum Sizes {
    /// Values of so many bits.
    Fixed(usize),
    /// Offsets of so many bytes, and bytes.
    Strings(usize),
}

impl Sizes {
    /// None for types that are decompressed as a whole.
    pub fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Utf8 | DataType::Binary => Some(Self::Strings(4)),
            DataType::LargeUtf8 | DataType::LargeBinary => Some(Self::Strings(8)),
            other => physical_of(other).bits().map(Self::Fixed),
        }
    }

    /// Bytes of each buffer for the rows of `chunks`, the offset behind the last left out.
    pub fn bytes(&self, chunks: &[Chunk]) -> Vec<usize> {
        let rows: usize = chunks.iter().map(Chunk::rows).sum();
        match self {
            Self::Fixed(bits) => vec![(rows * bits).div_ceil(8)],
            Self::Strings(width) => {
                let bytes = chunks.iter().map(|chunk| encoding::value_bytes(chunk.root())).sum();
                vec![rows * width, bytes]
            }
        }
    }
}

/// Chunks that go together, of at least so many bytes; where there are bitmaps their rows begin at
/// multiples of [`ROWS`].
pub(super) fn cut(column: &CompressedColumn, sizes: &Sizes, least: usize) -> Vec<Range<usize>> {
    let has_bitmap = matches!(sizes, Sizes::Fixed(1)) || column.null_count() > 0;
    let chunks = column.chunks();
    let mut parts: Vec<Range<usize>> = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (index, rows) in column.chunk_rows().enumerate() {
        let last = index + 1 == chunks.len();
        bytes += sizes.bytes(&chunks[index..index + 1]).iter().sum::<usize>();
        if last || (bytes >= least && (!has_bitmap || rows.end.is_multiple_of(ROWS))) {
            parts.push(first..index + 1);
            (first, bytes) = (index + 1, 0);
        }
    }
    parts
}

/// A part of a decompressed column on its way down: buffers, and where each belongs.
struct Decompressed {
    buffers: Vec<(DeviceSlice, Piece)>,
    /// A buffer only if there are nulls in this part.
    validity: Option<(Option<DeviceSlice>, Piece)>,
    ready: Arc<dyn Event>,
}

/// What has arrived of a part: a piece of each buffer, and of the validity.
type Arrived = (Vec<Arc<WrittenPiece>>, Option<Arc<WrittenPiece>>);

/// Decompresses a column in parts, each so many chunks.
fn decompress_parts(
    context: &Arc<Context>,
    column: &CompressedColumn,
    sizes: &Sizes,
    parts: &[Range<usize>],
) -> Result<ArrayRef> {
    let (data_type, chunks) = (column.data_type(), column.chunks());
    let has_offsets = matches!(sizes, Sizes::Strings(_));
    let mut lengths = sizes.bytes(chunks);
    if let Sizes::Strings(width) = sizes {
        lengths[0] += width;
    }
    if let Sizes::Strings(_) = sizes {
        strings::check(data_type, lengths[1])?;
    }
    // Whatever headers state, the host is asked for no more than the device has.
    context.require(lengths.iter().sum())?;
    let memories: Vec<_> =
        lengths.iter().map(|len| ResultMemory::new(context.pool(), *len)).collect();
    let has_nulls = column.null_count() > 0;
    let validity = has_nulls.then(|| ResultMemory::new(context.pool(), column.len().div_ceil(8)));
    let body_bytes =
        |chunks: &[Chunk]| -> usize { chunks.iter().map(|chunk| chunk.body().len()).sum() };
    // Bytes of bodies before each part.
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |at, part| {
            let start = *at;
            *at += body_bytes(&chunks[part.clone()]);
            Some(start)
        })
        .collect();
    let written: Vec<Arrived> = context.with_stream(|stream| {
        let bodies = Arc::new(stream.allocate(body_bytes(chunks))?);
        let strings = match sizes {
            Sizes::Fixed(_) => None,
            Sizes::Strings(_) => {
                let total = sizes.bytes(chunks)[1];
                Some(strings::Buffers::allocate(stream, data_type, column.len(), total)?)
            }
        };
        let upload = |stream: &dyn Stream, part: usize, _: usize| {
            let mut at = starts[part];
            for run in column.body_runs_of(parts[part].clone()) {
                stream.upload(&run, &bodies, at)?;
                at += run.len();
            }
            Ok(())
        };
        let mut pending: Option<decode::Pending> = None;
        let (mut row, mut byte) = (0, 0);
        let work = |index: usize| {
            let (range, arrived) = (parts[index].clone(), stream.record()?);
            let body = bodies.pointer_at(starts[index]);
            let placed = placed(&chunks[range.clone()], body);
            let (field, memory) = (column.field().clone(), vec![bodies.clone()]);
            let part = DeviceColumn::new(context.clone(), field, placed, memory, arrived);
            // A part's report is read when its copy down is under way.
            if let Some(before) = pending.take() {
                before.finish()?;
            }
            let place = strings.as_ref().map(|buffers| decode::Place { buffers, row, byte });
            let started = decode::start_to(stream, &part, place, &mut ())?.behind(range.start);
            let (bitmap, slices) = started.array().slices();
            let mut lengths = sizes.bytes(&chunks[range]);
            row += part.len();
            byte += lengths.get(1).copied().unwrap_or(0);
            if has_offsets && index + 1 == parts.len() {
                lengths[0] = slices[0].len();
            }
            let cut = |memory: &Arc<ResultMemory>, bytes| {
                memory.cut(bytes).ok_or_else(|| Error::device("no room for a part"))
            };
            let buffers = (slices.iter().zip(&memories).zip(lengths))
                .map(|((slice, memory), len)| Ok((slice.clone(), cut(memory, len)?)))
                .collect::<Result<_>>()?;
            let bits = validity.as_ref().map(|memory| cut(memory, part.len().div_ceil(8)));
            let validity = bits.transpose()?.map(|piece| (bitmap.cloned(), piece));
            let ready = started.array().ready().clone();
            pending = Some(started);
            Ok(vec![Decompressed { buffers, validity, ready }])
        };
        let download = |stream: &dyn Stream, part: Decompressed| {
            let Decompressed { buffers, validity, ready } = part;
            let bits = validity.map(|(slice, piece)| match slice {
                Some(slice) => download_piece(stream, &ready, &slice, piece),
                None => piece.fill(0xff),
            });
            let piece = |(slice, piece)| download_piece(stream, &ready, &slice, piece);
            Ok((buffers.into_iter().map(piece).collect::<Result<_>>()?, bits.transpose()?))
        };
        let written = pipeline(context, stream, &vec![1; parts.len()], &upload, work, &download)?;
        pending.map(decode::Pending::finish).transpose()?;
        Ok(written)
    })?;
    let mut arrived: Vec<Vec<Arc<WrittenPiece>>> = memories.iter().map(|_| Vec::new()).collect();
    let mut bits = Vec::new();
    for (buffers, validity) in written {
        arrived.iter_mut().zip(buffers).for_each(|(all, piece)| all.push(piece));
        bits.extend(validity);
    }
    let buffers = memories.into_iter().zip(arrived).map(|(memory, all)| memory.finish(all));
    let nulls = validity
        .map(|memory| NullBuffer::new(BooleanBuffer::new(memory.finish(bits), 0, column.len())));
    // SAFETY: as many values as there are rows, which the decoders have written; offsets
    // rise from 0 to the number of bytes because `offsets_*` clamps them, each part from
    // where the one before has ended. `Pending::finish` has found no fault in any part.
    Ok(unsafe { array_of(data_type, column.len(), nulls, buffers.collect()) })
}
