//! Floats as alp_rd: cut and measured on the device beside what is measured of all words.
//!
//! ```text
//! totals of alp --rd_cut--> a cut for each chunk --rd_measure, rd_layout--> exceptions
//!                              |  32 bytes each                               |
//!                              v                                              v
//!                   host: estimate, as the CPU's of the same sample;  the exact size
//! ```
//!
//! Cuts that promise more than alp or plain values are no plan, and kernels give them up as
//! soon as they know. Where plain values turn out to be smaller, the host takes the next best plan before
//! anything is written.

use std::sync::Arc;

use super::{WordChunk, WordEncoder};
use crate::chunk::EncodedNode;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::words::{Words, longest};
use crate::encode::write::PendingBuffer;
use crate::encoding::alp_rd::{self, Cut};
use crate::encoding::plan::Plan;
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi;
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

/// The floats of a column, measured.
pub(in crate::encode) struct AlpRdWords {
    source: abi::Source,
    /// Bytes of a value.
    value: usize,
    /// The totals of alp, or null.
    alp: DevicePtr<abi::ChunkTotals>,
    /// Totals of the chunks, then locators of the vectors.
    scratch: Arc<DeviceBuffer>,
    pending: Option<Pending<abi::RdTotals>>,
    /// For each chunk.
    totals: Vec<abi::RdTotals>,
}

/// Where locators begin in the scratch.
fn locators_at(chunks: usize) -> usize {
    chunks * size_of::<abi::RdTotals>()
}

impl AlpRdWords {
    /// Bytes of scratch that measuring needs.
    pub fn scratch_bytes(rows: usize, chunk_rows: usize) -> usize {
        locators_at(rows.div_ceil(chunk_rows)) + rows.div_ceil(VECTOR) * 4
    }

    /// Starts measuring; `alp` are the chunks' totals of alp, or null.
    pub fn measure(
        launcher: &mut Launcher<'_>,
        physical: Physical,
        source: abi::Source,
        alp: DevicePtr<abi::ChunkTotals>,
    ) -> Result<Self> {
        let rows = source.rows as usize;
        let chunk_rows = source.chunk_vectors as usize * VECTOR;
        let (vectors, chunks) = (rows.div_ceil(VECTOR), rows.div_ceil(chunk_rows));
        let value = physical.bits().unwrap_or(0) / 8;
        let scratch = launcher.allocate(Self::scratch_bytes(rows, chunk_rows))?;
        let (pending, totals) = (None, Vec::new());
        let mut reals = Self { source, value, alp, scratch, pending, totals };
        let arguments = reals.arguments(chunks, DevicePtr::NULL, 0);
        let is_wide = usize::from(value == 8);
        launcher.launch(kernels::RD_CUT[is_wide], chunks, &arguments)?;
        let measure = kernels::RD_MEASURE[is_wide];
        launcher.launch(measure, vectors.div_ceil(measure.block), &arguments)?;
        launcher.launch(kernels::RD_LAYOUT[is_wide], chunks, &arguments)?;
        reals.pending = Some(launcher.result(&reals.scratch, 0, chunks)?);
        Ok(reals)
    }

    /// Waits for the totals.
    pub fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        if let Some(pending) = self.pending.take() {
            self.totals = launcher.read(&pending)?;
        }
        Ok(())
    }

    /// The cut of a chunk and the bits that its sample takes with it, if there is one.
    pub fn sampled_cut(&self, chunk: usize) -> Option<(Cut, usize)> {
        Some((self.cut(chunk)?, self.totals[chunk].cost as usize))
    }

    /// The cut of a chunk, if there is one.
    fn cut(&self, chunk: usize) -> Option<Cut> {
        let totals = &self.totals[chunk];
        (totals.cut != 0).then(|| Cut::of_parameter(totals.cut.into(), totals.dictionary))
    }

    /// Bytes of the buffers of a chunk's node.
    fn buffers(&self, chunk: usize, rows: usize) -> Option<[usize; 3]> {
        let exceptions = self.totals[chunk].exceptions_end as usize * self.value;
        Some(alp_rd::buffers(&self.cut(chunk)?, rows.div_ceil(VECTOR), exceptions))
    }

    /// Whether a chunk's node is smaller than its values.
    fn fits(&self, chunk: usize, rows: usize) -> bool {
        let buffers = self.buffers(chunk, rows);
        buffers.is_some_and(|buffers| buffers.iter().sum::<usize>() < rows * self.value)
    }

    /// Gives a chunk's node its parameters and buffers.
    fn fill(
        &self,
        chunk: usize,
        node: &mut EncodedNode<PendingBuffer>,
        part: impl Fn(usize) -> PendingBuffer,
    ) {
        let totals = &self.totals[chunk];
        node.parameters = [totals.exceptions.into(), totals.cut.into()];
        node.buffers = self.buffers(chunk, node.len).into_iter().flatten().map(part).collect();
    }

    /// Starts writing nodes, the longest of which has `longest` rows.
    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        targets: DevicePtr<abi::Target>,
        count: usize,
        longest: usize,
    ) -> Result<()> {
        let kernel = kernels::RD_PACK[usize::from(self.value == 8)];
        let blocks = longest.div_ceil(VECTOR).div_ceil(kernel.block);
        let arguments = self.arguments(self.totals.len(), targets, blocks);
        launcher.launch(kernel, count * blocks, &arguments)
    }

    fn arguments(
        &self,
        chunks: usize,
        targets: DevicePtr<abi::Target>,
        blocks: usize,
    ) -> abi::AlpRdArguments {
        abi::AlpRdArguments {
            source: self.source,
            alp: self.alp,
            totals: self.scratch.pointer(),
            locators: self.scratch.pointer_at(locators_at(chunks)),
            targets,
            blocks_per_target: blocks as u32,
            zero: 0,
        }
    }
}

pub(super) struct AlpRd;

impl WordEncoder for AlpRd {
    fn encoding(&self) -> Encoding {
        Encoding::AlpRd
    }

    fn node(&self, of: &WordChunk<'_>, _: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let mut node = of.words.empty_node(of.chunk, Encoding::AlpRd);
        let Some(reals) = of.words.reals().filter(|reals| reals.fits(of.chunk, node.len)) else {
            return Ok(None);
        };
        reals.fill(of.chunk, &mut node, |len| of.part(len));
        Ok(Some(node))
    }

    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        targets: &[abi::Target],
    ) -> Result<()> {
        let Some(reals) = words.reals() else { return Ok(()) };
        let uploaded = launcher.upload(targets)?;
        reals.write(launcher, uploaded, targets.len(), longest(targets))
    }
}
