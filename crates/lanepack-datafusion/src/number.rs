//! Numbers: physical expressions of DataFusion as expressions of lanepack that have the same value.
//!
//! DataFusion computes integers in the type of the result, and lanepack exactly: an expression is translated if its
//! values fit that type whatever the columns hold, by the ranges of their types. Decimals are exact in both.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use lanepack::scan::{self, Expr};

/// An expression and, if it is an integer, the least and the greatest value that it may have.
pub(crate) struct Number {
    pub expr: Expr,
    range: Option<(i128, i128)>,
}

/// The least and the greatest value of a type of integers.
fn range_of(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// The value of a literal, as lanepack has it.
pub(crate) fn literal(value: &ScalarValue) -> Option<scan::Literal> {
    use ScalarValue::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    if value.is_null() {
        return Some(scan::Literal::Null);
    }
    Some(match value {
        Utf8(Some(text)) | LargeUtf8(Some(text)) | Utf8View(Some(text)) => text.as_str().into(),
        Binary(Some(bytes)) | LargeBinary(Some(bytes)) | BinaryView(Some(bytes)) => {
            bytes.as_slice().into()
        }
        ScalarValue::Boolean(Some(value)) => (*value).into(),
        ScalarValue::Dictionary(_, value) => return literal(value),
        other => scan::Literal::Arrow(other.to_array().ok()?),
    })
}

/// An integer as its value.
fn integer(value: &ScalarValue) -> Option<i128> {
    match value.cast_to(&DataType::Decimal128(38, 0)).ok()? {
        ScalarValue::Decimal128(Some(value), ..) => Some(value),
        _ => None,
    }
}

/// A number of columns that a schema has; none if lanepack's may be another one.
pub(crate) fn number(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Number> {
    let data_type = expr.data_type(schema).ok()?;
    if let Some(column) = expr.downcast_ref::<Column>() {
        schema.field_with_name(column.name()).ok()?;
        return Some(Number { expr: scan::col(column.name()), range: range_of(&data_type) });
    }
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        let value = constant.value();
        let range = range_of(&data_type).and_then(|_| integer(value)).map(|value| (value, value));
        return Some(Number { expr: scan::lit(literal(value)?), range });
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = number(cast.expr(), schema)?;
        let source = cast.expr().data_type(schema).ok()?;
        return match (from.range, range_of(&data_type)) {
            (Some(range), Some(all)) if is_within(range, all) => Some(from),
            (Some(range), None) if data_type == DataType::Float64 => {
                Some(Number { expr: from.expr.to_float64(), range: None })
                    .filter(|_| is_exact(range))
            }
            _ if source == DataType::Float32 && data_type == DataType::Float64 => {
                Some(Number { expr: from.expr.to_float64(), range: None })
            }
            _ => None,
        };
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return arithmetic(binary, &data_type, schema);
    }
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    date_part(function, schema)
}

/// The column whose values an expression has, maybe as integers of a type that has all of them.
pub(crate) fn key_column(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(column.index());
    }
    let cast = expr.downcast_ref::<CastExpr>()?;
    let from = range_of(&cast.expr().data_type(schema).ok()?)?;
    let to = range_of(&expr.data_type(schema).ok()?)?;
    is_within(from, to).then(|| key_column(cast.expr(), schema))?
}

fn is_within(range: (i128, i128), all: (i128, i128)) -> bool {
    all.0 <= range.0 && range.1 <= all.1
}

/// Whether all these integers are floats of 64 bits.
fn is_exact(range: (i128, i128)) -> bool {
    is_within(range, (-(1 << 53), 1 << 53))
}

fn arithmetic(binary: &BinaryExpr, data_type: &DataType, schema: &Schema) -> Option<Number> {
    let (left, right) = (number(binary.left(), schema)?, number(binary.right(), schema)?);
    let is_decimal = |expr: &Arc<dyn PhysicalExpr>| {
        matches!(expr.data_type(schema), Ok(DataType::Decimal128(..)))
    };
    let (one, other) = (left.expr, right.expr);
    let expr = match binary.op() {
        Operator::Plus => one + other,
        Operator::Minus => one - other,
        Operator::Multiply => one * other,
        _ => return None,
    };
    if let (Some(one), Some(other)) = (left.range, right.range) {
        let range = match binary.op() {
            Operator::Plus => (one.0.checked_add(other.0)?, one.1.checked_add(other.1)?),
            Operator::Minus => (one.0.checked_sub(other.1)?, one.1.checked_sub(other.0)?),
            _ => {
                let ends = [(one.0, other.0), (one.0, other.1), (one.1, other.0), (one.1, other.1)];
                let products: Option<Vec<i128>> =
                    ends.iter().map(|(one, other)| one.checked_mul(*other)).collect();
                let products = products?;
                (*products.iter().min()?, *products.iter().max()?)
            }
        };
        return is_within(range, range_of(data_type)?)
            .then_some(Number { expr, range: Some(range) });
    }
    let are_decimals = is_decimal(binary.left()) && is_decimal(binary.right());
    let are_floats = is_float(data_type);
    let is_same =
        |side: &Arc<dyn PhysicalExpr>| side.data_type(schema).is_ok_and(|own| own == *data_type);
    let is_known = match data_type {
        DataType::Decimal128(..) => are_decimals,
        _ => are_floats && is_same(binary.left()) && is_same(binary.right()),
    };
    is_known.then_some(Number { expr, range: None })
}

/// Whether a value may be a NaN that was computed or cast, whose sign differs between engines.
pub(crate) fn may_compute_nan(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_computed =
        expr.downcast_ref::<BinaryExpr>().is_some() || expr.downcast_ref::<CastExpr>().is_some();
    let is_own = is_computed && expr.data_type(schema).is_ok_and(|data_type| is_float(&data_type));
    is_own || expr.children().into_iter().any(|child| may_compute_nan(child, schema))
}

/// `date_part('year', column)` and the like, of dates and of timestamps without a time zone.
fn date_part(function: &ScalarFunctionExpr, schema: &Schema) -> Option<Number> {
    if function.name() != "date_part" {
        return None;
    }
    let [part, value] = function.args() else { return None };
    let part = part.downcast_ref::<Literal>()?.value().try_as_str()??.to_ascii_lowercase();
    let column = value.downcast_ref::<Column>()?;
    match schema.field_with_name(column.name()).ok()?.data_type() {
        DataType::Date32 | DataType::Date64 => {}
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            None,
        ) => {}
        _ => return None,
    }
    let of = scan::col(column.name());
    let (expr, range) = match part.as_str() {
        "year" => (of.year(), range_of(&DataType::Int32)),
        "month" => (of.month(), Some((1, 12))),
        "day" => (of.day(), Some((1, 31))),
        _ => return None,
    };
    Some(Number { expr, range })
}
