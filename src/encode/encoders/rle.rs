//! Rle: the runs of chunks, whose values and lengths are words as others
//! (`kernels/encode_runs.cu`).

use std::sync::Arc;

use super::{DerivedChunks, Deriver};
use crate::chunk::EncodedNode;
use crate::encode::launch::Launcher;
use crate::encode::measurements::Measurements;
use crate::encode::words::Words;
use crate::encode::write::{self, Job, PendingBuffer, SPAN_PIECE, copy_spans};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi::{Arguments, ByteSpan, Header, RunsArguments, Source, UNSIGNED, constant};
use crate::gpu::kernels::{ByWidth, Kernel, chunk, vectors};
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

const SOURCE: &Header = &Header::read(include_str!("../../../kernels/encode_runs.cu"));

/// Blocks count chunks.
const RUNS_LAYOUT: Kernel<RunsArguments> = chunk("runs_layout", "LAYOUT_THREADS");
/// Blocks count vectors.
const fn runs<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, constant(SOURCE, "RUNS_THREADS") as u32, 32)
}
const RUNS_COUNT: ByWidth<RunsArguments> =
    [runs("runs_count_8"), runs("runs_count_16"), runs("runs_count_32"), runs("runs_count_64")];
const RUNS_WRITE: ByWidth<RunsArguments> =
    [runs("runs_write_8"), runs("runs_write_16"), runs("runs_write_32"), runs("runs_write_64")];

/// Whether chunks may become runs.
pub(super) fn is_sought(context: &Context<'_>) -> bool {
    context.may_nest() && context.options.allows(Encoding::Rle) && !context.in_runs
}

pub(super) struct Rle;

impl Deriver for Rle {
    fn encoding(&self) -> Encoding {
        Encoding::Rle
    }

    fn below<'a>(&self, context: &Context<'a>) -> Context<'a> {
        context.in_runs()
    }

    fn search(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        asked: &[(usize, u64)],
        _: &Context<'_>,
    ) -> Result<Box<dyn DerivedChunks>> {
        Ok(Box::new(Runs::count(launcher, words, asked.iter().map(|(chunk, _)| *chunk))?))
    }
}

/// Chunks whose runs have been counted.
struct Runs {
    /// For each vector the number of its first run in the chunk: 4 bytes of scratch.
    firsts: Arc<DeviceBuffer>,
    /// For each row whether a run begins: 128 bytes of scratch a vector.
    begins: Arc<DeviceBuffer>,
    /// For each chunk; 0 if they have not been counted.
    counts: Vec<u32>,
}

impl Runs {
    /// Counts those of some chunks; waits.
    fn count(
        launcher: &mut Launcher<'_>,
        words: &Words,
        chunks: impl Iterator<Item = usize>,
    ) -> Result<Self> {
        let mut asked = vec![0; words.chunks()];
        chunks.for_each(|chunk| asked[chunk] = 1);
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
            RunsArguments { runs: runs.pointer(), ..this.arguments(launcher, words, &asked)? };
        let kernel = words.by_width(RUNS_COUNT);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        launcher.launch(RUNS_LAYOUT, asked.len(), &arguments)?;
        let pending = launcher.result(&runs, 0, asked.len())?;
        this.counts = launcher.read(&pending)?;
        Ok(this)
    }

    /// Starts writing values and lengths of the runs of some chunks, and measuring both; and bits
    /// where they begin.
    fn words(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        chunks: &[usize],
        context: &Context<'_>,
    ) -> Result<[Words; 2]> {
        let source = *words.source();
        let mut counts = vec![0; words.chunks()];
        chunks.iter().for_each(|chunk| counts[*chunk] = self.counts[*chunk]);
        let most = counts.iter().max().copied().unwrap_or(0) as usize;
        let run_vectors = most.div_ceil(VECTOR);
        let rows = run_vectors * VECTOR * words.chunks();
        let values = launcher.allocate(rows * words.value())?.pointer();
        let lengths = launcher.allocate(rows * 2)?.pointer::<u16>();
        let arguments = RunsArguments {
            values,
            lengths,
            run_vectors: run_vectors as u32,
            ..self.arguments(launcher, words, &counts)?
        };
        let kernel = words.by_width(RUNS_WRITE);
        let vectors = (source.rows as usize).div_ceil(VECTOR);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        let derived = Source {
            rows: rows as u64,
            valid: DevicePtr::NULL,
            valid_at: 0,
            stride: 1,
            chunk_vectors: run_vectors as u32,
            ..source
        };
        let values = Source { values, ..derived };
        let lengths = Source { values: lengths.cast(), order: UNSIGNED, ..derived };
        let physical = words.physical();
        let of_values = Measurements::by(context, physical);
        let of_lengths = Measurements::by(context, Physical::U16).leaves();
        Ok([
            Words::derived(launcher, physical, values, counts.clone(), of_values)?,
            Words::derived(launcher, Physical::U16, lengths, counts, of_lengths)?,
        ])
    }

    fn arguments(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        asked: &[u32],
    ) -> Result<RunsArguments> {
        Ok(RunsArguments {
            source: *words.source(),
            totals: words.totals(),
            asked: launcher.upload(asked)?,
            firsts: self.firsts.pointer(),
            begins: self.begins.pointer(),
            ..Default::default()
        })
    }
}

impl DerivedChunks for Runs {
    fn found(&self, chunk: usize) -> Option<Option<usize>> {
        let count = self.counts[chunk] as usize;
        (count > 0).then_some(Some(count))
    }

    fn children(
        &mut self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        chunks: &[usize],
        below: &Context<'_>,
    ) -> Result<Vec<Words>> {
        self.words(launcher, words, chunks, below).map(Vec::from)
    }

    fn fill(
        &self,
        words: &Words,
        chunk: usize,
        plan: &Plan,
        part: &dyn Fn(usize) -> PendingBuffer,
        node: &mut EncodedNode<PendingBuffer>,
    ) -> Result<()> {
        node.buffers.push(part(words.vectors(chunk) * 4));
        if plan.children.len() == 1 {
            node.buffers.push(part(words.rows(chunk).div_ceil(8)));
        }
        Ok(())
    }

    /// Starts copying the numbers of first runs, and the bits of nodes that have them.
    fn write(&self, launcher: &mut Launcher<'_>, _: &Words, jobs: &[Job]) -> Result<()> {
        let targets = write::targets(jobs);
        let firsts = targets.iter().map(|target| ByteSpan {
            from: self.firsts.pointer::<u32>().add(target.vector as usize).cast(),
            to: target.buffer[0],
            bytes: u64::from(target.rows).div_ceil(VECTOR as u64) * 4,
        });
        let begins = targets.iter().filter(|target| !target.buffer[1].is_null());
        let begins = begins.map(|target| ByteSpan {
            from: self.begins.pointer_at(target.vector as usize * VECTOR / 8),
            to: target.buffer[1],
            bytes: u64::from(target.rows).div_ceil(8),
        });
        copy_spans(launcher, &firsts.chain(begins).collect::<Vec<_>>())
    }
}
