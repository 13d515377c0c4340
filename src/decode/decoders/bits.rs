//! Bits: their bytes are decoded to scratch, where they are a bitmap.

use super::Decoder;
use crate::decode::cascade::plain;
use crate::decode::program::{Job, Program, Target};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DevicePtr;
use crate::lanes::VECTOR;

pub(super) struct Bits;

impl Decoder for Bits {
    fn encoding(&self) -> Encoding {
        Encoding::Bits
    }
}

impl Program<'_> {
    /// Nodes of bits for kernels, which know constants and bitmaps; others become bitmaps in
    /// scratch first.
    pub fn readable_bits(&mut self, targets: &[Target<'_>]) -> Result<Vec<Job>> {
        let is_bits = |target: &Target<'_>| target.view.encoding() == Encoding::Bits;
        let mut bytes: Vec<Target<'_>> = Vec::new();
        let mut at = 0;
        for target in targets.iter().filter(|target| is_bits(target)) {
            let child = target.child(0);
            bytes.push(Target { at, ..child });
            at += child.view.len().next_multiple_of(VECTOR);
        }
        let mut scratch = DevicePtr::<u8>::NULL;
        if !bytes.is_empty() {
            let buffer = self.scratch(at)?;
            // Bitmaps are read in whole words.
            self.stream.fill(&buffer, 0, at, 0)?;
            self.words_of(&bytes, &buffer)?;
            scratch = buffer.pointer();
        }
        let mut bytes = bytes.iter().map(|bytes| scratch.add(bytes.at));
        let job = |target: &Target<'_>| match is_bits(target) {
            true => bytes.next().map(|bits| plain(target, bits)),
            false => Some(Job::from(target)),
        };
        Ok(targets.iter().filter_map(job).collect())
    }
}
