//! Statistics of chunks of strings in device memory: of a column, and of strings derived from it.

use super::chunks::StringChunks;
use super::derived::DerivedStrings;
use super::front::{FrontPart, FrontRequests, Fronts};
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
pub(super) enum StringsPart {
    /// A symbol table of its own.
    OwnTable,
    /// A part of its front coding.
    Front(FrontPart),
    /// Its distinct values, if they are at most so many.
    Distinct(usize),
    /// Its dictionary.
    Dictionary,
    /// A part of the codes of its rows.
    Codes((usize, tree::WordsPart)),
    /// A part of the front coding of its dictionary.
    FrontOfDistinct(FrontPart),
    /// Matches of LZ in a sample of its bytes.
    Matches(LzBytes),
}

impl StringsPart {
    /// Its place in the order in which the planner asks; what is derived has its own within.
    fn order(self) -> Order {
        let step = match self {
            Self::OwnTable => 0,
            Self::Front(_) => FRONT,
            Self::Distinct(_) => 2,
            Self::Dictionary | Self::Codes(_) | Self::FrontOfDistinct(_) => DICTIONARY,
            Self::Matches(_) => 4,
        };
        Order::default().then(step)
    }
}

/// The steps within which derived values are asked for.
const FRONT: u8 = 1;
const DICTIONARY: u8 = 3;

/// Statistics of a chunk of a column.
pub(super) struct ChunkStrings<'k> {
    measured: &'k MeasuredColumn,
    chunk: usize,
    requests: &'k Requests<StringsPart>,
    of_codes: Requests<(usize, tree::WordsPart)>,
    of_front: FrontRequests,
    of_distinct: FrontRequests,
}

impl<'k> ChunkStrings<'k> {
    /// What is missing is noted, of derived values once [`Self::finish`] is called.
    pub(super) fn new(
        measured: &'k MeasuredColumn,
        chunk: usize,
        requests: &'k Requests<StringsPart>,
    ) -> Self {
        Self {
            measured,
            chunk,
            requests,
            of_codes: Requests::default(),
            of_front: FrontRequests::default(),
            of_distinct: FrontRequests::default(),
        }
    }

    /// Notes what is missing of derived values.
    pub(super) fn finish(self) {
        let Self { requests, of_codes, of_front, of_distinct, .. } = self;
        let within = |step| Order::default().then(step);
        of_front.forward(requests, within(FRONT), StringsPart::Front);
        of_codes.forward(requests, within(DICTIONARY).then(0), StringsPart::Codes);
        of_distinct.forward(requests, within(DICTIONARY).then(1), StringsPart::FrontOfDistinct);
    }

    fn ask<T>(&self, part: StringsPart) -> Answer<T> {
        self.requests.note(part.order(), part);
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
                None => return self.ask(StringsPart::OwnTable),
            },
        };
        Ok(sample.map(|sample| coded(by, &sample)))
    }

    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        let fronts = self.measured.fronts.as_ref();
        Ok(fronts.map(|fronts| fronts.sampled(self.chunk, self.vectors())))
    }

    fn sampled_values(&self) -> Answer<Option<SampledValues>> {
        let sample = self.measured.repetitions.get(self.chunk);
        Ok(sample.map(|sample| sample.counted(self.rows())))
    }

    /// Distinct values, if they are at most so many.
    fn search(&self, _: Encoding, most: u64) -> Answer<Option<usize>> {
        match self.measured.dictionaries.found(self.chunk) {
            Some(found) => Ok(found),
            None => self.ask(StringsPart::Distinct(most as usize)),
        }
    }

    /// Those of front coding, or of a dictionary.
    fn children(&self, encoding: Encoding) -> Answer<Vec<Child<'_>>> {
        if encoding == Encoding::Front {
            let fronts = self.measured.fronts.as_ref();
            return fronts.ok_or(Missing)?.parts(self.chunk, &self.of_front);
        }
        let dictionaries = &self.measured.dictionaries;
        let parts = dictionaries.parts(self.chunk, &self.of_codes, &self.of_distinct);
        parts.map_or_else(|| self.ask(StringsPart::Dictionary), Ok)
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
            None => self.ask(StringsPart::Matches(*of)),
        }
    }
}

/// Statistics of a chunk of derived strings.
pub(super) struct ChunkDerived<'d> {
    strings: &'d DerivedStrings,
    number: usize,
    /// The front coding of the strings, if they may have one.
    fronts: Option<&'d Fronts>,
    /// Whether tables of chunks' own are trained when they are asked for.
    asks_for_tables: bool,
    requests: &'d FrontRequests,
}

impl<'d> ChunkDerived<'d> {
    /// Of the distinct strings of a dictionary; what is missing of front coding is noted.
    pub(super) fn of_distinct(
        strings: &'d DerivedStrings,
        number: usize,
        fronts: Option<&'d Fronts>,
        requests: &'d FrontRequests,
    ) -> Self {
        Self { strings, number, fronts, asks_for_tables: false, requests }
    }

    /// Of suffixes; a symbol table that is missing is noted.
    pub(super) fn of_suffixes(
        strings: &'d DerivedStrings,
        number: usize,
        requests: &'d FrontRequests,
    ) -> Self {
        Self { strings, number, fronts: None, asks_for_tables: true, requests }
    }
}

impl Statistics for ChunkDerived<'_> {
    fn physical(&self) -> Physical {
        Physical::Bytes
    }

    fn rows(&self) -> usize {
        self.strings.chunks.rows(self.number)
    }

    fn single(&self) -> Answer<Option<usize>> {
        Ok(self.strings.single(self.number).filter(|bytes| *bytes <= MAX_VALUE_BYTES))
    }

    fn value_bytes(&self) -> Answer<usize> {
        Ok(self.strings.chunks.bytes(self.number))
    }

    fn lengths(&self) -> Answer<Child<'_>> {
        Ok(Box::new(ChunkWords::alone(&self.strings.chunks.value_words, self.number)))
    }

    fn coded(&self, by: TableOf) -> Answer<Option<CodedSample>> {
        let sample = match by {
            TableOf::Group => self.strings.sample_of_group(self.number),
            TableOf::Chunk => match self.strings.own_sample(self.number) {
                Some(sample) => sample,
                None => {
                    if self.asks_for_tables {
                        self.requests.note_suffix_table();
                    }
                    return Err(Missing);
                }
            },
        };
        Ok(sample.map(|sample| coded(by, sample)))
    }

    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        Ok(self.fronts.map(|fronts| fronts.sampled(self.number, self.vectors())))
    }

    /// Those of front coding.
    fn children(&self, _: Encoding) -> Answer<Vec<Child<'_>>> {
        self.fronts.ok_or(Missing)?.parts(self.number, self.requests)
    }
}
