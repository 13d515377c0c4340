//! Nulls and booleans as bytes, which are words as others: src/encoding/bits.rs.
//!
//! The bits of chunks that are not all alike are copied to scratch, 1/8 of a byte a row, where
//! each chunk has whole vectors of bytes, 16 at most: all is known of them at first.

use super::launch::Launcher;
use super::measurements::Measurements;
use super::missing::{self, Requests};
use super::source::Column;
use super::tree::{Tree, WordsPart};
use super::words::Words;
use super::write::{self, Job, Origin, PendingBuffer};
use crate::chunk::EncodedNode;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{Answer, Child, Missing, Statistics};
use crate::encoding::{Encoding, Physical, bits};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::lanes::VECTOR;
use crate::options::Options;

/// A bitmap of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bitmap {
    Values,
    Validity,
}

impl Bitmap {
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
            Origin::Words(number) | Origin::Transformed(number) => Self::of_words(number),
            Origin::Wide | Origin::Strings(_) => None,
        }
    }

    /// Whose bytes of bits, or what is derived from these, the words of a number are.
    pub fn of_words(number: usize) -> Option<Self> {
        [Self::Validity, Self::Values].into_iter().find(|which| number >= which.first())
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
    of: &'t Bitmaps,
    chunk: usize,
    counted: BitCounts,
    requests: &'t Requests<(usize, WordsPart)>,
}

impl Statistics for ChunkBits<'_> {
    fn physical(&self) -> Physical {
        Physical::Bool
    }

    fn rows(&self) -> usize {
        self.of.rows(self.chunk)
    }

    fn single(&self) -> Answer<Option<usize>> {
        let BitCounts { valid, set } = self.counted;
        Ok((set == 0 || set == valid).then_some(0))
    }

    /// The bits as bytes.
    fn children(&self, _: Encoding) -> Answer<Vec<Child<'_>>> {
        let Self { of, chunk, requests, .. } = *self;
        let bytes = || of.tree.chunk(of.which.first(), chunk, requests);
        Ok(vec![Box::new(of.is_asked[chunk].then(bytes).ok_or(Missing)?)])
    }
}

impl ChunkBits<'_> {
    /// The node of a plan; none where something is missing.
    fn node(&self, plan: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let (of, rows, before) = (self.of, self.rows(), self.requests.len());
        let mut node = EncodedNode::new(plan.encoding, Physical::Bool, rows);
        match plan.encoding {
            Encoding::Constant => node.parameters[0] = u64::from(self.counted.set > 0),
            Encoding::Bits => {
                for plan in &plan.children {
                    let (number, chunk) = (of.which.first(), self.chunk);
                    node.children.extend(of.tree.encode(number, chunk, plan, self.requests)?);
                }
            }
            Encoding::Plain => {
                let vector = (self.chunk * of.options.chunk_rows / VECTOR) as u64;
                let (len, origin) = (rows.div_ceil(8), of.which.origin());
                node.buffers.push(PendingBuffer { len, origin, vector });
            }
            encoding => {
                return Err(Error::device(format!("bits are to be encoded as {encoding}")));
            }
        }
        Ok(Some(node).filter(|_| self.requests.len() == before))
    }
}

/// Bits of chunks.
pub(super) struct Bitmaps {
    which: Bitmap,
    /// The bytes first, if some are asked for.
    tree: Tree,
    is_asked: Vec<bool>,
    /// Rows of each chunk.
    rows: Vec<u32>,
    options: Options,
}

impl Bitmaps {
    /// Measures the bits of chunks, given their counts, which chunks without bits lack; waits.
    pub fn measure(
        launcher: &mut Launcher<'_>,
        column: &Column,
        which: Bitmap,
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
            rows: (0..counted.len())
                .map(|chunk| column.rows_of(chunk, options.chunk_rows) as u32)
                .collect(),
            options: options.clone(),
        };
        if this.is_asked.contains(&true) {
            this.measure_bytes(launcher, column, &bits::below(&Context::new(options, None)))?;
        }
        Ok(this)
    }

    /// Rows of a chunk.
    fn rows(&self, chunk: usize) -> usize {
        self.rows[chunk] as usize
    }

    /// A chunk's node, and the bytes that its plan has promised; none where something is missing.
    pub fn node(
        &self,
        chunk: usize,
        counted: BitCounts,
        requests: &Requests<(usize, WordsPart)>,
    ) -> Result<Option<(usize, EncodedNode<PendingBuffer>)>> {
        let before = requests.len();
        let statistics = ChunkBits { of: self, chunk, counted, requests };
        let context = Context::new(&self.options, None);
        let Ok(plan) = plan::plan_root(&statistics, &context) else { return Ok(None) };
        let node =
            plan::first_kept(&plan, |plan| statistics.node(plan), |part: &PendingBuffer| part.len)?;
        let node = node.filter(|_| requests.len() == before);
        Ok(node.map(|node| (plan.bytes, node)))
    }

    /// Computes what chunks miss of their bytes; waits.
    pub fn compute(
        &mut self,
        launcher: &mut Launcher<'_>,
        missing: Vec<(usize, (usize, WordsPart))>,
    ) -> Result<()> {
        self.tree.compute(launcher, missing)
    }

    /// The nodes of all chunks that have bits; waits for what they need.
    pub fn nodes(
        &mut self,
        launcher: &mut Launcher<'_>,
        counted: &[Option<BitCounts>],
    ) -> Result<Vec<Option<EncodedNode<PendingBuffer>>>> {
        let make = |this: &Self, chunk: usize, requests: &_| {
            let Some(counted) = counted[chunk] else { return Ok(Some(None)) };
            let node = this.node(chunk, counted, requests)?;
            Ok(node.map(|(_, node)| Some(node)))
        };
        missing::complete(launcher, self, counted.len(), make, Self::compute)
    }

    /// Copies the bits of chunks that are asked for to scratch, and measures them as bytes;
    /// waits.
    fn measure_bytes(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &Column,
        below: &Context<'_>,
    ) -> Result<()> {
        let chunk_rows = self.options.chunk_rows;
        let byte_vectors = (chunk_rows / 8).div_ceil(VECTOR);
        let chunk_bytes = byte_vectors * VECTOR;
        let bytes = self.is_asked.len() * chunk_bytes;
        let scratch = launcher.allocate(bytes)?.pointer::<u8>();
        let chunks = (0..self.is_asked.len()).filter(|chunk| self.is_asked[*chunk]);
        let targets: Vec<abi::Target> = chunks
            .map(|chunk| abi::Target {
                buffer: abi::Target::only(scratch.add(chunk * chunk_bytes)),
                vector: (chunk * chunk_rows / VECTOR) as u64,
                rows: self.rows(chunk) as u32,
                zero: 0,
            })
            .collect();
        write::copy_bits(launcher, column, chunk_rows, &targets, self.which == Bitmap::Values)?;
        let source = abi::Source {
            values: scratch,
            rows: bytes as u64,
            stride: 1,
            chunk_vectors: byte_vectors as u32,
            order: abi::UNSIGNED,
            ..Default::default()
        };
        let bytes_of = |(chunk, is_asked): (usize, &bool)| match is_asked {
            true => self.rows(chunk).div_ceil(8) as u32,
            false => 0,
        };
        let bytes = self.is_asked.iter().enumerate().map(bytes_of).collect();
        let asked = Measurements::of_bits(below);
        let words = Words::derived(launcher, Physical::U8, source, bytes, asked)?;
        let number = self.tree.add(words, below);
        self.tree.words_mut(number).read(launcher)
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
        let is_values = self.which == Bitmap::Values;
        let chunk_rows = self.options.chunk_rows;
        write::copy_bits(launcher, column, chunk_rows, &write::targets(jobs), is_values)
    }
}
