//! What is made of words on a device for one encoding each: its kernels, what is measured and
//! derived for it, its nodes.
//!
//! An encoding whose nodes are written from the words themselves has a row of [`ENCODERS`]; if
//! something is measured for it beside bounds, a row of [`MEASUREMENTS`]; and if its children are
//! words derived from others, a row of [`DERIVERS`]. What is measured in
//! the same pass as the words themselves (pfor, delta, alp) `words.rs` starts.
//!
//! ```text
//! packed            one value, words as they are, FFOR, PFOR: bounds and windows say their sizes
//! alp               measured instead of bounds (words.rs)
//! delta, alp_rd     measured beside the words (words.rs), planned by what that says
//! gcd, dict, rle    promised by samples: derived words, which go the same way
//! lz                what all others leave
//! limbs             wide values: each word of them a column in place
//! ```

mod alp;
mod alp_rd;
mod delta;
mod dict;
mod gcd;
mod limbs;
mod lz;
mod packed;
mod rle;

pub(super) use alp_rd::AlpRdWords;
pub(super) use delta::DELTAS;
pub(super) use dict::{DistinctSearch, HashTables};
pub(super) use gcd::Divisors;
pub(super) use limbs::Wide;
pub(super) use lz::{Candidate, LzChunks, promises};

use super::launch::Launcher;
use super::words::Words;
use super::write::{Job, Origin, PendingBuffer};
use crate::chunk::EncodedNode;
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::options::Options;

/// An encoding that something is measured for beside bounds.
pub(super) struct Measurement {
    pub encoding: Encoding,
    /// Whether it may be that of words of a type.
    pub suits: fn(Physical) -> bool,
    /// Whether it has children, which are encoded in turn.
    pub has_children: bool,
    /// Whether it may be that of codes of dictionaries.
    pub suits_codes: bool,
}

impl Measurement {
    /// An encoding without children.
    const fn leaf(encoding: Encoding, suits: fn(Physical) -> bool) -> Self {
        Self { encoding, suits, has_children: false, suits_codes: true }
    }
}

fn is_float(physical: Physical) -> bool {
    matches!(physical, Physical::F32 | Physical::F64)
}

/// All of these.
pub(super) static MEASUREMENTS: [Measurement; 5] = [
    Measurement::leaf(Encoding::Alp, is_float),
    Measurement::leaf(Encoding::AlpRd, is_float),
    Measurement::leaf(Encoding::Pfor, Physical::is_integer),
    delta::MEASUREMENT,
    gcd::MEASUREMENT,
];

/// Whether a sample of rows is looked at, for dictionaries or runs.
pub(super) fn samples_rows(context: &Context<'_>) -> bool {
    dict::is_sought(context) || rle::is_sought(context)
}

/// A chunk of words that is encoded.
pub(super) struct WordChunk<'w> {
    pub words: &'w Words,
    pub chunk: usize,
    pub options: &'w Options,
    /// That of the words, by which nodes ask for them.
    pub number: usize,
}

impl WordChunk<'_> {
    /// A buffer that is made of the words.
    fn part(&self, len: usize) -> PendingBuffer {
        let vector = self.words.first_vector(self.chunk);
        PendingBuffer { len, origin: Origin::Words(self.number), vector }
    }
}

/// An encoding whose nodes are written from the words themselves.
pub(super) trait WordEncoder: Sync {
    fn encoding(&self) -> Encoding;

    /// Whether what is measured for it has to be known of all vectors, not of sampled ones only.
    fn needs_all_vectors(&self) -> bool {
        false
    }

    /// The node of a chunk; none where its words turn out not to fit the plan.
    fn node(&self, of: &WordChunk<'_>, plan: &Plan) -> Result<Option<EncodedNode<PendingBuffer>>>;

    /// Starts writing the buffers of nodes.
    fn write(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        targets: &[abi::Target],
    ) -> Result<()>;
}

/// All of these.
static ENCODERS: [&dyn WordEncoder; 7] = [
    &packed::Constant,
    &packed::Plain,
    &packed::FFOR,
    &packed::PFOR,
    &delta::Delta,
    &alp::Alp,
    &alp_rd::AlpRd,
];

/// That of an encoding, if it is one.
pub(super) fn word_encoder(encoding: Encoding) -> Option<&'static dyn WordEncoder> {
    ENCODERS.iter().find(|encoder| encoder.encoding() == encoding).copied()
}

/// An encoding whose children are words derived from others.
pub(super) trait Deriver: Sync {
    fn encoding(&self) -> Encoding;

    /// The context in which the children of words in a context are planned.
    fn below<'a>(&self, context: &Context<'a>) -> Context<'a>;

    /// Searches all rows of some chunks, each with an argument, for what it needs; waits.
    fn search(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        asked: &[(usize, u64)],
        below: &Context<'_>,
    ) -> Result<Box<dyn DerivedChunks>>;
}

/// All of these.
static DERIVERS: [&dyn Deriver; 3] = [&gcd::Gcd, &dict::Dict, &rle::Rle];

/// That of an encoding.
pub(super) fn deriver(encoding: Encoding) -> Result<&'static dyn Deriver> {
    let deriver = DERIVERS.iter().find(|deriver| deriver.encoding() == encoding).copied();
    deriver.ok_or_else(|| Error::device(format!("{encoding} is not derived from words")))
}

/// Chunks whose children are words that have been derived from others.
pub(super) trait DerivedChunks: Send + Sync {
    /// What the search has found in a chunk, if it has been searched: how many, or none where
    /// the encoding does not suit.
    fn found(&self, chunk: usize) -> Option<Option<usize>>;

    /// Starts making and measuring the children of some chunks, in the order of the format.
    fn children(
        &mut self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        chunks: &[usize],
        below: &Context<'_>,
    ) -> Result<Vec<Words>>;

    /// Gives a chunk's node its parameters and buffers; `part` makes a buffer of its length.
    fn fill(
        &self,
        words: &Words,
        chunk: usize,
        plan: &Plan,
        part: &dyn Fn(usize) -> PendingBuffer,
        node: &mut EncodedNode<PendingBuffer>,
    ) -> Result<()>;

    /// Starts writing the buffers of nodes.
    fn write(&self, launcher: &mut Launcher<'_>, words: &Words, jobs: &[Job]) -> Result<()>;
}
