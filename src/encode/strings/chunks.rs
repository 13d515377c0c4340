//! Chunks of strings whose lengths are known: those of the column, and those that are derived from
//! it. What they promise, and the nodes that need no codes.

use super::StringColumn;
use super::bodies::Copies;
use super::lengths::Lengths;
use super::tables::Table;
use crate::chunk::{EncodedNode, StringForm};
use crate::encode::launch::Launcher;
use crate::encode::statistics::ChunkWords;
use crate::encode::words::Words;
use crate::encode::write::{HostCopies, Job, Origin, PendingBuffer};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::Missing;
use crate::encoding::{Encoding, Physical, Starts, fsst};
use crate::error::{Error, Result};
use crate::gpu::DevicePtr;
use crate::gpu::abi::{self, Source};
use crate::lanes::VECTOR;
use crate::options::Options;

/// Chunks of strings, whose lengths have been read back.
pub(super) struct StringChunks {
    pub(super) lengths: Lengths,
    /// The lengths of values as words.
    pub(super) value_words: Words,
    pub(super) options: Options,
    pub(super) family: Family,
    /// Rows of each chunk.
    rows: Vec<u32>,
    vectors: Vec<abi::FsstVector>,
    /// Bytes of each chunk's valid values.
    bytes: Vec<usize>,
}

/// Strings of a column, and those derived from them; each with the words that belong to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::encode) enum Family {
    /// The column's.
    Column,
    /// Suffixes of the column's, and the prefixes.
    Suffixes,
    /// The distinct strings of dictionaries, and codes of rows.
    Distinct,
    /// Suffixes of these, and the prefixes.
    SuffixesOfDistinct,
}

impl Family {
    const ALL: [Self; 4] = [Self::Column, Self::Suffixes, Self::Distinct, Self::SuffixesOfDistinct];

    /// Numbers of words that a family has; it needs far fewer.
    const NUMBERS: usize = 1 << 16;

    /// That of words of a number.
    pub(super) fn of(number: usize) -> Self {
        let all = Self::ALL.into_iter().rev();
        let mut upto = all.filter(|family| family.value_lengths() <= number);
        upto.next().unwrap_or(Self::Column)
    }

    /// The number of the lengths of values.
    pub(super) const fn value_lengths(self) -> usize {
        self as usize * Self::NUMBERS
    }

    /// The number of the lengths of codes.
    pub(super) const fn code_lengths(self) -> usize {
        self.value_lengths() + 1
    }

    /// The number of the first other words: prefixes, or codes of rows.
    pub(super) const fn first_of_tree(self) -> usize {
        self.value_lengths() + 2
    }
}

/// Which buffer says where vectors of rows begin.
pub(super) const STARTS_OF_DICT: usize = 0;
pub(super) const STARTS_OF_FRONT: usize = 0;
pub(super) const STARTS_OF_LZ: usize = 4;

/// How an encoding stores strings.
pub(super) fn string_form(encoding: Encoding) -> Result<StringForm> {
    let none = || Error::device(format!("strings are to be encoded as {encoding}"));
    encoding.string_form().ok_or_else(none)
}

/// Lengths as a column of numbers.
pub(super) fn lengths_source(values: DevicePtr<u32>, rows: usize, chunk_vectors: usize) -> Source {
    let (values, chunk_vectors) = (values.cast(), chunk_vectors as u32);
    Source { values, rows: rows as u64, stride: 1, chunk_vectors, ..Default::default() }
}

/// Whether offsets up to so many bytes have 64 bits.
fn is_wide(bytes: usize) -> bool {
    u32::try_from(bytes).is_err()
}

impl StringChunks {
    pub(super) fn new(
        launcher: &Launcher<'_>,
        lengths: Lengths,
        value_words: Words,
        options: Options,
        family: Family,
        rows: Vec<u32>,
    ) -> Result<Self> {
        let vectors = launcher.read(&lengths.pending)?;
        let chunk_vectors = lengths.view.chunk_rows as usize / VECTOR;
        let bytes = (vectors.chunks(chunk_vectors))
            .map(|vectors| vectors.iter().map(|vector| vector.bytes as usize).sum())
            .collect();
        Ok(Self { lengths, value_words, options, family, rows, vectors, bytes })
    }

    /// Vectors from the begin of one chunk to that of the next.
    pub(super) fn chunk_vectors(&self) -> usize {
        self.lengths.view.chunk_rows as usize / VECTOR
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Rows of a chunk.
    pub(super) fn rows(&self, chunk: usize) -> usize {
        self.rows[chunk] as usize
    }

    /// The vectors of a chunk.
    pub(super) fn vectors(&self, chunk: usize) -> &[abi::FsstVector] {
        let all = &self.vectors[chunk * self.chunk_vectors()..];
        &all[..self.rows(chunk).div_ceil(VECTOR)]
    }

    /// Bytes of a chunk's valid values.
    pub(super) fn bytes(&self, chunk: usize) -> usize {
        self.bytes[chunk]
    }

    /// A buffer that is made of these strings.
    pub(super) fn part(&self, len: usize) -> PendingBuffer {
        PendingBuffer { len, origin: Origin::Strings(self.family), vector: 0 }
    }

    /// The buffer of where a chunk's vectors begin among so many stored bytes.
    pub(super) fn starts(&self, chunk: usize, stored: usize) -> PendingBuffer {
        let is_wide = is_wide(self.bytes(chunk)) || is_wide(stored);
        self.part(self.rows(chunk).div_ceil(VECTOR) * if is_wide { 16 } else { 8 })
    }

    /// The node of a chunk as it is.
    pub(super) fn plain_node(
        &self,
        chunk: usize,
        plan: &Plan,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let bytes = self.bytes(chunk);
        let mut node = EncodedNode::new(Encoding::Plain, Physical::Bytes, self.rows(chunk));
        node.buffers = vec![self.part(bytes), self.starts(chunk, bytes)];
        node.children = vec![self.value_lengths(chunk, &plan.children)?];
        Ok(node)
    }

    /// The node of a chunk that has so many bytes of codes, of whose lengths the words and the
    /// chunk's number among them are given.
    pub(super) fn codes_node(
        &self,
        chunk: usize,
        table: &Table,
        codes: usize,
        (code_words, number): (&Words, usize),
        plan: &Plan,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let (options, to) = (&self.options, self.family.code_lengths());
        let lengths = ChunkWords::alone(code_words, number);
        let lengths = plan::plan_lengths(&lengths, &Context::new(options, None))
            .map_err(|Missing| Error::device("lengths of codes that have not been measured"))?;
        let lengths = code_words.encode(number, &lengths, options, to)?;
        let mut node = EncodedNode::new(Encoding::Fsst, Physical::Bytes, self.rows(chunk));
        node.parameters[0] = self.bytes(chunk) as u64;
        node.buffers = vec![
            self.part(table.len),
            self.part(codes),
            self.starts(chunk, codes),
            self.part(fsst::tiles_len(codes)),
        ];
        node.children = vec![lengths, self.value_lengths(chunk, &plan.children)?];
        Ok(node)
    }

    /// The node of the lengths of a chunk's values, of which their plan is the last.
    pub(super) fn value_lengths(
        &self,
        chunk: usize,
        plans: &[Plan],
    ) -> Result<EncodedNode<PendingBuffer>> {
        let number = self.family.value_lengths();
        match plans.last() {
            Some(plan) => self.value_words.encode(chunk, plan, &self.options, number),
            None => Err(Error::device("lengths without a plan")),
        }
    }

    /// Starts writing plain nodes of chunks, but for their children.
    pub(super) fn write_plain<'j>(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        borders: &[u64],
        jobs: impl Iterator<Item = (usize, &'j Job)>,
    ) -> Result<()> {
        let mut copies = Copies::default();
        let mut starts = HostCopies::default();
        for (chunk, job) in jobs {
            copies.add(column, self, borders, chunk, job.buffers[0]);
            starts.add(job.buffers[1], &self.encoded_starts(chunk));
        }
        starts.start(launcher)?;
        copies.start(launcher, column, self)
    }

    /// Starts copying where the vectors of chunks' rows begin, to a buffer of their nodes.
    pub(super) fn write_starts<'j>(
        &self,
        launcher: &mut Launcher<'_>,
        jobs: impl Iterator<Item = (usize, &'j Job)>,
        buffer: usize,
    ) -> Result<()> {
        let mut starts = HostCopies::default();
        for (chunk, job) in jobs {
            starts.add(job.buffers[buffer], &self.encoded_starts(chunk));
        }
        starts.start(launcher)
    }

    /// Where the vectors of a chunk begin, whose values are stored as they are or not one by one.
    pub(super) fn encoded_starts(&self, chunk: usize) -> Vec<u8> {
        let mut start = 0;
        let starts = self.vectors(chunk).iter().map(|vector| {
            let before = start;
            start += vector.bytes as usize;
            [before; 2]
        });
        Starts::encode(starts, [self.bytes(chunk); 2])
    }
}
