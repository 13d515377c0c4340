//! Scans of columns that are in host memory, or are read on demand, from a file for example.
//!
//! ```text
//! Scan --bind--> HostSource   Memory: columns                        -->  HostScan
//!                             Chunks: those that bounds and filters  -->  windows or chunks (windows.rs):
//!                                     leave, of a ChunkSource             HostScan or DeviceWindow
//! ```
//!
//! What comes of windows is put together in the order of chunks, so that it equals what comes of columns in
//! memory.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, i256};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use rayon::prelude::*;

use super::aggregate::{Plan, State};
use super::bounds::{self, ChunkFacts};
use super::cpu::group::Tables;
use super::group::{GroupTable, Grouping};
use super::host::HostScan;
use super::order::RowSet;
use super::predicate::Predicate;
use super::window::{DeviceWindow, InMemory};
use super::windows::{DEVICE_BYTES, READ_AHEAD, Scanner, cpu_bytes};
use super::{bounds_of, gathered, integer_bounds, membership};
use crate::bloom::BloomFilter;
use crate::chunk::Statistics;
use crate::column::{self, CompressedColumn, physical_of};
use crate::device::{CompressedDeviceBatch, DeviceColumn, LandedChunk, Landing};
use crate::encoding::Physical;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::{Budget, MemoryLimit};
use crate::ranges::{Key, Share};

/// A source of compressed chunks that are read on demand: a scan reads the columns that it uses, and of them
/// the chunks that their bounds and their filters do not exclude.
pub(crate) trait ChunkSource: std::fmt::Debug + Sync {
    /// The fields of the values.
    fn schema(&self) -> &Schema;
    /// Rows of each chunk.
    fn chunk_rows(&self) -> &[usize];
    /// The nulls and the bounds of a chunk of a column, as far as they are known without reading it.
    fn facts(&self, column: usize, chunk: usize) -> (usize, Statistics);
    /// Bytes of a chunk of a column, as it is stored.
    fn bytes(&self, column: usize, chunk: usize) -> u64;
    /// Bytes of the membership filter of a chunk of a column; 0 if it has none.
    fn filter_bytes(&self, column: usize, chunk: usize) -> u64;
    /// Reads the filters of some chunks that have some: pairs of a column and a chunk, in the order of chunks.
    /// Errors name file, column and chunk.
    fn read_filters(&self, wanted: &[(usize, usize)]) -> Result<Vec<BloomFilter>>;
    /// Bytes of chunks that are read at a time, if a chunk of all columns has no more; none where engines
    /// decide.
    fn window_bytes(&self) -> Option<u64>;
    /// Says that chunks will be read soon, or, after that, that they will not.
    fn announce(&self, columns: &[usize], chunks: &[usize], will_read: bool);
    /// An error of a chunk, with the names that this and what it lies in have.
    fn place(&self, chunk: usize, error: Error) -> Error;
    /// Whether chunks are read as fast one by one as many together, by any number of threads.
    fn is_fast_by_chunk(&self) -> bool;
    /// Reads some chunks of some columns, which are validated. Errors name file, column and chunk.
    fn read(&self, columns: &[usize], chunks: &[usize]) -> Result<Vec<CompressedColumn>>;
    /// The same, to a device: the chunks of each column.
    fn read_to(
        &self,
        landing: &Landing,
        columns: &[usize],
        chunks: &[usize],
    ) -> Result<Vec<Vec<LandedChunk>>>;
}

/// A scan whose columns and filter are known.
pub(super) enum HostSource<'a> {
    Memory(HostScan<'a>),
    Chunks(ChunkScan<'a>),
}

/// A scan of columns that are read.
pub(super) struct ChunkScan<'a> {
    source: &'a dyn ChunkSource,
    /// The chunks that are scanned.
    within: Range<usize>,
    predicate: Arc<Predicate>,
    /// The columns that it uses, by their numbers in predicates.
    used: Vec<usize>,
    /// Those that may have rows which are kept, and the first row of each, counted from the first of all.
    chunks: Vec<(usize, usize)>,
}

impl<'a> ChunkScan<'a> {
    /// A scan of `used` columns in some chunks of a source; if rows are given, of those that have some of these.
    pub fn new(
        (source, within): (&'a dyn ChunkSource, Range<usize>),
        mut predicate: Predicate,
        used: Vec<usize>,
        rows: Option<RowSet<'_>>,
    ) -> Result<Self> {
        let mut chunks = Vec::new();
        let mut at = 0;
        for chunk in within.clone() {
            let count = source.chunk_rows()[chunk];
            let has_rows = rows.is_none_or(|rows| rows.has_any(at..at + count));
            let facts = |number: usize| facts_of(source, used[number], chunk);
            if has_rows && bounds::of_predicate(&predicate, &facts) != Share::None {
                chunks.push((chunk, at));
            }
            at += count;
        }
        // Rows that are given have passed the predicate: their chunks are not excluded.
        let chunks = match rows {
            None => membership::chunks_not_excluded(source, &predicate, &used, chunks)?,
            Some(_) => chunks,
        };
        let all = Arc::new(Predicate::Constant(true));
        let mut scan = Self { source, within, predicate: all, used, chunks };
        predicate.fit(&|column| scan.bounds(column))?;
        scan.predicate = Arc::new(predicate);
        Ok(scan)
    }

    pub fn source(&self) -> &'a dyn ChunkSource {
        self.source
    }

    /// Chunks that may have rows which are kept, and the first row of each.
    pub fn chunks(&self) -> &[(usize, usize)] {
        &self.chunks
    }

    /// Bytes of a chunk in all columns that are used.
    pub fn bytes_of(&self, (chunk, _): &(usize, usize)) -> u64 {
        let bytes = self.used.iter().map(|column| self.source.bytes(*column, *chunk));
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes of some chunks in these.
    pub fn bytes_of_all(&self, chunks: &[(usize, usize)]) -> u64 {
        chunks.iter().map(|chunk| self.bytes_of(chunk)).fold(0, u64::saturating_add)
    }

    /// Bytes of all that is read.
    pub fn bytes(&self) -> u64 {
        self.bytes_of_all(&self.chunks)
    }

    /// Says that some chunks will be read soon, or, after that, that they will not.
    pub fn announce(&self, chunks: &[(usize, usize)], will_read: bool) {
        self.source.announce(&self.used, &numbers(chunks), will_read);
    }

    /// The field of a column.
    pub fn field(&self, column: usize) -> FieldRef {
        self.source.schema().fields()[self.used[column]].clone()
    }

    fn rows_of(&self, chunk: usize) -> usize {
        self.source.chunk_rows()[chunk]
    }

    /// As [`bounds_of`], of the chunks that are read.
    fn bounds(&self, column: usize) -> (i256, i256) {
        let facts = self.chunks.iter().map(|(chunk, _)| {
            let (nulls, statistics) = self.source.facts(self.used[column], *chunk);
            (self.rows_of(*chunk), nulls, statistics)
        });
        integer_bounds(self.source.schema().field(self.used[column]).data_type(), facts)
    }

    fn has_nulls(&self, column: usize) -> bool {
        let nulls = |(chunk, _): &(usize, usize)| self.source.facts(self.used[column], *chunk).0;
        self.chunks.iter().any(|chunk| nulls(chunk) > 0)
    }

    /// Reads everything at once.
    fn read_all(&self) -> Result<HostScan<'static>> {
        self.announce(&self.chunks, true);
        self.read_to_host(&self.chunks).inspect_err(|_| self.announce(&self.chunks, false))
    }

    /// Reads some chunks to host memory.
    pub fn read_to_host(&self, window: &[(usize, usize)]) -> Result<HostScan<'static>> {
        let chunks = numbers(window);
        let columns = self.source.read(&self.used, &chunks)?;
        Ok(HostScan {
            columns: columns.into_iter().map(Cow::Owned).collect(),
            predicate: self.predicate.clone(),
            chunk_rows: chunks.iter().map(|chunk| self.rows_of(*chunk)).collect(),
        })
    }

    /// Reads some chunks to a device.
    pub fn read_to(&self, landing: &Landing, window: &[(usize, usize)]) -> Result<DeviceWindow> {
        let landed = self.source.read_to(landing, &self.used, &numbers(window))?;
        let arrival = landing.arrival()?;
        let column = |(number, chunks): (usize, Vec<LandedChunk>)| {
            let field = self.field(number);
            let column = landing.column(field.clone(), chunks, arrival.as_ref());
            column.map_err(|error| error.in_column(field.name()))
        };
        Ok(DeviceWindow {
            context: landing.context().clone(),
            columns: landed.into_iter().enumerate().map(column).collect::<Result<_>>()?,
            predicate: self.predicate.clone(),
            rows: window.iter().map(|(chunk, _)| self.rows_of(*chunk)).sum(),
        })
    }

    /// An error whose chunk is one of a window.
    pub fn placed(&self, window: &[(usize, usize)], error: Error) -> Error {
        let chunk = error.place().and_then(|place| window.get(place.chunk?));
        match chunk {
            Some((chunk, _)) => self.source.place(*chunk, error),
            None => error,
        }
    }

    /// The bits of all rows, given those of the chunks that were read.
    fn all_bits(&self, masks: &[BooleanArray]) -> BooleanBuffer {
        let mut read = BooleanBufferBuilder::new(0);
        masks.iter().for_each(|mask| read.append_buffer(mask.values()));
        let (read, mut at) = (read.finish(), 0);
        let all_rows = self.source.chunk_rows()[self.within.clone()].iter().sum();
        let mut bits = BooleanBufferBuilder::new(all_rows);
        for (chunk, first) in &self.chunks {
            bits.append_n(first - bits.len(), false);
            bits.append_buffer(&read.slice(at, self.rows_of(*chunk)));
            at += self.rows_of(*chunk);
        }
        bits.append_n(all_rows - bits.len(), false);
        bits.finish()
    }

    /// The bits of the rows of a window, given those of all rows.
    fn bits_of(&self, window: &[(usize, usize)], all: RowSet<'_>) -> BooleanBuffer {
        let mut bits = BooleanBufferBuilder::new(0);
        for (chunk, first) in window {
            bits.append_buffer(&all.bits(*first..first + self.rows_of(*chunk)));
        }
        bits.finish()
    }
}

/// All chunks of some columns, whose schema is given, in the memory of an engine's first GPU.
pub(crate) fn copied_to_device(
    source: &dyn ChunkSource,
    schema: SchemaRef,
    columns: Vec<usize>,
    engine: &Engine,
) -> Result<CompressedDeviceBatch> {
    let context = engine.context()?;
    let mut of_columns: Vec<Vec<DeviceColumn>> = columns.iter().map(|_| Vec::new()).collect();
    let all = 0..source.chunk_rows().len();
    let scan = ChunkScan::new((source, all), Predicate::Constant(true), columns, None)?;
    let landing = Landing::new(context)?;
    let read = |window: &[(usize, usize)]| scan.read_to(&landing, window);
    // Memory of more windows is more that has to be found beside the columns: it takes longer.
    scan.for_each((DEVICE_BYTES, 1), read, |window, _| {
        for (column, parts) in window.columns.iter().zip(&mut of_columns) {
            // The memory of a window is shared by its columns, and has gaps.
            let part = column.compacted();
            parts.push(part.map_err(|error| error.in_column(column.field().name()))?);
        }
        Ok(())
    })?;
    let joined = |parts| DeviceColumn::joined(parts, engine.memory_limit());
    let columns = of_columns.into_iter().map(joined).collect::<Result<_>>()?;
    let rows = source.chunk_rows().iter().sum();
    Ok(CompressedDeviceBatch::new(context.clone(), schema, columns, rows))
}

/// The numbers of the chunks of a window.
pub(super) fn numbers(window: &[(usize, usize)]) -> Vec<usize> {
    window.iter().map(|(chunk, _)| *chunk).collect()
}

pub(super) fn facts_of(source: &dyn ChunkSource, column: usize, chunk: usize) -> ChunkFacts {
    let data_type = source.schema().field(column).data_type();
    let (nulls, statistics) = source.facts(column, chunk);
    ChunkFacts {
        rows: source.chunk_rows()[chunk],
        nulls,
        statistics,
        key: Key::of(data_type),
        is_carried: physical_of(data_type) == Physical::Arrow,
    }
}

impl<'a> HostSource<'a> {
    /// The scan with all its chunks in memory.
    pub fn read_all(self) -> Result<HostScan<'a>> {
        match self {
            Self::Memory(scan) => Ok(scan),
            Self::Chunks(scan) => scan.read_all(),
        }
    }

    /// Does `work` with each part that is in memory, of which it reads the values of columns with so much effort
    /// (see [`HostScan::work`]); what has come of them, in order. The CPU may do several parts at a time.
    fn each_part<T: Send>(
        &self,
        engine: &Engine,
        (reads, effort): (&[usize], usize),
        work: impl Fn(&dyn InMemory, &Engine) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let scan = match self {
            Self::Memory(scan) => return Ok(vec![work(scan, engine)?]),
            Self::Chunks(scan) => scan,
        };
        let scanner = Scanner::new(engine, scan, reads, effort)?;
        let results = scanner.each_part(scan, work);
        scanner.remember(engine, results.is_ok());
        results
    }

    /// The least and the greatest value of a column of integers, as [`bounds_of`] gives them.
    pub fn bounds(&self, column: usize) -> (i256, i256) {
        match self {
            Self::Memory(scan) => bounds_of(&scan.columns[column]),
            Self::Chunks(scan) => scan.bounds(column),
        }
    }

    pub fn has_nulls(&self, column: usize) -> bool {
        match self {
            Self::Memory(scan) => scan.columns[column].null_count() > 0,
            Self::Chunks(scan) => scan.has_nulls(column),
        }
    }

    /// Rows of the chunks that are looked at.
    pub fn rows(&self) -> usize {
        match self {
            Self::Memory(scan) => scan.rows(),
            Self::Chunks(scan) => scan.chunks.iter().map(|(chunk, _)| scan.rows_of(*chunk)).sum(),
        }
    }

    /// See [`Scan::mask`](super::Scan::mask).
    pub fn mask(&self, engine: &Engine) -> Result<BooleanArray> {
        let mut masks = self.each_part(engine, (&[], 0), |part, engine| part.mask(engine))?;
        Ok(match self {
            Self::Memory(_) => masks.remove(0),
            Self::Chunks(scan) => BooleanArray::new(scan.all_bits(&masks), None),
        })
    }

    /// See [`Scan::count`](super::Scan::count).
    pub fn count(&self, engine: &Engine) -> Result<usize> {
        let counts = self.each_part(engine, (&[], 0), |part, engine| part.count(engine))?;
        Ok(counts.into_iter().sum())
    }

    /// What the kept rows come to.
    pub fn aggregate(&self, plans: &mut [Plan], engine: &Engine) -> Result<Vec<State>> {
        plans.iter_mut().try_for_each(|plan| plan.fit(&|column| self.bounds(column)))?;
        let plans: Vec<&Plan> = plans.iter().collect();
        let reads: Vec<usize> = plans.iter().flat_map(|plan| plan.columns_read()).collect();
        let aggregate = |part: &dyn InMemory, engine: &Engine| part.aggregate(&plans, engine);
        let found = self.each_part(engine, (&reads, plans.len()), aggregate)?;
        let start = plans.iter().map(|plan| plan.start()).collect();
        Ok(found.into_iter().fold(start, |states, found| found.after(&plans, states)))
    }

    /// The groups of the kept rows, or of those that a filter keeps as well.
    pub fn groups(
        &self,
        filter: Option<&Predicate>,
        grouping: Grouping<'_>,
        engine: &Engine,
    ) -> Result<GroupTable> {
        let (tables, mut reads) = (Tables::new(grouping), grouping.reads());
        if let Some(filter) = filter {
            filter.values_read(&mut |column| reads.push(column));
        }
        self.each_part(engine, (&reads, grouping.effort()), |part, engine| {
            part.add_groups(filter, &tables, engine)
        })?;
        tables.merged()
    }

    /// See [`Scan::gather`](super::Scan::gather).
    pub fn gather(&self, wanted: &[usize], engine: &Engine) -> Result<RecordBatch> {
        let budget = self.budget(engine.memory_limit());
        concat_batches(self.each_part(engine, (wanted, wanted.len()), |part, engine| {
            part.gather(wanted, &budget, engine)
        })?)
    }

    /// The values of some columns in rows that have been found, by the CPU.
    pub fn gather_rows(
        &self,
        rows: RowSet<'_>,
        wanted: &[usize],
        limit: MemoryLimit,
    ) -> Result<RecordBatch> {
        let budget = self.budget(limit);
        concat_batches(match self {
            Self::Memory(scan) => {
                vec![scan.gather_rows(&rows.bits(0..scan.rows()), wanted, &budget)?]
            }
            Self::Chunks(chunks) => {
                let read = |window: &[(usize, usize)]| chunks.read_to_host(window);
                chunks.for_each((cpu_bytes(), READ_AHEAD), read, |scan, window| {
                    scan.gather_rows(&chunks.bits_of(window, rows), wanted, &budget)
                })?
            }
        })
    }

    /// What all parts together may be gathered to.
    fn budget(&self, limit: MemoryLimit) -> Budget {
        Budget::new(match self {
            Self::Memory(_) => limit,
            Self::Chunks(chunks) => limit.of_input(chunks.bytes()),
        })
    }
}

/// The rows of all windows, of which there is at least one.
fn concat_batches(mut batches: Vec<RecordBatch>) -> Result<RecordBatch> {
    if batches.len() == 1 {
        return Ok(batches.remove(0));
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let schema = batches[0].schema();
    let fields = schema.fields();
    let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); fields.len()];
    for batch in batches {
        let (_, arrays, _) = batch.into_parts();
        pieces.iter_mut().zip(arrays).for_each(|(pieces, array)| pieces.push(array));
    }
    // The pieces of a column go as soon as it is made.
    let column = |(pieces, field): (Vec<ArrayRef>, &FieldRef)| {
        column::concat(&pieces).map_err(|error: Error| error.in_column(field.name()))
    };
    let arrays = pieces.into_par_iter().zip(fields.par_iter()).map(column);
    gathered(fields.iter(), arrays.collect::<Result<_>>()?, rows)
}
