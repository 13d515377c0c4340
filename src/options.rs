//! What a caller may choose when compressing.

use std::ops::Range;

use crate::chunk::{Encoding, EncodingSet, MAX_CHUNK_ROWS};
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
    pub fn encodings(self) -> EncodingSet {
        let flat: EncodingSet = match self {
            Self::Fast => Encoding::BALANCED.iter().filter(|one| !one.is_searched()).collect(),
            Self::Balanced => EncodingSet::of(Encoding::BALANCED),
            Self::Small => return EncodingSet::ALL,
        };
        flat.union(EncodingSet::of(Encoding::NESTED))
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
/// Settings out of range are found by [`Options::validate`], as all others are.
///
/// ```
/// use lanepack::{Lz, Options};
/// let options = Options::default().with_lz(Lz::default().with_level(2).with_symbol_bytes(4));
/// assert!(options.validate().is_ok());
/// assert_eq!(options.lz().level(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lz {
    pub(crate) level: u8,
    pub(crate) symbol_bytes: Option<usize>,
    pub(crate) segment_symbols: Option<usize>,
}

impl Default for Lz {
    fn default() -> Self {
        Self { level: 5, symbol_bytes: None, segment_symbols: None }
    }
}

impl Lz {
    /// Sets how far matches look back: 32, 64, 128 and 255 symbols at levels 1 to 4, as in GPULZ
    /// (Zhang et al., ICS 2023, section 3), a whole segment of 64 KiB at level 5 (the default),
    /// whose output is the smallest.
    #[must_use]
    pub fn with_level(mut self, level: u8) -> Self {
        self.level = level;
        self
    }

    /// Sets the bytes of a symbol: 1, 2, 4 or 8, where these divide the size of a value. `None`
    /// (the default) is the size of the values, or 1 where that takes an eighth less.
    #[must_use]
    pub fn with_symbol_bytes(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.symbol_bytes = bytes.into();
        self
    }

    /// Sets the symbols of a segment: a power of two from 128 to 65,536. Segments have at least
    /// 1 KiB and at most 64 KiB; the nearest of these is used for others. `None` (the default) is
    /// 2,048, at level 5 as many as 64 KiB have.
    #[must_use]
    pub fn with_segment_symbols(mut self, symbols: impl Into<Option<usize>>) -> Self {
        self.segment_symbols = symbols.into();
        self
    }

    /// The level, 1 to 5; see [`Lz::with_level`].
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Bytes of a symbol; `None` lets the encoder choose. See [`Lz::with_symbol_bytes`].
    pub fn symbol_bytes(&self) -> Option<usize> {
        self.symbol_bytes
    }

    /// Symbols of a segment; `None` is the level's default. See [`Lz::with_segment_symbols`].
    pub fn segment_symbols(&self) -> Option<usize> {
        self.segment_symbols
    }

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
/// Setters accept any value: what is out of range is an [`Error::Options`] of the function that
/// the options are passed to, or of [`Options::validate`].
///
/// ```
/// use lanepack::{Encoding, Options};
/// let options = Options::default().with_chunk_rows(65_536).without(Encoding::Fsst);
/// assert!(options.validate().is_ok());
/// assert_eq!(options.chunk_rows(), 65_536);
/// assert!(!options.encodings().contains(Encoding::Fsst));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub(crate) encodings: EncodingSet,
    pub(crate) chunk_rows: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) verify: bool,
    pub(crate) lz: Lz,
    /// Rows that share an FSST symbol table, in whole chunks and at least one.
    pub(crate) group_rows: usize,
    /// Where planners note what they are told, if they are to; for tests.
    #[cfg(feature = "_internals")]
    pub(crate) plan_log: Option<PlanLog>,
}

/// What planners have been told, a text for each chunk and each of its bitmaps; for tests that compare
/// engines.
#[cfg(feature = "_internals")]
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct PlanLog(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

#[cfg(feature = "_internals")]
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
#[cfg(feature = "_internals")]
impl PartialEq for PlanLog {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(feature = "_internals")]
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
            #[cfg(feature = "_internals")]
            plan_log: None,
        }
    }
}

impl Options {
    /// Sets the values per chunk: a multiple of 1,024, at most [`MAX_CHUNK_ROWS`] (the default).
    #[must_use]
    pub fn with_chunk_rows(mut self, rows: usize) -> Self {
        self.chunk_rows = rows;
        self
    }

    /// Sets how many threads are used; `None` (the default) is the rayon pool of the caller.
    #[must_use]
    pub fn with_threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets whether every chunk is decoded after it was encoded and compared with its values, bit
    /// by bit: a difference is an [`Error::Verify`]. Off by default: it costs about as much as a
    /// decompression.
    #[must_use]
    pub fn with_verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets how bytes are compressed that no other encoding makes smaller.
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

    /// Forbids one encoding; [`Encoding::Plain`] is allowed all the same.
    #[must_use]
    pub fn without(mut self, encoding: Encoding) -> Self {
        self.encodings.remove(encoding);
        self
    }

    /// Sets the rows that share an FSST symbol table, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_group_rows(mut self, rows: usize) -> Self {
        self.group_rows = rows;
        self
    }

    /// Sets where planners note what they are told, for tests.
    #[cfg(feature = "_internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_plan_log(mut self, log: PlanLog) -> Self {
        self.plan_log = Some(log);
        self
    }

    /// The encodings that may be chosen, by default those of [`Effort::Balanced`].
    /// [`Encoding::Plain`] is allowed even if it is not among them, so that no input is refused.
    pub fn encodings(&self) -> EncodingSet {
        self.encodings
    }

    /// Whether `encoding` may be chosen.
    pub fn allows(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Plain || self.encodings.contains(encoding)
    }

    /// Values per chunk; see [`Options::with_chunk_rows`].
    pub fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    /// How many threads are used; see [`Options::with_threads`].
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// Whether chunks are decoded after they were encoded; see [`Options::with_verify`].
    pub fn verify(&self) -> bool {
        self.verify
    }

    /// How bytes are compressed that no other encoding makes smaller.
    pub fn lz(&self) -> Lz {
        self.lz
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
    /// than `group_rows` or a single chunk, and of one size, so that none is left
    /// with a few chunks.
    pub(crate) fn groups(&self, chunks: usize) -> Vec<Range<usize>> {
        let groups = chunks.div_ceil((self.group_rows / self.chunk_rows).max(1));
        let border = |group: usize| group * chunks / groups;
        (0..groups).map(|group| border(group)..border(group + 1)).collect()
    }

    /// A pool of the threads asked for; none for rayon's global one.
    pub(crate) fn pool(&self) -> Result<Option<rayon::ThreadPool>> {
        pool_of(self.threads)
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
    Ok(match pool_of(threads)? {
        None => work(),
        Some(pool) => pool.install(work),
    })
}

/// A pool of so many threads; `None` for rayon's global pool.
fn pool_of(threads: Option<usize>) -> Result<Option<rayon::ThreadPool>> {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let failed = |error: rayon::ThreadPoolBuildError| Error::Options {
        name: "threads",
        what: error.to_string(),
    };
    threads.map(pool).transpose().map_err(failed)
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
        assert!(Options::default().with_threads(0).with_threads(None).validate().is_ok());
    }

    #[test]
    fn options_give_what_was_set() {
        let lz = Lz::default().with_level(3).with_symbol_bytes(4).with_segment_symbols(Some(512));
        assert_eq!((lz.level(), lz.symbol_bytes(), lz.segment_symbols()), (3, Some(4), Some(512)));
        let options = Options::default()
            .with_chunk_rows(2048)
            .with_threads(3)
            .with_verify(true)
            .with_lz(lz)
            .with_encodings([Encoding::Alp]);
        assert_eq!((options.chunk_rows(), options.threads()), (2048, Some(3)));
        assert_eq!((options.verify(), options.lz()), (true, lz));
        assert_eq!(options.encodings(), EncodingSet::from(Encoding::Alp));
        assert!(options.allows(Encoding::Alp) && !options.allows(Encoding::Ffor));
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
        assert!(fast.is_subset(balanced) && fast.len() < balanced.len());
        assert!(balanced.is_subset(small) && balanced.len() < small.len());
        assert_eq!(Options::default().encodings(), balanced);
        let error = "best".parse::<Effort>().unwrap_err().to_string();
        assert!(error.contains("fast, balanced or small"), "{error}");
    }

    #[test]
    fn plain_cannot_be_forbidden() {
        let options = Options::default().without(Encoding::Plain);
        assert!(options.allows(Encoding::Plain));
    }
}
