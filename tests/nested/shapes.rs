//! What each shape becomes, where it comes back exactly, and when it is carried instead.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use lanepack::*;

use super::common::{Nulls, Shape, array_of, carried_arrays};

fn round_trip(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let (field, storage) = compress_array(array, options).unwrap().to_arrow("column");
    let column = CompressedColumn::try_from_arrow(&field, &storage).unwrap();
    let back = column.decompress().unwrap();
    back.to_data().validate_full().unwrap();
    assert_eq!(back.data_type(), array.data_type());
    assert!(&back == array, "{}", column.explain());
    column
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

fn numbers(len: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..len as i64).map(|row| row * row % 1000)))
}

fn list(lengths: impl IntoIterator<Item = usize>, elements: ArrayRef) -> ListArray {
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::new(item(elements.data_type().clone()), offsets, elements, None)
}

#[test]
fn encodings_say_what_the_leaves_became() {
    let prices = (0..3000).map(|row| row as f64 / 100.0);
    let fields = Fields::from(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("price", DataType::Float64, false),
    ]);
    let structs = StructArray::new(
        fields,
        vec![numbers(3000), Arc::new(Float64Array::from_iter_values(prices))],
        None,
    );
    let array: ArrayRef =
        Arc::new(list((0..1000).map(|row| row % 7), Arc::new(structs.slice(0, 2997))));
    let column = round_trip(&array, &Options::default().with_effort(Effort::Fast));
    assert_eq!(column.encoding().to_string(), "list(ffor, struct(ffor, alp))");
    assert!(column.explain().contains("list(ffor, struct(ffor, alp))"), "{}", column.explain());
}

#[test]
fn without_its_encoding_an_array_is_carried() {
    for array in carried_arrays(1000) {
        let nested = Encoding::NESTED.iter();
        let options = Options::default().without(Encoding::Lz);
        let options = nested.fold(options, |options, one| options.without(*one));
        assert_eq!(round_trip(&array, &options).encoding().to_string(), "plain");
        let own = round_trip(&array, &Options::default()).encoding().to_string();
        let has_none = matches!(
            array.data_type(),
            DataType::Union(..) | DataType::Interval(_) | DataType::Null
        );
        assert_eq!(
            ["plain", "lz"].contains(&own.as_str()),
            has_none,
            "{}: {own}",
            array.data_type()
        );
    }
}

#[test]
fn leaves_are_smaller_than_carried() {
    let fields = Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ]);
    let text = array_of(&DataType::Utf8, 20_000, Shape::Narrow, Nulls::Random);
    let array: ArrayRef = Arc::new(StructArray::new(
        fields,
        vec![numbers(20_000), text],
        Nulls::Random.bitmap(20_000),
    ));
    let size = |options: &Options| round_trip(&array, options).compressed_bytes();
    let carried = size(&Options::default().with_encodings([]));
    let nested = size(&Options::default());
    assert!(nested * 3 < carried, "{nested} bytes, {carried} carried");
}

/// A struct, a list and a fixed list of this leaf inside of a struct that is null here and
/// there, and what lies there follows from `seed`.
fn hidden(data_type: &DataType, seed: usize) -> ArrayRef {
    const LEN: usize = 2000;
    let nulls = Nulls::Random.bitmap(LEN).unwrap();
    // Values where they show, of another array where not.
    let mixed = |len: usize, shows: &dyn Fn(usize) -> bool| {
        let shown = array_of(data_type, len, Shape::Narrow, Nulls::None);
        let other = array_of(data_type, len + seed, Shape::Random, Nulls::None).slice(seed, len);
        let mask = BooleanArray::from_iter((0..len).map(|row| Some(shows(row))));
        arrow_select::zip::zip(&mask, &shown, &other).unwrap()
    };
    let leaf = mixed(LEN, &|row| nulls.is_valid(row));
    // Lists of three where they show, else of any length.
    let length = |row: usize| if nulls.is_valid(row) { 3 } else { (row * seed) % 5 };
    let owners: Vec<usize> = (0..LEN).flat_map(|row| vec![row; length(row)]).collect();
    let nth: Vec<usize> = {
        let mut shown = 0;
        let mut next = |row: &usize| {
            shown += usize::from(nulls.is_valid(*row));
            shown
        };
        owners.iter().map(&mut next).collect()
    };
    let shown = array_of(data_type, LEN * 5, Shape::Narrow, Nulls::None);
    let indices =
        UInt32Array::from_iter_values(owners.iter().zip(&nth).map(|(row, nth)| {
            (if nulls.is_valid(*row) { *nth } else { (row * seed) % LEN }) as u32
        }));
    let elements = arrow_select::take::take(&shown, &indices, None).unwrap();
    let lists = list((0..LEN).map(length), elements);
    let fixed = mixed(2 * LEN, &|at| nulls.is_valid(at / 2));
    let fixed = FixedSizeListArray::new(item(data_type.clone()), 2, fixed, None);
    // Inner nulls that do not show.
    let hidden = |row: usize| nulls.is_null(row) && (row + seed).is_multiple_of(3);
    let inner = NullBuffer::new(BooleanBuffer::from_iter((0..LEN).map(|row| !hidden(row))));
    let leaf_with_nulls =
        make_array(leaf.to_data().into_builder().nulls(Some(inner.clone())).build().unwrap());
    let inner = StructArray::new(
        vec![Field::new("leaf", data_type.clone(), true)].into(),
        vec![leaf.clone()],
        Some(inner),
    );
    let keys = |row: usize| if nulls.is_valid(row) { row % 10 } else { (row * seed) % 50 };
    let keys = Int16Array::from_iter_values((0..LEN).map(|row| keys(row) as i16));
    let dictionary =
        DictionaryArray::new(keys, array_of(data_type, 50, Shape::Narrow, Nulls::None));
    // Runs some of which end one row later, where it does not show.
    let ends = (1..=LEN / 97).map(|run| {
        let end = run * 97;
        (if nulls.is_null(end) { end + seed % 2 } else { end }) as i32
    });
    let ends: Vec<i32> = ends.chain([LEN as i32]).collect();
    let values = Int32Array::from_iter_values(0..ends.len() as i32);
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(ends), &values).unwrap();
    let arrays: Vec<ArrayRef> = vec![
        leaf,
        leaf_with_nulls,
        Arc::new(lists),
        Arc::new(fixed),
        Arc::new(inner),
        Arc::new(dictionary),
        Arc::new(runs),
    ];
    let fields: Vec<Field> = (arrays.iter().enumerate())
        .map(|(at, array)| Field::new(format!("field {at}"), array.data_type().clone(), true))
        .collect();
    Arc::new(StructArray::new(fields.into(), arrays, Some(nulls)))
}

#[test]
fn what_a_null_hides_does_not_change_the_bytes() {
    let types = [
        DataType::Boolean,
        DataType::Int32,
        DataType::Float64,
        DataType::Decimal128(20, 2),
        DataType::Utf8,
        DataType::BinaryView,
        DataType::FixedSizeBinary(5),
    ];
    for data_type in types {
        let [first, second] = [1, 4].map(|seed| hidden(&data_type, seed));
        assert!(*first == *second, "{data_type}: of one value each");
        for encodings in [Options::default().encodings(), EncodingSet::ALL] {
            let options = Options::default().with_encodings(encodings).with_chunk_rows(1024);
            let [first, second] = [&first, &second].map(|array| round_trip(array, &options));
            for (first, second) in first.chunks().iter().zip(second.chunks()) {
                assert!(first.body().as_slice() == second.body().as_slice(), "{data_type}");
                assert_eq!(first.header().as_slice(), second.header().as_slice(), "{data_type}");
            }
        }
    }
}

#[test]
fn fields_have_no_bitmap_because_of_their_struct() {
    let fields = vec![Field::new("number", DataType::Int64, true)].into();
    let nulls = Nulls::Random.bitmap(10_000);
    let hidden =
        make_array(numbers(10_000).to_data().into_builder().nulls(nulls.clone()).build().unwrap());
    let array: ArrayRef = Arc::new(StructArray::new(fields, vec![hidden], nulls));
    let column = round_trip(&array, &Options::default().with_effort(Effort::Fast));
    assert_eq!(column.chunks()[0].header().len(), 48 + 3 * 32 + 3 * 8, "struct, validity, ffor");
}

#[test]
fn fields_that_are_not_nullable_may_hide_nulls_at_any_depth() {
    let nulls = Nulls::Alternating.bitmap(100);
    let mut array: ArrayRef =
        make_array(numbers(100).to_data().into_builder().nulls(nulls.clone()).build().unwrap());
    for depth in 0..4 {
        let field = |data_type: &DataType| Field::new("inner", data_type.clone(), false);
        array = match depth {
            1 => {
                let keys = Int8Array::new(vec![0; 100].into(), nulls.clone());
                let all = StructArray::new(
                    vec![field(array.data_type())].into(),
                    vec![array],
                    nulls.clone(),
                );
                let dictionary = DictionaryArray::new(keys, numbers(1));
                Arc::new(StructArray::new(
                    vec![field(all.data_type()), field(dictionary.data_type())].into(),
                    vec![Arc::new(all), Arc::new(dictionary)],
                    nulls.clone(),
                ))
            }
            2 => Arc::new(FixedSizeListArray::new(
                Arc::new(field(array.data_type())),
                1,
                array,
                nulls.clone(),
            )),
            _ => Arc::new(StructArray::new(
                vec![field(array.data_type())].into(),
                vec![array],
                nulls.clone(),
            )),
        };
        for options in [Options::default(), Options::default().with_encodings([Encoding::Struct])] {
            round_trip(&array, &options);
        }
    }
}

/// A dictionary without values, all of whose rows are null because of their struct.
#[test]
fn keys_below_nulls_need_no_dictionary() {
    let keys = Int8Array::new(vec![7; 50].into(), Some(NullBuffer::new_null(50)));
    let dictionary = DictionaryArray::new(keys, new_empty_array(&DataType::Utf8));
    let fields = vec![Field::new("keys", dictionary.data_type().clone(), true)].into();
    let array: ArrayRef = Arc::new(StructArray::new(
        fields,
        vec![Arc::new(dictionary)],
        Some(NullBuffer::new_null(50)),
    ));
    round_trip(&array, &Options::default());
}

#[test]
fn dictionaries_come_back_whole_and_in_order() {
    let values = StringArray::from(vec![Some("zebra"), None, Some("ant"), Some("zebra"), Some("")]);
    let keys = UInt8Array::from(vec![Some(3), None, Some(0), Some(1), Some(3)]);
    let array: ArrayRef = Arc::new(DictionaryArray::new(keys.clone(), Arc::new(values.clone())));
    let column = round_trip(&array, &Options::default());
    assert!(column.encoding().to_string().starts_with("keys("), "{}", column.explain());
    let back = column.decompress().unwrap();
    let back = back.as_dictionary::<UInt8Type>();
    assert_eq!(back.keys(), &keys);
    assert_eq!(back.values().as_string::<i32>(), &values);
    assert_eq!(column.null_count(), 2, "a null key, and a key of a null");
}

#[test]
fn runs_come_back_as_they_were() {
    let ends = Int64Array::from(vec![3, 4, 1000, 1024, 2000]);
    let values = StringArray::from(vec![Some("a"), None, Some("a"), Some("a"), Some("b")]);
    let runs = RunArray::<Int64Type>::try_new(&ends, &values).unwrap();
    let array: ArrayRef = Arc::new(runs);
    let column = round_trip(&array, &Options::default());
    assert!(
        column.encoding().to_string().starts_with("run_ends("),
        "{}",
        column.encoding().to_string()
    );
    let back = column.decompress().unwrap();
    let back = back.as_run::<Int64Type>();
    assert_eq!(back.run_ends().values(), ends.values());
    assert_eq!(back.values().as_string::<i32>(), &values);
    // In chunks, of which one ends inside a run; and sliced.
    round_trip(&array, &Options::default().with_chunk_rows(1024));
    round_trip(&array.slice(2, 1500), &Options::default().with_chunk_rows(1024));
}

#[test]
fn structs_without_fields_and_lists_of_nothing_round_trip() {
    for nulls in [None, Nulls::Random.bitmap(1500)] {
        let empty: ArrayRef = Arc::new(StructArray::new_empty_fields(1500, nulls.clone()));
        let nothing: ArrayRef = Arc::new(
            FixedSizeListArray::try_new_with_length(
                item(DataType::Utf8),
                0,
                new_empty_array(&DataType::Utf8),
                nulls.clone(),
                1500,
            )
            .unwrap(),
        );
        let mut lists = list(vec![0; 1500], new_empty_array(&DataType::Float64));
        if let Some(nulls) = nulls.clone() {
            let (item, offsets, elements, _) = lists.into_parts();
            lists = ListArray::new(item, offsets, elements, Some(nulls));
        }
        let width = DataType::FixedSizeBinary(0);
        let without_bytes = arrow_data::ArrayData::builder(width.clone())
            .len(1500)
            .nulls(nulls.clone())
            .add_buffer(Buffer::from_vec(Vec::<u8>::new()));
        let without_bytes = StructArray::new(
            vec![Field::new("nothing", width, true)].into(),
            vec![make_array(without_bytes.build().unwrap())],
            nulls.clone(),
        );
        let of_empty = Arc::new(list((0..1500).map(|_| 1), empty.clone())) as ArrayRef;
        for array in [empty, nothing, Arc::new(lists), of_empty, Arc::new(without_bytes)] {
            for options in [
                Options::default().with_chunk_rows(1024),
                Options::default().with_encodings(Encoding::ALL.iter().copied().skip(2)),
            ] {
                assert_ne!(round_trip(&array, &options).encoding().to_string(), "plain");
            }
        }
    }
}

/// Elements of more vectors than locators and places can count.
#[test]
fn lists_have_more_elements_than_a_chunk_has_rows() {
    const LEN: usize = 300_000;
    let floats = (0..LEN).map(|row| if row % 300 == 0 { f32::NAN } else { row as f32 / 10.0 });
    let text = (0..LEN).map(|row| (row % 5 > 0).then(|| format!("text number {}", row % 1000)));
    let elements: Vec<ArrayRef> = vec![
        numbers(LEN),
        Arc::new(BooleanArray::from_iter((0..LEN).map(|row| Some(row % 3 == 0)))),
        Arc::new(Float32Array::from_iter_values(floats)),
        Arc::new(StringArray::from_iter(text.clone())),
        Arc::new(StringViewArray::from_iter(text)),
        array_of(&DataType::Int16, LEN, Shape::Outliers, Nulls::Random),
        array_of(&DataType::Decimal128(38, 4), LEN, Shape::Narrow, Nulls::Random),
        array_of(&DataType::FixedSizeBinary(5), LEN, Shape::Narrow, Nulls::Random),
        Arc::new(list((0..LEN).map(|row| row % 2), numbers(LEN / 2))),
    ];
    for elements in elements {
        let lengths = [0, 1, 140_000, 0, 3, LEN - 140_004 - 7, 7];
        let array: ArrayRef = Arc::new(list(lengths, elements.clone()));
        for encodings in [Options::default().encodings(), EncodingSet::ALL] {
            let options = Options::default().with_encodings(encodings);
            let column = round_trip(&array, &options);
            // Bits are as small without, and so may others be.
            let is_cut = column.encoding().to_string().contains("pieces(");
            assert!(
                is_cut || elements.data_type() != &DataType::Int64,
                "{}",
                column.encoding().to_string()
            );
            for row in 0..array.len() {
                let value = column.value(row).unwrap().into_inner();
                assert!(*value == *array.slice(row, 1), "row {row} of {}", column.encoding());
            }
        }
        // Without pieces they are plain.
        let options = Options::default().with_encodings([Encoding::List, Encoding::Ffor]);
        assert!(!round_trip(&array, &options).encoding().to_string().contains("pieces("));
    }
}

/// Views may share elements without end; these are not repeated.
#[test]
fn views_that_share_elements_are_carried() {
    let starts = ScalarBuffer::from(vec![0_i32; 1000]);
    let lengths = ScalarBuffer::from(vec![1000_i32; 1000]);
    let elements = numbers(1000);
    let array: ArrayRef =
        Arc::new(ListViewArray::new(item(DataType::Int64), starts, lengths, elements, None));
    let tree = round_trip(&array, &Options::default()).encoding().to_string();
    assert!(["plain", "lz"].contains(&tree.as_str()), "{tree}");
}

#[test]
fn types_nested_deeper_than_headers_are_carried() {
    let mut array = numbers(10);
    for depth in 0..40 {
        let fields = vec![Field::new("inner", array.data_type().clone(), true)].into();
        array = Arc::new(StructArray::new(fields, vec![array], None));
        let encoding = round_trip(&array, &Options::default()).encoding().to_string();
        assert_eq!(encoding == "plain", depth > 14, "{depth}: {encoding}");
    }
}

/// Nulls as bytes take more levels than a bitmap does: not where these are short.
#[test]
fn rare_nulls_do_not_make_trees_deeper() {
    let rows = 20_000;
    for is_valid in [|row: i64| row % 4001 != 7, |row: i64| row / 1700 % 2 == 0] {
        let values = (0..rows).map(|row| is_valid(row).then_some(row * row));
        let mut array = Arc::new(Int64Array::from_iter(values)) as ArrayRef;
        for depth in 0..20 {
            let fields = vec![Field::new("inner", array.data_type().clone(), true)].into();
            array = Arc::new(StructArray::new(fields, vec![array], None));
            let encoding = round_trip(&array, &Options::default()).encoding().to_string();
            let without = Options::default().without(Encoding::Bits);
            assert_eq!(encoding, round_trip(&array, &without).encoding().to_string(), "{depth}");
            assert!(depth > 12 || encoding != "plain", "{depth}");
        }
    }
}

#[test]
fn structs_of_more_fields_than_a_byte_counts_round_trip() {
    let fields: Vec<Field> =
        (0..1000).map(|at| Field::new(format!("{at}"), DataType::Int64, false)).collect();
    let array: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![numbers(50); 1000], None));
    assert!(round_trip(&array, &Options::default()).encoding().to_string().starts_with("struct("));
}

#[test]
fn offsets_that_begin_anywhere_and_maps_round_trip() {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![5_i64, 5, 9, 9, 20]));
    let array: ArrayRef =
        Arc::new(LargeListArray::new(item(DataType::Int64), offsets, numbers(30), None));
    round_trip(&array, &Options::default());
    let keys = Arc::new(StringArray::from(vec!["a", "b", "c", "d"])) as ArrayRef;
    let entries = StructArray::new(
        Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Int64, true),
        ]),
        vec![keys, numbers(4)],
        None,
    );
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let nulls = NullBuffer::from(vec![true, false, true]);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![1, 2, 3, 4]));
    let map = MapArray::new(field, offsets, entries, Some(nulls), true);
    let array: ArrayRef = Arc::new(map);
    assert!(
        round_trip(&array, &Options::default())
            .encoding()
            .to_string()
            .starts_with("list(plain, struct(")
    );
    // Lists whose offsets lie in a longer buffer.
    let words = Buffer::from_vec((0..=100).map(|at| at * 2).collect::<Vec<i32>>());
    let offsets = OffsetBuffer::new(ScalarBuffer::new(words, 10, 50));
    let array: ArrayRef =
        Arc::new(ListArray::new(item(DataType::Int64), offsets, numbers(200), None));
    round_trip(&array, &Options::default());
    round_trip(&array.slice(3, 30), &Options::default());
}
