//! Scans on the CPU: a chunk a task, a vector at a time.
//!
//! ```text
//! Predicate --of the chunk's statistics and encodings--> Filter: a tree of selectors
//!                                                           | a vector of 1,024 values
//!                                                           v
//!           mask: 16 words of 64 bits      all: and, stops when empty     any: or
//! ```
//!
//! A [`Filter`] is made for each chunk: what statistics decide is a constant, and each
//! test becomes the [`Selector`] that the column's encoding has for it (`encoding/select`).
//! Selectors work on what is stored; nothing is decoded that the encoding can decide.

pub(in crate::scan) mod aggregate;
mod bytes;
mod compute;
pub(in crate::scan) mod gather;
pub(in crate::scan) mod group;
mod join;
mod source;

use std::borrow::Cow;
use std::rc::Rc;

use arrow_array::Array;
use arrow_buffer::BooleanBuffer;

pub(super) use compute::Numbers;
use join::{ChunkJoins, Keys, Made};
use source::Source;

use super::bounds;
use super::explain::{Part, StepOrder};
use super::join::Probe;
use super::literal::{self, Value};
use super::predicate::{Predicate, Test};
use crate::chunk::{Chunk, Statistics};
use crate::column::{self, CompressedColumn};
use crate::encoding::select::{self, RangeTest, Selector, Verdict};
use crate::encoding::{self, Encoding, Physical};
use crate::error::{Error, Result};
pub(super) use crate::lanes::mask::{ALL, NONE, count, first, rows};
use crate::lanes::{Mask, VECTOR, mask};
use crate::ranges::{Key, Share};

/// The rows of a chunk that a predicate keeps.
pub(super) struct Filter<'a> {
    step: Step<'a>,
    rows: usize,
    /// Keys that it looks up.
    joins: Made<'a>,
}

enum Step<'a> {
    Constant(bool),
    /// Of a column, if the rows were not found before.
    Valid(Validity<'a>, Option<usize>),
    Select {
        selector: Box<dyn Selector + 'a>,
        validity: Validity<'a>,
        cost: usize,
        /// Of the column that is tested, if it is one.
        name: Option<&'a str>,
        of: &'a Predicate,
    },
    Probe {
        keys: Rc<dyn Keys + 'a>,
        probe: &'a Probe,
        cost: usize,
    },
    All(Vec<Step<'a>>),
    Any(Vec<Step<'a>>),
    Not(Box<Step<'a>>),
}

/// Which values of a chunk are valid.
#[derive(Clone)]
pub(super) enum Validity<'a> {
    All,
    None,
    Bits(Cow<'a, [u8]>),
}

impl<'a> Validity<'a> {
    pub fn of(chunk: &'a Chunk, column: &CompressedColumn) -> Result<Self> {
        let root = chunk.root();
        if root.physical() == Physical::Arrow {
            // Arrow arrays may have nulls without a bitmap.
            return Ok(match column::logical_nulls(chunk, column.data_type())? {
                None => Self::All,
                Some(nulls) => Self::Bits(Cow::Owned(nulls.inner().sliced().to_vec())),
            });
        }
        Ok(match root.validity() {
            None => Self::All,
            Some(node) if node.encoding() == Encoding::Constant => {
                if node.parameter(0) == 0 {
                    Self::None
                } else {
                    Self::All
                }
            }
            Some(node) => Self::Bits(encoding::bits::bitmap(node)?),
        })
    }

    /// Leaves the valid rows of a vector in a mask.
    pub fn retain(&self, vector: usize, mask: &mut Mask) {
        match self {
            Self::All => {}
            Self::None => *mask = NONE,
            Self::Bits(bits) => {
                for (word, bits) in mask.iter_mut().zip(mask::of_bitmap(bits, vector)) {
                    *word &= bits;
                }
            }
        }
    }
}

impl<'a> Filter<'a> {
    /// Makes a predicate ready for chunk `index` of these columns.
    pub fn new(
        predicate: &'a Predicate,
        columns: &[&'a CompressedColumn],
        index: usize,
        rows: usize,
    ) -> Result<Self> {
        let joins = ChunkJoins::new(columns, index, Made::new());
        Self::with_joins(predicate, columns, index, rows, &joins)
    }

    /// The same with joins that others have as well.
    fn with_joins(
        predicate: &'a Predicate,
        columns: &[&'a CompressedColumn],
        index: usize,
        rows: usize,
        joins: &Rc<ChunkJoins<'a>>,
    ) -> Result<Self> {
        let maker = Maker { columns, index, joins: joins.clone() };
        let step = maker.step(predicate)?;
        Ok(Self { step, rows, joins: joins.made() })
    }

    /// The rows of a bitmap that has `rows` bits of the chunk from `start` on.
    pub fn of_bits(bits: &BooleanBuffer, start: usize, rows: usize) -> Filter<'static> {
        let bits = bits.slice(start, rows).sliced();
        let bits = Validity::Bits(Cow::Owned(bits.as_slice().to_vec()));
        Filter { step: Step::Valid(bits, None), rows, joins: Made::new() }
    }

    /// The keys that it looks up, which it keeps of a vector for others to look up as well.
    pub fn joins(&self) -> Made<'a> {
        self.joins.clone()
    }

    /// The rows of the chunk.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What is known without looking: none or all of the chunk's rows.
    pub fn constant(&self) -> Option<bool> {
        match self.step {
            Step::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Leaves the rows of a vector in a mask that are kept.
    pub fn retain(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        if *mask == NONE {
            return Ok(());
        }
        let mut kept = NONE;
        self.step.select(vector, mask, &mut kept)?;
        mask.iter_mut().zip(kept).for_each(|(word, kept)| *word &= kept);
        Ok(())
    }

    /// The parts that are evaluated, in their order.
    pub fn order(&self) -> StepOrder {
        let mut order = StepOrder::default();
        self.step.tell(&mut order);
        order
    }

    /// The rows of a vector that are kept.
    pub fn select(&self, vector: usize) -> Result<Mask> {
        let mut mask = NONE;
        let within = first(self.rows - vector * VECTOR);
        self.step.select(vector, &within, &mut mask)?;
        for (word, within) in mask.iter_mut().zip(within) {
            *word &= within;
        }
        Ok(mask)
    }
}

impl Step<'_> {
    /// Of the rows `within` those that are kept; others may be there as well.
    fn select(&self, vector: usize, within: &Mask, mask: &mut Mask) -> Result<()> {
        match self {
            Self::Constant(value) => *mask = if *value { ALL } else { NONE },
            Self::Valid(validity, _) => {
                *mask = ALL;
                validity.retain(vector, mask);
            }
            Self::Select { selector, validity, name, .. } => {
                selector.select(vector, mask).map_err(|error| match name {
                    Some(name) => error.in_column(name),
                    None => error,
                })?;
                validity.retain(vector, mask);
            }
            Self::Probe { keys, probe, .. } => {
                *mask = *within;
                keys.retain(vector, mask)?;
                if let Some(codes) = &probe.codes {
                    let mut entries = [0; VECTOR];
                    keys.entries(vector, mask, &mut entries)?;
                    let column = &probe.join.table.columns[codes.column];
                    let before = *mask;
                    for row in rows(&before) {
                        let code = column.code(entries[row]);
                        let is_in = code < codes.set.len() && codes.set.value(code);
                        mask::set(mask, row, is_in);
                    }
                }
            }
            Self::All(parts) => {
                *mask = *within;
                for part in parts {
                    if *mask == NONE {
                        break;
                    }
                    let mut kept = NONE;
                    part.select(vector, mask, &mut kept)?;
                    for (word, kept) in mask.iter_mut().zip(kept) {
                        *word &= kept;
                    }
                }
            }
            Self::Any(parts) => {
                *mask = NONE;
                let mut left = *within;
                for part in parts {
                    if left == NONE {
                        break;
                    }
                    let mut kept = NONE;
                    part.select(vector, &left, &mut kept)?;
                    for (index, kept) in kept.into_iter().enumerate() {
                        mask[index] |= kept;
                        left[index] &= !kept;
                    }
                }
            }
            Self::Not(inner) => {
                inner.select(vector, within, mask)?;
                mask.iter_mut().for_each(|word| *word = !*word);
            }
        }
        Ok(())
    }

    /// Adds what is evaluated to an order.
    fn tell(&self, order: &mut StepOrder) {
        match self {
            Self::Constant(_) | Self::Valid(_, None) => {}
            Self::Valid(_, Some(column)) => {
                order.push(Part::Leaf(Predicate::IsValid(*column)));
            }
            Self::Select { of, .. } => order.push(Part::Leaf((*of).clone())),
            Self::Probe { probe, .. } => {
                order.push(Part::Leaf(Predicate::Probe((*probe).clone())));
            }
            Self::All(parts) => {
                order.within(Part::All, |order| parts.iter().for_each(|part| part.tell(order)));
            }
            Self::Any(parts) => {
                order.within(Part::Any, |order| parts.iter().for_each(|part| part.tell(order)));
            }
            Self::Not(inner) => order.within(Part::Not, |order| inner.tell(order)),
        }
    }

    /// What a vector costs, roughly, in bytes read.
    fn cost(&self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Valid(..) => 1,
            Self::Select { cost, .. } | Self::Probe { cost, .. } => *cost,
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::cost).sum(),
            Self::Not(inner) => inner.cost(),
        }
    }
}

/// A codes' automaton takes so many times as long for a byte as a comparison of integers.
const CODE_COST: usize = 8;

/// Makes steps for one chunk.
struct Maker<'c, 'a> {
    columns: &'c [&'a CompressedColumn],
    index: usize,
    joins: Rc<ChunkJoins<'a>>,
}

/// A look at a table of keys takes about as long as so many bytes of packed values.
const PROBE_COST: usize = 4 * VECTOR;

impl<'a> Maker<'_, 'a> {
    fn chunk(&self, column: usize) -> &'a Chunk {
        &self.columns[column].chunks()[self.index]
    }

    fn step(&self, predicate: &'a Predicate) -> Result<Step<'a>> {
        match predicate {
            Predicate::Constant(value) => Ok(Step::Constant(*value)),
            Predicate::IsValid(column) => self.valid(*column),
            Predicate::Test(column, test) => {
                let step = self.test(predicate, *column, test);
                step.map_err(|error| self.place(error, *column))
            }
            Predicate::Compare(comparison, pair, width) => {
                let mut used = Vec::new();
                pair.iter().for_each(|number| number.columns(&mut used));
                let sources = Source::of_all(self.columns, self.index);
                let numbers = Numbers::new(sources, &self.joins, *width);
                let selector = Box::new(numbers.compare(*comparison, pair));
                let cost = used.iter().map(|column| 2 * self.bytes(*column)).sum();
                let mut parts = used
                    .iter()
                    .map(|column| self.valid(*column))
                    .collect::<Result<Vec<Step<'a>>>>()?;
                let (validity, name, of) = (Validity::All, None, predicate);
                parts.push(Step::Select { selector, validity, cost, name, of });
                Ok(all(parts))
            }
            Predicate::Probe(probe) => self.probe(probe),
            Predicate::All(parts) => {
                Ok(all(parts.iter().map(|part| self.step(part)).collect::<Result<_>>()?))
            }
            Predicate::Any(parts) => {
                Ok(any(parts.iter().map(|part| self.step(part)).collect::<Result<_>>()?))
            }
            Predicate::Not(inner) => Ok(match self.step(inner)? {
                Step::Constant(value) => Step::Constant(!value),
                other => Step::Not(other.into()),
            }),
        }
    }

    fn probe(&self, probe: &'a Probe) -> Result<Step<'a>> {
        let column = probe.join.column;
        // On the host from here on, where rows are looked up.
        probe.join.table.keys.table()?;
        let key = Key::of(self.columns[column].data_type());
        if !bounds::may_have_keys(probe, key, self.chunk(column).statistics()) {
            return Ok(Step::Constant(false));
        }
        let of_join = self.joins.of(&probe.join)?;
        // What excludes most rows for its cost comes first.
        let excluded = (1.0 - probe.share()).max(0.05);
        let cost = (self.bytes(column) + PROBE_COST) as f64 / excluded;
        Ok(Step::Probe { keys: of_join, probe, cost: cost as usize })
    }

    /// The rows with valid values.
    fn valid(&self, column: usize) -> Result<Step<'a>> {
        let validity = Validity::of(self.chunk(column), self.columns[column]);
        Ok(match validity.map_err(|error| self.place(error, column))? {
            Validity::All => Step::Constant(true),
            Validity::None => Step::Constant(false),
            bits => Step::Valid(bits, Some(column)),
        })
    }

    fn test(&self, of: &'a Predicate, column: usize, test: &'a Test) -> Result<Step<'a>> {
        let chunk = self.chunk(column);
        let root = chunk.root();
        let name = Some(self.columns[column].field().name().as_str());
        if root.physical() == Physical::Arrow {
            let Test::Bytes(test) = test else {
                return Err(Error::corrupt("values of a type without an order are tested"));
            };
            let selector = Box::new(bytes::carried(chunk, self.columns[column], test)?);
            let cost = self.bytes(column);
            return Ok(Step::Select { selector, validity: Validity::All, cost, name, of });
        }
        let found = self.found(chunk, test)?;
        let cost = match test {
            Test::Words(..) | Test::Wide(_) => self.bytes(column),
            Test::Bytes(_) => CODE_COST * self.bytes(column),
        };
        // Nulls that are stored as bytes take time to read.
        if matches!(found, Verdict::None) {
            return Ok(Step::Constant(false));
        }
        let validity = Validity::of(chunk, self.columns[column])?;
        Ok(match (found, validity) {
            (Verdict::None, _) | (_, Validity::None) => Step::Constant(false),
            (Verdict::All, Validity::All) => Step::Constant(true),
            (Verdict::All, validity) => Step::Valid(validity, Some(column)),
            (Verdict::Some(selector), validity) => {
                Step::Select { selector, validity, cost, name, of }
            }
        })
    }

    /// The rows whose values pass a test.
    fn found(&self, chunk: &'a Chunk, test: &'a Test) -> Result<Verdict<'a>> {
        match bounds::of_test(test, chunk.statistics()) {
            Share::None => return Ok(Verdict::None),
            Share::All => return Ok(Verdict::All),
            Share::Some => chunk.check_once(select::check)?,
        }
        match test {
            Test::Words(key, ranges) => {
                select::words(chunk.root(), &RangeTest::new(*key, ranges.clone()))
            }
            Test::Wide(ranges) => select::wide(chunk.root(), ranges),
            Test::Bytes(test) => bytes::found(chunk.root(), test),
        }
    }

    /// Bytes that the values of a vector take, roughly.
    fn bytes(&self, column: usize) -> usize {
        let chunk = self.chunk(column);
        chunk.body().len() * VECTOR / chunk.rows().max(1) + 1
    }

    fn place(&self, error: Error, column: usize) -> Error {
        error.in_chunk(self.index).in_column(self.columns[column].field().name())
    }
}

/// Cheap ones first; what they exclude the others need not look at.
fn all(mut parts: Vec<Step<'_>>) -> Step<'_> {
    if parts.iter().any(|part| matches!(part, Step::Constant(false))) {
        return Step::Constant(false);
    }
    parts.retain(|part| !matches!(part, Step::Constant(true)));
    parts.sort_by_key(Step::cost);
    match parts.len() {
        0 => Step::Constant(true),
        1 => parts.remove(0),
        _ => Step::All(parts),
    }
}

fn any(mut parts: Vec<Step<'_>>) -> Step<'_> {
    if parts.iter().any(|part| matches!(part, Step::Constant(true))) {
        return Step::Constant(true);
    }
    parts.retain(|part| !matches!(part, Step::Constant(false)));
    parts.sort_by_key(Step::cost);
    match parts.len() {
        0 => Step::Constant(false),
        1 => parts.remove(0),
        _ => Step::Any(parts),
    }
}

/// The least and the greatest value of a chunk, as its statistics state them.
pub(super) fn bounds(statistics: &Statistics) -> Option<(Value, Value)> {
    let Statistics { min, max } = statistics;
    if min.is_null(0) || max.is_null(0) {
        return None;
    }
    Some((literal::value_of(min, 0)?, literal::value_of(max, 0)?))
}

/// Rows that have been decided already.
struct Carried(Vec<u64>);

impl Carried {
    fn of(rows: usize, mut passes: impl FnMut(usize) -> bool) -> Self {
        let mut words = vec![0; rows.div_ceil(64)];
        for row in 0..rows {
            words[row / 64] |= u64::from(passes(row)) << (row % 64);
        }
        Self(words)
    }
}

impl Selector for Carried {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        *mask = mask::of_bitmap(bytemuck::cast_slice(&self.0), vector);
        Ok(())
    }
}
