//! The symbol table: what a code stands for, and its serialised form.
//!
//! ```text
//! byte 0..8   number of symbols of length 1, 2, .. 8 (u8 each, sum <= 255)
//! byte 8..    the symbols' bytes in code order, nothing between them
//! ```
//!
//! Codes ascend by symbol length, then by the symbol's bytes, so the lengths
//! need no byte per symbol and equal sets of symbols have equal bytes. The
//! order is checked on reading: a table that repeats a symbol, or has them in
//! another order, was not written by this format.

/// The code that says that the next byte of the code stream is a literal.
pub const ESCAPE: u8 = 255;

/// The most symbols that a table may hold: every code but [`ESCAPE`].
pub const MAX_SYMBOLS: usize = 255;

/// The most bytes that a symbol may have.
pub const MAX_SYMBOL_LEN: usize = 8;

/// The greedy parse of a value restarts at every multiple of this many bytes
/// from the value's start, so that a long value can be encoded by many threads.
pub const SEGMENT: usize = 1024;

/// Number of slots of the perfect-hash table of symbols of 3 and more bytes.
pub(super) const SLOTS: usize = 2048;

/// Bytes of the serialised table that precede the symbols.
const HEADER: usize = MAX_SYMBOL_LEN;

/// The slot of a symbol of 3 or more bytes, or of the input that may match it.
///
/// With `x` the first three bytes as a little-endian integer, the slot is
/// `(x * 0x67E3_32BF mod 2^32) >> 21`: one 32-bit multiply and a shift, whose
/// top 11 bits depend on all of `x`. A table that an [`Encoder`] accepts has
/// at most one symbol per slot.
///
/// The multiplier was searched for few collisions within alphabets: it has none
/// for three of `ACGT` and none for three digits, where the golden ratio lost
/// 5 % on a column of bases and 2.5 % on one of numbers.
///
/// [`Encoder`]: super::Encoder
#[inline(always)]
pub(super) fn slot_of(word: u64) -> usize {
    let first_three = word as u32 & 0x00FF_FFFF;
    (first_three.wrapping_mul(0x67E3_32BF) >> 21) as usize
}

/// A symbol as the lookup tables hold it: its bytes as a little-endian word,
/// zero above its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) word: u64,
    pub(super) len: u32,
}

impl Symbol {
    /// The symbol of the first `len` bytes of `word`; `len` is 1 to 8.
    pub(super) fn new(word: u64, len: u32) -> Symbol {
        Symbol { word: word & (u64::MAX >> (64 - 8 * len)), len }
    }

    /// Orders symbols as their codes: by length, then by bytes.
    pub(super) fn rank(self) -> (u32, u64) {
        (self.len, self.word.swap_bytes())
    }
}

/// The symbols of one chunk, by code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolTable {
    /// Bytes of each symbol, zero-padded.
    bytes: Vec<[u8; MAX_SYMBOL_LEN]>,
    /// Number of symbols of each length, the first for length 1.
    per_len: [u8; MAX_SYMBOL_LEN],
}

impl SymbolTable {
    /// The table without symbols: every byte is escaped.
    pub fn empty() -> SymbolTable {
        SymbolTable { bytes: Vec::new(), per_len: [0; MAX_SYMBOL_LEN] }
    }

    /// A table of the given symbols, in any order.
    ///
    /// Errors when there are more than 255, when one is empty or longer than 8
    /// bytes, and when one is given twice.
    #[cfg(any(test, feature = "_internals"))]
    pub fn from_symbols<'a>(
        symbols: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<SymbolTable, String> {
        let mut words = Vec::new();
        for symbol in symbols {
            if symbol.is_empty() || symbol.len() > MAX_SYMBOL_LEN {
                return Err(format!("a symbol has {} bytes; 1 to 8 are allowed", symbol.len()));
            }
            words.push(Symbol { word: padded_word(symbol), len: symbol.len() as u32 });
        }
        SymbolTable::from_words(words)
    }

    /// [`SymbolTable::from_symbols`] of symbols already checked for length.
    pub(super) fn from_words(mut words: Vec<Symbol>) -> Result<SymbolTable, String> {
        if words.len() > MAX_SYMBOLS {
            return Err(format!("{} symbols; at most {MAX_SYMBOLS} are allowed", words.len()));
        }
        words.sort_unstable_by_key(|symbol| symbol.rank());
        if words.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a symbol occurs twice".to_owned());
        }
        let mut per_len = [0u8; MAX_SYMBOL_LEN];
        for symbol in &words {
            per_len[symbol.len as usize - 1] += 1;
        }
        let bytes = words.iter().map(|symbol| symbol.word.to_le_bytes()).collect();
        Ok(SymbolTable { bytes, per_len })
    }

    /// Number of symbols, at most 255.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the table has no symbol.
    #[cfg(feature = "_internals")]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that `code` stands for; `None` for [`ESCAPE`] and for codes
    /// past the last symbol.
    pub fn symbol(&self, code: u8) -> Option<&[u8]> {
        let len = self.symbol_len(code);
        (len > 0).then(|| &self.bytes[code as usize][..len])
    }

    /// Length of the symbol of `code`; 0 where [`SymbolTable::symbol`] is `None`.
    pub fn symbol_len(&self, code: u8) -> usize {
        let mut first_of_longer = 0;
        for (index, &count) in self.per_len.iter().enumerate() {
            first_of_longer += count as usize;
            if (code as usize) < first_of_longer {
                return index + 1;
            }
        }
        0
    }

    /// The symbols in code order.
    pub(super) fn words(&self) -> impl Iterator<Item = Symbol> {
        let lens =
            (1..).zip(self.per_len).flat_map(|(len, n)| std::iter::repeat_n(len, n as usize));
        self.bytes
            .iter()
            .zip(lens)
            .map(|(bytes, len)| Symbol { word: u64::from_le_bytes(*bytes), len })
    }

    /// Number of bytes that [`SymbolTable::to_bytes`] returns.
    pub fn serialised_len(&self) -> usize {
        HEADER + (1..).zip(self.per_len).map(|(len, n)| len * n as usize).sum::<usize>()
    }

    /// The serialised table: 8 counts, then the symbols' bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut serialised = Vec::with_capacity(self.serialised_len());
        serialised.extend_from_slice(&self.per_len);
        for symbol in self.words() {
            serialised.extend_from_slice(&symbol.word.to_le_bytes()[..symbol.len as usize]);
        }
        serialised
    }

    /// Reads what [`SymbolTable::to_bytes`] wrote.
    ///
    /// Errors when the counts add up to more than 255, when the byte count
    /// differs from what they announce, and when the symbols of one length do
    /// not ascend strictly. Symbols that share a slot are accepted, as decoding
    /// does not depend on slots.
    pub fn try_from_bytes(serialised: &[u8]) -> Result<SymbolTable, String> {
        let Some((per_len, mut rest)) = serialised.split_first_chunk::<HEADER>() else {
            return Err(format!("a symbol table has {} bytes; 8 are the least", serialised.len()));
        };
        let count: usize = per_len.iter().map(|&n| n as usize).sum();
        if count > MAX_SYMBOLS {
            return Err(format!("{count} symbols; at most {MAX_SYMBOLS} are allowed"));
        }
        let mut words = Vec::with_capacity(count);
        for (len, &n) in (1..).zip(per_len) {
            for _ in 0..n {
                let Some((symbol, after)) = rest.split_at_checked(len) else {
                    return Err("the symbol table ends inside its symbols".to_owned());
                };
                words.push(Symbol { word: padded_word(symbol), len: len as u32 });
                rest = after;
            }
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes follow the symbol table", rest.len()));
        }
        if words.windows(2).any(|pair| pair[0].rank() >= pair[1].rank()) {
            return Err("the symbols of one length do not ascend".to_owned());
        }
        SymbolTable::from_words(words)
    }
}

/// The bytes of a slice of at most 8 as a little-endian word, zero above.
pub(super) fn padded_word(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_by_length_then_by_bytes() {
        let given: [&[u8]; 5] = [b"zz", b"b", b"a\0", b"a", b"abcdefgh"];
        let table = SymbolTable::from_symbols(given).unwrap();
        let symbols: Vec<&[u8]> = (0..5).map(|code| table.symbol(code).unwrap()).collect();
        assert_eq!(symbols, [&b"a"[..], b"b", b"a\0", b"zz", b"abcdefgh"]);
        assert_eq!(table.symbol(5), None);
        assert_eq!(table.symbol(ESCAPE), None);
    }

    #[test]
    fn bytes_round_trip_for_every_number_of_symbols() {
        for count in 0..=MAX_SYMBOLS {
            let symbols: Vec<Vec<u8>> =
                (0..count).map(|i| (i as u64).to_be_bytes()[7 - i % 8..].to_vec()).collect();
            let table = SymbolTable::from_symbols(symbols.iter().map(Vec::as_slice)).unwrap();
            let serialised = table.to_bytes();
            assert_eq!(serialised.len(), table.serialised_len());
            assert_eq!(SymbolTable::try_from_bytes(&serialised), Ok(table));
        }
    }

    #[test]
    fn the_empty_table_is_eight_zero_bytes() {
        assert_eq!(SymbolTable::empty().to_bytes(), [0; 8]);
        assert_eq!(SymbolTable::try_from_bytes(&[0; 8]), Ok(SymbolTable::empty()));
    }

    #[test]
    fn rejects_more_than_255_symbols() {
        let bytes: Vec<[u8; 1]> = (0..=255).map(|b| [b]).collect();
        assert!(SymbolTable::from_symbols(bytes.iter().map(|b| &b[..])).is_err());
        let mut serialised = vec![255, 1, 0, 0, 0, 0, 0, 0];
        serialised.extend(0..255u8);
        serialised.extend(*b"ab");
        assert!(SymbolTable::try_from_bytes(&serialised).is_err());
        assert!(SymbolTable::try_from_bytes(&[255; 3000]).is_err());
    }

    #[test]
    fn rejects_a_table_of_any_other_length() {
        let given: [&[u8]; 3] = [b"a", b"bc", b"abcdefgh"];
        let mut serialised = SymbolTable::from_symbols(given).unwrap().to_bytes();
        for len in 0..serialised.len() {
            assert!(SymbolTable::try_from_bytes(&serialised[..len]).is_err(), "{len} bytes");
        }
        serialised.push(0);
        assert!(SymbolTable::try_from_bytes(&serialised).is_err());
    }

    #[test]
    fn rejects_symbols_that_repeat_or_descend() {
        for pair in [*b"aa", *b"ba"] {
            let mut serialised = vec![2, 0, 0, 0, 0, 0, 0, 0];
            serialised.extend(pair);
            assert!(SymbolTable::try_from_bytes(&serialised).is_err());
        }
        assert!(SymbolTable::from_symbols([&b"x"[..], b"x"]).is_err());
        assert!(SymbolTable::from_symbols([&b""[..]]).is_err());
        assert!(SymbolTable::from_symbols([&b"123456789"[..]]).is_err());
    }
}
