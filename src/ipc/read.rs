//! Reading: IPC messages, checked against the size of their file before
//! anything is allocated (or read piece by piece from a stream); then columns,
//! checksums, and batches.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Message, root_as_footer};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use crate::batch::{columns, decompress_columns, unpacked_schema};
use crate::column::CompressedColumn;
use crate::error::{Error, Result, ensure};
use crate::fence::{check_message, fenced, message_of};

/// Bytes of a stream that are read, and allocated, at once.
const READ_BYTES: u64 = 1 << 20;
/// The end of a file: length of the footer, and the magic bytes.
const TRAILER: usize = 10;

/// Reads the batches of an IPC file or stream of compressed columns.
///
/// Iterating decompresses; [`Reader::next_columns`] leaves columns compressed.
/// Body checksums are compared unless [`Reader::with_verify`] says otherwise.
/// See [`Writer`](super::Writer) for an example.
pub struct Reader<S> {
    source: S,
    /// What the batches have once decompressed.
    schema: SchemaRef,
    verify: bool,
    /// Set by an error: there is nothing behind it.
    failed: bool,
}

/// Where a [`Reader`] takes batches from: an IPC file or stream. Sealed.
pub trait Source: sealed::Sealed {}

impl<S: sealed::Sealed> Source for S {}

mod sealed {
    use super::{RecordBatch, Result};

    pub trait Sealed {
        /// The next batch as it is stored.
        fn next_packed(&mut self) -> Result<Option<RecordBatch>>;
    }
}

/// The messages of an IPC file.
pub struct FileSource<R> {
    reader: R,
    /// Bytes of the file.
    len: u64,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
}

/// The messages of an IPC stream.
pub struct StreamSource<R> {
    reader: R,
    decoder: FileDecoder,
}

impl<R: Read + Seek> Reader<FileSource<R>> {
    /// A reader of the IPC file format.
    ///
    /// # Errors
    /// If it is no IPC file, or its columns are not compressed ones of this version.
    pub fn file(mut reader: R) -> Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        ensure!(len > TRAILER as u64, "a file of {len} bytes is no Arrow IPC file");
        reader.seek(SeekFrom::Start(len - TRAILER as u64))?;
        let mut trailer = [0; TRAILER];
        reader.read_exact(&mut trailer)?;
        let footer_len = fenced(|| read_footer_length(trailer))?;
        ensure!(
            (footer_len + TRAILER) as u64 <= len,
            "a footer of {footer_len} bytes in a file of {len}"
        );
        reader.seek(SeekFrom::Start(len - (footer_len + TRAILER) as u64))?;
        let mut footer = vec![0; footer_len];
        reader.read_exact(&mut footer)?;
        let footer = root_as_footer(&footer)
            .map_err(|error| Error::corrupt(format!("footer of the IPC file: {error}")))?;
        let schema = footer.schema().ok_or_else(|| Error::corrupt("an IPC file without schema"))?;
        let schema = Arc::new(fenced(|| Ok(arrow_ipc::convert::fb_to_schema(schema)))?);
        // Compressed columns have no dictionaries: theirs lie in their bodies.
        let decoder = FileDecoder::new(schema.clone(), footer.version());
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        let schema = Arc::new(unpacked_schema(&schema)?);
        let source = FileSource { reader, len, decoder, blocks: blocks.into_iter() };
        Ok(Self { source, schema, verify: true, failed: false })
    }
}

impl<R: Read> Reader<StreamSource<R>> {
    /// A reader of the IPC stream format.
    ///
    /// # Errors
    /// If it is no IPC stream, or its columns are not compressed ones of this version.
    pub fn stream(mut reader: R) -> Result<Self> {
        let first = read_message(&mut reader)?;
        let message = first.as_ref().map(|(block, buffer)| parts(block, buffer)).transpose()?;
        let Some((message, Some(schema))) =
            message.map(|(message, _)| (message, message.header_as_schema()))
        else {
            return Err(Error::corrupt("an IPC stream that does not begin with a schema"));
        };
        let schema = Arc::new(fenced(|| Ok(arrow_ipc::convert::fb_to_schema(schema)))?);
        let decoder = FileDecoder::new(schema.clone(), message.version());
        let schema = Arc::new(unpacked_schema(&schema)?);
        let source = StreamSource { reader, decoder };
        Ok(Self { source, schema, verify: true, failed: false })
    }
}

impl<S: Source> Reader<S> {
    /// Whether to compare the checksum of every body (the default).
    #[must_use]
    pub fn with_verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// The schema of the decompressed batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of the next batch, validated but not decompressed, with the
    /// batch that holds them; none at the end and after an error.
    ///
    /// # Errors
    /// As [`columns`], [`Error::Checksum`] for a damaged body, and what the
    /// reader reports.
    pub fn next_columns(&mut self) -> Result<Option<(RecordBatch, Vec<CompressedColumn>)>> {
        if self.failed {
            return Ok(None);
        }
        let next = self.read_columns();
        self.failed = next.is_err();
        next
    }

    fn read_columns(&mut self) -> Result<Option<(RecordBatch, Vec<CompressedColumn>)>> {
        let Some(packed) = self.source.next_packed()? else { return Ok(None) };
        let columns = columns(&packed)?;
        if self.verify {
            columns.par_iter().try_for_each(CompressedColumn::verify_checksums)?;
        }
        Ok(Some((packed, columns)))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some((packed, columns)) = self.next_columns()? else { return Ok(None) };
        decompress_columns(self.schema.clone(), &columns, packed.num_rows()).map(Some)
    }
}

impl<S: Source> Iterator for Reader<S> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl<R: Read + Seek> sealed::Sealed for FileSource<R> {
    fn next_packed(&mut self) -> Result<Option<RecordBatch>> {
        let Some(block) = self.blocks.next() else { return Ok(None) };
        let buffer = self.read_block(&block)?;
        let (message, body) = parts(&block, &buffer)?;
        check_message(message, body)?;
        fenced(|| self.decoder.read_record_batch(&block, &buffer))
    }
}

impl<R: Read + Seek> FileSource<R> {
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

impl<R: Read> sealed::Sealed for StreamSource<R> {
    fn next_packed(&mut self) -> Result<Option<RecordBatch>> {
        let Some((block, buffer)) = read_message(&mut self.reader)? else { return Ok(None) };
        let (message, body) = parts(&block, &buffer)?;
        check_message(message, body)?;
        fenced(|| self.decoder.read_record_batch(&block, &buffer))
    }
}

/// A message's metadata and body.
fn parts<'a>(block: &Block, buffer: &'a [u8]) -> Result<(Message<'a>, &'a [u8])> {
    let (metadata, body) = buffer.split_at(block.metaDataLength() as usize);
    // Behind the marker of newer streams, and the length.
    let prefix = if metadata.starts_with(&[0xff; 4]) { 8 } else { 4 };
    Ok((message_of(metadata.get(prefix..).unwrap_or_default())?, body))
}

/// Reads the next message of a stream; none at its end. Memory grows with what
/// was read, not with what a message says of its length, and nothing is read
/// past the message.
fn read_message(reader: &mut impl Read) -> Result<Option<(Block, Buffer)>> {
    let mut bytes = MutableBuffer::new(0);
    match read(reader, 4, &mut bytes)? {
        0 => return Ok(None),
        4 => {}
        found => return Err(Error::corrupt(format!("{found} bytes behind the last IPC message"))),
    }
    if bytes.as_slice() == [0xff; 4] {
        read_all(reader, 4, &mut bytes)?;
    }
    let len = bytes.last_chunk().map_or(0, |len| u32::from_le_bytes(*len));
    if len == 0 {
        return Ok(None);
    }
    let prefix = bytes.len();
    read_all(reader, len.into(), &mut bytes)?;
    let metadata = i32::try_from(bytes.len())
        .map_err(|_| Error::corrupt(format!("an IPC message with {len} bytes of metadata")))?;
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
