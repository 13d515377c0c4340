//! Segments of symbols of every size.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::{Encoding, Lz, Options};

use super::common::{Nulls, Rng, strings};
use super::{batch, golden, nulls};

/// Words of which groups come again.
fn repeated(rows: usize) -> Vec<u64> {
    let mut rng = Rng(14);
    let words: Vec<u64> = (0..100).map(|_| rng.next()).collect();
    let mut all = Vec::new();
    while all.len() < rows {
        let (at, len) = (rng.below(90) as usize, 1 + rng.below(10) as usize);
        match rng.below(6) {
            0 => all.extend(std::iter::repeat_n(words[at], 30 * len)),
            1 => all.push(rng.next()),
            _ => all.extend_from_slice(&words[at..at + len]),
        }
    }
    all.truncate(rows);
    all
}

/// Words with `symbol` bytes a symbol.
#[track_caller]
fn of_level(level: u8, symbol: usize) {
    let lz = Lz::default().with_level(level).with_symbol_bytes(symbol);
    let options = Options::default().with_encodings([Encoding::Lz]).with_lz(lz);
    let array = Arc::new(UInt64Array::from(repeated(5000))) as ArrayRef;
    golden(&format!("lz_level_{level}"), &options, &batch(vec![("u64", array)]));
}

#[test]
fn level_1() {
    of_level(1, 1);
}

#[test]
fn level_2() {
    of_level(2, 2);
}

#[test]
fn level_3() {
    of_level(3, 4);
}

#[test]
fn level_4() {
    of_level(4, 8);
}

#[test]
fn words() {
    let words = repeated(10_000);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("u64", Arc::new(UInt64Array::from(words.clone()))),
        ("f64", Arc::new(Float64Array::from_iter_values(words.iter().map(|w| f64::from_bits(*w))))),
        (
            "nulls",
            Arc::new(Int64Array::new(words.iter().map(|w| *w as i64).collect(), nulls(10_000))),
        ),
    ];
    golden("lz_words", &Options::default().with_encodings([Encoding::Lz]), &batch(columns));
}

#[test]
fn byte_strings() {
    let words = repeated(5000);
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let blobs = (0..300).map(|row| bytes[40 * row..40 * row + row * row % 131].to_vec());
    let blobs: Vec<Vec<u8>> = blobs.collect();
    let log =
        |row: usize| format!("{row} {}", "GET /index.html HTTP/1.1 200\n".repeat(10 + row % 9));
    let fixed = bytes[..300 * 52].to_vec();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("binary", strings(&DataType::Binary, &blobs, Nulls::Random)),
        ("fixed", Arc::new(FixedSizeBinaryArray::new(52, fixed.into(), None))),
        ("text", Arc::new(StringArray::from_iter_values((0..300).map(log)))),
    ];
    golden("lz_strings", &Options::default().with_encodings([Encoding::Lz]), &batch(columns));
}
