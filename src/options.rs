//! What a caller may choose when compressing.

use std::ops::Range;

use crate::chunk::{Encoding, MAX_CHUNK_ROWS};
use crate::error::{Error, Result};
use crate::lanes::VECTOR;

/// How much is tried to make columns small.
///
/// ```
/// use lanepack::{Effort, Encoding, Options};
/// let options = Options::default().with_effort(Effort::Small);
/// assert!(options.allows(Encoding::Front));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Effort {
    /// One encoding for each kind of values, whose size a sample tells: the least time to
    /// compress, and to decompress.
    Fast,
    /// All encodings but front coding, which makes strings slower to read.
    #[default]
    Balanced,
    /// All encodings.
    Small,
}

impl Effort {
    /// The encodings that it allows, with those of nested columns.
    pub fn encodings(self) -> Vec<Encoding> {
        let fast = || Encoding::BALANCED.iter().filter(|one| !one.is_searched()).copied();
        let flat: Vec<Encoding> = match self {
            Self::Fast => fast().collect(),
            Self::Balanced => Encoding::BALANCED.to_vec(),
            Self::Small => return Encoding::ALL.to_vec(),
        };
        [flat.as_slice(), Encoding::NESTED].concat()
    }
}

impl std::str::FromStr for Effort {
    type Err = Error;

    /// Reads `fast`, `balanced` or `small`.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "fast" => Ok(Self::Fast),
            "balanced" => Ok(Self::Balanced),
            "small" => Ok(Self::Small),
            _ => {
                let what = format!("fast, balanced or small is needed, {name:?} was given");
                Err(Error::Options { name: "effort", what })
            }
        }
    }
}

/// How bytes are compressed by [`Encoding::Lz`].
///
/// ```
/// use lanepack::{Lz, Options};
/// let options = Options::default().with_lz(Lz { level: 2, ..Lz::default() });
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lz {
    /// How far matches look back: 32, 64, 128 and 255 symbols at levels 1 to 4, as GPULZ has
    /// them, a whole segment of 64 KiB at level 5 (the default), which takes least.
    pub level: u8,
    /// Bytes of a symbol: 1, 2, 4 or 8, where these divide what values have. By default that of
    /// the values, or 1 where that takes an eighth less.
    pub symbol_bytes: Option<usize>,
    /// Symbols of a segment: a power of two from 128 to 65,536, and at least as many as 1 KiB has,
    /// at most as many as 64 KiB have (others become these). By default 2,048, at level 5 as many
    /// as 64 KiB have.
    pub segment_symbols: Option<usize>,
}

impl Default for Lz {
    fn default() -> Self {
        Self { level: 5, symbol_bytes: None, segment_symbols: None }
    }
}

impl Lz {
    fn validate(&self) -> Result<()> {
        let error = |name, what| Err(Error::Options { name, what });
        if !(1..=5).contains(&self.level) {
            return error("lz.level", format!("1 to 5 is needed, {} was given", self.level));
        }
        if let Some(bytes) = self.symbol_bytes
            && !matches!(bytes, 1 | 2 | 4 | 8)
        {
            let what = format!("1, 2, 4 or 8 is needed, {bytes} was given");
            return error("lz.symbol_bytes", what);
        }
        if let Some(symbols) = self.segment_symbols
            && !(symbols.is_power_of_two() && (1 << 7..=1 << 16).contains(&symbols))
        {
            let what = format!("a power of two from 128 to 65,536 is needed, {symbols} was given");
            return error("lz.segment_symbols", what);
        }
        Ok(())
    }
}

/// Settings for [`compress`](crate::compress); the default suits most data.
///
/// ```
/// use lanepack::{Encoding, Options};
/// let options = Options::default().with_chunk_rows(65_536).without(Encoding::Fsst);
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Encodings that may be chosen. [`Encoding::Plain`] is always allowed,
    /// so that no input is refused. By default those of [`Effort::Balanced`].
    pub encodings: Vec<Encoding>,
    /// Values per chunk: a multiple of 1,024, at most [`MAX_CHUNK_ROWS`] (the default).
    pub chunk_rows: usize,
    /// Threads to use; `None` takes the rayon pool that the caller runs in.
    pub threads: Option<usize>,
    /// Decode every chunk after encoding it and compare all bits; a difference
    /// is an [`Error::Verify`]. Off by default: it costs about as much as a decompression.
    pub verify: bool,
    /// How bytes are compressed that nothing else suits.
    pub lz: Lz,
    /// Rows that share an FSST symbol table, in whole chunks and at least one; for tests.
    #[doc(hidden)]
    pub group_rows: usize,
    /// Where planners note what they are told, if they are to; for tests.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub plan_log: Option<PlanLog>,
}

/// What planners have been told, a text for each chunk and each of its bitmaps; for tests that compare
/// engines.
#[cfg(feature = "internals")]
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct PlanLog(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

#[cfg(feature = "internals")]
impl PlanLog {
    fn noted(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn note(&self, text: String) {
        self.noted().push(text);
    }

    /// Takes what has been noted so far, sorted and each text once: chunks are planned in any order,
    /// and on devices until nothing is missing of their nodes.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let mut noted = std::mem::take(&mut *self.noted());
        noted.sort_unstable();
        noted.dedup();
        noted
    }
}

/// Logs are no part of options that one could compare.
#[cfg(feature = "internals")]
impl PartialEq for PlanLog {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(feature = "internals")]
impl Eq for PlanLog {}

/// Rows that share a symbol table: 64 of the largest chunks.
const GROUP_ROWS: usize = 64 * MAX_CHUNK_ROWS;

impl Default for Options {
    fn default() -> Self {
        Self {
            encodings: Effort::default().encodings(),
            chunk_rows: MAX_CHUNK_ROWS,
            threads: None,
            verify: false,
            lz: Lz::default(),
            group_rows: GROUP_ROWS,
            #[cfg(feature = "internals")]
            plan_log: None,
        }
    }
}

impl Options {
    /// Sets [`Options::chunk_rows`].
    #[must_use]
    pub fn with_chunk_rows(mut self, rows: usize) -> Self {
        self.chunk_rows = rows;
        self
    }

    /// Sets [`Options::threads`].
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets [`Options::verify`].
    #[must_use]
    pub fn with_verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets [`Options::lz`].
    #[must_use]
    pub fn with_lz(mut self, lz: Lz) -> Self {
        self.lz = lz;
        self
    }

    /// Allows the encodings of an effort (and [`Encoding::Plain`]) only.
    #[must_use]
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.encodings = effort.encodings();
        self
    }

    /// Allows these encodings (and [`Encoding::Plain`]) only.
    #[must_use]
    pub fn with_encodings(mut self, encodings: impl IntoIterator<Item = Encoding>) -> Self {
        self.encodings = encodings.into_iter().collect();
        self
    }

    /// Forbids one encoding.
    #[must_use]
    pub fn without(mut self, encoding: Encoding) -> Self {
        self.encodings.retain(|allowed| *allowed != encoding);
        self
    }

    /// Whether `encoding` may be chosen.
    pub fn allows(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Plain || self.encodings.contains(&encoding)
    }

    /// Checks that every setting is in its range.
    ///
    /// # Errors
    /// [`Error::Options`] names the setting and its range.
    pub fn validate(&self) -> Result<()> {
        let rows = self.chunk_rows;
        if rows == 0 || !rows.is_multiple_of(VECTOR) || rows > MAX_CHUNK_ROWS {
            let what = format!(
                "a multiple of {VECTOR} from {VECTOR} to {MAX_CHUNK_ROWS} is needed, {rows} was given"
            );
            return Err(Error::Options { name: "chunk_rows", what });
        }
        if self.threads == Some(0) {
            let what = "at least 1 is needed, 0 was given".to_owned();
            return Err(Error::Options { name: "threads", what });
        }
        self.lz.validate()
    }

    /// Groups of consecutive chunks that share a symbol table: as few as have no more rows
    /// than [`Options::group_rows`] or a single chunk, and of one size, so that none is left
    /// with a few chunks.
    pub(crate) fn groups(&self, chunks: usize) -> Vec<Range<usize>> {
        let groups = chunks.div_ceil((self.group_rows / self.chunk_rows).max(1));
        let border = |group: usize| group * chunks / groups;
        (0..groups).map(|group| border(group)..border(group + 1)).collect()
    }

    /// Runs `work` on the threads asked for.
    pub(crate) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        run_on(self.threads, work)
    }
}

/// Runs `work` on `threads` threads; `None` is rayon's global pool.
pub(crate) fn run_on<T: Send>(
    threads: Option<usize>,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    match threads {
        None => Ok(work()),
        Some(threads) => {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|error| Error::Options { name: "threads", what: error.to_string() })?;
            Ok(pool.install(work))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_chunk_rows_that_are_no_multiple_of_a_vector() {
        for rows in [0, 1, 1023, 1025, MAX_CHUNK_ROWS + VECTOR] {
            let error = Options::default().with_chunk_rows(rows).validate().unwrap_err();
            assert!(error.to_string().contains("chunk_rows"), "{error}");
        }
        for rows in [VECTOR, 2 * VECTOR, MAX_CHUNK_ROWS] {
            Options::default().with_chunk_rows(rows).validate().unwrap();
        }
    }

    #[test]
    fn rejects_zero_threads() {
        assert!(Options::default().with_threads(0).validate().is_err());
    }

    #[test]
    fn groups_have_all_chunks_and_one_size() {
        let options = Options::default().with_chunk_rows(MAX_CHUNK_ROWS);
        for chunks in [0, 1, 63, 64, 65, 257, 1000] {
            let groups = options.groups(chunks);
            assert_eq!(groups.len(), chunks.div_ceil(64));
            assert_eq!(groups.iter().flat_map(Clone::clone).collect::<Vec<_>>().len(), chunks);
            assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sizes = || groups.iter().map(Range::len);
            assert!(sizes().max().unwrap_or(0) <= sizes().min().unwrap_or(0) + 1);
        }
    }

    #[test]
    fn more_effort_allows_more() {
        let [fast, balanced, small] =
            ["fast", "balanced", "small"].map(|name| name.parse::<Effort>().unwrap().encodings());
        assert!(fast.iter().all(|one| balanced.contains(one)) && fast.len() < balanced.len());
        assert!(balanced.iter().all(|one| small.contains(one)) && balanced.len() < small.len());
        assert_eq!(Options::default().encodings, balanced);
        let error = "best".parse::<Effort>().unwrap_err().to_string();
        assert!(error.contains("fast, balanced or small"), "{error}");
    }

    #[test]
    fn plain_cannot_be_forbidden() {
        let options = Options::default().without(Encoding::Plain);
        assert!(options.allows(Encoding::Plain));
    }
}
