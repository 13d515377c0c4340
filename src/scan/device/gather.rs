//! The values of a column in the rows that a bitmap keeps, one behind the other
//! (`kernels/keep.cu`, `kernels/keep_strings.cu`).
//!
//! ```text
//! keep_counts, keep_places --> where the kept rows of each vector go; how many come to the host
//! keep_8 .. 64, _wide, _bits   values; validity
//! gather                       values of trees that these do not read (trees.rs)
//! keep_lengths, keep_places    strings: where the bytes of each vector go; how many to the host
//! keep_strings                 offsets and bytes; then utf8, views, fixed as for all strings
//! ```
//!
//! All columns of a batch have the same chunks, so rows are counted once for all of them.
//! Only vectors with kept rows are read, and only chunks that have some are decoded where kernels do
//! not read them as they are stored (`decode/nodes.rs`).

mod trees;

use std::sync::Arc;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_schema::DataType;

use super::select::{bitmap_len, count};
use crate::column::{is_text, physical_of};
use crate::decode::nodes::{KernelNodes, ValueNodes};
use crate::decode::program::Target;
use crate::decode::strings::Buffers;
use crate::decode::{check_decodable, roots};
use crate::device::Marks;
use crate::device::array::{DeviceArray, DeviceSlice};
use crate::device::column::DeviceColumn;
use crate::device::parameters::Parameters;
use crate::device::status::{check_status, status_words};
use crate::encoding::Physical;
use crate::error::{Error, Result};
use crate::gpu::abi::{self, Arguments, KeepArguments, Node};
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Stream};
use crate::lanes::VECTOR;

/// The rows of a batch that a bitmap keeps, and where they go.
pub(crate) struct KeptRows<'a> {
    stream: &'a Arc<dyn Stream>,
    bitmap: &'a Arc<DeviceBuffer>,
    rows: usize,
    sums: Sums,
    /// Kept rows before each chunk, and all.
    places: Vec<u64>,
}

/// What is kept before each vector of its chunk, and before each chunk.
struct Sums {
    before: DeviceBuffer,
    places: DeviceBuffer,
}

/// Vectors of the longest chunk.
fn stride(column: &DeviceColumn) -> usize {
    column.chunks().iter().map(|chunk| chunk.rows().div_ceil(VECTOR)).max().unwrap_or(0)
}

impl Sums {
    fn allocate(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        let chunks = column.chunks().len();
        let before = stream.allocate(chunks * stride(column) * 8)?;
        Ok(Self { before, places: stream.allocate((chunks + 1) * 8)? })
    }
}

/// Which bits of a column.
#[derive(Clone, Copy)]
enum WhichBits {
    Validity,
    /// Booleans.
    Values,
}

/// A column that is being kept: what its launches have in common.
struct Job<'a, 'b> {
    kept: &'b KeptRows<'a>,
    column: &'b DeviceColumn,
    /// What nodes point to that has been decoded.
    decoded: Vec<Arc<DeviceBuffer>>,
    marks: &'b mut dyn Marks,
    /// A status word, all ones.
    status: DeviceBuffer,
}

impl<'a> KeptRows<'a> {
    /// Finds where the kept rows of a bitmap go, for columns with the chunks of this one;
    /// waits for their number.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error::DeviceMemory),
    /// [`Error::Device`](crate::Error::Device).
    pub fn find(
        stream: &'a Arc<dyn Stream>,
        column: &DeviceColumn,
        bitmap: &'a Arc<DeviceBuffer>,
        marks: &mut dyn Marks,
    ) -> Result<Self> {
        let sums = Sums::allocate(stream, column)?;
        let rows = column.len();
        let mut kept =
            Self { stream, bitmap, rows, sums, places: vec![0; column.chunks().len() + 1] };
        if rows == 0 {
            return Ok(kept);
        }
        let nodes: Vec<Node> = roots(column.chunks()).iter().map(Target::node).collect();
        let mut parameters = Parameters::default();
        let at = parameters.push(&nodes);
        let parameters = parameters.upload(stream)?;
        let arguments = KeepArguments {
            nodes: at.within(&parameters),
            before: kept.sums.before.pointer(),
            places: kept.sums.places.pointer(),
            ..kept.arguments(column, kernels::KEEP_COUNTS)
        };
        let buffers = [&parameters, bitmap, &kept.sums.before, &kept.sums.places];
        marks.mark(stream, "")?;
        let blocks = nodes.len();
        launch(stream, kernels::KEEP_COUNTS, blocks, &arguments, &buffers, marks)?;
        kept.places = place(stream, &kept.sums, blocks, marks)?;
        Ok(kept)
    }

    /// How many rows are kept.
    pub fn len(&self) -> usize {
        self.places.last().map_or(0, |kept| *kept as usize)
    }

    /// How many rows of each chunk are kept.
    pub fn of_chunks(&self) -> Vec<usize> {
        self.places.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect()
    }

    /// The values of a column in the kept rows, in host memory.
    ///
    /// # Errors
    /// As [`DeviceColumn::decompress`].
    pub fn values(&self, column: &DeviceColumn, marks: &mut dyn Marks) -> Result<ArrayRef> {
        check_decodable(column)?;
        if self.len() == 0 {
            return Ok(new_empty_array(column.field().data_type()));
        }
        let status = status_words(self.stream, 1)?;
        Job { kept: self, column, decoded: Vec::new(), marks, status }.array()?.to_host()
    }

    /// What the arguments of all kernels have in common.
    fn arguments<A: Arguments>(&self, column: &DeviceColumn, kernel: Kernel<A>) -> KeepArguments {
        let vectors = stride(column);
        let division = kernel.division(column.chunks().len(), vectors);
        KeepArguments {
            bitmap: self.bitmap.pointer(),
            before: self.sums.before.pointer(),
            places: self.sums.places.pointer(),
            rows: self.rows as u64,
            stride: vectors as u32,
            node_shift: division.node_shift,
            each: division.each,
            ..Default::default()
        }
    }
}

/// Makes places of sums of chunks, on the device and here.
fn place(
    stream: &Arc<dyn Stream>,
    sums: &Sums,
    chunks: usize,
    marks: &mut dyn Marks,
) -> Result<Vec<u64>> {
    let count = chunks as u32;
    let arguments = abi::KeepPlacesArguments { places: sums.places.pointer(), count, zero: 0 };
    launch(stream, kernels::KEEP_PLACES, 1, &arguments, &[&sums.places], marks)?;
    let mut places = vec![0_u64; chunks + 1];
    stream.download(&sums.places, 0, bytemuck::cast_slice_mut(&mut places))?;
    Ok(places)
}

fn launch<A: Arguments>(
    stream: &Arc<dyn Stream>,
    kernel: Kernel<A>,
    blocks: usize,
    arguments: &A,
    buffers: &[&DeviceBuffer],
    marks: &mut dyn Marks,
) -> Result<()> {
    stream.launch(&Launch::new(kernel, blocks, arguments, buffers))?;
    marks.mark(stream, kernel.name)
}

impl<'a> Job<'a, '_> {
    fn stream(&self) -> &'a Arc<dyn Stream> {
        self.kept.stream
    }

    fn array(mut self) -> Result<DeviceArray> {
        let rows = self.kept.len();
        self.marks.mark(self.stream(), "")?;
        let validity = match self.column.null_count() {
            0 => None,
            _ => {
                let bitmap = self.bits(WhichBits::Validity)?;
                let valid = count(self.stream(), &bitmap, rows)?;
                self.marks.mark(self.stream(), "")?;
                (valid < rows).then_some((bitmap, rows - valid))
            }
        };
        let data_type = self.column.field().data_type();
        let physical = physical_of(data_type);
        let buffers = match (physical, physical.bits()) {
            (Physical::Bool, _) => vec![self.bits(WhichBits::Values)?.into()],
            (_, Some(bits)) => {
                let out = self.stream().allocate(rows * bits / 8)?;
                self.words(bits, &out)?;
                vec![Arc::new(out).into()]
            }
            (_, None) => {
                let validity = validity.as_ref().map(|(bitmap, _)| bitmap);
                self.strings(validity)?
            }
        };
        let (validity, null_count) = validity.unzip();
        Ok(DeviceArray::new(
            self.column.context().clone(),
            data_type.clone(),
            rows,
            null_count.unwrap_or(0),
            validity.map(DeviceSlice::from),
            buffers,
            self.stream().record()?,
        ))
    }

    /// The nodes of the column for kernels that are there.
    fn kernel_nodes(&mut self) -> Result<Arc<KernelNodes>> {
        let nodes = self.column.kernel_nodes(self.stream())?;
        self.decoded.extend_from_slice(nodes.buffers());
        Ok(nodes)
    }

    /// Values of 8 to 256 bits.
    fn words(&mut self, bits: usize, out: &DeviceBuffer) -> Result<()> {
        if !self.column.reads().has_kernels {
            match self.gather_trees(bits, out) {
                // Nothing to compile with: of what is decoded for kernels that are there.
                Err(Error::NoDevice { .. }) => {}
                result => return result,
            }
        }
        let nodes = self.kernel_nodes()?;
        let roots = root_nodes(&nodes);
        match bits {
            128 | 256 => self.wide(&roots, &nodes.host.wide.concat(), bits, out),
            _ => {
                let kernel = kernels::KEEP[bits.trailing_zeros() as usize - 3];
                self.keep(kernel, &roots, out, |_, keep| keep)
            }
        }
    }

    /// Starts a kernel over nodes of all chunks, and those that `complete` adds to the
    /// parameters, of which it gets the first with its own arguments.
    fn keep<A: Arguments>(
        &mut self,
        kernel: Kernel<A>,
        nodes: &[Node],
        out: &DeviceBuffer,
        complete: impl FnOnce(DevicePtr<Node>, KeepArguments) -> A,
    ) -> Result<()> {
        self.keep_with(kernel, nodes, &[], &[out], |base, keep| {
            complete(base, KeepArguments { out: out.pointer(), ..keep })
        })
    }

    /// The same with more nodes, each list of which stands `nodes.len()` nodes, times how
    /// many there are for one, behind the list before, and with all buffers that are used.
    fn keep_with<A: Arguments>(
        &mut self,
        kernel: Kernel<A>,
        nodes: &[Node],
        more: &[Node],
        used: &[&DeviceBuffer],
        complete: impl FnOnce(DevicePtr<Node>, KeepArguments) -> A,
    ) -> Result<()> {
        let mut parameters = Parameters::default();
        let at = parameters.push(nodes);
        let more = parameters.push(more);
        let parameters = parameters.upload(self.stream())?;
        let keep = KeepArguments {
            nodes: at.within(&parameters),
            ..self.kept.arguments(self.column, kernel)
        };
        let blocks = nodes.len() << keep.node_shift;
        let arguments = complete(more.within(&parameters), keep);
        let sums = &self.kept.sums;
        let mut buffers: Vec<&DeviceBuffer> =
            vec![&parameters, self.kept.bitmap, &sums.before, &sums.places, &self.status];
        buffers.extend(used);
        buffers.extend(self.decoded.iter().map(AsRef::as_ref));
        buffers.extend(self.column.bodies().iter().map(AsRef::as_ref));
        launch(self.stream(), kernel, blocks, &arguments, &buffers, self.marks)
    }

    /// Kept bits.
    fn bits(&mut self, which: WhichBits) -> Result<Arc<DeviceBuffer>> {
        let len = bitmap_len(self.kept.len());
        let out = Arc::new(self.stream().allocate(len)?);
        self.stream().fill(&out, 0, len, 0)?;
        let has_kernels = match which {
            WhichBits::Validity => self.column.reads().has_validity_kernels,
            WhichBits::Values => self.column.reads().has_kernels,
        };
        if !has_kernels {
            match self.gather_bits(which, &out) {
                Err(Error::NoDevice { .. }) => {}
                result => return result.map(|()| out),
            }
        }
        match which {
            WhichBits::Validity => {
                let nodes = self.column.scan_validity(self.stream())?;
                self.decoded.extend_from_slice(nodes.buffers());
                let nodes: Vec<Node> = nodes.nodes().collect();
                self.keep(kernels::KEEP_BITS, &nodes, &out, |_, keep| keep)?;
            }
            WhichBits::Values => {
                let nodes = self.kernel_nodes()?;
                let nodes = root_nodes(&nodes);
                self.keep(kernels::KEEP_BITS, &nodes, &out, |_, keep| keep)?;
            }
        }
        Ok(out)
    }

    /// Values of 128 or 256 bits.
    fn wide(
        &mut self,
        nodes: &[Node],
        words: &[Node],
        bits: usize,
        out: &DeviceBuffer,
    ) -> Result<()> {
        let kernel = kernels::KEEP_WIDE[bits / 256];
        self.keep_with(kernel, nodes, words, &[out], |words, keep| abi::KeepWideArguments {
            keep: KeepArguments { out: out.pointer(), ..keep },
            words,
        })
    }

    /// What kernels have found wrong so far; waits for them.
    fn check(&self) -> Result<()> {
        check_status(self.stream(), &self.status, 0)
    }

    fn strings(&mut self, validity: Option<&Arc<DeviceBuffer>>) -> Result<Vec<DeviceSlice>> {
        let (stream, rows) = (self.stream(), self.kept.len());
        let data_type = self.column.field().data_type().clone();
        let has_rows = |chunk: usize| self.kept.places[chunk] < self.kept.places[chunk + 1];
        let values = match self.column.reads().has_values {
            true => self.column.value_nodes(stream)?,
            false => Arc::new(ValueNodes::new(stream, self.column, has_rows)?),
        };
        self.decoded.extend_from_slice(values.buffers());
        let ValueNodes { roots: nodes, stored_lengths, value_lengths, .. } = &*values;
        let both = [stored_lengths.as_slice(), value_lengths].concat();

        let sums = Sums::allocate(stream, self.column)?;
        let (before, places) = (sums.before.pointer(), sums.places.pointer());
        let status = self.status.pointer();
        let used = [&sums.before, &sums.places];
        self.keep_with(kernels::KEEP_LENGTHS, nodes, value_lengths, &used, |lengths, keep| {
            let keep = KeepArguments { before, places, ..keep };
            abi::KeepLengthsArguments { keep, lengths, status }
        })?;
        let byte_places = place(stream, &sums, nodes.len(), self.marks)?;
        self.check()?;
        let total = byte_places[nodes.len()] as usize;
        let buffers = Buffers::allocate(stream, &data_type, rows, total)?;
        let Buffers { bytes, offsets, offset_bytes } = &buffers;
        let end = &(total as u64).to_le_bytes()[..*offset_bytes];
        stream.upload(end, offsets, rows * offset_bytes)?;
        self.marks.mark(stream, "")?;
        let used = [&sums.before, &sums.places, bytes, offsets];
        self.keep_with(kernels::KEEP_STRINGS, nodes, &both, &used, |lengths, keep| {
            abi::KeepStringsArguments {
                keep: KeepArguments { out: offsets.pointer(), ..keep },
                stored_lengths: lengths,
                value_lengths: lengths.add(value_lengths.len()),
                bytes_before: before,
                byte_places: places,
                bytes: bytes.pointer(),
                status,
                offset_bytes: *offset_bytes as u32,
                zero: 0,
            }
        })?;
        // What follows trusts offsets, which damaged vectors lack.
        self.check()?;
        // Chunks, at their kept rows.
        let chunks: Vec<Node> = (self.kept.places.windows(2))
            .map(|pair| Node { at: pair[0], rows: (pair[1] - pair[0]) as u32, ..Node::default() })
            .collect();
        let most = |places: &[u64]| {
            places.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
        };
        if is_text(&data_type) {
            self.arrays(kernels::UTF8, &chunks, most(&byte_places), &buffers, &[], |all| all)?;
        }
        let slices = match &data_type {
            DataType::Utf8View | DataType::BinaryView => {
                let out = Arc::new(stream.allocate(rows * 16)?);
                let parts = parts(&self.kept.places, &byte_places);
                let nodes: Vec<Node> = parts.iter().map(|part| part.0).collect();
                let longest = nodes.iter().map(|node| node.rows as usize).max().unwrap_or(0);
                let to = out.pointer();
                self.arrays(kernels::VIEWS, &nodes, longest, &buffers, &[&out], |all| {
                    abi::StringsArguments { out: to, ..all }
                })?;
                let parts = parts.into_iter().map(|part| DeviceSlice::of(bytes, part.1));
                std::iter::once(out.into()).chain(parts).collect()
            }
            DataType::FixedSizeBinary(width) => {
                let out = Arc::new(stream.allocate(rows * *width as usize)?);
                let longest = most(&self.kept.places);
                let used: Vec<&DeviceBuffer> =
                    [&out].into_iter().chain(validity).map(AsRef::as_ref).collect();
                self.arrays(kernels::FIXED, &chunks, longest, &buffers, &used, |all| {
                    abi::StringsArguments {
                        out: out.pointer(),
                        valid: validity.map_or(DevicePtr::NULL, |bitmap| bitmap.pointer()),
                        width: *width as u32,
                        ..all
                    }
                })?;
                vec![out.into()]
            }
            _ => vec![offsets.clone().into(), DeviceSlice::of(bytes, 0..total)],
        };
        self.check()?;
        Ok(slices)
    }

    /// Starts a kernel that works on kept strings.
    fn arrays(
        &mut self,
        kernel: Kernel<abi::StringsArguments>,
        nodes: &[Node],
        longest: usize,
        buffers: &Buffers,
        used: &[&DeviceBuffer],
        complete: impl FnOnce(abi::StringsArguments) -> abi::StringsArguments,
    ) -> Result<()> {
        let mut parameters = Parameters::default();
        let at = parameters.push(nodes);
        // Nobody has looked yet whether there are bytes above 127.
        let not_ascii = parameters.push(&vec![1_u32; nodes.len()]);
        let parameters = parameters.upload(self.stream())?;
        let blocks_per_node = kernel.blocks_per_node(nodes.len(), longest);
        let arguments = complete(abi::StringsArguments {
            nodes: at.within(&parameters),
            bytes: buffers.bytes.pointer(),
            offsets: buffers.offsets.pointer(),
            status: self.status.pointer(),
            not_ascii: not_ascii.within(&parameters),
            blocks_per_node,
            offset_bytes: buffers.offset_bytes as u32,
            ..Default::default()
        });
        let mut all: Vec<&DeviceBuffer> =
            vec![&parameters, &buffers.bytes, &buffers.offsets, &self.status];
        all.extend(used);
        let blocks = nodes.len() * blocks_per_node as usize;
        launch(self.stream(), kernel, blocks, &arguments, &all, self.marks)
    }
}

fn root_nodes(nodes: &KernelNodes) -> Vec<Node> {
    nodes.host.roots.iter().map(|job| job.node).collect()
}

/// Neighbouring chunks whose kept bytes views can have as one buffer: a node at their rows,
/// and the bytes.
fn parts(rows: &[u64], bytes: &[u64]) -> Vec<(Node, std::ops::Range<usize>)> {
    let mut parts: Vec<(Node, std::ops::Range<usize>)> = Vec::new();
    for (rows, bytes) in rows.windows(2).zip(bytes.windows(2)) {
        let (count, end) = ((rows[1] - rows[0]) as u32, bytes[1] as usize);
        match parts.last_mut() {
            Some((node, range))
                if i32::try_from(end - range.start).is_ok()
                    && node.rows.checked_add(count).is_some() =>
            {
                node.rows += count;
                range.end = end;
            }
            _ => {
                let node = Node { at: rows[0], rows: count, ..Node::default() };
                parts.push((node, bytes[0] as usize..end));
            }
        }
    }
    parts
}
