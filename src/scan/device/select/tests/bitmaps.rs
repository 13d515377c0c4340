//! Booleans and validity, what a bitmap held before, and chunks that begin anywhere.

use arrow_array::{BooleanArray, Decimal128Array, StringArray};
use arrow_select::concat::concat_batches;

use super::*;

#[test]
fn booleans_are_true_false_or_null() {
    let value = |row: usize| match row {
        _ if row.is_multiple_of(11) => None,
        0..3000 => Some(row.is_multiple_of(3)),
        3000..6500 => Some(true),
        _ => Some(false),
    };
    for rows in [1, 30, 1024, 1025, 2500, 9001] {
        for has_nulls in [false, true] {
            let value = |row| value(row).or((!has_nulls).then_some(true));
            let array: ArrayRef = Arc::new(BooleanArray::from_iter((0..rows).map(value)));
            let packed = compressed(&array, None, 2048);
            for engine in engines() {
                let subject = Subject::new(&engine, &packed);
                let check = |test, expected: &dyn Fn(Option<bool>) -> bool| {
                    subject.check(&engine, &test, |row| expected(value(row)));
                };
                check(ColumnTest::True, &|value| value == Some(true));
                check(ColumnTest::False, &|value| value == Some(false));
                check(ColumnTest::Valid, &|value| value.is_some());
                check(ColumnTest::Null, &|value| value.is_none());
            }
        }
    }
}

#[test]
fn rows_of_any_type_are_null_or_not() {
    let is_valid = |row: usize| row % 7 != 2 && row / 1024 != 2;
    let strings: ArrayRef = Arc::new(StringArray::from_iter(
        (0..5000).map(|row| is_valid(row).then(|| format!("text {}", row % 50))),
    ));
    let decimals: ArrayRef = Arc::new(Decimal128Array::from_iter(
        (0..5000).map(|row| is_valid(row).then_some(row as i128 * 1000)),
    ));
    for array in [strings, decimals] {
        let packed = compressed(&array, None, 2048);
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            subject.check(&engine, &ColumnTest::Valid, is_valid);
            subject.check(&engine, &ColumnTest::Null, |row| !is_valid(row));
            let test = ColumnTest::In(ranges([(0, 5)]));
            let error = subject.words(&engine, &test, Combine::Set, None).unwrap_err();
            assert!(error.to_string().contains("is no test of values"), "{error}");
        }
    }
}

#[test]
fn tests_of_other_types_are_refused() {
    let numbers: ArrayRef = array_of(&DataType::Int32, &[Some(1), Some(2)]);
    let booleans: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    for (array, test) in
        [(numbers, ColumnTest::True), (booleans, ColumnTest::NotIn(ranges([(0, 0)])))]
    {
        let packed = compressed(&array, None, 2048);
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            let error = subject.words(&engine, &test, Combine::Set, None).unwrap_err();
            assert!(error.to_string().contains("is no test of values"), "{error}");
        }
    }
}

/// Columns of chunks of so many rows each.
fn in_chunks(data_type: &DataType, keys: &[Option<u64>], rows: &[usize]) -> RecordBatch {
    let mut at = 0;
    let parts: Vec<RecordBatch> = rows
        .iter()
        .map(|rows| {
            let array = array_of(data_type, &keys[at..at + rows]);
            at += rows;
            compressed(&array, None, 131_072)
        })
        .collect();
    assert_eq!(at, keys.len());
    concat_batches(&parts[0].schema(), &parts).unwrap()
}

const CHUNKS: [&[usize]; 6] = [
    &[2048, 1024, 700],
    &[2048, 64, 32, 1056],
    &[1100, 1, 31, 2, 5, 1024, 1024, 3, 1000],
    &[1, 1023, 1024, 1],
    &[3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3],
    &[1055, 2049, 1, 64],
];

/// What a bitmap held before is brought in, wherever chunks begin, and bits of other rows
/// are left alone.
#[test]
fn bitmaps_are_combined_whatever_rows_chunks_begin_at() {
    for (case, chunks) in CHUNKS.iter().enumerate() {
        let rows: usize = chunks.iter().sum();
        let mut rng = Rng(case as u64);
        let keys: Vec<Option<u64>> = (0..rows)
            .map(|row| (case.is_multiple_of(2) || row % 5 != 3).then(|| 5000 + rng.below(100)))
            .collect();
        let packed = in_chunks(&DataType::Int32, &keys, chunks);
        let selected = ranges([(5010, 5040), (5060, 5061)]);
        let inside = |row: usize| {
            keys[row].is_some_and(|key| {
                selected.iter().any(|range| range.low <= key && key <= range.high)
            })
        };
        let none = vec![0_u32; bitmap_len(rows) / 4];
        let all: Vec<u32> = none.iter().map(|_| u32::MAX).collect();
        let some: Vec<u32> = none.iter().map(|_| rng.next() as u32 & rng.next() as u32).collect();
        // Whole vectors without and with set bits.
        let parts: Vec<u32> =
            (0..none.len()).map(|word| if word / 32 % 2 == 0 { 0 } else { u32::MAX }).collect();
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            let test = ColumnTest::In(selected.clone());
            subject.check(&engine, &test, inside);
            for before in [&none, &all, &some, &parts] {
                let had = |row: usize| before[row / 32] >> (row % 32) & 1 == 1;
                let combined = |combine, bit: &dyn Fn(usize) -> bool| {
                    let (mut found, set) =
                        subject.words(&engine, &test, combine, Some(before)).unwrap();
                    let expected: Vec<bool> = (0..rows).map(bit).collect();
                    assert_eq!(set, expected.iter().filter(|bit| **bit).count());
                    // What was not looked at keeps what stood behind the last row.
                    if let Some(last) = found.last_mut().filter(|_| !rows.is_multiple_of(32)) {
                        *last &= u32::MAX >> (32 - rows % 32);
                    }
                    assert_bits(&found, &expected, || format!("{chunks:?} {combine:?}"));
                };
                combined(Combine::Set, &inside);
                combined(Combine::And, &|row| had(row) && inside(row));
                combined(Combine::Or, &|row| had(row) || inside(row));
            }
        }
    }
}

/// Chunks that begin anywhere of every type that has a kernel of its own.
#[test]
fn chunks_of_every_type_may_begin_anywhere() {
    let chunks = [1100, 1, 31, 2, 1023, 1025, 40];
    let rows = chunks.iter().sum::<usize>();
    for data_type in [
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
    ] {
        let mut rng = Rng(9);
        let keys: Vec<Option<u64>> =
            (0..rows).map(|row| (row % 6 != 5).then(|| 128 + rng.below(90))).collect();
        let packed = in_chunks(&data_type, &keys, &chunks);
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            subject.check_ranges(&engine, &keys, &ranges([(150, 180)]));
            subject.check_ranges(&engine, &keys, &ranges([(0, 140), (200, 255)]));
            subject.check(&engine, &ColumnTest::Null, |row| keys[row].is_none());
        }
    }
}
