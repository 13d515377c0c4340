//! The key table of a lookup: from a key to the entry of its row.
//!
//! ```text
//! dense    keys that are close together: bit k - least is set for each key k, entry k - least is its own
//! hashed   other keys: open addressing with linear probing, at most half of the slots in use
//! ```
//!
//! A bit for each key makes the test for existence cheap: 1 million keys take 125 kB, which stays in
//! a cache. Entries are read only for rows that pass all tests.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::lanes::mask::rows;
use crate::lanes::{Mask, VECTOR};
use crate::ranges::Order;

/// Keys without duplicates, and an entry for each.
#[derive(Debug)]
pub(crate) struct KeyTable {
    form: Form,
    entries: Entries,
    len: usize,
    bounds: Option<(i64, i64)>,
}

#[derive(Debug)]
enum Form {
    Dense { least: i64, span: u64, bits: Vec<u64> },
    Hashed { slots: Vec<i64>, empty: i64, shift: u32, seed: u64 },
}

/// Entries by slot, of as few bytes as hold them.
#[derive(Debug)]
enum Entries {
    None,
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Entries {
    fn new(slots: usize, bits: u32) -> Self {
        match bits {
            0 => Self::None,
            1..=8 => Self::U8(vec![0; slots]),
            9..=16 => Self::U16(vec![0; slots]),
            17..=32 => Self::U32(vec![0; slots]),
            _ => Self::U64(vec![0; slots]),
        }
    }

    fn set(&mut self, slot: usize, entry: u64) {
        match self {
            Self::None => {}
            Self::U8(entries) => entries[slot] = entry as u8,
            Self::U16(entries) => entries[slot] = entry as u16,
            Self::U32(entries) => entries[slot] = entry as u32,
            Self::U64(entries) => entries[slot] = entry,
        }
    }
}

/// The memory of a table, for devices.
pub(crate) struct Parts<'a> {
    pub form: PartsForm<'a>,
    pub entries: &'a [u8],
    /// Bytes of an entry; 0 if there are none.
    pub entry_bytes: usize,
}

pub(crate) enum PartsForm<'a> {
    Dense { least: i64, span: u64, bits: &'a [u64] },
    Hashed { slots: &'a [i64], empty: i64, shift: u32, seed: u64 },
}

/// A key that several rows have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DuplicateKey(pub i64);

/// Bytes of an entry of so many bits.
pub(crate) fn entry_bytes(bits: u32) -> usize {
    if bits == 0 { 0 } else { bits.div_ceil(8).next_power_of_two() as usize }
}

/// Whether a table with a bit for each of `span` keys is small, or smaller than one of so many slots.
pub(crate) fn is_dense(span: u64, slots: usize, entry_bytes: usize) -> bool {
    let entry_bytes = entry_bytes as u64;
    let dense_bytes = (span / 8).saturating_add(span.saturating_mul(entry_bytes));
    span != 0 && dense_bytes <= (slots as u64 * (8 + entry_bytes)).max(SMALL)
}

/// Slots of a hashed table of so many keys.
pub(crate) fn hashed_slots(keys: usize) -> usize {
    (keys * 2).next_power_of_two().max(2)
}

/// Bytes of a dense table that is small whatever the number of keys: few of many keys of a dimension
/// pass a filter, and a hash takes ten times as long as a bit that is in a cache.
const SMALL: u64 = 16 << 20;

impl KeyTable {
    /// A table of keys and their entries, which have at most `entry_bits` bits.
    pub fn new(keys: &[i64], entries: &[u64], entry_bits: u32) -> Result<Self, DuplicateKey> {
        let bounds = keys.iter().min().copied().zip(keys.iter().max().copied());
        let (least, greatest) = bounds.unwrap_or((0, -1));
        // 2^64 keys wrap to a span of 0, for which a dense table has no room.
        let span = (greatest.wrapping_sub(least) as u64).wrapping_add(1);
        let slots = hashed_slots(keys.len());
        let is_dense = is_dense(span, slots, entry_bytes(entry_bits));
        let mut table = if bounds.is_none() || is_dense {
            // One bit more, for what is outside.
            let bits = vec![0_u64; (span + 1).div_ceil(64) as usize];
            let entries = Entries::new(span as usize, entry_bits);
            Self { form: Form::Dense { least, span, bits }, entries, len: keys.len(), bounds }
        } else {
            let empty = unused(keys, least, greatest);
            let seed = RandomState::new().build_hasher().finish();
            let shift = 64 - slots.trailing_zeros();
            let form = Form::Hashed { slots: vec![empty; slots], empty, shift, seed };
            Self { form, entries: Entries::new(slots, entry_bits), len: keys.len(), bounds }
        };
        for (key, entry) in keys.iter().zip(entries) {
            let slot = table.insert(*key).ok_or(DuplicateKey(*key))?;
            table.entries.set(slot, *entry);
        }
        Ok(table)
    }

    /// A dense table from its parts: bits, one more than `span`, and entries of so many bytes.
    pub fn from_dense(
        bounds: (i64, i64),
        len: usize,
        bits: Vec<u64>,
        entries: &[u8],
        entry_bytes: usize,
    ) -> Self {
        let span = (bounds.1.wrapping_sub(bounds.0) as u64).wrapping_add(1);
        let entries = match entry_bytes {
            0 => Entries::None,
            1 => Entries::U8(entries.to_vec()),
            2 => Entries::U16(words(entries, u16::from_le_bytes)),
            4 => Entries::U32(words(entries, u32::from_le_bytes)),
            _ => Entries::U64(words(entries, u64::from_le_bytes)),
        };
        let form = Form::Dense { least: bounds.0, span, bits };
        Self { form, entries, len, bounds: Some(bounds) }
    }

    /// The new slot of a key; none if it has one.
    fn insert(&mut self, key: i64) -> Option<usize> {
        match &mut self.form {
            Form::Dense { least, bits, .. } => {
                let at = key.wrapping_sub(*least) as usize;
                let (word, bit) = (&mut bits[at / 64], 1 << (at % 64));
                let is_new = *word & bit == 0;
                *word |= bit;
                is_new.then_some(at)
            }
            Form::Hashed { slots, empty, shift, seed } => {
                let mut slot = slot_of(key, *seed, *shift);
                while slots[slot] != *empty {
                    if slots[slot] == key {
                        return None;
                    }
                    slot = (slot + 1) % slots.len();
                }
                slots[slot] = key;
                Some(slot)
            }
        }
    }

    /// The memory of the table.
    pub fn parts(&self) -> Parts<'_> {
        let form = match &self.form {
            Form::Dense { least, span, bits } => {
                PartsForm::Dense { least: *least, span: *span, bits }
            }
            Form::Hashed { slots, empty, shift, seed } => {
                PartsForm::Hashed { slots, empty: *empty, shift: *shift, seed: *seed }
            }
        };
        let (entries, entry_bytes): (&[u8], usize) = match &self.entries {
            Entries::None => (&[], 0),
            Entries::U8(entries) => (entries, 1),
            Entries::U16(entries) => (bytemuck::cast_slice(entries), 2),
            Entries::U32(entries) => (bytemuck::cast_slice(entries), 4),
            Entries::U64(entries) => (bytemuck::cast_slice(entries), 8),
        };
        Parts { form, entries, entry_bytes }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The least and the greatest key.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        self.bounds
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let Parts { form, entries, .. } = self.parts();
        let form = match form {
            PartsForm::Dense { bits, .. } => size_of_val(bits),
            PartsForm::Hashed { slots, .. } => size_of_val(slots),
        };
        form + entries.len()
    }

    /// Whether a key may lie between two numbers, both included.
    pub fn may_have(&self, low: i64, high: i64) -> bool {
        let Some((least, greatest)) = self.bounds else { return false };
        let (low, high) = (low.max(least), high.min(greatest));
        if low > high {
            return false;
        }
        let Form::Dense { bits, .. } = &self.form else { return true };
        let [first, last] = [low, high].map(|key| key.wrapping_sub(least) as usize);
        let within = |word: usize| {
            let mut bits = bits[word];
            if word == first / 64 {
                bits &= u64::MAX << (first % 64);
            }
            if word == last / 64 {
                bits &= u64::MAX >> (63 - last % 64);
            }
            bits
        };
        (first / 64..=last / 64).any(|word| within(word) != 0)
    }

    /// The slot of a key.
    #[inline]
    pub fn find(&self, key: i64) -> Option<usize> {
        match &self.form {
            Form::Dense { least, span, bits } => dense_slot(*least, *span, bits, key),
            Form::Hashed { slots, empty, shift, seed } => {
                let mut slot = slot_of(key, *seed, *shift);
                loop {
                    match slots[slot] {
                        found if found == *empty => return None,
                        found if found == key => return Some(slot),
                        _ => slot = (slot + 1) % slots.len(),
                    }
                }
            }
        }
    }

    /// The entry of a slot.
    pub fn entry(&self, slot: usize) -> u64 {
        match &self.entries {
            Entries::None => 0,
            Entries::U8(entries) => entries[slot].into(),
            Entries::U16(entries) => entries[slot].into(),
            Entries::U32(entries) => entries[slot].into(),
            Entries::U64(entries) => entries[slot],
        }
    }

    /// How keys of 32 bits, ordered as `order` says, become places of a dense table of such keys; none of
    /// other tables.
    pub fn narrow(&self, order: Order) -> Option<NarrowKeys> {
        let Form::Dense { least, span, .. } = &self.form else { return None };
        let (least, greatest) = (*least, self.bounds.map_or(*least, |(_, greatest)| greatest));
        let are_narrow = match order {
            Order::Signed => i32::try_from(least).is_ok() && i32::try_from(greatest).is_ok(),
            Order::Unsigned => u32::try_from(least).is_ok() && u32::try_from(greatest).is_ok(),
            Order::Float => false,
        };
        let span = u32::try_from(*span).ok().filter(|_| are_narrow)?;
        Some(NarrowKeys { least: least as u32, span })
    }

    /// Leaves the rows whose keys are in the table.
    pub fn retain(&self, keys: &[i64; VECTOR], mask: &mut Mask) {
        match &self.form {
            Form::Dense { least, span, bits } => {
                // The bit behind the last one is never set.
                let place = |key: i64| (key.wrapping_sub(*least) as u64).min(*span);
                retain_dense(bits, keys, place, mask);
            }
            Form::Hashed { .. } => self.retain_each(keys, mask),
        }
    }

    /// The same of keys that are places of a dense table.
    pub fn retain_places(&self, places: &[u32; VECTOR], mask: &mut Mask) {
        if let Form::Dense { bits, .. } = &self.form {
            retain_dense(bits, places, u64::from, mask);
        }
    }

    fn retain_each(&self, keys: &[i64; VECTOR], mask: &mut Mask) {
        let before = *mask;
        for row in rows(&before) {
            if self.find(keys[row]).is_none() {
                mask[row / 64] &= !(1 << (row % 64));
            }
        }
    }

    /// The entries of the rows of a mask whose keys are in the table; those of others stay.
    pub fn entries(&self, keys: &[i64; VECTOR], mask: &Mask, out: &mut [u64; VECTOR]) {
        match &self.entries {
            Entries::None => {}
            Entries::U8(entries) => self.each_entry(entries, keys, mask, out),
            Entries::U16(entries) => self.each_entry(entries, keys, mask, out),
            Entries::U32(entries) => self.each_entry(entries, keys, mask, out),
            Entries::U64(entries) => self.each_entry(entries, keys, mask, out),
        }
    }

    /// The same of keys that are places of a dense table.
    pub fn entries_of_places(&self, places: &[u32; VECTOR], mask: &Mask, out: &mut [u64; VECTOR]) {
        let Form::Dense { bits, .. } = &self.form else { return };
        /// Puts the entries of rows that have one.
        fn put<T: Copy + Into<u64>>(
            (bits, entries): (&[u64], &[T]),
            places: &[u32; VECTOR],
            mask: &Mask,
            out: &mut [u64; VECTOR],
        ) {
            for row in rows(mask) {
                let place = places[row];
                if bits[(place / 64) as usize] >> (place % 64) & 1 == 1 {
                    out[row] = entries[place as usize].into();
                }
            }
        }
        match &self.entries {
            Entries::None => {}
            Entries::U8(entries) => put((bits, entries), places, mask, out),
            Entries::U16(entries) => put((bits, entries), places, mask, out),
            Entries::U32(entries) => put((bits, entries), places, mask, out),
            Entries::U64(entries) => put((bits, entries), places, mask, out),
        }
    }

    fn each_entry<T: Copy + Into<u64>>(
        &self,
        entries: &[T],
        keys: &[i64; VECTOR],
        mask: &Mask,
        out: &mut [u64; VECTOR],
    ) {
        // A loop for each form, so that the form is not asked for in each row.
        let mut put = |row: usize, slot: Option<usize>| {
            if let Some(slot) = slot {
                out[row] = entries[slot].into();
            }
        };
        match &self.form {
            Form::Dense { least, span, bits } => {
                rows(mask).for_each(|row| put(row, dense_slot(*least, *span, bits, keys[row])));
            }
            Form::Hashed { .. } => rows(mask).for_each(|row| put(row, self.find(keys[row]))),
        }
    }
}

/// Keys of 32 bits as places of a dense table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NarrowKeys {
    least: u32,
    span: u32,
}

impl NarrowKeys {
    /// The places of keys; that behind the last one of keys that are not among those of the table.
    pub fn places(self, keys: &mut [u32; VECTOR]) {
        for key in keys {
            *key = key.wrapping_sub(self.least).min(self.span);
        }
    }
}

/// Leaves the rows whose bit is set, at the place of their key.
#[inline(always)]
fn retain_dense<K: Copy>(
    bits: &[u64],
    keys: &[K; VECTOR],
    place: impl Fn(K) -> u64,
    mask: &mut Mask,
) {
    let is_set = |place: u64| bits[(place / 64) as usize] >> (place % 64) & 1 == 1;
    for (word, keys) in mask.iter_mut().zip(keys.as_chunks::<64>().0) {
        if *word == 0 {
            continue;
        }
        // Few rows are tested one by one, many without a branch for each.
        if word.count_ones() < 16 {
            let mut left = *word;
            while left != 0 {
                let row = left.trailing_zeros();
                left &= left - 1;
                if !is_set(place(keys[row as usize])) {
                    *word &= !(1 << row);
                }
            }
            continue;
        }
        // Bits first, then one word of them: loops without dependences.
        let found = keys.map(|key| u8::from(is_set(place(key))));
        let mut all = 0;
        for (byte, found) in found.as_chunks::<8>().0.iter().enumerate() {
            // A bit of each byte, side by side in the highest byte of the product.
            let ones = u64::from_le_bytes(*found);
            all |= (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * byte);
        }
        *word &= all;
    }
}

/// Words of some bytes.
fn words<T, const BYTES: usize>(bytes: &[u8], word: impl Fn([u8; BYTES]) -> T) -> Vec<T> {
    let whole = |bytes: &[u8]| bytes.try_into().expect("as many bytes as a word has");
    bytes.chunks_exact(BYTES).map(|bytes| word(whole(bytes))).collect()
}

/// A number that is no key.
fn unused(keys: &[i64], least: i64, greatest: i64) -> i64 {
    if least > i64::MIN {
        return i64::MIN;
    }
    if greatest < i64::MAX {
        return i64::MAX;
    }
    let known: std::collections::HashSet<&i64> = keys.iter().collect();
    (i64::MIN..).find(|number| !known.contains(number)).unwrap_or(i64::MIN)
}

/// The slot of a key of a dense table.
#[inline(always)]
fn dense_slot(least: i64, span: u64, bits: &[u64], key: i64) -> Option<usize> {
    let at = key.wrapping_sub(least) as u64;
    (at < span && bits[(at / 64) as usize] >> (at % 64) & 1 == 1).then_some(at as usize)
}

/// The first slot to look at, of 2^(64 - shift).
fn slot_of(key: i64, seed: u64, shift: u32) -> usize {
    // The finalizer of MurmurHash3, with a seed, so that nobody can choose keys that collide.
    let mut hash = key as u64 ^ seed;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::mask::{ALL, NONE};

    fn check(keys: &[i64], is_dense: bool) {
        let entries: Vec<u64> = (0..keys.len() as u64).map(|entry| entry * 3).collect();
        let table = KeyTable::new(keys, &entries, 20).expect("no duplicates");
        assert_eq!(matches!(table.form, Form::Dense { .. }), is_dense);
        assert_eq!(table.len(), keys.len());
        let near = keys.iter().flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]);
        let mut asked: Vec<i64> = near.chain([0, i64::MIN, i64::MAX]).collect();
        asked.resize(asked.len().next_multiple_of(VECTOR), 7);
        for asked in asked.chunks_exact(VECTOR) {
            let asked: &[i64; VECTOR] = asked.try_into().expect("a vector");
            for within in [ALL, [0x8421; 16], NONE] {
                let mut mask = within;
                table.retain(asked, &mut mask);
                let mut found = [u64::MAX; VECTOR];
                table.entries(asked, &within, &mut found);
                check_narrow(&table, asked, &within, (&mask, &found));
                for row in 0..VECTOR {
                    let is_within = within[row / 64] >> (row % 64) & 1 == 1;
                    let at = keys.iter().position(|key| *key == asked[row]);
                    let at = at.filter(|_| is_within);
                    assert_eq!(mask[row / 64] >> (row % 64) & 1 == 1, at.is_some());
                    assert_eq!(found[row], at.map_or(u64::MAX, |at| at as u64 * 3));
                }
            }
        }
        for low in asked.iter().take(200) {
            for high in asked.iter().take(200).filter(|high| *high >= low) {
                let has = keys.iter().any(|key| key >= low && key <= high);
                assert!(table.may_have(*low, *high) >= has, "{low} to {high}");
                if is_dense {
                    assert_eq!(table.may_have(*low, *high), has, "{low} to {high}");
                }
            }
        }
    }

    /// Compares the same keys as words of 32 bits, as far as they are some.
    fn check_narrow(
        table: &KeyTable,
        asked: &[i64; VECTOR],
        within: &Mask,
        (mask, found): (&Mask, &[u64; VECTOR]),
    ) {
        for order in [Order::Signed, Order::Unsigned] {
            let is_one = |key: i64| match order {
                Order::Signed => i32::try_from(key).is_ok(),
                _ => u32::try_from(key).is_ok(),
            };
            let Some(narrow) = table.narrow(order) else { continue };
            let mut own = *within;
            for row in 0..VECTOR {
                if !is_one(asked[row]) {
                    own[row / 64] &= !(1 << (row % 64));
                }
            }
            let mut places = asked.map(|key| key as u32);
            narrow.places(&mut places);
            let mut kept = own;
            table.retain_places(&places, &mut kept);
            let mut entries = [u64::MAX; VECTOR];
            table.entries_of_places(&places, &own, &mut entries);
            for row in rows(&own) {
                let bit = |mask: &Mask| mask[row / 64] >> (row % 64) & 1;
                assert_eq!(bit(&kept), bit(mask));
                assert_eq!(entries[row], found[row]);
            }
        }
    }

    #[test]
    fn keys_are_found_and_others_are_not() {
        check(&[], true);
        check(&[5], true);
        check(&[i64::MIN], true);
        check(&[i64::MAX, i64::MAX - 1], true);
        check(&[i32::MIN.into(), i32::MIN as i64 + 90], true);
        check(&[u32::MAX.into(), u32::MAX as i64 - 90], true);
        check(&[i64::MIN, i64::MAX], false);
        check(&[i64::MIN, i64::MIN + 1, 0, i64::MAX], false);
        check(&(0..500).map(|key| key * 7 - 90).collect::<Vec<i64>>(), true);
        check(&(0..500).map(|key| key * key * 7 - 90).collect::<Vec<i64>>(), true);
        check(&(0..500).map(|key| key * 0x1234_5678_9abc - 90).collect::<Vec<i64>>(), false);
    }

    #[test]
    fn a_key_that_comes_twice_is_named() {
        for far in [9, 1 << 40] {
            let found = KeyTable::new(&[3, far, 4, far], &[0; 4], 1);
            assert_eq!(found.err(), Some(DuplicateKey(far)));
        }
    }
}
