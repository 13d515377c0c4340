//! A queue of units of work that has two ends: devices take from the first on, threads of the host
//! from the last on, so that nobody has to guess where to cut.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is taken as a whole: chunks of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The column's number.
    pub column: usize,
    /// Its chunks.
    pub chunks: Range<usize>,
    /// Bytes of its values.
    pub bytes: usize,
    /// Who does it.
    pub fits: Fits,
}

/// Who does a unit, and with which others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fits {
    /// Only the host.
    Host,
    /// A device, too, together with the units of its column before and behind it.
    Any,
    /// A device, too, but only by itself.
    Alone,
}

/// Units that are to be done, in order.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    units: &'a [Unit],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What nobody has taken.
    left: Range<usize>,
    /// What has been taken and given back.
    returned: Vec<usize>,
    /// Bytes of both.
    bytes: usize,
}

impl<'a> Queue<'a> {
    pub fn new(units: &'a [Unit]) -> Self {
        let bytes = units.iter().map(|unit| unit.bytes).sum();
        let state = State { left: 0..units.len(), bytes, returned: Vec::new() };
        Self { units, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next units for a device: of one column, consecutive, of as many bytes as `span` makes of
    /// those that are left, but at least one.
    pub fn first(&self, span: impl FnOnce(usize) -> usize) -> Option<Range<usize>> {
        let mut state = self.state();
        let on_device = |unit: &usize| self.units[*unit].fits != Fits::Host;
        // Those behind it may wait for the first.
        let returned = state.returned.iter().enumerate().filter(|(_, unit)| on_device(unit));
        if let Some((place, _)) = returned.min_by_key(|(_, unit)| **unit) {
            let unit = state.returned.swap_remove(place);
            state.bytes -= self.units[unit].bytes;
            return Some(unit..unit + 1);
        }
        let first = state.left.start;
        if state.left.is_empty() || !on_device(&first) {
            return None;
        }
        let most = span(state.bytes);
        let mut bytes = self.units[first].bytes;
        let mut end = first + 1;
        while self.units[first].fits == Fits::Any && end < state.left.end {
            let (one, next) = (&self.units[end - 1], &self.units[end]);
            let follows = next.column == one.column && next.chunks.start == one.chunks.end;
            if !follows || next.fits != Fits::Any || bytes.saturating_add(next.bytes) > most {
                break;
            }
            bytes += next.bytes;
            end += 1;
        }
        state.left.start = end;
        state.bytes -= bytes;
        Some(first..end)
    }

    /// The next unit for a thread of the host, from the end: one that no device does, or else, unless
    /// `is_helper`, one for which this pays, given the bytes of it and of all that are left.
    pub fn last(&self, is_helper: bool, pays: impl Fn(&Unit, usize) -> bool) -> Option<usize> {
        let mut state = self.state();
        let left = state.bytes;
        let takes = |unit: usize| {
            let unit = &self.units[unit];
            unit.fits == Fits::Host || (!is_helper && pays(unit, left))
        };
        if let Some(place) = state.returned.iter().rposition(|unit| takes(*unit)) {
            let unit = state.returned.swap_remove(place);
            state.bytes -= self.units[unit].bytes;
            return Some(unit);
        }
        let unit = state.left.end.checked_sub(1)?;
        if state.left.is_empty() || !takes(unit) {
            return None;
        }
        state.left.end = unit;
        state.bytes -= self.units[unit].bytes;
        Some(unit)
    }

    /// Gives back units that have not been done.
    pub fn give_back(&self, units: Range<usize>) {
        let mut state = self.state();
        state.bytes += self.units[units.clone()].iter().map(|unit| unit.bytes).sum::<usize>();
        state.returned.extend(units);
    }

    /// Whether all has been taken, and nothing given back.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.left.is_empty() && state.returned.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(column: usize, chunk: usize, fits: Fits) -> Unit {
        Unit { column, chunks: chunk..chunk + 1, bytes: 10, fits }
    }

    fn units() -> Vec<Unit> {
        let any = (0..4).map(|chunk| unit(0, chunk, Fits::Any));
        let alone = (0..2).map(|chunk| unit(1, chunk, Fits::Alone));
        any.chain(alone).chain([unit(2, 0, Fits::Host)]).collect()
    }

    #[test]
    fn devices_take_consecutive_units_of_a_column() {
        let units = units();
        let queue = Queue::new(&units);
        let mut left = Vec::new();
        let mut next = |most: usize| {
            queue.first(|bytes| {
                left.push(bytes);
                most
            })
        };
        assert_eq!(next(20), Some(0..2));
        assert_eq!(next(1000), Some(2..4));
        assert_eq!(next(1000), Some(4..5));
        assert_eq!(next(0), Some(5..6));
        assert_eq!(next(1000), None, "the host's");
        assert_eq!(left, [70, 50, 30, 20]);
        assert_eq!(queue.last(true, |_, _| true), Some(6));
        assert_eq!(queue.last(false, |_, _| true), None);
    }

    #[test]
    fn helpers_take_what_no_device_does() {
        let units = units();
        let queue = Queue::new(&units);
        assert_eq!((queue.last(true, |_, _| true), queue.last(true, |_, _| true)), (Some(6), None));
        assert_eq!(queue.last(false, |_, _| true), Some(5));
        queue.give_back(5..7);
        assert_eq!((queue.last(true, |_, _| true), queue.last(true, |_, _| true)), (Some(6), None));
    }

    #[test]
    fn both_ends_meet_and_nothing_is_taken_twice() {
        let units: Vec<Unit> = (0..5).map(|chunk| unit(0, chunk, Fits::Any)).collect();
        let queue = Queue::new(&units);
        assert_eq!(queue.last(false, |_, _| true), Some(4));
        assert_eq!(queue.first(|_| 20), Some(0..2));
        assert_eq!(queue.last(false, |_, _| true), Some(3));
        assert_eq!(queue.first(|_| 1000), Some(2..3));
        assert!(queue.is_empty());
        assert_eq!((queue.first(|_| 1000), queue.last(false, |_, _| true)), (None, None));
    }

    #[test]
    fn units_that_do_not_pay_are_left_to_devices() {
        let units: Vec<Unit> = (0..5).map(|chunk| unit(0, chunk, Fits::Any)).collect();
        let queue = Queue::new(&units);
        let pays = |unit: &Unit, left: usize| left >= 3 * unit.bytes;
        let taken: Vec<usize> = std::iter::from_fn(|| queue.last(false, pays)).collect();
        assert_eq!(taken, [4, 3, 2]);
        assert_eq!(queue.first(|_| 1000), Some(0..2));
    }

    #[test]
    fn what_is_given_back_is_taken_again() {
        let units = units();
        let queue = Queue::new(&units);
        assert_eq!(queue.first(|_| 1000), Some(0..4));
        queue.give_back(0..4);
        assert_eq!(queue.last(false, |_, _| true), Some(3));
        for unit in 0..3 {
            assert_eq!(queue.first(|_| 1000), Some(unit..unit + 1), "in order");
        }
        while queue.last(false, |_, _| true).is_some() {}
        queue.give_back(6..7);
        assert_eq!(queue.first(|_| 1000), None);
        assert_eq!(queue.last(false, |_, _| true), Some(6));
    }
}
