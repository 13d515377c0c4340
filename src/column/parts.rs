//! Chunks in parallel, each with its part of one output.

use rayon::prelude::*;

use crate::chunk::Chunk;
use crate::error::Result;

/// Runs `decode` for every chunk with its part of the output, in parallel.
pub(super) fn each_chunk<T: Send>(
    chunks: &[Chunk],
    parts: Vec<T>,
    decode: impl Fn(&Chunk, T) -> Result<()> + Sync,
) -> Result<()> {
    (chunks.par_iter().zip(parts).enumerate())
        .try_for_each(|(index, (chunk, part))| decode(chunk, part).map_err(|e| e.in_chunk(index)))
}

/// Cuts `all` into consecutive parts of the given lengths.
pub(super) fn split<T>(mut all: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut parts = Vec::new();
    for len in lengths {
        let (part, rest) = all.split_at_mut(len);
        parts.push(part);
        all = rest;
    }
    parts
}
