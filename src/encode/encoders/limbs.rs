//! Limbs: wide values, decimals of 128 and 256 bits, whose limbs of 64 bits are each a column of
//! words in place.
//!
//! How many limbs a chunk needs decides which of them is its last, and so signed:
//! limbs that are last in some chunks only are measured in both orders.

use std::collections::BTreeMap;

use crate::chunk::EncodedNode;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::measurements::Measurements;
use crate::encode::missing::Requests;
use crate::encode::source::Column;
use crate::encode::tree::{Tree, WordsPart};
use crate::encode::words::Words;
use crate::encode::write::{Origin, PendingBuffer};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{Answer, Child, Statistics};
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi;
use crate::gpu::kernels::{self, Kernel, measure};
use crate::lanes::VECTOR;

/// Blocks count vectors.
const WIDE_BOUNDS: [Kernel<abi::WideBoundsArguments>; 2] =
    [measure("wide_bounds_128"), measure("wide_bounds_256")];

/// A column of wide values that has been read once.
pub(in crate::encode) struct Wide {
    physical: Physical,
    source: abi::Source,
    pending: Pending<abi::WideBounds>,
    /// For each chunk.
    chunks: Vec<Chunk>,
    /// Of each limb, unsigned or signed, the number of its words.
    limbs: BTreeMap<(usize, bool), usize>,
}

/// Statistics of a chunk of wide values.
struct ChunkLimbs<'t> {
    wide: &'t Wide,
    chunk: usize,
    tree: &'t Tree,
    requests: &'t Requests<(usize, WordsPart)>,
}

impl Statistics for ChunkLimbs<'_> {
    fn physical(&self) -> Physical {
        self.wide.physical
    }

    fn rows(&self) -> usize {
        self.wide.chunks[self.chunk].rows
    }

    /// The limbs.
    fn children(&self, _: Encoding) -> Answer<Vec<Child<'_>>> {
        let limb = |number: usize| -> Child<'_> {
            Box::new(self.tree.chunk(number, self.chunk, self.requests))
        };
        Ok(self.wide.numbers(self.chunk).map(limb).collect())
    }
}

struct Chunk {
    rows: usize,
    limbs: usize,
    /// Least and greatest valid value; the sign of the top limb flipped.
    bounds: Option<[[u64; 4]; 2]>,
}

impl Wide {
    /// Bytes of scratch that measuring so many values needs, but for their limbs.
    pub fn scratch_bytes(rows: usize) -> usize {
        rows.div_ceil(VECTOR) * size_of::<abi::WideBounds>()
    }

    /// Starts measuring: 72 bytes of scratch a vector.
    pub fn measure(
        launcher: &mut Launcher<'_>,
        column: &Column,
        chunk_rows: usize,
    ) -> Result<Self> {
        let physical = column.physical();
        let limbs = physical.bits().unwrap_or(0) / 64;
        let source = abi::Source { stride: limbs as u32, ..column.source(chunk_rows) };
        let vectors = column.rows.div_ceil(VECTOR);
        let scratch = launcher.allocate(vectors * size_of::<abi::WideBounds>())?;
        let kernel = WIDE_BOUNDS[usize::from(limbs == 4)];
        let arguments = abi::WideBoundsArguments { source, bounds: scratch.pointer() };
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        let pending = launcher.result(&scratch, 0, vectors)?;
        Ok(Self { physical, source, pending, chunks: Vec::new(), limbs: BTreeMap::new() })
    }

    /// Waits for the bounds, and measures limbs, which become words of `tree`; `column` has the
    /// values.
    pub fn read(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &Column,
        tree: &mut Tree,
        context: &Context<'_>,
    ) -> Result<()> {
        let below = context.below();
        let chunk_vectors = self.source.chunk_vectors as usize;
        let bounds = launcher.read(&self.pending)?;
        let chunk = |(index, vectors): (usize, &[abi::WideBounds])| {
            let rows = column.rows_of(index, chunk_vectors * VECTOR);
            let vectors = &vectors[..rows.div_ceil(VECTOR)];
            let valid = vectors.iter().filter(|bounds| bounds.valid > 0);
            // Limbs from the top one down compare as the values do.
            let order = |limbs: &[u64; 4]| [limbs[3], limbs[2], limbs[1], limbs[0]];
            let low = valid.clone().map(|bounds| bounds.low).min_by_key(order);
            let high = valid.clone().map(|bounds| bounds.high).max_by_key(order);
            Chunk {
                rows,
                limbs: valid.map(|bounds| bounds.words as usize).max().unwrap_or(1),
                bounds: low.zip(high).map(|(low, high)| [low, high]),
            }
        };
        self.chunks = bounds.chunks(chunk_vectors).enumerate().map(chunk).collect();
        for chunk in &self.chunks {
            for limb in 0..chunk.limbs {
                let is_last = limb + 1 == chunk.limbs;
                if self.limbs.contains_key(&(limb, is_last)) {
                    continue;
                }
                let physical = if is_last { Physical::I64 } else { Physical::U64 };
                let source = abi::Source {
                    values: self.source.values.add(limb * 8),
                    order: abi::order_of(physical),
                    ..self.source
                };
                let asked = Measurements::by(&below, physical);
                let words = Words::of_column(launcher, column, physical, source, asked)?;
                self.limbs.insert((limb, is_last), tree.add(words, &below));
            }
        }
        self.limbs.values().try_for_each(|number| tree.words_mut(*number).read(launcher))
    }

    /// Least and greatest valid value of a chunk, as limbs.
    pub fn bounds(&self, chunk: usize) -> Option<[[u64; 4]; 2]> {
        let top = self.source.stride as usize - 1;
        self.chunks[chunk].bounds.map(|bounds| {
            bounds.map(|mut limbs| {
                limbs[top] ^= 1 << 63;
                limbs
            })
        })
    }

    /// The numbers of the words that are the limbs of a chunk.
    fn numbers(&self, chunk: usize) -> impl Iterator<Item = usize> {
        let limbs = self.chunks[chunk].limbs;
        (0..limbs).map(move |limb| self.limbs[&(limb, limb + 1 == limbs)])
    }

    /// A chunk's node, and the bytes that its plan has promised; none where something is missing.
    pub fn node(
        &self,
        chunk: usize,
        tree: &Tree,
        context: &Context<'_>,
        requests: &Requests<(usize, WordsPart)>,
    ) -> Result<Option<(usize, EncodedNode<PendingBuffer>)>> {
        let statistics = ChunkLimbs { wide: self, chunk, tree, requests };
        let Ok(plan) = plan::plan_root(&statistics, context) else { return Ok(None) };
        let rows = self.chunks[chunk].rows;
        let bytes = rows * self.source.stride as usize * 8;
        let vector = u64::from(self.source.chunk_vectors) * chunk as u64;
        let node = |plan: &Plan| {
            let mut node = EncodedNode::new(plan.encoding, self.physical, rows);
            if plan.encoding == Encoding::Limbs {
                for (number, plan) in self.numbers(chunk).zip(&plan.children) {
                    node.children.extend(tree.encode(number, chunk, plan, requests)?);
                }
                if !requests.is_empty() {
                    return Ok(None);
                }
            } else {
                node.buffers.push(PendingBuffer { len: bytes, origin: Origin::Wide, vector });
            }
            Ok(Some(node))
        };
        let node = plan::first_kept(&plan, node, |part: &PendingBuffer| part.len)?;
        Ok(node.filter(|_| requests.is_empty()).map(|node| (plan.bytes, node)))
    }

    /// Starts copying chunks as they are.
    pub fn write(&self, launcher: &mut Launcher<'_>, targets: &[abi::Target]) -> Result<()> {
        let kernel = kernels::COPY[3];
        let longest = targets.iter().map(|target| target.rows as usize).max().unwrap_or(0);
        let row_words = self.source.stride;
        let blocks = (longest * row_words as usize * 8).div_ceil(kernel.block);
        let arguments = abi::CopyArguments {
            source: self.source,
            targets: launcher.upload(targets)?,
            blocks_per_target: blocks as u32,
            row_words,
        };
        launcher.launch(kernel, targets.len() * blocks, &arguments)
    }
}
