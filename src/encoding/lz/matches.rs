//! Matches of a segment, and the streams made of them.
//!
//! Which matches there are is fixed to the bit, as GPUs find the same ones. Every position whose
//! *short key* (as many symbols as the shortest match has) lies in the segment has two
//! candidates: the nearest one before it whose *long key*, about twice as long, has the same hash,
//! and the nearest whose short key has. The first is taken if its long key is the same, else the
//! second; candidates outside the window are none, and those further back are not looked
//! for. From the first symbol on, a position with a match begins one, others are literals; with
//! symbols of one byte a position leaves its match to one of the next two that has a longer one,
//! by more than one at the second, where lengths count as 16 at most. Groups of 32 positions do not look into the next.
//! A segment that takes no less so than its symbols do has no matches.
//!
//! All of that is local: tables hold the last position of each hash, so that 32 positions find
//! their candidates together, and which of 32 positions begin an item follows from where the
//! item before ends. GPULZ compares a position with all of its window (C x W comparisons) and
//! selects with one thread a segment.
//!
//! Ratios of other candidates and parses: docs/experiments.md.

use super::Shape;

/// A match that begins somewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Match {
    /// Symbols that are the same; 0 if there is none.
    len: usize,
    /// Symbols that it looks back.
    offset: usize,
}

/// Positions that decide without those of the next such group.
const GROUP: usize = 32;

/// Symbols that a match counts as at most when it waits for another.
const LONG: usize = 16;

/// Positions looked at last, the current one and up to two ahead of it, whose matches are known.
const KNOWN: usize = 4;

/// The streams of segments.
#[derive(Debug)]
pub(super) struct Compressor {
    finder: Finder,
    literals: Vec<u8>,
    offsets: Vec<u8>,
    lengths: Vec<u8>,
    flags: Bits,
    segments: Vec<u8>,
    /// Where the matches of the segment at hand begin, and these.
    found: Vec<(usize, Match)>,
}

impl Compressor {
    pub fn new(shape: Shape) -> Self {
        Self {
            finder: Finder::new(shape),
            literals: Vec::new(),
            offsets: Vec::new(),
            lengths: Vec::new(),
            flags: Bits::default(),
            segments: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Finds the matches of a segment: how many flags, matches and literals it has.
    pub fn find(&mut self, segment: &[u8]) -> [usize; 3] {
        let Self { finder, found, .. } = self;
        found.clear();
        let Shape { symbol, .. } = finder.shape;
        let symbols = segment.len() / symbol;
        let mut literals = symbols;
        finder.each(segment, |at, taken| {
            literals -= taken.len;
            found.push((at, taken));
        });
        let items = found.len() + literals;
        let bits = items + 8 * (found.len() * finder.shape.token() + literals * symbol);
        if bits >= 8 * segment.len() {
            found.clear();
            return [0, 0, symbols];
        }
        [items, found.len(), literals]
    }

    /// Adds a segment; the last may be short.
    pub fn add(&mut self, segment: &[u8]) {
        self.find(segment);
        let Self { literals, offsets, lengths, flags, segments, found, finder } = self;
        let Shape { symbol, offset: offset_bytes, .. } = finder.shape;
        for count in [flags.len, lengths.len(), literals.len() / symbol] {
            segments.extend_from_slice(&(count as u32).to_le_bytes());
        }
        let mut end = 0;
        for (at, Match { len, offset }) in found.iter().copied() {
            literals.extend_from_slice(&segment[end * symbol..at * symbol]);
            flags.zeros(at - end);
            flags.one();
            offsets.extend_from_slice(&((offset - 1) as u16).to_le_bytes()[..offset_bytes]);
            lengths.push((len - finder.shape.least()) as u8);
            end = at + len;
        }
        literals.extend_from_slice(&segment[end * symbol..]);
        if !found.is_empty() {
            flags.zeros(segment.len() / symbol - end);
        }
    }

    /// The node's buffers.
    pub fn finish(self) -> Vec<Vec<u8>> {
        let matches = [self.offsets, self.lengths].concat();
        vec![self.literals, matches, self.flags.bytes, self.segments]
    }
}

/// Bits, the lowest of a byte first.
#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn zeros(&mut self, count: usize) {
        self.len += count;
        self.bytes.resize(self.len.div_ceil(8), 0);
    }

    fn one(&mut self) {
        self.zeros(1);
        if let Some(last) = self.bytes.last_mut() {
            *last |= 1 << ((self.len - 1) % 8);
        }
    }
}

/// Factors of hashes, one for each word of a key.
const FACTORS: [u32; 4] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f];

/// A table of the last position of each hash.
#[derive(Debug)]
struct Table {
    /// Bytes of a key.
    key: usize,
    /// Bits of a hash.
    bits: u32,
    /// One more than the position; 0 if there is none.
    last: Vec<u16>,
}

impl Table {
    fn new(key: usize, bits: u32) -> Self {
        Self { key, bits, last: vec![0; 1 << bits] }
    }

    /// The hash of the key at a byte; there are 16 bytes from there on.
    fn hash(&self, bytes: &[u8]) -> usize {
        let word = |index: usize| {
            let word = bytes[4 * index..].first_chunk::<4>().copied().unwrap_or_default();
            u32::from_le_bytes(word).wrapping_mul(FACTORS[index])
        };
        let short = |index: usize, bytes: u32| word(index).wrapping_shl(8 * (4 - bytes));
        let sum = match self.key {
            3 => short(0, 3),
            4 => word(0),
            6 => word(0).wrapping_add(short(1, 2)),
            8 => word(0).wrapping_add(word(1)),
            _ => (0..4).map(word).fold(0, u32::wrapping_add),
        };
        (sum >> (32 - self.bits)) as usize
    }

    /// Puts a position into the table; the one that was there. The last one that segments may have,
    /// 65,535, which would stand for none, has no key.
    fn replace(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let hash = self.hash(bytes);
        let before = std::mem::replace(&mut self.last[hash], (at + 1) as u16);
        usize::from(before).checked_sub(1)
    }
}

/// Finds the matches of a segment.
#[derive(Debug)]
struct Finder {
    shape: Shape,
    short: Table,
    long: Table,
    /// The segment, and zeros behind it.
    padded: Vec<u8>,
    /// Symbols of the segment.
    symbols: usize,
    /// Positions that are in the tables.
    seen: usize,
    /// Positions looked at last, and their matches.
    known: [(usize, Match); KNOWN],
}

impl Finder {
    fn new(shape: Shape) -> Self {
        let short = shape.least() * shape.symbol;
        let long = if shape.symbol == 2 { 6 } else { 2 * short };
        // Half as large, both would lose 5 % of level 5; twice as large, few GPU threads fit.
        let bits = if shape.offset == 1 { 10 } else { 12 };
        Self {
            shape,
            short: Table::new(short, bits),
            long: Table::new(long, bits),
            padded: Vec::new(),
            symbols: 0,
            seen: 0,
            known: Default::default(),
        }
    }

    /// Calls `take` with the place of each match.
    fn each(&mut self, segment: &[u8], mut take: impl FnMut(usize, Match)) {
        self.padded.clear();
        self.padded.extend_from_slice(segment);
        self.padded.extend_from_slice(&[0; 16]);
        self.symbols = segment.len() / self.shape.symbol;
        self.seen = 0;
        self.known = [(usize::MAX, Match::default()); KNOWN];
        self.short.last.fill(0);
        self.long.last.fill(0);
        let mut at = 0;
        while at < self.symbols {
            let own = self.at(at);
            if own.len > 0 && !self.waits(at, own) {
                take(at, own);
                at += own.len;
            } else {
                at += 1;
            }
        }
    }

    /// Whether a match gives way to one of the next positions.
    fn waits(&mut self, at: usize, own: Match) -> bool {
        let inside = at % GROUP;
        self.shape.symbol == 1
            && own.len < LONG
            && (inside + 1 < GROUP && self.at(at + 1).len > own.len
                || inside + 2 < GROUP && self.at(at + 2).len.min(LONG) > own.len + 1)
    }

    /// The match of a position: one of the [`KNOWN`] that were looked at last, or behind these.
    fn at(&mut self, at: usize) -> Match {
        let (known, found) = self.known[at % KNOWN];
        if known == at {
            return found;
        }
        debug_assert!(at >= self.seen, "a position that is in the tables");
        while self.seen < at {
            self.see(self.seen);
        }
        let candidates = self.see(at);
        let [short, long] = candidates
            .map(|candidate| candidate.filter(|candidate| at - candidate <= self.shape.window));
        let long = long.filter(|long| self.has_long_key_of(*long, at));
        let of = |candidate| Match { len: self.equal(candidate, at), offset: at - candidate };
        let found = long.or(short).map(of).filter(|found| found.len >= self.shape.least());
        let found = found.unwrap_or_default();
        self.known[at % KNOWN] = (at, found);
        found
    }

    /// Puts a position into the tables; its candidates.
    fn see(&mut self, at: usize) -> [Option<usize>; 2] {
        self.seen = at + 1;
        let Shape { symbol, .. } = self.shape;
        let end = self.symbols * symbol;
        let padded = &self.padded;
        [&mut self.short, &mut self.long].map(|table| {
            let begin = at * symbol;
            if begin + table.key > end {
                return None;
            }
            table.replace(&padded[begin..begin + 16], at)
        })
    }

    /// Whether the long keys at two positions are the same.
    fn has_long_key_of(&self, before: usize, at: usize) -> bool {
        let key = |at: usize| {
            let begin = at * self.shape.symbol;
            &self.padded[begin..begin + self.long.key]
        };
        key(before) == key(at)
    }

    /// How many symbols are the same at two positions, as many as a match may have.
    fn equal(&self, before: usize, at: usize) -> usize {
        let Shape { symbol, .. } = self.shape;
        let most = (self.symbols - at).min(self.shape.most()) * symbol;
        let [before, here] = [before, at].map(|at| &self.padded[at * symbol..at * symbol + most]);
        let words = before.as_chunks::<8>().0.iter().zip(here.as_chunks::<8>().0);
        let mut equal = 0;
        for (before, here) in words {
            let other = u64::from_le_bytes(*before) ^ u64::from_le_bytes(*here);
            if other != 0 {
                return (equal + other.trailing_zeros() as usize / 8) / symbol;
            }
            equal += 8;
        }
        let rest = before[equal..].iter().zip(&here[equal..]);
        (equal + rest.take_while(|(before, here)| before == here).count()) / symbol
    }
}
