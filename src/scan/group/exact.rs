//! Exact sums of floats: the result is that of adding all values without rounding, and then rounding
//! once, so that it does not depend on the order of values, on threads or on engines.
//!
//! ```text
//! a value       53 bits from bit p of a fixed-point number on, bit 0 is worth 2^-1074
//! digits         of 32 bits each, in words of 64: the upper half takes what is carried
//!
//!   digit   | p / 32 + 2 | p / 32 + 1 | p / 32 |
//!   value       ######################
//! ```
//!
//! The range of Float64 takes 66 digits (the accumulator of U. Kulisch); a sum keeps those that its
//! values have reached.

/// Bits of a digit.
const BITS: u32 = 32;
const MASK: u64 = (1 << BITS) - 1;

/// Values that may be added before digits are carried: each adds less than 2^32 to one.
const UNTIL_CARRIED: u32 = 1 << 30;

/// A sum of values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::scan) struct ExactSum {
    /// The number of the first digit that is kept, and the digits.
    first: usize,
    digits: Vec<i64>,
    /// Values since digits were carried.
    added: u32,
    has_nan: bool,
    /// Whether there were infinities, negative and positive.
    infinite: [bool; 2],
}

impl ExactSum {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let (exponent, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        if exponent == 0x7ff {
            match value.is_nan() {
                true => self.has_nan = true,
                false => self.infinite[usize::from(value > 0.0)] = true,
            }
            return;
        }
        let (mantissa, place) = match exponent {
            0 => (fraction, 0),
            _ => (fraction | 1 << 52, exponent as u32 - 1),
        };
        if mantissa == 0 {
            return;
        }
        let at = (place / BITS) as usize;
        let shifted = u128::from(mantissa) << (place % BITS);
        let digits = self.reach(at, 3);
        for (index, digit) in digits.iter_mut().enumerate() {
            let part = (shifted >> (BITS * index as u32)) as u64 & MASK;
            *digit += if value < 0.0 { -(part as i64) } else { part as i64 };
        }
        self.added += 1;
        if self.added == UNTIL_CARRIED {
            self.carry();
        }
    }

    /// The sum of what a device has added: digits, and how many values were NaN, negative and positive
    /// infinity.
    pub fn from_words(words: &[u64]) -> Self {
        let [ref digits @ .., nan, negative, positive] = *words else { return Self::default() };
        let mut sum = Self {
            first: 0,
            digits: digits.iter().map(|digit| *digit as i64).collect(),
            added: 0,
            has_nan: nan > 0,
            infinite: [negative > 0, positive > 0],
        };
        sum.carry();
        sum
    }

    /// Adds what another sum has added.
    pub fn merge(&mut self, other: &Self) {
        self.has_nan |= other.has_nan;
        for (own, other) in self.infinite.iter_mut().zip(other.infinite) {
            *own |= other;
        }
        if other.digits.is_empty() {
            return;
        }
        self.carry();
        let mut other = other.clone();
        other.carry();
        let digits = self.reach(other.first, other.digits.len());
        digits.iter_mut().zip(&other.digits).for_each(|(digit, other)| *digit += other);
        self.added += 2;
    }

    /// `count` digits from number `at` on.
    fn reach(&mut self, at: usize, count: usize) -> &mut [i64] {
        if self.digits.is_empty() {
            self.first = at;
        }
        if at < self.first {
            self.digits.splice(0..0, std::iter::repeat_n(0, self.first - at));
            self.first = at;
        }
        let end = at - self.first + count;
        if self.digits.len() < end {
            self.digits.resize(end, 0);
        }
        &mut self.digits[at - self.first..end]
    }

    /// Leaves 32 bits in each digit but the last, which has the sign.
    fn carry(&mut self) {
        let mut carried = 0;
        for digit in &mut self.digits {
            let sum = *digit + carried;
            carried = sum >> BITS;
            *digit = sum & MASK as i64;
        }
        if carried != 0 {
            self.digits.push(carried);
        }
        self.added = 0;
    }

    /// The sum, rounded to the nearest, ties to even.
    pub fn value(&self) -> f64 {
        match (self.has_nan, self.infinite) {
            (true, _) | (_, [true, true]) => return f64::NAN,
            (_, [true, false]) => return f64::NEG_INFINITY,
            (_, [false, true]) => return f64::INFINITY,
            _ => {}
        }
        let mut sum = self.clone();
        sum.carry();
        let is_negative = sum.digits.last().is_some_and(|digit| *digit < 0);
        if is_negative {
            sum.digits.iter_mut().for_each(|digit| *digit = -*digit);
            sum.carry();
        }
        // The highest bit, and a word of 64 bits from there down.
        let Some(last) = sum.digits.iter().rposition(|digit| *digit != 0) else { return 0.0 };
        let digit = |index: usize| sum.digits.get(index).map_or(0, |digit| *digit as u128);
        let below = |index: usize, by: usize| index.checked_sub(by).map_or(0, digit);
        let top = digit(last) << 64 | below(last, 1) << 32 | below(last, 2);
        let highest = 127 - top.leading_zeros();
        // Bit 64 of `top` is bit 0 of digit `last`.
        let place = (sum.first + last) as i64 * i64::from(BITS) + i64::from(highest) - 64;
        // Of subnormal numbers fewer bits.
        let kept = 53.min(place + 1) as u32;
        let drop = highest + 1 - kept;
        let mut mantissa = (top >> drop) as u64;
        let half = 1_u128 << (drop - 1);
        let rest = top & ((1_u128 << drop) - 1);
        let has_more = last >= 3 && sum.digits[..last - 2].iter().any(|digit| *digit != 0);
        let is_above = rest > half || (rest == half && (has_more || mantissa & 1 == 1));
        mantissa += u64::from(is_above);
        // A carry into the bit above adds one to the exponent.
        let exponent = (place - 52).max(0) as u64;
        // Normal numbers have the bit that is not stored, which adds one to the exponent.
        let bits = ((exponent << 52) + mantissa).min(f64::INFINITY.to_bits());
        f64::from_bits(if is_negative { bits | 1 << 63 } else { bits })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.value()
    }

    #[test]
    fn what_cancels_is_gone_and_what_is_small_stays() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[-0.0]).to_bits(), 0);
        assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, -f64::MAX, 5e-324, 5e-324]), 1e-323);
        assert_eq!(sum(&[f64::INFINITY, -1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[1.0, f64::NAN]).is_nan());
    }

    #[test]
    fn ties_go_to_even() {
        let ulp = f64::EPSILON;
        assert_eq!(sum(&[1.0, ulp / 2.0]), 1.0);
        assert_eq!(sum(&[1.0 + ulp, ulp / 2.0]), 1.0 + 2.0 * ulp);
        assert_eq!(sum(&[1.0, ulp / 2.0, 5e-324]), 1.0 + ulp);
        assert_eq!(sum(&[1.0, ulp / 2.0, -5e-324]), 1.0);
        assert_eq!(sum(&[-1.0, -ulp / 2.0, -5e-324]), -1.0 - ulp);
    }

    proptest! {
        #[test]
        fn one_value_is_its_own_sum_and_two_are_rounded_once(bits: (u64, u64)) {
            let (one, two) = (f64::from_bits(bits.0), f64::from_bits(bits.1));
            prop_assert!(sum(&[one]) == one || one.is_nan());
            let both = one + two;
            prop_assert!(sum(&[one, two]) == both || both.is_nan());
        }

        #[test]
        fn the_order_and_how_values_are_divided_do_not_matter(
            bits in prop::collection::vec(any::<u64>(), 0..60),
            cut in 0..60_usize,
        ) {
            let values: Vec<f64> = bits.iter().map(|bits| f64::from_bits(*bits))
                .filter(|value| value.is_finite()).collect();
            let all = sum(&values);
            let mut reversed = values.clone();
            reversed.reverse();
            prop_assert_eq!(sum(&reversed).to_bits(), all.to_bits());
            let (head, tail) = values.split_at(cut.min(values.len()));
            let mut parts = [head, tail].map(|part| {
                let mut sum = ExactSum::default();
                part.iter().for_each(|value| sum.add(*value));
                sum
            });
            let tail = std::mem::take(&mut parts[1]);
            parts[0].merge(&tail);
            prop_assert_eq!(parts[0].value().to_bits(), all.to_bits());
            // What was added is taken away again.
            let negative: Vec<f64> = values.iter().map(|value| -value).collect();
            prop_assert_eq!(sum(&[values, negative].concat()), 0.0);
        }
    }
}
