//! Reading: IPC messages, checked against the size of their file before
//! anything is allocated; then columns, checksums, and batches.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::{FileDecoder, StreamDecoder, read_footer_length};
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::check::check_message;
use super::fenced;
use crate::batch::{columns, decompress_columns, unpacked_schema};
use crate::column::CompressedColumn;
use crate::error::{Error, Result, ensure};

/// Bytes that a stream is read by.
const READ_BYTES: usize = 1 << 20;
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
    decoder: StreamDecoder,
    /// Read but not decoded yet.
    buffer: Buffer,
    /// Decoded together with the schema.
    first: Option<RecordBatch>,
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
        Ok(Self { source, schema, verify: true })
    }
}

impl<R: Read> Reader<StreamSource<R>> {
    /// A reader of the IPC stream format.
    ///
    /// # Errors
    /// If it is no IPC stream, or its columns are not compressed ones of this version.
    pub fn stream(reader: R) -> Result<Self> {
        let (decoder, buffer) = (StreamDecoder::new(), Buffer::from(&[]));
        let mut source = StreamSource { reader, decoder, buffer, first: None };
        source.first = source.decode_until(|decoder| decoder.schema().is_some())?;
        let schema = source.decoder.schema();
        let schema = schema.ok_or_else(|| Error::corrupt("an IPC stream without schema"))?;
        let schema = Arc::new(unpacked_schema(&schema)?);
        Ok(Self { source, schema, verify: true })
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
    /// batch that holds them; none at the end.
    ///
    /// # Errors
    /// As [`columns`], [`Error::Checksum`] for a damaged body, and what the
    /// reader reports.
    pub fn next_columns(&mut self) -> Result<Option<(RecordBatch, Vec<CompressedColumn>)>> {
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
        if let Some(metadata) = buffer.get(8..).filter(|_| buffer.starts_with(&[0xff; 4]))
            && let Ok(message) = root_as_message(metadata)
        {
            check_message(message, block.bodyLength())?;
        }
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
        match self.first.take() {
            Some(batch) => Ok(Some(batch)),
            None => self.decode_until(|_| false),
        }
    }
}

impl<R: Read> StreamSource<R> {
    /// Decodes until there is a batch, the stream ends, or `enough`. Memory
    /// grows with what was read, not with what a message says of its length.
    fn decode_until(
        &mut self,
        enough: impl Fn(&StreamDecoder) -> bool,
    ) -> Result<Option<RecordBatch>> {
        loop {
            let batch = fenced(|| self.decoder.decode(&mut self.buffer))?;
            if batch.is_some() || enough(&self.decoder) {
                return Ok(batch);
            }
            let mut bytes = Vec::with_capacity(READ_BYTES);
            self.reader.by_ref().take(READ_BYTES as u64).read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                fenced(|| self.decoder.finish())?;
                return Ok(None);
            }
            self.buffer = Buffer::from_vec(bytes);
        }
    }
}
