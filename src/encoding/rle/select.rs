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

impl RunsTest<'_> {
    /// The verdicts on 64 runs from one on; 0 past the last one.
    fn passing_from(&self, run: usize) -> u64 {
        let word = |index: usize| self.passing.get(index / 16).map_or(0, |mask| mask[index % 16]);
        let (index, shift) = (run / 64, run % 64);
        match shift {
            0 => word(index),
            _ => word(index) >> shift | word(index + 1) << (64 - shift),
        }
    }
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
        // A vector has at most as many runs as values.
        let mut starts = [0_u16; VECTOR];
        match self.vectors.begins(vector)? {
            Some(begins) => {
                for (start, row) in starts.iter_mut().zip(mask::rows(&begins)) {
                    *start = row as u16;
                }
            }
            None => {
                let mut lengths = self.lengths.borrow_mut();
                let lengths = lengths.of(self.vectors.node.child(1), runs.clone())?;
                self.vectors.check_lengths(vector, lengths)?;
                let mut sum = 0;
                for (start, length) in starts.iter_mut().zip(lengths) {
                    *start = sum;
                    sum += length;
                }
            }
        }
        *mask = NONE;
        let mut before = 0;
        for (first, starts) in runs.clone().step_by(64).zip(starts.chunks(64)) {
            let passing = self.passing_from(first);
            let mut changes = passing ^ (passing << 1 | before);
            before = passing >> 63;
            // Runs of the next vector.
            let behind = runs.end - first;
            if behind < 64 {
                changes &= (1 << behind) - 1;
            }
            while changes != 0 {
                let start = usize::from(starts[changes.trailing_zeros() as usize]);
                mask[start / 64] ^= 1 << (start % 64);
                changes &= changes - 1;
            }
        }
        mask::parities(mask);
        Ok(())
    }
}
