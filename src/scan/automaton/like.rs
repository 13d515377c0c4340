//! LIKE, and what it says more simply: prefixes, suffixes, substrings.
//!
//! ```text
//! pattern     a _ _ % b        steps, and `%` before some of them; a state of the
//! steps       a % _ _ b        deterministic automaton is a set of places between steps
//! places     0 1   2 3 4
//! ```
//!
//! Wildcards in a row are `%` first: places behind it stay, as any byte may follow it,
//! where `_` before a `%` would have as many sets of places as there are ways to fill it.
//! A set with a place at a `%` needs no place before it, since what leads on from there
//! leads on from the `%`. So a pattern without `_` has as many states as bytes, and one
//! more. `%a______b` has one for every way in which `a` stood in six characters: such
//! patterns are what [`MAX_EXTRA_STATES`] is for.
//!
//! A character of UTF-8 is a byte that continues none and those that continue it: `_`
//! takes the first, and the place behind it keeps the others. It needs no state to count
//! them, and on UTF-8 is exact.

use super::{ACCEPT, Automaton, Draft, Found, REJECT, Ranges, too_complex};
use crate::error::{Error, Result};

/// States that a pattern may have beyond one per step. To make a table for the codes of
/// 500 states takes as long as to decode 100,000 short strings, so that many more help
/// nobody.
const MAX_EXTRA_STATES: usize = 4096;

/// Places in all sets together, which is what building takes in memory and time: reached
/// by 2,900 times the same letter between two `%`, never by text.
const MAX_PLACES: usize = 1 << 22;

/// What one character or byte of a string has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Byte(u8),
    /// Any character.
    One,
}

/// The bytes that continue a character.
const CONTINUES: std::ops::Range<u8> = 0x80..0xC0;

/// A pattern in its normal form.
struct Steps {
    steps: Vec<Step>,
    /// Whether there is a `%` at each place, that is before each step and at the end.
    any: Vec<bool>,
}

impl Automaton {
    /// SQL's LIKE: `%` is any string, `_` any character, and a backslash makes the
    /// character behind it stand for itself, whatever it is.
    ///
    /// Errors on a backslash at the end, and when the pattern is too complex.
    pub fn like(pattern: &str) -> Result<Automaton> {
        let mut steps = Steps::new();
        let mut wildcards = 0;
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let literal = match character {
                '%' => {
                    steps.any[wildcards] = true;
                    continue;
                }
                '_' => {
                    steps.push(Step::One);
                    continue;
                }
                '\\' => characters.next().ok_or_else(|| {
                    Error::expression(format!("LIKE pattern {pattern:?} ends with a backslash"))
                })?,
                character => character,
            };
            steps.literal(literal.encode_utf8(&mut [0; 4]).as_bytes());
            wildcards = steps.steps.len();
        }
        steps.automaton()
    }

    /// Strings that begin with `bytes`.
    pub fn prefix(bytes: &[u8]) -> Result<Automaton> {
        Steps::around(false, bytes, true).automaton()
    }

    /// Strings that end with `bytes`.
    pub fn suffix(bytes: &[u8]) -> Result<Automaton> {
        Steps::around(true, bytes, false).automaton()
    }

    /// Strings that have `bytes` somewhere.
    pub fn contains(bytes: &[u8]) -> Result<Automaton> {
        Steps::around(true, bytes, true).automaton()
    }
}

impl Steps {
    /// The pattern of the empty string.
    fn new() -> Steps {
        Steps { steps: Vec::new(), any: vec![false] }
    }

    /// Bytes, with any string before and behind if told so.
    fn around(before: bool, bytes: &[u8], behind: bool) -> Steps {
        let mut steps = Steps::new();
        steps.any[0] = before;
        steps.literal(bytes);
        steps.any[bytes.len()] |= behind;
        steps
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step);
        self.any.push(false);
    }

    fn literal(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.push(Step::Byte(byte)));
    }

    /// The places that `byte` leads to from an ascending set of them, ascending.
    fn follow(&self, places: &[u16], byte: u8, behind: &mut Vec<u16>) {
        behind.clear();
        let continues = CONTINUES.contains(&byte);
        for &place in places {
            let at = place as usize;
            let in_character = continues && at > 0 && self.steps[at - 1] == Step::One;
            if (self.any[at] || in_character) && behind.last() != Some(&place) {
                behind.push(place);
            }
            let taken = match self.steps.get(at) {
                Some(Step::Byte(literal)) => *literal == byte,
                Some(Step::One) => !continues,
                None => false,
            };
            if taken {
                behind.push(place + 1);
            }
        }
        if let Some(last) = behind.iter().rposition(|&place| self.any[place as usize]) {
            behind.drain(..last);
        }
    }

    /// The deterministic automaton whose states are sets of places.
    fn automaton(self) -> Result<Automaton> {
        let end = self.steps.len();
        let limit = end + MAX_EXTRA_STATES;
        let what = "a pattern is";
        let mut begins = [false; 257];
        for step in &self.steps {
            match *step {
                Step::Byte(byte) => begins[byte as usize..][..2].fill(true),
                Step::One => {
                    begins[CONTINUES.start as usize] = true;
                    begins[CONTINUES.end as usize] = true;
                }
            }
        }
        let mut draft = Draft::new(Ranges::new(|byte| begins[byte as usize]));
        let mut sets: Found<Vec<u16>> = Found::new();
        let mut places_in_all = 0;
        let mut number = |draft: &mut Draft, sets: &mut Found<_>, places: &[u16]| {
            let Some(&last) = places.last() else { return Ok(REJECT) };
            let at_end = last as usize == end;
            if at_end && self.any[end] {
                return Ok(ACCEPT);
            }
            let before = sets.keys.len();
            let state = sets.state(draft, places, at_end, what)?;
            if sets.keys.len() > before {
                places_in_all += places.len();
            }
            if sets.keys.len() > limit {
                return Err(too_complex(what, limit, "states"));
            }
            if places_in_all > MAX_PLACES {
                return Err(too_complex(what, MAX_PLACES, "places in its states"));
            }
            Ok(state)
        };
        draft.start = number(&mut draft, &mut sets, &[0])?;
        let mut behind = Vec::new();
        let mut at = 0;
        while at < sets.keys.len() {
            for range in 0..draft.ranges.len() {
                self.follow(&sets.keys[at], draft.ranges.firsts[range], &mut behind);
                let target = number(&mut draft, &mut sets, &behind)?;
                draft.row(at as u16 + 2)[range] = target;
            }
            at += 1;
        }
        Ok(draft.minimised())
    }
}
