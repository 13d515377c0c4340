//! From Arrow arrays to the encoders' inputs.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer};
use arrow_schema::{DataType, IntervalUnit};

use super::{BytesValues, Input, Physical, Values, valid_words};

/// Widest FixedSizeBinary whose nulls are stored as empty strings. Wider ones are
/// stored as zeros, so that a few bytes of nulls cannot make a reader allocate
/// more than 128 MiB a chunk.
pub(crate) const MAX_ABSENT_WIDTH: usize = 1024;

/// What the values of an Arrow type are to the encoders. Floats of 16 bits are
/// packed as their bits.
pub(crate) fn physical_of(data_type: &DataType) -> Physical {
    use DataType as T;
    match data_type {
        T::Boolean => Physical::Bool,
        T::Int8 => Physical::I8,
        T::Int16 => Physical::I16,
        T::Int32
        | T::Date32
        | T::Time32(_)
        | T::Interval(IntervalUnit::YearMonth)
        | T::Decimal32(..) => Physical::I32,
        T::Int64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(..)
        | T::Duration(_)
        | T::Decimal64(..) => Physical::I64,
        T::UInt8 => Physical::U8,
        T::UInt16 | T::Float16 => Physical::U16,
        T::UInt32 => Physical::U32,
        T::UInt64 => Physical::U64,
        T::Float32 => Physical::F32,
        T::Float64 => Physical::F64,
        T::Decimal128(..) => Physical::I128,
        T::Decimal256(..) => Physical::I256,
        T::Utf8
        | T::LargeUtf8
        | T::Utf8View
        | T::Binary
        | T::LargeBinary
        | T::BinaryView
        | T::FixedSizeBinary(_) => Physical::Bytes,
        _ => Physical::Arrow,
    }
}

/// Calls `work` with the array as an encoder's input. Rows outside `valid` are null, or of no
/// interest for other reasons; what lies there does not show. `absent` are null values
/// of FixedSizeBinary that may be stored as empty strings.
pub(crate) fn with_input<R>(
    array: &ArrayRef,
    valid: Option<&BooleanBuffer>,
    absent: bool,
    work: impl Fn(&Input<'_>) -> R,
) -> R {
    let physical = physical_of(array.data_type());
    let words = valid.map(valid_words);
    let is_text =
        matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let with =
        |values: Values<'_>| work(&Input { physical, values, valid: words.as_deref(), is_text });
    let data = array.to_data();
    let fixed = |width: usize| {
        &data.buffers()[0].as_slice()[data.offset() * width..(data.offset() + data.len()) * width]
    };
    match physical {
        Physical::Bool => with(Values::Bits(array.as_boolean().values())),
        Physical::Bytes => match byte_strings(array, valid, absent) {
            Some(Strings { offsets, data }) => {
                let values = Values::Bytes(BytesValues { offsets: &offsets, data: &data });
                // Zeros in place of nulls are values like others.
                let zeros = matches!(array.data_type(), DataType::FixedSizeBinary(width)
                    if !is_absent(*width as usize, absent));
                if zeros { work(&Input::new(physical, values)) } else { with(values) }
            }
            // Codes may be twice as long as the value, and lengths are 32 bits wide: a
            // value of 2 GiB travels in the Arrow form.
            None => work(&Input::new(Physical::Arrow, Values::Arrow(array))),
        },
        Physical::Arrow => with(Values::Arrow(array)),
        _ => match physical.bits() {
            Some(8) => with(Values::W8(fixed(1))),
            Some(16) => with(Values::W16(bytemuck::cast_slice(fixed(2)))),
            Some(32) => with(Values::W32(bytemuck::cast_slice(fixed(4)))),
            Some(64) => with(Values::W64(bytemuck::cast_slice(fixed(8)))),
            Some(128) => with(Values::W128(bytemuck::cast_slice(fixed(16)))),
            _ => with(Values::W256(bytemuck::cast_slice(fixed(32)))),
        },
    }
}

/// Contiguous byte strings, empty where null; the bytes borrowed if they lie so already.
struct Strings<'a> {
    offsets: Vec<usize>,
    data: std::borrow::Cow<'a, [u8]>,
}

fn byte_strings<'a>(
    array: &'a ArrayRef,
    valid: Option<&BooleanBuffer>,
    absent: bool,
) -> Option<Strings<'a>> {
    let strings = match array.data_type() {
        DataType::Utf8 => contiguous(array.as_string::<i32>(), valid),
        DataType::LargeUtf8 => contiguous(array.as_string::<i64>(), valid),
        DataType::Binary => contiguous(array.as_binary::<i32>(), valid),
        DataType::LargeBinary => contiguous(array.as_binary::<i64>(), valid),
        DataType::Utf8View => viewed(array.as_string_view(), valid),
        DataType::BinaryView => viewed(array.as_binary_view(), valid),
        _ => {
            let array = array.as_fixed_size_binary();
            let width = array.value_length() as usize;
            let zeros = vec![0; if is_absent(width, absent) { 0 } else { width }];
            let value = |row| if is_valid(valid, row) { array.value(row) } else { &zeros };
            let values = (0..array.len()).map(value);
            copied(array.len(), array.len() * width, values)
        }
    };
    let fits = |pair: &[usize]| i32::try_from(pair[1] - pair[0]).is_ok();
    strings.offsets.windows(2).all(fits).then_some(strings)
}

/// Whether nulls of this width are stored as empty strings, where they may be.
fn is_absent(width: usize, absent: bool) -> bool {
    absent && width <= MAX_ABSENT_WIDTH
}

fn is_valid(valid: Option<&BooleanBuffer>, row: usize) -> bool {
    valid.is_none_or(|valid| valid.value(row))
}

fn contiguous<'a, T: ByteArrayType>(
    array: &'a GenericByteArray<T>,
    valid: Option<&BooleanBuffer>,
) -> Strings<'a> {
    let hidden = |row: usize| !is_valid(valid, row) && array.value_length(row).as_usize() != 0;
    if valid.is_some() && (0..array.len()).any(hidden) {
        let value =
            |row| -> &[u8] { if is_valid(valid, row) { array.value(row).as_ref() } else { &[] } };
        return copied(array.len(), 0, (0..array.len()).map(value));
    }
    let offsets = array.value_offsets().iter().map(|offset| offset.as_usize()).collect();
    Strings { offsets, data: array.value_data().into() }
}

fn viewed<'a, T: ByteViewType>(
    array: &'a GenericByteViewArray<T>,
    valid: Option<&BooleanBuffer>,
) -> Strings<'a> {
    let value =
        |row| -> &[u8] { if is_valid(valid, row) { array.value(row).as_ref() } else { &[] } };
    copied(array.len(), lengths(array.views()), (0..array.len()).map(value))
}

/// Copies `len` values of about `bytes` bytes.
fn copied<'a>(
    len: usize,
    bytes: usize,
    values: impl Iterator<Item = &'a [u8]>,
) -> Strings<'static> {
    let mut offsets = Vec::with_capacity(len + 1);
    let mut data = Vec::with_capacity(bytes);
    offsets.push(0);
    for value in values {
        data.extend_from_slice(value);
        offsets.push(data.len());
    }
    Strings { offsets, data: data.into() }
}

/// Bytes of the valid values of a column of strings in `rows`.
pub(crate) fn string_bytes(array: &ArrayRef, rows: &std::ops::Range<usize>) -> usize {
    if array.null_count() > 0 {
        let value = string_values(array);
        return rows.clone().map(|row| value(row).len()).sum();
    }
    fn ends<T: ByteArrayType>(
        array: &GenericByteArray<T>,
        rows: &std::ops::Range<usize>,
    ) -> (usize, usize) {
        let offsets = array.value_offsets();
        (offsets[rows.start].as_usize(), offsets[rows.end].as_usize())
    }
    let (first, last) = match array.data_type() {
        DataType::Utf8 => ends(array.as_string::<i32>(), rows),
        DataType::LargeUtf8 => ends(array.as_string::<i64>(), rows),
        DataType::Binary => ends(array.as_binary::<i32>(), rows),
        DataType::LargeBinary => ends(array.as_binary::<i64>(), rows),
        DataType::Utf8View => (0, lengths(&array.as_string_view().views()[rows.clone()])),
        DataType::BinaryView => (0, lengths(&array.as_binary_view().views()[rows.clone()])),
        _ => (0, rows.len() * array.as_fixed_size_binary().value_length() as usize),
    };
    last - first
}

/// Sum of the lengths of views, which are their low halves.
fn lengths(views: &[u128]) -> usize {
    views.iter().map(|view| *view as u32 as usize).sum()
}

/// Access to the values of a column of strings; null ones are empty.
pub(crate) fn string_values<'a>(array: &'a ArrayRef) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
    fn of<'a, T: ByteArrayType>(
        array: &'a GenericByteArray<T>,
    ) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
        Box::new(|row| if array.is_null(row) { &[] } else { array.value(row).as_ref() })
    }
    fn of_views<'a, T: ByteViewType>(
        array: &'a GenericByteViewArray<T>,
    ) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
        Box::new(|row| if array.is_null(row) { &[] } else { array.value(row).as_ref() })
    }
    match array.data_type() {
        DataType::Utf8 => of(array.as_string::<i32>()),
        DataType::LargeUtf8 => of(array.as_string::<i64>()),
        DataType::Binary => of(array.as_binary::<i32>()),
        DataType::LargeBinary => of(array.as_binary::<i64>()),
        DataType::Utf8View => of_views(array.as_string_view()),
        DataType::BinaryView => of_views(array.as_binary_view()),
        _ => {
            let array = array.as_fixed_size_binary();
            Box::new(|row| if array.is_null(row) { &[] } else { array.value(row) })
        }
    }
}
