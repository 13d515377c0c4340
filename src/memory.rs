//! Limits of the memory that decompressed values take. Headers of a hundred bytes can stand for
//! 128 MiB of values, so what a call needs is added up from headers, and compared with a limit,
//! before memory is taken. And memory for results, in huge pages.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Error, Place, Result};

/// Bytes that any input may become.
const BASE: u64 = 1 << 30;
/// Bytes that each byte of the input may become beyond these. A column whose rows are all the same
/// string of 10 bytes takes 22,400 for each of its compressed bytes.
const PER_STORED_BYTE: u64 = 32_768;

/// How many bytes of decompressed values a call may make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MemoryLimit {
    /// 1 GiB and 32,768 times the compressed bytes, at most the memory of the machine.
    #[default]
    OfInput,
    Bytes(u64),
    /// Bytes of a call that has made some already.
    Rest {
        limit: u64,
        made: u64,
    },
    /// For values that lanepack has compressed itself, or checked before.
    Unlimited,
}

impl MemoryLimit {
    /// The limit for an input of so many compressed bytes.
    fn bytes(self, stored: u64) -> u64 {
        match self {
            Self::OfInput => BASE
                .saturating_add(PER_STORED_BYTE.saturating_mul(stored))
                .min(machine_memory().unwrap_or(u64::MAX)),
            Self::Bytes(limit) | Self::Rest { limit, .. } => limit,
            Self::Unlimited => u64::MAX,
        }
    }

    /// The limit of a call whose whole input has so many compressed bytes.
    pub fn of_input(self, stored: u64) -> Self {
        match self {
            Self::OfInput => Self::Bytes(self.bytes(stored)),
            other => other,
        }
    }

    /// The limit once a part of a call has made values of so many bytes.
    pub fn after(self, bytes: u64) -> Self {
        match self {
            Self::Bytes(limit) => Self::Rest { limit, made: bytes },
            Self::Rest { limit, made } => Self::Rest { limit, made: made.saturating_add(bytes) },
            Self::OfInput | Self::Unlimited => self,
        }
    }

    /// The limit once a part of a call has given back so many bytes.
    fn without(self, bytes: u64) -> Self {
        match self {
            Self::Rest { limit, made } => Self::Rest { limit, made: made.saturating_sub(bytes) },
            Self::Bytes(_) | Self::OfInput | Self::Unlimited => self,
        }
    }

    /// What the values of columns take; an error if that is more than an input of `stored` compressed bytes may.
    /// Columns are given by name, which may be empty, and the bytes of their values.
    pub fn check<'a>(
        self,
        stored: usize,
        columns: impl Iterator<Item = (&'a str, u64)>,
    ) -> Result<u64> {
        let made = if let Self::Rest { made, .. } = self { made } else { 0 };
        let (mut total, mut largest) = (made, ("", 0));
        for (name, needed) in columns {
            total = total.saturating_add(needed);
            if needed > largest.1 {
                largest = (name, needed);
            }
        }
        let limit = self.bytes(stored as u64);
        if total <= limit {
            return Ok(total - made);
        }
        let (name, needed) = largest;
        let column = Some(name.to_owned()).filter(|name| !name.is_empty());
        let place = Place { column, ..Place::default() };
        Err(Error::MemoryLimit { place, needed, total, limit })
    }
}

/// The limit of what parts of a call make together, some of them at the same time.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<MemoryLimit>);

impl Budget {
    pub fn new(limit: MemoryLimit) -> Self {
        Self(Mutex::new(limit))
    }

    fn limit(&self) -> MutexGuard<'_, MemoryLimit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `make` make a part when no other is made, and counts its bytes.
    pub fn one_part<T>(
        &self,
        bytes: impl FnOnce(&T) -> u64,
        make: impl FnOnce(MemoryLimit) -> Result<T>,
    ) -> Result<T> {
        let left = *self.limit();
        let part = make(left)?;
        let mut limit = self.limit();
        *limit = limit.after(bytes(&part));
        Ok(part)
    }

    /// Has `make` make a part, beside others: it takes what `check` has compared with a limit, and in the end as many
    /// bytes as it gives.
    pub fn reserve<T>(
        &self,
        check: impl FnOnce(MemoryLimit) -> Result<u64>,
        make: impl FnOnce() -> Result<(T, u64)>,
    ) -> Result<T> {
        let mut limit = self.limit();
        let reserved = check(*limit)?;
        *limit = limit.after(reserved);
        drop(limit);
        let (part, bytes) = make()?;
        let mut limit = self.limit();
        *limit = limit.after(bytes).without(reserved);
        Ok(part)
    }
}

/// Shorter memory is not worth a call.
#[cfg(target_os = "linux")]
const LONG: usize = 4 << 20;

/// Asks for huge pages (2 MiB) for memory that is about to be written for the first time. Where the
/// system gives them only when asked, which is usual on Linux, fresh pages of 4 KiB take longer than
/// what most encodings need to fill them.
pub(crate) fn advise_huge_pages(start: *const u8, len: usize) {
    #[cfg(target_os = "linux")]
    if len >= LONG {
        const PAGE: usize = 4096;
        let first = start.addr().next_multiple_of(PAGE);
        let whole = (start.addr() + len - first) / PAGE * PAGE;
        let first = start.with_addr(first).cast_mut().cast();
        // SAFETY: the advice changes no bytes, whatever lies there; it may be refused.
        unsafe { libc::madvise(first, whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, len);
}

/// Zeros, for results: in huge pages where they are long.
pub(crate) fn zeros<T: bytemuck::Zeroable + Clone>(len: usize) -> Vec<T> {
    let zeros = vec![T::zeroed(); len];
    advise_huge_pages(zeros.as_ptr().cast(), size_of_val(zeros.as_slice()));
    zeros
}

/// Bytes of memory of this machine, or what the control group at the root of its hierarchy, that of a
/// container, is allowed if that is less; none where neither is known (other systems than Linux).
fn machine_memory() -> Option<u64> {
    static MEMORY: OnceLock<Option<u64>> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let read = |path| std::fs::read_to_string(path).ok();
        let machine = read("/proc/meminfo").as_deref().and_then(total_of);
        let group = read("/sys/fs/cgroup/memory.max").and_then(|bytes| bytes.trim().parse().ok());
        machine.into_iter().chain(group).min()
    })
}

/// The line `MemTotal` of /proc/meminfo, in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_grows_with_the_input_up_to_the_machine() {
        let limit = |stored| MemoryLimit::OfInput.bytes(stored);
        let machine = machine_memory().unwrap_or(u64::MAX);
        assert_eq!(limit(0), BASE.min(machine));
        assert_eq!(limit(1000), (BASE + 32_768_000).min(machine));
        assert_eq!(limit(u64::MAX), machine);
    }

    #[test]
    fn the_largest_column_is_named() {
        let columns = || [("a", 5), ("b", 7), ("c", 1)].into_iter();
        assert!(MemoryLimit::Bytes(13).check(0, columns()).is_ok());
        let error = MemoryLimit::Bytes(12).check(0, columns()).unwrap_err().to_string();
        assert!(error.contains("\"b\"") && error.contains("7 bytes of 13"), "{error}");
        let huge = [("a", u64::MAX), ("b", 1)].into_iter();
        assert!(MemoryLimit::OfInput.check(0, huge.clone()).is_err());
        assert!(MemoryLimit::Unlimited.check(0, huge).is_ok());
    }

    #[test]
    fn long_memory_is_zeros_too() {
        for len in [0, 1, 100, 1 << 20, (9 << 20) + 17] {
            let mut bytes: Vec<u8> = zeros(len);
            assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
        }
    }

    #[test]
    fn the_memory_of_a_machine_is_read() {
        let text = "MemTotal:       24665344 kB\nMemFree:         1 kB\n";
        assert_eq!(total_of(text), Some(24_665_344 << 10));
        assert_eq!(total_of("MemFree: 1 kB"), None);
        assert_eq!(total_of("MemTotal: 99999999999999999999 kB"), None);
    }

    #[test]
    fn parts_take_what_they_reserve_until_they_are_made() {
        let budget = Budget::new(MemoryLimit::Bytes(100));
        let check = |limit: MemoryLimit| limit.check(0, std::iter::once(("name", 60)));
        let small = budget.reserve(check, || {
            assert!(budget.reserve(check, || Ok(((), 0))).is_err());
            Ok(("made", 30))
        });
        assert_eq!(small.unwrap(), "made");
        assert!(budget.one_part(|bytes| *bytes, |_| Ok(10)).is_ok());
        // 40 are made.
        assert!(budget.reserve(check, || Ok(((), 1))).is_ok());
        assert!(budget.reserve(check, || Ok(((), 0))).is_err());
    }
}
