//! Codes of a stretch of chunks that share a table, in scratch.

use std::ops::Range;
use std::sync::Arc;

use super::chunks::lengths_source;
use super::lengths::{Arrays, LEAST_RUN_BYTES, Lengths};
use super::tables::Table;
use super::{Span, StringColumn, encode_blocks};
use crate::encode::launch::{Launcher, Pending, StreamRole};
use crate::encode::measurements::Measurements;
use crate::encode::words::Words;
use crate::encode::write::{self, Job};
use crate::encoding::{Physical, fsst};
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;
use crate::options::Options;

/// The codes of consecutive chunks, in scratch.
pub(super) struct CodeRuns {
    view: abi::StringsView,
    scratch: Arc<DeviceBuffer>,
    /// Where in it the sizes of chunks will be, and how many chunks there are.
    sizes: (usize, usize),
}

impl CodeRuns {
    /// Starts making the codes of a span with its table.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        span: &Span,
        borders: &[u64],
    ) -> Result<Self> {
        let chunks = &span.chunks;
        let bytes = span.bytes(borders);
        let chunk_vectors = lengths.view.chunk_rows as usize / VECTOR;
        let first_vector = chunks.start * chunk_vectors;
        let end_vector = (chunks.end * chunk_vectors).min(column.rows.div_ceil(VECTOR));
        let runs = lengths.most_runs(bytes, end_vector - first_vector);
        let mut arrays = Arrays::default();
        let runs_at = arrays.add(runs * 16);
        let places = arrays.add(runs * 16);
        let code_bytes = 2 * bytes + 16 * (runs + 2);
        let codes = arrays.add(code_bytes);
        let tile_runs = arrays.add(4 * (code_bytes / fsst::TILE + chunks.len() + 1));
        let marks = arrays.add(2 * (bytes / 32 + runs / 4 + 3));
        let sizes = arrays.add(chunks.len() * size_of::<abi::FsstPlace>());
        let taken = arrays.add(4);
        let scratch = launcher.allocate(arrays.len)?;
        let view = abi::StringsView {
            table: span.table.unwrap_or_default(),
            runs: scratch.pointer_at(runs_at),
            places: scratch.pointer_at(places),
            codes: scratch.pointer_at(codes),
            marks: scratch.pointer_at(marks),
            tile_runs: scratch.pointer_at(tile_runs),
            chunks: scratch.pointer_at(sizes),
            taken: scratch.pointer_at(taken),
            first_vector: first_vector as u32,
            end_vector: end_vector as u32,
            ..lengths.view
        };
        launcher.stream.fill(&scratch, taken, 4, 0)?;
        let kernel = column.by_width(kernels::FSST_ENCODE);
        launcher.launch(kernel, encode_blocks(column, runs.div_ceil(kernel.block)), &view)?;
        Ok(Self { view, scratch, sizes: (sizes, chunks.len()) })
    }

    /// Starts finding out where runs begin in their chunks, and what chunks come to.
    pub(super) fn sizes(&self, launcher: &mut Launcher<'_>) -> Result<Pending<abi::FsstPlace>> {
        let (at, chunks) = self.sizes;
        launcher.launch(kernels::FSST_CHUNKS, chunks, &self.view)?;
        launcher.result(&self.scratch, at, chunks)
    }

    /// The vectors whose codes they are.
    pub(super) fn vectors(&self) -> Range<usize> {
        self.view.first_vector as usize..self.view.end_vector as usize
    }

    /// Starts copying codes to the nodes of some of the chunks, given their numbers, with the
    /// table, starts and tiles; `sizes` are those of all chunks.
    pub(super) fn write<'j>(
        &self,
        launcher: &mut Launcher<'_>,
        table: &Table,
        sizes: &[abi::FsstPlace],
        jobs: impl Iterator<Item = (usize, &'j Job)>,
    ) -> Result<()> {
        let mut outputs = vec![abi::FsstOutput::default(); sizes.len()];
        let (mut spans, mut most) = (Vec::new(), 0);
        for (chunk, job) in jobs {
            let [to, codes, starts, tiles, ..] = job.buffers;
            let vectors = job.rows.div_ceil(VECTOR) as u32;
            spans.push(abi::ByteSpan { from: table.pointer, to, bytes: table.len as u64 });
            outputs[chunk] = abi::FsstOutput { codes, starts, tiles, vectors, zero: 0 };
            most = most.max(sizes[chunk].codes);
        }
        if spans.is_empty() {
            return Ok(());
        }
        let blocks = (most as usize).div_ceil(fsst::TILE * fsst::TILES_PER_GROUP).max(1);
        let view = abi::StringsView {
            outputs: launcher.upload(&outputs)?,
            blocks_per_chunk: blocks as u32,
            ..self.view
        };
        launcher.launch(kernels::FSST_PLACE, outputs.len() * blocks, &view)?;
        write::copy_spans(launcher, &spans)
    }
}

/// The codes of a span of the column, and their lengths.
pub(super) struct Codes {
    pub(super) runs: CodeRuns,
    pub(super) code_words: Words,
    pending: Pending<abi::FsstPlace>,
    /// What is read back, for each chunk.
    pub(super) sizes: Vec<abi::FsstPlace>,
}

impl Codes {
    /// Starts making the codes of a span with a table: on the stream `Long`, and what follows
    /// on the main one.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        span: &Span,
        borders: &[u64],
        options: &Options,
    ) -> Result<Self> {
        launcher.switch(StreamRole::Long);
        let runs = CodeRuns::start(launcher, column, lengths, span, borders)?;
        launcher.switch(StreamRole::Main);
        launcher.wait_for(StreamRole::Long)?;
        let pending = runs.sizes(launcher)?;
        let first_row = runs.vectors().start * VECTOR;
        let rows = (runs.vectors().end * VECTOR).min(column.rows) - first_row;
        let code_lengths = lengths.view.code_lengths.add(first_row);
        let source = lengths_source(code_lengths, rows, options.chunk_rows / VECTOR);
        let asked = Measurements::of_lengths(options);
        let code_words = Words::measure(launcher, Physical::U32, source, asked)?;
        Ok(Self { runs, code_words, pending, sizes: Vec::new() })
    }

    /// Waits for sizes.
    pub(super) fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        self.sizes = launcher.read(&self.pending)?;
        self.code_words.read(launcher)
    }
}

/// About the bytes of scratch that the codes of rows need ([`Codes::start`]): for each byte
/// of values 2 for its codes and a quarter for what is known of runs, and 121 for each vector.
pub(super) fn scratch_bytes(rows: usize, bytes: usize) -> usize {
    let runs = bytes / LEAST_RUN_BYTES + rows.div_ceil(VECTOR);
    2 * bytes + bytes / 16 + bytes / 64 + 49 * runs + 72 * rows.div_ceil(VECTOR)
}
