//! Scans of columns whose encodings nest: kernels read the tree of each chunk as it is stored, and
//! give what the CPU gives, in no more device memory than the compressed column and some scratch.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;
use lanepack::scan::{Expr, Literal, Scan, col, count_rows, max, min, sum};
use lanepack::{Encoding, Engine, Error, Options, compress};

use super::common::Rng;
use super::common::image::Image;
use super::integers::{array_of, nulls_of, only};
use super::{batch_of, engines, thinned};

/// Values of row numbers, and the tree that they become with some encodings.
struct Tree {
    starts_with: &'static str,
    data_type: DataType,
    encodings: &'static [Encoding],
    value: fn(u64) -> u64,
}

fn trees() -> Vec<Tree> {
    use Encoding::*;
    let tree = |starts_with, data_type: &DataType, encodings, value| Tree {
        starts_with,
        data_type: data_type.clone(),
        encodings,
        value,
    };
    fn outlier(row: u64) -> u64 {
        if row % 400 == 7 { 1 << 20 } else { 0 }
    }
    /// A number that changes every 3 rows for 99 rows, and then not for 1,900.
    fn changes(row: u64) -> u64 {
        row / 2000 * 33 + (row % 2000).min(99) / 3
    }
    fn scattered(row: u64) -> u64 {
        row.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    let (u32, i64, u64) = (&DataType::UInt32, &DataType::Int64, &DataType::UInt64);
    let (u8, i16) = (&DataType::UInt8, &DataType::Int16);
    vec![
        tree("gcd(ffor)", i64, &[Gcd, Ffor], |row| {
            (row * row % 500).wrapping_sub(250).wrapping_mul(1000)
        }),
        tree("gcd(pfor)", u32, &[Gcd, Ffor, Pfor], |row| {
            (row * row % 500 + outlier(row) / 512) * 100
        }),
        tree("gcd(delta(", u64, &[Gcd, Delta, Ffor], |row| (row * 50 + row * row % 7) * 60_000),
        tree("delta(ffor)", u8, &[Delta, Ffor], |row| row * 3 + row * row % 5),
        tree("delta(ffor)", i16, &[Delta, Ffor], |row| row * 11 + row * row % 30),
        tree("delta(ffor)", u32, &[Delta, Ffor], |row| row * 999 + row * row % 900),
        tree("delta(ffor)", i64, &[Delta, Ffor], |row| (row * 999_999).wrapping_sub(1 << 30)),
        tree("delta(pfor)", i64, &[Delta, Ffor, Pfor], |row| {
            row * 77 + row * row % 50 + row / 300 * 9_000_000
        }),
        tree("delta(pfor)", u32, &[Delta, Ffor, Pfor], |row| {
            row * 77 + row * row % 50 + row / 300 * 900_000
        }),
        // Deltas of 0 but for exceptions.
        tree("delta(pfor)", u8, &[Delta, Ffor, Pfor], |row| changes(row) * 37),
        tree("delta(pfor)", i16, &[Delta, Ffor, Pfor], |row| row / 90 * 3001),
        tree("delta(pfor)", u32, &[Delta, Ffor, Pfor], |row| row / 90 * 90_000_007),
        tree("delta(pfor)", i64, &[Delta, Ffor, Pfor], |row| changes(row) * 9_000_000_000_001),
        // More runs than a warp reads at once.
        tree("rle(plain, ", u8, &[Rle, Ffor], |row| scattered(row / 12)),
        tree("rle(plain, ", u32, &[Rle, Ffor], |row| scattered(row / 12)),
        tree("rle(plain, ", &DataType::Float64, &[Rle, Ffor], |row| scattered(row / 12)),
        tree("rle(plain, pfor)", u32, &[Rle, Ffor, Pfor], |row| {
            scattered(if row % 1000 < 300 { row / 300 } else { row / 12 })
        }),
        tree("rle(ffor, ", i64, &[Rle, Ffor], |row| row / 30 * (row / 30) % 700),
        tree("rle(plain)", u8, &[Rle, Ffor], |row| {
            let run = row / 6 * 2 + u64::from(row % 6 > 0);
            run * run % 251
        }),
        tree("rle(ffor)", i64, &[Rle, Ffor], |row| {
            let run = row / 6 * 2 + u64::from(row % 6 > 0);
            run * run % 90_001
        }),
        tree("rle(ffor, ffor)", u32, &[Rle, Ffor], |row| row / 19 * (row / 19) % 7000),
        tree("rle(ffor, pfor)", i64, &[Rle, Ffor, Pfor], |row| {
            (if row % 1000 < 300 { row / 300 } else { row / 16 }) * 7919 % 900
        }),
        tree("rle(dict(|dict(rle(", i64, &[Rle, Dict, Ffor], |row| (row / 30 * 7919 % 40).pow(7)),
        tree("rle(plain, ", u64, &[Rle, Ffor], |row| row / 900 * 1_000_003_000_007),
        tree("rle(delta(", u64, &[Rle, Ffor, Delta], |row| row / 9 * 7_000_000),
        tree("rle(gcd(", i64, &[Rle, Gcd, Ffor], |row| row / 30 * (row / 30) % 700 * 1000),
        tree("dict(ffor", i64, &[Dict, Ffor], |row| (row * 7919 % 90).pow(7)),
        tree("dict(pfor", u32, &[Dict, Ffor, Pfor], |row| {
            let code = if row % 100 == 7 { row % 900 } else { row * row % 3 };
            code * 2_654_435_761 % (1 << 32)
        }),
        tree("ffor", i16, &[Ffor], |row| row * 31),
    ]
}

/// The array of a tree in some chunks, and options that give the tree.
fn column(tree: &Tree, rows: u64, nulls: usize) -> (ArrayRef, Options) {
    let words: Vec<u64> = (0..rows).map(tree.value).collect();
    // Some valid rows at least.
    let patterns = nulls_of(words.len());
    let has_values = |nulls: &Option<NullBuffer>| {
        nulls.as_ref().is_none_or(|nulls| nulls.len() - nulls.null_count() > 2)
    };
    let nulls = patterns.into_iter().filter(has_values).cycle().nth(nulls).flatten();
    (array_of(&tree.data_type, &words, nulls), only(tree.encodings))
}

fn batch(array: &ArrayRef) -> RecordBatch {
    let of = Arc::new(UInt32Array::from_iter_values(0..array.len() as u32)) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true), ("row", of, false)])
        .unwrap()
}

/// Some values of an array as literals, in order.
fn literals(array: &ArrayRef, rng: &mut Rng, count: usize) -> Vec<Literal> {
    let valid: Vec<usize> = (0..array.len()).filter(|row| array.is_valid(*row)).collect();
    let mut rows: Vec<usize> =
        (0..count).map(|_| valid[rng.below(valid.len() as u64) as usize]).collect();
    let order = arrow_ord::rank::rank(array, None).unwrap();
    rows.sort_by_key(|row| order[*row]);
    rows.into_iter().map(|row| Literal::Arrow(array.slice(row, 1))).collect()
}

/// What a scan gives.
#[derive(Clone, Copy)]
enum Found {
    /// Which rows are kept, and their values.
    Rows,
    /// Aggregates of the rows that are kept.
    Aggregates,
}

const ALL: &[Found] = &[Found::Rows, Found::Aggregates];

fn results(
    scan: Scan<'_>,
    engine: &Engine,
    filter: &Expr,
    wanted: &[Found],
) -> Result<Vec<RecordBatch>, Error> {
    let scan = scan.filter(filter.clone());
    let aggregates = [count_rows(), min(col("x")), max(col("x")), sum(col("x")), sum(col("row"))];
    let mut found = Vec::new();
    for one in wanted {
        match one {
            Found::Rows => {
                let mask = Arc::new(scan.mask(engine)?) as ArrayRef;
                found.push(RecordBatch::try_from_iter([("mask", mask)]).unwrap());
                found.push(scan.gather(&["x"], engine)?);
            }
            Found::Aggregates => found.push(scan.aggregate(&aggregates, engine)?),
        }
    }
    Ok(found)
}

#[track_caller]
fn compare(
    engine: &Engine,
    batch: &RecordBatch,
    options: &Options,
    filter: &Expr,
    wanted: &[Found],
) {
    let packed = compress(batch, options).unwrap();
    let what = || format!("{filter} of {}", lanepack::columns(&packed).unwrap()[0].explain());
    let expected = results(Scan::new(&packed), &Engine::cpu(), filter, wanted)
        .unwrap_or_else(|error| panic!("{error}: {}", what()));
    let on_device = engine.upload(&packed).unwrap();
    let found = results(Scan::on_device(&on_device), engine, filter, wanted)
        .unwrap_or_else(|error| panic!("{error}: {}", what()));
    assert_eq!(found, expected, "{}", what());
}

/// Rows of most columns.
const ROWS: u64 = 12_011;

#[test]
fn columns_become_the_trees() {
    let found = |tree: &Tree| {
        let (array, options) = column(tree, ROWS, 0);
        lanepack::compress_array(&array, &options).unwrap().encoding().to_string()
    };
    let others: Vec<(&str, String)> = (trees().iter())
        .map(|tree| (tree.starts_with, found(tree)))
        .filter(|(trees, found)| !trees.split('|').any(|tree| found.starts_with(tree)))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn every_tree_is_scanned_as_it_is_stored() {
    let mut rng = Rng(271);
    for engine in engines() {
        for (index, tree) in trees().iter().enumerate() {
            let (array, options) = column(tree, ROWS, index);
            let [low, high] = literals(&array, &mut rng, 2).try_into().unwrap();
            let batch = batch(&array);
            let between = col("x").between(low, high);
            let listed = col("x").in_list(literals(&array, &mut rng, 3));
            // A kernel takes long to compile on the emulation.
            let wanted = if thinned(&engine, 1, 2) { &ALL[index / 2 % 2..][..1] } else { ALL };
            if !thinned(&engine, index, 2) {
                let options = options.clone().with_chunk_rows(5120);
                compare(&engine, &batch, &options, &between, wanted);
            }
            if !thinned(&engine, index + 1, 2) {
                compare(&engine, &batch, &options, &listed, wanted);
            }
        }
    }
}

/// A warp's vectors have runs whose lengths lie in two vectors.
#[test]
fn runs_are_read_across_vectors_of_lengths() {
    let mut rng = Rng(313);
    let value = |row: u64| (row / 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words: Vec<u64> = (0..40_011).map(value).collect();
    for engine in engines() {
        for data_type in [DataType::UInt8, DataType::UInt32] {
            let array = array_of(&data_type, &words, None);
            let options = only(&[Encoding::Rle, Encoding::Ffor]);
            let encoding =
                lanepack::compress_array(&array, &options).unwrap().encoding().to_string();
            assert!(encoding.starts_with("rle(plain, "), "{encoding}");
            let [low, high] = literals(&array, &mut rng, 2).try_into().unwrap();
            compare(&engine, &batch(&array), &options, &col("x").between(low, high), ALL);
        }
    }
}

/// Chunks of one column with other trees than those before: a kernel reads all of them.
#[test]
fn chunks_with_other_trees() {
    let rows = 8 * 1024;
    let value = |row: u64| match row / 1024 {
        0 => 5,
        1 => row * row % 90 * 1000,
        2 => row / 40 * 7919 % 1000,
        3 => row * 1_000_003,
        4 => row * row % 1000,
        5 => (row * 7919 % 30).pow(7),
        6 => row % 2 * 77,
        _ => row * row * row % 1_000_003,
    };
    let words: Vec<u64> = (0..rows).map(value).collect();
    let options = Options::default().with_chunk_rows(1024);
    let mut rng = Rng(99);
    for engine in engines() {
        for data_type in [DataType::Int64, DataType::UInt32] {
            let array = array_of(&data_type, &words, None);
            let encoding_of = |array: &ArrayRef| {
                lanepack::compress_array(array, &options).unwrap().encoding().to_string()
            };
            let trees: std::collections::HashSet<String> =
                (0..8).map(|chunk| encoding_of(&array.slice(chunk * 1024, 1024))).collect();
            assert!(trees.len() >= 5, "{trees:?}");
            let batch = batch(&array);
            for _ in 0..3 {
                let [low, high] = literals(&array, &mut rng, 2).try_into().unwrap();
                compare(&engine, &batch, &options, &col("x").between(low, high), ALL);
            }
        }
    }
}

/// Tests of runs and differences that are joined with the bitmap of a test that no kernel of a query
/// has: of values wider than 128 bits. Chunks begin at odd rows.
#[test]
fn trees_join_bitmaps_of_other_tests() {
    let half = |from: u64| {
        let rows = from..from + 5003;
        let runs = rows.clone().map(|row| (row / 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64);
        let steps = rows.clone().map(|row| (row * 99 + row * row % 50) as i64);
        let power = i256::from_i128(10).wrapping_pow(40);
        let wide = rows.map(|row| i256::from_i128(i128::from(row * row % 100)).wrapping_mul(power));
        let wide = Decimal256Array::from_iter_values(wide).with_precision_and_scale(76, 0).unwrap();
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("runs", Arc::new(Int64Array::from_iter_values(runs)), true),
            ("steps", Arc::new(Int64Array::from_iter_values(steps)), true),
            ("wide", Arc::new(wide), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        compress(&batch, &Options::default().with_chunk_rows(3072)).unwrap()
    };
    let halves = [half(0), half(5003)];
    let packed = arrow_select::concat::concat_batches(&halves[0].schema(), &halves).unwrap();
    let encodings: Vec<String> = lanepack::columns(&packed)
        .unwrap()
        .iter()
        .map(|column| column.encoding().to_string())
        .collect();
    assert!(encodings[0].starts_with("rle(") && encodings[1].contains("delta("), "{encodings:?}");
    let power = i256::from_i128(10).wrapping_pow(40);
    let literal = Decimal256Array::from_iter_values([power.wrapping_mul(i256::from_i128(30))])
        .with_precision_and_scale(76, 0)
        .unwrap();
    let wide = || col("wide").gt(Literal::Arrow(Arc::new(literal.clone())));
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        for test in
            [col("runs").between(i64::MIN / 3, i64::MAX / 5), col("steps").between(99_000, 700_000)]
        {
            for filter in [
                wide().and(test.clone()),
                wide().or(test.clone()),
                test.clone().or(wide()),
                wide().or(test.clone()).and(test),
            ] {
                let expected =
                    Scan::new(&packed).filter(filter.clone()).mask(&Engine::cpu()).unwrap();
                let found =
                    Scan::on_device(&on_device).filter(filter.clone()).mask(&engine).unwrap();
                assert_eq!(found, expected, "{filter}");
            }
        }
    }
}

/// Decimals whose limbs are trees, with one limb and with two.
#[test]
fn limbs_of_trees() {
    for engine in engines() {
        for wide in [false, true] {
            let value = |row: i128| {
                let value = (row * row % 700 - 300) * 100;
                if wide { value * 10_i128.pow(18) } else { value }
            };
            let values = Decimal128Array::from_iter_values((0..5000).map(value));
            let array = Arc::new(values.with_precision_and_scale(38, 2).unwrap()) as ArrayRef;
            let batch = batch(&array);
            for (low, high) in [(-5000, 5000), (0, 0), (-100_000, -29_900), (39_900, 1 << 40)] {
                let scale = if wide { 10_i128.pow(18) } else { 1 };
                let [low, high] = [low, high].map(|end: i128| Literal::decimal(end * scale, 2));
                let filter = col("x").between(low, high);
                compare(&engine, &batch, &Options::default().with_chunk_rows(2048), &filter, ALL);
            }
        }
    }
}

/// Bounds that are no multiples, that lie outside of all values, and at the ends of the type.
#[test]
fn divided_bounds_are_exact() {
    for engine in engines() {
        let value = |row: i64| (row * row % 300 - 150) * 1000 + 7;
        let array = Arc::new(Int64Array::from_iter_values((0..2000).map(value))) as ArrayRef;
        let batch = batch(&array);
        let options = only(&[Encoding::Gcd, Encoding::Ffor]);
        let bounds = [
            (i64::MIN, i64::MAX),
            (i64::MIN, -149_993),
            (-149_993, -149_993),
            (-149_992, -148_994),
            (6, 7),
            (8, 1006),
            (149_008, i64::MAX),
            (i64::MIN, -149_994),
        ];
        for (low, high) in bounds {
            compare(&engine, &batch, &options, &col("x").between(low, high), ALL);
        }
    }
}

/// Lengths that do not add up, and bits that are not as many as runs: scans of both engines refuse
/// them.
#[test]
fn damaged_runs_are_found_by_scans() {
    let runs_of = |rows: i64, all: i64| {
        let values = Int64Array::from_iter_values((0..all).map(|row| row / rows));
        Image::with(&(Arc::new(values) as ArrayRef), Encoding::Rle)
    };
    // By run: 20 of 50 values, one of 24 that the first vector ends with, one of 26.
    let of_lengths: [fn(&mut Vec<u8>); 5] = [
        |lengths| lengths[0] = 0,
        |lengths| lengths[4] = 49,
        |lengths| (lengths[10], lengths[12]) = (51, 49),
        |lengths| lengths[44..46].copy_from_slice(&u16::MAX.to_le_bytes()),
        |lengths| (lengths[38], lengths[42]) = (51, 25),
    ];
    let of_bits: [fn(&mut Vec<u8>); 3] =
        [|bits| bits[0] = 0b1010_1010, |bits| bits[77] |= 2, |bits| bits[180] = 0];
    let damaged = |runs: &Image, buffer: usize, damage: fn(&mut Vec<u8>)| {
        let mut image = runs.clone();
        image.change(|tree| damage(&mut tree.buffers[buffer]));
        image
    };
    // A sum that is right leaves another column, no damage.
    let harmless = 2;
    let lengths = runs_of(50, 1500);
    let mut images: Vec<Image> =
        of_lengths.into_iter().map(|damage| damaged(&lengths, 2, damage)).collect();
    lanepack::decompress(&batch_of(images[harmless].field.clone(), images[harmless].storage()))
        .unwrap();
    images.remove(harmless);
    // A warp reads 64 runs at once; run 85 is the first of vector 4.
    let of_many: [fn(&mut Vec<u8>); 3] = [
        |lengths| lengths[200] = 0,
        |lengths| lengths[200] += 1,
        |lengths| (lengths[168], lengths[170]) = (lengths[168] + 1, lengths[170] - 1),
    ];
    let lengths = runs_of(50, 6000);
    images.extend(of_many.into_iter().map(|damage| damaged(&lengths, 2, damage)));
    let bits = runs_of(2, 1500);
    images.extend(of_bits.into_iter().map(|damage| damaged(&bits, 1, damage)));
    for engine in engines() {
        for image in &images {
            let packed = batch_of(image.field.clone(), image.storage());
            let filter = col("price").between(3, 17);
            let cpu = Scan::new(&packed).filter(filter.clone()).mask(&Engine::cpu()).unwrap_err();
            let on_device = engine.upload(&packed).unwrap();
            let scan = Scan::on_device(&on_device).filter(filter);
            for error in [
                scan.mask(&engine).unwrap_err(),
                scan.aggregate(&[sum(col("price"))], &engine).unwrap_err(),
                scan.gather(&["price"], &engine).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}, on the CPU {cpu}");
                assert!(error.to_string().contains("chunk 0"), "{error}");
            }
        }
    }
}

/// A scan needs the compressed column, its bitmap and scratch that does not grow with rows.
#[cfg(lanepack_simt)]
#[test]
fn scans_decode_no_column_to_memory() {
    const SCRATCH: u64 = 512 << 10;
    let check = |array: &ArrayRef, options: &Options, filter: Expr| {
        let packed = compress(&batch(array).project(&[0]).unwrap(), options).unwrap();
        let column = lanepack::columns(&packed).unwrap()[0].clone();
        let bodies: usize = column.chunks().iter().map(|c| c.body().len()).sum();
        let memory = (bodies + array.len() / 8) as u64 + SCRATCH;
        let engine = Engine::simt(1, memory);
        let on_device = engine.upload(&packed).unwrap();
        let scan = Scan::on_device(&on_device).filter(filter.clone());
        let expected = Scan::new(&packed).filter(filter).count(&Engine::cpu());
        let found = scan.count(&engine);
        assert_eq!(found.unwrap(), expected.unwrap(), "{}", column.encoding());
        if array.get_buffer_memory_size() as u64 > memory {
            on_device.columns()[0].decompress().expect_err("there is no room for all values");
        }
    };
    let rows = 4 * 131_072;
    for tree in trees() {
        let (array, options) = column(&tree, rows, 0);
        // Dictionaries are decoded, and their codes are checked once.
        if lanepack::compress_array(&array, &options)
            .unwrap()
            .encoding()
            .to_string()
            .contains("dict")
        {
            continue;
        }
        let filter = col("x").lt_eq(Literal::Arrow(array.slice(77_777, 1)));
        check(&array, &options, filter);
    }
    // Bitmaps of 2 MiB.
    let rows = 128 * 131_072;
    let bits = |rows| arrow_buffer::BooleanBuffer::collect_bool(rows, |row| row % 5_000 == 7);
    let booleans = Arc::new(BooleanArray::new(bits(rows), None)) as ArrayRef;
    check(&booleans, &Options::default(), col("x").eq(false).or(col("x").is_null()));
    let nulls = Some(NullBuffer::new(bits(rows)));
    let values = Arc::new(UInt8Array::new(vec![7; rows].into(), nulls)) as ArrayRef;
    check(&values, &Options::default(), col("x").is_null());
    check(&values, &Options::default(), col("x").lt(8_u8));
}
