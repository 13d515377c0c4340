//! Words of a column's chunk, read vector by vector.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::chunk::NodeView;
use crate::column::CompressedColumn;
use crate::encoding::{self, Encoding, Words, lz};
use crate::error::Result;
use crate::lanes::VECTOR;

/// A chunk whose words are read. Clones share what has been decoded.
#[derive(Clone)]
pub(super) struct Source<'a> {
    node: NodeView<'a>,
    /// Of an lz node, once words are read: segments that several vectors need.
    cursor: Rc<OnceCell<lz::Cursor<'a>>>,
}

impl<'a> Source<'a> {
    pub fn new(node: NodeView<'a>) -> Self {
        Self { node, cursor: Rc::default() }
    }

    /// Those of chunk `index` of columns.
    pub fn of_all(columns: &[&'a CompressedColumn], index: usize) -> Vec<Self> {
        columns.iter().map(|column| Self::new(column.chunks()[index].root())).collect()
    }

    pub fn node(&self) -> NodeView<'a> {
        self.node
    }

    /// Reads the words of a vector, of the type that the node has.
    pub fn read<T: Words>(&self, vector: usize, out: &mut [T; VECTOR]) -> Result<()> {
        let rows = vector * VECTOR..self.node.len().min((vector + 1) * VECTOR);
        let out = &mut out[..rows.len()];
        if self.node.encoding() != Encoding::Lz {
            return encoding::decode(self.node, rows, T::output(out));
        }
        let cursor = match self.cursor.get() {
            Some(cursor) => cursor,
            None => {
                let cursor = lz::Cursor::new(self.node)?;
                self.cursor.get_or_init(|| cursor)
            }
        };
        cursor.words(rows, out)
    }
}
