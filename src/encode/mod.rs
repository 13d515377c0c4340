//! Compression on a device: the same chunks as the CPU's, byte for byte.
//!
//! ```text
//! Arrow buffers --measure--> what is known of vectors (stays there)
//!                                |  totals of chunks, up to 96 bytes each
//!                                v
//!               host: plans, headers, places  --write--> bodies in device memory
//! ```
//!
//! *Measure* (words.rs) reads all values once for bounds, or exponents of floats, and some of
//! them for windows and what else encodings ask for (encoders); a second time those of chunks whose
//! plans need that of all vectors. Of chunks whose values come again or have a divisor other words
//! are made that go the same way (tree.rs); and so do bits, as bytes (bits.rs). What
//! a plan needs are sums over a chunk's sampled vectors, so that a plan is made of
//! the same numbers as on the CPU without copying a sample: a sample of 16 vectors
//! of each chunk is an eighth of it, and searching it on the CPU would take longer
//! than everything else. *Write* (write.rs) knows every size, lays all bodies out in
//! one buffer and reads the values again; nothing is kept in between but the
//! parameters of vectors ([`words::Words`] states how much that is), and codes and runs of
//! chunks that have them. A large column is
//! worked on in parts, so that the host plans one while the device is busy with others: in order
//! ([`encode_in_order`]) or side by side ([`encode_side_by_side`]).
//!
//! Nested columns lie in host memory: the host takes them apart, and kernels encode their leaves
//! (nested). Columns that devices do not encode (views, FixedSizeBinary, types that are carried as
//! Arrow IPC) are compressed by the CPU.

mod bits;
mod constants;
mod encoders;
mod launch;
mod measurements;
mod missing;
mod nested;
mod part;
mod source;
mod statistics;
mod strings;
mod tree;
mod words;
mod write;

pub(crate) use nested::{EncodedChunks, compress_nested, encode_arrays, verify_chunks};

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema};
use rayon::prelude::*;

use crate::arrow_type;
use crate::chunk::{ALIGNMENT, MAX_CHUNK_ROWS};
use crate::column::{compress_field, physical_of};
use crate::device::Marks;
use crate::device::array::DeviceSlice;
use crate::device::column::{DeviceChunk, DeviceColumn};
use crate::device::{Context, DeviceArray};
use crate::encoding::Physical;
use crate::encoding::nested::comes_apart;
use crate::error::{Error, Place, Result};
use crate::gpu::abi;
use crate::gpu::{DeviceBuffer, Event, Stream};
use crate::lanes::VECTOR;
use crate::options::Options;
use launch::{Launcher, Scope, StreamRole};
use part::PartEncoder;
use source::Column;
use strings::StringColumn;
use write::{Parts, Planned};

/// Checks arrays against a schema; their number of rows.
pub(crate) fn check_arrays(
    context: &Context,
    schema: &Schema,
    arrays: &[DeviceArray],
) -> Result<usize> {
    let mismatch = |what: String| Err(Error::Mismatch { place: Place::default(), what });
    if schema.fields().len() != arrays.len() {
        let fields = schema.fields().len();
        return mismatch(format!("{} arrays for {fields} fields", arrays.len()));
    }
    let rows = arrays.first().map_or(0, DeviceArray::len);
    for (field, array) in schema.fields().iter().zip(arrays) {
        let name = field.name();
        if field.data_type() != array.data_type() {
            let (expected, found) = (field.data_type(), array.data_type());
            return mismatch(format!("an array of {found} for column {name:?} of {expected}"));
        }
        if array.len() != rows {
            return mismatch(format!(
                "{} rows in column {name:?}, {rows} in the first",
                array.len()
            ));
        }
        if !field.is_nullable() && array.null_count() > 0 {
            let nulls = array.null_count();
            return mismatch(format!("{nulls} nulls in column {name:?}, which is not nullable"));
        }
        if array.device() != context.device().info() {
            return mismatch(format!("column {name:?} lies on {}", array.device().name));
        }
    }
    Ok(rows)
}

/// Whether values of a type are encoded by kernels.
pub(crate) fn encodes_on_device(data_type: &DataType) -> bool {
    is_strings(data_type) || physical_of(data_type).bits().is_some()
}

/// Whether kernels encode values of a type, or leaves of nested ones.
pub(crate) fn uses_device(data_type: &DataType) -> bool {
    encodes_on_device(data_type) || comes_apart(data_type)
}

/// Whether values are strings with offsets.
fn is_strings(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary)
}

/// Compresses the columns of a batch side by side, each on a stream and thread of its
/// own, so that copies and kernels of different columns overlap.
pub(crate) fn upload_and_compress(
    context: &Arc<Context>,
    values: &RecordBatch,
    options: &Options,
) -> Result<Vec<DeviceColumn>> {
    let schema = values.schema();
    let compress = |(field, array): (&FieldRef, &ArrayRef)| -> Result<DeviceColumn> {
        let column = || {
            arrow_type::check(field.data_type())?;
            if comes_apart(field.data_type()) {
                return compress_nested(context, field, array, options);
            }
            if !encodes_on_device(field.data_type()) {
                return compressed_by_cpu(context, field, array, options);
            }
            let on_device = DeviceArray::upload(context, array)?;
            let column = encode_array(field, &on_device, options, &mut ())?;
            verify(&column, || Ok(array.clone()), options)?;
            Ok(column)
        };
        column().map_err(|error: Error| error.in_column(field.name()))
    };
    side_by_side(schema.fields().iter().zip(values.columns()).collect(), compress)
}

/// Does something for every column, all at a time; what did not fit beside others may
/// fit alone.
pub(crate) fn side_by_side<T: Copy + Send + Sync, R: Send>(
    columns: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let all: Vec<Result<R>> = columns.par_iter().map(|column| work(*column)).collect();
    (all.into_iter().zip(columns))
        .map(|(done, column)| match done {
            Err(Error::DeviceMemory { .. }) => work(column),
            done => done,
        })
        .collect()
}

pub(crate) fn compressed_by_cpu(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
) -> Result<DeviceColumn> {
    DeviceColumn::upload(context, &compress_field(field.clone(), array, options)?)
}

/// If asked to, decompresses a column and compares it with what went in.
pub(crate) fn verify(
    column: &DeviceColumn,
    values: impl FnOnce() -> Result<ArrayRef>,
    options: &Options,
) -> Result<()> {
    // What is carried as Arrow IPC the CPU has verified itself.
    if options.verify && !column.is_empty() && !column.is_carried() {
        let (back, values) = (column.decompress()?.to_host()?, values()?);
        if back.as_ref() != values.as_ref() {
            return Err(Error::Verify { place: Place::default() });
        }
    }
    Ok(())
}

/// Compresses an array; kernels have been started when this returns.
pub(crate) fn encode_array(
    field: &FieldRef,
    array: &DeviceArray,
    options: &Options,
    marks: &mut dyn Marks,
) -> Result<DeviceColumn> {
    let context = array.context();
    with_launcher(context, marks, |mut launcher| {
        launcher.stream.wait(array.ready().as_ref())?;
        if !is_strings(field.data_type()) {
            let column = Column::new(field, array);
            return encode(context, launcher, column, options);
        }
        match encode_strings(context, &mut launcher, field, array, options)? {
            Some(column) => Ok(column),
            None => compressed_by_cpu(context, field, &array.to_host()?, options),
        }
    })
}

/// Calls `work` with a launcher on streams of its own.
fn with_launcher<T>(
    context: &Context,
    marks: &mut dyn Marks,
    work: impl FnOnce(Launcher<'_>) -> Result<T>,
) -> Result<T> {
    let [main, long, after, idle] = StreamRole::ALL.map(StreamRole::priority);
    context.with_stream_of(main, |main| {
        context.with_stream_of(long, |long| {
            context.with_stream_of(after, |after| {
                context.with_stream_of(idle, |idle| {
                    context.with_stream(|reader| {
                        let streams = [main, long, after, idle];
                        work(Launcher::new(streams, reader, marks, context.device().is_host()))
                    })
                })
            })
        })
    })
}

/// Bytes of a part's values; on the emulation few, so that tests see parts.
fn part_bytes(context: &Context) -> usize {
    if context.device().is_host() { 1 << 20 } else { 512 << 20 }
}

/// Compresses a column, in parts if it is large.
fn encode(
    context: &Arc<Context>,
    mut launcher: Launcher<'_>,
    column: Column,
    options: &Options,
) -> Result<DeviceColumn> {
    launcher.mark("")?;
    launcher.keep(&column.memory);
    let value = column.physical().bits().unwrap_or(8).div_ceil(8);
    let part_rows = (part_bytes(context) / value / options.chunk_rows).max(1) * options.chunk_rows;
    let parts: Vec<Column> = (0..column.rows)
        .step_by(part_rows)
        .map(|start| column.slice(start, part_rows.min(column.rows - start)))
        .collect();
    let scratch = |part: &Column| PartEncoder::scratch_bytes(part, options);
    context.require(parts.iter().map(scratch).sum())?;
    // Chunks of floats are mostly planned at once, and then gain nothing from workers: on an NVIDIA
    // H100 they lost 3 to 19 % against commit 69a4b22, which has parts in order.
    let in_order = matches!(column.physical(), Physical::F32 | Physical::F64);
    let written = match parts.len() > 1 && !in_order && !launcher.marks.is_serial() {
        true => encode_side_by_side(context, &mut launcher, &parts, options)?,
        false => encode_in_order(&mut launcher, &parts, options)?,
    };
    launcher.join()?;
    column_of(context, &launcher, &column.field, written)
}

/// Compresses parts of a column one after another. All are measured first, so that the device measures
/// later ones while the host plans the first.
fn encode_in_order(
    launcher: &mut Launcher<'_>,
    parts: &[Column],
    options: &Options,
) -> Result<Parts> {
    let started: Vec<PartEncoder> = (parts.iter())
        .map(|part| PartEncoder::start(launcher, part, options))
        .collect::<Result<_>>()?;
    let write = |(part, encoder)| write_part(launcher, part, encoder, StreamRole::Main, options);
    parts.iter().zip(started).map(write).collect()
}

/// Threads that plan and write parts of a column, each on streams of its own.
const WORKERS: usize = 3;

/// A part of a column that is being measured.
struct StartedPart<'p> {
    part: &'p Column,
    encoder: PartEncoder,
    measured: Arc<dyn Event>,
}

/// Compresses parts of a column side by side. All are measured in order; worker w plans and writes
/// parts w, w + 3 and so on as soon as they have been measured. What plans miss of a part comes before
/// what is measured of later ones, and bodies are written on a stream of low priority, so the device
/// is busy while the host plans.
fn encode_side_by_side(
    context: &Arc<Context>,
    launcher: &mut Launcher<'_>,
    parts: &[Column],
    options: &Options,
) -> Result<Parts> {
    launcher.switch(StreamRole::Long);
    launcher.wait_for(StreamRole::Main)?;
    let mut workers: Vec<Vec<StartedPart<'_>>> = (0..WORKERS).map(|_| Vec::new()).collect();
    for (number, part) in parts.iter().enumerate() {
        let encoder = PartEncoder::start(launcher, part, options)?;
        let measured = launcher.stream.record()?;
        workers[number % WORKERS].push(StartedPart { part, encoder, measured });
    }
    let kept = launcher.kept();
    let work = |own: Vec<StartedPart<'_>>| {
        with_launcher(context, &mut (), |mut launcher| {
            launcher.keep(&kept);
            let write = |StartedPart { part, encoder, measured }| {
                launcher.stream.wait(measured.as_ref())?;
                write_part(&mut launcher, part, encoder, StreamRole::After, options)
            };
            let written: Parts = own.into_iter().map(write).collect::<Result<_>>()?;
            launcher.join()?;
            Ok((written.into_iter(), launcher.stream.record()?))
        })
    };
    let all: Vec<Result<_>> = workers.into_par_iter().map(work).collect();
    let mut written = Vec::with_capacity(WORKERS);
    launcher.join()?;
    for own in all {
        let (own, done) = own?;
        launcher.stream.wait(done.as_ref())?;
        written.push(own);
    }
    let all: Option<Parts> =
        (0..parts.len()).map(|number| written[number % WORKERS].next()).collect();
    all.ok_or_else(|| Error::device("a part that has not been compressed"))
}

/// Compresses a part of a column.
fn encode_part(
    launcher: &mut Launcher<'_>,
    part: &Column,
    options: &Options,
) -> Result<(Arc<DeviceBuffer>, Vec<Planned>)> {
    let encoder = PartEncoder::start(launcher, part, options)?;
    write_part(launcher, part, encoder, StreamRole::Main, options)
}

/// Plans a part of a column that is being measured, and writes it on the stream of a role. Memory of
/// what is derived from its values is freed then.
fn write_part(
    launcher: &mut Launcher<'_>,
    part: &Column,
    mut encoder: PartEncoder,
    role: StreamRole,
    options: &Options,
) -> Result<(Arc<DeviceBuffer>, Vec<Planned>)> {
    launcher.in_scope(Scope::Part(0), |launcher| {
        let planned = encoder.plan(launcher, part, options)?;
        launcher.mark("plan")?;
        launcher.switch(role);
        launcher.wait_for(StreamRole::Main)?;
        let body = encoder.write(launcher, part, &planned)?;
        launcher.switch(StreamRole::Main);
        launcher.release(launcher.scope);
        Ok((body, planned))
    })
}

/// Compresses a column of strings; none if only the CPU can.
fn encode_strings(
    context: &Arc<Context>,
    launcher: &mut Launcher<'_>,
    field: &FieldRef,
    array: &DeviceArray,
    options: &Options,
) -> Result<Option<DeviceColumn>> {
    let column = StringColumn::new(launcher, field, array)?;
    launcher.mark("")?;
    launcher.keep(&column.memory);
    let written = encode_string_parts(context, launcher, &column, options)?;
    written.map(|written| column_of(context, launcher, field, written)).transpose()
}

/// Compresses strings that lie on the device; none if only the CPU can.
fn encode_string_parts(
    context: &Arc<Context>,
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    options: &Options,
) -> Result<Option<Parts>> {
    let span_bytes = strings::span_bytes(context.device().is_host());
    strings::encode(context, launcher, column, options, span_bytes)
}

/// The column of chunks that kernels have been started to write.
fn column_of(
    context: &Arc<Context>,
    launcher: &Launcher<'_>,
    field: &FieldRef,
    written: Parts,
) -> Result<DeviceColumn> {
    let mut chunks: Vec<DeviceChunk> = Vec::new();
    let mut bodies = Vec::new();
    for (body, planned) in written {
        let start = chunks.last().map_or(0, |chunk| chunk.start + chunk.rows());
        chunks.extend(chunks_of(&body, planned, start));
        bodies.push(body);
    }
    let ready = launcher.stream.record()?;
    Ok(DeviceColumn::new(context.clone(), field.clone(), chunks, bodies, ready))
}

/// The chunks of a part whose first row is row `start` of the column.
fn chunks_of(
    bodies: &DeviceBuffer,
    planned: Vec<Planned>,
    mut start: usize,
) -> impl Iterator<Item = DeviceChunk> + use<> {
    let mut body = bodies.pointer::<u8>();
    planned.into_iter().map(move |planned| {
        let chunk = DeviceChunk::new(planned.header, false, planned.bounds, body, start);
        body = body.add(chunk.body_len());
        start += chunk.rows();
        chunk
    })
}

/// The bodies of consecutive chunks, and these.
pub(crate) type WrittenPart = (Arc<DeviceBuffer>, Vec<DeviceChunk>);

/// Compresses an array part by part, each when it is told to. Strings have parts of whole groups,
/// as the chunks of a group share a symbol table.
pub(crate) struct Encoder<'a> {
    context: &'a Arc<Context>,
    /// That of the kernels, and one for what the host reads of them.
    streams: [&'a Arc<dyn Stream>; 2],
    column: Source,
}

/// What is compressed.
enum Source {
    Words(Column),
    Strings(StringColumn),
}

impl<'a> Encoder<'a> {
    /// `streams` are that of the kernels, and one for what the host reads of them.
    pub fn new(
        streams: [&'a Arc<dyn Stream>; 2],
        field: &FieldRef,
        array: &'a DeviceArray,
    ) -> Result<Self> {
        let (context, marks): (_, &mut dyn Marks) = (array.context(), &mut ());
        let mut launcher = launcher(context, streams, marks);
        let column = match is_strings(field.data_type()) {
            true => Source::Strings(StringColumn::new(&mut launcher, field, array)?),
            false => Source::Words(Column::new(field, array)),
        };
        Ok(Self { context, streams, column })
    }

    /// An error if there is not enough memory for parts of so many rows; strings see to it when
    /// more is known of them. Of little memory the allocation itself says so: to ask the driver takes as
    /// long as to compress it.
    pub fn require(&self, rows: Range<usize>, options: &Options) -> Result<()> {
        let Source::Words(column) = &self.column else { return Ok(()) };
        let part = column.slice(rows.start, rows.len());
        match PartEncoder::scratch_bytes(&part, options) {
            0..=LITTLE if !self.context.device().is_host() => Ok(()),
            bytes => self.context.require(bytes),
        }
    }

    /// Starts compressing `rows`, which have arrived, and have so many bytes of values: their bodies
    /// and chunks.
    ///
    /// # Errors
    /// Also for a chunk of strings of 2 GiB or more, which only the CPU compresses.
    pub fn part(
        &mut self,
        rows: Range<usize>,
        value_bytes: usize,
        options: &Options,
    ) -> Result<Vec<WrittenPart>> {
        let marks: &mut dyn Marks = &mut ();
        let mut launcher = launcher(self.context, self.streams, marks);
        let start = rows.start;
        let written = match &self.column {
            Source::Words(column) => {
                launcher.keep(&column.memory);
                let part = column.slice(start, rows.len());
                vec![encode_part(&mut launcher, &part, options)?]
            }
            Source::Strings(column) => {
                launcher.keep(&column.memory);
                let part = column.slice(rows, value_bytes);
                let written = encode_string_parts(self.context, &mut launcher, &part, options)?;
                written.ok_or_else(|| Error::device("a chunk of strings of 2 GiB or more"))?
            }
        };
        Ok(with_chunks(written, start))
    }
}

/// Bytes of device memory that an [`Encoder`] allocates without a look at what is free.
const LITTLE: usize = 256 << 20;

/// A launcher of work that needs no more than one stream.
fn launcher<'a>(
    context: &Context,
    [stream, reader]: [&'a Arc<dyn Stream>; 2],
    marks: &'a mut dyn Marks,
) -> Launcher<'a> {
    Launcher::on_one_stream(stream, reader, marks, context.device().is_host())
}

/// Parts of a column, the first of which begins at row `start`, and their chunks.
fn with_chunks(written: Parts, mut start: usize) -> Vec<WrittenPart> {
    let part = |(body, planned): (Arc<DeviceBuffer>, Vec<Planned>)| {
        let chunks: Vec<DeviceChunk> = chunks_of(&body, planned, start).collect();
        start = chunks.last().map_or(start, |chunk| chunk.start + chunk.rows());
        (body, chunks)
    };
    written.into_iter().map(part).collect()
}

/// Counts the set bits among the first `len` of a bitmap.
pub(crate) fn count_valid(
    context: &Context,
    stream: &Arc<dyn Stream>,
    bitmap: &DeviceSlice,
    len: usize,
) -> Result<usize> {
    context.with_stream(|reader| {
        let marks: &mut dyn Marks = &mut ();
        let is_host = context.device().is_host();
        let mut launcher = Launcher::on_one_stream(stream, reader, marks, is_host);
        let column = Column::of_bits(bitmap.buffer(), bitmap.pointer(), 0, len);
        launcher.keep(&column.memory);
        let counts = write::count_bits(&mut launcher, &column, MAX_CHUNK_ROWS)?;
        Ok(launcher.read(&counts)?.iter().map(|[_, set]| *set as usize).sum())
    })
}

/// The bits `rows` of a bitmap in memory of their own, from bit 0 on.
pub(crate) fn moved_bits(
    context: &Context,
    stream: &Arc<dyn Stream>,
    bitmap: &Arc<DeviceBuffer>,
    rows: &Range<usize>,
) -> Result<DeviceSlice> {
    context.with_stream(|reader| {
        let marks: &mut dyn Marks = &mut ();
        let is_host = context.device().is_host();
        let mut launcher = Launcher::on_one_stream(stream, reader, marks, is_host);
        let column = Column::of_bits(bitmap, bitmap.pointer(), rows.start, rows.len());
        launcher.keep(&column.memory);
        let bytes = rows.len().div_ceil(8);
        let out = launcher.allocate(bytes.next_multiple_of(ALIGNMENT))?;
        let parts = (0..rows.len()).step_by(MAX_CHUNK_ROWS);
        let targets: Vec<abi::Target> = parts
            .map(|start| abi::Target {
                buffer: abi::Target::only(out.pointer_at(start / 8)),
                vector: (start / VECTOR) as u64,
                rows: (rows.len() - start).min(MAX_CHUNK_ROWS) as u32,
                zero: 0,
            })
            .collect();
        write::copy_bits(&mut launcher, &column, MAX_CHUNK_ROWS, &targets, true)?;
        Ok(DeviceSlice::of(&out, 0..bytes))
    })
}

/// Chunks that are planned by one thread at least.
pub(super) const MIN_CHUNKS: usize = 32;
