//! Constants that encoders and their kernels share, compared when the crate is compiled.

use crate::encoding::alp::MAX_CANDIDATES;
use crate::encoding::alp_rd::{MOST_ENTRIES, MOST_LEFT, SAMPLE};
use crate::encoding::dict::{COUNTED, COUNTED_OF_VECTOR, HASHED};
use crate::encoding::statistics::SAMPLED_VECTORS;
use crate::encoding::{fsst, pfor, windows};
use crate::gpu::abi::{Header, constant};

/// Of which vectors something is searched for: of all; of those that estimates look at; or of the
/// others, in chunks that are asked for.
pub(super) const MEASURE_ALL: u32 = 0;
pub(super) const MEASURE_SAMPLED: u32 = 1;
pub(super) const MEASURE_REST: u32 = 2;

const ENCODE: &Header = &Header::read(include_str!("../../kernels/encode.cuh"));
const ROWS: &Header = &Header::read(include_str!("../../kernels/encode_rows.cuh"));
const PATCHES: &Header = &Header::read(include_str!("../../kernels/encode_patches.cuh"));
const ENCODE_ALP_RD: &Header = &Header::read(include_str!("../../kernels/encode_alp_rd.cu"));
const STRINGS: &Header = &Header::read(include_str!("../../kernels/encode_arguments.cuh"));
const TRAIN: &Header = &Header::read(include_str!("../../kernels/fsst_train.cu"));

const _: () = {
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
    assert!(constant(STRINGS, "SAMPLE_PIECE") == fsst::PIECE as u64);
    assert!(constant(STRINGS, "SAMPLE_SHARE") == fsst::SAMPLE_SHARE as u64);
    assert!(fsst::VACANT == u64::from_ne_bytes([constant(TRAIN, "VACANT_BYTE") as u8; 8]));
    assert!(constant(TRAIN, "WHOLE_SHARE") == fsst::WHOLE as u64);
    assert!(constant(TRAIN, "MOST_SWAPS") == fsst::SWAPS as u64);
    assert!(constant(TRAIN, "MOST_ADDITIONS") == fsst::ADDITIONS as u64);
    assert!(constant(TRAIN, "LEAST_COUNT") == fsst::LEAST_COUNT);
    assert!(constant(TRAIN, "SINGLE_WEIGHT") == fsst::SINGLE_WEIGHT);
    assert!(constant(TRAIN, "BYTES_PER_OCCURRENCE") == fsst::BYTES_PER_OCCURRENCE);
};
