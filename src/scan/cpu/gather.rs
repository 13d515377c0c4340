//! Values of the rows that are kept, decoded vector by vector where there are any.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;

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
    if column::is_whole(chunk.root()) {
        let values = column::rows_of(chunk, column.data_type(), 0..chunk.rows())?;
        return Ok(vec![filtered(values, &bits(masks, chunk.rows()))?]);
    }
    let mut pieces = Vec::new();
    let mut first = 0;
    while first < masks.len() {
        let end = (masks[first..].iter().position(|mask| *mask == NONE))
            .map_or(masks.len(), |empty| first + empty);
        if first < end {
            let rows = first * VECTOR..chunk.rows().min(end * VECTOR);
            let kept = bits(&masks[first..end], rows.len());
            let values = column::rows_of(chunk, column.data_type(), rows)?;
            pieces.push(filtered(values, &kept)?);
        }
        first = end + 1;
    }
    Ok(pieces)
}

/// The kept values, which do not keep the memory of many others.
fn filtered(values: ArrayRef, kept: &BooleanArray) -> Result<ArrayRef> {
    let count = kept.true_count();
    if count == values.len() {
        return Ok(values);
    }
    let found = arrow_select::filter::filter(&values, kept)?;
    // Views point into the buffers of all values.
    Ok(match found.data_type() {
        DataType::Utf8View if count < values.len() / 2 => Arc::new(found.as_string_view().gc()),
        DataType::BinaryView if count < values.len() / 2 => Arc::new(found.as_binary_view().gc()),
        _ => found,
    })
}

/// Masks as an array of `rows` rows.
pub(in crate::scan) fn bits(masks: &[Mask], rows: usize) -> BooleanArray {
    let words: Vec<u64> = masks.iter().flatten().copied().collect();
    BooleanArray::new(BooleanBuffer::new(Buffer::from_vec(words), 0, rows), None)
}
