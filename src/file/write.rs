//! Writing: rows are gathered until there are enough for a message, compressed and written; the index grows.
//!
//! ```text
//! the caller      gathers rows 2      writes 1   gathers rows 3      writes 2
//! the pool        compresses rows 1  |          compresses rows 2   |
//! ```
//!
//! A portion of rows is compressed by threads of a pool of this module, or by a GPU, while the caller gathers the
//! next one. These threads do nothing else. The pool of the program would not do: while one of its threads waits
//! for a writer, it may have begun a part of this writer's work, and taken up the wait in the middle of it.

use std::collections::HashMap;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::{RecordBatch, RecordBatchWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::filter::{self, StoredFilter};
use super::framing::Framing;
use super::index::{self, ColumnParts, Entry, FilterEntry};
use super::local::LocalFile;
use super::read::File;
use crate::batch::{PendingRows, Portion, check_uncompressed};
use crate::chunk::Chunk;
use crate::column::CompressedColumn;
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::extension::{ROWS_KEY, packed_field};
use crate::options::Options;

/// Chunks of a column that are compressed and written together at most by default.
const CHUNKS: usize = 8;
/// Bytes of values that are compressed together at most by default.
const PORTION_BYTES: usize = 32 << 20;

/// Writes batches, compressed, to a file with an index, which [`File`] reads in part.
///
/// Pending rows are lost unless [`Writer::finish`], [`Writer::into_inner`] or `close` is called; a file without
/// its end does not open. Memory holds two portions of rows ([`Writer::with_batch_bytes`]), one that is
/// gathered and one that is compressed, the scratch memory of that, and the index: 20 bytes and two bounds for
/// each chunk of a column, and 24 bytes more if the column has filters ([`Writer::with_filters`]).
///
/// ```
/// use arrow_array::record_batch;
/// use arrow_buffer::Buffer;
/// use lanepack::scan::{col, sum};
/// use lanepack::{Engine, Options, file};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]), ("price", Int64, [7, 5, 6]))?;
/// let mut writer = file::Writer::try_new(Vec::new(), &batch.schema(), Options::default())?;
/// writer.write(&batch)?;
/// let file = file::File::from_bytes(Buffer::from_vec(writer.into_inner()?))?;
///
/// let total = file.scan().filter(col("id").gt(1)).aggregate(&[sum(col("price"))], &Engine::cpu())?;
/// assert_eq!(total.columns(), record_batch!(("sum(price)", Int64, [11]))?.columns());
/// # Ok::<(), lanepack::Error>(())
/// ```
pub struct Writer<W: Write> {
    framing: Framing<W>,
    /// Called after the last byte is written.
    complete: fn(&mut W) -> Result<()>,
    engine: Engine,
    options: Options,
    portion: Portion,
    pending: PendingRows,
    /// The compression that was started. The mutex is for writers that threads share.
    compressing: Mutex<Option<Receiver<Outcome>>>,
    /// What has been written: rows of each chunk, and the parts of each column's index.
    chunk_rows: Vec<u32>,
    columns: Vec<ColumnParts>,
    rows: u64,
    state: State,
}

/// A batch that was compressed.
struct Compressed {
    columns: Vec<CompressedColumn>,
    /// The filters of its chunks, for each column that has some, else none.
    filters: Vec<Vec<StoredFilter>>,
}

/// The result of a compression, or what it has panicked with.
type Outcome = std::thread::Result<Result<Vec<Compressed>>>;

/// Threads that compress for writers, unless options say otherwise. Each has 6 MB of its own while it works on
/// chunks of lineitem.
const THREADS: usize = 8;

/// The pool of these threads.
fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<Result<ThreadPool, ThreadPoolBuildError>> = OnceLock::new();
    let name = |number| format!("lanepack writer {number}");
    let threads = rayon::current_num_threads().min(THREADS);
    POOL.get_or_init(|| ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build())
        .as_ref()
        .map_err(|error| Error::from(std::io::Error::other(error.to_string())))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Rows are missing, or a message may be in the sink in part.
    Failed,
    Finished,
}

impl Writer<LocalFile> {
    /// A writer of a file of the system. Until it finishes, the bytes are in a file of another name in the same
    /// folder, `.NAME.xxxxxx.part`, which is removed if the writer is dropped before; a process that is killed
    /// leaves it. [`Writer::finish`] flushes the bytes to the disk, then the file takes its name and replaces an
    /// older one, whose permissions it keeps. If the path is a link, the file that it leads to is replaced.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use lanepack::{Engine, Options, file};
    ///
    /// let path = std::env::temp_dir().join(format!("lanepack-writer-{}.arrow", std::process::id()));
    /// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
    /// let mut writer = file::Writer::create(&path, &batch.schema(), Options::default())?;
    /// writer.write(&batch)?;
    /// assert!(!path.exists());
    /// writer.finish()?;
    ///
    /// // Again with more rows.
    /// let mut writer = file::Writer::append(&path, Options::default())?;
    /// writer.write(&batch)?;
    /// writer.finish()?;
    /// assert_eq!(file::File::open(&path)?.num_rows(), 6);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Writer::try_new`], or what the system reports.
    pub fn create(path: impl AsRef<Path>, schema: &Schema, options: Options) -> Result<Self> {
        let mut writer = Self::try_new(LocalFile::create(path.as_ref())?, schema, options)?;
        writer.complete = LocalFile::complete;
        Ok(writer)
    }

    /// A writer of more rows for a file, with filters of the columns that have some there. Its chunks are copied as
    /// they are; as with [`Writer::create`] the file stays as it was until the writer finishes. Of two writers that
    /// append at a time, the last to finish replaces what the other has written.
    ///
    /// # Errors
    /// As [`File::open`], [`Writer::create`] and [`Writer::write_file`].
    pub fn append(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let file = File::open(path.as_ref())?;
        let mut writer = Self::create(path, file.schema(), options)?;
        for (column, parts) in writer.columns.iter_mut().enumerate() {
            parts.filters = file.has_filters(column).then(Vec::new);
        }
        writer.write_file(&file)?;
        Ok(writer)
    }
}

impl<W: Write> Writer<W> {
    /// A writer of batches of this schema. The sink is written to in small pieces: give it a `BufWriter` of
    /// a `std::fs::File`, or take [`Writer::create`].
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::Unsupported`] for a schema without columns or of compressed ones, or
    /// what the sink reports.
    pub fn try_new(sink: W, schema: &Schema, options: Options) -> Result<Self> {
        options.validate()?;
        check_uncompressed(schema)?;
        if schema.fields().is_empty() {
            return Err(Error::unsupported("a file without columns"));
        }
        let chunk = options.chunk_rows();
        Ok(Self {
            framing: Framing::new(sink, &packed_schema(schema))?,
            complete: |_| Ok(()),
            engine: Engine::cpu(),
            portion: Portion { rows: CHUNKS * chunk, bytes: PORTION_BYTES, chunk },
            options,
            pending: PendingRows::new(SchemaRef::new(schema.clone())),
            compressing: Mutex::default(),
            chunk_rows: Vec::new(),
            columns: schema.fields().iter().map(|_| ColumnParts::default()).collect(),
            rows: 0,
            state: State::Open,
        })
    }

    /// Compresses with this engine (by default the CPU), to the same bytes.
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        self
    }

    /// Compresses at most so many rows at a time; by default those of eight full chunks. More chunks share
    /// symbol tables of strings, and keep more threads busy.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.portion.rows = rows.max(1);
        self
    }

    /// Compresses at most so many bytes of values at a time; by default 32 MiB. If a chunk has more, chunks
    /// have fewer rows.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.portion.bytes = bytes;
        self
    }

    /// Writes a membership filter for each chunk of these columns, beside those of earlier calls: some 1.3
    /// bytes for each distinct value. A scan with `=` or `IN` on such a column reads the filters of chunks that
    /// bounds do not exclude, and skips those that do not have the values, but for one in a hundred: for
    /// columns of many scattered values, such as ids and addresses. Filters are made by the threads that
    /// compress. Columns may be of numbers, decimals, dates, times, strings and binary values.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use arrow_buffer::Buffer;
    /// use lanepack::scan::col;
    /// use lanepack::{Engine, Options, file};
    ///
    /// let scattered = |row: i64| row.wrapping_mul(0x5851_f42d_4c95_7f2d);
    /// let batch = record_batch!(("id", Int64, (0..9000).map(scattered).collect::<Vec<_>>()))?;
    /// let options = Options::default().with_chunk_rows(1024);
    /// let writer = file::Writer::try_new(Vec::new(), &batch.schema(), options)?;
    /// let mut writer = writer.with_filters(&["id"])?;
    /// writer.write(&batch)?;
    /// let file = file::File::from_bytes(Buffer::from_vec(writer.into_inner()?))?;
    /// // Reads the filters of nine chunks, and one chunk.
    /// let found = file.scan().filter(col("id").eq(scattered(7000)));
    /// assert_eq!(found.rows(&Engine::cpu())?.values(), &[7000]);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Mismatch`] if there is no column of a name, or something has been written;
    /// [`Error::Unsupported`] for columns of booleans, intervals, nested types and others that are carried as
    /// Arrow IPC.
    pub fn with_filters<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self> {
        self.check_open()?;
        let is_new = self.chunk_rows.is_empty() && self.pending.rows() == 0;
        let compressing = self.compressing.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !is_new || compressing.is_some() {
            let what = "filters of a file in which something has been written".to_owned();
            return Err(mismatch(what));
        }
        let schema = self.schema().clone();
        for name in names.iter().map(AsRef::as_ref) {
            let mut fields = schema.fields().iter().enumerate();
            let (column, field) = fields
                .find(|(_, field)| field.name() == name)
                .ok_or_else(|| mismatch(format!("no column {name:?}")))?;
            filter::check_field(field)?;
            self.columns[column].filters = Some(Vec::new());
        }
        Ok(self)
    }

    /// The schema of the batches that it takes.
    pub fn schema(&self) -> &SchemaRef {
        self.pending.schema()
    }

    /// Bytes that have been written.
    pub fn bytes_written(&self) -> u64 {
        self.framing.at
    }

    /// The sink.
    pub fn get_ref(&self) -> &W {
        &self.framing.sink
    }

    /// The sink. What is taken out of it has to go on to where the file is.
    #[cfg(feature = "object_store")]
    pub(super) fn sink_mut(&mut self) -> &mut W {
        &mut self.framing.sink
    }

    /// Whether more batches can be written.
    #[cfg(feature = "object_store")]
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Takes a batch; compresses and writes rows once there are enough.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if the batch has another schema, or the writer has finished; it has not been taken
    /// then. Errors of the sink and of compression, maybe of rows of an earlier batch: the file lacks these
    /// rows, so nothing more is written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_open()?;
        self.pending.push(batch)?;
        while let Some(rows) = self.pending.portion(&self.portion) {
            self.compress(rows)?;
        }
        Ok(())
    }

    /// Writes all rows of another file behind those of earlier calls, without decompressing them: its chunks
    /// are copied. Checksums of what is copied are compared, if the file does that. Filters of columns that this
    /// file has filters of ([`Writer::with_filters`]) are copied as well; chunks without one there have none here.
    ///
    /// # Errors
    /// As [`Writer::write`], and as [`File::columns`].
    pub fn write_file(&mut self, file: &File) -> Result<()> {
        self.check_open()?;
        if file.schema().fields() != self.schema().fields() {
            let what = format!("a file of the schema {}, found {}", self.schema(), file.schema());
            return Err(mismatch(what));
        }
        self.write_rest()?;
        for portion in file.portions(self.portion.bytes as u64) {
            let filters = |chunks: std::ops::Range<usize>| {
                let of_column = |(column, parts): (usize, &ColumnParts)| match parts.filters {
                    Some(_) => file.stored_filters(column, chunks.clone()),
                    None => Ok(Vec::new()),
                };
                self.columns.iter().enumerate().map(of_column).collect::<Result<_>>()
            };
            let compressed = portion.and_then(|(chunks, columns)| {
                Ok(Compressed { columns, filters: filters(chunks)? })
            });
            let compressed = self.or_fail(compressed)?;
            self.write_compressed(&compressed)?;
        }
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Failed => {
                Err(mismatch("an earlier call failed: the file cannot be continued".to_owned()))
            }
            State::Finished => Err(mismatch("a batch behind the end of the file".to_owned())),
        }
    }

    /// A result of work without which the file cannot be continued.
    fn or_fail<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }

    /// Starts the compression of the first pending rows, and writes the rows that were compressed before. The
    /// earlier compression ends before more rows are concatenated: two portions are in memory, not three.
    fn compress(&mut self, rows: usize) -> Result<()> {
        let before = self.compressed()?;
        // Until the rows are compressed, a panic would lose them.
        self.state = State::Failed;
        let batches = self.pending.take(rows);
        let (engine, options) = (self.engine.clone(), self.options.clone());
        let has_filters: Vec<bool> =
            self.columns.iter().map(|parts| parts.filters.is_some()).collect();
        let work = move || -> Result<Vec<Compressed>> {
            let compress = |batch: &RecordBatch| {
                let columns = engine.compress_columns(batch, &options)?;
                let filters = filter::build(batch.columns(), &columns, &has_filters);
                Ok(Compressed { columns, filters })
            };
            batches.iter().map(compress).collect()
        };
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let compress = move || {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(work));
            // If the writer was dropped, nobody wants it.
            let _ = sender.send(outcome);
        };
        // Work of GPUs may need the program's pool, whose threads must not wait for it here.
        match self.engine.device().is_some() && rayon::current_thread_index().is_some() {
            true => compress(),
            false => pool()?.spawn(compress),
        }
        *self.compressing.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
        self.state = State::Open;
        before.iter().try_for_each(|compressed| self.write_compressed(compressed))
    }

    /// The result of the compression that was started, once it is there.
    fn compressed(&mut self) -> Result<Vec<Compressed>> {
        let compressing = self.compressing.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = compressing.take() else { return Ok(Vec::new()) };
        self.state = State::Failed;
        let result = match receiver.recv() {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::from(std::io::Error::other("a compression gave no result"))),
        };
        if result.is_ok() {
            self.state = State::Open;
        }
        result
    }

    /// Compresses and writes all pending rows.
    fn write_rest(&mut self) -> Result<()> {
        if self.pending.rows() > 0 {
            self.compress(self.pending.rows())?;
        }
        self.compressed()?.iter().try_for_each(|compressed| self.write_compressed(compressed))
    }

    fn write_compressed(&mut self, Compressed { columns, filters }: &Compressed) -> Result<()> {
        let chunks: Vec<&[Chunk]> = columns.iter().map(CompressedColumn::chunks).collect();
        // Also if the sink panics.
        self.state = State::Failed;
        let placed = self.framing.batch(&chunks, filters)?;
        self.state = State::Open;
        for ((parts, filters), entries) in self.columns.iter_mut().zip(filters).zip(placed.filters)
        {
            let entry = |(filter, entry): (&StoredFilter, Entry)| FilterEntry {
                entry,
                checksum: filter.checksum,
            };
            if let Some(stated) = &mut parts.filters {
                stated.extend(filters.iter().zip(entries).map(entry));
            }
        }
        for ((parts, chunks), entries) in self.columns.iter_mut().zip(&chunks).zip(placed.chunks) {
            parts.entries.extend(entries);
            parts.nulls.extend(chunks.iter().map(|chunk| chunk.null_count() as u32));
            chunks.iter().for_each(|chunk| parts.push_bounds(chunk.statistics().clone()));
        }
        for chunk in chunks[0] {
            self.chunk_rows.push(chunk.rows() as u32);
            self.rows += chunk.rows() as u64;
        }
        Ok(())
    }

    /// Compresses and writes the pending rows, in chunks of their own, and flushes the sink.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.write_rest()?;
        let flushed = self.framing.sink.flush();
        self.or_fail(flushed.map_err(Error::from))
    }

    /// Writes the pending rows, the index and the end of the file, once.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(&mut self) -> Result<()> {
        if self.state == State::Finished {
            return Ok(());
        }
        self.check_open()?;
        self.write_rest()?;
        let index = index::to_bytes(self.schema(), &self.chunk_rows, &self.columns);
        let packed = packed_schema(self.schema());
        let mut metadata: HashMap<String, String> = packed.metadata().clone();
        metadata.insert(ROWS_KEY.to_owned(), self.rows.to_string());
        self.state = State::Failed;
        self.framing.finish(&packed.with_metadata(metadata), &index)?;
        (self.complete)(&mut self.framing.sink)?;
        self.state = State::Finished;
        Ok(())
    }

    /// Finishes, unless that has been done, and gives the sink back.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn into_inner(mut self) -> Result<W> {
        self.finish()?;
        Ok(self.framing.sink)
    }
}

/// The schema of a file's messages.
fn packed_schema(schema: &Schema) -> Schema {
    let fields: Vec<_> =
        schema.fields().iter().map(|field| Arc::new(packed_field(field))).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn mismatch(what: String) -> Error {
    Error::Mismatch { place: Place::default(), what }
}

/// For code that writes to any of Arrow's writers.
impl<W: Write> RecordBatchWriter for Writer<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        Ok(self.write(batch)?)
    }

    fn close(self) -> Result<(), ArrowError> {
        self.into_inner()?;
        Ok(())
    }
}
