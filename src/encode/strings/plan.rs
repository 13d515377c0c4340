//! What is known of a column before codes are made, and how each chunk is stored.

use std::sync::Arc;

use rayon::prelude::*;

use super::StringColumn;
use super::bodies::Copies;
use super::chunks::{StringChunks, TableSample, WordNumbers, lengths_source};
use super::dict::{self, Dictionaries, GroupTables};
use super::lengths::{Arrays, Lengths, range};
use super::tables::{self, Table, Tables, Trainers, sampled};
use crate::chunk::{EncodedNode, aligned};
use crate::encode::MIN_CHUNKS;
use crate::encode::asked::Asked;
use crate::encode::bits::{Bitmaps, Counted, Which};
use crate::encode::encoders::{self, Candidate, Compressed};
use crate::encode::launch::{Launcher, Pending, Scope, StreamRole};
use crate::encode::source::Column;
use crate::encode::tree::limit;
use crate::encode::words::{Estimates, Words};
use crate::encode::write::{self, Origin, Part};
use crate::encoding::fsst::{self, Sampled};
use crate::encoding::lz::Leftover;
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{Encoding, Estimate, Physical, constant};
use crate::error::Result;
use crate::gpu::DevicePtr;
use crate::gpu::abi::{self, SampledRows};
use crate::gpu::kernels;
use crate::lanes::VECTOR;
use crate::options::Options;

/// A column that is being looked at.
pub(super) struct Measured {
    pub(super) lengths: Lengths,
    value_words: Words,
    singles: Pending<abi::StringSingle>,
    bounds: Pending<abi::StringBounds>,
    /// How often values come again in each chunk, if dictionaries are allowed.
    repetitions: Option<Pending<SampledRows>>,
    /// Valid rows of each chunk, if there may be nulls.
    counts: Option<Pending<[u32; 2]>>,
    validity: Option<Column>,
    /// Tables of groups, and what they make of chunks.
    pub(super) tables: Option<(Tables, Pending<abi::FsstSample>)>,
    options: Options,
}

/// A column that has been looked at.
pub(super) struct Known {
    pub(super) strings: StringChunks,
    pub(super) validity: Option<Column>,
    /// The bits of these, once they are planned.
    pub(super) bitmaps: Option<Bitmaps>,
    pub(super) singles: Vec<abi::StringSingle>,
    /// Known last: nothing depends on it.
    pub(super) bounds: Pending<abi::StringBounds>,
    /// Valid rows of each chunk.
    pub(super) valid: Vec<usize>,
    /// The table of each group, the first of them on the device, and what they make of a sample of
    /// each chunk.
    tables: Vec<Option<Arc<Table>>>,
    first_table: DevicePtr<abi::FsstTrained>,
    samples: Vec<abi::FsstSample>,
    /// How often values come again in each chunk; none if dictionaries are not allowed.
    repetitions: Vec<SampledRows>,
    pub(super) dictionaries: Dictionaries,
    /// Chunks that become smaller as bytes.
    pub(super) compressed: Compressed,
}

/// How a chunk is to be stored.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) plan: Plan,
    /// The table of its codes, if it is to have some or may turn out to.
    pub(super) table: Option<Arc<Table>>,
}

/// A table, and what it makes of a sample of a chunk.
type Tried = (Arc<Table>, Sampled);

impl Measured {
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        options: &Options,
    ) -> Result<Self> {
        let chunk_vectors = options.chunk_rows / VECTOR;
        let vectors = column.rows.div_ceil(VECTOR);
        let chunks = vectors.div_ceil(chunk_vectors);
        launcher.switch(StreamRole::After);
        launcher.wait_for(StreamRole::Main)?;
        launcher.switch(StreamRole::Main);
        let groups = options.groups(chunks);
        let lengths = Lengths::start(launcher, column, options.chunk_rows, groups)?;
        launcher.switch(StreamRole::After);
        let trainers = match options.allows(Encoding::Fsst) {
            true => Some(Trainers::prepare(launcher, lengths.groups.len())?),
            false => None,
        };
        let mut arrays = Arrays::default();
        let firsts = arrays.add(vectors * 8);
        let singles = arrays.add(chunks * size_of::<abi::StringSingle>());
        let extremes = arrays.add(vectors * 8);
        let bounds = arrays.add(chunks * size_of::<abi::StringBounds>());
        let scratch = launcher.allocate(arrays.len)?;
        // Memory that is allocated here is used on all streams, which wait for the main one.
        launcher.switch(StreamRole::Main);
        launcher.wait_for(StreamRole::After)?;
        launcher.switch(StreamRole::After);
        let of_values = abi::StringBoundsArguments {
            window: column.window(options.chunk_rows),
            firsts: scratch.pointer_at(firsts),
            singles: scratch.pointer_at(singles),
            extremes: scratch.pointer_at(extremes),
            bounds: scratch.pointer_at(bounds),
            borders: DevicePtr::NULL,
        };
        let kernel = column.by_width(kernels::STRING_FIRSTS);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &of_values)?;
        launcher.launch(column.by_width(kernels::STRING_SINGLES), chunks, &of_values)?;
        let singles = launcher.result(&scratch, singles, chunks)?;
        let repetitions = match options.allows(Encoding::Dict) {
            true => Some(dict::sample(launcher, column, options)?),
            false => None,
        };
        let validity = (column.valid)
            .map(|valid| Column::of_validity(column.memory.clone(), valid, column.rows));
        let counts = match &validity {
            Some(validity) => Some(write::count_bits(launcher, validity, options.chunk_rows)?),
            None => None,
        };
        // Now it needs lengths.
        launcher.wait_for(StreamRole::Main)?;
        let source = lengths_source(lengths.window.value_lengths, column.rows, chunk_vectors);
        let asked = Asked::of_lengths(options);
        let value_words = Words::measure(launcher, Physical::U32, source, asked)?;
        launcher.switch(StreamRole::Main);
        let tables = match trainers {
            Some(trainers) => {
                Some(Tables::train(launcher, column, &lengths, &lengths.ranges, trainers)?)
            }
            None => None,
        };
        // Codes of first windows may follow at once. Bounds are waited for by nobody, and
        // while training goes on they would take the room of its few blocks.
        launcher.switch(StreamRole::Long);
        launcher.wait_for(StreamRole::Main)?;
        launcher.switch(StreamRole::Idle);
        launcher.wait_for(StreamRole::Main)?;
        let kernel = column.by_width(kernels::STRING_EXTREMES);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &of_values)?;
        launcher.launch(column.by_width(kernels::STRING_BOUNDS), chunks, &of_values)?;
        let bounds = launcher.result(&scratch, bounds, chunks)?;
        launcher.switch(StreamRole::Main);
        let tables = match tables {
            Some(tables) => {
                let range = |chunk: usize, group: usize| {
                    range(&(chunk..chunk + 1), chunk_vectors, column.rows, group, group)
                };
                let all: Vec<_> = (lengths.groups.iter().enumerate())
                    .flat_map(|(group, chunks)| {
                        chunks.clone().map(move |chunk| range(chunk, group))
                    })
                    .collect();
                let first = tables.first();
                let samples = tables::estimate(launcher, column, &lengths, &all, first)?;
                Some((tables, samples))
            }
            None => None,
        };
        let options = options.clone();
        Ok(Self {
            lengths,
            value_words,
            singles,
            bounds,
            repetitions,
            counts,
            validity,
            tables,
            options,
        })
    }

    /// Waits for all that; for what comes last, the tables, at the end.
    pub(super) fn read(mut self, launcher: &Launcher<'_>, rows: usize) -> Result<Known> {
        let chunk_rows = self.options.chunk_rows;
        let chunk_rows = |chunk: usize| (rows - chunk * chunk_rows).min(chunk_rows) as u32;
        let rows: Vec<u32> = (0..rows.div_ceil(self.options.chunk_rows)).map(chunk_rows).collect();
        let singles = launcher.read(&self.singles)?;
        let repetitions = match &self.repetitions {
            Some(repetitions) => launcher.read(repetitions)?,
            None => Vec::new(),
        };
        self.value_words.read(launcher)?;
        let valid = match &self.counts {
            Some(counts) => {
                launcher.read(counts)?.iter().map(|[valid, _]| *valid as usize).collect()
            }
            None => rows.iter().map(|rows| *rows as usize).collect(),
        };
        let Self { lengths, value_words, options, .. } = self;
        let strings = StringChunks::new(launcher, lengths, value_words, options, OF_COLUMN, rows)?;
        let (tables, first_table, samples) = match &self.tables {
            Some((tables, samples)) => {
                (tables.read(launcher)?, tables.first(), launcher.read(samples)?)
            }
            None => {
                let samples = vec![abi::FsstSample::default(); strings.count()];
                (Vec::new(), DevicePtr::NULL, samples)
            }
        };
        Ok(Known {
            strings,
            validity: self.validity,
            bitmaps: None,
            singles,
            bounds: self.bounds,
            valid,
            tables,
            first_table,
            samples,
            repetitions,
            dictionaries: Dictionaries::default(),
            compressed: Compressed::default(),
        })
    }
}

impl Known {
    /// Which rows of a chunk are valid, as bits of which all are; none without nulls.
    pub(super) fn nulls(&self, chunk: usize) -> Option<Counted> {
        let counted = Counted { valid: self.strings.rows(chunk), set: self.valid[chunk] };
        (counted.set < counted.valid).then_some(counted)
    }

    /// The symbol tables of groups.
    fn group_tables(&self) -> GroupTables<'_> {
        let groups = &self.strings.lengths.groups;
        GroupTables { groups, tables: &self.tables, first: self.first_table }
    }

    fn is_constant(&self, chunk: usize) -> bool {
        self.strings.options.allows(Encoding::Constant) && is_single(&self.singles[chunk])
    }

    /// How each chunk is stored. Where a group's table slips, tables of chunks' own are
    /// tried, as `symbols_for` of the CPU does.
    pub(super) fn choose(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
    ) -> Result<Vec<Choice>> {
        let shared = |chunk: usize| -> Option<Tried> {
            let table = self.group_tables().table_of(chunk)?.clone();
            Some((table, sampled(&self.samples[chunk])?))
        };
        let tries = |chunk: usize| !self.is_constant(chunk) && self.strings.may_have_codes(chunk);
        let slips = |chunk: usize| {
            shared(chunk)
                .is_none_or(|(table, sampled)| table.trained.slips(sampled.codes, sampled.bytes))
        };
        let slipping: Vec<usize> =
            (0..self.strings.count()).filter(|&chunk| tries(chunk) && slips(chunk)).collect();
        let mut own = vec![None; self.strings.count()];
        let tables = self.own_tables(launcher, column, &slipping)?;
        for (chunk, table) in slipping.into_iter().zip(tables) {
            own[chunk] = table;
        }
        let table = |(chunk, own): (usize, Option<Tried>)| match (
            tries(chunk).then(|| shared(chunk)).flatten(),
            own,
        ) {
            (Some((_, shared)), Some((table, own))) if fsst::makes_up(own.codes, shared.codes) => {
                Some((table, own))
            }
            (None, own) => own,
            (shared, _) => shared,
        };
        let tables: Vec<Option<Tried>> = own.into_iter().enumerate().map(table).collect();
        let estimates = tables.par_iter().enumerate().with_min_len(MIN_CHUNKS);
        let mut estimates: Vec<Estimates> =
            estimates.map(|(chunk, table)| self.estimates(chunk, table.as_ref())).collect();
        self.dictionaries = self.find_dictionaries(launcher, column, &mut estimates)?;
        if self.strings.options.allows(Encoding::Lz) {
            launcher.switch(StreamRole::After);
            let compressed = self.compress_bytes(launcher, column, borders, &mut estimates);
            launcher.switch(StreamRole::Main);
            self.compressed = compressed?;
        }
        if let Some(validity) = &self.validity {
            let nulls: Vec<_> = (0..self.strings.count()).map(|chunk| self.nulls(chunk)).collect();
            launcher.switch(StreamRole::After);
            let options = &self.strings.options;
            let bitmaps = Bitmaps::plan(launcher, validity, Which::Validity, &nulls, options);
            launcher.switch(StreamRole::Main);
            self.bitmaps = Some(bitmaps?);
        }
        let choice = |(chunk, (table, estimates)): (usize, (Option<Tried>, Estimates))| {
            let plan = plan::choose(estimates.into_iter());
            let tried = table.filter(|_| self.tries_codes(chunk, &plan));
            Choice { table: tried.map(|(table, _)| table), plan }
        };
        let all: Vec<_> = tables.into_iter().zip(estimates).enumerate().collect();
        Ok(all.into_par_iter().with_min_len(MIN_CHUNKS).map(choice).collect())
    }

    /// Finds dictionaries, and adds what they promise.
    fn find_dictionaries(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        estimates: &mut [Estimates],
    ) -> Result<Dictionaries> {
        // As the CPU's, they have the tables of groups.
        let tables = self.group_tables();
        // Where bodies are made of them, past codes that are on their way.
        launcher.switch(StreamRole::After);
        let samples = &self.repetitions;
        let found =
            Dictionaries::plan(launcher, column, &self.strings, samples, &tables, estimates);
        launcher.switch(StreamRole::Main);
        found
    }

    /// Compresses chunks whose bytes take less so than all else, and adds what they promise.
    /// Copies are looked at and let go of; chunks that are chosen are copied again, to stay.
    fn compress_bytes(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        estimates: &mut [Estimates],
    ) -> Result<Compressed> {
        let leftover = |(chunk, estimates): (usize, &Estimates)| {
            let limit = Some(limit(estimates)).filter(|limit| *limit > 0)?;
            let (rows, bytes) = (self.strings.rows(chunk), self.strings.bytes(chunk));
            let ends = self.strings.value_words.bounds(chunk);
            let width = ends.and_then(|[low, high]| (low == high).then_some(low as usize));
            let found = Leftover::of_strings(bytes, rows, width, column.is_text, limit)?;
            Some((chunk, found))
        };
        let left: Vec<(usize, Leftover)> =
            estimates.iter().enumerate().filter_map(leftover).collect();
        if left.is_empty() {
            return Ok(Compressed::default());
        }
        // Bytes of chunks that are looked at at a time, or those of one chunk; on the emulation few,
        // so that tests see several looks.
        let most = if launcher.is_host() { 256 << 10 } else { 1 << 30 };
        let (mut chosen, mut shapes) = (Vec::new(), Vec::new());
        let mut rest = left.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, leftover): &&(usize, Leftover)| {
                bytes += aligned(leftover.bytes);
                bytes <= most
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = later;
            let promises = launcher.in_scope(Scope::LzCandidates, |launcher| {
                let candidates = self.copied(launcher, column, borders, now)?;
                encoders::promises(launcher, &candidates, &self.strings.options.lz)
            })?;
            launcher.release(Scope::LzCandidates);
            for ((chunk, leftover), promise) in now.iter().zip(promises) {
                let Some((shape, lens)) = promise else { continue };
                let strings = &self.strings;
                let context = Context::new(&strings.options, None);
                let lengths = strings.value_words.plan(*chunk, &context);
                let starts = strings.rows(*chunk).div_ceil(VECTOR) * 8;
                let own = Estimate::of(lens.into_iter().chain([starts]));
                let estimate = Estimate { children: vec![lengths], ..own };
                if leftover.saves(estimate.stored_bytes()) {
                    estimates[*chunk].push((Encoding::Lz, estimate));
                    chosen.push((*chunk, *leftover));
                    shapes.push(shape);
                }
            }
        }
        let candidates = self.copied(launcher, column, borders, &chosen)?;
        let chosen: Vec<_> = candidates.into_iter().zip(shapes).collect();
        Compressed::new(launcher, &chosen)
    }

    /// Starts copying the bytes of chunks, which begin anywhere, to multiples of 8.
    fn copied(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        chunks: &[(usize, Leftover)],
    ) -> Result<Vec<Candidate>> {
        let bytes = chunks.iter().map(|(_, leftover)| aligned(leftover.bytes)).sum();
        let mut to = launcher.allocate(bytes)?.pointer::<u8>();
        let mut copies = Copies::default();
        let mut candidates = Vec::with_capacity(chunks.len());
        for (chunk, leftover) in chunks {
            copies.add(column, &self.strings, borders, *chunk, to);
            candidates.push(Candidate { chunk: *chunk, from: to, leftover: *leftover });
            to = to.add(aligned(leftover.bytes));
        }
        copies.start(launcher, column, &self.strings)?;
        Ok(candidates)
    }

    /// Whether a plan is one for codes, or what it prefers may not keep its promise.
    fn tries_codes(&self, chunk: usize, plan: &Plan) -> bool {
        let mut tries = false;
        let node = |plan: &Plan| {
            tries |= plan.encoding == Encoding::Fsst;
            Ok(if tries { None } else { Some(self.node_without_codes(chunk, plan)?) })
        };
        plan::first_kept(plan, node, |part: &Part| part.len).is_ok() && tries
    }

    /// A chunk's node if it has no codes.
    pub(super) fn node_without_codes(
        &self,
        chunk: usize,
        plan: &Plan,
    ) -> Result<EncodedNode<Part>> {
        let strings = &self.strings;
        let bytes = strings.bytes(chunk);
        let mut node = EncodedNode::new(plan.encoding, Physical::Bytes, strings.rows(chunk));
        match plan.encoding {
            Encoding::Constant => {
                node.buffers = vec![strings.part(self.singles[chunk].length as usize)];
            }
            Encoding::Dict => {
                node.parameters[0] = bytes as u64;
                node.buffers = vec![strings.starts(chunk, bytes)];
                node.children = self.dictionaries.children(chunk, plan, &strings.options)?;
            }
            Encoding::Lz => {
                self.compressed.fill(chunk, &mut node, |len| strings.part(len))?;
                node.buffers.push(strings.starts(chunk, bytes));
                node.children = vec![strings.value_lengths(chunk, &plan.children)?];
            }
            _ => return strings.plain_node(chunk, plan),
        }
        Ok(node)
    }

    /// Tables trained on single chunks, and what they make of them.
    fn own_tables(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunks: &[usize],
    ) -> Result<Vec<Option<Tried>>> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let each = self.strings.chunk_vectors();
        let ranges: Vec<abi::FsstRange> = (chunks.iter().enumerate())
            .map(|(table, &chunk)| {
                range(
                    &(chunk..chunk + 1),
                    each,
                    column.rows,
                    self.group_tables().group_of(chunk),
                    table,
                )
            })
            .collect();
        let trainers = Trainers::prepare(launcher, ranges.len())?;
        let tables = Tables::train(launcher, column, &self.strings.lengths, &ranges, trainers)?;
        let (lengths, first) = (&self.strings.lengths, tables.first());
        let samples = tables::estimate(launcher, column, lengths, &ranges, first)?;
        let tables = tables.read(launcher)?;
        let samples = launcher.read(&samples)?;
        let own = tables.into_iter().zip(&samples);
        Ok(own.map(|(table, sample)| Some((table?, sampled(sample)?))).collect())
    }

    /// What a chunk's encodings promise but for dictionaries.
    fn estimates(&self, chunk: usize, fsst: Option<&Tried>) -> Estimates {
        let single = self.is_constant(chunk).then(|| self.singles[chunk].length as usize);
        let fsst = fsst.map(|(table, sampled)| TableSample { table, sampled: *sampled });
        self.strings.estimates(chunk, single, fsst)
    }
}

/// The numbers of words: value lengths of the column, code lengths of the stretch.
pub(super) const VALUE_LENGTHS: usize = 0;
const CODE_LENGTHS: usize = 1;
/// The number of the first words that dictionaries have.
pub(super) const OF_DICTIONARIES: usize = 2;

/// What nodes of the column's strings are made of.
const OF_COLUMN: WordNumbers = WordNumbers {
    strings: Origin::Strings,
    value_lengths: VALUE_LENGTHS,
    code_lengths: CODE_LENGTHS,
};

/// Whether a chunk is one value for all rows, of a length that a constant may have.
fn is_single(single: &abi::StringSingle) -> bool {
    single.is_single != 0 && single.length as usize <= constant::MAX_VALUE_BYTES
}
