//! Compressed columns through Arrow Flight: a server sends what `compress` gives, the client
//! decompresses. Here both ends are in one process, without a network between them.
//!
//! ```sh
//! cargo run --release --example flight
//! ```

use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use futures::{StreamExt, TryStreamExt, executor, stream};
use lanepack::arrow::arrow_array::{Array, RecordBatch};
use lanepack::{Options, compress, decompress};
use tpchgen::generators::CustomerGenerator;
use tpchgen_arrow::CustomerArrow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let batches: Vec<RecordBatch> =
        CustomerArrow::new(CustomerGenerator::new(0.1, 1, 1)).with_batch_size(131_072).collect();
    let customers = &batches[0];

    let raw: usize = (customers.columns().iter())
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum();
    println!("{} rows, {raw} bytes as Arrow arrays", customers.num_rows());

    let compressed = compress(customers, &Options::default())?;
    let messages = executor::block_on(sent(compressed))?;
    let bytes: usize =
        messages.iter().map(|data| data.data_header.len() + data.data_body.len()).sum();
    println!("{} messages of {bytes} bytes in all, the schema's included", messages.len());

    let received = executor::block_on(received(messages))?;
    // Large batches arrive in slices of whole chunks, which decompress alone or together.
    for batch in received {
        let back = decompress(&batch)?;
        println!(
            "{} rows, {}",
            back.num_rows(),
            if &back == customers { "identical" } else { "DIFFERENT" }
        );
    }
    Ok(())
}

/// What a server's `do_get` returns.
async fn sent(batch: RecordBatch) -> arrow_flight::error::Result<Vec<FlightData>> {
    let batches = stream::iter([Ok(batch)]);
    FlightDataEncoderBuilder::new().build(batches).try_collect().await
}

/// What a client makes of it.
async fn received(messages: Vec<FlightData>) -> arrow_flight::error::Result<Vec<RecordBatch>> {
    let messages = stream::iter(messages).map(Ok);
    FlightRecordBatchStream::new_from_flight_data(messages).try_collect().await
}
