//! Tests of strings on a GPU: for each chunk a test of its codes, or what is known already.

use std::sync::Arc;

use rayon::prelude::*;

use crate::engine::DeviceColumn;
use crate::engine::select::{ChunkTest, ColumnTest};
use crate::engine::stored::{StoredChunk, StoredForm};
use crate::error::Result;
use crate::gpu::Stream;
use crate::scan::literal::string_bounds;
use crate::scan::predicate::{BytesTest, CodesTest};

/// The test for strings of each chunk: of their codes, unless statistics or a constant
/// decide. A chunk's symbol table is the host's to know.
pub(super) fn test_of_bytes(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    test: &BytesTest,
) -> Result<ColumnTest> {
    let stored = column.stored_strings(stream)?;
    // Bounds need not look at every table.
    let is_outside = |chunk: &StoredChunk| {
        string_bounds(&chunk.bounds)
            .is_some_and(|(least, greatest)| test.is_outside(&least, greatest.as_deref()))
    };
    let outside: Vec<bool> = stored.chunks.iter().map(is_outside).collect();
    let mut used = vec![false; stored.tables.len()];
    for (chunk, outside) in stored.chunks.iter().zip(&outside) {
        if let (StoredForm::Codes(table), false) = (&chunk.form, outside) {
            used[*table] = true;
        }
    }
    let codes: Vec<Option<Arc<CodesTest>>> = (stored.tables.par_iter().zip(used))
        .map(|(table, used)| used.then(|| test.codes(Some(table))).transpose())
        .collect::<Result<_>>()?;
    let chunks = (stored.chunks.iter().zip(outside))
        .map(|(chunk, outside)| match &chunk.form {
            _ if outside => Ok(ChunkTest::Decided(false)),
            StoredForm::Constant(value) => {
                Ok(ChunkTest::Decided(test.passes(value) != test.negated))
            }
            StoredForm::Bytes => test.codes(None).map(ChunkTest::Codes),
            StoredForm::Codes(table) => {
                let codes = codes[*table].clone();
                Ok(ChunkTest::Codes(codes.expect("made for each table that is used")))
            }
        })
        .collect::<Result<_>>()?;
    Ok(ColumnTest::Strings { chunks, negated: test.negated })
}
