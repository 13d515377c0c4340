//! pyarrow reads, slices, joins and rewrites compressed columns without knowing
//! lanepack, as Arrow files, streams, Feather and Parquet, and nothing is lost.
//!
//! Needs a Python with pyarrow: `LANEPACK_PYTHON`, or .venv/bin/python as
//! scripts/test makes it. Where there is none the tests report that they are skipped,
//! and fail if `LANEPACK_REQUIRE_PYTHON` is 1.

mod common;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::*;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::concat::concat_batches;
use common::*;
use lanepack::{Options, compressed_schema, decompress, file, ipc};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A Python that can import pyarrow.
fn python() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let chosen = std::env::var_os("LANEPACK_PYTHON").map(PathBuf::from);
    let python = chosen.unwrap_or_else(|| root.join(".venv/bin/python"));
    let why = match Command::new(&python).args(["-c", "import pyarrow"]).output() {
        Ok(output) if output.status.success() => return Some(python),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let why = format!("no pyarrow in {}: {why}", python.display());
    skip("LANEPACK_REQUIRE_PYTHON", &why);
    None
}

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lanepack-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Columns of every type that pyarrow knows, in three chunks, with metadata.
fn every_type() -> RecordBatch {
    let len = 3000;
    let mut columns: Vec<ArrayRef> = (encoded_types().iter().enumerate())
        .map(|(at, data_type)| {
            array_of(data_type, len, Shape::ALL[at % 4], Nulls::ALL[at % Nulls::ALL.len()])
        })
        .collect();
    columns.extend(carried_arrays(len));
    let fields: Vec<Field> = (columns.iter().enumerate())
        .map(|(at, array)| {
            let unit = [("unit".to_owned(), format!("m{at}"))].into();
            let name = format!("column {at} ü");
            Field::new(name, array.data_type().clone(), true).with_metadata(unit)
        })
        .collect();
    let schema =
        Schema::new(fields).with_metadata([("origin".to_owned(), "test".to_owned())].into());
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn options() -> Options {
    Options::default().with_chunk_rows(1024)
}

fn write(path: &Path, batch: &RecordBatch) {
    let file = File::create(path).unwrap();
    let mut writer = ipc::Writer::file(file, &batch.schema(), options()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

/// The same with an index, packed columns, and membership filters.
fn write_with_index(path: &Path, batch: &RecordBatch) {
    let file = File::create(path).unwrap();
    let writer = file::Writer::try_new(file, &batch.schema(), options()).unwrap();
    let names = filter_columns(&batch.schema());
    assert!(names.len() > 20);
    let mut writer = writer.with_filters(&names).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

/// Writes files.
type Write = fn(&Path, &RecordBatch);

/// Runs tests/interop/rewrite.py on a file of `batch`; what it prints.
fn rewrite(
    python: &Path,
    folder: &Folder,
    (format, write): (&str, Write),
    batch: &RecordBatch,
) -> serde_json::Value {
    let input = folder.0.join("input.arrow");
    write(&input, batch);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/interop/rewrite.py");
    let output =
        Command::new(python).arg(script).arg(format).arg(&input).arg(&folder.0).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rewrite.py: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// All rows of a file, by the reader of its kind.
fn read(path: &Path) -> RecordBatch {
    let file = File::open(path).unwrap();
    let (schema, batches): (_, Vec<RecordBatch>) = match path.extension().unwrap().to_str() {
        Some("parquet") => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let packed = builder.schema().clone();
            let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
            let batch = decompress(&concat_batches(&packed, &batches).unwrap());
            let batch = batch.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (batch.schema(), vec![batch])
        }
        Some("arrows") => {
            let reader = ipc::Reader::stream(file).unwrap();
            (reader.schema().clone(), reader.map(Result::unwrap).collect())
        }
        _ => {
            let reader = ipc::Reader::file(file);
            let reader = reader.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (reader.schema().clone(), reader.map(Result::unwrap).collect())
        }
    };
    concat_batches(&schema, &batches).unwrap()
}

/// The same fields and values; Parquet readers add metadata of their own.
fn assert_same(path: &Path, found: &RecordBatch, expected: &RecordBatch) {
    let name = path.file_name().unwrap();
    assert_eq!(found.num_rows(), expected.num_rows(), "{name:?}");
    let (found_schema, schema) = (found.schema(), expected.schema());
    for (at, (found_field, field)) in found_schema.fields().iter().zip(schema.fields()).enumerate()
    {
        let mut metadata = found_field.metadata().clone();
        metadata.remove("PARQUET:field_id");
        assert_eq!(&found_field.as_ref().clone().with_metadata(metadata), field.as_ref());
        assert!(found.column(at) == expected.column(at), "{name:?}: {field} differs");
    }
    assert_eq!(found.num_columns(), expected.num_columns());
}

fn joined(batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(&batches[0].schema(), batches).unwrap()
}

/// What rewrite.py writes in this format, and what it then holds.
fn rewritten(batch: &RecordBatch, format: &str) -> Vec<(String, RecordBatch)> {
    let sliced = batch.slice(1024, batch.num_rows() - 1024);
    let both = joined(&[sliced.clone(), batch.clone()]);
    let taken = joined(&[batch.slice(2048, batch.num_rows() - 2048), batch.slice(0, 1024)]);
    let files = match format {
        "arrow" => vec![
            ("file.arrow", batch.clone()),
            ("stream.arrows", batch.clone()),
            ("feather.arrow", batch.clone()),
            ("sliced.arrow", sliced),
            ("joined.arrow", both),
            ("taken.arrow", taken),
        ],
        _ => vec![
            ("uncompressed.parquet", batch.clone()),
            ("zstd.parquet", batch.clone()),
            ("sliced.parquet", sliced),
            ("joined.parquet", both),
            ("from_parquet.arrow", batch.clone()),
        ],
    };
    files.into_iter().map(|(name, batch)| (name.to_owned(), batch)).collect()
}

#[track_caller]
fn check(format: &str, batch: &RecordBatch) {
    check_written(format, write, batch);
}

#[track_caller]
fn check_written(format: &str, write: Write, batch: &RecordBatch) {
    let Some(python) = python() else { return };
    let folder = Folder::new(&format!("{format}-{}", write as usize));
    let seen = rewrite(&python, &folder, (format, write), batch);
    let packed = compressed_schema(&batch.schema());
    let expected: Vec<serde_json::Value> = (packed.fields().iter())
        .map(|field| {
            serde_json::json!({
                "name": field.name(),
                "nullable": field.is_nullable(),
                "metadata": field.metadata(),
            })
        })
        .collect();
    assert_eq!(seen, serde_json::Value::Array(expected));
    for (name, expected) in rewritten(batch, format) {
        let path = folder.0.join(name);
        assert_same(&path, &read(&path), &expected);
    }
}

#[test]
fn pyarrow_rewrites_files_with_an_index_without_loss() {
    check_written("arrow", write_with_index, &every_type());
}

#[test]
fn pyarrow_rewrites_arrow_files_and_streams_without_loss() {
    check("arrow", &every_type());
}

/// Columns that Parquet's own types can hold the bounds of: it has no negative
/// scales.
fn for_parquet(keep: impl Fn(&DataType) -> bool) -> RecordBatch {
    let all = every_type();
    let holds = |data_type: &DataType| !matches!(data_type, DataType::Decimal64(_, ..0));
    let kept: Vec<usize> = (0..all.num_columns())
        .filter(|at| holds(all.column(*at).data_type()) && keep(all.column(*at).data_type()))
        .collect();
    all.project(&kept).unwrap()
}

/// Types that Parquet has not in this unit: pyarrow stores whole days and
/// milliseconds, and so gives bounds of another type back.
fn in_another_unit(data_type: &DataType) -> bool {
    use DataType::{Date64, Time32, Timestamp};
    matches!(data_type, Date64 | Time32(TimeUnit::Second) | Timestamp(TimeUnit::Second, _))
}

#[test]
fn pyarrow_rewrites_as_parquet_without_loss() {
    check("parquet", &for_parquet(|data_type| !in_another_unit(data_type)));
}

#[test]
fn pyarrow_rewrites_bounds_in_another_unit_as_parquet_without_loss() {
    check("parquet-units", &for_parquet(in_another_unit));
}

/// Counts at the end of streams are an empty batch to pyarrow; those of a file, copied to another
/// one, do not make that unreadable.
#[test]
fn pyarrow_reads_streams_with_counts_and_may_copy_those_of_files() {
    let Some(python) = python() else { return };
    let folder = Folder::new("counts");
    let batch = every_type();
    write(&folder.0.join("counts.arrow"), &batch);
    let file = File::create(folder.0.join("counts.arrows")).unwrap();
    let mut writer = ipc::Writer::stream(file, &batch.schema(), options()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/interop/counts.py");
    let output = Command::new(python).arg(script).arg(&folder.0).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "counts.py: {said}");
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = serde_json::json!({ "lanepack.rows": "3000", "lanepack.batches": "1" });
    assert_eq!(seen["stream"], serde_json::json!([[3, {}], [0, counts]]));
    assert_eq!(seen["file"]["lanepack.rows"], "3000");
    let copied = folder.0.join("copied.arrow");
    assert_same(&copied, &read(&copied), &batch.slice(0, 1024));
}

/// As README.md and docs/guide/interop.md say.
#[test]
fn other_tools_see_a_binary_value_for_each_chunk_of_files_with_an_index() {
    let Some(python) = python() else { return };
    let folder = Folder::new("tools");
    let path = folder.0.join("tools.lanepack");
    let batch = record_batch!(
        ("id", Int64, (0..2500).collect::<Vec<i64>>()),
        ("name", Utf8, (0..2500).map(|row| format!("name {row}")).collect::<Vec<_>>())
    )
    .unwrap();
    let options = Options::default().with_chunk_rows(1024);
    let writer = file::Writer::create(&path, &batch.schema(), options).unwrap();
    let mut writer = writer.with_filters(&["name", "id"]).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/interop/tools.py");
    let output = Command::new(python).arg(script).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tools.py: {said}");
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_polars = |name: &str| {
        format!(r#"Extension('lanepack.column', Binary, '{{"version":1,"type":"{name}"}}')"#)
    };
    let expected = serde_json::json!({
        "values": 2500,
        "extension": ["lanepack.column", "lanepack.column"],
        "pyarrow": [["id", "name"], ["large_binary", "large_binary"], 3],
        "duckdb": [["id", "name"], ["BLOB", "BLOB"], 3],
        "polars": [["id", "name"], [of_polars("Int64"), of_polars("Utf8")], 3],
    });
    assert_eq!(seen, expected);
}

/// docs/FORMAT.md is enough to read files by: a reader in Python, of numpy and pyarrow, gives the values of all
/// flat encodings of the golden files, in both storages, and finds in indexes and filters what is said of them.
#[test]
fn an_independent_reader_gives_the_same_values() {
    let Some(python) = python() else { return };
    let folder = Folder::new("reader");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (mut chunks, mut filters, mut encodings) = (0, 0, BTreeSet::new());
    let mut check = |compressed: &Path, batch: &RecordBatch| {
        let plain = folder.0.join("plain.arrow");
        let file = File::create(&plain).unwrap();
        let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        let script = root.join("tests/interop/reader.py");
        let output =
            Command::new(&python).arg(script).arg(compressed).arg(&plain).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "reader.py {}: {said}", compressed.display());
        let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        chunks += seen["chunks"].as_u64().unwrap();
        filters += seen["filters"].as_u64().unwrap();
        let names = seen["encodings"].as_array().unwrap().iter();
        encodings.extend(names.map(|name| name.as_str().unwrap().to_owned()));
    };
    let mut golden: Vec<PathBuf> = std::fs::read_dir(root.join("tests/golden/v1"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    golden.sort();
    for path in golden {
        let batches: Vec<RecordBatch> = ipc::Reader::file(File::open(&path).unwrap())
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
        check(&path, &batch);
    }
    // Packed storage, every flat type but intervals, which pyarrow has no arrays of.
    let all = every_type();
    let is_flat = |at: &usize| {
        let data_type = all.column(*at).data_type();
        !data_type.is_nested() && !matches!(data_type, DataType::Interval(_))
    };
    let flat = all.project(&(0..all.num_columns()).filter(is_flat).collect::<Vec<_>>()).unwrap();
    let path = folder.0.join("packed.lanepack");
    let mut writer = file::Writer::create(&path, &flat.schema(), options()).unwrap();
    writer.write(&flat).unwrap();
    writer.finish().unwrap();
    check(&path, &flat);
    assert!(chunks > 200, "{chunks} chunks");
    // Those of two golden files.
    assert_eq!(filters, 23);
    let every = lanepack::Encoding::ALL.iter().map(|encoding| encoding.name());
    let nested = ["pieces", "struct", "list", "fixed_list", "keys", "run_ends"];
    let missing: Vec<&str> =
        every.filter(|name| !nested.contains(name) && !encodings.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "of {encodings:?}");
}
