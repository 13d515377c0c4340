//! Typed, zero-copy access to one node of a chunk.

use std::ops::Range;

use bytemuck::AnyBitPattern;

use super::header::{Header, Node};
use super::ids::{Encoding, Physical, StringForm};
use crate::error::{Error, Result, ensure};

/// A node with the header and body it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeView<'a> {
    header: &'a Header,
    body: &'a [u8],
    node: &'a Node,
    /// Whether decoding compares indexes that only GPUs use.
    is_compared: bool,
}

impl<'a> NodeView<'a> {
    pub(super) fn root(header: &'a Header, body: &'a [u8]) -> Self {
        Self { header, body, node: &header.nodes[0], is_compared: false }
    }

    /// The root of a chunk whose body lies elsewhere: it tells where buffers are,
    /// but cannot hand them out.
    pub fn of_header(header: &'a Header) -> Self {
        Self::root(header, &[])
    }

    /// The node of a chunk that is decompressed as a whole. The tile index of FSST is compared then:
    /// a GPU decompresses by it, and both engines refuse the same chunks.
    pub fn decompressed(self) -> Self {
        Self { is_compared: true, ..self }
    }

    /// Whether it was made by [`Self::decompressed`].
    pub fn is_decompressed(self) -> bool {
        self.is_compared
    }

    pub fn encoding(self) -> Encoding {
        self.node.encoding
    }

    /// How a node of strings stores them; an error if its encoding stores none.
    pub fn string_form(self) -> Result<StringForm> {
        let none = || Error::corrupt(format!("strings are encoded as {}", self.encoding()));
        self.encoding().string_form().ok_or_else(none)
    }

    pub fn physical(self) -> Physical {
        self.node.physical
    }

    pub fn len(self) -> usize {
        self.node.len
    }

    pub fn parameter(self, index: usize) -> u64 {
        self.node.parameters[index]
    }

    /// The validity bitmap's node, if some values are null.
    pub fn validity(self) -> Option<NodeView<'a>> {
        self.node.nullable.then(|| self.node_at(self.node.children.start))
    }

    fn first_child(self) -> usize {
        self.node.children.start + usize::from(self.node.nullable)
    }

    /// Number of children, the validity not counted.
    pub fn child_count(self) -> usize {
        self.node.children.end.saturating_sub(self.first_child())
    }

    /// The `index`-th child, the validity not counted. Only after validation of the count.
    pub fn child(self, index: usize) -> NodeView<'a> {
        self.node_at(self.first_child() + index)
    }

    /// All children, the validity not counted.
    pub fn children(self) -> impl Iterator<Item = NodeView<'a>> {
        (0..self.child_count()).map(move |index| self.child(index))
    }

    fn node_at(self, index: usize) -> NodeView<'a> {
        NodeView { node: &self.header.nodes[index], ..self }
    }

    pub fn buffer_count(self) -> usize {
        self.node.buffers.len()
    }

    /// The `index`-th buffer. Only after validation of the count.
    pub fn buffer(self, index: usize) -> &'a [u8] {
        &self.body[self.buffer_range(index)]
    }

    /// Where the `index`-th buffer lies in the body. Only after validation of the count.
    pub fn buffer_range(self, index: usize) -> Range<usize> {
        self.header.buffers[self.node.buffers.start + index].clone()
    }

    /// The `index`-th buffer as a slice of `T`.
    ///
    /// # Errors
    /// If its length is no multiple of `T`'s.
    pub fn typed<T: AnyBitPattern>(self, index: usize) -> Result<&'a [T]> {
        cast(self.buffer(index))
    }

    /// Checks the shape that an encoding prescribes; parameters that it does not
    /// use are zero.
    pub fn expect_shape(self, children: usize, buffers: usize, parameters: usize) -> Result<()> {
        let unused = &self.node.parameters[parameters..];
        ensure!(
            unused.iter().all(|parameter| *parameter == 0),
            "{} node with unused parameters {unused:x?}",
            self.encoding()
        );
        ensure!(
            self.child_count() == children && self.buffer_count() == buffers,
            "{} node with {} children and {} buffers, {children} and {buffers} expected",
            self.encoding(),
            self.child_count(),
            self.buffer_count()
        );
        Ok(())
    }
}

/// Bytes as a slice of `T`; buffers begin at multiples of 64, so only parts of
/// them can be misaligned.
pub(crate) fn cast<T: AnyBitPattern>(bytes: &[u8]) -> Result<&[T]> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| {
        let size = size_of::<T>();
        Error::corrupt(format!(
            "buffer part of {} bytes is no array of {size}-byte words",
            bytes.len()
        ))
    })
}
