//! Integers as differences, and with exceptions.

use std::sync::Arc;

use arrow_array::*;
use lanepack::{Encoding, Options};

use super::common::Rng;
use super::{SIMPLE, batch, golden, nulls};

#[test]
fn differences_of_integers() {
    let mut rng = Rng(10);
    let mut walk = |step: u64| -> Vec<u64> {
        let mut value = rng.next();
        let mut next = || {
            value = value.wrapping_add(rng.below(step)).wrapping_sub(step / 3);
            value
        };
        (0..2100).map(|_| next()).collect()
    };
    let (bytes, wide, times) = (walk(4), walk(100), walk(1 << 12));
    let times = times.into_iter().map(|value| (value >> 8) as i64).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("u8", Arc::new(UInt8Array::from_iter_values(bytes.iter().map(|value| *value as u8)))),
        ("i8", Arc::new(Int8Array::from_iter_values(bytes.iter().map(|value| *value as i8)))),
        ("u16", Arc::new(UInt16Array::from_iter_values((0..2100).map(|i| i * 31 + i % 3)))),
        ("i16", Arc::new(Int16Array::from_iter_values((0..2100).map(|i| -i * 15 - i % 3)))),
        ("u32", Arc::new(UInt32Array::from_iter_values((0..2100).map(|i| i * i)))),
        ("i32", Arc::new(Int32Array::from_iter_values((0..2100).map(|i| i * 1000)))),
        ("u64", Arc::new(UInt64Array::from(wide))),
        ("nulls", Arc::new(TimestampNanosecondArray::new(times, nulls(2100)))),
    ];
    let options =
        Options::default().with_encodings(SIMPLE.iter().copied().chain([Encoding::Delta]));
    golden("delta", &options, &batch(columns));
}

#[test]
fn multiples_of_divisors() {
    let mut rng = Rng(12);
    let mut of = |divisor: u64, most: u64| -> Vec<i64> {
        (0..2100).map(|_| ((40 + rng.below(most)) * divisor) as i64).collect()
    };
    let (seconds, days, cents) = (of(1_000_000_000, 4000), of(86_400_000, 90), of(100, 5000));
    let growing =
        seconds.iter().enumerate().map(|(row, value)| value + row as i64 * 600_000_000_000);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("nanoseconds", Arc::new(TimestampNanosecondArray::from(seconds.clone()))),
        ("date64", Arc::new(Date64Array::new(days.into(), nulls(2100)))),
        ("growing", Arc::new(TimestampNanosecondArray::from_iter_values(growing))),
        ("u64", Arc::new(UInt64Array::from_iter_values(seconds.iter().map(|v| !(*v as u64))))),
        ("u32", Arc::new(UInt32Array::from_iter_values(cents.iter().map(|v| *v as u32)))),
        ("i32", Arc::new(Int32Array::from_iter_values(cents.iter().map(|v| 1 - *v as i32)))),
    ];
    let encodings = SIMPLE.iter().copied().chain([Encoding::Gcd, Encoding::Delta, Encoding::Pfor]);
    golden("gcd", &Options::default().with_encodings(encodings), &batch(columns));
}

/// `rows` rows, of which one in `every` is `rare`, the others `common`, of a number below 2^40.
fn mixture(rows: usize, every: u64, common: fn(u64) -> u64, rare: fn(u64) -> u64) -> Vec<u64> {
    let mut rng = Rng(every);
    let mut value = |_| {
        let number = rng.next() >> 24;
        if rng.below(every) == 0 { rare(number) } else { common(number) }
    };
    (0..rows).map(&mut value).collect()
}

#[test]
fn integers_with_outliers() {
    let above = mixture(2100, 60, |number| 1000 + number % 13, |number| number);
    let below = mixture(2100, 90, |number| 60_000 + number % 16, |number| number % 60_000);
    let sparse = mixture(2100, 30, |_| 77, |number| number);
    let signed = || above.iter().map(|value| -(*value as i64));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("u64", Arc::new(UInt64Array::from(above.clone()))),
        ("i64", Arc::new(Int64Array::from_iter_values(signed()))),
        ("u32", Arc::new(UInt32Array::from_iter_values(above.iter().map(|value| *value as u32)))),
        ("i32", Arc::new(Int32Array::from_iter_values(signed().map(|value| value as i32)))),
        ("u16", Arc::new(UInt16Array::from_iter_values(below.iter().map(|value| *value as u16)))),
        ("i16", Arc::new(Int16Array::from_iter_values(below.iter().map(|value| *value as i16)))),
        ("u8", Arc::new(UInt8Array::from_iter_values(sparse.iter().map(|value| *value as u8)))),
        ("i8", Arc::new(Int8Array::from_iter_values(sparse.iter().map(|value| *value as i8)))),
        ("sparse", Arc::new(UInt64Array::new(sparse.into(), nulls(2100)))),
        ("nulls", Arc::new(Date64Array::new(signed().collect(), nulls(2100)))),
    ];
    let options = Options::default().with_encodings(SIMPLE.iter().copied().chain([Encoding::Pfor]));
    golden("pfor", &options, &batch(columns));
}

#[test]
fn differences_with_outliers() {
    let steps = mixture(2100, 80, |number| 20 + number % 8, |number| number);
    let times = steps.iter().scan(1 << 50, |sum, step| {
        *sum += *step as i64;
        Some(*sum)
    });
    let times: Vec<i64> = times.collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(TimestampNanosecondArray::from(times.clone()))),
        ("nulls", Arc::new(Int64Array::new(times.clone().into(), nulls(2100)))),
        ("u32", Arc::new(UInt32Array::from_iter_values(times.iter().map(|time| *time as u32)))),
    ];
    let options = Options::default().with_encodings(Encoding::ALL.iter().copied());
    golden("delta_pfor", &options, &batch(columns));
}
