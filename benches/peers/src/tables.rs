//! Whole tables through IPC files against Parquet with zstd(3) and
//! dictionaries, both in memory.
//!
//! lanepack compresses with [`lanepack::ipc::Writer`] and decompresses with
//! [`lanepack::ipc::Reader`], on all cores and once more on one thread. The
//! parquet crate writes and reads on one thread, as it does by itself. lanepack has its default
//! options, then `Effort::Fast`. Both get
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

fn compress(batch: &RecordBatch, effort: Effort) -> Vec<u8> {
    let write = || {
        let options = Options::default().with_effort(effort);
        let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options)?;
        writer.write(batch)?;
        writer.into_inner()
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
            for Groups { effort, folder_size: group, .. } in GROUPS {
                let input = folder.to_owned();
                let mut size = Size { group, input, raw: 0, ours: 0, peer: 0, counts: true };
                for file in data::files(folder) {
                    let batch = file.read();
                    size.raw += uncompressed_bytes(&batch);
                    size.ours += compress(&batch, effort).len();
                    size.peer += parquet_write(&batch).len();
                }
                visitor.size(size);
            }
        }
    }
}

/// What is compared for an effort.
#[derive(Clone, Copy)]
struct Groups {
    effort: Effort,
    table_size: &'static str,
    folder_size: &'static str,
    decompress: [&'static str; 2],
    compress: [&'static str; 2],
}

/// Default options first.
const GROUPS: [Groups; 2] = [
    Groups {
        effort: Effort::Balanced,
        table_size: "table size (peer: Parquet zstd(3))",
        folder_size: "folder size (peer: Parquet zstd(3))",
        decompress: [
            "table decompress, all cores (peer: Parquet zstd(3))",
            "table decompress, one thread (peer: Parquet zstd(3))",
        ],
        compress: [
            "table compress, all cores (peer: Parquet zstd(3))",
            "table compress, one thread (peer: Parquet zstd(3))",
        ],
    },
    Groups {
        effort: Effort::Fast,
        table_size: "table size, Effort::Fast (peer: Parquet zstd(3))",
        folder_size: "folder size, Effort::Fast (peer: Parquet zstd(3))",
        decompress: [
            "table decompress, all cores, Effort::Fast (peer: Parquet zstd(3))",
            "table decompress, one thread, Effort::Fast (peer: Parquet zstd(3))",
        ],
        compress: [
            "table compress, all cores, Effort::Fast (peer: Parquet zstd(3))",
            "table compress, one thread, Effort::Fast (peer: Parquet zstd(3))",
        ],
    },
];

fn table(name: &str, batch: &RecordBatch, counts: bool, visitor: &mut dyn Visitor) {
    let raw = uncompressed_bytes(batch);
    let peer = parquet_write(batch).len();
    for groups in GROUPS {
        let ours = compress(batch, groups.effort).len();
        let (group, input) = (groups.table_size, name.to_owned());
        visitor.size(Size { group, input, raw, ours, peer, counts });
    }
    if raw >= MIN_BYTES {
        let batch = data::tiled(batch, raw, TIMED_BYTES);
        GROUPS.iter().for_each(|groups| compare(name, &batch, counts, groups, visitor));
    }
}

fn compare(
    name: &str,
    batch: &RecordBatch,
    counts: bool,
    groups: &Groups,
    visitor: &mut dyn Visitor,
) {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let raw = uncompressed_bytes(batch);
    let effort = groups.effort;
    let (ours, peer) = (compress(batch, effort), parquet_write(batch));
    check(name, batch, |take| decompress(&ours, take));
    check(name, batch, |take| parquet_read(&peer, take));
    let forget = |batch| drop(black_box(batch));
    let read = || parquet_read(&peer, forget);
    let write = || drop(black_box(parquet_write(batch)));
    let [decompress_all, decompress_one] = groups.decompress;
    let [compress_all, compress_one] = groups.compress;
    let decompress_ours = || decompress(&ours, forget);
    let compress_ours = || drop(black_box(compress(batch, effort)));
    let pairs = [
        Pair::new(decompress_all, name, raw, decompress_ours, read),
        Pair::new(decompress_one, name, raw, || one.install(decompress_ours), read),
        Pair::new(compress_all, name, raw, compress_ours, write),
        Pair::new(compress_one, name, raw, || one.install(compress_ours), write),
    ];
    pairs.into_iter().for_each(|pair| visitor.pair(pair.counting(counts)));
}
