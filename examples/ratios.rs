//! Compresses Parquet, Arrow IPC and CSV files, compares what comes back with
//! what went in, and prints the sizes as CSV:
//!
//! ```sh
//! cargo run --release --example ratios -- data/ more.parquet > ratios.csv
//! ```
//!
//! Folders are searched for `.parquet`, `.arrow`, `.ipc`, `.feather` and `.csv`
//! files. Of each file there is one line per column, and one for the file (its
//! column is `*`, its type empty):
//!
//! - `raw_bytes`: Arrow's buffers, without padding;
//! - `packed_bytes`: headers and bodies of the compressed column; of a file, the
//!   file with an index that has all compressed columns;
//! - `round_trip`: `ok`, or `DIFFERENT` if any value, null, type or metadata
//!   came back different or not at all.
//!
//! Files are read twice, so that only their compressed form has to fit in
//! memory. The exit code is 0, 1 if a round trip was different, or 2 if a file
//! could not be read.

#[path = "support/files.rs"]
mod files;
#[path = "support/raw_bytes.rs"]
mod raw_bytes;

use std::any::Any;
use std::fmt::Write as _;
use std::io::{self, Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Field;
use clap::Parser;
use files::{Source, Unreadable, find};
use indicatif::{ProgressBar, ProgressStyle};
use lanepack::{CompressedColumn, Effort, Options, file, ipc};
use raw_bytes::RawBytes;

const HEADER: &str = "file,column,type,rows,raw_bytes,packed_bytes,encoding,round_trip";

/// Compress Parquet, Arrow IPC and CSV files, and print sizes per column as CSV.
#[derive(Parser)]
struct Args {
    /// Files, and folders to search for files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How much to try: fast, balanced or small.
    #[arg(long, default_value = "balanced")]
    effort: Effort,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args.paths, &Options::default().with_effort(args.effort)) {
        Ok(outcome) => ExitCode::from(outcome as u8),
        Err(error) => {
            // After a closed pipe nobody waits for more, as in `ratios | head`.
            if error.kind() != io::ErrorKind::BrokenPipe {
                eprintln!("standard output: {error}");
            }
            ExitCode::from(Outcome::Unreadable as u8)
        }
    }
}

/// How it went, the worst last; the numbers are exit codes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Identical = 0,
    Different = 1,
    Unreadable = 2,
}

/// Why a file has no report, or an incomplete one.
enum Failure {
    Unreadable(Unreadable),
    /// It can be read, but lanepack cannot take it through.
    Lanepack(lanepack::Error),
}

impl From<Unreadable> for Failure {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl From<lanepack::Error> for Failure {
    fn from(error: lanepack::Error) -> Self {
        Self::Lanepack(error)
    }
}

/// Takes all files through lanepack. The error is one of standard output.
fn run(paths: &[PathBuf], options: &Options) -> io::Result<Outcome> {
    let mut outcome = Outcome::Identical;
    let mut files = Vec::new();
    for path in paths {
        if let Err(error) = find(path, &mut files) {
            eprintln!("{}: {error}", path.display());
            outcome = Outcome::Unreadable;
        }
    }
    let progress = progress(files.iter().map(|file| file.bytes).sum());
    let mut out = io::stdout().lock();
    writeln!(out, "{HEADER}")?;
    for file in &files {
        progress.set_message(file.name.clone());
        let mut report = Report::default();
        // Readers of damaged files may panic instead of returning an error.
        let result = catch_unwind(AssertUnwindSafe(|| measure(&file.path, options, &mut report)))
            .unwrap_or_else(|panic| Err(Unreadable(panic_message(&*panic)).into()));
        progress.inc(file.bytes);
        let unreadable = match result {
            Ok(()) => None,
            Err(Failure::Unreadable(Unreadable(why))) => Some(why),
            Err(Failure::Lanepack(error)) => {
                report.fail(&error);
                None
            }
        };
        progress.suspend(|| -> io::Result<()> {
            if let Some(why) = unreadable {
                eprintln!("{}: cannot be read: {why}", file.path.display());
                outcome = outcome.max(Outcome::Unreadable);
                return Ok(());
            }
            for problem in &report.problems {
                eprintln!("{}: {problem}", file.path.display());
            }
            outcome = outcome.max(report.outcome());
            out.write_all(report.lines(&file.name).as_bytes())?;
            out.flush()
        })?;
    }
    progress.finish_and_clear();
    Ok(outcome)
}

/// A bar on standard error; indicatif hides it unless that is a terminal.
fn progress(bytes: u64) -> ProgressBar {
    let template = "{spinner} {bar:30} {bytes}/{total_bytes}  {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    let progress = ProgressBar::new(bytes).with_style(style);
    progress.enable_steady_tick(std::time::Duration::from_millis(100));
    progress
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}

/// What the output says of a file.
#[derive(Default)]
struct Report {
    columns: Vec<Column>,
    rows: usize,
    file_bytes: usize,
    /// What came back different or not at all, beside values.
    problems: Vec<String>,
}

struct Column {
    name: String,
    data_type: String,
    raw: RawBytes,
    packed_bytes: usize,
    encodings: Vec<String>,
    same: bool,
}

/// Takes a file through lanepack: compressed into memory, then read back and
/// compared with the file as it is read a second time.
fn measure(path: &Path, options: &Options, report: &mut Report) -> Result<(), Failure> {
    let source = Source::open(path, None)?;
    let schema = source.schema.clone();
    report.columns = schema.fields().iter().map(|field| Column::new(field)).collect();
    let packed = compress(source, options, report)?;
    report.file_bytes = packed.len();
    compare(packed, Source::open(path, Some(schema))?, report)
}

/// Writes all batches to a file in memory.
fn compress(source: Source, options: &Options, report: &mut Report) -> Result<Vec<u8>, Failure> {
    let mut writer = file::Writer::try_new(Vec::new(), &source.schema, options.clone());
    for batch in source.batches {
        let batch = batch.map_err(Unreadable::from)?;
        report.rows += batch.num_rows();
        for (column, array) in report.columns.iter_mut().zip(batch.columns()) {
            column.raw.add(array);
        }
        // After an error, what is left of the file is only counted.
        writer = writer.and_then(|mut writer| writer.write(&batch).map(|()| writer));
    }
    Ok(writer.and_then(file::Writer::into_inner)?)
}

/// Reads the file in memory, beside the one that went in.
fn compare(packed: Vec<u8>, mut source: Source, report: &mut Report) -> Result<(), Failure> {
    let mut reader = ipc::Reader::file(Cursor::new(packed))?;
    if reader.schema() != source.schema {
        report.problems.push("another schema came back".to_owned());
    }
    while let Some((packed, columns)) = reader.next_columns()? {
        let rows = columns.first().map_or(packed.num_rows(), |column| column.len());
        let originals = source.take(rows)?;
        if originals.iter().map(RecordBatch::num_rows).sum::<usize>() < rows {
            report.problems.push("more rows came back".to_owned());
        }
        for (index, (column, report)) in columns.iter().zip(&mut report.columns).enumerate() {
            report.add(column);
            let pieces = originals.iter().map(|batch| batch.column(index));
            report.same &= equal(&column.decompress()?, pieces);
        }
    }
    if !source.take(1)?.is_empty() {
        report.problems.push("fewer rows came back".to_owned());
    }
    Ok(())
}

/// Whether `array` is made of these pieces, to the bit.
fn equal<'a>(array: &ArrayRef, pieces: impl Iterator<Item = &'a ArrayRef>) -> bool {
    let mut start = 0;
    for piece in pieces {
        let end = start + piece.len();
        if end > array.len() || &array.slice(start, piece.len()) != piece {
            return false;
        }
        start = end;
    }
    start == array.len()
}

impl Column {
    fn new(field: &Field) -> Self {
        Self {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            raw: RawBytes::new(field.data_type()),
            packed_bytes: 0,
            encodings: Vec::new(),
            same: true,
        }
    }

    /// Counts what one batch of the compressed file has of this column.
    fn add(&mut self, column: &CompressedColumn) {
        self.packed_bytes += column.compressed_bytes();
        for encoding in column.encoding().to_string().split('+') {
            if !self.encodings.iter().any(|known| known == encoding) {
                self.encodings.push(encoding.to_owned());
            }
        }
    }
}

impl Report {
    /// No column is known to be the same after an error.
    fn fail(&mut self, error: &lanepack::Error) {
        self.problems.push(error.to_string());
        self.columns.iter_mut().for_each(|column| column.same = false);
    }

    fn outcome(&self) -> Outcome {
        let same = self.problems.is_empty() && self.columns.iter().all(|column| column.same);
        if same { Outcome::Identical } else { Outcome::Different }
    }

    /// The lines of a file.
    fn lines(&self, file: &str) -> String {
        let mut out = String::new();
        let file = quoted(file);
        let round_trip = |same: bool| if same { "ok" } else { "DIFFERENT" };
        for column in &self.columns {
            let (name, data_type) = (quoted(&column.name), quoted(&column.data_type));
            let (raw, packed) = (column.raw.bytes(), column.packed_bytes);
            let (rows, encoding) = (self.rows, quoted(&column.encodings.join("+")));
            let same = round_trip(column.same);
            let _ =
                writeln!(out, "{file},{name},{data_type},{rows},{raw},{packed},{encoding},{same}");
        }
        let raw: usize = self.columns.iter().map(|column| column.raw.bytes()).sum();
        let same = round_trip(self.outcome() == Outcome::Identical);
        let _ = writeln!(out, "{file},*,,{},{raw},{},,{same}", self.rows, self.file_bytes);
        out
    }
}

/// A field of a CSV line, in quotes where RFC 4180 asks for them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
