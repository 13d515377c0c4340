//! Statistics of chunks of strings in device memory, and of the distinct strings of their
//! dictionaries.

use super::chunks::StringChunks;
use super::distinct::DistinctStrings;
use super::plan::MeasuredColumn;
use super::tables::TableSample;
use crate::encode::missing::{Order, Requests};
use crate::encode::statistics::ChunkWords;
use crate::encode::tree;
use crate::encoding::constant::MAX_VALUE_BYTES;
use crate::encoding::dict::SampledValues;
use crate::encoding::lz::{LzBytes, Promise};
use crate::encoding::plan::Parameters;
use crate::encoding::statistics::{
    Answer, Child, CodedSample, Missing, Prefixes, Statistics, TableOf,
};
use crate::encoding::{Encoding, Physical};
use crate::options::Lz;

/// A part that is missing of a chunk of strings.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// A symbol table of its own.
    OwnTable,
    /// Its distinct values, if they are at most so many.
    Distinct(usize),
    /// Its dictionary.
    Dictionary,
    /// A part of the codes of its rows.
    Codes((usize, tree::Part)),
    /// Matches of LZ in a sample of its bytes.
    Matches(LzBytes),
}

impl Part {
    /// Its place in the order in which the planner asks; codes come behind dictionaries.
    fn order(self) -> u8 {
        match self {
            Self::OwnTable => 0,
            Self::Distinct(_) => 1,
            Self::Dictionary | Self::Codes(_) => 2,
            Self::Matches(_) => 3,
        }
    }
}

/// Statistics of a chunk of a column.
pub(super) struct ChunkStrings<'k> {
    measured: &'k MeasuredColumn,
    chunk: usize,
    requests: &'k Requests<Part>,
    of_codes: Requests<(usize, tree::Part)>,
}

impl<'k> ChunkStrings<'k> {
    /// What is missing is noted, of codes once [`Self::finish`] is called.
    pub(super) fn new(
        measured: &'k MeasuredColumn,
        chunk: usize,
        requests: &'k Requests<Part>,
    ) -> Self {
        Self { measured, chunk, requests, of_codes: Requests::default() }
    }

    /// Notes what is missing of codes.
    pub(super) fn finish(self) {
        let order = Order::default().then(Part::Dictionary.order());
        self.of_codes.forward(self.requests, order, Part::Codes);
    }

    fn ask<T>(&self, part: Part) -> Answer<T> {
        self.requests.note(Order::default().then(part.order()), part);
        Err(Missing)
    }

    fn strings(&self) -> &StringChunks {
        &self.measured.strings
    }
}

/// What a table makes of a sample.
fn coded(by: TableOf, sample: &TableSample) -> CodedSample {
    let TableSample { table, sampled } = sample;
    let (sampled, trained, parameters) = (*sampled, table.trained, Parameters::Table(by));
    CodedSample { sampled, trained, table: table.len, parameters }
}

impl Statistics for ChunkStrings<'_> {
    fn physical(&self) -> Physical {
        Physical::Bytes
    }

    fn rows(&self) -> usize {
        self.strings().rows(self.chunk)
    }

    fn single(&self) -> Answer<Option<usize>> {
        let single = &self.measured.singles[self.chunk];
        let length = single.length as usize;
        Ok((single.is_single != 0 && length <= MAX_VALUE_BYTES).then_some(length))
    }

    fn value_bytes(&self) -> Answer<usize> {
        Ok(self.strings().bytes(self.chunk))
    }

    fn lengths(&self) -> Answer<Child<'_>> {
        Ok(Box::new(ChunkWords::alone(&self.strings().value_words, self.chunk)))
    }

    fn coded(&self, by: TableOf) -> Answer<Option<CodedSample>> {
        let sample = match by {
            TableOf::Group => self.measured.sample_of_group(self.chunk),
            TableOf::Chunk => match self.measured.own_tables.get(&self.chunk) {
                Some(sample) => sample.clone(),
                None => return self.ask(Part::OwnTable),
            },
        };
        Ok(sample.map(|sample| coded(by, &sample)))
    }

    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        Ok(None)
    }

    fn sampled_values(&self) -> Answer<Option<SampledValues>> {
        let sample = self.measured.repetitions.get(self.chunk);
        Ok(sample.map(|sample| sample.counted(self.rows())))
    }

    /// Distinct values, if they are at most so many.
    fn search(&self, _: Encoding, most: u64) -> Answer<Option<usize>> {
        match self.measured.dictionaries.found(self.chunk) {
            Some(found) => Ok(found),
            None => self.ask(Part::Distinct(most as usize)),
        }
    }

    /// Those of a dictionary.
    fn children(&self, _: Encoding) -> Answer<Vec<Child<'_>>> {
        let parts = self.measured.dictionaries.parts(self.chunk, &self.of_codes);
        parts.map_or_else(|| self.ask(Part::Dictionary), |parts| Ok(Vec::from(parts)))
    }

    fn lz_bytes(&self, limit: usize) -> Answer<Option<LzBytes>> {
        let (strings, chunk) = (self.strings(), self.chunk);
        let (rows, bytes) = (strings.rows(chunk), strings.bytes(chunk));
        let lengths = strings.value_words.bounds(chunk);
        let width = lengths.and_then(|[low, high]| (low == high).then_some(low as usize));
        Ok(LzBytes::of_strings(bytes, rows, width, self.measured.is_text, limit))
    }

    fn matches(&self, of: &LzBytes, _: &Lz) -> Answer<Option<Promise>> {
        match self.measured.matches.get(&self.chunk) {
            Some((_, promise)) => Ok(*promise),
            None => self.ask(Part::Matches(*of)),
        }
    }
}

/// Statistics of the distinct strings of a dictionary.
pub(super) struct ChunkDistinct<'d> {
    pub(super) strings: &'d DistinctStrings,
    /// The number of the dictionary.
    pub(super) number: usize,
}

impl Statistics for ChunkDistinct<'_> {
    fn physical(&self) -> Physical {
        Physical::Bytes
    }

    fn rows(&self) -> usize {
        self.strings.chunks.rows(self.number)
    }

    fn single(&self) -> Answer<Option<usize>> {
        let bytes = self.strings.chunks.bytes(self.number);
        Ok((self.rows() == 1 && bytes <= MAX_VALUE_BYTES).then_some(bytes))
    }

    fn value_bytes(&self) -> Answer<usize> {
        Ok(self.strings.chunks.bytes(self.number))
    }

    fn lengths(&self) -> Answer<Child<'_>> {
        Ok(Box::new(ChunkWords::alone(&self.strings.chunks.value_words, self.number)))
    }

    fn coded(&self, by: TableOf) -> Answer<Option<CodedSample>> {
        Ok(self.strings.sample(self.number, by).map(|sample| coded(by, sample)))
    }

    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        Ok(None)
    }
}
