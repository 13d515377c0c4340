//! What goes into an encoder and what a decoder fills: arrays of a physical type.

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

use super::Physical;
use crate::error::{Error, Result};
use crate::lanes::{Lane, VECTOR};

/// Words of validity per vector.
const VALID_WORDS: usize = VECTOR / 64;

/// Values of one chunk, or of a child, to be encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub physical: Physical,
    pub values: Values<'a>,
    /// Bit i % 64 of word i / 64 is set where value i is valid; whole vectors,
    /// zero past the end. Absent if all are valid. Arrays have nulls of their own: of them,
    /// the rows that are not below a null.
    pub valid: Option<&'a [u64]>,
    /// Whether byte strings are text, which is scanned more often than other bytes are.
    pub is_text: bool,
}

/// The values themselves. Floats come as their bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values<'a> {
    Bits(&'a BooleanBuffer),
    W8(&'a [u8]),
    W16(&'a [u16]),
    W32(&'a [u32]),
    W64(&'a [u64]),
    /// Words of 64 bits, the lowest first.
    W128(&'a [[u64; 2]]),
    /// Words of 64 bits, the lowest first.
    W256(&'a [[u64; 4]]),
    Bytes(BytesValues<'a>),
    Arrow(&'a ArrayRef),
}

/// Byte strings: value i is `data[offsets[i]..offsets[i + 1]]`, empty where it is null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BytesValues<'a> {
    pub offsets: &'a [usize],
    pub data: &'a [u8],
}

impl<'a> BytesValues<'a> {
    pub fn len(self) -> usize {
        self.offsets.len() - 1
    }

    pub fn get(self, index: usize) -> &'a [u8] {
        &self.data[self.offsets[index]..self.offsets[index + 1]]
    }

    /// Bytes of all values.
    pub fn total(self) -> usize {
        self.offsets[self.len()] - self.offsets[0]
    }

    /// The bytes of all values, one behind the other.
    pub fn bytes(self) -> &'a [u8] {
        &self.data[self.offsets[0]..self.offsets[self.len()]]
    }

    /// Length of every value; the caller has checked that they fit.
    pub fn lengths(self) -> Vec<u32> {
        self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect()
    }
}

/// Values that are derived from others.
#[derive(Debug)]
pub(crate) enum OwnedValues {
    W8(Vec<u8>),
    W16(Vec<u16>),
    W32(Vec<u32>),
    W64(Vec<u64>),
    /// Offsets and data, as [`BytesValues`].
    Bytes(Vec<usize>, Vec<u8>),
}

impl OwnedValues {
    /// As values of a type that are all valid.
    pub fn input(&self, physical: Physical) -> Input<'_> {
        Input::new(
            physical,
            match self {
                Self::W8(words) => Values::W8(words),
                Self::W16(words) => Values::W16(words),
                Self::W32(words) => Values::W32(words),
                Self::W64(words) => Values::W64(words),
                Self::Bytes(offsets, data) => Values::Bytes(BytesValues { offsets, data }),
            },
        )
    }
}

impl<'a> Input<'a> {
    /// Values without nulls.
    pub fn new(physical: Physical, values: Values<'a>) -> Self {
        Self { physical, values, valid: None, is_text: false }
    }

    pub fn len(&self) -> usize {
        match self.values {
            Values::Bits(bits) => bits.len(),
            Values::W8(words) => words.len(),
            Values::W16(words) => words.len(),
            Values::W32(words) => words.len(),
            Values::W64(words) => words.len(),
            Values::W128(words) => words.len(),
            Values::W256(words) => words.len(),
            Values::Bytes(values) => values.len(),
            Values::Arrow(array) => array.len(),
        }
    }

    /// Number of vectors, the last one perhaps short.
    pub fn vectors(&self) -> usize {
        self.len().div_ceil(VECTOR)
    }

    /// Rows of a vector.
    pub fn rows_of(&self, vector: usize) -> std::ops::Range<usize> {
        vector * VECTOR..self.len().min((vector + 1) * VECTOR)
    }

    /// Whether value `index` is valid.
    pub fn is_valid(&self, index: usize) -> bool {
        self.valid.is_none_or(|words| words[index / 64] >> (index % 64) & 1 == 1)
    }

    /// Rows of the valid values.
    pub fn valid_rows(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|index| self.is_valid(*index))
    }

    /// Which slots of a vector hold a valid value: bits past the end are zero.
    pub fn vector_valid(&self, vector: usize) -> [u64; VALID_WORDS] {
        let mut mask = [0; VALID_WORDS];
        match self.valid {
            Some(words) => mask.copy_from_slice(&words[vector * VALID_WORDS..][..VALID_WORDS]),
            None => {
                let rows = (self.len() - vector * VECTOR).min(VECTOR);
                mask[..rows / 64].fill(u64::MAX);
                if let Some(last) = mask.get_mut(rows / 64) {
                    *last = (1 << (rows % 64)) - 1;
                }
            }
        }
        mask
    }
}

/// The order of a type's words, of so many bits, as numbers: of integers their own, of floats
/// IEEE 754 total order.
pub(crate) fn order_of(physical: Physical) -> fn(u64, u32) -> u64 {
    match physical {
        Physical::F32 | Physical::F64 => |word, bits| {
            let sign = 1 << (bits - 1);
            if word & sign == 0 { word | sign } else { !word & (sign | (sign - 1)) }
        },
        physical if physical.is_signed() => |word, bits| word ^ 1 << (bits - 1),
        _ => |word, _| word,
    }
}

/// The least valid value, in the order of its type.
pub(crate) fn least_valid<T: Words>(input: &Input<'_>, words: &[T]) -> Option<T> {
    let order = order_of(input.physical);
    let key = |word: &T| order(word.widen(), T::BITS as u32);
    match input.valid {
        None => words.iter().copied().min_by_key(key),
        Some(_) => input.valid_rows().map(|row| words[row]).min_by_key(key),
    }
}

/// Gives the slots of a vector that are null or past the end the value before them, the first
/// ones the first valid value; where there is none all become `other`.
pub(crate) fn fill_nulls<T: Copy>(values: &mut [T], valid: &[u64; VALID_WORDS], other: T) {
    let is_valid = |slot: usize| valid[slot / 64] >> (slot % 64) & 1 == 1;
    let first = (0..values.len()).find(|slot| is_valid(*slot));
    let mut before = first.map_or(other, |slot| values[slot]);
    for (slot, value) in values.iter_mut().enumerate() {
        if is_valid(slot) {
            before = *value;
        }
        *value = before;
    }
}

/// A null bitmap as [`Input::valid`] wants it.
pub(crate) fn valid_words(bits: &BooleanBuffer) -> Vec<u64> {
    let mut words: Vec<u64> = bits.bit_chunks().iter_padded().collect();
    words.resize(bits.len().div_ceil(VECTOR) * VALID_WORDS, 0);
    words
}

/// Where decoded values go; slices are as long as the rows asked for.
pub(crate) enum Output<'a> {
    /// Bits are appended.
    Bits(&'a mut BooleanBufferBuilder),
    W8(&'a mut [u8]),
    W16(&'a mut [u16]),
    W32(&'a mut [u32]),
    W64(&'a mut [u64]),
    W128(&'a mut [[u64; 2]]),
    W256(&'a mut [[u64; 4]]),
    /// The lengths of the values, and exactly their bytes.
    Bytes(&'a mut [u32], &'a mut [u8]),
}

impl Output<'_> {
    /// Whether this is where `rows` values of a physical type go.
    pub fn fits(&self, physical: Physical, rows: usize) -> bool {
        let (bits, len) = match self {
            Self::Bits(_) => (1, rows),
            Self::W8(words) => (8, words.len()),
            Self::W16(words) => (16, words.len()),
            Self::W32(words) => (32, words.len()),
            Self::W64(words) => (64, words.len()),
            Self::W128(words) => (128, words.len()),
            Self::W256(words) => (256, words.len()),
            Self::Bytes(lengths, _) => return physical == Physical::Bytes && lengths.len() == rows,
        };
        physical.bits() == Some(bits) && len == rows
    }
}

/// One decoded value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Bit(bool),
    /// 8 to 64 bits, zero-extended.
    Word(u64),
    /// Words of 64 bits, the lowest first; 128-bit values use two.
    Wide([u64; 4]),
    Bytes(Vec<u8>),
}

impl Value {
    /// Bytes of a byte string, 0 of all else.
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Bit(_) | Self::Word(_) | Self::Wide(_) => 0,
        }
    }
}

/// The error for a node that does not hold what its parent or column needs.
pub(crate) fn mismatch(node: super::NodeView<'_>) -> Error {
    Error::corrupt(format!(
        "a {} node of type {:?} where it does not fit",
        node.encoding(),
        node.physical()
    ))
}

/// Words of 8 to 64 bits that buffers can be read as.
pub(crate) trait Words: Lane + bytemuck::Pod {
    /// Words to be encoded.
    fn values(words: &[Self]) -> Values<'_>;
    /// Words to be filled.
    fn output(words: &mut [Self]) -> Output<'_>;
    /// Words that are kept.
    fn owned(words: Vec<Self>) -> OwnedValues;
}

macro_rules! words {
    ($($word:ty: $kind:ident)*) => {$(
        impl Words for $word {
            fn values(words: &[Self]) -> Values<'_> {
                Values::$kind(words)
            }

            fn output(words: &mut [Self]) -> Output<'_> {
                Output::$kind(words)
            }

            fn owned(words: Vec<Self>) -> OwnedValues {
                OwnedValues::$kind(words)
            }
        }
    )*};
}

words!(u8: W8 u16: W16 u32: W32 u64: W64);

/// Decodes `rows` of a child of 32-bit unsigned integers (lengths).
pub(crate) fn decode_u32(
    node: super::NodeView<'_>,
    rows: std::ops::Range<usize>,
) -> Result<Vec<u32>> {
    let mut out = vec![0; rows.len()];
    super::decode(node, rows, Output::W32(&mut out))?;
    Ok(out)
}

/// Decodes some words of a child, which may begin anywhere in a vector.
pub(crate) fn decode_some<T: Words>(
    child: super::NodeView<'_>,
    some: std::ops::Range<usize>,
) -> Result<Vec<T>> {
    let start = some.start / VECTOR * VECTOR;
    let end = some.end.next_multiple_of(VECTOR).min(child.len());
    let mut words = vec![T::ZERO; end - start];
    super::decode(child, start..end, T::output(&mut words))?;
    words.truncate(some.end - start);
    words.drain(..some.start - start);
    Ok(words)
}

/// All words of a node, as they are in memory.
pub(crate) fn decoded_words<T: Words>(node: super::NodeView<'_>) -> Result<Vec<u64>> {
    let mut memory = vec![0_u64; (node.len() * size_of::<T>()).div_ceil(size_of::<u64>())];
    let words = &mut bytemuck::cast_slice_mut(&mut memory)[..node.len()];
    super::decode(node, 0..node.len(), T::output(words))?;
    Ok(memory)
}

/// Decodes `rows` vector by vector: `decode` fills a whole vector, of which a short last one
/// takes what it has.
pub(crate) fn each_vector<T: Copy + Default>(
    rows: std::ops::Range<usize>,
    out: &mut [T],
    mut decode: impl FnMut(usize, &mut [T; VECTOR]) -> Result<()>,
) -> Result<()> {
    let first = rows.start / VECTOR;
    for (index, out) in out.chunks_mut(VECTOR).enumerate() {
        match <&mut [T; VECTOR]>::try_from(&mut *out) {
            Ok(whole) => decode(first + index, whole)?,
            Err(_) => {
                let mut last = [T::default(); VECTOR];
                decode(first + index, &mut last)?;
                out.copy_from_slice(&last[..out.len()]);
            }
        }
    }
    Ok(())
}

/// Runs `$body` with `$words` bound to the slice of an [`Values`] or [`Output`]
/// of 8- to 64-bit words; `$other` for all else.
macro_rules! with_words {
    ($kind:ident, $source:expr, $words:ident => $body:expr, $other:expr) => {
        match $source {
            $crate::encoding::io::$kind::W8($words) => $body,
            $crate::encoding::io::$kind::W16($words) => $body,
            $crate::encoding::io::$kind::W32($words) => $body,
            $crate::encoding::io::$kind::W64($words) => $body,
            _ => $other,
        }
    };
}
pub(crate) use with_words;
