//! From Arrow arrays to the encoders' inputs.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer};
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

/// An array as an encoder takes it, in the array's own memory as far as that is contiguous.
#[derive(Debug)]
pub(crate) struct ArrayInput {
    pub physical: Physical,
    pub rows: usize,
    pub values: ArrayValues,
    /// Words as [`Input::valid`] has them.
    pub valid: Option<Vec<u64>>,
    pub is_text: bool,
}

/// The values of an [`ArrayInput`].
#[derive(Debug)]
pub(crate) enum ArrayValues {
    Bits(BooleanBuffer),
    /// Values of whole bytes.
    Words(Buffer),
    Strings(Strings),
    Array(ArrayRef),
}

/// Contiguous byte strings, empty where null: as many offsets as rows and one, and the bytes that
/// they count in.
#[derive(Debug)]
pub(crate) struct Strings {
    pub offsets: Vec<usize>,
    pub data: Buffer,
}

impl ArrayInput {
    /// Rows outside `valid` are null, or of no interest for other reasons; what lies there does not
    /// show. `absent` are null values of FixedSizeBinary that may be stored as empty strings.
    pub fn new(array: &ArrayRef, valid: Option<&BooleanBuffer>, absent: bool) -> Self {
        let data_type = array.data_type();
        let physical = physical_of(data_type);
        let input = |values| Self {
            physical,
            rows: array.len(),
            values,
            valid: valid.map(valid_words),
            is_text: matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        };
        match physical {
            Physical::Bool => input(ArrayValues::Bits(array.as_boolean().values().clone())),
            Physical::Bytes => match byte_strings(array, valid, absent) {
                Some(strings) => {
                    // Zeros in place of nulls are values like others.
                    let zeros = matches!(data_type, DataType::FixedSizeBinary(width)
                        if !is_absent(*width as usize, absent));
                    let input = input(ArrayValues::Strings(strings));
                    if zeros { Self { valid: None, ..input } } else { input }
                }
                // Codes may be twice as long as the value, and lengths are 32 bits wide: a
                // value of 2 GiB travels in the Arrow form.
                None => Self {
                    physical: Physical::Arrow,
                    valid: None,
                    is_text: false,
                    ..input(ArrayValues::Array(array.clone()))
                },
            },
            Physical::Arrow => input(ArrayValues::Array(array.clone())),
            _ => {
                let data = array.to_data();
                let width = physical.bits().unwrap_or(0) / 8;
                let (start, bytes) = (data.offset() * width, data.len() * width);
                input(ArrayValues::Words(data.buffers()[0].slice_with_length(start, bytes)))
            }
        }
    }

    /// Bytes of the values, if they are strings.
    pub fn string_bytes(&self) -> usize {
        match &self.values {
            ArrayValues::Strings(Strings { offsets, .. }) => offsets[self.rows] - offsets[0],
            _ => 0,
        }
    }

    /// Bytes of host memory that the values take.
    pub fn bytes(&self) -> usize {
        match &self.values {
            ArrayValues::Bits(bits) => bits.len().div_ceil(8),
            ArrayValues::Words(words) => words.len(),
            ArrayValues::Strings(_) => self.string_bytes() + self.rows * size_of::<usize>(),
            ArrayValues::Array(array) => array.get_array_memory_size(),
        }
    }

    /// Bits, all of which count.
    pub fn of_bits(bits: BooleanBuffer) -> Self {
        Self {
            physical: Physical::Bool,
            rows: bits.len(),
            values: ArrayValues::Bits(bits),
            valid: None,
            is_text: false,
        }
    }

    /// What an encoder takes.
    pub fn input(&self) -> Input<'_> {
        let values = match &self.values {
            ArrayValues::Bits(bits) => Values::Bits(bits),
            ArrayValues::Strings(Strings { offsets, data }) => {
                Values::Bytes(BytesValues { offsets, data })
            }
            ArrayValues::Array(array) => Values::Arrow(array),
            ArrayValues::Words(words) => match self.physical.bits() {
                Some(8) => Values::W8(words),
                Some(16) => Values::W16(bytemuck::cast_slice(words)),
                Some(32) => Values::W32(bytemuck::cast_slice(words)),
                Some(64) => Values::W64(bytemuck::cast_slice(words)),
                Some(128) => Values::W128(bytemuck::cast_slice(words)),
                _ => Values::W256(bytemuck::cast_slice(words)),
            },
        };
        Input {
            physical: self.physical,
            values,
            valid: self.valid.as_deref(),
            is_text: self.is_text,
        }
    }
}

/// Calls `work` with an array as an encoder's input; see [`ArrayInput::new`].
pub(crate) fn with_input<R>(
    array: &ArrayRef,
    valid: Option<&BooleanBuffer>,
    absent: bool,
    work: impl Fn(&Input<'_>) -> R,
) -> R {
    work(&ArrayInput::new(array, valid, absent).input())
}

fn byte_strings(array: &ArrayRef, valid: Option<&BooleanBuffer>, absent: bool) -> Option<Strings> {
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

fn contiguous<T: ByteArrayType>(
    array: &GenericByteArray<T>,
    valid: Option<&BooleanBuffer>,
) -> Strings {
    let hidden = |row: usize| !is_valid(valid, row) && array.value_length(row).as_usize() != 0;
    if valid.is_some() && (0..array.len()).any(hidden) {
        let value =
            |row| -> &[u8] { if is_valid(valid, row) { array.value(row).as_ref() } else { &[] } };
        return copied(array.len(), 0, (0..array.len()).map(value));
    }
    let offsets = array.value_offsets().iter().map(|offset| offset.as_usize()).collect();
    Strings { offsets, data: array.values().clone() }
}

fn viewed<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
    valid: Option<&BooleanBuffer>,
) -> Strings {
    let value =
        |row| -> &[u8] { if is_valid(valid, row) { array.value(row).as_ref() } else { &[] } };
    copied(array.len(), lengths(array.views()), (0..array.len()).map(value))
}

/// Copies `len` values of about `bytes` bytes.
fn copied<'a>(len: usize, bytes: usize, values: impl Iterator<Item = &'a [u8]>) -> Strings {
    let mut offsets = Vec::with_capacity(len + 1);
    let mut data = Vec::with_capacity(bytes);
    offsets.push(0);
    for value in values {
        data.extend_from_slice(value);
        offsets.push(data.len());
    }
    Strings { offsets, data: Buffer::from_vec(data) }
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
