//! Frame of reference and bit-packing per vector of 1,024 values (FastLanes;
//! Afroozeh and Boncz, VLDB 2023).
//!
//! ```text
//! buffer 0, packed:  vector 0 | vector 1 | ...      width x 128 bytes each, FastLanes order
//! buffer 1, vectors: V x base | pad | V x u32 place  base as wide as a value
//! place: bits 0..24 where the vector's packed data begin, in units of 128 bytes; bits 24..32 width
//! ```
//!
//! The base is the least valid value of the vector in the type's own order, so
//! that negative numbers need no zigzag; addition wraps. Slots that are null or
//! past the end hold the base, which costs nothing. Arrays of bases and places
//! rather than records of 16 bytes: 12 bytes a vector for 64-bit values, 8 for 32.

use std::ops::{Range, RangeInclusive};

use super::io::{each_vector, mismatch, with_words};
use super::select::{Matcher, RangeTest, Selector, Verdict, by_word};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Words};
use crate::chunk::{EncodedNode, MAX_CHUNK_ROWS, NodeView, cast};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::statistics::{Answer, Statistics};
use crate::encoding::tree::EncodingParameters;
use crate::error::{Result, ensure};
use crate::lanes::simd::multiversion;
use crate::lanes::{self, Lane, Mask, VECTOR};

/// Unit of packed offsets: one bit of 1,024 values.
pub(crate) const PACKED_UNIT: usize = VECTOR / 8;
/// The vectors of a chunk at the greatest width: a place has room for their offsets.
const _: () = assert!(MAX_CHUNK_ROWS / VECTOR * 64 < 1 << 24);

/// Where a vector's packed data lie and how wide they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset in the packed buffer, in units of 128 bytes.
    pub offset: usize,
    /// Bits per value.
    pub width: usize,
}

impl Place {
    pub fn to_bits(self) -> u32 {
        (self.offset as u32) | (self.width as u32) << 24
    }

    pub fn from_bits(bits: u32) -> Self {
        Self { offset: (bits & 0xff_ffff) as usize, width: (bits >> 24) as usize }
    }

    /// The vector's packed words.
    pub fn words<T: Lane>(self, packed: &[T]) -> &[T] {
        let unit = PACKED_UNIT / size_of::<T>();
        &packed[self.offset * unit..][..self.width * unit]
    }
}

/// Packed vectors, growing.
pub(super) struct Packer<T> {
    places: Vec<u32>,
    packed: Vec<T>,
    units: usize,
}

impl<T: Words> Packer<T> {
    pub fn with_capacity(vectors: usize, packed_bytes: usize) -> Self {
        Self {
            places: Vec::with_capacity(vectors),
            packed: Vec::with_capacity(packed_bytes / size_of::<T>()),
            units: 0,
        }
    }

    /// Packs one vector.
    pub fn push(&mut self, values: &[T; VECTOR], base: T, width: usize) {
        self.places.push(Place { offset: self.units, width }.to_bits());
        let start = self.packed.len();
        self.packed.resize(start + width * PACKED_UNIT / size_of::<T>(), T::ZERO);
        lanes::pack(values, base, width, &mut self.packed[start..]);
        self.units += width;
    }

    /// The packed buffer, and the vectors' bases with the places behind them.
    pub fn finish(self, bases: &[T]) -> (Vec<u8>, Vec<u8>) {
        let mut vectors = bytemuck::cast_slice(bases).to_vec();
        vectors.resize(places_at::<T>(bases.len()), 0);
        vectors.extend_from_slice(bytemuck::cast_slice(&self.places));
        (bytemuck::cast_slice(&self.packed).to_vec(), vectors)
    }
}

/// Where the places of `vectors` vectors begin, behind their bases.
pub(super) fn places_at<T>(vectors: usize) -> usize {
    (vectors * size_of::<T>()).next_multiple_of(4)
}

/// Checks that places are dense, in order, and end with the packed buffer.
pub(super) fn validate_places(places: &[u32], max_width: usize, packed_len: usize) -> Result<()> {
    let mut units = 0;
    for (vector, bits) in places.iter().enumerate() {
        let place = Place::from_bits(*bits);
        ensure!(
            place.width <= max_width,
            "vector {vector}: width {}, at most {max_width} is allowed",
            place.width
        );
        ensure!(
            place.offset == units,
            "vector {vector}: packed data at unit {}, {units} expected",
            place.offset
        );
        units += place.width;
    }
    ensure!(
        packed_len == units * PACKED_UNIT,
        "packed buffer of {packed_len} bytes, {} expected",
        units * PACKED_UNIT
    );
    Ok(())
}

/// The least and the greatest width of the vectors of a validated node whose second buffer begins
/// with a word and then a place for each.
pub(super) fn width_range(node: NodeView<'_>) -> RangeInclusive<u8> {
    let vectors = node.len().div_ceil(VECTOR);
    let value = node.physical().bits().unwrap_or(0) / 8;
    let at = (vectors * value).next_multiple_of(4);
    let places = node.buffer(1).get(at..at + vectors * 4).unwrap_or_default();
    let width = |place: &[u8; 4]| Place::from_bits(u32::from_le_bytes(*place)).width as u8;
    let widths = places.as_chunks().0.iter().map(width);
    widths.clone().min().unwrap_or(0)..=widths.max().unwrap_or(0)
}

/// The vectors of an encoded node.
pub(super) struct Vectors<'a, T> {
    packed: &'a [T],
    places: &'a [u32],
    bases: &'a [T],
}

impl<'a, T: Words> Vectors<'a, T> {
    pub fn of(node: NodeView<'a>) -> Result<Self> {
        Self::with(node, node.buffer(1))
    }

    /// With these parameters of vectors: bases and places.
    pub(super) fn with(node: NodeView<'a>, buffer: &'a [u8]) -> Result<Self> {
        let vectors = node.len().div_ceil(VECTOR);
        let places_at = places_at::<T>(vectors);
        let expected = places_at + vectors * 4;
        ensure!(
            buffer.len() == expected,
            "{} bytes of vector parameters, {expected} expected for {vectors} vectors",
            buffer.len()
        );
        Ok(Self {
            packed: node.typed(0)?,
            places: cast(&buffer[places_at..])?,
            bases: cast(&buffer[..vectors * size_of::<T>()])?,
        })
    }

    /// The packed words of a vector, and their width.
    fn packed(&self, vector: usize) -> (&'a [T], usize) {
        let place = Place::from_bits(self.places[vector]);
        (place.words(self.packed), place.width)
    }

    pub(super) fn validate(&self, node: NodeView<'_>) -> Result<()> {
        validate_places(self.places, T::BITS, node.buffer(0).len())
    }

    pub(super) fn unpack(&self, vector: usize, values: &mut [T; VECTOR]) {
        let (words, width) = self.packed(vector);
        lanes::unpack(words, self.bases[vector], width, values);
    }

    /// The values of a vector that are in ranges.
    pub(super) fn select(&self, vector: usize, matcher: &Matcher, mask: &mut Mask) {
        let (words, width) = self.packed(vector);
        matcher.packed(words, width, self.bases[vector], mask);
    }

    fn decode(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        each_vector(rows, out, |vector, values| {
            self.unpack(vector, values);
            Ok(())
        })
    }

    pub(super) fn value(&self, row: usize) -> T {
        let (vector, slot) = (row / VECTOR, row % VECTOR);
        let place = Place::from_bits(self.places[vector]);
        lanes::unpack_one(place.words(self.packed), self.bases[vector], place.width, slot)
    }
}

/// Ranges of values as ranges of packed integers. Where a vector's base and width decide, its
/// packed data are not read.
struct PackedTest<'a, T> {
    vectors: Vectors<'a, T>,
    matcher: Matcher,
}

impl<T: Words> Selector for PackedTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.vectors.select(vector, &self.matcher, mask);
        Ok(())
    }
}

/// Least and greatest valid value of a vector, in the type's own order.
fn bounds<T: Words>(values: &[T], valid: Option<&[u64]>, signed: bool) -> Option<(T, T)> {
    // With its sign bit flipped a signed number compares like an unsigned one;
    // adding the bit flips it.
    let flip = T::truncate(if signed { 1 << (T::BITS - 1) } else { 0 });
    let (least, greatest) = match valid {
        None => bounds_of_all(values, flip)?,
        Some(words) => {
            let mut found: Option<(T, T)> = None;
            for (values, mut word) in values.chunks(64).zip(words.iter().copied()) {
                while word != 0 {
                    let value = values[word.trailing_zeros() as usize].wrapping_add(flip);
                    word &= word - 1;
                    let (low, high) = found.unwrap_or((value, value));
                    found = Some((low.min(value), high.max(value)));
                }
            }
            found?
        }
    };
    Some((least.wrapping_add(flip), greatest.wrapping_add(flip)))
}

multiversion! {
    /// Least and greatest of values that `flip` is added to.
    fn bounds_of_all<T: Words>(values: &[T], flip: T) -> Option<(T, T)> {
        let first = values.first()?.wrapping_add(flip);
        let values = values.iter().map(|value| value.wrapping_add(flip));
        Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
    }
}

/// Bits that the values of a vector need above their base.
pub(super) fn width<T: Words>((low, high): (T, T)) -> usize {
    64 - high.wrapping_sub(low).widen().leading_zeros() as usize
}

/// Least and greatest valid value of vector `vector`.
pub(crate) fn vector_bounds<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vector: usize,
) -> Option<(T, T)> {
    let values = &words[vector * VECTOR..words.len().min((vector + 1) * VECTOR)];
    let valid = input.valid.map(|_| input.vector_valid(vector));
    bounds(values, valid.as_ref().map(|mask| mask.as_slice()), input.physical.is_signed())
}

/// The sum of the widths of some vectors.
pub(super) fn widths<T: Words>(
    input: &Input<'_>,
    words: &[T],
    vectors: impl Iterator<Item = usize>,
) -> usize {
    vectors.map(|vector| vector_bounds(input, words, vector).map_or(0, width)).sum()
}

/// The buffers that `sampled` of `vectors` vectors promise, whose widths add up to `widths`.
fn estimated(value: usize, widths: usize, sampled: usize, vectors: usize) -> [usize; 2] {
    [widths * PACKED_UNIT * vectors / sampled.max(1), vectors_len(value, vectors)]
}

/// Bytes of the parameters of vectors of values of `value` bytes.
pub(crate) fn vectors_len(value: usize, vectors: usize) -> usize {
    (vectors * value).next_multiple_of(4) + vectors * 4
}

fn encode<T: Words>(input: &Input<'_>, words: &[T], bytes: usize) -> EncodedNode {
    let mut packer = Packer::with_capacity(input.vectors(), bytes);
    let mut bases = Vec::with_capacity(input.vectors());
    for (vector, values) in words.chunks(VECTOR).enumerate() {
        let (low, high) = vector_bounds(input, words, vector).unwrap_or((T::ZERO, T::ZERO));
        let width = width((low, high));
        bases.push(low);
        match <&[T; VECTOR]>::try_from(values) {
            Ok(values) if input.valid.is_none() => packer.push(values, low, width),
            _ => {
                let mut filled = [low; VECTOR];
                filled[..values.len()].copy_from_slice(values);
                let mask = input.vector_valid(vector);
                for (slot, value) in filled.iter_mut().enumerate() {
                    if mask[slot / 64] >> (slot % 64) & 1 == 0 {
                        *value = low;
                    }
                }
                packer.push(&filled, low, width);
            }
        }
    }
    let (packed, vectors) = packer.finish(&bases);
    let mut node = EncodedNode::new(Encoding::Ffor, input.physical, input.len());
    node.buffers = vec![packed, vectors];
    node
}

pub(super) struct Ffor;

impl Codec for Ffor {
    fn encoding(&self) -> Encoding {
        Encoding::Ffor
    }

    fn takes(&self, physical: Physical) -> bool {
        physical.is_integer()
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        fn check<T: Words>(node: NodeView<'_>) -> Result<()> {
            Vectors::<T>::of(node)?.validate(node)
        }
        node.expect_shape(0, 2, 0)?;
        if !node.physical().is_integer() {
            return Err(mismatch(node));
        }
        match node.physical().bits() {
            Some(8) => check::<u8>(node),
            Some(16) => check::<u16>(node),
            Some(32) => check::<u32>(node),
            _ => check::<u64>(node),
        }
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        EncodingParameters::Ffor { bits: width_range(node) }
    }

    fn plan(&self, values: &dyn Statistics, _: &Context<'_>) -> Answer<Option<Estimate>> {
        let bytes = values.word_bytes();
        let (sampled, vectors) = (values.sampled(), values.vectors());
        Ok(Some(Estimate::of(estimated(bytes, values.widths()?, sampled, vectors))))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        _: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        Ok(with_words!(Values, input.values, words => Some(encode(input, words, plan.bytes)), None))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        with_words!(Output, output, words => {
            Vectors::of(node)?.decode(rows, words)
        }, Err(mismatch(node)))
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        fn of<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
            let vectors = Vectors::<T>::of(node)?;
            Ok(Verdict::some(PackedTest { vectors, matcher: Matcher::new(test) }))
        }
        by_word!(node, of(node, &test.of_integers()))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        let word = match node.physical().bits() {
            Some(8) => Vectors::<u8>::of(node)?.value(row).widen(),
            Some(16) => Vectors::<u16>::of(node)?.value(row).widen(),
            Some(32) => Vectors::<u32>::of(node)?.value(row).widen(),
            _ => Vectors::<u64>::of(node)?.value(row),
        };
        Ok(Value::Word(word))
    }
}
