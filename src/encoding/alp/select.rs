//! Tests of floats as tests of their packed integers.
//!
//! Decoding multiplies by positive numbers and rounds, both monotone: the packed integers whose
//! values are in a range are a range, whose ends are found by bisection. Exceptions are tested one
//! by one.

use super::decode::Step;
use super::node::{Float, Vectors};
use crate::chunk::NodeView;
use crate::encoding::select::{RangeTest, Selector, Verdict, packed_in};
use crate::error::Result;
use crate::lanes::{Lane, Mask, mask};

/// The test of a node's values.
pub(super) fn select<'a, F: Float>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
    let vectors = Vectors::<F>::of(node)?;
    Ok(Verdict::some(DecimalsTest { vectors, test: test.clone() }))
}

/// Packed decimals.
struct DecimalsTest<'a, F: Float> {
    vectors: Vectors<'a, F>,
    test: RangeTest,
}

impl<F: Float> DecimalsTest<'_, F> {
    /// The least packed integer up to `top` whose value's key is `bound` or more; one more
    /// than `top` if there is none.
    fn least(&self, step: Step<F>, bound: u64, top: u64) -> u64 {
        let key = self.test.key;
        let is_below = |packed: u64| {
            let bits = step.decode(F::Bits::truncate(packed)).to_bits();
            key.of_bits(bits.widen()) < bound
        };
        let near = step.near(F::from_bits(F::Bits::truncate(key.to_bits(bound)))).min(top);
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

    /// The packed integers up to `top` whose values are in the ranges.
    fn packed(&self, step: Step<F>, top: u64) -> impl Iterator<Item = (u64, u64)> {
        let key = |packed: u64| {
            let bits = step.decode(F::Bits::truncate(packed)).to_bits();
            self.test.key.of_bits(bits.widen())
        };
        let within = self.test.ranges.within(key(0), key(top)).iter();
        within.filter_map(move |(low, high)| {
            let low = self.least(step, *low, top);
            let end = match high.checked_add(1) {
                Some(behind) => self.least(step, behind, top),
                None => top + 1,
            };
            (low < end).then(|| (low, end - 1))
        })
    }
}

impl<F: Float> Selector for DecimalsTest<'_, F> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let (words, width) = self.vectors.packed(vector);
        let ranges = self.packed(self.vectors.step(vector), F::Bits::mask(width).widen());
        packed_in(words, width, ranges, mask);
        if let Some(block) = self.vectors.exceptions(vector)? {
            for (position, bits) in block.iter() {
                mask::set(mask, position, self.test.passes(bits.widen()));
            }
        }
        Ok(())
    }
}
