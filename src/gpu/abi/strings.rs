//! What host and kernels that compress strings share: the structs of
//! `kernels/encode_arguments.cuh`.

use bytemuck::{Pod, Zeroable};

use super::{Header, constant};
use crate::encoding::fsst;

/// `lanepack::FsstVector`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstVector {
    /// Bytes and pieces of the values, nulls left out.
    pub bytes: u64,
    pub pieces: u32,
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
    pub vectors: u32,
    pub zero: u32,
}

/// `lanepack::FsstBefore`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstBefore {
    pub bytes: u64,
    pub pieces: u64,
}

/// `lanepack::FsstRange`: vectors of a group and their rows, and the number of a table.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstRange {
    pub first_vector: u32,
    pub end_vector: u32,
    pub group: u32,
    pub table: u32,
    pub rows: u32,
}

/// `lanepack::FsstPiece`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstPiece {
    pub from: u64,
    pub length: u32,
    pub zero: u32,
}

/// `lanepack::FsstSample`: what a table makes of a sample.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstSample {
    pub bytes: u64,
    pub codes: u64,
    pub pieces: u32,
    pub least_inverted: u32,
    pub most: u32,
    pub zero: u32,
}

/// Bytes of the largest serialised symbol table.
pub(crate) const MAX_TABLE: usize = 2048;

/// `lanepack::FsstTrained`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct FsstTrained {
    pub table: [u8; MAX_TABLE],
    pub bytes: u64,
    pub codes: u32,
    /// 0 if there is no table.
    pub pieces: u32,
}

/// Bytes of `lanepack::FsstTrainer`, and keys that it begins with.
pub(crate) const TRAINER_BYTES: usize = 2_101_264;
pub(crate) const CANDIDATES: usize = 65_536;

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
    pub row_pieces: u64,
    pub run_starts: u64,
    pub runs: u64,
    pub places: u64,
    pub codes: u64,
    pub marks: u64,
    pub tile_runs: u64,
    pub chunks: u64,
    pub outputs: u64,
    pub taken: u64,
    pub rows: u32,
    pub chunk_rows: u32,
    pub run_bytes: u32,
    pub first_vector: u32,
    pub end_vector: u32,
    pub blocks_per_chunk: u32,
    pub zero: u32,
    pub zero_too: u32,
}

/// `lanepack::SampleStringsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SampleStringsArguments {
    pub window: FsstWindow,
    pub chunks: u64,
}

/// `lanepack::DistinctStringsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DistinctStringsArguments {
    pub window: FsstWindow,
    pub tables: u64,
    pub counts: u64,
    /// Bytes that all distinct values of each table begin with.
    pub common: u64,
    /// For each row of the column the slot of its value.
    pub slots: u64,
    /// Offsets of the distinct values, bytes of those of each table and of the tables before.
    pub offsets: u64,
    pub totals: u64,
    pub before: u64,
    pub values: u64,
    pub seed: u64,
    pub blocks_per_table: u32,
    pub value_rows: u32,
    pub run: u32,
    pub to_spare: u32,
}

/// `lanepack::FsstSampling`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstSampling {
    pub window: FsstWindow,
    pub before: u64,
    pub ranges: u64,
    pub pieces: u64,
    pub trained: u64,
    pub samples: u64,
    pub budget: u32,
    pub capacity: u32,
    pub blocks_per_range: u32,
    pub zero: u32,
}

/// `lanepack::FsstTraining`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstTraining {
    pub values: u64,
    pub pieces: u64,
    pub trained: u64,
    pub trainers: u64,
    pub capacity: u32,
    pub blocks_per_table: u32,
    pub share: u32,
    pub refines: u32,
    pub is_last: u32,
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
    pub zero: u32,
}

/// `lanepack::StringSingle`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct StringSingle {
    pub from: u64,
    pub length: u32,
    pub is_single: u32,
}

/// `lanepack::StringBoundsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct StringBoundsArguments {
    pub window: FsstWindow,
    pub firsts: u64,
    pub singles: u64,
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

const TABLE: &Header = &Header::read(include_str!("../../../kernels/lanepack/fsst_encode.cuh"));
const TRAIN: &Header = &Header::read(include_str!("../../../kernels/fsst_train.cu"));
const ARGUMENTS: &Header = &Header::read(include_str!("../../../kernels/encode_arguments.cuh"));

const _: () = {
    assert!(size_of::<FsstVector>() == 16);
    assert!(size_of::<FsstPlace>() == 16);
    assert!(size_of::<FsstOutput>() == 32);
    assert!(size_of::<FsstBefore>() == 16);
    assert!(size_of::<FsstRange>() == 20);
    assert!(size_of::<FsstPiece>() == 16);
    assert!(size_of::<FsstSample>() == 32);
    assert!(size_of::<FsstTrained>() == 2064);
    assert!(size_of::<FsstWindow>() == 176);
    assert!(size_of::<SampleStringsArguments>() == 184);
    assert!(size_of::<DistinctStringsArguments>() == 264);
    assert!(size_of::<FsstSampling>() == 232);
    assert!(size_of::<FsstTraining>() == 56);
    assert!(size_of::<StringBounds>() == 160);
    assert!(size_of::<StringSingle>() == 16);
    assert!(size_of::<StringBoundsArguments>() == 216);
    assert!(size_of::<ByteSpan>() == 24);
    assert!(size_of::<SpansArguments>() == 16);
    assert!(size_of::<GatherVector>() == 16);
    assert!(size_of::<GatherArguments>() == 192);
    assert!(constant(ARGUMENTS, "STRING_HEAD") == STRING_HEAD as u64);
    assert!(constant(TABLE, "MAX_TABLE") == MAX_TABLE as u64);
    assert!(constant(ARGUMENTS, "SAMPLE_PIECE") == fsst::PIECE as u64);
    assert!(constant(ARGUMENTS, "CANDIDATES") == CANDIDATES as u64);
    assert!(fsst::VACANT == u64::from_ne_bytes([constant(TRAIN, "VACANT_BYTE") as u8; 8]));
    assert!(constant(TRAIN, "WHOLE_SHARE") == fsst::WHOLE as u64);
    assert!(constant(TRAIN, "MOST_SWAPS") == fsst::SWAPS as u64);
    assert!(constant(TRAIN, "MOST_ADDITIONS") == fsst::ADDITIONS as u64);
    assert!(constant(TRAIN, "LEAST_COUNT") == fsst::LEAST_COUNT);
    assert!(constant(TRAIN, "SINGLE_WEIGHT") == fsst::SINGLE_WEIGHT);
    assert!(constant(TRAIN, "BYTES_PER_OCCURRENCE") == fsst::BYTES_PER_OCCURRENCE);
};
