//! Any array of any type, sliced anyhow and compressed with any options, comes
//! back bit for bit; so do slices and concatenations of what was compressed.
//!
//! An array is drawn as a seed and a few shapes rather than value by value:
//! shrinking then gives short arrays of plain shapes, and thousands of values
//! cost one number.

mod common;

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;
use arrow_select::concat::{concat, concat_batches};
use common::{Nulls, Rng, carried_arrays, encoded_types, strings};
use lanepack::*;
use proptest::prelude::*;

/// How the values of an array follow from its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Zero,
    Constant,
    /// One value over and over, then another.
    Runs,
    Ascending,
    /// Of a few bits, above some base.
    Narrow,
    /// Narrow, one in fifty of any bits.
    Outliers,
    /// Decimals, as floats; else narrow.
    Decimals,
    /// Decimals whose scale changes, and some of the special floats.
    Special,
    Random,
}

impl Shape {
    const ALL: [Self; 9] = [
        Self::Zero,
        Self::Constant,
        Self::Runs,
        Self::Ascending,
        Self::Narrow,
        Self::Outliers,
        Self::Decimals,
        Self::Special,
        Self::Random,
    ];

    /// Bits of all values.
    fn bits(self, rng: &mut Rng, len: usize) -> Vec<u64> {
        let (base, width) = (rng.next(), 1 + rng.below(20));
        let (mut value, mut left) = (rng.next(), 0);
        let mut next = |row: usize| match self {
            Self::Zero => 0,
            Self::Constant => base,
            Self::Runs => {
                if left == 0 {
                    (value, left) = (rng.next() >> rng.below(64), 1 + rng.below(300));
                }
                left -= 1;
                value
            }
            Self::Ascending => base.wrapping_add(row as u64 * width),
            Self::Outliers if rng.below(50) == 0 => rng.next(),
            Self::Random => rng.next(),
            _ => base.wrapping_add(rng.below(1 << width)),
        };
        (0..len).map(&mut next).collect()
    }

    /// Values of a type of floats, as bits.
    fn floats(self, rng: &mut Rng, len: usize, double: bool) -> Vec<u64> {
        if !matches!(self, Self::Decimals | Self::Special | Self::Outliers) {
            return self.bits(rng, len);
        }
        let mut scale = 10_f64.powi(rng.below(6) as i32);
        let mut next = |_| {
            let number = rng.below(100_000) as f64 - 20_000.0;
            let bits = |value: f64| match double {
                true => value.to_bits(),
                false => u64::from((value as f32).to_bits()),
            };
            match self {
                Self::Special if rng.below(700) == 0 => {
                    scale = 10_f64.powi(rng.below(20) as i32 - 5);
                    bits(number * scale)
                }
                Self::Special if rng.below(20) == 0 => special(rng, double),
                Self::Outliers if rng.below(50) == 0 => rng.next(),
                _ => bits(number / scale),
            }
        };
        (0..len).map(&mut next).collect()
    }
}

/// Floats that are easily lost.
fn special(rng: &mut Rng, double: bool) -> u64 {
    let (sign, exponent, mantissa) = if double { (63, 0x7ff, 52) } else { (31, 0xff, 23) };
    let payload = rng.next() & ((1 << mantissa) - 1);
    let sign = rng.below(2) << sign;
    let (least, greatest) = (1, (1 << mantissa) - 1);
    sign | match rng.below(8) {
        // Zeros, infinities, NaN of any payload, quiet or not.
        0 => 0,
        1 => exponent << mantissa,
        2 => exponent << mantissa | payload.max(1),
        // Subnormals, and the ends of the others.
        3 => payload,
        4 => least,
        5 => greatest,
        6 => (exponent - 1) << mantissa | greatest,
        _ => 1 << mantissa,
    }
}

/// What an array is made from.
#[derive(Debug, Clone)]
struct Recipe {
    /// Index into the encoded types, then the carried ones.
    data_type: usize,
    len: usize,
    seed: u64,
    shape: usize,
    /// Nulls in a thousand.
    nulls: u64,
}

impl Recipe {
    const TYPES: usize = 33 + 9;

    fn array(&self) -> ArrayRef {
        let types = encoded_types();
        assert_eq!(types.len() + carried_arrays(1).len(), Self::TYPES);
        let Some(data_type) = types.get(self.data_type) else {
            return carried_arrays(self.len).remove(self.data_type - types.len());
        };
        let mut rng = Rng(self.seed);
        let shape = Shape::ALL[self.shape];
        let nulls = (self.nulls > 0).then(|| {
            let valid = (0..self.len).map(|_| rng.below(1000) >= self.nulls);
            NullBuffer::new(BooleanBuffer::from_iter(valid))
        });
        let data = match data_type {
            DataType::Boolean => {
                let bits = shape.bits(&mut rng, self.len).into_iter().map(|bits| bits & 1 == 1);
                let bits = BooleanBuffer::from_iter(bits);
                return Arc::new(BooleanArray::new(bits, nulls));
            }
            DataType::Float32 => fixed(shape.floats(&mut rng, self.len, false), 4),
            DataType::Float64 => fixed(shape.floats(&mut rng, self.len, true), 8),
            DataType::Decimal128(..) => fixed(self.wide(shape, &mut rng, 2), 16),
            DataType::Decimal256(..) => fixed(self.wide(shape, &mut rng, 4), 32),
            DataType::FixedSizeBinary(5) => fixed(shape.bits(&mut rng, self.len), 5),
            other => match other.primitive_width() {
                Some(width) => fixed(shape.bits(&mut rng, self.len), width),
                None => {
                    let values = self.texts(shape, &mut rng, is_text(other));
                    let array = strings(other, &values, Nulls::None);
                    let data = array.to_data().into_builder().nulls(nulls);
                    return make_array(data.build().unwrap());
                }
            },
        };
        let data =
            ArrayDataBuilder::new(data_type.clone()).len(self.len).nulls(nulls).add_buffer(data);
        make_array(data.align_buffers(true).build().unwrap())
    }

    /// Limbs of wide integers: mostly the sign of the lowest.
    fn wide(&self, shape: Shape, rng: &mut Rng, limbs: usize) -> Vec<u64> {
        let low = shape.bits(rng, self.len);
        let deep = rng.below(limbs as u64 + 1) as usize;
        let mut values = Vec::new();
        for low in low {
            values.push(low);
            for limb in 1..limbs {
                let random = limb < deep && rng.below(10) == 0;
                values.push(if random { rng.next() } else { ((low as i64) >> 63) as u64 });
            }
        }
        values
    }

    fn texts(&self, shape: Shape, rng: &mut Rng, text: bool) -> Vec<Vec<u8>> {
        let words =
            ["https://", "example.org", "/", "über", "日本", "index.html?page=", "0", "\0", "a"];
        let long = rng.below(5) == 0;
        let value = |bits: u64| -> Vec<u8> {
            let mut rng = Rng(bits);
            let count = match shape {
                Shape::Zero => 0,
                _ if long && rng.below(300) == 0 => rng.below(800),
                _ => rng.below(6),
            };
            let word = |_| match rng.below(12) {
                _ if shape == Shape::Random && !text => (rng.next() as u32).to_le_bytes().to_vec(),
                9.. => format!("{}", rng.below(10_000)).into_bytes(),
                word => words[word as usize].as_bytes().to_vec(),
            };
            (0..count).flat_map(word).collect()
        };
        shape.bits(rng, self.len).into_iter().map(value).collect()
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Values of `width` bytes, cut from words of 64 bits or put together from them.
fn fixed(words: Vec<u64>, width: usize) -> Buffer {
    let bytes = words.iter().flat_map(|word| &bytemuck::bytes_of(word)[..width.min(8)]);
    Buffer::from_vec(bytes.copied().collect::<Vec<u8>>())
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        1 => 0_usize..3,
        3 => 1022_usize..1027,
        1 => 2047_usize..2050,
        4 => 0_usize..5000,
    ]
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let nulls = prop_oneof![
        3 => Just(0_u64),
        1 => Just(1),
        2 => Just(100),
        1 => Just(500),
        1 => Just(990),
        1 => Just(1000),
    ];
    (0..Recipe::TYPES, lengths(), any::<u64>(), 0..Shape::ALL.len(), nulls).prop_map(
        |(data_type, len, seed, shape, nulls)| Recipe { data_type, len, seed, shape, nulls },
    )
}

/// Chunks of one to four vectors or of any size, and any set of encodings.
fn options() -> impl Strategy<Value = Options> {
    let rows = prop_oneof![(1_usize..5).prop_map(|vectors| vectors * 1024), Just(MAX_CHUNK_ROWS)];
    let encodings = prop_oneof![
        2 => Just(Encoding::ALL.to_vec()),
        1 => prop::sample::subsequence(Encoding::ALL.to_vec(), 0..Encoding::ALL.len()),
    ];
    (rows, encodings).prop_map(|(rows, encodings)| {
        Options::default().with_chunk_rows(rows).with_encodings(encodings)
    })
}

/// A part of an array: two fractions of its length.
fn part(array: &ArrayRef, (start, end): (f64, f64)) -> ArrayRef {
    let at = |fraction: f64| (array.len() as f64 * fraction) as usize;
    let (start, end) = (at(start.min(end)), at(start.max(end)));
    array.slice(start, end - start)
}

fn parts() -> impl Strategy<Value = (f64, f64)> {
    prop_oneof![Just((0.0, 1.0)), (0.0..1.0, 0.0..1.0)]
}

/// A batch of columns of one length.
fn batch(recipes: &[Recipe], len: usize) -> RecordBatch {
    let columns = recipes.iter().enumerate().map(|(at, recipe)| {
        let recipe = Recipe { len, ..recipe.clone() };
        (format!("column {at}"), recipe.array(), true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn cases(cases: u32) -> ProptestConfig {
    // Failures are few and are kept as tests of their own, not as seeds.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(12_000))]

    #[test]
    fn arrays_come_back_bit_for_bit(
        recipe in recipes(),
        part_of in parts(),
        options in options(),
        rows in prop::collection::vec(0.0..1.0, 8),
    ) {
        let array = part(&recipe.array(), part_of);
        let column = compress_array(&array, &options).unwrap();
        prop_assert_eq!(column.len(), array.len());
        prop_assert_eq!(column.null_count(), array.logical_null_count());
        let (field, storage) = column.to_arrow("column");
        let column = CompressedColumn::try_from_arrow(&field, &storage).unwrap();
        column.verify_checksums().unwrap();
        let all = column.decompress().unwrap();
        prop_assert_eq!(all.data_type(), array.data_type());
        prop_assert!(*all == *array, "{} differs, as {}", array.data_type(), column.explain());
        for row in rows {
            if !array.is_empty() {
                let row = (row * array.len() as f64) as usize;
                let value = column.value(row).unwrap().into_inner();
                prop_assert!(value == array.slice(row, 1), "row {row} of {}", column.explain());
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn slices_and_joins_of_the_packed_are_those_of_the_data(
        recipes in prop::collection::vec(recipes(), 1..4),
        len in lengths(),
        cuts in prop::collection::vec((0_usize..6, 0_usize..6), 1..4),
    ) {
        let batch = batch(&recipes, len);
        let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
        let chunks = packed.num_rows();
        prop_assert_eq!(chunks, len.div_ceil(1024));
        let mut packed_parts = Vec::new();
        let mut parts = Vec::new();
        for (first, count) in cuts {
            let first = first.min(chunks);
            let count = count.min(chunks - first);
            packed_parts.push(packed.slice(first, count));
            let end = ((first + count) * 1024).min(len);
            let start = (first * 1024).min(end);
            parts.push(batch.slice(start, end - start));
        }
        for (packed, part) in packed_parts.iter().zip(&parts) {
            prop_assert!(&decompress(packed).unwrap() == part);
        }
        let joined = concat_batches(&packed.schema(), &packed_parts).unwrap();
        let expected = concat_batches(&batch.schema(), &parts).unwrap();
        prop_assert!(decompress(&joined).unwrap() == expected);
    }

    #[test]
    fn equal_values_have_equal_bytes(recipe in recipes(), part_of in parts(), options in options()) {
        let array = part(&recipe.array(), part_of);
        let bytes = |array: &ArrayRef, threads| {
            compress_array(array, &options.clone().with_threads(threads)).unwrap().to_arrow("").1
        };
        let first = bytes(&array, 1);
        prop_assert_eq!(&bytes(&array, 3), &first);
        // A copy lies elsewhere, at another offset, without the bytes beside it.
        if recipe.data_type < encoded_types().len() && !array.is_empty() {
            let half = array.len() / 2;
            let halves = [array.slice(0, half), array.slice(half, array.len() - half)];
            let copy = concat(&[halves[0].as_ref(), halves[1].as_ref()]).unwrap();
            prop_assert_eq!(&bytes(&copy, 2), &first);
        }
    }

    #[test]
    fn files_of_batches_of_any_size_come_back(
        recipes in prop::collection::vec(recipes(), 1..4),
        len in lengths(),
        sizes in prop::collection::vec(1_usize..2000, 1..6),
        chunks in 1_usize..4,
    ) {
        let batch = batch(&recipes, len);
        let options = Options::default().with_chunk_rows(chunks * 1024);
        let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options).unwrap();
        let mut at = 0;
        for size in sizes.iter().cycle() {
            let size = (*size).min(len - at);
            writer.write(&batch.slice(at, size)).unwrap();
            at += size;
            if at == len {
                break;
            }
        }
        let file = writer.into_inner().unwrap();
        let reader = ipc::Reader::file(Cursor::new(file)).unwrap();
        let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        prop_assert!(concat_batches(&batch.schema(), &read).unwrap() == batch);
    }
}
