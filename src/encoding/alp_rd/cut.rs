//! Where the bits of a chunk's values are cut, from a sample of them.
//!
//! ```text
//! trailing zeros of all samples --> shift S      their top 16 bits, sorted --> runs of 16 bits
//!                                                   --halved--> of 15 bits ... --> of 1 bit
//! ```
//!
//! Runs of equal left parts of L bits become those of L - 1 bits by joining
//! neighbours, so that all 16 cuts take one sort of 2,048 numbers and no table: at most
//! 55 us a chunk of doubles, a tenth of its encoding. All cuts are weighed with all
//! sizes of dictionary by the bits that the sample would take. Costs are integers and ties
//! have an order: kernels/encode_alp_rd.cu finds the same.

use crate::encoding::statistics::SAMPLED_VECTORS;
use crate::encoding::{Input, Words};
use crate::lanes::VECTOR;

/// Most bits of a left part.
pub(crate) const MOST_LEFT: usize = 16;
/// Most left parts of a dictionary.
pub(crate) const MOST_ENTRIES: usize = 8;
/// Slots that a sample looks at, at most.
pub(crate) const SAMPLE: usize = 2048;

/// Of so many vectors that are looked at, every how-many-th slot is.
fn stride(vectors: usize) -> usize {
    (vectors * VECTOR).div_ceil(SAMPLE).next_power_of_two()
}

/// The bits that all of a chunk's vectors take where its sample takes `cost`.
pub(super) fn of_all(cost: usize, vectors: usize) -> usize {
    let sampled = vectors.min(SAMPLED_VECTORS);
    cost * vectors * stride(sampled) / sampled.max(1)
}

/// How the values of a chunk are cut, and into what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bits of the right part.
    pub right: usize,
    /// Zero bits below it, which are not stored.
    pub shift: usize,
    /// Left parts in the dictionary, 1 to 8.
    pub entries: usize,
    /// The dictionary, zero behind the entries.
    pub dictionary: [u16; MOST_ENTRIES],
}

impl Cut {
    /// Bits of a code.
    pub fn code_bits(&self) -> usize {
        (usize::BITS - (self.entries - 1).leading_zeros()) as usize
    }

    /// Bits that are packed for a value.
    pub fn width(&self) -> usize {
        self.right + self.code_bits()
    }
}

/// The slots of a chunk that estimates look at.
pub(super) struct Sample<T> {
    /// Values of those that are valid.
    values: Vec<T>,
    /// All of them.
    slots: usize,
}

impl<T: Words> Sample<T> {
    /// As many slots of each of the vectors, spread evenly over their ends and over all
    /// remainders by powers of two, so that values that take turns are all seen.
    pub fn draw(input: &Input<'_>, words: &[T], vectors: impl Iterator<Item = usize>) -> Self {
        let vectors: Vec<usize> = vectors.collect();
        let stride = stride(vectors.len());
        let mut values = Vec::with_capacity(SAMPLE);
        for vector in &vectors {
            let valid = input.vector_valid(*vector);
            let slots = (0..VECTOR / stride).map(|step| step * stride + step * 5 % stride);
            let slots = slots.filter(|slot| valid[slot / 64] >> (slot % 64) & 1 == 1);
            values.extend(slots.map(|slot| words[vector * VECTOR + slot]));
        }
        Self { values, slots: vectors.len() * (VECTOR / stride) }
    }

    /// The zero bits that are worth dropping, at most as many as leave 16, and how many values
    /// have them.
    fn shift(&self) -> (usize, usize) {
        let most = T::BITS - MOST_LEFT;
        let mut ending = [0; 64];
        for value in &self.values {
            ending[(value.widen().trailing_zeros() as usize).min(most)] += 1;
        }
        // Values with fewer zeros become exceptions.
        let mut exceptions = 0;
        let costs = (0..=most).map(|shift| {
            let cost = self.slots * (T::BITS - shift) + exceptions * exception_bits::<T>();
            let kept = self.values.len() - exceptions;
            exceptions += ending[shift];
            (cost, shift, kept)
        });
        match costs.min() {
            Some((_, shift, kept)) if kept > 0 => (shift, kept),
            // Few values may all have ones there.
            _ => (0, self.values.len()),
        }
    }

    /// The best cut, and the bits that the sample would take with it; none of a sample
    /// without values, or where `vectors` vectors would surely take more than `limit` bytes.
    pub fn cut(&self, vectors: usize, limit: usize) -> Option<(Cut, usize)> {
        let (shift, kept) = self.shift();
        let missed = (self.values.len() - kept) * exception_bits::<T>();
        // Right parts of the fewest bits, and the exceptions of any cut.
        let least = self.slots * (T::BITS - shift - MOST_LEFT) + missed;
        if kept == 0 || of_all(least, vectors) / 8 > limit {
            return None;
        }
        let is_kept = |value: &&T| value.widen().trailing_zeros() as usize >= shift;
        let top = |value: &T| (value.widen() >> (T::BITS - MOST_LEFT)) as u16;
        let mut tops: Vec<u16> = self.values.iter().filter(is_kept).map(top).collect();
        tops.sort_unstable();
        let mut runs: Vec<(u16, usize)> =
            tops.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();

        let mut best: Option<(usize, Cut)> = None;
        for left in (1..=MOST_LEFT).rev() {
            let frequent = most_frequent(&runs);
            let mut exceptions = self.values.len();
            for (entries, run) in frequent.iter().enumerate().map(|(at, run)| (at + 1, run)) {
                exceptions -= run.1;
                // What a code has room for costs nothing.
                if !entries.is_power_of_two() && entries < frequent.len() {
                    continue;
                }
                let mut dictionary = [0; MOST_ENTRIES];
                for (entry, run) in dictionary.iter_mut().zip(&frequent[..entries]) {
                    *entry = run.0;
                }
                let cut = Cut { right: T::BITS - shift - left, shift, entries, dictionary };
                let cost = self.slots * cut.width() + exceptions * exception_bits::<T>();
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, cut));
                }
            }
            halve(&mut runs);
        }
        best.map(|(cost, cut)| (cut, cost))
    }
}

/// Bits of an exception: the value and its slot.
fn exception_bits<T: Words>() -> usize {
    T::BITS + 16
}

/// The runs with the greatest counts, the greatest first, of equal ones the least value.
fn most_frequent(runs: &[(u16, usize)]) -> Vec<(u16, usize)> {
    let mut frequent: Vec<(u16, usize)> = Vec::with_capacity(MOST_ENTRIES + 1);
    for run in runs {
        if frequent.get(MOST_ENTRIES - 1).is_none_or(|last| run.1 > last.1) {
            let at = frequent.partition_point(|other| other.1 >= run.1);
            frequent.insert(at, *run);
            frequent.truncate(MOST_ENTRIES);
        }
    }
    frequent
}

/// Takes the lowest bit off the values and joins runs that have become equal.
fn halve(runs: &mut Vec<(u16, usize)>) {
    runs.iter_mut().for_each(|run| run.0 >>= 1);
    runs.dedup_by(|next, run| {
        let same = next.0 == run.0;
        if same {
            run.1 += next.1;
        }
        same
    });
}
