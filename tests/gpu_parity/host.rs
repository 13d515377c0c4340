//! From host to host: page-locked memory, slices, parts, and whose memory lives how long.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::*;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use lanepack::*;

use super::common::*;
use super::{assert_same_bytes, engines};

fn batch_of(arrays: Vec<ArrayRef>) -> RecordBatch {
    let fields = arrays
        .iter()
        .enumerate()
        .map(|(index, array)| Field::new(index.to_string(), array.data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays).unwrap()
}

/// Every type with nulls, and one that is carried.
fn mixed(rows: usize) -> RecordBatch {
    let types = encoded_types();
    let arrays = types.iter().map(|t| array_of(t, rows, Shape::Outliers, Nulls::Random));
    let mut lists = ListBuilder::new(Int32Builder::new());
    (0..rows).for_each(|row| lists.append_value((0..row as i32 % 3).map(Some)));
    batch_of(arrays.chain([Arc::new(lists.finish()) as ArrayRef]).collect())
}

/// Compressed and decompressed as on the CPU, from memory that is gone afterwards.
#[track_caller]
fn check(engine: &Engine, batch: RecordBatch, options: &Options) {
    let expected = compress(&batch, options).unwrap();
    let pinned = engine.pinned(&batch).unwrap();
    assert_eq!(pinned, batch);
    for values in [batch.clone(), pinned] {
        let packed = engine.compress(&values, options).unwrap();
        drop(values);
        assert_same_bytes(&packed, &expected, String::new);
        for packed in [engine.pinned(&packed).unwrap(), packed] {
            let back = engine.decompress(&packed).unwrap();
            drop(packed);
            assert_eq!(back, batch);
            back.columns().iter().for_each(|array| array.to_data().validate_full().unwrap());
        }
    }
}

#[test]
fn page_locked_arrays_give_what_others_give() {
    for engine in engines() {
        for rows in [0, 1, 3000] {
            check(&engine, mixed(rows), &Options::default().with_chunk_rows(1024));
        }
    }
}

#[test]
fn slices_at_any_bit() {
    let whole = mixed(5000);
    for engine in engines() {
        for (start, rows) in [(1, 4000), (64, 4096), (4999, 1), (5000, 0)] {
            let slice = whole.slice(start, rows);
            check(&engine, slice, &Options::default().with_chunk_rows(1024));
        }
        // A slice of page-locked arrays.
        let slice = engine.pinned(&whole).unwrap().slice(13, 3001);
        check(&engine, slice, &Options::default().with_chunk_rows(2048));
    }
}

/// Numbers and booleans of many parts: with nulls in some of them, with parts that take
/// more than the first, and with chunks that are no multiple of bytes.
#[test]
fn columns_of_many_parts() {
    let rows: usize = 120_000;
    let late = |row: usize| (row > 70_000 && row.is_multiple_of(3)).then_some(row as i64);
    let grows = |row: usize| match row {
        0..20_000 => 7,
        _ => (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter((0..rows).map(late))),
        Arc::new(UInt64Array::from_iter_values((0..rows).map(grows))),
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 100.0))),
        array_of(&DataType::Decimal128(30, 2), rows, Shape::Outliers, Nulls::Random),
        array_of(&DataType::Float16, rows, Shape::Outliers, Nulls::None),
        array_of(&DataType::UInt8, rows, Shape::Random, Nulls::Random),
    ];
    let bits = 900_000;
    let flags = array_of(&DataType::Boolean, bits, Shape::Random, Nulls::Random);
    for engine in engines() {
        for chunk_rows in [1024, 3072] {
            let options = Options::default().with_chunk_rows(chunk_rows);
            check(&engine, batch_of(arrays.clone()), &options);
        }
        check(&engine, batch_of(vec![flags.clone()]), &Options::default());
        check(&engine, batch_of(vec![flags.slice(11, 880_001)]), &Options::default());

        let packed = [0..5003, 5003..90_000, 90_000..120_000].map(|range| {
            let part = batch_of(arrays.clone()).slice(range.start, range.len());
            compress(&part, &Options::default().with_chunk_rows(2048)).unwrap()
        });
        let joined = arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
        assert_eq!(engine.decompress(&joined).unwrap(), batch_of(arrays.clone()));
    }
}

/// Strings whose chunks have several symbol tables, which are compressed in as many parts: with
/// nulls, dictionaries, bytes for LZ, and a last part of its own size.
#[test]
fn strings_of_many_symbol_tables() {
    let rows: usize = 11_000;
    let text = |row: usize| (row % 11 != 3).then(|| format!("{} of {}", row * 7919 % 997, row / 5));
    let named = |row: usize| (row > 5000).then(|| format!("name {}", row * 31 % 40));
    let bytes = |row: usize| vec![(row / 50 % 200) as u8; row % 90];
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter((0..rows).map(text))),
        Arc::new(LargeStringArray::from_iter((0..rows).map(named))),
        Arc::new(BinaryArray::from_iter_values((0..rows).map(bytes))),
        Arc::new(StringArray::from_iter_values((0..rows).map(|_| ""))),
    ];
    for engine in engines() {
        for (chunk_rows, group_rows) in [(1024, 2048), (3072, 3072), (2048, 8192)] {
            let mut options = Options::default().with_chunk_rows(chunk_rows);
            options = options.with_group_rows(group_rows);
            check(&engine, batch_of(arrays.clone()), &options);
            check(&engine, batch_of(arrays.clone()).slice(37, 10_000), &options);
        }
    }
}

/// The first damaged chunk is named, counted in the column.
#[test]
fn damage_in_a_later_part_is_named() {
    let rows = 40_000_u64;
    let text = UInt64Array::from_iter((0..rows).map(|row| (row % 7 != 0).then_some(row)));
    let batch = batch_of(vec![Arc::new(text)]);
    let packed = compress(&batch, &Options::default().with_chunk_rows(2048)).unwrap();
    let column = &columns(&packed).unwrap()[0];
    // A bit of the validity of chunk 15, of which the header states the nulls.
    let place = column.chunks()[..15].iter().map(|chunk| chunk.body().len()).sum::<usize>();
    let chunk = column.chunks()[15].body();
    let nulls: Vec<u8> = (0..8)
        .map(|byte| {
            (0..8).fold(0, |bits, bit| {
                let row = 15 * 2048 + byte * 8 + bit;
                bits | u8::from(row % 7 != 0) << bit
            })
        })
        .collect();
    let at = chunk.windows(8).position(|bytes| bytes == nulls).unwrap();
    let storage = packed.column(0).as_any().downcast_ref::<StructArray>().unwrap();
    let bodies = storage.column(5).as_any().downcast_ref::<LargeBinaryArray>().unwrap();
    let mut bytes = bodies.value_data().to_vec();
    bytes[place + at] ^= 2;
    let bodies = LargeBinaryArray::new(bodies.offsets().clone(), Buffer::from_vec(bytes), None);
    let mut arrays = storage.columns().to_vec();
    arrays[5] = Arc::new(bodies);
    let damaged = StructArray::new(storage.fields().clone(), arrays, None);
    let damaged = RecordBatch::try_new(packed.schema(), vec![Arc::new(damaged)]).unwrap();
    for engine in engines() {
        let error = engine.decompress(&damaged).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("chunk 15"), "{error}");
        assert_eq!(engine.decompress(&packed).unwrap(), batch);
    }
}

/// Memory that a user fills becomes an array as it is; results outlive their engine.
#[test]
fn buffers_to_fill() {
    for engine in engines() {
        let mut bytes = engine.pinned_buffer(20_000 * 8).unwrap();
        assert!(bytes.len() == 160_000 && bytes.iter().all(|byte| *byte == 0));
        for (row, value) in bytes.chunks_exact_mut(8).enumerate() {
            value.copy_from_slice(&(row as u64 / 3).to_le_bytes());
        }
        let start = bytes.as_ptr();
        let buffer = Buffer::from(bytes);
        assert!(buffer.as_ptr() == start && (start as usize).is_multiple_of(64));
        let array = UInt64Array::new(ScalarBuffer::from(buffer), None);
        assert_eq!(array.value(19_999), 6666);
        check(&engine, batch_of(vec![Arc::new(array)]), &Options::default());
        let empty = engine.pinned_buffer(0).unwrap();
        assert!(Buffer::from(empty).is_empty());
    }
    let cpu = Engine::cpu();
    assert!(matches!(cpu.pinned_buffer(1), Err(Error::NoDevice { .. })));
}

/// With a limit of 0 results lie in ordinary memory, and are the same.
#[test]
fn results_of_megabytes_with_and_without_page_locked_memory() {
    let rows = 300_000;
    let mut rng = Rng(9);
    let numbers = UInt64Array::from_iter_values((0..rows).map(|_| rng.next()));
    let batch = batch_of(vec![Arc::new(numbers)]);
    let expected = compress(&batch, &Options::default()).unwrap();
    for engine in engines() {
        let kept: Vec<RecordBatch> =
            (0..3).map(|_| engine.compress(&batch, &Options::default()).unwrap()).collect();
        let back = engine.decompress(&kept[0]).unwrap();
        let engine = engine.with_pinned_limit(0);
        let ordinary = engine.compress(&batch, &Options::default()).unwrap();
        assert_eq!(engine.decompress(&ordinary).unwrap(), batch);
        drop(engine);
        assert!(kept.iter().all(|packed| *packed == expected) && ordinary == expected);
        assert_eq!(back, batch);
    }
}

/// Strings in parts: offsets go on where the part before has ended.
#[test]
fn strings_of_many_parts() {
    let rows = 9000;
    let types = [DataType::Utf8, DataType::LargeUtf8, DataType::Binary, DataType::LargeBinary];
    let types = types.into_iter().chain([DataType::Utf8View]);
    let mut arrays: Vec<ArrayRef> =
        types.map(|t| array_of(&t, rows, Shape::Random, Nulls::Random)).collect();
    let value = |row: usize| match row {
        0..4000 => "one for many".to_owned(),
        4000..7000 => format!("the quick brown fox {} jumps over é {}", row % 91, row % 17),
        _ => String::new(),
    };
    arrays.push(Arc::new(StringArray::from_iter_values((0..rows).map(value))));
    for engine in engines() {
        for chunk_rows in [1024, 2048] {
            let options = Options::default().with_chunk_rows(chunk_rows);
            check(&engine, batch_of(arrays.clone()), &options);
            let packed = [0..1003, 1003..6400, 6400..9000].map(|range| {
                compress(&batch_of(arrays.clone()).slice(range.start, range.len()), &options)
                    .unwrap()
            });
            let joined =
                arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
            let back = engine.decompress(&joined).unwrap();
            assert_eq!(back, batch_of(arrays.clone()));
            back.columns().iter().for_each(|array| array.to_data().validate_full().unwrap());
        }
    }
}
