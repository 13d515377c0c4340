//! `File::verify`: sound files have no errors, and files without errors answer as they should.

use std::io::Cursor;

use arrow_array::record_batch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileReader;
use lanepack::file::{File, Writer};
use lanepack::scan::col;
use lanepack::{Engine, Error};

use crate::common::Rng;
use crate::{every_type, facts, file_of, open, options};

const NAMES: [&str; 4] = ["day", "shop", "price", "name"];

fn errors_of(bytes: &[u8]) -> Vec<Error> {
    open(bytes).unwrap().verify(&Engine::cpu())
}

#[test]
fn sound_files_have_no_errors() {
    let (types, facts) = (every_type(2500), facts());
    let empty = facts.slice(0, 0);
    let parts: Vec<_> = (0..9).map(|part| facts.slice(part * 1000, 1000)).collect();
    for batches in [vec![types.clone(), types.slice(0, 7)], parts, vec![empty]] {
        let bytes = file_of(&batches, &options());
        let errors = errors_of(&bytes);
        assert!(errors.is_empty(), "{errors:?}");
    }
    // In messages of one chunk, and of chunks that were copied.
    let mut writer = Writer::try_new(Vec::new(), &facts.schema(), options()).unwrap();
    for part in 0..4 {
        writer.write(&facts.slice(part * 900, 900)).unwrap();
        writer.flush().unwrap();
    }
    writer.write_file(&open(&file_of(&[facts], &options())).unwrap()).unwrap();
    let bytes = writer.into_inner().unwrap();
    assert!(errors_of(&bytes).is_empty());
}

#[test]
fn every_damaged_chunk_is_named() {
    let bytes = file_of(&[facts()], &options());
    let file = open(&bytes).unwrap();
    let columns = file.columns(&NAMES).unwrap();
    let mut damaged = bytes.clone();
    let chunks = [("shop", 1, 0), ("name", 3, 2), ("name", 3, 5)];
    for (_, column, chunk) in chunks {
        let body = columns[column].chunks()[chunk].body();
        let at = bytes.windows(body.len()).position(|window| window == &body[..]).unwrap();
        damaged[at + body.len() / 2] ^= 4;
    }
    let damaged = open(&damaged).unwrap().with_name("facts").with_checksums(false);
    for engine in [Engine::cpu(), Engine::auto()] {
        let errors = damaged.verify(&engine);
        assert_eq!(errors.len(), chunks.len(), "{errors:?}");
        for (error, (name, _, chunk)) in errors.iter().zip(chunks) {
            assert!(matches!(error, Error::Checksum { .. }), "{error}");
            let place = error.place().unwrap();
            let found = (place.file.as_deref(), place.column.as_deref(), place.chunk);
            assert_eq!(found, (Some("facts"), Some(name), Some(chunk)));
        }
    }
    // A limit of memory is kept.
    let limited = Engine::cpu().with_memory_limit(100);
    let errors = file.verify(&limited);
    assert!(errors.iter().all(|error| matches!(error, Error::MemoryLimit { .. })), "{errors:?}");
    assert!(errors.len() > 20, "{}", errors.len());
}

/// What a file answers: its rows, and how many a filter keeps.
fn answers(file: &File) -> Result<(arrow_array::RecordBatch, usize), Error> {
    let cpu = Engine::cpu();
    let kept = file.scan().filter(col("day").gt_eq(30).and(col("name").lt("item 5")));
    Ok((file.scan().gather(&NAMES, &cpu)?, kept.count(&cpu)?))
}

#[test]
fn files_without_errors_answer_as_they_should() {
    let batch = facts().slice(0, 1500);
    let bytes = file_of(std::slice::from_ref(&batch), &options());
    let expected = answers(&open(&bytes).unwrap()).unwrap();
    let reader = FileReader::try_new(Cursor::new(&bytes), None).unwrap();
    let place = reader.custom_metadata()["lanepack.index"].split_once(',').unwrap();
    let (at, len): (usize, usize) = (place.0.parse().unwrap(), place.1.parse().unwrap());
    let mut rng = Rng(5);
    let (mut found, mut sound) = (0, 0);
    let mut check = |forged: Vec<u8>, what: &str| {
        let Ok(file) = File::from_bytes(Buffer::from_vec(forged)) else {
            found += 1;
            return;
        };
        if !file.verify(&Engine::cpu()).is_empty() {
            found += 1;
            return;
        }
        sound += 1;
        assert_eq!(answers(&file).unwrap(), expected, "{what}");
    };
    // Any byte; bytes of the index, with a right checksum.
    for place in 0..bytes.len() {
        let mut forged = bytes.clone();
        forged[place] ^= 1 << rng.below(8);
        check(forged, &format!("byte {place}"));
    }
    for step in 0..3 * len {
        let place = at + 8 + step % (len - 8);
        let mut forged = bytes.clone();
        forged[place] ^= 1 << rng.below(8);
        let checksum = twox_hash::XxHash3_64::oneshot(&forged[at + 8..at + len]);
        forged[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
        check(forged, &format!("byte {place} of the index at {at}"));
    }
    println!("{found} damaged files were found, {sound} have no errors");
    // Gaps, and parts of IPC metadata that say nothing.
    assert!(sound * 5 < found, "{found} found, {sound} without errors");
}

#[test]
fn keys_of_later_versions_are_ignored() {
    let bytes = file_of(&[facts()], &options());
    // The last one is in the footer.
    let found = bytes.windows(13).rposition(|window| window == b"lanepack.rows");
    let mut later = bytes.clone();
    later[found.unwrap()..][..13].copy_from_slice(b"lanepack.more");
    let file = open(&later).unwrap();
    assert_eq!(file.schema(), open(&bytes).unwrap().schema());
    // Rows are not stated any more; all else is as it was.
    let errors = file.verify(&Engine::cpu());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().contains("lanepack.rows"), "{errors:?}");
    // A key of the footer.
    let found = bytes.windows(14).rposition(|window| window == b"lanepack.index");
    let mut other = bytes;
    other[found.unwrap()..][..14].copy_from_slice(b"lanepack.newer");
    let error = open(&other).unwrap_err();
    assert!(matches!(error, Error::NotLanepack { .. }), "{error}");
}

#[test]
fn chunks_of_later_versions_are_said_to_be_so() {
    let bytes = file_of(&[facts()], &options());
    let file = open(&bytes).unwrap();
    let chunk = file.columns(&["shop"]).unwrap()[0].chunks()[2].clone();
    let at = bytes.windows(48).position(|window| window == &chunk.header()[..48]).unwrap();
    // Another version of the header, with other counts: whatever they mean there.
    let mut later = bytes;
    later[at] = 2;
    later[at + 2..at + 4].fill(0xff);
    let later = open(&later).unwrap();
    let errors = later.verify(&Engine::cpu());
    assert!(matches!(errors[..], [Error::Version { .. }]), "{errors:?}");
    // What does not need it does not fail.
    assert_eq!(later.chunk(1, &Engine::cpu()).unwrap().num_rows(), 1024);
    let days = later.scan().filter(col("day").lt(3)).count(&Engine::cpu()).unwrap();
    assert_eq!(days, 30);
}

#[test]
fn what_the_ipc_file_says_is_compared_with_the_index() {
    let batch = record_batch!(("id", Int64, (0..4000_i64).map(|id| id * id).collect::<Vec<_>>()));
    let bytes = file_of(&[batch.unwrap()], &options());
    // Not the beginning of an IPC file; another schema in front than behind.
    for (at, what) in [(0, "begin"), (2, "begin")] {
        let mut forged = bytes.clone();
        forged[at] ^= 0x20;
        let errors = errors_of(&forged);
        assert!(errors[0].to_string().contains(what), "{errors:?}");
        assert_eq!(errors.len(), 1);
    }
    let name = bytes.windows(2).position(|window| window == b"id").unwrap();
    let mut forged = bytes;
    forged[name..name + 2].copy_from_slice(b"ix");
    let errors = errors_of(&forged);
    assert!(errors[0].to_string().contains("schema"), "{errors:?}");
}
