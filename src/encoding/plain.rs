//! The values as they are: what remains when nothing better applies.
//!
//! ```text
//! Bool         buffer 0: bits, least significant first
//! 8..256 bits  buffer 0: values, little-endian
//! Bytes        buffer 0: bytes of all values; buffer 1: starts (see `starts.rs`); child 0: lengths, u32
//! Arrow        buffer 0: an Arrow IPC stream with one batch of one column
//! ```
//!
//! Slots under nulls are zero, so that equal columns have equal bytes.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

use super::io::{mismatch, with_words};
use super::lz;
use super::select::{self, RangeTest, Verdict};
use super::starts::Starts;
use super::{Codec, Encoding, Estimate, Input, Output, Physical, Value, Values, Words};
use crate::chunk::{EncodedNode, NodeView};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::statistics::{Answer, Statistics};
use crate::encoding::tree::NodeRole;
use crate::error::{Error, Result, ensure};

pub(super) struct Plain;

/// The bytes of words, zero where null.
pub(super) fn fixed_bytes<'a, T: bytemuck::Pod>(
    input: &Input<'_>,
    words: &'a [T],
) -> Cow<'a, [u8]> {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    if input.valid.is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut bytes = bytes.to_vec();
    for (row, bytes) in bytes.chunks_exact_mut(size_of::<T>()).enumerate() {
        if !input.is_valid(row) {
            bytes.fill(0);
        }
    }
    Cow::Owned(bytes)
}

/// The bits of a Boolean input from bit 0 on, zero where null.
pub(super) fn bit_bytes(input: &Input<'_>, bits: &BooleanBuffer) -> Vec<u8> {
    let mut words: Vec<u64> = bits.bit_chunks().iter_padded().collect();
    if let Some(valid) = input.valid {
        words.iter_mut().zip(valid).for_each(|(word, valid)| *word &= valid);
    }
    let mut bytes: Vec<u8> = bytemuck::cast_slice(&words).to_vec();
    bytes.truncate(bits.len().div_ceil(8));
    bytes
}

/// The types that a nested type consists of.
fn inner_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::Dictionary(_, values) => vec![values],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::RunEndEncoded(_, item)
        | DataType::Map(item, _) => vec![item.data_type()],
        _ => Vec::new(),
    }
}

/// Whether arrays of a type have to be copied before they are written: views share buffers
/// with other rows, and arrow-ipc does not read all slices of unions and runs that it writes.
fn is_copied(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8View
            | DataType::BinaryView
            | DataType::Union(..)
            | DataType::RunEndEncoded(..)
    ) || inner_types(data_type).into_iter().any(is_copied)
}

/// About what an IPC stream takes beside its buffers: in all, and for each field.
const STREAM_BYTES: usize = 256;
const FIELD_BYTES: usize = 192;

/// Fields of a type, itself included.
fn fields(data_type: &DataType) -> usize {
    1 + inner_types(data_type).into_iter().map(fields).sum::<usize>()
}

/// About what the stream of an array takes; more than there are of arrays that Arrow cannot
/// measure.
pub(super) fn stream_bytes(array: &ArrayRef) -> usize {
    let bytes = array.to_data().get_slice_memory_size().unwrap_or(usize::MAX >> 8);
    bytes + STREAM_BYTES + fields(array.data_type()) * FIELD_BYTES
}

/// A copy of these rows only, then of the bytes that they use.
fn own_copy(data: &ArrayData) -> Result<ArrayData> {
    let mut rows = MutableArrayData::new(vec![data], false, data.len());
    rows.try_extend(0, 0, data.len())?;
    with_own_views(&rows.freeze())
}

/// Copied data with views of their own buffers only, and copies of dictionaries.
fn with_own_views(data: &ArrayData) -> Result<ArrayData> {
    let own = match data.data_type() {
        DataType::Utf8View => return Ok(StringViewArray::from(data.clone()).gc().into_data()),
        DataType::BinaryView => return Ok(BinaryViewArray::from(data.clone()).gc().into_data()),
        data_type if !is_copied(data_type) => return Ok(data.clone()),
        DataType::Dictionary(..) => own_copy,
        _ => with_own_views,
    };
    let children = data.child_data().iter().map(own).collect::<Result<_>>()?;
    Ok(data.clone().into_builder().child_data(children).build()?)
}

/// The array as an Arrow IPC stream.
pub(super) fn stream_of(array: &ArrayRef) -> Result<Vec<u8>> {
    let array = &match is_copied(array.data_type()) {
        true => make_array(own_copy(&array.to_data())?),
        false => array.clone(),
    };
    let field = Field::new("", array.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()])?;
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// The array in a node that carries one as a stream.
pub(crate) fn carried_array(node: NodeView<'_>) -> Result<ArrayRef> {
    let mut buffer = match (node.physical(), node.encoding()) {
        (Physical::Arrow, Encoding::Plain) => Buffer::from(node.buffer(0)),
        (Physical::Arrow, Encoding::Lz) => Buffer::from_vec(lz::all_bytes(node)?),
        _ => return Err(mismatch(node)),
    };
    crate::fence::check_stream(&buffer, node.len())?;
    let mut decoder = arrow_ipc::reader::StreamDecoder::new();
    let batch = crate::fence::fenced(|| decoder.decode(&mut buffer))?;
    let array = match batch {
        Some(batch) if batch.num_columns() == 1 => batch.column(0).clone(),
        _ => return Err(Error::corrupt("an IPC stream without a batch of one column")),
    };
    ensure!(
        array.len() == node.len(),
        "an IPC stream with {} values in a node of {}",
        array.len(),
        node.len()
    );
    Ok(array)
}

impl Codec for Plain {
    fn encoding(&self) -> Encoding {
        Encoding::Plain
    }

    fn takes(&self, _: Physical) -> bool {
        true
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        match node.physical() {
            Physical::Arrow => {
                ensure!(
                    node.validity().is_none(),
                    "a carried array has a validity bitmap besides its own"
                );
                node.expect_shape(0, 1, 0)
            }
            Physical::Bytes => {
                node.expect_shape(1, 2, 0)?;
                let lengths = node.child(0);
                ensure!(
                    lengths.physical() == Physical::U32 && lengths.len() == node.len(),
                    "{} lengths of type {:?} for {} byte strings",
                    lengths.len(),
                    lengths.physical(),
                    node.len()
                );
                Starts::parse(node, node.buffer(1), [node.buffer(0).len(); 2])?.expect_equal(node)
            }
            physical => {
                node.expect_shape(0, 1, 0)?;
                let bits = physical.bits().unwrap_or(0);
                let expected = node.len().checked_mul(bits).map(|bits| bits.div_ceil(8));
                let found = node.buffer(0).len();
                ensure!(
                    Some(found) == expected,
                    "{found} bytes for {} values of type {physical:?}",
                    node.len()
                );
                Ok(())
            }
        }
    }

    fn role(&self, _: NodeView<'_>, _: usize) -> NodeRole {
        NodeRole::Lengths
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        Ok(Some(match (values.physical(), values.physical().bits()) {
            (Physical::Bytes, _) => {
                let buffers = [values.value_bytes()?, values.vectors() * 8];
                Estimate { children: vec![context.plan_lengths(values)?], ..Estimate::of(buffers) }
            }
            (_, Some(bits)) => Estimate::of([(values.rows() * bits).div_ceil(8)]),
            (_, None) => Estimate::of([values.value_bytes()?]),
        }))
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let mut node = EncodedNode::new(Encoding::Plain, input.physical, input.len());
        match input.values {
            Values::Bits(bits) => node.buffers.push(bit_bytes(input, bits)),
            Values::W128(words) => node.buffers.push(fixed_bytes(input, words).into_owned()),
            Values::W256(words) => node.buffers.push(fixed_bytes(input, words).into_owned()),
            Values::Bytes(values) => {
                node.buffers.push(values.bytes().to_vec());
                node.buffers.push(Starts::of_values(values));
                let lengths = values.lengths();
                for plan in &plan.children {
                    node.children.push(plan::encode_lengths(&lengths, plan, context)?);
                }
            }
            Values::Arrow(array) => node.buffers.push(stream_of(array)?),
            ref words => {
                with_words!(Values, *words, words => {
                    node.buffers.push(fixed_bytes(input, words).into_owned());
                }, return Ok(None))
            }
        }
        Ok(Some(node))
    }

    fn decode(&self, node: NodeView<'_>, rows: Range<usize>, output: Output<'_>) -> Result<()> {
        fn copy<T: bytemuck::Pod>(
            node: NodeView<'_>,
            rows: Range<usize>,
            out: &mut [T],
        ) -> Result<()> {
            out.copy_from_slice(&node.typed::<T>(0)?[rows]);
            Ok(())
        }
        match output {
            Output::Bits(bits) => {
                bits.append_packed_range(rows, node.buffer(0));
                Ok(())
            }
            Output::W128(words) => copy(node, rows, words),
            Output::W256(words) => copy(node, rows, words),
            Output::Bytes(lengths, bytes) => {
                super::decode(node.child(0), rows.clone(), Output::W32(lengths))?;
                let source = node.buffer(0);
                let range = Starts::of(node.buffer(1), [source.len(); 2])?.values(&rows);
                ensure!(
                    bytes.len() == range.len(),
                    "{} bytes for {} rows, {} expected",
                    range.len(),
                    rows.len(),
                    bytes.len()
                );
                bytes.copy_from_slice(&source[range]);
                Ok(())
            }
            words => {
                with_words!(Output, words, words => copy(node, rows, words), Err(mismatch(node)))
            }
        }
    }

    fn select<'a>(&self, node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        match node.physical() {
            Physical::Bool => Ok(select::bits(Cow::Borrowed(node.buffer(0)), test)),
            _ => select::plain(node, test),
        }
    }

    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        node.buffer_range(0).len()
    }

    fn value_bytes_of(&self, node: NodeView<'_>, rows: &Range<usize>) -> Result<usize> {
        if node.physical() != Physical::Bytes {
            return Err(mismatch(node));
        }
        let stored = node.buffer_range(0).len();
        Ok(Starts::of(node.buffer(1), [stored; 2])?.values(rows).len())
    }

    fn value(&self, node: NodeView<'_>, row: usize) -> Result<Value> {
        fn word<T: Words>(node: NodeView<'_>, row: usize) -> Result<Value> {
            Ok(Value::Word(node.typed::<T>(0)?[row].widen()))
        }
        match node.physical() {
            Physical::Bool => Ok(Value::Bit(node.buffer(0)[row / 8] >> (row % 8) & 1 == 1)),
            Physical::I128 => {
                let [low, high] = node.typed::<[u64; 2]>(0)?[row];
                Ok(Value::Wide([low, high, 0, 0]))
            }
            Physical::I256 => Ok(Value::Wide(node.typed::<[u64; 4]>(0)?[row])),
            Physical::Arrow => Err(mismatch(node)),
            Physical::Bytes => {
                let source = node.buffer(0);
                let starts = Starts::of(node.buffer(1), [source.len(); 2])?;
                let range = starts.stored_value(node.child(0), row)?;
                Ok(Value::Bytes(source[range].to_vec()))
            }
            physical => match physical.bits() {
                Some(8) => word::<u8>(node, row),
                Some(16) => word::<u16>(node, row),
                Some(32) => word::<u32>(node, row),
                _ => word::<u64>(node, row),
            },
        }
    }
}
