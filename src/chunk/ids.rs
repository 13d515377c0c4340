//! The names of encodings and physical types, and their numbers in headers.

use std::fmt;

use super::header::MAX_CHUNK_ROWS;
use crate::error::{Error, Result};

/// Most values of a node.
pub(crate) const MAX_VALUES: usize = u32::MAX as usize;

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
    /// Distinct values once, and their codes.
    Dict = 6,
    /// Runs of equal values, cut at vectors.
    Rle = 7,
    /// Differences of neighbours, in lanes; they are encoded in turn.
    Delta = 8,
    /// Frame of reference and bit-packing with exceptions, per vector (patched).
    Pfor = 9,
    /// Floats whose left bits are of a small dictionary, their right bits as they are (ALP-RD).
    AlpRd = 10,
    /// What strings share with those before, and the rest of each.
    Front = 11,
    /// Multiples of a common divisor, from an offset on: their quotients.
    Gcd = 12,
    /// Bits as bytes, which are encoded in turn.
    Bits = 13,
    /// Bytes of which some have stood there before (LZSS, GPULZ).
    Lz = 14,
    /// More values than a chunk has rows, piece by piece.
    Pieces = 16,
    /// Structs: each field by itself.
    Struct = 17,
    /// Lists, list views and maps: lengths, and the elements of all.
    List = 18,
    /// Lists of one length: the elements of all.
    FixedList = 19,
    /// Dictionary arrays: keys, and the dictionary as it is.
    Keys = 20,
    /// Run-end encoded arrays: lengths of runs, and their values.
    RunEnds = 21,
}

impl Encoding {
    /// All encodings.
    pub const ALL: &[Self] = &[
        Self::Plain,
        Self::Constant,
        Self::Ffor,
        Self::Alp,
        Self::Fsst,
        Self::Limbs,
        Self::Dict,
        Self::Rle,
        Self::Delta,
        Self::Pfor,
        Self::AlpRd,
        Self::Front,
        Self::Gcd,
        Self::Bits,
        Self::Lz,
        Self::Pieces,
        Self::Struct,
        Self::List,
        Self::FixedList,
        Self::Keys,
        Self::RunEnds,
    ];

    /// Those that GPUs write as the CPU does; others the CPU writes on any engine. GPUs read
    /// all but [`Self::NESTED`].
    pub const ON_GPUS: &[Self] = &[
        Self::Plain,
        Self::Constant,
        Self::Ffor,
        Self::Pfor,
        Self::Delta,
        Self::Alp,
        Self::AlpRd,
        Self::Fsst,
        Self::Limbs,
        Self::Dict,
        Self::Rle,
        Self::Gcd,
        Self::Bits,
        Self::Lz,
    ];

    /// Those of nested columns, which the CPU reads and writes on any engine: without them
    /// such columns are carried as Arrow IPC.
    pub const NESTED: &[Self] =
        &[Self::Pieces, Self::Struct, Self::List, Self::FixedList, Self::Keys, Self::RunEnds];

    /// What reads values of this encoding on a device (`kernels/lanepack/reader.cuh`); none if
    /// they are decoded first, or are no bits nor words of up to 64 bits.
    pub(crate) fn device_reader(self) -> Option<DeviceReader> {
        match self {
            Self::Plain | Self::Constant | Self::Ffor | Self::Alp | Self::Pfor | Self::AlpRd => {
                Some(DeviceReader::Leaf)
            }
            Self::Delta => Some(DeviceReader::Parent { name: "Delta", keeps: Keeps::Vector }),
            Self::Gcd => Some(DeviceReader::Parent { name: "Gcd", keeps: Keeps::AsChild }),
            Self::Rle => Some(DeviceReader::Parent { name: "Rle", keeps: Keeps::Runs }),
            Self::Bits => Some(DeviceReader::Parent { name: "Bits", keeps: Keeps::Bytes }),
            Self::Dict => Some(DeviceReader::Lookup { name: "Dict" }),
            Self::Fsst | Self::Limbs | Self::Front | Self::Lz => None,
            Self::Pieces
            | Self::Struct
            | Self::List
            | Self::FixedList
            | Self::Keys
            | Self::RunEnds => None,
        }
    }

    /// Whether nodes of this encoding are runs of words, whose values are child 0.
    pub(crate) fn is_runs(self) -> bool {
        matches!(self.device_reader(), Some(DeviceReader::Parent { keeps: Keeps::Runs, .. }))
    }

    /// Whether it is looked for at length, so that [`Effort::Fast`](crate::Effort::Fast) does
    /// without it.
    pub(crate) fn is_searched(self) -> bool {
        match self {
            Self::Pfor
            | Self::Delta
            | Self::AlpRd
            | Self::Dict
            | Self::Rle
            | Self::Front
            | Self::Gcd
            | Self::Bits
            | Self::Lz => true,
            Self::Plain
            | Self::Constant
            | Self::Ffor
            | Self::Alp
            | Self::Fsst
            | Self::Limbs
            | Self::Pieces
            | Self::Struct
            | Self::List
            | Self::FixedList
            | Self::Keys
            | Self::RunEnds => false,
        }
    }

    /// Whether nodes of this encoding are arrays whose children are arrays, with nulls of
    /// their own.
    pub(crate) fn is_nested(self) -> bool {
        matches!(self, Self::Struct | Self::List | Self::FixedList | Self::Keys | Self::RunEnds)
    }

    /// Whether a node of so many values may have this encoding: few are made for nodes
    /// without values, or with more than a chunk has rows.
    pub(crate) fn suits(self, len: usize) -> bool {
        match self {
            Self::Plain | Self::Struct | Self::List | Self::FixedList | Self::Keys => {
                len <= MAX_VALUES
            }
            Self::Pieces => len > MAX_CHUNK_ROWS && len <= MAX_VALUES,
            Self::Constant | Self::RunEnds => len <= MAX_CHUNK_ROWS,
            _ => (1..=MAX_CHUNK_ROWS).contains(&len),
        }
    }

    /// The encoding's name in lower case, as tables and messages show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Constant => "constant",
            Self::Ffor => "ffor",
            Self::Alp => "alp",
            Self::Fsst => "fsst",
            Self::Limbs => "limbs",
            Self::Dict => "dict",
            Self::Rle => "rle",
            Self::Delta => "delta",
            Self::Pfor => "pfor",
            Self::AlpRd => "alp_rd",
            Self::Front => "front",
            Self::Gcd => "gcd",
            Self::Bits => "bits",
            Self::Lz => "lz",
            Self::Pieces => "pieces",
            Self::Struct => "struct",
            Self::List => "list",
            Self::FixedList => "fixed_list",
            Self::Keys => "keys",
            Self::RunEnds => "run_ends",
        }
    }
}

/// The kind of a device reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceReader {
    /// `Words`: nodes without children.
    Leaf,
    /// Reads the children by their readers, the values first.
    Parent { name: &'static str, keeps: Keeps },
    /// Reads child 0, codes, by its reader, and looks values up in child 1, which is decoded.
    Lookup { name: &'static str },
}

/// What a reader keeps in shared memory to give values of a vector in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// What its child does.
    AsChild,
    /// The vector.
    Vector,
    /// Where runs begin, and their values if the child does not give them one by one. Lengths and
    /// bits of runs may turn out to be damaged.
    Runs,
    /// Bytes, each of them eight values: a vector of them for tests.
    Bytes,
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
    /// Values of any other Arrow type: nested, or as an Arrow IPC stream.
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

    /// The signed integers of as many bits, for integers of 8 to 64 bits.
    pub fn signed(self) -> Option<Self> {
        match self {
            Self::I8 | Self::U8 => Some(Self::I8),
            Self::I16 | Self::U16 => Some(Self::I16),
            Self::I32 | Self::U32 => Some(Self::I32),
            Self::I64 | Self::U64 => Some(Self::I64),
            _ => None,
        }
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
