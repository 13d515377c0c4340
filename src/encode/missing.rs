//! Parts of statistics that are missing, noted while chunks are planned and encoded, and
//! computed for all chunks that ask.
//!
//! A kernel computes a part for many chunks. So each round plans all chunks that are not done,
//! in the order in which the planner asks; of what is missing then, the parts that come first in
//! that order are computed, and the rest waits: a part is computed once for all
//! chunks that need it, and not again for chunks that had to wait for something else.

use std::cell::RefCell;

use rayon::prelude::*;

use super::MIN_CHUNKS;
use super::launch::Launcher;
use crate::encoding::plan::Plan;
use crate::encoding::statistics::{Answer, Missing};
use crate::error::{Error, Result};

/// What a chunk misses: parts of type `P`.
pub(super) struct Requests<P>(RefCell<Vec<Request<P>>>);

/// A part that is missing. Parts of a lesser order are asked for first.
pub(super) struct Request<P> {
    order: Vec<u8>,
    part: P,
}

impl<P> Default for Requests<P> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<P> Requests<P> {
    /// Notes that a part is missing.
    pub fn ask<T>(&self, order: Vec<u8>, part: P) -> Answer<T> {
        self.0.borrow_mut().push(Request { order, part });
        Err(Missing)
    }

    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes the same requests as parts of others, behind `order`.
    pub fn forward<Q>(self, to: &Requests<Q>, order: &[u8], part: impl Fn(P) -> Q) {
        let all = self.0.into_inner().into_iter().map(|request| Request {
            order: [order, &request.order].concat(),
            part: part(request.part),
        });
        to.0.borrow_mut().extend(all);
    }
}

/// A chunk on its way: its plan once there is one, until something is made of it.
struct Progress<T> {
    plan: Option<Plan>,
    made: Option<T>,
}

/// Makes something of each of so many chunks, with all threads. What `make` finds missing, and
/// gives nothing for, `compute` computes, given the chunks that ask; then `make` is called
/// again. It keeps a chunk's plan where it is told to.
pub(super) fn complete<S: Sync, T: Send, P: Send>(
    launcher: &mut Launcher<'_>,
    state: &mut S,
    chunks: usize,
    make: impl Fn(&S, usize, &mut Option<Plan>, &Requests<P>) -> Result<Option<T>> + Sync,
    mut compute: impl FnMut(&mut S, &mut Launcher<'_>, Vec<(usize, P)>) -> Result<()>,
) -> Result<Vec<T>> {
    let mut all: Vec<Progress<T>> =
        (0..chunks).map(|_| Progress { plan: None, made: None }).collect();
    loop {
        let attempt = |(chunk, progress): (usize, &mut Progress<T>)| -> Result<_> {
            let requests = Requests::default();
            if progress.made.is_none() {
                progress.made = make(state, chunk, &mut progress.plan, &requests)?;
            }
            match progress.made {
                Some(_) => progress.plan = None,
                None if requests.is_empty() => {
                    return Err(Error::device("statistics that the values of a chunk lack"));
                }
                None => {}
            }
            Ok(requests.0.into_inner())
        };
        let attempts = all.par_iter_mut().enumerate().with_min_len(MIN_CHUNKS);
        let missing: Vec<Vec<Request<P>>> = attempts.map(attempt).collect::<Result<_>>()?;
        let orders = missing.iter().flatten().map(|request| &request.order);
        let Some(first) = orders.min().cloned() else {
            return Ok(all.into_iter().filter_map(|progress| progress.made).collect());
        };
        let of_chunk = |(chunk, requests): (usize, Vec<Request<P>>)| {
            requests.into_iter().map(move |request| (chunk, request))
        };
        let now = (missing.into_iter().enumerate().flat_map(of_chunk))
            .filter(|(_, request)| request.order == first)
            .map(|(chunk, request)| (chunk, request.part));
        compute(state, launcher, now.collect())?;
    }
}
