//! Search for exponents, in two levels as in the paper (section 3.2).
//!
//! ```text
//! chunk   level one: 8 vectors x  8 values x all pairs -> the least that each may take
//!                    8 vectors x 32 values x those that may be best -> at most 5 candidates
//! vector  level two: 32 values x candidates            -> those nearly best
//!                    1,024 values x those nearly best  -> the pair
//! ```
//!
//! Unlike the paper, level one doesn't count winners but adds the pair that
//! lowers the summed size most, until none does, and level two measures whole
//! vectors where the sample can't tell: 0.7 % smaller where two pairs compete
//! (shapesall), nothing spent elsewhere. The paper's early exit lost with
//! at most five candidates of 30 ns each. Eight values of a sample say what a pair takes at
//! least, so that most pairs are not measured on all 32; the candidates are the same.

use super::encode::{STEP, measure};
use super::{AlpFloat, Exponents, estimate};
use crate::lanes::simd::multiversion;
use crate::lanes::{Lane, VECTOR};

/// Most candidates that a chunk gets.
pub const MAX_CANDIDATES: usize = 5;
/// Vectors of a chunk that level one looks at.
pub const SAMPLED_VECTORS: usize = 8;
/// Values of a vector in a sample.
const SAMPLE: usize = 32;
/// Values of a sample that are measured with all pairs.
const FIRST: usize = 8;
/// Most values of a vector in a sample of few vectors.
const MAX_SAMPLE: usize = SAMPLE * SAMPLED_VECTORS;
/// Pairs of `f64`, the most that a type has.
const MAX_PAIRS: usize = 19 * 20 / 2;
/// Pairs that are measured on all values of a lone vector.
const FINALISTS: usize = 16;
/// Exceptions that a sample may be wrong by: pairs this near to the best of a
/// sample are measured on the whole vector. 1 leaves 0.4 % on shapesall, 3 and
/// more gain nothing.
const NEAR: usize = 2;

/// The vectors that level one looks at in a chunk of `count` vectors: at most
/// [`SAMPLED_VECTORS`], evenly spread, ascending.
pub fn sampled_vectors(count: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(SAMPLED_VECTORS);
    (0..taken).map(move |i| (2 * i + 1) * count / (2 * taken))
}

/// All pairs; of equal ones the first is taken, that with the largest exponents. Those that divide
/// come last: products are decoded faster.
fn pairs<F: AlpFloat>() -> impl Iterator<Item = Exponents> {
    let most = if F::DIVIDES { F::MAX_EXPONENT } else { 0 };
    let dividing = (1..=most).map(|e| Exponents { e, f: Exponents::DIVIDED });
    let products =
        (0..=F::MAX_EXPONENT).rev().flat_map(|e| (0..=e).rev().map(move |f| Exponents { e, f }));
    products.chain(dividing)
}

/// The pair of a vector that isn't decimal: so precise that all values become
/// exceptions, at width 0. Among the candidates it says that level one found
/// nothing better than raw bits, which spares level two to search again.
fn hopeless<F: AlpFloat>() -> Exponents {
    Exponents { e: F::MAX_EXPONENT, f: 0 }
}

/// Level one: the pairs worth trying on the vectors of a chunk, best first, at
/// most [`MAX_CANDIDATES`]; none if `vectors` is empty.
///
/// `vectors` are those that [`sampled_vectors`] names, each with the bits of its
/// valid slots. A lone vector gets the pair that is best for it. Values that
/// aren't decimal get, as the last pair, one that encodes none of them.
pub fn candidates<F: AlpFloat>(vectors: &[(&[F; VECTOR], [u64; VECTOR / 64])]) -> Vec<Exponents> {
    if vectors.is_empty() {
        return Vec::new();
    }
    let length = MAX_SAMPLE / vectors.len();
    let length = length.next_multiple_of(STEP).max(SAMPLE);
    let mut samples = vec![F::NAN; length * vectors.len()];
    let counts: Vec<usize> = vectors
        .iter()
        .zip(samples.chunks_exact_mut(length))
        .map(|((values, valid), sample)| draw(values, valid, sample))
        .collect();
    let pairs: Vec<Exponents> = pairs::<F>().collect();
    if let [(values, valid)] = vectors {
        let mut costs = [[0; MAX_PAIRS]];
        cost_all_pairs(&samples, &counts, &counts, &mut costs);
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by_key(|&pair| costs[0][pair]);
        let finalists = order.iter().take(FINALISTS).map(|&pair| pairs[pair]);
        let best = finalists.min_by_key(|&pair| estimate(values, valid, pair));
        let mut chosen: Vec<Exponents> = best.into_iter().collect();
        let raw = counts[0] * F::Bits::BITS;
        if raw > 0 && order.iter().all(|&pair| costs[0][pair] >= raw) {
            chosen.push(hopeless::<F>());
        }
        return chosen;
    }

    // By vector and pair; of pairs whose `is_bound` is set, a lower bound.
    let mut costs = vec![[0; MAX_PAIRS]; vectors.len()];
    least_of_all_pairs(&samples, &counts, &mut costs);
    let mut is_bound = vec![true; pairs.len()];
    // What each vector costs with the best of the chosen pairs.
    let mut paid = vec![usize::MAX / SAMPLED_VECTORS.max(vectors.len()); vectors.len()];
    let mut chosen = Vec::with_capacity(MAX_CANDIDATES);
    while chosen.len() < MAX_CANDIDATES {
        let total = |costs: &[[usize; MAX_PAIRS]], pair: usize| -> usize {
            let costs = costs.iter().map(|cost| cost[pair]);
            paid.iter().zip(costs).map(|(&paid, cost)| cost.min(paid)).sum()
        };
        let mut totals: Vec<usize> = (0..pairs.len()).map(|pair| total(&costs, pair)).collect();
        let best = loop {
            let best = totals.iter().enumerate().min_by_key(|&(_, total)| total);
            let Some((pair, _)) = best.filter(|&(_, total)| *total < paid.iter().sum()) else {
                break None;
            };
            if !std::mem::take(&mut is_bound[pair]) {
                break Some(pair);
            }
            cost_pair(&samples, &counts, pairs[pair], pair, &mut costs);
            totals[pair] = total(&costs, pair);
        };
        let Some(pair) = best else { break };
        for (paid, cost) in paid.iter_mut().zip(&costs) {
            *paid = cost[pair].min(*paid);
        }
        chosen.push(pairs[pair]);
    }
    let raw = counts.iter().sum::<usize>() * F::Bits::BITS;
    if raw > 0 && paid.iter().sum::<usize>() >= raw {
        chosen.truncate(MAX_CANDIDATES - 1);
        chosen.push(hopeless::<F>());
    }
    chosen
}

/// Level two: the best pair for a vector, one of the first [`MAX_CANDIDATES`] of
/// `candidates` unless these are no better than raw bits, then any.
///
/// Bit `i % 64` of `valid[i / 64]` says that slot `i` counts.
///
/// # Panics
/// If an exponent of a candidate exceeds `F::MAX_EXPONENT`.
pub fn choose<F: AlpFloat>(
    values: &[F; VECTOR],
    valid: &[u64; VECTOR / 64],
    candidates: &[Exponents],
) -> Exponents {
    let candidates = &candidates[..candidates.len().min(MAX_CANDIDATES)];
    let mut sample = [F::NAN; SAMPLE];
    let count = draw(values, valid, &mut sample);
    let mut costs = [usize::MAX; MAX_CANDIDATES];
    cost_pairs(&sample, count, candidates, &mut costs);
    let best = costs.into_iter().min().unwrap_or(usize::MAX);
    let near = best.saturating_add(NEAR * F::EXCEPTION_BITS);
    let mut finalists = [Exponents::default(); MAX_CANDIDATES + 2];
    let mut taken = 0;
    let mut take = |pair| {
        finalists[taken] = pair;
        taken += 1;
    };
    for (&pair, &cost) in candidates.iter().zip(&costs) {
        if cost <= near {
            take(pair);
        }
    }
    if count > 0 && best >= count * F::Bits::BITS {
        if !candidates.contains(&hopeless::<F>()) {
            // The chunk changed where level one didn't look: anything goes.
            let mut costs = [[0; MAX_PAIRS]];
            cost_all_pairs(&sample, &[count], &[count], &mut costs);
            let other = pairs::<F>().zip(costs[0]).min_by_key(|&(_, cost)| cost);
            take(other.map_or_else(Exponents::default, |(pair, _)| pair));
        }
        take(hopeless::<F>());
    }
    let finalists = &finalists[..taken];
    if let [pair] = finalists {
        return *pair;
    }
    let sized = finalists.iter().map(|&pair| (estimate(values, valid, pair), pair));
    // Of equal sizes the first, the better candidate.
    sized.min_by_key(|&(size, _)| size).map_or_else(Exponents::default, |(_, pair)| pair)
}

/// Fills `sample` with valid values, evenly spread; returns how many there are.
fn draw<F: AlpFloat>(values: &[F; VECTOR], valid: &[u64; VECTOR / 64], sample: &mut [F]) -> usize {
    let length = sample.len();
    if valid.iter().all(|&word| word == u64::MAX) {
        let stride = VECTOR / length;
        for (i, (out, group)) in sample.iter_mut().zip(values.chunks_exact(stride)).enumerate() {
            // Not at the same place in each group, for columns with a period.
            *out = group[i * 7 % stride];
        }
        return length;
    }
    let mut positions = [0u16; VECTOR];
    let mut count = 0;
    for i in 0..VECTOR {
        positions[count] = i as u16;
        count += (valid[i / 64] >> (i % 64) & 1) as usize;
    }
    let taken = count.min(length);
    for (i, out) in sample[..taken].iter_mut().enumerate() {
        *out = values[positions[i * count / taken] as usize];
    }
    taken
}

/// The least of all pairs for each of the samples, by a few of its values: width and exceptions only
/// grow with more of them.
fn least_of_all_pairs<F: AlpFloat>(
    samples: &[F],
    counts: &[usize],
    costs: &mut [[usize; MAX_PAIRS]],
) {
    let length = samples.len() / counts.len().max(1);
    let places = || (0..FIRST).map(|index| index * length / FIRST);
    let first: Vec<F> = (samples.chunks_exact(length))
        .flat_map(|sample| places().map(|place| sample[place]))
        .collect();
    let measured: Vec<usize> =
        counts.iter().map(|count| places().filter(|place| place < count).count()).collect();
    cost_all_pairs(&first, &measured, counts, costs);
}

/// Estimated bits of `count` valid values with `pair`, by `measured` of them; the rest of the sample
/// is NaN.
#[inline(always)]
fn cost<F: AlpFloat>(sample: &[F], measured: usize, count: usize, pair: Exponents) -> usize {
    let (width, encodable) = match sample.len() {
        FIRST => measure::<F, FIRST>(sample, pair),
        _ => measure::<F, STEP>(sample, pair),
    };
    width * count + (measured - encodable) * F::EXCEPTION_BITS
}

multiversion! {
    /// Costs of all pairs for each of the samples, which are concatenated.
    fn cost_all_pairs<F: AlpFloat>(
        samples: &[F],
        measured: &[usize],
        counts: &[usize],
        costs: &mut [[usize; MAX_PAIRS]],
    ) {
        let length = samples.len() / counts.len().max(1);
        for (v, (&measured, &count)) in measured.iter().zip(counts).enumerate() {
            let sample = &samples[v * length..][..length];
            for (cell, pair) in costs[v].iter_mut().zip(pairs::<F>()) {
                *cell = cost(sample, measured, count, pair);
            }
        }
    }
}

multiversion! {
    /// Costs of one pair, that of this number, for each of the samples, which are concatenated.
    fn cost_pair<F: AlpFloat>(
        samples: &[F],
        counts: &[usize],
        pair: Exponents,
        number: usize,
        costs: &mut [[usize; MAX_PAIRS]],
    ) {
        let length = samples.len() / counts.len().max(1);
        for ((sample, &count), costs) in samples.chunks_exact(length).zip(counts).zip(costs) {
            costs[number] = cost(sample, count, count, pair);
        }
    }
}

multiversion! {
    /// Costs of some pairs for one sample.
    fn cost_pairs<F: AlpFloat>(
        sample: &[F; SAMPLE],
        count: usize,
        pairs: &[Exponents],
        costs: &mut [usize; MAX_CANDIDATES],
    ) {
        for (cell, &pair) in costs.iter_mut().zip(pairs) {
            *cell = cost(sample, count, count, pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs of level one by the costs of all pairs.
    fn candidates_of_all<F: AlpFloat>(
        vectors: &[(&[F; VECTOR], [u64; VECTOR / 64])],
    ) -> Vec<Exponents> {
        let length = (MAX_SAMPLE / vectors.len()).next_multiple_of(STEP).max(SAMPLE);
        let mut samples = vec![F::NAN; length * vectors.len()];
        let sample = samples.chunks_exact_mut(length);
        let counts: Vec<usize> = (vectors.iter().zip(sample))
            .map(|((values, valid), sample)| draw(values, valid, sample))
            .collect();
        let mut costs = vec![[0; MAX_PAIRS]; vectors.len()];
        cost_all_pairs(&samples, &counts, &counts, &mut costs);
        let pairs: Vec<Exponents> = pairs::<F>().collect();
        let mut paid = vec![usize::MAX / vectors.len().max(SAMPLED_VECTORS); vectors.len()];
        let mut chosen = Vec::new();
        while chosen.len() < MAX_CANDIDATES {
            let cost = |pair: usize| -> usize {
                paid.iter().zip(&costs).map(|(paid, costs)| costs[pair].min(*paid)).sum()
            };
            let best = (0..pairs.len()).min_by_key(|pair| cost(*pair)).unwrap();
            if cost(best) >= paid.iter().sum() {
                break;
            }
            paid.iter_mut().zip(&costs).for_each(|(paid, costs)| *paid = costs[best].min(*paid));
            chosen.push(pairs[best]);
        }
        let raw = counts.iter().sum::<usize>() * F::Bits::BITS;
        if raw > 0 && paid.iter().sum::<usize>() >= raw {
            chosen.truncate(MAX_CANDIDATES - 1);
            chosen.push(hopeless::<F>());
        }
        chosen
    }

    /// Random vectors, of which each has its own number of digits, noise and nulls.
    fn check<F: AlpFloat>(number: impl Fn(u64, u64) -> F, odd: [F; 6]) {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for case in 0..200 {
            let count = 2 + random(SAMPLED_VECTORS as u64 - 1) as usize;
            let vectors: Vec<([F; VECTOR], [u64; VECTOR / 64])> = (0..count)
                .map(|_| {
                    let (digits, noise, range) = (random(8), random(5), 1 << random(30));
                    // Of some vectors all values are odd, or bits at random.
                    let kind = random(8);
                    let value = |_| match random(10) < noise {
                        _ if kind == 0 => odd[random(6) as usize],
                        _ if kind == 1 => {
                            F::from_bits(F::Bits::truncate(random(1 << 31) << 33 | random(1 << 31)))
                        }
                        true => number(random(u64::from(u32::MAX)), 17),
                        false if noise == 4 && random(9) == 0 => odd[random(6) as usize],
                        false => number(random(range), digits),
                    };
                    let values: Vec<F> = (0..VECTOR).map(value).collect();
                    let valid = match random(4) {
                        0 => [0, 1, u64::MAX][random(3) as usize],
                        1 => random(u64::MAX),
                        _ => u64::MAX,
                    };
                    (values.try_into().unwrap(), [valid; VECTOR / 64])
                })
                .collect();
            let vectors: Vec<_> = vectors.iter().map(|(values, valid)| (values, *valid)).collect();
            assert_eq!(candidates(&vectors), candidates_of_all(&vectors), "case {case}");
        }
    }

    #[test]
    fn pairs_that_cannot_be_best_are_not_missed() {
        check(
            |number, digits| number as f64 / 10_f64.powi(digits as i32),
            [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 5e-324, 1e300],
        );
        check(
            |number, digits| number as f32 / 10_f32.powi(digits as i32),
            [f32::NAN, f32::INFINITY, -f32::INFINITY, -0.0, 1e-45, 1e30],
        );
    }
}
