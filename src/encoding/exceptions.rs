//! Exceptions of a vector: values that its packed form cannot hold, kept whole
//! and found by lane.
//!
//! ```text
//! block: | n x value | R x lane mask | n x row (u8) | zeros to the size of a value |
//!          round 0: the first exception of every lane that has one, in lane order
//!          round 1: the second of every lane that has two, ...
//! lane mask of a round: bit l set if lane l takes part; LANES bits (u16 for 64-bit values, u32 for 32)
//! ```
//!
//! Lane l's exception of round k has the number (bits in earlier masks) plus
//! (bits below l in mask k), and lane l has no more once its bit is clear: one
//! mask load and a population count per exception, and neighbouring lanes read
//! neighbouring exceptions. The rounds end when n exceptions are counted.
//!
//! This replaces G-ALP's word per lane (6 bits of count, 10 of offset; thesis of
//! 2025, section 4.2), which costs 256 bits a vector for doubles and 512 for
//! floats however few exceptions there are, and cannot count the 64 exceptions
//! that a lane of doubles may have. Eight exceptions strewn over a vector of
//! doubles need two or three rounds: 80 bytes with masks, 104 with words.

use std::ops::Range;

use bytemuck::Pod;

use super::Words;
use crate::chunk::MAX_CHUNK_ROWS;
use crate::error::{Result, ensure};
use crate::lanes::{self, VECTOR};

/// Where a vector's block lies and how many exceptions it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Locator {
    /// Exceptions of the vector, at most 1,024.
    pub count: usize,
    /// Offset of the block, in values.
    pub offset: usize,
}

/// The blocks of a chunk of nothing but exceptions of 32 bits, masks and rows
/// counted in values: a locator has room for their offsets.
const _: () = assert!(MAX_CHUNK_ROWS * 2 < 1 << (32 - Locator::COUNT_BITS));

impl Locator {
    const COUNT_BITS: u32 = 11;

    pub fn to_bits(self) -> u32 {
        self.count as u32 | (self.offset as u32) << Self::COUNT_BITS
    }

    pub fn from_bits(bits: u32) -> Self {
        let count = bits & ((1 << Self::COUNT_BITS) - 1);
        Self { count: count as usize, offset: (bits >> Self::COUNT_BITS) as usize }
    }
}

/// Appends the block of one vector; `slots` has bit i % 64 of word i / 64 set
/// where `values[i]` is an exception.
pub(super) fn push<T: Words>(values: &[T; VECTOR], slots: &[u64; VECTOR / 64], out: &mut Vec<u8>) {
    // Per lane the rows that are left to be placed.
    let mut lanes_rows = [0_u64; 128];
    for (word, slots) in slots.iter().enumerate() {
        let mut slots = *slots;
        while slots != 0 {
            let (row, lane) = lanes::row_lane::<T>(word * 64 + slots.trailing_zeros() as usize);
            lanes_rows[lane] |= 1 << row;
            slots &= slots - 1;
        }
    }
    let (mut masks, mut rows) = (Vec::new(), Vec::new());
    loop {
        let mut mask = 0_u32;
        for (lane, left) in
            lanes_rows[..T::LANES].iter_mut().enumerate().filter(|(_, left)| **left != 0)
        {
            let row = left.trailing_zeros() as usize;
            *left &= *left - 1;
            mask |= 1 << lane;
            rows.push(row as u8);
            out.extend_from_slice(bytemuck::bytes_of(&values[lanes::index(row, lane)]));
        }
        if mask == 0 {
            break;
        }
        masks.extend_from_slice(&mask.to_le_bytes()[..T::LANES / 8]);
    }
    out.extend(masks);
    out.extend(rows);
    out.resize(out.len().next_multiple_of(size_of::<T>()), 0);
}

/// The parts of one block.
pub(super) struct Block<'a, T> {
    values: &'a [T],
    masks: &'a [u8],
    rows: &'a [u8],
    /// Bytes of the whole block.
    len: usize,
}

impl<'a, T: Words + Pod> Block<'a, T> {
    const MASK: usize = T::LANES / 8;

    /// Reads and checks the block of `count` exceptions at the start of `bytes`.
    pub fn parse(bytes: &'a [u8], count: usize) -> Result<Self> {
        ensure!(count <= VECTOR, "{count} exceptions in a vector of {VECTOR} values");
        let values_len = count * size_of::<T>();
        ensure!(bytes.len() >= values_len, "{count} exceptions in {} bytes", bytes.len());
        let (values, rest) = bytes.split_at(values_len);
        let (mut counted, mut previous, mut masks_len) = (0, u32::MAX, 0);
        while counted < count {
            let Some(mask) = rest.get(masks_len..masks_len + Self::MASK) else {
                return Err(crate::Error::corrupt("lane masks of exceptions pass their buffer"));
            };
            let mask = mask_of(mask);
            ensure!(
                mask != 0 && mask & !previous == 0,
                "lane mask {mask:#x} of exceptions behind {previous:#x}"
            );
            counted += mask.count_ones() as usize;
            previous = mask;
            masks_len += Self::MASK;
        }
        ensure!(counted == count, "{count} exceptions, their lane masks count {counted}");
        let rows = rest.get(masks_len..masks_len + count);
        let len = (values_len + masks_len + count).next_multiple_of(size_of::<T>());
        let (Some(rows), true) = (rows, len <= bytes.len()) else {
            return Err(crate::Error::corrupt("rows of exceptions pass their buffer"));
        };
        let mut next_row = [0; 32];
        let lanes =
            rest[..masks_len].chunks_exact(Self::MASK).flat_map(|mask| bits_of(mask_of(mask)));
        for (lane, row) in lanes.zip(rows) {
            let least = next_row[lane];
            ensure!(
                (least..T::BITS).contains(&usize::from(*row)),
                "lane {lane}: exception in row {row}, {least} to {} are allowed",
                T::BITS - 1
            );
            next_row[lane] = usize::from(*row) + 1;
        }
        Ok(Self { values: crate::chunk::cast(values)?, masks: &rest[..masks_len], rows, len })
    }

    /// Bytes of the whole block.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Every exception's slot in the vector and value.
    pub fn iter(&self) -> impl Iterator<Item = (usize, T)> {
        let lanes = self.masks.chunks_exact(Self::MASK).flat_map(|mask| bits_of(mask_of(mask)));
        lanes
            .zip(self.rows.iter().zip(self.values))
            .map(|(lane, (row, value))| (lanes::index(usize::from(*row), lane), *value))
    }
}

fn mask_of(bytes: &[u8]) -> u32 {
    let mut mask = [0; 4];
    mask[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(mask)
}

/// Positions of the set bits.
fn bits_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 32).then_some(bit)
    })
}

/// Checks the blocks of all vectors: dense, in order, and as many as counted.
pub(super) fn validate<T: Words + Pod>(locators: &[u32], bytes: &[u8]) -> Result<()> {
    let mut at = 0;
    for (vector, bits) in locators.iter().enumerate() {
        let locator = Locator::from_bits(*bits);
        if locator.count == 0 {
            ensure!(locator.offset == 0, "vector {vector} has an offset but no exceptions");
            continue;
        }
        ensure!(
            locator.offset * size_of::<T>() == at,
            "vector {vector}: exceptions at value {}, byte {at} expected",
            locator.offset
        );
        at += Block::<T>::parse(&bytes[at..], locator.count)?.len();
    }
    ensure!(at == bytes.len(), "{} bytes of exceptions, {at} expected", bytes.len());
    Ok(())
}

/// The block of a vector that [`validate`] has seen.
pub(super) fn block<T: Words + Pod>(bytes: &[u8], locator: Locator) -> Result<Block<'_, T>> {
    let range: Range<usize> = locator.offset * size_of::<T>()..bytes.len();
    Block::parse(&bytes[range], locator.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_buffer::Buffer;

    fn slots_of(positions: &[usize]) -> [u64; VECTOR / 64] {
        let mut slots = [0; VECTOR / 64];
        for position in positions {
            slots[position / 64] |= 1 << (position % 64);
        }
        slots
    }

    fn round_trip<T: Words + Pod>(positions: &[usize]) -> usize {
        let values: [T; VECTOR] = std::array::from_fn(|i| T::truncate(i as u64 * 77 + 5));
        let mut bytes = Vec::new();
        push(&values, &slots_of(positions), &mut bytes);
        let bytes = Buffer::from(bytes.as_slice());
        let block = Block::<T>::parse(&bytes, positions.len()).unwrap();
        assert_eq!(block.len(), bytes.len());
        let mut found: Vec<usize> = block
            .iter()
            .map(|(slot, value)| {
                assert_eq!(value, values[slot]);
                slot
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, positions);
        bytes.len()
    }

    #[test]
    fn every_position_comes_back() {
        for positions in [vec![], vec![0], vec![1023], vec![5, 6, 7, 900], (0..1024).collect()] {
            round_trip::<u64>(&positions);
            round_trip::<u32>(&positions);
        }
    }

    #[test]
    fn a_lane_of_doubles_holds_64_exceptions() {
        let lane: Vec<usize> = {
            let mut slots: Vec<usize> = (0..64).map(|row| lanes::index(row, 3)).collect();
            slots.sort_unstable();
            slots
        };
        assert_eq!(round_trip::<u64>(&lane), 64 * 8 + 64 * 2 + 64);
    }

    #[test]
    fn one_exception_takes_a_mask_and_a_row() {
        assert_eq!(round_trip::<u64>(&[77]), (8 + 2 + 1_usize).next_multiple_of(8));
        assert_eq!(round_trip::<u32>(&[77]), (4 + 4 + 1_usize).next_multiple_of(4));
    }

    fn damaged(change: impl Fn(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        push(&[9_u64; VECTOR], &slots_of(&[0, 1, 500]), &mut bytes);
        change(&mut bytes);
        let bytes = Buffer::from(bytes.as_slice());
        Block::<u64>::parse(&bytes, 3).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn rejects_a_row_outside_the_lane() {
        // Three values, masks of two bytes each, then the rows.
        let error = damaged(|bytes| {
            let rows =
                Block::<u64>::parse(&Buffer::from(bytes.as_slice()), 3).unwrap().masks.len() + 24;
            bytes[rows] = 64;
        });
        assert!(error.contains("row 64"), "{error}");
    }

    #[test]
    fn rejects_lane_masks_that_miscount() {
        assert!(damaged(|bytes| bytes[24..26].fill(0)).contains("lane mask"));
        assert!(damaged(|bytes| bytes[24..26].fill(0xff)).contains("count"));
    }

    #[test]
    fn rejects_truncation_everywhere() {
        let mut bytes = Vec::new();
        push(&[9_u64; VECTOR], &slots_of(&[0, 1, 500]), &mut bytes);
        let bytes = Buffer::from(bytes.as_slice());
        for len in 0..bytes.len() {
            assert!(Block::<u64>::parse(&bytes[..len], 3).is_err(), "{len} bytes");
        }
    }
}
