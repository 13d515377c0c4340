//! Words, and those derived from them: quotients, codes and distinct values of dictionaries,
//! values and lengths of runs.
//!
//! ```text
//! words --sample--> promises --(host asks for chunks)--> encoders
//!   ^                                                       |
//!   '--- quotients, codes, distinct values, lengths, .. <---'
//! ```
//!
//! Derived words have the chunks of those that they are derived from, of which those that are
//! not asked for have no rows; so a chunk has one number throughout. They lie in scratch, and
//! are measured, planned and written as a column is. Each step waits for the one before, which
//! only columns with chunks that promise something pay for. So do those whose plans need measures
//! of all vectors ([`Tree::make`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use rayon::prelude::*;

use super::encoders::{Derived, Promises};
use super::launch::Launcher;
use super::words::{Estimates, Words};
use super::write::{self, Job, Origin, Part};
use crate::chunk::EncodedNode;
use crate::encoding::dict;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{Encoding, Estimate};
use crate::error::{Error, Result};
use crate::gpu::abi;

/// Words by number.
#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The number of the first ones.
    first: usize,
}

/// What has to be measured before a chunk can be encoded: numbers of words, and what of them.
#[derive(Default)]
pub(super) struct Lacking {
    words: Vec<(usize, u32)>,
}

impl Lacking {
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

struct Node {
    words: Words,
    made: Vec<Made>,
}

/// What has been derived from words for an encoding.
struct Made {
    encoding: Encoding,
    derived: Box<dyn Derived>,
    /// Numbers of the words that are its children.
    children: Vec<usize>,
}

impl Node {
    /// What nodes of an encoding are made of, if that is derived.
    fn made(&self, encoding: Encoding) -> Option<&Made> {
        self.made.iter().find(|made| made.encoding == encoding)
    }
}

impl Tree {
    /// A tree beside other words, which have the numbers below `first`.
    pub fn numbered_from(first: usize) -> Self {
        Self { nodes: Vec::new(), first }
    }

    fn at(&self, number: usize) -> &Node {
        &self.nodes[number - self.first]
    }

    fn at_mut(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number - self.first]
    }

    /// Adds words that are being measured; their number.
    pub fn add(&mut self, words: Words) -> usize {
        self.nodes.push(Node { words, made: Vec::new() });
        self.first + self.nodes.len() - 1
    }

    pub fn words(&self, number: usize) -> &Words {
        &self.at(number).words
    }

    pub fn words_mut(&mut self, number: usize) -> &mut Words {
        &mut self.at_mut(number).words
    }

    /// Notes what has been derived from some words for an encoding, whose children are the words
    /// of some numbers.
    pub fn derive(
        &mut self,
        number: usize,
        encoding: Encoding,
        derived: impl Derived + 'static,
        children: &[usize],
    ) {
        let (derived, children) = (Box::new(derived), children.to_vec());
        self.at_mut(number).made.push(Made { encoding, derived, children });
    }

    /// Plans the chunks of some words that something may be derived from, as [`plan::plan`] does;
    /// waits for what that needs.
    pub fn plan(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
    ) -> Result<Plans> {
        let words = &mut self.at_mut(number).words;
        words.read(launcher)?;
        let words = &*words;
        let has_lz = context.is_top() && context.options.allows(Encoding::Lz);
        let look = |chunk: usize| {
            let estimates = words.estimates(chunk, context);
            let (rows, limit) = (words.rows(chunk), limit(&estimates));
            if !context.may_search(rows, limit) {
                return None;
            }
            let promises = Promises::of(words, chunk, limit, context);
            let is_left = has_lz && words.leftover(chunk, limit).is_some();
            (promises.is_any() || is_left).then_some(Look { estimates, promises })
        };
        let chunks = (0..words.chunks()).into_par_iter().with_min_len(super::MIN_CHUNKS);
        let mut looks: Vec<Option<Look>> = match words.has_promises() || has_lz {
            true => chunks.map(look).collect(),
            false => Vec::new(),
        };
        if looks.iter().all(Option::is_none) {
            return Ok(Plans::NONE);
        }
        self.plan_quotients(launcher, number, context, &mut looks)?;
        self.plan_dictionaries(launcher, number, context, &mut looks)?;
        self.plan_runs(launcher, number, context, &mut looks)?;
        if has_lz {
            self.plan_lz(launcher, number, context, &mut looks)?;
        }
        let chosen = |look: Look| plan::choose(look.estimates.into_iter());
        let looks = looks.into_par_iter().with_min_len(super::MIN_CHUNKS);
        Ok(Plans(looks.map(|look| look.map(chosen)).collect()))
    }

    /// The plan of a chunk.
    pub fn plan_of<'p>(
        &self,
        number: usize,
        chunk: usize,
        plans: &'p Plans,
        context: &Context<'_>,
    ) -> Cow<'p, Plan> {
        match plans.0.get(chunk).and_then(Option::as_ref) {
            Some(plan) => Cow::Borrowed(plan),
            None => Cow::Owned(self.words(number).plan(chunk, context)),
        }
    }

    /// Adds an estimate to those of some chunks: what `estimate` makes of a chunk, the plans of the
    /// children, and bytes that others take at least.
    pub fn add_estimates<const CHILDREN: usize>(
        &self,
        (encoding, chunks): (Encoding, Vec<usize>),
        estimate: impl Fn(usize, Vec<Plan>, usize) -> Estimate + Sync,
        children: [(usize, Plans); CHILDREN],
        below: &Context<'_>,
        looks: &mut [Option<Look>],
    ) {
        let limits: Vec<usize> = (looks.iter())
            .map(|look| look.as_ref().map_or(0, |look| limit(&look.estimates)))
            .collect();
        let made = |chunk: usize| {
            let child = |(number, plans): &(usize, Plans)| {
                self.plan_of(*number, chunk, plans, below).into_owned()
            };
            (chunk, estimate(chunk, children.iter().map(child).collect(), limits[chunk]))
        };
        let chunks = chunks.into_par_iter().with_min_len(super::MIN_CHUNKS);
        for (chunk, estimate) in chunks.map(made).collect::<Vec<_>>() {
            if let Some(Look { estimates, .. }) = &mut looks[chunk]
                && dict::saves(estimate.stored_bytes(), limits[chunk])
            {
                estimates.push((encoding, estimate));
            }
        }
        children.into_iter().for_each(|(_, plans)| plans.drop_by_all_threads());
    }

    /// Makes something of each of so many chunks, with all threads. What `make` finds that it
    /// lacks, and gives nothing for, is measured, and then it is asked again.
    pub fn make<T: Send>(
        &mut self,
        launcher: &mut Launcher<'_>,
        chunks: usize,
        make: impl Fn(&Self, usize, &mut Lacking) -> Result<Option<T>> + Sync,
    ) -> Result<Vec<T>> {
        let mut made: Vec<Option<T>> = (0..chunks).map(|_| None).collect();
        loop {
            let attempt = |(chunk, made): (usize, &mut Option<T>)| -> Result<Lacking> {
                let mut lacking = Lacking::default();
                if made.is_none() {
                    *made = make(self, chunk, &mut lacking)?;
                    if made.is_none() && lacking.is_empty() {
                        return Err(Error::device("values without an encoding"));
                    }
                }
                Ok(lacking)
            };
            let all = made.par_iter_mut().enumerate().with_min_len(super::MIN_CHUNKS);
            let lacking: Vec<Lacking> = all.map(attempt).collect::<Result<_>>()?;
            if lacking.iter().all(Lacking::is_empty) {
                return Ok(made.into_iter().flatten().collect());
            }
            self.measure(launcher, &lacking)?;
        }
    }

    /// Measures what chunks lack, and waits for it.
    fn measure(&mut self, launcher: &mut Launcher<'_>, lacking: &[Lacking]) -> Result<()> {
        let mut asked: BTreeMap<usize, Vec<abi::AskedChunk>> = BTreeMap::new();
        for (chunk, lacking) in lacking.iter().enumerate() {
            for (number, what) in &lacking.words {
                let chunk = abi::AskedChunk { chunk: chunk as u32, asked: *what };
                asked.entry(*number).or_default().push(chunk);
            }
        }
        for (number, asked) in &asked {
            self.at_mut(*number).words.measure_rest(launcher, asked)?;
        }
        asked.keys().try_for_each(|number| self.at_mut(*number).words.read(launcher))
    }

    /// Encodes a chunk by plan or the next best, as [`plan::encode`] does; none where something
    /// is lacking.
    pub fn encode(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        context: &Context<'_>,
        lacking: &mut Lacking,
    ) -> Result<Option<EncodedNode<Part>>> {
        let before = lacking.words.len();
        let node = |plan: &Plan| match lacking.words.len() > before {
            true => Ok(None),
            false => self.node(number, chunk, plan, context, lacking),
        };
        let node = plan::first_kept(plan, node, |part: &Part| part.len)?;
        if lacking.words.len() > before {
            return Ok(None);
        }
        node.map(Some).ok_or_else(|| Error::device("words without an encoding"))
    }

    /// Encodes a chunk of which nothing is lacking.
    pub fn encode_measured(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<EncodedNode<Part>> {
        let node = self.encode(number, chunk, plan, context, &mut Lacking::default())?;
        node.ok_or_else(|| Error::device("words that have not been measured"))
    }

    fn node(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        context: &Context<'_>,
        lacking: &mut Lacking,
    ) -> Result<Option<EncodedNode<Part>>> {
        let words = self.words(number);
        let lacks = words.lacks(chunk, plan.encoding);
        if lacks != 0 {
            lacking.words.push((number, lacks));
            return Ok(None);
        }
        let Some(made) = self.at(number).made(plan.encoding) else {
            return words.node(chunk, plan, context.options, number);
        };
        let mut node = words.empty_node(chunk, plan.encoding);
        let (origin, vector) = (Origin::Words(number), words.first_vector(chunk));
        let part = |len: usize| Part { len, origin, vector };
        made.derived.fill(words, chunk, plan, &part, &mut node)?;
        let before = lacking.words.len();
        for (child, plan) in made.children.iter().zip(&plan.children) {
            node.children.extend(self.encode(*child, chunk, plan, context, lacking)?);
        }
        Ok((lacking.words.len() == before).then_some(node))
    }

    /// Starts writing nodes of one origin and encoding, which is some of these words.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        let targets = write::targets(jobs);
        match origin {
            Origin::Words(number) => {
                let node = self.at(number);
                match node.made(encoding) {
                    Some(made) => made.derived.write(launcher, &node.words, jobs),
                    None => node.words.write(launcher, encoding, &targets),
                }
            }
            Origin::Transformed(number) => {
                self.words(number).write_transformed(launcher, encoding, &targets)
            }
            _ => Err(Error::device(format!("a node of {origin:?} among words"))),
        }
    }
}

/// Plans of chunks. Those that nothing is derived from have none: their words plan them, when
/// they are encoded. Empty if no chunk has one.
pub(super) struct Plans(Vec<Option<Plan>>);

impl Plans {
    /// Of no chunk.
    pub const NONE: Self = Self(Vec::new());

    /// Drops what are many allocations with all threads: thousands take one of them as long as
    /// planning them took.
    pub fn drop_by_all_threads(self) {
        self.0.into_par_iter().with_min_len(super::MIN_CHUNKS).for_each(drop);
    }
}

/// A chunk that something derived from it may suit.
pub(super) struct Look {
    pub estimates: Estimates,
    pub promises: Promises,
}

/// Bytes that the best estimate of a chunk takes; 0 where nothing is smaller.
pub(super) fn limit(estimates: &Estimates) -> usize {
    match estimates.last() {
        Some((Encoding::Constant, _)) | None => 0,
        _ => estimates.iter().map(|(_, one)| one.stored_bytes()).min().unwrap_or(0),
    }
}
