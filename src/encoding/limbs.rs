//! Integers of 128 and 256 bits (decimals) as 64-bit limbs.
//!
//! ```text
//! child 0: limb of bits 0..64 | child 1: bits 64..128 | ...
//! ```
//!
//! The last child is signed and its sign fills all higher bits, the others are
//! unsigned; there are as few as hold every valid value of the chunk. Most
//! decimals fit 64 bits, and are then one child of ordinary signed integers.

use std::ops::Range;

use super::io::{OwnedValues, mismatch};
use super::select::{self, RangeTest, Verdict};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{Answer, Statistics};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};
use crate::lanes::VECTOR;
use crate::ranges::{Key, Order, Ranges};
use arrow_buffer::i256;

pub(super) struct Limbs;

/// 64 copies of the sign bit.
fn sign(limb: u64) -> u64 {
    ((limb as i64) >> 63) as u64
}

/// The columns of limbs that hold all valid values; values under nulls are zero.
fn split<const N: usize>(input: &Input<'_>, words: &[[u64; N]]) -> Vec<Vec<u64>> {
    // A limb is needed if it is not the sign of the one below.
    let needed = |limb: usize| {
        let differs = |value: &[u64; N]| value[limb] != sign(value[limb - 1]);
        match input.valid {
            None => words.iter().any(differs),
            Some(_) => input.valid_rows().any(|row| differs(&words[row])),
        }
    };
    let count = (1..N).rev().find(|limb| needed(*limb)).map_or(1, |limb| limb + 1);
    let column = |limb: usize| -> Vec<u64> {
        match input.valid {
            None => words.iter().map(|value| value[limb]).collect(),
            Some(_) => (words.iter().enumerate())
                .map(|(row, value)| if input.is_valid(row) { value[limb] } else { 0 })
                .collect(),
        }
    };
    (0..count).map(column).collect()
}

/// The limbs that values need; none of other values.
fn columns(input: &Input<'_>) -> Option<Vec<Vec<u64>>> {
    match input.values {
        Values::W128(words) => Some(split(input, words)),
        Values::W256(words) => Some(split(input, words)),
        _ => None,
    }
}

/// The children's inputs.
fn children<'a>(columns: &'a [Vec<u64>], input: &Input<'a>) -> Vec<Input<'a>> {
    let last = columns.len() - 1;
    let physical = |index| if index == last { Physical::I64 } else { Physical::U64 };
    (columns.iter().enumerate())
        .map(|(index, column)| Input {
            physical: physical(index),
            values: Values::W64(column),
            ..*input
        })
        .collect()
}

/// Rows that are decoded limb by limb before the next, so that limbs stay in cache.
const BLOCK: usize = 8 * VECTOR;

fn decode<const N: usize>(
    node: NodeView<'_>,
    rows: Range<usize>,
    out: &mut [[u64; N]],
) -> Result<()> {
    let count = node.child_count();
    let mut limbs = [0; BLOCK];
    for (start, out) in rows.clone().step_by(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let limbs = &mut limbs[..out.len()];
        for (index, child) in node.children().enumerate() {
            super::decode(child, start..start + out.len(), Output::W64(limbs))?;
            // The last limb's sign fills those above.
            let fill = if index + 1 == count { N } else { index + 1 };
            for (value, limb) in out.iter_mut().zip(&*limbs) {
                value[index] = *limb;
                value[index + 1..fill].fill(sign(*limb));
            }
        }
    }
    Ok(())
}

/// Ranges that are compared limb by limb; of more, values are put together.
const MAX_RANGES: usize = 32;

/// The order of limbs below the last.
const LOWER: Key = Key { bits: 64, order: Order::Unsigned };

/// The keys of the limbs of a value that so many hold, the lowest first.
fn keys(value: i256, count: usize) -> [u64; 4] {
    let mut keys: [u64; 4] = bytemuck::cast(value.to_le_bytes());
    keys[count - 1] = Key::HIGHEST_WORD.of_bits(keys[count - 1]);
    keys
}

/// Values between two, given the keys of these: values whose highest limb is between theirs, and
/// those that have one of these whose other limbs are between.
fn between<'a>(
    limbs: &[NodeView<'a>],
    low: Option<&[u64]>,
    high: Option<&[u64]>,
    key: Key,
) -> Result<Verdict<'a>> {
    let [below @ .., highest] = limbs else { return Ok(Verdict::All) };
    let of_highest = |low: u64, high: u64| {
        select::words(*highest, &RangeTest::new(key, Ranges::between(low, high)))
    };
    let part = |bounds: Option<&[u64]>| bounds.map(|keys| keys[below.len()]);
    let (mut first, mut last) = (part(low).unwrap_or(0), part(high).unwrap_or(key.max()));
    // What is below the highest limb decides where that is one of the ends.
    let is_whole = |bounds: Option<&[u64]>, end: u64| {
        bounds.is_none_or(|keys| keys[..below.len()].iter().all(|key| *key == end))
    };
    let ends = [is_whole(low, 0), is_whole(high, u64::MAX)];
    let mut all = Verdict::None;
    if first == last && ends != [true; 2] {
        return Ok(of_highest(first, first)?.and(between(below, low, high, LOWER)?));
    }
    if !ends[0] {
        all = of_highest(first, first)?.and(between(below, low, None, LOWER)?);
        first += 1;
    }
    if !ends[1] {
        all = all.or(of_highest(last, last)?.and(between(below, None, high, LOWER)?));
        last -= 1;
    }
    if first <= last {
        all = all.or(of_highest(first, last)?);
    }
    Ok(all)
}

impl Codec for Limbs {
    fn encoding(&self) -> Encoding {
        Encoding::Limbs
    }

    fn takes(&self, physical: Physical) -> bool {
        matches!(physical, Physical::I128 | Physical::I256)
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        let most = match node.physical() {
            Physical::I128 => 2,
            Physical::I256 => 4,
            _ => return Err(mismatch(node)),
        };
        let count = node.child_count();
        ensure!((1..=most).contains(&count), "{count} limbs, 1 to {most} are allowed");
        node.expect_shape(count, 0, 0)?;
        for (index, child) in node.children().enumerate() {
            let physical = if index + 1 == count { Physical::I64 } else { Physical::U64 };
            ensure!(
                child.physical() == physical && child.len() == node.len(),
                "limb {index} holds {} values of type {:?}",
                child.len(),
                child.physical()
            );
        }
        Ok(())
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        NodeRole::Limb(index)
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let below = context.below();
        let limbs = values.children(Encoding::Limbs)?;
        let children = limbs.iter().map(|limb| plan::plan(&**limb, &below));
        Ok(Some(Estimate { children: children.collect::<Result<_, _>>()?, ..Estimate::of([]) }))
    }

    fn derive(&self, input: &Input<'_>, _: u64) -> Option<Derived> {
        let columns = columns(input)?;
        let last = columns.len() - 1;
        let limb = |(index, column): (usize, Vec<u64>)| Derivative {
            physical: if index == last { Physical::I64 } else { Physical::U64 },
            values: OwnedValues::W64(column),
            has_nulls: true,
        };
        Some(Derived::of(columns.into_iter().enumerate().map(limb)))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let Some(columns) = columns(input) else { return Ok(None) };
        let mut node = EncodedNode::new(Encoding::Limbs, input.physical, input.len());
        for (child, plan) in children(&columns, input).iter().zip(&plan.children) {
            node.children.push(plan::encode(child, plan, &context.below())?);
        }
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::W128(words) => decode(node, rows, words),
            Output::W256(words) => decode(node, rows, words),
            _ => Err(mismatch(node)),
        }
    }

    fn select_wide<'a>(&self, node: NodeView<'a>, ranges: &Ranges<i256>) -> Result<Verdict<'a>> {
        if let Some(words) = self.as_words(node) {
            return select::words(words, &RangeTest::new(Key::HIGHEST_WORD, ranges.of_one_word()));
        }
        let limbs: Vec<NodeView<'a>> = node.children().collect();
        // What so many limbs hold.
        let unused = (4 - limbs.len()) as u8 * 64;
        let held = Ranges::between(i256::MIN >> unused, i256::MAX >> unused);
        let within = ranges.intersection(&held);
        if within.as_slice().len() > MAX_RANGES {
            return Ok(select::decoded_wide(node, ranges));
        }
        within.iter().try_fold(Verdict::None, |all, (low, high)| {
            let [low, high] = [low, high].map(|end| keys(end, limbs.len()));
            Ok(all.or(between(&limbs, Some(&low), Some(&high), Key::HIGHEST_WORD)?))
        })
    }

    fn as_words<'a>(&self, node: NodeView<'a>) -> Option<NodeView<'a>> {
        (node.child_count() == 1).then(|| node.child(0))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        let mut limbs = [0; 4];
        for (limb, child) in limbs.iter_mut().zip(node.children()) {
            let Value::Word(word) = super::value(child, row)? else { return Err(mismatch(child)) };
            *limb = word;
        }
        let count = node.child_count();
        let fill = sign(limbs[count - 1]);
        limbs[count..].fill(fill);
        Ok(Value::Wide(limbs))
    }
}
