//! Columns of lz, whose segments are longer than vectors, against the same columns plain.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use lanepack::scan::{Aggregate, Expr, Scan, avg, col, count, lit, max, min, sum};
use lanepack::{Encoding, Engine, Options, columns, compress};

use crate::common::Rng;

const ROWS: usize = 20_000;

/// Columns of several types, in which groups of 700 rows come twice.
fn batch() -> RecordBatch {
    let mut rng = Rng(17);
    let words: Vec<u64> = (0..ROWS).map(|_| rng.next()).collect();
    let word = |row: usize| words[row / 1400 * 700 + row % 700];
    let nulls = NullBuffer::from_iter((0..ROWS).map(|row| row % 11 != 3));
    let columns: [(&str, ArrayRef); 6] = [
        ("i16", Arc::new(Int16Array::from_iter_values((0..ROWS).map(|row| word(row) as i16)))),
        (
            "u32",
            Arc::new(UInt32Array::new(
                (0..ROWS).map(|row| word(row) as u32).collect(),
                Some(nulls.clone()),
            )),
        ),
        (
            "i64",
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| word(row) as i64 >> 16))),
        ),
        (
            "f32",
            Arc::new(Float32Array::from_iter_values(
                (0..ROWS).map(|row| f32::from_bits(word(row) as u32 >> 2)),
            )),
        ),
        (
            "f64",
            Arc::new(Float64Array::new(
                (0..ROWS).map(|row| f64::from_bits(word(row) >> 2)).collect(),
                Some(nulls),
            )),
        ),
        (
            "blob",
            Arc::new(BinaryArray::from_iter_values(
                (0..ROWS).map(|row| word(row).to_le_bytes()[..row % 7].to_vec()),
            )),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn scans_are_those_of_plain_columns() {
    let batch = batch();
    let of = |encoding| {
        let options = Options::default().with_encodings([encoding]).with_chunk_rows(8192);
        compress(&batch, &options).unwrap()
    };
    let (lz, plain) = (of(Encoding::Lz), of(Encoding::Plain));
    for column in columns(&lz).unwrap() {
        assert!(column.encoding().to_string().contains("lz"), "{}", column.explain());
    }
    let names: Vec<&str> = batch.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
    let mut aggregates: Vec<Aggregate> = Vec::new();
    for name in &names {
        aggregates.extend([min(col(*name)), max(col(*name)), count(col(*name))]);
        if *name != "blob" {
            aggregates
                .extend([sum(col(*name)), avg(col(*name).to_float64() + col("i16").to_float64())]);
        }
    }
    // From all rows to a few of each vector, and to some vectors only.
    let filters: [Expr; 5] = [
        col("i16").gt_eq(lit(i16::MIN)),
        col("i16").gt(lit(30_000_i16)),
        col("u32").lt(lit(1 << 20)),
        col("f64").is_null(),
        (col("i64") + col("u32")).gt(lit(0_i64)),
    ];
    for filter in filters {
        let scans = [&lz, &plain].map(|packed| Scan::new(packed).filter(filter.clone()));
        let engine = Engine::cpu();
        let [found, expected] = scans.each_ref().map(|scan| scan.mask(&engine).unwrap());
        assert!(found == expected, "{filter}");
        let [found, expected] = scans.each_ref().map(|scan| scan.gather(&names, &engine).unwrap());
        assert_eq!(found, expected, "{filter}");
        let [found, expected] =
            scans.each_ref().map(|scan| scan.aggregate(&aggregates, &engine).unwrap());
        assert_eq!(found, expected, "{filter}");
    }
}
