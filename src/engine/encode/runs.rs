//! The runs of chunks: `kernels/encode_runs.cu`.

use std::sync::Arc;

use super::asked::Asked;
use super::launch::Launcher;
use super::words::Words;
use super::write::{SPAN_PIECE, copy_spans};
use crate::encoding::Physical;
use crate::encoding::plan::Context;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::encode as abi;
use crate::gpu::abi::strings::ByteSpan;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Chunks whose runs have been counted.
pub(super) struct Runs {
    /// For each vector the number of its first run in the chunk: 4 bytes of scratch.
    firsts: Arc<DeviceBuffer>,
    /// For each chunk; 0 if they are of no interest.
    counts: Vec<u32>,
}

impl Runs {
    /// Counts those of chunks for which `asked` is not 0; waits.
    pub fn count(launcher: &mut Launcher<'_>, words: &Words, asked: &[u32]) -> Result<Self> {
        let vectors = (words.source().rows as usize).div_ceil(VECTOR);
        // Copies read whole pieces, of vectors of other chunks as well.
        let bytes = (vectors * 4).next_multiple_of(SPAN_PIECE) + SPAN_PIECE;
        let firsts = launcher.allocate(bytes)?;
        launcher.stream.fill(&firsts, 0, bytes, 0)?;
        let runs = launcher.allocate(asked.len() * 4)?;
        let mut this = Self { firsts, counts: Vec::new() };
        let arguments =
            abi::RunsArguments { runs: runs.address(), ..this.arguments(launcher, words, asked)? };
        let kernel = words.by_width(kernels::RUNS_COUNT);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        launcher.launch(kernels::RUNS_LAYOUT, asked.len(), &arguments)?;
        let pending = launcher.result(&runs, 0, asked.len())?;
        this.counts = launcher.read(&pending)?;
        Ok(this)
    }

    /// Keeps those that have been counted and of which `pays` says so, given chunk and count.
    pub fn keep(&mut self, pays: impl Fn(usize, usize) -> bool) {
        for (chunk, count) in self.counts.iter_mut().enumerate() {
            if *count > 0 && !pays(chunk, *count as usize) {
                *count = 0;
            }
        }
    }

    /// The chunks.
    pub fn chunks(&self) -> impl Iterator<Item = usize> {
        (0..self.counts.len()).filter(|chunk| self.counts[*chunk] > 0)
    }

    /// Starts writing values and starts of runs, and measuring both.
    pub fn words(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        context: &Context<'_>,
    ) -> Result<[Words; 2]> {
        let source = *words.source();
        let most = self.counts.iter().max().copied().unwrap_or(0) as usize;
        let run_vectors = most.div_ceil(VECTOR);
        let rows = run_vectors * VECTOR * words.chunks();
        let values = launcher.allocate(rows * words.value())?.address();
        let starts = launcher.allocate(rows * 2)?.address();
        let arguments = abi::RunsArguments {
            values,
            starts,
            run_vectors: run_vectors as u32,
            ..self.arguments(launcher, words, &self.counts)?
        };
        let kernel = words.by_width(kernels::RUNS_WRITE);
        let vectors = (source.rows as usize).div_ceil(VECTOR);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        let derived = abi::Source {
            rows: rows as u64,
            valid: 0,
            valid_at: 0,
            stride: 1,
            chunk_vectors: run_vectors as u32,
            ..source
        };
        let values = abi::Source { values, ..derived };
        let starts = abi::Source { values: starts, order: abi::UNSIGNED, ..derived };
        let physical = words.physical();
        let of_values = Asked::by(context, physical);
        let of_starts = Asked::by(context, Physical::U16);
        Ok([
            Words::derived(launcher, physical, values, self.counts.clone(), of_values)?,
            Words::derived(launcher, Physical::U16, starts, self.counts.clone(), of_starts)?,
        ])
    }

    /// Starts copying the numbers of first runs.
    pub fn write(&self, launcher: &mut Launcher<'_>, targets: &[abi::Target]) -> Result<()> {
        let span = |target: &abi::Target| ByteSpan {
            from: self.firsts.address() + target.vector * 4,
            to: target.buffer[0],
            bytes: u64::from(target.rows).div_ceil(VECTOR as u64) * 4,
        };
        copy_spans(launcher, &targets.iter().map(span).collect::<Vec<_>>())
    }

    fn arguments(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        asked: &[u32],
    ) -> Result<abi::RunsArguments> {
        Ok(abi::RunsArguments {
            source: *words.source(),
            totals: words.totals(),
            asked: launcher.upload(asked)?,
            firsts: self.firsts.address(),
            ..Default::default()
        })
    }
}
