//! Launches of encoders: a stream, what its kernels read and write, and who times them.

use std::sync::Arc;

use bytemuck::Pod;

use crate::engine::program::Marks;
use crate::error::Result;
use crate::gpu::kernels::Kernel;
use crate::gpu::{DeviceBuffer, Launch, Stream};

/// Starts kernels over one column. Every launch keeps all of the column's buffers.
pub(super) struct Launcher<'a> {
    pub stream: &'a Arc<dyn Stream>,
    pub marks: &'a mut dyn Marks,
    pub memory: Vec<Arc<DeviceBuffer>>,
}

impl Launcher<'_> {
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

    /// Copies items from the device; waits for them.
    pub fn download<T: Pod>(
        &self,
        buffer: &DeviceBuffer,
        at: usize,
        count: usize,
    ) -> Result<Vec<T>> {
        let mut items = vec![T::zeroed(); count];
        self.stream.download(buffer, at, bytemuck::cast_slice_mut(&mut items))?;
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
