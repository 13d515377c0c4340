//! The bodies of a column's chunks, one behind the other in one memory, as in its storage array.
//!
//! ```text
//! chunks       0 1 2 3 4 5 6 7 8 9        devices begin at 0, the host at 9
//! lengths      3 2 4 . 5 . . . 3 4        known once a chunk has been planned
//! place        0 3 5 9                    once the lengths of all before it are known
//! ```
//!
//! Devices plan a span of chunks, are given its place, and bring the bodies down right there
//! ([`Bodies::place`]). They wait for spans before it, which other lanes plan at the same time. What the
//! host has done lies elsewhere and is moved: by whoever comes next once it has a place, while others
//! still work, and else by all threads at the end. Room is made by the first lengths; if it does not
//! suffice, all bodies are moved at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow_buffer::Buffer;
use arrow_schema::FieldRef;

use super::lock;
use crate::chunk::{self, Chunk, copy_joined};
use crate::column::CompressedColumn;
use crate::device::pinned::{Piece, Pool, ResultMemory, WrittenPiece};
use crate::error::Result;

/// The chunks of a column while they arrive.
pub(super) struct Bodies<'a> {
    field: &'a FieldRef,
    /// Page-locked memory; none without devices.
    pool: Option<&'a Arc<Pool>>,
    /// Bytes of the column's values, as units count them, and those of all its buffers.
    values: usize,
    most: usize,
    state: Mutex<State>,
    /// Wakes those who wait for a place.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    memory: Option<Arc<ResultMemory>>,
    /// Whether a thread allocates `memory`, or has done so.
    is_coming: bool,
    /// Whether `memory` has no room for what comes next, or a place stays empty: nobody is given another.
    is_full: bool,
    /// The first chunk that has no place yet.
    next: usize,
    /// Chunks that somebody works on: their number, by that of the first.
    at_work: BTreeMap<usize, usize>,
    /// Planned chunks without a place: their number and the length of their bodies.
    planned: BTreeMap<usize, (usize, usize)>,
    /// The places of planned chunks, for those who wait for them.
    places: BTreeMap<usize, Piece>,
    /// Places that are being written.
    promised: BTreeSet<usize>,
    /// Whether work has failed that had been given a place.
    has_gap: bool,
    /// Chunks that lie elsewhere, without a place.
    elsewhere: BTreeMap<usize, Vec<Chunk>>,
    /// The same with a place.
    moves: Vec<(usize, Move)>,
    /// Chunks in their place.
    in_place: BTreeMap<usize, (Vec<Chunk>, Arc<WrittenPiece>)>,
}

impl State {
    /// Gives places to all chunks that can have one.
    fn advance(&mut self) {
        let Some(memory) = self.memory.clone() else { return };
        while !self.is_full {
            let first = self.next;
            if let Some((count, len)) = self.planned.get(&first).copied() {
                let Some(piece) = memory.cut(len) else { return self.is_full = true };
                self.planned.remove(&first);
                self.places.insert(first, piece);
                self.next += count;
            } else if let Some(chunks) = self.elsewhere.get(&first) {
                let len = chunks.iter().map(|chunk| chunk.body().len()).sum();
                let Some(to) = memory.cut(len) else { return self.is_full = true };
                self.next += chunks.len();
                let chunks = self.elsewhere.remove(&first).unwrap_or_default();
                self.moves.push((first, Move { chunks, to }));
            } else {
                return;
            }
        }
    }

    /// Whether somebody works on the first chunk that has no place.
    fn is_worked_on(&self) -> bool {
        let before = self.at_work.range(..=self.next).next_back();
        before.is_some_and(|(first, count)| self.next < first + count)
    }
}

/// Chunks that lie elsewhere and have a place.
struct Move {
    chunks: Vec<Chunk>,
    to: Piece,
}

impl Move {
    /// Copies the bodies; the chunks with these.
    fn write(self) -> Result<(Vec<Chunk>, Arc<WrittenPiece>)> {
        let bodies = bodies_of(&self.chunks);
        let written = self.to.write(|target| {
            copy_joined(&bodies, target);
            Ok(())
        })?;
        drop(bodies);
        Ok((moved(self.chunks, &WrittenPiece::to_buffer(&written)), written))
    }
}

/// Chunks that a thread works on, until this is dropped.
pub(super) struct AtWork<'b> {
    bodies: &'b Bodies<'b>,
    first: usize,
    count: usize,
    /// Bytes of their values.
    values: usize,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.bodies.state);
        state.at_work.remove(&self.first);
        let has_failed = state.promised.remove(&self.first);
        state.has_gap |= has_failed;
        state.is_full |= has_failed;
        self.bodies.changed.notify_all();
    }
}

/// Dropped when room has been allocated, or when the thread that allocates it panics. In that case there
/// is no room, and threads that wait for it give up.
struct WaitForRoom<'b> {
    bodies: &'b Bodies<'b>,
}

impl Drop for WaitForRoom<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.bodies.state);
        state.is_full |= state.memory.is_none();
        self.bodies.changed.notify_all();
    }
}

impl<'a> Bodies<'a> {
    pub fn new(
        field: &'a FieldRef,
        pool: Option<&'a Arc<Pool>>,
        values: usize,
        most: usize,
    ) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { field, pool, values, most, state, changed }
    }

    /// Begins work on some chunks, of so many bytes of values.
    pub fn begin(&self, first: usize, count: usize, values: usize) -> AtWork<'_> {
        lock(&self.state).at_work.insert(first, count);
        AtWork { bodies: self, first, count, values }
    }

    /// The place of bodies that have been planned and have so many bytes. Waits for those that are being
    /// planned and come before. None if there is no room, if nobody has begun work on chunks before them,
    /// or on one of rayon's threads, which may be the one that somebody else waits for.
    pub fn place(&self, of: &AtWork<'_>, len: usize) -> Option<Piece> {
        self.pool?;
        let mut state = lock(&self.state);
        state.planned.insert(of.first, (of.count, len));
        state = self.make_room(state, of.values, len);
        loop {
            let before = state.next;
            state.advance();
            if state.next != before {
                self.changed.notify_all();
            }
            if let Some(piece) = state.places.remove(&of.first) {
                state.promised.insert(of.first);
                return Some(piece);
            }
            let waits = match state.memory {
                Some(_) => state.is_worked_on(),
                None => state.is_coming,
            };
            if state.is_full || !waits || rayon::current_thread_index().is_some() {
                state.planned.remove(&of.first);
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes chunks whose bodies have been written to their place.
    pub fn placed(
        &self,
        of: &AtWork<'_>,
        chunks: Vec<Chunk>,
        written: Arc<WrittenPiece>,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        state.promised.remove(&of.first);
        state.in_place.insert(of.first, (chunks, written));
        drop(state);
        self.move_all()
    }

    /// Takes chunks whose bodies lie elsewhere; moves all that have a place now.
    pub fn arrived(&self, of: &AtWork<'_>, chunks: Vec<Chunk>) -> Result<()> {
        let mut state = lock(&self.state);
        let len = chunks.iter().map(|chunk| chunk.body().len()).sum();
        state.elsewhere.insert(of.first, chunks);
        drop(self.make_room(state, of.values, len));
        self.move_all()
    }

    /// Allocates room for all bodies if nobody has done so: what those of so many bytes of values take is
    /// extrapolated, with an eighth more.
    fn make_room<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        values: usize,
        len: usize,
    ) -> MutexGuard<'s, State> {
        let Some(pool) = self.pool.filter(|_| !state.is_coming && len > 0) else { return state };
        state.is_coming = true;
        drop(state);
        let waiting = WaitForRoom { bodies: self };
        let room = len as u128 * self.values as u128 / values.max(1) as u128;
        let room = usize::try_from(room / 8 * 9).unwrap_or(usize::MAX);
        // `values` of views leaves out the strings: the estimate is bounded by the column's memory.
        let room = room.min(self.most.saturating_add(self.most / 16)).max(len);
        let memory = ResultMemory::new(pool, room);
        lock(&self.state).memory = Some(memory);
        drop(waiting);
        lock(&self.state)
    }

    /// Moves what lies elsewhere and has a place.
    fn move_all(&self) -> Result<()> {
        loop {
            let mut state = lock(&self.state);
            state.advance();
            self.changed.notify_all();
            let Some((first, next)) = state.moves.pop() else { return Ok(()) };
            drop(state);
            let done = next.write()?;
            lock(&self.state).in_place.insert(first, done);
        }
    }

    /// The column, all of whose chunks have arrived.
    pub fn finish(self) -> Result<CompressedColumn> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let State { memory, elsewhere, mut in_place, moves, has_gap, .. } = state;
        for (first, one) in moves {
            in_place.insert(first, one.write()?);
        }
        let in_order: usize = in_place.values().map(|(_, written)| written.len()).sum();
        let rest: Vec<Buffer> = elsewhere.values().flat_map(|chunks| bodies_of(chunks)).collect();
        let len: usize = rest.iter().map(Buffer::len).sum();
        // The result keeps all of the room as long as it lives.
        let fits = |memory: &Arc<ResultMemory>| !has_gap && memory.room() / 2 <= in_order + len;
        let room = memory.filter(fits).and_then(|memory| Some((memory.cut(len)?, memory)));
        let (mut all, mut written) = (elsewhere, Vec::with_capacity(in_place.len() + 1));
        for (first, (chunks, piece)) in in_place {
            all.insert(first, chunks);
            written.push(piece);
        }
        let chunks: Vec<Chunk> = all.into_values().flatten().collect();
        let Some((to, memory)) = room else { return packed(self.field, chunks, self.pool) };
        written.push(to.write(|target| {
            copy_joined(&rest, target);
            Ok(())
        })?);
        let bodies = memory.finish(written);
        let chunks = moved(chunks, &bodies);
        Ok(CompressedColumn::new(self.field.clone(), chunks, Vec::new()).with_bodies(bodies))
    }
}

fn bodies_of(chunks: &[Chunk]) -> Vec<Buffer> {
    chunks.iter().map(|chunk| chunk.body().clone()).collect()
}

/// A column of chunks whose bodies are copied to one memory, page-locked if there is a pool.
pub(super) fn packed(
    field: &FieldRef,
    chunks: Vec<Chunk>,
    pool: Option<&Arc<Pool>>,
) -> Result<CompressedColumn> {
    let bodies = bodies_of(&chunks);
    let bodies = match pool {
        Some(pool) => {
            let memory = ResultMemory::new(pool, bodies.iter().map(Buffer::len).sum());
            let written = memory.all().write(|target| {
                copy_joined(&bodies, target);
                Ok(())
            })?;
            memory.finish(vec![written])
        }
        None => chunk::joined(&bodies),
    };
    let chunks = moved(chunks, &bodies);
    Ok(CompressedColumn::new(field.clone(), chunks, Vec::new()).with_bodies(bodies))
}

/// Chunks whose bodies lie one behind the other in `bodies`.
fn moved(chunks: Vec<Chunk>, bodies: &Buffer) -> Vec<Chunk> {
    let mut at = 0;
    let place = |chunk: Chunk| {
        let body = bodies.slice_with_length(at, chunk.body().len());
        at += body.len();
        chunk.moved(body)
    };
    chunks.into_iter().map(place).collect()
}

#[cfg(all(test, lanepack_simt))]
mod tests;
