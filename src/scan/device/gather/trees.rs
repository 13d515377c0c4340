//! Kept values of columns whose trees no kernel is there for: a kernel for each list of trees,
//! made of `kernels/lanepack/gather.cuh`.

use super::{Job, WhichBits};
use crate::decode::nodes::{ColumnNodes, ReadBy};
use crate::decode::trees::TreeList;
use crate::error::Result;
use crate::gpu::abi::{self, GatherArguments};
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, Launch};
use crate::scan::device::staged::stages;

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
        let words = bits.div_ceil(64);
        self.in_stages(true, |job, nodes, first_chunk| {
            for word in 0..words {
                // Words that no chunk stores are the sign of the highest that one does.
                let sign = TreeList { start: nodes.rows, ..TreeList::sign() };
                let list = nodes.lists.get(word).unwrap_or(&sign);
                job.gather_list(nodes, first_chunk, list, (word, words), out)?;
            }
            Ok(())
        })
    }

    /// Bits to `out`, which begins as zeros.
    ///
    /// # Errors
    /// As [`Self::gather_trees`].
    pub(super) fn gather_bits(&mut self, which: WhichBits, out: &DeviceBuffer) -> Result<()> {
        self.in_stages(matches!(which, WhichBits::Values), |job, nodes, first_chunk| {
            let list = match which {
                WhichBits::Validity => nodes.validity.as_ref(),
                WhichBits::Values => nodes.lists.first(),
            };
            let list = list.expect("columns with rows have trees of their bits");
            job.gather_list(nodes, first_chunk, list, (0, 1), out)
        })
    }

    /// Gathers from all chunks, or from those of one stage after the other if some are decoded;
    /// stages without kept rows are passed over.
    fn in_stages(
        &mut self,
        has_values: bool,
        gather: impl Fn(&mut Self, &ColumnNodes, usize) -> Result<()>,
    ) -> Result<()> {
        let stages = match has_values {
            true => stages(self.column.context().device(), &[self.column]),
            false => None,
        };
        let read = if has_values { ReadBy::Vector } else { ReadBy::Validity };
        let Some(stages) = stages else {
            let nodes = self.column.scan_nodes(self.stream(), read)?;
            gather(self, &nodes, 0)?;
            return self.check();
        };
        for stage in stages {
            let first = stage.start;
            if self.kept.places[first] == self.kept.places[stage.end] {
                continue;
            }
            let nodes = ColumnNodes::new(self.stream(), self.column, stage, read)?;
            gather(self, &nodes, first)?;
            self.check().map_err(|error| error.after_chunks(first))?;
        }
        Ok(())
    }

    /// Word number `word` of `words` of each value, of chunks from `first_chunk` on.
    fn gather_list(
        &mut self,
        nodes: &ColumnNodes,
        first_chunk: usize,
        list: &TreeList,
        (word, words): (usize, usize),
        out: &DeviceBuffer,
    ) -> Result<()> {
        let (text, warps) = source(list);
        let module = self.column.context().device().compile(&text)?;
        let kernel: Kernel<GatherArguments> = kernels::of_warps("gather", warps, EACH);
        let keep = self.kept.arguments(self.column, kernel);
        let arguments = GatherArguments {
            nodes: list.start,
            bitmap: keep.bitmap,
            before: keep.before.add(first_chunk * keep.stride as usize),
            places: keep.places.add(first_chunk),
            out: out.pointer_at(8 * word),
            status: self.status.pointer(),
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
        let launch = Launch::new(kernel, nodes.chunks << keep.node_shift, &arguments, &buffers);
        self.stream().launch(&Launch { module: Some(module.as_ref()), ..launch })?;
        self.marks.mark(self.stream(), kernel.name)
    }
}

impl TreeList {
    /// A list of words that are the sign of the ones below, in all chunks.
    fn sign() -> Self {
        let reader = crate::decode::trees::Reader::words(64, abi::SIGN);
        Self { stride: 1, readers: vec![reader], ..Self::default() }
    }

    fn is_sign(&self) -> bool {
        self.leaves() == Self::sign().leaves()
    }
}
