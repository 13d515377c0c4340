//! What is measured: columns of files, and generated integers, decimals and cascades.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float32Array, Float64Array, StringArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array, make_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use lanepack::{CompressedColumn, Encoding, Options, compress_array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

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

enum Source {
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

/// Columns for encodings that take more than one look at values: bits of a value first.
#[derive(Clone, Copy)]
enum Cascade {
    /// Integers below 2^width, but for so many a vector.
    Patched(usize, u32, u64),
    /// Reals from 1 to 2.
    Real(usize),
    /// Float32 that are bfloat16.
    Brain,
    /// Integers whose differences are below 2^width.
    Growing(usize, u32),
    /// Integers of so many bits, with all encodings that are allowed by default.
    Packed(usize, u32),
    /// Integers of so many.
    Distinct(usize, usize),
    /// The same with all encodings that are allowed by default.
    Repeated(usize, usize),
    /// Integers that come up to so many times in a row.
    Runs(usize, u64),
    /// So many bits, one row in so many null.
    Nulls(usize, u32, u64),
    /// Multiples of a thousand, of so many bits without these.
    Divided(usize, u32),
    /// Strings of so many, of 5 to 15 bytes.
    Words(usize),
}

pub type Failure = Box<dyn std::error::Error>;

impl Cases {
    /// The columns of files, or, without any, of the shared data, and generated
    /// ones; those whose name has `only` in it.
    pub fn new(files: &[PathBuf], only: &str, options: Options) -> Result<Self, Failure> {
        let mut sources = Vec::new();
        let shared = if files.is_empty() { shared_files()? } else { Vec::new() };
        for file in files.iter().chain(&shared) {
            let schema = open(file)?.schema().clone();
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

    /// Those that GPUs write.
    pub fn written_by_gpus(self) -> impl Iterator<Item = Case> {
        let written =
            |one: &Encoding| Encoding::ON_GPUS.contains(one) || Encoding::NESTED.contains(one);
        self.filter(move |case| case.options.encodings.iter().all(written))
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

    fn case(&self, options: &Options) -> Result<Option<Case>, Failure> {
        let array = match self {
            Self::Column(path, index, _) => read(path, *index)?,
            Self::Integers(bits, width) => integers(*bits, *width),
            Self::Decimals(double, width, exceptions) => {
                decimals(*double, *width, *exceptions, 100.0)
            }
            Self::Whole(width, exceptions) => decimals(false, *width, *exceptions, 1.0),
            Self::Cascade(cascade) => cascade.array(),
        };
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

impl Cascade {
    fn name(self) -> String {
        match self {
            Self::Patched(bits, width, exceptions) => {
                format!("pfor u{bits} of {width} bits, {exceptions} exc.")
            }
            Self::Real(bits) => format!("alp_rd f{bits}"),
            Self::Brain => "alp_rd f32 of 16 bits".to_owned(),
            Self::Growing(bits, width) => format!("delta u{bits} of {width} bits"),
            Self::Packed(bits, width) => format!("default u{bits} of {width} bits"),
            Self::Distinct(bits, count) => format!("dict u{bits} of {count}"),
            Self::Repeated(bits, count) => format!("default u{bits} of {count} values"),
            Self::Runs(bits, longest) => format!("rle u{bits} of runs up to {longest}"),
            Self::Nulls(bits, width, one_in) => {
                format!("default u{bits} of {width} bits, 1 in {one_in} null")
            }
            Self::Divided(bits, width) => format!("gcd u{bits} of {width} bits"),
            Self::Words(count) => format!("dict strings of {count}"),
        }
    }

    /// The encoding that is asked for, whatever else would be smaller.
    fn options(self) -> Options {
        let encodings: &[Encoding] = match self {
            Self::Patched(..) => &[Encoding::Pfor],
            Self::Real(_) | Self::Brain => &[Encoding::AlpRd],
            Self::Growing(..) => &[Encoding::Delta, Encoding::Ffor],
            Self::Packed(..) | Self::Repeated(..) | Self::Nulls(..) => return Options::default(),
            Self::Runs(..) => &[Encoding::Rle, Encoding::Ffor],
            Self::Distinct(..) => &[Encoding::Dict, Encoding::Ffor],
            Self::Divided(..) => &[Encoding::Gcd, Encoding::Ffor],
            Self::Words(_) => &[Encoding::Dict, Encoding::Ffor, Encoding::Fsst],
        };
        Options::default().with_encodings(encodings.iter().copied())
    }

    fn array(self) -> ArrayRef {
        let mut next = random(77);
        match self {
            Self::Patched(bits, width, exceptions) => words(bits, |_| {
                let value = next();
                if next() % 1024 < exceptions { value } else { value >> (64 - width) }
            }),
            Self::Growing(bits, width) => {
                let mut sum = 0_u64;
                words(bits, |_| {
                    sum = sum.wrapping_add(next() >> (64 - width));
                    sum
                })
            }
            Self::Packed(bits, width) => integers(bits, width),
            Self::Nulls(bits, width, one_in) => {
                let nulls = (0..ROWS).map(|_| !next().is_multiple_of(one_in));
                let data = integers(bits, width)
                    .to_data()
                    .into_builder()
                    .nulls(Some(NullBuffer::from_iter(nulls)));
                make_array(data.build().expect("a bit for each row"))
            }
            Self::Runs(bits, longest) => {
                let (mut left, mut value) = (0, 0);
                words(bits, |_| {
                    if left == 0 {
                        (left, value) = (1 + next() % longest, next());
                    }
                    left -= 1;
                    value
                })
            }
            Self::Divided(bits, width) => words(bits, |_| (next() >> (64 - width)) * 1000 + 7),
            Self::Distinct(bits, count) | Self::Repeated(bits, count) => {
                let values: Vec<u64> = (0..count).map(|_| next()).collect();
                words(bits, |_| values[next() as usize % count])
            }
            Self::Real(bits) => {
                let values = (0..ROWS).map(|_| 1.0 + (next() >> 11) as f64 / (1_u64 << 53) as f64);
                match bits {
                    32 => {
                        Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32)))
                    }
                    _ => Arc::new(Float64Array::from_iter_values(values)),
                }
            }
            Self::Brain => {
                let real = (0..ROWS).map(|_| (next() >> 40) as f32 / (1_u64 << 24) as f32);
                let values = real.map(|value| f32::from_bits(value.to_bits() & !0xffff));
                Arc::new(Float32Array::from_iter_values(values))
            }
            Self::Words(count) => {
                let text = |_| {
                    let len = 5 + next() % 11;
                    (0..len).map(|_| char::from(b'a' + (next() % 26) as u8)).collect()
                };
                let texts: Vec<String> = (0..count).map(text).collect();
                let picked = (0..ROWS).map(|_| texts[next() as usize % count].as_str());
                Arc::new(StringArray::from_iter_values(picked))
            }
        }
    }
}

/// Pseudo-random numbers (SplitMix64).
pub fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Rows of generated columns: eight chunks.
const ROWS: usize = 8 * lanepack::MAX_CHUNK_ROWS;

fn integers(bits: usize, width: u32) -> ArrayRef {
    let mut next = random(u64::from(width));
    let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
    words(bits, |_| (next() & mask).wrapping_add(if width < 8 { 3 } else { 0 }))
}

/// Unsigned integers of so many bits.
fn words(bits: usize, value: impl FnMut(usize) -> u64) -> ArrayRef {
    let values = (0..ROWS).map(value);
    match bits {
        8 => Arc::new(UInt8Array::from_iter_values(values.map(|value| value as u8))),
        16 => Arc::new(UInt16Array::from_iter_values(values.map(|value| value as u16))),
        32 => Arc::new(UInt32Array::from_iter_values(values.map(|value| value as u32))),
        _ => Arc::new(UInt64Array::from_iter_values(values)),
    }
}

/// Numbers below 2^width in steps of 1 / `per_one`.
fn decimals(double: bool, width: u32, exceptions: u64, per_one: f64) -> ArrayRef {
    let mut next = random(u64::from(width) + 100);
    let values = (0..ROWS).map(|_| {
        let value = (next() >> (64 - width)) as f64 / per_one;
        if next() % 1024 < exceptions { value * std::f64::consts::PI } else { value }
    });
    match double {
        true => Arc::new(Float64Array::from_iter_values(values)),
        false => Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32))),
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

/// The Parquet files of the shared data, strings first.
fn shared_files() -> Result<Vec<PathBuf>, Failure> {
    let root = std::env::var_os("LANEPACK_DATA").map_or("../shared/data".into(), PathBuf::from);
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
