//! What several integration tests share: arrays of every type and shape, and
//! the shared data.
#![allow(dead_code, reason = "each test uses its own part")]

pub mod bad;
pub mod image;
mod skipped;

#[allow(unused_imports, reason = "each test uses its own part")]
pub use skipped::{report, skip};

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit, UnionFields};

/// A small generator of pseudo-random numbers (SplitMix64): tests need the same
/// numbers on every machine.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// How nulls lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    None,
    First,
    Last,
    All,
    Alternating,
    Random,
    /// Whole vectors of nulls beside whole vectors without.
    Vectors,
}

impl Nulls {
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::First,
        Self::Last,
        Self::All,
        Self::Alternating,
        Self::Random,
        Self::Vectors,
    ];

    pub fn bitmap(self, len: usize) -> Option<NullBuffer> {
        let mut rng = Rng(len as u64);
        let valid = |row: usize| match self {
            Self::None => true,
            Self::First => row != 0,
            Self::Last => row + 1 != len,
            Self::All => false,
            Self::Alternating => row.is_multiple_of(2),
            Self::Random => rng.below(3) > 0,
            Self::Vectors => (row / 1024).is_multiple_of(2),
        };
        let bits = BooleanBuffer::from_iter((0..len).map(valid));
        (self != Self::None).then(|| NullBuffer::new(bits))
    }
}

/// The shape of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One value.
    Constant,
    /// Close to each other, of a few hundred.
    Narrow,
    /// Any bits.
    Random,
    /// Narrow with a few of any bits.
    Outliers,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::Constant, Self::Narrow, Self::Random, Self::Outliers];

    fn bits(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Constant => 42,
            Self::Narrow => rng.below(300).wrapping_sub(100),
            Self::Random => rng.next(),
            Self::Outliers if rng.below(50) == 0 => rng.next(),
            Self::Outliers => rng.below(100),
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(
    len: usize,
    nulls: Nulls,
    data_type: &DataType,
    mut value: impl FnMut() -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = (0..len).map(|_| value()).collect();
    let array = PrimitiveArray::<T>::new(values.into(), nulls.bitmap(len));
    Arc::new(array.with_data_type(data_type.clone()))
}

/// Types with encodings of their own.
pub fn encoded_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        Duration(TimeUnit::Millisecond),
        Interval(IntervalUnit::YearMonth),
        Decimal32(9, 2),
        Decimal64(18, -3),
        Decimal128(38, 4),
        Decimal256(76, 10),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(5),
    ]
}

/// Whether columns of a type may have membership filters.
pub fn may_have_filters(data_type: &DataType) -> bool {
    let is_encoded = encoded_types().contains(data_type);
    is_encoded && !matches!(data_type, DataType::Boolean | DataType::Interval(_))
}

/// The names of the columns that may.
pub fn filter_columns(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter().filter(|field| may_have_filters(field.data_type()));
    fields.map(|field| field.name().clone()).collect()
}

/// An array of a type of [`encoded_types`].
pub fn array_of(data_type: &DataType, len: usize, shape: Shape, nulls: Nulls) -> ArrayRef {
    use DataType::*;
    let mut rng = Rng(len as u64 * 31 + shape as u64);
    let mut bits = move || shape.bits(&mut rng);
    macro_rules! ints {
        ($type:ty) => {
            primitive::<$type>(len, nulls, data_type, || bits() as _)
        };
    }
    match data_type {
        Boolean => {
            let values = BooleanBuffer::from_iter((0..len).map(|_| bits() & 1 == 1));
            Arc::new(BooleanArray::new(values, nulls.bitmap(len)))
        }
        Int8 => ints!(Int8Type),
        Int16 => ints!(Int16Type),
        Int32 => ints!(Int32Type),
        Int64 => ints!(Int64Type),
        UInt8 => ints!(UInt8Type),
        UInt16 => ints!(UInt16Type),
        UInt32 => ints!(UInt32Type),
        UInt64 => ints!(UInt64Type),
        Date32 => ints!(Date32Type),
        Date64 => ints!(Date64Type),
        Time32(TimeUnit::Second) => ints!(Time32SecondType),
        Time32(_) => ints!(Time32MillisecondType),
        Time64(TimeUnit::Microsecond) => ints!(Time64MicrosecondType),
        Time64(_) => ints!(Time64NanosecondType),
        Timestamp(TimeUnit::Second, _) => ints!(TimestampSecondType),
        Timestamp(..) => ints!(TimestampNanosecondType),
        Duration(_) => ints!(DurationMillisecondType),
        Interval(_) => ints!(IntervalYearMonthType),
        Decimal32(..) => ints!(Decimal32Type),
        Decimal64(..) => ints!(Decimal64Type),
        Decimal128(..) => primitive::<Decimal128Type>(len, nulls, data_type, || {
            let low = bits();
            if shape == Shape::Random {
                (low as i128) << 60 ^ bits() as i128
            } else {
                low as i64 as i128
            }
        }),
        Decimal256(..) => primitive::<Decimal256Type>(len, nulls, data_type, || {
            let low = bits() as i64 as i128;
            match shape {
                Shape::Random => i256::from_parts(low as u128, bits() as i64 as i128),
                _ => i256::from_i128(low),
            }
        }),
        Float16 => {
            primitive::<Float16Type>(len, nulls, data_type, || half::f16::from_bits(bits() as u16))
        }
        Float32 => primitive::<Float32Type>(len, nulls, data_type, || float(shape, bits()) as f32),
        Float64 => primitive::<Float64Type>(len, nulls, data_type, || match shape {
            Shape::Random => f64::from_bits(bits()),
            _ => float(shape, bits()),
        }),
        FixedSizeBinary(width) => {
            let values: Vec<Vec<u8>> = (0..len).map(|_| bytes(bits(), *width as usize)).collect();
            let buffer = arrow_buffer::Buffer::from_vec(values.concat());
            Arc::new(FixedSizeBinaryArray::new(*width, buffer, nulls.bitmap(len)))
        }
        other => {
            let values: Vec<Vec<u8>> = (0..len).map(|_| text(shape, bits()).into_bytes()).collect();
            strings(other, &values, nulls)
        }
    }
}

fn float(shape: Shape, bits: u64) -> f64 {
    match shape {
        Shape::Random => f32::from_bits(bits as u32).into(),
        Shape::Outliers if bits > 100 => f64::from_bits(bits),
        _ => bits as i64 as f64 / 100.0,
    }
}

fn bytes(bits: u64, len: usize) -> Vec<u8> {
    bits.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn text(shape: Shape, bits: u64) -> String {
    match shape {
        Shape::Constant => "one and the same".to_owned(),
        Shape::Random => {
            let characters = (0..bits % 12)
                .map(|i| char::from_u32((bits >> (i * 5)) as u32 & 0x7ff).unwrap_or('\u{fffd}'));
            characters.collect()
        }
        _ if bits.is_multiple_of(7) => String::new(),
        _ => format!("https://example.org/item/{}?page={}", bits % 1000, bits % 13),
    }
}

/// Values as an array of any kind of strings; bytes stay under nulls where the
/// layout can hold them.
pub fn strings(data_type: &DataType, values: &[Vec<u8>], nulls: Nulls) -> ArrayRef {
    let offsets = || values.iter().map(Vec::len);
    let buffer = arrow_buffer::Buffer::from_vec(values.concat());
    let nulls = nulls.bitmap(values.len());
    let offsets32 = || arrow_buffer::OffsetBuffer::<i32>::from_lengths(offsets());
    let offsets64 = || arrow_buffer::OffsetBuffer::<i64>::from_lengths(offsets());
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::new(offsets32(), buffer, nulls)),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::new(offsets64(), buffer, nulls)),
        DataType::Binary => Arc::new(BinaryArray::new(offsets32(), buffer, nulls)),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::new(offsets64(), buffer, nulls)),
        DataType::Utf8View => {
            let array = StringArray::new(offsets32(), buffer, nulls);
            Arc::new(StringViewArray::from(&array))
        }
        _ => {
            let array = BinaryArray::new(offsets32(), buffer, nulls);
            Arc::new(BinaryViewArray::from(&array))
        }
    }
}

/// Arrays of types that are carried as Arrow IPC, of `len` rows each.
pub fn carried_arrays(len: usize) -> Vec<ArrayRef> {
    let numbers =
        || Arc::new(Int32Array::from_iter((0..len).map(|i| (i % 5 > 0).then_some(i as i32))));
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let lengths = || (0..len).map(|i| usize::from(i % 4 != 2));
    let used: usize = lengths().sum();
    let list = ListArray::new(
        item.clone(),
        arrow_buffer::OffsetBuffer::from_lengths(lengths()),
        Arc::new(numbers().slice(0, used)),
        Nulls::Random.bitmap(len),
    );
    let structs = StructArray::new(
        vec![
            Field::new("a", DataType::Int32, true),
            Field::new("l", list.data_type().clone(), true),
        ]
        .into(),
        vec![numbers(), Arc::new(list.clone())],
        Nulls::Alternating.bitmap(len),
    );
    let mut dictionary = StringDictionaryBuilder::<Int16Type>::new();
    for i in 0..len {
        match i % 6 {
            5 => dictionary.append_null(),
            i => {
                dictionary.append_value(["zebra", "ant", "yak", "bee", "emu"][i]);
            }
        }
    }
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for i in 0..len {
        if i % 3 > 0 {
            map.keys().append_value(format!("k{i}"));
            map.values().append_value(i as i32);
        }
        map.append(i % 7 > 0).unwrap();
    }
    let run_ends: Vec<i32> = (1..=len as i32).collect();
    let runs =
        RunArray::<Int32Type>::try_new(&Int32Array::from(run_ends), numbers().as_ref()).unwrap();
    let union_fields = UnionFields::try_new(
        vec![0, 1],
        vec![Field::new("i", DataType::Int32, true), Field::new("b", DataType::Boolean, true)],
    )
    .unwrap();
    let booleans = BooleanArray::from_iter((0..len).map(|i| Some(i % 2 == 0)));
    let union = UnionArray::try_new(
        union_fields,
        (0..len).map(|i| (i % 2) as i8).collect::<Vec<_>>().into(),
        None,
        vec![numbers(), Arc::new(booleans)],
    )
    .unwrap();
    let fixed_list = FixedSizeListArray::new(
        item,
        2,
        Arc::new(Int32Array::from_iter_values(0..2 * len as i32)),
        Nulls::First.bitmap(len),
    );
    let interval = IntervalMonthDayNanoArray::from_iter_values(
        (0..len).map(|i| IntervalMonthDayNano::new(i as i32, 2, 3)),
    );
    vec![
        Arc::new(list),
        Arc::new(structs),
        Arc::new(dictionary.finish()),
        Arc::new(map.finish()),
        Arc::new(runs),
        Arc::new(union),
        Arc::new(fixed_list),
        Arc::new(interval),
        Arc::new(NullArray::new(len)),
    ]
}

/// The last place at or before `at` where a character starts: `str::floor_char_boundary`, which Rust
/// 1.91 has.
pub fn char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// The folder of the shared data; none, which is reported, if there is none.
pub fn shared_data() -> Option<PathBuf> {
    let path = std::env::var_os("LANEPACK_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    if path.is_dir() {
        return Some(path);
    }
    skip("LANEPACK_REQUIRE_DATA", &format!("no shared data at {}", path.display()));
    None
}

/// The Parquet files of the shared data, in order.
pub fn shared_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["strings", "floats", "tables"] {
        let Some(root) = shared_data() else { return Vec::new() };
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|e| e == "parquet")));
    }
    files.sort();
    files
}

/// A Parquet file as one batch.
pub fn read_parquet(path: &std::path::Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let builder =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = builder.schema().clone();
    let batches: Vec<_> =
        builder.with_batch_size(1 << 20).build().unwrap().map(Result::unwrap).collect();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}
