//! Differences of neighbours per vector of 1,024 values, in an order in which lanes
//! are added up side by side (after FastLanes; Afroozeh and Boncz, VLDB 2023).
//!
//! ```text
//! value i = start + delta 0 + ... + delta i     i = lane * T + row
//! buffer 0, starts:  V x start, as wide as a value
//! child 0:           1,024 deltas a vector, signed; delta i at the place of (row, lane)
//! ```
//!
//! A lane of the packed child holds T neighbouring deltas: its rows are running sums, all
//! lanes at once, and a scan over their totals is left. FastLanes' base for each lane
//! instead costs 128 bytes a vector. Sorted columns shrink to half or less of `ffor`
//! (question_tags.Id 12.1 to 6.0 bits, bgg_reviews.index 11.1 to 1.2, with `pfor` 0.5);
//! decoding runs at 0.2 to 0.6 of its speed, planning takes 4 ns a sampled value. Lost:
//! nulls that repeat the value before them, which doubles the step behind (16 bits a
//! value instead of 3 for even steps with 4 nulls in 5,000).

use std::ops::Range;

use super::io::{OwnedValues, each_vector, mismatch, with_words};
use super::select::{Matcher, RangeTest, Selector, Verdict, by_word};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{self, Answer, SAMPLED_VECTORS, Statistics, sampled_vectors};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};
use crate::lanes::mask::{self, NONE};
use crate::lanes::simd::multiversion;
use crate::lanes::{self, Mask, VECTOR};

/// What deltas may be encoded as: what one decoder of lanes reads.
const CHILDREN: [Encoding; 4] =
    [Encoding::Plain, Encoding::Ffor, Encoding::Pfor, Encoding::Constant];

/// The most lanes of a vector: those of bytes.
const MOST_LANES: usize = VECTOR / 8;

pub(super) struct Delta;

multiversion! {
    /// Differences of neighbours, in lanes' order; the first is `first`.
    fn differences<T: Words>(values: &[T; VECTOR], first: T, deltas: &mut [T; VECTOR]) {
        let mut natural = [first; VECTOR];
        for (delta, pair) in natural[1..].iter_mut().zip(values.windows(2)) {
            *delta = pair[1].wrapping_sub(pair[0]);
        }
        for row in 0..T::BITS {
            let deltas = &mut deltas[lanes::index(row, 0)..][..T::LANES];
            for (lane, delta) in deltas.iter_mut().enumerate() {
                *delta = natural[lane * T::BITS + row];
            }
        }
    }
}

multiversion! {
    /// What comes before each lane: the sums of the lanes before it, from `start` on.
    fn lane_starts<T: Words>(deltas: &[T; VECTOR], start: T) -> [T; MOST_LANES] {
        let mut sums = [T::ZERO; MOST_LANES];
        for row in 0..T::BITS {
            let deltas = &deltas[lanes::index(row, 0)..][..T::LANES];
            for (delta, sum) in deltas.iter().zip(&mut sums) {
                *sum = sum.wrapping_add(*delta);
            }
        }
        let mut before = start;
        for sum in &mut sums[..T::LANES] {
            let total = *sum;
            *sum = before;
            before = before.wrapping_add(total);
        }
        sums
    }
}

multiversion! {
    /// Adds up deltas in lanes' order, which become running sums of their lanes.
    fn add_up<T: Words>(deltas: &mut [T; VECTOR], start: T, values: &mut [T; VECTOR]) {
        let mut sums = [T::ZERO; MOST_LANES];
        let sums = &mut sums[..T::LANES];
        for row in 0..T::BITS {
            let deltas = &mut deltas[lanes::index(row, 0)..][..T::LANES];
            for (delta, sum) in deltas.iter_mut().zip(&mut *sums) {
                *sum = sum.wrapping_add(*delta);
                *delta = *sum;
            }
        }
        let mut before = start;
        for sum in &mut *sums {
            let total = *sum;
            *sum = before;
            before = before.wrapping_add(total);
        }
        for (lane, values) in values.chunks_exact_mut(T::BITS).enumerate() {
            for (row, value) in values.iter_mut().enumerate() {
                *value = sums[lane].wrapping_add(deltas[lanes::index(row, lane)]);
            }
        }
    }
}

multiversion! {
    /// Which values are in `low..=low + span`, wrapping. The values of a lane are neighbours, so
    /// that its verdicts are a word of the mask: values are compared as they are added up, all
    /// lanes at once, and never stored.
    fn select_sums<T: Words>(
        deltas: &[T; VECTOR],
        starts: &[T; MOST_LANES],
        low: T,
        span: T,
        mask: &mut Mask,
    ) {
        let mut sums = *starts;
        let sums = &mut sums[..T::LANES];
        sums.iter_mut().for_each(|sum| *sum = sum.wrapping_sub(low));
        let mut verdicts = [T::ZERO; MOST_LANES];
        let verdicts = &mut verdicts[..T::LANES];
        for row in 0..T::BITS {
            let deltas = &deltas[lanes::index(row, 0)..][..T::LANES];
            let bit = T::truncate(1 << row);
            for ((delta, sum), verdict) in deltas.iter().zip(&mut *sums).zip(&mut *verdicts) {
                *sum = sum.wrapping_add(*delta);
                *verdict |= if *sum <= span { bit } else { T::ZERO };
            }
        }
        bytemuck::bytes_of_mut(mask).copy_from_slice(bytemuck::cast_slice(verdicts));
    }
}

/// Values compared with ranges as they are added up.
struct SumsTest<'a, T> {
    node: NodeView<'a>,
    starts: &'a [T],
    matcher: Matcher,
}

impl<T: Words> Selector for SumsTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let mut deltas = [T::ZERO; VECTOR];
        unpack(self.node, vector, &mut deltas)?;
        // Keys of integers are the values, moved.
        let moved = T::truncate(self.matcher.key.of_bits(0));
        let start = self.starts[vector].wrapping_add(moved);
        let Some(ranges) = self.matcher.passes_over_values() else {
            let mut keys = [T::ZERO; VECTOR];
            add_up(&mut deltas, start, &mut keys);
            self.matcher.keys(&keys, mask);
            return Ok(());
        };
        let starts = lane_starts(&deltas, start);
        *mask = NONE;
        for (low, high) in ranges {
            let mut kept = NONE;
            let (low, span) = (T::truncate(*low), T::truncate(high - low));
            select_sums(&deltas, &starts, low, span, &mut kept);
            mask::unite(mask, &kept);
        }
        Ok(())
    }
}

/// A delta like the others of a vector: the middle one of three between valid values,
/// zero if there are none.
fn typical<T: Words>(values: &[T], is_valid: impl Fn(usize) -> bool) -> T {
    // With its sign bit flipped a signed number compares like an unsigned one.
    let flip = T::truncate(1 << (T::BITS - 1));
    let found = [1, 2, 3].map(|quarter| {
        let first = (values.len() * quarter / 4).max(1);
        let slot = (first..values.len()).find(|slot| is_valid(*slot) && is_valid(slot - 1))?;
        Some(values[slot].wrapping_sub(values[slot - 1]).wrapping_add(flip))
    });
    let mut found: Vec<T> = found.into_iter().flatten().collect();
    found.sort_unstable();
    found.get(found.len() / 2).map_or(T::ZERO, |middle| middle.wrapping_add(flip))
}

/// A whole vector of values: slots that are null or past the end are `delta` from the
/// one before them; those before the first valid value lead up to it.
fn filled<T: Words>(values: &[T], delta: T, is_valid: impl Fn(usize) -> bool) -> [T; VECTOR] {
    let first = (0..values.len()).find(|slot| is_valid(*slot));
    let mut value = first.map_or(T::ZERO, |slot| {
        let behind = T::truncate(delta.widen().wrapping_mul(slot as u64 + 1));
        values[slot].wrapping_sub(behind)
    });
    std::array::from_fn(|slot| {
        value = if is_valid(slot) { values[slot] } else { value.wrapping_add(delta) };
        value
    })
}

/// The deltas of a vector, in lanes' order, and what they start from. Those that are
/// free to choose, the first and those to nulls and past the end, are like the others.
fn vector_deltas<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vector: usize,
    deltas: &mut [T; VECTOR],
) -> T {
    let values = &words[vector * VECTOR..words.len().min((vector + 1) * VECTOR)];
    if let (Ok(values), None) = (<&[T; VECTOR]>::try_from(values), input.valid) {
        let first = typical(values, |_| true);
        differences(values, first, deltas);
        return values[0].wrapping_sub(first);
    }
    let valid = input.vector_valid(vector);
    let is_valid = |slot: usize| valid[slot / 64] >> (slot % 64) & 1 == 1;
    let first = typical(values, is_valid);
    let filled = filled(values, first, is_valid);
    differences(&filled, first, deltas);
    filled[0].wrapping_sub(first)
}

/// What deltas of a chunk of so many vectors are planned as: whether all are equal only shows
/// where all are looked at.
fn planned(vectors: usize) -> &'static [Encoding] {
    let [all @ .., _] = &CHILDREN;
    if vectors <= SAMPLED_VECTORS { &CHILDREN } else { all }
}

/// The deltas of some vectors.
fn sampled<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vectors: impl Iterator<Item = usize> + Clone,
) -> OwnedValues {
    let mut deltas = vec![T::ZERO; vectors.clone().count() * VECTOR];
    let (places, _) = deltas.as_chunks_mut::<VECTOR>();
    for (vector, deltas) in vectors.zip(&mut *places) {
        vector_deltas(input, words, vector, deltas);
    }
    T::owned(deltas)
}

fn encode<T: Words>(
    input: &Input<'_>,
    words: &[T],
    plan: &Plan,
    context: &Context<'_>,
) -> Result<Option<EncodedNode>> {
    let (Some(physical), [planned]) = (input.physical.signed(), plan.children.as_slice()) else {
        return Ok(None);
    };
    let mut deltas = vec![T::ZERO; input.vectors() * VECTOR];
    let (vectors, _) = deltas.as_chunks_mut::<VECTOR>();
    let starts: Vec<T> = (vectors.iter_mut().enumerate())
        .map(|(vector, deltas)| vector_deltas(input, words, vector, deltas))
        .collect();
    let child = Input::new(physical, T::values(&deltas));
    let below = context.below();
    let constant = plan::plan_input_among(&[Encoding::Constant], &child, &below);
    let is_constant = constant.encoding == Encoding::Constant;
    let child = plan::encode(&child, if is_constant { &constant } else { planned }, &below)?;
    if child.encoding == Encoding::Plain {
        return Ok(None);
    }
    let mut node = EncodedNode::new(Encoding::Delta, input.physical, input.len());
    node.buffers.push(bytemuck::cast_slice(&starts).to_vec());
    node.children.push(child);
    Ok(Some(node))
}

/// The deltas of a vector, in lanes' order.
fn unpack<T: Words>(node: NodeView<'_>, vector: usize, deltas: &mut [T; VECTOR]) -> Result<()> {
    let rows = vector * VECTOR..(vector + 1) * VECTOR;
    super::decode(node.child(0), rows, T::output(deltas))
}

fn decode<T: Words>(node: NodeView<'_>, rows: Range<usize>, out: &mut [T]) -> Result<()> {
    let starts: &[T] = node.typed(0)?;
    let mut deltas = [T::ZERO; VECTOR];
    each_vector(rows, out, |vector, values| {
        unpack(node, vector, &mut deltas)?;
        add_up(&mut deltas, starts[vector], values);
        Ok(())
    })
}

fn value<T: Words>(node: NodeView<'_>, row: usize) -> Result<Value> {
    let (vector, slot) = (row / VECTOR, row % VECTOR);
    let mut deltas = [T::ZERO; VECTOR];
    unpack(node, vector, &mut deltas)?;
    let starts: &[T] = node.typed(0)?;
    let value = (0..=slot).fold(starts[vector], |sum, index| {
        sum.wrapping_add(deltas[lanes::index(index % T::BITS, index / T::BITS)])
    });
    Ok(Value::Word(value.widen()))
}

impl Codec for Delta {
    fn encoding(&self) -> Encoding {
        Encoding::Delta
    }

    fn takes(&self, physical: Physical) -> bool {
        physical.signed().is_some()
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(1, 1, 0)?;
        let Some(physical) = node.physical().signed() else { return Err(mismatch(node)) };
        let vectors = node.len().div_ceil(VECTOR);
        let child = node.child(0);
        ensure!(
            child.physical() == physical && Some(child.len()) == vectors.checked_mul(VECTOR),
            "{} deltas of type {:?} for {} values of type {:?}",
            child.len(),
            child.physical(),
            node.len(),
            node.physical()
        );
        ensure!(
            CHILDREN.contains(&child.encoding()),
            "deltas encoded as {}, which is not allowed",
            child.encoding()
        );
        let size = physical.bits().map_or(0, |bits| bits / 8);
        let found = node.buffer(0).len();
        ensure!(
            Some(found) == vectors.checked_mul(size),
            "{found} bytes of starts for {vectors} vectors of type {:?}",
            node.physical()
        );
        Ok(())
    }

    fn role(&self, _: NodeView<'_>, _: usize) -> NodeRole {
        NodeRole::Deltas
    }

    /// The deltas of sampled vectors are planned for those of all. The vectors are those that a
    /// plan of all deltas would look at. None where deltas do not shrink.
    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        if !context.may_nest() {
            return Ok(None);
        }
        let bytes = values.word_bytes();
        let vectors = values.vectors();
        let [deltas] = statistics::children(values, Encoding::Delta)?;
        let child = plan::plan_among(planned(vectors), &*deltas, &context.below())?;
        let shrinks = child.encoding != Encoding::Plain;
        let estimate = || Estimate { children: vec![child], ..Estimate::of([vectors * bytes]) };
        Ok(shrinks.then(estimate))
    }

    /// The deltas of sampled vectors.
    fn derive(&self, input: &Input<'_>, _: u64) -> Option<Derived> {
        let physical = input.physical.signed()?;
        let deltas = with_words!(Values, input.values, words => {
            sampled(input, words, sampled_vectors(input.vectors()))
        }, return None);
        let children = Derived::of([Derivative::new(physical, deltas)]);
        Some(Derived { is_sample: true, ..children })
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
        with_words!(Output, output, words => decode(node, rows, words), Err(mismatch(node)))
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        fn of<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
            let (starts, matcher): (&[T], _) = (node.typed(0)?, Matcher::new(test));
            Ok(Verdict::some(SumsTest { node, starts, matcher }))
        }
        by_word!(node, of(node, &test.of_integers()))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        match node.physical().bits() {
            Some(8) => value::<u8>(node, row),
            Some(16) => value::<u16>(node, row),
            Some(32) => value::<u32>(node, row),
            _ => value::<u64>(node, row),
        }
    }
}

#[cfg(test)]
mod tests;
