//! Filters whose literals are any text: as numbers, dates and times, decimals and patterns of LIKE.
//!
//! ```text
//! byte 0 type of the column | 1 kind of literal | the text
//! ```
//!
//! A literal that one comparison refuses all refuse. `<` and `>=` keep each valid row once, `=` keeps the rows
//! between `<` and `<=`, and LIKE keeps what Arrow's kernel keeps.
#![no_main]

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, TimeUnit};
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{Engine, Error, Options, compress};
use libfuzzer_sys::fuzz_target;

/// 500 rows of a type, from its least to its greatest values, with nulls.
fn column(kind: u8) -> ArrayRef {
    let value = |row: i64| match row % 5 {
        0 => None,
        1 => Some(row - 250),
        2 => Some(row * 86_400_000_000),
        3 => Some(i64::MIN.wrapping_add(row * row)),
        _ => Some(row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)),
    };
    let numbers = Int64Array::from_iter((0..500).map(value));
    let words: ArrayRef = Arc::new(numbers.clone());
    let of_type = |data_type: DataType| {
        let data = words.to_data().into_builder().data_type(data_type).build();
        make_array(data.expect("words of 64 bits"))
    };
    match kind % 10 {
        0 => words,
        1 => of_type(DataType::UInt64),
        2 => Arc::new(Float64Array::from_iter(
            numbers.iter().map(|word| word.map(|word| word as f64 / 7.0)),
        )),
        3 => Arc::new(Date32Array::from_iter(
            numbers.iter().map(|word| word.map(|word| word as i32)),
        )),
        4 => of_type(DataType::Date64),
        5 => of_type(DataType::Timestamp(TimeUnit::Microsecond, Some("+02:30".into()))),
        6 => of_type(DataType::Timestamp(TimeUnit::Second, None)),
        7 => {
            let decimals = numbers.iter().map(|word| word.map(|word| i128::from(word) * 10_007));
            let decimals = Decimal128Array::from_iter(decimals);
            Arc::new(decimals.with_precision_and_scale(38, 9).expect("a scale that there may be"))
        }
        8 => Arc::new(StringArray::from_iter(
            numbers.iter().map(|word| word.map(|word| format!("%_{word}\\"))),
        )),
        _ => {
            Arc::new(Int16Array::from_iter(numbers.iter().map(|word| word.map(|word| word as i16))))
        }
    }
}

fn literal(kind: u8, bytes: &[u8]) -> Option<Literal> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(match kind % 4 {
        0 => text.into(),
        1 => Literal::decimal(text.parse().ok()?, (kind / 4) as i8),
        2 => text.parse::<f64>().ok()?.into(),
        _ => bytes.into(),
    })
}

fuzz_target!(|input: &[u8]| {
    let Some(([kind, of_literal], bytes)) = input.split_first_chunk::<2>() else { return };
    let Some(literal) = literal(*of_literal, bytes) else { return };
    let values = column(*kind);
    let batch =
        RecordBatch::try_from_iter_with_nullable([("c", values.clone(), true)]).expect("a column");
    let packed = compress(&batch, &Options::default()).expect("everything can be compressed");
    let count = |filter: Expr| Scan::new(&packed).filter(filter).count(&Engine::cpu());
    let c = || col("c");
    let counts: [Result<usize, Error>; 5] = [
        count(c().lt(literal.clone())),
        count(c().lt_eq(literal.clone())),
        count(c().eq(literal.clone())),
        count(c().gt_eq(literal.clone())),
        count(c().in_list([literal.clone()])),
    ];
    match counts {
        [Ok(less), Ok(not_greater), Ok(equal), Ok(not_less), Ok(in_list)] => {
            assert_eq!(less + not_less, values.len() - values.null_count());
            assert_eq!(less + equal, not_greater);
            assert_eq!(in_list, equal);
        }
        counts => assert!(counts.iter().all(Result::is_err), "{counts:?}"),
    }
    if let (Some(texts), Literal::Text(pattern)) =
        (values.as_any().downcast_ref::<StringArray>(), &literal)
    {
        let pattern = Scalar::new(StringArray::from(vec![pattern.as_str()]));
        let (found, expected) =
            (count(c().like(literal.clone())), arrow_string::like::like(texts, &pattern));
        if let (Ok(found), Ok(expected)) = (&found, &expected) {
            assert_eq!(*found, expected.true_count());
        }
    }
});
