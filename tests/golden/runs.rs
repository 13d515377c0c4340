//! Runs of equal values, and dictionaries whose codes are.

use std::sync::Arc;

use arrow_array::*;
use lanepack::{Encoding, Options, compress};

use super::common::Rng;
use super::{SIMPLE, batch, golden, nulls};

/// Numbers below 2^32 in runs of up to `longest`.
fn runs(rows: usize, longest: u64) -> Vec<u64> {
    let mut rng = Rng(longest);
    let mut values = Vec::new();
    while values.len() < rows {
        let (value, len) = (rng.next() >> 32, 1 + rng.below(longest) as usize);
        values.resize((values.len() + len).min(rows), value);
    }
    values
}

/// Those of GPUs, and these.
fn options(others: &[Encoding]) -> Options {
    Options::default().with_encodings(SIMPLE.iter().chain(others).copied())
}

#[test]
fn runs_of_every_type() {
    let (short, long) = (runs(2100, 9), runs(2100, 80));
    let halves = long.iter().map(|value| half::f16::from_bits(*value as u16));
    let cents = |value: u64| (value % 100_000) as f64 / 100.0;
    let specials = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1e-310];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("u8", Arc::new(UInt8Array::from_iter_values(long.iter().map(|value| *value as u8)))),
        ("i8", Arc::new(Int8Array::from_iter_values(long.iter().map(|value| *value as i8)))),
        ("u16", Arc::new(UInt16Array::from_iter_values(long.iter().map(|value| *value as u16)))),
        ("i16", Arc::new(Int16Array::from_iter_values(long.iter().map(|value| *value as i16)))),
        ("u32", Arc::new(UInt32Array::from_iter_values(short.iter().map(|value| *value as u32)))),
        ("i32", Arc::new(Int32Array::from_iter_values(long.iter().map(|value| *value as i32)))),
        ("u64", Arc::new(UInt64Array::from(short.clone()))),
        ("i64", Arc::new(Int64Array::from_iter_values(long.iter().map(|value| !*value as i64)))),
        ("f16", Arc::new(Float16Array::from_iter_values(halves))),
        ("f32", Arc::new(Float32Array::from_iter_values(long.iter().map(|value| *value as f32)))),
        ("cents", Arc::new(Float64Array::from_iter_values(short.iter().map(|v| cents(*v))))),
        (
            "specials",
            Arc::new(Float64Array::from_iter_values(
                long.iter().map(|v| specials[*v as usize % 6]),
            )),
        ),
        (
            "a run a vector",
            Arc::new(Float64Array::from_iter_values((0..2100).map(|row| specials[1 + row / 1024]))),
        ),
        ("nulls", Arc::new(UInt64Array::new(short.clone().into(), nulls(2100)))),
        (
            "null vector",
            Arc::new(Int64Array::from_iter(
                long.iter().enumerate().map(|(row, v)| (row >> 10 != 1).then_some(*v as i64)),
            )),
        ),
    ];
    golden("rle", &options(&[Encoding::Rle]), &batch(columns));
}

#[test]
fn bits_as_bytes() {
    let rows = 20_000;
    let some =
        |is_set: fn(usize) -> bool| BooleanArray::from_iter((0..rows).map(|row| Some(is_set(row))));
    let flags = [
        some(|row| row % 3001 == 7),
        some(|row| row / 1700 % 2 == 0),
        some(|row| row % 8 == 3),
        some(|row| row != 19_999),
    ];
    let valid = flags[1].values().clone();
    let texts = (0..rows).map(|row| (row % 2003 != 5).then_some(["no", "yes"][row % 2]));
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("nulls", Arc::new(BooleanArray::new(flags[0].values().clone(), Some(valid.into())))),
        ("texts", Arc::new(StringArray::from_iter(texts))),
    ];
    let names = ["few", "runs", "pattern", "one"];
    columns.extend(names.into_iter().zip(flags.map(|flags| Arc::new(flags) as ArrayRef)));
    golden("sparse", &Options::default(), &batch(columns));
}

#[test]
fn runs_whose_values_are_differences() {
    let ascending = || (0..4000_i64).map(|row| row / 7 * 1000 + row / 70 % 2);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("times", Arc::new(TimestampSecondArray::from_iter_values(ascending()))),
        ("u32", Arc::new(UInt32Array::from_iter_values(ascending().map(|value| value as u32)))),
        ("nulls", Arc::new(Int64Array::new(ascending().collect(), nulls(4000)))),
    ];
    let options = options(&[Encoding::Rle, Encoding::Delta, Encoding::Pfor]);
    golden("rle_delta", &options, &batch(columns));
}

#[test]
fn runs_of_codes() {
    let words = ["PERSON", "COD", "NONE", "RETURN", ""];
    let values = runs(2100, 30);
    let text = |value: u64| words[value as usize % 5];
    // Multiples of a large odd number: packed they take 64 bits.
    let spread = |value: u64| (value % 40).wrapping_mul(0x1234_5678_9abc_def1);
    let valid = nulls(2100).unwrap();
    let some = values.iter().enumerate();
    let some = some.map(|(row, value)| valid.is_valid(row / 60 * 60).then(|| text(*value)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("texts", Arc::new(StringArray::from_iter_values(values.iter().map(|v| text(*v))))),
        ("nulls", Arc::new(StringArray::from_iter(some))),
        ("u64", Arc::new(UInt64Array::from_iter_values(values.iter().map(|v| spread(*v))))),
    ];
    let batch = batch(columns);
    let options = options(&[Encoding::Rle, Encoding::Dict]);
    let packed = compress(&batch, &options).unwrap();
    for column in lanepack::columns(&packed).unwrap() {
        assert!(column.encoding().to_string().starts_with("dict(rle("), "{}", column.explain());
    }
    golden("dict_rle", &options, &batch);
}
