//! Filters: physical expressions of DataFusion as filters of lanepack.
//!
//! [`exact`] gives one that keeps the same rows, so that DataFusion need not look at them again; [`weaker`] one that
//! keeps these and maybe others, of filters that DataFusion applies once more, such as those that a join or a
//! top-k makes of what it has seen.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use lanepack::scan::{self, Expr};

use crate::number::{literal, may_compute_nan, number};

/// Constants of a list at most: a filter of a join may have very many.
const MOST_CONSTANTS: usize = 4096;

/// A filter that keeps the same rows; none if there may be no such filter.
pub(crate) fn exact(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Expr> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return is_of_type(column, schema, |data_type| *data_type == DataType::Boolean)
            .then(|| scan::col(column.name()).eq(true));
    }
    if let Some(value) = expr.downcast_ref::<Literal>() {
        return match value.value() {
            ScalarValue::Boolean(Some(value)) => Some(scan::lit(*value)),
            value if value.is_null() => Some(scan::lit(scan::Literal::Null)),
            _ => None,
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return exact(not.arg(), schema).map(|expr| !expr);
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return column_of(is_null.arg(), schema).map(Expr::is_null);
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return column_of(is_not_null.arg(), schema).map(Expr::is_not_null);
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And => {
                Some(exact(binary.left(), schema)?.and(exact(binary.right(), schema)?))
            }
            Operator::Or => Some(exact(binary.left(), schema)?.or(exact(binary.right(), schema)?)),
            _ => comparison(binary, schema),
        };
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return in_list(list, schema);
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return text_like(like, schema);
    }
    text_form(expr.downcast_ref::<ScalarFunctionExpr>()?, schema)
}

/// A filter that keeps the rows of another one, and maybe more; none if that may be all.
pub(crate) fn weaker(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Expr> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            Operator::And => {
                let sides = [weaker(binary.left(), schema), weaker(binary.right(), schema)];
                return sides.into_iter().flatten().reduce(Expr::and);
            }
            Operator::Or => {
                return Some(weaker(binary.left(), schema)?.or(weaker(binary.right(), schema)?));
            }
            _ => {}
        }
    }
    // Lists are of bits of floats, joins compare values.
    if let Some(list) = expr.downcast_ref::<InListExpr>()
        && !list.expr().data_type(schema).is_ok_and(|data_type| !data_type.is_floating())
    {
        return None;
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>()
        && weaker(not.arg(), schema).is_none()
    {
        return None;
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        // A row passes by one of the branches, whichever that is.
        let last = case.else_expr().filter(|expr| !is_false(expr));
        let branches = case.when_then_expr().iter().map(|(_, then)| then).chain(last);
        let branches = branches.filter(|expr| !is_false(expr)).map(|expr| weaker(expr, schema));
        let branches: Option<Vec<Expr>> = branches.collect();
        return Some(branches?.into_iter().reduce(Expr::or).unwrap_or(scan::lit(false)));
    }
    exact(expr, schema)
}

/// Whether an expression is false, or null, for every row.
fn is_false(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let value = expr.downcast_ref::<Literal>().map(Literal::value);
    value.is_some_and(|value| value.is_null() || *value == ScalarValue::Boolean(Some(false)))
}

fn is_of_type(column: &Column, schema: &Schema, is: impl Fn(&DataType) -> bool) -> bool {
    schema.field_with_name(column.name()).is_ok_and(|field| is(field.data_type()))
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A column that the schema has.
fn column_of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Expr> {
    let column = expr.downcast_ref::<Column>()?;
    is_of_type(column, schema, |_| true).then(|| scan::col(column.name()))
}

/// A column of text.
fn text_column(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Expr> {
    let column = expr.downcast_ref::<Column>()?;
    is_of_type(column, schema, is_text).then(|| scan::col(column.name()))
}

fn comparison(binary: &BinaryExpr, schema: &Schema) -> Option<Expr> {
    let (left, right) = (binary.left(), binary.right());
    // Both sides have the same type, or types of text.
    let (one, other) = (left.data_type(schema).ok()?, right.data_type(schema).ok()?);
    let is_null = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Literal>().is_some_and(|value| value.value().is_null())
    };
    let are_comparable = one == other || is_text(&one) && is_text(&other);
    if !are_comparable && !is_null(left) && !is_null(right) {
        return None;
    }
    if may_compute_nan(left, schema) || may_compute_nan(right, schema) {
        return None;
    }
    if one.is_floating() || other.is_floating() {
        return float_comparison(binary, schema);
    }
    let (one, other) = (number(left, schema)?.expr, number(right, schema)?.expr);
    compared(binary.op(), one, other)
}

fn compared(operator: &Operator, one: Expr, other: Expr) -> Option<Expr> {
    Some(match operator {
        Operator::Eq => one.eq(other),
        Operator::NotEq => one.not_eq(other),
        Operator::Lt => one.lt(other),
        Operator::LtEq => one.lt_eq(other),
        Operator::Gt => one.gt(other),
        Operator::GtEq => one.gt_eq(other),
        _ => return None,
    })
}

/// A float compared with a constant. DataFusion takes -0.0 for 0.0, lanepack for the float before it.
fn float_comparison(binary: &BinaryExpr, schema: &Schema) -> Option<Expr> {
    let is_constant = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().is_some();
    let (value, constant, operator) =
        match (is_constant(binary.left()), is_constant(binary.right())) {
            (false, true) => (binary.left(), binary.right(), *binary.op()),
            (true, false) => (binary.right(), binary.left(), binary.op().swap()?),
            _ => return None,
        };
    if value.data_type(schema).ok()? == DataType::Float16 {
        return None;
    }
    let value = number(value, schema)?.expr;
    let constant = constant.downcast_ref::<Literal>()?.value();
    let zero = |sign: f64| match constant {
        ScalarValue::Float32(Some(zero)) if *zero == 0.0 => {
            literal(&ScalarValue::Float32(Some(0.0 * sign as f32))).map(scan::lit)
        }
        ScalarValue::Float64(Some(zero)) if *zero == 0.0 => {
            literal(&ScalarValue::Float64(Some(0.0 * sign))).map(scan::lit)
        }
        _ => None,
    };
    let (Some(least), Some(greatest)) = (zero(-1.0), zero(1.0)) else {
        return compared(&operator, value, scan::lit(literal(constant)?));
    };
    Some(match operator {
        Operator::Eq => value.clone().gt_eq(least).and(value.lt_eq(greatest)),
        Operator::NotEq => value.clone().lt(least).or(value.gt(greatest)),
        Operator::Lt => value.lt(least),
        Operator::LtEq => value.lt_eq(greatest),
        Operator::Gt => value.gt(greatest),
        Operator::GtEq => value.gt_eq(least),
        _ => return None,
    })
}

fn in_list(list: &InListExpr, schema: &Schema) -> Option<Expr> {
    if list.len() > MOST_CONSTANTS {
        return None;
    }
    let column = column_of(list.expr(), schema)?;
    let constant = |expr: &Arc<dyn PhysicalExpr>| literal(expr.downcast_ref::<Literal>()?.value());
    let constants: Option<Vec<scan::Literal>> = list.list().iter().map(constant).collect();
    let found = column.in_list(constants?);
    Some(if list.negated() { !found } else { found })
}

/// The text of a literal.
fn text_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expr.downcast_ref::<Literal>()?.value().try_as_str()?
}

fn text_like(like: &LikeExpr, schema: &Schema) -> Option<Expr> {
    if like.case_insensitive() {
        return None;
    }
    let found = text_column(like.expr(), schema)?.like(text_of(like.pattern())?);
    Some(if like.negated() { !found } else { found })
}

/// `starts_with` and the like.
fn text_form(function: &ScalarFunctionExpr, schema: &Schema) -> Option<Expr> {
    let [value, text] = function.args() else { return None };
    let form = match function.name() {
        "starts_with" => Expr::starts_with,
        "ends_with" => Expr::ends_with,
        "contains" => Expr::contains,
        _ => return None,
    };
    Some(form(text_column(value, schema)?, text_of(text)?))
}
