//! Values read vector by vector, from segments that are decoded once.
//!
//! A segment has the values of several vectors, or a vector those of several segments: what is
//! decoded are the segments of one vector, and those that the next one needs as well are kept.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

use super::Segments;
use crate::chunk::NodeView;
use crate::encoding::Words;
use crate::encoding::select::{Matcher, RangeTest, Selector, Verdict};
use crate::error::Result;
use crate::lanes::{Mask, VECTOR};

/// The bytes of a node, for readers that go from vector to vector.
pub(crate) struct Cursor<'a> {
    segments: Segments<'a>,
    /// Which bytes are decoded, and these.
    decoded: RefCell<(Range<usize>, Vec<u8>)>,
}

impl<'a> Cursor<'a> {
    pub fn new(node: NodeView<'a>) -> Result<Self> {
        Ok(Self { segments: Segments::new(node)?, decoded: RefCell::default() })
    }

    /// Calls `read` with a range of the bytes, and what is decoded behind them.
    pub fn read<R>(&self, range: Range<usize>, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let mut decoded = self.decoded.borrow_mut();
        if range.start < decoded.0.start || range.end > decoded.0.end {
            self.segments.decode_around(range.clone(), &mut decoded)?;
        }
        let (of, bytes) = &*decoded;
        // Empty ranges may be anywhere.
        Ok(read(if range.is_empty() { &[] } else { &bytes[range.start - of.start..] }))
    }

    /// Reads some words of the node.
    pub fn words<T: Words>(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        let size = size_of::<T>();
        let out: &mut [u8] = bytemuck::cast_slice_mut(out);
        self.read(rows.start * size..rows.end * size, |bytes| {
            out.copy_from_slice(&bytes[..out.len()]);
        })
    }
}

/// The test of a node's words.
pub(super) fn words<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
    let (cursor, matcher) = (Cursor::new(node)?, Matcher::new(test));
    Ok(Verdict::some(WordsTest::<T> { node, cursor, matcher, words: PhantomData }))
}

struct WordsTest<'a, T> {
    node: NodeView<'a>,
    cursor: Cursor<'a>,
    matcher: Matcher,
    words: PhantomData<T>,
}

impl<T: Words> Selector for WordsTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let rows = vector * VECTOR..self.node.len().min((vector + 1) * VECTOR);
        let mut words = [T::ZERO; VECTOR];
        let words = &mut words[..rows.len()];
        self.cursor.words(rows, words)?;
        self.matcher.words(words, mask);
        Ok(())
    }
}
