//! What is known of a column before codes are made, and how each chunk is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::StringColumn;
use super::bodies::Copies;
use super::chunks::{Family, StringChunks, lengths_source, string_form};
use super::dict::{self, Dictionaries};
use super::front::{FrontSource, Fronts, PendingFronts};
use super::lengths::{Arrays, Lengths};
use super::statistics::{ChunkStrings, StringsPart};
use super::tables::{self, GroupTables, OwnTables, Table, TableSample, Tables, Trainers, sampled};
use crate::chunk::{EncodedNode, StringForm, aligned};
use crate::encode::MIN_CHUNKS;
use crate::encode::bits::{BitCounts, Bitmap, Bitmaps};
use crate::encode::encoders::{self, Candidate, LzChunks};
use crate::encode::launch::{Launcher, Pending, Scope, StreamRole};
use crate::encode::missing;
use crate::encode::source::Column;
use crate::encode::words::Words;
use crate::encode::write::{self, PendingBuffer};
use crate::encoding::lz::{LzBytes, Promise};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::statistics::TableOf;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::DevicePtr;
use crate::gpu::abi::{self, SampledRows};
use crate::gpu::kernels;
use crate::lanes::VECTOR;
use crate::options::Options;

/// A column that is being looked at.
pub(super) struct PendingColumn {
    pub(super) lengths: Lengths,
    value_words: Words,
    singles: Pending<abi::StringSingle>,
    bounds: Pending<abi::StringBounds>,
    /// How often values come again in each chunk, if dictionaries are allowed.
    repetitions: Option<Pending<SampledRows>>,
    /// Prefixes, if front coding is allowed.
    fronts: Option<PendingFronts>,
    /// Valid rows of each chunk, if there may be nulls.
    counts: Option<Pending<[u32; 2]>>,
    validity: Option<Column>,
    /// Tables of groups, and what they make of chunks.
    pub(super) tables: Option<(Tables, Pending<abi::FsstSample>)>,
    options: Options,
}

/// A column that has been looked at.
pub(super) struct MeasuredColumn {
    pub(super) strings: StringChunks,
    pub(super) validity: Option<Column>,
    /// The bits of these, once they are planned.
    pub(super) bitmaps: Option<Bitmaps>,
    /// Their nodes, of chunks that have nulls.
    pub(super) validity_nodes: Vec<Option<EncodedNode<PendingBuffer>>>,
    pub(super) singles: Vec<abi::StringSingle>,
    /// Read last: nothing depends on it.
    pub(super) bounds: Pending<abi::StringBounds>,
    /// Valid rows of each chunk.
    pub(super) valid: Vec<usize>,
    /// The table of each group, the first of them on the device, and what they make of a sample of
    /// each chunk.
    tables: Vec<Option<Arc<Table>>>,
    first_table: DevicePtr<abi::FsstTrained>,
    samples: Vec<abi::FsstSample>,
    /// How often values come again in each chunk; none if dictionaries are not allowed.
    pub(super) repetitions: Vec<SampledRows>,
    /// Tables of chunks' own, and what they make of a sample, where they have been asked for.
    pub(super) own_tables: BTreeMap<usize, Option<TableSample>>,
    pub(super) dictionaries: Dictionaries,
    /// The front coding of chunks, if that is allowed.
    pub(super) fronts: Option<Fronts>,
    /// What LZ makes of a sample of chunks, where it has been asked for.
    pub(super) matches: BTreeMap<usize, (LzBytes, Option<Promise>)>,
    /// Chunks that become smaller as bytes.
    pub(super) compressed: LzChunks,
    /// Whether strings are text.
    pub(super) is_text: bool,
}

/// How a chunk is to be stored.
#[derive(Debug, Clone)]
pub(super) struct ChunkChoice {
    pub(super) plan: Plan,
    /// The table of its codes, if it is to have some or may turn out to.
    pub(super) table: Option<Arc<Table>>,
}

impl PendingColumn {
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
        let groups = column.groups(options);
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
            view: column.view(options.chunk_rows),
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
        let fronts = match options.allows(Encoding::Front) {
            true => {
                let (chunk_rows, rows) =
                    (options.chunk_rows, column.rows_of_chunks(options.chunk_rows));
                let (family, context) = (Family::Suffixes, Context::new(options, None));
                let fronts =
                    PendingFronts::start(launcher, column, chunk_rows, &rows, family, &context)?;
                Some(fronts)
            }
            false => None,
        };
        let validity = (column.valid.filter(|_| column.leaves.is_none()))
            .map(|valid| Column::of_validity(column.memory.clone(), valid, column.rows));
        let counts = match &validity {
            Some(validity) => Some(write::count_bits(launcher, validity, options.chunk_rows)?),
            None => None,
        };
        // Now it needs lengths.
        launcher.wait_for(StreamRole::Main)?;
        let source = lengths_source(lengths.view.value_lengths, column.rows, chunk_vectors);
        let value_words = column.measure_lengths(launcher, source, 0..chunks, options)?;
        launcher.switch(StreamRole::Main);
        let tables = match trainers {
            Some(trainers) => {
                Some(Tables::train(launcher, column, &lengths, &lengths.ranges, trainers)?)
            }
            None => None,
        };
        // Codes of first spans may follow at once. Bounds are waited for by nobody, and
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
                    column.range(&(chunk..chunk + 1), chunk_vectors, group, group)
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
            fronts,
            counts,
            validity,
            tables,
            options,
        })
    }

    /// Waits for all that; for what comes last, the tables, at the end.
    pub(super) fn read(
        mut self,
        launcher: &Launcher<'_>,
        column: &StringColumn,
    ) -> Result<MeasuredColumn> {
        let rows = column.rows_of_chunks(self.options.chunk_rows);
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
        let fronts = self.fronts.map(|fronts| fronts.read(launcher)).transpose()?;
        let Self { lengths, value_words, options, .. } = self;
        let family = Family::Column;
        let strings = StringChunks::new(launcher, lengths, value_words, options, family, rows)?;
        let (mut tables, first_table, samples) = match &self.tables {
            Some((tables, samples)) => {
                (tables.read(launcher)?, tables.first(), launcher.read(samples)?)
            }
            None => {
                let samples = vec![abi::FsstSample::default(); strings.count()];
                (Vec::new(), DevicePtr::NULL, samples)
            }
        };
        // The table of a leaf in one chunk is that chunk's own: a group has one for several.
        let mut own_tables = BTreeMap::new();
        if column.leaves.is_some() {
            let groups = strings.lengths.groups.iter().zip(&mut tables);
            for (chunks, table) in groups.filter(|(chunks, _)| chunks.len() == 1) {
                let chunk = chunks.start;
                let sample = table.take().zip(sampled(&samples[chunk]));
                let sample = sample.map(|(table, sampled)| TableSample { table, sampled });
                own_tables.insert(chunk, sample);
            }
        }
        let dictionaries = Dictionaries::new(&strings.options);
        Ok(MeasuredColumn {
            strings,
            validity: self.validity,
            bitmaps: None,
            validity_nodes: Vec::new(),
            singles,
            bounds: self.bounds,
            valid,
            tables,
            first_table,
            samples,
            repetitions,
            own_tables,
            dictionaries,
            fronts,
            matches: BTreeMap::new(),
            compressed: LzChunks::default(),
            is_text: column.is_text,
        })
    }
}

impl MeasuredColumn {
    /// Which rows of a chunk are valid, as bits of which all are; none without nulls.
    pub(super) fn nulls(&self, chunk: usize) -> Option<BitCounts> {
        let counted = BitCounts { valid: self.strings.rows(chunk), set: self.valid[chunk] };
        (counted.set < counted.valid).then_some(counted)
    }

    /// The symbol tables of groups.
    fn group_tables(&self) -> GroupTables<'_> {
        let groups = &self.strings.lengths.groups;
        GroupTables { groups, tables: &self.tables, first: self.first_table }
    }

    /// What the table of a chunk's group makes of a sample of it, if the group has one.
    pub(super) fn sample_of_group(&self, chunk: usize) -> Option<TableSample> {
        let table = self.group_tables().table_of(chunk)?.clone();
        Some(TableSample { table, sampled: sampled(&self.samples[chunk])? })
    }

    /// How each chunk is stored.
    pub(super) fn choose(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
    ) -> Result<Vec<ChunkChoice>> {
        let (chunks, options) = (self.strings.count(), self.strings.options.clone());
        let context = Context::new(&options, None);
        let make = |measured: &Self, chunk: usize, requests: &_| {
            let statistics = ChunkStrings::new(measured, chunk, requests);
            let plan = plan::plan_root(&statistics, &context).ok();
            statistics.finish();
            Ok(plan)
        };
        let compute = |measured: &mut Self, launcher: &mut Launcher<'_>, missing: Vec<_>| {
            measured.compute(launcher, column, borders, missing)
        };
        let plans = missing::complete(launcher, self, chunks, make, compute)?;
        launcher.release(Scope::Distinct);
        let of_encoding = |encoding| -> Vec<Option<&Plan>> {
            plans.iter().map(|plan| plan.of_encoding(encoding)).collect()
        };
        launcher.switch(StreamRole::After);
        self.dictionaries.measure(launcher, &of_encoding(Encoding::Dict))?;
        if let Some(fronts) = &mut self.fronts {
            fronts.measure(launcher, &of_encoding(Encoding::Front))?;
        }
        self.compress(launcher, column, borders, &plans)?;
        if let Some(validity) = &self.validity {
            let nulls: Vec<_> = (0..chunks).map(|chunk| self.nulls(chunk)).collect();
            let mut bitmaps =
                Bitmaps::measure(launcher, validity, Bitmap::Validity, &nulls, &options)?;
            self.validity_nodes = bitmaps.nodes(launcher, &nulls)?;
            self.bitmaps = Some(bitmaps);
        }
        launcher.switch(StreamRole::Main);
        let choice = |(chunk, plan): (usize, Plan)| {
            let table = self.table_of(chunk, &plan).filter(|_| self.tries_codes(chunk, &plan));
            ChunkChoice { table, plan }
        };
        let all: Vec<_> = plans.into_iter().enumerate().collect();
        Ok(all.into_par_iter().with_min_len(MIN_CHUNKS).map(choice).collect())
    }

    /// Computes what chunks miss; waits.
    fn compute(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        missing: Vec<(usize, StringsPart)>,
    ) -> Result<()> {
        let (mut own, mut searches, mut of_dictionaries) = (Vec::new(), Vec::new(), Vec::new());
        let (mut codes, mut of_lz) = (Vec::new(), Vec::new());
        let (mut fronts, mut of_distinct) = (Vec::new(), Vec::new());
        for (chunk, part) in missing {
            match part {
                StringsPart::OwnTable => own.push(chunk),
                StringsPart::Distinct(most) => searches.push((chunk, most)),
                StringsPart::Dictionary => of_dictionaries.push(chunk),
                StringsPart::Codes(part) => codes.push((chunk, part)),
                StringsPart::Matches(bytes) => of_lz.push((chunk, bytes)),
                StringsPart::Front(part) => fronts.push((chunk, part)),
                StringsPart::FrontOfDistinct(part) => of_distinct.push((chunk, part)),
            }
        }
        if !own.is_empty() {
            let tables = self.train_own_tables(launcher, column, &own)?;
            self.own_tables.extend(own.into_iter().zip(tables));
        }
        // Where bodies are made of them, past codes that are on their way.
        launcher.switch(StreamRole::After);
        // As the CPU's, derived strings have the tables of groups.
        let strings = &self.strings;
        let groups = &strings.lengths.groups;
        let tables = GroupTables { groups, tables: &self.tables, first: self.first_table };
        if let (Some(of_column), false) = (&mut self.fronts, fronts.is_empty()) {
            let of = FrontSource { column, chunks: strings, tables, of_column: None };
            of_column.compute(launcher, of, fronts)?;
        }
        if !searches.is_empty() {
            self.dictionaries.search(launcher, column, strings, &searches)?;
        }
        if !of_dictionaries.is_empty() {
            self.dictionaries.make(launcher, column, strings, &tables, &of_dictionaries)?;
        }
        if !codes.is_empty() {
            self.dictionaries.compute_codes(launcher, codes)?;
        }
        if !of_distinct.is_empty() {
            self.dictionaries.compute_fronts(launcher, &tables, of_distinct)?;
        }
        if !of_lz.is_empty() {
            self.find_matches(launcher, column, borders, &of_lz)?;
        }
        launcher.switch(StreamRole::Main);
        Ok(())
    }

    /// Looks for matches of LZ in samples of chunks; waits. Copies are let go of; chunks that are
    /// chosen are copied again, to stay.
    fn find_matches(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        chunks: &[(usize, LzBytes)],
    ) -> Result<()> {
        // Bytes of chunks that are looked at at a time, or those of one chunk; on the emulation few,
        // so that tests see several looks.
        let most = if launcher.is_host() { 256 << 10 } else { 1 << 30 };
        let mut rest = chunks;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, of_chunk): &&(usize, LzBytes)| {
                bytes += aligned(of_chunk.bytes);
                bytes <= most
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = later;
            let promises = launcher.in_scope(Scope::LzCandidates, |launcher| {
                let candidates = self.copied(launcher, column, borders, now)?;
                encoders::promises(launcher, &candidates, &self.strings.options.lz)
            })?;
            launcher.release(Scope::LzCandidates);
            let found = now.iter().zip(promises);
            self.matches.extend(found.map(|(&(chunk, left), promise)| (chunk, (left, promise))));
        }
        Ok(())
    }

    /// Compresses the chunks that are to be stored so.
    fn compress(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        plans: &[Plan],
    ) -> Result<()> {
        let chosen = |(chunk, plan): (usize, &Plan)| match plan.parameters {
            Parameters::Lz(shape) => Some(((chunk, self.matches.get(&chunk)?.0), shape)),
            _ => None,
        };
        let (chosen, shapes): (Vec<_>, Vec<_>) =
            plans.iter().enumerate().filter_map(chosen).unzip();
        if chosen.is_empty() {
            return Ok(());
        }
        let candidates = self.copied(launcher, column, borders, &chosen)?;
        let chosen: Vec<_> = candidates.into_iter().zip(shapes).collect();
        self.compressed = LzChunks::new(launcher, &chosen)?;
        Ok(())
    }

    /// The table of a chunk's codes, if its plan or one that may take its place has some.
    fn table_of(&self, chunk: usize, plan: &Plan) -> Option<Arc<Table>> {
        match plan.symbol_table()? {
            TableOf::Group => self.group_tables().table_of(chunk).cloned(),
            TableOf::Chunk => Some(self.own_tables.get(&chunk)?.as_ref()?.table.clone()),
        }
    }

    /// Starts copying the bytes of chunks, which begin anywhere, to multiples of 8.
    fn copied(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        chunks: &[(usize, LzBytes)],
    ) -> Result<Vec<Candidate>> {
        let bytes = chunks.iter().map(|(_, bytes)| aligned(bytes.bytes)).sum();
        let mut to = launcher.allocate(bytes)?.pointer::<u8>();
        let mut copies = Copies::default();
        let mut candidates = Vec::with_capacity(chunks.len());
        for (chunk, bytes) in chunks {
            copies.add(column, &self.strings, borders, *chunk, to);
            candidates.push(Candidate { chunk: *chunk, from: to, of: *bytes });
            to = to.add(aligned(bytes.bytes));
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
        plan::first_kept(plan, node, |part: &PendingBuffer| part.len).is_ok() && tries
    }

    /// A chunk's node if it has no codes.
    pub(super) fn node_without_codes(
        &self,
        chunk: usize,
        plan: &Plan,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let strings = &self.strings;
        let bytes = strings.bytes(chunk);
        let mut node = EncodedNode::new(plan.encoding, Physical::Bytes, strings.rows(chunk));
        match string_form(plan.encoding)? {
            StringForm::One => {
                node.buffers = vec![strings.part(self.singles[chunk].length as usize)];
            }
            StringForm::Lookup => {
                node.parameters[0] = bytes as u64;
                node.buffers = vec![strings.starts(chunk, bytes)];
                node.children = self.dictionaries.children(chunk, plan)?;
            }
            StringForm::Prefixes => match &self.fronts {
                Some(fronts) => return fronts.node(strings, chunk, plan),
                None => return Err(Error::device("front coding that was not allowed")),
            },
            StringForm::Segments => {
                self.compressed.fill(chunk, &mut node, |len| strings.part(len))?;
                node.buffers.push(strings.starts(chunk, bytes));
                node.children = vec![strings.value_lengths(chunk, &plan.children)?];
            }
            StringForm::Bytes => return strings.plain_node(chunk, plan),
            StringForm::Codes => return Err(Error::device("a chunk's codes are missing")),
        }
        Ok(node)
    }

    /// Tables trained on single chunks, and what they make of them.
    fn train_own_tables(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunks: &[usize],
    ) -> Result<Vec<Option<TableSample>>> {
        let (each, tables) = (self.strings.chunk_vectors(), self.group_tables());
        let own = |(table, &chunk): (usize, &usize)| {
            column.range(&(chunk..chunk + 1), each, tables.group_of(chunk), table)
        };
        let ranges = chunks.iter().enumerate().map(own).collect();
        OwnTables::train(launcher, column, &self.strings.lengths, ranges)?.read(launcher)
    }
}
