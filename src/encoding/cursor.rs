//! Words of a node that is read a vector at a time: what several vectors need is decoded once.

use std::ops::Range;

use super::{Encoding, NodeView, Words, dict, lz};
use crate::error::Result;

/// What vectors of a node share.
pub(crate) enum Cursor<'a> {
    /// Segments that reach over the end of a vector.
    Lz(lz::Cursor<'a>),
    /// The values of a dictionary.
    Dict(dict::Cursor<'a>),
    /// Nothing.
    None(NodeView<'a>),
}

impl<'a> Cursor<'a> {
    pub fn new(node: NodeView<'a>) -> Result<Self> {
        match node.encoding() {
            Encoding::Lz => lz::Cursor::new(node).map(Self::Lz),
            Encoding::Dict => dict::Cursor::new(node).map(Self::Dict),
            _ => Ok(Self::None(node)),
        }
    }

    /// The words of some rows.
    pub fn words<T: Words>(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        match self {
            Self::Lz(cursor) => cursor.words(rows, out),
            Self::Dict(cursor) => cursor.words(rows, out),
            Self::None(node) => super::decode(*node, rows, T::output(out)),
        }
    }
}
