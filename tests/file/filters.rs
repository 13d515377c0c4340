//! Membership filters: what is found is what is found without them, and chunks that they exclude are not read.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use lanepack::file::{Dataset, File, Writer};
use lanepack::scan::{Expr, Literal, col, count_distinct, count_rows, lit};
use lanepack::{Engine, Error, Options, ipc};
use twox_hash::XxHash3_64;

use crate::common::*;
use crate::{Counting, every_type, facts, file_of, open, options};

fn filtered(batches: &[RecordBatch], names: &[impl AsRef<str>], options: &Options) -> Vec<u8> {
    let writer = Writer::try_new(Vec::new(), &batches[0].schema(), options.clone()).unwrap();
    let mut writer = writer.with_filters(names).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn id(row: i64) -> i64 {
    row.wrapping_mul(0x5851_f42d_4c95_7f2d)
}

fn mail(row: i64) -> String {
    format!("{:016x}@example.com", id(row + 1))
}

/// Rows with scattered ids and addresses, every seventh address null.
fn people(rows: Range<i64>) -> RecordBatch {
    let mails = rows.clone().map(|row| (row % 7 > 0).then(|| mail(row)));
    record_batch!(
        ("id", Int64, rows.clone().map(id).collect::<Vec<_>>()),
        ("mail", Utf8, mails.collect::<Vec<_>>()),
        ("row", Int64, rows.collect::<Vec<_>>())
    )
    .unwrap()
}

fn rows_of(file: &File, filter: Expr) -> Result<Vec<u64>, Error> {
    Ok(file.scan().filter(filter).rows(&Engine::cpu())?.values().to_vec())
}

/// Where the index of a file is.
fn index_of(bytes: &[u8]) -> Range<usize> {
    let reader = FileReader::try_new(Cursor::new(bytes), None).unwrap();
    let (at, len) = reader.custom_metadata()["lanepack.index"].split_once(',').unwrap();
    let (at, len): (usize, usize) = (at.parse().unwrap(), len.parse().unwrap());
    at..at + len
}

/// Makes the checksum of an index right.
fn seal(bytes: &mut [u8], index: Range<usize>) {
    let checksum = XxHash3_64::oneshot(&bytes[index.start + 8..index.end]);
    bytes[index.start..index.start + 8].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn every_type_is_found_with_filters() {
    let batch = every_type(3000);
    let names = filter_columns(&batch.schema());
    assert!(names.len() > 25, "{names:?}");
    let [plain, with_filters] = [
        file_of(std::slice::from_ref(&batch), &options()),
        filtered(std::slice::from_ref(&batch), &names, &options()),
    ];
    let (file, expected) = (open(&with_filters).unwrap(), open(&plain).unwrap());
    assert!(file.verify(&Engine::cpu()).is_empty());
    for name in &names {
        let array = batch.column_by_name(name).unwrap();
        let value = |row: usize| {
            let row = (row..3000).chain(0..row).find(|row| array.is_valid(*row));
            lit(Scalar::new(array.slice(row.unwrap_or(0), 1)))
        };
        let one = |row: usize| col(name).eq(value(row));
        let list = |rows: &[usize]| col(name).in_list(rows.iter().map(|row| value(*row)));
        let filters = [
            one(0),
            one(1500),
            one(2999),
            list(&[5, 2050]),
            !one(70),
            !list(&[1, 2, 3]),
            col(name).between(value(17), value(17)),
            one(3).or(one(2900)),
            one(3).and(!one(2900)),
            !(one(3).and(one(2900))),
            one(3).and(col(name).is_null()),
            col(name).is_null().or(one(9)),
        ];
        for filter in filters {
            let text = filter.to_string();
            let found = rows_of(&file, filter.clone()).unwrap();
            assert_eq!(found, rows_of(&expected, filter).unwrap(), "{name}: {text}");
        }
    }
    // The chunks are the same, and other readers see nothing of filters.
    for (own, other) in file.columns(&names).unwrap().iter().zip(expected.columns(&names).unwrap())
    {
        for (own, other) in own.chunks().iter().zip(other.chunks()) {
            assert_eq!((own.header(), own.body()), (other.header(), other.body()));
        }
    }
    let read: Vec<RecordBatch> =
        ipc::Reader::file(Cursor::new(&with_filters)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(concat_batches(&batch.schema(), &read).unwrap(), batch);
    let [own, other] = [&with_filters, &plain].map(|bytes| {
        let reader = FileReader::try_new(Cursor::new(bytes), None).unwrap();
        reader.collect::<Result<Vec<RecordBatch>, _>>().unwrap()
    });
    assert_eq!(own, other);
}

#[test]
fn floats_are_found_bit_by_bit() {
    let nan = f64::from_bits(f64::NAN.to_bits() | 5);
    let values = [0.0, -0.0, f64::NAN, nan, -f64::NAN, f64::INFINITY, 1.5, f64::MIN_POSITIVE];
    for absent in 0..values.len() {
        let column = (0..3000).map(|row| match values[row % values.len()] {
            _ if row % values.len() == absent => -7.25,
            value => value,
        });
        let batch = record_batch!(("x", Float64, column.collect::<Vec<_>>())).unwrap();
        let [plain, file] = [
            file_of(std::slice::from_ref(&batch), &options()),
            filtered(&[batch], &["x"], &options()),
        ]
        .map(|bytes| open(&bytes).unwrap());
        for value in values {
            let filter = || col("x").eq(value);
            assert_eq!(rows_of(&file, filter()).unwrap(), rows_of(&plain, filter()).unwrap());
        }
    }
}

#[test]
fn chunks_that_filters_exclude_are_not_read() {
    let batch = people(0..9000);
    let plain = file_of(std::slice::from_ref(&batch), &options());
    let bytes = filtered(&[batch], &["id", "mail"], &options());
    let source = Counting::new(&bytes);
    let file = File::from_source(source.clone()).unwrap();
    let expected = open(&plain).unwrap();
    let [ids, mails] = ["id", "mail"].map(|name| file.statistics(name).unwrap());
    assert!(ids.filter_bytes.values().iter().all(|bytes| *bytes > 1024 && bytes % 32 == 0));
    assert!(file.statistics("row").unwrap().filter_bytes.values().iter().all(|bytes| *bytes == 0));
    let all = |values: &UInt64Array| values.values().iter().sum::<u64>();
    source.take();
    // What is read of filters, with gaps of less than 64 bytes between them; and chunks, at most two more by
    // chance.
    let check = |filter: Expr, filters: u64, chunks: u64, column: &str| {
        let text = filter.to_string();
        let found = rows_of(&file, filter.clone()).unwrap();
        let (reads, read) = source.take();
        assert_eq!(found, rows_of(&expected, filter).unwrap(), "{text}");
        let chunk = file.statistics(column).unwrap().bytes.values().iter().copied().max().unwrap();
        let least = filters + chunks.saturating_sub(1) * chunk / 2;
        let most = filters + 64 * 20 + (chunks + 2) * (chunk + 4096);
        assert!((least..=most).contains(&read), "{text}: {read} bytes of {least} to {most}");
        assert!(reads as u64 <= 4 + chunks + 2, "{text}: {reads} reads");
    };
    check(col("id").eq(id(5000)), all(&ids.filter_bytes), 1, "id");
    check(col("id").eq(id(5000) + 1), all(&ids.filter_bytes), 0, "id");
    check(col("id").in_list([id(1), id(8999), 77]), all(&ids.filter_bytes), 2, "id");
    check(col("mail").eq(mail(123)), all(&mails.filter_bytes), 1, "mail");
    check(col("mail").in_list(["0", "nobody@example.com"]), 0, 0, "mail");
    check(col("id").eq(3).or(col("id").eq(4)), all(&ids.filter_bytes), 0, "id");
    let both = all(&ids.filter_bytes) + all(&mails.filter_bytes);
    check(col("id").eq(id(2)).or(col("mail").eq(mail(8990))), both, 4, "mail");
    check(col("id").eq(id(2)).and(col("mail").eq(mail(8990))), both, 0, "mail");
    // Of the chunks that bounds leave.
    let bytes_of = |chunk: usize| ids.filter_bytes.value(chunk);
    check(col("row").lt(1000).and(col("id").eq(id(5))), bytes_of(0), 2, "id");
    check(col("row").between(1100, 1200).and(col("id").eq(id(5))), bytes_of(1), 0, "id");
    // Filters that cannot exclude a chunk are not read: beside what some row of it passes, below NOT, of texts by
    // how they begin, of many constants.
    for filter in [
        col("id").eq(3).or(col("row").gt_eq(0)),
        !col("id").eq(3),
        !col("mail").eq(mail(3)),
        col("mail").starts_with("00"),
        col("id").gt(id(4)),
        col("id").in_list((0..200).map(id)),
        col("mail").in_list((0..300).map(mail)),
    ] {
        let text = filter.to_string();
        let before = source.ranges.lock().unwrap().len();
        let found = rows_of(&file, filter.clone()).unwrap();
        assert_eq!(found, rows_of(&expected, filter).unwrap(), "{text}");
        let ranges = source.ranges.lock().unwrap()[before..].to_vec();
        let filters = filter_places(&bytes);
        let is_filter =
            |range: &Range<u64>| filters.iter().any(|filter| filter.start == range.start);
        assert!(!ranges.iter().any(is_filter), "{text}");
    }
}

/// Where the filters of a file of three columns are, of which the first two have some.
fn filter_places(bytes: &[u8]) -> Vec<Range<u64>> {
    let index = index_of(bytes);
    let word = |at: usize| u64::from_le_bytes(bytes[index.start + at..][..8].try_into().unwrap());
    let chunks = word(16) as usize;
    let mut places = Vec::new();
    for column in 0..2 {
        assert_eq!(word(24 + 8 * column) % 8, 1);
        // In front of the parts of the next column.
        let end = (word(24 + 8 * (column + 1)) & !7) as usize;
        for chunk in 0..chunks {
            let at = word(end - 8 * (3 * chunks - chunk));
            places.push(at..at + word(end - 8 * (2 * chunks - chunk)));
        }
    }
    places
}

#[test]
fn filters_begin_at_multiples_of_64_bytes_behind_the_chunks() {
    let bytes = filtered(&[people(0..9000), people(0..50)], &["mail", "id"], &options());
    let places = filter_places(&bytes);
    assert_eq!(places.len(), 2 * 9);
    for place in &places {
        assert!(place.start % 64 == 0 && (place.end - place.start) % 32 == 0, "{place:?}");
    }
    // 1.3 bytes for each of the 1,024 ids.
    assert_eq!(places[0].end - places[0].start, 42 * 32);
    // Chunks without valid values have none, and need none.
    let nulls = record_batch!(("x", Int32, vec![None::<i32>; 2000])).unwrap();
    let file = open(&filtered(&[nulls], &["x"], &options())).unwrap();
    assert_eq!(file.statistics("x").unwrap().filter_bytes.values(), &[0, 0]);
    assert_eq!(rows_of(&file, col("x").eq(3)).unwrap(), [0; 0]);
    assert!(file.verify(&Engine::cpu()).is_empty());
    // A file of no chunks.
    let file = open(&filtered(&[people(0..0)], &["id", "mail"], &options())).unwrap();
    assert_eq!(rows_of(&file, col("id").eq(3)).unwrap(), [0; 0]);
}

#[test]
fn filters_are_refused_by_name() {
    let batch = every_type(10);
    let schema = batch.schema();
    let new = || Writer::try_new(Vec::new(), &schema, options()).unwrap();
    for field in schema.fields() {
        let result = new().with_filters(&[field.name()]);
        match may_have_filters(field.data_type()) {
            true => drop(result.unwrap()),
            false => {
                let error = result.err().unwrap();
                assert!(matches!(error, Error::Unsupported { .. }), "{error}");
                assert_eq!(error.place().unwrap().column.as_ref(), Some(field.name()));
            }
        }
    }
    let error = new().with_filters(&["none"]).err().unwrap();
    assert!(error.to_string().contains("no column \"none\""), "{error}");
    let mut writer = new();
    writer.write(&batch).unwrap();
    let error = writer.with_filters(&["column 1"]).err().unwrap();
    assert!(error.to_string().contains("has been written"), "{error}");
}

#[test]
fn files_that_are_copied_keep_their_filters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.lanepack");
    let writer = Writer::create(&path, &people(0..1).schema(), options()).unwrap();
    let mut writer = writer.with_filters(&["id"]).unwrap();
    writer.write(&people(0..3000)).unwrap();
    writer.finish().unwrap();
    let bytes_of = |file: &File, name: &str| file.statistics(name).unwrap().filter_bytes;
    let first = bytes_of(&File::open(&path).unwrap(), "id");
    // What is appended has filters as well.
    let mut writer = Writer::append(&path, options()).unwrap();
    writer.write(&people(3000..5000)).unwrap();
    writer.finish().unwrap();
    let appended = File::open(&path).unwrap();
    assert_eq!(bytes_of(&appended, "id").values()[..3], first.values()[..]);
    assert!(bytes_of(&appended, "id").values().iter().all(|bytes| *bytes > 0));
    assert!(bytes_of(&appended, "mail").values().iter().all(|bytes| *bytes == 0));

    // Of files some have filters.
    let plain = open(&file_of(&[people(5000..7000)], &options())).unwrap();
    let writer = Writer::try_new(Vec::new(), plain.schema(), options()).unwrap();
    let mut writer = writer.with_filters(&["id", "mail"]).unwrap();
    writer.write_file(&appended).unwrap();
    writer.write_file(&plain).unwrap();
    writer.write(&people(7000..7500)).unwrap();
    let merged = open(&writer.into_inner().unwrap()).unwrap();
    assert!(merged.verify(&Engine::cpu()).is_empty());
    let has = |name: &str| -> Vec<bool> {
        bytes_of(&merged, name).values().iter().map(|bytes| *bytes > 0).collect()
    };
    assert_eq!(has("id"), [true, true, true, true, true, false, false, true]);
    assert_eq!(has("mail"), [false, false, false, false, false, false, false, true]);
    for row in (0..7500).step_by(371) {
        assert_eq!(rows_of(&merged, col("id").eq(id(row))).unwrap(), [row as u64]);
        let found = rows_of(&merged, col("mail").eq(mail(row))).unwrap();
        assert_eq!(found, if row % 7 > 0 { vec![row as u64] } else { vec![] });
    }
    // A writer that was asked for none copies none.
    let mut writer = Writer::try_new(Vec::new(), plain.schema(), options()).unwrap();
    writer.write_file(&merged).unwrap();
    let bare = open(&writer.into_inner().unwrap()).unwrap();
    assert!(bytes_of(&bare, "id").values().iter().all(|bytes| *bytes == 0));
    assert_eq!(bare.num_rows(), 7500);
}

#[test]
fn datasets_ask_the_filters_of_each_file() {
    let other = people(3000..6000).project(&[2, 1, 0]).unwrap();
    let without = people(6000..8000).project(&[2, 1]).unwrap();
    let sources = [
        filtered(&[people(0..3000)], &["id", "mail"], &options()),
        filtered(&[other], &["id", "mail"], &options()),
        filtered(&[without], &["mail"], &options()),
        file_of(&[people(8000..9000)], &options()),
    ]
    .map(|bytes| Counting::new(&bytes));
    let files = sources.iter().map(|source| File::from_source(source.clone()).unwrap());
    let dataset = Dataset::try_new_with_schema(
        files.collect(),
        &Schema::new(vec![
            Field::new("mail", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
            Field::new("row", DataType::Int64, true),
        ]),
    )
    .unwrap();
    let filter_bytes = dataset.statistics("id").unwrap().filter_bytes;
    let has: Vec<bool> = filter_bytes.values().iter().map(|bytes| *bytes > 0).collect();
    assert_eq!(has, [true, true, true, true, true, true, false, false, false]);
    let read = |filter: Expr| {
        for source in &sources {
            source.take();
        }
        let found = dataset.scan().filter(filter).gather(&["row"], &Engine::cpu()).unwrap();
        let rows = found.column(0).as_primitive::<Int64Type>().values().to_vec();
        (rows, sources.each_ref().map(|source| source.take().1))
    };
    for row in [0, 2999, 3001, 5999, 8500] {
        assert_eq!(read(col("id").eq(id(row))).0, [row]);
    }
    let (rows, bytes) = read(col("id").eq(id(4000)));
    assert_eq!(rows, [4000]);
    // Nulls are not read; files without filters are.
    assert!(bytes[0] < bytes[1] && bytes[2] == 0 && bytes[3] > 0, "{bytes:?}");
    assert_eq!(read(col("id").eq(id(6500))).0, [0; 0]);
    for row in [1, 6500, 7999] {
        assert_eq!(read(col("mail").eq(mail(row))).0, [row]);
    }
    assert_eq!(read(col("id").eq(id(3)).or(col("mail").eq(mail(7001)))).0, [3, 7001]);
}

#[test]
fn damaged_filters_are_errors_with_their_place() {
    let bytes = filtered(&[people(0..3000)], &["id", "mail"], &options());
    let places = filter_places(&bytes);
    let mut rng = Rng(3);
    for (number, place) in places.iter().enumerate() {
        let (column, chunk) = (["id", "mail"][number / 3], number % 3);
        let mut damaged = bytes.clone();
        let at = place.start + rng.below(place.end - place.start);
        damaged[at as usize] ^= 1 << rng.below(8);
        let file = open(&damaged).unwrap().with_name("people");
        let filter = match column {
            "id" => col("id").eq(id(2)),
            _ => col("mail").eq(mail(2)),
        };
        let copied = || {
            let writer = Writer::try_new(Vec::new(), file.schema(), options()).unwrap();
            writer.with_filters(&["id", "mail"]).unwrap().write_file(&file)
        };
        for error in [rows_of(&file, filter.clone()).unwrap_err(), copied().unwrap_err()] {
            assert!(matches!(error, Error::Checksum { part: "filter", .. }), "{error}");
            let place = error.place().unwrap();
            let found = (place.file.as_deref(), place.column.as_deref(), place.chunk);
            assert_eq!(found, (Some("people"), Some(column), Some(chunk)));
        }
        let errors = file.clone().with_checksums(false).verify(&Engine::cpu());
        assert!(matches!(errors[..], [Error::Checksum { part: "filter", .. }]), "{errors:?}");
        // What does not need it does not fail.
        assert_eq!(file.scan().filter(col("row").lt(5)).count(&Engine::cpu()).unwrap(), 5);
        // Without checksums rows may be missing, and a copy states the checksum that was stated.
        let unchecked = file.clone().with_checksums(false);
        assert!(rows_of(&unchecked, filter.clone()).unwrap().len() <= 1);
        let writer = Writer::try_new(Vec::new(), file.schema(), options()).unwrap();
        let mut writer = writer.with_filters(&["id", "mail"]).unwrap();
        writer.write_file(&unchecked).unwrap();
        let copy = open(&writer.into_inner().unwrap()).unwrap();
        let error = rows_of(&copy, filter).unwrap_err();
        assert!(matches!(error, Error::Checksum { part: "filter", .. }), "{error}");
    }
    // Of other values, with a right checksum.
    let mut forged = bytes.clone();
    let place = places[1].start as usize..places[1].end as usize;
    forged[place.clone()].fill(0);
    let index = index_of(&bytes);
    let [old, new] =
        [&bytes, &forged].map(|bytes| XxHash3_64::oneshot(&bytes[place.clone()]).to_le_bytes());
    let at = bytes[index.clone()].windows(8).position(|window| window == old).unwrap();
    forged[index.start + at..][..8].copy_from_slice(&new);
    seal(&mut forged, index);
    let errors = open(&forged).unwrap().verify(&Engine::cpu());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().contains("a filter that lacks a value"), "{errors:?}");
    assert_eq!(errors[0].place().unwrap().chunk, Some(1));
}

#[test]
fn damage_anywhere_is_an_error_or_makes_no_difference() {
    let batch = people(0..1500);
    let bytes = filtered(std::slice::from_ref(&batch), &["id", "mail"], &options());
    let read = |file: &File| -> Result<Vec<Vec<u64>>, Error> {
        let filters = [
            col("id").eq(id(3)),
            col("id").in_list([id(1400), 5]),
            col("mail").eq(mail(1200)).or(col("id").eq(id(7))),
        ];
        filters.into_iter().map(|filter| rows_of(file, filter)).collect()
    };
    let expected = read(&open(&bytes).unwrap()).unwrap();
    assert_eq!(expected, [vec![3], vec![1400], vec![7, 1200]]);
    let mut rng = Rng(7);
    let first = filter_places(&bytes)[0].start as usize;
    for at in first..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.below(8);
        let Ok(file) = open(&damaged) else { continue };
        let _ = read(&file.clone().with_checksums(false));
        if let Ok(found) = read(&file) {
            assert_eq!(found, expected, "byte {at}");
        }
    }
}

#[test]
fn an_index_that_lies_about_filters_is_found_or_does_no_harm() {
    let bytes = filtered(&[people(0..3000)], &["id", "mail"], &options());
    let index = index_of(&bytes);
    let word = |at: usize| u64::from_le_bytes(bytes[index.start + at..][..8].try_into().unwrap());
    let chunks = word(16) as usize;
    // Behind the parts of the first column: places, lengths and checksums of its filters.
    let end = (word(32) & !7) as usize;
    let [places, lens, sums] = [3, 2, 1].map(|part| end - part * 8 * chunks);
    let forged = |changes: &[(usize, u64)]| {
        let mut forged = bytes.clone();
        for (at, value) in changes {
            forged[index.start + at..][..8].copy_from_slice(&value.to_le_bytes());
        }
        seal(&mut forged, index.clone());
        open(&forged)
    };
    let filter = || col("id").eq(id(2500));
    assert_eq!(rows_of(&forged(&[]).unwrap(), filter()).unwrap(), [2500]);
    let (most, file_len) = (1 << 20, bytes.len() as u64);
    let refused: &[(&[(usize, u64)], &str)] = &[
        (&[(places, u64::MAX)], "a filter of"),
        (&[(places, file_len)], "a filter of"),
        (&[(places, index.start as u64 - 32)], "a filter of"),
        (&[(lens, 31)], "a filter of 31 bytes"),
        (&[(lens, word(lens) + 1)], "blocks of 32"),
        (&[(lens, u64::MAX - 31)], "1 to 32768 blocks"),
        (&[(lens, most + 32)], "1 to 32768 blocks"),
        (&[(lens, most), (places, 0)], "a filter of"),
        // No part of a filter, or one where there is none.
        (&[(24, word(24) & !1)], "index"),
        (&[(40, word(40) | 1)], "index"),
    ];
    for (changes, message) in refused {
        let error = forged(changes).unwrap_err();
        assert!(error.to_string().contains(message), "{changes:?}: {error}");
        assert!(matches!(error, Error::Corrupt { .. }), "{changes:?}: {error}");
    }
    // Filters that overlap take more than there is; some do no harm, as their checksums differ.
    let all: Vec<(usize, u64)> = (0..chunks)
        .flat_map(|chunk| [(lens + 8 * chunk, (file_len / 96) * 32), (places + 8 * chunk, 64)])
        .collect();
    let error = forged(&all).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    let harmless = [
        [(places, word(places + 8)), (places + 8, word(places))],
        [(places, 0), (places, 0)],
        [(lens, word(lens) - 32), (lens + 8, 32)],
        [(sums, 1), (sums + 16, 2)],
    ];
    for changes in harmless {
        let file = forged(&changes).unwrap();
        let error = rows_of(&file, filter()).unwrap_err();
        assert!(matches!(error, Error::Checksum { part: "filter", .. }), "{error}");
        let _ = rows_of(&file.clone().with_checksums(false), filter());
        assert!(!file.verify(&Engine::cpu()).is_empty());
    }
    // Without filters all chunks are read.
    let none: Vec<(usize, u64)> = (0..chunks).map(|chunk| (lens + 8 * chunk, 0)).collect();
    let file = forged(&none).unwrap();
    assert_eq!(rows_of(&file, filter()).unwrap(), [2500]);
    assert!(file.verify(&Engine::cpu()).is_empty());
    // A filter that is not in the message of its chunk.
    let moved = forged(&[(places, 64), (lens, 32)]).unwrap();
    let errors = moved.verify(&Engine::cpu());
    assert!(errors[0].to_string().contains("not in its batch"), "{errors:?}");
}

#[test]
fn filters_of_types_without_a_rule_are_not_used() {
    let batch = record_batch!(("flag", Boolean, [true, false]), ("x", Int32, [1, 2])).unwrap();
    let mut bytes = filtered(std::slice::from_ref(&batch), &["x"], &options());
    let index = index_of(&bytes);
    let [flag, x] = [24, 32].map(|at| index.start + at);
    let start = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    // The parts of `flag` get places, lengths and checksums of filters: 24 bytes for one chunk, whose filter is
    // the first block of the file.
    let (of_flag, of_x) = (start(flag) | 1, start(x) + 24);
    let behind = index.start + (start(x) & !7) as usize;
    bytes[flag..flag + 8].copy_from_slice(&of_flag.to_le_bytes());
    bytes[x..x + 8].copy_from_slice(&of_x.to_le_bytes());
    let filter = [0, 32, 5_u64].map(u64::to_le_bytes).concat();
    bytes.splice(behind..behind, filter);
    let [old, new] = [0, 24].map(|more| format!("{},{}", index.start, index.len() + more));
    assert_eq!(old.len(), new.len());
    let text = bytes.windows(old.len()).rposition(|text| text == old.as_bytes()).unwrap();
    bytes[text..text + new.len()].copy_from_slice(new.as_bytes());
    seal(&mut bytes, index.start..index.end + 24);

    let file = open(&bytes).unwrap();
    let filters = ["flag", "x"].map(|name| file.statistics(name).unwrap().filter_bytes.value(0));
    assert_eq!(filters, [0, 32]);
    assert_eq!(rows_of(&file, col("flag").eq(true)).unwrap(), [0]);
    assert_eq!(rows_of(&file, col("x").eq(2)).unwrap(), [1]);
    // Nor are they copied.
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
    writer.write_file(&file).unwrap();
    assert_eq!(open(&writer.into_inner().unwrap()).unwrap().num_rows(), 2);
}

#[test]
fn literals_of_other_types_find_their_rows() {
    let seconds = |row: i64| 1_700_000_000 + id(row).rem_euclid(1 << 30);
    let names = ["small", "price", "view", "large", "at"];
    let rows = 0..3000_i64;
    let at = rows.clone().map(|row| seconds(row) * 1_000_000);
    let batch = RecordBatch::try_from_iter([
        (
            "small",
            Arc::new(UInt32Array::from_iter_values(rows.clone().map(|row| id(row) as u32)))
                as ArrayRef,
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter_values(
                    rows.clone().map(|row| i128::from(id(row) >> 20) * 10),
                )
                .with_precision_and_scale(38, 3)
                .unwrap(),
            ),
        ),
        ("view", Arc::new(StringViewArray::from_iter_values(rows.clone().map(mail)))),
        ("large", Arc::new(LargeStringArray::from_iter_values(rows.clone().map(mail)))),
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(at).with_timezone("+02:00"))),
    ])
    .unwrap();
    let file = open(&filtered(std::slice::from_ref(&batch), &names, &options())).unwrap();
    let expected = open(&file_of(std::slice::from_ref(&batch), &options())).unwrap();
    for row in [0, 1111, 2999] {
        let time = TimestampSecondArray::from(vec![seconds(row)]).with_timezone("UTC");
        let mail_of =
            |row| lit(Scalar::new(Arc::new(StringArray::from(vec![mail(row)])) as ArrayRef));
        let filters = [
            col("small").eq(i64::from(id(row) as u32)),
            col("small").in_list([i64::from(id(row) as u32), 0, 1]),
            col("price").eq(Literal::decimal(i128::from(id(row) >> 20), 2)),
            col("price").in_list([
                Literal::decimal(i128::from(id(row) >> 20), 2),
                Literal::decimal(1, 3),
                Literal::decimal(2, 3),
            ]),
            col("view").eq(mail_of(row)),
            col("large").in_list([mail_of(row), mail_of(-5)]),
            col("at").eq(lit(Scalar::new(Arc::new(time) as ArrayRef))),
        ];
        for filter in filters {
            let text = filter.to_string();
            let found = rows_of(&file, filter.clone()).unwrap();
            assert!(found.contains(&(row as u64)), "{text}: {found:?}");
            assert_eq!(found, rows_of(&expected, filter).unwrap(), "{text}");
        }
    }
}

#[test]
fn filters_are_read_in_portions_and_for_all_calls() {
    let batch = people(0..9000);
    let file = open(&filtered(std::slice::from_ref(&batch), &["id", "mail"], &options())).unwrap();
    let expected = open(&file_of(std::slice::from_ref(&batch), &options())).unwrap();
    let filter =
        || col("id").eq(id(4000)).or(col("mail").in_list([mail(17), mail(8002), mail(-3)]));
    for window in [u64::MAX, 3000, 1] {
        let [found, expected] = [&file, &expected].map(|file| {
            let file = file.clone().with_window_bytes(window);
            let scan = file.scan().filter(filter());
            let cpu = Engine::cpu();
            (
                scan.gather(&["row"], &cpu).unwrap(),
                scan.clone().order_by([("mail", true)]).limit(2).gather(&["row"], &cpu).unwrap(),
                scan.aggregate(&[count_distinct(col("mail")), count_rows()], &cpu).unwrap(),
                scan.clone().group_by([col("mail")]).aggregate(&[count_rows()], &cpu).unwrap(),
            )
        });
        assert_eq!(
            (&found.0, &found.1, &found.2, &found.3),
            (&expected.0, &expected.1, &expected.2, &expected.3)
        );
        assert_eq!(found.0.column(0).as_primitive::<Int64Type>().values(), &[17, 4000, 8002]);
    }
}

#[test]
fn random_changes_of_an_index_do_no_harm() {
    let bytes = filtered(&[people(0..2500)], &["id", "mail"], &options());
    let index = index_of(&bytes);
    let mut rng = Rng(23);
    for _ in 0..3000 {
        let mut forged = bytes.clone();
        for _ in 0..=rng.below(3) {
            let at = index.start + 8 + rng.below(index.len() as u64 - 8) as usize;
            match rng.below(3) {
                0 => forged[at] ^= 1 << rng.below(8),
                1 => forged[at] = 0xff,
                _ => forged[at] = 0,
            }
        }
        seal(&mut forged, index.clone());
        let Ok(file) = open(&forged) else { continue };
        for file in [file.clone(), file.with_checksums(false)] {
            let _ = rows_of(&file, col("id").eq(id(2)));
            let _ = rows_of(&file, col("mail").in_list([mail(2), mail(2400)]));
        }
    }
}

#[test]
fn files_are_written_with_filters_to_the_same_bytes() {
    let batch = facts();
    let names = ["shop", "name", "price", "day"];
    let expected = filtered(std::slice::from_ref(&batch), &names, &options());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let parts: Vec<RecordBatch> = (0..9).map(|part| batch.slice(part * 1000, 1000)).collect();
    assert_eq!(pool.install(|| filtered(&parts, &names, &options())), expected);
    let file = File::from_bytes(Buffer::from_vec(expected)).unwrap();
    assert!(file.verify(&Engine::cpu()).is_empty());
    let (found, all) = (Arc::new(file), batch.column(3).as_string::<i32>());
    for row in [0, 4000, 8999] {
        let name = all.value(row);
        let rows: Vec<u64> =
            (0..9000).filter(|row| all.value(*row) == name).map(|row| row as u64).collect();
        assert_eq!(rows_of(&found, col("name").eq(name)).unwrap(), rows);
    }
}
