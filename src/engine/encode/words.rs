//! Words of 8 to 64 bits: measured on the device, planned on the host, written by
//! the kernels of their encodings.

use std::sync::Arc;

use super::launch::{Launcher, Pending};
use super::reals::{self, Reals};
use super::write::{Origin, Part};
use crate::chunk::EncodedNode;
use crate::encoding::plan::{self, Plan};
use crate::encoding::{Encoding, Estimate, Physical, alp, ffor};
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::encode as abi;
use crate::gpu::kernels::{self, Kernel};
use crate::lanes::VECTOR;
use crate::options::Options;

/// A column of words, or of the limbs or lengths of something else.
pub(super) struct Words {
    physical: Physical,
    source: abi::Source,
    /// Whether exponents were searched for.
    is_alp: bool,
    rows: usize,
    chunk_rows: usize,
    scratch: Arc<DeviceBuffer>,
    at: Scratch,
    pending: Option<Pending<abi::ChunkTotals>>,
    /// For each chunk.
    totals: Vec<abi::ChunkTotals>,
    /// What is known of floats that may be cut.
    reals: Option<Reals>,
}

/// Where in the scratch each array begins, and its length.
///
/// For V vectors and C chunks of values of T bytes: (2 T + 4) V + 32 C bytes, for
/// floats 28 V + 16 C more (and those of `reals`), and each array up to 255 bytes more.
#[derive(Debug, Clone, Copy)]
struct Scratch {
    lows: usize,
    highs: usize,
    places: usize,
    candidates: usize,
    choices: usize,
    locators: usize,
    totals: usize,
    len: usize,
}

impl Scratch {
    fn new(value: usize, vectors: usize, chunks: usize, is_alp: bool) -> Self {
        let mut len = 0;
        let mut array = |bytes: usize| {
            let at = len;
            len = (at + bytes).next_multiple_of(256);
            at
        };
        let floats = if is_alp { 1 } else { 0 };
        Self {
            lows: array(vectors * value),
            highs: array(vectors * value),
            places: array(vectors * 4),
            candidates: array(floats * chunks * abi::CANDIDATES_BYTES),
            choices: array(floats * vectors * abi::CHOICE_BYTES),
            locators: array(floats * vectors * 4),
            totals: array(chunks * size_of::<abi::ChunkTotals>()),
            len,
        }
    }
}

/// Bytes of scratch that measuring words needs.
pub(super) fn scratch_bytes(
    physical: Physical,
    rows: usize,
    chunk_rows: usize,
    alp: bool,
) -> usize {
    let value = physical.bits().unwrap_or(0) / 8;
    let is_alp = alp && matches!(physical, Physical::F32 | Physical::F64);
    Scratch::new(value, rows.div_ceil(VECTOR), rows.div_ceil(chunk_rows), is_alp).len
}

impl Words {
    /// Starts measuring; `alp` if floats may be encoded so.
    pub fn measure(
        launcher: &mut Launcher<'_>,
        physical: Physical,
        source: abi::Source,
        alp: bool,
    ) -> Result<Self> {
        let is_alp = alp && matches!(physical, Physical::F32 | Physical::F64);
        let rows = source.rows as usize;
        let chunk_rows = source.chunk_vectors as usize * VECTOR;
        let (vectors, chunks) = (rows.div_ceil(VECTOR), rows.div_ceil(chunk_rows));
        let value = physical.bits().unwrap_or(0) / 8;
        let at = Scratch::new(value, vectors, chunks, is_alp);
        let scratch = launcher.allocate(at.len)?;
        let (pending, totals, reals) = (None, Vec::new(), None);
        let mut words = Self {
            physical,
            source,
            is_alp,
            rows,
            chunk_rows,
            scratch,
            at,
            pending,
            totals,
            reals,
        };
        if is_alp {
            let arguments = words.alp_arguments(0, 0);
            let is_wide = usize::from(value == 8);
            launcher.launch(kernels::ALP_CANDIDATES[is_wide], chunks, &arguments)?;
            let choose = kernels::ALP_CHOOSE[is_wide];
            launcher.launch(choose, vectors.div_ceil(choose.block), &arguments)?;
            launcher.launch(kernels::ALP_LAYOUT[is_wide], chunks, &arguments)?;
        } else {
            let bounds = words.by_width(kernels::BOUNDS);
            let arguments = abi::BoundsArguments {
                source,
                lows: words.address(at.lows),
                highs: words.address(at.highs),
            };
            launcher.launch(bounds, vectors.div_ceil(bounds.block), &arguments)?;
            let arguments = abi::LayoutArguments {
                lows: words.address(at.lows),
                highs: words.address(at.highs),
                places: words.address(at.places),
                totals: words.address(at.totals),
                vectors: vectors as u64,
                chunk_vectors: source.chunk_vectors,
                zero: 0,
            };
            launcher.launch(words.by_width(kernels::LAYOUT), chunks, &arguments)?;
        }
        words.pending = Some(launcher.result(&words.scratch, at.totals, chunks)?);
        Ok(words)
    }

    /// Starts measuring what alp_rd makes of floats.
    pub fn measure_reals(&mut self, launcher: &mut Launcher<'_>) -> Result<()> {
        if reals::suits(self.physical) {
            let alp = if self.is_alp { self.address(self.at.totals) } else { 0 };
            self.reals = Some(Reals::measure(launcher, self.physical, self.source, alp)?);
        }
        Ok(())
    }

    /// Waits for the totals.
    pub fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        if let Some(reals) = &mut self.reals {
            reals.read(launcher)?;
        }
        if let Some(pending) = self.pending.take() {
            self.totals = launcher.read(&pending)?;
        }
        Ok(())
    }

    fn address(&self, at: usize) -> u64 {
        self.scratch.address() + at as u64
    }

    /// Bytes of a value.
    fn value(&self) -> usize {
        self.physical.bits().unwrap_or(0) / 8
    }

    fn by_width(&self, kernels: kernels::ByWidth) -> Kernel {
        kernels[self.value().trailing_zeros() as usize]
    }

    /// Rows of a chunk.
    fn rows(&self, chunk: usize) -> usize {
        (self.rows - chunk * self.chunk_rows).min(self.chunk_rows)
    }

    /// Least and greatest valid value of a chunk.
    pub fn bounds(&self, chunk: usize) -> Option<[u64; 2]> {
        let totals = &self.totals[chunk];
        (totals.low <= totals.high)
            .then(|| [self.unordered(totals.low), self.unordered(totals.high)])
    }

    /// A word from its place in the order.
    fn unordered(&self, word: u64) -> u64 {
        let bits = self.value() * 8;
        let (top, all) = (1 << (bits - 1), u64::MAX >> (64 - bits));
        match self.source.order {
            abi::UNSIGNED => word,
            abi::FLOAT if word & top == 0 => !word & all,
            _ => word ^ top,
        }
    }

    /// Chooses a chunk's encoding, as [`plan::plan`] does.
    pub fn plan(&self, chunk: usize, options: &Options) -> Plan {
        let (rows, value, totals) = (self.rows(chunk), self.value(), &self.totals[chunk]);
        let vectors = rows.div_ceil(VECTOR);
        let sampled = vectors.min(plan::SAMPLED_VECTORS);
        let measured = totals.sampled as usize;
        let single = totals.low >= totals.high;
        let of = |bytes: usize| Some(Estimate::of([bytes]));
        let estimates = [
            (Encoding::Constant, single.then(|| Estimate::of([]))),
            (Encoding::Plain, of(rows * value)),
            (
                Encoding::Ffor,
                (self.physical.is_integer())
                    .then(|| Estimate::of(ffor::estimated(value, measured, sampled, vectors))),
            ),
            (
                Encoding::Alp,
                self.is_alp.then(|| {
                    Estimate::of([alp::estimated_bytes(value, measured, sampled, vectors)])
                }),
            ),
        ];
        let allowed = estimates.into_iter().filter(|(encoding, _)| options.allows(*encoding));
        let mut estimates: Vec<(Encoding, Estimate)> =
            allowed.filter_map(|(encoding, estimate)| Some((encoding, estimate?))).collect();
        if let Some(reals) = &self.reals {
            let limit = estimates.iter().map(|(_, estimate)| estimate.bytes()).min();
            let estimate = reals.estimate(chunk, rows, limit.unwrap_or(usize::MAX));
            estimates.extend(estimate.map(|estimate| (Encoding::AlpRd, estimate)));
        }
        let mut plan = plan::choose(estimates.into_iter());
        let is_reals = plan.encoding == Encoding::AlpRd;
        if is_reals && !self.reals.as_ref().is_some_and(|reals| reals.fits(chunk, rows)) {
            plan = plan.others.into_iter().next().unwrap_or_else(plan::plain);
        }
        plan
    }

    /// A chunk's node; `words` is the number by which it asks for these words.
    pub fn node(&self, chunk: usize, plan: &Plan, words: usize) -> EncodedNode<Part> {
        let (rows, value, totals) = (self.rows(chunk), self.value(), &self.totals[chunk]);
        let vectors = rows.div_ceil(VECTOR);
        let vector = (chunk * self.chunk_rows / VECTOR) as u64;
        let part = |len: usize| Part { len, origin: Origin::Words(words), vector };
        let mut node = EncodedNode::new(plan.encoding, self.physical, rows);
        match plan.encoding {
            Encoding::Constant => {
                node.parameters[0] = self.bounds(chunk).map_or(0, |[low, _]| low);
            }
            Encoding::Ffor => {
                let packed = totals.units as usize * ffor::PACKED_UNIT;
                node.buffers = vec![part(packed), part(ffor::vectors_len(value, vectors))];
            }
            Encoding::Alp => {
                let packed = totals.units as usize * ffor::PACKED_UNIT;
                let locators = if totals.exceptions > 0 { vectors * 4 } else { 0 };
                node.parameters[0] = u64::from(totals.exceptions);
                node.buffers = vec![
                    part(packed),
                    part(ffor::vectors_len(value, vectors) + locators),
                    part(totals.exceptions_end as usize * value),
                ];
            }
            Encoding::AlpRd => {
                if let Some(reals) = &self.reals {
                    reals.fill(chunk, &mut node, part);
                }
            }
            _ => node.buffers = vec![part(rows * value)],
        }
        node
    }

    /// Starts writing nodes of one encoding, at most `vectors` vectors each.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        targets: &[abi::Target],
    ) -> Result<()> {
        let longest = targets.iter().map(|target| target.rows as usize).max().unwrap_or(0);
        let address = launcher.upload(targets)?;
        let each = |kernel: Kernel, len: usize| len.div_ceil(kernel.block);
        match encoding {
            Encoding::Ffor => {
                let kernel = self.by_width(kernels::PACK);
                let blocks = each(kernel, longest.div_ceil(VECTOR));
                let arguments = abi::PackArguments {
                    source: self.source,
                    targets: address,
                    lows: self.address(self.at.lows),
                    highs: self.address(self.at.highs),
                    places: self.address(self.at.places),
                    blocks_per_target: blocks as u32,
                    zero: 0,
                };
                launcher.launch(kernel, targets.len() * blocks, &arguments)
            }
            Encoding::Alp => {
                let kernel = kernels::ALP_PACK[usize::from(self.value() == 8)];
                let blocks = each(kernel, longest.div_ceil(VECTOR));
                let arguments = self.alp_arguments(address, blocks);
                launcher.launch(kernel, targets.len() * blocks, &arguments)
            }
            Encoding::AlpRd => match &self.reals {
                Some(reals) => reals.write(launcher, address, targets.len(), longest),
                None => Ok(()),
            },
            _ => {
                let kernel = self.by_width(kernels::COPY);
                let blocks = each(kernel, longest * self.value());
                let arguments = abi::CopyArguments {
                    source: self.source,
                    targets: address,
                    blocks_per_target: blocks as u32,
                    row_words: 1,
                };
                launcher.launch(kernel, targets.len() * blocks, &arguments)
            }
        }
    }

    fn alp_arguments(&self, targets: u64, blocks_per_target: usize) -> abi::AlpArguments {
        abi::AlpArguments {
            source: self.source,
            candidates: self.address(self.at.candidates),
            choices: self.address(self.at.choices),
            lows: self.address(self.at.lows),
            highs: self.address(self.at.highs),
            places: self.address(self.at.places),
            locators: self.address(self.at.locators),
            totals: self.address(self.at.totals),
            targets,
            blocks_per_target: blocks_per_target as u32,
            zero: 0,
        }
    }
}
