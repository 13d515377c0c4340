//! Random batches and expressions over them.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use lanepack::scan::{Comparison, Expr, Literal, TextForm, col, lit};
use lanepack::{Encoding, Options};

use crate::common::{Nulls, Rng, Shape, array_of, char_boundary, encoded_types};

/// A name for a column of each type, in the order of the types.
fn types() -> Vec<(String, DataType)> {
    let types = encoded_types().into_iter().filter(|of| !matches!(of, DataType::Interval(_)));
    types.enumerate().map(|(index, of)| (format!("c{index}_"), of)).collect()
}

/// A batch of a column of every type; all have the same rows, of shapes and nulls of their own.
pub fn batch(rng: &mut Rng) -> RecordBatch {
    let rows = [0, 1, 31, 1000, 1024, 1025, 3000, 5000][rng.below(8) as usize] as usize;
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut fields = Vec::new();
    for (name, data_type) in types() {
        let shape = Shape::ALL[rng.below(4) as usize];
        let nulls = if rng.below(2) == 0 {
            Nulls::None
        } else {
            Nulls::ALL[rng.below(Nulls::ALL.len() as u64) as usize]
        };
        // Another generator for each batch: rows from somewhere in a longer array.
        let start = rng.below(500) as usize;
        let array = array_of(&data_type, rows + start, shape, nulls).slice(start, rows);
        columns.push(repeated(specials(array, rng), rng));
        fields.push(Field::new(name, data_type, true));
    }
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .unwrap()
}

/// How a batch is compressed: in chunks of different lengths, half of the time with all
/// encodings.
pub fn options(seed: u64) -> Options {
    let options = Options::default().with_chunk_rows([1024, 2048, 131_072][seed as usize % 3]);
    match seed % 2 {
        0 => options,
        _ => options.with_encodings(Encoding::ALL.iter().copied()),
    }
}

/// Some arrays in runs: rows of theirs over and over.
fn repeated(array: ArrayRef, rng: &mut Rng) -> ArrayRef {
    if array.is_empty() || rng.below(3) > 0 {
        return array;
    }
    let longest = [3, 30, 2000][rng.below(3) as usize];
    let mut rows: Vec<u32> = Vec::new();
    while rows.len() < array.len() {
        let (row, len) = (rng.below(array.len() as u64) as u32, 1 + rng.below(longest) as usize);
        rows.resize((rows.len() + len).min(array.len()), row);
    }
    arrow_select::take::take(&array, &UInt32Array::from(rows), None).unwrap()
}

/// Doubles and floats with special values among them.
fn specials(array: ArrayRef, rng: &mut Rng) -> ArrayRef {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float16Type, Float32Type, Float64Type};
    let values = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310, 1e300];
    let some = rng.below(3) == 0;
    let mut pick = || {
        let special = some && rng.below(20) == 0;
        special.then(|| values[rng.below(values.len() as u64) as usize])
    };
    match array.data_type() {
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            let values = array.values().iter().map(|value| pick().unwrap_or(*value)).collect();
            Arc::new(Float64Array::new(values, array.nulls().cloned()))
        }
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            let value = |value: &f32| pick().map_or(*value, |special| special as f32);
            let values = array.values().iter().map(value).collect();
            Arc::new(Float32Array::new(values, array.nulls().cloned()))
        }
        // Halves of one sign and few exponents, which are packed.
        DataType::Float16 if some => {
            let array = array.as_primitive::<Float16Type>();
            let start = 0x3c00 + 0x8000 * rng.below(2) as u16;
            let half = |_: &half::f16| half::f16::from_bits(start + rng.below(300) as u16);
            let halves = array.values().iter().map(half).collect();
            Arc::new(Float16Array::new(halves, array.nulls().cloned()))
        }
        _ => array,
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

/// A literal for a column: one of its values, something near, or something else.
fn literal(rng: &mut Rng, column: &ArrayRef) -> Literal {
    use arrow_array::cast::AsArray;
    if rng.below(25) == 0 {
        return Literal::Null;
    }
    let row = (!column.is_empty()).then(|| rng.below(column.len() as u64) as usize);
    let own = row.filter(|row| column.is_valid(*row) && rng.below(5) > 0);
    let near = |rng: &mut Rng| match rng.below(3) {
        0 => 0,
        1 => rng.below(50) as i128 - 25,
        _ => rng.below(3) as i128 - 1,
    };
    macro_rules! integer {
        ($type:ident) => {{
            use arrow_array::types::$type as T;
            let array = column.as_primitive::<T>();
            let value = own.map_or(rng.below(300) as i128, |row| array.value(row) as i128);
            let (least, most) = (
                <T as ArrowPrimitiveType>::Native::MIN as i128,
                <T as ArrowPrimitiveType>::Native::MAX as i128,
            );
            Literal::Integer((value + near(rng)).clamp(least, most))
        }};
    }
    match column.data_type() {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Date32 => integer!(Date32Type),
        DataType::Timestamp(TimeUnit::Second, None) => integer!(TimestampSecondType),
        DataType::Float64 if own.is_none() => Literal::Float(rng.below(100) as f64 / 100.0),
        DataType::Float32 if own.is_none() => Literal::from(rng.below(100) as f32 / 100.0),
        DataType::Utf8 if own.is_none() => Literal::from("https://example.org/item/7"),
        // All types, as Arrow scalars.
        data_type => match own {
            Some(row) => Literal::Arrow(column.slice(row, 1)),
            None => Literal::Arrow(array_of(data_type, 1, Shape::Narrow, Nulls::None)),
        },
    }
}

fn comparison(rng: &mut Rng) -> Comparison {
    use Comparison::*;
    *pick(rng, &[Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual])
}

/// A text or binary literal: part of one of the column's values, or something else.
fn part(rng: &mut Rng, column: &ArrayRef, form: TextForm) -> Option<Literal> {
    let row = (!column.is_empty()).then(|| rng.below(column.len() as u64) as usize)?;
    let value = crate::oracle::bytes(column, row).unwrap_or_default();
    let text = crate::oracle::is_text(column.data_type());
    let mut from = rng.below(value.len() as u64 + 1) as usize;
    let mut end = from + rng.below((value.len() - from) as u64 + 1) as usize;
    if text {
        let text = std::str::from_utf8(&value).unwrap();
        from = char_boundary(text, from);
        end = char_boundary(text, end);
    }
    let bytes = match form {
        TextForm::Prefix => value[..end].to_vec(),
        TextForm::Suffix => value[from..].to_vec(),
        _ => value[from..end].to_vec(),
    };
    if !text {
        return (form != TextForm::Like).then_some(Literal::Binary(bytes));
    }
    let mut text = String::from_utf8(bytes).unwrap();
    if form == TextForm::Like {
        text = text.replace(['\\', '%', '_'], "");
        let mut pattern = String::new();
        for character in text.chars() {
            match rng.below(8) {
                0 => pattern.push('_'),
                1 => pattern.push('%'),
                2 if !character.is_alphanumeric() => pattern.extend(['\\', character]),
                _ => pattern.push(character),
            }
        }
        text = format!("{}{pattern}{}", pick(rng, &["", "%"]), pick(rng, &["", "%"]));
    }
    Some(Literal::Text(text))
}

/// A random filter, nested to `depth`.
pub fn filter(rng: &mut Rng, batch: &RecordBatch, depth: usize) -> Expr {
    let index = rng.below(batch.num_columns() as u64) as usize;
    let (column, schema) = (batch.column(index), batch.schema());
    let named = || col(schema.field(index).name());
    let data_type = schema.field(index).data_type();
    let nested = |rng: &mut Rng| filter(rng, batch, depth - 1);
    match rng.below(if depth == 0 { 10 } else { 15 }) {
        0 => named().is_null(),
        1 if *data_type == DataType::Boolean => named(),
        1 | 2 => {
            let count = rng.below(12);
            let list: Vec<Expr> = (0..count).map(|_| lit(literal(rng, column))).collect();
            named().in_list(list)
        }
        3 => named().between(lit(literal(rng, column)), lit(literal(rng, column))),
        4 | 5 if crate::oracle::bytes_type(data_type) => {
            let form = *pick(
                rng,
                &[TextForm::Prefix, TextForm::Suffix, TextForm::Contains, TextForm::Like],
            );
            match part(rng, column, form) {
                Some(text) => Expr::Text(named().into(), form, text),
                None => named().is_not_null(),
            }
        }
        6 => arithmetic(rng, batch),
        7..=9 | 4 | 5 => {
            let literal = lit(literal(rng, column));
            Expr::Compare(comparison(rng), named().into(), literal.into())
        }
        10 | 11 => nested(rng).and(nested(rng)),
        12 | 13 => nested(rng).or(nested(rng)),
        _ if rng.below(3) == 0 => nested(rng).is_null(),
        _ => !nested(rng),
    }
}

/// Two numbers computed and compared.
fn arithmetic(rng: &mut Rng, batch: &RecordBatch) -> Expr {
    let names = |wanted: &dyn Fn(&DataType) -> bool| -> Vec<String> {
        (batch.schema().fields().iter())
            .filter(|field| wanted(field.data_type()))
            .map(|field| field.name().clone())
            .collect()
    };
    let wanted: Vec<String> = match rng.below(4) {
        0 => names(&|of| matches!(of, DataType::Float64)),
        1 => names(&|of| matches!(of, DataType::Float32)),
        _ => names(&|of| of.is_integer()),
    };
    let is_integer = wanted.len() > 1;
    let operand = |rng: &mut Rng| match rng.below(3) {
        0 if is_integer => lit(rng.below(2000) as i64 - 1000),
        0 => lit(rng.below(100) as f64 / 10.0),
        _ => col(pick(rng, &wanted)),
    };
    let (a, b, c) = (col(pick(rng, &wanted)), operand(rng), operand(rng));
    let computed = match rng.below(5) {
        0 => a + b,
        1 => a - b,
        2 => a * b,
        3 => -(a * b) - c.clone(),
        _ => (a + b).to_float64() * lit(0.5),
    };
    let other = if matches!(computed, Expr::Arithmetic(_, ref left, _) if matches!(**left, Expr::Float64(_)))
    {
        c.to_float64()
    } else {
        c
    };
    Expr::Compare(comparison(rng), computed.into(), other.into())
}

/// The same filter with other literals for columns.
#[allow(dead_code, reason = "for devices, whose kernels do not depend on literals")]
pub fn with_other_literals(expr: &Expr, rng: &mut Rng, batch: &RecordBatch) -> Expr {
    let mut again = |expr: &Expr| Box::new(with_other_literals(expr, rng, batch));
    match expr {
        Expr::And(left, right) => Expr::And(again(left), again(right)),
        Expr::Or(left, right) => Expr::Or(again(left), again(right)),
        Expr::Not(inner) => Expr::Not(again(inner)),
        Expr::IsNull(inner) => Expr::IsNull(again(inner)),
        Expr::Compare(comparison, left, right) => match (&**left, &**right) {
            (Expr::Column(name), Expr::Literal(_)) => {
                let column = batch.column_by_name(name).unwrap();
                Expr::Compare(*comparison, left.clone(), Box::new(lit(literal(rng, column))))
            }
            _ => expr.clone(),
        },
        Expr::In(value, list) => match &**value {
            Expr::Column(name) => {
                let column = batch.column_by_name(name).unwrap();
                let list = list.iter().map(|_| lit(literal(rng, column))).collect();
                Expr::In(value.clone(), list)
            }
            _ => expr.clone(),
        },
        _ => expr.clone(),
    }
}
