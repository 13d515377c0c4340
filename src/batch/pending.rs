//! Rows that are gathered until there are enough to compress them together, so that chunks are full however
//! small the batches are.

use std::collections::VecDeque;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use crate::column::array_bytes;
use crate::error::{Error, Place, Result};
use crate::fence::fenced;
use crate::lanes::VECTOR;

/// Batches of one schema that are not compressed yet.
pub(crate) struct PendingRows {
    schema: SchemaRef,
    /// Each with the bytes of its values.
    batches: VecDeque<(RecordBatch, usize)>,
    /// Rows and bytes of all of them.
    rows: usize,
    bytes: usize,
    /// The values of the dictionaries of the last batch, by column.
    dictionaries: Vec<Option<ArrayRef>>,
}

/// How much is compressed together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portion {
    /// Rows at most.
    pub rows: usize,
    /// Bytes of their values at most, unless one row has more.
    pub bytes: usize,
    /// Rows of a full chunk: a portion has whole chunks if one fits.
    pub chunk: usize,
}

impl PendingRows {
    pub fn new(schema: SchemaRef) -> Self {
        let dictionaries = vec![None; schema.fields().len()];
        Self { schema, batches: VecDeque::new(), rows: 0, bytes: 0, dictionaries }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// An error if a batch has another schema.
    pub fn check(&self, batch: &RecordBatch) -> Result<()> {
        if batch.schema().fields() != self.schema.fields() {
            let what = format!("a batch of the schema {}, found {}", self.schema, batch.schema());
            return Err(Error::Mismatch { place: Place::default(), what });
        }
        Ok(())
    }

    /// Takes a batch; an error if it has another schema.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        if batch.num_rows() > 0 {
            self.rows += batch.num_rows();
            let bytes = self.bytes_of(batch);
            self.bytes += bytes;
            self.batches.push_back((batch.clone(), bytes));
        }
        Ok(())
    }

    /// Bytes of the values of a batch; dictionaries that are those of the batch before count once.
    fn bytes_of(&mut self, batch: &RecordBatch) -> usize {
        let of_column = |(array, known): (&ArrayRef, &mut Option<ArrayRef>)| {
            let Some(dictionary) = array.as_any_dictionary_opt() else {
                return array_bytes(array);
            };
            let values = dictionary.values();
            let is_known =
                known.as_ref().is_some_and(|known| known.to_data().ptr_eq(&values.to_data()));
            *known = Some(values.clone());
            array_bytes(dictionary.keys()) + if is_known { 0 } else { array_bytes(values) }
        };
        batch.columns().iter().zip(&mut self.dictionaries).map(of_column).sum()
    }

    /// Rows to compress next, if there are as many as a portion has.
    pub fn portion(&self, portion: &Portion) -> Option<usize> {
        if self.rows == 0 {
            return None;
        }
        if self.rows < portion.rows && self.bytes < portion.bytes {
            // As many whole chunks as will fit, if further rows are like these.
            let of_row = (self.bytes / self.rows.max(1)).max(1);
            let chunks = portion.rows.min(portion.bytes / of_row) / portion.chunk * portion.chunk;
            return (chunks > 0 && chunks <= self.rows).then_some(chunks);
        }
        let (mut rows, mut bytes) = (0, 0);
        for (batch, of_batch) in &self.batches {
            let of_row = (of_batch / batch.num_rows()).max(1);
            let fits = portion.bytes.saturating_sub(bytes) / of_row;
            let own = batch.num_rows().min(fits).min(portion.rows - rows);
            rows += own;
            bytes += own * of_row;
            if own < batch.num_rows() {
                break;
            }
        }
        let rows = rows.max(1);
        // Whole chunks if there is one, else whole vectors.
        let units = [portion.chunk, VECTOR, 1].into_iter();
        let unit = units.into_iter().find(|unit| *unit <= rows).unwrap_or(1);
        Some(rows / unit * unit)
    }

    /// Removes the first rows, and concatenates them. Some batches cannot be concatenated (dictionaries of
    /// more values together than keys, runs that end past their type): they stay apart.
    pub fn take(&mut self, rows: usize) -> Vec<RecordBatch> {
        let mut taken = Vec::new();
        let mut left = rows.min(self.rows);
        self.rows -= left;
        while left > 0 {
            let Some((batch, bytes)) = self.batches.pop_front() else { break };
            let own = left.min(batch.num_rows());
            taken.push(batch.slice(0, own));
            let rest = batch.num_rows() - own;
            self.bytes -= bytes;
            if rest > 0 {
                let bytes = bytes / batch.num_rows() * rest;
                self.bytes += bytes;
                self.batches.push_front((batch.slice(own, rest), bytes));
            }
            left -= own;
        }
        if taken.len() > 1
            && let Ok(all) = fenced(|| arrow_select::concat::concat_batches(&self.schema, &taken))
        {
            taken = vec![all];
        }
        taken
    }

    /// Puts batches back that were taken.
    pub fn put_back(&mut self, batches: impl DoubleEndedIterator<Item = RecordBatch>) {
        for batch in batches.rev() {
            self.rows += batch.num_rows();
            let bytes = batch.columns().iter().map(|array| array_bytes(array)).sum();
            self.bytes += bytes;
            self.batches.push_front((batch, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, Int8Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    fn batch(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("x", array)]).unwrap()
    }

    fn bytes_of(pending: &PendingRows) -> usize {
        assert_eq!(pending.bytes, pending.batches.iter().map(|(_, bytes)| bytes).sum::<usize>());
        pending.bytes
    }

    fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
        batch(Arc::new(Int64Array::from_iter_values(range)))
    }

    #[test]
    fn rows_leave_in_order_and_in_whole_chunks() {
        let mut pending = PendingRows::new(numbers(0..1).schema());
        let portion = Portion { rows: 4096, bytes: 8 * 5000, chunk: 1500 };
        for start in 0..40 {
            assert_eq!(pending.portion(&portion), None);
            pending.push(&numbers(start * 100..start * 100 + 100)).unwrap();
            if pending.rows() == 3000 {
                break;
            }
        }
        assert_eq!(pending.portion(&portion), Some(3000));
        assert_eq!(pending.take(2950), [numbers(0..2950)]);
        assert_eq!((pending.rows(), bytes_of(&pending)), (50, 400));
        pending.put_back([numbers(0..10), numbers(10..20)].into_iter());
        let all = pending.take(1000);
        assert_eq!(all[0].num_rows(), 70);
        assert_eq!(
            all[0].slice(19, 2).column(0).as_ref(),
            &Int64Array::from(vec![19, 2950]) as &dyn Array
        );
        assert_eq!((pending.rows(), pending.take(5).len()), (0, 0));
        let other = batch(Arc::new(Int8Array::from(vec![1])));
        assert!(matches!(pending.push(&other), Err(Error::Mismatch { .. })));
    }

    #[test]
    fn long_values_leave_earlier() {
        // 5,000 rows of 400 bytes: 2,048 have less than 1 MB, 3,072 more.
        let text = "x".repeat(384);
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec![&text; 5000]));
        let mut pending = PendingRows::new(batch(views.clone()).schema());
        pending.push(&batch(views)).unwrap();
        let portion = Portion { rows: 1 << 20, bytes: 1_000_000, chunk: 131_072 };
        assert_eq!(pending.portion(&portion), Some(2048));
        let huge = Portion { bytes: 10, ..portion };
        assert_eq!(pending.portion(&huge), Some(1));
        // Short rows in front of them do not wait for as many.
        let short: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec!["x"; 20_000]));
        let mut pending = PendingRows::new(batch(short.clone()).schema());
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec![&text; 5000]));
        pending.push(&batch(short)).unwrap();
        assert_eq!(pending.portion(&portion), None);
        pending.push(&batch(views)).unwrap();
        // 320 KB of the short ones, and what fits of the others.
        assert_eq!(pending.portion(&portion), Some(21 * 1024));
        pending.take(21 * 1024);
        assert_eq!(pending.portion(&portion), Some(2048));
    }

    #[test]
    fn dictionaries_that_batches_share_count_once_and_others_stay_apart() {
        let values: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..100).map(|at| format!("{at:099}"))));
        let keyed = |values: &ArrayRef| {
            let keys = Int8Array::from_iter_values(0..100);
            batch(Arc::new(DictionaryArray::<Int8Type>::new(keys, values.clone())))
        };
        let mut pending = PendingRows::new(keyed(&values).schema());
        pending.push(&keyed(&values)).unwrap();
        pending.push(&keyed(&values)).unwrap();
        assert_eq!(bytes_of(&pending), 2 * 100 + 100 * 99 + 101 * 4);
        // 200 values do not fit 127 keys.
        let others: ArrayRef =
            Arc::new(StringArray::from_iter_values((100..200).map(|at| at.to_string())));
        pending.push(&keyed(&others)).unwrap();
        let rows: Vec<usize> = pending.take(300).iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [100, 100, 100]);
    }
}
