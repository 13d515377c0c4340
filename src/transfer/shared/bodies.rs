//! The bodies of a column's chunks, one behind the other in one memory, as in its storage array.
//!
//! ```text
//! chunks       0 1 2 3 4 5 6 7 8 9        devices begin at 0, the host at 9
//! arrived      x x x . x . . . x x
//! in place     x x x                      where a body goes is known once all before it are
//! ```
//!
//! Whoever has done the chunks that are missing before others moves all that then have a place, while
//! others still work. Room is made by what has arrived until then. The rest, above all what the host
//! has done, is moved by all threads at the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

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
}

#[derive(Default)]
struct State {
    memory: Option<Arc<ResultMemory>>,
    /// Whether a thread allocates `memory`, or has done so.
    is_coming: bool,
    /// Bytes of the values that have arrived, and of their bodies.
    arrived: [usize; 2],
    /// The first chunk that has no place yet.
    next: usize,
    /// What has not been moved, by the number of the first chunk.
    waiting: BTreeMap<usize, Vec<Chunk>>,
    /// What has been moved, by the number of the first chunk.
    moved: BTreeMap<usize, (Vec<Chunk>, Arc<WrittenPiece>)>,
}

/// Chunks that have a place.
struct Move {
    first: usize,
    chunks: Vec<Chunk>,
    to: Piece,
}

impl<'a> Bodies<'a> {
    pub fn new(
        field: &'a FieldRef,
        pool: Option<&'a Arc<Pool>>,
        values: usize,
        most: usize,
    ) -> Self {
        Self { field, pool, values, most, state: Mutex::default() }
    }

    /// Takes chunks from number `first` on, of so many bytes of values; moves all that have a place now.
    pub fn arrived(&self, first: usize, values: usize, chunks: Vec<Chunk>) -> Result<()> {
        let room = {
            let mut state = lock(&self.state);
            let bodies: usize = chunks.iter().map(|chunk| chunk.body().len()).sum();
            state.arrived = [state.arrived[0] + values, state.arrived[1] + bodies];
            state.waiting.insert(first, chunks);
            self.room(&mut state)
        };
        if let Some((pool, room)) = room {
            let memory = ResultMemory::new(pool, room);
            lock(&self.state).memory = Some(memory);
        }
        let moves: Vec<Move> = {
            let mut state = lock(&self.state);
            std::iter::from_fn(|| Self::next(&mut state)).collect()
        };
        for Move { first, chunks, to } in moves {
            let bodies: Vec<Buffer> = chunks.iter().map(|chunk| chunk.body().clone()).collect();
            let written = to.write(|target| {
                copy_joined(&bodies, target);
                Ok(())
            })?;
            drop(bodies);
            // The memory that they came in is free for others.
            let chunks = moved(chunks, &WrittenPiece::to_buffer(&written));
            lock(&self.state).moved.insert(first, (chunks, written));
        }
        Ok(())
    }

    /// Bytes that the calling thread is to allocate, and of which pool; none for all threads but one. They
    /// are extrapolated from the bodies that have arrived, with a sixteenth more.
    fn room(&self, state: &mut State) -> Option<(&'a Arc<Pool>, usize)> {
        let [values, bodies] = state.arrived;
        if state.is_coming || bodies == 0 {
            return None;
        }
        let pool = self.pool?;
        state.is_coming = true;
        let room = bodies as u128 * self.values as u128 / values.max(1) as u128;
        let room = usize::try_from(room / 16 * 17).unwrap_or(usize::MAX);
        // `values` of views leaves out the strings: the estimate is bounded by the column's memory.
        Some((pool, room.min(self.most.saturating_add(self.most / 16)).max(bodies)))
    }

    /// The next chunks that have a place, if there is room.
    fn next(state: &mut State) -> Option<Move> {
        let (first, chunks) = state.waiting.first_key_value()?;
        if *first != state.next {
            return None;
        }
        let to = state.memory.as_ref()?.cut(chunks.iter().map(|chunk| chunk.body().len()).sum())?;
        state.next += chunks.len();
        let (first, chunks) = state.waiting.pop_first()?;
        Some(Move { first, chunks, to })
    }

    /// The column, all of whose chunks have arrived.
    pub fn finish(self) -> Result<CompressedColumn> {
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let State { memory, waiting, moved: in_place, .. } = state;
        let rest: Vec<Chunk> = waiting.into_values().flatten().collect();
        let rest_bodies: Vec<Buffer> = rest.iter().map(|chunk| chunk.body().clone()).collect();
        let len: usize = rest_bodies.iter().map(Buffer::len).sum();
        let (mut chunks, mut written) = (Vec::new(), Vec::new());
        for (some, piece) in in_place.into_values() {
            chunks.extend(some);
            written.push(piece);
        }
        let start: usize = written.iter().map(|piece| piece.len()).sum();
        // The result keeps all of the room as long as it lives.
        let memory = memory.filter(|memory| memory.room() / 2 <= start + len);
        let room = memory.and_then(|memory| Some((memory.cut(len)?, memory)));
        chunks.extend(rest);
        let Some((to, memory)) = room else { return packed(self.field, chunks, self.pool) };
        written.push(to.write(|target| {
            copy_joined(&rest_bodies, target);
            Ok(())
        })?);
        let bodies = memory.finish(written);
        let chunks = moved(chunks, &bodies);
        Ok(CompressedColumn::new(self.field.clone(), chunks, Vec::new()).with_bodies(bodies))
    }
}

/// A column of chunks whose bodies are copied to one memory, page-locked if there is a pool.
pub(super) fn packed(
    field: &FieldRef,
    chunks: Vec<Chunk>,
    pool: Option<&Arc<Pool>>,
) -> Result<CompressedColumn> {
    let bodies: Vec<Buffer> = chunks.iter().map(|chunk| chunk.body().clone()).collect();
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
