//! Damaged chunks give an error or a bounded wrong answer: never a panic, a
//! hang, or an allocation that the chunk's size does not justify.
//!
//! Every test compresses, takes header and body out of the Arrow storage,
//! damages them, makes the checksums right again and reads what results through
//! the public API. `header`, `codecs`, `dict`, `front`, `integers`, `lz`, `nested`, `reals`, `runs`
//! and `storage` have a test for each rule of docs/FORMAT.md ("What readers check");
//! `scans` has those that scans meet; `sweeps` damages everything everywhere; `files` damages IPC files and
//! streams as a whole, and `mutants` what they say of themselves.
//!
//! *The bound.* A chunk has at most 131,072 rows; a decoded row takes at most 32
//! bytes (256-bit decimals), so 4 MiB a chunk; codes stand for 8 bytes each, and
//! the bodies here have less than 256 KiB; what Arrow IPC carries is no longer
//! than its message. Only constants of 1,024 bytes may take more, 128 MiB, which are
//! tested apart, and matches of lz, up to 2 KiB each: bodies of lz here have less
//! than 32 KiB. So no single allocation here may reach 64 MiB.

mod common;

#[path = "corruption/bits.rs"]
mod bits;
#[path = "corruption/codecs.rs"]
mod codecs;
#[path = "corruption/damage.rs"]
mod damage;
#[path = "corruption/dict.rs"]
mod dict;
#[path = "corruption/files.rs"]
mod files;
#[path = "corruption/front.rs"]
mod front;
#[path = "corruption/header.rs"]
mod header;
#[path = "corruption/integers.rs"]
mod integers;
#[path = "corruption/lz.rs"]
mod lz;
#[path = "corruption/mutants.rs"]
mod mutants;
#[path = "corruption/nested.rs"]
mod nested;
#[path = "nested/random.rs"]
mod random;
#[path = "corruption/reals.rs"]
mod reals;
#[path = "corruption/runs.rs"]
mod runs;
#[path = "corruption/scans.rs"]
mod scans;
#[path = "corruption/storage.rs"]
mod storage;
#[path = "corruption/strings.rs"]
mod strings;
#[path = "corruption/sweeps.rs"]
mod sweeps;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// No single allocation may be larger.
const LIMIT: usize = 64 << 20;

/// The largest allocation since [`Counting::reset`], on any thread.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

impl Counting {
    fn largest() -> usize {
        LARGEST.load(Ordering::Relaxed)
    }

    fn reset() {
        LARGEST.store(0, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}
