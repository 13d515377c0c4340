//! Dictionary: the distinct values of a chunk once, and for each row the code of its own.
//!
//! ```text
//! child 0, codes:       U32 of each row, below the number of distinct values
//! child 1, dictionary:  the distinct values, of the node's own type
//! buffer 0, starts:     of byte strings, where each vector's values begin (`starts.rs`)
//! parameter 0:          of byte strings, bytes of all rows' values
//! ```
//!
//! Values ascend in the dictionary: their neighbours resemble each other, which other
//! encodings make use of, and ranges of values are ranges of codes, so that a scan evaluates a test
//! once for each distinct value and then compares codes. Readers do not rely on the order.
//!
//! What it costs to plan: of the sampled vectors the distinct values are counted; only if these
//! promise 1/16 (strings 1/10) less than the best encoding so far, all rows go through a hash table
//! (`distinct.rs`), whose result the encoder then takes.
//! GPUs decide by the same numbers. Byte strings of a node have at most 1,024 bytes a row
//! on average, as constants have: a few bytes must not make a reader allocate gigabytes.

mod distinct;
mod select;

use std::ops::Range;

pub(crate) use select::select;

pub(crate) use distinct::{
    COUNTED, COUNTED_OF_VECTOR, Distinct, HASHED, SampledValues, saves, saves_any, strings_save,
};

use super::constant::MAX_VALUE_BYTES;
use super::io::{OwnedValues, decoded_words, mismatch, with_words};
use super::select::{RangeTest, Verdict, by_word};
use super::starts::Starts;
use super::{Codec, Encoding, Estimate, Input, Output, Physical, RunCursor, Value, Values, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::host::{Derivative, Derived};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::statistics::{self, Answer, Statistics};
use crate::encoding::tree::{EncodingParameters, NodeRole};
use crate::error::{Result, ensure};
use crate::lanes::VECTOR;

pub(crate) struct Dict;

/// What codes may be encoded as. They have no divisor, as all from 0 on occur.
const CODES: [Encoding; 6] = [
    Encoding::Constant,
    Encoding::Plain,
    Encoding::Ffor,
    Encoding::Pfor,
    Encoding::Delta,
    Encoding::Rle,
];

/// Rows whose codes are decoded before the next.
const BLOCK: usize = 4 * VECTOR;

/// The dictionary's values as rows of their own; none of values that have none.
fn gathered(input: &Input<'_>, distinct: &Distinct) -> Option<OwnedValues> {
    let rows = || distinct.rows.iter().map(|row| *row as usize);
    if let Values::Bytes(values) = input.values {
        let mut offsets = Vec::with_capacity(distinct.rows.len() + 1);
        let mut data = Vec::new();
        offsets.push(0);
        for row in rows() {
            data.extend_from_slice(values.get(row));
            offsets.push(data.len());
        }
        return Some(OwnedValues::Bytes(offsets, data));
    }
    with_words!(Values, input.values, words => {
        Some(Words::owned(rows().map(|row| words[row]).collect()))
    }, None)
}

/// Calls `each` with the codes of rows, some at a time, all of which are below `count`.
fn for_codes(
    codes: NodeView<'_>,
    rows: Range<usize>,
    count: usize,
    mut each: impl FnMut(&[u32], Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut block = vec![0; BLOCK.min(rows.len())];
    let mut done = 0;
    while done < rows.len() {
        let len = BLOCK.min(rows.len() - done);
        let block = &mut block[..len];
        let start = rows.start + done;
        super::decode(codes, start..start + len, Output::W32(block))?;
        let greatest = block.iter().copied().max().unwrap_or(0);
        check_code(greatest, count)?;
        each(block, done..done + len)?;
        done += len;
    }
    Ok(())
}

/// An error if a code has no value.
pub(crate) fn check_code(code: u32, count: usize) -> Result<()> {
    ensure!((code as usize) < count, "code {code} of a dictionary of {count} values");
    Ok(())
}

/// Of byte strings, so many times as many values as rows are looked up one by one rather than
/// all decoded: a value costs a look at the lengths of its vector.
const FEW_STRINGS: usize = 8;

/// The same of words, of which a whole vector may cost as much as one.
const FEW_WORDS: usize = VECTOR;

fn decode_words<T: Words>(node: NodeView<'_>, rows: Range<usize>, out: &mut [T]) -> Result<()> {
    let dictionary = node.child(1);
    if dictionary.len() > rows.len() * FEW_WORDS {
        return for_codes(node.child(0), rows, dictionary.len(), |codes, at| {
            for (value, code) in out[at].iter_mut().zip(codes) {
                let Value::Word(word) = super::value(dictionary, *code as usize)? else {
                    return Err(mismatch(dictionary));
                };
                *value = T::truncate(word);
            }
            Ok(())
        });
    }
    let mut values = vec![T::ZERO; dictionary.len()];
    super::decode(dictionary, 0..values.len(), T::output(&mut values))?;
    for_codes(node.child(0), rows, values.len(), |codes, at| {
        for (value, code) in out[at].iter_mut().zip(codes) {
            *value = values[*code as usize];
        }
        Ok(())
    })
}

/// Words of a node that is read a vector at a time, whose dictionary is decoded once.
pub(crate) struct Cursor<'a> {
    node: NodeView<'a>,
    /// The words of the dictionary, as they are in memory.
    values: Vec<u64>,
}

impl<'a> Cursor<'a> {
    /// Decodes the dictionary of a node of words.
    pub fn new(node: NodeView<'a>) -> Result<Self> {
        let values = by_word!(node, decoded_words(node.child(1)))?;
        Ok(Self { node, values })
    }

    /// The words of some rows, which have the node's type.
    pub fn words<T: Words>(&self, rows: Range<usize>, out: &mut [T]) -> Result<()> {
        if self.node.physical().bits() != Some(T::BITS) {
            return Err(mismatch(self.node));
        }
        let values = &bytemuck::cast_slice::<u64, T>(&self.values)[..self.node.child(1).len()];
        for_codes(self.node.child(0), rows, values.len(), |codes, at| {
            for (value, code) in out[at].iter_mut().zip(codes) {
                *value = values[*code as usize];
            }
            Ok(())
        })
    }
}

/// The words of codes, as they are in memory.
fn looked_up<T: Words>(dictionary: NodeView<'_>, codes: NodeView<'_>) -> Result<Vec<u64>> {
    let values = decoded_words::<T>(dictionary)?;
    let values = &bytemuck::cast_slice::<u64, T>(&values)[..dictionary.len()];
    let mut memory = vec![0_u64; (codes.len() * size_of::<T>()).div_ceil(size_of::<u64>())];
    let words: &mut [T] = &mut bytemuck::cast_slice_mut(&mut memory)[..codes.len()];
    for_codes(codes, 0..codes.len(), values.len(), |codes, at| {
        for (word, code) in words[at].iter_mut().zip(codes) {
            *word = values[*code as usize];
        }
        Ok(())
    })?;
    Ok(memory)
}

/// The byte strings of a dictionary, or of any node of strings: their lengths, where each begins and the last
/// one ends, and their bytes.
pub(crate) fn strings_of(node: NodeView<'_>) -> Result<(Vec<u32>, Vec<usize>, Vec<u8>)> {
    strings_of_rows(node, 0..node.len())
}

/// The same of some rows.
pub(crate) fn strings_of_rows(
    node: NodeView<'_>,
    rows: Range<usize>,
) -> Result<(Vec<u32>, Vec<usize>, Vec<u8>)> {
    let mut lengths = vec![0; rows.len()];
    let bytes = super::decode_strings(node, rows, &mut lengths)?;
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    offsets.push(0);
    offsets.extend(lengths.iter().scan(0, |end, length| {
        *end += *length as usize;
        Some(*end)
    }));
    Ok((lengths, offsets, bytes))
}

/// Bytes that short strings are copied as: one load and one store, whatever their length.
const WIDE: usize = 16;

fn decode_bytes(
    node: NodeView<'_>,
    rows: Range<usize>,
    out_lengths: &mut [u32],
    out: &mut [u8],
) -> Result<()> {
    let dictionary = node.child(1);
    // A value of front coding costs as much as many.
    let is_cheap = !super::has(dictionary, Encoding::Front);
    if is_cheap && dictionary.len() > rows.len() * FEW_STRINGS {
        return decode_few_bytes(node, rows, out_lengths, out);
    }
    let (lengths, offsets, mut bytes) = strings_of(node.child(1))?;
    // Wide copies look behind the last value.
    bytes.resize(bytes.len() + WIDE, 0);
    let (mut end, total) = (0, out.len());
    for_codes(node.child(0), rows, lengths.len(), |codes, at| {
        for (length, code) in out_lengths[at].iter_mut().zip(codes) {
            let (code, start) = (*code as usize, end);
            *length = lengths[code];
            let len = *length as usize;
            end = start + len;
            ensure!(end <= total, "values of more than {total} bytes");
            let from = offsets[code];
            match (out.get_mut(start..start + WIDE), bytes.get(from..from + WIDE)) {
                (Some(to), Some(from)) if len <= WIDE => to.copy_from_slice(from),
                _ => out[start..end].copy_from_slice(&bytes[from..from + len]),
            }
        }
        Ok(())
    })?;
    ensure!(end == total, "lengths of values add up to {end}, {total} expected");
    Ok(())
}

fn decode_few_bytes(
    node: NodeView<'_>,
    rows: Range<usize>,
    out_lengths: &mut [u32],
    out: &mut [u8],
) -> Result<()> {
    let dictionary = node.child(1);
    let (mut end, total) = (0, out.len());
    for_codes(node.child(0), rows, dictionary.len(), |codes, at| {
        for (length, code) in out_lengths[at].iter_mut().zip(codes) {
            let Value::Bytes(value) = super::value(dictionary, *code as usize)? else {
                return Err(mismatch(dictionary));
            };
            let start = end;
            end = start + value.len();
            ensure!(end <= total, "values of more than {total} bytes");
            *length = value.len() as u32;
            out[start..end].copy_from_slice(&value);
        }
        Ok(())
    })?;
    ensure!(end == total, "lengths of values add up to {end}, {total} expected");
    Ok(())
}

impl Codec for Dict {
    fn encoding(&self) -> Encoding {
        Encoding::Dict
    }

    fn cursor<'a>(&self, node: NodeView<'a>) -> Result<super::Cursor<'a>> {
        let codes = node.child(0);
        match node.physical().bits() {
            // Codes in runs are looked up once for each run.
            Some(bits @ (8 | 16 | 32 | 64)) if codes.encoding() == Encoding::Rle => {
                let values = by_word!(node, looked_up(node.child(1), codes.child(0)))?;
                RunCursor::with_values(codes, values, bits).map(super::Cursor::Runs)
            }
            Some(8 | 16 | 32 | 64) => Cursor::new(node).map(super::Cursor::Dictionary),
            _ => Ok(super::Cursor::None(node)),
        }
    }

    fn takes(&self, physical: Physical) -> bool {
        physical == Physical::Bytes || matches!(physical.bits(), Some(8..=64))
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        let is_bytes = node.physical() == Physical::Bytes;
        let is_words = matches!(node.physical().bits(), Some(8 | 16 | 32 | 64));
        if !is_bytes && !is_words {
            return Err(mismatch(node));
        }
        node.expect_shape(2, usize::from(is_bytes), usize::from(is_bytes))?;
        let (codes, dictionary) = (node.child(0), node.child(1));
        ensure!(
            codes.physical() == Physical::U32 && codes.len() == node.len(),
            "{} codes of type {:?} for {} values",
            codes.len(),
            codes.physical(),
            node.len()
        );
        ensure!(
            dictionary.physical() == node.physical(),
            "a dictionary of type {:?} for values of type {:?}",
            dictionary.physical(),
            node.physical()
        );
        ensure!(
            !node.children().any(|child| super::has(child, Encoding::Dict)),
            "a dictionary in a dictionary, which gains nothing and costs readers"
        );
        ensure!(
            (1..=node.len()).contains(&dictionary.len()),
            "a dictionary of {} values for {} rows",
            dictionary.len(),
            node.len()
        );
        if is_bytes {
            let bytes = node.parameter(0);
            ensure!(
                bytes.div_ceil(MAX_VALUE_BYTES as u64) <= node.len() as u64,
                "{bytes} bytes of values in {} rows, at most {MAX_VALUE_BYTES} a row are allowed",
                node.len()
            );
            let starts = Starts::parse(node, node.buffer(0), [bytes as usize; 2])?;
            starts.expect_equal(node)?;
        }
        Ok(())
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        EncodingParameters::Dict { distinct: node.child(1).len() }
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        [NodeRole::Codes, NodeRole::Dictionary][index.min(1)]
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let (rows, limit) = (values.rows(), context.limit);
        let is_bytes = values.physical() == Physical::Bytes;
        if context.in_dictionary || !context.may_search(rows, limit) {
            return Ok(None);
        }
        if is_bytes && values.value_bytes()? > rows * MAX_VALUE_BYTES {
            return Ok(None);
        }
        // Who allows front coding asks for the smallest.
        let saves = match (context.allowed.has(Encoding::Front), is_bytes) {
            (true, _) => saves_any,
            (false, true) => strings_save,
            (false, false) => saves,
        };
        let Some(counted) = values.sampled_values()? else { return Ok(None) };
        let (repeats, most) = (counted.repeats(), counted.most(rows));
        if !repeats || most == 0 || !counted.may_pay(rows, counted.distinct, limit, saves) {
            return Ok(None);
        }
        let distinct = values.search(Encoding::Dict, most as u64)?;
        if !distinct.is_some_and(|distinct| counted.may_pay(rows, distinct, limit, saves)) {
            return Ok(None);
        }
        let below = context.in_dictionary();
        let [codes, distinct] = statistics::children(values, Encoding::Dict)?;
        let children =
            vec![plan::plan_among(&CODES, &*codes, &below)?, plan::plan(&*distinct, &below)?];
        let own = Estimate::of(is_bytes.then(|| values.vectors() * 8));
        let parameters = values.parameters(Encoding::Dict);
        let estimate = Estimate { parameters, children, ..own };
        Ok(Some(estimate).filter(|estimate| saves(estimate.stored_bytes(), limit)))
    }

    /// Codes and distinct values, if these are at most so many.
    fn derive(&self, input: &Input<'_>, most: u64) -> Option<Derived> {
        let distinct = Distinct::find(input, most as usize)?;
        let values = gathered(input, &distinct)?;
        let found = distinct.rows.len();
        let codes = Derivative::new(Physical::U32, OwnedValues::W32(distinct.codes));
        let children = Derived::of([codes, Derivative::new(input.physical, values)]);
        Some(Derived { found, ..children })
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let Parameters::Derived(derived) = &plan.parameters else { return Ok(None) };
        let below = context.in_dictionary();
        let mut node = EncodedNode::new(Encoding::Dict, input.physical, input.len());
        for (child, plan) in derived.children.iter().zip(&plan.children) {
            node.children.push(plan::encode(&child.input(), plan, &below)?);
        }
        if let Values::Bytes(values) = input.values {
            node.parameters[0] = values.total() as u64;
            node.buffers.push(Starts::of_values(values));
        }
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::W8(out) => decode_words(node, rows, out),
            Output::W16(out) => decode_words(node, rows, out),
            Output::W32(out) => decode_words(node, rows, out),
            Output::W64(out) => decode_words(node, rows, out),
            Output::Bytes(lengths, bytes) => decode_bytes(node, rows, lengths, bytes),
            _ => Err(mismatch(node)),
        }
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        select::select(node, |values| super::select::words(values, test))
    }

    fn check_selected(&self, node: NodeView<'_>) -> Result<()> {
        let count = node.child(1).len();
        if !select::has_codes_from(node.child(0), count)? {
            return Ok(());
        }
        for_codes(node.child(0), 0..node.len(), count, |_, _| Ok(()))
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.parameter(0) as usize
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        if node.physical() != Physical::Bytes {
            return Err(mismatch(node));
        }
        Ok(Starts::of(node.buffer(0), [self.value_bytes(node); 2])?.values(rows).len())
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        let code = match super::value(node.child(0), row)? {
            Value::Word(code) => code as u32,
            _ => return Err(mismatch(node.child(0))),
        };
        check_code(code, node.child(1).len())?;
        super::value(node.child(1), code as usize)
    }
}

#[cfg(test)]
mod tests;
