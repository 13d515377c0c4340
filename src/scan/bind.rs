//! From expressions to predicates: names, types and literals are checked here.

use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::{DataType, FieldRef, Schema, TimeUnit};

use super::automaton::Automaton;
use super::calendar;
use super::expr::{Comparison, DatePart, Expr, Operator, TextForm};
use super::join::{BoundJoin, Join, JoinedColumn, check_key};
use super::literal::{Literal, Value};
use super::number::{Number, Width};
use super::predicate::{BytesForm, BytesTest, Predicate, Test};
use crate::column::{is_text, physical_of};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::ranges::{Key, Ranges};

/// What turns expressions over a schema into predicates and numbers; it gathers the
/// columns that they use.
pub(super) struct Binder<'a> {
    schema: &'a Schema,
    /// Indices in the schema of the columns used so far.
    columns: Vec<usize>,
    joins: Vec<Arc<BoundJoin>>,
}

/// What a name stands for.
pub(super) enum Named<'a> {
    /// A column of the scan, by its number, and its type.
    Column(usize, &'a DataType),
    Joined(JoinedColumn),
}

impl<'a> Binder<'a> {
    pub fn new(schema: &'a Schema) -> Self {
        Self { schema, columns: Vec::new(), joins: Vec::new() }
    }

    /// Joins the rows with a lookup, whose columns have names in expressions from then on; the rows
    /// that it keeps.
    pub fn join(&mut self, join: &Join) -> Result<Predicate> {
        let Expr::Column(name) = &join.key else {
            let what = format!("{}: only columns are keys of joins", join.key);
            return Err(Error::expression(what));
        };
        if let Ok(Named::Joined(_)) = self.named(name) {
            let what =
                format!("column {name:?} is one of a lookup: keys of joins are the scan's own");
            return Err(Error::expression(what));
        }
        let (column, data_type) = self.column(name)?;
        check_key(name, data_type, &join.lookup)?;
        let table = join.lookup.table().clone();
        let key = Key::of(data_type).expect("keys have an order");
        let bound = Arc::new(BoundJoin { kind: join.kind, column, key, table });
        if bound.has_columns() {
            for field in join.lookup.columns() {
                let of_others = self.joins.iter().flat_map(|join| join.table.columns.iter());
                let mut known = of_others.map(|column| &column.field).chain(self.schema.fields());
                if known.any(|known| known.name() == field.name()) {
                    let name = field.name();
                    let what =
                        format!("column {name:?} of a lookup has the name of another column");
                    return Err(Error::expression(what));
                }
            }
            self.joins.push(bound.clone());
        }
        Ok(bound.predicate())
    }

    /// What a name stands for.
    pub fn named(&mut self, name: &str) -> Result<Named<'a>> {
        for join in &self.joins {
            let of = join.table.columns.iter().position(|column| column.field.name() == name);
            if let Some(column) = of {
                return Ok(Named::Joined(JoinedColumn { join: join.clone(), column }));
            }
        }
        self.column(name).map(|(column, data_type)| Named::Column(column, data_type))
    }

    /// Whether what a name stands for may be null.
    pub fn is_nullable(&mut self, name: &str) -> Result<bool> {
        Ok(match self.named(name)? {
            Named::Joined(column) => column.field().is_nullable(),
            Named::Column(number, _) => self.schema.field(self.columns[number]).is_nullable(),
        })
    }

    /// The column of a lookup that is the only one in an expression, if it is one.
    fn only_joined(&mut self, expr: &Expr) -> Result<Option<JoinedColumn>> {
        let mut names = Vec::new();
        expr.names(&mut names);
        match names.as_slice() {
            [name] => Ok(match self.named(name)? {
                Named::Joined(column) => Some(column),
                Named::Column(..) => None,
            }),
            _ => Ok(None),
        }
    }

    /// Indices in the schema of the columns used, by their numbers.
    pub fn into_columns(self) -> Vec<usize> {
        self.columns
    }

    /// The number of a column, and its type.
    pub fn column(&mut self, name: &str) -> Result<(usize, &'a DataType)> {
        let fields = self.schema.fields();
        let mut found = (0..fields.len()).filter(|index| fields[*index].name() == name);
        let (index, more) = (found.next(), found.next());
        let index = index.ok_or_else(|| {
            let of_joins = self.joins.iter().flat_map(|join| join.table.columns.iter());
            no_column(name, fields.iter().chain(of_joins.map(|column| &column.field)))
        })?;
        if more.is_some() {
            return Err(Error::expression(format!("more than one column is called {name:?}")));
        }
        let used = self.columns.iter().position(|column| *column == index);
        let number = used.unwrap_or_else(|| {
            self.columns.push(index);
            self.columns.len() - 1
        });
        Ok((number, fields[index].data_type()))
    }

    /// The rows in which an expression is true.
    pub fn filter(&mut self, expr: &Expr) -> Result<Predicate> {
        self.rows(expr, true)
    }

    /// The rows in which an expression is `wanted`, and not null.
    fn rows(&mut self, expr: &Expr, wanted: bool) -> Result<Predicate> {
        // Those that are null where the column is.
        let is_test = match expr {
            Expr::Compare(..) | Expr::Text(..) | Expr::Column(_) => true,
            Expr::In(_, list) => {
                !list.is_empty() && list.iter().all(|item| matches!(item, Expr::Literal(_)))
            }
            _ => false,
        };
        if is_test && let Some(column) = self.only_joined(expr)? {
            return column.rows(expr, wanted);
        }
        match expr {
            Expr::And(left, right) | Expr::Or(left, right) => {
                let parts = [self.rows(left, wanted)?, self.rows(right, wanted)?];
                let is_and = matches!(expr, Expr::And(..));
                Ok(if is_and == wanted { Predicate::all(parts) } else { Predicate::any(parts) })
            }
            Expr::Not(inner) => self.rows(inner, !wanted),
            Expr::IsNull(inner) => {
                let known = self.known(inner)?;
                Ok(if wanted { known.not() } else { known })
            }
            Expr::Compare(comparison, left, right) => {
                let comparison = if wanted { *comparison } else { comparison.negated() };
                self.compare(comparison, left, right).map_err(|error| within(error, expr))
            }
            Expr::In(value, list) => self.one_of(value, list, wanted),
            Expr::Text(value, form, text) => {
                self.text(value, *form, text, wanted).map_err(|error| within(error, expr))
            }
            Expr::Literal(literal) => match literal.for_type(&DataType::Boolean) {
                Ok(Some(Value::Word(value))) => Ok(Predicate::Constant((value == 1) == wanted)),
                Ok(_) => Ok(Predicate::Constant(false)),
                Err(_) => Err(not_boolean(expr)),
            },
            Expr::Column(name) => match self.column(name)? {
                (column, DataType::Boolean) => {
                    let key = Key::of(&DataType::Boolean).expect("booleans have an order");
                    let word = u64::from(wanted);
                    let ranges = Ranges::between(word, word);
                    Ok(Predicate::Test(column, Test::Words(key, ranges)))
                }
                _ => Err(not_boolean(expr)),
            },
            Expr::Arithmetic(..) | Expr::Negative(_) | Expr::Float64(_) | Expr::Part(..) => {
                Err(not_boolean(expr))
            }
        }
    }

    /// The rows in which an expression is not null.
    fn known(&mut self, expr: &Expr) -> Result<Predicate> {
        match expr {
            Expr::Column(name) => Ok(match self.named(name)? {
                Named::Column(column, _) => Predicate::IsValid(column),
                Named::Joined(column) => column.valid(),
            }),
            Expr::Literal(literal) => Ok(Predicate::Constant(!literal.is_null())),
            Expr::Arithmetic(..) | Expr::Negative(_) | Expr::Float64(_) | Expr::Part(..) => {
                let number = self.number(expr)?;
                let mut columns = Vec::new();
                number.columns(&mut columns);
                let null = number.is_null();
                let valid = columns.into_iter().map(Predicate::IsValid);
                let valid = valid.chain(joined_valid(&number));
                Ok(if null { Predicate::Constant(false) } else { Predicate::all(valid) })
            }
            _ => Ok(Predicate::any([self.rows(expr, true)?, self.rows(expr, false)?])),
        }
    }

    fn compare(&mut self, comparison: Comparison, left: &Expr, right: &Expr) -> Result<Predicate> {
        match (left, right) {
            (Expr::Column(name), Expr::Literal(literal)) => {
                let (column, data_type) = self.column(name)?;
                let Some(value) = literal.for_type(data_type)? else {
                    check_ordered(name, data_type)?;
                    return Ok(Predicate::Constant(false));
                };
                test(data_type, comparison, value)
                    // Alone it may be one that nothing passes.
                    .map(|test| Predicate::all([Predicate::Test(column, test)]))
                    .ok_or_else(|| unordered(name, data_type))
            }
            (Expr::Literal(_), Expr::Column(_) | Expr::Part(..)) => {
                self.compare(comparison.swapped(), right, left)
            }
            _ => {
                if let (Expr::Part(DatePart::Year, value), Expr::Literal(year)) = (left, right)
                    && let Some(predicate) = self.compare_year(comparison, value, year)?
                {
                    return Ok(predicate);
                }
                let (left_type, right_type) = (self.type_of(left)?, self.type_of(right)?);
                let same_times = match (left_type, right_type) {
                    (Some(left), Some(right)) => left == right && left.is_temporal(),
                    _ => false,
                };
                let (left, right) = if same_times {
                    (self.word(left)?, self.word(right)?)
                } else {
                    (self.number(left)?, self.number(right)?)
                };
                if left.is_null() || right.is_null() {
                    return Ok(Predicate::Constant(false));
                }
                let (left, right) = Number::aligned(left, right)?;
                let valid: Vec<_> = joined_valid(&left).chain(joined_valid(&right)).collect();
                let pair = Box::new([left, right]);
                let compare = Predicate::Compare(comparison, pair, Width::Bits64);
                Ok(Predicate::all(valid.into_iter().chain([compare])))
            }
        }
    }

    /// The rows in which the year of a column compares so with a literal, as a test of the column; none if
    /// it is no test of one.
    fn compare_year(
        &mut self,
        comparison: Comparison,
        value: &Expr,
        year: &Literal,
    ) -> Result<Option<Predicate>> {
        let (Expr::Column(name), Some(Literal::Integer(year))) = (value, year.operand()) else {
            return Ok(None);
        };
        let Named::Column(column, data_type) = self.named(name)? else { return Ok(None) };
        let per_day = units_per_day(name, data_type)?;
        let key = Key::of(data_type).expect("dates have an order");
        let start = |year: i128| {
            let days = i64::try_from(year).ok().filter(|year| (-YEARS..YEARS).contains(year));
            let days = days.map(calendar::days_to)?;
            key.of_integer(i128::from(days) * i128::from(per_day))
        };
        let (Some(start), Some(end)) = (start(year), start(year.saturating_add(1))) else {
            return Ok(None);
        };
        let before = |end: u64| ranges(Comparison::Less, end, 0, key.max());
        let from = |start: u64| ranges(Comparison::GreaterOrEqual, start, 0, key.max());
        let ranges = match comparison {
            Comparison::Equal => from(start).intersection(&before(end)),
            Comparison::NotEqual => before(start).union(&from(end)),
            Comparison::Less => before(start),
            Comparison::LessOrEqual => before(end),
            Comparison::Greater => from(end),
            Comparison::GreaterOrEqual => from(start),
        };
        let test = Predicate::Test(column, Test::Words(key, ranges));
        Ok(Some(Predicate::all([test])))
    }

    /// The type of a column.
    fn type_of(&mut self, expr: &Expr) -> Result<Option<DataType>> {
        match expr {
            Expr::Column(name) => Ok(Some(match self.named(name)? {
                Named::Column(_, data_type) => data_type.clone(),
                Named::Joined(column) => column.column().field.data_type().clone(),
            })),
            _ => Ok(None),
        }
    }

    /// A column as the integers that stand for its values.
    fn word(&mut self, expr: &Expr) -> Result<Number> {
        let Expr::Column(name) = expr else { return self.number(expr) };
        match self.named(name)? {
            Named::Column(column, data_type) => {
                Number::column(column, data_type).ok_or_else(|| unordered(name, data_type))
            }
            Named::Joined(column) => {
                let data_type = column.column().field.data_type().clone();
                Number::joined(column).ok_or_else(|| unordered(name, &data_type))
            }
        }
    }

    fn one_of(&mut self, value: &Expr, list: &[Expr], wanted: bool) -> Result<Predicate> {
        if list.is_empty() {
            // Nothing is in an empty list, not even null.
            self.known(value)?;
            return Ok(Predicate::Constant(!wanted));
        }
        // `x IN (a, b)` is `x = a OR x = b`; of text one test for all.
        let literal = |expr: &Expr| match expr {
            Expr::Literal(literal) => Some(literal.clone()),
            _ => None,
        };
        let literals: Option<Vec<Literal>> = list.iter().map(literal).collect();
        if let (Expr::Column(name), Some(literals)) = (value, literals)
            && let (column, data_type) = self.column(name)?
            && physical_of(data_type) == Physical::Bytes
        {
            let mut values = Vec::new();
            let mut has_null = false;
            for literal in &literals {
                match literal.for_type(data_type).map_err(|error| within(error, value))? {
                    Some(Value::Bytes(bytes)) => values.push(bytes),
                    _ => has_null = true,
                }
            }
            if has_null && !wanted {
                return Ok(Predicate::Constant(false));
            }
            return Ok(Predicate::Test(column, Test::Bytes(one_of(values, !wanted))));
        }
        let equal = |item: &Expr| {
            Expr::Compare(Comparison::Equal, value.clone().into(), item.clone().into())
        };
        let parts = (list.iter().map(equal))
            .map(|part| self.rows(&part, wanted))
            .collect::<Result<Vec<_>>>()?;
        Ok(if wanted { Predicate::any(parts) } else { Predicate::all(parts) })
    }

    fn text(
        &mut self,
        value: &Expr,
        form: TextForm,
        text: &Literal,
        wanted: bool,
    ) -> Result<Predicate> {
        let Expr::Column(name) = value else {
            return Err(Error::expression("only columns are tested for text"));
        };
        let (column, data_type) = self.column(name)?;
        if physical_of(data_type) != Physical::Bytes
            || form == TextForm::Like && !is_text(data_type)
        {
            let what = format!("column {name:?} is {data_type}, which has no text to test");
            return Err(Error::expression(what));
        }
        let bytes = match text.for_type(data_type)? {
            Some(Value::Bytes(bytes)) => bytes,
            _ => return Ok(Predicate::Constant(false)),
        };
        let (automaton, span) = match form {
            TextForm::Prefix => {
                let end = behind_prefix(&bytes);
                (Automaton::prefix(&bytes)?, (Some(bytes), end))
            }
            TextForm::Suffix => (Automaton::suffix(&bytes)?, (None, None)),
            TextForm::Contains => (Automaton::contains(&bytes)?, (None, None)),
            TextForm::Like => {
                let pattern = std::str::from_utf8(&bytes)
                    .map_err(|error| Error::expression(error.to_string()))?;
                (Automaton::like(pattern)?, like_span(pattern))
            }
        };
        let said = form.said(text);
        let form = BytesForm::Automaton(automaton);
        let test = BytesTest::new(form, span, !wanted).saying(said);
        Ok(Predicate::Test(column, Test::Bytes(Arc::new(test))))
    }

    /// An expression as a number.
    pub fn number(&mut self, expr: &Expr) -> Result<Number> {
        let number = match expr {
            Expr::Column(name) => {
                let (number, data_type) = match self.named(name)? {
                    Named::Column(column, data_type) => {
                        (Number::column(column, data_type), data_type.clone())
                    }
                    Named::Joined(column) => {
                        let data_type = column.column().field.data_type().clone();
                        (Number::joined(column), data_type)
                    }
                };
                let is_number = data_type.is_numeric() && !data_type.is_temporal();
                return number.filter(|_| is_number).ok_or_else(|| {
                    Error::expression(format!(
                        "column {name:?} is {data_type}, which cannot be computed with"
                    ))
                });
            }
            Expr::Literal(literal) => return Number::literal(literal),
            Expr::Arithmetic(operator, left, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                match operator {
                    Operator::Add | Operator::Subtract | Operator::Multiply => {
                        Number::binary(*operator, left, right)
                    }
                    Operator::Divide | Operator::Remainder => {
                        Number::quotient(*operator, left, right)
                    }
                }
            }
            Expr::Negative(value) => Ok(self.number(value)?.negative()),
            Expr::Float64(value) => Ok(self.number(value)?.into_float64()),
            Expr::Part(part, value) => {
                let Expr::Column(name) = value.as_ref() else {
                    let what = format!("only columns have a {part}");
                    return Err(within(Error::expression(what), expr));
                };
                let data_type = self.type_of(value)?.expect("it is a column");
                let per_day = units_per_day(name, &data_type)?;
                Ok(self.word(value)?.part(*part, per_day))
            }
            _ => Err(Error::expression("it is true or false, where a number is needed")),
        };
        number.map_err(|error| within(error, expr))
    }
}

/// Years that are compared as days.
const YEARS: i64 = 1 << 40;

/// Units of a day, of a column of dates or timestamps.
fn units_per_day(name: &str, data_type: &DataType) -> Result<i64> {
    let of_second = match data_type {
        DataType::Date32 => return Ok(1),
        DataType::Date64 => 1000,
        DataType::Timestamp(_, Some(zone))
            if !["UTC", "Etc/UTC", "GMT", "Z", "+00:00"].contains(&zone.as_ref()) =>
        {
            return Err(Error::expression(format!(
                "column {name:?} has the time zone {zone:?}: only dates of UTC have parts"
            )));
        }
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        },
        _ => {
            let what = format!("column {name:?} is {data_type}: dates and timestamps have parts");
            return Err(Error::expression(what));
        }
    };
    Ok(86_400 * of_second)
}

/// The error of a name that no field has.
pub(super) fn no_column<'f>(name: &str, fields: impl Iterator<Item = &'f FieldRef>) -> Error {
    let names: Vec<_> = fields.map(|field| format!("{:?}", field.name())).collect();
    Error::expression(format!("no column {name:?} among {}", names.join(", ")))
}

/// Tests that the columns of lookups that a number is computed from are not null.
fn joined_valid(number: &Number) -> impl Iterator<Item = Predicate> + use<> {
    let mut columns = Vec::new();
    number.joined_columns(&mut columns);
    columns.into_iter().map(JoinedColumn::valid).collect::<Vec<_>>().into_iter()
}

/// The error, with the expression that it is about.
fn within(error: Error, expr: &Expr) -> Error {
    match error {
        Error::Expression { what } if !what.starts_with('`') => {
            Error::expression(format!("`{expr}`: {what}"))
        }
        other => other,
    }
}

fn not_boolean(expr: &Expr) -> Error {
    Error::expression(format!("`{expr}` is neither true nor false"))
}

fn unordered(name: &str, data_type: &DataType) -> Error {
    Error::expression(format!("column {name:?} is {data_type}, which cannot be compared"))
}

fn check_ordered(name: &str, data_type: &DataType) -> Result<()> {
    let ordered = Key::of(data_type).is_some()
        || matches!(physical_of(data_type), Physical::Bytes | Physical::I128 | Physical::I256);
    if ordered { Ok(()) } else { Err(unordered(name, data_type)) }
}

/// The values `x` of a type with `x <comparison> value`.
fn test(data_type: &DataType, comparison: Comparison, value: Value) -> Option<Test> {
    match value {
        Value::Word(word) => {
            let key = Key::of(data_type)?;
            Some(Test::Words(key, ranges(comparison, word, 0, key.max())))
        }
        Value::Wide(value) => Some(Test::Wide(ranges(comparison, value, i256::MIN, i256::MAX))),
        Value::Bytes(bytes) => Some(Test::Bytes(match comparison {
            Comparison::Equal => one_of(vec![bytes], false),
            Comparison::NotEqual => one_of(vec![bytes], true),
            _ => below(bytes, comparison).ok()?,
        })),
    }
}

fn ranges<B: crate::ranges::Bound>(
    comparison: Comparison,
    value: B,
    least: B,
    greatest: B,
) -> Ranges<B> {
    let before = || value.previous().filter(|before| *before >= least);
    let behind = || value.next().filter(|behind| *behind <= greatest);
    let below = |end: Option<B>| end.map_or_else(Ranges::none, |end| Ranges::between(least, end));
    let above = |start: Option<B>| {
        start.map_or_else(Ranges::none, |start| Ranges::between(start, greatest))
    };
    match comparison {
        Comparison::Equal => Ranges::between(value, value),
        Comparison::NotEqual => below(before()).union(&above(behind())),
        Comparison::Less => below(before()),
        Comparison::LessOrEqual => below(Some(value)),
        Comparison::Greater => above(behind()),
        Comparison::GreaterOrEqual => above(Some(value)),
    }
}

/// Byte strings that are one of some, or none of them.
fn one_of(mut values: Vec<Vec<u8>>, negated: bool) -> Arc<BytesTest> {
    values.sort_unstable();
    values.dedup();
    let behind = |last: &Vec<u8>| [last.as_slice(), &[0]].concat();
    let span = match (values.first(), values.last()) {
        (Some(first), Some(last)) => (Some(first.clone()), Some(behind(last))),
        _ => (None, Some(Vec::new())),
    };
    Arc::new(BytesTest::new(BytesForm::OneOf(values), span, negated))
}

/// Byte strings before or behind one.
fn below(bound: Vec<u8>, comparison: Comparison) -> Result<Arc<BytesTest>> {
    let behind = [bound.as_slice(), &[0]].concat();
    let (automaton, span) = match comparison {
        Comparison::Less => (Automaton::below(&bound, false)?, (None, Some(bound))),
        Comparison::LessOrEqual => (Automaton::below(&bound, true)?, (None, Some(behind))),
        Comparison::Greater => (Automaton::above(&bound, false)?, (Some(behind), None)),
        _ => (Automaton::above(&bound, true)?, (Some(bound), None)),
    };
    let form = BytesForm::Automaton(automaton);
    Ok(Arc::new(BytesTest::new(form, span, false)))
}

/// The least byte string behind all that begin so, if there is one.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Between what texts lie that are like a pattern: its first characters that stand for
/// themselves.
fn like_span(pattern: &str) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let plain = pattern.find(['%', '_', '\\']).unwrap_or(pattern.len());
    let prefix = &pattern.as_bytes()[..plain];
    (Some(prefix.to_vec()), behind_prefix(prefix))
}
