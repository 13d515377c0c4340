//! Arrays of strings and binary values: offsets or views, and the one check of
//! UTF-8 that lets them be built without Arrow's own.
//!
//! Each part decodes, is checked and gets its offsets or views while it is in
//! cache, on its own thread. Views are written straight from lengths and bytes:
//! going through an array of offsets and Arrow's conversion took a third of
//! the time of decompressing TPC-H's lineitem.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    ArrayRef, BinaryViewArray, GenericBinaryArray, GenericStringArray, OffsetSizeTrait,
    StringViewArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;
use rayon::prelude::*;

use super::parts::{self, Part, each_part, split};
use crate::encoding::{self, Output};
use crate::error::{Error, Result, ensure};
use crate::memory::{advise_huge_pages, zeros};

/// Longest value that a view holds itself.
const INLINE: u32 = 12;
/// Bytes of a view, and behind a chunk's values, so that one load takes any
/// value that a view can hold.
const VIEW: usize = size_of::<u128>();

/// Decodes parts of byte strings, from the start of a vector to the end of one, to an array of any of their types.
pub(super) fn array(
    parts: &[Part<'_>],
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    match data_type {
        DataType::Utf8 | DataType::Binary => offset_array::<i32>(parts, data_type, nulls),
        DataType::Utf8View | DataType::BinaryView => view_array(parts, data_type, nulls),
        _ => offset_array::<i64>(parts, data_type, nulls),
    }
}

fn too_large<O: OffsetSizeTrait>(total: usize, data_type: &DataType) -> Error {
    Error::too_large(format!(
        "{total} bytes of values, {data_type} holds {}; decompress fewer chunks at a time",
        O::MAX_OFFSET
    ))
}

/// One value as an array of one row.
pub(crate) fn one(value: Vec<u8>, data_type: &DataType) -> Result<ArrayRef> {
    if is_text(data_type) {
        check_text(&value, [value.len()])?;
    }
    let len = value.len();
    match (data_type, i32::try_from(len)) {
        (DataType::Utf8 | DataType::Binary, Ok(len)) => {
            with_offsets(data_type, None, vec![0, len], value)
        }
        (DataType::Utf8 | DataType::Binary, Err(_)) => {
            Err(Error::too_large(format!("a value of {len} bytes in {data_type}")))
        }
        _ => with_offsets(data_type, None, vec![0, len as i64], value),
    }
}

/// Whether values of a type must be UTF-8.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Checks that values of these lengths, which add up to no more than the bytes,
/// are UTF-8 each.
fn check_text(bytes: &[u8], lengths: impl IntoIterator<Item = usize>) -> Result<()> {
    if bytes.is_ascii() {
        return Ok(());
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Error::corrupt(format!("text that is not UTF-8: {error}")))?;
    let mut start = 0;
    for length in lengths {
        start += length;
        ensure!(text.is_char_boundary(start), "a text that ends inside a character");
    }
    Ok(())
}

/// Decodes a part's values to `bytes`, which they fill: their lengths.
fn decode(part: &Part<'_>, data_type: &DataType, bytes: &mut [u8]) -> Result<Vec<u32>> {
    let mut lengths = vec![0; part.rows.len()];
    encoding::decode(part.node, part.rows.clone(), Output::Bytes(&mut lengths, bytes))?;
    // What the arrays below rely on; each vector has been compared, too.
    let sum: usize = lengths.iter().map(|length| *length as usize).sum();
    ensure!(sum == bytes.len(), "lengths of values add up to {sum}, {} expected", bytes.len());
    if is_text(data_type) {
        check_text(bytes, lengths.iter().map(|length| *length as usize))?;
    }
    Ok(lengths)
}

/// An array with offsets of `O`, which must hold the total length.
fn offset_array<O: OffsetSizeTrait>(
    parts: &[Part<'_>],
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let totals: Vec<usize> = parts.iter().map(Part::value_bytes).collect::<Result<_>>()?;
    let total = (totals.iter()).try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes));
    let total = total.ok_or_else(|| Error::corrupt("values of more bytes than an address"))?;
    if O::from_usize(total).is_none() {
        return Err(too_large::<O>(total, data_type));
    }
    let mut values: Vec<u8> = zeros(total);
    let mut offsets = vec![O::default(); parts::rows(parts) + 1];
    advise_huge_pages(offsets.as_ptr().cast(), size_of_val(offsets.as_slice()));
    fill(
        parts,
        data_type,
        &totals,
        Share { values: &mut values, offsets: &mut offsets, start: 0 },
    )?;
    with_offsets(data_type, nulls, offsets, values)
}

/// Decodes whole parts to where they belong in an array: `offsets` are those at which its strings
/// begin, and perhaps the one behind the last; `start` counts the bytes of values before.
pub(super) fn decode_to(
    parts: &[Part<'_>],
    data_type: &DataType,
    offsets: &mut [u8],
    values: &mut [u8],
    start: usize,
) -> Result<()> {
    fn of<O: OffsetSizeTrait + bytemuck::Pod>(
        parts: &[Part<'_>],
        data_type: &DataType,
        offsets: &mut [u8],
        values: &mut [u8],
        start: usize,
    ) -> Result<()> {
        let offsets = bytemuck::try_cast_slice_mut(offsets)
            .map_err(|error| Error::corrupt(format!("memory for offsets: {error}")))?;
        let end = start + values.len();
        if O::from_usize(end).is_none() {
            return Err(too_large::<O>(end, data_type));
        }
        let lengths: Vec<usize> = parts.iter().map(Part::value_bytes).collect::<Result<_>>()?;
        fill(parts, data_type, &lengths, Share::<O> { values, offsets, start })
    }
    match data_type {
        DataType::Utf8 | DataType::Binary => of::<i32>(parts, data_type, offsets, values, start),
        _ => of::<i64>(parts, data_type, offsets, values, start),
    }
}

/// Decodes parts, whose values have these lengths, each to its share; an offset more than rows is
/// where the last value ends, which `O` holds.
fn fill<O: OffsetSizeTrait>(
    parts: &[Part<'_>],
    data_type: &DataType,
    lengths: &[usize],
    Share { values, offsets, mut start }: Share<'_, O>,
) -> Result<()> {
    let (rows, end) = (parts::rows(parts), start + values.len());
    ensure!(
        offsets.len() == rows || offsets.len() == rows + 1,
        "{} offsets of {rows} rows",
        offsets.len()
    );
    let (of_rows, behind) = offsets.split_at_mut(rows);
    let shares = split(values, lengths.iter().copied())
        .into_iter()
        .zip(split(of_rows, parts.iter().map(|part| part.rows.len())))
        .zip(lengths)
        .map(|((values, offsets), len)| {
            start += len;
            Share { values, offsets, start: start - len }
        })
        .collect();
    each_part(parts, shares, |part, Share { values, offsets, start }| {
        let mut next = start;
        for (offset, length) in offsets.iter_mut().zip(decode(part, data_type, values)?) {
            *offset = O::usize_as(next);
            next += length as usize;
        }
        Ok(())
    })?;
    behind.fill(O::usize_as(end));
    Ok(())
}

/// Where values go: of one part, or of several.
struct Share<'a, O> {
    values: &'a mut [u8],
    offsets: &'a mut [O],
    /// Offset of its first value.
    start: usize,
}

/// Puts checked values together. `offsets` begin at 0, never fall and end at the
/// number of values' bytes; values of text types have passed [`check_text`].
fn with_offsets<O: OffsetSizeTrait>(
    data_type: &DataType,
    nulls: Option<NullBuffer>,
    offsets: Vec<O>,
    values: Vec<u8>,
) -> Result<ArrayRef> {
    if let DataType::FixedSizeBinary(width) = data_type {
        return fixed_size(*width, nulls, &offsets, values);
    }
    // SAFETY: the offsets begin at 0 and never fall: `fill` sums lengths up.
    let offsets = unsafe { OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets)) };
    let values = Buffer::from_vec(values);
    Ok(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => {
            // SAFETY: `decode` and `one` have checked that the values are UTF-8 each, and
            // that the offsets end with them; `nulls` has a bit for every row.
            Arc::new(unsafe { GenericStringArray::<O>::new_unchecked(offsets, values, nulls) })
        }
        DataType::Utf8View => {
            // SAFETY: as above.
            let array = unsafe { GenericStringArray::<O>::new_unchecked(offsets, values, nulls) };
            let array: ArrayRef = Arc::new(array);
            Arc::new(StringViewArray::from(array.as_string::<i64>()))
        }
        DataType::BinaryView => {
            let array: ArrayRef =
                Arc::new(GenericBinaryArray::<O>::try_new(offsets, values, nulls)?);
            Arc::new(BinaryViewArray::from(array.as_binary::<i64>()))
        }
        _ => Arc::new(GenericBinaryArray::<O>::try_new(offsets, values, nulls)?),
    })
}

/// An array of values of one width; slots that are null may come empty and leave
/// as zeros. The size has been checked with the column's type.
fn fixed_size<O: OffsetSizeTrait>(
    width: i32,
    nulls: Option<NullBuffer>,
    offsets: &[O],
    mut values: Vec<u8>,
) -> Result<ArrayRef> {
    let rows = offsets.len() - 1;
    let (data_type, width) = (DataType::FixedSizeBinary(width), width as usize);
    let ranges = || offsets.windows(2).map(|pair| pair[0].as_usize()..pair[1].as_usize());
    if ranges().any(|range| range.len() != width) {
        let mut out = vec![0; rows * width];
        for (row, range) in ranges().enumerate() {
            let absent = range.is_empty() && nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let len = range.len();
            ensure!(
                absent || len == width,
                "a value of {len} bytes in a column of {width} bytes each"
            );
            if !absent {
                out[row * width..][..width].copy_from_slice(&values[range]);
            }
        }
        values = out;
    }
    let values = Buffer::from_vec(values);
    let builder = ArrayDataBuilder::new(data_type).len(rows).nulls(nulls).add_buffer(values);
    Ok(make_array(builder.build()?))
}

/// An array of views, with a buffer for each part.
fn view_array(
    parts: &[Part<'_>],
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    // Views have offsets of 32 bits; parts beyond go the long way.
    let totals: Vec<usize> = parts.iter().map(Part::value_bytes).collect::<Result<_>>()?;
    if totals.iter().any(|total| u32::try_from(*total).is_err()) {
        return offset_array::<i64>(parts, data_type, nulls);
    }
    let mut views: Vec<u128> = zeros(parts::rows(parts));
    let shares = split(&mut views, parts.iter().map(|part| part.rows.len()));
    let buffers: Vec<Buffer> = (parts.par_iter().zip(totals).zip(shares).enumerate())
        .map(|(index, ((part, total), views))| {
            part_views(part, data_type, total, index as u32, views)
                .map_err(|error| error.in_chunk(part.chunk))
        })
        .collect::<Result<_>>()?;
    let views = ScalarBuffer::from(views);
    Ok(match data_type {
        // SAFETY: `part_views` has written every view: its length, and its bytes or
        // prefix, buffer and offset; ranges lie in the part's buffer and are UTF-8 by
        // `decode`. `nulls` has a bit for every row.
        DataType::Utf8View => {
            Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
        }
        // SAFETY: as above, but for UTF-8.
        _ => Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) }),
    })
}

/// Decodes one part, of `total` bytes, and writes its views; the buffer that they point into.
fn part_views(
    part: &Part<'_>,
    data_type: &DataType,
    total: usize,
    buffer: u32,
    views: &mut [u128],
) -> Result<Buffer> {
    let mut bytes: Vec<u8> = zeros(total + VIEW);
    let lengths = decode(part, data_type, &mut bytes[..total])?;
    let mut start = 0;
    let mut all_inline = true;
    for (view, length) in views.iter_mut().zip(lengths) {
        let window: &[u8; VIEW] = bytes[start..].first_chunk().expect("a view behind the values");
        let word = u128::from_le_bytes(*window);
        *view = if length <= INLINE {
            u128::from(length) | (word & ((1 << (8 * length)) - 1)) << 32
        } else {
            all_inline = false;
            let prefix = word & u128::from(u32::MAX);
            u128::from(length) | prefix << 32 | u128::from(buffer) << 64 | (start as u128) << 96
        };
        start += length as usize;
    }
    Ok(if all_inline { Buffer::from(&[]) } else { Buffer::from_vec(bytes) })
}
