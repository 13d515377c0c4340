//! Decoding of one vector, and of one value.
//!
//! ```text
//! packed p -> from_bits(2^52 | p) - (2^52 - base) = p + base = n, exactly
//!          -> n * 10^f * 10^-e, or n / 10^e
//! ```
//!
//! The exponent bits set above the packed integer make it a float without a
//! conversion instruction, which SSE2 and AVX2 lack for 64-bit integers. Fused
//! into the unpacking loop; unpacking to a buffer first and converting that took
//! 1.6 times as long (AVX-512 and AVX2, widths 11 to 41).

use super::{AlpFloat, Exponents};
use crate::lanes::simd::{level, multiversion};
use crate::lanes::{self, Lane, LevelTable, VECTOR, for_each_width, level_table, unpack_rows};

/// Decodes a vector packed at `width`; exceptions are left to the caller to
/// patch.
///
/// Total: any packed bits and any base give some floats.
///
/// # Panics
/// If `width` exceeds `F::MAX_WIDTH`, `packed` isn't `lanes::packed_len` words
/// long or an exponent exceeds `F::MAX_EXPONENT`.
pub fn decode_vector<F: AlpFloat>(
    packed: &[F::Bits],
    base: F::Int,
    width: usize,
    exponents: Exponents,
    out: &mut [F; VECTOR],
) {
    assert!(width <= F::MAX_WIDTH, "width exceeds the mantissa");
    assert_eq!(packed.len(), lanes::packed_len::<F::Bits>(width), "packed length");
    let step = Step::new(base, exponents);
    // SAFETY: the kernels need the features of the level that was detected.
    unsafe { F::DECODE[level() as usize][width](packed, step, out) }
    if step.divides {
        divide(out, step.divisor);
    }
}

multiversion! {
    /// Divides integers, 4 KiB that are in the first-level cache: products and quotients share the
    /// kernels of a width.
    fn divide<F: AlpFloat>(integers: &mut [F; VECTOR], divisor: F) {
        for integer in integers {
            *integer = *integer / divisor;
        }
    }
}

/// What turns a packed integer into a value.
#[derive(Clone, Copy)]
pub struct Step<F> {
    bias: F,
    // 1 where integers are divided.
    power_f: F,
    inverse_e: F,
    divisor: F,
    divides: bool,
}

impl<F: AlpFloat> Step<F> {
    #[inline(always)]
    pub(super) fn new(base: F::Int, exponents: Exponents) -> Self {
        let divides = exponents.divides::<F>();
        let Exponents { e, f } = if divides { Exponents::default() } else { exponents };
        Self {
            bias: F::bias(base),
            power_f: F::power(f),
            inverse_e: F::inverse_power(e),
            divisor: F::power(exponents.e),
            divides,
        }
    }

    /// A packed integer whose value is near `value`, as far as there is one.
    pub fn near(self, value: F) -> u64 {
        let integer = match self.divides {
            true => value * self.divisor,
            false => value / self.inverse_e / self.power_f,
        };
        let mantissa = integer + self.bias;
        if mantissa >= F::BINADE_END {
            F::Bits::mask(F::MAX_WIDTH).widen()
        } else if mantissa >= F::BINADE {
            mantissa.to_bits().wrapping_sub(F::BINADE.to_bits()).widen()
        } else {
            0
        }
    }

    /// The value of a packed integer below 2^`F::MAX_WIDTH`.
    #[inline(always)]
    pub fn decode(self, packed: F::Bits) -> F {
        let product = self.product(packed);
        if self.divides { product / self.divisor } else { product }
    }

    /// The value where `divides` is false, otherwise the integer.
    #[inline(always)]
    fn product(self, packed: F::Bits) -> F {
        (F::from_bits(packed | F::BINADE.to_bits()) - self.bias) * self.power_f * self.inverse_e
    }
}

/// A kernel that decodes one vector packed at the width it was made for.
pub type DecodeFn<F> = unsafe fn(&[<F as AlpFloat>::Bits], Step<F>, &mut [F; VECTOR]);

macro_rules! level_kernel {
    ($decode:ident $(, $feature:literal)?) => {
        $(#[cfg(target_arch = "x86_64")] #[target_feature(enable = $feature)])?
        fn $decode<F: AlpFloat, const W: usize>(
            packed: &[F::Bits],
            step: Step<F>,
            out: &mut [F; VECTOR],
        ) {
            unpack_rows::<F::Bits, F, W>(packed, out, |packed| step.product(packed));
        }
    };
}

level_kernel!(decode_baseline);
level_kernel!(decode_avx2, "avx2");
level_kernel!(decode_avx512, "avx512f,avx512bw,avx512dq,avx512vl");

macro_rules! kernels {
    ($table:ident, $t:ident; $($w:literal)*) => {
        /// The kernels of the type for widths 0..=MAX_WIDTH.
        pub(super) const $table: LevelTable<DecodeFn<$t>> =
            level_table!(DecodeFn<$t>; decode_baseline decode_avx2 decode_avx512; $t; $($w)*);
    };
}

for_each_width!(52, kernels, DECODE_F64, f64);
for_each_width!(23, kernels, DECODE_F32, f32);

/// The value `index` of a vector, as [`decode_vector`] gives it.
///
/// # Panics
/// As [`decode_vector`], and if `index` is 1,024 or more.
pub fn decode_one<F: AlpFloat>(
    packed: &[F::Bits],
    base: F::Int,
    width: usize,
    exponents: Exponents,
    index: usize,
) -> F {
    assert!(width <= F::MAX_WIDTH, "width exceeds the mantissa");
    let word = lanes::unpack_one(packed, F::Bits::ZERO, width, index);
    Step::new(base, exponents).decode(word)
}
