//! Calls that files and datasets share: columns by name, single chunks, single rows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array, new_empty_array};

use crate::batch;
use crate::chunk::Statistics;
use crate::column::{CompressedColumn, check_memory};
use crate::device::CompressedDeviceBatch;
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::scan::{ChunkSource, RowSet, Scan, copied_to_device, taken};

/// What the index of a file says of a column, a value for each chunk.
#[derive(Debug, Clone)]
pub struct ColumnStatistics {
    /// Rows of each chunk.
    pub rows: UInt32Array,
    /// Nulls among them.
    pub null_counts: UInt32Array,
    /// Lower bounds of the valid values; null where there is none. Types and orders are those of
    /// [`Chunk::min`](crate::Chunk::min).
    pub min: ArrayRef,
    /// Upper bounds.
    pub max: ArrayRef,
    /// Bytes of each chunk in the file.
    pub bytes: UInt64Array,
    /// Bytes of the membership filter of each chunk; 0 of chunks without one.
    pub filter_bytes: UInt64Array,
}

fn mismatch(what: String) -> Error {
    Error::Mismatch { place: Place::default(), what }
}

/// The names of all columns.
pub(super) fn names(source: &dyn ChunkSource) -> Vec<&str> {
    source.schema().fields().iter().map(|field| field.name().as_str()).collect()
}

/// The number of a column.
fn number_of(source: &dyn ChunkSource, name: &str) -> Result<usize> {
    let found = source.schema().fields().iter().position(|field| field.name() == name);
    found.ok_or_else(|| mismatch(format!("no column {name:?}")))
}

/// See [`File::statistics`](super::File::statistics).
pub(super) fn statistics(source: &dyn ChunkSource, name: &str) -> Result<ColumnStatistics> {
    let column = number_of(source, name)?;
    let chunks = 0..source.chunk_rows().len();
    let (mut nulls, mut min, mut max) = (Vec::new(), Vec::new(), Vec::new());
    for chunk in chunks.clone() {
        let (count, bounds) = source.facts(column, chunk);
        nulls.push(count as u32);
        min.push(bounds.min);
        max.push(bounds.max);
    }
    let data_type = Statistics::data_type(source.schema().field(column).data_type());
    let together = |bounds: Vec<ArrayRef>| -> Result<ArrayRef> {
        if bounds.is_empty() {
            return Ok(new_empty_array(&data_type));
        }
        let bounds: Vec<&dyn Array> = bounds.iter().map(AsRef::as_ref).collect();
        Ok(arrow_select::concat::concat(&bounds)?)
    };
    Ok(ColumnStatistics {
        rows: source.chunk_rows().iter().map(|rows| *rows as u32).collect::<Vec<_>>().into(),
        null_counts: nulls.into(),
        min: together(min)?,
        max: together(max)?,
        bytes: chunks.clone().map(|chunk| source.bytes(column, chunk)).collect::<Vec<_>>().into(),
        filter_bytes: chunks
            .map(|chunk| source.filter_bytes(column, chunk))
            .collect::<Vec<_>>()
            .into(),
    })
}

/// Reads chunks that have not been announced, all at once where threads wait for one each.
pub(super) fn read(
    source: &dyn ChunkSource,
    columns: &[usize],
    chunks: &[usize],
) -> Result<Vec<CompressedColumn>> {
    source.announce(columns, chunks, true);
    let read = source.read(columns, chunks);
    if read.is_err() {
        source.announce(columns, chunks, false);
    }
    read
}

/// See [`File::columns`](super::File::columns).
pub(super) fn columns<S: AsRef<str>>(
    source: &dyn ChunkSource,
    names: &[S],
) -> Result<Vec<CompressedColumn>> {
    let columns = names.iter().map(|name| number_of(source, name.as_ref()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    read(source, &columns, &(0..source.chunk_rows().len()).collect::<Vec<_>>())
}

/// See [`File::to_device`](super::File::to_device).
pub(super) fn to_device<S: AsRef<str>>(
    source: &dyn ChunkSource,
    names: &[S],
    engine: &Engine,
) -> Result<CompressedDeviceBatch> {
    let columns = names.iter().map(|name| number_of(source, name.as_ref()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(source.schema().project(&columns)?);
    copied_to_device(source, schema, columns, engine)
}

/// See [`File::chunk`](super::File::chunk).
pub(super) fn chunk(
    source: &dyn ChunkSource,
    number: usize,
    engine: &Engine,
) -> Result<RecordBatch> {
    let chunks = source.chunk_rows().len();
    if number >= chunks {
        return Err(mismatch(format!("chunk {number} of {chunks}")));
    }
    let schema = Arc::new(source.schema().clone());
    let columns = read(source, &(0..schema.fields().len()).collect::<Vec<_>>(), &[number])?;
    check_memory(engine.memory_limit(), &columns)?;
    let arrays: Result<_> = columns.iter().map(|column| engine.decompress_column(column)).collect();
    let arrays = arrays.map_err(|error: Error| source.place(number, error))?;
    batch::batch_of(schema, arrays, source.chunk_rows()[number])
}

/// See [`File::take_columns`](super::File::take_columns).
pub(super) fn take(
    source: &dyn ChunkSource,
    rows: &[u64],
    names: &[&str],
    engine: &Engine,
) -> Result<RecordBatch> {
    let all_rows: usize = source.chunk_rows().iter().sum();
    if let Some(row) = rows.iter().find(|row| **row >= all_rows as u64) {
        return Err(mismatch(format!("row {row} of {all_rows}")));
    }
    let columns = names.iter().map(|name| number_of(source, name)).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(source.schema().project(&columns)?);
    let mut sorted: Vec<u64> = rows.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let found = Scan::of_chunks(source).gather_rows(RowSet::Numbers(&sorted), names, engine)?;
    let found = match sorted == rows {
        true => found,
        false => {
            let place = |row| u32::try_from(sorted.binary_search(row).expect("one of them"));
            let places = rows.iter().map(place).collect::<Result<Vec<u32>, _>>();
            let places = places.map_err(|_| Error::too_large("2^32 rows at a time"))?;
            taken(&found, &UInt32Array::from(places))?
        }
    };
    batch::batch_of(schema, found.columns().to_vec(), rows.len())
}
