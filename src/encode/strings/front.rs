//! Front coding of chunks of strings, of the column or of its dictionaries: prefixes are words as
//! others, and suffixes strings as others (`derived.rs`, `kernels/encode_front.cu`).
//!
//! ```text
//! sampled vectors --prefixes--> what they save, of all chunks
//! chunks that ask --prefixes, places--> bytes of suffixes    --> host allocates
//!                 --copy--> suffixes, measured; prefixes, measured
//! ```
//!
//! The host waits twice where chunks ask, and once more when they are planned, for the codes of
//! suffixes.

use std::collections::BTreeMap;

use super::StringColumn;
use super::chunks::{Family, StringChunks, lengths_source};
use super::derived::{DerivedStrings, PendingStrings, ScratchStrings, borders_of};
use super::statistics::ChunkDerived;
use super::tables::GroupTables;
use crate::chunk::EncodedNode;
use crate::encode::launch::{Launcher, Pending, Scope};
use crate::encode::measurements::Measurements;
use crate::encode::missing::{Order, Requests};
use crate::encode::statistics::ChunkSample;
use crate::encode::tree::{self, Tree};
use crate::encode::words::Words;
use crate::encode::write::{Job, Origin, PendingBuffer};
use crate::encoding::constant::MAX_VALUE_BYTES;
use crate::encoding::plan::{Context, Nesting, Plan};
use crate::encoding::statistics::{Answer, Child, Missing, Prefixes, SAMPLED_VECTORS};
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DevicePtr, abi};
use crate::lanes::VECTOR;
use crate::options::Options;

/// What is missing of the front coding of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) enum FrontPart {
    /// Its prefixes and suffixes.
    Split,
    /// A part of its prefixes.
    Prefixes((usize, tree::WordsPart)),
    /// A symbol table of its suffixes' own.
    SuffixTable,
}

/// What a chunk misses of its front coding.
#[derive(Default)]
pub(super) struct FrontRequests {
    own: Requests<FrontPart>,
    of_prefixes: Requests<(usize, tree::WordsPart)>,
}

impl FrontRequests {
    /// Notes that a symbol table of the suffixes' own is missing.
    pub(super) fn note_suffix_table(&self) {
        self.own.note(Order::default().then(1), FrontPart::SuffixTable);
    }

    /// Notes the same as parts of others, within `order`.
    pub(super) fn forward<P>(self, to: &Requests<P>, order: Order, part: impl Fn(FrontPart) -> P) {
        let Self { own, of_prefixes } = self;
        of_prefixes.forward(&own, Order::default().then(0), FrontPart::Prefixes);
        own.forward(to, order, part);
    }
}

/// Strings that are front-coded, and what belongs to their chunks.
#[derive(Clone, Copy)]
pub(super) struct FrontSource<'a> {
    pub(super) column: &'a StringColumn,
    pub(super) chunks: &'a StringChunks,
    pub(super) tables: GroupTables<'a>,
    /// The chunks of the column that these chunks are, or are derived from; none if they are its.
    pub(super) of_column: Option<&'a [usize]>,
}

/// Prefixes of the sampled vectors of all chunks, which kernels have been started to find.
pub(super) struct PendingFronts {
    samples: Pending<abi::FrontSample>,
    lengths: Words,
    family: Family,
    nesting: Nesting,
    options: Options,
}

/// The front coding of the chunks of some strings.
pub(super) struct Fronts {
    samples: Vec<abi::FrontSample>,
    /// What the prefixes of the sampled vectors come to as words.
    totals: Vec<abi::ChunkTotals>,
    /// That of the suffixes.
    family: Family,
    /// Of the strings.
    nesting: Nesting,
    options: Options,
    /// Numbers of chunks that have been split, among the suffixes.
    numbers: BTreeMap<usize, usize>,
    prefixes: Tree,
    suffixes: Option<DerivedStrings>,
}

impl PendingFronts {
    /// Starts looking at a sample of all chunks, which have so many rows each; of strings that are
    /// planned in a context, and whose suffixes are of a family. Their memory is of a scope
    /// ([`Scope::SampledPrefixes`]), which is released once they have been read.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunk_rows: usize,
        rows: &[u32],
        family: Family,
        context: &Context<'_>,
    ) -> Result<Self> {
        launcher.in_scope(Scope::SampledPrefixes, |launcher| {
            Self::start_in_scope(launcher, column, chunk_rows, rows, family, context)
        })
    }

    fn start_in_scope(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunk_rows: usize,
        rows: &[u32],
        family: Family,
        context: &Context<'_>,
    ) -> Result<Self> {
        let chunks: Vec<abi::FrontChunk> =
            (0..).zip(rows).map(|(number, rows)| abi::FrontChunk { number, rows: *rows }).collect();
        let vectors = SAMPLED_VECTORS.min(chunk_rows / VECTOR);
        let sampled_rows = chunks.len() * vectors * VECTOR;
        let prefixes = launcher.allocate(sampled_rows * 4)?;
        let samples = launcher.allocate(chunks.len() * size_of::<abi::FrontSample>())?;
        let arguments = abi::FrontArguments {
            view: column.view(chunk_rows),
            chunks: launcher.upload(&chunks)?,
            prefixes: prefixes.pointer(),
            samples: samples.pointer(),
            sampled_vectors: vectors as u32,
            most_bytes: MAX_VALUE_BYTES as u32,
            ..Default::default()
        };
        let kernel = column.by_width(kernels::FRONT_SAMPLE);
        launcher.launch(kernel, chunks.len(), &arguments)?;
        let samples = launcher.result(&samples, 0, chunks.len())?;
        let source = lengths_source(prefixes.pointer(), sampled_rows, vectors);
        let most = (vectors * VECTOR) as u32;
        let counts = rows.iter().map(|rows| *rows.min(&most)).collect();
        let options = context.options.clone();
        let asked = Measurements::of_lengths(&options);
        let lengths = Words::derived(launcher, Physical::U32, source, counts, asked)?;
        Ok(Self { samples, lengths, family, nesting: context.nesting(), options })
    }

    /// Waits for that.
    pub(super) fn read(mut self, launcher: &Launcher<'_>) -> Result<Fronts> {
        self.lengths.read(launcher)?;
        let Self { samples, lengths, family, nesting, options } = self;
        Ok(Fronts {
            samples: launcher.read(&samples)?,
            totals: lengths.totals,
            family,
            nesting,
            numbers: BTreeMap::new(),
            prefixes: Tree::numbered_from(family.first_of_tree(), &options),
            suffixes: None,
            options,
        })
    }
}

impl Fronts {
    /// What the prefixes of the sampled vectors of a chunk save, which has so many vectors.
    pub(super) fn sampled(&self, chunk: usize, vectors: usize) -> Prefixes<'_> {
        let abi::FrontSample { saved, bytes } = self.samples[chunk];
        Prefixes {
            saved: saved.into(),
            bytes: bytes as usize,
            lengths: Box::new(ChunkSample::new(&self.totals[chunk], Physical::U32, vectors)),
        }
    }

    /// Statistics of a chunk's prefixes and suffixes; notes that it has to be split.
    pub(super) fn parts<'f>(
        &'f self,
        chunk: usize,
        requests: &'f FrontRequests,
    ) -> Answer<Vec<Child<'f>>> {
        let (Some(number), Some(suffixes)) = (self.numbers.get(&chunk), &self.suffixes) else {
            requests.own.note(Order::default(), FrontPart::Split);
            return Err(Missing);
        };
        let prefixes =
            self.prefixes.chunk(self.family.first_of_tree(), chunk, &requests.of_prefixes);
        let suffixes = ChunkDerived::of_suffixes(suffixes, *number, requests);
        Ok(vec![Box::new(prefixes), Box::new(suffixes)])
    }

    /// Computes what chunks miss; waits.
    pub(super) fn compute(
        &mut self,
        launcher: &mut Launcher<'_>,
        of: FrontSource<'_>,
        missing: Vec<(usize, FrontPart)>,
    ) -> Result<()> {
        let (mut split, mut of_prefixes, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for (chunk, part) in missing {
            match part {
                FrontPart::Split => split.push(chunk),
                FrontPart::Prefixes(part) => of_prefixes.push((chunk, part)),
                FrontPart::SuffixTable => tables.push(self.of(chunk)?.0),
            }
        }
        if !split.is_empty() {
            self.split(launcher, of, &split)?;
        }
        if !of_prefixes.is_empty() {
            self.prefixes.compute(launcher, of_prefixes)?;
        }
        match &mut self.suffixes {
            _ if tables.is_empty() => Ok(()),
            Some(suffixes) => suffixes.train(launcher, &tables),
            None => Err(no_suffixes()),
        }
    }

    /// Splits some chunks, which ascend, into prefixes and suffixes; waits.
    fn split(
        &mut self,
        launcher: &mut Launcher<'_>,
        of: FrontSource<'_>,
        asked: &[usize],
    ) -> Result<()> {
        let FrontSource { column, chunks, tables, of_column } = of;
        let all_rows = column.rows.next_multiple_of(VECTOR);
        let prefixes = launcher.allocate(all_rows * 4)?.pointer();
        let scope = launcher.scope;
        let suffixes = launcher
            .in_scope(Scope::Splitting, |launcher| split(launcher, of, asked, prefixes, scope))?;
        launcher.release(Scope::Splitting);
        let of = asked;
        let options = &self.options;
        let column_chunks: Vec<usize> =
            of.iter().map(|chunk| of_column.map_or(*chunk, |all| all[*chunk])).collect();
        let pending = PendingStrings::start(
            launcher,
            suffixes,
            &column_chunks,
            &tables,
            self.family,
            options,
        )?;
        let below = Context::nested(options, self.nesting).below();
        let source = lengths_source(prefixes, all_rows, chunks.chunk_vectors());
        let mut split = vec![0; chunks.count()];
        of.iter().for_each(|&chunk| split[chunk] = chunks.rows(chunk) as u32);
        let asked = Measurements::by(&below, Physical::U32);
        let words = Words::derived(launcher, Physical::U32, source, split, asked)?;
        let number = self.prefixes.add(words, &below);
        self.prefixes.words_mut(number).read(launcher)?;
        self.suffixes = Some(pending.read(launcher)?);
        self.numbers = of.iter().enumerate().map(|(number, &chunk)| (chunk, number)).collect();
        Ok(())
    }

    /// Measures what prefixes of chunks need to be encoded and makes the codes of suffixes, given
    /// the plans of chunks that have some: bodies are encoded stretch by stretch, and find all
    /// measured.
    pub(super) fn measure(
        &mut self,
        launcher: &mut Launcher<'_>,
        plans: &[Option<&Plan>],
    ) -> Result<()> {
        let Some(suffixes) = &mut self.suffixes else { return Ok(()) };
        let child = |chunk: usize, child: usize| plans[chunk]?.children.get(child);
        let number = self.family.first_of_tree();
        self.prefixes.make(launcher, plans.len(), |tree, chunk, requests| {
            match child(chunk, 0) {
                Some(plan) => tree.encode(number, chunk, plan, requests).map(|node| node.map(drop)),
                None => Ok(Some(())),
            }
        })?;
        let of_suffixes: Vec<Option<&Plan>> =
            self.numbers.keys().map(|chunk| child(*chunk, 1)).collect();
        suffixes.make_codes(launcher, &of_suffixes)
    }

    /// The node of a chunk of these strings.
    pub(super) fn node(
        &self,
        strings: &StringChunks,
        chunk: usize,
        plan: &Plan,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let bytes = strings.bytes(chunk);
        let mut node = EncodedNode::new(Encoding::Front, Physical::Bytes, strings.rows(chunk));
        node.parameters[0] = bytes as u64;
        node.buffers = vec![strings.starts(chunk, bytes)];
        node.children = self.children(chunk, plan)?;
        Ok(node)
    }

    /// The nodes of a chunk's prefixes and of its suffixes.
    fn children(&self, chunk: usize, plan: &Plan) -> Result<Vec<EncodedNode<PendingBuffer>>> {
        let (number, strings) = self.of(chunk)?;
        let [prefixes, suffixes] = plan.children.as_slice() else {
            return Err(Error::device("front coding without plans of its parts"));
        };
        let first = self.family.first_of_tree();
        let prefixes = self.prefixes.encode_measured(first, chunk, prefixes)?;
        Ok(vec![prefixes, strings.node(number, suffixes, None)?])
    }

    /// The number of a chunk among the suffixes, and these.
    fn of(&self, chunk: usize) -> Result<(usize, &DerivedStrings)> {
        let number = self.numbers.get(&chunk).copied();
        let both = number.zip(self.suffixes.as_ref());
        both.ok_or_else(no_suffixes)
    }

    /// Starts writing nodes of one origin and encoding that are words.
    pub(super) fn write_words(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        match (origin, &self.suffixes) {
            (Origin::Words(number), Some(suffixes)) if number < self.family.first_of_tree() => {
                suffixes.write_lengths(launcher, number, encoding, jobs)
            }
            _ => self.prefixes.write(launcher, origin, encoding, jobs),
        }
    }

    /// Starts writing nodes of one encoding that are suffixes, given chunks.
    pub(super) fn write_suffixes<'j>(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        jobs: impl Iterator<Item = (usize, &'j Job)>,
    ) -> Result<()> {
        let jobs: Vec<(usize, &Job)> =
            jobs.map(|(chunk, job)| Ok((self.of(chunk)?.0, job))).collect::<Result<_>>()?;
        match &self.suffixes {
            Some(suffixes) => suffixes.write(launcher, encoding, &jobs),
            None => Err(no_suffixes()),
        }
    }
}

/// The error for a chunk that has not been split.
fn no_suffixes() -> Error {
    Error::device("suffixes were expected, the chunk has none")
}

/// Starts writing the prefixes of all rows of some chunks, which ascend, and their suffixes, which
/// are kept for a scope; waits for the bytes of these.
fn split(
    launcher: &mut Launcher<'_>,
    FrontSource { column, chunks, .. }: FrontSource<'_>,
    asked: &[usize],
    prefixes: DevicePtr<u32>,
    scope: Scope,
) -> Result<ScratchStrings> {
    let counts: Vec<u32> = asked.iter().map(|chunk| chunks.rows(*chunk) as u32).collect();
    let most = counts.iter().max().copied().unwrap_or(0) as usize;
    let suffix_rows = most.next_multiple_of(VECTOR);
    let rows = asked.len() * suffix_rows;
    let chunk =
        |(number, rows): (&usize, &u32)| abi::FrontChunk { number: *number as u32, rows: *rows };
    let of: Vec<abi::FrontChunk> = asked.iter().zip(&counts).map(chunk).collect();
    let starts = launcher.allocate(rows * 4)?;
    let found = launcher.allocate(asked.len() * size_of::<abi::FrontSuffixes>())?;
    let offsets =
        launcher.in_scope(scope, |launcher| launcher.allocate_zero_ended((rows + 1) * 8))?;
    let arguments = abi::FrontArguments {
        view: column.view(chunks.chunk_vectors() * VECTOR),
        chunks: launcher.upload(&of)?,
        prefixes,
        suffixes: found.pointer(),
        starts: starts.pointer(),
        offsets: offsets.pointer(),
        suffix_rows: suffix_rows as u32,
        ..Default::default()
    };
    let launch = |launcher: &mut Launcher<'_>, kernel: Kernel<_>, arguments| {
        let blocks = suffix_rows.div_ceil(kernel.block);
        let arguments = abi::FrontArguments { blocks_per_chunk: blocks as u32, ..arguments };
        launcher.launch(kernel, asked.len() * blocks, &arguments)
    };
    launch(launcher, column.by_width(kernels::FRONT_PREFIXES), arguments)?;
    launcher.launch(column.by_width(kernels::FRONT_PLACES), asked.len(), &arguments)?;
    let found: Vec<abi::FrontSuffixes> =
        launcher.read(&launcher.result(&found, 0, asked.len())?)?;
    let borders = borders_of(found.iter().map(|suffixes| suffixes.bytes));
    let values = launcher
        .in_scope(scope, |launcher| launcher.allocate_zero_ended(borders[asked.len()] as usize))?;
    let before = launcher.upload(&borders)?;
    let to = abi::FrontArguments { before, values: values.pointer(), ..arguments };
    launch(launcher, column.by_width(kernels::FRONT_COPY), to)?;
    let singles = found.iter().map(|suffixes| suffixes.is_single != 0).collect();
    Ok(ScratchStrings::new(column, [offsets, values], counts, singles, borders, suffix_rows))
}
