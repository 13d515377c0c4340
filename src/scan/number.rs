//! Numbers that are computed from columns: their types, and how large they can become.
//!
//! Integers and decimals are computed exactly, as integers with a scale, whatever their
//! columns' widths: nothing wraps and no row fails. That works because the least and the
//! greatest value of every column are known before anything is computed (statistics of
//! chunks), and so is, by interval arithmetic, what each step can reach: 64 bits do, or
//! 128, or the expression is refused. A row that is never looked at can thus not decide
//! whether there is an error. Floats are computed in their own type, each operation
//! rounded once, never fused.
//!
//! (Statistics may lie, as any byte may: values are then computed modulo 2^128.)

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::calendar;
use super::expr::{DatePart, Operator};
use super::join::JoinedColumn;
use super::literal::{Literal, power_of_ten};
use crate::error::{Error, Result};
use crate::ranges::{Key, Order};

/// A number for every row.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    pub form: Form,
    pub kind: Kind,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// An integer that stands for itself times 10^-scale.
    Exact {
        scale: i16,
    },
    Float32,
    Float64,
}

/// Where it comes from. Operands of an operator have the kind of the result, but for
/// scales of products.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// A column of up to 64 bits a value.
    Words(usize, Key),
    /// A column of 128 bits a value.
    Wide(usize),
    /// A column of a lookup.
    Joined(JoinedColumn),
    Null,
    Integer(i128),
    Float(f64),
    Operation(Operator, Box<Number>, Box<Number>),
    Negative(Box<Number>),
    /// Times 10^k.
    Scaled(Box<Number>, i128),
    Float64(Box<Number>),
    /// A part of a date or timestamp, of which a day has so many units.
    Part(DatePart, Box<Number>, i64),
}

/// Integers that are wide enough for every step of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Width {
    Bits64,
    Bits128,
}

impl Number {
    /// The values of a column: numbers, or the integers of dates and times.
    pub fn column(column: usize, data_type: &DataType) -> Option<Self> {
        use DataType as T;
        let kind = match data_type {
            T::Float32 => Kind::Float32,
            T::Float64 => Kind::Float64,
            T::Float16 | T::Boolean => return None,
            T::Decimal32(_, scale) | T::Decimal64(_, scale) | T::Decimal128(_, scale) => {
                Kind::Exact { scale: i16::from(*scale) }
            }
            _ => Kind::Exact { scale: 0 },
        };
        let form = match data_type {
            T::Decimal128(..) => Form::Wide(column),
            _ => Form::Words(column, Key::of(data_type)?),
        };
        Some(Self { form, kind })
    }

    /// The values of a lookup's column.
    pub fn joined(column: JoinedColumn) -> Option<Self> {
        let kind = Self::column(0, column.column().field.data_type())?.kind;
        Some(Self { form: Form::Joined(column), kind })
    }

    pub fn literal(literal: &Literal) -> Result<Self> {
        let (form, kind) = match literal.operand() {
            Some(Literal::Null) => (Form::Null, Kind::Exact { scale: 0 }),
            Some(Literal::Float(value)) => (Form::Float(value), Kind::Float64),
            Some(Literal::Integer(value)) => (Form::Integer(value), Kind::Exact { scale: 0 }),
            Some(Literal::Decimal { unscaled, scale }) => {
                (Form::Integer(unscaled), Kind::Exact { scale: i16::from(scale) })
            }
            _ => return Err(Error::expression(format!("{literal} cannot be computed with"))),
        };
        Ok(Self { form, kind })
    }

    /// Whether it is null in every row.
    pub fn is_null(&self) -> bool {
        match &self.form {
            Form::Null => true,
            Form::Operation(_, left, right) => left.is_null() || right.is_null(),
            Form::Negative(inner)
            | Form::Scaled(inner, _)
            | Form::Float64(inner)
            | Form::Part(_, inner, _) => inner.is_null(),
            _ => false,
        }
    }

    /// Whether it is more than a column or a literal.
    pub fn is_computed(&self) -> bool {
        matches!(
            self.form,
            Form::Operation(..)
                | Form::Negative(_)
                | Form::Scaled(..)
                | Form::Float64(_)
                | Form::Part(..)
        )
    }

    /// Adds the columns that it is computed from; it is null where one of them is. Of lookups the
    /// columns of keys.
    pub fn columns(&self, columns: &mut Vec<usize>) {
        match &self.form {
            Form::Words(column, _) | Form::Wide(column) => {
                if !columns.contains(column) {
                    columns.push(*column);
                }
            }
            Form::Joined(joined) => {
                if !columns.contains(&joined.join.column) {
                    columns.push(joined.join.column);
                }
            }
            Form::Null | Form::Integer(_) | Form::Float(_) => {}
            Form::Operation(_, left, right) => {
                left.columns(columns);
                right.columns(columns);
            }
            Form::Negative(inner)
            | Form::Scaled(inner, _)
            | Form::Float64(inner)
            | Form::Part(_, inner, _) => inner.columns(columns),
        }
    }

    /// Adds the columns of lookups that it is computed from; it is null where one of them is.
    pub fn joined_columns<'n>(&'n self, columns: &mut Vec<&'n JoinedColumn>) {
        match &self.form {
            Form::Joined(joined) => columns.push(joined),
            Form::Operation(_, left, right) => {
                left.joined_columns(columns);
                right.joined_columns(columns);
            }
            Form::Negative(inner)
            | Form::Scaled(inner, _)
            | Form::Float64(inner)
            | Form::Part(_, inner, _) => inner.joined_columns(columns),
            Form::Words(..) | Form::Wide(_) => {}
            Form::Null | Form::Integer(_) | Form::Float(_) => {}
        }
    }

    /// The sum, difference or product.
    pub fn binary(operator: Operator, left: Self, right: Self) -> Result<Self> {
        let (left, right) = if operator == Operator::Multiply {
            Self::of_one_type(left, right)?
        } else {
            Self::aligned(left, right)?
        };
        let kind = match (left.kind, right.kind) {
            (Kind::Exact { scale: left }, Kind::Exact { scale: right })
                if operator == Operator::Multiply =>
            {
                Kind::Exact { scale: left + right }
            }
            (kind, _) => kind,
        };
        Ok(Self { form: Form::Operation(operator, left.into(), right.into()), kind })
    }

    /// The quotient or remainder.
    pub fn quotient(operator: Operator, left: Self, right: Self) -> Result<Self> {
        let (left, right) = Self::of_one_type(left, right)?;
        match (left.kind, right.kind) {
            (Kind::Exact { scale: 0 }, Kind::Exact { scale: 0 }) => {}
            (Kind::Exact { .. }, _) => {
                return Err(Error::expression(
                    "decimals are not divided: say with to_float64() that rounding is fine",
                ));
            }
            _ if operator == Operator::Remainder => {
                return Err(Error::expression("floats have no remainder here"));
            }
            _ => {}
        }
        let kind = left.kind;
        Ok(Self { form: Form::Operation(operator, left.into(), right.into()), kind })
    }

    pub fn negative(self) -> Self {
        Self { kind: self.kind, form: Form::Negative(self.into()) }
    }

    /// A part of the date of integers that are dates or timestamps, of which a day has so many units.
    pub fn part(self, part: DatePart, per_day: i64) -> Self {
        Self { form: Form::Part(part, self.into(), per_day), kind: Kind::Exact { scale: 0 } }
    }

    pub fn into_float64(self) -> Self {
        match self.kind {
            Kind::Float64 => self,
            _ => Self { kind: Kind::Float64, form: Form::Float64(self.into()) },
        }
    }

    /// Both as floats of one type, or both exact: literals take the type of the other side.
    fn of_one_type(left: Self, right: Self) -> Result<(Self, Self)> {
        if left.kind == right.kind {
            return Ok((left, right));
        }
        match (left.kind, right.kind) {
            (Kind::Exact { .. }, Kind::Exact { .. }) => Ok((left, right)),
            (kind, _) if right.is_literal_for(kind) => {
                let right = right.literal_as(kind)?;
                Ok((left, right))
            }
            (_, kind) if left.is_literal_for(kind) => {
                let left = left.literal_as(kind)?;
                Ok((left, right))
            }
            (left, right) => Err(Error::expression(format!(
                "{left} and {right} are not computed with together: say with to_float64() that \
                 rounding is fine"
            ))),
        }
    }

    /// Whether this is a literal that becomes a number of another kind by itself.
    fn is_literal_for(&self, kind: Kind) -> bool {
        match self.form {
            Form::Null => true,
            Form::Integer(_) | Form::Float(_) => !matches!(kind, Kind::Exact { .. }),
            _ => false,
        }
    }

    fn literal_as(self, kind: Kind) -> Result<Self> {
        let value = match (self.form, self.kind) {
            (Form::Integer(value), Kind::Exact { scale }) => decimal_as_float(value, scale),
            (Form::Float(value), _) => value,
            (form, _) => return Ok(Self { form, kind }),
        };
        let rounded = if kind == Kind::Float32 { f64::from(value as f32) } else { value };
        if rounded.is_infinite() && value.is_finite() {
            return Err(Error::expression(format!("the literal {value:?} does not fit Float32")));
        }
        Ok(Self { form: Form::Float(rounded), kind })
    }

    /// Both with the same scale, or as floats of one type.
    pub fn aligned(left: Self, right: Self) -> Result<(Self, Self)> {
        let (left, right) = Self::of_one_type(left, right)?;
        let (Kind::Exact { scale: left_scale }, Kind::Exact { scale: right_scale }) =
            (left.kind, right.kind)
        else {
            return Ok((left, right));
        };
        let scale = left_scale.max(right_scale);
        Ok((left.with_scale(scale)?, right.with_scale(scale)?))
    }

    fn with_scale(self, to: i16) -> Result<Self> {
        let Kind::Exact { scale } = self.kind else { return Ok(self) };
        let kind = Kind::Exact { scale: to };
        if scale == to {
            return Ok(self);
        }
        let factor = power_of_ten((to - scale).unsigned_abs().into()).and_then(i256::to_i128);
        let Some(factor) = factor else {
            return Err(Error::expression(format!("scales {scale} and {to} lie too far apart")));
        };
        let form = match self.form {
            Form::Null => Form::Null,
            Form::Integer(value) if value.checked_mul(factor).is_some() => {
                Form::Integer(value * factor)
            }
            _ => Form::Scaled(self.into(), factor),
        };
        Ok(Self { form, kind })
    }

    /// Whether a column of decimals is among what it is computed from.
    pub fn has_decimals(&self) -> bool {
        match &self.form {
            Form::Wide(_) => true,
            Form::Words(..) => self.kind != Kind::Exact { scale: 0 },
            Form::Joined(joined) => joined.column().field.data_type().is_decimal(),
            Form::Operation(_, left, right) => left.has_decimals() || right.has_decimals(),
            Form::Negative(inner) | Form::Scaled(inner, _) => inner.has_decimals(),
            Form::Null | Form::Integer(_) | Form::Float(_) | Form::Float64(_) | Form::Part(..) => {
                false
            }
        }
    }

    /// Integers that hold every step of it, given the least and the greatest value of each
    /// column.
    pub fn width(&self, bounds: &impl Fn(usize) -> (i256, i256)) -> Result<Width> {
        let mut width = Width::Bits64;
        self.reach(bounds, &mut width)?;
        Ok(width)
    }

    /// The least and the greatest it can be, of floats nothing.
    pub fn reach(
        &self,
        bounds: &impl Fn(usize) -> (i256, i256),
        width: &mut Width,
    ) -> Result<Option<(i256, i256)>> {
        let exact = matches!(self.kind, Kind::Exact { .. });
        let too_large = || {
            Error::expression(
                "the values of its columns are so large that it could pass 128 bits; say with \
                 to_float64() that rounding is fine",
            )
        };
        let reached = match &self.form {
            Form::Words(column, key) if key.order != Order::Float => Some(bounds(*column)),
            Form::Wide(column) => Some(bounds(*column)),
            Form::Integer(value) => Some((i256::from_i128(*value), i256::from_i128(*value))),
            Form::Joined(joined) => joined.column().bounds(),
            Form::Words(..) | Form::Null | Form::Float(_) => None,
            Form::Float64(inner) => {
                inner.reach(bounds, width)?;
                None
            }
            Form::Part(part, inner, per_day) => {
                // Dates are read as integers of 64 bits, however wide the part's number is.
                let days = inner.reach(bounds, &mut { Width::Bits64 })?;
                let year = |end: i256| {
                    let end = end.to_i128().and_then(|end| i64::try_from(end).ok());
                    let end = end.expect("dates have 64 bits");
                    calendar::part_of(DatePart::Year, end, *per_day)
                };
                let ends = match part {
                    DatePart::Year => days.map(|(low, high)| (year(low), year(high))),
                    DatePart::Month => Some((1, 12)),
                    DatePart::Day => Some((1, 31)),
                };
                ends.map(|(low, high)| (i256::from_i128(low.into()), i256::from_i128(high.into())))
            }
            Form::Negative(inner) => (inner.reach(bounds, width)?)
                .map(|(low, high)| (high.wrapping_neg(), low.wrapping_neg())),
            Form::Scaled(inner, factor) => {
                let factor = i256::from_i128(*factor);
                match inner.reach(bounds, width)? {
                    Some(reached) => {
                        Some(products(reached, (factor, factor)).ok_or_else(too_large)?)
                    }
                    None => None,
                }
            }
            Form::Operation(operator, left, right) => {
                match (left.reach(bounds, width)?, right.reach(bounds, width)?) {
                    (Some(left), Some(right)) => Some(match operator {
                        Operator::Add => {
                            (left.0.wrapping_add(right.0), left.1.wrapping_add(right.1))
                        }
                        Operator::Subtract => {
                            (left.0.wrapping_sub(right.1), left.1.wrapping_sub(right.0))
                        }
                        Operator::Multiply => products(left, right).ok_or_else(too_large)?,
                        Operator::Divide | Operator::Remainder => {
                            if right.0 <= i256::ZERO && right.1 >= i256::ZERO {
                                return Err(Error::expression("the divisor could be zero"));
                            }
                            let most = left.0.wrapping_abs().max(left.1.wrapping_abs());
                            (most.wrapping_neg(), most)
                        }
                    }),
                    _ => None,
                }
            }
        };
        if let (true, Some((low, high))) = (exact, reached) {
            let fits = |least: i128, most: i128| {
                low >= i256::from_i128(least) && high <= i256::from_i128(most)
            };
            // The least integers have no negative.
            if !fits(i128::MIN + 1, i128::MAX) {
                return Err(too_large());
            }
            if !fits(i128::from(i64::MIN + 1), i64::MAX.into()) {
                *width = Width::Bits128;
            }
        }
        Ok(reached)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact { scale: 0 } => f.write_str("integers"),
            Self::Exact { .. } => f.write_str("decimals"),
            Self::Float32 => f.write_str("Float32"),
            Self::Float64 => f.write_str("Float64"),
        }
    }
}

/// The least and the greatest product of two values of these intervals.
fn products(left: (i256, i256), right: (i256, i256)) -> Option<(i256, i256)> {
    let all = [
        left.0.checked_mul(right.0)?,
        left.0.checked_mul(right.1)?,
        left.1.checked_mul(right.0)?,
        left.1.checked_mul(right.1)?,
    ];
    Some((*all.iter().min()?, *all.iter().max()?))
}

/// `unscaled * 10^-scale` as a double: the integer rounded, then divided or multiplied.
pub(super) fn decimal_as_float(unscaled: i128, scale: i16) -> f64 {
    let power = power_as_float(scale);
    if scale >= 0 { unscaled as f64 / power } else { unscaled as f64 * power }
}

/// 10^|scale| as a double.
pub(super) fn power_as_float(scale: i16) -> f64 {
    format!("1e{}", scale.unsigned_abs()).parse().expect("a float")
}
