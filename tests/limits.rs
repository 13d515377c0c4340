//! Small inputs that stand for many bytes: an error before memory is taken.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use lanepack::scan::{Scan, col};
use lanepack::{Engine, Error, Options, compress, compress_array, decompress, ipc};

/// Chunks, rows of each, and bytes of each value.
const CHUNKS: usize = 30;
const ROWS: usize = lanepack::MAX_CHUNK_ROWS;
const WIDTH: usize = 1024;

/// Views of one text of a kilobyte.
fn texts(rows: usize) -> StringViewArray {
    let mut texts = StringViewBuilder::new();
    let block = texts.append_block("x".repeat(WIDTH).into_bytes().into());
    for _ in 0..rows {
        texts.try_append_view(block, 0, WIDTH as u32).unwrap();
    }
    texts.finish()
}

/// Thirty chunks with one text of a kilobyte in all rows, 3.9 GB, in some 40 KB, and their rows'
/// numbers.
fn bomb() -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("row", Arc::new(Int32Array::from_iter_values(0..ROWS as i32))),
        ("text", Arc::new(texts(ROWS))),
    ];
    repeated(&RecordBatch::try_from_iter(columns).unwrap())
}

/// The compressed batch, thirty times.
fn repeated(batch: &RecordBatch) -> RecordBatch {
    let chunks = vec![compress(batch, &Options::default()).unwrap(); CHUNKS];
    arrow_select::concat::concat_batches(&chunks[0].schema(), &chunks).unwrap()
}

/// The error that names the text and the way to allow it.
fn refused<T>(result: Result<T, Error>) {
    match result {
        Err(error @ Error::MemoryLimit { needed, limit, .. }) => {
            let text = error.to_string();
            assert!(needed >= (CHUNKS * ROWS * WIDTH) as u64 && limit < needed, "{text}");
            assert!(text.contains("\"text\"") && text.contains("with_memory_limit"), "{text}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("decompressed"),
    }
}

#[test]
fn every_way_of_decompressing_has_a_limit() {
    let compressed = bomb();
    refused(decompress(&compressed));
    refused(Engine::cpu().decompress(&compressed));
    refused(Engine::auto().decompress(&compressed));
    let text = &lanepack::columns(&compressed).unwrap()[1];
    refused(text.decompress());
    refused(Engine::cpu().decompress_column(text));
    refused(Scan::new(&compressed).gather(&["row", "text"], &Engine::cpu()));

    let mut file =
        arrow_ipc::writer::FileWriter::try_new(Vec::new(), &compressed.schema()).unwrap();
    file.write(&compressed).unwrap();
    let file = file.into_inner().unwrap();
    refused(ipc::Reader::file(Cursor::new(&file)).unwrap().next_batch());
    let mut reader = ipc::Reader::file(Cursor::new(&file)).unwrap();
    assert!(reader.next_columns().unwrap().is_some(), "columns stay compressed");
}

#[test]
fn what_fits_is_decompressed() {
    let compressed = bomb();
    // Few rows of the same column.
    let few = Scan::new(&compressed).filter(col("row").in_list([7, 100_000]));
    let found = few.gather(&["text"], &Engine::cpu()).unwrap();
    assert_eq!(found.num_rows(), 2 * CHUNKS);
    assert!(found.get_array_memory_size() < 1 << 20, "{}", found.get_array_memory_size());
    // Vectors that have a row are decoded as a whole.
    let limit = (2 * 1024 * CHUNKS * (WIDTH + 16)) as u64;
    few.gather(&["text"], &Engine::cpu().with_memory_limit(limit)).unwrap();
    let less = few.gather(&["text"], &Engine::cpu().with_memory_limit(limit - 1));
    assert!(matches!(less, Err(Error::MemoryLimit { .. })));
    // One chunk.
    let chunk = compressed.slice(0, 1);
    assert_eq!(decompress(&chunk).unwrap().num_rows(), ROWS);
    let small = Engine::cpu().with_memory_limit(1 << 20);
    assert!(matches!(small.decompress(&chunk), Err(Error::MemoryLimit { .. })));
}

#[test]
fn readers_take_a_limit_of_their_own() {
    let batch = record_batch!(("id", Int64, [1, 2, 3])).unwrap();
    let mut writer = ipc::Writer::stream(Vec::new(), &batch.schema(), Options::default()).unwrap();
    writer.write(&batch).unwrap();
    let stream = writer.into_inner().unwrap();
    let reader = || ipc::Reader::stream(stream.as_slice()).unwrap();
    let small = Engine::cpu().with_memory_limit(23);
    for (mut reader, fits) in [
        (reader().with_memory_limit(24), true),
        (reader().with_memory_limit(23), false),
        (reader().with_engine(&small), false),
        (reader().with_engine(&small).with_memory_limit(24), true),
        (reader().with_memory_limit(24).with_engine(&small), true),
    ] {
        match reader.next_batch() {
            Ok(found) => assert!(fits && found == Some(batch.clone())),
            Err(error) => assert!(!fits && matches!(error, Error::MemoryLimit { .. }), "{error}"),
        }
    }
}

/// One row whose list has a million elements, stored as constants.
#[test]
fn elements_of_lists_count() {
    let elements = 1 << 20;
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0_i64, elements]));
    let values = Arc::new(Int64Array::from(vec![7; elements as usize]));
    let list = LargeListArray::new(field.clone(), offsets, values, None);
    let schema = Schema::new(vec![Field::new("list", DataType::LargeList(field), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(list)]).unwrap();
    let compressed = compress(&batch, &Options::default()).unwrap();
    assert!(compressed.get_array_memory_size() < 10_000);
    let limit = |bytes| Engine::cpu().with_memory_limit(bytes).decompress(&compressed);
    let bytes = elements as u64 * 8;
    assert!(matches!(limit(bytes), Err(Error::MemoryLimit { .. })));
    assert_eq!(limit(bytes + bytes / 20).unwrap(), batch);
}

/// Nulls of values of fixed width are stored as no bytes, and decompressed to zeros.
#[test]
fn nulls_of_fixed_width_count() {
    let nulls: ArrayRef = Arc::new(FixedSizeBinaryArray::new_null(WIDTH as i32, ROWS));
    refused(decompress(&repeated(&RecordBatch::try_from_iter([("text", nulls)]).unwrap())));
}

/// Single values and tests for null of nested columns that need a chunk as a whole.
#[test]
fn chunks_of_nested_columns_have_a_limit() {
    let many = texts(2_000_000);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, many.len() as i32]));
    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let list: ArrayRef = Arc::new(ListArray::new(field, offsets, Arc::new(many.clone()), None));
    let column = compress_array(&list, &Options::default()).unwrap();
    assert!(column.compressed_bytes() < 20_000, "{}", column.compressed_bytes());
    assert!(matches!(column.value(0), Err(Error::MemoryLimit { .. })));

    let keys = Int32Array::from(vec![Some(0), None, Some(7)]);
    let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(many)));
    let batch = RecordBatch::try_from_iter([("text", dictionary)]).unwrap();
    let compressed = compress(&batch, &Options::default()).unwrap();
    let nulls = Scan::new(&compressed).filter(col("text").is_null());
    assert!(matches!(nulls.count(&Engine::cpu()), Err(Error::MemoryLimit { .. })));
    assert!(matches!(nulls.gather(&["text"], &Engine::cpu()), Err(Error::MemoryLimit { .. })));
}

/// What lanepack compresses it decompresses by default: many chunks of few bytes.
#[test]
fn constants_are_within_the_default() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["0123456789"; ROWS]));
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let compressed = repeated(&batch);
    assert_eq!(decompress(&compressed).unwrap().num_rows(), CHUNKS * ROWS);
    // As many more chunks add to the limit what they need.
    let column = &lanepack::columns(&compressed).unwrap()[0];
    let needed = (CHUNKS * ROWS * (10 + 16)) as u64;
    assert!(needed < 32_768 * column.compressed_bytes() as u64, "{}", column.compressed_bytes());
}
