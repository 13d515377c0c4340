//! The inputs: Parquet files of the shared data, and TPC-H.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

/// Files made by a generator, or all of special values: they say little about
/// data at large, so they stay out of means.
const SYNTHETIC: [&str; 13] = [
    "alp_avx512dq_f32",
    "alp_avx512dq_f64",
    "alp_edge_case",
    "alp_generated_doubles",
    "arrow_rs_bigdelta",
    "c_name",
    "double_test_0",
    "edge_f32",
    "edge_f64",
    "float_test_0",
    "float_test_1",
    "float_test_2",
    "l_comment",
];

/// A Parquet file of the shared data.
#[derive(Debug, Clone)]
pub struct File {
    /// The file's name without its ending.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
}

impl File {
    /// Whether the data are real.
    pub fn is_real(&self) -> bool {
        !SYNTHETIC.contains(&self.name.as_str()) && !self.name.starts_with("ssb_")
    }

    /// All rows.
    pub fn read(&self) -> RecordBatch {
        let file = std::fs::File::open(&self.path).expect("a readable file");
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
        let schema = builder.schema().clone();
        let batches = builder.with_batch_size(1 << 20).build().expect("a Parquet file");
        let batches: Vec<RecordBatch> = batches.map(|batch| batch.expect("a batch")).collect();
        concat_batches(&schema, &batches).expect("batches of one schema")
    }

    /// The first column.
    pub fn column(&self) -> ArrayRef {
        self.read().column(0).clone()
    }
}

/// The shared data: `strings`, `floats` and `tables`.
fn root() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("LANEPACK_DATA").map_or(beside, PathBuf::from)
}

/// The files of a folder of the shared data, in order; none, with a printed
/// reason, if it is absent.
pub fn files(folder: &str) -> Vec<File> {
    let folder = root().join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no shared data at {}", folder.display());
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<File> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "parquet"))
        .filter_map(|path| Some(File { name: path.file_stem()?.to_str()?.to_owned(), path }))
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// TPC-H lineitem as one batch, and a name that says its scale factor.
///
/// # Panics
/// If `LANEPACK_TPCH_SF` is no number.
pub fn lineitem() -> (String, RecordBatch) {
    let factor = std::env::var("LANEPACK_TPCH_SF").unwrap_or("0.1".to_owned());
    let scale: f64 = factor.parse().expect("LANEPACK_TPCH_SF is a number");
    let batches = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(1 << 16);
    let batches: Vec<RecordBatch> = batches.collect();
    let batch = concat_batches(&batches[0].schema(), &batches).expect("batches of one schema");
    (format!("lineitem SF {factor}"), batch)
}

/// The batch with views of strings as Utf8.
pub fn without_views(batch: &RecordBatch) -> RecordBatch {
    let fields = batch.schema();
    let columns = fields.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = match column.as_string_view_opt() {
            Some(views) => Arc::new(views.iter().collect::<StringArray>()),
            None => column.clone(),
        };
        (field.name(), column, field.is_nullable())
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// The rows of `batch`, so often that there are at least `bytes` bytes if once
/// gives `once`.
pub fn tiled(batch: &RecordBatch, once: usize, bytes: usize) -> RecordBatch {
    let copies = vec![batch.clone(); bytes.div_ceil(once.max(1)).max(1)];
    concat_batches(&batch.schema(), &copies).expect("batches of one schema")
}
