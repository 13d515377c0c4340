//! Words, and those derived from them: quotients, codes and distinct values of dictionaries,
//! values and lengths of runs.
//!
//! ```text
//! words --sample--> promises --(host asks for chunks)--> quotients.rs, distinct.rs, runs.rs
//!   ^                                                               |
//!   '----- quotients, codes, distinct values, values, lengths <-----'
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

use super::distinct::Distinct;
use super::launch::Launcher;
use super::lz::{self, Candidate, Compressed};
use super::quotients::Quotients;
use super::runs::Runs;
use super::words::{Estimates, Words};
use super::write::{self, Job, Origin, Part};
use crate::chunk::{EncodedNode, MAX_CHUNK_ROWS};
use crate::encoding::dict::{self, Counted};
use crate::encoding::lz::Leftover;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{Encoding, Estimate, gcd, rle};
use crate::error::{Error, Result};
use crate::gpu::abi::encode as abi;

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
    /// Divisors, and the number of the quotients.
    quotients: Option<(Quotients, [usize; 1])>,
    /// Numbers of codes and distinct values.
    dictionary: Option<[usize; 2]>,
    /// Runs, and the numbers of their values and lengths.
    runs: Option<(Runs, [usize; 2])>,
    /// Chunks that others leave.
    compressed: Compressed,
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
        let compressed = Compressed::default();
        self.nodes.push(Node { words, quotients: None, dictionary: None, runs: None, compressed });
        self.first + self.nodes.len() - 1
    }

    pub fn words(&self, number: usize) -> &Words {
        &self.at(number).words
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
        let allows = |encoding: Encoding, is_inside: bool| {
            context.may_nest() && context.options.allows(encoding) && !is_inside
        };
        let has_dictionaries = allows(Encoding::Dict, context.in_dictionary);
        let has_runs = allows(Encoding::Rle, context.in_runs);
        let has_lz = context.is_top() && context.options.allows(Encoding::Lz);
        let look = |chunk: usize| {
            let estimates = words.estimates(chunk, context);
            let (rows, limit) = (words.rows(chunk), limit(&estimates));
            if !context.may_search(rows, limit) {
                return None;
            }
            let sample = words.sample(chunk).filter(|_| limit > 0);
            let repeated = sample.filter(|_| has_dictionaries).map(|sample| sample.counted(rows));
            let repeated = repeated.filter(|counted| {
                let pays = counted.may_pay(rows, counted.distinct, limit, dict::saves);
                counted.repeats() && pays && counted.most(rows) > 0
            });
            let divisor = words.divisor(chunk);
            let divisor = Some(divisor).filter(|divisor| gcd::may_pay(*divisor, rows, limit));
            let has_runs = sample.is_some_and(|sample| {
                let (runs, values) = (sample.runs as usize, sample.rows as usize);
                has_runs && rle::may_pay(runs, values, rows, limit)
            });
            let is_left = has_lz && words.leftover(chunk, limit).is_some();
            let is_one = divisor.is_some() || repeated.is_some() || has_runs || is_left;
            is_one.then_some(Look { estimates, divisor, repeated, has_runs })
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

    /// Adds the estimates of quotients, where they may be the least.
    fn plan_quotients(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let words = &self.at(number).words;
        let divisor = |look: &Option<Look>| look.as_ref().and_then(|look| look.divisor);
        let divisors: Vec<u64> = looks.iter().map(|look| divisor(look).unwrap_or(0)).collect();
        if divisors.iter().all(|divisor| *divisor == 0) {
            return Ok(());
        }
        let below = context.below();
        let (mut quotients, derived) = Quotients::start(launcher, words, divisors, &below)?;
        let child = self.add(derived);
        self.at_mut(child).words.read(launcher)?;
        quotients.read(launcher)?;
        let chunks: Vec<usize> = quotients.chunks().collect();
        self.at_mut(number).quotients = Some((quotients, [child]));
        let estimate = |_, children, _| Estimate { children, ..Estimate::of([]) };
        let children = [(child, Plans::NONE)];
        self.add_estimates((Encoding::Gcd, chunks), estimate, children, &below, looks);
        Ok(())
    }

    /// Adds the estimates of dictionaries, where they may be the least.
    fn plan_dictionaries(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let words = &self.at(number).words;
        // Words of few bits have few values.
        let all = 1 << (words.value() * 8).min(MAX_CHUNK_ROWS.ilog2() as usize);
        let asked = looks.iter().enumerate().filter_map(|(chunk, look)| match look {
            // Quotients may promise less than when the chunk was looked at.
            Some(Look { estimates, repeated: Some(counted), .. }) => {
                let (rows, limit) = (words.rows(chunk), limit(estimates));
                let pays = counted.may_pay(rows, counted.distinct, limit, dict::saves);
                pays.then(|| (chunk, counted.most(rows).min(all)))
            }
            _ => None,
        });
        let asked: Vec<(usize, usize)> = asked.collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut found = Distinct::find(launcher, words, &asked)?;
        found.tables.keep(|chunk, count| match &looks[chunk] {
            Some(Look { estimates, repeated: Some(counted), .. }) => {
                counted.may_pay(words.rows(chunk), count, limit(estimates), dict::saves)
            }
            _ => false,
        });
        if found.tables.is_empty() {
            return Ok(());
        }
        let below = context.in_dictionary();
        let children = found.words(launcher, words, &below)?.map(|words| self.add(words));
        self.at_mut(number).dictionary = Some(children);
        let chunks: Vec<usize> = found.tables.chunks().collect();
        let [codes, values] = children;
        let children = [
            (codes, self.plan(launcher, codes, &below)?),
            (values, self.plan(launcher, values, &below)?),
        ];
        let estimate = |_, children, _| Estimate { children, ..Estimate::of([]) };
        self.add_estimates((Encoding::Dict, chunks), estimate, children, &below, looks);
        Ok(())
    }

    /// Adds the estimates of runs, where they may be the least.
    fn plan_runs(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let words = &self.at(number).words;
        let limit_of = |look: &Option<Look>| look.as_ref().map_or(0, |look| limit(&look.estimates));
        let limits: Vec<usize> = looks.iter().map(limit_of).collect();
        let asked = |(chunk, look): (usize, &Option<Look>)| {
            let (Some(Look { has_runs: true, .. }), Some(sample)) = (look, words.sample(chunk))
            else {
                return false;
            };
            // Others may promise less than when the chunk was looked at.
            let (runs, values) = (sample.runs as usize, sample.rows as usize);
            rle::may_pay(runs, values, words.rows(chunk), limits[chunk])
        };
        let asked: Vec<u32> = looks.iter().enumerate().map(|look| u32::from(asked(look))).collect();
        if asked.iter().all(|asked| *asked == 0) {
            return Ok(());
        }
        let mut runs = Runs::count(launcher, words, &asked)?;
        runs.keep(|chunk, runs| {
            let rows = words.rows(chunk);
            rle::may_pay(runs, rows, rows, limits[chunk])
        });
        let chunks: Vec<usize> = runs.chunks().collect();
        if chunks.is_empty() {
            return Ok(());
        }
        let below = context.in_runs();
        let rows: Vec<usize> = (0..words.chunks()).map(|chunk| words.rows(chunk)).collect();
        let [values, lengths] = runs.words(launcher, words, &below)?.map(|words| self.add(words));
        self.at_mut(number).runs = Some((runs, [values, lengths]));
        let plans = self.plan(launcher, values, &below)?;
        self.at_mut(lengths).words.read(launcher)?;
        let children = [(values, plans), (lengths, Plans::NONE)];
        let estimate = |chunk, children, limit| rle::estimate_of(children, rows[chunk], limit);
        self.add_estimates((Encoding::Rle, chunks), estimate, children, &below, looks);
        Ok(())
    }

    /// Adds the estimates of lz, where all others leave most of the bytes, and compresses those
    /// chunks whose plan it becomes.
    fn plan_lz(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let words = &self.at(number).words;
        let left = looks.iter().enumerate().filter_map(|(chunk, look)| {
            Some((chunk, words.leftover(chunk, limit(&look.as_ref()?.estimates))?))
        });
        let left: Vec<(usize, Leftover)> = left.collect();
        if left.is_empty() {
            return Ok(());
        }
        let from = words.bytes_of(launcher, left.iter().map(|(chunk, _)| *chunk))?;
        let candidates: Vec<Candidate> = (left.into_iter().zip(from))
            .map(|((chunk, leftover), from)| Candidate { chunk, from, leftover })
            .collect();
        let promises = lz::promises(launcher, &candidates, &context.options.lz)?;
        let mut chosen = Vec::new();
        for (candidate, promise) in candidates.into_iter().zip(promises) {
            let (Some((shape, lens)), Some(look)) = (promise, &mut looks[candidate.chunk]) else {
                continue;
            };
            let estimate = Estimate::of(lens);
            if candidate.leftover.saves(estimate.stored_bytes()) {
                look.estimates.push((Encoding::Lz, estimate));
                chosen.push((candidate, shape));
            }
        }
        self.at_mut(number).compressed = Compressed::new(launcher, &chosen)?;
        Ok(())
    }

    /// Adds an estimate to those of some chunks: what `estimate` makes of a chunk, the plans of the
    /// children, and bytes that others take at least.
    fn add_estimates<const CHILDREN: usize>(
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
        let Node { words, quotients, dictionary, runs, compressed } = self.at(number);
        let lacks = words.lacks(chunk, plan.encoding);
        if lacks != 0 {
            lacking.words.push((number, lacks));
            return Ok(None);
        }
        let children: Option<&[usize]> = match plan.encoding {
            Encoding::Gcd => quotients.as_ref().map(|(_, children)| children.as_slice()),
            Encoding::Dict => dictionary.as_ref().map(<[usize; 2]>::as_slice),
            Encoding::Rle => runs.as_ref().map(|(_, children)| children.as_slice()),
            Encoding::Lz => None,
            _ => return words.node(chunk, plan, context.options, number),
        };
        let mut node = words.empty_node(chunk, plan.encoding);
        if plan.encoding == Encoding::Lz {
            let (origin, vector) = (Origin::Words(number), words.first_vector(chunk));
            compressed.fill(chunk, &mut node, |len| Part { len, origin, vector })?;
        }
        if let (Encoding::Gcd, Some((quotients, _))) = (plan.encoding, quotients) {
            let [offset, _] = words.bounds(chunk).unwrap_or_default();
            node.parameters = [quotients.divisor(chunk), offset];
        }
        if plan.encoding == Encoding::Rle {
            let (len, vector) = (words.vectors(chunk) * 4, words.first_vector(chunk));
            let origin = Origin::Runs(number);
            node.buffers.push(Part { len, origin, vector });
            if plan.children.len() == 1 {
                let len = words.rows(chunk).div_ceil(8);
                node.buffers.push(Part { len, origin, vector });
            }
        }
        let before = lacking.words.len();
        for (child, plan) in children.into_iter().flatten().zip(&plan.children) {
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
            Origin::Words(number) if encoding == Encoding::Lz => {
                let Node { words, compressed, .. } = self.at(number);
                compressed.write(launcher, jobs.iter().map(|job| (words.chunk_at(job.vector), job)))
            }
            Origin::Words(number) => self.at(number).words.write(launcher, encoding, &targets),
            Origin::Deltas(number) => {
                self.at(number).words.write_deltas(launcher, encoding, &targets)
            }
            Origin::Runs(number) => match &self.at(number).runs {
                Some((runs, _)) => runs.write(launcher, &targets),
                None => Err(Error::device("runs of words without")),
            },
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
struct Look {
    estimates: Estimates,
    /// What its values may have in common, if quotients may be the least.
    divisor: Option<u64>,
    /// What a sample says of distinct values, if a dictionary may be the least.
    repeated: Option<Counted>,
    /// Whether runs may be.
    has_runs: bool,
}

/// Bytes that the best estimate of a chunk takes; 0 where nothing is smaller.
pub(super) fn limit(estimates: &Estimates) -> usize {
    match estimates.last() {
        Some((Encoding::Constant, _)) | None => 0,
        _ => estimates.iter().map(|(_, one)| one.stored_bytes()).min().unwrap_or(0),
    }
}
