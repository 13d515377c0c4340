//! From an encoded tree to the bytes of a chunk.

use std::ops::Range;

use crate::checksum::xxh3_64;
use arrow_buffer::{Buffer, MutableBuffer};

use super::header::{Header, MAX_DEPTH, Node, aligned, node_bytes};
use super::ids::{Encoding, Physical};
use super::stats::Statistics;

/// A node on its way into a chunk: it owns its children and buffers, which are bytes
/// or, for nodes that a device will write, what `B` says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedNode<B = Vec<u8>> {
    pub encoding: Encoding,
    pub physical: Physical,
    pub len: usize,
    pub parameters: [u64; 2],
    /// Bitmap of the valid values, if some are null: becomes the first child.
    pub validity: Option<Box<EncodedNode<B>>>,
    pub children: Vec<EncodedNode<B>>,
    pub buffers: Vec<B>,
}

impl<B> EncodedNode<B> {
    /// A node without parameters, children or buffers.
    pub fn new(encoding: Encoding, physical: Physical, len: usize) -> Self {
        Self {
            encoding,
            physical,
            len,
            parameters: [0; 2],
            validity: None,
            children: Vec::new(),
            buffers: Vec::new(),
        }
    }

    /// The same tree with buffers of another kind.
    pub fn map<C>(self, buffer: &impl Fn(B) -> C) -> EncodedNode<C> {
        EncodedNode {
            encoding: self.encoding,
            physical: self.physical,
            len: self.len,
            parameters: self.parameters,
            validity: self.validity.map(|node| Box::new(node.map(buffer))),
            children: self.children.into_iter().map(|node| node.map(buffer)).collect(),
            buffers: self.buffers.into_iter().map(buffer).collect(),
        }
    }

    /// Whether a header has room for the tree below this node.
    pub fn fits(&self) -> bool {
        const MOST: usize = u16::MAX as usize;
        // Level by level, as the tree is laid out.
        let (mut level, mut nodes, mut buffers) = (vec![self], 0, 0);
        for _ in 0..MAX_DEPTH {
            nodes += level.len();
            buffers += level.iter().map(|node| node.buffers.len()).sum::<usize>();
            level = level.iter().flat_map(|node| node.all_children()).collect();
        }
        level.is_empty() && nodes <= MOST && buffers <= MOST
    }

    /// Bytes of header and body that the node takes with all below it; `len` is the length of
    /// a buffer.
    pub fn stored_bytes(&self, len: &impl Fn(&B) -> usize) -> usize {
        let below: usize = self.all_children().map(|child| child.stored_bytes(len)).sum();
        node_bytes(self.buffers.iter().map(len)) + below
    }

    fn all_children(&self) -> impl Iterator<Item = &EncodedNode<B>> {
        self.validity.as_deref().into_iter().chain(&self.children)
    }
}

/// Lays the tree out breadth first: a header, but for the checksums of bounds and of a body that
/// is still to be written, and the nodes in its order.
pub(crate) fn lay_out<B>(
    root: &EncodedNode<B>,
    null_count: usize,
    len: impl Fn(&B) -> usize,
) -> (Header, Vec<&EncodedNode<B>>) {
    let mut order = vec![root];
    let mut nodes = Vec::new();
    let mut buffers: Vec<Range<usize>> = Vec::new();
    let mut body_len = 0;
    let mut at = 0;
    while at < order.len() {
        let node = order[at];
        let children = order.len();
        order.extend(node.all_children());
        let first_buffer = buffers.len();
        for buffer in &node.buffers {
            let end = body_len + len(buffer);
            buffers.push(body_len..end);
            body_len = aligned(end);
        }
        nodes.push(Node {
            encoding: node.encoding,
            physical: node.physical,
            nullable: node.validity.is_some(),
            len: node.len,
            parameters: node.parameters,
            children: children..order.len(),
            buffers: first_buffer..buffers.len(),
        });
        at += 1;
    }
    let (rows, body_checksum, bounds_checksum) = (root.len, 0, 0);
    let header =
        Header { rows, null_count, body_len, body_checksum, bounds_checksum, nodes, buffers };
    (header, order)
}

/// Lays the tree out: a header and a body.
pub(crate) fn assemble(
    root: &EncodedNode,
    null_count: usize,
    statistics: &Statistics,
) -> (Vec<u8>, Buffer) {
    let (header, order) = lay_out(root, null_count, Vec::len);
    let mut body = MutableBuffer::with_capacity(header.body_len);
    for buffer in order.iter().flat_map(|node| &node.buffers) {
        body.extend_from_slice(buffer);
        body.resize(aligned(body.len()), 0);
    }
    let body = Buffer::from(body);
    let (body_checksum, bounds_checksum) = (xxh3_64(&body), statistics.checksum());
    let header = Header { body_checksum, bounds_checksum, ..header };
    (header.to_bytes(), body)
}
