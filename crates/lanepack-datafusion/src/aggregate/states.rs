//! The states of DataFusion's aggregate functions, as aggregates of lanepack.
//!
//! ```text
//! sum(x)                                      sum(x)
//! avg(x)                                      count(x), sum(x)
//! sum(CASE WHEN c THEN x ELSE 0 END)          sum(x) where c, count of rows, count of rows where c and x is null
//! ```

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, Scalar, new_null_array};
use datafusion::arrow::compute::kernels::{cmp, zip};
use datafusion::arrow::compute::{cast, is_not_null, is_null, nullif};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Schema};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use lanepack::scan::{self, Aggregate, Expr};

use crate::filter;
use crate::number::number;

/// Aggregates that a scan computes, and the columns of states that are made of them.
#[derive(Debug, Clone, Default)]
pub(super) struct States {
    pub aggregates: Vec<Aggregate>,
    columns: Vec<StateColumn>,
}

/// A column of states, by the numbers of aggregates.
#[derive(Debug, Clone, Copy)]
enum StateColumn {
    Plain(usize),
    /// A count whose sum is behind it. DataFusion divides by counts that are not null.
    CountOfAverage(usize),
    /// A sum in which some rows count as 0: all but those of its aggregate. Behind it are the count of all rows and
    /// maybe that of rows without a value.
    ElseZero {
        sum: usize,
        has_nulls: bool,
    },
}

impl States {
    /// Adds the states of a function, in their order; whether they are known.
    pub fn add(
        &mut self,
        function: &AggregateFunctionExpr,
        arguments: &[Arc<dyn PhysicalExpr>],
        condition: Option<&Expr>,
        schema: &Schema,
    ) -> Option<()> {
        if function.is_distinct() || function.ignore_nulls() || !function.order_bys().is_empty() {
            return None;
        }
        let [argument] = arguments else { return None };
        let first = self.aggregates.len();
        let fields = function.state_fields().ok()?;
        let name = function.fun().name();
        let of_case = argument.downcast_ref::<CaseExpr>();
        let (aggregates, columns) = match (name, of_case) {
            ("sum" | "count", Some(case)) => case_states(name, case, schema, first)?,
            _ => {
                let aggregates = plain_states(name, argument, schema)?;
                let columns = match aggregates.len() {
                    // Averages of others may have their states in another order.
                    2 if *fields.first()?.data_type() != DataType::UInt64 => return None,
                    2 => vec![StateColumn::CountOfAverage(first), StateColumn::Plain(first + 1)],
                    _ => vec![StateColumn::Plain(first)],
                };
                (aggregates, columns)
            }
        };
        if fields.len() != columns.len() {
            return None;
        }
        self.columns.extend(columns);
        self.aggregates.extend(aggregates.into_iter().map(|(aggregate, own)| {
            let conditions = condition.cloned().into_iter().chain(own);
            match conditions.reduce(Expr::and) {
                Some(condition) => aggregate.filter(condition),
                None => aggregate,
            }
        }));
        Some(())
    }

    /// Whether columns of aggregates, behind those of `keys`, become columns of a schema.
    pub fn fit(&self, found: &RecordBatch, keys: usize, schema: &Schema) -> bool {
        let of_keys = (0..keys).map(Some);
        let of_states = self.columns.iter().map(|column| match column {
            StateColumn::Plain(at)
            | StateColumn::CountOfAverage(at)
            | StateColumn::ElseZero { sum: at, .. } => Some(keys + at),
        });
        let mut sources = of_keys.chain(of_states);
        found.num_columns() == keys + self.aggregates.len()
            && schema.fields().len() == keys + self.columns.len()
            && schema.fields().iter().all(|field| {
                let source = sources.next().flatten().map(|at| found.column(at).data_type());
                source.is_some_and(|source| converts(source, field.data_type()))
            })
    }

    /// The columns of a schema, of those of aggregates behind `keys` columns.
    pub fn columns_of(
        &self,
        found: &RecordBatch,
        keys: usize,
        schema: &Schema,
    ) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            let to = field.data_type();
            if at < keys {
                columns.push(converted(found.column(at), to)?);
                continue;
            }
            columns.push(match self.columns[at - keys] {
                StateColumn::Plain(at) => converted(found.column(keys + at), to)?,
                StateColumn::CountOfAverage(at) => {
                    let counts = converted(found.column(keys + at), to)?;
                    nullif(&counts, &is_null(found.column(keys + at + 1))?)?
                }
                StateColumn::ElseZero { sum, has_nulls } => {
                    let sums = converted(found.column(keys + sum), to)?;
                    let rows = found.column(keys + sum + 1);
                    let no_values: ArrayRef = match has_nulls {
                        true => found.column(keys + sum + 2).clone(),
                        false => {
                            ScalarValue::new_zero(rows.data_type())?.to_array_of_size(rows.len())?
                        }
                    };
                    let zero = Scalar::new(ScalarValue::new_zero(to)?.to_array()?);
                    let null = Scalar::new(new_null_array(to, 1));
                    let values = zip::zip(&is_not_null(&sums)?, &sums, &zero)?;
                    zip::zip(&cmp::gt(rows, &no_values)?, &values, &null)?
                }
            });
        }
        Ok(columns)
    }
}

/// Aggregates, with conditions of their own.
type Conditional = Vec<(Aggregate, Option<Expr>)>;

fn plain_states(
    name: &str,
    argument: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Option<Conditional> {
    let is_constant = argument.downcast_ref::<Literal>();
    let is_constant = is_constant.is_some_and(|literal| !literal.value().is_null());
    let value = || number(argument, schema).map(|number| number.expr);
    let column = || {
        let column = argument.downcast_ref::<Column>()?;
        schema.field_with_name(column.name()).ok()?;
        Some(scan::col(column.name()))
    };
    let aggregates = match name {
        "count" if is_constant => vec![scan::count_rows()],
        "count" => vec![scan::count(column()?)],
        "sum" => vec![scan::sum(value()?)],
        "min" => vec![scan::min(column()?)],
        "max" => vec![scan::max(column()?)],
        "avg" => {
            // Of integers DataFusion adds floats: exact, if they are added as integers.
            let added = match argument.downcast_ref::<CastExpr>() {
                Some(cast) if argument.data_type(schema).ok()? == DataType::Float64 => {
                    number(cast.expr(), schema)?.expr
                }
                _ => value()?,
            };
            vec![scan::count(added.clone()), scan::sum(added)]
        }
        _ => return None,
    };
    Some(aggregates.into_iter().map(|aggregate| (aggregate, None)).collect())
}

/// The states of `CASE WHEN condition THEN value (ELSE 0) END`.
fn case_states(
    name: &str,
    case: &CaseExpr,
    schema: &Schema,
    first: usize,
) -> Option<(Conditional, Vec<StateColumn>)> {
    let [(condition, value)] = case.when_then_expr() else { return None };
    let is_known = case.expr().is_none();
    let condition = filter::exact(condition, schema).filter(|_| is_known)?;
    let within = |aggregate| (aggregate, Some(condition.clone()));
    let constant = value.downcast_ref::<Literal>().map(Literal::value);
    // Integers and decimals, of which a sum does not change if zeros are added.
    let data_type = value.data_type(schema).ok()?;
    let is_one = constant
        .is_some_and(|value| ScalarValue::new_one(&data_type).is_ok_and(|one| *value == one));
    let of_else = case.else_expr().map(|expr| expr.downcast_ref::<Literal>().map(Literal::value));
    let has_no_else = match of_else {
        None => true,
        Some(value) => value?.is_null(),
    };
    let plain = vec![StateColumn::Plain(first)];
    if name == "count" {
        let is_counted = has_no_else && constant.is_some_and(|value| !value.is_null());
        return is_counted.then(|| (vec![within(scan::count_rows())], plain));
    }
    if data_type.is_floating() {
        return None;
    }
    let sum = match is_one && data_type == DataType::Int64 && !has_no_else {
        true => scan::count_rows(),
        false => scan::sum(number(value, schema)?.expr),
    };
    if has_no_else {
        return Some((vec![within(sum)], plain));
    }
    let zero = ScalarValue::new_zero(&data_type).ok()?;
    if of_else?? != &zero {
        return None;
    }
    let nullable = collect_columns(value).into_iter().filter(|column| {
        schema.field_with_name(column.name()).is_ok_and(|field| field.is_nullable())
    });
    let is_null = nullable.map(|column| scan::col(column.name()).is_null()).reduce(Expr::or);
    let mut aggregates = vec![within(sum), (scan::count_rows(), None)];
    let has_nulls = is_null.is_some();
    aggregates
        .extend(is_null.map(|is_null| (scan::count_rows(), Some(condition.clone().and(is_null)))));
    Some((aggregates, vec![StateColumn::ElseZero { sum: first, has_nulls }]))
}

/// Whether values of one type are given as another one without a change.
fn converts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from == to,
        // Counts.
        (DataType::Int64, DataType::UInt64) => true,
        // Sums of integers whose average is asked for.
        (DataType::Int64 | DataType::UInt64, DataType::Float64) => true,
        (from, to) => from == to,
    }
}

fn converted(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match (column.data_type(), to) {
        (from, to) if from == to => Ok(column.clone()),
        // Digits are checked where states are put together.
        (DataType::Decimal128(..), DataType::Decimal128(precision, scale)) => {
            let values = column.as_primitive::<Decimal128Type>();
            Ok(Arc::new(values.clone().with_precision_and_scale(*precision, *scale)?))
        }
        (_, to) => Ok(cast(column, to)?),
    }
}
