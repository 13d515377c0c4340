//! The Star Schema Benchmark, with the tables of the example ssb.

#[path = "../../../examples/support/generator.rs"]
mod generator;
#[path = "../../../examples/ssb/tables.rs"]
mod tables;

use std::path::Path;

use lanepack::Options;

use crate::Failure;
use crate::files::is_missing;

pub const TABLES: [&str; 5] = ["lineorder", "date", "customer", "supplier", "part"];

/// Writes the files, if one is not there.
pub fn generate(folder: &Path, of: f64, with_parquet: bool) -> Result<(), Failure> {
    if TABLES.iter().any(|table| is_missing(folder, table, with_parquet)) {
        compressed::set_parquet(with_parquet);
        tables::generate(of, None, &Options::default(), Some(folder))?;
    }
    Ok(())
}

/// What the generator hands its tables to: here, to files.
mod compressed {
    use std::ops::Range;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use lanepack::Options;
    use lanepack::arrow::arrow_array::RecordBatch;
    use lanepack::arrow::arrow_schema::ArrowError;
    use rayon::prelude::*;

    pub(super) use crate::Failure;
    use crate::files::TableWriter;

    /// Items whose rows are generated together.
    const AT_A_TIME: usize = 1 << 17;
    static WITH_PARQUET: AtomicBool = AtomicBool::new(true);

    pub fn set_parquet(with_parquet: bool) {
        WITH_PARQUET.store(with_parquet, Ordering::Relaxed);
    }

    /// Tables that are in files.
    pub struct Database;

    pub struct Generation<'a> {
        folder: Option<&'a Path>,
    }

    impl<'a> Generation<'a> {
        pub fn new(folder: Option<&'a Path>) -> Result<Self, Failure> {
            Ok(Self { folder })
        }

        pub fn add(
            &mut self,
            name: &'static str,
            items: usize,
            _: &Options,
            make: impl Fn(Range<usize>) -> Result<RecordBatch, ArrowError> + Sync,
        ) -> Result<(), Failure> {
            let folder = self.folder.ok_or("no folder")?;
            let starts: Vec<usize> = (0..items).step_by(AT_A_TIME).collect();
            let part = |start: &usize| make(*start..items.min(start + AT_A_TIME));
            let mut writer: Option<TableWriter> = None;
            for starts in starts.chunks(rayon::current_num_threads()) {
                let batches: Vec<_> = starts.par_iter().map(part).collect::<Result<_, _>>()?;
                for batch in batches {
                    let with_parquet = WITH_PARQUET.load(Ordering::Relaxed);
                    let writer = match &mut writer {
                        Some(writer) => writer,
                        None => {
                            let schema = batch.schema();
                            let new = TableWriter::create(folder, name, &schema, with_parquet)?;
                            writer.insert(new)
                        }
                    };
                    writer.write(&batch)?;
                }
            }
            writer.map_or(Ok(()), TableWriter::finish)
        }

        pub fn finish(self) -> Database {
            Database
        }
    }
}
