//! Cutting and joining of one vector.
//!
//! ```text
//! value --- left: T-R-S bits --> code --+--> code << R | right --> packed
//!      `--- right: R bits --------------'    (the S bits below are zero)
//! ```
//!
//! Both walk over a vector that stays in the first cache, behind the packing and
//! before it. The dictionary is eight values at most, so codes are found by eight
//! comparisons and become left parts by choices between constants, which any
//! instruction set does for all lanes at once. Joining with eight left parts
//! takes 0.3 us a vector of doubles, with one and no zeros nothing.

use super::cut::{Cut, MOST_ENTRIES};
use crate::encoding::Words;
use crate::lanes::simd::multiversion;
use crate::lanes::{self, VECTOR};

/// What cutting and joining need to know, in words of the values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint<T> {
    right: usize,
    shift: usize,
    width: usize,
    entries: usize,
    /// Left parts where they stand in values, zero behind the entries.
    lefts: [T; MOST_ENTRIES],
}

impl<T: Words> Joint<T> {
    pub fn new(cut: &Cut) -> Self {
        let left = |entry: u16| T::truncate(u64::from(entry)) << (cut.right + cut.shift);
        Self {
            right: cut.right,
            shift: cut.shift,
            width: cut.width(),
            entries: cut.entries,
            lefts: cut.dictionary.map(left),
        }
    }

    /// Words that a packed vector takes.
    pub fn packed_len(&self) -> usize {
        lanes::packed_len::<T>(self.width)
    }

    /// The value of one packed word.
    fn join(&self, packed: T) -> T {
        let code = (packed >> self.right).widen() as usize % MOST_ENTRIES;
        self.lefts[code] | (packed & T::mask(self.right)) << self.shift
    }

    /// Unpacks a vector but for its exceptions. Total: any bits give some values.
    pub fn unpack(&self, packed: &[T], values: &mut [T; VECTOR]) {
        if self.width == self.right && self.shift == 0 {
            // One left part: its bits are added as a base is.
            return lanes::unpack(packed, self.lefts[0], self.width, values);
        }
        lanes::unpack(packed, T::ZERO, self.width, values);
        match self.width - self.right {
            0 => join_one(values, self),
            1 => join_two(values, self),
            2 => join_four(values, self),
            _ => join_eight(values, self),
        }
    }

    /// Value `index` of a vector as [`Self::unpack`] gives it.
    pub fn unpack_one(&self, packed: &[T], index: usize) -> T {
        self.join(lanes::unpack_one(packed, T::ZERO, self.width, index))
    }

    /// Packs a vector. `parts` is what is packed, zero in slots that are not valid and
    /// those of exceptions; returns which are these.
    pub fn pack(
        &self,
        values: &[T; VECTOR],
        valid: &[u64; VECTOR / 64],
        packed: &mut [T],
    ) -> [u64; VECTOR / 64] {
        let mut parts = [T::ZERO; VECTOR];
        let mut exceptions = [0; VECTOR / 64];
        cut_values(values, self, &mut parts, &mut exceptions);
        for ((exceptions, valid), parts) in
            exceptions.iter_mut().zip(valid).zip(parts.as_chunks_mut::<64>().0)
        {
            *exceptions &= valid;
            if *valid != u64::MAX {
                for (slot, part) in parts.iter_mut().enumerate() {
                    *part = if valid >> slot & 1 == 1 { *part } else { T::ZERO };
                }
            }
        }
        lanes::pack(&parts, T::ZERO, self.width, packed);
        exceptions
    }
}

/// One of two by the bit `code` of `packed`.
#[inline(always)]
fn either<T: Words>(packed: T, code: T, zero: T, one: T) -> T {
    if packed & code == T::ZERO { zero } else { one }
}

/// The right part where it stands in values.
#[inline(always)]
fn right_of<T: Words>(packed: T, joint: &Joint<T>) -> T {
    (packed & T::mask(joint.right)) << joint.shift
}

multiversion! {
    fn join_one<T: Words>(values: &mut [T; VECTOR], joint: &Joint<T>) {
        let joint = *joint;
        for value in values {
            *value = joint.lefts[0] | right_of(*value, &joint);
        }
    }
}

multiversion! {
    fn join_two<T: Words>(values: &mut [T; VECTOR], joint: &Joint<T>) {
        let joint = *joint;
        let code = T::truncate(1) << joint.right;
        let [a, b, ..] = joint.lefts;
        for value in values {
            *value = either(*value, code, a, b) | right_of(*value, &joint);
        }
    }
}

multiversion! {
    fn join_four<T: Words>(values: &mut [T; VECTOR], joint: &Joint<T>) {
        let joint = *joint;
        let codes = [0, 1].map(|bit| T::truncate(1) << (joint.right + bit));
        let [a, b, c, d, ..] = joint.lefts;
        for value in values {
            let [low, high] = [(a, b), (c, d)].map(|(a, b)| either(*value, codes[0], a, b));
            *value = either(*value, codes[1], low, high) | right_of(*value, &joint);
        }
    }
}

multiversion! {
    fn join_eight<T: Words>(values: &mut [T; VECTOR], joint: &Joint<T>) {
        let joint = *joint;
        let codes = [0, 1, 2].map(|bit| T::truncate(1) << (joint.right + bit));
        let [a, b, c, d, e, f, g, h] = joint.lefts;
        for value in values {
            let pairs = [(a, b), (c, d), (e, f), (g, h)];
            let [ab, cd, ef, gh] = pairs.map(|(a, b)| either(*value, codes[0], a, b));
            let [low, high] = [(ab, cd), (ef, gh)].map(|(a, b)| either(*value, codes[1], a, b));
            *value = either(*value, codes[2], low, high) | right_of(*value, &joint);
        }
    }
}

multiversion! {
    /// Cuts values, valid or not, and finds those that are exceptions, whose parts are zero.
    fn cut_values<T: Words>(
        values: &[T; VECTOR],
        joint: &Joint<T>,
        parts: &mut [T; VECTOR],
        exceptions: &mut [u64; VECTOR / 64],
    ) {
        let joint = *joint;
        // Left part and the bits that are to be zero.
        let right = T::mask(joint.right) << joint.shift;
        let rest = T::MAX.wrapping_sub(right);
        let codes: [T; MOST_ENTRIES] =
            std::array::from_fn(|code| T::truncate(code as u64) << joint.right);
        // Codes without an entry do not fit the width: the first entry again.
        let entry = |code| joint.lefts[if code < joint.entries { code } else { 0 }];
        let lefts: [T; MOST_ENTRIES] = std::array::from_fn(entry);
        for ((values, parts), exceptions) in (values.as_chunks::<64>().0.iter())
            .zip(parts.as_chunks_mut::<64>().0)
            .zip(exceptions)
        {
            let mut missed = [T::ZERO; 64];
            for ((value, part), missed) in values.iter().zip(parts).zip(&mut missed) {
                let left = *value & rest;
                let mut code = T::ZERO;
                let mut found = T::ZERO;
                // The first of equal entries is the last that counts.
                for (entry, of) in lefts.iter().zip(&codes).rev() {
                    let same = *entry == left;
                    code = if same { *of } else { code };
                    found = if same { T::MAX } else { found };
                }
                *part = (code | (*value & right) >> joint.shift) & found;
                *missed = T::MAX.wrapping_sub(found);
            }
            *exceptions = 0;
            if missed.iter().fold(T::ZERO, |all, missed| all | *missed) != T::ZERO {
                for (slot, missed) in missed.iter().enumerate() {
                    *exceptions |= (missed.widen() & 1) << slot;
                }
            }
        }
    }
}
