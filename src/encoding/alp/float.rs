//! The two float types and their exact powers of ten.
//!
//! Rounding and conversion both use that in the binade of 2^52 (2^23 for `f32`)
//! a float's spacing is one, so its low bits are an integer:
//!
//! ```text
//! ROUND  = 2^52 + 2^51   x + ROUND rounds x to an integer n, |n| < 2^51;
//!                        bits(x + ROUND) = bits(ROUND) + n
//! BINADE = 2^52          from_bits(bits(BINADE) | p) = 2^52 + p, p < 2^52
//! ```
//!
//! Powers are decimal literals, which the compiler rounds correctly; a product
//! of powers or `powi` may differ in the last bit and would not decode.

use super::decode::{DECODE_F32, DECODE_F64, DecodeFn};
use crate::lanes::{Lane, LevelTable};
use std::fmt::{self, Debug};
use std::ops::{Add, Div, Mul, Sub};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// The pair of decimal exponents of a vector: a value `v` is stored as the
/// integer nearest `v * 10^e * 10^-f`.
///
/// `f <= e <= F::MAX_EXPONENT`. `e - f` is the number of decimal places kept;
/// a larger `e` makes the product exact for more values.
///
/// Of `f32` there are also pairs with `f` = [`DIVIDED`](Self::DIVIDED), `e` of 1 or more: the value
/// is the integer divided by 10^e. A quotient is rounded correctly, so that it is the decimal of `e`
/// places that the integer stands for, whereas 24 bits leave products nothing to spare: `n * 0.01`
/// is the number nearest `n / 100` for 73 % of the integers below 65,536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exponents {
    /// Exponent of the multiplication on encoding.
    pub e: u8,
    /// Exponent of the division on encoding: trailing decimal zeros dropped.
    pub f: u8,
}

impl Exponents {
    /// Instead of `f`: integers are divided by 10^e.
    pub const DIVIDED: u8 = 15;

    /// Whether decoders of `F` accept the pair.
    #[inline]
    pub const fn is_valid<F: AlpFloat>(self) -> bool {
        let is_pair = if self.divides::<F>() { self.e > 0 } else { self.f <= self.e };
        is_pair && self.e <= F::MAX_EXPONENT
    }

    /// Whether the value is a quotient, of `f32` only.
    #[inline]
    pub const fn divides<F: AlpFloat>(self) -> bool {
        F::DIVIDES && self.f == Self::DIVIDED
    }
}

impl fmt::Display for Exponents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only pairs that divide have an `f` above `e`.
        match self.f > self.e {
            true => write!(f, "(/ 10^{})", self.e),
            false => write!(f, "({}, {})", self.e, self.f),
        }
    }
}

/// A float that ALP encodes: `f32` or `f64`. Sealed.
pub trait AlpFloat:
    sealed::Sealed
    + Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The unsigned integer of the same size: packed words and raw bits.
    type Bits: Lane;
    /// The signed integer of the same size: encoded values and base.
    type Int: Copy + Debug + Default + Ord + Send + Sync + 'static;

    /// Largest exponent `e`: 18 for `f64`, 10 for `f32`.
    const MAX_EXPONENT: u8;
    /// Whether there are pairs that divide: of `f32`.
    const DIVIDES: bool;
    /// Largest width of packed values: 52 for `f64`, 23 for `f32`.
    const MAX_WIDTH: usize;
    /// Largest magnitude of a base that decoding is exact for: 2^51 or 2^22.
    const MAX_BASE: Self::Int;
    /// Bits that an exception takes: the raw value and a 16-bit position.
    const EXCEPTION_BITS: usize;

    /// Zero.
    const ZERO: Self;
    /// Not a number.
    const NAN: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// 2^52 or 2^23: adding `p` below that sets the mantissa to `p`.
    const BINADE: Self;
    /// End of the binade: 2^53 or 2^24.
    const BINADE_END: Self;
    /// 2^52 + 2^51 or 2^23 + 2^22: adding rounds to an integer.
    const ROUND: Self;
    /// Bit `i % Bits::BITS` set at `i`: a table because SSE2 can't shift lanes
    /// by different counts.
    const BIT: [Self::Bits; 64];

    /// The kernels of `decode_vector`.
    #[doc(hidden)]
    const DECODE: LevelTable<DecodeFn<Self>>;

    /// 10^`exponent`, correctly rounded.
    ///
    /// # Panics
    /// If `exponent` exceeds [`Self::MAX_EXPONENT`].
    fn power(exponent: u8) -> Self;
    /// 10^-`exponent`, correctly rounded.
    ///
    /// # Panics
    /// If `exponent` exceeds [`Self::MAX_EXPONENT`].
    fn inverse_power(exponent: u8) -> Self;
    /// The raw bits.
    fn to_bits(self) -> Self::Bits;
    /// The float of these raw bits.
    fn from_bits(bits: Self::Bits) -> Self;
    /// The integer that a sum with [`Self::ROUND`] stands for.
    fn rounded_int(sum: Self) -> Self::Int;
    /// `base + by` (wrapping).
    fn raise(base: Self::Int, by: Self::Bits) -> Self::Int;
    /// `BINADE - base`, which takes the mantissa trick and the base off in one
    /// subtraction; exact if |base| <= [`Self::MAX_BASE`].
    fn bias(base: Self::Int) -> Self;
}

macro_rules! alp_float {
    ($float:ident, $bits:ident, $int:ident, $decode:ident, mantissa $mantissa:literal,
     max $max:literal, powers [$($power:literal)*], inverse [$($inverse:literal)*]) => {
        impl AlpFloat for $float {
            type Bits = $bits;
            type Int = $int;

            const MAX_EXPONENT: u8 = $max;
            // An `f` of 15 is a power of ten of `f64`.
            const DIVIDES: bool = $max < Exponents::DIVIDED;
            const MAX_WIDTH: usize = $mantissa;
            const MAX_BASE: $int = 1 << ($mantissa - 1);
            const EXCEPTION_BITS: usize = $bits::BITS as usize + 16;

            const ZERO: Self = 0.0;
            const NAN: Self = $float::NAN;
            const INFINITY: Self = $float::INFINITY;
            const BINADE: Self = (1u64 << $mantissa) as $float;
            const BINADE_END: Self = (2u64 << $mantissa) as $float;
            const ROUND: Self = (3u64 << ($mantissa - 1)) as $float;
            const BIT: [$bits; 64] = {
                let mut table = [0; 64];
                let mut i = 0;
                while i < 64 {
                    table[i] = 1 << (i % $bits::BITS as usize);
                    i += 1;
                }
                table
            };

            const DECODE: LevelTable<DecodeFn<Self>> = $decode;

            #[inline(always)]
            fn power(exponent: u8) -> Self {
                const POWERS: [$float; $max + 1] = [$($power),*];
                POWERS[exponent as usize]
            }

            #[inline(always)]
            fn inverse_power(exponent: u8) -> Self {
                const INVERSE: [$float; $max + 1] = [$($inverse),*];
                INVERSE[exponent as usize]
            }

            #[inline(always)]
            fn to_bits(self) -> $bits {
                self.to_bits()
            }

            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $float::from_bits(bits)
            }

            #[inline(always)]
            fn rounded_int(sum: Self) -> $int {
                sum.to_bits().wrapping_sub(Self::ROUND.to_bits()) as $int
            }

            #[inline(always)]
            fn raise(base: $int, by: $bits) -> $int {
                base.wrapping_add(by as $int)
            }

            #[inline(always)]
            fn bias(base: $int) -> Self {
                Self::BINADE - base as $float
            }
        }
    };
}

alp_float!(f64, u64, i64, DECODE_F64, mantissa 52, max 18,
    powers [1e0 1e1 1e2 1e3 1e4 1e5 1e6 1e7 1e8 1e9 1e10 1e11 1e12 1e13 1e14 1e15 1e16 1e17 1e18],
    inverse [1e-0 1e-1 1e-2 1e-3 1e-4 1e-5 1e-6 1e-7 1e-8 1e-9 1e-10 1e-11 1e-12 1e-13 1e-14
        1e-15 1e-16 1e-17 1e-18]);
alp_float!(f32, u32, i32, DECODE_F32, mantissa 23, max 10,
    powers [1e0 1e1 1e2 1e3 1e4 1e5 1e6 1e7 1e8 1e9 1e10],
    inverse [1e-0 1e-1 1e-2 1e-3 1e-4 1e-5 1e-6 1e-7 1e-8 1e-9 1e-10]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_equal_the_decimal_literals_parsed() {
        for i in 0..=18u8 {
            let (power, inverse) = (format!("1e{i}"), format!("1e-{i}"));
            assert_eq!(f64::power(i), power.parse::<f64>().unwrap());
            assert_eq!(f64::inverse_power(i), inverse.parse::<f64>().unwrap());
            if i <= 10 {
                assert_eq!(f32::power(i), power.parse::<f32>().unwrap());
                assert_eq!(f32::inverse_power(i), inverse.parse::<f32>().unwrap());
            }
        }
    }

    #[test]
    fn rounding_constants_sit_in_the_binade_of_spacing_one() {
        assert_eq!(f64::BINADE.to_bits(), 0x4330_0000_0000_0000);
        assert_eq!(f32::BINADE.to_bits(), 0x4B00_0000);
        assert_eq!(f64::rounded_int(-3.7 + f64::ROUND), -4);
        assert_eq!(f32::rounded_int(2.5 + f32::ROUND), 2);
        assert_eq!(f64::bias(-f64::MAX_BASE), 3.0 * 2f64.powi(51));
        assert_eq!(f32::bias(f32::MAX_BASE), 2f32.powi(22));
    }
}
