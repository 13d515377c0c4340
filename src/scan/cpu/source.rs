//! Words of a column's chunk, read vector by vector.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::chunk::NodeView;
use crate::column::CompressedColumn;
use crate::encoding::{Cursor, Words, select};
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
    /// Once it is asked for: the words that hold wide values, if they do.
    narrow: Rc<OnceCell<Option<Self>>>,
}

impl<'a> Source<'a> {
    /// That of chunk `index` of a column.
    pub fn new(column: &'a CompressedColumn, index: usize) -> Self {
        let (node, name) = (column.chunks()[index].root(), column.field().name());
        Self::with(node, name)
    }

    /// Those of chunk `index` of columns.
    pub fn of_all(columns: &[&'a CompressedColumn], index: usize) -> Vec<Self> {
        columns.iter().map(|column| Self::new(column, index)).collect()
    }

    fn with(node: NodeView<'a>, name: &'a str) -> Self {
        Self { node, name, cursor: Rc::default(), narrow: Rc::default() }
    }

    /// The words of 64 bits that hold wide values, if they do.
    pub fn narrow(&self) -> Option<&Self> {
        let narrow = || select::as_words(self.node).map(|node| Self::with(node, self.name));
        self.narrow.get_or_init(narrow).as_ref()
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
