//! Dictionaries of strings: `kernels/encode_dict_strings.cu`.
//!
//! ```text
//! sample --(host asks for chunks)--> distinct values, sorted; a code for every row
//!                                     |                        '--> words as others (tree.rs)
//!                                     '--> host: planned and encoded as the CPU does
//! ```
//!
//! What is as much as rows stays on the device. Distinct values are fewer (at most three in four
//! rows, and mostly few), and come to the host: their encoding is the CPU's by construction, with
//! all that may nest in it. Chunks are worked on by all threads; on an NVIDIA H200 with 16 of them
//! that limits columns of many distinct values (docs/GPU.md).

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::StringColumn;
use super::plan::{DERIVED, lengths_source};
use crate::chunk::EncodedNode;
use crate::encode::asked::Asked;
use crate::encode::encoders::Tables;
use crate::encode::launch::{Launcher, Pending, Scope};
use crate::encode::tree::{Tree, limit};
use crate::encode::words::{Estimates, Words};
use crate::encode::write::{HostCopies, Job, Origin, Part};
use crate::encoding::dict::{Counted, strings_save};
use crate::encoding::fsst::Symbols;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{BytesValues, Encoding, Estimate, Input, Physical, Values, constant};
use crate::error::{Error, Result};
use crate::gpu::abi::encode::{SampledRows, Source};
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels::{self, Kernel};
use crate::lanes::VECTOR;
use crate::options::Options;

/// Starts looking at a sample of each chunk.
pub(super) fn sample(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    options: &Options,
) -> Result<Pending<SampledRows>> {
    let chunks = column.rows.div_ceil(options.chunk_rows);
    let scratch = launcher.allocate(chunks * size_of::<SampledRows>())?;
    let window = column.window(options.chunk_rows);
    let arguments = abi::SampleStringsArguments { window, chunks: scratch.address() };
    launcher.launch(column.by_width(kernels::SAMPLE_STRINGS), chunks, &arguments)?;
    launcher.result(&scratch, 0, chunks)
}

/// Byte strings one behind the other.
struct Texts {
    offsets: Vec<usize>,
    data: Vec<u8>,
}

impl Texts {
    fn input(&self) -> Input<'_> {
        let values = BytesValues { offsets: &self.offsets, data: &self.data };
        Input::new(Physical::Bytes, Values::Bytes(values))
    }
}

/// A chunk that may have a dictionary.
struct Entry {
    texts: Texts,
    symbols: Option<Arc<Symbols>>,
    /// The dictionary, once it has been asked for: its node, whose parts say where its bytes
    /// begin in the others.
    encoded: OnceLock<(EncodedNode<Part>, Vec<u8>)>,
}

/// The dictionaries of a column.
#[derive(Default)]
pub(super) struct Dictionaries {
    /// For each chunk.
    entries: Vec<Option<Entry>>,
    /// Codes, and what is derived from them; numbers as the parts of nodes have them.
    tree: Tree,
    codes: usize,
}

impl Dictionaries {
    /// Finds those that may be the least, and adds their estimates. `samples` are of chunks, and
    /// `symbols` those of a chunk's group.
    pub fn plan(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        options: &Options,
        samples: &[SampledRows],
        bytes: &[usize],
        symbols: impl Fn(usize) -> Option<Arc<Symbols>>,
        estimates: &mut [Estimates],
    ) -> Result<Self> {
        let rows =
            |chunk: usize| (column.rows - chunk * options.chunk_rows).min(options.chunk_rows);
        let promise = |(chunk, sample): (usize, &SampledRows)| {
            let rows = rows(chunk);
            let (counted, limit) = (sample.counted(rows), limit(&estimates[chunk]));
            let pays = limit > 0
                && bytes[chunk] <= rows * constant::MAX_VALUE_BYTES
                && counted.repeats()
                && counted.may_pay(rows, counted.distinct, limit, strings_save);
            (pays && counted.most(rows) > 0).then_some((counted, limit))
        };
        let promises: Vec<Option<(Counted, usize)>> =
            samples.iter().enumerate().map(promise).collect();
        let asked: Vec<(usize, usize)> = (promises.iter().enumerate())
            .filter_map(|(chunk, promise)| Some((chunk, promise.as_ref()?.0.most(rows(chunk)))))
            .collect();
        if asked.is_empty() {
            return Ok(Self::default());
        }
        let scope = launcher.scope;
        let found = launcher.in_scope(Scope::Distinct, |launcher| {
            let mut found = Finder::find(launcher, column, options, &asked)?;
            found.tables.keep(|chunk, count| {
                promises[chunk].is_some_and(|(counted, limit)| {
                    counted.may_pay(rows(chunk), count, limit, strings_save)
                })
            });
            if found.tables.is_empty() {
                return Ok(None);
            }
            let chunks: Vec<usize> = found.tables.chunks().collect();
            let (codes, texts) = found.codes_and_texts(launcher, scope)?;
            Ok::<_, Error>(Some((chunks, codes, texts)))
        })?;
        launcher.release(Scope::Distinct);
        let Some((chunks, codes, texts)) = found else { return Ok(Self::default()) };
        let mut tree = Tree::numbered_from(DERIVED);
        let chunk_vectors = options.chunk_rows / VECTOR;
        let source = lengths_source(codes, column.rows.next_multiple_of(VECTOR), chunk_vectors);
        let codes = of_codes(launcher, source, &chunks, rows, options)?;
        let codes = tree.add(codes);
        let entries: Vec<(usize, Entry)> = (chunks.iter().zip(texts))
            .map(|(&chunk, texts)| {
                let (symbols, encoded) = (symbols(chunk), OnceLock::new());
                (chunk, Entry { texts, symbols, encoded })
            })
            .collect();
        let plan =
            |(_, entry): &(usize, Entry)| plan::plan(&entry.texts.input(), &entry.context(options));
        let dictionaries: Vec<Plan> = entries.par_iter().map(plan).collect();
        let below = Context::new(options, None).in_dictionary();
        let plans = tree.plan(launcher, codes, &below)?;
        for (&chunk, dictionary) in chunks.iter().zip(dictionaries) {
            let of_codes = tree.plan_of(codes, chunk, &plans, &below);
            let children = vec![of_codes.into_owned(), dictionary];
            let starts = rows(chunk).div_ceil(VECTOR) * 8;
            let estimate = Estimate { children, ..Estimate::of([starts]) };
            if strings_save(estimate.stored_bytes(), limit(&estimates[chunk])) {
                estimates[chunk].push((Encoding::Dict, estimate));
            }
        }
        let mut all: Vec<Option<Entry>> = samples.iter().map(|_| None).collect();
        for (chunk, entry) in entries {
            all[chunk] = Some(entry);
        }
        // Bodies are planned stretch by stretch, and find all codes measured.
        let planned = |chunk: usize| {
            let (_, estimate) =
                estimates[chunk].last().filter(|(one, _)| *one == Encoding::Dict)?;
            estimate.children.first()
        };
        tree.make(launcher, estimates.len(), |tree, chunk, lacking| match planned(chunk) {
            Some(plan) => {
                tree.encode(codes, chunk, plan, &below, lacking).map(|node| node.map(drop))
            }
            None => Ok(Some(())),
        })?;
        Ok(Self { entries: all, tree, codes })
    }

    /// A chunk's node. `starts` is where its vectors begin.
    pub fn node(
        &self,
        chunk: usize,
        rows: usize,
        bytes: usize,
        starts: Part,
        plan: &Plan,
        options: &Options,
    ) -> Result<EncodedNode<Part>> {
        let entry = self.entries.get(chunk).and_then(Option::as_ref);
        let (Some(entry), [codes, dictionary]) = (entry, plan.children.as_slice()) else {
            return Err(Error::device("a dictionary of a chunk without"));
        };
        let below = Context::new(options, None).in_dictionary();
        let mut node = EncodedNode::new(Encoding::Dict, Physical::Bytes, rows);
        node.parameters[0] = bytes as u64;
        node.buffers = vec![starts];
        node.children = vec![
            self.tree.encode_measured(self.codes, chunk, codes, &below)?,
            entry.dictionary(dictionary, options)?,
        ];
        Ok(node)
    }

    /// Starts writing nodes of one origin and encoding that belong to codes.
    pub fn write_codes(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        self.tree.write(launcher, origin, encoding, jobs)
    }

    /// Starts copying nodes of dictionaries of chunks from `first` on.
    pub fn write_dictionaries(
        &self,
        launcher: &mut Launcher<'_>,
        first: usize,
        jobs: &[Job],
    ) -> Result<()> {
        let mut copies = HostCopies::default();
        for job in jobs {
            let entry = self.entries.get(first + job.chunk).and_then(Option::as_ref);
            let Some((_, bytes)) = entry.and_then(|entry| entry.encoded.get()) else {
                return Err(Error::device("a dictionary that has not been encoded"));
            };
            let mut at = job.vector as usize;
            for (to, len) in job.buffers.iter().zip(job.lens) {
                copies.add(*to, &bytes[at..at + len]);
                at += len;
            }
        }
        copies.start(launcher)
    }
}

impl Entry {
    fn context<'a>(&'a self, options: &'a Options) -> Context<'a> {
        Context::new(options, self.symbols.as_ref()).in_dictionary()
    }

    /// The node of the dictionary, which is encoded when it is first asked for.
    fn dictionary(&self, plan: &Plan, options: &Options) -> Result<EncodedNode<Part>> {
        if self.encoded.get().is_none() {
            let node = plan::encode(&self.texts.input(), plan, &self.context(options))?;
            let mut bytes = Vec::new();
            let node = placed(node, &mut bytes);
            // Another thread may have been faster, with the same.
            let _ = self.encoded.set((node, bytes));
        }
        let encoded = self.encoded.get().ok_or_else(|| Error::device("no dictionary"))?;
        Ok(encoded.0.clone())
    }
}

/// A node whose buffers have been put behind the others.
fn placed(node: EncodedNode, bytes: &mut Vec<u8>) -> EncodedNode<Part> {
    let mut out = EncodedNode::new(node.encoding, node.physical, node.len);
    out.parameters = node.parameters;
    let start = bytes.len() as u64;
    for buffer in node.buffers {
        out.buffers.push(Part { len: buffer.len(), origin: Origin::Host, vector: start });
        bytes.extend(buffer);
    }
    out.children = node.children.into_iter().map(|child| placed(child, bytes)).collect();
    out
}

/// The words of the codes of some chunks.
fn of_codes(
    launcher: &mut Launcher<'_>,
    source: Source,
    chunks: &[usize],
    rows: impl Fn(usize) -> usize,
    options: &Options,
) -> Result<Words> {
    let chunk_rows = source.chunk_vectors as usize * VECTOR;
    let mut coded = vec![0; (source.rows as usize).div_ceil(chunk_rows)];
    for &chunk in chunks {
        coded[chunk] = rows(chunk) as u32;
    }
    let below = Context::new(options, None).in_dictionary();
    Words::derived(launcher, Physical::U32, source, coded, Asked::of_codes(&below))
}

/// Looks for distinct values.
struct Finder<'a> {
    column: &'a StringColumn,
    window: abi::FsstWindow,
    tables: Tables,
}

impl<'a> Finder<'a> {
    /// Looks for those of some chunks, of which no more than so many are wanted; waits.
    fn find(
        launcher: &mut Launcher<'_>,
        column: &'a StringColumn,
        options: &Options,
        asked: &[(usize, usize)],
    ) -> Result<Self> {
        let (tables, counts) = Tables::allocate(launcher, asked)?;
        let mut finder = Self { column, window: column.window(options.chunk_rows), tables };
        let tables = finder.tables.upload(launcher)?;
        let arguments = finder.arguments(tables, counts.address());
        finder.launch(launcher, kernels::DISTINCT_STRINGS_FIND, &arguments)?;
        finder.tables.read(launcher, &counts)?;
        Ok(finder)
    }

    /// Starts making codes, which are kept for a scope, and waits for the distinct values: where
    /// codes will be, and the values of each chunk.
    fn codes_and_texts(
        &mut self,
        launcher: &mut Launcher<'_>,
        scope: Scope,
    ) -> Result<(u64, Vec<Texts>)> {
        let count = self.tables.number_values();
        let lengths = launcher.allocate(count * 4)?;
        let rows = self.column.rows.next_multiple_of(VECTOR);
        let codes = launcher.in_scope(scope, |launcher| launcher.allocate(rows * 4))?.address();
        let tables = self.tables.upload(launcher)?;
        let counts = launcher.upload(self.tables.counts())?;
        let arguments = abi::DistinctStringsArguments {
            codes,
            lengths: lengths.address(),
            ..self.arguments(tables, counts)
        };
        let kernel = self.column.by_width(kernels::DISTINCT_STRINGS_SORT);
        launcher.launch(kernel, self.tables.len(), &arguments)?;
        let lengths = launcher.result::<u32>(&lengths, 0, count)?;
        self.launch(launcher, kernels::DISTINCT_STRINGS_CODES, &arguments)?;
        let lengths = launcher.read(&lengths)?;
        let mut bytes = 0;
        let places = lengths.iter().map(|length| {
            let place = bytes;
            bytes += u64::from(*length);
            place
        });
        let places: Vec<u64> = places.collect();
        let data: Vec<u8> = if bytes > 0 {
            let out = launcher.allocate(bytes as usize)?;
            let places = launcher.upload(&places)?;
            let arguments =
                abi::DistinctStringsArguments { places, bytes: out.address(), ..arguments };
            self.launch(launcher, kernels::DISTINCT_STRINGS_COPY, &arguments)?;
            let data = launcher.result(&out, 0, bytes as usize)?;
            launcher.read(&data)?
        } else {
            Vec::new()
        };
        let mut all: Vec<(&[u32], &[u8])> = Vec::with_capacity(self.tables.len());
        let (mut lengths, mut data) = (lengths.as_slice(), data.as_slice());
        let mut firsts = places.iter().copied().chain([bytes]);
        let mut start = firsts.next().unwrap_or(0);
        for count in self.tables.counts() {
            let (own, other) = lengths.split_at(*count as usize);
            lengths = other;
            let end = firsts.nth(own.len().saturating_sub(1)).unwrap_or(bytes);
            let (values, other) = data.split_at((end - start) as usize);
            data = other;
            start = end;
            all.push((own, values));
        }
        let texts = all.into_par_iter().map(|(lengths, values)| {
            let mut offsets = Vec::with_capacity(lengths.len() + 1);
            let mut end = 0;
            offsets.push(0);
            offsets.extend(lengths.iter().map(|length| {
                end += *length as usize;
                end
            }));
            Texts { offsets, data: values.to_vec() }
        });
        Ok((codes, texts.collect()))
    }

    fn arguments(&self, tables: u64, counts: u64) -> abi::DistinctStringsArguments {
        abi::DistinctStringsArguments {
            window: self.window,
            tables,
            counts,
            seed: self.tables.seed(),
            blocks_per_table: self.blocks_per_table() as u32,
            ..Default::default()
        }
    }

    fn blocks_per_table(&self) -> usize {
        let vectors = self.window.chunk_rows as usize / VECTOR;
        vectors.div_ceil(kernels::DISTINCT_STRINGS_FIND[0].block)
    }

    /// Launches a kernel of which blocks belong to tables.
    fn launch(
        &self,
        launcher: &mut Launcher<'_>,
        kernels: [Kernel; 2],
        arguments: &abi::DistinctStringsArguments,
    ) -> Result<()> {
        let blocks = self.tables.len() * self.blocks_per_table();
        launcher.launch(self.column.by_width(kernels), blocks, arguments)
    }
}
