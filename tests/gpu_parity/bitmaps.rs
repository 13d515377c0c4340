//! Nulls and booleans as bytes: of which one kind is rare, in runs, at odd places, and what reads
//! them: decompression, filters, and gathering.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use lanepack::scan::{Scan, col, count, max, sum};
use lanepack::{Encoding, Engine, Options, compress, compress_array};

use super::common::Rng;
use super::common::image::{Image, Node};
use super::{assert_same, batch_of, check, engines, thinned};

/// Rows by number, of which bits are set.
type Pattern = (&'static str, fn(usize) -> bool);

const PATTERNS: [Pattern; 9] = [
    ("bits(pfor)", |row| row % 3001 == 7),
    ("bits(pfor)", |row| row % 2003 != 1999),
    ("bits(rle(", |row| row / 1700 % 2 == 0),
    ("bits(pfor)", |row| row * row % 1_000_003 < 600_000 && row / 90 % 20 == 3),
    ("bits(constant)", |row| row % 8 == 3),
    ("bits(rle(", |row| row % 8 < 2 && (row / 24 * 7 + row % 8) * (row / 24) % 11 < 5),
    ("bits(pfor)", |row| row == 19_000),
    ("plain", |row| row * row % 7 < 3),
    ("constant", |_| false),
];

fn bits(rows: usize, is_set: fn(usize) -> bool) -> BooleanBuffer {
    BooleanBuffer::from_iter((0..rows).map(is_set))
}

fn options() -> [Options; 4] {
    let all = Options::default();
    [
        all.clone().without(Encoding::Rle),
        all.clone().without(Encoding::Pfor),
        all.clone().without(Encoding::Constant),
        all,
    ]
}

#[test]
fn booleans() {
    for engine in engines() {
        for (tree, is_set) in PATTERNS {
            for rows in [1, 9, 1023, 1025, 8193, 20_000, 140_000] {
                let array = Arc::new(BooleanArray::new(bits(rows, is_set), None)) as ArrayRef;
                for (index, options) in options().into_iter().enumerate() {
                    check(&engine, &array, &options);
                    if rows == 20_000 && index == 3 {
                        let found =
                            compress_array(&array, &options).unwrap().encoding().to_string();
                        assert!(found.starts_with(tree), "{found} instead of {tree}");
                    }
                    if rows < 30_000 {
                        let slice = array.slice(rows / 3, rows - rows / 3);
                        check(&engine, &slice, &options.clone().with_chunk_rows(1024));
                        check(&engine, &slice, &options.with_chunk_rows(9 * 1024));
                    }
                }
            }
        }
    }
}

#[test]
fn nulls_of_every_kind_of_values() {
    let rows = 20_000;
    for engine in engines() {
        for (number, (_, is_valid)) in PATTERNS.into_iter().enumerate() {
            let nulls = || Some(NullBuffer::new(bits(rows, is_valid)));
            let text = |row: usize| is_valid(row).then(|| format!("text {row}"));
            let few = |row: usize| is_valid(row).then(|| ["one", "other"][row % 2]);
            let wide = (0..rows).map(|row| (row as i128) << 70).collect::<Vec<_>>();
            let arrays: [ArrayRef; 7] = [
                Arc::new(Int64Array::new((0..rows as i64).collect(), nulls())),
                Arc::new(UInt8Array::new((0..rows).map(|row| row as u8).collect(), nulls())),
                Arc::new(Float64Array::new((0..rows).map(|r| r as f64 / 4.0).collect(), nulls())),
                Arc::new(BooleanArray::new(bits(rows, |row| row % 999 == 1), nulls())),
                Arc::new(Decimal128Array::new(wide.into(), nulls())),
                Arc::new(StringArray::from_iter((0..rows).map(text))),
                Arc::new(StringArray::from_iter((0..rows).map(few))),
            ];
            for array in &arrays {
                for (case, options) in options().into_iter().enumerate() {
                    if !thinned(&engine, number + case, 2) {
                        check(&engine, array, &options);
                    }
                }
                let slice = array.slice(777, 15_000);
                check(&engine, &slice, &Options::default().with_chunk_rows(2048));
            }
        }
    }
}

/// Chunks of one column, some with bytes, some plain, constant or without nulls.
#[test]
fn chunks_differ() {
    let mut rng = Rng(71);
    let mut is_valid = Vec::new();
    for part in 0..30 {
        is_valid.extend((0..3072).map(|row| match part % 5 {
            0 => true,
            1 => row % 900 != 17,
            2 => rng.below(2) == 0,
            3 => false,
            _ => row / 500 % 2 == 0,
        }));
    }
    let rows = is_valid.len() - 555;
    let nulls = NullBuffer::from(&is_valid[..rows]);
    let values = (0..rows as i32).map(|row| row * 7).collect();
    let array = Arc::new(Int32Array::new(values, Some(nulls.clone()))) as ArrayRef;
    let booleans = BooleanArray::new(nulls.inner().clone(), None);
    for engine in engines() {
        for chunk_rows in [1024, 3072, 8192, 131_072] {
            let options = Options::default().with_chunk_rows(chunk_rows);
            check(&engine, &array, &options);
            check(&engine, &(Arc::new(booleans.clone()) as ArrayRef), &options);
        }
    }
}

#[test]
fn scans_see_the_bits() {
    let rows = 40_000;
    for engine in engines() {
        for (number, (tree, is_set)) in PATTERNS.into_iter().enumerate() {
            let nulls = Some(NullBuffer::new(bits(rows, is_set)));
            let flags = BooleanArray::new(bits(rows, |row| row > 9000), nulls.clone());
            let numbers = Int32Array::new((0..rows as i32).collect(), nulls);
            let texts = (0..rows).map(|row| is_set(row).then(|| format!("{}", row % 300)));
            let columns: [(&str, ArrayRef, bool); 3] = [
                ("b", Arc::new(flags), true),
                ("n", Arc::new(numbers), true),
                ("s", Arc::new(StringArray::from_iter(texts)), true),
            ];
            let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
            for chunk_rows in [4096, 131_072] {
                let options = Options::default().with_chunk_rows(chunk_rows);
                let packed = compress(&batch, &options).unwrap();
                let on_device = engine.upload(&packed).unwrap();
                let filters = [
                    col("b").eq(true),
                    col("b").eq(false).or(col("s").eq("7")),
                    col("b").is_null(),
                    col("n").is_not_null(),
                    col("n").is_not_null().and(col("n").lt(5000)),
                    (col("n") * 2).gt(24_000).or(col("b").eq(true)),
                    col("s").starts_with("1"),
                ];
                for (index, filter) in filters.into_iter().enumerate() {
                    // A kernel for each filter takes long to compile.
                    if thinned(&engine, number + index, 4) {
                        continue;
                    }
                    let cpu = Scan::new(&packed).filter(filter.clone());
                    let gpu = Scan::on_device(&on_device).filter(filter.clone());
                    let what = format!("{tree}: {filter}");
                    let host = Engine::cpu();
                    assert_eq!(gpu.rows(&engine).unwrap(), cpu.rows(&host).unwrap(), "{what}");
                    let of = |scan: &Scan<'_>, engine: &Engine| {
                        scan.gather(&["b", "n", "s"], engine).unwrap()
                    };
                    assert_eq!(of(&gpu, &engine), of(&cpu, &host), "{what}");
                    if thinned(&engine, index, 3) {
                        continue;
                    }
                    let all = [count(col("b")), sum(col("n")), max(col("n"))];
                    assert_eq!(
                        gpu.aggregate(&all, &engine).unwrap(),
                        cpu.aggregate(&all, &host).unwrap(),
                        "{what}"
                    );
                }
            }
        }
    }
}

/// Nodes for kernels of users are bitmaps.
#[test]
fn nodes_are_bitmaps() {
    let nulls = NullBuffer::new(bits(20_000, |row| row % 3001 != 7));
    let array =
        Arc::new(BooleanArray::new(bits(20_000, |row| row > 7000), Some(nulls))) as ArrayRef;
    let column = compress_array(&array, &Options::default()).unwrap();
    assert!(column.encoding().to_string().starts_with("bits("), "{}", column.explain());
    for engine in engines() {
        let on_device = engine
            .compress_to_device(
                &RecordBatch::try_from_iter([("b", array.clone())]).unwrap(),
                &Options::default(),
            )
            .unwrap();
        let column = &on_device.columns()[0];
        for node in column.nodes().unwrap().into_iter().chain(column.validity_nodes().unwrap()) {
            // As in `kernels/lanepack/node.cuh`: rows, encoding, shape.
            let words: [u32; 16] = bytemuck::cast(node);
            assert_eq!((words[15] & 0xffff, words[14]), (0, 20_000));
        }
    }
}

/// Bits behind the last row are nobody's, and bytes that no writer makes are as the CPU's.
#[test]
fn bytes_that_may_be_anything() {
    let rows = 20_001;
    let valid = NullBuffer::new(bits(rows, |row| row != 77));
    let array = Arc::new(Int32Array::new((0..rows as i32).collect(), Some(valid))) as ArrayRef;
    let mut image = Image::of(&array, &Options::default());
    let at = image.tree().nodes.iter().position(|node| node.physical == 5).unwrap();
    image.change(|tree| {
        let mut plain = vec![0xff_u8; 2501];
        plain[77 / 8] &= !(1 << (77 % 8));
        let buffers = |node: &Node| usize::from(node.buffers);
        let first: usize = tree.nodes[..at].iter().map(buffers).sum();
        tree.buffers.splice(first..first + buffers(&tree.nodes[at]), [plain]);
        tree.nodes[at] =
            Node { encoding: 0, physical: 5, len: 2501, buffers: 1, ..Node::default() };
    });
    let packed = batch_of(image.field.clone(), image.storage());
    let expected = lanepack::decompress(&packed).unwrap();
    for engine in engines() {
        let found = engine.decompress(&packed).unwrap();
        assert_same(found.column(0), expected.column(0), || "ones behind the end".into());
        let name = image.field.name();
        let scan = Scan::new(&packed).filter(col(name.as_str()).is_null());
        assert_eq!(scan.rows(&engine).unwrap(), UInt64Array::from(vec![77]));
    }
}
