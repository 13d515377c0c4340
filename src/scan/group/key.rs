//! What rows are grouped by: each key of a row is a code, and all of them one number.
//!
//! ```text
//! column of a lookup    the code in its dictionary
//! numbers, times        the value, less the least one of the column
//! computed integers     the value, less the least one that bounds of their columns allow
//! strings               the number in a dictionary of all chunks, which grows as they are read
//! null                  0, where there may be some; all others are one more
//!
//! group   code of key 0 + codes(key 0) * (code of key 1 + codes(key 1) * (code of key 2 ..
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::decode::codes::StringCodes;
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Int64Array, LargeBinaryArray, LargeStringArray,
    UInt32Array, UInt64Array, make_array,
};
use arrow_buffer::{BooleanBuffer, MutableBuffer, NullBuffer, i256};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use crate::column::{is_text, physical_of};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::interner::Interner;
use crate::ranges::Key;
use crate::scan::aggregate::sum_type;
use crate::scan::bind::{Binder, Named};
use crate::scan::expr::Expr;
use crate::scan::join::JoinedColumn;
use crate::scan::number::{Kind, Number, Width};

/// A key, checked against a schema.
pub(in crate::scan) struct GroupKey {
    pub source: KeySource,
    name: String,
    data_type: DataType,
    /// Whether the column of the result may have nulls, whatever this one has.
    is_nullable: bool,
    /// Whether code 0 is null.
    pub has_nulls: bool,
    /// Codes of values, without null.
    pub values: u128,
}

/// Where the codes of a key come from.
pub(in crate::scan) enum KeySource {
    Joined(JoinedColumn),
    /// The values of a column, as keys (`ranges.rs`) above the least one.
    Words {
        column: usize,
        key: Key,
        least: u64,
    },
    /// Computed integers, and decimals of 128 bits, above the least one.
    Number {
        number: Number,
        width: Width,
        least: i128,
    },
    Strings {
        column: usize,
        strings: Mutex<Interner>,
    },
    /// Strings whose codes a device knows.
    Coded {
        column: usize,
        codes: Arc<StringCodes>,
    },
}

/// Codes of strings: no more than there are rows.
const STRING_CODES: u128 = 1 << 32;

impl GroupKey {
    pub fn new(expr: &Expr, binder: &mut Binder<'_>) -> Result<Self> {
        let Expr::Column(name) = expr else { return Self::computed(expr, binder) };
        let is_nullable = binder.is_nullable(name)?;
        let (source, data_type) = match binder.named(name)? {
            Named::Joined(column) => {
                let data_type = column.column().field.data_type().clone();
                (KeySource::Joined(column), data_type)
            }
            Named::Column(column, data_type) => {
                let source = match (Key::of(data_type), physical_of(data_type)) {
                    (Some(key), _) => KeySource::Words { column, key, least: 0 },
                    (None, Physical::Bytes) => {
                        KeySource::Strings { column, strings: Mutex::default() }
                    }
                    (None, Physical::I128) => {
                        let number = Number::column(column, data_type);
                        let number = number.expect("decimals are numbers");
                        KeySource::Number { number, width: Width::Bits64, least: 0 }
                    }
                    _ => {
                        let what = format!("column {name:?} is {data_type}, which has no groups");
                        return Err(Error::expression(what));
                    }
                };
                (source, data_type.clone())
            }
        };
        let name = name.clone();
        Ok(Self { source, name, data_type, is_nullable, has_nulls: true, values: 0 })
    }

    /// A key that is computed.
    fn computed(expr: &Expr, binder: &mut Binder<'_>) -> Result<Self> {
        let number = binder.number(expr)?;
        let mut columns = Vec::new();
        number.columns(&mut columns);
        let what = match number.kind {
            _ if number.is_null() => "it is null in every row",
            Kind::Exact { .. } if columns.is_empty() => "it is the same in all rows",
            Kind::Exact { .. } => {
                let (name, data_type) = (expr.to_string(), sum_type(&number)?);
                let source = KeySource::Number { number, width: Width::Bits64, least: 0 };
                let has_nulls = true;
                return Ok(Self {
                    source,
                    name,
                    data_type,
                    is_nullable: true,
                    has_nulls,
                    values: 0,
                });
            }
            _ => "computed floats have no groups",
        };
        Err(Error::expression(format!("{expr}: {what}")))
    }

    /// Finds out how many codes there are, given the least and the greatest integer of each column and
    /// whether it has nulls, and the number of rows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for computed integers that may pass 128 bits, or span more than 64.
    pub fn fit(
        &mut self,
        column: &impl Fn(usize) -> ((i256, i256), bool),
        rows: usize,
    ) -> Result<()> {
        match &mut self.source {
            KeySource::Joined(joined) => {
                self.has_nulls = joined.may_be_null();
                self.values = joined.column().values.len() as u128;
            }
            KeySource::Words { column: number, key, least } => {
                let ((low, high), has_nulls) = column(*number);
                let end = |end: i256| end.to_i128().and_then(|end| key.of_integer(end));
                let (from, to) = match (end(low), end(high)) {
                    (Some(from), Some(to)) if from <= to && !key.is_float() => (from, to),
                    _ => (0, key.max()),
                };
                *least = from;
                self.has_nulls = has_nulls;
                self.values = u128::from(to - from) + 1;
            }
            KeySource::Number { number, width, least } => {
                *width = Width::Bits64;
                let reached = number.reach(&|of| column(of).0, width).map_err(|_| {
                    let what = format!("groups of {}, whose values may pass 128 bits", self.name);
                    Error::unsupported(what)
                })?;
                let ends = reached.and_then(|(low, high)| Some((low.to_i128()?, high.to_i128()?)));
                // Without values nothing is computed.
                let (low, high) = ends.unwrap_or((0, 0));
                let span = high.wrapping_sub(low) as u128;
                if high < low || span > u64::MAX.into() {
                    let what =
                        format!("groups of {}, whose values may span more than 64 bits", self.name);
                    return Err(Error::unsupported(what));
                }
                let (mut columns, mut joined) = (Vec::new(), Vec::new());
                number.columns(&mut columns);
                number.joined_columns(&mut joined);
                self.has_nulls = columns.into_iter().any(|of| column(of).1)
                    || joined.into_iter().any(JoinedColumn::may_be_null);
                *least = low;
                self.values = span + 1;
            }
            KeySource::Strings { column: number, .. } => {
                self.has_nulls = column(*number).1;
                self.values = STRING_CODES.min(rows as u128);
            }
            KeySource::Coded { column: number, codes } => {
                self.has_nulls = column(*number).1;
                self.values = codes.strings.len() as u128;
            }
        }
        Ok(())
    }

    /// All codes, of null as well.
    pub fn codes(&self) -> u128 {
        self.values + u128::from(self.has_nulls)
    }

    /// The columns whose values are read.
    pub fn columns(&self) -> Vec<usize> {
        match &self.source {
            KeySource::Joined(joined) => vec![joined.join.column],
            KeySource::Number { number, .. } => {
                let mut columns = Vec::new();
                number.columns(&mut columns);
                columns
            }
            KeySource::Words { column, .. }
            | KeySource::Strings { column, .. }
            | KeySource::Coded { column, .. } => vec![*column],
        }
    }

    /// The key with other codes of its strings: those that a device knows, or none.
    pub fn with_codes(&mut self, known: Option<Arc<StringCodes>>) {
        match (&self.source, known) {
            (KeySource::Strings { column, .. }, Some(codes)) => {
                let column = *column;
                self.source = KeySource::Coded { column, codes };
            }
            (KeySource::Coded { column, .. }, None) => {
                let column = *column;
                self.source = KeySource::Strings { column, strings: Mutex::default() };
            }
            _ => {}
        }
    }

    pub fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.is_nullable)
    }

    /// The values of codes, none of null.
    pub fn array(&self, codes: &[Option<u64>]) -> Result<ArrayRef> {
        match &self.source {
            KeySource::Joined(joined) => {
                let codes = codes.iter().map(|code| code.map(|code| code as u32));
                let codes = UInt32Array::from_iter(codes);
                Ok(arrow_select::take::take(&joined.column().values, &codes, None)?)
            }
            KeySource::Strings { strings, .. } => {
                strings_of(&lock(strings), codes, &self.data_type)
            }
            KeySource::Coded { codes: known, .. } => {
                strings_of(&known.strings, codes, &self.data_type)
            }
            KeySource::Number { least, .. } => self.integers(codes, *least),
            KeySource::Words { key, least, .. } => {
                let words = codes.iter().map(|code| key.to_bits(code.unwrap_or(0) + least));
                let nulls = codes.iter().map(Option::is_some).collect::<BooleanBuffer>();
                let nulls = NullBuffer::new(nulls);
                if key.bits == 1 {
                    let bits = words.map(|word| word == 1).collect::<BooleanBuffer>();
                    return Ok(Arc::new(BooleanArray::new(bits, Some(nulls))));
                }
                let width = (key.bits / 8) as usize;
                let mut bytes = MutableBuffer::with_capacity(codes.len() * width);
                words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()[..width]));
                let data = ArrayData::builder(self.data_type.clone())
                    .len(codes.len())
                    .add_buffer(bytes.into())
                    .nulls(Some(nulls).filter(|nulls| nulls.null_count() > 0));
                Ok(make_array(data.build()?))
            }
        }
    }
}

impl GroupKey {
    /// Integers above the least one.
    fn integers(&self, codes: &[Option<u64>], least: i128) -> Result<ArrayRef> {
        let value = |code: &Option<u64>| code.map(|code| least.wrapping_add(code.into()));
        let values = codes.iter().map(value);
        let too_large = |value: i128| {
            Error::too_large(format!(
                "{} is {value}, which {} does not hold",
                self.name, self.data_type
            ))
        };
        Ok(match self.data_type {
            DataType::Int64 => {
                let value = |value: i128| i64::try_from(value).map_err(|_| too_large(value));
                let values = values.map(|of| of.map(value).transpose());
                Arc::new(values.collect::<Result<Int64Array>>()?)
            }
            DataType::UInt64 => {
                let value = |value: i128| u64::try_from(value).map_err(|_| too_large(value));
                let values = values.map(|of| of.map(value).transpose());
                Arc::new(values.collect::<Result<UInt64Array>>()?)
            }
            DataType::Decimal128(digits, scale) => {
                let values = Decimal128Array::from_iter(values);
                let values = values.with_precision_and_scale(digits, scale)?;
                values.validate_decimal_precision(digits)?;
                Arc::new(values)
            }
            _ => unreachable!("integers and decimals are computed"),
        })
    }
}

pub(in crate::scan) fn lock(strings: &Mutex<Interner>) -> MutexGuard<'_, Interner> {
    strings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Strings as an array of a type.
fn strings_of(strings: &Interner, codes: &[Option<u64>], data_type: &DataType) -> Result<ArrayRef> {
    let values = codes.iter().map(|code| code.map(|code| strings.get(code as u32)));
    let values: ArrayRef = match is_text(data_type) {
        true => {
            fn text(value: Option<&[u8]>) -> Result<Option<&str>, std::str::Utf8Error> {
                value.map(std::str::from_utf8).transpose()
            }
            let texts = values.map(text).collect::<Result<LargeStringArray, _>>();
            Arc::new(
                texts
                    .map_err(|error| Error::corrupt(format!("text that is not UTF-8: {error}")))?,
            )
        }
        false => Arc::new(values.collect::<LargeBinaryArray>()),
    };
    Ok(arrow_cast::cast(&values, data_type)?)
}
