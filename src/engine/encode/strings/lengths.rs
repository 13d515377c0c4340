//! Lengths of rows, samples of them, and symbol tables: what is known before codes are made.

use std::ops::Range;
use std::sync::Arc;

use super::StringColumn;
use crate::encoding::fsst::{self, Sampled, Symbols};
use crate::engine::encode::launch::{Launcher, Pending};
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Bytes of values that a thread encodes.
pub(super) const RUN_BYTES: usize = 512;

/// Bytes and segments of a sample that are expected at most; else it is drawn again.
pub(super) const CAPACITY: usize = 4 * fsst::SAMPLE_BYTES;

/// Codes and places for the end of a table, which is read in words of 8 bytes.
pub(super) const TABLE_BYTES: usize = 4096;

/// Places of arrays in one allocation, each at a multiple of 256 bytes.
#[derive(Default)]
pub(super) struct Arrays {
    pub(super) len: usize,
}

impl Arrays {
    pub(super) fn add(&mut self, bytes: usize) -> usize {
        let at = self.len;
        self.len = (at + bytes).next_multiple_of(256);
        at
    }
}

/// Rows whose lengths are known on the device.
pub(super) struct Lengths {
    pub(super) window: abi::FsstWindow,
    /// Bytes from the first offset to the last, those under nulls included.
    pub(super) raw_bytes: usize,
    pub(super) rows: Range<usize>,
    /// What is read back, for each vector.
    pub(super) vectors: Vec<abi::FsstVector>,
    pub(super) pending: Option<Pending<abi::FsstVector>>,
}

impl Lengths {
    pub(super) fn start(
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

    pub(super) fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        if let Some(pending) = self.pending.take() {
            self.vectors = launcher.read(&pending)?;
        }
        Ok(())
    }

    /// Bytes of all valid values.
    pub(super) fn bytes(&self) -> usize {
        self.vectors.iter().map(|vector| vector.bytes as usize).sum()
    }

    pub(super) fn vector_count(&self) -> usize {
        self.rows.len().div_ceil(VECTOR)
    }

    /// Numbers of segments, by groups of so many vectors; then `work` with the sampling.
    pub(super) fn sampling(
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

/// About the bytes of scratch that the lengths of rows need ([`Lengths`]).
pub(super) fn lengths_bytes(rows: usize, raw_bytes: usize) -> usize {
    let vectors = rows.div_ceil(VECTOR);
    8 * rows + 16 * (vectors + 1) + 16 * (raw_bytes / RUN_BYTES + vectors)
}

/// Segments of groups of vectors, numbered.
pub(super) struct Sampling {
    pub(super) arguments: abi::FsstSampling,
    pub(super) groups: usize,
    pub(super) scratch: Arc<DeviceBuffer>,
    pub(super) samples_at: usize,
}

/// A sample to train on, under way.
pub(super) struct Picked {
    pub(super) sample: Pending<abi::FsstSample>,
    pub(super) segments: Pending<abi::FsstSegment>,
    pub(super) bytes: Pending<u8>,
}

/// Starts picking segments to train on, at most so many bytes and segments.
pub(super) fn pick(
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
pub(super) type Sample = (Vec<u8>, Vec<usize>);

/// Waits for a sample.
pub(super) fn read_sample(
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
pub(super) fn train((bytes, lengths): &Sample) -> Option<Arc<Symbols>> {
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
pub(super) struct Table {
    pub(super) symbols: Arc<Symbols>,
    pub(super) address: u64,
    pub(super) len: usize,
}

impl Table {
    pub(super) fn upload(launcher: &mut Launcher<'_>, symbols: Arc<Symbols>) -> Result<Self> {
        let mut bytes = symbols.table().to_bytes();
        let len = bytes.len();
        bytes.resize(TABLE_BYTES.max(len), 0);
        Ok(Self { symbols, address: launcher.upload(&bytes)?, len })
    }
}

/// Starts encoding a sample of each chunk; nothing is written.
pub(super) fn estimate(
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
        launcher.launch(kernel, lengths.vector_count().div_ceil(kernel.block), &arguments)?;
    }
    launcher.result(&sampling.scratch, sampling.samples_at, sampling.groups)
}

pub(super) fn sampled(sample: &abi::FsstSample) -> Option<Sampled> {
    (sample.picked > 0).then_some(Sampled {
        bytes: sample.picked_bytes as usize,
        codes: sample.picked_codes as usize,
        least: sample.least as usize,
        most: sample.most as usize,
    })
}
