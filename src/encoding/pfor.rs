//! Frame of reference with exceptions: values far from the rest of their vector are
//! kept whole beside it, so that the rest packs narrower (patched frame of reference;
//! Zukowski, Heman, Nes and Boncz, ICDE 2006).
//!
//! ```text
//! buffer 0, packed:     as in `ffor`
//! buffer 1, vectors:    V x base | pad | V x u32 place | V x u32 locator
//! buffer 2, exceptions: one block for each vector that has exceptions (`exceptions.rs`)
//! parameter 0:          exceptions of the chunk, at least one: without any it is `ffor`
//! ```
//!
//! One value over and over with a few others among them is the extreme: width 0 and the
//! others as exceptions (bimbo.Dev_uni_proxima: 4.35 to 1.17 bits). The paper links
//! exceptions in a chain; sorted slots can be patched side by side. Planning takes 1.5 ns a
//! sampled value where nothing lies outside, else up to 5.

use std::ops::Range;

use crate::chunk::{EncodedNode, NodeView, cast};
use crate::encoding::exceptions::{Blocks, Exceptions, block_len};
use crate::encoding::ffor::{self, PACKED_UNIT, Packer};
use crate::encoding::io::{each_vector, mismatch, with_words};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::select::{Matcher, RangeTest, Selector, Verdict, by_word};
use crate::encoding::statistics::{Answer, SampledBytes, Statistics};
use crate::encoding::tree::EncodingParameters;
use crate::encoding::windows::{Proposal, cut, propose};
use crate::encoding::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Words};
use crate::error::{Result, ensure};
use crate::lanes::mask::{self, count};
use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, Mask, VECTOR};

/// Bits of an exception: the value and its slot.
const fn price<T: Lane>() -> usize {
    T::BITS + 16
}

/// Times that a window is narrowed at most, by up to six bits and more.
pub(crate) const ROUNDS: usize = 12;

/// One vector, ready to be packed.
struct Patched<T> {
    base: T,
    width: usize,
    /// Values less `base`, zero in slots that are exceptions or not valid.
    values: [T; VECTOR],
    exceptions: Mask,
    count: usize,
}

multiversion! {
    /// Least and greatest of the values kept; the others are zero.
    fn kept_bounds<T: Words>(values: &[T; VECTOR], kept: &Mask) -> (T, T) {
        let (mut low, mut high) = (T::MAX, T::ZERO);
        for (values, kept) in values.as_chunks::<64>().0.iter().zip(kept) {
            for (i, value) in values.iter().enumerate() {
                low = low.min(if kept >> i & 1 == 1 { *value } else { T::MAX });
                high = high.max(*value);
            }
        }
        (low, high)
    }
}

multiversion! {
    /// Takes `base` off the valid values, and sets the others to zero.
    fn rebase<T: Words>(values: &mut [T; VECTOR], base: T, valid: &Mask) {
        for (values, valid) in values.as_chunks_mut::<64>().0.iter_mut().zip(valid) {
            for (i, value) in values.iter_mut().enumerate() {
                let above = value.wrapping_sub(base);
                *value = if valid >> i & 1 == 1 { above } else { T::ZERO };
            }
        }
    }
}

multiversion! {
    /// Takes `start` off the values in the window of `width` bits from there on, and sets
    /// the others to zero; gives which valid ones these are.
    fn leave_outside<T: Words>(
        values: &mut [T; VECTOR],
        start: T,
        width: usize,
        valid: &Mask,
    ) -> Mask {
        let mut outside = *valid;
        for (values, valid) in values.as_chunks_mut::<64>().0.iter_mut().zip(&mut outside) {
            let mut inside = 0;
            for (i, value) in values.iter_mut().enumerate() {
                let above = value.wrapping_sub(start);
                let is_inside = (above >> width == T::ZERO) & (*valid >> i & 1 == 1);
                *value = if is_inside { above } else { T::ZERO };
                inside |= u64::from(is_inside) << i;
            }
            *valid &= !inside;
        }
        outside
    }
}

/// The window in which values below 2^`width`, those not valid zero, take the least:
/// where it starts and its width.
///
/// Each round takes what a histogram proposes. Where it proposes nothing, its fullest bin
/// may still be a spike that pays in the end: one value in many others is found six bits
/// at a time.
fn search<T: Words>(values: &[T; VECTOR], valid: &Mask, width: usize) -> (T, usize) {
    let (mut rest, mut kept) = (*values, *valid);
    let (mut start, mut narrowed) = (T::ZERO, width);
    let all = count(valid);
    let mut best = (T::ZERO, width);
    let mut least = width * VECTOR;
    for _ in 0..ROUNDS {
        if narrowed == 0 {
            break;
        }
        let Proposal { bin_bits, bin, width: proposed, fullest } =
            propose(&rest, &kept, narrowed, price::<T>());
        let (bin, window) = match proposed < narrowed {
            true => (bin, proposed),
            false => (fullest, bin_bits),
        };
        let above = T::truncate((bin as u64) << bin_bits);
        cut(&mut rest, above, window, &mut kept);
        let exceptions = (all - count(&kept)) * price::<T>();
        if exceptions >= least {
            break;
        }
        let (low, high) = kept_bounds(&rest, &kept);
        rebase(&mut rest, low, &kept);
        start = start.wrapping_add(above).wrapping_add(low);
        narrowed = ffor::width((low, high));
        let bits = narrowed * VECTOR + exceptions;
        if bits < least {
            (best, least) = ((start, narrowed), bits);
        }
    }
    best
}

/// A vector with the exceptions that make it smallest.
fn patch<T: Words>(input: &Input<'_>, words: &[T], vector: usize) -> Patched<T> {
    let valid = input.vector_valid(vector);
    let (low, high) = ffor::vector_bounds(input, words, vector).unwrap_or((T::ZERO, T::ZERO));
    let mut values = [low; VECTOR];
    let found = &words[vector * VECTOR..words.len().min((vector + 1) * VECTOR)];
    values[..found.len()].copy_from_slice(found);
    rebase(&mut values, low, &valid);
    let all = ffor::width((low, high));
    let (start, width) = search(&values, &valid, all);
    if width == all {
        return Patched { base: low, width, values, exceptions: [0; VECTOR / 64], count: 0 };
    }
    let exceptions = leave_outside(&mut values, start, width, &valid);
    let count = count(&exceptions);
    Patched { base: low.wrapping_add(start), width, values, exceptions, count }
}

/// What some vectors come to.
pub(super) fn patched<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vectors: impl Iterator<Item = usize>,
) -> SampledBytes {
    let mut sum = SampledBytes::default();
    for vector in vectors {
        let patched = patch(input, words, vector);
        sum.packed += patched.width * PACKED_UNIT;
        sum.exceptions += block_len::<T>(patched.count);
    }
    sum
}

/// The buffers of `vectors` vectors of which `sampled` come to this; none without exceptions.
fn estimated(
    value: usize,
    SampledBytes { packed, exceptions }: SampledBytes,
    sampled: usize,
    vectors: usize,
) -> Option<[usize; 3]> {
    let of_all = |bytes: usize| bytes * vectors / sampled.max(1);
    let parameters = ffor::vectors_len(value, vectors) + vectors * 4;
    (exceptions > 0).then(|| [of_all(packed), parameters, of_all(exceptions)])
}

fn encode<T: Words>(input: &Input<'_>, words: &[T], bytes: usize) -> Option<EncodedNode> {
    let vectors = input.vectors();
    let mut packer = Packer::with_capacity(vectors, bytes + PACKED_UNIT);
    let mut bases = Vec::with_capacity(vectors);
    let mut blocks = Blocks::default();
    for vector in 0..vectors {
        let patched = patch(input, words, vector);
        packer.push(&patched.values, T::ZERO, patched.width);
        bases.push(patched.base);
        let values = &words[vector * VECTOR..words.len().min((vector + 1) * VECTOR)];
        blocks.push(values, &patched.exceptions);
    }
    if blocks.count() == 0 {
        return None;
    }
    let (packed, mut parameters) = packer.finish(&bases);
    parameters.extend_from_slice(blocks.locators());
    let mut node = EncodedNode::new(Encoding::Pfor, input.physical, input.len());
    node.parameters[0] = blocks.count() as u64;
    node.buffers = vec![packed, parameters, blocks.into_bytes()];
    Some(node)
}

/// The vectors of an encoded node.
struct Vectors<'a, T> {
    packed: ffor::Vectors<'a, T>,
    exceptions: Exceptions<'a, T>,
}

impl<'a, T: Words> Vectors<'a, T> {
    fn of(node: NodeView<'a>) -> Result<Self> {
        let parameters = node.buffer(1);
        let vectors = node.len().div_ceil(VECTOR);
        let Some(locators_at) = parameters.len().checked_sub(vectors * 4) else {
            let found = parameters.len();
            return Err(crate::error::Error::corrupt(format!(
                "{found} bytes of vector parameters for {vectors} vectors with exceptions"
            )));
        };
        Ok(Self {
            packed: ffor::Vectors::with(node, &parameters[..locators_at])?,
            exceptions: Exceptions::new(cast(&parameters[locators_at..])?, node.buffer(2)),
        })
    }

    fn validate(node: NodeView<'a>) -> Result<()> {
        let vectors = Self::of(node)?;
        vectors.packed.validate(node)?;
        vectors.exceptions.validate(node.parameter(0))?;
        ensure!(node.parameter(0) > 0, "the vectors count 0, at least 1 is expected");
        Ok(())
    }

    fn decode_vector(&self, vector: usize, out: &mut [T; VECTOR]) -> Result<()> {
        self.packed.unpack(vector, out);
        if let Some(block) = self.exceptions.of(vector)? {
            block.iter().for_each(|(slot, value)| out[slot] = value);
        }
        Ok(())
    }

    fn decode(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        each_vector(rows, out, |vector, values| self.decode_vector(vector, values))
    }

    fn value(&self, row: usize) -> Result<Value> {
        let (vector, slot) = (row / VECTOR, row % VECTOR);
        let value = self.exceptions.at(vector, slot)?.unwrap_or_else(|| self.packed.value(row));
        Ok(Value::Word(value.widen()))
    }
}

/// Ranges of values as ranges of packed integers; exceptions are tested one by one.
struct PatchedTest<'a, T> {
    vectors: Vectors<'a, T>,
    matcher: Matcher,
}

impl<T: Words> Selector for PatchedTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.vectors.packed.select(vector, &self.matcher, mask);
        if let Some(block) = self.vectors.exceptions.of(vector)? {
            for (slot, value) in block.iter() {
                mask::set(mask, slot, self.matcher.passes(value.widen()));
            }
        }
        Ok(())
    }
}

pub(super) struct Pfor;

impl Codec for Pfor {
    fn encoding(&self) -> Encoding {
        Encoding::Pfor
    }

    fn takes(&self, physical: Physical) -> bool {
        physical.is_integer()
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(0, 3, 1)?;
        if !node.physical().is_integer() {
            return Err(mismatch(node));
        }
        match node.physical().bits() {
            Some(8) => Vectors::<u8>::validate(node),
            Some(16) => Vectors::<u16>::validate(node),
            Some(32) => Vectors::<u32>::validate(node),
            _ => Vectors::<u64>::validate(node),
        }
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        let exceptions = node.parameter(0) as usize;
        EncodingParameters::Pfor { bits: ffor::width_range(node), exceptions }
    }

    fn plan(&self, values: &dyn Statistics, _: &Context<'_>) -> Answer<Option<Estimate>> {
        let bytes = values.word_bytes();
        let estimated = estimated(bytes, values.patched()?, values.sampled(), values.vectors());
        Ok(estimated.map(Estimate::of))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        _: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        Ok(with_words!(Values, input.values, words => encode(input, words, plan.bytes), None))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        with_words!(Output, output, words => {
            Vectors::of(node)?.decode(rows, words)
        }, Err(mismatch(node)))
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        fn of<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
            let vectors = Vectors::<T>::of(node)?;
            Ok(Verdict::some(PatchedTest { vectors, matcher: Matcher::new(test) }))
        }
        by_word!(node, of(node, &test.of_integers()))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        match node.physical().bits() {
            Some(8) => Vectors::<u8>::of(node)?.value(row),
            Some(16) => Vectors::<u16>::of(node)?.value(row),
            Some(32) => Vectors::<u32>::of(node)?.value(row),
            _ => Vectors::<u64>::of(node)?.value(row),
        }
    }
}

#[cfg(test)]
mod tests;
