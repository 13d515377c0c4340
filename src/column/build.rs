//! From chunks back to one Arrow array.
//!
//! The output is allocated once, from sizes that the headers declare and
//! validation has bounded; each chunk then decodes into its own part of it, on
//! its own thread. So do the leaves of nested arrays: theirs are the same nodes in
//! every chunk (`nested`).

use std::ops::Range;

use arrow_array::{Array, ArrayRef, make_array, new_empty_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;
use rayon::prelude::*;

use super::parts::{self, Part, each_part, split};
use super::{memory, nested, text};
use crate::chunk::{Chunk, NodeView};
use crate::encoding::source::physical_of;
use crate::encoding::{self, Encoding, Output, Physical, Value};
use crate::error::{Error, Result, ensure};
use crate::memory::zeros;

/// Decodes all chunks to an array of `data_type`.
pub(super) fn array(chunks: &[Chunk], data_type: &DataType) -> Result<ArrayRef> {
    let parts = chunks.iter().enumerate().map(|chunk| Part::of_chunk(chunk).decompressed());
    let parts: Vec<Part<'_>> = parts.collect();
    let array = values(&parts, data_type, None)?;
    let mut start = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let is_flat = chunk.root().physical() != Physical::Arrow;
        // Flat ones without nulls have no bitmap.
        if chunk.null_count() > 0 || !is_flat {
            let found = array.slice(start, chunk.rows()).logical_null_count();
            check_nulls(chunk, found).map_err(|error| error.in_chunk(index))?;
        }
        start += chunk.rows();
    }
    Ok(array)
}

/// Decodes the values of some rows of a chunk.
pub(crate) fn rows_of(chunk: &Chunk, data_type: &DataType, rows: Range<usize>) -> Result<ArrayRef> {
    values(&[Part { rows, ..Part::of_chunk((0, chunk)) }], data_type, None)
}

/// Decodes all values of a chunk.
pub(crate) fn whole(chunk: &Chunk, data_type: &DataType) -> Result<ArrayRef> {
    memory::check_chunk(chunk, data_type)?;
    array(std::slice::from_ref(chunk), data_type)
}

/// The logical nulls of a chunk of Arrow arrays.
pub(crate) fn logical_nulls(chunk: &Chunk, data_type: &DataType) -> Result<Option<NullBuffer>> {
    let root = chunk.root();
    match root.encoding() {
        Encoding::Struct | Encoding::List | Encoding::FixedList => {
            let nulls = nulls(&[Part::of_chunk((0, chunk))])?;
            check_nulls(chunk, nulls.as_ref().map_or(0, NullBuffer::null_count))?;
            Ok(nulls)
        }
        _ => Ok(whole(chunk, data_type)?.logical_nulls()),
    }
}

/// Decodes values of one type: several nodes as a whole, or rows of one. Rows that are null
/// in `above` are below a null.
pub(super) fn values(
    parts: &[Part<'_>],
    data_type: &DataType,
    above: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let parts: Vec<Part<'_>> = parts.iter().filter(|part| !part.rows.is_empty()).cloned().collect();
    let Some(first) = parts.first() else { return Ok(new_empty_array(data_type)) };
    let kind = |node: NodeView<'_>| match node.physical() {
        Physical::Arrow => (Physical::Arrow, Some(node.encoding())),
        physical => (physical, None),
    };
    let is_alone =
        |kind| matches!(kind, (_, Some(Encoding::Plain | Encoding::Lz | Encoding::Keys)));
    let first_kind = kind(first.node);
    let alike = parts.iter().all(|part| kind(part.node) == first_kind && part.is_whole());
    if parts.len() > 1 && (!alike || is_alone(first_kind)) {
        return separately(&parts, data_type, above);
    }
    match first_kind {
        (Physical::Arrow, Some(Encoding::Plain | Encoding::Lz)) => carried(first, data_type, above),
        (Physical::Arrow, _) => nested::array(&parts, data_type, above),
        _ => flat(&parts, data_type),
    }
    .map_err(|error| if parts.len() == 1 { error.in_chunk(first.chunk) } else { error })
}

/// Decodes parts that have nothing in common, and puts the arrays together.
fn separately(
    parts: &[Part<'_>],
    data_type: &DataType,
    above: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let starts = parts
        .iter()
        .scan(0, |start, part| Some(std::mem::replace(start, *start + part.rows.len())));
    let parts: Vec<(&Part<'_>, usize)> = parts.iter().zip(starts).collect();
    let decode = |(part, start): &(&Part<'_>, usize)| {
        let above = above.map(|nulls| nulls.slice(*start, part.rows.len()));
        values(std::slice::from_ref(*part), data_type, above.as_ref())
    };
    let arrays: Vec<ArrayRef> = parts.par_iter().map(decode).collect::<Result<_>>()?;
    concat(&arrays)
}

/// Decodes values of a type with an encoding of its own.
fn flat(parts: &[Part<'_>], data_type: &DataType) -> Result<ArrayRef> {
    if let [part] = parts
        && part.vectors() != part.rows
    {
        let whole = part.below(part.node, part.vectors());
        let skipped = part.rows.start - whole.rows.start;
        return Ok(flat(&[whole], data_type)?.slice(skipped, part.rows.len()));
    }
    let physical = parts[0].node.physical();
    let nulls = nulls(parts)?;
    let builder = ArrayDataBuilder::new(data_type.clone()).len(parts::rows(parts));
    let builder = match physical {
        Physical::Bool => builder.add_buffer(bits(parts, |part| part.node)?.into_inner()),
        Physical::Bytes => return text::array(parts, data_type, nulls),
        _ => builder.add_buffer(match physical.bits() {
            Some(8) => words::<u8, _>(parts, |out| Output::W8(out))?,
            Some(16) => words::<u16, _>(parts, |out| Output::W16(out))?,
            Some(32) => words::<u32, _>(parts, |out| Output::W32(out))?,
            Some(64) => words::<u64, _>(parts, |out| Output::W64(out))?,
            // Arrow aligns both to 16 bytes.
            Some(128) => words::<i128, _>(parts, |out| Output::W128(out))?,
            _ => words::<i128, _>(parts, |out| Output::W256(out))?,
        }),
    };
    finish(builder.nulls(nulls))
}

/// Rows of an array that is carried as Arrow IPC.
fn carried(part: &Part<'_>, data_type: &DataType, above: Option<&NullBuffer>) -> Result<ArrayRef> {
    let array = encoding::carried_array(part.node)?;
    let found = array.data_type();
    ensure!(found == data_type, "an array of type {found} in a column of type {data_type}");
    let array = array.slice(part.rows.start, part.rows.len());
    let has_bitmap =
        !matches!(data_type, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..));
    match above {
        Some(above) if has_bitmap => {
            let nulls = NullBuffer::union(array.nulls(), Some(above));
            finish(array.to_data().into_builder().nulls(nulls))
        }
        _ => Ok(array),
    }
}

/// One value as an array of one row.
pub(super) fn one(value: Value, data_type: &DataType) -> Result<ArrayRef> {
    let builder = ArrayDataBuilder::new(data_type.clone()).len(1);
    let width = physical_of(data_type).bits().unwrap_or(0).div_ceil(8);
    let builder = match value {
        Value::Bit(bit) => builder.add_buffer(Buffer::from_vec(vec![u8::from(bit)])),
        Value::Word(word) => builder.add_buffer(Buffer::from(&word.to_le_bytes()[..width])),
        Value::Wide(words) => {
            builder.add_buffer(Buffer::from(&bytemuck::bytes_of(&words)[..width]))
        }
        Value::Bytes(bytes) => return text::one(bytes, data_type),
    };
    finish(builder)
}

/// Decodes chunks to where their rows belong in the buffers of an array: values, or the offsets at
/// which strings begin and their bytes. Every byte of `buffers` and of `validity`, 0 at first, is
/// written, if this does not fail.
///
/// The first buffer has an offset more than rows if these are the last ones of the array. `start`
/// counts the bytes of strings before. Without `validity` there are no nulls.
pub(crate) fn decode_to(
    chunks: &[Chunk],
    data_type: &DataType,
    buffers: &mut [&mut [u8]],
    validity: Option<&mut [u8]>,
    start: usize,
) -> Result<()> {
    let parts = chunks.iter().enumerate().map(|chunk| Part::of_chunk(chunk).decompressed());
    let parts: Vec<Part<'_>> = parts.collect();
    match (physical_of(data_type), buffers) {
        (Physical::Bytes, [offsets, bytes]) => {
            text::decode_to(&parts, data_type, offsets, bytes, start)?;
        }
        (Physical::Bool, [out]) => copy_bits(bits(&parts, |part| part.node)?, out)?,
        (physical, [out]) => match physical.bits() {
            Some(8) => words_to::<u8>(&parts, out, |out| Output::W8(out))?,
            Some(16) => words_to::<u16>(&parts, out, |out| Output::W16(out))?,
            Some(32) => words_to::<u32>(&parts, out, |out| Output::W32(out))?,
            Some(64) => words_to::<u64>(&parts, out, |out| Output::W64(out))?,
            Some(128) => words_to::<[u64; 2]>(&parts, out, |out| Output::W128(out))?,
            _ => words_to::<[u64; 4]>(&parts, out, |out| Output::W256(out))?,
        },
        (_, buffers) => {
            let what = format!("{} buffers of values of {data_type}", buffers.len());
            return Err(Error::corrupt(what));
        }
    }
    let Some(out) = validity else { return Ok(()) };
    let nulls = nulls(&parts)?;
    let mut start = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let of_chunk = |nulls: &NullBuffer| nulls.slice(start, chunk.rows()).null_count();
        let found = nulls.as_ref().map_or(0, of_chunk);
        check_nulls(chunk, found).map_err(|error| error.in_chunk(index))?;
        start += chunk.rows();
    }
    match nulls {
        Some(nulls) => copy_bits(nulls.into_inner(), out),
        None => {
            out.fill(0xff);
            Ok(())
        }
    }
}

/// Copies bits to a buffer of as many bytes as they need.
fn copy_bits(bits: BooleanBuffer, out: &mut [u8]) -> Result<()> {
    let bytes = bits.sliced();
    let bytes = bytes.get(..out.len()).ok_or_else(|| Error::corrupt("fewer bits than rows"))?;
    out.copy_from_slice(bytes);
    Ok(())
}

/// Decodes words of `W` to the bytes that they fill.
fn words_to<W: bytemuck::Pod + Send>(
    parts: &[Part<'_>],
    out: &mut [u8],
    output: fn(&mut [W]) -> Output<'_>,
) -> Result<()> {
    let out = bytemuck::try_cast_slice_mut(out)
        .map_err(|error| Error::corrupt(format!("memory for values: {error}")))?;
    let shares = split(out, parts.iter().map(|part| part.rows.len()));
    each_part(parts, shares, |part, share| {
        encoding::decode(part.node, part.rows.clone(), output(share))
    })
}

/// Decodes words of `W` into memory that is aligned for `A`.
fn words<A, W>(parts: &[Part<'_>], output: fn(&mut [W]) -> Output<'_>) -> Result<Buffer>
where
    A: ArrowNativeType + bytemuck::Pod,
    W: bytemuck::Pod + Send,
{
    let mut all: Vec<A> = zeros(parts::rows(parts) * size_of::<W>() / size_of::<A>());
    let shares = split(bytemuck::cast_slice_mut(&mut all), parts.iter().map(|p| p.rows.len()));
    each_part(parts, shares, |part, share| {
        encoding::decode(part.node, part.rows.clone(), output(share))
    })?;
    Ok(Buffer::from_vec(all))
}

/// Decodes the bits of one node of each part.
fn bits<'a>(parts: &[Part<'a>], node: impl Fn(&Part<'a>) -> NodeView<'a>) -> Result<BooleanBuffer> {
    let mut out = BooleanBufferBuilder::new(parts::rows(parts));
    for part in parts {
        encoding::decode(node(part), part.vectors(), Output::Bits(&mut out))
            .map_err(|error| error.in_chunk(part.chunk))?;
    }
    let skipped = parts.first().map_or(0, |part| part.rows.start - part.vectors().start);
    Ok(out.finish().slice(skipped, parts::rows(parts)))
}

/// The nulls of the parts' own bitmaps, if there are any.
pub(super) fn nulls(parts: &[Part<'_>]) -> Result<Option<NullBuffer>> {
    if parts.iter().all(|part| part.node.validity().is_none()) {
        return Ok(None);
    }
    let mut out = BooleanBufferBuilder::new(parts::rows(parts));
    for part in parts {
        match part.node.validity() {
            None => out.append_n(part.rows.len(), true),
            Some(validity) => {
                out.append_buffer(&bits(std::slice::from_ref(part), |_| validity)?);
            }
        }
    }
    Ok(Some(NullBuffer::new(out.finish())).filter(|nulls| nulls.null_count() > 0))
}

/// Compares the nulls found with those that a header states.
fn check_nulls(chunk: &Chunk, found: usize) -> Result<()> {
    let stated = chunk.null_count();
    ensure!(found == stated, "{found} nulls among the values, the header states {stated}");
    Ok(())
}

/// Builds an array; Arrow's checks of it (UTF-8 above all) are checks of what was decoded.
pub(super) fn finish(builder: ArrayDataBuilder) -> Result<ArrayRef> {
    let data = builder.build().map_err(|error| Error::corrupt(error.to_string()))?;
    Ok(make_array(data))
}

/// One array of all parts, of which there is at least one.
pub(crate) fn concat(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [first, rest @ ..] = arrays else {
        return Err(Error::corrupt("a column without chunks"));
    };
    if rest.is_empty() {
        return Ok(first.clone());
    }
    let first = first.to_data();
    let shared = rest
        .iter()
        .map(|part| Ok(make_array(with_dictionaries_of(&first, part.to_data())?)))
        .collect::<Result<Vec<_>>>()?;
    let first = make_array(first);
    let parts: Vec<&dyn Array> =
        std::iter::once(&first).chain(&shared).map(AsRef::as_ref).collect();
    crate::fence::fenced(|| arrow_select::concat::concat(&parts))
}

/// `part` with every dictionary that equals the one in the same place of `first`
/// being that one, in memory: so concatenation keeps it, in its order, rather
/// than merge or repeat it.
fn with_dictionaries_of(first: &ArrayData, part: ArrayData) -> Result<ArrayData> {
    let is_dictionary = matches!(part.data_type(), DataType::Dictionary(..));
    let children = (part.child_data().iter().zip(first.child_data()))
        .map(|(part, first)| {
            if is_dictionary && part == first {
                Ok(first.clone())
            } else {
                with_dictionaries_of(first, part.clone())
            }
        })
        .collect::<Result<Vec<_>>>()?;
    if children.is_empty() {
        return Ok(part);
    }
    Ok(part.into_builder().child_data(children).build()?)
}
