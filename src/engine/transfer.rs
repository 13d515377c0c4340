//! From host to host: columns in parts, of which one goes up while the device works on
//! the one before and the one before that comes down.
//!
//! ```text
//! uploaders, 2:     part 2 ->, part 3 ->        the bus, up
//! caller's thread:         part 1               kernels, and the host's planning
//! downloaders, 2:   <- part 0                   the bus, down
//! checksums:      part 0                        of what compression has brought down
//! ```
//!
//! The bus is slower than kernels by a factor of 20, and than all else that the host
//! does, so it has to be busy all the time, in both directions if both are needed. Copies
//! wait until they are done ([`Stream::upload`]), which makes it plain how long their
//! memory is used; with two threads a direction the next copy is in its stream when
//! one ends.
//!
//! Numbers and booleans go so. Strings are uploaded, worked on and downloaded as a whole,
//! beside other columns; so are columns of one part.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow_schema::FieldRef;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::array::{DeviceSlice, HostBuffers, array_of};
use super::column::{DeviceChunk, chunk_of, decodes_on_device, placed};
use super::decode;
use super::encode::{Encoder, verify};
use super::pinned::{Landed, Landing, Piece};
use super::program::Marks;
use super::{Context, DeviceArray, DeviceColumn, encode};
use crate::column::{CompressedColumn, compress_field, physical_of};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::gpu::{Event, Stream};
use crate::options::Options;

/// Threads of a direction.
const THREADS: usize = 2;

/// Parts begin at multiples of so many rows, so that bitmaps are cut at bytes.
const ROWS: usize = 64;

/// Bytes of a part's values: on the emulation few, so that tests see parts.
///
/// The first part goes up and the last comes down alone, so they are short; but long
/// enough that what the host does for one, up to 0.3 ms, is hidden behind the bus.
fn part_bytes(context: &Context) -> usize {
    if context.device.is_host() { 32 << 10 } else { 32 << 20 }
}

/// Compresses an array that lies in host memory, to host memory.
pub(super) fn compress(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
) -> Result<CompressedColumn> {
    crate::arrow_type::check(field.data_type())?;
    if !encode::encodes_on_device(field.data_type()) {
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
            let column = encode::encode_array(field, &on_device, options, &mut ())?;
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
                            let landing = Landing::new(&context.pool, room.max(len));
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

/// The bytes of all landings; one copy of them all where one did not suffice.
fn joined(landings: Vec<Arc<Landing>>, landed: Vec<Arc<Landed>>) -> Buffer {
    let mut landed = landed.into_iter().peekable();
    let mut buffers: Vec<Buffer> = Vec::new();
    for landing in landings {
        let mut of_this = Vec::new();
        while let Some(part) = landed.next_if(|part| part.is_of(&landing)) {
            of_this.push(part);
        }
        buffers.push(landing.finish(of_this));
    }
    if buffers.len() == 1 {
        return buffers.remove(0);
    }
    let mut all = MutableBuffer::with_capacity(buffers.iter().map(Buffer::len).sum());
    buffers.iter().for_each(|buffer| all.extend_from_slice(buffer));
    all.into()
}

/// Decompresses a column from host memory to host memory.
pub(super) fn decompress(context: &Arc<Context>, column: &CompressedColumn) -> Result<ArrayRef> {
    if !decodes_on_device(column) {
        return column.decompress();
    }
    let parts = physical_of(column.data_type()).bits().map(|bits| cut(context, column, bits));
    match parts {
        Some(parts) if parts.len() > 1 => decompress_parts(context, column, &parts),
        _ => DeviceColumn::upload(context, column)?.decompress()?.to_host(),
    }
}

/// Chunks that go together; their rows begin at multiples of [`ROWS`].
fn cut(context: &Context, column: &CompressedColumn, bits: usize) -> Vec<Range<usize>> {
    let least = part_bytes(context) * 8 / bits;
    let mut parts: Vec<Range<usize>> = Vec::new();
    let (mut first, mut start) = (0, 0);
    for (index, rows) in column.chunk_rows().enumerate() {
        let last = index + 1 == column.chunks().len();
        if last || (rows.end - start >= least && rows.end.is_multiple_of(ROWS)) {
            parts.push(first..index + 1);
            (first, start) = (index + 1, rows.end);
        }
    }
    parts
}

/// A part of a decompressed column on its way down.
struct Decompressed {
    array: DeviceArray,
    values: Piece,
    validity: Option<Piece>,
}

/// Decompresses numbers or booleans in parts, each so many chunks.
fn decompress_parts(
    context: &Arc<Context>,
    column: &CompressedColumn,
    parts: &[Range<usize>],
) -> Result<ArrayRef> {
    let data_type = column.data_type();
    let physical = physical_of(data_type);
    let bytes = |rows: usize| (rows * physical.bits().unwrap_or(8)).div_ceil(8);
    let values = Landing::new(&context.pool, bytes(column.len()));
    let has_nulls = column.null_count() > 0;
    let validity = has_nulls.then(|| Landing::new(&context.pool, column.len().div_ceil(8)));
    let body_bytes = |chunks: Range<usize>| -> usize {
        column.chunks()[chunks].iter().map(|chunk| chunk.body().len()).sum()
    };
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |at, chunks| {
            let start = *at;
            *at += body_bytes(chunks.clone());
            Some(start)
        })
        .collect();
    let landed = context.with_stream(|stream| {
        let bodies = Arc::new(stream.allocate(body_bytes(0..column.chunks().len()))?);
        let upload = |stream: &dyn Stream, part: usize| {
            let mut at = starts[part];
            for run in column.body_runs_of(parts[part].clone()) {
                stream.upload(&run, &bodies, at)?;
                at += run.len();
            }
            Ok(())
        };
        let work = |part: usize| {
            let (chunks, ready) = (parts[part].clone(), stream.record()?);
            let first = chunks.start;
            let body = bodies.address() + starts[part] as u64;
            let chunks = placed(&column.chunks()[chunks], body);
            let field = column.field().clone();
            let part =
                DeviceColumn::new(context.clone(), field, chunks, vec![bodies.clone()], ready);
            let array = decode::start(stream, &part, &mut ())?.behind(first).finish()?;
            let rows = array.len();
            let piece = |landing: &Arc<Landing>, bytes| {
                landing.cut(bytes).ok_or_else(|| Error::device("no room for a part"))
            };
            let values = piece(&values, bytes(rows))?;
            let validity =
                validity.as_ref().map(|landing| piece(landing, rows.div_ceil(8))).transpose()?;
            Ok(Decompressed { array, values, validity })
        };
        let download = |stream: &dyn Stream, part: Decompressed| {
            let (validity, slices) = part.array.slices();
            let ready = part.array.ready();
            let bits = match (part.validity, validity) {
                (Some(piece), Some(slice)) => Some(land(stream, ready, slice, piece)?),
                // No nulls in this part.
                (Some(piece), None) => Some(piece.fill(0xff)?),
                (None, _) => None,
            };
            Ok((land(stream, ready, &slices[0], part.values)?, bits))
        };
        pipeline(context, stream, parts.len(), &upload, work, &download)
    })?;
    let (landed_values, landed_bits): (Vec<_>, Vec<_>) = landed.into_iter().unzip();
    let values = values.finish(landed_values);
    let nulls = validity.map(|landing| {
        let bits = landing.finish(landed_bits.into_iter().flatten().collect());
        NullBuffer::new(BooleanBuffer::new(bits, 0, column.len()))
    });
    debug_assert!(physical != Physical::Bytes);
    // SAFETY: values of fixed width or bits, as many as there are rows, which the decoders
    // have written: `Pending::finish` has found no fault.
    Ok(unsafe { array_of(data_type, column.len(), nulls, vec![values]) })
}

/// Copies the first bytes of a slice to where they belong, once they are `ready`.
fn land(
    stream: &dyn Stream,
    ready: &Arc<dyn Event>,
    source: &DeviceSlice,
    piece: Piece,
) -> Result<Arc<Landed>> {
    stream.wait(ready.as_ref())?;
    piece.land(|target| stream.download_to(source.buffer(), source.start(), target))
}

/// Uploads parts, works on each on `stream` in the calling thread once it has arrived, and
/// downloads what comes of it; the results in order.
///
/// What `upload` writes to has been allocated on `stream`.
fn pipeline<J: Send, R: Send>(
    context: &Context,
    stream: &Arc<dyn Stream>,
    parts: usize,
    upload: &(impl Fn(&dyn Stream, usize) -> Result<()> + Sync),
    mut work: impl FnMut(usize) -> Result<J>,
    download: &(impl Fn(&dyn Stream, J) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let allocated = &stream.record()?;
    let next = &AtomicUsize::new(0);
    thread::scope(|scope| {
        // Threads end with their channels, and these with this closure.
        let (arrived, arrivals) = mpsc::channel();
        let (jobs, todo) = mpsc::channel::<(usize, J)>();
        let todo = Arc::new(Mutex::new(todo));
        for _ in 0..THREADS {
            let (arrived, failed) = (arrived.clone(), arrived.clone());
            let each = move |stream: &Arc<dyn Stream>| {
                stream.wait(allocated.as_ref())?;
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        return Ok(());
                    }
                    upload(stream.as_ref(), part)?;
                    // An error once nobody waits for parts any more.
                    if arrived.send(Ok((part, stream.record()?))).is_err() {
                        return Ok(());
                    }
                }
            };
            start(scope, move || {
                if let Err(error) = context.with_stream(each) {
                    let _ = failed.send(Err(error));
                }
            })?;
        }
        drop(arrived);
        let mut downloaders = Vec::new();
        for _ in 0..THREADS {
            let todo = todo.clone();
            let each = move |stream: &Arc<dyn Stream>| {
                let mut results = Vec::new();
                loop {
                    let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((part, job)) = job else { return Ok(results) };
                    results.push((part, download(stream.as_ref(), job)?));
                }
            };
            downloaders.push(start(scope, move || context.with_stream(each))?);
        }
        drop(todo);
        let mut work_all = || -> Result<()> {
            let mut events: Vec<Option<Arc<dyn Event>>> = vec![None; parts];
            for part in 0..parts {
                let event = loop {
                    if let Some(event) = events[part].take() {
                        break event;
                    }
                    let lost = |_| Error::device("a thread that uploads is gone");
                    let (arrived, event) = arrivals.recv().map_err(lost)??;
                    events[arrived] = Some(event);
                };
                stream.wait(event.as_ref())?;
                // An error of those who download is found below.
                let _ = jobs.send((part, work(part)?));
            }
            Ok(())
        };
        let mut failed = work_all().err();
        next.store(parts, Ordering::Relaxed);
        drop(jobs);
        let mut results = Vec::new();
        for downloader in downloaders {
            match downloader.join() {
                Ok(Ok(some)) => results.extend(some),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results.sort_by_key(|(part, _)| *part);
        match failed {
            Some(error) => Err(error),
            None => Ok(results.into_iter().map(|(_, result)| result).collect()),
        }
    })
}

/// A thread of its own: one of rayon's that waits for a copy would be missing to planning.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let started = thread::Builder::new().spawn_scoped(scope, work);
    started.map_err(|error| Error::device(format!("no thread for copies: {error}")))
}
