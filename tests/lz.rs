//! What LZ makes of the shared data, as bytes.

mod common;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray};
use common::{read_parquet, shared_data};
use lanepack::{Encoding, Lz, Options, compress_array};

/// How many times smaller these bytes become, as one value of a column.
fn ratio(bytes: &[u8], lz: Lz) -> f64 {
    let array = Arc::new(BinaryArray::from_iter_values([bytes])) as ArrayRef;
    let options = Options::default().with_encodings([Encoding::Lz]).with_lz(lz);
    let column = compress_array(&array, &options).unwrap();
    assert_eq!(column.encoding().to_string(), "lz(plain)", "{}", column.explain());
    assert_eq!(&column.decompress().unwrap(), &array);
    bytes.len() as f64 / column.compressed_bytes() as f64
}

/// Keys of orders as TPC-H has them: 8 of each 32 numbers, one to seven times each.
fn order_keys(rows: usize) -> Vec<i64> {
    let mut rng = common::Rng(11);
    let lines = (0..).flat_map(|order| {
        let key = order / 8 * 32 + order % 8 + 1;
        vec![key; 1 + rng.below(7) as usize]
    });
    lines.take(rows).collect()
}

/// GPULZ's ratios are those of its own code; LZ4's are nvCOMP's.
#[test]
fn ratios_are_those_of_gpulz_and_lz4_or_better() {
    let Some(root) = shared_data() else { return };
    let lz = |level, symbol_bytes, segment_symbols| {
        Lz::default()
            .with_level(level)
            .with_symbol_bytes(symbol_bytes)
            .with_segment_symbols(segment_symbols)
    };
    let (pairs, bytewise, best) = (lz(3, 2, 2048), lz(4, 1, 4096), lz(5, 1, 1 << 16));
    let comments = read_parquet(&root.join("strings/l_comment.parquet"));
    let comments = comments.column(0).as_string::<i32>();
    let text: String = comments.iter().flatten().collect();
    let text = &text.as_bytes()[..text.len() / 8 * 8];
    assert!(ratio(text, pairs) >= 1.16, "{}", ratio(text, pairs));
    assert!(ratio(text, bytewise) >= 1.49, "{}", ratio(text, bytewise));
    assert!(ratio(text, best) >= 2.16, "{}", ratio(text, best));
    let keys: Vec<i64> = order_keys(500_000);
    let keys: &[u8] = bytemuck::cast_slice(&keys);
    assert!(ratio(keys, pairs) >= 4.24, "{}", ratio(keys, pairs));
    assert!(ratio(keys, bytewise) >= 4.97, "{}", ratio(keys, bytewise));
    assert!(ratio(keys, best) >= 4.47, "{}", ratio(keys, best));
}
