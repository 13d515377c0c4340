//! Filters as they are run: which rows, without a third truth value.
//!
//! SQL's logic has three values, but a filter keeps the rows where it is true. So an
//! expression is turned into the predicate of the rows where it is true, or where it is
//! false, in which nothing is null any more:
//!
//! ```text
//! true(a AND b)  = all(true(a), true(b))       false(a AND b) = any(false(a), false(b))
//! true(NOT a)    = false(a)                    true(a IS NULL) = all(not true(a), not false(a))
//! true(x < 5)    = x is valid and in ..=4      false(x < 5)    = x is valid and in 5..
//! ```
//!
//! Tests of one column that meet in `all` or `any` become one set of ranges.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::i256;

use super::automaton::{Automaton, CodeAutomaton};
use super::expr::Comparison;
use super::join::Probe;
use super::number::{Number, Width};
use crate::encoding::fsst::{Encoder, SymbolTable};
use crate::error::{Error, Result};
use crate::ranges::{Key, Ranges};

/// The rows that a filter keeps. Columns are numbered as the scan uses them.
#[derive(Debug, Clone)]
pub(crate) enum Predicate {
    /// All rows, or none.
    Constant(bool),
    /// Valid values of a column that pass a test.
    Test(usize, Test),
    /// Valid values of a column.
    IsValid(usize),
    /// Two numbers, both valid, compared, with integers that are wide enough.
    Compare(Comparison, Box<[Number; 2]>, Width),
    /// Valid keys that a lookup has.
    Probe(Probe),
    /// Rows that all of these keep.
    All(Vec<Predicate>),
    /// Rows that one of these keeps.
    Any(Vec<Predicate>),
    /// Rows that this does not keep.
    Not(Box<Predicate>),
}

/// What the valid values of a column are tested for.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// Values of up to 64 bits.
    Words(Key, Ranges<u64>),
    /// Values of 128 and 256 bits.
    Wide(Ranges<i256>),
    Bytes(Arc<BytesTest>),
}

/// What byte strings are tested for.
pub(crate) struct BytesTest {
    pub form: BytesForm,
    /// Bytes between which everything lies that passes: the first inclusive, the second
    /// exclusive, each if there is one. For pruning.
    pub span: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// Whether those pass that do not have the form.
    pub negated: bool,
    /// How forms that the span does not tell are written behind a column's name; all of them hold.
    said: Vec<String>,
    /// The test for the codes of each symbol table met so far; for bytes under no bytes.
    tables: Mutex<HashMap<Box<[u8]>, Arc<CodesTest>>>,
}

/// A test for the codes of one symbol table.
pub(crate) enum CodesTest {
    /// One of these, by length and then by their codes.
    OneOf(Vec<Vec<u8>>),
    Automaton(CodeAutomaton),
}

impl fmt::Debug for BytesTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("BytesTest").field("span", &self.span).field("negated", &self.negated))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CodesTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(values) => write!(f, "OneOf({} values)", values.len()),
            Self::Automaton(automaton) => write!(f, "Automaton({} states)", automaton.states()),
        }
    }
}

pub(crate) enum BytesForm {
    /// One of these, in order.
    OneOf(Vec<Vec<u8>>),
    /// What the automaton accepts.
    Automaton(Automaton),
}

impl BytesTest {
    pub fn new(form: BytesForm, span: (Option<Vec<u8>>, Option<Vec<u8>>), negated: bool) -> Self {
        Self { form, span, negated, said: Vec::new(), tables: Mutex::default() }
    }

    /// The test with how it is written behind a column's name.
    pub fn saying(self, text: impl Into<String>) -> Self {
        Self { said: vec![text.into()], ..self }
    }

    /// What is written behind a column's name if it is not negated, each to be true; values of a list
    /// have no such text.
    pub fn said(&self) -> Vec<String> {
        match &self.form {
            BytesForm::OneOf(_) => Vec::new(),
            BytesForm::Automaton(_) if self.said.is_empty() => said_of_span(&self.span),
            BytesForm::Automaton(_) => self.said.clone(),
        }
    }

    /// The test for the codes of a symbol table, or without one for the bytes themselves; made
    /// once for all chunks that have the same table.
    pub fn codes(&self, table: Option<&[u8]>) -> Result<Arc<CodesTest>> {
        let tables = || self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        // No table is as short as none.
        let key = table.unwrap_or_default();
        if let Some(test) = tables().get(key) {
            return Ok(test.clone());
        }
        let symbols = table.map(SymbolTable::try_from_bytes).transpose().map_err(Error::corrupt)?;
        let automaton = |automaton: &Automaton| {
            CodesTest::Automaton(match &symbols {
                Some(symbols) => automaton.over_codes(symbols),
                None => automaton.over_bytes(),
            })
        };
        let test = match &self.form {
            BytesForm::Automaton(form) => automaton(form),
            BytesForm::OneOf(values) => match symbols.as_ref().map(Encoder::new).transpose() {
                Ok(encoder) => {
                    let stored = |value: &Vec<u8>| match &encoder {
                        Some(encoder) => {
                            let mut codes = Vec::new();
                            encoder.encode(value, &[0, value.len()], &mut codes, &mut Vec::new());
                            codes
                        }
                        None => value.clone(),
                    };
                    let mut codes: Vec<Vec<u8>> = values.iter().map(stored).collect();
                    codes.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
                    CodesTest::OneOf(codes)
                }
                // A table that no encoder of ours takes: others' codes may be others.
                Err(_) => automaton(&Automaton::one_of(values.iter().map(Vec::as_slice))?),
            },
        };
        Ok(tables().entry(key.into()).or_insert(Arc::new(test)).clone())
    }

    /// The test that only those pass that pass both, if that is one: two automata are.
    fn and(&self, other: &Self) -> Option<Self> {
        let (BytesForm::Automaton(one), BytesForm::Automaton(two)) = (&self.form, &other.form)
        else {
            return None;
        };
        if self.negated || other.negated {
            return None;
        }
        // Where it would have too many states both are walked.
        let form = BytesForm::Automaton(one.and(two).ok()?);
        let from = self.span.0.clone().max(other.span.0.clone());
        let end = match (&self.span.1, &other.span.1) {
            (Some(one), Some(other)) => Some(one.min(other).clone()),
            (one, other) => one.clone().or(other.clone()),
        };
        let said = [self.said(), other.said()].concat();
        Some(Self { said, ..Self::new(form, (from, end), false) })
    }

    /// Whether bounds say that no value has the form; there need not be an upper one, and
    /// one that was cut is above the greatest value.
    pub fn is_outside(&self, least: &[u8], greatest: Option<&[u8]>) -> bool {
        let (from, end) = (self.span.0.as_deref(), self.span.1.as_deref());
        greatest.zip(from).is_some_and(|(most, from)| most < from)
            || end.is_some_and(|end| least >= end)
    }

    /// Whether a value passes.
    pub fn passes(&self, value: &[u8]) -> bool {
        let has = match &self.form {
            BytesForm::OneOf(values) => {
                values.binary_search_by(|one| one.as_slice().cmp(value)).is_ok()
            }
            BytesForm::Automaton(automaton) => automaton.matches(value),
        };
        has != self.negated
    }
}

/// How values between two bounds are written; a bound that ends in a zero byte is behind the value
/// before it.
fn said_of_span((from, end): &(Option<Vec<u8>>, Option<Vec<u8>>)) -> Vec<String> {
    let said = |bound: &Vec<u8>, [at, behind]: [&str; 2]| match bound.split_last() {
        Some((0, value)) => format!("{behind} {}", quoted(value)),
        _ => format!("{at} {}", quoted(bound)),
    };
    let from = from.as_ref().map(|from| said(from, [">=", ">"]));
    from.into_iter().chain(end.as_ref().map(|end| said(end, ["<", "<="]))).collect()
}

/// Text, or bytes that are none, as literals are written.
pub(super) fn quoted(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("b\"{}\"", bytes.escape_ascii()),
    }
}

impl Predicate {
    /// Rows that all keep.
    pub fn all(parts: impl IntoIterator<Item = Predicate>) -> Self {
        let mut kept: Vec<Predicate> = Vec::new();
        for part in flat(parts, |part| match part {
            Self::All(parts) => Ok(parts),
            other => Err(other),
        }) {
            match part {
                Self::Constant(true) => {}
                Self::Constant(false) => return Self::Constant(false),
                part => merge(
                    &mut kept,
                    part,
                    Ranges::intersection,
                    Ranges::intersection,
                    BytesTest::and,
                ),
            }
        }
        if kept.iter().any(Self::is_none) {
            return Self::Constant(false);
        }
        match kept.len() {
            0 => Self::Constant(true),
            1 => kept.remove(0),
            _ => Self::All(kept),
        }
    }

    /// Rows that one keeps.
    pub fn any(parts: impl IntoIterator<Item = Predicate>) -> Self {
        let mut kept: Vec<Predicate> = Vec::new();
        for part in flat(parts, |part| match part {
            Self::Any(parts) => Ok(parts),
            other => Err(other),
        }) {
            match part {
                Self::Constant(false) => {}
                Self::Constant(true) => return Self::Constant(true),
                part if part.is_none() => {}
                part => merge(&mut kept, part, Ranges::union, Ranges::union, |_, _| None),
            }
        }
        match kept.len() {
            0 => Self::Constant(false),
            1 => kept.remove(0),
            _ => Self::Any(kept),
        }
    }

    /// Rows that this does not keep.
    pub fn not(self) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(!value),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Rows that another one keeps as well, if there is another.
    pub fn and(self, other: Option<&Self>) -> Self {
        match other {
            None => self,
            Some(other) => Self::all([self, other.clone()]),
        }
    }

    /// Finds out how wide integers have to be, given the least and the greatest value of
    /// each column.
    pub fn fit(&mut self, bounds: &impl Fn(usize) -> (i256, i256)) -> Result<()> {
        match self {
            Self::Compare(_, numbers, width) => {
                for number in numbers.iter() {
                    *width = number.width(bounds)?.max(*width);
                }
                Ok(())
            }
            Self::All(parts) | Self::Any(parts) => {
                parts.iter_mut().try_for_each(|part| part.fit(bounds))
            }
            Self::Not(inner) => inner.fit(bounds),
            Self::Constant(_) | Self::Test(..) | Self::IsValid(_) | Self::Probe(_) => Ok(()),
        }
    }

    /// Calls `each` with the columns whose values it reads; a column may come more than once.
    pub fn values_read(&self, each: &mut impl FnMut(usize)) {
        match self {
            Self::Constant(_) | Self::IsValid(_) => {}
            Self::Test(column, _) => each(*column),
            Self::Compare(_, pair, _) => {
                let mut columns = Vec::new();
                pair.iter().for_each(|number| number.columns(&mut columns));
                columns.into_iter().for_each(each);
            }
            Self::Probe(probe) => each(probe.join.column),
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.values_read(each));
            }
            Self::Not(inner) => inner.values_read(each),
        }
    }

    /// Whether it is known to keep nothing.
    fn is_none(&self) -> bool {
        match self {
            Self::Constant(value) => !value,
            Self::Test(_, Test::Words(_, ranges)) => ranges.is_empty(),
            Self::Test(_, Test::Wide(ranges)) => ranges.is_empty(),
            _ => false,
        }
    }
}

/// The parts, and in place of those that are of the same kind as the whole their parts.
fn flat(
    parts: impl IntoIterator<Item = Predicate>,
    open: impl Fn(Predicate) -> Result<Vec<Predicate>, Predicate>,
) -> Vec<Predicate> {
    (parts.into_iter()).flat_map(|part| open(part).unwrap_or_else(|part| vec![part])).collect()
}

/// Adds a part; a test is joined with one of the same column where it can be.
fn merge(
    parts: &mut Vec<Predicate>,
    part: Predicate,
    words: impl Fn(&Ranges<u64>, &Ranges<u64>) -> Ranges<u64>,
    wide: impl Fn(&Ranges<i256>, &Ranges<i256>) -> Ranges<i256>,
    bytes: impl Fn(&BytesTest, &BytesTest) -> Option<BytesTest>,
) {
    if let Predicate::Test(column, test) = &part {
        for kept in &mut *parts {
            let Predicate::Test(of, kept) = kept else { continue };
            if of != column {
                continue;
            }
            match (kept, test) {
                (Test::Words(_, kept), Test::Words(_, ranges)) => {
                    *kept = words(kept, ranges);
                    return;
                }
                (Test::Wide(kept), Test::Wide(ranges)) => {
                    *kept = wide(kept, ranges);
                    return;
                }
                (Test::Bytes(kept), Test::Bytes(test)) => {
                    if let Some(both) = bytes(kept, test) {
                        *kept = Arc::new(both);
                        return;
                    }
                }
                _ => {}
            }
        }
    }
    parts.push(part);
}
