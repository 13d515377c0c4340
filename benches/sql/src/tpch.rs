//! TPC-H.

use std::path::Path;

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow,
    RecordBatchIterator, RegionArrow, SupplierArrow,
};

use crate::Failure;
use crate::files::{TableWriter, is_missing};

pub const TABLES: [&str; 8] =
    ["lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region"];

/// Writes the files that are not there.
pub fn generate(folder: &Path, of: f64, with_parquet: bool) -> Result<(), Failure> {
    for table in TABLES.into_iter().filter(|table| is_missing(folder, table, with_parquet)) {
        let batches: Box<dyn RecordBatchIterator> = match table {
            "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(of, 1, 1))),
            "orders" => Box::new(OrderArrow::new(OrderGenerator::new(of, 1, 1))),
            "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(of, 1, 1))),
            "part" => Box::new(PartArrow::new(PartGenerator::new(of, 1, 1))),
            "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(of, 1, 1))),
            "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(of, 1, 1))),
            "nation" => Box::new(NationArrow::new(NationGenerator::new(of, 1, 1))),
            _ => Box::new(RegionArrow::new(RegionGenerator::new(of, 1, 1))),
        };
        let mut writer = TableWriter::create(folder, table, batches.schema(), with_parquet)?;
        for batch in batches {
            writer.write(&batch)?;
        }
        writer.finish()?;
    }
    Ok(())
}
