//! What host and kernels share: structs byte for byte, and constants.
//!
//! The structs are those of the C++ sources: `build/arguments.rs` generates them, with checks of sizes
//! and offsets on both sides. Constants that both sides have are compared when the crate is compiled;
//! what kernels of one encoding alone need is in its file of `decode/decoders` or `encode/encoders`,
//! what all encoders need in `encode/constants.rs`.

mod header;

use std::fmt::Debug;
use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};
pub(crate) use header::Header;

use super::DevicePtr;
use crate::chunk::{Encoding, MAX_CHUNK_ROWS};
use crate::encoding::alp::Exponents;
use crate::encoding::{Physical, format};
use crate::lanes::VECTOR;

/// A struct that kernels share with the host, and may take as their argument.
pub trait Arguments: Pod + Debug {
    /// The name of the C++ struct.
    const NAME: &'static str;
}

include!(concat!(env!("OUT_DIR"), "/arguments.rs"));

/// Whether there is a kernel of this name that takes this struct.
pub(crate) const fn takes(kernel: &str, argument: &str) -> bool {
    let mut index = 0;
    while index < KERNELS.len() {
        if is_equal(KERNELS[index].0, kernel) && is_equal(KERNELS[index].1, argument) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

impl Target {
    /// Buffers of which there is only the first.
    pub(crate) fn only(first: DevicePtr<u8>) -> [DevicePtr<u8>; 3] {
        [first, DevicePtr::NULL, DevicePtr::NULL]
    }
}

impl Node {
    /// Buffers of which there is only the first.
    pub(crate) fn only(first: DevicePtr<u8>) -> [DevicePtr<u8>; 4] {
        [first, DevicePtr::NULL, DevicePtr::NULL, DevicePtr::NULL]
    }
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

/// What becomes of the bits that a bitmap holds: `SelectArguments::combine`.
pub(crate) const COMBINE_SET: u32 = 0;
pub(crate) const COMBINE_AND: u32 = 1;
pub(crate) const COMBINE_OR: u32 = 2;

/// Kinds of tests of strings: `StringsTest::kind`.
pub(crate) const STRINGS_NONE: u32 = 0;
pub(crate) const STRINGS_ALL: u32 = 1;
pub(crate) const STRINGS_LITERALS: u32 = 2;
pub(crate) const STRINGS_BYTE_ROWS: u32 = 3;
pub(crate) const STRINGS_WORD_ROWS: u32 = 4;
pub(crate) const STRINGS_CODES: u32 = 5;

/// What becomes of partials: `Reduction::kind`.
pub(crate) const REDUCE_SUM: u32 = 0;
pub(crate) const REDUCE_WIDE_SUM: u32 = 1;
pub(crate) const REDUCE_FLOAT_SUM: u32 = 2;
pub(crate) const REDUCE_LEAST: u32 = 3;
pub(crate) const REDUCE_GREATEST: u32 = 4;
pub(crate) const REDUCE_WIDE_LEAST: u32 = 5;
pub(crate) const REDUCE_WIDE_GREATEST: u32 = 6;

/// Encodings of nodes that only scans have, of words of wide values.
pub(crate) const STRIDED: u16 = 30;
pub(crate) const SIGN: u16 = 31;

/// An encoding as a member of a set.
pub(crate) const fn encoding_bit(encoding: u16) -> u32 {
    1 << encoding
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_with_their_arguments() {
        assert!(takes("ffor_8", WordsArguments::NAME));
        assert!(takes("lz_find_wide_64", LzArguments::NAME));
        for (kernel, argument) in
            [("ffor_8", "DictArguments"), ("ffor_8", "WordsArgument"), ("ffor", "WordsArguments")]
        {
            assert!(!takes(kernel, argument), "{kernel} {argument}");
        }
    }
}
