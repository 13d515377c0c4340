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
//! others as exceptions. The paper links exceptions through their slots, a chain that a
//! reader has to follow; sorted slots can be patched side by side.

use std::ops::Range;

use super::exceptions::{self, Locator};
use super::ffor::{self, PACKED_UNIT, Packer};
use super::io::{mismatch, with_words};
use super::windows::{Proposal, cut, propose};
use super::{Codec, Encoding, Estimate, Input, Output, Value, Words};
use crate::chunk::{EncodedNode, NodeView, cast};
use crate::encoding::plan::{Context, Plan};
use crate::error::{Result, ensure};
use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, Mask, VECTOR};

/// Bits of an exception: the value and its slot.
const fn price<T: Lane>() -> usize {
    T::BITS + 16
}

/// Times that a window is narrowed at most, by up to six bits and more.
const ROUNDS: usize = 12;

/// One vector, ready to be packed.
struct Patched<T> {
    base: T,
    width: usize,
    /// Values less `base`, zero in slots that are exceptions or not valid.
    values: [T; VECTOR],
    exceptions: Mask,
    count: usize,
}

impl<T: Words> Patched<T> {
    /// Bits of packed values and exceptions.
    fn bits(&self) -> usize {
        self.width * VECTOR + self.count * price::<T>()
    }
}

fn count(mask: &Mask) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
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

/// None without exceptions.
fn estimate<T: Words>(input: &Input<'_>, words: &[T], context: &Context<'_>) -> Option<usize> {
    let vectors = input.vectors();
    let sampled = context.sampled_vectors(vectors);
    let (mut bits, mut exceptions) = (0, 0);
    for vector in sampled.clone() {
        let patched = patch(input, words, vector);
        bits += patched.bits();
        exceptions += patched.count;
    }
    let parameters = ffor::vectors_len(size_of::<T>(), vectors) + vectors * 4;
    (exceptions > 0).then(|| bits / 8 * vectors / sampled.count() + parameters)
}

fn encode<T: Words>(input: &Input<'_>, words: &[T], bytes: usize) -> Option<EncodedNode> {
    let vectors = input.vectors();
    let mut packer = Packer::with_capacity(vectors, bytes + PACKED_UNIT);
    let mut bases = Vec::with_capacity(vectors);
    let mut locators = Vec::with_capacity(vectors);
    let mut blocks = Vec::new();
    let mut exceptions = 0;
    for vector in 0..vectors {
        let patched = patch(input, words, vector);
        packer.push(&patched.values, T::ZERO, patched.width);
        bases.push(patched.base);
        let mut locator = Locator { count: patched.count, offset: 0 };
        if locator.count > 0 {
            locator.offset = blocks.len() / exceptions::unit::<T>();
            let mut values = [T::ZERO; VECTOR];
            let found = &words[vector * VECTOR..words.len().min((vector + 1) * VECTOR)];
            values[..found.len()].copy_from_slice(found);
            exceptions::push(&values, &patched.exceptions, &mut blocks);
        }
        exceptions += locator.count;
        locators.push(locator.to_bits());
    }
    if exceptions == 0 {
        return None;
    }
    let (packed, mut parameters) = packer.finish(&bases);
    parameters.extend_from_slice(bytemuck::cast_slice(&locators));
    let mut node = EncodedNode::new(Encoding::Pfor, input.physical, input.len());
    node.parameters[0] = exceptions as u64;
    node.buffers = vec![packed, parameters, blocks];
    Some(node)
}

/// The vectors of an encoded node.
struct Vectors<'a, T> {
    packed: ffor::Vectors<'a, T>,
    locators: &'a [u32],
    exceptions: &'a [u8],
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
            locators: cast(&parameters[locators_at..])?,
            exceptions: node.buffer(2),
        })
    }

    fn validate(node: NodeView<'a>) -> Result<()> {
        let vectors = Self::of(node)?;
        vectors.packed.validate(node)?;
        let counts = vectors.locators.iter().map(|bits| Locator::from_bits(*bits).count as u64);
        let counted: u64 = counts.sum();
        ensure!(
            counted == node.parameter(0) && counted > 0,
            "{} exceptions declared, the vectors count {counted}, at least 1 is expected",
            node.parameter(0)
        );
        exceptions::validate::<T>(vectors.locators, vectors.exceptions)
    }

    /// The exceptions of a vector, if it has any.
    fn exceptions(&self, vector: usize) -> Result<Option<exceptions::Block<'a, T>>> {
        match Locator::from_bits(self.locators[vector]) {
            Locator { count: 0, .. } => Ok(None),
            locator => exceptions::block(self.exceptions, locator).map(Some),
        }
    }

    fn decode_vector(&self, vector: usize, out: &mut [T; VECTOR]) -> Result<()> {
        self.packed.unpack(vector, out);
        if let Some(block) = self.exceptions(vector)? {
            block.iter().for_each(|(slot, value)| out[slot] = value);
        }
        Ok(())
    }

    fn decode(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        let first = rows.start / VECTOR;
        let mut last = [T::ZERO; VECTOR];
        for (index, out) in out.chunks_mut(VECTOR).enumerate() {
            match <&mut [T; VECTOR]>::try_from(&mut *out) {
                Ok(whole) => self.decode_vector(first + index, whole)?,
                Err(_) => {
                    self.decode_vector(first + index, &mut last)?;
                    out.copy_from_slice(&last[..out.len()]);
                }
            }
        }
        Ok(())
    }

    fn value(&self, row: usize) -> Result<Value> {
        let (vector, slot) = (row / VECTOR, row % VECTOR);
        let patched = match self.exceptions(vector)? {
            Some(block) => block.iter().find(|(position, _)| *position == slot),
            None => None,
        };
        let value = patched.map_or_else(|| self.packed.value(row), |(_, value)| value);
        Ok(Value::Word(value.widen()))
    }
}

pub(super) struct Pfor;

impl Codec for Pfor {
    fn encoding(&self) -> Encoding {
        Encoding::Pfor
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

    fn plan(&self, input: &Input<'_>, context: &Context<'_>) -> Option<Estimate> {
        if !input.physical.is_integer() {
            return None;
        }
        with_words!(Values, input.values, words => {
            estimate(input, words, context).map(Estimate::of)
        }, None)
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
mod tests {
    use std::sync::Arc;

    use arrow_array::*;
    use arrow_buffer::{BooleanBuffer, NullBuffer};

    use super::*;
    use crate::lanes::simd::tests::at_each_level;
    use crate::{CompressedColumn, Options, compress_array};

    /// Pseudo-random numbers.
    fn random(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |end| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 13) % end
        }
    }

    #[track_caller]
    fn check(array: ArrayRef, encoding: &str) -> CompressedColumn {
        let options = Options::default().with_encodings([Encoding::Pfor, Encoding::Ffor]);
        let column = compress_array(&array, &options).unwrap();
        assert_eq!(column.encoding(), encoding, "{}", column.explain());
        assert_eq!(&column.decompress().unwrap(), &array);
        for row in (0..array.len()).step_by(17) {
            assert_eq!(&column.value(row).unwrap().into_inner(), &array.slice(row, 1));
        }
        column
    }

    /// One vector; its values come back from what is packed and patched.
    #[track_caller]
    fn patched<T: Words>(physical: crate::chunk::Physical, values: &[T]) -> Patched<T> {
        let input = Input::new(physical, T::values(values));
        let patched = patch(&input, values, 0);
        for (slot, value) in values.iter().enumerate() {
            let packed = patched.values[slot];
            assert!(patched.width == T::BITS || packed >> patched.width == T::ZERO);
            if patched.exceptions[slot / 64] >> (slot % 64) & 1 == 1 {
                assert_eq!(packed, T::ZERO);
            } else {
                assert_eq!(patched.base.wrapping_add(packed), *value);
            }
        }
        patched
    }

    const U64: crate::chunk::Physical = crate::chunk::Physical::U64;

    #[test]
    fn one_value_with_others_takes_no_bits() {
        for every in [5, 20, 100, 1000] {
            for value in [0, 1 << 20, u64::MAX] {
                let mut next = random(every);
                let values: Vec<u64> = (0..1024)
                    .map(|_| if next(every) == 0 { next(u64::MAX) << 13 } else { value })
                    .collect();
                let others = values.iter().filter(|other| **other != value).count();
                at_each_level(|| {
                    let patched = patched(U64, &values);
                    assert_eq!((patched.width, patched.count, patched.base), (0, others, value));
                });
            }
        }
    }

    #[test]
    fn outliers_on_both_sides_are_exceptions() {
        let mut next = random(3);
        let values: Vec<u64> = (0..1024)
            .map(|i| match i % 64 {
                7 => next(1 << 10),
                9 => u64::MAX - next(1 << 50),
                _ => (1 << 40) + next(1 << 8),
            })
            .collect();
        let patched = patched(U64, &values);
        assert_eq!((patched.width, patched.count), (8, 32));
    }

    #[test]
    fn what_exceptions_do_not_shrink_has_none() {
        let mut next = random(5);
        for width in [1, 3, 10, 40, 63] {
            let values: Vec<u64> = (0..1024).map(|_| next(1 << width)).collect();
            assert_eq!(patched(U64, &values).count, 0, "width {width}");
        }
    }

    #[test]
    fn sizes_never_exceed_those_without_exceptions() {
        fn check<T: Words>(physical: crate::chunk::Physical) {
            for seed in 0..200 {
                let mut next = random(seed);
                let (len, bits) = (1 + next(1024), 1 + next(T::BITS as u64));
                let every = 1 + next(70);
                let value = |_| match next(every) {
                    0 => T::truncate(next(u64::MAX)),
                    _ => T::truncate(next(1 << bits.min(40)) + 77),
                };
                let values: Vec<T> = (0..len).map(value).collect();
                let input = Input::new(physical, T::values(&values));
                let all = ffor::width(ffor::vector_bounds(&input, &values, 0).unwrap());
                assert!(patched(physical, &values).bits() <= all * VECTOR);
            }
        }
        use crate::chunk::Physical::*;
        check::<u8>(U8);
        check::<u8>(I8);
        check::<u16>(I16);
        check::<u32>(U32);
        check::<u64>(I64);
        check::<u64>(U64);
    }

    #[test]
    fn extremes_of_every_type_are_exceptions() {
        macro_rules! extremes {
            ($($array:ident $value:ty),*) => {$({
                let values = (0..3000_u32).map(|i| match i % 250 {
                    100 => <$value>::MIN,
                    200 => <$value>::MAX,
                    _ => 50 + (i % 4) as $value,
                });
                check(Arc::new($array::from_iter_values(values)), "pfor");
            })*};
        }
        extremes!(Int8Array i8, Int16Array i16, Int32Array i32, Int64Array i64);
        extremes!(UInt8Array u8, UInt16Array u16, UInt32Array u32, UInt64Array u64);
    }

    #[test]
    fn nulls_are_no_exceptions_whatever_stood_there() {
        let patterns: [fn(usize) -> bool; 6] = [
            |row| row > 0,
            |row| row < 2000,
            |row| row / 1024 != 1,
            |row| row.is_multiple_of(3),
            |row| row % 1024 == 5,
            |row| row != 2999,
        ];
        for is_valid in patterns {
            let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..3000).map(is_valid)));
            let with = |garbage: i32| {
                let values = (0..3000).map(|row| match row {
                    row if !is_valid(row as usize) => garbage,
                    row if row % 99 == 0 => row << 18,
                    row => row % 5,
                });
                Arc::new(Int32Array::new(values.collect(), Some(nulls.clone()))) as ArrayRef
            };
            let options = Options::default().with_encodings([Encoding::Pfor, Encoding::Ffor]);
            let column = compress_array(&with(i32::MIN), &options).unwrap();
            assert_eq!(&column.decompress().unwrap(), &with(0));
            let (_, storage) = column.to_arrow("");
            assert_eq!(storage, compress_array(&with(1 << 30), &options).unwrap().to_arrow("").1);
        }
    }

    #[test]
    fn without_exceptions_it_is_ffor() {
        check(Arc::new(Int64Array::from_iter_values((0..3000).map(|i| i % 100))), "ffor");
    }
}
