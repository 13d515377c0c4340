//! Compressed columns in a Parquet file: `compress` gives ordinary Arrow structs, so any Parquet
//! writer takes them, and readers that do not know lanepack pass them on.
//!
//! ```sh
//! cargo run --release --example parquet
//! ```

use bytes::Bytes;
use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::{Options, compress, decompress};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterProperties;
use tpchgen::generators::CustomerGenerator;
use tpchgen_arrow::CustomerArrow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let batches: Vec<RecordBatch> =
        CustomerArrow::new(CustomerGenerator::new(0.1, 1, 1)).with_batch_size(131_072).collect();
    let customers = &batches[0];

    // Bodies are compressed already: Parquet's own encodings would only take time.
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .build();
    let compressed = compress(customers, &Options::default())?;
    let mut writer = ArrowWriter::try_new(Vec::new(), compressed.schema(), Some(properties))?;
    writer.write(&compressed)?;
    let file = Bytes::from(writer.into_inner()?);
    println!("{} rows, {} bytes as Arrow arrays", customers.num_rows(), bytes_of(customers));
    println!("{} bytes as a Parquet file of compressed columns", file.len());

    for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
        let back = decompress(&batch?)?;
        println!(
            "{} rows read, {}",
            back.num_rows(),
            if &back == customers { "identical" } else { "DIFFERENT" }
        );
    }
    Ok(())
}

fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
