//! Files with an index: what is read in part is what was written, nothing else is read, and damage is an
//! error that names column and chunk.

#[path = "file/by_chunk.rs"]
mod by_chunk;
mod common;
#[path = "file/dataset.rs"]
mod dataset;
#[path = "file/filters.rs"]
mod filters;
#[path = "file/verify.rs"]
mod verify;
#[path = "file/writing.rs"]
mod writing;

use std::io::{Cursor, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileReader;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use common::*;
use lanepack::file::{File, ReadAt, Writer};
use lanepack::scan::{Lookup, Scan, col, count_distinct, count_rows, max, min, sum};
use lanepack::{Engine, Error, Options, compress, decompress, ipc};

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

fn options() -> Options {
    Options::default().with_chunk_rows(1024)
}

fn file_of(batches: &[RecordBatch], options: &Options) -> Vec<u8> {
    let mut writer = Writer::try_new(Vec::new(), &batches[0].schema(), options.clone()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn open(bytes: &[u8]) -> Result<File, Error> {
    File::from_bytes(Buffer::from_slice_ref(bytes))
}

/// 9,000 rows in chunks of 1,024, in order of the first column.
fn facts() -> RecordBatch {
    let rows = 0..9000_i64;
    record_batch!(
        ("day", Int32, rows.clone().map(|row| (row / 10) as i32).collect::<Vec<_>>()),
        ("shop", Int64, rows.clone().map(|row| row * 7919 % 23).collect::<Vec<_>>()),
        (
            "price",
            Float64,
            rows.clone()
                .map(|row| (row % 5 > 0).then_some((row * 37 % 1000) as f64 * 0.25))
                .collect::<Vec<_>>()
        ),
        ("name", Utf8, rows.map(|row| format!("item {}", row * 31 % 977)).collect::<Vec<_>>())
    )
    .unwrap()
}

#[test]
fn every_type_comes_back() {
    let cpu = Engine::cpu();
    for len in [1, 1024, 3000] {
        let batch = every_type(len);
        let names: Vec<String> =
            batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        let bytes = file_of(std::slice::from_ref(&batch), &options());
        let file = open(&bytes).unwrap();
        assert_eq!((file.schema(), file.num_rows()), (&batch.schema(), len));
        assert_eq!(file.num_chunks(), len.div_ceil(1024));
        let chunks: Vec<RecordBatch> =
            (0..file.num_chunks()).map(|chunk| file.chunk(chunk, &cpu).unwrap()).collect();
        assert_eq!(concat_batches(&batch.schema(), &chunks).unwrap(), batch);
        assert_eq!(file.scan().gather(&names, &cpu).unwrap(), batch);
        // A chunk at a time, all rows and some of them.
        let in_windows = file.clone().with_window_bytes(1);
        assert_eq!(in_windows.scan().gather(&names, &cpu).unwrap(), batch);
        let rows: Vec<u64> = [len - 1, 0, len / 2].map(|row| row as u64).into();
        let expected = take_record_batch(&batch, &UInt64Array::from(rows.clone())).unwrap();
        for file in [&file, &in_windows] {
            assert_eq!(file.take(&rows, &cpu).unwrap(), expected);
        }
        // Readers of batches read it, and any Arrow reader sees the chunks.
        let read: Vec<RecordBatch> =
            ipc::Reader::file(Cursor::new(&bytes)).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(concat_batches(&batch.schema(), &read).unwrap(), batch);
        let stored: Vec<RecordBatch> = FileReader::try_new(Cursor::new(&bytes), None)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let rows: usize = stored.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, file.num_chunks());
        let metadata = stored[0].schema().metadata().clone();
        assert_eq!(metadata.get("lanepack.rows"), Some(&len.to_string()));
        assert_eq!(decompress(&stored[0]).unwrap().num_rows(), len);
    }
}

#[test]
fn scans_of_files_are_those_of_batches() {
    let batch = facts();
    let bytes = file_of(&[batch.slice(0, 100), batch.slice(100, 8900)], &options());
    let whole = open(&bytes).unwrap();
    // All chunks that are read at a time, some, one.
    let files = [u64::MAX, 20_000, 1].map(|bytes| whole.clone().with_window_bytes(bytes));
    let packed = compress(&batch, &options()).unwrap();
    let dimension = record_batch!(
        ("id", Int64, (0..20).collect::<Vec<i64>>()),
        ("town", Utf8, (0..20).map(|id| format!("town {}", id % 4)).collect::<Vec<_>>())
    );
    let towns = Lookup::try_new(&dimension.unwrap(), "id").unwrap();
    let filters = [
        None,
        Some(col("day").between(200, 250)),
        Some(col("day").gt(5000)),
        Some(col("price").lt(30.0).and(col("day").gt_eq(880))),
        Some(col("price").is_null().or(col("name").eq("item 31"))),
        Some(!col("day").lt(600)),
    ];
    let engine = Engine::cpu();
    for (filter, file) in
        filters.iter().flat_map(|filter| files.iter().map(move |file| (filter, file)))
    {
        let scans = [Scan::new(&packed), file.scan()].map(|scan| match filter {
            None => scan,
            Some(filter) => scan.filter(filter.clone()),
        });
        let both = |give: &dyn Fn(&Scan<'_>) -> RecordBatch| {
            let [expected, found] = [give(&scans[0]), give(&scans[1])];
            assert_eq!(found, expected, "{filter:?}");
        };
        assert_eq!(scans[1].mask(&engine).unwrap(), scans[0].mask(&engine).unwrap(), "{filter:?}");
        assert_eq!(scans[1].rows(&engine).unwrap(), scans[0].rows(&engine).unwrap());
        assert_eq!(scans[1].count(&engine).unwrap(), scans[0].count(&engine).unwrap());
        both(&|scan| scan.gather(&["name", "day"], &engine).unwrap());
        // The same in batches, with a column of a lookup.
        both(&|scan| {
            let scan = scan.clone().left_join(col("shop"), &towns);
            let batches = scan.batches(&["town", "day", "name"], &engine).unwrap();
            let schema = batches.schema();
            let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>().unwrap();
            assert!(batches.iter().all(|batch| (1..=131_072).contains(&batch.num_rows())));
            concat_batches(&schema, &batches).unwrap()
        });
        let aggregates = [
            count_rows(),
            sum(col("shop")),
            sum(col("price")),
            max(col("price")),
            min(col("day")),
            count_distinct(col("name")),
        ];
        both(&|scan| scan.aggregate(&aggregates, &engine).unwrap());
        both(&|scan| {
            let joined = scan.clone().join(col("shop"), &towns);
            joined.group_by([col("town")]).aggregate(&aggregates, &engine).unwrap()
        });
        both(&|scan| {
            let order = scan.clone().order_by([("price", true), ("day", false)]).limit(7);
            order.gather(&["name", "price"], &engine).unwrap()
        });
    }
}

#[test]
fn rows_are_taken_in_the_order_that_they_are_asked_for() {
    let batch = facts();
    let file = open(&file_of(std::slice::from_ref(&batch), &options())).unwrap();
    let cpu = Engine::cpu();
    for rows in
        [vec![], vec![0], vec![8999, 0, 8999, 1024, 1023], (0..9000).rev().collect::<Vec<u64>>()]
    {
        let expected = take_record_batch(&batch, &UInt64Array::from(rows.clone())).unwrap();
        assert_eq!(file.take(&rows, &cpu).unwrap(), expected, "{} rows", rows.len());
    }
    let expected = take_record_batch(&batch.project(&[3]).unwrap(), &UInt64Array::from(vec![5000]));
    assert_eq!(file.take_columns(&[5000], &["name"], &cpu).unwrap(), expected.unwrap());
    let error = file.take(&[9000], &cpu).unwrap_err();
    assert!(error.to_string().contains("row 9000 of 9000"), "{error}");
}

/// What is read of a file.
#[derive(Debug)]
struct Counting {
    bytes: Buffer,
    reads: AtomicUsize,
    read: AtomicU64,
    ranges: Mutex<Vec<Range<u64>>>,
}

impl Counting {
    fn new(bytes: &[u8]) -> Arc<Self> {
        let bytes = Buffer::from_slice_ref(bytes);
        let (reads, read, ranges) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::default());
        Arc::new(Self { bytes, reads, read, ranges })
    }

    /// The reads and bytes since the last time.
    fn take(&self) -> (usize, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.read.swap(0, Ordering::Relaxed))
    }
}

impl ReadAt for Counting {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer, Error> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(range.end - range.start, Ordering::Relaxed);
        self.ranges.lock().unwrap().push(range.clone());
        self.bytes.read_at(range)
    }
}

#[test]
fn what_is_not_asked_for_is_not_read() {
    let bytes = file_of(&[facts()], &options());
    let source = Counting::new(&bytes);
    let file = File::from_source(source.clone()).unwrap();
    assert_eq!(source.take().0, 1);
    let of = |name: &str, chunks: Range<usize>| -> u64 {
        file.statistics(name).unwrap().bytes.values()[chunks].iter().sum()
    };
    // Rows are known; so are the first ones.
    let cpu = Engine::cpu();
    assert_eq!(file.scan().count(&cpu).unwrap(), 9000);
    file.scan().aggregate(&[count_rows()], &cpu).unwrap();
    assert_eq!(source.take(), (0, 0));
    assert_eq!(file.scan().limit(10).gather(&["day"], &cpu).unwrap().num_rows(), 10);
    assert_eq!(source.take(), (1, of("day", 0..1)));
    // One column, all chunks; chunks of two columns that bounds do not exclude; nothing at all.
    file.scan().aggregate(&[sum(col("shop"))], &cpu).unwrap();
    let messages = 5;
    let (reads, read) = source.take();
    assert!(reads <= messages, "{reads} reads");
    assert!(read < of("shop", 0..9) + 64 * 1024 * 5, "{read}");
    file.scan().filter(col("day").between(0, 50)).gather(&["price"], &cpu).unwrap();
    let (reads, read) = source.take();
    let wanted = of("day", 0..1) + of("price", 0..1);
    // Two chunks, or one range with a small gap.
    assert!(reads == 2 && read == wanted || reads == 1 && read <= wanted + 4096, "{reads} {read}");
    let none = file.scan().filter(col("day").gt(900)).aggregate(&[sum(col("shop"))], &cpu).unwrap();
    assert!(none.column(0).is_null(0));
    assert_eq!(source.take(), (0, 0));
    file.take_columns(&[3000], &["shop"], &cpu).unwrap();
    assert_eq!(source.take(), (1, of("shop", 2..3)));
}

#[test]
fn a_large_index_takes_two_reads() {
    // 1,000 chunks of 100 columns.
    let rows = 1000 * 1024;
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
    let columns = (0..100).map(|at| (format!("column {at}"), column.clone()));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
    writer = writer.with_batch_rows(rows as usize);
    writer.write(&batch).unwrap();
    let source = Counting::new(&writer.into_inner().unwrap());
    let file = File::from_source(source.clone()).unwrap();
    assert_eq!((file.num_chunks(), file.num_rows()), (1000, rows as usize));
    assert!(source.take().0 <= 2);
    let statistics = file.statistics("column 99").unwrap();
    assert_eq!(statistics.min.as_primitive::<Int32Type>().value(999), 999 * 1024);
    assert_eq!(statistics.max.as_primitive::<Int32Type>().value(0), 1023);
    assert_eq!(statistics.rows.value(500), 1024);
}

#[test]
fn small_files_are_small() {
    let batch = record_batch!(("id", Int64, [1, 2, 3, 4]), ("name", Utf8, ["a", "b", "c", "d"]));
    let len = file_of(&[batch.unwrap()], &Options::default()).len();
    println!("4 rows of 2 columns: {len} bytes");
    assert!(len <= 1900, "{len} bytes");
    let Some(folder) = shared_data() else { return };
    let dates = read_parquet(&folder.join("tables/ssb_date.parquet"));
    let len = file_of(&[dates], &Options::default()).len();
    println!("ssb_date: {len} bytes");
    assert!(len <= 15_000, "ssb_date: {len} bytes");
}

#[test]
fn damage_is_an_error_or_makes_no_difference() {
    let batch = facts().slice(0, 1500);
    let bytes = file_of(std::slice::from_ref(&batch), &options());
    let cpu = Engine::cpu();
    let names = ["day", "shop", "price", "name"];
    let filter = || col("day").gt_eq(30);
    let read = |bytes: &[u8]| -> Result<[RecordBatch; 2], Error> {
        let file = open(bytes)?;
        let all = file.scan().gather(&names, &cpu)?;
        Ok([all, file.scan().filter(filter()).gather(&names, &cpu)?])
    };
    let expected = read(&bytes).unwrap();
    assert_eq!(expected[0], batch);
    let mut rng = Rng(7);
    let mut failed = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.below(8);
        match read(&damaged) {
            Ok(found) => {
                // Names and the like have no checksum.
                if found[0].schema() == expected[0].schema() {
                    assert_eq!(found, expected, "byte {at}");
                }
            }
            Err(_) => failed += 1,
        }
    }
    assert!(failed > bytes.len() / 2, "{failed} of {}", bytes.len());
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes of {}", bytes.len());
    }
}

#[test]
fn an_index_that_lies_is_found_or_does_no_harm() {
    let batch = facts().slice(0, 1500);
    let bytes = file_of(std::slice::from_ref(&batch), &options());
    let reader = FileReader::try_new(Cursor::new(&bytes), None).unwrap();
    let place = reader.custom_metadata()["lanepack.index"].split_once(',').unwrap();
    let (at, len): (usize, usize) = (place.0.parse().unwrap(), place.1.parse().unwrap());
    let cpu = Engine::cpu();
    let names = ["day", "shop", "price", "name"];
    let mut rng = Rng(11);
    let (mut opened, mut refused) = (0, 0);
    for step in 0..6 * len {
        let mut forged = bytes.clone();
        // Bits, whole bytes, words that are nearly all ones.
        let place = at + 8 + step % (len - 8);
        match step / len {
            0..3 => forged[place] ^= 1 << rng.below(8),
            3 => forged[place] = 0xff,
            4 => forged[place] = 0,
            _ => forged[at + 8 + step % (len - 8) / 4 * 4..][..4].fill(0xff),
        }
        let checksum = twox_hash::XxHash3_64::oneshot(&forged[at + 8..at + len]);
        forged[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
        let Ok(file) = open(&forged) else {
            refused += 1;
            continue;
        };
        opened += 1;
        // Without a filter bounds change nothing, and of chunks that are read they have a checksum.
        match file.scan().gather(&names, &cpu) {
            Ok(found) => assert_eq!(found, batch, "step {step}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        for name in names {
            let statistics = file.statistics(name).unwrap();
            assert_eq!(statistics.min.len(), file.num_chunks());
        }
        let _ = file.scan().filter(col("day").gt_eq(30)).count(&cpu);
        let _ = file.take(&[1499, 3], &cpu);
    }
    assert!(opened > 100 && refused > 100, "{opened} opened, {refused} refused");
}

/// Gives fewer bytes than it is asked for.
#[derive(Debug)]
struct Short(Buffer);

impl ReadAt for Short {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer, Error> {
        let bytes = self.0.read_at(range)?;
        Ok(bytes.slice_with_length(0, bytes.len() / 2))
    }
}

/// Fails behind some place, but for footer and index; knows where reads have begun.
#[derive(Debug)]
struct Failing {
    bytes: Buffer,
    from: AtomicU64,
    starts: Mutex<Vec<u64>>,
}

impl Failing {
    fn new(bytes: &[u8]) -> Arc<Self> {
        let bytes = Buffer::from(bytes);
        Arc::new(Self { bytes, from: u64::MAX.into(), starts: Mutex::default() })
    }
}

impl ReadAt for Failing {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer, Error> {
        if range.end < self.len() {
            self.starts.lock().unwrap().push(range.start);
            if range.start >= self.from.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("the disk is gone").into());
            }
        }
        self.bytes.read_at(range)
    }
}

#[test]
fn a_source_that_fails_in_any_window_ends_the_call() {
    let source = Failing::new(&file_of(&[facts()], &options()));
    let file = File::from_source(source.clone()).unwrap().with_name("facts").with_window_bytes(1);
    let sum = || file.scan().aggregate(&[sum(col("shop"))], &Engine::cpu());
    sum().unwrap();
    let mut starts = std::mem::take(&mut *source.starts.lock().unwrap());
    starts.sort_unstable();
    assert_eq!(starts.len(), 9);
    for (chunk, start) in starts.iter().enumerate() {
        source.from.store(*start, Ordering::Relaxed);
        let error = sum().unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        let message = error.to_string();
        let place = format!("file \"facts\": column \"shop\", chunk {chunk}: ");
        assert!(message.starts_with(&place) && message.ends_with("the disk is gone"), "{message}");
    }
    // Batches before the failure come, and nothing behind it.
    source.from.store(starts[3], Ordering::Relaxed);
    let mut batches = file.scan().batches(&["shop"], &Engine::cpu()).unwrap();
    for _ in 0..3 {
        assert_eq!(batches.next_batch().unwrap().unwrap().num_rows(), 1024);
    }
    let error = batches.next_batch().unwrap_err();
    assert_eq!(error.place().unwrap().chunk, Some(3), "{error}");
    assert!(batches.next_batch().unwrap().is_none());
    assert!(file.scan().batches(&["none"], &Engine::cpu()).is_err());
}

#[test]
fn the_memory_limit_is_one_of_all_windows() {
    let batch = facts();
    let file = open(&file_of(std::slice::from_ref(&batch), &options())).unwrap();
    let in_windows = file.clone().with_window_bytes(1);
    // 9,000 rows of 8 bytes, and a bit each where nulls may be.
    let needed = 9000 * 8 + 9000 / 8 + 100;
    for (bytes, fits) in [(needed, true), (needed / 2, false), (1000, false)] {
        let engine = Engine::cpu().with_memory_limit(bytes);
        for file in [&file, &in_windows] {
            let found = file.scan().gather(&["shop"], &engine);
            match fits {
                true => assert_eq!(found.unwrap().column(0), batch.column(1)),
                false => {
                    let error = found.unwrap_err();
                    let Error::MemoryLimit { total, limit, .. } = error else { panic!("{error}") };
                    assert!(limit == bytes && total > limit, "{total} {limit}");
                }
            }
        }
    }
}

#[test]
fn sources_that_give_too_little_are_an_error() {
    let bytes = file_of(&[facts()], &options());
    let error = File::from_source(Arc::new(Short(Buffer::from_vec(bytes)))).unwrap_err();
    assert!(error.to_string().contains("bytes came of bytes"), "{error}");
}

#[test]
fn errors_name_column_and_chunk() {
    let bytes = file_of(&[facts()], &options());
    let file = open(&bytes).unwrap();
    let source = Counting::new(&bytes);
    File::from_source(source.clone())
        .unwrap()
        .take_columns(&[3000], &["shop"], &Engine::cpu())
        .unwrap();
    let place = source.ranges.lock().unwrap().last().unwrap().clone();
    let mut damaged = bytes.clone();
    damaged[place.end as usize - 100] ^= 1;
    let error = open(&damaged).unwrap().columns(&["shop"]).unwrap_err();
    let place = error.place().unwrap();
    assert_eq!((place.column.as_deref(), place.chunk), (Some("shop"), Some(2)), "{error}");
    // Other columns are of no concern.
    open(&damaged).unwrap().columns(&["day", "price", "name"]).unwrap();
    let error = file.columns(&["none"]).unwrap_err();
    assert!(error.to_string().contains("no column \"none\""), "{error}");
    let error = file.chunk(9, &Engine::cpu()).unwrap_err();
    assert!(error.to_string().contains("chunk 9 of 9"), "{error}");
}

#[test]
fn other_files_are_refused_by_name() {
    let batch = facts();
    let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options()).unwrap();
    writer.write(&batch).unwrap();
    let without_index = writer.into_inner().unwrap();
    let error = open(&without_index).unwrap_err().to_string();
    assert!(error.contains("index") && error.contains("ipc::Reader"), "{error}");
    for bytes in [&b""[..], b"ARROW1", b"PAR1 and something that is longer PAR1", &[0; 4096]] {
        open(bytes).unwrap_err();
    }
}

/// Takes so many bytes.
struct Limited {
    left: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.left {
            return Err(std::io::Error::other("full"));
        }
        self.left -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_file() {
    let batch = facts();
    let whole = file_of(std::slice::from_ref(&batch), &options()).len();
    for left in [0, 100, 3000, 20_000, whole - 1] {
        let written =
            Writer::try_new(Limited { left }, &batch.schema(), options()).and_then(|mut writer| {
                let written = writer.write(&batch).and_then(|()| writer.finish());
                assert!(written.is_err());
                // Nothing more is written behind a part of a message.
                assert!(writer.write(&batch).is_err() && writer.finish().is_err());
                written
            });
        assert!(written.unwrap_err().to_string().contains("full"), "{left}");
    }
}

#[test]
fn batches_of_any_size_become_full_chunks() {
    let batch = facts();
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
    for start in (0..9000).step_by(700) {
        writer.write(&batch.slice(start, 700.min(9000 - start))).unwrap();
    }
    assert!(writer.bytes_written() > 0);
    let file = open(&writer.into_inner().unwrap()).unwrap();
    let rows = file.statistics("day").unwrap().rows;
    assert_eq!(rows.values()[..8], [1024; 8]);
    assert_eq!(
        file.scan().gather(&["day", "shop", "price", "name"], &Engine::cpu()).unwrap(),
        batch
    );

    // Nothing at all, and rows that are flushed.
    let empty =
        Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap().into_inner().unwrap();
    let empty = open(&empty).unwrap();
    assert_eq!((empty.num_rows(), empty.num_chunks()), (0, 0));
    assert_eq!(empty.scan().gather(&["day"], &Engine::cpu()).unwrap().num_rows(), 0);
    assert_eq!(empty.scan().count(&Engine::cpu()).unwrap(), 0);
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
    writer.write(&batch.slice(0, 10)).unwrap();
    writer.flush().unwrap();
    writer.write(&batch.slice(10, 20)).unwrap();
    let error = writer.write(&batch.project(&[0]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("schema"), "{error}");
    writer.finish().unwrap();
    assert!(writer.write(&batch).is_err());
    writer.finish().unwrap();
    let file = open(&writer.into_inner().unwrap()).unwrap();
    assert_eq!(file.statistics("day").unwrap().rows.values(), &[10, 20]);
}

#[test]
fn files_of_the_system_are_read_at_any_place() {
    let batch = facts();
    let path = std::env::temp_dir().join(format!("lanepack-file-{}.arrow", std::process::id()));
    let sink = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut writer = Writer::try_new(sink, &batch.schema(), options()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let file = File::open(&path).unwrap();
    let by_reader = File::from_reader(std::fs::File::open(&path).unwrap()).unwrap();
    for file in [file, by_reader] {
        let found = file.scan().filter(col("day").gt(890)).count(&Engine::auto()).unwrap();
        assert_eq!(found, 90);
    }
    std::fs::remove_file(&path).unwrap();
    assert!(File::open(&path).is_err());
}
