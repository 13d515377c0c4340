//! Whole tables through IPC files against Parquet with zstd(3) and
//! dictionaries, both in memory.
//!
//! lanepack compresses with [`lanepack::ipc::Writer`] and decompresses with
//! [`lanepack::ipc::Reader`], on all cores and once more on one thread. The
//! parquet crate writes and reads on one thread, as it does by itself. Both get
//! the table as one batch and give batches of Arrow's types back; lanepack
//! compares its checksums. Tables of 1 MB and more are timed, tiled to 16 MB;
//! sizes are those of the files as they are, everything stored counted.
//! Throughput is in bytes of the uncompressed IPC file.

use std::hint::black_box;
use std::io::Cursor;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use lanepack::{Effort, Options, ipc};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::{Pair, Size, TIMED_BYTES, Visitor, data};

/// Bytes of the smallest table that is timed.
const MIN_BYTES: usize = 1 << 20;
/// Rows that the Parquet reader decodes at a time.
const READ_ROWS: usize = 8192;

fn uncompressed_bytes(batch: &RecordBatch) -> usize {
    let writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema());
    let write = || {
        let mut writer = writer?;
        writer.write(batch)?;
        writer.into_inner()
    };
    write().expect("an IPC file").len()
}

fn compress(batch: &RecordBatch) -> Vec<u8> {
    let write = || {
        let options = Options::default().with_effort(Effort::Fast);
        let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options)?;
        writer.write(batch)?;
        writer.finish()
    };
    write().expect("a file")
}

fn decompress(file: &[u8], mut take: impl FnMut(RecordBatch)) {
    for batch in ipc::Reader::file(Cursor::new(file)).expect("a file") {
        take(batch.expect("a batch"));
    }
}

fn parquet_write(batch: &RecordBatch) -> Bytes {
    let level = ZstdLevel::try_new(3).expect("a level");
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
    let properties = properties.set_dictionary_enabled(true).build();
    let mut file = Vec::new();
    let write = || {
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties))?;
        writer.write(batch)?;
        writer.close()
    };
    write().expect("a Parquet file");
    file.into()
}

fn parquet_read(file: &Bytes, mut take: impl FnMut(RecordBatch)) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone());
    let reader = reader.and_then(|reader| reader.with_batch_size(READ_ROWS).build());
    for batch in reader.expect("a Parquet file") {
        take(batch.expect("a batch"));
    }
}

/// Checks that a way to read a table gives it back.
fn check(name: &str, batch: &RecordBatch, read: impl FnOnce(&mut dyn FnMut(RecordBatch))) {
    let mut batches = Vec::new();
    read(&mut |batch| batches.push(batch));
    let back = concat_batches(&batch.schema(), &batches).expect("batches of one schema");
    assert!(&back == batch, "{name}: rows differ");
}

/// All comparisons of whole tables, and the sizes of all files.
pub fn visit(visitor: &mut dyn Visitor) {
    if visitor.wants("table") {
        let (name, batch) = data::lineitem();
        let strings = data::without_views(&batch);
        table(&format!("{name}, Utf8View"), &batch, false, visitor);
        table(&format!("{name}, Utf8"), &strings, false, visitor);
        for file in data::files("tables") {
            table(&file.name, &file.read(), file.is_real(), visitor);
        }
    }
    if visitor.wants("folder") {
        for folder in ["tables", "strings", "floats"] {
            let group = "folder size (peer: Parquet zstd(3))";
            let input = folder.to_owned();
            let mut size = Size { group, input, raw: 0, ours: 0, peer: 0, counts: true };
            for file in data::files(folder) {
                let batch = file.read();
                size.raw += uncompressed_bytes(&batch);
                size.ours += compress(&batch).len();
                size.peer += parquet_write(&batch).len();
            }
            visitor.size(size);
        }
    }
}

fn table(name: &str, batch: &RecordBatch, counts: bool, visitor: &mut dyn Visitor) {
    let raw = uncompressed_bytes(batch);
    let (ours, peer) = (compress(batch).len(), parquet_write(batch).len());
    let (group, input) = ("table size (peer: Parquet zstd(3))", name.to_owned());
    visitor.size(Size { group, input, raw, ours, peer, counts });
    if raw >= MIN_BYTES {
        compare(name, &data::tiled(batch, raw, TIMED_BYTES), counts, visitor);
    }
}

fn compare(name: &str, batch: &RecordBatch, counts: bool, visitor: &mut dyn Visitor) {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let raw = uncompressed_bytes(batch);
    let (ours, peer) = (compress(batch), parquet_write(batch));
    check(name, batch, |take| decompress(&ours, take));
    check(name, batch, |take| parquet_read(&peer, take));
    let forget = |batch| drop(black_box(batch));
    let pairs = [
        Pair::new(
            "table decompress, all cores (peer: Parquet zstd(3))",
            name,
            raw,
            || decompress(&ours, forget),
            || parquet_read(&peer, forget),
        ),
        Pair::new(
            "table decompress, one thread (peer: Parquet zstd(3))",
            name,
            raw,
            || one.install(|| decompress(&ours, forget)),
            || parquet_read(&peer, forget),
        ),
        Pair::new(
            "table compress, all cores (peer: Parquet zstd(3))",
            name,
            raw,
            || drop(black_box(compress(batch))),
            || drop(black_box(parquet_write(batch))),
        ),
        Pair::new(
            "table compress, one thread (peer: Parquet zstd(3))",
            name,
            raw,
            || one.install(|| drop(black_box(compress(batch)))),
            || drop(black_box(parquet_write(batch))),
        ),
    ];
    pairs.into_iter().for_each(|pair| visitor.pair(pair.counting(counts)));
}
