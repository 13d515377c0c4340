//! Rle: one pass, whose kernel reads lengths as they are stored, and values of ffor and pfor;
//! other values are decoded to scratch first.

use std::sync::Arc;

use super::{Decoder, by_width, no_values};
use crate::decode::program::{Job, Program, Target, checked_to, most_rows};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::abi::{Arguments, DictArguments, Header, Node, constant};
use crate::gpu::kernels::{ByWidth, Kernel, rows};
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

const SOURCE: &Header = &Header::read(include_str!("../../../kernels/rle.cu"));
const DEVICE: &Header = &Header::read(include_str!("../../../kernels/lanepack/rle.cuh"));

const _: () = assert!(constant(DEVICE, "RLE") == Encoding::Rle as u64);

const fn rle<A: Arguments>(name: &'static str) -> Kernel<A> {
    let threads = constant(SOURCE, "RLE_THREADS") as u32;
    rows(name, threads, threads as usize / 32 * VECTOR)
}
const RLE: ByWidth<DictArguments> = [rle("rle_8"), rle("rle_16"), rle("rle_32"), rle("rle_64")];

/// Which run each row belongs to.
const INDEX_RUNS: Kernel<DictArguments> = rle("index_runs");

/// Rows, and bytes, of a word of that (`RunIndex` in `kernels/lanepack/rle.cuh`); there is one for each 32
/// rows of whole vectors.
const INDEXED_ROWS: usize = 32;
const INDEX_BYTES: usize = 8;

/// The encodings of values and lengths of runs that kernels know.
const RUNS: [Encoding; 4] = [Encoding::Plain, Encoding::Constant, Encoding::Ffor, Encoding::Pfor];

pub(super) struct Rle;

impl Decoder for Rle {
    fn encoding(&self) -> Encoding {
        Encoding::Rle
    }

    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let values: Vec<Target<'_>> = targets.iter().map(|target| target.child(0)).collect();
        let values = program.readable(&values, &RUNS)?;
        program.spread_runs(targets, &values, bits, out)
    }
}

impl Program<'_> {
    /// Values of runs, one for each, to the rows of nodes of runs.
    pub(super) fn spread_runs(
        &mut self,
        runs: &[Target<'_>],
        values: &[Job],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let job = |target: &Target<'_>| Job { chunk: target.chunk, node: target.own_node() };
        let jobs: Vec<Job> = runs.iter().map(job).collect();
        let more: Vec<Job> = runs.iter().map(lengths_of).chain(values.iter().copied()).collect();
        let kernel = by_width(&RLE, bits).ok_or_else(|| no_values(Encoding::Rle, bits))?;
        let arguments = checked_to(out.pointer());
        self.step(kernel, &jobs, &more, most_rows(&jobs), arguments, &[out]);
        Ok(())
    }

    /// Which run each row of some nodes of runs belongs to, in scratch; where that of each node begins.
    pub(in crate::decode) fn index_runs(
        &mut self,
        runs: &[Target<'_>],
    ) -> Result<Vec<DevicePtr<u8>>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut words = 0;
        let mut jobs = Vec::with_capacity(runs.len());
        for target in runs {
            let node = Node { at: words as u64, ..target.own_node() };
            jobs.push(Job { chunk: target.chunk, node });
            words += target.view.len().div_ceil(VECTOR) * (VECTOR / INDEXED_ROWS);
        }
        let out = self.scratch(words * INDEX_BYTES)?;
        let values = runs.iter().map(|target| {
            let rows = target.view.child(0).len() as u32;
            Job { chunk: target.chunk, node: Node { rows, ..Node::default() } }
        });
        let more: Vec<Job> = runs.iter().map(lengths_of).chain(values).collect();
        let arguments = checked_to(out.pointer());
        self.step(INDEX_RUNS, &jobs, &more, most_rows(&jobs), arguments, &[&out]);
        Ok(jobs.iter().map(|job| out.pointer_at(job.node.at as usize * INDEX_BYTES)).collect())
    }
}

/// The lengths of runs, which are read as they are stored; runs that are marked by bits have none.
fn lengths_of(target: &Target<'_>) -> Job {
    match target.view.child_count() {
        1 => Job { chunk: target.chunk, node: Node::default() },
        _ => Job::from(&target.child(1)),
    }
}
