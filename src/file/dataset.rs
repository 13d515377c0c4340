//! Many files as one: their chunks, one file behind the other.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{Field, Fields, Schema, SchemaRef};
use rayon::prelude::*;

use super::access::{self, ColumnStatistics};
use super::read::File;
use crate::bloom::BloomFilter;
use crate::chunk::{Chunk, Statistics};
use crate::column::{CompressedColumn, compress_field};
use crate::device::{CompressedDeviceBatch, LandedChunk, Landing};
use crate::engine::Engine;
use crate::error::{Error, Place, Result};
use crate::options::Options;
use crate::scan::{ChunkSource, Scan};

/// Several files whose rows are one table, in the order of the files.
///
/// What [`File`] does of one file a dataset does of all: its scans read the chunks that bounds do not exclude,
/// of all files in parallel, and its aggregates and groups are those of all rows.
///
/// ```
/// use arrow_array::record_batch;
/// use arrow_buffer::Buffer;
/// use lanepack::scan::{col, sum};
/// use lanepack::{Engine, Options, file};
///
/// let file = |ids: Vec<i64>| {
///     let batch = record_batch!(("id", Int64, ids))?;
///     let mut writer = file::Writer::try_new(Vec::new(), &batch.schema(), Options::default())?;
///     writer.write(&batch)?;
///     file::File::from_bytes(Buffer::from_vec(writer.into_inner()?))
/// };
/// let dataset = file::Dataset::try_new(vec![file(vec![1, 2, 3])?, file(vec![4, 5, 6])?])?;
/// assert_eq!(dataset.num_rows(), 6);
/// let scan = dataset.scan().filter(col("id").gt_eq(3));
/// let total = scan.aggregate(&[sum(col("id"))], &Engine::cpu())?;
/// assert_eq!(total.columns(), record_batch!(("sum(id)", Int64, [18]))?.columns());
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset {
    parts: Arc<[Part]>,
    schema: SchemaRef,
    /// Rows of all chunks.
    chunk_rows: Arc<[usize]>,
    /// For each chunk its file, and its number there.
    chunks: Arc<[(usize, usize)]>,
    window_bytes: Option<u64>,
    /// Chunks of nulls, by column and rows, of columns that some file lacks.
    nulls: Arc<Mutex<NullChunks>>,
}

/// Files that stay open at most.
const OPEN_FILES: usize = 256;

type NullChunks = HashMap<(usize, usize), Vec<Chunk>>;

#[derive(Debug)]
struct Part {
    file: File,
    /// Where the columns of the dataset are in the file; a column that is not there is null.
    columns: Vec<Option<usize>>,
}

impl Dataset {
    /// Opens files of the system. If there are more than 256, on Unix they are open only while they are read, as
    /// systems limit how many a process has open; a file that has been changed or replaced is an error then.
    ///
    /// # Errors
    /// As [`File::open`] and [`Dataset::try_new`].
    pub fn open<P: AsRef<Path> + Sync>(paths: &[P]) -> Result<Self> {
        Self::try_new(opened(paths)?)
    }

    /// Opens files of the system of which the columns of a schema are read, as [`Dataset::try_new_with_schema`] has
    /// them, and as [`Dataset::open`].
    ///
    /// # Errors
    /// As [`Dataset::open`] and [`Dataset::try_new_with_schema`].
    pub fn open_with_schema<P: AsRef<Path> + Sync>(paths: &[P], schema: &Schema) -> Result<Self> {
        Self::try_new_with_schema(opened(paths)?, schema)
    }

    /// Opens the files of the system whose paths match a pattern, in the order of their paths: `*` stands for
    /// any part of a name, `**` for any folders, `?` for a character, `[ab]` for one of these. Names that begin with a
    /// dot are not matched, such as those of files that are being written.
    ///
    /// # Errors
    /// As [`Dataset::open`]; [`Error::Mismatch`] for a pattern that is none, and if no file matches.
    pub fn glob(pattern: &str) -> Result<Self> {
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let paths = glob::glob_with(pattern, options)
            .map_err(|error| mismatch(format!("a pattern of paths, found {pattern:?}: {error}")))?;
        let paths: Vec<_> = paths
            .filter(|path| path.as_ref().map_or(true, |path| !path.is_dir()))
            .collect::<Result<_, _>>()
            .map_err(|error| Error::from(std::io::Error::from(error)))?;
        if paths.is_empty() {
            return Err(mismatch(format!("no file matches {pattern}")));
        }
        Self::open(&paths)
    }

    /// Files whose columns have the same names and types, in any order. The columns have the order of the first
    /// file, and may have nulls if they may in some file.
    ///
    /// # Errors
    /// [`Error::Mismatch`], which says what differs in which file, or that there is no file.
    pub fn try_new(files: Vec<File>) -> Result<Self> {
        let Some(first) = files.first() else {
            return Err(mismatch("a dataset of no files".to_owned()));
        };
        let field = |field: &Arc<Field>| {
            let mut of_files = files.iter().map(|file| file.schema().field_with_name(field.name()));
            let is_nullable = of_files.any(|own| own.is_ok_and(|own| own.is_nullable()));
            Arc::new(field.as_ref().clone().with_nullable(is_nullable))
        };
        let fields: Fields = first.schema().fields().iter().map(field).collect();
        let metadata = first.schema().metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let mut differences = Vec::new();
        for file in &files {
            differences.extend(differences_of(file, &schema, false));
            for field in file.schema().fields() {
                if schema.field_with_name(field.name()).is_err() {
                    differences.push(format!(
                        "{} has a column {:?} more",
                        name_of(file),
                        field.name()
                    ));
                }
            }
        }
        Self::checked(files, schema, differences)
    }

    /// Files of which the columns of a schema are read: those that a file does not have are null there,
    /// others that it has are left out.
    ///
    /// # Errors
    /// As [`Dataset::try_new`]; also for a column without nulls that a file does not have.
    pub fn try_new_with_schema(files: Vec<File>, schema: &Schema) -> Result<Self> {
        let differences =
            files.iter().flat_map(|file| differences_of(file, schema, true)).collect();
        Self::checked(files, Arc::new(schema.clone()), differences)
    }

    fn checked(files: Vec<File>, schema: SchemaRef, differences: Vec<String>) -> Result<Self> {
        if !differences.is_empty() {
            return Err(mismatch(differences.join("; ")));
        }
        for fields in files.iter().map(|file| file.schema().fields()).chain([schema.fields()]) {
            let mut names = HashSet::new();
            if let Some(twice) = fields.iter().find(|field| !names.insert(field.name())) {
                let what = format!(
                    "two columns {:?} in a dataset, whose columns go by name",
                    twice.name()
                );
                return Err(mismatch(what));
            }
        }
        let part = |file: File| {
            let column = |field: &Arc<Field>| file.schema().index_of(field.name()).ok();
            let columns = schema.fields().iter().map(column).collect();
            Part { file, columns }
        };
        let parts: Arc<[Part]> = files.into_iter().map(part).collect();
        let chunks = parts.iter().enumerate();
        let chunks: Arc<[(usize, usize)]> = chunks
            .flat_map(|(number, part)| {
                (0..part.file.num_chunks()).map(move |chunk| (number, chunk))
            })
            .collect();
        let rows = |(part, chunk): &(usize, usize)| parts[*part].file.chunk_rows()[*chunk];
        let chunk_rows = chunks.iter().map(rows).collect();
        Ok(Self { parts, schema, chunk_rows, chunks, window_bytes: None, nulls: Arc::default() })
    }

    /// As [`File::with_window_bytes`].
    #[must_use]
    pub fn with_window_bytes(mut self, bytes: u64) -> Self {
        self.window_bytes = Some(bytes);
        self
    }

    /// The files.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &File> {
        self.parts.iter().map(|part| &part.file)
    }

    /// The schema of the values.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of all files.
    pub fn num_rows(&self) -> usize {
        self.chunk_rows.iter().sum()
    }

    /// Chunks of each column, of all files.
    pub fn num_chunks(&self) -> usize {
        self.chunk_rows.len()
    }

    /// Rows of each chunk.
    pub fn chunk_rows(&self) -> &[usize] {
        &self.chunk_rows
    }

    /// As [`File::statistics`].
    ///
    /// # Errors
    /// As [`File::statistics`].
    pub fn statistics(&self, name: &str) -> Result<ColumnStatistics> {
        access::statistics(self, name)
    }

    /// A scan of all files, which reads what it needs when it is asked for a result.
    pub fn scan(&self) -> Scan<'_> {
        Scan::of_chunks(self)
    }

    /// A scan of some chunks, for those who divide the work themselves: as [`Dataset::scan`], of the rows of these
    /// chunks, which are numbered from 0. Numbers behind the last chunk are ignored.
    pub fn scan_chunks(&self, chunks: Range<usize>) -> Scan<'_> {
        Scan::of_some_chunks(self, chunks)
    }

    /// As [`File::columns`].
    ///
    /// # Errors
    /// As [`File::columns`].
    pub fn columns<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<CompressedColumn>> {
        access::columns(self, names)
    }

    /// As [`File::to_device`].
    ///
    /// # Errors
    /// As [`File::to_device`].
    pub fn to_device<S: AsRef<str>>(
        &self,
        names: &[S],
        engine: &Engine,
    ) -> Result<CompressedDeviceBatch> {
        access::to_device(self, names, engine)
    }

    /// As [`File::chunk`]; chunks are numbered file by file.
    ///
    /// # Errors
    /// As [`File::chunk`].
    pub fn chunk(&self, number: usize, engine: &Engine) -> Result<RecordBatch> {
        access::chunk(self, number, engine)
    }

    /// As [`File::take`]; rows are numbered file by file.
    ///
    /// # Errors
    /// As [`File::take`].
    pub fn take(&self, rows: &[u64], engine: &Engine) -> Result<RecordBatch> {
        access::take(self, rows, &access::names(self), engine)
    }

    /// As [`File::take_columns`].
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
}

/// Files of the system, which stay open if they are few.
fn opened<P: AsRef<Path> + Sync>(paths: &[P]) -> Result<Vec<File>> {
    let stay_open = paths.len() <= OPEN_FILES;
    paths.par_iter().map(|path| File::open_path(path.as_ref(), stay_open)).collect()
}

/// What keeps a file from being read with a schema.
fn differences_of(file: &File, schema: &Schema, may_be_missing: bool) -> Vec<String> {
    let name = name_of(file);
    let difference = |field: &Arc<Field>| match file.schema().field_with_name(field.name()) {
        Err(_) if may_be_missing && field.is_nullable() => None,
        Err(_) => Some(format!("{name} has no column {:?}", field.name())),
        Ok(own) if own.data_type() != field.data_type() => Some(format!(
            "{name} has {} in column {:?}, not {}",
            own.data_type(),
            field.name(),
            field.data_type()
        )),
        Ok(own) if own.is_nullable() && !field.is_nullable() => {
            Some(format!("{name} may have nulls in column {:?}", field.name()))
        }
        Ok(_) => None,
    };
    schema.fields().iter().filter_map(difference).collect()
}

/// How a file is called in messages.
fn name_of(file: &File) -> String {
    match file.name() {
        Some(name) => format!("file {name:?}"),
        None => format!("a file of {} rows", file.num_rows()),
    }
}

fn mismatch(what: String) -> Error {
    Error::Mismatch { place: Place::default(), what }
}

impl ChunkSource for Dataset {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn chunk_rows(&self) -> &[usize] {
        &self.chunk_rows
    }

    fn facts(&self, column: usize, chunk: usize) -> (usize, Statistics) {
        let (part, within) = self.chunks[chunk];
        match self.parts[part].columns[column] {
            Some(own) => self.parts[part].file.facts(own, within),
            None => {
                let data_type = self.schema.field(column).data_type();
                (self.chunk_rows[chunk], Statistics::none(data_type))
            }
        }
    }

    fn bytes(&self, column: usize, chunk: usize) -> u64 {
        let (part, within) = self.chunks[chunk];
        self.parts[part].columns[column].map_or(0, |own| self.parts[part].file.bytes(own, within))
    }

    fn filter_bytes(&self, column: usize, chunk: usize) -> u64 {
        let (part, within) = self.chunks[chunk];
        let own = self.parts[part].columns[column];
        own.map_or(0, |own| self.parts[part].file.filter_bytes(own, within))
    }

    /// Reads the files in parallel.
    fn read_filters(&self, wanted: &[(usize, usize)]) -> Result<Vec<BloomFilter>> {
        let file_of = |chunk: usize| self.chunks[chunk].0;
        let of_files: Vec<_> =
            wanted.chunk_by(|(_, one), (_, next)| file_of(*one) == file_of(*next)).collect();
        let own = |wanted: &&[(usize, usize)]| {
            let part = &self.parts[file_of(wanted[0].1)];
            let own = |(column, chunk): &(usize, usize)| {
                let column = part.columns[*column].expect("a column with filters");
                (column, self.chunks[*chunk].1)
            };
            (&part.file, wanted.iter().map(own).collect::<Vec<_>>())
        };
        let of_files: Vec<(&File, Vec<_>)> = of_files.iter().map(own).collect();
        // More of them at a time than there are threads.
        of_files.iter().for_each(|(file, wanted)| file.announce_filters(wanted, true));
        let read = of_files.par_iter().map(|(file, wanted)| file.filters(wanted));
        let read: Result<Vec<_>> = read.collect();
        if read.is_err() {
            of_files.iter().for_each(|(file, wanted)| file.announce_filters(wanted, false));
        }
        Ok(read?.concat())
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window_bytes
    }

    fn is_fast_by_chunk(&self) -> bool {
        self.window_bytes.is_none() && self.parts.iter().all(|part| part.file.is_fast_by_chunk())
    }

    fn announce(&self, columns: &[usize], chunks: &[usize], will_read: bool) {
        for (part, columns, chunks) in self.by_file(columns, chunks) {
            part.file.announce(&columns, &chunks, will_read);
        }
    }

    fn place(&self, chunk: usize, error: Error) -> Error {
        match self.chunks.get(chunk) {
            Some((part, within)) => self.parts[*part].file.place(*within, error),
            None => error,
        }
    }

    /// Reads the files in parallel.
    fn read(&self, columns: &[usize], chunks: &[usize]) -> Result<Vec<CompressedColumn>> {
        let read = |file: &File, columns: &[usize], chunks: &[usize]| {
            let read = file.read(columns, chunks)?.into_iter();
            Ok(read.map(CompressedColumn::into_chunks).collect())
        };
        let read = self.read_files(columns, chunks, read, |nulls| nulls)?;
        let column = |(column, chunks): (&usize, Vec<Chunk>)| {
            CompressedColumn::new(self.schema.fields()[*column].clone(), chunks, Vec::new())
        };
        Ok(columns.iter().zip(read).map(column).collect())
    }

    fn read_to(
        &self,
        landing: &Landing,
        columns: &[usize],
        chunks: &[usize],
    ) -> Result<Vec<Vec<LandedChunk>>> {
        let read = |file: &File, columns: &[usize], chunks: &[usize]| {
            file.read_to(landing, columns, chunks)
        };
        self.read_files(columns, chunks, read, |nulls| LandedChunk::on_host(&nulls))
    }
}

impl Dataset {
    /// For each file with some of these chunks: those of the columns that it has, and the chunks, by its own
    /// numbers.
    fn by_file<'a>(
        &'a self,
        columns: &'a [usize],
        chunks: &'a [usize],
    ) -> impl Iterator<Item = (&'a Part, Vec<usize>, Vec<usize>)> {
        let of_files = chunks.chunk_by(|one, next| self.chunks[*one].0 == self.chunks[*next].0);
        of_files.map(move |chunks| {
            let part = &self.parts[self.chunks[chunks[0]].0];
            let columns = columns.iter().filter_map(|column| part.columns[*column]).collect();
            (part, columns, chunks.iter().map(|chunk| self.chunks[*chunk].1).collect())
        })
    }

    /// The chunks of each column: those that `read` gives of the columns that a file has, others of nulls. Files
    /// are read in parallel.
    fn read_files<C: Send>(
        &self,
        columns: &[usize],
        chunks: &[usize],
        read: impl Fn(&File, &[usize], &[usize]) -> Result<Vec<Vec<C>>> + Sync,
        of_nulls: impl Fn(Chunk) -> C + Sync,
    ) -> Result<Vec<Vec<C>>> {
        let of_files: Vec<_> = self.by_file(columns, chunks).collect();
        let read = |(part, own, chunks): &(&Part, Vec<usize>, Vec<usize>)| {
            let mut read = read(&part.file, own, chunks)?.into_iter();
            let rows = part.file.chunk_rows();
            let column = |column: &usize| match part.columns[*column] {
                Some(_) => Ok(read.next().unwrap_or_default()),
                None => {
                    let nulls = self.nulls(*column, chunks.iter().map(|chunk| rows[*chunk]))?;
                    Ok(nulls.into_iter().map(&of_nulls).collect())
                }
            };
            columns.iter().map(column).collect::<Result<Vec<Vec<C>>>>()
        };
        let mut of_columns: Vec<Vec<C>> = columns.iter().map(|_| Vec::new()).collect();
        for part in of_files.par_iter().map(read).collect::<Result<Vec<_>>>()? {
            of_columns.iter_mut().zip(part).for_each(|(all, own)| all.extend(own));
        }
        Ok(of_columns)
    }

    /// Chunks of nulls of so many rows, of a column that a file does not have.
    fn nulls(&self, column: usize, rows: impl Iterator<Item = usize>) -> Result<Vec<Chunk>> {
        let field = &self.schema.fields()[column];
        let nulls = |rows: usize| -> Result<Vec<Chunk>> {
            let known = || self.nulls.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(chunks) = known().get(&(column, rows)) {
                return Ok(chunks.clone());
            }
            let nulls: ArrayRef = new_null_array(field.data_type(), rows);
            let chunks = compress_field(field.clone(), &nulls, &Options::default())?.into_chunks();
            known().insert((column, rows), chunks.clone());
            Ok(chunks)
        };
        Ok(rows.map(nulls).collect::<Result<Vec<_>>>()?.concat())
    }
}
