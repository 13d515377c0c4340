//! Times TPC-H Q6 and SSB Q1 over compressed columns, and writes the tables as Parquet for
//! others to time: what `scripts/duckdb-orientation` runs.
//!
//! ```text
//! cargo run --release -p peers --example query_times -- ROWS FOLDER
//! ```
//!
//! Prints lines of `query,threads,milliseconds,sum`, the best of ten runs each, and last the
//! bytes of the compressed columns of each table.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{ArrayRef, RecordBatch};
use lanepack::Engine;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use peers::queries::tables::{Money, Query, lineitem, lineorder, q1, q6};
use peers::queries::{on_compressed, packed};

const RUNS: usize = 10;

/// Rows of a row group, each of which DuckDB gives to one thread.
const GROUP_ROWS: usize = 122_880;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, folder] = &arguments[..] else { return Err("expected ROWS and FOLDER".into()) };
    let (rows, folder) = (rows.parse()?, Path::new(folder));
    std::fs::create_dir_all(folder)?;
    let all = std::thread::available_parallelism()?.get();
    let queries = |money| -> Box<[Query]> { Box::new([q6(money)]) };
    let tables: [(&str, RecordBatch, Box<[Query]>); 3] = [
        ("lineitem_decimal", lineitem(rows, 1, Money::Decimal), queries(Money::Decimal)),
        ("lineitem_float", lineitem(rows, 1, Money::Float64), queries(Money::Float64)),
        ("lineorder", lineorder(rows, 1), Box::new(q1())),
    ];
    for (name, table, queries) in tables {
        write(&folder.join(format!("{name}.parquet")), &table)?;
        let columns = packed(&table);
        for query in &queries {
            for threads in [1, all] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
                let engine = Engine::cpu();
                let mut best = f64::INFINITY;
                let mut sum = String::new();
                for _ in 0..RUNS {
                    let start = Instant::now();
                    let found = pool.install(|| on_compressed(&columns, query, &engine));
                    best = best.min(start.elapsed().as_secs_f64() * 1e3);
                    sum = text(&found);
                }
                println!("{name},{},{threads},{best:.3},{sum}", query.name);
            }
        }
        let bytes: usize = columns.iter().map(|column| column.compressed_bytes()).sum();
        println!("{name},bytes,,,{bytes}");
    }
    Ok(())
}

/// A sum as a number.
fn text(sum: &ArrayRef) -> String {
    if let Some(sum) = sum.as_primitive_opt::<Decimal128Type>() {
        format!("{}", sum.value(0) as f64 / 10_f64.powi(sum.scale().into()))
    } else if let Some(sum) = sum.as_primitive_opt::<Int64Type>() {
        sum.value(0).to_string()
    } else {
        sum.as_primitive::<Float64Type>().value(0).to_string()
    }
}

/// Writes a table as DuckDB itself would: Snappy, and dictionaries where they pay.
fn write(path: &Path, table: &RecordBatch) -> Result<(), Box<dyn Error>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, table.schema(), Some(properties))?;
    writer.write(table)?;
    writer.close()?;
    Ok(())
}
