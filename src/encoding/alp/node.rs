//! ALP in a chunk: the node, its layout, and its codec.
//!
//! ```text
//! buffer 0, packed:     as in `ffor`
//! buffer 1, vectors:    V x scale | V x u32 place | V x u32 exceptions (if the chunk has any)
//! buffer 2, exceptions: one block for each vector that has exceptions (`exceptions.rs`)
//! parameter 0:          exceptions of the chunk
//! scale, 64 bits: base (54, signed) << 10 | e << 5 | f
//! scale, 32 bits: base (24, signed) <<  8 | e << 4 | f
//! exceptions:     bits 0..11 their number, bits 11..32 where the block begins, in values
//! ```
//!
//! Base and exponents share a word because a base has at most 52 (23) bits: a
//! vector without exceptions takes 96 bits of parameters for doubles and 64 for
//! floats, the paper's layout 104 and 72.

use std::ops::{Range, RangeInclusive};

use bytemuck::Pod;

use super::decode::Step;
use super::{AlpFloat, Encoded, Exponents, select};
use crate::chunk::{EncodedNode, NodeView, cast};
use crate::encoding::exceptions::{Block, Blocks, Exceptions, block_len};
use crate::encoding::ffor::{self, PACKED_UNIT, Packer, Place, places_at, validate_places};
use crate::encoding::io::{each_vector, mismatch};
use crate::encoding::plan::{Context, Parameters, Plan};
use crate::encoding::select::{RangeTest, Verdict};
use crate::encoding::statistics::{Answer, SampledBytes, Statistics, sampled_vectors};
use crate::encoding::tree::EncodingParameters;
use crate::encoding::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values, Words};
use crate::error::{Result, ensure};
use crate::lanes::{Lane, VECTOR};

pub(crate) struct Alp;

/// A float whose bits are words of a chunk.
pub(crate) trait Float: AlpFloat<Bits: Words, Int: Into<i64> + TryFrom<i64>> + Pod {
    /// Bits of one exponent in a scale.
    const EXPONENT_BITS: usize;
}

impl Float for f32 {
    const EXPONENT_BITS: usize = 4;
}

impl Float for f64 {
    const EXPONENT_BITS: usize = 5;
}

/// Base and exponents of a vector.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale<F: AlpFloat> {
    base: F::Int,
    exponents: Exponents,
}

impl<F: Float> Scale<F> {
    fn to_bits(self) -> F::Bits {
        let base: i64 = self.base.into();
        let exponents =
            u64::from(self.exponents.e) << F::EXPONENT_BITS | u64::from(self.exponents.f);
        F::Bits::truncate((base << (2 * F::EXPONENT_BITS)) as u64 | exponents)
    }

    /// None where the base or an exponent is out of range.
    fn from_bits(bits: F::Bits) -> Option<Self> {
        // The sign bit of the word is the base's.
        let bits = (bits.widen() << (64 - F::Bits::BITS)) as i64 >> (64 - F::Bits::BITS);
        let field = (1 << F::EXPONENT_BITS) - 1;
        let exponents =
            Exponents { e: (bits >> F::EXPONENT_BITS & field) as u8, f: (bits & field) as u8 };
        let base = bits >> (2 * F::EXPONENT_BITS);
        let in_range = base.unsigned_abs() <= F::MAX_BASE.into().unsigned_abs();
        let base = F::Int::try_from(base).ok().filter(|_| in_range)?;
        exponents.is_valid::<F>().then_some(Self { base, exponents })
    }
}

/// The vectors of an encoded node.
pub(super) struct Vectors<'a, F: Float> {
    packed: &'a [F::Bits],
    places: &'a [u32],
    scales: &'a [F::Bits],
    exceptions: Exceptions<'a, F::Bits>,
}

impl<'a, F: Float> Vectors<'a, F> {
    pub fn of(node: NodeView<'a>) -> Result<Self> {
        let vectors = node.len().div_ceil(VECTOR);
        let buffer = node.buffer(1);
        let places_at = places_at::<F>(vectors);
        let locators_at = places_at + vectors * 4;
        let expected = locators_at + if node.parameter(0) > 0 { vectors * 4 } else { 0 };
        ensure!(
            buffer.len() == expected,
            "{} bytes of vector parameters, {expected} expected for {vectors} vectors and {} exceptions",
            buffer.len(),
            node.parameter(0)
        );
        Ok(Self {
            packed: node.typed(0)?,
            places: cast(&buffer[places_at..locators_at])?,
            scales: cast(&buffer[..places_at])?,
            exceptions: Exceptions::new(cast(&buffer[locators_at..])?, node.buffer(2)),
        })
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        validate_places(self.places, F::MAX_WIDTH, node.buffer(0).len())?;
        for (vector, bits) in self.scales.iter().enumerate() {
            ensure!(
                Scale::<F>::from_bits(*bits).is_some(),
                "vector {vector}: exponents or base out of range in {:#x}",
                bits.widen()
            );
        }
        self.exceptions.validate(node.parameter(0))
    }

    fn scale(&self, vector: usize) -> Scale<F> {
        // Validated, so the default is never taken.
        Scale::from_bits(self.scales[vector])
            .unwrap_or(Scale { base: F::Int::default(), exponents: Exponents::default() })
    }

    /// The least and the greatest `e` and `f` of all vectors.
    fn exponents(&self) -> [RangeInclusive<u8>; 2] {
        let of = |part: fn(Exponents) -> u8| {
            let parts = (0..self.scales.len()).map(|vector| part(self.scale(vector).exponents));
            parts.clone().min().unwrap_or(0)..=parts.max().unwrap_or(0)
        };
        [of(|exponents| exponents.e), of(|exponents| exponents.f)]
    }

    /// What turns packed integers of a vector into values.
    pub fn step(&self, vector: usize) -> Step<F> {
        let Scale { base, exponents } = self.scale(vector);
        Step::new(base, exponents)
    }

    /// The packed words of a vector, and their width.
    pub fn packed(&self, vector: usize) -> (&'a [F::Bits], usize) {
        let place = Place::from_bits(self.places[vector]);
        (place.words(self.packed), place.width)
    }

    /// The exceptions of a vector, if it has any.
    pub fn exceptions(&self, vector: usize) -> Result<Option<Block<'a, F::Bits>>> {
        self.exceptions.of(vector)
    }

    fn decode_vector(&self, vector: usize, out: &mut [F; VECTOR]) -> Result<()> {
        let place = Place::from_bits(self.places[vector]);
        let Scale { base, exponents } = self.scale(vector);
        super::decode_vector(place.words(self.packed), base, place.width, exponents, out);
        if let Some(block) = self.exceptions(vector)? {
            block.iter().for_each(|(slot, bits)| out[slot] = F::from_bits(bits));
        }
        Ok(())
    }

    fn decode(&self, rows: Range<usize>, out: &mut [F]) -> Result<()> {
        each_vector(rows, out, |vector, values| self.decode_vector(vector, values))
    }

    fn value(&self, row: usize) -> Result<F::Bits> {
        let (vector, slot) = (row / VECTOR, row % VECTOR);
        if let Some(bits) = self.exceptions.at(vector, slot)? {
            return Ok(bits);
        }
        let place = Place::from_bits(self.places[vector]);
        let Scale { base, exponents } = self.scale(vector);
        let words = place.words(self.packed);
        Ok(super::decode_one::<F>(words, base, place.width, exponents, slot).to_bits())
    }
}

/// Vector `index` of the values, the last one filled up.
fn vector<F: Float>(values: &[F], index: usize) -> std::borrow::Cow<'_, [F; VECTOR]> {
    let values = &values[index * VECTOR..values.len().min((index + 1) * VECTOR)];
    match <&[F; VECTOR]>::try_from(values) {
        Ok(whole) => std::borrow::Cow::Borrowed(whole),
        Err(_) => {
            let mut filled = [F::default(); VECTOR];
            filled[..values.len()].copy_from_slice(values);
            std::borrow::Cow::Owned(filled)
        }
    }
}

/// Candidate exponents, and what the sampled vectors come to with them; none of other values.
pub(crate) fn sampled(input: &Input<'_>) -> Option<(SampledBytes, Parameters)> {
    match (input.physical, input.values) {
        (Physical::F32, Values::W32(words)) => {
            Some(sampled_of::<f32>(input, bytemuck::cast_slice(words)))
        }
        (Physical::F64, Values::W64(words)) => {
            Some(sampled_of::<f64>(input, bytemuck::cast_slice(words)))
        }
        _ => None,
    }
}

fn sampled_of<F: Float>(input: &Input<'_>, values: &[F]) -> (SampledBytes, Parameters) {
    let sampled: Vec<_> = super::sampled_vectors(input.vectors())
        .map(|index| (vector(values, index), input.vector_valid(index)))
        .collect();
    let borrowed: Vec<_> =
        sampled.iter().map(|(values, valid)| (values.as_ref(), *valid)).collect();
    let candidates = super::candidates(&borrowed);
    let packed = packed(input, values, &candidates);
    (packed, Parameters::Alp(candidates))
}

/// From vectors as they are encoded, but for packing them.
fn packed<F: Float>(input: &Input<'_>, values: &[F], candidates: &[Exponents]) -> SampledBytes {
    let mut sum = SampledBytes::default();
    let mut encoded = Encoded::<F>::new();
    for index in sampled_vectors(input.vectors()) {
        let (values, valid) = (vector(values, index), input.vector_valid(index));
        let pair = super::choose(&values, &valid, candidates);
        super::encode_vector(&values, &valid, pair, &mut encoded);
        super::trim(&mut encoded, &valid);
        sum.packed += usize::from(encoded.width) * PACKED_UNIT;
        sum.exceptions += block_len::<F>(encoded.exception_count);
    }
    sum
}

/// The buffers of `vectors` vectors of which `sampled` come to this.
fn estimated(
    value: usize,
    SampledBytes { packed, exceptions }: SampledBytes,
    sampled: usize,
    vectors: usize,
) -> [usize; 3] {
    let locators = if exceptions > 0 { vectors * 4 } else { 0 };
    let of_all = |bytes: usize| bytes * vectors / sampled.max(1);
    [of_all(packed), ffor::vectors_len(value, vectors) + locators, of_all(exceptions)]
}

fn encode<F: Float>(
    input: &Input<'_>,
    values: &[F],
    bytes: usize,
    candidates: &[Exponents],
) -> EncodedNode {
    let vectors = input.vectors();
    let mut packer = Packer::<F::Bits>::with_capacity(vectors, bytes + PACKED_UNIT);
    let mut scales = Vec::with_capacity(vectors);
    let mut blocks = Blocks::default();
    let mut encoded = Encoded::<F>::new();
    for index in 0..vectors {
        let (values, valid) = (vector(values, index), input.vector_valid(index));
        let pair = super::choose(&values, &valid, candidates);
        super::encode_vector(&values, &valid, pair, &mut encoded);
        super::trim(&mut encoded, &valid);
        packer.push(&encoded.values, F::Bits::ZERO, usize::from(encoded.width));
        scales.push(Scale::<F> { base: encoded.base, exponents: pair }.to_bits());
        let bits: &[F::Bits; VECTOR] = bytemuck::cast_ref(values.as_ref());
        blocks.push(bits, &encoded.exceptions);
    }
    let (packed, mut parameters) = packer.finish(&scales);
    parameters.extend_from_slice(blocks.locators());
    let mut node = EncodedNode::new(Encoding::Alp, input.physical, input.len());
    node.parameters[0] = blocks.count() as u64;
    node.buffers = vec![packed, parameters, blocks.into_bytes()];
    node
}

impl Codec for Alp {
    fn encoding(&self) -> Encoding {
        Encoding::Alp
    }

    fn takes(&self, physical: Physical) -> bool {
        matches!(physical, Physical::F32 | Physical::F64)
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(0, 3, 1)?;
        match node.physical() {
            Physical::F32 => Vectors::<f32>::of(node)?.validate(node),
            Physical::F64 => Vectors::<f64>::of(node)?.validate(node),
            _ => Err(mismatch(node)),
        }
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        let scales = match node.physical() {
            Physical::F32 => Vectors::<f32>::of(node).map(|vectors| vectors.exponents()),
            _ => Vectors::<f64>::of(node).map(|vectors| vectors.exponents()),
        };
        let [exponents, factors] = scales.unwrap_or([0..=0, 0..=0]);
        let exceptions = node.parameter(0) as usize;
        EncodingParameters::Alp { bits: ffor::width_range(node), exponents, factors, exceptions }
    }

    fn plan(&self, values: &dyn Statistics, _: &Context<'_>) -> Answer<Option<Estimate>> {
        let (packed, parameters) = values.decimals()?;
        let buffers = estimated(values.word_bytes(), packed, values.sampled(), values.vectors());
        Ok(Some(Estimate { parameters, ..Estimate::of(buffers) }))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        _: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let Parameters::Alp(candidates) = &plan.parameters else { return Ok(None) };
        Ok(match input.values {
            Values::W32(words) => {
                Some(encode::<f32>(input, bytemuck::cast_slice(words), plan.bytes, candidates))
            }
            Values::W64(words) => {
                Some(encode::<f64>(input, bytemuck::cast_slice(words), plan.bytes, candidates))
            }
            _ => None,
        })
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::W32(words) => {
                Vectors::<f32>::of(node)?.decode(rows, bytemuck::cast_slice_mut(words))
            }
            Output::W64(words) => {
                Vectors::<f64>::of(node)?.decode(rows, bytemuck::cast_slice_mut(words))
            }
            _ => Err(mismatch(node)),
        }
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        match node.physical() {
            Physical::F32 => select::select::<f32>(node, test),
            _ => select::select::<f64>(node, test),
        }
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        Ok(Value::Word(match node.physical() {
            Physical::F32 => Vectors::<f32>::of(node)?.value(row)?.widen(),
            _ => Vectors::<f64>::of(node)?.value(row)?,
        }))
    }
}
