//! Trees of encodings as kernels of queries read them: for each chunk of a column the nodes of
//! its tree, in pre-order, and the type that reads them (`kernels/lanepack/reader.cuh`).
//!
//! ```text
//! chunk 0   dict(ffor, plain)        Dict<u64, Words<u32, FFOR | PFOR, ..>>       shape 0
//! chunk 1   dict(pfor, plain)        the same
//! chunk 2   ffor                     Words<u64, FFOR, ..>                         shape 1
//! nodes     | dict ffor | dict pfor | ffor . |
//! ```
//!
//! Trees that differ in their leaves only have one type, whose leaves read all of these. Booleans
//! and the validity of a column have trees like other columns, of values of one bit. Which
//! reader an encoding has is said by [`Encoding::device_reader`]; nothing here names an encoding
//! but dictionaries, whose values are decoded (they are looked up in any order). Encodings
//! without a reader (`lz`) are decoded as well, and chunks with trees of a form that few rows have. Short
//! runs get an index of 2 bits a row if kernels read rows one by one ([`ReadBy::Row`](super::nodes::ReadBy)).

use std::fmt::Write;

use super::cascade;
use super::decoders::{check_codes, with_dictionary};
use super::program::{Job, Program, Target};
use crate::chunk::{DeviceReader, Keeps, NodeView};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DevicePtr;
use crate::gpu::abi::{self, Node};
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Trees of different form that a kernel is compiled for: chunks with further ones are decoded.
const MOST_SHAPES: usize = 8;

/// Trees whose form one row in so many has, or fewer, are decoded, and their values kept.
const FEW_ROWS: usize = 32;

/// Rows of a run of a column, in the mean, of which runs have no index: with fewer it takes no more memory
/// than the runs do, roughly, and finding the runs of a vector takes as long as reading many of its rows.
const LONG_RUNS: usize = 32;

/// The type that reads a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A node without children: bits of a value (1 is a bitmap), encodings as bits by their ids,
    /// and widths of packed vectors, bit w - 1 for width w.
    Words { bits: usize, encodings: u32, widths: u64 },
    /// A node with children: its reader up to the first of theirs, such as `Dict<u64, `.
    Parent {
        head: String,
        keeps: Keeps,
        /// Whether its values are looked up by codes.
        is_lookup: bool,
        bits: usize,
        children: Vec<Reader>,
    },
}

/// Encodings of words that are stored as they are.
const PLAIN: u32 = abi::encoding_bit(Encoding::Plain as u16) | abi::encoding_bit(abi::STRIDED);

/// Shared memory of a reader beside values of a vector and what its children take, at most.
const PADDING: usize = 1024;

impl Reader {
    /// One leaf.
    pub fn words(bits: usize, encoding: u16) -> Self {
        Self::Words { bits, encodings: abi::encoding_bit(encoding), widths: 0 }
    }

    fn children(&self) -> &[Self] {
        match self {
            Self::Words { .. } => &[],
            Self::Parent { children, .. } => children,
        }
    }

    /// Nodes of the tree.
    fn nodes(&self) -> usize {
        1 + self.children().iter().map(Self::nodes).sum::<usize>()
    }

    /// Takes in another tree that differs in its leaves only; whether it does.
    fn merge(&mut self, other: &Self) -> bool {
        if !self.is_like(other) {
            return false;
        }
        self.take_leaves(other);
        true
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Words { bits, .. }, Self::Words { bits: its, .. }) => bits == its,
            (
                Self::Parent { head, bits, children, .. },
                Self::Parent { head: its_head, bits: its_bits, children: its, .. },
            ) => {
                (head, bits, children.len()) == (its_head, its_bits, its.len())
                    && children.iter().zip(its).all(|(own, its)| own.is_like(its))
            }
            _ => false,
        }
    }

    fn take_leaves(&mut self, other: &Self) {
        match (self, other) {
            (Self::Words { encodings, .. }, Self::Words { encodings: its, .. }) => {
                *encodings |= its;
            }
            (Self::Parent { children, .. }, Self::Parent { children: its, .. }) => {
                children.iter_mut().zip(its).for_each(|(own, its)| own.take_leaves(its));
            }
            _ => unreachable!("trees of one form"),
        }
    }

    /// Calls `visit` for each leaf with the number of its node.
    fn each_leaf(&mut self, at: usize, visit: &mut impl FnMut(usize, usize, u32, &mut u64)) {
        match self {
            Self::Words { bits, encodings, widths } => visit(at, *bits, *encodings, widths),
            Self::Parent { children, .. } => {
                let mut at = at + 1;
                for child in children {
                    let nodes = child.nodes();
                    child.each_leaf(at, visit);
                    at += nodes;
                }
            }
        }
    }

    /// The type in a kernel's source.
    fn write(&self, text: &mut String) {
        let _ = match self {
            Self::Words { bits: 1, encodings, .. } => write!(text, "Bitmap<{encodings:#x}>"),
            Self::Words { bits, encodings, widths } => {
                write!(text, "Words<u{bits}, {encodings:#x}, {widths:#x}>")
            }
            Self::Parent { head, children, .. } => {
                *text += head;
                for (index, child) in children.iter().enumerate() {
                    *text += if index > 0 { ", " } else { "" };
                    child.write(text);
                }
                write!(text, ">")
            }
        };
    }

    /// Bits that a value takes at most, roughly.
    fn stored_bits(&self) -> u32 {
        match self {
            Self::Words { bits, encodings, widths } => match encodings & PLAIN {
                0 => 64 - widths.leading_zeros(),
                _ => *bits as u32,
            },
            Self::Parent { children, .. } => {
                children.first().map_or(0, |child| child.stored_bits())
            }
        }
    }

    /// Whether rows can be reached one by one.
    fn is_random(&self) -> bool {
        match self {
            Self::Words { .. } => true,
            Self::Parent { keeps: Keeps::AsChild | Keeps::Bytes, children, .. } => {
                children.iter().all(Self::is_random)
            }
            Self::Parent { keeps: Keeps::IndexedRuns, .. } => true,
            Self::Parent { keeps: Keeps::Vector | Keeps::Runs, .. } => false,
        }
    }

    /// Whether a range test asks for codes only.
    fn tests_codes(&self) -> bool {
        match self {
            Self::Words { .. } => false,
            Self::Parent { is_lookup, children, .. } => *is_lookup || children[0].tests_codes(),
        }
    }

    /// Whether tests take a question about keys.
    fn tests_keys(&self) -> bool {
        match self {
            Self::Words { bits, .. } => *bits > 1,
            Self::Parent { keeps: Keeps::Runs | Keeps::IndexedRuns, children, .. } => {
                matches!(children[0], Self::Words { .. })
            }
            Self::Parent { .. } => false,
        }
    }

    /// Whether data may turn out to be damaged when they are read.
    fn can_fail(&self) -> bool {
        matches!(self, Self::Parent { keeps: Keeps::Runs | Keeps::IndexedRuns, .. })
            || self.children().iter().any(Self::can_fail)
    }

    /// Shared memory of a warp for the values of a vector, at most.
    fn state_bytes(&self) -> usize {
        let below: usize = self.children().iter().map(Self::state_bytes).sum();
        match self {
            Self::Words { .. } | Self::Parent { keeps: Keeps::IndexedRuns, .. } => 8,
            Self::Parent { keeps: Keeps::AsChild, .. } => below,
            Self::Parent { keeps: Keeps::Vector, bits, .. } => VECTOR * bits / 8 + PADDING,
            Self::Parent { keeps: Keeps::Runs, bits, children, .. } => {
                let decoded = if children[0].is_random() { 1 } else { VECTOR };
                below + decoded * bits / 8 + PADDING
            }
            // Those of a vector of bits.
            Self::Parent { keeps: Keeps::Bytes, .. } => below + VECTOR / 8 + 64,
        }
    }

    /// Shared memory of a warp for a test of some vectors, at most.
    fn test_bytes(&self) -> usize {
        let below: usize = self.children().iter().map(Self::test_bytes).sum();
        match self {
            Self::Words { bits: 1, .. } => 8,
            // 32 bytes a vector, for which 16 are a unit.
            Self::Words { .. } => 32 * kernels::SCAN_EACH + 16,
            Self::Parent { keeps: Keeps::Vector, .. } => 8,
            // Verdicts on runs of two vectors of values, and numbers of runs; with lengths (a child)
            // which of them are exceptions, and changes of each vector.
            Self::Parent { keeps: Keeps::Runs | Keeps::IndexedRuns, children, .. } => {
                let verdicts = 2 * VECTOR / 8 + 64 + 8 * kernels::SCAN_EACH;
                let changes = VECTOR / 8 * (1 + kernels::SCAN_EACH);
                below + verdicts + if children.len() > 1 { changes } else { 0 }
            }
            // Codes whose verdicts are no range are looked up one by one.
            Self::Parent { is_lookup: true, children, .. } => {
                below + children.iter().map(Self::state_bytes).sum::<usize>() + 64
            }
            // A vector of bytes.
            Self::Parent { keeps: Keeps::Bytes, children, .. } => {
                VECTOR + children.iter().map(Self::state_bytes).sum::<usize>() + 64
            }
            Self::Parent { keeps: Keeps::AsChild, .. } => below + 64,
        }
    }
}

/// The trees of a column's chunks in device memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeList {
    pub start: DevicePtr<Node>,
    /// Nodes of a chunk's tree, with those that smaller ones lack.
    pub stride: usize,
    /// The types of trees: the shape of a root is an index of these.
    pub readers: Vec<Reader>,
}

impl TreeList {
    /// The type of all trees in a kernel's source.
    pub fn reader(&self) -> String {
        let mut text = String::new();
        let last = self.readers.len().saturating_sub(1);
        for (shape, reader) in self.readers.iter().enumerate() {
            if shape < last {
                let _ = write!(text, "OneOf<{shape}, ");
            }
            reader.write(&mut text);
            if shape < last {
                text += ", ";
            }
        }
        text + &">".repeat(last)
    }

    /// The same without the widths of packed vectors. A kernel for one list of trees reads all
    /// lists of the same form.
    pub fn form(&self) -> String {
        let mut list = self.clone();
        list.each_leaf(|_, _, _, _, widths| *widths = 0);
        list.reader()
    }

    /// The encodings of all trees, and widths of their packed vectors, if these are leaves.
    pub fn leaves(&self) -> Option<(u32, u64)> {
        match self.readers.as_slice() {
            [Reader::Words { encodings, widths, .. }] => Some((*encodings, *widths)),
            _ => None,
        }
    }

    /// Bits of a value.
    pub fn word_bits(&self) -> usize {
        self.readers.first().map_or(0, |reader| match reader {
            Reader::Words { bits, .. } | Reader::Parent { bits, .. } => *bits,
        })
    }

    /// Whether all chunks have their values as they are.
    pub fn is_plain(&self) -> bool {
        self.readers.iter().all(
            |reader| matches!(reader, Reader::Words { encodings, .. } if encodings & !PLAIN == 0),
        )
    }

    /// Whether rows can be read one by one, in all chunks.
    pub fn is_random(&self) -> bool {
        self.readers.iter().all(Reader::is_random)
    }

    /// Whether range tests ask for codes only, in all chunks.
    pub fn tests_codes(&self) -> bool {
        self.readers.iter().all(Reader::tests_codes)
    }

    /// Whether range tests ask for codes in some chunks.
    pub fn asks_codes(&self) -> bool {
        self.readers.iter().any(Reader::tests_codes)
    }

    /// Whether tests of keys are answered in all chunks.
    pub fn tests_keys(&self) -> bool {
        self.readers.iter().all(Reader::tests_keys)
    }

    /// Whether data may turn out to be damaged when they are read.
    pub fn can_fail(&self) -> bool {
        self.readers.iter().any(Reader::can_fail)
    }

    /// Bits that a value takes at most, roughly.
    pub fn bits(&self) -> u32 {
        self.readers.iter().map(Reader::stored_bits).max().unwrap_or(0)
    }

    /// Shared memory of a warp for the values of a vector, at most.
    pub fn state_bytes(&self) -> usize {
        self.readers.iter().map(Reader::state_bytes).max().unwrap_or(0)
    }

    /// Shared memory of a warp for a test, at most.
    pub fn test_bytes(&self) -> usize {
        self.readers.iter().map(Reader::test_bytes).max().unwrap_or(0)
    }

    /// Calls `visit` for each leaf of each shape: the shape, the number of the leaf's node, bits
    /// of its values, its encodings and its widths.
    pub fn each_leaf(&mut self, mut visit: impl FnMut(usize, usize, usize, u32, &mut u64)) {
        for (shape, reader) in self.readers.iter_mut().enumerate() {
            reader.each_leaf(0, &mut |at, bits, encodings, widths| {
                visit(shape, at, bits, encodings, widths);
            });
        }
    }
}

/// A part of a tree that is decoded, and where its values are to be.
struct Missing<'a> {
    target: Target<'a>,
    tree: usize,
    node: usize,
    buffer: usize,
}

/// A node of a tree that is runs with an index.
struct Indexed<'a> {
    target: Target<'a>,
    tree: usize,
    node: usize,
}

/// A node of a tree that has codes, whose values are decoded.
struct Coded<'a> {
    target: Target<'a>,
    tree: usize,
    node: usize,
    is_tested: bool,
}

/// The trees of chunks, while they are put together.
#[derive(Default)]
pub(super) struct Trees<'a> {
    pub readers: Vec<Reader>,
    /// For each chunk the nodes of its tree.
    pub nodes: Vec<Vec<Node>>,
    missing: Vec<Missing<'a>>,
    coded: Vec<Coded<'a>>,
    indexed: Vec<Indexed<'a>>,
    /// Whether runs get an index.
    has_indexes: bool,
}

impl<'a> Trees<'a> {
    /// The trees of some nodes of words; adds the steps that decode what has no reader. `is_by_row`:
    /// whether rows are read one by one.
    pub fn new(program: &mut Program<'_>, targets: &[Target<'a>], is_by_row: bool) -> Result<Self> {
        let has_indexes = is_by_row && has_short_runs(targets.iter().map(|target| target.view));
        let mut trees = Self { has_indexes, ..Self::default() };
        let rare = trees.rare(targets);
        for (target, is_rare) in targets.iter().zip(rare) {
            match is_rare {
                true => trees.push_decoded(target),
                false => trees.push_target(target),
            }
        }
        trees.decode(program)?;
        Ok(trees)
    }

    /// For each chunk whether its tree has a form that few rows have: last chunks of batches often have
    /// others, for all of which each kernel would have code, and shared memory for the largest.
    fn rare(&mut self, targets: &[Target<'a>]) -> Vec<bool> {
        let mut forms: Vec<(Reader, usize)> = Vec::new();
        let mut form_of = Vec::with_capacity(targets.len());
        for target in targets {
            let reader = self.tree(target, true, &mut Vec::new());
            let rows = target.view.len();
            let known = forms.iter().position(|(known, _)| known.is_like(&reader));
            let form = known.unwrap_or_else(|| {
                forms.push((reader, 0));
                forms.len() - 1
            });
            forms[form].1 += rows;
            form_of.push(form);
        }
        // Only their forms were asked for.
        (self.missing, self.coded, self.indexed) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = forms.iter().map(|(_, rows)| rows).sum::<usize>() / FEW_ROWS;
        let mut are_rare = vec![false; forms.len()];
        let mut by_rows: Vec<usize> = (0..forms.len()).collect();
        by_rows.sort_by_key(|form| forms[*form].1);
        for form in by_rows {
            let (reader, rows) = &forms[form];
            // Leaves are read by the code that reads decoded values.
            if matches!(reader, Reader::Words { .. }) {
                continue;
            }
            if *rows > left {
                break;
            }
            left -= rows;
            are_rare[form] = true;
        }
        form_of.into_iter().map(|form| are_rare[form]).collect()
    }

    /// Adds the tree of the next chunk, as values that are decoded.
    fn push_decoded(&mut self, target: &Target<'a>) {
        let mut nodes = Vec::new();
        let reader = self.decoded(target, &mut nodes);
        self.push(reader, nodes);
    }

    /// Adds the tree of the next chunk.
    pub fn push_target(&mut self, target: &Target<'a>) {
        let mut nodes = Vec::new();
        let (missing, coded, indexed) = (self.missing.len(), self.coded.len(), self.indexed.len());
        let reader = self.tree(target, true, &mut nodes);
        let is_known = self.readers.iter().any(|known| known.is_like(&reader));
        if !is_known && self.readers.len() >= MOST_SHAPES {
            self.missing.truncate(missing);
            self.coded.truncate(coded);
            self.indexed.truncate(indexed);
            return self.push_decoded(target);
        }
        self.push(reader, nodes);
    }

    /// Adds the tree of the next chunk's codes, those of a dictionary of strings: what reads it says
    /// which pass.
    pub fn push_codes(&mut self, target: &Target<'a>) {
        let (tree, node, is_tested) = (self.nodes.len(), 0, false);
        let size = target.view.child(1).len() as u64;
        let mut nodes = vec![Node { buffer: [DevicePtr::NULL; 4], size, ..target.own_node() }];
        self.coded.push(Coded { target: *target, tree, node, is_tested });
        let codes = vec![self.tree(&target.child(0), false, &mut nodes)];
        let (head, keeps) = ("DictCodes<".to_owned(), Keeps::AsChild);
        let reader = Reader::Parent { head, keeps, is_lookup: true, bits: 32, children: codes };
        self.push(reader, nodes);
    }

    /// The same of nodes that are there.
    pub fn push(&mut self, reader: Reader, mut nodes: Vec<Node>) {
        let known = self.readers.iter_mut().position(|known| known.merge(&reader));
        let shape = known.unwrap_or_else(|| {
            self.readers.push(reader);
            self.readers.len() - 1
        });
        nodes[0].shape = shape as u16;
        self.nodes.push(nodes);
    }

    /// Adds the nodes of a tree, and gives its reader. `is_tested`: whether range tests come down to
    /// its values.
    fn tree(&mut self, target: &Target<'a>, is_tested: bool, nodes: &mut Vec<Node>) -> Reader {
        let view = target.view;
        let bits = view.physical().bits().unwrap_or(0);
        let (tree, node) = (self.nodes.len(), nodes.len());
        match view.encoding().device_reader() {
            Some(DeviceReader::Leaf) => {
                nodes.push(target.node());
                Reader::words(bits, view.encoding() as u16)
            }
            Some(DeviceReader::Parent { name, keeps }) => {
                nodes.push(target.own_node());
                let child = |index| self.tree(&target.child(index), is_tested && index == 0, nodes);
                let children: Vec<Reader> = (0..view.child_count()).map(child).collect();
                let is_indexed =
                    keeps == Keeps::Runs && self.has_indexes && children[0].is_random();
                if is_indexed {
                    self.indexed.push(Indexed { target: *target, tree, node });
                }
                let (head, keeps) = match is_indexed {
                    true => (format!("Indexed{name}<"), Keeps::IndexedRuns),
                    false => (format!("{name}<"), keeps),
                };
                Reader::Parent { head, keeps, is_lookup: false, bits, children }
            }
            Some(DeviceReader::Lookup { name }) => {
                nodes.push(Node { size: view.child(1).len() as u64, ..target.own_node() });
                self.missing.push(Missing { target: target.child(1), tree, node, buffer: 3 });
                self.coded.push(Coded { target: *target, tree, node, is_tested });
                let codes = self.tree(&target.child(0), false, nodes);
                let (head, keeps) = (format!("{name}<u{bits}, "), Keeps::AsChild);
                Reader::Parent { head, keeps, is_lookup: true, bits, children: vec![codes] }
            }
            None => self.decoded(target, nodes),
        }
    }

    /// Adds a node of values that are decoded.
    fn decoded(&mut self, target: &Target<'a>, nodes: &mut Vec<Node>) -> Reader {
        let (tree, node) = (self.nodes.len(), nodes.len());
        self.missing.push(Missing { target: *target, tree, node, buffer: 0 });
        nodes.push(cascade::plain(target, DevicePtr::<u8>::NULL).node);
        Reader::words(target.view.physical().bits().unwrap_or(0), Encoding::Plain as u16)
    }

    /// Decodes what is missing, values of one width at a time, and looks whether all codes have
    /// values.
    pub fn decode(&mut self, program: &mut Program<'_>) -> Result<()> {
        for bits in [1, 8, 16, 32, 64] {
            let has = |missing: &&Missing<'_>| missing.target.view.physical().bits() == Some(bits);
            let missing: Vec<&Missing<'_>> = self.missing.iter().filter(has).collect();
            let targets: Vec<Target<'_>> = missing.iter().map(|missing| missing.target).collect();
            let jobs = match bits {
                1 => program.readable_bits(&targets)?,
                _ => program.readable(&targets, &[Encoding::Plain])?,
            };
            for (missing, job) in missing.iter().zip(jobs) {
                self.nodes[missing.tree][missing.node].buffer[missing.buffer] = job.node.buffer[0];
            }
        }
        let runs: Vec<Target<'_>> = self.indexed.iter().map(|indexed| indexed.target).collect();
        for (indexed, index) in self.indexed.iter().zip(program.index_runs(&runs)?) {
            self.nodes[indexed.tree][indexed.node].buffer[2] = index;
        }
        let codes: Vec<Target<'_>> = self.coded.iter().map(|coded| coded.target.child(0)).collect();
        let codes = program.readable(&codes, &cascade::CODES)?;
        let jobs = codes.iter().zip(&self.coded).map(|(codes, coded)| {
            with_dictionary(codes, &Job { node: self.values(coded), ..*codes })
        });
        check_codes(program, &jobs.collect::<Vec<_>>());
        Ok(())
    }

    /// The values of a dictionary as a node.
    fn values(&self, coded: &Coded<'_>) -> Node {
        let node = &self.nodes[coded.tree][coded.node];
        Node {
            buffer: Node::only(node.buffer[3]),
            rows: node.size as u32,
            encoding: Encoding::Plain as u16,
            ..Node::default()
        }
    }

    /// The dictionaries that tests ask before they look at codes, by chunk: as columns of their
    /// own.
    pub fn dictionaries(&self) -> impl Iterator<Item = Job> {
        let tested = self.coded.iter().filter(|coded| coded.is_tested);
        tested.map(|coded| Job { chunk: coded.target.chunk, node: self.values(coded) })
    }

    /// Nodes of a chunk.
    pub fn stride(&self) -> usize {
        self.nodes.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// All nodes, those of a chunk `stride` behind those of the one before.
    pub fn flat(&self) -> Vec<Node> {
        let stride = self.stride();
        let padded = |nodes: &Vec<Node>| {
            let mut padded = nodes.clone();
            padded.resize(stride, Node::default());
            padded
        };
        self.nodes.iter().flat_map(padded).collect()
    }
}

/// Whether runs among nodes of words are so short that they get an index.
pub(super) fn has_short_runs<'v>(roots: impl Iterator<Item = NodeView<'v>>) -> bool {
    let [rows, runs] = roots
        .map(rows_and_runs)
        .fold([0, 0], |[rows, runs], [more_rows, more_runs]| [rows + more_rows, runs + more_runs]);
    rows < runs * LONG_RUNS
}

/// Rows of the nodes of runs of a tree, and their runs.
fn rows_and_runs(view: NodeView<'_>) -> [usize; 2] {
    let own = match view.encoding().is_runs() {
        true => [view.len(), view.child(0).len()],
        false => [0, 0],
    };
    (0..view.child_count())
        .map(|child| rows_and_runs(view.child(child)))
        .fold(own, |[rows, runs], [more_rows, more_runs]| [rows + more_rows, runs + more_runs])
}
