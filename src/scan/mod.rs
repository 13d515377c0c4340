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
//! let packed = compress(&batch, &Options::default())?;
//! let engine = Engine::cpu();
//!
//! let cheap = col("price").between(9.0, 15.0).and(col("name").starts_with("a"));
//! let scan = Scan::new(&packed).filter(cheap);
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
//!   less than all). Arithmetic is IEEE 754, each operation rounded once.
//! - Integers and decimals are computed exactly, whatever the types of their columns. What
//!   could pass 128 bits, given the least and greatest values of the columns, is an error
//!   before anything is computed.
//! - Text and binary are compared byte by byte.
//! - Dates, times, timestamps and durations are compared with integers in their unit, with
//!   Arrow scalars, or with columns of the same type; they are not computed with.
//! - Literals take the type of the column that they meet, see [`Literal`].
//!
//! # What is not looked at
//! Chunks whose minimum and maximum decide a test are not read; vectors whose base and
//! width decide it are not unpacked; strings are compared in their codes; where one part
//! of an AND keeps no row of a vector, the others are not evaluated.

mod aggregate;
mod automaton;
mod bind;
mod cpu;
mod expr;
mod literal;
mod number;
mod predicate;
mod ranges;

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array, new_empty_array,
};
use arrow_buffer::{BooleanBufferBuilder, i256};
use arrow_schema::Schema;
use rayon::prelude::*;

pub use aggregate::{Aggregate, avg, count, count_rows, max, min, sum};
pub use expr::{Comparison, Expr, Operator, TextForm, col, lit};
pub use literal::Literal;

use crate::batch;
use crate::column::{self, CompressedColumn};
use crate::engine::Engine;
use crate::error::Result;
use crate::lanes::{Mask, VECTOR};
use bind::Binder;
use cpu::Filter;
use literal::Value;
use predicate::Predicate;
use ranges::Key;

/// A scan of a compressed batch.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    source: Source<'a>,
    filter: Option<Expr>,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Batch(&'a RecordBatch),
    Columns(&'a [CompressedColumn]),
}

impl<'a> Scan<'a> {
    /// A scan of all rows of a batch that [`compress`](crate::compress) made, or of a slice
    /// or concatenation of such.
    pub fn new(packed: &'a RecordBatch) -> Self {
        Self { source: Source::Batch(packed), filter: None }
    }

    /// A scan of columns, which have been validated already: what
    /// [`columns`](crate::columns) gives, and the better choice for many scans of one batch.
    pub fn of(columns: &'a [CompressedColumn]) -> Self {
        Self { source: Source::Columns(columns), filter: None }
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

    /// For each row whether it is kept; without nulls.
    ///
    /// # Errors
    /// [`Error::Expression`](crate::Error::Expression) if the filter does not fit the columns; otherwise as
    /// [`columns`](crate::columns) and [`CompressedColumn::decompress`]; [`Error::NoDevice`](crate::Error::NoDevice)
    /// for the engine of a GPU, which does not scan yet.
    pub fn mask(&self, engine: &Engine) -> Result<BooleanArray> {
        let scan = self.bind(engine, |_| Ok(()))?.0;
        let masks = scan.masks()?;
        let mut bits = BooleanBufferBuilder::new(scan.chunk_rows.iter().sum());
        for (masks, rows) in masks.iter().zip(&scan.chunk_rows) {
            match masks {
                None => bits.append_n(*rows, false),
                Some(masks) => bits.append_packed_range(0..*rows, bytemuck::cast_slice(masks)),
            }
        }
        Ok(BooleanArray::new(bits.finish(), None))
    }

    /// How many rows are kept.
    ///
    /// # Errors
    /// As [`Scan::mask`].
    pub fn count(&self, engine: &Engine) -> Result<usize> {
        let scan = self.bind(engine, |_| Ok(()))?.0;
        let counts = scan.each_chunk(|_, filter, rows| {
            if let Some(all) = filter.constant() {
                return Ok(if all { rows } else { 0 });
            }
            let count = |vector| Ok(cpu::count(&filter.select(vector)?));
            (0..rows.div_ceil(VECTOR)).map(count).sum::<Result<usize>>()
        })?;
        Ok(counts.into_iter().sum())
    }

    /// The numbers of the rows that are kept, ascending.
    ///
    /// # Errors
    /// As [`Scan::mask`].
    pub fn rows(&self, engine: &Engine) -> Result<UInt64Array> {
        let scan = self.bind(engine, |_| Ok(()))?.0;
        let mut found = Vec::new();
        let mut start = 0;
        for (masks, rows) in scan.masks()?.iter().zip(&scan.chunk_rows) {
            for (vector, mask) in masks.iter().flatten().enumerate() {
                found.extend(cpu::rows(mask).map(|row| (start + vector * VECTOR + row) as u64));
            }
            start += rows;
        }
        Ok(UInt64Array::from(found))
    }

    /// The values of some columns in the rows that are kept. Of the others nothing is
    /// decoded but vectors that have kept rows.
    ///
    /// # Errors
    /// As [`Scan::mask`]; [`Error::TooLarge`](crate::Error::TooLarge) if strings of a Utf8 or Binary column pass
    /// 2 GiB.
    pub fn gather<S: AsRef<str>>(&self, names: &[S], engine: &Engine) -> Result<RecordBatch> {
        let (scan, wanted) = self.bind(engine, |binder| {
            let number = |name: &S| Ok(binder.column(name.as_ref())?.0);
            names.iter().map(number).collect::<Result<Vec<usize>>>()
        })?;
        let masks = scan.masks()?;
        let kept = masks.iter().flatten().flatten().map(cpu::count).sum();
        let gather = |column: &CompressedColumn| -> Result<ArrayRef> {
            let pieces: Vec<Vec<ArrayRef>> = (masks.par_iter().enumerate())
                .map(|(index, masks)| match masks {
                    None => Ok(Vec::new()),
                    Some(masks) => cpu::gather::chunk(column, index, masks)
                        .map_err(|error| error.in_chunk(index)),
                })
                .collect::<Result<_>>()?;
            let pieces: Vec<ArrayRef> = pieces.into_iter().flatten().collect();
            if pieces.is_empty() {
                return Ok(new_empty_array(column.data_type()));
            }
            column::concat(&pieces)
        };
        let columns: Vec<&CompressedColumn> =
            wanted.iter().map(|of| scan.columns[*of].as_ref()).collect();
        let arrays: Vec<ArrayRef> = (columns.par_iter())
            .map(|column| gather(column).map_err(|error| error.in_column(column.field().name())))
            .collect::<Result<_>>()?;
        let fields: Vec<_> = columns.iter().map(|column| column.field().clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(kept));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Aggregates of the rows that are kept: a batch of one row, with a column for each.
    ///
    /// # Errors
    /// As [`Scan::mask`]; [`Error::TooLarge`](crate::Error::TooLarge) for a sum that does not fit its type.
    pub fn aggregate(&self, aggregates: &[Aggregate], engine: &Engine) -> Result<RecordBatch> {
        let (scan, mut plans) = self.bind(engine, |binder| {
            let plan = |aggregate| aggregate::Plan::new(aggregate, binder);
            aggregates.iter().map(plan).collect::<Result<Vec<_>>>()
        })?;
        let columns = scan.columns();
        plans.iter_mut().try_for_each(|plan| plan.fit(&|of| bounds_of(columns[of])))?;
        let chunks = scan.each_chunk(|index, filter, rows| {
            cpu::aggregate::chunk(&plans, filter, &columns, index, rows)
        })?;
        let start: Vec<_> = plans.iter().map(aggregate::Plan::start).collect();
        let states = chunks.into_iter().fold(start, |states, chunk| {
            states.into_iter().zip(chunk).map(|(state, chunk)| state.then(chunk)).collect()
        });
        let finished = plans.iter().zip(states);
        let arrays = finished.map(|(plan, state)| plan.finish(state)).collect::<Result<_>>()?;
        let fields: Vec<_> = plans.iter().map(aggregate::Plan::field).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
    }

    /// Binds the filter, and `more` with the same numbers for columns.
    fn bind<T>(
        &self,
        engine: &Engine,
        more: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<(BoundScan<'a>, T)> {
        engine.expect_cpu()?;
        let schema = match self.source {
            Source::Batch(packed) => batch::unpacked_schema(&packed.schema())?,
            Source::Columns(columns) => {
                let fields: Vec<_> = columns.iter().map(|column| column.field().clone()).collect();
                Schema::new(fields)
            }
        };
        let mut binder = Binder::new(&schema);
        let mut predicate = match &self.filter {
            None => Predicate::Constant(true),
            Some(filter) => binder.filter(filter)?,
        };
        let more = more(&mut binder)?;
        let mut used = binder.into_columns();
        if used.is_empty() && !schema.fields().is_empty() {
            // Of some column, to know how many rows there are.
            used.push(0);
        }
        let column = |index: &usize| match self.source {
            Source::Batch(packed) => {
                let (schema, storage) = (packed.schema(), packed.column(*index));
                CompressedColumn::try_from_arrow(schema.field(*index), storage).map(Cow::Owned)
            }
            Source::Columns(columns) => Ok(Cow::Borrowed(&columns[*index])),
        };
        let columns: Vec<Cow<'a, CompressedColumn>> =
            used.par_iter().map(column).collect::<Result<_>>()?;
        let borrowed: Vec<&CompressedColumn> = columns.iter().map(AsRef::as_ref).collect();
        batch::check_boundaries(&borrowed)?;
        let chunk_rows: Vec<usize> = match (columns.first(), self.source) {
            (Some(first), _) => first.chunk_rows().map(|rows| rows.len()).collect(),
            (None, Source::Batch(packed)) => vec![packed.num_rows()],
            (None, Source::Columns(_)) => Vec::new(),
        };
        predicate.fit(&|column| bounds_of(borrowed[column]))?;
        Ok((BoundScan { columns, predicate, chunk_rows }, more))
    }
}

/// A scan whose columns and filter are known.
struct BoundScan<'a> {
    /// Those that it uses, by their numbers in predicates.
    columns: Vec<Cow<'a, CompressedColumn>>,
    predicate: Predicate,
    chunk_rows: Vec<usize>,
}

impl BoundScan<'_> {
    fn columns(&self) -> Vec<&CompressedColumn> {
        self.columns.iter().map(AsRef::as_ref).collect()
    }

    /// Does `work` for each chunk, in parallel, with the rows to keep and their number.
    fn each_chunk<T: Send>(
        &self,
        work: impl Fn(usize, &Filter<'_>, usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let columns = self.columns();
        (self.chunk_rows.par_iter().enumerate())
            .map(|(index, rows)| {
                let filter = Filter::new(&self.predicate, &columns, index, *rows)?;
                work(index, &filter, *rows).map_err(|error| error.in_chunk(index))
            })
            .collect()
    }

    /// For each chunk a mask for each vector; none if no row is kept.
    fn masks(&self) -> Result<Vec<Option<Vec<Mask>>>> {
        self.each_chunk(|_, filter, rows| {
            if filter.constant() == Some(false) {
                return Ok(None);
            }
            let masks = (0..rows.div_ceil(VECTOR)).map(|vector| filter.select(vector));
            let masks = masks.collect::<Result<Vec<Mask>>>()?;
            Ok(masks.iter().any(|mask| *mask != cpu::NONE).then_some(masks))
        })
    }
}

/// The least and the greatest value of a column of integers, as the statistics of its chunks
/// state them; of a column without values one, for then nothing is computed.
fn bounds_of(column: &CompressedColumn) -> (i256, i256) {
    let key = Key::of(column.data_type());
    let wide = |value| match (value, key) {
        (Value::Word(word), Some(key)) if !key.is_float() => i256::from_i128(key.integer(word)),
        (Value::Wide(value), _) => value,
        _ => i256::ZERO,
    };
    let chunks = column.chunks().iter().filter(|chunk| chunk.null_count() < chunk.rows());
    let bounds = chunks.map(|chunk| match cpu::bounds(chunk) {
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
