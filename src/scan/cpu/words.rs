//! Tests of values of up to 64 bits, on their packed form.
//!
//! ```text
//! ranges of keys --minus the vector's base--> ranges of packed integers --> bits
//! ```
//!
//! Packing keeps the order: `base + packed` for integers, and for floats ALP's decoding,
//! which multiplies by positive numbers and rounds, both monotone. So each vector turns
//! the ranges into ranges of its packed integers; often none is left, or one that holds
//! them all, and its data are not read. Exceptions are tested one by one.

use std::borrow::Cow;
use std::marker::PhantomData;

use super::{ALL, Found, NONE, Selector, dict, rle};
use crate::chunk::NodeView;
use crate::encoding::alp::{self, Float};
use crate::encoding::{self, Encoding, Physical, Words, ffor};
use crate::error::{Error, Result};
use crate::lanes::{self, Mask, VECTOR, select_packed, select_values};
use crate::scan::ranges::{Key, Order, Ranges};

/// More ranges than this are searched for each value, rather than each for all values.
const MAX_PASSES: usize = 8;

/// The test of a node's values; statistics have not decided it.
pub(super) fn found<'a>(node: NodeView<'a>, key: Key, ranges: &Ranges<u64>) -> Result<Found<'a>> {
    if ranges.is_empty() {
        return Ok(Found::None);
    }
    match (node.encoding(), node.physical()) {
        (Encoding::Constant, _) => {
            Ok(Found::constant(ranges.contains(key.of_bits(node.parameter(0)))))
        }
        (Encoding::Dict, _) => dict::found(node, |values| found(values, key, ranges)),
        (Encoding::Rle, _) => rle::found(node, |values| found(values, key, ranges)),
        (_, Physical::Bool) => Ok(match (ranges.contains(0), ranges.contains(1)) {
            (false, false) => Found::None,
            (true, true) => Found::All,
            (_, wanted) => Found::some(Bits { bits: encoding::bits::bitmap(node)?, wanted }),
        }),
        (Encoding::Alp, Physical::F32) => AlpTest::<f32>::found(node, key, ranges),
        (Encoding::Alp, Physical::F64) => AlpTest::<f64>::found(node, key, ranges),
        (_, physical) => match physical.bits() {
            Some(8) => integers::<u8>(node, key, ranges),
            Some(16) => integers::<u16>(node, key, ranges),
            Some(32) => integers::<u32>(node, key, ranges),
            Some(64) => integers::<u64>(node, key, ranges),
            _ => Err(unexpected(node)),
        },
    }
}

fn unexpected(node: NodeView<'_>) -> Error {
    Error::corrupt(format!("a {} node of type {:?} is tested", node.encoding(), node.physical()))
}

fn integers<'a, T: Words>(node: NodeView<'a>, key: Key, ranges: &Ranges<u64>) -> Result<Found<'a>> {
    match node.encoding() {
        Encoding::Plain => {
            let values = Cow::Borrowed(node.typed::<T>(0)?);
            Ok(Found::some(PlainTest { values, key, ranges: ranges.clone() }))
        }
        // Vectors are parts of segments, which are decoded as a whole.
        Encoding::Lz => {
            let mut values = vec![T::ZERO; node.len()];
            encoding::decode(node, 0..node.len(), T::output(&mut values))?;
            Ok(Found::some(PlainTest { values: Cow::Owned(values), key, ranges: ranges.clone() }))
        }
        Encoding::Ffor => {
            let (key, ranges) = bit_ranges(key, ranges);
            Ok(Found::some(FforTest::<T> { vectors: ffor::Vectors::of(node)?, key, ranges }))
        }
        _ => Ok(Found::some(DecodedTest::<T> {
            node,
            key,
            ranges: ranges.clone(),
            words: PhantomData,
        })),
    }
}

/// Ranges of floats that are packed as their bits (Float16) as ranges of these bits,
/// which descend below zero.
fn bit_ranges(key: Key, ranges: &Ranges<u64>) -> (Key, Ranges<u64>) {
    if key.order != Order::Float {
        return (key, ranges.clone());
    }
    let unsigned = Key { order: Order::Unsigned, ..key };
    let zero = key.of_bits(0);
    let negative = ranges.intersection(&Ranges::between(0, zero - 1));
    let positive = ranges.intersection(&Ranges::between(zero, key.max()));
    let flipped = negative.iter().map(|(low, high)| (key.to_bits(high), key.to_bits(low)));
    let kept = positive.iter().map(|(low, high)| (key.to_bits(low), key.to_bits(high)));
    (unsigned, Ranges::of(flipped.chain(kept).collect()))
}

/// Booleans.
struct Bits<'a> {
    bits: Cow<'a, [u8]>,
    wanted: bool,
}

impl Selector for Bits<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        *mask = super::words_of(&self.bits, vector);
        if !self.wanted {
            mask.iter_mut().for_each(|word| *word = !*word);
        }
        Ok(())
    }
}

/// Values as they are.
struct PlainTest<'a, T: Words> {
    values: Cow<'a, [T]>,
    key: Key,
    ranges: Ranges<u64>,
}

impl<T: Words> Selector for PlainTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        select_words(&self.values[vector * VECTOR..], self.key, &self.ranges, mask);
        Ok(())
    }
}

/// Words whose keys are in ranges; of more than a vector, those of the first.
fn select_words<T: Words>(words: &[T], key: Key, ranges: &Ranges<u64>, mask: &mut Mask) {
    let mut keys = [T::ZERO; VECTOR];
    for (of_word, word) in keys.iter_mut().zip(words) {
        *of_word = T::truncate(key.of_bits(word.widen()));
    }
    select_ranges(&keys, ranges.as_slice(), mask);
}

/// Values of encodings that keep no order: decoded vector by vector.
struct DecodedTest<'a, T> {
    node: NodeView<'a>,
    key: Key,
    ranges: Ranges<u64>,
    words: PhantomData<T>,
}

impl<T: Words> Selector for DecodedTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let rows = vector * VECTOR..self.node.len().min((vector + 1) * VECTOR);
        let mut words = [T::ZERO; VECTOR];
        let words = &mut words[..rows.len()];
        encoding::decode(self.node, rows, T::output(words))?;
        select_words(words, self.key, &self.ranges, mask);
        Ok(())
    }
}

/// Packed integers.
struct FforTest<'a, T> {
    vectors: ffor::Vectors<'a, T>,
    key: Key,
    ranges: Ranges<u64>,
}

impl<T: Words> Selector for FforTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let (words, width) = self.vectors.packed(vector);
        let base = self.key.of_bits(self.vectors.base(vector).widen());
        let top = T::mask(width).widen();
        let clipped = self.ranges.iter().filter_map(|(low, high)| {
            let high = high.checked_sub(base)?.min(top);
            let low = low.saturating_sub(base);
            (low <= high).then_some((low, high))
        });
        select_clipped(words, width, clipped, mask);
        Ok(())
    }
}

/// Packed decimals.
struct AlpTest<'a, F: Float> {
    vectors: alp::Vectors<'a, F>,
    key: Key,
    ranges: Ranges<u64>,
}

impl<'a, F: Float> AlpTest<'a, F> {
    fn found(node: NodeView<'a>, key: Key, ranges: &Ranges<u64>) -> Result<Found<'a>> {
        let vectors = alp::Vectors::<F>::of(node)?;
        Ok(Found::some(Self { vectors, key, ranges: ranges.clone() }))
    }

    /// The least packed integer up to `top` whose value's key is `bound` or more; one more
    /// than `top` if there is none.
    fn least(&self, step: alp::Step<F>, bound: u64, top: u64) -> u64 {
        use lanes::Lane;
        let is_below = |packed: u64| {
            let bits = step.decode(F::Bits::truncate(packed)).to_bits();
            self.key.of_bits(bits.widen()) < bound
        };
        let near = step.near(F::from_bits(F::Bits::truncate(self.key.to_bits(bound)))).min(top);
        let (mut low, mut high) = (0, top + 1);
        for probe in [near.saturating_sub(1), top.min(near + 1)] {
            if is_below(probe) {
                low = low.max(probe + 1);
            } else {
                high = high.min(probe);
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_below(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl<F: Float> Selector for AlpTest<'_, F> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        use lanes::Lane;
        let (words, width) = self.vectors.packed(vector);
        let step = self.vectors.step(vector);
        let top = F::Bits::mask(width).widen();
        let clipped = self.ranges.iter().filter_map(|(low, high)| {
            let low = self.least(step, low, top);
            let end = match high.checked_add(1) {
                Some(behind) => self.least(step, behind, top),
                None => top + 1,
            };
            (low < end).then(|| (low, end - 1))
        });
        select_clipped(words, width, clipped, mask);
        if let Some(block) = self.vectors.exceptions(vector)? {
            for (position, bits) in block.iter() {
                let passes = self.ranges.contains(self.key.of_bits(bits.widen()));
                let bit = 1 << (position % 64);
                let word = &mut mask[position / 64];
                *word = if passes { *word | bit } else { *word & !bit };
            }
        }
        Ok(())
    }
}

/// Packed integers in ranges, which ascend and end at the width's greatest.
fn select_clipped<T: Words>(
    words: &[T],
    width: usize,
    ranges: impl Iterator<Item = (u64, u64)>,
    mask: &mut Mask,
) {
    let top = T::mask(width).widen();
    let mut ranges = ranges.peekable();
    let Some((low, high)) = ranges.next() else {
        *mask = NONE;
        return;
    };
    if (low, high) == (0, top) {
        *mask = ALL;
        return;
    }
    if ranges.peek().is_none() {
        select_packed(words, width, T::truncate(low), T::truncate(high - low), mask);
        return;
    }
    let ranges: Vec<(u64, u64)> = std::iter::once((low, high)).chain(ranges).collect();
    let mut values = [T::ZERO; VECTOR];
    lanes::unpack(words, T::ZERO, width, &mut values);
    select_ranges(&values, &ranges, mask);
}

/// Values in one of several ranges.
fn select_ranges<T: Words>(values: &[T; VECTOR], ranges: &[(u64, u64)], mask: &mut Mask) {
    *mask = NONE;
    if ranges.len() > MAX_PASSES {
        for (position, value) in values.iter().enumerate() {
            let value = value.widen();
            let behind = ranges.partition_point(|(low, _)| *low <= value);
            let inside = behind > 0 && value <= ranges[behind - 1].1;
            mask[position / 64] |= u64::from(inside) << (position % 64);
        }
        return;
    }
    for (low, high) in ranges {
        let mut kept = NONE;
        select_values(values, T::truncate(*low), T::truncate(high - low), &mut kept);
        for (word, kept) in mask.iter_mut().zip(kept) {
            *word |= kept;
        }
    }
}
