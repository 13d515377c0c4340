//! Gcd: quotients of ffor and pfor are unpacked and multiplied in one pass, others are decoded to
//! scratch first.

use std::sync::Arc;

use super::{Decoder, by_width, no_values};
use crate::decode::program::{Job, Program, Target, most_rows, words_to};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::WordsArguments;
use crate::gpu::kernels::{Kernel, unit};

/// The encodings of quotients that kernels multiply, and these for 32 and 64 bits.
const QUOTIENTS: [(Encoding, [Kernel<WordsArguments>; 2]); 3] = [
    (Encoding::Ffor, [unit("gcd_ffor_32", 4), unit("gcd_ffor_64", 8)]),
    (Encoding::Pfor, [unit("gcd_pfor_32", 4), unit("gcd_pfor_64", 8)]),
    (Encoding::Plain, [unit("gcd_plain_32", 4), unit("gcd_plain_64", 8)]),
];

pub(super) struct Gcd;

impl Decoder for Gcd {
    fn encoding(&self) -> Encoding {
        Encoding::Gcd
    }

    /// Kernels see nodes of quotients, with the divisor as `size` and the offset as `parameter`.
    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let children: Vec<Target<'_>> = targets.iter().map(|target| target.child(0)).collect();
        let mut jobs = program.readable(&children, &QUOTIENTS.map(|(encoding, _)| encoding))?;
        for (job, target) in jobs.iter_mut().zip(targets) {
            job.node.size = target.view.parameter(0);
            job.node.parameter = target.view.parameter(1);
        }
        for (encoding, kernels) in QUOTIENTS {
            let kernel = by_width(&kernels, bits).ok_or_else(|| no_values(Encoding::Gcd, bits))?;
            let has = |job: &&Job| job.node.encoding == encoding as u16;
            let jobs: Vec<Job> = jobs.iter().filter(has).copied().collect();
            let arguments = words_to(out.pointer());
            program.step(kernel, &jobs, &[], most_rows(&jobs), arguments, &[out]);
        }
        Ok(())
    }
}
