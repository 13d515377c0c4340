//! Reading: batches of a source, then columns, checksums, and what was compressed.

use std::io::{Read, Seek};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use rayon::prelude::*;

use super::counts::Counts;
use super::source::{FileSource, Next, Source, StreamSource};
use crate::batch::{columns, decompressed_schema};
use crate::column::CompressedColumn;
use crate::engine::Engine;
use crate::error::Result;

/// Reads the batches of an IPC file or stream of compressed columns.
///
/// It is a [`RecordBatchReader`]: an iterator of decompressed batches, with
/// errors in Arrow's type. [`Reader::next_columns`] leaves columns compressed.
/// Body checksums are compared unless [`Reader::with_checksums`] says otherwise.
///
/// ```
/// use arrow_array::{RecordBatchReader, record_batch};
/// use lanepack::{Engine, Options, ipc};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let mut writer = ipc::Writer::stream(Vec::new(), &batch.schema(), Options::default())?;
/// writer.write(&batch)?;
/// let stream = writer.into_inner()?;
///
/// let reader = ipc::Reader::stream(stream.as_slice())?.with_engine(&Engine::auto());
/// let any: Box<dyn RecordBatchReader> = Box::new(reader);
/// assert_eq!(any.schema(), batch.schema());
/// assert_eq!(any.collect::<Result<Vec<_>, _>>()?, [batch]);
/// # Ok::<(), lanepack::Error>(())
/// ```
pub struct Reader<S> {
    source: S,
    /// What the batches have once decompressed.
    schema: SchemaRef,
    engine: Engine,
    /// What the values of a batch may take, if it is another limit than the engine's.
    memory_limit: Option<u64>,
    checksums: bool,
    /// What has been read since the last counts of the writer.
    counts: Counts,
    /// Set at the end and by an error: nothing is read behind it.
    ended: bool,
}

impl<R: Read + Seek> Reader<FileSource<R>> {
    /// A reader of the IPC file format, which takes what it needs in few large pieces.
    ///
    /// # Errors
    /// [`Error::NotLanepack`](crate::Error::NotLanepack) if it is no IPC file, or its columns are
    /// not compressed, [`Error::Version`](crate::Error::Version) if they are of another version,
    /// [`Error::Corrupt`](crate::Error::Corrupt) for a file that was cut or never finished, or what
    /// the reader reports.
    pub fn file(reader: R) -> Result<Self> {
        let source = FileSource::open(reader)?;
        let schema = decompressed_schema(source.schema())?;
        Ok(Self::new(source, Arc::new(schema)))
    }
}

impl<R: Read> Reader<StreamSource<R>> {
    /// A reader of the IPC stream format.
    ///
    /// # Errors
    /// [`Error::NotLanepack`](crate::Error::NotLanepack) if it is no IPC stream, or its columns are
    /// not compressed, [`Error::Version`](crate::Error::Version) if they are of another version,
    /// [`Error::Corrupt`](crate::Error::Corrupt), or what the reader reports.
    pub fn stream(reader: R) -> Result<Self> {
        let source = StreamSource::open(reader)?;
        let schema = decompressed_schema(source.schema())?;
        Ok(Self::new(source, Arc::new(schema)))
    }

    /// Takes a stream that ends behind a message, without the end marker, for a whole one. By
    /// default that is an error: it was cut, or its writer did not finish.
    #[must_use]
    pub fn allow_missing_end(mut self) -> Self {
        self.source.may_be_cut = true;
        self
    }
}

impl<S: Source> Reader<S> {
    fn new(source: S, schema: SchemaRef) -> Self {
        let counts = Counts::default();
        let engine = Engine::cpu();
        Self { source, schema, engine, memory_limit: None, checksums: true, counts, ended: false }
    }

    /// Decompresses with this engine (by default the CPU), to the same values.
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        if let Some(bytes) = self.memory_limit {
            self.engine = self.engine.with_memory_limit(bytes);
        }
        self
    }

    /// Limits the bytes that the values of one batch take, instead of the engine's limit; see
    /// [`Engine::with_memory_limit`].
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self.engine = self.engine.with_memory_limit(bytes);
        self
    }

    /// Whether to compare the checksum of every body (the default).
    #[must_use]
    pub fn with_checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// The schema of the decompressed batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The columns of the next batch, validated but not decompressed, with the
    /// batch that holds them; none at the end and after an error.
    ///
    /// # Errors
    /// As [`columns`], [`Error::Checksum`](crate::Error::Checksum) for a damaged body,
    /// [`Error::Corrupt`](crate::Error::Corrupt) at the end if the writer has counted other rows or
    /// batches than there were, and what the reader reports.
    pub fn next_columns(&mut self) -> Result<Option<(RecordBatch, Vec<CompressedColumn>)>> {
        if self.ended {
            return Ok(None);
        }
        let next = self.read_columns();
        self.ended = !matches!(next, Ok(Some(_)));
        next
    }

    fn read_columns(&mut self) -> Result<Option<(RecordBatch, Vec<CompressedColumn>)>> {
        let packed = loop {
            match self.source.next()? {
                Next::Batch(packed) => break packed,
                Next::Counts(stated) => std::mem::take(&mut self.counts).check(stated)?,
                Next::End => return Ok(None),
            }
        };
        let columns = columns(&packed)?;
        if self.checksums {
            columns.par_iter().try_for_each(CompressedColumn::verify_checksums)?;
        }
        let rows = columns.first().map_or(packed.num_rows(), CompressedColumn::len);
        self.counts.add(rows);
        Ok(Some((packed, columns)))
    }

    /// The next batch, decompressed; none at the end and after an error. The same as iterating,
    /// with lanepack's error.
    ///
    /// # Errors
    /// As [`Reader::next_columns`] and [`Engine::decompress`].
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some((packed, columns)) = self.next_columns()? else { return Ok(None) };
        let batch = self.engine.decompress_columns(&self.schema, &columns, packed.num_rows());
        self.ended = batch.is_err();
        batch.map(Some)
    }
}

impl<S: Source> Iterator for Reader<S> {
    /// The error is an external one that holds an [`Error`](crate::Error), which
    /// `Error::from` gives back.
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(ArrowError::from).transpose()
    }
}

impl<S: Source> RecordBatchReader for Reader<S> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
