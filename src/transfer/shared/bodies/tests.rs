//! Chunks that arrive in any order, from work that fails, and in less room than they need.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use arrow_array::{Int64Array, RecordBatch};

use super::*;
use crate::device::Context;
use crate::gpu::simt;
use crate::options::Options;
use crate::{columns, compress};

/// Rows of a chunk, and chunks of a column.
const ROWS: usize = 1024;
const CHUNKS: usize = 12;

/// A column, of whose chunks the later ones have longer bodies, or all have the same length.
fn column(grows: bool) -> CompressedColumn {
    let bits = |row: usize| if grows { row / ROWS } else { CHUNKS };
    let value = |row: usize| (row * 7919 % (2 << bits(row))) as i64;
    let values = Int64Array::from_iter_values((0..ROWS * CHUNKS).map(value));
    let batch = RecordBatch::try_from_iter([("value", Arc::new(values) as _)]).unwrap();
    let options = Options::default().with_chunk_rows(ROWS);
    columns(&compress(&batch, &options).unwrap()).unwrap().remove(0)
}

/// Calls `test` with the bodies of a column that is to be put together, and that column; returns the
/// result. There is room for so many bytes of values.
fn put_together(
    values: usize,
    grows: bool,
    test: impl FnOnce(&Bodies<'_>, &CompressedColumn),
) -> CompressedColumn {
    let context =
        Context::new(simt::open(0, simt::Emulation { memory: 1 << 20, ..Default::default() }));
    let column = column(grows);
    let field = column.field().clone();
    let bodies = Bodies::new(&field, Some(context.pool()), values, usize::MAX);
    test(&bodies, &column);
    let result = bodies.finish().unwrap();
    assert_eq!(result.chunks().len(), CHUNKS);
    let place = |index: usize| result.chunks()[index].body().as_ptr() as usize;
    for (index, (one, other)) in result.chunks().iter().zip(column.chunks()).enumerate() {
        assert_eq!(one.body(), other.body(), "chunk {index}");
        let end = place(index) + one.body().len();
        assert!(index + 1 == CHUNKS || place(index + 1) == end, "chunk {index}");
    }
    result
}

fn len(chunks: &[Chunk]) -> usize {
    chunks.iter().map(|chunk| chunk.body().len()).sum()
}

/// Writes chunks to a piece as a device does.
fn write(bodies: &Bodies<'_>, at_work: &AtWork<'_>, chunks: &[Chunk], piece: Piece) {
    let written = Move { chunks: chunks.to_vec(), to: piece }.write().unwrap();
    bodies.placed(at_work, written.0, written.1).unwrap();
}

/// Does chunks as a device does; whether they have been written to their place.
fn on_device(
    bodies: &Bodies<'_>,
    column: &CompressedColumn,
    range: std::ops::Range<usize>,
) -> bool {
    let chunks = &column.chunks()[range.clone()];
    let at_work = bodies.begin(range.start, range.len(), range.len() * ROWS * 8);
    let piece = bodies.place(&at_work, len(chunks));
    let has_place = piece.is_some();
    match piece {
        Some(piece) => write(bodies, &at_work, chunks, piece),
        None => bodies.arrived(&at_work, chunks.to_vec()).unwrap(),
    }
    has_place
}

fn on_host(bodies: &Bodies<'_>, column: &CompressedColumn, index: usize) {
    let at_work = bodies.begin(index, 1, ROWS * 8);
    bodies.arrived(&at_work, vec![column.chunks()[index].clone()]).unwrap();
}

/// Bytes of the column's values.
const VALUES: usize = ROWS * CHUNKS * 8;

#[test]
fn spans_of_devices_are_written_to_their_place() {
    let mut first = 0;
    let result = put_together(VALUES, false, |bodies, column| {
        let at_work = bodies.begin(0, 2, 2 * ROWS * 8);
        thread::scope(|scope| {
            let (begun, has_begun) = mpsc::channel();
            let behind = scope.spawn(move || {
                begun.send(()).unwrap();
                on_device(bodies, column, 2..7)
            });
            has_begun.recv().unwrap();
            on_host(bodies, column, CHUNKS - 1);
            thread::sleep(Duration::from_millis(5));
            assert!(!behind.is_finished(), "it waits for the length of those before it");
            let chunks = &column.chunks()[..2];
            let piece = bodies.place(&at_work, len(chunks)).unwrap();
            assert!(behind.join().unwrap());
            write(bodies, &at_work, chunks, piece);
        });
        first = lock(&bodies.state).in_place[&0].1.as_ptr() as usize;
        for index in (7..CHUNKS - 1).rev() {
            on_host(bodies, column, index);
        }
        assert!(lock(&bodies.state).elsewhere.is_empty(), "all have been moved");
    });
    assert_eq!(result.chunks()[0].body().as_ptr() as usize, first, "nothing was copied");
}

#[test]
fn nobody_waits_for_chunks_that_are_given_back() {
    put_together(VALUES, false, |bodies, column| {
        assert!(on_device(bodies, column, 0..3));
        let given_back = bodies.begin(3, 4, 4 * ROWS * 8);
        thread::scope(|scope| {
            let behind = scope.spawn(|| on_device(bodies, column, 7..9));
            thread::sleep(Duration::from_millis(5));
            drop(given_back);
            assert!(!behind.join().unwrap());
        });
        on_host(bodies, column, 4);
        assert!(on_device(bodies, column, 3..4));
        assert!(!on_device(bodies, column, 6..7), "chunk 5 is missing");
        on_host(bodies, column, 5);
        (9..CHUNKS).for_each(|index| on_host(bodies, column, index));
    });
}

#[test]
fn a_place_that_stays_empty_is_no_gap_in_the_result() {
    put_together(VALUES, false, |bodies, column| {
        assert!(on_device(bodies, column, 0..2));
        let failing = bodies.begin(2, 3, 3 * ROWS * 8);
        let piece = bodies.place(&failing, len(&column.chunks()[2..5])).unwrap();
        assert!(on_device(bodies, column, 5..6));
        drop((piece, failing));
        assert!(!on_device(bodies, column, 6..CHUNKS));
        (2..5).for_each(|index| on_host(bodies, column, index));
    });
}

#[test]
fn nobody_waits_for_room_that_a_panic_has_prevented() {
    put_together(VALUES, false, |bodies, column| {
        lock(&bodies.state).is_coming = true;
        let allocating = WaitForRoom { bodies };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| on_device(bodies, column, 0..3));
            thread::sleep(Duration::from_millis(5));
            assert!(!waiting.is_finished(), "room is coming");
            drop(allocating);
            assert!(!waiting.join().unwrap(), "there is none");
        });
        (3..CHUNKS).for_each(|index| on_host(bodies, column, index));
    });
}

#[test]
fn bodies_without_room_are_put_together_at_the_end() {
    // Later chunks are longer than the first.
    put_together(VALUES, true, |bodies, column| {
        assert!(on_device(bodies, column, 0..1));
        let in_place = (1..CHUNKS).filter(|index| on_device(bodies, column, *index..*index + 1));
        assert!(in_place.count() < CHUNKS - 1);
    });
    // All of it by the host.
    put_together(VALUES, true, |bodies, column| {
        (0..CHUNKS).rev().for_each(|index| on_host(bodies, column, index));
    });
}

#[test]
fn a_result_does_not_keep_much_more_memory_than_it_needs() {
    let mut place = 0;
    let result = put_together(8 * VALUES, false, |bodies, column| {
        assert!(on_device(bodies, column, 0..CHUNKS));
        let state = lock(&bodies.state);
        assert!(state.memory.as_ref().unwrap().room() > 2 * len(column.chunks()));
        place = state.in_place[&0].1.as_ptr() as usize;
    });
    assert_ne!(result.chunks()[0].body().as_ptr() as usize, place, "it has been moved");
}
