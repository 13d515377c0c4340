//! Codes of strings for all chunks of a column in device memory, whose chunks have dictionaries of their
//! own; few rows may be in chunks that have none, which have a code for each row then, and chunks of one
//! string have one (`decode/nodes/strings.rs`).
//!
//! ```text
//! chunk 0   dictionary  a c d     codes 0 1 2     table   | 3 6 8 .. | 0 1 2 | 0 3 | 3 0 0 | .. |
//! chunk 1   dictionary  a b       codes 0 3                where each chunk's begin, and these
//! chunk 2   rows        b a a     codes 3 0 0
//! ```

use std::sync::Arc;

use super::nodes::rows_have_codes;
use crate::chunk::{NodeView, StringForm};
use crate::column::physical_of;
use crate::device::DeviceColumn;
use crate::encoding::{Physical, dict};
use crate::error::Result;
use crate::gpu::{DeviceBuffer, Event, Stream};
use crate::interner::Interner;

/// The distinct strings of a column, and the codes of its chunks' dictionaries.
#[derive(Debug)]
pub(crate) struct StringCodes {
    pub strings: Interner,
    /// `dictionary_code` of `kernels/lanepack/groups.cuh`.
    pub table: Arc<DeviceBuffer>,
    pub(super) ready: Arc<dyn Event>,
}

/// Values of dictionaries that the host looks at.
const MOST_VALUES: usize = 1 << 20;

impl StringCodes {
    /// Those of a column where nearly all rows are in chunks with dictionaries, of not too many values;
    /// copies the column to the host.
    pub(super) fn of(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Option<Self>> {
        let roots = || column.chunks().iter().map(|chunk| chunk.root());
        if physical_of(column.field().data_type()) != Physical::Bytes || column.is_carried() {
            return Ok(None);
        }
        let forms = roots().map(|root| root.string_form()).collect::<Result<Vec<_>>>()?;
        let of_dictionaries = |form| matches!(form, StringForm::Lookup | StringForm::One);
        let have_codes = forms.contains(&StringForm::Lookup)
            && (forms.iter().copied().all(of_dictionaries) || rows_have_codes(roots()));
        let values = |(root, form): (NodeView<'_>, &StringForm)| match form {
            StringForm::Lookup => root.child(1).len(),
            StringForm::One => 1,
            _ => root.len(),
        };
        if !have_codes || roots().zip(&forms).map(values).sum::<usize>() > MOST_VALUES {
            return Ok(None);
        }
        let on_host = column.download()?;
        let (mut strings, mut codes) = (Interner::default(), Vec::new());
        let mut starts = Vec::with_capacity(on_host.chunks().len() + 1);
        let first = on_host.chunks().len() + 1;
        for (index, (chunk, form)) in on_host.chunks().iter().zip(&forms).enumerate() {
            starts.push((first + codes.len()) as u32);
            // Those of null rows may be any.
            let found = match form {
                StringForm::Lookup => dict::strings_of(chunk.root().child(1)),
                StringForm::One => dict::strings_of_rows(chunk.root(), 0..1),
                _ => dict::strings_of(chunk.root()),
            };
            let (_, offsets, bytes) = found.map_err(|error| error.in_chunk(index))?;
            for ends in offsets.windows(2) {
                codes.push(strings.code(&bytes[ends[0]..ends[1]])?);
            }
        }
        starts.push((first + codes.len()) as u32);
        starts.append(&mut codes);
        let table = Arc::new(stream.allocate(size_of_val(starts.as_slice()))?);
        stream.upload(bytemuck::cast_slice(&starts), &table, 0)?;
        Ok(Some(Self { strings, table, ready: stream.record()? }))
    }
}
