//! From an encoded tree to the bytes of a chunk.

use arrow_buffer::{Buffer, MutableBuffer};
use xxhash_rust::xxh3::xxh3_64;

use super::header::{Header, Node, aligned};
use super::ids::{Encoding, Physical};

/// A node on its way into a chunk: it owns its buffers and children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedNode {
    pub encoding: Encoding,
    pub physical: Physical,
    pub len: usize,
    pub parameters: [u64; 2],
    /// Bitmap of the valid values, if some are null: becomes the first child.
    pub validity: Option<Box<EncodedNode>>,
    pub children: Vec<EncodedNode>,
    pub buffers: Vec<Vec<u8>>,
}

impl EncodedNode {
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

    fn all_children(&self) -> impl Iterator<Item = &EncodedNode> {
        self.validity.as_deref().into_iter().chain(&self.children)
    }
}

/// Lays the tree out breadth first: a header and a body.
pub(crate) fn assemble(root: &EncodedNode, null_count: usize) -> (Vec<u8>, Buffer) {
    let mut order = vec![root];
    let mut nodes = Vec::new();
    let mut lengths = Vec::new();
    let mut at = 0;
    while at < order.len() {
        let node = order[at];
        let children = order.len();
        order.extend(node.all_children());
        let first_buffer = lengths.len();
        lengths.extend(node.buffers.iter().map(Vec::len));
        nodes.push(Node {
            encoding: node.encoding,
            physical: node.physical,
            nullable: node.validity.is_some(),
            len: node.len,
            parameters: node.parameters,
            children: children..order.len(),
            buffers: first_buffer..lengths.len(),
        });
        at += 1;
    }
    let body_len = lengths.iter().map(|len| aligned(*len)).sum();
    let mut body = MutableBuffer::with_capacity(body_len);
    let mut buffers = Vec::with_capacity(lengths.len());
    for buffer in order.iter().flat_map(|node| &node.buffers) {
        buffers.push(body.len()..body.len() + buffer.len());
        body.extend_from_slice(buffer);
        body.resize(aligned(body.len()), 0);
    }
    let body = Buffer::from(body);
    let header = Header {
        rows: root.len,
        null_count,
        body_len,
        body_checksum: xxh3_64(&body),
        nodes,
        buffers,
    };
    (header.to_bytes(), body)
}
