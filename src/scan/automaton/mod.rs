//! Predicates on strings as deterministic automata, over bytes and over FSST codes.
//!
//! ```text
//! LIKE '%ab%'    --> 0 --a--> 1 --b--> accept         live states 0 .. n, from the start
//!                    ^^------'         reject         then two sinks: a value that gets
//!                   other      (a: 1)                 to one is decided
//! ```
//!
//! Every predicate on one string is such an automaton, so that all of them share one way
//! of walking codes without decoding them (`codes.rs`), and one for a device to follow.
//! Whatever builds one (`like.rs`, `values.rs`) hands it to `minimise.rs`, where it gets
//! the least number of states, bytes in classes, and numbers in the order in which they
//! are first reached: equal predicates are equal automata, however they were written.

mod codes;
mod device;
mod like;
mod minimise;
#[cfg(test)]
mod tests;
mod values;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

pub(crate) use codes::CodeAutomaton;
pub(crate) use device::DeviceRows;

use crate::error::{Error, Result};

/// The most live states of an automaton: over codes there are twice as many, two sinks
/// and a fault, which have to fit 16 bits.
pub(crate) const MAX_STATES: usize = (u16::MAX as usize - 2) / 2;

/// A predicate on strings: a deterministic automaton over their bytes.
///
/// Strings are taken to be UTF-8. Others are tested too; to LIKE's `_` a character is
/// then a byte and the bytes `0x80..0xC0` behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Automaton {
    /// The class of each byte: bytes of one class lead from any state to the same state.
    class_of: Box<[u8; 256]>,
    classes: usize,
    /// For each live state, the state behind each class.
    next: Vec<u16>,
    /// Whether a string may end in each live state.
    accepts: Vec<bool>,
    /// A live state, or a sink where all strings are accepted or none is.
    start: u16,
}

impl Automaton {
    /// Number of live states, from which both outcomes can still be reached.
    ///
    /// The states have the numbers from 0 on; then come [`reject`](Self::reject) and
    /// [`accept`](Self::accept).
    pub fn live(&self) -> usize {
        self.accepts.len()
    }

    /// The sink from which no string is accepted.
    pub fn reject(&self) -> u16 {
        self.live() as u16
    }

    /// The sink from which every string is accepted.
    pub fn accept(&self) -> u16 {
        self.live() as u16 + 1
    }

    /// The state of a string of which no byte was seen.
    pub fn start(&self) -> u16 {
        self.start
    }

    /// Whether acceptance can no longer change.
    pub fn is_decided(&self, state: u16) -> bool {
        state >= self.reject()
    }

    /// Whether a string that ends in `state` is accepted.
    pub fn accepts(&self, state: u16) -> bool {
        self.accepts.get(state as usize).copied().unwrap_or(state == self.accept())
    }

    /// The state that `byte` leads to.
    pub fn step(&self, state: u16, byte: u8) -> u16 {
        let class = self.class_of[byte as usize] as usize;
        self.next.get(state as usize * self.classes + class).copied().unwrap_or(state)
    }

    /// The state that `bytes` lead to.
    pub fn walk(&self, mut state: u16, bytes: &[u8]) -> u16 {
        for &byte in bytes {
            if self.is_decided(state) {
                break;
            }
            state = self.step(state, byte);
        }
        state
    }

    /// Whether the predicate holds for a string.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.accepts(self.walk(self.start, bytes))
    }

    /// The predicate that holds where this one does not.
    #[must_use]
    pub fn negated(mut self) -> Automaton {
        let (reject, accept) = (self.reject(), self.accept());
        for state in self.next.iter_mut().chain([&mut self.start]) {
            if *state >= reject {
                *state = reject + accept - *state;
            }
        }
        for accepts in &mut self.accepts {
            *accepts = !*accepts;
        }
        self
    }
}

/// The error for what would take more states, or whatever `of` says, than there may be.
fn too_complex(what: &str, limit: usize, of: &str) -> Error {
    Error::expression(format!("{what} too complex: its automaton has more than {limit} {of}"))
}

/// An automaton in the making: not minimal yet, over classes that are ranges of bytes.
struct Draft {
    ranges: Ranges,
    /// For each state, the state behind each range.
    next: Vec<u16>,
    accepts: Vec<bool>,
    start: u16,
}

/// The states that every draft has, from which no string is accepted and every one.
const REJECT: u16 = 0;
const ACCEPT: u16 = 1;

impl Draft {
    /// The two sinks.
    fn new(ranges: Ranges) -> Draft {
        let mut next = vec![REJECT; ranges.len()];
        next.resize(2 * ranges.len(), ACCEPT);
        Draft { ranges, next, accepts: vec![false, true], start: REJECT }
    }

    /// Adds a state, from which all bytes are rejected until told otherwise.
    ///
    /// Errors when there are too many; `what` says of what.
    fn add(&mut self, accepts: bool, what: &str) -> Result<u16> {
        let state = self.accepts.len();
        if state >= MAX_STATES + 2 {
            return Err(too_complex(what, MAX_STATES, "states"));
        }
        self.accepts.push(accepts);
        self.next.resize((state + 1) * self.ranges.len(), REJECT);
        Ok(state as u16)
    }

    /// The states behind each range.
    fn row(&mut self, state: u16) -> &mut [u16] {
        let width = self.ranges.len();
        &mut self.next[state as usize * width..][..width]
    }
}

/// The states of a draft by what they stand for, in the order in which they are found:
/// key `i` is that of state `i + 2`.
struct Found<K> {
    keys: Vec<K>,
    numbers: HashMap<K, u16>,
}

impl<K: Clone + Eq + Hash> Found<K> {
    fn new() -> Found<K> {
        Found { keys: Vec::new(), numbers: HashMap::new() }
    }

    /// The state that `key` stands for, a new one if there is none yet.
    fn state<Q>(&mut self, draft: &mut Draft, key: &Q, accepts: bool, what: &str) -> Result<u16>
    where
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
        K: Borrow<Q>,
    {
        if let Some(&state) = self.numbers.get(key) {
            return Ok(state);
        }
        let state = draft.add(accepts, what)?;
        self.keys.push(key.to_owned());
        self.numbers.insert(key.to_owned(), state);
        Ok(state)
    }
}

/// All bytes in ascending ranges that a predicate does not look into.
struct Ranges {
    of: Box<[u8; 256]>,
    /// The first byte of each range.
    firsts: Vec<u8>,
}

impl Ranges {
    /// Ranges that begin at 0 and at each byte that `begins` says.
    fn new(begins: impl Fn(u8) -> bool) -> Ranges {
        let firsts: Vec<u8> = (0..=255).filter(|&byte| byte == 0 || begins(byte)).collect();
        let mut of = Box::new([0; 256]);
        let mut range = 0;
        for (byte, of) in (0..=255).zip(of.iter_mut()) {
            range += usize::from(firsts.get(range + 1) == Some(&byte));
            *of = range as u8;
        }
        Ranges { of, firsts }
    }

    /// Ranges such that each of these bytes has one of its own.
    fn apart<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> Ranges {
        let mut begins = [false; 257];
        for &byte in bytes {
            begins[byte as usize] = true;
            begins[byte as usize + 1] = true;
        }
        Ranges::new(|byte| begins[byte as usize])
    }

    fn len(&self) -> usize {
        self.firsts.len()
    }

    fn of(&self, byte: u8) -> usize {
        self.of[byte as usize] as usize
    }
}
