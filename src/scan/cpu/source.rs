//! Words of a column's chunk, read vector by vector.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::chunk::NodeView;
use crate::column::CompressedColumn;
use crate::encoding::{Cursor, Words};
use crate::error::{Error, Result};
use crate::lanes::VECTOR;

/// A chunk whose words are read. Clones share what has been decoded.
#[derive(Clone)]
pub(super) struct Source<'a> {
    node: NodeView<'a>,
    /// Of the column.
    name: &'a str,
    /// Once words are read: what several vectors need.
    cursor: Rc<OnceCell<Cursor<'a>>>,
}

impl<'a> Source<'a> {
    /// That of chunk `index` of a column.
    pub fn new(column: &'a CompressedColumn, index: usize) -> Self {
        let (node, name) = (column.chunks()[index].root(), column.field().name());
        Self { node, name, cursor: Rc::default() }
    }

    /// Those of chunk `index` of columns.
    pub fn of_all(columns: &[&'a CompressedColumn], index: usize) -> Vec<Self> {
        columns.iter().map(|column| Self::new(column, index)).collect()
    }

    /// A node of the column that has its values as other words.
    pub fn with(&self, node: NodeView<'a>) -> Self {
        Self { node, name: self.name, cursor: Rc::default() }
    }

    pub fn node(&self) -> NodeView<'a> {
        self.node
    }

    /// An error of what has been read.
    pub fn place(&self, error: Error) -> Error {
        error.in_column(self.name)
    }

    /// Reads the words of a vector, of the type that the node has.
    pub fn read<T: Words>(&self, vector: usize, out: &mut [T; VECTOR]) -> Result<()> {
        self.read_words(vector, out).map_err(|error| self.place(error))
    }

    fn read_words<T: Words>(&self, vector: usize, out: &mut [T; VECTOR]) -> Result<()> {
        let rows = vector * VECTOR..self.node.len().min((vector + 1) * VECTOR);
        let out = &mut out[..rows.len()];
        let cursor = match self.cursor.get() {
            Some(cursor) => cursor,
            None => {
                let cursor = Cursor::new(self.node)?;
                self.cursor.get_or_init(|| cursor)
            }
        };
        cursor.words(rows, out)
    }
}
