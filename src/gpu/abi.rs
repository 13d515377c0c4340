//! What host and kernels share: structs byte for byte, and constants.
//!
//! The C++ side is `kernels/lanepack/{format,node}.cuh` and
//! `kernels/arguments.cuh`; constants are compared with it when the crate is
//! compiled, sizes are asserted on both sides, and every parity test would fail
//! on fields out of order. What kernels of one encoding alone need stands in its
//! file of `decode/decoders` or `encode/encoders`.

pub(crate) mod encode;
mod header;
pub(crate) mod lz;
pub(crate) mod strings;

use bytemuck::{Pod, Zeroable};
pub(crate) use header::Header;

use crate::chunk::{Encoding, MAX_CHUNK_ROWS};
use crate::encoding::alp::Exponents;
use crate::encoding::{Physical, format};
use crate::lanes::VECTOR;

/// A node of a chunk in device memory, byte for byte `lanepack::Node` of
/// `kernels/lanepack/node.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Node {
    /// Addresses of the buffers, in the order of docs/FORMAT.md.
    pub buffer: [u64; 4],
    /// Parameter 0.
    pub parameter: u64,
    /// Of byte strings: bytes of codes, or of the values as they are stored. Of others parameter
    /// 1, or what the device header of the encoding says (such as `dict.cuh`).
    pub size: u64,
    /// Where the first value goes, in rows (of byte strings that are decoded: bytes).
    pub at: u64,
    /// Values.
    pub rows: u32,
    /// The [`Encoding`], as a number.
    pub encoding: u16,
    /// Of the root of a tree in scans: which of the column's trees it is.
    pub shape: u16,
}

/// `lanepack::WordsArguments`: of kernels that write words.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct WordsArguments {
    pub nodes: u64,
    pub out: u64,
    pub blocks_per_node: u32,
    pub zero: u32,
}

/// `lanepack::DictArguments`: the same of kernels that may find damage.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DictArguments {
    pub nodes: u64,
    pub out: u64,
    pub status: u64,
    pub blocks_per_node: u32,
    pub zero: u32,
}

/// `lanepack::DictSharedArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DictSharedArguments {
    pub nodes: u64,
    pub out: u64,
    pub status: u64,
    pub node_count: u32,
    pub vectors_per_node: u32,
    pub shared_values: u32,
    pub zero: u32,
}

/// `lanepack::DictStringsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct DictStringsArguments {
    pub nodes: u64,
    pub values: u64,
    pub out: u64,
    pub offsets: u64,
    pub status: u64,
    pub not_ascii: u64,
    pub blocks_per_node: u32,
    pub offset_bytes: u32,
}

/// `lanepack::CodeRangesArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct CodeRangesArguments {
    pub nodes: u64,
    pub bitmap: u64,
    pub ranges: u64,
    pub count: u32,
    pub zero: u32,
}

/// The codes of a dictionary that pass a test: `lanepack::CodeRange`, which kernels make.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct CodeRange {
    pub low: u32,
    pub high: u32,
    pub is_range: u32,
    pub zero: u32,
}

/// `lanepack::BitsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct BitsArguments {
    pub nodes: u64,
    pub out: u64,
    pub counts: u64,
    pub blocks_per_node: u32,
    pub zero: u32,
}

/// `lanepack::BytesArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct BytesArguments {
    pub nodes: u64,
    pub out: u64,
    pub status: u64,
    pub not_ascii: u64,
    pub blocks_per_node: u32,
    pub zero: u32,
}

/// `lanepack::FsstArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct FsstArguments {
    pub nodes: u64,
    pub out: u64,
    pub status: u64,
    pub offsets: u64,
    pub node_count: u32,
    pub blocks_per_node: u32,
    pub offset_bytes: u32,
    pub zero: u32,
}

/// `lanepack::OffsetsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct OffsetsArguments {
    pub nodes: u64,
    pub out: u64,
    pub status: u64,
    pub node_count: u32,
    pub blocks_per_node: u32,
}

/// `lanepack::StringsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct StringsArguments {
    pub nodes: u64,
    pub bytes: u64,
    pub offsets: u64,
    pub out: u64,
    pub valid: u64,
    pub status: u64,
    pub not_ascii: u64,
    pub blocks_per_node: u32,
    pub offset_bytes: u32,
    pub width: u32,
    pub zero: u32,
}

/// `lanepack::KeepArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct KeepArguments {
    pub nodes: u64,
    pub bitmap: u64,
    pub before: u64,
    pub places: u64,
    pub out: u64,
    pub rows: u64,
    pub stride: u32,
    pub node_shift: u32,
    pub each: u32,
    pub zero: u32,
}

/// `lanepack::GatherArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct GatherArguments {
    pub nodes: u64,
    pub bitmap: u64,
    pub before: u64,
    pub places: u64,
    pub out: u64,
    pub status: u64,
    pub rows: u64,
    pub stride: u32,
    pub nodes_each: u32,
    pub node_shift: u32,
    pub each: u32,
    pub each_word: u32,
    pub is_sign: u32,
}

/// `lanepack::KeepLengthsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct KeepLengthsArguments {
    pub keep: KeepArguments,
    pub lengths: u64,
    pub status: u64,
}

/// `lanepack::KeepPlacesArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct KeepPlacesArguments {
    pub places: u64,
    pub count: u32,
    pub zero: u32,
}

/// `lanepack::KeepWideArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct KeepWideArguments {
    pub keep: KeepArguments,
    pub words: u64,
}

/// `lanepack::KeepStringsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct KeepStringsArguments {
    pub keep: KeepArguments,
    pub stored_lengths: u64,
    pub value_lengths: u64,
    pub bytes_before: u64,
    pub byte_places: u64,
    pub bytes: u64,
    pub status: u64,
    pub offset_bytes: u32,
    pub zero: u32,
}

/// How words of a column compare.
pub(crate) const UNSIGNED: u32 = 0;
pub(crate) const SIGNED: u32 = 1;
pub(crate) const FLOAT: u32 = 2;

/// The order of words of a physical type.
pub(crate) fn order_of(physical: Physical) -> u32 {
    match physical {
        Physical::F32 | Physical::F64 => FLOAT,
        physical if physical.is_signed() => SIGNED,
        _ => UNSIGNED,
    }
}

/// `lanepack::Range`: values from `low` to `high`, both included, as unsigned numbers in
/// the order of their column (`kernels/lanepack/order.cuh`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Range {
    pub low: u64,
    pub high: u64,
}

/// `lanepack::SelectArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SelectArguments {
    pub nodes: u64,
    pub validity: u64,
    pub ranges: u64,
    pub out: u64,
    pub rows: u64,
    pub range_count: u32,
    pub order: u32,
    pub combine: u32,
    pub negate: u32,
    pub node_shift: u32,
    pub each: u32,
}

/// What becomes of the bits that a bitmap holds: `SelectArguments::combine`.
pub(crate) const COMBINE_SET: u32 = 0;
pub(crate) const COMBINE_AND: u32 = 1;
pub(crate) const COMBINE_OR: u32 = 2;

/// `lanepack::StoredLiteral`: a literal's first bytes as a number, and where the others are.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct StoredLiteral {
    pub head: u64,
    pub length: u32,
    pub rest: u32,
}

/// `lanepack::StringsTest`: what the strings of a chunk are tested for.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct StringsTest {
    pub table: u64,
    pub bytes: u64,
    pub lengths: u64,
    pub kind: u32,
    pub count: u32,
    pub range_count: u32,
    pub start: u32,
    pub accepts: u32,
    pub faults: u32,
    pub chunk: u32,
    pub zero: u32,
    pub zeros: [u32; 2],
}

/// Kinds of tests of strings: `StringsTest::kind`.
pub(crate) const STRINGS_NONE: u32 = 0;
pub(crate) const STRINGS_ALL: u32 = 1;
pub(crate) const STRINGS_LITERALS: u32 = 2;
pub(crate) const STRINGS_BYTE_ROWS: u32 = 3;
pub(crate) const STRINGS_WORD_ROWS: u32 = 4;
pub(crate) const STRINGS_CODES: u32 = 5;

/// `lanepack::SelectStringsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SelectStringsArguments {
    pub select: SelectArguments,
    pub lengths: u64,
    pub tests: u64,
    pub status: u64,
}

/// `lanepack::WideRange`: words of both ends, the sign of the last one flipped.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct WideRange {
    pub low: [u64; 4],
    pub high: [u64; 4],
}

/// `lanepack::SelectWideArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct SelectWideArguments {
    pub select: SelectArguments,
    pub words: u64,
    pub ranges: u64,
    pub range_count: u32,
    pub count: u32,
}

/// `lanepack::JoinArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct JoinArguments {
    pub from: u64,
    pub out: u64,
    pub bits: u64,
    pub combine: u32,
    pub negate: u32,
}

/// `lanepack::CountArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct CountArguments {
    pub bitmap: u64,
    pub count: u64,
    pub bits: u64,
}

/// `lanepack::ScanArguments` before its lists of nodes and literals.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct ScanHead {
    pub mask: u64,
    pub within: u64,
    pub partials: u64,
    pub status: u64,
    pub rows: u64,
    pub chunks: u32,
    pub stride: u32,
    pub node_shift: u32,
    pub each: u32,
    pub combine: u32,
    pub zero: u32,
}

/// `lanepack::Reduction`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Reduction {
    pub first: u32,
    pub kind: u32,
}

/// What becomes of partials: `Reduction::kind`.
pub(crate) const REDUCE_SUM: u32 = 0;
pub(crate) const REDUCE_WIDE_SUM: u32 = 1;
pub(crate) const REDUCE_FLOAT_SUM: u32 = 2;
pub(crate) const REDUCE_LEAST: u32 = 3;
pub(crate) const REDUCE_GREATEST: u32 = 4;
pub(crate) const REDUCE_WIDE_LEAST: u32 = 5;
pub(crate) const REDUCE_WIDE_GREATEST: u32 = 6;

/// `lanepack::ReduceArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct ReduceArguments {
    pub partials: u64,
    pub out: u64,
    pub nodes: u64,
    pub reductions: u64,
    pub count: u32,
    pub chunks: u32,
    pub stride: u32,
    pub zero: u32,
}

/// `lanepack::WidthsArguments`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(crate) struct WidthsArguments {
    pub nodes: u64,
    pub out: u64,
    pub count: u32,
    pub size: u32,
    pub stride: u32,
    pub node: u32,
    pub shape: u32,
    pub zero: u32,
}

/// Encodings of nodes that only scans have, of words of wide values.
pub(crate) const STRIDED: u16 = 30;
pub(crate) const SIGN: u16 = 31;

/// An encoding as a member of a set.
pub(crate) const fn encoding_bit(encoding: u16) -> u32 {
    1 << encoding
}

/// What kernels find wrong: `lanepack::Fault`.
pub(crate) struct Fault;

impl Fault {
    const CODE: u32 = 1;
    const ESCAPE: u32 = 2;
    const TILE_BYTES: u32 = 3;
    const LENGTHS: u32 = 4;
    const UTF8: u32 = 5;
    const CHARACTER: u32 = 6;
    const WIDTH: u32 = 7;
    const VALUE: u32 = 8;
    const RUNS: u32 = 9;
    const PREFIX: u32 = 10;
    const SEGMENT: u32 = 11;

    /// The rule that is broken.
    pub fn message(fault: u32) -> String {
        let what = match fault {
            Self::CODE => "a code that stands for no symbol",
            Self::ESCAPE => "codes that end inside an escape",
            Self::TILE_BYTES => "codes that stand for more or fewer bytes than the tile index says",
            Self::LENGTHS => "lengths of a vector that do not add up to its bytes",
            Self::UTF8 => "text that is not UTF-8",
            Self::CHARACTER => "a text that ends inside a character",
            Self::WIDTH => "a value of another width than its column's",
            Self::RUNS => "runs of a vector that do not add up to its values",
            Self::PREFIX => "a row that begins with more bytes than the one before has",
            Self::SEGMENT => "literals and matches that do not make the symbols of a segment",
            Self::VALUE => "a code of a dictionary that stands for no value",
            _ => return format!("fault {fault} of a kernel"),
        };
        what.to_owned()
    }
}

const _: () = {
    assert!(size_of::<Node>() == 64);
    assert!(size_of::<WordsArguments>() == 24);
    assert!(size_of::<DictArguments>() == 32);
    assert!(size_of::<DictSharedArguments>() == 40);
    assert!(size_of::<DictStringsArguments>() == 56);
    assert!(size_of::<CodeRangesArguments>() == 32);
    assert!(size_of::<CodeRange>() == 16);
    assert!(size_of::<BitsArguments>() == 32);
    assert!(size_of::<BytesArguments>() == 40);
    assert!(size_of::<FsstArguments>() == 48);
    assert!(size_of::<OffsetsArguments>() == 32);
    assert!(size_of::<StringsArguments>() == 72);
    assert!(size_of::<KeepArguments>() == 64);
    assert!(size_of::<KeepLengthsArguments>() == 80);
    assert!(size_of::<KeepPlacesArguments>() == 16);
    assert!(size_of::<KeepWideArguments>() == 72);
    assert!(size_of::<KeepStringsArguments>() == 120);
    assert!(size_of::<Range>() == 16);
    assert!(size_of::<SelectArguments>() == 64);
    assert!(size_of::<StoredLiteral>() == 16);
    assert!(size_of::<StringsTest>() == 64);
    assert!(size_of::<SelectStringsArguments>() == 88);
    assert!(size_of::<WideRange>() == 64);
    assert!(size_of::<SelectWideArguments>() == 88);
    assert!(size_of::<JoinArguments>() == 32);
    assert!(size_of::<CountArguments>() == 24);
    assert!(size_of::<ScanHead>() == 64);
    assert!(size_of::<Reduction>() == 8);
    assert!(size_of::<ReduceArguments>() == 48);
    assert!(size_of::<WidthsArguments>() == 40);
    assert!(size_of::<GatherArguments>() == 80);
};

/// The value that a header of the kernels gives a constant.
pub(crate) const fn constant(header: &Header, name: &str) -> u64 {
    header.number("constexpr u32 ", name)
}

pub(crate) const FORMAT: &Header = &Header::read(include_str!("../../kernels/lanepack/format.cuh"));

const _: () = {
    assert!(constant(FORMAT, "VECTOR") == VECTOR as u64);
    assert!(constant(FORMAT, "MAX_CHUNK_ROWS") == MAX_CHUNK_ROWS as u64);
    assert!(constant(FORMAT, "PACKED_UNIT") == format::PACKED_UNIT as u64);
    assert!(constant(FORMAT, "TILE") == format::TILE as u64);
    assert!(constant(FORMAT, "TILES_PER_GROUP") == format::TILES_PER_GROUP as u64);
    assert!(constant(FORMAT, "TILE_GROUP") == format::TILE_GROUP as u64);
    assert!(constant(FORMAT, "TILE_OFFSET_BITS") == format::TILE_OFFSET_BITS as u64);
    assert!(constant(FORMAT, "SEGMENT") == format::SEGMENT as u64);
    assert!(constant(FORMAT, "ESCAPE") == format::ESCAPE as u64);
    assert!(constant(FORMAT, "FRONT_BLOCK") == format::FRONT_BLOCK as u64);
    assert!(constant(FORMAT, "LOCATOR_COUNT_BITS") == format::LOCATOR_COUNT_BITS as u64);
    assert!(constant(FORMAT, "PLAIN") == Encoding::Plain as u64);
    assert!(constant(FORMAT, "CONSTANT") == Encoding::Constant as u64);
    assert!(constant(FORMAT, "FFOR") == Encoding::Ffor as u64);
    assert!(constant(FORMAT, "ALP") == Encoding::Alp as u64);
    assert!(constant(FORMAT, "FSST") == Encoding::Fsst as u64);
    assert!(constant(FORMAT, "DICT") == Encoding::Dict as u64);
    assert!(constant(FORMAT, "PFOR") == Encoding::Pfor as u64);
    assert!(constant(FORMAT, "ALP_RD") == Encoding::AlpRd as u64);
    assert!(constant(FORMAT, "FRONT") == Encoding::Front as u64);
};

const ALP: &Header = &Header::read(include_str!("../../kernels/lanepack/alp.cuh"));
const ORDER: &Header = &Header::read(include_str!("../../kernels/lanepack/order.cuh"));
const STEPS: &Header = &Header::read(include_str!("../../kernels/lanepack/steps.cuh"));
const VALUES: &Header = &Header::read(include_str!("../../kernels/lanepack/values.cuh"));
const SCAN: &Header = &Header::read(include_str!("../../kernels/scan.cu"));

const _: () = {
    assert!(constant(ALP, "ALP_DIVIDED") == Exponents::DIVIDED as u64);
    assert!(constant(ORDER, "UNSIGNED") == UNSIGNED as u64);
    assert!(constant(ORDER, "SIGNED") == SIGNED as u64);
    assert!(constant(ORDER, "FLOAT") == FLOAT as u64);
    assert!(constant(STEPS, "COMBINE_SET") == COMBINE_SET as u64);
    assert!(constant(STEPS, "COMBINE_AND") == COMBINE_AND as u64);
    assert!(constant(STEPS, "COMBINE_OR") == COMBINE_OR as u64);
    assert!(constant(VALUES, "STRIDED") == STRIDED as u64);
    assert!(constant(VALUES, "SIGN") == SIGN as u64);
    assert!(constant(SCAN, "REDUCE_SUM") == REDUCE_SUM as u64);
    assert!(constant(SCAN, "REDUCE_WIDE_SUM") == REDUCE_WIDE_SUM as u64);
    assert!(constant(SCAN, "REDUCE_FLOAT_SUM") == REDUCE_FLOAT_SUM as u64);
    assert!(constant(SCAN, "REDUCE_LEAST") == REDUCE_LEAST as u64);
    assert!(constant(SCAN, "REDUCE_GREATEST") == REDUCE_GREATEST as u64);
    assert!(constant(SCAN, "REDUCE_WIDE_LEAST") == REDUCE_WIDE_LEAST as u64);
    assert!(constant(SCAN, "REDUCE_WIDE_GREATEST") == REDUCE_WIDE_GREATEST as u64);
};

const WALK: &Header = &Header::read(include_str!("../../kernels/lanepack/walk.cuh"));

const _: () = {
    assert!(constant(WALK, "STRINGS_NONE") == STRINGS_NONE as u64);
    assert!(constant(WALK, "STRINGS_ALL") == STRINGS_ALL as u64);
    assert!(constant(WALK, "STRINGS_LITERALS") == STRINGS_LITERALS as u64);
    assert!(constant(WALK, "STRINGS_BYTE_ROWS") == STRINGS_BYTE_ROWS as u64);
    assert!(constant(WALK, "STRINGS_WORD_ROWS") == STRINGS_WORD_ROWS as u64);
    assert!(constant(WALK, "STRINGS_CODES") == STRINGS_CODES as u64);
};

const NODE: &Header = &Header::read(include_str!("../../kernels/lanepack/node.cuh"));

const fn fault(name: &str) -> u32 {
    NODE.number("FAULT_", name) as u32
}

const _: () = {
    assert!(fault("CODE") == Fault::CODE);
    assert!(fault("ESCAPE") == Fault::ESCAPE);
    assert!(fault("TILE_BYTES") == Fault::TILE_BYTES);
    assert!(fault("LENGTHS") == Fault::LENGTHS);
    assert!(fault("UTF8") == Fault::UTF8);
    assert!(fault("CHARACTER") == Fault::CHARACTER);
    assert!(fault("WIDTH") == Fault::WIDTH);
    assert!(fault("VALUE") == Fault::VALUE);
    assert!(fault("RUNS") == Fault::RUNS);
    assert!(fault("PREFIX") == Fault::PREFIX);
    assert!(fault("SEGMENT") == Fault::SEGMENT);
};
