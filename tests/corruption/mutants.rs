//! Mutants of what Arrow IPC says of itself: schemas, messages and footers of files and streams, and
//! of the streams that chunks carry, whose checksums are made right again. arrow-ipc must see none
//! that it panics for: the fence around it has nothing to catch.
//!
//! The metadata of all golden files and of a batch of many types are flipped, bit by bit.
//! `LANEPACK_MUTANTS` says how many of the mutants of each kind are read: a part of them by
//! default, all flips if there are more than that.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{MapBuilder, StringBuilder, StringViewBuilder};
use arrow_array::types::Int16Type;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, root_as_footer, root_as_message};
use arrow_schema::{DataType, Field, UnionFields};
use lanepack::{Encoding, Error, Options, compress, ipc};

use super::common::{Rng, carried_arrays};
use super::damage::Image;

/// Mutants of each kind that are read by default.
const MUTANTS: usize = 60_000;

fn mutants() -> usize {
    std::env::var("LANEPACK_MUTANTS").map_or(MUTANTS, |count| count.parse().unwrap())
}

/// What is mutated, and the ranges of its bytes that are metadata of Arrow IPC.
struct Seed {
    name: String,
    bytes: Vec<u8>,
    metadata: Vec<Range<usize>>,
}

/// Ranges of metadata in a stream, the lengths in front of messages included.
fn metadata_of_stream(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let len = i32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        let end = at + 8 + len;
        found.push(at..end);
        if len == 0 {
            break;
        }
        let message = root_as_message(&bytes[at + 8..end]).unwrap();
        at = end + message.bodyLength() as usize;
    }
    assert!(found.len() > 2, "a schema, a batch and the end");
    found
}

/// Ranges of metadata in a file: the stream in front of the footer, and the footer.
fn metadata_of_file(bytes: &[u8]) -> Vec<Range<usize>> {
    let end = bytes.len() - 10;
    let len = i32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
    let footer = end - len;
    let batches = root_as_footer(&bytes[footer..end]).unwrap().recordBatches().unwrap();
    let schema = 8..batches.get(0).offset() as usize;
    let mut found = Vec::from([schema]);
    for block in batches {
        let start = block.offset() as usize;
        found.push(start..start + block.metaDataLength() as usize);
    }
    found.push(footer..bytes.len());
    found
}

/// The golden files, a file of lanepack's writer, which has counts, and files whose bodies other
/// writers have compressed.
fn files() -> Vec<Seed> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 30, "{} golden files", paths.len());
    let golden = paths.iter().map(|path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read(path).unwrap())
    });
    let mut seeds: Vec<_> = golden.collect();
    let batch = RecordBatch::try_from_iter([("n", numbers(3000))]).unwrap();
    let options = Options::default().with_chunk_rows(1024);
    let mut writer = ipc::Writer::file(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    seeds.push(("with counts".to_owned(), writer.into_inner().unwrap()));
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let packed = compress(&batch, &Options::default()).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let schema = packed.schema();
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        writer.write(&packed).unwrap();
        seeds.push((format!("{codec:?}"), writer.into_inner().unwrap()));
    }
    let seed = |(name, bytes): (String, Vec<u8>)| {
        let metadata = metadata_of_file(&bytes);
        Seed { name, bytes, metadata }
    };
    seeds.into_iter().map(seed).collect()
}

fn numbers(len: i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter((0..len).map(|i| (i % 5 > 0).then_some(i))))
}

/// The batches of the golden files as streams, and a stream of lanepack's writer.
fn streams() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for file in files() {
        let reader = FileReader::try_new(Cursor::new(&file.bytes), None).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &reader.schema()).unwrap();
        reader.for_each(|batch| writer.write(&batch.unwrap()).unwrap());
        seeds.push((file.name, writer.into_inner().unwrap()));
    }
    let batch = RecordBatch::try_from_iter([("n", numbers(3000))]).unwrap();
    let mut writer = ipc::Writer::stream(Vec::new(), &batch.schema(), Options::default()).unwrap();
    writer.write(&batch).unwrap();
    seeds.push(("with counts in a message".to_owned(), writer.into_inner().unwrap()));
    let seed = |(name, bytes): (String, Vec<u8>)| {
        let metadata = metadata_of_stream(&bytes);
        Seed { name, bytes, metadata }
    };
    seeds.into_iter().map(seed).collect()
}

/// What mutants met: how many were read, and panics that were caught, with one that met each.
#[derive(Default)]
struct Found {
    read: usize,
    errors: usize,
    caught: BTreeMap<String, (usize, String)>,
}

impl Found {
    fn note(&mut self, result: Result<(), Error>, mutant: impl Fn() -> String) {
        self.read += 1;
        let Err(error) = result else { return };
        self.errors += 1;
        let text = error.to_string();
        if let Some(at) = text.find("refused by arrow") {
            // Numbers aside, so that panics of one kind are one.
            let kind = text[at..].replace(|letter: char| letter.is_ascii_digit(), "");
            self.caught.entry(kind).or_insert_with(|| (0, mutant())).0 += 1;
        }
    }

    #[track_caller]
    fn finish(self, least: usize) {
        let lines = self
            .caught
            .iter()
            .map(|(what, (count, first))| format!("{count} times, first of {first}: {what:.300}"));
        let lines: Vec<String> = lines.collect();
        assert!(lines.is_empty(), "of {} mutants\n{}", self.read, lines.join("\n"));
        let Self { read, errors, .. } = self;
        println!("{read} mutants, {errors} of them errors");
        assert!(read >= least && errors > read / 4, "{errors} errors of {read} mutants");
    }
}

/// Changes seeds and reads them: flips of single bits, then up to eight bytes at once.
fn mutate(seeds: &[Seed], mut read: impl FnMut(usize, &[u8]) -> Result<(), Error>) {
    super::sweeps::hush_arrow();
    let mut found = Found::default();
    let count = mutants();
    let places: Vec<(usize, usize)> = (seeds.iter().enumerate())
        .flat_map(|(index, seed)| {
            seed.metadata.iter().cloned().flatten().map(move |at| (index, at))
        })
        .collect();
    let mut bytes: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.bytes.clone()).collect();
    for (index, seed) in seeds.iter().enumerate() {
        read(index, &seed.bytes).unwrap_or_else(|error| panic!("{}: {error}", seed.name));
    }
    let flips = 8 * places.len();
    let step = flips.div_ceil(count);
    // Not a multiple of eight, so that all bits have their turn.
    let step = if step > 1 { step | 1 } else { 1 };
    for flip in (0..flips).step_by(step) {
        let (index, at) = places[flip / 8];
        bytes[index][at] ^= 1 << (flip % 8);
        let result = read(index, &bytes[index]);
        bytes[index][at] ^= 1 << (flip % 8);
        found.note(result, || format!("{}, bit {} of byte {at}", seeds[index].name, flip % 8));
    }
    let mut rng = Rng(29);
    for round in 0..count / 4 {
        let index = rng.below(seeds.len() as u64) as usize;
        let seed = &seeds[index];
        let range = seed.metadata[rng.below(seed.metadata.len() as u64) as usize].clone();
        let start = range.start + rng.below(range.len() as u64) as usize;
        let width = 1 << rng.below(4);
        for byte in &mut bytes[index][start..(start + width).min(range.end)] {
            let few = [0, 1, 2, 4, 8, 0x7f, 0x80, 0xff];
            *byte = match rng.below(3) {
                0 => rng.next() as u8,
                1 => few[rng.below(8) as usize],
                // A byte that means something elsewhere.
                _ => seed.bytes[range.start + rng.below(range.len() as u64) as usize],
            };
        }
        let result = read(index, &bytes[index]);
        bytes[index].copy_from_slice(&seed.bytes);
        found.note(result, || format!("{}, bytes from {start}, round {round}", seed.name));
    }
    found.finish(count.min(flips) / 2);
}

#[test]
fn mutants_of_files_do_not_reach_the_fence() {
    mutate(&files(), |_, bytes| {
        let mut reader = ipc::Reader::file(Cursor::new(bytes))?;
        while reader.next_batch()?.is_some() {}
        Ok(())
    });
}

#[test]
fn mutants_of_streams_do_not_reach_the_fence() {
    mutate(&streams(), |_, bytes| {
        let mut reader = ipc::Reader::stream(bytes)?;
        while reader.next_batch()?.is_some() {}
        Ok(())
    });
}

/// Fields of all types that only Arrow IPC has to carry.
fn many_types() -> StructArray {
    let len = 12;
    let nulls = || Some(NullBuffer::from_iter((0..len).map(|row| row % 5 != 1)));
    let field = |data_type: &DataType| Arc::new(Field::new("item", data_type.clone(), true));
    let texts = || -> ArrayRef {
        let mut texts = StringViewBuilder::new();
        (0..len).for_each(|row| texts.append_value("a text that is not inlined ".repeat(row % 3)));
        Arc::new(texts.finish())
    };
    let numbers = || numbers(len as i32);
    let offsets = |row: usize| row as i32 / 2;
    let starts: ScalarBuffer<i32> = (0..len).map(offsets).collect();
    let sizes: ScalarBuffer<i32> = (0..len).map(|row| (row % 3) as i32).collect();
    let view =
        ListViewArray::new(field(&DataType::Int32), starts.clone(), sizes, numbers(), nulls());
    let large = |buffer: fn(usize) -> i64| (0..len).map(buffer).collect::<ScalarBuffer<i64>>();
    let large_view = LargeListViewArray::new(
        field(&DataType::Utf8View),
        large(|row| row as i64 / 2),
        large(|row| (row % 3) as i64),
        texts(),
        nulls(),
    );
    let large_list = LargeListArray::new(
        field(&DataType::Utf8View),
        OffsetBuffer::from_lengths((0..len).map(|row| row % 2)),
        texts(),
        nulls(),
    );
    let fields = UnionFields::try_new(
        vec![3, 7],
        vec![Field::new("i", DataType::Int32, true), Field::new("t", DataType::Utf8View, true)],
    );
    let dense = UnionArray::try_new(
        fields.unwrap(),
        (0..len).map(|row| if row % 2 == 0 { 3 } else { 7 }).collect::<Vec<i8>>().into(),
        Some(starts),
        vec![numbers(), texts()],
    );
    let ends = Int16Array::from_iter_values((1..=4).map(|run| run * 3));
    let runs = RunArray::<Int16Type>::try_new(&ends, &StringArray::from(vec!["a", "b", "c", "d"]));
    let none = FixedSizeListArray::try_new_with_length(
        field(&DataType::Int32),
        0,
        Arc::new(Int32Array::from(Vec::<i32>::new())),
        nulls(),
        len,
    );
    let three = FixedSizeListArray::new(
        Arc::new(Field::new("item", DataType::Int8, false)),
        3,
        Arc::new(Int8Array::from_iter_values(0..3 * len as i8)),
        nulls(),
    );
    let keys = UInt8Array::from_iter((0..len).map(|row| (row % 4 > 0).then_some(row as u8 % 2)));
    let dictionary = DictionaryArray::new(keys, Arc::new(StringArray::from(vec!["x", "yy"])));
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..len {
        map.keys().append_value(format!("key {row}"));
        map.values().append_null();
        map.append(row % 4 > 0).unwrap();
    }
    let count = len as i64;
    let columns: Vec<ArrayRef> = vec![
        texts(),
        Arc::new(BinaryViewArray::from_iter_values((0..len).map(|row| vec![row as u8; 7 * row]))),
        Arc::new(view),
        Arc::new(large_view),
        Arc::new(large_list),
        Arc::new(dense.unwrap()),
        Arc::new(runs.unwrap()),
        Arc::new(none.unwrap()),
        Arc::new(three),
        Arc::new(dictionary),
        Arc::new(map.finish()),
        Arc::new(NullArray::new(len)),
        Arc::new(StructArray::new_empty_fields(len, nulls())),
        Arc::new(FixedSizeBinaryArray::new(3, vec![7_u8; 3 * len].into(), nulls())),
        Arc::new(BooleanArray::from_iter((0..len).map(|row| Some(row % 3 == 0)))),
        Arc::new(LargeBinaryArray::from_iter_values((0..len).map(|row| vec![1; row]))),
        Arc::new(Decimal256Array::from_iter_values((0..count).map(arrow_buffer::i256::from))),
        Arc::new(Decimal32Array::from_iter_values(0..len as i32)),
        Arc::new(TimestampMicrosecondArray::from_iter_values(0..count).with_timezone("+01:00")),
        Arc::new(Time32SecondArray::from_iter_values(0..len as i32)),
        Arc::new(Time64NanosecondArray::from_iter_values(0..count)),
        Arc::new(DurationSecondArray::from_iter_values(0..count)),
        Arc::new(Date64Array::from_iter_values(0..count)),
        Arc::new(IntervalYearMonthArray::from_iter_values(0..len as i32)),
        Arc::new(Float64Array::from_iter_values((0..count).map(|row| row as f64))),
    ];
    let fields = columns.iter().enumerate().map(|(at, column)| {
        Field::new(format!("f{at}"), column.data_type().clone(), at < 14 || at % 2 == 0)
    });
    StructArray::new(fields.collect(), columns, nulls())
}

/// Streams inside of chunks: the images, and where the stream is in each body.
fn carried() -> (Vec<Image>, Vec<Seed>) {
    let mut arrays = carried_arrays(20);
    arrays.push(Arc::new(many_types()));
    let options = Options::default().with_encodings([Encoding::Plain]);
    let images = arrays.iter().map(|array| Image::of(array, &options));
    let images: Vec<Image> = images.collect();
    let seeds = images.iter().map(|image| {
        let tree = image.tree();
        assert_eq!((tree.nodes.len(), tree.nodes[0].physical), (1, 14), "one node of Arrow IPC");
        let metadata = metadata_of_stream(&tree.buffers[0]);
        Seed {
            name: image.open().unwrap().data_type().to_string().chars().take(40).collect(),
            bytes: image.body.clone(),
            metadata,
        }
    });
    let seeds = seeds.collect();
    (images, seeds)
}

#[test]
fn mutants_of_carried_streams_do_not_reach_the_fence() {
    let (mut images, seeds) = carried();
    mutate(&seeds, |index, bytes| {
        let image = &mut images[index];
        image.body.copy_from_slice(bytes);
        image.seal();
        let column = image.open()?;
        let array = column.decompress()?;
        array.to_data().validate_full().unwrap();
        Ok(())
    });
}

/// What is known to make arrow-ipc panic, each with the message that says why it is refused.
#[test]
fn mutants_are_refused_with_what_was_expected() {
    let seeds = files();
    let seed = seeds.iter().find(|seed| seed.name == "booleans").unwrap();
    let footer = seed.metadata.last().unwrap().clone();
    let mut texts = BTreeMap::new();
    for at in footer {
        for bit in 0..8 {
            let mut bytes = seed.bytes.clone();
            bytes[at] ^= 1 << bit;
            let result = ipc::Reader::file(Cursor::new(bytes)).and_then(|mut reader| {
                while reader.next_batch()?.is_some() {}
                Ok(())
            });
            if let Err(error) = result {
                *texts.entry(error.to_string()).or_insert(0) += 1;
            }
        }
    }
    for expected in ["IPC field \"rows\" of type Int: ", "bits found, 8, 16, 32 or 64 expected"] {
        assert!(texts.keys().any(|text| text.contains(expected)), "{expected}: {texts:#?}");
    }
}
