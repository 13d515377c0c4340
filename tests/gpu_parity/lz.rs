//! LZ: segments of every shape, on a device as on the CPU.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{CompressedColumn, Encoding, Engine, Lz, Options, compress_array};

use super::common::image::Image;
use super::common::*;
use super::{assert_same, check, engines, packed, thinned};

pub fn only(lz: Lz) -> Options {
    Options::default().with_encodings([Encoding::Lz, Encoding::Ffor]).with_lz(lz)
}

/// Words of which groups come again.
pub fn repeated(rows: usize) -> Vec<u64> {
    let mut rng = Rng(21);
    let words: Vec<u64> = (0..300).map(|_| rng.next()).collect();
    let mut all = Vec::new();
    while all.len() < rows {
        let (at, len) = (rng.below(280) as usize, 1 + rng.below(20) as usize);
        match rng.below(9) {
            0 => all.extend(std::iter::repeat_n(words[at], len * len)),
            1 => all.push(rng.next()),
            _ => all.extend_from_slice(&words[at..at + len]),
        }
    }
    all.truncate(rows);
    all
}

/// Blobs of 0 to some hundred bytes, and a long one.
fn blobs(rows: usize) -> Vec<Vec<u8>> {
    let words = repeated(20 * rows + 30_000);
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let blob = |row: usize| match row {
        77 => bytes[..200_001].to_vec(),
        _ => bytes[150 * row..150 * row + row * row % 263].to_vec(),
    };
    (0..rows).map(blob).collect()
}

fn arrays() -> Vec<ArrayRef> {
    let words = repeated(9000);
    let nulls = NullBuffer::from_iter((0..9000).map(|row| row % 13 != 4));
    let of_bytes: &[u8] = bytemuck::cast_slice(&words);
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(words.clone())),
        Arc::new(Float64Array::from_iter_values(words.iter().map(|word| f64::from_bits(*word)))),
        Arc::new(Int32Array::new(words.iter().map(|word| *word as i32).collect(), Some(nulls))),
        Arc::new(UInt16Array::from_iter_values(words.iter().map(|word| *word as u16))),
        Arc::new(Int8Array::from_iter_values(words.iter().map(|word| *word as i8))),
    ];
    for data_type in [DataType::Binary, DataType::LargeBinary, DataType::BinaryView] {
        all.push(strings(&data_type, &blobs(1500), Nulls::Random));
    }
    for width in [3, 4, 6, 24] {
        let values = of_bytes[..2100 * width as usize].to_vec();
        all.push(Arc::new(FixedSizeBinaryArray::new(width, values.into(), None)));
    }
    all
}

#[track_caller]
pub fn of_lz(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert!(column.encoding().to_string().contains("lz"), "{}", column.explain());
    column
}

/// Every kind of array at every level, in chunks that begin anywhere.
#[test]
fn arrays_of_every_type_and_level() {
    let arrays = arrays();
    for engine in engines() {
        let mut case = 0;
        for array in &arrays {
            for level in 1..=5 {
                for symbol_bytes in [None, Some(1), Some(2)] {
                    for segment_symbols in [None, Some(1024)] {
                        case += 1;
                        if thinned(&engine, case, 4) {
                            continue;
                        }
                        let lz = Lz::default()
                            .with_level(level)
                            .with_symbol_bytes(symbol_bytes)
                            .with_segment_symbols(segment_symbols);
                        check(&engine, array, &only(lz));
                        check(&engine, &array.slice(5, 1490), &only(lz).with_chunk_rows(1024));
                    }
                }
            }
            if array.data_type().primitive_width() != Some(1) {
                of_lz(array, &only(Lz::default()));
            }
        }
    }
}

/// Last segments of 1 to 200 symbols, up to whose end bytes come again: kernels read words whole
/// far from it, and byte by byte near it.
#[test]
fn last_segments_of_every_length() {
    let words = repeated(400);
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    // 23 bytes come again and again, or one word, or some that came before.
    let byte = |at: usize| match at / 700 % 3 {
        0 => bytes[at % 23],
        1 => bytes[at % 8],
        _ => bytes[at % 29 / 2],
    };
    for engine in engines() {
        for symbols in 1..=200 {
            for (case, symbol) in [1, 2, 4, 8].into_iter().enumerate() {
                if thinned(&engine, symbols + case, 5) {
                    continue;
                }
                let values: Vec<u8> = (0..(1024 + symbols) * symbol).map(byte).collect();
                let level = [4, 5][symbols / 2 % 2];
                let lz = Lz::default()
                    .with_level(level)
                    .with_symbol_bytes(symbol)
                    .with_segment_symbols(256);
                let options = Options::default().with_encodings([Encoding::Lz]).with_lz(lz);
                let array: ArrayRef = match symbol {
                    1 => Arc::new(BinaryArray::from_iter_values([values])),
                    2 => Arc::new(UInt16Array::from_iter_values(numbers(
                        &values,
                        u16::from_le_bytes,
                    ))),
                    4 => Arc::new(UInt32Array::from_iter_values(numbers(
                        &values,
                        u32::from_le_bytes,
                    ))),
                    _ => Arc::new(UInt64Array::from_iter_values(numbers(
                        &values,
                        u64::from_le_bytes,
                    ))),
                };
                of_lz(&array, &options);
                check(&engine, &array, &options);
            }
        }
    }
}

fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks::<N>().0.iter().map(move |bytes| number(*bytes))
}

/// Chunks of which some repeat themselves and others do not, or seem to in the sample only.
#[test]
fn it_is_chosen_chunk_by_chunk() {
    let mut rng = Rng(31);
    let noise: Vec<u64> = (0..4096).map(|_| rng.next()).collect();
    let groups = |row: usize| noise[(row / 9 * 37 + row % 9) % 1500];
    let chunks: [Vec<u64>; 5] = [
        (0..4096).map(groups).collect(),
        noise.clone(),
        (0..4096).collect(),
        (0..4096).map(|row| if row < 2600 { groups(row) } else { noise[row] }).collect(),
        (0..777).map(groups).collect(),
    ];
    let words = chunks.concat();
    let nulls = NullBuffer::from_iter((0..words.len()).map(|row| row % 97 != 5));
    let blob = |row: usize| -> Vec<u8> {
        let words: Vec<u64> = (0..row % 5).map(|word| words[5 * (row % 3000) + word]).collect();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    let blobs: Vec<Vec<u8>> = (0..9000).map(blob).collect();
    let halves = || words.iter().map(|word| (word >> 20) as u32);
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(words.clone())),
        Arc::new(UInt64Array::new(words.clone().into(), Some(nulls.clone()))),
        Arc::new(Float64Array::from_iter_values(words.iter().map(|word| f64::from_bits(*word)))),
        Arc::new(UInt32Array::new(halves().collect(), Some(nulls))),
        Arc::new(UInt16Array::from_iter_values(halves().map(|half| half as u16))),
        // Every value of eight bytes, so that symbols are, too.
        strings(
            &DataType::Binary,
            &words.iter().map(|w| w.to_be_bytes().to_vec()).collect::<Vec<_>>(),
            Nulls::None,
        ),
    ];
    for data_type in [DataType::Binary, DataType::LargeBinary] {
        arrays.push(strings(&data_type, &blobs, Nulls::Random));
    }
    let few = Options::default().with_encodings([Encoding::Ffor, Encoding::Fsst, Encoding::Lz]);
    for engine in engines() {
        let mut found = 0;
        for array in &arrays {
            for options in [few.clone(), Options::default()] {
                let options = options.with_chunk_rows(4096);
                check(&engine, array, &options);
                check(&engine, &array.slice(3, 8191), &options);
                found += usize::from(
                    compress_array(array, &options).unwrap().encoding().to_string().contains("lz"),
                );
            }
        }
        assert!(found >= 6, "{found}");
    }
}

/// Chunks of a few and of hundreds of segments, which are not in the same launches, and strings
/// that are looked at one after the other.
#[test]
fn chunks_of_very_different_sizes() {
    let words = repeated(120_000);
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let blob = |row: usize| match row / 1024 {
        1 => bytes[300 * (row - 1024)..][..700].to_vec(),
        _ => bytes[16 * row..][..row % 19].to_vec(),
    };
    let blobs: Vec<Vec<u8>> = (0..3300).map(blob).collect();
    let text = |row: usize| "la li lu ".repeat([30, 1 + row % 5, 90, 31][row / 1024]);
    let arrays: [ArrayRef; 2] = [
        strings(&DataType::Binary, &blobs, Nulls::Random),
        Arc::new(StringArray::from_iter_values((0..3300).map(text))),
    ];
    for engine in engines() {
        for array in &arrays {
            let lz = Lz::default().with_segment_symbols(1024).with_symbol_bytes(1);
            let options = only(lz).with_chunk_rows(1024);
            for chunk in [2, 3] {
                of_lz(&array.slice(1024 * chunk, 200), &options);
            }
            check(&engine, array, &options);
        }
    }
}

/// Text, whose bytes are checked where some are not ASCII.
#[test]
fn long_texts() {
    let text = |row: usize| {
        let common = ["GET /index.html HTTP/1.1 200\n", "größer, 中文\n"][row % 3 / 2];
        format!("{row} {}", common.repeat(10 + row % 7))
    };
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(text)));
    for engine in engines() {
        let options = Options::default().with_encodings([Encoding::Lz]);
        of_lz(&texts, &options);
        check(&engine, &texts, &options);
        let mut image = Image::of(&texts, &options);
        // A byte of a character that is not ASCII.
        image.change(|tree| {
            let literals = &mut tree.buffers[0];
            let at = literals.iter().position(|byte| *byte >= 0x80).unwrap();
            literals[at] = b'x';
        });
        let packed = super::batch_of(image.field.clone(), image.storage());
        assert!(lanepack::decompress(&packed).is_err());
        assert!(engine.upload(&packed).unwrap().decompress().is_err());
    }
}

#[test]
fn scans_and_kept_rows() {
    let words: ArrayRef =
        Arc::new(Int64Array::from_iter_values(repeated(9000).into_iter().map(|word| word as i64)));
    let bytes = strings(&DataType::Binary, &blobs(1500), Nulls::Random);
    let literal = |array: &ArrayRef, row| Literal::Arrow(array.slice(row, 1));
    let price = || col("price");
    let filters = |array: &ArrayRef| -> Vec<Expr> {
        vec![
            price().lt(literal(array, 70)),
            price().eq(literal(array, 1000)),
            !price().eq(literal(array, 1001)),
            price().is_null(),
        ]
    };
    for engine in engines() {
        for array in [&words, &bytes] {
            for options in [only(Lz::default()), only(Lz::default()).with_chunk_rows(1024)] {
                let packed = packed(&of_lz(array, &options));
                let uploaded = engine.upload(&packed).unwrap();
                for filter in filters(array) {
                    let expected = Scan::new(&packed).filter(filter.clone());
                    let scan = Scan::on_device(&uploaded).filter(filter.clone());
                    let mask = expected.mask(&Engine::cpu()).unwrap();
                    assert!(scan.mask(&engine).unwrap() == mask, "{filter}");
                    let kept = expected.gather(&["price"], &Engine::cpu()).unwrap();
                    let found = scan.gather(&["price"], &engine).unwrap();
                    assert_same(found.column(0), kept.column(0), || filter.to_string());
                }
            }
        }
    }
}

/// Flags, lengths and offsets that do not make a segment: an error, or, where all adds up, other
/// values, but the CPU's.
#[test]
fn damaged_streams_are_what_they_are_on_the_cpu() {
    let array: ArrayRef = Arc::new(UInt64Array::from(repeated(4000)));
    for engine in engines() {
        let mut rng = Rng(8);
        let (mut errors, mut others) = (0, 0);
        for case in 0..600 {
            let symbol_bytes = Some([1, 2, 4, 8][case % 4]);
            let lz =
                Lz::default().with_level(1 + (case / 4 % 5) as u8).with_symbol_bytes(symbol_bytes);
            let options = Options::default().with_encodings([Encoding::Lz]).with_lz(lz);
            if thinned(&engine, case, 7) {
                continue;
            }
            let column = compress_array(&array, &options).unwrap();
            if column.encoding().to_string() != "lz" {
                continue;
            }
            let mut image = Image::of(&array, &options);
            image.change(|tree| {
                let buffer = &mut tree.buffers[1 + case % 2];
                let at = rng.below(buffer.len() as u64) as usize;
                buffer[at] ^= 1 << rng.below(8);
            });
            let packed = super::batch_of(image.field.clone(), image.storage());
            let expected = lanepack::decompress(&packed);
            let found = engine.upload(&packed).unwrap().decompress();
            match (expected, found) {
                (Ok(expected), Ok(mut found)) => {
                    others += 1;
                    let found = found.remove(0).to_host().unwrap();
                    assert_same(&found, expected.column(0), || format!("case {case}"));
                }
                (Err(expected), Err(error)) => {
                    errors += 1;
                    assert_eq!(error.to_string(), expected.to_string(), "case {case}");
                }
                (expected, found) => panic!("case {case}: {expected:?}, {:?}", found.err()),
            }
        }
        assert!(errors > 5 && others > 5, "{errors} errors, {others} others");
    }
}
