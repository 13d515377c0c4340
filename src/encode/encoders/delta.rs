//! Delta: differences of neighbours, which are measured beside the words, in registers, and packed
//! as they are made again (`kernels/encode_deltas.cu`).

use super::packed::Packed;
use super::{Measurement, WordChunk, WordEncoder};
use crate::chunk::EncodedNode;
use crate::encode::launch::Launcher;
use crate::encode::words::{Words, longest};
use crate::encode::write::{Origin, PendingBuffer, copy_spans};
use crate::encoding::plan::{self, Plan};
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi::{self, Arguments, ByteSpan, Header, constant as constant_of};
use crate::gpu::kernels::{ByWidth, Kernel, measure, vectors};
use crate::lanes::VECTOR;
use crate::options::Options;

const SOURCE: &Header = &Header::read(include_str!("../../../kernels/encode_deltas.cu"));

/// Blocks count vectors of a chunk.
pub(in crate::encode) const DELTAS: ByWidth<abi::MeasureArguments> =
    [measure("deltas_8"), measure("deltas_16"), measure("deltas_32"), measure("deltas_64")];
/// Blocks count vectors.
const fn pack_deltas<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, constant_of(SOURCE, "DELTA_PACK_THREADS") as u32, 32)
}
const PACK_DELTAS: ByWidth<abi::PackArguments> = [
    pack_deltas("pack_deltas_8"),
    pack_deltas("pack_deltas_16"),
    pack_deltas("pack_deltas_32"),
    pack_deltas("pack_deltas_64"),
];

pub(super) const MEASUREMENT: Measurement = Measurement {
    encoding: Encoding::Delta,
    suits: |physical| physical.signed().is_some(),
    has_children: true,
    suits_codes: true,
};

pub(super) struct Delta;

impl WordEncoder for Delta {
    fn encoding(&self) -> Encoding {
        Encoding::Delta
    }

    fn needs_all_vectors(&self) -> bool {
        true
    }

    /// None where the deltas do not shrink.
    fn node(&self, of: &WordChunk<'_>, plan: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let (words, chunk) = (of.words, of.chunk);
        let Some(child) = words.delta_node(chunk, plan, of.options, of.number)? else {
            return Ok(None);
        };
        let mut node = words.empty_node(chunk, Encoding::Delta);
        node.buffers = vec![of.part(words.vectors(chunk) * words.value())];
        node.children = vec![child];
        Ok(Some(node))
    }

    /// Where the vectors start.
    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        targets: &[abi::Target],
    ) -> Result<()> {
        let value = words.value();
        let span = |target: &abi::Target| ByteSpan {
            from: words.delta_measures().starts.add(target.vector as usize * value),
            to: target.buffer[0],
            bytes: u64::from(target.rows).div_ceil(VECTOR as u64) * value as u64,
        };
        copy_spans(launcher, &targets.iter().map(span).collect::<Vec<_>>())
    }
}

impl Words {
    /// What is known of the deltas of vectors.
    pub(in crate::encode) fn delta_measures(&self) -> abi::VectorMeasures {
        let totals = self.at.totals + self.chunks() * size_of::<abi::ChunkTotals>();
        let starts = self.pointer(self.at.deltas.starts);
        abi::VectorMeasures { starts, ..self.pointers(&self.at.deltas, totals) }
    }

    /// What a chunk's words come to as those of an encoding that are measured beside them, and
    /// their type.
    pub(in crate::encode) fn transformed(
        &self,
        chunk: usize,
        encoding: Encoding,
    ) -> Option<(&abi::ChunkTotals, Physical)> {
        let totals = if encoding == Encoding::Delta { self.deltas(chunk) } else { None };
        totals.zip(self.physical().signed())
    }

    /// What a chunk's deltas come to.
    fn deltas(&self, chunk: usize) -> Option<&abi::ChunkTotals> {
        self.totals.get(self.chunks() + chunk).filter(|_| self.asked.has(Encoding::Delta))
    }

    /// The node of a chunk's deltas, none where they do not shrink.
    fn delta_node(
        &self,
        chunk: usize,
        plan: &Plan,
        options: &Options,
        number: usize,
    ) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let (Some(totals), Some(physical), [planned]) =
            (self.deltas(chunk), self.physical().signed(), plan.children.as_slice())
        else {
            return Ok(None);
        };
        let rows = self.rows(chunk).next_multiple_of(VECTOR);
        let vector = self.first_vector(chunk);
        let part = |len: usize| PendingBuffer { len, origin: Origin::Transformed(number), vector };
        if totals.low == totals.high && options.allows(Encoding::Constant) {
            let mut node = EncodedNode::new(Encoding::Constant, physical, rows);
            node.parameters[0] = self.unordered(totals.low, abi::SIGNED);
            return Ok(Some(node));
        }
        let node = |plan: &Plan| {
            let mut node = EncodedNode::new(plan.encoding, physical, rows);
            let Some(packed) = Packed::of(plan.encoding) else {
                node.buffers = vec![part(rows * self.value())];
                return Ok(Some(node));
            };
            Ok(packed.fill(node, self.value(), totals, part))
        };
        let node = plan::first_kept(planned, node, |part: &PendingBuffer| part.len)?;
        Ok(node.filter(|node| node.encoding != Encoding::Plain))
    }

    /// Starts writing nodes of one encoding that hold deltas.
    pub(in crate::encode) fn write_transformed(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        targets: &[abi::Target],
    ) -> Result<()> {
        let kernel = self.by_width(PACK_DELTAS);
        let blocks = longest(targets).div_ceil(VECTOR).div_ceil(kernel.block);
        let uploaded = launcher.upload(targets)?;
        let arguments = self.pack_arguments(self.delta_measures(), uploaded, blocks, encoding);
        launcher.launch(kernel, targets.len() * blocks, &arguments)
    }
}
