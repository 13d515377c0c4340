//! Writing: rows wait until there are enough for a message, are compressed and written; the index grows.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::framing::Framing;
use super::index::{self, ColumnParts};
use crate::batch::check_uncompressed;
use crate::chunk::Chunk;
use crate::column::CompressedColumn;
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::extension::{ROWS_KEY, packed_field};
use crate::fence::fenced;
use crate::options::Options;

/// Chunks of a column that are compressed and written together by default.
const CHUNKS: usize = 2;
/// Bytes of values that are compressed together at most, if a chunk has no more.
const MOST_BYTES: usize = 64 << 20;

/// Writes batches, compressed, to a file with an index, which [`File`](super::File) reads in part.
///
/// Rows that wait for more are lost unless [`Writer::finish`], [`Writer::into_inner`] or `close` is called;
/// a file without its end does not open. Memory holds the rows that wait (two full chunks, 262,144 rows with
/// default options), what they are compressed to, and the index: some 40 bytes for each chunk of a column.
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
    schema: SchemaRef,
    engine: Engine,
    options: Options,
    /// Rows that are compressed together.
    batch_rows: usize,
    /// Rows that are not written yet.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    /// What has been written: rows of each chunk, and the parts of each column's index.
    chunk_rows: Vec<u32>,
    columns: Vec<ColumnParts>,
    rows: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A message may be in the sink in part.
    Failed,
    Finished,
}

impl<W: Write> Writer<W> {
    /// A writer of batches of this schema. The sink is written to in small pieces: give it a `BufWriter` of
    /// a `std::fs::File`.
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
        Ok(Self {
            framing: Framing::new(sink, &packed_schema(schema))?,
            schema: SchemaRef::new(schema.clone()),
            engine: Engine::cpu(),
            batch_rows: CHUNKS * options.chunk_rows(),
            options,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
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

    /// Compresses so many rows at a time (by default those of two full chunks), which are in memory until
    /// then. More chunks share symbol tables of strings, and keep more threads busy.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// The schema of the batches that it takes.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Bytes that have been written.
    pub fn bytes_written(&self) -> u64 {
        self.framing.at
    }

    /// The sink.
    pub fn get_ref(&self) -> &W {
        &self.framing.sink
    }

    /// Takes a batch; writes once enough rows have come.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if the batch has another schema, or the writer has finished; it has not been taken
    /// then. What compressing reports: the rows have been taken, and the next call tries again. What the sink
    /// reports: a part of a message may be in it, so nothing more is written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_open()?;
        if batch.schema().fields() != self.schema.fields() {
            let found = batch.schema();
            return Err(mismatch(format!("a batch of the schema {}, found {found}", self.schema)));
        }
        if batch.num_rows() > 0 {
            self.pending.push(batch.clone());
            self.pending_rows += batch.num_rows();
            self.pending_bytes += (batch.columns().iter())
                .map(|array| array.to_data().get_slice_memory_size().unwrap_or_default())
                .sum::<usize>();
        }
        while self.pending_rows >= self.rows_at_once() {
            self.write_rows(self.rows_at_once())?;
        }
        Ok(())
    }

    /// Rows that are compressed together: fewer where they are long, whole chunks if possible.
    fn rows_at_once(&self) -> usize {
        let each = (self.pending_bytes / self.pending_rows.max(1)).max(1);
        let rows = self.batch_rows.min((MOST_BYTES / each).max(1));
        match rows / self.options.chunk_rows() {
            0 => rows,
            chunks => chunks * self.options.chunk_rows(),
        }
        .min(self.batch_rows)
    }

    fn check_open(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Failed => {
                Err(mismatch("the sink failed earlier: the file cannot be continued".to_owned()))
            }
            State::Finished => Err(mismatch("a batch behind the end of the file".to_owned())),
        }
    }

    /// Compresses the first `rows` that wait, and writes them as one message.
    fn write_rows(&mut self, rows: usize) -> Result<()> {
        let (mut first, mut rest, mut left) = (Vec::new(), Vec::new(), rows);
        for batch in &self.pending {
            let own = left.min(batch.num_rows());
            if own > 0 {
                first.push(batch.slice(0, own));
            }
            if own < batch.num_rows() {
                rest.push(batch.slice(own, batch.num_rows() - own));
            }
            left -= own;
        }
        let together = match first.as_slice() {
            [] => return Ok(()),
            [_] => first,
            batches => match fenced(|| arrow_select::concat::concat_batches(&self.schema, batches))
            {
                Ok(all) => vec![all],
                // Dictionaries of more values together than keys, say: chunks of their own.
                Err(_) => first,
            },
        };
        let compress = |batch: &RecordBatch| self.engine.compress_columns(batch, &self.options);
        let compressed = together.iter().map(compress).collect::<Result<Vec<_>>>()?;
        let each = self.pending_bytes / self.pending_rows.max(1);
        self.pending = rest;
        self.pending_rows -= rows;
        self.pending_bytes = each * self.pending_rows;
        compressed.iter().try_for_each(|columns| self.write_columns(columns))
    }

    fn write_columns(&mut self, columns: &[CompressedColumn]) -> Result<()> {
        let chunks: Vec<&[Chunk]> = columns.iter().map(CompressedColumn::chunks).collect();
        self.state = State::Failed;
        let entries = self.framing.batch(&chunks)?;
        self.state = State::Open;
        for ((parts, chunks), entries) in self.columns.iter_mut().zip(&chunks).zip(entries) {
            parts.entries.extend(entries);
            parts.nulls.extend(chunks.iter().map(|chunk| chunk.null_count() as u32));
            parts.bounds.extend(chunks.iter().map(|chunk| chunk.statistics().clone()));
        }
        for chunk in chunks[0] {
            self.chunk_rows.push(chunk.rows() as u32);
            self.rows += chunk.rows() as u64;
        }
        Ok(())
    }

    /// Compresses and writes the rows that wait, in chunks of their own, and flushes the sink.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.write_rows(self.pending_rows)?;
        Ok(self.framing.sink.flush()?)
    }

    /// Writes the rows that wait, the index and the end of the file, once.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(&mut self) -> Result<()> {
        if self.state == State::Finished {
            return Ok(());
        }
        self.check_open()?;
        self.write_rows(self.pending_rows)?;
        let index = index::to_bytes(&self.schema, &self.chunk_rows, &self.columns);
        let packed = packed_schema(&self.schema);
        let mut metadata: HashMap<String, String> = packed.metadata().clone();
        metadata.insert(ROWS_KEY.to_owned(), self.rows.to_string());
        self.state = State::Failed;
        self.framing.finish(&packed.with_metadata(metadata), &index)?;
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
