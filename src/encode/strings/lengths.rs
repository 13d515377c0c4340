//! Lengths of rows, and prefix sums before each vector: what samples and codes begin with.

use std::ops::Range;
use std::sync::Arc;

use super::StringColumn;
use crate::encode::launch::{Launcher, Pending};
use crate::error::Result;
use crate::gpu::abi;
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

/// Bytes of values that a thread encodes: fewer share the work more evenly, but a run of few
/// values takes as long to begin as its codes. GB/s on an NVIDIA H200 at 256 and 512: wiki
/// 146, 142; urls2 171, 161; c_name 154, 152; firstname, of 6 bytes a value, 109, 121.
fn run_bytes(rows: usize, value_bytes: usize) -> usize {
    if value_bytes < 12 * rows { 2 * LEAST_RUN_BYTES } else { LEAST_RUN_BYTES }
}
pub(super) const LEAST_RUN_BYTES: usize = 256;

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

/// A column whose lengths are known on the device.
pub(super) struct Lengths {
    pub(super) view: abi::StringsView,
    scratch: Arc<DeviceBuffer>,
    /// Where code lengths are in it.
    code_lengths: usize,
    /// Groups of chunks that share a table, as kernels see them, and where the sums before
    /// their vectors are.
    pub(super) groups: Vec<Range<usize>>,
    pub(super) ranges: Vec<abi::FsstRange>,
    pub(super) before: DevicePtr<abi::FsstBefore>,
    pub(super) pending: Pending<abi::FsstVector>,
}

impl Lengths {
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunk_rows: usize,
        groups: Vec<Range<usize>>,
    ) -> Result<Self> {
        let vectors = column.rows.div_ceil(VECTOR);
        let run_bytes = run_bytes(column.rows, column.value_bytes);
        let mut arrays = Arrays::default();
        let value_lengths = arrays.add(vectors * VECTOR * 4);
        let code_lengths = arrays.add(vectors * VECTOR * 4);
        let vectors_at = arrays.add((vectors + 1) * size_of::<abi::FsstVector>());
        let row_pieces = arrays.add(vectors * 32 * 4);
        let before = arrays.add((vectors + groups.len()) * size_of::<abi::FsstBefore>());
        let run_starts = arrays.add(most_runs(column.value_bytes, vectors, run_bytes) * 16);
        let scratch = launcher.allocate(arrays.len)?;
        let view = abi::StringsView {
            value_lengths: scratch.pointer_at(value_lengths),
            code_lengths: scratch.pointer_at(code_lengths),
            vectors: scratch.pointer_at(vectors_at),
            row_pieces: scratch.pointer_at(row_pieces),
            run_starts: scratch.pointer_at(run_starts),
            run_bytes: run_bytes as u32,
            end_vector: vectors as u32,
            ..column.view(chunk_rows)
        };
        launcher.launch(column.by_width(kernels::FSST_LENGTHS), vectors, &view)?;
        let pending = launcher.result(&scratch, vectors_at, vectors)?;
        let ranges: Vec<abi::FsstRange> = (groups.iter().enumerate())
            .map(|(group, chunks)| column.range(chunks, chunk_rows / VECTOR, group, group))
            .collect();
        let arguments = abi::FsstSampling {
            view,
            before: scratch.pointer_at(before),
            ranges: launcher.upload(&ranges)?,
            ..Default::default()
        };
        launcher.launch(kernels::FSST_NUMBERS, groups.len(), &arguments)?;
        Ok(Self {
            view,
            scratch: scratch.clone(),
            code_lengths,
            groups,
            ranges,
            before: scratch.pointer_at(before),
            pending,
        })
    }

    /// Makes the code lengths of vectors what they were before their codes: sums, of values of
    /// several segments, begin at 0.
    pub(super) fn clear_codes(&self, launcher: &Launcher<'_>, vectors: Range<usize>) -> Result<()> {
        let vector = VECTOR * 4;
        let at = self.code_lengths + vectors.start * vector;
        launcher.stream.fill(&self.scratch, at, vectors.len() * vector, 0)
    }

    /// Runs of so many bytes in so many vectors, at most.
    pub(super) fn most_runs(&self, bytes: usize, vectors: usize) -> usize {
        most_runs(bytes, vectors, self.view.run_bytes as usize)
    }
}

impl StringColumn {
    /// Chunks of a group, for a table.
    pub(super) fn range(
        &self,
        chunks: &Range<usize>,
        chunk_vectors: usize,
        group: usize,
        table: usize,
    ) -> abi::FsstRange {
        let row = |chunk: usize| (chunk * chunk_vectors * VECTOR).min(self.rows);
        let (first, end) = (row(chunks.start), row(chunks.end));
        let rows = match &self.leaves {
            Some(leaves) => leaves.rows[chunks.clone()].iter().sum(),
            None => (end - first) as u32,
        };
        abi::FsstRange {
            first_vector: (first / VECTOR) as u32,
            end_vector: end.div_ceil(VECTOR) as u32,
            group: group as u32,
            table: table as u32,
            rows,
        }
    }
}

/// Runs are counted by the multiples of `run_bytes` that the column's bytes pass, and the
/// first vector's may begin anywhere.
fn most_runs(bytes: usize, vectors: usize, run_bytes: usize) -> usize {
    bytes / run_bytes + 1 + vectors
}

/// About the bytes of scratch that [`Lengths`] needs, and what is known of them as words.
pub(super) fn scratch_bytes(rows: usize, value_bytes: usize) -> usize {
    let vectors = rows.div_ceil(VECTOR);
    let runs = most_runs(value_bytes, vectors, run_bytes(rows, value_bytes));
    vectors * (8 * VECTOR + 128 + 48 + 72) + 16 * runs
}
