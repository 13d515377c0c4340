//! Run lengths: the value of each run of equal ones, and where in its vector it begins.
//!
//! ```text
//! child 0, values:  the value of each run, of the node's own type
//! child 1, starts:  U16 of each run: the slot in its vector where it begins
//! buffer 0, first:  V x u32: the number of the first run of each vector
//!
//! values   a     b  c     a                  a     b
//! starts   0     5  7     900                0     30        cut at vectors
//!          aaaaabbcccc...caaaaa...aaa      | aaaaaabbbbb...
//! ```
//!
//! Runs end with their vector, so that any vector decodes from its own: slot i has the value
//! of the last run that begins at or before it, which a GPU counts in a bitmap of starts. It
//! costs one run a vector at most. Ends in the chunk would take 17 bits where starts take 10,
//! and lengths would have to be added up.
//!
//! Runs of 30 values decode as fast as fresh memory is filled, runs of 2 at 2 ns a value (from
//! `ffor`; i32 and i64). Runs of up to 32 bytes at once and others exactly to their end took
//! twice as long for i64 in runs of 4: how long a run is cannot be predicted.
//!
//! What it costs to plan: runs of the sampled vectors are counted, which compares each value
//! with the one before; only if these promise less than the best encoding so far, all runs are
//! found and both children planned. It comes after dictionaries in `CODECS`: they do not look
//! at columns that something else makes much smaller, and so missed codes that are deltas
//! (weather_forecast.Column_2: 17 kB as dict, 22 as rle).

use std::ops::Range;

use super::io::{self, decode_some, mismatch, with_words};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::dict::saves;
use crate::encoding::plan::{self, Context, Plan};
use crate::error::{Result, ensure};
use crate::lanes::simd::multiversion;
use crate::lanes::{Mask, VECTOR};

pub(super) struct Rle;

/// Bits that the start of a run takes, at least, where runs are short.
const START_BITS: usize = 4;

/// Bytes that are filled at once, so that few lengths of runs differ in what is done.
const WIDE: usize = 64;

multiversion! {
    /// The slots where runs begin, the first always.
    fn borders<T: Words>(values: &[T; VECTOR]) -> Mask {
        let mut before = [values[0]; VECTOR];
        before[1..].copy_from_slice(&values[..VECTOR - 1]);
        let mut borders = [0; VECTOR / 64];
        let groups = values.as_chunks::<64>().0.iter().zip(before.as_chunks::<64>().0);
        for ((values, before), borders) in groups.zip(&mut borders) {
            for (i, (value, before)) in values.iter().zip(before).enumerate() {
                *borders |= u64::from(value != before) << i;
            }
        }
        borders[0] |= 1;
        borders
    }
}

/// A whole vector of values. Nulls take the value of the row before, the first ones the first
/// valid value; where there is none all take `least`. Slots past the end are like the last.
fn filled<T: Words>(input: &Input<'_>, words: &[T], vector: usize, least: T) -> [T; VECTOR] {
    let found = &words[vector * VECTOR..words.len().min((vector + 1) * VECTOR)];
    if let (Ok(found), None) = (<&[T; VECTOR]>::try_from(found), input.valid) {
        return *found;
    }
    let mut values = [T::ZERO; VECTOR];
    values[..found.len()].copy_from_slice(found);
    io::fill_nulls(&mut values, &input.vector_valid(vector), least);
    values
}

/// The least valid value, for vectors that have none.
fn least<T: Words>(input: &Input<'_>, words: &[T]) -> T {
    input.valid.and_then(|_| io::least_valid(input, words)).unwrap_or(T::ZERO)
}

/// The runs of a chunk.
struct Runs<T> {
    values: Vec<T>,
    starts: Vec<u16>,
    /// Number of the first run of each vector.
    first: Vec<u32>,
}

impl<T: Words> Runs<T> {
    fn of(input: &Input<'_>, words: &[T]) -> Self {
        let mut runs = Self { values: Vec::new(), starts: Vec::new(), first: Vec::new() };
        let least = least(input, words);
        for vector in 0..input.vectors() {
            runs.first.push(runs.values.len() as u32);
            let values = filled(input, words, vector, least);
            for (word, mut bits) in borders(&values).into_iter().enumerate() {
                while bits != 0 {
                    let slot = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    runs.starts.push(slot as u16);
                    runs.values.push(values[slot]);
                }
            }
        }
        runs
    }

    /// Values and starts, to be encoded.
    fn children(&self, physical: Physical) -> [Input<'_>; 2] {
        [
            Input::new(physical, T::values(&self.values)),
            Input::new(Physical::U16, u16::values(&self.starts)),
        ]
    }
}

/// Runs in some vectors, and how many values these have.
pub(super) fn count<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vectors: impl Iterator<Item = usize>,
) -> (usize, usize) {
    let of_vector = |vector: usize| {
        let borders = borders(&filled(input, words, vector, T::ZERO));
        let runs: u32 = borders.iter().map(|word| word.count_ones()).sum();
        (runs as usize, (input.len() - vector * VECTOR).min(VECTOR))
    };
    vectors.map(of_vector).fold((0, 0), |sum, found| (sum.0 + found.0, sum.1 + found.1))
}

/// Whether `runs` among `values` values promise less than `limit` bytes for `rows`: values
/// that are not kept save their share of these, and runs cost their starts.
pub(crate) fn may_pay(runs: usize, values: usize, rows: usize, limit: usize) -> bool {
    let saved = (values - runs) as u128 * limit as u128 * 8;
    saved > runs as u128 * rows as u128 * START_BITS as u128
}

fn estimate<T: Words>(input: &Input<'_>, words: &[T], context: &Context<'_>) -> Option<Estimate> {
    let (rows, limit) = (input.len(), context.limit);
    let (runs, values) = count(input, words, context.sampled_vectors(input.vectors()));
    if !may_pay(runs, values, rows, limit) {
        return None;
    }
    let runs = Runs::of(input, words);
    if !may_pay(runs.values.len(), rows, rows, limit) {
        return None;
    }
    let below = context.in_runs();
    let [values, starts] = runs.children(input.physical);
    let children = [plan::plan(&values, &below), plan::plan(&starts, &below)];
    let estimate = Estimate { children: children.into(), ..Estimate::of([input.vectors() * 4]) };
    Some(estimate).filter(|estimate| saves(estimate.stored_bytes(), limit))
}

fn encode<T: Words>(
    input: &Input<'_>,
    words: &[T],
    plan: &Plan,
    context: &Context<'_>,
) -> Result<Option<EncodedNode>> {
    let runs = Runs::of(input, words);
    let below = context.in_runs();
    let mut node = EncodedNode::new(Encoding::Rle, input.physical, input.len());
    for (child, plan) in runs.children(input.physical).iter().zip(&plan.children) {
        node.children.push(plan::encode(child, plan, &below)?);
    }
    node.buffers.push(bytemuck::cast_slice(&runs.first).to_vec());
    Ok(Some(node))
}

/// Checks where the runs of a vector of `rows` values begin.
fn check_starts(starts: &[u16], rows: usize) -> Result<()> {
    let first = starts.first().copied().unwrap_or_default();
    let last = starts.last().copied().unwrap_or_default();
    ensure!(
        first == 0 && usize::from(last) < rows,
        "the runs of a vector of {rows} values begin in slots {first} to {last}"
    );
    // Without a way out, so that several pairs are compared at once.
    let pairs = starts.iter().zip(starts.iter().skip(1));
    let ascend = pairs.fold(true, |ascend, (one, next)| ascend & (one < next));
    ensure!(ascend, "the runs of a vector do not begin one behind the other");
    Ok(())
}

/// The vectors of an encoded node.
pub(crate) struct Vectors<'a> {
    node: NodeView<'a>,
    first: &'a [u32],
}

impl<'a> Vectors<'a> {
    pub fn of(node: NodeView<'a>) -> Result<Self> {
        Ok(Self { node, first: node.typed(0)? })
    }

    /// The values of all runs.
    pub fn values(&self) -> NodeView<'a> {
        self.node.child(0)
    }

    fn starts(&self) -> NodeView<'a> {
        self.node.child(1)
    }

    /// The number of a vector's first run; past the last vector that of all runs.
    fn first(&self, vector: usize) -> usize {
        self.first.get(vector).map_or(self.values().len(), |first| *first as usize)
    }

    /// The numbers of the runs of some vectors.
    fn runs(&self, vectors: Range<usize>) -> Range<usize> {
        self.first(vectors.start)..self.first(vectors.end)
    }

    /// Values of a vector, of which the last may be short.
    fn rows(&self, vector: usize) -> usize {
        (self.node.len() - vector * VECTOR).min(VECTOR)
    }

    /// The numbers of a vector's runs, and the slots where they begin: 0, then ascending.
    pub fn vector(&self, vector: usize) -> Result<(Range<usize>, Vec<u16>)> {
        let runs = self.runs(vector..vector + 1);
        let starts = decode_some(self.starts(), runs.clone())?;
        check_starts(&starts, self.rows(vector))?;
        Ok((runs, starts))
    }

    fn validate(&self) -> Result<()> {
        let vectors = self.node.len().div_ceil(VECTOR);
        ensure!(
            self.first.len() == vectors,
            "first runs of {} vectors, {vectors} expected",
            self.first.len()
        );
        let first = self.first(0);
        ensure!(first == 0, "the first vector begins with run {first}, 0 expected");
        for vector in 0..vectors {
            let (runs, rows) = (self.runs(vector..vector + 1), self.rows(vector));
            ensure!(
                (1..=rows).contains(&runs.len()),
                "vector {vector} of {rows} values has runs {runs:?}"
            );
        }
        Ok(())
    }

    fn decode<T: Words>(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        let vectors = rows.start / VECTOR..rows.end.div_ceil(VECTOR);
        let all = self.runs(vectors.clone());
        let values: Vec<T> = decode_some(self.values(), all.clone())?;
        let starts: Vec<u16> = decode_some(self.starts(), all.clone())?;
        for (vector, out) in vectors.zip(out.chunks_mut(VECTOR)) {
            let runs = self.runs(vector..vector + 1);
            let runs = runs.start - all.start..runs.end - all.start;
            let starts = &starts[runs.clone()];
            check_starts(starts, out.len())?;
            fill(starts, &values[runs], out);
        }
        Ok(())
    }

    fn value(&self, row: usize) -> Result<Value> {
        let (runs, starts) = self.vector(row / VECTOR)?;
        let behind = starts.partition_point(|start| usize::from(*start) <= row % VECTOR);
        super::value(self.values(), runs.start + behind - 1)
    }
}

/// Writes the values of a vector whose starts have been checked.
fn fill<T: Words>(starts: &[u16], values: &[T], out: &mut [T]) {
    let wide = WIDE / size_of::<T>();
    let ends = starts[1..].iter().map(|start| usize::from(*start)).chain([out.len()]);
    for ((start, end), value) in starts.iter().zip(ends).zip(values) {
        let start = usize::from(*start);
        match out.get_mut(start..start + (end - start).next_multiple_of(wide)) {
            // The runs behind are written later.
            Some(some) => some.chunks_exact_mut(wide).for_each(|some| some.fill(*value)),
            None => out[start..end].fill(*value),
        }
    }
}

impl Codec for Rle {
    fn encoding(&self) -> Encoding {
        Encoding::Rle
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if !matches!(node.physical().bits(), Some(8 | 16 | 32 | 64)) {
            return Err(mismatch(node));
        }
        node.expect_shape(2, 1, 0)?;
        let (values, starts) = (node.child(0), node.child(1));
        ensure!(
            values.physical() == node.physical(),
            "runs of type {:?} of values of type {:?}",
            values.physical(),
            node.physical()
        );
        ensure!(
            (1..=node.len()).contains(&values.len()),
            "{} runs of {} values",
            values.len(),
            node.len()
        );
        ensure!(
            starts.physical() == Physical::U16 && starts.len() == values.len(),
            "{} starts of type {:?} for {} runs",
            starts.len(),
            starts.physical(),
            values.len()
        );
        ensure!(
            !node.children().any(|child| super::has(child, Encoding::Rle)),
            "runs of runs, which gain nothing and cost readers"
        );
        Vectors::of(node)?.validate()
    }

    fn plan(&self, input: &Input<'_>, context: &Context<'_>) -> Option<Estimate> {
        if !context.may_search(input.len(), context.limit) || context.in_runs {
            return None;
        }
        with_words!(Values, input.values, words => estimate(input, words, context), None)
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        with_words!(Values, input.values, words => encode(input, words, plan, context), Ok(None))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        with_words!(Output, output, words => {
            Vectors::of(node)?.decode(rows, words)
        }, Err(mismatch(node)))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        Vectors::of(node)?.value(row)
    }
}

#[cfg(test)]
mod tests;
