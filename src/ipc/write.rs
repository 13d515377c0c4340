//! Writing: gather, compress, write.
//!
//! Rows wait until there are enough for [`GATHERED_CHUNKS`] full chunks or
//! [`GATHERED_BYTES`]: so chunks are full however small the incoming batches
//! are, several chunks are compressed at once, and a symbol table is trained
//! for all of them rather than for each.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{Schema, SchemaRef};

use crate::batch::{compress, packed_schema};
use crate::error::{Error, Result};
use crate::fence::fenced;
use crate::options::Options;

/// Chunks that are compressed at once, if so many rows arrive.
const GATHERED_CHUNKS: usize = 8;
/// Bytes of values that wait at most, a last batch not counted.
const GATHERED_BYTES: usize = 256 << 20;

/// Writes batches, compressed, to an IPC file or stream. Rows that wait for more
/// are lost unless [`Writer::finish`] is called.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::{Options, ipc};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), Options::default())?;
/// writer.write(&batch)?;
/// writer.write(&batch)?;
/// let file = writer.finish()?;
///
/// let mut rows = 0;
/// for batch in ipc::Reader::file(std::io::Cursor::new(file))? {
///     rows += batch?.num_rows();
/// }
/// assert_eq!(rows, 6);
/// # Ok::<(), lanepack::Error>(())
/// ```
pub struct Writer<W: Write> {
    sink: Sink<W>,
    schema: SchemaRef,
    options: Options,
    /// Rows that are not written yet.
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

enum Sink<W: Write> {
    File(FileWriter<W>),
    Stream(StreamWriter<W>),
}

impl<W: Write> Writer<W> {
    /// A writer of the IPC file format, for batches of this schema.
    ///
    /// # Errors
    /// [`Error::Options`], or what the sink reports.
    pub fn file(sink: W, schema: &SchemaRef, options: Options) -> Result<Self> {
        Self::new(schema, options, |packed| Ok(Sink::File(FileWriter::try_new(sink, packed)?)))
    }

    /// A writer of the IPC stream format, for batches of this schema.
    ///
    /// # Errors
    /// [`Error::Options`], or what the sink reports.
    pub fn stream(sink: W, schema: &SchemaRef, options: Options) -> Result<Self> {
        Self::new(schema, options, |packed| Ok(Sink::Stream(StreamWriter::try_new(sink, packed)?)))
    }

    fn new(
        schema: &SchemaRef,
        options: Options,
        sink: impl FnOnce(&Schema) -> Result<Sink<W>>,
    ) -> Result<Self> {
        options.validate()?;
        let sink = sink(&packed_schema(schema))?;
        let schema = schema.clone();
        Ok(Self { sink, schema, options, pending: Vec::new(), rows: 0, bytes: 0 })
    }

    /// Takes a batch; writes once enough rows for full chunks have come.
    ///
    /// # Errors
    /// If the batch has another schema, or what compressing and the sink report.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.schema().fields() != self.schema.fields() {
            let found = batch.schema();
            let what = format!("a batch of the schema {}, found {found}", self.schema);
            return Err(arrow_schema::ArrowError::SchemaError(what).into());
        }
        if batch.num_columns() == 0 {
            return self.send(batch);
        }
        self.rows += batch.num_rows();
        self.bytes += (batch.columns().iter())
            .map(|array| array.to_data().get_slice_memory_size().unwrap_or_default())
            .sum::<usize>();
        if batch.num_rows() > 0 {
            self.pending.push(batch.clone());
        }
        let chunk = self.options.chunk_rows;
        let full = self.rows / chunk * chunk;
        if self.rows >= GATHERED_CHUNKS * chunk || self.bytes >= GATHERED_BYTES {
            self.flush(if full > 0 { full } else { self.rows })?;
        }
        Ok(())
    }

    /// Writes the first `rows` pending rows.
    fn flush(&mut self, rows: usize) -> Result<()> {
        let all = match self.pending.as_slice() {
            [] => return Ok(()),
            [batch] => batch.clone(),
            batches => match fenced(|| arrow_select::concat::concat_batches(&self.schema, batches))
            {
                Ok(all) => all,
                // Some batches have no common array: dictionaries of more values
                // together than keys, runs that end past their type. They keep
                // chunks of their own.
                Err(_) => return self.send_apart(),
            },
        };
        self.send(&all.slice(0, rows))?;
        let rest = all.slice(rows, all.num_rows() - rows);
        self.rows = rest.num_rows();
        self.bytes = 0;
        self.pending = if self.rows > 0 { vec![rest] } else { Vec::new() };
        Ok(())
    }

    /// Writes the pending batches one by one.
    fn send_apart(&mut self) -> Result<()> {
        (self.rows, self.bytes) = (0, 0);
        std::mem::take(&mut self.pending).iter().try_for_each(|batch| self.send(batch))
    }

    fn send(&mut self, batch: &RecordBatch) -> Result<()> {
        let packed = compress(batch, &self.options)?;
        match &mut self.sink {
            Sink::File(writer) => writer.write(&packed)?,
            Sink::Stream(writer) => writer.write(&packed)?,
        }
        Ok(())
    }

    /// Writes what is pending and the end, and gives the sink back.
    ///
    /// # Errors
    /// What compressing and the sink report.
    pub fn finish(mut self) -> Result<W> {
        self.flush(self.rows)?;
        let sink = match self.sink {
            Sink::File(writer) => writer.into_inner(),
            Sink::Stream(writer) => writer.into_inner(),
        };
        Ok::<_, Error>(sink?)
    }
}
