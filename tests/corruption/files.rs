//! Damaged IPC files and streams: lengths that they state must not be believed.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::*;
use lanepack::{Error, Options, ipc};

use super::LIMIT;
use super::common::{Nulls, Rng, Shape, array_of, carried_arrays, encoded_types};
use super::damage::largest_allocation;

fn batch() -> RecordBatch {
    let encoded = encoded_types().into_iter().enumerate().map(|(at, data_type)| {
        array_of(&data_type, 300, Shape::ALL[at % Shape::ALL.len()], Nulls::Random)
    });
    let columns = encoded.chain(carried_arrays(300)).enumerate();
    let columns = columns.map(|(at, array)| (format!("column {at}"), array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The batch as a file and as a stream.
fn written(batch: &RecordBatch) -> [Vec<u8>; 2] {
    let (schema, options) = (batch.schema(), Options::default());
    let mut file = ipc::Writer::file(Vec::new(), &schema, options.clone()).unwrap();
    let mut stream = ipc::Writer::stream(Vec::new(), &schema, options).unwrap();
    file.write(batch).unwrap();
    stream.write(batch).unwrap();
    [file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

/// Reads a file (0) or stream (1); no allocation may be large.
#[track_caller]
fn read(kind: usize, bytes: &[u8], verify: bool) -> Result<Vec<RecordBatch>, Error> {
    let read = || -> Result<Vec<RecordBatch>, Error> {
        let batches: Result<_, _> = match kind {
            0 => ipc::Reader::file(Cursor::new(bytes))?.with_checksums(verify).collect(),
            _ => ipc::Reader::stream(bytes)?.with_checksums(verify).collect(),
        };
        Ok(batches?)
    };
    let (result, largest) = largest_allocation(read);
    assert!(largest < LIMIT, "an allocation of {largest} bytes for {} bytes", bytes.len());
    result
}

#[test]
fn flipped_bytes_do_no_harm() {
    super::sweeps::hush_arrow();
    let written = written(&batch());
    let mut rng = Rng(11);
    for round in 0..3000 {
        for (kind, bytes) in written.iter().enumerate() {
            let mut bytes = bytes.clone();
            // The ends hold footer and schema, where most can break.
            let at = match round % 3 {
                0 => rng.below(bytes.len() as u64) as usize,
                1 => bytes.len() - 1 - rng.below(4000) as usize,
                _ => rng.below(4000) as usize,
            };
            bytes[at] = [0, 0xff, 0x7f, bytes[at] ^ 0x10][rng.below(4) as usize];
            // An error or some batches; what this looks for is a panic.
            let _ = read(kind, &bytes, round % 2 == 0);
        }
    }
}

#[test]
fn overwritten_lengths_do_no_harm() {
    super::sweeps::hush_arrow();
    let written = written(&batch().project(&[0, 4, 26, 33]).unwrap());
    for (kind, intact) in written.iter().enumerate() {
        let ends = (0..4000).chain(intact.len() - 4000..intact.len() - 8);
        for at in ends.step_by(8) {
            for value in [i64::MAX, i64::MIN, -1, 1 << 40, 0x7fff_ffff, 1 << 31] {
                let mut bytes = intact.clone();
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
                let _ = read(kind, &bytes, false);
            }
        }
    }
}

#[test]
fn absurd_lengths_of_footers_and_messages_are_errors() {
    let numbers = Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
    let [file, stream] = written(&RecordBatch::try_from_iter([("n", numbers)]).unwrap());
    for len in [0, i32::MAX, i32::MIN, -1, file.len() as i32, file.len() as i32 - 10] {
        let mut file = file.clone();
        let at = file.len() - 10;
        file[at..at + 4].copy_from_slice(&len.to_le_bytes());
        assert!(read(0, &file, true).is_err(), "a footer of {len} bytes");
    }
    for len in [i32::MAX, i32::MIN, -1, 1 << 30] {
        let mut stream = stream.clone();
        stream[4..8].copy_from_slice(&len.to_le_bytes());
        assert!(read(1, &stream, true).is_err(), "a schema of {len} bytes");
    }
    for bytes in [&b"ARROW1\0\0ARROW1"[..], b"", b"ARROW1", &[0xff; 64], &[0; 64]] {
        assert!(read(0, bytes, true).is_err());
    }
    for bytes in [&b""[..], &[0xff; 64], &[0; 64], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]] {
        assert!(read(1, bytes, true).is_err());
    }
}
