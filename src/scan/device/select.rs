//! Which rows of a compressed column pass a test: a bitmap on the device, made from the
//! column as it lies there (`kernels/select.cu`).
//!
//! One launch over all chunks of a column, whatever their encodings; of strings and wide
//! decimals one for the chunks of each kind (`parts.rs`). Nobody waits but for what a
//! column's first test finds out of it (`decode/nodes.rs`): all that a launch needs goes up in one
//! copy. Tests of numbers find nothing wrong, as what a chunk's data say wrongly changes
//! verdicts, not where anything is read or written; those of strings may find lengths or codes
//! that are none, and leave a [`Report`] of it.

pub(crate) mod codes;
mod parts;
mod tables;

use std::sync::Arc;

use arrow_buffer::i256;

pub(crate) use codes::CodeTests;
pub(crate) use parts::in_bits;
pub(crate) use tables::StringTests;
pub(super) use tables::TestPlaces;

use crate::decode::check_decodable;
use crate::decode::nodes::{
    ChunkDictionary, KernelNodes, StringDictionaries, ValidityNodes, WordDictionaries,
};
use crate::device::Marks;
use crate::device::column::DeviceColumn;
use crate::device::parameters::Parameters;
use crate::device::status::StatusWords;
use crate::error::Result;
use crate::gpu::abi::{self, Node, Range};
use crate::gpu::kernels::KernelShape;
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Stream, kernels};
use crate::ranges::Order;
use crate::scan::join::{Codes, Probe};
use crate::scan::lookup::DeviceTable;
use crate::scan::predicate::CodesTest;

/// A question about the rows of one column. Null rows pass none but [`Self::Null`].
#[derive(Debug, Clone)]
pub(crate) enum ColumnTest {
    /// Numbers in one of these ranges, which are sorted and disjoint.
    ///
    /// Bounds are values in the column's order ([`order_of`]) as unsigned numbers of as
    /// many bits as a value has: unsigned integers as they are, signed ones with the sign
    /// bit flipped, floats in IEEE 754 total order (negative ones with all bits flipped,
    /// others with the sign bit flipped).
    In(Vec<Range>),
    /// Numbers in none of these ranges.
    NotIn(Vec<Range>),
    /// Booleans that are true.
    True,
    /// Booleans that are false.
    False,
    /// Rows of any type that are not null.
    Valid,
    /// Rows of any type that are null.
    Null,
    /// Values of 128 or 256 bits in one of these ranges, which are sorted and disjoint.
    Wide(Vec<(i256, i256)>),
    /// Strings that pass their chunk's test, or if `negated` that do not.
    Strings {
        /// A test for each chunk.
        chunks: Vec<ChunkTest>,
        negated: bool,
    },
}

/// What the strings of a chunk are tested for.
#[derive(Debug, Clone)]
pub(crate) enum ChunkTest {
    /// All of them pass, or none does.
    Decided(bool),
    /// Their codes; of plain strings their bytes. Of dict those of the dictionary, which are
    /// to be looked up.
    Codes(Arc<CodesTest>),
    /// Of dict: what has been found.
    LookedUp(LookedUp),
}

/// Which values of a dictionary pass: a bit for each, and which codes they have
/// (`kernels/lanepack/select_codes.cuh`).
#[derive(Debug, Clone)]
pub(crate) struct LookedUp {
    found: Arc<DeviceBuffer>,
    bits: DevicePtr<u8>,
    range: DevicePtr<abi::CodeRange>,
    count: u32,
}

/// What becomes of the bits that a bitmap holds already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Combine {
    /// They are overwritten, and may be uninitialised.
    Set = abi::COMBINE_SET,
    /// Those stay set whose row passes; what holds no set bit is not looked at.
    And = abi::COMBINE_AND,
    /// Those of rows that pass become set; where all are set nothing is looked at.
    Or = abi::COMBINE_OR,
}

/// Bytes of a bitmap with a bit for each of `rows` rows.
pub(crate) fn bitmap_len(rows: usize) -> usize {
    rows.div_ceil(32) * 4
}

/// What a selection finds wrong with a column, known once its kernels are done.
#[derive(Debug, Clone, Default)]
#[must_use]
pub(crate) struct Report {
    /// Status words and which of them, of tests that may find something.
    status: Option<(Arc<StatusWords>, usize)>,
}

impl Report {
    /// One for each of some status words.
    pub(super) fn of_each(words: &Arc<StatusWords>) -> Vec<Self> {
        (0..words.count()).map(|at| Self { status: Some((words.clone(), at)) }).collect()
    }

    /// Waits for the kernels.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for the first chunk that is damaged, [`Error::Device`].
    pub fn check(&self, stream: &Arc<dyn Stream>) -> Result<()> {
        self.status.as_ref().map_or(Ok(()), |(words, at)| words.check(stream, *at))
    }
}

/// Starts testing every row of a column: bit i of `out` says whether row i passes. With
/// [`Combine::Set`] bits behind the last row become zero, to the end of their word of 32.
///
/// Chunks may begin at any row, as those of batches that were put together do: words of
/// the bitmap that belong to two vectors are then changed by atomics.
///
/// # Errors
/// [`Error::Mismatch`] if the test is none for the column's type, [`Error::Unsupported`] if it
/// is nested or carried as Arrow IPC, [`Error::DeviceMemory`], [`Error::Device`].
pub(crate) fn select(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    test: &ColumnTest,
    combine: Combine,
    out: &Arc<DeviceBuffer>,
    marks: &mut dyn Marks,
) -> Result<Report> {
    check_decodable(column)?;
    if column.is_empty() {
        return Ok(Report::default());
    }
    let of_validity = column.scan_validity(stream)?;
    let (nodes, parts) = parts_of(stream, column, test, &of_validity)?;
    let rows = column.len();
    assert!(out.len() >= bitmap_len(rows), "a bit for each row");
    let validity: Vec<Node> = match column.null_count() {
        0 => Vec::new(),
        _ => of_validity.nodes().collect(),
    };
    if combine == Combine::Set && shares_words(column) {
        // Words of two chunks are changed by both, and so must hold something.
        stream.fill(out, 0, bitmap_len(rows), 0)?;
    }
    let of_nodes = nodes.iter().flat_map(|nodes| nodes.buffers());
    let buffers = of_validity.buffers().iter().chain(of_nodes).map(AsRef::as_ref).collect();
    Verdicts { stream, column, buffers, rows, combine, out }.start(&parts, &validity, marks)
}

/// The launches of a test, and the nodes that they read beside those of the validity.
fn parts_of(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    test: &ColumnTest,
    of_validity: &ValidityNodes,
) -> Result<(Option<Arc<KernelNodes>>, Vec<parts::Part>)> {
    Ok(match test {
        // What else a column has is of no concern.
        ColumnTest::Valid | ColumnTest::Null => {
            (None, vec![parts::of_validity(of_validity, matches!(test, ColumnTest::Null))])
        }
        _ => {
            let nodes = column.kernel_nodes(stream)?;
            let parts = parts::of(stream, column, &nodes, test)?;
            (Some(nodes), parts)
        }
    })
}

/// The kernels that [`select`] starts.
///
/// # Errors
/// As [`select`].
pub(crate) fn kernels_of(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    test: &ColumnTest,
) -> Result<Vec<KernelShape>> {
    check_decodable(column)?;
    let (_, parts) = parts_of(stream, column, test, column.scan_validity(stream)?.as_ref())?;
    Ok(parts.iter().map(parts::Part::shape).collect())
}

/// Whether words of a bitmap belong to two chunks.
fn shares_words(column: &DeviceColumn) -> bool {
    column.chunks().iter().any(|chunk| !chunk.start.is_multiple_of(32))
}

/// Where the launches of a test join their verdicts.
struct Verdicts<'a> {
    stream: &'a Arc<dyn Stream>,
    column: &'a DeviceColumn,
    /// What the nodes of launches point to, beside the column's bodies.
    buffers: Vec<&'a DeviceBuffer>,
    /// Bits of the bitmap.
    rows: usize,
    combine: Combine,
    out: &'a Arc<DeviceBuffer>,
}

impl Verdicts<'_> {
    /// Starts the launches; `validity` is that of all chunks, if rows may be null.
    fn start(
        &self,
        parts: &[parts::Part],
        validity: &[Node],
        marks: &mut dyn Marks,
    ) -> Result<Report> {
        let Self { stream, column, rows, combine, out, .. } = *self;
        let reports = parts.iter().any(parts::Part::reports);
        let status = reports.then(|| StatusWords::new(stream, 1)).transpose()?;
        let select = |part: &parts::Part| {
            let division = part.division();
            abi::SelectArguments {
                out: out.pointer(),
                rows: rows as u64,
                range_count: part.ranges.len() as u32,
                order: part.order,
                combine: combine as u32,
                negate: u32::from(part.negate),
                node_shift: division.node_shift,
                each: division.each,
                ..Default::default()
            }
        };
        let launches = (parts.iter())
            .map(|part| {
                part.upload(
                    stream,
                    select(part),
                    validity,
                    status.as_ref().map(StatusWords::buffer),
                )
            })
            .collect::<Result<Vec<_>>>()?;

        marks.mark(stream, "")?;
        for (part, (parameters, kernel)) in parts.iter().zip(&launches) {
            let mut buffers: Vec<&DeviceBuffer> = vec![parameters, out];
            buffers.extend(status.as_ref().map(StatusWords::buffer));
            buffers.extend(part.buffers());
            buffers.extend(&self.buffers);
            buffers.extend(column.bodies().iter().map(AsRef::as_ref));
            let blocks = part.nodes.len() << part.division().node_shift;
            stream.launch(&Launch::bound(kernel, blocks, &buffers))?;
            marks.mark(stream, kernel.name)?;
        }
        Ok(Report { status: status.map(|word| (Arc::new(word), 0)) })
    }
}

/// The tests of chunks of strings, where those of dictionaries are asked first and become
/// tests of codes; and what they find wrong with dictionaries.
///
/// # Errors
/// As [`select`].
pub(crate) fn look_up(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    mut tests: Vec<ChunkTest>,
) -> Result<(Vec<ChunkTest>, Report)> {
    let nodes = column.dictionary_nodes(stream)?;
    let dictionaries = Dictionaries::of_strings(&nodes);
    let parts = parts::of_dictionaries(dictionaries.nodes, &tests)?;
    let (found, report) = ask_dictionaries(stream, column, &dictionaries, &parts)?;
    for (chunk, found) in found {
        if matches!(tests[chunk], ChunkTest::Codes(_)) {
            tests[chunk] = found;
        }
    }
    Ok((tests, report))
}

/// Dictionaries of a column, in the order of chunks.
pub(crate) struct Dictionaries<'a> {
    nodes: &'a [ChunkDictionary],
    /// What these point to, beside the column's bodies.
    buffers: Vec<&'a DeviceBuffer>,
}

impl<'a> Dictionaries<'a> {
    /// Of words, for kernels that are there.
    pub fn of_kernels(nodes: &'a KernelNodes) -> Self {
        Self {
            nodes: &nodes.host.dictionaries,
            buffers: nodes.buffers().iter().map(AsRef::as_ref).collect(),
        }
    }

    /// Of strings.
    pub fn of_strings(nodes: &'a StringDictionaries) -> Self {
        Self { nodes: &nodes.nodes, buffers: nodes.buffers().iter().map(AsRef::as_ref).collect() }
    }
}

/// What words are: their bits, and `abi::UNSIGNED`, `SIGNED` or `FLOAT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordType {
    pub bits: usize,
    pub order: u32,
}

/// The tests for the codes of words in ranges, which are in the order domain of their type, for kernels that
/// are there: of chunks that are no dictionaries they say that nothing passes.
///
/// # Errors
/// As [`select`].
pub(crate) fn look_up_words(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    dictionaries: &Dictionaries<'_>,
    of: WordType,
    ranges: &[Range],
) -> Result<Vec<ChunkTest>> {
    let values = dictionaries.nodes.iter().map(|dictionary| dictionary.values).collect();
    let parts = parts::words(of, values, ranges, false);
    let (found, _) = ask_dictionaries(stream, column, dictionaries, &parts)?;
    let mut tests = vec![ChunkTest::Decided(false); column.chunks().len()];
    found.into_iter().for_each(|(chunk, found)| tests[chunk] = found);
    Ok(tests)
}

/// Starts to look up the keys of plain nodes, whose values are in `buffers`: sets a bit for each key that is
/// there.
pub(crate) fn probe_keys(
    stream: &Arc<dyn Stream>,
    keys: &WordDictionaries,
    buffers: &[&DeviceBuffer],
    probe: &Probe,
    table: &DeviceTable,
    out: &Arc<DeviceBuffer>,
) -> Result<()> {
    let key = probe.join.key;
    let codes = |codes: &Codes| {
        let mut parameters = Parameters::default();
        parameters.push(&codes.words());
        parameters.upload(stream)
    };
    let set = probe.codes.as_ref().map(codes).transpose()?;
    let field = probe.codes.as_ref().map(|codes| &probe.join.table.columns[codes.column]);
    let kernel = kernels::PROBE_KEYS;
    let blocks_per_node = kernel.blocks_per_node(keys.count, keys.longest);
    let arguments = abi::ProbeArguments {
        nodes: keys.values,
        out: out.pointer(),
        set: set.as_ref().map_or(DevicePtr::NULL, DeviceBuffer::pointer),
        shift: field.map_or(0, |field| field.shift.min(63).into()),
        mask: field.map_or(0, |field| field.mask()),
        entry_bytes: table.entry_bytes as u32,
        value_bytes: key.bits / 8,
        is_signed: u32::from(key.order == Order::Signed),
        blocks_per_node,
        ..table.probe_arguments()
    };
    let mut named = vec![out.as_ref()];
    named.extend(&set);
    named.extend(buffers);
    named.extend(table.buffers.iter().map(AsRef::as_ref));
    let blocks = keys.count * blocks_per_node as usize;
    stream.launch(&Launch::new(kernel, blocks, &arguments, &named))
}

/// Starts tests of the values of dictionaries, and what makes tests of codes of them: one for
/// each dictionary, also of those that were not asked.
fn ask_dictionaries(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    dictionaries: &Dictionaries<'_>,
    parts: &[parts::Part],
) -> Result<(Vec<(usize, ChunkTest)>, Report)> {
    let Dictionaries { nodes: dictionaries, buffers } = dictionaries;
    let found = match parts.is_empty() {
        true => None,
        false => verdicts_on_values(stream, dictionaries)?,
    };
    let Some((found, ranges_at)) = found else { return Ok((Vec::new(), Report::default())) };
    let bitmap = Verdicts {
        stream,
        column,
        buffers: buffers.clone(),
        rows: ranges_at.bits,
        combine: Combine::Set,
        out: &found,
    };
    let report = bitmap.start(parts, &[], &mut ())?;
    Ok((tests_of_codes(stream, dictionaries, &found, ranges_at)?, report))
}

/// The bits of the values of dictionaries, and where the ranges of codes are behind them.
#[derive(Clone, Copy)]
struct ValueBits {
    bits: usize,
    ranges: usize,
}

/// Room for verdicts on the values of dictionaries, zeros for now; none if there are no dictionaries.
fn verdicts_on_values(
    stream: &Arc<dyn Stream>,
    dictionaries: &[ChunkDictionary],
) -> Result<Option<(Arc<DeviceBuffer>, ValueBits)>> {
    let Some(last) = dictionaries.last() else { return Ok(None) };
    let bits = last.values.node.at as usize + last.values.node.rows as usize;
    let ranges = bitmap_len(bits).next_multiple_of(64);
    let size = ranges + dictionaries.len() * size_of::<abi::CodeRange>();
    let found = Arc::new(stream.allocate(size)?);
    // Last words of dictionaries are changed in part.
    stream.fill(&found, 0, ranges, 0)?;
    Ok(Some((found, ValueBits { bits, ranges })))
}

/// Starts what makes tests of codes of verdicts on values.
fn tests_of_codes(
    stream: &Arc<dyn Stream>,
    dictionaries: &[ChunkDictionary],
    found: &Arc<DeviceBuffer>,
    at: ValueBits,
) -> Result<Vec<(usize, ChunkTest)>> {
    let kernel = kernels::CODE_RANGES;
    let values: Vec<Node> = dictionaries.iter().map(|of| of.values.node).collect();
    let mut parameters = Parameters::default();
    let nodes = parameters.push(&values);
    let parameters = parameters.upload(stream)?;
    let ranges: DevicePtr<abi::CodeRange> = found.pointer_at(at.ranges);
    let arguments = abi::CodeRangesArguments {
        nodes: nodes.within(&parameters),
        bitmap: found.pointer(),
        ranges,
        tests: DevicePtr::NULL,
        count: values.len() as u32,
        zero: 0,
    };
    stream.launch(&Launch::new(
        kernel,
        values.len().div_ceil(kernel.block),
        &arguments,
        &[&parameters, found],
    ))?;
    let test = |(index, ChunkDictionary { values, .. }): (usize, &ChunkDictionary)| {
        let looked_up = LookedUp {
            found: found.clone(),
            bits: found.pointer_at(values.node.at as usize / 8),
            range: ranges.add(index),
            count: values.node.rows,
        };
        (values.chunk, ChunkTest::LookedUp(looked_up))
    };
    Ok(dictionaries.iter().enumerate().map(test).collect())
}

/// Starts to join the first `bits` bits of a bitmap, or if `negate` those that it has not,
/// with another.
///
/// # Errors
/// [`Error::Device`].
pub(crate) fn join(
    stream: &Arc<dyn Stream>,
    from: &Arc<DeviceBuffer>,
    negate: bool,
    combine: Combine,
    out: &Arc<DeviceBuffer>,
    bits: usize,
    marks: &mut dyn Marks,
) -> Result<()> {
    let kernel = kernels::JOIN_SELECTED;
    let arguments = abi::JoinArguments {
        from: from.pointer(),
        out: out.pointer(),
        bits: bits as u64,
        combine: combine as u32,
        negate: u32::from(negate),
    };
    stream.launch(&Launch::new(
        kernel,
        bits.div_ceil(32).div_ceil(kernel.block),
        &arguments,
        &[from, out],
    ))?;
    marks.mark(stream, kernel.name)
}

/// The number of set bits among the first `bits` of a bitmap; waits for it.
///
/// # Errors
/// [`Error::DeviceMemory`], [`Error::Device`].
pub(crate) fn count(
    stream: &Arc<dyn Stream>,
    bitmap: &Arc<DeviceBuffer>,
    bits: usize,
) -> Result<usize> {
    let kernel = kernels::COUNT_SELECTED;
    let count = stream.allocate(8)?;
    stream.fill(&count, 0, 8, 0)?;
    let arguments =
        abi::CountArguments { bitmap: bitmap.pointer(), count: count.pointer(), bits: bits as u64 };
    stream.launch(&Launch::new(
        kernel,
        bits.div_ceil(32).div_ceil(kernel.block),
        &arguments,
        &[bitmap, &count],
    ))?;
    let mut bytes = [0; 8];
    stream.download(&count, 0, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes) as usize)
}

#[cfg(all(test, any(lanepack_simt, feature = "cuda")))]
mod tests;
