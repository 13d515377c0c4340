//! Bits as bytes, which are encoded in turn: nulls and booleans of which one kind is rare, or
//! that come in runs.
//!
//! ```text
//! child 0, bytes: U8, eight bits each, the first one lowest; zeros behind the last
//! ```
//!
//! Most bytes are then 0 or 255: `pfor` of width 0 keeps the others as exceptions, three bytes
//! each, `rle` where they change. This is what encodings called sparse are for: one value and
//! what differs from it. Integers have `pfor` for that, floats and strings dictionaries, whose
//! codes it packs. 18 nulls among 65,536 rows take 224 bytes instead of 8,192.
//!
//! Readers on CPUs make the bitmap first and then read it as one that is stored, so it has to save a
//! quarter. To plan, changes of bytes are counted; where every other byte is another than the
//! one before nothing is gained.

use std::borrow::Cow;
use std::ops::Range;

use super::io::{OwnedValues, decode_some, mismatch};
use super::plain::bit_bytes;
use super::select::{self, RangeTest, Verdict};
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{self, Answer, SampledRuns, Statistics};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};

pub(super) struct Bits;

/// What bytes may be encoded as.
const CHILDREN: [Encoding; 5] =
    [Encoding::Constant, Encoding::Plain, Encoding::Ffor, Encoding::Pfor, Encoding::Rle];

/// The bytes of bits, to be encoded.
fn child(bytes: &[u8]) -> Input<'_> {
    Input::new(Physical::U8, Values::W8(bytes))
}

/// Whether so many runs of equal bytes may become much smaller.
fn may_pay(runs: usize, bytes: usize) -> bool {
    runs <= bytes / 2
}

/// Whether so many bytes are a quarter less than `limit`.
fn saves(bytes: usize, limit: usize) -> bool {
    bytes <= limit - limit.div_ceil(4)
}

/// For the child: no dictionary, nor are its runs. A sixteenth of the bitmap is enough: runs that
/// take less cost a GPU more time than they are worth.
pub(crate) fn below<'a>(context: &Context<'a>) -> Context<'a> {
    Context { enough: 16, ..context.in_dictionary() }
}

/// The bits of a node that is not constant, as a bitmap.
pub(crate) fn bitmap(node: NodeView<'_>) -> Result<Cow<'_, [u8]>> {
    match node.encoding() {
        Encoding::Plain => Ok(Cow::Borrowed(node.buffer(0))),
        Encoding::Bits => {
            let bytes = node.child(0);
            let mut out = vec![0; bytes.len()];
            super::decode(bytes, 0..bytes.len(), Output::W8(&mut out))?;
            Ok(Cow::Owned(out))
        }
        _ => Err(mismatch(node)),
    }
}

impl Codec for Bits {
    fn encoding(&self) -> Encoding {
        Encoding::Bits
    }

    fn takes(&self, physical: Physical) -> bool {
        physical == Physical::Bool
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if node.physical() != Physical::Bool {
            return Err(mismatch(node));
        }
        node.expect_shape(1, 0, 0)?;
        let bytes = node.child(0);
        ensure!(
            bytes.physical() == Physical::U8 && bytes.len() == node.len().div_ceil(8),
            "{} bytes of type {:?} for {} bits",
            bytes.len(),
            bytes.physical(),
            node.len()
        );
        ensure!(
            CHILDREN.contains(&bytes.encoding()),
            "bytes of bits encoded as {}, which is not allowed",
            bytes.encoding()
        );
        ensure!(!super::has(bytes, Encoding::Dict), "a dictionary of bytes of bits");
        Ok(())
    }

    fn role(&self, _: NodeView<'_>, _: usize) -> NodeRole {
        NodeRole::Bytes
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        if !context.may_nest() {
            return Ok(None);
        }
        let [bytes] = statistics::children(values, Encoding::Bits)?;
        let SampledRuns { runs, rows } = bytes.sampled_runs()?;
        if !may_pay(runs, rows) {
            return Ok(None);
        }
        let children = vec![plan::plan_among(&CHILDREN, &*bytes, &below(context))?];
        let estimate = Estimate { children, ..Estimate::of([]) };
        Ok(Some(estimate).filter(|estimate| saves(estimate.stored_bytes(), context.limit)))
    }

    fn derive(&self, input: &Input<'_>, _: u64) -> Option<Derived> {
        let Values::Bits(bits) = input.values else { return None };
        let bytes = OwnedValues::W8(bit_bytes(input, bits));
        Some(Derived::of([Derivative::new(Physical::U8, bytes)]))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let (Values::Bits(bits), [planned]) = (input.values, plan.children.as_slice()) else {
            return Ok(None);
        };
        let bytes = bit_bytes(input, bits);
        let mut node = EncodedNode::new(Encoding::Bits, input.physical, input.len());
        node.children.push(plan::encode(&child(&bytes), planned, &below(context))?);
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        let Output::Bits(bits) = output else { return Err(mismatch(node)) };
        let bytes: Vec<u8> = decode_some(node.child(0), rows.start / 8..rows.end.div_ceil(8))?;
        bits.append_packed_range(0..rows.len(), &bytes);
        Ok(())
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        Ok(select::bits(bitmap(node)?, test))
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        match super::value(node.child(0), row / 8)? {
            Value::Word(byte) => Ok(Value::Bit(byte >> (row % 8) & 1 == 1)),
            _ => Err(mismatch(node.child(0))),
        }
    }
}

#[cfg(test)]
mod tests;
