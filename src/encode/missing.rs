//! Parts of statistics that are missing, noted while chunks are planned and encoded, and
//! computed for all chunks that ask.
//!
//! A kernel computes a part for many chunks. Each round plans all chunks that are not done. Of the
//! parts that they miss, it computes those that come first in the order in which the planner asks;
//! the others wait. Every chunk asks in that order, so when a part is computed, all chunks that
//! need it have asked for it, and it is computed once.

use std::cell::RefCell;

use rayon::prelude::*;

use super::MIN_CHUNKS;
use crate::error::{Error, Result};

/// A place in the order in which the planner asks: steps, each within those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Order {
    /// One more than each step, then zeros.
    steps: [u8; 12],
}

impl Order {
    /// Behind all that planners ask.
    pub const LAST: Self = Self { steps: [u8::MAX; 12] };

    /// A step within these; those that are nested deeper than there is room for share a place.
    pub fn then(mut self, step: u8) -> Self {
        if let Some(place) = self.steps.iter_mut().find(|place| **place == 0) {
            *place = step.saturating_add(1);
        }
        self
    }

    /// The steps of `inner` within these.
    fn around(self, inner: Self) -> Self {
        match inner {
            Self::LAST => inner,
            _ => {
                let steps = inner.steps.iter().take_while(|step| **step > 0);
                steps.fold(self, |order, step| order.then(step - 1))
            }
        }
    }
}

/// What a chunk misses: parts of type `P`.
pub(super) struct Requests<P>(RefCell<Vec<Request<P>>>);

/// A part that is missing. Parts of a lesser order are asked for first.
struct Request<P> {
    order: Order,
    part: P,
}

impl<P> Default for Requests<P> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<P> Requests<P> {
    /// Notes that a part is missing.
    pub fn note(&self, order: Order, part: P) {
        self.0.borrow_mut().push(Request { order, part });
    }

    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes the same requests as parts of others, within `order`.
    pub fn forward<Q>(self, to: &Requests<Q>, order: Order, part: impl Fn(P) -> Q) {
        let all = self.0.into_inner().into_iter();
        let all = all.map(|Request { order: inner, part: of }| Request {
            order: order.around(inner),
            part: part(of),
        });
        to.0.borrow_mut().extend(all);
    }
}

/// Makes something of each of so many chunks, with all threads. What `make` finds missing, and
/// gives nothing for, `compute` computes, given the chunks that ask; then `make` is called
/// again. Plans are not kept between rounds, so that none is made by one thread and dropped by
/// another. `compute` is handed `launcher`.
pub(super) fn complete<L, S: Sync, T: Send, P: Send>(
    launcher: &mut L,
    state: &mut S,
    chunks: usize,
    make: impl Fn(&S, usize, &Requests<P>) -> Result<Option<T>> + Sync,
    mut compute: impl FnMut(&mut S, &mut L, Vec<(usize, P)>) -> Result<()>,
) -> Result<Vec<T>> {
    let mut made: Vec<Option<T>> = (0..chunks).map(|_| None).collect();
    loop {
        // Requests of many chunks share an allocation.
        let attempt = |mut batch: Batch<P>, (chunk, made): (usize, &mut Option<T>)| {
            if made.is_some() {
                return Ok(batch);
            }
            *made = make(state, chunk, &batch.requests)?;
            let requests = batch.requests.0.get_mut();
            if made.is_none() && requests.is_empty() {
                let what = "a plan misses statistics that its values do not have";
                return Err(Error::device(what).in_chunk(chunk));
            }
            batch.all.extend(requests.drain(..).map(|request| (chunk, request)));
            Ok(batch)
        };
        let all = made.par_iter_mut().enumerate().with_min_len(MIN_CHUNKS);
        let batches: Vec<Batch<P>> =
            all.try_fold(Batch::default, attempt).collect::<Result<_>>()?;
        let missing = || batches.iter().flat_map(|batch| &batch.all);
        let Some(first) = missing().map(|(_, request)| request.order).min() else {
            // No requests are left, so every chunk has been made.
            let made: Option<Vec<T>> = made.into_iter().collect();
            return made.ok_or_else(|| Error::device("a chunk that has not been made"));
        };
        let now = batches.into_iter().flat_map(|batch| batch.all);
        let now = now.filter(|(_, request)| request.order == first);
        compute(state, launcher, now.map(|(chunk, request)| (chunk, request.part)).collect())?;
    }
}

/// What some chunks miss.
struct Batch<P> {
    /// Of the chunk that is at work.
    requests: Requests<P>,
    all: Vec<(usize, Request<P>)>,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self { requests: Requests::default(), all: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn order(steps: &[u8]) -> Order {
        steps.iter().fold(Order::default(), |order, step| order.then(*step))
    }

    #[test]
    fn steps_come_before_those_within_them_and_those_behind() {
        let ascending = [&[][..], &[0], &[0, 0], &[0, 7], &[1], &[1, 0, 3], &[1, 1], &[2]];
        let orders: Vec<Order> = ascending.iter().map(|steps| order(steps)).collect();
        assert!(orders.is_sorted_by(|one, other| one < other), "{orders:?}");
        assert!(orders.iter().all(|order| *order < Order::LAST));
        assert_eq!(order(&[3]).around(order(&[1, 4])), order(&[3, 1, 4]));
        assert_eq!(order(&[3]).around(Order::LAST), Order::LAST);
        let deep = order(&[1; 12]);
        assert_eq!(deep.then(1), deep, "those without room share a place");
    }

    /// Parts that have been computed of each chunk, and in which rounds.
    #[derive(Default)]
    struct Computed {
        parts: Vec<(usize, char)>,
        rounds: Vec<Vec<(usize, char)>>,
    }

    /// Makes chunks, each of which needs some parts one after another.
    fn make(needs: &[&[char]]) -> Result<(Vec<usize>, Computed)> {
        let mut state = Computed::default();
        let calls: Vec<AtomicUsize> = needs.iter().map(|_| AtomicUsize::new(0)).collect();
        let make = |state: &Computed, chunk: usize, requests: &Requests<char>| {
            let before = calls[chunk].fetch_add(1, Ordering::Relaxed);
            for part in needs[chunk] {
                if !state.parts.contains(&(chunk, *part)) {
                    if *part != '?' {
                        requests.note(order(&[*part as u8]), *part);
                    }
                    return Ok(None);
                }
            }
            Ok(Some(chunk * 10 + before + 1))
        };
        let compute =
            |state: &mut Computed, rounds: &mut usize, mut missing: Vec<(usize, char)>| {
                *rounds += 1;
                missing.sort_unstable();
                state.parts.extend(&missing);
                state.rounds.push(missing);
                Ok(())
            };
        let mut rounds = 0;
        let made = complete(&mut rounds, &mut state, needs.len(), make, compute)?;
        assert_eq!(rounds, state.rounds.len());
        Ok((made, state))
    }

    #[test]
    fn a_part_is_computed_once_for_all_chunks_that_ask() {
        let (made, state) =
            make(&[&['a', 'c'], &[], &['b', 'c'], &['c'], &['a', 'b', 'c']]).unwrap();
        let rounds = [vec![(0, 'a'), (4, 'a')], vec![(2, 'b'), (4, 'b')]];
        assert_eq!(state.rounds[..2], rounds);
        assert_eq!(state.rounds[2..], [vec![(0, 'c'), (2, 'c'), (3, 'c'), (4, 'c')]]);
        // In each round chunks that are not done are tried.
        assert_eq!(made, [4, 11, 24, 34, 44]);
    }

    #[test]
    fn a_part_that_nobody_asks_for_is_an_error() {
        let Err(error) = make(&[&[], &['a'], &['a', '?']]) else { panic!("no error") };
        let what = error.to_string();
        assert!(what.contains("chunk 2") && what.contains("misses statistics"), "{what}");
    }
}
