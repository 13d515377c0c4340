//! A chunk: up to 131,072 values of a column as a header and a body.
//!
//! A [`Chunk`] exists only after one validating parse ([`Chunk::parse`]): the
//! header has been checked against itself, and each node by its encoding
//! against its buffers and children (sizes, offsets, widths, counts). What
//! remains unchecked is data that only decoding shows; decoders check that as
//! they go. Reading goes through [`NodeView`], which hands out typed slices of
//! the body without copying.

mod header;
mod ids;
mod set;
mod stats;
mod view;
mod write;

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::checksum::xxh3_64;
use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use rayon::prelude::*;

use crate::error::{Error, Place, Result, ensure};
use crate::memory::zeros;

pub use header::{ALIGNMENT, FORMAT_VERSION, MAX_CHUNK_ROWS};
pub(crate) use header::{Header, aligned, node_bytes};
pub(crate) use ids::{DeviceReader, Keeps, MAX_VALUES, StringForm};
pub use ids::{Encoding, Physical};
pub use set::EncodingSet;
pub(crate) use stats::Statistics;
pub(crate) use view::{NodeView, cast};
pub(crate) use write::{EncodedNode, assemble, lay_out};

/// Up to 131,072 compressed values ([`MAX_CHUNK_ROWS`]), validated: a header, a body, and bounds of
/// the values.
///
/// ```
/// use arrow_array::{ArrayRef, Int64Array};
/// use lanepack::{Options, compress_array};
/// use std::sync::Arc;
///
/// let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
/// let column = compress_array(&array, &Options::default().with_chunk_rows(1024))?;
/// let rows: Vec<usize> = column.chunks().iter().map(|chunk| chunk.rows()).collect();
/// assert_eq!(rows, [1024, 1024, 952]);
/// let chunk = &column.chunks()[0];
/// assert_eq!(chunk.compressed_bytes(), chunk.header().len() + chunk.body().len());
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Chunk {
    header_bytes: Buffer,
    header: Header,
    body: Buffer,
    statistics: Statistics,
    /// The checksum of the bounds that came with the chunk, if these are not what was written; they
    /// are not used then.
    other_bounds: Option<u64>,
    /// Set once [`Chunk::check_once`] has found nothing wrong.
    checked: OnceLock<()>,
}

impl Chunk {
    /// Parses and checks a chunk; `validate` is [`encoding::validate_tree`](crate::encoding),
    /// which knows what the nodes mean. A body that does not begin at a multiple of
    /// [`ALIGNMENT`] bytes is copied to one that does. Bounds of the type `column` were not stored
    /// as such where `statistics` are none.
    pub(crate) fn parse(
        header_bytes: Buffer,
        body: Buffer,
        statistics: Option<Statistics>,
        column: &DataType,
        validate: fn(NodeView<'_>) -> Result<()>,
    ) -> Result<Self> {
        let header = Header::parse(&header_bytes)?;
        // Bounds that a writer has left out are none, whatever the checksum is.
        let stored = statistics.filter(Statistics::has_any);
        let found = stored.as_ref().map(Statistics::checksum);
        let other_bounds = found.filter(|found| *found != header.bounds_checksum);
        let statistics = match (stored, other_bounds) {
            (Some(statistics), None) => statistics,
            _ => Statistics::none(column),
        };
        ensure!(
            body.len() == header.body_len,
            "body of {} bytes, the header states {}",
            body.len(),
            header.body_len
        );
        let body = realigned(body);
        let checked = OnceLock::new();
        let chunk = Self { header_bytes, header, body, statistics, other_bounds, checked };
        validate(chunk.root())?;
        Ok(chunk)
    }

    /// Does a check of the whole chunk, unless it has been done.
    pub(crate) fn check_once(&self, check: fn(NodeView<'_>) -> Result<()>) -> Result<()> {
        if self.checked.get().is_none() {
            check(self.root())?;
            self.checked.get_or_init(|| ());
        }
        Ok(())
    }

    /// Values in the chunk.
    pub fn rows(&self) -> usize {
        self.header.rows
    }

    /// Nulls among the values.
    pub fn null_count(&self) -> usize {
        self.header.null_count
    }

    /// The header's bytes.
    pub fn header(&self) -> &Buffer {
        &self.header_bytes
    }

    /// The body's bytes, beginning at a multiple of [`ALIGNMENT`].
    pub fn body(&self) -> &Buffer {
        &self.body
    }

    /// The same chunk with its body in other memory.
    ///
    /// # Panics
    /// If the body has another length or does not begin at a multiple of [`ALIGNMENT`].
    pub(crate) fn moved(self, body: Buffer) -> Self {
        assert!(body.len() == self.body.len() && body.as_ptr().align_offset(ALIGNMENT) == 0);
        Self { body, ..self }
    }

    /// Bytes of header and body.
    pub fn compressed_bytes(&self) -> usize {
        self.header_bytes.len() + self.body.len()
    }

    /// A lower bound of the valid values, as an array of one value; null where
    /// there is none. Of floats in IEEE 754 total order, as Arrow's kernels
    /// compare; of strings at most 64 bytes, as Utf8 or Binary. The bound is stored beside the
    /// values, and null if its checksum differs; it is as trustworthy as its source.
    ///
    /// ```
    /// use arrow_array::{Array, ArrayRef, Int32Array, cast::AsArray, types::Int32Type};
    /// use lanepack::{Options, compress_array};
    /// use std::sync::Arc;
    ///
    /// let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(-3)]));
    /// let column = compress_array(&array, &Options::default())?;
    /// assert_eq!(column.chunks()[0].min().as_primitive::<Int32Type>().value(0), -3);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    pub fn min(&self) -> &ArrayRef {
        &self.statistics.min
    }

    /// An upper bound of the valid values; see [`Chunk::min`].
    pub fn max(&self) -> &ArrayRef {
        &self.statistics.max
    }

    /// Both bounds.
    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The header, parsed.
    pub(crate) fn parsed_header(&self) -> &Header {
        &self.header
    }

    /// The root of the encoding tree.
    pub(crate) fn root(&self) -> NodeView<'_> {
        NodeView::root(&self.header, &self.body)
    }

    /// Compares bounds and body with the checksums that the header states.
    ///
    /// # Errors
    /// [`Error::Checksum`] if they differ.
    pub fn verify_checksum(&self) -> Result<()> {
        self.verify_checksum_of(xxh3_64(&self.body))
    }

    /// The same, given the checksum of the body.
    pub(crate) fn verify_checksum_of(&self, found: u64) -> Result<()> {
        if let Some(found) = self.other_bounds {
            let (place, expected) = (Place::default(), self.header.bounds_checksum);
            return Err(Error::Checksum { place, part: "bounds", expected, found });
        }
        let expected = self.header.body_checksum;
        if expected == found {
            return Ok(());
        }
        Err(Error::Checksum { place: Place::default(), part: "body", expected, found })
    }
}

/// The buffer itself if it begins at a multiple of [`ALIGNMENT`], else an aligned copy.
pub(crate) fn realigned(buffer: Buffer) -> Buffer {
    match (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
        true => buffer,
        false => joined(&[buffer]),
    }
}

/// A copy of buffers, one behind the other, that begins at a multiple of [`ALIGNMENT`].
pub(crate) fn joined(buffers: &[Buffer]) -> Buffer {
    let len = buffers.iter().map(Buffer::len).sum::<usize>();
    let mut copy: Vec<u8> = zeros(len + ALIGNMENT);
    let start = copy.as_ptr().align_offset(ALIGNMENT);
    // Pages of zeros come when they are touched, here by all threads.
    (pieces(buffers, &mut copy[start..start + len]).into_par_iter())
        .for_each(|(target, source)| target.copy_from_slice(source));
    Buffer::from_vec(copy).slice_with_length(start, len)
}

/// Copies buffers, one behind the other, to memory of their length, by all threads.
pub(crate) fn copy_joined(buffers: &[Buffer], target: &mut [MaybeUninit<u8>]) {
    pieces(buffers, target).into_par_iter().for_each(|(target, source)| {
        for (to, from) in target.iter_mut().zip(source) {
            to.write(*from);
        }
    });
}

/// What threads copy of buffers, and to where.
fn pieces<'a, T>(buffers: &'a [Buffer], mut target: &'a mut [T]) -> Vec<(&'a mut [T], &'a [u8])> {
    let mut pieces = Vec::new();
    for buffer in buffers {
        let (own, rest) = target.split_at_mut(buffer.len());
        pieces.extend(own.chunks_mut(COPIED).zip(buffer.chunks(COPIED)));
        target = rest;
    }
    pieces
}

/// Bytes that a thread copies at a time.
const COPIED: usize = 1 << 20;
