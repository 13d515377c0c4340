//! Columns of Arrow arrays, nested or carried as Arrow IPC: in several chunks,
//! through files, and without dragging other rows along.

mod common;

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int16Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use common::*;
use lanepack::{CompressedColumn, Encoding, Options, columns, compress_array, ipc};

fn small_chunks() -> Options {
    Options::default().with_chunk_rows(1024)
}

/// Through chunks and the Arrow storage and back: nested, and carried.
fn round_trips(array: &ArrayRef) -> [(CompressedColumn, ArrayRef); 2] {
    let carried = small_chunks().with_encodings(Encoding::ON_GPUS.iter().copied());
    [small_chunks(), carried].map(|options| {
        let (field, storage) = compress_array(array, &options).unwrap().to_arrow("column");
        let column = CompressedColumn::try_from_arrow(&field, &storage).unwrap();
        let back = column.decompress().unwrap();
        (column, back)
    })
}

/// Keys of 100 values that are in no order.
fn dictionary(values: ArrayRef, rows: usize) -> ArrayRef {
    let keys =
        Int8Array::from_iter((0..rows).map(|row| (row % 7 > 0).then_some((row % 100) as i8)));
    Arc::new(DictionaryArray::<Int8Type>::new(keys, values))
}

fn hundred_values() -> Vec<ArrayRef> {
    let texts: Vec<String> = (0..100).map(|i| format!("value {}", i * 37 % 100)).collect();
    vec![
        Arc::new(StringArray::from_iter_values(&texts)),
        Arc::new(StringViewArray::from_iter_values(&texts)),
        Arc::new(
            FixedSizeBinaryArray::try_from_iter(texts.iter().map(|text| [text.len() as u8; 3]))
                .unwrap(),
        ),
        Arc::new(Int64Array::from_iter_values((0..100).rev())),
    ]
}

#[test]
fn dictionaries_keep_their_values_and_order_over_chunks() {
    for values in hundred_values() {
        let array = dictionary(values.clone(), 5000);
        for (_, back) in round_trips(&array) {
            assert_eq!(&back, &array);
            let back = cast::AsArray::as_dictionary::<Int8Type>(&back);
            assert_eq!(back.values(), &values);
        }
    }
}

#[test]
fn nested_dictionaries_keep_their_values_and_order_over_chunks() {
    for values in hundred_values() {
        let inner = dictionary(values.clone(), 10_000);
        let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
        let list: ArrayRef =
            Arc::new(FixedSizeListArray::new(item.clone(), 2, inner.clone(), None));
        for (_, back) in round_trips(&list) {
            assert_eq!(&back, &list);
            let inner_back = cast::AsArray::as_fixed_size_list(&back).values().clone();
            assert_eq!(cast::AsArray::as_dictionary::<Int8Type>(&inner_back).values(), &values);
        }

        let structs: ArrayRef =
            Arc::new(StructArray::new(vec![item].into(), vec![inner.slice(0, 5000)], None));
        for (_, back) in round_trips(&structs) {
            assert_eq!(&back, &structs);
        }
    }
}

#[test]
fn batches_whose_dictionaries_exceed_the_keys_together_round_trip_through_files() {
    let batches: Vec<RecordBatch> = (0..4)
        .map(|batch| {
            let values = StringArray::from_iter_values((0..120).map(|i| format!("{batch}/{i}")));
            let array = dictionary(Arc::new(values), 300);
            let field = Field::new("d", array.data_type().clone(), true);
            RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
        })
        .collect();
    let mut writer =
        ipc::Writer::file(Vec::new(), &batches[0].schema(), Options::default()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let file = std::io::Cursor::new(writer.into_inner().unwrap());
    let back: Vec<RecordBatch> = ipc::Reader::file(file).unwrap().map(Result::unwrap).collect();
    assert_eq!(back, batches);
}

#[test]
fn run_ends_that_pass_their_type_together_round_trip_through_files() {
    let ends = Int16Array::from_iter_values((1..=20).map(|end| end * 1400));
    let runs = RunArray::<Int16Type>::try_new(&ends, &Int32Array::from_iter_values(0..20)).unwrap();
    let field = Field::new("r", runs.data_type().clone(), true);
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(runs)]).unwrap();
    let mut writer = ipc::Writer::stream(Vec::new(), &batch.schema(), Options::default()).unwrap();
    (0..3).for_each(|_| writer.write(&batch).unwrap());
    let stream = writer.into_inner().unwrap();
    let back: Vec<RecordBatch> =
        ipc::Reader::stream(stream.as_slice()).unwrap().map(Result::unwrap).collect();
    assert_eq!(back, vec![batch; 3]);
}

#[test]
fn nested_views_take_along_their_own_bytes_only() {
    let texts: Vec<String> =
        (0..100_000).map(|i| format!("a text of its own, number {i}")).collect();
    let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
    let item = Arc::new(Field::new("item", DataType::Utf8View, true));
    let list: ArrayRef = Arc::new(FixedSizeListArray::new(item, 1, views, None));
    let raw: usize = texts.iter().map(|text| text.len() + 16).sum();
    for (column, back) in round_trips(&list) {
        assert_eq!(&back, &list);
        assert!(
            column.compressed_bytes() < raw * 12 / 10,
            "{} of {raw} bytes",
            column.compressed_bytes()
        );
    }
}

#[test]
fn carried_columns_count_logical_nulls() {
    for array in carried_arrays(2500) {
        for (column, _) in round_trips(&array) {
            assert_eq!(column.null_count(), array.logical_null_count());
        }
    }
}

#[test]
fn the_order_of_a_dictionary_and_inner_extension_metadata_are_kept() {
    let array = dictionary(hundred_values().remove(0), 10);
    let metadata = [("ARROW:extension:metadata".to_owned(), "alone".to_owned())];
    let field = Field::new("d", array.data_type().clone(), true)
        .with_dict_is_ordered(true)
        .with_metadata(metadata.into());
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(vec![field.clone()])), vec![array]).unwrap();
    let packed = lanepack::compress(&batch, &Options::default()).unwrap();
    let back = columns(&packed).unwrap()[0].field().clone();
    assert_eq!(back.as_ref(), &field);
    assert_eq!(back.dict_is_ordered(), Some(true));
}

#[test]
fn readers_end_at_their_first_error() {
    let array = array_of(&DataType::Int64, 3000, Shape::Random, Nulls::None);
    let field = Field::new("n", DataType::Int64, true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    let mut writer = ipc::Writer::stream(Vec::new(), &batch.schema(), Options::default()).unwrap();
    writer.write(&batch).unwrap();
    let stream = writer.into_inner().unwrap();
    let cut = &stream[..stream.len() - 1000];
    let results: Vec<_> = ipc::Reader::stream(cut).unwrap().take(5).collect();
    assert_eq!(results.len(), 1);
    assert!(results[0].is_err());
}
