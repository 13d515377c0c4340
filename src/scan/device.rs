//! Scans on a GPU: bitmaps of the whole column, a launch for each test.
//!
//! ```text
//! all(a, any(b, c))   a --set--> bitmap     b --set--> other, c --or--> other
//!                                bitmap <--and-- other
//! ```
//!
//! A test that is joined with a bitmap by AND does not look at vectors that have no row
//! left there, one joined by OR not at those that have all; of strings only rows that are
//! left are looked at. So parts of a conjunction are tested in the order of what they cost.
//! Nothing waits for the device before the bitmap is asked for, but the first test of a
//! column of strings, which needs its symbol tables; what tests have found damaged is an
//! error then.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};

use rayon::prelude::*;

use super::literal::string_bounds;
use super::predicate::{BytesForm, BytesTest, CodesTest, Predicate, Test};
use super::ranges::{Key, Ranges};
use crate::engine::DeviceColumn;
use crate::engine::keep::KeptRows;
use crate::engine::program::Marks;
use crate::engine::select::{self, ChunkTest, ColumnTest, Combine, Report};
use crate::engine::stored::{StoredChunk, StoredForm};
use crate::error::{Error, Result};
use crate::gpu::abi::Range;
use crate::gpu::{DeviceBuffer, Stream};

/// The rows that a predicate keeps, as a bitmap on the device.
pub(super) struct Selection {
    stream: Arc<dyn Stream>,
    bitmap: Arc<DeviceBuffer>,
    rows: usize,
    /// What tests found wrong, and with which column.
    reports: Vec<(Report, String)>,
}

impl Selection {
    /// Starts to find the rows; columns have the numbers of the predicate.
    pub fn start(
        stream: &Arc<dyn Stream>,
        predicate: &Predicate,
        columns: &[&DeviceColumn],
        rows: usize,
        marks: &mut dyn Marks,
    ) -> Result<Self> {
        let mut scan = DeviceScan { stream, columns, rows, marks, reports: Vec::new() };
        let bitmap = scan.bitmap()?;
        scan.join(predicate, Combine::Set, &bitmap)?;
        let reports = scan.reports;
        Ok(Self { stream: stream.clone(), bitmap, rows, reports })
    }

    /// Waits for the tests; an error if one has found a column damaged.
    fn check(&self) -> Result<()> {
        self.reports.iter().try_for_each(|(report, column)| {
            report.check(&self.stream).map_err(|error| error.in_column(column))
        })
    }

    /// How many rows are kept; waits for it.
    pub fn count(&self) -> Result<usize> {
        let count = select::count(&self.stream, &self.bitmap, self.rows)?;
        self.check()?;
        Ok(count)
    }

    /// How many rows are kept, and their values of some columns; waits for them.
    pub fn values(
        &self,
        columns: &[&DeviceColumn],
        marks: &mut dyn Marks,
    ) -> Result<(usize, Vec<ArrayRef>)> {
        let Some(first) = columns.first() else { return Ok((self.count()?, Vec::new())) };
        self.check()?;
        let kept = KeptRows::find(&self.stream, first, &self.bitmap, marks)?;
        let values = |column: &&DeviceColumn| {
            kept.values(column, marks).map_err(|error| error.in_column(column.field().name()))
        };
        let arrays = columns.iter().map(values).collect::<Result<_>>()?;
        Ok((kept.len(), arrays))
    }

    /// For each row whether it is kept; waits for it.
    pub fn mask(&self) -> Result<BooleanArray> {
        self.check()?;
        let mut bytes = vec![0; select::bitmap_len(self.rows)];
        self.stream.download(&self.bitmap, 0, &mut bytes)?;
        let bits = BooleanBuffer::new(Buffer::from_vec(bytes), 0, self.rows);
        Ok(BooleanArray::new(bits, None))
    }
}

struct DeviceScan<'a> {
    stream: &'a Arc<dyn Stream>,
    columns: &'a [&'a DeviceColumn],
    rows: usize,
    marks: &'a mut dyn Marks,
    reports: Vec<(Report, String)>,
}

impl DeviceScan<'_> {
    fn bitmap(&self) -> Result<Arc<DeviceBuffer>> {
        Ok(Arc::new(self.stream.allocate(select::bitmap_len(self.rows))?))
    }

    /// Joins the rows that a predicate keeps with those of a bitmap.
    fn join(
        &mut self,
        predicate: &Predicate,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        match predicate {
            Predicate::Constant(value) => {
                let decides = match how {
                    Combine::Set => true,
                    Combine::And => !value,
                    Combine::Or => *value,
                };
                if decides {
                    let byte = if *value { 0xff } else { 0 };
                    self.stream.fill(bitmap, 0, select::bitmap_len(self.rows), byte)?;
                }
                Ok(())
            }
            Predicate::IsValid(column) => self.select(*column, &ColumnTest::Valid, how, bitmap),
            Predicate::Test(column, test) => {
                let test = match test {
                    Test::Words(key, ranges) => test_of_words(*key, ranges),
                    Test::Wide(ranges) => ColumnTest::Wide(ranges.as_slice().to_vec()),
                    Test::Bytes(test) => {
                        let of = self.columns[*column];
                        test.on_device(self.stream, of)
                            .map_err(|error| error.in_column(of.field().name()))?
                    }
                };
                self.select(*column, &test, how, bitmap)
            }
            Predicate::All(parts) if how != Combine::Or => {
                self.each(parts, how, Combine::And, bitmap)
            }
            Predicate::Any(parts) if how != Combine::And => {
                self.each(parts, how, Combine::Or, bitmap)
            }
            Predicate::Not(inner) if let Predicate::IsValid(column) = **inner => {
                self.select(column, &ColumnTest::Null, how, bitmap)
            }
            Predicate::Not(inner) => {
                let other = self.bitmap()?;
                self.join(inner, Combine::Set, &other)?;
                select::join(self.stream, &other, true, how, bitmap, self.rows, self.marks)
            }
            Predicate::All(_) | Predicate::Any(_) => {
                let other = self.bitmap()?;
                self.join(predicate, Combine::Set, &other)?;
                select::join(self.stream, &other, false, how, bitmap, self.rows, self.marks)
            }
            Predicate::Compare(..) => Err(unsupported()),
        }
    }

    /// Joins the part that costs least with a bitmap in one way, the others in another.
    fn each(
        &mut self,
        parts: &[Predicate],
        first: Combine,
        others: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let mut parts: Vec<&Predicate> = parts.iter().collect();
        parts.sort_by_key(|part| cost(part));
        for (index, part) in parts.into_iter().enumerate() {
            self.join(part, if index == 0 { first } else { others }, bitmap)?;
        }
        Ok(())
    }

    fn select(
        &mut self,
        column: usize,
        test: &ColumnTest,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let column = self.columns[column];
        let name = column.field().name();
        let report = select::select(self.stream, column, test, how, bitmap, self.marks)
            .map_err(|error| error.in_column(name))?;
        self.reports.push((report, name.clone()));
        Ok(())
    }
}

/// What a row costs, roughly, to say what to begin with.
fn cost(predicate: &Predicate) -> usize {
    match predicate {
        Predicate::Constant(_) => 0,
        Predicate::IsValid(_) => 1,
        Predicate::Test(_, Test::Words(..)) => 4,
        Predicate::Test(_, Test::Wide(_)) => 8,
        Predicate::Test(_, Test::Bytes(test)) => match test.form {
            BytesForm::OneOf(_) => 8,
            BytesForm::Automaton(_) => 64,
        },
        Predicate::Compare(..) => 64,
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().map(cost).sum(),
        Predicate::Not(inner) => cost(inner),
    }
}

impl BytesTest {
    /// The test for each chunk of a column: of codes, unless bounds or a constant decide.
    ///
    /// # Errors
    /// As [`DeviceColumn::stored_strings`]; [`Error::Corrupt`] for a damaged symbol table.
    pub(crate) fn on_device(
        &self,
        stream: &Arc<dyn Stream>,
        column: &DeviceColumn,
    ) -> Result<ColumnTest> {
        let stored = column.stored_strings(stream)?;
        let is_outside = |chunk: &StoredChunk| {
            string_bounds(&chunk.bounds)
                .is_some_and(|(least, greatest)| self.is_outside(&least, greatest.as_deref()))
        };
        let outside: Vec<bool> = stored.chunks.iter().map(is_outside).collect();
        let mut used = vec![false; stored.tables.len()];
        for (chunk, outside) in stored.chunks.iter().zip(&outside) {
            if let (StoredForm::Codes(table), false) = (&chunk.form, outside) {
                used[*table] = true;
            }
        }
        let codes: Vec<Option<Arc<CodesTest>>> = (stored.tables.par_iter().zip(used))
            .map(|(table, used)| used.then(|| self.codes(Some(table))).transpose())
            .collect::<Result<_>>()?;
        let chunks = (stored.chunks.iter().zip(outside))
            .map(|(chunk, outside)| match &chunk.form {
                _ if outside => Ok(ChunkTest::Decided(false)),
                StoredForm::Constant(value) => {
                    Ok(ChunkTest::Decided(self.passes(value) != self.negated))
                }
                StoredForm::Bytes => self.codes(None).map(ChunkTest::Codes),
                StoredForm::Codes(table) => {
                    let codes = codes[*table].clone();
                    Ok(ChunkTest::Codes(codes.expect("made for each table that is used")))
                }
            })
            .collect::<Result<_>>()?;
        Ok(ColumnTest::Strings { chunks, negated: self.negated })
    }
}

/// The test for ranges, or where they have both ends of the order for what they leave out,
/// which is one range less: a kernel looks at a vector once for each range that it meets.
fn test_of_words(key: Key, ranges: &Ranges<u64>) -> ColumnTest {
    match (key.bits, ranges.contains(0), ranges.contains(1)) {
        (1, false, true) => return ColumnTest::True,
        (1, true, false) => return ColumnTest::False,
        (1, true, true) => return ColumnTest::Valid,
        _ => {}
    }
    let ranges = ranges.as_slice();
    match ranges {
        [(0, _), .., (_, last)] if *last == key.max() => ColumnTest::NotIn(
            (ranges.windows(2))
                .map(|pair| Range { low: pair[0].1 + 1, high: pair[1].0 - 1 })
                .collect(),
        ),
        _ => ColumnTest::In(
            ranges.iter().map(|(low, high)| Range { low: *low, high: *high }).collect(),
        ),
    }
}

/// What a GPU does not do yet.
fn unsupported() -> Error {
    Error::NoDevice {
        what: "scans on a GPU compare columns with literals; arithmetic and comparisons of two \
               columns are for the CPU"
            .to_owned(),
    }
}
