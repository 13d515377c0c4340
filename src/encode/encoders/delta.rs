//! Delta: differences of neighbours, which are measured beside the words, in registers, and packed
//! as they are made again (`kernels/encode_deltas.cu`).

use super::Measurement;
use crate::chunk::EncodedNode;
use crate::encode::launch::Launcher;
use crate::encode::words::{Words, packed_node};
use crate::encode::write::{Origin, Part, copy_spans};
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

    /// Gives a chunk's node its buffer and child; whether the deltas shrink.
    pub(in crate::encode) fn fill_delta(
        &self,
        chunk: usize,
        plan: &Plan,
        options: &Options,
        number: usize,
        node: &mut EncodedNode<Part>,
    ) -> Result<bool> {
        let Some(child) = self.delta_node(chunk, plan, options, number)? else { return Ok(false) };
        let (len, vector) = (self.vectors(chunk) * self.value(), self.first_vector(chunk));
        node.buffers = vec![Part { len, origin: Origin::Words(number), vector }];
        node.children = vec![child];
        Ok(true)
    }

    /// The node of a chunk's deltas, none where they do not shrink.
    fn delta_node(
        &self,
        chunk: usize,
        plan: &Plan,
        options: &Options,
        number: usize,
    ) -> Result<Option<EncodedNode<Part>>> {
        let (Some(totals), Some(physical), [planned]) =
            (self.deltas(chunk), self.physical().signed(), plan.children.as_slice())
        else {
            return Ok(None);
        };
        let rows = self.rows(chunk).next_multiple_of(VECTOR);
        let vector = self.first_vector(chunk);
        let part = |len: usize| Part { len, origin: Origin::Transformed(number), vector };
        if totals.low == totals.high && options.allows(Encoding::Constant) {
            let mut node = EncodedNode::new(Encoding::Constant, physical, rows);
            node.parameters[0] = self.unordered(totals.low, abi::SIGNED);
            return Ok(Some(node));
        }
        let node = |plan: &Plan| {
            let node = EncodedNode::new(plan.encoding, physical, rows);
            Ok(packed_node(node, self.value(), totals, part))
        };
        let node = plan::first_kept(planned, node, |part: &Part| part.len)?;
        Ok(node.filter(|node| node.encoding != Encoding::Plain))
    }

    /// Starts copying where the vectors of nodes start.
    pub(in crate::encode) fn write_starts(
        &self,
        launcher: &mut Launcher<'_>,
        targets: &[abi::Target],
    ) -> Result<()> {
        let value = self.value();
        let span = |target: &abi::Target| ByteSpan {
            from: self.delta_measures().starts.add(target.vector as usize * value),
            to: target.buffer[0],
            bytes: u64::from(target.rows).div_ceil(VECTOR as u64) * value as u64,
        };
        copy_spans(launcher, &targets.iter().map(span).collect::<Vec<_>>())
    }

    /// Starts writing nodes of one encoding that hold deltas.
    pub(in crate::encode) fn write_transformed(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        targets: &[abi::Target],
    ) -> Result<()> {
        let longest = targets.iter().map(|target| target.rows as usize).max().unwrap_or(0);
        let kernel = self.by_width(PACK_DELTAS);
        let blocks = longest.div_ceil(VECTOR).div_ceil(kernel.block);
        let uploaded = launcher.upload(targets)?;
        let arguments = self.pack_arguments(self.delta_measures(), uploaded, blocks, encoding);
        launcher.launch(kernel, targets.len() * blocks, &arguments)
    }
}
