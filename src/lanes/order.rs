//! The FastLanes value order: which value sits at (row, lane).
//!
//! ```text
//! index = FL_ORDER[row / 8] * 16 + (row % 8) * 128 + lane
//! ```
//!
//! The same permutation of 1,024 positions serves every type: a `u64` vector
//! has 16 lanes of 64 rows, a `u8` vector 128 lanes of 8 rows, and in both the
//! lanes of one row are consecutive values, so a row is one run of 128 bytes.
//! `FL_ORDER` reverses three bits, hence is its own inverse.

use super::Lane;

/// Values in one vector.
pub const VECTOR: usize = 1024;

/// Order of the groups of eight rows, in units of 16 values.
const FL_ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// The value index of `row` and `lane`.
///
/// `row` counts from 0 to `T::BITS`, `lane` from 0 to `T::LANES` of the type
/// that is packed; the formula is one for all types.
///
/// # Panics
/// If `row` is 64 or more.
#[inline(always)]
pub const fn index(row: usize, lane: usize) -> usize {
    FL_ORDER[row / 8] * 16 + (row % 8) * 128 + lane
}

/// The (row, lane) of the value `index` in a vector of `T`: the inverse of
/// [`index`].
///
/// # Panics
/// If `index` is 1,024 or more.
#[inline]
pub const fn row_lane<T: Lane>(index: usize) -> (usize, usize) {
    assert!(index < VECTOR, "value index beyond the vector");
    let lane = index % T::LANES;
    let group = FL_ORDER[(index % 128 - lane) / 16];
    (group * 8 + index / 128, lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bijection<T: Lane>() {
        let mut seen = [false; VECTOR];
        for row in 0..T::BITS {
            for lane in 0..T::LANES {
                let at = index(row, lane);
                assert!(!seen[at], "index {at} comes twice");
                seen[at] = true;
                assert_eq!(row_lane::<T>(at), (row, lane));
            }
        }
        assert!(seen.iter().all(|&s| s));
    }

    #[test]
    fn order_is_a_bijection_for_every_type() {
        is_bijection::<u8>();
        is_bijection::<u16>();
        is_bijection::<u32>();
        is_bijection::<u64>();
    }

    #[test]
    fn lanes_of_one_u32_row_are_32_consecutive_values() {
        for row in 0..32 {
            assert_eq!(index(row, 0) % 32, 0);
            for lane in 0..32 {
                assert_eq!(index(row, lane), index(row, 0) + lane);
            }
        }
    }

    #[test]
    #[should_panic(expected = "beyond the vector")]
    fn row_lane_refuses_an_index_beyond_the_vector() {
        row_lane::<u16>(VECTOR);
    }
}
