//! The tables, compressed, in host memory or in that of a GPU.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::scan::Scan;
use lanepack::{CompressedColumn, CompressedDeviceBatch, Engine, Options, columns};

use super::Failure;
use super::tables::Tables;

/// A compressed table.
pub enum Table {
    /// In host memory, as a compressed batch and its columns.
    Host(RecordBatch, Vec<CompressedColumn>),
    /// In the memory of a GPU.
    Device(CompressedDeviceBatch),
}

/// All tables.
pub struct Star {
    pub date: Table,
    pub customer: Table,
    pub supplier: Table,
    pub part: Table,
    pub lineorder: Table,
    /// Bytes of all values, and compressed.
    pub bytes: usize,
    pub compressed_bytes: usize,
}

impl Table {
    /// A scan of the table where it lies.
    pub fn scan(&self) -> Scan<'_> {
        match self {
            Self::Host(_, columns) => Scan::of(columns),
            Self::Device(batch) => Scan::on_device(batch),
        }
    }

    pub fn rows(&self) -> usize {
        match self {
            Self::Host(_, columns) => columns[0].len(),
            Self::Device(batch) => batch.num_rows(),
        }
    }

    fn upload(&mut self, engine: &Engine) -> Result<(), Failure> {
        if let Self::Host(packed, _) = self {
            *self = Self::Device(engine.upload(packed)?);
        }
        Ok(())
    }
}

impl Star {
    /// Generates and compresses the tables, of lineorder some columns or all, by options; writes them to a
    /// folder as Arrow files if one is given.
    pub fn generate(
        scale_factor: f64,
        lineorder: Option<&[&str]>,
        options: &Options,
        folder: Option<&Path>,
    ) -> Result<Self, Failure> {
        let tables = Tables::new(scale_factor);
        let progress = ProgressBar::new(tables.orders() as u64);
        progress
            .set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} orders, {eta} left")?);
        let (mut bytes, mut of_compressed) = (0, 0);
        let mut compressed = |name: &str, batches: Vec<RecordBatch>| -> Result<_, Failure> {
            let default = Options::default();
            let options = if name == "lineorder" { options } else { &default };
            let mut packed = Vec::with_capacity(batches.len());
            for batch in &batches {
                let columns = batch.columns().iter();
                bytes += columns.map(|column| column.get_array_memory_size()).sum::<usize>();
                packed.push(lanepack::compress(batch, options)?);
            }
            if let Some(folder) = folder {
                write(&folder.join(format!("{name}.arrow")), &batches)?;
            }
            let all = arrow_select::concat::concat_batches(&packed[0].schema(), &packed)?;
            let columns = columns(&all)?;
            of_compressed += columns.iter().map(CompressedColumn::compressed_bytes).sum::<usize>();
            Ok(Table::Host(all, columns))
        };
        let date = compressed("date", vec![tables.date()?])?;
        let customer = compressed("customer", vec![tables.customer()?])?;
        let supplier = compressed("supplier", vec![tables.supplier()?])?;
        let part = compressed("part", vec![tables.part()?])?;
        let lineorder = compressed("lineorder", tables.lineorder(lineorder, &progress)?)?;
        progress.finish_and_clear();
        let (bytes, compressed_bytes) = (bytes, of_compressed);
        Ok(Self { date, customer, supplier, part, lineorder, bytes, compressed_bytes })
    }

    /// Uploads the tables to the memory of an engine's GPU.
    pub fn upload(&mut self, engine: &Engine) -> Result<(), Failure> {
        let Self { date, customer, supplier, part, lineorder, .. } = self;
        [date, customer, supplier, part, lineorder]
            .into_iter()
            .try_for_each(|table| table.upload(engine))
    }
}

/// Writes batches as an Arrow file.
pub fn write(path: &Path, batches: &[RecordBatch]) -> Result<(), Failure> {
    let file = std::fs::File::create(path)?;
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batches[0].schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.finish()?)
}
