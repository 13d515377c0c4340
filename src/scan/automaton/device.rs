//! Automata over codes as kernels walk them (`kernels/lanepack/walk.cuh`).
//!
//! ```text
//! | rejecting | reject | accept | accepting | behind an escape | fault |
//!                      accepts               faults
//! ```
//!
//! States get other numbers, by what a string is that ends in them, so that a kernel
//! finds that out by comparisons: `End` would be another look at a table for each string.

use super::codes::{CodeAutomaton, End};

/// A [`CodeAutomaton`] for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceAutomaton {
    pub rows: DeviceRows,
    /// Number of states.
    pub states: u32,
    pub start: u32,
    /// The sink that accepts, the first state in which a string may end; the sink that
    /// rejects is the one before.
    pub accepts: u32,
    /// The first state that a string of whole codes does not end in.
    pub faults: u32,
}

/// The states behind the 256 codes of each state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeviceRows {
    /// Of at most 256 states.
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

impl CodeAutomaton {
    /// The same automaton for a device.
    pub fn for_device(&self) -> DeviceAutomaton {
        let states = self.states();
        let place = |state: u16| match (self.end_in(state), state >= self.first_sink()) {
            (End::Rejected, false) => 0,
            (End::Rejected, true) => 1,
            (End::Accepted, true) => 2,
            (End::Accepted, false) => 3,
            (End::LoneEscape, _) => 4,
            (End::UnknownCode, _) => 5,
        };
        // Their numbers have 16 bits, of which the last may be in use.
        let mut order: Vec<u16> = (0..states).map(|state| state as u16).collect();
        order.sort_by_key(|state| place(*state));
        let mut numbers = vec![0; states];
        for (number, state) in order.iter().enumerate() {
            numbers[*state as usize] = number as u16;
        }
        let before = |end: u32| order.partition_point(|state| place(*state) < end) as u32;
        let behind = order.iter().flat_map(|state| self.row(*state));
        let behind = behind.map(|state| numbers[state as usize]);
        let rows = if states <= 256 {
            DeviceRows::Bytes(behind.map(|state| state as u8).collect())
        } else {
            DeviceRows::Words(behind.collect())
        };
        DeviceAutomaton {
            rows,
            states: states as u32,
            start: numbers[self.start() as usize].into(),
            accepts: before(2),
            faults: before(4),
        }
    }
}
