//! Words of a node that is read a vector at a time: what several vectors need is decoded once.

use std::ops::Range;

use super::{NodeView, RunCursor, Words, codec, dict, lz};
use crate::error::Result;

/// What vectors of a node share ([`Codec::cursor`](super::Codec::cursor)).
pub(crate) enum Cursor<'a> {
    /// Segments that reach over the end of a vector.
    Segments(lz::Cursor<'a>),
    /// The values of a dictionary.
    Dictionary(dict::Cursor<'a>),
    /// The values and lengths of runs.
    Runs(RunCursor<'a>),
    /// Nothing.
    None(NodeView<'a>),
}

impl<'a> Cursor<'a> {
    pub fn new(node: NodeView<'a>) -> Result<Self> {
        codec(node.encoding()).cursor(node)
    }

    /// The words of some rows.
    pub fn words<T: Words>(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        match self {
            Self::Segments(cursor) => cursor.words(rows, out),
            Self::Dictionary(cursor) => cursor.words(rows, out),
            Self::Runs(cursor) => cursor.words(rows, out),
            Self::None(node) => super::decode(*node, rows, T::output(out)),
        }
    }
}
