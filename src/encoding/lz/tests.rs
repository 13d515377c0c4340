use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};

use super::*;
use crate::{CompressedColumn, Options, compress_array};

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 20
}

const SYMBOLS: [usize; 4] = [1, 2, 4, 8];

/// Each level for symbols of each size.
fn shapes() -> impl Iterator<Item = Shape> {
    let settings = |level| Settings::default().with_level(level);
    (1..=5).flat_map(move |level| SYMBOLS.map(|symbol| Shape::of(&settings(level), symbol)))
}

/// Bytes of many kinds, of a length that symbols of 8 bytes fill.
fn inputs() -> Vec<Vec<u8>> {
    let mut state = 1;
    let mut of = |len: usize, next: &mut dyn FnMut(&mut u64, &[u8]) -> u8| {
        let mut bytes = Vec::new();
        for _ in 0..len {
            bytes.push(next(&mut state, &bytes));
        }
        bytes
    };
    let mut all = vec![
        vec![7; 8],
        vec![0; 70_000],
        of(1 << 16, &mut |state, _| random(state) as u8),
        of(70_000, &mut |state, _| (random(state) % 3) as u8),
        // Now and then what stood some bytes before, for a while.
        of(140_000, &mut |state, before| {
            let offset = [3, 40, 600, 30_000][before.len() / 1024 % 4];
            let is_new = random(state).is_multiple_of(17) || before.len() < offset;
            if is_new { random(state) as u8 } else { before[before.len() - offset] }
        }),
        (0..100_000_u64).step_by(8).flat_map(u64::to_le_bytes).collect(),
    ];
    for len in [16, 24, 1024, 2040, 2048, 2056, 65_528, 65_544] {
        let text = (0..).flat_map(|row: u32| format!("row {}, ", row * row % 97).into_bytes());
        all.push(text.take(len).collect());
    }
    all
}

fn compressed(bytes: &[u8], shape: Shape) -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(shape);
    bytes.chunks(shape.segment_bytes()).for_each(|segment| compressor.add(segment));
    compressor.finish()
}

/// The decoder that has no fast paths.
fn decompressed(buffers: &[Vec<u8>], shape: Shape, len: usize) -> Vec<u8> {
    let Shape { symbol, .. } = shape;
    let [literals, tokens, flags, places] = buffers else { panic!("four buffers") };
    let matches = tokens.len() / shape.token();
    let word = |at: usize| u32::from_le_bytes(places[4 * at..4 * at + 4].try_into().unwrap());
    let mut out = Vec::new();
    let (mut literal, mut token, mut flag) = (0, 0, 0);
    for segment in 0..places.len() / SEGMENT_ENTRY {
        assert_eq!(
            [flag, token, literal],
            [0, 1, 2].map(|part| word(3 * segment + part) as usize),
            "segment {segment}"
        );
        let start = out.len();
        let end = len.min(start + shape.segment_bytes());
        let next =
            if 12 * segment + 12 < places.len() { word(3 * segment + 4) } else { matches as u32 };
        let has_matches = next as usize > token;
        while out.len() < end {
            let is_match = has_matches && flags[flag / 8] >> (flag % 8) & 1 == 1;
            flag += usize::from(has_matches);
            if !is_match {
                out.extend_from_slice(&literals[literal * symbol..(literal + 1) * symbol]);
                literal += 1;
                continue;
            }
            let stored = tokens[token * shape.offset..(token + 1) * shape.offset].iter().rev();
            let offset = 1 + stored.fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let length = shape.least() + usize::from(tokens[matches * shape.offset + token]);
            token += 1;
            assert!(offset <= shape.window && offset * symbol <= out.len() - start);
            for _ in 0..length * symbol {
                out.push(out[out.len() - offset * symbol]);
            }
        }
        assert_eq!(out.len(), end);
    }
    assert_eq!([flag.div_ceil(8), token], [flags.len(), matches]);
    assert_eq!(literal * symbol, literals.len());
    out
}

#[test]
fn streams_are_what_the_format_says() {
    for bytes in inputs() {
        for shape in shapes() {
            let buffers = compressed(&bytes, shape);
            assert_eq!(decompressed(&buffers, shape, bytes.len()), bytes, "{shape:?}");
            let taken: usize = buffers.iter().map(Vec::len).sum();
            let segments = bytes.len().div_ceil(shape.segment_bytes());
            assert!(taken <= bytes.len() + segments * SEGMENT_ENTRY, "{taken} {shape:?}");
        }
    }
}

#[test]
fn repetition_takes_next_to_nothing() {
    for shape in shapes() {
        let taken: usize = compressed(&[0; 1 << 16], shape).iter().map(Vec::len).sum();
        let tokens = (1 << 16) / shape.symbol / shape.most() + (1 << 16) / shape.segment_bytes();
        let least = tokens * (shape.token() + shape.symbol) + 64 * SEGMENT_ENTRY;
        assert!(taken <= least, "{taken} {shape:?}");
    }
}

fn only(shape: Settings) -> Options {
    Options::default().with_encodings([Encoding::Lz]).with_lz(shape)
}

/// Compresses, and compares all values and single ones.
#[track_caller]
fn check(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert_eq!(&column.decompress().unwrap(), array, "{}", column.explain());
    for row in (0..array.len()).step_by(997) {
        let value = column.value(row).unwrap().into_inner();
        assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row}");
    }
    column
}

/// Numbers of 64 bits that come again as groups, in no order.
fn repeated(rows: usize) -> Vec<u64> {
    let mut state = 3;
    let words: Vec<u64> = (0..400).map(|_| random(&mut state) << 21 ^ random(&mut state)).collect();
    let mut all = Vec::new();
    while all.len() < rows {
        let at = random(&mut state) as usize % 390;
        all.extend_from_slice(&words[at..at + 10]);
    }
    all.truncate(rows);
    all
}

#[test]
fn values_of_every_type_and_level() {
    let words = repeated(20_000);
    let nulls = || NullBuffer::from_iter((0..20_000).map(|row| row % 11 != 3));
    let bytes = |row: usize| words[row].to_be_bytes();
    let blobs = || (0..2500).map(|row| words[8 * row..8 * row + row % 8].to_vec());
    let blobs: Vec<Vec<u8>> = blobs().map(|blob| bytemuck::cast_slice(&blob).to_vec()).collect();
    let some = |row: usize| (row % 5 != 2).then(|| blobs[row].as_slice());
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(words.clone())),
        Arc::new(Int64Array::new(words.iter().map(|w| *w as i64).collect(), Some(nulls()))),
        Arc::new(Float64Array::from_iter_values(words.iter().map(|w| f64::from_bits(*w)))),
        Arc::new(Float32Array::from_iter_values(words.iter().map(|w| f32::from_bits(*w as u32)))),
        Arc::new(UInt16Array::new(words.iter().map(|w| *w as u16).collect(), Some(nulls()))),
        Arc::new(Int8Array::from_iter_values(words.iter().map(|w| *w as i8))),
        Arc::new(BinaryArray::from_iter_values(&blobs)),
        Arc::new(LargeBinaryArray::from_iter((0..2500).map(some))),
        Arc::new(BinaryViewArray::from_iter((0..2500).map(some))),
        Arc::new(FixedSizeBinaryArray::try_from_iter((0..20_000).map(bytes)).unwrap()),
    ];
    for array in &arrays {
        for level in 1..=5 {
            for symbol_bytes in [None, Some(1), Some(2)] {
                let options =
                    only(Settings::default().with_level(level).with_symbol_bytes(symbol_bytes));
                let tree = check(array, &options).encoding().to_string();
                let width = physical_bytes(array);
                let is_small = width < 4 || level < 5 || symbol_bytes == Some(2);
                assert!(is_small || tree.starts_with("lz"), "{tree} of {}", array.data_type());
            }
        }
        for symbols in [128, 1024, 1 << 16] {
            for level in [4, 5] {
                let segment_symbols = Some(symbols);
                check(
                    array,
                    &only(
                        Settings::default().with_level(level).with_segment_symbols(segment_symbols),
                    ),
                );
            }
        }
    }
}

fn physical_bytes(array: &ArrayRef) -> usize {
    super::super::source::physical_of(array.data_type()).bits().unwrap_or(64) / 8
}

/// Values that lie in several segments, and segments with many values.
#[test]
fn values_are_cut_anywhere() {
    let text: String =
        (0..60_000).map(|row| format!("row {}; ", row % 1009 * row % 1009)).collect();
    let lengths = [0, 1, 70_000, 5, 140_000, 3, 0, 9000];
    let mut at = 0;
    let values = lengths.iter().map(|len| {
        at += len;
        &text.as_bytes()[at - len..at]
    });
    let array = Arc::new(BinaryArray::from_iter_values(values)) as ArrayRef;
    for level in [1, 5] {
        let options = only(Settings::default().with_level(level));
        let column = check(&array, &options);
        assert_eq!(column.encoding().to_string(), "lz(plain)", "{}", column.explain());
        for (row, len) in lengths.iter().enumerate() {
            let value = column.value(row).unwrap().into_inner();
            assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row} of {len}");
        }
    }
}

#[test]
fn it_is_for_what_others_leave() {
    let by_default = Options::default().with_encodings(Encoding::ALL.iter().copied());
    let tree = |array: ArrayRef| check(&array, &by_default).encoding().to_string();
    let mut state = 5;
    let words: Vec<u64> =
        (0..30_000).map(|_| random(&mut state) << 24 ^ random(&mut state)).collect();
    // Groups of words that come again once, soon: too many for a dictionary.
    let groups = words.chunks(1000).flat_map(|group| [group, group].concat());
    assert_eq!(tree(Arc::new(UInt64Array::from_iter_values(groups))), "lz");
    // Those that come again too late for a look, but are fewer.
    let late = (0..8).flat_map(|_| words[..7000].to_vec());
    assert!(tree(Arc::new(UInt64Array::from_iter_values(late))).starts_with("dict"));
    let random_bytes = |row: usize| words[row].to_le_bytes();
    assert_eq!(tree(Arc::new(UInt64Array::from(words.clone()))), "plain");
    let blobs: Vec<Vec<u8>> = (0..500)
        .map(|row| {
            let common = (0..20).flat_map(random_bytes);
            common.chain((row..row + 5).flat_map(random_bytes)).collect()
        })
        .collect();
    assert!(tree(Arc::new(BinaryArray::from_iter_values(&blobs))).starts_with("lz("));
    let short = (0..3000).map(|row| format!("{}/{}", row % 50, row * 7919 % 3000));
    let of_text = tree(Arc::new(StringArray::from_iter_values(short)));
    assert!(!of_text.contains("lz"), "{of_text}");
    let log: String = (0..400).map(|row| format!("{row} GET /index.html HTTP/1.1 200\n")).collect();
    let logs = (0..40).map(|row| format!("{row}\n{log}"));
    assert!(tree(Arc::new(StringArray::from_iter_values(logs))).starts_with("lz("));
}

/// Of dense unions only some rows of the children are carried: what LZ takes is compared with those.
#[test]
fn carried_arrays_save_a_tenth_of_what_they_take() {
    let rows = 3 * 24_576;
    let mut state = 9;
    let words: Vec<u64> =
        (0..rows).map(|_| random(&mut state) << 24 ^ random(&mut state)).collect();
    // A twentieth comes again.
    let words: Vec<u64> = (0..rows)
        .map(|row| if row % 8192 < 400 { words[row / 8192 * 8192 + row % 200] } else { words[row] })
        .collect();
    let fields = [Field::new("a", DataType::UInt64, true), Field::new("b", DataType::Int8, true)];
    let children: Vec<ArrayRef> =
        vec![Arc::new(UInt64Array::from(words)), Arc::new(Int8Array::from(vec![3]))];
    let unions = UnionArray::try_new(
        arrow_schema::UnionFields::try_new([0, 1], fields).unwrap(),
        vec![0; rows].into(),
        Some((0..rows as i32).collect()),
        children,
    );
    let array = Arc::new(unions.unwrap()) as ArrayRef;
    let options = |encodings: &[Encoding]| {
        let options = Options::default().with_encodings(encodings.iter().copied());
        options.with_chunk_rows(24_576)
    };
    let plain = check(&array, &options(&[Encoding::Plain]));
    let column = check(&array, &options(&[Encoding::Plain, Encoding::Lz]));
    assert_eq!(column.chunks().len(), 3);
    for (lz, plain) in column.chunks().iter().zip(plain.chunks()) {
        let is_lz = lz.root().encoding() == Encoding::Lz;
        let (lz, plain) = (lz.compressed_bytes(), plain.compressed_bytes());
        assert!(!is_lz || lz <= plain - plain / 10, "{}", column.explain());
    }
}

/// Unions have no encoding of their own.
#[test]
fn carried_arrays() {
    let rows = 30_000;
    let words = repeated(rows);
    let fields: Fields =
        vec![Field::new("a", DataType::UInt64, true), Field::new("b", DataType::Float32, true)]
            .into();
    let children: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(words)),
        Arc::new(Float32Array::from_iter_values((0..rows).map(|row| row as f32))),
    ];
    let ids = (0..rows).map(|row| i8::from(row % 3 == 0)).collect::<Vec<_>>();
    let unions = UnionArray::try_new(
        arrow_schema::UnionFields::try_new([0, 1], fields.iter().cloned()).unwrap(),
        ids.into(),
        None,
        children,
    )
    .unwrap();
    let array = Arc::new(unions) as ArrayRef;
    let options = Options::default().with_encodings(Encoding::ALL.iter().copied());
    let column = check(&array, &options);
    assert_eq!(column.encoding().to_string(), "lz");
    assert!(column.compressed_bytes() < 6 * rows, "{}", column.explain());
    let structs = StructArray::from(vec![(
        Arc::new(Field::new("union", array.data_type().clone(), false)),
        array,
    )]);
    assert_eq!(
        check(&(Arc::new(structs) as ArrayRef), &options).encoding().to_string(),
        "struct(lz)"
    );
}

/// Lengths of lists and keys of dictionaries are below nested nodes, so that they may be lz, too.
#[test]
fn children_of_nested_arrays() {
    let mut state = 7;
    let lengths: Vec<usize> = (0..500).map(|_| (random(&mut state) % 7) as usize).collect();
    let lengths = (0..40).flat_map(|_| lengths.clone());
    let offsets = arrow_buffer::OffsetBuffer::from_lengths(lengths);
    let elements = UInt8Array::from_iter_values((0..*offsets.last().unwrap()).map(|at| at as u8));
    let item = Arc::new(Field::new_list_field(DataType::UInt8, false));
    let lists = Arc::new(ListArray::new(item, offsets, Arc::new(elements), None)) as ArrayRef;
    let keys: Vec<u16> = (0..500).map(|_| (random(&mut state) % 300) as u16).collect();
    let keys = UInt16Array::from_iter_values((0..40).flat_map(|_| keys.clone()));
    let values = Arc::new(UInt64Array::from_iter_values(0..300));
    let dictionary = Arc::new(DictionaryArray::new(keys, values)) as ArrayRef;
    let options = Options::default().with_encodings(
        [Encoding::Lz, Encoding::Plain].into_iter().chain(Encoding::NESTED.iter().copied()),
    );
    assert_eq!(check(&lists, &options).encoding().to_string(), "list(lz, lz)");
    assert_eq!(check(&dictionary, &options).encoding().to_string(), "keys(lz, lz)");
}

#[test]
fn settings_out_of_range_are_errors() {
    let error = |lz: Settings| Options::default().with_lz(lz).validate().unwrap_err().to_string();
    for level in [0, 6] {
        assert!(error(Settings::default().with_level(level)).contains("lz.level"));
    }
    let symbol_bytes = Some(3);
    assert!(error(Settings::default().with_symbol_bytes(symbol_bytes)).contains("lz.symbol_bytes"));
    for symbols in [0, 64, 3000, 1 << 17] {
        let segment_symbols = Some(symbols);
        let text = error(Settings::default().with_segment_symbols(segment_symbols));
        assert!(text.contains("lz.segment_symbols"));
    }
}
