//! The unsigned integers that can be packed, and nothing else.
//!
//! The trait carries the few wrapping operations that the kernels need and, in
//! a private supertrait, the table of kernels by width, so that a call costs
//! one indexed jump.

use super::VECTOR;
use super::kernels::Kernels;
use std::fmt::Debug;
use std::ops::{BitAnd, BitOr, BitOrAssign, Shl, Shr};

/// A lane word: `u8`, `u16`, `u32` or `u64`. Sealed.
pub trait Lane:
    Kernels
    + Copy
    + Ord
    + Debug
    + Default
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitOrAssign
    + Shl<usize, Output = Self>
    + Shr<usize, Output = Self>
{
    /// Bits in one word, which is also the number of rows of a vector.
    const BITS: usize;
    /// Lanes of a vector: 1,024 / `BITS`.
    const LANES: usize = VECTOR / Self::BITS;
    /// Zero.
    const ZERO: Self;
    /// All bits set.
    const MAX: Self;

    /// Sum modulo 2^`BITS`.
    fn wrapping_add(self, other: Self) -> Self;
    /// Difference modulo 2^`BITS`.
    fn wrapping_sub(self, other: Self) -> Self;
    /// The low `BITS` bits of `bits`.
    fn truncate(bits: u64) -> Self;
    /// The value, zero-extended.
    fn widen(self) -> u64;

    /// The lowest `width` bits set.
    ///
    /// # Panics
    /// If `width` exceeds `BITS` (debug builds only).
    #[inline(always)]
    fn mask(width: usize) -> Self {
        debug_assert!(width <= Self::BITS);
        if width == 0 { Self::ZERO } else { Self::MAX >> (Self::BITS - width) }
    }
}

macro_rules! lane {
    ($($t:ty)*) => {$(
        impl Lane for $t {
            const BITS: usize = <$t>::BITS as usize;
            const ZERO: Self = 0;
            const MAX: Self = <$t>::MAX;

            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn truncate(bits: u64) -> Self {
                bits as $t
            }

            #[inline(always)]
            fn widen(self) -> u64 {
                self as u64
            }
        }
    )*};
}

lane!(u8 u16 u32 u64);
