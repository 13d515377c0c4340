//! Compression of columns in host memory by the host and devices together.
//!
//! ```text
//! lane    span of 32 MiB up --> measured, planned, written --> its place (bodies.rs) --> bodies down
//! rayon                                                        checksums, headers   <--
//! host    unit of 1 MiB     --> compressed                 --> moved to its place
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::FieldRef;
use rayon::{Scope, ThreadPool};

use super::bodies::{AtWork, Bodies};
use super::{Done, FirstError, Fits, SHORT_SPANS, Shares, Unit, Workers, on_pool_of_hosts, share};
use crate::arrow_type;
use crate::column::{CompressedColumn, array_bytes, compress_field, physical_of};
use crate::device::Context;
use crate::device::column::on_host;
use crate::device::pinned::{ResultMemory, WrittenPiece};
use crate::encode::{encodes_on_device, uses_device};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::transfer::compress_to_device;

/// Compresses columns; the same bytes whoever did what.
pub(crate) fn compress(
    workers: &Workers,
    fields: &[FieldRef],
    arrays: &[ArrayRef],
    options: &Options,
) -> Result<(Vec<CompressedColumn>, Shares)> {
    for field in fields {
        arrow_type::check(field.data_type()).map_err(|error| error.in_column(field.name()))?;
    }
    let mut units: Vec<Unit> = (arrays.iter().enumerate())
        .flat_map(|(column, array)| units_of(column, array, options, workers.unit_bytes()))
        .collect();
    workers.order(&mut units)?;
    let pool = workers.devices.first().map(|context| context.pool());
    let bodies: Vec<Bodies<'_>> = (fields.iter().enumerate())
        .map(|(column, field)| {
            let of_column = units.iter().filter(|unit| unit.column == column);
            let values = of_column.map(|unit| unit.bytes).sum();
            let most = arrays[column].get_buffer_memory_size();
            Bodies::new(field, pool, values, most)
        })
        .collect();
    let (units, threads, failed) = (&units, options.pool()?, FirstError::default());
    let work = Compression { fields, arrays, options, units, bodies, threads, failed };
    let (_, shares) = match &work.threads {
        Some(threads) => threads.in_place_scope(|checks| work.share(workers, checks)),
        None => rayon::in_place_scope(|checks| work.share(workers, checks)),
    }?;
    let Compression { bodies, failed, .. } = work;
    failed.into_result()?;
    Ok((bodies.into_iter().map(Bodies::finish).collect::<Result<_>>()?, shares))
}

/// A call that compresses columns.
struct Compression<'a> {
    fields: &'a [FieldRef],
    arrays: &'a [ArrayRef],
    options: &'a Options,
    units: &'a [Unit],
    /// Of each column.
    bodies: Vec<Bodies<'a>>,
    /// Those that were asked for: all that the host computes is on these.
    threads: Option<ThreadPool>,
    /// What is wrong with chunks that have come down, found when their lane has gone on.
    failed: FirstError,
}

/// Consecutive chunks of a column, and that somebody works on them.
struct Span<'b> {
    field: &'b FieldRef,
    array: ArrayRef,
    /// The number of the first chunk.
    first: usize,
    bodies: &'b Bodies<'b>,
    at_work: AtWork<'b>,
}

impl Span<'_> {
    /// An error about these chunks as one about the column's.
    fn place(&self, error: Error) -> Error {
        error.after_chunks(self.first).in_column(self.field.name())
    }
}

impl Compression<'_> {
    fn share<'s>(&'s self, workers: &Workers, checks: &Scope<'s>) -> Result<(Done<()>, Shares)> {
        let on_device = |context: &Arc<Context>, units| self.on_device(context, units, checks);
        share(workers, &SHORT_SPANS, self.units, &|unit| self.on_host(unit), &on_device)
    }

    fn begin(&self, range: Range<usize>) -> Span<'_> {
        let (first, last) = (&self.units[range.start], &self.units[range.end - 1]);
        let chunks = first.chunks.start..last.chunks.end;
        let (column, array) = (first.column, &self.arrays[first.column]);
        let [start, end] = [chunks.start, chunks.end]
            .map(|chunk| array.len().min(chunk * self.options.chunk_rows));
        let values = self.units[range].iter().map(|unit| unit.bytes).sum();
        let bodies = &self.bodies[column];
        Span {
            field: &self.fields[column],
            array: array.slice(start, end - start),
            first: chunks.start,
            bodies,
            at_work: bodies.begin(chunks.start, chunks.len(), values),
        }
    }

    fn on_host(&self, unit: usize) -> Result<()> {
        if self.failed.is_set() {
            return Ok(()); // Nothing is made of it.
        }
        let span = self.begin(unit..unit + 1);
        let compress = || compress_field(span.field.clone(), &span.array, self.options);
        let column = match &self.threads {
            Some(threads) => threads.install(compress),
            None => on_pool_of_hosts(compress),
        };
        let column = column.map_err(|error| span.place(error))?;
        span.bodies.arrived(&span.at_work, column.into_chunks())
    }

    fn on_device<'s>(
        &'s self,
        context: &Arc<Context>,
        units: Range<usize>,
        checks: &Scope<'s>,
    ) -> Result<()> {
        if self.failed.is_set() {
            return Ok(());
        }
        let first = units.start;
        let span = self.begin(units);
        let compress = || compress_to_device(context, span.field, &span.array, self.options);
        let column = match &self.threads {
            Some(threads) => threads.install(compress),
            None => compress(),
        };
        let column = column.map_err(|error| span.place(error))?;
        let len = column.placed().len();
        let piece = span.bodies.place(&span.at_work, len);
        let is_in_place = piece.is_some();
        let piece = piece.unwrap_or_else(|| ResultMemory::new(context.pool(), len).all());
        let written = column.placed().download_to(context, piece);
        let written = written.map_err(|error| span.place(error))?;
        // The device's memory is free for others.
        let chunks = column.into_chunks();
        checks.spawn(move |_| {
            let buffer = WrittenPiece::to_buffer(&written);
            let chunks = on_host(&chunks, &buffer, |_| span.field);
            let done = chunks.and_then(|chunks| match is_in_place {
                true => span.bodies.placed(&span.at_work, chunks, written),
                false => span.bodies.arrived(&span.at_work, chunks),
            });
            if let Err(error) = done {
                self.failed.set(first, span.place(error));
            }
        });
        Ok(())
    }
}

/// What an array is cut into: chunks of at least so many bytes; of strings those that share a symbol
/// table, which are planned together.
fn units_of(column: usize, array: &ArrayRef, options: &Options, least: usize) -> Vec<Unit> {
    let data_type = array.data_type();
    let (rows, chunks) = (array.len(), array.len().div_ceil(options.chunk_rows));
    let has_symbols = physical_of(data_type) == Physical::Bytes;
    let fits = match (uses_device(data_type), has_symbols) {
        (false, _) => Fits::Host,
        (true, true) => Fits::Alone,
        (true, false) => Fits::Any,
    };
    if has_symbols {
        let unit = |chunks: Range<usize>| {
            let start = chunks.start * options.chunk_rows;
            let end = rows.min(chunks.end * options.chunk_rows);
            let bytes = array_bytes(&array.slice(start, end - start));
            Unit { column, chunks, bytes, fits }
        };
        return options.groups(chunks).into_iter().map(unit).collect();
    }
    // Leaves of nested columns are encoded together: a device gains with more of them.
    let least = if encodes_on_device(data_type) { least } else { 4 * least };
    let of_chunk = (array_bytes(array) / chunks.max(1)).max(1);
    let each = least.div_ceil(of_chunk);
    let unit = |first: usize| {
        let chunks = first..chunks.min(first + each);
        Unit { column, bytes: of_chunk * chunks.len(), chunks, fits }
    };
    (0..chunks).step_by(each).map(unit).collect()
}
