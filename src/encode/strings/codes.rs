//! Codes of a stretch of chunks that share a table, in scratch.

use std::ops::Range;

use super::lengths::{Arrays, LEAST_RUN_BYTES, Lengths};
use super::plan::lengths_source;
use super::{StringColumn, Window, encode_blocks};
use crate::encode::asked::Asked;
use crate::encode::launch::{Launcher, Pending, StreamRole};
use crate::encode::words::Words;
use crate::encoding::{Physical, fsst};
use crate::error::Result;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;
use crate::options::Options;

/// Chunks whose codes are made with one table.
pub(super) struct Codes {
    pub(super) window: abi::FsstWindow,
    pub(super) code_words: Words,
    chunks: Pending<abi::FsstPlace>,
    /// What is read back, for each chunk.
    pub(super) totals: Vec<abi::FsstPlace>,
}

impl Codes {
    /// Starts making the codes of a window with a table: on the stream `Long`, and what follows
    /// on the main one.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        window: &Window,
        borders: &[u64],
        options: &Options,
    ) -> Result<Self> {
        let chunks = &window.chunks;
        let bytes = window.bytes(borders);
        let chunk_vectors = lengths.window.chunk_rows as usize / VECTOR;
        let first_vector = chunks.start * chunk_vectors;
        let end_vector = (chunks.end * chunk_vectors).min(column.rows.div_ceil(VECTOR));
        let first_row = first_vector * VECTOR;
        let rows = (end_vector * VECTOR).min(column.rows) - first_row;
        let runs = lengths.most_runs(bytes, end_vector - first_vector);
        let mut arrays = Arrays::default();
        let runs_at = arrays.add(runs * 16);
        let places = arrays.add(runs * 16);
        let code_bytes = 2 * bytes + 16 * (runs + 2);
        let codes = arrays.add(code_bytes);
        let tile_runs = arrays.add(4 * (code_bytes / fsst::TILE + chunks.len() + 1));
        let marks = arrays.add(2 * (bytes / 32 + runs / 4 + 3));
        let chunks_at = arrays.add(chunks.len() * size_of::<abi::FsstPlace>());
        let taken = arrays.add(4);
        launcher.switch(StreamRole::Long);
        let scratch = launcher.allocate(arrays.len)?;
        let at = |at: usize| scratch.address() + at as u64;
        let window = abi::FsstWindow {
            table: window.table.unwrap_or_default(),
            runs: at(runs_at),
            places: at(places),
            codes: at(codes),
            marks: at(marks),
            tile_runs: at(tile_runs),
            chunks: at(chunks_at),
            taken: at(taken),
            first_vector: first_vector as u32,
            end_vector: end_vector as u32,
            ..lengths.window
        };
        launcher.stream.fill(&scratch, taken, 4, 0)?;
        let kernel = column.by_width(kernels::FSST_ENCODE);
        launcher.launch(kernel, encode_blocks(column, runs.div_ceil(kernel.block)), &window)?;
        launcher.switch(StreamRole::Main);
        launcher.wait_for(StreamRole::Long)?;
        launcher.launch(kernels::FSST_CHUNKS, chunks.len(), &window)?;
        let source =
            lengths_source(window.code_lengths + first_row as u64 * 4, rows, chunk_vectors);
        let asked = Asked::of_lengths(options);
        Ok(Self {
            window,
            code_words: Words::measure(launcher, Physical::U32, source, asked)?,
            chunks: launcher.result(&scratch, chunks_at, chunks.len())?,
            totals: Vec::new(),
        })
    }

    /// The vectors whose codes they are.
    pub(super) fn vectors(&self) -> Range<usize> {
        self.window.first_vector as usize..self.window.end_vector as usize
    }

    /// Waits for sizes.
    pub(super) fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        self.totals = launcher.read(&self.chunks)?;
        self.code_words.read(launcher)
    }
}

/// About the bytes of scratch that the codes of rows need ([`Codes::start`]): for each byte
/// of values 2 for its codes and a quarter for what is known of runs, and 121 for each vector.
pub(super) fn scratch_bytes(rows: usize, bytes: usize) -> usize {
    let runs = bytes / LEAST_RUN_BYTES + rows.div_ceil(VECTOR);
    2 * bytes + bytes / 16 + bytes / 64 + 49 * runs + 72 * rows.div_ceil(VECTOR)
}
