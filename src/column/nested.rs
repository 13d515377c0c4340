//! Nested arrays: the children of all parts decoded as columns of their own, and put together.
//!
//! Rows below a null come back as nulls where an array inside could not be made otherwise:
//! what a null hides is not stored as it was, and fields that are not nullable may
//! have nulls only where their struct has. Flat values there are valid, of any value.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, RunEndIndexType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, OffsetSizeTrait, PrimitiveArray, downcast_integer,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field};
use rayon::prelude::*;

use super::build::{finish, nulls, values};
use super::parts::{self, Part};
use crate::chunk::NodeView;
use crate::encoding::{self, Output};
use crate::error::{Error, Result, ensure};

/// Decodes nodes of one nested encoding; see [`values`].
pub(super) fn array(
    parts: &[Part<'_>],
    data_type: &DataType,
    above: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(nulls(parts)?.as_ref(), above);
    let builder = ArrayDataBuilder::new(data_type.clone()).len(parts::rows(parts));
    let builder = match data_type {
        DataType::Struct(fields) => {
            let field = |(index, field): (usize, &Arc<Field>)| {
                child(parts, index, field.data_type(), nulls.as_ref())
            };
            let fields = fields.par_iter().enumerate().map(field).collect::<Result<_>>()?;
            builder.child_data(fields)
        }
        DataType::List(item) | DataType::Map(item, _) => {
            let lists = Lists::decode(parts, item)?;
            builder.add_buffer(lists.ends::<i32>(data_type)?).add_child_data(lists.elements)
        }
        DataType::LargeList(item) => {
            let lists = Lists::decode(parts, item)?;
            builder.add_buffer(lists.ends::<i64>(data_type)?).add_child_data(lists.elements)
        }
        DataType::ListView(item) => Lists::decode(parts, item)?.views::<i32>(builder, data_type)?,
        DataType::LargeListView(item) => {
            Lists::decode(parts, item)?.views::<i64>(builder, data_type)?
        }
        DataType::FixedSizeList(item, width) => {
            builder.add_child_data(fixed_elements(parts, item, *width as usize, nulls.as_ref())?)
        }
        DataType::Dictionary(keys, value) => return keyed(&parts[0], keys, value, nulls),
        DataType::RunEndEncoded(ends, value) => {
            let (ends, value) = runs(parts, ends.data_type(), value.data_type())?;
            return finish(builder.add_child_data(ends).add_child_data(value));
        }
        other => return Err(Error::corrupt(format!("nested values in a column of {other}"))),
    };
    finish(builder.nulls(nulls))
}

/// The same rows of child `index` of all parts.
fn child(
    parts: &[Part<'_>],
    index: usize,
    data_type: &DataType,
    above: Option<&NullBuffer>,
) -> Result<ArrayData> {
    let children: Vec<Part<'_>> =
        (parts.iter()).map(|part| part.below(part.node.child(index), part.rows.clone())).collect();
    Ok(values(&children, data_type, above)?.to_data())
}

/// The elements of fixed lists.
fn fixed_elements(
    parts: &[Part<'_>],
    item: &Field,
    width: usize,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayData> {
    // The child has as many times the rows: the type has been checked.
    let elements: Vec<Part<'_>> = (parts.iter())
        .map(|part| part.below(part.node.child(0), part.rows.start * width..part.rows.end * width))
        .collect();
    let above = nulls.map(|nulls| nulls.expand(width));
    Ok(values(&elements, item.data_type(), above.as_ref())?.to_data())
}

/// Lists of one length each and their elements.
struct Lists {
    lengths: Vec<Vec<u32>>,
    elements: ArrayData,
}

/// Decodes lengths up to the last row: those of its rows, and the sum of those before.
fn lengths_of(part: &Part<'_>) -> Result<(Vec<u32>, usize)> {
    let vectors = part.vectors();
    let mut lengths = vec![0; vectors.end];
    encoding::decode(part.node.child(0), 0..vectors.end, Output::W32(&mut lengths))?;
    lengths.truncate(part.rows.end);
    let before = sum(&lengths[..part.rows.start]);
    lengths.drain(..part.rows.start);
    Ok((lengths, before))
}

fn sum(lengths: &[u32]) -> usize {
    // Fewer than 2^32 of them.
    lengths.iter().map(|length| *length as usize).sum()
}

impl Lists {
    fn decode(parts: &[Part<'_>], item: &Field) -> Result<Self> {
        let decode = |part: &'_ Part<'_>| {
            let (lengths, before) = lengths_of(part)?;
            let (node, end) = (part.node.child(1), before.saturating_add(sum(&lengths)));
            ensure!(
                end == node.len() || (end < node.len() && !part.is_whole()),
                "lengths of lists add up to {end}, there are {} elements",
                node.len()
            );
            Ok((lengths, before..end))
        };
        let decoded: Vec<(Vec<u32>, Range<usize>)> = parts
            .par_iter()
            .map(|part| decode(part).map_err(|error: Error| error.in_chunk(part.chunk)))
            .collect::<Result<_>>()?;
        let (lengths, ranges): (Vec<_>, Vec<_>) = decoded.into_iter().unzip();
        let elements: Vec<Part<'_>> = (parts.iter().zip(ranges))
            .map(|(part, rows)| part.below(part.node.child(1), rows))
            .collect();
        let elements = values(&elements, item.data_type(), None)?.to_data();
        Ok(Self { lengths, elements })
    }

    /// The end of each list, behind a zero.
    fn ends<O: OffsetSizeTrait>(&self, data_type: &DataType) -> Result<Buffer> {
        if O::from_usize(self.elements.len()).is_none() {
            return Err(Error::too_large(format!(
                "{} elements of lists, {data_type} holds {}; decompress fewer chunks at a time",
                self.elements.len(),
                O::MAX_OFFSET
            )));
        }
        let mut end = 0;
        let ends = self.lengths.iter().flatten().map(|length| {
            end += *length as usize;
            O::usize_as(end)
        });
        let ends: Vec<O> = std::iter::once(O::default()).chain(ends).collect();
        Ok(Buffer::from_vec(ends))
    }

    /// Adds offsets, lengths and elements.
    fn views<O: OffsetSizeTrait>(
        self,
        builder: ArrayDataBuilder,
        data_type: &DataType,
    ) -> Result<ArrayDataBuilder> {
        let ends = self.ends::<O>(data_type)?;
        let starts = ends.slice_with_length(0, ends.len() - size_of::<O>());
        let lengths: Vec<O> =
            self.lengths.iter().flatten().map(|length| O::usize_as(*length as usize)).collect();
        Ok(builder
            .add_buffer(starts)
            .add_buffer(Buffer::from_vec(lengths))
            .add_child_data(self.elements))
    }
}

/// A dictionary array of one part.
fn keyed(
    part: &Part<'_>,
    key_type: &DataType,
    value_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fn of<K: ArrowDictionaryKeyType>(
        keys: &ArrayRef,
        nulls: Option<NullBuffer>,
        dictionary: ArrayRef,
    ) -> Result<ArrayRef> {
        let mut keys = keys.as_primitive::<K>().values().to_vec();
        // Keys of nulls may be any: who looks at them should not be led astray.
        for (row, key) in keys.iter_mut().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                *key = K::Native::default();
            }
        }
        let keys = PrimitiveArray::<K>::new(keys.into(), nulls);
        let array = DictionaryArray::try_new(keys, dictionary);
        Ok(Arc::new(array.map_err(|error| Error::corrupt(error.to_string()))?))
    }
    let [keys, dictionary] = [part.node.child(0), part.node.child(1)];
    let keys = values(&[part.below(keys, part.rows.clone())], key_type, None)?;
    let whole = part.below(dictionary, 0..dictionary.len());
    let dictionary = values(&[whole], value_type, None)?;
    macro_rules! of {
        ($key:ty) => {
            of::<$key>(&keys, nulls, dictionary)
        };
    }
    downcast_integer! {
        key_type => (of),
        _ => Err(Error::corrupt(format!("keys of {key_type}")))
    }
}

/// Ends and values of runs.
fn runs(
    parts: &[Part<'_>],
    end_type: &DataType,
    value_type: &DataType,
) -> Result<(ArrayData, ArrayData)> {
    let (mut ends, mut used) = (Vec::new(), Vec::new());
    let mut before = 0;
    for part in parts {
        let runs = run_ends_of(part.node).map_err(|error| error.in_chunk(part.chunk))?;
        // The runs with some of the rows.
        let first = runs.partition_point(|end| *end <= part.rows.start);
        let last = runs.partition_point(|end| *end < part.rows.end);
        let rows = &part.rows;
        ends.extend(runs[first..=last].iter().map(|end| before + end.min(&rows.end) - rows.start));
        used.push(part.below(part.node.child(1), first..last + 1));
        before += rows.len();
    }
    let ends = match end_type {
        DataType::Int16 => ends_of::<arrow_array::types::Int16Type>(&ends),
        DataType::Int32 => ends_of::<arrow_array::types::Int32Type>(&ends),
        _ => ends_of::<arrow_array::types::Int64Type>(&ends),
    };
    let ends = ends.ok_or_else(|| {
        Error::too_large(format!(
            "{before} rows whose runs end in {end_type}; decompress fewer chunks at a time"
        ))
    })?;
    Ok((ends, values(&used, value_type, None)?.to_data()))
}

/// The ends of all runs of a node, the last of which is its length.
fn run_ends_of(node: NodeView<'_>) -> Result<Vec<usize>> {
    let lengths = node.child(0);
    let lengths = encoding::decode_u32(lengths, 0..lengths.len())?;
    ensure!(!lengths.contains(&0), "a run without rows");
    let ends = lengths.iter().scan(0, |end, length| {
        *end += *length as usize;
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let end = ends.last().copied().unwrap_or(0);
    ensure!(end == node.len(), "lengths of runs add up to {end} rows, {} expected", node.len());
    Ok(ends)
}

/// Ends as an array, if they fit.
fn ends_of<R: RunEndIndexType>(ends: &[usize]) -> Option<ArrayData> {
    use arrow_buffer::ArrowNativeType;
    let fit = |end: &usize| R::Native::from_usize(*end);
    let ends: Vec<R::Native> = ends.iter().map(fit).collect::<Option<_>>()?;
    Some(PrimitiveArray::<R>::new(ends.into(), None).to_data())
}
