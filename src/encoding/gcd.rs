//! Multiples of a common divisor: timestamps of nanoseconds that were taken in seconds, dates
//! of milliseconds, amounts of whole units in hundredths.
//!
//! ```text
//! value i = offset + divisor * quotient i, modulo 2^T
//! child 0, quotients: unsigned, as wide as a value
//! parameter 0: divisor, 2 or more; parameter 1: offset
//! ```
//!
//! The offset is the chunk's least valid value, so that quotients count from 0; the divisor is
//! the greatest of the differences from one value of the sampled vectors to all others there.
//! ClickHouse's codec GCD and Lucene's numbers (`gcd` of their doc values) divide alike.
//!
//! What it costs to plan: of columns without a divisor a look at some values, as of random
//! differences three pairs in five have only 1 in common. Quotients are made of chunks where they
//! may save a sixteenth, by [`Divisor`], which multiplies. It comes before dictionaries in
//! `CODECS`: codes and quotients often take as many bits, and quotients need no dictionary. Where
//! values repeat as well, the dictionary or the runs have quotients, not the other way round:
//! multiplying is then a step over few values.
//!
//! Decoding is a multiplication more than that of the child: quotients of 9 bits at 0.8 of the
//! speed of `ffor`.

use std::ops::Range;

use super::io::{self, mismatch, with_words};
use super::select::{self, RangeTest, Verdict};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::dict::saves;
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::statistics::{self, Answer, Statistics};
use crate::encoding::tree::{EncodingParameters, NodeRole};
use crate::error::{Result, ensure};
use crate::lanes::VECTOR;
use crate::ranges::{Key, Order, Ranges};

pub(super) struct Gcd;

/// What quotients may be encoded as.
const CHILDREN: [Encoding; 5] =
    [Encoding::Constant, Encoding::Plain, Encoding::Ffor, Encoding::Pfor, Encoding::Delta];

/// Rows whose quotients are decoded before the next, so that they stay in cache.
const BLOCK: usize = 4 * VECTOR;

/// Divides exactly, by a multiplication with the inverse modulo 2^64 of the divisor's odd part
/// (Granlund and Montgomery, PLDI 1994, section 9).
#[derive(Debug, Clone, Copy)]
struct Divisor {
    inverse: u64,
    /// Bits that are zero in all multiples.
    zeros: u32,
    /// The greatest quotient.
    most: u64,
}

impl Divisor {
    /// `divisor` is not 0.
    fn new(divisor: u64) -> Self {
        let zeros = divisor.trailing_zeros();
        let odd = divisor >> zeros;
        // Odd numbers are their own inverse in three bits; each step doubles these.
        let step =
            |inverse: u64, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        let inverse = (0..5).fold(odd, step);
        Self { inverse, zeros, most: u64::MAX / divisor }
    }

    /// The quotient of a multiple; of all other numbers one that is too great.
    fn quotient(self, number: u64) -> u64 {
        number.wrapping_mul(self.inverse).rotate_right(self.zeros)
    }

    fn divides(self, number: u64) -> bool {
        self.quotient(number) <= self.most
    }
}

/// The greatest common divisor; of 0 and another number the other.
fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The greatest divisor that the differences of all valid values of some vectors have in
/// common; 0 if all are equal or there are none.
pub(super) fn divisor_of<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vectors: impl Iterator<Item = usize>,
) -> u64 {
    let order = io::order_of(input.physical);
    let ordered = |row: usize| order(words[row].widen(), T::BITS as u32);
    let rows = |vector: usize| vector * VECTOR..input.len().min((vector + 1) * VECTOR);
    let mut values = vectors.flat_map(rows).filter(|row| input.is_valid(*row)).map(ordered);
    let Some(first) = values.next() else { return 0 };
    let (mut divisor, mut fast) = (0, None);
    for value in values {
        let difference = value.abs_diff(first);
        if fast.is_some_and(|fast: Divisor| fast.divides(difference)) || difference == 0 {
            continue;
        }
        divisor = gcd(divisor, difference);
        if divisor == 1 {
            break;
        }
        fast = Some(Divisor::new(divisor));
    }
    divisor
}

/// Whether quotients may take a sixteenth less than `limit` bytes: each value is shorter by the
/// divisor's bits. Where all else takes less than a bit a value, it does without them.
fn may_pay(divisor: u64, rows: usize, limit: usize) -> bool {
    let least = rows / 8;
    let saved = rows * (u64::BITS - divisor.leading_zeros()) as usize / 8;
    divisor > 1 && limit > least && saves(limit.saturating_sub(saved).max(least), limit)
}

/// The offset, and the quotients, 0 of nulls; none where a value is no multiple.
fn quotients<T: Words>(input: &Input<'_>, words: &[T], divisor: u64) -> Option<(T, Vec<T>)> {
    let offset = io::least_valid(input, words)?;
    let divisor = Divisor::new(divisor);
    let mut greatest = 0;
    let mut quotient = |row: usize, word: T| {
        let is_valid = input.valid.is_none() || input.is_valid(row);
        let number = if is_valid { word.wrapping_sub(offset) } else { T::ZERO };
        let quotient = divisor.quotient(number.widen());
        greatest = greatest.max(quotient);
        T::truncate(quotient)
    };
    let quotients = words.iter().enumerate().map(|(row, word)| quotient(row, *word)).collect();
    (greatest <= divisor.most).then_some((offset, quotients))
}

/// The unsigned integers as wide as those of another type.
pub(crate) fn unsigned(physical: Physical) -> Physical {
    if physical.bits() == Some(32) { Physical::U32 } else { Physical::U64 }
}

/// The child's input.
fn child<'a, T: Words>(input: &Input<'a>, quotients: &'a [T]) -> Input<'a> {
    Input { physical: unsigned(input.physical), values: T::values(quotients), ..*input }
}

fn encode<T: Words>(
    input: &Input<'_>,
    words: &[T],
    plan: &Plan,
    context: &Context<'_>,
) -> Result<Option<EncodedNode>> {
    let (Parameters::Gcd(divisor), [planned]) = (&plan.parameters, plan.children.as_slice()) else {
        return Ok(None);
    };
    let Some((offset, quotients)) = quotients(input, words, *divisor) else { return Ok(None) };
    let mut node = EncodedNode::new(Encoding::Gcd, input.physical, input.len());
    node.parameters = [*divisor, offset.widen()];
    node.children.push(plan::encode(&child(input, &quotients), planned, &context.below())?);
    Ok(Some(node))
}

fn decode<T: Words>(node: NodeView<'_>, rows: Range<usize>, out: &mut [T]) -> Result<()> {
    let (divisor, offset) = (node.parameter(0), T::truncate(node.parameter(1)));
    for (start, out) in rows.step_by(BLOCK).zip(out.chunks_mut(BLOCK)) {
        super::decode(node.child(0), start..start + out.len(), T::output(out))?;
        for value in out {
            *value = offset.wrapping_add(T::truncate(value.widen().wrapping_mul(divisor)));
        }
    }
    Ok(())
}

/// A test of values as one of their quotients: both ends of each range are divided, the low one
/// rounded up, the high one down. No product of such quotients passes the end of the type.
fn divided(node: NodeView<'_>, test: &RangeTest) -> RangeTest {
    let divisor = node.parameter(0);
    let offset = test.key.of_bits(node.parameter(1));
    let of_range = |(low, high): (u64, u64)| {
        let high = high.checked_sub(offset)? / divisor;
        let low = low.saturating_sub(offset).div_ceil(divisor);
        (low <= high).then_some((low, high))
    };
    let quotients = test.ranges.iter().filter_map(of_range).collect();
    RangeTest::new(Key { order: Order::Unsigned, ..test.key }, Ranges::of(quotients))
}

impl Codec for Gcd {
    fn encoding(&self) -> Encoding {
        Encoding::Gcd
    }

    fn takes(&self, physical: Physical) -> bool {
        physical.is_integer() && matches!(physical.bits(), Some(32 | 64))
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        let bits = node.physical().bits().unwrap_or(0);
        if !node.physical().is_integer() || bits < 32 {
            return Err(mismatch(node));
        }
        node.expect_shape(1, 0, 2)?;
        let (divisor, offset) = (node.parameter(0), node.parameter(1));
        let greatest = u64::MAX >> (u64::BITS as usize - bits);
        ensure!(
            (2..=greatest).contains(&divisor),
            "divisor {divisor} of integers of {bits} bits, at least 2 is needed"
        );
        ensure!(offset <= greatest, "offset {offset} of integers of {bits} bits");
        let quotients = node.child(0);
        ensure!(
            quotients.physical() == unsigned(node.physical()) && quotients.len() == node.len(),
            "{} quotients of type {:?} for {} values",
            quotients.len(),
            quotients.physical(),
            node.len()
        );
        ensure!(
            CHILDREN.contains(&quotients.encoding()),
            "quotients encoded as {}, which is not allowed",
            quotients.encoding()
        );
        Ok(())
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        let unused = u128::BITS - node.physical().bits().unwrap_or(0) as u32;
        let offset = (i128::from(node.parameter(1)) << unused) >> unused;
        let is_negative = node.physical().is_signed() && offset < 0;
        let offset = if is_negative { offset } else { node.parameter(1).into() };
        EncodingParameters::Gcd { divisor: node.parameter(0), offset }
    }

    fn role(&self, _: NodeView<'_>, _: usize) -> NodeRole {
        NodeRole::Quotients
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let (rows, limit) = (values.rows(), context.limit);
        if !context.may_search(rows, limit) {
            return Ok(None);
        }
        let divisor = values.divisor()?;
        if !may_pay(divisor, rows, limit) {
            return Ok(None);
        }
        if values.search(Encoding::Gcd, divisor)?.is_none() {
            return Ok(None);
        }
        let [quotients] = statistics::children(values, Encoding::Gcd)?;
        let child = plan::plan_among(&CHILDREN, &*quotients, &context.below())?;
        let parameters = Parameters::Gcd(divisor);
        let estimate = Estimate { parameters, children: vec![child], ..Estimate::of([]) };
        Ok(Some(estimate).filter(|estimate| saves(estimate.stored_bytes(), limit)))
    }

    /// The quotients by a divisor of all values less the least; none if a value is no multiple.
    fn derive(&self, input: &Input<'_>, divisor: u64) -> Option<Derived> {
        let values = with_words!(Values, input.values, words => {
            Words::owned(quotients(input, words, divisor)?.1)
        }, return None);
        let physical = unsigned(input.physical);
        Some(Derived::of([Derivative { physical, values, has_nulls: true }]))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        match input.values {
            Values::W32(words) => encode(input, words, plan, context),
            Values::W64(words) => encode(input, words, plan, context),
            _ => Ok(None),
        }
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::W32(out) => decode(node, rows, out),
            Output::W64(out) => decode(node, rows, out),
            _ => Err(mismatch(node)),
        }
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        select::words(node.child(0), &divided(node, &test.of_integers()))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        let Value::Word(quotient) = super::value(node.child(0), row)? else {
            return Err(mismatch(node.child(0)));
        };
        let value = node.parameter(1).wrapping_add(quotient.wrapping_mul(node.parameter(0)));
        let bits = node.physical().bits().unwrap_or(0);
        Ok(Value::Word(value & u64::MAX >> (u64::BITS as usize - bits)))
    }
}

#[cfg(test)]
mod tests;
