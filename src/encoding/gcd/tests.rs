use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;

use super::*;
use crate::scan::{Expr, Scan, col, max, min, sum};
use crate::{CompressedColumn, Engine, Options, compress, compress_array};

fn few() -> Options {
    Options::default().with_encodings([Encoding::Gcd, Encoding::Ffor, Encoding::Constant])
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 20
}

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

#[test]
fn divides_multiples_and_nothing_else() {
    let divisors = [1, 2, 3, 10, 100, 1 << 31, 86_400_000, 1_000_000_007, 1 << 63, u64::MAX];
    for divisor in divisors {
        let fast = Divisor::new(divisor);
        let most = u64::MAX / divisor;
        for quotient in [0, 1, 2, most / 2, most.saturating_sub(1), most] {
            let number = divisor.wrapping_mul(quotient.min(most));
            assert_eq!(fast.quotient(number), quotient.min(most), "{number} by {divisor}");
            for by in [1, 2, 3, divisor / 2] {
                let other = number.wrapping_add(by);
                assert_eq!(fast.divides(other), other % divisor == 0, "{other} by {divisor}");
            }
        }
    }
}

#[test]
fn finds_the_greatest_divisor() {
    assert_eq!([gcd(0, 7), gcd(7, 0), gcd(12, 18), gcd(17, 5), gcd(0, 0)], [7, 7, 6, 1, 0]);
    let of = |values: &[i64]| {
        let words: Vec<u64> = values.iter().map(|value| *value as u64).collect();
        divisor_of(&Input::new(Physical::I64, Values::W64(&words)), &words, 0..1)
    };
    assert_eq!(of(&[-7, 5, 29]), 12);
    assert_eq!(of(&[i64::MIN, i64::MAX]), u64::MAX);
    assert_eq!(of(&[30, 10, 10, 25]), 5);
    assert_eq!(of(&[4, 4]), 0);
    assert_eq!(of(&[1, 2, 4]), 1);
}

#[test]
fn multiples_of_every_type() {
    let mut state = 1;
    for rows in [2, 1023, 1024, 1025, 5000] {
        let values: Vec<i64> =
            (0..rows).map(|_| -977 + 3600 * (random(&mut state) % 500) as i64).collect();
        let nulls = NullBuffer::from_iter((0..rows).map(|row| row % 5 != 0));
        let arrays: [ArrayRef; 6] = [
            Arc::new(Int64Array::from(values.clone())),
            Arc::new(TimestampNanosecondArray::new(values.clone().into(), Some(nulls.clone()))),
            Arc::new(Int32Array::from_iter_values(values.iter().map(|value| *value as i32))),
            Arc::new(UInt32Array::from_iter_values(values.iter().map(|v| (v + 977) as u32))),
            Arc::new(UInt64Array::from_iter_values(
                values.iter().map(|v| u64::MAX - (v + 977) as u64),
            )),
            Arc::new(Decimal128Array::from_iter_values(values.iter().map(|v| i128::from(*v)))),
        ];
        for array in &arrays {
            let limbs = few().with_encodings(few().encodings().iter().chain([Encoding::Limbs]));
            let column = check(array, &limbs);
            let tree = column.encoding().to_string();
            assert!(rows < 1000 || tree.contains("gcd(ffor)"), "{tree} of {rows} rows");
            check(array, &Options::default());
        }
    }
}

/// Nine bits instead of 39: what the columns of the header are about.
#[test]
fn seconds_in_nanoseconds_take_the_bits_of_seconds() {
    let mut state = 2;
    let seconds: Vec<i64> =
        (0..60_000).map(|_| 1_700_000_000 + random(&mut state) as i64 % 512).collect();
    let nanos = seconds.iter().map(|second| second * 1_000_000_000);
    let of = |array: ArrayRef| check(&array, &few()).chunks()[0].body().len();
    let own = of(Arc::new(Int64Array::from(seconds.clone())));
    let nanos = of(Arc::new(TimestampNanosecondArray::from_iter_values(nanos)));
    assert_eq!(nanos, own);
}

/// Sampled values that all are multiples, of which others are not.
#[test]
fn values_that_no_sample_has() {
    let rows = 40 * VECTOR;
    let values = |odd: usize| {
        let value = move |row: usize| (row * row % 90_000) as i64 * 1000 + i64::from(row == odd);
        Arc::new(Int64Array::from_iter_values((0..rows).map(value))) as ArrayRef
    };
    assert_eq!(check(&values(rows), &few()).encoding().to_string(), "gcd(ffor)");
    // Vectors 0, 2, 5, 7, ... of 40 are looked at.
    assert_eq!(check(&values(VECTOR + 3), &few()).encoding().to_string(), "ffor");
}

#[test]
fn gives_way_where_it_saves_little() {
    // Even steps, and few bits.
    let even = Int64Array::from_iter_values((0..9000).map(|row| row * 60_000));
    let all = Options::default();
    assert_eq!(
        check(&(Arc::new(even) as ArrayRef), &all).encoding().to_string(),
        "delta(constant)"
    );
    let two = Int64Array::from_iter_values((0..9000).map(|row| row * row % 3 * 1000));
    let tree = check(&(Arc::new(two) as ArrayRef), &all).encoding().to_string();
    assert_eq!(tree, "gcd(ffor)");
    // Nothing but nulls, one value, two.
    for values in [vec![None; 3000], vec![Some(7); 3000], vec![Some(7), Some(9)]] {
        check(&(Arc::new(Int64Array::from(values)) as ArrayRef), &few());
        let none = Options::default().with_encodings([Encoding::Gcd]);
        check(&(Arc::new(Int64Array::from(vec![None::<i64>; 3000])) as ArrayRef), &none);
    }
}

#[test]
fn children_nest() {
    let mut state = 3;
    let steps = || (0..9000_i64).map(|row| row * 3_600_000);
    let growing: Vec<i64> =
        steps().map(|step| step + 60_000 * (random(&mut state) % 40) as i64).collect();
    let growing = Arc::new(Int64Array::from(growing)) as ArrayRef;
    let all = Options::default();
    let tree = check(&growing, &all).encoding().to_string();
    assert!(tree.starts_with("gcd(delta("), "{tree}");
    // Far apart, and some hundreds: values of a dictionary.
    let far = |row: i64| (row * 7919 % 900).pow(3) * 10_000;
    let far = Arc::new(Int64Array::from_iter_values((0..9000).map(far))) as ArrayRef;
    let tree = check(&far, &all).encoding().to_string();
    assert!(tree.starts_with("dict(") && tree.ends_with(", gcd(ffor))"), "{tree}");
    let values: Vec<i64> = (0..1800).map(|_| (random(&mut state) % 500) as i64).collect();
    let runs = (0..9000).map(|row| values[row / 5] * 60_000);
    let runs = Arc::new(Int64Array::from_iter_values(runs)) as ArrayRef;
    let without = Options::default().without(Encoding::Dict);
    let tree = check(&runs, &without).encoding().to_string();
    assert!(tree.starts_with("rle(gcd("), "{tree}");
}

#[test]
fn scans_see_the_values() {
    let values: Vec<i64> = (0..5000).map(|row| row * row % 700 * 1000 - 50_000).collect();
    let nulls = NullBuffer::from_iter((0..5000).map(|row| row % 9 != 4));
    let array = Arc::new(Int64Array::new(values.into(), Some(nulls))) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
    let packed = compress(&batch, &few()).unwrap();
    assert_eq!(crate::columns(&packed).unwrap()[0].encoding().to_string(), "gcd(ffor)");
    let plain = compress(&batch, &Options::default().with_encodings([Encoding::Plain])).unwrap();
    let engine = Engine::cpu();
    let filters: [Expr; 5] = [
        col("a").gt(100_000),
        col("a").eq(150_000),
        col("a").lt(-49_999),
        col("a").between(1, 20_000),
        (col("a") * 3).gt(200_000).or(col("a").is_null()),
    ];
    for filter in filters {
        let of = |packed: &RecordBatch| {
            let scan = Scan::new(packed).filter(filter.clone());
            let aggregates = [min(col("a")), max(col("a")), sum(col("a"))];
            (scan.rows(&engine).unwrap(), scan.aggregate(&aggregates, &engine).unwrap())
        };
        assert_eq!(of(&packed), of(&plain), "{filter}");
    }
}
