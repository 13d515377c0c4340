//! The distinct values of a chunk, and which of them every row has.
//!
//! One pass through a hash table gives every value a number by its first row; sorting the
//! distinct values then gives them their codes. What the table's hashes are (they differ from
//! run to run, so that nobody can make values that collide) does not show in the result.
//!
//! Whether that is worth while a sample tells, whose values are counted in a bitmap by a hash
//! that is the same everywhere (linear counting; Whang, Vander-Zanden and Taylor, TODS 1990): a
//! GPU has room for it where it has none for a table, and all engines find the same number, a
//! few per cent below the true one. Values made to collide cost a vain attempt.

use std::cmp::Ordering;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::encoding::io::{self, order_of, with_words};
use crate::encoding::{BytesValues, Input, Physical, Values, Words, ffor};
use crate::lanes::VECTOR;

/// Distinct values, ascending, and the code of every row.
///
/// Null words have the code of the row before in their vector, the first ones that of the first
/// valid value, and those of a vector without one code 0: readers of codes know nothing of
/// nulls. Null byte strings are values as others: they are empty, and stay so.
#[derive(Debug)]
pub(crate) struct Distinct {
    /// A row that has each value.
    pub rows: Vec<u32>,
    /// For each row which value it has.
    pub codes: Vec<u32>,
}

/// Whether a row's value is one of the dictionary.
fn counts(input: &Input<'_>, row: usize) -> bool {
    input.physical == Physical::Bytes || input.is_valid(row)
}

/// What stands in rows: how to hash, compare and order it.
trait Keys {
    /// What the hash table keeps of a value, so that it seldom looks at rows again.
    type Key: Copy;
    fn key(&self, row: usize, state: &RandomState) -> Self::Key;
    fn hash(key: &Self::Key, state: &RandomState) -> u64;
    fn is_equal(&self, one: &Self::Key, other: &Self::Key) -> bool;
    /// A number that ascends with the values, as far as it goes.
    fn rank(&self, row: usize) -> u64;
    /// The order of values of the same rank.
    fn order(&self, one: usize, other: usize) -> Ordering;
}

struct WordKeys<'a, T> {
    words: &'a [T],
    /// Words as numbers that ascend as the values do.
    ordered: fn(u64, u32) -> u64,
}

impl<T: Words> Keys for WordKeys<'_, T> {
    type Key = T;

    fn key(&self, row: usize, _: &RandomState) -> T {
        self.words[row]
    }

    fn hash(key: &T, state: &RandomState) -> u64 {
        state.hash_one(key.widen())
    }

    fn is_equal(&self, one: &T, other: &T) -> bool {
        one == other
    }

    fn rank(&self, row: usize) -> u64 {
        (self.ordered)(self.words[row].widen(), T::BITS as u32)
    }

    fn order(&self, _: usize, _: usize) -> Ordering {
        Ordering::Equal
    }
}

impl Keys for BytesValues<'_> {
    /// Hash and row.
    type Key = (u64, u32);

    fn key(&self, row: usize, state: &RandomState) -> (u64, u32) {
        (state.hash_one(self.get(row)), row as u32)
    }

    fn hash((hash, _): &(u64, u32), _: &RandomState) -> u64 {
        *hash
    }

    fn is_equal(&self, one: &(u64, u32), other: &(u64, u32)) -> bool {
        one.0 == other.0 && self.get(one.1 as usize) == self.get(other.1 as usize)
    }

    fn rank(&self, row: usize) -> u64 {
        let value = self.get(row);
        let mut first = [0; 8];
        let len = value.len().min(8);
        first[..len].copy_from_slice(&value[..len]);
        u64::from_be_bytes(first)
    }

    fn order(&self, one: usize, other: usize) -> Ordering {
        self.get(one).cmp(self.get(other))
    }
}

/// Runs `$body` with the keys of an input; `$other` for values that have none here.
macro_rules! with_keys {
    ($input:expr, $keys:ident => $body:expr, $other:expr) => {
        match $input.values {
            Values::Bytes(values) => {
                let $keys = &values;
                $body
            }
            values => with_words!(Values, values, words => {
                let $keys = &WordKeys { words, ordered: order_of($input.physical) };
                $body
            }, $other),
        }
    };
}

/// Words from the least to the greatest of at most so many different ones are looked up in a
/// table without hashes.
const NARROW: u64 = 1 << 16;

impl Distinct {
    /// Finds them, if they are at most `most` and there is one.
    pub fn find(input: &Input<'_>, most: usize) -> Option<Self> {
        with_words!(Values, input.values, words => {
            if let Some((least, slots)) = narrow(input, words) {
                return Self::of_narrow(input, words, least, slots, most);
            }
        }, ());
        with_keys!(input, keys => {
            let mut found = Numbers::new(keys, most);
            let mut codes = vec![0; input.len()];
            for row in (0..input.len()).filter(|row| counts(input, *row)) {
                codes[row] = found.number(row)?;
            }
            found.sorted(codes, input)
        }, None)
    }

    /// Finds them among integers of a range of `slots` numbers from `least` on.
    fn of_narrow<T: Words>(
        input: &Input<'_>,
        words: &[T],
        least: T,
        slots: usize,
        most: usize,
    ) -> Option<Self> {
        const NONE: u32 = u32::MAX;
        let slot = |word: &T| word.wrapping_sub(least).widen() as usize;
        let mut table = vec![NONE; slots];
        // Any row that has a value stands for it: no look at the slot before it is written.
        if input.valid.is_none() {
            for (row, word) in words.iter().enumerate() {
                table[slot(word)] = row as u32;
            }
        } else {
            for row in input.valid_rows() {
                table[slot(&words[row])] = row as u32;
            }
        }
        let count = table.iter().filter(|row| **row != NONE).count();
        if count > most {
            return None;
        }
        let mut rows = Vec::with_capacity(count);
        for at in table.iter_mut().filter(|row| **row != NONE) {
            let code = rows.len() as u32;
            rows.push(std::mem::replace(at, code));
        }
        let codes = if input.valid.is_none() {
            words.iter().map(|word| table[slot(word)]).collect()
        } else {
            let code = |word: &T| table.get(slot(word)).copied().unwrap_or(0);
            let mut codes: Vec<u32> = words.iter().map(code).collect();
            fill_nulls(input, &mut codes);
            codes
        };
        Some(Self { rows, codes })
    }

    /// How many distinct values there are in some vectors, as counted in bitmaps; none of values
    /// that have no dictionary.
    pub fn count(input: &Input<'_>, vectors: impl Iterator<Item = usize>) -> Option<SampledValues> {
        let mut of_all = vec![0_u64; COUNTED / 64];
        let mut of_vector = vec![0_u64; COUNTED_OF_VECTOR / 64];
        let mut counted = SampledValues::default();
        let set = |bitmap: &mut [u64], number: u64, bits: usize| {
            let bit = number >> (u64::BITS - bits.ilog2());
            bitmap[bit as usize / 64] |= 1 << (bit % 64);
        };
        let ones = |bitmap: &[u64]| bitmap.iter().map(|word| word.count_ones() as usize).sum();
        for vector in vectors {
            let rows = vector * VECTOR..input.len().min((vector + 1) * VECTOR);
            let rows = rows.filter(|row| counts(input, *row));
            let mut count = |hash: u64| {
                let number = hash.wrapping_mul(MULTIPLIER);
                set(&mut of_all, number, COUNTED);
                set(&mut of_vector, number, COUNTED_OF_VECTOR);
                counted.values += 1;
            };
            match input.values {
                Values::Bytes(strings) => rows.for_each(|row| count(hash_of(strings.get(row)))),
                values => with_words!(Values, values, words => {
                    rows.for_each(|row| count(folded(widened(words[row]).wrapping_mul(MULTIPLIER))));
                }, return None),
            }
            let distinct: usize = ones(&of_vector);
            counted.of_vectors += distinct;
            counted.vectors += 1;
            of_vector.fill(0);
        }
        counted.distinct = ones(&of_all);
        Some(counted)
    }
}

/// What a sample says of distinct values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SampledValues {
    /// Values that a dictionary would have a code for.
    pub values: usize,
    pub distinct: usize,
    /// The sum of the distinct values of each vector.
    pub of_vectors: usize,
    pub vectors: usize,
}

impl SampledValues {
    /// Whether a dictionary of `distinct` values may take as much less than `limit` bytes for so
    /// many rows as `saves` asks for: what saves less is not worth a second step of decoding.
    /// Codes take bits for the values of a vector, or those of the chunk less a quarter if
    /// neighbours are alike (city_temperature_f_rg: 9.9 to 8.9 bits, of 10 a code).
    pub fn may_pay(&self, rows: usize, distinct: usize, limit: usize, saves: Saves) -> bool {
        let code_bits = usize::BITS - distinct.saturating_sub(1).leading_zeros();
        // In eighths of bits.
        let of_vector = (self.of_vectors / self.vectors.max(1)).max(1) as u128;
        let eighths = of_vector.pow(8).ilog2().max(code_bits * 6);
        saves(rows * eighths as usize / 64, limit)
    }

    /// Whether most values come again.
    pub fn repeats(&self) -> bool {
        self.values > 0 && self.distinct <= self.values * 3 / 4
    }

    /// The most distinct values that a dictionary of so many rows may have. Where the sample is
    /// like the rest there are at most as many times as many as there are times as many rows;
    /// and of values that seldom come twice the dictionary is as large as they are.
    pub fn most(&self, rows: usize) -> usize {
        let vectors = rows.div_ceil(VECTOR);
        (rows / 4 * 3).min(2 * self.distinct * vectors.div_ceil(self.vectors.max(1)))
    }
}

/// [`saves`], [`strings_save`] or [`saves_any`].
pub(crate) type Saves = fn(usize, usize) -> bool;

/// Whether so many bytes are 1/16 less than `limit`: less is not worth the way round for readers.
pub(crate) fn saves(bytes: usize, limit: usize) -> bool {
    bytes <= limit - limit.div_ceil(16)
}

/// The same of strings, a tenth: their bytes are copied from dictionaries, on a GPU at a third
/// of the speed of decoding them in place.
pub(crate) fn strings_save(bytes: usize, limit: usize) -> bool {
    bytes <= limit - limit.div_ceil(10)
}

/// Whether so many bytes are less than `limit` at all.
pub(crate) fn saves_any(bytes: usize, limit: usize) -> bool {
    bytes < limit
}

/// Bits of the bitmap in which values of a sample are counted, eight for each, and those of a
/// vector.
pub(crate) const COUNTED: usize = 1 << 17;
pub(crate) const COUNTED_OF_VECTOR: usize = 1 << 13;

/// An odd number near 2^64 divided by the golden ratio.
pub(crate) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The low half takes part of the high one: products carry upwards only.
fn folded(word: u64) -> u64 {
    word ^ word >> 32
}

/// Bytes of a byte string that its hash looks at.
pub(crate) const HASHED: usize = 1024;

/// A hash of a byte string, the same everywhere, eight bytes at a time.
fn hash_of(bytes: &[u8]) -> u64 {
    bytes[..bytes.len().min(HASHED)].chunks(8).fold(bytes.len() as u64, |hash, bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        folded((hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER))
    })
}

fn widened(word: impl Words) -> u64 {
    word.widen()
}

/// The least of integers, and how many there are from it to the greatest, if these are few
/// enough for a table without hashes.
fn narrow<T: Words>(input: &Input<'_>, words: &[T]) -> Option<(T, usize)> {
    if matches!(input.physical, Physical::F32 | Physical::F64) {
        return None;
    }
    let order = order_of(input.physical);
    let above = |one: T, other: T| {
        order(one.widen(), T::BITS as u32) > order(other.widen(), T::BITS as u32)
    };
    let (least, greatest) = (0..input.vectors())
        .filter_map(|vector| ffor::vector_bounds(input, words, vector))
        .reduce(|(least, greatest), (low, high)| {
            let least = if above(least, low) { low } else { least };
            (least, if above(high, greatest) { high } else { greatest })
        })?;
    let range = greatest.wrapping_sub(least).widen();
    (range < NARROW).then(|| (least, range as usize + 1))
}

/// Gives null rows codes of values.
fn fill_nulls(input: &Input<'_>, codes: &mut [u32]) {
    if input.physical == Physical::Bytes || input.valid.is_none() {
        return;
    }
    for (vector, codes) in codes.chunks_mut(VECTOR).enumerate() {
        io::fill_nulls(codes, &input.vector_valid(vector), 0);
    }
}

/// Values by their numbers, in the order in which they come.
struct Numbers<'a, K: Keys> {
    keys: &'a K,
    state: RandomState,
    table: HashTable<(K::Key, u32)>,
    /// The first row of each value.
    rows: Vec<u32>,
    most: usize,
    /// The key of the row before, and its number.
    before: Option<(K::Key, u32)>,
}

impl<'a, K: Keys> Numbers<'a, K> {
    /// None yet.
    fn new(keys: &'a K, most: usize) -> Self {
        let (state, table) = (RandomState::new(), HashTable::new());
        Self { keys, state, table, rows: Vec::new(), most, before: None }
    }

    /// The number of a row's value; none if there are too many.
    fn number(&mut self, row: usize) -> Option<u32> {
        let Self { keys, state, table, rows, most, before } = self;
        let key = keys.key(row, state);
        // Runs of equal values are common, and looked up once.
        if let Some((_, number)) = before.filter(|(before, _)| keys.is_equal(before, &key)) {
            return Some(number);
        }
        let entry = table.entry(
            K::hash(&key, state),
            |(other, _)| keys.is_equal(other, &key),
            |(other, _)| K::hash(other, state),
        );
        let number = match entry {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(_) if rows.len() >= *most => return None,
            Entry::Vacant(place) => {
                let number = rows.len() as u32;
                place.insert((key, number));
                rows.push(row as u32);
                number
            }
        };
        *before = Some((key, number));
        Some(number)
    }

    /// Numbers in the order of the values.
    fn sorted(self, mut codes: Vec<u32>, input: &Input<'_>) -> Option<Distinct> {
        if self.rows.is_empty() {
            return None;
        }
        let mut order: Vec<(u64, u32, u32)> = (self.rows.iter().zip(0..))
            .map(|(row, number)| (self.keys.rank(*row as usize), *row, number))
            .collect();
        order.sort_unstable_by(|one, other| {
            let later = || self.keys.order(one.1 as usize, other.1 as usize);
            one.0.cmp(&other.0).then_with(later)
        });
        let mut codes_of = vec![0; order.len()];
        for (code, (_, _, number)) in order.iter().enumerate() {
            codes_of[*number as usize] = code as u32;
        }
        for row in (0..codes.len()).filter(|row| counts(input, *row)) {
            codes[row] = codes_of[codes[row] as usize];
        }
        fill_nulls(input, &mut codes);
        Some(Distinct { rows: order.iter().map(|(_, row, _)| *row).collect(), codes })
    }
}
