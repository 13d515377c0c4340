//! From what kernels find of chunks to the states of aggregates.

use arrow_buffer::{BooleanBuffer, i256};
use rayon::prelude::*;

use super::MOST_RANGES;
use super::source::{Place, Reach};
use crate::chunk::MAX_CHUNK_ROWS;
use crate::column::CompressedColumn;
use crate::device::DeviceColumn;
use crate::error::Result;
use crate::ranges::{Key, Order};
use crate::scan::aggregate::{Comparable, Input, Plan, State, joined};
use crate::scan::bounds_on_device;
use crate::scan::cpu::{self, Filter};
use crate::scan::number::{Kind, Number, Width};
use crate::scan::predicate::{Predicate, Test};

/// Whether kernels compute an aggregate: all but bounds of strings and of 256 bits, and filters that
/// kernels for queries do not evaluate.
pub(super) fn is_computed(plan: &Plan, columns: &[&DeviceColumn]) -> bool {
    let filter = plan.filter.as_ref();
    if filter.is_some_and(|filter| !is_evaluated(&filter.predicate, columns)) {
        return false;
    }
    match &plan.input {
        Input::ColumnBounds(_, Comparable::Bytes) => false,
        Input::ColumnBounds(column, Comparable::Wide) => {
            columns[*column].field().data_type().primitive_width() == Some(16)
        }
        _ => true,
    }
}

/// Whether kernels for queries evaluate a predicate, whatever the encodings of its columns.
fn is_evaluated(predicate: &Predicate, columns: &[&DeviceColumn]) -> bool {
    match predicate {
        Predicate::Test(column, Test::Wide(ranges)) => {
            let width = columns[*column].field().data_type().primitive_width();
            width == Some(16) && ranges.as_slice().len() <= MOST_RANGES
        }
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().all(|part| is_evaluated(part, columns))
        }
        Predicate::Not(inner) => is_evaluated(inner, columns),
        _ => true,
    }
}

/// What aggregates come to over some chunks. They are added up when what comes before is known, chunk
/// by chunk, so that the order of additions does not depend on how chunks were divided.
pub(in crate::scan) struct Found {
    /// Which of the aggregates kernels have computed.
    pub(super) by_kernels: Vec<bool>,
    /// What these come to, in the order of chunks.
    pub(super) pieces: Vec<Piece>,
    /// Of each chunk the states of the others.
    pub(super) others: Vec<Vec<State>>,
}

/// What aggregates that kernels compute come to over some chunks.
pub(super) enum Piece {
    /// For each partial a word for each chunk, and where the partials of an aggregate are.
    Partials { places: Vec<Place>, words: Vec<Vec<u64>> },
    /// Of a batch without columns.
    States(Vec<State>),
}

impl Found {
    /// The states of aggregates after these chunks, which follow `before`.
    pub fn after(self, plans: &[&Plan], before: Vec<State>) -> Vec<State> {
        let Self { by_kernels, pieces, others } = self;
        let (here, _) = parted(plans, &by_kernels);
        let (of_here, of_others) = parted(&before.iter().collect::<Vec<_>>(), &by_kernels);
        let [of_here, of_others] =
            [of_here, of_others].map(|states| states.into_iter().cloned().collect::<Vec<State>>());
        let of_here = pieces.into_iter().fold(of_here, |states, piece| match piece {
            Piece::Partials { places, words } => self::states(&here, &places, &words, states),
            Piece::States(piece) => joined(vec![piece], states),
        });
        let (mut of_here, mut of_others) =
            (of_here.into_iter(), joined(others, of_others).into_iter());
        // In the order that they were asked for.
        let next = |here: &bool| if *here { of_here.next() } else { of_others.next() };
        by_kernels.iter().map(next).map(|state| state.expect("one for each plan")).collect()
    }
}

/// What belongs to aggregates that kernels compute, and what to others.
pub(super) fn parted<'a, T>(all: &[&'a T], by_kernels: &[bool]) -> (Vec<&'a T>, Vec<&'a T>) {
    let of = |which: bool| {
        all.iter()
            .zip(by_kernels)
            .filter(|(_, here)| **here == which)
            .map(|(one, _)| *one)
            .collect()
    };
    (of(true), of(false))
}

/// Aggregates of some rows by the CPU, for which the columns are copied as they are: states of each
/// chunk.
pub(super) fn on_host(
    plans: &[&Plan],
    columns: &[&DeviceColumn],
    kept: &BooleanBuffer,
) -> Result<Vec<Vec<State>>> {
    let columns: Vec<CompressedColumn> =
        columns.par_iter().map(|column| column.download()).collect::<Result<_>>()?;
    let columns: Vec<&CompressedColumn> = columns.iter().collect();
    let starts: Vec<usize> = columns[0].chunk_rows().map(|rows| rows.start).collect();
    (starts.par_iter().enumerate())
        .map(|(index, start)| {
            let rows = columns[0].chunks()[index].rows();
            let filter = Filter::of_bits(kept, *start, rows);
            cpu::aggregate::chunk(plans, &filter, &columns, index, rows)
                .map_err(|error| error.in_chunk(index))
        })
        .collect()
}

/// How far the sum of a chunk goes, given the bounds of its columns.
pub(super) fn reach(plan: &Plan, columns: &[&DeviceColumn]) -> Result<Reach> {
    reach_of(plan, columns, MAX_CHUNK_ROWS)
}

/// The same of so many rows.
pub(super) fn reach_of(plan: &Plan, columns: &[&DeviceColumn], rows: usize) -> Result<Reach> {
    match &plan.input {
        Input::Sum(number, width @ Width::Bits64) => {
            let reached =
                number.reach(&|column| bounds_on_device(columns[column]), &mut { *width })?;
            let most = i256::from_i128(i128::from(i64::MAX) / rows.max(1) as i128);
            Ok(match reached {
                Some((low, high)) if low >= most.wrapping_neg() && high <= most => Reach::Narrow,
                _ => Reach::Wide,
            })
        }
        _ => Ok(Reach::Wide),
    }
}

/// The states of aggregates after all chunks, which follow `before`; `partials` has a word for each
/// chunk.
fn states(
    plans: &[&Plan],
    places: &[Place],
    partials: &[Vec<u64>],
    before: Vec<State>,
) -> Vec<State> {
    let chunks = partials.first().map_or(0, Vec::len);
    let state = |((plan, place), before): ((&&Plan, &Place), State)| {
        (0..chunks).fold(before, |state, chunk| {
            let word = |index: usize| partials[place.first + index][chunk];
            state.then(of_chunk(plan, place.words, partials[place.count][chunk], &word))
        })
    };
    plans.iter().zip(places).zip(before).map(state).collect()
}

/// The state of an aggregate after `count` rows of a chunk.
pub(super) fn of_chunk(
    plan: &Plan,
    words: usize,
    count: u64,
    word: &impl Fn(usize) -> u64,
) -> State {
    let has = count > 0;
    let wide = || i128::from(word(0)) | i128::from((word(1) ^ 1 << 63) as i64) << 64;
    match &plan.input {
        Input::Rows | Input::Valid(..) => State::Count(count),
        Input::Sum(Number { kind: Kind::Exact { .. }, .. }, _) => {
            let sum = match words {
                1 => i256::from_i128((word(0) as i64).into()),
                _ => {
                    let sign = ((word(2) as i64) >> 63) as u64;
                    let bytes: [u8; 32] = bytemuck::cast([word(0), word(1), word(2), sign]);
                    i256::from_le_bytes(bytes)
                }
            };
            State::Integers { sum, count }
        }
        Input::Sum(..) => State::Floats { sum: f64::from_bits(word(0)), count },
        Input::Bounds(number, _) => match number.kind {
            Kind::Exact { .. } => {
                let value = match words {
                    1 => ((word(0) ^ 1 << 63) as i64).into(),
                    _ => wide(),
                };
                let value = i256::from_i128(value);
                State::Wide(has.then_some((value, value)))
            }
            kind => {
                let bits = if kind == Kind::Float32 { 32 } else { 64 };
                let value = Key { bits, order: Order::Float }.float(word(0));
                State::FloatBounds(has.then_some((value, value)))
            }
        },
        Input::ColumnBounds(_, Comparable::Words(_)) => {
            State::Words(has.then(|| (word(0), word(0))))
        }
        Input::ColumnBounds(..) => {
            State::Wide(has.then(|| (i256::from_i128(wide()), i256::from_i128(wide()))))
        }
    }
}
