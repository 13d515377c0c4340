//! Least and greatest valid value of a chunk, for pruning without decoding.
//!
//! The order is that of Arrow's compute kernels: floats in IEEE 754 total
//! order (-0.0 before 0.0, NaN last), strings and binary values bytewise. Byte
//! strings are cut to bounds of at most 64 bytes: a prefix is a lower bound,
//! and an upper bound is a prefix with its last character or byte increased;
//! where none can be increased there is no upper bound.

use crate::checksum::xxh3_64;
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BinaryArray, BooleanArray,
    GenericByteArray, GenericByteViewArray, PrimitiveArray, StringArray, downcast_primitive_array,
    make_array, new_null_array,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use std::sync::Arc;

use crate::lanes::simd::multiversion;

/// Longest bound of a byte string, in bytes.
const MAX_BOUND: usize = 64;

/// Arrays of one value each, null where there is no bound.
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    pub min: ArrayRef,
    pub max: ArrayRef,
}

impl Statistics {
    /// The type of the bounds of a column: its own for fixed-width types with an
    /// order, Utf8 and Binary for the kinds of strings, Null for all else.
    pub fn data_type(column: &DataType) -> DataType {
        match column {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => DataType::Binary,
            DataType::Interval(_) => DataType::Null,
            other if other.is_primitive() || *other == DataType::Boolean => other.clone(),
            _ => DataType::Null,
        }
    }

    /// No bounds, for a column of this type.
    pub fn none(column: &DataType) -> Self {
        let none = new_null_array(&Self::data_type(column), 1);
        Self { min: none.clone(), max: none }
    }

    /// The bounds of a column of values of up to 64 N bits, given as words, the lowest first.
    pub fn of_words<const N: usize>(column: &DataType, bounds: Option<[[u64; N]; 2]>) -> Self {
        let data_type = Self::data_type(column);
        let (Some(bounds), Some(width)) = (bounds, data_type.primitive_width()) else {
            return Self::none(column);
        };
        let one = |words: [u64; N]| {
            let bytes = Buffer::from_slice_ref(&bytemuck::bytes_of(&words)[..width]);
            let values = ArrayData::builder(data_type.clone()).len(1).add_buffer(bytes).build();
            values.map_or_else(|_| new_null_array(&data_type, 1), make_array)
        };
        Self { min: one(bounds[0]), max: one(bounds[1]) }
    }

    /// The bounds of a column of strings, from the first bytes of the least and the
    /// greatest: all of them, or more than a bound has by a character.
    pub fn of_strings(column: &DataType, bounds: Option<[&[u8]; 2]>) -> Self {
        let Some([min, max]) = bounds else { return Self::none(column) };
        let both = match Self::data_type(column) {
            DataType::Utf8 => {
                // A character that was cut off is no part of a bound.
                let whole = |bytes: &'_ [u8]| match std::str::from_utf8(bytes) {
                    Err(error) if error.error_len().is_none() => error.valid_up_to(),
                    _ => bytes.len(),
                };
                strings(Some((&min[..whole(min)], &max[..whole(max)])))
            }
            _ => binaries(Some((min, max))),
        };
        both.map_or_else(|| Self::none(column), |(min, max)| Self { min, max })
    }

    /// The bounds of booleans, `valid` of them valid and `set` of these true.
    pub fn of_counts(valid: usize, set: usize) -> Self {
        let bound = |value: bool| Arc::new(BooleanArray::from(vec![value])) as ArrayRef;
        if valid == 0 {
            return Self::none(&DataType::Boolean);
        }
        Self { min: bound(set == valid), max: bound(set > 0) }
    }

    /// Whether there is a bound.
    pub fn has_any(&self) -> bool {
        [&self.min, &self.max].into_iter().any(exists)
    }

    /// XXH3-64 of both bounds, the lower one first: of each a byte, 1 if there is a bound, and then
    /// its bytes: the value of a fixed width, booleans as a byte, or the length of a string as a u32
    /// and the string.
    pub fn checksum(&self) -> u64 {
        let mut bytes = Vec::with_capacity(2 * (1 + size_of::<u32>() + MAX_BOUND));
        for bound in [&self.min, &self.max] {
            match exists(bound) {
                true => {
                    bytes.push(1);
                    push_value(bound, &mut bytes);
                }
                false => bytes.push(0),
            }
        }
        xxh3_64(&bytes)
    }

    /// The bounds of an array.
    pub fn of(array: &ArrayRef) -> Self {
        let bounds: Option<(ArrayRef, ArrayRef)> = match array.data_type() {
            DataType::Interval(_) => None,
            DataType::Boolean => bounds_of_booleans(array.as_boolean()),
            DataType::Utf8 => strings(bounds_of_bytes(array.as_string::<i32>())),
            DataType::LargeUtf8 => strings(bounds_of_bytes(array.as_string::<i64>())),
            DataType::Utf8View => strings(bounds_of_views(array.as_string_view())),
            DataType::Binary => binaries(bounds_of_bytes(array.as_binary::<i32>())),
            DataType::LargeBinary => binaries(bounds_of_bytes(array.as_binary::<i64>())),
            DataType::BinaryView => binaries(bounds_of_views(array.as_binary_view())),
            DataType::FixedSizeBinary(_) => {
                binaries(bounds_of(array.as_fixed_size_binary().iter()))
            }
            _ => downcast_primitive_array!(
                array => bounds_of_words(array),
                _ => None
            ),
        };
        match bounds {
            Some((min, max)) => Self { min, max },
            None => Self::none(array.data_type()),
        }
    }
}

fn exists(bound: &ArrayRef) -> bool {
    bound.is_valid(0) && *bound.data_type() != DataType::Null
}

/// Appends the bytes of a bound that there is.
fn push_value(bound: &ArrayRef, bytes: &mut Vec<u8>) {
    let mut push_string = |value: &[u8]| {
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(value);
    };
    match bound.data_type() {
        DataType::Boolean => bytes.push(bound.as_boolean().value(0).into()),
        DataType::Utf8 => push_string(bound.as_string::<i32>().value(0).as_bytes()),
        DataType::Binary => push_string(bound.as_binary::<i32>().value(0)),
        _ => {
            let data = bound.to_data();
            let width = bound.data_type().primitive_width().unwrap_or(0);
            bytes.extend(&data.buffers()[0][data.offset() * width..][..width]);
        }
    }
}

fn bounds_of_words<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
) -> Option<(ArrayRef, ArrayRef)> {
    let least = |a: T::Native, b: T::Native| if b.is_lt(a) { b } else { a };
    let greatest = |a: T::Native, b: T::Native| if b.is_gt(a) { b } else { a };
    let (min, max) = if array.null_count() == 0 {
        bounds_of_all::<T>(array.values())?
    } else {
        let mut valid = array.iter().flatten();
        let first = valid.next()?;
        valid.fold((first, first), |(min, max), value| (least(min, value), greatest(max, value)))
    };
    let data_type = array.data_type().clone();
    let bound = |value| {
        let array = PrimitiveArray::<T>::from_value(value, 1);
        Arc::new(array.with_data_type(data_type.clone())) as ArrayRef
    };
    Some((bound(min), bound(max)))
}

multiversion! {
    /// Least and greatest, in the order of comparisons of Arrow.
    fn bounds_of_all<T: ArrowPrimitiveType>(values: &[T::Native]) -> Option<(T::Native, T::Native)> {
        let first = *values.first()?;
        let (mut least, mut greatest) = (first, first);
        for value in values {
            least = if value.is_lt(least) { *value } else { least };
            greatest = if value.is_gt(greatest) { *value } else { greatest };
        }
        Some((least, greatest))
    }
}

fn bounds_of_booleans(array: &BooleanArray) -> Option<(ArrayRef, ArrayRef)> {
    let Statistics { min, max } =
        Statistics::of_counts(array.len() - array.null_count(), array.true_count());
    Some((min, max))
}

/// A byte string behind its first eight bytes as a number, which compare as the
/// bytes do and mostly settle it.
type Prefixed<'a> = (u64, &'a [u8]);

fn prefixed(value: &[u8]) -> Prefixed<'_> {
    let prefix = value.first_chunk().map_or_else(
        || {
            let mut padded = [0; 8];
            padded[..value.len()].copy_from_slice(value);
            padded
        },
        |prefix| *prefix,
    );
    (u64::from_be_bytes(prefix), value)
}

fn bounds_of<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Option<(&'a [u8], &'a [u8])> {
    let mut values = values.flatten().map(prefixed);
    let first = values.next()?;
    let (min, max) =
        values.fold((first, first), |(min, max), value| (min.min(value), max.max(value)));
    Some((min.1, max.1))
}

fn bounds_of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Option<(&[u8], &[u8])> {
    bounds_of(array.iter().map(|value| value.map(AsRef::as_ref)))
}

fn bounds_of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<(&[u8], &[u8])> {
    bounds_of(array.iter().map(|value| value.map(AsRef::as_ref)))
}

fn strings(bounds: Option<(&[u8], &[u8])>) -> Option<(ArrayRef, ArrayRef)> {
    let (min, max) = bounds?;
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let min = cut(text(min)?);
    let max = text(max).and_then(upper_str);
    Some((Arc::new(StringArray::from(vec![min])), Arc::new(StringArray::from(vec![max]))))
}

fn binaries(bounds: Option<(&[u8], &[u8])>) -> Option<(ArrayRef, ArrayRef)> {
    let (min, max) = bounds?;
    let min = &min[..min.len().min(MAX_BOUND)];
    let max = upper_bytes(max);
    Some((
        Arc::new(BinaryArray::from_vec(vec![min])),
        Arc::new(BinaryArray::from_opt_vec(vec![max.as_deref()])),
    ))
}

/// The longest prefix of whole characters within [`MAX_BOUND`] bytes.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_BOUND);
    // As `floor_char_boundary`, which Rust 1.91 has.
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text of at most [`MAX_BOUND`] bytes that is not less.
fn upper_str(text: &str) -> Option<String> {
    let mut bound = cut(text).to_owned();
    if bound.len() == text.len() {
        return Some(bound);
    }
    while let Some(last) = bound.pop() {
        // The next character may be longer: it must still fit.
        let next = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32);
        if let Some(next) = next.filter(|next| bound.len() + next.len_utf8() <= MAX_BOUND) {
            bound.push(next);
            return Some(bound);
        }
    }
    None
}

/// Bytes of at most [`MAX_BOUND`] length that are not less.
fn upper_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() <= MAX_BOUND {
        return Some(bytes.to_vec());
    }
    let mut bound = bytes[..MAX_BOUND].to_vec();
    while let Some(last) = bound.pop() {
        if last < u8::MAX {
            bound.push(last + 1);
            return Some(bound);
        }
    }
    None
}
