//! FSST in a chunk: the node, its layout, and its codec.
//!
//! ```text
//! buffer 0, table:  8 x u8 number of symbols of 1..8 bytes | the symbols in code order
//! buffer 1, codes:  the codes of all values, one behind the other
//! buffer 2, starts: where each vector's codes and values begin (`starts.rs`)
//! buffer 3, tiles:  for every 16 tiles of 512 codes (`tiles.rs`)
//!                   u64: value offset of the first (48 bits) | 16 bits: tile begins inside an escape
//!                   16 x u16: value offset of each tile, from the first one's
//! child 0: code length of each value, u32; child 1: value length of each value, u32
//! parameter 0: bytes of all values
//! ```
//!
//! Sixteen tiles share an offset because 15 tiles stand for at most 61,440
//! bytes: 40 bytes for 8,192 codes, read at one place, without a sum over the
//! tiles before.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::sample::sample_pieces;
use super::tiles::{GROUP, OFFSET_BITS, TILE, TILES_PER_GROUP, TileCheck};
use super::{Decoder, Encoder, SymbolTable, TileStart, sample, tile_index};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::ffor;
use crate::encoding::io::{BytesValues, mismatch};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::starts::Starts;
use crate::encoding::statistics::{Answer, CodedSample, Statistics, TableOf};
use crate::encoding::tree::{EncodingParameters, NodeRole};
use crate::encoding::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values};
use crate::error::{Error, Result, ensure};
use crate::lanes::VECTOR;

pub(crate) struct Fsst;

/// Pieces of a chunk that are encoded to estimate its codes.
pub(crate) const ESTIMATE_PIECES: u64 = 512;
/// A chunk trains a table of its own where the shared one needs this many percent more
/// codes than it did on what it was trained on. What it was trained on it fits 1 to 2 %
/// better than anything else, and the codes of [`ESTIMATE_PIECES`] vary by 2 %: at 5 % one
/// chunk of 16 of the same text would train in vain.
const SLIP_PERCENT: u64 = 10;

/// A symbol table in use: with its encoder, and how well it did.
pub(crate) struct Symbols {
    table: SymbolTable,
    encoder: Encoder,
    trained: Trained,
}

/// What a table made of the sample that it was trained on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trained {
    pub codes: u64,
    pub bytes: u64,
}

impl Trained {
    /// Whether the table needs many more codes for these bytes than for what it was
    /// trained on.
    pub fn slips(self, codes: usize, bytes: usize) -> bool {
        let per = |codes: u64, bytes: u64| codes * bytes;
        per(codes as u64, self.bytes) * 100 > per(self.codes, bytes as u64) * (100 + SLIP_PERCENT)
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols")
            .field("symbols", &self.table.len())
            .field("trained", &self.trained)
            .finish_non_exhaustive()
    }
}

impl Symbols {
    /// Trains on a sample of `count` values; none if they are all empty.
    pub fn train<'a>(count: usize, value: impl Fn(usize) -> &'a [u8]) -> Option<Self> {
        Self::of_sample(&sample(count, value))
    }

    /// Trains on these pieces; none if they are all empty.
    fn of_sample(sample: &[&[u8]]) -> Option<Self> {
        let bytes: usize = sample.iter().map(|piece| piece.len()).sum();
        if bytes == 0 {
            return None;
        }
        let (table, codes) = SymbolTable::train_with_cost(sample);
        Self::of_table(table, Trained { codes, bytes: bytes as u64 })
    }

    /// Those of a table that has been trained elsewhere.
    pub fn of_table(table: SymbolTable, trained: Trained) -> Option<Self> {
        let encoder = Encoder::new(&table).ok()?;
        Some(Self { table, encoder, trained })
    }
}

/// Whether values of so many bytes can become smaller: a code takes a byte, so
/// values of one byte cannot.
pub(crate) fn pays(bytes: usize, values: usize) -> bool {
    bytes > values + values / 2
}

/// What a table makes of a sample of a chunk's values; none if the sample is empty.
pub(crate) fn coded(values: BytesValues<'_>, symbols: &Arc<Symbols>) -> Option<CodedSample> {
    let sample = sample_pieces(values.len(), |index| values.get(index), ESTIMATE_PIECES);
    let bytes: usize = sample.iter().map(|part| part.len()).sum();
    if bytes == 0 {
        return None;
    }
    let lengths: Vec<usize> = sample.iter().map(|part| symbols.encoder.encoded_len(part)).collect();
    let [least, most] =
        [lengths.iter().min(), lengths.iter().max()].map(|length| length.map_or(0, |len| *len));
    let sampled = SampledCodes { bytes, codes: lengths.iter().sum(), least, most };
    let (trained, table) = (symbols.trained, symbols.table.serialised_len());
    Some(CodedSample { sampled, trained, table, parameters: Parameters::Fsst(symbols.clone()) })
}

/// What a table makes of it that is trained on the chunk.
pub(crate) fn coded_by_own(values: BytesValues<'_>) -> Option<CodedSample> {
    let symbols = Symbols::train(values.len(), |index| values.get(index)).map(Arc::new)?;
    coded(values, &symbols)
}

/// The table for a chunk: that of its group unless it slips and one of the chunk's own makes up
/// for it. Dictionaries are small, and training would take longer than all else.
fn table_for(values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<CodedSample>> {
    let slips = |coded: &CodedSample| coded.trained.slips(coded.sampled.codes, coded.sampled.bytes);
    match values.coded(TableOf::Group)? {
        None => values.coded(TableOf::Chunk),
        Some(group) if context.in_dictionary || !slips(&group) => Ok(Some(group)),
        Some(group) => match values.coded(TableOf::Chunk)? {
            Some(own) if makes_up(own.sampled.codes, group.sampled.codes) => Ok(Some(own)),
            _ => Ok(Some(group)),
        },
    }
}

/// Whether a table that needs `fewer` codes is worth its training and its bytes.
fn makes_up(fewer: usize, codes: usize) -> bool {
    fewer * 50 < codes * 49
}

/// What segments of a chunk come to when they are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampledCodes {
    pub bytes: usize,
    pub codes: usize,
    /// Fewest and most codes of a segment.
    pub least: usize,
    pub most: usize,
}

/// What a sample promises for `values` values of `total` bytes, whose lengths are planned.
fn estimate(coded: CodedSample, values: usize, total: usize, lengths: Plan) -> Estimate {
    let CodedSample { sampled, table, parameters, .. } = coded;
    let codes = (sampled.codes as u64 * total as u64 / sampled.bytes as u64) as usize;
    let starts = values.div_ceil(VECTOR) * 8;
    let children = vec![code_lengths_plan(sampled, values), lengths];
    let buffers = [table, codes, starts, tiles_len(codes)];
    Estimate { children, parameters, ..Estimate::of(buffers) }
}

/// The plan of code lengths as bit-packing from the least to the greatest of the sample gives
/// them, which is what GPUs know of them.
fn code_lengths_plan(sampled: SampledCodes, values: usize) -> Plan {
    let range = sampled.most - sampled.least;
    let width = (usize::BITS - range.leading_zeros()) as usize;
    if width == 0 {
        return Plan::of(Encoding::Constant, Estimate::of([]));
    }
    let parameters = ffor::vectors_len(size_of::<u32>(), values.div_ceil(VECTOR));
    Plan::of(Encoding::Ffor, Estimate::of([width * values / 8, parameters]))
}

/// Bytes of the tile index for this many codes.
pub(crate) fn tiles_len(codes: usize) -> usize {
    codes.div_ceil(TILE).div_ceil(TILES_PER_GROUP) * GROUP
}

fn encode_tiles(tiles: &[TileStart]) -> Vec<u8> {
    let mut out = Vec::new();
    for group in tiles.chunks(TILES_PER_GROUP) {
        let first = group[0].offset;
        let escapes = (group.iter().enumerate())
            .fold(0_u64, |bits, (index, tile)| bits | u64::from(tile.inside_escape) << index);
        out.extend((first | escapes << OFFSET_BITS).to_le_bytes());
        let mut offsets = [0_u16; TILES_PER_GROUP];
        for (offset, tile) in offsets.iter_mut().zip(group) {
            *offset = (tile.offset - first) as u16;
        }
        out.extend_from_slice(bytemuck::cast_slice(&offsets));
    }
    out
}

/// Checks that tiles begin at offsets that 512 codes can lie apart.
fn validate_tiles(tiles: &[u8], codes: usize, value_bytes: usize) -> Result<()> {
    ensure!(
        tiles.len() == tiles_len(codes),
        "tile index of {} bytes, {} expected for {codes} codes",
        tiles.len(),
        tiles_len(codes)
    );
    let count = codes.div_ceil(TILE);
    let mut previous = 0;
    for (group, bytes) in tiles.chunks_exact(GROUP).enumerate() {
        let (head, offsets) = bytes.split_at(8);
        let head = crate::chunk::cast::<u64>(head)?[0];
        let first = head & ((1 << OFFSET_BITS) - 1);
        let tiles = (count - group * TILES_PER_GROUP).min(TILES_PER_GROUP);
        let escapes = head >> OFFSET_BITS;
        ensure!(
            (escapes >> (tiles - 1)) < 2 && (group > 0 || escapes & 1 == 0),
            "tiles {escapes:#x} of group {group} of {tiles} begin inside an escape"
        );
        for (index, bytes) in offsets.chunks_exact(2).enumerate() {
            let relative = u64::from(u16::from_le_bytes([bytes[0], bytes[1]]));
            let tile = group * TILES_PER_GROUP + index;
            if index == 0 || tile >= count {
                ensure!(relative == 0, "tile {tile} of {count} has a relative offset");
            }
            if tile >= count {
                continue;
            }
            let offset = first + relative;
            let most = if tile == 0 { 0 } else { previous + (TILE * 8) as u64 };
            ensure!(
                (previous..=most).contains(&offset) && offset <= value_bytes as u64,
                "tile {tile} begins at {offset}, the one before at {previous} of {value_bytes} bytes"
            );
            previous = offset;
        }
    }
    Ok(())
}

impl Codec for Fsst {
    fn encoding(&self) -> Encoding {
        Encoding::Fsst
    }

    fn takes(&self, physical: Physical) -> bool {
        physical == Physical::Bytes
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if node.physical() != Physical::Bytes {
            return Err(mismatch(node));
        }
        node.expect_shape(2, 4, 1)?;
        for (lengths, what) in node.children().zip(["code", "value"]) {
            ensure!(
                lengths.physical() == Physical::U32 && lengths.len() == node.len(),
                "{} {what} lengths of type {:?} for {} values",
                lengths.len(),
                lengths.physical(),
                node.len()
            );
        }
        SymbolTable::try_from_bytes(node.buffer(0)).map_err(Error::corrupt)?;
        let codes = node.buffer(1).len();
        let bytes = node.parameter(0);
        ensure!(
            bytes <= codes as u64 * 8,
            "{bytes} bytes of values from {codes} codes of at most 8 bytes each"
        );
        let bytes = bytes as usize;
        Starts::parse(node, node.buffer(2), [codes, bytes])?;
        validate_tiles(node.buffer(3), codes, bytes)
    }

    fn details(&self, node: NodeView<'_>) -> EncodingParameters {
        EncodingParameters::Fsst {
            symbols: SymbolTable::try_from_bytes(node.buffer(0)).map_or(0, |table| table.len()),
            code_bytes: node.buffer_range(1).len(),
            value_bytes: node.parameter(0) as usize,
        }
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        [NodeRole::CodeLengths, NodeRole::Lengths][index.min(1)]
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let (rows, total) = (values.rows(), values.value_bytes()?);
        if !pays(total, rows) {
            return Ok(None);
        }
        let Some(coded) = table_for(values, context)? else { return Ok(None) };
        Ok(Some(estimate(coded, rows, total, context.plan_lengths(values)?)))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let (Values::Bytes(values), Parameters::Fsst(symbols), [_, lengths_plan]) =
            (input.values, &plan.parameters, plan.children.as_slice())
        else {
            return Ok(None);
        };
        let mut codes = Vec::with_capacity(plan.bytes);
        let mut code_lengths = Vec::with_capacity(values.len());
        symbols.encoder.encode(values.data, values.offsets, &mut codes, &mut code_lengths);
        let tiles = tile_index(&symbols.table, &codes, &code_lengths, values.offsets);
        let mut start = 0;
        let starts = (values.offsets.iter().step_by(VECTOR)).zip(code_lengths.chunks(VECTOR)).map(
            |(offset, lengths)| {
                let length: usize = lengths.iter().map(|len| *len as usize).sum();
                let first = start;
                start += length;
                [first, offset - values.offsets[0]]
            },
        );
        let starts = Starts::encode(starts, [codes.len(), values.total()]);
        let mut node = EncodedNode::new(Encoding::Fsst, input.physical, input.len());
        node.parameters[0] = values.total() as u64;
        let codes_plan = plan::plan_input_lengths(&code_lengths, context);
        node.children = vec![
            plan::encode_lengths(&code_lengths, &codes_plan, context)?,
            plan::encode_lengths(&values.lengths(), lengths_plan, context)?,
        ];
        node.buffers = vec![symbols.table.to_bytes(), codes, starts, encode_tiles(&tiles)];
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        let Output::Bytes(lengths, bytes) = output else { return Err(mismatch(node)) };
        let codes = node.buffer(1);
        let starts = Starts::of(node.buffer(2), [codes.len(), node.parameter(0) as usize])?;
        ensure!(
            starts.values(&rows).len() == bytes.len(),
            "{} bytes of values, {} expected",
            starts.values(&rows).len(),
            bytes.len()
        );
        crate::encoding::decode(node.child(1), rows.clone(), Output::W32(lengths))?;
        let decoder = decoder(node)?;
        let (stored, values) = (starts.stored(&rows), starts.values(&rows));
        let tiles = match node.is_decompressed() {
            true => TileCheck::new(node.buffer(3), codes.len(), [stored.start, values.start]),
            false => TileCheck::none(),
        };
        decoder
            .decode_checked(&codes[stored], bytes, tiles)
            .map_err(|error| Error::corrupt(format!("codes of rows {rows:?}: {error}")))
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.parameter(0) as usize
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        let totals = [node.buffer_range(1).len(), node.parameter(0) as usize];
        Ok(Starts::of(node.buffer(2), totals)?.values(rows).len())
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        let codes = node.buffer(1);
        let starts = Starts::of(node.buffer(2), [codes.len(), node.parameter(0) as usize])?;
        let range = starts.stored_value(node.child(0), row)?;
        let mut value = Vec::new();
        decoder(node)?
            .decode_value(&codes[range], &mut value)
            .map_err(|error| Error::corrupt(format!("codes of row {row}: {error}")))?;
        let stated = crate::encoding::value(node.child(1), row)?;
        ensure!(
            stated == Value::Word(value.len() as u64),
            "codes of row {row} stand for {} bytes, its length is {stated:?}",
            value.len()
        );
        Ok(Value::Bytes(value))
    }
}

fn decoder(node: NodeView<'_>) -> Result<Decoder> {
    let table = SymbolTable::try_from_bytes(node.buffer(0)).map_err(Error::corrupt)?;
    Ok(Decoder::new(&table))
}
