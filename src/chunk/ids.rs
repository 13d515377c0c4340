//! The names of encodings and physical types, and their numbers in headers.

use std::fmt;

use super::header::MAX_CHUNK_ROWS;
use crate::error::{Error, Result};

/// Most values of a node.
pub(crate) const MAX_VALUES: usize = u32::MAX as usize;

/// What an encoding is and where it serves: a row of [`ROWS`].
struct Row {
    encoding: Encoding,
    name: &'static str,
    /// Whether it is looked for at length, so that [`Effort::Fast`](crate::Effort::Fast) does
    /// without it.
    is_searched: bool,
    role: Role,
    /// How many values its nodes may have.
    len: Len,
    /// What reads its values on a device (`kernels/lanepack/reader.cuh`); none if they are decoded
    /// first, or are no bits nor words of up to 64 bits.
    reader: Option<DeviceReader>,
    /// How nodes of it store strings; none if they store none.
    strings: Option<StringForm>,
}

/// Which arrays an encoding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Flat ones; GPUs read and write it.
    Flat,
    /// The same, but only [`Effort::Small`](crate::Effort::Small) tries it.
    FlatIfSmall,
    /// Arrays whose children are arrays, with nulls of their own; only the CPU reads and writes
    /// them.
    Nested,
    /// Children of nested arrays.
    Child,
}

/// How many values a node may have: few encodings are made for nodes without values, or with more
/// than a chunk has rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Len {
    /// Those of a chunk, at least one.
    Chunk,
    /// Those of a chunk, or none.
    ChunkOrNone,
    Any,
    MoreThanChunk,
}

/// Makes [`Encoding`] and its rows, so that both stand in one place.
macro_rules! encodings {
    ($($(#[$doc:meta])* $name:ident = $id:literal: $text:literal, $is_searched:literal, $role:ident,
        $len:ident, $reader:expr, $strings:expr;)*) => {
        /// How the values of a node are stored. docs/FORMAT.md has the bytes of each.
        ///
        /// ```
        /// use lanepack::{Effort, Encoding};
        /// assert_eq!(Encoding::Ffor.to_string(), "ffor");
        /// assert!(!Effort::Balanced.encodings().contains(Encoding::Front));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Encoding {
            $($(#[$doc])* $name = $id,)*
        }

        /// One for each encoding, in the order of their numbers.
        const ROWS: &[Row] = &[$(Row {
            encoding: Encoding::$name,
            name: $text,
            is_searched: $is_searched,
            role: Role::$role,
            len: Len::$len,
            reader: $reader,
            strings: $strings,
        },)*];

        impl Encoding {
            /// All encodings, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

encodings! {
    /// The values as they are.
    Plain = 0: "plain", false, Flat, Any, LEAF, Some(StringForm::Bytes);
    /// One value for all rows.
    Constant = 1: "constant", false, Flat, ChunkOrNone, LEAF, Some(StringForm::One);
    /// Frame of reference and bit-packing, per vector of 1,024 values (FastLanes: Afroozeh and Boncz,
    /// VLDB 2023, section 2).
    Ffor = 2: "ffor", false, Flat, Chunk, LEAF, None;
    /// Adaptive lossless floating point: decimals as integers, bit-packed (ALP: Afroozeh, Kuffo and
    /// Boncz, SIGMOD 2023, section 3.1; on GPUs as G-ALP).
    Alp = 3: "alp", false, Flat, Chunk, LEAF, None;
    /// Fast static symbol table for strings (FSST: Boncz, Neumann and Leis, VLDB 2020).
    Fsst = 4: "fsst", false, Flat, Chunk, None, Some(StringForm::Codes);
    /// 128- and 256-bit integers as 64-bit limbs.
    Limbs = 5: "limbs", false, Flat, Chunk, None, None;
    /// Distinct values once, and their codes.
    Dict = 6: "dict", true, Flat, Chunk, Some(DeviceReader::Lookup { name: "Dict" }),
        Some(StringForm::Lookup);
    /// Runs of equal values, cut at vectors.
    Rle = 7: "rle", true, Flat, Chunk, parent("Rle", Keeps::Runs), None;
    /// Differences of neighbours, in lanes (after FastLanes); they are encoded in turn.
    Delta = 8: "delta", true, Flat, Chunk, parent("Delta", Keeps::Vector), None;
    /// Frame of reference and bit-packing with exceptions, per vector (patched frame of reference:
    /// Zukowski, Heman, Nes and Boncz, ICDE 2006).
    Pfor = 9: "pfor", true, Flat, Chunk, LEAF, None;
    /// Floats whose left bits are of a small dictionary, their right bits as they are (ALP-RD: as
    /// ALP, section 3.4).
    AlpRd = 10: "alp_rd", true, Flat, Chunk, LEAF, None;
    /// What strings share with those before, and the rest of each.
    Front = 11: "front", true, FlatIfSmall, Chunk, None, Some(StringForm::Prefixes);
    /// Multiples of a common divisor, from an offset on: their quotients.
    Gcd = 12: "gcd", true, Flat, Chunk, parent("Gcd", Keeps::AsChild), None;
    /// Bits as bytes, which are encoded in turn.
    Bits = 13: "bits", true, Flat, Chunk, parent("Bits", Keeps::Bytes), None;
    /// Bytes of which some occur before (LZSS; GPULZ: Zhang et al., ICS 2023, section 3).
    Lz = 14: "lz", true, Flat, Chunk, None, Some(StringForm::Segments);
    /// More values than a chunk has rows, piece by piece.
    Pieces = 16: "pieces", false, Child, MoreThanChunk, None, None;
    /// Structs: each field by itself.
    Struct = 17: "struct", false, Nested, Any, None, None;
    /// Lists, list views and maps: lengths, and the elements of all.
    List = 18: "list", false, Nested, Any, None, None;
    /// Lists of one length: the elements of all.
    FixedList = 19: "fixed_list", false, Nested, Any, None, None;
    /// Dictionary arrays: keys, and the dictionary as it is.
    Keys = 20: "keys", false, Nested, Any, None, None;
    /// Run-end encoded arrays: lengths of runs, and their values.
    RunEnds = 21: "run_ends", false, Nested, ChunkOrNone, None, None;
}

const LEAF: Option<DeviceReader> = Some(DeviceReader::Leaf);

const fn parent(name: &'static str, keeps: Keeps) -> Option<DeviceReader> {
    Some(DeviceReader::Parent { name, keeps })
}

/// One more than the greatest number of an encoding.
const NUMBERS: usize = {
    let (mut most, mut at) = (0, 0);
    while at < ROWS.len() {
        let number = ROWS[at].encoding as usize;
        most = if number > most { number } else { most };
        at += 1;
    }
    most + 1
};

/// The places of rows by the numbers of encodings.
const PLACES: [usize; NUMBERS] = {
    let mut places = [0; NUMBERS];
    let mut at = 0;
    while at < ROWS.len() {
        places[ROWS[at].encoding as usize] = at;
        at += 1;
    }
    places
};

/// Which encodings a list has.
#[derive(Clone, Copy)]
enum EncodingList {
    OnGpus,
    Balanced,
    Nested,
}

impl EncodingList {
    const fn has(self, row: &Row) -> bool {
        match (self, row.role) {
            (Self::OnGpus, Role::Flat | Role::FlatIfSmall)
            | (Self::Balanced, Role::Flat)
            | (Self::Nested, Role::Nested | Role::Child) => true,
            (Self::OnGpus | Self::Balanced | Self::Nested, _) => false,
        }
    }

    const fn count(self) -> usize {
        let (mut count, mut at) = (0, 0);
        while at < ROWS.len() {
            count += self.has(&ROWS[at]) as usize;
            at += 1;
        }
        count
    }

    const fn list<const COUNT: usize>(self) -> [Encoding; COUNT] {
        let mut list = [Encoding::Plain; COUNT];
        let (mut count, mut at) = (0, 0);
        while at < ROWS.len() {
            if self.has(&ROWS[at]) {
                list[count] = ROWS[at].encoding;
                count += 1;
            }
            at += 1;
        }
        list
    }
}

impl Encoding {
    /// Those that GPUs read, and write as the CPU does: all but [`Self::NESTED`].
    pub const ON_GPUS: &[Self] = &EncodingList::OnGpus.list::<{ EncodingList::OnGpus.count() }>();

    /// Those of [`Effort::Balanced`](crate::Effort::Balanced) for flat columns.
    pub(crate) const BALANCED: &[Self] =
        &EncodingList::Balanced.list::<{ EncodingList::Balanced.count() }>();

    /// Those of nested columns, which the CPU takes apart and reads on any engine: without them
    /// such columns are carried as Arrow IPC.
    pub const NESTED: &[Self] = &EncodingList::Nested.list::<{ EncodingList::Nested.count() }>();

    fn row(self) -> &'static Row {
        &ROWS[PLACES[self as usize]]
    }

    /// What reads values of this encoding on a device.
    pub(crate) fn device_reader(self) -> Option<DeviceReader> {
        self.row().reader
    }

    /// How nodes of this encoding store strings; none if they store none.
    pub(crate) fn string_form(self) -> Option<StringForm> {
        self.row().strings
    }

    /// Whether nodes of this encoding are runs of words, whose values are child 0.
    pub(crate) fn is_runs(self) -> bool {
        matches!(self.device_reader(), Some(DeviceReader::Parent { keeps: Keeps::Runs, .. }))
    }

    /// Whether it is looked for at length.
    pub(crate) fn is_searched(self) -> bool {
        self.row().is_searched
    }

    /// Whether nodes of this encoding are arrays whose children are arrays, with nulls of
    /// their own.
    pub(crate) fn is_nested(self) -> bool {
        self.row().role == Role::Nested
    }

    /// Whether a node of so many values may have this encoding.
    pub(crate) fn suits(self, len: usize) -> bool {
        match self.row().len {
            Len::Chunk => (1..=MAX_CHUNK_ROWS).contains(&len),
            Len::ChunkOrNone => len <= MAX_CHUNK_ROWS,
            Len::Any => len <= MAX_VALUES,
            Len::MoreThanChunk => len > MAX_CHUNK_ROWS && len <= MAX_VALUES,
        }
    }

    /// The encoding's name in lower case, as tables and messages show it.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

/// How a node stores strings: what reads, tests and writes them follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringForm {
    /// One behind the other in buffer 0, with lengths as child 0.
    Bytes,
    /// All are buffer 0.
    One,
    /// As codes of the symbol table in buffer 0, with the lengths of these as child 0 and those of
    /// strings as child 1.
    Codes,
    /// As codes (child 0) of distinct strings (child 1).
    Lookup,
    /// As prefixes of the string before (child 0) and suffixes (child 1).
    Prefixes,
    /// As segments of compressed bytes, with lengths as child 0.
    Segments,
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
    /// The vector. Children are leaves, and tests keep nothing in shared memory.
    Vector,
    /// Where runs begin, and their values if the child does not give them one by one. Lengths and
    /// bits of runs may turn out to be damaged.
    Runs,
    /// Nothing: an index says which run each row belongs to. Tests are those of `Runs`.
    IndexedRuns,
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
            .ok_or_else(|| later(format!("unknown encoding {id}")))
    }
}

/// The error for a number that a later version of the library may know: the checksum of the header was right.
fn later(what: String) -> Error {
    Error::unsupported(format!("{what}, maybe of a later version of lanepack"))
}

/// What the values of a node are, apart from their Arrow type.
///
/// ```
/// use lanepack::Physical;
/// assert_eq!((Physical::I16.bits(), Physical::Bytes.bits()), (Some(16), None));
/// assert_eq!(Physical::F64.to_string(), "f64");
/// ```
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
    pub(crate) const ALL: [Self; 15] = [
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
    pub(crate) fn signed(self) -> Option<Self> {
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

impl fmt::Display for Physical {
    /// The type's name in lower case: `i64`, `bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

impl TryFrom<u8> for Physical {
    type Error = Error;

    fn try_from(id: u8) -> Result<Self> {
        Self::ALL
            .get(usize::from(id))
            .copied()
            .ok_or_else(|| later(format!("unknown physical type {id}")))
    }
}
