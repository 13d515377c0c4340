//! Membership filters of chunks: made of the values that are written, read for the constants of a scan.
//!
//! A filter is a split-block Bloom filter (`bloom.rs`) of the distinct valid values of a chunk of a column. It
//! is stored behind the chunks of its message, where no buffer of the message refers to it; the index has its
//! place and its checksum.
//!
//! ```text
//! body of a message   offsets | chunks of column 0 | chunks of column 1 | .. | filter | filter | ..
//! index               of columns with filters, for each chunk: first byte, bytes, checksum
//! ```
//!
//! The hash is that of the bytes of a value: of numbers as they are stored, little-endian, so that floats are
//! told apart as tests of scans tell them apart, bit by bit (-0.0 is not 0.0, and a NaN only itself). Types whose
//! values cannot be tested for equality by their bytes have no filters.

use crate::checksum::xxh3_64;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field};
use rayon::prelude::*;

use super::read::{File, ReadRange, Wanted, wanted_ranges};
use super::source::read_exact;
use crate::bloom::{self, BloomFilter};
use crate::column::CompressedColumn;
use crate::encoding::Physical;
use crate::encoding::source::{physical_of, string_values};
use crate::error::{Error, Result, ensure};

/// The filter of a chunk as it is stored, of no bytes if there is none.
#[derive(Debug, Clone)]
pub(super) struct StoredFilter {
    pub bytes: Buffer,
    /// Of a copy the one that the index of its file states, so that damage stays known.
    pub checksum: u64,
}

impl StoredFilter {
    fn of(bytes: Buffer) -> Self {
        let checksum = if bytes.is_empty() { 0 } else { xxh3_64(&bytes) };
        Self { bytes, checksum }
    }
}

/// Checks that a column can have filters.
pub(super) fn check_field(field: &Field) -> Result<()> {
    let data_type = field.data_type();
    if width_of(data_type).is_some() || physical_of(data_type) == Physical::Bytes {
        return Ok(());
    }
    let what = format!(
        "filters of a column of {data_type}: numbers, decimals, dates, times, strings and binary values have some"
    );
    Err(Error::unsupported(what).in_column(field.name()))
}

/// The bytes of a value, of types of fixed width whose values have filters.
fn width_of(data_type: &DataType) -> Option<usize> {
    match (data_type, physical_of(data_type)) {
        // Expressions do not compare intervals.
        (DataType::Interval(_), _) | (_, Physical::Bool | Physical::Bytes | Physical::Arrow) => {
            None
        }
        (_, physical) => physical.bits().map(|bits| bits / 8),
    }
}

/// The hashes of the valid values of an array of a type that [`check_field`] takes, in order.
fn hashes_of(array: &ArrayRef) -> Vec<u64> {
    let rows = (0..array.len()).filter(|row| array.is_valid(*row));
    match width_of(array.data_type()) {
        Some(width) => {
            let data = array.to_data();
            let values = &data.buffers()[0][data.offset() * width..][..data.len() * width];
            rows.map(|row| bloom::hash(&values[row * width..][..width])).collect()
        }
        None => {
            let value = string_values(array);
            rows.map(|row| bloom::hash(value(row))).collect()
        }
    }
}

/// The filters of the chunks of some columns, given the columns' values and compressed columns: for columns
/// that are asked for one for each chunk, none for others.
pub(super) fn build(
    values: &[ArrayRef],
    columns: &[CompressedColumn],
    is_asked: &[bool],
) -> Vec<Vec<StoredFilter>> {
    let of_column = |((values, column), is_asked): ((&ArrayRef, &CompressedColumn), &bool)| {
        let chunks: Vec<_> = if *is_asked { column.chunk_rows().collect() } else { Vec::new() };
        let filter = |rows: std::ops::Range<usize>| {
            let hashes = hashes_of(&values.slice(rows.start, rows.len()));
            let bytes = if hashes.is_empty() { Vec::new() } else { bloom::build(hashes) };
            StoredFilter::of(Buffer::from_vec(bytes))
        };
        chunks.into_par_iter().map(filter).collect()
    };
    values.par_iter().zip(columns).zip(is_asked).map(of_column).collect()
}

impl File {
    /// Reads the filters of some chunks that have some: pairs of a column and a chunk, which have been announced.
    /// Neighbours are read in one range, ranges in parallel. Checksums are compared, if the file does that.
    pub(super) fn filters(&self, wanted: &[(usize, usize)]) -> Result<Vec<BloomFilter>> {
        let ranges = self.filter_ranges(wanted);
        let read: Result<Vec<_>> = ranges
            .par_iter()
            .with_max_len(1)
            .map(|range| {
                let bytes = read_exact(self.source(), range.bytes.clone());
                let bytes = bytes.map_err(|error| self.in_place(&range.wanted[0], error))?;
                let filter = |wanted: &Wanted| {
                    let place = range.place_of(wanted);
                    let filter = bytes.slice_with_length(place.start, place.len());
                    let filter = self.checked_filter(wanted, filter);
                    Ok((wanted.place, filter.map_err(|error| self.in_place(wanted, error))?))
                };
                range.wanted.iter().map(filter).collect::<Result<Vec<_>>>()
            })
            .collect();
        let mut read = read.map_err(|error| self.named(error))?.concat();
        read.sort_unstable_by_key(|(place, _)| *place);
        Ok(read.into_iter().map(|(_, filter)| filter).collect())
    }

    /// Says that filters will be read soon, or, after that, that they will not.
    pub(super) fn announce_filters(&self, wanted: &[(usize, usize)], will_read: bool) {
        for range in self.filter_ranges(wanted) {
            match will_read {
                true => self.source().will_read(range.bytes),
                false => self.source().will_not_read(range.bytes),
            }
        }
    }

    fn filter_ranges(&self, wanted: &[(usize, usize)]) -> Vec<ReadRange> {
        let place = |(number, (column, chunk)): (usize, &(usize, usize))| {
            let filter = self.filter(*column, *chunk).expect("a chunk with a filter");
            Wanted { place: (0, number), column: *column, chunk: *chunk, entry: filter.entry }
        };
        wanted_ranges(self.source(), wanted.iter().enumerate().map(place).collect())
    }

    /// Reads filters that have not been announced.
    pub(super) fn announced_filters(&self, wanted: &[(usize, usize)]) -> Result<Vec<BloomFilter>> {
        self.announce_filters(wanted, true);
        let read = self.filters(wanted);
        if read.is_err() {
            self.announce_filters(wanted, false);
        }
        read
    }

    fn checked_filter(&self, wanted: &Wanted, bytes: Buffer) -> Result<BloomFilter> {
        let stated = self.filter(wanted.column, wanted.chunk).map(|filter| filter.checksum);
        if let Some(expected) = stated.filter(|_| self.compares_checksums()) {
            let found = xxh3_64(&bytes);
            if found != expected {
                let place = Default::default();
                return Err(Error::Checksum { place, part: "filter", expected, found });
            }
        }
        BloomFilter::try_new(bytes)
    }

    /// The filters of a column in some chunks, as they are stored.
    pub(super) fn stored_filters(
        &self,
        column: usize,
        chunks: std::ops::Range<usize>,
    ) -> Result<Vec<StoredFilter>> {
        let stated = chunks.map(|chunk| (chunk, self.filter(column, chunk))).collect::<Vec<_>>();
        let wanted: Vec<_> = (stated.iter())
            .filter_map(|(chunk, stated)| stated.map(|_| (column, *chunk)))
            .collect();
        let mut read = self.announced_filters(&wanted)?.into_iter();
        let filter = |(_, stated): (usize, Option<super::index::FilterEntry>)| match stated {
            Some(stated) => StoredFilter {
                bytes: read.next().expect("one for each").into_bytes(),
                checksum: stated.checksum,
            },
            None => StoredFilter::of(empty()),
        };
        Ok(stated.into_iter().map(filter).collect())
    }

    /// Checks that the filter of a chunk has all values of the chunk, if there is one.
    pub(super) fn verify_filter(
        &self,
        column: usize,
        chunk: usize,
        values: &ArrayRef,
    ) -> Result<()> {
        if self.filter(column, chunk).is_none() {
            return Ok(());
        }
        check_field(self.schema().field(column))?;
        let filter = self.announced_filters(&[(column, chunk)])?.remove(0);
        let has_all = hashes_of(values).into_iter().all(|hash| filter.may_contain(hash));
        ensure!(has_all, "a filter that lacks a value of its chunk");
        Ok(())
    }
}

fn empty() -> Buffer {
    Buffer::from_vec(Vec::<u8>::new())
}
