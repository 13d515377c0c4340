//! Masks: a bit for each value of a vector, bit i % 64 of word i / 64.

use super::{Mask, VECTOR};

/// No rows.
pub(crate) const NONE: Mask = [0; VECTOR / 64];
/// All rows.
pub(crate) const ALL: Mask = [u64::MAX; VECTOR / 64];

/// The first `rows` rows.
pub(crate) fn first(rows: usize) -> Mask {
    std::array::from_fn(|word| match rows.saturating_sub(word * 64) {
        0 => 0,
        left if left >= 64 => u64::MAX,
        left => (1 << left) - 1,
    })
}

/// Number of rows.
pub(crate) fn count(mask: &Mask) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

/// The rows of a mask, ascending.
pub(crate) fn rows(mask: &Mask) -> impl Iterator<Item = usize> {
    mask.iter().enumerate().flat_map(|(index, word)| {
        let mut word = *word;
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            (word != 0).then(|| {
                word &= word - 1;
                index * 64 + bit
            })
        })
    })
}

/// Keeps the rows that another mask has as well.
pub(crate) fn intersect(mask: &mut Mask, other: &Mask) {
    mask.iter_mut().zip(other).for_each(|(word, other)| *word &= other);
}

/// Adds the rows of another mask.
pub(crate) fn unite(mask: &mut Mask, other: &Mask) {
    mask.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
}

/// Turns the rows into those that were not there.
pub(crate) fn invert(mask: &mut Mask) {
    mask.iter_mut().for_each(|word| *word = !*word);
}

/// Whether a row is there.
pub(crate) fn has(mask: &Mask, row: usize) -> bool {
    mask[row / 64] >> (row % 64) & 1 == 1
}

/// Sets or clears the bit of a row.
pub(crate) fn set(mask: &mut Mask, row: usize, is_set: bool) {
    let (word, bit) = (&mut mask[row / 64], 1 << (row % 64));
    *word = if is_set { *word | bit } else { *word & !bit };
}

/// The bits of a vector in a bitmap, zero past its end.
pub(crate) fn of_bitmap(bits: &[u8], vector: usize) -> Mask {
    let bytes = &bits[(vector * VECTOR / 8).min(bits.len())..];
    let mut words = [0; VECTOR / 8];
    let len = bytes.len().min(words.len());
    words[..len].copy_from_slice(&bytes[..len]);
    bytemuck::cast(words)
}

/// Bit i becomes the parity of bits 0 to i: from the rows where something changes to the rows
/// where it holds.
pub(crate) fn parities(mask: &mut Mask) {
    let mut carry = 0;
    for word in mask {
        let mut bits = *word;
        for shift in [1, 2, 4, 8, 16, 32] {
            bits ^= bits << shift;
        }
        *word = bits ^ carry;
        // All ones if the last bit is set.
        carry = ((*word as i64) >> 63) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parities_fill_what_lies_between_changes() {
        for start in (0..VECTOR).step_by(7).chain([63, 64, VECTOR - 1]) {
            for end in (start + 1..=VECTOR).step_by(13).chain([VECTOR]) {
                let mut mask = NONE;
                set(&mut mask, start, true);
                if end < VECTOR {
                    set(&mut mask, end, true);
                }
                parities(&mut mask);
                assert!(rows(&mask).eq(start..end), "{start}..{end}: {mask:x?}");
            }
        }
    }

    #[test]
    fn masks_of_bitmaps_end_with_them() {
        let bits: Vec<u8> = (0..200).map(|byte| byte as u8 | 1).collect();
        for vector in 0..4 {
            let mask = of_bitmap(&bits, vector);
            for row in 0..VECTOR {
                let byte = bits.get((vector * VECTOR + row) / 8).copied().unwrap_or(0);
                assert_eq!(mask[row / 64] >> (row % 64) & 1, u64::from(byte >> (row % 8) & 1));
            }
        }
        assert_eq!(count(&first(77)), 77);
    }
}
