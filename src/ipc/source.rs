//! Where readers take batches from: the messages of IPC files and streams, checked against the size
//! of their file before anything is allocated (or read piece by piece from a stream), and by the
//! fence before arrow-ipc sees them.

use std::io::{Read, Seek, SeekFrom};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Message, root_as_footer};
use arrow_schema::SchemaRef;

use super::counts::Counts;
use crate::error::{Error, Result, ensure};
use crate::fence::{check_message, fenced, message_of, schema_of};

/// Bytes of a stream that are read, and allocated, at once.
const READ_BYTES: u64 = 1 << 20;
/// Bytes of the schema of an old stream at most, which begins with their number.
const MOST_OLD_SCHEMA: u32 = 1 << 28;
/// What a file begins and ends with.
const MAGIC: &[u8; 6] = b"ARROW1";
/// What messages begin with.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The end of a file: length of the footer, and the magic bytes.
const TRAILER: usize = 10;

/// What a source has next.
pub enum Next {
    /// A batch as it is stored.
    Batch(RecordBatch),
    /// What the writer has counted since the last counts.
    Counts(Counts),
    End,
}

/// Where a [`Reader`](super::Reader) takes batches from: an IPC file or stream. Sealed.
pub trait Source: sealed::Sealed {}

impl<S: sealed::Sealed> Source for S {}

mod sealed {
    /// What every source can do.
    pub trait Sealed {
        /// The next batch as it is stored, or counts.
        fn next(&mut self) -> crate::error::Result<super::Next>;
    }
}

/// The messages of an IPC file.
pub struct FileSource<R> {
    reader: R,
    /// Bytes of the file.
    len: u64,
    schema: SchemaRef,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
    /// What the writer has counted, until it is compared.
    counts: Option<Counts>,
}

/// The messages of an IPC stream.
pub struct StreamSource<R> {
    reader: R,
    schema: SchemaRef,
    decoder: FileDecoder,
    /// Batches that have been read.
    batches: usize,
    /// Whether it may end without its end marker.
    pub(super) may_be_cut: bool,
}

impl<R: Read + Seek> FileSource<R> {
    /// Reads the footer of a file.
    pub(super) fn open(mut reader: R) -> Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        let mut head = Vec::new();
        reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head)?;
        if !head.starts_with(MAGIC) && (head.is_empty() || !MAGIC.starts_with(&head)) {
            return Err(Error::not_lanepack("an Arrow IPC file", described(&head)));
        }
        let mut trailer = [0; TRAILER];
        if len > (MAGIC.len() + TRAILER) as u64 {
            reader.seek(SeekFrom::Start(len - TRAILER as u64))?;
            reader.read_exact(&mut trailer)?;
        }
        ensure!(
            trailer.ends_with(MAGIC),
            "an IPC file of {len} bytes without its end: it was cut, or its writer did not finish"
        );
        let footer_len = fenced(|| read_footer_length(trailer))?;
        ensure!(
            (footer_len + TRAILER) as u64 <= len,
            "a footer of {footer_len} bytes in a file of {len}"
        );
        let footer_at = len - (footer_len + TRAILER) as u64;
        reader.seek(SeekFrom::Start(footer_at))?;
        let mut footer = vec![0; footer_len];
        reader.read_exact(&mut footer)?;
        let footer = root_as_footer(&footer)
            .map_err(|error| Error::corrupt(format!("footer of the IPC file: {error}")))?;
        let schema = footer.schema().ok_or_else(|| Error::corrupt("an IPC file without schema"))?;
        let schema = SchemaRef::new(schema_of(schema)?);
        // Compressed columns have no dictionaries: theirs lie in their bodies.
        let decoder = FileDecoder::new(schema.clone(), footer.version());
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        let counts = Counts::of_file(footer.custom_metadata(), footer_at);
        Ok(Self { reader, len, schema, decoder, blocks: blocks.into_iter(), counts })
    }

    /// The schema of the batches as they are stored.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads a block whose place the footer states, if the file is so long.
    fn read_block(&mut self, block: &Block) -> Result<Buffer> {
        let (offset, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let size = |metadata: u64, body: u64| {
            let len = metadata.checked_add(body)?;
            let end = u64::try_from(offset).ok()?.checked_add(len)?;
            (end <= self.len).then_some(len)
        };
        let len = (u64::try_from(metadata).ok().zip(u64::try_from(body).ok()))
            .and_then(|(metadata, body)| size(metadata, body));
        let Some(len) = len else {
            return Err(Error::corrupt(format!(
                "a message of {metadata} + {body} bytes at {offset} in a file of {} bytes",
                self.len
            )));
        };
        self.reader.seek(SeekFrom::Start(offset as u64))?;
        let mut buffer = MutableBuffer::from_len_zeroed(len as usize);
        self.reader.read_exact(&mut buffer)?;
        Ok(buffer.into())
    }
}

impl<R: Read + Seek> sealed::Sealed for FileSource<R> {
    fn next(&mut self) -> Result<Next> {
        let Some(block) = self.blocks.next() else {
            return Ok(self.counts.take().map_or(Next::End, Next::Counts));
        };
        let buffer = self.read_block(&block)?;
        decode(&self.decoder, &self.schema, &block, &buffer).map(Next::Batch)
    }
}

impl<R: Read> StreamSource<R> {
    /// Reads the schema of a stream.
    pub(super) fn open(mut reader: R) -> Result<Self> {
        let mut bytes = MutableBuffer::new(0);
        read(&mut reader, 4, &mut bytes)?;
        // The first four bytes of a stream are a marker, or, of old ones, a length; text is a
        // large one.
        let len = bytes.last_chunk().map_or(0, |len| u32::from_le_bytes(*len));
        let is_stream = bytes.as_slice() == CONTINUATION || len <= MOST_OLD_SCHEMA;
        if bytes.is_empty() || !is_stream {
            return Err(Error::not_lanepack("an Arrow IPC stream", described(&bytes)));
        }
        let first = rest_of_message(&mut reader, bytes)?;
        let message = first.as_ref().map(|(block, buffer)| parts(block, buffer)).transpose()?;
        let Some((message, Some(schema))) =
            message.map(|(message, _)| (message, message.header_as_schema()))
        else {
            return Err(Error::corrupt("an IPC stream that does not begin with a schema"));
        };
        let schema = SchemaRef::new(schema_of(schema)?);
        let decoder = FileDecoder::new(schema.clone(), message.version());
        Ok(Self { reader, schema, decoder, batches: 0, may_be_cut: false })
    }

    /// The schema of the batches as they are stored.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl<R: Read> sealed::Sealed for StreamSource<R> {
    fn next(&mut self) -> Result<Next> {
        let mut bytes = MutableBuffer::new(0);
        if read(&mut self.reader, 4, &mut bytes)? == 0 {
            ensure!(
                self.may_be_cut,
                "an IPC stream that ends behind {} batches without its end marker: it was cut, or \
                 its writer did not finish",
                self.batches
            );
            return Ok(Next::End);
        }
        let Some((block, buffer)) = rest_of_message(&mut self.reader, bytes)? else {
            return Ok(Next::End);
        };
        if let Some(counts) = Counts::of_message(parts(&block, &buffer)?.0) {
            return Ok(Next::Counts(counts));
        }
        self.batches += 1;
        decode(&self.decoder, &self.schema, &block, &buffer).map(Next::Batch)
    }
}

/// The batch of a message, which is checked first.
fn decode(
    decoder: &FileDecoder,
    schema: &SchemaRef,
    block: &Block,
    buffer: &Buffer,
) -> Result<RecordBatch> {
    let (message, body) = parts(block, buffer)?;
    check_message(message, schema.fields(), body)?;
    let batch = fenced(|| decoder.read_record_batch(block, buffer))?;
    batch.ok_or_else(|| Error::corrupt("an IPC message without a batch"))
}

/// What begins with these bytes, and what reads it.
fn described(head: &[u8]) -> String {
    // Of a stream four bytes are known.
    let known = [
        (&MAGIC[..head.len().clamp(4, 6)], "an Arrow IPC file, which `ipc::Reader::file` reads"),
        (&CONTINUATION, "an Arrow IPC stream, which `ipc::Reader::stream` reads"),
        (b"PAR1", "a Parquet file: the crate `parquet` reads it, and `decompress` its batches"),
    ];
    match known.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, what)) => (*what).to_owned(),
        None if head.is_empty() => "no bytes".to_owned(),
        None => format!("bytes that begin with {head:02x?}"),
    }
}

/// A message's metadata and body.
fn parts<'a>(block: &Block, buffer: &'a [u8]) -> Result<(Message<'a>, &'a [u8])> {
    let (metadata, body) = buffer.split_at(block.metaDataLength() as usize);
    // Behind the marker of newer streams, and the length.
    let prefix = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
    Ok((message_of(metadata.get(prefix..).unwrap_or_default())?, body))
}

/// Reads the message of a stream that begins with these bytes, four of them unless the stream ends
/// there; none for the end marker. Memory grows with what was read, not with what a message says of
/// its length, and nothing is read past the message.
fn rest_of_message(
    reader: &mut impl Read,
    mut bytes: MutableBuffer,
) -> Result<Option<(Block, Buffer)>> {
    if bytes.len() < CONTINUATION.len() {
        return Err(Error::corrupt(format!(
            "an IPC message that ends behind {} bytes",
            bytes.len()
        )));
    }
    if bytes.as_slice() == CONTINUATION {
        read_all(reader, 4, &mut bytes)?;
    }
    let len = bytes.last_chunk().map_or(0, |len| u32::from_le_bytes(*len));
    if len == 0 {
        return Ok(None);
    }
    let prefix = bytes.len();
    let metadata = i32::try_from(len).ok().and_then(|len| len.checked_add(prefix as i32));
    let metadata = metadata
        .ok_or_else(|| Error::corrupt(format!("an IPC message with {len} bytes of metadata")))?;
    read_all(reader, len.into(), &mut bytes)?;
    let body = message_of(&bytes[prefix..])?.bodyLength();
    let body_len = u64::try_from(body)
        .map_err(|_| Error::corrupt(format!("an IPC message with a body of {body} bytes")))?;
    read_all(reader, body_len, &mut bytes)?;
    Ok(Some((Block::new(0, metadata, body), bytes.into())))
}

/// Appends up to `len` bytes; how many there were.
fn read(reader: &mut impl Read, len: u64, bytes: &mut MutableBuffer) -> Result<u64> {
    let mut left = len;
    while left > 0 {
        let start = bytes.len();
        bytes.resize(start + left.min(READ_BYTES) as usize, 0);
        let read = reader.read(&mut bytes[start..]);
        bytes.truncate(start + *read.as_ref().unwrap_or(&0));
        let read = match read {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        left -= read as u64;
    }
    Ok(len - left)
}

/// Appends `len` bytes.
fn read_all(reader: &mut impl Read, len: u64, bytes: &mut MutableBuffer) -> Result<()> {
    let found = read(reader, len, bytes)?;
    ensure!(found == len, "an IPC stream that ends {} bytes early", len - found);
    Ok(())
}
