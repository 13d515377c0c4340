//! Compressed columns in device memory.
//!
//! The bodies of consecutive chunks lie one behind the other, in one buffer or a few;
//! those of a column that comes from the host as in its Arrow storage, so that they are
//! uploaded in one copy; headers stay on the host, where they have been
//! validated and where launches are planned.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::checksum::xxh3_64;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, i256};
use arrow_schema::{DataType, FieldRef, SchemaRef};
use rayon::prelude::*;

use super::Context;
use super::pinned::{Piece, ResultMemory, WrittenPiece};
use crate::batch;
use crate::chunk::{Chunk, Header, NodeView, Statistics};
use crate::column::{self, CompressedColumn};
use crate::encoding::{self, Physical};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DeviceInfo, DevicePtr, Event, abi};
use crate::memory::MemoryLimit;

/// A compressed batch in device memory, where it stays compressed: [`Engine::upload`] and
/// [`Engine::compress_to_device`] make it, [`Scan::on_device`] scans it.
///
/// ```no_run
/// use arrow_array::record_batch;
/// use lanepack::{Engine, Options};
///
/// let engine = Engine::cuda(0)?;
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let on_device = engine.compress_to_device(&batch, &Options::default())?;
/// println!("{} bytes on {}", on_device.columns()[0].device_bytes(), on_device.device().name);
/// assert_eq!(lanepack::decompress(&on_device.download()?)?, batch);
/// # Ok::<(), lanepack::Error>(())
/// ```
///
/// [`Engine::upload`]: crate::Engine::upload
/// [`Engine::compress_to_device`]: crate::Engine::compress_to_device
/// [`Scan::on_device`]: crate::scan::Scan::on_device
#[derive(Debug)]
pub struct CompressedDeviceBatch {
    context: Arc<Context>,
    schema: SchemaRef,
    columns: Vec<DeviceColumn>,
    rows: usize,
}

impl CompressedDeviceBatch {
    pub(crate) fn upload(
        context: &Arc<Context>,
        schema: SchemaRef,
        columns: &[CompressedColumn],
        compressed_rows: usize,
        limit: MemoryLimit,
    ) -> Result<Self> {
        let rows = columns.first().map_or(compressed_rows, CompressedColumn::len);
        let columns = columns
            .iter()
            .map(|column| {
                let uploaded = DeviceColumn::upload(context, column);
                uploaded
                    .map(|column| DeviceColumn { limit, ..column })
                    .map_err(|error| error.in_column(column.field().name()))
            })
            .collect::<Result<_>>()?;
        Ok(Self { context: context.clone(), schema, columns, rows })
    }

    pub(crate) fn new(
        context: Arc<Context>,
        schema: SchemaRef,
        columns: Vec<DeviceColumn>,
        rows: usize,
    ) -> Self {
        Self { context, schema, columns, rows }
    }

    /// Copies the batch to host memory, compressed as it is: what
    /// [`compress`](crate::compress) gives.
    ///
    /// # Errors
    /// As [`DeviceColumn::download`].
    pub fn download(&self) -> Result<RecordBatch> {
        let columns: Vec<CompressedColumn> =
            self.columns.par_iter().map(DeviceColumn::download).collect::<Result<_>>()?;
        batch::compressed_batch(&self.schema, self.rows, &columns)
    }

    /// Copies the batch to another device.
    pub(crate) fn copy_to(&self, context: &Arc<Context>, limit: MemoryLimit) -> Result<Self> {
        let copy = |column: &DeviceColumn| {
            let copied = column.copy_to(context).map(|copied| DeviceColumn { limit, ..copied });
            copied.map_err(|error| error.in_column(column.field.name()))
        };
        let columns = self.columns.iter().map(copy).collect::<Result<_>>()?;
        Ok(Self { context: context.clone(), schema: self.schema.clone(), columns, rows: self.rows })
    }

    /// The schema of the values.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// What the values of its columns may take.
    pub(crate) fn memory_limit(&self) -> MemoryLimit {
        self.columns.first().map_or(MemoryLimit::Unlimited, |column| column.limit)
    }

    /// The columns.
    pub fn columns(&self) -> &[DeviceColumn] {
        &self.columns
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// The device that it lies on.
    pub fn device(&self) -> &DeviceInfo {
        self.context.device().info()
    }
}

/// A compressed column in device memory, one of [`CompressedDeviceBatch::columns`].
///
/// ```no_run
/// # use arrow_array::record_batch;
/// # use lanepack::{Engine, Options};
/// # let engine = Engine::cuda(0)?;
/// # let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// # let on_device = engine.compress_to_device(&batch, &Options::default())?;
/// let column = &on_device.columns()[0];
/// let array = column.decompress()?; // in device memory
/// assert_eq!(&array.to_host()?, batch.column(0));
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceColumn {
    context: Arc<Context>,
    field: FieldRef,
    chunks: Vec<DeviceChunk>,
    /// Where chunks end.
    ends: Vec<usize>,
    bodies: Vec<Arc<DeviceBuffer>>,
    /// When the bodies have arrived.
    ready: Arc<dyn Event>,
    /// What its values may take.
    limit: MemoryLimit,
    /// The least and the greatest of integers, once somebody has asked.
    bounds: OnceLock<(i256, i256)>,
    /// What layers above cache beside it.
    cache: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Where a chunk's body lies, and what its header says.
#[derive(Debug, Clone)]
pub(crate) struct DeviceChunk {
    header: Header,
    /// Whether the header has the checksums of body and bounds: not if the body was written here.
    /// They are made when the chunk comes to the host.
    has_checksum: bool,
    bounds: Bounds,
    /// The body.
    pub body: DevicePtr<u8>,
    /// The column's first row in this chunk.
    pub start: usize,
}

/// The bounds of a chunk's values; made to arrays when they are asked for, which takes
/// longer than all else that the host does for a chunk.
#[derive(Debug, Clone)]
pub(crate) enum Bounds {
    Known(Statistics),
    /// Least and greatest word, of types of up to 64 bits.
    Words(Option<[u64; 2]>),
    /// Least and greatest value, of types of more bits.
    Wide(Option<[[u64; 4]; 2]>),
    /// First bytes of the least and the greatest string.
    Strings(Option<[Vec<u8>; 2]>),
    /// Valid booleans, and those that are true.
    Counts(usize, usize),
}

impl Bounds {
    fn statistics(&self, data_type: &DataType) -> Statistics {
        match self {
            Self::Known(statistics) => statistics.clone(),
            Self::Words(bounds) => {
                Statistics::of_words(data_type, bounds.map(|words| words.map(|word| [word])))
            }
            Self::Strings(bounds) => {
                let heads = bounds.as_ref().map(|heads| heads.each_ref().map(Vec::as_slice));
                Statistics::of_strings(data_type, heads)
            }
            Self::Wide(bounds) => Statistics::of_words(data_type, *bounds),
            Self::Counts(valid, set) => Statistics::of_counts(*valid, *set),
        }
    }
}

impl DeviceChunk {
    pub fn new(
        header: Header,
        has_checksum: bool,
        bounds: Bounds,
        body: DevicePtr<u8>,
        start: usize,
    ) -> Self {
        Self { header, has_checksum, bounds, body, start }
    }

    pub fn body_len(&self) -> usize {
        self.header.body_len
    }

    /// The root of the encoding tree, without access to the body.
    pub fn root(&self) -> NodeView<'_> {
        NodeView::of_header(&self.header)
    }

    pub fn rows(&self) -> usize {
        self.header.rows
    }

    pub fn null_count(&self) -> usize {
        self.header.null_count
    }

    /// The bounds as arrays, for a column of this type.
    pub fn statistics(&self, data_type: &DataType) -> Statistics {
        self.bounds.statistics(data_type)
    }
}

/// Whether a chunk of strings of so many bytes can have views: their offsets are
/// signed and of 32 bits.
pub(crate) fn views_hold(data_type: &DataType, bytes: usize) -> bool {
    let views = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    !views || i32::try_from(bytes).is_ok()
}

/// Chunks whose bodies lie one behind the other from `body` on.
pub(crate) fn placed(chunks: &[Chunk], mut body: DevicePtr<u8>) -> Vec<DeviceChunk> {
    let mut start = 0;
    let place = |chunk: &Chunk| {
        let header = chunk.parsed_header().clone();
        let bounds = Bounds::Known(chunk.statistics().clone());
        let placed = DeviceChunk::new(header, true, bounds, body, start);
        body = body.add(chunk.body().len());
        start += chunk.rows();
        placed
    };
    chunks.iter().map(place).collect()
}

/// Chunks in device memory, whose bodies lie in some buffers and are there at `ready`.
pub(crate) struct PlacedChunks<'c> {
    pub chunks: &'c [DeviceChunk],
    pub bodies: &'c [Arc<DeviceBuffer>],
    pub ready: &'c dyn Event,
}

impl PlacedChunks<'_> {
    /// Bytes of all bodies.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(DeviceChunk::body_len).sum()
    }

    /// Where the bodies lie: in which buffer, and at which bytes of it. Those that lie one behind the other
    /// are one.
    fn runs(&self) -> Result<Vec<(&'_ Arc<DeviceBuffer>, Range<usize>)>> {
        let mut runs: Vec<(&Arc<DeviceBuffer>, Range<usize>)> = Vec::new();
        for chunk in self.chunks.iter().filter(|chunk| chunk.body_len() > 0) {
            if let Some((bodies, run)) = runs.last_mut()
                && bodies.pointer_at::<u8>(run.end) == chunk.body
                && run.end + chunk.body_len() <= bodies.len()
            {
                run.end += chunk.body_len();
                continue;
            }
            let bodies = self.bodies.iter().find(|bodies| bodies.contains(chunk.body));
            let bodies =
                bodies.ok_or_else(|| Error::device("a body in no buffer of its column"))?;
            let start = chunk.body.bytes_from(bodies.pointer());
            runs.push((bodies, start..start + chunk.body_len()));
        }
        Ok(runs)
    }

    /// Copies the bodies to a piece of as many bytes.
    ///
    /// # Panics
    /// If it has another length.
    pub fn download_to(&self, context: &Context, mut piece: Piece) -> Result<Arc<WrittenPiece>> {
        assert_eq!(piece.len(), self.len(), "a piece for all bodies");
        context.with_stream(|stream| {
            stream.wait(self.ready)?;
            let mut at = 0;
            piece.fill_with(|target| {
                self.runs()?.into_iter().try_for_each(|(bodies, run)| {
                    at += run.len();
                    stream.download_to(bodies, run.start, &mut target[at - run.len()..at])
                })
            })
        })?;
        Ok(piece.into_written())
    }

    /// Copies the chunks to host memory; with their bodies, one behind the other.
    pub fn download<'f>(
        &self,
        context: &Context,
        field: impl Fn(usize) -> &'f FieldRef + Sync,
    ) -> Result<(Vec<Chunk>, Buffer)> {
        let memory = ResultMemory::new(context.pool(), self.len());
        let written = self.download_to(context, memory.all())?;
        let bodies = memory.finish(vec![written]);
        Ok((on_host(self.chunks, &bodies, field)?, bodies))
    }
}

/// Chunks of a device, of which each is of a field, with bodies that have come to the host.
pub(crate) fn on_host<'f>(
    chunks: &[DeviceChunk],
    bodies: &Buffer,
    field: impl Fn(usize) -> &'f FieldRef + Sync,
) -> Result<Vec<Chunk>> {
    let mut at = 0;
    let placed: Vec<(&DeviceChunk, Buffer)> = (chunks.iter())
        .map(|chunk| {
            let body = bodies.slice_with_length(at, chunk.body_len());
            at += chunk.body_len();
            (chunk, body)
        })
        .collect();
    let chunk = |(index, (chunk, body)): (usize, &(&DeviceChunk, Buffer))| {
        let (sum, field) = ((!chunk.has_checksum).then(|| xxh3_64(body)), field(index));
        chunk_of(chunk, sum, body.clone(), field)
            .map_err(|error| error.in_chunk(index).in_column(field.name()))
    };
    // The error of the first chunk that has one: `collect` of a parallel iterator gives any.
    let chunks: Vec<Result<Chunk>> = placed.par_iter().enumerate().map(chunk).collect();
    chunks.into_iter().collect()
}

/// A chunk whose body has come to the host; `sum` is its checksum if the header lacks it.
pub(crate) fn chunk_of(
    chunk: &DeviceChunk,
    sum: Option<u64>,
    body: Buffer,
    field: &FieldRef,
) -> Result<Chunk> {
    let mut header = chunk.header.clone();
    if let Some(sum) = sum {
        header.body_checksum = sum;
    }
    let statistics = chunk.statistics(field.data_type());
    if !chunk.has_checksum {
        header.bounds_checksum = statistics.checksum();
    }
    let header = Buffer::from_vec(header.to_bytes());
    Chunk::parse(header, body, Some(statistics), field.data_type(), encoding::validate_tree)
}

impl DeviceColumn {
    /// A column whose bodies are in some buffers and there at `ready`.
    pub(crate) fn new(
        context: Arc<Context>,
        field: FieldRef,
        chunks: Vec<DeviceChunk>,
        bodies: Vec<Arc<DeviceBuffer>>,
        ready: Arc<dyn Event>,
    ) -> Self {
        let (bounds, cache) = (OnceLock::new(), OnceLock::new());
        let limit = MemoryLimit::Unlimited;
        let ends = chunks.iter().map(|chunk| chunk.start + chunk.rows()).collect();
        Self { context, field, chunks, ends, bodies, ready, limit, bounds, cache }
    }

    /// A column of some of the chunks, which shares their bodies.
    pub(crate) fn of_chunks(&self, chunks: Range<usize>) -> Self {
        let start = self.chunks[chunks.start].start;
        let moved =
            |chunk: &DeviceChunk| DeviceChunk { start: chunk.start - start, ..chunk.clone() };
        let chunks = self.chunks[chunks].iter().map(moved).collect();
        let (context, field) = (self.context.clone(), self.field.clone());
        Self::new(context, field, chunks, self.bodies.clone(), self.ready.clone())
    }

    /// Copies the column to host memory, compressed as it is; page-locked within the
    /// engine's limit ([`Engine::with_pinned_limit`](crate::Engine::with_pinned_limit)).
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if a copy fails.
    pub fn download(&self) -> Result<CompressedColumn> {
        let (chunks, bodies) = self.placed().download(&self.context, |_| &self.field)?;
        Ok(CompressedColumn::new(self.field.clone(), chunks, Vec::new()).with_bodies(bodies))
    }

    /// Its chunks, without their bodies.
    pub(crate) fn into_chunks(self) -> Vec<DeviceChunk> {
        self.chunks
    }

    pub(crate) fn placed(&self) -> PlacedChunks<'_> {
        let Self { chunks, bodies, ready, .. } = self;
        PlacedChunks { chunks, bodies, ready: ready.as_ref() }
    }

    /// What the CPU says of the chunk that an error is about, where a kernel has found damage and
    /// knows the kind only; the error itself if the CPU finds nothing.
    pub(crate) fn explained(&self, error: Error) -> Error {
        let Some(index) = damaged_chunk(&error, self.field.name()) else { return error };
        let Some(chunk) = self.chunks.get(index) else { return error };
        in_words_of(self.decode_on_host(chunk), error, self.field.name())
    }

    /// Downloads and decompresses one chunk.
    fn decode_on_host(&self, chunk: &DeviceChunk) -> Result<ArrayRef> {
        let mut body = vec![0; chunk.body_len()];
        // Empty bodies need not be in any.
        let holds = |bodies: &&Arc<DeviceBuffer>| {
            bodies.contains(chunk.body)
                && chunk.body.bytes_from(bodies.pointer()) + body.len() <= bodies.len()
        };
        if let Some(bodies) = self.bodies.iter().find(holds) {
            self.context.with_stream(|stream| {
                stream.wait(self.ready.as_ref())?;
                let at = chunk.body.bytes_from(bodies.pointer());
                stream.download(bodies, at, &mut body)
            })?;
        }
        let chunk = chunk_of(chunk, None, Buffer::from_vec(body), &self.field)?;
        column::whole(&chunk, self.field.data_type())
    }

    pub(crate) fn upload(context: &Arc<Context>, column: &CompressedColumn) -> Result<Self> {
        Self::upload_chunks(context, column, 0..column.chunks().len())
    }

    /// A column of some of the chunks.
    pub(crate) fn upload_chunks(
        context: &Arc<Context>,
        column: &CompressedColumn,
        chunks: Range<usize>,
    ) -> Result<Self> {
        let some = &column.chunks()[chunks.clone()];
        context.with_stream(|stream| {
            let bodies = stream.allocate(some.iter().map(|chunk| chunk.body().len()).sum())?;
            let mut at = 0;
            for run in column.body_runs_of(chunks) {
                stream.upload(&run, &bodies, at)?;
                at += run.len();
            }
            let placed = placed(some, bodies.pointer());
            let (field, bodies) = (column.field().clone(), vec![Arc::new(bodies)]);
            Ok(Self::new(context.clone(), field, placed, bodies, stream.record()?))
        })
    }

    /// The same column in memory of its own, in which the bodies lie one behind the other.
    pub(crate) fn compacted(&self) -> Result<Self> {
        self.context.with_stream(|stream| {
            stream.wait(self.ready.as_ref())?;
            let placed = self.placed();
            let target = stream.allocate(placed.len())?;
            let mut at = 0;
            for (bodies, run) in placed.runs()? {
                stream.copy(bodies, run.start, &target, at, run.len())?;
                at += run.len();
            }
            let mut body = target.pointer();
            let moved = |chunk: &DeviceChunk| {
                let moved = DeviceChunk { body, ..chunk.clone() };
                body = body.add(chunk.body_len());
                moved
            };
            let chunks = self.chunks.iter().map(moved).collect();
            let (context, field) = (self.context.clone(), self.field.clone());
            Ok(Self::new(context, field, chunks, vec![Arc::new(target)], stream.record()?))
        })
    }

    /// Columns of one field and one device as one.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn joined(parts: Vec<Self>, limit: MemoryLimit) -> Result<Self> {
        let first = parts.first().expect("a column at least");
        let (context, field) = (first.context.clone(), first.field.clone());
        let (mut chunks, mut bodies, mut start) = (Vec::new(), Vec::new(), 0);
        let ready = context.with_stream(|stream| {
            parts.iter().try_for_each(|part| stream.wait(part.ready.as_ref()))?;
            stream.record()
        })?;
        for part in parts {
            let rows = part.len();
            let moved = |chunk: DeviceChunk| DeviceChunk { start: start + chunk.start, ..chunk };
            chunks.extend(part.chunks.into_iter().map(moved));
            bodies.extend(part.bodies);
            start += rows;
        }
        Ok(Self { limit, ..Self::new(context, field, chunks, bodies, ready) })
    }

    /// Copies the column to another device.
    fn copy_to(&self, context: &Arc<Context>) -> Result<Self> {
        self.ready.synchronize()?;
        context.with_stream(|stream| {
            let copied = |bodies: &Arc<DeviceBuffer>| {
                let target = stream.allocate(bodies.len())?;
                stream.copy_from_peer(bodies, &target)?;
                Ok(Arc::new(target))
            };
            let bodies = self.bodies.iter().map(copied).collect::<Result<Vec<_>>>()?;
            let chunk = |chunk: &DeviceChunk| {
                // An empty body may stand behind the last byte.
                let at = |bodies: &DeviceBuffer| {
                    let at = chunk.body.address().checked_sub(bodies.pointer::<u8>().address())?;
                    usize::try_from(at).ok().filter(|at| *at <= bodies.len())
                };
                let mut places = self.bodies.iter().zip(&bodies);
                let body = places.find_map(|(old, new)| Some(new.pointer_at(at(old)?)));
                DeviceChunk { body: body.unwrap_or(DevicePtr::NULL), ..chunk.clone() }
            };
            let chunks = self.chunks.iter().map(chunk).collect();
            let (field, ready) = (self.field.clone(), stream.record()?);
            Ok(Self::new(context.clone(), field, chunks, bodies, ready))
        })
    }

    /// Checks what the values of columns take against the limit that they were uploaded with.
    pub(crate) fn check_memory(columns: &[Self]) -> Result<()> {
        let kept = |column: &Self| column.chunks.iter().map(DeviceChunk::rows).collect();
        let limit = columns.first().map_or(MemoryLimit::Unlimited, |column| column.limit);
        Self::check_kept(limit, columns.iter(), kept)
    }

    /// Checks what rows of columns take, of which `kept` says how many there are in each chunk.
    pub(crate) fn check_kept<'a>(
        limit: MemoryLimit,
        columns: impl Iterator<Item = &'a Self> + Clone,
        kept: impl Fn(&Self) -> Vec<usize>,
    ) -> Result<()> {
        let stored_of = |chunk: &DeviceChunk| chunk.header.byte_len() + chunk.body_len();
        let stored = columns.clone().flat_map(|column| column.chunks.iter().map(stored_of)).sum();
        let needed = |column: &Self| {
            let parts = column.chunks.iter().zip(kept(column));
            column::memory_of(
                parts.map(|(chunk, rows)| (chunk.root(), rows)),
                column.field.data_type(),
            )
        };
        let columns = columns.map(|column| (column.field.name().as_str(), needed(column)));
        limit.check(stored, columns).map(drop)
    }

    /// The Arrow field of the values.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.start + chunk.rows())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nulls among the values.
    pub fn null_count(&self) -> usize {
        self.chunks.iter().map(DeviceChunk::null_count).sum()
    }

    /// Bytes of device memory that the compressed column takes.
    pub fn device_bytes(&self) -> usize {
        self.bodies.iter().map(|bodies| bodies.len()).sum()
    }

    /// Whether a chunk is nested or carried as Arrow IPC.
    pub(crate) fn is_carried(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.root().physical() == Physical::Arrow)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn chunks(&self) -> &[DeviceChunk] {
        &self.chunks
    }

    pub(crate) fn bodies(&self) -> &[Arc<DeviceBuffer>] {
        &self.bodies
    }

    /// When the bodies have arrived.
    pub(crate) fn ready(&self) -> &dyn Event {
        self.ready.as_ref()
    }

    /// What layers above cache beside the column: a value of one type, its default at first.
    ///
    /// # Panics
    /// If there is one of another type.
    pub(crate) fn cached<T: Any + Send + Sync + Default>(&self) -> &T {
        let cache = self.cache.get_or_init(|| Box::new(T::default()));
        cache.downcast_ref().expect("layers above cache values of one type")
    }

    /// The least and the greatest integer of the column, which `find` finds once.
    pub(crate) fn keep_bounds(&self, find: impl FnOnce() -> (i256, i256)) -> (i256, i256) {
        *self.bounds.get_or_init(find)
    }

    /// Of each chunk rows, nulls among them and the bounds of the others.
    pub(crate) fn statistics(&self) -> impl Iterator<Item = (usize, usize, Statistics)> {
        let data_type = self.field.data_type();
        let chunk = |chunk: &'_ DeviceChunk| {
            (chunk.rows(), chunk.null_count(), chunk.statistics(data_type))
        };
        self.chunks.iter().map(chunk)
    }

    /// Whether the chunks of another column are as long.
    pub(crate) fn has_chunks_of(&self, other: &Self) -> bool {
        self.ends == other.ends
    }

    /// Rows of each chunk.
    pub(crate) fn chunk_rows(&self) -> impl Iterator<Item = usize> {
        self.chunks.iter().map(DeviceChunk::rows)
    }
}

/// The chunk of a column in which an error has found damage.
fn damaged_chunk(error: &Error, name: &str) -> Option<usize> {
    let Error::Corrupt { place, .. } = error else { return None };
    place.chunk.filter(|_| place.column.as_deref().is_none_or(|column| column == name))
}

/// [`DeviceColumn::explained`] of a column in host memory.
pub(crate) fn explained(column: &CompressedColumn, error: Error) -> Error {
    let name = column.field().name();
    let Some(index) = damaged_chunk(&error, name) else { return error };
    let Some(chunk) = column.chunks().get(index) else { return error };
    in_words_of(column::whole(chunk, column.data_type()), error, name)
}

/// An error of a chunk of column `name`, with what the CPU says of it if that is damage, too.
fn in_words_of(decoded: Result<ArrayRef>, error: Error, name: &str) -> Error {
    match (decoded, error) {
        (Err(Error::Corrupt { what, .. }), Error::Corrupt { place, .. }) => {
            Error::Corrupt { place, what }.in_column(name)
        }
        (_, error) => error,
    }
}

/// The order of a column's numbers: `abi::UNSIGNED`, `SIGNED` or `FLOAT`.
pub(crate) fn order_of(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Float16 => abi::FLOAT,
        other => abi::order_of(column::physical_of(other)),
    }
}
