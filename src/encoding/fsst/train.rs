//! Training: growing a symbol table over generations that parse a sample.
//!
//! ```text
//! generation g   parse with table g, count symbols and pairs of neighbours
//!                candidates: symbols, first bytes, pairs  gain = count * length
//!                table g+1: the 255 of most gain, one per slot
//! refinement     swap symbols that cost little to lose for pairs that save more
//! ```
//!
//! kernels/fsst_train.cu does the same on a device, to the byte: candidates are ordered
//! by gain and then by [`key`](Candidate::key), so that nothing depends on the order in
//! which they are found.
//!
//! Growing finds long symbols, since each generation may double their length,
//! but `count * length` values a symbol as if nothing could replace it. The
//! refinement counts the code bytes that a removal really costs.
//!
//! Figures and what was tried: docs/experiments.md. What binds is one symbol a slot (`encode.rs`).

use std::ops::{ControlFlow, Range};

use super::encode::Encoder;
use super::sample::PIECE;
use super::symbols::{MAX_SYMBOL_LEN, MAX_SYMBOLS, SLOTS, Symbol, SymbolTable, slot_of};

/// Share of the sample that each generation parses, in 128ths: the early ones
/// only need the most frequent pairs.
pub(crate) const SHARES: [u32; 8] = [16, 32, 64, 96, 128, 128, 128, 128];

/// Share that stands for the whole sample.
pub(crate) const WHOLE: u32 = 128;

/// Most refinements after the last generation; one that does not shorten the
/// codes of the sample ends training.
pub(crate) const REFINEMENTS: usize = 2;

/// Most symbols that a refinement swaps. Their gains are counted one by one,
/// so that many swaps at once may spoil each other.
pub(crate) const SWAPS: usize = 64;

/// Most candidates that a refinement looks at.
pub(crate) const ADDITIONS: usize = 128;

/// Bytes of sample per occurrence that a candidate must have.
pub(crate) const BYTES_PER_OCCURRENCE: u64 = 12 << 10;

/// Fewest occurrences of a candidate: one alone never pays for its place in
/// the serialised table.
pub(crate) const LEAST_COUNT: u64 = 2;

/// Weight of a one-byte symbol's count: it is what keeps escapes away.
pub(crate) const SINGLE_WEIGHT: u64 = 8;

/// What the parse yields: a literal byte is `byte`, a symbol `256 + code`.
const UNITS: usize = 512;

impl SymbolTable {
    /// Trains a table on a sample of the values, see [`sample`](super::sample()); lines of
    /// more than 128 bytes count as several.
    ///
    /// The same sample gives the same table on every machine. The table obeys
    /// the slot rule of [`Encoder::new`]. 64 KiB of sample take 2 to 5 ms.
    #[cfg(any(test, feature = "_internals"))]
    pub fn train(sample: &[&[u8]]) -> SymbolTable {
        Self::train_with_cost(sample).0
    }

    /// Trains a table; also gives the code bytes of the sample, piece by piece.
    pub(super) fn train_with_cost(sample: &[&[u8]]) -> (SymbolTable, u64) {
        let sample = &Sample::new(sample);
        let mut counters = Counters::new();
        let mut best = SymbolTable::empty();
        let mut best_cost = u64::MAX;
        let mut table = SymbolTable::empty();
        for share in SHARES {
            let cost = counters.count(&table, sample, share);
            if share == WHOLE && cost < best_cost {
                best_cost = cost;
                best.clone_from(&table);
            }
            table = counters.grow(&table);
        }
        for refinement in 0..=REFINEMENTS {
            let cost = counters.count(&table, sample, WHOLE);
            if cost >= best_cost {
                break;
            }
            best_cost = cost;
            best = table;
            if refinement == REFINEMENTS {
                break;
            }
            table = counters.refine(&best);
        }
        (best, best_cost)
    }
}

/// In place of the unit before the first of a piece.
const START: usize = UNITS;

/// Pieces that are parsed in turn, a code each: one parse alone is a chain of loads
/// that wait for each other. On 64 KiB of six files training took 4.2 to 6.2 ms with one
/// lane and takes 3.5 to 5.7.
const LANES: usize = 4;

/// A place in a piece.
#[derive(Clone, Copy, Default)]
struct Lane {
    at: usize,
    end: usize,
    /// The unit before, or [`START`].
    previous: usize,
}

/// The lines to train on, one behind the other.
struct Sample {
    /// With [`MAX_SYMBOL_LEN`] bytes behind them.
    bytes: Vec<u8>,
    pieces: Vec<Range<usize>>,
}

impl Sample {
    fn new(lines: &[&[u8]]) -> Sample {
        let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.len()).sum::<usize>() + 8);
        let mut pieces = Vec::with_capacity(lines.len());
        for piece in lines.iter().flat_map(|line| line.chunks(PIECE)) {
            let start = bytes.len();
            bytes.extend_from_slice(piece);
            pieces.push(start..bytes.len());
        }
        bytes.resize(bytes.len() + MAX_SYMBOL_LEN, 0);
        Sample { bytes, pieces }
    }

    /// The eight bytes from `at` on.
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    }
}

/// Occurrences in one parse of the sample.
struct Counters {
    /// Of each unit, and of each byte as the first of a longer symbol.
    units: Vec<u32>,
    /// Of each unit after another, likewise.
    pairs: Vec<u16>,
    /// The pairs that occur: clearing and listing these is much cheaper than
    /// walking the whole matrix.
    touched: Vec<u32>,
    /// How many of `touched` are set.
    distinct: usize,
    /// Bytes parsed.
    bytes: u64,
    /// What parsed last, kept for its memory.
    encoder: Option<Encoder>,
}

/// A symbol that the next table may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    gain: u64,
    /// The symbol: its word, with [`MARK`] and its length above if it has less than 8 bytes.
    key: u64,
}

/// Above the bytes of a key: here stands the length of a symbol of less than 8 bytes.
const MARK: u64 = 0xF8;

/// The key that marks vacant places where keys are hashed.
pub(crate) const VACANT: u64 = 0x9E9E_9E9E_9E9E_9E9E;

/// The key of a symbol; none for a few of 8 bytes, which look like the key of a shorter
/// one or of none: zeros and a last byte above [`MARK`].
fn key_of(Symbol { word, len }: Symbol) -> Option<u64> {
    let key = if len < 8 { word | (MARK + u64::from(len)) << 56 } else { word };
    (key != VACANT && symbol_of_key(key).len == len).then_some(key)
}

fn symbol_of_key(key: u64) -> Symbol {
    let (word, len) = (key << 8 >> 8, (key >> 56).saturating_sub(MARK));
    match len {
        1.. if word >> (8 * len) == 0 => Symbol { word, len: len as u32 },
        _ => Symbol { word: key, len: 8 },
    }
}

/// Candidates, each once: one symbol may come from several pairs, such as a + bc and
/// ab + c.
fn merged(gains: impl Iterator<Item = (Symbol, u64)>) -> Vec<Candidate> {
    let mut all: Vec<Candidate> =
        gains.filter_map(|(symbol, gain)| Some(Candidate { gain, key: key_of(symbol)? })).collect();
    all.sort_unstable_by_key(|candidate| candidate.key);
    all.chunk_by(|left, right| left.key == right.key)
        .map(|same| {
            let gain = same.iter().map(|candidate| candidate.gain).sum();
            Candidate { gain, key: same[0].key }
        })
        .collect()
}

/// Calls `take` with the best candidates first, until it is full.
fn best_first(mut all: Vec<Candidate>, mut take: impl FnMut(Candidate) -> ControlFlow<()>) {
    // The best of thousands, a few hundred at a time.
    let mut rest = all.as_mut_slice();
    while !rest.is_empty() {
        let count = rest.len().min(2 * MAX_SYMBOLS);
        if count < rest.len() {
            rest.select_nth_unstable_by(count, |left, right| right.cmp(left));
        }
        let (best, others) = rest.split_at_mut(count);
        best.sort_unstable_by(|left, right| right.cmp(left));
        if best.iter().try_for_each(|candidate| take(*candidate)).is_break() {
            return;
        }
        rest = others;
    }
}

impl Counters {
    fn new() -> Counters {
        Counters {
            units: vec![0; UNITS],
            pairs: vec![0; (UNITS + 1) * UNITS],
            touched: vec![0; UNITS * UNITS + 1],
            distinct: 0,
            bytes: 0,
            encoder: None,
        }
    }

    /// Parses the lines of a share of the sample and returns the code bytes.
    fn count(&mut self, table: &SymbolTable, sample: &Sample, share: u32) -> u64 {
        for &pair in &self.touched[..self.distinct] {
            self.pairs[pair as usize] = 0;
        }
        self.distinct = 0;
        self.units.fill(0);
        self.bytes = 0;
        let mut encoder = self.encoder.take().unwrap_or_else(Encoder::empty);
        if encoder.load(table).is_err() {
            return u64::MAX;
        }
        // Pieces of a small share are spread over the sample by hashing.
        let mut pieces = (sample.pieces.iter().enumerate())
            .filter(|(number, _)| (*number as u32).wrapping_mul(0x9E37_79B1) >> 25 < share);
        let mut cost = 0;
        let mut lanes = [Lane::default(); LANES];
        loop {
            let mut is_done = true;
            for lane in &mut lanes {
                if lane.at == lane.end {
                    let Some((_, piece)) = pieces.next() else { continue };
                    *lane = Lane { at: piece.start, end: piece.end, previous: START };
                    self.bytes += piece.len() as u64;
                }
                is_done = false;
                cost += self.step(&encoder, sample.word(lane.at), lane);
            }
            if is_done {
                self.encoder = Some(encoder);
                return cost;
            }
        }
    }

    /// Parses one code; gives its bytes.
    #[inline(always)]
    fn step(&mut self, encoder: &Encoder, word: u64, lane: &mut Lane) -> u64 {
        let (code, len) = encoder.longest_match(word, lane.end - lane.at);
        let first = (word & 0xFF) as usize;
        let unit = code.map_or(first, |code| 256 + code as usize);
        self.count_unit(lane.previous, unit, true);
        self.count_unit(lane.previous, first, len > 1);
        lane.previous = unit;
        lane.at += len;
        1 + code.is_none() as u64
    }

    /// Counts a unit if `counts`, without a branch on it: it is as random as
    /// the data, and so is whether a pair is new.
    #[inline(always)]
    fn count_unit(&mut self, previous: usize, unit: usize, counts: bool) {
        self.units[unit] = self.units[unit].saturating_add(counts as u32);
        let pair = previous * UNITS + unit;
        let is_pair = counts & (previous != START);
        let count = &mut self.pairs[pair];
        self.touched[self.distinct] = pair as u32;
        self.distinct += ((*count == 0) & is_pair) as usize;
        *count = count.saturating_add(is_pair as u16);
    }

    /// Fewest occurrences that make a candidate.
    fn least_count(&self) -> u64 {
        (self.bytes / BYTES_PER_OCCURRENCE).max(LEAST_COUNT)
    }

    /// The units that occur often enough, with their counts.
    fn frequent_units(&self, symbols: &[Symbol]) -> impl Iterator<Item = (usize, Symbol, u64)> {
        let least = self.least_count();
        let known = 256 + symbols.len();
        (0..known)
            .map(|unit| (unit, symbol_of(symbols, unit), self.units[unit] as u64))
            .filter(move |&(.., count)| count >= least)
    }

    /// The pairs that occur often enough and fit a symbol, with their counts.
    fn frequent_pairs(
        &self,
        symbols: &[Symbol],
    ) -> impl Iterator<Item = ([usize; 2], Symbol, u64)> {
        let least = self.least_count();
        self.touched[..self.distinct].iter().filter_map(move |&pair| {
            let count = self.pairs[pair as usize] as u64;
            if count < least {
                return None;
            }
            let units = [pair as usize / UNITS, pair as usize % UNITS];
            let [left, right] = units.map(|unit| symbol_of(symbols, unit));
            let len = left.len + right.len;
            (len as usize <= MAX_SYMBOL_LEN)
                .then(|| (units, Symbol::new(left.word | right.word << (8 * left.len), len), count))
        })
    }

    /// The next generation: the candidates of most gain.
    fn grow(&self, table: &SymbolTable) -> SymbolTable {
        let symbols: Vec<Symbol> = table.words().collect();
        let units = self.frequent_units(&symbols).map(|(_, symbol, count)| (symbol, count));
        let pairs = self.frequent_pairs(&symbols).map(|(_, symbol, count)| (symbol, count));
        let candidates = merged(units.chain(pairs).map(|(symbol, count)| {
            let weight = if symbol.len == 1 { SINGLE_WEIGHT } else { u64::from(symbol.len) };
            (symbol, count * weight)
        }));
        let mut taken = [false; SLOTS];
        let mut chosen = Vec::with_capacity(MAX_SYMBOLS);
        best_first(candidates, |candidate| {
            let symbol = symbol_of_key(candidate.key);
            if symbol.len < 3 || !std::mem::replace(&mut taken[slot_of(symbol.word)], true) {
                chosen.push(symbol);
            }
            if chosen.len() < MAX_SYMBOLS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        table_of(chosen)
    }

    /// Swaps the symbols that cost the fewest code bytes to lose for new ones
    /// that save more.
    fn refine(&self, table: &SymbolTable) -> SymbolTable {
        let Ok(encoder) = Encoder::new(table) else { return table.clone() };
        let mut symbols: Vec<Symbol> = table.words().collect();
        let losses: Vec<u64> = (0..symbols.len())
            .map(|code| {
                let symbol = symbols[code].word.to_le_bytes();
                let without = encoder.len_without(&symbol[..symbols[code].len as usize]);
                self.units[256 + code] as u64 * (without as u64 - 1)
            })
            .collect();
        let additions = self.additions(&symbols);

        let mut order: Vec<usize> = (0..symbols.len()).collect();
        order.sort_unstable_by_key(|&code| (losses[code], code));
        let mut slots = vec![None; SLOTS];
        for (code, symbol) in symbols.iter().enumerate().filter(|(_, symbol)| symbol.len >= 3) {
            slots[slot_of(symbol.word)] = Some(code);
        }
        let mut swapped = vec![false; symbols.len()];
        let mut cheapest = order.into_iter().peekable();
        let mut swaps = 0;
        for Candidate { gain, key } in additions {
            let Symbol { word, len } = symbol_of_key(key);
            while cheapest.next_if(|&code| swapped[code]).is_some() {}
            let Some(&cheap) = cheapest.peek() else { break };
            if swaps == SWAPS || losses[cheap] >= gain {
                break;
            }
            // A slot has one symbol: who wants it must replace its holder.
            let holder = if len >= 3 { slots[slot_of(word)] } else { None };
            let code = holder.unwrap_or(cheap);
            if swapped[code] || losses[code] >= gain {
                continue;
            }
            if symbols[code].len >= 3 {
                slots[slot_of(symbols[code].word)] = None;
            }
            if len >= 3 {
                slots[slot_of(word)] = Some(code);
            }
            symbols[code] = Symbol { word, len };
            swapped[code] = true;
            swaps += 1;
        }
        table_of(symbols)
    }

    /// Symbols that the table lacks, with the code bytes each would save: the best ones,
    /// most first.
    fn additions(&self, symbols: &[Symbol]) -> Vec<Candidate> {
        // Symbols ascend in rank, as codes do.
        let is_symbol = |symbol: Symbol| {
            symbols.binary_search_by_key(&symbol.rank(), |symbol| symbol.rank()).is_ok()
        };
        let literal: Vec<bool> =
            (0..256).map(|byte| !is_symbol(Symbol { word: byte, len: 1 })).collect();
        let literals = self
            .frequent_units(symbols)
            .filter(|&(unit, ..)| unit < 256 && literal[unit])
            .map(|(_, symbol, gain)| (symbol, gain));
        // A byte that has a symbol is only counted as the first of a longer
        // one here; a pair with it would not save a code.
        let pairs = self
            .frequent_pairs(symbols)
            .filter(|&([_, right], symbol, _)| {
                (right >= 256 || literal[right]) && !is_symbol(symbol)
            })
            .map(|(units, symbol, count)| {
                let escapes = units.iter().filter(|&&unit| unit < 256).count() as u64;
                (symbol, count * (1 + escapes))
            });
        let mut additions = merged(literals.chain(pairs));
        additions.sort_unstable_by(|left, right| right.cmp(left));
        additions.truncate(ADDITIONS);
        additions
    }
}

/// The bytes of a unit.
fn symbol_of(symbols: &[Symbol], unit: usize) -> Symbol {
    match unit.checked_sub(256) {
        None => Symbol { word: unit as u64, len: 1 },
        Some(code) => symbols[code],
    }
}

/// The table of distinct symbols, at most 255.
fn table_of(symbols: Vec<Symbol>) -> SymbolTable {
    SymbolTable::from_words(symbols).unwrap_or_else(|_| SymbolTable::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("https://host{}.example/{}", i % 37, i * 7919 % 1000)).collect()
    }

    #[test]
    fn a_key_stands_for_one_symbol() {
        let words =
            [0, 1, 0xFF, u64::MAX, VACANT, 0x0102_0304_0506_0708, 0xF9 << 56, 0xFF << 56 | 1];
        for word in words {
            for len in 1..=8 {
                let symbol = Symbol::new(word, len);
                match key_of(symbol) {
                    Some(key) => assert_eq!(symbol_of_key(key), symbol),
                    // Zeros and a last byte that marks a length, and the vacant key.
                    None => assert!(len == 8 && (word == VACANT || word >> 56 > MARK), "{word:x}"),
                }
            }
        }
    }

    #[test]
    fn training_is_deterministic() {
        let lines = lines(2000);
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        let table = SymbolTable::train(&lines);
        assert_eq!(SymbolTable::train(&lines), table);
        assert!(table.len() <= MAX_SYMBOLS && Encoder::new(&table).is_ok());
    }

    #[test]
    fn training_finds_long_symbols() {
        let lines = lines(2000);
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        let encoder = Encoder::new(&SymbolTable::train(&lines)).unwrap();
        let bytes: usize = lines.iter().map(|line| line.len()).sum();
        let codes: usize = lines.iter().map(|line| encoder.encoded_len(line)).sum();
        assert!(bytes > 4 * codes, "{bytes} bytes as {codes} codes");
    }

    #[test]
    fn every_sample_gives_a_table_that_encodes() {
        let random: Vec<u8> =
            (0..60_000u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        let zeros = vec![0; 5000];
        let samples: [&[&[u8]]; 6] = [&[], &[b""], &[b"x"], &[&random], &[&zeros], &[b"", b"ab"]];
        for sample in samples {
            let table = SymbolTable::train(sample);
            assert!(Encoder::new(&table).is_ok());
            assert_eq!(SymbolTable::try_from_bytes(&table.to_bytes()), Ok(table));
        }
    }
}
