//! Split-block Bloom filters: sets of hashes that may contain more than was inserted, and never less.
//!
//! ```text
//! hash   | high 32 bits: which block          | low 32 bits: which bits of the block |
//!
//! block  | u32 word 0 | u32 word 1 | .. | u32 word 7 |     32 bytes; a hash sets one bit in each word
//! ```
//!
//! The algorithm, its constants and its sizes are those of Parquet (parquet-format, BloomFilter.md), after
//! Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007): a lookup touches 32
//! bytes. Hashes are XXH3, which the format has for checksums, where Parquet has XXH64. Numbers of blocks are
//! not rounded up to powers of two, as many writers of Parquet do.

use crate::checksum::xxh3_64;
use arrow_buffer::Buffer;

use crate::error::{Result, ensure};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 32;

/// Words of a block.
const WORDS: usize = 8;

/// Blocks of a filter at most: 64 bits for each value of a full chunk.
const MOST_BLOCKS: u64 = 32_768;

/// Bits of a filter for each distinct value, in halves: 10.5, which give a false positive rate of 1 % with
/// blocks that have more values than others taken into account (the formula in BloomFilter.md, 9.7 for 1 %,
/// leaves these out).
const HALF_BITS: usize = 21;

/// What the low half of a hash is multiplied by for each word; the highest five bits of the product are the
/// number of the bit.
const SALTS: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The hash of a value: of its little-endian bytes if it has a fixed width.
pub(crate) fn hash(value: &[u8]) -> u64 {
    xxh3_64(value)
}

/// Bytes of the filter of so many distinct values.
const fn bytes_for(values: usize) -> usize {
    let blocks = (values * HALF_BITS).div_ceil(2 * 8 * BLOCK_BYTES);
    if blocks == 0 { BLOCK_BYTES } else { blocks * BLOCK_BYTES }
}

/// The filter of some hashes, which may repeat, as it is stored; for 1 % of false positives.
pub(crate) fn build(mut hashes: Vec<u64>) -> Vec<u8> {
    // In this order blocks are also filled one after the other.
    hashes.sort_unstable();
    hashes.dedup();
    let mut bytes = vec![0; bytes_for(hashes.len())];
    hashes.into_iter().for_each(|hash| insert(&mut bytes, hash));
    bytes
}

/// Inserts a hash into the bytes of a filter.
fn insert(bytes: &mut [u8], hash: u64) {
    let at = place(hash, bytes.len());
    for (word, bit) in bytes[at..at + BLOCK_BYTES].chunks_exact_mut(4).zip(bits(hash)) {
        word.iter_mut().zip(bit.to_le_bytes()).for_each(|(byte, bit)| *byte |= bit);
    }
}

/// Where the block of a hash begins in a filter of so many bytes.
fn place(hash: u64, bytes: usize) -> usize {
    let blocks = (bytes / BLOCK_BYTES) as u64;
    (((hash >> 32) * blocks) >> 32) as usize * BLOCK_BYTES
}

/// The bit of a hash in each word of its block.
fn bits(hash: u64) -> [u32; WORDS] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// A filter that was read.
#[derive(Debug, Clone)]
pub(crate) struct BloomFilter(Buffer);

impl BloomFilter {
    /// A filter of whole blocks, one at least.
    pub fn try_new(bytes: Buffer) -> Result<Self> {
        check_len(bytes.len() as u64)?;
        Ok(Self(bytes))
    }

    /// Its bytes.
    pub fn into_bytes(self) -> Buffer {
        self.0
    }

    /// Whether a hash may have been inserted: always if it was.
    pub fn may_contain(&self, hash: u64) -> bool {
        let at = place(hash, self.0.len());
        let words = self.0[at..at + BLOCK_BYTES].chunks_exact(4);
        words
            .zip(bits(hash))
            .all(|(word, bit)| u32::from_le_bytes(word.try_into().expect("four bytes")) & bit != 0)
    }
}

/// Checks the length of a filter in bytes.
pub(crate) fn check_len(len: u64) -> Result<()> {
    let is_whole = len > 0 && len.is_multiple_of(BLOCK_BYTES as u64);
    ensure!(
        is_whole && len <= MOST_BLOCKS * BLOCK_BYTES as u64,
        "a filter of {len} bytes, expected 1 to {MOST_BLOCKS} blocks of {BLOCK_BYTES}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::bloom_filter::Sbbf;
    use proptest::prelude::*;
    use twox_hash::XxHash64;

    fn filter_of(hashes: impl IntoIterator<Item = u64>) -> BloomFilter {
        BloomFilter::try_new(Buffer::from_vec(build(hashes.into_iter().collect()))).unwrap()
    }

    #[test]
    fn blocks_are_those_of_parquet() {
        // Parquet's hash, which is not ours.
        let hash = |value: u64| XxHash64::oneshot(0, &value.to_le_bytes());
        for blocks in [1, 2, 64, 1024] {
            let mut parquet = Sbbf::new(&vec![0; blocks * BLOCK_BYTES]);
            let mut bytes = vec![0; blocks * BLOCK_BYTES];
            for value in (0..20 * blocks as u64).map(|value| value * value) {
                parquet.insert(&(value as i64));
                insert(&mut bytes, hash(value));
            }
            let mut expected = Vec::new();
            parquet.write_bitset(&mut expected).unwrap();
            assert_eq!(bytes, expected, "{blocks} blocks");
            let filter = BloomFilter::try_new(bytes.into()).unwrap();
            for value in 0..5000_u64 {
                assert_eq!(filter.may_contain(hash(value)), parquet.check(&(value as i64)));
            }
        }
    }

    #[test]
    fn a_hash_sets_known_bits() {
        // Block 2 of 3; the low half is 1, so that the bits are the highest five of the salts.
        let mut bytes = vec![0; 3 * BLOCK_BYTES];
        insert(&mut bytes, 0xffff_ffff_0000_0001);
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert!(words[..16].iter().all(|word| *word == 0));
        assert_eq!(words[16..], [8, 8, 17, 20, 14, 5, 19, 11].map(|bit| 1 << bit));
        assert_eq!(hash(b""), 0x2d06_8005_38d3_94c2);
    }

    #[test]
    fn one_in_a_hundred_is_a_false_positive() {
        for values in [1000, 20_000, 131_072_u64] {
            let hash = |value: u64| hash(&value.to_le_bytes());
            let filter = filter_of((0..values).map(hash));
            let tries = 200_000;
            let found = (values..values + tries).filter(|value| filter.may_contain(hash(*value)));
            let rate = found.count() as f64 / tries as f64;
            println!("{values} values: {:.2} %, {} bytes", rate * 100.0, filter.0.len());
            assert!((0.005..0.015).contains(&rate), "{values} values: {rate}");
        }
    }

    #[test]
    fn sizes_follow_from_distinct_values() {
        for (values, blocks) in [(0, 1), (1, 1), (24, 1), (25, 2), (131_072, 5376)] {
            assert_eq!(bytes_for(values), blocks * BLOCK_BYTES, "{values} values");
        }
        assert_eq!(build(vec![7; 1000]), build(vec![7]));
        for len in [0, 1, 31, 33] {
            assert!(BloomFilter::try_new(Buffer::from_vec(vec![0_u8; len])).is_err());
        }
    }

    proptest! {
        #[test]
        fn what_was_inserted_is_found(hashes in prop::collection::vec(any::<u64>(), 0..300)) {
            let filter = filter_of(hashes.clone());
            for hash in hashes {
                prop_assert!(filter.may_contain(hash));
            }
        }
    }
}
