//! Device memory that runs out anywhere: an error that says how much was needed and free, nothing
//! that stays allocated, and an engine that works afterwards.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use lanepack::scan::{Scan, col, count_rows, lit, max, sum};
use lanepack::{Encoding, Engine, Error, Options, Result, compress};

use super::common::{Nulls, Shape, array_of};
use super::{SIMT_MEMORY, engines, staged};

/// Does work again and again, each time with less memory: the first allocations succeed and all
/// others fail, or of some one alone. `work` gives what it has made of things that are freed by then.
#[track_caller]
fn fails_cleanly<T: PartialEq + Debug>(name: &str, work: impl Fn(&Engine) -> Result<T>) {
    let engine = Engine::simt(1, SIMT_MEMORY);
    let expected = work(&engine).unwrap();
    let mut failures = 0;
    for number in 0.. {
        // Work goes on behind an allocation that fails alone only if it is done again.
        let alone = (number % 3 == 0).then_some(number..number + 1);
        for failing in std::iter::once(number..u64::MAX).chain(alone) {
            let is_one = failing.end == number + 1;
            assert!(!engine.fail_allocations(failing), "nothing has failed yet");
            let result = work(&engine);
            let has_failed = engine.fail_allocations(0..0);
            match result {
                Ok(found) => {
                    assert_eq!(found, expected, "{name}, allocation {number}");
                    // What did not fit beside other columns is done again alone.
                    assert!(is_one || !has_failed, "{name}, allocation {number}: no error");
                }
                Err(Error::DeviceMemory { needed, free, total, .. }) => {
                    failures += 1;
                    assert!(
                        needed > 0 && free > 0 && total == SIMT_MEMORY,
                        "{name}: {needed}, {free}"
                    );
                }
                Err(error) => panic!("{name}, allocation {number}: {error}"),
            }
            let free = engine.free_memory().unwrap();
            assert_eq!(free, SIMT_MEMORY, "{name}, allocation {number}: freed");
            if !has_failed {
                assert!(failures > 3, "{name}: {failures} failures");
                return;
            }
        }
    }
}

/// Columns of every kind that devices encode.
fn values() -> RecordBatch {
    let types = [
        DataType::UInt8,
        DataType::Int32,
        DataType::Int64,
        DataType::Float64,
        DataType::Boolean,
        DataType::Decimal128(30, 2),
        DataType::Utf8,
    ];
    let rows = 1300;
    let arrays = types.iter().map(|of| array_of(of, rows, Shape::Outliers, Nulls::Random));
    let runs = Int64Array::from_iter_values((0..rows as i64).map(|row| row / 40 * 7));
    let names = (0..rows).map(|row| format!("name of {}", row * row % 60));
    let more: [ArrayRef; 2] = [Arc::new(runs), Arc::new(StringArray::from_iter_values(names))];
    let arrays: Vec<ArrayRef> = arrays.chain(more).collect();
    let field = |(index, array): (usize, &ArrayRef)| {
        Field::new(format!("c{index}"), array.data_type().clone(), true)
    };
    let fields: Vec<Field> = arrays.iter().enumerate().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// A nested column, whose leaves are numbers, strings, lengths and nulls.
fn nested() -> RecordBatch {
    let rows = 1100;
    let numbers = Int64Array::from_iter((0..rows).map(|row| (row % 7 != 0).then_some(row * row)));
    let texts = StringArray::from_iter_values((0..rows).map(|row| format!("{} of {row}", row % 9)));
    let fields =
        vec![Field::new("number", DataType::Int64, true), Field::new("text", DataType::Utf8, true)];
    let structs = StructArray::new(fields.into(), vec![Arc::new(numbers), Arc::new(texts)], None);
    let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths((0..rows as usize).map(|_| 1));
    let lists = ListArray::new(item, offsets, Arc::new(structs), None);
    RecordBatch::try_from_iter([("c0", Arc::new(lists) as ArrayRef)]).unwrap()
}

/// Strings that go from host to host in several parts, with a dictionary in some chunks.
fn texts() -> RecordBatch {
    let text = |row: usize| match row {
        0..1024 => (row % 9 != 4).then(|| format!("line {} of many", row * 7919 % 997)),
        _ => Some(format!("name of {}", row * row % 60)),
    };
    let texts = StringArray::from_iter((0..1500).map(text));
    RecordBatch::try_from_iter_with_nullable([("c0", Arc::new(texts) as ArrayRef, true)]).unwrap()
}

/// Strings, of which a column of one chunk is made.
fn of_texts(text: impl Fn(usize) -> String) -> RecordBatch {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..600).map(text)));
    RecordBatch::try_from_iter([("c0", texts)]).unwrap()
}

/// Numbers that go from host to host in several parts.
fn long() -> RecordBatch {
    let numbers = Int64Array::from_iter_values((0..20_000).map(|row| row * row % 1000));
    RecordBatch::try_from_iter([("c0", Arc::new(numbers) as ArrayRef)]).unwrap()
}

fn options() -> Options {
    Options::default().with_chunk_rows(1024)
}

#[test]
fn compression_frees_what_it_has_when_memory_runs_out() {
    let values = values();
    for (index, field) in values.schema().fields().iter().enumerate() {
        let column = values.project(&[index]).unwrap();
        let name = format!("compress {}", field.data_type());
        fails_cleanly(&name, |engine| engine.compress_to_device(&column, &options())?.download());
    }
}

#[test]
fn compression_of_host_memory_frees_what_it_has_when_memory_runs_out() {
    // Side by side.
    let values = values();
    let some = values.project(&[1, 4]).unwrap();
    fails_cleanly("compress", |engine| engine.compress(&some, &options()));
    // In parts that overlap, of 32 KiB on the emulation.
    let long = long();
    fails_cleanly("compress parts", |engine| engine.compress(&long, &options()));
    let texts = texts();
    let mut of_texts = options();
    of_texts = of_texts.with_group_rows(1024);
    fails_cleanly("compress strings in parts", |engine| engine.compress(&texts, &of_texts));
}

#[test]
fn nested_columns_free_what_they_have_when_memory_runs_out() {
    let nested = nested();
    fails_cleanly("compress lists", |engine| engine.compress(&nested, &options()));
}

#[test]
fn front_coding_frees_what_it_has_when_memory_runs_out() {
    let paths = of_texts(|row| format!("/usr/share/doc/{:05}", row / 2));
    let few = options().with_encodings([Encoding::Front, Encoding::Fsst]);
    fails_cleanly("compress by front coding", |engine| engine.compress(&paths, &few));
    let items = of_texts(|row| format!("https://example.org/items/{:05}", row * 7919 % 60));
    let few = options().with_encodings([Encoding::Front, Encoding::Dict]);
    fails_cleanly("compress a dictionary", |engine| engine.compress(&items, &few));
}

#[test]
fn decompression_frees_what_it_has_when_memory_runs_out() {
    let packed = compress(&long(), &options()).unwrap();
    fails_cleanly("decompress parts", |engine| engine.decompress(&packed));
    let packed = compress(&values(), &options()).unwrap();
    fails_cleanly("decompress", |engine| engine.decompress(&packed));
    for packed in [packed, staged::packed(0, 5000, 2048)] {
        fails_cleanly("decompress on the device", |engine| {
            let arrays = engine.upload(&packed)?.decompress()?;
            arrays.iter().map(|array| array.to_host()).collect::<Result<Vec<_>>>()
        });
    }
}

#[test]
fn scans_free_what_they_have_when_memory_runs_out() {
    let values = compress(&values(), &options()).unwrap();
    let filter = || col("c1").gt(0).and(col("c6").is_not_null()).or(col("c8").eq("name of 1"));
    fails_cleanly("mask", |engine| {
        let table = engine.upload(&values)?;
        Scan::on_device(&table).filter(filter()).mask(engine)
    });
    fails_cleanly("aggregate", |engine| {
        let aggregates = [sum(col("c1") * lit(3_i64)), max(col("c3")), count_rows()];
        let table = engine.upload(&values)?;
        Scan::on_device(&table).filter(filter()).aggregate(&aggregates, engine)
    });
    fails_cleanly("gather", |engine| {
        let table = engine.upload(&values)?;
        Scan::on_device(&table).filter(filter()).gather(&["c0", "c5", "c6", "c8"], engine)
    });
    let staged = staged::packed(0, 5000, 2048);
    fails_cleanly("scan of stages", |engine| {
        let filter = col("word").gt(1_i64 << 60).or(col("path").like("%/share/0%9/%"));
        let table = engine.upload(&staged)?;
        let scan = Scan::on_device(&table).filter(filter);
        Ok((scan.mask(engine)?, scan.aggregate(&[max(col("word"))], engine)?))
    });
}

#[test]
fn values_have_a_limit() {
    let batch =
        record_batch!(("id", Int32, [1, 2, 3, 4]), ("flag", Boolean, [true, false, true, true]));
    let batch = batch.unwrap();
    let compressed = compress(&batch, &Options::default()).unwrap();
    for engine in engines() {
        let with = |bytes| engine.clone().with_memory_limit(bytes);
        let (fits, less) = (with(17), with(16));
        assert_eq!(fits.decompress(&compressed).unwrap(), batch);
        assert_eq!(fits.upload(&compressed).unwrap().decompress().unwrap().len(), 2);
        // Chunks without bodies, by default.
        let zeros: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![0; 100_000]));
        let zeros = RecordBatch::try_from_iter([("zero", zeros)]).unwrap();
        let options = Options::default().with_chunk_rows(1024);
        let uploaded = engine.upload(&compress(&zeros, &options).unwrap()).unwrap();
        assert_eq!(&uploaded.decompress().unwrap()[0].to_host().unwrap(), zeros.column(0));
        let gathered = |engine: &Engine| Scan::new(&compressed).gather(&["id", "flag"], engine);
        assert_eq!(gathered(&fits).unwrap(), batch);
        let uploaded = less.upload(&compressed).unwrap();
        uploaded.columns()[0].decompress().unwrap();
        let errors = [
            less.decompress(&compressed).err(),
            uploaded.decompress().err(),
            with(15).upload(&compressed).unwrap().columns()[0].decompress().err(),
            gathered(&less).err(),
        ];
        for error in errors {
            assert!(matches!(error, Some(Error::MemoryLimit { .. })), "{error:?}");
        }
    }
}
