//! Tests of runs: once for the value of each run, then for the rows of those that pass.
//!
//! ```text
//! verdicts of runs   1    0  1    1
//! where they begin   1000 10 1000 100
//! changes            1000 10 1000 000    parities -> 1111 00 1111 111
//! ```
//!
//! A run costs the same however long it is: one bit where the verdict is another than that of the
//! run before.

use std::cell::RefCell;
use std::ops::Range;

use super::Vectors;
use crate::chunk::NodeView;
use crate::encoding::io::decode_some;
use crate::encoding::select::{RangeTest, Selector, Verdict, words};
use crate::error::Result;
use crate::lanes::mask::{self, NONE};
use crate::lanes::{Mask, VECTOR};

/// Lengths that are decoded together: a vector of them has the runs of several vectors.
const BLOCK: usize = VECTOR;

/// The test of a node's values.
pub(super) fn select<'a>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
    let vectors = Vectors::of(node)?;
    let values = vectors.values();
    let mut passing = vec![NONE; values.len().div_ceil(VECTOR)];
    match words(values, test)? {
        Verdict::Some(selector) => {
            for (vector, mask) in passing.iter_mut().enumerate() {
                selector.select(vector, mask)?;
            }
        }
        decided => {
            // Lengths and bits of runs are checked nevertheless: damaged ones are errors of every
            // test.
            let all = node.len().div_ceil(VECTOR);
            let test = RunsTest { vectors, passing, lengths: RefCell::default() };
            (0..all).try_for_each(|vector| test.select(vector, &mut NONE.clone()))?;
            return Ok(decided);
        }
    }
    Ok(Verdict::some(RunsTest { vectors, passing, lengths: RefCell::default() }))
}

struct RunsTest<'a> {
    vectors: Vectors<'a>,
    /// A bit for each run.
    passing: Vec<Mask>,
    lengths: RefCell<Lengths>,
}

/// Lengths of runs, as far as they are decoded.
#[derive(Default)]
struct Lengths {
    /// The number of the first.
    start: usize,
    decoded: Vec<u16>,
}

impl Lengths {
    /// The lengths of some runs.
    fn of(&mut self, node: NodeView<'_>, runs: Range<usize>) -> Result<&[u16]> {
        if runs.start < self.start || runs.end > self.start + self.decoded.len() {
            let start = runs.start / BLOCK * BLOCK;
            let end = runs.end.next_multiple_of(BLOCK).min(node.len());
            self.decoded = decode_some(node, start..end)?;
            self.start = start;
        }
        Ok(&self.decoded[runs.start - self.start..runs.end - self.start])
    }
}

impl Selector for RunsTest<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let runs = self.vectors.runs(vector..vector + 1);
        *mask = NONE;
        let mut before = false;
        let mut change = |run: usize, start: usize| {
            let passes = self.passing[run / VECTOR][run % VECTOR / 64] >> (run % 64) & 1 == 1;
            mask[start / 64] ^= u64::from(passes != before) << (start % 64);
            before = passes;
        };
        match self.vectors.begins(vector)? {
            Some(begins) => {
                runs.zip(mask::rows(&begins)).for_each(|(run, start)| change(run, start));
            }
            None => {
                let mut lengths = self.lengths.borrow_mut();
                let lengths = lengths.of(self.vectors.node.child(1), runs.clone())?;
                self.vectors.check_lengths(vector, lengths)?;
                let mut start = 0;
                for (run, length) in runs.zip(lengths) {
                    change(run, start);
                    start += usize::from(*length);
                }
            }
        }
        mask::parities(mask);
        Ok(())
    }
}
