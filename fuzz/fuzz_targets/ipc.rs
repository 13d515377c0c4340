//! Writes a table of several columns to an IPC file or stream, patches it anywhere, makes nothing
//! right, and reads it.
//!
//! ```text
//! byte 0 columns, file or stream, checksums | 1..4 kinds | 4 shape | 5 rows | patches of 4 bytes:
//!   u16 where (bit 15: from the end, else from the start) | operation | operand
//! ```
//!
//! Schemas and messages are at the start, footers at the end. arrow-ipc must see nothing that it
//! panics for.
#![no_main]

use std::io::Cursor;

use lanepack::{Error, Options, ipc};
use lanepack_fuzz::{array, not_refused_by_arrow, patch};
use libfuzzer_sys::fuzz_target;

/// Writes a batch of one or two columns.
fn written(head: &[u8; 6]) -> Result<Vec<u8>, Error> {
    let kinds = &head[1..2 + usize::from(head[0] % 2)];
    let columns = (kinds.iter().enumerate())
        .map(|(at, kind)| (format!("c{at}"), array(*kind, head[4], head[5] % 8), true));
    let batch = arrow_array::RecordBatch::try_from_iter_with_nullable(columns)?;
    if head[0] & 2 == 0 {
        let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), Options::default())?;
        writer.write(&batch)?;
        writer.into_inner()
    } else {
        let mut writer = ipc::Writer::stream(Vec::new(), &batch.schema(), Options::default())?;
        writer.write(&batch)?;
        writer.into_inner()
    }
}

/// Reads all batches, which must be valid.
fn read<S: ipc::Source>(mut reader: ipc::Reader<S>) -> Result<(), Error> {
    while let Some(batch) = reader.next_batch()? {
        for column in batch.columns() {
            column.to_data().validate_full().expect("a valid array");
        }
    }
    Ok(())
}

fuzz_target!(|input: &[u8]| {
    let Some((head, patches)) = input.split_first_chunk::<6>() else { return };
    let mut bytes = written(head).expect("everything can be written");
    patch(patches, |place, change| {
        let at = usize::from(place & 0x7fff);
        let at = if place >> 15 == 1 { bytes.len().saturating_sub(1 + at) } else { at };
        change(&mut bytes, at);
    });
    let checksums = head[0] & 4 == 0;
    let result = if head[0] & 2 == 0 {
        ipc::Reader::file(Cursor::new(&bytes))
            .and_then(|reader| read(reader.with_checksums(checksums)))
    } else {
        ipc::Reader::stream(bytes.as_slice())
            .and_then(|reader| read(reader.with_checksums(checksums)))
    };
    if let Err(error) = result {
        not_refused_by_arrow(&error);
    }
});
