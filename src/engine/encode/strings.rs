//! Strings with offsets: lengths and samples from the device, symbol tables from the
//! host, codes from the device.
//!
//! ```text
//! group    lengths, picked segments --> host trains a table
//! window   lengths, bounds, what the table makes of a sample of each chunk --> host plans
//!          codes to scratch, lengths of codes              --> host knows sizes
//!          codes, starts, tiles and lengths to bodies
//! ```
//!
//! A *group* shares a table, as on the CPU. A *window* is a part of a group of at most
//! [`window_bytes`] bytes (but a whole chunk): its scratch is two bytes of codes for each
//! byte of values, and 8 bytes a row, whatever the data. Two windows are under way at a
//! time, so that the host waits for one while the device works on the other.
//!
//! Chunks for which the group's table slips get a table and a window of their own.

use std::ops::Range;
use std::sync::{Arc, mpsc};

use super::launch::{Launcher, Pending};
use super::source::{Bits, Column};
use super::words::Words;
use super::write::{self, Job, Origin, Part, Parts, Planned, Written};
use crate::chunk::EncodedNode;
use crate::encoding::fsst::{self, Sampled, Symbols};
use crate::encoding::plan;
use crate::encoding::{Encoding, Estimate, Physical, constant};
use crate::engine::Context;
use crate::engine::array::DeviceArray;
use crate::engine::column::Bounds;
use crate::error::Result;
use crate::gpu::abi::encode::Source;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, Event};
use crate::lanes::VECTOR;
use crate::options::Options;
use arrow_schema::{DataType, FieldRef};

/// Bytes of values that a thread encodes.
const RUN_BYTES: usize = 512;
/// Bytes and segments of a sample that are expected at most; else it is drawn again.
const CAPACITY: usize = 4 * fsst::SAMPLE_BYTES;
/// The scope of what only helps to choose a table.
const TRIAL: usize = usize::MAX;
/// Codes and places for the end of a table, which is read in words of 8 bytes.
const TABLE_BYTES: usize = 4096;

/// A column of strings in device memory.
pub(super) struct StringColumn {
    pub rows: usize,
    offsets: u64,
    /// Bytes of an offset.
    width: usize,
    values: u64,
    valid: Option<Bits>,
    pub memory: Vec<Arc<DeviceBuffer>>,
    pub ready: Arc<dyn Event>,
}

impl StringColumn {
    /// An array that lies on the device. Kernels read units of 32 bytes: what begins or
    /// ends elsewhere is copied.
    pub fn new(launcher: &mut Launcher<'_>, field: &FieldRef, array: &DeviceArray) -> Result<Self> {
        launcher.stream.wait(array.ready().as_ref())?;
        let (validity, slices) = array.slices();
        let mut memory: Vec<Arc<DeviceBuffer>> = Vec::new();
        let mut address_of = |slice: &crate::engine::array::DeviceSlice| -> Result<u64> {
            let (buffer, at) = (slice.buffer(), slice.address() - slice.buffer().address());
            if buffer.is_padded() && slice.address().is_multiple_of(32) {
                memory.push(buffer.clone());
                return Ok(slice.address());
            }
            let copy = Arc::new(launcher.stream.allocate(slice.len())?);
            launcher.stream.copy(buffer, at as usize, &copy, 0, slice.len())?;
            memory.push(copy.clone());
            Ok(copy.address())
        };
        let (offsets, values) = (address_of(&slices[0])?, address_of(&slices[1])?);
        memory.extend(validity.map(|slice| slice.buffer().clone()));
        Ok(Self {
            rows: array.len(),
            offsets,
            width: match field.data_type() {
                DataType::LargeUtf8 | DataType::LargeBinary => 8,
                _ => 4,
            },
            values,
            valid: validity.map(|slice| Bits::at(slice.address(), 0)),
            memory,
            ready: launcher.stream.record()?,
        })
    }

    /// The kernel for the column's offsets.
    fn by_width(&self, kernels: [Kernel; 2]) -> Kernel {
        kernels[usize::from(self.width == 8)]
    }

    /// What kernels see of some rows, which begin at a multiple of 1,024.
    fn window(&self, rows: &Range<usize>, chunk_rows: usize) -> abi::FsstWindow {
        let valid = self.valid.unwrap_or(Bits { address: 0, bit: 0 });
        abi::FsstWindow {
            values: self.values,
            offsets: self.offsets + (rows.start * self.width) as u64,
            valid: valid.address,
            first_bit: u64::from(valid.bit) + rows.start as u64,
            rows: rows.len() as u32,
            chunk_rows: chunk_rows as u32,
            run_bytes: RUN_BYTES as u32,
            ..Default::default()
        }
    }
}

/// Bytes of values of a window.
pub(super) fn window_bytes(is_host: bool) -> usize {
    // On the emulation few, so that tests see several windows.
    if is_host { 160 << 10 } else { 256 << 20 }
}

/// Places of arrays in one allocation, each at a multiple of 256 bytes.
#[derive(Default)]
struct Arrays {
    len: usize,
}

impl Arrays {
    fn add(&mut self, bytes: usize) -> usize {
        let at = self.len;
        self.len = (at + bytes).next_multiple_of(256);
        at
    }
}

/// Rows whose lengths are known on the device.
struct Lengths {
    window: abi::FsstWindow,
    /// Bytes from the first offset to the last, those under nulls included.
    raw_bytes: usize,
    rows: Range<usize>,
    /// What is read back, for each vector.
    vectors: Vec<abi::FsstVector>,
    pending: Option<Pending<abi::FsstVector>>,
}

impl Lengths {
    fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        rows: Range<usize>,
        chunk_rows: usize,
        raw_bytes: usize,
    ) -> Result<Self> {
        let vectors = rows.len().div_ceil(VECTOR);
        let runs = raw_bytes / RUN_BYTES + vectors;
        let mut arrays = Arrays::default();
        let value_lengths = arrays.add(rows.len() * 4);
        let code_lengths = arrays.add(rows.len() * 4);
        let vectors_at = arrays.add((vectors + 1) * size_of::<abi::FsstVector>());
        let run_starts = arrays.add(runs * 16);
        let scratch = launcher.allocate(arrays.len)?;
        let at = |at: usize| scratch.address() + at as u64;
        let window = abi::FsstWindow {
            value_lengths: at(value_lengths),
            code_lengths: at(code_lengths),
            vectors: at(vectors_at),
            run_starts: at(run_starts),
            ..column.window(&rows, chunk_rows)
        };
        launcher.launch(column.by_width(kernels::FSST_LENGTHS), vectors, &window)?;
        let pending = Some(launcher.result(&scratch, vectors_at, vectors)?);
        let vectors = Vec::new();
        Ok(Self { window, raw_bytes, rows, vectors, pending })
    }

    fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        if let Some(pending) = self.pending.take() {
            self.vectors = launcher.read(&pending)?;
        }
        Ok(())
    }

    /// Bytes of all valid values.
    fn bytes(&self) -> usize {
        self.vectors.iter().map(|vector| vector.bytes as usize).sum()
    }

    fn vector_count(&self) -> usize {
        self.rows.len().div_ceil(VECTOR)
    }

    /// Numbers of segments, by groups of so many vectors; then `work` with the sampling.
    fn sampling(
        &self,
        launcher: &mut Launcher<'_>,
        group_vectors: usize,
        budget: usize,
    ) -> Result<Sampling> {
        let (vectors, groups) = (self.vector_count(), self.vector_count().div_ceil(group_vectors));
        let mut arrays = Arrays::default();
        let samples_at = arrays.add(groups * size_of::<abi::FsstSample>());
        let numbers = arrays.add(vectors * 8);
        let picks = arrays.add(vectors * 8);
        let scratch = launcher.allocate(arrays.len)?;
        let at = |at: usize| scratch.address() + at as u64;
        let arguments = abi::FsstSampling {
            window: self.window,
            samples: at(samples_at),
            numbers: at(numbers),
            picks: at(picks),
            group_vectors: group_vectors as u32,
            budget: budget as u32,
            ..Default::default()
        };
        launcher.launch(kernels::FSST_NUMBERS, groups, &arguments)?;
        Ok(Sampling { arguments, groups, scratch, samples_at })
    }
}

/// Segments of groups of vectors, numbered.
struct Sampling {
    arguments: abi::FsstSampling,
    groups: usize,
    scratch: Arc<DeviceBuffer>,
    samples_at: usize,
}

/// A sample to train on, under way.
struct Picked {
    sample: Pending<abi::FsstSample>,
    segments: Pending<abi::FsstSegment>,
    bytes: Pending<u8>,
}

/// Starts picking segments to train on, at most so many bytes and segments.
fn pick(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    lengths: &Lengths,
    capacity: usize,
) -> Result<Picked> {
    // Segments have at least a byte.
    let capacity = capacity.min(lengths.raw_bytes).max(1);
    let vectors = lengths.vector_count();
    let sampling = lengths.sampling(launcher, vectors, fsst::SAMPLE_BYTES)?;
    let mut arrays = Arrays::default();
    let bytes_at = arrays.add(capacity);
    let segments_at = arrays.add(capacity * size_of::<abi::FsstSegment>());
    let scratch = launcher.allocate(arrays.len)?;
    let arguments = abi::FsstSampling {
        bytes: scratch.address() + bytes_at as u64,
        segments: scratch.address() + segments_at as u64,
        capacity: capacity as u32,
        segment_capacity: capacity as u32,
        ..sampling.arguments
    };
    launcher.launch(column.by_width(kernels::FSST_PICK_COUNT), vectors, &arguments)?;
    launcher.launch(kernels::FSST_PICK_PLACES, 1, &arguments)?;
    launcher.launch(column.by_width(kernels::FSST_PICK), vectors, &arguments)?;
    Ok(Picked {
        sample: launcher.result(&sampling.scratch, sampling.samples_at, 1)?,
        segments: launcher.result(&scratch, segments_at, capacity)?,
        bytes: launcher.result(&scratch, bytes_at, capacity)?,
    })
}

/// The picked bytes, and the lengths of the segments that they are.
type Sample = (Vec<u8>, Vec<usize>);

/// Waits for a sample.
fn read_sample(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    lengths: &Lengths,
    mut picked: Picked,
) -> Result<Sample> {
    let mut sample = launcher.read(&picked.sample)?[0];
    let needed = (sample.picked_bytes as usize).max(sample.picked as usize);
    if needed > CAPACITY {
        // Unlikely, but a matter of luck.
        picked = pick(launcher, column, lengths, needed)?;
        sample = launcher.read(&picked.sample)?[0];
    }
    let segments = launcher.read(&picked.segments.first(sample.picked as usize))?;
    let lengths: Vec<usize> = segments.iter().map(|segment| segment.length as usize).collect();
    let bytes = launcher.read(&picked.bytes.first(lengths.iter().sum()))?;
    Ok((bytes, lengths))
}

/// Trains a table on a sample.
fn train((bytes, lengths): &Sample) -> Option<Arc<Symbols>> {
    let mut rest = bytes.as_slice();
    let parts: Vec<&[u8]> = (lengths.iter())
        .map(|length| {
            let (part, behind) = rest.split_at(*length);
            rest = behind;
            part
        })
        .collect();
    Symbols::of_sample(&parts).map(Arc::new)
}

/// A table in device memory.
#[derive(Clone)]
struct Table {
    symbols: Arc<Symbols>,
    address: u64,
    len: usize,
}

impl Table {
    fn upload(launcher: &mut Launcher<'_>, symbols: Arc<Symbols>) -> Result<Self> {
        let mut bytes = symbols.table().to_bytes();
        let len = bytes.len();
        bytes.resize(TABLE_BYTES.max(len), 0);
        Ok(Self { symbols, address: launcher.upload(&bytes)?, len })
    }
}

/// Starts encoding a sample of each chunk; nothing is written.
fn estimate(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    lengths: &Lengths,
    table: &Table,
    chunk_vectors: usize,
) -> Result<Pending<abi::FsstSample>> {
    let sampling = lengths.sampling(launcher, chunk_vectors, fsst::ESTIMATE_BYTES)?;
    let mut arguments = sampling.arguments;
    arguments.window.table = table.address;
    for first_only in [0, 1] {
        arguments.first_only = first_only;
        let kernel = column.by_width(kernels::FSST_ESTIMATE);
        launcher.launch(kernel, lengths.vector_count(), &arguments)?;
    }
    launcher.result(&sampling.scratch, sampling.samples_at, sampling.groups)
}

fn sampled(sample: &abi::FsstSample) -> Option<Sampled> {
    (sample.picked > 0).then_some(Sampled {
        bytes: sample.picked_bytes as usize,
        codes: sample.picked_codes as usize,
        least: sample.least as usize,
        most: sample.most as usize,
    })
}

/// A window that has been looked at.
struct Window {
    lengths: Lengths,
    table: Option<Table>,
    value_words: Words,
    bounds: Pending<abi::StringBounds>,
    /// Valid rows of each chunk, if there may be nulls.
    counts: Option<Pending<[u32; 2]>>,
    samples: Option<Pending<abi::FsstSample>>,
    validity: Option<Column>,
    /// Offsets where chunks begin, and the end of the last.
    borders: Vec<u64>,
    options: Options,
}

/// How a chunk is stored.
#[derive(Clone)]
enum Choice {
    Constant,
    Plain,
    /// With the codes of a job, of which it is this chunk.
    Fsst(usize, usize),
}

/// Rows whose codes are made with one table.
struct Encoded {
    lengths_window: abi::FsstWindow,
    table: Table,
    code_words: Words,
    chunks: Pending<abi::FsstPlace>,
    /// What is read back.
    totals: Vec<abi::FsstPlace>,
    runs: usize,
}

/// A window whose codes are under way.
struct Started {
    window: Window,
    choices: Vec<Choice>,
    encoded: Vec<Encoded>,
    bounds: Vec<abi::StringBounds>,
    valid: Vec<usize>,
}

impl Window {
    fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: Lengths,
        table: Option<Table>,
        borders: Vec<u64>,
        options: &Options,
    ) -> Result<Self> {
        let chunk_vectors = options.chunk_rows / VECTOR;
        let chunks = borders.len() - 1;
        let vectors = lengths.vector_count();
        let mut arrays = Arrays::default();
        let extremes = arrays.add(vectors * 8);
        let bounds_at = arrays.add(chunks * size_of::<abi::StringBounds>());
        let scratch = launcher.allocate(arrays.len)?;
        let arguments = abi::StringBoundsArguments {
            window: lengths.window,
            extremes: scratch.address() + extremes as u64,
            bounds: scratch.address() + bounds_at as u64,
            borders: 0,
        };
        let kernel = column.by_width(kernels::STRING_EXTREMES);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        launcher.launch(column.by_width(kernels::STRING_BOUNDS), chunks, &arguments)?;
        let bounds = launcher.result(&scratch, bounds_at, chunks)?;
        let samples = match &table {
            Some(table) => Some(estimate(launcher, column, &lengths, table, chunk_vectors)?),
            None => None,
        };
        let source = Source {
            values: lengths.window.value_lengths,
            rows: lengths.rows.len() as u64,
            stride: 1,
            chunk_vectors: chunk_vectors as u32,
            ..Default::default()
        };
        let value_words = Words::measure(launcher, Physical::U32, source, false)?;
        let validity = column.valid.map(|valid| {
            let (rows, memory) = (lengths.rows.len(), column.memory.clone());
            let valid = valid.at_row(lengths.rows.start);
            Column::of_validity(memory, valid, rows, column.ready.clone())
        });
        let counts = match &validity {
            Some(validity) => Some(write::count_bits(launcher, validity, options.chunk_rows)?),
            None => None,
        };
        let options = options.clone();
        Ok(Self {
            lengths,
            table,
            value_words,
            bounds,
            counts,
            samples,
            validity,
            borders,
            options,
        })
    }

    fn chunk_vectors(&self) -> usize {
        self.options.chunk_rows / VECTOR
    }

    fn chunks(&self) -> usize {
        self.borders.len() - 1
    }

    /// Rows of a chunk.
    fn rows(&self, chunk: usize) -> usize {
        (self.lengths.rows.len() - chunk * self.options.chunk_rows).min(self.options.chunk_rows)
    }

    /// The vectors of a chunk.
    fn vectors(&self, chunk: usize) -> &[abi::FsstVector] {
        let all = &self.lengths.vectors[chunk * self.chunk_vectors()..];
        &all[..self.rows(chunk).div_ceil(VECTOR)]
    }

    /// Bytes of a chunk's valid values.
    fn bytes(&self, chunk: usize) -> usize {
        self.vectors(chunk).iter().map(|vector| vector.bytes as usize).sum()
    }

    /// Plans every chunk and starts making codes.
    fn encode(mut self, launcher: &mut Launcher<'_>, column: &StringColumn) -> Result<Started> {
        self.lengths.read(launcher)?;
        self.value_words.read(launcher)?;
        let bounds = launcher.read(&self.bounds)?;
        let samples = match &self.samples {
            Some(samples) => launcher.read(samples)?,
            None => vec![abi::FsstSample::default(); self.chunks()],
        };
        let valid = match &self.counts {
            Some(counts) => {
                launcher.read(counts)?.iter().map(|[valid, _]| *valid as usize).collect()
            }
            None => (0..self.chunks()).map(|chunk| self.rows(chunk)).collect(),
        };
        // Chunks with a table of their own, and all others that have codes.
        let mut own: Vec<(Table, Lengths)> = Vec::new();
        let mut choices = Vec::new();
        for (chunk, sample) in samples.iter().enumerate() {
            let shared = sampled(sample).and_then(|sampled| Some((self.table.clone()?, sampled)));
            let fsst = self.table_for(launcher, column, chunk, &bounds[chunk], shared)?;
            let choice = self.choose(chunk, &bounds[chunk], fsst.as_ref());
            choices.push(match (choice, fsst) {
                (Encoding::Fsst, Some((table, _, Some(lengths)))) => {
                    own.push((table, lengths));
                    // The number of the job, once it is known whether there is a shared one.
                    Choice::Fsst(own.len(), 0)
                }
                (Encoding::Fsst, _) => Choice::Fsst(0, chunk),
                (Encoding::Constant, _) => Choice::Constant,
                _ => Choice::Plain,
            });
        }
        launcher.mark("plan")?;
        let has_shared = choices.iter().any(|choice| matches!(choice, Choice::Fsst(0, _)));
        let mut encoded = Vec::new();
        if let (true, Some(table)) = (has_shared, &self.table) {
            let table = table.clone();
            encoded.push(self.codes(launcher, column, &self.lengths, table)?);
        }
        for (table, lengths) in &own {
            encoded.push(self.codes(launcher, column, lengths, table.clone())?);
        }
        if !has_shared {
            for choice in &mut choices {
                if let Choice::Fsst(job, _) = choice {
                    *job -= 1;
                }
            }
        }
        Ok(Started { window: self, choices, encoded, bounds, valid })
    }

    /// The table for a chunk, what it makes of the chunk's sample, and, if the table is
    /// its own, its lengths; as `symbols_for` of the CPU.
    fn table_for(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunk: usize,
        bounds: &abi::StringBounds,
        shared: Option<(Table, Sampled)>,
    ) -> Result<Option<(Table, Sampled, Option<Lengths>)>> {
        let (rows, bytes) = (self.rows(chunk), self.bytes(chunk));
        let is_constant = self.options.allows(Encoding::Constant) && is_single(bounds);
        if is_constant || !self.options.allows(Encoding::Fsst) || !fsst::pays(bytes, rows) {
            return Ok(None);
        }
        if let Some((table, sampled)) = &shared
            && !table.symbols.slips(sampled.codes, sampled.bytes)
        {
            return Ok(Some((table.clone(), *sampled, None)));
        }
        let start = self.lengths.rows.start + chunk * self.options.chunk_rows;
        let raw = (self.borders[chunk + 1] - self.borders[chunk]) as usize;
        let chunk_rows = self.options.chunk_rows;
        let mut lengths = Lengths::start(launcher, column, start..start + rows, chunk_rows, raw)?;
        // What is tried is let go of at once: there may be many such chunks.
        let scope = std::mem::replace(&mut launcher.scope, TRIAL);
        let own = self.own_table(launcher, column, &lengths);
        launcher.scope = scope;
        launcher.release(TRIAL);
        let Some((symbols, own)) = own? else {
            return Ok(shared.map(|(table, sampled)| (table, sampled, None)));
        };
        match shared {
            Some((table, sampled)) if !fsst::makes_up(own.codes, sampled.codes) => {
                Ok(Some((table, sampled, None)))
            }
            _ => {
                lengths.read(launcher)?;
                Ok(Some((Table::upload(launcher, symbols)?, own, Some(lengths))))
            }
        }
    }

    /// A table trained on rows, and what it makes of a sample of them.
    fn own_table(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
    ) -> Result<Option<(Arc<Symbols>, Sampled)>> {
        let picked = pick(launcher, column, lengths, CAPACITY)?;
        let sample = read_sample(launcher, column, lengths, picked)?;
        let Some(symbols) = train(&sample) else { return Ok(None) };
        let table = Table::upload(launcher, symbols.clone())?;
        let samples = estimate(launcher, column, lengths, &table, self.chunk_vectors())?;
        Ok(sampled(&launcher.read(&samples)?[0]).map(|sampled| (symbols, sampled)))
    }

    /// Chooses a chunk's encoding, as [`plan::plan`] does.
    fn choose(
        &self,
        chunk: usize,
        bounds: &abi::StringBounds,
        fsst: Option<&(Table, Sampled, Option<Lengths>)>,
    ) -> Encoding {
        let (rows, bytes) = (self.rows(chunk), self.bytes(chunk));
        let vectors = rows.div_ceil(VECTOR);
        let lengths = self.value_words.plan(chunk, &self.options).bytes;
        let length = bounds.length[0] as usize;
        let estimates = [
            (Encoding::Constant, is_single(bounds).then_some(length)),
            (Encoding::Plain, Some(bytes + vectors * 8 + lengths)),
            (
                Encoding::Fsst,
                fsst.map(|(table, sampled, _)| {
                    fsst::estimated_bytes(table.symbols.table(), *sampled, rows, bytes, lengths)
                }),
            ),
        ];
        let allowed = estimates.into_iter().filter(|(encoding, _)| self.options.allows(*encoding));
        plan::choose(allowed.filter_map(|(encoding, bytes)| Some((encoding, Estimate::of(bytes?)))))
            .encoding
    }

    /// Starts making the codes of some rows.
    fn codes(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        table: Table,
    ) -> Result<Encoded> {
        let bytes = lengths.raw_bytes;
        let runs = bytes / RUN_BYTES + lengths.vector_count();
        let chunks = lengths.rows.len().div_ceil(self.options.chunk_rows);
        let mut arrays = Arrays::default();
        let runs_at = arrays.add(runs * 16);
        let places = arrays.add(runs * 16);
        let codes = arrays.add(2 * bytes + 16 * (runs + 1));
        let marks = arrays.add(2 * (bytes / 32 + runs / 4 + 2));
        let chunks_at = arrays.add(chunks * size_of::<abi::FsstPlace>());
        let scratch = launcher.allocate(arrays.len)?;
        let at = |at: usize| scratch.address() + at as u64;
        let window = abi::FsstWindow {
            table: table.address,
            runs: at(runs_at),
            places: at(places),
            codes: at(codes),
            marks: at(marks),
            chunks: at(chunks_at),
            ..lengths.window
        };
        let kernel = column.by_width(kernels::FSST_ENCODE);
        launcher.launch(kernel, runs.div_ceil(kernel.block), &window)?;
        launcher.launch(kernels::FSST_CHUNKS, chunks, &window)?;
        let source = Source {
            values: window.code_lengths,
            rows: lengths.rows.len() as u64,
            stride: 1,
            chunk_vectors: self.chunk_vectors() as u32,
            ..Default::default()
        };
        let code_words = Words::measure(launcher, Physical::U32, source, false)?;
        Ok(Encoded {
            lengths_window: window,
            table,
            code_words,
            chunks: launcher.result(&scratch, chunks_at, chunks)?,
            totals: Vec::new(),
            runs,
        })
    }
}

/// Words 0 are the value lengths, those behind them the code lengths of each job.
const VALUE_LENGTHS: usize = 0;

impl Started {
    /// Waits for sizes and starts writing bodies.
    fn write(
        mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
    ) -> Result<(Written, Vec<Planned>)> {
        for encoded in &mut self.encoded {
            encoded.totals = launcher.read(&encoded.chunks)?;
            encoded.code_words.read(launcher)?;
        }
        let planned: Vec<Planned> =
            (0..self.window.chunks()).map(|chunk| self.planned(chunk)).collect();
        let written = write::write(launcher, &planned, |launcher, origin, encoding, jobs| {
            let targets = write::targets(jobs);
            match (origin, &self.window.validity) {
                (Origin::Words(VALUE_LENGTHS), _) => {
                    self.window.value_words.write(launcher, encoding, &targets)
                }
                (Origin::Words(number), _) => {
                    self.encoded[number - 1].code_words.write(launcher, encoding, &targets)
                }
                (Origin::Validity, Some(validity)) => {
                    let chunk_rows = self.window.options.chunk_rows;
                    write::copy_bits(launcher, validity, chunk_rows, &targets, false)
                }
                _ => self.write_strings(launcher, column, encoding, jobs),
            }
        })?;
        Ok((written, planned))
    }

    /// A chunk's node, bounds and nulls.
    fn planned(&self, chunk: usize) -> Planned {
        let window = &self.window;
        let (rows, bytes, options) = (window.rows(chunk), window.bytes(chunk), &window.options);
        let vectors = rows.div_ceil(VECTOR);
        let part = |len: usize| Part { len, origin: Origin::Strings, vector: 0 };
        let values = || {
            let plan = window.value_words.plan(chunk, options);
            window.value_words.node(chunk, &plan, VALUE_LENGTHS)
        };
        let bounds = &self.bounds[chunk];
        let starts = |wide: bool| part(vectors * if wide { 16 } else { 8 });
        let is_wide = |bytes: usize| u32::try_from(bytes).is_err();
        let mut root = match self.choices[chunk] {
            Choice::Constant => {
                let mut node = EncodedNode::new(Encoding::Constant, Physical::Bytes, rows);
                node.buffers = vec![part(bounds.length[0] as usize)];
                node
            }
            Choice::Plain => {
                let mut node = EncodedNode::new(Encoding::Plain, Physical::Bytes, rows);
                node.buffers = vec![part(bytes), starts(is_wide(bytes))];
                node.children = vec![values()];
                node
            }
            Choice::Fsst(job, number) => {
                let Encoded { table, code_words, totals, .. } = &self.encoded[job];
                let codes = totals[number].codes as usize;
                let plan = code_words.plan(number, options);
                let mut node = EncodedNode::new(Encoding::Fsst, Physical::Bytes, rows);
                node.parameters[0] = bytes as u64;
                node.buffers = vec![
                    part(table.len),
                    part(codes),
                    starts(is_wide(bytes) || is_wide(codes)),
                    part(fsst::tiles_len(codes)),
                ];
                node.children = vec![code_words.node(number, &plan, job + 1), values()];
                node
            }
        };
        let valid = self.valid[chunk];
        if valid < rows {
            let vector = (chunk * window.chunk_vectors()) as u64;
            let part = Part { len: rows.div_ceil(8), origin: Origin::Validity, vector };
            root.validity = Some(Box::new(super::bits_node(rows, rows, valid, part, options)));
        }
        let head = |which: usize| {
            let len = (bounds.length[which] as usize).min(abi::STRING_HEAD);
            bounds.heads[which][..len].to_vec()
        };
        let bounds = (bounds.has != 0).then(|| [head(0), head(1)]);
        Planned { root, null_count: rows - valid, bounds: Bounds::Strings(bounds) }
    }

    /// Starts writing nodes of one encoding, but for their children.
    fn write_strings(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        let window = &self.window;
        let mut spans = Vec::new();
        let mut gathered = Vec::new();
        let mut outputs: Vec<Vec<abi::FsstOutput>> = (self.encoded.iter())
            .map(|encoded| vec![abi::FsstOutput::default(); encoded.totals.len()])
            .collect();
        for job in jobs {
            let chunk = job.chunk;
            let border = window.borders[chunk];
            match self.choices[chunk] {
                Choice::Constant => spans.push(abi::ByteSpan {
                    from: column.values + self.bounds[chunk].from,
                    to: job.buffers[0],
                    bytes: u64::from(self.bounds[chunk].length[0]),
                }),
                Choice::Plain => {
                    let bytes = window.bytes(chunk) as u64;
                    let is_whole = window.borders[chunk + 1] - border == bytes;
                    let mut starts: Vec<u64> = Vec::new();
                    let mut start = 0;
                    for (index, vector) in window.vectors(chunk).iter().enumerate() {
                        starts.extend([start, start]);
                        if !is_whole {
                            let row = chunk * window.options.chunk_rows + index * VECTOR;
                            let to = job.buffers[0] + start;
                            gathered.push(abi::GatherVector { to, row: row as u32, zero: 0 });
                        }
                        start += vector.bytes;
                    }
                    if is_whole {
                        let from = column.values + border;
                        spans.push(abi::ByteSpan { from, to: job.buffers[0], bytes });
                    }
                    let (from, len) = match u32::try_from(bytes) {
                        Ok(_) => {
                            let narrow: Vec<u32> =
                                starts.iter().map(|start| *start as u32).collect();
                            (launcher.upload(&narrow)?, narrow.len() * 4)
                        }
                        Err(_) => (launcher.upload(&starts)?, starts.len() * 8),
                    };
                    spans.push(abi::ByteSpan { from, to: job.buffers[1], bytes: len as u64 });
                }
                Choice::Fsst(number, index) => {
                    let table = &self.encoded[number].table;
                    let (from, bytes) = (table.address, table.len as u64);
                    spans.push(abi::ByteSpan { from, to: job.buffers[0], bytes });
                    outputs[number][index] = abi::FsstOutput {
                        codes: job.buffers[1],
                        starts: job.buffers[2],
                        tiles: job.buffers[3],
                    };
                }
            }
        }
        if encoding == Encoding::Fsst {
            for (encoded, outputs) in self.encoded.iter().zip(&outputs) {
                encoded.place(launcher, outputs)?;
            }
        }
        let longest = spans.iter().map(|span| span.bytes).max().unwrap_or(0) as usize;
        if longest > 0 {
            let blocks = longest.div_ceil(kernels::COPY_SPANS.block);
            let arguments = abi::SpansArguments {
                spans: launcher.upload(&spans)?,
                blocks_per_span: blocks as u32,
                zero: 0,
            };
            launcher.launch(kernels::COPY_SPANS, spans.len() * blocks, &arguments)?;
        }
        if !gathered.is_empty() {
            let kernel = column.by_width(kernels::GATHER_STRINGS);
            let arguments = abi::GatherArguments {
                window: window.lengths.window,
                vectors: launcher.upload(&gathered)?,
                count: gathered.len() as u32,
                zero: 0,
            };
            launcher.launch(kernel, gathered.len().div_ceil(kernel.block), &arguments)?;
        }
        Ok(())
    }
}

impl Encoded {
    /// Starts copying codes to their chunks, with starts and tiles.
    fn place(&self, launcher: &mut Launcher<'_>, outputs: &[abi::FsstOutput]) -> Result<()> {
        let most = self.totals.iter().map(|totals| totals.codes).max().unwrap_or(0) as usize;
        let tiles = most.div_ceil(fsst::TILE);
        let blocks = tiles.div_ceil(kernels::FSST_INDEX.block).max(1);
        let window = abi::FsstWindow {
            outputs: launcher.upload(outputs)?,
            blocks_per_chunk: blocks as u32,
            ..self.lengths_window
        };
        let place = kernels::FSST_PLACE;
        launcher.launch(place, self.runs.div_ceil(place.block), &window)?;
        launcher.launch(kernels::FSST_INDEX, outputs.len() * blocks, &window)
    }
}

/// Whether a chunk is one value for all rows, of a length that a constant may have.
fn is_single(bounds: &abi::StringBounds) -> bool {
    let length = bounds.length[0] as usize;
    bounds.has == 0 || (bounds.is_single != 0 && length <= constant::MAX_VALUE_BYTES)
}

/// Offsets where chunks begin, and at the end of the last.
fn borders(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    chunk_rows: usize,
) -> Result<Vec<u64>> {
    let chunks = column.rows.div_ceil(chunk_rows);
    let scratch = launcher.allocate((chunks + 1) * 8)?;
    let arguments = abi::StringBoundsArguments {
        window: column.window(&(0..column.rows), chunk_rows),
        borders: scratch.address(),
        ..Default::default()
    };
    let kernel = column.by_width(kernels::STRING_OFFSETS);
    launcher.launch(kernel, (chunks + 1).div_ceil(kernel.block), &arguments)?;
    let pending = launcher.result(&scratch, 0, chunks + 1)?;
    launcher.read(&pending)
}

/// About the bytes of scratch that the lengths of rows need ([`Lengths`]).
fn lengths_bytes(rows: usize, raw_bytes: usize) -> usize {
    let vectors = rows.div_ceil(VECTOR);
    8 * rows + 16 * (vectors + 1) + 16 * (raw_bytes / RUN_BYTES + vectors)
}

/// About the bytes of scratch that the codes of rows need ([`Window::codes`]).
fn codes_bytes(rows: usize, raw_bytes: usize) -> usize {
    let runs = raw_bytes / RUN_BYTES + rows.div_ceil(VECTOR);
    48 * runs + 2 * raw_bytes + raw_bytes / 16 + runs / 2
}

/// Rows of chunks, with the borders of their bytes.
fn part(borders: &[u64], chunks: Range<usize>) -> Vec<u64> {
    borders[chunks.start..=chunks.end].to_vec()
}

/// Compresses a column of strings; none if it has 2^32 rows, or a chunk so many bytes
/// that a value may be too long for a length of 32 bits.
pub(super) fn encode(
    context: &Context,
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    options: &Options,
    window_bytes: usize,
) -> Result<Option<Parts>> {
    if column.rows == 0 {
        return Ok(Some(Vec::new()));
    }
    if u32::try_from(column.rows).is_err() {
        return Ok(None);
    }
    let (chunk_rows, group_chunks) = (options.chunk_rows, options.group_chunks());
    let borders = borders(launcher, column, chunk_rows)?;
    if borders.windows(2).any(|pair| i32::try_from(pair[1] - pair[0]).is_err()) {
        return Ok(None);
    }
    let chunks = borders.len() - 1;
    let rows = |chunks: &Range<usize>| {
        chunks.start * chunk_rows..(chunks.end * chunk_rows).min(column.rows)
    };
    let raw = |chunks: &Range<usize>| (borders[chunks.end] - borders[chunks.start]) as usize;
    let groups: Vec<Range<usize>> = (0..chunks)
        .step_by(group_chunks)
        .map(|start| start..(start + group_chunks).min(chunks))
        .collect();

    let lengths_of = |chunks: &Range<usize>| lengths_bytes(rows(chunks).len(), raw(chunks));
    let window_of =
        |chunks: Range<usize>| lengths_of(&chunks) + codes_bytes(rows(&chunks).len(), raw(&chunks));
    let windows = groups.iter().flat_map(|group| windows_of(&borders, group, window_bytes));
    let largest = windows.map(window_of).max().unwrap_or(0);
    context.require(groups.iter().map(lengths_of).sum::<usize>() + 2 * largest)?;

    // All samples are under way before the first is waited for, and all tables before
    // the first is used.
    let mut picked = Vec::new();
    for group in &groups {
        let lengths = Lengths::start(launcher, column, rows(group), chunk_rows, raw(group))?;
        let sample = match options.allows(Encoding::Fsst) {
            true => Some(pick(launcher, column, &lengths, CAPACITY)?),
            false => None,
        };
        picked.push((lengths, sample));
    }
    let (sender, receiver) = mpsc::channel();
    rayon::in_place_scope(|tasks| {
        let mut lengths = Vec::new();
        for (number, (mut group, sample)) in picked.into_iter().enumerate() {
            group.read(launcher)?;
            let pays = fsst::pays(group.bytes(), group.rows.len());
            let sample = match sample.filter(|_| pays) {
                Some(sample) => Some(read_sample(launcher, column, &group, sample)?),
                None => None,
            };
            lengths.push(group);
            let sender = sender.clone();
            // Nobody listens any more where an error has ended this.
            tasks.spawn(move |_| drop(sender.send((number, sample.as_ref().and_then(train)))));
        }
        drop(sender);
        let mut out = Vec::new();
        // Scopes of windows, each of which is let go of when its bodies are being written.
        let mut scope = 0;
        let mut before: Option<(usize, Started)> = None;
        let mut tables: Vec<Option<Arc<Symbols>>> = vec![None; groups.len()];
        let mut is_trained = vec![false; groups.len()];
        for (number, (group, lengths)) in groups.iter().zip(lengths).enumerate() {
            while !is_trained[number] {
                match receiver.try_recv() {
                    Ok((number, symbols)) => {
                        is_trained[number] = true;
                        tables[number] = symbols;
                    }
                    // A task that has panicked, which ends this when all are done.
                    Err(mpsc::TryRecvError::Disconnected) => is_trained[number] = true,
                    // Trains itself if all threads are busy with other things.
                    Err(mpsc::TryRecvError::Empty) => match rayon::yield_local() {
                        Some(rayon::Yield::Executed) => {}
                        _ => std::thread::yield_now(),
                    },
                }
            }
            launcher.mark("train")?;
            // Serves all windows of the group.
            launcher.scope = 0;
            let table = match tables[number].take() {
                Some(symbols) => Some(Table::upload(launcher, symbols)?),
                None => None,
            };
            let windows = windows_of(&borders, group, window_bytes);
            let mut whole = (windows.len() == 1).then_some(lengths);
            for chunks in windows {
                scope += 1;
                launcher.scope = scope;
                let lengths = match whole.take() {
                    Some(lengths) => lengths,
                    None => {
                        Lengths::start(launcher, column, rows(&chunks), chunk_rows, raw(&chunks))?
                    }
                };
                let table = table.clone();
                let borders = part(&borders, chunks);
                let window = Window::start(launcher, column, lengths, table, borders, options)?;
                let started = window.encode(launcher, column)?;
                if let Some((scope, before)) = before.replace((scope, started)) {
                    launcher.scope = scope;
                    out.push(before.write(launcher, column)?);
                    launcher.release(scope);
                }
            }
        }
        if let Some((scope, before)) = before {
            launcher.scope = scope;
            out.push(before.write(launcher, column)?);
            launcher.release(scope);
        }
        launcher.scope = 0;
        Ok(Some(out))
    })
}

/// The chunks of a group in windows.
fn windows_of(borders: &[u64], group: &Range<usize>, bytes: usize) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    for chunk in group.clone() {
        match windows.last_mut() {
            Some(window) if (borders[chunk + 1] - borders[window.start]) as usize <= bytes => {
                window.end = chunk + 1;
            }
            _ => windows.push(chunk..chunk + 1),
        }
    }
    windows
}
