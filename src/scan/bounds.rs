//! What the bounds in a chunk's header say of a filter, without a look at its values.
//!
//! The CPU asks for each test when it makes a chunk ready, plans of queries for whole filters. Bounds
//! may be wider than the values are, never narrower; a chunk without them is undecided.

use super::cpu::bounds;
use super::join::Probe;
use super::literal::{self, Value};
use super::predicate::{Predicate, Test};
use crate::chunk::Statistics;
use crate::ranges::{Key, Share};

/// What the header of a column's chunk says.
pub(super) struct ChunkFacts {
    pub rows: usize,
    pub nulls: usize,
    pub statistics: Statistics,
    /// The order of the values; none of types of more than 64 bits.
    pub key: Option<Key>,
    /// Whether the values are carried as Arrow IPC, whose nulls are only known once it is read.
    pub is_carried: bool,
}

/// The share of the valid values that pass a test.
pub(super) fn of_test(test: &Test, statistics: &Statistics) -> Share {
    match test {
        Test::Words(_, ranges) => match bounds(statistics) {
            Some((Value::Word(least), Value::Word(greatest))) => ranges.share(least, greatest),
            _ => Share::Some,
        },
        Test::Wide(ranges) => match bounds(statistics) {
            Some((Value::Wide(least), Value::Wide(greatest))) => ranges.share(least, greatest),
            _ => Share::Some,
        },
        Test::Bytes(test) => match literal::string_bounds(statistics) {
            Some((least, greatest)) if test.is_outside(&least, greatest.as_deref()) => {
                if test.negated { Share::All } else { Share::None }
            }
            _ => Share::Some,
        },
    }
}

/// Whether a lookup may have keys among values with such bounds.
pub(super) fn may_have_keys(probe: &Probe, key: Option<Key>, statistics: &Statistics) -> bool {
    let (Some((Value::Word(least), Value::Word(greatest))), Some(key)) = (bounds(statistics), key)
    else {
        return true;
    };
    let [low, high] = [least, greatest]
        .map(|word| key.integer(word).clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    probe.join.table.keys.may_have(low, high)
}

/// The share of a chunk's rows that a predicate keeps, given the chunk's facts by column.
pub(super) fn of_predicate(predicate: &Predicate, facts: &impl Fn(usize) -> ChunkFacts) -> Share {
    of_predicate_within(predicate, facts, &|_, _| false)
}

/// The same, given also tests of columns that are known to pass for no row; those below NOT are not asked about.
pub(super) fn of_predicate_within(
    predicate: &Predicate,
    facts: &impl Fn(usize) -> ChunkFacts,
    passes_none: &impl Fn(usize, &Test) -> bool,
) -> Share {
    let of_all = |parts: &[Predicate], decisive: Share| {
        let mut is_decided = true;
        for part in parts {
            match of_predicate_within(part, facts, passes_none) {
                share if share == decisive => return decisive,
                Share::Some => is_decided = false,
                _ => {}
            }
        }
        match (is_decided, decisive) {
            (false, _) => Share::Some,
            (true, Share::None) => Share::All,
            (true, _) => Share::None,
        }
    };
    match predicate {
        Predicate::Constant(true) => Share::All,
        Predicate::Constant(false) => Share::None,
        Predicate::IsValid(column) => valid(&facts(*column)),
        Predicate::Test(column, test) if passes_none(*column, test) => Share::None,
        Predicate::Test(column, test) => {
            let facts = facts(*column);
            match valid(&facts) {
                Share::None => Share::None,
                Share::All => of_test(test, &facts.statistics),
                Share::Some => match of_test(test, &facts.statistics) {
                    Share::None => Share::None,
                    _ => Share::Some,
                },
            }
        }
        Predicate::Compare(_, pair, _) => {
            let mut used = Vec::new();
            pair.iter().for_each(|number| number.columns(&mut used));
            match used.iter().any(|column| valid(&facts(*column)) == Share::None) {
                true => Share::None,
                false => Share::Some,
            }
        }
        Predicate::Probe(probe) => {
            let facts = facts(probe.join.column);
            let has_some =
                valid(&facts) != Share::None && may_have_keys(probe, facts.key, &facts.statistics);
            if has_some { Share::Some } else { Share::None }
        }
        Predicate::All(parts) => of_all(parts, Share::None),
        Predicate::Any(parts) => of_all(parts, Share::All),
        Predicate::Not(inner) => match of_predicate(inner, facts) {
            Share::None => Share::All,
            Share::Some => Share::Some,
            Share::All => Share::None,
        },
    }
}

/// The share of the rows that have a value.
fn valid(facts: &ChunkFacts) -> Share {
    match facts.nulls {
        _ if facts.is_carried => Share::Some,
        0 => Share::All,
        nulls if nulls == facts.rows => Share::None,
        _ => Share::Some,
    }
}
