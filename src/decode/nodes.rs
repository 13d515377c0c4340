//! The nodes of a column in device memory, made when a column is scanned for the first time.
//!
//! ```text
//! ColumnNodes    for kernels that are compiled for a query: the trees of all chunks as they are
//!                stored (trees.rs), with their types and the widths of their packed vectors
//!   lists        words up to 64 bits, booleans: one
//!                wide ones: for each word the tree that holds it in each chunk
//!                strings: the roots, and the lengths as they are stored, of dict the codes
//!   validity     of columns with nulls one, whose values are bits
//! KernelNodes    for kernels that are compiled ahead: the roots, words of wide values, stored lengths
//!                and codes; what these kernels do not read is decoded (cascade.rs)
//! ValidityNodes  the same of the validity: of each chunk the bits of valid rows, or a constant
//! StringDictionaries  dictionaries, which tests ask before they look at codes, as columns of their own
//! ValueNodes     of strings what it takes to make values of them: lengths of values, dictionaries
//!                as bytes; made for each call of `gather` if something has to be decoded
//! ```
//!
//! Decoded for all: dictionaries of words, and values of front coding and lz. Codes of dictionaries
//! are checked once, so that kernels need not ask whether they have values.

mod strings;

use std::ops::Range;
use std::sync::Arc;

pub(super) use strings::rows_have_codes;
pub(crate) use strings::{StringDictionaries, ValueNodes};

use super::cascade;
use super::decoders::{self, WideWord, check_codes};
use super::program::{Job, Program, Target};
use super::strings::LENGTHS;
use super::trees::{self, Reader, TreeList, Trees};
use crate::chunk::{DeviceReader, NodeView, StringForm};
use crate::column::physical_of;
use crate::decode::{all_valid, check_decodable, roots, validity};
use crate::device::column::{DeviceChunk, DeviceColumn};
use crate::encoding::{self, Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi::{self, Node};
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr, Event, Launch, Stream};

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

/// What kernels that are compiled for a column read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadBy {
    /// Which rows are valid.
    Validity,
    /// Values, vector by vector.
    Vector,
    /// The same, and rows one by one: short runs have an index for it.
    Row,
}

/// The trees of a column, for kernels that are compiled for them: as they are stored.
#[derive(Debug)]
pub(crate) struct ColumnNodes {
    buffer: Arc<DeviceBuffer>,
    /// What was decoded for kernels: dictionaries, and encodings without a reader.
    decoded: Vec<Arc<DeviceBuffer>>,
    pub(super) ready: Arc<dyn Event>,
    pub lists: Vec<TreeList>,
    /// Dictionaries of words that tests ask first.
    pub dictionaries: WordDictionaries,
    /// Which rows are valid; none of a column without nulls.
    pub validity: Option<TreeList>,
    /// Nodes that say where each chunk's rows begin and how many they are.
    pub rows: DevicePtr<Node>,
    /// Vectors of the longest chunk, and number of chunks.
    pub longest: usize,
    pub chunks: usize,
}

/// Dictionaries of words in device memory.
#[derive(Debug, Default)]
pub(crate) struct WordDictionaries {
    /// Their values as plain nodes; each value is a bit of a bitmap at their place, `parameter` is the
    /// number of the chunk.
    pub values: DevicePtr<Node>,
    pub count: usize,
    /// Values of the longest.
    pub longest: usize,
    /// Bits of all values.
    pub bits: usize,
}

/// The nodes of a column for kernels that are there, which read few trees: rows of others are
/// decoded when this is made, and stay as long as the column.
#[derive(Debug)]
pub(crate) struct KernelNodes {
    pub host: HostNodes,
    decoded: Vec<Arc<DeviceBuffer>>,
}

impl KernelNodes {
    /// Waits for the device.
    pub(super) fn new(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        check_decodable(column)?;
        stream.wait(column.ready())?;
        let mut program = Program::new(stream);
        let physical = physical_of(column.field().data_type());
        let host = HostNodes::new(&mut program, physical, &roots(column.chunks()))?;
        let decoded = decoded(program, column, |buffer| host.use_buffer(buffer))?;
        Ok(Self { host, decoded })
    }

    /// What launches that use the nodes have to name beside the column's bodies.
    pub fn buffers(&self) -> &[Arc<DeviceBuffer>] {
        &self.decoded
    }
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
    pub(super) fn new(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
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
    pub fn buffers(&self) -> &[Arc<DeviceBuffer>] {
        &self.decoded
    }
}

/// Whether a node has something in a buffer.
fn uses(node: &Node, buffer: &DeviceBuffer) -> bool {
    node.buffer.iter().any(|pointer| buffer.contains(*pointer))
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
    /// Of wide values their words of 64 bits, and nodes without rows for those that have none:
    /// these are the sign of the ones below, or stored beside each other in a plain root.
    pub wide: Vec<[Node; 4]>,
    /// Of strings the lengths as they are stored, of dict the codes; of constants the root.
    pub stored_lengths: Vec<Node>,
    /// Of chunks of words that are dict the dictionary.
    pub dictionaries: Vec<ChunkDictionary>,
}

/// The dictionary of a chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChunkDictionary {
    /// Its values, as a column of their own; each is a bit of a bitmap at their place.
    pub values: Job,
    /// Of strings the lengths as they are stored.
    pub stored_lengths: Node,
    /// Of words the codes of the rows, for kernels that are there.
    pub codes: Node,
}

impl ChunkDictionary {
    /// Where bits for the next dictionary begin: with a word.
    fn end(&self) -> usize {
        (self.values.node.at as usize + self.values.node.rows as usize).next_multiple_of(32)
    }
}

impl ColumnNodes {
    /// What launches that use the nodes have to name.
    pub fn buffers(&self) -> impl Iterator<Item = &DeviceBuffer> {
        std::iter::once(&self.buffer).chain(&self.decoded).map(AsRef::as_ref)
    }

    /// Whether data may turn out to be damaged when they are read.
    pub fn can_fail(&self) -> bool {
        self.lists.iter().chain(&self.validity).any(TreeList::can_fail)
    }

    /// Uploads the nodes of some chunks of a column, for kernels that read it so; waits for the device.
    pub fn new(
        stream: &Arc<dyn Stream>,
        column: &DeviceColumn,
        chunks: Range<usize>,
        read: ReadBy,
    ) -> Result<Self> {
        check_decodable(column)?;
        stream.wait(column.ready())?;
        let mut targets = roots(column.chunks());
        targets.truncate(chunks.end);
        targets.drain(..chunks.start);
        let physical = physical_of(column.field().data_type());
        let mut program = Program::new(stream);
        let trees = match physical {
            _ if read == ReadBy::Validity => Vec::new(),
            Physical::Bytes => strings::trees(&mut program, &targets)?,
            Physical::I128 | Physical::I256 => wide_trees(&mut program, &targets)?,
            _ => vec![Trees::new(&mut program, &targets, read == ReadBy::Row)?],
        };
        let mut dictionaries = WordDictionaries::default();
        // Of wide values of one word, which are tested as words, those of the word.
        let values = trees.first().into_iter().flat_map(Trees::dictionaries).map(|job| {
            let at = dictionaries.bits.next_multiple_of(32);
            let rows = job.node.rows as usize;
            dictionaries.bits = at + rows;
            dictionaries.longest = dictionaries.longest.max(rows);
            dictionaries.count += 1;
            Node { at: at as u64, parameter: (job.chunk - chunks.start) as u64, ..job.node }
        });
        let values: Vec<Node> = values.collect();
        let lists = trees.len();
        let has_nulls = column.null_count() > 0;
        let of_validity = has_nulls.then(|| validity_trees(&mut program, &targets)).transpose()?;
        let trees: Vec<Trees<'_>> = trees.into_iter().chain(of_validity).collect();
        let flat: Vec<Vec<Node>> = trees.iter().map(Trees::flat).collect();
        let decoded = decoded(program, column, |buffer| {
            flat.iter().flatten().any(|node| uses(node, buffer))
        })?;
        let mut nodes: Vec<Node> = targets.iter().map(all_valid).collect();
        let places: Vec<usize> = (flat.iter())
            .map(|flat| {
                let at = size_of_val(nodes.as_slice());
                nodes.extend(flat);
                at
            })
            .collect();
        let values_at = size_of_val(nodes.as_slice());
        nodes.extend(values);
        let buffer = Arc::new(stream.allocate(size_of_val(nodes.as_slice()))?);
        stream.upload(bytemuck::cast_slice(&nodes), &buffer, 0)?;
        dictionaries.values = buffer.pointer_at(values_at);
        let list = |(trees, at): (Trees<'_>, &usize)| TreeList {
            start: buffer.pointer_at(*at),
            stride: trees.stride(),
            readers: trees.readers,
        };
        let mut lists_and_validity: Vec<TreeList> =
            trees.into_iter().zip(&places).map(list).collect();
        find_widths(stream, column, targets.len(), &buffer, &decoded, &mut lists_and_validity)?;
        let validity = lists_and_validity.split_off(lists).pop();
        let lists = lists_and_validity;
        let longest = targets.iter().map(|target| target.view.len()).max().unwrap_or(0);
        Ok(Self {
            ready: stream.record()?,
            decoded,
            lists,
            dictionaries,
            validity,
            rows: buffer.pointer(),
            longest: longest.div_ceil(crate::lanes::VECTOR),
            chunks: targets.len(),
            buffer,
        })
    }
}

/// The trees of the validity of chunks, of which those without nulls are constant.
fn validity_trees<'a>(program: &mut Program<'_>, targets: &[Target<'a>]) -> Result<Trees<'a>> {
    let mut trees = Trees::default();
    for target in targets {
        match target.view.validity() {
            Some(view) => trees.push_target(&Target { view, ..*target }),
            None => {
                trees.push(Reader::words(1, Encoding::Constant as u16), vec![all_valid(target)])
            }
        }
    }
    trees.decode(program)?;
    Ok(trees)
}

impl HostNodes {
    /// The nodes of chunks, and the steps that decode what kernels do not read.
    fn new(program: &mut Program<'_>, physical: Physical, targets: &[Target<'_>]) -> Result<Self> {
        match physical {
            Physical::Bytes => Self::of_strings(program, targets),
            Physical::I128 | Physical::I256 => Ok(Self {
                roots: targets.iter().map(Job::from).collect(),
                wide: wide_of(program, targets)?,
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
        let of_dictionaries =
            |of: &ChunkDictionary| uses(&of.values.node, buffer) || uses(&of.codes, buffer);
        self.wide.as_flattened().iter().chain(&self.stored_lengths).any(is_there)
            || self.roots.iter().any(|job| is_there(&job.node))
            || self.dictionaries.iter().any(of_dictionaries)
    }
}

/// The dictionaries of words among nodes.
fn dictionaries_of(roots: &[Job]) -> Vec<ChunkDictionary> {
    let mut all: Vec<ChunkDictionary> = Vec::new();
    let is_dict = |job: &&Job| job.node.encoding == Encoding::Dict as u16;
    for Job { chunk, node } in roots.iter().filter(is_dict) {
        let values = Node {
            buffer: Node::only(node.buffer[3]),
            at: all.last().map_or(0, ChunkDictionary::end) as u64,
            rows: node.size as u32,
            encoding: Encoding::Plain as u16,
            ..Node::default()
        };
        let [packed, vectors, exceptions, _] = node.buffer;
        let codes = Node {
            buffer: [packed, vectors, exceptions, DevicePtr::NULL],
            encoding: (node.size >> 32) as u16,
            size: 0,
            ..*node
        };
        let values = Job { chunk: *chunk, node: values };
        all.push(ChunkDictionary { values, stored_lengths: Node::default(), codes });
    }
    all
}

/// The words of roots of wide values that have nodes of their own, four for each.
fn wide_of<'a>(program: &mut Program<'_>, targets: &[Target<'a>]) -> Result<Vec<[Node; 4]>> {
    let mut wide = vec![[Node::default(); 4]; targets.len()];
    for word in 0..4 {
        let child = |target: &Target<'a>| match decoders::wide_word(target, word) {
            WideWord::Node(child) => Some(child),
            WideWord::Beside | WideWord::Sign => None,
        };
        let children: Vec<Option<Target<'a>>> = targets.iter().map(child).collect();
        let stored: Vec<Target<'_>> = children.iter().flatten().copied().collect();
        let nodes = program.readable(&stored, &cascade::SIMPLE)?;
        let places = children.iter().zip(&mut wide).filter(|(child, _)| child.is_some());
        places.zip(nodes).for_each(|((_, words), job)| words[word] = job.node);
    }
    Ok(wide)
}

/// Finds the widths of the packed vectors of all leaves; waits for them.
fn find_widths(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    chunks: usize,
    buffer: &DeviceBuffer,
    decoded: &[Arc<DeviceBuffer>],
    lists: &mut [TreeList],
) -> Result<()> {
    let packed = [Encoding::Ffor, Encoding::Pfor, Encoding::Alp]
        .map(|of| abi::encoding_bit(of as u16))
        .into_iter()
        .fold(0, |all, bit| all | bit);
    let mut leaves = 0;
    lists.iter_mut().for_each(|list| list.each_leaf(|_, _, _, _, _| leaves += 1));
    let found = stream.allocate(8 * leaves)?;
    stream.fill(&found, 0, 8 * leaves, 0)?;
    let mut launches = Vec::new();
    let mut number = 0;
    for list in &mut *lists {
        let (nodes, stride) = (list.start, list.stride);
        list.each_leaf(|shape, node, bits, encodings, _| {
            if encodings & packed != 0 {
                launches.push(abi::WidthsArguments {
                    nodes,
                    out: found.pointer::<u64>().add(number),
                    count: chunks as u32,
                    size: (bits / 8) as u32,
                    stride: stride as u32,
                    node: node as u32,
                    shape: shape as u32,
                    zero: 0,
                });
            }
            number += 1;
        });
    }
    let kernel = kernels::PACKED_WIDTHS;
    let mut buffers: Vec<&DeviceBuffer> = vec![buffer, &found];
    buffers.extend(column.bodies().iter().chain(decoded).map(AsRef::as_ref));
    for arguments in &launches {
        stream.launch(&Launch::new(kernel, chunks.div_ceil(kernel.block), arguments, &buffers))?;
    }
    if !launches.is_empty() {
        let mut words = vec![0_u64; leaves];
        stream.download(&found, 0, bytemuck::cast_slice_mut(&mut words))?;
        let mut words = words.into_iter();
        for list in lists {
            list.each_leaf(|_, _, _, _, widths| *widths = words.next().unwrap_or(0));
        }
    }
    Ok(())
}

/// For each word of wide values that some chunk has, the tree that holds it in every chunk.
fn wide_trees<'a>(program: &mut Program<'_>, targets: &[Target<'a>]) -> Result<Vec<Trees<'a>>> {
    let words = |target: &Target<'_>| target.view.physical().bits().unwrap_or(64) / 64;
    let is_stored = |target: &Target<'_>, word: usize| {
        !matches!(decoders::wide_word(target, word), WideWord::Sign)
    };
    let count = |target: &Target<'_>| {
        (0..words(target)).take_while(|word| is_stored(target, *word)).count()
    };
    let most = targets.iter().map(count).max().unwrap_or(0);
    let list = |word: usize| {
        let mut trees = Trees::default();
        for target in targets {
            match decoders::wide_word(target, word) {
                WideWord::Node(child) => trees.push_target(&child),
                WideWord::Sign => {
                    let node =
                        Node { encoding: abi::SIGN, buffer: [DevicePtr::NULL; 4], ..target.node() };
                    trees.push(Reader::words(64, abi::SIGN), vec![node]);
                }
                WideWord::Beside => {
                    let mut node = target.node();
                    node.buffer[0] = node.buffer[0].add(word * 8);
                    let node = Node { encoding: abi::STRIDED, size: words(target) as u64, ..node };
                    trees.push(Reader::words(64, abi::STRIDED), vec![node]);
                }
            }
        }
        trees.decode(program)?;
        Ok(trees)
    };
    (0..most).map(list).collect()
}

/// What kernels read of a column as it is stored.
#[derive(Debug)]
pub(crate) struct Reads {
    /// Whether kernels that are there read all values.
    pub has_kernels: bool,
    /// Whether they read the validity.
    pub has_validity_kernels: bool,
    /// Of each chunk the bytes of values that no kernel reads, dictionaries not counted, which are decoded
    /// for each scan; empty if there are none, or few, which stay with the column.
    pub decoded: Vec<usize>,
    /// Whether values of strings are made without anything decoded.
    pub has_values: bool,
    /// Whether rows are read by an index, if they are read one by one.
    pub has_index: bool,
}

/// Decoded values are few if the column takes so many times their bytes: a last chunk of few rows, for
/// which other chunks need not be scanned in stages.
const FEW_DECODED: usize = 8;

impl Reads {
    pub(super) fn of(column: &DeviceColumn) -> Self {
        let roots = || column.chunks().iter().map(DeviceChunk::root);
        let of_chunk =
            |root: NodeView<'_>| decoded_bytes(root) + root.validity().map_or(0, decoded_bytes);
        let mut decoded: Vec<usize> = roots().map(of_chunk).collect();
        let all: usize = decoded.iter().sum();
        if all.saturating_mul(FEW_DECODED) <= column.device_bytes() {
            decoded.clear();
        }
        let is_bits = |view: NodeView<'_>| view.encoding() == Encoding::Bits;
        let physical = physical_of(column.field().data_type());
        let has_words = physical.bits().is_some_and(|bits| (8..=64).contains(&bits));
        let has_values = |view: NodeView<'_>| {
            view.encoding() != Encoding::Dict
                && view.children().all(|lengths| LENGTHS.contains(&lengths.encoding()))
        };
        Self {
            has_kernels: roots().all(has_kernel),
            has_validity_kernels: !roots().any(|root| root.validity().is_some_and(is_bits)),
            has_values: all == 0 && roots().all(has_values),
            has_index: has_words && trees::has_short_runs(roots()),
            decoded,
        }
    }
}

/// Whether kernels that are there read all values of a chunk.
fn has_kernel(view: NodeView<'_>) -> bool {
    let among = |view: NodeView<'_>, encodings: &[Encoding]| {
        encodings.contains(&view.encoding())
            && (view.encoding() != Encoding::Dict
                || cascade::CODES.contains(&view.child(0).encoding()))
    };
    match (view.physical(), view.encoding()) {
        (Physical::Bool, encoding) => encoding != Encoding::Bits,
        (Physical::Bytes, encoding) => match encoding.string_form() {
            Some(StringForm::Lookup) => among(view.child(0), &cascade::CODES),
            Some(StringForm::Bytes | StringForm::Codes) => among(view.child(0), &LENGTHS),
            Some(StringForm::One | StringForm::Prefixes | StringForm::Segments) | None => true,
        },
        (Physical::I128 | Physical::I256, _) => {
            view.children().all(|word| among(word, &cascade::SIMPLE))
        }
        _ => among(view, &SCANNED),
    }
}

/// Bytes of the values of a node that are decoded for kernels of queries.
fn decoded_bytes(view: NodeView<'_>) -> usize {
    let own = || match view.physical().bits() {
        Some(bits) => (view.len() * bits).div_ceil(8),
        // With offsets and lengths.
        None => encoding::value_bytes(view) + view.len() * 12,
    };
    let below = || view.children().map(decoded_bytes).sum();
    match (view.physical(), view.encoding()) {
        (Physical::Bytes, encoding) => match encoding.string_form() {
            Some(StringForm::One) => 0,
            Some(StringForm::Lookup) => decoded_bytes(view.child(0)),
            Some(StringForm::Bytes | StringForm::Codes) => {
                let lengths = view.child(0);
                if LENGTHS.contains(&lengths.encoding()) { 0 } else { 4 * lengths.len() }
            }
            Some(StringForm::Prefixes | StringForm::Segments) | None => own(),
        },
        // Kernels that are there read more words than two, and few encodings of these.
        (Physical::I256, _) if view.child_count() > 2 => {
            let is_decoded = |word: &NodeView<'_>| !cascade::SIMPLE.contains(&word.encoding());
            view.children().filter(is_decoded).map(|word| 8 * word.len()).sum()
        }
        (Physical::I128 | Physical::I256, _) => below(),
        (_, encoding) => match encoding.device_reader() {
            Some(DeviceReader::Leaf) => 0,
            Some(DeviceReader::Parent { .. }) => below(),
            Some(DeviceReader::Lookup { .. }) => decoded_bytes(view.child(0)),
            None => own(),
        },
    }
}
