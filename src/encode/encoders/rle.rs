//! Rle: the runs of chunks, whose values and lengths are words as others
//! (`kernels/encode_runs.cu`).

use std::sync::Arc;

use super::Derived;
use crate::chunk::EncodedNode;
use crate::encode::asked::Asked;
use crate::encode::launch::Launcher;
use crate::encode::tree::{Look, Plans, Tree, limit};
use crate::encode::words::Words;
use crate::encode::write::{self, Job, Part, SPAN_PIECE, copy_spans};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Physical, rle};
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

/// Whether the runs of a chunk may be less than `limit` bytes.
pub(super) fn is_promised(
    words: &Words,
    chunk: usize,
    limit: usize,
    context: &Context<'_>,
) -> bool {
    let sample = words.sample(chunk).filter(|_| limit > 0 && is_sought(context));
    sample.is_some_and(|sample| {
        let (runs, values) = (sample.runs as usize, sample.rows as usize);
        rle::may_pay(runs, values, words.rows(chunk), limit)
    })
}

impl Tree {
    /// Adds the estimates of runs, where they may be the least.
    pub(in crate::encode) fn plan_runs(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let words = self.words(number);
        let limit_of = |look: &Option<Look>| look.as_ref().map_or(0, |look| limit(&look.estimates));
        let limits: Vec<usize> = looks.iter().map(limit_of).collect();
        let asked = |(chunk, look): (usize, &Option<Look>)| {
            let (Some(look), Some(sample)) = (look, words.sample(chunk)) else {
                return false;
            };
            // Others may promise less than when the chunk was looked at.
            let (runs, values) = (sample.runs as usize, sample.rows as usize);
            look.promises.has_runs && rle::may_pay(runs, values, words.rows(chunk), limits[chunk])
        };
        let asked: Vec<u32> = looks.iter().enumerate().map(|look| u32::from(asked(look))).collect();
        if asked.iter().all(|asked| *asked == 0) {
            return Ok(());
        }
        let mut runs = Runs::count(launcher, words, &asked)?;
        runs.keep(|chunk, runs| {
            let rows = words.rows(chunk);
            rle::may_pay(runs, rows, rows, limits[chunk])
        });
        let chunks: Vec<usize> = runs.chunks().collect();
        if chunks.is_empty() {
            return Ok(());
        }
        let below = context.in_runs();
        let rows: Vec<usize> = (0..words.chunks()).map(|chunk| words.rows(chunk)).collect();
        let [values, lengths] = runs.words(launcher, words, &below)?.map(|words| self.add(words));
        self.derive(number, Encoding::Rle, runs, &[values, lengths]);
        let plans = self.plan(launcher, values, &below)?;
        self.words_mut(lengths).read(launcher)?;
        let children = [(values, plans), (lengths, Plans::NONE)];
        let estimate = |chunk, children, limit| rle::estimate_of(children, rows[chunk], limit);
        self.add_estimates((Encoding::Rle, chunks), estimate, children, &below, looks);
        Ok(())
    }
}

/// Chunks whose runs have been counted.
struct Runs {
    /// For each vector the number of its first run in the chunk: 4 bytes of scratch.
    firsts: Arc<DeviceBuffer>,
    /// For each row whether a run begins: 128 bytes of scratch a vector.
    begins: Arc<DeviceBuffer>,
    /// For each chunk; 0 if they are of no interest.
    counts: Vec<u32>,
}

impl Runs {
    /// Counts those of chunks for which `asked` is not 0; waits.
    fn count(launcher: &mut Launcher<'_>, words: &Words, asked: &[u32]) -> Result<Self> {
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
            RunsArguments { runs: runs.pointer(), ..this.arguments(launcher, words, asked)? };
        let kernel = words.by_width(RUNS_COUNT);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        launcher.launch(RUNS_LAYOUT, asked.len(), &arguments)?;
        let pending = launcher.result(&runs, 0, asked.len())?;
        this.counts = launcher.read(&pending)?;
        Ok(this)
    }

    /// Keeps those that have been counted and of which `pays` says so, given chunk and count.
    fn keep(&mut self, pays: impl Fn(usize, usize) -> bool) {
        for (chunk, count) in self.counts.iter_mut().enumerate() {
            if *count > 0 && !pays(chunk, *count as usize) {
                *count = 0;
            }
        }
    }

    /// The chunks.
    fn chunks(&self) -> impl Iterator<Item = usize> {
        (0..self.counts.len()).filter(|chunk| self.counts[*chunk] > 0)
    }

    /// Starts writing values and lengths of runs, and measuring both; and bits where they begin.
    fn words(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        context: &Context<'_>,
    ) -> Result<[Words; 2]> {
        let source = *words.source();
        let most = self.counts.iter().max().copied().unwrap_or(0) as usize;
        let run_vectors = most.div_ceil(VECTOR);
        let rows = run_vectors * VECTOR * words.chunks();
        let values = launcher.allocate(rows * words.value())?.pointer();
        let lengths = launcher.allocate(rows * 2)?.pointer::<u16>();
        let arguments = RunsArguments {
            values,
            lengths,
            run_vectors: run_vectors as u32,
            ..self.arguments(launcher, words, &self.counts)?
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
        let of_values = Asked::by(context, physical);
        let of_lengths = Asked::by(context, Physical::U16).leaves();
        Ok([
            Words::derived(launcher, physical, values, self.counts.clone(), of_values)?,
            Words::derived(launcher, Physical::U16, lengths, self.counts.clone(), of_lengths)?,
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

impl Derived for Runs {
    fn fill(
        &self,
        words: &Words,
        chunk: usize,
        plan: &Plan,
        part: &dyn Fn(usize) -> Part,
        node: &mut EncodedNode<Part>,
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
