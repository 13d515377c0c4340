//! Tests of dictionaries: once for each distinct value, then of the codes.
//!
//! Values ascend in dictionaries that we write, so that a test for a range of values is one
//! for a range of codes; of any other order it is one for several.

use super::{Found, NONE, first, rows, words};
use crate::chunk::NodeView;
use crate::error::Result;
use crate::lanes::VECTOR;
use crate::scan::ranges::{Key, Order, Ranges};

/// The order of codes.
const CODES: Key = Key { bits: 32, order: Order::Unsigned };

/// The test of a node's values, by the test of its dictionary's.
pub(super) fn found<'a>(
    node: NodeView<'a>,
    of_values: impl FnOnce(NodeView<'a>) -> Result<Found<'a>>,
) -> Result<Found<'a>> {
    let (codes, dictionary) = (node.child(0), node.child(1));
    let selector = match of_values(dictionary)? {
        Found::Some(selector) => selector,
        decided => return Ok(decided),
    };
    let mut passing = Vec::new();
    for vector in 0..dictionary.len().div_ceil(VECTOR) {
        let mut mask = NONE;
        selector.select(vector, &mut mask)?;
        let within = first(dictionary.len() - vector * VECTOR);
        mask.iter_mut().zip(within).for_each(|(word, within)| *word &= within);
        let code = |row: usize| (vector * VECTOR + row) as u64;
        passing.extend(rows(&mask).map(|row| (code(row), code(row))));
    }
    words::found(codes, CODES, &Ranges::of(passing))
}
