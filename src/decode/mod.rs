//! Decompression on a device: from a compressed column to the buffers of an Arrow array, and to the
//! nodes that kernels of scans and of users read.
//!
//! ```text
//! mod.rs        an array of a column: which kernels, over which nodes, to where
//! program.rs    steps, collected and started together     decoders/   steps of each encoding
//! cascade.rs    children that are decoded first           strings.rs  strings, their offsets, views
//! nodes.rs, trees.rs, stored.rs   what kernels read of columns that stay compressed, kept by cache.rs
//! ```

mod cache;
mod cascade;
pub(crate) mod codes;
mod decoders;
pub(crate) mod nodes;
pub(crate) mod program;
pub(crate) mod stored;
pub(crate) mod strings;
pub(crate) mod trees;

use std::sync::Arc;

use crate::chunk::StringForm;
use crate::column::{CompressedColumn, physical_of};
use crate::device::Marks;
use crate::device::array::{DeviceArray, DeviceSlice};
use crate::device::column::{CompressedDeviceBatch, DeviceChunk, DeviceColumn, views_hold};
use crate::encoding::{self, Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::abi::{BitsArguments, Node};
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, Stream};
use program::{Damage, Job, Launched, Program, Report, Target, Words};

impl CompressedDeviceBatch {
    /// Decompresses every column to device memory: all kernels first, then one
    /// wait.
    ///
    /// # Errors
    /// As [`DeviceColumn::decompress`].
    pub fn decompress(&self) -> Result<Vec<DeviceArray>> {
        DeviceColumn::check_memory(self.columns())?;
        self.context().with_stream(|stream| {
            let in_column =
                |column: &DeviceColumn, error: Error| error.in_column(column.field().name());
            let started: Vec<_> = self
                .columns()
                .iter()
                .map(|column| {
                    start(stream, column, &mut ()).map_err(|error| in_column(column, error))
                })
                .collect::<Result<_>>()?;
            let finished = started.into_iter().zip(self.columns());
            finished
                .map(|(pending, column)| {
                    let explained = |error| column.explained(in_column(column, error));
                    pending.finish().map_err(explained)
                })
                .collect()
        })
    }
}

/// Where the buffers of a chunk's node are in device memory, for kernels that read nodes
/// themselves: `lanepack::Node` in `kernels/lanepack/node.cuh`.
///
/// The struct is opaque on the host, and its layout may change with any release. Kernels include
/// the header that is part of the release ([`Kernel::from_source`](crate::Kernel::from_source)),
/// and are passed a pointer to nodes that [`DeviceMemory::from_slice`](crate::DeviceMemory) has
/// copied to the device.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct DeviceNode(pub(crate) Node);

impl DeviceColumn {
    /// For each chunk the root of its encoding tree, as `lanepack::Node` in
    /// `kernels/lanepack/node.cuh`, with `at` counting rows. For kernels that read nodes
    /// themselves, of strings above all: [`DeviceColumn::reader`] reads numbers, decimals and
    /// booleans of any encoding and is safe without knowing it.
    ///
    /// Chunks of one column may have different encodings, and `Node::encoding` decides what the
    /// buffers hold: a kernel that takes one encoding for another reads outside of them. It must
    /// handle all of these, or leave the chunk out:
    ///
    /// | values | encodings |
    /// |---|---|
    /// | numbers up to 64 bits | plain, constant, ffor, pfor; floats also alp, alp_rd; dict (`dict.cuh`) of codes that are plain or ffor |
    /// | booleans, validity | constant, plain: a bitmap |
    /// | decimals | plain, or a child for each word of 64 bits that is stored ([`DeviceColumn::child_nodes`]) |
    /// | strings | constant, plain, fsst, dict ([`DeviceColumn::child_nodes`]) |
    ///
    /// Lengths of strings are plain, constant, ffor or pfor. The first call decodes what has another
    /// encoding, and the values of dictionaries, to device memory; the column keeps them and the
    /// nodes are plain.
    /// The pointers are valid as long as the column is. All that they point to has been written
    /// when this returns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the column is nested or carried as Arrow IPC, [`Error::Corrupt`]
    /// if what is decoded is damaged, [`Error::DeviceMemory`], [`Error::Device`].
    pub fn nodes(&self) -> Result<Vec<DeviceNode>> {
        let nodes: Vec<Node> = self.context().with_stream(|stream| {
            Ok(match physical_of(self.field().data_type()) {
                Physical::Bytes => self.value_nodes(stream)?.roots.clone(),
                _ => self.kernel_nodes(stream)?.host.roots.iter().map(|job| job.node).collect(),
            })
        })?;
        self.ready().synchronize()?;
        Ok(nodes.into_iter().map(DeviceNode).collect())
    }

    /// Of each chunk child number `child` of the root, if it has so many: of `fsst` 0
    /// has the code lengths and 1 the value lengths, of plain strings 0 has the value
    /// lengths, of decimals that are not plain they are the words, the lowest first. Of others
    /// there is none: their nodes have all that kernels read. See [`DeviceColumn::nodes`].
    ///
    /// # Errors
    /// As [`DeviceColumn::nodes`].
    pub fn child_nodes(&self, child: usize) -> Result<Vec<Option<DeviceNode>>> {
        check_decodable(self)?;
        let roots = roots(self.chunks());
        let children = self.context().with_stream(|stream| {
            Ok(match physical_of(self.field().data_type()) {
                Physical::Bytes => {
                    let nodes = self.value_nodes(stream)?;
                    let of_chunk = |root: &Target<'_>| {
                        let stored = (child == 0).then(|| nodes.stored_lengths[root.chunk]);
                        Ok(match root.view.string_form()? {
                            StringForm::Codes if child == 1 => {
                                Some(nodes.value_lengths[root.chunk])
                            }
                            // Put together, strings of front coding and lz are plain.
                            StringForm::Codes
                            | StringForm::Bytes
                            | StringForm::Prefixes
                            | StringForm::Segments => stored,
                            StringForm::One | StringForm::Lookup => None,
                        })
                    };
                    roots.iter().map(of_chunk).collect::<Result<_>>()?
                }
                Physical::I128 | Physical::I256 => {
                    let nodes = self.kernel_nodes(stream)?;
                    let of_chunk = |root: &Target<'_>| {
                        let has = child < root.view.child_count();
                        has.then(|| nodes.host.wide[root.chunk][child])
                    };
                    roots.iter().map(of_chunk).collect()
                }
                _ => vec![None; roots.len()],
            })
        })?;
        self.ready().synchronize()?;
        Ok(children.into_iter().map(|child: Option<Node>| child.map(DeviceNode)).collect())
    }

    /// The nodes of the chunks' validity: bits, 1 for valid; of a chunk without
    /// nulls a constant 1. See [`DeviceColumn::nodes`].
    ///
    /// # Errors
    /// As [`DeviceColumn::nodes`].
    pub fn validity_nodes(&self) -> Result<Vec<DeviceNode>> {
        check_decodable(self)?;
        self.ready().synchronize()?;
        let validity = self.context().with_stream(|stream| self.scan_validity(stream))?;
        Ok(validity.nodes().map(DeviceNode).collect())
    }

    /// Decompresses the column to device memory and waits for it.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] if the values take more than the engine allows
    /// ([`Engine::with_memory_limit`](crate::Engine::with_memory_limit)); [`Error::Corrupt`] if a
    /// chunk's data are damaged, [`Error::TooLarge`] if the
    /// strings of a Utf8 or Binary column pass 2 GiB, [`Error::Unsupported`] if the column is
    /// nested or carried as Arrow IPC, which only the CPU reads; [`Error::DeviceMemory`],
    /// [`Error::Device`].
    pub fn decompress(&self) -> Result<DeviceArray> {
        DeviceColumn::check_memory(std::slice::from_ref(self))?;
        let decompress =
            || self.context().with_stream(|stream| start(stream, self, &mut ())?.finish());
        decompress().map_err(|error| self.explained(error.in_column(self.field().name())))
    }
}

/// Starts the decompression of a column on a stream.
pub(crate) fn start(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    marks: &mut dyn Marks,
) -> Result<Pending> {
    start_to(stream, column, None, marks)
}

/// Where the strings of a part of a column belong.
pub(crate) struct Place<'a> {
    pub buffers: &'a strings::Buffers,
    /// Rows and bytes of the column before this part.
    pub row: usize,
    pub byte: usize,
}

/// Starts the decompression of a column, or of a part of a column of strings to its place.
pub(crate) fn start_to(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    place: Option<Place<'_>>,
    marks: &mut dyn Marks,
) -> Result<Pending> {
    let field = column.field();
    let (rows, data_type) = (column.len(), field.data_type());
    let chunks = column.chunks();
    let targets = roots(chunks);
    check_decodable(column)?;
    stream.wait(column.ready())?;
    let mut program = Program::new(stream);
    let mut expected = None;
    let validity = match column.null_count() {
        0 => None,
        _ => {
            let nodes = validity(&mut program, chunks)?;
            let (bitmap, counts) = program.bits_of(&nodes, rows)?;
            expected = Some(counts);
            Some(bitmap)
        }
    };
    let physical = physical_of(data_type);
    let buffers = match (physical, physical.bits()) {
        (Physical::Bool, _) => {
            let nodes = program.readable_bits(&targets)?;
            vec![program.bits_of(&nodes, rows)?.0.into()]
        }
        (_, Some(bits)) => {
            let out = program.allocate(rows * bits / 8)?;
            match bits {
                128 | 256 => program.wide_of(&targets, bits / 64, &out)?,
                _ => program.words_of(&targets, &out)?,
            }
            vec![out.into()]
        }
        (_, None) => match place {
            None => strings::start(&mut program, data_type, &targets, rows, validity.as_ref())?,
            Some(Place { buffers, row, byte }) => {
                let moved = targets.iter().map(|root| Target { at: row + root.at, ..*root });
                let moved: Vec<Target<'_>> = moved.collect();
                strings::decode(&mut program, data_type, &moved, byte, buffers)?;
                let bytes: usize =
                    targets.iter().map(|target| encoding::value_bytes(target.view)).sum();
                let width = buffers.offset_bytes;
                let offsets = row * width..(row + rows + 1) * width;
                vec![
                    DeviceSlice::of(&buffers.offsets, offsets),
                    DeviceSlice::of(&buffers.bytes, byte..byte + bytes),
                ]
            }
        },
    };
    let report = program.start(column.bodies(), marks)?;
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
    Ok(Pending { array, report, valid: expected, nulls, rows, first_chunk: 0 })
}

/// A column whose decompression has been started.
pub(crate) struct Pending {
    array: DeviceArray,
    report: Report,
    /// Where the valid rows of each chunk are counted.
    valid: Option<Words>,
    /// Nulls and rows that headers state, for each chunk.
    nulls: Vec<usize>,
    rows: Vec<usize>,
    /// Chunks before these in their column.
    first_chunk: usize,
}

impl Pending {
    /// As a part of a column that has so many chunks before.
    pub fn behind(self, chunks: usize) -> Self {
        Self { first_chunk: chunks, ..self }
    }

    /// The array, of which nothing is known yet.
    pub fn array(&self) -> &DeviceArray {
        &self.array
    }

    /// Waits, and reports what is wrong with the first damaged chunk.
    pub fn finish(self) -> Result<DeviceArray> {
        let (words, fault) = self.report.read()?;
        let valid = self.valid.map_or(&[][..], |valid| valid.of(&words));
        let stated = self.nulls.iter().zip(&self.rows).zip(valid).enumerate();
        let miscounted = stated
            .map(|(chunk, ((nulls, rows), valid))| (chunk, *nulls, rows - *valid as usize))
            .find(|(_, nulls, found)| nulls != found)
            .map(|(chunk, nulls, found)| {
                let what = format!("{found} nulls among the values, the header states {nulls}");
                Damage { chunk, error: Error::corrupt(what) }
            });
        match fault.into_iter().chain(miscounted).min_by_key(|damage| damage.chunk) {
            Some(Damage { chunk, error }) => Err(error.in_chunk(self.first_chunk + chunk)),
            None => Ok(self.array),
        }
    }
}

impl Program<'_> {
    /// Bits to a new bitmap of `rows` bits, and the words that count those set
    /// for each job.
    fn bits_of(&mut self, jobs: &[Job], rows: usize) -> Result<(Arc<DeviceBuffer>, Words)> {
        let len = rows.div_ceil(32) * 4;
        let out = self.allocate(len)?;
        self.stream.fill(&out, 0, len, 0)?;
        let counts = self.words(jobs.len());
        let longest = jobs.iter().map(|job| job.node.rows).max().unwrap_or(0) as usize;
        let out_at = out.pointer();
        let arguments = move |at: &Launched| BitsArguments {
            nodes: at.nodes,
            out: out_at,
            counts: at.words(counts),
            blocks_per_node: at.blocks_per_node,
            zero: 0,
        };
        self.step(kernels::BITS, jobs, &[], longest, arguments, &[&out]);
        Ok((out, counts))
    }
}

/// Bitmaps of so many rows each, one behind the other.
pub(crate) fn concatenated(
    stream: &Arc<dyn Stream>,
    bitmaps: &[(Arc<DeviceBuffer>, usize)],
) -> Result<Arc<DeviceBuffer>> {
    let mut program = Program::new(stream);
    program.keep(bitmaps.iter().map(|(bitmap, _)| bitmap));
    let mut at = 0;
    let job = |(chunk, (bitmap, rows)): (usize, &(Arc<DeviceBuffer>, usize))| {
        let node = Node {
            buffer: Node::only(bitmap.pointer()),
            at: at as u64,
            rows: *rows as u32,
            encoding: Encoding::Plain as u16,
            ..Node::default()
        };
        at += rows;
        Job { chunk, node }
    };
    let jobs: Vec<Job> = bitmaps.iter().enumerate().map(job).collect();
    let (out, _) = program.bits_of(&jobs, at)?;
    program.start(&[], &mut ())?.read()?;
    Ok(out)
}

/// The roots of all chunks, at their rows.
pub(crate) fn roots(chunks: &[DeviceChunk]) -> Vec<Target<'_>> {
    (chunks.iter().enumerate())
        .map(|(index, chunk)| Target {
            view: chunk.root(),
            chunk: index,
            body: chunk.body,
            at: chunk.start,
        })
        .collect()
}

/// An error for columns of which a chunk, or every chunk there could be, is
/// nested or carried as Arrow IPC.
pub(crate) fn check_decodable(column: &DeviceColumn) -> Result<()> {
    let data_type = column.field().data_type();
    let carried = physical_of(data_type) == Physical::Arrow || column.is_carried();
    if carried {
        let nested = |chunk: &DeviceChunk| chunk.root().encoding().is_nested();
        let how = match column.chunks().iter().any(nested) {
            true => "nested",
            false => "carried as Arrow IPC",
        };
        return Err(Error::unsupported(format!(
            "values of {data_type} are {how}, which only the CPU reads"
        )));
    }
    let only_on_cpu = |chunk: &DeviceChunk| decoders::only_on_cpu(chunk.root());
    if let Some(encoding) = column.chunks().iter().find_map(only_on_cpu) {
        return Err(Error::unsupported(format!(
            "values are encoded as {encoding}, which only the CPU reads"
        )));
    }
    Ok(())
}

/// The validity of all chunks, at their rows: constants and bitmaps.
fn validity(program: &mut Program<'_>, chunks: &[DeviceChunk]) -> Result<Vec<Job>> {
    let roots = roots(chunks);
    let stated: Vec<Target<'_>> = (roots.iter())
        .filter_map(|root| Some(Target { view: root.view.validity()?, ..*root }))
        .collect();
    let mut stated = program.readable_bits(&stated)?.into_iter();
    let job = |root: &Target<'_>| match root.view.validity() {
        Some(_) => stated.next(),
        None => Some(Job { chunk: root.chunk, node: all_valid(root) }),
    };
    Ok(roots.iter().filter_map(job).collect())
}

/// The validity of a chunk without nulls, which has no bitmap: all its rows are valid.
fn all_valid(root: &Target<'_>) -> Node {
    Node {
        parameter: 1,
        at: root.at as u64,
        rows: root.view.len() as u32,
        encoding: Encoding::Constant as u16,
        ..Node::default()
    }
}

/// Whether a device decodes the column: not if chunks are nested, carried as Arrow IPC or have
/// encodings that only the CPU reads, nor if one has more bytes than views have offsets for.
pub(crate) fn decodes_on_device(column: &CompressedColumn) -> bool {
    !column.is_empty()
        && column.chunks().iter().all(|chunk| match chunk.root().physical() {
            Physical::Arrow => false,
            _ if decoders::only_on_cpu(chunk.root()).is_some() => false,
            Physical::Bytes => views_hold(column.data_type(), encoding::value_bytes(chunk.root())),
            _ => true,
        })
}
