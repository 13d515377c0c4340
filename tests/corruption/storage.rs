//! Rules of the storage array and of the extension's metadata.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use lanepack::*;

use super::LIMIT;
use super::damage::{Image, Read, largest_allocation};

const NAME: &str = "ARROW:extension:name";
const METADATA: &str = "ARROW:extension:metadata";

fn integers() -> Image {
    let array = Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
    Image::of(&array, &Options::default())
}

fn with_metadata(key: &str, value: Option<&str>) -> Image {
    let mut image = integers();
    let mut metadata: HashMap<String, String> = image.field.metadata().clone();
    match value {
        Some(value) => metadata.insert(key.to_owned(), value.to_owned()),
        None => metadata.remove(key),
    };
    image.field.set_metadata(metadata);
    image
}

#[test]
fn rejects_fields_without_the_extension() {
    let image = with_metadata(NAME, None);
    assert!(!is_compressed(&image.field));
    image.rejects("not compressed by lanepack: expected extension \"lanepack.column\", found none");
    let image = with_metadata(NAME, Some("arrow.uuid"));
    assert!(!is_compressed(&image.field));
    image.rejects("column \"price\": not compressed by lanepack");
    image.rejects("found arrow.uuid");
    with_metadata(METADATA, None).rejects("expected extension metadata, found none");
}

#[test]
fn rejects_other_versions_in_the_metadata_before_anything_else() {
    for version in ["0", "2", "4294967297"] {
        let json = format!(r#"{{"version": {version}, "type": 7, "new": [{{}}]}}"#);
        let image = with_metadata(METADATA, Some(&json));
        assert!(matches!(image.read(), Err(Error::Version { .. })));
        image.rejects(&format!("column \"price\": format version {version}, this build reads"));
    }
}

#[test]
fn ignores_keys_of_later_versions() {
    let image = with_metadata(METADATA, Some(r#"{"later": [1], "version": 1, "type": "Int64"}"#));
    assert_eq!(image.read().unwrap().len(), 100);
}

#[test]
fn rejects_broken_metadata() {
    for json in [
        "",
        "{",
        "null",
        "[]",
        "1",
        "{}",
        r#"{"version": 1}"#,
        r#"{"version": "1", "type": "Int64"}"#,
        r#"{"version": -1, "type": "Int64"}"#,
        r#"{"version": 1.5, "type": "Int64"}"#,
        r#"{"version": 1, "type": null}"#,
        r#"{"version": 1, "type": "Int63"}"#,
        r#"{"version": 1, "type": ""}"#,
        r#"{"version": 1, "type": "Int64", "schema": "0"}"#,
        r#"{"version": 1, "type": "Int64", "schema": "zz"}"#,
        r#"{"version": 1, "type": "Int64", "schema": ""}"#,
        r#"{"version": 1, "type": "Int64", "schema": "ffffffffffffffffffffffff"}"#,
        r#"{"version": 1, "type": "Int64", "extension_name": 5}"#,
        r#"{"version": 1, "version": 1, "type": "Int64"}"#,
        r#"{"version": 1, "type": "Int64"} x"#,
    ] {
        let image = with_metadata(METADATA, Some(json));
        let found = matches!(image.read(), Err(Error::NotLanepack { .. }));
        assert!(found, "{json}: {}", image.error());
        assert!(
            image.error().starts_with("column \"price\": not compressed by lanepack"),
            "{json}"
        );
        let schema = Schema::new(vec![image.field.clone()]);
        assert!(decompressed_schema(&schema).is_err());
    }
}

#[test]
fn schemas_in_the_metadata_survive_every_flipped_byte() {
    // The metadata of a list's items are not in what a type displays.
    let unit = [("unit".to_owned(), "m".to_owned())].into();
    let item = Field::new("item", DataType::Int32, true).with_metadata(unit);
    let values = Arc::new(Int32Array::from_iter_values(0..10));
    let array = FixedSizeListArray::new(Arc::new(item), 2, values, None);
    let image = Image::of(&(Arc::new(array) as ArrayRef), &Options::default());
    let json: serde_json::Value = serde_json::from_str(&image.field.metadata()[METADATA]).unwrap();
    let digits = json["schema"].as_str().expect("a type that needs its schema").to_owned();
    for at in 0..digits.len() {
        for digit in ["0", "7", "8", "f"] {
            let mut json = json.clone();
            let mut digits = digits.clone();
            digits.replace_range(at..=at, digit);
            json["schema"] = digits.into();
            let mut image = image.clone();
            let mut metadata = image.field.metadata().clone();
            metadata.insert(METADATA.to_owned(), json.to_string());
            image.field.set_metadata(metadata);
            let _ = image.read();
        }
    }
}

#[test]
fn rejects_types_that_the_values_do_not_have() {
    for other in ["UInt64", "Int32", "Utf8", "Null", "Dictionary(Int8, Utf8)", "Boolean"] {
        let json = format!(r#"{{"version": 1, "type": "{other}"}}"#);
        with_metadata(METADATA, Some(&json)).error();
    }
    // The same bounds, so that only the header tells.
    let binary: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"abc"; 9]));
    let mut image = Image::of(&binary, &Options::default());
    let json = r#"{"version": 1, "type": "FixedSizeBinary(4)"}"#;
    image.field.set_metadata(
        [(NAME.to_owned(), EXTENSION_NAME.to_owned()), (METADATA.to_owned(), json.to_owned())]
            .into(),
    );
    image.rejects("bytes");
}

/// The image of a column of no value at all that says it is of another type.
fn disguised(array: &ArrayRef, data_type: &str) -> (Field, StructArray) {
    let (field, storage) = compress_array(array, &Options::default()).unwrap().to_arrow("price");
    let json = serde_json::json!({ "version": 1, "type": data_type }).to_string();
    let mut metadata = field.metadata().clone();
    metadata.insert(METADATA.to_owned(), json);
    (field.with_metadata(metadata), storage)
}

fn read_all(field: &Field, storage: &StructArray) -> Result<ArrayRef> {
    let column = CompressedColumn::try_from_arrow(field, storage)?;
    if !column.is_empty() {
        column.value(0)?;
    }
    column.decompress()
}

#[test]
fn types_that_arrow_has_no_arrays_of_are_errors() {
    let mut wrong = Vec::new();
    for len in [0, 4] {
        let null = Arc::new(NullArray::new(len)) as ArrayRef;
        let bytes = Arc::new(BinaryArray::from_opt_vec(vec![None; len])) as ArrayRef;
        for (array, data_type) in [
            (&null, "Dictionary(Utf8, Utf8)"),
            (&null, "Dictionary(Float32, Int8)"),
            (&null, r#"Map("entries": non-null Int8, unsorted)"#),
            (&null, r#"RunEndEncoded("run_ends": non-null Utf8, "values": Int8)"#),
            (&null, "FixedSizeList(-1 x Int8)"),
            (&null, "List(Dictionary(Utf8, Utf8))"),
            (&null, "List(Time32(ns))"),
            (&bytes, "FixedSizeBinary(-1)"),
            (&bytes, "FixedSizeBinary(-2147483648)"),
        ] {
            let (field, storage) = disguised(array, data_type);
            match catch_unwind(AssertUnwindSafe(|| read_all(&field, &storage))) {
                Ok(Err(_)) => {}
                Ok(Ok(_)) => wrong.push(format!("{len} values of {data_type} are read")),
                Err(_) => wrong.push(format!("{len} values of {data_type} panic")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A type that the metadata give as a schema may say what its text cannot.
#[test]
fn negative_widths_in_a_schema_are_errors() {
    let nulls = Arc::new(BinaryArray::from_opt_vec(vec![None; 4])) as ArrayRef;
    for width in [-1, -5, i32::MIN] {
        let (field, storage) = disguised(&nulls, "Binary");
        let schema = Schema::new(vec![Field::new("", DataType::FixedSizeBinary(width), true)]);
        let mut tracker = arrow_ipc::writer::DictionaryTracker::new(false);
        let message = arrow_ipc::writer::IpcDataGenerator::default()
            .schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &Default::default())
            .ipc_message;
        let digits: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
        let json = serde_json::json!({ "version": 1, "type": "", "schema": digits }).to_string();
        let mut metadata = field.metadata().clone();
        metadata.insert(METADATA.to_owned(), json);
        let field = field.with_metadata(metadata);
        let result = catch_unwind(AssertUnwindSafe(|| read_all(&field, &storage)));
        assert!(matches!(result, Ok(Err(_))), "a width of {width} panics or is read");
    }
}

/// Runs one test of this binary in a process of its own, since what it looks
/// for would end the process. True inside that process.
fn in_its_own_process(test: &str) -> bool {
    if std::env::var_os("LANEPACK_CHILD").is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LANEPACK_CHILD", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} ends its process: {said}");
    false
}

#[test]
fn types_nested_a_hundred_thousand_times_are_an_error() {
    let test = "storage::types_nested_a_hundred_thousand_times_are_an_error";
    if in_its_own_process(test) {
        let nested = "List(".repeat(100_000) + "Int8" + &")".repeat(100_000);
        let (field, storage) = disguised(&(Arc::new(NullArray::new(3)) as ArrayRef), &nested);
        assert!(read_all(&field, &storage).is_err());
    }
}

#[test]
fn nulls_of_a_width_that_no_memory_holds_are_an_error() {
    let test = "storage::nulls_of_a_width_that_no_memory_holds_are_an_error";
    if in_its_own_process(test) {
        // A constant of no byte for all nulls: 2^17 rows of 2^31 - 1 bytes each.
        let nulls = Arc::new(BinaryArray::from_opt_vec(vec![None; 131_072])) as ArrayRef;
        let (field, storage) = disguised(&nulls, "FixedSizeBinary(2147483647)");
        assert!(read_all(&field, &storage).is_err());
    }
}

#[test]
fn one_null_of_a_great_width_allocates_little_before_it_is_asked_for() {
    let nulls = Arc::new(BinaryArray::from_opt_vec(vec![None; 10])) as ArrayRef;
    let (field, storage) = disguised(&nulls, "FixedSizeBinary(1000000000)");
    let opened = || CompressedColumn::try_from_arrow(&field, &storage).map(|column| column.len());
    let (_, largest) = largest_allocation(opened);
    assert!(largest < LIMIT, "{largest} bytes to open a column");
}

#[test]
fn rejects_storage_arrays_that_are_not_ours() {
    let image = integers();
    let field = &image.field;
    let rejects = |field: &Field, storage: &dyn Array| {
        let error = CompressedColumn::try_from_arrow(field, storage).unwrap_err();
        assert!(matches!(error, Error::NotLanepack { .. }), "{error}");
        assert!(error.to_string().starts_with("column \"price\": not compressed by lanepack"));
    };
    // Not what the field says.
    rejects(field, &Int64Array::from(vec![1, 2]));
    let (fields, columns, _) = image.storage().into_parts();
    for missing in 0..6 {
        let fields: Vec<_> = (fields.iter().enumerate())
            .filter(|(at, _)| *at != missing)
            .map(|(_, field)| field.clone())
            .collect();
        let mut columns = columns.clone();
        columns.remove(missing);
        let storage = StructArray::new(fields.into(), columns, None);
        rejects(field, &storage);
        rejects(&field.clone().with_data_type(storage.data_type().clone()), &storage);
    }
    // Another name, another order, another type.
    let other = |change: fn(&mut Vec<Arc<Field>>, &mut Vec<ArrayRef>)| {
        let (mut fields, mut columns) = (fields.to_vec(), columns.clone());
        change(&mut fields, &mut columns);
        let storage = StructArray::new(fields.into(), columns, None);
        rejects(&field.clone().with_data_type(storage.data_type().clone()), &storage);
    };
    other(|fields, _| fields[0] = Arc::new(fields[0].as_ref().clone().with_name("row")));
    other(|fields, columns| {
        fields.swap(0, 1);
        columns.swap(0, 1);
    });
    other(|fields, columns| {
        fields.push(Arc::new(Field::new("more", DataType::Int64, true)));
        columns.push(Arc::new(Int64Array::from(vec![1])));
    });
    let none = StructArray::new_empty_fields(1, None);
    rejects(&field.clone().with_data_type(none.data_type().clone()), &none);
}

/// A column's storage with the headers as one type of binary and the bodies as another.
fn with_binary(column: &CompressedColumn, types: [&DataType; 2]) -> (Field, StructArray) {
    let (field, storage) = column.to_arrow("price");
    let (fields, mut columns, _) = storage.into_parts();
    let mut fields = fields.to_vec();
    for (at, data_type) in [4, 5].into_iter().zip(types) {
        fields[at] = Arc::new(fields[at].as_ref().clone().with_data_type(data_type.clone()));
        columns[at] = arrow_cast::cast(&columns[at], data_type).unwrap();
    }
    let storage = StructArray::new(fields.into(), columns, None);
    (field.with_data_type(storage.data_type().clone()), storage)
}

/// Polars stores any binary as BinaryView, and writes LargeBinary to Parquet.
#[test]
fn headers_and_bodies_may_be_of_any_type_of_binary() {
    let types = [DataType::Binary, DataType::LargeBinary, DataType::BinaryView];
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(|i| i * i % 1009)));
    let options = Options::default().with_chunk_rows(1024);
    let column = compress_array(&values, &options).unwrap();
    for header in &types {
        for body in &types {
            let (field, storage) = with_binary(&column, [header, body]);
            let read = |storage: &dyn Array| CompressedColumn::try_from_arrow(&field, storage);
            let column = read(&storage).unwrap();
            column.verify_checksums().unwrap();
            assert_eq!(&column.decompress().unwrap(), &values, "{header}, {body}");
            // From the second chunk on.
            let rest = read(&storage.slice(1, 2)).unwrap();
            assert_eq!(&rest.decompress().unwrap(), &values.slice(1024, 1976), "{header}, {body}");
        }
    }
}

/// Tools share the bytes of views that are the same. Views that overlap are refused: copies of each,
/// to multiples of 64 bytes, would take many times the input.
#[test]
fn views_of_the_same_bytes_are_copied_once() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(|i| i * i % 1009)));
    let column = compress_array(&values, &Options::default()).unwrap();
    let (field, storage) = with_binary(&column, [&DataType::Binary, &DataType::BinaryView]);
    let take = |rows: usize| {
        let rows = UInt32Array::from(vec![0; rows]);
        let columns: Vec<ArrayRef> = (storage.columns().iter())
            .map(|column| arrow_select::take::take(column, &rows, None).unwrap())
            .collect();
        StructArray::new(storage.fields().clone(), columns, None)
    };
    let read = |storage: &dyn Array| CompressedColumn::try_from_arrow(&field, storage);
    assert_eq!(read(&take(1000)).unwrap().len(), 3_000_000);
    // Each view begins a byte behind the one before.
    let (fields, mut columns, _) = take(1000).into_parts();
    let body = column.chunks()[0].body();
    let bytes = arrow_buffer::Buffer::from_vec([body.as_slice(), &[0; 1000]].concat());
    let view = |at: u32| {
        let prefix = bytes[at as usize..][..4].try_into().unwrap();
        arrow_data::ByteView::new(body.len() as u32, prefix).with_offset(at).as_u128()
    };
    let views: Vec<u128> = (0..1000).map(view).collect();
    columns[5] = Arc::new(BinaryViewArray::new(views.into(), vec![bytes.clone()], None));
    let error = read(&StructArray::new(fields, columns, None)).unwrap_err();
    assert!(error.to_string().contains("views of "), "{error}");
}

/// Parquet knows no times in seconds, say, and gives bounds back as another type.
#[test]
fn bounds_of_another_type_are_no_bounds() {
    let image = integers();
    let (fields, mut columns, _) = image.storage().into_parts();
    let mut fields = fields.to_vec();
    for at in [2, 3] {
        let bound = fields[at].as_ref().clone().with_data_type(DataType::Int32);
        fields[at] = Arc::new(bound);
        columns[at] = Arc::new(Int32Array::from(vec![5]));
    }
    let storage = StructArray::new(fields.into(), columns, None);
    let field = image.field.clone().with_data_type(storage.data_type().clone());
    let column = CompressedColumn::try_from_arrow(&field, &storage).unwrap();
    assert_eq!(&column.decompress().unwrap(), &image.read().unwrap());
    let (_, written) = column.to_arrow("price");
    let bounds = written.column_by_name("min").unwrap();
    assert_eq!((bounds.data_type(), bounds.null_count()), (&DataType::Int64, 1));
}

#[test]
fn rejects_chunks_that_are_null() {
    let image = integers();
    let (fields, columns, _) = image.storage().into_parts();
    let nulls = || Some(NullBuffer::from(vec![false]));
    let storage = StructArray::new(fields.clone(), columns.clone(), nulls());
    let error = CompressedColumn::try_from_arrow(&image.field, &storage).unwrap_err();
    assert!(error.to_string().contains("column \"price\": corrupt data: 1 chunks are null"));
    // Fields that another writer made nullable, and null; bounds may be.
    for (at, name) in ["rows", "null_count", "min", "max", "header", "body"].iter().enumerate() {
        let nullable: Vec<_> =
            fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let mut columns = columns.clone();
        columns[at] = new_null_array(columns[at].data_type(), 1);
        let storage = StructArray::new(nullable.into(), columns, None);
        let field = image.field.clone().with_data_type(storage.data_type().clone());
        match CompressedColumn::try_from_arrow(&field, &storage) {
            Ok(column) => assert!(matches!(*name, "min" | "max"), "{name} {}", column.len()),
            Err(error) => {
                let text = format!("field {name} of a chunk is null");
                assert!(error.to_string().contains(&text), "{error}");
            }
        }
    }
    // Bounds that a writer has left out.
    let mut columns = columns;
    (columns[2], columns[3]) =
        (new_null_array(columns[2].data_type(), 1), new_null_array(columns[3].data_type(), 1));
    let storage = StructArray::new(fields, columns, None);
    let column = CompressedColumn::try_from_arrow(&image.field, &storage).unwrap();
    assert!(column.chunks()[0].min().is_null(0) && column.chunks()[0].max().is_null(0));
    // They stay away, and the header as it is.
    let (field, storage) = column.to_arrow("price");
    CompressedColumn::try_from_arrow(&field, &storage).unwrap();
}

#[test]
fn rejects_columns_with_other_chunk_boundaries() {
    let column = |name: &str, chunk_rows: usize, rows: i64| {
        let array = Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef;
        let options = Options::default().with_chunk_rows(chunk_rows);
        compress_array(&array, &options).unwrap().to_arrow(name)
    };
    // Two chunks each, of other rows.
    let (first, other) = (column("a", 1024, 2000), column("b", 2048, 3000));
    let schema = Schema::new(vec![first.0, other.0]);
    let batch =
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(first.1), Arc::new(other.1)]).unwrap();
    for error in [columns(&batch).unwrap_err(), decompress(&batch).unwrap_err()] {
        let text = "column \"b\": corrupt data: chunk boundaries other than those of column \"a\"";
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn batches_with_ordinary_columns_are_not_compressed_ones() {
    let array = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("n", array)]).unwrap();
    let text = "column \"n\": not compressed by lanepack: expected extension \"lanepack.column\", found none";
    assert_eq!(decompress(&batch).unwrap_err().to_string(), text);
    assert_eq!(columns(&batch).unwrap_err().to_string(), text);
    assert_eq!(decompressed_schema(&batch.schema()).unwrap_err().to_string(), text);
}

#[test]
fn rows_past_the_end_are_errors() {
    let column = integers().open().unwrap();
    for row in [100, 101, usize::MAX] {
        let error = column.value(row).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { rows: 100, .. }), "{error}");
    }
}
