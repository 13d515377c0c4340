//! Launches of encoders: a stream, what its kernels read and write, and who times them.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use crate::device::Marks;
use crate::device::array::READ_UNIT;
use crate::error::Result;
use crate::gpu::abi::Arguments;
use crate::gpu::kernels::Kernel;
use crate::gpu::{DeviceBuffer, DevicePtr, Event, Launch, Priority, Stream};

/// A result on the device that some kernels are still to write.
pub(super) struct Pending<T> {
    buffer: Arc<DeviceBuffer>,
    at: usize,
    count: usize,
    written: Arc<dyn Event>,
    of: PhantomData<T>,
}

/// Memory that launches may need.
struct Allocation {
    scope: Scope,
    /// The stream that it was allocated on; none if others have allocated it.
    role: Option<StreamRole>,
    buffer: Arc<DeviceBuffer>,
}

/// What a stream of a launcher is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamRole {
    /// Results that other work waits for.
    Main,
    /// What takes longest: codes of strings.
    Long,
    /// What follows from it: bodies.
    After,
    /// What nothing waits for: bounds.
    Idle,
}

impl StreamRole {
    pub const ALL: [Self; 4] = [Self::Main, Self::Long, Self::After, Self::Idle];

    pub fn priority(self) -> Priority {
        match self {
            Self::Main => Priority::Urgent,
            Self::Long => Priority::High,
            Self::After => Priority::Usual,
            Self::Idle => Priority::Low,
        }
    }
}

/// The streams of a launcher, by their roles.
pub(super) type Streams<'a> = [&'a Arc<dyn Stream>; StreamRole::ALL.len()];

/// What memory is allocated for: it is freed when that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Column,
    /// A part of the column, or a span of strings.
    Part(usize),
    /// Training of symbol tables.
    Training,
    /// The search for distinct strings.
    Distinct,
    /// Prefixes of sampled vectors.
    SampledPrefixes,
    /// What splits strings into prefixes and suffixes.
    Splitting,
    /// Copies of strings that LZ is tried on.
    LzCandidates,
}

/// Starts kernels over one column, on one stream or, where that helps, on several.
pub(super) struct Launcher<'a> {
    /// Where launches go now.
    pub stream: &'a Arc<dyn Stream>,
    streams: Streams<'a>,
    /// What is read back goes through a stream of its own, past kernels that have been
    /// started but need not be waited for.
    pub reader: &'a Arc<dyn Stream>,
    pub marks: &'a mut dyn Marks,
    memory: Vec<Allocation>,
    /// What memory is allocated for from now on.
    pub scope: Scope,
    role: StreamRole,
    is_host: bool,
}

impl<'a> Launcher<'a> {
    pub fn new(
        mut streams: Streams<'a>,
        reader: &'a Arc<dyn Stream>,
        marks: &'a mut dyn Marks,
        is_host: bool,
    ) -> Self {
        // What is measured kernel by kernel happens one by one.
        if marks.is_serial() {
            streams = [streams[0]; StreamRole::ALL.len()];
        }
        let (stream, role) = (streams[0], StreamRole::Main);
        let (memory, scope) = (Vec::new(), Scope::Column);
        Self { stream, streams, reader, marks, memory, scope, role, is_host }
    }

    /// The launcher of work that needs no more than one stream.
    pub fn on_one_stream(
        stream: &'a Arc<dyn Stream>,
        reader: &'a Arc<dyn Stream>,
        marks: &'a mut dyn Marks,
        is_host: bool,
    ) -> Self {
        Self::new([stream; StreamRole::ALL.len()], reader, marks, is_host)
    }

    /// From now on launches go to the stream of a role.
    pub fn switch(&mut self, role: StreamRole) {
        self.stream = self.streams[role as usize];
        self.role = role;
    }

    /// From now on launches wait for what has been started on the stream of a role.
    pub fn wait_for(&self, role: StreamRole) -> Result<()> {
        self.stream.wait(self.streams[role as usize].record()?.as_ref())
    }

    /// From now on launches go to the main stream, behind everything.
    pub fn join(&mut self) -> Result<()> {
        self.switch(StreamRole::Main);
        StreamRole::ALL[1..].iter().try_for_each(|role| self.wait_for(*role))
    }

    /// Does work whose memory is allocated for a scope.
    pub fn in_scope<T>(&mut self, scope: Scope, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.scope, scope);
        let result = work(self);
        self.scope = before;
        result
    }

    /// Whether the device is the emulation.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// Keeps memory that others have allocated: all launches name it.
    pub fn keep(&mut self, memory: &[Arc<DeviceBuffer>]) {
        let scope = self.scope;
        let foreign =
            |buffer: &Arc<DeviceBuffer>| Allocation { scope, role: None, buffer: buffer.clone() };
        self.memory.extend(memory.iter().map(foreign));
    }

    /// All memory that is kept at present.
    pub fn kept(&self) -> Vec<Arc<DeviceBuffer>> {
        self.memory.iter().map(|one| one.buffer.clone()).collect()
    }

    /// Lets go of the memory of a scope. The device frees it behind what uses it.
    pub fn release(&mut self, scope: Scope) {
        self.memory.retain(|one| one.scope != scope);
    }

    /// Tells who measures that the host has done `what`.
    pub fn mark(&mut self, what: &'static str) -> Result<()> {
        self.marks.mark(self.stream, what)
    }

    /// Device memory that is kept for the present scope.
    pub fn allocate(&mut self, len: usize) -> Result<Arc<DeviceBuffer>> {
        let buffer = Arc::new(self.stream.allocate(len)?);
        let (scope, role) = (self.scope, Some(self.role));
        self.memory.push(Allocation { scope, role, buffer: buffer.clone() });
        Ok(buffer)
    }

    /// As [`Self::allocate`], with zeros behind `len` bytes: kernels read whole units.
    pub fn allocate_zero_ended(&mut self, len: usize) -> Result<Arc<DeviceBuffer>> {
        let buffer = self.allocate(len + READ_UNIT)?;
        self.stream.fill(&buffer, len, READ_UNIT, 0)?;
        Ok(buffer)
    }

    /// Copies items to memory of their own.
    pub fn upload<T: Pod>(&mut self, items: &[T]) -> Result<DevicePtr<T>> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        let buffer = self.allocate(bytes.len())?;
        self.stream.upload(bytes, &buffer, 0)?;
        Ok(buffer.pointer())
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
    pub fn launch<A: Arguments>(
        &mut self,
        kernel: Kernel<A>,
        blocks: usize,
        arguments: &A,
    ) -> Result<()> {
        // The emulation wants all named. A GPU's stream needs to be told only of memory
        // that it has not allocated itself.
        let (role, scope) = (self.role, self.scope);
        let is_foreign = |one: &Allocation| {
            one.role.is_none()
                || one.scope == Scope::Column
                || (one.scope == scope && one.role != Some(role))
        };
        let buffers: Vec<&DeviceBuffer> = (self.memory.iter())
            .filter(|one| self.is_host || is_foreign(one))
            .map(|one| one.buffer.as_ref())
            .collect();
        self.stream.launch(&Launch::new(kernel, blocks, arguments, &buffers))?;
        self.marks.mark(self.stream, kernel.name)
    }
}
