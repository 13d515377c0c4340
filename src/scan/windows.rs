//! Chunks that are read on demand: who scans them, and in which order they are read.
//!
//! ```text
//! GPU, or what is   read, by threads of the pool  [0     ][1     ][2     ][3     ][4     ]
//! read in long      scanned, in order                     [0  ]   [1  ]   [2  ]   [3  ] ...
//! ranges
//!
//! CPU, files that   one thread                    [0 read, scanned][2 read, scanned][3 ...
//! are read chunk    another one                   [1 read, scanned     ][4 read, ...
//! by chunk
//! ```
//!
//! A window has neighbouring chunks with a limited number of bytes in the columns that are used. While one is
//! scanned, the two behind it are read ([`ChunkScan::for_each`]); batches read one ahead ([`ChunkScan::step`]). A
//! window that one GPU scans is copied there while it is read ([`Landing`]). The CPU scans a local file without
//! windows: each thread reads a chunk, and scans it while its bytes are in the processor's cache
//! ([`ChunkScan::by_chunk`]).
//!
//! The source is told beforehand which ranges will be read, so that a disk or a store can fetch them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::chunks::ChunkScan;
use super::host::HostScan;
use super::window::{InMemory, Window};
use crate::device::Landing;
use crate::engine::{Choice, Engine, FileScan};
use crate::error::{Error, Result};
use crate::threads::{each_in_turn, receive};
use crate::transfer::shared::is_of_device;

/// Bytes of a window for each thread of the CPU, and the least and the most of all together: windows have chunks
/// for all threads.
const THREAD_BYTES: u64 = 1 << 20;
const LEAST_BYTES: u64 = 8 << 20;
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of a window that devices scan, which takes some launches.
pub(super) const DEVICE_BYTES: u64 = 128 << 20;
/// Windows that are read while one is scanned.
pub(super) const READ_AHEAD: usize = 2;
/// Windows behind the one that is scanned that are announced.
const AHEAD: usize = 4;

/// Who scans what is read.
#[derive(Debug)]
pub(super) struct Scanner {
    by: By,
    /// What scans windows in host memory.
    engine: Engine,
    /// Who was chosen for all windows together, if that was.
    choice: Option<Choice>,
    start: Instant,
    /// Bytes of windows that the CPU and a GPU have scanned.
    scanned: [AtomicU64; 2],
    /// Why a GPU has failed: the CPU does the rest.
    failure: OnceLock<String>,
}

#[derive(Debug)]
enum By {
    Cpu,
    /// One GPU, to which chunks are copied while they are read.
    Device(Landing),
    /// GPUs, maybe beside the CPU: who gets which chunks is decided once they are read.
    Shared,
}

impl Scanner {
    /// Who scans for an engine, with so much effort, a scan that needs the values of `reads`. Where there is a
    /// choice, the longest chunk is read to predict what takes least.
    pub fn new(
        engine: &Engine,
        scan: &ChunkScan<'_>,
        reads: &[usize],
        effort: usize,
    ) -> Result<Self> {
        let start = Instant::now();
        let longest = || scan.chunks().iter().max_by_key(|chunk| scan.bytes_of(chunk));
        let asked = || {
            let Some(longest) = longest() else { return Ok(None) };
            let chunk = scan.read_to_host(std::slice::from_ref(longest))?;
            let times = scan.bytes().div_ceil(scan.bytes_of(longest).max(1));
            Ok(Some(chunk.work(engine, reads, effort).times(times as usize)))
        };
        let (who, choice) = engine.choose_for_file(asked)?;
        let (by, engine) = (By::Cpu, engine.with_cpu_only());
        let (scanned, failure) = Default::default();
        let mut scanner = Self { by, engine, choice, start, scanned, failure };
        match who {
            FileScan::Cpu => {}
            FileScan::Device(context) => match Landing::new(&context) {
                Err(error) if scanner.is_left_to_cpu(&error) => {}
                landing => scanner.by = By::Device(landing?),
            },
            FileScan::Shared(engine) => (scanner.by, scanner.engine) = (By::Shared, engine),
        }
        Ok(scanner)
    }

    /// Whether it is the CPU alone.
    pub fn is_cpu(&self) -> bool {
        matches!(self.by, By::Cpu)
    }

    /// Bytes of a window.
    pub fn window_bytes(&self) -> u64 {
        match self.by {
            By::Device(_) | By::Shared => DEVICE_BYTES,
            By::Cpu => cpu_bytes(),
        }
    }

    /// Whether the CPU scans the window that an error is of, and all later ones: if `Engine::auto` chose the GPU, and
    /// the error is the GPU's.
    fn is_left_to_cpu(&self, error: &Error) -> bool {
        let is_lenient = self.choice.as_ref().is_some_and(Choice::is_lenient);
        let is_left =
            is_lenient && (is_of_device(error) || matches!(error, Error::Unsupported { .. }));
        if is_left {
            let _ = self.failure.set(error.to_string());
        }
        is_left
    }

    /// Reads a window for those who scan it.
    pub fn read(&self, scan: &ChunkScan<'_>, chunks: &[(usize, usize)]) -> Result<Window> {
        match &self.by {
            By::Device(landing) if self.failure.get().is_none() => {
                match scan.read_to(landing, chunks) {
                    Err(error) if self.is_left_to_cpu(&error) => {}
                    read => return read.map(Window::Device),
                }
            }
            By::Device(_) | By::Cpu | By::Shared => {}
        }
        scan.read_to_host(chunks).map(Window::Host)
    }

    /// Does `work` with a window.
    pub fn scan<T>(
        &self,
        scan: &ChunkScan<'_>,
        window: &Window,
        chunks: &[(usize, usize)],
        work: impl Fn(&dyn InMemory, &Engine) -> Result<T>,
    ) -> Result<T> {
        let by_cpu = |window: &HostScan<'_>| {
            let result = work(window, &self.engine)?;
            self.scanned[0].fetch_add(scan.bytes_of_all(chunks), Ordering::Relaxed);
            Ok(result)
        };
        let window = match window {
            Window::Host(window) => return by_cpu(window),
            Window::Device(window) => window,
        };
        match work(window, &self.engine) {
            Err(error) if self.is_left_to_cpu(&error) => by_cpu(&scan.read_to_host(chunks)?),
            result => {
                self.scanned[1].fetch_add(scan.bytes_of_all(chunks), Ordering::Relaxed);
                result
            }
        }
    }

    /// Does `work` with all of a scan; what has come of it, in order.
    pub fn each_part<T: Send>(
        &self,
        scan: &ChunkScan<'_>,
        work: impl Fn(&dyn InMemory, &Engine) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        if self.is_cpu() && scan.goes_by_chunk() {
            let results = scan.by_chunk(|chunk| work(chunk, &self.engine))?;
            self.scanned[0].fetch_add(scan.bytes(), Ordering::Relaxed);
            return Ok(results);
        }
        let read = |window: &[(usize, usize)]| self.read(scan, window);
        scan.for_each((self.window_bytes(), READ_AHEAD), read, |window, chunks| {
            self.scan(scan, window, chunks, &work)
        })
    }

    /// Has an engine know who has scanned, and, unless that failed, what it has taken so far.
    pub fn remember(&self, engine: &Engine, is_ok: bool) {
        if let Some(choice) = self.choice.clone() {
            let took = is_ok.then(|| self.start.elapsed());
            let [cpu, device] =
                [0, 1].map(|side: usize| self.scanned[side].load(Ordering::Relaxed) as usize);
            let failed = self.failure.get().map(|why| (why.clone(), cpu, device));
            engine.remember(choice.after(took, failed));
        }
    }
}

/// Bytes of a window that the CPU scans.
pub(super) fn cpu_bytes() -> u64 {
    (rayon::current_num_threads() as u64 * THREAD_BYTES).clamp(LEAST_BYTES, MOST_BYTES)
}

/// Windows whose source is told that they will be read.
struct Announced<'a, 's> {
    scan: &'a ChunkScan<'s>,
    windows: &'a [Range<usize>],
    /// How many.
    count: Mutex<usize>,
}

impl Announced<'_, '_> {
    fn new<'a, 's>(scan: &'a ChunkScan<'s>, windows: &'a [Range<usize>]) -> Announced<'a, 's> {
        Announced { scan, windows, count: Mutex::new(0) }
    }

    fn tell(&self, window: usize, will_read: bool) {
        let chunks = &self.scan.chunks()[self.windows[window].clone()];
        self.scan.announce(chunks, will_read);
    }

    /// Announces the windows before number `end` that are not announced.
    fn to(&self, end: usize) {
        loop {
            // Others announce between two windows.
            let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            if *count >= end.min(self.windows.len()) {
                return;
            }
            self.tell(*count, true);
            *count += 1;
        }
    }

    /// Says that those from number `start` on will not be read.
    fn give_up(&self, start: usize) {
        let count = *self.count.lock().unwrap_or_else(PoisonError::into_inner);
        (start..count).for_each(|window| self.tell(window, false));
    }
}

/// Windows of a scan, of which one is read ahead.
pub(super) struct Windows<W> {
    ranges: Vec<Range<usize>>,
    /// The next one.
    at: usize,
    /// It, or why it could not be read.
    read: Option<Result<W>>,
}

impl ChunkScan<'_> {
    /// The chunks of each window, one window at least; `bytes` unless the source says how many.
    fn windows(&self, bytes: u64) -> Vec<Range<usize>> {
        let most = self.source().window_bytes().unwrap_or(bytes);
        windows(self.chunks().iter().map(|chunk| self.bytes_of(chunk)), most)
    }

    /// The windows, of so many bytes and of at most so many chunks, before the first.
    pub fn begin<W>(&self, bytes: u64, most_chunks: usize) -> Windows<W> {
        let windows = self.windows(bytes).into_iter().flat_map(|range| {
            // An empty one stays.
            let parts = range.len().div_ceil(most_chunks).max(1);
            (0..parts).map(move |part| {
                let start = range.start + part * most_chunks;
                start..range.end.min(start.saturating_add(most_chunks))
            })
        });
        Windows { ranges: windows.collect(), at: 0, read: None }
    }

    /// Does `work` with the next window while the one behind it is read, and more are announced; nothing behind
    /// the last.
    pub fn step<W: Send, T>(
        &self,
        windows: &mut Windows<W>,
        read: impl Fn(&[(usize, usize)]) -> Result<W> + Sync,
        work: impl FnOnce(&W, &[(usize, usize)]) -> Result<T>,
    ) -> Result<Option<T>> {
        let window = |at: usize| windows.ranges.get(at).map(|range| &self.chunks()[range.clone()]);
        let announce = |at: usize| {
            if let Some(window) = window(at) {
                self.announce(window, true);
            }
        };
        let Some(own) = window(windows.at) else { return Ok(None) };
        let at = windows.at;
        let current = match windows.read.take() {
            Some(current) => current?,
            None => {
                announce(at);
                rayon::in_place_scope(|scope| {
                    scope.spawn(|_| (1..AHEAD).for_each(|ahead| announce(at + ahead)));
                    read(own)
                })?
            }
        };
        let following = window(at + 1);
        let mut next = None;
        let result = rayon::in_place_scope(|scope| {
            if let Some(following) = following {
                scope.spawn(|_| {
                    announce(at + AHEAD);
                    next = Some(read(following));
                });
            }
            work(&current, own)
        });
        let result = result.map_err(|error| self.placed(own, error));
        windows.at += 1;
        windows.read = next;
        result.map(Some)
    }

    /// Says that the windows which were announced will not be read.
    pub fn give_up<W>(&self, windows: &Windows<W>) {
        for range in windows.ranges.iter().skip(windows.at).take(AHEAD) {
            self.announce(&self.chunks()[range.clone()], false);
        }
    }

    /// Does `work` with each window of so many bytes, in order, while so many behind it are read.
    pub fn for_each<W: Send, T>(
        &self,
        (bytes, ahead): (u64, usize),
        read: impl Fn(&[(usize, usize)]) -> Result<W> + Sync,
        mut work: impl FnMut(&W, &[(usize, usize)]) -> Result<T>,
    ) -> Result<Vec<T>> {
        let windows = self.windows(bytes);
        let window = |at: usize| &self.chunks()[windows[at].clone()];
        let announced = &Announced::new(self, &windows);
        let (failed, read) = (&AtomicBool::new(false), &read);
        let mut results = Vec::with_capacity(windows.len());
        let all = rayon::in_place_scope_fifo(|scope| {
            let start = |at: usize| {
                let (sender, receiver) = sync_channel(1);
                if at < windows.len() {
                    scope.spawn_fifo(move |_| {
                        if !failed.load(Ordering::Relaxed) {
                            announced.to(at + 1);
                            // Nobody waits for it after an error.
                            let _ = sender.send(read(window(at)));
                        }
                    });
                    scope.spawn_fifo(move |_| announced.to(at + 1 + AHEAD - ahead));
                }
                receiver
            };
            let mut reading: VecDeque<Receiver<Result<W>>> = (0..ahead).map(start).collect();
            let result = (0..windows.len()).try_for_each(|at| {
                let current = reading.pop_front().and_then(|receiver| receive(&receiver));
                reading.push_back(start(at + ahead));
                // Nothing is sent by a thread that panics, as the scope will.
                let current = current.unwrap_or_else(|| Err(Error::corrupt("nothing was read")))?;
                let result = work(&current, window(at));
                results.push(result.map_err(|error| self.placed(window(at), error))?);
                Ok(())
            });
            failed.store(result.is_err(), Ordering::Relaxed);
            result
        });
        if let Err(error) = all {
            announced.give_up(results.len());
            return Err(error);
        }
        Ok(results)
    }

    /// Whether the CPU reads and scans chunk by chunk: where chunks are read as fast one by one as many together,
    /// and those of all threads take no more memory than two windows.
    pub fn goes_by_chunk(&self) -> bool {
        let longest = self.chunks().iter().map(|chunk| self.bytes_of(chunk)).max();
        let threads = rayon::current_num_threads() as u64;
        self.source().is_fast_by_chunk()
            && longest.is_some_and(|bytes| bytes.saturating_mul(threads) <= 2 * MOST_BYTES)
    }

    /// Has threads read chunk after chunk and do `work` with each; what has come of them, in order.
    pub fn by_chunk<T: Send>(
        &self,
        work: impl Fn(&HostScan<'static>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let windows = self.windows(cpu_bytes());
        let announced = Announced::new(self, &windows);
        let results = each_in_turn(self.chunks().len(), |number| {
            if let Ok(first_of) = windows.binary_search_by_key(&number, |window| window.start) {
                announced.to(first_of + 1 + AHEAD);
            }
            let own = &self.chunks()[number..=number];
            work(&self.read_to_host(own)?).map_err(|error| self.placed(own, error))
        });
        // Local sources ignore it for chunks that have been read.
        results.inspect_err(|_| announced.give_up(0))
    }
}

/// Ranges of chunks, given the bytes of each: neighbours that have at most so many together, or one that has
/// more. There is one range at least, which may be empty.
pub(crate) fn windows(bytes: impl Iterator<Item = u64>, most: u64) -> Vec<Range<usize>> {
    let mut windows = vec![Range::default()];
    let mut in_last = 0_u64;
    for (at, own) in bytes.enumerate() {
        in_last = in_last.saturating_add(own);
        match windows.last_mut() {
            Some(last) if last.start == last.end || in_last <= most => last.end = at + 1,
            _ => {
                windows.push(at..at + 1);
                in_last = own;
            }
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::windows;

    #[test]
    fn windows_have_what_fits() {
        let of = |bytes: &[u64], most: u64| -> Vec<(usize, usize)> {
            let windows = windows(bytes.iter().copied(), most).into_iter();
            windows.map(|window| (window.start, window.end)).collect()
        };
        assert_eq!(of(&[], 10), [(0, 0)]);
        assert_eq!(of(&[3, 3, 4, 1], 10), [(0, 3), (3, 4)]);
        assert_eq!(of(&[11, 1, 20, 9, 1], 10), [(0, 1), (1, 2), (2, 3), (3, 5)]);
        assert_eq!(of(&[0, 0, 5], 0), [(0, 2), (2, 3)]);
        assert_eq!(of(&[u64::MAX, 2, 1], u64::MAX - 1), [(0, 1), (1, 3)]);
        assert_eq!(of(&[1, 1, 1], 0), [(0, 1), (1, 2), (2, 3)]);
    }
}
