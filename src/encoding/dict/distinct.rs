//! The distinct values of a chunk, and which of them every row has.
//!
//! One pass through a hash table gives every value a number by its first row; sorting the
//! distinct values then gives them their codes. What the table's hashes are (they differ from
//! run to run, so that nobody can make values that collide) does not show in the result.

use std::cmp::Ordering;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::encoding::io::with_words;
use crate::encoding::{BytesValues, Input, Physical, Values, Words};
use crate::lanes::VECTOR;

/// Distinct values, ascending, and the code of every row.
///
/// Null words have the code of the row before, the first ones code 0, whatever that stands
/// for: readers of codes know nothing of nulls. Null byte strings are values as others: they
/// are empty, and stay so.
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
    fn hash(&self, row: usize, state: &RandomState) -> u64;
    fn is_equal(&self, one: usize, other: usize) -> bool;
    fn order(&self, one: usize, other: usize) -> Ordering;
}

struct WordKeys<'a, T> {
    words: &'a [T],
    /// Words as numbers that ascend as the values do.
    ordered: fn(u64, u32) -> u64,
}

impl<T: Words> Keys for WordKeys<'_, T> {
    fn hash(&self, row: usize, state: &RandomState) -> u64 {
        state.hash_one(self.words[row].widen())
    }

    fn is_equal(&self, one: usize, other: usize) -> bool {
        self.words[one] == self.words[other]
    }

    fn order(&self, one: usize, other: usize) -> Ordering {
        let key = |row: usize| (self.ordered)(self.words[row].widen(), T::BITS as u32);
        key(one).cmp(&key(other))
    }
}

impl Keys for BytesValues<'_> {
    fn hash(&self, row: usize, state: &RandomState) -> u64 {
        state.hash_one(self.get(row))
    }

    fn is_equal(&self, one: usize, other: usize) -> bool {
        self.get(one) == self.get(other)
    }

    fn order(&self, one: usize, other: usize) -> Ordering {
        self.get(one).cmp(self.get(other))
    }
}

/// The order of a type's words: of integers their own, of floats IEEE 754 total order.
fn order_of(physical: Physical) -> fn(u64, u32) -> u64 {
    match physical {
        Physical::F32 | Physical::F64 => |word, bits| {
            let sign = 1 << (bits - 1);
            if word & sign == 0 { word | sign } else { !word & (sign | (sign - 1)) }
        },
        physical if physical.is_signed() => |word, bits| word ^ 1 << (bits - 1),
        _ => |word, _| word,
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

impl Distinct {
    /// Finds them, if they are at most `most` and there is one.
    pub fn find(input: &Input<'_>, most: usize) -> Option<Self> {
        with_keys!(input, keys => {
            let mut found = Numbers::new(most);
            let mut codes = vec![0; input.len()];
            let mut before = None;
            for row in (0..input.len()).filter(|row| counts(input, *row)) {
                // Runs of equal values are common, and looked up once.
                codes[row] = match before {
                    Some(before) if keys.is_equal(before, row) => codes[before],
                    _ => found.number(keys, row)?,
                };
                before = Some(row);
            }
            found.sorted(keys, codes, |row| counts(input, row))
        }, None)
    }

    /// How many distinct values there are in some vectors, and how many values; none for
    /// values that have no dictionary.
    pub fn count(
        input: &Input<'_>,
        vectors: impl Iterator<Item = usize>,
    ) -> Option<(usize, usize)> {
        with_keys!(input, keys => {
            let mut found = Numbers::new(usize::MAX);
            let mut values = 0;
            for vector in vectors {
                let rows = vector * VECTOR..input.len().min((vector + 1) * VECTOR);
                for row in rows.filter(|row| counts(input, *row)) {
                    found.number(keys, row)?;
                    values += 1;
                }
            }
            Some((found.rows.len(), values))
        }, None)
    }
}

/// Values by their numbers, in the order in which they come.
struct Numbers {
    state: RandomState,
    table: HashTable<u32>,
    /// The first row of each value.
    rows: Vec<u32>,
    most: usize,
}

impl Numbers {
    fn new(most: usize) -> Self {
        Self { state: RandomState::new(), table: HashTable::new(), rows: Vec::new(), most }
    }

    /// The number of a row's value; none if there are too many.
    fn number(&mut self, keys: &impl Keys, row: usize) -> Option<u32> {
        let Self { state, table, rows, most } = self;
        let entry = table.entry(
            keys.hash(row, state),
            |number| keys.is_equal(rows[*number as usize] as usize, row),
            |number| keys.hash(rows[*number as usize] as usize, state),
        );
        match entry {
            Entry::Occupied(number) => Some(*number.get()),
            Entry::Vacant(_) if rows.len() >= *most => None,
            Entry::Vacant(place) => {
                let number = rows.len() as u32;
                place.insert(number);
                rows.push(row as u32);
                Some(number)
            }
        }
    }

    /// Numbers in the order of the values.
    fn sorted(
        self,
        keys: &impl Keys,
        mut codes: Vec<u32>,
        counts: impl Fn(usize) -> bool,
    ) -> Option<Distinct> {
        if self.rows.is_empty() {
            return None;
        }
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        let row = |number: u32| self.rows[number as usize] as usize;
        order.sort_unstable_by(|one, other| keys.order(row(*one), row(*other)));
        let mut codes_of = vec![0; order.len()];
        for (code, number) in order.iter().enumerate() {
            codes_of[*number as usize] = code as u32;
        }
        let mut before = 0;
        for (row, code) in codes.iter_mut().enumerate() {
            if counts(row) {
                before = codes_of[*code as usize];
            }
            *code = before;
        }
        Some(Distinct { rows: order.iter().map(|number| row(*number) as u32).collect(), codes })
    }
}
