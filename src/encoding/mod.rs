//! The encodings, and what they have in common.
//!
//! An encoding is one file or folder here, one variant of [`Encoding`] and one
//! row of [`CODECS`]; nothing else knows it. Values go in and come out as
//! physical types ([`Physical`]): integers and floats as machine words, strings
//! and binary values as bytes with lengths. What Arrow type they are is the
//! business of `column`.
//!
//! ```text
//! Input --plan--> Plan --encode--> EncodedNode --chunk::assemble--> bytes
//! bytes --Chunk::parse (validate)--> NodeView --decode--> Output
//! ```

pub mod alp;
mod constant;
mod exceptions;
mod ffor;
pub mod fsst;
mod io;
mod limbs;
mod plain;
mod starts;

use std::fmt;
use std::ops::Range;

pub(crate) use io::{BytesValues, Input, Output, Value, Values, Words, valid_words};
pub(crate) use plain::array_of as plain_array_of;

use crate::chunk::{EncodedNode, NodeView};
use crate::error::{Error, Result, ensure};
use crate::lanes::VECTOR;
use crate::plan::{Context, Parameters, Plan};

/// How the values of a node are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Encoding {
    /// The values as they are.
    Plain = 0,
    /// One value for all rows.
    Constant = 1,
    /// Frame of reference and bit-packing, per vector (FastLanes).
    Ffor = 2,
    /// Adaptive lossless floating point: decimals as integers, bit-packed (ALP, G-ALP).
    Alp = 3,
    /// Fast static symbol table for strings.
    Fsst = 4,
    /// 128- and 256-bit integers as 64-bit limbs.
    Limbs = 5,
}

impl Encoding {
    /// All encodings.
    pub const ALL: &[Self] =
        &[Self::Plain, Self::Constant, Self::Ffor, Self::Alp, Self::Fsst, Self::Limbs];

    /// The encoding's name in lower case, as tables and messages show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Constant => "constant",
            Self::Ffor => "ffor",
            Self::Alp => "alp",
            Self::Fsst => "fsst",
            Self::Limbs => "limbs",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl TryFrom<u8> for Encoding {
    type Error = Error;

    fn try_from(id: u8) -> Result<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|encoding| *encoding as u8 == id)
            .ok_or_else(|| Error::corrupt(format!("unknown encoding {id}")))
    }
}

/// What the values of a node are, apart from their Arrow type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Physical {
    /// Bits.
    Bool = 0,
    /// Signed integers of 8 bits.
    I8 = 1,
    /// Signed integers of 16 bits.
    I16 = 2,
    /// Signed integers of 32 bits.
    I32 = 3,
    /// Signed integers of 64 bits.
    I64 = 4,
    /// Unsigned integers of 8 bits.
    U8 = 5,
    /// Unsigned integers of 16 bits.
    U16 = 6,
    /// Unsigned integers of 32 bits.
    U32 = 7,
    /// Unsigned integers of 64 bits.
    U64 = 8,
    /// IEEE binary32.
    F32 = 9,
    /// IEEE binary64.
    F64 = 10,
    /// Signed integers of 128 bits.
    I128 = 11,
    /// Signed integers of 256 bits.
    I256 = 12,
    /// Byte strings.
    Bytes = 13,
    /// Values of any other Arrow type, as an Arrow IPC stream.
    Arrow = 14,
}

impl Physical {
    const ALL: [Self; 15] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::I128,
        Self::I256,
        Self::Bytes,
        Self::Arrow,
    ];

    /// Bits of one value; none for types of varying length.
    pub fn bits(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::I8 | Self::U8 => Some(8),
            Self::I16 | Self::U16 => Some(16),
            Self::I32 | Self::U32 | Self::F32 => Some(32),
            Self::I64 | Self::U64 | Self::F64 => Some(64),
            Self::I128 => Some(128),
            Self::I256 => Some(256),
            Self::Bytes | Self::Arrow => None,
        }
    }

    /// Whether the values are integers of 8 to 64 bits.
    pub fn is_integer(self) -> bool {
        matches!(self as u8, 1..=8)
    }

    /// Whether integers of this type have a sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::I128 | Self::I256)
    }
}

impl TryFrom<u8> for Physical {
    type Error = Error;

    fn try_from(id: u8) -> Result<Self> {
        Self::ALL
            .get(usize::from(id))
            .copied()
            .ok_or_else(|| Error::corrupt(format!("unknown physical type {id}")))
    }
}

/// One encoding: what `CODECS` has a row for.
pub(crate) trait Codec: Sync {
    /// Which one.
    fn encoding(&self) -> Encoding;

    /// Checks that a node's parameters, children and buffers fit together, so
    /// that decoding cannot leave them. Children have been checked before.
    fn validate(&self, node: NodeView<'_>) -> Result<()>;

    /// The size this encoding would give, from a sample, and what encoding
    /// needs to know; none if it does not apply.
    fn plan(&self, input: &Input<'_>, context: &Context<'_>) -> Option<Estimate>;

    /// Encodes. The plan is this codec's own for this input. None where the
    /// data turn out not to fit (rare; the caller then takes `plain`).
    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>>;

    /// Decodes the values of `rows`, which begins at a multiple of 1,024 and
    /// ends at one or at the node's length; the output is of that many values.
    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()>;

    /// Bytes of all values of a node of byte strings: declared or implied by
    /// the header, and checked by `validate`.
    fn value_bytes(&self, _: NodeView<'_>) -> usize {
        0
    }

    /// Decodes one value without the rest.
    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value>;
}

/// The size an encoding would give.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// Bytes of buffers and children.
    pub bytes: usize,
    /// What the encoder needs to know.
    pub parameters: Parameters,
    /// Plans of children that were made for the estimate, if any.
    pub children: Vec<Plan>,
}

impl Estimate {
    /// An estimate without parameters.
    pub fn of(bytes: usize) -> Self {
        Self { bytes, parameters: Parameters::None, children: Vec::new() }
    }
}

/// Every codec, in the order in which equal estimates are preferred.
pub(crate) static CODECS: [&dyn Codec; 6] =
    [&constant::Constant, &plain::Plain, &ffor::Ffor, &limbs::Limbs, &alp::Alp, &fsst::Fsst];

/// The codec of an encoding.
pub(crate) fn codec(encoding: Encoding) -> &'static dyn Codec {
    *CODECS
        .iter()
        .find(|codec| codec.encoding() == encoding)
        .expect("every encoding has a row in CODECS")
}

/// Checks a node after its children.
pub(crate) fn validate_tree(node: NodeView<'_>) -> Result<()> {
    if let Some(validity) = node.validity() {
        ensure!(
            validity.physical() == Physical::Bool
                && validity.len() == node.len()
                && validity.validity().is_none(),
            "the validity of {} values is {} values of type {:?}",
            node.len(),
            validity.len(),
            validity.physical()
        );
        validate_tree(validity)?;
    }
    for child in node.children() {
        ensure!(child.validity().is_none(), "a child of {} has nulls of its own", node.encoding());
        validate_tree(child)?;
    }
    codec(node.encoding()).validate(node)
}

/// Decodes the values of `rows`; see [`Codec::decode`].
pub(crate) fn decode(node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
    debug_assert!(rows.start.is_multiple_of(VECTOR) && rows.end <= node.len());
    ensure!(
        output.fits(node.physical(), rows.len()),
        "a {} node of {} values of type {:?} where it does not fit",
        node.encoding(),
        node.len(),
        node.physical()
    );
    codec(node.encoding()).decode(node, rows, output)
}

/// Bytes of all values of a node of byte strings.
pub(crate) fn value_bytes(node: NodeView<'_>) -> usize {
    codec(node.encoding()).value_bytes(node)
}

/// Decodes one value; the caller has checked `row` against the node's length.
pub(crate) fn value(node: NodeView<'_>, row: usize) -> Result<Value> {
    codec(node.encoding()).value(node, row)
}

/// The encodings of a tree, as in `fsst(ffor, constant)`.
pub(crate) fn describe(node: NodeView<'_>) -> String {
    let children: Vec<String> = node.children().map(describe).collect();
    match children.as_slice() {
        [] => node.encoding().to_string(),
        children => format!("{}({})", node.encoding(), children.join(", ")),
    }
}
