//! One value for all rows.
//!
//! Words of up to 64 bits stand in the node's first parameter, byte strings of
//! at most 1,024 bytes in the only buffer. The limit bounds what a few bytes of
//! input can make a reader allocate to 128 MiB a chunk. A chunk whose values
//! are all null is a constant of zero bits or an empty string.

use std::ops::Range;

use super::io::{mismatch, with_words};
use super::select::{RangeTest, Verdict};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::statistics::{Answer, Statistics};
use crate::encoding::tree::EncodingParameters;
use crate::error::{Result, ensure};
use crate::lanes::Lane;

/// Longest byte string that may be a constant.
pub(crate) const MAX_VALUE_BYTES: usize = 1024;

pub(super) struct Constant;

/// The one value of the input, if there is only one.
pub(super) fn single(input: &Input<'_>) -> Option<Value> {
    let first = input.valid_rows().next();
    match input.values {
        Values::Bits(bits) => {
            let Some(first) = first else { return Some(Value::Bit(false)) };
            let value = bits.value(first);
            let same = input.valid_rows().all(|row| bits.value(row) == value);
            same.then_some(Value::Bit(value))
        }
        Values::Bytes(values) => {
            let Some(first) = first else { return Some(Value::Bytes(Vec::new())) };
            let value = values.get(first);
            let same = value.len() <= MAX_VALUE_BYTES
                && input.valid_rows().all(|row| values.get(row) == value);
            same.then(|| Value::Bytes(value.to_vec()))
        }
        ref words => with_words!(Values, words, words => {
            let Some(first) = first else { return Some(Value::Word(0)) };
            let value = words[first];
            let same = match input.valid {
                None => words.iter().all(|word| *word == value),
                Some(_) => input.valid_rows().all(|row| words[row] == value),
            };
            same.then(|| Value::Word(value.widen()))
        }, None),
    }
}

impl Codec for Constant {
    fn encoding(&self) -> Encoding {
        Encoding::Constant
    }

    fn takes(&self, physical: Physical) -> bool {
        matches!(physical.bits(), Some(1..=64)) || physical == Physical::Bytes
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if node.physical() == Physical::Bytes {
            node.expect_shape(0, 1, 0)?;
            let len = node.buffer(0).len();
            ensure!(
                len <= MAX_VALUE_BYTES,
                "constant of {len} bytes, at most {MAX_VALUE_BYTES} are allowed"
            );
            return Ok(());
        }
        node.expect_shape(0, 0, 1)?;
        let bits = node.physical().bits().filter(|bits| *bits <= 64);
        let Some(bits) = bits else { return Err(mismatch(node)) };
        let value = node.parameter(0);
        ensure!(
            bits == 64 || value >> bits == 0,
            "constant {value:#x} does not fit {:?}",
            node.physical()
        );
        Ok(())
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        let bits = (node.physical() != Physical::Bytes).then(|| node.parameter(0));
        EncodingParameters::Constant { bits }
    }

    fn plan(&self, values: &dyn Statistics, _: &Context<'_>) -> Answer<Option<Estimate>> {
        let is_bytes = values.physical() == Physical::Bytes;
        let of = |bytes: usize| Estimate::of(is_bytes.then_some(bytes));
        Ok(values.single()?.map(of))
    }

    fn encode(&self, input: &Input<'_>, _: &Plan, _: &Context<'_>) -> Result<Option<EncodedNode>> {
        let mut node = EncodedNode::new(Encoding::Constant, input.physical, input.len());
        let Some(value) = single(input) else { return Ok(None) };
        match value {
            Value::Bit(bit) => node.parameters[0] = bit.into(),
            Value::Word(word) => node.parameters[0] = word,
            Value::Bytes(bytes) => node.buffers.push(bytes),
            Value::Wide(_) => return Ok(None),
        }
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::Bits(bits) => bits.append_n(rows.len(), node.parameter(0) != 0),
            Output::Bytes(lengths, bytes) => {
                let value = node.buffer(0);
                lengths.fill(value.len() as u32);
                ensure!(
                    bytes.len() == value.len() * rows.len(),
                    "constant of another total length"
                );
                if !value.is_empty() {
                    bytes
                        .chunks_exact_mut(value.len())
                        .for_each(|slot| slot.copy_from_slice(value));
                }
            }
            words => {
                with_words!(Output, words, words => words.fill(Lane::truncate(node.parameter(0))), {
                    return Err(mismatch(node));
                })
            }
        }
        Ok(())
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.buffer_range(0).len() * node.len()
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        if node.physical() != Physical::Bytes {
            return Err(mismatch(node));
        }
        Ok(node.buffer_range(0).len() * rows.len())
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        Ok(Verdict::constant(test.passes(node.parameter(0))))
    }

    fn value(&self, node: NodeView<'_>, _: usize) -> Result<Value> {
        Ok(match node.physical() {
            Physical::Bool => Value::Bit(node.parameter(0) != 0),
            Physical::Bytes => Value::Bytes(node.buffer(0).to_vec()),
            _ => Value::Word(node.parameter(0)),
        })
    }
}
