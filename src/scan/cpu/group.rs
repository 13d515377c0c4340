//! Groups of a chunk's kept rows.

use std::rc::Rc;

use super::aggregate::{ChunkInput, bits, words};
use super::join::{ChunkJoins, Keys};
use super::source::Source;
use super::{Filter, NONE, Validity, rows};
use crate::chunk::{NodeView, StringForm};
use crate::column::CompressedColumn;
use crate::encoding::{self, Output, Physical};
use crate::error::{Error, Result, ensure};
use crate::lanes::{Mask, VECTOR};
use crate::scan::aggregate::Plan;
use crate::scan::group::{GroupKey, GroupTable, KeySource, Numbering, lock};

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
            key.codes(vector, &mask, &kept, &mut codes)?;
            for (number, row) in numbers.iter_mut().zip(&kept) {
                *number += u128::from(codes[usize::from(*row)]) * stride;
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
    /// The code of each value of a dictionary of strings, and the codes of rows there.
    dictionary: Option<(Vec<u32>, NodeView<'a>)>,
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
            KeySource::Strings { strings, .. } => {
                dictionary(source.node(), |value| lock(strings).code(value)).map_err(place)?
            }
            _ => None,
        };
        Ok(Self { key, validity, source, join, dictionary })
    }

    /// The codes of the kept rows of a vector.
    fn codes(
        &mut self,
        vector: usize,
        mask: &Mask,
        kept: &[u16],
        codes: &mut [u64; VECTOR],
    ) -> Result<()> {
        let offset = u64::from(self.key.has_nulls);
        let mut valid = *mask;
        match (&self.key.source, &self.join) {
            (KeySource::Joined(joined), Some(join)) => {
                let column = joined.column();
                join.retain(vector, &mut valid)?;
                join.entries(vector, &valid, codes)?;
                let null = column.null().map(|null| null as u64);
                for row in kept.iter().map(|row| usize::from(*row)) {
                    let code = column.code(codes[row]) as u64;
                    let is_valid = valid[row / 64] >> (row % 64) & 1 == 1 && Some(code) != null;
                    codes[row] = if is_valid { code + offset } else { 0 };
                }
                return Ok(());
            }
            (KeySource::Words { key, least, .. }, _) => {
                self.validity.retain(vector, &mut valid);
                let words = match self.source.node().physical() {
                    Physical::Bool => bits(self.source.node(), vector)?,
                    _ => words(&self.source, vector)?,
                };
                let values = u64::try_from(self.key.values - 1).unwrap_or(u64::MAX);
                for row in rows(&valid) {
                    let code = key.of_bits(words[row]).wrapping_sub(*least);
                    ensure!(code <= values, "a value outside the bounds of its column");
                    codes[row] = code;
                }
            }
            (KeySource::Strings { strings, .. }, _) => {
                self.validity.retain(vector, &mut valid);
                self.strings(vector, &valid, codes, |value| lock(strings).code(value))?;
            }
            (KeySource::Joined(_), None) => return Err(Error::corrupt("a join that was not made")),
        }
        if offset == 1 {
            for row in kept.iter().map(|row| usize::from(*row)) {
                let is_valid = valid[row / 64] >> (row % 64) & 1 == 1;
                codes[row] = if is_valid { codes[row] + 1 } else { 0 };
            }
        }
        Ok(())
    }

    fn strings(
        &self,
        vector: usize,
        valid: &Mask,
        codes: &mut [u64; VECTOR],
        code: impl Fn(&[u8]) -> Result<u32>,
    ) -> Result<()> {
        let node = self.source.node();
        let range = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
        if let Some((of_values, of_rows)) = &self.dictionary {
            let mut found = [0_u32; VECTOR];
            encoding::decode(*of_rows, range.clone(), Output::W32(&mut found[..range.len()]))
                .map_err(|error| self.source.place(error))?;
            for row in rows(valid) {
                let value = of_values.get(found[row] as usize);
                codes[row] =
                    u64::from(*value.ok_or_else(|| Error::corrupt("a code without a value"))?);
            }
            return Ok(());
        }
        let mut lengths = vec![0; range.len()];
        let bytes = encoding::decode_strings(node, range, &mut lengths)
            .map_err(|error| self.source.place(error))?;
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
                _ => code(value)?,
            };
            last = Some((value, found));
            codes[row] = found.into();
        }
        Ok(())
    }
}

/// The codes of a chunk's distinct strings, and the node that says which one each row has, if the chunk
/// is stored so.
fn dictionary<'a>(
    node: NodeView<'a>,
    code: impl Fn(&[u8]) -> Result<u32>,
) -> Result<Option<(Vec<u32>, NodeView<'a>)>> {
    if node.string_form()? != StringForm::Lookup {
        return Ok(None);
    }
    let (of_rows, values) = (node.child(0), node.child(1));
    let mut lengths = vec![0; values.len()];
    let bytes = encoding::decode_strings(values, 0..values.len(), &mut lengths)?;
    let mut start = 0;
    let of_value = |length: &u32| {
        start += *length as usize;
        code(&bytes[start - *length as usize..start])
    };
    Ok(Some((lengths.iter().map(of_value).collect::<Result<_>>()?, of_rows)))
}
