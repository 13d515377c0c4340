//! Tables that are generated part by part and compressed, in host memory or in that of a GPU, and
//! queries of them.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use arrow_ipc::writer::FileWriter;
use indicatif::{ProgressBar, ProgressStyle};
use lanepack::arrow::arrow_array::RecordBatch;
use lanepack::arrow::arrow_schema::ArrowError;
use lanepack::scan::{Aggregate, GroupBy, Lookup, Scan};
use lanepack::{CompressedColumn, CompressedDeviceBatch, Engine, Options, Result, columns};
use rayon::prelude::*;

pub type Failure = Box<dyn std::error::Error>;

/// Rows, or orders with their lines, that are generated together.
const AT_A_TIME: usize = 1 << 18;

/// A compressed table.
enum Table {
    /// In host memory, as a compressed batch and its columns.
    Host(RecordBatch, Vec<CompressedColumn>),
    /// In the memory of a GPU.
    Device(CompressedDeviceBatch),
}

/// Compressed tables.
#[derive(Default)]
pub struct Database {
    tables: Vec<(&'static str, Table)>,
    /// Bytes of all values, and compressed.
    pub bytes: usize,
    pub compressed_bytes: usize,
    /// Whether queries print their plans before they run.
    pub explains: bool,
}

impl Database {
    fn table(&self, name: &str) -> &Table {
        let table = self.tables.iter().find(|(known, _)| *known == name);
        &table.unwrap_or_else(|| panic!("no table {name}")).1
    }

    /// A scan of a table where it lies.
    pub fn scan(&self, name: &str) -> Scan<'_> {
        match self.table(name) {
            Table::Host(_, columns) => Scan::of(columns),
            Table::Device(batch) => Scan::on_device(batch),
        }
    }

    pub fn rows(&self, name: &str) -> usize {
        match self.table(name) {
            Table::Host(_, columns) => columns[0].len(),
            Table::Device(batch) => batch.num_rows(),
        }
    }

    /// Aggregates of a scan.
    pub fn aggregate(
        &self,
        scan: &Scan<'_>,
        aggregates: &[Aggregate],
        engine: &Engine,
    ) -> Result<RecordBatch> {
        if self.explains {
            println!("{}", scan.explain(aggregates, engine)?);
        }
        scan.aggregate(aggregates, engine)
    }

    /// Aggregates of groups.
    pub fn aggregate_groups(
        &self,
        groups: &GroupBy<'_>,
        aggregates: &[Aggregate],
        engine: &Engine,
    ) -> Result<RecordBatch> {
        if self.explains {
            println!("{}", groups.explain(aggregates, engine)?);
        }
        groups.aggregate(aggregates, engine)
    }

    /// Uploads the tables to the memory of an engine's GPU.
    pub fn upload(&mut self, engine: &Engine) -> Result<()> {
        for (_, table) in &mut self.tables {
            if let Table::Host(packed, _) = table {
                *table = Table::Device(engine.upload(packed)?);
            }
        }
        Ok(())
    }
}

/// What generates tables and compresses them.
pub struct Generation<'a> {
    database: Database,
    folder: Option<&'a Path>,
    progress: ProgressBar,
}

impl<'a> Generation<'a> {
    /// Tables are written to a folder as Arrow files if one is given.
    pub fn new(folder: Option<&'a Path>) -> Result<Self, Failure> {
        let style = ProgressStyle::with_template("{msg:10} {bar:40} {pos}/{len}, {eta} left")?;
        let progress = ProgressBar::no_length().with_style(style);
        Ok(Self { database: Database::default(), folder, progress })
    }

    /// Adds a table. `make` makes the rows of some of its items; parts are made in parallel, as many
    /// as there are threads, and compressed before the next ones.
    pub fn add(
        &mut self,
        name: &'static str,
        items: usize,
        options: &Options,
        make: impl Fn(Range<usize>) -> Result<RecordBatch, ArrowError> + Sync,
    ) -> Result<(), Failure> {
        self.progress.reset();
        self.progress.set_length(items as u64);
        self.progress.set_message(name);
        let starts: Vec<usize> = (0..items).step_by(AT_A_TIME).collect();
        let part = |start: &usize| make(*start..items.min(start + AT_A_TIME));
        let (mut packed, mut writer) = (Vec::with_capacity(starts.len()), None);
        for starts in starts.chunks(rayon::current_num_threads()) {
            let batches: Vec<_> = starts.par_iter().map(part).collect::<Result<_, _>>()?;
            for batch in batches {
                let columns = batch.columns().iter();
                self.database.bytes +=
                    columns.map(|column| column.get_array_memory_size()).sum::<usize>();
                packed.push(lanepack::compress(&batch, options)?);
                if let Some(folder) = self.folder {
                    let writer = match &mut writer {
                        Some(writer) => writer,
                        None => writer.insert(create(folder, name, &batch)?),
                    };
                    writer.write(&batch)?;
                }
            }
            self.progress.inc((starts.len() * AT_A_TIME).min(items) as u64);
        }
        if let Some(mut writer) = writer {
            writer.finish()?;
        }
        let all = arrow_select::concat::concat_batches(&packed[0].schema(), &packed)?;
        let columns = columns(&all)?;
        self.database.compressed_bytes +=
            columns.iter().map(CompressedColumn::compressed_bytes).sum::<usize>();
        self.database.tables.push((name, Table::Host(all, columns)));
        Ok(())
    }

    pub fn finish(self) -> Database {
        self.progress.finish_and_clear();
        self.database
    }
}

/// Begins an Arrow file of batches like one.
pub fn create(folder: &Path, name: &str, like: &RecordBatch) -> Result<FileWriter<File>, Failure> {
    let file = File::create(folder.join(format!("{name}.arrow")))?;
    Ok(FileWriter::try_new(file, &like.schema())?)
}

/// A query: its lookups of dimensions, and what is asked of the facts that are joined with them.
pub struct Query {
    pub name: &'static str,
    pub lookups: fn(&Database, &Engine) -> Result<Vec<Lookup>>,
    pub facts: fn(&Database, &Engine, &[Lookup]) -> Result<RecordBatch>,
}

impl Query {
    /// The result, lookups included.
    pub fn run(&self, database: &Database, engine: &Engine) -> Result<RecordBatch> {
        (self.facts)(database, engine, &(self.lookups)(database, engine)?)
    }
}
