//! Nested arrays. Their leaves are of encodings that have files of their own.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use lanepack::{Encoding, Options};

use super::{batch, golden, nulls, texts};

fn numbers(len: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..len as i64).map(|row| row * row % 1000)))
}

fn item(array: &ArrayRef) -> Arc<Field> {
    Arc::new(Field::new("item", array.data_type().clone(), true))
}

#[test]
fn structs() {
    let dates = Date32Array::new((0..1500).map(|row| 9000 + row % 365).collect(), nulls(1500));
    let inner = StructArray::new(
        Fields::from(vec![
            Field::new("date", DataType::Date32, true),
            Field::new("flag", DataType::Boolean, false),
        ]),
        vec![
            Arc::new(dates),
            Arc::new(BooleanArray::from_iter((0..1500).map(|row| Some(row % 3 == 0)))),
        ],
        None,
    );
    let fixed: Vec<u8> = (0..1500_usize * 3).map(|at| (at / 30) as u8).collect();
    let outer = StructArray::new(
        Fields::from(vec![
            Field::new("number", DataType::Int64, false),
            Field::new("text", DataType::Utf8, false),
            Field::new("fixed", DataType::FixedSizeBinary(3), false),
            Field::new("inner", inner.data_type().clone(), true),
        ]),
        vec![
            numbers(1500),
            Arc::new(StringArray::from(texts(1500))),
            Arc::new(FixedSizeBinaryArray::new(3, fixed.into(), None)),
            Arc::new(inner),
        ],
        nulls(1500),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("outer", Arc::new(outer)),
        ("empty", Arc::new(StructArray::new_empty_fields(1500, nulls(1500)))),
    ];
    golden("struct", &Options::default(), &batch(columns));
}

#[test]
fn lists() {
    let elements = numbers(3000);
    let lengths = || (0..1100).map(|row| row % 5);
    let list = ListArray::new(
        item(&elements),
        OffsetBuffer::from_lengths(lengths()),
        elements.clone(),
        nulls(1100),
    );
    let view = ListViewArray::new(
        item(&elements),
        ScalarBuffer::from_iter((0..1100).map(|row| 1099 - row)),
        ScalarBuffer::from_iter((0..1100).map(|row| row % 3)),
        elements.clone(),
        nulls(1100),
    );
    let inner: ArrayRef = Arc::new(list.clone());
    let lists = LargeListArray::new(
        item(&inner),
        OffsetBuffer::from_lengths((0..1100).map(|row| (row + 1) % 2)),
        inner,
        None,
    );
    let entries = StructArray::new(
        Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Int64, true),
        ]),
        vec![Arc::new(StringArray::from(texts(3000))), elements],
        None,
    );
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map =
        MapArray::new(field, OffsetBuffer::from_lengths(lengths()), entries, nulls(1100), false);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("list", Arc::new(list)),
        ("view", Arc::new(view)),
        ("lists", Arc::new(lists)),
        ("map", Arc::new(map)),
    ];
    golden("list", &Options::default(), &batch(columns));
}

#[test]
fn elements_in_pieces() {
    const LEN: usize = 280_000;
    let words = ["north", "", "north-north-east"];
    let elements: [ArrayRef; 3] = [
        Arc::new(Int32Array::from_iter_values((0..LEN as i32).map(|row| row / 20_000))),
        Arc::new(StringArray::from_iter_values((0..LEN).map(|row| words[row / 100_000]))),
        Arc::new(Int8Array::from_iter((0..LEN).map(|row| (row > 135_000).then_some(1)))),
    ];
    let lists = elements.map(|elements| {
        let lengths = OffsetBuffer::from_lengths([150_000, 0, 1, LEN - 150_001]);
        Arc::new(ListArray::new(item(&elements), lengths, elements, None)) as ArrayRef
    });
    let names = ["numbers", "texts", "nulls"];
    let options = Options::default().with_encodings(Encoding::ALL.iter().copied());
    let options = options.without(Encoding::Rle);
    golden("list_pieces", &options, &batch(names.into_iter().zip(lists).collect()));
}

#[test]
fn lists_of_one_length() {
    let [elements, nothing] = [numbers(3300), numbers(0)];
    let fixed = FixedSizeListArray::new(item(&elements), 3, elements, nulls(1100));
    let nothing = FixedSizeListArray::new(item(&nothing), 0, nothing, nulls(1100));
    let columns: Vec<(&str, ArrayRef)> =
        vec![("fixed", Arc::new(fixed)), ("nothing", Arc::new(nothing))];
    golden("fixed_list", &Options::default(), &batch(columns));
}

#[test]
fn dictionary_arrays() {
    let values =
        StringArray::from(vec![Some("yak"), None, Some("unused"), Some("ant"), Some("yak")]);
    let keys = |row: usize| [0_u8, 3, 4, 1][row * row % 4];
    let keys = UInt8Array::new((0..1100).map(keys).collect(), nulls(1100));
    let wide = Int64Array::from_iter_values((0..1100).map(|row| row * 7 % 100));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("texts", Arc::new(DictionaryArray::new(keys, Arc::new(values)))),
        ("numbers", Arc::new(DictionaryArray::new(wide, numbers(100)))),
    ];
    golden("keys", &Options::default(), &batch(columns));
}

#[test]
fn runs() {
    let ends = Int32Array::from_iter_values((1..=200).map(|run| run * 6 + run % 3));
    let values =
        Float64Array::from_iter((0..200).map(|run| (run % 9 > 0).then_some(run as f64 / 4.0)));
    let runs = RunArray::<Int32Type>::try_new(&ends, &values).unwrap();
    let sliced = RunArray::<Int32Type>::try_new(&ends, &values).unwrap();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("runs", Arc::new(runs.slice(0, 1100))), ("sliced", Arc::new(sliced.slice(64, 1100)))];
    golden("run_ends", &Options::default().without(Encoding::AlpRd), &batch(columns));
}
