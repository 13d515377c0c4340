//! From host to host: columns in parts, of which one goes up while the device works on
//! the one before and the one before that comes down.
//!
//! ```text
//! uploaders, 2:     part 2 ->, part 3 ->        the bus, up
//! caller's thread:         part 1               kernels, and the host's planning
//! downloaders, 2:   <- part 0                   the bus, down
//! checksums:      part 0                        of what compression has brought down
//! ```
//!
//! The bus is slower than kernels by a factor of 20, and than all else that the host
//! does, so it has to be busy all the time, in both directions if both are needed. Copies
//! wait until they are done ([`Stream::upload`]), which makes it plain how long their
//! memory is used; with two threads a direction the next copy is in its stream when
//! one ends.
//!
//! Numbers, booleans and strings with offsets go so. Columns of one part, of strings those of one
//! symbol table, are uploaded, worked on and downloaded as a whole, beside other columns.
//!
//! `compress.rs` and `decompress.rs` say what a part is, this file lets parts overlap. `shared` has
//! the host and several devices work on one call.

mod compress;
mod decompress;
pub(crate) mod shared;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};

pub(crate) use compress::compress;
use compress::compress_to_device;
pub(crate) use decompress::decompress;

use crate::device::Context;
use crate::device::array::DeviceSlice;
use crate::device::pinned::{Piece, WrittenPiece};
use crate::error::{Error, Result};
use crate::gpu::{Event, Stream};

/// Threads of a direction.
const THREADS: usize = 2;

/// Bytes of a part's values: on the emulation few, so that tests see parts.
///
/// The first part goes up and the last comes down alone, so they are short; but long
/// enough that what the host does for one, up to 0.3 ms, is hidden behind the bus.
fn part_bytes(context: &Context) -> usize {
    if context.device().is_host() { 32 << 10 } else { 32 << 20 }
}

/// Copies the first bytes of a slice to where they belong, once they are `ready`.
fn download_piece(
    stream: &dyn Stream,
    ready: &Arc<dyn Event>,
    source: &DeviceSlice,
    piece: Piece,
) -> Result<Arc<WrittenPiece>> {
    stream.wait(ready.as_ref())?;
    piece.write(|target| stream.download_to(source.buffer(), source.start(), target))
}

/// Uploads the pieces of parts, so many of each, works on each part on `stream` in the calling
/// thread once it has arrived, and downloads what comes of it; the results in order.
///
/// Threads take the pieces in turns, so that a large part arrives as soon as if one had the bus to
/// itself. What `upload` writes to has been allocated on `stream`. After an error nothing else is
/// started.
fn pipeline<J: Send, R: Send>(
    context: &Context,
    stream: &Arc<dyn Stream>,
    pieces: &[usize],
    upload: &(impl Fn(&dyn Stream, usize, usize) -> Result<()> + Sync),
    mut work: impl FnMut(usize) -> Result<Vec<J>>,
    download: &(impl Fn(&dyn Stream, J) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let of_part = |(part, count): (usize, &usize)| (0..*count).map(move |piece| (part, piece));
    let all: &Vec<(usize, usize)> = &pieces.iter().enumerate().flat_map(of_part).collect();
    let allocated = &stream.record()?;
    let next = &AtomicUsize::new(0);
    let has_failed = &AtomicBool::new(false);
    thread::scope(|scope| {
        // Threads end with their channels, and these with this closure.
        let (arrived, arrivals) = mpsc::channel();
        let (jobs, todo) = mpsc::channel::<(usize, J)>();
        let todo = Arc::new(Mutex::new(todo));
        for _ in 0..THREADS {
            let (arrived, failed) = (arrived.clone(), arrived.clone());
            let each = move |stream: &Arc<dyn Stream>| {
                stream.wait(allocated.as_ref())?;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(part, piece)) = all.get(number) else { return Ok(()) };
                    upload(stream.as_ref(), part, piece)?;
                    // An error once nobody waits for parts any more.
                    if arrived.send(Ok((part, stream.record()?))).is_err() {
                        return Ok(());
                    }
                }
            };
            start(scope, move || {
                if let Err(error) = context.with_stream(each) {
                    let _ = failed.send(Err(error));
                }
            })?;
        }
        drop(arrived);
        let mut downloaders = Vec::new();
        for _ in 0..THREADS {
            let todo = todo.clone();
            let each = move |stream: &Arc<dyn Stream>| {
                let mut results = Vec::new();
                loop {
                    let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, job)) = job else { return Ok(results) };
                    if has_failed.load(Ordering::Relaxed) {
                        return Ok(results);
                    }
                    results.push((number, download(stream.as_ref(), job)?));
                }
            };
            downloaders.push(start(scope, move || {
                let results = context.with_stream(each);
                has_failed.fetch_or(results.is_err(), Ordering::Relaxed);
                results
            })?);
        }
        drop(todo);
        let mut work_all = || -> Result<()> {
            let mut events: Vec<Vec<Arc<dyn Event>>> = vec![Vec::new(); pieces.len()];
            let mut sent = 0;
            for (part, count) in pieces.iter().enumerate() {
                while events[part].len() < *count {
                    let lost = |_| Error::device("a thread that uploads is gone");
                    let (of, event) = arrivals.recv().map_err(lost)??;
                    events[of].push(event);
                }
                if has_failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                events[part].iter().try_for_each(|event| stream.wait(event.as_ref()))?;
                for job in work(part)? {
                    // An error of those who download is found below.
                    let _ = jobs.send((sent, job));
                    sent += 1;
                }
            }
            Ok(())
        };
        let mut failed = work_all().err();
        has_failed.fetch_or(failed.is_some(), Ordering::Relaxed);
        next.store(all.len(), Ordering::Relaxed);
        drop(jobs);
        let mut results = Vec::new();
        for downloader in downloaders {
            match downloader.join() {
                Ok(Ok(some)) => results.extend(some),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results.sort_by_key(|(number, _)| *number);
        match failed {
            Some(error) => Err(error),
            None => Ok(results.into_iter().map(|(_, result)| result).collect()),
        }
    })
}

/// A thread of its own: one of rayon's that waits for a copy would be missing to planning.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let started = thread::Builder::new().spawn_scoped(scope, work);
    started.map_err(|error| Error::device(format!("no thread for copies: {error}")))
}

#[cfg(all(test, lanepack_simt))]
mod tests;
