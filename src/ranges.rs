//! Sets of values of a column, as disjoint ranges in its order.
//!
//! Every comparison of a column with literals is one: `x < 5`, BETWEEN, IN, and their
//! combinations by AND, OR and NOT. Values are mapped to unsigned integers that are
//! ordered as the values are (*keys*), so that one set of a few machine words serves all
//! types, and bounds of chunks and vectors can be compared with it.
//!
//! ```text
//! unsigned   the bits
//! signed     the bits with the sign flipped
//! floats     all bits flipped if negative, else the sign: IEEE 754 total order, in which
//!            -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN, as Arrow's kernels compare
//! ```

use std::fmt::Debug;

use arrow_buffer::i256;
use arrow_schema::DataType;
use half::f16;

/// The order of the bits of a type of up to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    Unsigned,
    Signed,
    Float,
}

/// How the values of a type become keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Bits of a value, 1 to 64.
    pub bits: u32,
    pub order: Order,
}

impl Key {
    /// The key of the highest word of 64 bits of wide values, which has their sign.
    pub const HIGHEST_WORD: Self = Self { bits: 64, order: Order::Signed };

    /// The key of a type; none for types of more bits, of strings, and without an order.
    pub fn of(data_type: &DataType) -> Option<Self> {
        use DataType as T;
        let (bits, order) = match data_type {
            T::Boolean => (1, Order::Unsigned),
            T::UInt8 => (8, Order::Unsigned),
            T::UInt16 => (16, Order::Unsigned),
            T::UInt32 => (32, Order::Unsigned),
            T::UInt64 => (64, Order::Unsigned),
            T::Int8 => (8, Order::Signed),
            T::Int16 => (16, Order::Signed),
            T::Int32 | T::Date32 | T::Time32(_) | T::Decimal32(..) => (32, Order::Signed),
            T::Int64
            | T::Date64
            | T::Time64(_)
            | T::Timestamp(..)
            | T::Duration(_)
            | T::Decimal64(..) => (64, Order::Signed),
            T::Float16 => (16, Order::Float),
            T::Float32 => (32, Order::Float),
            T::Float64 => (64, Order::Float),
            _ => return None,
        };
        Some(Self { bits, order })
    }

    pub fn is_float(self) -> bool {
        self.order == Order::Float
    }

    /// The greatest key.
    pub fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// The key of a value's bits, zero-extended.
    pub fn of_bits(self, bits: u64) -> u64 {
        match self.order {
            Order::Unsigned => bits,
            Order::Signed => bits ^ self.sign(),
            Order::Float if bits & self.sign() != 0 => !bits & self.max(),
            Order::Float => bits | self.sign(),
        }
    }

    /// The bits of a key's value.
    pub fn to_bits(self, key: u64) -> u64 {
        match self.order {
            Order::Unsigned => key,
            Order::Float if key & self.sign() == 0 => !key & self.max(),
            Order::Signed | Order::Float => key ^ self.sign(),
        }
    }

    /// The key of an integer, if the type holds it.
    pub fn of_integer(self, value: i128) -> Option<u64> {
        let least = match self.order {
            Order::Unsigned => 0,
            Order::Signed => -i128::from(self.sign()),
            Order::Float => return None,
        };
        u64::try_from(value - least).ok().filter(|key| *key <= self.max())
    }

    /// The integer of a key; of floats the bits.
    pub fn integer(self, key: u64) -> i128 {
        match self.order {
            Order::Signed => i128::from(key) - i128::from(self.sign()),
            _ => self.to_bits(key).into(),
        }
    }

    /// The float of a key.
    pub fn float(self, key: u64) -> f64 {
        let bits = self.to_bits(key);
        match self.bits {
            16 => f16::from_bits(bits as u16).to_f64(),
            32 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }
}

/// What ranges are of.
pub(crate) trait Bound: Copy + Ord + Debug {
    /// The next value, if there is one.
    fn next(self) -> Option<Self>;
    /// The value before, if there is one.
    fn previous(self) -> Option<Self>;
}

impl Bound for u64 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl Bound for i256 {
    fn next(self) -> Option<Self> {
        self.checked_add(Self::ONE)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(Self::ONE)
    }
}

/// Disjoint ranges that ascend, both ends included, with gaps between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranges<B>(Vec<(B, B)>);

impl<B: Bound> Ranges<B> {
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The values from `low` to `high`; none if they are in the wrong order.
    pub fn between(low: B, high: B) -> Self {
        if low <= high { Self(vec![(low, high)]) } else { Self::none() }
    }

    /// Ranges in any order, which may overlap.
    pub fn of(mut ranges: Vec<(B, B)>) -> Self {
        ranges.retain(|(low, high)| low <= high);
        ranges.sort_unstable();
        let mut joined: Vec<(B, B)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match joined.last_mut() {
                Some((_, end)) if end.next().is_none_or(|next| low <= next) => {
                    *end = high.max(*end);
                }
                _ => joined.push((low, high)),
            }
        }
        Self(joined)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (B, B)> {
        self.0.iter().copied()
    }

    pub fn as_slice(&self) -> &[(B, B)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Values in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::of(self.iter().chain(other.iter()).collect())
    }

    /// Values in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Vec::new();
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        while let (Some((low, high)), Some((other_low, other_high))) = (left.peek(), right.peek()) {
            if low.max(other_low) <= high.min(other_high) {
                both.push((*low.max(other_low), *high.min(other_high)));
            }
            if high < other_high {
                left.next();
            } else {
                right.next();
            }
        }
        Self(both)
    }

    /// Whether a value is in one of them.
    pub fn contains(&self, value: B) -> bool {
        let behind = self.0.partition_point(|(low, _)| *low <= value);
        behind > 0 && value <= self.0[behind - 1].1
    }

    /// The ranges that have some of the values from `low` to `high`.
    pub fn within(&self, low: B, high: B) -> &[(B, B)] {
        let first = self.0.partition_point(|(_, end)| *end < low);
        let behind = self.0.partition_point(|(start, _)| *start <= high);
        &self.0[first.min(behind)..behind]
    }

    /// What there is of the values from `low` to `high`.
    pub fn share(&self, low: B, high: B) -> Share {
        let first = self.0.partition_point(|(_, end)| *end < low);
        match self.0.get(first) {
            Some((start, end)) if *start <= low && high <= *end => Share::All,
            Some((start, _)) if *start <= high => Share::Some,
            _ => Share::None,
        }
    }
}

/// How many of some values are in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    None,
    Some,
    All,
}

impl Ranges<i256> {
    /// Of values that one word holds their keys.
    pub fn of_one_word(&self) -> Ranges<u64> {
        let (least, greatest) = (i128::from(i64::MIN), i128::from(i64::MAX));
        let all = Ranges::between(i256::from_i128(least), i256::from_i128(greatest));
        let key =
            |value: i256| value.to_i128().and_then(|value| Key::HIGHEST_WORD.of_integer(value));
        let within = self.intersection(&all);
        let keys = within.iter().filter_map(|(low, high)| Some((key(low)?, key(high)?)));
        Ranges::of(keys.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_keep_the_order_and_come_back() {
        for key in [
            Key { bits: 8, order: Order::Unsigned },
            Key { bits: 8, order: Order::Signed },
            Key { bits: 16, order: Order::Float },
        ] {
            let mut all: Vec<u64> = (0..=key.max()).collect();
            all.sort_by(|a, b| match key.order {
                Order::Unsigned => a.cmp(b),
                Order::Signed => (*a as u8 as i8).cmp(&(*b as u8 as i8)),
                Order::Float => f16::from_bits(*a as u16).total_cmp(&f16::from_bits(*b as u16)),
            });
            for (rank, bits) in all.into_iter().enumerate() {
                assert_eq!(key.of_bits(bits), rank as u64);
                assert_eq!(key.to_bits(rank as u64), bits);
            }
        }
        let doubles = Key { bits: 64, order: Order::Float };
        for pair in
            [-f64::NAN, f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN].windows(2)
        {
            assert!(doubles.of_bits(pair[0].to_bits()) < doubles.of_bits(pair[1].to_bits()));
        }
    }

    #[test]
    fn integers_fit_their_type_or_not() {
        let signed = Key::of(&DataType::Int8).unwrap();
        assert_eq!(signed.of_integer(-128), Some(0));
        assert_eq!(signed.of_integer(127), Some(255));
        assert_eq!(signed.of_integer(128), None);
        assert_eq!(signed.integer(0), -128);
        let unsigned = Key::of(&DataType::UInt64).unwrap();
        assert_eq!(unsigned.of_integer(u64::MAX.into()), Some(u64::MAX));
        assert_eq!(unsigned.of_integer(-1), None);
        assert_eq!(unsigned.of_integer(i128::MAX), None);
    }

    fn ranges() -> impl Strategy<Value = Ranges<u64>> {
        let bound = || prop_oneof![0_u64..20, Just(u64::MAX), Just(u64::MAX - 1)];
        prop::collection::vec((bound(), bound()), 0..5).prop_map(Ranges::of)
    }

    proptest! {
        #[test]
        fn sets_of_ranges_are_sets(a in ranges(), b in ranges(), low in 0_u64..20, len in 0_u64..20) {
            let high = low + len;
            let (union, both) = (a.union(&b), a.intersection(&b));
            let all: Vec<u64> = (0..45).chain(u64::MAX - 5..=u64::MAX).collect();
            for value in &all {
                let value = *value;
                prop_assert_eq!(union.contains(value), a.contains(value) || b.contains(value));
                prop_assert_eq!(both.contains(value), a.contains(value) && b.contains(value));
            }
            let hits = (low..=high).filter(|value| a.contains(*value)).count() as u64;
            let share = match hits {
                0 => Share::None,
                hits if hits == len + 1 => Share::All,
                _ => Share::Some,
            };
            prop_assert_eq!(a.share(low, high), share);
            let within = Ranges::of(a.within(low, high).to_vec());
            let met = a.iter().filter(|(start, end)| *start <= high && low <= *end);
            prop_assert_eq!(&within, &Ranges::of(met.collect()));
            for set in [&union, &both] {
                let gaps = set.as_slice().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0);
                prop_assert!(gaps, "{:?}", set);
            }
        }
    }
}
