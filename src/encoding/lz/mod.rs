//! LZ: bytes of which some have stood there before, for what no other encoding makes smaller.
//! LZSS over symbols of 1 to 8 bytes, after GPULZ (Zhang et al., ICS 2023, section 3).
//!
//! ```text
//! parameter 0        bytes of all values
//! parameter 1        bits 0..8: bytes of a symbol S; 8..16: bytes of an offset; 16..: symbols of a segment
//! buffer 0, literals symbols that are no part of a match
//! buffer 1, matches  offset of each match, minus 1 (u8 or u16); length of each, minus the least (u8)
//! buffer 2, flags    a bit for each literal (0) and match (1) of segments that have matches
//! buffer 3, segments u32 x 3 for each: flags, matches and literals before it
//! Bytes              buffer 4: where each vector's values begin (`starts.rs`); child 0: lengths, U32
//! ```
//!
//! The values' bytes are cut into segments, which do not look at each other: a value is found
//! by decoding its segment, and a GPU decodes all of them at once. In a segment the streams of
//! flags, matches and literals are read side by side; the k-th item is the k-th flag, and how
//! many matches stand before it is a popcount, so that 32 items are found by as many threads
//! without a loop over them. That is why flags and tokens are not mixed, as GPULZ mixes them.
//! Offsets may be shorter than lengths: a match may repeat what it writes, which costs nothing to
//! write down and doubles the ratio of sorted keys (4.35 to 7.2 for `l_orderkey` as Int64 with
//! S = 2, 9.3 rather than 5.0 with S = 1).
//!
//! How matches are found is in `matches`, how streams are read in `decode`. Levels 1 to 4 are
//! windows of 32, 64, 128 and 255 symbols in segments of 2,048, as published; level 5, the
//! default, has offsets of 16 bits in segments of 64 KiB, and makes TPC-H's comments 2.46 times
//! smaller, where LZ4 (nvCOMP's) has 2.16. Where nothing comes again flags cost nothing, for a
//! segment without matches has none.
//!
//! Where it is chosen: at roots and leaves of nested arrays, for words and carried arrays of which
//! no other encoding saves a tenth, and for byte strings, if it saves a tenth; for text, which others
//! scan and find single values of much faster, if values are long and it saves half.

mod decode;
mod matches;
mod plan;
mod select;

use std::borrow::Cow;
use std::ops::Range;

use super::io::{mismatch, with_words};
use super::plain;
use super::select::{RangeTest, Verdict, by_word};
use super::starts::Starts;
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::plan::{Context, Parameters, Plan, encode_lengths};
use crate::encoding::statistics::{Answer, Statistics};
use crate::encoding::tree::{EncodingParameters, NodeRole};
use crate::error::{Result, ensure};
use crate::options::Lz as Settings;
use decode::Segments;
use matches::Compressor;
pub(crate) use plan::{LzBytes, Promise, smallest};
pub(crate) use select::Cursor;

pub(super) struct Lz;

/// Most bytes of a segment.
pub(crate) const MOST_SEGMENT_BYTES: usize = 1 << 16;

/// Fewest bytes of a segment.
const LEAST_SEGMENT_BYTES: usize = 1 << 10;

/// Bytes that a segment takes beside its streams.
const SEGMENT_ENTRY: usize = 12;

/// Most bytes of all values: their places are words of 32 bits.
const MOST_BYTES: usize = u32::MAX as usize;

/// How segments are cut and matches written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of a symbol: 1, 2, 4 or 8.
    pub symbol: usize,
    /// Bytes of an offset: 1 or 2.
    pub offset: usize,
    /// Symbols of a segment but the last.
    pub segment: usize,
    /// Most symbols that a match looks back; readers need not know.
    pub window: usize,
}

impl Shape {
    /// That of a level, for symbols of so many bytes.
    pub fn of(settings: &Settings, symbol: usize) -> Self {
        let narrow = [32, 64, 128, 255].get(usize::from(settings.level).wrapping_sub(1)).copied();
        let segment = match narrow {
            Some(_) => settings.segment_symbols.unwrap_or(2048),
            None => settings.segment_symbols.unwrap_or(MOST_SEGMENT_BYTES / symbol),
        };
        let range = LEAST_SEGMENT_BYTES / symbol..=MOST_SEGMENT_BYTES / symbol;
        Self {
            symbol,
            offset: if narrow.is_some() { 1 } else { 2 },
            segment: segment.clamp(*range.start(), *range.end()),
            window: narrow.unwrap_or(MOST_SEGMENT_BYTES),
        }
    }

    fn unpack(parameter: u64) -> Self {
        let [symbol, offset] = [parameter & 0xff, parameter >> 8 & 0xff].map(|part| part as usize);
        Self {
            symbol,
            offset,
            segment: (parameter >> 16) as usize,
            window: 1 << (8 * (offset & 3)),
        }
    }

    fn parse(parameter: u64) -> Result<Self> {
        let shape = Self::unpack(parameter);
        let Self { symbol, offset, segment, .. } = shape;
        ensure!(
            matches!(symbol, 1 | 2 | 4 | 8) && matches!(offset, 1 | 2),
            "symbols of {symbol} bytes, offsets of {offset}"
        );
        let bytes = LEAST_SEGMENT_BYTES / symbol..=MOST_SEGMENT_BYTES / symbol;
        ensure!(
            segment.is_power_of_two() && bytes.contains(&segment),
            "segments of {segment} symbols of {symbol} bytes"
        );
        Ok(shape)
    }

    pub fn parameter(self) -> u64 {
        (self.symbol | self.offset << 8 | self.segment << 16) as u64
    }

    /// Fewest symbols of a match: the first number that takes more than the match does.
    pub fn least(self) -> usize {
        match (self.symbol, self.offset) {
            (1, 1) => 3,
            (1, _) => 4,
            (2, _) => 2,
            _ => 1,
        }
    }

    /// Most symbols of a match.
    pub fn most(self) -> usize {
        self.least() + usize::from(u8::MAX)
    }

    /// Bytes of an offset and a length.
    pub fn token(self) -> usize {
        self.offset + 1
    }

    /// Bytes of a segment.
    pub fn segment_bytes(self) -> usize {
        self.segment * self.symbol
    }

    /// Lengths of the buffers of so many bytes with so many flags, matches and literals.
    pub fn lens(self, bytes: usize, [flags, matches, literals]: [usize; 3]) -> [usize; 4] {
        let segments = bytes.div_ceil(self.segment_bytes());
        let streams = [literals * self.symbol, matches * self.token(), flags.div_ceil(8)];
        [streams[0], streams[1], streams[2], segments * SEGMENT_ENTRY]
    }
}

/// How long the streams of a node are that has been validated, as far as its header tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub shape: Shape,
    pub segments: usize,
    pub matches: usize,
    pub literals: usize,
}

impl Layout {
    pub fn of(node: NodeView<'_>) -> Self {
        let shape = Shape::unpack(node.parameter(1));
        Self {
            shape,
            segments: (node.parameter(0) as usize).div_ceil(shape.segment_bytes().max(1)),
            matches: node.buffer_range(1).len() / shape.token(),
            literals: node.buffer_range(0).len() / shape.symbol.max(1),
        }
    }
}

/// The bytes that are compressed; none of booleans, nor of words of more than 64 bits, which
/// are split.
pub(super) fn bytes_of<'a>(input: &Input<'a>) -> Result<Option<Cow<'a, [u8]>>> {
    Ok(Some(match input.values {
        Values::Bits(_) | Values::W128(_) | Values::W256(_) => return Ok(None),
        Values::Bytes(values) => Cow::Borrowed(values.bytes()),
        Values::Arrow(array) => Cow::Owned(plain::stream_of(array)?),
        ref words => with_words!(Values, *words, words => plain::fixed_bytes(input, words), {
            return Ok(None);
        }),
    }))
}

/// Whether this may be the encoding of values that take `limit` bytes otherwise.
pub(super) fn lz_bytes_of(input: &Input<'_>, limit: usize) -> Option<LzBytes> {
    match (input.values, input.physical.bits()) {
        (Values::Bits(_) | Values::W128(_) | Values::W256(_), _) => None,
        (Values::Bytes(values), _) => {
            let widths = || values.offsets.windows(2).map(|pair| pair[1] - pair[0]);
            let first = widths().next().unwrap_or(0);
            let width = widths().all(|width| width == first).then_some(first);
            LzBytes::of_strings(values.total(), values.len(), width, input.is_text, limit)
        }
        (Values::Arrow(array), _) => LzBytes::of_stream(plain::stream_bytes(array), limit),
        (_, bits) => {
            let value = bits.unwrap_or(0) / 8;
            LzBytes::of_words(input.len() * value, value, limit)
        }
    }
}

/// Flags, matches and literals of some stretches of bytes together.
fn counts_of(bytes: &[u8], shape: Shape, parts: impl Iterator<Item = Range<usize>>) -> [usize; 3] {
    let mut compressor = Compressor::new(shape);
    let mut counts = [0; 3];
    for part in parts {
        let here = compressor.find(&bytes[part]);
        counts.iter_mut().zip(here).for_each(|(sum, count)| *sum += count);
    }
    counts
}

/// The shape of segments that takes least of bytes, and the lengths of the buffers then, from a
/// sample; none if there are no matches.
pub(super) fn matches_of(bytes: &[u8], of: &LzBytes, settings: &Settings) -> Option<Promise> {
    let shapes = of.shapes(settings);
    let has_matches = |shape: &Shape| {
        let [_, matches, _] = counts_of(bytes, *shape, of.first_looks(*shape));
        matches > 0
    };
    if !shapes.iter().any(has_matches) {
        return None;
    }
    let of = |shape: Shape| (shape, of.lens(shape, counts_of(bytes, shape, of.sample(shape))));
    smallest(shapes.into_iter().map(of))
}

impl Codec for Lz {
    fn encoding(&self) -> Encoding {
        Encoding::Lz
    }

    fn cursor<'a>(&self, node: NodeView<'a>) -> Result<super::Cursor<'a>> {
        Cursor::new(node).map(super::Cursor::Segments)
    }

    fn takes(&self, physical: Physical) -> bool {
        !matches!(physical, Physical::Bool | Physical::I128 | Physical::I256)
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        let children = match node.physical() {
            Physical::Bool | Physical::I128 | Physical::I256 => return Err(mismatch(node)),
            Physical::Bytes => 1,
            _ => 0,
        };
        node.expect_shape(children, 4 + children, 2)?;
        let shape = Shape::parse(node.parameter(1))?;
        let bytes = node.parameter(0);
        ensure!(
            bytes <= MOST_BYTES as u64 && bytes.is_multiple_of(shape.symbol as u64),
            "{bytes} bytes of symbols of {}",
            shape.symbol
        );
        let bytes = bytes as usize;
        if let Some(bits) = node.physical().bits() {
            let expected = node.len() * bits / 8;
            ensure!(bytes == expected, "{bytes} bytes of values, {expected} expected");
        }
        Segments::new(node)?.validate()?;
        if node.physical() != Physical::Bytes {
            ensure!(
                node.validity().is_none() || node.physical() != Physical::Arrow,
                "a carried array has a validity bitmap besides its own"
            );
            return Ok(());
        }
        let lengths = node.child(0);
        ensure!(
            lengths.physical() == Physical::U32 && lengths.len() == node.len(),
            "{} lengths of type {:?} for {} byte strings",
            lengths.len(),
            lengths.physical(),
            node.len()
        );
        Starts::parse(node, node.buffer(4), [bytes; 2])?.expect_equal(node)
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        let Layout { shape, segments, matches, .. } = Layout::of(node);
        EncodingParameters::Lz {
            symbol_bytes: shape.symbol,
            offset_bytes: shape.offset,
            segment_symbols: shape.segment,
            segments,
            matches,
            value_bytes: node.parameter(0) as usize,
        }
    }

    fn role(&self, _: NodeView<'_>, _: usize) -> NodeRole {
        NodeRole::Lengths
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        if !context.is_top() {
            return Ok(None);
        }
        let Some(of) = values.lz_bytes(context.limit)? else { return Ok(None) };
        let Some((shape, taken)) = values.matches(&of, &context.options.lz)? else {
            return Ok(None);
        };
        let (mut children, mut buffers) = (Vec::new(), taken.to_vec());
        if values.physical() == Physical::Bytes {
            children.push(context.plan_lengths(values)?);
            buffers.push(values.vectors() * 8);
        }
        let parameters = Parameters::Lz(shape);
        let estimate = Estimate { children, parameters, ..Estimate::of(buffers) };
        Ok(Some(estimate).filter(|estimate| of.saves(estimate.stored_bytes())))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let (Some(bytes), Parameters::Lz(shape)) = (bytes_of(input)?, &plan.parameters) else {
            return Ok(None);
        };
        let mut compressor = Compressor::new(*shape);
        bytes.chunks(shape.segment_bytes()).for_each(|segment| compressor.add(segment));
        let mut node = EncodedNode::new(Encoding::Lz, input.physical, input.len());
        node.parameters = [bytes.len() as u64, shape.parameter()];
        node.buffers = compressor.finish();
        if let Values::Bytes(values) = input.values {
            node.buffers.push(Starts::of_values(values));
            let lengths = values.lengths();
            for plan in &plan.children {
                node.children.push(encode_lengths(&lengths, plan, context)?);
            }
        }
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        fn fill<T: bytemuck::Pod>(
            node: NodeView<'_>,
            rows: Range<usize>,
            out: &mut [T],
        ) -> Result<()> {
            let range = rows.start * size_of::<T>()..rows.end * size_of::<T>();
            Segments::new(node)?.decode(range, bytemuck::cast_slice_mut(out))
        }
        match output {
            Output::Bits(_) | Output::W128(_) | Output::W256(_) => Err(mismatch(node)),
            Output::Bytes(lengths, bytes) => {
                super::decode(node.child(0), rows.clone(), Output::W32(lengths))?;
                let range = starts(node)?.values(&rows);
                ensure!(
                    bytes.len() == range.len(),
                    "{} bytes for {} rows, {} expected",
                    range.len(),
                    rows.len(),
                    bytes.len()
                );
                Segments::new(node)?.decode(range, bytes)
            }
            words => {
                with_words!(Output, words, words => fill(node, rows, words), Err(mismatch(node)))
            }
        }
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        fn of<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
            select::words::<T>(node, test)
        }
        by_word!(node, of(node, test))
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.parameter(0) as usize
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        match node.physical() {
            Physical::Bytes => Ok(starts(node)?.values(rows).len()),
            _ => Err(mismatch(node)),
        }
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        fn word<T: Words>(segments: &Segments<'_>, row: usize) -> Result<Value> {
            let mut word = [T::ZERO];
            let range = row * size_of::<T>()..(row + 1) * size_of::<T>();
            segments.decode(range, bytemuck::cast_slice_mut(&mut word))?;
            Ok(Value::Word(word[0].widen()))
        }
        let segments = Segments::new(node)?;
        match node.physical() {
            Physical::Bool | Physical::I128 | Physical::I256 | Physical::Arrow => {
                Err(mismatch(node))
            }
            Physical::Bytes => {
                let range = starts(node)?.stored_value(node.child(0), row)?;
                let mut value = vec![0; range.len()];
                segments.decode(range, &mut value)?;
                Ok(Value::Bytes(value))
            }
            physical => match physical.bits() {
                Some(8) => word::<u8>(&segments, row),
                Some(16) => word::<u16>(&segments, row),
                Some(32) => word::<u32>(&segments, row),
                _ => word::<u64>(&segments, row),
            },
        }
    }
}

/// Where vectors of byte strings begin.
fn starts(node: NodeView<'_>) -> Result<Starts<'_>> {
    Starts::of(node.buffer(4), [node.parameter(0) as usize; 2])
}

/// What all segments hold: the bytes of all values, or the stream of a carried array.
pub(crate) fn all_bytes(node: NodeView<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; node.parameter(0) as usize];
    Segments::new(node)?.decode(0..bytes.len(), &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
