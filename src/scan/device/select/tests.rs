//! Selections against a scalar evaluation of every row, on the emulation and, where
//! there is one, on a GPU.
//!
//! A *key* is a value's place in the order of its type, made by other means than the
//! kernels': integers less the least one, floats as the standard library's `total_cmp`.

mod bitmaps;
mod damage;
mod floats;
mod integers;
#[cfg(lanepack_simt)]
mod library;
mod strings;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use half::f16;

use super::{ColumnTest, Combine, bitmap_len, count, select};
use crate::decode::stored::StoredForm;
use crate::device::{CompressedDeviceBatch, DeviceColumn};
use crate::engine::Engine;
use crate::gpu::Stream;
use crate::gpu::abi::Range;
use crate::skipped::skip;
use crate::{CompressedColumn, Effort, Encoding, Options, Result, compress_array};

fn engines() -> Vec<Engine> {
    #[cfg(lanepack_simt)]
    let simt = Some(Engine::simt(7, 1 << 30));
    #[cfg(not(lanepack_simt))]
    let simt = None;
    simt.into_iter().chain(cuda()).collect()
}

/// The first GPU; none, which is reported, if there is none.
fn cuda() -> Option<Engine> {
    match Engine::cuda(0) {
        Ok(engine) => Some(engine),
        Err(error) => {
            skip("LANEPACK_REQUIRE_GPU", &format!("on CUDA: {error}"));
            None
        }
    }
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From 0 to `last`, which may be the greatest number.
    fn upto(&mut self, last: u64) -> u64 {
        if last == u64::MAX { self.next() } else { self.below(last + 1) }
    }
}

fn ranges<const N: usize>(ranges: [(u64, u64); N]) -> Vec<Range> {
    ranges.map(|(low, high)| Range { low, high }).to_vec()
}

/// Calls a macro with the types that are tested: Arrow type, native type, key of a
/// value, value of a key.
macro_rules! for_each_type {
    ($macro:ident) => {
        $macro! {
            Int8Type i8, Int16Type i16, Int32Type i32, Int64Type i64,
            UInt8Type u8, UInt16Type u16, UInt32Type u32, UInt64Type u64,
            Date32Type i32, TimestampMicrosecondType i64, Decimal64Type i64;
            Float16Type f16 i16, Float32Type f32 i32, Float64Type f64 i64
        }
    };
}

macro_rules! key_functions {
    ($($int:ident $native:ident),*; $($float:ident $value:ident $bits:ident),*) => {
        /// The keys of an array's values, none of nulls.
        fn keys_of(array: &ArrayRef) -> Vec<Option<u64>> {
            $(if *array.data_type() == $int::DATA_TYPE {
                let least = i128::from($native::MIN);
                let key = |value: $native| (i128::from(value) - least) as u64;
                return array.as_primitive::<$int>().iter().map(|value| value.map(key)).collect();
            })*
            $(if *array.data_type() == $float::DATA_TYPE {
                let key = |value: $value| {
                    let bits = value.to_bits() as $bits;
                    let turned = if bits < 0 { bits ^ $bits::MAX } else { bits };
                    (i128::from(turned) - i128::from($bits::MIN)) as u64
                };
                return array.as_primitive::<$float>().iter().map(|value| value.map(key)).collect();
            })*
            panic!("keys of {}", array.data_type())
        }

        /// The array of some type that has these keys.
        fn array_of(data_type: &DataType, keys: &[Option<u64>]) -> ArrayRef {
            $(if *data_type == $int::DATA_TYPE {
                let least = i128::from($native::MIN);
                let value = |key: u64| (i128::from(key) + least) as $native;
                let values = keys.iter().map(|key| key.map(value));
                return Arc::new(PrimitiveArray::<$int>::from_iter(values));
            })*
            $(if *data_type == $float::DATA_TYPE {
                let value = |key: u64| {
                    let turned = (i128::from(key) + i128::from($bits::MIN)) as $bits;
                    let bits = if turned < 0 { turned ^ $bits::MAX } else { turned };
                    $value::from_bits(bits as _)
                };
                let values = keys.iter().map(|key| key.map(value));
                return Arc::new(PrimitiveArray::<$float>::from_iter(values));
            })*
            panic!("an array of {data_type}")
        }
    };
}
for_each_type!(key_functions);

/// A compressed column as a batch.
fn packed(column: &CompressedColumn) -> RecordBatch {
    let (field, storage) = column.to_arrow("price");
    let schema = Arc::new(Schema::new(vec![field]));
    RecordBatch::try_new(schema, vec![Arc::new(storage)]).unwrap()
}

/// Compresses an array, in chunks of so many rows, if possible with one encoding alone.
/// Compresses to one encoding, or to those whose kernels these tests are about.
fn compressed(array: &ArrayRef, encoding: Option<Encoding>, chunk_rows: usize) -> RecordBatch {
    let options = Options::default().with_chunk_rows(chunk_rows);
    let options = match encoding {
        Some(encoding) => options.with_encodings([encoding]),
        None => options.with_effort(Effort::Fast),
    };
    packed(&compress_array(array, &options).unwrap())
}

/// A column on a device, and the keys of its values.
struct Subject {
    batch: CompressedDeviceBatch,
    rows: usize,
}

impl Subject {
    fn new(engine: &Engine, packed: &RecordBatch) -> Self {
        let batch = engine.upload(packed).unwrap();
        let rows = batch.num_rows();
        Self { batch, rows }
    }

    fn column(&self) -> &DeviceColumn {
        &self.batch.columns()[0]
    }

    /// The bitmap that `combine` makes of `before` (of uninitialised memory if there is
    /// none), and how many bits are set in it.
    fn words(
        &self,
        engine: &Engine,
        test: &ColumnTest,
        combine: Combine,
        before: Option<&[u32]>,
    ) -> Result<(Vec<u32>, usize)> {
        let context = engine.named_device().expect("a device");
        context.with_stream(|stream| {
            let out = Arc::new(stream.allocate(bitmap_len(self.rows))?);
            if let Some(before) = before {
                stream.upload(bytemuck::cast_slice(before), &out, 0)?;
            }
            let report = select(stream, self.column(), test, combine, &out, &mut ())?;
            report.check(stream)?;
            let mut words = vec![0; bitmap_len(self.rows) / 4];
            stream.download(&out, 0, bytemuck::cast_slice_mut(&mut words))?;
            Ok((words, count(stream, &out, self.rows)?))
        })
    }

    /// Selects rows and compares with what is expected of each.
    #[track_caller]
    fn check(&self, engine: &Engine, test: &ColumnTest, expected: impl Fn(usize) -> bool) {
        let (found, set) = self.words(engine, test, Combine::Set, None).unwrap();
        let expected: Vec<bool> = (0..self.rows).map(expected).collect();
        assert_bits(&found, &expected, || format!("{test:?}"));
        assert_eq!(set, expected.iter().filter(|bit| **bit).count(), "{test:?}");
    }

    /// Selects values in ranges, and those in none.
    #[track_caller]
    fn check_ranges(&self, engine: &Engine, keys: &[Option<u64>], ranges: &[Range]) {
        let inside = |key: u64| ranges.iter().any(|range| range.low <= key && key <= range.high);
        let test = ColumnTest::In(ranges.to_vec());
        self.check(engine, &test, |row| keys[row].is_some_and(inside));
        let test = ColumnTest::NotIn(ranges.to_vec());
        self.check(engine, &test, |row| keys[row].is_some_and(|key| !inside(key)));
    }
}

/// Compares a bitmap; bits behind the last row are zero.
#[track_caller]
fn assert_bits(found: &[u32], expected: &[bool], what: impl Fn() -> String) {
    let bit = |row: usize| found[row / 32] >> (row % 32) & 1 == 1;
    for row in 0..found.len() * 32 {
        let expected = expected.get(row).copied().unwrap_or(false);
        assert!(bit(row) == expected, "row {row} is {}: {}", bit(row), what());
    }
}

/// The encodings of a column's chunks.
fn encodings(packed: &RecordBatch) -> Vec<Encoding> {
    let columns = crate::columns(packed).unwrap();
    columns[0].chunks().iter().map(|chunk| chunk.root().encoding()).collect()
}

/// Disjoint ranges around some of these keys, sorted.
fn ranges_around(keys: &mut [u64], rng: &mut Rng, last: u64) -> Vec<Range> {
    keys.sort_unstable();
    let mut ranges: Vec<Range> = Vec::new();
    for key in keys.iter() {
        let low = key.saturating_sub(rng.below(3));
        let high = key.saturating_add(rng.below(3)).min(last);
        if ranges.last().is_none_or(|range| range.high < low) {
            ranges.push(Range { low, high });
        }
    }
    ranges
}
