//! Filters, aggregates and values of compressed columns: TPC-H query 6, and the orders behind it.
//!
//! ```sh
//! cargo run --release --example scan
//! ```
//!
//! Nothing is decompressed but the rows that `gather` returns. On a machine with an NVIDIA GPU and
//! with the feature `cuda`, `Engine::cuda(0)` in place of `Engine::cpu()` gives the same results.

use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::scan::{Scan, col, count_rows, sum};
use lanepack::{Engine, Options, columns, compress};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

fn main() -> lanepack::Result<()> {
    let batches: Vec<RecordBatch> =
        LineItemArrow::new(LineItemGenerator::new(0.01, 1, 1)).with_batch_size(131_072).collect();
    let lineitem = compress(&batches[0], &Options::default())?;
    // Validated once; scans of these columns need not do it again.
    let columns = columns(&lineitem)?;
    let engine = Engine::cpu();

    // Dates are written as text, decimals as floats: both are converted exactly, or refused.
    let query_6 = col("l_shipdate")
        .gt_eq("1994-01-01")
        .and(col("l_shipdate").lt("1995-01-01"))
        .and(col("l_discount").between(0.05, 0.07))
        .and(col("l_quantity").lt(24));
    let scan = Scan::of(&columns).filter(query_6);

    let revenue = sum(col("l_extendedprice") * col("l_discount")).named("revenue");
    let totals = scan.aggregate(&[revenue, count_rows().named("rows")], &engine)?;
    println!("of {} rows:\n{}", batches[0].num_rows(), table(&totals));

    let urgent = scan.filter(col("l_shipmode").eq("AIR").and(col("l_comment").like("%quick%")));
    let orders = urgent.gather(&["l_orderkey", "l_shipdate", "l_comment"], &engine)?;
    println!("{}", table(&orders.slice(0, orders.num_rows().min(3))));
    Ok(())
}

fn table(batch: &RecordBatch) -> impl std::fmt::Display {
    arrow_cast::pretty::pretty_format_batches(std::slice::from_ref(batch)).expect("a table")
}
