//! Parts of a filter as text: what is tested, not what was asked for. Tests of one column have become
//! one, and their literals values of its type.

use std::sync::Arc;

use arrow_array::{Array, make_array};
use arrow_buffer::{Buffer, i256};
use arrow_cast::display::array_value_to_string;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::query::UsedColumn;
use crate::column::is_text;
use crate::ranges::{Bound, Key};
use crate::scan::expr::Operator;
use crate::scan::join::Probe;
use crate::scan::number::{Form, Kind, Number};
use crate::scan::predicate::{BytesForm, BytesTest, Predicate, Test, quoted};

/// Values of a list that are written; of others there is a count.
const MOST_VALUES: usize = 4;

/// Columns by their numbers in predicates.
pub(super) struct Names<'a>(pub &'a [UsedColumn<'a>]);

impl Names<'_> {
    fn name(&self, column: usize) -> &str {
        self.0[column].field.name()
    }

    /// A predicate without parts.
    pub fn predicate(&self, predicate: &Predicate) -> String {
        match predicate {
            Predicate::IsValid(column) => format!("{} IS NOT NULL", self.name(*column)),
            Predicate::Test(column, test) => {
                let data_type = self.0[*column].field.data_type();
                self::test(self.name(*column), data_type, test)
            }
            Predicate::Compare(comparison, pair, _) => {
                let [left, right] = pair.each_ref().map(|number| self.number(number));
                format!("{left} {comparison} {right}")
            }
            Predicate::Probe(probe) => self.probe(probe),
            Predicate::Constant(value) => value.to_string(),
            Predicate::All(_) | Predicate::Any(_) | Predicate::Not(_) => {
                unreachable!("parts have steps of their own")
            }
        }
    }

    fn probe(&self, probe: &Probe) -> String {
        let table = &probe.join.table;
        let (name, key) = (self.name(probe.join.column), table.key.name());
        let mut text = format!("{name} IN lookup {key} of {} keys", table.keys.len());
        if let Some(codes) = &probe.codes {
            let column = &table.columns[codes.column];
            let name = column.field.name();
            let (count, all) = (codes.set.count_set_bits(), codes.set.len());
            text += " with ";
            text += &match count <= MOST_VALUES {
                true => {
                    let values = codes.set.set_indices().map(|code| value(&column.values, code));
                    one_of(name, &values.collect::<Vec<_>>(), count)
                }
                false => format!("{count} of {all} values of {name}"),
            };
        }
        text
    }

    fn number(&self, number: &Number) -> String {
        let part = |number: &Number| match number.form {
            Form::Operation(..) => format!("({})", self.number(number)),
            _ => self.number(number),
        };
        match &number.form {
            Form::Words(column, _) | Form::Wide(column) => self.name(*column).to_owned(),
            Form::Joined(joined) => joined.column().field.name().clone(),
            Form::Null => "null".to_owned(),
            Form::Integer(value) => match number.kind {
                Kind::Exact { scale } => decimal(*value, scale),
                _ => value.to_string(),
            },
            Form::Float(value) => format!("{value:?}"),
            Form::Operation(operator @ (Operator::Multiply | Operator::Add), left, right) => {
                // Of a row of the same operators the left ones come first anyway.
                let is_row = matches!(&left.form, Form::Operation(of, ..) if of == operator);
                let left = if is_row { self.number(left) } else { part(left) };
                format!("{left} {operator} {}", part(right))
            }
            Form::Operation(operator, left, right) => {
                format!("{} {operator} {}", part(left), part(right))
            }
            Form::Negative(inner) => format!("-{}", part(inner)),
            // The digits of a scale that both sides of an operator have.
            Form::Scaled(inner, _) => self.number(inner),
            Form::Part(part, inner, _) => format!("{part}({})", self.number(inner)),
            Form::Float64(inner) => format!("CAST({} AS DOUBLE)", self.number(inner)),
        }
    }
}

fn test(name: &str, data_type: &DataType, test: &Test) -> String {
    match test {
        Test::Words(key, ranges) => {
            let value = |word: u64| word_of(data_type, *key, word);
            in_ranges(name, ranges.as_slice(), (0, key.max()), value)
        }
        Test::Wide(ranges) => {
            let value = |value: i256| match data_type.primitive_width() {
                Some(16) => of_bytes(data_type, &value.as_i128().to_le_bytes()),
                _ => of_bytes(data_type, &value.to_le_bytes()),
            };
            in_ranges(name, ranges.as_slice(), (i256::MIN, i256::MAX), value)
        }
        Test::Bytes(test) => strings(name, test),
    }
}

fn strings(name: &str, test: &Arc<BytesTest>) -> String {
    if let BytesForm::OneOf(values) = &test.form {
        let few: Vec<String> = values.iter().take(MOST_VALUES).map(|value| quoted(value)).collect();
        return match test.negated {
            true => none_of(name, &few, values.len()),
            false => one_of(name, &few, values.len()),
        };
    }
    let said = test.said();
    match (said.as_slice(), test.negated) {
        ([said], true) => format!("{name} NOT {said}"),
        (said, negated) => {
            let said: Vec<String> = said.iter().map(|said| format!("{name} {said}")).collect();
            let all = said.join(" AND ");
            if negated { format!("NOT ({all})") } else { all }
        }
    }
}

/// Values in ranges, of an order from `ends.0` to `ends.1`.
fn in_ranges<B: Bound>(
    name: &str,
    ranges: &[(B, B)],
    (least, greatest): (B, B),
    value: impl Fn(B) -> String,
) -> String {
    let few = |values: &mut dyn Iterator<Item = String>| -> Vec<String> {
        values.take(MOST_VALUES).collect()
    };
    match ranges {
        [(from, to)] if (*from, *to) == (least, greatest) => format!("{name} IS NOT NULL"),
        [(from, to)] if from == to => format!("{name} = {}", value(*from)),
        [(from, to)] if *from == least => format!("{name} <= {}", value(*to)),
        [(from, to)] if *to == greatest => format!("{name} >= {}", value(*from)),
        [(from, to)] => format!("{name} BETWEEN {} AND {}", value(*from), value(*to)),
        [(first, _), .., (_, last)]
            if (*first, *last) == (least, greatest)
                && ranges.windows(2).all(|pair| pair[0].1.next() == pair[1].0.previous()) =>
        {
            let mut gaps = ranges[1..].iter().filter_map(|(from, _)| from.previous()).map(value);
            none_of(name, &few(&mut gaps), ranges.len() - 1)
        }
        _ => {
            let mut texts = ranges.iter().map(|(from, to)| match from == to {
                true => value(*from),
                false => format!("{} TO {}", value(*from), value(*to)),
            });
            one_of(name, &few(&mut texts), ranges.len())
        }
    }
}

/// One of `all` values, of which some are given.
fn one_of(name: &str, values: &[String], all: usize) -> String {
    match values {
        [value] if all == 1 => format!("{name} = {value}"),
        _ => format!("{name} IN ({})", listed(values, all)),
    }
}

fn none_of(name: &str, values: &[String], all: usize) -> String {
    match values {
        [value] if all == 1 => format!("{name} <> {value}"),
        _ => format!("{name} NOT IN ({})", listed(values, all)),
    }
}

fn listed(values: &[String], all: usize) -> String {
    let more = all.saturating_sub(values.len());
    let more = (more > 0).then(|| format!("{more} more"));
    values.iter().cloned().chain(more).collect::<Vec<_>>().join(", ")
}

/// The value of a key of a type of up to 64 bits.
fn word_of(data_type: &DataType, key: Key, word: u64) -> String {
    let bits = key.to_bits(word);
    match key.bits {
        1 => (bits == 1).to_string(),
        bits_of_value => of_bytes(data_type, &bits.to_le_bytes()[..bits_of_value as usize / 8]),
    }
}

/// The value that some bytes are.
fn of_bytes(data_type: &DataType, bytes: &[u8]) -> String {
    let data = ArrayData::builder(data_type.clone()).len(1).add_buffer(Buffer::from(bytes));
    match data.build() {
        Ok(data) => value(&make_array(data), 0),
        Err(_) => "?".to_owned(),
    }
}

/// A value of an array.
fn value(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    match array_value_to_string(array, row) {
        Ok(text) if is_text(array.data_type()) => format!("{text:?}"),
        Ok(text) => text,
        Err(_) => "?".to_owned(),
    }
}

/// `value * 10^-scale`.
fn decimal(value: i128, scale: i16) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    match usize::try_from(scale) {
        Ok(0) => value.to_string(),
        Ok(scale) => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, behind) = digits.split_at(digits.len() - scale);
            format!("{sign}{whole}.{behind}")
        }
        Err(_) => format!("{value}e{}", -scale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Ranges;

    #[test]
    fn ranges_read_as_comparisons() {
        let text = |ranges: Vec<(u64, u64)>| {
            in_ranges("a", Ranges::of(ranges).as_slice(), (0, 255), |value| value.to_string())
        };
        assert_eq!(text(vec![(0, 255)]), "a IS NOT NULL");
        assert_eq!(text(vec![(7, 7)]), "a = 7");
        assert_eq!(text(vec![(0, 7)]), "a <= 7");
        assert_eq!(text(vec![(7, 255)]), "a >= 7");
        assert_eq!(text(vec![(7, 9)]), "a BETWEEN 7 AND 9");
        assert_eq!(text(vec![(0, 4), (6, 255)]), "a <> 5");
        assert_eq!(text(vec![(0, 4), (6, 7), (9, 255)]), "a NOT IN (5, 8)");
        assert_eq!(text(vec![(1, 1), (3, 5)]), "a IN (1, 3 TO 5)");
        assert_eq!(
            text((0..9).map(|value| (value * 2, value * 2)).collect()),
            "a IN (0, 2, 4, 6, 5 more)"
        );
        assert_eq!(text(Vec::new()), "a IN ()");
    }

    #[test]
    fn values_read_as_those_of_their_type() {
        let of = |data_type: DataType, value: i128| {
            let key = Key::of(&data_type).unwrap();
            word_of(&data_type, key, key.of_integer(value).unwrap())
        };
        assert_eq!(of(DataType::Date32, 9204), "1995-03-15");
        assert_eq!(of(DataType::Decimal64(10, 2), -1999), "-19.99");
        assert_eq!(of(DataType::Boolean, 1), "true");
        let float = Key::of(&DataType::Float32).unwrap();
        let word = float.of_bits(1.5_f32.to_bits().into());
        assert_eq!(word_of(&DataType::Float32, float, word), "1.5");
        assert_eq!([decimal(-5, 2), decimal(1999, 2), decimal(7, 0)], ["-0.05", "19.99", "7"]);
    }
}
