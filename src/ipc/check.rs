//! What arrow-ipc takes on trust, checked before it sees a message: that buffers
//! lie inside the body and lengths are not negative.

use arrow_ipc::{Message, RecordBatch, root_as_message};

use crate::error::{Error, Result, ensure};

/// Marks the start of a message since format version 0.15.
const CONTINUATION: u32 = 0xffff_ffff;

/// Checks all messages of an IPC stream in memory. Compressed bodies are
/// refused: they state their own sizes, which nothing here bounds.
pub(crate) fn check_stream(mut bytes: &[u8]) -> Result<()> {
    while let Some((metadata, rest)) = split_metadata(bytes)? {
        let message = root_as_message(metadata)
            .map_err(|error| Error::corrupt(format!("metadata of an IPC message: {error}")))?;
        let body = usize::try_from(message.bodyLength()).unwrap_or(usize::MAX);
        ensure!(
            body <= rest.len(),
            "an IPC message with a body of {body} bytes, {} left",
            rest.len()
        );
        check_message(message, body as i64)?;
        if let Some(batch) = batch_of(message) {
            ensure!(batch.compression().is_none(), "a compressed IPC message inside a chunk");
        }
        bytes = &rest[body..];
    }
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

/// Checks the lengths and buffers of a message with a body of `body` bytes.
pub(crate) fn check_message(message: Message<'_>, body: i64) -> Result<()> {
    let Some(batch) = batch_of(message) else { return Ok(()) };
    ensure!(batch.length() >= 0, "an IPC batch of {} rows", batch.length());
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let end = offset.checked_add(length).filter(|_| offset >= 0 && length >= 0);
        ensure!(
            end.is_some_and(|end| end <= body),
            "an IPC buffer of {length} bytes at {offset} in a body of {body}"
        );
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
