//! Chunks that membership filters exclude: those whose filter has none of the constants that a test of equality
//! or a list asks for.
//!
//! ```text
//! chunks that bounds leave     which filters could exclude the chunk?      none: it stays
//!          |                                                               some: these are read,
//!          v                                                               64 MiB at a time
//! values of a test within      is one of them in the filter?               no: no row passes the test
//! the bounds of the chunk
//! ```
//!
//! A filter says that a test passes for no row, or nothing. So it is asked for tests that are alone or within
//! AND and OR, where this may exclude the chunk, and not for those below NOT.

use std::collections::HashMap;

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::bounds::{self, ChunkFacts};
use super::chunks::{ChunkSource, facts_of};
use super::cpu;
use super::literal::{self, Value};
use super::predicate::{BytesForm, Predicate, Test};
use super::windows::windows;
use crate::bloom::{self, BloomFilter};
use crate::chunk::Statistics;
use crate::error::Result;
use crate::ranges::{Key, Share};

/// Values of a test that a filter is asked for at most. One in a hundred is a false positive: with 128 values
/// that a chunk does not have, a quarter of the chunks are excluded, which still pays for the filters; with
/// more few are.
const MOST_VALUES: u64 = 128;
/// Bytes of filters that are read at a time, or those of one chunk if they have more, unless the source says how
/// many bytes of chunks are.
const PORTION_BYTES: u64 = 64 << 20;

/// The chunks, of some with the numbers of their first rows, that filters do not exclude; `used` are the columns
/// that the predicate numbers.
pub(super) fn chunks_not_excluded(
    source: &dyn ChunkSource,
    predicate: &Predicate,
    used: &[usize],
    chunks: Vec<(usize, usize)>,
) -> Result<Vec<(usize, usize)>> {
    let mut tested = Vec::new();
    columns_of(predicate, &|_, test| is_of_values(test), &mut tested);
    tested.retain(|column| {
        chunks.iter().any(|(chunk, _)| source.filter_bytes(used[*column], *chunk) > 0)
    });
    if tested.is_empty() {
        return Ok(chunks);
    }
    // The filters that may exclude each chunk.
    let wanted: Vec<Vec<usize>> = chunks
        .iter()
        .map(|(chunk, _)| ChunkQuery { source, predicate, used, chunk: *chunk }.wanted(&tested))
        .collect();
    let bytes = chunks.iter().zip(&wanted).map(|((chunk, _), columns)| {
        columns.iter().map(|column| source.filter_bytes(used[*column], *chunk)).sum()
    });
    let mut kept = Vec::with_capacity(chunks.len());
    for portion in windows(bytes, source.window_bytes().unwrap_or(PORTION_BYTES)) {
        let (chunks, wanted) = (&chunks[portion.clone()], &wanted[portion]);
        let pairs: Vec<(usize, usize)> = (chunks.iter().zip(wanted))
            .flat_map(|((chunk, _), columns)| columns.iter().map(|column| (used[*column], *chunk)))
            .collect();
        if pairs.is_empty() {
            kept.extend(chunks);
            continue;
        }
        let mut filters = source.read_filters(&pairs)?.into_iter();
        for (chunk, columns) in chunks.iter().zip(wanted) {
            let own = columns.iter().copied().zip(filters.by_ref()).collect();
            let asked = ChunkQuery { source, predicate, used, chunk: chunk.0 };
            if columns.is_empty() || !asked.is_excluded(&own) {
                kept.push(*chunk);
            }
        }
    }
    Ok(kept)
}

/// Adds each column once of whose tests one fits.
fn columns_of(
    predicate: &Predicate,
    fits: &impl Fn(usize, &Test) -> bool,
    columns: &mut Vec<usize>,
) {
    match predicate {
        Predicate::Test(column, test) if !columns.contains(column) && fits(*column, test) => {
            columns.push(*column);
        }
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().for_each(|part| columns_of(part, fits, columns));
        }
        _ => {}
    }
}

/// Whether a test may have few values that pass within the bounds of some chunk, as far as is seen without
/// bounds.
fn is_of_values(test: &Test) -> bool {
    match test {
        Test::Words(_, ranges) => ranges.iter().any(|(low, high)| high - low < MOST_VALUES),
        Test::Wide(ranges) => !ranges.is_empty(),
        Test::Bytes(test) => matches!(test.form, BytesForm::OneOf(_)) && !test.negated,
    }
}

/// A chunk of a source that a predicate is asked about.
struct ChunkQuery<'a> {
    source: &'a dyn ChunkSource,
    predicate: &'a Predicate,
    used: &'a [usize],
    chunk: usize,
}

impl ChunkQuery<'_> {
    fn facts(&self, column: usize) -> ChunkFacts {
        facts_of(self.source, self.used[column], self.chunk)
    }

    fn hashes(&self, column: usize, test: &Test) -> Option<Vec<u64>> {
        let data_type = self.source.schema().field(self.used[column]).data_type();
        hashes(test, data_type, &self.facts(column).statistics)
    }

    /// The columns, of some, whose filters may exclude the chunk.
    fn wanted(&self, tested: &[usize]) -> Vec<usize> {
        let has_filter =
            |column: usize| self.source.filter_bytes(self.used[column], self.chunk) > 0;
        if !tested.iter().any(|column| has_filter(*column)) {
            return Vec::new();
        }
        // As if no filter had any of the values.
        let excludes =
            |column: usize, test: &Test| has_filter(column) && self.hashes(column, test).is_some();
        let facts = |column: usize| self.facts(column);
        match bounds::of_predicate_within(self.predicate, &facts, &excludes) {
            Share::None => {
                let mut columns = Vec::new();
                columns_of(self.predicate, &excludes, &mut columns);
                columns
            }
            _ => Vec::new(),
        }
    }

    /// Whether filters, by column, say that the chunk has no row that is kept.
    fn is_excluded(&self, filters: &HashMap<usize, BloomFilter>) -> bool {
        let excludes = |column: usize, test: &Test| {
            let lacks_all = |filter: &BloomFilter| {
                let hashes = self.hashes(column, test)?;
                Some(!hashes.into_iter().any(|hash| filter.may_contain(hash)))
            };
            filters.get(&column).and_then(lacks_all).unwrap_or(false)
        };
        let facts = |column: usize| self.facts(column);
        bounds::of_predicate_within(self.predicate, &facts, &excludes) == Share::None
    }
}

/// The hashes of the values that pass a test, in its ranges that meet the bounds of a chunk of a type, if these
/// are few.
fn hashes(test: &Test, data_type: &DataType, statistics: &Statistics) -> Option<Vec<u64>> {
    match test {
        Test::Words(key, ranges) => {
            let bytes = key_bytes(*key).filter(|_| Key::of(data_type) == Some(*key))?;
            let within = match cpu::bounds(statistics) {
                Some((Value::Word(least), Value::Word(greatest))) => ranges.within(least, greatest),
                _ => ranges.as_slice(),
            };
            let rest = within.iter().try_fold(MOST_VALUES, |rest, (low, high)| {
                rest.checked_sub((high - low).checked_add(1)?)
            });
            rest?;
            let values = within.iter().flat_map(|(low, high)| *low..=*high);
            Some(
                values.map(|word| bloom::hash(&key.to_bits(word).to_le_bytes()[..bytes])).collect(),
            )
        }
        Test::Wide(ranges) => {
            let bytes = match data_type {
                DataType::Decimal128(..) => 16,
                DataType::Decimal256(..) => 32,
                _ => return None,
            };
            let within = match cpu::bounds(statistics) {
                Some((Value::Wide(least), Value::Wide(greatest))) => ranges.within(least, greatest),
                _ => ranges.as_slice(),
            };
            let mut hashes = Vec::new();
            for (low, high) in within {
                let mut value = *low;
                loop {
                    if hashes.len() as u64 == MOST_VALUES {
                        return None;
                    }
                    hashes.push(bloom::hash(&value.to_le_bytes()[..bytes]));
                    if value == *high {
                        break;
                    }
                    value = value.wrapping_add(i256::ONE);
                }
            }
            Some(hashes)
        }
        Test::Bytes(test) => {
            let BytesForm::OneOf(values) = &test.form else { return None };
            let within = match literal::string_bounds(statistics) {
                Some((least, greatest)) => {
                    let first = values.partition_point(|value| *value < least);
                    // Upper bounds that were cut are above all values.
                    let behind = greatest.map_or(values.len(), |greatest| {
                        values.partition_point(|value| *value <= greatest)
                    });
                    &values[first.min(behind)..behind]
                }
                None => values.as_slice(),
            };
            let is_few = within.len() as u64 <= MOST_VALUES;
            let hash = |value: &Vec<u8>| bloom::hash(value);
            (is_few && !test.negated).then(|| within.iter().map(hash).collect())
        }
    }
}

/// The bytes of values of a key; booleans have none.
fn key_bytes(key: Key) -> Option<usize> {
    key.bits.is_multiple_of(8).then_some(key.bits as usize / 8)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;
    use crate::ranges::Ranges;
    use crate::scan::predicate::BytesTest;

    fn words(data_type: &DataType, ranges: &[(i128, i128)]) -> Test {
        let key = Key::of(data_type).unwrap();
        let word = |value| key.of_integer(value).unwrap();
        Test::Words(key, Ranges::of(ranges.iter().map(|(a, b)| (word(*a), word(*b))).collect()))
    }

    #[test]
    fn tests_for_few_values_within_the_bounds_are_asked() {
        let chunk: ArrayRef = Arc::new(Int64Array::from(vec![1000, -5, 70]));
        let of = |ranges: &[(i128, i128)]| {
            hashes(&words(&DataType::Int64, ranges), &DataType::Int64, &Statistics::of(&chunk))
        };
        let hash = |value: i64| bloom::hash(&value.to_le_bytes());
        assert_eq!(of(&[(70, 70)]), Some(vec![hash(70)]));
        assert_eq!(of(&[(-3, -2), (8, 8)]), Some(vec![hash(-3), hash(-2), hash(8)]));
        // Outside of the bounds are any number.
        assert_eq!(of(&[(7, 7), (2000, 1 << 40)]), Some(vec![hash(7)]));
        assert_eq!(of(&[(0, 127)]).map(|hashes| hashes.len()), Some(128));
        assert_eq!(of(&[(0, 128)]), None);
        assert_eq!(of(&[(7, 7), (900, i64::MAX.into())]), None);
    }

    #[test]
    fn floats_are_hashed_bit_by_bit() {
        let key = Key::of(&DataType::Float64).unwrap();
        let chunk: ArrayRef = Arc::new(Float64Array::from(vec![-1.0, -0.0, 0.0, 1.0]));
        let [low, high] = [-0.0_f64, 0.0].map(|value| key.of_bits(value.to_bits()));
        let found = |low, high| {
            let test = Test::Words(key, Ranges::between(low, high));
            hashes(&test, &DataType::Float64, &Statistics::of(&chunk)).unwrap()
        };
        let [negative, positive] = [-0.0_f64, 0.0].map(|value| bloom::hash(&value.to_le_bytes()));
        assert_eq!(found(low, high), [negative, positive]);
        assert_eq!((found(low, low), found(high, high)), (vec![negative], vec![positive]));
    }

    #[test]
    fn lists_of_strings_are_asked_and_others_are_not() {
        let long = "x".repeat(100);
        let chunk: ArrayRef = Arc::new(StringArray::from(vec!["b", &long]));
        let of = |values: &[&str], negated| {
            let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
            let test = BytesTest::new(BytesForm::OneOf(values), (None, None), negated);
            hashes(&Test::Bytes(Arc::new(test)), &DataType::Utf8, &Statistics::of(&chunk))
        };
        let hash = |value: &str| bloom::hash(value.as_bytes());
        assert_eq!(of(&["a", "c", &long, "z"], false), Some(vec![hash("c"), hash(&long)]));
        assert_eq!(of(&["c"], true), None);
        let many: Vec<String> = (0..129).map(|number| format!("c{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(of(&many[1..], false).map(|hashes| hashes.len()), Some(128));
        assert_eq!(of(&many, false), None);
    }
}
