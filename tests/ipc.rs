//! Compressed files and streams come back as what was written, through
//! lanepack's own readers and through any other; damage is an error.

mod common;

use std::io::{Cursor, Seek, Write};
use std::sync::Arc;

use arrow_array::*;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{Message, MessageArgs, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use common::*;
use lanepack::{Engine, Error, Options, compress, decompress, ipc, is_compressed};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriter;

/// One column of every type.
fn every_type(len: usize) -> RecordBatch {
    let encoded = encoded_types().into_iter().enumerate().map(|(at, data_type)| {
        let shape = Shape::ALL[at % Shape::ALL.len()];
        array_of(&data_type, len, shape, Nulls::ALL[at % Nulls::ALL.len()])
    });
    let columns = encoded.chain(carried_arrays(len)).enumerate();
    let columns = columns.map(|(at, array)| (format!("column {at}"), array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn numbers(rows: std::ops::Range<i64>) -> RecordBatch {
    let texts = StringArray::from_iter_values(rows.clone().map(|row| format!("row {row}")));
    let numbers = Int64Array::from_iter_values(rows);
    let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("text", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn file(schema: &SchemaRef, options: &Options, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = ipc::Writer::file(Vec::new(), schema, options.clone()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn stream(schema: &SchemaRef, options: &Options, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = ipc::Writer::stream(Vec::new(), schema, options.clone()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn read_file(bytes: &[u8]) -> Result<Vec<RecordBatch>, Error> {
    Ok(ipc::Reader::file(Cursor::new(bytes))?.collect::<Result<_, _>>()?)
}

fn read_stream(bytes: &[u8]) -> Result<Vec<RecordBatch>, Error> {
    Ok(ipc::Reader::stream(bytes)?.collect::<Result<_, _>>()?)
}

fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(schema, batches).unwrap()
}

/// Rows of each chunk of a file.
fn chunk_rows(bytes: &[u8]) -> Vec<usize> {
    let mut reader = ipc::Reader::file(Cursor::new(bytes)).unwrap();
    let mut rows = Vec::new();
    while let Some((_, columns)) = reader.next_columns().unwrap() {
        rows.extend(columns[0].chunks().iter().map(lanepack::Chunk::rows));
    }
    rows
}

#[test]
fn every_type_round_trips_through_files_and_streams() {
    for len in [1, 5, 1024, 3000] {
        let batch = every_type(len);
        let options = Options::default().with_chunk_rows(1024);
        let file = file(&batch.schema(), &options, std::slice::from_ref(&batch));
        assert_eq!(read_file(&file).unwrap(), std::slice::from_ref(&batch));
        let stream = stream(&batch.schema(), &options, std::slice::from_ref(&batch));
        assert_eq!(read_stream(&stream).unwrap(), [batch]);
    }
}

#[test]
fn schemas_and_their_metadata_come_back() {
    let metadata = |value: &str| [("key".to_owned(), value.to_owned())].into();
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int32, false).with_metadata(metadata("field")),
        Field::new("b", DataType::Utf8, true),
    ]);
    let schema = Arc::new(schema.with_metadata(metadata("schema")));
    let columns = |len| -> Vec<ArrayRef> {
        let a = array_of(&DataType::Int32, len, Shape::Narrow, Nulls::None);
        vec![a, array_of(&DataType::Utf8, len, Shape::Narrow, Nulls::Random)]
    };
    let batch = RecordBatch::try_new(schema.clone(), columns(100)).unwrap();
    let file = file(&schema, &Options::default(), std::slice::from_ref(&batch));
    let reader = ipc::Reader::file(Cursor::new(&file)).unwrap();
    assert_eq!(reader.schema(), schema);
    assert_eq!(read_file(&file).unwrap()[0].schema(), schema);
    let stream = stream(&schema, &Options::default(), &[batch]);
    let reader = ipc::Reader::stream(stream.as_slice()).unwrap();
    assert_eq!(reader.schema(), schema);
}

#[test]
fn tiny_batches_become_full_chunks() {
    let options = Options::default().with_chunk_rows(1024);
    let all = numbers(0..10_000);
    let batches: Vec<RecordBatch> =
        (0..10_000).step_by(7).map(|at| all.slice(at, 7.min(10_000 - at))).collect();
    let file = file(&all.schema(), &options, &batches);
    let rows = chunk_rows(&file);
    assert_eq!(rows, [vec![1024; 9], vec![10_000 - 9 * 1024]].concat());
    assert_eq!(joined(&all.schema(), &read_file(&file).unwrap()), all);
}

#[test]
fn batches_of_any_size_become_full_chunks() {
    let options = Options::default().with_chunk_rows(2048);
    let mut rng = Rng(5);
    let all = numbers(0..60_000);
    let mut batches = Vec::new();
    let mut at = 0;
    while at < all.num_rows() {
        let len = (rng.below(3) * rng.below(12_000)).min((all.num_rows() - at) as u64) as usize;
        batches.push(all.slice(at, len));
        at += len;
    }
    let file = file(&all.schema(), &options, &batches);
    let rows = chunk_rows(&file);
    let (last, full) = rows.split_last().unwrap();
    assert!(full.iter().all(|rows| *rows == 2048) && *last <= 2048, "{rows:?}");
    assert_eq!(joined(&all.schema(), &read_file(&file).unwrap()), all);
}

#[test]
fn tiny_batches_of_every_type_round_trip() {
    let all = every_type(2500);
    let batches: Vec<RecordBatch> = (0..2500).step_by(100).map(|at| all.slice(at, 100)).collect();
    let options = Options::default().with_chunk_rows(1024);
    let stream = stream(&all.schema(), &options, &batches);
    assert_eq!(joined(&all.schema(), &read_stream(&stream).unwrap()), all);
}

#[test]
fn batches_that_cannot_be_joined_round_trip() {
    // Together more values than keys of 8 bits can tell apart.
    let batch = |batch: i8| {
        let keys = Int8Array::from_iter_values((0..1000).map(|row| (row % 100) as i8));
        let values = (0..100).map(|value| format!("value {value} of batch {batch}"));
        let values = Arc::new(StringArray::from_iter_values(values));
        let array = Arc::new(DictionaryArray::new(keys, values)) as ArrayRef;
        RecordBatch::try_from_iter([("name", array)]).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..5).map(batch).collect();
    let bytes = file(&batches[0].schema(), &Options::default(), &batches);
    let read = read_file(&bytes).unwrap();
    assert_eq!(read, batches);
}

#[test]
fn nothing_written_is_nothing_read() {
    let schema = every_type(3).schema();
    let file = file(&schema, &Options::default(), &[]);
    assert_eq!(read_file(&file).unwrap(), []);
    assert_eq!(ipc::Reader::file(Cursor::new(file)).unwrap().schema(), schema);
    let stream = stream(&schema, &Options::default(), &[]);
    assert_eq!(read_stream(&stream).unwrap(), []);
    assert_eq!(ipc::Reader::stream(stream.as_slice()).unwrap().schema(), schema);
}

#[test]
fn batches_without_rows_vanish() {
    let all = numbers(0..10);
    let batches = [all.slice(0, 0), all.slice(0, 4), all.slice(4, 0), all.slice(4, 6)];
    let file = file(&all.schema(), &Options::default(), &batches);
    assert_eq!(read_file(&file).unwrap(), std::slice::from_ref(&all));
    let none = stream(&all.schema(), &Options::default(), &batches[..1]);
    assert_eq!(read_stream(&none).unwrap(), []);
}

#[test]
fn batches_without_columns_keep_their_rows() {
    let schema = Arc::new(Schema::empty());
    let batch = |rows| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), Vec::new(), &options).unwrap()
    };
    let batches = [batch(7), batch(0), batch(300_000)];
    let rows = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let file = file(&schema, &Options::default(), &batches);
    assert_eq!(rows(read_file(&file).unwrap()), 300_007);
    let stream = stream(&schema, &Options::default(), &batches);
    assert_eq!(rows(read_stream(&stream).unwrap()), 300_007);
}

#[test]
fn batches_of_another_schema_are_refused() {
    let mut writer =
        ipc::Writer::file(Vec::new(), &numbers(0..1).schema(), Options::default()).unwrap();
    writer.write(&numbers(0..5)).unwrap();
    let array = Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let other = RecordBatch::try_from_iter([("n", array)]).unwrap();
    let error = writer.write(&other).unwrap_err().to_string();
    assert!(error.contains("a batch of the schema"), "{error}");
    // What was taken before is not lost.
    assert_eq!(read_file(&writer.into_inner().unwrap()).unwrap(), [numbers(0..5)]);
}

#[test]
fn settings_out_of_range_are_refused() {
    let options = Options::default().with_chunk_rows(1000);
    let result = ipc::Writer::file(Vec::new(), &numbers(0..1).schema(), options);
    assert!(matches!(result.map(drop), Err(Error::Options { name: "chunk_rows", .. })));
}

/// A sink that fails after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_of_the_sink_are_reported() {
    let batch = numbers(0..5000);
    let len = stream(&batch.schema(), &Options::default(), std::slice::from_ref(&batch)).len();
    for room in (0..len).step_by(501) {
        let result = ipc::Writer::stream(Full(room), &batch.schema(), Options::default())
            .and_then(|mut writer| writer.write(&batch).and_then(|()| writer.into_inner()));
        assert!(result.is_err(), "{room} bytes of room");
    }
}

#[test]
fn files_cut_anywhere_are_errors() {
    let batch = every_type(2000);
    let file = file(&batch.schema(), &Options::default(), &[batch]);
    for len in (0..file.len()).step_by(97).chain(file.len() - 200..file.len()) {
        assert!(read_file(&file[..len]).is_err(), "{len} of {} bytes", file.len());
    }
}

#[test]
fn streams_cut_anywhere_are_errors() {
    let options = Options::default().with_chunk_rows(1024);
    let batches: Vec<RecordBatch> = (0..4).map(|_| every_type(8 * 1024)).collect();
    let stream = stream(&batches[0].schema(), &options, &batches);
    let mut whole = 0;
    for len in (0..stream.len()).step_by(9_973).chain(stream.len() - 100..stream.len()) {
        let cut = &stream[..len];
        assert!(read_stream(cut).is_err(), "{len} of {} bytes", stream.len());
        // Without its end marker a stream may be cut between messages, and only there.
        let Ok(reader) = ipc::Reader::stream(cut) else { continue };
        if let Ok(read) = reader.allow_missing_end().collect::<Result<Vec<_>, _>>() {
            assert_eq!(read, batches[..read.len()], "{len} of {} bytes", stream.len());
            whole += 1;
        }
    }
    assert!((1..=8).contains(&whole), "{whole} cuts between messages");
}

#[test]
fn a_stream_cut_between_messages_says_so() {
    let batches = [numbers(0..2048), numbers(2048..4096)];
    let options = Options::default().with_chunk_rows(1024);
    let mut writer = ipc::Writer::stream(Vec::new(), &batches[0].schema(), options).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    let cut = writer.get_ref().clone();
    let mut reader = ipc::Reader::stream(cut.as_slice()).unwrap();
    for batch in &batches {
        assert_eq!(reader.next_batch().unwrap().unwrap(), *batch);
    }
    let error = reader.next_batch().unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("behind 2 batches without its end marker"), "{error}");
    // Nothing is behind an error.
    assert!(reader.next_batch().unwrap().is_none());
    let reader = ipc::Reader::stream(cut.as_slice()).unwrap().allow_missing_end();
    assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), batches);
    writer.finish().unwrap();
    writer.finish().unwrap();
    let error = writer.write(&batches[0]).unwrap_err();
    assert!(error.to_string().contains("behind the end"), "{error}");
    assert_eq!(read_stream(&writer.into_inner().unwrap()).unwrap(), batches);
}

/// Where the messages of a stream are: the schema, batches, counts, and the end marker.
fn messages(stream: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let len = u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
        let body = match len {
            0 => 0,
            _ => root_as_message(&stream[at + 8..at + 8 + len]).unwrap().bodyLength() as usize,
        };
        found.push(at..at + 8 + len + body);
        at += 8 + len + body;
    }
    found
}

/// Batches of 1,000, 2,000 and 3,000 rows.
fn three_batches() -> [RecordBatch; 3] {
    [numbers(0..1000), numbers(1000..3000), numbers(3000..6000)]
}

/// Writes them, each in a message of its own.
fn flushed<W: Write>(mut writer: ipc::Writer<W>) -> W {
    for batch in three_batches() {
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn messages_missing_from_a_stream_or_there_twice_are_errors() {
    let schema = three_batches()[0].schema();
    let stream = flushed(ipc::Writer::stream(Vec::new(), &schema, Options::default()).unwrap());
    let parts: Vec<&[u8]> = messages(&stream).into_iter().map(|range| &stream[range]).collect();
    assert_eq!(parts.len(), 6, "schema, three batches, counts, end");
    let of = |order: &[usize]| order.iter().flat_map(|at| parts[*at]).copied().collect::<Vec<u8>>();
    assert_eq!(read_stream(&of(&[0, 1, 2, 3, 4, 5])).unwrap(), three_batches());
    for (order, found) in [
        (&[0, 1, 3, 4, 5][..], "2 of 4000"),
        (&[0, 2, 3, 4, 5], "2 of 5000"),
        (&[0, 1, 2, 4, 5], "2 of 3000"),
        (&[0, 4, 5], "0 of 0"),
        (&[0, 1, 2, 2, 3, 4, 5], "4 of 8000"),
        (&[0, 1, 1, 3, 4, 5], "3 of 5000"),
        (&[0, 1, 2, 3, 4, 4, 5], "0 of 0"),
    ] {
        let error = read_stream(&of(order)).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        let text = format!("the writer counted 3 batches of 6000 rows in all, found {found}: ");
        assert!(error.to_string().contains(&text), "{order:?}: {error}");
    }
    // A cut is found by the end marker, whether the counts were read or not.
    for order in [&[0, 1, 2, 3, 4][..], &[0, 1, 2, 3]] {
        let error = read_stream(&of(order)).unwrap_err();
        assert!(error.to_string().contains("without its end marker"), "{error}");
        let cut = of(order);
        let reader = ipc::Reader::stream(cut.as_slice()).unwrap().allow_missing_end();
        assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), three_batches());
    }
    // Other writers have no counts; the messages of several streams have some each.
    assert_eq!(read_stream(&of(&[0, 1, 2, 5])).unwrap().len(), 2);
    let joined = [of(&[0, 1, 2, 3, 4]), of(&[1, 2, 3, 4, 5])].concat();
    assert_eq!(read_stream(&joined).unwrap().len(), 6);
}

#[test]
fn other_readers_see_an_empty_batch_with_the_counts_of_a_stream() {
    let schema = three_batches()[0].schema();
    let stream = flushed(ipc::Writer::stream(Vec::new(), &schema, Options::default()).unwrap());
    let reader = StreamReader::try_new(stream.as_slice(), None).unwrap();
    let rows: Vec<usize> = reader.map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(rows, [1, 1, 1, 0]);
    let counts = messages(&stream)[4].clone();
    let message = root_as_message(&stream[counts.start + 8..counts.end]).unwrap();
    let pairs: Vec<_> = (message.custom_metadata().unwrap().iter())
        .map(|pair| (pair.key().unwrap(), pair.value().unwrap()))
        .collect();
    assert_eq!(pairs, [("lanepack.rows", "6000"), ("lanepack.batches", "3")]);
    // Streams of no batch, and of batches without columns, have counts, too.
    for batches in [vec![], vec![RecordBatch::new_empty(schema.clone())]] {
        let stream = crate::stream(&schema, &Options::default(), &batches);
        assert_eq!(messages(&stream).len(), 3);
        assert_eq!(read_stream(&stream).unwrap(), []);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(7));
    let none = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(none.clone(), vec![], &rows).unwrap();
    let batches = [batch.clone(), batch];
    for (kind, bytes) in [
        (true, crate::stream(&none, &Options::default(), &batches)),
        (false, file(&none, &Options::default(), &batches)),
    ] {
        let read = if kind { read_stream(&bytes) } else { read_file(&bytes) };
        assert_eq!(read.unwrap(), batches);
    }
}

/// Where the blocks of batches are in the footer of a file, 24 bytes each.
fn blocks_at(file: &[u8]) -> usize {
    let end = file.len() - 10;
    let len = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    let footer = &file[end - len..end];
    let blocks = root_as_footer(footer).unwrap().recordBatches().unwrap();
    end - len + (blocks.bytes().as_ptr() as usize - footer.as_ptr() as usize)
}

#[test]
fn messages_missing_from_a_file_or_there_twice_are_errors() {
    let schema = three_batches()[0].schema();
    let file = flushed(ipc::Writer::file(Vec::new(), &schema, Options::default()).unwrap());
    assert_eq!(read_file(&file).unwrap(), three_batches());
    let at = blocks_at(&file);
    let block = |index: usize| file[at + 24 * index..][..24].to_vec();
    let with = |place: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        read_file(&file).unwrap_err().to_string()
    };
    for (error, found) in [
        (with(at - 4, &2_u32.to_le_bytes()), "2 of 3000"),
        (with(at - 4, &0_u32.to_le_bytes()), "0 of 0"),
        (with(at, &block(1)), "3 of 7000"),
        (with(at + 24, &block(2)), "3 of 7000"),
    ] {
        let text = format!("the writer counted 3 batches of 6000 rows in all, found {found}: ");
        assert!(error.contains(&text), "{error}");
    }
}

/// arrow-ipc takes a message of no kind for the end.
#[test]
fn messages_of_another_kind_are_errors() {
    let schema = three_batches()[0].schema();
    let mut file = flushed(ipc::Writer::file(Vec::new(), &schema, Options::default()).unwrap());
    let at = blocks_at(&file) + 24;
    let offset = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let version = MetadataVersion::V5;
    let message = Message::create(&mut builder, &MessageArgs { version, ..Default::default() });
    builder.finish(message, None);
    let bytes = builder.finished_data();
    file[offset + 8..offset + 8 + bytes.len()].copy_from_slice(bytes);
    let mut reader = ipc::Reader::file(Cursor::new(&file)).unwrap();
    assert_eq!(reader.next_batch().unwrap().unwrap(), three_batches()[0]);
    let error = reader.next_batch().unwrap_err().to_string();
    assert!(error.contains("an IPC message of kind NONE, a record batch expected"), "{error}");
}

#[test]
fn counts_of_a_file_are_ignored_in_another_one() {
    let schema = three_batches()[0].schema();
    let file = flushed(ipc::Writer::file(Vec::new(), &schema, Options::default()).unwrap());
    let reader = FileReader::try_new(Cursor::new(&file), None).unwrap();
    let pairs = reader.custom_metadata().clone();
    let (packed_schema, packed) = (reader.schema(), reader.map(Result::unwrap).collect::<Vec<_>>());
    assert_eq!(
        (pairs["lanepack.rows"].as_str(), pairs["lanepack.batches"].as_str()),
        ("6000", "3")
    );
    // Rewritten, with the key-values as they were: all batches, some, and some twice.
    for order in [&[0, 1, 2][..], &[1], &[2, 2, 2], &[]] {
        let mut writer = FileWriter::try_new(Vec::new(), &packed_schema).unwrap();
        pairs.iter().for_each(|(key, value)| writer.write_metadata(key, value));
        order.iter().for_each(|at| writer.write(&packed[*at]).unwrap());
        let read = read_file(&writer.into_inner().unwrap()).unwrap();
        let expected: Vec<_> = order.iter().map(|at| three_batches()[*at].clone()).collect();
        assert_eq!(read, expected, "{order:?}");
    }
}

/// The place of the body of column `text` in a file of one chunk.
fn body_of(file: &[u8]) -> usize {
    let (_, columns) =
        ipc::Reader::file(Cursor::new(file)).unwrap().next_columns().unwrap().unwrap();
    let body = columns[1].chunks()[0].body();
    file.windows(body.len()).position(|bytes| bytes == body.as_slice()).unwrap()
}

#[test]
fn damaged_bodies_are_found_by_their_checksums() {
    let batch = numbers(0..3000);
    let intact = file(&batch.schema(), &Options::default(), std::slice::from_ref(&batch));
    let mut rng = Rng(3);
    let (start, mut lost) = (body_of(&intact), 0);
    for _ in 0..300 {
        let mut file = intact.clone();
        file[start + rng.below(2000) as usize] ^= 1 << rng.below(8);
        let error = read_file(&file).unwrap_err();
        // Rules of the format may be broken as well, and are looked at first.
        if let Error::Checksum { part: "body", .. } = error {
            let text = "column \"text\", chunk 0: checksum of the body: expected 0x";
            assert!(error.to_string().starts_with(text), "{error}");
            lost += 1;
        }
        let place = error.place().unwrap();
        assert_eq!((place.column.as_deref(), place.chunk), (Some("text"), Some(0)), "{error}");
        let reader = ipc::Reader::file(Cursor::new(&file)).unwrap().with_checksums(false);
        for result in reader {
            let result = result.map_err(Error::from);
            assert!(!matches!(result, Err(Error::Checksum { .. })));
        }
    }
    assert!(lost > 100, "{lost} of 300");
    // The last byte of the values themselves: only the checksum can tell.
    let mut file = intact.clone();
    let column =
        &ipc::Reader::file(Cursor::new(&intact)).unwrap().next_columns().unwrap().unwrap().1[0];
    let body = column.chunks()[0].body();
    let at = intact.windows(body.len()).position(|bytes| bytes == body.as_slice()).unwrap();
    file[at] ^= 1;
    assert!(matches!(read_file(&file), Err(Error::Checksum { .. })));
    let reader = ipc::Reader::file(Cursor::new(&file)).unwrap().with_checksums(false);
    let read: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
    assert_eq!(read[0].num_rows(), 3000);
    assert_ne!(read[0], batch);
}

#[test]
fn ordinary_files_are_not_compressed_ones() {
    let batch = numbers(0..5);
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let error = read_file(&writer.into_inner().unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("column \"n\": not compressed by lanepack"), "{error}");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    assert!(read_stream(&writer.into_inner().unwrap()).is_err());
}

/// What is opened as something else says what it is, and what reads it.
#[test]
fn other_files_are_named() {
    let batch = numbers(0..5);
    let (schema, rows) = (batch.schema(), std::slice::from_ref(&batch));
    let file = file(&schema, &Options::default(), rows);
    let stream = stream(&schema, &Options::default(), rows);
    let mut parquet = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    parquet.write(&batch).unwrap();
    let parquet = parquet.into_inner().unwrap();
    let text = b"n,text\n1,row 1\n".to_vec();
    let of_file = |bytes: &[u8]| read_file(bytes).unwrap_err();
    let of_stream = |bytes: &[u8]| read_stream(bytes).unwrap_err();
    for (error, found) in [
        (of_file(&stream), "an Arrow IPC stream, which `ipc::Reader::stream` reads"),
        (of_stream(&file), "an Arrow IPC file, which `ipc::Reader::file` reads"),
        (of_file(&parquet), "a Parquet file"),
        (of_stream(&parquet), "a Parquet file"),
        (of_file(&text), "bytes that begin with [6e, 2c"),
        (of_file(b"ARROW2\0\0"), "bytes that begin with [41, 52"),
        (of_stream(&text), "bytes that begin with [6e, 2c"),
        (of_file(b""), "no bytes"),
        (of_stream(b""), "no bytes"),
    ] {
        assert!(matches!(error, Error::NotLanepack { .. }), "{error}");
        assert!(error.to_string().contains(found), "{error}");
    }
    for len in [1, 4, 5, 6, 8, 100, file.len() - 1] {
        let error = of_file(&file[..len]);
        assert!(error.to_string().contains("it was cut, or its writer did not finish"), "{error}");
    }
}

/// Readers and writers pass for Arrow's own.
#[test]
fn arrows_traits_are_implemented() {
    fn write_all(mut writer: impl RecordBatchWriter, batch: &RecordBatch) {
        writer.write(batch).unwrap();
        writer.close().unwrap();
    }
    let batch = numbers(0..3000);
    let mut bytes = Vec::new();
    write_all(ipc::Writer::file(&mut bytes, &batch.schema(), Options::default()).unwrap(), &batch);
    let reader: Box<dyn RecordBatchReader> =
        Box::new(ipc::Reader::file(Cursor::new(bytes.as_slice())).unwrap());
    assert_eq!(reader.schema(), batch.schema());
    assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), [batch]);
    // Errors of lanepack come through Arrow's.
    let at = body_of(&bytes);
    bytes[at] ^= 0xff;
    let mut reader = ipc::Reader::file(Cursor::new(bytes.as_slice())).unwrap();
    let error = Error::from(reader.next().unwrap().unwrap_err());
    assert_eq!(error.place().unwrap().column.as_deref(), Some("text"), "{error}");
}

#[test]
fn compressed_columns_are_not_compressed_again() {
    let batch = numbers(0..5);
    let packed = compress(&batch, &Options::default()).unwrap();
    let engine = Engine::cpu();
    let errors = [
        compress(&packed, &Options::default()).unwrap_err(),
        engine.compress(&packed, &Options::default()).unwrap_err(),
        ipc::Writer::file(Vec::new(), &packed.schema(), Options::default()).err().unwrap(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().starts_with("column \"n\": compressed already"), "{error}");
    }
}

/// An engine compresses and decompresses what a writer and a reader pass on.
#[test]
fn engines_are_used() {
    let batch = numbers(0..5000);
    let engine = Engine::cpu();
    let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), Options::default()).unwrap();
    writer = writer.with_engine(&engine);
    writer.write(&batch).unwrap();
    assert!(engine.last_choice().is_none());
    let file = writer.into_inner().unwrap();
    assert!(engine.last_choice().is_some());
    let engine = Engine::cpu();
    let reader = ipc::Reader::file(Cursor::new(file)).unwrap().with_engine(&engine);
    assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), [batch]);
    assert!(engine.last_choice().is_some());
}

#[test]
fn bytes_behind_a_stream_are_left_alone_or_an_error() {
    let batch = numbers(0..5);
    let mut bytes = stream(&batch.schema(), &Options::default(), std::slice::from_ref(&batch));
    bytes.extend(b"something else that follows the end of the stream");
    let mut reader = ipc::Reader::stream(bytes.as_slice()).unwrap();
    assert_eq!(reader.next_batch().unwrap(), Some(batch));
    // The end stays the end.
    for _ in 0..3 {
        assert_eq!(reader.next_batch().unwrap(), None);
        assert!(reader.next().is_none());
    }
}

#[test]
fn arrow_readers_see_ordinary_struct_columns() {
    let batch = every_type(3000);
    let options = Options::default().with_chunk_rows(1024);
    let check = |schema: SchemaRef, packed: Vec<RecordBatch>| {
        for (field, original) in schema.fields().iter().zip(batch.schema().fields()) {
            assert!(is_compressed(field));
            assert!(matches!(field.data_type(), DataType::Struct(fields) if fields.len() == 6));
            assert_eq!(field.name(), original.name());
        }
        assert_eq!(packed.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        let packed = joined(&schema, &packed);
        assert_eq!(decompress(&packed).unwrap(), batch);
    };
    let file = file(&batch.schema(), &options, std::slice::from_ref(&batch));
    let reader = FileReader::try_new(Cursor::new(file), None).unwrap();
    check(reader.schema(), reader.map(Result::unwrap).collect());
    let stream = stream(&batch.schema(), &options, std::slice::from_ref(&batch));
    let reader = StreamReader::try_new(stream.as_slice(), None).unwrap();
    check(reader.schema(), reader.map(Result::unwrap).collect());
}

#[test]
fn bodies_moved_off_their_alignment_still_read() {
    let batch = every_type(3000);
    let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
    let expected = std::slice::from_ref(&batch);
    for alignment in [8, 16, 32, 64] {
        let options = IpcWriteOptions::try_new(alignment, false, MetadataVersion::V5).unwrap();
        let mut writer =
            FileWriter::try_new_with_options(Vec::new(), &packed.schema(), options.clone())
                .unwrap();
        writer.write(&packed).unwrap();
        let file = writer.into_inner().unwrap();
        assert_eq!(read_file(&file).unwrap(), expected, "files, {alignment} bytes");
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &packed.schema(), options).unwrap();
        writer.write(&packed).unwrap();
        let stream = writer.into_inner().unwrap();
        assert_eq!(read_stream(&stream).unwrap(), expected, "streams, {alignment} bytes");
        // From memory at every offset: the reader takes what the allocator gives.
        for offset in [1, 8, 63] {
            let moved = [vec![0; offset], stream.clone()].concat();
            assert_eq!(read_stream(&moved[offset..]).unwrap(), expected);
        }
    }
}

#[test]
fn parquet_carries_compressed_columns() {
    // Parquet has no negative scales, in bounds as little as in columns.
    let batch = every_type(3000);
    let negative = |field: &Field| matches!(field.data_type(), DataType::Decimal64(_, ..0));
    let kept: Vec<usize> = (batch.schema().fields().iter().enumerate())
        .filter_map(|(at, field)| (!negative(field)).then_some(at))
        .collect();
    let batch = batch.project(&kept).unwrap();
    let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), packed.schema(), None).unwrap();
    writer.write(&packed).unwrap();
    let file = bytes(writer.into_inner().unwrap());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = builder.schema().clone();
    let read: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
    let read = joined(&schema, &read);
    assert_eq!(schema.fields(), packed.schema().fields());
    assert_eq!(decompress(&read).unwrap(), batch);
    for column in lanepack::columns(&read).unwrap() {
        column.verify_checksums().unwrap();
    }
}

/// A file that the Parquet reader can read.
fn bytes(content: Vec<u8>) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("lanepack-{}.parquet", std::process::id()));
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(&content).unwrap();
    file.rewind().unwrap();
    file
}
