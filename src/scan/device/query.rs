//! Launches of kernels that are made for a query (`src/scan/device/source.rs`), over all
//! chunks of its columns, and what becomes of their partials (`kernels/scan.cu`).

use std::sync::Arc;

use super::select::{Combine, Report, StringTests, TestPlaces, bitmap_len};
use crate::decode::nodes::ColumnNodes;
use crate::device::Marks;
use crate::device::column::DeviceColumn;
use crate::device::parameters::{Offset, Parameters};
use crate::device::status::StatusWords;
use crate::error::Result;
use crate::gpu::abi::{self, Node, Range, Reduction};
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Module, Stream, kernels};

/// A kernel and what it is started with.
pub(crate) struct Query<'a> {
    pub module: &'a dyn Module,
    /// Columns that it reads, and their nodes.
    pub columns: &'a [&'a DeviceColumn],
    pub column_nodes: &'a [Arc<ColumnNodes>],
    /// Its lists of nodes.
    pub nodes: &'a [DevicePtr<Node>],
    pub literals: &'a [u64],
    /// Ranges in memory, and at which literal their address belongs.
    pub ranges: &'a [(usize, Vec<Range>)],
    /// Tests of strings and dictionaries, at which literal their address belongs, and the column.
    pub strings: &'a [(usize, StringTests, usize)],
    /// Sets of codes, and at which literal their address belongs.
    pub sets: &'a [(usize, Vec<u64>)],
    /// What other literals point to.
    pub buffers: &'a [Arc<DeviceBuffer>],
    /// Status words, to which the kernel reports what is damaged.
    pub statuses: usize,
    /// Bytes of lookups in which all rows are looked up: `Launch::cache_bytes`.
    pub cache_bytes: usize,
    /// Warps of a block.
    pub warps: usize,
    /// Vectors of a warp at most.
    pub each: usize,
}

impl Query<'_> {
    /// Starts to join the rows that the query keeps with a bitmap. A report for each status
    /// word.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
    pub fn mask(
        &self,
        stream: &Arc<dyn Stream>,
        combine: Combine,
        out: &Arc<DeviceBuffer>,
        marks: &mut dyn Marks,
    ) -> Result<Vec<Report>> {
        let mut starts = self.columns[0].chunk_rows().scan(0, |start, rows| {
            *start += rows;
            Some(*start - rows)
        });
        if combine == Combine::Set && starts.any(|start| !start.is_multiple_of(32)) {
            // Words of two chunks are changed by both, and so must hold something.
            stream.fill(out, 0, bitmap_len(self.columns[0].len()), 0)?;
        }
        let head = abi::ScanHead {
            mask: out.pointer(),
            combine: combine as u32,
            ..abi::ScanHead::default()
        };
        let status = Arc::new(match self.statuses {
            0 => StatusWords::within(stream, out, 0, 0)?,
            count => StatusWords::new(stream, count)?,
        });
        self.launch(stream, head, &[out], &status, marks)?;
        Ok(Report::of_each(&status))
    }

    /// What the rows of `within`, or all, come to: for each partial a word for each chunk.
    /// A report for each status word. Waits for it.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
    pub fn partials(
        &self,
        stream: &Arc<dyn Stream>,
        within: Option<&Arc<DeviceBuffer>>,
        count: usize,
        reductions: &[Reduction],
        marks: &mut dyn Marks,
    ) -> Result<(Vec<Vec<u64>>, Vec<Report>)> {
        let nodes = &self.column_nodes[0];
        let (chunks, stride) = (nodes.chunks, nodes.longest);
        let partials = Arc::new(stream.allocate(count * chunks * stride * 8)?);
        // Behind the status words, so that one copy has both.
        let out = Arc::new(stream.allocate((self.statuses + count * chunks) * 8)?);
        let status = Arc::new(StatusWords::within(stream, &out, 0, self.statuses)?);
        let head = abi::ScanHead {
            within: within.map_or(DevicePtr::NULL, |bitmap| bitmap.pointer()),
            partials: partials.pointer(),
            ..abi::ScanHead::default()
        };
        let mut buffers = vec![&partials];
        buffers.extend(within);
        self.launch(stream, head, &buffers, &status, marks)?;

        let list = stream.allocate(size_of_val(reductions))?;
        stream.upload(bytemuck::cast_slice(reductions), &list, 0)?;
        let kernel = kernels::REDUCE_PARTIALS;
        let arguments = abi::ReduceArguments {
            partials: partials.pointer(),
            out: out.pointer_at(8 * self.statuses),
            nodes: self.nodes[0],
            reductions: list.pointer(),
            count: reductions.len() as u32,
            chunks: chunks as u32,
            stride: stride as u32,
            zero: 0,
        };
        let mut buffers = vec![partials.as_ref(), out.as_ref(), &list];
        buffers.extend(nodes.buffers());
        let blocks = (reductions.len() * chunks).div_ceil(kernel.block);
        stream.launch(&Launch::new(kernel, blocks, &arguments, &buffers))?;
        marks.mark(stream, kernel.name)?;
        let mut words = vec![0_u64; self.statuses + count * chunks];
        stream.download(&out, 0, bytemuck::cast_slice_mut(&mut words))?;
        let (of_status, words) = words.split_at(self.statuses);
        status.set(of_status);
        let words = words.chunks(chunks).map(<[u64]>::to_vec).collect();
        Ok((words, Report::of_each(&status)))
    }

    /// Has a query work on the rows of `within`, or all, that adds them to something in `buffers`.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
    pub fn rows(
        &self,
        stream: &Arc<dyn Stream>,
        within: Option<&Arc<DeviceBuffer>>,
        buffers: &[&Arc<DeviceBuffer>],
        status: &StatusWords,
        marks: &mut dyn Marks,
    ) -> Result<()> {
        let head = abi::ScanHead {
            within: within.map_or(DevicePtr::NULL, |bitmap| bitmap.pointer()),
            ..abi::ScanHead::default()
        };
        let buffers: Vec<_> = buffers.iter().copied().chain(within).collect();
        self.launch(stream, head, &buffers, status, marks)
    }

    fn launch(
        &self,
        stream: &Arc<dyn Stream>,
        head: abi::ScanHead,
        buffers: &[&Arc<DeviceBuffer>],
        status: &StatusWords,
        marks: &mut dyn Marks,
    ) -> Result<()> {
        let kernel = kernels::scan(self.warps, self.each);
        let (chunks, longest) = (self.column_nodes[0].chunks, self.column_nodes[0].longest);
        let division = kernel.division(chunks, longest);
        let head = abi::ScanHead {
            rows: self.columns[0].len() as u64,
            chunks: chunks as u32,
            stride: longest as u32,
            node_shift: division.node_shift,
            each: division.each,
            ..head
        };
        // Few queries have some.
        let mut parameters = Parameters::default();
        let ranges: Vec<Offset<Range>> =
            self.ranges.iter().map(|(_, ranges)| parameters.push(ranges)).collect();
        let tests: Vec<TestPlaces> =
            self.strings.iter().map(|(_, tests, _)| tests.reserve(&mut parameters)).collect();
        let sets: Vec<Offset<u64>> =
            self.sets.iter().map(|(_, set)| parameters.push(set)).collect();
        let mut literals = self.literals.to_vec();
        let mut in_memory = None;
        if !parameters.is_empty() {
            let buffer = parameters.allocate(stream)?;
            for ((at, _), place) in self.ranges.iter().zip(ranges) {
                literals[*at] = place.within(&buffer).address();
            }
            for ((at, strings, _), places) in self.strings.iter().zip(&tests) {
                strings.fill(&mut parameters, places, &buffer);
                literals[*at] = places.tests.within(&buffer).address();
            }
            for ((at, _), place) in self.sets.iter().zip(sets) {
                literals[*at] = place.within(&buffer).address();
            }
            parameters.copy_to(stream, &buffer)?;
            in_memory = Some(buffer);
        }
        let head = abi::ScanHead { status: status.pointer(), ..head };
        let mut arguments = bytemuck::bytes_of(&head).to_vec();
        arguments.extend_from_slice(bytemuck::cast_slice(self.nodes));
        arguments.extend_from_slice(bytemuck::cast_slice(&literals));

        let mut named: Vec<&DeviceBuffer> = in_memory.iter().chain([status.buffer()]).collect();
        named.extend(buffers.iter().copied().chain(self.buffers).map(AsRef::as_ref));
        named.extend(self.column_nodes.iter().flat_map(|nodes| nodes.buffers()));
        named.extend(self.strings.iter().flat_map(|(_, tests, _)| tests.buffers()));
        let bodies = self.columns.iter().flat_map(|column| column.bodies());
        named.extend(bodies.map(AsRef::as_ref));
        marks.mark(stream, "")?;
        stream.launch(&Launch {
            module: Some(self.module),
            kernel: kernel.name,
            blocks: chunks << division.node_shift,
            threads: kernel.threads,
            shared: kernel.shared,
            cache_bytes: self.cache_bytes,
            arguments: &arguments,
            // A template, `ScanArguments`.
            arguments_type: None,
            buffers: &named,
        })?;
        marks.mark(stream, kernel.name)
    }
}
