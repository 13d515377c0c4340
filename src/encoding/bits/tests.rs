use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::scan::{Expr, Scan, col, count};
use crate::{CompressedColumn, Encoding, Engine, Options, compress, compress_array};

/// Compresses, and compares all values and single ones.
#[track_caller]
fn check(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert_eq!(&column.decompress().unwrap(), array, "{}", column.explain());
    for row in (0..array.len()).step_by(37) {
        let value = column.value(row).unwrap().into_inner();
        assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row}");
    }
    column
}

/// A tree, and which rows of a column that becomes it are set.
type Pattern = (&'static str, fn(usize) -> bool);

const PATTERNS: [Pattern; 7] = [
    ("bits(pfor)", |row| row % 3001 == 7),
    ("bits(pfor)", |row| row % 3001 != 7),
    ("bits(rle(", |row| row / 1700 % 2 == 0),
    ("bits(constant)", |row| row % 8 == 3),
    ("bits(pfor)", |row| row == 19_000),
    ("plain", |row| row * row % 7 < 3),
    ("constant", |_| true),
];

fn bits(rows: usize, is_set: fn(usize) -> bool) -> BooleanBuffer {
    BooleanBuffer::from_iter((0..rows).map(is_set))
}

#[test]
fn booleans_of_all_patterns() {
    let all = Options::default();
    for (tree, is_set) in PATTERNS {
        let array = Arc::new(BooleanArray::new(bits(20_000, is_set), None)) as ArrayRef;
        let column = check(&array, &all);
        assert!(
            column.encoding().to_string().starts_with(tree),
            "{} instead of {tree}",
            column.explain()
        );
        for rows in [1, 7, 8, 9, 1023, 1024, 1025, 8192, 8193, 131_072, 140_000] {
            let array = Arc::new(BooleanArray::new(bits(rows, is_set), None)) as ArrayRef;
            check(&array, &all);
            check(&array.slice(rows / 3, rows - rows / 3), &all.clone().with_chunk_rows(1024));
        }
    }
}

#[test]
fn nulls_of_all_patterns() {
    for (tree, is_valid) in PATTERNS {
        let nulls = || Some(NullBuffer::new(bits(20_000, is_valid)));
        let arrays: [ArrayRef; 3] = [
            Arc::new(Int32Array::new((0..20_000).collect(), nulls())),
            Arc::new(BooleanArray::new(bits(20_000, |row| row % 999 == 1), nulls())),
            Arc::new(StringArray::from_iter(
                (0..20_000).map(|row| is_valid(row).then(|| format!("{row}"))),
            )),
        ];
        for array in &arrays {
            let column = check(array, &Options::default());
            let validity = column.chunks()[0].root().validity();
            let found = validity.map_or("constant", |node| node.encoding().name());
            assert!(tree.starts_with(found), "{found} instead of {tree}");
            check(array, &Options::default().without(Encoding::Constant));
        }
    }
}

/// A few nulls among many rows take what they are, not a bit for every row.
#[test]
fn few_nulls_are_small() {
    let nulls = NullBuffer::new(bits(131_072, |row| row % 8000 != 77));
    let some = Int64Array::new(vec![7; 131_072].into(), Some(nulls));
    let column = check(&(Arc::new(some) as ArrayRef), &Options::default());
    let body = column.chunks()[0].body().len();
    assert!(body < 1024, "{body} bytes");
}

#[test]
fn scans_see_the_bits() {
    for (_, is_set) in PATTERNS {
        let nulls = Some(NullBuffer::new(bits(20_000, is_set)));
        let columns: [(&str, ArrayRef, bool); 2] = [
            ("b", Arc::new(BooleanArray::new(bits(20_000, |row| row > 9000), nulls.clone())), true),
            ("n", Arc::new(Int32Array::new((0..20_000).collect(), nulls)), true),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let packed = compress(&batch, &Options::default()).unwrap();
        let plain = Options::default().with_encodings([Encoding::Plain]);
        let plain = compress(&batch, &plain).unwrap();
        let filters: [Expr; 5] = [
            col("b").eq(true),
            col("b").eq(false),
            col("b").is_null(),
            col("n").is_not_null().and(col("n").lt(5000)),
            col("n").gt(12_000).or(col("b").eq(true)),
        ];
        for filter in filters {
            let of = |packed: &RecordBatch| {
                let scan = Scan::new(packed).filter(filter.clone());
                let counts = scan.aggregate(&[count(col("n"))], &Engine::cpu()).unwrap();
                (scan.rows(&Engine::cpu()).unwrap(), counts)
            };
            assert_eq!(of(&packed), of(&plain), "{filter}");
        }
    }
}
