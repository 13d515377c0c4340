//! RecordBatches: every column compressed, all with the same chunk boundaries.

mod pending;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use rayon::prelude::*;

use crate::column::{CompressedColumn, check_memory, compress_field};
use crate::error::{Error, Result, ensure};
use crate::extension::{is_compressed, remove_own_keys, storage_field, value_field};
use crate::memory::MemoryLimit;
use crate::options::Options;
pub(crate) use pending::{PendingRows, Portion};

/// Compresses every column of a batch. The result has one row per chunk and
/// the fields' names; it can be sliced, concatenated, written and sent like any
/// other batch. A batch without columns comes back as it is.
///
/// ```
/// use arrow_array::{record_batch, RecordBatch};
/// use lanepack::{Options, compress, decompress};
///
/// let batch = record_batch!(
///     ("id", Int64, [1, 2, 3]),
///     ("name", Utf8, ["ant", "bee", "cat"])
/// )?;
/// let compressed = compress(&batch, &Options::default())?;
/// assert_eq!(compressed.num_rows(), 1);
/// assert_eq!(decompress(&compressed)?, batch);
/// # Ok::<(), lanepack::Error>(())
/// ```
///
/// # Errors
/// [`Error::Options`] for a setting out of range; [`Error::Unsupported`] for a column that is
/// compressed already; [`Error::Verify`] if asked to verify.
pub fn compress(batch: &RecordBatch, options: &Options) -> Result<RecordBatch> {
    options.validate()?;
    check_uncompressed(&batch.schema())?;
    options.install(|| compress_here(batch, options))?
}

/// Compresses a batch on the current threads. Options and schema have been checked.
pub(crate) fn compress_here(batch: &RecordBatch, options: &Options) -> Result<RecordBatch> {
    let columns = compress_columns(batch, options)?;
    compressed_batch(&batch.schema(), batch.num_rows(), &columns)
}

/// An error for a column that is compressed already.
pub(crate) fn check_uncompressed(schema: &Schema) -> Result<()> {
    match schema.fields().iter().find(|field| is_compressed(field)) {
        None => Ok(()),
        Some(field) => {
            let what = "compressed already; `decompress` gives its values";
            Err(Error::unsupported(what).in_column(field.name()))
        }
    }
}

/// Compresses every column of a batch, without making Arrow arrays of them.
///
/// # Errors
/// As [`compress`].
pub(crate) fn compress_columns(
    batch: &RecordBatch,
    options: &Options,
) -> Result<Vec<CompressedColumn>> {
    let schema = batch.schema();
    (schema.fields().par_iter().zip(batch.columns()))
        .map(|(field, array)| compress_field(field.clone(), array, options))
        .collect()
}

/// The compressed batch of columns of this schema; `rows` counts where there are none.
pub(crate) fn compressed_batch(
    schema: &Schema,
    rows: usize,
    columns: &[CompressedColumn],
) -> Result<RecordBatch> {
    let arrays: Vec<ArrayRef> =
        columns.iter().map(|column| Arc::new(column.to_storage()) as ArrayRef).collect();
    let rows = columns.first().map_or(rows, |column| column.chunks().len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = compressed_schema(schema);
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)?)
}

/// The schema that [`compress`] gives to batches of this one.
///
/// ```
/// use arrow_schema::{DataType, Field, Schema};
/// let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
/// let compressed = lanepack::compressed_schema(&schema);
/// assert!(lanepack::is_compressed(compressed.field(0)));
/// assert_eq!(lanepack::decompressed_schema(&compressed)?, schema);
/// # Ok::<(), lanepack::Error>(())
/// ```
pub fn compressed_schema(schema: &Schema) -> Schema {
    let fields: Vec<_> = schema.fields().iter().map(|field| storage_field(field)).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

/// The schema of the batches that [`decompress`] gives for this one.
///
/// # Errors
/// [`Error::NotLanepack`] or [`Error::Version`], with the column.
pub fn decompressed_schema(schema: &Schema) -> Result<Schema> {
    let fields: Vec<_> = (schema.fields().iter())
        .map(|field| value_field(field).map_err(|error| error.in_column(field.name())))
        .collect::<Result<_>>()?;
    let mut schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    remove_own_keys(&mut schema);
    Ok(schema)
}

/// The columns of a compressed batch, validated.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::{Options, columns, compress};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let compressed = compress(&batch, &Options::default())?;
/// assert_eq!(columns(&compressed)?[0].len(), 3);
/// # Ok::<(), lanepack::Error>(())
/// ```
///
/// # Errors
/// As [`CompressedColumn::try_from_arrow`]; [`Error::Corrupt`] if the columns
/// do not share their chunk boundaries.
pub fn columns(compressed: &RecordBatch) -> Result<Vec<CompressedColumn>> {
    let schema = compressed.schema();
    let columns: Vec<CompressedColumn> = (schema.fields().par_iter().zip(compressed.columns()))
        .map(|(field, storage)| CompressedColumn::try_from_arrow(field, storage))
        .collect::<Result<_>>()?;
    check_boundaries(&columns.iter().collect::<Vec<_>>())?;
    Ok(columns)
}

/// Checks that columns share their chunk boundaries.
pub(crate) fn check_boundaries(columns: &[&CompressedColumn]) -> Result<()> {
    if let [first, rest @ ..] = columns {
        for column in rest {
            let same = first.chunk_rows().eq(column.chunk_rows());
            let check = || -> Result<()> {
                ensure!(
                    same,
                    "chunk boundaries other than those of column {:?}",
                    first.field().name()
                );
                Ok(())
            };
            check().map_err(|error: Error| error.in_column(column.field().name()))?;
        }
    }
    Ok(())
}

/// Decompresses every column of a batch that [`compress`] made, or of any
/// slice or concatenation of such batches. Body checksums are not compared
/// (see [`CompressedColumn::verify_checksums`]).
///
/// # Errors
/// As [`columns`] and [`CompressedColumn::decompress`].
pub fn decompress(compressed: &RecordBatch) -> Result<RecordBatch> {
    let schema = decompressed_schema(&compressed.schema())?;
    let columns = columns(compressed)?;
    check_memory(MemoryLimit::default(), &columns)?;
    decompress_columns(Arc::new(schema), &columns, compressed.num_rows())
}

/// Decompresses columns, whose memory has been checked, to a batch; `rows` counts where there are no
/// columns.
pub(crate) fn decompress_columns(
    schema: SchemaRef,
    columns: &[CompressedColumn],
    rows: usize,
) -> Result<RecordBatch> {
    let arrays: Vec<ArrayRef> =
        columns.par_iter().map(CompressedColumn::decode).collect::<Result<_>>()?;
    batch_of(schema, arrays, columns.first().map_or(rows, CompressedColumn::len))
}

/// A batch of arrays; `rows` counts where there are none.
pub(crate) fn batch_of(
    schema: SchemaRef,
    arrays: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
}
