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

use super::io::{each_vector, mismatch, with_words};
use super::{Codec, Encoding, Estimate, Input, Output, Value, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::plan::{self, Context, Plan, SAMPLED_VECTORS};
use crate::error::{Result, ensure};
use crate::lanes::simd::multiversion;
use crate::lanes::{self, VECTOR};

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
pub(crate) fn planned(vectors: usize) -> &'static [Encoding] {
    let [all @ .., _] = &CHILDREN;
    if vectors <= SAMPLED_VECTORS { &CHILDREN } else { all }
}

/// What is promised for so many vectors of values of `value` bytes, whose deltas are planned;
/// none where they do not shrink.
pub(crate) fn promise(value: usize, vectors: usize, child: Plan) -> Option<Estimate> {
    let shrinks = child.encoding != Encoding::Plain;
    shrinks.then(|| Estimate { children: vec![child], ..Estimate::of([vectors * value]) })
}

/// The deltas of sampled vectors are planned for those of all. The vectors are those that a
/// plan of all deltas would look at.
fn estimate<T: Words>(input: &Input<'_>, words: &[T], context: &Context<'_>) -> Option<Estimate> {
    let vectors = input.vectors();
    let sampled = context.sampled_vectors(vectors);
    let mut deltas = vec![T::ZERO; sampled.clone().count() * VECTOR];
    let (places, _) = deltas.as_chunks_mut::<VECTOR>();
    for (vector, deltas) in sampled.zip(&mut *places) {
        vector_deltas(input, words, vector, deltas);
    }
    let child = Input::new(input.physical.signed()?, T::values(&deltas));
    let child = plan::plan_among(planned(vectors), &child, &context.below().of_vectors(vectors));
    promise(size_of::<T>(), vectors, child)
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
    let constant = plan::plan_among(&[Encoding::Constant], &child, &below);
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

    fn plan(&self, input: &Input<'_>, context: &Context<'_>) -> Option<Estimate> {
        input.physical.signed().filter(|_| context.may_nest())?;
        with_words!(Values, input.values, words => {
            estimate(input, words, context)
        }, None)
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
mod tests {
    use std::sync::Arc;

    use arrow_array::*;
    use arrow_buffer::{BooleanBuffer, NullBuffer};

    use super::*;
    use crate::lanes::simd::tests::at_each_level;
    use crate::{CompressedColumn, Options, compress_array};

    fn options() -> Options {
        Options::default().with_encodings([Encoding::Delta, Encoding::Ffor, Encoding::Constant])
    }

    /// Compresses to `encoding`, and compares all values and some single ones.
    #[track_caller]
    fn check(array: ArrayRef, encoding: &str) -> CompressedColumn {
        let column = compress_array(&array, &options()).unwrap();
        assert_eq!(column.encoding(), encoding, "{}", column.explain());
        assert_eq!(&column.decompress().unwrap(), &array);
        for row in (0..array.len()).step_by(97).chain([array.len() - 1]) {
            assert_eq!(&column.value(row).unwrap().into_inner(), &array.slice(row, 1));
        }
        column
    }

    fn walk<T: Words>(seed: u64, step: u64) -> [T; VECTOR] {
        let mut state = seed;
        let mut value = T::truncate(seed);
        std::array::from_fn(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            value = value.wrapping_add(T::truncate((state >> 33) % step));
            value
        })
    }

    fn sums_of_differences_are_the_values<T: Words>() {
        at_each_level(|| {
            for values in [walk::<T>(1, 7), walk(2, u64::from(u32::MAX)), [T::MAX; VECTOR]] {
                let first = typical(&values, |_| true);
                let mut deltas = [T::ZERO; VECTOR];
                differences(&values, first, &mut deltas);
                for slot in 1..VECTOR {
                    let at = lanes::index(slot % T::BITS, slot / T::BITS);
                    assert_eq!(deltas[at], values[slot].wrapping_sub(values[slot - 1]));
                }
                let mut back = [T::ZERO; VECTOR];
                add_up(&mut deltas, values[0].wrapping_sub(first), &mut back);
                assert!(back == values, "{} bits", T::BITS);
            }
        });
    }

    #[test]
    fn sums_of_differences_are_the_values_of_every_type() {
        sums_of_differences_are_the_values::<u8>();
        sums_of_differences_are_the_values::<u16>();
        sums_of_differences_are_the_values::<u32>();
        sums_of_differences_are_the_values::<u64>();
    }

    #[test]
    fn even_steps_take_a_word_a_vector() {
        for len in [1026, 2048, 5000] {
            let steps = Int64Array::from_iter_values((0..len).map(|i| 1_000_000 - i * 977));
            let column = check(Arc::new(steps), "delta(constant)");
            let header = column.chunks()[0].header().len();
            assert_eq!(column.chunks()[0].body().len(), 64, "header of {header}");
        }
    }

    #[test]
    fn values_of_every_type_wrap_around() {
        macro_rules! wraps {
            ($($array:ident $value:ty),*) => {$({
                let quarter = <$value>::MAX / 4;
                let values = (0..3000_u64).map(|i| {
                    quarter.wrapping_mul(i as $value).wrapping_add((i * i % 3) as $value)
                });
                check(Arc::new($array::from_iter_values(values)), "delta(ffor)");
            })*};
        }
        wraps!(Int16Array i16, Int32Array i32, Int64Array i64);
        wraps!(UInt16Array u16, UInt32Array u32, UInt64Array u64);
        let bytes = (0..3000_u64).map(|i| (i * 31 + i * i % 3) as u8);
        check(Arc::new(UInt8Array::from_iter_values(bytes.clone())), "delta(ffor)");
        check(Arc::new(Int8Array::from_iter_values(bytes.map(|byte| byte as i8))), "delta(ffor)");
    }

    #[test]
    fn steps_that_only_sampled_vectors_share_are_packed() {
        // Of 128 vectors every eighth is looked at.
        let steps = |row: i64| match row / 1024 % 8 {
            0 => row * 20,
            _ => row * 20 + row * row % 13,
        };
        let values = Int64Array::from_iter_values((0..128 * 1024).map(steps));
        check(Arc::new(values), "delta(ffor)");
    }

    #[test]
    fn extremes_of_the_type_come_back() {
        let values = |i: i64| match i {
            1500 => i64::MIN,
            1501 => i64::MAX,
            1502 => 0,
            _ => i * 1_000_000_007,
        };
        check(Arc::new(Int64Array::from_iter_values((0..9000).map(values))), "delta(ffor)");
    }

    #[test]
    fn nulls_anywhere_keep_their_neighbours() {
        let patterns: [fn(usize) -> bool; 7] = [
            |row| row > 0,
            |row| row >= 700,
            |row| row < 4000,
            |row| row / 1024 != 1,
            |row| row == 2100,
            |row| !row.is_multiple_of(3),
            |row| row != 4999,
        ];
        for is_valid in patterns {
            let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..5000).map(is_valid)));
            let values: Vec<i64> = (0..5000).map(|i| i * 1000 + i * i % 7).collect();
            let with = |garbage: i64| {
                let values = values.iter().enumerate();
                let values =
                    values.map(|(row, value)| if is_valid(row) { *value } else { garbage });
                Arc::new(Int64Array::new(values.collect(), Some(nulls.clone()))) as ArrayRef
            };
            let column = compress_array(&with(i64::MIN), &options()).unwrap();
            assert_eq!(&column.decompress().unwrap(), &with(0));
            // What stands under nulls is not seen.
            let (_, storage) = column.to_arrow("");
            assert_eq!(storage, compress_array(&with(5), &options()).unwrap().to_arrow("").1);
        }
    }

    #[test]
    fn nulls_do_not_widen_even_steps() {
        let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..5000).map(|row| row % 7 > 0)));
        let values: Vec<i64> = (0..5000).map(|i| i * 100_000 + i % 3).collect();
        let array = Int64Array::new(values.into(), Some(nulls));
        let column = check(Arc::new(array), "delta(ffor)");
        // Three bits a delta, and the bitmap.
        let body = column.chunks()[0].body().len();
        assert!(body <= 640 + 5 * (3 * 128 + 24) + 3 * 64, "{body} bytes");
    }

    #[test]
    fn slots_that_nobody_reads_cost_nothing() {
        // One bit for each delta, whatever their sign and length of the last vector.
        for len in [1025, 1026, 1100, 2047] {
            for step in [1_i32, -1] {
                let values = (0..len).map(|i| step * (i * 1000 + i * i % 5 % 2));
                let column = compress_array(
                    &(Arc::new(Int32Array::from_iter_values(values)) as ArrayRef),
                    &options(),
                )
                .unwrap();
                let body = column.chunks()[0].body().len();
                assert!(body <= 64 + 2 * 128 * 2 + 64, "{len} values of step {step}: {body} bytes");
            }
        }
    }

    #[test]
    fn gaps_are_exceptions_of_the_deltas() {
        let values = (0..9000).map(|i| i * 10 + i * i % 7 + i / 400 * 1_000_000_000);
        let array = Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
        let options = options();
        let patched = Options::default().with_encodings(Encoding::ALL.iter().copied());
        let len = |options| {
            let column = compress_array(&array, options).unwrap();
            assert_eq!(&column.decompress().unwrap(), &array);
            assert_eq!(&column.value(8999).unwrap().into_inner(), &array.slice(8999, 1));
            (column.encoding(), column.chunks()[0].body().len())
        };
        let (_, packed) = len(&options);
        let (encoding, patched) = len(&patched);
        assert_eq!(encoding, "delta(pfor)");
        assert!(patched * 4 < packed, "{patched} bytes of {packed}");
    }

    #[test]
    fn nothing_nests_at_the_last_level() {
        let words: Vec<u64> = (0..5000).collect();
        let input = Input::new(crate::encoding::Physical::U64, u64::values(&words));
        let options = options();
        let mut context = Context::new(&options, None);
        assert!(Delta.plan(&input, &context).is_some());
        context.levels = 0;
        assert!(Delta.plan(&input, &context).is_none());
    }
}
