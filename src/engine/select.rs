//! Which rows of a compressed column pass a test: a bitmap on the device, made from the
//! column as it lies there (`kernels/select.cu`).
//!
//! One launch over all chunks of a column, whatever their encodings, and nobody waits:
//! nodes and ranges go up in one copy, and no report comes back, as selecting finds nothing
//! wrong (what a chunk's data say wrongly changes verdicts, not where anything is read or
//! written).

use std::sync::Arc;

use arrow_schema::DataType;

use super::column::DeviceColumn;
use super::decode::{check_decodable, roots, validity};
use super::program::{Job, Marks, jobs};
use crate::column::physical_of;
use crate::encoding::Physical;
use crate::error::{Error, Place, Result};
use crate::gpu::abi::{self, Node, Range};
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, Launch, Stream};
use crate::lanes::VECTOR;

/// A question about the rows of one column. Null rows pass none but [`Self::Null`].
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// The order of a column's numbers: `abi::UNSIGNED`, `SIGNED` or `FLOAT`.
pub(crate) fn order_of(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Float16 => abi::FLOAT,
        other => abi::order_of(physical_of(other)),
    }
}

/// Bytes of a bitmap with a bit for each of `rows` rows.
pub(crate) fn bitmap_len(rows: usize) -> usize {
    rows.div_ceil(32) * 4
}

/// Starts testing every row of a column: bit i of `out` says whether row i passes. With
/// [`Combine::Set`] bits behind the last row become zero, to the end of their word of 32.
///
/// Chunks may begin at any row, as those of batches that were put together do: words of
/// the bitmap that belong to two vectors are then changed by atomics.
///
/// # Errors
/// [`Error::Mismatch`] if the test is none for the column's type, [`Error::TooLarge`] if it
/// is carried as Arrow IPC, [`Error::DeviceMemory`], [`Error::Device`].
pub(crate) fn select(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    test: &ColumnTest,
    combine: Combine,
    out: &Arc<DeviceBuffer>,
    marks: &mut dyn Marks,
) -> Result<()> {
    check_decodable(column)?;
    let data_type = column.field().data_type();
    let launched = Launched::of(data_type, test)?;
    if column.is_empty() {
        return Ok(());
    }
    let rows = column.len();
    assert!(out.len() >= bitmap_len(rows), "a bit for each row");
    let validity = nodes_of(&validity(column.chunks()));
    let nodes = match launched.of_validity {
        true => validity.clone(),
        false => nodes_of(&jobs(&roots(column.chunks()))),
    };
    // Nulls that the validity itself asks for.
    let drops_nulls = !launched.of_validity && column.null_count() > 0;
    let validity = if drops_nulls { validity } else { Vec::new() };

    let mut parameters: Vec<u8> = bytemuck::cast_slice(&nodes).to_vec();
    let validity_at = parameters.len();
    parameters.extend_from_slice(bytemuck::cast_slice(&validity));
    let ranges_at = parameters.len();
    parameters.extend_from_slice(bytemuck::cast_slice(&launched.ranges));
    let buffer = stream.allocate(parameters.len())?;
    stream.upload(&parameters, &buffer, 0)?;

    stream.wait(column.ready())?;
    let shares_words = column.chunks().iter().any(|chunk| !chunk.start.is_multiple_of(32));
    if combine == Combine::Set && shares_words {
        // Words of two chunks are changed by both, and so must hold something.
        stream.fill(out, 0, bitmap_len(rows), 0)?;
    }
    let longest = nodes.iter().map(|node| node.rows as usize).max().unwrap_or(0);
    let kernel = launched.kernel;
    let blocks_per_node =
        kernel.blocks_per_node(nodes.len(), longest.div_ceil(VECTOR)).next_power_of_two();
    let arguments = abi::SelectArguments {
        nodes: buffer.address(),
        validity: if drops_nulls { buffer.address() + validity_at as u64 } else { 0 },
        ranges: buffer.address() + ranges_at as u64,
        out: out.address(),
        rows: rows as u64,
        range_count: launched.ranges.len() as u32,
        order: launched.order,
        combine: combine as u32,
        negate: u32::from(launched.negate),
        node_shift: blocks_per_node.ilog2(),
        each: longest.div_ceil(VECTOR).div_ceil(blocks_per_node as usize * kernel.least) as u32,
    };
    let mut buffers: Vec<&DeviceBuffer> = vec![&buffer, out];
    buffers.extend(column.bodies().iter().map(AsRef::as_ref));
    marks.mark(stream, "")?;
    stream.launch(&Launch {
        module: None,
        kernel: kernel.name,
        blocks: nodes.len() * blocks_per_node as usize,
        threads: kernel.threads,
        shared: kernel.shared,
        arguments: bytemuck::bytes_of(&arguments),
        buffers: &buffers,
    })?;
    marks.mark(stream, launched.kernel.name)
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
        from: from.address(),
        out: out.address(),
        bits: bits as u64,
        combine: combine as u32,
        negate: u32::from(negate),
    };
    stream.launch(&Launch {
        module: None,
        kernel: kernel.name,
        blocks: bits.div_ceil(32).div_ceil(kernel.block),
        threads: kernel.threads,
        shared: kernel.shared,
        arguments: bytemuck::bytes_of(&arguments),
        buffers: &[from, out],
    })?;
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
        abi::CountArguments { bitmap: bitmap.address(), count: count.address(), bits: bits as u64 };
    stream.launch(&Launch {
        module: None,
        kernel: kernel.name,
        blocks: bits.div_ceil(32).div_ceil(kernel.block),
        threads: kernel.threads,
        shared: kernel.shared,
        arguments: bytemuck::bytes_of(&arguments),
        buffers: &[bitmap, &count],
    })?;
    let mut bytes = [0; 8];
    stream.download(&count, 0, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes) as usize)
}

fn nodes_of(jobs: &[Job]) -> Vec<Node> {
    jobs.iter().map(|job| job.node).collect()
}

/// How a test is launched.
struct Launched {
    kernel: Kernel,
    /// Whether the rows are those of the validity.
    of_validity: bool,
    negate: bool,
    order: u32,
    ranges: Vec<Range>,
}

impl Launched {
    fn of(data_type: &DataType, test: &ColumnTest) -> Result<Self> {
        let physical = physical_of(data_type);
        let bits = |of_validity, negate| {
            let (order, ranges) = (abi::UNSIGNED, Vec::new());
            Self { kernel: kernels::SELECT_BITS, of_validity, negate, order, ranges }
        };
        let numbers = |kernel, ranges: &[Range], negate| {
            debug_assert!(ranges.iter().all(|range| range.low <= range.high));
            debug_assert!(ranges.is_sorted_by(|a, b| a.high < b.low));
            // Kernels know the bits of Float16 as integers.
            let (order, ranges) = match data_type {
                DataType::Float16 => (abi::UNSIGNED, in_bits(ranges)),
                _ => (order_of(data_type), ranges.to_vec()),
            };
            Self { kernel, of_validity: false, negate, order, ranges }
        };
        let kernel = match physical.bits() {
            Some(bits @ (8 | 16 | 32 | 64)) => {
                Some(kernels::SELECT[bits.trailing_zeros() as usize - 3])
            }
            _ => None,
        };
        Ok(match (test, kernel) {
            (ColumnTest::Valid, _) => bits(true, false),
            (ColumnTest::Null, _) => bits(true, true),
            (ColumnTest::True, _) if physical == Physical::Bool => bits(false, false),
            (ColumnTest::False, _) if physical == Physical::Bool => bits(false, true),
            (ColumnTest::In(ranges), Some(kernel)) => numbers(kernel, ranges, false),
            (ColumnTest::NotIn(ranges), Some(kernel)) => numbers(kernel, ranges, true),
            _ => {
                let what = format!("{test:?} is no test of values of type {data_type}");
                return Err(Error::Mismatch { place: Place::default(), what });
            }
        })
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

#[cfg(all(test, any(feature = "simt", feature = "cuda")))]
mod tests;
