//! Statistics of words in device memory: what kernels have computed of a chunk, and what they are
//! to compute next.

use super::missing::Requests;
use super::tree::{Tree, WordsPart};
use super::words::Words;
use crate::encoding::alp_rd::Cut;
use crate::encoding::dict::SampledValues;
use crate::encoding::ffor::PACKED_UNIT;
use crate::encoding::lz::{LzBytes, Promise};
use crate::encoding::plan::Parameters;
use crate::encoding::statistics::{Answer, Child, Missing, SampledBytes, SampledRuns, Statistics};
use crate::encoding::{Encoding, Physical};
use crate::gpu::abi;
use crate::lanes::VECTOR;
use crate::options::Lz;

/// Statistics of a chunk of words.
pub(super) struct ChunkWords<'t> {
    words: &'t Words,
    chunk: usize,
    /// Where other words are derived from these, if they are.
    within: Option<Within<'t>>,
}

/// The place of words among others that are derived from each other.
struct Within<'t> {
    tree: &'t Tree,
    number: usize,
    requests: &'t Requests<(usize, WordsPart)>,
}

impl<'t> ChunkWords<'t> {
    /// Of words that nothing is derived from.
    pub fn alone(words: &'t Words, chunk: usize) -> Self {
        Self { words, chunk, within: None }
    }

    /// Of the words of a number in a tree; what is missing is noted.
    pub fn of_tree(
        tree: &'t Tree,
        number: usize,
        chunk: usize,
        requests: &'t Requests<(usize, WordsPart)>,
    ) -> Self {
        let within = Some(Within { tree, number, requests });
        Self { words: tree.words(number), chunk, within }
    }

    fn totals(&self) -> &abi::ChunkTotals {
        &self.words.totals[self.chunk]
    }

    fn within(&self) -> Answer<&Within<'t>> {
        self.within.as_ref().ok_or(Missing)
    }
}

/// What kernels say of packing with exceptions, in words of so many bytes.
fn sampled_bytes(totals: &abi::ChunkTotals, value: usize) -> SampledBytes {
    SampledBytes {
        packed: totals.sampled_patched_units as usize * PACKED_UNIT,
        exceptions: totals.sampled_block_units as usize * value.max(2),
    }
}

impl Statistics for ChunkWords<'_> {
    fn physical(&self) -> Physical {
        self.words.physical()
    }

    fn rows(&self) -> usize {
        self.words.rows(self.chunk)
    }

    fn single(&self) -> Answer<Option<usize>> {
        let totals = self.totals();
        Ok((totals.low >= totals.high).then_some(0))
    }

    fn widths(&self) -> Answer<usize> {
        Ok(self.totals().sampled_units as usize)
    }

    fn patched(&self) -> Answer<SampledBytes> {
        Ok(sampled_bytes(self.totals(), self.words.value()))
    }

    fn divisor(&self) -> Answer<u64> {
        Ok(self.words.divisor(self.chunk))
    }

    fn decimals(&self) -> Answer<(SampledBytes, Parameters)> {
        Ok((sampled_bytes(self.totals(), self.words.value()), Parameters::None))
    }

    fn cut(&self, _: usize) -> Answer<Option<(Cut, usize)>> {
        Ok(self.words.cut(self.chunk))
    }

    fn sampled_values(&self) -> Answer<Option<SampledValues>> {
        let sample = self.words.sample(self.chunk);
        Ok(sample.map(|sample| sample.counted(self.rows())))
    }

    fn sampled_runs(&self) -> Answer<SampledRuns> {
        let of = |sample: &abi::SampledRows| SampledRuns {
            runs: sample.runs as usize,
            rows: sample.rows as usize,
        };
        Ok(self.words.sample(self.chunk).map(of).unwrap_or_default())
    }

    fn search(&self, encoding: Encoding, argument: u64) -> Answer<Option<usize>> {
        let Within { tree, number, requests } = self.within()?;
        match tree.found(*number, encoding, self.chunk) {
            Some(found) => Ok(found),
            None => tree.ask(*number, WordsPart::Search(encoding, argument), requests),
        }
    }

    fn children(&self, encoding: Encoding) -> Answer<Vec<Child<'_>>> {
        let Self { words, chunk, .. } = *self;
        if let Some((totals, physical)) = words.transformed(chunk, encoding) {
            let vectors = words.vectors(chunk);
            return Ok(vec![Box::new(ChunkSample::new(totals, physical, vectors))]);
        }
        let Within { tree, number, requests } = *self.within()?;
        match tree.children(number, encoding, chunk) {
            [] => tree.ask(number, WordsPart::Children(encoding), requests),
            children => {
                let child = |child: &usize| -> Child<'_> {
                    Box::new(Self::of_tree(tree, *child, chunk, requests))
                };
                Ok(children.iter().map(child).collect())
            }
        }
    }

    fn lz_bytes(&self, limit: usize) -> Answer<Option<LzBytes>> {
        Ok(self.words.lz_bytes(self.chunk, limit))
    }

    fn matches(&self, of: &LzBytes, _: &Lz) -> Answer<Option<Promise>> {
        let Within { tree, number, requests } = self.within()?;
        match tree.matches(*number, self.chunk) {
            Some(promise) => Ok(promise),
            None => tree.ask(*number, WordsPart::Matches(*of), requests),
        }
    }
}

/// Statistics of a sample: deltas or prefixes of a chunk's sampled vectors.
pub(super) struct ChunkSample<'w> {
    totals: &'w abi::ChunkTotals,
    physical: Physical,
    /// Bytes of a word.
    value: usize,
    rows: usize,
}

impl<'w> ChunkSample<'w> {
    /// Of words of sampled vectors of a chunk that has so many vectors, from what they come to.
    pub fn new(totals: &'w abi::ChunkTotals, physical: Physical, vectors: usize) -> Self {
        let value = physical.bits().unwrap_or(0) / 8;
        Self { totals, physical, value, rows: vectors * VECTOR }
    }
}

impl Statistics for ChunkSample<'_> {
    fn physical(&self) -> Physical {
        self.physical
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn single(&self) -> Answer<Option<usize>> {
        Ok((self.totals.low == self.totals.high).then_some(0))
    }

    fn widths(&self) -> Answer<usize> {
        Ok(self.totals.sampled_units as usize)
    }

    fn patched(&self) -> Answer<SampledBytes> {
        Ok(sampled_bytes(self.totals, self.value))
    }
}
