//! The choice of encodings for one chunk. It lies among the encodings, not above
//! them, because they nest: a codec plans its own children.
//!
//! Every allowed codec estimates the size it would give; the smallest wins, and
//! of equals the first in `CODECS`. Estimates look at up to 16 vectors spread
//! over the chunk (integers, floats) or at a sample of values (strings), at
//! integers only, and in a fixed order: the same input gives the same plan, on
//! any machine and with any number of threads. The estimates that were compared
//! stay in the plan, for [`CompressedColumn::explain`](crate::CompressedColumn::explain).

use std::fmt;
use std::sync::Arc;

use super::alp::Exponents;
use super::alp_rd::Cut;
use crate::chunk::EncodedNode;
use crate::encoding::dict::Distinct;
use crate::encoding::fsst::Symbols;
use crate::encoding::nested::Split;
use crate::encoding::{CODECS, Encoding, Estimate, Input, Physical, Values, codec};
use crate::error::{Error, Result};
use crate::options::Options;

/// Vectors that an estimate looks at.
pub(crate) const SAMPLED_VECTORS: usize = 16;

/// What planning and encoding a chunk may use.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub options: &'a Options,
    /// The symbol table that serves this chunk's column, for strings.
    pub symbols: Option<&'a Arc<Symbols>>,
    /// Levels of encodings that may still nest in the one that is planned.
    pub levels: usize,
    /// Whether this is for a child of a dictionary, however deep, where there are no others.
    pub in_dictionary: bool,
    /// Whether this is for a child of runs, however deep, where there are no others.
    pub in_runs: bool,
    /// Bytes that the best encoding so far takes: no other is of interest that takes as many.
    pub limit: usize,
}

/// Encodings that nest in each other at most: a dictionary of floats by ALP, with
/// run lengths that are packed, has three.
pub(crate) const MOST_LEVELS: usize = 3;

impl<'a> Context<'a> {
    /// For the root of a chunk.
    pub fn new(options: &'a Options, symbols: Option<&'a Arc<Symbols>>) -> Self {
        Self {
            options,
            symbols,
            levels: MOST_LEVELS - 1,
            in_dictionary: false,
            in_runs: false,
            limit: usize::MAX,
        }
    }

    /// Whether encodings of other encodings may be chosen: at the last level only what
    /// stands for itself may.
    pub fn may_nest(self) -> bool {
        self.levels > 0
    }

    /// For children.
    pub fn below(self) -> Self {
        Self { levels: self.levels.saturating_sub(1), ..self }
    }

    /// For children of a dictionary.
    pub fn in_dictionary(self) -> Self {
        Self { in_dictionary: true, ..self.below() }
    }

    /// For children of runs.
    pub fn in_runs(self) -> Self {
        Self { in_runs: true, ..self.below() }
    }

    /// Vectors to look at: all if they are few, else some spread evenly.
    pub fn sampled_vectors(&self, vectors: usize) -> impl Iterator<Item = usize> + Clone {
        let count = vectors.min(SAMPLED_VECTORS);
        (0..count).map(move |index| index * vectors / count)
    }
}

/// What an encoder needs to know beside its input.
#[derive(Debug, Clone)]
pub(crate) enum Parameters {
    None,
    /// Candidate exponent pairs of the chunk.
    Alp(Vec<Exponents>),
    /// Where the chunk's values are cut.
    AlpRd(Cut),
    /// The symbol table.
    Fsst(Arc<Symbols>),
    /// The distinct values, and the codes of all rows.
    Dict(Arc<Distinct>),
    /// The children of a nested array.
    Nested(Arc<Split>),
}

/// The encoding chosen for a node, and why.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub encoding: Encoding,
    /// Estimated bytes.
    pub bytes: usize,
    pub parameters: Parameters,
    pub children: Vec<Plan>,
    /// Every estimate made, the chosen one included.
    pub considered: Vec<(Encoding, usize)>,
}

impl Plan {
    /// The plan without what only the encoder needs and is as large as the values.
    pub fn without_data(self) -> Self {
        let parameters = match self.parameters {
            Parameters::Dict(_) | Parameters::Nested(_) => Parameters::None,
            parameters => parameters,
        };
        let children = self.children.into_iter().map(Self::without_data).collect();
        Self { parameters, children, ..self }
    }
}

/// Chooses the encoding of `input`.
pub(crate) fn plan(input: &Input<'_>, context: &Context<'_>) -> Plan {
    let mut choice = Choice::default();
    let suits =
        |encoding: Encoding| context.options.allows(encoding) && encoding.suits(input.len());
    for codec in CODECS.iter().filter(|codec| suits(codec.encoding())) {
        let limit = choice.best.as_ref().map_or(usize::MAX, |best| best.bytes);
        if let Some(estimate) = codec.plan(input, &Context { limit, ..*context }) {
            choice.add(codec.encoding(), estimate);
        }
        if choice.is_final() {
            break;
        }
    }
    choice.plan()
}

/// Chooses the smallest of estimates, of equal ones the first; `plain` if there are
/// none. They come in the order of [`CODECS`], as far as they are asked for.
pub(crate) fn choose(estimates: impl Iterator<Item = (Encoding, Estimate)>) -> Plan {
    let mut choice = Choice::default();
    for (encoding, estimate) in estimates {
        choice.add(encoding, estimate);
        if choice.is_final() {
            break;
        }
    }
    choice.plan()
}

/// The smallest of the estimates so far.
#[derive(Default)]
struct Choice {
    best: Option<Plan>,
    considered: Vec<(Encoding, usize)>,
}

impl Choice {
    fn add(&mut self, encoding: Encoding, estimate: Estimate) {
        let Estimate { bytes, parameters, children } = estimate;
        self.considered.push((encoding, bytes));
        if self.best.as_ref().is_none_or(|best| bytes < best.bytes) {
            let considered = Vec::new();
            self.best = Some(Plan { encoding, bytes, parameters, children, considered });
        }
    }

    /// Nothing is smaller than one value for all rows.
    fn is_final(&self) -> bool {
        self.considered.last().is_some_and(|(encoding, _)| *encoding == Encoding::Constant)
    }

    fn plan(self) -> Plan {
        Plan { considered: self.considered, ..self.best.unwrap_or_else(plain) }
    }
}

/// The plan that always works.
pub(crate) fn plain() -> Plan {
    Plan {
        encoding: Encoding::Plain,
        bytes: 0,
        parameters: Parameters::None,
        children: Vec::new(),
        considered: Vec::new(),
    }
}

/// Encodes by plan, or `plain` where the data turn out not to fit it.
///
/// # Errors
/// Only where Arrow cannot write an array of a type that has no encoding here.
pub(crate) fn encode(input: &Input<'_>, plan: &Plan, context: &Context<'_>) -> Result<EncodedNode> {
    match codec(plan.encoding).encode(input, plan, context)? {
        Some(node) => Ok(node),
        None => codec(Encoding::Plain)
            .encode(input, &plain(), context)?
            .ok_or_else(|| Error::corrupt(format!("no encoding for {:?}", input.physical))),
    }
}

/// Encodes lengths of byte strings as a child of their own.
pub(crate) fn encode_lengths(lengths: &[u32], context: &Context<'_>) -> Result<EncodedNode> {
    let input = Input::new(Physical::U32, Values::W32(lengths));
    let below = context.below();
    encode(&input, &plan(&input, &below), &below)
}

/// Estimated size of [`encode_lengths`].
pub(crate) fn estimate_lengths(lengths: &[u32], context: &Context<'_>) -> usize {
    plan(&Input::new(Physical::U32, Values::W32(lengths)), &context.below()).bytes
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of estimates", self.encoding)?;
        for (index, (encoding, bytes)) in self.considered.iter().enumerate() {
            write!(f, "{} {encoding} {bytes} B", if index == 0 { "" } else { "," })?;
        }
        if let Parameters::Alp(candidates) = &self.parameters {
            let pairs: Vec<String> =
                candidates.iter().map(|pair| format!("({}, {})", pair.e, pair.f)).collect();
            write!(f, "; exponent pairs {}", pairs.join(" "))?;
        }
        if let Parameters::AlpRd(cut) = &self.parameters {
            write!(f, "; {} left parts, right parts of {} bits", cut.entries, cut.right)?;
        }
        Ok(())
    }
}
