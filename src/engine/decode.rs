//! From a compressed column on a device to the buffers of an Arrow array: which
//! kernels, over which nodes, to where.
//!
//! A [`Program`] collects steps; each is one launch over all chunks of the
//! column that have the same encoding. Then all nodes go up in one copy and the
//! launches follow. What kernels find wrong goes to a status word for each step,
//! from which [`Pending::finish`] makes the error; counts of valid rows and the
//! like go to words of the same report.

use std::sync::Arc;

use arrow_schema::DataType;

use super::array::{DeviceArray, DeviceSlice};
use super::column::{DeviceChunk, DeviceColumn};
use super::strings;
use crate::chunk::NodeView;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result, ensure};
use crate::gpu::abi::{self, Fault, Node};
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, Launch, Stream};

/// A node to decode and where its first value goes, in the unit of the output.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub view: NodeView<'a>,
    /// Index of the chunk.
    pub chunk: usize,
    /// Address of the chunk's body.
    pub body: u64,
    pub at: usize,
}

impl Target<'_> {
    /// What kernels see of it.
    pub fn node(&self) -> Node {
        let mut buffer = [0; 4];
        for (index, address) in buffer.iter_mut().enumerate().take(self.view.buffer_count()) {
            *address = self.body + self.view.buffer_range(index).start as u64;
        }
        let size = match (self.view.physical(), self.view.encoding()) {
            (Physical::Bytes, Encoding::Fsst) => self.view.buffer_range(1).len(),
            (Physical::Bytes, _) => self.view.buffer_range(0).len(),
            _ => 0,
        };
        Node {
            buffer,
            parameter: self.view.parameter(0),
            size: size as u64,
            at: self.at as u64,
            rows: self.view.len() as u32,
            encoding: self.view.encoding() as u32,
        }
    }
}

/// What one node of a launch is: kernels see the node, errors name the chunk.
#[derive(Clone, Copy)]
pub(super) struct Job {
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
    kernel: Kernel,
    /// Index of its first node in the program, and how many blocks each gets.
    first_node: usize,
    nodes: usize,
    blocks_per_node: u32,
    /// The chunk of each node.
    chunks: Vec<usize>,
    arguments: Arguments,
    /// Buffers that it reads or writes, the bodies not counted.
    buffers: Vec<Arc<DeviceBuffer>>,
}

/// The arguments of a step, but for what is known only when all steps are.
#[derive(Clone, Copy)]
pub(super) enum Arguments {
    Words { out: u64 },
    Limb { out: u64, limbs: u32, limb: u32, fill: u32 },
    Bits { out: u64, counts: Words },
    Bytes { out: u64, not_ascii: Words },
    Offsets { out: u64 },
    Strings(Strings),
}

/// The arguments of kernels that work on decoded strings.
#[derive(Clone, Copy, Default)]
pub(super) struct Strings {
    pub bytes: u64,
    pub offsets: u64,
    /// Bytes of an offset.
    pub offset_bytes: u32,
    pub out: u64,
    pub valid: u64,
    pub not_ascii: Words,
    pub width: u32,
}

/// Words of 32 bits in the report, one for each node of a step; they begin as zeros.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Words {
    first: usize,
}

impl Words {
    /// The words from `index` on.
    pub fn from(self, index: usize) -> Self {
        Self { first: self.first + index }
    }
}

/// The launches of one column.
pub(super) struct Program<'a> {
    pub stream: &'a Arc<dyn Stream>,
    nodes: Vec<Node>,
    steps: Vec<Step>,
    words: usize,
}

impl<'a> Program<'a> {
    fn new(stream: &'a Arc<dyn Stream>) -> Self {
        Self { stream, nodes: Vec::new(), steps: Vec::new(), words: 0 }
    }

    /// Uninitialised device memory.
    pub fn allocate(&self, len: usize) -> Result<Arc<DeviceBuffer>> {
        Ok(Arc::new(self.stream.allocate(len)?))
    }

    /// Room for a word of the report for each of `nodes` nodes.
    pub fn words(&mut self, nodes: usize) -> Words {
        let words = Words { first: self.words };
        self.words += nodes;
        words
    }

    /// Adds a launch over `jobs`, if there are any; `longest` is the number of values
    /// (codes, bytes) of the longest of them. `more` are nodes that
    /// stand behind those of the jobs.
    pub fn step(
        &mut self,
        kernel: Kernel,
        jobs: &[Job],
        more: &[Job],
        longest: usize,
        arguments: Arguments,
        buffers: &[&Arc<DeviceBuffer>],
    ) {
        if jobs.is_empty() {
            return;
        }
        let first_node = self.nodes.len();
        self.nodes.extend(jobs.iter().chain(more).map(|job| job.node));
        self.steps.push(Step {
            kernel,
            first_node,
            nodes: jobs.len(),
            blocks_per_node: kernel.blocks_per_node(jobs.len(), longest),
            chunks: jobs.iter().map(|job| job.chunk).collect(),
            arguments,
            buffers: buffers.iter().copied().cloned().collect(),
        });
    }

    /// Values of 8 to 64 bits to `out`.
    pub fn words_of(&mut self, targets: &[Target<'_>], out: &Arc<DeviceBuffer>) -> Result<()> {
        for encoding in [Encoding::Plain, Encoding::Constant, Encoding::Ffor, Encoding::Alp] {
            let targets = of_encoding(targets, encoding);
            let Some(first) = targets.first() else { continue };
            let bits = first.view.physical().bits().unwrap_or(0);
            let kernel = words_kernel(encoding, bits)?;
            let arguments = Arguments::Words { out: out.address() };
            self.step(kernel, &jobs(&targets), &[], longest(&targets), arguments, &[out]);
        }
        Ok(())
    }

    /// Values of `limbs` limbs of 64 bits each to `out`.
    fn limbs_of(
        &mut self,
        targets: &[Target<'_>],
        limbs: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        // Plain values are copied limb by limb as 64-bit words.
        let plain = of_encoding(targets, Encoding::Plain);
        let mut words = jobs(&plain);
        for Job { node, .. } in &mut words {
            node.at *= limbs as u64;
            node.rows *= limbs as u32;
        }
        let kernel = words_kernel(Encoding::Plain, 64)?;
        let arguments = Arguments::Words { out: out.address() };
        self.step(kernel, &words, &[], longest(&plain) * limbs, arguments, &[out]);
        let split = of_encoding(targets, Encoding::Limbs);
        for limb in 0..limbs {
            for fill in 1..=limbs - limb {
                // The children that hold this limb, the last ones of their node also those above.
                let children: Vec<Target<'_>> = split
                    .iter()
                    .filter(|target| {
                        let count = target.view.child_count();
                        let fills = if limb + 1 == count { limbs - limb } else { 1 };
                        limb < count && fills == fill
                    })
                    .map(|target| Target { view: target.view.child(limb), ..*target })
                    .collect();
                for (encoding, kernel) in [
                    (Encoding::Plain, kernels::LIMB_PLAIN),
                    (Encoding::Constant, kernels::LIMB_CONSTANT),
                    (Encoding::Ffor, kernels::LIMB_FFOR),
                ] {
                    let targets = of_encoding(&children, encoding);
                    let arguments = Arguments::Limb {
                        out: out.address(),
                        limbs: limbs as u32,
                        limb: limb as u32,
                        fill: fill as u32,
                    };
                    self.step(kernel, &jobs(&targets), &[], longest(&targets), arguments, &[out]);
                }
            }
        }
        Ok(())
    }

    /// Bits to a new bitmap of `rows` bits, and the words that count those set
    /// for each job.
    fn bits_of(&mut self, jobs: &[Job], rows: usize) -> Result<(Arc<DeviceBuffer>, Words)> {
        let len = rows.div_ceil(32) * 4;
        let out = self.allocate(len)?;
        self.stream.fill(&out, 0, len, 0)?;
        let counts = self.words(jobs.len());
        let longest = jobs.iter().map(|job| job.node.rows).max().unwrap_or(0) as usize;
        let arguments = Arguments::Bits { out: out.address(), counts };
        self.step(kernels::BITS, jobs, &[], longest, arguments, &[&out]);
        Ok((out, counts))
    }

    /// Uploads the nodes and starts every launch; tells `marks` before the first
    /// and after each.
    fn start(self, column: &DeviceColumn, marks: &mut dyn Marks) -> Result<Report> {
        let Self { stream, nodes, steps, words } = self;
        let statuses = steps.len() * 8;
        let report = stream.allocate(statuses + words * 4)?;
        stream.fill(&report, 0, statuses, 0xff)?;
        stream.fill(&report, statuses, words * 4, 0)?;
        let nodes_buffer = stream.allocate(size_of_val(nodes.as_slice()))?;
        stream.upload(bytemuck::cast_slice(&nodes), &nodes_buffer, 0)?;
        marks.mark(stream, "")?;
        for (index, step) in steps.iter().enumerate() {
            let address = Addresses {
                nodes: nodes_buffer.address() + (step.first_node * size_of::<Node>()) as u64,
                status: report.address() + index as u64 * 8,
                words: report.address() + statuses as u64,
            };
            let mut buffers: Vec<&DeviceBuffer> = vec![&nodes_buffer, &report, column.bodies()];
            buffers.extend(step.buffers.iter().map(AsRef::as_ref));
            stream.launch(&Launch {
                kernel: step.kernel.name,
                blocks: step.nodes * step.blocks_per_node as usize,
                threads: step.kernel.threads,
                arguments: &step.arguments(&address),
                buffers: &buffers,
            })?;
            marks.mark(stream, step.kernel.name)?;
        }
        let chunks = steps.into_iter().map(|step| step.chunks).collect();
        Ok(Report { stream: stream.clone(), buffer: report, chunks, words })
    }
}

/// What is known once all steps are.
struct Addresses {
    nodes: u64,
    status: u64,
    words: u64,
}

impl Step {
    /// The bytes of the kernel's argument.
    fn arguments(&self, address: &Addresses) -> Vec<u8> {
        let Addresses { nodes, status, .. } = *address;
        let words = |words: Words| address.words + words.first as u64 * 4;
        let blocks_per_node = self.blocks_per_node;
        match self.arguments {
            Arguments::Words { out } => {
                bytes_of(&abi::WordsArguments { nodes, out, blocks_per_node, zero: 0 })
            }
            Arguments::Limb { out, limbs, limb, fill } => {
                bytes_of(&abi::LimbArguments { nodes, out, blocks_per_node, limbs, limb, fill })
            }
            Arguments::Bits { out, counts } => bytes_of(&abi::BitsArguments {
                nodes,
                out,
                counts: words(counts),
                blocks_per_node,
                zero: 0,
            }),
            Arguments::Bytes { out, not_ascii } => bytes_of(&abi::BytesArguments {
                nodes,
                out,
                status,
                not_ascii: words(not_ascii),
                blocks_per_node,
                zero: 0,
            }),
            Arguments::Offsets { out } => bytes_of(&abi::OffsetsArguments {
                nodes,
                out,
                status,
                node_count: self.nodes as u32,
                blocks_per_node,
            }),
            Arguments::Strings(strings) => bytes_of(&abi::StringsArguments {
                nodes,
                bytes: strings.bytes,
                offsets: strings.offsets,
                out: strings.out,
                valid: strings.valid,
                status,
                not_ascii: words(strings.not_ascii),
                blocks_per_node,
                offset_bytes: strings.offset_bytes,
                width: strings.width,
                zero: 0,
            }),
        }
    }
}

fn bytes_of<T: bytemuck::Pod>(arguments: &T) -> Vec<u8> {
    bytemuck::bytes_of(arguments).to_vec()
}

/// The kernel for words of one encoding.
fn words_kernel(encoding: Encoding, bits: usize) -> Result<Kernel> {
    let width = bits.trailing_zeros() as usize - 3;
    Ok(match (encoding, bits) {
        (Encoding::Ffor, 8 | 16 | 32 | 64) => kernels::FFOR[width],
        (Encoding::Plain, 8 | 16 | 32 | 64) => kernels::PLAIN[width],
        (Encoding::Constant, 8 | 16 | 32 | 64) => kernels::CONSTANT[width],
        (Encoding::Alp, 32) => kernels::ALP_32,
        (Encoding::Alp, 64) => kernels::ALP_64,
        _ => return Err(Error::corrupt(format!("{encoding} values of {bits} bits"))),
    })
}

/// The targets of one encoding.
pub(super) fn of_encoding<'a>(targets: &[Target<'a>], encoding: Encoding) -> Vec<Target<'a>> {
    targets.iter().filter(|target| target.view.encoding() == encoding).copied().collect()
}

/// Most values of a target.
pub(super) fn longest(targets: &[Target<'_>]) -> usize {
    targets.iter().map(|target| target.view.len()).max().unwrap_or(0)
}

/// The roots of all chunks, at their rows.
pub(super) fn roots(chunks: &[DeviceChunk]) -> Vec<Target<'_>> {
    (chunks.iter().enumerate())
        .map(|(index, chunk)| Target {
            view: chunk.root(),
            chunk: index,
            body: chunk.body,
            at: chunk.start,
        })
        .collect()
}

/// Who wants to know when launches begin and end.
pub(super) trait Marks {
    /// Called behind the launch of `kernel`; with no name before the first one.
    fn mark(&mut self, stream: &Arc<dyn Stream>, kernel: &'static str) -> Result<()>;
}

/// Nobody.
impl Marks for () {
    fn mark(&mut self, _: &Arc<dyn Stream>, _: &'static str) -> Result<()> {
        Ok(())
    }
}

/// Starts the decompression of a column on a stream.
pub(super) fn start(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    marks: &mut dyn Marks,
) -> Result<Pending> {
    let field = column.field();
    let (rows, data_type) = (column.len(), field.data_type());
    let chunks = column.chunks();
    let targets = roots(chunks);
    if let Some(target) = targets.iter().find(|t| t.view.physical() == Physical::Arrow) {
        return Err(Error::too_large(format!(
            "values of {data_type} are carried as Arrow IPC, which only the CPU reads"
        ))
        .in_chunk(target.chunk));
    }
    stream.wait(column.ready())?;
    let mut program = Program::new(stream);
    let mut expected = None;
    let validity = match column.null_count() {
        0 => None,
        _ => {
            let (bitmap, counts) = program.bits_of(&validity(chunks), rows)?;
            expected = Some(counts);
            Some(bitmap)
        }
    };
    let physical = targets.first().map(|target| target.view.physical());
    let buffers = match (physical, physical.and_then(Physical::bits)) {
        (Some(Physical::Bytes) | None, _) if strings::is_string(data_type) => {
            strings::start(&mut program, data_type, &targets, rows, validity.as_ref())?
        }
        (Some(Physical::Bool), _) => vec![program.bits_of(&jobs(&targets), rows)?.0.into()],
        (Some(_), Some(bits)) => {
            let out = program.allocate(rows * bits / 8)?;
            match bits {
                128 | 256 => program.limbs_of(&targets, bits / 64, &out)?,
                _ => program.words_of(&targets, &out)?,
            }
            vec![out.into()]
        }
        _ => vec![program.allocate(0)?.into()],
    };
    let report = program.start(column, marks)?;
    let array = DeviceArray::new(
        column.context().clone(),
        data_type.clone(),
        rows,
        column.null_count(),
        validity.map(DeviceSlice::from),
        buffers,
        stream.record()?,
    );
    let nulls = chunks.iter().map(DeviceChunk::null_count).collect();
    let rows = chunks.iter().map(DeviceChunk::rows).collect();
    Ok(Pending { array, report, valid: expected, nulls, rows })
}

/// The validity of all chunks, at their rows.
pub(super) fn validity(chunks: &[DeviceChunk]) -> Vec<Job> {
    let job = |root: Target<'_>| match root.view.validity() {
        Some(view) => Job::from(&Target { view, ..root }),
        // A chunk without nulls has no bitmap: all its rows are valid.
        None => {
            let encoding = Encoding::Constant as u32;
            let node = Node { encoding, parameter: 1, buffer: [0; 4], ..root.node() };
            Job { chunk: root.chunk, node }
        }
    };
    roots(chunks).into_iter().map(job).collect()
}

/// What a device found while decompressing a column.
struct Report {
    stream: Arc<dyn Stream>,
    buffer: DeviceBuffer,
    /// For each step, the chunk of each node.
    chunks: Vec<Vec<usize>>,
    words: usize,
}

impl Report {
    /// Waits for the launches; the words, if nothing was wrong.
    fn read(self) -> Result<Vec<u32>> {
        let statuses = self.chunks.len() * 8;
        let mut bytes = vec![0_u64; (statuses + self.words * 4).div_ceil(8)];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut bytes);
        let bytes = &mut bytes[..statuses + self.words * 4];
        self.stream.download(&self.buffer, 0, bytes)?;
        let (found, words) = bytes.split_at(statuses);
        let found: &[u64] = bytemuck::cast_slice(found);
        // The fault of the lowest chunk, whichever step found it.
        let fault = (found.iter().zip(&self.chunks))
            .filter(|(status, _)| **status != u64::MAX)
            .map(|(status, chunks)| (chunks[(status >> 32) as usize], *status as u32))
            .min();
        match fault {
            Some((chunk, fault)) => Err(Error::corrupt(Fault::message(fault)).in_chunk(chunk)),
            None => Ok(bytemuck::cast_slice(words).to_vec()),
        }
    }
}

/// A column whose decompression has been started.
pub(super) struct Pending {
    array: DeviceArray,
    report: Report,
    /// Where the valid rows of each chunk are counted.
    valid: Option<Words>,
    /// Nulls and rows that headers state, for each chunk.
    nulls: Vec<usize>,
    rows: Vec<usize>,
}

impl Pending {
    /// Waits, and reports what the kernels found.
    pub fn finish(self) -> Result<DeviceArray> {
        let words = self.report.read()?;
        if let Some(valid) = self.valid {
            let stated = self.nulls.iter().zip(&self.rows).enumerate();
            for ((chunk, (nulls, rows)), valid) in stated.zip(&words[valid.first..]) {
                let check = || -> Result<()> {
                    let found = rows - *valid as usize;
                    ensure!(
                        found == *nulls,
                        "{found} nulls among the values, the header states {nulls}"
                    );
                    Ok(())
                };
                check().map_err(|error| error.in_chunk(chunk))?;
            }
        }
        Ok(self.array)
    }
}

/// Whether values of an Arrow type must be UTF-8.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
