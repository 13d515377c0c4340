//! Literals of expressions, and their conversion to the type of a column.
//!
//! A literal is converted to the type of the column that it is compared with: integers to every
//! number, date and time (in the unit of its type) that can hold them, decimals to every decimal of
//! enough digits behind the point and to floats that have their value, floats to every float that
//! has their value. Floats are converted to integers and decimals, too: whole ones by their value,
//! others as the decimal of the fewest digits that gives the float, which is what somebody has
//! written. Text is converted to dates and times as ISO 8601 writes them (`iso.rs`). Scalars of Arrow
//! are converted to numbers of other types and times of other units that have their value. What
//! the column's type does not hold is an error that says which literal it holds, never a wrapped,
//! clipped or rounded value.

mod iso;

use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Scalar, make_array};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use half::f16;

use crate::chunk::Statistics;
use crate::column::{is_text, physical_of};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::ranges::Key;

/// A constant in an expression: what [`lit`](super::lit) makes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    /// No value; comparisons with it are null for every row.
    Null,
    /// True or false.
    Boolean(bool),
    /// An integer.
    Integer(i128),
    /// `unscaled * 10^-scale`.
    Decimal {
        /// The digits.
        unscaled: i128,
        /// Digits behind the point; negative for zeros before it.
        scale: i8,
    },
    /// A float; for decimals that of the fewest digits that gives it, `0.05` as five hundredths. An
    /// `f32` becomes the `f64` of its value, which has more digits: decimals need an `f64`, and
    /// columns of Float32 an `f32` unless they have the value of the `f64`.
    Float(f64),
    /// Text, for Utf8, LargeUtf8 and Utf8View; for dates and times as ISO 8601 writes them:
    /// `1995-03-15`, `1995-03-15T10:30:00.25`, with an offset (`Z`, `+01:00`) where the column has a
    /// time zone, `10:30:00`.
    Text(String),
    /// Bytes, for Binary, LargeBinary, BinaryView and FixedSizeBinary.
    Binary(Vec<u8>),
    /// One value of an Arrow type: an array of one row.
    Arrow(ArrayRef),
}

impl Literal {
    /// The number `unscaled * 10^-scale`, exactly: `Literal::decimal(1999, 2)` is 19.99.
    pub fn decimal(unscaled: i128, scale: i8) -> Self {
        Self::Decimal { unscaled, scale }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Decimal { unscaled, scale } => write!(f, "{unscaled}e{}", -i16::from(*scale)),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Binary(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Self::Arrow(array) => {
                let value = (array.len() == 1 && array.is_valid(0)).then(|| value_of(array, 0));
                write!(f, "{}", array.data_type())?;
                match (value.flatten(), Key::of(array.data_type())) {
                    (Some(Value::Word(word)), Some(key)) if key.is_float() => {
                        write!(f, "({:?})", key.float(word))
                    }
                    (Some(Value::Word(word)), Some(key)) => write!(f, "({})", key.integer(word)),
                    (Some(Value::Wide(value)), _) => write!(f, "({value})"),
                    (Some(Value::Bytes(bytes)), _) => write!(f, "(\"{}\")", bytes.escape_ascii()),
                    _ => f.write_str("(null)"),
                }
            }
        }
    }
}

macro_rules! from {
    ($($type:ty => $value:ident $literal:expr;)*) => {$(
        impl From<$type> for Literal {
            fn from($value: $type) -> Self {
                $literal
            }
        }
    )*};
}

from! {
    bool => value Self::Boolean(value);
    i8 => value Self::Integer(value.into());
    i16 => value Self::Integer(value.into());
    i32 => value Self::Integer(value.into());
    i64 => value Self::Integer(value.into());
    i128 => value Self::Integer(value);
    u8 => value Self::Integer(value.into());
    u16 => value Self::Integer(value.into());
    u32 => value Self::Integer(value.into());
    u64 => value Self::Integer(value.into());
    f32 => value Self::Float(value.into());
    f64 => value Self::Float(value);
    &str => value Self::Text(value.to_owned());
    String => value Self::Text(value);
    &[u8] => value Self::Binary(value.to_owned());
    Vec<u8> => value Self::Binary(value);
}

impl<T: Array> From<Scalar<T>> for Literal {
    fn from(value: Scalar<T>) -> Self {
        Self::Arrow(make_array(value.into_inner().to_data()))
    }
}

impl<T: Into<Literal>> From<Option<T>> for Literal {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A literal as a value of a column: its place in the column's order, or its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Of types of up to 64 bits, see [`Key`].
    Word(u64),
    /// Of types of 128 and 256 bits.
    Wide(i256),
    Bytes(Vec<u8>),
}

/// 10^`exponent`, if 256 bits hold it.
pub(super) fn power_of_ten(exponent: u32) -> Option<i256> {
    i256::from_i128(10).checked_pow(exponent)
}

impl Literal {
    /// The literal as a value of this type; none if it is null.
    pub(super) fn for_type(&self, data_type: &DataType) -> Result<Option<Value>> {
        let value = match self {
            Self::Null => return Ok(None),
            Self::Arrow(array) => return self.arrow_value(array, data_type),
            Self::Boolean(value) if *data_type == DataType::Boolean => {
                Value::Word(u64::from(*value))
            }
            Self::Integer(value) => self.number(i256::from_i128(*value), 0, data_type)?,
            Self::Decimal { unscaled, scale } => {
                self.number(i256::from_i128(*unscaled), *scale, data_type)?
            }
            Self::Float(value) if data_type.is_numeric() && !data_type.is_floating() => {
                self.of_float(*value, &format!("{value:e}"), data_type)?
            }
            Self::Float(value) => Value::Word(self.float(*value, data_type)?),
            Self::Text(text) if is_text(data_type) => Value::Bytes(text.clone().into_bytes()),
            Self::Text(text) if iso::is_for(data_type) => self.time(text, data_type)?,
            Self::Binary(bytes)
                if physical_of(data_type) == Physical::Bytes && !is_text(data_type) =>
            {
                Value::Bytes(bytes.clone())
            }
            _ => return Err(self.mismatch(data_type)),
        };
        Ok(Some(value))
    }

    fn mismatch(&self, data_type: &DataType) -> Error {
        let what = match self {
            Self::Null | Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Decimal { .. } => "a decimal",
            Self::Float(_) => "a float",
            Self::Text(_) => "a text",
            Self::Binary(_) => "binary",
            Self::Arrow(array) => {
                let found = array.data_type();
                return Error::expression(format!("a literal of {found} where {data_type} is"));
            }
        };
        Error::expression(format!("the literal {self} is {what}, the column is {data_type}"))
    }

    /// Text as a date or time.
    fn time(&self, text: &str, data_type: &DataType) -> Result<Value> {
        let count = iso::parse(text, data_type).map_err(|why| {
            Error::expression(format!("the literal {self} does not fit {data_type}: {why}"))
        })?;
        let word = Key::of(data_type).and_then(|key| key.of_integer(count));
        word.map(Value::Word).ok_or_else(|| self.does_not_fit(data_type))
    }

    fn does_not_fit(&self, data_type: &DataType) -> Error {
        use DataType as T;
        let holds = match data_type {
            T::Decimal32(digits, scale)
            | T::Decimal64(digits, scale)
            | T::Decimal128(digits, scale)
            | T::Decimal256(digits, scale) => {
                format!(", whose values have up to {digits} digits, {scale} behind the point")
            }
            T::Date32 => ", whose values are whole days".to_owned(),
            _ => match Key::of(data_type).filter(|_| data_type.is_integer()) {
                Some(key) => {
                    let [least, most] = [0, key.max()].map(|word| key.integer(word));
                    format!(", whose values are the integers from {least} to {most}")
                }
                None => String::new(),
            },
        };
        Error::expression(format!("the literal {self} does not fit {data_type}{holds}"))
    }

    /// A float as a value of an exact type: itself if it is whole, else the number of its digits, as
    /// in `-1.25e-3`.
    fn of_float(&self, value: f64, digits: &str, data_type: &DataType) -> Result<Value> {
        if value.fract() == 0.0 && value.abs() < i128::MAX as f64 {
            return self.number(i256::from_i128(value as i128), 0, data_type);
        }
        let number = || {
            let (mantissa, exponent) = digits.split_once('e')?;
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
            let scale = fraction.len() as i32 - exponent.parse::<i32>().ok()?;
            Some((i256::from_i128(unscaled), i8::try_from(scale).ok()?))
        };
        let (unscaled, scale) = number().ok_or_else(|| self.does_not_fit(data_type))?;
        self.number(unscaled, scale, data_type)
    }

    /// `unscaled * 10^-scale` as a value of an exact type, or of a float if it is exact there.
    fn number(&self, unscaled: i256, scale: i8, data_type: &DataType) -> Result<Value> {
        use DataType as T;
        let does_not_fit = || self.does_not_fit(data_type);
        // Digits behind the point in the column, and the most digits it holds.
        let (to, digits) = match data_type {
            T::Decimal32(digits, to)
            | T::Decimal64(digits, to)
            | T::Decimal128(digits, to)
            | T::Decimal256(digits, to) => (*to, Some(*digits)),
            T::Float16 | T::Float32 | T::Float64 => {
                let (nearest, is_exact) = nearest_float(unscaled, scale);
                return match is_exact {
                    true => self.float(nearest, data_type).map(Value::Word),
                    false => Err(self.between_floats(nearest, data_type)),
                };
            }
            _ if Key::of(data_type).is_none_or(|key| key.is_float())
                || *data_type == T::Boolean =>
            {
                return Err(self.mismatch(data_type));
            }
            // A scalar of time has a unit, an integer is of the column's.
            _ => match (self, unit_of(data_type)) {
                (Self::Arrow(_), Some((_, unit))) => (unit, None),
                _ => (0, None),
            },
        };
        let shift = i16::from(to) - i16::from(scale);
        let power = power_of_ten(u32::from(shift.unsigned_abs())).ok_or_else(does_not_fit)?;
        let value = if shift >= 0 {
            unscaled.checked_mul(power)
        } else {
            let exact = unscaled.wrapping_rem(power) == i256::ZERO;
            exact.then(|| unscaled.wrapping_div(power))
        };
        let mut value = value.ok_or_else(does_not_fit)?;
        if let (Self::Arrow(_), T::Date32) = (self, data_type) {
            let is_midnight = value.wrapping_rem(DAY) == i256::ZERO;
            value = is_midnight.then(|| value.wrapping_div(DAY)).ok_or_else(does_not_fit)?;
        }
        if let Some(digits) = digits {
            let end = power_of_ten(digits.into()).ok_or_else(does_not_fit)?;
            if value >= end || value <= end.wrapping_neg() {
                return Err(does_not_fit());
            }
        }
        if let T::Decimal128(..) | T::Decimal256(..) = data_type {
            return Ok(Value::Wide(value));
        }
        let key = Key::of(data_type).ok_or_else(|| self.mismatch(data_type))?;
        let word = value.to_i128().and_then(|value| key.of_integer(value));
        word.map(Value::Word).ok_or_else(does_not_fit)
    }

    /// A float as one of another type, which must have its value.
    fn float(&self, value: f64, data_type: &DataType) -> Result<u64> {
        let key = Key::of(data_type).ok_or_else(|| self.mismatch(data_type))?;
        let bits = match data_type {
            DataType::Float16 => f16::from_f64(value).to_bits().into(),
            DataType::Float32 => (value as f32).to_bits().into(),
            DataType::Float64 => value.to_bits(),
            _ => return Err(self.mismatch(data_type)),
        };
        let word = key.of_bits(bits);
        let back = key.float(word);
        if back == value || value.is_nan() {
            return Ok(word);
        }
        Err(self.between_floats(value, data_type))
    }

    /// The error of a number that a type of floats does not have, `value` or about it.
    fn between_floats(&self, value: f64, data_type: &DataType) -> Error {
        let nearest = match data_type {
            DataType::Float16 => format!("{}", f16::from_f64(value).to_f64()),
            DataType::Float32 => format!("{}_f32", value as f32),
            _ => format!("{value:?}"),
        };
        Error::expression(format!(
            "the literal {self} does not fit {data_type}, whose nearest value is {nearest}"
        ))
    }

    /// The only value of an array.
    fn arrow_value(&self, array: &ArrayRef, data_type: &DataType) -> Result<Option<Value>> {
        if array.len() != 1 {
            let what = format!("a literal of {} rows, one is needed", array.len());
            return Err(Error::expression(what));
        }
        let strings = |of: &DataType| physical_of(of) == Physical::Bytes;
        let same = array.data_type() == data_type
            || strings(array.data_type())
                && strings(data_type)
                && is_text(array.data_type()) == is_text(data_type);
        let value = match array.is_valid(0) {
            true => Some(value_of(array, 0).ok_or_else(|| self.mismatch(data_type))?),
            false => None,
        };
        match value {
            value if same => Ok(value),
            Some(Value::Bytes(text)) if is_text(array.data_type()) && iso::is_for(data_type) => {
                Self::Text(String::from_utf8_lossy(&text).into_owned()).for_type(data_type)
            }
            value => self.converted(array.data_type(), value, data_type),
        }
    }

    /// A value of another type, which the column's type may have as well.
    fn converted(
        &self,
        from: &DataType,
        value: Option<Value>,
        to: &DataType,
    ) -> Result<Option<Value>> {
        use DataType as T;
        let mismatch = || self.mismatch(to);
        let whole = |word| {
            let key = Key::of(from).ok_or_else(mismatch)?;
            Ok::<_, Error>(i256::from_i128(key.integer(word)))
        };
        if let (Some((kind, unit)), Some((other, _))) = (unit_of(from), unit_of(to))
            && kind == other
        {
            let Some(Value::Word(word)) = value else { return Ok(None) };
            let days = if *from == T::Date32 { DAY } else { i256::ONE };
            return self.number(whole(word)?.wrapping_mul(days), unit, to).map(Some);
        }
        if !from.is_numeric() || !to.is_numeric() {
            return Err(mismatch());
        }
        let Some(value) = value else { return Ok(None) };
        let value = match (from, value) {
            (T::Float16 | T::Float32 | T::Float64, Value::Word(word)) => {
                let float = Key::of(from).ok_or_else(mismatch)?.float(word);
                match from {
                    _ if to.is_floating() => Value::Word(self.float(float, to)?),
                    T::Float64 => self.of_float(float, &format!("{float:e}"), to)?,
                    // Narrower floats have fewer digits.
                    T::Float32 => self.of_float(float, &format!("{:e}", float as f32), to)?,
                    _ => self.of_float(float, &digits_of_half(float), to)?,
                }
            }
            (
                T::Decimal32(_, scale)
                | T::Decimal64(_, scale)
                | T::Decimal128(_, scale)
                | T::Decimal256(_, scale),
                value,
            ) => {
                let unscaled = match value {
                    Value::Word(word) => whole(word)?,
                    Value::Wide(value) => value,
                    Value::Bytes(_) => return Err(mismatch()),
                };
                self.number(unscaled, *scale, to)?
            }
            (_, Value::Word(word)) => self.number(whole(word)?, 0, to)?,
            (_, Value::Wide(_) | Value::Bytes(_)) => return Err(mismatch()),
        };
        Ok(Some(value))
    }

    /// Whether it is no value.
    pub(super) fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Arrow(array) => array.len() == 1 && array.is_null(0),
            _ => false,
        }
    }

    /// The literal as an operand of arithmetic: a null, integer, decimal or float; none of others.
    pub(super) fn operand(&self) -> Option<Self> {
        use DataType as T;
        let Self::Arrow(array) = self else {
            let is_number = matches!(
                self,
                Self::Null | Self::Integer(_) | Self::Decimal { .. } | Self::Float(_)
            );
            return is_number.then(|| self.clone());
        };
        let data_type = array.data_type();
        if array.len() != 1 || !data_type.is_numeric() {
            return None;
        }
        if self.is_null() {
            return Some(Self::Null);
        }
        let unscaled = match value_of(array, 0)? {
            Value::Word(word) => {
                let key = Key::of(data_type)?;
                if key.is_float() {
                    return Some(Self::Float(key.float(word)));
                }
                key.integer(word)
            }
            Value::Wide(value) => value.to_i128()?,
            Value::Bytes(_) => return None,
        };
        Some(match data_type {
            T::Decimal32(_, scale)
            | T::Decimal64(_, scale)
            | T::Decimal128(_, scale)
            | T::Decimal256(_, scale) => Self::Decimal { unscaled, scale: *scale },
            _ => Self::Integer(unscaled),
        })
    }
}

/// The float nearest to `unscaled * 10^-scale`, and whether it is equal to that.
fn nearest_float(mut unscaled: i256, mut scale: i8) -> (f64, bool) {
    let ten = i256::from_i128(10);
    while scale > 0 && unscaled.wrapping_rem(ten) == i256::ZERO {
        (unscaled, scale) = (unscaled.wrapping_div(ten), scale - 1);
    }
    let digits = format!("{unscaled}e{}", -i16::from(scale));
    let float: f64 = digits.parse().unwrap_or(f64::NAN);
    let is_equal = || {
        if float == 0.0 || !float.is_finite() {
            return Some(float == 0.0 && unscaled == i256::ZERO);
        }
        // float = mantissa * 2^exponent, with an odd mantissa.
        let bits = float.abs().to_bits();
        let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
        let mantissa = if biased == 0 { fraction } else { fraction | 1 << 52 };
        let exponent = biased.max(1) - 1075 + mantissa.trailing_zeros() as i32;
        let mantissa = i256::from_i128((mantissa >> mantissa.trailing_zeros()).into());
        let power = |base: i128, exponent: i32| {
            i256::from_i128(base).checked_pow(exponent.max(0).unsigned_abs())
        };
        let number = (unscaled.wrapping_abs().checked_mul(power(10, -i32::from(scale))?)?)
            .checked_mul(power(2, -exponent)?)?;
        let back =
            mantissa.checked_mul(power(2, exponent)?)?.checked_mul(power(10, i32::from(scale))?)?;
        Some(number == back)
    };
    // What 256 bits do not hold has more digits than a float.
    (float, is_equal().unwrap_or(false))
}

/// The fewest digits that give a Float16.
fn digits_of_half(value: f64) -> String {
    let digits = |count: usize| format!("{value:.count$e}");
    let gives =
        |text: &String| text.parse().is_ok_and(|back| f16::from_f64(back) == f16::from_f64(value));
    (0..5).map(digits).find(gives).unwrap_or_else(|| digits(5))
}

/// Seconds of a day.
const DAY: i256 = i256::from_i128(86_400);

/// What a type of times counts, and in which unit: digits behind the point of a second. Dates are
/// local times; days of Date32 are converted from and to seconds.
fn unit_of(data_type: &DataType) -> Option<(&'static str, i8)> {
    let (kind, unit) = match data_type {
        DataType::Date32 => ("local times", &TimeUnit::Second),
        DataType::Date64 => ("local times", &TimeUnit::Millisecond),
        DataType::Timestamp(unit, None) => ("local times", unit),
        DataType::Timestamp(unit, Some(_)) => ("points in time", unit),
        DataType::Time32(unit) | DataType::Time64(unit) => ("times of day", unit),
        DataType::Duration(unit) => ("durations", unit),
        _ => return None,
    };
    let digits = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    Some((kind, digits))
}

/// Bounds of a chunk of strings: there need not be an upper one.
pub(super) fn string_bounds(bounds: &Statistics) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let bound = |array: &ArrayRef| match array.is_valid(0).then(|| value_of(array, 0)).flatten() {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    Some((bound(&bounds.min)?, bound(&bounds.max)))
}

/// A valid value of an array, if its type has an order.
pub(super) fn value_of(array: &dyn Array, row: usize) -> Option<Value> {
    let data_type = array.data_type();
    let bytes = |bytes: &[u8]| Some(Value::Bytes(bytes.to_vec()));
    match data_type {
        DataType::Boolean => Some(Value::Word(array.as_boolean().value(row).into())),
        DataType::Utf8 => bytes(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => bytes(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => bytes(array.as_string_view().value(row).as_bytes()),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row)),
        DataType::Decimal128(..) => {
            let array = array.as_primitive::<arrow_array::types::Decimal128Type>();
            Some(Value::Wide(i256::from_i128(array.value(row))))
        }
        DataType::Decimal256(..) => {
            let array = array.as_primitive::<arrow_array::types::Decimal256Type>();
            Some(Value::Wide(array.value(row)))
        }
        _ => {
            let key = Key::of(data_type)?;
            let width = data_type.primitive_width()?;
            let data = array.to_data();
            let bytes = data.buffers().first()?.get((data.offset() + row) * width..)?;
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes.get(..width)?);
            Some(Value::Word(key.of_bits(u64::from_le_bytes(word))))
        }
    }
}
