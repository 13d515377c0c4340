//! Compression from host memory to host memory: numbers and booleans in parts.
//!
//! What all parts take together is known only at the end, so that room for it is made by
//! what the first has taken; if that does not suffice there is more room, and one copy at
//! the end. Checksums are made of what has come down while more is on its way.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::FieldRef;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::{land, part_bytes, pipeline};
use crate::arrow_type;
use crate::column::{CompressedColumn, compress_field, physical_of};
use crate::device::Marks;
use crate::device::array::{DeviceSlice, HostBuffers};
use crate::device::column::{DeviceChunk, chunk_of};
use crate::device::pinned::{Landed, Landing, Piece};
use crate::device::{Context, DeviceArray};
use crate::encode::{Encoder, encode_array, encodes_on_device, verify};
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
    if !encodes_on_device(field.data_type(), options) {
        return compress_field(field.clone(), array, options);
    }
    let row_bits = physical_of(field.data_type()).bits();
    let part_rows = row_bits.map(|bits| part_bytes(context) * 8 / bits / options.chunk_rows);
    let part_rows = part_rows.map(|chunks| chunks.max(1) * options.chunk_rows);
    match part_rows {
        // To verify, all of it has to be there again.
        Some(rows) if rows < array.len() && !options.verify => {
            compress_parts(context, field, array, options, rows)
        }
        _ => {
            let on_device = DeviceArray::upload(context, array)?;
            let column = encode_array(field, &on_device, options, &mut ())?;
            verify(&column, || Ok(array.clone()), options)?;
            column.download()
        }
    }
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

/// Compresses numbers or booleans in parts of `part_rows` rows.
fn compress_parts(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
    part_rows: usize,
) -> Result<CompressedColumn> {
    let host = HostBuffers::of(array)?;
    let bits = physical_of(field.data_type()).bits().unwrap_or(8);
    let sums: Vec<OnceLock<u64>> =
        (0..array.len().div_ceil(options.chunk_rows)).map(|_| OnceLock::new()).collect();
    let mut chunks: Vec<DeviceChunk> = Vec::new();
    let mut landings: Vec<Arc<Landing>> = Vec::new();
    let landed = context.with_stream(|stream| {
        context.with_stream(|reader| {
            let on_device = host.allocate(context, stream, array.data_type(), array.len())?;
            let (validity, slices) = on_device.slices();
            let values = slices[0].clone();
            let bytes = |rows: Range<usize>| rows.start * bits / 8..(rows.end * bits).div_ceil(8);
            let rows = |part: usize| part * part_rows..((part + 1) * part_rows).min(array.len());
            let upload = |stream: &dyn Stream, part: usize| {
                if let (0, Some(slice), Some(bits)) = (part, validity, &host.validity) {
                    stream.upload(bits, slice.buffer(), slice.start())?;
                }
                let bytes = bytes(rows(part));
                stream.upload(&host.buffers[0][bytes.clone()], values.buffer(), bytes.start)
            };
            let marks: &mut dyn Marks = &mut ();
            let mut encoder = Encoder::new([stream, reader], marks, field, &on_device);
            let parts = array.len().div_ceil(part_rows);
            encoder.require(rows(0), options)?;
            rayon::in_place_scope(|checks| {
                let work = |part: usize| {
                    let rows = rows(part);
                    let (bodies, written) = encoder.part(rows.clone(), options)?;
                    let first = chunks.len();
                    chunks.extend(written);
                    let lengths: Vec<usize> =
                        chunks[first..].iter().map(DeviceChunk::body_len).collect();
                    let len = bodies.len();
                    let cut = landings.last().and_then(|landing| landing.cut(len));
                    let piece = cut.map_or_else(
                        || {
                            // What the rest takes if it is like this part, and a little more.
                            let rest = (array.len() - rows.start).div_ceil(rows.len());
                            let room = len.saturating_mul(rest) / 16 * 17 + len / 16;
                            let landing = Landing::new(context.pool(), room.max(len));
                            landings.push(landing.clone());
                            landing.cut(len).ok_or_else(|| Error::device("no room for a part"))
                        },
                        Ok,
                    )?;
                    let (chunks, ready) = (first..chunks.len(), stream.record()?);
                    Ok(Compressed { chunks, bodies: bodies.into(), lengths, piece, ready })
                };
                let download = |stream: &dyn Stream, part: Compressed| {
                    let landed = land(stream, &part.ready, &part.bodies, part.piece)?;
                    let mut at = 0;
                    for (chunk, len) in part.chunks.zip(part.lengths) {
                        let (landed, sum, range) = (landed.clone(), &sums[chunk], at..at + len);
                        at += len;
                        checks.spawn(move |_| {
                            let _ = sum.set(xxh3_64(&landed[range]));
                        });
                    }
                    Ok(landed)
                };
                pipeline(context, stream, parts, &upload, work, &download)
            })
        })
    })?;
    let bodies = joined(landings, landed);
    let mut at = 0;
    let arrived: Vec<(&DeviceChunk, u64, Buffer)> = (chunks.iter().zip(&sums))
        .map(|(chunk, sum)| {
            let body = bodies.slice_with_length(at, chunk.body_len());
            at += chunk.body_len();
            (chunk, sum.get().copied().unwrap_or_default(), body)
        })
        .collect();
    let chunks = (arrived.into_par_iter().enumerate())
        .map(|(index, (chunk, sum, body))| {
            chunk_of(chunk, Some(sum), body, field).map_err(|error| error.in_chunk(index))
        })
        .collect::<Result<_>>()?;
    Ok(CompressedColumn::new(field.clone(), chunks, Vec::new()).with_bodies(bodies))
}

/// The bytes of all landings; a copy of them all where one did not suffice, or had room for
/// more than twice as many.
fn joined(landings: Vec<Arc<Landing>>, landed: Vec<Arc<Landed>>) -> Buffer {
    let mut landed = landed.into_iter().peekable();
    let mut buffers: Vec<Buffer> = Vec::new();
    let room: usize = landings.iter().map(|landing| landing.room()).sum();
    for landing in landings {
        let mut of_this = Vec::new();
        while let Some(part) = landed.next_if(|part| part.is_of(&landing)) {
            of_this.push(part);
        }
        buffers.push(landing.finish(of_this));
    }
    // The result keeps all of the room as long as it lives.
    if buffers.len() == 1 && room / 2 <= buffers[0].len() {
        return buffers.remove(0);
    }
    let mut all = MutableBuffer::with_capacity(buffers.iter().map(Buffer::len).sum());
    buffers.iter().for_each(|buffer| all.extend_from_slice(buffer));
    all.into()
}
