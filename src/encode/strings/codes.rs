//! Codes of a stretch of chunks that share a table, in scratch.

use std::ops::Range;

use super::chunks::lengths_source;
use super::lengths::{Arrays, LEAST_RUN_BYTES, Lengths};
use super::tables::Table;
use super::{Span, StringColumn, encode_blocks};
use crate::encode::launch::{Launcher, Pending, StreamRole};
use crate::encode::words::Words;
use crate::encode::write::{self, Job};
use crate::encoding::fsst;
use crate::error::Result;
use crate::gpu::abi;
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;
use crate::options::Options;

/// Where the arrays of the codes of a span are in scratch.
pub(super) struct CodeRoom {
    vectors: Range<usize>,
    /// How many runs there are at most.
    most_runs: usize,
    runs: usize,
    places: usize,
    codes: usize,
    tile_runs: usize,
    marks: usize,
    taken: usize,
    /// Bytes of all, a multiple of 256.
    pub(super) len: usize,
}

impl CodeRoom {
    pub(super) fn of(
        column: &StringColumn,
        lengths: &Lengths,
        span: &Span,
        borders: &[u64],
    ) -> Self {
        let (chunks, bytes) = (&span.chunks, span.bytes(borders));
        let chunk_vectors = lengths.view.chunk_rows as usize / VECTOR;
        let end = (chunks.end * chunk_vectors).min(column.rows.div_ceil(VECTOR));
        let vectors = chunks.start * chunk_vectors..end;
        let most_runs = lengths.most_runs(bytes, vectors.len());
        let mut arrays = Arrays::default();
        let runs = arrays.add(most_runs * 16);
        let places = arrays.add(most_runs * 16);
        let code_bytes = 2 * bytes + 16 * (most_runs + 2);
        let codes = arrays.add(code_bytes);
        let tile_runs = arrays.add(4 * (code_bytes / fsst::TILE + chunks.len() + 1));
        let marks = arrays.add(2 * (bytes / 32 + most_runs / 4 + 3));
        let taken = arrays.add(4);
        let len = arrays.len;
        Self { vectors, most_runs, runs, places, codes, tile_runs, marks, taken, len }
    }
}

/// The codes of consecutive chunks, in scratch.
pub(super) struct CodeRuns {
    view: abi::StringsView,
}

impl CodeRuns {
    /// Starts making the codes of a span with its table, in scratch from `at` on; `sizes` is where
    /// the sizes of its chunks go.
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        table: DevicePtr<u8>,
        room: &CodeRoom,
        (scratch, at): (&DeviceBuffer, usize),
        sizes: DevicePtr<abi::FsstPlace>,
    ) -> Result<Self> {
        let view = abi::StringsView {
            table,
            runs: scratch.pointer_at(at + room.runs),
            places: scratch.pointer_at(at + room.places),
            codes: scratch.pointer_at(at + room.codes),
            marks: scratch.pointer_at(at + room.marks),
            tile_runs: scratch.pointer_at(at + room.tile_runs),
            chunks: sizes,
            taken: scratch.pointer_at(at + room.taken),
            first_vector: room.vectors.start as u32,
            end_vector: room.vectors.end as u32,
            ..lengths.view
        };
        launcher.stream.fill(scratch, at + room.taken, 4, 0)?;
        let kernel = column.by_width(kernels::FSST_ENCODE);
        let blocks = encode_blocks(column, room.most_runs.div_ceil(kernel.block));
        launcher.launch(kernel, blocks, &view)?;
        Ok(Self { view })
    }

    /// Starts finding out where runs begin in their chunks, and what so many chunks come to.
    pub(super) fn find_sizes(&self, launcher: &mut Launcher<'_>, chunks: usize) -> Result<()> {
        launcher.launch(kernels::FSST_CHUNKS, chunks, &self.view)
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
        let (room, chunks) = (CodeRoom::of(column, lengths, span, borders), span.chunks.len());
        let scratch = launcher.allocate(room.len + chunks * size_of::<abi::FsstPlace>())?;
        let (table, sizes) = (span.table.unwrap_or_default(), scratch.pointer_at(room.len));
        let at = (scratch.as_ref(), 0);
        let runs = CodeRuns::start(launcher, column, lengths, table, &room, at, sizes)?;
        launcher.switch(StreamRole::Main);
        launcher.wait_for(StreamRole::Long)?;
        runs.find_sizes(launcher, chunks)?;
        let pending = launcher.result(&scratch, room.len, chunks)?;
        let first_row = runs.vectors().start * VECTOR;
        let rows = (runs.vectors().end * VECTOR).min(column.rows) - first_row;
        let code_lengths = lengths.view.code_lengths.add(first_row);
        let source = lengths_source(code_lengths, rows, options.chunk_rows / VECTOR);
        let code_words = column.measure_lengths(launcher, source, span.chunks.clone(), options)?;
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
