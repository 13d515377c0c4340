//! Rows that wait until there are enough of them to be compressed together, so that chunks are full
//! however small the batches are.

use std::collections::VecDeque;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use crate::column::array_bytes;
use crate::error::{Error, Place, Result};
use crate::fence::fenced;
use crate::lanes::VECTOR;

/// Batches of one schema, in the order in which they came.
pub(crate) struct Waiting {
    schema: SchemaRef,
    batches: VecDeque<RecordBatch>,
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
    /// Bytes of their values at most.
    pub bytes: usize,
    /// Rows of a full chunk: there are as many of these as fit.
    pub chunk: usize,
}

impl Waiting {
    pub fn new(schema: SchemaRef) -> Self {
        let dictionaries = vec![None; schema.fields().len()];
        Self { schema, batches: VecDeque::new(), rows: 0, bytes: 0, dictionaries }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows that wait.
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
            self.bytes += self.bytes_of(batch);
            self.batches.push_back(batch.clone());
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
        let of_row = (self.bytes / self.rows.max(1)).max(1);
        let rows = portion.rows.min(portion.bytes / of_row).max(1);
        // Whole chunks if there is one, else whole vectors.
        let unit = [portion.chunk, VECTOR, 1].into_iter().find(|unit| *unit <= rows).unwrap_or(1);
        let rows = rows / unit * unit;
        (self.rows >= rows).then_some(rows)
    }

    /// Removes the first rows, and puts them together. Some batches have no common array (dictionaries of
    /// more values together than keys, runs that end past their type): they stay apart.
    pub fn take(&mut self, rows: usize) -> Vec<RecordBatch> {
        let mut taken = Vec::new();
        let mut left = rows.min(self.rows);
        self.bytes -= (self.bytes as u128 * left as u128 / self.rows.max(1) as u128) as usize;
        self.rows -= left;
        while left > 0 {
            let Some(batch) = self.batches.pop_front() else { break };
            let own = left.min(batch.num_rows());
            taken.push(batch.slice(0, own));
            if own < batch.num_rows() {
                self.batches.push_front(batch.slice(own, batch.num_rows() - own));
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
            self.bytes += batch.columns().iter().map(|array| array_bytes(array)).sum::<usize>();
            self.batches.push_front(batch);
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

    fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
        batch(Arc::new(Int64Array::from_iter_values(range)))
    }

    #[test]
    fn rows_leave_in_order_and_in_whole_chunks() {
        let mut waiting = Waiting::new(numbers(0..1).schema());
        let portion = Portion { rows: 4096, bytes: 8 * 5000, chunk: 1500 };
        for start in 0..40 {
            assert_eq!(waiting.portion(&portion), None);
            waiting.push(&numbers(start * 100..start * 100 + 100)).unwrap();
            if waiting.rows() == 3000 {
                break;
            }
        }
        assert_eq!(waiting.portion(&portion), Some(3000));
        assert_eq!(waiting.take(2950), [numbers(0..2950)]);
        assert_eq!((waiting.rows(), waiting.bytes), (50, 400));
        waiting.put_back([numbers(0..10), numbers(10..20)].into_iter());
        let all = waiting.take(1000);
        assert_eq!(all[0].num_rows(), 70);
        assert_eq!(
            all[0].slice(19, 2).column(0).as_ref(),
            &Int64Array::from(vec![19, 2950]) as &dyn Array
        );
        assert_eq!((waiting.rows(), waiting.take(5).len()), (0, 0));
        let other = batch(Arc::new(Int8Array::from(vec![1])));
        assert!(matches!(waiting.push(&other), Err(Error::Mismatch { .. })));
    }

    #[test]
    fn long_values_leave_earlier() {
        // 5,000 rows of 400 bytes: 2,048 have less than 1 MB, 3,072 more.
        let text = "x".repeat(384);
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec![&text; 5000]));
        let mut waiting = Waiting::new(batch(views.clone()).schema());
        waiting.push(&batch(views)).unwrap();
        let portion = Portion { rows: 1 << 20, bytes: 1_000_000, chunk: 131_072 };
        assert_eq!(waiting.portion(&portion), Some(2048));
        let huge = Portion { bytes: 10, ..portion };
        assert_eq!(waiting.portion(&huge), Some(1));
    }

    #[test]
    fn dictionaries_that_batches_share_count_once_and_others_stay_apart() {
        let values: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..100).map(|at| format!("{at:099}"))));
        let keyed = |values: &ArrayRef| {
            let keys = Int8Array::from_iter_values(0..100);
            batch(Arc::new(DictionaryArray::<Int8Type>::new(keys, values.clone())))
        };
        let mut waiting = Waiting::new(keyed(&values).schema());
        waiting.push(&keyed(&values)).unwrap();
        waiting.push(&keyed(&values)).unwrap();
        assert_eq!(waiting.bytes, 2 * 100 + 100 * 99 + 101 * 4);
        // 200 values do not fit 127 keys.
        let others: ArrayRef =
            Arc::new(StringArray::from_iter_values((100..200).map(|at| at.to_string())));
        waiting.push(&keyed(&others)).unwrap();
        let rows: Vec<usize> = waiting.take(300).iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [100, 100, 100]);
    }
}
