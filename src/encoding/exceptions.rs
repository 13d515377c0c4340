//! Exceptions of a vector: values that its packed form cannot hold, kept whole
//! and found by lane.
//!
//! ```text
//! block: | n x value | n x slot (u16) | zeros to the size of a value |
//! slot:  lane * T + row, ascending
//! ```
//!
//! Slots and blocks of bytes begin at multiples of two bytes, those of wider values at
//! multiples of the value's size anyway: all can be read in place.
//!
//! Sorted by lane, then row: thread i of a group takes exception i, whose address
//! needs no other load, and a thread that walks a lane finds its first by
//! bisection and the others behind it.
//!
//! This replaces G-ALP's word per lane (6 bits of count, 10 of offset; thesis of
//! 2025, section 4.2), which costs 256 bits a vector for doubles and 512 for
//! floats however few exceptions there are, and cannot count the 64 exceptions
//! that a lane of doubles may have. Tried and lost: rounds of lane masks with a
//! byte of row each (the k-th exception of every lane that has so many): of equal
//! size with 8 exceptions a vector and 5 % smaller with 32, but their addresses
//! follow from one mask after the other, and a GPU decompressed 66 % to 91 % of
//! what it copies instead of 88 % to 95 % (kernels/lanepack/exceptions.cuh).

use std::marker::PhantomData;

use bytemuck::Pod;

use super::Words;
use crate::chunk::MAX_CHUNK_ROWS;
use crate::error::{Result, ensure};
use crate::lanes::{self, VECTOR};

/// Where a vector's block lies and how many exceptions it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Locator {
    /// Exceptions of the vector, at most 1,024.
    pub count: usize,
    /// Offset of the block, in values; of bytes, in two of them.
    pub offset: usize,
}

/// Bytes that offsets of blocks count in, and that blocks are padded to.
const fn unit<T>() -> usize {
    if size_of::<T>() == 1 { 2 } else { size_of::<T>() }
}

/// The blocks of a chunk of nothing but exceptions, at most two units each with its
/// slot: a locator has room for their offsets.
const _: () = assert!(MAX_CHUNK_ROWS * 2 < 1 << (32 - Locator::COUNT_BITS));

/// Bits of a locator that count exceptions.
pub(crate) const LOCATOR_COUNT_BITS: u32 = 11;

impl Locator {
    const COUNT_BITS: u32 = LOCATOR_COUNT_BITS;

    pub fn to_bits(self) -> u32 {
        self.count as u32 | (self.offset as u32) << Self::COUNT_BITS
    }

    pub fn from_bits(bits: u32) -> Self {
        let count = bits & ((1 << Self::COUNT_BITS) - 1);
        Self { count: count as usize, offset: (bits >> Self::COUNT_BITS) as usize }
    }
}

/// Bytes of the block of so many exceptions.
pub(crate) const fn block_len<T>(count: usize) -> usize {
    (slots_at::<T>(count) + count * 2).next_multiple_of(unit::<T>())
}

/// Where the slots of so many exceptions begin in their block.
const fn slots_at<T>(count: usize) -> usize {
    (count * size_of::<T>()).next_multiple_of(2)
}

/// Appends the block of one vector, which may be short; `slots` has bit i % 64 of word
/// i / 64 set where `values[i]` is an exception.
fn push<T: Words>(values: &[T], slots: &[u64; VECTOR / 64], out: &mut Vec<u8>) {
    let mut found: Vec<(u16, T)> = Vec::new();
    for (word, bits) in slots.iter().enumerate() {
        let mut bits = *bits;
        while bits != 0 {
            let position = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let (row, lane) = lanes::row_lane::<T>(position);
            found.push(((lane * T::BITS + row) as u16, values[position]));
        }
    }
    found.sort_unstable_by_key(|(slot, _)| *slot);
    found.iter().for_each(|(_, value)| out.extend_from_slice(bytemuck::bytes_of(value)));
    out.resize(out.len().next_multiple_of(2), 0);
    found.iter().for_each(|(slot, _)| out.extend_from_slice(&slot.to_le_bytes()));
    out.resize(out.len().next_multiple_of(unit::<T>()), 0);
}

/// The parts of one block.
pub(crate) struct Block<'a, T> {
    values: &'a [T],
    slots: &'a [u16],
    /// Bytes of the whole block.
    len: usize,
}

impl<'a, T: Words + Pod> Block<'a, T> {
    /// Reads and checks the block of `count` exceptions at the start of `bytes`.
    pub fn parse(bytes: &'a [u8], count: usize) -> Result<Self> {
        ensure!(count <= VECTOR, "{count} exceptions in a vector of {VECTOR} values");
        let values_len = count * size_of::<T>();
        let (slots_at, len) = (slots_at::<T>(count), block_len::<T>(count));
        ensure!(bytes.len() >= len, "{count} exceptions in {} bytes", bytes.len());
        let slots: &[u16] = crate::chunk::cast(&bytes[slots_at..slots_at + count * 2])?;
        for pair in slots.windows(2) {
            let [first, second] = [pair[0], pair[1]];
            ensure!(first < second, "exception in slot {second} behind slot {first}");
        }
        let last = slots.last().map_or(0, |slot| usize::from(*slot));
        ensure!(last < VECTOR, "exception in slot {last} of {VECTOR}");
        Ok(Self { values: crate::chunk::cast(&bytes[..values_len])?, slots, len })
    }

    /// Bytes of the whole block.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Every exception's position in the vector and value.
    pub fn iter(&self) -> impl Iterator<Item = (usize, T)> {
        self.slots.iter().zip(self.values).map(|(slot, value)| {
            let slot = usize::from(*slot);
            (lanes::index(slot % T::BITS, slot / T::BITS), *value)
        })
    }
}

/// The exceptions of a chunk, found by vector.
pub(crate) struct Exceptions<'a, T> {
    /// One for each vector; empty if the chunk has none.
    locators: &'a [u32],
    blocks: &'a [u8],
    word: PhantomData<T>,
}

impl<'a, T: Words> Exceptions<'a, T> {
    pub fn new(locators: &'a [u32], blocks: &'a [u8]) -> Self {
        Self { locators, blocks, word: PhantomData }
    }

    /// Checks the blocks of all vectors: dense, in order, and with as many exceptions as
    /// the node declares.
    pub fn validate(&self, declared: u64) -> Result<()> {
        let counts = self.locators.iter().map(|bits| Locator::from_bits(*bits).count as u64);
        let counted: u64 = counts.sum();
        ensure!(counted == declared, "{declared} exceptions declared, the vectors count {counted}");
        let mut at = 0;
        for (vector, bits) in self.locators.iter().enumerate() {
            let locator = Locator::from_bits(*bits);
            if locator.count == 0 {
                ensure!(locator.offset == 0, "vector {vector} has an offset but no exceptions");
                continue;
            }
            ensure!(
                locator.offset * unit::<T>() == at,
                "vector {vector}: exceptions at unit {}, byte {at} expected",
                locator.offset
            );
            at += Block::<T>::parse(&self.blocks[at..], locator.count)?.len();
        }
        let found = self.blocks.len();
        ensure!(at == found, "{found} bytes of exceptions, {at} expected");
        Ok(())
    }

    /// The block of a vector, if it has exceptions; they have been validated.
    pub fn of(&self, vector: usize) -> Result<Option<Block<'a, T>>> {
        let locator = self.locators.get(vector).map(|bits| Locator::from_bits(*bits));
        let Some(Locator { count, offset }) = locator.filter(|locator| locator.count > 0) else {
            return Ok(None);
        };
        Block::parse(&self.blocks[offset * unit::<T>()..], count).map(Some)
    }

    /// The exception at a position of a vector.
    pub fn at(&self, vector: usize, position: usize) -> Result<Option<T>> {
        let found = |block: Block<'_, T>| block.iter().find(|(at, _)| *at == position);
        Ok(self.of(vector)?.and_then(found).map(|(_, value)| value))
    }
}

/// Exceptions of a chunk as they are written, vector by vector.
#[derive(Default)]
pub(super) struct Blocks {
    locators: Vec<u32>,
    bytes: Vec<u8>,
    count: usize,
}

impl Blocks {
    /// Adds those of the next vector, as [`push`] takes them.
    pub fn push<T: Words>(&mut self, values: &[T], slots: &[u64; VECTOR / 64]) {
        let count = slots.iter().map(|word| word.count_ones() as usize).sum();
        let mut locator = Locator { count, offset: 0 };
        if count > 0 {
            locator.offset = self.bytes.len() / unit::<T>();
            push(values, slots, &mut self.bytes);
        }
        self.count += count;
        self.locators.push(locator.to_bits());
    }

    /// Exceptions of all vectors.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The locators of all vectors; none if there are no exceptions.
    pub fn locators(&self) -> &[u8] {
        if self.count > 0 { bytemuck::cast_slice(&self.locators) } else { &[] }
    }

    /// The blocks.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
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
            round_trip::<u16>(&positions);
            round_trip::<u8>(&positions);
        }
    }

    #[test]
    fn a_lane_of_doubles_holds_64_exceptions() {
        let lane: Vec<usize> = {
            let mut slots: Vec<usize> = (0..64).map(|row| lanes::index(row, 3)).collect();
            slots.sort_unstable();
            slots
        };
        assert_eq!(round_trip::<u64>(&lane), 64 * 8 + 64 * 2);
    }

    #[test]
    fn one_exception_takes_a_value_and_a_slot() {
        assert_eq!(round_trip::<u64>(&[77]), 16);
        assert_eq!(round_trip::<u32>(&[77]), 8);
        assert_eq!(round_trip::<u16>(&[77]), 4);
        assert_eq!(round_trip::<u8>(&[77]), 4);
        assert_eq!(round_trip::<u8>(&[77, 78]), 6);
    }

    fn damaged(change: impl Fn(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        push(&[9_u64; VECTOR], &slots_of(&[0, 1, 500]), &mut bytes);
        change(&mut bytes);
        let bytes = Buffer::from(bytes.as_slice());
        Block::<u64>::parse(&bytes, 3).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn rejects_slots_that_do_not_ascend() {
        // Three values, then slots of two bytes each.
        let error = damaged(|bytes| bytes.copy_within(24..26, 26));
        assert!(error.contains("behind slot"), "{error}");
    }

    #[test]
    fn rejects_slots_past_the_vector() {
        let error = damaged(|bytes| bytes[28..30].copy_from_slice(&1024_u16.to_le_bytes()));
        assert!(error.contains("slot 1024"), "{error}");
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
