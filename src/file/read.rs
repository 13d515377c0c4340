//! Reading: the footer and the index, then the chunks that are asked for.

use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::read_footer_length;
use arrow_ipc::root_as_footer;
use arrow_schema::{Schema, SchemaRef};
use rayon::prelude::*;

use super::access::{self, ColumnStatistics};
use super::framing::MAGIC;
use super::index::{self, Entry, FilterEntry, Index};
#[cfg(unix)]
use super::source::SystemFile;
use super::source::{ReadAt, Seeking, read_exact};
use crate::batch::decompressed_schema;
use crate::bloom::BloomFilter;
use crate::chunk::{Chunk, Statistics, aligned};
use crate::column::CompressedColumn;
use crate::device::{CompressedDeviceBatch, LandedChunk, Landing, PART_BYTES};
use crate::engine::Engine;
use crate::error::{Error, Result, ensure};
use crate::extension::{chunk_of_packed, packed_checksum};
use crate::fence::{fenced, schema_of};
use crate::gpu::DeviceBuffer;
use crate::scan::{ChunkSource, Scan, windows};

/// The end of a file: length of the footer, and the magic bytes.
const TRAILER: u64 = 10;
/// Ranges of a window that a source is asked of: if all of them are in memory, no others are announced.
const ASKED_OF: usize = 16;
/// Bytes that are read at first, from the end: footer and index of most files.
const FIRST_READ: u64 = 64 << 10;
/// Bytes that are read in one range at most, if a chunk has no more: of sources where each range costs little
/// what a processor's cache holds until its checksum is made; of others more.
const SHORT_RANGE: u64 = 256 << 10;
const LONG_RANGE: u64 = 8 << 20;
/// The longest gap that sources are better read with where each range costs little.
const SHORT_GAP: u64 = 64 << 10;

/// A file of compressed columns with an index, as [`Writer`](super::Writer) writes them: what is asked for is
/// read, the rest is not.
///
/// [`File::scan`] gives a scan, which reads the columns that it uses, and of these the chunks that neither their
/// bounds nor their membership filters ([`Writer::with_filters`](super::Writer::with_filters)) exclude. Checksums of
/// what is read are compared, unless [`File::with_checksums`] says otherwise.
///
/// ```
/// use arrow_array::record_batch;
/// use arrow_buffer::Buffer;
/// use lanepack::scan::col;
/// use lanepack::{Engine, Options, file};
///
/// let batch = record_batch!(
///     ("id", Int64, (0..5000_i64).collect::<Vec<_>>()),
///     ("name", Utf8, (0..5000).map(|id| format!("name {id}")).collect::<Vec<_>>())
/// )?;
/// let options = Options::default().with_chunk_rows(1024);
/// let mut writer = file::Writer::try_new(Vec::new(), &batch.schema(), options)?;
/// writer.write(&batch)?;
/// let file = file::File::from_bytes(Buffer::from_vec(writer.into_inner()?))?;
///
/// assert_eq!((file.num_rows(), file.num_chunks()), (5000, 5));
/// let scan = file.scan().filter(col("id").between(2000, 2001));
/// let found = scan.gather(&["name"], &Engine::cpu())?;
/// assert_eq!(found, record_batch!(("name", Utf8, ["name 2000", "name 2001"]))?);
/// assert_eq!(file.take(&[4999, 0], &Engine::cpu())?.num_rows(), 2);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct File {
    source: Arc<dyn ReadAt>,
    schema: SchemaRef,
    index: Arc<Index>,
    /// Where the index begins.
    chunks_end: u64,
    rows: usize,
    checksums: bool,
    window_bytes: Option<u64>,
    /// What it is called in errors.
    name: Option<Arc<str>>,
}

impl File {
    /// Opens a file of the system.
    ///
    /// # Errors
    /// As [`File::from_reader`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_path(path.as_ref(), true)
    }

    /// Opens a file of the system. It stays open, or is opened again for each read, where the system is a Unix.
    pub(super) fn open_path(path: &Path, stays_open: bool) -> Result<Self> {
        let name = path.display().to_string();
        let open = || {
            #[cfg(unix)]
            return Self::from_source(Arc::new(match stays_open {
                true => SystemFile::open(path)?,
                false => SystemFile::reopened(path)?,
            }));
            #[cfg(not(unix))]
            {
                let _ = stays_open;
                Self::from_reader(std::fs::File::open(path)?)
            }
        };
        open().map(|file| file.with_name(&name)).map_err(|error| error.in_file(&name))
    }

    /// Opens a file that anything reads and seeks, by one thread at a time.
    ///
    /// # Errors
    /// [`Error::NotLanepack`] if it is no IPC file, has no index, or its columns are not compressed;
    /// [`Error::Version`]; [`Error::Corrupt`] or [`Error::Checksum`] for a file that was cut or damaged; what
    /// the reader reports.
    pub fn from_reader<R>(reader: R) -> Result<Self>
    where
        R: Read + Seek + Send + std::fmt::Debug + 'static,
    {
        Self::from_source(Arc::new(Seeking::new(reader)?))
    }

    /// Opens a file in memory, whose chunks are used where they lie if it begins at a multiple of 64 bytes.
    ///
    /// # Errors
    /// As [`File::from_reader`].
    pub fn from_bytes(bytes: Buffer) -> Result<Self> {
        Self::from_source(Arc::new(bytes))
    }

    /// Opens a file that is read by ranges.
    ///
    /// # Errors
    /// As [`File::from_reader`].
    pub fn from_source(source: Arc<dyn ReadAt>) -> Result<Self> {
        let len = source.len();
        let not_ipc = |found: String| Error::not_lanepack("an Arrow IPC file", found);
        if len < TRAILER + 2 * MAGIC.len() as u64 {
            return Err(not_ipc(format!("a file of {len} bytes")));
        }
        let tail_at = len.saturating_sub(FIRST_READ);
        let tail = read_exact(source.as_ref(), tail_at..len)?;
        // Of bytes that may lie before those that have been read.
        let read = |range: Range<u64>| match range.start.checked_sub(tail_at) {
            Some(at) => Ok(tail.slice_with_length(at as usize, (range.end - range.start) as usize)),
            None => read_exact(source.as_ref(), range),
        };
        let (footer_at, footer) = footer_of(len, &read)?;
        let footer = root_as_footer(&footer)
            .map_err(|error| Error::corrupt(format!("footer of the IPC file: {error}")))?;
        let schema = footer.schema().ok_or_else(|| Error::corrupt("an IPC file without schema"))?;
        let schema = decompressed_schema(&schema_of(schema)?)?;
        let pairs = footer.custom_metadata();
        let place = pairs.into_iter().flatten().find(|pair| pair.key() == Some(index::KEY));
        let place = place.and_then(|pair| index::place_of(pair.value()?));
        // A tool that copies the key to another file does not put the index there.
        let place = place.filter(|place| place.end == footer_at && place.start < place.end);
        let Some(place) = place else {
            return Err(Error::not_lanepack(
                "an IPC file with an index, as `file::Writer` writes",
                "none; `ipc::Reader::file` reads it batch by batch",
            ));
        };
        let end = place.start;
        let index = Index::parse(read(place)?, &schema, end)?;
        let rows = index.rows.iter().sum();
        let (schema, index) = (Arc::new(schema), Arc::new(index));
        Ok(Self {
            source,
            schema,
            index,
            chunks_end: end,
            rows,
            checksums: true,
            window_bytes: None,
            name: None,
        })
    }

    /// Calls the file so in errors; a file of the system is called by its path.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What the file is called in errors.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether to compare the checksums of chunks and filters that are read (the default).
    #[must_use]
    pub fn with_checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// How many bytes of chunks a scan reads at a time, and a chunk of all columns that it uses if that has
    /// more. It holds three times as many, and reads some while it looks at others. By default the CPU reads a
    /// chunk for each thread of local files, and 1 MiB for each thread, 8 to 64 MiB, of others; with a GPU it is
    /// 128 MiB.
    #[must_use]
    pub fn with_window_bytes(mut self, bytes: u64) -> Self {
        self.window_bytes = Some(bytes);
        self
    }

    /// The schema of the values.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of all chunks.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Chunks of each column.
    pub fn num_chunks(&self) -> usize {
        self.index.rows.len()
    }

    /// Rows of each chunk.
    pub fn chunk_rows(&self) -> &[usize] {
        &self.index.rows
    }

    /// What is known of a column without reading it.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if there is no column of this name.
    pub fn statistics(&self, name: &str) -> Result<ColumnStatistics> {
        access::statistics(self, name)
    }

    /// A scan of the file, which reads what it needs when it is asked for a result: of columns that have
    /// membership filters and are tested for equality with few constants, first the filters of the chunks that
    /// bounds do not exclude, up to 64 MiB at a time; then the chunks that are left.
    pub fn scan(&self) -> Scan<'_> {
        Scan::of_chunks(self)
    }

    /// A scan of some chunks, for those who divide the work themselves: as [`File::scan`], of the rows of these
    /// chunks, which are numbered from 0. Numbers behind the last chunk are ignored.
    pub fn scan_chunks(&self, chunks: Range<usize>) -> Scan<'_> {
        Scan::of_some_chunks(self, chunks)
    }

    /// Some columns, compressed as they are stored.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if there is no column of a name; [`Error::Corrupt`] or [`Error::Checksum`] for
    /// damaged chunks, with column and chunk; what the source reports.
    pub fn columns<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<CompressedColumn>> {
        access::columns(self, names)
    }

    /// Copies some columns to the first GPU of an engine, where they stay compressed: window by window through
    /// page-locked memory, the next one read while one is copied. Like [`Engine::upload`] of a batch.
    ///
    /// ```no_run
    /// use lanepack::scan::{Scan, col};
    /// use lanepack::{Engine, file};
    ///
    /// let engine = Engine::cuda(0)?;
    /// let file = file::File::open("orders.lanepack")?;
    /// let orders = file.to_device(&["day", "price"], &engine)?;
    /// println!("{}", Scan::on_device(&orders).filter(col("day").lt(100)).count(&engine)?);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`File::columns`]; [`Error::NoDevice`] for an engine without a GPU; [`Error::DeviceMemory`],
    /// [`Error::Device`].
    pub fn to_device<S: AsRef<str>>(
        &self,
        names: &[S],
        engine: &Engine,
    ) -> Result<CompressedDeviceBatch> {
        access::to_device(self, names, engine)
    }

    /// The values of all columns in one chunk.
    ///
    /// # Errors
    /// As [`File::columns`]; [`Error::Mismatch`] if there is no chunk of this number; [`Error::MemoryLimit`].
    pub fn chunk(&self, number: usize, engine: &Engine) -> Result<RecordBatch> {
        access::chunk(self, number, engine)
    }

    /// The values of all columns in some rows, in the order that they are asked for; of chunks without such
    /// rows nothing is read.
    ///
    /// # Errors
    /// As [`File::columns`]; [`Error::Mismatch`] if there is no such row; [`Error::MemoryLimit`].
    pub fn take(&self, rows: &[u64], engine: &Engine) -> Result<RecordBatch> {
        access::take(self, rows, &access::names(self), engine)
    }

    /// The same of some columns.
    ///
    /// # Errors
    /// As [`File::take`].
    pub fn take_columns<S: AsRef<str>>(
        &self,
        rows: &[u64],
        names: &[S],
        engine: &Engine,
    ) -> Result<RecordBatch> {
        access::take(self, rows, &names.iter().map(AsRef::as_ref).collect::<Vec<_>>(), engine)
    }

    /// Where its bytes come from.
    pub(super) fn source(&self) -> &dyn ReadAt {
        self.source.as_ref()
    }

    /// Where the index begins, in front of which all chunks are.
    pub(super) fn chunks_end(&self) -> u64 {
        self.chunks_end
    }

    /// Where a chunk of a column is.
    pub(super) fn entry(&self, column: usize, chunk: usize) -> Entry {
        self.index.entry(column, chunk)
    }

    /// Whether some chunks of a column may have filters.
    pub(super) fn has_filters(&self, column: usize) -> bool {
        self.index.has_filters(column)
    }

    /// Where the filter of a chunk of a column is, if it has one.
    pub(super) fn filter(&self, column: usize, chunk: usize) -> Option<FilterEntry> {
        self.index.filter(column, chunk)
    }

    /// Whether checksums of what is read are compared.
    pub(super) fn compares_checksums(&self) -> bool {
        self.checksums
    }

    /// An error with the name of the file.
    pub(super) fn named(&self, error: Error) -> Error {
        match self.name() {
            Some(name) => error.in_file(name),
            None => error,
        }
    }

    /// All columns as they are stored, so many bytes with their filters at a time, and a chunk at least; and which
    /// chunks these are.
    pub(super) fn portions(
        &self,
        bytes: u64,
    ) -> impl Iterator<Item = Result<(Range<usize>, Vec<CompressedColumn>)>> + '_ {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let of_chunks = (0..self.num_chunks()).map(|chunk| {
            all.iter().map(|of| self.bytes(*of, chunk) + self.filter_bytes(*of, chunk)).sum()
        });
        let portions = windows(of_chunks, bytes);
        let portions = portions.into_iter().filter(|chunks| chunks.start < chunks.end);
        portions.map(move |chunks| {
            let columns = access::read(self, &all, &chunks.clone().collect::<Vec<_>>())?;
            Ok((chunks, columns))
        })
    }
}

/// Where the footer of a file of `len` bytes is, and its bytes.
pub(super) fn footer_of(
    len: u64,
    read: &dyn Fn(Range<u64>) -> Result<Buffer>,
) -> Result<(u64, Buffer)> {
    let trailer = read(len - TRAILER..len)?;
    ensure!(
        trailer.ends_with(MAGIC),
        "a file of {len} bytes without the end of an IPC file: it was cut, its writer did not finish, or it is \
         of another format"
    );
    let trailer: [u8; TRAILER as usize] =
        trailer.as_slice().try_into().map_err(|_| Error::corrupt("a short read"))?;
    let footer_len = fenced(|| read_footer_length(trailer))? as u64;
    ensure!(footer_len + TRAILER <= len, "a footer of {footer_len} bytes in a file of {len}");
    let footer_at = len - TRAILER - footer_len;
    Ok((footer_at, read(footer_at..footer_at + footer_len)?))
}

impl ChunkSource for File {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn chunk_rows(&self) -> &[usize] {
        &self.index.rows
    }

    fn facts(&self, column: usize, chunk: usize) -> (usize, Statistics) {
        (self.index.nulls(column, chunk), self.index.statistics(column, chunk))
    }

    fn bytes(&self, column: usize, chunk: usize) -> u64 {
        self.index.entry(column, chunk).len
    }

    fn filter_bytes(&self, column: usize, chunk: usize) -> u64 {
        self.index.filter(column, chunk).map_or(0, |filter| filter.entry.len)
    }

    fn read_filters(&self, wanted: &[(usize, usize)]) -> Result<Vec<BloomFilter>> {
        self.announced_filters(wanted)
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window_bytes
    }

    fn is_fast_by_chunk(&self) -> bool {
        self.window_bytes.is_none() && self.source.is_local()
    }

    fn announce(&self, columns: &[usize], chunks: &[usize], will_read: bool) {
        let ranges = self.ranges(columns, chunks);
        // Asking of each takes as long as reading a tenth of it.
        let mut some = ranges.iter().step_by(ranges.len().div_ceil(ASKED_OF).max(1));
        if will_read && some.all(|range| self.source.is_ready(range.bytes.clone())) {
            return;
        }
        for range in ranges {
            match will_read {
                true => self.source.will_read(range.bytes),
                false => self.source.will_not_read(range.bytes),
            }
        }
    }

    fn place(&self, chunk: usize, error: Error) -> Error {
        self.named(error.with_chunks(|_| chunk))
    }

    /// Reads neighbouring chunks in one range, ranges in parallel.
    fn read(&self, columns: &[usize], chunks: &[usize]) -> Result<Vec<CompressedColumn>> {
        let ranges = self.ranges(columns, chunks);
        let read = ranges.par_iter().with_max_len(1).map(|range| self.read_range(range));
        let read = read.collect::<Result<Vec<_>>>().map_err(|error| self.named(error))?;
        let chunks = by_column(read, columns.len(), chunks.len()).into_iter();
        let column = |(column, chunks): (&usize, Vec<Chunk>)| {
            CompressedColumn::new(self.schema.fields()[*column].clone(), chunks, Vec::new())
        };
        Ok(columns.iter().zip(chunks).map(column).collect())
    }

    /// Reads some neighbouring chunks at a time, which are copied together.
    fn read_to(
        &self,
        landing: &Landing,
        columns: &[usize],
        chunks: &[usize],
    ) -> Result<Vec<Vec<LandedChunk>>> {
        let ranges = self.ranges(columns, chunks);
        let read = self.read_ranges_to(landing, &ranges).map_err(|error| self.named(error))?;
        Ok(by_column(read, columns.len(), chunks.len()))
    }
}

/// A chunk that is asked for, or its filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The number of its column, and that of the chunk, among those that are asked for.
    pub place: (usize, usize),
    pub column: usize,
    pub chunk: usize,
    pub entry: Entry,
}

/// Chunks or filters that are read together.
#[derive(Debug)]
pub(super) struct ReadRange {
    pub bytes: Range<u64>,
    pub wanted: Vec<Wanted>,
}

impl ReadRange {
    /// Bytes.
    fn len(&self) -> usize {
        (self.bytes.end - self.bytes.start) as usize
    }

    /// Where in these a chunk is.
    pub(super) fn place_of(&self, wanted: &Wanted) -> Range<usize> {
        let at = (wanted.entry.at - self.bytes.start) as usize;
        at..at + wanted.entry.len as usize
    }
}

/// Joins neighbouring chunks with gaps of at most `gap` bytes, which are not more than the chunks have, to
/// ranges of at most `most` bytes, or of one chunk.
fn ranges(mut wanted: Vec<Wanted>, gap: u64, most: u64) -> Vec<ReadRange> {
    wanted.sort_by_key(|wanted| wanted.entry.at);
    let mut ranges: Vec<ReadRange> = Vec::new();
    let mut gaps = 0;
    let mut used = 0;
    for wanted in wanted {
        let Entry { at, len } = wanted.entry;
        let end = at + len;
        if let Some(last) = ranges.last_mut()
            && let Some(between) = at.checked_sub(last.bytes.end)
            && between <= gap
            && gaps + between <= used + len
            && end - last.bytes.start <= most
        {
            last.bytes.end = end;
            last.wanted.push(wanted);
            gaps += between;
            used += len;
        } else {
            ranges.push(ReadRange { bytes: at..end, wanted: vec![wanted] });
            (gaps, used) = (0, len);
        }
    }
    ranges
}

/// Parts of neighbouring ranges that are copied to a device together, given the bytes of ranges: where each part
/// begins, and the numbers of its ranges. The last parts are shorter, so that all threads are done at about the
/// same time.
fn parts(lens: impl Iterator<Item = usize> + Clone, threads: usize) -> Vec<(usize, Range<usize>)> {
    let all: usize = lens.clone().sum();
    let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
    let (mut at, mut most) = (0, 0);
    for (number, len) in lens.enumerate() {
        match parts.last_mut() {
            Some((start, part)) if at + len - *start <= most => part.end = number + 1,
            _ => {
                most = ((all - at) / (2 * threads)).clamp(PART_BYTES / 2, PART_BYTES);
                parts.push((at, number..number + 1));
            }
        }
        at += len;
    }
    parts
}

/// What has been read of ranges, column by column, in the order of chunks.
fn by_column<C>(read: Vec<Vec<(Wanted, C)>>, columns: usize, chunks: usize) -> Vec<Vec<C>> {
    let mut read: Vec<(Wanted, C)> = read.into_iter().flatten().collect();
    read.sort_unstable_by_key(|(wanted, _)| wanted.place);
    let mut read = read.into_iter().map(|(_, chunk)| chunk);
    (0..columns).map(|_| read.by_ref().take(chunks).collect()).collect()
}

/// The ranges that a source is best read by.
pub(super) fn wanted_ranges(source: &dyn ReadAt, wanted: Vec<Wanted>) -> Vec<ReadRange> {
    let gap = source.gap();
    let most = if gap <= SHORT_GAP { SHORT_RANGE } else { LONG_RANGE };
    ranges(wanted, gap, most)
}

impl File {
    fn ranges(&self, columns: &[usize], chunks: &[usize]) -> Vec<ReadRange> {
        let wanted = columns.iter().enumerate().flat_map(|(of_column, column)| {
            chunks.iter().enumerate().map(move |(of_chunk, chunk)| Wanted {
                place: (of_column, of_chunk),
                column: *column,
                chunk: *chunk,
                entry: self.index.entry(*column, *chunk),
            })
        });
        wanted_ranges(self.source(), wanted.collect())
    }

    fn read_range(&self, range: &ReadRange) -> Result<Vec<(Wanted, Chunk)>> {
        let bytes = read_exact(self.source.as_ref(), range.bytes.clone())
            .map_err(|error| self.in_place(&range.wanted[0], error))?;
        let sums = self.checksums_of(range, &bytes)?;
        self.chunks_of(range, &bytes, &sums)
    }

    /// The checksums of the bodies of the chunks of a range; none if they are not compared.
    fn checksums_of(&self, range: &ReadRange, bytes: &[u8]) -> Result<Vec<Option<u64>>> {
        let sum = |wanted: &Wanted| {
            let packed = &bytes[range.place_of(wanted)];
            let sum = self.checksums.then(|| packed_checksum(packed)).transpose();
            sum.map_err(|error| self.in_place(wanted, error))
        };
        range.wanted.iter().map(sum).collect()
    }

    /// Reads ranges to where a device gets them.
    fn read_ranges_to(
        &self,
        landing: &Landing,
        ranges: &[ReadRange],
    ) -> Result<Vec<Vec<(Wanted, LandedChunk)>>> {
        // In device memory each begins at a multiple of 64 bytes.
        let len = |range: &ReadRange| aligned(range.len());
        let all: usize = ranges.iter().map(len).sum();
        let memory = landing.allocate(all)?;
        let parts = parts(ranges.iter().map(len), rayon::current_num_threads());
        let next = AtomicUsize::new(0);
        // Parts are taken in order, so that the short ones are the last. Each is a piece of work of its own, as a
        // thread that waits for those of one window may take up one of another.
        let read = |_| match parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            Some((at, part)) => {
                let read = self.read_part_to(landing, &ranges[part.clone()], &memory, *at);
                // Nothing more is read if this cannot be.
                read.inspect_err(|_| next.store(parts.len(), Ordering::Relaxed))
            }
            None => Ok(Vec::new()),
        };
        (0..parts.len()).into_par_iter().with_max_len(1).map(read).collect()
    }

    /// Reads neighbouring ranges to page-locked memory, to be copied to byte `at` of device memory.
    fn read_part_to(
        &self,
        landing: &Landing,
        ranges: &[ReadRange],
        memory: &Arc<DeviceBuffer>,
        at: usize,
    ) -> Result<Vec<(Wanted, LandedChunk)>> {
        let len = |range: &ReadRange| aligned(range.len());
        // Made while what was read is in the cache.
        let mut sums = Vec::with_capacity(ranges.len());
        let bytes = landing.copy(ranges.iter().map(len).sum(), memory, at, |target| {
            let mut rest = target;
            ranges.iter().try_for_each(|range| {
                let (own, behind) = std::mem::take(&mut rest).split_at_mut(len(range));
                rest = behind;
                let (own, padding) = own.split_at_mut(range.len());
                padding.fill(0);
                (self.source.read_into(range.bytes.clone(), own))
                    .map_err(|error| self.in_place(&range.wanted[0], error))?;
                sums.push(self.checksums_of(range, own)?);
                Ok(())
            })
        })?;
        let (mut landed, mut start) = (Vec::new(), 0);
        for (range, sums) in ranges.iter().zip(sums) {
            let own = bytes.slice_with_length(start, range.len());
            for (wanted, chunk) in self.chunks_of(range, &own, &sums)? {
                // The body ends where the chunk ends.
                let body = range.place_of(&wanted).end - chunk.body().len();
                landed.push((wanted, LandedChunk::on_device(&chunk, memory, at + start + body)));
            }
            start += len(range);
        }
        Ok(landed)
    }

    /// The chunks of a range, given its bytes, and the checksums of their bodies.
    fn chunks_of(
        &self,
        range: &ReadRange,
        bytes: &Buffer,
        sums: &[Option<u64>],
    ) -> Result<Vec<(Wanted, Chunk)>> {
        let chunk = |(wanted, sum): (&Wanted, &Option<u64>)| {
            let place = range.place_of(wanted);
            let packed = bytes.slice_with_length(place.start, place.len());
            let chunk = self.chunk_of(wanted, packed, *sum);
            Ok((*wanted, chunk.map_err(|error| self.in_place(wanted, error))?))
        };
        range.wanted.iter().zip(sums).map(chunk).collect()
    }

    /// An error of a chunk that was being read.
    pub(super) fn in_place(&self, wanted: &Wanted, error: Error) -> Error {
        error.in_chunk(wanted.chunk).in_column(self.schema.field(wanted.column).name())
    }

    /// Checks a chunk that has been read; given the checksum of its body, if that is compared.
    fn chunk_of(&self, wanted: &Wanted, packed: Buffer, sum: Option<u64>) -> Result<Chunk> {
        let statistics = self.index.statistics(wanted.column, wanted.chunk);
        let data_type = self.schema.field(wanted.column).data_type();
        let chunk = chunk_of_packed(packed, Some(statistics), data_type)?;
        for (what, stated, found) in [
            ("rows", self.index.rows[wanted.chunk], chunk.rows()),
            ("nulls", self.index.nulls(wanted.column, wanted.chunk), chunk.null_count()),
        ] {
            ensure!(stated == found, "{stated} {what} in the index, {found} in the header");
        }
        sum.map_or(Ok(()), |sum| chunk.verify_checksum_of(sum))?;
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_get_shorter_at_the_end() {
        const RANGE: usize = PART_BYTES / 8;
        let of = |lens: &[usize], threads| parts(lens.iter().copied(), threads);
        assert_eq!(of(&[], 3), []);
        assert_eq!(of(&[64, 128, 64], 3), [(0, 0..3)]);
        assert_eq!(of(&[5 * PART_BYTES, 64], 3), [(0, 0..1), (5 * PART_BYTES, 1..2)]);
        let lens = [RANGE; 200];
        let parts = of(&lens, 3);
        let counts: Vec<usize> = parts.iter().map(|(_, part)| part.len()).collect();
        assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
        assert!(counts[0] == 8 && counts[counts.len() - 1] <= 4);
        let starts = parts.iter().all(|(at, part)| *at == part.start * RANGE);
        assert!(starts && counts.iter().sum::<usize>() == 200);
        assert!(parts.windows(2).all(|pair| pair[0].1.end == pair[1].1.start));
    }

    #[test]
    fn neighbours_are_read_together() {
        let of = |entries: &[(u64, u64)], gap| -> Vec<(u64, u64)> {
            let wanted = |(number, (at, len)): (usize, &(u64, u64))| Wanted {
                place: (0, number),
                column: 0,
                chunk: number,
                entry: Entry { at: *at, len: *len },
            };
            let wanted = entries.iter().enumerate().map(wanted).collect();
            let ranges = ranges(wanted, gap, 1 << 20).into_iter();
            ranges.map(|range| (range.bytes.start, range.bytes.end)).collect()
        };
        assert_eq!(of(&[], 100), []);
        // In the order of places, whatever the order that they are asked for in.
        assert_eq!(of(&[(300, 100), (100, 100), (200, 100)], 0), [(100, 400)]);
        assert_eq!(of(&[(100, 100), (240, 100), (441, 10)], 100), [(100, 340), (441, 451)]);
        // Gaps are not more than what is wanted.
        assert_eq!(of(&[(0, 10), (90, 10), (170, 10)], 100), [(0, 10), (90, 100), (170, 180)]);
        assert_eq!(of(&[(0, 100), (150, 10), (230, 10)], 100), [(0, 240)]);
        assert_eq!(of(&[(0, 100), (150, 10), (231, 10)], 100), [(0, 160), (231, 241)]);
        // Overlapping ones, as of a file that lies, by themselves; long ones as well.
        assert_eq!(of(&[(0, 100), (50, 100)], 100), [(0, 100), (50, 150)]);
        assert_eq!(of(&[(0, 1 << 20), (1 << 20, 1)], 0).len(), 2);
    }
}
