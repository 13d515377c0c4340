//! Kept rows in batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::bind::Binder;
use super::chunks::{ChunkScan, HostSource};
use super::window::Window;
use super::windows::{Scanner, Windows};
use super::{Gathered, Scan};
use crate::chunk::MAX_CHUNK_ROWS;
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::Budget;

/// Chunks that are decoded at a time for each thread of the CPU, and by a GPU.
const CHUNKS_OF_THREAD: usize = 2;
const CHUNKS_OF_DEVICE: usize = 64;

/// The values of some columns in the rows that a scan keeps, batch by batch: what [`Scan::batches`] gives.
pub struct Batches<'a> {
    chunks: Option<Reading<'a>>,
    wanted: Gathered,
    engine: Engine,
    schema: SchemaRef,
    /// Batches of the last window.
    queue: VecDeque<RecordBatch>,
}

/// A scan of chunks that are read.
struct Reading<'a> {
    chunks: ChunkScan<'a>,
    windows: Windows<Window>,
    scanner: Scanner,
}

impl<'a> Scan<'a> {
    /// The values of some columns in the rows that are kept, in batches of 1 to 131,072 rows, in order. A scan
    /// of a file or dataset reads and decodes some chunks for each thread at a time, the next ones ahead;
    /// columns in memory are decoded as a whole at first, as [`Scan::gather`] does.
    ///
    /// ```
    /// use arrow_array::{RecordBatch, record_batch};
    /// use arrow_buffer::Buffer;
    /// use lanepack::scan::col;
    /// use lanepack::{Engine, Options, file};
    ///
    /// let batch = record_batch!(("id", Int64, (0..300_000_i64).collect::<Vec<_>>()))?;
    /// let mut writer = file::Writer::try_new(Vec::new(), &batch.schema(), Options::default())?;
    /// writer.write(&batch)?;
    /// let file = file::File::from_bytes(Buffer::from_vec(writer.into_inner()?))?;
    ///
    /// let scan = file.scan().filter(col("id").gt_eq(10));
    /// let mut rows = 0;
    /// for batch in scan.batches(&["id"], &Engine::cpu())? {
    ///     rows += batch?.num_rows();
    /// }
    /// assert_eq!(rows, 299_990);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scan::gather`]: at once if the filter or a name does not fit the columns, or if a chunk cannot be read by
    /// which [`Engine::auto`] chooses, otherwise from [`Batches::next_batch`].
    pub fn batches<S: AsRef<str>>(&self, names: &[S], engine: &Engine) -> Result<Batches<'a>> {
        let batches = |chunks, wanted, schema, queue| {
            let engine = engine.clone();
            Batches { chunks, wanted, engine, schema, queue }
        };
        if self.resident(engine)?.is_none() {
            let (source, wanted) =
                self.bind(|binder: &mut Binder<'_>| Gathered::of(names, binder))?;
            if let HostSource::Chunks(chunks) = source {
                let columns = &wanted.columns;
                let scanner = Scanner::new(engine, &chunks, columns, columns.len())?;
                let most = match scanner.is_cpu() {
                    true => CHUNKS_OF_THREAD * rayon::current_num_threads(),
                    false => CHUNKS_OF_DEVICE,
                };
                let schema = wanted.schema(&|column| chunks.field(column));
                let windows = chunks.begin(scanner.window_bytes(), most);
                let reading = Reading { chunks, windows, scanner };
                return Ok(batches(Some(reading), wanted, schema, VecDeque::new()));
            }
        }
        let all = self.gather(names, engine)?;
        let nothing = Gathered { columns: Vec::new(), names: Vec::new() };
        Ok(batches(None, nothing, all.schema(), parts(&all)))
    }
}

/// Slices of a batch that have no more rows than a chunk.
fn parts(batch: &RecordBatch) -> VecDeque<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(MAX_CHUNK_ROWS);
    starts.map(|start| batch.slice(start, MAX_CHUNK_ROWS.min(batch.num_rows() - start))).collect()
}

impl Batches<'_> {
    /// The next batch; none at the end and after an error. The same as iterating, with lanepack's error.
    ///
    /// # Errors
    /// As [`Scan::gather`]; the limit of memory is that of a window.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.queue.pop_front() {
                return Ok(Some(batch));
            }
            let Some(mut reading) = self.chunks.take() else { return Ok(None) };
            let limit = self.engine.memory_limit();
            let Reading { chunks, windows, scanner } = &mut reading;
            let read = |window: &[(usize, usize)]| scanner.read(chunks, window);
            let gathered = chunks.step(windows, read, |window, of_window| {
                let budget = Budget::new(limit);
                let batch = scanner.scan(chunks, window, of_window, |part, engine| {
                    part.gather(&self.wanted.columns, &budget, engine)
                })?;
                self.wanted.with_joined(batch, limit)
            });
            scanner.remember(&self.engine, gathered.is_ok());
            match gathered {
                Ok(Some(batch)) => self.queue = parts(&batch),
                Ok(None) => return Ok(None),
                Err(error) => {
                    chunks.give_up(windows);
                    return Err(error);
                }
            }
            self.chunks = Some(reading);
        }
    }
}

impl Drop for Batches<'_> {
    fn drop(&mut self) {
        if let Some(Reading { chunks, windows, .. }) = &self.chunks {
            chunks.give_up(windows);
        }
    }
}

impl Gathered {
    /// The schema of the result, given the fields of columns.
    fn schema(&self, field: &dyn Fn(usize) -> arrow_schema::FieldRef) -> SchemaRef {
        let fields = self.names.iter().map(|(at, joined)| match joined {
            None => field(self.columns[*at]),
            Some(joined) => joined.field(),
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

impl Iterator for Batches<'_> {
    /// The error is an external one that holds an [`Error`](crate::Error), which `Error::from` gives back.
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(ArrowError::from).transpose()
    }
}

impl RecordBatchReader for Batches<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl std::fmt::Debug for Batches<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}
