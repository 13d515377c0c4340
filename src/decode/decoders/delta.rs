//! Delta: one pass, whose kernel unpacks the deltas itself, of any encoding that they have
//! (plain, constant, ffor, pfor).

use std::sync::Arc;

use super::Decoder;
use super::single::in_one_pass;
use crate::decode::program::{Program, Target};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::{Arguments, Header, Node, WordsArguments, constant};
use crate::gpu::kernels::{ByWidth, Kernel, rows};
use crate::lanes::VECTOR;

const SOURCE: &Header = &Header::read(include_str!("../../../kernels/delta.cu"));
const DEVICE: &Header = &Header::read(include_str!("../../../kernels/lanepack/delta.cuh"));

const _: () = assert!(constant(DEVICE, "DELTA") == Encoding::Delta as u64);

const fn delta<A: Arguments>(name: &'static str) -> Kernel<A> {
    let threads = constant(SOURCE, "DELTA_THREADS") as u32;
    rows(name, threads, threads as usize / 32 * VECTOR)
}
const DELTA: ByWidth<WordsArguments> =
    [delta("delta_8"), delta("delta_16"), delta("delta_32"), delta("delta_64")];

pub(super) struct Delta;

impl Decoder for Delta {
    fn encoding(&self) -> Encoding {
        Encoding::Delta
    }

    /// Starts, and behind them the buffers of the deltas (`kernels/lanepack/delta.cuh`).
    fn node(&self, target: &Target<'_>) -> Node {
        let deltas = target.child(0);
        let [starts, ..] = target.buffers();
        let [first, second, third, _] = deltas.buffers();
        Node {
            buffer: [starts, first, second, third],
            parameter: deltas.view.parameter(0),
            size: deltas.view.encoding() as u64,
            ..target.own_node()
        }
    }

    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        in_one_pass(Encoding::Delta, &DELTA, program, targets, bits, out)
    }
}
