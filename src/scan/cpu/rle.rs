//! Tests of runs: once for each run, then for the rows of those that pass.

use std::ops::Range;

use super::{Found, NONE, Selector};
use crate::chunk::NodeView;
use crate::encoding::rle;
use crate::error::Result;
use crate::lanes::{Mask, VECTOR};

/// The test of a node's values, by the test of its runs' values.
pub(super) fn found<'a>(
    node: NodeView<'a>,
    of_values: impl FnOnce(NodeView<'a>) -> Result<Found<'a>>,
) -> Result<Found<'a>> {
    let vectors = rle::Vectors::of(node)?;
    let selector = match of_values(vectors.values())? {
        Found::Some(selector) => selector,
        decided => return Ok(decided),
    };
    let mut passing = vec![NONE; vectors.values().len().div_ceil(VECTOR)];
    for (vector, mask) in passing.iter_mut().enumerate() {
        selector.select(vector, mask)?;
    }
    Ok(Found::some(RunsTest { vectors, passing }))
}

struct RunsTest<'a> {
    vectors: rle::Vectors<'a>,
    /// A bit for each run.
    passing: Vec<Mask>,
}

impl RunsTest<'_> {
    fn passes(&self, run: usize) -> bool {
        self.passing[run / VECTOR][run % VECTOR / 64] >> (run % 64) & 1 == 1
    }
}

impl Selector for RunsTest<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let runs = self.vectors.runs(vector..vector + 1);
        let lengths = self.vectors.lengths(vector..vector + 1)?;
        *mask = NONE;
        let mut start = 0;
        for (run, length) in runs.zip(lengths) {
            let end = start + usize::from(length);
            if self.passes(run) {
                set(mask, start..end);
            }
            start = end;
        }
        Ok(())
    }
}

/// Sets the bits of a range that is not empty.
fn set(mask: &mut Mask, slots: Range<usize>) {
    let (first, last) = (slots.start / 64, (slots.end - 1) / 64);
    for (index, word) in mask.iter_mut().enumerate().take(last + 1).skip(first) {
        let low = slots.start.saturating_sub(index * 64);
        let high = (slots.end - index * 64).min(64);
        *word |= u64::MAX >> (64 - (high - low)) << low;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_set_and_no_others() {
        for start in (0..VECTOR).step_by(7).chain([63, 64, VECTOR - 1]) {
            for end in (start + 1..=VECTOR).step_by(13).chain([VECTOR]) {
                let mut mask = NONE;
                set(&mut mask, start..end);
                for slot in 0..VECTOR {
                    let bit = mask[slot / 64] >> (slot % 64) & 1 == 1;
                    assert_eq!(bit, (start..end).contains(&slot), "{start}..{end}: {slot}");
                }
            }
        }
    }
}
