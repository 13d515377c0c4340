//! Nulls and booleans as bytes, which are words as others: src/encoding/bits.rs.
//!
//! The bits of chunks that are not all alike are copied to scratch, 1/8 of a byte a row, where
//! each chunk has whole vectors of bytes, 16 at most: all is known of them at first.

use super::asked::Asked;
use super::launch::Launcher;
use super::source::Column;
use super::tree::{Plans, Tree};
use super::words::Words;
use super::write::{self, Job, Origin, Part};
use crate::chunk::EncodedNode;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{Encoding, Estimate, Physical, bits};
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
pub(super) struct Counted {
    /// Of a bitmap of nulls all rows.
    pub valid: usize,
    /// Among them.
    pub set: usize,
}

impl Counted {
    fn is_constant(self, options: &Options) -> bool {
        (self.set == 0 || self.set == self.valid) && options.allows(Encoding::Constant)
    }
}

/// Bits of chunks, planned.
pub(super) struct Bitmaps {
    which: Which,
    /// The bytes first, if some are asked for.
    tree: Tree,
    plans: Plans,
    is_asked: Vec<bool>,
    chunk_rows: usize,
}

impl Bitmaps {
    /// Plans those of chunks of which it is known what they have; none where a chunk has no
    /// bits. Waits.
    pub fn plan(
        launcher: &mut Launcher<'_>,
        column: &Column,
        which: Which,
        counted: &[Option<Counted>],
        options: &Options,
    ) -> Result<Self> {
        let context = Context::new(options, None);
        let asks = |counted: &Option<Counted>| {
            let is_one = counted.is_some_and(|counted| !counted.is_constant(options));
            is_one && options.allows(Encoding::Bits)
        };
        let chunk_rows = options.chunk_rows;
        let mut this = Self {
            which,
            tree: Tree::numbered_from(which.first()),
            plans: Plans::NONE,
            is_asked: counted.iter().map(asks).collect(),
            chunk_rows,
        };
        if !this.is_asked.contains(&true) {
            return Ok(this);
        }
        let byte_vectors = (chunk_rows / 8).div_ceil(VECTOR);
        let chunk_bytes = byte_vectors * VECTOR;
        let bytes = counted.len() * chunk_bytes;
        let scratch = launcher.allocate(bytes)?.pointer::<u8>();
        let rows = |chunk: usize| (column.rows - chunk * chunk_rows).min(chunk_rows);
        let chunks = (0..counted.len()).filter(|chunk| this.is_asked[*chunk]);
        let targets: Vec<abi::Target> = chunks
            .map(|chunk| abi::Target {
                buffer: abi::Target::only(scratch.add(chunk * chunk_bytes)),
                vector: (chunk * chunk_rows / VECTOR) as u64,
                rows: rows(chunk) as u32,
                zero: 0,
            })
            .collect();
        write::copy_bits(launcher, column, chunk_rows, &targets, which == Which::Values)?;
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
        let bytes = this.is_asked.iter().enumerate().map(bytes_of).collect();
        let below = bits::below(&context);
        let asked = Asked::of_bits(&below);
        let words = Words::derived(launcher, Physical::U8, source, bytes, asked)?;
        let number = this.tree.add(words);
        this.plans = this.tree.plan(launcher, number, &below)?;
        Ok(this)
    }

    /// A chunk's node.
    pub fn node(
        &self,
        chunk: usize,
        rows: usize,
        counted: Counted,
        options: &Options,
    ) -> Result<EncodedNode<Part>> {
        if counted.is_constant(options) {
            let mut node = EncodedNode::new(Encoding::Constant, Physical::Bool, rows);
            node.parameters[0] = u64::from(counted.set > 0);
            return Ok(node);
        }
        let (context, number) = (Context::new(options, None), self.which.first());
        let below = bits::below(&context);
        let plain = Estimate::of([rows.div_ceil(8)]);
        let limit = plain.stored_bytes();
        let as_bytes = || {
            let words = self.tree.words(number);
            let runs = words.sample(chunk)?.runs as usize;
            if !bits::may_pay(runs, words.rows(chunk)) {
                return None;
            }
            let plan = self.tree.plan_of(number, chunk, &self.plans, &below).into_owned();
            let estimate = Estimate { children: vec![plan], ..Estimate::of([]) };
            Some(estimate).filter(|estimate| bits::saves(estimate.stored_bytes(), limit))
        };
        let as_bytes = if self.is_asked[chunk] { as_bytes() } else { None };
        let estimates = [(Encoding::Plain, Some(plain)), (Encoding::Bits, as_bytes)];
        let made = |(encoding, estimate): (Encoding, Option<Estimate>)| Some((encoding, estimate?));
        let vector = (chunk * self.chunk_rows / VECTOR) as u64;
        let node = |plan: &Plan| {
            let mut node = EncodedNode::new(plan.encoding, Physical::Bool, rows);
            match plan.children.as_slice() {
                [planned] => {
                    let child = self.tree.encode_measured(number, chunk, planned, &below)?;
                    node.children.push(child);
                }
                _ => {
                    let (len, origin) = (rows.div_ceil(8), self.which.origin());
                    node.buffers.push(Part { len, origin, vector });
                }
            }
            Ok(Some(node))
        };
        let plan = plan::choose(estimates.into_iter().filter_map(made));
        let node = plan::first_kept(&plan, node, |part: &Part| part.len)?;
        node.ok_or_else(|| Error::device("bits without an encoding"))
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
