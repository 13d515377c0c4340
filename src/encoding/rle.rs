//! Run lengths: the value of each run of equal ones, and how long it is.
//!
//! ```text
//! child 0, values:   the value of each run, of the node's own type
//! buffer 0, first:   V x u32: the number of the first run of each vector
//!   child 1, lengths:  U16 of each run: how many values it has
//! or
//!   buffer 1, begins:  a bit for each value: 1 where a run begins
//!
//! values   a     b  c     a                  a     b
//! lengths  5     2  893   124                30    ...       cut at vectors
//! begins   10000 10 100.. 100...             100.. 100...
//!          aaaaabbcccc...caaaaa...aaa      | aaaaaabbbbb...
//! ```
//!
//! Runs end with their vector, so that any vector decodes from its own. It costs one run a vector
//! at most. Lengths are small numbers without an order: packed, each can be read alone, and those
//! of a vector are added up by a GPU's warp. Starts, as differences, took 4 bytes a vector more.
//!
//! Of runs of a few values a bit for each value takes about as much as lengths, and a GPU finds
//! the run of a value by counting bits. Bits are taken where they cost little ([`estimate_of`]).
//!
//! Runs of 30 values decode as fast as fresh memory is filled, runs of 2 at 2 ns a value (from `ffor`;
//! i32 and i64, with starts in the place of lengths). Runs of up to 32 bytes at once and others
//! exactly to their end took twice as long for i64 in runs of 4: how long a run is cannot be
//! predicted.
//!
//! What it costs to plan: runs of the sampled vectors are counted, which compares each value
//! with the one before; only if these promise less than the best encoding so far, all runs are
//! found and both children planned. It comes after dictionaries in `CODECS`: they do not look
//! at columns that something else makes much smaller, and so missed codes with small differences
//! (weather_forecast.Column_2: 17 kB as dict, 22 as rle).

use std::ops::Range;

use super::io::{self, OwnedValues, decode_some, decoded_words, mismatch, with_words};
use super::select::{RangeTest, Verdict, by_word};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::dict::saves;
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{self, Answer, SampledRuns, Statistics};
use crate::encoding::tree::{EncodingParameters, NodeRole};
use crate::error::{Result, ensure};
use crate::lanes::simd::multiversion;
use crate::lanes::{Mask, VECTOR, mask};

mod select;

pub(super) struct Rle;

/// Bits that the length of a run takes, at least, where runs are short.
const LENGTH_BITS: usize = 4;

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
    lengths: Vec<u16>,
    /// Number of the first run of each vector.
    first: Vec<u32>,
    /// The values where runs begin: a mask for each vector.
    begins: Vec<Mask>,
}

impl<T: Words> Runs<T> {
    fn of(input: &Input<'_>, words: &[T]) -> Self {
        let (mut runs, mut lengths) = (Vec::new(), Vec::new());
        let (mut first, mut begins) = (Vec::new(), Vec::new());
        let least = least(input, words);
        for vector in 0..input.vectors() {
            first.push(runs.len() as u32);
            let values = filled(input, words, vector, least);
            let borders = borders(&values);
            runs.extend(mask::rows(&borders).map(|slot| values[slot]));
            push_lengths(&borders, (input.len() - vector * VECTOR).min(VECTOR), &mut lengths);
            begins.push(borders);
        }
        Self { values: runs, lengths, first, begins }
    }

    /// Values and lengths, to be encoded.
    fn children(&self, physical: Physical) -> [Input<'_>; 2] {
        [
            Input::new(physical, T::values(&self.values)),
            Input::new(Physical::U16, u16::values(&self.lengths)),
        ]
    }
}

/// Appends the lengths of runs that begin at these of `rows` slots, the first among them.
fn push_lengths(begins: &Mask, rows: usize, lengths: &mut Vec<u16>) {
    let mut last = 0;
    for (index, begins) in begins.iter().enumerate() {
        let mut left = if index == 0 { begins & !1 } else { *begins };
        while left != 0 {
            let slot = 64 * index + left.trailing_zeros() as usize;
            left &= left - 1;
            lengths.push((slot - last) as u16);
            last = slot;
        }
    }
    lengths.push((rows - last) as u16);
}

/// Runs in some vectors, and the rows of these.
pub(super) fn count<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vectors: impl Iterator<Item = usize>,
) -> SampledRuns {
    let mut sum = SampledRuns::default();
    for vector in vectors {
        let borders = borders(&filled(input, words, vector, T::ZERO));
        sum.runs += borders.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        sum.rows += input.rows_of(vector).len();
    }
    sum
}

/// Whether `runs` among `values` values promise less than `limit` bytes for `rows`: values
/// that are not kept save their share of these, and runs cost their lengths.
fn may_pay(runs: usize, values: usize, rows: usize, limit: usize) -> bool {
    let saved = (values - runs) as u128 * limit as u128 * 8;
    saved > runs as u128 * rows as u128 * LENGTH_BITS as u128
}

/// Encodings of lengths.
const LENGTHS: [Encoding; 4] =
    [Encoding::Constant, Encoding::Plain, Encoding::Ffor, Encoding::Pfor];

/// The estimate of `rows` values in runs, by the plans of values and lengths: with a bit for each
/// value instead of lengths if bits take at most half as much again as lengths, the node at most
/// an eighth more, and it pays off against `limit` bytes. Without lengths it has one child.
fn estimate_of(mut children: Vec<Plan>, rows: usize, limit: usize) -> Estimate {
    let (first, bits) = (rows.div_ceil(VECTOR) * 4, rows.div_ceil(8));
    let by_lengths = Estimate::of([first]);
    let by_bits = Estimate::of([first, bits]);
    let [values, lengths] = [0, 1].map(|child| children.get(child).map_or(0, |plan| plan.bytes));
    let with_lengths = by_lengths.own.saturating_add(values).saturating_add(lengths);
    let with_bits = by_bits.own.saturating_add(values);
    let are_short = bits <= lengths.saturating_add(lengths / 2);
    let costs_little = with_bits <= with_lengths.saturating_add(with_lengths / 8);
    if are_short && costs_little && saves(with_bits, limit) {
        children.truncate(1);
        return Estimate { children, ..by_bits };
    }
    Estimate { children, ..by_lengths }
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
    if plan.children.len() == 1 {
        let begins: &[u8] = bytemuck::cast_slice(&runs.begins);
        node.buffers.push(begins[..input.len().div_ceil(8)].to_vec());
    }
    Ok(Some(node))
}

/// The vectors of an encoded node.
struct Vectors<'a> {
    node: NodeView<'a>,
    first: &'a [u32],
    /// Where runs begin, if there are no lengths.
    begins: Option<&'a [u8]>,
}

impl<'a> Vectors<'a> {
    fn of(node: NodeView<'a>) -> Result<Self> {
        let begins = if node.child_count() == 1 { Some(node.typed(1)?) } else { None };
        Ok(Self { node, first: node.typed(0)?, begins })
    }

    /// The values of all runs.
    fn values(&self) -> NodeView<'a> {
        self.node.child(0)
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

    /// The lengths of the runs of some vectors, which add up to the values of each.
    fn lengths(&self, vectors: Range<usize>) -> Result<Vec<u16>> {
        let all = self.runs(vectors.clone());
        if self.begins.is_none() {
            let lengths = decode_some(self.node.child(1), all.clone())?;
            for vector in vectors {
                let runs = self.runs(vector..vector + 1);
                self.check_lengths(vector, &lengths[runs.start - all.start..runs.end - all.start])?;
            }
            return Ok(lengths);
        }
        let mut lengths = Vec::with_capacity(all.len());
        for vector in vectors {
            if let Some(begins) = self.begins(vector)? {
                push_lengths(&begins, self.rows(vector), &mut lengths);
            }
        }
        Ok(lengths)
    }

    /// Checks that the lengths of the runs of a vector are those of its values.
    fn check_lengths(&self, vector: usize, lengths: &[u16]) -> Result<()> {
        let rows = self.rows(vector);
        let sum: u32 = lengths.iter().map(|length| u32::from(*length)).sum();
        let least = lengths.iter().min().copied().unwrap_or_default();
        ensure!(
            sum as usize == rows && least > 0,
            "the runs of vector {vector} have {sum} values, {least} at least, of {rows}"
        );
        Ok(())
    }

    /// Where the runs of a vector begin, if bits say so.
    fn begins(&self, vector: usize) -> Result<Option<Mask>> {
        let Some(begins) = self.begins else { return Ok(None) };
        let mut begins = mask::of_bitmap(begins, vector);
        mask::intersect(&mut begins, &mask::first(self.rows(vector)));
        let (found, runs) = (mask::count(&begins), self.runs(vector..vector + 1));
        ensure!(
            begins[0] & 1 == 1 && found == runs.len(),
            "{found} runs of vector {vector} begin, {} expected, the first at slot 0",
            runs.len()
        );
        Ok(Some(begins))
    }

    fn validate(&self) -> Result<()> {
        let vectors = self.node.len().div_ceil(VECTOR);
        ensure!(
            self.first.len() == vectors,
            "first runs of {} vectors, {vectors} expected",
            self.first.len()
        );
        if let Some(begins) = self.begins {
            let expected = self.node.len().div_ceil(8);
            ensure!(
                begins.len() == expected,
                "{} bytes of bits where runs begin, {expected} expected",
                begins.len()
            );
        }
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
        let lengths = self.lengths(vectors.clone())?;
        for (vector, out) in vectors.zip(out.chunks_mut(VECTOR)) {
            let runs = self.runs(vector..vector + 1);
            let runs = runs.start - all.start..runs.end - all.start;
            fill(&lengths[runs.clone()], &values[runs], out);
        }
        Ok(())
    }

    fn value(&self, row: usize) -> Result<Value> {
        let vector = row / VECTOR;
        let mut behind = 0;
        let ends = self.lengths(vector..vector + 1)?.into_iter().map(|length| {
            behind += usize::from(length);
            behind
        });
        let before = ends.take_while(|end| *end <= row % VECTOR).count();
        super::value(self.values(), self.first(vector) + before)
    }
}

/// The runs of a node that is read a vector at a time: decoded once, as those of a vector are a part of
/// what is packed together.
pub(crate) struct RunCursor<'a> {
    vectors: Vectors<'a>,
    lengths: Vec<u16>,
    /// The values of the runs, as words of so many bits are in memory.
    values: Vec<u64>,
    bits: usize,
}

impl<'a> RunCursor<'a> {
    /// The runs of a node.
    pub fn new(node: NodeView<'a>) -> Result<Self> {
        let values = by_word!(node, decoded_words(node.child(0)))?;
        Self::with_values(node, values, node.physical().bits().unwrap_or(0))
    }

    /// The same with other values of the runs, words of so many bits as they are in memory.
    pub fn with_values(node: NodeView<'a>, values: Vec<u64>, bits: usize) -> Result<Self> {
        let vectors = Vectors::of(node)?;
        let lengths = vectors.lengths(0..node.len().div_ceil(VECTOR))?;
        Ok(Self { vectors, lengths, values, bits })
    }

    /// The words of some rows, which begin with a vector.
    pub fn words<T: Words>(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        if self.bits != T::BITS {
            return Err(mismatch(self.vectors.node));
        }
        let values = &bytemuck::cast_slice::<u64, T>(&self.values)[..self.lengths.len()];
        for (vector, out) in (rows.start / VECTOR..).zip(out.chunks_mut(VECTOR)) {
            let runs = self.vectors.runs(vector..vector + 1);
            fill(&self.lengths[runs.clone()], &values[runs], out);
        }
        Ok(())
    }
}

/// Writes the values of a vector, whose lengths add up to it.
fn fill<T: Words>(lengths: &[u16], values: &[T], out: &mut [T]) {
    let wide = WIDE / size_of::<T>();
    let mut start = 0;
    for (length, value) in lengths.iter().zip(values) {
        let end = start + usize::from(*length);
        match out.get_mut(start..start + (end - start).next_multiple_of(wide)) {
            // The runs behind are written later.
            Some(some) => some.chunks_exact_mut(wide).for_each(|some| some.fill(*value)),
            None => out[start..end].fill(*value),
        }
        start = end;
    }
}

impl Codec for Rle {
    fn encoding(&self) -> Encoding {
        Encoding::Rle
    }

    fn takes(&self, physical: Physical) -> bool {
        matches!(physical.bits(), Some(8..=64))
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if !matches!(node.physical().bits(), Some(8 | 16 | 32 | 64)) {
            return Err(mismatch(node));
        }
        match node.child_count() {
            1 => node.expect_shape(1, 2, 0)?,
            _ => node.expect_shape(2, 1, 0)?,
        }
        let values = node.child(0);
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
        if let Some(lengths) = node.children().nth(1) {
            ensure!(
                lengths.physical() == Physical::U16 && lengths.len() == values.len(),
                "{} lengths of type {:?} for {} runs",
                lengths.len(),
                lengths.physical(),
                values.len()
            );
            ensure!(
                LENGTHS.contains(&lengths.encoding()),
                "lengths encoded as {}, which is not allowed",
                lengths.encoding()
            );
        }
        ensure!(
            !node.children().any(|child| super::has(child, Encoding::Rle)),
            "runs of runs, which gain nothing and cost readers"
        );
        Vectors::of(node)?.validate()
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        EncodingParameters::Rle { runs: node.child(0).len(), is_bitmap: node.child_count() == 1 }
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        [NodeRole::RunValues, NodeRole::RunLengths][index.min(1)]
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let (rows, limit) = (values.rows(), context.limit);
        if context.in_runs || !context.may_search(rows, limit) {
            return Ok(None);
        }
        let sampled = values.sampled_runs()?;
        if !may_pay(sampled.runs, sampled.rows, rows, limit) {
            return Ok(None);
        }
        let runs = values.search(Encoding::Rle, 0)?;
        if !runs.is_some_and(|runs| may_pay(runs, rows, rows, limit)) {
            return Ok(None);
        }
        let below = context.in_runs();
        let [run_values, lengths] = statistics::children(values, Encoding::Rle)?;
        let children =
            vec![plan::plan(&*run_values, &below)?, plan::plan_among(&LENGTHS, &*lengths, &below)?];
        let estimate = estimate_of(children, rows, limit);
        Ok(Some(estimate).filter(|estimate| saves(estimate.stored_bytes(), limit)))
    }

    /// Values and lengths of all runs.
    fn derive(&self, input: &Input<'_>, _: u64) -> Option<Derived> {
        let (values, lengths) = with_words!(Values, input.values, words => {
            let Runs { values, lengths, .. } = Runs::of(input, words);
            (Words::owned(values), lengths)
        }, return None);
        let found = lengths.len();
        let lengths = Derivative::new(Physical::U16, OwnedValues::W16(lengths));
        let children = Derived::of([Derivative::new(input.physical, values), lengths]);
        Some(Derived { found, ..children })
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

    fn cursor<'a>(&self, node: NodeView<'a>) -> Result<super::Cursor<'a>> {
        RunCursor::new(node).map(super::Cursor::Runs)
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        select::select(node, test)
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        Vectors::of(node)?.value(row)
    }
}

#[cfg(test)]
mod tests;
