//! Words, and those derived from them: codes and distinct values of dictionaries, values and
//! starts of runs.
//!
//! ```text
//! words --sample--> promises --(host asks for chunks)--> distinct.rs, runs.rs
//!   ^                                                        |
//!   '----- codes, distinct values, values, starts <----------'
//! ```
//!
//! Derived words have the chunks of those that they are derived from, of which those that are
//! not asked for have no rows; so a chunk has one number throughout. They lie in scratch, and
//! are measured, planned and written as a column is. Each step waits for the one before, which
//! only columns with chunks that promise something pay for.

use rayon::prelude::*;

use super::distinct::Distinct;
use super::launch::Launcher;
use super::runs::Runs;
use super::words::{Estimates, Words};
use super::write::{Origin, Part};
use crate::chunk::EncodedNode;
use crate::encoding::dict::{self, Counted};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{Encoding, Estimate, rle};
use crate::error::{Error, Result};
use crate::gpu::abi::encode as abi;

/// Words by number.
#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The number of the first ones.
    first: usize,
}

struct Node {
    words: Words,
    /// Numbers of codes and distinct values.
    dictionary: Option<[usize; 2]>,
    /// Runs, and the numbers of their values and starts.
    runs: Option<(Runs, [usize; 2])>,
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
        self.nodes.push(Node { words, dictionary: None, runs: None });
        self.first + self.nodes.len() - 1
    }

    pub fn words(&self, number: usize) -> &Words {
        &self.at(number).words
    }

    /// Plans all chunks of some words, as [`plan::plan`] does; waits for what that needs.
    pub fn plan(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
    ) -> Result<Vec<Plan>> {
        let words = &mut self.at_mut(number).words;
        words.read(launcher)?;
        let words = &*words;
        let allows = |encoding: Encoding, is_inside: bool| {
            context.may_nest() && context.options.allows(encoding) && !is_inside
        };
        let has_dictionaries = allows(Encoding::Dict, context.in_dictionary);
        let has_runs = allows(Encoding::Rle, context.in_runs);
        let chunks = (0..words.chunks()).into_par_iter().with_min_len(super::MIN_CHUNKS);
        if !has_dictionaries && !has_runs {
            return Ok(chunks.map(|chunk| chosen(words.estimates(chunk, context))).collect());
        }
        let mut estimates: Vec<Estimates> =
            chunks.map(|chunk| words.estimates(chunk, context)).collect();
        if has_dictionaries {
            self.plan_dictionaries(launcher, number, context, &mut estimates)?;
        }
        if has_runs {
            self.plan_runs(launcher, number, context, &mut estimates)?;
        }
        Ok(estimates.into_par_iter().with_min_len(super::MIN_CHUNKS).map(chosen).collect())
    }

    /// Adds the estimates of dictionaries, where they may be the least.
    fn plan_dictionaries(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        estimates: &mut [Estimates],
    ) -> Result<()> {
        let words = &self.at(number).words;
        // What is worth a look at all values, by chunk: most distinct values, limit.
        let promise = |chunk: usize| {
            let rows = words.rows(chunk);
            let (counted, limit) = (words.sample(chunk)?.counted(rows), limit(&estimates[chunk]));
            let pays = counted.repeats() && counted.may_pay(rows, counted.distinct, limit);
            (pays && counted.most(rows) > 0).then_some((counted, limit))
        };
        let promises: Vec<Option<(Counted, usize)>> = in_parallel(words.chunks(), promise);
        let asked: Vec<(usize, usize)> = (promises.iter().enumerate())
            .filter_map(|(chunk, promise)| {
                Some((chunk, promise.as_ref()?.0.most(words.rows(chunk))))
            })
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut found = Distinct::find(launcher, words, &asked)?;
        found.tables.keep(|chunk, count| {
            let rows = words.rows(chunk);
            promises[chunk].is_some_and(|(counted, limit)| counted.may_pay(rows, count, limit))
        });
        if found.tables.is_empty() {
            return Ok(());
        }
        let below = context.in_dictionary();
        let children = found.words(launcher, words, &below)?.map(|words| self.add(words));
        self.at_mut(number).dictionary = Some(children);
        let chunks: Vec<usize> = found.tables.chunks().collect();
        self.add_estimates(launcher, Encoding::Dict, &chunks, children, &below, estimates, |_| {
            Estimate::of([])
        })
    }

    /// Adds the estimates of runs, where they may be the least.
    fn plan_runs(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        estimates: &mut [Estimates],
    ) -> Result<()> {
        let words = &self.at(number).words;
        let limits: Vec<usize> = in_parallel(words.chunks(), |chunk| limit(&estimates[chunk]));
        let asked = |chunk: usize| {
            words.sample(chunk).is_some_and(|sample| {
                let (runs, values) = (sample.runs as usize, sample.rows as usize);
                limits[chunk] > 0 && rle::may_pay(runs, values, words.rows(chunk), limits[chunk])
            })
        };
        let asked: Vec<u32> = (0..words.chunks()).map(|chunk| u32::from(asked(chunk))).collect();
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
        let vectors: Vec<usize> = chunks.iter().map(|chunk| words.vectors(*chunk)).collect();
        let children = runs.words(launcher, words, &below)?.map(|words| self.add(words));
        self.at_mut(number).runs = Some((runs, children));
        self.add_estimates(launcher, Encoding::Rle, &chunks, children, &below, estimates, |index| {
            Estimate::of([vectors[index] * 4])
        })
    }

    /// Plans two children, and adds an estimate to those of each chunk that has them: what
    /// `own` says of its index, with their plans.
    fn add_estimates(
        &mut self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        chunks: &[usize],
        children: [usize; 2],
        below: &Context<'_>,
        estimates: &mut [Estimates],
        own: impl Fn(usize) -> Estimate,
    ) -> Result<()> {
        let [first, second] = children;
        let mut first = self.plan(launcher, first, below)?;
        let mut second = self.plan(launcher, second, below)?;
        for (index, &chunk) in chunks.iter().enumerate() {
            let take = |plans: &mut [Plan]| std::mem::replace(&mut plans[chunk], plan::plain());
            let children = vec![take(&mut first), take(&mut second)];
            let estimate = Estimate { children, ..own(index) };
            if dict::saves(estimate.stored_bytes(), limit(&estimates[chunk])) {
                estimates[chunk].push((encoding, estimate));
            }
        }
        Ok(())
    }

    /// Encodes a chunk by plan or the next best, as [`plan::encode`] does.
    pub fn encode(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<EncodedNode<Part>> {
        let node = |plan: &Plan| self.node(number, chunk, plan, context);
        let node = plan::first_kept(plan, node, |part: &Part| part.len)?;
        node.ok_or_else(|| Error::device("words without an encoding"))
    }

    fn node(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode<Part>>> {
        let Node { words, dictionary, runs } = self.at(number);
        let children = match plan.encoding {
            Encoding::Dict => dictionary.as_ref(),
            Encoding::Rle => runs.as_ref().map(|(_, children)| children),
            _ => return words.node(chunk, plan, context.options, number),
        };
        let mut node = words.empty_node(chunk, plan.encoding);
        if plan.encoding == Encoding::Rle {
            let (len, vector) = (words.vectors(chunk) * 4, words.first_vector(chunk));
            node.buffers.push(Part { len, origin: Origin::Runs(number), vector });
        }
        for (child, plan) in children.into_iter().flatten().zip(&plan.children) {
            node.children.push(self.encode(*child, chunk, plan, context)?);
        }
        Ok(Some(node))
    }

    /// Starts writing nodes of one origin and encoding, which is some of these words.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        targets: &[abi::Target],
    ) -> Result<()> {
        match origin {
            Origin::Words(number) => self.at(number).words.write(launcher, encoding, targets),
            Origin::Deltas(number) => {
                self.at(number).words.write_deltas(launcher, encoding, targets)
            }
            Origin::Runs(number) => match &self.at(number).runs {
                Some((runs, _)) => runs.write(launcher, targets),
                None => Err(Error::device("runs of words without")),
            },
            _ => Err(Error::device(format!("a node of {origin:?} among words"))),
        }
    }
}

fn chosen(estimates: Estimates) -> Plan {
    plan::choose(estimates.into_iter())
}

/// Something for each of some chunks, which is little for each.
fn in_parallel<T: Send>(chunks: usize, of: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    (0..chunks).into_par_iter().with_min_len(super::MIN_CHUNKS).map(of).collect()
}

/// Bytes that the best estimate of a chunk takes; 0 where nothing is smaller.
pub(super) fn limit(estimates: &Estimates) -> usize {
    match estimates.last() {
        Some((Encoding::Constant, _)) | None => 0,
        _ => estimates.iter().map(|(_, one)| one.stored_bytes()).min().unwrap_or(0),
    }
}
