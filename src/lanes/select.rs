//! Which values of a vector lie in a range, as a bit each.
//!
//! ```text
//! packed words --unpack, v - low <= span--> bytes 0 or 1 --multiply--> 16 words of 64 bits
//! ```
//!
//! One subtraction and one comparison decide any range, as part of the unpacking: values
//! are never stored. Eight bytes of 0 or 1 become eight bits by a multiplication that
//! moves each to the top byte.

use super::simd::{level, multiversion};
use super::{Lane, VECTOR, packed_len, unpack_rows};

/// A bit for each value of a vector: bit i % 64 of word i / 64.
pub type Mask = [u64; VECTOR / 64];

multiversion! {
    /// Sets the bits of values in `low..=low + span`, wrapping, and clears the others.
    pub fn select_values<T: Lane>(values: &[T; VECTOR], low: T, span: T, mask: &mut Mask) {
        for (word, values) in mask.iter_mut().zip(values.as_chunks::<64>().0) {
            let mut inside = [0_u8; 64];
            for (inside, value) in inside.iter_mut().zip(values) {
                *inside = u8::from(value.wrapping_sub(low) <= span);
            }
            *word = bits_of(&inside);
        }
    }
}

/// Bit i is byte i, which is 0 or 1.
#[inline(always)]
fn bits_of(bytes: &[u8; 64]) -> u64 {
    let mut bits = 0;
    for (index, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // Byte k goes to bits 56 + k: 56 + k - 8 k = 7 (8 - k).
        let eight = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= eight << (8 * index);
    }
    bits
}

/// As [`select_values`], for the values of a packed vector (without a base).
///
/// # Panics
/// If `width` exceeds `T::BITS` or `packed` is not [`packed_len`] words long.
pub fn select_packed<T: Lane>(packed: &[T], width: usize, low: T, span: T, mask: &mut Mask) {
    assert_eq!(packed.len(), packed_len::<T>(width), "packed length");
    // SAFETY: the kernels need the features of the level that was detected.
    unsafe { T::SELECT[level() as usize][width](packed, low, span, mask) }
}

/// A kernel that selects values of a vector packed at the width it was made for.
pub type SelectFn<T> = unsafe fn(&[T], T, T, &mut Mask);

#[inline(always)]
fn select_rows<T: Lane, const W: usize>(packed: &[T], low: T, span: T, mask: &mut Mask) {
    let mut inside = [0_u8; VECTOR];
    unpack_rows::<T, u8, W>(packed, &mut inside, |value| u8::from(value.wrapping_sub(low) <= span));
    for (word, inside) in mask.iter_mut().zip(inside.as_chunks::<64>().0) {
        *word = bits_of(inside);
    }
}

macro_rules! level_kernel {
    ($select:ident $(, $feature:literal)?) => {
        $(#[cfg(target_arch = "x86_64")] #[target_feature(enable = $feature)])?
        pub(super) fn $select<T: Lane, const W: usize>(
            packed: &[T],
            low: T,
            span: T,
            mask: &mut Mask,
        ) {
            select_rows::<T, W>(packed, low, span, mask);
        }
    };
}

level_kernel!(select_baseline);
level_kernel!(select_avx2, "avx2");
level_kernel!(select_avx512, "avx512f,avx512bw,avx512dq,avx512vl");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::simd::tests::at_each_level;
    use crate::lanes::unpack;

    fn selects_what_lies_between<T: Lane>() {
        let mut state = 12345_u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            T::truncate(state >> 29)
        };
        let values: [T; VECTOR] = std::array::from_fn(|_| next());
        for (low, high) in [
            (T::ZERO, T::MAX),
            (T::ZERO, T::ZERO),
            (values[7], values[7]),
            (T::MAX, T::MAX),
            (values[1].min(values[2]), values[1].max(values[2])),
            (values[3].min(values[4]), values[3].max(values[4])),
        ] {
            at_each_level(|| {
                let mut mask = [u64::MAX; VECTOR / 64];
                select_values(&values, low, high.wrapping_sub(low), &mut mask);
                for (index, value) in values.iter().enumerate() {
                    let selected = mask[index / 64] >> (index % 64) & 1 == 1;
                    assert_eq!(selected, low <= *value && *value <= high);
                }
            });
        }
    }

    fn selects_packed_values_at_every_width<T: Lane>() {
        let mut state = 777_u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            T::truncate(state >> 29 ^ state << 13)
        };
        for width in 0..=T::BITS {
            let packed: Vec<T> = (0..packed_len::<T>(width)).map(|_| next()).collect();
            let mut values = [T::ZERO; VECTOR];
            unpack(&packed, T::ZERO, width, &mut values);
            let (one, other) = (values[5], next() & T::mask(width));
            let (low, span) = (one.min(other), one.max(other).wrapping_sub(one.min(other)));
            let mut expected = [0; VECTOR / 64];
            select_values(&values, low, span, &mut expected);
            at_each_level(|| {
                let mut mask = [u64::MAX; VECTOR / 64];
                select_packed(&packed, width, low, span, &mut mask);
                assert_eq!(mask, expected, "width {width} of {}", T::BITS);
            });
        }
    }

    #[test]
    fn packed_values_are_selected_as_values_are() {
        selects_packed_values_at_every_width::<u8>();
        selects_packed_values_at_every_width::<u16>();
        selects_packed_values_at_every_width::<u32>();
        selects_packed_values_at_every_width::<u64>();
    }

    #[test]
    fn values_of_every_type_are_selected_by_their_range() {
        selects_what_lies_between::<u8>();
        selects_what_lies_between::<u16>();
        selects_what_lies_between::<u32>();
        selects_what_lies_between::<u64>();
    }
}
