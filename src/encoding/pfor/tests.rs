//! Which values become exceptions, and that all come back.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::*;
use crate::lanes::simd::tests::at_each_level;
use crate::{CompressedColumn, Options, compress_array};

/// Pseudo-random numbers.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |end| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 13) % end
    }
}

#[track_caller]
fn check(array: ArrayRef, encoding: &str) -> CompressedColumn {
    let options = Options::default().with_encodings([Encoding::Pfor, Encoding::Ffor]);
    let column = compress_array(&array, &options).unwrap();
    assert_eq!(column.encoding().to_string(), encoding, "{}", column.explain());
    assert_eq!(&column.decompress().unwrap(), &array);
    for row in (0..array.len()).step_by(17) {
        assert_eq!(&column.value(row).unwrap().into_inner(), &array.slice(row, 1));
    }
    column
}

/// One vector; its values come back from what is packed and patched.
#[track_caller]
fn patched<T: Words>(physical: crate::chunk::Physical, values: &[T]) -> Patched<T> {
    let input = Input::new(physical, T::values(values));
    let patched = patch(&input, values, 0);
    for (slot, value) in values.iter().enumerate() {
        let packed = patched.values[slot];
        assert!(patched.width == T::BITS || packed >> patched.width == T::ZERO);
        if patched.exceptions[slot / 64] >> (slot % 64) & 1 == 1 {
            assert_eq!(packed, T::ZERO);
        } else {
            assert_eq!(patched.base.wrapping_add(packed), *value);
        }
    }
    patched
}

const U64: crate::chunk::Physical = crate::chunk::Physical::U64;

#[test]
fn one_value_with_others_takes_no_bits() {
    for every in [5, 20, 100, 1000] {
        for value in [0, 1 << 20, u64::MAX] {
            let mut next = random(every);
            let values: Vec<u64> = (0..1024)
                .map(|_| if next(every) == 0 { next(u64::MAX) << 13 } else { value })
                .collect();
            let others = values.iter().filter(|other| **other != value).count();
            at_each_level(|| {
                let patched = patched(U64, &values);
                assert_eq!((patched.width, patched.count, patched.base), (0, others, value));
            });
        }
    }
}

#[test]
fn outliers_on_both_sides_are_exceptions() {
    let mut next = random(3);
    let values: Vec<u64> = (0..1024)
        .map(|i| match i % 64 {
            7 => next(1 << 10),
            9 => u64::MAX - next(1 << 50),
            _ => (1 << 40) + next(1 << 8),
        })
        .collect();
    let patched = patched(U64, &values);
    assert_eq!((patched.width, patched.count), (8, 32));
}

#[test]
fn what_exceptions_do_not_shrink_has_none() {
    let mut next = random(5);
    for width in [1, 3, 10, 40, 63] {
        let values: Vec<u64> = (0..1024).map(|_| next(1 << width)).collect();
        assert_eq!(patched(U64, &values).count, 0, "width {width}");
    }
}

#[test]
fn sizes_never_exceed_those_without_exceptions() {
    fn check<T: Words>(physical: crate::chunk::Physical) {
        for seed in 0..200 {
            let mut next = random(seed);
            let (len, bits) = (1 + next(1024), 1 + next(T::BITS as u64));
            let every = 1 + next(70);
            let value = |_| match next(every) {
                0 => T::truncate(next(u64::MAX)),
                _ => T::truncate(next(1 << bits.min(40)) + 77),
            };
            let values: Vec<T> = (0..len).map(value).collect();
            let input = Input::new(physical, T::values(&values));
            let all = ffor::width(ffor::vector_bounds(&input, &values, 0).unwrap());
            let patched = patched(physical, &values);
            let bits = patched.width * VECTOR + patched.count * price::<T>();
            assert!(bits <= all * VECTOR);
        }
    }
    use crate::chunk::Physical::*;
    check::<u8>(U8);
    check::<u8>(I8);
    check::<u16>(I16);
    check::<u32>(U32);
    check::<u64>(I64);
    check::<u64>(U64);
}

#[test]
fn extremes_of_every_type_are_exceptions() {
    macro_rules! extremes {
        ($($array:ident $value:ty),*) => {$({
            let values = (0..3000_u32).map(|i| match i % 250 {
                100 => <$value>::MIN,
                200 => <$value>::MAX,
                _ => 50 + (i % 4) as $value,
            });
            check(Arc::new($array::from_iter_values(values)), "pfor");
        })*};
    }
    extremes!(Int8Array i8, Int16Array i16, Int32Array i32, Int64Array i64);
    extremes!(UInt8Array u8, UInt16Array u16, UInt32Array u32, UInt64Array u64);
}

#[test]
fn nulls_are_no_exceptions_whatever_stood_there() {
    let patterns: [fn(usize) -> bool; 6] = [
        |row| row > 0,
        |row| row < 2000,
        |row| row / 1024 != 1,
        |row| row.is_multiple_of(3),
        |row| row % 1024 == 5,
        |row| row != 2999,
    ];
    for is_valid in patterns {
        let nulls = NullBuffer::new(BooleanBuffer::from_iter((0..3000).map(is_valid)));
        let with = |garbage: i32| {
            let values = (0..3000).map(|row| match row {
                row if !is_valid(row as usize) => garbage,
                row if row % 99 == 0 => row << 18,
                row => row % 5,
            });
            Arc::new(Int32Array::new(values.collect(), Some(nulls.clone()))) as ArrayRef
        };
        let options = Options::default().with_encodings([Encoding::Pfor, Encoding::Ffor]);
        let column = compress_array(&with(i32::MIN), &options).unwrap();
        assert_eq!(&column.decompress().unwrap(), &with(0));
        let (_, storage) = column.to_arrow("");
        assert_eq!(storage, compress_array(&with(1 << 30), &options).unwrap().to_arrow("").1);
    }
}

#[test]
fn without_exceptions_it_is_ffor() {
    check(Arc::new(Int64Array::from_iter_values((0..3000).map(|i| i % 100))), "ffor");
}
