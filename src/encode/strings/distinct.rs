//! The distinct strings of dictionaries, which lie one behind the other in scratch: a column of
//! strings whose chunks are the dictionaries.
//!
//! All chunks begin at a multiple of as many rows, those of the largest dictionary; rows behind the
//! last value of a dictionary are empty strings, which have no codes. They are planned and encoded
//! as the column is, with the symbol tables of its groups, so nothing is trained. Codes are made
//! before plans are known: dictionaries are far smaller than the column, and the host waits once.

use std::ops::Range;
use std::sync::Arc;

use super::chunks::{StringChunks, TableSample, lengths_source};
use super::codes::CodeRuns;
use super::dict::{GroupTables, NUMBERS};
use super::lengths::{Lengths, range};
use super::tables::{self, Table, sampled};
use super::{StringColumn, windows};
use crate::chunk::EncodedNode;
use crate::encode::asked::Asked;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::words::Words;
use crate::encode::write::{self, Job, Part};
use crate::encoding::plan::{self, Plan};
use crate::encoding::{Encoding, Physical, constant, fsst};
use crate::error::{Error, Result};
use crate::gpu::abi::strings as abi;
use crate::lanes::VECTOR;
use crate::options::Options;

/// Distinct values, which kernels have been started to write.
pub(super) struct DistinctValues {
    /// They, and where each begins.
    pub(super) column: StringColumn,
    /// How many each dictionary has.
    pub(super) counts: Vec<u32>,
    /// Where those of each dictionary begin among the bytes, and the end.
    pub(super) borders: Vec<u64>,
    /// Rows from the begin of one dictionary to that of the next.
    pub(super) value_rows: usize,
}

/// Distinct strings that are being measured and encoded.
pub(super) struct StartedStrings {
    values: DistinctValues,
    lengths: Lengths,
    value_words: Words,
    /// The symbol table of each dictionary, if its strings may have codes.
    tables: Vec<Option<Arc<Table>>>,
    windows: Vec<(CodeWindow, Pending<abi::FsstPlace>)>,
    /// Lengths of codes, if there are any; and what tables make of samples of dictionaries.
    code_words: Option<(Words, Pending<abi::FsstSample>)>,
    options: Options,
}

/// The distinct strings of a column's dictionaries.
pub(super) struct DistinctStrings {
    column: StringColumn,
    borders: Vec<u64>,
    chunks: StringChunks,
    windows: Vec<CodeWindow>,
    code_words: Option<Words>,
}

/// Dictionaries that follow each other and have codes by one table.
struct CodeWindow {
    dictionaries: Range<usize>,
    table: Arc<Table>,
    runs: CodeRuns,
    /// Of each dictionary, once they have been read.
    sizes: Vec<abi::FsstPlace>,
}

impl StartedStrings {
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
        let words = |launcher: &mut Launcher<'_>, lengths: u64| {
            let source = lengths_source(lengths, column.rows, chunk_vectors);
            let asked = Asked::of_lengths(options);
            Words::derived(launcher, Physical::U32, source, counts.clone(), asked)
        };
        let value_words = words(launcher, lengths.window.value_lengths)?;
        let bytes = |number: usize| (borders[number + 1] - borders[number]) as usize;
        let table = |(number, &chunk): (usize, &usize)| {
            let pays = fsst::pays(bytes(number), counts[number] as usize);
            let table = tables.table_of(chunk).filter(|_| pays && options.allows(Encoding::Fsst));
            table.cloned()
        };
        let own: Vec<Option<Arc<Table>>> = chunks.iter().enumerate().map(table).collect();
        let mut started = Vec::new();
        for window in windows(own.iter().map(address), borders, usize::MAX) {
            let Some(table) = own[window.chunks.start].clone() else { continue };
            let runs = CodeRuns::start(launcher, column, &lengths, &window, borders)?;
            let pending = runs.sizes(launcher)?;
            let (dictionaries, sizes) = (window.chunks, Vec::new());
            started.push((CodeWindow { dictionaries, table, runs, sizes }, pending));
        }
        let code_words = if started.is_empty() {
            None
        } else {
            let range = |(number, &chunk): (usize, &usize)| {
                let (vectors, group) = (column.rows / VECTOR, tables.group_of(chunk));
                range(&(number..number + 1), chunk_vectors, vectors, number, group)
            };
            let ranges: Vec<abi::FsstRange> = chunks.iter().enumerate().map(range).collect();
            let samples = tables::estimate(launcher, column, &lengths, &ranges, tables.address)?;
            Some((words(launcher, lengths.window.code_lengths)?, samples))
        };
        let options = options.clone();
        Ok(Self {
            values,
            lengths,
            value_words,
            tables: own,
            windows: started,
            code_words,
            options,
        })
    }

    /// Waits for all that, and plans the distinct strings of each dictionary.
    pub(super) fn read(mut self, launcher: &Launcher<'_>) -> Result<(DistinctStrings, Vec<Plan>)> {
        self.value_words.read(launcher)?;
        let (code_words, samples) = match self.code_words {
            Some((mut words, samples)) => {
                words.read(launcher)?;
                (Some(words), launcher.read(&samples)?)
            }
            None => (None, vec![abi::FsstSample::default(); self.tables.len()]),
        };
        let read = |(mut window, pending): (CodeWindow, Pending<abi::FsstPlace>)| {
            window.sizes = launcher.read(&pending)?;
            Ok(window)
        };
        let windows = self.windows.into_iter().map(read).collect::<Result<_>>()?;
        let DistinctValues { column, counts, borders, .. } = self.values;
        let (lengths, words, options) = (self.lengths, self.value_words, self.options);
        let chunks = StringChunks::new(launcher, lengths, words, options, NUMBERS, counts)?;
        let plan = |(number, table): (usize, &Option<Arc<Table>>)| {
            let sample = |table| Some(TableSample { table, sampled: sampled(&samples[number])? });
            let (single, bytes) = (chunks.rows(number) == 1, chunks.bytes(number));
            let is_constant = single
                && bytes <= constant::MAX_VALUE_BYTES
                && chunks.options.allows(Encoding::Constant);
            let fsst = table.as_deref().and_then(sample);
            let estimates = chunks.estimates(number, is_constant.then_some(bytes), fsst);
            plan::choose(estimates.into_iter())
        };
        let plans = self.tables.iter().enumerate().map(plan).collect();
        Ok((DistinctStrings { column, borders, chunks, windows, code_words }, plans))
    }
}

/// The address of a table.
fn address(table: &Option<Arc<Table>>) -> Option<u64> {
    table.as_ref().map(|table| table.address)
}

impl DistinctStrings {
    /// The words of a number.
    pub(super) fn words(&self, number: usize) -> Result<&Words> {
        match &self.code_words {
            Some(words) if number == NUMBERS.code_lengths => Ok(words),
            _ if number == NUMBERS.value_lengths => Ok(&self.chunks.value_words),
            _ => Err(Error::device("lengths of codes of distinct values without")),
        }
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
                let window =
                    self.windows.iter().find(|window| window.dictionaries.contains(&number));
                let (Some(window), Some(words)) = (window, &self.code_words) else {
                    return Err(Error::device("codes of distinct values are missing"));
                };
                let codes = window.sizes[number - window.dictionaries.start].codes as usize;
                chunks.codes_node(number, &window.table, codes, (words, number), plan).map(Some)
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
                    let from = self.column.values + self.borders[*number];
                    let bytes = self.chunks.bytes(*number) as u64;
                    abi::ByteSpan { from, to: job.buffers[0], bytes }
                };
                write::copy_spans(launcher, &jobs.iter().map(span).collect::<Vec<_>>())
            }
            Encoding::Fsst => self.windows.iter().try_for_each(|window| {
                let first = window.dictionaries.start;
                let of_window = (jobs.iter())
                    .filter(|(number, _)| window.dictionaries.contains(number))
                    .map(|(number, job)| (number - first, *job));
                window.runs.write(launcher, &window.table, &window.sizes, of_window)
            }),
            _ => {
                let jobs = jobs.iter().copied();
                self.chunks.write_plain(launcher, &self.column, &self.borders, jobs)
            }
        }
    }
}
