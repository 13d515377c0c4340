//! Groups of a chunk's kept rows.

use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::aggregate::{ChunkInput, ValidRows, bits, words};
use super::join::{ChunkJoins, Keys};
use super::source::Source;
use super::{Filter, NONE, Numbers, Validity, rows};
use crate::chunk::{NodeView, StringForm};
use crate::column::CompressedColumn;
use crate::encoding::{self, Output, Physical, dict};
use crate::error::{Error, Result};
use crate::interner::Interner;
use crate::lanes::{Mask, VECTOR, mask};
use crate::ranges::Key;
use crate::scan::group::{GroupKey, GroupTable, Grouping, KeySource, lock};
use crate::scan::join::JoinKind;
use crate::scan::lookup::LookupColumn;
use crate::scan::number::Number;
use crate::threads::each_in_turn;

/// Tables of groups that threads add to, each to one that no other has at that time.
pub(in crate::scan) struct Tables<'a> {
    grouping: Grouping<'a>,
    idle: Mutex<Vec<GroupTable>>,
}

impl<'a> Tables<'a> {
    pub fn new(grouping: Grouping<'a>) -> Self {
        Self { grouping, idle: Mutex::default() }
    }

    pub fn grouping(&self) -> Grouping<'a> {
        self.grouping
    }

    fn idle(&self) -> MutexGuard<'_, Vec<GroupTable>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `add` add the groups of each chunk to one of them, in parallel.
    pub fn add_chunks(
        &self,
        chunks: usize,
        add: impl Fn(usize, &mut GroupTable) -> Result<()> + Sync,
    ) -> Result<()> {
        let of_chunk = |index| {
            let idle = self.idle().pop();
            let mut table = idle.unwrap_or_else(|| self.grouping.table());
            add(index, &mut table)?;
            self.idle().push(table);
            Ok(())
        };
        each_in_turn(chunks, of_chunk).map(drop)
    }

    /// Adds groups that have been found otherwise.
    pub fn add(&self, found: GroupTable) -> Result<()> {
        let idle = self.idle().pop();
        let merged = match idle {
            None => found,
            Some(before) => before.merge(found)?,
        };
        self.idle().push(merged);
        Ok(())
    }

    /// All groups.
    pub fn merged(self) -> Result<GroupTable> {
        let tables = self.idle.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut tables = tables.into_iter();
        let first = tables.next().unwrap_or_else(|| self.grouping.table());
        tables.try_fold(first, GroupTable::merge)
    }
}

/// Adds the kept rows of chunk `index` to a table of groups.
pub(in crate::scan) fn chunk(
    grouping: Grouping<'_>,
    filter: &Filter<'_>,
    columns: &[&CompressedColumn],
    index: usize,
    table: &mut GroupTable,
) -> Result<()> {
    let Grouping { keys, plans, numbering, .. } = grouping;
    if filter.constant() == Some(false) {
        return Ok(());
    }
    let sources = Source::of_all(columns, index);
    let joins = ChunkJoins::new(columns, index, filter.joins());
    let of_chunk = (index, filter.rows());
    let inputs = ChunkInput::of_plans(plans, columns, &sources, of_chunk, &joins)?;
    let mut keys: Vec<ChunkKey<'_>> = keys
        .iter()
        .map(|key| ChunkKey::new(key, columns, &sources, index, &joins))
        .collect::<Result<_>>()?;
    let mut kept: Vec<u16> = Vec::with_capacity(VECTOR);
    let (mut numbers, mut groups) =
        (Vec::<u128>::with_capacity(VECTOR), Vec::with_capacity(VECTOR));
    let mut codes = [0_u64; VECTOR];
    for vector in 0..filter.rows().div_ceil(VECTOR) {
        let mask = filter.select(vector)?;
        if mask == NONE {
            continue;
        }
        kept.clear();
        kept.extend(rows(&mask).map(|row| row as u16));
        numbers.clear();
        numbers.resize(kept.len(), 0);
        for (key, stride) in keys.iter_mut().zip(&numbering.strides) {
            let valid = key.codes(vector, &mask, &mut codes)?;
            let offset = u128::from(key.key.has_nulls);
            for (number, row) in numbers.iter_mut().zip(&kept) {
                let row = usize::from(*row);
                // Code 0 is null.
                if mask::has(&valid, row) {
                    *number += (u128::from(codes[row]) + offset) * stride;
                }
            }
        }
        table.groups(&numbers, &mut groups)?;
        for (input, states) in inputs.iter().zip(&mut table.states) {
            input.add_to_groups(vector, &mask, &kept, &groups, states)?;
        }
    }
    Ok(())
}

const OUTSIDE: &str = "a value outside the bounds of its column";

/// A key in one chunk.
struct ChunkKey<'a> {
    key: &'a GroupKey,
    codes: Codes<'a>,
}

/// Where the codes of rows come from.
enum Codes<'a> {
    Joined {
        column: &'a LookupColumn,
        keys: Rc<dyn Keys + 'a>,
        /// Whether rows are kept that the lookup has no key of.
        may_lack: bool,
    },
    Words {
        key: Key,
        least: u64,
        source: Source<'a>,
        validity: Validity<'a>,
    },
    Number {
        /// Of the first column that it is computed from.
        name: &'a str,
        number: &'a Number,
        least: i128,
        numbers: Numbers<'a>,
        valid: ValidRows<'a>,
    },
    Strings {
        strings: &'a Mutex<Interner>,
        source: Source<'a>,
        validity: Validity<'a>,
        dictionary: Option<ChunkDictionary<'a>>,
    },
}

impl<'a> ChunkKey<'a> {
    fn new(
        key: &'a GroupKey,
        columns: &[&'a CompressedColumn],
        sources: &[Source<'a>],
        index: usize,
        joins: &Rc<ChunkJoins<'a>>,
    ) -> Result<Self> {
        let place = |error: Error, column: &CompressedColumn| {
            error.in_chunk(index).in_column(column.field().name())
        };
        let validity = |column: usize| {
            let column = columns[column];
            Validity::of(&column.chunks()[index], column).map_err(|error| place(error, column))
        };
        let codes = match &key.source {
            KeySource::Joined(joined) => {
                let may_lack = joined.join.kind != JoinKind::Inner;
                Codes::Joined { column: joined.column(), keys: joins.of(&joined.join)?, may_lack }
            }
            KeySource::Words { column, key, least } => {
                let (source, validity) = (sources[*column].clone(), validity(*column)?);
                Codes::Words { key: *key, least: *least, source, validity }
            }
            KeySource::Number { number, width, least } => {
                let (mut of, mut joined) = (Vec::new(), Vec::new());
                number.columns(&mut of);
                number.joined_columns(&mut joined);
                let valid = ValidRows::new(&of, joined, columns, index, joins)?;
                let numbers = Numbers::new(sources.to_vec(), joins, *width);
                let name = columns[of[0]].field().name();
                Codes::Number { name, number, least: *least, numbers, valid }
            }
            KeySource::Coded { .. } => unreachable!("devices know these codes"),
            KeySource::Strings { column, strings } => {
                let (source, validity) = (sources[*column].clone(), validity(*column)?);
                let dictionary = ChunkDictionary::new(source.node());
                let dictionary = dictionary.map_err(|error| place(error, columns[*column]))?;
                Codes::Strings { strings, source, validity, dictionary }
            }
        };
        Ok(Self { key, codes })
    }

    /// The codes of the kept rows of a vector that have values, and which rows these are.
    fn codes(&mut self, vector: usize, mask: &Mask, codes: &mut [u64; VECTOR]) -> Result<Mask> {
        let mut valid = *mask;
        match &mut self.codes {
            Codes::Joined { column, keys, may_lack } => {
                if *may_lack {
                    keys.retain(vector, &mut valid)?;
                }
                keys.entries(vector, &valid, codes)?;
                let found = valid;
                for row in rows(&found) {
                    let code = column.code(codes[row]);
                    codes[row] = code as u64;
                    if Some(code) == column.null {
                        mask::set(&mut valid, row, false);
                    }
                }
            }
            Codes::Words { key, least, source, validity } => {
                validity.retain(vector, &mut valid);
                let words = match source.node().physical() {
                    Physical::Bool => bits(source.node(), vector),
                    _ => words(source, vector),
                };
                let words = words.map_err(|error| source.place(error))?;
                let greatest = u64::try_from(self.key.values - 1).unwrap_or(u64::MAX);
                for row in rows(&valid) {
                    let code = key.of_bits(words[row]).wrapping_sub(*least);
                    if code > greatest {
                        return Err(source.place(Error::corrupt(OUTSIDE)));
                    }
                    codes[row] = code;
                }
            }
            Codes::Number { name, number, least, numbers, valid: of } => {
                of.retain(vector, &mut valid)?;
                let values = numbers.integers(number, vector)?;
                for row in rows(&valid) {
                    let code = values[row].wrapping_sub(*least) as u128;
                    if code >= self.key.values {
                        return Err(Error::corrupt(OUTSIDE).in_column(name));
                    }
                    codes[row] = code as u64;
                }
            }
            Codes::Strings { strings, source, validity, dictionary } => {
                validity.retain(vector, &mut valid);
                let strings = &mut lock(strings);
                let found = match dictionary {
                    Some(dictionary) => dictionary.codes(vector, &valid, codes, strings),
                    None => codes_of_strings(source.node(), vector, &valid, codes, strings),
                };
                found.map_err(|error| source.place(error))?;
            }
        }
        Ok(valid)
    }
}

/// The codes of the strings of a vector's valid rows.
fn codes_of_strings(
    node: NodeView<'_>,
    vector: usize,
    valid: &Mask,
    codes: &mut [u64; VECTOR],
    strings: &mut Interner,
) -> Result<()> {
    let range = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
    let mut lengths = vec![0; range.len()];
    let bytes = encoding::decode_strings(node, range, &mut lengths)?;
    let mut start = 0;
    // Neighbours are often the same.
    let mut last: Option<(&[u8], u32)> = None;
    for (row, length) in lengths.iter().enumerate() {
        let value = &bytes[start..start + *length as usize];
        start += value.len();
        if !mask::has(valid, row) {
            continue;
        }
        let found = match last {
            Some((known, found)) if known == value => found,
            _ => strings.code(value)?,
        };
        last = Some((value, found));
        codes[row] = found.into();
    }
    Ok(())
}

/// The distinct strings of a chunk that is stored by them.
struct ChunkDictionary<'a> {
    /// Of each string the code, once a row with it is kept.
    known: Vec<Option<u32>>,
    bytes: Vec<u8>,
    /// Where each string begins, and the end of the last.
    offsets: Vec<usize>,
    /// Which string each row has.
    of_rows: NodeView<'a>,
}

impl<'a> ChunkDictionary<'a> {
    /// That of a node of strings, if it has one.
    fn new(node: NodeView<'a>) -> Result<Option<Self>> {
        if node.string_form()? != StringForm::Lookup {
            return Ok(None);
        }
        let (lengths, offsets, bytes) = dict::strings_of(node.child(1))?;
        let known = vec![None; lengths.len()];
        Ok(Some(Self { known, bytes, offsets, of_rows: node.child(0) }))
    }

    /// The codes of the strings of a vector's valid rows.
    fn codes(
        &mut self,
        vector: usize,
        valid: &Mask,
        codes: &mut [u64; VECTOR],
        strings: &mut Interner,
    ) -> Result<()> {
        let range = vector * VECTOR..self.of_rows.len().min((vector + 1) * VECTOR);
        let mut found = [0_u32; VECTOR];
        let len = range.len();
        encoding::decode(self.of_rows, range, Output::W32(&mut found[..len]))?;
        for row in rows(valid) {
            dict::check_code(found[row], self.known.len())?;
            let number = found[row] as usize;
            let code = match self.known[number] {
                Some(code) => code,
                None => {
                    strings.code(&self.bytes[self.offsets[number]..self.offsets[number + 1]])?
                }
            };
            self.known[number] = Some(code);
            codes[row] = code.into();
        }
        Ok(())
    }
}
