//! Values of the rows that are kept, decoded vector by vector where there are any.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};

use super::NONE;
use crate::column::{self, CompressedColumn};
use crate::error::Result;
use crate::lanes::{Mask, VECTOR};

/// The kept rows of chunk `index` of a column, given a mask for each vector; in pieces.
pub(in crate::scan) fn chunk(
    column: &CompressedColumn,
    index: usize,
    masks: &[Mask],
) -> Result<Vec<ArrayRef>> {
    let chunk = &column.chunks()[index];
    let mut pieces = Vec::new();
    let mut first = 0;
    while first < masks.len() {
        let end = (masks[first..].iter().position(|mask| *mask == NONE))
            .map_or(masks.len(), |empty| first + empty);
        if first < end {
            let rows = first * VECTOR..chunk.rows().min(end * VECTOR);
            let kept = bits(&masks[first..end], rows.len());
            let values = column::rows_of(chunk, column.data_type(), rows)?;
            pieces.push(if kept.true_count() == values.len() {
                values
            } else {
                arrow_select::filter::filter(&values, &kept)?
            });
        }
        first = end + 1;
    }
    Ok(pieces)
}

/// Masks as an array of `rows` rows.
pub(in crate::scan) fn bits(masks: &[Mask], rows: usize) -> BooleanArray {
    let words: Vec<u64> = masks.iter().flatten().copied().collect();
    BooleanArray::new(BooleanBuffer::new(Buffer::from_vec(words), 0, rows), None)
}
