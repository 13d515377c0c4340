//! Words, and those derived from them: quotients, codes and distinct values of dictionaries,
//! values and lengths of runs.
//!
//! ```text
//! words --statistics--> planner --missing--> searches, children --+
//!   ^                                                             |
//!   '--- quotients, codes, distinct values, run lengths, .. <-----'
//! ```
//!
//! Derived words have the chunks of those that they are derived from, of which those that are
//! not asked for have no rows; so a chunk has one number throughout. They lie in scratch, and
//! are measured, planned and written as a column is. What the planner asks for is computed for all
//! chunks that ask (`missing.rs`), so only columns with chunks that promise something wait for it.
//! The same goes for what encoding needs to know of all vectors of a chunk.

use std::collections::BTreeMap;

use super::encoders::{self, Candidate, DerivedChunks, LzChunks};
use super::launch::Launcher;
use super::missing::{self, Order, Requests};
use super::statistics::ChunkWords;
use super::words::Words;
use super::write::{self, Job, Origin, PendingBuffer};
use crate::chunk::EncodedNode;
use crate::encoding::lz::{LzBytes, Promise, Shape};
use crate::encoding::plan::{self, Context, Nesting, Parameters, Plan};
use crate::encoding::statistics::{Answer, Missing};
use crate::encoding::{Encoding, rank};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::options::Options;

/// Words by number.
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The number of the first ones.
    first: usize,
    options: Options,
}

/// A part that is missing of a chunk of some words.
#[derive(Debug, Clone, Copy)]
pub(super) enum WordsPart {
    /// What an encoding looks for in all rows, given an argument.
    Search(Encoding, u64),
    /// The words that are its children, where the search has found what pays.
    Children(Encoding),
    /// Matches of LZ in a sample.
    Matches(LzBytes),
    /// What encodings, as bits, need to know of all vectors.
    AllVectors(u32),
    /// The chunk, compressed by LZ with segments of a shape.
    Compressed(Shape),
}

/// Parts of one step are computed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Search(Encoding),
    Children(Encoding),
    Matches,
    AllVectors,
    Compressed,
}

impl WordsPart {
    fn step(&self) -> Step {
        match *self {
            Self::Search(encoding, _) => Step::Search(encoding),
            Self::Children(encoding) => Step::Children(encoding),
            Self::Matches(_) => Step::Matches,
            Self::AllVectors(_) => Step::AllVectors,
            Self::Compressed(_) => Step::Compressed,
        }
    }
}

impl Step {
    /// Its place in the order in which the planner asks; what encoding asks for comes last.
    fn order(self) -> u8 {
        let rank = |encoding| rank(encoding) as u8;
        match self {
            Self::Search(encoding) => 2 * rank(encoding),
            Self::Children(encoding) => 2 * rank(encoding) + 1,
            Self::Matches => 2 * rank(Encoding::Lz),
            Self::AllVectors | Self::Compressed => u8::MAX,
        }
    }
}

struct Node {
    words: Words,
    nesting: Nesting,
    /// The steps by which the words have been derived, in the order in which the planner asks.
    path: Order,
    derived: BTreeMap<Encoding, DerivedWords>,
    /// What LZ makes of a sample of chunks.
    matches: BTreeMap<usize, (Candidate, Option<Promise>)>,
    compressed: Vec<LzChunks>,
}

/// What has been derived from some chunks of words for an encoding.
struct DerivedWords {
    derived: Box<dyn DerivedChunks>,
    /// Numbers of the words that are its children, once they have been asked for.
    children: Vec<usize>,
}

impl Node {
    /// What nodes of an encoding are made of, if that is derived.
    fn derived(&self, encoding: Encoding, chunk: usize) -> Option<&DerivedWords> {
        self.derived.get(&encoding).filter(|one| one.derived.found(chunk).is_some())
    }
}

impl Tree {
    pub fn new(options: &Options) -> Self {
        Self::numbered_from(0, options)
    }

    /// A tree beside other words, which have the numbers below `first`.
    pub fn numbered_from(first: usize, options: &Options) -> Self {
        Self { nodes: Vec::new(), first, options: options.clone() }
    }

    fn at(&self, number: usize) -> &Node {
        &self.nodes[number - self.first]
    }

    fn at_mut(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number - self.first]
    }

    /// Adds words that are being measured, and are planned in a context; their number.
    pub fn add(&mut self, words: Words, context: &Context<'_>) -> usize {
        let path = Order::default().then(self.nodes.len() as u8);
        self.add_at(path, words, context.nesting())
    }

    fn add_at(&mut self, path: Order, words: Words, nesting: Nesting) -> usize {
        self.nodes.push(Node {
            words,
            nesting,
            path,
            derived: BTreeMap::new(),
            matches: BTreeMap::new(),
            compressed: Vec::new(),
        });
        self.first + self.nodes.len() - 1
    }

    pub fn words(&self, number: usize) -> &Words {
        &self.at(number).words
    }

    pub fn words_mut(&mut self, number: usize) -> &mut Words {
        &mut self.at_mut(number).words
    }

    /// What a search of all rows of a chunk has found, if there was one.
    pub fn found(&self, number: usize, encoding: Encoding, chunk: usize) -> Option<Option<usize>> {
        self.at(number).derived(encoding, chunk)?.derived.found(chunk)
    }

    /// The numbers of the words that are an encoding's children; none if they have not been made.
    pub fn children(&self, number: usize, encoding: Encoding, chunk: usize) -> &[usize] {
        self.at(number).derived(encoding, chunk).map_or(&[], |derived| &derived.children)
    }

    /// What LZ makes of a sample of a chunk, if that has been asked for.
    pub fn matches(&self, number: usize, chunk: usize) -> Option<Option<Promise>> {
        self.at(number).matches.get(&chunk).map(|(_, promise)| *promise)
    }

    /// Notes that a part of a chunk of some words is missing.
    pub fn ask<T>(
        &self,
        number: usize,
        part: WordsPart,
        requests: &Requests<(usize, WordsPart)>,
    ) -> Answer<T> {
        self.note(number, part, requests);
        Err(Missing)
    }

    fn note(&self, number: usize, part: WordsPart, requests: &Requests<(usize, WordsPart)>) {
        let order = match part.step().order() {
            u8::MAX => Order::LAST,
            order => self.at(number).path.then(order),
        };
        requests.note(order, (number, part));
    }

    /// The words of a number with what is derived from them, and the options.
    fn split(&mut self, number: usize) -> (&mut Node, &Options) {
        (&mut self.nodes[number - self.first], &self.options)
    }

    /// The statistics of a chunk of some words; what is missing is noted.
    pub fn chunk<'t>(
        &'t self,
        number: usize,
        chunk: usize,
        requests: &'t Requests<(usize, WordsPart)>,
    ) -> ChunkWords<'t> {
        ChunkWords::of_tree(self, number, chunk, requests)
    }

    /// Makes something of each of so many chunks, as [`missing::complete`] does.
    pub fn make<T: Send>(
        &mut self,
        launcher: &mut Launcher<'_>,
        chunks: usize,
        make: impl Fn(&Self, usize, &Requests<(usize, WordsPart)>) -> Result<Option<T>> + Sync,
    ) -> Result<Vec<T>> {
        missing::complete(launcher, self, chunks, make, Self::compute)
    }

    /// Computes what chunks miss of words, and waits for it.
    pub fn compute(
        &mut self,
        launcher: &mut Launcher<'_>,
        mut missing: Vec<(usize, (usize, WordsPart))>,
    ) -> Result<()> {
        let step = |(_, (number, part)): &(usize, (usize, WordsPart))| (*number, part.step());
        missing.sort_by_key(step);
        let mut measured = Vec::new();
        for of_step in missing.chunk_by(|one, other| step(one) == step(other)) {
            let (number, step) = step(&of_step[0]);
            let parts: Vec<(usize, WordsPart)> =
                of_step.iter().map(|(chunk, (_, part))| (*chunk, *part)).collect();
            match step {
                Step::Search(encoding) => self.search(launcher, number, encoding, &parts)?,
                Step::Children(encoding) => self.derive(launcher, number, encoding, &parts)?,
                Step::Matches => self.find_matches(launcher, number, &parts)?,
                Step::Compressed => self.compress(launcher, number, &parts)?,
                Step::AllVectors => {
                    let asked = |(chunk, part): &(usize, WordsPart)| match part {
                        WordsPart::AllVectors(asked) => {
                            Some(abi::AskedChunk { chunk: *chunk as u32, asked: *asked })
                        }
                        _ => None,
                    };
                    let asked: Vec<abi::AskedChunk> = parts.iter().filter_map(asked).collect();
                    self.words_mut(number).measure_rest(launcher, &asked)?;
                    measured.push(number);
                }
            }
        }
        measured.into_iter().try_for_each(|number| self.words_mut(number).read(launcher))
    }

    /// Searches all rows of chunks for what an encoding needs; waits.
    fn search(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        encoding: Encoding,
        parts: &[(usize, WordsPart)],
    ) -> Result<()> {
        let (node, options) = self.split(number);
        let argument = |(chunk, part): &(usize, WordsPart)| match part {
            WordsPart::Search(_, argument) => Some((*chunk, *argument)),
            _ => None,
        };
        let asked: Vec<(usize, u64)> = parts.iter().filter_map(argument).collect();
        let context = Context::nested(options, node.nesting);
        let deriver = encoders::deriver(encoding)?;
        let derived = deriver.search(launcher, &node.words, &asked, &deriver.below(&context))?;
        // All chunks that search have asked by now.
        match node.derived.insert(encoding, DerivedWords { derived, children: Vec::new() }) {
            None => Ok(()),
            Some(_) => Err(Error::device(format!("a second search for {encoding}"))),
        }
    }

    /// Makes and measures the words that are children of an encoding; waits.
    fn derive(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        encoding: Encoding,
        parts: &[(usize, WordsPart)],
    ) -> Result<()> {
        let (node, options) = self.split(number);
        let chunks: Vec<usize> = parts.iter().map(|(chunk, _)| *chunk).collect();
        let missing = || Error::device(format!("children of {encoding} without a search"));
        let derived = node.derived.get_mut(&encoding).ok_or_else(missing)?;
        let below = encoders::deriver(encoding)?.below(&Context::nested(options, node.nesting));
        let words = derived.derived.children(launcher, &node.words, &chunks, &below)?;
        let (path, nesting) = (node.path.then(Step::Children(encoding).order()), below.nesting());
        let mut numbers = Vec::with_capacity(words.len());
        for (index, words) in words.into_iter().enumerate() {
            numbers.push(self.add_at(path.then(index as u8), words, nesting));
        }
        for child in &numbers {
            self.words_mut(*child).read(launcher)?;
        }
        match self.at_mut(number).derived.get_mut(&encoding) {
            Some(derived) => derived.children = numbers,
            None => return Err(missing()),
        }
        Ok(())
    }

    /// Looks for matches of LZ in samples of chunks; waits.
    fn find_matches(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        parts: &[(usize, WordsPart)],
    ) -> Result<()> {
        let (Node { words, matches, .. }, options) = self.split(number);
        let from = words.bytes_of(launcher, parts.iter().map(|(chunk, _)| *chunk))?;
        let candidate = |((chunk, part), from): (&(usize, WordsPart), _)| match part {
            WordsPart::Matches(of) => Some(Candidate { chunk: *chunk, from, of: *of }),
            _ => None,
        };
        let candidates: Vec<Candidate> = parts.iter().zip(from).filter_map(candidate).collect();
        let promises = encoders::promises(launcher, &candidates, &options.lz)?;
        let found = candidates.into_iter().zip(promises);
        matches.extend(found.map(|(one, promise)| (one.chunk, (one, promise))));
        Ok(())
    }

    /// Compresses chunks by LZ, to scratch; waits for their sizes.
    fn compress(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        parts: &[(usize, WordsPart)],
    ) -> Result<()> {
        let Node { matches, compressed, .. } = self.at_mut(number);
        let chosen = |(chunk, part): &(usize, WordsPart)| match part {
            WordsPart::Compressed(shape) => Some((matches.get(chunk)?.0, *shape)),
            _ => None,
        };
        let chosen: Vec<(Candidate, Shape)> = parts.iter().filter_map(chosen).collect();
        compressed.push(LzChunks::new(launcher, &chosen)?);
        Ok(())
    }

    /// Encodes a chunk by plan or the next best, as [`plan::encode`] does; none where something
    /// is missing.
    pub fn encode(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        requests: &Requests<(usize, WordsPart)>,
    ) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let before = requests.len();
        let node = |plan: &Plan| match requests.len() > before {
            true => Ok(None),
            false => self.node(number, chunk, plan, requests),
        };
        let node = plan::first_kept(plan, node, |part: &PendingBuffer| part.len)?;
        if requests.len() > before {
            return Ok(None);
        }
        node.map(Some).ok_or_else(|| Error::device("words without an encoding"))
    }

    /// Encodes a chunk of which nothing is missing.
    pub fn encode_measured(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let node = self.encode(number, chunk, plan, &Requests::default())?;
        node.ok_or_else(|| Error::device("words that have not been measured"))
    }

    fn node(
        &self,
        number: usize,
        chunk: usize,
        plan: &Plan,
        requests: &Requests<(usize, WordsPart)>,
    ) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let node = self.at(number);
        let words = &node.words;
        let (origin, vector) = (Origin::Words(number), words.first_vector(chunk));
        let part = |len: usize| PendingBuffer { len, origin, vector };
        if let Parameters::Lz(shape) = plan.parameters {
            let Some(compressed) = node.compressed.iter().find(|one| one.has(chunk)) else {
                self.note(number, WordsPart::Compressed(shape), requests);
                return Ok(None);
            };
            let mut node = words.empty_node(chunk, plan.encoding);
            compressed.fill(chunk, &mut node, part)?;
            return Ok(Some(node));
        }
        let lacks = words.lacks(chunk, plan.encoding);
        if lacks != 0 {
            self.note(number, WordsPart::AllVectors(lacks), requests);
            return Ok(None);
        }
        let Some(derived) = node.derived(plan.encoding, chunk) else {
            return words.node(chunk, plan, &self.options, number);
        };
        let mut node = words.empty_node(chunk, plan.encoding);
        derived.derived.fill(words, chunk, plan, &part, &mut node)?;
        let before = requests.len();
        for (child, plan) in derived.children.iter().zip(&plan.children) {
            node.children.extend(self.encode(*child, chunk, plan, requests)?);
        }
        Ok((requests.len() == before).then_some(node))
    }

    /// Starts writing nodes of one origin and encoding, which is some of these words.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        match origin {
            Origin::Words(number) => self.write_words(launcher, number, encoding, jobs),
            Origin::Transformed(number) => {
                self.words(number).write_transformed(launcher, encoding, &write::targets(jobs))
            }
            _ => Err(Error::device(format!("a node of {origin:?} among words"))),
        }
    }

    fn write_words(
        &self,
        launcher: &mut Launcher<'_>,
        number: usize,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        let Node { words, derived, compressed, .. } = self.at(number);
        if encoding == Encoding::Lz {
            let of_chunks = jobs.iter().map(|job| (words.chunk_at(job.vector), job));
            return compressed.iter().try_for_each(|one| one.write(launcher, of_chunks.clone()));
        }
        match derived.get(&encoding) {
            Some(one) => one.derived.write(launcher, words, jobs),
            None => words.write(launcher, encoding, &write::targets(jobs)),
        }
    }
}
