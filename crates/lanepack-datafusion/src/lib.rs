//! SQL on lanepack files with [DataFusion](datafusion).
//!
//! [`register`] teaches a session to make tables of files (`CREATE EXTERNAL TABLE ... STORED AS LANEPACK`) and to write
//! them (`COPY ... TO 'x.lanepack'`). Scans read the columns and chunks that a query needs: filters that lanepack
//! applies exactly are left out of DataFusion's plan, filters that joins and top-k make while they run are applied as
//! well, and counts, sums, averages, least and greatest values are computed on compressed columns.
//!
//! ```text
//! table.rs      LanepackTable: files -> a scan            filter.rs     DataFusion's filters as lanepack's
//! files.rs      chunks of all files, columns of paths     number.rs     DataFusion's numbers as lanepack's
//! scan.rs       LanepackExec: partitions of chunks        engine.rs     the setting lanepack.engine
//! aggregate/    LanepackAggregateExec, PushAggregates     create.rs     what a session gains
//! format.rs     files that COPY writes                   late.rs       LanepackTakeExec, TakeLate: columns after a top-k
//! columns.rs    expressions through projections and joins
//! ```

/// The examples of docs/guide/sql.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/sql.md")]
struct Guide;

mod aggregate;
mod columns;
mod create;
mod engine;
mod files;
mod filter;
mod format;
mod late;
mod number;
mod scan;
mod table;

pub use aggregate::{LanepackAggregateExec, PushAggregates};
pub use create::{LanepackTableFactory, SessionContextExt, register};
pub use engine::{EngineKind, LanepackOptions};
pub use format::{LanepackFormat, LanepackFormatFactory};
pub use late::{LanepackTakeExec, TakeLate};
pub use scan::LanepackExec;
pub use table::LanepackTable;

use datafusion::error::DataFusionError;

/// An error of lanepack; `DataFusionError::find_root` and a downcast give it back.
fn external(error: lanepack::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
