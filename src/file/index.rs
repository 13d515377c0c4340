//! The index of a file: of each chunk of each column where it is, its nulls and its bounds, and of columns with
//! membership filters where the filter is. Its bytes are described in docs/FORMAT.md, "Files with an index".

use std::ops::Range;

use crate::checksum::xxh3_64;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array, new_null_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema};

use super::filter::check_field;
use crate::bloom;
use crate::chunk::{MAX_CHUNK_ROWS, Statistics};
use crate::error::{Error, Place, Result, ensure};

/// The footer's key that says where the index is: its first byte and its length, as `place,length`.
pub(super) const KEY: &str = "lanepack.index";

const VERSION: u32 = 1;
/// Checksum, version, number of columns, number of chunks.
const HEAD: usize = 24;
/// Every part begins at a multiple of this.
const UNIT: usize = 8;

/// In the place of a column's parts, which is a multiple of [`UNIT`]: the column has filters.
const HAS_FILTERS: u64 = 1;

/// Where a chunk of a column is, or its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub at: u64,
    pub len: u64,
}

/// Where the filter of a chunk is, and the checksum of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterEntry {
    /// Of no bytes, at 0, if the chunk has no filter.
    pub entry: Entry,
    pub checksum: u64,
}

/// What a writer gathers of a column.
#[derive(Debug, Default)]
pub(super) struct ColumnParts {
    pub entries: Vec<Entry>,
    pub nulls: Vec<u32>,
    /// A value for each chunk, if the column has filters.
    pub filters: Option<Vec<FilterEntry>>,
    /// Bounds of some chunks in each array.
    bounds: Vec<Statistics>,
}

impl ColumnParts {
    /// Adds the bounds of a chunk. Arrays of one value take hundreds of bytes each, so two of as many values
    /// become one.
    pub fn push_bounds(&mut self, bounds: Statistics) {
        let mut last = bounds;
        while let Some(before) = self.bounds.pop_if(|before| before.min.len() == last.min.len()) {
            let together = |one: &ArrayRef, other: &ArrayRef| {
                arrow_select::concat::concat(&[one, other]).expect("bounds are of one type")
            };
            let min = together(&before.min, &last.min);
            last = Statistics { min, max: together(&before.max, &last.max) };
        }
        self.bounds.push(last);
    }
}

/// The bytes of an index: rows of each chunk, and the parts of the columns of a schema.
pub(super) fn to_bytes(schema: &Schema, rows: &[u32], columns: &[ColumnParts]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD + 8 * columns.len()];
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(columns.len() as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&(rows.len() as u64).to_le_bytes());
    put(&mut bytes, rows.iter().flat_map(|rows| rows.to_le_bytes()));
    for (number, (column, field)) in columns.iter().zip(schema.fields()).enumerate() {
        let flags = if column.filters.is_some() { HAS_FILTERS } else { 0 };
        let at = (bytes.len() as u64 | flags).to_le_bytes();
        bytes[HEAD + 8 * number..][..8].copy_from_slice(&at);
        put(&mut bytes, column.entries.iter().flat_map(|entry| entry.at.to_le_bytes()));
        put(&mut bytes, column.entries.iter().flat_map(|entry| entry.len.to_le_bytes()));
        put(&mut bytes, column.nulls.iter().flat_map(|nulls| nulls.to_le_bytes()));
        for bound in [|of: &Statistics| of.min.clone(), |of: &Statistics| of.max.clone()] {
            let bounds: Vec<ArrayRef> = column.bounds.iter().map(bound).collect();
            put_bounds(&mut bytes, &bounds, &Statistics::data_type(field.data_type()));
        }
        if let Some(filters) = &column.filters {
            put(&mut bytes, filters.iter().flat_map(|filter| filter.entry.at.to_le_bytes()));
            put(&mut bytes, filters.iter().flat_map(|filter| filter.entry.len.to_le_bytes()));
            put(&mut bytes, filters.iter().flat_map(|filter| filter.checksum.to_le_bytes()));
        }
    }
    let checksum = xxh3_64(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Appends a part, and zeros up to the next.
fn put(bytes: &mut Vec<u8>, part: impl IntoIterator<Item = u8>) {
    bytes.extend(part);
    bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
}

/// Appends bounds of one type, an array of one value for each chunk: a bit for each that there is, then the
/// values.
fn put_bounds(bytes: &mut Vec<u8>, bounds: &[ArrayRef], data_type: &DataType) {
    if *data_type == DataType::Null {
        return;
    }
    let all: ArrayRef = match bounds {
        [] => new_null_array(data_type, 0),
        bounds => {
            let parts: Vec<&dyn Array> = bounds.iter().map(AsRef::as_ref).collect();
            arrow_select::concat::concat(&parts).expect("bounds are of one type")
        }
    };
    put(bytes, bits(all.len(), |row| all.is_valid(row)));
    match data_type {
        DataType::Boolean => {
            let values = all.as_boolean();
            put(bytes, bits(all.len(), |row| values.is_valid(row) && values.value(row)));
        }
        DataType::Utf8 => {
            put_strings(bytes, all.as_string::<i32>().iter().map(|text| text.map(str::as_bytes)))
        }
        DataType::Binary => put_strings(bytes, all.as_binary::<i32>().iter()),
        _ => {
            let width = data_type.primitive_width().expect("of fixed width");
            let data = all.to_data();
            let values = &data.buffers()[0][data.offset() * width..][..data.len() * width];
            // Values that are not there are zeros, so that equal files have equal bytes.
            let mut own = values.to_vec();
            for row in (0..all.len()).filter(|row| all.is_null(*row)) {
                own[row * width..][..width].fill(0);
            }
            put(bytes, own);
        }
    }
}

fn bits(count: usize, is_set: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut bits = vec![0; count.div_ceil(8)];
    (0..count).filter(|at| is_set(*at)).for_each(|at| bits[at / 8] |= 1 << (at % 8));
    bits
}

/// Appends where strings end, and then the strings.
fn put_strings<'a>(bytes: &mut Vec<u8>, strings: impl Iterator<Item = Option<&'a [u8]>>) {
    let (mut ends, mut all) = (vec![0_u32], Vec::new());
    for string in strings {
        all.extend(string.unwrap_or_default());
        ends.push(all.len() as u32);
    }
    put(bytes, ends.iter().flat_map(|end| end.to_le_bytes()));
    put(bytes, all);
}

/// The index of a file that is open.
#[derive(Debug)]
pub(super) struct Index {
    bytes: Buffer,
    /// Rows of each chunk.
    pub rows: Vec<usize>,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    entries: Range<usize>,
    lens: Range<usize>,
    nulls: Range<usize>,
    bounds: [ArrayRef; 2],
    filters: Option<Filters>,
}

/// Where the filters of a column are, their bytes and their checksums.
#[derive(Debug)]
struct Filters {
    entries: Range<usize>,
    lens: Range<usize>,
    checksums: Range<usize>,
}

impl Filters {
    /// Reads where the filters of so many chunks are, which are in the first `end` bytes of the file.
    fn parse(parts: &mut Parts<'_>, chunks: usize, end: u64) -> Result<Self> {
        let mut take = || parts.take(8 * chunks);
        let filters = Self { entries: take()?, lens: take()?, checksums: take()? };
        for chunk in 0..chunks {
            let Entry { at, len } = filters.of(parts.bytes, chunk).entry;
            if len == 0 {
                continue;
            }
            let check = || {
                bloom::check_len(len)?;
                let is_inside = at.checked_add(len).is_some_and(|last| last <= end);
                ensure!(is_inside, "a filter of {len} bytes at {at} in a file of {end}");
                Ok(())
            };
            check().map_err(|error: Error| error.in_chunk(chunk))?;
        }
        Ok(filters)
    }

    fn of(&self, bytes: &[u8], chunk: usize) -> FilterEntry {
        let [at, len, checksum] =
            [&self.entries, &self.lens, &self.checksums].map(|part| u64_at(bytes, part, chunk));
        FilterEntry { entry: Entry { at, len }, checksum }
    }
}

impl Column {
    /// Reads the parts of a column from byte `start` on, whose bounds have a type, and the filters if there are
    /// some; of chunks of so many rows, which are in the first `end` bytes of the file.
    fn parse(
        parts: &mut Parts<'_>,
        (start, bound): (u64, &DataType),
        rows: &[usize],
        end: u64,
    ) -> Result<Self> {
        let (start, has_filters) = (start & !HAS_FILTERS, start & HAS_FILTERS != 0);
        ensure!(start == parts.at as u64, "its part of the index is not where it should be");
        let (entries, lens) = (parts.take(8 * rows.len())?, parts.take(8 * rows.len())?);
        let nulls = parts.take(4 * rows.len())?;
        for (chunk, rows) in rows.iter().enumerate() {
            let (at, len) =
                (u64_at(parts.bytes, &entries, chunk), u64_at(parts.bytes, &lens, chunk));
            let is_inside = at.checked_add(len).is_some_and(|last| last <= end);
            ensure!(is_inside, "chunk {chunk}: {len} bytes at {at} in a file of {end}");
            let nulls = u32_at(parts.bytes, &nulls, chunk) as usize;
            ensure!(nulls <= *rows, "chunk {chunk}: {nulls} nulls among {rows} rows in the index");
        }
        let bounds = [bounds(parts, bound, rows.len())?, bounds(parts, bound, rows.len())?];
        let filters = has_filters.then(|| Filters::parse(parts, rows.len(), end)).transpose()?;
        Ok(Self { entries, lens, nulls, bounds, filters })
    }
}

impl Index {
    /// Reads an index of columns of a schema, whose chunks are in the first `end` bytes of the file.
    pub fn parse(bytes: Buffer, schema: &Schema, end: u64) -> Result<Self> {
        ensure!(
            bytes.len() >= HEAD,
            "an index of {} bytes, at least {HEAD} are needed",
            bytes.len()
        );
        let version = u32::from_le_bytes(array_at(&bytes, 8));
        if version != VERSION {
            let place = Place::default();
            return Err(Error::Version { place, found: version.into(), supported: VERSION.into() });
        }
        let (expected, found) = (u64::from_le_bytes(array_at(&bytes, 0)), xxh3_64(&bytes[8..]));
        if expected != found {
            return Err(Error::Checksum {
                place: Place::default(),
                part: "index",
                expected,
                found,
            });
        }
        let count = u32::from_le_bytes(array_at(&bytes, 12)) as usize;
        ensure!(
            count == schema.fields().len(),
            "an index of {count} columns, the schema has {}",
            schema.fields().len()
        );
        let chunks = usize::try_from(u64::from_le_bytes(array_at(&bytes, 16))).ok();
        // Each takes four bytes at least.
        let chunks = chunks.filter(|chunks| *chunks <= bytes.len() / 4);
        let chunks = chunks.ok_or_else(|| Error::corrupt("an index of more chunks than bytes"))?;
        let mut parts = Parts { bytes: &bytes, at: HEAD };
        let starts = parts.take(8 * count)?;
        let rows = parts.take(4 * chunks)?;
        let rows: Vec<usize> =
            (0..chunks).map(|chunk| u32_at(&bytes, &rows, chunk) as usize).collect();
        for rows in &rows {
            ensure!((1..=MAX_CHUNK_ROWS).contains(rows), "a chunk of {rows} rows in the index");
        }
        let mut columns = Vec::with_capacity(count);
        for (number, field) in schema.fields().iter().enumerate() {
            let start = u64_at(&bytes, &starts, number);
            let data_type = Statistics::data_type(field.data_type());
            let column = Column::parse(&mut parts, (start, &data_type), &rows, end);
            columns.push(column.map_err(|error| error.in_column(field.name()))?);
        }
        // Chunks and filters do not overlap, so that nobody reads more than there is.
        let mut left = end;
        for column in &columns {
            let lens = [Some(&column.lens), column.filters.as_ref().map(|filters| &filters.lens)];
            for (lens, chunk) in lens
                .into_iter()
                .flatten()
                .flat_map(|lens| (0..rows.len()).map(move |chunk| (lens, chunk)))
            {
                let rest = left.checked_sub(u64_at(&bytes, lens, chunk));
                left =
                    rest.ok_or_else(|| Error::corrupt("chunks or filters overlap in the index"))?;
            }
        }
        // A later version may know how to hash other types.
        for (column, field) in columns.iter_mut().zip(schema.fields()) {
            column.filters = column.filters.take().filter(|_| check_field(field).is_ok());
        }
        ensure!(parts.at == bytes.len(), "an index with {} bytes too many", bytes.len() - parts.at);
        Ok(Self { rows, columns, bytes })
    }

    pub fn entry(&self, column: usize, chunk: usize) -> Entry {
        let of = &self.columns[column];
        let (at, len) =
            (u64_at(&self.bytes, &of.entries, chunk), u64_at(&self.bytes, &of.lens, chunk));
        Entry { at, len }
    }

    /// Whether some chunks of a column may have filters.
    pub fn has_filters(&self, column: usize) -> bool {
        self.columns[column].filters.is_some()
    }

    /// The filter of a chunk, if it has one.
    pub fn filter(&self, column: usize, chunk: usize) -> Option<FilterEntry> {
        let filter = self.columns[column].filters.as_ref()?.of(&self.bytes, chunk);
        (filter.entry.len > 0).then_some(filter)
    }

    pub fn nulls(&self, column: usize, chunk: usize) -> usize {
        u32_at(&self.bytes, &self.columns[column].nulls, chunk) as usize
    }

    /// The bounds of all chunks of a column: the least, the greatest values.
    pub fn bounds(&self, column: usize) -> &[ArrayRef; 2] {
        &self.columns[column].bounds
    }

    /// Those of one chunk.
    pub fn statistics(&self, column: usize, chunk: usize) -> Statistics {
        let [min, max] = self.bounds(column).each_ref().map(|bounds| bounds.slice(chunk, 1));
        Statistics { min, max }
    }
}

/// The parts of an index, one behind the other.
struct Parts<'a> {
    bytes: &'a Buffer,
    at: usize,
}

impl Parts<'_> {
    /// The next part, of so many bytes.
    fn take(&mut self, len: usize) -> Result<Range<usize>> {
        let padded = len.checked_next_multiple_of(UNIT);
        let end = padded.and_then(|len| self.at.checked_add(len));
        let end = end.filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            Error::corrupt(format!("an index of {} bytes that ends early", self.bytes.len()))
        })?;
        let part = self.at..self.at + len;
        self.at = end;
        Ok(part)
    }
}

/// Reads the bounds of all chunks.
fn bounds(parts: &mut Parts<'_>, data_type: &DataType, chunks: usize) -> Result<ArrayRef> {
    if *data_type == DataType::Null {
        return Ok(new_null_array(data_type, chunks));
    }
    let slice =
        |bytes: &Buffer, part: Range<usize>| bytes.slice_with_length(part.start, part.len());
    let validity = parts.take(chunks.div_ceil(8))?;
    let array = ArrayData::builder(data_type.clone())
        .len(chunks)
        .null_bit_buffer(Some(slice(parts.bytes, validity)));
    let array = match data_type {
        DataType::Boolean => array.add_buffer(slice(parts.bytes, parts.take_bits(chunks)?)),
        DataType::Utf8 | DataType::Binary => {
            let ends = parts.take(4 * (chunks + 1))?;
            let bytes = u32_at(parts.bytes, &ends, chunks) as usize;
            let ends = slice(parts.bytes, ends);
            let bytes = parts.take(bytes)?;
            array.add_buffer(ends).add_buffer(slice(parts.bytes, bytes))
        }
        _ => {
            let width = data_type.primitive_width().expect("of fixed width");
            let values = parts.take(width * chunks)?;
            array.add_buffer(slice(parts.bytes, values))
        }
    };
    // Checks offsets and UTF-8; values of 128 bits are copied to where they may lie.
    let array = array.align_buffers(true).build();
    Ok(make_array(array.map_err(|error| Error::corrupt(format!("bounds in the index: {error}")))?))
}

impl Parts<'_> {
    fn take_bits(&mut self, count: usize) -> Result<Range<usize>> {
        self.take(count.div_ceil(8))
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("so many bytes")
}

fn u64_at(bytes: &[u8], part: &Range<usize>, number: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, part.start + 8 * number))
}

fn u32_at(bytes: &[u8], part: &Range<usize>, number: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, part.start + 4 * number))
}

/// Where the index of a file is, as the footer says; none of files without one.
pub(super) fn place_of(value: &str) -> Option<Range<u64>> {
    let (at, len) = value.split_once(',')?;
    let (at, len): (u64, u64) = (at.parse().ok()?, len.parse().ok()?);
    Some(at..at.checked_add(len)?)
}
