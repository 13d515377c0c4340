//! Codes of strings for all chunks of a column in device memory, whose chunks have dictionaries of their
//! own.
//!
//! ```text
//! chunk 0   dictionary  a c d     codes 0 1 2     table   | 2 5 .. | 0 1 2 | 0 3 | .. |
//! chunk 1   dictionary  a b       codes 0 3                where each chunk's begin, and these
//! ```

use std::sync::Arc;

use crate::chunk::StringForm;
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
    /// Those of a column all of whose chunks have dictionaries, of not too many values; copies the column
    /// to the host.
    pub(super) fn of(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Option<Self>> {
        let roots = || column.chunks().iter().map(|chunk| chunk.root());
        let is_looked_up = physical_of(column.field().data_type()) == Physical::Bytes
            && roots().all(|root| matches!(root.string_form(), Ok(StringForm::Lookup)));
        if !is_looked_up || roots().map(|root| root.child(1).len()).sum::<usize>() > MOST_VALUES {
            return Ok(None);
        }
        let on_host = column.download()?;
        let (mut strings, mut codes) = (Interner::default(), Vec::new());
        let mut starts = Vec::with_capacity(on_host.chunks().len() + 1);
        let first = on_host.chunks().len() + 1;
        for (index, chunk) in on_host.chunks().iter().enumerate() {
            starts.push((first + codes.len()) as u32);
            let (_, offsets, bytes) =
                dict::strings_of(chunk.root().child(1)).map_err(|error| error.in_chunk(index))?;
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
