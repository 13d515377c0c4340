//! Automata that compare with whole values, and those that combine two.
//!
//! ```text
//! one_of  "ab" "ac"      0 -a-> 1 -b-> [2]       a trie; all other bytes: reject
//!                               '-c-> [3]        (minimising makes 2 and 3 one)
//! below   "ab"           [0] -a-> [1] -b-> 2     < accept, > reject; a string that ends
//!                                                on the way is a prefix, and so below
//! ```

use super::{ACCEPT, Automaton, Draft, Found, REJECT, Ranges};
use crate::error::Result;

impl Automaton {
    /// Equality with any of the values, none of which never holds.
    ///
    /// Errors when the values have too many different beginnings, see
    /// [`MAX_STATES`](super::MAX_STATES).
    pub fn one_of<'a>(values: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>) -> Result<Self> {
        let values = values.into_iter();
        let mut draft = Draft::new(Ranges::apart(values.clone().flatten()));
        let what = "values are";
        draft.start = draft.add(false, what)?;
        for value in values {
            let mut state = draft.start;
            for &byte in value {
                let range = draft.ranges.of(byte);
                let mut behind = draft.row(state)[range];
                if behind == REJECT {
                    behind = draft.add(false, what)?;
                    draft.row(state)[range] = behind;
                }
                state = behind;
            }
            draft.accepts[state as usize] = true;
        }
        Ok(draft.minimised())
    }

    /// Strings that come before `bound` in the order of their bytes, or are equal to it
    /// if that is included.
    pub fn below(bound: &[u8], inclusive: bool) -> Result<Self> {
        let mut draft = Draft::new(Ranges::apart(bound));
        let what = "a bound is";
        let mut state = draft.add(!bound.is_empty() || inclusive, what)?;
        draft.start = state;
        for (at, &byte) in bound.iter().enumerate() {
            let behind = draft.add(at + 1 < bound.len() || inclusive, what)?;
            let range = draft.ranges.of(byte);
            let row = draft.row(state);
            row[..range].fill(ACCEPT);
            row[range] = behind;
            state = behind;
        }
        Ok(draft.minimised())
    }

    /// Strings that come behind `bound`, or are equal to it if that is included.
    pub fn above(bound: &[u8], inclusive: bool) -> Result<Self> {
        Ok(Automaton::below(bound, !inclusive)?.negated())
    }

    /// The predicate that holds where both do: a range of two bounds, or two patterns in
    /// one walk.
    ///
    /// Errors when there are too many pairs of states.
    pub fn and(&self, other: &Automaton) -> Result<Automaton> {
        let classes = |byte: u8| (self.class_of[byte as usize], other.class_of[byte as usize]);
        let mut draft = Draft::new(Ranges::new(|byte| classes(byte) != classes(byte - 1)));
        let mut pairs = Found::new();
        let number = |draft: &mut Draft, pairs: &mut Found<_>, left, right| {
            if left == self.reject() || right == other.reject() {
                return Ok(REJECT);
            }
            if left == self.accept() && right == other.accept() {
                return Ok(ACCEPT);
            }
            let accepts = self.accepts(left) && other.accepts(right);
            pairs.state(draft, &(left, right), accepts, "predicates are")
        };
        draft.start = number(&mut draft, &mut pairs, self.start, other.start)?;
        let mut at = 0;
        while let Some(&(left, right)) = pairs.keys.get(at) {
            for range in 0..draft.ranges.len() {
                let byte = draft.ranges.firsts[range];
                let (left, right) = (self.step(left, byte), other.step(right, byte));
                let behind = number(&mut draft, &mut pairs, left, right)?;
                draft.row(at as u16 + 2)[range] = behind;
            }
            at += 1;
        }
        Ok(draft.minimised())
    }
}
