//! Kept values of columns whose trees no kernel is there for: a kernel for each list of trees,
//! made of `kernels/lanepack/gather.cuh`.

use std::sync::Arc;

use super::{Bits, Job};
use crate::engine::nodes::ColumnNodes;
use crate::engine::trees::TreeList;
use crate::error::Result;
use crate::gpu::abi::{self, GatherArguments};
use crate::gpu::{DeviceBuffer, Launch};

/// Shared memory of a block, and what of it a warp takes for patches.
const SHARED: usize = 48 << 10;
const PATCHES: usize = 256;

/// Vectors of a warp at most.
const EACH: usize = 4;

/// The source of a kernel that reads a list of trees, and warps of its blocks.
fn source(list: &TreeList) -> (String, usize) {
    let bytes = PATCHES + list.state_bytes().next_multiple_of(8);
    let warps = [8, 4, 2].into_iter().find(|warps| warps * bytes <= SHARED).unwrap_or(1);
    let function = if list.word_bits() == 1 { "gather_bits" } else { "gather_words" };
    let text = format!(
        "#include \"lanepack/gather.cuh\"\n\
         namespace lanepack {{\n\
         using Reader = {};\n\
         struct Scratch {{\n    Reader::State state;\n    Patches patches;\n}};\n\
         LANEPACK_KERNEL(gather, {}, 1, GatherArguments) {{\n\
         \x20   LANEPACK_SHARED(Scratch[{warps}], all);\n\
         \x20   Scratch& scratch = all[warp_in_block()];\n\
         \x20   {function}<Reader>(args, scratch.state, scratch.patches);\n}}\n}}\n",
        list.reader(),
        32 * warps
    );
    (text, warps)
}

impl Job<'_, '_> {
    /// Values of 8 to 256 bits to `out`.
    ///
    /// # Errors
    /// [`Error::NoDevice`](crate::Error::NoDevice) if there is nothing to compile kernels with.
    pub(super) fn gather_trees(&mut self, bits: usize, out: &DeviceBuffer) -> Result<()> {
        let nodes = self.column.scan_nodes(self.stream())?;
        let words = bits.div_ceil(64);
        for word in 0..words {
            // Words that no chunk stores are the sign of the highest that one does.
            let sign = TreeList { address: nodes.rows, ..TreeList::sign() };
            let list = nodes.lists.get(word).unwrap_or(&sign);
            self.gather_list(&nodes, list, word, words, out)?;
        }
        self.check()
    }

    /// Bits to `out`, which begins as zeros.
    ///
    /// # Errors
    /// As [`Self::gather_trees`].
    pub(super) fn gather_bits(&mut self, which: Bits, out: &DeviceBuffer) -> Result<()> {
        let nodes = self.column.scan_nodes(self.stream())?;
        let list = match which {
            Bits::Validity => nodes.validity.as_ref(),
            Bits::Values => nodes.lists.first(),
        };
        let list = list.expect("columns with rows have trees of their bits");
        self.gather_list(&nodes, list, 0, 1, out)?;
        self.check()
    }

    /// Word number `word` of `words` of each value.
    fn gather_list(
        &mut self,
        nodes: &Arc<ColumnNodes>,
        list: &TreeList,
        word: usize,
        words: usize,
        out: &DeviceBuffer,
    ) -> Result<()> {
        let (text, warps) = source(list);
        let module = self.column.context().device().compile(&text)?;
        let blocks = crate::gpu::kernels::Kernel {
            name: "gather",
            threads: 32 * warps as u32,
            block: warps * EACH,
            least: warps,
            value: 1,
            shared: 0,
            more: 0,
        };
        let keep = self.kept.arguments(self.column, blocks);
        let arguments = GatherArguments {
            nodes: list.address,
            bitmap: keep.bitmap,
            before: keep.before,
            places: keep.places,
            out: out.address() + 8 * word as u64,
            status: self.status.address(),
            rows: keep.rows,
            stride: keep.stride,
            nodes_each: list.stride as u32,
            node_shift: keep.node_shift,
            each: keep.each,
            each_word: words as u32,
            is_sign: u32::from(list.is_sign()),
        };
        let sums = &self.kept.sums;
        let mut buffers: Vec<&DeviceBuffer> =
            vec![self.kept.bitmap, &sums.before, &sums.places, &self.status, out];
        buffers.extend(nodes.buffers());
        buffers.extend(self.column.bodies().iter().map(AsRef::as_ref));
        self.stream().launch(&Launch {
            module: Some(module.as_ref()),
            kernel: blocks.name,
            blocks: nodes.chunks << keep.node_shift,
            threads: blocks.threads,
            shared: 0,
            arguments: bytemuck::bytes_of(&arguments),
            buffers: &buffers,
        })?;
        self.marks.mark(self.stream(), blocks.name)
    }
}

impl TreeList {
    /// A list of words that are the sign of the ones below, in all chunks.
    fn sign() -> Self {
        let reader = crate::engine::trees::Reader::words(64, abi::SIGN);
        Self { stride: 1, readers: vec![reader], ..Self::default() }
    }

    fn is_sign(&self) -> bool {
        self.leaves() == Self::sign().leaves()
    }
}
