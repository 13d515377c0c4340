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
//! count decides.

use super::encode::STEP;
use super::{AlpFloat, Encoded};
use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, VECTOR};

/// Bins of the histogram.
const BINS: usize = 64;
/// One in so many values goes into the histogram.
const STRIDE: usize = 4;

/// Makes exceptions of outlying values as long as that shrinks the vector.
///
/// `valid` are the slots that count, as they were given to `encode_vector`. The
/// result is as good as before to all readers; `size_bits` is never larger.
pub fn trim<F: AlpFloat>(out: &mut Encoded<F>, valid: &[u64; VECTOR / 64]) {
    while let Some((start, width)) = propose(out, valid) {
        let mut inside = [0; VECTOR / 64];
        mark_inside::<F>(&out.values, start, width, &mut inside);
        let mut exceptions = [0; VECTOR / 64];
        let mut count = 0;
        for i in 0..VECTOR / 64 {
            exceptions[i] = out.exceptions[i] | (valid[i] & !inside[i]);
            count += exceptions[i].count_ones() as usize;
        }
        let made = count - out.exception_count;
        let saved = (out.width as usize - width) * VECTOR;
        if made * price::<F>() >= saved {
            return;
        }
        let kept: [u64; VECTOR / 64] = std::array::from_fn(|i| valid[i] & !exceptions[i]);
        let (least, greatest) = rebase::<F>(&mut out.values, &kept, start);
        let _ = (least, greatest);
        out.base = F::raise(out.base, start);
        out.width = width as u8;
        out.exceptions = exceptions;
        out.exception_count = count;
    }
}

fn price<F: AlpFloat>() -> usize {
    static P: std::sync::LazyLock<usize> =
        std::sync::LazyLock::new(|| std::env::var("P").map_or(0, |p| p.parse().unwrap()));
    F::EXCEPTION_BITS + *P
}

/// The window that promises the least size: its start and its width.
fn propose<F: AlpFloat>(out: &Encoded<F>, valid: &[u64; VECTOR / 64]) -> Option<(F::Bits, usize)> {
    let width = out.width as usize;
    let bin_bits = width.saturating_sub(BINS.ilog2() as usize);
    let mut below = [0usize; BINS + 1];
    for i in 0..VECTOR / 64 {
        let kept = valid[i] & !out.exceptions[i];
        for j in 0..64 / STRIDE {
            let at = j * STRIDE + j % STRIDE;
            let bin = (out.values[i * 64 + at] >> bin_bits).widen() as usize % BINS;
            below[bin + 1] += (kept >> at & 1) as usize;
        }
    }
    for bin in 0..BINS {
        below[bin + 1] += below[bin];
    }
    let all = below[BINS];
    let mut best = (width * VECTOR, None);
    for narrower in bin_bits..width {
        let window = 1 << (narrower - bin_bits);
        let (mut cover, mut start) = (0, 0);
        for bin in 0..=BINS - window {
            let inside = below[bin + window] - below[bin];
            if inside > cover {
                (cover, start) = (inside, bin);
            }
        }
        let size = narrower * VECTOR + (all - cover) * STRIDE * price::<F>();
        if size < best.0 {
            best = (size, Some((start, narrower)));
        }
    }
    best.1.map(|(bin, width)| (F::Bits::truncate((bin as u64) << bin_bits), width))
}

multiversion! {
    /// Marks the values from `start` to `start` + 2^`width` - 1.
    fn mark_inside<F: AlpFloat>(
        values: &[F::Bits; VECTOR],
        start: F::Bits,
        width: usize,
        inside: &mut [u64; VECTOR / 64],
    ) {
        let (group, bits) = (F::Bits::BITS, F::BIT);
        for at in (0..VECTOR).step_by(group) {
            let mut marks = [F::Bits::ZERO; STEP];
            for (step, chunk) in values[at..at + group].as_chunks::<STEP>().0.iter().enumerate() {
                let bit: &[F::Bits; STEP] = bits[step * STEP..][..STEP].try_into().unwrap();
                for i in 0..STEP {
                    let outside = chunk[i].wrapping_sub(start) >> width;
                    marks[i] |= if outside == F::Bits::ZERO { bit[i] } else { F::Bits::ZERO };
                }
            }
            let marks = marks.iter().fold(F::Bits::ZERO, |all, &bits| all | bits);
            inside[at / 64] |= marks.widen() << (at % 64);
        }
    }
}

multiversion! {
    /// Takes `start` off the kept values and sets the others to 0.
    fn rebase<F: AlpFloat>(
        values: &mut [F::Bits; VECTOR],
        kept: &[u64; VECTOR / 64],
        start: F::Bits,
    ) -> (F::Bits, F::Bits) {
        let bits = F::BIT;
        let group = F::Bits::BITS;
        for at in (0..VECTOR).step_by(group) {
            let kept = F::Bits::truncate(kept[at / 64] >> (at % 64));
            for i in 0..group {
                let value = values[at + i].wrapping_sub(start);
                values[at + i] = if kept & bits[i] == F::Bits::ZERO { F::Bits::ZERO } else { value };
            }
        }
        (start, start)
    }
}
