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

/// Memory that launches may need.
struct Kept {
    scope: usize,
    /// Whether it was allocated on the side.
    is_side: bool,
    buffer: Arc<DeviceBuffer>,
}

/// Starts kernels over one column, on a stream or, where that helps, beside it.
pub(super) struct Launcher<'a> {
    /// Where launches go now.
    pub stream: &'a Arc<dyn Stream>,
    main: &'a Arc<dyn Stream>,
    side: &'a Arc<dyn Stream>,
    /// What is read back goes through a stream of its own, past kernels that have been
    /// started but need not be waited for.
    pub reader: &'a Arc<dyn Stream>,
    pub marks: &'a mut dyn Marks,
    memory: Vec<Kept>,
    /// What memory is kept for from now on; 0 is the whole column.
    pub scope: usize,
    is_side: bool,
    is_host: bool,
}

impl<'a> Launcher<'a> {
    /// Streams: for kernels, for kernels beside these, and for what is read back.
    pub fn new(
        [main, side, reader]: [&'a Arc<dyn Stream>; 3],
        marks: &'a mut dyn Marks,
        is_host: bool,
    ) -> Self {
        // What is measured kernel by kernel happens one by one.
        let side = if marks.is_serial() { main } else { side };
        Self {
            stream: main,
            main,
            side,
            reader,
            marks,
            memory: Vec::new(),
            scope: 0,
            is_side: false,
            is_host,
        }
    }

    /// From now on launches go to the side, or no longer.
    pub fn switch(&mut self, is_side: bool) {
        self.stream = if is_side { self.side } else { self.main };
        self.is_side = is_side;
    }

    /// From now on launches go to the side, behind what has been started so far.
    pub fn fork(&mut self) -> Result<()> {
        self.side.wait(self.main.record()?.as_ref())?;
        self.switch(true);
        Ok(())
    }

    /// What comes now, and not to the side, is behind everything there.
    pub fn join(&mut self) -> Result<()> {
        self.switch(false);
        self.main.wait(self.side.record()?.as_ref())
    }

    /// Keeps memory that others have allocated.
    pub fn keep(&mut self, memory: &[Arc<DeviceBuffer>]) {
        for buffer in memory {
            self.kept(buffer);
        }
    }

    fn kept(&mut self, buffer: &Arc<DeviceBuffer>) {
        let buffer = buffer.clone();
        self.memory.push(Kept { scope: self.scope, is_side: self.is_side, buffer });
    }

    /// Lets go of the memory of a scope. The device frees it behind what uses it.
    pub fn release(&mut self, scope: usize) {
        self.memory.retain(|kept| kept.scope != scope);
    }

    /// Tells who measures that the host has done `what`.
    pub fn mark(&mut self, what: &'static str) -> Result<()> {
        self.marks.mark(self.stream, what)
    }

    /// Device memory that is kept for the present scope.
    pub fn allocate(&mut self, len: usize) -> Result<Arc<DeviceBuffer>> {
        let buffer = Arc::new(self.stream.allocate(len)?);
        self.kept(&buffer);
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
        // that it has not allocated itself.
        let (here, scope) = (self.is_side, self.scope);
        let is_foreign =
            |kept: &Kept| kept.scope == 0 || (kept.scope == scope && kept.is_side != here);
        let buffers: Vec<&DeviceBuffer> = (self.memory.iter())
            .filter(|kept| self.is_host || is_foreign(kept))
            .map(|kept| kept.buffer.as_ref())
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
