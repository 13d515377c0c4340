//! Nested columns, whose leaves kernels encode: of every shape, with leaves of more values than a
//! chunk and of fewer than a vector, below nulls of others, and of types that the host encodes.

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use lanepack::scan::{Scan, col, count, count_rows};
use lanepack::{Effort, Encoding, Engine, Error, Options, compress};

use super::common::{Rng, carried_arrays};
use super::{assert_same_bytes, check, engines, thinned};

const WORDS: [&str; 7] = ["", "amber", "beech", "cedar wood", "a", "elm and elder", "fir"];

fn text(row: usize) -> String {
    format!("{} {} no. {}", WORDS[row % 7], WORDS[row / 3 % 7], row % 53)
}

fn nulls(rows: usize, is_null: impl Fn(usize) -> bool) -> NullBuffer {
    (0..rows).map(|row| !is_null(row)).collect::<Vec<bool>>().into()
}

/// A struct of fields that may be null.
fn structs(fields: Vec<ArrayRef>, nulls: Option<NullBuffer>) -> ArrayRef {
    let field = |(index, array): (usize, &ArrayRef)| {
        Field::new(format!("field {index}"), array.data_type().clone(), true)
    };
    let of: Fields = fields.iter().enumerate().map(field).collect();
    Arc::new(StructArray::new(of, fields, nulls))
}

/// Lists of so many elements each.
fn lists(
    lengths: impl Iterator<Item = usize>,
    elements: ArrayRef,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let field = Arc::new(Field::new("item", elements.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), elements, nulls))
}

/// A field of every kind of type that kernels encode, and some that they do not.
fn fields(rows: usize) -> Vec<ArrayRef> {
    let mut rng = Rng(11);
    let some = |row: usize, every: usize| !row.is_multiple_of(every);
    let ints = (0..rows).map(|row| some(row, 9).then_some(row as i32 / 40 * 3));
    let prices: Float64Array = (0..rows).map(|_| rng.below(90_000) as f64 / 100.0).collect();
    let floats: Float32Array = (0..rows).map(|row| Some((row as f32).sin())).collect();
    let texts: StringArray = (0..rows).map(|row| some(row, 31).then(|| text(row))).collect();
    let repeated: LargeStringArray = (0..rows).map(|row| Some(WORDS[row / 2 % 7])).collect();
    let bits: BooleanArray = (0..rows).map(|row| some(row, 77).then_some(row % 3 == 0)).collect();
    let wide = (0..rows).map(|row| Some(i128::from(row as u64) << (row % 80)));
    let wide: Decimal128Array = wide.collect::<Decimal128Array>();
    let views: StringViewArray = (0..rows).map(|row| some(row, 13).then(|| text(row))).collect();
    let mut binary = FixedSizeBinaryBuilder::new(5);
    for row in 0..rows {
        match some(row, 17) {
            true => binary.append_value(&text(row * 7 + 6).as_bytes()[..5]).unwrap(),
            false => binary.append_null(),
        }
    }
    let halves: ArrayRef = Arc::new(UInt16Array::from_iter_values((0..rows).map(|i| i as u16)));
    vec![
        Arc::new(ints.collect::<Int32Array>()),
        Arc::new(prices),
        Arc::new(floats),
        Arc::new(texts),
        Arc::new(repeated),
        Arc::new(bits),
        Arc::new(wide.with_precision_and_scale(38, 2).unwrap()),
        Arc::new(views),
        Arc::new(binary.finish()),
        halves,
        Arc::new(NullArray::new(rows)),
    ]
}

fn options(effort: Effort, chunk_rows: usize) -> Options {
    Options::default().with_effort(effort).with_chunk_rows(chunk_rows)
}

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Small];

#[test]
fn structs_of_every_type_below_nulls() {
    let rows = 4500;
    let inner = structs(fields(rows), Some(nulls(rows, |row| row % 5 == 3)));
    let outer = structs(vec![inner.clone(), fields(rows).remove(3)], None);
    let below = structs(vec![inner, outer], Some(nulls(rows, |row| row / 100 % 4 == 1)));
    for engine in engines() {
        for effort in EFFORTS {
            check(&engine, &below, &options(effort, 2048));
        }
        // Not from the first row on, and short chunks only.
        check(&engine, &below.slice(777, 3001), &options(Effort::Balanced, 1024));
        check(&engine, &below.slice(3, 900), &options(Effort::Balanced, 1024));
    }
}

#[test]
fn leaves_of_more_values_than_a_chunk() {
    let count = 131_072 + 5000;
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter((0..count as i64).map(|i| (i % 11 != 0).then_some(i * i))));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter((0..count).map(|i| (i % 40 != 0).then(|| text(i)))));
    let prices: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..count).map(|i| (i % 7919) as f64 / 8.0)));
    let lengths = || (0..count / 25).map(|_| 25).chain([count % 25]);
    let rows = count / 25 + 1;
    for engine in engines() {
        for elements in [numbers.clone(), texts.clone(), prices.clone()] {
            let lists = lists(lengths(), elements, Some(nulls(rows, |row| row % 1000 == 7)));
            check(&engine, &lists, &options(Effort::Balanced, 131_072));
        }
        let bits: ArrayRef =
            Arc::new(BooleanArray::from_iter((0..count).map(|i| Some(i % 7 == 0))));
        let field = Arc::new(Field::new("item", DataType::Boolean, true));
        let fixed = FixedSizeListArray::new(field, 8, bits.slice(0, count / 8 * 8), None);
        check(&engine, &(Arc::new(fixed) as ArrayRef), &options(Effort::Balanced, 131_072));
    }
}

#[test]
fn leaves_around_a_vector_and_a_chunk() {
    let of = |count: usize, all_null: bool| -> ArrayRef {
        let numbers = (0..count as i64).map(|i| (!all_null && i % 3 != 0).then_some(i / 100));
        let texts = (0..count).map(|i| (!all_null && i % 5 != 0).then(|| text(i)));
        let bits = (0..count).map(|i| (!all_null).then_some(i % 2 == 0));
        structs(
            vec![
                Arc::new(numbers.collect::<Int64Array>()),
                Arc::new(texts.collect::<StringArray>()),
                Arc::new(bits.collect::<BooleanArray>()),
            ],
            None,
        )
    };
    for engine in engines() {
        for count in [1023, 1024, 1025, 131_071, 131_072, 131_073] {
            let lists = lists([count, 0, 0].into_iter(), of(count, false), None);
            check(&engine, &lists, &options(Effort::Balanced, 131_072));
        }
        check(&engine, &of(2500, true), &options(Effort::Balanced, 1024));
    }
}

/// Rows of views may be the same elements, and lists begin anywhere among theirs.
#[test]
fn elements_that_are_shared_or_left_out() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(text)));
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let rows = 2000;
    let views = ListViewArray::new(
        item.clone(),
        ScalarBuffer::from_iter((0..rows).map(|row| row % 40)),
        ScalarBuffer::from_iter((0..rows).map(|row| row % 7)),
        texts.clone(),
        None,
    );
    let offsets = OffsetBuffer::new((0..=rows).map(|row| 700 + row).collect::<Vec<i32>>().into());
    let some = ListArray::new(item, offsets, texts, Some(nulls(2000, |row| row % 2 == 0)));
    for engine in engines() {
        for array in [Arc::new(views.clone()) as ArrayRef, Arc::new(some.clone())] {
            check(&engine, &array, &options(Effort::Balanced, 131_072));
            check(
                &engine,
                &array.slice(5, 1500),
                &options(Effort::Balanced, 1024).with_verify(true),
            );
        }
    }
}

#[test]
fn lists_of_all_kinds() {
    let rows = 2600;
    let mut rng = Rng(5);
    let lengths: Vec<usize> = (0..rows).map(|row| (rng.below(4) as usize) * (row % 3)).collect();
    let count = lengths.iter().sum();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..count).map(text)));
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let offsets = OffsetBuffer::<i64>::from_lengths(lengths.iter().copied());
    let large = LargeListArray::new(item.clone(), offsets, texts.clone(), None);
    let starts: Vec<i32> = (0..rows as i32).rev().map(|row| row % 500).collect();
    let sizes: Vec<i32> = (0..rows as i32).map(|row| row % 4).collect();
    let views = ListViewArray::new(
        item,
        ScalarBuffer::from(starts),
        ScalarBuffer::from(sizes),
        texts.clone(),
        Some(nulls(rows, |row| row % 6 == 0)),
    );
    let keys = texts.clone();
    let values: ArrayRef = Arc::new(Int16Array::from_iter((0..count).map(|i| Some(i as i16 / 9))));
    let entries: Fields = vec![
        Field::new("keys", DataType::Utf8, false),
        Field::new("values", DataType::Int16, true),
    ]
    .into();
    let entries = StructArray::new(entries, vec![keys, values], None);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
    let map = MapArray::new(field, offsets, entries, Some(nulls(rows, |row| row == 100)), false);
    let nested = lists(lengths.iter().copied(), structs(fields(count), None), None);
    let arrays: [ArrayRef; 4] = [Arc::new(large), Arc::new(views), Arc::new(map), nested];
    for engine in engines() {
        for array in &arrays {
            check(&engine, array, &options(Effort::Balanced, 1024));
            check(&engine, array, &options(Effort::Small, 131_072));
        }
    }
}

#[test]
fn dictionaries_and_runs() {
    let rows = 5000;
    let keys = Int32Array::from_iter((0..rows).map(|i| (i % 8 != 5).then_some(i * 37 % 1500)));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..1500).map(text)));
    let keyed: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
    let mut runs = PrimitiveRunBuilder::<Int32Type, Int64Type>::new();
    (0..rows).for_each(|row| runs.append_option((row % 90 > 3).then_some(i64::from(row) / 2)));
    let runs: ArrayRef = Arc::new(runs.finish());
    let both = structs(vec![keyed.clone(), runs.clone()], None);
    for engine in engines() {
        for array in [&keyed, &runs, &both] {
            check(&engine, array, &options(Effort::Balanced, 131_072));
            check(&engine, array, &options(Effort::Fast, 3072));
        }
    }
}

#[test]
fn options_and_ways_of_compressing() {
    let rows = 3000;
    let lists = lists((0..rows).map(|row| row % 3), fields(rows).remove(3), None);
    let nested = structs(vec![lists, fields(rows).remove(1)], Some(nulls(rows, |row| row == 9)));
    let schema = Schema::new(vec![
        Field::new("nested", nested.data_type().clone(), true),
        Field::new("flat", DataType::Int32, true),
    ]);
    let columns = vec![nested.clone(), fields(rows).remove(0)];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    for engine in engines() {
        // Arrays that may not be taken apart are carried as Arrow IPC, whatever they are part of.
        for forbidden in [Encoding::List, Encoding::Struct, Encoding::Lz] {
            check(&engine, &nested, &Options::default().without(forbidden));
        }
        let bare = Options::default().with_encodings([Encoding::Struct, Encoding::List]);
        check(&engine, &nested, &bare.with_chunk_rows(1024));
        let options = Options::default().with_verify(true).with_chunk_rows(2048);
        let expected = compress(&batch, &options).unwrap();
        let what = || format!("{:?}", engine.device());
        assert_same_bytes(&engine.compress(&batch, &options).unwrap(), &expected, what);
        let on_device = engine.compress_to_device(&batch, &options).unwrap();
        assert_same_bytes(&on_device.download().unwrap(), &expected, what);
        let none = batch.slice(0, 0);
        let expected = compress(&none, &options).unwrap();
        assert_same_bytes(&engine.compress(&none, &options).unwrap(), &expected, what);
    }
}

/// Nulls of columns whose values only the CPU reads, logical ones among them.
#[test]
fn nulls_are_tested_on_both_engines() {
    let rows = 3000;
    let numbers = || Arc::new(Int32Array::from_iter_values(0..rows as i32)) as ArrayRef;
    for (case, array) in carried_arrays(rows).into_iter().enumerate() {
        let columns = [("x", array.clone(), true), ("n", numbers(), false)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
        let filters = [
            col("x").is_null(),
            col("x").is_not_null(),
            col("x").is_not_null().and(col("n").lt(1500)),
            col("n").gt_eq(700),
        ];
        for engine in engines() {
            let on_device = engine.upload(&packed).unwrap();
            for (index, filter) in filters.iter().enumerate() {
                // A kernel for a query takes long to compile.
                if index >= 2 && thinned(&engine, case + index, 8) {
                    continue;
                }
                let what = || format!("{filter} of {}", array.data_type());
                let expected = Scan::new(&packed).filter(filter.clone());
                let mask = expected.mask(&Engine::cpu()).unwrap();
                let counted = |scan: &Scan<'_>, engine: &Engine| {
                    scan.aggregate(&[count(col("x")), count_rows()], engine).unwrap()
                };
                for scan in [Scan::on_device(&on_device), Scan::new(&packed)] {
                    let scan = scan.filter(filter.clone());
                    assert_eq!(scan.mask(&engine).unwrap(), mask, "{}", what());
                    if index >= 2 {
                        let found = counted(&scan, &engine);
                        assert_eq!(found, counted(&expected, &Engine::cpu()), "{}", what());
                    }
                    let error = scan.gather(&["x"], &engine).unwrap_err();
                    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
                }
            }
        }
    }
}
