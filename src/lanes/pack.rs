//! Packing and unpacking of whole vectors, and of one value out of a vector.
//!
//! Frame of reference is fused in: `pack` subtracts `base` (wrapping) before
//! it cuts to `width` bits, `unpack` adds it back in the same pass, so that a
//! column with a frame of reference costs no second walk over its values.

use super::simd::{Level, level};
use super::{Lane, VECTOR, row_lane};

/// Words of `T` that a packed vector of `width` bits takes: `width * LANES`,
/// that is `width * 128` bytes.
///
/// # Panics
/// If `width` exceeds `T::BITS`.
#[inline]
pub const fn packed_len<T: Lane>(width: usize) -> usize {
    assert!(width <= T::BITS, "width exceeds the lane word");
    width * T::LANES
}

/// Packs the low `width` bits of `value - base` (wrapping) of each value.
///
/// Higher bits of the difference are dropped; the caller picks a `width` that
/// loses nothing.
///
/// # Panics
/// If `width` exceeds `T::BITS` or `packed` is not [`packed_len`] words long.
#[inline]
pub fn pack<T: Lane>(values: &[T; VECTOR], base: T, width: usize, packed: &mut [T]) {
    pack_at(level(), values, base, width, packed);
}

/// Unpacks `base + packed` (wrapping): the inverse of [`pack`].
///
/// # Panics
/// If `width` exceeds `T::BITS` or `packed` is not [`packed_len`] words long.
#[inline]
pub fn unpack<T: Lane>(packed: &[T], base: T, width: usize, values: &mut [T; VECTOR]) {
    unpack_at(level(), packed, base, width, values);
}

/// The value `index` of a packed vector, without unpacking the rest.
///
/// # Panics
/// If `width` exceeds `T::BITS`, `packed` is not [`packed_len`] words long or
/// `index` is 1,024 or more.
#[inline]
pub fn unpack_one<T: Lane>(packed: &[T], base: T, width: usize, index: usize) -> T {
    assert_eq!(packed.len(), packed_len::<T>(width), "packed length");
    let (row, lane) = row_lane::<T>(index);
    if width == 0 {
        return base;
    }
    let word = row * width / T::BITS * T::LANES + lane;
    let shift = row * width % T::BITS;
    let mut value = packed[word] >> shift;
    if shift + width > T::BITS {
        value |= packed[word + T::LANES] << (T::BITS - shift);
    }
    base.wrapping_add(value & T::mask(width))
}

/// [`pack`] with the kernels of `at`, which must not exceed [`level`].
#[inline(always)]
fn pack_at<T: Lane>(at: Level, values: &[T; VECTOR], base: T, width: usize, packed: &mut [T]) {
    assert_eq!(packed.len(), packed_len::<T>(width), "packed length");
    // SAFETY: the kernels need the features of `at`, and `level` detected them.
    unsafe { T::PACK[at as usize][width](values, base, packed) }
}

/// [`unpack`] with the kernels of `at`, which must not exceed [`level`].
#[inline(always)]
fn unpack_at<T: Lane>(at: Level, packed: &[T], base: T, width: usize, values: &mut [T; VECTOR]) {
    assert_eq!(packed.len(), packed_len::<T>(width), "packed length");
    // SAFETY: the kernels need the features of `at`, and `level` detected them.
    unsafe { T::UNPACK[at as usize][width](packed, base, values) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::index;

    /// Random words, seeded: xorshift64.
    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    fn levels() -> impl Iterator<Item = Level> {
        Level::ALL.iter().copied().filter(|&at| at <= level())
    }

    /// The layout by its definition, bit by bit.
    fn reference_pack<T: Lane>(values: &[T; VECTOR], base: T, width: usize) -> Vec<T> {
        let mut packed = vec![T::ZERO; width * T::LANES];
        for lane in 0..T::LANES {
            for row in 0..T::BITS {
                let value = values[index(row, lane)].wrapping_sub(base).widen();
                for bit in 0..width {
                    let at = row * width + bit;
                    let word = &mut packed[at / T::BITS * T::LANES + lane];
                    *word |= T::truncate((value >> bit & 1) << (at % T::BITS));
                }
            }
        }
        packed
    }

    fn values<T: Lane>(next: &mut impl FnMut() -> u64) -> [T; VECTOR] {
        std::array::from_fn(|_| T::truncate(next()))
    }

    /// Calls `test` for each width of each type.
    macro_rules! for_all_widths {
        ($test:ident) => {
            (0..=8).for_each($test::<u8>);
            (0..=16).for_each($test::<u16>);
            (0..=32).for_each($test::<u32>);
            (0..=64).for_each($test::<u64>);
        };
    }

    fn packs_as_defined<T: Lane>(width: usize) {
        let mut next = random(width as u64 + 1);
        let values = values::<T>(&mut next);
        for base in [T::ZERO, T::truncate(next()), T::MAX] {
            let expected = reference_pack(&values, base, width);
            for at in levels() {
                let mut packed = vec![T::truncate(next()); packed_len::<T>(width)];
                pack_at(at, &values, base, width, &mut packed);
                assert!(packed == expected, "width {width} of {} at {at:?}", T::BITS);
            }
        }
    }

    #[test]
    fn packed_words_equal_the_definition_bit_by_bit() {
        for_all_widths!(packs_as_defined);
    }

    fn round_trips<T: Lane>(width: usize) {
        let mut next = random(width as u64 + 100);
        for base in [T::ZERO, T::truncate(next()), T::MAX] {
            // Within `width` bits above the base, which wraps around for MAX.
            let values: [T; VECTOR] =
                values::<T>(&mut next).map(|value| (value & T::mask(width)).wrapping_add(base));
            for at in levels() {
                let mut packed = vec![T::ZERO; packed_len::<T>(width)];
                pack_at(at, &values, base, width, &mut packed);
                let mut unpacked = [T::truncate(next()); VECTOR];
                unpack_at(at, &packed, base, width, &mut unpacked);
                assert!(unpacked == values, "width {width} of {} at {at:?}", T::BITS);
            }
        }
    }

    #[test]
    fn values_within_the_width_round_trip_and_the_base_wraps_around() {
        for_all_widths!(round_trips);
    }

    fn one_equals_all<T: Lane>(width: usize) {
        let mut next = random(width as u64 + 200);
        let base = T::truncate(next());
        let packed: Vec<T> = (0..packed_len::<T>(width)).map(|_| T::truncate(next())).collect();
        let mut values = [T::ZERO; VECTOR];
        unpack(&packed, base, width, &mut values);
        for (i, value) in values.into_iter().enumerate() {
            assert_eq!(unpack_one(&packed, base, width, i), value, "width {width} at {i}");
        }
    }

    #[test]
    fn unpack_one_equals_unpack_for_any_bits() {
        for_all_widths!(one_equals_all);
    }

    fn stays_inside<T: Lane>(width: usize) {
        let mut next = random(width as u64 + 300);
        let values = values::<T>(&mut next);
        let length = packed_len::<T>(width);
        let guard = T::truncate(next());
        for at in levels() {
            let mut buffer = vec![guard; length + 128];
            pack_at(at, &values, T::ZERO, width, &mut buffer[64..64 + length]);
            assert!(buffer[..64].iter().all(|&word| word == guard));
            assert!(buffer[64 + length..].iter().all(|&word| word == guard));
        }
    }

    #[test]
    fn packing_writes_nothing_outside_its_slice() {
        for_all_widths!(stays_inside);
    }

    #[test]
    fn bits_beyond_the_width_are_dropped() {
        let values: [u16; VECTOR] = std::array::from_fn(|i| i as u16);
        let mut packed = [0; 5 * 64];
        pack(&values, 3, 5, &mut packed);
        let mut unpacked = [0; VECTOR];
        unpack(&packed, 3, 5, &mut unpacked);
        for (i, value) in unpacked.into_iter().enumerate() {
            assert_eq!(value, ((i as u16).wrapping_sub(3) & 31) + 3);
        }
    }

    #[test]
    #[should_panic(expected = "packed length")]
    fn pack_refuses_a_slice_of_wrong_length() {
        pack(&[0u32; VECTOR], 0, 3, &mut [0; 95]);
    }

    #[test]
    #[should_panic(expected = "packed length")]
    fn unpack_refuses_a_slice_of_wrong_length() {
        unpack(&[0u64; 17], 0, 1, &mut [0; VECTOR]);
    }

    #[test]
    #[should_panic(expected = "width exceeds")]
    fn unpack_refuses_a_width_beyond_the_word() {
        unpack(&[0u8; 9 * 128], 0, 9, &mut [0; VECTOR]);
    }

    #[test]
    #[should_panic(expected = "beyond the vector")]
    fn unpack_one_refuses_an_index_beyond_the_vector() {
        unpack_one(&[0u8; 0], 7, 0, VECTOR);
    }
}
