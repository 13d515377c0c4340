//! Decoding: one 8-byte store per code, eight codes at a time.
//!
//! ```text
//! codes    17  4  203  9 | 255 'b' 33 ..     special: escape or no symbol
//! output   https://                          every store writes 8 bytes, the
//!                  a.......                  next one starts after the
//!                   .io/....                 symbol's length
//! ```
//!
//! A window of eight codes without a special one is straight-line code; in
//! others the special code and all after it are replaced by a code of length
//! 0, so that the number of codes before it is no branch. The loop keeps 64
//! bytes of room for the stores of a window; a careful loop does the rest. On
//! CPUs with AVX-512 VBMI2 `blocks.rs` decodes most of a long code stream first.
//! In multiples of the fsst-rs crate on 15 files 1.07 without the blocks. Lost:
//! codes loaded one by one instead of shifted out of the window (0.91), a third
//! load per code; lengths as bytes (1.04), which need an extension each.

#[cfg(target_arch = "x86_64")]
use super::blocks;
use super::symbols::{ESCAPE, MAX_SYMBOL_LEN, SymbolTable};
use super::tiles::TileCheck;
use std::fmt;

/// Why codes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A code stands for no symbol of the table.
    UnknownCode,
    /// The codes end with an escape that no literal follows.
    LoneEscape,
    /// The codes stand for fewer bytes than expected.
    TooShort,
    /// The codes stand for more bytes than expected.
    TooLong,
    /// A tile does not begin where the tile index says.
    Tile,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::UnknownCode => "a code stands for no symbol",
            DecodeError::LoneEscape => "the codes end with an escape",
            DecodeError::TooShort => "the codes stand for fewer bytes than expected",
            DecodeError::TooLong => "the codes stand for more bytes than expected",
            DecodeError::Tile => "a tile does not begin where the tile index says",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Codes that the fast loop takes at once.
const WINDOW: usize = 8;

/// Output bytes that the stores of a window may touch.
const WINDOW_OUTPUT: usize = MAX_SYMBOL_LEN * WINDOW;

/// Spare room with which no loop has to stop before the last codes.
const SLACK: usize = MAX_SYMBOL_LEN * 64;

/// A byte in each place of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Lookup tables that decode with one [`SymbolTable`].
pub struct Decoder {
    symbols: [u64; 256],
    /// Symbol lengths; 0 for codes that have none.
    lens: [u64; 256],
    /// Number of symbols: codes from here on are the escape or invalid.
    count: usize,
}

impl Decoder {
    /// Builds the lookup tables.
    pub fn new(table: &SymbolTable) -> Decoder {
        let mut decoder = Decoder { symbols: [0; 256], lens: [0; 256], count: table.len() };
        for (code, symbol) in table.words().enumerate() {
            decoder.symbols[code] = symbol.word;
            decoder.lens[code] = symbol.len as u64;
        }
        decoder
    }

    /// Decodes `codes` into `out`, which must be filled exactly.
    ///
    /// After an error the content of `out` is unspecified.
    #[cfg(any(test, feature = "_internals"))]
    pub fn decode_exact(&self, codes: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        self.decode_checked(codes, out, TileCheck::none())
    }

    /// [`Decoder::decode_exact`], which also compares where tiles begin with their index.
    pub(super) fn decode_checked(
        &self,
        codes: &[u8],
        out: &mut [u8],
        tiles: TileCheck<'_>,
    ) -> Result<(), DecodeError> {
        // SAFETY: the slice is valid for writes of its length.
        let written = unsafe { self.decode_into(codes, out.as_mut_ptr(), out.len(), tiles)? };
        exactly(written, out.len())
    }

    /// Decodes `codes`, which must stand for `len` bytes, and appends these.
    ///
    /// Faster than [`Decoder::decode_exact`], as the output is not zeroed and
    /// has room for whole words to its end. After an error `out` has the bytes
    /// it had before. Allocates no more than 8 bytes per code.
    #[cfg(any(test, feature = "_internals"))]
    pub fn decode_append(
        &self,
        codes: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if len > codes.len().saturating_mul(MAX_SYMBOL_LEN) {
            return Err(DecodeError::TooShort);
        }
        out.reserve(len + SLACK);
        let spare = out.spare_capacity_mut();
        // SAFETY: the spare capacity is valid for writes of its length.
        let written = unsafe {
            self.decode_into(codes, spare.as_mut_ptr().cast(), spare.len(), TileCheck::none())?
        };
        exactly(written, len)?;
        // SAFETY: `decode_into` initialised `written == len` bytes.
        unsafe { out.set_len(out.len() + len) };
        Ok(())
    }

    /// Decodes the codes of one value, of any length, and appends its bytes.
    ///
    /// After an error `out` has the bytes it had before.
    pub fn decode_value(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        out.reserve(codes.len().saturating_mul(MAX_SYMBOL_LEN).saturating_add(SLACK));
        let spare = out.spare_capacity_mut();
        // SAFETY: the spare capacity is valid for writes of its length.
        let written = unsafe {
            self.decode_into(codes, spare.as_mut_ptr().cast(), spare.len(), TileCheck::none())?
        };
        // SAFETY: `decode_into` initialised `written` bytes.
        unsafe { out.set_len(out.len() + written) };
        Ok(())
    }

    /// Decodes all codes to `out` and returns the number of bytes they stand
    /// for, all of which are initialised.
    ///
    /// # Safety
    ///
    /// `out` is valid for writes of `room` bytes.
    unsafe fn decode_into(
        &self,
        codes: &[u8],
        out: *mut u8,
        room: usize,
        tiles: TileCheck<'_>,
    ) -> Result<usize, DecodeError> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.count >= 128 {
                self.decode_windows::<true>(codes, out, room, tiles)
            } else {
                self.decode_windows::<false>(codes, out, room, tiles)
            }
        }
    }

    /// [`Decoder::decode_into`] for tables of 128 symbols and more, if `MANY`,
    /// or of fewer.
    ///
    /// # Safety
    ///
    /// As for [`Decoder::decode_into`].
    unsafe fn decode_windows<const MANY: bool>(
        &self,
        codes: &[u8],
        out: *mut u8,
        room: usize,
        mut tiles: TileCheck<'_>,
    ) -> Result<usize, DecodeError> {
        let count = self.count;
        // Added to the low 7 bits of a code, carries into the top bit from
        // `count` (or its low 7 bits) on.
        let carry = (if MANY { 256 } else { 128 } - count) as u64 * ONES;
        let (mut read, mut written) = (0, 0);
        #[cfg(target_arch = "x86_64")]
        if codes.len() >= blocks::LEAST_CODES && blocks::supported() {
            let tables = blocks::Tables { symbols: &self.symbols, lens: &self.lens, count };
            // SAFETY: the features were detected; `out` is the caller's promise.
            (read, written) = unsafe { tables.decode(codes, out, room, &mut tiles)? };
        }
        let special_of = |window: u64| {
            let sums = (window & (0x7F * ONES)) + carry;
            let high = if MANY { sums & window } else { sums | window };
            high & (0x80 * ONES)
        };
        loop {
            // One more code byte than a window: the literal of an escape at its end.
            let stop = codes.len().min(tiles.next());
            while read + WINDOW < stop && written + WINDOW_OUTPUT <= room {
                // SAFETY: the window lies in `codes` by the loop's condition.
                let window = unsafe { codes.as_ptr().add(read).cast::<u64>().read_unaligned() };
                let window = u64::from_le(window);
                let special = special_of(window);
                if special == 0 {
                    for code in window.to_le_bytes() {
                        // SAFETY: each code moves `written` by at most 8, so that
                        // the stores stay in the WINDOW_OUTPUT bytes that the
                        // loop's condition found room for.
                        unsafe { self.store(code, out, &mut written) };
                    }
                    read += WINDOW;
                } else {
                    let plain = special.trailing_zeros() / 8;
                    let masked = window | u64::MAX << (8 * plain);
                    for code in masked.to_le_bytes() {
                        // SAFETY: as above; the code 255 moves nothing.
                        unsafe { self.store(code, out, &mut written) };
                    }
                    read += plain as usize;
                    if codes[read] != ESCAPE {
                        return Err(DecodeError::UnknownCode);
                    }
                    // SAFETY: at most 7 codes were stored, 56 of WINDOW_OUTPUT bytes.
                    unsafe { out.add(written).write(codes[read + 1]) };
                    written += 1;
                    read += 2;
                }
            }
            // The window in which a tile begins, up to that or an escape before it.
            if let Some(before @ 0..=WINDOW) = tiles.next().checked_sub(read)
                && read + WINDOW < codes.len()
                && written + WINDOW_OUTPUT <= room
            {
                // SAFETY: the window lies in `codes` by the condition.
                let window = unsafe { codes.as_ptr().add(read).cast::<u64>().read_unaligned() };
                let window = u64::from_le(window);
                let plain = before.min(special_of(window).trailing_zeros() as usize / 8);
                let masked = window | u64::MAX.checked_shl(8 * plain as u32).unwrap_or(0);
                for code in masked.to_le_bytes() {
                    // SAFETY: each code moves `written` by at most 8, and the condition found
                    // WINDOW_OUTPUT bytes of room; the code 255 moves nothing.
                    unsafe { self.store(code, out, &mut written) };
                }
                read += plain;
                if plain == before {
                    tiles.pass(written, false)?;
                    continue;
                }
                if codes[read] != ESCAPE {
                    return Err(DecodeError::UnknownCode);
                }
                if read + 1 == tiles.next() {
                    tiles.pass(written, true)?;
                }
                // SAFETY: at most 7 codes were stored, 56 of WINDOW_OUTPUT bytes.
                unsafe { out.add(written).write(codes[read + 1]) };
                written += 1;
                read += 2;
                continue;
            }
            // One code, at the end of the codes or of the room.
            let Some(&code) = codes.get(read) else { break };
            if read == tiles.next() {
                tiles.pass(written, false)?;
            }
            let (word, len) = if code == ESCAPE {
                read += 1;
                if read == tiles.next() {
                    tiles.pass(written, true)?;
                }
                (*codes.get(read).ok_or(DecodeError::LoneEscape)? as u64, 1)
            } else {
                (self.symbols[code as usize], self.lens[code as usize] as usize)
            };
            if len == 0 {
                return Err(DecodeError::UnknownCode);
            }
            if len > room - written {
                return Err(DecodeError::TooLong);
            }
            for (at, byte) in word.to_le_bytes().into_iter().take(len).enumerate() {
                // SAFETY: `len` bytes have room, as was checked.
                unsafe { out.add(written + at).write(byte) };
            }
            written += len;
            read += 1;
        }
        Ok(written)
    }

    /// Stores the symbol of `code`, as 8 bytes, and moves on by its length.
    ///
    /// # Safety
    ///
    /// `out` is valid for writes of 8 bytes from `written` on.
    #[inline(always)]
    unsafe fn store(&self, code: u8, out: *mut u8, written: &mut usize) {
        let word = self.symbols[code as usize].to_le();
        // SAFETY: the caller's promise.
        unsafe { out.add(*written).cast::<u64>().write_unaligned(word) };
        *written += self.lens[code as usize] as usize;
    }
}

/// Whether as many bytes were written as expected.
fn exactly(written: usize, expected: usize) -> Result<(), DecodeError> {
    match written.cmp(&expected) {
        std::cmp::Ordering::Less => Err(DecodeError::TooShort),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(DecodeError::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` = 0, `b` = 1, `xy` = 2, `12345678` = 3, and fillers up to `symbols`.
    fn table(symbols: usize) -> SymbolTable {
        let mut bytes: Vec<Vec<u8>> = vec![b"a".into(), b"b".into(), b"xy".into()];
        bytes.push(b"12345678".into());
        bytes.extend((4..symbols as u64).map(|i| (i | 0x3900_0000_0000_0000).to_be_bytes().into()));
        SymbolTable::from_symbols(bytes.iter().map(Vec::as_slice)).unwrap()
    }

    /// What the codes stand for, one code at a time.
    fn reference(table: &SymbolTable, codes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::new();
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            match table.symbol(code) {
                Some(symbol) => out.extend(symbol),
                None if code == ESCAPE => out.push(*codes.next().ok_or(DecodeError::LoneEscape)?),
                None => return Err(DecodeError::UnknownCode),
            }
        }
        Ok(out)
    }

    fn random_bytes(len: usize, mut seed: u64, limit: u64) -> Vec<u8> {
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((seed >> 33) % limit) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn every_way_of_decoding_equals_the_reference() {
        for symbols in [4, 100, 127, 128, 129, 200, 254, 255] {
            let table = table(symbols);
            let decoder = Decoder::new(&table);
            for len in (0..200).chain([500, 1000, 3000]) {
                let mut codes = random_bytes(len, (len * 1000 + symbols) as u64, symbols as u64);
                for at in (0..len).step_by(1 + len % 23) {
                    codes[at] = ESCAPE;
                }
                let expected = reference(&table, &codes);
                let mut value = b"before".to_vec();
                assert_eq!(
                    decoder.decode_value(&codes, &mut value),
                    expected.as_ref().map(|_| ()).map_err(|e| *e)
                );
                let Ok(expected) = expected else {
                    assert_eq!(value, b"before");
                    continue;
                };
                assert_eq!(value[6..], expected);
                let mut exact = vec![0; expected.len()];
                assert_eq!(decoder.decode_exact(&codes, &mut exact), Ok(()));
                assert_eq!(exact, expected);
                let mut appended = b"before".to_vec();
                assert_eq!(decoder.decode_append(&codes, expected.len(), &mut appended), Ok(()));
                assert_eq!(appended[6..], expected);
            }
        }
    }

    #[test]
    fn random_codes_never_panic_and_err_as_the_reference() {
        for symbols in [4, 127, 128, 250] {
            let table = table(symbols);
            let decoder = Decoder::new(&table);
            for len in 0..600 {
                let codes = random_bytes(len, len as u64, 256);
                let mut out = Vec::new();
                let result = decoder.decode_value(&codes, &mut out);
                match reference(&table, &codes) {
                    Ok(expected) => assert_eq!((result, out), (Ok(()), expected)),
                    Err(error) => assert_eq!((result, out), (Err(error), Vec::new())),
                }
            }
        }
    }

    #[test]
    fn rejects_a_lone_trailing_escape() {
        let decoder = Decoder::new(&table(255));
        for before in 0..300 {
            let mut codes = vec![3; before];
            codes.push(ESCAPE);
            let mut out = vec![0; before * 8 + 1];
            assert_eq!(decoder.decode_exact(&codes, &mut out), Err(DecodeError::LoneEscape));
        }
    }

    #[test]
    fn rejects_a_code_without_symbol() {
        for (symbols, bad) in [(4, 4), (4, 254), (127, 127), (128, 128), (254, 254), (200, 230)] {
            let decoder = Decoder::new(&table(symbols));
            for at in 0..300 {
                let mut codes = vec![3; 300];
                codes[at] = bad;
                let mut out = Vec::new();
                let error = Err(DecodeError::UnknownCode);
                assert_eq!(decoder.decode_append(&codes, 299 * 8, &mut out), error);
                assert_eq!(decoder.decode_exact(&codes, &mut [0; 300 * 8]), error);
                assert!(decoder.decode_append(&codes, 0, &mut out).is_err());
                assert!(decoder.decode_value(&codes, &mut out).is_err() && out.is_empty());
            }
        }
    }

    #[test]
    fn rejects_output_that_is_too_short_or_too_long() {
        let decoder = Decoder::new(&table(255));
        for count in 1..300 {
            let codes = vec![3; count];
            for (len, error) in [
                (count * 8 - 1, DecodeError::TooLong),
                (0, DecodeError::TooLong),
                (count * 8 + 1, DecodeError::TooShort),
            ] {
                assert_eq!(decoder.decode_exact(&codes, &mut vec![0; len]), Err(error));
                let mut out = b"before".to_vec();
                assert_eq!(decoder.decode_append(&codes, len, &mut out), Err(error));
                assert_eq!(out, b"before");
            }
        }
    }

    #[test]
    fn a_hostile_length_does_not_allocate() {
        let decoder = Decoder::new(&table(255));
        let mut out = Vec::new();
        let error = decoder.decode_append(&[3; 100], usize::MAX / 2, &mut out);
        assert_eq!((error, out.capacity()), (Err(DecodeError::TooShort), 0));
    }

    #[test]
    fn no_codes_stand_for_no_bytes() {
        let decoder = Decoder::new(&SymbolTable::empty());
        assert_eq!(decoder.decode_exact(&[], &mut []), Ok(()));
        assert_eq!(decoder.decode_exact(&[], &mut [0]), Err(DecodeError::TooShort));
        assert_eq!(decoder.decode_value(&[0], &mut Vec::new()), Err(DecodeError::UnknownCode));
    }
}
