//! Aggregates of the rows that a filter keeps.
//!
//! Integers and decimals are added exactly. Floats are added in an order that does not
//! depend on threads or engines, in double precision:
//!
//! ```text
//! vector   32 sums, of the values at position p with p % 32 = 0, 1, ..., in the order
//!          p / 32 = 0 4 8 ... 28, 2 6 ... 30, 1 5 ... 29, 3 7 ... 31 (rows of FastLanes);
//!          then sums 16 apart are added, 8, 4, 2 and 1 apart
//! chunk    the sums of its vectors, in their order
//! column   the sums of its chunks, in their order
//! ```
//!
//! Rows that are null or not kept add nothing.

use std::fmt;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float32Array, Float64Array, Int64Array, UInt64Array,
    make_array, new_empty_array, new_null_array,
};
use arrow_buffer::{Buffer, i256};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use super::bind::{Binder, Named};
use super::expr::Expr;
use super::join::JoinedColumn;
use super::number::{Form, Kind, Number, Width};
use super::predicate::Predicate;
use crate::column::{is_text, physical_of};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::ranges::{Key, Order};

/// One value of all rows that are kept: what [`sum`] and its like make.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    function: Function,
    expr: Option<Expr>,
    is_distinct: bool,
    filter: Option<Expr>,
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Count,
    Sum,
    Min,
    Max,
    Average,
}

/// The number of rows: `count(*)`, an Int64.
pub fn count_rows() -> Aggregate {
    Aggregate::new(Function::Count, None)
}

/// The number of rows in which a column or number is not null, an Int64.
pub fn count(expr: Expr) -> Aggregate {
    Aggregate::of(Function::Count, expr)
}

/// The number of distinct values of a column or a computed integer that are not null, an Int64: exact.
/// Floats are the same if their bits are.
///
/// Values are found as groups are ([`Scan::group_by`](super::Scan::group_by)), and count as such for
/// [`GroupBy::with_group_limit`](super::GroupBy::with_group_limit).
pub fn count_distinct(expr: Expr) -> Aggregate {
    Aggregate { is_distinct: true, ..Aggregate::of(Function::Count, expr) }
}

/// The sum, null if there is nothing to add: of integers an Int64 (of a column of unsigned
/// ones a UInt64), of decimals a Decimal128 of 38 digits, of floats a Float64. A sum of
/// integers that does not fit is an error.
pub fn sum(expr: Expr) -> Aggregate {
    Aggregate::of(Function::Sum, expr)
}

/// The least value, null if there is none: of a column in its type, of a computed number
/// in that of its sum. Floats are ordered as in comparisons.
pub fn min(expr: Expr) -> Aggregate {
    Aggregate::of(Function::Min, expr)
}

/// The greatest value; see [`min`].
pub fn max(expr: Expr) -> Aggregate {
    Aggregate::of(Function::Max, expr)
}

/// The mean as a Float64, null if there is nothing: the sum, rounded, divided by the count.
pub fn avg(expr: Expr) -> Aggregate {
    Aggregate::of(Function::Average, expr)
}

impl Aggregate {
    fn new(function: Function, expr: Option<Expr>) -> Self {
        Self { function, expr, is_distinct: false, filter: None, name: None }
    }

    fn of(function: Function, expr: Expr) -> Self {
        Self::new(function, Some(expr))
    }

    /// Of those rows alone for which `expr` is true, and earlier filters of it are: SQL's
    /// `FILTER (WHERE ...)`.
    ///
    /// ```
    /// use lanepack::scan::{col, sum};
    /// let cheap = sum(col("price")).filter(col("price").lt(5));
    /// assert_eq!(cheap.to_string(), "sum(price) FILTER (WHERE price < 5)");
    /// ```
    #[must_use]
    pub fn filter(mut self, expr: Expr) -> Self {
        self.filter = Some(match self.filter {
            None => expr,
            Some(before) => before.and(expr),
        });
        self
    }

    /// Whether distinct values are counted, and of what.
    pub(super) fn distinct(&self) -> Option<(&Expr, Option<&Expr>)> {
        self.expr.as_ref().filter(|_| self.is_distinct).map(|expr| (expr, self.filter.as_ref()))
    }

    /// The name of its column in the result.
    pub(super) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.to_string())
    }

    /// With a name for its column in the result; else it is what the aggregate is written as.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = match self.function {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Average => "avg",
        };
        match &self.expr {
            None => write!(f, "{function}(*)")?,
            Some(expr) if self.is_distinct => write!(f, "{function}(DISTINCT {expr})")?,
            Some(expr) => write!(f, "{function}({expr})")?,
        }
        match &self.filter {
            None => Ok(()),
            Some(filter) => write!(f, " FILTER (WHERE {filter})"),
        }
    }
}

/// An aggregate, checked against a schema.
#[derive(Debug)]
pub(super) struct Plan {
    pub input: Input,
    pub filter: Option<RowFilter>,
    function: Function,
    /// The type of the result.
    data_type: DataType,
    name: String,
}

/// Rows that an aggregate is of.
#[derive(Debug, Clone)]
pub(super) struct RowFilter {
    expr: Expr,
    pub predicate: Predicate,
}

impl RowFilter {
    /// None if it keeps all rows.
    pub fn new(expr: Option<&Expr>, binder: &mut Binder<'_>) -> Result<Option<Self>> {
        let Some(expr) = expr else { return Ok(None) };
        Ok(match binder.filter(expr)? {
            Predicate::Constant(true) => None,
            predicate => Some(Self { expr: expr.clone(), predicate }),
        })
    }

    /// Whether both keep the same rows.
    pub fn is_same(&self, other: &Self) -> bool {
        self.expr == other.expr
    }
}

/// What an aggregate looks at in every row that is kept.
#[derive(Debug)]
pub(super) enum Input {
    /// The rows themselves.
    Rows,
    /// Whether all of these columns, and of these columns of lookups, are valid.
    Valid(Vec<usize>, Vec<JoinedColumn>),
    /// The sum of numbers, and how many there are.
    Sum(Number, Width),
    /// The least and the greatest number.
    Bounds(Number, Width),
    /// The least and the greatest value of a column.
    ColumnBounds(usize, Comparable),
}

impl Input {
    /// The columns that have to be valid.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        match self {
            Self::Rows => {}
            Self::Valid(of, _) => columns.clone_from(of),
            Self::Sum(number, _) | Self::Bounds(number, _) => number.columns(&mut columns),
            Self::ColumnBounds(column, _) => columns.push(*column),
        }
        columns
    }

    /// The columns of lookups that have to be valid.
    pub fn joined_columns(&self) -> Vec<&JoinedColumn> {
        let mut columns = Vec::new();
        match self {
            Self::Rows | Self::ColumnBounds(..) => {}
            Self::Valid(_, joined) => columns.extend(joined),
            Self::Sum(number, _) | Self::Bounds(number, _) => number.joined_columns(&mut columns),
        }
        columns
    }

    /// The columns whose values are read.
    pub fn columns_read(&self) -> Vec<usize> {
        match self {
            Self::Rows => Vec::new(),
            // Keys are.
            Self::Valid(_, joined) => joined.iter().map(|column| column.join.column).collect(),
            Self::Sum(..) | Self::Bounds(..) | Self::ColumnBounds(..) => self.columns(),
        }
    }
}

/// What values of a column are compared as.
#[derive(Debug, Clone, Copy)]
pub(super) enum Comparable {
    Words(Key),
    Wide,
    Bytes,
}

/// What is known of an aggregate after some rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    Count(u64),
    Integers {
        sum: i256,
        count: u64,
    },
    Floats {
        sum: f64,
        count: u64,
    },
    /// The least and the greatest key.
    Words(Option<(u64, u64)>),
    Wide(Option<(i256, i256)>),
    FloatBounds(Option<(f64, f64)>),
    Bytes(Option<(Vec<u8>, Vec<u8>)>),
}

impl State {
    /// After these rows, and then those of `other`.
    pub fn then(self, other: Self) -> Self {
        match (self, other) {
            (Self::Count(one), Self::Count(other)) => Self::Count(one + other),
            (
                Self::Integers { sum, count },
                Self::Integers { sum: other_sum, count: other_count },
            ) => Self::Integers { sum: sum.wrapping_add(other_sum), count: count + other_count },
            (Self::Floats { sum, count }, Self::Floats { sum: other_sum, count: other_count }) => {
                Self::Floats { sum: sum + other_sum, count: count + other_count }
            }
            (Self::Words(one), Self::Words(other)) => Self::Words(wider(one, other, u64::cmp)),
            (Self::Wide(one), Self::Wide(other)) => Self::Wide(wider(one, other, i256::cmp)),
            (Self::FloatBounds(one), Self::FloatBounds(other)) => {
                Self::FloatBounds(wider(one, other, f64::total_cmp))
            }
            (Self::Bytes(one), Self::Bytes(other)) => Self::Bytes(wider(one, other, Vec::cmp)),
            (state, _) => state,
        }
    }
}

/// The states of aggregates after chunks, in their order, which follow `before`.
pub(super) fn joined(chunks: Vec<Vec<State>>, before: Vec<State>) -> Vec<State> {
    chunks.into_iter().fold(before, |states, chunk| {
        states.into_iter().zip(chunk).map(|(state, chunk)| state.then(chunk)).collect()
    })
}

/// Bounds of everything that one or the other bounds.
pub(super) fn wider<T>(
    one: Option<(T, T)>,
    other: Option<(T, T)>,
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Option<(T, T)> {
    match (one, other) {
        (Some((least, greatest)), Some((low, high))) => Some((
            if compare(&low, &least).is_lt() { low } else { least },
            if compare(&high, &greatest).is_gt() { high } else { greatest },
        )),
        (one, other) => one.or(other),
    }
}

impl Plan {
    pub fn new(aggregate: &Aggregate, binder: &mut Binder<'_>) -> Result<Self> {
        let name = aggregate.name();
        let function = aggregate.function;
        let filter = RowFilter::new(aggregate.filter.as_ref(), binder)?;
        let plan = |input, data_type| Self { input, filter, function, data_type, name };
        let Some(expr) = &aggregate.expr else { return Ok(plan(Input::Rows, DataType::Int64)) };
        match function {
            Function::Count => {
                let input = match expr {
                    Expr::Column(name) => match binder.named(name)? {
                        Named::Column(column, _) => Input::Valid(vec![column], Vec::new()),
                        Named::Joined(column) => {
                            Input::Valid(vec![column.join.column], vec![column])
                        }
                    },
                    _ => {
                        let number = Self::number(aggregate, binder, expr)?;
                        let (mut columns, mut joined) = (Vec::new(), Vec::new());
                        number.columns(&mut columns);
                        number.joined_columns(&mut joined);
                        Input::Valid(columns, joined.into_iter().cloned().collect())
                    }
                };
                Ok(plan(input, DataType::Int64))
            }
            Function::Sum | Function::Average => {
                let number = Self::number(aggregate, binder, expr)?;
                let data_type = match (function, number.kind) {
                    (Function::Average, _) => DataType::Float64,
                    _ => sum_type(&number)?,
                };
                Ok(plan(Input::Sum(number, Width::Bits64), data_type))
            }
            Function::Min | Function::Max => {
                if let Expr::Column(name) = expr
                    && let Named::Column(column, data_type) = binder.named(name)?
                {
                    let comparable = match (Key::of(data_type), physical_of(data_type)) {
                        (Some(key), _) => Comparable::Words(key),
                        (_, Physical::I128 | Physical::I256) => Comparable::Wide,
                        (_, Physical::Bytes) => Comparable::Bytes,
                        _ => {
                            return Err(Error::expression(format!(
                                "column {name:?} is {data_type}, which has no order"
                            )));
                        }
                    };
                    return Ok(plan(Input::ColumnBounds(column, comparable), data_type.clone()));
                }
                let number = Self::number(aggregate, binder, expr)?;
                let data_type = match number.kind {
                    Kind::Float32 => DataType::Float32,
                    _ => sum_type(&number)?,
                };
                Ok(plan(Input::Bounds(number, Width::Bits64), data_type))
            }
        }
    }

    /// What an aggregate is of, which must not be null in every row.
    fn number(aggregate: &Aggregate, binder: &mut Binder<'_>, expr: &Expr) -> Result<Number> {
        let number = binder.number(expr)?;
        match number.is_null() {
            true => Err(Error::expression(format!("{aggregate}: it is null in every row"))),
            false => Ok(number),
        }
    }

    /// Whether the least value is wanted, of bounds.
    pub fn is_min(&self) -> bool {
        self.function == Function::Min
    }

    /// Finds out how wide integers have to be.
    pub fn fit(&mut self, bounds: &impl Fn(usize) -> (i256, i256)) -> Result<()> {
        if let Input::Sum(number, width) | Input::Bounds(number, width) = &mut self.input {
            *width = number.width(bounds)?;
        }
        self.filter.as_mut().map_or(Ok(()), |filter| filter.predicate.fit(bounds))
    }

    /// The columns whose values are read.
    pub fn columns_read(&self) -> Vec<usize> {
        let mut columns = self.input.columns_read();
        if let Some(filter) = &self.filter {
            filter.predicate.values_read(&mut |column| columns.push(column));
        }
        columns
    }

    /// What is known after `rows` rows of a batch without columns.
    pub fn of_rows(&self, rows: usize) -> Result<State> {
        match self.start() {
            State::Count(_) => match self.filter {
                // Without columns a filter is false, or there is none.
                Some(_) => Ok(State::Count(0)),
                None => Ok(State::Count(rows as u64)),
            },
            _ => Err(Error::expression(format!("{}: a batch without columns", self.name))),
        }
    }

    /// What is known before the first row.
    pub fn start(&self) -> State {
        match &self.input {
            Input::Rows | Input::Valid(..) => State::Count(0),
            Input::Sum(number, _) => match number.kind {
                Kind::Exact { .. } => State::Integers { sum: i256::ZERO, count: 0 },
                _ => State::Floats { sum: 0.0, count: 0 },
            },
            Input::Bounds(number, _) => match number.kind {
                Kind::Exact { .. } => State::Wide(None),
                _ => State::FloatBounds(None),
            },
            Input::ColumnBounds(_, Comparable::Words(_)) => State::Words(None),
            Input::ColumnBounds(_, Comparable::Wide) => State::Wide(None),
            Input::ColumnBounds(_, Comparable::Bytes) => State::Bytes(None),
        }
    }

    /// The field of the result.
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.function != Function::Count)
    }

    /// The result, as an array of one row.
    pub fn finish(&self, state: State) -> Result<ArrayRef> {
        let is_min = self.function == Function::Min;
        fn one<T>(is_min: bool, (least, greatest): (T, T)) -> T {
            if is_min { least } else { greatest }
        }
        match state {
            State::Count(count) => Ok(Arc::new(Int64Array::from(vec![count as i64]))),
            State::Integers { count: 0, .. } | State::Floats { count: 0, .. } => self.null(),
            State::Integers { sum, count } if self.function == Function::Average => {
                let scale = match &self.input {
                    Input::Sum(Number { kind: Kind::Exact { scale }, .. }, _) => *scale,
                    _ => 0,
                };
                let sum = sum.to_i128().ok_or_else(|| self.too_large(sum))?;
                let mean = super::number::decimal_as_float(sum, scale) / count as f64;
                Ok(Arc::new(Float64Array::from(vec![mean])))
            }
            State::Integers { sum, .. } => self.integer(sum),
            State::Floats { sum, count } => {
                let average = self.function == Function::Average;
                let value = if average { sum / count as f64 } else { sum };
                let value = if value.is_nan() { f64::NAN } else { value };
                Ok(Arc::new(Float64Array::from(vec![value])))
            }
            State::Words(bounds) => {
                match (bounds.map(|bounds| one(is_min, bounds)), Key::of(&self.data_type)) {
                    (Some(word), Some(key)) => {
                        let bits = key.to_bits(word).to_le_bytes();
                        self.array(Buffer::from(&bits[..key.bits.div_ceil(8) as usize]))
                    }
                    _ => self.null(),
                }
            }
            State::Wide(bounds) => match (bounds, &self.input) {
                (None, _) => self.null(),
                (Some(bounds), Input::ColumnBounds(..)) => {
                    let bytes = one(is_min, bounds).to_le_bytes();
                    let width = self.data_type.primitive_width().unwrap_or(bytes.len());
                    self.array(Buffer::from(&bytes[..width]))
                }
                (Some(bounds), _) => self.integer(one(is_min, bounds)),
            },
            State::FloatBounds(None) => self.null(),
            State::FloatBounds(Some(bounds)) => {
                let value = one(is_min, bounds);
                Ok(if self.data_type == DataType::Float32 {
                    Arc::new(Float32Array::from(vec![value as f32]))
                } else {
                    Arc::new(Float64Array::from(vec![value]))
                })
            }
            State::Bytes(None) => self.null(),
            State::Bytes(Some(bounds)) => {
                let bytes = one(is_min, bounds);
                if is_text(&self.data_type) {
                    std::str::from_utf8(&bytes).map_err(|error| {
                        Error::corrupt(format!("text that is not UTF-8: {error}"))
                    })?;
                }
                crate::column::one_string(bytes, &self.data_type)
            }
        }
    }

    /// The results of groups, a row for each.
    pub fn finish_all(&self, states: Vec<State>) -> Result<ArrayRef> {
        if self.function == Function::Count {
            let count = |state: &State| match state {
                State::Count(count) => *count as i64,
                _ => 0,
            };
            return Ok(Arc::new(Int64Array::from_iter_values(states.iter().map(count))));
        }
        let is_integer = matches!(states.first(), Some(State::Integers { .. }));
        if is_integer && self.data_type == DataType::Int64 {
            let sum = |state: State| match state {
                State::Integers { sum, count } if count > 0 => {
                    let value = sum.to_i128().and_then(|sum| i64::try_from(sum).ok());
                    value.map(Some).ok_or_else(|| self.too_large(sum))
                }
                _ => Ok(None),
            };
            let sums = states.into_iter().map(sum).collect::<Result<Int64Array>>()?;
            return Ok(Arc::new(sums));
        }
        let finished: Vec<ArrayRef> =
            states.into_iter().map(|state| self.finish(state)).collect::<Result<_>>()?;
        let finished: Vec<&dyn Array> = finished.iter().map(AsRef::as_ref).collect();
        match finished.is_empty() {
            true => Ok(new_empty_array(&self.data_type)),
            false => Ok(arrow_select::concat::concat(&finished)?),
        }
    }

    fn null(&self) -> Result<ArrayRef> {
        Ok(new_null_array(&self.data_type, 1))
    }

    fn array(&self, bytes: Buffer) -> Result<ArrayRef> {
        let data = ArrayData::builder(self.data_type.clone()).len(1).add_buffer(bytes).build()?;
        Ok(make_array(data))
    }

    fn too_large(&self, value: i256) -> Error {
        Error::too_large(format!(
            "{} is {value}, which {} does not hold",
            self.name, self.data_type
        ))
    }

    /// An integer, or the digits of a decimal, if the result's type holds it.
    fn integer(&self, value: i256) -> Result<ArrayRef> {
        let narrow = value.to_i128();
        let array: Option<ArrayRef> = match &self.data_type {
            DataType::Int64 => narrow
                .and_then(|value| i64::try_from(value).ok())
                .map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef),
            DataType::UInt64 => narrow
                .and_then(|value| u64::try_from(value).ok())
                .map(|value| Arc::new(UInt64Array::from(vec![value])) as ArrayRef),
            DataType::Decimal128(digits, scale) => {
                let most = 10_i128.pow(u32::from(*digits)) - 1;
                let fits = narrow.filter(|value| (-most..=most).contains(value));
                match fits {
                    Some(value) => {
                        let array = Decimal128Array::from(vec![value]);
                        Some(Arc::new(array.with_precision_and_scale(*digits, *scale)?))
                    }
                    None => None,
                }
            }
            _ => None,
        };
        array.ok_or_else(|| self.too_large(value))
    }
}

/// The type of the sum of numbers.
pub(super) fn sum_type(number: &Number) -> Result<DataType> {
    let unsigned = |number: &Number| match &number.form {
        Form::Words(_, key) => key.order == Order::Unsigned,
        Form::Joined(joined) => joined.column().field.data_type().is_unsigned_integer(),
        _ => false,
    };
    match number.kind {
        Kind::Exact { scale: 0 } if unsigned(number) => Ok(DataType::UInt64),
        Kind::Exact { scale: 0 } if !number.has_decimals() => Ok(DataType::Int64),
        Kind::Exact { scale } => match i8::try_from(scale) {
            Ok(scale) if (-38..=38).contains(&scale) => Ok(DataType::Decimal128(38, scale)),
            _ => Err(Error::expression(format!("a decimal with {scale} digits behind the point"))),
        },
        Kind::Float32 | Kind::Float64 => Ok(DataType::Float64),
    }
}
