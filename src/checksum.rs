//! XXH3 of all bytes at once, with seed 0: checksums of the format, and names of cached kernels.
//!
//! The crate `twox-hash` takes AVX2 where a processor has it: one thread checks 58 GB/s of what is in its cache
//! (AMD EPYC), by the crate `xxhash-rust`, which takes what a program is compiled for, 29.

use twox_hash::XxHash3_64;
#[cfg(any(feature = "cuda", lanepack_simt))]
use twox_hash::XxHash3_128;

/// The checksum of chunks, bounds and indexes.
pub(crate) fn xxh3_64(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// One that no two pieces of code have in common.
#[cfg(any(feature = "cuda", lanepack_simt))]
pub(crate) fn xxh3_128(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}
