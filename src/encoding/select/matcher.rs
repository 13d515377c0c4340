//! Ranges and lists of keys, compared with the words of a vector.
//!
//! Ranges are tested one after the other, each for all values: a subtraction and a comparison,
//! which is faster than a search of each value until there are many. If these are close together,
//! as codes of dictionaries are, they are a bitmap in which values are looked up.

use crate::encoding::Words;
use crate::encoding::select::RangeTest;
use crate::lanes::mask::{self, ALL, NONE};
use crate::lanes::{self, Mask, VECTOR, select_packed, select_values};
use crate::ranges::{Key, Ranges};

/// More ranges than this are searched for each value, rather than each tested for all values.
const MAX_PASSES: usize = 64;

/// More ranges than this are looked up in a bitmap, if it is small.
const MAX_PASSES_BESIDE_MEMBERS: usize = 16;

/// Keys that a bitmap is made for, at most: as many as a chunk's dictionary may have codes.
const MAX_MEMBERS: u64 = 1 << 17;

/// Ranges of keys, ready to be compared with vectors.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub key: Key,
    ranges: Ranges<u64>,
    members: Option<Members>,
}

/// Keys as bits, from one on.
#[derive(Debug)]
struct Members {
    least: u64,
    bits: Vec<u64>,
}

impl Members {
    fn of(ranges: &Ranges<u64>) -> Option<Self> {
        let (least, _) = ranges.as_slice().first()?;
        let (_, greatest) = ranges.as_slice().last()?;
        let span = greatest - least;
        if ranges.as_slice().len() <= MAX_PASSES_BESIDE_MEMBERS || span >= MAX_MEMBERS {
            return None;
        }
        let mut bits = vec![0; span as usize / 64 + 1];
        for key in ranges.iter().flat_map(|(low, high)| low - least..=high - least) {
            bits[key as usize / 64] |= 1 << (key % 64);
        }
        Some(Self { least: *least, bits })
    }

    fn contains(&self, key: u64) -> bool {
        let at = key.wrapping_sub(self.least);
        let word = self.bits.get((at / 64) as usize).copied().unwrap_or(0);
        word >> (at % 64) & 1 == 1
    }
}

impl Matcher {
    pub fn new(test: &RangeTest) -> Self {
        let ranges = test.ranges.clone();
        Self { key: test.key, members: Members::of(&ranges), ranges }
    }

    /// Whether a value passes, given its bits.
    pub fn passes(&self, bits: u64) -> bool {
        self.ranges.contains(self.key.of_bits(bits))
    }

    /// The ranges, if each is to be tested for all values.
    pub fn passes_over_values(&self) -> Option<&[(u64, u64)]> {
        Some(self.ranges.as_slice()).filter(|ranges| ranges.len() <= self.most_passes())
    }

    fn most_passes(&self) -> usize {
        if self.members.is_some() { MAX_PASSES_BESIDE_MEMBERS } else { MAX_PASSES }
    }

    /// Words whose keys are in the ranges; of more than a vector, those of the first.
    pub fn words<T: Words>(&self, words: &[T], mask: &mut Mask) {
        let mut keys = [T::ZERO; VECTOR];
        for (of_word, word) in keys.iter_mut().zip(words) {
            *of_word = T::truncate(self.key.of_bits(word.widen()));
        }
        self.keys(&keys, mask);
    }

    /// Keys that are in the ranges.
    pub fn keys<T: Words>(&self, keys: &[T; VECTOR], mask: &mut Mask) {
        match self.passes_over_values() {
            Some(ranges) => select_each(keys, ranges.iter().copied(), mask),
            None => self.look_up(keys, mask),
        }
    }

    /// Packed integers from a base on, whose keys are in the ranges. Sums that pass the end of
    /// the type are in none.
    pub fn packed<T: Words>(&self, words: &[T], width: usize, base: T, mask: &mut Mask) {
        let least = self.key.of_bits(base.widen());
        let top = T::mask(width).widen();
        let greatest = least.saturating_add(top).min(T::MAX.widen());
        let within = self.ranges.within(least, greatest);
        if within.len() > self.most_passes() {
            let mut keys = [T::ZERO; VECTOR];
            lanes::unpack(words, T::truncate(least), width, &mut keys);
            self.look_up(&keys, mask);
            return;
        }
        let ranges = (within.iter())
            .map(|(low, high)| (low.saturating_sub(least), high.min(&greatest) - least));
        packed_in(words, width, ranges, mask);
    }

    /// Keys looked up one by one.
    fn look_up<T: Words>(&self, keys: &[T; VECTOR], mask: &mut Mask) {
        match &self.members {
            Some(members) => select_if(keys, mask, |key| members.contains(key)),
            None => select_if(keys, mask, |key| self.ranges.contains(key)),
        }
    }
}

/// Packed integers in ranges, which ascend and end at the width's greatest.
pub(crate) fn packed_in<T: Words>(
    words: &[T],
    width: usize,
    mut ranges: impl Iterator<Item = (u64, u64)>,
    mask: &mut Mask,
) {
    let Some((low, high)) = ranges.next() else {
        *mask = NONE;
        return;
    };
    if (low, high) == (0, T::mask(width).widen()) {
        *mask = ALL;
        return;
    }
    let Some(second) = ranges.next() else {
        select_packed(words, width, T::truncate(low), T::truncate(high - low), mask);
        return;
    };
    let mut values = [T::ZERO; VECTOR];
    lanes::unpack(words, T::ZERO, width, &mut values);
    let ranges: Vec<(u64, u64)> = [(low, high), second].into_iter().chain(ranges).collect();
    if ranges.len() <= MAX_PASSES {
        select_each(&values, ranges.into_iter(), mask);
    } else {
        let ranges = Ranges::of(ranges);
        select_if(&values, mask, |value| ranges.contains(value));
    }
}

/// Keys that a test says are contained.
fn select_if<T: Words>(keys: &[T; VECTOR], mask: &mut Mask, contains: impl Fn(u64) -> bool) {
    for (word, keys) in mask.iter_mut().zip(keys.as_chunks::<64>().0) {
        *word = 0;
        for (bit, key) in keys.iter().enumerate() {
            *word |= u64::from(contains(key.widen())) << bit;
        }
    }
}

/// Values in one of some ranges.
fn select_each<T: Words>(
    values: &[T; VECTOR],
    ranges: impl Iterator<Item = (u64, u64)>,
    mask: &mut Mask,
) {
    *mask = NONE;
    for (low, high) in ranges {
        let mut kept = NONE;
        select_values(values, T::truncate(low), T::truncate(high - low), &mut kept);
        mask::unite(mask, &kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Lane;
    use crate::ranges::Order;

    /// One range, some and many, close together and far apart, of packed integers at every width.
    #[test]
    fn packed_integers_are_matched_as_their_values_are() {
        let mut state = 5_u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 20
        };
        for order in [Order::Unsigned, Order::Signed] {
            let key = Key { bits: 32, order };
            for width in 0..=32 {
                let packed: Vec<u32> = (0..width * 32).map(|_| next() as u32).collect();
                // Sums stay inside of the type.
                let room = u64::from(u32::MAX) - u64::from(u32::mask(width));
                let least = if room == 0 { 0 } else { next() % room };
                let base = key.to_bits(least) as u32;
                let mut values = [0; VECTOR];
                lanes::unpack(&packed, base, width, &mut values);
                for count in [0, 1, 3, 20, 300] {
                    for far in [300, 1 << 32] {
                        let mut some = || least.saturating_sub(9) + next() % far;
                        let ranges = (0..count).map(|_| some()).map(|low| (low, low + low % 5));
                        let ranges = Ranges::of(ranges.collect());
                        let matcher = Matcher::new(&RangeTest::new(key, ranges));
                        let expected =
                            (0..VECTOR).filter(|slot| matcher.passes(values[*slot].into()));
                        let mut mask = ALL;
                        matcher.packed(&packed, width, base, &mut mask);
                        assert!(mask::rows(&mask).eq(expected.clone()), "{width} bits of {count}");
                        matcher.words(&values, &mut mask);
                        assert!(
                            mask::rows(&mask).eq(expected),
                            "values of {width} bits of {count}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn sums_past_the_end_of_the_type_are_in_no_range() {
        let packed = vec![u8::MAX; 8 * 128];
        let key = Key { bits: 8, order: Order::Unsigned };
        for ranges in [vec![(0, 255)], vec![(0, 100), (200, 255)]] {
            let matcher = Matcher::new(&RangeTest::new(key, Ranges::of(ranges)));
            let mut mask = ALL;
            matcher.packed(&packed, 8, 7_u8, &mut mask);
            assert_eq!(mask, NONE);
        }
    }
}
