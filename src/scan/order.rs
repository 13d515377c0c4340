//! Kept rows in an order, and the first of them.
//!
//! ```text
//! without a limit   all values are gathered and sorted
//! with one          filter -> bitmap -> columns of the order, sorted -> numbers of the first rows -> values
//! ```
//!
//! Rows that are equal in the columns of the order come as they do in the batch.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};

use super::bind::Binder;
use super::host::gather_selection;
use super::{Gathered, Scan};
use crate::batch::batch_of;
use crate::engine::Engine;
use crate::error::Result;

/// The kept rows of a scan in an order: [`Scan::order_by`], [`Scan::limit`].
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::scan::{Scan, col};
/// use lanepack::{Engine, Options, compress};
///
/// let batch = record_batch!(
///     ("name", Utf8, ["ant", "bee", "cat", "axe"]),
///     ("price", Float64, [9.5, 12.25, 7.0, 14.5])
/// )?;
/// let compressed = compress(&batch, &Options::default())?;
/// let dearest = Scan::new(&compressed)
///     .filter(col("price").gt(8.0))
///     .order_by([("price", true)])
///     .limit(2)
///     .gather(&["name"], &Engine::cpu())?;
/// assert_eq!(dearest, record_batch!(("name", Utf8, ["axe", "bee"]))?);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Ordered<'a> {
    scan: Scan<'a>,
    /// Columns, and whether they descend.
    order: Vec<(String, bool)>,
    limit: Option<usize>,
}

impl<'a> Scan<'a> {
    /// Orders the kept rows by columns (of lookups, too), each with whether it descends. Nulls come first,
    /// also if the column descends, and floats in total order; equal rows keep their order.
    #[must_use]
    pub fn order_by<S: Into<String>>(
        self,
        columns: impl IntoIterator<Item = (S, bool)>,
    ) -> Ordered<'a> {
        let order = columns.into_iter().map(|(name, descends)| (name.into(), descends)).collect();
        Ordered { scan: self, order, limit: None }
    }

    /// The first of the kept rows, in the order of the batch.
    #[must_use]
    pub fn limit(self, rows: usize) -> Ordered<'a> {
        Ordered { scan: self, order: Vec::new(), limit: Some(rows) }
    }
}

impl Ordered<'_> {
    /// Gives only the first rows. Of columns that the order does not need only these are decoded.
    #[must_use]
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// The values of some columns, in the order.
    ///
    /// # Errors
    /// As [`Scan::gather`]; also [`Error::Expression`](crate::Error::Expression) for columns of the order
    /// that cannot be sorted.
    pub fn gather<S: AsRef<str>>(&self, names: &[S], engine: &Engine) -> Result<RecordBatch> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let Some(limit) = self.limit else {
            let all = self.scan.gather(&self.with_order(&names), engine)?;
            return self.sorted(&all, names.len());
        };
        let kept = self.scan.mask(engine)?.values().clone();
        if self.order.is_empty() {
            let first: Vec<u64> = kept.set_indices().take(limit).map(|row| row as u64).collect();
            return self.scan.gather_rows(RowSet::Numbers(&first), &names, engine);
        }
        let order = self.scan.gather_rows(RowSet::Bits(&kept), &self.with_order(&[]), engine)?;
        let first = self.first(order.columns(), Some(limit))?;
        // Their numbers in the batch, and where each is among them in the order.
        let numbers: Vec<usize> = kept.set_indices().collect();
        let mut chosen: Vec<(usize, u32)> = first
            .values()
            .iter()
            .enumerate()
            .map(|(at, kept)| (numbers[*kept as usize], at as u32))
            .collect();
        chosen.sort_unstable();
        let rows: Vec<u64> = chosen.iter().map(|(row, _)| *row as u64).collect();
        let values = self.scan.gather_rows(RowSet::Numbers(&rows), &names, engine)?;
        let mut places = vec![0; chosen.len()];
        chosen.iter().zip(0..).for_each(|((_, at), from)| places[*at as usize] = from);
        taken(&values, &UInt32Array::from(places))
    }

    /// Some names, and behind them those of the order.
    fn with_order<'n>(&'n self, names: &[&'n str]) -> Vec<&'n str> {
        let of_order = self.order.iter().map(|(name, _)| name.as_str());
        names.iter().copied().chain(of_order).collect()
    }

    /// The rows in their order of a batch whose first columns are those that are wanted.
    fn sorted(&self, all: &RecordBatch, wanted: usize) -> Result<RecordBatch> {
        let values = all.project(&(0..wanted).collect::<Vec<_>>())?;
        match self.order.is_empty() {
            true => Ok(values),
            false => {
                let order = self.first(&all.columns()[wanted..], None)?;
                taken(&values, &order)
            }
        }
    }

    /// The places of the first rows, given the columns of the order.
    fn first(&self, columns: &[ArrayRef], limit: Option<usize>) -> Result<UInt32Array> {
        let rows = columns.first().map_or(0, |column| column.len());
        let by = |(column, (_, descending)): (&ArrayRef, &(String, bool))| SortColumn {
            values: column.clone(),
            options: Some(SortOptions { descending: *descending, nulls_first: true }),
        };
        let mut order: Vec<SortColumn> = columns.iter().zip(&self.order).map(by).collect();
        // Rows that are equal keep their order.
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows as u64));
        order.push(SortColumn { values: numbers, options: None });
        Ok(lexsort_to_indices(&order, limit)?)
    }
}

/// Rows of a batch, which may have no columns.
pub(crate) fn taken(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    let take = |column: &ArrayRef| Ok(arrow_select::take::take(column, rows, None)?);
    let arrays = batch.columns().iter().map(take).collect::<Result<_>>()?;
    batch_of(batch.schema(), arrays, rows.len())
}

/// Some rows of a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowSet<'a> {
    /// A bit for each row, set for those that are wanted.
    Bits(&'a BooleanBuffer),
    /// The numbers of those that are wanted, ascending, each once.
    Numbers(&'a [u64]),
}

impl RowSet<'_> {
    /// Those of the numbers that are in a range.
    fn within<'n>(numbers: &'n [u64], range: &Range<usize>) -> &'n [u64] {
        let below = |end: usize| numbers.partition_point(|row| *row < end as u64);
        &numbers[below(range.start)..below(range.end)]
    }

    /// Whether some of them are in a range.
    pub fn has_any(&self, range: Range<usize>) -> bool {
        match self {
            Self::Bits(bits) => bits.slice(range.start, range.len()).count_set_bits() > 0,
            Self::Numbers(numbers) => !Self::within(numbers, &range).is_empty(),
        }
    }

    /// The bits of a range.
    pub fn bits(&self, range: Range<usize>) -> BooleanBuffer {
        match self {
            Self::Bits(bits) => bits.slice(range.start, range.len()),
            Self::Numbers(numbers) => {
                let mut bits = BooleanBufferBuilder::new(range.len());
                bits.append_n(range.len(), false);
                for row in Self::within(numbers, &range) {
                    bits.set_bit(*row as usize - range.start, true);
                }
                bits.finish()
            }
        }
    }
}

impl Scan<'_> {
    /// The values of some columns in rows that have been found. Of a batch in host memory the CPU reads
    /// them.
    pub(crate) fn gather_rows(
        &self,
        rows: RowSet<'_>,
        names: &[&str],
        engine: &Engine,
    ) -> Result<RecordBatch> {
        let limit = self.memory_limit(engine);
        let bind = |binder: &mut Binder<'_>| Gathered::of(names, binder);
        match self.resident(engine)? {
            None => {
                let (scan, wanted) = self.bind_within(Some(rows), bind)?;
                wanted.with_joined(scan.gather_rows(rows, &wanted.columns, limit)?, limit)
            }
            Some(context) => {
                let reads = |wanted: &Gathered| wanted.columns.clone();
                self.on(context, bind, reads, &mut (), |scan, _, wanted| {
                    let kept = scan.selection_of(&rows.bits(0..scan.rows))?;
                    let batch = gather_selection(scan, &kept, &wanted.columns, limit)?;
                    wanted.with_joined(batch, limit)
                })
            }
        }
    }
}
