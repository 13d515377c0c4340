//! The bytes of format version 1: files under tests/golden/v1 are read bit for
//! bit, and compressing the same input gives the same bytes again, on any
//! machine.
//!
//! Inputs are generated here. The files never change, as every version of the library reads them:
//! tests/golden/v1.xxh3 has their checksums. A file of another name is written by
//!
//! ```text
//! LANEPACK_BLESS=1 cargo test --test golden
//! ```
//!
//! which fails, so that nobody leaves it switched on, and says what to add to the checksums. Where an encoder
//! is to write other bytes than it did, the name of the old file goes to `ONLY_READ`, and a new file shows
//! what it writes. Chunks that carry Arrow IPC streams have arrow-ipc's bytes; these are only read.

mod common;
#[path = "golden/filters.rs"]
mod filters;
#[path = "golden/integers.rs"]
mod integers;
#[path = "golden/lz.rs"]
mod lz;
#[path = "golden/nested.rs"]
mod nested;
#[path = "golden/runs.rs"]
mod runs;

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_schema::{DataType, Field, Schema};
use common::{Rng, carried_arrays};
use lanepack::scan::col;
use lanepack::{
    CompressedColumn, Encoding, Engine, FORMAT_VERSION, Options, columns, compress, compress_array,
    file, ipc,
};

/// The golden files.
const FILES: [&str; 43] = [
    "alp_f32",
    "alp_f64",
    "alp_rd",
    "booleans",
    "carried",
    "chunks",
    "constant",
    "delta",
    "delta_pfor",
    "dict",
    "dict_front",
    "dict_rle",
    "ffor_16",
    "ffor_32",
    "ffor_64",
    "ffor_8",
    "ffor_nulls",
    "filters",
    "fixed_list",
    "front",
    "fsst",
    "fsst_binary",
    "fsst_long",
    "gcd",
    "indexed",
    "keys",
    "limbs",
    "list",
    "list_pieces",
    "lz_level_1",
    "lz_level_2",
    "lz_level_3",
    "lz_level_4",
    "lz_strings",
    "lz_words",
    "metadata",
    "pfor",
    "plain",
    "rle",
    "rle_delta",
    "run_ends",
    "sparse",
    "struct",
];

/// Files whose input becomes other bytes by now.
const ONLY_READ: [&str; 0] = [];

/// The checksum of each file, XXH3 of 64 bits.
const SUMS: &str = include_str!("golden/v1.xxh3");

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The golden file of this name; one that is not there yet is written where that is asked for.
#[track_caller]
fn stored(name: &str, write: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = folder().join(format!("{name}.arrow"));
    let is_asked = std::env::var_os("LANEPACK_BLESS").is_some_and(|bless| bless == "1");
    if is_asked && !path.exists() {
        let file = write();
        fs::write(&path, &file).unwrap();
        panic!(
            "{} written, {} bytes; now add \"{}\" to tests/golden/v1.xxh3, and test without LANEPACK_BLESS",
            path.display(),
            file.len(),
            sum(name, &file)
        );
    }
    fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; LANEPACK_BLESS=1 cargo test --test golden writes it", path.display())
    })
}

/// The line of a file in [`SUMS`].
fn sum(name: &str, file: &[u8]) -> String {
    format!("{:016x} {name}.arrow", twox_hash::XxHash3_64::oneshot(file))
}

#[test]
fn golden_files_never_change() {
    let found = FILES
        .map(|name| sum(name, &fs::read(folder().join(name).with_extension("arrow")).unwrap()));
    assert_eq!(found.to_vec(), SUMS.lines().collect::<Vec<_>>());
}

/// Compares with the golden file of this name, or writes it.
#[track_caller]
fn golden(name: &str, options: &Options, batch: &RecordBatch) {
    assert!(FILES.contains(&name), "{name} is missing in FILES");
    let packed = compress(batch, options).unwrap();
    let packed_columns = columns(&packed).unwrap();
    // A file named after an encoding has columns of this encoding.
    let named = Encoding::ALL.iter().filter(|known| name.starts_with(known.name()));
    if let Some(encoding) = named.map(|known| known.name()).max_by_key(|name| name.len()) {
        for column in &packed_columns {
            assert!(column.encoding().to_string().starts_with(encoding), "{}", column.explain());
        }
    }
    let file = stored(name, || {
        let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options.clone()).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    });
    let read: Vec<RecordBatch> =
        ipc::Reader::file(Cursor::new(&file)).unwrap().map(Result::unwrap).collect();
    assert!(read == std::slice::from_ref(batch), "{name} does not decode to its input");
    if ONLY_READ.contains(&name) {
        return;
    }

    let mut reader = ipc::Reader::file(Cursor::new(&file)).unwrap();
    let (stored, stored_columns) = reader.next_columns().unwrap().unwrap();
    assert_eq!(stored.schema(), packed.schema(), "{name}: another schema");
    for (stored, packed) in stored_columns.iter().zip(&packed_columns) {
        assert_same_bytes(stored, packed);
    }
    if name != "carried" {
        assert!(stored == packed, "{name}: other bounds of values");
    }
}

/// Encodings that most files show one of; the others have files of their own.
const SIMPLE: [Encoding; 6] = [
    Encoding::Plain,
    Encoding::Constant,
    Encoding::Ffor,
    Encoding::Alp,
    Encoding::Fsst,
    Encoding::Limbs,
];

fn simple() -> Options {
    Options::default().with_encodings([&SIMPLE, Encoding::NESTED].concat())
}

#[track_caller]
fn assert_same_bytes(stored: &CompressedColumn, packed: &CompressedColumn) {
    assert_eq!(
        stored.encoding().to_string(),
        packed.encoding().to_string(),
        "{:?}",
        stored.field()
    );
    assert_eq!(stored.chunks().len(), packed.chunks().len());
    if packed.encoding().to_string() == "plain" && carried(packed.data_type()) {
        return;
    }
    for (index, (stored, packed)) in stored.chunks().iter().zip(packed.chunks()).enumerate() {
        let place = || format!("chunk {index}");
        assert_eq!(stored.header().as_slice(), packed.header().as_slice(), "{}", place());
        let differ = stored.body().iter().zip(packed.body().iter()).position(|(a, b)| a != b);
        assert_eq!(differ, None, "{}: bodies differ from this byte on", place());
    }
}

fn carried(data_type: &DataType) -> bool {
    data_type.is_nested() || matches!(data_type, DataType::Interval(_) | DataType::Null)
}

/// Valid but for some rows.
fn nulls(len: usize) -> Option<NullBuffer> {
    let mut rng = Rng(len as u64);
    Some(NullBuffer::new(BooleanBuffer::from_iter((0..len).map(|_| rng.below(4) > 0))))
}

#[test]
fn there_is_a_golden_file_for_every_test_and_no_other() {
    let listed = || FILES.iter().map(|name| format!("{name}.arrow"));
    let found = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = found.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(found, listed().collect());
    assert_eq!(FORMAT_VERSION, 1, "a new version needs a new folder, and the old one stays");
    let sizes = listed().map(|name| fs::metadata(folder().join(name)).unwrap().len());
    assert!(sizes.max().unwrap() <= 64 << 10, "golden files are to be small");
}

#[test]
fn constants() {
    let nan = f32::from_bits(0xffc0_1234);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int", Arc::new(Int64Array::from(vec![-42; 100]))),
        ("byte", Arc::new(Int8Array::from(vec![-1; 100]))),
        ("zero", Arc::new(Float64Array::from(vec![-0.0; 100]))),
        ("nan", Arc::new(Float32Array::from(vec![nan; 100]))),
        ("bool", Arc::new(BooleanArray::from(vec![true; 100]))),
        ("text", Arc::new(StringArray::from(vec!["one and the same"; 100]))),
        ("empty", Arc::new(StringViewArray::from(vec![""; 100]))),
        ("long", Arc::new(BinaryArray::from_vec(vec![&[0xfe; 1024]; 100]))),
        ("null", Arc::new(Int32Array::from(vec![None; 100]))),
        ("null text", Arc::new(StringArray::from(vec![None::<&str>; 100]))),
        ("some", Arc::new(UInt16Array::from_iter((0..100).map(|i| (i % 3 > 0).then_some(7))))),
    ];
    golden("constant", &simple(), &batch(columns));
}

/// Vectors of these widths, the last one short: each has its own base.
macro_rules! widths {
    ($array:ty, $value:ty, $widths:expr) => {{
        let mut rng = Rng(<$value>::BITS.into());
        let mut values: Vec<$value> = Vec::new();
        let widths: Vec<u32> = $widths.into_iter().collect();
        for (vector, width) in widths.iter().enumerate() {
            let base = rng.next() as $value;
            let base = if *width == <$value>::BITS { <$value>::MIN } else { base };
            let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
            let base = base.min(<$value>::MAX - (mask as $value & <$value>::MAX));
            let len = if vector + 1 == widths.len() { 1000 } else { 1024 };
            let offsets = (0..len).map(|row| match row {
                0 => 0,
                1 => mask,
                _ => rng.next() & mask,
            });
            values.extend(offsets.map(|offset| base.wrapping_add(offset as $value)));
        }
        Arc::new(<$array>::from(values)) as ArrayRef
    }};
}

/// Only the packing, however little it may save.
fn packed_only() -> Options {
    Options::default().with_encodings([Encoding::Ffor])
}

#[test]
fn all_widths_of_8_bit_integers() {
    let signed = widths!(Int8Array, i8, 0..=8);
    golden(
        "ffor_8",
        &packed_only(),
        &batch(vec![("i8", signed), ("u8", widths!(UInt8Array, u8, 0..=8))]),
    );
}

#[test]
fn all_widths_of_16_bit_integers() {
    golden(
        "ffor_16",
        &packed_only(),
        &batch(vec![
            ("i16", widths!(Int16Array, i16, 0..=16)),
            ("u16", widths!(UInt16Array, u16, 0..=16)),
        ]),
    );
}

#[test]
fn widths_of_32_bit_integers() {
    const WIDTHS: [u32; 11] = [0, 1, 2, 5, 8, 11, 16, 17, 24, 31, 32];
    golden(
        "ffor_32",
        &packed_only(),
        &batch(vec![
            ("i32", widths!(Int32Array, i32, WIDTHS)),
            ("u32", widths!(UInt32Array, u32, WIDTHS)),
        ]),
    );
}

#[test]
fn widths_of_64_bit_integers() {
    const WIDTHS: [u32; 10] = [0, 1, 7, 8, 21, 32, 33, 47, 63, 64];
    golden("ffor_64", &packed_only(), &batch(vec![("i64", widths!(Int64Array, i64, WIDTHS))]));
}

#[test]
fn integers_with_nulls() {
    let mut rng = Rng(1);
    let mut number = || 1_700_000_000 + rng.below(1 << 16) as i64;
    let values: Vec<i64> = (0..1100).map(|_| number()).collect();
    let short = || values.iter().map(|value| *value as i32 % 20_000);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int", Arc::new(Int64Array::new(values.clone().into(), nulls(1100)))),
        ("date", Arc::new(Date32Array::new(short().collect(), nulls(1100)))),
        (
            "time",
            Arc::new(
                TimestampMillisecondArray::new(values.clone().into(), nulls(1100))
                    .with_timezone("Europe/Berlin"),
            ),
        ),
        (
            "unsigned",
            Arc::new(UInt8Array::new(short().map(|v| v as u8 % 9).collect(), nulls(1100))),
        ),
        (
            "half",
            Arc::new(Float16Array::new(
                short().map(|value| half::f16::from_bits(0x3c00 + value as u16 % 99)).collect(),
                nulls(1100),
            )),
        ),
    ];
    golden("ffor_nulls", &simple(), &batch(columns));
}

/// Values that no decimal is, with payloads.
fn special(row: usize) -> f64 {
    let specials = [
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        f64::from_bits(0x7ff8_0000_0000_0001),
        f64::from_bits(0xfff0_0000_dead_beef),
        f64::MIN_POSITIVE / 3.0,
        std::f64::consts::PI,
        f64::MAX,
    ];
    specials[row % specials.len()]
}

#[test]
fn doubles() {
    let mut rng = Rng(2);
    let mut cents = || rng.below(10_000) as f64 / 100.0;
    let prices: Vec<f64> = (0..2100).map(|_| cents()).collect();
    let with = |rows: usize| {
        let value = |(row, price): (usize, &f64)| match row % rows {
            0 => special(row / rows),
            _ => *price,
        };
        prices.iter().enumerate().map(value).collect::<Vec<f64>>()
    };
    let scales = prices.iter().enumerate().map(|(row, price)| match row / 1024 {
        0 => *price,
        1 => (price * 100.0).round() * 1e9,
        _ => -(price * 100.0).round() / 1e7,
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("price", Arc::new(Float64Array::from(prices.clone()))),
        ("few exceptions", Arc::new(Float64Array::from(with(301)))),
        ("many exceptions", Arc::new(Float64Array::from(with(17)))),
        ("scales", Arc::new(Float64Array::from_iter_values(scales))),
        ("nulls", Arc::new(Float64Array::new(with(50).into(), nulls(2100)))),
    ];
    golden("alp_f64", &simple(), &batch(columns));
}

#[test]
fn singles() {
    let mut rng = Rng(3);
    let mut tenths = || (rng.below(2_000) as f32 - 1_000.0) / 10.0;
    let degrees: Vec<f32> = (0..2100).map(|_| tenths()).collect();
    let with = |rows: usize| {
        let value = |(row, degree): (usize, &f32)| match row % rows {
            0 => special(row / rows) as f32,
            1 => f32::from_bits(0x7fa0_0001 + row as u32),
            _ => *degree,
        };
        degrees.iter().enumerate().map(value).collect::<Vec<f32>>()
    };
    // Vectors of one, two and four places, whose integers are divided.
    let places = |(row, degree): (usize, &f32)| (degree * 10.0) / [10.0, 1e2, 1e4][row / 1024];
    let places = degrees.iter().enumerate().map(places);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("places", Arc::new(Float32Array::from_iter_values(places))),
        ("degrees", Arc::new(Float32Array::from(degrees.clone()))),
        ("few exceptions", Arc::new(Float32Array::from(with(301)))),
        ("many exceptions", Arc::new(Float32Array::from(with(23)))),
        ("nulls", Arc::new(Float32Array::new(with(50).into(), nulls(2100)))),
    ];
    golden("alp_f32", &simple(), &batch(columns));
}

#[test]
fn floats_that_are_no_decimals() {
    let mut rng = Rng(10);
    let reals: Vec<f64> = (0..2040).map(|_| rng.below(1 << 53) as f64 / 2_f64.powi(53)).collect();
    let exceptions = |(row, real): (usize, &f64)| match row % 170 {
        0 => special(row / 170),
        _ => *real,
    };
    let with_exceptions: Vec<f64> = reals.iter().enumerate().map(exceptions).collect();
    let singles: Vec<f32> = with_exceptions.iter().map(|real| *real as f32 - 0.5).collect();
    // As bfloat16 has them: 7 bits of mantissa.
    let short = |single: &f32| f32::from_bits(single.to_bits() & 0xffff_0000);
    let widened = singles.iter().map(|single| f64::from(*single));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("exceptions", Arc::new(Float64Array::from(with_exceptions.clone()))),
        ("nulls", Arc::new(Float64Array::new(widened.collect(), nulls(2040)))),
        ("one left part", Arc::new(Float64Array::from_iter_values(reals.iter().map(|r| r + 64.0)))),
        ("singles", Arc::new(Float32Array::from(singles.clone()))),
        ("bfloat16", Arc::new(Float32Array::from_iter_values(singles.iter().map(short)))),
    ];
    let options = Options::default().with_encodings([Encoding::AlpRd]);
    golden("alp_rd", &options, &batch(columns));
}

fn texts(len: usize) -> Vec<String> {
    let mut rng = Rng(len as u64);
    let pages = ["index", "über", "products/list", "contact", "search"];
    (0..len)
        .map(|_| {
            let (page, number) = (pages[rng.below(5) as usize], rng.below(500));
            match rng.below(9) {
                0 => String::new(),
                1 => "日本語のページ".to_owned(),
                _ => format!("https://www.example.org/{page}?id={number}"),
            }
        })
        .collect()
}

#[test]
fn strings() {
    let texts = texts(1300);
    let optional = || {
        let valid = nulls(1300).unwrap();
        texts.iter().enumerate().map(move |(row, text)| valid.is_valid(row).then_some(text))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("utf8", Arc::new(StringArray::from_iter_values(&texts))),
        ("large", Arc::new(LargeStringArray::from_iter(optional()))),
        ("view", Arc::new(StringViewArray::from_iter(optional()))),
    ];
    golden("fsst", &simple(), &batch(columns));
}

#[test]
fn binary_values_with_every_byte() {
    let mut rng = Rng(4);
    // A common part with symbols, a random one that needs escapes.
    let mut value = |row: usize| {
        let mut value = vec![0xfe, 0xff, 0x00, row as u8, 0xfe, 0xff, 0x00, 0x01];
        value.extend((0..rng.below(4)).map(|_| rng.next() as u8));
        value
    };
    let values: Vec<Vec<u8>> = (0..1100).map(&mut value).collect();
    let fixed: Vec<u8> = values.iter().flat_map(|value| &value[..8]).copied().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("binary", Arc::new(BinaryArray::from_iter_values(&values))),
        ("fixed", Arc::new(FixedSizeBinaryArray::new(8, fixed.into(), nulls(1100)))),
    ];
    let options = Options::default().with_encodings([Encoding::Fsst, Encoding::Ffor]);
    golden("fsst_binary", &options, &batch(columns));
}

#[test]
fn long_values_of_several_segments_and_tiles() {
    let parts = texts(400);
    let mut rng = Rng(5);
    let mut value = |row: usize| match row % 5 {
        0 => String::new(),
        1 => parts[row].clone(),
        // Past segments of 1,024 bytes, and exactly one.
        2 => parts[..70].concat() + &parts[row],
        3 => "a".repeat(1024),
        _ => parts[rng.below(300) as usize..][..30].concat(),
    };
    let values = StringArray::from_iter_values((0..40).map(&mut value));
    golden("fsst_long", &simple(), &batch(vec![("long", Arc::new(values))]));
}

#[test]
fn values_that_nothing_makes_smaller() {
    let mut rng = Rng(6);
    let mut random = || rng.next();
    let fixed: Vec<u8> = (0..70).flat_map(|_| random().to_le_bytes()).collect();
    let texts = texts(70);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(Int8Array::from_iter_values((0..70).map(|_| random() as i8)))),
        ("u16", Arc::new(UInt16Array::new((0..70).map(|_| random() as u16).collect(), nulls(70)))),
        ("i32", Arc::new(Int32Array::from_iter_values((0..70).map(|_| random() as i32)))),
        (
            "f64",
            Arc::new(Float64Array::from_iter_values((0..70).map(|_| f64::from_bits(random())))),
        ),
        ("bool", Arc::new(BooleanArray::from_iter((0..70).map(|_| Some(random() & 1 == 1))))),
        ("i128", Arc::new(Decimal128Array::from_iter_values((0..70).map(|_| random() as i128)))),
        ("fixed", Arc::new(FixedSizeBinaryArray::new(8, fixed.into(), nulls(70)))),
        ("utf8", Arc::new(StringArray::from_iter_values(&texts))),
    ];
    let options = Options::default().with_encodings([Encoding::Plain]);
    golden("plain", &options, &batch(columns));
}

#[test]
fn booleans() {
    let mut rng = Rng(7);
    let bits = BooleanBuffer::from_iter((0..1500).map(|_| rng.below(3) == 0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("all", Arc::new(BooleanArray::new(bits.clone(), None))),
        ("nulls", Arc::new(BooleanArray::new(bits.clone(), nulls(1500)))),
        ("sliced", Arc::new(BooleanArray::new(bits, nulls(1500)).slice(0, 1500))),
    ];
    golden("booleans", &simple(), &batch(columns));
}

#[test]
fn decimals_of_one_to_four_limbs() {
    let mut rng = Rng(8);
    let mut small = || rng.below(2000) as i128 - 1000;
    let narrow: Vec<i128> = (0..1100).map(|_| small()).collect();
    let wide: Vec<i128> = narrow.iter().map(|value| value << 62).collect();
    let limbs = |count: u32| {
        let values = narrow.iter().map(move |value| {
            (1..count).fold(i256::from_i128(*value), |sum, _| {
                sum.wrapping_mul(i256::from_i128(1 << 62)).wrapping_add(i256::from_i128(7))
            })
        });
        let array = Decimal256Array::new(values.collect(), nulls(1100));
        Arc::new(array.with_data_type(DataType::Decimal256(76, 3))) as ArrayRef
    };
    let decimal128 = |values: &[i128]| {
        let array = Decimal128Array::new(values.to_vec().into(), None);
        Arc::new(array.with_data_type(DataType::Decimal128(38, 2))) as ArrayRef
    };
    let columns = vec![
        ("one of two", decimal128(&narrow)),
        ("two of two", decimal128(&wide)),
        ("one", limbs(1)),
        ("two", limbs(2)),
        ("three", limbs(3)),
        ("four", limbs(4)),
    ];
    golden("limbs", &simple(), &batch(columns));
}

#[test]
fn dictionaries() {
    let words = ["PERSON", "COD", "NONE", "RETURN", ""];
    let options = Options::default().with_encodings([Encoding::Dict, Encoding::Ffor]);
    // Multiples of a large odd number: packed they take 64 bits.
    let spread = |i: usize| (i * i % 37) as i64;
    let number = |i: usize| spread(i).wrapping_mul(0x1234_5678_9abc_def1);
    let float = |i: usize| (spread(i) as f64 - 11.0) / 7.0;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("numbers", Arc::new(Int64Array::from_iter_values((0..2500).map(number)))),
        (
            "nulls",
            Arc::new(Int64Array::from_iter((0..2500).map(|i| (i % 7 != 3).then(|| number(i))))),
        ),
        ("floats", Arc::new(Float64Array::from_iter_values((0..2500).map(float)))),
        (
            "texts",
            Arc::new(StringArray::from_iter(
                (0..2500).map(|i| (i % 11 != 4).then(|| words[(i * i) as usize % 5])),
            )),
        ),
    ];
    golden("dict", &options, &batch(columns));
}

/// Paths of files in order.
fn path(i: usize) -> String {
    format!("/data/{:03}/{}", i / 11, ["a", "ab", "b", "", "ü"][i * i % 5])
}

#[test]
fn strings_in_order() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("paths", Arc::new(StringArray::from_iter_values((0..2500).map(path)))),
        (
            "nulls",
            Arc::new(StringArray::from_iter((0..2500).map(|i| (i % 9 != 4).then(|| path(i))))),
        ),
    ];
    let options =
        Options::default().with_encodings([Encoding::Front, Encoding::Fsst, Encoding::Ffor]);
    golden("front", &options, &batch(columns));
}

#[test]
fn dictionaries_of_strings_in_order() {
    let looked_up = (0..2500).map(|i| path(i * 7919 % 1000));
    let looked_up: ArrayRef = Arc::new(LargeStringArray::from_iter_values(looked_up));
    let options =
        Options::default().with_encodings([Encoding::Dict, Encoding::Front, Encoding::Ffor]);
    let column = compress_array(&looked_up, &options).unwrap();
    assert!(column.encoding().to_string().contains("front("), "{}", column.explain());
    golden("dict_front", &options, &batch(vec![("looked up", looked_up)]));
}

#[test]
fn types_carried_as_arrow_ipc() {
    let arrays = carried_arrays(20);
    let names: Vec<String> = (0..arrays.len()).map(|at| format!("column {at}")).collect();
    let columns = names.iter().map(String::as_str).zip(arrays).collect();
    let options = Options::default().with_encodings(SIMPLE);
    golden("carried", &options, &batch(columns));
}

#[test]
fn several_chunks() {
    let texts = texts(2500);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int32Array::from_iter_values((0..2500).map(|i| i * 3)))),
        ("text", Arc::new(StringArray::from_iter_values(&texts))),
        ("late", Arc::new(Float64Array::from_iter((0..2500).map(|i| (i > 1100).then_some(0.5))))),
    ];
    golden("chunks", &simple().with_chunk_rows(1024), &batch(columns));
}

/// A file with an index, whose chunks have the packed storage, and filters of some columns.
#[test]
fn files_with_an_index() {
    let rows = 0..3000_i64;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(rows.clone()))),
        (
            "price",
            Arc::new(Float64Array::from_iter(
                rows.clone().map(|row| (row % 7 > 0).then_some(row as f64 / 8.0)),
            )),
        ),
        (
            "name",
            Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("name {row}")))),
        ),
        (
            "code",
            Arc::new(BinaryArray::from_iter_values(
                rows.clone().map(|row| vec![row as u8; 1 + row as usize / 40]),
            )),
        ),
        ("flag", Arc::new(BooleanArray::from_iter(rows.clone().map(|row| Some(row > 2000))))),
        (
            "amount",
            Arc::new(Decimal128Array::from_iter_values(
                rows.clone().map(|row| i128::from(row) << 70),
            )),
        ),
        ("nothing", Arc::new(Int32Array::new_null(3000))),
        ("part", Arc::new(nested(&rows.map(|row| row as i32).collect::<Vec<_>>()))),
    ];
    let (batch, options) = (batch(columns), Options::default().with_chunk_rows(1024));
    let writer = file::Writer::try_new(Vec::new(), &batch.schema(), options).unwrap();
    let mut writer = writer.with_filters(&["id", "name", "nothing"]).unwrap();
    for half in [batch.slice(0, 1500), batch.slice(1500, 1500)] {
        writer.write(&half).unwrap();
        writer.flush().unwrap();
    }
    let written = writer.into_inner().unwrap();
    let golden = stored("indexed", || written.clone());
    let [stored, made] =
        [golden, written].map(|bytes| file::File::from_bytes(bytes.into()).unwrap());
    assert_eq!(stored.verify(&Engine::cpu()).len(), 0);
    let names: Vec<&str> =
        batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(stored.scan().gather(&names, &Engine::cpu()).unwrap(), batch);
    for (name, stored_column) in names.iter().zip(stored.columns(&names).unwrap()) {
        assert_same_bytes(&stored_column, &made.columns(&[name]).unwrap()[0]);
        let [stored, made] = [&stored, &made].map(|file| file.statistics(name).unwrap());
        assert_eq!((stored.rows, stored.null_counts), (made.rows, made.null_counts));
        assert_eq!((&stored.min, &stored.max), (&made.min, &made.max));
        assert_eq!((stored.bytes, stored.filter_bytes), (made.bytes, made.filter_bytes));
    }
    let of_filters = |name: &str| stored.statistics(name).unwrap().filter_bytes;
    // 10.5 bits for each of 1,024 and of 476 values.
    assert_eq!(of_filters("name").values(), &[1344, 640, 1344, 640]);
    assert_eq!(of_filters("nothing").values(), &[0; 4]);
    for row in (0..3000).step_by(97) {
        for filter in [col("id").eq(row), col("name").eq(format!("name {row}"))] {
            let rows = stored.scan().filter(filter).rows(&Engine::cpu()).unwrap();
            assert_eq!(rows.values(), &[row as u64]);
        }
    }
}

/// A struct of a list.
fn nested(values: &[i32]) -> StructArray {
    let lists = values.iter().map(|value| Some((0..value % 4).map(Some).collect::<Vec<_>>()));
    let lists = ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>(lists);
    let field = Arc::new(Field::new("list", lists.data_type().clone(), true));
    StructArray::from(vec![(field, Arc::new(lists) as ArrayRef)])
}

#[test]
fn names_metadata_and_extension_types() {
    let metadata = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let uuid = metadata(&[("ARROW:extension:name", "arrow.uuid")]);
    let json = metadata(&[
        ("ARROW:extension:name", "arrow.json"),
        ("ARROW:extension:metadata", "{}"),
        ("unit", "none"),
    ]);
    let schema = Schema::new(vec![
        Field::new("id", DataType::FixedSizeBinary(16), false).with_metadata(uuid),
        Field::new("größe \"in\" m", DataType::Utf8, true).with_metadata(json),
        Field::new("", DataType::Time64(arrow_schema::TimeUnit::Nanosecond), false),
    ])
    .with_metadata(metadata(&[("origin", "golden")]));
    let mut rng = Rng(9);
    let ids: Vec<u8> = (0..320).map(|_| rng.next() as u8).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(FixedSizeBinaryArray::new(16, ids.into(), None)),
        Arc::new(StringArray::from_iter((0..20).map(|i| (i > 3).then_some("{}")))),
        Arc::new(Time64NanosecondArray::from_iter_values((0..20).map(|i| i * 1_000_000_007))),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    golden("metadata", &simple(), &batch);
}
