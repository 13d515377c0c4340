//! Aggregates of a chunk.

use std::rc::Rc;

use arrow_buffer::i256;

use super::join::{ChunkJoins, Keys};
use super::source::Source;
use super::{Filter, NONE, Validity, compute::Scalar, count, rows, select};
use crate::chunk::NodeView;
use crate::column::CompressedColumn;
use crate::encoding::{self, Output, Physical};
use crate::error::{Error, Result};
use crate::lanes::{Mask, VECTOR, mask};
use crate::ranges::Key;
use crate::scan::aggregate::{Comparable, Input, Plan, RowFilter, State, wider};
use crate::scan::cpu::Numbers;
use crate::scan::group::States;
use crate::scan::join::JoinedColumn;
use crate::scan::number::{Kind, Number, Width};

/// The lanes of a vector's sum of floats.
const LANES: usize = 32;

/// What the kept rows of chunk `index` come to, for each aggregate.
pub(in crate::scan) fn chunk(
    plans: &[&Plan],
    filter: &Filter<'_>,
    columns: &[&CompressedColumn],
    index: usize,
    rows: usize,
) -> Result<Vec<State>> {
    let mut states: Vec<State> = plans.iter().map(|plan| plan.start()).collect();
    if filter.constant() == Some(false) {
        return Ok(states);
    }
    let sources = Source::of_all(columns, index);
    let joins = ChunkJoins::new(columns, index, filter.joins());
    let inputs = ChunkInput::of_plans(plans, columns, &sources, (index, rows), &joins)?;
    for vector in 0..rows.div_ceil(VECTOR) {
        let mask = filter.select(vector)?;
        if mask == NONE {
            continue;
        }
        for (state, input) in states.iter_mut().zip(&inputs) {
            let of_vector = input.state(vector, mask)?;
            let before = std::mem::replace(state, State::Count(0));
            *state = before.then(of_vector);
        }
    }
    Ok(states)
}

/// The rows of a chunk in which some columns, and columns of lookups, are valid.
pub(super) struct ValidRows<'a> {
    validity: Vec<Validity<'a>>,
    joined: Vec<(Rc<dyn Keys + 'a>, &'a JoinedColumn)>,
}

impl<'a> ValidRows<'a> {
    pub fn new(
        of: &[usize],
        joined: Vec<&'a JoinedColumn>,
        columns: &[&'a CompressedColumn],
        index: usize,
        joins: &Rc<ChunkJoins<'a>>,
    ) -> Result<Self> {
        let validity = |column: &usize| {
            let column = columns[*column];
            Validity::of(&column.chunks()[index], column)
                .map_err(|error| error.in_chunk(index).in_column(column.field().name()))
        };
        let validity = of.iter().map(validity).collect::<Result<_>>()?;
        let of_join = |column: &'a JoinedColumn| Ok((joins.of(&column.join)?, column));
        let joined = joined.into_iter().map(of_join).collect::<Result<_>>()?;
        Ok(Self { validity, joined })
    }

    /// Leaves these rows in a mask.
    pub fn retain(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.validity.iter().for_each(|validity| validity.retain(vector, mask));
        for (join, joined) in &self.joined {
            join.retain(vector, mask)?;
            if let Some(null) = joined.column().null {
                let mut entries = [0; VECTOR];
                join.entries(vector, mask, &mut entries)?;
                let before = *mask;
                for row in rows(&before) {
                    if joined.column().code(entries[row]) == null {
                        mask::set(mask, row, false);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The input of an aggregate in one chunk.
pub(super) struct ChunkInput<'a> {
    pub input: &'a Input,
    valid: ValidRows<'a>,
    filter: Option<Filter<'a>>,
    numbers: Numbers<'a>,
    source: Option<Source<'a>>,
}

impl<'a> ChunkInput<'a> {
    /// That of each plan.
    pub fn of_plans(
        plans: &[&'a Plan],
        columns: &[&'a CompressedColumn],
        sources: &[Source<'a>],
        (index, rows): (usize, usize),
        joins: &Rc<ChunkJoins<'a>>,
    ) -> Result<Vec<Self>> {
        let input = |plan: &&'a Plan| Self::new(plan, columns, sources, (index, rows), joins);
        plans.iter().map(input).collect()
    }

    fn new(
        plan: &'a Plan,
        columns: &[&'a CompressedColumn],
        sources: &[Source<'a>],
        (index, rows): (usize, usize),
        joins: &Rc<ChunkJoins<'a>>,
    ) -> Result<Self> {
        let input = &plan.input;
        let width = match input {
            Input::Sum(_, width) | Input::Bounds(_, width) => *width,
            _ => Width::Bits64,
        };
        let source = match input {
            Input::ColumnBounds(column, _) => Some(sources[*column].clone()),
            _ => None,
        };
        let valid =
            ValidRows::new(&input.columns(), input.joined_columns(), columns, index, joins)?;
        let filter = |filter: &'a RowFilter| {
            Filter::with_joins(&filter.predicate, columns, index, rows, joins)
        };
        let filter = plan.filter.as_ref().map(filter).transpose()?;
        let numbers = Numbers::new(sources.to_vec(), joins, width);
        Ok(Self { input, valid, filter, numbers, source })
    }

    /// Leaves the rows that it is of.
    fn retain(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.valid.retain(vector, mask)?;
        self.filter.as_ref().map_or(Ok(()), |filter| filter.retain(vector, mask))
    }

    /// Adds the kept rows of a vector to the states of their groups.
    pub fn add_to_groups(
        &self,
        vector: usize,
        mask: &Mask,
        kept: &[u16],
        groups: &[u32],
        states: &mut States,
    ) -> Result<()> {
        let mut valid = *mask;
        self.retain(vector, &mut valid)?;
        let rows = kept.iter().map(|row| usize::from(*row)).zip(groups.iter().copied());
        let valid = |row: &(usize, u32)| mask::has(&valid, row.0);
        let rows = rows.filter(valid).map(|(row, group)| (row, group as usize));
        /// Adds the values of rows to sums.
        macro_rules! add {
            ($number:expr, $scalar:ty, $sums:expr, $counts:expr, $into:expr) => {{
                let mut values = [<$scalar>::default(); VECTOR];
                self.numbers.compute($number, vector, &mut values)?;
                for (row, group) in rows {
                    $sums[group].add($into(values[row]));
                    $counts[group] += 1;
                }
            }};
        }
        match (self.input, states) {
            (Input::Rows | Input::Valid(..), States::Counts(counts)) => {
                rows.for_each(|(_, group)| counts[group] += 1);
            }
            (Input::Sum(number, _), States::Integers { sums, counts }) => {
                match self.numbers.width() {
                    Width::Bits64 => add!(number, i64, sums, counts, i128::from),
                    Width::Bits128 => add!(number, i128, sums, counts, i128::from),
                }
            }
            (Input::Sum(number, _), States::Floats { sums, counts }) => match number.kind {
                Kind::Float32 => add!(number, f32, sums, counts, f64::from),
                _ => add!(number, f64, sums, counts, f64::from),
            },
            (Input::Bounds(..) | Input::ColumnBounds(..), States::Bounds { states, .. }) => {
                self.each_bound(vector, rows, |group, of_row| {
                    let before = std::mem::replace(&mut states[group], State::Count(0));
                    states[group] = before.then(of_row);
                })?;
            }
            _ => return Err(Error::corrupt("states of another aggregate")),
        }
        Ok(())
    }

    /// Calls `each` with the group of each row, and the bounds of its value.
    fn each_bound(
        &self,
        vector: usize,
        rows: impl Iterator<Item = (usize, usize)>,
        mut each: impl FnMut(usize, State),
    ) -> Result<()> {
        let wide = |value: i256| State::Wide(Some((value, value)));
        match self.input {
            Input::Bounds(number, _) => match number.kind {
                Kind::Exact { .. } => {
                    let values = self.numbers.integers(number, vector)?;
                    rows.for_each(|(row, group)| each(group, wide(i256::from_i128(values[row]))));
                }
                Kind::Float32 => {
                    let mut values = [0_f32; VECTOR];
                    self.numbers.compute(number, vector, &mut values)?;
                    let state = |value: f64| State::FloatBounds(Some((value, value)));
                    rows.for_each(|(row, group)| each(group, state(values[row].into())));
                }
                Kind::Float64 => {
                    let mut values = [0_f64; VECTOR];
                    self.numbers.compute(number, vector, &mut values)?;
                    let state = |value: f64| State::FloatBounds(Some((value, value)));
                    rows.for_each(|(row, group)| each(group, state(values[row])));
                }
            },
            Input::ColumnBounds(_, comparable) => {
                let source = self.source.as_ref().ok_or_else(|| Error::corrupt("no column"))?;
                let node = source.node();
                match comparable {
                    Comparable::Words(key) => {
                        let words = match node.physical() {
                            Physical::Bool => bits(node, vector),
                            _ => words(source, vector),
                        };
                        let words = words.map_err(|error| source.place(error))?;
                        for (row, group) in rows {
                            let word = key.of_bits(words[row]);
                            each(group, State::Words(Some((word, word))));
                        }
                    }
                    Comparable::Wide => {
                        let mut values = [i256::ZERO; VECTOR];
                        select::wide_values(node, vector, &mut values)
                            .map_err(|error| source.place(error))?;
                        rows.for_each(|(row, group)| each(group, wide(values[row])));
                    }
                    Comparable::Bytes => {
                        let range = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
                        let mut lengths = vec![0; range.len()];
                        let bytes = encoding::decode_strings(node, range, &mut lengths)
                            .map_err(|error| source.place(error))?;
                        let end = |end: &mut usize, length: &u32| {
                            *end += *length as usize;
                            Some(*end)
                        };
                        let ends: Vec<usize> = lengths.iter().scan(0, end).collect();
                        for (row, group) in rows {
                            let value = &bytes[ends[row] - lengths[row] as usize..ends[row]];
                            each(group, State::Bytes(Some((value.to_vec(), value.to_vec()))));
                        }
                    }
                }
            }
            Input::Rows | Input::Valid(..) | Input::Sum(..) => {}
        }
        Ok(())
    }

    fn state(&self, vector: usize, mut mask: Mask) -> Result<State> {
        self.retain(vector, &mut mask)?;
        match self.input {
            Input::Rows | Input::Valid(..) => Ok(State::Count(count(&mask) as u64)),
            Input::Sum(number, _) => self.sum(number, vector, &mask),
            Input::Bounds(number, _) => self.bounds(number, vector, &mask),
            Input::ColumnBounds(_, comparable) => {
                let source = self.source.as_ref().ok_or_else(|| Error::corrupt("no column"))?;
                let bounds = match comparable {
                    Comparable::Words(key) => word_bounds(source, *key, vector, &mask),
                    Comparable::Wide => wide_bounds(source.node(), vector, &mask),
                    Comparable::Bytes => byte_bounds(source.node(), vector, &mask),
                };
                bounds.map_err(|error| source.place(error))
            }
        }
    }

    fn sum(&self, number: &Number, vector: usize, mask: &Mask) -> Result<State> {
        let kept = count(mask) as u64;
        if kept == 0 {
            return Ok(match number.kind {
                Kind::Exact { .. } => State::Integers { sum: i256::ZERO, count: 0 },
                _ => State::Floats { sum: 0.0, count: 0 },
            });
        }
        match (number.kind, self.numbers.width()) {
            (Kind::Exact { .. }, Width::Bits64) => {
                let mut values = [0_i64; VECTOR];
                self.numbers.compute(number, vector, &mut values)?;
                let sum: i128 = rows(mask).map(|row| i128::from(values[row])).sum();
                Ok(State::Integers { sum: i256::from_i128(sum), count: kept })
            }
            (Kind::Exact { .. }, Width::Bits128) => {
                let mut values = [0_i128; VECTOR];
                self.numbers.compute(number, vector, &mut values)?;
                let values = rows(mask).map(|row| i256::from_i128(values[row]));
                let sum = values.fold(i256::ZERO, i256::wrapping_add);
                Ok(State::Integers { sum, count: kept })
            }
            (Kind::Float32, _) => {
                let mut values = [0_f32; VECTOR];
                self.numbers.compute(number, vector, &mut values)?;
                let sum = sum_of_floats(&values.map(f64::from), mask);
                Ok(State::Floats { sum, count: kept })
            }
            (Kind::Float64, _) => {
                let mut values = [0_f64; VECTOR];
                self.numbers.compute(number, vector, &mut values)?;
                Ok(State::Floats { sum: sum_of_floats(&values, mask), count: kept })
            }
        }
    }

    fn bounds(&self, number: &Number, vector: usize, mask: &Mask) -> Result<State> {
        fn bounds<S: Scalar>(values: &[S; VECTOR], mask: &Mask) -> Option<(S, S)> {
            rows(mask).map(|row| (values[row], values[row])).fold(None, |bounds, value| {
                wider(bounds, Some(value), |one, other| one.order(*other))
            })
        }
        match number.kind {
            Kind::Exact { .. } => {
                let found = bounds(&self.numbers.integers(number, vector)?, mask);
                let wide = |(least, greatest)| (i256::from_i128(least), i256::from_i128(greatest));
                Ok(State::Wide(found.map(wide)))
            }
            Kind::Float32 => {
                let mut values = [0_f32; VECTOR];
                self.numbers.compute(number, vector, &mut values)?;
                let wide = |(least, greatest): (f32, f32)| (least.into(), greatest.into());
                Ok(State::FloatBounds(bounds(&values, mask).map(wide)))
            }
            Kind::Float64 => {
                let mut values = [0_f64; VECTOR];
                self.numbers.compute(number, vector, &mut values)?;
                Ok(State::FloatBounds(bounds(&values, mask)))
            }
        }
    }
}

/// The sum of the rows of a mask; see `scan/aggregate.rs` for its order.
fn sum_of_floats(values: &[f64; VECTOR], mask: &Mask) -> f64 {
    let mut sums = [0.0; LANES];
    for group in [0, 2, 1, 3] {
        for row in 0..8 {
            let start = row * 128 + group * LANES;
            let bits = mask[start / 64] >> (start % 64);
            for (lane, sum) in sums.iter_mut().enumerate() {
                // Nothing is added where nothing is kept: not even a NaN.
                *sum += if bits >> lane & 1 == 1 { values[start + lane] } else { 0.0 };
            }
        }
    }
    let mut apart = LANES / 2;
    while apart > 0 {
        for lane in 0..apart {
            sums[lane] += sums[lane + apart];
        }
        apart /= 2;
    }
    sums[0]
}

/// Words of a vector, zero-extended.
pub(super) fn words(source: &Source<'_>, vector: usize) -> Result<[u64; VECTOR]> {
    let mut out = [0; VECTOR];
    macro_rules! decode {
        ($word:ty) => {{
            let mut words = [<$word>::default(); VECTOR];
            source.read(vector, &mut words)?;
            for (out, word) in out.iter_mut().zip(words) {
                *out = word.into();
            }
        }};
    }
    let node = source.node();
    match node.physical().bits() {
        Some(8) => decode!(u8),
        Some(16) => decode!(u16),
        Some(32) => decode!(u32),
        Some(64) => source.read(vector, &mut out)?,
        _ => return Err(Error::corrupt(format!("words of a {} node", node.encoding()))),
    }
    Ok(out)
}

/// Booleans of a vector, as words.
pub(super) fn bits(node: NodeView<'_>, vector: usize) -> Result<[u64; VECTOR]> {
    let mut bits = arrow_buffer::BooleanBufferBuilder::new(VECTOR);
    let range = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
    let len = range.len();
    encoding::decode(node, range, Output::Bits(&mut bits))?;
    Ok(std::array::from_fn(|row| u64::from(row < len && bits.get_bit(row))))
}

fn word_bounds(source: &Source<'_>, key: Key, vector: usize, mask: &Mask) -> Result<State> {
    let node = source.node();
    if node.physical() == Physical::Bool {
        let bits = bits(node, vector)?;
        let kept = rows(mask).map(|row| bits[row]);
        let bounds = kept.fold(None, |bounds, bit| wider(bounds, Some((bit, bit)), u64::cmp));
        return Ok(State::Words(bounds));
    }
    let words = words(source, vector)?;
    let kept = rows(mask).map(|row| key.of_bits(words[row]));
    let bounds = kept.fold(None, |bounds, word| wider(bounds, Some((word, word)), u64::cmp));
    Ok(State::Words(bounds))
}

fn wide_bounds(node: NodeView<'_>, vector: usize, mask: &Mask) -> Result<State> {
    let mut values = [i256::ZERO; VECTOR];
    select::wide_values(node, vector, &mut values)?;
    let kept = rows(mask).map(|row| (values[row], values[row]));
    Ok(State::Wide(kept.fold(None, |bounds, value| wider(bounds, Some(value), i256::cmp))))
}

fn byte_bounds(node: NodeView<'_>, vector: usize, mask: &Mask) -> Result<State> {
    let range = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
    let mut lengths = vec![0; range.len()];
    let bytes = encoding::decode_strings(node, range, &mut lengths)?;
    let mut bounds: Option<(&[u8], &[u8])> = None;
    let mut start = 0;
    for (row, length) in lengths.iter().enumerate() {
        let value = &bytes[start..start + *length as usize];
        start += value.len();
        if mask::has(mask, row) {
            bounds = wider(bounds, Some((value, value)), |one, other| one.cmp(other));
        }
    }
    Ok(State::Bytes(bounds.map(|(least, greatest)| (least.to_vec(), greatest.to_vec()))))
}
