//! What an array is put together from: values of nodes, of which there is one a chunk.

use std::ops::Range;

use rayon::prelude::*;

use crate::chunk::{Chunk, NodeView};
use crate::encoding;
use crate::error::Result;
use crate::lanes::VECTOR;

/// Rows of one node, and the chunk that it is of. Of several parts each is a whole node.
#[derive(Clone)]
pub(super) struct Part<'a> {
    pub node: NodeView<'a>,
    pub rows: Range<usize>,
    /// The chunk's index, for errors.
    pub chunk: usize,
}

impl<'a> Part<'a> {
    /// All rows of a chunk.
    pub fn of_chunk((index, chunk): (usize, &'a Chunk)) -> Self {
        let node = chunk.root();
        Self { node, rows: 0..node.len(), chunk: index }
    }

    /// The same of a chunk that is decompressed as a whole, see [`NodeView::decompressed`].
    pub fn decompressed(self) -> Self {
        Self { node: self.node.decompressed(), ..self }
    }

    /// Rows of a node below this one.
    pub fn below(&self, node: NodeView<'a>, rows: Range<usize>) -> Self {
        Self { node, rows, chunk: self.chunk }
    }

    pub fn is_whole(&self) -> bool {
        self.rows == (0..self.node.len())
    }

    /// The whole vectors that the rows lie in.
    pub fn vectors(&self) -> Range<usize> {
        let start = self.rows.start / VECTOR * VECTOR;
        start..self.rows.end.next_multiple_of(VECTOR).min(self.node.len())
    }

    /// Bytes of the values of a node of byte strings, from the start of a vector to the end
    /// of one.
    pub fn value_bytes(&self) -> Result<usize> {
        match self.is_whole() {
            true => Ok(encoding::value_bytes(self.node)),
            false => encoding::value_bytes_of(self.node, &self.rows),
        }
    }
}

/// Rows of all parts.
pub(super) fn rows(parts: &[Part<'_>]) -> usize {
    parts.iter().map(|part| part.rows.len()).sum()
}

/// Runs `decode` for every part with its share of the output, in parallel.
pub(super) fn each_part<T: Send>(
    parts: &[Part<'_>],
    shares: Vec<T>,
    decode: impl Fn(&Part<'_>, T) -> Result<()> + Sync,
) -> Result<()> {
    (parts.par_iter().zip(shares))
        .try_for_each(|(part, share)| decode(part, share).map_err(|e| e.in_chunk(part.chunk)))
}

/// Cuts `all` into consecutive parts of the given lengths.
pub(super) fn split<T>(mut all: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut parts = Vec::new();
    for len in lengths {
        let (part, rest) = all.split_at_mut(len);
        parts.push(part);
        all = rest;
    }
    parts
}
