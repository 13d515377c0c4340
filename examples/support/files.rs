//! The files that `ratios` reads: finding them, and their batches.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_csv::reader::Format;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

const EXTENSIONS: [&str; 5] = ["parquet", "arrow", "ipc", "feather", "csv"];
/// Rows that are read at once.
const BATCH_ROWS: usize = 8192;

/// Why a file cannot be read.
pub struct Unreadable(pub String);

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<ArrowError> for Unreadable {
    fn from(error: ArrowError) -> Self {
        Self(error.to_string())
    }
}

impl From<ParquetError> for Unreadable {
    fn from(error: ParquetError) -> Self {
        Self(error.to_string())
    }
}

/// A file to read.
pub struct Found {
    pub path: PathBuf,
    /// What the output calls it: its path below the folder that was given.
    pub name: String,
    pub bytes: u64,
}

/// Adds the file at `path`, or those below it in sorted order.
pub fn find(path: &Path, files: &mut Vec<Found>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        let name = Path::new(path.file_name().unwrap_or(path.as_os_str()));
        return add(path, name, files);
    }
    let mut below = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            // Links to folders are not followed: they may lead in circles.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if extension(&entry.path()).is_some() && entry.path().is_file() {
                below.push(entry.path());
            }
        }
    }
    below.sort();
    if below.is_empty() {
        eprintln!("{}: no {} files in it", path.display(), EXTENSIONS.join(", "));
    }
    below.iter().try_for_each(|file| add(file, file.strip_prefix(path).unwrap_or(file), files))
}

fn add(path: &Path, name: &Path, files: &mut Vec<Found>) -> io::Result<()> {
    let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
    let bytes = fs::metadata(path)?.len();
    files.push(Found { path: path.to_owned(), name: parts.join("/"), bytes });
    Ok(())
}

/// The extension, if files that have it are read.
fn extension(path: &Path) -> Option<&'static str> {
    let found = path.extension()?;
    EXTENSIONS.into_iter().find(|extension| found.eq_ignore_ascii_case(extension))
}

/// The batches of a file.
pub struct Source {
    pub schema: SchemaRef,
    pub batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    /// The end of a batch that was taken in part.
    rest: Option<RecordBatch>,
}

impl Source {
    /// Opens a file; `schema` is what an earlier reading of a CSV file found.
    pub fn open(path: &Path, schema: Option<SchemaRef>) -> Result<Self, Unreadable> {
        let mut file = File::open(path)?;
        match extension(path) {
            Some("parquet") => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
                let metadata = builder.schema().metadata().clone();
                let reader = builder.with_batch_size(BATCH_ROWS).build()?;
                // The reader's own schema has no metadata.
                let fields = reader.schema().fields().clone();
                Ok(Self::new(Arc::new(Schema::new_with_metadata(fields, metadata)), reader))
            }
            Some("csv") => {
                let schema = schema.map_or_else(|| csv_schema(path), Ok)?;
                Ok(Self::new(schema.clone(), csv(file, schema)?))
            }
            Some(_) => {
                let mut magic = Vec::new();
                (&file).take(6).read_to_end(&mut magic)?;
                file.rewind()?;
                if magic == b"ARROW1" {
                    let reader = FileReader::try_new_buffered(file, None)?;
                    return Ok(Self::new(reader.schema(), reader));
                }
                let reader = StreamReader::try_new_buffered(file, None)?;
                Ok(Self::new(reader.schema(), reader))
            }
            None => {
                let expected = EXTENSIONS.join(", ");
                Err(Unreadable(format!("its extension is none of {expected}")))
            }
        }
    }

    fn new(
        schema: SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + 'static,
    ) -> Self {
        Self { schema, batches: Box::new(batches), rest: None }
    }

    /// The next `rows` rows, or fewer at the end, in as many batches as they lie in.
    pub fn take(&mut self, mut rows: usize) -> Result<Vec<RecordBatch>, Unreadable> {
        let mut taken = Vec::new();
        while rows > 0 {
            let next = self.rest.take().map(Ok).or_else(|| self.batches.next());
            let Some(batch) = next.transpose()? else { break };
            let len = batch.num_rows().min(rows);
            taken.push(batch.slice(0, len));
            if len < batch.num_rows() {
                self.rest = Some(batch.slice(len, batch.num_rows() - len));
            }
            rows -= len;
        }
        Ok(taken)
    }
}

fn csv(file: File, schema: SchemaRef) -> Result<arrow_csv::Reader<File>, ArrowError> {
    arrow_csv::ReaderBuilder::new(schema).with_header(true).with_batch_size(BATCH_ROWS).build(file)
}

/// The schema that all rows of a CSV file suggest; or, as that goes by the look
/// of the values, text if some are out of range (of Int64, of a calendar).
fn csv_schema(path: &Path) -> Result<SchemaRef, Unreadable> {
    let format = Format::default().with_header(true);
    let (schema, _) = format.infer_schema(BufReader::new(File::open(path)?), None)?;
    let schema = Arc::new(schema);
    if csv(File::open(path)?, schema.clone())?.all(|batch| batch.is_ok()) {
        return Ok(schema);
    }
    let text = |field: &Arc<Field>| Field::new(field.name(), DataType::Utf8, true);
    Ok(Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>())))
}
