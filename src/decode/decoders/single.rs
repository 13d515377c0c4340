//! Encodings that one kernel decodes in a pass over what is stored: words only.

use std::sync::Arc;

use super::{Decoder, by_width, no_values};
use crate::decode::program::{Program, Target, jobs, longest, words_to};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::WordsArguments;
use crate::gpu::kernels::{Kernel, copy, unit};

/// An encoding and its kernels, by bits of values.
pub(super) struct Single {
    encoding: Encoding,
    kernels: &'static [Kernel<WordsArguments>],
}

pub(super) const CONSTANT: Single = Single {
    encoding: Encoding::Constant,
    kernels: &[
        copy("constant_8", 1),
        copy("constant_16", 2),
        copy("constant_32", 4),
        copy("constant_64", 8),
    ],
};

pub(super) const FFOR: Single = Single {
    encoding: Encoding::Ffor,
    kernels: &[unit("ffor_8", 1), unit("ffor_16", 2), unit("ffor_32", 4), unit("ffor_64", 8)],
};

pub(super) const PFOR: Single = Single {
    encoding: Encoding::Pfor,
    kernels: &[unit("pfor_8", 1), unit("pfor_16", 2), unit("pfor_32", 4), unit("pfor_64", 8)],
};

pub(super) const ALP: Single =
    Single { encoding: Encoding::Alp, kernels: &[unit("alp_32", 4), unit("alp_64", 8)] };

pub(super) const ALP_RD: Single =
    Single { encoding: Encoding::AlpRd, kernels: &[unit("alp_rd_32", 4), unit("alp_rd_64", 8)] };

impl Decoder for Single {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        in_one_pass(self.encoding, self.kernels, program, targets, bits, out)
    }
}

/// Adds the step that decodes nodes of words by one of some kernels.
pub(super) fn in_one_pass(
    encoding: Encoding,
    kernels: &[Kernel<WordsArguments>],
    program: &mut Program<'_>,
    targets: &[Target<'_>],
    bits: usize,
    out: &Arc<DeviceBuffer>,
) -> Result<()> {
    let kernel = by_width(kernels, bits).ok_or_else(|| no_values(encoding, bits))?;
    let arguments = words_to(out.pointer());
    program.step(kernel, &jobs(targets), &[], longest(targets), arguments, &[out]);
    Ok(())
}
