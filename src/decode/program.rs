//! A list of launches: collected first, started together.
//!
//! A [`Program`] collects steps; each is one launch over all chunks of a column
//! that have the same encoding. Then all nodes go up in one copy and the launches
//! follow. What kernels find wrong goes to a status word for each step, counts of
//! valid rows and the like to words behind them: the [`Report`].

use std::sync::Arc;

use super::decoders;
use crate::chunk::NodeView;
use crate::device::Marks;
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::gpu::abi::{self, Arguments, Node};
use crate::gpu::fault::Fault;
use crate::gpu::kernels::{BoundKernel, Kernel};
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Stream};

/// A node to decode and where its first value goes, in the unit of the output.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub view: NodeView<'a>,
    /// Index of the chunk.
    pub chunk: usize,
    /// The chunk's body.
    pub body: DevicePtr<u8>,
    pub at: usize,
}

impl Target<'_> {
    /// What kernels see of it, as its encoding's decoder says. Of a dictionary of words, whose
    /// values they read as well, `decoders/dict.rs` makes it.
    pub fn node(&self) -> Node {
        match decoders::of(self.view.encoding()) {
            Some(decoder) => decoder.node(self),
            None => self.own_node(),
        }
    }

    /// Its buffers and parameters as they are stored, with nothing of the node's children, which
    /// are nodes of their own.
    pub fn own_node(&self) -> Node {
        Node {
            buffer: self.buffers(),
            parameter: self.view.parameter(0),
            size: self.view.parameter(1),
            at: self.at as u64,
            rows: self.view.len() as u32,
            encoding: self.view.encoding() as u16,
            shape: 0,
        }
    }

    /// The node's buffers.
    pub fn buffers(&self) -> [DevicePtr<u8>; 4] {
        let mut buffers = [DevicePtr::NULL; 4];
        for (index, buffer) in buffers.iter_mut().enumerate().take(self.view.buffer_count()) {
            *buffer = self.body.add(self.view.buffer_range(index).start);
        }
        buffers
    }
}

impl<'a> Target<'a> {
    /// A child of the node, at the same place.
    pub fn child(&self, index: usize) -> Self {
        Self { view: self.view.child(index), ..*self }
    }
}

/// What one node of a launch is: kernels see the node, errors name the chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Job {
    pub chunk: usize,
    pub node: Node,
}

impl From<&Target<'_>> for Job {
    fn from(target: &Target<'_>) -> Self {
        Self { chunk: target.chunk, node: target.node() }
    }
}

/// The jobs of targets.
pub(super) fn jobs(targets: &[Target<'_>]) -> Vec<Job> {
    targets.iter().map(Job::from).collect()
}

/// One launch.
struct Step {
    /// The kernel with its argument, made of what is known once all steps are.
    kernel: Box<dyn Fn(&Launched) -> BoundKernel>,
    /// Index of its first node in the program, and how many blocks each gets.
    first_node: usize,
    nodes: usize,
    blocks_per_node: u32,
    /// Blocks of the launch.
    blocks: usize,
    /// The chunk of each node.
    chunks: Vec<usize>,
    /// Buffers that it reads or writes, bodies and scratch not counted.
    buffers: Vec<Arc<DeviceBuffer>>,
}

/// The argument of kernels that write words to `out`.
pub(super) fn words_to(out: DevicePtr<u8>) -> impl Fn(&Launched) -> abi::WordsArguments + 'static {
    move |at| abi::WordsArguments {
        nodes: at.nodes,
        out,
        blocks_per_node: at.blocks_per_node,
        zero: 0,
    }
}

/// The same of kernels that may find damage.
pub(super) fn checked_to(out: DevicePtr<u8>) -> impl Fn(&Launched) -> abi::DictArguments + 'static {
    move |at| abi::DictArguments {
        nodes: at.nodes,
        out,
        status: at.status,
        blocks_per_node: at.blocks_per_node,
        zero: 0,
    }
}

/// The argument of kernels that write bytes to `out`.
pub(super) fn bytes_to(
    out: DevicePtr<u8>,
    not_ascii: Words,
) -> impl Fn(&Launched) -> abi::BytesArguments + 'static {
    move |at| abi::BytesArguments {
        nodes: at.nodes,
        out,
        status: at.status,
        not_ascii: at.words(not_ascii),
        blocks_per_node: at.blocks_per_node,
        zero: 0,
    }
}

/// The argument of the kernel that decodes FSST codes to `out`; of text with the offsets of
/// rows, else null.
pub(super) fn codes_to(
    out: DevicePtr<u8>,
    offsets: DevicePtr<u8>,
    offset_bytes: usize,
) -> impl Fn(&Launched) -> abi::FsstArguments + 'static {
    move |at| abi::FsstArguments {
        nodes: at.nodes,
        out,
        status: at.status,
        offsets,
        node_count: at.node_count,
        blocks_per_node: at.blocks_per_node,
        offset_bytes: offset_bytes as u32,
        zero: 0,
    }
}

/// The arguments of kernels that work on decoded strings.
#[derive(Clone, Copy, Default)]
pub(super) struct Strings {
    pub bytes: DevicePtr<u8>,
    pub offsets: DevicePtr<u8>,
    /// Bytes of an offset.
    pub offset_bytes: u32,
    pub out: DevicePtr<u8>,
    pub valid: DevicePtr<u32>,
    pub not_ascii: Words,
    pub width: u32,
}

impl Strings {
    /// The argument of these kernels.
    pub fn arguments(self) -> impl Fn(&Launched) -> abi::StringsArguments + 'static {
        move |at| abi::StringsArguments {
            nodes: at.nodes,
            bytes: self.bytes,
            offsets: self.offsets,
            out: self.out,
            valid: self.valid,
            status: at.status,
            not_ascii: at.words(self.not_ascii),
            blocks_per_node: at.blocks_per_node,
            offset_bytes: self.offset_bytes,
            width: self.width,
            zero: 0,
        }
    }
}

/// Words of 32 bits in the report, one for each node of a step; they begin as zeros.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Words {
    first: usize,
}

impl Words {
    /// These words and those behind them, of all that a report has.
    pub fn of(self, report: &[u32]) -> &[u32] {
        &report[self.first..]
    }
}

/// The launches of one column.
pub(super) struct Program<'a> {
    pub stream: &'a Arc<dyn Stream>,
    nodes: Vec<Node>,
    steps: Vec<Step>,
    words: usize,
    /// What steps write for others to read.
    scratch: Vec<Arc<DeviceBuffer>>,
}

impl<'a> Program<'a> {
    /// No launches yet.
    pub fn new(stream: &'a Arc<dyn Stream>) -> Self {
        Self { stream, nodes: Vec::new(), steps: Vec::new(), words: 0, scratch: Vec::new() }
    }

    /// Uninitialised device memory for steps of this program to write and to read, until the
    /// last has run.
    pub fn scratch(&mut self, len: usize) -> Result<Arc<DeviceBuffer>> {
        let scratch = self.allocate(len)?;
        self.scratch.push(scratch.clone());
        Ok(scratch)
    }

    /// Uninitialised device memory.
    pub fn allocate(&self, len: usize) -> Result<Arc<DeviceBuffer>> {
        Ok(Arc::new(self.stream.allocate(len)?))
    }

    /// Buffers that steps write for others to read, as scratch.
    pub fn keep<'b>(&mut self, buffers: impl IntoIterator<Item = &'b Arc<DeviceBuffer>>) {
        self.scratch.extend(buffers.into_iter().cloned());
    }

    /// All scratch so far, for those who go on reading it.
    pub fn scratch_buffers(&self) -> Vec<Arc<DeviceBuffer>> {
        self.scratch.clone()
    }

    /// Whether there is nothing to launch.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Room for a word of the report for each of `nodes` nodes.
    pub fn words(&mut self, nodes: usize) -> Words {
        let words = Words { first: self.words };
        self.words += nodes;
        words
    }

    /// Adds a launch over `jobs`, if there are any; `longest` is the number of values
    /// (codes, bytes) of the longest of them. `more` are nodes that
    /// stand behind those of the jobs; `arguments` makes the kernel's argument.
    pub fn step<A: Arguments>(
        &mut self,
        kernel: Kernel<A>,
        jobs: &[Job],
        more: &[Job],
        longest: usize,
        arguments: impl Fn(&Launched) -> A + 'static,
        buffers: &[&Arc<DeviceBuffer>],
    ) {
        let blocks_per_node = kernel.blocks_per_node(jobs.len(), longest);
        let blocks = jobs.len() * blocks_per_node as usize;
        self.push(kernel, jobs, more, (blocks, blocks_per_node), arguments, buffers);
    }

    /// The same of so many blocks, which share the work and ask for so much shared memory.
    pub fn step_of_blocks<A: Arguments>(
        &mut self,
        kernel: Kernel<A>,
        jobs: &[Job],
        (blocks, shared): (usize, u32),
        arguments: impl Fn(&Launched) -> A + 'static,
        buffers: &[&Arc<DeviceBuffer>],
    ) {
        self.push(kernel.with_shared(shared), jobs, &[], (blocks, 1), arguments, buffers);
    }

    fn push<A: Arguments>(
        &mut self,
        kernel: Kernel<A>,
        jobs: &[Job],
        more: &[Job],
        (blocks, blocks_per_node): (usize, u32),
        arguments: impl Fn(&Launched) -> A + 'static,
        buffers: &[&Arc<DeviceBuffer>],
    ) {
        if jobs.is_empty() {
            return;
        }
        let first_node = self.nodes.len();
        self.nodes.extend(jobs.iter().chain(more).map(|job| job.node));
        self.steps.push(Step {
            kernel: Box::new(move |at| kernel.bind(&arguments(at))),
            first_node,
            nodes: jobs.len(),
            blocks_per_node,
            blocks,
            chunks: jobs.iter().map(|job| job.chunk).collect(),
            buffers: buffers.iter().copied().cloned().collect(),
        });
    }

    /// Uploads the nodes and starts every launch, over bodies that have arrived;
    /// tells `marks` before the first and after each.
    pub fn start(self, bodies: &[Arc<DeviceBuffer>], marks: &mut dyn Marks) -> Result<Report> {
        let Self { stream, nodes, steps, words, scratch } = self;
        let statuses = steps.len() * 8;
        let report = stream.allocate(statuses + words * 4)?;
        stream.fill(&report, 0, statuses, 0xff)?;
        stream.fill(&report, statuses, words * 4, 0)?;
        let nodes_buffer = stream.allocate(size_of_val(nodes.as_slice()))?;
        stream.upload(bytemuck::cast_slice(&nodes), &nodes_buffer, 0)?;
        marks.mark(stream, "")?;
        for (index, step) in steps.iter().enumerate() {
            let launched = Launched {
                nodes: nodes_buffer.pointer::<Node>().add(step.first_node),
                node_count: step.nodes as u32,
                blocks_per_node: step.blocks_per_node,
                status: report.pointer::<u64>().add(index),
                words: report.pointer_at(statuses),
            };
            let mut buffers: Vec<&DeviceBuffer> = vec![&nodes_buffer, &report];
            buffers.extend(bodies.iter().chain(&scratch).map(AsRef::as_ref));
            buffers.extend(step.buffers.iter().map(AsRef::as_ref));
            let kernel = (step.kernel)(&launched);
            stream.launch(&Launch::bound(&kernel, step.blocks, &buffers))?;
            marks.mark(stream, kernel.name)?;
        }
        let chunks = steps.into_iter().map(|step| step.chunks).collect();
        Ok(Report { stream: stream.clone(), buffer: report, chunks, words })
    }
}

/// What the argument of a launch is made of, once all steps are known.
pub(super) struct Launched {
    /// Its nodes, and how many there are.
    pub nodes: DevicePtr<Node>,
    pub node_count: u32,
    pub blocks_per_node: u32,
    /// Its status word.
    pub status: DevicePtr<u64>,
    /// The words of the report.
    words: DevicePtr<u32>,
}

impl Launched {
    /// Some words of the report.
    pub fn words(&self, words: Words) -> DevicePtr<u32> {
        self.words.add(words.first)
    }
}

/// The targets of one encoding.
pub(super) fn of_encoding<'a>(targets: &[Target<'a>], encoding: Encoding) -> Vec<Target<'a>> {
    targets.iter().filter(|target| target.view.encoding() == encoding).copied().collect()
}

/// Most values of a node.
pub(super) fn most_rows(jobs: &[Job]) -> usize {
    jobs.iter().map(|job| job.node.rows as usize).max().unwrap_or(0)
}

/// Most values of a target.
pub(super) fn longest(targets: &[Target<'_>]) -> usize {
    targets.iter().map(|target| target.view.len()).max().unwrap_or(0)
}

/// What is wrong with a chunk.
pub(super) struct Damage {
    pub chunk: usize,
    pub error: Error,
}

/// What a device found while decompressing a column.
pub(super) struct Report {
    stream: Arc<dyn Stream>,
    buffer: DeviceBuffer,
    /// For each step, the chunk of each node.
    chunks: Vec<Vec<usize>>,
    words: usize,
}

impl Report {
    /// Waits for the launches: the words, and what is wrong with the first damaged chunk.
    pub fn read(self) -> Result<(Vec<u32>, Option<Damage>)> {
        // Names the kernel where one has failed.
        self.stream.synchronize()?;
        let statuses = self.chunks.len() * 8;
        let mut bytes = vec![0_u64; (statuses + self.words * 4).div_ceil(8)];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut bytes);
        let bytes = &mut bytes[..statuses + self.words * 4];
        self.stream.download(&self.buffer, 0, bytes)?;
        let (found, words) = bytes.split_at(statuses);
        let found: &[u64] = bytemuck::cast_slice(found);
        // Of a chunk what the first step found: others may only follow from it.
        let fault = (found.iter().zip(&self.chunks))
            .filter(|(status, _)| **status != u64::MAX)
            .map(|(status, chunks)| (chunks[(status >> 32) as usize], *status as u32))
            .min_by_key(|(chunk, _)| *chunk);
        let fault = fault
            .map(|(chunk, fault)| Damage { chunk, error: Error::corrupt(Fault::message(fault)) });
        Ok((bytemuck::cast_slice(words).to_vec(), fault))
    }
}
