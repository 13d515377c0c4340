//! What is measured: columns of files, and generated ones.

use std::path::{Path, PathBuf};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, SchemaRef};
use lanepack::{CompressedColumn, Encoding, Options, compress_array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::generated::{Cascade, decimals, integers};

/// A column to measure.
pub struct Case {
    pub name: String,
    pub array: ArrayRef,
    pub column: CompressedColumn,
    pub options: Options,
}

/// Cases one after the other, so that one at a time is in memory.
pub struct Cases {
    sources: std::vec::IntoIter<Source>,
    only: String,
    /// How columns of files are compressed.
    options: Options,
}

/// A column of a file, or values to generate.
pub enum Source {
    /// A file's column, by number and name.
    Column(PathBuf, usize, String),
    /// Unsigned integers of so many bits, packed at a width.
    Integers(usize, u32),
    /// Doubles or floats of two decimals below 2^width, and exceptions per vector.
    Decimals(bool, u32, u64),
    /// Floats of whole numbers below 2^width, all of which are exact, and exceptions.
    Whole(u32, u64),
    Cascade(Cascade),
}

pub type Failure = Box<dyn std::error::Error>;

impl Cases {
    /// The columns of files, or, without any, of the shared data, and generated
    /// ones; those whose name has `only` in it.
    pub fn new(files: &[PathBuf], only: &str, options: Options) -> Result<Self, Failure> {
        let mut sources = Vec::new();
        let shared = if files.is_empty() { shared_files()? } else { Vec::new() };
        for file in files.iter().chain(&shared) {
            let schema = schema(file)?;
            for (column, field) in schema.fields().iter().enumerate() {
                sources.push(Source::Column(file.clone(), column, field.name().clone()));
            }
        }
        if !files.is_empty() {
            return Ok(Self { sources: sources.into_iter(), only: only.to_owned(), options });
        }
        for width in [0, 1, 2, 3, 5, 7, 8, 10, 12, 16, 20, 24, 28, 32] {
            sources.push(Source::Integers(32, width));
        }
        for width in [0, 1, 3, 5, 8, 10, 16, 20, 24, 32, 40, 48, 56, 63, 64] {
            sources.push(Source::Integers(64, width));
        }
        for (bits, width) in [(8, 1), (8, 3), (8, 6), (16, 1), (16, 5), (16, 11)] {
            sources.push(Source::Integers(bits, width));
        }
        for exceptions in [0, 1, 8, 32] {
            for width in [8, 16, 24] {
                sources.push(Source::Decimals(true, width, exceptions));
            }
            for width in [8, 16] {
                sources.push(Source::Decimals(false, width, exceptions));
            }
            sources.push(Source::Whole(16, exceptions));
        }
        Ok(Self { sources: sources.into_iter(), only: only.to_owned(), options })
    }

    /// The same with columns for cascades.
    pub fn with_cascades(self) -> Self {
        let mut sources: Vec<Source> = self.sources.collect();
        for (bits, exceptions) in [(8, 8), (16, 8), (32, 1), (32, 8), (32, 32), (64, 8), (64, 32)] {
            sources.push(Source::Cascade(Cascade::Patched(bits, 5, exceptions)));
        }
        for (bits, width) in [(8, 3), (16, 5), (32, 8), (32, 16), (64, 8), (64, 16)] {
            sources.push(Source::Cascade(Cascade::Growing(bits, width)));
        }
        for (bits, width) in [(8, 3), (16, 5), (32, 8), (64, 8), (64, 16)] {
            sources.push(Source::Cascade(Cascade::Packed(bits, width)));
        }
        for (bits, count) in [(8, 7), (16, 200), (32, 200), (64, 200), (64, 30_000)] {
            sources.push(Source::Cascade(Cascade::Distinct(bits, count)));
        }
        for (bits, count) in [(64, 200), (64, 30_000)] {
            sources.push(Source::Cascade(Cascade::Repeated(bits, count)));
        }
        for (bits, longest) in [(8, 100), (32, 20), (64, 5), (64, 20), (64, 1000)] {
            sources.push(Source::Cascade(Cascade::Runs(bits, longest)));
        }
        for (bits, width) in [(32, 8), (64, 8), (64, 16)] {
            sources.push(Source::Cascade(Cascade::Divided(bits, width)));
        }
        for one_in in [2, 5000] {
            sources.push(Source::Cascade(Cascade::Nulls(64, 8, one_in)));
        }
        sources.extend([7, 300, 30_000].map(|count| Source::Cascade(Cascade::Words(count))));
        sources.extend([32, 64].map(|bits| Source::Cascade(Cascade::Real(bits))));
        sources.push(Source::Cascade(Cascade::Brain));
        Self { sources: sources.into_iter(), ..self }
    }
}

impl Iterator for Cases {
    type Item = Case;

    /// The next case that is compressed and not carried as Arrow IPC.
    fn next(&mut self) -> Option<Case> {
        loop {
            let source = self.sources.next()?;
            if !source.name().contains(&self.only) {
                continue;
            }
            match source.case(&self.options) {
                Ok(Some(case)) => return Some(case),
                Ok(None) => {}
                Err(error) => eprintln!("{}: {error}", source.name()),
            }
        }
    }
}

impl Source {
    fn name(&self) -> String {
        match self {
            Self::Column(path, _, field) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                format!("{stem}.{field}")
            }
            Self::Integers(bits, width) => format!("u{bits} of {width} bits"),
            Self::Decimals(double, width, exceptions) => {
                let bits = if *double { 64 } else { 32 };
                format!("f{bits} of {width} bits, {exceptions} exc.")
            }
            Self::Whole(width, exceptions) => format!("f32 whole, {width} bits, {exceptions} exc."),
            Self::Cascade(cascade) => cascade.name(),
        }
    }

    /// The name of the data, whatever the options.
    pub fn data(&self) -> String {
        match self {
            Self::Cascade(cascade) => cascade.data(),
            Self::Column(path, _, field) if field == "value" => {
                path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            }
            _ => self.name(),
        }
    }

    pub fn array(&self) -> Result<ArrayRef, Failure> {
        Ok(match self {
            Self::Column(path, index, _) => read(path, *index)?,
            Self::Integers(bits, width) => integers(*bits, *width),
            Self::Decimals(double, width, exceptions) => {
                decimals(*double, *width, *exceptions, 100.0)
            }
            Self::Whole(width, exceptions) => decimals(false, *width, *exceptions, 1.0),
            Self::Cascade(cascade) => cascade.array(),
        })
    }

    fn case(&self, options: &Options) -> Result<Option<Case>, Failure> {
        let array = self.array()?;
        if array.is_empty() {
            return Ok(None);
        }
        let options = match self {
            // The width that is asked for, whatever else would be smaller.
            Self::Integers(..) => Options::default().with_encodings([Encoding::Ffor]),
            Self::Decimals(..) | Self::Whole(..) => Options::default(),
            Self::Column(..) => options.clone(),
            Self::Cascade(cascade) => cascade.options(),
        };
        let column = compress_array(&array, &options)?;
        // Types without an encoding are carried and have nothing to decode.
        let carried = matches!(
            array.data_type(),
            DataType::List(_)
                | DataType::Struct(_)
                | DataType::Dictionary(..)
                | DataType::Map(..)
                | DataType::Null
        );
        Ok((!carried).then(|| Case { name: self.name(), array, column, options }))
    }
}

fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<std::fs::File>, Failure> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(ParquetRecordBatchReaderBuilder::try_new(file)?)
}

/// A column of a file.
pub fn read(path: &Path, column: usize) -> Result<ArrayRef, Failure> {
    let reader = open(path)?;
    let data_type = reader.schema().field(column).data_type().clone();
    let mask = parquet::arrow::ProjectionMask::roots(reader.parquet_schema(), [column]);
    let reader = reader.with_projection(mask).with_batch_size(1 << 20).build()?;
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    if arrays.is_empty() {
        return Ok(arrow_array::new_empty_array(&data_type));
    }
    Ok(arrow_select::concat::concat(&arrays)?)
}

/// The shared data.
pub fn data_folder() -> PathBuf {
    std::env::var_os("LANEPACK_DATA").map_or("../shared/data".into(), PathBuf::from)
}

/// The columns of a file.
pub fn schema(path: &Path) -> Result<SchemaRef, Failure> {
    Ok(open(path)?.schema().clone())
}

/// The Parquet files of the shared data, strings first.
pub fn shared_files() -> Result<Vec<PathBuf>, Failure> {
    let root = data_folder();
    let mut files = Vec::new();
    for folder in ["strings", "floats", "tables"] {
        let folder = root.join(folder);
        let entries =
            std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
        paths.sort();
        files.extend(paths);
    }
    Ok(files)
}
