//! Writes a table of several columns to a file with an index, patches it anywhere, makes the checksum of the
//! index right or not, opens it and reads it in part.
//!
//! ```text
//! byte 0 columns, checksum of the index, checksums | 1..4 kinds | 4 shape | 5 rows | patches of 4 bytes:
//!   u16 where (bit 15: from the end, else from the start) | operation | operand
//! ```
//!
//! Footer and index are at the end. What is read has to be valid, and what is read in part the same as what is
//! read as a whole, unless bounds lie, which have no checksum of their own where checksums are not compared, or
//! filters, whose checksums the index states. Columns have filters if their types may.
#![no_main]

use std::ops::Range;

use arrow_array::{RecordBatch, Scalar};
use arrow_buffer::Buffer;
use lanepack::file::{File, Writer};
use lanepack::scan::{col, lit};
use lanepack::{Engine, Error, Options};
use lanepack_fuzz::{array, not_refused_by_arrow, patch};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

/// Writes a batch of one to three columns in chunks of 1,024 rows.
fn written(head: &[u8; 6]) -> Result<Vec<u8>, Error> {
    let kinds = &head[1..2 + usize::from(head[0] % 3)];
    let columns = (kinds.iter().enumerate())
        .map(|(at, kind)| (format!("c{at}"), array(*kind, head[4], head[5] % 8), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    let options = Options::default().with_chunk_rows(1024);
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options.clone())?;
    for name in batch.schema().fields().iter().map(|field| field.name()) {
        // Not of every type. A writer that refuses is gone.
        let one = Writer::try_new(Vec::new(), &batch.schema(), options.clone())?;
        if one.with_filters(&[name]).is_ok() {
            writer = writer.with_filters(&[name])?;
        }
    }
    writer.write(&batch)?;
    writer.into_inner()
}

/// Where the index is: in front of the footer, whose length stands before the last six bytes.
fn index_of(bytes: &[u8]) -> Option<Range<usize>> {
    let end = bytes.len().checked_sub(10)?;
    let footer: [u8; 4] = bytes[end..end + 4].try_into().ok()?;
    let end = end.checked_sub(u32::from_le_bytes(footer) as usize)?;
    // The key `lanepack.index` is followed by the place, or follows it, as `place,length`.
    let footer = &bytes[end..];
    let digits = footer.split(|byte| !byte.is_ascii_digit() && *byte != b',');
    let place = digits.filter_map(|text| std::str::from_utf8(text).ok()?.split_once(','));
    let place = place.filter_map(|(at, len)| Some((at.parse().ok()?, len.parse().ok()?)));
    let mut place = place.map(|(at, len): (usize, usize)| at..at.saturating_add(len));
    place.find(|place| place.end == end && place.start + 8 <= end)
}

fn valid(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().expect("a valid array");
    }
}

/// Reads all of a file, and parts of it.
fn read(file: &File) -> Result<(), Error> {
    let cpu = Engine::cpu();
    let names: Vec<String> =
        file.schema().fields().iter().map(|field| field.name().clone()).collect();
    for name in &names {
        file.statistics(name)?;
    }
    let all = file.scan().gather(&names, &cpu)?;
    valid(&all);
    assert_eq!(all.num_rows(), file.num_rows());
    let in_windows = file.clone().with_window_bytes(1);
    assert_eq!(in_windows.scan().gather(&names, &cpu)?, all);
    for chunk in 0..file.num_chunks() {
        valid(&file.chunk(chunk, &cpu)?);
    }
    let rows = file.num_rows() as u64;
    let taken = file.take(&[rows - 1, 0], &cpu)?;
    // A gathered batch has no metadata of the schema.
    assert_eq!(taken.slice(1, 1).columns(), all.slice(0, 1).columns());
    valid(&file.scan().filter(col(&*names[0]).is_not_null()).gather(&names, &cpu)?);
    for (name, column) in names.iter().zip(all.columns()) {
        let value = |row: u64| lit(Scalar::new(column.slice(row as usize, 1)));
        for list in [vec![value(0)], vec![value(rows / 2), value(rows - 1)]] {
            // Nested values have no order.
            if let Ok(found) = file.scan().filter(col(&**name).in_list(list)).gather(&names, &cpu) {
                valid(&found);
            }
        }
    }
    Ok(())
}

fuzz_target!(|input: &[u8]| {
    let Some((head, patches)) = input.split_first_chunk::<6>() else { return };
    let mut bytes = written(head).expect("everything can be written");
    let index = index_of(&bytes).expect("a file with an index");
    patch(patches, |place, change| {
        let at = usize::from(place & 0x7fff);
        let at = if place >> 15 == 1 { bytes.len().saturating_sub(1 + at) } else { at };
        change(&mut bytes, at);
    });
    if head[0] & 64 == 0 && bytes.len() >= index.end {
        let checksum = xxh3_64(&bytes[index.start + 8..index.end]);
        bytes[index.start..index.start + 8].copy_from_slice(&checksum.to_le_bytes());
    }
    let file = File::from_bytes(Buffer::from_vec(bytes));
    let result = file.and_then(|file| read(&file.with_checksums(head[0] & 128 == 0)));
    if let Err(error) = result {
        not_refused_by_arrow(&error);
    }
});
