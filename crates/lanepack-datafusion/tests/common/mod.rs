//! What tests of SQL share.

#![allow(dead_code)] // Each test uses a part of it.

use std::sync::Arc;

use arrow::array::{RecordBatch, record_batch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use lanepack::Options;
use lanepack::file::Writer;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// A session that knows lanepack.
pub fn session(partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
    let context = SessionContext::new_with_state(state);
    lanepack_datafusion::register(&context);
    context
}

/// The rows of a query as text, in their order.
pub async fn rows(context: &SessionContext, query: &str) -> Vec<String> {
    let frame = context.sql(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let batches = frame.collect().await.unwrap_or_else(|error| panic!("{query}: {error}"));
    batches.iter().flat_map(rows_of).collect()
}

/// The rows of a batch as text.
pub fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let row = |row: usize| {
        let values: Vec<String> =
            columns.iter().map(|column| column.value(row).to_string()).collect();
        values.join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The plan of a query.
pub async fn plan(context: &SessionContext, query: &str) -> String {
    let rows = rows(context, &format!("EXPLAIN {query}")).await;
    rows.into_iter().filter(|row| row.starts_with("physical_plan")).collect()
}

/// Writes a table to a file, in chunks of so many rows.
pub fn write(path: &std::path::Path, batches: &[RecordBatch], chunk_rows: usize) {
    let options = Options::default().with_chunk_rows(chunk_rows);
    let mut writer = Writer::create(path, &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

/// 5,000 rows: day ascending, four per day; shop with few values; price with nulls; name.
pub fn sales() -> RecordBatch {
    let rows = 0..5000_i64;
    record_batch!(
        ("day", Int32, rows.clone().map(|row| (row / 4) as i32).collect::<Vec<_>>()),
        (
            "shop",
            Utf8,
            rows.clone().map(|row| format!("shop {}", row * 7919 % 11)).collect::<Vec<_>>()
        ),
        (
            "price",
            Int64,
            rows.clone().map(|row| (row % 7 > 0).then_some(row * 37 % 1000)).collect::<Vec<_>>()
        ),
        ("weight", Float64, rows.clone().map(|row| (row % 100) as f64 / 4.0).collect::<Vec<_>>()),
        ("name", Utf8, rows.map(|row| format!("item {}", row * 31 % 977)).collect::<Vec<_>>())
    )
    .unwrap()
}

/// The tables of TPC-H.
pub fn tpch(scale_factor: f64) -> Vec<(&'static str, Vec<RecordBatch>)> {
    fn all(batches: impl Iterator<Item = RecordBatch>) -> Vec<RecordBatch> {
        batches.collect()
    }
    let of = scale_factor;
    vec![
        ("lineitem", all(LineItemArrow::new(LineItemGenerator::new(of, 1, 1)))),
        ("orders", all(OrderArrow::new(OrderGenerator::new(of, 1, 1)))),
        ("customer", all(CustomerArrow::new(CustomerGenerator::new(of, 1, 1)))),
        ("part", all(PartArrow::new(PartGenerator::new(of, 1, 1)))),
        ("partsupp", all(PartSuppArrow::new(PartSuppGenerator::new(of, 1, 1)))),
        ("supplier", all(SupplierArrow::new(SupplierGenerator::new(of, 1, 1)))),
        ("nation", all(NationArrow::new(NationGenerator::new(of, 1, 1)))),
        ("region", all(RegionArrow::new(RegionGenerator::new(of, 1, 1)))),
    ]
}

/// Gives a session a table in memory.
pub fn register_in_memory(context: &SessionContext, name: &str, batches: &[RecordBatch]) {
    let table = MemTable::try_new(batches[0].schema(), vec![batches.to_vec()]).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}
