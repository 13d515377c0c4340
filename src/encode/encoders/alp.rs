//! ALP: floats as decimals, packed with exceptions (`kernels/encode_alp.cu`). What is measured of
//! their vectors takes the place of bounds (`words.rs`).

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

pub(super) struct Alp;

impl WordEncoder for Alp {
    fn encoding(&self) -> Encoding {
        Encoding::Alp
    }

    fn node(&self, of: &WordChunk<'_>, _: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let (totals, value) = (&of.words.totals[of.chunk], of.words.value());
        let vectors = of.words.vectors(of.chunk);
        let locators = if totals.exceptions > 0 { vectors * 4 } else { 0 };
        let mut node = of.words.empty_node(of.chunk, Encoding::Alp);
        node.parameters[0] = u64::from(totals.exceptions);
        node.buffers = vec![
            of.part(totals.patched_units as usize * ffor::PACKED_UNIT),
            of.part(ffor::vectors_len(value, vectors) + locators),
            of.part(totals.block_units as usize * value),
        ];
        Ok(Some(node))
    }

    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        targets: &[abi::Target],
    ) -> Result<()> {
        let kernel = kernels::ALP_PACK[usize::from(words.value() == 8)];
        let blocks = longest(targets).div_ceil(VECTOR).div_ceil(kernel.block);
        let uploaded = launcher.upload(targets)?;
        let arguments = words.alp_arguments(uploaded, blocks);
        launcher.launch(kernel, targets.len() * blocks, &arguments)
    }
}
