//! Dictionaries of a column of strings: distinct values are found, sorted and stored contiguously
//! by kernels; codes of rows are words as others, and distinct values strings as others
//! (`derived.rs`), which may be front-coded in turn.
//!
//! The host waits twice: for the number of distinct values of each chunk, and for their bytes.

use std::collections::BTreeMap;

use ahash::RandomState;

use super::StringColumn;
use super::chunks::{Family, StringChunks, lengths_source};
use super::derived::{DerivedStrings, PendingStrings, ScratchStrings, borders_of};
use super::front::{FrontPart, FrontRequests, FrontSource, Fronts, PendingFronts};
use super::statistics::ChunkDerived;
use super::tables::GroupTables;
use crate::chunk::EncodedNode;
use crate::encode::encoders::{DistinctSearch, HashTables};
use crate::encode::launch::{Launcher, Pending, Scope};
use crate::encode::measurements::Measurements;
use crate::encode::missing::Requests;
use crate::encode::tree::{self, Tree};
use crate::encode::words::Words;
use crate::encode::write::{Job, Origin, PendingBuffer};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::statistics::Child;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::DevicePtr;
use crate::gpu::abi::{self, SampledRows};
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
    let view = column.view(options.chunk_rows);
    let arguments = abi::SampleStringsArguments { view, chunks: scratch.pointer() };
    launcher.launch(column.by_width(kernels::SAMPLE_STRINGS), chunks, &arguments)?;
    launcher.result(&scratch, 0, chunks)
}

/// The dictionaries of a column.
pub(super) struct Dictionaries {
    /// The search for distinct values.
    finder: Option<Finder>,
    /// What it has found in chunks: how many; none where they are too many.
    found: BTreeMap<usize, Option<usize>>,
    /// The numbers of dictionaries, by chunk.
    numbers: BTreeMap<usize, usize>,
    /// Codes, and what is derived from them; numbers as the parts of nodes have them.
    tree: Tree,
    strings: Option<DerivedStrings>,
    /// The front coding of distinct strings, if that is allowed.
    fronts: Option<Fronts>,
}

impl Dictionaries {
    /// None yet.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            finder: None,
            found: BTreeMap::new(),
            numbers: BTreeMap::new(),
            tree: Tree::numbered_from(OF_CODES, options),
            strings: None,
            fronts: None,
        }
    }

    /// The distinct values of a chunk, if they have been looked for; none if they are too many.
    pub(super) fn found(&self, chunk: usize) -> Option<Option<usize>> {
        self.found.get(&chunk).copied()
    }

    /// Statistics of a chunk's codes and distinct values, once it has a dictionary.
    pub(super) fn parts<'d>(
        &'d self,
        chunk: usize,
        requests: &'d Requests<(usize, tree::WordsPart)>,
        of_fronts: &'d FrontRequests,
    ) -> Option<Vec<Child<'d>>> {
        let (number, strings) = (*self.numbers.get(&chunk)?, self.strings.as_ref()?);
        let codes = self.tree.chunk(OF_CODES, chunk, requests);
        let strings = ChunkDerived::of_distinct(strings, number, self.fronts.as_ref(), of_fronts);
        Some(vec![Box::new(codes), Box::new(strings)])
    }

    /// Looks for the distinct values of some chunks, given how many are not too many; waits.
    pub(super) fn search(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunks: &StringChunks,
        asked: &[(usize, usize)],
    ) -> Result<()> {
        let search = |&(chunk, most): &(usize, usize)| DistinctSearch {
            chunk,
            rows: chunks.rows(chunk),
            most,
        };
        let searches: Vec<DistinctSearch> = asked.iter().map(search).collect();
        let scope = launcher.scope;
        let finder = launcher.in_scope(Scope::Distinct, |launcher| {
            Finder::find(launcher, column, chunks, &searches, scope)
        })?;
        self.found.extend(finder.tables.found());
        self.finder = Some(finder);
        Ok(())
    }

    /// Makes the dictionaries of some chunks, as far as plans need them; waits.
    pub(super) fn make(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunks: &StringChunks,
        tables: &GroupTables<'_>,
        of: &[usize],
    ) -> Result<()> {
        let missing = || Error::device("dictionaries of values that have not been looked for");
        let mut finder = self.finder.take().ok_or_else(missing)?;
        let scope = launcher.scope;
        let (codes, values) = launcher.in_scope(Scope::Distinct, |launcher| {
            finder.tables.keep(of);
            finder.codes_and_values(launcher, column, scope)
        })?;
        launcher.release(Scope::Distinct);
        let options = &chunks.options;
        let below = Context::new(options, None).in_dictionary();
        let fronts = match options.allows(Encoding::Front) {
            true => {
                let ScratchStrings { column, counts, chunk_rows, .. } = &values;
                let (chunk_rows, family) = (*chunk_rows, Family::SuffixesOfDistinct);
                let fronts =
                    PendingFronts::start(launcher, column, chunk_rows, counts, family, &below)?;
                Some(fronts)
            }
            false => None,
        };
        let started =
            PendingStrings::start(launcher, values, of, tables, Family::Distinct, options)?;
        let all_rows = column.rows.next_multiple_of(VECTOR);
        let source = lengths_source(codes, all_rows, chunks.chunk_vectors());
        let mut coded = vec![0; chunks.count()];
        of.iter().for_each(|&chunk| coded[chunk] = chunks.rows(chunk) as u32);
        let asked = Measurements::of_codes(&below);
        let codes = Words::derived(launcher, Physical::U32, source, coded, asked)?;
        let strings = started.read_with_codes(launcher)?;
        let codes = self.tree.add(codes, &below);
        self.tree.words_mut(codes).read(launcher)?;
        self.strings = Some(strings);
        self.fronts = fronts.map(|fronts| fronts.read(launcher)).transpose()?;
        launcher.release(Scope::SampledPrefixes);
        self.numbers = of.iter().enumerate().map(|(number, &chunk)| (chunk, number)).collect();
        Ok(())
    }

    /// Computes what chunks miss of their codes; waits.
    pub(super) fn compute_codes(
        &mut self,
        launcher: &mut Launcher<'_>,
        missing: Vec<(usize, (usize, tree::WordsPart))>,
    ) -> Result<()> {
        self.tree.compute(launcher, missing)
    }

    /// Computes what the distinct strings of chunks miss of front coding; waits.
    pub(super) fn compute_fronts(
        &mut self,
        launcher: &mut Launcher<'_>,
        tables: &GroupTables<'_>,
        missing: Vec<(usize, FrontPart)>,
    ) -> Result<()> {
        let (Some(strings), Some(fronts)) = (&self.strings, &mut self.fronts) else {
            return Err(Error::device("front coding of distinct strings that are not there"));
        };
        let of_column: Vec<usize> = self.numbers.keys().copied().collect();
        let unknown = || Error::device("front coding of a dictionary that is not there");
        let number = |(chunk, part): (usize, FrontPart)| {
            Ok((*self.numbers.get(&chunk).ok_or_else(unknown)?, part))
        };
        let missing = missing.into_iter().map(number).collect::<Result<_>>()?;
        let of = FrontSource {
            column: strings.column(),
            chunks: &strings.chunks,
            tables: *tables,
            of_column: Some(&of_column),
        };
        fronts.compute(launcher, of, missing)
    }

    /// Measures what codes of chunks and front coding of distinct strings need to be encoded,
    /// given the plans of dictionaries: bodies are encoded stretch by stretch, and find all
    /// measured.
    pub(super) fn measure(
        &mut self,
        launcher: &mut Launcher<'_>,
        plans: &[Option<&Plan>],
    ) -> Result<()> {
        let child = |chunk: usize, child: usize| plans[chunk]?.children.get(child);
        self.tree.make(launcher, plans.len(), |tree, chunk, requests| match child(chunk, 0) {
            Some(plan) => tree.encode(OF_CODES, chunk, plan, requests).map(|node| node.map(drop)),
            None => Ok(Some(())),
        })?;
        let front = |chunk: &usize| child(*chunk, 1)?.of_encoding(Encoding::Front);
        match &mut self.fronts {
            Some(fronts) => {
                let plans: Vec<Option<&Plan>> = self.numbers.keys().map(front).collect();
                fronts.measure(launcher, &plans)
            }
            None => Ok(()),
        }
    }

    /// The number of a chunk's dictionary, and all of them.
    fn of(&self, chunk: usize) -> Result<(usize, &DerivedStrings)> {
        let number = self.numbers.get(&chunk).copied();
        number.zip(self.strings.as_ref()).ok_or_else(|| {
            Error::device("a dictionary of strings was expected, the chunk has none")
        })
    }

    /// The nodes of a chunk's codes and of its distinct values.
    pub fn children(&self, chunk: usize, plan: &Plan) -> Result<Vec<EncodedNode<PendingBuffer>>> {
        let (number, strings) = self.of(chunk)?;
        let [codes, dictionary] = plan.children.as_slice() else {
            return Err(Error::device("a dictionary without plans of its parts"));
        };
        let codes = self.tree.encode_measured(OF_CODES, chunk, codes)?;
        Ok(vec![codes, strings.node(number, dictionary, self.fronts.as_ref())?])
    }

    /// Starts writing nodes of one origin and encoding that are words.
    pub fn write_words(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        match (origin, &self.strings, &self.fronts) {
            (Origin::Words(number) | Origin::Transformed(number), _, Some(fronts))
                if Family::of(number) == Family::SuffixesOfDistinct =>
            {
                fronts.write_words(launcher, origin, encoding, jobs)
            }
            (Origin::Words(number), Some(strings), _) if number < OF_CODES => {
                strings.write_lengths(launcher, number, encoding, jobs)
            }
            _ => self.tree.write(launcher, origin, encoding, jobs),
        }
    }

    /// Starts writing nodes of one family and encoding that are distinct strings or their
    /// suffixes, given the chunks of the column.
    pub fn write_strings<'j>(
        &self,
        launcher: &mut Launcher<'_>,
        family: Family,
        encoding: Encoding,
        jobs: impl Iterator<Item = (usize, &'j Job)>,
    ) -> Result<()> {
        let jobs: Vec<(usize, &Job)> =
            jobs.map(|(chunk, job)| Ok((self.of(chunk)?.0, job))).collect::<Result<_>>()?;
        match (family, &self.strings, &self.fronts) {
            (Family::SuffixesOfDistinct, _, Some(fronts)) => {
                fronts.write_suffixes(launcher, encoding, jobs.into_iter())
            }
            (Family::Distinct, Some(strings), _) => strings.write(launcher, encoding, &jobs),
            _ => Err(Error::device(format!("{family:?} in a column without"))),
        }
    }
}

/// The number of the codes of rows.
const OF_CODES: usize = Family::Distinct.first_of_tree();

/// Looks for distinct values.
struct Finder {
    view: abi::StringsView,
    tables: HashTables,
    /// For each row the slot of its value, then its code.
    codes: DevicePtr<u32>,
}

impl Finder {
    /// Looks for those of some chunks; waits. Codes are kept for a scope.
    fn find(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunks: &StringChunks,
        searches: &[DistinctSearch],
        scope: Scope,
    ) -> Result<Self> {
        let bytes = column.rows.next_multiple_of(VECTOR) * 4;
        let slots = launcher.in_scope(scope, |launcher| launcher.allocate(bytes))?.pointer();
        let kernel = column.by_width(kernels::DISTINCT_STRINGS_FIND);
        let blocks = chunks.chunk_vectors().div_ceil(kernel.block);
        let view = column.view(chunks.chunk_vectors() * VECTOR);
        let seed = RandomState::new().hash_one(0);
        let tables = HashTables::find(launcher, searches, |launcher, tables, counts| {
            let arguments = abi::DistinctStringsArguments {
                view,
                tables,
                counts,
                slots,
                seed,
                blocks_per_table: blocks as u32,
                ..Default::default()
            };
            launcher.launch(kernel, searches.len() * blocks, &arguments)
        })?;
        Ok(Self { view, tables, codes: slots })
    }

    /// Starts making codes, and distinct values, which are kept for a scope: where codes will be,
    /// and the values. Waits for the sizes of these.
    fn codes_and_values(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        scope: Scope,
    ) -> Result<(DevicePtr<u32>, ScratchStrings)> {
        let counts = self.tables.counts().to_vec();
        let value_rows = self.tables.most().next_multiple_of(VECTOR);
        let rows = counts.len() * value_rows;
        let offsets =
            launcher.in_scope(scope, |launcher| launcher.allocate_zero_ended((rows + 1) * 8))?;
        let totals = launcher.allocate(counts.len() * 8)?;
        let common = launcher.allocate(counts.len() * 4)?;
        self.tables.allocate_sorted(launcher, size_of::<abi::TextKey>())?;
        let tables = self.tables.upload(launcher)?;
        let counts_at = launcher.upload(&counts)?;
        let arguments = abi::DistinctStringsArguments {
            common: common.pointer(),
            offsets: offsets.pointer(),
            totals: totals.pointer(),
            value_rows: value_rows as u32,
            view: self.view,
            tables,
            counts: counts_at,
            ..Default::default()
        };
        let kernel = column.by_width(kernels::DISTINCT_STRINGS_COMMON);
        self.launch(launcher, kernel, 1, arguments)?;
        let tile = kernels::DISTINCT_STRINGS_SORT[0].block;
        for (run, to_spare) in self.tables.passes(tile) {
            let to_spare = u32::from(to_spare);
            let arguments = abi::DistinctStringsArguments { run, to_spare, ..arguments };
            let kernels = match run {
                0 => kernels::DISTINCT_STRINGS_SORT,
                _ => kernels::DISTINCT_STRINGS_MERGE,
            };
            let tiles = self.tables.most().div_ceil(tile);
            self.launch(launcher, column.by_width(kernels), tiles, arguments)?;
        }
        let kernel = column.by_width(kernels::DISTINCT_STRINGS_PLACES);
        self.launch(launcher, kernel, 1, arguments)?;
        let pending = launcher.result::<u64>(&totals, 0, counts.len())?;
        let chunk_rows = self.view.chunk_rows as usize;
        self.tables.start_codes(launcher, tables, self.codes, chunk_rows)?;
        let borders = borders_of(launcher.read(&pending)?.into_iter());
        let bytes = borders[counts.len()] as usize;
        let values = launcher.in_scope(scope, |launcher| launcher.allocate_zero_ended(bytes))?;
        let arguments = abi::DistinctStringsArguments {
            before: launcher.upload(&borders)?,
            values: values.pointer(),
            ..arguments
        };
        let kernel = column.by_width(kernels::DISTINCT_STRINGS_COPY);
        self.launch(launcher, kernel, value_rows.div_ceil(kernel.block), arguments)?;
        let singles = counts.iter().map(|count| *count == 1).collect();
        let memory = [offsets, values];
        let values = ScratchStrings::new(column, memory, counts, singles, borders, value_rows);
        Ok((self.codes, values))
    }

    /// Launches a kernel of which so many blocks belong to a table.
    fn launch(
        &self,
        launcher: &mut Launcher<'_>,
        kernel: Kernel<abi::DistinctStringsArguments>,
        blocks: usize,
        arguments: abi::DistinctStringsArguments,
    ) -> Result<()> {
        let arguments =
            abi::DistinctStringsArguments { blocks_per_table: blocks as u32, ..arguments };
        launcher.launch(kernel, self.tables.len() * blocks, &arguments)
    }
}
