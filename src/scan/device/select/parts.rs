//! A test as launches: kernels, over which nodes, with which tables.
//!
//! ```text
//! numbers                    one kernel for chunks of plain, constant, ffor and alp
//!         pfor, alp_rd       kernels of their own
//!         dict               the same for the values of the dictionary, then select_codes
//! booleans, nulls            one kernel for all chunks
//! wide    one word           the kernel of 64 bits, over these words
//!         more               select_wide
//! strings = and IN           select_literals, with what the host has decided
//!         all else           select_automaton
//!         dict               the same for the strings of the dictionary, then select_codes
//! ```

use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::tables::StringTests;
use super::{ChunkTest, ColumnTest, Dictionaries, WordType, look_up_words};
use crate::column::physical_of;
use crate::decode::nodes::{ChunkDictionary, HostNodes, KernelNodes, ValidityNodes};
use crate::decode::program::Job;
use crate::device::column::{DeviceColumn, order_of};
use crate::device::parameters::Parameters;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Place, Result};
use crate::gpu::abi::{
    self, Node, Range, SelectArguments, SelectStringsArguments, SelectWideArguments, WideRange,
};
use crate::gpu::kernels::{self, BoundKernel, Division, Kernel, KernelShape};
use crate::gpu::{DeviceBuffer, DevicePtr, Stream};
use crate::lanes::VECTOR;
use crate::scan::predicate::CodesTest;

/// One launch, over some chunks.
pub(super) struct Part {
    kernel: PartKernel,
    /// What the kernel looks at, and the chunks that this is of.
    pub nodes: Vec<Node>,
    chunks: Vec<usize>,
    /// Whether the rows are those of the validity, which then drops none.
    of_validity: bool,
    pub negate: bool,
    pub order: u32,
    pub ranges: Vec<Range>,
}

/// The kernel of a launch, and what it needs beside nodes and ranges.
enum PartKernel {
    Words(Kernel<SelectArguments>),
    Wide {
        kernel: Kernel<SelectWideArguments>,
        /// Four for each node.
        words: Vec<Node>,
        ranges: Vec<WideRange>,
        /// Words of a value.
        count: u32,
    },
    Strings {
        kernel: Kernel<SelectStringsArguments>,
        /// Stored lengths, for each node.
        lengths: Vec<Node>,
        tests: StringTests,
    },
}

/// The launches of a test.
pub(super) fn of(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    of_kernels: &KernelNodes,
    test: &ColumnTest,
) -> Result<Vec<Part>> {
    let nodes = &of_kernels.host;
    let data_type = column.field().data_type();
    let physical = physical_of(data_type);
    let all = |kernel| Part::of_words(kernel, nodes.roots.iter().copied());
    let bits = |negate| Part { negate, ..all(kernels::SELECT_BITS) };
    let numbers = |ranges: &[Range], negate| -> Result<Vec<Part>> {
        let is_dict = |job: &Job| job.node.encoding == Encoding::Dict as u16;
        let (dict, others): (Vec<Job>, Vec<_>) = nodes.roots.iter().partition(|job| is_dict(job));
        let mut parts = self::numbers(data_type, others, ranges, negate);
        if !dict.is_empty() {
            let (of, ranges) = words_of(data_type, ranges);
            let dictionaries = Dictionaries::of_kernels(of_kernels);
            let tests = look_up_words(stream, column, &dictionaries, of, &ranges)?;
            let codes =
                |of: &ChunkDictionary| (Job { chunk: of.values.chunk, node: of.codes }, of.codes);
            let codes: Vec<(Job, Node)> = nodes.dictionaries.iter().map(codes).collect();
            parts.extend(strings(&codes, |job| &tests[job.chunk], negate)?);
        }
        Ok(parts)
    };
    let is_words = matches!(physical.bits(), Some(8 | 16 | 32 | 64));
    Ok(match (test, is_words) {
        (ColumnTest::True, _) if physical == Physical::Bool => vec![bits(false)],
        (ColumnTest::False, _) if physical == Physical::Bool => vec![bits(true)],
        (ColumnTest::In(ranges), true) => numbers(ranges, false)?,
        (ColumnTest::NotIn(ranges), true) => numbers(ranges, true)?,
        (ColumnTest::Wide(ranges), _) if matches!(physical, Physical::I128 | Physical::I256) => {
            wide(nodes, physical, ranges)
        }
        (ColumnTest::Strings { chunks, negated }, _) if physical == Physical::Bytes => {
            let lengths: Vec<(Job, Node)> =
                nodes.roots.iter().copied().zip(nodes.stored_lengths.iter().copied()).collect();
            strings(&lengths, |job| &chunks[job.chunk], *negated)?
        }
        _ => {
            let what = format!("{test:?} is no test of values of type {data_type}");
            return Err(Error::Mismatch { place: Place::default(), what });
        }
    })
}

/// The launch for rows that are valid, or if `negate` for those that are not.
pub(super) fn of_validity(nodes: &ValidityNodes, negate: bool) -> Part {
    let part = Part::of_words(kernels::SELECT_BITS, nodes.jobs.iter().copied());
    Part { of_validity: true, negate, ..part }
}

impl Part {
    /// A launch of a kernel of words over the nodes of some chunks.
    fn of_words(kernel: Kernel<SelectArguments>, jobs: impl IntoIterator<Item = Job>) -> Self {
        Self::new(PartKernel::Words(kernel), jobs)
    }

    /// A launch over the nodes of some chunks.
    fn new(kernel: PartKernel, jobs: impl IntoIterator<Item = Job>) -> Self {
        let (nodes, chunks) = jobs.into_iter().map(|job| (job.node, job.chunk)).unzip();
        Self {
            kernel,
            nodes,
            chunks,
            of_validity: false,
            negate: false,
            order: abi::UNSIGNED,
            ranges: Vec::new(),
        }
    }

    /// What the launch has to name beside its parameters and the column's.
    pub fn buffers(&self) -> Vec<&DeviceBuffer> {
        match &self.kernel {
            PartKernel::Strings { tests, .. } => tests.buffers().collect(),
            PartKernel::Words(_) | PartKernel::Wide { .. } => Vec::new(),
        }
    }

    /// Whether the kernel looks for damage.
    pub fn reports(&self) -> bool {
        matches!(self.kernel, PartKernel::Strings { .. })
    }

    /// How its nodes are divided among blocks.
    pub fn division(&self) -> Division {
        let longest = self.nodes.iter().map(|node| node.rows as usize).max().unwrap_or(0);
        let (nodes, vectors) = (self.nodes.len(), longest.div_ceil(VECTOR));
        match &self.kernel {
            PartKernel::Words(kernel) => kernel.division(nodes, vectors),
            PartKernel::Wide { kernel, .. } => kernel.division(nodes, vectors),
            PartKernel::Strings { kernel, .. } => kernel.division(nodes, vectors),
        }
    }

    /// The kernel.
    pub fn shape(&self) -> KernelShape {
        match &self.kernel {
            PartKernel::Words(kernel) => kernel.shape(),
            PartKernel::Wide { kernel, .. } => kernel.shape(),
            PartKernel::Strings { kernel, .. } => kernel.shape(),
        }
    }

    /// Copies what the launch needs to the device, in one piece; `validity` has a node for
    /// each chunk of the column, if there are nulls. Gives it with the kernel and its argument.
    pub fn upload(
        &self,
        stream: &Arc<dyn Stream>,
        select: SelectArguments,
        validity: &[Node],
        status: Option<&DeviceBuffer>,
    ) -> Result<(DeviceBuffer, BoundKernel)> {
        let mut parameters = Parameters::default();
        let nodes = parameters.push(&self.nodes);
        let has_validity = !self.of_validity && !validity.is_empty();
        let validity: Vec<Node> = match has_validity {
            true => self.chunks.iter().map(|chunk| validity[*chunk]).collect(),
            false => Vec::new(),
        };
        let validity = parameters.push(&validity);
        let ranges = parameters.push(&self.ranges);
        let select = |buffer: &DeviceBuffer| SelectArguments {
            nodes: nodes.within(buffer),
            validity: if has_validity { validity.within(buffer) } else { DevicePtr::NULL },
            ranges: ranges.within(buffer),
            ..select
        };
        match &self.kernel {
            PartKernel::Words(kernel) => {
                let buffer = parameters.upload(stream)?;
                let bound = kernel.bind(&select(&buffer));
                Ok((buffer, bound))
            }
            PartKernel::Wide { kernel, words, ranges, count } => {
                let words = parameters.push(words);
                let wide = parameters.push(ranges);
                let buffer = parameters.upload(stream)?;
                let arguments = SelectWideArguments {
                    select: select(&buffer),
                    words: words.within(&buffer),
                    ranges: wide.within(&buffer),
                    range_count: ranges.len() as u32,
                    count: *count,
                };
                Ok((buffer, kernel.bind(&arguments)))
            }
            PartKernel::Strings { kernel, lengths, tests } => {
                let lengths = parameters.push(lengths);
                let places = tests.reserve(&mut parameters);
                let buffer = parameters.allocate(stream)?;
                tests.fill(&mut parameters, &places, &buffer);
                parameters.copy_to(stream, &buffer)?;
                let arguments = SelectStringsArguments {
                    select: select(&buffer),
                    lengths: lengths.within(&buffer),
                    tests: places.tests.within(&buffer),
                    status: status.map_or(DevicePtr::NULL, DeviceBuffer::pointer),
                };
                Ok((buffer, kernel.bind(&arguments)))
            }
        }
    }
}

/// Ranges of Float16 in total order as ranges of their bits.
pub(crate) fn in_bits(ranges: &[Range]) -> Vec<Range> {
    const TOP: u64 = 0x8000;
    // Positive ones keep their order, negative ones, which come before, turn it round.
    let positive = ranges
        .iter()
        .filter(|range| range.high >= TOP)
        .map(|range| Range { low: range.low.max(TOP) - TOP, high: range.high - TOP });
    let negative = ranges.iter().rev().filter(|range| range.low < TOP).map(|range| Range {
        low: 2 * TOP - 1 - range.high.min(TOP - 1),
        high: 2 * TOP - 1 - range.low,
    });
    positive.chain(negative).collect()
}

/// A type's words as kernels know them, and ranges in their order.
fn words_of(data_type: &DataType, ranges: &[Range]) -> (WordType, Vec<Range>) {
    let bits = physical_of(data_type).bits().unwrap_or(8);
    // Kernels know the bits of Float16 as integers.
    match data_type {
        DataType::Float16 => (WordType { bits, order: abi::UNSIGNED }, in_bits(ranges)),
        _ => (WordType { bits, order: order_of(data_type) }, ranges.to_vec()),
    }
}

/// The launches for numbers of up to 64 bits in ranges, of all encodings but dict.
pub(super) fn numbers(
    data_type: &DataType,
    jobs: Vec<Job>,
    ranges: &[Range],
    negate: bool,
) -> Vec<Part> {
    let (of, ranges) = words_of(data_type, ranges);
    words(of, jobs, &ranges, negate)
}

/// The same of words, with ranges in the order domain of their type.
pub(super) fn words(
    WordType { bits, order }: WordType,
    jobs: Vec<Job>,
    ranges: &[Range],
    negate: bool,
) -> Vec<Part> {
    debug_assert!(ranges.iter().all(|range| range.low <= range.high));
    debug_assert!(ranges.is_sorted_by(|a, b| a.high < b.low));
    let width = bits.trailing_zeros() as usize - 3;
    let of = |encoding: Encoding| move |job: &Job| job.node.encoding == encoding as u16;
    let (reals, others): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(of(Encoding::AlpRd));
    let (patched, others): (Vec<Job>, Vec<Job>) = others.into_iter().partition(of(Encoding::Pfor));
    let kernels = [
        (kernels::SELECT[width], others),
        (kernels::SELECT_PFOR[width], patched),
        (kernels::SELECT_REALS[width.saturating_sub(2)], reals),
    ];
    (kernels.into_iter().filter(|(_, jobs)| !jobs.is_empty()))
        .map(|(kernel, jobs)| Part {
            negate,
            order,
            ranges: ranges.to_vec(),
            ..Part::of_words(kernel, jobs)
        })
        .collect()
}

/// The launches for values of 128 or 256 bits: chunks that store one word are integers of 64.
fn wide(nodes: &HostNodes, physical: Physical, ranges: &[(i256, i256)]) -> Vec<Part> {
    // Of plain chunks no word has a node.
    let is_single = |(_, words): &(Job, [Node; 4])| words[0].rows > 0 && words[1].rows == 0;
    let all = nodes.roots.iter().copied().zip(nodes.wide.iter().copied());
    let (single, other): (Vec<_>, Vec<_>) = all.partition(is_single);
    let mut parts = Vec::new();
    if !single.is_empty() {
        let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
        let key = |value: i256| (value.as_i128() - least) as u64;
        let clipped = clipped(ranges, i256::from_i128(least), i256::from_i128(most));
        let ranges = clipped.map(|(low, high)| Range { low: key(low), high: key(high) }).collect();
        let words = single.into_iter().map(|(job, words)| Job { node: words[0], ..job });
        let part = Part::of_words(kernels::SELECT[3], words);
        parts.push(Part { order: abi::SIGNED, ranges, ..part });
    }
    if !other.is_empty() {
        let count = if physical == Physical::I128 { 2 } else { 4 };
        let (least, most) = match physical {
            Physical::I128 => (i256::from_i128(i128::MIN), i256::from_i128(i128::MAX)),
            _ => (i256::MIN, i256::MAX),
        };
        let words_of = |value: i256| {
            let mut words: [u64; 4] = bytemuck::cast(value.to_le_bytes());
            words[count - 1] ^= 1 << 63;
            words[count..].fill(0);
            words
        };
        let ranges = clipped(ranges, least, most)
            .map(|(low, high)| WideRange { low: words_of(low), high: words_of(high) })
            .collect();
        let words = other.iter().flat_map(|(_, words)| *words).collect();
        let (kernel, count) = (kernels::SELECT_WIDE, count as u32);
        let kernel = PartKernel::Wide { kernel, words, ranges, count };
        parts.push(Part::new(kernel, other.into_iter().map(|(job, _)| job)));
    }
    parts
}

/// What ranges have between two values.
fn clipped(ranges: &[(i256, i256)], least: i256, most: i256) -> impl Iterator<Item = (i256, i256)> {
    let within = ranges.iter().filter(move |(low, high)| *high >= least && *low <= most);
    within.map(move |(low, high)| (*low.max(&least), *high.min(&most)))
}

/// The launches for strings, which come with their stored lengths, or codes.
fn strings<'t>(
    strings: &[(Job, Node)],
    test_of: impl Fn(&Job) -> &'t ChunkTest,
    negate: bool,
) -> Result<Vec<Part>> {
    let kernel = |job: &Job| match test_of(job) {
        ChunkTest::Codes(test) => match **test {
            CodesTest::Automaton(_) => kernels::SELECT_AUTOMATON,
            CodesTest::OneOf(_) => kernels::SELECT_LITERALS,
        },
        ChunkTest::LookedUp(_) => kernels::SELECT_CODES,
        ChunkTest::Decided(_) => kernels::SELECT_LITERALS,
    };
    let mut parts = Vec::new();
    for one in [kernels::SELECT_LITERALS, kernels::SELECT_CODES, kernels::SELECT_AUTOMATON] {
        let is_its = |(job, _): &&(Job, Node)| kernel(job).name == one.name;
        let (jobs, lengths): (Vec<Job>, Vec<Node>) = strings.iter().filter(is_its).copied().unzip();
        if jobs.is_empty() {
            continue;
        }
        let mut made = StringTests::default();
        for job in &jobs {
            made.push(job.chunk, test_of(job))?;
        }
        let kernel = one.with_shared(made.shared);
        let kernel = PartKernel::Strings { kernel, lengths, tests: made };
        parts.push(Part { negate, ..Part::new(kernel, jobs) });
    }
    Ok(parts)
}

/// The launches for the strings of dictionaries, of chunks whose test says so.
pub(super) fn of_dictionaries(
    dictionaries: &[ChunkDictionary],
    tests: &[ChunkTest],
) -> Result<Vec<Part>> {
    let is_asked =
        |nodes: &&ChunkDictionary| matches!(tests[nodes.values.chunk], ChunkTest::Codes(_));
    let asked = dictionaries.iter().filter(is_asked);
    let strings: Vec<(Job, Node)> =
        asked.map(|nodes| (nodes.values, nodes.stored_lengths)).collect();
    self::strings(&strings, |job| &tests[job.chunk], false)
}
