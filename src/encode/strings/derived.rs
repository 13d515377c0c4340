//! Strings that are derived from those of a column and stored contiguously in scratch: distinct
//! strings of dictionaries, suffixes of front coding. They are a column of strings, of which each
//! chunk belongs to a chunk that it is derived from.
//!
//! All chunks begin at a multiple of as many rows, those of the largest; rows behind the last value
//! of a chunk are empty strings, which have no codes. They are planned and encoded as the column
//! is, with the symbol tables of its groups or tables of their own. Codes of distinct strings are
//! made before plans are known, as these are far fewer than the column's and the host waits once;
//! codes of suffixes when their chunks are planned.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::chunks::{Family, STARTS_OF_FRONT, StringChunks, lengths_source, string_form};
use super::codes::{CodeRoom, CodeRuns};
use super::front::Fronts;
use super::lengths::Lengths;
use super::tables::{self, GroupTables, OwnTables, Table, TableSample, sampled};
use super::{Span, StringColumn, span_bytes, spans};
use crate::chunk::{EncodedNode, StringForm};
use crate::encode::launch::{Launcher, Pending};
use crate::encode::measurements::Measurements;
use crate::encode::words::Words;
use crate::encode::write::{self, Job, PendingBuffer};
use crate::encoding::plan::{self, Plan};
use crate::encoding::statistics::TableOf;
use crate::encoding::{Encoding, Physical, fsst};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DevicePtr, abi};
use crate::lanes::VECTOR;
use crate::options::Options;

/// Strings in scratch, which kernels have been started to write.
pub(super) struct ScratchStrings {
    /// The values and their offsets.
    pub(super) column: StringColumn,
    /// Rows of each chunk.
    pub(super) counts: Vec<u32>,
    /// Whether all values of a chunk are equal.
    pub(super) singles: Vec<bool>,
    /// Where the values of each chunk begin among the bytes, and the end.
    pub(super) borders: Vec<u64>,
    /// Rows from the begin of one chunk to that of the next.
    pub(super) chunk_rows: usize,
}

impl ScratchStrings {
    /// Those of `offsets` and `values`, which have room for them; derived from `column`.
    pub(super) fn new(
        column: &StringColumn,
        [offsets, values]: [Arc<DeviceBuffer>; 2],
        counts: Vec<u32>,
        singles: Vec<bool>,
        borders: Vec<u64>,
        chunk_rows: usize,
    ) -> Self {
        let column = StringColumn {
            rows: counts.len() * chunk_rows,
            offsets: offsets.pointer(),
            width: 8,
            values: values.pointer(),
            value_bytes: borders[counts.len()] as usize,
            valid: None,
            leaves: None,
            is_text: column.is_text,
            multiprocessors: column.multiprocessors,
            memory: vec![offsets, values],
        };
        Self { column, counts, singles, borders, chunk_rows }
    }

    fn count(&self) -> usize {
        self.counts.len()
    }

    /// What kernels see of one chunk, for a table.
    fn range(&self, number: usize, table: usize) -> abi::FsstRange {
        let chunk_vectors = self.chunk_rows / VECTOR;
        let rows = self.counts[number];
        let range = self.column.range(&(number..number + 1), chunk_vectors, number, table);
        abi::FsstRange { rows, ..range }
    }

    /// What kernels see of some chunks that are to have tables of their own.
    fn own_ranges(&self, numbers: &[usize]) -> Vec<abi::FsstRange> {
        numbers.iter().enumerate().map(|(table, number)| self.range(*number, table)).collect()
    }

    /// Whether the strings of a chunk may have codes.
    fn may_have_codes(&self, number: usize, options: &Options) -> bool {
        let bytes = (self.borders[number + 1] - self.borders[number]) as usize;
        options.allows(Encoding::Fsst) && fsst::pays(bytes, self.counts[number] as usize)
    }

    /// Starts measuring lengths of values or codes.
    fn measure(
        &self,
        launcher: &mut Launcher<'_>,
        lengths: DevicePtr<u32>,
        options: &Options,
    ) -> Result<Words> {
        let source = lengths_source(lengths, self.column.rows, self.chunk_rows / VECTOR);
        let asked = Measurements::of_lengths(options);
        Words::derived(launcher, Physical::U32, source, self.counts.clone(), asked)
    }
}

/// Where the values of chunks of so many bytes each begin, and the end.
pub(super) fn borders_of(bytes: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut borders = vec![0];
    borders.extend(bytes.scan(0, |end, bytes| {
        *end += bytes;
        Some(*end)
    }));
    borders
}

/// Derived strings that are being measured.
pub(super) struct PendingStrings {
    values: ScratchStrings,
    lengths: Lengths,
    value_words: Words,
    /// What tables of groups make of samples, given the numbers of chunks.
    of_groups: Option<(Vec<usize>, Pending<abi::FsstSample>)>,
    /// The table of each chunk's group, if there is one.
    group_tables: Vec<Option<Arc<Table>>>,
    family: Family,
    options: Options,
}

/// Strings that are derived from a column's.
pub(super) struct DerivedStrings {
    values: ScratchStrings,
    pub(super) chunks: StringChunks,
    group_tables: Vec<Option<Arc<Table>>>,
    of_groups: BTreeMap<usize, TableSample>,
    /// Tables of chunks' own, and what they make of a sample, where they have been trained.
    own: BTreeMap<usize, Option<TableSample>>,
    codes: Option<Codes>,
}

impl PendingStrings {
    /// Starts measuring strings, which are derived from the given chunks of the column.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        values: ScratchStrings,
        chunks: &[usize],
        tables: &GroupTables<'_>,
        family: Family,
        options: &Options,
    ) -> Result<Self> {
        let count = values.count();
        let each = (0..count).map(|number| number..number + 1).collect();
        let lengths = Lengths::start(launcher, &values.column, values.chunk_rows, each)?;
        let value_words = values.measure(launcher, lengths.view.value_lengths, options)?;
        let group_tables: Vec<Option<Arc<Table>>> =
            chunks.iter().map(|chunk| tables.table_of(*chunk).cloned()).collect();
        let has_table = |number: &usize| {
            group_tables[*number].is_some() && values.may_have_codes(*number, options)
        };
        let numbers: Vec<usize> = (0..count).filter(has_table).collect();
        let of_groups = match numbers.is_empty() {
            true => None,
            false => {
                let ranges: Vec<_> = (numbers.iter())
                    .map(|&number| values.range(number, tables.group_of(chunks[number])))
                    .collect();
                let column = &values.column;
                let samples = tables::estimate(launcher, column, &lengths, &ranges, tables.first)?;
                Some((numbers, samples))
            }
        };
        let options = options.clone();
        Ok(Self { values, lengths, value_words, of_groups, group_tables, family, options })
    }

    /// Trains tables for chunks of groups without, and makes codes of all, by the tables that they
    /// then have; waits, also for what has been started before.
    pub(super) fn read_with_codes(self, launcher: &mut Launcher<'_>) -> Result<DerivedStrings> {
        let alone: Vec<usize> = (0..self.values.count())
            .filter(|number| self.group_tables[*number].is_none())
            .filter(|number| self.values.may_have_codes(*number, &self.options))
            .collect();
        let own = match alone.is_empty() {
            true => None,
            false => {
                let own = OwnTables::train(
                    launcher,
                    &self.values.column,
                    &self.lengths,
                    self.values.own_ranges(&alone),
                )?;
                Some((own.tables.read(launcher)?, own.samples))
            }
        };
        let has_codes = |number: usize| self.values.may_have_codes(number, &self.options);
        let mut tables: Vec<Option<Arc<Table>>> = (self.group_tables.iter().enumerate())
            .map(|(number, table)| table.clone().filter(|_| has_codes(number)))
            .collect();
        for (number, table) in alone.iter().zip(own.iter().flat_map(|(trained, _)| trained)) {
            tables[*number] = table.clone();
        }
        let codes =
            PendingCodes::start(launcher, &self.values, &self.lengths, &tables, &self.options)?;
        let mut strings = self.read(launcher)?;
        if let Some((trained, samples)) = own {
            let samples = launcher.read(&samples)?;
            strings.own = alone.into_iter().zip(tables::samples_of(trained, &samples)).collect();
        }
        strings.codes = codes.map(|codes| codes.read(launcher)).transpose()?;
        Ok(strings)
    }

    /// Waits for all that.
    pub(super) fn read(mut self, launcher: &Launcher<'_>) -> Result<DerivedStrings> {
        self.value_words.read(launcher)?;
        let mut of_groups = BTreeMap::new();
        if let Some((numbers, pending)) = self.of_groups {
            for (number, sample) in numbers.into_iter().zip(launcher.read(&pending)?) {
                let table = self.group_tables[number].clone().zip(sampled(&sample));
                of_groups
                    .extend(table.map(|(table, sampled)| (number, TableSample { table, sampled })));
            }
        }
        let Self { values, lengths, value_words, group_tables, family, options, .. } = self;
        let rows = values.counts.clone();
        let chunks = StringChunks::new(launcher, lengths, value_words, options, family, rows)?;
        let (own, codes) = (BTreeMap::new(), None);
        Ok(DerivedStrings { values, chunks, group_tables, of_groups, own, codes })
    }
}

impl DerivedStrings {
    /// If all values of a chunk are equal, the bytes of one.
    pub(super) fn single(&self, number: usize) -> Option<usize> {
        let rows = self.chunks.rows(number);
        self.values.singles[number].then(|| self.chunks.bytes(number) / rows)
    }

    /// What the table of a chunk's group makes of a sample of it, if there is such a table.
    pub(super) fn sample_of_group(&self, number: usize) -> Option<&TableSample> {
        self.of_groups.get(&number)
    }

    /// What a table of a chunk's own makes of it, if that has been trained.
    pub(super) fn own_sample(&self, number: usize) -> Option<Option<&TableSample>> {
        self.own.get(&number).map(Option::as_ref)
    }

    /// Trains tables of chunks' own; waits.
    pub(super) fn train(&mut self, launcher: &mut Launcher<'_>, numbers: &[usize]) -> Result<()> {
        let ranges = self.values.own_ranges(numbers);
        let (column, lengths) = (&self.values.column, &self.chunks.lengths);
        let own = OwnTables::train(launcher, column, lengths, ranges)?.read(launcher)?;
        self.own.extend(numbers.iter().copied().zip(own));
        Ok(())
    }

    /// Makes codes of the chunks whose plan, or one that may take its place, has some; waits.
    pub(super) fn make_codes(
        &mut self,
        launcher: &mut Launcher<'_>,
        plans: &[Option<&Plan>],
    ) -> Result<()> {
        let table = |(number, plan): (usize, &Option<&Plan>)| {
            let plan = (*plan)?;
            match plan.symbol_table()? {
                TableOf::Group => self.group_tables[number].clone(),
                TableOf::Chunk => Some(self.own_sample(number)??.table.clone()),
            }
        };
        let tables: Vec<Option<Arc<Table>>> = plans.iter().enumerate().map(table).collect();
        let (lengths, options) = (&self.chunks.lengths, &self.chunks.options);
        let codes = PendingCodes::start(launcher, &self.values, lengths, &tables, options)?;
        self.codes = codes.map(|codes| codes.read(launcher)).transpose()?;
        Ok(())
    }

    /// The values, as kernels read them, and their lengths.
    pub(super) fn column(&self) -> &StringColumn {
        &self.values.column
    }

    /// Starts writing lengths of values or codes, given their number.
    pub(super) fn write_lengths(
        &self,
        launcher: &mut Launcher<'_>,
        number: usize,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        let family = self.chunks.family;
        let words = match &self.codes {
            Some(codes) if number == family.code_lengths() => &codes.lengths,
            _ if number == family.value_lengths() => &self.chunks.value_words,
            _ => {
                return Err(Error::device("lengths of codes of derived strings that have none"));
            }
        };
        words.write(launcher, encoding, &write::targets(jobs))
    }

    /// The node of the values of a chunk, which may be front-coded.
    pub(super) fn node(
        &self,
        number: usize,
        plan: &Plan,
        fronts: Option<&Fronts>,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let node = |plan: &Plan| self.of_plan(number, plan, fronts);
        let node = plan::first_kept(plan, node, |part| part.len)?;
        node.ok_or_else(|| Error::device("derived strings without an encoding"))
    }

    fn of_plan(
        &self,
        number: usize,
        plan: &Plan,
        fronts: Option<&Fronts>,
    ) -> Result<Option<EncodedNode<PendingBuffer>>> {
        let chunks = &self.chunks;
        match string_form(plan.encoding)? {
            StringForm::One => {
                let rows = chunks.rows(number);
                let mut node = EncodedNode::new(Encoding::Constant, Physical::Bytes, rows);
                node.buffers = vec![chunks.part(self.single(number).unwrap_or(0))];
                Ok(Some(node))
            }
            StringForm::Codes => {
                let missing = || Error::device("codes of derived strings are missing");
                let codes = self.codes.as_ref().ok_or_else(missing)?;
                let span = codes.span_of(number).ok_or_else(missing)?;
                let bytes = codes.sizes[number].codes as usize;
                let lengths = (&codes.lengths, number);
                chunks.codes_node(number, &span.table, bytes, lengths, plan).map(Some)
            }
            StringForm::Prefixes => match fronts {
                Some(fronts) => fronts.node(chunks, number, plan).map(Some),
                None => Err(Error::device("front coding of strings without")),
            },
            StringForm::Bytes => chunks.plain_node(number, plan).map(Some),
            StringForm::Lookup | StringForm::Segments => Err(unplanned(plan.encoding)),
        }
    }

    /// Starts writing nodes of one encoding, given the numbers of their chunks.
    pub(super) fn write(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        jobs: &[(usize, &Job)],
    ) -> Result<()> {
        let ScratchStrings { column, borders, .. } = &self.values;
        match string_form(encoding)? {
            StringForm::One => {
                let span = |(number, job): &(usize, &Job)| {
                    let from = column.values.add(borders[*number] as usize);
                    let bytes = self.single(*number).unwrap_or(0) as u64;
                    abi::ByteSpan { from, to: job.buffers[0], bytes }
                };
                write::copy_spans(launcher, &jobs.iter().map(span).collect::<Vec<_>>())
            }
            StringForm::Codes => match &self.codes {
                Some(codes) => codes.write(launcher, jobs),
                None => Err(Error::device("codes of derived strings are missing")),
            },
            StringForm::Prefixes => {
                self.chunks.write_starts(launcher, jobs.iter().copied(), STARTS_OF_FRONT)
            }
            StringForm::Bytes => {
                self.chunks.write_plain(launcher, column, borders, jobs.iter().copied())
            }
            StringForm::Lookup | StringForm::Segments => Err(unplanned(encoding)),
        }
    }
}

/// The error for an encoding that is planned for strings of a column only.
fn unplanned(encoding: Encoding) -> Error {
    Error::device(format!("derived strings are to be encoded as {encoding}"))
}

/// Codes of derived strings, in scratch.
struct Codes {
    /// In order.
    spans: Vec<CodeSpan>,
    /// Their lengths.
    lengths: Words,
    /// Of each chunk, if it has codes.
    sizes: Vec<abi::FsstPlace>,
}

/// Chunks that follow each other and have codes by one table.
struct CodeSpan {
    chunks: Range<usize>,
    table: Arc<Table>,
    runs: CodeRuns,
}

impl Codes {
    /// That of a chunk.
    fn span_of(&self, number: usize) -> Option<&CodeSpan> {
        let span = self.spans.get(self.spans.partition_point(|span| span.chunks.end <= number))?;
        (span.chunks.start <= number).then_some(span)
    }

    /// Starts writing nodes, given the numbers of their chunks.
    fn write(&self, launcher: &mut Launcher<'_>, jobs: &[(usize, &Job)]) -> Result<()> {
        let mut jobs = jobs.to_vec();
        jobs.sort_by_key(|(number, _)| *number);
        let mut rest = jobs.as_slice();
        while let Some((number, _)) = rest.first() {
            let missing = || Error::device("codes of derived strings are missing");
            let CodeSpan { chunks, table, runs } = self.span_of(*number).ok_or_else(missing)?;
            let (now, later) =
                rest.split_at(rest.partition_point(|(number, _)| *number < chunks.end));
            rest = later;
            let of_span = now.iter().map(|(number, job)| (number - chunks.start, *job));
            runs.write(launcher, table, &self.sizes[chunks.clone()], of_span)?;
        }
        Ok(())
    }
}

/// Codes that are being made.
struct PendingCodes {
    spans: Vec<CodeSpan>,
    lengths: Words,
    sizes: Pending<abi::FsstPlace>,
}

impl PendingCodes {
    /// Starts making the codes of chunks that are given a table; none if there is none. All of
    /// them have scratch in one piece.
    fn start(
        launcher: &mut Launcher<'_>,
        values: &ScratchStrings,
        lengths: &Lengths,
        tables: &[Option<Arc<Table>>],
        options: &Options,
    ) -> Result<Option<Self>> {
        let ScratchStrings { column, borders, .. } = values;
        if tables.iter().all(Option::is_none) {
            return Ok(None);
        }
        // Chunks without codes have no lengths of codes.
        if tables.iter().any(Option::is_none) {
            lengths.clear_codes(launcher, 0..column.rows / VECTOR)?;
        }
        let pointers = tables.iter().map(|table| Some(table.as_ref()?.pointer));
        let spans: Vec<(Span, Arc<Table>, CodeRoom)> =
            (spans(pointers, borders, span_bytes(launcher.is_host())).into_iter())
                .filter_map(|span| {
                    let table = tables[span.chunks.start].clone()?;
                    let room = CodeRoom::of(column, lengths, &span, borders);
                    Some((span, table, room))
                })
                .collect();
        let scratch = launcher.allocate(spans.iter().map(|(.., room)| room.len).sum())?;
        let size_bytes = tables.len() * size_of::<abi::FsstPlace>();
        let sizes = launcher.allocate(size_bytes)?;
        launcher.stream.fill(&sizes, 0, size_bytes, 0)?;
        let mut at = 0;
        let mut started = Vec::with_capacity(spans.len());
        for (Span { chunks, .. }, table, room) in spans {
            let to = sizes.pointer::<abi::FsstPlace>().add(chunks.start);
            let scratch = (scratch.as_ref(), at);
            let runs =
                CodeRuns::start(launcher, column, lengths, table.pointer, &room, scratch, to)?;
            runs.find_sizes(launcher, chunks.len())?;
            at += room.len;
            started.push(CodeSpan { chunks, table, runs });
        }
        let sizes = launcher.result(&sizes, 0, tables.len())?;
        let lengths = values.measure(launcher, lengths.view.code_lengths, options)?;
        Ok(Some(Self { spans: started, lengths, sizes }))
    }

    /// Waits for their sizes.
    fn read(mut self, launcher: &Launcher<'_>) -> Result<Codes> {
        self.lengths.read(launcher)?;
        let sizes = launcher.read(&self.sizes)?;
        Ok(Codes { spans: self.spans, lengths: self.lengths, sizes })
    }
}
