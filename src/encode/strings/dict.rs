//! Dictionaries of a column of strings: distinct values are found, sorted and stored contiguously
//! by kernels; codes of rows are words as others, and distinct values strings as others
//! (`distinct.rs`).
//!
//! The host waits twice: for the number of distinct values of each chunk, and for their bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ahash::RandomState;

use super::StringColumn;
use super::chunks::{StringChunks, WordNumbers, lengths_source};
use super::distinct::{DistinctStrings, DistinctValues, PendingStrings};
use super::plan::OF_DICTIONARIES;
use super::statistics::ChunkDistinct;
use super::tables::Table;
use crate::chunk::EncodedNode;
use crate::encode::encoders::{DistinctSearch, HashTables};
use crate::encode::launch::{Launcher, Pending, Scope};
use crate::encode::measurements::Measurements;
use crate::encode::missing::Requests;
use crate::encode::tree::{self, Tree};
use crate::encode::words::Words;
use crate::encode::write::{self, Job, Origin, Part};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::statistics::Child;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::abi::{self, SampledRows};
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, DevicePtr};
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

/// Symbol tables of groups of chunks.
pub(super) struct GroupTables<'a> {
    pub(super) groups: &'a [Range<usize>],
    /// One for each group that has one.
    pub(super) tables: &'a [Option<Arc<Table>>],
    /// The first of all, which are stored contiguously.
    pub(super) first: DevicePtr<abi::FsstTrained>,
}

impl GroupTables<'_> {
    /// The group of a chunk.
    pub(super) fn group_of(&self, chunk: usize) -> usize {
        self.groups.partition_point(|group| group.end <= chunk)
    }

    /// The table of a chunk's group.
    pub(super) fn table_of(&self, chunk: usize) -> Option<&Arc<Table>> {
        self.tables.get(self.group_of(chunk))?.as_ref()
    }
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
    strings: Option<DistinctStrings>,
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
        requests: &'d Requests<(usize, tree::Part)>,
    ) -> Option<[Child<'d>; 2]> {
        let (number, strings) = (*self.numbers.get(&chunk)?, self.strings.as_ref()?);
        let codes = self.tree.chunk(OF_CODES, chunk, requests);
        Some([Box::new(codes), Box::new(ChunkDistinct { strings, number })])
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
        let started = PendingStrings::start(launcher, values, of, tables, options)?;
        let all_rows = column.rows.next_multiple_of(VECTOR);
        let source = lengths_source(codes, all_rows, chunks.chunk_vectors());
        let mut coded = vec![0; chunks.count()];
        of.iter().for_each(|&chunk| coded[chunk] = chunks.rows(chunk) as u32);
        let asked = Measurements::of_codes(&below);
        let codes = Words::derived(launcher, Physical::U32, source, coded, asked)?;
        let codes = self.tree.add(codes, &below);
        self.tree.words_mut(codes).read(launcher)?;
        self.strings = Some(started.read(launcher)?);
        self.numbers = of.iter().enumerate().map(|(number, &chunk)| (chunk, number)).collect();
        Ok(())
    }

    /// Computes what chunks miss of their codes; waits.
    pub(super) fn compute_codes(
        &mut self,
        launcher: &mut Launcher<'_>,
        missing: Vec<(usize, (usize, tree::Part))>,
    ) -> Result<()> {
        self.tree.compute(launcher, missing)
    }

    /// Measures what the codes of chunks need to be encoded, given their plans: bodies are
    /// encoded stretch by stretch, and find all codes measured.
    pub(super) fn measure_codes(
        &mut self,
        launcher: &mut Launcher<'_>,
        plans: &[Option<&Plan>],
    ) -> Result<()> {
        self.tree.make(launcher, plans.len(), |tree, chunk, _, requests| match plans[chunk] {
            Some(plan) => tree.encode(OF_CODES, chunk, plan, requests).map(|node| node.map(drop)),
            None => Ok(Some(())),
        })?;
        Ok(())
    }

    /// The number of a chunk's dictionary, and all of them.
    fn of(&self, chunk: usize) -> Result<(usize, &DistinctStrings)> {
        let number = self.numbers.get(&chunk).copied();
        number.zip(self.strings.as_ref()).ok_or_else(|| {
            Error::device("a dictionary of strings was expected, the chunk has none")
        })
    }

    /// The nodes of a chunk's codes and of its distinct values.
    pub fn children(&self, chunk: usize, plan: &Plan) -> Result<Vec<EncodedNode<Part>>> {
        let (number, strings) = self.of(chunk)?;
        let [codes, dictionary] = plan.children.as_slice() else {
            return Err(Error::device("a dictionary without plans of its parts"));
        };
        let codes = self.tree.encode_measured(OF_CODES, chunk, codes)?;
        Ok(vec![codes, strings.node(number, dictionary)?])
    }

    /// Starts writing nodes of one origin and encoding that are words.
    pub fn write_words(
        &self,
        launcher: &mut Launcher<'_>,
        origin: Origin,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        match (origin, &self.strings) {
            (Origin::Words(number), Some(strings)) if number < OF_CODES => {
                strings.words(number)?.write(launcher, encoding, &write::targets(jobs))
            }
            _ => self.tree.write(launcher, origin, encoding, jobs),
        }
    }

    /// Starts writing nodes of one encoding that are distinct values, given the chunks of the
    /// column.
    pub fn write_strings<'j>(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        jobs: impl Iterator<Item = (usize, &'j Job)>,
    ) -> Result<()> {
        let jobs: Vec<(usize, &Job)> =
            jobs.map(|(chunk, job)| Ok((self.of(chunk)?.0, job))).collect::<Result<_>>()?;
        match &self.strings {
            Some(strings) => strings.write(launcher, encoding, &jobs),
            None => Ok(()),
        }
    }
}

/// The numbers of words: lengths of distinct values, lengths of their codes, then codes of rows.
const DISTINCT_LENGTHS: usize = OF_DICTIONARIES;
const DISTINCT_CODE_LENGTHS: usize = OF_DICTIONARIES + 1;
const OF_CODES: usize = OF_DICTIONARIES + 2;

/// What nodes of distinct strings are made of.
pub(super) const DISTINCT_NUMBERS: WordNumbers = WordNumbers {
    strings: Origin::DistinctStrings,
    value_lengths: DISTINCT_LENGTHS,
    code_lengths: DISTINCT_CODE_LENGTHS,
};

/// Memory for so many bytes of a column, which is kept for a scope; and zeros behind them, as
/// kernels read whole units of 32 bytes.
fn zero_ended(
    launcher: &mut Launcher<'_>,
    scope: Scope,
    bytes: usize,
) -> Result<Arc<DeviceBuffer>> {
    const UNIT: usize = 32;
    let buffer = launcher.in_scope(scope, |launcher| launcher.allocate(bytes + UNIT))?;
    launcher.stream.fill(&buffer, bytes, UNIT, 0)?;
    Ok(buffer)
}

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
    ) -> Result<(DevicePtr<u32>, DistinctValues)> {
        let counts = self.tables.counts().to_vec();
        let value_rows = self.tables.most().next_multiple_of(VECTOR);
        let rows = counts.len() * value_rows;
        let offsets = zero_ended(launcher, scope, (rows + 1) * 8)?;
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
        let mut borders = vec![0];
        borders.extend(launcher.read(&pending)?.iter().scan(0, |end, bytes| {
            *end += bytes;
            Some(*end)
        }));
        let bytes = borders[counts.len()] as usize;
        let values = zero_ended(launcher, scope, bytes)?;
        let arguments = abi::DistinctStringsArguments {
            before: launcher.upload(&borders)?,
            values: values.pointer(),
            ..arguments
        };
        let kernel = column.by_width(kernels::DISTINCT_STRINGS_COPY);
        self.launch(launcher, kernel, value_rows.div_ceil(kernel.block), arguments)?;
        let column = StringColumn {
            rows,
            offsets: offsets.pointer(),
            width: 8,
            values: values.pointer(),
            value_bytes: bytes,
            valid: None,
            is_text: column.is_text,
            multiprocessors: column.multiprocessors,
            memory: vec![offsets, values],
        };
        Ok((self.codes, DistinctValues { column, counts, borders, value_rows }))
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
