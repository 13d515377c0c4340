//! Columns made of leaves of one type and of similar length, from any place of any chunk. Each leaf is
//! one chunk, or several if it is longer than a chunk. They are encoded as other columns are.
//!
//! Chunks begin at multiples of the same number of rows: a power of two, at least 1,024, and below twice
//! the rows of each leaf's first chunk. Rows past a leaf's end are null.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field};
use rayon::prelude::*;

use super::tree::{EncodedPiece, Leaf, node_at};
use crate::device::Context;
use crate::device::pinned::ResultMemory;
use crate::encode::launch::Launcher;
use crate::encode::part::PartEncoder;
use crate::encode::source::{Bits, Column};
use crate::encode::strings::{Leaves, StringColumn};
use crate::encode::write::Parts;
use crate::encode::{encode_part, encode_string_parts, part_bytes, with_launcher};
use crate::encoding::Physical;
use crate::encoding::source::{ArrayInput, ArrayValues, Strings};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, Event};
use crate::lanes::VECTOR;
use crate::options::Options;

/// What the leaves of a column have in common.
#[derive(Debug, Clone, Copy)]
struct Kind {
    physical: Physical,
    is_text: bool,
    /// Rows from the begin of a chunk to that of the next.
    stride: usize,
}

/// A piece of a leaf.
struct LeafPiece<'l> {
    /// Its place among the pieces of all leaves.
    number: usize,
    input: &'l ArrayInput,
    rows: Range<usize>,
}

/// Leaves that are encoded together.
pub(super) struct LeafColumn<'l> {
    kind: Kind,
    pieces: Vec<LeafPiece<'l>>,
    /// The pieces of each leaf.
    leaves: Vec<Range<usize>>,
    /// Bytes of the values on the device.
    bytes: usize,
}

/// The nodes of the leaves of a column.
pub(super) struct EncodedLeaves {
    /// With their places among the pieces of all leaves.
    pub pieces: Vec<(usize, EncodedPiece)>,
    pub bodies: Vec<Arc<DeviceBuffer>>,
    /// When the bodies have been written.
    pub ready: Arc<dyn Event>,
}

/// Puts leaves into columns. Their pieces are numbered in order.
pub(super) fn columns_of<'l>(
    context: &Context,
    leaves: impl Iterator<Item = &'l Leaf>,
) -> Vec<LeafColumn<'l>> {
    let most = part_bytes(context);
    let mut full = Vec::new();
    let mut columns: BTreeMap<_, LeafColumn<'l>> = BTreeMap::new();
    let mut number = 0;
    for leaf in leaves {
        let input = &leaf.input;
        let (physical, is_text) = (input.physical, input.is_text);
        // Pieces of strings share a symbol table; others are independent.
        let is_strings = physical == Physical::Bytes;
        let together = if is_strings { leaf.pieces.len() } else { 1 };
        for pieces in leaf.pieces.chunks(together.max(1)) {
            let stride = pieces[0].len().next_power_of_two().max(VECTOR);
            let kind = Kind { physical, is_text, stride };
            let bytes = match is_strings {
                true => input.string_bytes(),
                false => stride * physical.bits().unwrap_or(0) / 8,
            };
            let new = || LeafColumn { kind, pieces: Vec::new(), leaves: Vec::new(), bytes: 0 };
            let column = columns.entry((physical as usize, is_text, stride)).or_insert_with(new);
            // Offsets and lengths of strings have 32 bits a row.
            let rows = (column.pieces.len() + pieces.len()) * stride;
            let has_room = column.bytes + bytes <= most && rows * size_of::<u32>() <= most;
            if !column.pieces.is_empty() && !has_room {
                full.push(std::mem::replace(column, new()));
            }
            let first = column.pieces.len();
            for rows in pieces {
                column.pieces.push(LeafPiece { number, input, rows: rows.clone() });
                number += 1;
            }
            column.leaves.push(first..column.pieces.len());
            column.bytes += bytes;
        }
    }
    full.extend(columns.into_values());
    full
}

impl LeafColumn<'_> {
    /// Starts encoding them, on streams of their own.
    pub fn encode(&self, context: &Arc<Context>, options: &Options) -> Result<EncodedLeaves> {
        let options = Options { chunk_rows: self.kind.stride, ..options.clone() };
        with_launcher(context, &mut (), |mut launcher| {
            let written = match self.kind.physical {
                Physical::Bytes => {
                    let column = self.strings(context, &mut launcher)?;
                    let written = encode_string_parts(context, &mut launcher, &column, &options)?;
                    written.ok_or_else(|| Error::device("leaves of strings that are too long"))?
                }
                _ => {
                    let column = self.words(context, &mut launcher)?;
                    context.require(PartEncoder::scratch_bytes(&column, &options))?;
                    vec![encode_part(&mut launcher, &column, &options)?]
                }
            };
            launcher.join()?;
            self.encoded(written, launcher.stream.record()?)
        })
    }

    fn encoded(&self, written: Parts, ready: Arc<dyn Event>) -> Result<EncodedLeaves> {
        let (mut pieces, mut bodies) = (Vec::with_capacity(self.pieces.len()), Vec::new());
        let mut numbers = self.pieces.iter().map(|piece| piece.number);
        for (body, planned) in written {
            let mut at = body.pointer::<u8>();
            for (planned, number) in planned.iter().zip(&mut numbers) {
                let node = node_at(&planned.header, 0, at);
                pieces.push((number, EncodedPiece { plan_bytes: planned.plan_bytes, node }));
                at = at.add(planned.header.body_len);
            }
            bodies.push(body);
        }
        match pieces.len() == self.pieces.len() {
            true => Ok(EncodedLeaves { pieces, bodies, ready }),
            false => Err(Error::device("leaves that have not been encoded")),
        }
    }

    fn rows(&self) -> usize {
        self.pieces.len() * self.kind.stride
    }

    /// Rows of each chunk.
    fn chunk_rows(&self) -> Arc<[u32]> {
        self.pieces.iter().map(|piece| piece.rows.len() as u32).collect()
    }

    /// Copies numbers, wide values or booleans to the device, through page-locked memory where that pays.
    fn words(&self, context: &Context, launcher: &mut Launcher<'_>) -> Result<Column> {
        let bits = self.kind.physical.bits().unwrap_or(0);
        let memory = ResultMemory::new(context.pool(), self.rows() * bits / 8);
        let staged = memory.all().write(|to| {
            let chunks = to.par_chunks_mut(self.kind.stride * bits / 8);
            chunks.zip(&self.pieces).for_each(|(to, piece)| match &piece.input.values {
                ArrayValues::Words(words) => {
                    let bytes = piece.rows.start * bits / 8..piece.rows.end * bits / 8;
                    fill(to, &words[bytes]);
                }
                ArrayValues::Bits(all) => {
                    let mut own = vec![0; piece.rows.len().div_ceil(8)];
                    copy_bits(&mut own, &all.slice(piece.rows.start, piece.rows.len()));
                    fill(to, &own);
                }
                ArrayValues::Strings(_) | ArrayValues::Array(_) => fill(to, &[]),
            });
            Ok(())
        })?;
        let values = uploaded(launcher, &staged)?;
        let valid = self.valid(launcher)?;
        let memory = std::iter::once(&values).chain(&valid).cloned().collect();
        Ok(Column {
            field: Arc::new(Field::new("", type_of(self.kind.physical), true)),
            rows: self.rows(),
            values: values.pointer(),
            bits: Bits::at(values.pointer(), 0),
            valid: valid.map(|valid| Bits::at(valid.pointer(), 0)),
            is_padded: true,
            leaves: Some(self.chunk_rows()),
            memory,
        })
    }

    /// Copies strings to the device.
    fn strings(&self, context: &Context, launcher: &mut Launcher<'_>) -> Result<StringColumn> {
        let mut staged = Vec::with_capacity(self.bytes);
        // Signed and of 32 bits, as Arrow's: the bytes of a leaf fit, and others are added while they
        // are less than a part.
        let mut offsets: Vec<i32> = Vec::with_capacity(self.rows() + 1);
        for piece in &self.pieces {
            let ArrayValues::Strings(Strings { offsets: own, data }) = &piece.input.values else {
                return Err(Error::device(format!(
                    "leaves of {:?} among strings",
                    piece.input.physical
                )));
            };
            let own = &own[piece.rows.start..=piece.rows.end];
            let (first, last) = (own[0], own[own.len() - 1]);
            let start = staged.len();
            offsets.extend(own[..own.len() - 1].iter().map(|at| (start + at - first) as i32));
            staged.extend_from_slice(&data[first..last]);
            let end = staged.len() as i32;
            offsets.resize(offsets.len() + self.kind.stride - piece.rows.len(), end);
        }
        offsets.push(staged.len() as i32);
        let values = uploaded(launcher, &staged)?;
        let offsets = uploaded(launcher, bytemuck::cast_slice(&offsets))?;
        let valid = self.valid(launcher)?;
        let rows = self.chunk_rows();
        let leaves = Leaves {
            on_device: launcher.upload(&rows)?,
            rows,
            chunks: self.leaves.iter().cloned().collect(),
        };
        let valid = valid.map(|valid| Bits::at(valid.pointer(), 0));
        let multiprocessors = context.device().info().multiprocessors as usize;
        let (rows, is_text) = (self.rows(), self.kind.is_text);
        Ok(StringColumn::of_leaves(
            rows,
            [offsets, values],
            staged.len(),
            valid,
            leaves,
            is_text,
            multiprocessors,
        ))
    }

    /// Copies to the device which rows are valid, if some are not.
    fn valid(&self, launcher: &mut Launcher<'_>) -> Result<Option<Arc<DeviceBuffer>>> {
        let is_full = |piece: &LeafPiece<'_>| {
            piece.rows.len() == self.kind.stride && piece.input.valid.is_none()
        };
        if self.pieces.iter().all(is_full) {
            return Ok(None);
        }
        let mut staged = vec![0; self.rows() / 8];
        let chunks = staged.par_chunks_mut(self.kind.stride / 8);
        chunks.zip(&self.pieces).for_each(|(to, piece)| match &piece.input.valid {
            Some(words) => {
                // Pieces begin at whole words, and behind the last row there are zeros.
                let words = &words[piece.rows.start / 64..piece.rows.end.div_ceil(64)];
                let words: &[u8] = bytemuck::cast_slice(words);
                let bytes = words.len().min(to.len());
                to[..bytes].copy_from_slice(&words[..bytes]);
            }
            None => copy_bits(to, &BooleanBuffer::new_set(piece.rows.len())),
        });
        uploaded(launcher, &staged).map(Some)
    }
}

/// Copies bits to bytes from bit 0 on; bits behind them are zeros.
fn copy_bits(to: &mut [u8], bits: &BooleanBuffer) {
    let bytes = bits.sliced();
    let whole = bits.len() / 8;
    to[..whole].copy_from_slice(&bytes[..whole]);
    let rest = bits.len() % 8;
    if rest > 0 {
        to[whole] = bytes[whole] & ((1 << rest) - 1);
    }
}

/// Writes bytes, and zeros behind them.
fn fill(to: &mut [MaybeUninit<u8>], bytes: &[u8]) {
    let (own, rest) = to.split_at_mut(bytes.len());
    for (to, byte) in own.iter_mut().zip(bytes) {
        to.write(*byte);
    }
    rest.fill(MaybeUninit::new(0));
}

/// Copies bytes to memory of their own, which ends in zeros.
fn uploaded(launcher: &mut Launcher<'_>, bytes: &[u8]) -> Result<Arc<DeviceBuffer>> {
    let buffer = launcher.allocate_zero_ended(bytes.len())?;
    launcher.stream.upload(bytes, &buffer, 0)?;
    Ok(buffer)
}

/// A type of values that are encoded as these are.
fn type_of(physical: Physical) -> DataType {
    match physical {
        Physical::Bool => DataType::Boolean,
        Physical::U8 => DataType::UInt8,
        Physical::U16 => DataType::UInt16,
        Physical::U32 => DataType::UInt32,
        Physical::U64 => DataType::UInt64,
        Physical::I8 => DataType::Int8,
        Physical::I16 => DataType::Int16,
        Physical::I32 => DataType::Int32,
        Physical::I64 => DataType::Int64,
        Physical::F32 => DataType::Float32,
        Physical::F64 => DataType::Float64,
        Physical::I128 => DataType::Decimal128(38, 0),
        Physical::I256 => DataType::Decimal256(76, 0),
        Physical::Bytes => DataType::LargeBinary,
        Physical::Arrow => DataType::Null,
    }
}
