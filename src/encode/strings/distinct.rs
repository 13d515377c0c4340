//! The distinct strings of dictionaries, which are stored contiguously in scratch: a column of
//! strings whose chunks are the dictionaries.
//!
//! All chunks begin at a multiple of as many rows, those of the largest dictionary; rows behind the
//! last value of a dictionary are empty strings, which have no codes. They are planned and encoded
//! as the column is, with the symbol tables of its groups; dictionaries of groups without a table,
//! whose strings are short on average, train their own. Codes are made before plans are known:
//! dictionaries are far smaller than the column, and the host waits once.

use std::ops::Range;
use std::sync::Arc;

use super::chunks::{StringChunks, lengths_source};
use super::codes::CodeRuns;
use super::dict::{DISTINCT_NUMBERS, GroupTables};
use super::lengths::{Lengths, range};
use super::tables::{self, Table, TableSample, Tables, Trainers, sampled};
use super::{StringColumn, spans};
use crate::chunk::EncodedNode;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::measurements::Measurements;
use crate::encode::words::Words;
use crate::encode::write::{self, Job, Part};
use crate::encoding::plan::{self, Plan};
use crate::encoding::statistics::TableOf;
use crate::encoding::{Encoding, Physical, fsst};
use crate::error::{Error, Result};
use crate::gpu::{DevicePtr, abi};
use crate::lanes::VECTOR;
use crate::options::Options;

/// Distinct values, which kernels have been started to write.
pub(super) struct DistinctValues {
    /// The values and their offsets.
    pub(super) column: StringColumn,
    /// How many each dictionary has.
    pub(super) counts: Vec<u32>,
    /// Where those of each dictionary begin among the bytes, and the end.
    pub(super) borders: Vec<u64>,
    /// Rows from the begin of one dictionary to that of the next.
    pub(super) value_rows: usize,
}

/// Distinct strings that are being measured and encoded.
pub(super) struct PendingStrings {
    values: DistinctValues,
    lengths: Lengths,
    value_words: Words,
    /// The symbol table of each dictionary, if its strings may have codes.
    tables: Vec<Option<Arc<Table>>>,
    spans: Vec<(CodeSpan, Pending<abi::FsstPlace>)>,
    /// Lengths of codes, if there are any.
    code_words: Option<Words>,
    /// What tables make of samples of dictionaries, given the numbers of these: tables of
    /// groups, then those of dictionaries of their own.
    samples: Vec<(TableOf, Vec<usize>, Pending<abi::FsstSample>)>,
    options: Options,
}

/// The distinct strings of a column's dictionaries.
pub(super) struct DistinctStrings {
    column: StringColumn,
    borders: Vec<u64>,
    pub(super) chunks: StringChunks,
    spans: Vec<CodeSpan>,
    code_words: Option<Words>,
    /// What a table makes of each dictionary, if its strings may have codes.
    samples: Vec<Option<(TableOf, TableSample)>>,
}

/// Dictionaries that follow each other and have codes by one table.
struct CodeSpan {
    dictionaries: Range<usize>,
    table: Arc<Table>,
    runs: CodeRuns,
    /// Of each dictionary, once they have been read.
    sizes: Vec<abi::FsstPlace>,
}

impl PendingStrings {
    /// Starts measuring distinct strings, those of the dictionaries of some chunks, and making
    /// their codes.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        values: DistinctValues,
        chunks: &[usize],
        tables: &GroupTables<'_>,
        options: &Options,
    ) -> Result<Self> {
        let DistinctValues { column, counts, borders, value_rows } = &values;
        let (value_rows, count) = (*value_rows, counts.len());
        let groups: Vec<Range<usize>> = (0..count).map(|number| number..number + 1).collect();
        let lengths = Lengths::start(launcher, column, value_rows, groups)?;
        let chunk_vectors = value_rows / VECTOR;
        let words = |launcher: &mut Launcher<'_>, lengths: DevicePtr<u32>| {
            let source = lengths_source(lengths, column.rows, chunk_vectors);
            let asked = Measurements::of_lengths(options);
            Words::derived(launcher, Physical::U32, source, counts.clone(), asked)
        };
        let value_words = words(launcher, lengths.view.value_lengths)?;
        let bytes = |number: usize| (borders[number + 1] - borders[number]) as usize;
        let may_have_codes = |number: &usize| {
            options.allows(Encoding::Fsst) && fsst::pays(bytes(*number), counts[*number] as usize)
        };
        let (with_groups, alone): (Vec<usize>, Vec<usize>) = (0..count)
            .filter(may_have_codes)
            .partition(|&number| tables.table_of(chunks[number]).is_some());
        let range = |number: usize, table: usize| abi::FsstRange {
            rows: counts[number],
            ..range(&(number..number + 1), chunk_vectors, column.rows, number, table)
        };
        let mut own = vec![None; count];
        let mut samples = Vec::new();
        if !with_groups.is_empty() {
            with_groups.iter().for_each(|&number| {
                own[number] = tables.table_of(chunks[number]).cloned();
            });
            let ranges: Vec<_> = (with_groups.iter())
                .map(|&number| range(number, tables.group_of(chunks[number])))
                .collect();
            let sample = tables::estimate(launcher, column, &lengths, &ranges, tables.first)?;
            samples.push((TableOf::Group, with_groups, sample));
        }
        if !alone.is_empty() {
            let ranges: Vec<_> =
                alone.iter().enumerate().map(|(table, &number)| range(number, table)).collect();
            let trainers = Trainers::prepare(launcher, ranges.len())?;
            let trained = Tables::train(launcher, column, &lengths, &ranges, trainers)?;
            let first = trained.first();
            let sample = tables::estimate(launcher, column, &lengths, &ranges, first)?;
            for (&number, table) in alone.iter().zip(trained.read(launcher)?) {
                own[number] = table;
            }
            samples.push((TableOf::Chunk, alone, sample));
        }
        // Dictionaries without codes have no lengths of codes.
        if own.iter().any(Option::is_none) && own.iter().any(Option::is_some) {
            lengths.clear_codes(launcher, 0..column.rows / VECTOR)?;
        }
        let mut started = Vec::new();
        for span in spans(own.iter().map(pointer), borders, usize::MAX) {
            let Some(table) = own[span.chunks.start].clone() else { continue };
            let runs = CodeRuns::start(launcher, column, &lengths, &span, borders)?;
            let pending = runs.sizes(launcher)?;
            let (dictionaries, sizes) = (span.chunks, Vec::new());
            started.push((CodeSpan { dictionaries, table, runs, sizes }, pending));
        }
        let code_words = match started.is_empty() {
            true => None,
            false => Some(words(launcher, lengths.view.code_lengths)?),
        };
        let (tables, spans, options) = (own, started, options.clone());
        Ok(Self { values, lengths, value_words, tables, spans, code_words, samples, options })
    }

    /// Waits for all that.
    pub(super) fn read(mut self, launcher: &Launcher<'_>) -> Result<DistinctStrings> {
        self.value_words.read(launcher)?;
        if let Some(words) = &mut self.code_words {
            words.read(launcher)?;
        }
        let mut samples = vec![None; self.tables.len()];
        for (by, numbers, pending) in &self.samples {
            for (number, sample) in numbers.iter().zip(launcher.read(pending)?) {
                let table = self.tables[*number].clone().zip(sampled(&sample));
                samples[*number] =
                    table.map(|(table, sampled)| (*by, TableSample { table, sampled }));
            }
        }
        let read = |(mut span, pending): (CodeSpan, Pending<abi::FsstPlace>)| {
            span.sizes = launcher.read(&pending)?;
            Ok(span)
        };
        let spans = self.spans.into_iter().map(read).collect::<Result<_>>()?;
        let DistinctValues { column, counts, borders, .. } = self.values;
        let (lengths, words, options) = (self.lengths, self.value_words, self.options);
        let chunks =
            StringChunks::new(launcher, lengths, words, options, DISTINCT_NUMBERS, counts)?;
        let code_words = self.code_words;
        Ok(DistinctStrings { column, borders, chunks, spans, code_words, samples })
    }
}

/// Where a table is.
fn pointer(table: &Option<Arc<Table>>) -> Option<DevicePtr<u8>> {
    table.as_ref().map(|table| table.pointer)
}

impl DistinctStrings {
    /// The words of a number.
    pub(super) fn words(&self, number: usize) -> Result<&Words> {
        match &self.code_words {
            Some(words) if number == DISTINCT_NUMBERS.code_lengths => Ok(words),
            _ if number == DISTINCT_NUMBERS.value_lengths => Ok(&self.chunks.value_words),
            _ => Err(Error::device(
                "the distinct values have no codes whose lengths could be written",
            )),
        }
    }

    /// What a table makes of a sample of a dictionary, if it has such a table.
    pub(super) fn sample(&self, number: usize, by: TableOf) -> Option<&TableSample> {
        let (of, sample) = self.samples[number].as_ref()?;
        (*of == by).then_some(sample)
    }

    /// The node of the values of a dictionary.
    pub(super) fn node(&self, number: usize, plan: &Plan) -> Result<EncodedNode<Part>> {
        let node = plan::first_kept(plan, |plan| self.of_plan(number, plan), |part| part.len)?;
        node.ok_or_else(|| Error::device("distinct values without an encoding"))
    }

    fn of_plan(&self, number: usize, plan: &Plan) -> Result<Option<EncodedNode<Part>>> {
        let chunks = &self.chunks;
        match plan.encoding {
            Encoding::Constant => {
                let rows = chunks.rows(number);
                let mut node = EncodedNode::new(Encoding::Constant, Physical::Bytes, rows);
                node.buffers = vec![chunks.part(chunks.bytes(number))];
                Ok(Some(node))
            }
            Encoding::Fsst => {
                let span = self.spans.iter().find(|span| span.dictionaries.contains(&number));
                let (Some(span), Some(words)) = (span, &self.code_words) else {
                    return Err(Error::device("codes of distinct values are missing"));
                };
                let codes = span.sizes[number - span.dictionaries.start].codes as usize;
                chunks.codes_node(number, &span.table, codes, (words, number), plan).map(Some)
            }
            _ => chunks.plain_node(number, plan).map(Some),
        }
    }

    /// Starts writing nodes of one encoding, given the numbers of their dictionaries.
    pub(super) fn write(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        jobs: &[(usize, &Job)],
    ) -> Result<()> {
        match encoding {
            Encoding::Constant => {
                let span = |(number, job): &(usize, &Job)| {
                    let from = self.column.values.add(self.borders[*number] as usize);
                    let bytes = self.chunks.bytes(*number) as u64;
                    abi::ByteSpan { from, to: job.buffers[0], bytes }
                };
                write::copy_spans(launcher, &jobs.iter().map(span).collect::<Vec<_>>())
            }
            Encoding::Fsst => self.spans.iter().try_for_each(|span| {
                let first = span.dictionaries.start;
                let of_span = (jobs.iter())
                    .filter(|(number, _)| span.dictionaries.contains(number))
                    .map(|(number, job)| (number - first, *job));
                span.runs.write(launcher, &span.table, &span.sizes, of_span)
            }),
            _ => {
                let jobs = jobs.iter().copied();
                self.chunks.write_plain(launcher, &self.column, &self.borders, jobs)
            }
        }
    }
}
