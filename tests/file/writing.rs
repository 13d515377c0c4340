//! Files that are written whole or not at all, appended to, and put together of others.

use std::io::Write;
use std::path::Path;

use arrow_array::RecordBatch;
use lanepack::file::{File, LocalFile, Writer};
use lanepack::{Engine, Error};

use crate::{facts, file_of, open, options};

/// All values of a file.
fn values(file: &File) -> RecordBatch {
    file.scan().gather(&["day", "shop", "price", "name"], &Engine::cpu()).unwrap()
}

fn create(path: &Path) -> Writer<LocalFile> {
    Writer::create(path, &facts().schema(), options()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn files_take_their_name_once_they_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.lanepack");
    let batch = facts();
    let mut writer = create(&path);
    writer.write(&batch).unwrap();
    assert_eq!(writer.get_ref().path(), path);
    // Nothing that opens is there before the end, and nothing at all once the writer has been dropped.
    let [part] = &names(folder.path())[..] else { panic!("{:?}", names(folder.path())) };
    assert!(part.starts_with(".facts.lanepack.") && part.ends_with(".part"), "{part}");
    assert!(File::open(folder.path().join(part)).is_err());
    drop(writer);
    assert_eq!(names(folder.path()), [""; 0]);

    let mut writer = create(&path);
    writer.write(&batch.slice(0, 5000)).unwrap();
    writer.finish().unwrap();
    assert_eq!(names(folder.path()), ["facts.lanepack"]);
    assert_eq!(std::fs::read(&path).unwrap(), file_of(&[batch.slice(0, 5000)], &options()));
    // An older file stays until the end, and those who have it open keep it.
    let older = File::open(&path).unwrap();
    let mut writer = create(&path);
    writer.write(&batch).unwrap();
    assert_eq!(File::open(&path).unwrap().num_rows(), 5000);
    writer.finish().unwrap();
    writer.finish().unwrap();
    assert_eq!(values(&File::open(&path).unwrap()), batch);
    assert_eq!(values(&older), batch.slice(0, 5000));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let plain = folder.path().join("plain");
        std::fs::File::create(&plain).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
        // Those of an older file stay, and so does a link to it.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("facts.lanepack", &link).unwrap();
        let mut writer = Writer::append(&link, options()).unwrap();
        let [part] = &names(folder.path())
            .into_iter()
            .filter(|name| name.ends_with(".part"))
            .collect::<Vec<_>>()[..]
        else {
            panic!()
        };
        assert_eq!(mode(&folder.path().join(part)) & 0o777, 0o600);
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(File::open(&path).unwrap().num_rows(), 18_000);
    }
    // As long as names may be.
    let long = folder.path().join("x".repeat(250));
    let mut writer = create(&long);
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    assert_eq!(values(&File::open(&long).unwrap()), batch);
}

#[test]
fn errors_of_the_system_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    let nowhere = folder.path().join(if cfg!(unix) { "link" } else { "none/x" });
    let device = if cfg!(unix) { "/dev/null" } else { "/" };
    let none = folder.path().join("none/facts.lanepack");
    for path in [none, nowhere, device.into(), "/".into(), "..".into()] {
        let error = Writer::create(&path, &facts().schema(), options()).err().unwrap();
        let place = error.place().unwrap().file.clone().unwrap();
        assert_eq!(Path::new(&place), path, "{error}");
        let error = File::open(path.join("missing")).unwrap_err();
        assert!(
            matches!(error, Error::Io { .. }) && error.to_string().contains("missing"),
            "{error}"
        );
    }
    // Of a folder that has taken the name in between.
    let path = folder.path().join("facts.lanepack");
    let mut writer = create(&path);
    std::fs::create_dir_all(path.join("within")).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("facts.lanepack"), "{error}");
    drop(writer);
    let left = names(folder.path());
    assert!(!left.iter().any(|name| name.ends_with(".part")), "{left:?}");
}

#[test]
fn appending_leaves_the_chunks_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.lanepack");
    let batch = facts();
    std::fs::write(&path, file_of(&[batch.slice(0, 2500)], &options())).unwrap();
    let before = File::open(&path).unwrap();
    let mut writer = Writer::append(&path, options()).unwrap();
    writer.write(&batch.slice(2500, 6500)).unwrap();
    writer.finish().unwrap();
    let after = File::open(&path).unwrap();
    assert_eq!(values(&after), batch);
    for column in ["day", "shop", "price", "name"] {
        let [old, new] = [&before, &after].map(|file| file.columns(&[column]).unwrap().remove(0));
        assert_eq!(new.chunks()[2].rows(), 2500 - 2048);
        for (old, new) in old.chunks().iter().zip(new.chunks()) {
            assert_eq!((new.header(), new.body()), (old.header(), old.body()));
        }
    }
    // A damaged file is not copied, and stays as it was.
    let mut damaged = std::fs::read(&path).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let error = Writer::append(&path, options()).err().unwrap();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert!(error.place().unwrap().file.is_some() && error.place().unwrap().chunk.is_some());
    assert_eq!(std::fs::read(&path).unwrap(), damaged);
    assert!(Writer::append(folder.path().join("none"), options()).is_err());
}

#[test]
fn files_are_put_together_without_recompression() {
    let batch = facts();
    let part =
        |from: usize, rows: usize| open(&file_of(&[batch.slice(from, rows)], &options())).unwrap();
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
    // A chunk of all columns at a time.
    writer = writer.with_batch_bytes(2000);
    writer.write_file(&part(0, 3000)).unwrap();
    writer.write(&batch.slice(3000, 10)).unwrap();
    writer.write_file(&part(3010, 2000)).unwrap();
    writer.write_file(&part(0, 0)).unwrap();
    writer.write_file(&part(5010, 3990)).unwrap();
    // Others are refused, and change nothing.
    let other = open(&file_of(&[batch.project(&[0, 1]).unwrap()], &options())).unwrap();
    let error = writer.write_file(&other).unwrap_err();
    assert!(error.to_string().contains("schema"), "{error}");
    let file = open(&writer.into_inner().unwrap()).unwrap();
    assert_eq!(values(&file), batch);
    let rows = file.statistics("name").unwrap().rows;
    assert_eq!(rows.values(), &[1024, 1024, 952, 10, 1024, 976, 1024, 1024, 1024, 918]);
    let sizes = |file: &File| file.statistics("name").unwrap().bytes;
    assert_eq!(sizes(&file).values()[..3], sizes(&part(0, 3000)).values()[..]);
}

#[test]
fn threads_of_a_pool_write_the_same_file() {
    use rayon::prelude::*;
    let batch = facts();
    let expected = file_of(std::slice::from_ref(&batch), &options());
    // One thread has to do everything by itself.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let write = |_| file_of(std::slice::from_ref(&batch), &options());
    assert_eq!(pool.install(|| write(0)), expected);
    let files: Vec<Vec<u8>> = (0..8).into_par_iter().map(write).collect();
    assert!(files.iter().all(|file| *file == expected));
    // Begun by a thread of its own and finished by all threads of the pool.
    let begin = |_| {
        let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
        writer.write(&batch).unwrap();
        writer
    };
    let writers: Vec<_> = (0..8).map(begin).collect();
    let files = writers.into_par_iter().map(|writer| writer.into_inner().unwrap());
    assert!(files.collect::<Vec<_>>().iter().all(|file| *file == expected));
}

/// Fails once it has so many bytes.
struct Full {
    left: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_while_rows_are_compressed_ends_the_file() {
    let batch = facts();
    let writer = || {
        let sink = Full { left: 10_000 };
        let writer = Writer::try_new(sink, &batch.schema(), options()).unwrap();
        writer.with_batch_rows(1024)
    };
    let mut failed = writer();
    let error = failed.write(&batch).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let earlier = failed.write(&batch).unwrap_err();
    assert!(earlier.to_string().contains("cannot be continued"), "{earlier}");
    assert!(failed.flush().is_err() && failed.finish().is_err() && failed.into_inner().is_err());
    // Dropped while a thread compresses.
    let mut dropped = writer();
    dropped.write(&batch.slice(0, 2000)).unwrap();
    drop(dropped);
}

#[test]
fn portions_have_the_rows_and_bytes_that_are_asked_for() {
    let batch = facts();
    let rows = |writer: Writer<Vec<u8>>| {
        let mut writer = writer;
        for start in (0..9000).step_by(900) {
            writer.write(&batch.slice(start, 900)).unwrap();
        }
        let file = open(&writer.into_inner().unwrap()).unwrap();
        assert_eq!(values(&file), batch);
        file.statistics("day").unwrap().rows.values().to_vec()
    };
    let writer = || Writer::try_new(Vec::new(), &batch.schema(), options()).unwrap();
    let full = [1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 808];
    assert_eq!(rows(writer()), full);
    assert_eq!(rows(writer().with_batch_rows(2048)), full);
    assert_eq!(rows(writer().with_batch_bytes(100_000)), full);
    // Less than a chunk at a time: 1,000 rows, or those of about 32 bytes that fit.
    assert_eq!(rows(writer().with_batch_rows(1000)), [1000; 9]);
    let of_bytes = rows(writer().with_batch_bytes(25_000));
    assert!(of_bytes[..9].iter().all(|rows| (600..=900).contains(rows)), "{of_bytes:?}");
}
