//! Where the bytes of a file come from.

use std::fmt::Debug;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use arrow_buffer::{Buffer, MutableBuffer};

use crate::error::{Error, Result, ensure};

/// Bytes that are read at any place, by any thread.
pub trait ReadAt: Debug + Send + Sync {
    /// Bytes in all.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads all bytes of a range, which lies inside. Memory that begins at a multiple of 64 bytes, if the
    /// range does, saves copies.
    ///
    /// # Errors
    /// What the source reports, and an error if there are fewer bytes than it said.
    fn read_at(&self, range: Range<u64>) -> Result<Buffer>;

    /// Reads all bytes of a range into memory of as many bytes, whose content is arbitrary before: every byte is
    /// written unless this fails.
    ///
    /// # Errors
    /// As [`ReadAt::read_at`].
    fn read_into(&self, range: Range<u64>, target: &mut [u8]) -> Result<()> {
        let bytes = read_exact(self, range)?;
        ensure!(
            bytes.len() == target.len(),
            "{} bytes for {} of memory",
            bytes.len(),
            target.len()
        );
        target.copy_from_slice(&bytes);
        Ok(())
    }

    /// Two ranges with so few bytes between them are better read as one: a page, unless the source says
    /// otherwise. Gaps that are read with the ranges are never more than half of what is read.
    fn gap(&self) -> u64 {
        4096
    }

    /// Whether a range costs little more than its bytes, and threads do not wait for each other, as with files of
    /// the system and memory: then the CPU reads chunk by chunk what it scans. Not by default: neighbouring chunks
    /// are read together.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether a range is in memory, as far as is known: nothing is announced if some ranges that are asked for are
    /// there. Not by default.
    fn is_ready(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Says that a range will be read soon. A source that can fetch it beforehand may do that.
    fn will_read(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Says that a range which was announced will not be read, as a call has failed or was given up.
    fn will_not_read(&self, range: Range<u64>) {
        let _ = range;
    }
}

/// Reads a range, and checks that all of it has come.
pub(super) fn read_exact(source: &(impl ReadAt + ?Sized), range: Range<u64>) -> Result<Buffer> {
    let len = len_of(&range)?;
    let bytes = source.read_at(range.clone())?;
    ensure!(bytes.len() == len, "{} bytes came of bytes {range:?}", bytes.len());
    Ok(bytes)
}

/// The length of a range, as one of memory.
fn len_of(range: &Range<u64>) -> Result<usize> {
    let len = range.end.saturating_sub(range.start);
    usize::try_from(len).map_err(|_| Error::too_large(format!("{len} bytes at a time")))
}

/// Files of the system, read without a cursor.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct SystemFile {
    handle: Handle,
    len: u64,
}

#[cfg(unix)]
#[derive(Debug)]
enum Handle {
    Open(std::fs::File),
    /// A file that is opened for each read, and has to be the one that it was.
    Reopened(PathBuf, Identity),
}

/// What tells a file from others, and from itself after a change.
#[cfg(unix)]
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

#[cfg(unix)]
impl Identity {
    fn of(file: &std::fs::File) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

#[cfg(unix)]
impl SystemFile {
    /// A file that stays open.
    pub fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { handle: Handle::Open(file), len })
    }

    /// A file that is open while it is read only, for those who have more files than a process may have open.
    pub fn reopened(path: &Path) -> Result<Self> {
        let identity = Identity::of(&std::fs::File::open(path)?)?;
        let len = identity.len;
        // As the folder of the process may change.
        Ok(Self { handle: Handle::Reopened(std::path::absolute(path)?, identity), len })
    }

    fn with_file<T>(
        &self,
        work: impl FnOnce(&std::fs::File) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        match &self.handle {
            Handle::Open(file) => work(file),
            Handle::Reopened(path, identity) => {
                let file = std::fs::File::open(path)?;
                if Identity::of(&file)? != *identity {
                    let what = "the file was changed or replaced after it had been opened";
                    return Err(std::io::Error::other(what));
                }
                work(&file)
            }
        }
    }
}

/// Whether a range is in memory, as far as the system tells. What is there at both ends is taken for all of it:
/// where it is not, reading waits.
#[cfg(target_os = "linux")]
fn is_ready(file: &std::fs::File, range: &Range<u64>) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let is_cached = |at: u64| {
        let mut byte = [0];
        let mut target = [std::io::IoSliceMut::new(&mut byte)];
        preadv2(file, &mut target, at, ReadWriteFlags::NOWAIT).is_ok()
    };
    range.is_empty() || is_cached(range.start) && is_cached(range.end - 1)
}

#[cfg(unix)]
impl ReadAt for SystemFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer> {
        let mut bytes = MutableBuffer::from_len_zeroed(len_of(&range)?);
        self.read_into(range, &mut bytes)?;
        Ok(bytes.into())
    }

    fn read_into(&self, range: Range<u64>, target: &mut [u8]) -> Result<()> {
        use std::os::unix::fs::FileExt;
        Ok(self.with_file(|file| file.read_exact_at(target, range.start))?)
    }

    fn is_local(&self) -> bool {
        true
    }

    #[cfg(target_os = "linux")]
    fn is_ready(&self, range: Range<u64>) -> bool {
        self.with_file(|file| Ok(is_ready(file, &range))).unwrap_or(false)
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, range: Range<u64>) {
        use rustix::fs::{Advice, fadvise};
        let Some(len) = std::num::NonZeroU64::new(range.end.saturating_sub(range.start)) else {
            return;
        };
        // It is a hint, which the system may refuse.
        let _ = self.with_file(|file| {
            // Asking for what is in memory takes as long as copying a tenth of it.
            if !is_ready(file, &range) {
                fadvise(file, range.start, Some(len), Advice::WillNeed)?;
            }
            Ok(())
        });
    }
}

/// A file in memory.
impl ReadAt for Buffer {
    fn len(&self) -> u64 {
        Buffer::len(self) as u64
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer> {
        let len = len_of(&range)?;
        let inside = usize::try_from(range.start)
            .ok()
            .filter(|at| at.checked_add(len).is_some_and(|end| end <= Buffer::len(self)));
        let at = inside.ok_or_else(|| {
            Error::corrupt(format!("bytes {range:?} of a file of {}", self.len()))
        })?;
        Ok(self.slice_with_length(at, len))
    }

    fn is_local(&self) -> bool {
        true
    }

    fn is_ready(&self, _: Range<u64>) -> bool {
        true
    }
}

/// Anything that reads and seeks, by one thread at a time.
#[derive(Debug)]
pub(super) struct Seeking<R> {
    reader: Mutex<R>,
    len: u64,
}

impl<R: Read + Seek> Seeking<R> {
    pub fn new(mut reader: R) -> Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        Ok(Self { reader: Mutex::new(reader), len })
    }
}

impl<R: Read + Seek + Send + Debug> ReadAt for Seeking<R> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, range: Range<u64>) -> Result<Buffer> {
        let mut bytes = MutableBuffer::from_len_zeroed(len_of(&range)?);
        self.read_into(range, &mut bytes)?;
        Ok(bytes.into())
    }

    fn read_into(&self, range: Range<u64>, target: &mut [u8]) -> Result<()> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::Start(range.start))?;
        Ok(reader.read_exact(target)?)
    }
}
