//! Scans of columns that are in host memory, or are read on demand, from a file for example.
//!
//! ```text
//! chunks that bounds and filters leave  [0 2 3]   [5 6 9]   [10 11]
//! read, by threads of the pool          ####----- ####----- ####
//! scanned, by the engine                     #######   #######   ####
//! ```
//!
//! Chunks are read a window at a time: neighbours that have a limited number of bytes in the columns that are
//! used ([`ChunkSource::window_bytes`]). While a window is scanned like columns in host memory ([`HostScan`]),
//! the next one is read: two are in memory. The source is told of those after it, so that a disk can fetch
//! them. A window that one GPU scans is copied there while it is read ([`Landing`]), and is not kept by the host
//! ([`DeviceWindow`]). Window results are combined in the order of chunks, so that they equal those of columns in
//! memory.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, i256};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use rayon::prelude::*;

use super::aggregate::{Plan, State};
use super::bounds::{self, ChunkFacts};
use super::group::{GroupTable, Grouping};
use super::host::HostScan;
use super::order::RowSet;
use super::predicate::Predicate;
use super::window::{DeviceWindow, InMemory, Window};
use super::{bounds_of, gathered, integer_bounds, membership};
use crate::bloom::BloomFilter;
use crate::chunk::Statistics;
use crate::column::{self, CompressedColumn, array_bytes, physical_of};
use crate::device::{CompressedDeviceBatch, DeviceColumn, LandedChunk, Landing};
use crate::encoding::Physical;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::MemoryLimit;
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

/// Bytes of a window for each thread of the CPU, and the least and the most of all together: windows are
/// small, so that scans begin early, and have chunks for all threads.
const THREAD_BYTES: u64 = 1 << 20;
const LEAST_BYTES: u64 = 8 << 20;
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of a window that devices scan, which is one copy and some launches.
const DEVICE_BYTES: u64 = 128 << 20;
/// Windows that are announced before they are read.
const AHEAD: usize = 4;

/// A scan whose columns and filter are known.
pub(super) enum HostSource<'a> {
    Memory(HostScan<'a>),
    Chunks(ChunkScan<'a>),
}

/// Windows of a scan, of which one is read ahead.
pub(super) struct Windows<W> {
    ranges: Vec<Range<usize>>,
    /// The next one.
    at: usize,
    /// It, or why it could not be read.
    read: Option<Result<W>>,
}

/// Who scans windows.
#[derive(Debug)]
pub(super) enum By {
    Cpu,
    /// One GPU, to which chunks are copied while they are read.
    Device(Landing),
    /// GPUs, maybe beside the CPU: who gets which chunks is decided once they are read.
    Devices,
}

/// A scan of columns that are read.
pub(super) struct ChunkScan<'a> {
    source: &'a dyn ChunkSource,
    predicate: Predicate,
    /// The columns that it uses, by their numbers in predicates.
    used: Vec<usize>,
    /// Chunks that may have rows which are kept, and the first row of each.
    chunks: Vec<(usize, usize)>,
}

impl<'a> ChunkScan<'a> {
    /// A scan of `used` columns; if rows are given, of chunks that have some of these.
    pub fn new(
        source: &'a dyn ChunkSource,
        mut predicate: Predicate,
        used: Vec<usize>,
        rows: Option<RowSet<'_>>,
    ) -> Result<Self> {
        let mut chunks = Vec::new();
        let mut at = 0;
        for (chunk, count) in source.chunk_rows().iter().enumerate() {
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
        let mut scan = Self { source, predicate: Predicate::Constant(true), used, chunks };
        predicate.fit(&|column| scan.bounds(column))?;
        scan.predicate = predicate;
        Ok(scan)
    }

    /// Bytes of all that is read.
    fn bytes(&self) -> u64 {
        let of_chunk = |(chunk, _): &(usize, usize)| -> u64 {
            self.used.iter().map(|column| self.source.bytes(*column, *chunk)).sum()
        };
        self.chunks.iter().map(of_chunk).fold(0, u64::saturating_add)
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
        self.source.announce(&self.used, &numbers(&self.chunks), true);
        let read = self.read_to_host(&self.chunks);
        if read.is_err() {
            self.source.announce(&self.used, &numbers(&self.chunks), false);
        }
        read
    }

    /// The chunks of each window, one window at least; `bytes` unless the source says how many.
    fn windows(&self, bytes: u64) -> Vec<Range<usize>> {
        let bytes_of = |(chunk, _): &(usize, usize)| {
            self.used.iter().map(|column| self.source.bytes(*column, *chunk)).sum()
        };
        windows(self.chunks.iter().map(bytes_of), self.source.window_bytes().unwrap_or(bytes))
    }

    /// Reads a window for those who scan it.
    pub fn read(&self, window: &[(usize, usize)], by: &By) -> Result<Window> {
        match by {
            By::Device(landing) => self.read_to(landing, window).map(Window::Device),
            By::Cpu | By::Devices => self.read_to_host(window).map(Window::Host),
        }
    }

    fn read_to_host(&self, window: &[(usize, usize)]) -> Result<HostScan<'static>> {
        let chunks = numbers(window);
        let columns = self.source.read(&self.used, &chunks)?;
        Ok(HostScan {
            columns: columns.into_iter().map(Cow::Owned).collect(),
            predicate: self.predicate.clone(),
            chunk_rows: chunks.iter().map(|chunk| self.rows_of(*chunk)).collect(),
        })
    }

    fn read_to(&self, landing: &Landing, window: &[(usize, usize)]) -> Result<DeviceWindow> {
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

    /// The windows, of so many bytes and of at most so many chunks, before the first.
    pub fn begin<W>(&self, bytes: u64, most_chunks: usize) -> Windows<W> {
        let windows = self.windows(bytes).into_iter().flat_map(|range| {
            // An empty one stays.
            let parts = range.len().div_ceil(most_chunks).max(1);
            (0..parts).map(move |part| {
                let start = range.start + part * most_chunks;
                start..range.end.min(start.saturating_add(most_chunks))
            })
        });
        Windows { ranges: windows.collect(), at: 0, read: None }
    }

    /// Does `work` with the next window while the one behind it is read, and more are announced; nothing behind
    /// the last.
    pub fn step<W: Send, T>(
        &self,
        windows: &mut Windows<W>,
        read: impl Fn(&[(usize, usize)]) -> Result<W> + Sync,
        work: impl FnOnce(&W, &[(usize, usize)]) -> Result<T>,
    ) -> Result<Option<T>> {
        let window = |at: usize| windows.ranges.get(at).map(|range| &self.chunks[range.clone()]);
        let announce = |at: usize| {
            if let Some(window) = window(at) {
                self.source.announce(&self.used, &numbers(window), true);
            }
        };
        let Some(own) = window(windows.at) else { return Ok(None) };
        let at = windows.at;
        let current = match windows.read.take() {
            Some(current) => current?,
            None => {
                announce(at);
                rayon::in_place_scope(|scope| {
                    scope.spawn(|_| (1..AHEAD).for_each(|ahead| announce(at + ahead)));
                    read(own)
                })?
            }
        };
        let following = window(at + 1);
        let mut next = None;
        let result = rayon::in_place_scope(|scope| {
            if let Some(following) = following {
                scope.spawn(|_| {
                    announce(at + AHEAD);
                    next = Some(read(following));
                });
            }
            work(&current, own)
        });
        let result = result.map_err(|error| self.placed(own, error));
        windows.at += 1;
        windows.read = next;
        result.map(Some)
    }

    /// Says that the windows which were announced will not be read.
    pub fn give_up<W>(&self, windows: &Windows<W>) {
        for range in windows.ranges.iter().skip(windows.at).take(AHEAD) {
            self.source.announce(&self.used, &numbers(&self.chunks[range.clone()]), false);
        }
    }

    /// Does `work` with each window of so many bytes, in order.
    fn for_each<W: Send, T>(
        &self,
        bytes: u64,
        read: impl Fn(&[(usize, usize)]) -> Result<W> + Sync,
        mut work: impl FnMut(&W, &[(usize, usize)]) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut windows = self.begin(bytes, usize::MAX);
        let mut results = Vec::with_capacity(windows.ranges.len());
        loop {
            match self.step(&mut windows, &read, &mut work) {
                Ok(Some(result)) => results.push(result),
                Ok(None) => return Ok(results),
                Err(error) => {
                    self.give_up(&windows);
                    return Err(error);
                }
            }
        }
    }

    /// An error whose chunk is one of a window.
    fn placed(&self, window: &[(usize, usize)], error: Error) -> Error {
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
        let all_rows = self.source.chunk_rows().iter().sum();
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
    let scan = ChunkScan::new(source, Predicate::Constant(true), columns, None)?;
    let landing = Landing::new(context)?;
    let read = |window: &[(usize, usize)]| scan.read_to(&landing, window);
    scan.for_each(DEVICE_BYTES, read, |window, _| {
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

/// Ranges of chunks, given the bytes of each: neighbours that have at most so many together, or one that has
/// more. There is one range at least, which may be empty.
pub(crate) fn windows(bytes: impl Iterator<Item = u64>, most: u64) -> Vec<Range<usize>> {
    let mut windows = vec![Range::default()];
    let mut in_last = 0_u64;
    for (at, own) in bytes.enumerate() {
        in_last = in_last.saturating_add(own);
        match windows.last_mut() {
            Some(last) if last.start == last.end || in_last <= most => last.end = at + 1,
            _ => {
                windows.push(at..at + 1);
                in_last = own;
            }
        }
    }
    windows
}

/// The numbers of the chunks of a window.
fn numbers(window: &[(usize, usize)]) -> Vec<usize> {
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

impl By {
    /// Who scans for an engine.
    pub fn of(engine: &Engine) -> Result<Self> {
        Ok(match (engine.only_device(), engine.device()) {
            (Some(context), _) => Self::Device(Landing::new(context)?),
            (None, Some(_)) => Self::Devices,
            (None, None) => Self::Cpu,
        })
    }

    /// Bytes of a window.
    pub fn window_bytes(&self) -> u64 {
        match self {
            Self::Device(_) | Self::Devices => DEVICE_BYTES,
            Self::Cpu => cpu_bytes(),
        }
    }
}

/// Bytes of a window that the CPU scans.
fn cpu_bytes() -> u64 {
    (rayon::current_num_threads() as u64 * THREAD_BYTES).clamp(LEAST_BYTES, MOST_BYTES)
}

impl<'a> HostSource<'a> {
    /// The scan with all its chunks in memory.
    pub fn read_all(self) -> Result<HostScan<'a>> {
        match self {
            Self::Memory(scan) => Ok(scan),
            Self::Chunks(scan) => scan.read_all(),
        }
    }

    /// Does `work` with each part that is in memory, in order.
    fn for_each_window<T>(
        &self,
        engine: &Engine,
        mut work: impl FnMut(&dyn InMemory) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self {
            Self::Memory(scan) => Ok(vec![work(scan)?]),
            Self::Chunks(scan) => {
                let by = By::of(engine)?;
                let read = |window: &[(usize, usize)]| scan.read(window, &by);
                scan.for_each(by.window_bytes(), read, |window, _| work(window.in_memory()))
            }
        }
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
        let mut masks = self.for_each_window(engine, |scan| scan.mask(engine))?;
        Ok(match self {
            Self::Memory(_) => masks.remove(0),
            Self::Chunks(scan) => BooleanArray::new(scan.all_bits(&masks), None),
        })
    }

    /// See [`Scan::count`](super::Scan::count).
    pub fn count(&self, engine: &Engine) -> Result<usize> {
        Ok(self.for_each_window(engine, |scan| scan.count(engine))?.into_iter().sum())
    }

    /// What the kept rows come to.
    pub fn aggregate(&self, plans: &mut [Plan], engine: &Engine) -> Result<Vec<State>> {
        plans.iter_mut().try_for_each(|plan| plan.fit(&|column| self.bounds(column)))?;
        let plans: Vec<&Plan> = plans.iter().collect();
        let mut states: Vec<State> = plans.iter().map(|plan| plan.start()).collect();
        self.for_each_window(engine, |scan| {
            states = scan.aggregate(&plans, std::mem::take(&mut states), engine)?;
            Ok(())
        })?;
        Ok(states)
    }

    /// The groups of the kept rows, or of those that a filter keeps as well.
    pub fn groups(
        &self,
        filter: Option<&Predicate>,
        grouping: Grouping<'_>,
        engine: &Engine,
    ) -> Result<GroupTable> {
        let mut found: Option<GroupTable> = None;
        self.for_each_window(engine, |scan| {
            let table = scan.groups(filter, grouping, engine)?;
            found = Some(match found.take() {
                None => table,
                Some(before) => before.merge(table)?,
            });
            Ok(())
        })?;
        Ok(found.expect("there is a window"))
    }

    /// See [`Scan::gather`](super::Scan::gather).
    pub fn gather(&self, wanted: &[usize], engine: &Engine) -> Result<RecordBatch> {
        let mut limit = engine.memory_limit();
        if let Self::Chunks(chunks) = self {
            limit = limit.of_input(chunks.bytes());
        }
        let batches = self.for_each_window(engine, |scan| {
            let batch = scan.gather(wanted, limit, engine)?;
            limit = limit.after(bytes_of(&batch));
            Ok(batch)
        })?;
        concat_batches(batches)
    }

    /// The values of some columns in rows that have been found, by the CPU.
    pub fn gather_rows(
        &self,
        rows: RowSet<'_>,
        wanted: &[usize],
        mut limit: MemoryLimit,
    ) -> Result<RecordBatch> {
        let batches = match self {
            Self::Memory(scan) => {
                vec![scan.gather_rows(&rows.bits(0..scan.rows()), wanted, limit)?]
            }
            Self::Chunks(chunks) => {
                limit = limit.of_input(chunks.bytes());
                let read = |window: &[(usize, usize)]| chunks.read_to_host(window);
                chunks.for_each(cpu_bytes(), read, |scan, window| {
                    let batch = scan.gather_rows(&chunks.bits_of(window, rows), wanted, limit)?;
                    limit = limit.after(bytes_of(&batch));
                    Ok(batch)
                })?
            }
        };
        concat_batches(batches)
    }
}

/// Bytes of the values of gathered rows.
fn bytes_of(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|array| array_bytes(array) as u64).sum()
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

#[cfg(test)]
mod tests {
    use super::windows;

    #[test]
    fn windows_have_what_fits() {
        let of = |bytes: &[u64], most| -> Vec<(usize, usize)> {
            let windows = windows(bytes.iter().copied(), most).into_iter();
            windows.map(|window| (window.start, window.end)).collect()
        };
        assert_eq!(of(&[], 10), [(0, 0)]);
        assert_eq!(of(&[3, 3, 4, 1], 10), [(0, 3), (3, 4)]);
        assert_eq!(of(&[11, 1, 20, 9, 1], 10), [(0, 1), (1, 2), (2, 3), (3, 5)]);
        assert_eq!(of(&[0, 0, 5], 0), [(0, 2), (2, 3)]);
        assert_eq!(of(&[u64::MAX, 2, 1], u64::MAX - 1), [(0, 1), (1, 3)]);
        assert_eq!(of(&[1, 1, 1], 0), [(0, 1), (1, 2), (2, 3)]);
    }
}
