//! Compresses three TPC-H tables to Arrow IPC files, reads them back, compares
//! every bit, and shows what each column became:
//!
//! ```sh
//! cargo run --release --example quickstart
//! cargo run --release --example quickstart -- --scale-factor 1
//! ```
//!
//! What to look at: `write` and `read` are all that an application needs;
//! `measure` takes single columns through `compress_array` and `decompress`.
//! The exit code is 1 if anything came back different.

#[path = "support/raw_bytes.rs"]
mod raw_bytes;

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use lanepack::{Options, compress_array, ipc};
use raw_bytes::RawBytes;
use tpchgen::generators::{CustomerGenerator, LineItemGenerator, PartGenerator};
use tpchgen_arrow::{CustomerArrow, LineItemArrow, PartArrow, RecordBatchIterator};

/// Runs of each measurement; the median counts.
const RUNS: usize = 5;

/// Compress TPC-H tables to Arrow IPC files and back.
#[derive(Parser)]
struct Args {
    /// Size of the tables: 1 is about 6 million rows of lineitem.
    #[arg(long, default_value_t = 0.1, value_parser = scale_factor)]
    scale_factor: f64,
}

fn scale_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.001..=100.0).contains(&factor) => Ok(factor),
        _ => Err("a number from 0.001 to 100 is needed".to_owned()),
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let scale = Args::parse().scale_factor;
    let tables: [(&str, Box<dyn RecordBatchIterator>); 3] = [
        ("lineitem", Box::new(LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)))),
        ("customer", Box::new(CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)))),
        ("part", Box::new(PartArrow::new(PartGenerator::new(scale, 1, 1)))),
    ];
    let folder = TemporaryFolder::create()?;
    println!("TPC-H at scale factor {scale}, compressed to Arrow IPC files and back");
    let mut identical = true;
    for (name, batches) in tables {
        identical &= show(name, batches, &folder.0)?;
    }
    if !identical {
        println!("\nDIFFERENT: a bug in lanepack, please report it");
        return Ok(ExitCode::FAILURE);
    }
    println!("\nidentical");
    println!("\nNext, your own Parquet, Arrow IPC and CSV files, as CSV:");
    println!("  cargo run --release --example ratios -- PATH");
    Ok(ExitCode::SUCCESS)
}

/// Takes a table through a file, prints what became of it, and says whether it
/// came back bit for bit.
fn show(
    name: &str,
    source: Box<dyn RecordBatchIterator>,
    folder: &Path,
) -> Result<bool, Box<dyn Error>> {
    let schema = source.schema().clone();
    let progress = progress(schema.fields().len() as u64 + 3);

    progress.set_message(format!("{name}: generating"));
    let batches: Vec<RecordBatch> = source.collect();
    progress.inc(1);

    progress.set_message(format!("{name}: writing"));
    let path = folder.join(format!("{name}.arrow"));
    let (write_time, written) = timed(|| write(&path, &schema, &batches));
    written?;
    progress.inc(1);

    progress.set_message(format!("{name}: reading"));
    let (read_time, back) = timed(|| read(&path));
    let back = back?;
    // One batch each: the file has other boundaries between batches.
    let original = concat_batches(&schema, &batches)?;
    let identical = concat_batches(back[0].schema_ref(), &back)? == original;
    progress.inc(1);

    let mut rows = Vec::new();
    let mut total = 0;
    for (field, array) in schema.fields().iter().zip(original.columns()) {
        progress.set_message(format!("{name}: measuring {}", field.name()));
        let row = measure(field.name(), array)?;
        total += row.raw;
        rows.push(row);
        progress.inc(1);
    }
    let file_bytes = fs::metadata(&path)?.len() as usize;
    rows.push(Row {
        name: "total".to_owned(),
        data_type: "Arrow IPC file".to_owned(),
        encoding: String::new(),
        rows: original.num_rows(),
        raw: total,
        packed: file_bytes,
        encode: write_time,
        decode: read_time,
    });
    progress.finish_and_clear();
    println!("\n{name}\n{}", table(&rows));
    Ok(identical)
}

/// Writes batches, compressed. Small ones are gathered to full chunks first.
fn write(path: &Path, schema: &SchemaRef, batches: &[RecordBatch]) -> lanepack::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut writer = ipc::Writer::file(file, schema, Options::default())?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.into_inner()?;
    Ok(())
}

/// Reads what [`write`] wrote.
fn read(path: &Path) -> lanepack::Result<Vec<RecordBatch>> {
    Ok(ipc::Reader::file(File::open(path)?)?.collect::<Result<_, _>>()?)
}

/// Compresses and decompresses one column.
fn measure(name: &str, array: &ArrayRef) -> lanepack::Result<Row> {
    let mut raw = RawBytes::new(array.data_type());
    raw.add(array);
    let options = Options::default();
    let column = compress_array(array, &options)?;
    let encode = median(|| compress_array(array, &options).map(black_box).map(drop))?;
    let decode = median(|| column.decompress().map(black_box).map(drop))?;
    Ok(Row {
        name: name.to_owned(),
        data_type: array.data_type().to_string(),
        encoding: column.encoding().to_string(),
        rows: column.len(),
        raw: raw.bytes(),
        packed: column.compressed_bytes(),
        encode,
        decode,
    })
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// The median time of some runs.
fn median(mut work: impl FnMut() -> lanepack::Result<()>) -> lanepack::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let (time, result) = timed(&mut work);
        result?;
        times.push(time);
    }
    times.sort();
    Ok(times[RUNS / 2])
}

/// One line of the table.
struct Row {
    name: String,
    data_type: String,
    encoding: String,
    rows: usize,
    raw: usize,
    packed: usize,
    encode: Duration,
    decode: Duration,
}

impl Row {
    fn cells(&self) -> [String; 10] {
        let speed = |time: Duration| {
            let megabytes = self.raw as f64 / 1e6;
            grouped((megabytes / time.as_secs_f64().max(1e-9)) as usize)
        };
        // Of a whole table, the number would be one of rows.
        let bits = if self.encoding.is_empty() {
            String::new()
        } else {
            format!("{:.2}", self.packed as f64 * 8.0 / self.rows as f64)
        };
        [
            self.name.clone(),
            self.data_type.clone(),
            self.encoding.clone(),
            grouped(self.rows),
            grouped(self.raw),
            grouped(self.packed),
            format!("{:.2}", self.raw as f64 / self.packed as f64),
            bits,
            speed(self.encode),
            speed(self.decode),
        ]
    }
}

/// Lines with aligned columns: texts to the left, numbers to the right.
fn table(rows: &[Row]) -> String {
    const HEADER: [[&str; 10]; 2] = [
        ["", "", "", "", "raw", "packed", "", "bits/", "encode", "decode"],
        ["column", "type", "encoding", "rows", "bytes", "bytes", "ratio", "value", "MB/s", "MB/s"],
    ];
    let header = HEADER.iter().map(|line| line.map(str::to_owned));
    let lines: Vec<[String; 10]> = header.chain(rows.iter().map(Row::cells)).collect();
    let mut widths = [0; 10];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let rule = "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1));
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index == HEADER.len() || index + 1 == lines.len() {
            out += &format!("{rule}\n");
        }
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// A number with a comma between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A bar on standard error; indicatif hides it unless that is a terminal.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len}  {msg}");
    let progress = ProgressBar::new(steps).with_style(style.expect("a valid template"));
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

/// A folder that is removed in the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create() -> std::io::Result<Self> {
        let name = format!("lanepack-quickstart-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What is left in a folder for temporary files does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
