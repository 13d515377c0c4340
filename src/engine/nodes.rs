//! The nodes of a column in device memory, where scans look again and again: made, with what
//! code for a column has to know of it, when a column is scanned for the first time, and kept.
//!
//! ```text
//! lists      words up to 64 bits: the roots        booleans: the roots
//!            wider ones: for each limb the node that holds it in each chunk
//!            strings: the roots, and the lengths as they are stored, of dict the codes
//! validity   of each chunk the bits of valid rows, or a constant
//! ```
//!
//! What kernels of scans do not read as it is stored is decoded for them and kept as well:
//! values of delta, rle and gcd, dictionaries, strings of front coding, bits that are stored as
//! bytes, and lengths, limbs and codes that are cascades (cascade.rs).
//! Codes of dictionaries are looked at once, so that kernels need not ask whether they have
//! values.

use std::sync::Arc;

use super::column::DeviceColumn;
use super::decode::{check_decodable, roots, validity};
use super::program::{Arguments, Job, Program, Target, most_rows};
use super::strings::Dictionaries;
use super::{cascade, strings};
use crate::column::physical_of;
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi::{self, Node};
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, Event, Launch, Stream};

/// The encodings of words that kernels of scans read.
const SCANNED: [Encoding; 7] = [
    Encoding::Plain,
    Encoding::Constant,
    Encoding::Ffor,
    Encoding::Alp,
    Encoding::Pfor,
    Encoding::AlpRd,
    Encoding::Dict,
];

/// The lists of nodes of a column.
#[derive(Debug)]
pub(crate) struct ColumnNodes {
    buffer: Arc<DeviceBuffer>,
    /// What was decoded for kernels.
    decoded: Vec<Arc<DeviceBuffer>>,
    of_validity: Arc<ValidityNodes>,
    ready: Arc<dyn Event>,
    pub lists: Vec<NodeList>,
    /// Address of the nodes of the validity.
    pub validity: u64,
    pub has_nulls: bool,
    /// Vectors of the longest chunk, and rows of all.
    pub longest: usize,
    pub chunks: usize,
    /// The same nodes, for launches over some chunks only.
    pub host: HostNodes,
}

/// For each chunk the node of its validity, a constant or a bitmap: with nothing else of the
/// column, for those who ask for nulls.
#[derive(Debug)]
pub(crate) struct ValidityNodes {
    pub jobs: Vec<Job>,
    /// Bitmaps that were stored as bytes.
    decoded: Vec<Arc<DeviceBuffer>>,
}

impl ValidityNodes {
    /// Waits for the device if there is something to decode.
    fn new(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        let mut program = Program::new(stream);
        let jobs = validity(&mut program, column.chunks())?;
        let decoded =
            decoded(program, column, |buffer| jobs.iter().any(|job| uses(&job.node, buffer)))?;
        Ok(Self { jobs, decoded })
    }

    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.jobs.iter().map(|job| job.node)
    }

    /// What launches that use the nodes have to name beside the column's bodies.
    pub fn buffers(&self) -> impl Iterator<Item = &DeviceBuffer> {
        self.decoded.iter().map(AsRef::as_ref)
    }
}

/// Whether a node has something in a buffer.
fn uses(node: &Node, buffer: &DeviceBuffer) -> bool {
    let range = buffer.address()..buffer.address() + buffer.len() as u64;
    node.buffer.iter().any(|address| range.contains(address))
}

/// Decodes what a program has steps for, and waits; the scratch that is used from then on.
fn decoded(
    program: Program<'_>,
    column: &DeviceColumn,
    is_used: impl Fn(&DeviceBuffer) -> bool,
) -> Result<Vec<Arc<DeviceBuffer>>> {
    // What other scratch was made of is not read again.
    let mut decoded = program.scratch_buffers();
    decoded.retain(|buffer| is_used(buffer));
    if !program.is_empty() {
        let (_, fault) = program.start(column.bodies(), &mut ())?.read()?;
        fault.map_or(Ok(()), |damage| Err(damage.error.in_chunk(damage.chunk)))?;
    }
    Ok(decoded)
}

/// For each chunk its nodes.
#[derive(Debug, Default)]
pub(crate) struct HostNodes {
    pub roots: Vec<Job>,
    /// Of values of more than 64 bits the limbs, and nodes without rows for those that are not
    /// there: these are the sign of the ones below, or stand beside each other in a plain root.
    pub limbs: Vec<[Node; 4]>,
    /// Of strings the lengths as they are stored, of dict the codes; of constants the root.
    pub stored_lengths: Vec<Node>,
    /// Of strings the lengths of values.
    pub value_lengths: Vec<Node>,
    /// Of chunks of dict the dictionary.
    pub dictionaries: Vec<DictionaryNodes>,
}

/// The dictionary of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DictionaryNodes {
    /// Its values, as a column of their own; each is a bit of a bitmap at their place.
    pub values: Job,
    /// Of strings the lengths as they are stored.
    pub stored_lengths: Node,
    /// The codes of the rows.
    pub codes: Node,
}

impl DictionaryNodes {
    /// Where bits for the next dictionary begin: with a word.
    fn end(&self) -> usize {
        (self.values.node.at as usize + self.values.node.rows as usize).next_multiple_of(32)
    }
}

/// A node for each chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeList {
    pub address: u64,
    /// Which encodings there are, as bits by their ids.
    pub encodings: u32,
    /// Widths of packed vectors, bit w - 1 for width w.
    pub widths: u64,
    /// Bytes of a value.
    size: u32,
}

impl NodeList {
    /// Bits that a value takes at most, roughly.
    pub fn bits(&self) -> u32 {
        let stored = [Encoding::Plain as u32, abi::STRIDED].map(abi::encoding_bit);
        match stored.iter().any(|bit| self.encodings & bit != 0) {
            true => 8 * self.size,
            false => 64 - self.widths.leading_zeros(),
        }
    }
}

impl ColumnNodes {
    /// What launches that use the nodes have to name.
    pub fn buffers(&self) -> impl Iterator<Item = &DeviceBuffer> {
        let own = std::iter::once(&self.buffer).chain(&self.decoded).map(AsRef::as_ref);
        own.chain(self.of_validity.buffers())
    }

    /// Waits until the nodes, and what they point to, are there.
    pub fn synchronize(&self) -> Result<()> {
        self.ready.synchronize()
    }

    /// Uploads the nodes of a column; waits for the device.
    fn new(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        check_decodable(column)?;
        stream.wait(column.ready())?;
        let targets = roots(column.chunks());
        let mut program = Program::new(stream);
        let physical = physical_of(column.field().data_type());
        let host = HostNodes::new(&mut program, physical, &targets)?;
        let decoded = decoded(program, column, |buffer| host.use_buffer(buffer))?;
        let of_validity = column.scan_validity(stream)?;
        let mut parts: Vec<Vec<Node>> = vec![of_validity.nodes().collect()];
        let size = match physical {
            // Of a length; of strings themselves nothing is said.
            Physical::Bytes => 4,
            Physical::Bool => 1,
            _ => physical.bits().unwrap_or(0).min(64) as u32 / 8,
        };
        let of_roots: Vec<Node> = host.roots.iter().map(|job| job.node).collect();
        match physical {
            Physical::Bytes => parts.extend([of_roots, host.stored_lengths.clone()]),
            Physical::I128 | Physical::I256 => parts.extend(limbs(&targets, &host.limbs)),
            _ => parts.push(of_roots),
        }
        let nodes: Vec<Node> = parts.concat();
        let widths_at = size_of_val(nodes.as_slice());
        let buffer = Arc::new(stream.allocate(widths_at + 8 * parts.len())?);
        stream.upload(bytemuck::cast_slice(&nodes), &buffer, 0)?;
        stream.fill(&buffer, widths_at, 8 * parts.len(), 0)?;
        let address =
            |part: usize| buffer.address() + (part * targets.len() * size_of::<Node>()) as u64;
        let mut lists: Vec<NodeList> = (parts.iter().enumerate().skip(1))
            .map(|(part, nodes)| {
                let bit = |node: &Node| abi::encoding_bit(node.encoding);
                let encodings = nodes.iter().map(bit).fold(0, |all, bit| all | bit);
                NodeList { address: address(part), encodings, widths: 0, size }
            })
            .collect();
        if physical != Physical::Bool {
            for (index, list) in lists.iter_mut().enumerate() {
                list.widths = widths(stream, column, &buffer, list, widths_at + 8 * index)?;
            }
        }
        let longest = targets.iter().map(|target| target.view.len()).max().unwrap_or(0);
        Ok(Self {
            ready: stream.record()?,
            decoded,
            of_validity,
            lists,
            validity: address(0),
            has_nulls: column.null_count() > 0,
            longest: longest.div_ceil(crate::lanes::VECTOR),
            chunks: targets.len(),
            buffer,
            host,
        })
    }
}

impl HostNodes {
    /// The nodes of chunks, and the steps that decode what kernels do not read.
    fn new(program: &mut Program<'_>, physical: Physical, targets: &[Target<'_>]) -> Result<Self> {
        match physical {
            Physical::Bytes => Self::of_strings(program, targets),
            Physical::I128 | Physical::I256 => Ok(Self {
                roots: targets.iter().map(Job::from).collect(),
                limbs: limbs_of(program, targets)?,
                ..Self::default()
            }),
            Physical::Bool => {
                Ok(Self { roots: program.readable_bits(targets)?, ..Self::default() })
            }
            _ => {
                let roots = program.readable(targets, &SCANNED)?;
                check_codes(program, &roots);
                let dictionaries = dictionaries_of(&roots);
                Ok(Self { roots, dictionaries, ..Self::default() })
            }
        }
    }

    /// Whether a node has something in a buffer.
    fn use_buffer(&self, buffer: &DeviceBuffer) -> bool {
        let is_there = |node: &Node| uses(node, buffer);
        let of_dictionaries = self.dictionaries.iter().flat_map(|dictionary| {
            [dictionary.values.node, dictionary.stored_lengths, dictionary.codes]
        });
        let lists = self.limbs.as_flattened().iter().chain(&self.stored_lengths);
        let mut nodes = lists.chain(&self.value_lengths).copied();
        nodes.any(|node| is_there(&node))
            || self.roots.iter().any(|job| is_there(&job.node))
            || of_dictionaries.into_iter().any(|node| is_there(&node))
    }

    fn of_strings(program: &mut Program<'_>, targets: &[Target<'_>]) -> Result<Self> {
        let is_dict = |target: &&Target<'_>| target.view.encoding() == Encoding::Dict;
        let mut roots: Vec<Job> = targets.iter().map(Job::from).collect();
        let stored = strings::stored_lengths(program, targets)?;
        let own = strings::own_lengths(program, targets)?;
        let mut value_lengths: Vec<Node> = own.iter().map(|job| job.node).collect();
        let mut stored_lengths: Vec<Node> = stored.iter().map(|job| job.node).collect();
        for (place, target) in targets.iter().enumerate() {
            if matches!(target.view.encoding(), Encoding::Front | Encoding::Lz) {
                let [strings, lengths] = strings::put_together(program, target)?;
                roots[place] = strings;
                stored_lengths[place] = lengths.node;
                value_lengths[place] = lengths.node;
            }
        }
        let dict: Vec<Target<'_>> = targets.iter().filter(is_dict).copied().collect();
        let mut dictionaries = Vec::new();
        if let Some(found) = Dictionaries::of(program, &dict)? {
            let codes: Vec<Target<'_>> = dict.iter().map(|target| target.child(0)).collect();
            let codes = program.readable(&codes, &cascade::CODES)?;
            let lengths = found.lengths();
            let looked_up: Vec<Job> = (codes.iter().zip(&lengths))
                .map(|(codes, lengths)| cascade::with_dictionary(codes, lengths))
                .collect();
            check_codes(program, &looked_up);
            let values: Vec<Target<'_>> = dict.iter().map(|target| target.child(1)).collect();
            let of_values = strings::stored_lengths(program, &values)?;
            for (index, (target, of_values)) in values.iter().zip(&of_values).enumerate() {
                let chunk = dict[index].chunk;
                let place = targets.partition_point(|target| target.chunk < chunk);
                let [values, offsets] = found.address(index);
                roots[place].node.buffer[0] = values;
                roots[place].node.buffer[2] = offsets;
                stored_lengths[place] = codes[index].node;
                value_lengths[place] = looked_up[index].node;
                let at = dictionaries.last().map_or(0, DictionaryNodes::end);
                let values = Target { at, ..*target };
                let [values, of_values] = match target.view.encoding() {
                    Encoding::Front => strings::put_together(program, &values)?,
                    _ => [Job::from(&values), *of_values],
                };
                dictionaries.push(DictionaryNodes {
                    values,
                    stored_lengths: of_values.node,
                    codes: codes[index].node,
                });
            }
        }
        Ok(Self { roots, stored_lengths, value_lengths, dictionaries, ..Self::default() })
    }
}

/// The dictionaries of words among nodes.
fn dictionaries_of(roots: &[Job]) -> Vec<DictionaryNodes> {
    let mut all: Vec<DictionaryNodes> = Vec::new();
    let is_dict = |job: &&Job| job.node.encoding == Encoding::Dict as u32;
    for Job { chunk, node } in roots.iter().filter(is_dict) {
        let values = Node {
            buffer: [node.buffer[3], 0, 0, 0],
            at: all.last().map_or(0, DictionaryNodes::end) as u64,
            rows: node.size as u32,
            encoding: Encoding::Plain as u32,
            ..Node::default()
        };
        let [packed, vectors, exceptions, _] = node.buffer;
        let codes = Node {
            buffer: [packed, vectors, exceptions, 0],
            encoding: (node.size >> 32) as u32,
            size: 0,
            ..*node
        };
        let values = Job { chunk: *chunk, node: values };
        all.push(DictionaryNodes { values, stored_lengths: Node::default(), codes });
    }
    all
}

/// Adds the step that looks whether all codes of nodes of dict have a value.
fn check_codes(program: &mut Program<'_>, jobs: &[Job]) {
    let is_dict = |job: &&Job| job.node.encoding == Encoding::Dict as u32;
    let jobs: Vec<Job> = jobs.iter().filter(is_dict).copied().collect();
    let arguments = Arguments::Dict { out: 0 };
    program.step(kernels::DICT_CHECK, &jobs, &[], most_rows(&jobs), arguments, &[]);
}

/// The limbs of roots of wide values, four for each.
fn limbs_of(program: &mut Program<'_>, targets: &[Target<'_>]) -> Result<Vec<[Node; 4]>> {
    let mut limbs = vec![[Node::default(); 4]; targets.len()];
    for limb in 0..4 {
        let has = |target: &&Target<'_>| {
            target.view.encoding() == Encoding::Limbs && limb < target.view.child_count()
        };
        let children: Vec<Target<'_>> =
            targets.iter().filter(has).map(|target| target.child(limb)).collect();
        let nodes = program.readable(&children, &cascade::SIMPLE)?;
        let places = targets.iter().zip(&mut limbs).filter(|(target, _)| has(target));
        places.zip(nodes).for_each(|((_, limbs), job)| limbs[limb] = job.node);
    }
    Ok(limbs)
}

/// The widths of the packed vectors of a list, found at `at` of its buffer; waits for them.
fn widths(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    buffer: &Arc<DeviceBuffer>,
    list: &NodeList,
    at: usize,
) -> Result<u64> {
    let packed = [Encoding::Ffor, Encoding::Pfor, Encoding::Alp, Encoding::Dict]
        .map(|of| abi::encoding_bit(of as u32));
    if packed.iter().all(|bit| list.encodings & bit == 0) {
        return Ok(0);
    }
    let kernel = kernels::PACKED_WIDTHS;
    let arguments = abi::WidthsArguments {
        nodes: list.address,
        out: buffer.address() + at as u64,
        count: column.chunks().len() as u32,
        size: list.size,
    };
    let mut buffers: Vec<&DeviceBuffer> = vec![buffer];
    buffers.extend(column.bodies().iter().map(AsRef::as_ref));
    stream.launch(&Launch {
        module: None,
        kernel: kernel.name,
        blocks: column.chunks().len().div_ceil(kernel.block),
        threads: kernel.threads,
        shared: kernel.shared,
        arguments: bytemuck::bytes_of(&arguments),
        buffers: &buffers,
    })?;
    let mut word = [0; 8];
    stream.download(buffer, at, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// For each limb that some chunk has, the node that holds it in every chunk.
fn limbs(targets: &[Target<'_>], limbs: &[[Node; 4]]) -> Vec<Vec<Node>> {
    let words = |target: &Target<'_>| target.view.physical().bits().unwrap_or(64) / 64;
    let count = |target: &Target<'_>| match target.view.encoding() {
        Encoding::Limbs => target.view.child_count(),
        _ => words(target),
    };
    let limb =
        |(target, limbs): (&Target<'_>, &[Node; 4]), limb: usize| match target.view.encoding() {
            Encoding::Limbs if limb < target.view.child_count() => limbs[limb],
            Encoding::Limbs => Node { encoding: abi::SIGN, buffer: [0; 4], ..target.node() },
            _ => {
                let mut node = target.node();
                node.buffer[0] += limb as u64 * 8;
                Node { encoding: abi::STRIDED, size: words(target) as u64, ..node }
            }
        };
    let most = targets.iter().map(count).max().unwrap_or(0);
    let list = |index| targets.iter().zip(limbs).map(|chunk| limb(chunk, index)).collect();
    (0..most).map(list).collect()
}

impl DeviceColumn {
    /// The nodes of the column, usable on a stream.
    pub(crate) fn scan_nodes(&self, stream: &Arc<dyn Stream>) -> Result<Arc<ColumnNodes>> {
        let nodes = self.keep_nodes(|| ColumnNodes::new(stream, self))?;
        stream.wait(nodes.ready.as_ref())?;
        Ok(nodes)
    }

    /// The nodes of the column's validity, usable on a stream.
    pub(crate) fn scan_validity(&self, stream: &Arc<dyn Stream>) -> Result<Arc<ValidityNodes>> {
        stream.wait(self.ready())?;
        self.keep_validity(|| ValidityNodes::new(stream, self))
    }
}
