//! Trees of encodings as users see them: what each node is, holds and takes.
//!
//! Nodes are read from a chunk's header, their parameters from the beginning of their buffers;
//! no value is decoded. Chunks have been validated, so that all is in range. Each codec tells the
//! parameters of its nodes and the roles of their children ([`Codec::details`], [`Codec::role`]).
//!
//! [`Codec::details`]: super::Codec::details
//! [`Codec::role`]: super::Codec::role

use std::fmt;
use std::ops::RangeInclusive;

use super::codec;
use crate::chunk::{Chunk, Encoding, EncodingSet, NodeView, Physical};

/// How the values of a chunk are stored: a node of the tree of encodings, with those below it.
///
/// Its text ([`Display`](fmt::Display)) has the encodings of a node and, in brackets, of its
/// children without validities, as in `fsst(ffor, ffor)`.
///
/// ```
/// use arrow_array::{ArrayRef, Int64Array};
/// use lanepack::{Encoding, EncodingParameters, NodeRole, Options, compress_array};
/// use std::sync::Arc;
///
/// let hundreds = (0..2000_i64).map(|i| Some(i * i * 7919 % 1000 * 100).filter(|_| i % 7 > 0));
/// let array: ArrayRef = Arc::new(Int64Array::from_iter(hundreds));
/// let column = compress_array(&array, &Options::default())?;
/// let tree = column.chunks()[0].encoding();
/// assert_eq!(tree.to_string(), "gcd(ffor)");
/// assert_eq!((tree.encoding, tree.values), (Encoding::Gcd, 2000));
/// assert!(matches!(tree.parameters, EncodingParameters::Gcd { divisor: 100, .. }));
/// let quotients = tree.child(NodeRole::Quotients).unwrap();
/// assert!(matches!(&quotients.parameters, EncodingParameters::Ffor { bits, .. } if *bits.end() == 10));
/// assert_eq!(tree.validity().unwrap().values, 2000);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EncodingTree {
    /// What the values are to the node above; [`NodeRole::Values`] at the root.
    pub role: NodeRole,
    /// How the values are stored.
    pub encoding: Encoding,
    /// What the values are.
    pub physical: Physical,
    /// Number of values, those under nulls included.
    pub values: usize,
    /// Bytes of the node's own buffers in the chunk's body.
    pub own_bytes: usize,
    /// Bytes of the buffers of the node and of all nodes below it. Those of a root are the chunk's
    /// body without the gaps between buffers.
    pub bytes: usize,
    /// What the encoding has chosen for these values.
    pub parameters: EncodingParameters,
    /// The nodes below: the validity, if some of the values are null, then the others in the order
    /// of docs/FORMAT.md.
    pub children: Vec<EncodingTree>,
}

/// What the values of a node are to the node above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeRole {
    /// The values of a chunk: the role of a root.
    Values,
    /// Which values are not null, as booleans.
    Validity,
    /// Lengths of strings in bytes, or of lists in elements.
    Lengths,
    /// Codes of each string, in bytes.
    CodeLengths,
    /// Indexes into the dictionary beside them.
    Codes,
    /// Distinct values, or those of a dictionary array.
    Dictionary,
    /// Keys of a dictionary array.
    Keys,
    /// The value of each run.
    RunValues,
    /// Values of each run.
    RunLengths,
    /// Differences of neighbours.
    Deltas,
    /// Values less an offset, divided by a common divisor.
    Quotients,
    /// Bytes that each string shares with the one before.
    Prefixes,
    /// What strings have behind their prefixes.
    Suffixes,
    /// 64 bits of wider integers: 0 is the lowest.
    Limb(usize),
    /// Bits, eight to a byte.
    Bytes,
    /// The values of a field of structs, by its index.
    Field(usize),
    /// The elements of all lists.
    Elements,
    /// Some of the values, by index: all but the last piece have 131,072.
    Piece(usize),
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Limb(index) => return write!(f, "limb {index}"),
            Self::Field(index) => return write!(f, "field {index}"),
            Self::Piece(index) => return write!(f, "piece {index}"),
            Self::Values => "values",
            Self::Validity => "validity",
            Self::Lengths => "lengths",
            Self::CodeLengths => "code lengths",
            Self::Codes => "codes",
            Self::Dictionary => "dictionary",
            Self::Keys => "keys",
            Self::RunValues => "run values",
            Self::RunLengths => "run lengths",
            Self::Deltas => "deltas",
            Self::Quotients => "quotients",
            Self::Prefixes => "prefixes",
            Self::Suffixes => "suffixes",
            Self::Bytes => "bytes",
            Self::Elements => "elements",
        };
        f.write_str(name)
    }
}

/// What an encoding has chosen for the values of a node. Of values that differ from vector to vector
/// (1,024 values) it is the least and the greatest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodingParameters {
    /// Encodings that have none.
    None,
    /// [`Encoding::Constant`].
    #[non_exhaustive]
    Constant {
        /// The value's bits, zero above its width; `None` for strings.
        bits: Option<u64>,
    },
    /// [`Encoding::Ffor`].
    #[non_exhaustive]
    Ffor {
        /// Bits of a packed value, per vector.
        bits: RangeInclusive<u8>,
    },
    /// [`Encoding::Pfor`].
    #[non_exhaustive]
    Pfor {
        /// Bits of a packed value, per vector.
        bits: RangeInclusive<u8>,
        /// Values that are stored apart because they need more bits, in all vectors.
        exceptions: usize,
    },
    /// [`Encoding::Alp`] (Afroozeh, Kuffo and Boncz, SIGMOD 2023, section 3.1).
    #[non_exhaustive]
    Alp {
        /// Bits of a packed integer, per vector.
        bits: RangeInclusive<u8>,
        /// Exponent `e` of the multiplication with 10^e that makes integers of values, per vector.
        exponents: RangeInclusive<u8>,
        /// Factor `f` of the division by 10^f behind it, per vector. The greatest one that can be
        /// stored says that a Float32 is the integer divided by 10^e.
        factors: RangeInclusive<u8>,
        /// Values that are stored apart because they are no such decimals, in all vectors.
        exceptions: usize,
    },
    /// [`Encoding::AlpRd`] (as above, section 3.4).
    #[non_exhaustive]
    AlpRd {
        /// Left parts in the dictionary, 1 to 8.
        left_parts: usize,
        /// Bits of a right part.
        right_bits: u8,
        /// Lowest bits that are zero in all values and not stored.
        zero_bits: u8,
        /// Values that are stored apart because their left part is not in the dictionary.
        exceptions: usize,
    },
    /// [`Encoding::Gcd`].
    #[non_exhaustive]
    Gcd {
        /// What quotients are multiplied with.
        divisor: u64,
        /// What is added to the products, modulo the width of the values.
        offset: i128,
    },
    /// [`Encoding::Dict`].
    #[non_exhaustive]
    Dict {
        /// Distinct values.
        distinct: usize,
    },
    /// [`Encoding::Rle`].
    #[non_exhaustive]
    Rle {
        /// Runs; a run ends with its vector.
        runs: usize,
        /// Whether a bit for each value says where runs begin, rather than their lengths.
        is_bitmap: bool,
    },
    /// [`Encoding::Fsst`] (Boncz, Neumann and Leis, VLDB 2020).
    #[non_exhaustive]
    Fsst {
        /// Symbols of the table, at most 255.
        symbols: usize,
        /// Bytes of the codes of all values.
        code_bytes: usize,
        /// Bytes of all values.
        value_bytes: usize,
    },
    /// [`Encoding::Front`].
    #[non_exhaustive]
    Front {
        /// Bytes of all values, of which the suffixes have fewer.
        value_bytes: usize,
    },
    /// [`Encoding::Lz`] (after GPULZ: Zhang et al., ICS 2023, section 3).
    #[non_exhaustive]
    Lz {
        /// Bytes of a symbol: 1, 2, 4 or 8.
        symbol_bytes: usize,
        /// Bytes of a match's offset: 1 at levels 1 to 4, 2 at level 5.
        offset_bytes: usize,
        /// Symbols of a segment but the last.
        segment_symbols: usize,
        /// Segments.
        segments: usize,
        /// Matches of all segments.
        matches: usize,
        /// Bytes of all values.
        value_bytes: usize,
    },
}

/// A parameter as text: its name, its least and its greatest value.
pub(crate) type Fact = (&'static str, [i128; 2]);

impl EncodingParameters {
    /// The parameters as numbers with names, in the order of their fields.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let range = |name, range: &RangeInclusive<u8>| -> Fact {
            (name, [(*range.start()).into(), (*range.end()).into()])
        };
        let one = |name, value: i128| -> Fact { (name, [value; 2]) };
        let count = |name, count: usize| one(name, count as i128);
        match self {
            Self::None | Self::Constant { .. } => Vec::new(),
            Self::Ffor { bits } => vec![range("bits", bits)],
            Self::Pfor { bits, exceptions } => {
                vec![range("bits", bits), count("exceptions", *exceptions)]
            }
            Self::Alp { bits, exponents, factors, exceptions } => vec![
                range("bits", bits),
                range("exponent", exponents),
                range("factor", factors),
                count("exceptions", *exceptions),
            ],
            Self::AlpRd { left_parts, right_bits, zero_bits, exceptions } => vec![
                count("left parts", *left_parts),
                one("right bits", (*right_bits).into()),
                one("zero bits", (*zero_bits).into()),
                count("exceptions", *exceptions),
            ],
            Self::Gcd { divisor, offset } => {
                vec![one("divisor", (*divisor).into()), one("offset", *offset)]
            }
            Self::Dict { distinct } => vec![count("distinct values", *distinct)],
            Self::Rle { runs, .. } => vec![count("runs", *runs)],
            Self::Fsst { symbols, code_bytes, value_bytes } => vec![
                count("symbols", *symbols),
                count("bytes of codes", *code_bytes),
                count("bytes of values", *value_bytes),
            ],
            Self::Front { value_bytes } => vec![count("bytes of values", *value_bytes)],
            Self::Lz {
                symbol_bytes,
                offset_bytes,
                segment_symbols,
                segments,
                matches,
                value_bytes,
            } => vec![
                count("symbol bytes", *symbol_bytes),
                count("offset bytes", *offset_bytes),
                count("segment symbols", *segment_symbols),
                count("segments", *segments),
                count("matches", *matches),
                count("bytes of values", *value_bytes),
            ],
        }
    }
}

impl fmt::Display for EncodingParameters {
    /// Names and values, separated by commas: `bits 3 to 7, exceptions 12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Constant { bits: Some(bits) } = self {
            return write!(f, "bits {bits:#x}");
        }
        f.write_str(&texts(&self.facts()).join(", "))
    }
}

/// A text for each parameter.
pub(crate) fn texts(facts: &[Fact]) -> Vec<String> {
    let text = |(name, [least, most]): &Fact| match least == most {
        true => format!("{name} {least}"),
        false => format!("{name} {least} to {most}"),
    };
    facts.iter().map(text).collect()
}

impl EncodingTree {
    /// The tree of a node and those below it, which have been validated.
    pub(crate) fn of(node: NodeView<'_>, role: NodeRole) -> Self {
        let codec = codec(node.encoding());
        let validity = node.validity().map(|validity| Self::of(validity, NodeRole::Validity));
        let child = |(index, child)| Self::of(child, codec.role(node, index));
        let children: Vec<Self> =
            validity.into_iter().chain(node.children().enumerate().map(child)).collect();
        let own_bytes = (0..node.buffer_count()).map(|index| node.buffer_range(index).len()).sum();
        Self {
            role,
            encoding: node.encoding(),
            physical: node.physical(),
            values: node.len(),
            own_bytes,
            bytes: children.iter().fold(own_bytes, |sum, child| sum + child.bytes),
            parameters: codec.details(node),
            children,
        }
    }

    /// The child with a role; the first of several.
    pub fn child(&self, role: NodeRole) -> Option<&Self> {
        self.children.iter().find(|child| child.role == role)
    }

    /// Which of the values are null, if some are.
    pub fn validity(&self) -> Option<&Self> {
        self.child(NodeRole::Validity)
    }

    /// The encodings of the tree's nodes.
    pub fn encodings(&self) -> EncodingSet {
        let below = self.children.iter().map(Self::encodings);
        below.fold(EncodingSet::from(self.encoding), EncodingSet::union)
    }
}

impl fmt::Display for EncodingTree {
    /// The encodings as in `fsst(ffor, constant)`, without those of validities; of pieces each
    /// that occurs, as in `pieces(ffor + plain)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.children.iter().filter(|child| child.role != NodeRole::Validity);
        f.pad(&text_of(self.encoding, children.map(Self::to_string)))
    }
}

/// The text of a tree of which only the header is at hand.
pub(crate) fn describe(node: NodeView<'_>) -> String {
    text_of(node.encoding(), node.children().map(describe))
}

fn text_of(encoding: Encoding, children: impl Iterator<Item = String>) -> String {
    let is_pieces = encoding == Encoding::Pieces;
    let mut texts: Vec<String> = Vec::new();
    for text in children {
        if !is_pieces || !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.is_empty() {
        true => encoding.to_string(),
        false => format!("{encoding}({})", texts.join(if is_pieces { " + " } else { ", " })),
    }
}

impl Chunk {
    /// How the values are stored: encodings, their parameters, and what each node takes.
    ///
    /// Reads the header and the parameters of vectors, no values.
    pub fn encoding(&self) -> EncodingTree {
        EncodingTree::of(self.root(), NodeRole::Values)
    }
}

#[cfg(test)]
mod tests;
