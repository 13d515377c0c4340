//! From planned nodes to bodies in device memory.
//!
//! Sizes are known, so all bodies of a column get one buffer and every node its place
//! in it; then each encoding's kernel writes all nodes that read the same source.

use std::ops::Range;
use std::sync::Arc;

use super::launch::{Launcher, Pending};
use super::source::Column;
use super::strings::Family;
use crate::chunk::{ALIGNMENT, EncodedNode, Header, aligned, lay_out};
use crate::device::column::Bounds;
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi::{self, ByteSpan, SpansArguments};
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

/// A buffer that a kernel will write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingBuffer {
    pub len: usize,
    pub origin: Origin,
    /// The chunk's first vector in what it is made of.
    pub vector: u64,
}

/// What a buffer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Words by number, and what is derived from them, written as the node's encoding says.
    Words(usize),
    /// What the encoding of the node above makes of words by number while they are written.
    Transformed(usize),
    /// The column's values of more than 64 bits.
    Wide,
    /// The column's validity.
    Validity,
    /// The column's booleans.
    Bits,
    /// The column's strings, or those derived from them.
    Strings(Family),
}

/// A chunk that has been planned and laid out.
pub(super) struct Planned {
    /// Without the checksum of the body.
    pub header: Header,
    /// What is to be written, and where its buffers are in the body.
    jobs: Vec<(Job, [Option<usize>; MOST_BUFFERS])>,
    gaps: Vec<Range<usize>>,
    /// Bytes that the plan of the values has promised.
    pub plan_bytes: usize,
    pub bounds: Bounds,
}

impl Planned {
    pub fn new(
        root: &EncodedNode<PendingBuffer>,
        plan_bytes: usize,
        null_count: usize,
        bounds: Bounds,
    ) -> Self {
        let (header, order) = lay_out(root, null_count, |part: &PendingBuffer| part.len);
        let (mut jobs, mut gaps) = (Vec::with_capacity(order.len()), Vec::new());
        for (node, placed) in order.iter().zip(&header.nodes) {
            let ranges = &header.buffers[placed.buffers.clone()];
            let Some(part) = node.buffers.first() else { continue };
            let mut places = [None; MOST_BUFFERS];
            for (place, range) in places.iter_mut().zip(ranges) {
                // No third buffer says that there are no locators.
                let is_patched = matches!(node.encoding, Encoding::Alp | Encoding::AlpRd);
                if !(range.is_empty() && is_patched) {
                    *place = Some(range.start);
                }
            }
            gaps.extend(gaps_of(node, ranges));
            let (origin, vector, encoding) = (part.origin, part.vector, node.encoding);
            let buffers = [DevicePtr::NULL; MOST_BUFFERS];
            let job = Job { origin, encoding, chunk: 0, buffers, vector, rows: node.len };
            jobs.push((job, places));
        }
        Self { header, jobs, gaps, plan_bytes, bounds }
    }
}

/// The parts of a column that kernels have been started to write: chunks, and their bodies one
/// behind the other.
pub(super) type Parts = Vec<(Arc<DeviceBuffer>, Vec<Planned>)>;

/// Most buffers of a node: those of byte strings as lz.
const MOST_BUFFERS: usize = 5;

/// A node to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    origin: Origin,
    pub encoding: Encoding,
    /// Number of its chunk among those planned together.
    pub chunk: usize,
    /// Its buffers; null for those that it lacks.
    pub buffers: [DevicePtr<u8>; MOST_BUFFERS],
    /// The chunk's first vector in what it is made of.
    pub vector: u64,
    /// Values of the node.
    pub rows: usize,
}

/// What kernels see of jobs.
pub(super) fn targets(jobs: &[Job]) -> Vec<abi::Target> {
    let target = |job: &Job| abi::Target {
        buffer: [job.buffers[0], job.buffers[1], job.buffers[2]],
        vector: job.vector,
        rows: job.rows as u32,
        zero: 0,
    };
    jobs.iter().map(target).collect()
}

/// Gives chunks a place and starts writing them, their bodies one behind the other: `write` is
/// called with all nodes of one origin and encoding.
pub(super) fn write(
    launcher: &mut Launcher<'_>,
    chunks: &[Planned],
    mut write: impl FnMut(&mut Launcher<'_>, Origin, Encoding, &[Job]) -> Result<()>,
) -> Result<Arc<DeviceBuffer>> {
    let bodies = launcher.allocate(chunks.iter().map(|chunk| chunk.header.body_len).sum())?;
    let (mut jobs, mut gaps) = (Vec::with_capacity(chunks.len()), Vec::new());
    let mut body = bodies.pointer::<u8>();
    for (number, chunk) in chunks.iter().enumerate() {
        let pointer = |place: Option<usize>| place.map_or(DevicePtr::NULL, |at| body.add(at));
        let job = |(job, places): &(Job, [Option<usize>; MOST_BUFFERS])| Job {
            chunk: number,
            buffers: places.map(pointer),
            ..*job
        };
        let gap =
            |gap: &Range<usize>| abi::Gap { at: body.add(gap.start), bytes: gap.len() as u64 };
        jobs.extend(chunk.jobs.iter().map(job));
        gaps.extend(chunk.gaps.iter().map(gap));
        body = body.add(chunk.header.body_len);
    }
    jobs.sort_by_key(|job| (job.origin, job.encoding as u32));
    launcher.mark("assemble")?;
    for group in jobs.chunk_by(|a, b| (a.origin, a.encoding) == (b.origin, b.encoding)) {
        write(launcher, group[0].origin, group[0].encoding, group)?;
    }
    if !gaps.is_empty() {
        let arguments =
            abi::GapsArguments { gaps: launcher.upload(&gaps)?, count: gaps.len() as u64 };
        launcher.launch(kernels::GAPS, gaps.len().div_ceil(kernels::GAPS.block), &arguments)?;
    }
    Ok(bodies)
}

/// What no kernel of the node's encoding writes: gaps behind its buffers and in them.
fn gaps_of<'a>(
    node: &EncodedNode<PendingBuffer>,
    ranges: &'a [Range<usize>],
) -> impl Iterator<Item = Range<usize>> + use<'a> {
    // Copies of words and bits fill up to the next buffer themselves.
    let copied = node.encoding == Encoding::Plain && node.physical != Physical::Bytes;
    let behind = move |range: &Range<usize>| {
        debug_assert!(range.start.is_multiple_of(ALIGNMENT));
        (!copied).then(|| range.end..aligned(range.end))
    };
    // Bases of 8 or 16 bits end anywhere, places begin at multiples of 4. There is no such gap
    // in buffers of floats.
    let has_bases = matches!(node.encoding, Encoding::Ffor | Encoding::Pfor);
    let inside = ranges.get(1).filter(|_| has_bases).map(|range| {
        let vectors = node.len.div_ceil(VECTOR);
        let bases = vectors * node.physical.bits().unwrap_or(0) / 8;
        range.start + bases..range.start + bases.next_multiple_of(4)
    });
    ranges.iter().filter_map(behind).chain(inside).filter(|gap| !gap.is_empty())
}

/// Most blocks that copy a span: each span has as many as the longest.
const SPAN_BLOCKS: usize = 64;

/// Bytes that copies of spans read at a time, at multiples of as many.
pub(super) const SPAN_PIECE: usize = 16;

/// Starts copying spans of bytes.
pub(super) fn copy_spans(launcher: &mut Launcher<'_>, spans: &[ByteSpan]) -> Result<()> {
    let kernel = kernels::COPY_SPANS;
    let most = (SPAN_BLOCKS * kernel.block) as u64;
    let cut: Vec<ByteSpan> = (spans.iter())
        .flat_map(|span| {
            (0..span.bytes).step_by(most as usize).map(|at| ByteSpan {
                from: span.from.add(at as usize),
                to: span.to.add(at as usize),
                bytes: (span.bytes - at).min(most),
            })
        })
        .collect();
    let longest = cut.iter().map(|span| span.bytes).max().unwrap_or(0) as usize;
    let blocks = longest.div_ceil(kernel.block);
    if blocks == 0 {
        return Ok(());
    }
    let arguments =
        SpansArguments { spans: launcher.upload(&cut)?, blocks_per_span: blocks as u32, zero: 0 };
    launcher.launch(kernel, cut.len() * blocks, &arguments)
}

/// Bytes of the host that are to be copied to nodes, all at a time.
#[derive(Default)]
pub(super) struct HostCopies {
    bytes: Vec<u8>,
    /// Parts of these, and where they go.
    parts: Vec<(Range<usize>, DevicePtr<u8>)>,
}

impl HostCopies {
    pub fn add(&mut self, to: DevicePtr<u8>, bytes: &[u8]) {
        if !bytes.is_empty() {
            let from = self.bytes.len();
            self.parts.push((from..from + bytes.len(), to));
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// As [`Self::add`], with zeros behind them up to where another buffer may begin.
    pub fn add_padded(&mut self, to: DevicePtr<u8>, bytes: &[u8]) {
        let (from, len) = (self.bytes.len(), aligned(bytes.len()));
        if len > 0 {
            self.bytes.extend_from_slice(bytes);
            self.bytes.resize(from + len, 0);
            self.parts.push((from..from + len, to));
        }
    }

    pub fn start(mut self, launcher: &mut Launcher<'_>) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        // Copies read whole pieces.
        self.bytes.resize(self.bytes.len().next_multiple_of(SPAN_PIECE) + SPAN_PIECE, 0);
        let uploaded = launcher.upload(&self.bytes)?;
        let span = |(part, to): (Range<usize>, DevicePtr<u8>)| ByteSpan {
            from: uploaded.add(part.start),
            to,
            bytes: part.len() as u64,
        };
        copy_spans(launcher, &self.parts.into_iter().map(span).collect::<Vec<_>>())
    }
}

/// Starts copying bits, of the values or of the validity.
pub(super) fn copy_bits(
    launcher: &mut Launcher<'_>,
    column: &Column,
    chunk_rows: usize,
    targets: &[abi::Target],
    values: bool,
) -> Result<()> {
    let longest = targets.iter().map(|target| target.rows as usize).max().unwrap_or(0);
    // Words to the next multiple of 64 bytes.
    let blocks = (longest.div_ceil(512) * 16).div_ceil(kernels::COPY_BITS.block);
    let targets_at = launcher.upload(targets)?;
    let arguments =
        bits_arguments(column, chunk_rows, values, (targets_at, DevicePtr::NULL), blocks);
    launcher.launch(kernels::COPY_BITS, targets.len() * blocks, &arguments)
}

/// Starts counting valid rows, and set bits among them if the column is one of booleans.
pub(super) fn count_bits(
    launcher: &mut Launcher<'_>,
    column: &Column,
    chunk_rows: usize,
) -> Result<Pending<[u32; 2]>> {
    let chunks = column.rows.div_ceil(chunk_rows);
    let counts = launcher.allocate(chunks * 8)?;
    launcher.stream.fill(&counts, 0, chunks * 8, 0)?;
    let blocks = (chunk_rows / 32).div_ceil(kernels::COUNT_BITS.block);
    let values = column.physical() == Physical::Bool;
    let arguments =
        bits_arguments(column, chunk_rows, values, (DevicePtr::NULL, counts.pointer()), blocks);
    launcher.launch(kernels::COUNT_BITS, chunks * blocks, &arguments)?;
    launcher.result(&counts, 0, chunks)
}

fn bits_arguments(
    column: &Column,
    chunk_rows: usize,
    values: bool,
    (targets, counts): (DevicePtr<abi::Target>, DevicePtr<[u32; 2]>),
    blocks: usize,
) -> abi::CopyBitsArguments {
    let (start, bit) = match values {
        true => (column.bits.start, column.bits.bit),
        false => (DevicePtr::NULL, 0),
    };
    let source = abi::Source { values: start.cast(), ..column.source(chunk_rows) };
    let blocks_per_target = blocks as u32;
    abi::CopyBitsArguments { source, targets, counts, blocks_per_target, values_at: bit }
}
