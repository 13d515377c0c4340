//! What arrow-ipc takes on trust, checked before it sees a message: that buffers
//! lie inside the body and lengths are not negative.

use arrow_ipc::{Message, RecordBatch, root_as_message};

use crate::error::{Error, Result, ensure};

/// Marks the start of a message since format version 0.15.
const CONTINUATION: u32 = 0xffff_ffff;

/// Checks all messages of an IPC stream in memory that holds one batch.
/// Compressed bodies are refused: they state their own sizes.
pub(crate) fn check_stream(mut bytes: &[u8]) -> Result<()> {
    let mut batches = 0;
    while let Some((metadata, rest)) = split_metadata(bytes)? {
        let message = message_of(metadata)?;
        let body = usize::try_from(message.bodyLength()).unwrap_or(usize::MAX);
        ensure!(
            body <= rest.len(),
            "an IPC message with a body of {body} bytes, {} left",
            rest.len()
        );
        check_message(message, &rest[..body])?;
        if let Some(batch) = batch_of(message) {
            ensure!(batch.compression().is_none(), "a compressed IPC message inside a chunk");
        }
        batches += usize::from(message.header_as_record_batch().is_some());
        bytes = &rest[body..];
    }
    ensure!(batches == 1, "an IPC stream of {batches} batches inside a chunk, 1 expected");
    Ok(())
}

/// The metadata of the next message and what follows; none at the end.
fn split_metadata(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let Some((marker, rest)) = bytes.split_first_chunk::<4>() else {
        ensure!(bytes.is_empty(), "{} bytes behind the last IPC message", bytes.len());
        return Ok(None);
    };
    let mut len = u32::from_le_bytes(*marker);
    let mut rest = rest;
    if len == CONTINUATION {
        let Some((stated, behind)) = rest.split_first_chunk::<4>() else {
            return Err(Error::corrupt("an IPC message without its length"));
        };
        (len, rest) = (u32::from_le_bytes(*stated), behind);
    }
    if len == 0 {
        ensure!(rest.is_empty(), "{} bytes behind the end of an IPC stream", rest.len());
        return Ok(None);
    }
    let parts = rest.split_at_checked(len as usize);
    let left = rest.len();
    parts.map(Some).ok_or_else(|| {
        Error::corrupt(format!("an IPC message with {len} bytes of metadata, {left} left"))
    })
}

/// The batch of values or of a dictionary in a message.
fn batch_of(message: Message<'_>) -> Option<RecordBatch<'_>> {
    message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|batch| batch.data()))
}

/// Parses the metadata of a message.
pub(crate) fn message_of(metadata: &[u8]) -> Result<Message<'_>> {
    root_as_message(metadata)
        .map_err(|error| Error::corrupt(format!("metadata of an IPC message: {error}")))
}

/// Checks the lengths and buffers of a message with this body.
pub(crate) fn check_message(message: Message<'_>, body: &[u8]) -> Result<()> {
    let Some(batch) = batch_of(message) else { return Ok(()) };
    ensure!(batch.length() >= 0, "an IPC batch of {} rows", batch.length());
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let bytes = range.and_then(|(offset, length)| body.get(offset..)?.get(..length));
        let Some(bytes) = bytes else {
            return Err(Error::corrupt(format!(
                "an IPC buffer of {length} bytes at {offset} in a body of {}",
                body.len()
            )));
        };
        if batch.compression().is_some()
            && let Some(stated) = bytes.first_chunk()
        {
            // A compressed buffer begins with its size before; -1 if it is not compressed.
            let (stated, most) = (i64::from_le_bytes(*stated), most_uncompressed(bytes.len()));
            ensure!(
                (-1..=most).contains(&stated),
                "a compressed IPC buffer of {length} bytes that states {stated}"
            );
        }
    }
    for node in batch.nodes().into_iter().flatten() {
        let (length, nulls) = (node.length(), node.null_count());
        ensure!(
            length >= 0 && (0..=length).contains(&nulls),
            "an IPC array of {length} values, {nulls} of them null"
        );
    }
    Ok(())
}

/// What a compressed buffer may become: chunks are compressed already, so far
/// less than LZ4 and Zstandard can do.
fn most_uncompressed(bytes: usize) -> i64 {
    (bytes as i64).saturating_mul(1024).max(64 << 20)
}
