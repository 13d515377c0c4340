//! The encodings, and what they have in common.
//!
//! An encoding is one file or folder here, one variant of [`Encoding`] and one
//! row of [`CODECS`]; nothing else of the CPU's half knows it. For devices it has a file and a
//! row in `decode/decoders`, one in `encode/encoders` if more than packing words is to
//! be done for it, sources of its own in `kernels`, and a header in `kernels/lanepack` if scans
//! read it as it is stored. `tests/sources.rs` counts the files that name it.
//!
//! Values go in and come out as physical types ([`Physical`]): integers and floats as machine words,
//! strings and binary values as bytes with lengths. `source` makes them of Arrow arrays,
//! `nested` takes nested arrays apart; putting arrays together again is the
//! business of `column`.
//!
//! ```text
//! Statistics --plan--> Plan;  Input, Plan --encode--> EncodedNode --chunk::assemble--> bytes
//! bytes --Chunk::parse (validate)--> NodeView --decode--> Output
//!                                             --select--> Verdict: which values are in ranges
//! ```

pub mod alp;
pub(crate) mod alp_rd;
pub(crate) mod bits;
pub(crate) mod constant;
mod cursor;
pub(crate) mod delta;
pub(crate) mod dict;
mod exceptions;
pub(crate) mod ffor;
mod front;
pub mod fsst;
pub(crate) mod gcd;
mod host;
mod io;
mod limbs;
pub(crate) mod lz;
pub(crate) mod nested;
pub(crate) mod pfor;
pub(crate) mod pieces;
mod plain;
pub(crate) mod plan;
pub(crate) mod rle;
pub(crate) mod select;
pub(crate) mod source;
mod starts;
pub(crate) mod statistics;
pub(crate) mod tree;
pub(crate) mod windows;

use std::ops::Range;
use std::sync::LazyLock;

pub(crate) use cursor::Cursor;
pub(crate) use io::{BytesValues, Input, Output, Value, Values, Words, decode_u32, valid_words};
pub(crate) use plain::carried_array;
pub(crate) use rle::RunCursor;
pub(crate) use starts::Starts;

use crate::chunk::{EncodedNode, NodeView, node_bytes};
pub(crate) use crate::chunk::{Encoding, Physical};
use crate::error::{Result, ensure};
use crate::lanes::VECTOR;
use crate::ranges::Ranges;
use arrow_buffer::i256;
use host::Derived;
use plan::{Context, Parameters, Plan};
use select::{RangeTest, Verdict};
use statistics::{Answer, PlannedParts, Statistics};
use tree::{EncodingParameters, NodeRole};

/// Constants of the byte layouts that kernels have as well.
pub(crate) mod format {
    pub(crate) use super::exceptions::LOCATOR_COUNT_BITS;
    pub(crate) use super::ffor::PACKED_UNIT;
    pub(crate) use super::front::BLOCK as FRONT_BLOCK;
    pub(crate) use super::fsst::{
        ESCAPE, GROUP as TILE_GROUP, OFFSET_BITS as TILE_OFFSET_BITS, SEGMENT, TILE,
        TILES_PER_GROUP,
    };
}

/// One encoding: what `CODECS` has a row for.
pub(crate) trait Codec: Sync {
    /// Which one.
    fn encoding(&self) -> Encoding;

    /// Whether it may be that of values of a type.
    fn takes(&self, _: Physical) -> bool;

    /// Checks that a node's parameters, children and buffers fit together, so
    /// that decoding cannot leave them. Children have been checked before.
    fn validate(&self, node: NodeView<'_>) -> Result<()>;

    /// The size this encoding would give, from statistics of the values, and what encoding
    /// needs to know; none if it does not apply. Values are of a type that it takes.
    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>>;

    /// Derives the values that would be the children of a node, given what [`Self::plan`] passes to
    /// [`Statistics::search`]; none where the encoding does not suit.
    fn derive(&self, _: &Input<'_>, _argument: u64) -> Option<Derived> {
        None
    }

    /// Takes values apart and plans each part, for [`Statistics::parts`]; none where they do not
    /// come apart.
    fn plan_parts(&self, _: &Input<'_>, _: &Context<'_>) -> Option<PlannedParts> {
        None
    }

    /// Encodes. The plan is this codec's own for this input. None where the
    /// data turn out not to fit (rare; the caller then takes the next best plan).
    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>>;

    /// Decodes the values of `rows`, which begins at a multiple of 1,024 and
    /// ends at one or at the node's length; the output is of that many values. Nested arrays
    /// have no such output.
    fn decode(&self, node: NodeView<'_>, _: Range<usize>, _: Output<'_>) -> Result<()> {
        Err(io::mismatch(node))
    }

    /// Bytes of all values of a node of byte strings: declared or implied by
    /// the header, and checked by `validate`.
    fn value_bytes(&self, _: NodeView<'_>) -> usize {
        0
    }

    /// Bytes of the values of `rows` of a node of byte strings, as [`Codec::decode`] takes them.
    fn value_bytes_of(&self, node: NodeView<'_>, _: &Range<usize>) -> Result<usize> {
        Err(io::mismatch(node))
    }

    /// What vectors of a node of words share when they are read one by one.
    fn cursor<'a>(&self, node: NodeView<'a>) -> Result<Cursor<'a>> {
        Ok(Cursor::None(node))
    }

    /// Which values of up to 64 bits are in ranges, tested on what is stored. Encodings that keep
    /// no order are decoded vector by vector.
    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        select::decoded(node, test)
    }

    /// The same of values of 128 and 256 bits.
    fn select_wide<'a>(&self, node: NodeView<'a>, ranges: &Ranges<i256>) -> Result<Verdict<'a>> {
        Ok(select::decoded_wide(node, ranges))
    }

    /// Checks what decoding finds and [`Codec::select`] does not look at; children are checked
    /// apart.
    fn check_selected(&self, _: NodeView<'_>) -> Result<()> {
        Ok(())
    }

    /// The node of signed words of 64 bits that has all values of a wide one.
    fn as_words<'a>(&self, _: NodeView<'a>) -> Option<NodeView<'a>> {
        None
    }

    /// What a node's header and the parameters of its vectors tell users.
    fn details(&self, _: NodeView<'_>) -> EncodingParameters {
        EncodingParameters::None
    }

    /// What the values of the `index`-th child are, the validity not counted.
    fn role(&self, _: NodeView<'_>, _index: usize) -> NodeRole {
        NodeRole::Values
    }

    /// Decodes one value without the rest; none of nested arrays.
    fn value(&self, node: NodeView<'_>, _: usize) -> Result<Value> {
        Err(io::mismatch(node))
    }
}

/// The size an encoding would give.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// Bytes of the node and its buffers, children apart.
    pub own: usize,
    /// What the encoder needs to know.
    pub parameters: Parameters,
    /// Plans of children.
    pub children: Vec<Plan>,
}

impl Estimate {
    /// Buffers of these lengths, without parameters and children. What nodes and gaps cost is
    /// added here, the same for all.
    pub fn of(buffers: impl IntoIterator<Item = usize>) -> Self {
        let own = node_bytes(buffers);
        Self { own, parameters: Parameters::None, children: Vec::new() }
    }

    /// Bytes of header and body, with all below.
    pub fn stored_bytes(&self) -> usize {
        self.children.iter().fold(self.own, |sum, plan| sum.saturating_add(plan.bytes))
    }
}

/// Every codec, in the order in which equal estimates are preferred.
pub(crate) static CODECS: [&dyn Codec; 21] = [
    &constant::Constant,
    &plain::Plain,
    &bits::Bits,
    &ffor::Ffor,
    &pfor::Pfor,
    &delta::Delta,
    &limbs::Limbs,
    &alp::Alp,
    &alp_rd::AlpRd,
    &fsst::Fsst,
    &front::Front,
    &gcd::Gcd,
    &dict::Dict,
    &rle::Rle,
    &pieces::Pieces,
    &nested::Nested(nested::Struct),
    &nested::Nested(nested::List),
    &nested::Nested(nested::FixedList),
    &nested::Nested(nested::Keys),
    &nested::Nested(nested::RunEnds),
    // Looks at what all others leave.
    &lz::Lz,
];

/// The codec of an encoding.
pub(crate) fn codec(encoding: Encoding) -> &'static dyn Codec {
    CODECS[rank(encoding)]
}

/// The place of an encoding in the order in which the planner asks.
pub(crate) fn rank(encoding: Encoding) -> usize {
    static RANKS: LazyLock<[u8; 256]> = LazyLock::new(|| {
        let mut ranks = [0; 256];
        for (rank, codec) in CODECS.iter().enumerate() {
            ranks[codec.encoding() as usize] = rank as u8;
        }
        ranks
    });
    RANKS[encoding as usize].into()
}

/// Some codecs, in the order of [`CODECS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodecSet(u32);

impl CodecSet {
    pub const ALL: Self = Self((1 << CODECS.len()) - 1);

    pub fn of(encodings: impl IntoIterator<Item = Encoding>) -> Self {
        Self(encodings.into_iter().fold(0, |set, encoding| set | 1 << rank(encoding)))
    }

    /// Those that values of a type may have.
    pub fn taking(physical: Physical) -> Self {
        static SETS: LazyLock<[CodecSet; Physical::ALL.len()]> = LazyLock::new(|| {
            Physical::ALL.map(|physical| {
                let taking = CODECS.iter().filter(|codec| codec.takes(physical));
                CodecSet(taking.fold(0, |set, codec| set | 1 << rank(codec.encoding())))
            })
        });
        SETS[physical as usize]
    }

    pub fn has(self, encoding: Encoding) -> bool {
        self.0 >> rank(encoding) & 1 == 1
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Their codecs.
    pub fn codecs(self) -> impl Iterator<Item = &'static dyn Codec> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let rank = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            CODECS.get(rank).copied()
        })
    }
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
        ensure!(
            child.validity().is_none() || node.encoding().is_nested(),
            "a child of {} has nulls of its own",
            node.encoding()
        );
        let may_hold = node.encoding().is_nested() || node.encoding() == Encoding::Pieces;
        ensure!(may_hold || child.encoding() != Encoding::Lz, "lz below {}", node.encoding());
        validate_tree(child)?;
    }
    ensure!(
        node.encoding().suits(node.len()),
        "a {} node of {} values",
        node.encoding(),
        node.len()
    );
    codec(node.encoding()).validate(node)
}

/// Decodes the values of `rows`; see [`Codec::decode`]. Lengths of byte strings are compared with
/// where the node says that each vector begins, so they add up to the bytes.
pub(crate) fn decode(node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
    debug_assert!(rows.start.is_multiple_of(VECTOR) && rows.end <= node.len());
    ensure!(
        output.fits(node.physical(), rows.len()),
        "a {} node of {} values of type {:?} where it does not fit",
        node.encoding(),
        node.len(),
        node.physical()
    );
    let codec = codec(node.encoding());
    let Output::Bytes(lengths, bytes) = output else { return codec.decode(node, rows, output) };
    codec.decode(node, rows.clone(), Output::Bytes(lengths, bytes))?;
    if node.encoding() == Encoding::Pieces {
        // Each piece has been compared.
        return Ok(());
    }
    for (row, lengths) in rows.clone().step_by(VECTOR).zip(lengths.chunks(VECTOR)) {
        let sum: usize = lengths.iter().map(|length| *length as usize).sum();
        let stated = codec.value_bytes_of(node, &(row..row + lengths.len()))?;
        ensure!(
            sum == stated,
            "lengths of the vector of row {row} add up to {sum}, {stated} expected"
        );
    }
    Ok(())
}

/// Bytes of all values of a node of byte strings.
pub(crate) fn value_bytes(node: NodeView<'_>) -> usize {
    codec(node.encoding()).value_bytes(node)
}

/// Bytes of the byte strings of `rows`, which are as those of [`decode`].
pub(crate) fn value_bytes_of(node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
    codec(node.encoding()).value_bytes_of(node, rows)
}

/// Decodes the byte strings of `rows`, which are as those of [`decode`]: their lengths, which
/// add up to the bytes, and these.
pub(crate) fn decode_strings(
    node: NodeView<'_>,
    rows: Range<usize>,
    lengths: &mut [u32],
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; value_bytes_of(node, &rows)?];
    decode(node, rows, Output::Bytes(lengths, &mut bytes))?;
    Ok(bytes)
}

/// Decodes one value; the caller has checked `row` against the node's length.
pub(crate) fn value(node: NodeView<'_>, row: usize) -> Result<Value> {
    codec(node.encoding()).value(node, row)
}

/// Whether a node or one below it has this encoding.
fn has(node: NodeView<'_>, encoding: Encoding) -> bool {
    node.encoding() == encoding || node.children().any(|child| has(child, encoding))
}

/// The first encoding of a tree that `is_sought` is true for.
pub(crate) fn find(node: NodeView<'_>, is_sought: fn(Encoding) -> bool) -> Option<Encoding> {
    let own = Some(node.encoding()).filter(|encoding| is_sought(*encoding));
    let mut below = node.validity().into_iter().chain(node.children());
    own.or_else(|| below.find_map(|child| find(child, is_sought)))
}
