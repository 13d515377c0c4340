//! Nulls and booleans as bytes, which are words as others: src/encoding/bits.rs.
//!
//! The bits of chunks that are not all alike are copied to scratch, 1/8 of a byte a row, where
//! each chunk has whole vectors of bytes, 16 at most: all is known of them at first.

use super::launch::Launcher;
use super::measurements::Measurements;
use super::missing::Requests;
use super::source::Column;
use super::tree::{Part as MissingPart, Tree};
use super::words::Words;
use super::write::{self, Job, Origin, Part};
use crate::chunk::EncodedNode;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{Answer, Child, Missing, Statistics};
use crate::encoding::{Encoding, Physical, bits};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::lanes::VECTOR;
use crate::options::Options;

/// Which bits of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Values,
    Validity,
}

impl Which {
    /// The number of their first words, behind those of all else.
    fn first(self) -> usize {
        match self {
            Self::Values => 1 << 30,
            Self::Validity => 1 << 31,
        }
    }

    fn origin(self) -> Origin {
        match self {
            Self::Values => Origin::Bits,
            Self::Validity => Origin::Validity,
        }
    }

    /// Whose bits, or bytes of bits, or what is derived from these, are of an origin.
    pub fn of(origin: Origin) -> Option<Self> {
        match origin {
            Origin::Bits => Some(Self::Values),
            Origin::Validity => Some(Self::Validity),
            Origin::Words(number) | Origin::Transformed(number) => {
                [Self::Validity, Self::Values].into_iter().find(|which| number >= which.first())
            }
            _ => None,
        }
    }
}

/// What is known of the bits of chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitCounts {
    /// Of a bitmap of nulls all rows.
    pub valid: usize,
    /// Among them.
    pub set: usize,
}

impl BitCounts {
    fn is_constant(self, options: &Options) -> bool {
        (self.set == 0 || self.set == self.valid) && options.allows(Encoding::Constant)
    }
}

/// Statistics of a chunk of bits.
struct ChunkBits<'t> {
    tree: &'t Tree,
    which: Which,
    chunk: usize,
    rows: usize,
    counted: BitCounts,
    /// Whether the bytes have been measured.
    is_asked: bool,
    requests: &'t Requests<(usize, MissingPart)>,
}

impl Statistics for ChunkBits<'_> {
    fn physical(&self) -> Physical {
        Physical::Bool
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn single(&self) -> Answer<Option<usize>> {
        let BitCounts { valid, set } = self.counted;
        Ok((set == 0 || set == valid).then_some(0))
    }

    /// The bits as bytes.
    fn children(&self, _: Encoding) -> Answer<Vec<Child<'_>>> {
        let Self { tree, which, chunk, requests, .. } = *self;
        let bytes = || tree.chunk(which.first(), chunk, requests);
        Ok(vec![Box::new(self.is_asked.then(bytes).ok_or(Missing)?)])
    }
}

impl ChunkBits<'_> {
    /// The node of a plan; none where something is missing.
    fn node(&self, plan: &Plan, options: &Options) -> Result<Option<EncodedNode<Part>>> {
        let mut node = EncodedNode::new(plan.encoding, Physical::Bool, self.rows);
        match plan.encoding {
            Encoding::Constant => node.parameters[0] = u64::from(self.counted.set > 0),
            Encoding::Bits => {
                for plan in &plan.children {
                    let (number, chunk) = (self.which.first(), self.chunk);
                    node.children.extend(self.tree.encode(number, chunk, plan, self.requests)?);
                }
            }
            _ => {
                let vector = (self.chunk * options.chunk_rows / VECTOR) as u64;
                let (len, origin) = (self.rows.div_ceil(8), self.which.origin());
                node.buffers.push(Part { len, origin, vector });
            }
        }
        Ok(Some(node).filter(|_| self.requests.is_empty()))
    }
}

/// Bits of chunks, and their nodes.
pub(super) struct Bitmaps {
    which: Which,
    /// The bytes first, if some are asked for.
    tree: Tree,
    is_asked: Vec<bool>,
    chunk_rows: usize,
    /// For each chunk that has bits.
    nodes: Vec<Option<EncodedNode<Part>>>,
}

impl Bitmaps {
    /// Plans those of chunks of which it is known what they have; none where a chunk has no
    /// bits. Waits.
    pub fn plan(
        launcher: &mut Launcher<'_>,
        column: &Column,
        which: Which,
        counted: &[Option<BitCounts>],
        options: &Options,
    ) -> Result<Self> {
        let asks = |counted: &Option<BitCounts>| {
            let is_one = counted.is_some_and(|counted| !counted.is_constant(options));
            is_one && options.allows(Encoding::Bits)
        };
        let mut this = Self {
            which,
            tree: Tree::numbered_from(which.first(), options),
            is_asked: counted.iter().map(asks).collect(),
            chunk_rows: options.chunk_rows,
            nodes: Vec::new(),
        };
        let context = Context::new(options, None);
        let rows =
            |chunk: usize| (column.rows - chunk * options.chunk_rows).min(options.chunk_rows);
        if this.is_asked.contains(&true) {
            this.measure(launcher, column, rows, &bits::below(&context))?;
        }
        let Self { tree, is_asked, .. } = &mut this;
        let is_asked = &*is_asked;
        this.nodes = tree.make(launcher, counted.len(), |tree, chunk, planned, requests| {
            let Some(counted) = counted[chunk] else { return Ok(Some(None)) };
            let (rows, is_asked) = (rows(chunk), is_asked[chunk]);
            let statistics = ChunkBits { tree, which, chunk, rows, counted, is_asked, requests };
            let Some(plan) = plan::planned(planned, &statistics, &context) else {
                return Ok(None);
            };
            let node = |plan: &Plan| statistics.node(plan, options);
            let node = plan::first_kept(plan, node, |part: &Part| part.len)?;
            Ok(node.filter(|_| requests.is_empty()).map(Some))
        })?;
        Ok(this)
    }

    /// Copies the bits of chunks that are asked for to scratch, and measures them as bytes;
    /// waits.
    fn measure(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &Column,
        rows: impl Fn(usize) -> usize,
        below: &Context<'_>,
    ) -> Result<()> {
        let chunk_rows = self.chunk_rows;
        let byte_vectors = (chunk_rows / 8).div_ceil(VECTOR);
        let chunk_bytes = byte_vectors * VECTOR;
        let bytes = self.is_asked.len() * chunk_bytes;
        let scratch = launcher.allocate(bytes)?.pointer::<u8>();
        let chunks = (0..self.is_asked.len()).filter(|chunk| self.is_asked[*chunk]);
        let targets: Vec<abi::Target> = chunks
            .map(|chunk| abi::Target {
                buffer: abi::Target::only(scratch.add(chunk * chunk_bytes)),
                vector: (chunk * chunk_rows / VECTOR) as u64,
                rows: rows(chunk) as u32,
                zero: 0,
            })
            .collect();
        write::copy_bits(launcher, column, chunk_rows, &targets, self.which == Which::Values)?;
        let source = abi::Source {
            values: scratch,
            rows: bytes as u64,
            stride: 1,
            chunk_vectors: byte_vectors as u32,
            order: abi::UNSIGNED,
            ..Default::default()
        };
        let bytes_of = |(chunk, is_asked): (usize, &bool)| match is_asked {
            true => rows(chunk).div_ceil(8) as u32,
            false => 0,
        };
        let bytes = self.is_asked.iter().enumerate().map(bytes_of).collect();
        let asked = Measurements::of_bits(below);
        let words = Words::derived(launcher, Physical::U8, source, bytes, asked)?;
        let number = self.tree.add(words, below);
        self.tree.words_mut(number).read(launcher)
    }

    /// A chunk's node.
    pub fn node(&self, chunk: usize) -> Result<EncodedNode<Part>> {
        let node = self.nodes.get(chunk).cloned().flatten();
        node.ok_or_else(|| Error::device("bits that have not been counted"))
    }

    /// Starts writing nodes of bits, of bytes, and of what is derived from these.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        column: &Column,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        if origin != self.which.origin() {
            return self.tree.write(launcher, origin, encoding, jobs);
        }
        let is_values = self.which == Which::Values;
        write::copy_bits(launcher, column, self.chunk_rows, &write::targets(jobs), is_values)
    }
}
