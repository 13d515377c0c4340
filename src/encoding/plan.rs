//! The choice of encodings for one chunk. It lies among the encodings, not above
//! them, because they nest: a codec plans its own children.
//!
//! Every allowed codec estimates the buffers and children it would give; the
//! smallest wins, and of equals the first in `CODECS`. Estimates look at up to 16
//! vectors spread over the chunk (integers, floats) or at a sample of values
//! (strings), at integers only, and in a fixed order: the same input gives the
//! same plan, on any machine and with any number of threads. What is known of values comes from
//! [`Statistics`], which each engine computes in its own way; nothing else chooses encodings.
//! The estimates that were compared stay in the plan, for
//! [`CompressedColumn::explain`](crate::CompressedColumn::explain).
//!
//! What a node and its buffers cost beside their data is added by [`Estimate::of`], the same
//! for all. The plans that were not chosen stay, too: where the chosen one turns out
//! not to fit, or larger than another promised, the next is tried ([`first_kept`]). A GPU does so
//! by sizes, before it writes anything.
//!
//! The budget: of a chunk of 128 vectors estimates look at an eighth, and what has to be looked
//! for in all rows (distinct values, runs, quotients) is only where they promise a sixteenth less
//! than all else; the encoder takes what is found. Measured by `examples/planning.rs` over the
//! 76 columns of the shared data that have 20,000 rows, with one thread: choosing takes 1 % of
//! the time of compressing them with `Effort::Fast`, 17 % by default and 20 % with
//! `Effort::Small`, against being told the encodings; with what is found in all rows, which is
//! work of the encoding where it is chosen, planning takes 6, 26 and 34 %, and symbol tables 44,
//! 34 and 31 %. It is most of the time of single columns, up to 46 % with `Effort::Fast` and 96 %
//! with others, where chunks are short (16 vectors are most of 20) and what is chosen
//! is written in no time, such as a few runs: these compress at 100 to 800 MB/s for all that.
//! Estimates of single columns are within 3.1 % or 64 bytes of what encoding gives, but for 7 % of
//! one of 4 KB; before dictionaries had to save that much, no column became more than 1.1 %
//! smaller if an encoding was forbidden.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::alp::Exponents;
use super::alp_rd::Cut;
use super::lz::Shape;
use crate::chunk::EncodedNode;
use crate::encoding::fsst::Symbols;
use crate::encoding::host::{Derived, HostStatistics};
use crate::encoding::nested::Split;
use crate::encoding::statistics::{Answer, Missing, PlannedParts, Statistics, TableOf};
use crate::encoding::{CodecSet, Encoding, Estimate, Input, Physical, Values, codec, rank};
use crate::error::{Error, Result};
use crate::options::Options;

/// What planning and encoding a chunk may use.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub options: &'a Options,
    /// The encodings that these allow.
    pub allowed: CodecSet,
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
    /// Values of a byte that are enough, if not 0: nothing is looked for in all rows to save more.
    pub enough: usize,
    /// The plan of the lengths of the byte strings, once an encoding has asked for it.
    pub lengths: Option<&'a OnceLock<Plan>>,
}

/// How deep values nest in others, and in which: what a [`Context`] says of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nesting {
    levels: usize,
    in_dictionary: bool,
    in_runs: bool,
}

/// Encodings that nest in each other at most: a dictionary of floats by ALP, with
/// run lengths that are packed, has three.
pub(crate) const MOST_LEVELS: usize = 3;

impl<'a> Context<'a> {
    /// For the root of a chunk.
    pub fn new(options: &'a Options, symbols: Option<&'a Arc<Symbols>>) -> Self {
        Self {
            options,
            allowed: CodecSet::of(options.encodings.iter().chain([Encoding::Plain])),
            symbols,
            levels: MOST_LEVELS - 1,
            in_dictionary: false,
            in_runs: false,
            limit: usize::MAX,
            enough: 0,
            lengths: None,
        }
    }

    /// For values that nest in others as deep as a context of these was made for.
    pub fn nested(options: &'a Options, nesting: Nesting) -> Self {
        let Nesting { levels, in_dictionary, in_runs } = nesting;
        Self { levels, in_dictionary, in_runs, ..Self::new(options, None) }
    }

    /// How deep values nest in others, and in which.
    pub fn nesting(&self) -> Nesting {
        let Self { levels, in_dictionary, in_runs, .. } = *self;
        Nesting { levels, in_dictionary, in_runs }
    }

    /// Whether encodings of other encodings may be chosen: at the last level only what
    /// stands for itself may.
    pub fn may_nest(self) -> bool {
        self.levels > 0
    }

    /// Whether this is for values of a column or of a nested array, not for a part of them.
    pub fn is_top(self) -> bool {
        self.levels == MOST_LEVELS - 1
    }

    /// Whether something may be looked for in all of so many rows, which take `limit` bytes
    /// without it: distinct values, runs, quotients.
    pub fn may_search(self, rows: usize, limit: usize) -> bool {
        self.may_nest() && (self.enough == 0 || limit.saturating_mul(self.enough) > rows)
    }

    /// For children.
    pub fn below(self) -> Self {
        let levels = self.levels.saturating_sub(1);
        Self { levels, enough: 0, lengths: None, ..self }
    }

    /// For children of a dictionary.
    pub fn in_dictionary(self) -> Self {
        Self { in_dictionary: true, ..self.below() }
    }

    /// For children of runs.
    pub fn in_runs(self) -> Self {
        Self { in_runs: true, ..self.below() }
    }

    /// The plan of the lengths of these byte strings.
    pub fn plan_lengths(&self, values: &dyn Statistics) -> Answer<Plan> {
        if let Some(plan) = self.lengths.and_then(OnceLock::get) {
            return Ok(plan.clone());
        }
        let plan = plan_lengths(&*values.lengths()?, self)?;
        Ok(self.lengths.map_or(plan.clone(), |lengths| lengths.get_or_init(|| plan).clone()))
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
    /// Which symbol table, of those in device memory.
    Table(TableOf),
    /// The children, as they have been derived.
    Derived(Arc<Derived>),
    /// The divisor.
    Gcd(u64),
    /// How segments are cut.
    Lz(Shape),
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
    /// The plans that were not chosen, the smallest first.
    pub others: Vec<Plan>,
}

impl Plan {
    /// The plan of an estimate.
    pub fn of(encoding: Encoding, estimate: Estimate) -> Self {
        let bytes = estimate.stored_bytes();
        let Estimate { parameters, children, .. } = estimate;
        Self { bytes, parameters, children, ..empty(encoding) }
    }

    /// A plan that has been carried out, of which nothing else is of interest but what it promised.
    pub fn promising(bytes: usize) -> Self {
        Self { bytes, ..plain() }
    }

    /// The plan without what only the encoder needs and is as large as the values.
    pub fn without_data(self) -> Self {
        let parameters = match self.parameters {
            Parameters::Derived(_) | Parameters::Nested(_) => Parameters::None,
            parameters => parameters,
        };
        let children = self.children.into_iter().map(Self::without_data).collect();
        let size = |plan: Self| Self { bytes: plan.bytes, ..empty(plan.encoding) };
        Self { parameters, children, others: self.others.into_iter().map(size).collect(), ..self }
    }

    /// The plan of an encoding, if this is one or may be replaced by one.
    pub fn of_encoding(&self, encoding: Encoding) -> Option<&Self> {
        std::iter::once(self).chain(&self.others).find(|plan| plan.encoding == encoding)
    }

    /// The symbol table in device memory of this plan, or of one that may replace it.
    pub fn symbol_table(&self) -> Option<TableOf> {
        std::iter::once(self).chain(&self.others).find_map(|plan| match plan.parameters {
            Parameters::Table(by) => Some(by),
            _ => None,
        })
    }

    /// Every estimate made, the chosen one included.
    pub fn considered(&self) -> Vec<(Encoding, usize)> {
        let all = std::iter::once(self).chain(&self.others);
        let mut all: Vec<(Encoding, usize)> = all.map(|plan| (plan.encoding, plan.bytes)).collect();
        all.sort_by_key(|(encoding, _)| rank(*encoding));
        all
    }

    /// The plan of values that stay as they are, as a header has no room for this one.
    pub fn left_plain(self) -> Self {
        let all = std::iter::once(Self { others: Vec::new(), ..self.clone() }).chain(self.others);
        let (plain_one, others): (Vec<_>, Vec<_>) =
            all.partition(|plan| plan.encoding == Encoding::Plain);
        let bytes = plain_one.first().map_or(0, |plan| plan.bytes);
        Self { bytes, others, ..plain() }
    }
}

/// Chooses the encoding of the values that these are statistics of.
pub(crate) fn plan(values: &dyn Statistics, context: &Context<'_>) -> Answer<Plan> {
    plan_of_set(CodecSet::ALL, values, context)
}

/// Chooses the encoding among some.
pub(crate) fn plan_among(
    among: &[Encoding],
    values: &dyn Statistics,
    context: &Context<'_>,
) -> Answer<Plan> {
    plan_of_set(CodecSet::of(among.iter().copied()), values, context)
}

fn plan_of_set(among: CodecSet, values: &dyn Statistics, context: &Context<'_>) -> Answer<Plan> {
    let mut choice = Choice::default();
    let lengths = OnceLock::new();
    let suiting = among.and(context.allowed).and(CodecSet::taking(values.physical()));
    for codec in suiting.codecs() {
        let encoding = codec.encoding();
        if !encoding.suits(values.rows()) {
            continue;
        }
        let limit = choice.plans.first().map_or(usize::MAX, |best| best.bytes);
        let context = Context { limit, lengths: Some(&lengths), ..*context };
        if let Some(estimate) = codec.plan(values, &context)? {
            choice.add(encoding, estimate);
        }
        if choice.is_final {
            break;
        }
    }
    Ok(choice.plan())
}

/// Chooses the encoding of a chunk's values, or of one of its bitmaps.
pub(crate) fn plan_root(values: &dyn Statistics, context: &Context<'_>) -> Answer<Plan> {
    #[cfg(feature = "_internals")]
    if let Some(log) = &context.options.plan_log {
        return super::statistics::recorded::plan(log, values, context);
    }
    plan(values, context)
}

/// Chooses the encoding of values in host memory.
pub(crate) fn plan_input(input: &Input<'_>, context: &Context<'_>) -> Plan {
    let values = HostStatistics::new(input, context.symbols);
    plan_root(&values, context).unwrap_or_else(never_missing)
}

/// Chooses the encoding of values in host memory whose parts by an encoding have been planned
/// before.
pub(crate) fn plan_input_of_parts(
    input: &Input<'_>,
    encoding: Encoding,
    parts: PlannedParts,
    context: &Context<'_>,
) -> Plan {
    let values = HostStatistics::of_parts(input, encoding, parts);
    plan_root(&values, context).unwrap_or_else(never_missing)
}

/// Chooses the encoding of values in host memory among some.
pub(crate) fn plan_input_among(
    among: &[Encoding],
    input: &Input<'_>,
    context: &Context<'_>,
) -> Plan {
    let values = HostStatistics::new(input, context.symbols);
    plan_among(among, &values, context).unwrap_or_else(never_missing)
}

/// Whatever is asked of values in host memory is computed at once.
fn never_missing(_: Missing) -> Plan {
    debug_assert!(false, "a codec takes a type whose statistics are not there");
    plain()
}

/// Room for the estimates of a node: more are rare.
pub(crate) const FEW: usize = 8;

/// The estimates so far.
struct Choice {
    /// Their plans, the smallest first.
    plans: Vec<Plan>,
    /// Whether the last one cannot be beaten: nothing is smaller than one value for all rows.
    is_final: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Self { plans: Vec::with_capacity(FEW), is_final: false }
    }
}

impl Choice {
    fn add(&mut self, encoding: Encoding, estimate: Estimate) {
        let plan = Plan::of(encoding, estimate);
        let at = self.plans.partition_point(|other| other.bytes <= plan.bytes);
        self.plans.insert(at, plan);
        self.is_final = encoding == Encoding::Constant;
    }

    fn plan(mut self) -> Plan {
        if self.plans.is_empty() {
            return plain();
        }
        let best = self.plans.remove(0);
        Plan { others: self.plans, ..best }
    }
}

/// The plan that always works.
pub(crate) fn plain() -> Plan {
    empty(Encoding::Plain)
}

/// A plan that nothing is known of.
fn empty(encoding: Encoding) -> Plan {
    Plan {
        encoding,
        bytes: 0,
        parameters: Parameters::None,
        children: Vec::new(),
        others: Vec::new(),
    }
}

/// Encodes by plan, or by the next best.
///
/// # Errors
/// Only where Arrow cannot write an array of a type that has no encoding here.
pub(crate) fn encode(input: &Input<'_>, plan: &Plan, context: &Context<'_>) -> Result<EncodedNode> {
    let encode = |plan: &Plan| codec(plan.encoding).encode(input, plan, context);
    let node = first_kept(plan, encode, Vec::len)?;
    node.ok_or_else(|| Error::corrupt(format!("no encoding for {:?}", input.physical)))
}

/// The node that the best of plans gives; where the data turn out not to fit it, or to take
/// 2 % more than the next promises, the smallest of those that are tried until one keeps its
/// promise. `len` is the length of a buffer.
pub(crate) fn first_kept<B>(
    plan: &Plan,
    mut encode: impl FnMut(&Plan) -> Result<Option<EncodedNode<B>>>,
    len: impl Fn(&B) -> usize,
) -> Result<Option<EncodedNode<B>>> {
    let mut best: Option<(usize, EncodedNode<B>)> = None;
    for plan in std::iter::once(plan).chain(&plan.others) {
        let keeps = |(bytes, _): &(usize, EncodedNode<B>)| {
            plan.bytes.saturating_mul(50) >= bytes.saturating_mul(49)
        };
        if best.as_ref().is_some_and(keeps) {
            break;
        }
        if let Some(node) = encode(plan)? {
            let bytes = node.stored_bytes(&len);
            if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
                best = Some((bytes, node));
            }
        }
    }
    Ok(best.map(|(_, node)| node))
}

/// What lengths of byte strings may be encoded as: they seldom grow from row to row.
const LENGTHS: [Encoding; 4] =
    [Encoding::Constant, Encoding::Plain, Encoding::Ffor, Encoding::Pfor];

/// Plans lengths of byte strings, a child of theirs.
pub(crate) fn plan_lengths(lengths: &dyn Statistics, context: &Context<'_>) -> Answer<Plan> {
    plan_among(&LENGTHS, lengths, &context.below())
}

/// Plans lengths in host memory.
pub(crate) fn plan_input_lengths(lengths: &[u32], context: &Context<'_>) -> Plan {
    let input = Input::new(Physical::U32, Values::W32(lengths));
    plan_input_among(&LENGTHS, &input, &context.below())
}

/// Encodes lengths of byte strings as they were planned.
pub(crate) fn encode_lengths(
    lengths: &[u32],
    plan: &Plan,
    context: &Context<'_>,
) -> Result<EncodedNode> {
    encode(&Input::new(Physical::U32, Values::W32(lengths)), plan, &context.below())
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of estimates", self.encoding)?;
        for (index, (encoding, bytes)) in self.considered().iter().enumerate() {
            write!(f, "{} {encoding} {bytes} B", if index == 0 { "" } else { "," })?;
        }
        if let Parameters::Alp(candidates) = &self.parameters {
            let pairs: Vec<String> = candidates.iter().map(ToString::to_string).collect();
            write!(f, "; exponent pairs {}", pairs.join(" "))?;
        }
        if let Parameters::AlpRd(cut) = &self.parameters {
            write!(f, "; {} left parts, right parts of {} bits", cut.entries, cut.right)?;
        }
        if let Parameters::Gcd(divisor) = &self.parameters {
            write!(f, "; divisor {divisor}")?;
        }
        if let Parameters::Lz(shape) = &self.parameters {
            write!(f, "; segments of {} symbols of {} bytes", shape.segment, shape.symbol)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
