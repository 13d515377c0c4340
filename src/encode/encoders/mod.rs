//! What is made of words on a device for one encoding each: its kernels, what is measured and
//! derived for it, its nodes.
//!
//! An encoding that has more to say than packing words has a file here; if something is measured
//! for it beside bounds, a row of [`MEASUREMENTS`], and if its children are words derived from
//! others, a [`Derived`] and a step of [`Tree::plan`](super::tree::Tree::plan). What is measured in
//! the same pass as the words themselves (pfor, delta, alp) `words.rs` starts.
//!
//! ```text
//! delta, alp_rd     measured beside the words (words.rs), planned by what that says
//! gcd, dict, rle    promised by samples: derived words, which go the same way
//! lz                what all others leave
//! limbs             wide values: each word of them a column in place
//! ```

mod alp_rd;
mod delta;
mod dict;
mod gcd;
mod limbs;
mod lz;
mod rle;

pub(super) use alp_rd::Reals;
pub(super) use delta::DELTAS;
pub(super) use dict::{DistinctSearch, HashTables};
pub(super) use gcd::Divisors;
pub(super) use limbs::Wide;
pub(super) use lz::{Candidate, Compressed, promises};

use super::launch::Launcher;
use super::words::Words;
use super::write::{Job, Part};
use crate::chunk::EncodedNode;
use crate::encoding::dict::Counted;
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Physical};
use crate::error::Result;

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

/// What a sample of a chunk's rows promises.
#[derive(Default)]
pub(super) struct Promises {
    /// What its values may have in common, if quotients may be the least.
    divisor: Option<u64>,
    /// What is known of distinct values, if a dictionary may be the least.
    repeated: Option<Counted>,
    /// Whether runs may be.
    has_runs: bool,
}

impl Promises {
    /// What words promise of which other encodings take `limit` bytes.
    pub fn of(words: &Words, chunk: usize, limit: usize, context: &Context<'_>) -> Self {
        Self {
            divisor: gcd::promised(words, chunk, limit),
            repeated: dict::promised(words, chunk, limit, context),
            has_runs: rle::is_promised(words, chunk, limit, context),
        }
    }

    /// Whether there are any.
    pub fn is_any(&self) -> bool {
        self.divisor.is_some() || self.repeated.is_some() || self.has_runs
    }
}

/// Nodes of chunks whose children are words that have been derived from others.
pub(super) trait Derived: Send + Sync {
    /// Gives a chunk's node its parameters and buffers; `part` makes a buffer of its length.
    fn fill(
        &self,
        words: &Words,
        chunk: usize,
        plan: &Plan,
        part: &dyn Fn(usize) -> Part,
        node: &mut EncodedNode<Part>,
    ) -> Result<()>;

    /// Starts writing the buffers of nodes.
    fn write(&self, launcher: &mut Launcher<'_>, words: &Words, jobs: &[Job]) -> Result<()>;
}
