//! Arrow IPC files of compressed columns: written batch by batch, read back whole, column by column
//! without decompressing, and by plain arrow-rs, which sees chunks.
//!
//! ```sh
//! cargo run --release --example files
//! ```

use std::fs::File;
use std::io::{BufReader, BufWriter};

use lanepack::arrow::arrow_array::{RecordBatch, record_batch};
use lanepack::arrow::arrow_ipc::reader::FileReader;
use lanepack::{Options, ipc};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("lanepack-{}.arrow", std::process::id()));
    let batch = |day: i32| {
        let ids: Vec<i64> = (0..1000).map(|id| i64::from(day) * 1000 + id).collect();
        let prices: Vec<f64> = ids.iter().map(|id| (id % 77) as f64 / 100.0).collect();
        record_batch!(("id", Int64, ids), ("price", Float64, prices))
    };

    // Small batches are gathered to chunks of 131,072 rows.
    let schema = batch(0)?.schema();
    let file = BufWriter::new(File::create(&path)?);
    let mut writer = ipc::Writer::file(file, &schema, Options::default())?;
    for day in 0..200 {
        writer.write(&batch(day)?)?;
    }
    writer.finish()?;
    println!("200,000 rows of 16 bytes in a file of {} bytes", std::fs::metadata(&path)?.len());

    // A reader is an iterator of batches, and a RecordBatchReader.
    let reader = ipc::Reader::file(BufReader::new(File::open(&path)?))?;
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>()?;
    println!("{} rows read", batches.iter().map(RecordBatch::num_rows).sum::<usize>());

    // Or of columns that stay compressed.
    let mut reader = ipc::Reader::file(BufReader::new(File::open(&path)?))?;
    while let Some((_, columns)) = reader.next_columns()? {
        for column in &columns {
            print!("{}", column.explain());
        }
    }

    // Other Arrow readers see a struct for each chunk.
    for batch in FileReader::try_new(BufReader::new(File::open(&path)?), None)? {
        let batch = batch?;
        println!("{} rows of {}", batch.num_rows(), batch.column(0).data_type());
        println!("{} rows in these", lanepack::decompress(&batch)?.num_rows());
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
