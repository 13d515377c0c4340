//! Launches of encoders: a stream, what its kernels read and write, and who times them.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use crate::device::Marks;
use crate::error::Result;
use crate::gpu::kernels::Kernel;
use crate::gpu::{DeviceBuffer, Event, Launch, Priority, Stream};

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
    /// Where it was allocated.
    lane: usize,
    buffer: Arc<DeviceBuffer>,
}

/// Streams of a launcher, and their priorities: what others wait for; what takes longest;
/// what follows from it; and what has time.
pub(super) const LANES: usize = PRIORITIES.len();
pub(super) const PRIORITIES: [Priority; 4] =
    [Priority::Urgent, Priority::High, Priority::Usual, Priority::Low];
pub(super) const MAIN: usize = 0;
pub(super) const LONG: usize = 1;
pub(super) const AFTER: usize = 2;
pub(super) const IDLE: usize = 3;

/// Scopes (`Launcher::scope`) of what is only needed for training symbol tables, for finding
/// distinct strings, and for LZ's looks at strings; those of parts and windows count from 1 on.
pub(super) const TRAINING: usize = usize::MAX;
pub(super) const FINDING: usize = usize::MAX - 1;
pub(super) const LOOKING: usize = usize::MAX - 2;

/// Starts kernels over one column, on one stream or, where that helps, on several.
pub(super) struct Launcher<'a> {
    /// Where launches go now.
    pub stream: &'a Arc<dyn Stream>,
    lanes: [&'a Arc<dyn Stream>; LANES],
    /// What is read back goes through a stream of its own, past kernels that have been
    /// started but need not be waited for.
    pub reader: &'a Arc<dyn Stream>,
    pub marks: &'a mut dyn Marks,
    memory: Vec<Kept>,
    /// What memory is kept for from now on; 0 is the whole column.
    pub scope: usize,
    lane: usize,
    is_host: bool,
}

impl<'a> Launcher<'a> {
    pub fn new(
        mut lanes: [&'a Arc<dyn Stream>; LANES],
        reader: &'a Arc<dyn Stream>,
        marks: &'a mut dyn Marks,
        is_host: bool,
    ) -> Self {
        // What is measured kernel by kernel happens one by one.
        if marks.is_serial() {
            lanes = [lanes[MAIN]; LANES];
        }
        let (stream, lane) = (lanes[MAIN], MAIN);
        Self { stream, lanes, reader, marks, memory: Vec::new(), scope: 0, lane, is_host }
    }

    /// From now on launches go to a lane.
    pub fn switch(&mut self, lane: usize) {
        self.stream = self.lanes[lane];
        self.lane = lane;
    }

    /// From now on launches wait for what has been started on a lane.
    pub fn wait_for(&self, lane: usize) -> Result<()> {
        self.stream.wait(self.lanes[lane].record()?.as_ref())
    }

    /// From now on launches go to the main lane, behind everything.
    pub fn join(&mut self) -> Result<()> {
        self.switch(MAIN);
        (1..LANES).try_for_each(|lane| self.wait_for(lane))
    }

    /// Whether the device is the emulation.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// Keeps memory that others have allocated.
    pub fn keep(&mut self, memory: &[Arc<DeviceBuffer>]) {
        for buffer in memory {
            self.kept(buffer);
        }
    }

    fn kept(&mut self, buffer: &Arc<DeviceBuffer>) {
        let buffer = buffer.clone();
        self.memory.push(Kept { scope: self.scope, lane: self.lane, buffer });
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
        let (here, scope) = (self.lane, self.scope);
        let is_foreign =
            |kept: &Kept| kept.scope == 0 || (kept.scope == scope && kept.lane != here);
        let buffers: Vec<&DeviceBuffer> = (self.memory.iter())
            .filter(|kept| self.is_host || is_foreign(kept))
            .map(|kept| kept.buffer.as_ref())
            .collect();
        self.stream.launch(&Launch {
            module: None,
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
