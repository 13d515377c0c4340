//! One chunk of a nested column, taken apart into leaves, and its node, which is put together of
//! theirs.
//!
//! Plans and nodes are those of the CPU: the planner is asked about each array, given the plans of
//! its parts, and what it chooses instead of taking the array apart the CPU encodes.

use std::collections::VecDeque;
use std::ops::Range;

use crate::chunk::{EncodedNode, Header};
use crate::encoding::nested::{self, Values};
use crate::encoding::pieces::PIECE;
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::source::{ArrayInput, ArrayValues};
use crate::encoding::statistics::PlannedParts;
use crate::encoding::{self, Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::DevicePtr;
use crate::lanes::VECTOR;

/// A buffer of a node, on the host or on the device.
#[derive(Debug)]
pub(super) enum NodeBuffer {
    Host(Vec<u8>),
    Device { from: DevicePtr<u8>, len: usize },
}

impl NodeBuffer {
    pub fn len(&self) -> usize {
        match self {
            Self::Host(bytes) => bytes.len(),
            Self::Device { len, .. } => *len,
        }
    }
}

pub(super) type Node = EncodedNode<NodeBuffer>;

/// The buffers of a tree in the order in which it is laid out.
pub(super) fn buffers_in_order(root: Node) -> Vec<NodeBuffer> {
    let (mut nodes, mut buffers) = (VecDeque::from([root]), Vec::new());
    while let Some(node) = nodes.pop_front() {
        nodes.extend(node.validity.map(|validity| *validity));
        nodes.extend(node.children);
        buffers.extend(node.buffers);
    }
    buffers
}

/// The node of a body on the device that begins at `body`, with all below it.
pub(super) fn node_at(header: &Header, index: usize, body: DevicePtr<u8>) -> Node {
    let node = &header.nodes[index];
    let mut children = node.children.clone().map(|child| node_at(header, child, body));
    let validity = if node.nullable { children.next().map(Box::new) } else { None };
    let buffer =
        |range: &Range<usize>| NodeBuffer::Device { from: body.add(range.start), len: range.len() };
    EncodedNode {
        encoding: node.encoding,
        physical: node.physical,
        len: node.len,
        parameters: node.parameters,
        validity,
        children: children.collect(),
        buffers: header.buffers[node.buffers.clone()].iter().map(buffer).collect(),
    }
}

/// Values, or a piece of them, that kernels have been started to encode.
pub(super) struct EncodedPiece {
    /// Bytes that its plan has promised.
    pub plan_bytes: usize,
    pub node: Node,
}

/// Values that are not taken apart.
pub(super) struct Leaf {
    pub input: ArrayInput,
    /// The rows of its pieces, if kernels encode them: one piece, or several that become the parts of
    /// a node.
    pub pieces: Vec<Range<usize>>,
}

impl Leaf {
    fn new(input: ArrayInput) -> Self {
        // The host encodes less than a vector sooner than it is uploaded. Kernels
        // count the rows and the bytes of strings in 31 bits.
        let fits = match &input.values {
            ArrayValues::Array(_) => false,
            ArrayValues::Strings(_) => {
                [input.rows, input.string_bytes()].iter().all(|count| i32::try_from(*count).is_ok())
            }
            ArrayValues::Bits(_) | ArrayValues::Words(_) => true,
        };
        let rows = if fits && input.rows >= VECTOR { input.rows } else { 0 };
        let piece = |start: usize| start..(start + PIECE).min(rows);
        Self { pieces: (0..rows).step_by(PIECE).map(piece).collect(), input }
    }

    /// Its plan and its node, given its encoded pieces.
    fn encode(
        &self,
        pieces: &mut impl Iterator<Item = EncodedPiece>,
        context: &Context<'_>,
    ) -> Result<(Plan, Node)> {
        let input = self.input.input();
        let mut own: Vec<EncodedPiece> = pieces.take(self.pieces.len()).collect();
        if own.len() < self.pieces.len() {
            return Err(Error::device("a leaf that has not been encoded"));
        }
        if own.len() > 1 {
            let plan_of = |piece: &EncodedPiece| Plan::promising(piece.plan_bytes);
            let parts = PlannedParts {
                plans: own.iter().map(plan_of).collect(),
                nulls: None,
                parameters: Parameters::None,
            };
            let mut node = EncodedNode::new(Encoding::Pieces, input.physical, input.len());
            node.children = own.into_iter().map(|piece| piece.node).collect();
            return planned(&input, parts, node, context);
        }
        match own.pop() {
            Some(piece) => Ok((Plan::promising(piece.plan_bytes), piece.node)),
            None => {
                let plan = plan::plan_input(&input, context);
                let node = plan::encode(&input, &plan, context)?;
                Ok((plan, on_host(node)))
            }
        }
    }
}

/// An array as a tree of the arrays that it consists of.
pub(super) enum Tree {
    Leaf {
        values: Values,
        leaf: Leaf,
        /// Which rows are valid, if that is stored.
        nulls: Option<Leaf>,
    },
    Nested {
        values: Values,
        encoding: Encoding,
        nulls: Option<Leaf>,
        children: Vec<Self>,
    },
}

impl Tree {
    /// Takes an array apart by the encodings that options allow.
    pub fn new(values: Values, context: &Context<'_>) -> Self {
        let bits = |bits| Leaf::new(ArrayInput::of_bits(bits));
        if let Some((encoding, split)) = nested::split(&values, context.allowed) {
            let nulls = split.validity.map(bits);
            let child = |values| Self::new(values, context);
            let children = split.children.into_iter().map(child).collect();
            return Self::Nested { values, encoding, nulls, children };
        }
        let leaf = Leaf::new(values.input());
        // Carried arrays have their own.
        let is_flat = leaf.input.physical != Physical::Arrow;
        let nulls = values.validity().filter(|_| is_flat).map(bits);
        Self::Leaf { values, leaf, nulls }
    }

    /// Its leaves, in the order in which [`Self::encode`] takes their pieces.
    pub fn leaves(&self) -> Vec<&Leaf> {
        let mut all = Vec::new();
        self.add_leaves(&mut all);
        all
    }

    fn add_leaves<'t>(&'t self, all: &mut Vec<&'t Leaf>) {
        match self {
            Self::Leaf { leaf, nulls, .. } => {
                all.push(leaf);
                all.extend(nulls);
            }
            Self::Nested { nulls, children, .. } => {
                all.extend(nulls);
                children.iter().for_each(|child| child.add_leaves(all));
            }
        }
    }

    /// Its plan and its node, given the encoded pieces of all leaves.
    pub fn encode(
        &self,
        pieces: &mut impl Iterator<Item = EncodedPiece>,
        context: &Context<'_>,
    ) -> Result<(Plan, Node)> {
        let validity = |leaf: &Option<Leaf>, pieces: &mut _| match leaf {
            Some(leaf) => {
                let (_, node) = leaf.encode(pieces, context)?;
                Ok::<_, Error>(Some(Box::new(node)))
            }
            None => Ok(None),
        };
        match self {
            Self::Leaf { leaf, nulls, .. } => {
                let (plan, node) = leaf.encode(pieces, context)?;
                Ok((plan, EncodedNode { validity: validity(nulls, pieces)?, ..node }))
            }
            Self::Nested { values, encoding, nulls, children } => {
                let mut node = EncodedNode::new(*encoding, Physical::Arrow, values.array.len());
                node.validity = validity(nulls, pieces)?;
                let mut plans = Vec::with_capacity(children.len());
                for child in children {
                    let (plan, of_child) = child.encode(pieces, context)?;
                    plans.push(child.values().planned(plan));
                    node.children.push(of_child);
                }
                let nulls = nulls.as_ref().map(|nulls| nulls.input.rows);
                let parts = PlannedParts { plans, nulls, parameters: Parameters::None };
                planned(&values.input().input(), parts, node, context)
            }
        }
    }

    /// Bytes that its leaves take in host memory.
    pub fn bytes(&self) -> usize {
        self.leaves().iter().map(|leaf| leaf.input.bytes()).sum()
    }

    fn values(&self) -> &Values {
        match self {
            Self::Leaf { values, .. } | Self::Nested { values, .. } => values,
        }
    }
}

/// The plan and the node of values that have been taken apart. `node` is the node made of their parts.
/// If the planner chooses another encoding, or the parts turn out larger than planned, the CPU encodes
/// the values instead.
fn planned(
    input: &encoding::Input<'_>,
    parts: PlannedParts,
    node: Node,
    context: &Context<'_>,
) -> Result<(Plan, Node)> {
    let of_parts = node.encoding;
    let plan = plan::plan_input_of_parts(input, of_parts, parts, context);
    let mut node = Some(node);
    let encode = |plan: &Plan| match plan.encoding == of_parts {
        true => Ok(node.take()),
        false => {
            let node = encoding::codec(plan.encoding).encode(input, plan, context)?;
            Ok(node.map(on_host))
        }
    };
    let node = plan::first_kept(&plan, encode, NodeBuffer::len)?;
    let none = || Error::device(format!("no encoding for {:?}", input.physical));
    Ok((plan, node.ok_or_else(none)?))
}

/// A node that the CPU has encoded.
fn on_host(node: EncodedNode) -> Node {
    node.map(&NodeBuffer::Host)
}
