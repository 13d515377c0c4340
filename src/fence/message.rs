//! Messages: their metadata, in files, streams and chunks, and what kinds of them there may be.

use arrow_ipc::{Message, MetadataVersion, root_as_message};
use arrow_schema::{DataType, Field, Fields, Schema};

use super::batch::check_batch;
use super::schema::schema_of;
use crate::error::{Error, Result, ensure};

/// Marks the start of a message since format version 0.15.
const CONTINUATION: u32 = 0xffff_ffff;

/// Checks all messages of an IPC stream in memory that holds one batch of one column of `rows`
/// values. Compressed bodies are refused: they state their own sizes.
pub(crate) fn check_stream(mut bytes: &[u8], rows: usize) -> Result<()> {
    let mut schema: Option<Schema> = None;
    let mut batches = 0;
    while let Some((metadata, rest)) = split_metadata(bytes)? {
        let message = message_of(metadata)?;
        let body = usize::try_from(message.bodyLength()).unwrap_or(usize::MAX);
        ensure!(
            body <= rest.len(),
            "an IPC message with a body of {body} bytes, {} left",
            rest.len()
        );
        let (body, behind) = rest.split_at(body);
        ensure!(batches == 0, "an IPC message behind the batch of a stream inside a chunk");
        match &schema {
            None => {
                let Some(found) = message.header_as_schema() else {
                    return Err(Error::corrupt("an IPC stream that does not begin with a schema"));
                };
                let found = schema_of(found)?;
                let fields = found.fields().len();
                ensure!(
                    fields == 1,
                    "an IPC stream of {fields} columns inside a chunk, 1 expected"
                );
                schema = Some(found);
            }
            Some(schema) => match message.header_as_dictionary_batch() {
                Some(_) => check_dictionary(message, schema, body)?,
                None => {
                    check_message(message, schema.fields(), body)?;
                    check_rows(message, rows)?;
                    batches += 1;
                }
            },
        }
        bytes = behind;
    }
    ensure!(batches == 1, "an IPC stream of {batches} batches inside a chunk, 1 expected");
    Ok(())
}

/// Checks a batch inside of a chunk of so many values.
fn check_rows(message: Message<'_>, rows: usize) -> Result<()> {
    let Some(batch) = message.header_as_record_batch() else { return Ok(()) };
    ensure!(batch.compression().is_none(), "a compressed IPC message inside a chunk");
    ensure!(
        usize::try_from(batch.length()) == Ok(rows),
        "an IPC stream with {} values in a node of {rows}",
        batch.length()
    );
    Ok(())
}

/// Checks a message with the values of a dictionary.
fn check_dictionary(message: Message<'_>, schema: &Schema, body: &[u8]) -> Result<()> {
    let dictionary = message.header_as_dictionary_batch();
    let Some((id, delta, Some(values))) =
        dictionary.map(|batch| (batch.id(), batch.isDelta(), batch.data()))
    else {
        return Err(Error::corrupt("an IPC dictionary without values"));
    };
    ensure!(!delta, "an IPC dictionary that continues another one inside a chunk");
    ensure!(values.compression().is_none(), "a compressed IPC message inside a chunk");
    // Identifiers are the only link between fields and dictionaries.
    #[allow(deprecated)]
    let fields = schema.fields_with_dict_id(id);
    let Some(DataType::Dictionary(_, value)) = fields.first().map(|field| field.data_type()) else {
        return Err(Error::corrupt(format!("an IPC dictionary {id} that no field has")));
    };
    let value = Field::new("", value.as_ref().clone(), true);
    check_batch(values, version(message)?, &Fields::from(vec![value]), body)
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

/// Parses the metadata of a message.
pub(crate) fn message_of(metadata: &[u8]) -> Result<Message<'_>> {
    root_as_message(metadata)
        .map_err(|error| Error::corrupt(format!("metadata of an IPC message: {error}")))
}

/// The version of a message, which decides which buffers unions have.
fn version(message: Message<'_>) -> Result<MetadataVersion> {
    let version = message.version();
    ensure!(
        [MetadataVersion::V4, MetadataVersion::V5].contains(&version),
        "an IPC message of version {version:?}, V4 or V5 expected"
    );
    Ok(version)
}

/// Checks that a message is a batch of these fields, with this body.
pub(crate) fn check_message(message: Message<'_>, fields: &Fields, body: &[u8]) -> Result<()> {
    let Some(batch) = message.header_as_record_batch() else {
        return Err(Error::corrupt(format!(
            "an IPC message of kind {:?}, a record batch expected",
            message.header_type()
        )));
    };
    check_batch(batch, version(message)?, fields, body)
}
