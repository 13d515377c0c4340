//! Groups of a chunk's kept rows.

use std::rc::Rc;

use super::aggregate::{ChunkInput, bits, words};
use super::join::{ChunkJoins, Keys};
use super::source::Source;
use super::{Filter, NONE, Validity, rows};
use crate::chunk::{NodeView, StringForm};
use crate::column::CompressedColumn;
use crate::encoding::{self, Output, Physical, dict};
use crate::error::{Error, Result, ensure};
use crate::lanes::{Mask, VECTOR, mask};
use crate::scan::aggregate::Plan;
use crate::scan::group::{GroupKey, GroupTable, Interner, KeySource, Numbering, lock};

/// Adds the kept rows of chunk `index` to a table of groups.
pub(in crate::scan) fn chunk(
    keys: &[GroupKey],
    plans: &[&Plan],
    numbering: &Numbering,
    filter: &Filter<'_>,
    columns: &[&CompressedColumn],
    index: usize,
    table: &mut GroupTable,
) -> Result<()> {
    if filter.constant() == Some(false) {
        return Ok(());
    }
    let sources = Source::of_all(columns, index);
    let joins = ChunkJoins::new(columns, index, filter.joins());
    let inputs: Vec<ChunkInput<'_>> = plans
        .iter()
        .map(|plan| ChunkInput::new(&plan.input, columns, &sources, index, &joins))
        .collect::<Result<_>>()?;
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
                if valid[row / 64] >> (row % 64) & 1 == 1 {
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

/// A key in one chunk.
struct ChunkKey<'a> {
    key: &'a GroupKey,
    validity: Validity<'a>,
    source: Source<'a>,
    join: Option<Rc<dyn Keys + 'a>>,
    dictionary: Option<ChunkDictionary<'a>>,
}

/// The distinct strings of a chunk that is stored by them.
struct ChunkDictionary<'a> {
    /// Of each string the code, once a row with it is kept.
    codes: Vec<Option<u32>>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Which string each row has.
    of_rows: NodeView<'a>,
}

impl<'a> ChunkKey<'a> {
    fn new(
        key: &'a GroupKey,
        columns: &[&'a CompressedColumn],
        sources: &[Source<'a>],
        index: usize,
        joins: &Rc<ChunkJoins<'a>>,
    ) -> Result<Self> {
        let column = columns[key.column()];
        let source = sources[key.column()].clone();
        let place = |error: Error| error.in_chunk(index).in_column(column.field().name());
        let validity = Validity::of(&column.chunks()[index], column).map_err(place)?;
        let join = match &key.source {
            KeySource::Joined(joined) => Some(joins.of(&joined.join)?),
            KeySource::Words { .. } | KeySource::Strings { .. } => None,
        };
        let dictionary = match &key.source {
            KeySource::Strings { .. } => ChunkDictionary::new(source.node()).map_err(place)?,
            _ => None,
        };
        Ok(Self { key, validity, source, join, dictionary })
    }

    /// The codes of the kept rows of a vector that have values, and which rows these are.
    fn codes(&mut self, vector: usize, mask: &Mask, codes: &mut [u64; VECTOR]) -> Result<Mask> {
        let mut valid = *mask;
        match &self.key.source {
            KeySource::Joined(joined) => {
                let (column, join) = (joined.column(), self.join.as_ref());
                let join = join.ok_or_else(|| Error::corrupt("a join that was not made"))?;
                join.retain(vector, &mut valid)?;
                join.entries(vector, &valid, codes)?;
                let found = valid;
                for row in rows(&found) {
                    let code = column.code(codes[row]);
                    codes[row] = code as u64;
                    if Some(code) == column.null {
                        mask::set(&mut valid, row, false);
                    }
                }
            }
            KeySource::Words { key, least, .. } => {
                self.validity.retain(vector, &mut valid);
                let node = self.source.node();
                let words = match node.physical() {
                    Physical::Bool => bits(node, vector),
                    _ => words(&self.source, vector),
                };
                let words = words.map_err(|error| self.source.place(error))?;
                let greatest = u64::try_from(self.key.values - 1).unwrap_or(u64::MAX);
                for row in rows(&valid) {
                    let code = key.of_bits(words[row]).wrapping_sub(*least);
                    ensure!(code <= greatest, "a value outside the bounds of its column");
                    codes[row] = code;
                }
            }
            KeySource::Strings { strings, .. } => {
                self.validity.retain(vector, &mut valid);
                let mut strings = lock(strings);
                let found = strings_of(
                    &self.source,
                    &mut self.dictionary,
                    vector,
                    &valid,
                    codes,
                    &mut strings,
                );
                found.map_err(|error| self.source.place(error))?;
            }
        }
        Ok(valid)
    }
}

/// The codes of the strings of a vector's valid rows.
fn strings_of(
    source: &Source<'_>,
    dictionary: &mut Option<ChunkDictionary<'_>>,
    vector: usize,
    valid: &Mask,
    codes: &mut [u64; VECTOR],
    strings: &mut Interner,
) -> Result<()> {
    let node = source.node();
    let range = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
    if let Some(dictionary) = dictionary {
        let mut found = [0_u32; VECTOR];
        encoding::decode(
            dictionary.of_rows,
            range.clone(),
            Output::W32(&mut found[..range.len()]),
        )?;
        for row in rows(valid) {
            dict::check_code(found[row], dictionary.codes.len())?;
            codes[row] = dictionary.code(found[row] as usize, strings)?.into();
        }
        return Ok(());
    }
    let mut lengths = vec![0; range.len()];
    let bytes = encoding::decode_strings(node, range, &mut lengths)?;
    let mut start = 0;
    // Neighbours are often the same.
    let mut last: Option<(&[u8], u32)> = None;
    for (row, length) in lengths.iter().enumerate() {
        let value = &bytes[start..start + *length as usize];
        start += value.len();
        if valid[row / 64] >> (row % 64) & 1 == 0 {
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

impl<'a> ChunkDictionary<'a> {
    /// That of a node of strings, if it has one.
    fn new(node: NodeView<'a>) -> Result<Option<Self>> {
        if node.string_form()? != StringForm::Lookup {
            return Ok(None);
        }
        let (of_rows, values) = (node.child(0), node.child(1));
        let mut lengths = vec![0; values.len()];
        let bytes = encoding::decode_strings(values, 0..values.len(), &mut lengths)?;
        let end = |end: &mut usize, length: &u32| {
            *end += *length as usize;
            Some(*end)
        };
        let ends = lengths.iter().scan(0, end).collect();
        Ok(Some(Self { codes: vec![None; values.len()], bytes, ends, of_rows }))
    }

    /// The code of a string that there is.
    fn code(&mut self, number: usize, strings: &mut Interner) -> Result<u32> {
        if let Some(code) = self.codes[number] {
            return Ok(code);
        }
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let code = strings.code(&self.bytes[start..self.ends[number]])?;
        self.codes[number] = Some(code);
        Ok(code)
    }
}
