//! A table that is never in memory as a whole: written as it comes, then scanned batch by batch
//! under a limit.
//!
//! ```sh
//! cargo run --release --example larger_than_memory -- 100
//! ```
//!
//! The argument is how many million rows there are (default 10), of 24 bytes each. A batch of a
//! million rows is what is held at any time, before it is written, and after it is read.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::Arc;

use lanepack::arrow::arrow_array::cast::AsArray;
use lanepack::arrow::arrow_array::types::Int64Type;
use lanepack::arrow::arrow_array::{Float64Array, Int64Array, RecordBatch};
use lanepack::scan::{Scan, col, count_rows};
use lanepack::{Engine, Options, ipc};

/// Rows of a batch.
const ROWS: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: i64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let path = std::env::temp_dir().join(format!("lanepack-{}.arrow", std::process::id()));

    let file = BufWriter::new(File::create(&path)?);
    let mut writer = ipc::Writer::file(file, &batch(0)?.schema(), Options::default())?;
    for number in 0..millions {
        writer.write(&batch(number)?)?;
        writer.flush()?;
    }
    writer.finish()?;
    let stored = std::fs::metadata(&path)?.len();
    println!("{millions} million rows, {} MB, in {:.1} MB", millions * 24, stored as f64 / 1e6);

    // Columns are read compressed; the scan decodes what its filter cannot tell without.
    let engine = Engine::cpu();
    let mut reader = ipc::Reader::file(BufReader::new(File::open(&path)?))?;
    let mut found = 0;
    while let Some((_, columns)) = reader.next_columns()? {
        let scan = Scan::of(&columns).filter(col("value").lt(0.5).and(col("sensor").eq(17)));
        let count = scan.aggregate(&[count_rows()], &engine)?;
        found += count.column(0).as_primitive::<Int64Type>().value(0);
    }
    println!("{found} rows of sensor 17 below 0.5");

    // Or decompressed, one batch at a time, none of which may take more than 64 MB.
    let reader = ipc::Reader::file(BufReader::new(File::open(&path)?))?;
    let mut rows = 0;
    for batch in reader.with_memory_limit(64_000_000) {
        rows += batch?.num_rows();
    }
    println!("{rows} rows read");
    std::fs::remove_file(&path)?;
    Ok(())
}

/// A million measurements of a hundred sensors.
fn batch(number: i64) -> lanepack::Result<RecordBatch> {
    let rows = || number * ROWS..(number + 1) * ROWS;
    let value = |row: i64| (row.wrapping_mul(48_271) % 10_007) as f64 / 1000.0;
    Ok(RecordBatch::try_from_iter([
        ("time", Arc::new(Int64Array::from_iter_values(rows().map(|row| 1000 * row))) as _),
        ("sensor", Arc::new(Int64Array::from_iter_values(rows().map(|row| row % 100))) as _),
        ("value", Arc::new(Float64Array::from_iter_values(rows().map(value))) as _),
    ])?)
}
