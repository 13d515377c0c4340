//! Numbers of a vector, computed from its columns.
//!
//! Integers are computed in 64 bits where the statistics of all chunks show that these
//! hold every step, else in 128; see `number.rs`. A column is decoded once for each
//! place where it stands.

use std::rc::Rc;

use arrow_buffer::i256;

use super::join::ChunkJoins;
use super::source::Source;
use super::{ALL, NONE, Selector, select};
use crate::error::{Error, Result};
use crate::lanes::{Mask, VECTOR};
use crate::ranges::{Key, Order};
use crate::scan::calendar;
use crate::scan::expr::{Comparison, Operator};
use crate::scan::lookup;
use crate::scan::number::{Form, Kind, Number, Width, power_as_float};

/// What computes numbers of one chunk.
#[derive(Clone)]
pub(in crate::scan) struct Numbers<'a> {
    sources: Vec<Source<'a>>,
    width: Width,
    joins: Rc<ChunkJoins<'a>>,
}

impl<'a> Numbers<'a> {
    /// Of a chunk of each column, with integers of this width.
    pub(super) fn new(sources: Vec<Source<'a>>, joins: &Rc<ChunkJoins<'a>>, width: Width) -> Self {
        Self { sources, width, joins: joins.clone() }
    }

    /// How wide its integers are.
    pub fn width(&self) -> Width {
        self.width
    }

    /// The test of two numbers.
    pub fn compare(self, comparison: Comparison, pair: &'a [Number; 2]) -> Compared<'a> {
        Compared { numbers: self, comparison, pair }
    }

    /// Integers of a vector; those of rows without a value are anything.
    pub fn integers(&self, number: &Number, vector: usize) -> Result<[i128; VECTOR]> {
        let mut out = [0_i128; VECTOR];
        match self.width {
            Width::Bits64 => {
                let mut narrow = [0_i64; VECTOR];
                self.compute(number, vector, &mut narrow)?;
                for (out, narrow) in out.iter_mut().zip(narrow) {
                    *out = narrow.into();
                }
            }
            Width::Bits128 => self.compute(number, vector, &mut out)?,
        }
        Ok(out)
    }

    /// Numbers of a vector in their own type.
    pub fn compute<S: Scalar>(
        &self,
        number: &Number,
        vector: usize,
        out: &mut [S; VECTOR],
    ) -> Result<()> {
        self.steps(number, vector, out)?;
        if number.is_computed() {
            out.iter_mut().for_each(|value| *value = value.with_one_nan());
        }
        Ok(())
    }

    /// The same with NaN as the processor makes it.
    fn steps<S: Scalar>(
        &self,
        number: &Number,
        vector: usize,
        out: &mut [S; VECTOR],
    ) -> Result<()> {
        match &number.form {
            Form::Null => out.fill(S::default()),
            Form::Integer(value) => out.fill(S::of_integer(*value)),
            Form::Float(value) => out.fill(S::of_float(*value)),
            Form::Words(column, key) => words(&self.sources[*column], *key, vector, out)?,
            Form::Wide(column) => {
                let source = &self.sources[*column];
                if let Some(narrow) = source.narrow() {
                    return words(narrow, Key::HIGHEST_WORD, vector, out);
                }
                let mut values = [i256::ZERO; VECTOR];
                select::wide_values(source.node(), vector, &mut values)
                    .map_err(|error| source.place(error))?;
                for (out, value) in out.iter_mut().zip(values) {
                    *out = S::of_integer(value.as_i128());
                }
            }
            Form::Joined(joined) => {
                let mut entries = [0; VECTOR];
                self.joins.of(&joined.join)?.entries(vector, &ALL, &mut entries)?;
                let column = joined.column();
                let code = |entry: u64| column.code(entry);
                match column.numbers() {
                    lookup::Numbers::Integers(values) => {
                        let value = |entry| values.get(code(entry)).copied().unwrap_or(0);
                        fill(out, entries.map(|entry| S::of_integer(value(entry))));
                    }
                    lookup::Numbers::Floats(values) => {
                        let value = |entry| values.get(code(entry)).copied().unwrap_or(0.0);
                        fill(out, entries.map(|entry| S::of_float(value(entry))));
                    }
                }
            }
            Form::Negative(inner) => {
                self.steps(inner, vector, out)?;
                out.iter_mut().for_each(|value| *value = value.negative());
            }
            Form::Part(part, inner, per_day) => {
                let mut values = [0_i64; VECTOR];
                self.steps(inner, vector, &mut values)?;
                let part = |value| calendar::part_of(*part, value, *per_day);
                fill(out, values.map(|value| S::of_word(part(value))));
            }
            Form::Scaled(inner, factor) => {
                self.steps(inner, vector, out)?;
                let factor = S::of_integer(*factor);
                out.iter_mut().for_each(|value| *value = value.times(factor));
            }
            Form::Operation(operator, left, right) => {
                let mut other = [S::default(); VECTOR];
                self.steps(left, vector, out)?;
                self.steps(right, vector, &mut other)?;
                // A loop for each operator, so that it is inlined and vectorised.
                match operator {
                    Operator::Add => apply(out, &other, S::plus),
                    Operator::Subtract => apply(out, &other, S::minus),
                    Operator::Multiply => apply(out, &other, S::times),
                    Operator::Divide => apply(out, &other, S::quotient),
                    Operator::Remainder => apply(out, &other, S::remainder),
                }
            }
            Form::Float64(inner) => match inner.kind {
                Kind::Exact { scale } => {
                    let power = power_as_float(scale);
                    let float = |value: f64| if scale >= 0 { value / power } else { value * power };
                    if self.width == Width::Bits64 {
                        let mut values = [0_i64; VECTOR];
                        self.steps(inner, vector, &mut values)?;
                        fill(out, values.map(|value| S::of_float(float(value as f64))));
                    } else {
                        let values = self.integers(inner, vector)?;
                        fill(out, values.map(|value| S::of_float(float(value as f64))));
                    }
                }
                _ => {
                    let mut values = [0_f32; VECTOR];
                    self.steps(inner, vector, &mut values)?;
                    fill(out, values.map(|value| S::of_float(value.into())));
                }
            },
        }
        Ok(())
    }
}

/// Words of a vector as scalars; those of rows without a value are anything.
pub(super) fn words<S: Scalar>(
    source: &Source<'_>,
    key: Key,
    vector: usize,
    out: &mut [S; VECTOR],
) -> Result<()> {
    /// Decodes words of a type to scalars.
    macro_rules! decode {
        ($word:ty, $scalar:expr) => {{
            let mut words = [<$word>::default(); VECTOR];
            source.read(vector, &mut words)?;
            for (out, word) in out.iter_mut().zip(words) {
                *out = $scalar(word);
            }
        }};
    }
    match (key.bits, key.order) {
        (8, Order::Unsigned) => decode!(u8, |word: u8| S::of_word(word.into())),
        (8, _) => decode!(u8, |word: u8| S::of_word((word as i8).into())),
        (16, Order::Unsigned) => decode!(u16, |word: u16| S::of_word(word.into())),
        (16, _) => decode!(u16, |word: u16| S::of_word((word as i16).into())),
        (32, Order::Unsigned) => decode!(u32, |word: u32| S::of_word(word.into())),
        (32, Order::Signed) => decode!(u32, |word: u32| S::of_word((word as i32).into())),
        (32, _) => decode!(u32, |word: u32| S::of_bits(word.into())),
        (64, Order::Unsigned) => decode!(u64, |word: u64| S::of_integer(word.into())),
        (64, Order::Signed) => decode!(u64, |word: u64| S::of_word(word as i64)),
        (64, _) => decode!(u64, S::of_bits),
        _ => return Err(Error::corrupt(format!("numbers of {} bits", key.bits))),
    }
    Ok(())
}

/// Applies an operation to the values of two vectors.
fn apply<S: Scalar>(out: &mut [S; VECTOR], other: &[S; VECTOR], operation: impl Fn(S, S) -> S) {
    for (value, other) in out.iter_mut().zip(other) {
        *value = operation(*value, *other);
    }
}

fn fill<S: Scalar>(out: &mut [S; VECTOR], values: [S; VECTOR]) {
    *out = values;
}

/// What numbers are computed in.
pub(in crate::scan) trait Scalar: Copy + Default {
    fn of_word(value: i64) -> Self;
    fn of_integer(value: i128) -> Self;
    /// The float of these bits, of its own type.
    fn of_bits(bits: u64) -> Self;
    fn of_float(value: f64) -> Self;
    fn negative(self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn quotient(self, other: Self) -> Self;
    fn remainder(self, other: Self) -> Self;
    /// Compares, floats in total order.
    fn order(self, other: Self) -> std::cmp::Ordering;
    /// NaN as the positive quiet one without a payload: processors differ in what they make.
    fn with_one_nan(self) -> Self {
        self
    }
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        /// Wrapping: only where statistics lie does anything pass the type.
        impl Scalar for $type {
            fn of_word(value: i64) -> Self {
                value.into()
            }

            fn of_integer(value: i128) -> Self {
                value as Self
            }

            fn of_bits(_: u64) -> Self {
                0
            }

            fn of_float(_: f64) -> Self {
                0
            }

            fn negative(self) -> Self {
                self.wrapping_neg()
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn quotient(self, other: Self) -> Self {
                // Rows without a value may have a divisor of zero.
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }

            fn remainder(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }

            fn order(self, other: Self) -> std::cmp::Ordering {
                self.cmp(&other)
            }
        }
    )*};
}
integer!(i64 i128);

macro_rules! float {
    ($($type:ident $bits:ident)*) => {$(
        impl Scalar for $type {
            fn of_word(value: i64) -> Self {
                value as Self
            }

            fn of_integer(value: i128) -> Self {
                value as Self
            }

            fn of_bits(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            fn of_float(value: f64) -> Self {
                value as Self
            }

            fn negative(self) -> Self {
                -self
            }

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn minus(self, other: Self) -> Self {
                self - other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }

            fn quotient(self, other: Self) -> Self {
                self / other
            }

            fn remainder(self, _: Self) -> Self {
                self
            }

            fn order(self, other: Self) -> std::cmp::Ordering {
                self.total_cmp(&other)
            }

            fn with_one_nan(self) -> Self {
                if self.is_nan() { $type::NAN } else { self }
            }
        }
    )*};
}
float!(f32 u32 f64 u64);

/// Two numbers compared.
pub(in crate::scan) struct Compared<'a> {
    numbers: Numbers<'a>,
    comparison: Comparison,
    pair: &'a [Number; 2],
}

impl Compared<'_> {
    fn compare<S: Scalar>(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let mut left = [S::default(); VECTOR];
        let mut right = [S::default(); VECTOR];
        self.numbers.compute(&self.pair[0], vector, &mut left)?;
        self.numbers.compute(&self.pair[1], vector, &mut right)?;
        *mask = NONE;
        for (position, (left, right)) in left.into_iter().zip(right).enumerate() {
            let order = left.order(right);
            let holds = match self.comparison {
                Comparison::Equal => order.is_eq(),
                Comparison::NotEqual => order.is_ne(),
                Comparison::Less => order.is_lt(),
                Comparison::LessOrEqual => order.is_le(),
                Comparison::Greater => order.is_gt(),
                Comparison::GreaterOrEqual => order.is_ge(),
            };
            mask[position / 64] |= u64::from(holds) << (position % 64);
        }
        Ok(())
    }
}

impl Selector for Compared<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        match (self.pair[0].kind, self.numbers.width) {
            (Kind::Float32, _) => self.compare::<f32>(vector, mask),
            (Kind::Float64, _) => self.compare::<f64>(vector, mask),
            (Kind::Exact { .. }, Width::Bits64) => self.compare::<i64>(vector, mask),
            (Kind::Exact { .. }, Width::Bits128) => self.compare::<i128>(vector, mask),
        }
    }
}
