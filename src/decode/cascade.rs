//! Words of cascades: which nodes a kernel reads together, and what is decoded to scratch
//! before.
//!
//! Each encoding's decoder (`decoders`) says which children its kernels read as they are stored;
//! words of wide values are plain, constant or ffor, lengths of strings pfor as well. All else is
//! decoded to scratch.
//!
//! Scratch is a *plain* node, which all kernels know. It is written by the same steps as any
//! column, so cascades of any depth come apart level by level.

use std::sync::Arc;

use super::decoders;
use super::program::{Job, Program, Target, of_encoding};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::DevicePtr;
use crate::gpu::abi::Node;
use crate::lanes::VECTOR;

/// The encodings of words that kernels for children of other nodes know.
pub(super) const SIMPLE: [Encoding; 3] = [Encoding::Plain, Encoding::Constant, Encoding::Ffor];

/// The encodings of codes that scans of dictionaries know.
pub(super) const CODES: [Encoding; 2] = [Encoding::Ffor, Encoding::Plain];

impl Program<'_> {
    /// Values of 8 to 64 bits to `out`.
    pub fn words_of(&mut self, targets: &[Target<'_>], out: &Arc<DeviceBuffer>) -> Result<()> {
        for encoding in Encoding::ALL {
            let targets = of_encoding(targets, *encoding);
            let Some(first) = targets.first() else { continue };
            let bits = first.view.physical().bits().unwrap_or(0);
            let decoder =
                decoders::of(*encoding).ok_or_else(|| decoders::no_values(*encoding, bits))?;
            decoder.decode_words(self, &targets, bits, out)?;
        }
        Ok(())
    }

    /// Wide values, of so many words of 64 bits each, to `out`.
    pub fn wide_of(
        &mut self,
        targets: &[Target<'_>],
        words: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        for encoding in Encoding::ALL {
            let targets = of_encoding(targets, *encoding);
            if targets.is_empty() {
                continue;
            }
            let decoder = decoders::of(*encoding)
                .ok_or_else(|| decoders::no_values(*encoding, words * 64))?;
            decoder.decode_wide(self, &targets, words, out)?;
        }
        Ok(())
    }

    /// Nodes of words for kernels that know the encodings `reads`; the values of others are
    /// decoded to scratch first.
    pub fn readable(&mut self, targets: &[Target<'_>], reads: &[Encoding]) -> Result<Vec<Job>> {
        let is_readable = |target: &Target<'_>| reads.contains(&target.view.encoding());
        let mut others: Vec<Target<'_>> = Vec::new();
        let mut rows = 0;
        for target in targets.iter().filter(|target| !is_readable(target)) {
            others.push(Target { at: rows, ..*target });
            rows += target.view.len().next_multiple_of(VECTOR);
        }
        let first = others.first();
        let size = first.and_then(|target| target.view.physical().bits()).unwrap_or(0) / 8;
        let mut scratch = DevicePtr::<u8>::NULL;
        if !others.is_empty() {
            let buffer = self.scratch(rows * size)?;
            self.words_of(&others, &buffer)?;
            scratch = buffer.pointer();
        }
        let mut others = others.iter().map(|other| scratch.add(other.at * size));
        let is_dict =
            |target: &Target<'_>| is_readable(target) && target.view.encoding() == Encoding::Dict;
        let dict: Vec<Target<'_>> =
            targets.iter().filter(|target| is_dict(target)).copied().collect();
        let mut dict = self.dictionaries(&dict)?.into_iter();
        let job = |target: &Target<'_>| match is_readable(target) {
            true if is_dict(target) => dict.next(),
            true => Some(Job::from(target)),
            false => others.next().map(|values| plain(target, values)),
        };
        Ok(targets.iter().filter_map(job).collect())
    }
}

/// A plain node of the values of another, which are stored at `values`.
pub(super) fn plain<T>(target: &Target<'_>, values: DevicePtr<T>) -> Job {
    let node = Node {
        buffer: Node::only(values.cast()),
        at: target.at as u64,
        rows: target.view.len() as u32,
        encoding: Encoding::Plain as u16,
        ..Node::default()
    };
    Job { chunk: target.chunk, node }
}
