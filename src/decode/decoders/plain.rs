//! Plain: values are copied, wide ones word by word.

use std::sync::Arc;

use super::Decoder;
use super::single::in_one_pass;
use crate::decode::program::{Job, Program, Target, jobs, longest, words_to};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::WordsArguments;
use crate::gpu::kernels::{ByWidth, copy};

const PLAIN: ByWidth<WordsArguments> =
    [copy("plain_8", 1), copy("plain_16", 2), copy("plain_32", 4), copy("plain_64", 8)];

pub(super) struct Plain;

impl Decoder for Plain {
    fn encoding(&self) -> Encoding {
        Encoding::Plain
    }

    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        in_one_pass(Encoding::Plain, &PLAIN, program, targets, bits, out)
    }

    fn decode_wide(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        words: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let mut all = jobs(targets);
        for Job { node, .. } in &mut all {
            node.at *= words as u64;
            node.rows *= words as u32;
        }
        let arguments = words_to(out.pointer());
        program.step(PLAIN[3], &all, &[], longest(targets) * words, arguments, &[out]);
        Ok(())
    }
}
