//! Lz: one pass over the segments, of words and of the bytes of strings.

use std::sync::Arc;

use super::Decoder;
use super::strings::starts_of;
use crate::decode::program::{Job, Program, Target, Words, bytes_to};
use crate::device::groups::size_groups;
use crate::encoding::lz::Layout;
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::{Arguments, BytesArguments, Node};
use crate::gpu::kernels::{ByWidth, Kernel, shape, vectors};

/// Blocks count segments.
const fn lz<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, shape("LZ_THREADS"), 32)
}
/// Symbols of 8, 16, 32 and 64 bits.
const LZ: ByWidth<BytesArguments> = [lz("lz_8"), lz("lz_16"), lz("lz_32"), lz("lz_64")];

pub(super) struct Lz;

impl Decoder for Lz {
    fn encoding(&self) -> Encoding {
        Encoding::Lz
    }

    fn node(&self, target: &Target<'_>) -> Node {
        let own = target.own_node();
        match target.view.physical() {
            // Starts, where other encodings of strings have them.
            Physical::Bytes => starts_of(own, target.body.add(target.view.buffer_range(4).start)),
            _ => own,
        }
    }

    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        program.segments_of(targets, |target| target.at * bits / 8, out);
        Ok(())
    }
}

/// What kernels that decode bytes see of a node (`kernels/lz.cu`); `at` counts bytes.
fn segments(target: &Target<'_>, at: usize) -> Node {
    let Layout { shape, matches, literals, .. } = Layout::of(target.view);
    let own = target.own_node();
    Node {
        parameter: own.parameter | (literals as u64) << 32,
        size: (shape.symbol | shape.offset << 8) as u64
            | u64::from(shape.segment.ilog2()) << 16
            | (matches as u64) << 32,
        at: at as u64,
        ..own
    }
}

impl Program<'_> {
    /// Adds the launches that decode nodes of lz to bytes of `out`, of each node from `at`
    /// bytes on; for each launch its targets, and the words that say which are not ASCII.
    pub fn segments_of<'t>(
        &mut self,
        targets: &[Target<'t>],
        at: impl Fn(&Target<'_>) -> usize,
        out: &Arc<DeviceBuffer>,
    ) -> Vec<(Vec<Target<'t>>, Words)> {
        let count = |target: &Target<'_>| Layout::of(target.view).segments;
        let mut launches = Vec::new();
        for (width, kernel) in LZ.into_iter().enumerate() {
            let has = |target: &&Target<'_>| Layout::of(target.view).shape.symbol == 1 << width;
            let of_width = targets.iter().filter(has).copied().collect();
            for targets in size_groups(of_width, count) {
                let job = |target: &Target<'_>| Job {
                    chunk: target.chunk,
                    node: segments(target, at(target)),
                };
                let jobs: Vec<Job> = targets.iter().map(job).collect();
                let longest = targets.iter().map(count).max().unwrap_or(0);
                let not_ascii = self.words(jobs.len());
                let arguments = bytes_to(out.pointer(), not_ascii);
                self.step(kernel, &jobs, &[], longest, arguments, &[out]);
                launches.push((targets, not_ascii));
            }
        }
        launches
    }
}
