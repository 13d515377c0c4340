//! Tests of byte strings, on their codes.
//!
//! ```text
//! = and IN   the literal's codes by the chunk's table; code length first, then the codes
//! all else   an automaton over codes, one look at a table for each
//! ```
//!
//! What front coding has taken apart is put together first, and tested as it is.
//!
//! Equal strings have equal codes (docs/FORMAT.md), so nothing is decoded. Most values
//! differ in their code length already, which is packed integers; where no length of a
//! vector fits, its codes are not read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;

use super::{Carried, NONE, RangeTest, Selector, Verdict, first};
use crate::chunk::{Chunk, NodeView, StringForm};
use crate::column::{self, CompressedColumn};
use crate::encoding::{self, Output, Starts, dict, lz, select};
use crate::error::{Result, ensure};
use crate::lanes::{Mask, VECTOR};
use crate::ranges::{Key, Order, Ranges};
use crate::scan::literal::{self, Value};
use crate::scan::predicate::{BytesTest, CodesTest};

/// The test of a node's values; statistics have not decided it.
pub(super) fn found<'a>(node: NodeView<'a>, test: &'a Arc<BytesTest>) -> Result<Verdict<'a>> {
    let (stored, starts, table) = match node.string_form()? {
        StringForm::One => return Ok(Verdict::constant(test.passes(node.buffer(0)))),
        StringForm::Lookup => return dict::select(node, |values| found(values, test)),
        StringForm::Prefixes => {
            let (test, negated) = (test.codes(None)?, test.negated);
            return Ok(Verdict::some(Fronts { node, test, negated }));
        }
        StringForm::Bytes => {
            let bytes = node.buffer(0);
            (Stored::Whole(bytes), Starts::of(node.buffer(1), [bytes.len(); 2])?, None)
        }
        StringForm::Segments => {
            let starts = Starts::of(node.buffer(4), [encoding::value_bytes(node); 2])?;
            (Stored::Segments(lz::Cursor::new(node)?), starts, None)
        }
        StringForm::Codes => {
            let codes = node.buffer(1);
            let starts = Starts::of(node.buffer(2), [codes.len(), node.parameter(0) as usize])?;
            (Stored::Whole(codes), starts, Some(node.buffer(0)))
        }
    };
    let (lengths, codes) = (node.child(0), test.codes(table)?);
    let fitting = match &*codes {
        CodesTest::Automaton(_) => None,
        CodesTest::OneOf(values) => {
            let fits = |codes: &Vec<u8>| (codes.len() as u64, codes.len() as u64);
            let possible = Ranges::of(values.iter().map(fits).collect());
            match select::words(lengths, &RangeTest::new(LENGTHS, possible))? {
                Verdict::None => return Ok(Verdict::constant(test.negated)),
                Verdict::All => None,
                Verdict::Some(fitting) => Some(fitting),
            }
        }
    };
    Ok(Verdict::some(Strings { stored, starts, lengths, codes, fitting, negated: test.negated }))
}

/// The order of lengths.
const LENGTHS: Key = Key { bits: 32, order: Order::Unsigned };

/// Codes of strings, or their bytes.
enum Stored<'a> {
    Whole(&'a [u8]),
    Segments(lz::Cursor<'a>),
}

/// Strings as they are stored.
struct Strings<'a> {
    stored: Stored<'a>,
    starts: Starts<'a>,
    /// Stored length of each value.
    lengths: NodeView<'a>,
    codes: Arc<CodesTest>,
    /// Which values have the stored length of one that is looked for; without it all.
    fitting: Option<Box<dyn Selector + 'a>>,
    negated: bool,
}

impl Selector for Strings<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let rows = vector * VECTOR..self.lengths.len().min((vector + 1) * VECTOR);
        *mask = first(rows.len());
        if let Some(fitting) = &self.fitting {
            let mut fits = NONE;
            fitting.select(vector, &mut fits)?;
            mask.iter_mut().zip(fits).for_each(|(word, fits)| *word &= fits);
        }
        if *mask != NONE {
            self.look(rows, mask)?;
        }
        if self.negated {
            mask.iter_mut().for_each(|word| *word = !*word);
        }
        Ok(())
    }
}

impl Strings<'_> {
    /// Leaves the bits of values that are what is looked for.
    fn look(&self, rows: Range<usize>, mask: &mut Mask) -> Result<()> {
        let mut lengths = [0; VECTOR];
        let lengths = &mut lengths[..rows.len()];
        encoding::decode(self.lengths, rows.clone(), Output::W32(lengths))?;
        let range = self.starts.stored(&rows);
        let sum: usize = lengths.iter().map(|length| *length as usize).sum();
        ensure!(
            sum == range.len(),
            "lengths of rows {rows:?} add up to {sum}, {} expected",
            range.len()
        );
        // With what stands behind the vector: both look further than they have to.
        match &self.stored {
            Stored::Whole(stored) => retain(&self.codes, lengths, &stored[range.start..], mask),
            Stored::Segments(cursor) => {
                cursor.read(range, |stored| retain(&self.codes, lengths, stored, mask))?
            }
        }
    }
}

/// Leaves the bits of values that pass; of those that are to equal some, no others' lengths
/// fit. `stored` begins with the vector's values.
fn retain(test: &CodesTest, lengths: &[u32], stored: &[u8], mask: &mut Mask) -> Result<()> {
    match test {
        CodesTest::OneOf(values) => retain_equal(values, lengths, stored, mask),
        CodesTest::Automaton(automaton) => {
            automaton.select(stored, lengths, &mut mask[..lengths.len().div_ceil(64)])?;
        }
    }
    Ok(())
}

/// Strings that have to be put together.
struct Fronts<'a> {
    node: NodeView<'a>,
    test: Arc<CodesTest>,
    negated: bool,
}

impl Selector for Fronts<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let rows = vector * VECTOR..self.node.len().min((vector + 1) * VECTOR);
        *mask = first(rows.len());
        let mut lengths = [0; VECTOR];
        let lengths = &mut lengths[..rows.len()];
        let bytes = encoding::decode_strings(self.node, rows, lengths)?;
        if let CodesTest::OneOf(values) = &*self.test {
            for (row, length) in lengths.iter().enumerate() {
                let fits = values.iter().any(|value| value.len() == *length as usize);
                mask[row / 64] &= !(u64::from(!fits) << (row % 64));
            }
        }
        retain(&self.test, lengths, &bytes, mask)?;
        if self.negated {
            mask.iter_mut().for_each(|word| *word = !*word);
        }
        Ok(())
    }
}

/// Leaves the bits of values whose codes are among some, which are in order of their
/// lengths; no others' lengths fit. `stored` are the codes of the vector and all behind.
fn retain_equal(values: &[Vec<u8>], lengths: &[u32], stored: &[u8], mask: &mut Mask) {
    let mut starts = [0; VECTOR];
    let mut end = 0;
    for (start, length) in starts.iter_mut().zip(lengths) {
        *start = end;
        end += *length as usize;
    }
    let codes = |position: usize| &stored[starts[position]..][..lengths[position] as usize];
    let retain = |mask: &mut Mask, keeps: &dyn Fn(usize) -> bool| {
        for (index, word) in mask.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let position = index * 64 + left.trailing_zeros() as usize;
                *word ^= u64::from(!keeps(position)) << (position % 64);
                left &= left - 1;
            }
        }
    };
    let [only] = values else {
        let order =
            |codes: &[u8], one: &Vec<u8>| (one.len(), one.as_slice()).cmp(&(codes.len(), codes));
        retain(mask, &|position| {
            let codes = codes(position);
            values.binary_search_by(|one| order(codes, one)).is_ok()
        });
        return;
    };
    // First by their first eight codes, without a branch; few are left.
    let head = Head::of(only);
    for (index, word) in mask.iter_mut().enumerate() {
        let mut left = *word;
        while left != 0 {
            let position = index * 64 + left.trailing_zeros() as usize;
            let begins = head.may_begin(&stored[starts[position]..]);
            *word ^= u64::from(!begins) << (position % 64);
            left &= left - 1;
        }
    }
    if only.len() > 8 || stored.len() < end + 8 {
        retain(mask, &|position| codes(position) == only);
    }
}

/// The first eight codes of a value, or as many as it has: compared as one word before
/// all of them are.
struct Head {
    word: u64,
    mask: u64,
}

impl Head {
    fn of(codes: &[u8]) -> Self {
        let mut word = [0; 8];
        let len = codes.len().min(8);
        word[..len].copy_from_slice(&codes[..len]);
        let mask = if len == 0 { 0 } else { u64::MAX >> (64 - 8 * len) };
        Self { word: u64::from_le_bytes(word), mask }
    }

    fn may_begin(&self, codes: &[u8]) -> bool {
        match codes.first_chunk::<8>() {
            Some(first) => u64::from_le_bytes(*first) & self.mask == self.word,
            None => true,
        }
    }
}

/// The test of strings that are carried as an Arrow array.
pub(super) fn carried(
    chunk: &Chunk,
    column: &CompressedColumn,
    test: &BytesTest,
) -> Result<Carried> {
    let array = column::whole(chunk, column.data_type())?;
    Ok(Carried::of(chunk.rows(), |row| {
        let value = array.is_valid(row).then(|| literal::value_of(&array, row)).flatten();
        matches!(value, Some(Value::Bytes(bytes)) if test.passes(&bytes))
    }))
}
