//! Decoding.

use super::symbols::{ESCAPE, MAX_SYMBOLS, SymbolTable};
use std::fmt;
use std::mem::MaybeUninit;

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
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::UnknownCode => "a code stands for no symbol",
            DecodeError::LoneEscape => "the codes end with an escape",
            DecodeError::TooShort => "the codes stand for fewer bytes than expected",
            DecodeError::TooLong => "the codes stand for more bytes than expected",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Codes that the fast loop takes at once.
const WINDOW: usize = 8;

/// Output bytes that a window may store to.
const WINDOW_OUTPUT: usize = 8 * WINDOW;

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
    pub fn decode_exact(&self, codes: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        let room = out.len();
        // SAFETY: the slice is valid for writes of `room` bytes, and the loop
        // writes initialised bytes only.
        let written = unsafe { self.decode_into(codes, out.as_mut_ptr(), room, room)? };
        if written < room { Err(DecodeError::TooShort) } else { Ok(()) }
    }

    /// Decodes `codes`, which must stand for `len` bytes, and appends these.
    ///
    /// After an error `out` has the bytes it had before.
    pub fn decode_append(
        &self,
        codes: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        // Hostile lengths must not allocate: a code stands for 8 bytes at most.
        if len > codes.len().saturating_mul(8) {
            return Err(DecodeError::TooShort);
        }
        out.reserve(len + WINDOW_OUTPUT);
        let spare: &mut [MaybeUninit<u8>] = out.spare_capacity_mut();
        let room = spare.len();
        // SAFETY: the spare capacity is valid for writes of `room` bytes.
        let written = unsafe { self.decode_into(codes, spare.as_mut_ptr().cast(), len, room)? };
        if written < len {
            return Err(DecodeError::TooShort);
        }
        // SAFETY: `decode_into` initialised the `len` bytes after the content.
        unsafe { out.set_len(out.len() + len) };
        Ok(())
    }

    /// Decodes the codes of one value, of any length, and appends its bytes.
    ///
    /// After an error `out` has the bytes it had before.
    pub fn decode_value(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let before = out.len();
        let mut rest = codes.iter();
        while let Some(&code) = rest.next() {
            if (code as usize) < self.count {
                let symbol = self.symbols[code as usize].to_le_bytes();
                out.extend_from_slice(&symbol[..self.lens[code as usize] as usize]);
                continue;
            }
            let literal = if code == ESCAPE {
                rest.next().ok_or(DecodeError::LoneEscape)
            } else {
                Err(DecodeError::UnknownCode)
            };
            match literal {
                Ok(&literal) => out.push(literal),
                Err(error) => {
                    out.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// `out` is valid for writes of `room >= len` bytes.
    unsafe fn decode_into(
        &self,
        codes: &[u8],
        out: *mut u8,
        len: usize,
        room: usize,
    ) -> Result<usize, DecodeError> {
        unsafe {
            if self.count >= 128 {
                self.decode_loop::<true>(codes, out, len, room)
            } else {
                self.decode_loop::<false>(codes, out, len, room)
            }
        }
    }

    #[inline(always)]
    unsafe fn decode_loop<const MANY: bool>(
        &self,
        codes: &[u8],
        out: *mut u8,
        len: usize,
        room: usize,
    ) -> Result<usize, DecodeError> {
        const ONES: u64 = 0x0101_0101_0101_0101;
        let threshold = if MANY { 256 - self.count } else { 128 - self.count } as u64 * ONES;
        let input = codes.as_ptr();
        let mut read = 0;
        let mut written = 0;
        // One more code byte than a window: the literal of an escape at its end.
        while read + WINDOW < codes.len() && written <= len && written + WINDOW_OUTPUT <= room {
            unsafe {
                let window = u64::from_le(input.add(read).cast::<u64>().read_unaligned());
                let sums = (window & (0x7F * ONES)) + threshold;
                let special = if MANY { sums & window } else { sums | window } & (0x80 * ONES);
                if special == 0 {
                    for at in 0..WINDOW {
                        let code = *input.add(read + at) as usize;
                        out.add(written).cast::<u64>().write_unaligned(self.symbols[code].to_le());
                        written += self.lens[code] as usize;
                    }
                    read += WINDOW;
                } else {
                    let plain = special.trailing_zeros() / 8;
                    // Codes from the special one on become 255, of length 0.
                    let masked = window | u64::MAX << (8 * plain);
                    for shift in 0..WINDOW {
                        let code = (masked >> (8 * shift)) as u8 as usize;
                        out.add(written).cast::<u64>().write_unaligned(self.symbols[code].to_le());
                        written += self.lens[code] as usize;
                    }
                    read += plain as usize;
                    if codes[read] != ESCAPE {
                        return Err(DecodeError::UnknownCode);
                    }
                    *out.add(written) = codes[read + 1];
                    written += 1;
                    read += 2;
                }
            }
        }
        while read < codes.len() {
            let code = codes[read] as usize;
            let (word, bytes) = if code < self.count {
                (self.symbols[code], self.lens[code] as usize)
            } else if code == MAX_SYMBOLS {
                read += 1;
                (*codes.get(read).ok_or(DecodeError::LoneEscape)? as u64, 1)
            } else {
                return Err(DecodeError::UnknownCode);
            };
            if written > len || bytes > len - written {
                return Err(DecodeError::TooLong);
            }
            unsafe {
                std::ptr::copy_nonoverlapping(word.to_le_bytes().as_ptr(), out.add(written), bytes)
            };
            written += bytes;
            read += 1;
        }
        if written > len { Err(DecodeError::TooLong) } else { Ok(written) }
    }
}
