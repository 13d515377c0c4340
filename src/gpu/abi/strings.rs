//! What host and kernels that compress strings share: the structs of
//! `kernels/encode_arguments.cuh`.

use bytemuck::{Pod, Zeroable};

use super::constant;

/// `lanepack::FsstVector`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstVector {
    /// Bytes and segments of the values, nulls left out.
    pub bytes: u64,
    pub segments: u32,
    pub run: u32,
}

/// `lanepack::FsstPlace`: code bytes and value bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstPlace {
    pub codes: u64,
    pub bytes: u64,
}

/// `lanepack::FsstOutput`: addresses of a chunk's buffers; 0 if it has none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstOutput {
    pub codes: u64,
    pub starts: u64,
    pub tiles: u64,
}

/// `lanepack::FsstSample`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstSample {
    pub bytes: u64,
    pub segments: u64,
    pub picked_bytes: u64,
    pub picked_codes: u64,
    pub picked: u32,
    pub least: u32,
    pub most: u32,
    pub first_only: u32,
}

/// `lanepack::FsstSegment`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstSegment {
    pub from: u64,
    pub at: u32,
    pub length: u32,
}

/// `lanepack::FsstWindow`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstWindow {
    pub values: u64,
    pub offsets: u64,
    pub valid: u64,
    pub first_bit: u64,
    pub table: u64,
    pub value_lengths: u64,
    pub code_lengths: u64,
    pub vectors: u64,
    pub run_starts: u64,
    pub runs: u64,
    pub places: u64,
    pub codes: u64,
    pub marks: u64,
    pub chunks: u64,
    pub outputs: u64,
    pub rows: u32,
    pub chunk_rows: u32,
    pub run_bytes: u32,
    pub blocks_per_chunk: u32,
    pub zero: u32,
    pub zero_too: u32,
}

/// `lanepack::FsstSampling`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstSampling {
    pub window: FsstWindow,
    pub samples: u64,
    pub numbers: u64,
    pub picks: u64,
    pub bytes: u64,
    pub segments: u64,
    pub group_vectors: u32,
    pub budget: u32,
    pub capacity: u32,
    pub segment_capacity: u32,
    pub first_only: u32,
    pub zero: u32,
}

/// Bytes of a bound that kernels hand out.
pub(crate) const STRING_HEAD: usize = 72;

/// `lanepack::StringBounds`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StringBounds {
    pub heads: [[u8; STRING_HEAD]; 2],
    pub length: [u32; 2],
    pub has: u32,
    pub is_single: u32,
    pub from: u64,
}

/// `lanepack::StringBoundsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct StringBoundsArguments {
    pub window: FsstWindow,
    pub extremes: u64,
    pub bounds: u64,
    pub borders: u64,
}

/// `lanepack::ByteSpan`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct ByteSpan {
    pub from: u64,
    pub to: u64,
    pub bytes: u64,
}

/// `lanepack::SpansArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SpansArguments {
    pub spans: u64,
    pub blocks_per_span: u32,
    pub zero: u32,
}

/// `lanepack::GatherVector`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct GatherVector {
    pub to: u64,
    pub row: u32,
    pub zero: u32,
}

/// `lanepack::GatherArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct GatherArguments {
    pub window: FsstWindow,
    pub vectors: u64,
    pub count: u32,
    pub zero: u32,
}

const ARGUMENTS: &str = include_str!("../../../kernels/encode_arguments.cuh");

const _: () = {
    assert!(size_of::<FsstVector>() == 16);
    assert!(size_of::<FsstPlace>() == 16);
    assert!(size_of::<FsstOutput>() == 24);
    assert!(size_of::<FsstSample>() == 48);
    assert!(size_of::<FsstSegment>() == 16);
    assert!(size_of::<FsstWindow>() == 144);
    assert!(size_of::<FsstSampling>() == 208);
    assert!(size_of::<StringBounds>() == 168);
    assert!(size_of::<StringBoundsArguments>() == 168);
    assert!(size_of::<ByteSpan>() == 24);
    assert!(size_of::<SpansArguments>() == 16);
    assert!(size_of::<GatherVector>() == 16);
    assert!(size_of::<GatherArguments>() == 160);
    assert!(constant(ARGUMENTS, "STRING_HEAD") == STRING_HEAD as u64);
};
