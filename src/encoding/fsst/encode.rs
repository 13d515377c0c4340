//! The encoder's lookup tables and the greedy longest match.
//!
//! ```text
//! next bytes   c u s t o m e r
//!              '-+-'            slot of the first three bytes: "customer"?
//!              '-'              else the action of two bytes, which is that of
//!                               a symbol of two bytes, of one, or an escape
//! action       code | length | code bytes
//! ```
//!
//! A slot has one symbol, so at most one of 3 or more bytes can match and
//! longer ones need no probing; both tables are read and the result is
//! selected, as which of them matches is as random as the data.
//!
//! What was tried instead: docs/experiments.md.

use super::symbols::{ESCAPE, SEGMENT, SLOTS, SymbolTable, padded_word, slot_of};

/// What a step does, packed: code, number of input bytes and of code bytes.
///
/// Bits 0..8 are the code, 8..12 the length of the symbol, bit 12 is set in
/// all but the idle action and bit 13 in an escape. In a slot, bits 32..40
/// also hold the number of bits of a word that are not the symbol's.
fn action(code: u8, len: u32) -> u16 {
    code as u16 | (len as u16) << 8 | 1 << 12
}

const ESCAPE_ACTION: u16 = ESCAPE as u16 | 1 << 8 | 1 << 12 | 1 << 13;

/// Start of the rows of `Encoder::short` for fewer than two bytes of input:
/// row 0 for none left, where the lane idles, and row 1 for the last byte.
const LAST_BYTE_ROWS: usize = 1 << 16;

/// The symbol of 3 or more bytes of a slot.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Slot {
    symbol: u64,
    action: u64,
}

/// A vacant slot holds a word that belongs to another slot, so that no input that gets
/// there matches it: 0 belongs to slot 0, which holds MAX, which does not.
const VACANT: Slot = Slot { symbol: 0, action: 0 };

/// Lookup tables that encode values with one [`SymbolTable`].
pub struct Encoder {
    slots: Box<[Slot; SLOTS]>,
    /// Actions by the next two bytes, then the two [`LAST_BYTE_ROWS`].
    short: Box<[u16; LAST_BYTE_ROWS + 512]>,
}

/// The first 8 bytes as a little-endian word, zero past the end.
#[inline(always)]
fn word_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or_else(|| padded_word(bytes), |word| u64::from_le_bytes(*word))
}

impl Encoder {
    /// Builds the lookup tables.
    ///
    /// Errors when two symbols of 3 or more bytes share one of 2,048 slots, as
    /// the greedy parse would then depend on which of the two is looked at.
    pub fn new(table: &SymbolTable) -> Result<Encoder, String> {
        let mut encoder = Self::empty();
        encoder.load(table)?;
        Ok(encoder)
    }

    /// Tables for no symbols.
    pub(super) fn empty() -> Encoder {
        let short = vec![0; LAST_BYTE_ROWS + 512].into_boxed_slice();
        Encoder {
            slots: Box::new([VACANT; SLOTS]),
            short: short.try_into().expect("a slice of as many actions"),
        }
    }

    /// Makes these the tables of other symbols; as [`Encoder::new`] without allocating.
    pub(super) fn load(&mut self, table: &SymbolTable) -> Result<(), String> {
        let Self { slots, short } = self;
        slots.fill(VACANT);
        slots[slot_of(0)].symbol = u64::MAX;
        short.fill(ESCAPE_ACTION);
        short[LAST_BYTE_ROWS..LAST_BYTE_ROWS + 256].fill(0);
        for (code, symbol) in (0..=u8::MAX).zip(table.words()) {
            let action = action(code, symbol.len);
            let word = symbol.word as usize;
            match symbol.len {
                1 => {
                    for second in 0..256 {
                        short[second << 8 | word] = action;
                    }
                    short[LAST_BYTE_ROWS + 256 + word] = action;
                }
                2 => short[word] = action,
                len => {
                    let slot = &mut slots[slot_of(symbol.word)];
                    if slot.action != 0 {
                        return Err(format!("two symbols share slot {}", slot_of(symbol.word)));
                    }
                    let free_bits = 64 - 8 * len as u64;
                    *slot = Slot { symbol: symbol.word, action: action as u64 | free_bits << 32 };
                }
            }
        }
        Ok(())
    }

    /// Number of code bytes of `value`.
    pub fn encoded_len(&self, value: &[u8]) -> usize {
        let mut codes = 0;
        for segment in value.chunks(SEGMENT) {
            let mut rest = segment;
            while !rest.is_empty() {
                let (code, len) = self.longest_match(word_of(rest), rest.len());
                codes += 1 + code.is_none() as usize;
                rest = &rest[len..];
            }
        }
        codes
    }

    /// The symbol that the next bytes `word`, `left > 0` of which count, start
    /// with, and its length; no code where the first byte has to be escaped.
    #[inline(always)]
    pub(super) fn longest_match(&self, word: u64, left: usize) -> (Option<u8>, usize) {
        let action = self.action_at(word, left);
        ((action >> 13 == 0).then_some(action as u8), (action >> 8 & 15) as usize)
    }

    /// Number of code bytes of the bytes of a symbol if the table lacked it.
    pub(super) fn len_without(&self, symbol: &[u8]) -> usize {
        let first_two = self.short[(word_of(symbol) & 0xFFFF) as usize];
        let action = match symbol.len() {
            1 => ESCAPE_ACTION,
            2 => self.short[LAST_BYTE_ROWS + 256 + symbol[0] as usize],
            _ => first_two,
        };
        let rest = &symbol[(action >> 8 & 15) as usize..];
        1 + (action >> 13) as usize + self.encoded_len(rest)
    }

    /// The longest match of the next bytes `word`, `left` of which count.
    #[inline(always)]
    pub(super) fn action_at(&self, word: u64, left: usize) -> u16 {
        let slot = self.slots[slot_of(word)];
        let differs = (word ^ slot.symbol) << (slot.action >> 32 & 63);
        let fits = (slot.action >> 8 & 15) as usize <= left;
        let last = LAST_BYTE_ROWS | left << 8 & 256 | (word & 0xFF) as usize;
        let row = std::hint::select_unpredictable(left >= 2, (word & 0xFFFF) as usize, last);
        std::hint::select_unpredictable((differs == 0) & fits, slot.action as u16, self.short[row])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % limit
        }

        fn bytes(&mut self, len: usize, alphabet: usize) -> Vec<u8> {
            (0..len).map(|_| self.below(alphabet) as u8).collect()
        }

        /// Up to `count` symbols that obey the slot rule.
        fn table(&mut self, count: usize, alphabet: usize) -> SymbolTable {
            let mut symbols: Vec<Vec<u8>> = Vec::new();
            for _ in 0..count {
                let len = 1 + self.below(8);
                let symbol = self.bytes(len, alphabet);
                let slot = |symbol: &[u8]| slot_of(padded_word(symbol));
                let taken = |other: &Vec<u8>| {
                    *other == symbol || (other.len() > 2 && len > 2 && slot(other) == slot(&symbol))
                };
                if !symbols.iter().any(taken) {
                    symbols.push(symbol);
                }
            }
            SymbolTable::from_symbols(symbols.iter().map(Vec::as_slice)).unwrap()
        }
    }

    /// The longest symbol that the segment goes on with, one at a time.
    fn reference(table: &SymbolTable, value: &[u8]) -> Vec<u8> {
        let mut codes = Vec::new();
        for mut rest in value.chunks(SEGMENT) {
            while !rest.is_empty() {
                // Codes ascend by length, so the last match is the longest.
                let fits = |&code: &u8| rest.starts_with(table.symbol(code).unwrap());
                match (0..table.len() as u8).rev().find(fits) {
                    Some(code) => {
                        codes.push(code);
                        rest = &rest[table.symbol_len(code)..];
                    }
                    None => {
                        codes.extend([ESCAPE, rest[0]]);
                        rest = &rest[1..];
                    }
                }
            }
        }
        codes
    }

    fn check(table: &SymbolTable, values: &[Vec<u8>]) {
        let encoder = Encoder::new(table).unwrap();
        let data = values.concat();
        let mut offsets = vec![0];
        for value in values {
            offsets.push(offsets.last().unwrap() + value.len());
        }
        let (mut out, mut lens) = (b"before".to_vec(), vec![7]);
        encoder.encode(&data, &offsets, &mut out, &mut lens);
        let expected: Vec<Vec<u8>> = values.iter().map(|value| reference(table, value)).collect();
        assert_eq!(out[6..], expected.concat());
        assert_eq!(out[..6], *b"before");
        let expected_lens: Vec<u32> = expected.iter().map(|codes| codes.len() as u32).collect();
        assert_eq!(lens[1..], expected_lens);
        for (value, codes) in values.iter().zip(&expected) {
            assert_eq!(encoder.encoded_len(value), codes.len());
        }
        let mut decoded = Vec::new();
        Decoder::new(table).decode_append(&out[6..], data.len(), &mut decoded).unwrap();
        assert!(decoded == data);
    }

    #[test]
    fn encode_equals_the_naive_longest_match() {
        let mut random = Random(1);
        for round in 0..60 {
            let alphabet = [2, 3, 5, 20, 256][round % 5];
            let count = random.below(256);
            let table = random.table(count, alphabet);
            let count = random.below(200);
            let longest = [3, 20, 100, 3000][round % 4];
            let values: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let len = random.below(longest);
                    random.bytes(len, alphabet)
                })
                .collect();
            check(&table, &values);
        }
    }

    #[test]
    fn values_of_every_length_at_the_end_of_the_data_are_encoded() {
        let mut random = Random(2);
        let table = random.table(200, 3);
        for len in 0..40 {
            for before in 0..10 {
                check(&table, &[random.bytes(before, 3), random.bytes(len, 3)]);
            }
        }
    }

    #[test]
    fn round_trips_all_256_byte_values() {
        let every: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        for table in [SymbolTable::empty(), Random(3).table(255, 256)] {
            check(&table, &every);
            check(&table, &[every.concat()]);
        }
    }

    #[test]
    fn vacant_slots_match_nothing() {
        assert_ne!(slot_of(u64::MAX), slot_of(0));
        for table in [SymbolTable::empty(), Random(8).table(100, 256)] {
            check(&table, &[vec![0; 100], vec![255; 100]]);
        }
    }

    #[test]
    fn round_trips_empty_values_and_empty_input() {
        let table = Random(4).table(100, 4);
        check(&table, &[]);
        check(&table, &vec![vec![]; 5]);
        check(&table, &[vec![], vec![1], vec![], vec![], vec![2, 2], vec![]]);
        let encoder = Encoder::new(&table).unwrap();
        let (mut out, mut lens) = (Vec::new(), Vec::new());
        encoder.encode(&[], &[], &mut out, &mut lens);
        assert!(out.is_empty() && lens.is_empty());
    }

    #[test]
    fn round_trips_one_huge_value_among_short_ones() {
        let mut random = Random(5);
        let table = random.table(50, 4);
        let huge = random.bytes(3 << 20, 4);
        check(&table, &[vec![1, 2, 3], huge, vec![], vec![3, 1]]);
    }

    #[test]
    fn no_symbol_crosses_a_segment_boundary() {
        let table = SymbolTable::from_symbols([&b"aaaaaaaa"[..], b"a"]).unwrap();
        let encoder = Encoder::new(&table).unwrap();
        for before in 0..9 {
            let (mut out, mut lens) = (Vec::new(), Vec::new());
            encoder.encode(&vec![b'a'; 4000], &[before, 4000], &mut out, &mut lens);
            let mut position = 0;
            for code in out {
                let len = table.symbol_len(code);
                assert_eq!(position / SEGMENT, (position + len - 1) / SEGMENT);
                position += len;
            }
            assert_eq!(position, 4000 - before);
        }
    }

    #[test]
    fn values_may_start_anywhere_in_the_data() {
        let table = Random(6).table(100, 4);
        let encoder = Encoder::new(&table).unwrap();
        let data = Random(7).bytes(5000, 4);
        let (mut out, mut lens) = (Vec::new(), Vec::new());
        encoder.encode(&data, &[100, 100, 2900, 4000], &mut out, &mut lens);
        let expected = [&data[100..100], &data[100..2900], &data[2900..4000]];
        assert_eq!(out, expected.map(|value| reference(&table, value)).concat());
        assert_eq!(lens.len(), 3);
    }

    #[test]
    fn rejects_symbols_that_share_a_slot() {
        let prefixed = SymbolTable::from_symbols([&b"abc"[..], b"abcd"]).unwrap();
        assert!(Encoder::new(&prefixed).is_err());
        assert!(Encoder::new(&SymbolTable::from_symbols([&b"ab"[..], b"abcd"]).unwrap()).is_ok());
    }

    #[test]
    #[should_panic = "offsets descend"]
    fn descending_offsets_panic() {
        let encoder = Encoder::new(&SymbolTable::empty()).unwrap();
        encoder.encode(&[0; 10], &[5, 2, 8], &mut Vec::new(), &mut Vec::new());
    }

    #[test]
    #[should_panic = "offsets pass the end"]
    fn offsets_past_the_data_panic() {
        let encoder = Encoder::new(&SymbolTable::empty()).unwrap();
        encoder.encode(&[0; 10], &[0, 11], &mut Vec::new(), &mut Vec::new());
    }
}
