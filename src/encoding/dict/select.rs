//! Tests of dictionaries: once for each distinct value, then of the codes.
//!
//! Values ascend in dictionaries that we write, so that a test for a range of values is one
//! for a range of codes; of any other order it is one for several. Codes without a value are
//! found by a test of their own, before the first.

use crate::chunk::NodeView;
use crate::encoding::select::{RangeTest, Verdict, words};
use crate::error::Result;
use crate::lanes::VECTOR;
use crate::lanes::mask::{self, NONE};
use crate::ranges::{Key, Order, Ranges};

/// The order of codes.
const CODES: Key = Key { bits: 32, order: Order::Unsigned };

/// Whether there are codes from `count` on, which have no value.
pub(super) fn has_codes_from(codes: NodeView<'_>, count: usize) -> Result<bool> {
    let past = RangeTest::new(CODES, Ranges::between(count as u64, CODES.max()));
    let selector = match words(codes, &past)? {
        Verdict::None => return Ok(false),
        Verdict::All => return Ok(true),
        Verdict::Some(selector) => selector,
    };
    for vector in 0..codes.len().div_ceil(VECTOR) {
        let mut mask = NONE;
        selector.select(vector, &mut mask)?;
        mask::intersect(&mut mask, &mask::first(codes.len() - vector * VECTOR));
        if mask != NONE {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The test of a node's values, by the test of its dictionary's.
pub(crate) fn select<'a>(
    node: NodeView<'a>,
    of_values: impl FnOnce(NodeView<'a>) -> Result<Verdict<'a>>,
) -> Result<Verdict<'a>> {
    let (codes, dictionary) = (node.child(0), node.child(1));
    let selector = match of_values(dictionary)? {
        Verdict::Some(selector) => selector,
        decided => return Ok(decided),
    };
    let mut passing: Vec<(u64, u64)> = Vec::new();
    for vector in 0..dictionary.len().div_ceil(VECTOR) {
        let mut mask = NONE;
        selector.select(vector, &mut mask)?;
        mask::intersect(&mut mask, &mask::first(dictionary.len() - vector * VECTOR));
        for code in mask::rows(&mask).map(|row| (vector * VECTOR + row) as u64) {
            match passing.last_mut() {
                Some((_, last)) if *last + 1 == code => *last = code,
                _ => passing.push((code, code)),
            }
        }
    }
    words(codes, &RangeTest::new(CODES, Ranges::of(passing)))
}
