//! Compression of columns in host memory by the host and devices together.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::FieldRef;

use super::bodies::Bodies;
use super::{Fits, Shares, Unit, Workers, on_pool_of_hosts, share};
use crate::arrow_type;
use crate::column::{CompressedColumn, array_bytes, compress_field, physical_of};
use crate::device::Context;
use crate::encode::{encodes_on_device, uses_device};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::transfer;

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
    let threads = options.pool()?;
    let rows = |chunks: &Range<usize>, len: usize| {
        let [start, end] =
            [chunks.start, chunks.end].map(|chunk| len.min(chunk * options.chunk_rows));
        start..end
    };
    let pool = workers.devices.first().map(|context| context.pool());
    let bodies: Vec<Bodies<'_>> = (fields.iter().enumerate())
        .map(|(column, field)| {
            let of_column = units.iter().filter(|unit| unit.column == column);
            let values = of_column.map(|unit| unit.bytes).sum();
            let most = arrays[column].get_buffer_memory_size();
            Bodies::new(field, pool, values, most)
        })
        .collect();
    let work = |context: Option<&Arc<Context>>, range: Range<usize>| -> Result<()> {
        let (first, last) = (&units[range.start], &units[range.end - 1]);
        let (field, array) = (&fields[first.column], &arrays[first.column]);
        let numbers = first.chunks.start..last.chunks.end;
        let rows = rows(&numbers, array.len());
        let slice = array.slice(rows.start, rows.len());
        let compress = || match context {
            Some(context) => transfer::compress(context, field, &slice, options),
            None => compress_field(field.clone(), &slice, options),
        };
        // With a number of threads that was asked for all that the host computes is on these.
        let column = match (&threads, context) {
            (Some(threads), _) => threads.install(compress),
            (None, None) => on_pool_of_hosts(compress),
            (None, Some(_)) => compress(),
        };
        let place = |error: Error| error.after_chunks(first.chunks.start).in_column(field.name());
        let chunks = column.map_err(place)?.into_chunks();
        let values = units[range].iter().map(|unit| unit.bytes).sum();
        bodies[first.column].arrived(numbers.start, values, chunks)
    };
    let (_, shares) =
        share(workers, &units, &|unit| work(None, unit..unit + 1), &|context, units| {
            work(Some(context), units)
        })?;
    Ok((bodies.into_iter().map(Bodies::finish).collect::<Result<_>>()?, shares))
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
