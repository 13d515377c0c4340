//! Scans on a GPU: bitmaps of the whole column, a launch for each test.
//!
//! ```text
//! all(a, any(b, c))   a --set--> bitmap     b --set--> other, c --or--> other
//!                                bitmap <--and-- other
//! ```
//!
//! A test that is joined with a bitmap by AND does not look at vectors that have no row
//! left there, one joined by OR not at those that have all. Nothing waits for the device
//! before the bitmap is asked for.

use std::sync::Arc;

use arrow_array::BooleanArray;
use arrow_buffer::{BooleanBuffer, Buffer};

use super::predicate::{Predicate, Test};
use super::ranges::{Key, Ranges};
use crate::engine::DeviceColumn;
use crate::engine::program::Marks;
use crate::engine::select::{self, ColumnTest, Combine};
use crate::error::{Error, Result};
use crate::gpu::abi::Range;
use crate::gpu::{DeviceBuffer, Stream};

/// The rows that a predicate keeps, as a bitmap on the device.
pub(super) struct Selection {
    stream: Arc<dyn Stream>,
    bitmap: Arc<DeviceBuffer>,
    rows: usize,
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
        let mut scan = DeviceScan { stream, columns, rows, marks };
        let bitmap = scan.bitmap()?;
        scan.join(predicate, Combine::Set, &bitmap)?;
        Ok(Self { stream: stream.clone(), bitmap, rows })
    }

    /// How many rows are kept; waits for it.
    pub fn count(&self) -> Result<usize> {
        select::count(&self.stream, &self.bitmap, self.rows)
    }

    /// For each row whether it is kept; waits for it.
    pub fn mask(&self) -> Result<BooleanArray> {
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
                let Test::Words(key, ranges) = test else { return Err(unsupported()) };
                let test = match (key.bits, ranges.contains(0), ranges.contains(1)) {
                    (1, false, true) => ColumnTest::True,
                    (1, true, false) => ColumnTest::False,
                    (1, true, true) => ColumnTest::Valid,
                    _ => test_of(*key, ranges),
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

    /// Joins the first part with a bitmap in one way, the others in another.
    fn each(
        &mut self,
        parts: &[Predicate],
        first: Combine,
        others: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        for (index, part) in parts.iter().enumerate() {
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
        select::select(self.stream, column, test, how, bitmap, self.marks)
            .map_err(|error| error.in_column(column.field().name()))
    }
}

/// The test for ranges, or where they have both ends of the order for what they leave out,
/// which is one range less: a kernel looks at a vector once for each range that it meets.
fn test_of(key: Key, ranges: &Ranges<u64>) -> ColumnTest {
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
        what: "scans on a GPU compare columns of numbers of up to 64 bits, booleans, dates and \
               times with literals; strings, wide decimals, arithmetic and two columns are for \
               the CPU"
            .to_owned(),
    }
}
