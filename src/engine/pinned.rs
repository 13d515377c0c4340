//! Page-locked host memory of an engine, and copies of batches there.

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;

use super::Engine;
use crate::chunk::ALIGNMENT;
use crate::device::PinnedBuffer;
use crate::error::Result;

impl Engine {
    /// Page-locked host memory of `len` bytes, zeros at first, that begins at a multiple
    /// of 64 and becomes an Arrow buffer.
    ///
    /// # Errors
    /// [`Error::NoDevice`](crate::Error) for an engine without a GPU,
    /// [`Error::Device`](crate::Error) if so much cannot be locked.
    pub fn pinned_buffer(&self, len: usize) -> Result<PinnedBuffer> {
        PinnedBuffer::zeroed(self.context()?.pool(), len)
    }

    /// Copies a batch, compressed or not, into page-locked memory: the same ordinary Arrow
    /// arrays, which a GPU reads at the speed of the bus. A column's buffers share one
    /// allocation, so that each array keeps all of its column's.
    ///
    /// Buffers are copied as far as arrays refer to them; of a slice of strings, the bytes
    /// of all.
    ///
    /// # Errors
    /// As [`Engine::pinned_buffer`].
    pub fn pinned(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().map(|array| {
            let data = array.to_data();
            let mut memory = self.pinned_buffer(pinned_bytes(&data))?;
            copy_buffers(&data, &mut 0, &mut memory);
            let memory = Buffer::from(memory);
            Ok(make_array(with_buffers(&data, &mut 0, &memory)))
        });
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
    }

    /// Sets how many bytes of page-locked host memory results may take, together with
    /// what is kept for the next ones; 4 GiB without. Results beyond it lie in ordinary
    /// memory, all of them with a limit of 0. What [`Engine::pinned`] and
    /// [`Engine::pinned_buffer`] give does not count.
    ///
    /// Page-locked memory cannot be swapped out, and a small slice of a result keeps all
    /// of it: who keeps results for long may want less, who compresses columns of many
    /// gigabytes more.
    #[must_use]
    pub fn with_pinned_limit(self, bytes: usize) -> Self {
        if let Ok(context) = self.context() {
            context.pool().set_limit(bytes);
        }
        self
    }
}

/// Every buffer of an array that holds bytes, its bitmap first, then its children's.
fn each_buffer(data: &ArrayData, with: &mut impl FnMut(&Buffer)) {
    data.nulls().into_iter().for_each(|nulls| with(nulls.buffer()));
    data.buffers().iter().for_each(&mut *with);
    data.child_data().iter().for_each(|child| each_buffer(child, with));
}

fn pinned_bytes(data: &ArrayData) -> usize {
    let mut bytes = 0;
    each_buffer(data, &mut |buffer| bytes += buffer.len().next_multiple_of(ALIGNMENT));
    bytes
}

fn copy_buffers(data: &ArrayData, at: &mut usize, target: &mut [u8]) {
    each_buffer(data, &mut |buffer| {
        target[*at..*at + buffer.len()].copy_from_slice(buffer);
        *at += buffer.len().next_multiple_of(ALIGNMENT);
    });
}

/// The array with its buffers where [`copy_buffers`] has put them.
fn with_buffers(data: &ArrayData, at: &mut usize, memory: &Buffer) -> ArrayData {
    let mut moved = |buffer: &Buffer| {
        let copy = memory.slice_with_length(*at, buffer.len());
        *at += buffer.len().next_multiple_of(ALIGNMENT);
        copy
    };
    let nulls = data.nulls().map(|nulls| {
        let bits = BooleanBuffer::new(moved(nulls.buffer()), nulls.offset(), nulls.len());
        NullBuffer::new(bits)
    });
    let buffers = data.buffers().iter().map(&mut moved).collect();
    let children = data.child_data().iter().map(|child| with_buffers(child, at, memory)).collect();
    let builder = data.clone().into_builder().nulls(nulls).buffers(buffers).child_data(children);
    // SAFETY: of the same bytes as an array that has been checked.
    unsafe { builder.build_unchecked() }
}
