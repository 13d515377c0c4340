//! Training: growing a symbol table over generations that parse a sample.
//!
//! ```text
//! generation g   parse with table g, count symbols and pairs of neighbours
//!                candidates: symbols, first bytes, pairs  gain = count * length
//!                table g+1: the 255 of most gain, one per slot
//! refinement     swap symbols that cost little to lose for pairs that save more
//! ```
//!
//! Growing finds long symbols, since each generation may double their length,
//! but `count * length` values a symbol as if nothing could replace it. The
//! refinement counts the code bytes that a removal really costs. Eight
//! generations with two refinements on 64 KiB gave 2.4 % more than five without
//! on the mean of 15 files. Lost: 16 KiB (-1.9 %) and 256 KiB (-0.2 %, twice the
//! time) for five generations; gains of `count * (length - 1)` (-1.1 %), which
//! starve the short symbols that long ones grow from; no first bytes as
//! candidates (-3.4 %); pairs cut off at 8 bytes (-0.2 %).

use super::encode::Encoder;
use super::symbols::{MAX_SYMBOL_LEN, MAX_SYMBOLS, SEGMENT, SLOTS, Symbol, SymbolTable, slot_of};

/// Share of the sample that each generation parses, in 128ths: the early ones
/// only need the most frequent pairs.
const SHARES: [u32; 8] = [16, 32, 64, 96, 128, 128, 128, 128];

/// Share that stands for the whole sample.
const WHOLE: u32 = 128;

/// Refinements after the last generation, as long as they shorten the codes.
const REFINEMENTS: usize = 3;

/// Most symbols that a refinement swaps. Their gains are counted one by one,
/// so that many swaps at once may spoil each other.
const SWAPS: usize = 64;

/// Bytes of sample per occurrence that a candidate must have.
const BYTES_PER_OCCURRENCE: u64 = 12 << 10;

/// Fewest occurrences of a candidate: one alone never pays for its place in
/// the serialised table.
const LEAST_COUNT: u64 = 2;

/// Weight of a one-byte symbol's count: it is what keeps escapes away.
const SINGLE_WEIGHT: u64 = 8;

/// What the parse yields: a literal byte is `byte`, a symbol `256 + code`.
const UNITS: usize = 512;

impl SymbolTable {
    /// Trains a table on a sample of the values, see [`sample`]; lines of more
    /// than [`SEGMENT`] bytes count as several.
    ///
    /// The same sample gives the same table on every machine. The table obeys
    /// the slot rule of [`Encoder::new`]. 64 KiB of sample take some 5 ms.
    pub fn train(sample: &[&[u8]]) -> SymbolTable {
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
        for _ in 0..REFINEMENTS {
            let cost = counters.count(&table, sample, WHOLE);
            if cost >= best_cost {
                break;
            }
            best_cost = cost;
            best.clone_from(&table);
            table = counters.refine(&table);
        }
        if counters.count(&table, sample, WHOLE) < best_cost { table } else { best }
    }
}

/// Occurrences in one parse of the sample.
struct Counters {
    /// Of each unit, and of each byte as the first of a longer symbol.
    units: Vec<u32>,
    /// Of each unit after another, likewise.
    pairs: Vec<u32>,
    /// The pairs that occur: clearing and listing these is much cheaper than
    /// walking the whole matrix.
    touched: Vec<u32>,
    /// Bytes parsed.
    bytes: u64,
}

/// A symbol that the next table may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    gain: u64,
    word: u64,
    len: u32,
}

impl Counters {
    fn new() -> Counters {
        Counters {
            units: vec![0; UNITS],
            pairs: vec![0; UNITS * UNITS],
            touched: Vec::new(),
            bytes: 0,
        }
    }

    /// Parses the lines of a share of the sample and returns the code bytes.
    fn count(&mut self, table: &SymbolTable, sample: &[&[u8]], share: u32) -> u64 {
        for &pair in &self.touched {
            self.pairs[pair as usize] = 0;
        }
        self.touched.clear();
        self.units.fill(0);
        self.bytes = 0;
        let Ok(encoder) = Encoder::new(table) else { return u64::MAX };
        let mut cost = 0;
        for (index, line) in sample.iter().enumerate() {
            // Lines of a small share are spread over the sample by hashing.
            if (index as u32).wrapping_mul(0x9E37_79B1) >> 25 < share {
                for segment in line.chunks(SEGMENT) {
                    cost += self.count_segment(&encoder, segment);
                }
            }
        }
        cost
    }

    fn count_segment(&mut self, encoder: &Encoder, segment: &[u8]) -> u64 {
        self.bytes += segment.len() as u64;
        let mut cost = 0;
        let mut previous = None;
        let mut rest = segment;
        while let Some(&first) = rest.first() {
            let (code, len) = encoder.longest_match(rest);
            cost += 1 + code.is_none() as u64;
            let unit = code.map_or(first as usize, |code| 256 + code as usize);
            self.count_unit(previous, unit);
            if len > 1 {
                self.count_unit(previous, first as usize);
            }
            previous = Some(unit);
            rest = &rest[len..];
        }
        cost
    }

    #[inline(always)]
    fn count_unit(&mut self, previous: Option<usize>, unit: usize) {
        self.units[unit] = self.units[unit].saturating_add(1);
        if let Some(previous) = previous {
            let pair = previous * UNITS + unit;
            let count = &mut self.pairs[pair];
            if *count == 0 {
                self.touched.push(pair as u32);
            }
            *count = count.saturating_add(1);
        }
    }

    /// Fewest occurrences that make a candidate.
    fn least_count(&self) -> u64 {
        (self.bytes / BYTES_PER_OCCURRENCE).max(LEAST_COUNT)
    }

    /// The units that occur often enough, with their counts.
    fn frequent_units(&self, symbols: &[Symbol]) -> impl Iterator<Item = (usize, Symbol, u64)> {
        let least = self.least_count();
        let known = 256 + symbols.len();
        self.units[..known].iter().enumerate().filter_map(move |(unit, &count)| {
            (count as u64 >= least).then(|| (unit, symbol_of(symbols, unit), count as u64))
        })
    }

    /// The pairs that occur often enough and fit a symbol, with their counts.
    fn frequent_pairs(
        &self,
        symbols: &[Symbol],
    ) -> impl Iterator<Item = ([usize; 2], Symbol, u64)> {
        let least = self.least_count();
        self.touched.iter().filter_map(move |&pair| {
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
        let mut counted: Vec<(Symbol, u64)> = units.chain(pairs).collect();
        counted.sort_unstable_by_key(|&(symbol, count)| (symbol.rank(), count));
        // One symbol may come from several pairs, such as a + bc and ab + c.
        let mut candidates: Vec<Candidate> = counted
            .chunk_by(|left, right| left.0 == right.0)
            .map(|same| {
                let Symbol { word, len } = same[0].0;
                let count: u64 = same.iter().map(|&(_, count)| count).sum();
                let gain = count * if len == 1 { SINGLE_WEIGHT } else { len as u64 };
                Candidate { gain, word, len }
            })
            .collect();
        candidates.sort_unstable_by(|left, right| right.cmp(left));

        let mut taken = [false; SLOTS];
        let mut chosen = Vec::with_capacity(MAX_SYMBOLS);
        for Candidate { word, len, .. } in candidates {
            if chosen.len() == MAX_SYMBOLS {
                break;
            }
            if len < 3 || !std::mem::replace(&mut taken[slot_of(word)], true) {
                chosen.push(Symbol { word, len });
            }
        }
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
        for Candidate { gain, word, len } in additions {
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

    /// Symbols that the table lacks, with the code bytes each would save, most
    /// first.
    fn additions(&self, symbols: &[Symbol]) -> Vec<Candidate> {
        let is_symbol = |byte: usize| symbols.contains(&Symbol { word: byte as u64, len: 1 });
        let literal: Vec<bool> = (0..256).map(|byte| !is_symbol(byte)).collect();
        let literals = self
            .frequent_units(symbols)
            .filter(|&(unit, ..)| unit < 256 && literal[unit])
            .map(|(_, Symbol { word, len }, gain)| Candidate { gain, word, len });
        // A byte that has a symbol is only counted as the first of a longer
        // one here; a pair with it would not save a code.
        let pairs = self
            .frequent_pairs(symbols)
            .filter(|&([_, right], symbol, _)| {
                (right >= 256 || literal[right]) && !symbols.contains(&symbol)
            })
            .map(|(units, Symbol { word, len }, count)| {
                let escapes = units.iter().filter(|&&unit| unit < 256).count() as u64;
                Candidate { gain: count * (1 + escapes), word, len }
            });
        let mut additions: Vec<Candidate> = literals.chain(pairs).collect();
        additions.sort_unstable_by(|left, right| right.cmp(left));
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

/// Picks some `budget` bytes of segments, spread over all values, to train on.
///
/// `get` returns value `i` of `value_count`. The choice depends on nothing but
/// the values' lengths; when all values together have no more than `budget`
/// bytes, all their segments are picked.
pub fn sample<'a>(
    value_count: usize,
    get: impl Fn(usize) -> &'a [u8],
    budget: usize,
) -> Vec<&'a [u8]> {
    let total: usize = (0..value_count).map(|value| get(value).len()).sum();
    if total == 0 {
        return Vec::new();
    }
    // Each segment is picked with probability budget / total, by a hash of its
    // number: equal distances could fall in step with the data.
    let threshold = ((budget as u128) << 32) / total as u128;
    let mut picked = Vec::new();
    let mut number = 0u64;
    for value in 0..value_count {
        for segment in get(value).chunks(SEGMENT) {
            number += 1;
            let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
            if (hash as u128) < threshold {
                picked.push(segment);
            }
        }
    }
    picked
}
