//! Lengths of rows, and what stands before each vector: what samples and codes begin with.

use super::StringColumn;
use crate::engine::encode::launch::{Launcher, Pending};
use crate::error::Result;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;
use crate::options::Options;

/// Bytes of values that a thread encodes.
pub(super) const RUN_BYTES: usize = 512;

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
    pub(super) window: abi::FsstWindow,
    /// Vectors that share a table, and where the sums before vectors are.
    pub(super) group_vectors: usize,
    pub(super) before: u64,
    pub(super) pending: Pending<abi::FsstVector>,
}

impl Lengths {
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        options: &Options,
    ) -> Result<Self> {
        let vectors = column.rows.div_ceil(VECTOR);
        let group_vectors = options.group_chunks() * (options.chunk_rows / VECTOR);
        let groups = vectors.div_ceil(group_vectors);
        let mut arrays = Arrays::default();
        let value_lengths = arrays.add(vectors * VECTOR * 4);
        let code_lengths = arrays.add(vectors * VECTOR * 4);
        let vectors_at = arrays.add((vectors + 1) * size_of::<abi::FsstVector>());
        let row_pieces = arrays.add(vectors * 32 * 4);
        let before = arrays.add((vectors + groups) * size_of::<abi::FsstBefore>());
        let run_starts = arrays.add(most_runs(column.value_bytes, vectors) * 16);
        let scratch = launcher.allocate(arrays.len)?;
        let at = |at: usize| scratch.address() + at as u64;
        let valid = column.valid.unwrap_or(super::Bits { address: 0, bit: 0 });
        let window = abi::FsstWindow {
            values: column.values,
            offsets: column.offsets,
            valid: valid.address,
            first_bit: u64::from(valid.bit),
            value_lengths: at(value_lengths),
            code_lengths: at(code_lengths),
            vectors: at(vectors_at),
            row_pieces: at(row_pieces),
            run_starts: at(run_starts),
            rows: column.rows as u32,
            chunk_rows: options.chunk_rows as u32,
            run_bytes: RUN_BYTES as u32,
            end_vector: vectors as u32,
            ..Default::default()
        };
        launcher.launch(column.by_width(kernels::FSST_LENGTHS), vectors, &window)?;
        let pending = launcher.result(&scratch, vectors_at, vectors)?;
        let arguments = abi::FsstSampling {
            window,
            before: at(before),
            group_vectors: group_vectors as u32,
            ..Default::default()
        };
        launcher.launch(kernels::FSST_NUMBERS, groups, &arguments)?;
        Ok(Self { window, group_vectors, before: at(before), pending })
    }
}

/// Runs of so many bytes in so many vectors, at most: they are counted by the multiples of
/// [`RUN_BYTES`] that the column's bytes pass, and the first vector's may begin anywhere.
pub(super) fn most_runs(bytes: usize, vectors: usize) -> usize {
    bytes / RUN_BYTES + 1 + vectors
}

/// About the bytes of scratch that [`Lengths`] needs.
pub(super) fn scratch_bytes(rows: usize, value_bytes: usize) -> usize {
    let vectors = rows.div_ceil(VECTOR);
    vectors * (8 * VECTOR + 128 + 48) + 16 * most_runs(value_bytes, vectors)
}
