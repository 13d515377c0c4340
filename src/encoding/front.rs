//! Front coding: of each string the bytes that it shares with the one before, and the rest.
//!
//! ```text
//! child 0, prefixes:  U32 of each row: how many of its first bytes are those of the row before;
//!                     0 in every 64th row
//! child 1, suffixes:  what is left of each, byte strings: plain, constant or fsst
//! buffer 0, starts:   where each vector's values begin (`starts.rs`)
//! parameter 0:        bytes of all values
//! ```
//!
//! Strings in order (keys, paths, dictionaries) begin as their neighbours do, and FSST, which
//! takes each string alone, pays for it again and again. Every byte of a prefix stands in the
//! suffix of the nearest row before whose prefix is no longer than the byte's place: a string
//! is found from its own suffix and those of a few rows before, 63 at most, and all strings can
//! be put together at the same time.
//!
//! Columns of the shared data that it makes smaller (half of all bytes of strings) take 5.6 %
//! less than by FSST alone: names 19 %, dictionaries of strings 5 to 50 %. Blocks of 16 rows 4.8,
//! of 128 5.3, of 1,024 4.9 %. Lost, though they need fewer rows to find one: prefixes of the
//! first row of 16 or 64 (3.3, 3.1 %), of one text for each 64 or 1,024 (3.6, 3.4 %), of the row
//! whose number lacks the lowest bit set, in blocks of 64 (4.5 %).
//!
//! One thread of a busy machine: such columns are compressed in 1.06 to 1.8 times the time, and
//! decompressed at 1.8 to 2.8 GB/s (4 to 7 by FSST alone; a dictionary of short strings at 0.75
//! for 4.5); a single value takes 7 to 9 us rather than 2, or as long as its vector. Columns that do not gain take at most
//! 4 % longer to compress.
//!
//! What it costs to plan: of sampled vectors prefixes are measured; only if they are worth
//! three times what they take (in all columns that gain more than a few bytes four times, in
//! others at most 2.7) are all strings split. Suffixes take the symbol table of whole strings
//! where that does not slip, else one of their own.

use std::borrow::Cow;
use std::ops::Range;

use super::constant::MAX_VALUE_BYTES;
use super::io::{OwnedValues, decode_u32, mismatch};
use super::starts::Starts;
use super::{BytesValues, Codec, Encoding, Estimate, Input, Output, Physical, Value, Values};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::statistics::{self, Answer, Prefixes, Statistics};
use crate::encoding::tree::{EncodingParameters, NodeRole};
use crate::error::{Result, ensure};
use crate::lanes::VECTOR;

pub(super) struct Front;

/// Rows that look at each other: in the first of them prefixes are 0.
pub(crate) const BLOCK: usize = 64;

/// How many times what prefixes take they are to be worth.
const LEAST_GAIN: u128 = 3;

/// What suffixes may be encoded as.
const SUFFIXES: [Encoding; 3] = [Encoding::Constant, Encoding::Plain, Encoding::Fsst];

/// The prefixes and suffixes of strings.
fn split(values: BytesValues<'_>) -> (OwnedValues, OwnedValues) {
    let rows = values.len();
    let prefixes: Vec<u32> = (0..rows).map(|row| prefix(values, row)).collect();
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut data = Vec::new();
    offsets.push(0);
    for (row, prefix) in prefixes.iter().enumerate() {
        data.extend_from_slice(&values.get(row)[*prefix as usize..]);
        offsets.push(data.len());
    }
    (OwnedValues::W32(prefixes), OwnedValues::Bytes(offsets, data))
}

/// How many of a value's first bytes are those of the one before.
pub(super) fn prefix(values: BytesValues<'_>, row: usize) -> u32 {
    if row.is_multiple_of(BLOCK) {
        return 0;
    }
    let (before, value) = (values.get(row - 1), values.get(row));
    let words = before.as_chunks::<8>().0.iter().zip(value.as_chunks::<8>().0);
    let equal = 8 * words.take_while(|(before, value)| before == value).count();
    let rest = before[equal..].iter().zip(&value[equal..]);
    (equal + rest.take_while(|(before, value)| before == value).count()) as u32
}

/// Whether prefixes promise to save [`LEAST_GAIN`] times what they take, of a chunk of `total`
/// bytes that takes `context.limit` without: their bytes are worth as much as others.
fn may_pay(prefixes: &Prefixes<'_>, total: usize, context: &Context<'_>) -> Answer<bool> {
    let Prefixes { saved, bytes, ref lengths } = *prefixes;
    if saved == 0 {
        return Ok(false);
    }
    let among = [Encoding::Constant, Encoding::Ffor, Encoding::Pfor];
    let cost = plan::plan_among(&among, &**lengths, &context.below())?.bytes;
    let least = context.limit.min(total);
    Ok(u128::from(saved) * least as u128 > LEAST_GAIN * cost as u128 * bytes as u128)
}

/// The error for prefixes that the row before does not have.
fn check_prefix(row: usize, prefix: usize, before: usize) -> Result<()> {
    let most = if row.is_multiple_of(BLOCK) { 0 } else { before };
    ensure!(prefix <= most, "row {row} begins with {prefix} bytes of a row that has {most}");
    Ok(())
}

/// Suffixes that are looked up one by one rather than with all of their vector.
const FEW_SUFFIXES: usize = 4;

/// Some suffixes of a vector.
enum Suffixes<'a> {
    Few(NodeView<'a>),
    /// From this row on: where each begins, and the end.
    All(usize, Vec<usize>, Vec<u8>),
}

impl<'a> Suffixes<'a> {
    /// Of `vector`, of which `needed` are looked at.
    fn of(node: NodeView<'a>, vector: &Range<usize>, needed: usize) -> Result<Self> {
        if needed <= FEW_SUFFIXES {
            return Ok(Self::Few(node));
        }
        let mut lengths = vec![0; vector.len()];
        let bytes = super::decode_strings(node, vector.clone(), &mut lengths)?;
        let mut offsets = vec![0];
        offsets.extend(lengths.iter().scan(0, |end, length| {
            *end += *length as usize;
            Some(*end)
        }));
        Ok(Self::All(vector.start, offsets, bytes))
    }

    fn get(&self, row: usize) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::All(first, offsets, bytes) => {
                let at = row - first;
                Ok(Cow::Borrowed(&bytes[offsets[at]..offsets[at + 1]]))
            }
            Self::Few(node) => match super::value(*node, row)? {
                Value::Bytes(bytes) => Ok(Cow::Owned(bytes)),
                _ => Err(mismatch(*node)),
            },
        }
    }
}

impl Codec for Front {
    fn encoding(&self) -> Encoding {
        Encoding::Front
    }

    fn takes(&self, physical: Physical) -> bool {
        physical == Physical::Bytes
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if node.physical() != Physical::Bytes {
            return Err(mismatch(node));
        }
        node.expect_shape(2, 1, 1)?;
        let (prefixes, suffixes) = (node.child(0), node.child(1));
        ensure!(
            prefixes.physical() == Physical::U32 && prefixes.len() == node.len(),
            "{} prefixes of type {:?} for {} values",
            prefixes.len(),
            prefixes.physical(),
            node.len()
        );
        ensure!(
            suffixes.physical() == Physical::Bytes && suffixes.len() == node.len(),
            "{} suffixes of type {:?} for {} values",
            suffixes.len(),
            suffixes.physical(),
            node.len()
        );
        ensure!(
            SUFFIXES.contains(&suffixes.encoding()),
            "suffixes are encoded as {}",
            suffixes.encoding()
        );
        let bytes = node.parameter(0);
        ensure!(
            bytes.div_ceil(MAX_VALUE_BYTES as u64) <= node.len() as u64,
            "{bytes} bytes of values in {} rows, at most {MAX_VALUE_BYTES} a row are allowed",
            node.len()
        );
        let of_suffixes = super::value_bytes(suffixes);
        ensure!(
            of_suffixes as u64 <= bytes,
            "{bytes} bytes of values with {of_suffixes} bytes of suffixes"
        );
        Starts::parse(node, node.buffer(0), [bytes as usize; 2])?.expect_equal(node)
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        EncodingParameters::Front { value_bytes: node.parameter(0) as usize }
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        [NodeRole::Prefixes, NodeRole::Suffixes][index.min(1)]
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        if !context.may_nest() {
            return Ok(None);
        }
        let total = values.value_bytes()?;
        if total > values.rows() * MAX_VALUE_BYTES {
            return Ok(None);
        }
        match values.sampled_prefixes()? {
            Some(prefixes) if may_pay(&prefixes, total, context)? => {}
            _ => return Ok(None),
        }
        let below = context.below();
        let [prefixes, suffixes] = statistics::children(values, Encoding::Front)?;
        let parameters = values.parameters(Encoding::Front);
        let children =
            vec![plan::plan(&*prefixes, &below)?, plan::plan_among(&SUFFIXES, &*suffixes, &below)?];
        Ok(Some(Estimate { parameters, children, ..Estimate::of([values.vectors() * 8]) }))
    }

    /// Prefixes and suffixes.
    fn derive(&self, input: &Input<'_>, _: u64) -> Option<Derived> {
        let Values::Bytes(values) = input.values else { return None };
        let (prefixes, suffixes) = split(values);
        Some(Derived::of([
            Derivative::new(Physical::U32, prefixes),
            Derivative::new(Physical::Bytes, suffixes),
        ]))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let (Values::Bytes(values), Parameters::Derived(split)) = (input.values, &plan.parameters)
        else {
            return Ok(None);
        };
        let below = context.below();
        let mut node = EncodedNode::new(Encoding::Front, input.physical, input.len());
        for (child, plan) in split.children.iter().zip(&plan.children) {
            node.children.push(plan::encode(&child.input(), plan, &below)?);
        }
        node.parameters[0] = values.total() as u64;
        node.buffers.push(Starts::of_values(values));
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        let Output::Bytes(lengths, out) = output else { return Err(mismatch(node)) };
        let prefixes = decode_u32(node.child(0), rows.clone())?;
        let suffixes = super::decode_strings(node.child(1), rows.clone(), lengths)?;
        let total = out.len();
        let (mut from, mut before, mut end) = (0, 0, 0);
        for (index, (length, prefix)) in lengths.iter_mut().zip(prefixes).enumerate() {
            let (prefix, suffix) = (prefix as usize, *length as usize);
            check_prefix(rows.start + index, prefix, end - before)?;
            let start = end;
            end = start + prefix + suffix;
            ensure!(end <= total, "values of more than {total} bytes");
            out.copy_within(before..before + prefix, start);
            out[start + prefix..end].copy_from_slice(&suffixes[from..from + suffix]);
            *length = (prefix + suffix) as u32;
            from += suffix;
            before = start;
        }
        ensure!(end == total, "lengths of values add up to {end}, {total} expected");
        Ok(())
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.parameter(0) as usize
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        Ok(Starts::of(node.buffer(0), [self.value_bytes(node); 2])?.values(rows).len())
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        let vector = row / VECTOR * VECTOR..node.len().min((row / VECTOR + 1) * VECTOR);
        let prefixes = decode_u32(node.child(0), vector.clone())?;
        // Where the bytes of the prefix stand: rows, and how many bytes end in their suffixes.
        let mut missing = prefixes[row - vector.start] as usize;
        let most = self.value_bytes_of(node, &vector)?;
        ensure!(missing <= most, "row {row} begins with {missing} bytes, its vector has {most}");
        let mut value = vec![0; missing];
        let mut parts = Vec::new();
        let mut at = row;
        while missing > 0 {
            check_prefix(at, missing, usize::MAX)?;
            at -= 1;
            let prefix = prefixes[at - vector.start] as usize;
            if prefix < missing {
                parts.push((at, prefix..missing));
                missing = prefix;
            }
        }
        let suffixes = Suffixes::of(node.child(1), &vector, parts.len() + 1)?;
        for (at, part) in parts {
            let suffix = suffixes.get(at)?;
            check_prefix(at + 1, part.end, part.start + suffix.len())?;
            value[part.clone()].copy_from_slice(&suffix[..part.len()]);
        }
        let own = suffixes.get(row)?;
        value.extend_from_slice(&own);
        Ok(Value::Bytes(value))
    }
}

#[cfg(test)]
mod tests;
