//! Statistics of the values of a chunk: what the planner ([`plan`](super::plan)) asks before it
//! chooses an encoding. They are all that it knows of the values.
//!
//! ```text
//! Statistics --plan--> Plan, or Missing: a part that has not been computed yet
//!     ^                             |
//!     '---- computed for all chunks that ask ----'   (devices; a CPU computes at once)
//! ```
//!
//! Each part is computed when it is asked for: on the CPU by loops over the values
//! ([`HostStatistics`](super::host::HostStatistics)), on devices by kernels (`encode/`). A device
//! computes a part for many chunks by one kernel, so its statistics answer [`Missing`] and note
//! what is missing; when that has been computed, the planner is called again. Engines plan alike
//! because one function chooses, and because parts are integers that both compute from
//! the same rows.

#[cfg(feature = "_internals")]
pub(crate) mod recorded;

use super::alp_rd::Cut;
use super::dict::SampledValues;
use super::fsst::{SampledCodes, Trained};
use super::lz::{LzBytes, Promise};
use super::plan::{Context, Parameters, Plan};
use super::{Encoding, Physical};
use crate::lanes::VECTOR;
use crate::options::Lz;

/// Vectors that an estimate looks at.
pub(crate) const SAMPLED_VECTORS: usize = 16;

/// Vectors to look at: all if they are few, else some spread evenly.
pub(crate) fn sampled_vectors(vectors: usize) -> impl Iterator<Item = usize> + Clone {
    let count = vectors.min(SAMPLED_VECTORS);
    (0..count).map(move |index| index * vectors / count)
}

/// A part that has not been computed yet. The statistics that answer so have noted which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing;

pub(crate) type Answer<T> = Result<T, Missing>;

/// Statistics of values that are derived from others.
pub(crate) type Child<'a> = Box<dyn Statistics + 'a>;

/// What the sampled vectors come to if they are packed with exceptions, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SampledBytes {
    pub packed: usize,
    /// Blocks of exceptions.
    pub exceptions: usize,
}

/// Runs in the sampled vectors, and the rows of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SampledRuns {
    pub runs: usize,
    pub rows: usize,
}

/// Which symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableOf {
    /// That of the group of chunks.
    Group,
    /// One trained on the chunk alone.
    Chunk,
}

/// What a symbol table makes of a sample of strings.
#[derive(Debug, Clone)]
pub(crate) struct CodedSample {
    pub sampled: SampledCodes,
    pub trained: Trained,
    /// Bytes of the table.
    pub table: usize,
    /// What the encoder takes.
    pub parameters: Parameters,
}

/// Prefixes that strings of the sampled vectors share with the string before.
pub(crate) struct Prefixes<'a> {
    /// Their bytes.
    pub saved: u64,
    /// Bytes of the sampled strings.
    pub bytes: usize,
    /// Their lengths, as a sample.
    pub lengths: Child<'a>,
}

/// What nested arrays and values in pieces are made of, planned part by part.
#[derive(Debug, Clone)]
pub(crate) struct PlannedParts {
    /// In the order of the format.
    pub plans: Vec<Plan>,
    /// Rows of the bitmap of nulls, if there is one.
    pub nulls: Option<usize>,
    /// What the encoder takes.
    pub parameters: Parameters,
}

/// Statistics of a chunk's values, or of values that are derived from these. Implementors have
/// those that suit the type of their values.
pub(crate) trait Statistics {
    /// The type of the values.
    fn physical(&self) -> Physical;

    /// Rows of the chunk. Of a sample, those of the vectors that it was drawn from.
    fn rows(&self) -> usize;

    /// Vectors of the chunk, as [`Self::rows`].
    fn vectors(&self) -> usize {
        self.rows().div_ceil(VECTOR)
    }

    /// Vectors that statistics of samples look at.
    fn sampled(&self) -> usize {
        self.vectors().min(SAMPLED_VECTORS)
    }

    /// Bytes of a value that is stored as a word; 0 of strings and arrays.
    fn word_bytes(&self) -> usize {
        self.physical().bits().unwrap_or(0) / 8
    }

    /// If all valid values are one that may be stored as a constant, its bytes if it is a
    /// string, else 0.
    fn single(&self) -> Answer<Option<usize>> {
        Err(Missing)
    }

    /// Integers: the sum of the widths, in bits, that the sampled vectors are packed with.
    fn widths(&self) -> Answer<usize> {
        Err(Missing)
    }

    /// Integers: what packing with exceptions makes of the sampled vectors.
    fn patched(&self) -> Answer<SampledBytes> {
        Err(Missing)
    }

    /// Integers: the greatest divisor that all differences of sampled values have in common; 0 if
    /// all are equal.
    fn divisor(&self) -> Answer<u64> {
        Err(Missing)
    }

    /// Floats: what ALP makes of the sampled vectors, and what its encoder takes.
    fn decimals(&self) -> Answer<(SampledBytes, Parameters)> {
        Err(Missing)
    }

    /// Floats: where ALP-RD cuts values, and the bits that its sample then takes; may be none
    /// where the chunk would take more than `limit` bytes.
    fn cut(&self, _limit: usize) -> Answer<Option<(Cut, usize)>> {
        Err(Missing)
    }

    /// Distinct values of the sampled vectors; none of values that have no dictionary.
    fn sampled_values(&self) -> Answer<Option<SampledValues>> {
        Err(Missing)
    }

    /// Runs of the sampled vectors.
    fn sampled_runs(&self) -> Answer<SampledRuns> {
        Err(Missing)
    }

    /// Strings and carried arrays: bytes of all values; of an array, about those of its stream.
    fn value_bytes(&self) -> Answer<usize> {
        Err(Missing)
    }

    /// Strings: the lengths of values.
    fn lengths(&self) -> Answer<Child<'_>> {
        Err(Missing)
    }

    /// Strings: what a symbol table makes of a sample; none where there is no table.
    fn coded(&self, _by: TableOf) -> Answer<Option<CodedSample>> {
        Err(Missing)
    }

    /// Strings: prefixes of the sampled vectors; none where front coding is not allowed.
    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        Err(Missing)
    }

    /// The bytes that lz would compress, where all else takes `limit` bytes; none if lz
    /// does not suit them.
    fn lz_bytes(&self, _limit: usize) -> Answer<Option<LzBytes>> {
        Err(Missing)
    }

    /// The shape of segments that lz gives these bytes, and the lengths of its buffers then, from
    /// a sample; none if there are no matches.
    fn matches(&self, _of: &LzBytes, _settings: &Lz) -> Answer<Option<Promise>> {
        Err(Missing)
    }

    /// What an encoding looks for in all rows, given an argument that it knows: how much it has
    /// found; none where it does not suit. Quotients of a divisor, distinct values up to a number,
    /// runs. Samples have none, nor have lengths of strings: their encodings are named by those
    /// above.
    fn search(&self, _encoding: Encoding, _argument: u64) -> Answer<Option<usize>> {
        Err(Missing)
    }

    /// The values that would be an encoding's children, in the order of the format: those of its
    /// search, if it has one; of deltas a sample.
    fn children(&self, _encoding: Encoding) -> Answer<Vec<Child<'_>>> {
        Err(Missing)
    }

    /// The parts of values that an encoding takes apart, each planned by itself; none where they do
    /// not come apart.
    fn parts(&self, _: Encoding, _: &Context<'_>) -> Answer<Option<PlannedParts>> {
        Err(Missing)
    }

    /// What the encoder takes of what has been derived.
    fn parameters(&self, _encoding: Encoding) -> Parameters {
        Parameters::None
    }
}

/// So many children of an encoding; see [`Statistics::children`].
pub(crate) fn children<const COUNT: usize>(
    values: &dyn Statistics,
    encoding: Encoding,
) -> Answer<[Child<'_>; COUNT]> {
    values.children(encoding)?.try_into().map_err(|_| Missing)
}
