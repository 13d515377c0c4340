//! Compression on a device, beyond what `check` compares for every array: tables of
//! chunks that differ, arrays that lie on the device, real columns.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema};
use lanepack::{Encoding, Engine, Options, compress, compress_array};

use super::common::*;
use super::{assert_same_bytes, check, engines, thinned};

/// Rows of a file that an emulated device compresses.
const EMULATED_ROWS: usize = 4000;

fn is_emulated(engine: &Engine) -> bool {
    engine.device().is_some_and(|device| device.name.contains("emulation"))
}

fn batch_of(columns: &[ArrayRef]) -> RecordBatch {
    let field = |(index, array): (usize, &ArrayRef)| {
        Field::new(index.to_string(), array.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.to_vec()).unwrap()
}

#[test]
fn all_shared_files() {
    for engine in engines() {
        for (number, path) in shared_files().into_iter().enumerate() {
            let whole = read_parquet(&path);
            let rows = if is_emulated(&engine) { EMULATED_ROWS } else { whole.num_rows() };
            let batch = whole.slice(0, rows.min(whole.num_rows()));
            for (case, chunk_rows) in [2048, 65_536].into_iter().enumerate() {
                if thinned(&engine, number + case, 2) {
                    continue;
                }
                let options = Options::default().with_chunk_rows(chunk_rows);
                let expected = compress(&batch, &options).unwrap();
                let found = engine.compress(&batch, &options).unwrap();
                assert_same_bytes(&found, &expected, || path.display().to_string());
            }
        }
    }
}

/// A table that was trained on other chunks slips on some, which get their own.
#[test]
fn chunks_of_different_text_have_tables_of_their_own() {
    let mut rng = Rng(21);
    let words = ["the quick brown fox ", "jumps over ", "lazy dogs and ", "0123456789"];
    let text = |rng: &mut Rng, chunk: usize| -> String {
        match chunk % 3 {
            0 => (0..3).map(|_| words[rng.below(3) as usize]).collect(),
            1 => format!("{:064b}", rng.next()),
            _ => format!("id-{:08x}-{}", rng.next() as u32, words[3]),
        }
    };
    let values: Vec<String> = (0..9 * 1024).map(|row| text(&mut rng, row / 1024)).collect();
    let array: ArrayRef = Arc::new(StringArray::from(values));
    let options = Options::default().with_chunk_rows(1024);
    let column = compress_array(&array, &options).unwrap();
    let tables: Vec<&[u8]> = column.chunks().iter().map(|chunk| &chunk.body()[..64]).collect();
    assert!(tables.iter().any(|table| *table != tables[0]), "all chunks share a table");
    for engine in engines() {
        check(&engine, &array, &options);
    }
}

/// Codes of the first windows are made before it is known how chunks are stored. Here the first
/// chunk has none, and lengths of long values' codes are sums, which begin anew.
#[test]
fn codes_that_were_guessed_wrongly_are_undone() {
    let mut rng = Rng(23);
    let noise = |rng: &mut Rng| -> Vec<u8> { (0..60).map(|_| rng.next() as u8).collect() };
    let text = |row: usize| -> Vec<u8> {
        let words = if row.is_multiple_of(50) { 150 } else { 1 };
        (0..words).flat_map(|word| format!("row {row}, word {word}; ").into_bytes()).collect()
    };
    let values: Vec<Vec<u8>> =
        (0..5 * 1024).map(|row| if row < 1024 { noise(&mut rng) } else { text(row) }).collect();
    let array: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
    let options = Options::default().without(Encoding::Lz).with_chunk_rows(1024);
    let column = compress_array(&array, &options).unwrap();
    let encodings = column.encoding().to_string();
    assert!(encodings.starts_with("plain") && encodings.contains("+fsst"), "{encodings}");
    for engine in engines() {
        check(&engine, &array, &options);
    }
}

/// Each vector has a part of the codes of its own, however short: here hundreds of parts, most
/// of them empty, come to a few hundred codes.
#[test]
fn vectors_with_hardly_any_bytes() {
    let rows = 200 * 1024;
    let text = |row: usize| match row {
        0 | 77_777 | 204_799 => Some(format!("a text of some length, in row {row}").into_bytes()),
        _ if row.is_multiple_of(1999) => Some(b"abc".to_vec()),
        _ if row.is_multiple_of(7) => None,
        _ => Some(Vec::new()),
    };
    let small: BinaryArray = (0..rows).map(text).collect();
    let large: LargeBinaryArray = (0..rows).map(text).collect();
    for array in [Arc::new(small) as ArrayRef, Arc::new(large)] {
        for chunk_rows in [1024, 131_072] {
            let options = Options::default()
                .with_encodings([Encoding::Fsst, Encoding::Ffor])
                .with_chunk_rows(chunk_rows);
            for engine in engines() {
                check(&engine, &array, &options);
            }
        }
    }
}

/// Bytes under nulls are no part of what is stored.
#[test]
fn bytes_under_nulls_are_left_out() {
    let mut rng = Rng(22);
    let values: Vec<u8> = (0..40_000).map(|_| b"abcdefgh"[rng.below(8) as usize]).collect();
    let noise: Vec<u8> = (0..40_000).map(|_| rng.next() as u8).collect();
    for data in [values, noise] {
        let mut offsets = vec![0];
        while offsets.len() <= 3000 {
            offsets.push((offsets[offsets.len() - 1] + rng.below(14) as i32).min(40_000));
        }
        let nulls: NullBuffer = (0..3000).map(|row| row % 3 != 1).collect();
        let offsets = OffsetBuffer::new(offsets.into());
        let array: ArrayRef = Arc::new(BinaryArray::new(offsets, data.into(), Some(nulls)));
        for engine in engines() {
            for encoding in [Encoding::Fsst, Encoding::Plain, Encoding::Constant, Encoding::Lz] {
                let options = Options::default().with_encodings([encoding]).with_chunk_rows(1024);
                check(&engine, &array, &options);
            }
            check(&engine, &array.slice(5, 2500), &Options::default());
        }
    }
}

/// Values of one segment, of many, at and around the borders of segments.
#[test]
fn values_around_segments() {
    let mut rng = Rng(23);
    let mut values: Vec<Vec<u8>> = Vec::new();
    for len in [1023, 1024, 1025, 2047, 2048, 2049, 0, 1, 70_000, 3, 5000] {
        values.push((0..len).map(|at| b"abracadabra"[(at * at / 7) % 11]).collect());
        values.push((0..len).map(|_| rng.next() as u8).collect());
    }
    for engine in engines() {
        for data_type in [DataType::Binary, DataType::LargeBinary] {
            let array = strings(&data_type, &values, Nulls::None);
            check(&engine, &array, &Options::default());
            check(&engine, &array, &Options::default().with_encodings([Encoding::Fsst]));
        }
    }
}

#[test]
fn one_value_for_all_rows() {
    let long = "x".repeat(1024);
    let longer = "x".repeat(1025);
    let arrays: [ArrayRef; 5] = [
        Arc::new(StringArray::from(vec![Some("same"), None, Some("same")])),
        Arc::new(StringArray::from(vec![None::<&str>; 3000])),
        Arc::new(StringArray::from(vec![""; 2000])),
        Arc::new(StringArray::from(vec![long.as_str(); 30])),
        Arc::new(StringArray::from(vec![longer.as_str(); 30])),
    ];
    for engine in engines() {
        arrays.iter().for_each(|array| check(&engine, array, &Options::default()));
    }
}

/// Bounds are cut at characters, and upper ones increased.
#[test]
fn bounds_of_long_text() {
    for head in ["a".repeat(62), "a".repeat(63), "a".repeat(64), "é".repeat(31) + "a"] {
        let value = |tail: &str| format!("{head}{tail}");
        let values =
            ["ééé", "\u{10ffff}\u{10ffff}", "", "zzzzzzzzzzzzz", "日本語日本語"].map(value);
        let array: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        for engine in engines() {
            check(&engine, &array, &Options::default());
        }
    }
}

/// What was decompressed to a device is compressed from there.
#[test]
fn arrays_on_the_device_are_compressed_there() {
    let arrays: Vec<ArrayRef> = encoded_types()
        .iter()
        .filter(|data_type| data_type.is_primitive() || **data_type == DataType::Utf8)
        .map(|data_type| array_of(data_type, 5000, Shape::Outliers, Nulls::Random))
        .collect();
    let batch = batch_of(&arrays);
    let options = Options::default().with_chunk_rows(2048);
    let expected = compress(&batch, &options).unwrap();
    for engine in engines() {
        let on_device = engine.compress_to_device(&batch, &options).unwrap();
        assert_eq!(on_device.num_rows(), 5000);
        let arrays = on_device.decompress().unwrap();
        let again = engine.compress_arrays(&batch.schema(), &arrays, &options).unwrap();
        drop(arrays);
        assert_same_bytes(&again.download().unwrap(), &expected, || "again".to_owned());
        assert_same_bytes(&on_device.download().unwrap(), &expected, || "once".to_owned());
    }
}

#[test]
fn arrays_that_do_not_fit_a_schema_are_errors() {
    let (short, long): (ArrayRef, ArrayRef) =
        (Arc::new(Int32Array::from(vec![1])), Arc::new(Int32Array::from(vec![1, 2])));
    let field = |data_type| Field::new("column", data_type, true);
    for engine in engines() {
        let arrays = || [&short, &long].map(|array| engine.copy_to_device(array).unwrap());
        let error = |fields: Vec<Field>, arrays: &[lanepack::DeviceArray]| {
            let schema = Arc::new(Schema::new(fields));
            let result = engine.compress_arrays(&schema, arrays, &Options::default());
            result.unwrap_err().to_string()
        };
        let nulls: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let nulls = [engine.copy_to_device(&nulls).unwrap()];
        let never = Field::new("column", DataType::Int32, false);
        assert!(error(vec![never], &nulls).contains("not nullable"));
        let (int, float) = (|| field(DataType::Int32), || field(DataType::Float32));
        assert!(error(vec![int()], &arrays()).contains("2 arrays for 1 fields"));
        assert!(error(vec![int(), float()], &arrays()).contains("Float32"));
        assert!(error(vec![int(), int()], &arrays()).contains("2 rows"));
    }
}

#[test]
fn a_device_without_enough_memory_says_how_much_it_needs() {
    #[cfg(lanepack_simt)]
    {
        let array: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..100_000));
        let engine = Engine::simt(1, 300_000);
        let error = engine.compress(&batch_of(&[array]), &Options::default()).unwrap_err();
        assert!(matches!(error, lanepack::Error::DeviceMemory { .. }), "{error}");
        assert!(error.to_string().contains("800000"), "{error}");
        assert_eq!(engine.free_memory().unwrap(), 300_000);
        // Room for the values, not for their lengths and the training of a table; room for
        // these too, not for codes.
        let texts = (0..300_000).map(|row| format!("text number {row}"));
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let options = Options::default().with_chunk_rows(131_072);
        for memory in [8_000_000, 14_000_000] {
            let engine = Engine::simt(1, memory);
            let error = engine.compress(&batch_of(std::slice::from_ref(&array)), &options);
            let error = error.unwrap_err();
            assert!(matches!(error, lanepack::Error::DeviceMemory { .. }), "{error}");
            assert_eq!(engine.free_memory().unwrap(), memory);
        }
        let engine = Engine::simt(1, 30_000_000);
        engine.compress(&batch_of(&[array]), &options).unwrap();
    }
}

/// Several tables, each of which serves several windows, or one.
#[test]
fn long_columns_have_a_table_for_each_group_of_chunks() {
    let mut rng = Rng(24);
    let word = |rng: &mut Rng| ["north", "south", "east", "west", "up"][rng.below(5) as usize];
    let value = |row: usize, rng: &mut Rng| match row / 70_000 {
        0 => format!("{}-{}", word(rng), word(rng)),
        _ => format!("{:05x}", rng.below(4000)),
    };
    let values: Vec<String> = (0..150_000).map(|row| value(row, &mut rng)).collect();
    let short = values.iter().map(|value| &value[value.len() - 2..]);
    let short: ArrayRef = Arc::new(StringArray::from_iter_values(short));
    let long: ArrayRef = Arc::new(StringArray::from_iter_values(&values));
    let mut options = Options::default().with_chunk_rows(8192).with_verify(true).with_threads(1);
    options = options.with_group_rows(8 * 8192);
    for engine in engines() {
        for array in [&short, &long] {
            check(&engine, array, &options);
        }
    }
}

/// More tables than are trained at a time; symbols that look like the marks of training.
#[test]
fn many_tables_and_odd_symbols() {
    let mut rng = Rng(31);
    let odd: [&[u8]; 7] = [
        &[0xFF; 8],
        &[0; 8],
        &[0x9E; 8],
        &[0, 0, 0, 0, 0, 0, 0, 0xF9],
        &[1, 0, 0, 0, 0, 0, 0, 0xFF],
        &[7, 6, 5, 4, 3, 2, 1, 0xFE],
        b"plain te",
    ];
    let value = |rng: &mut Rng| -> Vec<u8> {
        (0..1 + rng.below(4)).flat_map(|_| odd[rng.below(7) as usize].to_vec()).collect()
    };
    let values: Vec<Vec<u8>> = (0..40 * 1024).map(|_| value(&mut rng)).collect();
    let array: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
    let mut options = Options::default().with_chunk_rows(1024).with_verify(true);
    options = options.with_group_rows(1024);
    let one = BinaryArray::from_iter_values([vec![b'a'; 400_000], vec![0xFF; 100_000]]);
    let one: ArrayRef = Arc::new(one);
    for engine in engines() {
        check(&engine, &array, &options);
        check(&engine, &array, &Options::default());
        check(&engine, &one, &Options::default());
    }
}

/// Strings of about so many bytes as bound the samples that symbol tables are trained on.
#[test]
fn symbol_tables_of_columns_of_any_size() {
    for bytes in [(16 << 10) + 1, (256 << 10) - 1, (256 << 10) + 16, (1 << 20) - 1, (1 << 20) + 16]
    {
        let mut left = bytes;
        let value = |row: usize| {
            let mut text = format!("item {} of {}, in {}", row * 7919 % 997, row / 64, row % 13);
            text.truncate(left);
            left -= text.len();
            text
        };
        let values: Vec<String> = (0..).map(value).take_while(|text| !text.is_empty()).collect();
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(values));
        for engine in engines() {
            check(&engine, &array, &Options::default());
        }
    }
}
