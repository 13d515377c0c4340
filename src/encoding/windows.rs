//! The window of a vector's values that is packed; the others become exceptions.
//!
//! ```text
//! values   .   ::|||||:|::.                                        .  .
//!          |---------------------- 2^width ---------------------------|
//!              |-- 2^narrower --|      the others: exceptions
//! ```
//!
//! A histogram of every fourth value in 64 bins proposes a window up to six bits
//! narrower; what lies in it is then counted exactly. `alp` and `pfor` narrow by this
//! until it no longer pays.

use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, Mask, VECTOR};

/// Bins of the histogram.
pub(crate) const BINS: usize = 64;
/// One in so many values goes into the histogram.
pub(crate) const STRIDE: usize = 4;

/// What a histogram proposes.
pub(super) struct Proposal {
    /// Bits that a value takes in a bin.
    pub bin_bits: usize,
    /// First bin of the window.
    pub bin: usize,
    /// The window's width, that of all values if none promises less.
    pub width: usize,
    /// The bin with the most values.
    pub fullest: usize,
}

multiversion! {
    /// The window that promises the least size of values below 2^`width`, where an
    /// exception takes `price` bits.
    pub(super) fn propose<T: Lane>(
        values: &[T; VECTOR],
        kept: &Mask,
        width: usize,
        price: usize,
    ) -> Proposal {
        let bin_bits = width.saturating_sub(BINS.ilog2() as usize);
        // Four histograms in turn, as values tend to hit one bin over and over
        // and each count would wait for the last; 16 bits, for which SSE2 has a
        // maximum.
        let mut counts = [[0i16; BINS]; 4];
        for (chunk, kept) in values.as_chunks::<64>().0.iter().zip(kept) {
            for i in 0..64 / STRIDE {
                // Not at the same place in each group, for columns with a period.
                let at = i * STRIDE + i % STRIDE;
                let bin = (chunk[at] >> bin_bits).widen() as usize % BINS;
                counts[i % 4][bin] += (kept >> at & 1) as i16;
            }
        }
        let mut below = [0i16; BINS + 1];
        for bin in 0..BINS {
            below[bin + 1] = below[bin] + counts.iter().map(|counts| counts[bin]).sum::<i16>();
        }
        let cover = |window: usize| {
            let ends = below[window..].iter().zip(&below);
            ends.map(|(end, start)| end - start).fold(0, i16::max)
        };
        let (mut best, mut best_width) = (width * VECTOR, width);
        for narrower in bin_bits..width {
            let outside = below[BINS] - cover(1 << (narrower - bin_bits));
            let size = narrower * VECTOR + outside as usize * STRIDE * price;
            if size < best {
                (best, best_width) = (size, narrower);
            }
        }
        let window = 1 << (best_width - bin_bits);
        let most = cover(window);
        let bin = (0..=BINS - window).find(|&bin| below[bin + window] - below[bin] == most);
        let fullest = (0..BINS).max_by_key(|&bin| (below[bin + 1] - below[bin], BINS - bin));
        Proposal {
            bin_bits,
            bin: bin.unwrap_or(0),
            width: best_width,
            fullest: fullest.unwrap_or(0),
        }
    }
}

multiversion! {
    /// Counts the values from `start` to `start` + 2^`width` - 1.
    pub(super) fn count_inside<T: Lane>(
        values: &[T; VECTOR],
        start: T,
        width: usize,
    ) -> usize {
        let one = T::truncate(1);
        // A byte counts to 255.
        let group = if T::BITS == 8 { 128 } else { VECTOR };
        let count = |values: &[T]| {
            let mut count = T::ZERO;
            for value in values {
                let is_inside = value.wrapping_sub(start) >> width == T::ZERO;
                count = count.wrapping_add(if is_inside { one } else { T::ZERO });
            }
            count.widen() as usize
        };
        values.chunks_exact(group).map(count).sum()
    }
}

multiversion! {
    /// Takes `start` off the values inside, sets the others to 0 and takes them
    /// off `kept`. Slots not kept stay 0: 0 less `start` wraps to the outside.
    pub(super) fn cut<T: Lane>(
        values: &mut [T; VECTOR],
        start: T,
        width: usize,
        kept: &mut Mask,
    ) {
        for (chunk, kept) in values.as_chunks_mut::<64>().0.iter_mut().zip(kept) {
            let mut inside = 0;
            for (i, value) in chunk.iter_mut().enumerate() {
                let above = value.wrapping_sub(start);
                let is_inside = above >> width == T::ZERO;
                *value = if is_inside { above } else { T::ZERO };
                inside |= (is_inside as u64) << i;
            }
            *kept &= inside;
        }
    }
}
