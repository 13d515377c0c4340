//! The header of a chunk: wire structs, their bytes, and the one parse that
//! checks them. The normative description is docs/FORMAT.md, section "Header".
//!
//! ```text
//! 0        2          4      8            12          14         16            24              32                40                48
//! | version| nodes N  | rows | null count | buffers B | reserved | body length | body checksum | header checksum | bounds checksum |
//! | N x 32 bytes: nodes, breadth first | B x 8 bytes: buffer lengths, in node order |
//! ```
//!
//! Offsets that follow from lengths are not stored: children and buffers belong
//! to nodes in list order, and buffers lie in the body one behind the other at
//! multiples of 64. So a cycle, an overlap or a range outside the body cannot
//! be written down, and the parse only has to check sums.

use std::ops::Range;

use crate::checksum::xxh3_64;

use super::ids::{Encoding, Physical};
use crate::error::{Error, Place, Result, ensure};
use crate::lanes::VECTOR;

/// Version of the byte format that this build writes and reads.
pub const FORMAT_VERSION: u16 = 1;
/// Most values of a chunk: 128 vectors of 1,024 values.
pub const MAX_CHUNK_ROWS: usize = 128 * VECTOR;
/// Every buffer of a body begins at a multiple of this many bytes.
pub const ALIGNMENT: usize = 64;
/// Deepest nesting of encodings, the root included.
pub const MAX_DEPTH: usize = 16;

const FIXED: usize = 48;
const NODE: usize = 32;
const CHECKSUM: Range<usize> = 32..40;
const NULLABLE: u8 = 1;

/// Bytes of header and body that a node takes whose buffers have these lengths, its children
/// apart: its record, the buffers' lengths, and the buffers with the gaps behind them.
pub(crate) fn node_bytes(buffers: impl IntoIterator<Item = usize>) -> usize {
    let buffers = buffers.into_iter().map(|len| size_of::<u64>() + aligned(len));
    NODE + buffers.sum::<usize>()
}

/// One encoded array: the values of the column, or of a child of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// How the values are stored.
    pub encoding: Encoding,
    /// What the values are.
    pub physical: Physical,
    /// Whether the first child is a validity bitmap (1 = valid).
    pub nullable: bool,
    /// Number of values.
    pub len: usize,
    /// Two parameters, their meaning fixed by the encoding.
    pub parameters: [u64; 2],
    /// Nodes that are this node's children, the validity first if there is one.
    pub children: Range<usize>,
    /// Buffers that are this node's.
    pub buffers: Range<usize>,
}

/// A header, parsed and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Values in the chunk.
    pub rows: usize,
    /// Nulls among them.
    pub null_count: usize,
    /// Bytes of the body.
    pub body_len: usize,
    /// XXH3-64 of the body.
    pub body_checksum: u64,
    /// [`Statistics::checksum`](super::Statistics::checksum) of the bounds that are stored beside the
    /// header.
    pub bounds_checksum: u64,
    /// The encoding tree, breadth first; the root is node 0.
    pub nodes: Vec<Node>,
    /// The byte range of every buffer in the body.
    pub buffers: Vec<Range<usize>>,
}

/// The next multiple of [`ALIGNMENT`].
pub(crate) fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

impl Header {
    /// How many bytes the header has that these begin with, which may be more than there are.
    ///
    /// # Errors
    /// [`Error::Version`], [`Error::Corrupt`].
    pub(crate) fn stated_len(bytes: &[u8]) -> Result<usize> {
        Self::check_version(bytes)?;
        let count = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        Ok(FIXED + NODE * count(2) + size_of::<u64>() * count(12))
    }

    /// Checks that there are the bytes that every header has, and the version.
    fn check_version(bytes: &[u8]) -> Result<()> {
        ensure!(bytes.len() >= FIXED, "header of {} bytes, at least {FIXED} needed", bytes.len());
        let version = u16_at(bytes, 0);
        if version != FORMAT_VERSION {
            return Err(Error::Version {
                place: Place::default(),
                found: version.into(),
                supported: FORMAT_VERSION.into(),
            });
        }
        Ok(())
    }

    /// How many bytes the header has.
    pub(crate) fn byte_len(&self) -> usize {
        FIXED + NODE * self.nodes.len() + size_of::<u64>() * self.buffers.len()
    }

    /// The header's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED];
        out[0..2].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[2..4].copy_from_slice(&(self.nodes.len() as u16).to_le_bytes());
        out[4..8].copy_from_slice(&(self.rows as u32).to_le_bytes());
        out[8..12].copy_from_slice(&(self.null_count as u32).to_le_bytes());
        out[12..14].copy_from_slice(&(self.buffers.len() as u16).to_le_bytes());
        out[16..24].copy_from_slice(&(self.body_len as u64).to_le_bytes());
        out[24..32].copy_from_slice(&self.body_checksum.to_le_bytes());
        out[40..48].copy_from_slice(&self.bounds_checksum.to_le_bytes());
        for node in &self.nodes {
            out.extend([
                node.encoding as u8,
                node.physical as u8,
                if node.nullable { NULLABLE } else { 0 },
                node.buffers.len() as u8,
            ]);
            out.extend((node.children.len() as u16).to_le_bytes());
            out.extend([0; 2]);
            out.extend((node.len as u64).to_le_bytes());
            out.extend(node.parameters[0].to_le_bytes());
            out.extend(node.parameters[1].to_le_bytes());
        }
        for buffer in &self.buffers {
            out.extend((buffer.len() as u64).to_le_bytes());
        }
        let checksum = checksum_of(&out);
        out[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Parses and checks a header. Everything in the result may be relied on:
    /// the tree is a tree of at most [`MAX_DEPTH`] levels, and all buffers lie
    /// inside a body of [`Header::body_len`] bytes.
    ///
    /// # Errors
    /// [`Error::Version`], [`Error::Checksum`] or [`Error::Corrupt`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        Self::check_version(bytes)?;
        let (node_count, buffer_count) =
            (usize::from(u16_at(bytes, 2)), usize::from(u16_at(bytes, 12)));
        let expected = FIXED + node_count * NODE + buffer_count * 8;
        ensure!(
            bytes.len() == expected,
            "header of {} bytes, {expected} needed for {node_count} nodes and {buffer_count} buffers",
            bytes.len()
        );
        let stated = u64_at(bytes, CHECKSUM.start);
        let found = checksum_of(bytes);
        if stated != found {
            let place = Place::default();
            return Err(Error::Checksum { place, part: "header", expected: stated, found });
        }
        let rows = u32_at(bytes, 4) as usize;
        let null_count = u32_at(bytes, 8) as usize;
        ensure!(
            (1..=MAX_CHUNK_ROWS).contains(&rows),
            "{rows} rows, 1 to {MAX_CHUNK_ROWS} are allowed"
        );
        ensure!(null_count <= rows, "{null_count} nulls among {rows} rows");
        ensure!(u16_at(bytes, 14) == 0, "reserved bytes of the header are not zero");
        ensure!(node_count > 0, "a header without nodes");

        let buffers_at = FIXED + node_count * NODE;
        let mut buffers = Vec::with_capacity(buffer_count);
        let mut end = 0_usize;
        for bytes in bytes[buffers_at..].chunks_exact(8) {
            let len = usize::try_from(u64_at(bytes, 0)).ok();
            let next =
                len.and_then(|len| end.checked_add(len)?.checked_next_multiple_of(ALIGNMENT));
            let (Some(len), Some(next)) = (len, next) else {
                return Err(Error::corrupt("buffer lengths add up to more than an address"));
            };
            buffers.push(end..end + len);
            end = next;
        }
        let body_len = u64_at(bytes, 16);
        ensure!(
            body_len == end as u64,
            "body of {body_len} bytes, its {buffer_count} buffers take {end}"
        );
        let nodes = parse_nodes(&bytes[FIXED..buffers_at], buffer_count)?;
        let root = &nodes[0];
        ensure!(root.len == rows, "root node of {} values in a chunk of {rows} rows", root.len);
        // Arrow arrays may have nulls without a bitmap of their own.
        ensure!(
            root.nullable == (null_count > 0) || root.physical == Physical::Arrow,
            "{null_count} nulls, but the root node {} a validity bitmap",
            if root.nullable { "has" } else { "lacks" }
        );
        Ok(Self {
            rows,
            null_count,
            body_len: end,
            body_checksum: u64_at(bytes, 24),
            bounds_checksum: u64_at(bytes, 40),
            nodes,
            buffers,
        })
    }
}

/// Gives each node its children and buffers, in list order.
fn parse_nodes(bytes: &[u8], buffer_count: usize) -> Result<Vec<Node>> {
    let count = bytes.len() / NODE;
    let mut nodes = Vec::with_capacity(count);
    // Depth of each node, known before its turn because parents come first.
    let mut depths = vec![1];
    let mut next_buffer = 0;
    for (index, bytes) in bytes.chunks_exact(NODE).enumerate() {
        let Some(&depth) = depths.get(index) else {
            return Err(Error::corrupt(format!("node {index} is nobody's child")));
        };
        ensure!(depth <= MAX_DEPTH, "node {index} is nested deeper than {MAX_DEPTH} levels");
        let encoding = Encoding::try_from(bytes[0])?;
        let physical = Physical::try_from(bytes[1])?;
        ensure!(bytes[2] & !NULLABLE == 0, "node {index}: unknown flags {:#04x}", bytes[2]);
        ensure!(bytes[6..8] == [0; 2], "node {index}: reserved bytes are not zero");
        let len = usize::try_from(u64_at(bytes, 8))
            .map_err(|_| Error::corrupt(format!("node {index}: more values than an address")))?;
        let children = depths.len()..depths.len() + usize::from(u16_at(bytes, 4));
        ensure!(
            bytes[2] & NULLABLE == 0 || !children.is_empty(),
            "node {index} is nullable, but has no validity bitmap"
        );
        ensure!(
            children.end <= count,
            "node {index}: its children are nodes {children:?} of {count}"
        );
        let buffers = next_buffer..next_buffer + usize::from(bytes[3]);
        ensure!(
            buffers.end <= buffer_count,
            "node {index}: its buffers are {buffers:?} of {buffer_count}"
        );
        depths.resize(children.end, depth + 1);
        next_buffer = buffers.end;
        nodes.push(Node {
            encoding,
            physical,
            nullable: bytes[2] & NULLABLE != 0,
            len,
            parameters: [u64_at(bytes, 16), u64_at(bytes, 24)],
            children,
            buffers,
        });
    }
    ensure!(
        next_buffer == buffer_count,
        "{buffer_count} buffers, of which nodes claim {next_buffer}"
    );
    Ok(nodes)
}

/// XXH3-64 of a header with its own checksum taken as zero.
fn checksum_of(header: &[u8]) -> u64 {
    let mut copy = header.to_vec();
    copy[CHECKSUM].fill(0);
    xxh3_64(&copy)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
