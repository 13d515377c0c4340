//! Scans of columns in host memory: by the CPU, by a device, or by both together.
//!
//! ```text
//!                     chunks of all columns  0 1 2 3 4 5 6 7 8 9
//! CPU                 every chunk, in parallel
//! one device          all columns go up, and are scanned there as a whole
//! several, both, or   spans of chunks from the first on by devices, single units from the last on by
//! a memory limit      threads of the host (transfer/shared): [0 1 2][3 4] . . [7][8][9]
//! ```
//!
//! What comes of chunks or spans is put together in the order of chunks: bits, counts, states of
//! aggregates. So floats are added in the same order whoever has done what. `gather` of spans finds
//! the rows first; then it reads the chunks that have some.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, new_empty_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use rayon::prelude::*;

use super::aggregate::Plan;
use super::cpu::group::Tables;
use super::cpu::{self, Filter};
use super::device::{self, DeviceScan, Selection};
use super::gathered;
use super::group::GroupTable;
use super::predicate::Predicate;
use super::window::{Aggregated, InMemory};
use crate::column::{self, CompressedColumn, array_bytes};
use crate::decode::decodes_on_device;
use crate::device::{Context, DeviceColumn, Marks};
use crate::engine::{Asked, Engine};
use crate::error::{Error, Result};
use crate::lanes::{Mask, VECTOR, mask};
use crate::memory::{Budget, MemoryLimit};
use crate::transfer::shared::{Fits, LONG_SPANS, Shares, Unit, Workers, share};

/// A scan whose columns and filter are known.
pub(super) struct HostScan<'a> {
    /// Those that it uses, by their numbers in predicates.
    pub columns: Vec<Cow<'a, CompressedColumn>>,
    pub predicate: Arc<Predicate>,
    pub chunk_rows: Vec<usize>,
}

/// What has come of chunks on the CPU, one by one, or of all of a span on a device.
pub(super) enum Part<C, D> {
    Chunks(Vec<C>),
    Span(D),
}

/// Chunks and what has come of them, in order.
type Parts<C, D> = Vec<(Range<usize>, Part<C, D>)>;

/// A mask for each vector of a chunk; none if no row is kept.
type ChunkMasks = Option<Vec<Mask>>;

impl InMemory for HostScan<'_> {
    fn mask(&self, engine: &Engine) -> Result<BooleanArray> {
        let parts = self.parts(engine, Self::chunk_masks, Selection::mask)?;
        let mut bits = BooleanBufferBuilder::new(self.rows());
        for (chunks, part) in parts {
            match part {
                Part::Span(span) => bits.append_buffer(span.values()),
                Part::Chunks(masks) => append(&mut bits, &masks, &self.chunk_rows[chunks]),
            }
        }
        Ok(BooleanArray::new(bits.finish(), None))
    }

    fn count(&self, engine: &Engine) -> Result<usize> {
        let of_chunk = |_: &Self, _, filter: &Filter<'_>, rows: usize| {
            if let Some(all) = filter.constant() {
                return Ok(if all { rows } else { 0 });
            }
            let count = |vector| Ok(cpu::count(&filter.select(vector)?));
            (0..rows.div_ceil(VECTOR)).map(count).sum::<Result<usize>>()
        };
        let parts = self.parts(engine, of_chunk, Selection::count)?;
        let count = |(_, part)| match part {
            Part::Span(count) => count,
            Part::Chunks(counts) => counts.into_iter().sum::<usize>(),
        };
        Ok(parts.into_iter().map(count).sum())
    }

    fn aggregate(&self, plans: &[&Plan], engine: &Engine) -> Result<Aggregated> {
        let columns = self.columns();
        let reads: Vec<usize> = plans.iter().flat_map(|plan| plan.columns_read()).collect();
        let of_chunk = |_: &Self, index, filter: &Filter<'_>, rows| {
            cpu::aggregate::chunk(plans, filter, &columns, index, rows)
        };
        let on_device = |scan: &mut DeviceScan<'_>| scan.aggregate(&self.predicate, plans);
        let parts = self.parts_of(engine, &reads, plans.len(), &of_chunk, &on_device)?;
        Ok(Aggregated(parts.into_iter().map(|(_, part)| part).collect()))
    }

    fn add_groups(
        &self,
        filter: Option<&Predicate>,
        tables: &Tables<'_>,
        engine: &Engine,
    ) -> Result<()> {
        if filter.is_some() {
            return self.filtered(filter).add_groups(None, tables, engine);
        }
        let grouping = tables.grouping();
        let (columns, reads) = (self.columns(), grouping.reads());
        let of_chunk = |index, table: &mut GroupTable| {
            self.chunk(&columns, index, |_, index, filter, _| {
                cpu::group::chunk(grouping, filter, &columns, index, table)
            })
        };
        let on_device = |scan: &mut DeviceScan<'_>| scan.groups(&self.predicate, grouping);
        engine.run(
            || self.work(engine, &reads, grouping.effort()),
            || tables.add_chunks(self.chunk_rows.len(), of_chunk),
            |context| tables.add(self.on(context, &self.needed(&reads), &mut (), on_device)?),
            |workers| {
                let of_chunk = |_: &Self, index, filter: &Filter<'_>, _| {
                    let mut table = grouping.table();
                    cpu::group::chunk(grouping, filter, &columns, index, &mut table)?;
                    Ok(table)
                };
                let used = self.columns.len();
                let (parts, shares) = self.shared(workers, &reads, used, &of_chunk, &on_device)?;
                let found = parts.into_iter().flat_map(|(_, part)| match part {
                    Part::Chunks(tables) => tables,
                    Part::Span(table) => vec![table],
                });
                tables.add(found.into_iter().try_fold(grouping.table(), GroupTable::merge)?)?;
                Ok(((), shares))
            },
        )
    }

    fn gather(&self, wanted: &[usize], budget: &Budget, engine: &Engine) -> Result<RecordBatch> {
        engine.run(
            || self.work(engine, wanted, wanted.len()),
            || self.gather_masks(&self.each_chunk(Self::chunk_masks)?, wanted, budget),
            |context| {
                budget.one_part(bytes_of, |limit| {
                    self.on(context, &self.needed(wanted), &mut (), |scan| {
                        gather_on_device(scan, &self.predicate, wanted, limit)
                    })
                })
            },
            |workers| {
                let on_device = |scan: &mut DeviceScan<'_>| scan.select(&self.predicate)?.mask();
                // Columns of the filter come before those that are only gathered.
                let used = device::columns_used(&self.predicate);
                let (masks, found) = match used {
                    0 => (self.each_chunk(Self::chunk_masks)?, Shares::of_host(workers)),
                    _ => {
                        let parts = self.shared(workers, &[], used, &Self::chunk_masks, &on_device);
                        let (parts, shares) = parts?;
                        (self.masks_of(parts), shares)
                    }
                };
                let bytes = |(batch, _): &(RecordBatch, Shares)| bytes_of(batch);
                let (batch, gathered) = budget
                    .one_part(bytes, |limit| self.gather_shared(workers, &masks, wanted, limit))?;
                Ok((batch, found.and(gathered)))
            },
        )
    }
}

impl HostScan<'_> {
    /// A scan of those of the kept rows that another filter keeps as well.
    fn filtered(&self, filter: Option<&Predicate>) -> HostScan<'_> {
        HostScan {
            columns: self.columns.iter().map(|column| Cow::Borrowed(column.as_ref())).collect(),
            predicate: Arc::new(self.predicate.as_ref().clone().and(filter)),
            chunk_rows: self.chunk_rows.clone(),
        }
    }

    /// The values of some columns in rows that have been found, by the CPU.
    pub fn gather_rows(
        &self,
        rows: &BooleanBuffer,
        wanted: &[usize],
        budget: &Budget,
    ) -> Result<RecordBatch> {
        let mut start = 0;
        let masks = self.chunk_rows.iter().map(|of_chunk| {
            start += of_chunk;
            masks_of_bits(&rows.slice(start - of_chunk, *of_chunk))
        });
        self.gather_masks(&masks.collect::<Vec<_>>(), wanted, budget)
    }

    /// As [`HostScan::parts_of`] of rows that are kept.
    fn parts<C: Send, D: Send>(
        &self,
        engine: &Engine,
        on_cpu: impl Fn(&Self, usize, &Filter<'_>, usize) -> Result<C> + Sync,
        of_selection: impl Fn(&Selection) -> Result<D> + Sync,
    ) -> Result<Parts<C, D>> {
        let on_device = |scan: &mut DeviceScan<'_>| of_selection(&scan.select(&self.predicate)?);
        self.parts_of(engine, &[], 0, &on_cpu, &on_device)
    }

    /// Has an engine work on all chunks; `reads` are the columns whose values are needed beside those
    /// that the filter needs. What has come of them, in their order.
    fn parts_of<C: Send, D: Send>(
        &self,
        engine: &Engine,
        reads: &[usize],
        effort: usize,
        on_cpu: &(impl Fn(&Self, usize, &Filter<'_>, usize) -> Result<C> + Sync),
        on_device: &(impl Fn(&mut DeviceScan<'_>) -> Result<D> + Sync),
    ) -> Result<Parts<C, D>> {
        let needed = self.needed(reads);
        let all = 0..self.chunk_rows.len();
        engine.run(
            || self.work(engine, reads, effort),
            || Ok(vec![(all.clone(), Part::Chunks(self.each_chunk(on_cpu)?))]),
            |context| {
                let span = self.on(context, &needed, &mut (), on_device)?;
                Ok(vec![(all.clone(), Part::Span(span))])
            },
            |workers| self.shared(workers, reads, self.columns.len(), on_cpu, on_device),
        )
    }

    /// A scan as work that is predicted.
    pub fn work(&self, engine: &Engine, reads: &[usize], effort: usize) -> Asked {
        let needed = self.needed(reads);
        let tests = device::launches(&self.predicate);
        engine.scanning(&self.columns(), &needed, tests + effort)
    }

    /// For each column whether its values are needed: by the filter, or because they are read.
    fn needed(&self, reads: &[usize]) -> Vec<bool> {
        device::needed(&self.predicate, reads, self.columns.len())
    }

    fn columns(&self) -> Vec<&CompressedColumn> {
        self.columns.iter().map(AsRef::as_ref).collect()
    }

    /// Number of rows, kept or not.
    pub fn rows(&self) -> usize {
        self.chunk_rows.iter().sum()
    }

    /// Does `work` for a chunk, with the rows to keep and their number.
    fn chunk<C>(
        &self,
        columns: &[&CompressedColumn],
        index: usize,
        work: impl FnOnce(&Self, usize, &Filter<'_>, usize) -> Result<C>,
    ) -> Result<C> {
        let rows = self.chunk_rows[index];
        let filter = Filter::new(&self.predicate, columns, index, rows)?;
        work(self, index, &filter, rows).map_err(|error| error.in_chunk(index))
    }

    /// The same for each chunk, in parallel.
    fn each_chunk<C: Send>(
        &self,
        work: impl Fn(&Self, usize, &Filter<'_>, usize) -> Result<C> + Sync,
    ) -> Result<Vec<C>> {
        let columns = self.columns();
        let chunks = (0..self.chunk_rows.len()).into_par_iter();
        chunks.map(|index| self.chunk(&columns, index, &work)).collect()
    }

    fn chunk_masks(&self, _: usize, filter: &Filter<'_>, rows: usize) -> Result<ChunkMasks> {
        if filter.constant() == Some(false) {
            return Ok(None);
        }
        let masks = (0..rows.div_ceil(VECTOR)).map(|vector| filter.select(vector));
        let masks = masks.collect::<Result<Vec<Mask>>>()?;
        Ok(masks.iter().any(|mask| *mask != cpu::NONE).then_some(masks))
    }

    /// The masks of each chunk.
    fn masks_of(&self, parts: Parts<ChunkMasks, BooleanArray>) -> Vec<ChunkMasks> {
        let mut all = Vec::with_capacity(self.chunk_rows.len());
        for (chunks, part) in parts {
            match part {
                Part::Chunks(masks) => all.extend(masks),
                Part::Span(span) => {
                    let mut start = 0;
                    all.extend(self.chunk_rows[chunks].iter().map(|rows| {
                        start += rows;
                        masks_of_bits(&span.values().slice(start - rows, *rows))
                    }));
                }
            }
        }
        all
    }

    /// Does `work` on a device, where the columns are uploaded to.
    pub fn on<D>(
        &self,
        context: &Arc<Context>,
        needed: &[bool],
        marks: &mut dyn Marks,
        work: impl FnOnce(&mut DeviceScan<'_>) -> Result<D>,
    ) -> Result<D> {
        let columns = self.for_devices(needed)?;
        let upload = |column: &Cow<'_, CompressedColumn>| {
            DeviceColumn::upload(context, column)
                .map_err(|error| error.in_column(column.field().name()))
        };
        let columns: Vec<DeviceColumn> = columns.par_iter().map(upload).collect::<Result<_>>()?;
        let columns: Vec<&DeviceColumn> = columns.iter().collect();
        device::on_columns(context, &columns, self.rows(), marks, work)
    }

    /// The first columns as devices get them: of those that only the CPU reads, and whose values nothing
    /// needs, the validity.
    fn for_devices(&self, needed: &[bool]) -> Result<Vec<Cow<'_, CompressedColumn>>> {
        let pairs = self.columns.iter().zip(needed);
        pairs
            .map(|(column, needed)| match *needed || decodes_on_device(column) {
                true => Ok(Cow::Borrowed(column.as_ref())),
                false => column::validity_of(column).map(Cow::Owned),
            })
            .collect()
    }

    /// Has workers scan all chunks, devices of the first `used` columns; what has come of them, in their
    /// order.
    fn shared<C: Send, D: Send>(
        &self,
        workers: &Workers,
        reads: &[usize],
        used: usize,
        on_cpu: &(impl Fn(&Self, usize, &Filter<'_>, usize) -> Result<C> + Sync),
        on_device: &(impl Fn(&mut DeviceScan<'_>) -> Result<D> + Sync),
    ) -> Result<(Parts<C, D>, Shares)> {
        let (columns, all) = (self.columns(), 0..self.chunk_rows.len());
        if columns.is_empty() {
            let chunks = Part::Chunks(self.each_chunk(on_cpu)?);
            return Ok((vec![(all, chunks)], Shares::of_host(workers)));
        }
        let for_devices = self.for_devices(&self.needed(reads)[..used])?;
        let fits = for_devices.iter().all(|column| decodes_on_device(column));
        let of_chunk = |index: usize| self.chunk(&columns, index, on_cpu);
        let span = |scan: &mut DeviceScan<'_>, _: Range<usize>| on_device(scan);
        spans(workers, &for_devices, all, fits, &of_chunk, &span)
    }

    /// The kept values of some columns, by the CPU, given the masks of all chunks.
    fn gather_masks(
        &self,
        masks: &[ChunkMasks],
        wanted: &[usize],
        budget: &Budget,
    ) -> Result<RecordBatch> {
        let columns = self.wanted(wanted);
        let gather = |column: &&CompressedColumn| -> Result<ArrayRef> {
            let pieces: Vec<Vec<ArrayRef>> = (masks.par_iter().enumerate())
                .map(|(index, masks)| kept_of_chunk(column, index, masks.as_deref()))
                .collect::<Result<_>>()?;
            concatenated(column, pieces.into_iter().flatten().collect())
        };
        let gather_all = || {
            let arrays = columns.par_iter().map(gather).collect::<Result<_>>()?;
            let fields = columns.iter().map(|column| column.field());
            let batch = gathered(fields, arrays, kept(masks))?;
            let bytes = bytes_of(&batch);
            Ok((batch, bytes))
        };
        budget.reserve(|limit| self.check_gathered(masks, &columns, limit), gather_all)
    }

    /// The same, by workers.
    fn gather_shared(
        &self,
        workers: &Workers,
        masks: &[ChunkMasks],
        wanted: &[usize],
        limit: MemoryLimit,
    ) -> Result<(RecordBatch, Shares)> {
        let columns = self.wanted(wanted);
        self.check_gathered(masks, &columns, limit)?;
        let mut shares = Shares::of_host(workers);
        let of_chunk = |index: usize| -> Result<Vec<Vec<ArrayRef>>> {
            let of_column =
                |column: &&CompressedColumn| kept_of_chunk(column, index, masks[index].as_deref());
            columns.iter().map(of_column).collect()
        };
        let on_device = |scan: &mut DeviceScan<'_>, chunks: Range<usize>| {
            let mut bits = BooleanBufferBuilder::new(0);
            append(&mut bits, &masks[chunks.clone()], &self.chunk_rows[chunks]);
            // All columns together have been compared with the limit.
            let all: Vec<&DeviceColumn> = scan.columns.to_vec();
            scan.selection_of(&bits.finish())?.values(&all, MemoryLimit::Unlimited, &mut ())
        };
        let mut arrays: Vec<Vec<ArrayRef>> = columns.iter().map(|_| Vec::new()).collect();
        if !columns.is_empty() {
            let chunks = (0..masks.len()).filter(|index| masks[*index].is_some());
            let fits = columns.iter().all(|column| decodes_on_device(column));
            let borrowed: Vec<Cow<'_, CompressedColumn>> =
                columns.iter().map(|column| Cow::Borrowed(*column)).collect();
            let (parts, by) = spans(workers, &borrowed, chunks, fits, &of_chunk, &on_device)?;
            shares = by;
            for (_, part) in parts {
                let chunks: Vec<Vec<Vec<ArrayRef>>> = match part {
                    Part::Span((_, arrays)) => {
                        vec![arrays.into_iter().map(|of| vec![of]).collect()]
                    }
                    Part::Chunks(chunks) => chunks,
                };
                for pieces in chunks {
                    arrays.iter_mut().zip(pieces).for_each(|(all, some)| all.extend(some));
                }
            }
        }
        let arrays = (columns.par_iter().zip(arrays))
            .map(|(column, pieces)| concatenated(column, pieces))
            .collect::<Result<_>>()?;
        let fields = columns.iter().map(|column| column.field());
        Ok((gathered(fields, arrays, kept(masks))?, shares))
    }

    fn wanted(&self, wanted: &[usize]) -> Vec<&CompressedColumn> {
        wanted.iter().map(|of| self.columns[*of].as_ref()).collect()
    }

    /// What the kept values of some columns take, once that is compared with a limit.
    fn check_gathered(
        &self,
        masks: &[ChunkMasks],
        columns: &[&CompressedColumn],
        limit: MemoryLimit,
    ) -> Result<u64> {
        // Vectors that have some are decoded as a whole.
        let decoded = |(masks, rows): (&ChunkMasks, &usize)| {
            let some = masks.iter().flatten().filter(|mask| **mask != cpu::NONE).count();
            (some * VECTOR).min(*rows)
        };
        let decoded: Vec<usize> = masks.iter().zip(&self.chunk_rows).map(decoded).collect();
        column::check_kept_memory(limit, columns, &decoded)
    }
}

/// Bytes of the values of gathered rows.
pub(super) fn bytes_of(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|array| array_bytes(array) as u64).sum()
}

/// Most rows of a unit of several chunks. Chunks of constants and runs have few bytes, but the host
/// works on each.
const UNIT_ROWS: usize = 1 << 19;

/// Has workers do some chunks of columns that have the same ones; what has come of them. What devices
/// do not read (`fits`) the host does where it takes part.
fn spans<C: Send, D: Send>(
    workers: &Workers,
    columns: &[Cow<'_, CompressedColumn>],
    chunks: impl Iterator<Item = usize>,
    fits: bool,
    on_cpu: &(impl Fn(usize) -> Result<C> + Sync),
    on_device: &(impl Fn(&mut DeviceScan<'_>, Range<usize>) -> Result<D> + Sync),
) -> Result<(Parts<C, D>, Shares)> {
    let fits = if fits || !workers.has_host() { Fits::Any } else { Fits::Host };
    // What goes up, and stays there while it is scanned.
    let bytes = |chunk: usize| -> usize {
        columns.iter().map(|column| column.chunks()[chunk].body().len()).sum()
    };
    // A quarter of what decompression has: these are compressed bytes.
    let least = workers.unit_bytes() / 4;
    let mut units: Vec<Unit> = Vec::new();
    let mut rows = 0;
    for chunk in chunks {
        let bytes = bytes(chunk).max(1);
        rows += columns[0].chunks()[chunk].rows();
        match units.last_mut() {
            Some(unit)
                if unit.chunks.end == chunk && unit.bytes + bytes <= least && rows <= UNIT_ROWS =>
            {
                unit.chunks.end = chunk + 1;
                unit.bytes += bytes;
            }
            _ => {
                rows = columns[0].chunks()[chunk].rows();
                units.push(Unit { column: 0, chunks: chunk..chunk + 1, bytes, fits });
            }
        }
    }
    workers.order(&mut units)?;
    let host = |unit: usize| {
        units[unit].chunks.clone().map(on_cpu).collect::<Result<_>>().map(Part::Chunks)
    };
    let chunks_of = |units: &[Unit], range: Range<usize>| {
        units[range.start].chunks.start..units[range.end - 1].chunks.end
    };
    let device = |context: &Arc<Context>, range: Range<usize>| {
        let chunks = chunks_of(&units, range);
        let upload = |column: &Cow<'_, CompressedColumn>| {
            DeviceColumn::upload_chunks(context, column, chunks.clone())
                .map_err(|error| error.in_column(column.field().name()))
        };
        let span = || {
            let uploaded = columns.iter().map(upload).collect::<Result<Vec<_>>>()?;
            let uploaded: Vec<&DeviceColumn> = uploaded.iter().collect();
            let work = |scan: &mut DeviceScan<'_>| on_device(scan, chunks.clone());
            device::on_columns(context, &uploaded, uploaded[0].len(), &mut (), work)
        };
        span().map(Part::Span).map_err(|error: Error| error.after_chunks(chunks.start))
    };
    let (done, shares) = share(workers, &LONG_SPANS, &units, &host, &device)?;
    let done = done.into_iter().map(|(range, part)| (chunks_of(&units, range), part));
    Ok((done.collect(), shares))
}

/// The values of some columns in the rows that a predicate keeps, in host memory.
pub(super) fn gather_on_device(
    scan: &mut DeviceScan<'_>,
    predicate: &Predicate,
    wanted: &[usize],
    limit: MemoryLimit,
) -> Result<RecordBatch> {
    let kept = scan.select(predicate)?;
    gather_selection(scan, &kept, wanted, limit)
}

/// The same of rows that have been found.
pub(super) fn gather_selection(
    scan: &mut DeviceScan<'_>,
    kept: &Selection,
    wanted: &[usize],
    limit: MemoryLimit,
) -> Result<RecordBatch> {
    let columns: Vec<&DeviceColumn> = wanted.iter().map(|of| scan.columns[*of]).collect();
    let (rows, arrays) = kept.values(&columns, limit, scan.marks)?;
    gathered(columns.iter().map(|column| column.field()), arrays, rows)
}

/// The kept values of a chunk, in pieces.
fn kept_of_chunk(
    column: &CompressedColumn,
    index: usize,
    masks: Option<&[Mask]>,
) -> Result<Vec<ArrayRef>> {
    let pieces = masks.map_or(Ok(Vec::new()), |masks| cpu::gather::chunk(column, index, masks));
    pieces.map_err(|error| error.in_chunk(index).in_column(column.field().name()))
}

fn concatenated(column: &CompressedColumn, pieces: Vec<ArrayRef>) -> Result<ArrayRef> {
    if pieces.is_empty() {
        return Ok(new_empty_array(column.data_type()));
    }
    column::concat(&pieces).map_err(|error| error.in_column(column.field().name()))
}

/// Rows that masks keep.
fn kept(masks: &[ChunkMasks]) -> usize {
    masks.iter().flatten().flatten().map(cpu::count).sum()
}

/// Appends the bits of the rows of chunks.
fn append(bits: &mut BooleanBufferBuilder, masks: &[ChunkMasks], rows: &[usize]) {
    for (masks, rows) in masks.iter().zip(rows) {
        match masks {
            None => bits.append_n(*rows, false),
            Some(masks) => bits.append_packed_range(0..*rows, bytemuck::cast_slice(masks)),
        }
    }
}

/// Masks of the bits of a chunk's rows.
fn masks_of_bits(bits: &BooleanBuffer) -> ChunkMasks {
    let (aligned, rows) = (bits.sliced(), bits.len());
    let masks = (0..rows.div_ceil(VECTOR)).map(|vector| {
        let mut mask = mask::of_bitmap(&aligned, vector);
        let within = cpu::first(rows - vector * VECTOR);
        mask.iter_mut().zip(within).for_each(|(word, within)| *word &= within);
        mask
    });
    (bits.count_set_bits() > 0).then(|| masks.collect())
}
