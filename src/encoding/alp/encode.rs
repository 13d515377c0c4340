//! Encoding of one vector with given exponents, and its size without encoding.
//!
//! All in floats, branch-free: the sum with `ROUND` is kept instead of `n`, for
//! it orders the same way (its minimum is the base; SSE2 and AVX2 have no
//! 64-bit integer minimum but do have a float one) and its bits differ from `n`
//! by a constant. A value that fails becomes the sum 0.0, below all others, and
//! is lifted to the base by a maximum in the second pass. Invalid slots are
//! made NaN beforehand, which fails like any other NaN, and then are taken off
//! the exceptions. Lost: a mask of exceptions by shift and or, with the bounds in
//! a loop of their own (1.5 times as long as the table of bits here).

use super::{AlpFloat, Exponents};
use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, VECTOR};

/// Width of the accumulators in values: two AVX-512 registers of `f64`.
pub(super) const STEP: usize = 16;

/// One vector, encoded and ready to be packed at `width` from base zero.
#[derive(Clone, Debug)]
pub struct Encoded<F: AlpFloat> {
    /// The pair that it was encoded with.
    pub exponents: Exponents,
    /// The least encoded integer, 0 if there is none.
    pub base: F::Int,
    /// Bits that the largest of `values` needs, at most `F::MAX_WIDTH`.
    pub width: u8,
    /// Encoded integers less `base`; 0 in invalid and in exception slots.
    pub values: [F::Bits; VECTOR],
    /// Slots that are exceptions, slot `i` as bit `i % 64` of word `i / 64`.
    pub exceptions: [u64; VECTOR / 64],
    /// Bits set in `exceptions`.
    pub exception_count: usize,
}

impl<F: AlpFloat> Encoded<F> {
    /// An all-zero vector, to be passed to [`encode_vector`].
    pub fn new() -> Self {
        Self {
            exponents: Exponents::default(),
            base: F::Int::default(),
            width: 0,
            values: [F::Bits::ZERO; VECTOR],
            exceptions: [0; VECTOR / 64],
            exception_count: 0,
        }
    }

    /// Bits of packed values and exceptions, as [`estimate`] counts them.
    #[cfg(test)]
    pub fn size_bits(&self) -> usize {
        self.width as usize * VECTOR + self.exception_count * F::EXCEPTION_BITS
    }
}

impl<F: AlpFloat> Default for Encoded<F> {
    fn default() -> Self {
        Self::new()
    }
}

/// Encodes `values` with the pair `exponents`.
///
/// Slot `i` counts if bit `i % 64` of `valid[i / 64]` is set; other slots
/// become 0 and never exceptions, whatever they hold. A counted slot is an
/// exception if its integer has a magnitude of 2^51 (`f32`: 2^22) or more or if
/// it doesn't decode to the same bits: NaN, infinities and -0.0 always.
///
/// # Panics
/// If an exponent exceeds `F::MAX_EXPONENT`.
pub fn encode_vector<F: AlpFloat>(
    values: &[F; VECTOR],
    valid: &[u64; VECTOR / 64],
    exponents: Exponents,
    out: &mut Encoded<F>,
) {
    with_nan_for_invalid(values, valid, |values| encode_rows(values, exponents, out));
    out.exception_count = 0;
    for (word, valid) in out.exceptions.iter_mut().zip(valid) {
        *word &= valid;
        out.exception_count += word.count_ones() as usize;
    }
}

/// The exact size in bits that [`encode_vector`] would give this vector:
/// `width` * 1,024 plus the exceptions at `F::EXCEPTION_BITS` each.
///
/// # Panics
/// If an exponent exceeds `F::MAX_EXPONENT`.
pub fn estimate<F: AlpFloat>(
    values: &[F; VECTOR],
    valid: &[u64; VECTOR / 64],
    exponents: Exponents,
) -> usize {
    let valid_count: usize = valid.iter().map(|word| word.count_ones() as usize).sum();
    with_nan_for_invalid(values, valid, |values| {
        let (width, encodable) = measure_rows::<F>(values, exponents);
        width * VECTOR + (valid_count - encodable) * F::EXCEPTION_BITS
    })
}

/// Calls `f` with `values`, its invalid slots replaced by NaN.
#[inline]
pub(super) fn with_nan_for_invalid<F: AlpFloat, R>(
    values: &[F; VECTOR],
    valid: &[u64; VECTOR / 64],
    f: impl FnOnce(&[F; VECTOR]) -> R,
) -> R {
    if valid.iter().all(|&word| word == u64::MAX) {
        return f(values);
    }
    let mut masked = [F::NAN; VECTOR];
    for (i, (out, value)) in masked.iter_mut().zip(values).enumerate() {
        if valid[i / 64] >> (i % 64) & 1 != 0 {
            *out = *value;
        }
    }
    f(&masked)
}

/// The multipliers of a pair of exponents, or the divisor.
#[derive(Clone, Copy)]
pub(super) struct Scale<F> {
    power_e: F,
    inverse_f: F,
    power_f: F,
    inverse_e: F,
}

impl<F: AlpFloat> Scale<F> {
    #[inline(always)]
    pub(super) fn new(exponents: Exponents) -> Self {
        let f = if exponents.divides::<F>() { 0 } else { exponents.f };
        Self {
            power_e: F::power(exponents.e),
            inverse_f: F::inverse_power(f),
            power_f: F::power(f),
            inverse_e: F::inverse_power(exponents.e),
        }
    }

    /// `ROUND` plus the integer of `value`, and whether that decodes to `value`.
    #[inline(always)]
    pub(super) fn encode<const DIVIDE: bool>(self, value: F) -> (F, bool) {
        let sum = value * self.power_e * self.inverse_f + F::ROUND;
        let integer = sum - F::ROUND;
        let decoded =
            if DIVIDE { integer / self.power_e } else { integer * self.power_f * self.inverse_e };
        // `&` instead of `&&`: no branches. NaN fails the comparisons.
        let ok = (sum > F::BINADE) & (sum < F::BINADE_END) & (decoded.to_bits() == value.to_bits());
        (sum, ok)
    }
}

/// Bits from the least to the greatest sum of a vector.
#[inline(always)]
pub(super) fn width_between<F: AlpFloat>(least: F, greatest: F) -> usize {
    let range = greatest.to_bits().wrapping_sub(least.to_bits()).widen();
    64 - range.leading_zeros() as usize
}

/// Least and greatest over the accumulators; `None` if nothing was encodable.
///
/// Halves the accumulators, because a chain of sixteen costs more than measuring
/// a sample.
#[inline(always)]
pub(super) fn bounds<F: AlpFloat, const N: usize>(
    mut least: [F; N],
    mut greatest: [F; N],
) -> Option<(F, F)> {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            let (low, high) = (least[i + half], greatest[i + half]);
            least[i] = if low < least[i] { low } else { least[i] };
            greatest[i] = if high > greatest[i] { high } else { greatest[i] };
        }
        half /= 2;
    }
    (least[0] < F::INFINITY).then_some((least[0], greatest[0]))
}

multiversion! {
    /// Width and number of encodable values.
    fn measure_rows<F: AlpFloat>(values: &[F; VECTOR], exponents: Exponents) -> (usize, usize) {
        measure::<F, STEP>(values, exponents)
    }
}

/// Width and number of encodable values of a multiple of `N` values, which is a power of two.
#[inline(always)]
pub(super) fn measure<F: AlpFloat, const N: usize>(
    values: &[F],
    exponents: Exponents,
) -> (usize, usize) {
    if exponents.divides::<F>() {
        measure_with::<F, N, true>(values, exponents)
    } else {
        measure_with::<F, N, false>(values, exponents)
    }
}

#[inline(always)]
fn measure_with<F: AlpFloat, const N: usize, const DIVIDE: bool>(
    values: &[F],
    exponents: Exponents,
) -> (usize, usize) {
    let scale = Scale::new(exponents);
    let mut least = [F::INFINITY; N];
    let mut greatest = [F::ZERO; N];
    let mut count = [F::Bits::ZERO; N];
    for chunk in values.as_chunks::<N>().0 {
        for i in 0..N {
            let (sum, ok) = scale.encode::<DIVIDE>(chunk[i]);
            let low = if ok { sum } else { F::INFINITY };
            let high = if ok { sum } else { F::ZERO };
            least[i] = if low < least[i] { low } else { least[i] };
            greatest[i] = if high > greatest[i] { high } else { greatest[i] };
            count[i] = count[i].wrapping_add(if ok { F::BIT[0] } else { F::Bits::ZERO });
        }
    }
    let count = count.iter().fold(F::Bits::ZERO, |sum, &c| sum.wrapping_add(c)).widen() as usize;
    match bounds(least, greatest) {
        Some((low, high)) => (width_between(low, high), count),
        None => (0, 0),
    }
}

multiversion! {
    /// Fills all of `out` but the count; `out.exceptions` still has the NaN of
    /// invalid slots.
    fn encode_rows<F: AlpFloat>(
        values: &[F; VECTOR],
        exponents: Exponents,
        out: &mut Encoded<F>,
    ) {
        if exponents.divides::<F>() {
            encode_rows_with::<F, true>(values, exponents, out);
        } else {
            encode_rows_with::<F, false>(values, exponents, out);
        }
    }
}

#[inline(always)]
fn encode_rows_with<F: AlpFloat, const DIVIDE: bool>(
    values: &[F; VECTOR],
    exponents: Exponents,
    out: &mut Encoded<F>,
) {
    let scale = Scale::new(exponents);
    let mut least = [F::INFINITY; STEP];
    let mut greatest = [F::ZERO; STEP];
    out.exceptions = [0; VECTOR / 64];
    let (group, bits) = (F::Bits::BITS, F::BIT);
    for start in (0..VECTOR).step_by(group) {
        let mut ok_bits = [F::Bits::ZERO; STEP];
        for step in (0..group).step_by(STEP) {
            let at = start + step;
            let input: &[F; STEP] = values[at..at + STEP].try_into().unwrap();
            let output: &mut [F::Bits; STEP] = (&mut out.values[at..at + STEP]).try_into().unwrap();
            let bit: &[F::Bits; STEP] = bits[step..step + STEP].try_into().unwrap();
            for i in 0..STEP {
                let (sum, ok) = scale.encode::<DIVIDE>(input[i]);
                let low = if ok { sum } else { F::INFINITY };
                let high = if ok { sum } else { F::ZERO };
                least[i] = if low < least[i] { low } else { least[i] };
                greatest[i] = if high > greatest[i] { high } else { greatest[i] };
                ok_bits[i] |= if ok { bit[i] } else { F::Bits::ZERO };
                output[i] = high.to_bits();
            }
        }
        let ok_bits = ok_bits.iter().fold(F::Bits::ZERO, |all, &bits| all | bits);
        let failed = F::Bits::MAX.wrapping_sub(ok_bits).widen();
        out.exceptions[start / 64] |= failed << (start % 64);
    }

    out.exponents = exponents;
    let Some((low, high)) = bounds(least, greatest) else {
        // Every sum is the 0.0 of a failed value, whose bits are 0.
        out.base = F::Int::default();
        out.width = 0;
        return;
    };
    out.base = F::rounded_int(low);
    out.width = width_between(low, high) as u8;
    let base = low.to_bits();
    for value in &mut out.values {
        let sum = F::from_bits(*value);
        let sum = if sum > low { sum } else { low };
        *value = sum.to_bits().wrapping_sub(base);
    }
}
