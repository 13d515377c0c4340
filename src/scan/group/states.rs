//! What is known of each group after some rows, an aggregate at a time.

use arrow_buffer::i256;

use super::exact::ExactSum;
use crate::scan::aggregate::{Input, Plan, State};
use crate::scan::number::Kind;

/// The states of an aggregate, by the numbers of groups.
#[derive(Debug)]
pub(in crate::scan) enum States {
    Counts(Vec<u64>),
    Integers {
        sums: Vec<WideSum>,
        counts: Vec<u64>,
    },
    Floats {
        sums: Vec<ExactSum>,
        counts: Vec<u64>,
    },
    /// Least and greatest values.
    Bounds {
        start: State,
        states: Vec<State>,
    },
}

/// What a device has found of an aggregate of a group: sums with the number of their rows.
#[derive(Debug)]
pub(in crate::scan) enum Found {
    Count(u64),
    Integer(i256, u64),
    /// Words as `kernels/lanepack/groups.cuh` has them.
    Floats(Vec<u64>, u64),
    State(State),
}

/// An integer of 192 bits: no sum of 2^64 values of 128 bits passes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::scan) struct WideSum {
    low: u128,
    high: i64,
}

impl WideSum {
    /// A sum that 192 bits hold.
    fn of(sum: i256) -> Self {
        let (low, high) = sum.to_parts();
        Self { low, high: high as i64 }
    }

    pub fn add(&mut self, value: i128) {
        let (low, has_carry) = self.low.overflowing_add(value as u128);
        self.low = low;
        self.high += i64::from(has_carry) - i64::from(value < 0);
    }

    fn merge(&mut self, other: Self) {
        let (low, has_carry) = self.low.overflowing_add(other.low);
        self.low = low;
        self.high += i64::from(has_carry) + other.high;
    }

    fn value(self) -> i256 {
        i256::from_parts(self.low, self.high.into())
    }
}

impl States {
    /// Of no groups.
    pub fn new(plan: &Plan) -> Self {
        match &plan.input {
            Input::Rows | Input::Valid(..) => Self::Counts(Vec::new()),
            Input::Sum(number, _) => match number.kind {
                Kind::Exact { .. } => Self::Integers { sums: Vec::new(), counts: Vec::new() },
                Kind::Float32 | Kind::Float64 => {
                    Self::Floats { sums: Vec::new(), counts: Vec::new() }
                }
            },
            Input::Bounds(..) | Input::ColumnBounds(..) => {
                Self::Bounds { start: plan.start(), states: Vec::new() }
            }
        }
    }

    /// Makes room for so many groups.
    pub fn grow(&mut self, groups: usize) {
        match self {
            Self::Counts(counts) => counts.resize(groups, 0),
            Self::Integers { sums, counts } => {
                sums.resize(groups, WideSum::default());
                counts.resize(groups, 0);
            }
            Self::Floats { sums, counts } => {
                sums.resize(groups, ExactSum::default());
                counts.resize(groups, 0);
            }
            Self::Bounds { start, states } => states.resize(groups, start.clone()),
        }
    }

    /// Adds what a device has found of a group.
    pub fn put(&mut self, group: usize, found: Found) {
        match (self, found) {
            (Self::Counts(counts), Found::Count(count)) => counts[group] += count,
            (Self::Integers { sums, counts }, Found::Integer(sum, count)) => {
                sums[group].merge(WideSum::of(sum));
                counts[group] += count;
            }
            (Self::Floats { sums, counts }, Found::Floats(words, count)) => {
                sums[group].merge(&ExactSum::from_words(&words));
                counts[group] += count;
            }
            (Self::Bounds { states, .. }, Found::State(found)) => {
                let before = std::mem::replace(&mut states[group], State::Count(0));
                states[group] = before.then(found);
            }
            _ => unreachable!("states of one aggregate"),
        }
    }

    /// Adds the states of other groups, which have these numbers here.
    pub fn merge(&mut self, other: Self, groups: &[u32]) {
        match (self, other) {
            (Self::Counts(own), Self::Counts(other)) => {
                groups.iter().zip(other).for_each(|(group, other)| own[*group as usize] += other);
            }
            (
                Self::Integers { sums, counts },
                Self::Integers { sums: other_sums, counts: other_counts },
            ) => {
                for ((group, sum), count) in groups.iter().zip(other_sums).zip(other_counts) {
                    sums[*group as usize].merge(sum);
                    counts[*group as usize] += count;
                }
            }
            (
                Self::Floats { sums, counts },
                Self::Floats { sums: other_sums, counts: other_counts },
            ) => {
                for ((group, sum), count) in groups.iter().zip(other_sums).zip(other_counts) {
                    sums[*group as usize].merge(&sum);
                    counts[*group as usize] += count;
                }
            }
            (Self::Bounds { states, .. }, Self::Bounds { states: others, .. }) => {
                for (group, other) in groups.iter().zip(others) {
                    let state = &mut states[*group as usize];
                    let before = std::mem::replace(state, State::Count(0));
                    *state = before.then(other);
                }
            }
            _ => unreachable!("states of one aggregate"),
        }
    }

    /// The state of each group.
    pub fn into_states(self) -> Vec<State> {
        match self {
            Self::Counts(counts) => counts.into_iter().map(State::Count).collect(),
            Self::Integers { sums, counts } => {
                let state =
                    |(sum, count): (WideSum, u64)| State::Integers { sum: sum.value(), count };
                sums.into_iter().zip(counts).map(state).collect()
            }
            Self::Floats { sums, counts } => {
                let state =
                    |(sum, count): (ExactSum, u64)| State::Floats { sum: sum.value(), count };
                sums.into_iter().zip(counts).map(state).collect()
            }
            Self::Bounds { states, .. } => states,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_pass_128_bits_and_come_back() {
        let mut sum = WideSum::default();
        let mut expected = i256::ZERO;
        for value in [i128::MAX, i128::MAX, i128::MAX, -5, i128::MIN, i128::MIN, i128::MIN, 17] {
            sum.add(value);
            expected = expected.wrapping_add(i256::from_i128(value));
            assert_eq!(sum.value(), expected);
        }
        let mut other = WideSum::default();
        other.add(i128::MIN);
        other.merge(sum);
        assert_eq!(other.value(), expected.wrapping_add(i256::from_i128(i128::MIN)));
    }
}
