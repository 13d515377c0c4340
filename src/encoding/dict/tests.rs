use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;

use super::{Distinct, SampledValues};
use crate::encoding::{BytesValues, Input, Physical, Values, Words};
use crate::scan::{Scan, col, max, min, sum};
use crate::{CompressedColumn, Encoding, Engine, Options, compress, compress_array};

fn every() -> Options {
    Options::default().with_encodings(Encoding::ALL.iter().copied())
}

/// Compresses, and compares all values and some single ones.
#[track_caller]
fn check(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert_eq!(&column.decompress().unwrap(), array, "{}", column.explain());
    for row in (0..array.len()).step_by(101).chain([array.len() - 1]) {
        let value = column.value(row).unwrap().into_inner();
        assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row}");
    }
    column
}

/// 63-bit numbers that ascend, each twice.
fn twice(rows: usize) -> Vec<i64> {
    let mut state = 5_u64;
    let mut numbers: Vec<i64> = (0..rows.div_ceil(2))
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 1) as i64
        })
        .collect();
    numbers.sort_unstable();
    (0..rows).map(|row| numbers[row / 2]).collect()
}

fn null_at(rows: usize, is_null: impl Fn(usize) -> bool) -> NullBuffer {
    (0..rows).map(|row| !is_null(row)).collect()
}

/// Codes of rows in order are deltas, which run on under nulls.
#[test]
fn nulls_have_codes_of_values() {
    let rows = 8192;
    let nulls: [&dyn Fn(usize) -> bool; 5] =
        [&|row| row == 0, &|row| row < 1030, &|row| row >= 8000, &|row| row % 3 == 1, &|row| {
            (2048..4096).contains(&row)
        }];
    for (case, is_null) in nulls.into_iter().enumerate() {
        let numbers = twice(rows);
        let nulls = Some(null_at(rows, is_null));
        let array: ArrayRef = Arc::new(Int64Array::new(numbers.clone().into(), nulls.clone()));
        // Runs of two would be smaller still.
        let column = check(&array, &every().without(Encoding::Rle));
        // Elsewhere there are too few that come twice.
        let is_delta = column.encoding().to_string().starts_with("dict(delta(");
        assert!(is_delta || case == 3 || case == 4, "{}", column.encoding().to_string());
        let options =
            Options::default().with_encodings([Encoding::Dict, Encoding::Delta, Encoding::Ffor]);
        check(&array, &options);
        let wide = numbers.iter().map(|number| i128::from(*number) << 40);
        let wide = Decimal128Array::new(wide.collect(), nulls).with_precision_and_scale(38, 2);
        check(&(Arc::new(wide.unwrap()) as ArrayRef), &every());
    }
}

#[test]
fn values_that_compare_equal_are_not_one() {
    let nans = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)];
    let values = [0.0, -0.0, nans[0], nans[1], nans[2], f64::INFINITY, 1e-310];
    let values: Vec<f64> = (0..3000).map(|row| values[row * row % 7]).collect();
    let array = Float64Array::from(values.clone());
    let options = Options::default().with_encodings([Encoding::Dict, Encoding::Ffor]);
    let column = compress_array(&(Arc::new(array) as ArrayRef), &options).unwrap();
    assert!(
        column.encoding().to_string().starts_with("dict("),
        "{}",
        column.encoding().to_string()
    );
    let back = column.decompress().unwrap();
    let back = back.as_any().downcast_ref::<Float64Array>().unwrap();
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(back.values()), bits(&values));
}

#[test]
fn strings_of_every_kind_of_null() {
    let words = ["", "a", "pear", "seventeen letters", "pears"];
    for nulls in [0, 1, 2] {
        let value = |row: usize| match nulls {
            0 => Some(words[row * row % 5]),
            1 => (row % 4 != 1).then(|| words[1 + row * row % 4]),
            _ => (row > 1500).then(|| words[1 + row % 3]),
        };
        let array: ArrayRef = Arc::new(StringArray::from_iter((0..2600).map(value)));
        let column = check(&array, &every());
        assert!(
            column.encoding().to_string().starts_with("dict("),
            "{}",
            column.encoding().to_string()
        );
    }
}

#[test]
fn compressing_twice_gives_the_same_bytes() {
    let texts = (0..5000).map(|row| format!("text {}", row * row % 301));
    let batch = RecordBatch::try_from_iter([
        ("s", Arc::new(StringArray::from_iter_values(texts)) as ArrayRef),
        ("n", Arc::new(Int64Array::from(twice(5000))) as ArrayRef),
    ])
    .unwrap();
    assert_eq!(compress(&batch, &every()).unwrap(), compress(&batch, &every()).unwrap());
}

/// A scan decodes vector by vector.
#[test]
fn large_dictionaries_are_scanned() {
    let rows = 40_000;
    let numbers = twice(rows);
    let texts: Vec<String> = (0..rows).map(|row| format!("key {:05}", row / 2)).collect();
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from(numbers.clone())) as ArrayRef),
        ("s", Arc::new(StringArray::from_iter_values(&texts)) as ArrayRef),
    ])
    .unwrap();
    let options = Options::default().with_encodings([Encoding::Dict, Encoding::Ffor]);
    let packed = compress(&batch, &options).unwrap();
    for column in crate::columns(&packed).unwrap() {
        assert!(
            column.encoding().to_string().starts_with("dict("),
            "{}",
            column.encoding().to_string()
        );
    }
    let (low, high) = (numbers[9_001], numbers[33_000]);
    let kept: Vec<usize> =
        (0..rows).filter(|row| (low..=high).contains(&numbers[*row]) && row / 2 % 3 != 0).collect();
    let keys: Vec<String> = (0..rows / 2).step_by(3).map(|key| format!("key {key:05}")).collect();
    let filter = col("n").between(low, high).and(!col("s").in_list(keys));
    let scan = Scan::new(&packed).filter(filter);
    let found = scan.rows(&Engine::cpu()).unwrap();
    assert_eq!(found.values(), kept.iter().map(|row| *row as u64).collect::<Vec<_>>().as_slice());
    let found = scan
        .aggregate(&[min(col("s")), max(col("s")), sum(col("n") % 1000)], &Engine::cpu())
        .unwrap();
    let of = |column: usize| found.column(column).clone();
    assert_eq!(of(0).as_ref(), &StringArray::from(vec![texts[kept[0]].as_str()]));
    assert_eq!(of(1).as_ref(), &StringArray::from(vec![texts[*kept.last().unwrap()].as_str()]));
    let total: i64 = kept.iter().map(|row| numbers[*row] % 1000).sum();
    assert_eq!(of(2).as_ref(), &Int64Array::from(vec![total]));
}

/// Values ascend, whether they are found by hashes or by their place in a narrow range.
#[test]
fn codes_ascend_with_values_of_any_range() {
    let mut some = [0xf0f0_f0f0_f0f0_f0f1; 48];
    // Bits past the end are zero.
    some[46] &= (1 << (3000 - 46 * 64)) - 1;
    some[47] = 0;
    for step in [1_i64, -1, 7, 1 << 12, 1 << 40] {
        for valid in [None, Some(some)] {
            let words: Vec<u64> =
                (0..3000).map(|row| ((row * row % 101 - 50) * step) as u64).collect();
            let valid = valid.as_ref().map(<[u64; 48]>::as_slice);
            let input = Input { valid, ..Input::new(Physical::I64, u64::values(&words)) };
            let found = Distinct::find(&input, 3000).unwrap();
            let values: Vec<i64> =
                found.rows.iter().map(|row| words[*row as usize] as i64).collect();
            assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "steps of {step}");
            for row in 0..3000 {
                if input.is_valid(row) {
                    assert_eq!(values[found.codes[row] as usize], words[row] as i64);
                } else {
                    let start = row / 1024 * 1024;
                    let before = (start..row).rev().find(|row| input.is_valid(*row));
                    let first = || (start..3000).find(|row| input.is_valid(*row)).unwrap();
                    assert_eq!(found.codes[row], found.codes[before.unwrap_or_else(first)]);
                }
            }
            assert!(Distinct::find(&input, values.len()).is_some());
            assert!(Distinct::find(&input, values.len() - 1).is_none());
        }
    }
}

/// The range of a type is no number of values.
#[test]
fn least_and_greatest_values_have_codes() {
    for physical in [Physical::U64, Physical::I64] {
        let words: Vec<u64> = (0..2000).map(|row| [0, u64::MAX, 1 << 63, 5][row % 4]).collect();
        let found = Distinct::find(&Input::new(physical, u64::values(&words)), 4).unwrap();
        for (code, word) in found.codes.iter().zip(&words) {
            assert_eq!(words[found.rows[*code as usize] as usize], *word);
        }
    }
}

/// Counts are a few per cent below the truth, and the same everywhere.
#[test]
fn counts_are_close() {
    let count = |input: &Input<'_>| Distinct::count(input, 0..16).unwrap();
    for distinct in [1_u64, 2, 300, 5000, 12_000] {
        for step in [1_u64, 1 << 13, 1 << 32, 1 << 50, 0x1234_5678_9abc_def1] {
            let words: Vec<u64> =
                (0..16 * 1024).map(|row| (row * 7 % distinct).wrapping_mul(step)).collect();
            let truth = words.iter().collect::<HashSet<_>>().len();
            let found = count(&Input::new(Physical::U64, u64::values(&words))).distinct;
            assert!((truth * 9 / 10..=truth).contains(&found), "{found} of {truth}, {step}");
        }
        let texts: Vec<String> =
            (0..16 * 1024).map(|row| format!("key {:09}", row * 7 % distinct)).collect();
        let offsets: Vec<usize> = (0..=texts.len()).map(|row| row * 13).collect();
        let data = texts.concat();
        let values = BytesValues { offsets: &offsets, data: data.as_bytes() };
        let found = count(&Input::new(Physical::Bytes, Values::Bytes(values))).distinct as u64;
        assert!((distinct * 9 / 10..=distinct).contains(&found), "{found} of {distinct}");
    }
    let words: Vec<u64> = (0..16 * 1024).map(|row| row * row).collect();
    assert!(!count(&Input::new(Physical::U64, u64::values(&words))).repeats());
    let one = SampledValues { values: 16 * 1024, distinct: 1, of_vectors: 16, vectors: 16 };
    assert_eq!(count(&Input::new(Physical::U64, u64::values(&[3; 16 * 1024]))), one);
    let words: Vec<u64> = (0..16 * 1024).map(|row| row / 1024 * 3 + row % 3).collect();
    let three = SampledValues { values: 16 * 1024, distinct: 48, of_vectors: 48, vectors: 16 };
    assert_eq!(count(&Input::new(Physical::U64, u64::values(&words))), three);
}
