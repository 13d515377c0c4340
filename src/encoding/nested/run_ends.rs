//! Run-end encoded arrays: their runs as they are, as far as they lie in the chunk.
//!
//! ```text
//! child 0: length of each run, U32, at least 1; they add up to the rows
//! child 1: value of each run
//! ```
//!
//! Lengths rather than ends: these are differences of neighbours already, and do not depend
//! on where the chunk begins. Rows below a null belong to the run before, or to the first.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer};
use arrow_schema::DataType;

use super::{Shape, Split, Values, check_counts, gathered, push_range};
use crate::chunk::{Encoding, MAX_CHUNK_ROWS, NodeView};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};

pub(in crate::encoding) struct RunEnds;

/// The ends of an array's runs, and their values.
fn runs_of(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    fn of<R: RunEndIndexType>(array: &ArrayRef) -> (Vec<usize>, ArrayRef) {
        let runs = array.as_run::<R>();
        let ends = runs.run_ends().sliced_values().map(ArrowNativeType::as_usize);
        (ends.collect(), runs.values_slice())
    }
    let DataType::RunEndEncoded(ends, _) = array.data_type() else { return None };
    match ends.data_type() {
        DataType::Int16 => Some(of::<Int16Type>(array)),
        DataType::Int32 => Some(of::<Int32Type>(array)),
        DataType::Int64 => Some(of::<Int64Type>(array)),
        _ => None,
    }
}

/// The runs with rows in `mask`, and their lengths with the rows between them.
fn masked(ends: &[usize], mask: &BooleanBuffer) -> (Vec<usize>, Vec<u32>) {
    let (mut kept, mut lengths) = (Vec::new(), Vec::<u32>::new());
    let (mut start, mut below) = (0, 0);
    for (run, end) in ends.iter().enumerate() {
        let live = (start..*end).find(|row| mask.value(*row));
        let ahead = live.unwrap_or(*end) - start;
        match lengths.last_mut() {
            Some(last) => *last += ahead as u32,
            None => below += ahead as u32,
        }
        if let Some(live) = live {
            kept.push(run);
            lengths.push(std::mem::take(&mut below) + (end - live) as u32);
        }
        start = *end;
    }
    (kept, lengths)
}

impl Shape for RunEnds {
    fn encoding(&self) -> Encoding {
        Encoding::RunEnds
    }

    fn split(&self, array: &ArrayRef, mask: Option<&BooleanBuffer>) -> Option<Split> {
        let (ends, values) = runs_of(array)?;
        if array.len() > MAX_CHUNK_ROWS {
            return None;
        }
        let all_below = mask.filter(|mask| mask.count_set_bits() == 0);
        let (lengths, values) = match (mask, all_below) {
            (None, _) => {
                let starts = std::iter::once(&0).chain(&ends);
                let lengths = ends.iter().zip(starts).map(|(end, start)| (end - start) as u32);
                (lengths.collect(), Values::all(values))
            }
            (Some(_), Some(mask)) => {
                let first = mask.slice(0, mask.len().min(1));
                let lengths = first.iter().map(|_| array.len() as u32).collect();
                (lengths, Values { array: values.slice(0, first.len()), mask: Some(first) })
            }
            (Some(mask), None) => {
                let (kept, lengths) = masked(&ends, mask);
                let mut ranges = Vec::new();
                kept.iter().for_each(|run| push_range(&mut ranges, *run..run + 1));
                (lengths, Values::all(gathered(&values, &ranges)?))
            }
        };
        let lengths = Arc::new(UInt32Array::from(lengths));
        Some(Split { validity: None, children: vec![Values::all(lengths), values] })
    }

    fn role(&self, index: usize) -> NodeRole {
        [NodeRole::RunLengths, NodeRole::RunValues][index.min(1)]
    }

    fn check(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(2, 0, 0)?;
        ensure!(node.validity().is_none(), "run-end encoded values with a bitmap of nulls");
        let (lengths, values) = (node.child(0), node.child(1));
        check_counts(node, lengths, "lengths")?;
        ensure!(
            lengths.len() == values.len() && lengths.len() <= node.len(),
            "{} lengths of runs and {} values of them for {} rows",
            lengths.len(),
            values.len(),
            node.len()
        );
        Ok(())
    }
}
