use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::*;
use crate::encoding::host::HostStatistics;
use crate::lanes::simd::tests::at_each_level;
use crate::{CompressedColumn, Options, compress_array};

fn options() -> Options {
    Options::default().with_encodings([Encoding::Delta, Encoding::Ffor, Encoding::Constant])
}

/// Compresses to `encoding`, and compares all values and some single ones.
#[track_caller]
fn check(array: ArrayRef, encoding: &str) -> CompressedColumn {
    let column = compress_array(&array, &options()).unwrap();
    assert_eq!(column.encoding().to_string(), encoding, "{}", column.explain());
    assert_eq!(&column.decompress().unwrap(), &array);
    for row in (0..array.len()).step_by(97).chain([array.len() - 1]) {
        assert_eq!(&column.value(row).unwrap().into_inner(), &array.slice(row, 1));
    }
    column
}

fn walk<T: Words>(seed: u64, step: u64) -> [T; VECTOR] {
    let mut state = seed;
    let mut value = T::truncate(seed);
    std::array::from_fn(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        value = value.wrapping_add(T::truncate((state >> 33) % step));
        value
    })
}

fn sums_of_differences_are_the_values<T: Words>() {
    at_each_level(|| {
        for values in [walk::<T>(1, 7), walk(2, u64::from(u32::MAX)), [T::MAX; VECTOR]] {
            let first = typical(&values, |_| true);
            let mut deltas = [T::ZERO; VECTOR];
            differences(&values, first, &mut deltas);
            for slot in 1..VECTOR {
                let at = lanes::index(slot % T::BITS, slot / T::BITS);
                assert_eq!(deltas[at], values[slot].wrapping_sub(values[slot - 1]));
            }
            let mut back = [T::ZERO; VECTOR];
            add_up(&mut deltas, values[0].wrapping_sub(first), &mut back);
            assert!(back == values, "{} bits", T::BITS);
        }
    });
}

#[test]
fn sums_of_differences_are_the_values_of_every_type() {
    sums_of_differences_are_the_values::<u8>();
    sums_of_differences_are_the_values::<u16>();
    sums_of_differences_are_the_values::<u32>();
    sums_of_differences_are_the_values::<u64>();
}

fn sums_are_selected_as_values_are<T: Words>() {
    let values = walk::<T>(3, 900);
    let mut deltas = [T::ZERO; VECTOR];
    differences(&values, T::truncate(5), &mut deltas);
    let start = values[0].wrapping_sub(T::truncate(5));
    let (one, other) = (values[77].min(values[700]), values[77].max(values[700]));
    for (low, high) in [(one, other), (T::ZERO, T::MAX), (one, one), (T::MAX, T::MAX)] {
        at_each_level(|| {
            let mut mask = [u64::MAX; VECTOR / 64];
            let starts = lane_starts(&deltas, start);
            select_sums(&deltas, &starts, low, high.wrapping_sub(low), &mut mask);
            let expected = (0..VECTOR).filter(|slot| low <= values[*slot] && values[*slot] <= high);
            assert!(mask::rows(&mask).eq(expected), "{low:?} to {high:?}");
        });
    }
}

#[test]
fn sums_of_every_type_are_selected_as_values_are() {
    sums_are_selected_as_values_are::<u8>();
    sums_are_selected_as_values_are::<u16>();
    sums_are_selected_as_values_are::<u32>();
    sums_are_selected_as_values_are::<u64>();
}

#[test]
fn even_steps_take_a_word_a_vector() {
    for len in [1026, 2048, 5000] {
        let steps = Int64Array::from_iter_values((0..len).map(|i| 1_000_000 - i * 977));
        let column = check(Arc::new(steps), "delta(constant)");
        let header = column.chunks()[0].header().len();
        assert_eq!(column.chunks()[0].body().len(), 64, "header of {header}");
    }
}

#[test]
fn values_of_every_type_wrap_around() {
    macro_rules! wraps {
        ($($array:ident $value:ty),*) => {$({
            let quarter = <$value>::MAX / 4;
            let values = (0..3000_u64).map(|i| {
                quarter.wrapping_mul(i as $value).wrapping_add((i * i % 3) as $value)
            });
            check(Arc::new($array::from_iter_values(values)), "delta(ffor)");
        })*};
    }
    wraps!(Int16Array i16, Int32Array i32, Int64Array i64);
    wraps!(UInt16Array u16, UInt32Array u32, UInt64Array u64);
    let bytes = (0..3000_u64).map(|i| (i * 31 + i * i % 3) as u8);
    check(Arc::new(UInt8Array::from_iter_values(bytes.clone())), "delta(ffor)");
    check(Arc::new(Int8Array::from_iter_values(bytes.map(|byte| byte as i8))), "delta(ffor)");
}

#[test]
fn steps_that_only_sampled_vectors_share_are_packed() {
    // Of 128 vectors every eighth is looked at.
    let steps = |row: i64| match row / 1024 % 8 {
        0 => row * 20,
        _ => row * 20 + row * row % 13,
    };
    let values = Int64Array::from_iter_values((0..128 * 1024).map(steps));
    check(Arc::new(values), "delta(ffor)");
}

#[test]
fn extremes_of_the_type_come_back() {
    let values = |i: i64| match i {
        1500 => i64::MIN,
        1501 => i64::MAX,
        1502 => 0,
        _ => i * 1_000_000_007,
    };
    check(Arc::new(Int64Array::from_iter_values((0..9000).map(values))), "delta(ffor)");
}

#[test]
fn nulls_anywhere_keep_their_neighbours() {
    let patterns: [fn(usize) -> bool; 7] = [
        |row| row > 0,
        |row| row >= 700,
        |row| row < 4000,
        |row| row / 1024 != 1,
        |row| row == 2100,
        |row| !row.is_multiple_of(3),
        |row| row != 4999,
    ];
    for is_valid in patterns {
        let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..5000).map(is_valid)));
        let values: Vec<i64> = (0..5000).map(|i| i * 1000 + i * i % 7).collect();
        let with = |garbage: i64| {
            let values = values.iter().enumerate();
            let values = values.map(|(row, value)| if is_valid(row) { *value } else { garbage });
            Arc::new(Int64Array::new(values.collect(), Some(nulls.clone()))) as ArrayRef
        };
        let column = compress_array(&with(i64::MIN), &options()).unwrap();
        assert_eq!(&column.decompress().unwrap(), &with(0));
        // What stands under nulls is not seen.
        let (_, storage) = column.to_arrow("");
        assert_eq!(storage, compress_array(&with(5), &options()).unwrap().to_arrow("").1);
    }
}

#[test]
fn nulls_do_not_widen_even_steps() {
    let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..5000).map(|row| row % 7 > 0)));
    let values: Vec<i64> = (0..5000).map(|i| i * 100_000 + i % 3).collect();
    let array = Int64Array::new(values.into(), Some(nulls));
    let column = check(Arc::new(array), "delta(ffor)");
    // Three bits a delta, and the bitmap.
    let body = column.chunks()[0].body().len();
    assert!(body <= 640 + 5 * (3 * 128 + 24) + 3 * 64, "{body} bytes");
}

#[test]
fn slots_that_nobody_reads_cost_nothing() {
    // One bit for each delta, whatever their sign and length of the last vector.
    for len in [1025, 1026, 1100, 2047] {
        for step in [1_i32, -1] {
            let values = (0..len).map(|i| step * (i * 1000 + i * i % 5 % 2));
            let column = compress_array(
                &(Arc::new(Int32Array::from_iter_values(values)) as ArrayRef),
                &options(),
            )
            .unwrap();
            let body = column.chunks()[0].body().len();
            assert!(body <= 64 + 2 * 128 * 2 + 64, "{len} values of step {step}: {body} bytes");
        }
    }
}

#[test]
fn gaps_are_exceptions_of_the_deltas() {
    let values = (0..9000).map(|i| i * 10 + i * i % 7 + i / 400 * 1_000_000_000);
    let array = Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
    let options = options();
    let patched = Options::default().with_encodings(Encoding::ALL.iter().copied());
    let len = |options| {
        let column = compress_array(&array, options).unwrap();
        assert_eq!(&column.decompress().unwrap(), &array);
        assert_eq!(&column.value(8999).unwrap().into_inner(), &array.slice(8999, 1));
        (column.encoding().to_string(), column.chunks()[0].body().len())
    };
    let (_, packed) = len(&options);
    let (encoding, patched) = len(&patched);
    assert_eq!(encoding, "delta(pfor)");
    assert!(patched * 4 < packed, "{patched} bytes of {packed}");
}

#[test]
fn nothing_nests_at_the_last_level() {
    let words: Vec<u64> = (0..5000).collect();
    let input = Input::new(crate::encoding::Physical::U64, u64::values(&words));
    let options = options();
    let mut context = Context::new(&options, None);
    assert!(Delta.plan(&HostStatistics::new(&input, None), &context).unwrap().is_some());
    context.levels = 0;
    assert!(Delta.plan(&HostStatistics::new(&input, None), &context).unwrap().is_none());
}
