//! The pool on a device that counts what is locked, and can refuse.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::error::Error;
use crate::gpu::{DeviceInfo, Module, Priority, Stream};

#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Device>,
    locked: Arc<AtomicUsize>,
    refuses: AtomicBool,
}

#[derive(Debug)]
struct SampledValues(Box<dyn HostMemory>, Arc<AtomicUsize>);

impl HostMemory for SampledValues {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for SampledValues {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

impl Device for Counting {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn free_memory(&self) -> Result<u64> {
        self.inner.free_memory()
    }

    fn stream(&self, priority: Priority) -> Result<Arc<dyn Stream>> {
        self.inner.stream(priority)
    }

    fn compile(&self, source: &str) -> Result<Arc<dyn Module>> {
        self.inner.compile(source)
    }

    fn has_compiled(&self, source: &str) -> bool {
        self.inner.has_compiled(source)
    }

    fn compiled(&self) -> usize {
        self.inner.compiled()
    }

    fn page_locked(&self, len: usize) -> Result<Box<dyn HostMemory>> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Error::device("no page can be locked"));
        }
        self.locked.fetch_add(len, Ordering::Relaxed);
        Ok(Box::new(SampledValues(self.inner.page_locked(len)?, self.locked.clone())))
    }
}

const MIB: usize = 1 << 20;

/// A pool with a limit in MiB, and how many MiB are locked.
fn pool(limit: usize) -> (Arc<Counting>, Arc<Pool>, impl Fn() -> usize) {
    let locked = Arc::new(AtomicUsize::new(0));
    let (inner, refuses) = (
        crate::gpu::simt::open(
            0,
            crate::gpu::simt::Emulation { memory: 1 << 20, ..Default::default() },
        ),
        AtomicBool::new(false),
    );
    let device = Arc::new(Counting { inner, locked: locked.clone(), refuses });
    let pool = Pool::new(&(device.clone() as Arc<dyn Device>));
    pool.set_limit(limit * MIB);
    (device, pool, move || locked.load(Ordering::Relaxed) / MIB)
}

#[test]
fn memory_is_used_again() {
    let (_device, pool, locked) = pool(10);
    let first = pool.result(3 * MIB).unwrap();
    let start = first.start();
    drop(first);
    assert_eq!(locked(), 3);
    // Of about the same length: the same.
    let again = pool.result(2 * MIB + 1).unwrap();
    assert_eq!((again.start(), locked()), (start, 3));
    drop(again);
    // For a user as well, but not for what is much shorter.
    let other = pool.allocate(MIB).unwrap();
    assert_eq!(locked(), 4);
    let user = pool.allocate(3 * MIB).unwrap();
    assert_eq!((user.start(), locked()), (start, 4));
    drop((other, user));
    assert_eq!(locked(), 4);
}

#[test]
fn results_and_idle_memory_stay_within_the_limit() {
    let (_device, pool, locked) = pool(10);
    assert!(pool.result(MIN_RESULT - 1).is_none() && pool.result(11 * MIB).is_none());
    let results: Vec<Block> = (0..5).map_while(|_| pool.result(2 * MIB)).collect();
    assert_eq!((results.len(), locked()), (5, 10));
    assert!(pool.result(MIB).is_none());
    // Users' memory does not count until it is idle.
    let user = pool.allocate(7 * MIB).unwrap();
    assert_eq!(locked(), 17);
    drop(user);
    assert_eq!(locked(), 10);
    drop(results);
    assert_eq!(locked(), 10);
    // Idle memory that does not fit makes room.
    let long = pool.result(9 * MIB).unwrap();
    assert_eq!(locked(), 9);
    drop(long);
    pool.set_limit(0);
    assert_eq!(locked(), 0);
    assert!(pool.result(MIB).is_none());
}

#[test]
fn results_go_to_ordinary_memory_where_no_page_can_be_locked() {
    let (device, pool, locked) = pool(10);
    device.refuses.store(true, Ordering::Relaxed);
    assert!(pool.allocate(MIB).unwrap_err().to_string().contains("locked"));
    let memory = ResultMemory::new(&pool, 2 * MIB);
    assert!(matches!(memory.room, Room::Ordinary(_)));
    let buffer = memory.clone().finish(vec![memory.all().fill(7).unwrap()]);
    assert!(buffer.len() == 2 * MIB && buffer.iter().all(|byte| *byte == 7));
    device.refuses.store(false, Ordering::Relaxed);
    // What failed does not count.
    drop(pool.result(10 * MIB).unwrap());
    assert_eq!(locked(), 10);
}

#[test]
fn a_buffer_keeps_its_memory_and_gives_it_back() {
    let (_device, pool, locked) = pool(4);
    let memory = ResultMemory::new(&pool, 2 * MIB);
    let (first, second) = (memory.cut(MIB).unwrap(), memory.cut(MIB - 5).unwrap());
    assert!(memory.cut(6).is_none());
    let second = second.fill(2).unwrap();
    let parts = vec![first.fill(1).unwrap(), second.clone()];
    let buffer = memory.finish(parts);
    let slice = buffer.slice_with_length(MIB - 1, 2);
    drop(buffer);
    assert!(pool.result(3 * MIB).is_none());
    drop(pool);
    assert_eq!((slice.as_slice(), second[0], locked()), (&[1, 2][..], 2, 2));
    drop((slice, second));
    // The pool went with the last buffer.
    assert_eq!(locked(), 0);
}

#[test]
#[should_panic(expected = "bytes are missing")]
fn a_result_without_a_part_is_none() {
    let (_device, pool, _) = pool(4);
    let memory = ResultMemory::new(&pool, 20);
    let (_, second) = (memory.cut(10), memory.cut(10).unwrap());
    memory.clone().finish(vec![second.fill(0).unwrap()]);
}

#[test]
fn more_than_a_slice_may_have_is_an_error() {
    let (_device, pool, locked) = pool(10);
    for len in [usize::MAX, usize::MAX - MIB, isize::MAX as usize] {
        assert!(pool.allocate(len).is_err());
        assert!(pool.result(len).is_none());
    }
    assert_eq!(locked(), 0);
}
