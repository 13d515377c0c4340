//! What expressions mean, by Arrow's own kernels on whole arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal256Type, Float32Type, Float64Type};
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::DataType;
use lanepack::scan::{Comparison, Expr, Literal, Operator, TextForm};

/// The rows for which an expression is true.
pub fn kept(expr: &Expr, batch: &RecordBatch) -> BooleanArray {
    let truth = truth(expr, batch);
    BooleanArray::from_iter(
        (0..batch.num_rows()).map(|row| Some(truth.is_valid(row) && truth.value(row))),
    )
}

pub fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub fn bytes_type(data_type: &DataType) -> bool {
    use DataType::*;
    is_text(data_type)
        || matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// A byte string of an array; none if it is null.
pub fn bytes(array: &ArrayRef, row: usize) -> Option<Vec<u8>> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes().to_vec(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes().to_vec(),
        DataType::Utf8View => array.as_string_view().value(row).as_bytes().to_vec(),
        DataType::Binary => array.as_binary::<i32>().value(row).to_vec(),
        DataType::LargeBinary => array.as_binary::<i64>().value(row).to_vec(),
        DataType::BinaryView => array.as_binary_view().value(row).to_vec(),
        _ => array.as_fixed_size_binary().value(row).to_vec(),
    })
}

fn column(name: &str, batch: &RecordBatch) -> ArrayRef {
    batch.column_by_name(name).unwrap().clone()
}

/// A literal as an array of one row.
fn scalar(literal: &Literal, data_type: &DataType) -> ArrayRef {
    let cast = |array: ArrayRef| arrow_cast::cast(&array, data_type).unwrap();
    match literal {
        Literal::Null => new_null_array(data_type, 1),
        Literal::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
        Literal::Integer(value) if *value > i64::MAX.into() => {
            cast(Arc::new(UInt64Array::from(vec![*value as u64])))
        }
        Literal::Integer(value) => {
            let value = *value as i64;
            match data_type {
                DataType::Date32 => cast(Arc::new(Int32Array::from(vec![value as i32]))),
                _ => cast(Arc::new(Int64Array::from(vec![value]))),
            }
        }
        Literal::Float(value) => cast(Arc::new(Float64Array::from(vec![*value]))),
        Literal::Text(text) => cast(Arc::new(StringArray::from(vec![text.as_str()]))),
        Literal::Binary(bytes) => cast(Arc::new(BinaryArray::from_vec(vec![bytes]))),
        Literal::Arrow(array) => array.clone(),
        other => panic!("a literal that is not tested here: {other}"),
    }
}

fn compare(comparison: Comparison, left: &dyn Datum, right: &dyn Datum) -> BooleanArray {
    use arrow_ord::cmp;
    match comparison {
        Comparison::Equal => cmp::eq(left, right),
        Comparison::NotEqual => cmp::neq(left, right),
        Comparison::Less => cmp::lt(left, right),
        Comparison::LessOrEqual => cmp::lt_eq(left, right),
        Comparison::Greater => cmp::gt(left, right),
        Comparison::GreaterOrEqual => cmp::gt_eq(left, right),
    }
    .unwrap()
}

/// Whether an expression is true, false or null in each row.
fn truth(expr: &Expr, batch: &RecordBatch) -> BooleanArray {
    match expr {
        Expr::And(left, right) => {
            arrow_arith::boolean::and_kleene(&truth(left, batch), &truth(right, batch)).unwrap()
        }
        Expr::Or(left, right) => {
            arrow_arith::boolean::or_kleene(&truth(left, batch), &truth(right, batch)).unwrap()
        }
        Expr::Not(inner) => arrow_arith::boolean::not(&truth(inner, batch)).unwrap(),
        Expr::IsNull(inner) => match &**inner {
            Expr::Column(name) => arrow_arith::boolean::is_null(&column(name, batch)).unwrap(),
            inner => arrow_arith::boolean::is_null(&truth(inner, batch)).unwrap(),
        },
        Expr::Column(name) => column(name, batch).as_boolean().clone(),
        Expr::Compare(comparison, left, right) => match (&**left, &**right) {
            (Expr::Column(name), Expr::Literal(literal)) => {
                let column = column(name, batch);
                let scalar = Scalar::new(scalar(literal, column.data_type()));
                compare(*comparison, &column, &scalar)
            }
            (left, right) => {
                let (left, right) = same_type(number(left, batch), number(right, batch));
                compare(*comparison, &left, &right)
            }
        },
        Expr::In(value, list) => {
            let none = BooleanArray::from(vec![false; batch.num_rows()]);
            list.iter().fold(none, |found, item| {
                let equal = Expr::Compare(Comparison::Equal, value.clone(), Box::new(item.clone()));
                arrow_arith::boolean::or_kleene(&found, &truth(&equal, batch)).unwrap()
            })
        }
        Expr::Text(value, form, literal) => {
            let Expr::Column(name) = &**value else { panic!("text of {value}") };
            text(&column(name, batch), *form, literal)
        }
        other => panic!("an expression that is not tested here: {other}"),
    }
}

fn text(array: &ArrayRef, form: TextForm, literal: &Literal) -> BooleanArray {
    if is_text(array.data_type()) {
        let pattern = Scalar::new(scalar(literal, array.data_type()));
        return match form {
            TextForm::Prefix => arrow_string::like::starts_with(array, &pattern),
            TextForm::Suffix => arrow_string::like::ends_with(array, &pattern),
            TextForm::Contains => arrow_string::like::contains(array, &pattern),
            TextForm::Like => arrow_string::like::like(array, &pattern),
            other => panic!("no oracle of {other:?}"),
        }
        .unwrap();
    }
    let Literal::Binary(part) = literal else { panic!("a binary literal is needed") };
    BooleanArray::from_iter((0..array.len()).map(|row| {
        bytes(array, row).map(|value| match form {
            TextForm::Prefix => value.starts_with(part),
            TextForm::Suffix => value.ends_with(part),
            _ => part.is_empty() || value.windows(part.len()).any(|window| window == part),
        })
    }))
}

/// A number in each row: integers as decimals of 76 digits, in which nothing here overflows.
/// A number; where it is computed NaN is one, as the docs say.
fn number(expr: &Expr, batch: &RecordBatch) -> ArrayRef {
    // A double as a double is as it is.
    if let Expr::Float64(inner) = expr
        && *steps(inner, batch).data_type() == DataType::Float64
    {
        return number(inner, batch);
    }
    let found = steps(expr, batch);
    match (expr, found.data_type()) {
        (Expr::Column(_) | Expr::Literal(_), _) => found,
        (_, DataType::Float32) => Arc::new(
            found
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value }),
        ),
        (_, DataType::Float64) => Arc::new(
            found
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value }),
        ),
        _ => found,
    }
}

fn steps(expr: &Expr, batch: &RecordBatch) -> ArrayRef {
    use arrow_arith::numeric;
    let rows = batch.num_rows();
    match expr {
        Expr::Column(name) => {
            let column = column(name, batch);
            match column.data_type() {
                DataType::Float32 | DataType::Float64 => column,
                _ => exact(&column),
            }
        }
        Expr::Literal(Literal::Integer(value)) => {
            let array = Decimal256Array::from(vec![i256::from_i128(*value); rows]);
            Arc::new(array.with_precision_and_scale(76, 0).unwrap())
        }
        Expr::Literal(Literal::Float(value)) => Arc::new(Float64Array::from(vec![*value; rows])),
        Expr::Negative(inner) => {
            let inner = steps(inner, batch);
            match inner.data_type() {
                DataType::Decimal256(..) => {
                    let array = inner.as_primitive::<Decimal256Type>();
                    Arc::new(
                        array
                            .unary::<_, Decimal256Type>(i256::wrapping_neg)
                            .with_precision_and_scale(76, 0)
                            .unwrap(),
                    )
                }
                _ => numeric::neg(&inner).unwrap(),
            }
        }
        Expr::Float64(inner) => {
            let inner = steps(inner, batch);
            match inner.data_type() {
                DataType::Decimal256(..) => {
                    let array = inner.as_primitive::<Decimal256Type>();
                    Arc::new(array.unary::<_, Float64Type>(|value| value.to_i128().unwrap() as f64))
                }
                _ => arrow_cast::cast(&inner, &DataType::Float64).unwrap(),
            }
        }
        Expr::Arithmetic(operator, left, right) => {
            let (left, right) = (steps(left, batch), steps(right, batch));
            let (left, right) = same_type(left, right);
            if let DataType::Decimal256(..) = left.data_type() {
                let (left, right) =
                    (left.as_primitive::<Decimal256Type>(), right.as_primitive::<Decimal256Type>());
                let result: Decimal256Array =
                    arrow_arith::arity::binary(left, right, |left, right| match operator {
                        Operator::Add => left.wrapping_add(right),
                        Operator::Subtract => left.wrapping_sub(right),
                        Operator::Multiply => left.wrapping_mul(right),
                        other => panic!("{other} is not tested here"),
                    })
                    .unwrap();
                return Arc::new(result.with_precision_and_scale(76, 0).unwrap());
            }
            match operator {
                Operator::Add => numeric::add(&left, &right),
                Operator::Subtract => numeric::sub(&left, &right),
                Operator::Multiply => numeric::mul(&left, &right),
                other => panic!("{other} is not tested here"),
            }
            .unwrap()
        }
        other => panic!("a number that is not tested here: {other}"),
    }
}

fn exact(column: &ArrayRef) -> ArrayRef {
    let array = match column.data_type() {
        DataType::UInt64 => {
            let array = column.as_primitive::<arrow_array::types::UInt64Type>();
            array.unary::<_, Decimal256Type>(|value| i256::from_i128(value.into()))
        }
        _ => {
            let column = arrow_cast::cast(column, &DataType::Int64).unwrap();
            let array = column.as_primitive::<arrow_array::types::Int64Type>();
            array.unary::<_, Decimal256Type>(|value| i256::from_i128(value.into()))
        }
    };
    Arc::new(array.with_precision_and_scale(76, 0).unwrap())
}

/// Literals of floats take the type of the other side.
fn same_type(left: ArrayRef, right: ArrayRef) -> (ArrayRef, ArrayRef) {
    match (left.data_type(), right.data_type()) {
        (DataType::Float64, DataType::Float32) => {
            let left = arrow_cast::cast(&left, &DataType::Float32).unwrap();
            (left, right)
        }
        (DataType::Float32, DataType::Float64) => {
            let right = arrow_cast::cast(&right, &DataType::Float32).unwrap();
            (left, right)
        }
        _ => (left, right),
    }
}
