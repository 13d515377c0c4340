//! An automaton over the codes of one symbol table.
//!
//! ```text
//! live state s         code 0, 1, ..   the state behind the code's symbol
//!                      no symbol       fault
//!                      255             s + n
//! s + n, an escape     byte            the state behind the literal
//! reject accept fault                  themselves: what follows is not looked at
//! ```
//!
//! An escape is a code like any other and so is its literal: a walk is a chain of loads
//! and nothing else, of 4 cycles each where the table holds `256 * state` (with rows of
//! bytes it is 6, and walks take 1.35 times as long). A core can do more than one chain:
//! a window of codes is walked past the value's end if need be and the state at the end
//! picked afterwards, so that what a loop depends on, the number of windows, is often
//! guessed right and the next value begins before this one is done. Within a long value
//! four windows are walked at once, three of them from a guess.
//!
//! LIKE '%special%' over l_comment, 8 codes a value, and '%the%' over wikipedia, 70 codes,
//! in MB/s of strings: 3,240 and 2,520. Lost: code by code to a value's end 2,500 and
//! 1,620, windows without guesses 3,560 and 1,400, six values side by side 2,680 and 2,130.

use super::Automaton;
use crate::encoding::fsst::{ESCAPE, SymbolTable};
use crate::error::{Error, Result, ensure};

/// Entries of a row: one per code.
const CODES: usize = 256;

/// Codes that are walked before a value's end is looked for, first and from then on. Few
/// at first: values of 3 codes then take 0.6 of the time, and a prefix, which a few codes
/// decide, as well.
const HEAD: usize = 4;
const WINDOW: usize = 8;

/// Windows of a long value that are walked at once.
const ABREAST: usize = 4;

/// Values whose last states are kept before they become bits.
const BLOCK: usize = 1024;

/// An [`Automaton`] over codes, those of a symbol table or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeAutomaton {
    table: Table,
    start: u16,
    /// The first state that no code leads out of.
    first_sink: u16,
    /// What the values are that end in each state.
    ends: Vec<End>,
}

/// The state behind each state and code.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Table {
    /// Of at most 256 states.
    Narrow(Narrow),
    Wide(Wide),
}

/// What a value is that ends in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum End {
    Rejected = 0,
    Accepted = 1,
    /// Its last code is an escape that no literal follows.
    LoneEscape = 2,
    /// A code stands for no symbol.
    UnknownCode = 3,
}

impl End {
    /// Whether the predicate holds; errors on codes that stand for no string.
    pub fn accepted(self) -> Result<bool> {
        match self {
            End::Rejected => Ok(false),
            End::Accepted => Ok(true),
            End::LoneEscape => Err(Error::corrupt("the codes end with an escape")),
            End::UnknownCode => Err(Error::corrupt("a code stands for no symbol")),
        }
    }
}

impl Automaton {
    /// The automaton over codes of these symbols.
    ///
    /// Walks every symbol from every state, some 8 ns each: 20 microseconds for 10 states,
    /// 20 ms for 10,000, whose table has 10 MB. Chunks that share a symbol table can share
    /// the automaton.
    pub fn over_codes(&self, symbols: &SymbolTable) -> CodeAutomaton {
        let symbols: Vec<&[u8]> = (0..ESCAPE).map_while(|code| symbols.symbol(code)).collect();
        let live = self.live() as u16;
        CodeAutomaton::new(self, Some(live), |state, row| {
            for (symbol, behind) in symbols.iter().zip(row) {
                *behind = self.walk(state, symbol);
            }
        })
    }

    /// The automaton over bytes, for strings that are not compressed: each byte is a code.
    pub fn over_bytes(&self) -> CodeAutomaton {
        CodeAutomaton::new(self, None, |state, row| {
            for (byte, behind) in (0..=255).zip(row) {
                *behind = self.step(state, byte);
            }
        })
    }
}

impl CodeAutomaton {
    /// Builds the table; `fill` gives the states of `automaton` behind the codes of a live
    /// one, and `escapes` is the number of live states if there are escapes.
    fn new(
        automaton: &Automaton,
        escapes: Option<u16>,
        fill: impl Fn(u16, &mut [u16]),
    ) -> CodeAutomaton {
        let live = automaton.live() as u16;
        let first_sink = live + escapes.unwrap_or(0);
        let fault = first_sink + 2;
        let states = fault as usize + 1;
        // The sinks and the fault have the same order here as there.
        let shift = first_sink - live;
        let number = |state: u16| if state < live { state } else { state + shift };
        let mut table = if states <= 256 {
            Table::Narrow(Narrow::new())
        } else {
            Table::Wide(Wide { rows: vec![[0; CODES]; states] })
        };
        let mut row = [0; CODES];
        for state in 0..=fault {
            if state < live {
                row.fill(fault - shift);
                fill(state, &mut row);
                row = row.map(number);
                if escapes.is_some() {
                    row[ESCAPE as usize] = state + live;
                }
            } else if state < first_sink {
                for (byte, behind) in (0..=255).zip(&mut row) {
                    *behind = number(automaton.step(state - live, byte));
                }
            } else {
                row.fill(state);
            }
            match &mut table {
                Table::Narrow(table) => table.set_row(state, &row),
                Table::Wide(table) => table.rows[state as usize] = row,
            }
        }
        let end = |state: u16| match automaton.accepts(state) {
            true => End::Accepted,
            false => End::Rejected,
        };
        let ends = (0..live)
            .map(end)
            .chain((live..first_sink).map(|_| End::LoneEscape))
            .chain([End::Rejected, End::Accepted, End::UnknownCode])
            .collect();
        CodeAutomaton { table, start: number(automaton.start()), first_sink, ends }
    }

    /// Number of states; the start and those behind codes are below it.
    pub fn states(&self) -> usize {
        self.ends.len()
    }

    /// The state of a string of which no code was seen.
    pub fn start(&self) -> u16 {
        self.start
    }

    /// The first state that no code leads out of, as all states from there on.
    pub fn first_sink(&self) -> u16 {
        self.first_sink
    }

    /// What a string is that ends in `state`.
    pub fn end_in(&self, state: u16) -> End {
        self.ends[state as usize]
    }

    /// The states behind the codes of `state`.
    pub fn row(&self, state: u16) -> [u16; CODES] {
        match &self.table {
            Table::Narrow(table) => std::array::from_fn(|code| {
                table.step(Narrow::from_number(state), code as u8) / CODES as u16
            }),
            Table::Wide(table) => table.rows[state as usize],
        }
    }

    /// Whether the predicate holds for the string that `codes` stand for.
    ///
    /// Errors on a code without symbol and on an escape at the end, unless what stands
    /// before them decides: codes behind a decision are not looked at.
    #[cfg(test)]
    pub fn matches(&self, codes: &[u8]) -> Result<bool> {
        let end = match &self.table {
            Table::Narrow(table) => self.end(table, codes, codes.len()),
            Table::Wide(table) => self.end(table, codes, codes.len()),
        };
        self.ends[end as usize].accepted()
    }

    /// Tests values that stand one behind the other at the beginning of `codes`, value `i`
    /// of `lens[i]` codes, and sets bit `i` of `mask` to whether the predicate holds.
    /// Further bits of the last word are cleared. A null of no codes is an empty string.
    ///
    /// Fastest if more codes follow, as those of a vector follow those of another.
    /// Errors as [`matches`](Self::matches) does, and if there are fewer codes than the
    /// lengths say; what is in the mask then is unspecified.
    ///
    /// # Panics
    ///
    /// When the mask has not a word per 64 values.
    pub fn select(&self, codes: &[u8], lens: &[u32], mask: &mut [u64]) -> Result<()> {
        assert_eq!(mask.len(), lens.len().div_ceil(64), "words of a mask of {} bits", lens.len());
        match &self.table {
            Table::Narrow(table) => self.select_by(table, codes, lens, mask),
            Table::Wide(table) => self.select_by(table, codes, lens, mask),
        }
    }

    /// [`select`](Self::select) by one kind of table.
    fn select_by<T: Rows>(
        &self,
        table: &T,
        mut codes: &[u8],
        lens: &[u32],
        mask: &mut [u64],
    ) -> Result<()> {
        let mut ends = [0; BLOCK];
        for (lens, mask) in lens.chunks(BLOCK).zip(mask.chunks_mut(BLOCK / 64)) {
            let total: u64 = lens.iter().map(|&len| u64::from(len)).sum();
            ensure!(
                total <= codes.len() as u64,
                "values of {total} codes where {} are left",
                codes.len()
            );
            let ends = &mut ends[..lens.len()];
            for (end, &len) in ends.iter_mut().zip(lens) {
                *end = self.end(table, codes, len as usize);
                codes = &codes[len as usize..];
            }
            let mut all = 0;
            for (word, ends) in mask.iter_mut().zip(ends.chunks(64)) {
                *word = 0;
                for (bit, &end) in ends.iter().enumerate() {
                    let end = self.ends[end as usize] as u8;
                    *word |= u64::from(end & 1) << bit;
                    all |= end;
                }
            }
            if all > End::Accepted as u8 {
                for &end in &*ends {
                    self.ends[end as usize].accepted()?;
                }
            }
        }
        Ok(())
    }

    /// The number of the state at the end of the value of the first `left` codes.
    #[inline(always)]
    fn end<T: Rows>(&self, table: &T, mut codes: &[u8], mut left: usize) -> u16 {
        let first_sink = T::from_number(self.first_sink);
        let mut state = T::from_number(self.start);
        T::number('value: {
            let Some((behind, at_end)) = table.window::<HEAD>(state, codes, left) else {
                break 'value table.walk(state, &codes[..left]);
            };
            if left <= HEAD {
                break 'value at_end;
            }
            if behind >= first_sink {
                break 'value behind;
            }
            (state, codes, left) = (behind, &codes[HEAD..], left - HEAD);
            loop {
                if left > ABREAST * WINDOW {
                    break 'value table.walk_long(state, &codes[..left], first_sink);
                }
                let Some((behind, at_end)) = table.window::<WINDOW>(state, codes, left) else {
                    break 'value table.walk(state, &codes[..left]);
                };
                if left <= WINDOW {
                    break 'value at_end;
                }
                if behind >= first_sink {
                    break 'value behind;
                }
                (state, codes, left) = (behind, &codes[WINDOW..], left - WINDOW);
            }
        })
    }
}

/// A table to walk by, and how it writes a state: ascending with its number.
trait Rows {
    fn from_number(number: u16) -> u16;

    fn number(state: u16) -> u16;

    /// The state behind `state` and `code`.
    fn step(&self, state: u16, code: u8) -> u16;

    /// The state behind all of the codes.
    #[inline(always)]
    fn walk(&self, state: u16, codes: &[u8]) -> u16 {
        codes.iter().fold(state, |state, &code| self.step(state, code))
    }

    /// The states behind the first `W` codes and behind the first `left`, or `W` if that
    /// is less; none if there are fewer than `W`.
    #[inline(always)]
    fn window<const W: usize>(
        &self,
        mut state: u16,
        codes: &[u8],
        left: usize,
    ) -> Option<(u16, u16)> {
        // One more than W, which cannot be written so.
        let mut states = [state; WINDOW + 1];
        for (before, &code) in codes.first_chunk::<W>()?.iter().enumerate() {
            state = self.step(state, code);
            states[before + 1] = state;
        }
        Some((state, states[left.min(W)]))
    }

    /// The state behind all of the codes, or an earlier one from `first_sink` on.
    ///
    /// The windows of a block but the first are walked from the state at its beginning:
    /// most strings are most of the time in the state of those that have not begun to
    /// match. A window that begins in another state is walked again.
    #[inline(never)]
    fn walk_long(&self, mut state: u16, codes: &[u8], first_sink: u16) -> u16 {
        let mut blocks = codes.chunks_exact(ABREAST * WINDOW);
        for block in &mut blocks {
            let guess = state;
            let mut behind = [guess; ABREAST];
            for at in 0..WINDOW {
                for (window, behind) in behind.iter_mut().enumerate() {
                    *behind = self.step(*behind, block[window * WINDOW + at]);
                }
            }
            state = behind[0];
            for (behind, window) in behind.iter().zip(block.chunks_exact(WINDOW)).skip(1) {
                if state == guess {
                    state = *behind;
                } else if state < first_sink {
                    state = self.walk(state, window);
                } else {
                    return state;
                }
            }
            if state >= first_sink {
                return state;
            }
        }
        self.walk(state, blocks.remainder())
    }
}

/// Rows of states times 256, so that the index of an entry is a sum. The spare row lets
/// the compiler see that no sum of a state and a code is past the end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Narrow {
    rows: Box<[u16; CODES * (CODES + 1)]>,
}

impl Narrow {
    fn new() -> Narrow {
        let rows = vec![0; CODES * (CODES + 1)].into_boxed_slice();
        Narrow { rows: rows.try_into().expect("a slice of as many entries") }
    }

    fn set_row(&mut self, state: u16, row: &[u16; CODES]) {
        let row_of = &mut self.rows[state as usize * CODES..][..CODES];
        for (entry, &behind) in row_of.iter_mut().zip(row) {
            *entry = Self::from_number(behind);
        }
    }
}

impl Rows for Narrow {
    #[inline(always)]
    fn from_number(number: u16) -> u16 {
        number * CODES as u16
    }

    #[inline(always)]
    fn number(state: u16) -> u16 {
        state / CODES as u16
    }

    #[inline(always)]
    fn step(&self, state: u16, code: u8) -> u16 {
        self.rows[state as usize + code as usize]
    }
}

/// Rows of the numbers of states.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wide {
    rows: Vec<[u16; CODES]>,
}

impl Rows for Wide {
    #[inline(always)]
    fn from_number(number: u16) -> u16 {
        number
    }

    #[inline(always)]
    fn number(state: u16) -> u16 {
        state
    }

    #[inline(always)]
    fn step(&self, state: u16, code: u8) -> u16 {
        self.rows[state as usize][code as usize]
    }
}
