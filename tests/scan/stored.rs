//! Encodings that are tested as they are stored: bounds at, beside and between the values, at both
//! ends of the type, and lists short and long keep what Arrow's kernels keep.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_schema::DataType;
use half::f16;
use lanepack::scan::{Comparison, Expr, Literal, col};
use lanepack::{Encoding, Engine, Options, compress, compress_array};

use super::check;
use super::common::Rng;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn only(encodings: &[Encoding]) -> Options {
    Options::default().with_encodings(encodings.iter().copied())
}

/// A value of an array as a literal.
fn literal(array: &ArrayRef, row: usize) -> Expr {
    Expr::Literal(Literal::Arrow(array.slice(row, 1)))
}

/// Compares each column, without and with nulls, with each literal, with pairs of these and with
/// lists; `tree` is what the encoding begins with.
fn check_tree(tree: &str, array: &ArrayRef, literals: &ArrayRef, encodings: &[Encoding]) {
    let engine = Engine::cpu();
    let options = only(encodings).with_chunk_rows(4096);
    let found = compress_array(array, &only(encodings)).unwrap().encoding().to_string();
    let is_expected = tree.split('|').any(|tree| found.starts_with(tree));
    assert!(is_expected, "{found} of {}, {tree} expected", array.data_type());
    let nulls =
        BooleanBuffer::from_iter((0..array.len()).map(|row| row % 7 != 3 && row / 100 != 5));
    let data = array.to_data().into_builder().nulls(Some(NullBuffer::new(nulls))).build().unwrap();
    let mut rng = Rng(array.len() as u64);
    for array in [array.clone(), make_array(data)] {
        let batch = RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
        let packed = compress(&batch, &options).unwrap();
        let x = || col("x");
        for row in 0..literals.len() {
            for comparison in COMPARISONS {
                let filter = Expr::Compare(comparison, x().into(), literal(literals, row).into());
                check(&batch, &packed, &filter, &engine);
            }
            let other = rng.below(literals.len() as u64) as usize;
            let between = x().between(literal(literals, row), literal(literals, other));
            check(&batch, &packed, &between, &engine);
            check(&batch, &packed, &!between, &engine);
        }
        for count in [3, 12, 60, 150] {
            let some = (0..count).map(|_| rng.below(literals.len() as u64) as usize);
            let some: Vec<Expr> = some.map(|row| literal(literals, row)).collect();
            check(&batch, &packed, &x().in_list(some.clone()), &engine);
            check(&batch, &packed, &!x().in_list(some), &engine);
        }
    }
}

/// Words as an array of a type, cut to its bits.
fn words(data_type: &DataType, words: impl Iterator<Item = u64>) -> ArrayRef {
    macro_rules! of {
        ($($name:ident $array:ident $native:ty),*) => {
            match data_type {
                $(DataType::$name => {
                    Arc::new($array::from_iter_values(words.map(|word| word as $native)))
                })*
                DataType::Float16 => Arc::new(Float16Array::from_iter_values(
                    words.map(|word| f16::from_bits(word as u16)),
                )),
                other => panic!("{other}"),
            }
        };
    }
    of!(Int8 Int8Array i8, Int16 Int16Array i16, Int32 Int32Array i32, Int64 Int64Array i64,
        UInt8 UInt8Array u8, UInt16 UInt16Array u16, UInt32 UInt32Array u32, UInt64 UInt64Array u64)
}

/// Bounds that try a column of integers: some of its values and their neighbours, `step` apart and
/// in the middle of that, and the ends of the type.
fn bounds(data_type: &DataType, value: &dyn Fn(u64) -> u64, step: u64) -> ArrayRef {
    let of_values = [0, 1, 2, 1023, 1024, 2500, 4999].into_iter().flat_map(|row| {
        let value = value(row);
        [0, 1, u64::MAX, step / 2, step, step.wrapping_neg()].map(|by| value.wrapping_add(by))
    });
    let bits = data_type.primitive_width().unwrap() as u32 * 8;
    let ends = [0, 1, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) + 1];
    words(data_type, of_values.chain(ends))
}

fn check_integers(
    tree: &str,
    data_type: DataType,
    step: u64,
    encodings: &[Encoding],
    value: impl Fn(u64) -> u64,
) {
    let array = words(&data_type, (0..5000).map(&value));
    check_tree(tree, &array, &bounds(&data_type, &value, step), encodings);
}

use Encoding::*;

#[test]
fn multiples_are_tested_by_their_quotients() {
    let types = [DataType::Int32, DataType::UInt32, DataType::Int64, DataType::UInt64];
    for data_type in types {
        let of = |tree, encodings, value: fn(u64) -> u64| {
            check_integers(tree, data_type.clone(), 1000, encodings, value);
        };
        of("gcd(ffor)", &[Gcd, Ffor], |row| row * row % 500 * 1000 + 7);
        // Around zero, which divides nothing if there is no sign.
        of("gcd(ffor)|plain", &[Gcd, Ffor], |row| (row * row % 500 * 1000).wrapping_sub(250_007));
        of("gcd(pfor)", &[Gcd, Ffor, Pfor], |row| {
            (row * row % 500 + if row % 400 == 7 { 1 << 19 } else { 0 }) * 1000 + 7
        });
        of("gcd(delta(", &[Gcd, Delta, Ffor], |row| (row * 50 + row * row % 7) * 6000);
        of("gcd(plain)|gcd(constant)|plain", &[Gcd], |row| row % 2 * 1000);
        // From one end of the type to the other: unsigned, and signed from its least value on.
        of("gcd(ffor)", &[Gcd, Ffor], |row| (row % 4).wrapping_mul(0x4000_0000_4000_0000));
        of("gcd(ffor)|plain", &[Gcd, Ffor], |row| (row % 3).wrapping_mul(0x7fff_ffff_7fff_ffff));
    }
}

#[test]
fn differences_are_tested_as_they_are_summed() {
    for data_type in [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
    ] {
        let of = |tree, encodings, value: fn(u64) -> u64| {
            check_integers(tree, data_type.clone(), 3, encodings, value);
        };
        of("delta(ffor)", &[Delta, Ffor], |row| row * 3 + row * row % 2);
        of("delta(ffor)", &[Delta, Ffor], |row| (row * row % 2).wrapping_sub(row * 5));
        of("delta(constant)", &[Delta, Constant, Ffor], |row| row * 3);
        of("delta(pfor)", &[Delta, Ffor, Pfor], |row| {
            (row / 300).wrapping_mul(0x3333_3333_3333_3335).wrapping_add(row * 3 + row * row % 2)
        });
    }
}

#[test]
fn windows_and_their_exceptions_are_tested_apart() {
    for data_type in [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt16,
        DataType::UInt64,
        DataType::Float16,
    ] {
        check_integers("pfor", data_type.clone(), 2, &[Ffor, Pfor], |row| match row % 200 {
            7 => (u64::MAX / 3).wrapping_mul(row),
            9 => 1 << 63 | 1 << 31 | 1 << 15 | 1 << 7,
            _ => (row * row % 7).wrapping_sub(3),
        });
        check_integers("ffor", data_type, 2, &[Ffor], |row| row * row % 13 + 1);
    }
}

#[test]
fn runs_are_tested_once() {
    for data_type in [DataType::Int8, DataType::UInt16, DataType::Int32, DataType::UInt64] {
        let of = |tree, encodings, value: fn(u64) -> u64| {
            check_integers(tree, data_type.clone(), 1, encodings, value);
        };
        of("rle(", &[Rle, Ffor], |row| (row / 30 * (row / 30) % 97).wrapping_sub(48));
        of("rle(", &[Rle, Ffor], |row| row / 700 * 5);
        of("rle(plain)|rle(ffor)", &[Rle, Ffor], |row| {
            let run = row / 6 * 2 + u64::from(row % 6 > 0);
            (run * run % 251).wrapping_sub(100)
        });
    }
    check_integers("rle(gcd(", DataType::Int64, 1000, &[Rle, Gcd, Ffor], |row| {
        (row / 9 * (row / 9) % 700 * 1000).wrapping_sub(77_000)
    });
    check_integers("rle(delta(", DataType::UInt64, 7_000_000, &[Rle, Ffor, Delta], |row| {
        row / 9 * 7_000_000
    });
    check_integers("rle(dict(|dict(rle(", DataType::Int64, 1, &[Rle, Dict, Ffor], |row| {
        (row / 30 * 7919 % 40).wrapping_pow(7)
    });
}

#[test]
fn codes_of_dictionaries_are_tested_by_their_trees() {
    let of = |tree, encodings: &[Encoding], value: fn(u64) -> u64| {
        check_integers(tree, DataType::Int64, 9, encodings, value);
    };
    of("dict(ffor", &[Dict, Ffor], |row| (row * 7919 % 90).wrapping_pow(7).wrapping_neg());
    of("dict(pfor", &[Dict, Ffor, Pfor], |row| {
        let code = if row % 100 == 7 { row % 900 } else { row * row % 3 };
        code.wrapping_mul(0x1234_5678_9abc_def1)
    });
    of("dict(ffor, gcd(", &[Dict, Gcd, Ffor], |row| (row * 7919 % 900).pow(3) * 10_000);
    of("dict(delta(|dict(ffor", &[Dict, Delta, Ffor], |row| (row / 5 % 1000).wrapping_pow(6));
}

/// Floats by their total order, NaN of both signs and both zeros included.
#[test]
fn floats_in_runs_and_dictionaries_keep_their_order() {
    let special = [
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::from_bits(0xfff8_0000_0000_1234),
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN,
        f64::MAX,
        f64::MIN_POSITIVE,
        -5e-324,
        1.5,
        -1.5,
    ];
    let value = |row: u64| match row % 40 {
        at if at < 14 => special[at as usize],
        at => (at as f64 - 20.0) / 8.0,
    };
    let literals = special.into_iter().chain([-20.0 / 8.0, 1.0, 1.1, 2.375, 2.4]);
    let doubles: ArrayRef = Arc::new(Float64Array::from_iter_values(literals.clone()));
    let floats: ArrayRef =
        Arc::new(Float32Array::from_iter_values(literals.map(|value| value as f32)));
    type Value = fn(u64) -> u64;
    let trees: [(&str, &[Encoding], Value); 4] = [
        ("rle(", &[Rle, Ffor], |row| row / 25),
        ("rle(", &[Rle, Ffor, Alp], |row| row / 3 * 2 + u64::from(row % 3 > 0)),
        ("dict(", &[Dict, Ffor, Alp], |row| row * 7919),
        ("rle(dict|dict(rle|rle(", &[Rle, Dict, Ffor], |row| row / 25 * 7919),
    ];
    for (tree, encodings, of) in trees {
        let array = Float64Array::from_iter_values((0..5000).map(|row| value(of(row))));
        check_tree(tree, &(Arc::new(array) as ArrayRef), &doubles, encodings);
        let array = Float32Array::from_iter_values((0..5000).map(|row| value(of(row)) as f32));
        check_tree(tree, &(Arc::new(array) as ArrayRef), &floats, encodings);
    }
}

/// Decimals of one to four places that are integers divided by a power of ten.
#[test]
fn divided_floats_are_compared_with_bounds_beside_them() {
    for places in 1..=4_i32 {
        let value = |n: i32| n as f32 / 10_f32.powi(places);
        let bounds = [-20_000, -1, 0, 1, 777, 30_000].map(value).into_iter();
        let bounds = bounds.flat_map(|bound| [bound, bound.next_up(), bound.next_down()]);
        let bounds = bounds.chain([f32::NAN, f32::INFINITY, f32::MIN, -0.0]);
        let bounds: ArrayRef = Arc::new(Float32Array::from_iter_values(bounds));
        let values = (0..5000).map(|row| match row % 500 {
            499 => f32::NAN,
            _ => value(row * 7919 % 65_536 - 30_000),
        });
        let array: ArrayRef = Arc::new(Float32Array::from_iter_values(values));
        check_tree("alp", &array, &bounds, &[Alp]);
    }
}

/// One to four limbs, bounds that differ in any of them, and at both ends of each number of limbs.
#[test]
fn limbs_are_compared_from_the_highest_on() {
    let unit = |limb: u32| match limb {
        0 | 1 => i256::from_parts(1 << (64 * limb), 0),
        _ => i256::from_parts(0, 1 << (64 * (limb - 2))),
    };
    for limbs in 1..=4_u32 {
        let value = |row: i64| {
            let low = i256::from_i128(i128::from(row * row % 50) * 100);
            let high = unit(limbs - 1).wrapping_mul(i256::from_i128((row % 5 - 2).into()));
            if limbs == 1 { low.wrapping_add(high) } else { high.wrapping_add(low) }
        };
        let mut ends: Vec<i256> = [0, 1, 2, 3, 4, 77].map(value).to_vec();
        for limb in 0..limbs {
            ends.extend([unit(limb), unit(limb).wrapping_neg()]);
        }
        let near = [-100, -1, 0, 1, 50, 100].map(i256::from_i128);
        let ends: Vec<i256> =
            ends.iter().flat_map(|end| near.map(|by| end.wrapping_add(by))).collect();
        for encodings in [&[Limbs, Ffor][..], &[Limbs, Gcd, Ffor, Constant, Rle, Dict]] {
            let of = |values: Vec<i256>| -> ArrayRef {
                let array = Decimal256Array::from(values);
                Arc::new(array.with_precision_and_scale(76, 2).unwrap())
            };
            let array = of((0..3000).map(value).collect());
            check_tree("limbs(", &array, &of(ends.clone()), encodings);
            if limbs > 2 {
                continue;
            }
            let narrow = |array: ArrayRef| -> ArrayRef {
                let values = array.as_primitive::<types::Decimal256Type>().values().iter();
                let values: Vec<i128> = values.map(|value| value.as_i128()).collect();
                Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 2).unwrap())
            };
            let array = narrow(of((0..3000).map(value).collect()));
            check_tree("limbs(", &array, &narrow(of(ends.clone())), encodings);
        }
    }
}

#[test]
fn segments_of_words_are_read_once() {
    for data_type in [DataType::Int16, DataType::UInt32, DataType::Int64] {
        check_integers("lz", data_type, 5, &[Lz], |row| {
            (row % 300).wrapping_pow(7).wrapping_sub(99)
        });
    }
}
