//! Expressions over the columns of a batch.
//!
//! A tree that says what is wanted; [`bind`](super::bind) gives it a meaning for a
//! schema. Names of methods are those of DataFusion, whose users will know them.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Not, Rem, Sub};

use super::literal::Literal;

/// An expression: a column, a literal, or something computed from others.
///
/// ```
/// use lanepack::scan::{col, lit};
/// let cheap = col("price").lt(lit(10.0)).and(col("name").starts_with("A"));
/// assert_eq!(cheap.to_string(), r#"price < 10.0 AND name LIKE "A" || '%'"#);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Expr {
    /// A column, by name.
    Column(String),
    /// A constant.
    Literal(Literal),
    /// Two values compared.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// Whether a value is one of some.
    In(Box<Expr>, Vec<Expr>),
    /// Whether a text or binary value has a form.
    Text(Box<Expr>, TextForm, Literal),
    /// Both are true.
    And(Box<Expr>, Box<Expr>),
    /// At least one is true.
    Or(Box<Expr>, Box<Expr>),
    /// It is false.
    Not(Box<Expr>),
    /// It is null.
    IsNull(Box<Expr>),
    /// Two numbers computed with.
    Arithmetic(Operator, Box<Expr>, Box<Expr>),
    /// A number with the other sign.
    Negative(Box<Expr>),
    /// A number as Float64, rounded to the nearest.
    Float64(Box<Expr>),
    /// A part of a date or timestamp, as an integer.
    Part(DatePart, Box<Expr>),
}

/// A part of a date in the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatePart {
    /// The year; 0 is the one before year 1.
    Year,
    /// The month, 1 to 12.
    Month,
    /// The day of the month, 1 to 31.
    Day,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that holds where this one does not.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// The comparison of the two sides swapped.
    pub(super) fn swapped(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

/// Arithmetic on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; of integers the quotient without its fraction.
    Divide,
    /// `%`; of integers the remainder, which has the dividend's sign.
    Remainder,
}

/// What a text or binary value begins with, ends with, contains, or is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextForm {
    /// It begins so.
    Prefix,
    /// It ends so.
    Suffix,
    /// It is in there.
    Contains,
    /// SQL's LIKE: `%` is any text, `_` any character, and `\` takes the meaning from
    /// what follows it.
    Like,
}

impl TextForm {
    /// How it is written behind what has the form.
    pub(super) fn said(self, text: &Literal) -> String {
        match self {
            Self::Prefix => format!("LIKE {text} || '%'"),
            Self::Suffix => format!("LIKE '%' || {text}"),
            Self::Contains => format!("LIKE '%' || {text} || '%'"),
            Self::Like => format!("LIKE {text}"),
        }
    }
}

/// A column of the batch, by name.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::Column(name.into())
}

/// A constant.
///
/// ```
/// use lanepack::scan::{Literal, lit};
/// assert_eq!(lit(5).to_string(), "5");
/// assert_eq!(lit(Literal::decimal(1999, 2)).to_string(), "1999e-2");
/// ```
pub fn lit(value: impl Into<Literal>) -> Expr {
    Expr::Literal(value.into())
}

impl<T: Into<Literal>> From<T> for Expr {
    fn from(value: T) -> Self {
        lit(value)
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $comparison:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, other: impl Into<Expr>) -> Expr {
            Expr::Compare(Comparison::$comparison, self.into(), Box::new(other.into()))
        }
    )*};
}

macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident $form:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, text: impl Into<Literal>) -> Expr {
            Expr::Text(self.into(), TextForm::$form, text.into())
        }
    )*};
}

impl Expr {
    comparisons! {
        /// `self = other`. Floats are equal if their bits are: NaN to itself, and -0.0 is
        /// less than 0.0, as in Arrow's kernels.
        eq Equal;
        /// `self <> other`
        not_eq NotEqual;
        /// `self < other`. Of floats in IEEE 754 total order: NaN is the greatest.
        lt Less;
        /// `self <= other`
        lt_eq LessOrEqual;
        /// `self > other`
        gt Greater;
        /// `self >= other`
        gt_eq GreaterOrEqual;
    }

    forms! {
        /// Whether a text or binary value begins with another.
        starts_with Prefix;
        /// Whether it ends with another.
        ends_with Suffix;
        /// Whether another is in it.
        contains Contains;
        /// `self LIKE pattern`: `%` is any text, `_` any character, `\` takes the meaning
        /// from what follows it.
        like Like;
    }

    /// `self NOT LIKE pattern`
    #[must_use]
    pub fn not_like(self, pattern: impl Into<Literal>) -> Expr {
        !self.like(pattern)
    }

    /// `self BETWEEN low AND high`: both ends included.
    #[must_use]
    pub fn between(self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        self.clone().gt_eq(low).and(self.lt_eq(high))
    }

    /// `self IN (list)`; as in SQL, null where nothing in the list is equal and something
    /// in it is null.
    #[must_use]
    pub fn in_list<T: Into<Expr>>(self, list: impl IntoIterator<Item = T>) -> Expr {
        Expr::In(self.into(), list.into_iter().map(Into::into).collect())
    }

    /// Both are true; false if one is false, else null if one is null.
    #[must_use]
    pub fn and(self, other: Expr) -> Expr {
        Expr::And(self.into(), other.into())
    }

    /// One is true; true if one is true, else null if one is null.
    #[must_use]
    pub fn or(self, other: Expr) -> Expr {
        Expr::Or(self.into(), other.into())
    }

    /// `self IS NULL`
    #[must_use]
    pub fn is_null(self) -> Expr {
        Expr::IsNull(self.into())
    }

    /// `self IS NOT NULL`
    #[must_use]
    pub fn is_not_null(self) -> Expr {
        !self.is_null()
    }

    /// A number as Float64, rounded to the nearest, ties to even.
    #[must_use]
    pub fn to_float64(self) -> Expr {
        Expr::Float64(self.into())
    }
}

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident $part:ident;)*) => {
        impl Expr {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self) -> Expr {
                Expr::Part(DatePart::$part, self.into())
            }
        )*}
    };
}

parts! {
    /// The year of a date or timestamp (of one in a time zone, of UTC), an integer.
    ///
    /// ```
    /// use lanepack::scan::col;
    /// assert_eq!(col("day").year().eq(1994).to_string(), "year(day) = 1994");
    /// ```
    year Year;
    /// The month of a date or timestamp, 1 to 12.
    month Month;
    /// The day of the month of a date or timestamp, 1 to 31.
    day Day;
}

macro_rules! operators {
    ($($trait:ident $method:ident $operator:ident;)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;

            fn $method(self, other: T) -> Expr {
                Expr::Arithmetic(Operator::$operator, self.into(), Box::new(other.into()))
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Subtract;
    Mul mul Multiply;
    Div div Divide;
    Rem rem Remainder;
}

impl Neg for Expr {
    type Output = Expr;

    fn neg(self) -> Expr {
        Expr::Negative(self.into())
    }
}

impl Not for Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        Expr::Not(self.into())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        })
    }
}

impl fmt::Display for DatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
        })
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// An operand, in brackets if it binds no closer than what it is part of.
        struct Part<'a>(&'a Expr, u8);
        impl fmt::Display for Part<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.0.binding() > self.1 { self.0.fmt(f) } else { write!(f, "({})", self.0) }
            }
        }
        let binding = self.binding();
        let part = |expr| Part(expr, binding);
        match self {
            Self::Column(name) => f.write_str(name),
            Self::Literal(literal) => literal.fmt(f),
            Self::Compare(comparison, left, right) => {
                write!(f, "{} {comparison} {}", part(left), part(right))
            }
            Self::In(value, list) => {
                write!(f, "{} IN (", part(value))?;
                for (index, item) in list.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Self::Text(value, form, text) => write!(f, "{} {}", part(value), form.said(text)),
            // As many as there are stand in a row without brackets.
            Self::And(left, right) => write!(f, "{} AND {}", Part(left, 1), part(right)),
            Self::Or(left, right) => write!(f, "{} OR {}", Part(left, 0), part(right)),
            Self::Not(value) => write!(f, "NOT {}", part(value)),
            Self::IsNull(value) => write!(f, "{} IS NULL", part(value)),
            Self::Arithmetic(operator, left, right) => {
                write!(f, "{} {operator} {}", Part(left, binding - 1), part(right))
            }
            Self::Negative(value) => write!(f, "-{}", part(value)),
            Self::Float64(value) => write!(f, "CAST({value} AS DOUBLE)"),
            Self::Part(part, value) => write!(f, "{part}({value})"),
        }
    }
}

impl Expr {
    /// Adds the names of its columns, each once.
    pub(super) fn names<'e>(&'e self, names: &mut Vec<&'e str>) {
        match self {
            Self::Column(name) => {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            Self::Literal(_) => {}
            Self::Compare(_, left, right)
            | Self::And(left, right)
            | Self::Or(left, right)
            | Self::Arithmetic(_, left, right) => {
                left.names(names);
                right.names(names);
            }
            Self::In(value, list) => {
                value.names(names);
                list.iter().for_each(|item| item.names(names));
            }
            Self::Text(value, ..)
            | Self::Not(value)
            | Self::IsNull(value)
            | Self::Negative(value)
            | Self::Float64(value)
            | Self::Part(_, value) => value.names(names),
        }
    }

    /// How closely the parts of an expression hold together when it is written.
    fn binding(&self) -> u8 {
        match self {
            Self::Or(..) => 1,
            Self::And(..) => 2,
            Self::Not(_) => 3,
            Self::Compare(..) | Self::In(..) | Self::Text(..) | Self::IsNull(_) => 4,
            Self::Arithmetic(Operator::Add | Operator::Subtract, ..) => 5,
            Self::Arithmetic(..) => 6,
            Self::Negative(_) => 7,
            Self::Column(_) | Self::Literal(_) | Self::Float64(_) | Self::Part(..) => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_read_as_sql() {
        for (expr, text) in [
            (col("a").lt(5).and(col("b").eq("x")), r#"a < 5 AND b = "x""#),
            (
                col("a").eq(1).or(col("b").eq(2)).and(col("c").is_null()),
                "(a = 1 OR b = 2) AND c IS NULL",
            ),
            (!(col("a").eq(1).and(col("b").eq(2))), "NOT (a = 1 AND b = 2)"),
            ((col("a") + 1) * col("b") - 2, "(a + 1) * b - 2"),
            (col("a") - (col("b") - 1), "a - (b - 1)"),
            (col("a").in_list([1, 2]).is_not_null(), "NOT (a IN (1, 2)) IS NULL"),
            (-(col("a") / 3.5).to_float64(), "-CAST(a / 3.5 AS DOUBLE)"),
            (col("a").between(1, None::<i64>), "a >= 1 AND a <= null"),
        ] {
            assert_eq!(expr.to_string(), text);
        }
    }
}
