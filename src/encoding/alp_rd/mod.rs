//! ALP-RD: real doubles, whose bits are cut in two (ALP: Afroozeh, Kuffo and Boncz,
//! SIGMOD 2023, section 3.4).
//!
//! ```text
//! value:  | left, up to 16 bits | right, R bits | S zero bits |
//! packed: | code, C = 0 to 3 bits | right |                       width R + C
//!
//! buffer 0, packed:     V x width x 128 bytes, each vector as in `ffor`
//! buffer 1, dictionary: 8 x u16 left part | V x u32 locator (if the chunk has exceptions)
//! buffer 2, exceptions: one block for each vector that has exceptions (`exceptions.rs`)
//! parameter 0:          exceptions of the chunk
//! parameter 1:          R | number of left parts << 8 | S << 16
//! ```
//!
//! Unlike the paper one packed stream instead of two, and whole values as exceptions:
//! a lane has all of a value, and ALP's device code for exceptions serves both. The
//! zero bits are of floats that were narrower once: bfloat16 as Float32 (keys and
//! values of attention) takes 12.1 bits a value instead of 28.1.
//!
//! Another encoding's promise is the limit: a cut that takes more is no plan, and where the
//! right parts alone take more, as those of most decimals do, none is looked for. Not to look
//! where ALP halves the values lost up to 31 % (fares and fees of taxis, 0.5 and 2.75).

mod cut;
mod vector;

use std::borrow::Cow;
use std::ops::Range;

pub(crate) use cut::{Cut, MOST_ENTRIES, MOST_LEFT, SAMPLE};

use super::exceptions::{Blocks, Exceptions};
use super::ffor::PACKED_UNIT;
use super::io::{each_vector, mismatch};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values, Words};
use crate::chunk::{EncodedNode, NodeView, cast};
use crate::encoding::plan::{Context, Parameters, Plan};
use crate::encoding::statistics::{Answer, Statistics, sampled_vectors};
use crate::encoding::tree::EncodingParameters;
use crate::error::{Result, ensure};
use crate::lanes::{Lane, VECTOR};
use cut::Sample;
use vector::Joint;

/// Bytes of a dictionary.
const DICTIONARY: usize = MOST_ENTRIES * 2;

pub(super) struct AlpRd;

impl Cut {
    pub(crate) fn to_parameter(self) -> u64 {
        (self.right | self.entries << 8 | self.shift << 16) as u64
    }

    /// What [`Self::to_parameter`] was given.
    pub(crate) fn of_parameter(parameter: u64, dictionary: [u16; MOST_ENTRIES]) -> Self {
        let [right, entries, shift] = [0, 8, 16].map(|at| (parameter >> at & 0xff) as usize);
        Self { right, shift, entries, dictionary }
    }

    /// Reads and checks how values of `T` are cut.
    fn parse<T: Words>(parameter: u64, dictionary: &[u16]) -> Result<Self> {
        ensure!(parameter >> 24 == 0, "unknown bits in the cut {parameter:#x}");
        let Self { right, entries, shift, .. } = Self::of_parameter(parameter, [0; MOST_ENTRIES]);
        let left = T::BITS.saturating_sub(right + shift);
        ensure!(
            (1..=MOST_LEFT).contains(&left),
            "left parts of {left} bits, 1 to {MOST_LEFT} are allowed"
        );
        ensure!(
            (1..=MOST_ENTRIES).contains(&entries),
            "{entries} left parts, 1 to {MOST_ENTRIES} are allowed"
        );
        let (used, unused) = dictionary.split_at(entries);
        for (index, entry) in used.iter().enumerate() {
            ensure!(
                u32::from(*entry) >> left == 0,
                "left part {entry:#x} is wider than {left} bits"
            );
            ensure!(!used[..index].contains(entry), "left part {entry:#x} comes twice");
        }
        ensure!(
            unused.iter().all(|entry| *entry == 0),
            "left parts {unused:x?} behind the last of {entries}"
        );
        let mut all = [0; MOST_ENTRIES];
        all.copy_from_slice(dictionary);
        Ok(Self { right, shift, entries, dictionary: all })
    }
}

/// The vectors of an encoded node.
struct Vectors<'a, T> {
    packed: &'a [T],
    joint: Joint<T>,
    exceptions: Exceptions<'a, T>,
}

impl<'a, T: Words> Vectors<'a, T> {
    fn of(node: NodeView<'a>) -> Result<Self> {
        let vectors = node.len().div_ceil(VECTOR);
        let buffer = node.buffer(1);
        let expected = DICTIONARY + if node.parameter(0) > 0 { vectors * 4 } else { 0 };
        ensure!(
            buffer.len() == expected,
            "dictionary and locators of {} bytes, {expected} expected for {vectors} vectors and {} exceptions",
            buffer.len(),
            node.parameter(0)
        );
        let (dictionary, locators) = buffer.split_at(DICTIONARY);
        let cut = Cut::parse::<T>(node.parameter(1), cast(dictionary)?)?;
        let packed_len = vectors.checked_mul(cut.width() * PACKED_UNIT);
        ensure!(
            packed_len == Some(node.buffer(0).len()),
            "packed buffer of {} bytes, {vectors} vectors of width {} expected",
            node.buffer(0).len(),
            cut.width()
        );
        Ok(Self {
            packed: node.typed(0)?,
            joint: Joint::new(&cut),
            exceptions: Exceptions::new(cast(locators)?, node.buffer(2)),
        })
    }

    /// The packed words of a vector.
    fn packed(&self, vector: usize) -> &'a [T] {
        let len = self.joint.packed_len();
        &self.packed[vector * len..][..len]
    }

    fn decode_vector(&self, vector: usize, out: &mut [T; VECTOR]) -> Result<()> {
        self.joint.unpack(self.packed(vector), out);
        if let Some(block) = self.exceptions.of(vector)? {
            block.iter().for_each(|(slot, value)| out[slot] = value);
        }
        Ok(())
    }

    fn decode(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        each_vector(rows, out, |vector, values| self.decode_vector(vector, values))
    }

    fn value(&self, row: usize) -> Result<T> {
        let (vector, slot) = (row / VECTOR, row % VECTOR);
        let value = self.exceptions.at(vector, slot)?;
        Ok(value.unwrap_or_else(|| self.joint.unpack_one(self.packed(vector), slot)))
    }
}

/// Bytes of the buffers of a node.
pub(crate) fn buffers(cut: &Cut, vectors: usize, exceptions: usize) -> [usize; 3] {
    let locators = if exceptions > 0 { vectors * 4 } else { 0 };
    [vectors * cut.width() * PACKED_UNIT, DICTIONARY + locators, exceptions]
}

/// The size that a sample promises which takes `cost` bits with this cut.
pub(crate) fn estimate(cut: Cut, cost: usize, vectors: usize) -> Estimate {
    let bits = cut::of_all(cost, vectors);
    let exceptions = bits.div_ceil(8) - vectors * cut.width() * PACKED_UNIT;
    let buffers = buffers(&cut, vectors, exceptions);
    Estimate { parameters: Parameters::AlpRd(cut), ..Estimate::of(buffers) }
}

/// The best cut of a chunk, and the bits that its sample takes with it; none of other values, nor
/// where the chunk would surely take more than `limit` bytes.
pub(crate) fn sampled_cut(input: &Input<'_>, limit: usize) -> Option<(Cut, usize)> {
    let vectors = input.vectors();
    let sampled = sampled_vectors(vectors);
    match (input.physical, input.values) {
        (Physical::F32, Values::W32(words)) => {
            Sample::draw(input, words, sampled).cut(vectors, limit)
        }
        (Physical::F64, Values::W64(words)) => {
            Sample::draw(input, words, sampled).cut(vectors, limit)
        }
        _ => None,
    }
}

/// Vector `index` of the values, the last one filled up.
fn vector<T: Words>(values: &[T], index: usize) -> Cow<'_, [T; VECTOR]> {
    let values = &values[index * VECTOR..values.len().min((index + 1) * VECTOR)];
    match <&[T; VECTOR]>::try_from(values) {
        Ok(whole) => Cow::Borrowed(whole),
        Err(_) => {
            let mut filled = [T::ZERO; VECTOR];
            filled[..values.len()].copy_from_slice(values);
            Cow::Owned(filled)
        }
    }
}

/// None where more values than the sample promised are exceptions, so that plain values
/// are smaller.
fn encode<T: Words>(input: &Input<'_>, words: &[T], cut: &Cut) -> Option<EncodedNode> {
    let vectors = input.vectors();
    let joint = Joint::<T>::new(cut);
    let mut packed = vec![T::ZERO; vectors * joint.packed_len()];
    let mut blocks = Blocks::default();
    for index in 0..vectors {
        let values = vector(words, index);
        let place = &mut packed[index * joint.packed_len()..][..joint.packed_len()];
        let slots = joint.pack(&values, &input.vector_valid(index), place);
        blocks.push(values.as_ref(), &slots);
    }
    let mut parameters: Vec<u8> = bytemuck::cast_slice(&cut.dictionary).to_vec();
    parameters.extend_from_slice(blocks.locators());
    let exceptions = blocks.count();
    let blocks = blocks.into_bytes();
    let bytes = size_of_val(packed.as_slice()) + parameters.len() + blocks.len();
    if bytes >= size_of_val(words) {
        return None;
    }
    let mut node = EncodedNode::new(Encoding::AlpRd, input.physical, input.len());
    node.parameters = [exceptions as u64, cut.to_parameter()];
    node.buffers = vec![bytemuck::cast_slice(&packed).to_vec(), parameters, blocks];
    Some(node)
}

impl Codec for AlpRd {
    fn encoding(&self) -> Encoding {
        Encoding::AlpRd
    }

    fn takes(&self, physical: Physical) -> bool {
        matches!(physical, Physical::F32 | Physical::F64)
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(0, 3, 2)?;
        match node.physical() {
            Physical::F32 => Vectors::<u32>::of(node)?.exceptions.validate(node.parameter(0)),
            Physical::F64 => Vectors::<u64>::of(node)?.exceptions.validate(node.parameter(0)),
            _ => Err(mismatch(node)),
        }
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        let cut = Cut::of_parameter(node.parameter(1), [0; MOST_ENTRIES]);
        EncodingParameters::AlpRd {
            left_parts: cut.entries,
            right_bits: cut.right as u8,
            zero_bits: cut.shift as u8,
            exceptions: node.parameter(0) as usize,
        }
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let Some((cut, cost)) = values.cut(context.limit)? else { return Ok(None) };
        let estimate = estimate(cut, cost, values.vectors());
        Ok(Some(estimate).filter(|estimate| estimate.stored_bytes() < context.limit))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        _: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let Parameters::AlpRd(cut) = &plan.parameters else { return Ok(None) };
        Ok(match input.values {
            Values::W32(words) => encode(input, words, cut),
            Values::W64(words) => encode(input, words, cut),
            _ => None,
        })
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::W32(words) => Vectors::of(node)?.decode(rows, words),
            Output::W64(words) => Vectors::of(node)?.decode(rows, words),
            _ => Err(mismatch(node)),
        }
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        Ok(Value::Word(match node.physical() {
            Physical::F32 => Vectors::<u32>::of(node)?.value(row)?.widen(),
            _ => Vectors::<u64>::of(node)?.value(row)?,
        }))
    }
}

#[cfg(test)]
mod tests;
