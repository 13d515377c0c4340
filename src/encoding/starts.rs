//! Where the vectors of a node of byte strings begin, so that random access and
//! parallel decoding need no sum over all lengths.
//!
//! ```text
//! V x [stored offset, value offset]     u32 pairs; u64 pairs where a total reaches 2^32
//! ```
//!
//! The stored offset counts bytes as they are stored (codes for `fsst`), the
//! value offset bytes of the values. In a `plain` node they are equal; one
//! layout for both costs it 4 bytes per 1,024 values.

use std::ops::Range;

use super::io::{BytesValues, decode_u32};
use crate::chunk::{NodeView, cast};
use crate::error::{Result, ensure};
use crate::lanes::VECTOR;

/// A checked starts buffer. Totals are [stored bytes, value bytes].
pub(crate) struct Starts<'a> {
    pairs: Pairs<'a>,
    totals: [usize; 2],
}

enum Pairs<'a> {
    Narrow(&'a [[u32; 2]]),
    Wide(&'a [[u64; 2]]),
}

fn is_wide(totals: [usize; 2]) -> bool {
    totals.iter().any(|total| *total > u32::MAX as usize)
}

impl<'a> Starts<'a> {
    /// The bytes of a starts buffer.
    pub fn encode(starts: impl IntoIterator<Item = [usize; 2]>, totals: [usize; 2]) -> Vec<u8> {
        let starts = starts.into_iter().flatten();
        if is_wide(totals) {
            starts.flat_map(|start| (start as u64).to_le_bytes()).collect()
        } else {
            starts.flat_map(|start| (start as u32).to_le_bytes()).collect()
        }
    }

    /// Reads and checks a starts buffer for the vectors of `node`: as many
    /// pairs as vectors, from zero, never falling, within the totals.
    pub fn parse(node: NodeView<'_>, buffer: &'a [u8], totals: [usize; 2]) -> Result<Self> {
        let starts = Self::of(buffer, totals)?;
        let vectors = node.len().div_ceil(VECTOR);
        let found = match starts.pairs {
            Pairs::Narrow(pairs) => pairs.len(),
            Pairs::Wide(pairs) => pairs.len(),
        };
        ensure!(found == vectors, "starts of {found} vectors, {vectors} expected");
        let mut previous = [0; 2];
        for vector in 0..vectors {
            let start = starts.at(vector);
            ensure!(
                vector > 0 || start == [0; 2],
                "the first vector starts at {start:?}, [0, 0] expected"
            );
            ensure!(
                (0..2).all(|i| previous[i] <= start[i] && start[i] <= totals[i]),
                "vector {vector} starts at {start:?}, the one before at {previous:?}, the end is {totals:?}"
            );
            previous = start;
        }
        Ok(starts)
    }

    /// The starts of values that are stored as they are.
    pub fn of_values(values: BytesValues<'_>) -> Vec<u8> {
        let starts = (values.offsets.iter().step_by(VECTOR))
            .take(values.len().div_ceil(VECTOR))
            .map(|offset| [offset - values.offsets[0]; 2]);
        Self::encode(starts, [values.total(); 2])
    }

    /// Checks that stored and value offsets are equal, where values are stored as they are
    /// or not one by one.
    pub fn expect_equal(&self, node: NodeView<'_>) -> Result<()> {
        let unequal = |rows: &Range<usize>| self.stored(rows) != self.values(rows);
        let vector = (0..node.len()).step_by(VECTOR).find(|row| unequal(&(*row..node.len())));
        ensure!(vector.is_none(), "unequal starts of the vector of row {vector:?}");
        Ok(())
    }

    /// The starts of a node that has been validated.
    pub fn of(buffer: &'a [u8], totals: [usize; 2]) -> Result<Self> {
        let pairs =
            if is_wide(totals) { Pairs::Wide(cast(buffer)?) } else { Pairs::Narrow(cast(buffer)?) };
        Ok(Self { pairs, totals })
    }

    /// Start of a vector, or the totals past the last one.
    fn at(&self, vector: usize) -> [usize; 2] {
        let start = match self.pairs {
            Pairs::Narrow(pairs) => pairs.get(vector).map(|pair| pair.map(|start| start as usize)),
            Pairs::Wide(pairs) => pairs.get(vector).map(|pair| pair.map(|start| start as usize)),
        };
        start.unwrap_or(self.totals)
    }

    fn range(&self, rows: &Range<usize>, which: usize) -> Range<usize> {
        let first = self.at(rows.start / VECTOR)[which];
        first..self.at(rows.end.div_ceil(VECTOR))[which]
    }

    /// Stored bytes of whole vectors.
    pub fn stored(&self, rows: &Range<usize>) -> Range<usize> {
        self.range(rows, 0)
    }

    /// Stored bytes of one value, from the stored lengths of its vector.
    pub fn stored_value(&self, lengths: NodeView<'_>, row: usize) -> Result<Range<usize>> {
        let vector = row / VECTOR * VECTOR;
        let rows = vector..(vector + VECTOR).min(lengths.len());
        let stored = self.stored(&rows);
        let lengths = decode_u32(lengths, rows)?;
        let (before, rest) = lengths.split_at(row - vector);
        let start = stored.start + before.iter().map(|len| *len as usize).sum::<usize>();
        let end = start + rest[0] as usize;
        ensure!(
            end <= stored.end,
            "row {row} is stored at {start}..{end}, its vector ends at {}",
            stored.end
        );
        Ok(start..end)
    }

    /// Value bytes of whole vectors.
    pub fn values(&self, rows: &Range<usize>) -> Range<usize> {
        self.range(rows, 1)
    }
}
