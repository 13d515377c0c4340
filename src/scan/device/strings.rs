//! Tests of strings on a GPU: for each chunk a test of its codes, or what is known already.

use std::sync::Arc;

use rayon::prelude::*;

use crate::decode::stored::{StoredChunk, StoredForm};
use crate::device::DeviceColumn;
use crate::error::Result;
use crate::gpu::Stream;
use crate::scan::device::select::{ChunkTest, Report, look_up};
use crate::scan::literal::string_bounds;
use crate::scan::predicate::{BytesTest, CodesTest};

impl BytesTest {
    /// The test for each chunk of a column, before negation: of codes, unless bounds or a
    /// constant decide. Dictionaries have been asked; what was wrong with them comes as well.
    ///
    /// # Errors
    /// As [`DeviceColumn::stored_strings`]; [`Error::Corrupt`] for a damaged symbol table.
    pub(crate) fn on_device(
        &self,
        stream: &Arc<dyn Stream>,
        column: &DeviceColumn,
    ) -> Result<(Vec<ChunkTest>, Report)> {
        look_up(stream, column, self.of_chunks(stream, column)?)
    }

    /// The same, where dictionaries are still to be asked.
    fn of_chunks(&self, stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Vec<ChunkTest>> {
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
        (stored.chunks.iter().zip(outside))
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
            .collect()
    }
}
