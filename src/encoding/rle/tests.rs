use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;

use super::*;
use crate::encoding::host::HostStatistics;
use crate::lanes::simd::tests::at_each_level;
use crate::scan::{Expr, Scan, col, max, min, sum};
use crate::{CompressedColumn, Engine, Options, compress, compress_array};

/// Lengths of runs: of ones, of some, and around what is filled at once.
const LENGTHS: [fn(u64) -> u64; 4] =
    [|_| 1, |random| 1 + random % 5, |random| 1 + random % 70, |random| 1 + random % 900];

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

/// `rows` words in runs of such lengths.
fn runs_of(rows: usize, length: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut state = rows as u64;
    let mut words = Vec::new();
    while words.len() < rows {
        let word = random(&mut state).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let len = length(random(&mut state)) as usize;
        words.resize((words.len() + len).min(rows), word);
    }
    words
}

fn few() -> Options {
    Options::default().with_encodings([Encoding::Rle, Encoding::Ffor, Encoding::Constant])
}

fn every() -> Options {
    Options::default().with_encodings(Encoding::ALL.iter().copied())
}

/// Compresses, and compares all values and single ones.
#[track_caller]
fn check(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert_eq!(&column.decompress().unwrap(), array, "{}", column.explain());
    for row in (0..array.len()).step_by(41).chain([1023, 1024, array.len() - 1]) {
        if row < array.len() {
            let value = column.value(row).unwrap().into_inner();
            assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row}");
        }
    }
    column
}

fn body(column: &CompressedColumn) -> usize {
    column.chunks()[0].body().len()
}

fn borders_are_where_values_change<T: Words>() {
    at_each_level(|| {
        for length in LENGTHS {
            let words = runs_of(VECTOR, length);
            let values: [T; VECTOR] = std::array::from_fn(|slot| T::truncate(words[slot]));
            let found = borders(&values);
            for slot in 0..VECTOR {
                let begins = slot == 0 || values[slot] != values[slot - 1];
                assert_eq!(found[slot / 64] >> (slot % 64) & 1 == 1, begins, "slot {slot}");
            }
        }
    });
}

#[test]
fn runs_begin_where_values_of_every_type_change() {
    borders_are_where_values_change::<u8>();
    borders_are_where_values_change::<u16>();
    borders_are_where_values_change::<u32>();
    borders_are_where_values_change::<u64>();
}

fn fills_every_slot<T: Words>() {
    for rows in [1, 2, 7, 31, 32, 33, 1000, VECTOR] {
        for length in LENGTHS {
            let words = runs_of(rows, length);
            let starts: Vec<u16> = (0..rows)
                .filter(|row| *row == 0 || words[*row] != words[row - 1])
                .map(|row| row as u16)
                .collect();
            let ends = starts[1..].iter().copied().chain([rows as u16]);
            let lengths: Vec<u16> =
                starts.iter().zip(ends).map(|(start, end)| end - start).collect();
            let value = |row: usize| T::truncate(words[row]);
            let values: Vec<T> = starts.iter().map(|start| value(usize::from(*start))).collect();
            let mut out = vec![T::ZERO; rows];
            fill(&lengths, &values, &mut out);
            assert!((0..rows).all(|row| out[row] == value(row)), "{rows} of {} bits", T::BITS);
        }
    }
}

#[test]
fn runs_fill_their_slots_and_no_others() {
    fills_every_slot::<u8>();
    fills_every_slot::<u16>();
    fills_every_slot::<u32>();
    fills_every_slot::<u64>();
}

#[test]
fn runs_of_every_type_and_length_come_back() {
    for rows in [1023, 1024, 1025, 2047, 2048, 2049, 5000] {
        let words = runs_of(rows, |random| 1 + random % 70);
        macro_rules! arrays {
            ($($array:ident $value:ty),*) => {
                [$(Arc::new($array::from_iter_values(
                    words.iter().map(|word| *word as $value)
                )) as ArrayRef),*]
            };
        }
        let arrays = arrays!(
            Int8Array i8, Int16Array i16, Int32Array i32, Int64Array i64, UInt8Array u8,
            UInt16Array u16, UInt32Array u32, UInt64Array u64
        );
        for array in arrays {
            let column = check(&array, &few());
            assert!(column.encoding().to_string().starts_with("rle("), "{}", column.explain());
            check(&array, &every());
        }
    }
}

#[test]
fn floats_are_equal_by_their_bits() {
    let nan = |payload: u64| f64::from_bits(0x7ff0_0000_0000_0000 | payload);
    let values = [0.0, -0.0, nan(1), nan(2), -nan(1), f64::NAN, f64::INFINITY, 1e-310, 0.1];
    let value = |row: usize| values[row / 50 * 7 % 9];
    let doubles = Float64Array::from_iter_values((0..4000).map(value));
    let singles = Float32Array::from_iter_values((0..4000).map(|row| match value(row) {
        value if value.is_nan() => f32::from_bits(0x7f80_0000 | value.to_bits() as u32 & 0xff | 1),
        value => value as f32,
    }));
    for array in [Arc::new(doubles) as ArrayRef, Arc::new(singles)] {
        let column = compress_array(&array, &few()).unwrap();
        assert_eq!(column.encoding().to_string(), "rle(plain, plain)");
        // Arrow's equality of arrays compares floats by their bits.
        assert_eq!(&column.decompress().unwrap(), &array);
        check(&array, &every());
    }
}

#[test]
fn a_run_for_each_vector_takes_lengths_of_few_bytes() {
    let values = (0..8192).map(|row| (row / 1024) * 1_000_003 % 7 * (1 << 40));
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let options = few().without(Encoding::Ffor);
    let column = check(&array, &options);
    assert_eq!(column.encoding().to_string(), "rle(plain, constant)");
    assert_eq!(body(&column), 128, "eight values, and eight numbers of runs");
}

#[test]
fn values_that_never_repeat_are_no_runs() {
    let array: ArrayRef = Arc::new(UInt64Array::from(runs_of(5000, |_| 1)));
    assert_eq!(check(&array, &few()).encoding().to_string(), "plain");
    assert!(!check(&array, &every()).encoding().to_string().contains("rle"));
    // A few that do save less than bits take if values are short.
    let words = runs_of(5000, |random| 1 + random % 9 / 8);
    let bytes = UInt8Array::from_iter_values(words.iter().map(|word| *word as u8));
    assert_eq!(check(&(Arc::new(bytes) as ArrayRef), &few()).encoding().to_string(), "plain");
    let array: ArrayRef = Arc::new(UInt64Array::from(words));
    assert_eq!(check(&array, &few()).encoding().to_string(), "rle(plain)");
    let array: ArrayRef = Arc::new(UInt64Array::from(runs_of(5000, |random| 1 + random % 3)));
    assert_eq!(check(&array, &few()).encoding().to_string(), "rle(plain)");
}

/// Nulls take what stands before them, and whole vectors the run before.
#[test]
fn nulls_make_no_runs() {
    let rows = 5000;
    let patterns: [fn(usize) -> bool; 8] = [
        |row| row == 0,
        |row| row < 1500,
        |row| row < 3000,
        |row| row >= 4100,
        |row| row / 1024 == 2,
        |row| row % 3 == 1,
        |row| row % 100 > 0,
        |row| row != 2100 && row != 2600,
    ];
    let words = runs_of(rows, |random| 20 + random % 70);
    let found = |array: &ArrayRef| {
        let column = check(array, &few().without(Encoding::Ffor));
        let encoding = column.encoding().to_string();
        assert!(encoding.starts_with("rle("), "{encoding} with {} nulls", array.null_count());
        (body(&column), column.to_arrow("").1)
    };
    let (without, _) = found(&(Arc::new(UInt64Array::from(words.clone())) as ArrayRef));
    for (case, is_null) in patterns.into_iter().enumerate() {
        let nulls: NullBuffer = (0..rows).map(|row| !is_null(row)).collect();
        let with = |garbage: fn(usize) -> u64| {
            let words = words.iter().enumerate();
            let words = words.map(|(row, word)| if is_null(row) { garbage(row) } else { *word });
            Arc::new(UInt64Array::new(words.collect(), Some(nulls.clone()))) as ArrayRef
        };
        let (bytes, storage) = found(&with(|row| row as u64));
        assert!(bytes <= without + 640, "case {case}: {bytes} bytes, {without} without nulls");
        // What stands under nulls is not seen.
        assert_eq!(storage, found(&with(|_| u64::MAX)).1);
        check(&with(|_| 0), &every());
    }
}

#[test]
fn only_nulls_are_runs_of_zero() {
    let array: ArrayRef = Arc::new(Int64Array::new_null(3000));
    let column = check(&array, &Options::default().with_encodings([Encoding::Rle]));
    assert_eq!(column.encoding().to_string(), "rle(plain, plain)");
    let body = column.chunks()[0].body();
    assert_eq!(body[..12], [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0], "a run for each vector");
    let lengths = body.len() - 64;
    assert!(body[64..lengths].iter().all(|byte| *byte == 0), "no row is valid, values are 0");
    assert_eq!(body[lengths..][..6], [0, 4, 0, 4, 184, 3], "1,024, 1,024 and 952 rows");
}

#[test]
fn every_row_is_found_alone() {
    for length in LENGTHS {
        let words = runs_of(2500, length);
        let values = words.iter().map(|word| *word as i32);
        let array: ArrayRef = Arc::new(Int32Array::from_iter_values(values));
        let column = compress_array(&array, &few()).unwrap();
        for row in 0..array.len() {
            let value = column.value(row).unwrap().into_inner();
            assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row}");
        }
    }
}

/// Columns of runs, each in another nest of encodings.
fn nested() -> RecordBatch {
    let rows = 40_000;
    let words = runs_of(rows, |random| 1 + random % 60);
    let few = |row: usize| words[row] % 50;
    let texts = (0..rows).map(|row| format!("text {}", few(row)));
    let nulls: NullBuffer = (0..rows).map(|row| !(row / 40).is_multiple_of(9)).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("long", Arc::new(Int64Array::from_iter_values(words.iter().map(|word| *word as i64)))),
        ("few", {
            let spread = (0..rows).map(|row| (few(row) as i64).wrapping_mul(0x1234_5678_9abc_def1));
            Arc::new(Int64Array::new(spread.collect(), Some(nulls)))
        }),
        (
            "price",
            Arc::new(Float64Array::from_iter_values((0..rows).map(|row| few(row) as f64 / 4.0))),
        ),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
        ("key", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64 / 33)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

#[test]
fn scans_test_runs() {
    let batch = nested();
    let packed = compress(&batch, &every()).unwrap();
    let encodings: Vec<String> = crate::columns(&packed)
        .unwrap()
        .iter()
        .map(|column| column.encoding().to_string())
        .collect();
    assert!(encodings.iter().all(|encoding| encoding.contains("rle(")), "{encodings:?}");
    assert!(encodings[1].starts_with("rle(dict("), "{encodings:?}");
    assert!(encodings[2].starts_with("dict(rle("), "{encodings:?}");
    let plain = Options::default().with_encodings([Encoding::Plain]);
    let plain = compress(&batch, &plain).unwrap();
    let engine = Engine::cpu();
    let filters: [Expr; 7] = [
        col("long").gt(1_i64 << 60),
        col("few").lt(0).and(col("key").between(100, 1100)),
        col("price").between(2.0, 8.5).or(col("few").is_null()),
        !col("price").in_list([0.25, 1.0, 7.75]),
        col("text").starts_with("text 1").and(col("long").lt(0)),
        col("key").eq(500).or(col("key").eq(777)),
        (col("key") * 3).gt(col("few") + 5),
    ];
    for filter in filters {
        let of = |packed: &RecordBatch| {
            let scan = Scan::new(packed).filter(filter.clone());
            let aggregates =
                [min(col("few")), max(col("text")), sum(col("price")), sum(col("key"))];
            (scan.rows(&engine).unwrap(), scan.aggregate(&aggregates, &engine).unwrap())
        };
        assert_eq!(of(&packed), of(&plain), "{filter}");
    }
}

/// Bits cost one a value, lengths a few a run.
#[test]
fn runs_of_few_values_are_marked_by_bits() {
    type Length = fn(u64) -> u64;
    let trees: [(Length, &str); 5] = [
        (|_| 2, "rle(plain, constant)"),
        (|random| 1 + random % 3, "rle(plain)"),
        (|random| 1 + random % 5, "rle(plain)"),
        (|random| 1 + random % 30, "rle(plain, ffor)"),
        (|random| 1 + random % 900, "rle(plain, plain)"),
    ];
    for (length, tree) in trees {
        let array: ArrayRef = Arc::new(UInt16Array::from_iter_values(
            runs_of(16_384, length).into_iter().map(|word| word as u16),
        ));
        assert_eq!(check(&array, &few()).encoding().to_string(), tree);
    }
    // The last vector has few rows.
    for rows in [1025, 1031, 1032, 1033, 2047] {
        let array: ArrayRef = Arc::new(UInt64Array::from(runs_of(rows, |random| 1 + random % 3)));
        assert_eq!(check(&array, &few()).encoding().to_string(), "rle(plain)", "{rows} rows");
    }
}

#[test]
fn runs_nest_in_what_may_nest_and_not_in_runs() {
    let words = runs_of(5000, |random| 1 + random % 60);
    let input = Input::new(Physical::U64, u64::values(&words));
    let options = few();
    let mut context = Context::new(&options, None);
    context.limit = 40_000;
    assert!(Rle.plan(&HostStatistics::new(&input, None), &context).unwrap().is_some());
    assert!(Rle.plan(&HostStatistics::new(&input, None), &context.below()).unwrap().is_some());
    assert!(
        Rle.plan(&HostStatistics::new(&input, None), &context.below().below()).unwrap().is_none()
    );
    assert!(Rle.plan(&HostStatistics::new(&input, None), &context.in_runs()).unwrap().is_none());
    assert!(
        Rle.plan(&HostStatistics::new(&input, None), &context.in_dictionary()).unwrap().is_some()
    );
}
