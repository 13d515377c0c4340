//! More values than a chunk has rows, as elements of lists may be: cut into pieces of as
//! many as that, each encoded as if it were a chunk.
//!
//! ```text
//! child i:  values i * 131,072 up to (i + 1) * 131,072 or the end
//! ```
//!
//! So no other encoding meets more values than it has in a chunk, which offsets in its
//! parameters are made for, and a few bytes of header make a reader allocate no more than
//! those of a chunk do: 32 bytes a piece.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use rayon::prelude::*;

use super::fsst::{self, Symbols};
use super::io::mismatch;
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values};
use crate::chunk::{EncodedNode, MAX_CHUNK_ROWS, NodeView};
use crate::encoding::BytesValues;
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::statistics::{Answer, PlannedParts, Statistics};
use crate::encoding::tree::NodeRole;
use crate::error::{Error, Result, ensure};
use crate::lanes::VECTOR;

pub(super) struct Pieces;

/// Most values of a piece, and the number of all but the last.
pub(crate) const PIECE: usize = MAX_CHUNK_ROWS;

/// What a piece takes in a header, and in gaps between buffers.
const NODE_BYTES: usize = 128;

/// Calls `work` with each piece of the input.
fn each_piece<R>(input: &Input<'_>, mut work: impl FnMut(&Input<'_>) -> R) -> Vec<R> {
    let piece = |start: usize| {
        let rows = start..(start + PIECE).min(input.len());
        let valid = input.valid.map(|words| {
            let vectors = rows.start / VECTOR..rows.end.div_ceil(VECTOR);
            &words[vectors.start * (VECTOR / 64)..vectors.end * (VECTOR / 64)]
        });
        let mut with = |values| work(&Input { values, valid, ..*input });
        match input.values {
            Values::Bits(bits) => {
                let piece: BooleanBuffer = bits.slice(rows.start, rows.len());
                with(Values::Bits(&piece))
            }
            Values::W8(words) => with(Values::W8(&words[rows])),
            Values::W16(words) => with(Values::W16(&words[rows])),
            Values::W32(words) => with(Values::W32(&words[rows])),
            Values::W64(words) => with(Values::W64(&words[rows])),
            Values::W128(words) => with(Values::W128(&words[rows])),
            Values::W256(words) => with(Values::W256(&words[rows])),
            Values::Bytes(BytesValues { offsets, data }) => {
                let offsets = &offsets[rows.start..=rows.end];
                with(Values::Bytes(BytesValues { offsets, data }))
            }
            Values::Arrow(array) => with(Values::Arrow(&array.slice(rows.start, rows.len()))),
        }
    };
    (0..input.len()).step_by(PIECE).map(piece).collect()
}

/// One symbol table for all pieces of strings, if they may have one.
fn symbols_of(input: &Input<'_>, context: &Context<'_>) -> Option<Arc<Symbols>> {
    match input.values {
        Values::Bytes(values)
            if context.symbols.is_none()
                && context.options.allows(Encoding::Fsst)
                && fsst::pays(values.total(), values.len()) =>
        {
            Symbols::train(values.len(), |index| values.get(index)).map(Arc::new)
        }
        _ => context.symbols.cloned(),
    }
}

/// The pieces that hold some of `rows`, and which of their own values these are.
fn pieces_of<'a>(
    node: NodeView<'a>,
    rows: &Range<usize>,
) -> impl Iterator<Item = (NodeView<'a>, Range<usize>)> + use<'a> {
    let Range { start, end } = *rows;
    (start / PIECE..end.div_ceil(PIECE)).map(move |index| {
        let child = node.child(index);
        let first = index * PIECE;
        (child, start.max(first) - first..(end - first).min(child.len()))
    })
}

/// Decodes words piece by piece, all at a time.
fn decode_words<T: Send>(
    node: NodeView<'_>,
    rows: &Range<usize>,
    mut out: &mut [T],
    output: fn(&mut [T]) -> Output<'_>,
) -> Result<()> {
    let mut parts = Vec::new();
    for (piece, rows) in pieces_of(node, rows) {
        let (part, rest) = out.split_at_mut(rows.len());
        parts.push((piece, rows, part));
        out = rest;
    }
    parts
        .into_par_iter()
        .try_for_each(|(piece, rows, part)| super::decode(piece, rows, output(part)))
}

fn decode_bytes(
    node: NodeView<'_>,
    rows: &Range<usize>,
    mut lengths: &mut [u32],
    mut bytes: &mut [u8],
) -> Result<()> {
    let mut parts = Vec::new();
    for (piece, rows) in pieces_of(node, rows) {
        let own = super::value_bytes_of(piece, &rows)?;
        let left = bytes.len();
        let Some((part, rest)) = bytes.split_at_mut_checked(own) else {
            return Err(Error::corrupt(format!("a piece of {own} bytes of values, {left} left")));
        };
        let (part_lengths, rest_lengths) = lengths.split_at_mut(rows.len());
        parts.push((piece, rows, part_lengths, part));
        (lengths, bytes) = (rest_lengths, rest);
    }
    ensure!(bytes.is_empty(), "pieces of {} bytes of values less than expected", bytes.len());
    parts.into_par_iter().try_for_each(|(piece, rows, lengths, bytes)| {
        super::decode(piece, rows, Output::Bytes(lengths, bytes))
    })
}

impl Codec for Pieces {
    fn encoding(&self) -> Encoding {
        Encoding::Pieces
    }

    fn takes(&self, physical: Physical) -> bool {
        physical != Physical::Arrow
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if node.physical() == Physical::Arrow {
            return Err(mismatch(node));
        }
        node.expect_shape(node.len().div_ceil(PIECE), 0, 0)?;
        let mut bytes = 0_usize;
        for (index, child) in node.children().enumerate() {
            let expected = (node.len() - index * PIECE).min(PIECE);
            ensure!(
                child.physical() == node.physical() && child.len() == expected,
                "piece {index} holds {} values of type {:?}, {expected} of type {:?} expected",
                child.len(),
                child.physical(),
                node.physical()
            );
            if node.physical() == Physical::Bytes {
                let sum = bytes.checked_add(super::value_bytes(child));
                bytes =
                    sum.ok_or_else(|| Error::corrupt("values of more bytes than an address"))?;
            }
        }
        Ok(())
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        NodeRole::Piece(index)
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let Some(parts) = values.parts(Encoding::Pieces, context)? else { return Ok(None) };
        let nodes = NODE_BYTES * parts.plans.len();
        Ok(Some(Estimate { children: parts.plans, ..Estimate::of([nodes]) }))
    }

    fn plan_parts(&self, input: &Input<'_>, context: &Context<'_>) -> Option<PlannedParts> {
        let symbols = symbols_of(input, context);
        let context = Context { symbols: symbols.as_ref(), limit: usize::MAX, ..*context };
        let plans = each_piece(input, |piece| plan::plan_input(piece, &context));
        Some(PlannedParts { plans, nulls: None, parameters: Parameters::None })
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let mut node = EncodedNode::new(Encoding::Pieces, input.physical, input.len());
        let mut plans = plan.children.iter();
        let encoded = each_piece(input, |piece| {
            plans.next().map(|plan| plan::encode(piece, plan, context)).transpose()
        });
        for child in encoded {
            let Some(child) = child? else { return Ok(None) };
            node.children.push(child);
        }
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        match output {
            Output::Bits(bits) => pieces_of(node, &rows)
                .try_for_each(|(piece, rows)| super::decode(piece, rows, Output::Bits(bits))),
            Output::W8(words) => decode_words(node, &rows, words, |part| Output::W8(part)),
            Output::W16(words) => decode_words(node, &rows, words, |part| Output::W16(part)),
            Output::W32(words) => decode_words(node, &rows, words, |part| Output::W32(part)),
            Output::W64(words) => decode_words(node, &rows, words, |part| Output::W64(part)),
            Output::W128(words) => decode_words(node, &rows, words, |part| Output::W128(part)),
            Output::W256(words) => decode_words(node, &rows, words, |part| Output::W256(part)),
            Output::Bytes(lengths, bytes) => decode_bytes(node, &rows, lengths, bytes),
        }
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.children().map(super::value_bytes).sum()
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        pieces_of(node, rows).map(|(piece, rows)| super::value_bytes_of(piece, &rows)).sum()
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        super::value(node.child(row / PIECE), row % PIECE)
    }
}
