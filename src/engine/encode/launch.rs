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
    /// Each with the scope that it is kept for.
    memory: Vec<(usize, Arc<DeviceBuffer>)>,
    /// What memory is kept for from now on; 0 is the whole column.
    pub scope: usize,
    is_host: bool,
}

impl<'a> Launcher<'a> {
    pub fn new(
        stream: &'a Arc<dyn Stream>,
        reader: &'a Arc<dyn Stream>,
        marks: &'a mut dyn Marks,
        is_host: bool,
    ) -> Self {
        Self { stream, reader, marks, memory: Vec::new(), scope: 0, is_host }
    }

    /// Keeps memory that others have allocated.
    pub fn keep(&mut self, memory: &[Arc<DeviceBuffer>]) {
        self.memory.extend(memory.iter().map(|buffer| (self.scope, buffer.clone())));
    }

    /// Lets go of the memory of a scope. The device frees it behind what uses it.
    pub fn release(&mut self, scope: usize) {
        self.memory.retain(|(kept_for, _)| *kept_for != scope);
    }

    /// Tells who measures that the host has done `what`.
    pub fn mark(&mut self, what: &'static str) -> Result<()> {
        self.marks.mark(self.stream, what)
    }

    /// Device memory that is kept for the present scope.
    pub fn allocate(&mut self, len: usize) -> Result<Arc<DeviceBuffer>> {
        let buffer = Arc::new(self.stream.allocate(len)?);
        self.memory.push((self.scope, buffer.clone()));
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
        // The emulation wants all named. A GPU's stream needs to be told only of memory
        // that it has not allocated itself, which is the whole column's.
        let is_named = |scope: usize| self.is_host || scope == 0;
        let buffers: Vec<&DeviceBuffer> = self
            .memory
            .iter()
            .filter(|(scope, _)| is_named(*scope))
            .map(|(_, buffer)| buffer.as_ref())
            .collect();
        self.stream.launch(&Launch {
            kernel: kernel.name,
            blocks,
            threads: kernel.threads,
            shared: kernel.shared,
            arguments: bytemuck::bytes_of(arguments),
            buffers: &buffers,
        })?;
        self.marks.mark(self.stream, kernel.name)
    }
}
