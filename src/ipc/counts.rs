//! Counts of rows and batches, by which readers find messages that are missing or written twice.
//!
//! Files have them in the footer's key-values, with the place of the footer: a tool that copies the
//! key-values to a file of other batches does not copy that place, and the counts are ignored.
//! Streams have them behind the last batch, in the key-values of a message of an empty batch, which
//! other readers of Arrow read as such. docs/FORMAT.md, "Counts", is normative.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteOptions, write_message,
};
use arrow_ipc::{
    KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader, RecordBatchArgs, root_as_message,
};
use arrow_schema::{ArrowError, SchemaRef};
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Vector};

use crate::error::{Error, Result, ensure};
use crate::extension::ROWS_KEY;

/// Key of the number of batches.
const BATCHES: &str = "lanepack.batches";
/// Key of the bytes of a file before its end marker.
const BYTES: &str = "lanepack.bytes";
/// Bytes of the end marker, which is in front of the footer.
const END_MARKER: u64 = 8;

/// Rows and batches of a file, or of a stream up to some message.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub rows: u64,
    pub batches: u64,
}

/// The key-values of a footer or message.
type KeyValues<'a> = Option<Vector<'a, ForwardsUOffset<KeyValue<'a>>>>;

/// The number that a key has, if it has one.
fn number(pairs: KeyValues<'_>, key: &str) -> Option<u64> {
    let pair = pairs.into_iter().flatten().find(|pair| pair.key() == Some(key))?;
    pair.value()?.parse().ok()
}

impl Counts {
    /// Those of a footer at this place; none if they were written for another file.
    pub fn of_file(pairs: KeyValues<'_>, footer_at: u64) -> Option<Self> {
        let bytes = number(pairs, BYTES)?;
        if bytes.checked_add(END_MARKER) == Some(footer_at) { Self::of(pairs) } else { None }
    }

    fn of(pairs: KeyValues<'_>) -> Option<Self> {
        Some(Self { rows: number(pairs, ROWS_KEY)?, batches: number(pairs, BATCHES)? })
    }

    /// Those of a message in a stream: of an empty batch that has them.
    pub fn of_message(message: Message<'_>) -> Option<Self> {
        let batch = message.header_as_record_batch()?;
        if batch.length() == 0 { Self::of(message.custom_metadata()) } else { None }
    }

    /// The key-values of a file whose end marker is written behind so many bytes.
    pub fn for_file(self, bytes: u64) -> [(&'static str, String); 3] {
        let [rows, batches] = self.pairs();
        [rows, batches, (BYTES, bytes.to_string())]
    }

    fn pairs(self) -> [(&'static str, String); 2] {
        [(ROWS_KEY, self.rows.to_string()), (BATCHES, self.batches.to_string())]
    }

    /// Counts a batch of so many rows.
    pub fn add(&mut self, rows: usize) {
        self.rows = self.rows.saturating_add(rows as u64);
        self.batches += 1;
    }

    /// Checks what was read against what is stated.
    pub fn check(self, stated: Self) -> Result<()> {
        let Self { rows, batches } = self;
        ensure!(
            self == stated,
            "the writer counted {} batches of {} rows in all, found {batches} of {rows}: messages \
             are missing, or were written twice",
            stated.batches,
            stated.rows
        );
        Ok(())
    }

    /// Writes the message with the counts of a stream of this schema, behind its last batch.
    pub fn write(self, sink: &mut impl std::io::Write, schema: &SchemaRef) -> Result<()> {
        let options = IpcWriteOptions::default();
        let batch = RecordBatch::new_empty(schema.clone());
        let mut tracker = DictionaryTracker::new(false);
        let (_, encoded) = IpcDataGenerator::default().encode(
            &batch,
            &mut tracker,
            &options,
            &mut Default::default(),
        )?;
        let ipc_message = self.with_counts(&encoded.ipc_message)?;
        write_message(sink, EncodedData { ipc_message, ..encoded }, &options)?;
        Ok(())
    }

    /// The message of a batch, with the counts as its key-values.
    fn with_counts(self, message: &[u8]) -> Result<Vec<u8>> {
        let not_written = |what: String| Error::from(ArrowError::IpcError(what));
        let message = root_as_message(message).map_err(|error| not_written(error.to_string()))?;
        let parts = message.header_as_record_batch().and_then(|batch| {
            Some((batch.length(), batch.nodes()?, batch.buffers()?, batch.variadicBufferCounts()))
        });
        let Some((length, nodes, buffers, variadic)) = parts else {
            return Err(not_written("a batch was expected".to_owned()));
        };
        let mut builder = FlatBufferBuilder::new();
        let pairs = self.pairs().map(|(key, value)| {
            let args = KeyValueArgs {
                key: Some(builder.create_string(key)),
                value: Some(builder.create_string(&value)),
            };
            KeyValue::create(&mut builder, &args)
        });
        let custom_metadata = Some(builder.create_vector(&pairs));
        let nodes = nodes.iter().copied().collect::<Vec<_>>();
        let buffers = buffers.iter().copied().collect::<Vec<_>>();
        let variadic = variadic.map(|counts| counts.iter().collect::<Vec<_>>());
        let args = RecordBatchArgs {
            length,
            nodes: Some(builder.create_vector(&nodes)),
            buffers: Some(builder.create_vector(&buffers)),
            compression: None,
            variadicBufferCounts: variadic.map(|counts| builder.create_vector(&counts)),
        };
        let batch = arrow_ipc::RecordBatch::create(&mut builder, &args);
        let args = MessageArgs {
            version: message.version(),
            header_type: MessageHeader::RecordBatch,
            header: Some(batch.as_union_value()),
            bodyLength: message.bodyLength(),
            custom_metadata,
        };
        let root = Message::create(&mut builder, &args);
        builder.finish(root, None);
        Ok(builder.finished_data().to_vec())
    }
}

/// A sink that counts what is written to it.
pub(super) struct Counted<W> {
    pub sink: W,
    pub bytes: u64,
}

impl<W> Counted<W> {
    pub fn new(sink: W) -> Self {
        Self { sink, bytes: 0 }
    }
}

impl<W: std::io::Write> std::io::Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}
