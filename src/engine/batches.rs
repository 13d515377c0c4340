//! Many batches in one call.

use arrow_array::RecordBatch;
use rayon::prelude::*;

use super::Engine;
use crate::arrow_type;
use crate::batch;
use crate::column::{CompressedColumn, check_memory};
use crate::error::{Error, Place, Result};
use crate::options::Options;
use crate::transfer::shared::{self, BatchColumns, Workers};

impl Engine {
    /// Compresses batches of one schema, each to a batch of its own: the same as
    /// [`Engine::compress`] of each, byte for byte. For many batches of few rows it takes much less
    /// time, on a GPU above all: what they have of one type is copied and compressed together.
    ///
    /// Compressed batches may share the memory of their chunks, so that one of them keeps that of
    /// others.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use lanepack::{Engine, Options};
    ///
    /// let batches = [1, 2, 3].map(|id| record_batch!(("id", Int64, [id, id])).unwrap());
    /// let engine = Engine::auto();
    /// let compressed = engine.compress_batches(&batches, &Options::default())?;
    /// assert_eq!(compressed.len(), 3);
    /// assert_eq!(engine.decompress_batches(&compressed)?, batches);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Engine::compress`], of one of the batches that have one; [`Error::Mismatch`] for batches of
    /// different schemas.
    pub fn compress_batches(
        &self,
        batches: &[RecordBatch],
        options: &Options,
    ) -> Result<Vec<RecordBatch>> {
        options.validate()?;
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        check_schemas(batches)?;
        batch::check_uncompressed(&first.schema())?;
        for field in first.schema().fields() {
            arrow_type::check(field.data_type()).map_err(|error| error.in_column(field.name()))?;
        }
        self.run(
            || self.compression(first.columns(), options).times(batches.len()),
            || {
                let compress = |batch| batch::compress_here(batch, options);
                in_order(options.install(|| batches.par_iter().map(compress).collect())?)
            },
            |context| Ok(shared::compress_batches(&Workers::of(context), batches, options)?.0),
            |workers| shared::compress_batches(workers, batches, options),
        )
    }

    /// Decompresses batches of one schema, each to a batch of its own, equal to that of
    /// [`Engine::decompress`]. For many batches of few rows it takes much less time, on a GPU
    /// above all: they are copied and decompressed together.
    ///
    /// The arrays of batches may be slices of others, so that one of them keeps the memory of others.
    /// [`Engine::with_memory_limit`] is for the values of all batches together.
    ///
    /// # Errors
    /// As [`Engine::decompress`], of one of the batches that have one; [`Error::Mismatch`] for batches of
    /// different schemas.
    pub fn decompress_batches(&self, compressed: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        check_schemas(compressed)?;
        let batches: Vec<BatchColumns> =
            in_order(compressed.par_iter().map(BatchColumns::of).collect())?;
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let all: Vec<CompressedColumn> = (0..first.columns.len())
            .map(|column| {
                let of = batches.iter().flat_map(|batch| batch.columns[column].chunks());
                let field = first.columns[column].field().clone();
                CompressedColumn::new(field, of.cloned().collect(), Vec::new())
            })
            .collect();
        check_memory(self.memory_limit(), &all)?;
        self.run(
            || self.decompression(&all),
            || in_order(batches.par_iter().map(BatchColumns::decompress).collect()),
            |context| Ok(shared::decompress_batches(&Workers::of(context), &batches)?.0),
            |workers| shared::decompress_batches(workers, &batches),
        )
    }
}

/// All results, or the first error.
fn in_order<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    results.into_iter().collect()
}

fn check_schemas(batches: &[RecordBatch]) -> Result<()> {
    let [first, rest @ ..] = batches else { return Ok(()) };
    match rest.iter().position(|batch| batch.schema() != first.schema()) {
        None => Ok(()),
        Some(index) => {
            let what = format!("the schema of batch {} is not that of batch 0", index + 1);
            Err(Error::Mismatch { place: Place::default(), what })
        }
    }
}
