//! Many batches of few rows, which share launches and copies.
//!
//! ```text
//! compress     chunks of all columns and batches of a span, encoded by type as leaves of nested
//!              columns are (encode/nested), come down in one copy; strings by the host, as each batch
//!              has symbol tables of its own, for which a device takes three times as long
//! decompress   bodies of a column of all batches go up in one copy, decompressed as one column,
//!              which is cut at batches again
//! host         a thread takes a batch
//! ```
//!
//! A batch is a unit of the queue; devices take spans of them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{FieldRef, SchemaRef};
use rayon::prelude::*;

use super::bodies::packed;
use super::{Fits, LONG_SPANS, Shares, Unit, Workers, is_of_device, on_pool_of_hosts, share};
use crate::batch::{self, batch_of, compressed_batch};
use crate::chunk::Chunk;
use crate::column::{CompressedColumn, array_bytes, compress_field, physical_of};
use crate::decode::decodes_on_device;
use crate::device::Context;
use crate::device::column::PlacedChunks;
use crate::encode::{EncodedChunks, encode_arrays, verify_chunks};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::transfer;

/// Compresses batches of one schema, whose columns have been checked.
pub(crate) fn compress_batches(
    workers: &Workers,
    batches: &[RecordBatch],
    options: &Options,
) -> Result<(Vec<RecordBatch>, Shares)> {
    let bytes =
        |batch: &RecordBatch| batch.columns().iter().map(|column| array_bytes(column)).sum();
    let threads = options.pool()?;
    let of_batch = |batch: &RecordBatch| batch::compress_here(batch, options);
    let on_host = |index: usize| -> Result<Vec<RecordBatch>> {
        let compress = || of_batch(&batches[index]);
        let compressed = match &threads {
            Some(threads) => threads.install(compress),
            None => on_pool_of_hosts(compress),
        };
        Ok(vec![compressed?])
    };
    let on_device = |context: &Arc<Context>, range: Range<usize>| {
        let compress = || {
            let some = &batches[range];
            compress_span(context, some, options)
                .map_err(|error| error_of_first(error, some, |batch| of_batch(batch).err()))
        };
        match &threads {
            Some(threads) => threads.install(compress),
            None => compress(),
        }
    };
    by_batches(workers, batches.iter().map(bytes), &on_host, &on_device)
}

/// Decompresses batches, of which the columns are given, whose memory has been checked.
pub(crate) fn decompress_batches(
    workers: &Workers,
    batches: &[BatchColumns],
) -> Result<(Vec<RecordBatch>, Shares)> {
    let bytes =
        |batch: &BatchColumns| batch.columns.iter().map(CompressedColumn::decompressed_bytes).sum();
    let on_host = |index: usize| Ok(vec![batches[index].decompress()?]);
    let on_device = |context: &Arc<Context>, range: Range<usize>| {
        let of_batch = |batch: &BatchColumns| batch.decompress().err();
        decompress_span(context, &batches[range.clone()])
            .map_err(|error| error_of_first(error, &batches[range], of_batch))
    };
    by_batches(workers, batches.iter().map(bytes), &on_host, &on_device)
}

/// The columns of a compressed batch.
pub(crate) struct BatchColumns {
    pub schema: SchemaRef,
    pub columns: Vec<CompressedColumn>,
    pub rows: usize,
}

impl BatchColumns {
    /// Reads a compressed batch with the schema of its values.
    pub fn of(compressed: &RecordBatch) -> Result<Self> {
        let schema = Arc::new(batch::decompressed_schema(&compressed.schema())?);
        let columns = batch::columns(compressed)?;
        let rows = columns.first().map_or(compressed.num_rows(), CompressedColumn::len);
        Ok(Self { schema, columns, rows })
    }

    /// By the CPU.
    pub fn decompress(&self) -> Result<RecordBatch> {
        batch::decompress_columns(self.schema.clone(), &self.columns, self.rows)
    }
}

fn by_batches(
    workers: &Workers,
    bytes: impl Iterator<Item = usize>,
    on_host: &(impl Fn(usize) -> Result<Vec<RecordBatch>> + Sync),
    on_device: &(impl Fn(&Arc<Context>, Range<usize>) -> Result<Vec<RecordBatch>> + Sync),
) -> Result<(Vec<RecordBatch>, Shares)> {
    let unit = |(index, bytes): (usize, usize)| Unit {
        column: 0,
        chunks: index..index + 1,
        bytes: bytes.max(1),
        fits: Fits::Any,
    };
    let mut units: Vec<Unit> = bytes.enumerate().map(unit).collect();
    workers.order(&mut units)?;
    let numbers =
        |range: Range<usize>| units[range.start].chunks.start..units[range.end - 1].chunks.end;
    let host = |unit: usize| on_host(units[unit].chunks.start);
    let device = |context: &Arc<Context>, range: Range<usize>| on_device(context, numbers(range));
    let (done, shares) = share(workers, &LONG_SPANS, &units, &host, &device)?;
    Ok((done.into_iter().flat_map(|(_, batches)| batches).collect(), shares))
}

/// The error of the first of some batches that has one on the CPU, if an error of all of them is not
/// one of the device.
fn error_of_first<B>(error: Error, batches: &[B], of_batch: impl Fn(&B) -> Option<Error>) -> Error {
    match is_of_device(&error) {
        true => error,
        false => batches.iter().find_map(of_batch).unwrap_or(error),
    }
}

/// Compresses batches on a device.
fn compress_span(
    context: &Arc<Context>,
    batches: &[RecordBatch],
    options: &Options,
) -> Result<Vec<RecordBatch>> {
    let is_small = |batch: &RecordBatch| (1..=options.chunk_rows).contains(&batch.num_rows());
    let several = batches.iter().filter(|batch| is_small(batch)).count() > 1;
    let (small, others): (Vec<usize>, Vec<usize>) =
        (0..batches.len()).partition(|index| several && is_small(&batches[*index]));
    let mut compressed: Vec<Option<RecordBatch>> = vec![None; batches.len()];
    if several {
        let some: Vec<&RecordBatch> = small.iter().map(|index| &batches[*index]).collect();
        for (index, batch) in small.iter().zip(compress_together(context, &some, options)?) {
            compressed[*index] = Some(batch);
        }
    }
    for index in others {
        let batch = &batches[index];
        let compress = |(field, array): (&FieldRef, &ArrayRef)| {
            transfer::compress(context, field, array, options)
                .map_err(|error| error.in_column(field.name()))
        };
        let schema = batch.schema();
        let columns: Vec<CompressedColumn> =
            schema.fields().iter().zip(batch.columns()).map(compress).collect::<Result<_>>()?;
        compressed[index] = Some(compressed_batch(&schema, batch.num_rows(), &columns)?);
    }
    Ok(compressed.into_iter().flatten().collect())
}

/// Compresses batches of one chunk each.
fn compress_together(
    context: &Arc<Context>,
    batches: &[&RecordBatch],
    options: &Options,
) -> Result<Vec<RecordBatch>> {
    let schema = batches[0].schema();
    let (count, fields) = (batches.len(), schema.fields());
    // Strings have a symbol table for each column, which leaves do not have.
    let together: Vec<usize> = (0..fields.len())
        .filter(|column| physical_of(fields[*column].data_type()) != Physical::Bytes)
        .collect();
    // Column by column.
    let arrays: Vec<ArrayRef> = (together.iter())
        .flat_map(|column| batches.iter().map(move |batch| batch.column(*column).clone()))
        .collect();
    let EncodedChunks { chunks, bodies, ready } = encode_arrays(context, &arrays, options)?;
    let field = |index: usize| &fields[together[index / count]];
    let placed = PlacedChunks { chunks: &chunks, bodies: &bodies, ready: ready.as_ref() };
    let (chunks, _) = placed.download(context, field)?;
    if options.verify {
        verify_chunks(&chunks, &arrays)?;
    }
    let batch = |(index, batch): (usize, &&RecordBatch)| {
        let column = |number: usize| match together.binary_search(&number) {
            Ok(at) => {
                let chunk = chunks[at * count + index].clone();
                Ok(CompressedColumn::new(fields[number].clone(), vec![chunk], Vec::new()))
            }
            Err(_) => compress_field(fields[number].clone(), batch.column(number), options),
        };
        let columns = (0..fields.len()).map(column).collect::<Result<Vec<_>>>()?;
        compressed_batch(&schema, batch.num_rows(), &columns)
    };
    batches.par_iter().enumerate().map(batch).collect()
}

/// Decompresses batches on a device.
fn decompress_span(context: &Arc<Context>, batches: &[BatchColumns]) -> Result<Vec<RecordBatch>> {
    let [first, ..] = batches else { return Ok(Vec::new()) };
    let column = |number: usize| -> Result<Vec<ArrayRef>> {
        let all = || batches.iter().map(|batch| &batch.columns[number]);
        let with_rows = all().filter(|column| !column.is_empty()).count();
        if with_rows < 2 || !all().all(|column| column.is_empty() || decodes_on_device(column)) {
            // One alone, or those that only the CPU decodes.
            let decode =
                |batch: &BatchColumns| transfer::decompress(context, &batch.columns[number]);
            return batches.par_iter().map(decode).collect();
        }
        let chunks: Vec<Chunk> = all().flat_map(|column| column.chunks().iter().cloned()).collect();
        let field = first.columns[number].field();
        let values = transfer::decompress(context, &packed(field, chunks, Some(context.pool()))?)?;
        let mut start = 0;
        let cut = |batch: &BatchColumns| {
            start += batch.rows;
            values.slice(start - batch.rows, batch.rows)
        };
        Ok(batches.iter().map(cut).collect())
    };
    let columns = (0..first.columns.len()).into_par_iter().map(column);
    let columns: Vec<Vec<ArrayRef>> = columns.collect::<Result<_>>()?;
    let batch = |(index, batch): (usize, &BatchColumns)| {
        let arrays = columns.iter().map(|column| column[index].clone()).collect();
        batch_of(batch.schema.clone(), arrays, batch.rows)
    };
    batches.iter().enumerate().map(batch).collect()
}
