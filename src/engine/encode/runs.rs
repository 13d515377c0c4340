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
    /// For each row whether a run begins: 128 bytes of scratch a vector.
    begins: Arc<DeviceBuffer>,
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
        let bytes = vectors * VECTOR / 8 + SPAN_PIECE;
        let begins = launcher.allocate(bytes)?;
        launcher.stream.fill(&begins, 0, bytes, 0)?;
        let runs = launcher.allocate(asked.len() * 4)?;
        let mut this = Self { firsts, begins, counts: Vec::new() };
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

    /// Starts writing values and lengths of runs, and measuring both; and bits where they begin.
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
        let lengths = launcher.allocate(rows * 2)?.address();
        let arguments = abi::RunsArguments {
            values,
            lengths,
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
        let lengths = abi::Source { values: lengths, order: abi::UNSIGNED, ..derived };
        let physical = words.physical();
        let of_values = Asked::by(context, physical);
        let of_lengths = Asked::of_run_lengths(context);
        Ok([
            Words::derived(launcher, physical, values, self.counts.clone(), of_values)?,
            Words::derived(launcher, Physical::U16, lengths, self.counts.clone(), of_lengths)?,
        ])
    }

    /// Starts copying the numbers of first runs, and the bits of nodes that have them.
    pub fn write(&self, launcher: &mut Launcher<'_>, targets: &[abi::Target]) -> Result<()> {
        let firsts = targets.iter().map(|target| ByteSpan {
            from: self.firsts.address() + target.vector * 4,
            to: target.buffer[0],
            bytes: u64::from(target.rows).div_ceil(VECTOR as u64) * 4,
        });
        let begins = targets.iter().filter(|target| target.buffer[1] != 0);
        let begins = begins.map(|target| ByteSpan {
            from: self.begins.address() + target.vector * (VECTOR as u64 / 8),
            to: target.buffer[1],
            bytes: u64::from(target.rows).div_ceil(8),
        });
        copy_spans(launcher, &firsts.chain(begins).collect::<Vec<_>>())
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
            begins: self.begins.address(),
            ..Default::default()
        })
    }
}
