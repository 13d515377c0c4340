//! The files of a suite: each table as a lanepack file and as a Parquet file with groups of as many rows as a chunk.

use std::fs::File;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use lanepack::Options;
use lanepack::file::{LocalFile, Writer};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::Failure;

/// Rows of a chunk and of a group of rows.
const CHUNK_ROWS: usize = 131_072;

/// The file of a table.
pub fn path(folder: &Path, table: &str, extension: &str) -> PathBuf {
    folder.join(format!("{table}.{extension}"))
}

/// Whether the files of a table are to be written.
pub fn is_missing(folder: &Path, table: &str, with_parquet: bool) -> bool {
    !path(folder, table, "lanepack").exists()
        || with_parquet && !path(folder, table, "parquet").exists()
}

/// Writes a table.
pub struct TableWriter {
    own: Writer<LocalFile>,
    other: Option<ArrowWriter<File>>,
}

impl TableWriter {
    pub fn create(
        folder: &Path,
        table: &str,
        schema: &SchemaRef,
        with_parquet: bool,
    ) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        let options = Options::default().with_chunk_rows(CHUNK_ROWS);
        let own = Writer::create(path(folder, table, "lanepack"), schema, options)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_max_row_group_row_count(Some(CHUNK_ROWS))
            .build();
        let other = match with_parquet {
            true => {
                let file = File::create(path(folder, table, "parquet"))?;
                Some(ArrowWriter::try_new(file, schema.clone(), Some(properties))?)
            }
            false => None,
        };
        Ok(Self { own, other })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.own.write(batch)?;
        match &mut self.other {
            Some(other) => Ok(other.write(batch)?),
            None => Ok(()),
        }
    }

    pub fn finish(mut self) -> Result<(), Failure> {
        self.own.finish()?;
        if let Some(other) = self.other {
            other.close()?;
        }
        Ok(())
    }
}
