//! Trimming: values far from the rest become exceptions, so that the rest needs
//! fewer bits.
//!
//! ```text
//! values   .   ::|||||:|::.                                        .  .
//!          |---------------------- 2^width ---------------------------|
//!              |-- 2^narrower --|      the others: exceptions
//! ```
//!
//! The paper's encoder makes exceptions only of what doesn't decode; the format
//! is the same. A histogram of every fourth value proposes the window, an exact
//! count decides: 4.5 % smaller over 26 columns (12 % for bitcoin transactions),
//! where the best window of all gives 4.9 % with twice as many exceptions. Lost:
//! every eighth value (3.9 %), a third round (nothing), one histogram (up to 1.5
//! times as long), marks by the table of bits that encoding uses (3 times).

use super::{AlpFloat, Encoded};
use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, VECTOR};

/// Bins of the histogram.
const BINS: usize = 64;
/// One in so many values goes into the histogram.
const STRIDE: usize = 4;
/// Rounds at most, each of which narrows by up to six bits.
const ROUNDS: usize = 2;

/// Makes exceptions of outlying values as far as that shrinks the vector.
///
/// `valid` are the slots that count, as they were given to `encode_vector`.
/// `out.size_bits()` never grows; each exception made here saves at least twice
/// its bits, because it also costs decoders a scattered store.
pub fn trim<F: AlpFloat>(out: &mut Encoded<F>, valid: &[u64; VECTOR / 64]) {
    for _ in 0..ROUNDS {
        let width = out.width as usize;
        let mut kept = std::array::from_fn(|i| valid[i] & !out.exceptions[i]);
        let bin_bits = width.saturating_sub(BINS.ilog2() as usize);
        let (bin, narrower) = propose::<F>(&out.values, &kept, width, bin_bits);
        if narrower == width {
            return;
        }
        let start = F::Bits::truncate(bin as u64) << bin_bits;
        let all: u32 = kept.iter().map(|word| word.count_ones()).sum();
        // Slots that aren't kept hold 0, which is inside if the window starts there.
        let others = if bin == 0 { VECTOR - all as usize } else { 0 };
        let inside = count_inside::<F>(&out.values, start, narrower) - others;
        let made = all as usize - inside;
        if made * price::<F>() >= (width - narrower) * VECTOR {
            return;
        }
        cut::<F>(&mut out.values, start, narrower, &mut kept);
        out.base = F::raise(out.base, start);
        out.width = narrower as u8;
        out.exceptions = std::array::from_fn(|i| valid[i] & !kept[i]);
        out.exception_count += made;
    }
}

/// Bits that an exception made here must save.
const fn price<F: AlpFloat>() -> usize {
    2 * F::EXCEPTION_BITS
}

multiversion! {
    /// The window that promises the least size: its first bin of 2^`bin_bits`
    /// values and its width, `width` if none promises less.
    fn propose<F: AlpFloat>(
        values: &[F::Bits; VECTOR],
        kept: &[u64; VECTOR / 64],
        width: usize,
        bin_bits: usize,
    ) -> (usize, usize) {
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
            let size = narrower * VECTOR + outside as usize * STRIDE * price::<F>();
            if size < best {
                (best, best_width) = (size, narrower);
            }
        }
        let window = 1 << (best_width - bin_bits);
        let most = cover(window);
        let bin = (0..=BINS - window).find(|&bin| below[bin + window] - below[bin] == most);
        (bin.unwrap_or(0), best_width)
    }
}

multiversion! {
    /// Counts the values from `start` to `start` + 2^`width` - 1.
    fn count_inside<F: AlpFloat>(
        values: &[F::Bits; VECTOR],
        start: F::Bits,
        width: usize,
    ) -> usize {
        let mut count = F::Bits::ZERO;
        for value in values {
            let is_inside = value.wrapping_sub(start) >> width == F::Bits::ZERO;
            count = count.wrapping_add(if is_inside { F::BIT[0] } else { F::Bits::ZERO });
        }
        count.widen() as usize
    }
}

multiversion! {
    /// Takes `start` off the values inside, sets the others to 0 and takes them
    /// off `kept`. Slots not kept stay 0: 0 less `start` wraps to the outside.
    fn cut<F: AlpFloat>(
        values: &mut [F::Bits; VECTOR],
        start: F::Bits,
        width: usize,
        kept: &mut [u64; VECTOR / 64],
    ) {
        for (chunk, kept) in values.as_chunks_mut::<64>().0.iter_mut().zip(kept) {
            let mut inside = 0;
            for (i, value) in chunk.iter_mut().enumerate() {
                let above = value.wrapping_sub(start);
                let is_inside = above >> width == F::Bits::ZERO;
                *value = if is_inside { above } else { F::Bits::ZERO };
                inside |= (is_inside as u64) << i;
            }
            *kept &= inside;
        }
    }
}
