//! Words of one value, as they are, and packed with exceptions or without (`kernels/encode_words.cu`,
//! `kernels/encode_patches.cu`): what is measured in the same pass as bounds says their sizes.

use super::{WordChunk, WordEncoder};
use crate::chunk::EncodedNode;
use crate::encode::launch::Launcher;
use crate::encode::words::{Words, longest};
use crate::encode::write::PendingBuffer;
use crate::encoding::plan::Plan;
use crate::encoding::{Encoding, ffor};
use crate::error::Result;
use crate::gpu::{abi, kernels};
use crate::lanes::VECTOR;

/// One value for all rows, which is a parameter.
pub(super) struct Constant;

impl WordEncoder for Constant {
    fn encoding(&self) -> Encoding {
        Encoding::Constant
    }

    fn node(&self, of: &WordChunk<'_>, _: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let mut node = of.words.empty_node(of.chunk, Encoding::Constant);
        node.parameters[0] = of.words.bounds(of.chunk).map_or(0, |[low, _]| low);
        Ok(Some(node))
    }

    fn write(&self, _: &mut Launcher<'_>, _: &Words, _: &[abi::Target]) -> Result<()> {
        Ok(())
    }
}

/// The values as they are.
pub(super) struct Plain;

impl WordEncoder for Plain {
    fn encoding(&self) -> Encoding {
        Encoding::Plain
    }

    fn node(&self, of: &WordChunk<'_>, _: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let mut node = of.words.empty_node(of.chunk, Encoding::Plain);
        node.buffers = vec![of.part(node.len * of.words.value())];
        Ok(Some(node))
    }

    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        targets: &[abi::Target],
    ) -> Result<()> {
        let kernel = words.by_width(kernels::COPY);
        let blocks = (longest(targets) * words.value()).div_ceil(kernel.block);
        let arguments = abi::CopyArguments {
            source: *words.source(),
            targets: launcher.upload(targets)?,
            blocks_per_target: blocks as u32,
            row_words: 1,
        };
        launcher.launch(kernel, targets.len() * blocks, &arguments)
    }
}

/// Packed words: FFOR, or PFOR with exceptions.
pub(super) struct Packed {
    is_patched: bool,
}

pub(super) const FFOR: Packed = Packed { is_patched: false };
pub(super) const PFOR: Packed = Packed { is_patched: true };

impl Packed {
    /// That of an encoding.
    pub(super) fn of(encoding: Encoding) -> Option<Self> {
        [FFOR, PFOR].into_iter().find(|packed| packed.encoding() == encoding)
    }

    /// Gives the node of words of `value` bytes its buffers; none if it has no exceptions, where
    /// there should be some.
    pub(super) fn fill(
        &self,
        mut node: EncodedNode<PendingBuffer>,
        value: usize,
        totals: &abi::ChunkTotals,
        part: impl Fn(usize) -> PendingBuffer,
    ) -> Option<EncodedNode<PendingBuffer>> {
        let vectors = node.len.div_ceil(VECTOR);
        let parameters = ffor::vectors_len(value, vectors);
        if !self.is_patched {
            let packed = totals.units as usize * ffor::PACKED_UNIT;
            node.buffers = vec![part(packed), part(parameters)];
            return Some(node);
        }
        if totals.exceptions == 0 {
            return None;
        }
        node.parameters[0] = u64::from(totals.exceptions);
        node.buffers = vec![
            part(totals.patched_units as usize * ffor::PACKED_UNIT),
            part(parameters + vectors * 4),
            part(totals.block_units as usize * value.max(2)),
        ];
        Some(node)
    }
}

impl WordEncoder for Packed {
    fn encoding(&self) -> Encoding {
        if self.is_patched { Encoding::Pfor } else { Encoding::Ffor }
    }

    fn needs_all_vectors(&self) -> bool {
        self.is_patched
    }

    fn node(&self, of: &WordChunk<'_>, _: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let node = of.words.empty_node(of.chunk, self.encoding());
        let totals = &of.words.totals[of.chunk];
        Ok(self.fill(node, of.words.value(), totals, |len| of.part(len)))
    }

    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        targets: &[abi::Target],
    ) -> Result<()> {
        let kernel =
            words.by_width(if self.is_patched { kernels::PACK_PATCHED } else { kernels::PACK });
        let blocks = longest(targets).div_ceil(VECTOR).div_ceil(kernel.block);
        let (of, uploaded) = (words.measures(), launcher.upload(targets)?);
        let arguments = words.pack_arguments(of, uploaded, blocks, self.encoding());
        launcher.launch(kernel, targets.len() * blocks, &arguments)
    }
}
