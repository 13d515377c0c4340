//! From chunks back to one Arrow array.
//!
//! The output is allocated once, from sizes that the headers declare and
//! validation has bounded; each chunk then decodes into its own part of it, on
//! its own thread.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, make_array, new_empty_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;
use rayon::prelude::*;

use super::parts::{each_chunk, split};
use super::source::physical_of;
use super::text;
use crate::chunk::Chunk;
use crate::encoding::{self, Output, Physical, Value};
use crate::error::{Error, Result, ensure};

/// Decodes all chunks to an array of `data_type`.
pub(super) fn array(chunks: &[Chunk], data_type: &DataType) -> Result<ArrayRef> {
    if chunks.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let physical = chunks[0].root().physical();
    if chunks.iter().any(|chunk| chunk.root().physical() == Physical::Arrow) {
        return arrow_array(chunks, data_type);
    }
    let rows = chunks.iter().map(Chunk::rows).sum();
    let nulls = nulls(chunks)?;
    let builder = ArrayDataBuilder::new(data_type.clone()).len(rows);
    let builder = match physical {
        Physical::Bool => builder.add_buffer(bits(chunks)?),
        Physical::Bytes => return text::array(chunks, data_type, nulls),
        _ => builder.add_buffer(match physical.bits() {
            Some(8) => words::<u8, _>(chunks, |out| Output::W8(out))?,
            Some(16) => words::<u16, _>(chunks, |out| Output::W16(out))?,
            Some(32) => words::<u32, _>(chunks, |out| Output::W32(out))?,
            Some(64) => words::<u64, _>(chunks, |out| Output::W64(out))?,
            // Arrow aligns both to 16 bytes.
            Some(128) => words::<i128, _>(chunks, |out| Output::W128(out))?,
            _ => words::<i128, _>(chunks, |out| Output::W256(out))?,
        }),
    };
    finish(builder.nulls(nulls))
}

/// Decodes the values of `rows` of a chunk, from the start of a vector to the end of one.
pub(crate) fn vectors(chunk: &Chunk, data_type: &DataType, rows: Range<usize>) -> Result<ArrayRef> {
    let root = chunk.root();
    if root.physical() == Physical::Arrow {
        return Ok(carried(chunk, data_type)?.slice(rows.start, rows.len()));
    }
    let nulls = match root.validity() {
        None => None,
        Some(validity) => {
            let mut bits = BooleanBufferBuilder::new(rows.len());
            encoding::decode(validity, rows.clone(), Output::Bits(&mut bits))?;
            Some(NullBuffer::new(bits.finish())).filter(|nulls| nulls.null_count() > 0)
        }
    };
    let builder = ArrayDataBuilder::new(data_type.clone()).len(rows.len());
    let builder = match root.physical() {
        Physical::Bool => {
            let mut bits = BooleanBufferBuilder::new(rows.len());
            encoding::decode(root, rows, Output::Bits(&mut bits))?;
            builder.add_buffer(bits.finish().into_inner())
        }
        Physical::Bytes => return text::vectors(root, data_type, rows, nulls),
        physical => {
            /// Decodes words to a buffer that is aligned for another type.
            macro_rules! words {
                ($output:ident, $aligned:ty) => {{
                    let bytes = rows.len() * physical.bits().unwrap_or(0) / 8;
                    let mut words = vec![<$aligned>::default(); bytes / size_of::<$aligned>()];
                    let out = Output::$output(bytemuck::cast_slice_mut(&mut words));
                    encoding::decode(root, rows, out)?;
                    builder.add_buffer(Buffer::from_vec(words))
                }};
            }
            match physical.bits() {
                Some(8) => words!(W8, u8),
                Some(16) => words!(W16, u16),
                Some(32) => words!(W32, u32),
                Some(64) => words!(W64, u64),
                Some(128) => words!(W128, i128),
                _ => words!(W256, i128),
            }
        }
    };
    finish(builder.nulls(nulls))
}

/// The values of a chunk that is carried as an Arrow array, of this type.
pub(crate) fn carried(chunk: &Chunk, data_type: &DataType) -> Result<ArrayRef> {
    let array = of_type(encoding::plain_array_of(chunk.root())?, data_type)?;
    check_nulls(chunk, array.logical_null_count())?;
    Ok(array)
}

/// One value as an array of one row.
pub(super) fn one(value: Value, data_type: &DataType) -> Result<ArrayRef> {
    let builder = ArrayDataBuilder::new(data_type.clone()).len(1);
    let width = physical_of(data_type).bits().unwrap_or(0).div_ceil(8);
    let builder = match value {
        Value::Arrow(array) => return of_type(array, data_type),
        Value::Bit(bit) => builder.add_buffer(Buffer::from_vec(vec![u8::from(bit)])),
        Value::Word(word) => builder.add_buffer(Buffer::from(&word.to_le_bytes()[..width])),
        Value::Wide(limbs) => {
            builder.add_buffer(Buffer::from(&bytemuck::bytes_of(&limbs)[..width]))
        }
        Value::Bytes(bytes) => return text::one(bytes, data_type),
    };
    finish(builder)
}

/// Decodes words of `W` into memory that is aligned for `A`.
fn words<A, W>(chunks: &[Chunk], output: fn(&mut [W]) -> Output<'_>) -> Result<Buffer>
where
    A: ArrowNativeType + bytemuck::Pod,
    W: bytemuck::Pod + Send,
{
    let rows: usize = chunks.iter().map(Chunk::rows).sum();
    let mut all = vec![A::zeroed(); rows * size_of::<W>() / size_of::<A>()];
    let parts = split(bytemuck::cast_slice_mut(&mut all), chunks.iter().map(Chunk::rows));
    each_chunk(chunks, parts, |chunk, part| {
        encoding::decode(chunk.root(), 0..chunk.rows(), output(part))
    })?;
    Ok(Buffer::from_vec(all))
}

fn bits(chunks: &[Chunk]) -> Result<Buffer> {
    let mut out = BooleanBufferBuilder::new(chunks.iter().map(Chunk::rows).sum());
    for (index, chunk) in chunks.iter().enumerate() {
        encoding::decode(chunk.root(), 0..chunk.rows(), Output::Bits(&mut out))
            .map_err(|error| error.in_chunk(index))?;
    }
    Ok(out.finish().into_inner())
}

fn nulls(chunks: &[Chunk]) -> Result<Option<NullBuffer>> {
    if chunks.iter().all(|chunk| chunk.null_count() == 0) {
        return Ok(None);
    }
    let rows = chunks.iter().map(Chunk::rows).sum();
    let mut out = BooleanBufferBuilder::new(rows);
    for (index, chunk) in chunks.iter().enumerate() {
        match chunk.root().validity() {
            None => out.append_n(chunk.rows(), true),
            Some(validity) => encoding::decode(validity, 0..chunk.rows(), Output::Bits(&mut out))
                .map_err(|error| error.in_chunk(index))?,
        }
    }
    let bits = out.finish();
    let mut start = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let valid = bits.slice(start, chunk.rows()).count_set_bits();
        check_nulls(chunk, chunk.rows() - valid).map_err(|error| error.in_chunk(index))?;
        start += chunk.rows();
    }
    Ok(Some(NullBuffer::new(bits)))
}

/// Compares the nulls found with those that a header states.
fn check_nulls(chunk: &Chunk, found: usize) -> Result<()> {
    let stated = chunk.null_count();
    ensure!(found == stated, "{found} nulls among the values, the header states {stated}");
    Ok(())
}

/// Builds an array; Arrow's checks of it (UTF-8 above all) are checks of what was decoded.
fn finish(builder: ArrayDataBuilder) -> Result<ArrayRef> {
    let data = builder.build().map_err(|error| Error::corrupt(error.to_string()))?;
    Ok(make_array(data))
}

/// Chunks that hold Arrow arrays (and, for strings of 2 GiB, others between them).
fn arrow_array(chunks: &[Chunk], data_type: &DataType) -> Result<ArrayRef> {
    let decode = |(index, chunk): (usize, &Chunk)| -> Result<ArrayRef> {
        let array = match chunk.root().physical() {
            Physical::Arrow => carried(chunk, data_type),
            _ => array(std::slice::from_ref(chunk), data_type),
        };
        array.map_err(|error: Error| error.in_chunk(index))
    };
    let arrays: Vec<ArrayRef> = chunks.par_iter().enumerate().map(decode).collect::<Result<_>>()?;
    concat(&arrays)
}

/// The array, if it is of this type.
fn of_type(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let found = array.data_type();
    ensure!(found == data_type, "an array of type {found} in a column of type {data_type}");
    Ok(array)
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
    crate::ipc::fenced(|| arrow_select::concat::concat(&parts))
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
