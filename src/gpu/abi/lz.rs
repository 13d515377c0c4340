//! What host and kernels that write lz share: the structs of `kernels/encode_lz.cuh`.

use bytemuck::{Pod, Zeroable};

use super::{Header, constant};
use crate::encoding::lz::{MOST_SEGMENT_BYTES, Shape};

/// `lanepack::LzChunk`: bytes that become a node, or a part of them that is looked at.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct LzChunk {
    pub bytes: u64,
    pub len: u64,
    /// Number of the first segment in the launch.
    pub first: u32,
    pub zero: u32,
}

/// `lanepack::LzTarget`: where the buffers of a chunk go.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct LzTarget {
    pub buffer: [u64; 4],
    pub chunk: u32,
    pub zero: u32,
}

/// `lanepack::LzArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct LzArguments {
    pub chunks: u64,
    /// Three words for each segment.
    pub places: u64,
    /// Three words for each chunk.
    pub totals: u64,
    /// Streams; 0 if only counts are wanted.
    pub literals: u64,
    pub tokens: u64,
    pub flags: u64,
    pub targets: u64,
    /// Chunks, or targets.
    pub count: u32,
    /// Segments of the longest.
    pub most_segments: u32,
    pub segment: u32,
    pub symbol: u32,
    pub offset: u32,
    pub window: u32,
    /// Bytes of scratch for a segment's offsets and lengths, and where lengths begin in it.
    pub token_bytes: u32,
    pub lengths_at: u32,
}

impl LzArguments {
    /// For segments of a shape.
    pub fn of(shape: Shape) -> Self {
        let matches = shape.segment / shape.least();
        let lengths_at = (matches * shape.offset).next_multiple_of(8);
        Self {
            segment: shape.segment as u32,
            symbol: shape.symbol as u32,
            offset: shape.offset as u32,
            window: shape.window as u32,
            token_bytes: (lengths_at + matches).next_multiple_of(8) as u32,
            lengths_at: lengths_at as u32,
            ..Self::default()
        }
    }
}

const ENCODE_LZ: &Header = &Header::read(include_str!("../../../kernels/encode_lz.cuh"));

const _: () = {
    assert!(size_of::<LzChunk>() == 24);
    assert!(size_of::<LzTarget>() == 40);
    assert!(size_of::<LzArguments>() == 88);
    assert!(constant(ENCODE_LZ, "MAX_LZ_SEGMENT") == MOST_SEGMENT_BYTES as u64);
};
