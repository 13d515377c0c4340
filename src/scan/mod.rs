//! Scans of compressed columns: which rows an expression is true for, their values,
//! aggregates of them; without decompressing what need not be.
//!
//! ```
//! use arrow_array::record_batch;
//! use lanepack::scan::{Scan, col, count_rows, sum};
//! use lanepack::{Engine, Options, compress};
//!
//! let batch = record_batch!(
//!     ("name", Utf8, ["ant", "bee", "cat", "axe"]),
//!     ("price", Float64, [9.5, 12.25, 7.0, 14.5])
//! )?;
//! let compressed = compress(&batch, &Options::default())?;
//! let engine = Engine::cpu();
//!
//! let cheap = col("price").between(9.0, 15.0).and(col("name").starts_with("a"));
//! let scan = Scan::new(&compressed).filter(cheap);
//! assert_eq!(scan.mask(&engine)?.true_count(), 2);
//! assert_eq!(scan.rows(&engine)?.values(), &[0, 3]);
//! let total = scan.aggregate(&[sum(col("price")), count_rows()], &engine)?;
//! # use arrow_array::cast::AsArray;
//! assert_eq!(total.column(0).as_primitive::<arrow_array::types::Float64Type>().value(0), 24.0);
//! # Ok::<(), lanepack::Error>(())
//! ```
//!
//! # Meaning
//! - Nulls: SQL's three values. A comparison with null is null; `null AND false` is false,
//!   `null OR true` is true; a filter keeps the rows where it is true.
//! - Floats: IEEE 754 total order, as Arrow's kernels compare. -0.0 is less than 0.0 and
//!   not equal to it, NaN equals itself and is greater than infinity (with its sign set:
//!   less than all). Arithmetic is IEEE 754, each operation rounded once; a NaN that it gives
//!   is the positive one without a payload, on every processor.
//! - Integers and decimals are computed exactly, whatever the types of their columns. What
//!   could pass 128 bits, given the least and greatest values of the columns, is an error
//!   before anything is computed.
//! - Text and binary are compared byte by byte.
//! - Dates, times, timestamps and durations are compared with integers in their unit, with
//!   Arrow scalars, or with columns of the same type; they are not computed with, but have parts that
//!   are integers ([`Expr::year`]).
//! - Literals take the type of the column that they meet, see [`Literal`].
//!
//! # Who scans
//! Batches in GPU memory are scanned there. What lies in host memory is scanned by the engine's CPU, GPU
//! or all of them together, in spans of chunks; results do not depend on who did what. Values of the first
//! rows of an order ([`Scan::order_by`], [`Scan::limit`]) are read by the CPU there.
//!
//! # What is not looked at
//! Chunks whose minimum and maximum decide a test are not read; vectors whose base and
//! width decide it are not unpacked; strings are compared in their codes; where one part
//! of an AND keeps no row of a vector, the others are not evaluated. [`Scan::explain`] says it of a scan.

mod aggregate;
pub(crate) mod automaton;
mod batches;
mod bind;
mod bounds;
mod calendar;
mod chunks;
mod cpu;
mod device;
mod explain;
mod expr;
mod group;
mod host;
pub(crate) mod join;
mod literal;
mod lookup;
mod membership;
mod number;
mod order;
pub(crate) mod predicate;
mod window;
mod windows;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use rayon::prelude::*;

pub use aggregate::{Aggregate, avg, count, count_distinct, count_rows, max, min, sum};
pub use batches::Batches;
pub use explain::{FilterStep, GroupPlan, GroupTableKind, KernelOrigin, KernelPlan, QueryPlan};
pub use expr::{Comparison, DatePart, Expr, Operator, TextForm, col, lit};
pub use group::GroupBy;
pub use literal::Literal;
pub use lookup::Lookup;
pub use order::Ordered;
pub(crate) use order::{RowSet, taken};

use crate::batch;
use crate::chunk::Statistics;
use crate::column::{CompressedColumn, physical_of};
use crate::device::{CompressedDeviceBatch, Context, DeviceColumn, Marks};
use crate::encoding::Physical;
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::memory::MemoryLimit;
use crate::ranges::Key;
use aggregate::{Plan, State};
use bind::{Binder, Named};
use chunks::{ChunkScan, HostSource};
pub(crate) use chunks::{ChunkSource, copied_to_device};
use device::{DeviceScan, Selection};
use host::HostScan;
use join::{Join, JoinedColumn};
use literal::Value;
use predicate::Predicate;
pub(crate) use windows::windows;

/// A scan of a compressed batch: filters, then aggregates or the rows that are kept.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::scan::{Scan, col};
/// use lanepack::{Engine, Options, compress};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3, 4]))?;
/// let compressed = compress(&batch, &Options::default())?;
/// let scan = Scan::new(&compressed).filter(col("id").gt(1_i64)).filter(col("id").lt(4_i64));
/// assert_eq!(scan.count(&Engine::cpu())?, 2);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    source: Source<'a>,
    filter: Option<Expr>,
    joins: Vec<Join>,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Batch(&'a RecordBatch),
    Columns(&'a [CompressedColumn]),
    /// Chunks of a source, from the first number to before the second.
    Chunks(&'a dyn ChunkSource, (usize, usize)),
    Device(&'a CompressedDeviceBatch),
}

impl<'a> Scan<'a> {
    /// A scan of all rows of a batch that [`compress`](crate::compress) made, or of a slice
    /// or concatenation of such.
    pub fn new(compressed: &'a RecordBatch) -> Self {
        Self { source: Source::Batch(compressed), filter: None, joins: Vec::new() }
    }

    /// A scan of columns, which have been validated already: what
    /// [`columns`](crate::columns) gives, and the better choice for many scans of one batch.
    pub fn of(columns: &'a [CompressedColumn]) -> Self {
        Self { source: Source::Columns(columns), filter: None, joins: Vec::new() }
    }

    /// A scan of columns that are read when it asks for them.
    pub(crate) fn of_chunks(columns: &'a dyn ChunkSource) -> Self {
        let all = 0..columns.chunk_rows().len();
        Self::of_some_chunks(columns, all)
    }

    /// The same of some of their chunks: numbers past the last are of none.
    pub(crate) fn of_some_chunks(columns: &'a dyn ChunkSource, chunks: Range<usize>) -> Self {
        let end = chunks.end.min(columns.chunk_rows().len());
        let source = Source::Chunks(columns, (chunks.start.min(end), end));
        Self { source, filter: None, joins: Vec::new() }
    }

    /// A scan of a batch in GPU memory, by the engine that it belongs to.
    pub fn on_device(batch: &'a CompressedDeviceBatch) -> Self {
        Self { source: Source::Device(batch), filter: None, joins: Vec::new() }
    }

    /// Keeps the rows for which `expr` is true, and that earlier filters keep.
    #[must_use]
    pub fn filter(self, expr: Expr) -> Self {
        let filter = match self.filter {
            None => expr,
            Some(before) => before.and(expr),
        };
        Self { filter: Some(filter), ..self }
    }

    /// Checks that the filter fits the columns and, of files and datasets, that it can be computed for all values
    /// that they may have by their bounds, as other calls do before they read anything.
    ///
    /// # Errors
    /// [`Error::Expression`] if it does not; [`Error::Unsupported`] for what no engine computes.
    pub fn check(&self) -> Result<()> {
        let (mut predicate, used, ()) = self.read(no_more)?;
        let Source::Chunks(source, (start, end)) = self.source else { return Ok(()) };
        predicate.fit(&|column| {
            let facts = (start..end).map(|chunk| {
                let (nulls, statistics) = source.facts(used[column], chunk);
                (source.chunk_rows()[chunk], nulls, statistics)
            });
            integer_bounds(source.schema().field(used[column]).data_type(), facts)
        })
    }

    /// Of a file or dataset the numbers of the chunks that neither bounds nor membership filters exclude, and of
    /// each the bytes in the columns of the filter and in those that are named: what a call would read. For those
    /// who divide the work themselves ([`File::scan_chunks`](crate::file::File::scan_chunks)).
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use arrow_buffer::Buffer;
    /// use lanepack::scan::col;
    /// use lanepack::{Options, file};
    ///
    /// let batch = record_batch!(("id", Int64, (0..5000_i64).collect::<Vec<_>>()))?;
    /// let options = Options::default().with_chunk_rows(1024);
    /// let mut writer = file::Writer::try_new(Vec::new(), &batch.schema(), options)?;
    /// writer.write(&batch)?;
    /// let file = file::File::from_bytes(Buffer::from_vec(writer.into_inner()?))?;
    /// let reads = file.scan().filter(col("id").between(2000, 2100)).chunk_reads(&["id"])?;
    /// assert_eq!(reads.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scan::gather`]; [`Error::Unsupported`] for a scan of columns in memory.
    pub fn chunk_reads<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<(usize, u64)>> {
        if !matches!(self.source, Source::Chunks(..)) {
            return Err(Error::unsupported("what is read of columns in memory"));
        }
        let (source, _) = self.bind(|binder: &mut Binder<'_>| Gathered::of(names, binder))?;
        let HostSource::Chunks(scan) = source else { return Ok(Vec::new()) };
        Ok(scan.chunks().iter().map(|chunk| (chunk.0, scan.bytes_of(chunk))).collect())
    }

    /// For each row whether it is kept; without nulls.
    ///
    /// # Errors
    /// [`Error::Expression`] if the filter does not fit the columns; otherwise as
    /// [`columns`](crate::columns) and [`CompressedColumn::decompress`]. On a GPU also
    /// [`Error::NoDevice`] for arithmetic where there is no NVRTC, [`Error::Mismatch`] for a batch
    /// of another device, [`Error::DeviceMemory`] and [`Error::Device`].
    pub fn mask(&self, engine: &Engine) -> Result<BooleanArray> {
        match self.resident(engine)? {
            Some(context) => self.select(context, &mut (), Selection::mask),
            None => self.bind(no_more)?.0.mask(engine),
        }
    }

    /// How many rows are kept.
    ///
    /// # Errors
    /// As [`Scan::mask`].
    pub fn count(&self, engine: &Engine) -> Result<usize> {
        match self.resident(engine)? {
            Some(context) => self.select(context, &mut (), Selection::count),
            None => self.bind(no_more)?.0.count(engine),
        }
    }

    /// The numbers of the rows that are kept, ascending.
    ///
    /// # Errors
    /// As [`Scan::mask`].
    pub fn rows(&self, engine: &Engine) -> Result<UInt64Array> {
        let mask = self.mask(engine)?;
        Ok(UInt64Array::from_iter_values(mask.values().set_indices().map(|row| row as u64)))
    }

    /// The values of some columns in the rows that are kept. Of the others nothing is
    /// decoded but vectors that have kept rows.
    ///
    /// # Errors
    /// As [`Scan::mask`]; [`Error::MemoryLimit`] if the values take more than the engine allows
    /// ([`Engine::with_memory_limit`]); [`Error::TooLarge`] if strings of a Utf8 or Binary column
    /// pass 2 GiB; on a GPU [`Error::Unsupported`] for columns that are nested or carried as Arrow IPC.
    pub fn gather<S: AsRef<str>>(&self, names: &[S], engine: &Engine) -> Result<RecordBatch> {
        if let Some(context) = self.resident(engine)? {
            return self.gather_on(context, names, self.memory_limit(engine), &mut ());
        }
        let (scan, wanted) = self.bind(|binder| Gathered::of(names, binder))?;
        wanted.with_joined(scan.gather(&wanted.columns, engine)?, engine.memory_limit())
    }

    /// Aggregates of the rows that are kept: a batch of one row, with a column for each.
    ///
    /// # Errors
    /// As [`Scan::mask`]; [`Error::TooLarge`] for a sum that does not fit its type.
    pub fn aggregate(&self, aggregates: &[Aggregate], engine: &Engine) -> Result<RecordBatch> {
        if aggregates.iter().any(|aggregate| aggregate.distinct().is_some()) {
            return self.aggregate_distinct(aggregates, engine);
        }
        let (plans, states) = match self.resident(engine)? {
            Some(context) => self.states(aggregates, context, &mut ())?,
            None => {
                let (scan, mut plans) = self.bind(|binder| plans(aggregates, binder))?;
                let states = scan.aggregate(&mut plans, engine)?;
                (plans, states)
            }
        };
        let finished = plans.iter().zip(states);
        let arrays = finished.map(|(plan, state)| plan.finish(state)).collect::<Result<_>>()?;
        let fields: Vec<_> = plans.iter().map(Plan::field).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
    }

    /// Aggregates of which some count distinct values, which are found as groups are.
    fn aggregate_distinct(&self, aggregates: &[Aggregate], engine: &Engine) -> Result<RecordBatch> {
        let (distinct, others): (Vec<_>, Vec<_>) =
            aggregates.iter().cloned().partition(|aggregate| aggregate.distinct().is_some());
        let others = match others.is_empty() {
            true => None,
            false => Some(self.aggregate(&others, engine)?),
        };
        let distinct = self.clone().group_by([]).aggregate(&distinct, engine)?;
        let (mut at_distinct, mut at_others) = (0..distinct.num_columns(), 0..);
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for aggregate in aggregates {
            let (batch, at) = match (aggregate.distinct(), &others) {
                (None, Some(others)) => (others, at_others.next()),
                _ => (&distinct, at_distinct.next()),
            };
            let at = at.expect("a column for each");
            fields.push(batch.schema().fields()[at].clone());
            arrays.push(batch.column(at).clone());
        }
        batch::batch_of(Arc::new(Schema::new(fields)), arrays, 1)
    }

    /// What the kernels of [`Scan::count`], or of some aggregates, take on a GPU, by events on
    /// the device.
    #[cfg(feature = "_internals")]
    #[doc(hidden)]
    pub fn times(
        &self,
        aggregates: &[Aggregate],
        engine: &Engine,
    ) -> Result<crate::engine::measure::Times> {
        self.timed(engine, |context, recorder| match aggregates.is_empty() {
            true => self.select(context, recorder, Selection::count).map(|_| ()),
            false => self.states(aggregates, context, recorder).map(|_| ()),
        })
    }

    /// What the kernels of [`Scan::gather`] take on a GPU, those of the filter included.
    #[cfg(feature = "_internals")]
    #[doc(hidden)]
    pub fn gather_times<S: AsRef<str>>(
        &self,
        names: &[S],
        engine: &Engine,
    ) -> Result<crate::engine::measure::Times> {
        let limit = self.memory_limit(engine);
        self.timed(engine, |context, recorder| {
            self.gather_on(context, names, limit, recorder).map(|_| ())
        })
    }

    /// What the kernels of some work take.
    #[cfg(feature = "_internals")]
    fn timed(
        &self,
        engine: &Engine,
        work: impl FnOnce(&Arc<Context>, &mut crate::engine::measure::Recorder) -> Result<()>,
    ) -> Result<crate::engine::measure::Times> {
        let context = self.resident(engine)?.or(engine.named_device());
        let context = context.ok_or_else(|| Error::NoDevice {
            what: "the times of kernels are those of a GPU".to_owned(),
        })?;
        let mut recorder = crate::engine::measure::Recorder::default();
        work(context, &mut recorder)?;
        recorder.times()
    }

    /// [`Scan::gather`] on a GPU.
    fn gather_on<S: AsRef<str>>(
        &self,
        context: &Arc<Context>,
        names: &[S],
        limit: MemoryLimit,
        marks: &mut dyn Marks,
    ) -> Result<RecordBatch> {
        let wanted = |binder: &mut Binder<'_>| Gathered::of(names, binder);
        let reads = |wanted: &Gathered| wanted.columns.clone();
        self.on(context, wanted, reads, marks, |scan, predicate, wanted| {
            let batch = host::gather_on_device(scan, predicate, &wanted.columns, limit)?;
            wanted.with_joined(batch, limit)
        })
    }

    /// Rows, kept or not.
    fn source_rows(&self) -> usize {
        let rows = |field: &Field, storage: &ArrayRef| {
            CompressedColumn::try_from_arrow(field, storage).map_or(0, |column| column.len())
        };
        match self.source {
            Source::Device(batch) => batch.num_rows(),
            Source::Columns(columns) => columns.first().map_or(0, CompressedColumn::len),
            Source::Chunks(columns, (start, end)) => columns.chunk_rows()[start..end].iter().sum(),
            Source::Batch(batch) => match batch.columns().first() {
                Some(storage) => rows(batch.schema().field(0), storage),
                None => batch.num_rows(),
            },
        }
    }

    /// What gathered values may take: of a batch in GPU memory what it was uploaded with.
    fn memory_limit(&self, engine: &Engine) -> MemoryLimit {
        match self.source {
            Source::Device(batch) => batch.memory_limit(),
            Source::Batch(_) | Source::Columns(_) | Source::Chunks(..) => engine.memory_limit(),
        }
    }

    /// The GPU whose memory the batch is in, if it is in one.
    fn resident(&self, engine: &Engine) -> Result<Option<&Arc<Context>>> {
        let Source::Device(batch) = self.source else { return Ok(None) };
        if engine.device() != Some(batch.device()) {
            let device = batch.device();
            let what = format!("a batch on {} {} for another engine", device.name, device.ordinal);
            return Err(Error::Mismatch { place: Place::default(), what });
        }
        Ok(Some(batch.context()))
    }

    /// Finds the rows on a GPU, and hands them to `work`.
    fn select<T>(
        &self,
        context: &Arc<Context>,
        marks: &mut dyn Marks,
        work: impl FnOnce(&Selection) -> Result<T>,
    ) -> Result<T> {
        let none = |(): &()| Vec::new();
        self.on(context, no_more, none, marks, |scan, predicate, ()| work(&scan.select(predicate)?))
    }

    /// What the rows that are kept come to, on a GPU.
    fn states(
        &self,
        aggregates: &[Aggregate],
        context: &Arc<Context>,
        marks: &mut dyn Marks,
    ) -> Result<(Vec<Plan>, Vec<State>)> {
        let plans = |binder: &mut Binder<'_>| plans(aggregates, binder);
        let reads = |plans: &Vec<Plan>| plans.iter().flat_map(|plan| plan.columns_read()).collect();
        self.on(context, plans, reads, marks, |scan, predicate, mut plans| {
            let bounds = |of: usize| bounds_on_device(scan.columns[of]);
            plans.iter_mut().try_for_each(|plan| plan.fit(&bounds))?;
            let borrowed: Vec<&Plan> = plans.iter().collect();
            let start = borrowed.iter().map(|plan| plan.start()).collect();
            let states = scan.aggregate(predicate, &borrowed)?.after(&borrowed, start);
            Ok((plans, states))
        })
    }

    /// Checks the filter and `more`, and does `work` with the columns in the memory of a GPU;
    /// `reads` are the columns whose values `more` needs.
    fn on<M, T>(
        &self,
        context: &Arc<Context>,
        more: impl FnOnce(&mut Binder<'_>) -> Result<M>,
        reads: impl FnOnce(&M) -> Vec<usize>,
        marks: &mut dyn Marks,
        work: impl FnOnce(&mut DeviceScan<'_>, &Predicate, M) -> Result<T>,
    ) -> Result<T> {
        let Source::Device(batch) = self.source else {
            let (source, more) = self.bind(more)?;
            let scan = source.read_all()?;
            let needed = device::needed(&scan.predicate, &reads(&more), scan.columns.len());
            return scan.on(context, &needed, marks, |on| work(on, &scan.predicate, more));
        };
        let (mut predicate, used, more) = self.read(more)?;
        let needed = device::needed(&predicate, &reads(&more), used.len());
        let columns = used.iter().map(|index| &batch.columns()[*index]);
        let columns = device::readable(columns, &needed)?;
        predicate.fit(&|of| bounds_on_device(columns[of]))?;
        device::on_columns(context, &columns, batch.num_rows(), marks, |scan| {
            work(scan, &predicate, more)
        })
    }

    /// Checks the filter, and `more` with the same numbers for columns; also the indices in
    /// the schema of the columns by their numbers.
    fn read<T>(
        &self,
        more: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<(Predicate, Vec<usize>, T)> {
        let schema = match self.source {
            Source::Batch(packed) => batch::decompressed_schema(&packed.schema())?,
            Source::Columns(columns) => {
                let fields: Vec<_> = columns.iter().map(|column| column.field().clone()).collect();
                Schema::new(fields)
            }
            Source::Chunks(columns, _) => columns.schema().clone(),
            Source::Device(batch) => batch.schema().as_ref().clone(),
        };
        let mut binder = Binder::new(&schema);
        let joins: Vec<Predicate> =
            self.joins.iter().map(|join| binder.join(join)).collect::<Result<_>>()?;
        let filter = match &self.filter {
            None => Predicate::Constant(true),
            Some(filter) => binder.filter(filter)?,
        };
        let predicate = Predicate::all(joins.into_iter().chain([filter]));
        let more = more(&mut binder)?;
        let mut used = binder.into_columns();
        let knows_rows = matches!(self.source, Source::Chunks(..));
        if used.is_empty() && !schema.fields().is_empty() && !knows_rows {
            // Of some column, to know how many rows there are: one that any engine reads.
            let is_flat = |field: &FieldRef| physical_of(field.data_type()) != Physical::Arrow;
            used.push(schema.fields().iter().position(is_flat).unwrap_or(0));
        }
        Ok((predicate, used, more))
    }

    /// Checks the filter, and `more` with the same numbers for columns, and looks up the
    /// columns, which are in host memory.
    fn bind<T>(
        &self,
        more: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<(HostSource<'a>, T)> {
        self.bind_within(None, more)
    }

    /// The same for a call that looks at some rows alone, if these are given.
    fn bind_within<T>(
        &self,
        rows: Option<RowSet<'_>>,
        more: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<(HostSource<'a>, T)> {
        let (mut predicate, used, more) = self.read(more)?;
        if let Source::Chunks(stored, (start, end)) = self.source {
            let scan = ChunkScan::new((stored, start..end), predicate, used, rows)?;
            return Ok((HostSource::Chunks(scan), more));
        }
        let column = |index: &usize| match self.source {
            Source::Batch(packed) => {
                let (schema, storage) = (packed.schema(), packed.column(*index));
                CompressedColumn::try_from_arrow(schema.field(*index), storage).map(Cow::Owned)
            }
            Source::Columns(columns) => Ok(Cow::Borrowed(&columns[*index])),
            Source::Chunks(..) | Source::Device(_) => unreachable!("bound otherwise"),
        };
        let columns: Vec<Cow<'a, CompressedColumn>> =
            used.par_iter().map(column).collect::<Result<_>>()?;
        let borrowed: Vec<&CompressedColumn> = columns.iter().map(AsRef::as_ref).collect();
        batch::check_boundaries(&borrowed)?;
        let chunk_rows: Vec<usize> = match (columns.first(), self.source) {
            (Some(first), _) => first.chunk_rows().map(|rows| rows.len()).collect(),
            (None, Source::Batch(packed)) => vec![packed.num_rows()],
            (None, _) => Vec::new(),
        };
        predicate.fit(&|column| bounds_of(borrowed[column]))?;
        let scan = HostScan { columns, predicate: Arc::new(predicate), chunk_rows };
        Ok((HostSource::Memory(scan), more))
    }
}

/// What a call gathers: columns of the scan, and columns of lookups that are looked up afterwards.
struct Gathered {
    /// Those that are read, the keys of lookups among them.
    columns: Vec<usize>,
    /// For each name where it is in `columns`, and of which column of a lookup that is the key.
    names: Vec<(usize, Option<JoinedColumn>)>,
}

impl Gathered {
    fn of<S: AsRef<str>>(names: &[S], binder: &mut Binder<'_>) -> Result<Self> {
        let mut gathered = Self { columns: Vec::new(), names: Vec::new() };
        for name in names {
            let (column, joined) = match binder.named(name.as_ref())? {
                Named::Column(column, _) => (column, None),
                Named::Joined(joined) => (joined.join.column, Some(joined)),
            };
            let known = gathered.columns.iter().position(|known| *known == column);
            let at = known.unwrap_or_else(|| {
                gathered.columns.push(column);
                gathered.columns.len() - 1
            });
            gathered.names.push((at, joined));
        }
        Ok(gathered)
    }

    /// The columns by their names, of a batch of those that were read.
    fn with_joined(&self, batch: RecordBatch, limit: MemoryLimit) -> Result<RecordBatch> {
        let (schema, rows) = (batch.schema(), batch.num_rows());
        let mut fields = Vec::with_capacity(self.names.len());
        let mut arrays = Vec::with_capacity(self.names.len());
        for (at, joined) in &self.names {
            match joined {
                None => {
                    fields.push(schema.fields()[*at].clone());
                    arrays.push(batch.column(*at).clone());
                }
                Some(joined) => {
                    fields.push(joined.field());
                    arrays.push(joined.values_of(batch.column(*at), limit)?);
                }
            }
        }
        batch::batch_of(Arc::new(Schema::new(fields)), arrays, rows)
    }
}

/// What [`Scan::gather`] gives.
fn gathered<'f>(
    fields: impl Iterator<Item = &'f FieldRef>,
    arrays: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let schema = Schema::new(fields.cloned().collect::<Vec<_>>());
    batch::batch_of(Arc::new(schema), arrays, rows)
}

/// Nothing beside the filter.
fn no_more(_: &mut Binder<'_>) -> Result<()> {
    Ok(())
}

fn plans(aggregates: &[Aggregate], binder: &mut Binder<'_>) -> Result<Vec<Plan>> {
    aggregates.iter().map(|aggregate| Plan::new(aggregate, binder)).collect()
}

/// The least and the greatest value of a column of integers, as the statistics of its chunks
/// state them; of a column without values one, for then nothing is computed.
fn bounds_of(column: &CompressedColumn) -> (i256, i256) {
    let chunks = column.chunks().iter();
    let chunks = chunks.map(|chunk| (chunk.rows(), chunk.null_count(), chunk.statistics().clone()));
    integer_bounds(column.data_type(), chunks)
}

/// The same of a column in device memory, where they are found once.
fn bounds_on_device(column: &DeviceColumn) -> (i256, i256) {
    column.keep_bounds(|| integer_bounds(column.field().data_type(), column.statistics()))
}

fn integer_bounds(
    data_type: &DataType,
    chunks: impl Iterator<Item = (usize, usize, Statistics)>,
) -> (i256, i256) {
    let key = Key::of(data_type);
    let wide = |value| match (value, key) {
        (Value::Word(word), Some(key)) if !key.is_float() => i256::from_i128(key.integer(word)),
        (Value::Wide(value), _) => value,
        _ => i256::ZERO,
    };
    let chunks = chunks.filter(|(rows, nulls, _)| nulls < rows);
    let bounds = chunks.map(|(.., statistics)| match cpu::bounds(&statistics) {
        Some((least, greatest)) => (wide(least), wide(greatest)),
        // Values without bounds: whatever the type holds.
        None => match key {
            Some(key) => (wide(Value::Word(0)), wide(Value::Word(key.max()))),
            None => (i256::from_i128(i128::MIN), i256::from_i128(i128::MAX)),
        },
    });
    bounds
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        .unwrap_or((i256::ONE, i256::ONE))
}
