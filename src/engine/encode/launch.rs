//! Launches of encoders: a stream, what its kernels read and write, and who times them.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use crate::engine::program::Marks;
use crate::error::Result;
use crate::gpu::kernels::Kernel;
use crate::gpu::{DeviceBuffer, Event, Launch, Stream};

/// A result on the device that some kernels are still to write.
pub(super) struct Pending<T> {
    buffer: Arc<DeviceBuffer>,
    at: usize,
    count: usize,
    written: Arc<dyn Event>,
    of: PhantomData<T>,
}

/// Starts kernels over one column. Every launch keeps all of the column's buffers.
pub(super) struct Launcher<'a> {
    pub stream: &'a Arc<dyn Stream>,
    /// What is read back goes through a stream of its own, past kernels that have been
    /// started but need not be waited for.
    pub reader: &'a Arc<dyn Stream>,
    pub marks: &'a mut dyn Marks,
    pub memory: Vec<Arc<DeviceBuffer>>,
}

impl<'a> Launcher<'a> {
    pub fn new(
        stream: &'a Arc<dyn Stream>,
        reader: &'a Arc<dyn Stream>,
        marks: &'a mut dyn Marks,
    ) -> Self {
        Self { stream, reader, marks, memory: Vec::new() }
    }

    /// Device memory that lives as long as the column's launches.
    pub fn allocate(&mut self, len: usize) -> Result<Arc<DeviceBuffer>> {
        let buffer = Arc::new(self.stream.allocate(len)?);
        self.memory.push(buffer.clone());
        Ok(buffer)
    }

    /// Copies items to memory of their own; its address.
    pub fn upload<T: Pod>(&mut self, items: &[T]) -> Result<u64> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        let buffer = self.allocate(bytes.len())?;
        self.stream.upload(bytes, &buffer, 0)?;
        Ok(buffer.address())
    }

    /// What the kernels started so far will have left in a buffer from `at` on.
    pub fn result<T: Pod>(
        &self,
        buffer: &Arc<DeviceBuffer>,
        at: usize,
        count: usize,
    ) -> Result<Pending<T>> {
        let (buffer, written) = (buffer.clone(), self.stream.record()?);
        Ok(Pending { buffer, at, count, written, of: PhantomData })
    }

    /// Copies a result from the device; waits for it.
    pub fn read<T: Pod>(&self, pending: &Pending<T>) -> Result<Vec<T>> {
        self.reader.wait(pending.written.as_ref())?;
        let mut items = vec![T::zeroed(); pending.count];
        let bytes = bytemuck::cast_slice_mut(&mut items);
        self.reader.download(&pending.buffer, pending.at, bytes)?;
        Ok(items)
    }

    /// Starts `blocks` blocks of a kernel.
    pub fn launch<T: Pod>(&mut self, kernel: Kernel, blocks: usize, arguments: &T) -> Result<()> {
        let buffers: Vec<&DeviceBuffer> = self.memory.iter().map(AsRef::as_ref).collect();
        self.stream.launch(&Launch {
            kernel: kernel.name,
            blocks,
            threads: kernel.threads,
            arguments: bytemuck::bytes_of(arguments),
            buffers: &buffers,
        })?;
        self.marks.mark(self.stream, kernel.name)
    }
}
