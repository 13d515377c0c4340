//! Decoding blocks of 64 codes with AVX-512 VBMI2.
//!
//! ```text
//! 64 codes        -> 64 lengths, by byte permutes of the table of lengths
//! 8 of the codes  -> 8 symbols |https://|a.......|.io/....|..   gathered
//!                    valid      11111111 10000000 11110000
//!                    compressed https://a.io/..                 one store
//! ```
//!
//! An escape has length 0 and the literal after it is a symbol of length 1, so
//! that neither is a branch; of scalar code every escape costs a misprediction.
//! On 15 files 0.38 ns per code, against 0.6 to 0.7 of the scalar windows, and
//! 1.4 to 1.5 times as fast as the fsst-rs crate.
//! Lost: eight scalar loads instead of the gather (1.0 ns by insertions, 0.7 by
//! masked broadcasts); blending literals in without looking whether the block
//! has any, masked gathers, and literals as table entries 256 to 511 (0.6 ns).

use super::decode::DecodeError;
use super::symbols::MAX_SYMBOL_LEN;
use super::tiles::TileCheck;
use std::arch::x86_64::*;

/// Codes per block.
const BLOCK: usize = 64;

/// Codes that are decoded with one store.
const GROUP: usize = 8;

/// Fewer codes than this are not worth setting the registers up.
pub(super) const LEAST_CODES: usize = 2 * BLOCK;

/// Whether the CPU has what [`Tables::decode`] needs.
pub(super) fn supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("popcnt")
}

/// The tables of a [`Decoder`](super::Decoder).
pub(super) struct Tables<'a> {
    pub(super) symbols: &'a [u64; 256],
    pub(super) lens: &'a [u64; 256],
    pub(super) count: usize,
}

impl Tables<'_> {
    /// Decodes whole blocks from the start of `codes` while there are any and
    /// room for them; returns the code bytes read and the bytes written. No
    /// escape is parted from its literal.
    ///
    /// # Safety
    ///
    /// `out` is valid for writes of `room` bytes, and [`supported`] was true.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    pub(super) unsafe fn decode(
        &self,
        codes: &[u8],
        out: *mut u8,
        room: usize,
        tiles: &mut TileCheck<'_>,
    ) -> Result<(usize, usize), DecodeError> {
        let lens: [u8; 256] = std::array::from_fn(|code| self.lens[code] as u8);
        let (quarters, _) = lens.as_chunks::<BLOCK>();
        let lens = [0, 1, 2, 3].map(|quarter| load(&quarters[quarter]));
        let byte_of_word = load(&std::array::from_fn(|at| (at % GROUP) as u8));
        let word = load(&std::array::from_fn(|at| (at / GROUP) as u8));
        let known = _mm512_set1_epi8(self.count as u8 as i8);

        let (blocks, _) = codes.as_chunks::<BLOCK>();
        let (mut read, mut written) = (0, 0);
        // 1 if the block starts with the literal of an escape.
        let mut inside_escape = 0;
        for block in blocks {
            if room - written < MAX_SYMBOL_LEN * BLOCK {
                break;
            }
            let block_codes = load(block);
            let escapes = _mm512_cmpeq_epi8_mask(block_codes, _mm512_set1_epi8(-1));
            let literals;
            (literals, inside_escape) = literals_after(escapes, inside_escape);
            let past_symbols = _mm512_cmpge_epu8_mask(block_codes, known);
            if past_symbols & !escapes & !literals != 0 {
                return Err(DecodeError::UnknownCode);
            }
            let low = _mm512_permutex2var_epi8(lens[0], block_codes, lens[1]);
            let high = _mm512_permutex2var_epi8(lens[2], block_codes, lens[3]);
            let block_lens = _mm512_mask_blend_epi8(_mm512_movepi8_mask(block_codes), low, high);
            let block_lens = _mm512_mask_mov_epi8(block_lens, literals, _mm512_set1_epi8(1));
            if let Some(before @ 0..BLOCK) = tiles.next().checked_sub(read) {
                let lens = _mm512_maskz_mov_epi8((1 << before) - 1, block_lens);
                let sums = _mm512_sad_epu8(lens, _mm512_setzero_si512());
                let bytes = _mm512_reduce_add_epi64(sums) as usize;
                tiles.pass(written + bytes, literals >> before & 1 == 1)?;
            }
            let (groups, _) = block.as_chunks::<GROUP>();
            for (number, group) in groups.iter().enumerate() {
                let group = _mm512_cvtepu8_epi64(_mm_set_epi64x(0, i64::from_le_bytes(*group)));
                // SAFETY: the indexes are bytes and the table has 256 words.
                let mut symbols =
                    unsafe { _mm512_i64gather_epi64::<8>(group, self.symbols.as_ptr().cast()) };
                if literals != 0 {
                    let literals = (literals >> (GROUP * number)) as u8;
                    symbols = _mm512_mask_mov_epi64(symbols, literals, group);
                }
                let at = _mm512_add_epi8(word, _mm512_set1_epi8((GROUP * number) as i8));
                let valid =
                    _mm512_cmplt_epu8_mask(byte_of_word, _mm512_permutexvar_epi8(at, block_lens));
                let packed = _mm512_maskz_compress_epi8(valid, symbols);
                // SAFETY: the groups before wrote at most 64 bytes each, and
                // there was room for 64 bytes of each group.
                unsafe { _mm512_storeu_si512(out.add(written).cast(), packed) };
                written += valid.count_ones() as usize;
            }
            read += BLOCK;
        }
        Ok((read - inside_escape as usize, written))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; BLOCK]) -> __m512i {
    // SAFETY: the array has the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// From the codes 255 of a block, which of its bytes are literals, and 1 if the
/// byte after the block is one. `inside_escape` is 1 if the first byte is.
#[inline(always)]
fn literals_after(escapes: u64, inside_escape: u64) -> (u64, u64) {
    let after = escapes << 1 | inside_escape;
    if escapes & after == 0 {
        return (after, escapes >> 63);
    }
    // A literal may itself be 255, so runs of 255 are walked.
    let mut literals = inside_escape;
    let mut escapes = escapes & !inside_escape;
    while escapes != 0 {
        let escape = escapes & escapes.wrapping_neg();
        if escape == 1 << 63 {
            return (literals, 1);
        }
        literals |= escape << 1;
        escapes &= !(escape | escape << 1);
    }
    (literals, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_follow_escapes_even_if_they_are_255() {
        let mut seed = 1u64;
        for round in 0..2000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let mut escapes = seed | seed << 29;
            for _ in 0..round % 5 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                escapes &= seed.rotate_right(round);
            }
            let start = seed >> 20 & 1;
            let (mut expected, mut inside) = (0, start);
            for at in 0..64 {
                expected |= inside << at;
                inside = if inside == 1 { 0 } else { escapes >> at & 1 };
            }
            assert_eq!(literals_after(escapes, start), (expected, inside));
        }
    }

    #[test]
    fn blocks_stop_where_room_ends_and_never_inside_an_escape() {
        if !supported() {
            return;
        }
        let (symbols, mut lens) = ([0x6161_6161_6161_6161; 256], [8; 256]);
        lens[255] = 0;
        let tables = Tables { symbols: &symbols, lens: &lens, count: 255 };
        let mut codes = vec![0u8; 64 * 4];
        codes[127] = 255;
        for blocks in 0..4 {
            for spare in [0, 1] {
                let mut out = vec![0u8; blocks * 512 + spare];
                let tiles = &mut TileCheck::none();
                // SAFETY: the features were detected; `out` has its length.
                let done = unsafe { tables.decode(&codes, out.as_mut_ptr(), out.len(), tiles) };
                let (read, written) = done.unwrap();
                assert_eq!(read, [0, 64, 127, 192][blocks]);
                assert_eq!(written, [0, 512, 1016, 1521][blocks]);
                assert!(out[..written].iter().filter(|&&byte| byte == 0).count() < 2);
            }
        }
    }
}
