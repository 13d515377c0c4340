//! Words of a column's chunk, read vector by vector.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::chunk::NodeView;
use crate::column::CompressedColumn;
use crate::encoding::{self, Encoding, Words};
use crate::error::{Error, Result};
use crate::lanes::VECTOR;

/// A chunk whose words are read. Clones share what has been decoded.
#[derive(Clone)]
pub(super) struct Source<'a> {
    node: NodeView<'a>,
    /// All words of an lz node, as 64 bits have them, once some are needed: a segment has the words
    /// of up to 64 vectors, and each of these would decode it again.
    whole: Arc<OnceLock<Vec<u64>>>,
}

impl<'a> Source<'a> {
    pub fn new(node: NodeView<'a>) -> Self {
        Self { node, whole: Arc::default() }
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
        if self.node.encoding() == Encoding::Lz {
            out.copy_from_slice(self.decoded(rows)?);
            return Ok(());
        }
        encoding::decode(self.node, rows, T::output(out))
    }

    /// Rows of all words.
    fn decoded<T: Words>(&self, rows: Range<usize>) -> Result<&[T]> {
        let whole = match self.whole.get() {
            Some(whole) => whole,
            None => {
                let len = self.node.len();
                let mut words = vec![0; (len * size_of::<T>()).div_ceil(8)];
                let out = &mut bytemuck::cast_slice_mut(&mut words)[..len];
                encoding::decode(self.node, 0..len, T::output(out))?;
                self.whole.get_or_init(|| words)
            }
        };
        let words = bytemuck::cast_slice(whole).get(rows);
        words.ok_or_else(|| Error::corrupt("words of two types"))
    }
}
