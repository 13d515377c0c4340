//! What host and encoding kernels share: the structs of `kernels/encode.cuh`.

use bytemuck::{Pod, Zeroable};

pub(crate) use super::{FLOAT, SIGNED, UNSIGNED, encoding_bit, order_of};
use super::{Header, constant};
use crate::encoding::alp::MAX_CANDIDATES;
use crate::encoding::alp_rd::{MOST_ENTRIES, MOST_LEFT, SAMPLE};
use crate::encoding::dict::{COUNTED, COUNTED_OF_VECTOR, Counted, HASHED};
use crate::encoding::plan::SAMPLED_VECTORS;
use crate::encoding::{pfor, windows};
use crate::lanes::VECTOR;

/// `lanepack::Source`: a column to be compressed.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct Source {
    /// Address of row 0; 0 for bitmaps of which only the validity counts.
    pub values: u64,
    /// Address of the validity bitmap, a multiple of 4; 0 if all rows are valid.
    pub valid: u64,
    pub rows: u64,
    /// Bit of row 0, below 32.
    pub valid_at: u32,
    /// Words from one value to the next.
    pub stride: u32,
    pub chunk_vectors: u32,
    pub order: u32,
    /// Address of the rows of each chunk; 0 if all but the last are full.
    pub chunk_rows: u64,
}

/// `lanepack::ChunkTotals`: of a chunk's values, or of what an encoding turns them into.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct ChunkTotals {
    /// Bounds of the valid values, ordered as unsigned numbers; `low` above `high`
    /// if there are none.
    pub low: u64,
    pub high: u64,
    /// Units of packed words of all values, and of those of the sampled vectors.
    pub units: u32,
    pub sampled_units: u32,
    /// With exceptions (`pfor`, `alp`): the same, exceptions, and units of their blocks, of
    /// all vectors and of the sampled ones.
    pub patched_units: u32,
    pub sampled_patched_units: u32,
    pub exceptions: u32,
    pub block_units: u32,
    pub sampled_block_units: u32,
    pub zero: u32,
}

/// `lanepack::VectorMeasures`: addresses of what is known of vectors.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct VectorMeasures {
    pub lows: u64,
    pub highs: u64,
    pub places: u64,
    /// 0 if windows with exceptions are not asked for.
    pub bases: u64,
    pub patched_places: u64,
    pub locators: u64,
    /// Of values that an encoding turns into others.
    pub starts: u64,
    pub totals: u64,
}

/// `lanepack::MeasureArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct MeasureArguments {
    pub source: Source,
    pub of: VectorMeasures,
    /// Of [`AskedChunk`]s; 0 for all chunks, and everything of them.
    pub chunks: u64,
    pub blocks_per_chunk: u32,
    pub which: u32,
}

/// `lanepack::AskedChunk`: a chunk, and the encodings that it is measured for, as bits
/// ([`encoding_bit`]).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct AskedChunk {
    pub chunk: u32,
    pub asked: u32,
}

/// Of which vectors something is searched for: of all; of those that estimates look at; or of the
/// others, in chunks that are asked for.
pub(crate) const MEASURE_ALL: u32 = 0;
pub(crate) const MEASURE_SAMPLED: u32 = 1;
pub(crate) const MEASURE_REST: u32 = 2;

/// `lanepack::WideBounds`: of a vector of values of two or four words, the sign of the
/// top one flipped.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct WideBounds {
    pub low: [u64; 4],
    pub high: [u64; 4],
    /// Words that every valid value fits.
    pub words: u32,
    /// Valid values.
    pub valid: u32,
}

/// `lanepack::WideBoundsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct WideBoundsArguments {
    pub source: Source,
    pub bounds: u64,
}

/// `lanepack::LayoutArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct LayoutArguments {
    pub source: Source,
    pub of: VectorMeasures,
    /// As of [`MeasureArguments`].
    pub chunks: u64,
    pub which: u32,
    /// The encoding that this is measured for, as a bit.
    pub what: u32,
}

/// `lanepack::Target`: a chunk's node to be written.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct Target {
    /// Addresses of its buffers; 0 for those that it lacks.
    pub buffer: [u64; 3],
    /// The chunk's first vector.
    pub vector: u64,
    pub rows: u32,
    pub zero: u32,
}

/// `lanepack::PackArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct PackArguments {
    pub source: Source,
    pub targets: u64,
    pub of: VectorMeasures,
    pub blocks_per_target: u32,
    /// Of values that are turned into others: whether with exceptions.
    pub is_patched: u32,
}

/// `lanepack::CopyArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct CopyArguments {
    pub source: Source,
    pub targets: u64,
    pub blocks_per_target: u32,
    /// Words of a row.
    pub row_words: u32,
}

/// `lanepack::CopyBitsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct CopyBitsArguments {
    pub source: Source,
    pub targets: u64,
    pub counts: u64,
    pub blocks_per_target: u32,
    /// Bit of row 0 in the values.
    pub values_at: u32,
}

/// `lanepack::Gap`: bytes to be set to zero.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct Gap {
    pub at: u64,
    pub bytes: u64,
}

/// `lanepack::GapsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct GapsArguments {
    pub gaps: u64,
    pub count: u64,
}

/// `lanepack::AlpArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct AlpArguments {
    pub source: Source,
    pub candidates: u64,
    pub choices: u64,
    pub lows: u64,
    pub highs: u64,
    pub places: u64,
    pub locators: u64,
    pub totals: u64,
    pub targets: u64,
    pub blocks_per_target: u32,
    pub zero: u32,
}

/// `lanepack::RdTotals`: what a chunk comes to as alp_rd.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct RdTotals {
    pub dictionary: [u16; MOST_ENTRIES],
    /// The node's parameter 1; 0 of a chunk that alp_rd does not pay for.
    pub cut: u32,
    /// Bits that the sample takes.
    pub cost: u32,
    pub exceptions: u32,
    /// Values that blocks of exceptions take.
    pub exceptions_end: u32,
}

/// `lanepack::AlpRdArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct AlpRdArguments {
    pub source: Source,
    /// Address of the chunks' totals of alp; 0 if that is not allowed.
    pub alp: u64,
    pub totals: u64,
    pub locators: u64,
    pub targets: u64,
    pub blocks_per_target: u32,
    pub zero: u32,
}

/// `lanepack::SampledRows`: the sampled vectors of a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SampledRows {
    /// Values that a dictionary would have a code for.
    pub values: u32,
    /// Distinct ones, as counted in a bitmap, and the sum of those of each vector.
    pub distinct: u32,
    pub of_vectors: u32,
    pub runs: u32,
    pub rows: u32,
    pub zero: u32,
}

impl SampledRows {
    /// What this says of distinct values of a chunk of so many rows.
    pub fn counted(&self, rows: usize) -> Counted {
        Counted {
            values: self.values as usize,
            distinct: self.distinct as usize,
            of_vectors: self.of_vectors as usize,
            vectors: rows.div_ceil(VECTOR).min(SAMPLED_VECTORS),
        }
    }
}

/// `lanepack::SampleArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SampleArguments {
    pub source: Source,
    pub chunks: u64,
}

/// `lanepack::DistinctTable`: a chunk whose distinct values are looked for.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DistinctTable {
    /// Address of 2^`slot_bits` keys of 8 bytes and one more, all ones at first.
    pub keys: u64,
    /// A code of 4 bytes for each, zeros at first.
    pub codes: u64,
    /// Room for `most` keys of 8 bytes.
    pub found: u64,
    /// Room for the distinct values, as many bytes each as they are sorted by; twice.
    pub sorted: u64,
    pub spare: u64,
    pub chunk: u32,
    pub slot_bits: u32,
    pub most: u32,
    /// Rows of the chunk.
    pub rows: u32,
}

/// `lanepack::DistinctArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DistinctArguments {
    pub source: Source,
    pub tables: u64,
    /// Distinct values of each table; zeros at first.
    pub counts: u64,
    /// For each row of the source the slot of its value.
    pub codes: u64,
    /// `value_vectors` vectors of distinct values for each chunk.
    pub values: u64,
    pub seed: u64,
    pub blocks_per_table: u32,
    pub value_vectors: u32,
    pub run: u32,
    pub to_spare: u32,
}

/// `lanepack::DistinctCodesArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DistinctCodesArguments {
    pub tables: u64,
    /// For each row of the column the slot of its value, which becomes its code.
    pub codes: u64,
    pub chunk_rows: u32,
    pub blocks_per_table: u32,
}

/// Bytes of `lanepack::Candidates` and `lanepack::AlpChoice`, which only kernels read.
pub(crate) const CANDIDATES_BYTES: usize = 16;
pub(crate) const CHOICE_BYTES: usize = 16;

const ENCODE: &Header = &Header::read(include_str!("../../../kernels/encode.cuh"));
const ROWS: &Header = &Header::read(include_str!("../../../kernels/encode_rows.cuh"));
const PATCHES: &Header = &Header::read(include_str!("../../../kernels/encode_patches.cuh"));
const ENCODE_ALP_RD: &Header = &Header::read(include_str!("../../../kernels/encode_alp_rd.cu"));

const _: () = {
    assert!(size_of::<Source>() == 48);
    assert!(size_of::<ChunkTotals>() == 48);
    assert!(size_of::<VectorMeasures>() == 64);
    assert!(size_of::<MeasureArguments>() == 128);
    assert!(size_of::<AskedChunk>() == 8);
    assert!(size_of::<WideBounds>() == 72);
    assert!(size_of::<WideBoundsArguments>() == 56);
    assert!(size_of::<LayoutArguments>() == 128);
    assert!(size_of::<Target>() == 40);
    assert!(size_of::<PackArguments>() == 128);
    assert!(size_of::<CopyArguments>() == 64);
    assert!(size_of::<CopyBitsArguments>() == 72);
    assert!(size_of::<GapsArguments>() == 16);
    assert!(size_of::<AlpArguments>() == 120);
    assert!(size_of::<RdTotals>() == 32);
    assert!(size_of::<AlpRdArguments>() == 88);
    assert!(size_of::<SampledRows>() == 24);
    assert!(size_of::<SampleArguments>() == 56);
    assert!(size_of::<DistinctTable>() == 56);
    assert!(size_of::<DistinctArguments>() == 104);
    assert!(1 << constant(ROWS, "COUNTED_BITS") == COUNTED as u64);
    assert!(constant(ROWS, "HASHED") == HASHED as u64);
    assert!(1 << constant(ROWS, "COUNTED_OF_VECTOR_BITS") == COUNTED_OF_VECTOR as u64);
    assert!(constant(ENCODE, "MOST_ENTRIES") == MOST_ENTRIES as u64);
    assert!(constant(ENCODE_ALP_RD, "RD_SAMPLE") == SAMPLE as u64);
    assert!(constant(ENCODE_ALP_RD, "MOST_LEFT") == MOST_LEFT as u64);
    assert!(1 << constant(ENCODE, "BIN_BITS") == windows::BINS as u64);
    assert!(constant(ENCODE, "BIN_STRIDE") == windows::STRIDE as u64);
    assert!(constant(PATCHES, "ROUNDS_OF_WINDOWS") == pfor::ROUNDS as u64);
    assert!(constant(ENCODE, "SAMPLED_VECTORS") == SAMPLED_VECTORS as u64);
    assert!(constant(ENCODE, "MAX_CANDIDATES") == MAX_CANDIDATES as u64);
    assert!(constant(ENCODE, "MEASURE_ALL") == MEASURE_ALL as u64);
    assert!(constant(ENCODE, "MEASURE_SAMPLED") == MEASURE_SAMPLED as u64);
    assert!(constant(ENCODE, "MEASURE_REST") == MEASURE_REST as u64);
};
