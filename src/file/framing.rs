//! Messages and footer of the IPC file format, written without a copy of the chunks.
//!
//! arrow-ipc's writer takes arrays, whose bytes would have to be put together first, and ends a file by
//! itself, which leaves no place for the index. Its schemas repeat keys and types for each column, 200 bytes;
//! here columns share what is equal.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use arrow_ipc::{
    Block, Buffer as BufferPlace, Endianness, FieldArgs, FieldNode, FooterBuilder, KeyValue,
    KeyValueArgs, LargeBinary, LargeBinaryArgs, Message, MessageArgs, MessageHeader,
    MetadataVersion, RecordBatch, RecordBatchArgs, SchemaArgs, Type,
};
use arrow_schema::{DataType, Schema};
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, UnionWIPOffset, Vector, WIPOffset};

use super::filter::StoredFilter;
use super::index::Entry;
use crate::chunk::{ALIGNMENT, Chunk, aligned};
use crate::error::{Error, Result};

/// What files begin and end with.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";
/// What messages begin with, and the length of their metadata.
const PREFIX: usize = 8;
/// Bytes of a message and its parts begin at a multiple of this.
const UNIT: usize = 8;

/// Where the chunks of a batch are in the file, column by column, and the filters of columns that have some.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub chunks: Vec<Vec<Entry>>,
    pub filters: Vec<Vec<Entry>>,
}

/// A sink of messages.
pub(super) struct Framing<W> {
    pub sink: W,
    /// Bytes written.
    pub at: u64,
    blocks: Vec<Block>,
}

impl<W: Write> Framing<W> {
    /// Begins a file of batches of this schema.
    pub fn new(sink: W, schema: &Schema) -> Result<Self> {
        let mut framing = Self { sink, at: 0, blocks: Vec::new() };
        framing.put(MAGIC)?;
        framing.put(&[0; 2])?;
        let mut builder = FlatBufferBuilder::new();
        let header = schema_in(&mut builder, schema).as_union_value();
        framing.metadata(&message(builder, MessageHeader::Schema, header, 0), UNIT)?;
        Ok(framing)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn zeros(&mut self, count: usize) -> Result<()> {
        self.put(&[0; ALIGNMENT][..count])
    }

    /// Zeros up to a multiple of `unit`.
    fn pad(&mut self, unit: usize) -> Result<()> {
        let rest = (self.at % unit as u64) as usize;
        if rest == 0 { Ok(()) } else { self.zeros(unit - rest) }
    }

    /// Writes the metadata of a message, padded so that its body begins at a multiple of `unit`; the bytes
    /// of all that.
    fn metadata(&mut self, metadata: &[u8], unit: usize) -> Result<usize> {
        let end = self.at as usize % unit + PREFIX + metadata.len();
        let len = metadata.len() + end.next_multiple_of(unit) - end;
        self.put(&[0xff; 4])?;
        self.put(&(len as u32).to_le_bytes())?;
        self.put(metadata)?;
        self.zeros(len - metadata.len())?;
        Ok(PREFIX + len)
    }

    /// Writes a batch: for each column its chunks, of which all columns have as many, and behind all these the
    /// filters of some columns, one for each chunk, which have no bytes where there is none. Where chunks and
    /// filters are.
    pub fn batch(&mut self, columns: &[&[Chunk]], filters: &[Vec<StoredFilter>]) -> Result<Placed> {
        let chunks = columns.first().map_or(0, |column| column.len());
        // Offsets of all columns come first, so that chunks need no gaps of their own.
        let offset_bytes = (chunks + 1) * size_of::<i64>();
        let data_at = aligned(columns.len() * offset_bytes);
        let (mut nodes, mut buffers) = (Vec::new(), Vec::new());
        let mut end = data_at;
        for (number, column) in columns.iter().enumerate() {
            let len: usize = column.iter().map(packed_len).sum();
            nodes.push(FieldNode::new(chunks as i64, 0));
            buffers.push(BufferPlace::new(0, 0));
            buffers.push(BufferPlace::new((number * offset_bytes) as i64, offset_bytes as i64));
            buffers.push(BufferPlace::new(end as i64, len as i64));
            end += len;
        }
        // No buffer of the batch refers to filters: other readers pass over them.
        for filter in filters.iter().flatten().filter(|filter| !filter.bytes.is_empty()) {
            end = aligned(end) + filter.bytes.len();
        }
        let block_at = self.at;
        let metadata = batch_message(chunks, &nodes, &buffers, end);
        let metadata_len = self.metadata(&metadata, ALIGNMENT)?;
        let body_at = self.at;
        for column in columns {
            let mut offset = 0_i64;
            self.put(&offset.to_le_bytes())?;
            for chunk in *column {
                offset += packed_len(chunk) as i64;
                self.put(&offset.to_le_bytes())?;
            }
        }
        self.zeros(data_at - columns.len() * offset_bytes)?;
        let mut placed = Placed::default();
        for column in columns {
            let mut of_column = Vec::with_capacity(chunks);
            for chunk in *column {
                of_column.push(Entry { at: self.at, len: packed_len(chunk) as u64 });
                self.put(chunk.header())?;
                self.zeros(aligned(chunk.header().len()) - chunk.header().len())?;
                self.put(chunk.body())?;
            }
            placed.chunks.push(of_column);
        }
        for column in filters {
            let mut of_column = Vec::with_capacity(column.len());
            for StoredFilter { bytes, .. } in column {
                if bytes.is_empty() {
                    of_column.push(Entry { at: 0, len: 0 });
                    continue;
                }
                self.pad(ALIGNMENT)?;
                of_column.push(Entry { at: self.at, len: bytes.len() as u64 });
                self.put(bytes)?;
            }
            placed.filters.push(of_column);
        }
        debug_assert_eq!(self.at - body_at, end as u64);
        let metadata_len = i32::try_from(metadata_len)
            .map_err(|_| Error::too_large("metadata of 2 GiB of an IPC message"))?;
        self.blocks.push(Block::new(block_at as i64, metadata_len, end as i64));
        Ok(placed)
    }

    /// Ends the file: the end of the messages, the index, the footer with this schema.
    pub fn finish(&mut self, schema: &Schema, index: &[u8]) -> Result<()> {
        self.put(&[0xff; 4])?;
        self.put(&[0; 4])?;
        self.pad(UNIT)?;
        let index_at = self.at;
        self.put(index)?;
        let place = format!("{index_at},{}", index.len());
        let mut builder = FlatBufferBuilder::new();
        let dictionaries = builder.create_vector::<Block>(&[]);
        let blocks = builder.create_vector(&self.blocks);
        let schema = schema_in(&mut builder, schema);
        let metadata = [(super::index::KEY.to_owned(), place)].into();
        let metadata = Pairs::default().write(&mut builder, &metadata);
        let mut footer = FooterBuilder::new(&mut builder);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(blocks);
        metadata.into_iter().for_each(|metadata| footer.add_custom_metadata(metadata));
        let root = footer.finish();
        builder.finish(root, None);
        let footer = builder.finished_data();
        self.put(footer)?;
        let len =
            i32::try_from(footer.len()).map_err(|_| Error::too_large("an IPC footer of 2 GiB"))?;
        self.put(&len.to_le_bytes())?;
        self.put(MAGIC)?;
        Ok(self.sink.flush()?)
    }
}

/// Bytes of a chunk as it is packed.
pub(super) fn packed_len(chunk: &Chunk) -> usize {
    aligned(chunk.header().len()) + chunk.body().len()
}

/// The metadata of a batch of so many chunks.
fn batch_message(
    chunks: usize,
    nodes: &[FieldNode],
    buffers: &[BufferPlace],
    body: usize,
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let (nodes, buffers) = (builder.create_vector(nodes), builder.create_vector(buffers));
    let args = RecordBatchArgs {
        length: chunks as i64,
        nodes: Some(nodes),
        buffers: Some(buffers),
        ..RecordBatchArgs::default()
    };
    let batch = RecordBatch::create(&mut builder, &args).as_union_value();
    message(builder, MessageHeader::RecordBatch, batch, body)
}

/// The metadata of a message with this header, and a body of so many bytes.
fn message(
    mut builder: FlatBufferBuilder<'_>,
    header_type: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body: usize,
) -> Vec<u8> {
    let args = MessageArgs {
        version: MetadataVersion::V5,
        header_type,
        header: Some(header),
        bodyLength: body as i64,
        custom_metadata: None,
    };
    let root = Message::create(&mut builder, &args);
    builder.finish(root, None);
    builder.finished_data().to_vec()
}

/// Writes the schema of packed columns.
fn schema_in<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    schema: &Schema,
) -> WIPOffset<arrow_ipc::Schema<'b>> {
    let binary = LargeBinary::create(builder, &LargeBinaryArgs {}).as_union_value();
    let no_children = builder.create_vector::<WIPOffset<arrow_ipc::Field<'_>>>(&[]);
    let mut pairs = Pairs::default();
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        debug_assert_eq!(*field.data_type(), DataType::LargeBinary, "packed columns");
        let args = FieldArgs {
            name: Some(builder.create_string(field.name())),
            nullable: field.is_nullable(),
            type_type: Type::LargeBinary,
            type_: Some(binary),
            dictionary: None,
            children: Some(no_children),
            custom_metadata: pairs.write(builder, field.metadata()),
        };
        fields.push(arrow_ipc::Field::create(builder, &args));
    }
    let args = SchemaArgs {
        endianness: Endianness::Little,
        fields: Some(builder.create_vector(&fields)),
        custom_metadata: pairs.write(builder, schema.metadata()),
        features: None,
    };
    arrow_ipc::Schema::create(builder, &args)
}

/// Pairs of keys and values that a builder has.
#[derive(Default)]
struct Pairs<'b>(HashMap<(String, String), WIPOffset<KeyValue<'b>>>);

impl<'b> Pairs<'b> {
    /// Writes metadata, of which equal pairs are there once; none if there is none.
    fn write(
        &mut self,
        builder: &mut FlatBufferBuilder<'b>,
        metadata: &HashMap<String, String>,
    ) -> Option<WIPOffset<Vector<'b, ForwardsUOffset<KeyValue<'b>>>>> {
        // In order, so that equal schemas have equal bytes.
        let sorted: BTreeMap<&String, &String> = metadata.iter().collect();
        let pair = |(key, value): (&String, &String)| {
            *self.0.entry((key.clone(), value.clone())).or_insert_with(|| {
                let key = builder.create_shared_string(key);
                let value = builder.create_shared_string(value);
                KeyValue::create(builder, &KeyValueArgs { key: Some(key), value: Some(value) })
            })
        };
        let written: Vec<_> = sorted.into_iter().map(pair).collect();
        (!written.is_empty()).then(|| builder.create_vector(&written))
    }
}
