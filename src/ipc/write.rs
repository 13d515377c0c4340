//! Writing: gather, compress, write.
//!
//! Rows are gathered ([`PendingRows`]) until there are enough for [`GATHERED_CHUNKS`] full chunks or
//! [`GATHERED_BYTES`]: so several chunks are compressed at once, and a symbol table is trained
//! for all of them rather than for each.

use std::io::Write;

use arrow_array::{RecordBatch, RecordBatchWriter};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::counts::{Counted, Counts};
use crate::batch::{PendingRows, Portion, check_uncompressed, compressed_schema};
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::options::Options;

/// Chunks that are compressed at once, if so many rows arrive.
const GATHERED_CHUNKS: usize = 8;
/// Bytes of values that wait at most, a last batch not counted.
const GATHERED_BYTES: usize = 256 << 20;

/// Writes batches, compressed, to an IPC file or stream, as arrow-ipc's `FileWriter` and
/// `StreamWriter` write them as they are. Rows that wait for more are lost unless
/// [`Writer::finish`], [`Writer::into_inner`] or `close` is called.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::{Options, ipc};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), Options::default())?;
/// writer.write(&batch)?;
/// writer.write(&batch)?;
/// let file = writer.into_inner()?;
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
    engine: Engine,
    options: Options,
    pending: PendingRows,
    /// What has been written.
    counts: Counts,
    finished: bool,
    /// Whether a stream has its counts.
    has_counts: bool,
}

enum Sink<W: Write> {
    File(FileWriter<Counted<W>>),
    Stream(StreamWriter<W>),
}

impl<W: Write> Writer<W> {
    /// A writer of the IPC file format, for batches of this schema. The sink is written to in
    /// small pieces: give it a `BufWriter` of a `File`.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::Unsupported`] for a schema of compressed columns, or what the
    /// sink reports.
    pub fn file(sink: W, schema: &Schema, options: Options) -> Result<Self> {
        Self::new(schema, options, |packed| {
            Ok(Sink::File(FileWriter::try_new(Counted::new(sink), packed)?))
        })
    }

    /// A writer of the IPC stream format, for batches of this schema.
    ///
    /// # Errors
    /// As [`Writer::file`].
    pub fn stream(sink: W, schema: &Schema, options: Options) -> Result<Self> {
        Self::new(schema, options, |packed| Ok(Sink::Stream(StreamWriter::try_new(sink, packed)?)))
    }

    fn new(
        schema: &Schema,
        options: Options,
        sink: impl FnOnce(&Schema) -> Result<Sink<W>>,
    ) -> Result<Self> {
        options.validate()?;
        check_uncompressed(schema)?;
        Ok(Self {
            sink: sink(&compressed_schema(schema))?,
            engine: Engine::cpu(),
            options,
            pending: PendingRows::new(SchemaRef::new(schema.clone())),
            counts: Counts::default(),
            finished: false,
            has_counts: false,
        })
    }

    /// Compresses with this engine (by default the CPU), to the same bytes.
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        self
    }

    /// The schema of the batches that it takes.
    pub fn schema(&self) -> &SchemaRef {
        self.pending.schema()
    }

    /// The sink.
    pub fn get_ref(&self) -> &W {
        match &self.sink {
            Sink::File(writer) => &writer.get_ref().sink,
            Sink::Stream(writer) => writer.get_ref(),
        }
    }

    /// The sink. What is written to it directly may damage the file.
    pub fn get_mut(&mut self) -> &mut W {
        match &mut self.sink {
            Sink::File(writer) => &mut writer.get_mut().sink,
            Sink::Stream(writer) => writer.get_mut(),
        }
    }

    /// Takes a batch; writes once enough rows for full chunks have come.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if the batch has another schema; it has not been taken then. Otherwise
    /// what compressing and the sink report: the rows have been taken, and the next call tries to
    /// write them again. An error of the sink may leave a part of a message in it.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.finished {
            return Err(mismatch("a batch behind the end that `finish` has written".to_owned()));
        }
        self.pending.check(batch)?;
        if batch.num_columns() == 0 {
            return self.send(batch);
        }
        self.pending.push(batch)?;
        let chunk = self.options.chunk_rows();
        // Of a large batch all full chunks at a time.
        let rows = (self.pending.rows() / chunk).max(GATHERED_CHUNKS) * chunk;
        let portion = Portion { rows, bytes: GATHERED_BYTES, chunk };
        while let Some(rows) = self.pending.portion(&portion) {
            self.send_rows(rows)?;
        }
        Ok(())
    }

    /// Writes the first `rows` that wait.
    fn send_rows(&mut self, rows: usize) -> Result<()> {
        let mut batches = self.pending.take(rows).into_iter();
        while let Some(batch) = batches.next() {
            if let Err(error) = self.send(&batch) {
                self.pending.put_back(std::iter::once(batch).chain(batches));
                return Err(error);
            }
        }
        Ok(())
    }

    fn send(&mut self, batch: &RecordBatch) -> Result<()> {
        let packed = self.engine.compress(batch, &self.options)?;
        match &mut self.sink {
            Sink::File(writer) => writer.write(&packed)?,
            Sink::Stream(writer) => writer.write(&packed)?,
        }
        self.counts.add(batch.num_rows());
        Ok(())
    }

    /// Compresses and writes the rows that wait, in a batch of their own, and flushes the sink.
    ///
    /// # Errors
    /// What compressing and the sink report.
    pub fn flush(&mut self) -> Result<()> {
        self.send_rows(self.pending.rows())?;
        Ok(self.get_mut().flush()?)
    }

    /// Writes the rows that wait, how many rows and batches there were, and the end of the file or
    /// stream, once.
    ///
    /// # Errors
    /// What compressing and the sink report.
    pub fn finish(&mut self) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        self.send_rows(self.pending.rows())?;
        match &mut self.sink {
            Sink::File(writer) => {
                for (key, value) in self.counts.for_file(writer.get_ref().bytes) {
                    writer.write_metadata(key, value);
                }
                writer.finish()?;
            }
            Sink::Stream(writer) => {
                let schema = SchemaRef::new(compressed_schema(self.pending.schema()));
                // Once, also if the sink fails behind them and this is called again.
                if !std::mem::replace(&mut self.has_counts, true) {
                    self.counts.write(writer.get_mut(), &schema)?;
                }
                writer.finish()?;
            }
        }
        self.finished = true;
        Ok(())
    }

    /// Finishes, unless that has been done, flushes the sink and gives it back.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn into_inner(mut self) -> Result<W> {
        self.finish()?;
        self.get_mut().flush()?;
        let sink = match self.sink {
            Sink::File(writer) => writer.into_inner()?.sink,
            Sink::Stream(writer) => writer.into_inner()?,
        };
        Ok(sink)
    }
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
