//! Rules of the encodings of strings, UTF-8, and what travels as Arrow IPC.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::Encoding;

use super::common::{Nulls, strings};
use super::damage::{Image, Node, Read, Tree};

const KINDS: [DataType; 7] = [
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::FixedSizeBinary(12),
];

/// Twelve bytes each.
fn texts(data_type: &DataType, rows: usize) -> ArrayRef {
    let values: Vec<Vec<u8>> =
        (0..rows).map(|row| format!("/item/{:06}", row * 37 % 5000).into_bytes()).collect();
    match data_type {
        DataType::FixedSizeBinary(width) => {
            Arc::new(FixedSizeBinaryArray::new(*width, values.concat().into(), None))
        }
        other => strings(other, &values, Nulls::None),
    }
}

/// Three vectors. Nodes: fsst, code lengths, value lengths (both plain); buffers:
/// table, codes, starts, tiles, code lengths, value lengths.
fn fsst(data_type: &DataType) -> Image {
    Image::with(&texts(data_type, 2500), Encoding::Fsst)
}

fn changed(change: impl FnOnce(&mut Tree)) -> Image {
    let mut image = fsst(&DataType::Utf8);
    image.change(change);
    image
}

/// Nodes: plain, lengths (plain); buffers: bytes, starts, lengths.
fn plain(data_type: &DataType) -> Image {
    Image::with(&texts(data_type, 2500), Encoding::Plain)
}

#[test]
fn intact_strings_read() {
    for data_type in KINDS {
        assert_eq!(&fsst(&data_type).read().unwrap(), &texts(&data_type, 2500));
        assert_eq!(&plain(&data_type).read().unwrap(), &texts(&data_type, 2500));
    }
}

#[test]
fn fsst_rejects_more_than_255_symbols() {
    changed(|tree| tree.buffers[0] = vec![255; 8]).rejects("at most 255 are allowed");
    let mut table = vec![128, 128, 0, 0, 0, 0, 0, 0];
    table.extend((0..128_u8).chain((0..128).flat_map(|byte| [byte, byte])));
    changed(|tree| tree.buffers[0] = table).rejects("256 symbols; at most 255 are allowed");
}

#[test]
fn fsst_rejects_tables_of_another_length() {
    let len = fsst(&DataType::Utf8).tree().buffers[0].len();
    for cut in 0..len {
        changed(|tree| tree.buffers[0].truncate(cut)).rejects("symbol table");
    }
    changed(|tree| tree.buffers[0].push(0)).rejects("1 bytes follow the symbol table");
    // Counts that announce a byte more or less than there is.
    for length in 0..8 {
        changed(|tree| tree.buffers[0][length] = tree.buffers[0][length].wrapping_add(1))
            .rejects("symbol");
    }
}

#[test]
fn fsst_rejects_symbols_that_do_not_ascend() {
    changed(|tree| tree.buffers[0] = b"\x02\0\0\0\0\0\0\0ba".to_vec()).rejects("do not ascend");
    changed(|tree| tree.buffers[0] = b"\x02\0\0\0\0\0\0\0aa".to_vec()).rejects("do not ascend");
    changed(|tree| tree.buffers[0] = b"\0\x02\0\0\0\0\0\0abaa".to_vec()).rejects("do not ascend");
}

#[test]
fn fsst_rejects_codes_at_and_above_the_number_of_symbols() {
    let long = "abcabcabcabcabcabcabcabc";
    let few: Vec<_> = (0..2500).map(|row| if row % 3 == 0 { "a" } else { long }).collect();
    let intact = Image::with(&(Arc::new(StringArray::from(few)) as ArrayRef), Encoding::Fsst);
    let first = intact.tree().buffers[0][..8].iter().sum::<u8>();
    assert!(first < 254, "all codes are symbols");
    for code in [first, first + 1, 254] {
        for row in [0, 1024, 2000, 2499] {
            let mut image = intact.clone();
            image.change(|tree| {
                let start = tree.codes_of(row).start;
                tree.buffers[1][start] = code;
            });
            image.rejects("a code stands for no symbol");
            let error = image.open().unwrap().value(row).unwrap_err().to_string();
            assert!(error.contains(&format!("codes of row {row}")), "{error}");
        }
    }
}

#[test]
fn fsst_rejects_a_lone_escape_at_the_end_of_the_stream() {
    let image = changed(|tree| *tree.buffers[1].last_mut().unwrap() = 255);
    image.rejects("the codes end with an escape");
    assert!(image.open().unwrap().value(2499).is_err());
}

#[test]
fn fsst_rejects_a_lone_escape_at_the_end_of_a_value() {
    for row in [5, 1023, 1500] {
        let image = changed(|tree| {
            let end = tree.codes_of(row).end;
            tree.buffers[1][end - 1] = 255;
        });
        // Alone the value is broken; decoded with the others it takes their codes.
        let error = image.open().unwrap().value(row).unwrap_err().to_string();
        assert!(error.contains("the codes end with an escape"), "{error}");
        image.error();
    }
}

#[test]
fn fsst_rejects_totals_that_the_codes_cannot_give() {
    let codes = fsst(&DataType::Utf8).tree().buffers[1].len() as u64;
    for total in [codes * 8 + 1, 1 << 32, 1 << 40, u64::MAX] {
        changed(|tree| tree.nodes[0].parameters[0] = total).rejects("of at most 8 bytes each");
    }
    for total in [0, 1, 29_999, 30_001, codes * 8] {
        changed(|tree| tree.nodes[0].parameters[0] = total).error();
    }
}

#[test]
fn fsst_rejects_starts_that_are_not_zero_first() {
    for which in [0, 1] {
        changed(|tree| tree.set_word(2, which, 1)).rejects("the first vector starts at");
    }
}

#[test]
fn fsst_rejects_starts_that_fall_or_pass_the_end() {
    for which in [4, 5] {
        changed(|tree| tree.set_word(2, which, 0)).rejects("vector 2 starts at");
    }
    for which in [2, 3, 4, 5] {
        changed(|tree| tree.set_word(2, which, u32::MAX)).rejects("starts at");
    }
}

#[test]
fn fsst_rejects_starts_of_another_number() {
    changed(|tree| tree.buffers[2].truncate(16)).rejects("starts of 2 vectors, 3 expected");
    changed(|tree| tree.buffers[2].extend([0; 8])).rejects("starts of 4 vectors, 3 expected");
    changed(|tree| tree.buffers[2].truncate(23)).rejects("is no array of 8-byte words");
    changed(|tree| tree.buffers[2].clear()).rejects("starts of 0 vectors");
}

#[test]
fn fsst_rejects_starts_within_a_vector_that_lie() {
    // In range and in order, but not where the vectors begin.
    let with = |which: usize| {
        changed(|tree| {
            let start = tree.word(2, which);
            tree.set_word(2, which, start - 1);
        })
    };
    with(3).rejects("lengths of the vector of row 0 add up to 12288, 12287 expected");
    // Whole columns decode codes from the first start on and do not look at the others.
    let column = with(2).open().unwrap();
    assert_eq!(&column.decompress().unwrap(), &texts(&DataType::Utf8, 2500));
    assert!(column.value(1024).is_err());
}

#[test]
fn fsst_rejects_a_tile_index_of_another_length() {
    changed(|tree| tree.buffers[3].truncate(32)).rejects("tile index of 32 bytes");
    changed(|tree| tree.buffers[3].clear()).rejects("tile index of 0 bytes");
    changed(|tree| tree.buffers[3].extend([0; 40])).rejects("tile index of");
}

fn tile(tree: &mut Tree, tile: usize) -> &mut [u8] {
    &mut tree.buffers[3][tile / 16 * 40 + 8 + tile % 16 * 2..][..2]
}

#[test]
fn fsst_rejects_tiles_that_fall_lie_apart_or_pass_the_end() {
    let tiles = fsst(&DataType::Utf8).tree().buffers[1].len().div_ceil(512);
    assert!((3..16).contains(&tiles), "{tiles} tiles");
    changed(|tree| tree.buffers[3][0] = 1).rejects("tile 0 begins at 1");
    changed(|tree| tree.buffers[3][5] = 1).rejects("tile 0 begins at");
    changed(|tree| tile(tree, 0)[0] = 1).rejects("tile 0");
    changed(|tree| tile(tree, 2).fill(0)).rejects("tile 2 begins at 0");
    changed(|tree| tile(tree, 1).copy_from_slice(&4097_u16.to_le_bytes()))
        .rejects("tile 1 begins at 4097, the one before at 0");
    changed(|tree| tile(tree, tiles - 1).fill(0xff)).rejects("begins at 65535");
    changed(|tree| tile(tree, tiles)[0] = 1).rejects("has a relative offset");
    changed(|tree| tile(tree, 15)[1] = 1).rejects("tile 15 of");
}

#[test]
fn fsst_rejects_tiles_that_lie() {
    // Values with escapes and without, so that tiles begin at all places of windows and blocks.
    let rare = |row: u32| char::from_u32(0x100 + row * 7919 % 20_000).unwrap_or('?');
    let rows = |row: u32| match row % 3 {
        0 => format!("/item/{:06}", row * 37 % 5000),
        _ => format!("/item/{:03}{}", row % 1000, rare(row)),
    };
    let texts = Arc::new(StringArray::from_iter_values((0..8_000).map(rows))) as ArrayRef;
    let intact = Image::with(&texts, Encoding::Fsst);
    assert_eq!(&intact.read().unwrap(), &texts);
    let tiles = intact.tree().buffers[1].len().div_ceil(512);
    assert!(tiles > 32, "{tiles} tiles");
    for at in (1..tiles).step_by(3) {
        // The heads of groups of 16 are words of 64 bits, the others are relative to these.
        let head = at / 16 * 40;
        let offset = if at % 16 == 0 { head } else { head + 8 + at % 16 * 2 };
        for (byte, change) in [(offset, 1), (head + 6 + at % 16 / 8, 1 << (at % 8))] {
            let mut image = intact.clone();
            image.change(|tree| tree.buffers[3][byte] ^= change);
            image.rejects("tile");
        }
    }
}

#[test]
fn fsst_rejects_escapes_of_tiles_that_cannot_be() {
    let tiles = fsst(&DataType::Utf8).tree().buffers[1].len().div_ceil(512);
    // Bits 48 and up of the first word: the first tile, and tiles past the end.
    changed(|tree| tree.buffers[3][6] |= 1).rejects("begin inside an escape");
    for tile in tiles..16 {
        changed(|tree| tree.buffers[3][6 + tile / 8] |= 1 << (tile % 8))
            .rejects("begin inside an escape");
    }
}

#[test]
fn fsst_rejects_lengths_of_another_type_or_number() {
    for (child, what) in [(1, "code"), (2, "value")] {
        let changes: [fn(&mut Node); 5] = [
            |node| node.physical = 3,
            |node| node.physical = 9,
            |node| (node.encoding, node.buffers, node.len) = (1, 0, 2499),
            |node| (node.encoding, node.buffers, node.len) = (1, 0, 131_072),
            |node| (node.encoding, node.buffers, node.physical) = (1, 0, 8),
        ];
        for change in changes {
            let image = changed(|tree| {
                change(&mut tree.nodes[child]);
                if tree.nodes[child].buffers == 0 {
                    tree.buffers.remove(3 + child);
                }
            });
            image.rejects(&format!("{what} lengths of type"));
        }
    }
}

#[test]
fn fsst_rejects_lengths_that_do_not_add_up() {
    for length in [0, 1, 13, 1 << 20, u32::MAX] {
        changed(|tree| tree.set_word(5, 7, length)).rejects("lengths of the vector");
        let error = changed(|tree| tree.set_word(5, 7, length)).open().unwrap().value(7);
        assert!(error.is_err(), "a value of 12 bytes with a length of {length}");
        // Code lengths only matter to random access.
        let image = changed(|tree| tree.set_word(4, 7, length));
        assert!(image.open().is_err() || image.open().unwrap().value(7).is_err());
    }
    changed(|tree| tree.buffers[4].fill(0xff)).rejects("its vector ends at");
    changed(|tree| tree.buffers[5].fill(0xff)).rejects("lengths of the vector");
}

#[test]
fn fsst_rejects_another_shape_and_other_types() {
    for physical in [0, 4, 9, 11, 14] {
        changed(|tree| tree.nodes[0].physical = physical).rejects("where it does not fit");
    }
    let image = changed(|tree| {
        tree.nodes[0].children = 1;
        tree.nodes.pop();
        tree.nodes[0].buffers = 5;
    });
    image.rejects("fsst node with 1 children and 5 buffers");
}

#[test]
fn plain_strings_reject_starts_and_lengths_that_lie() {
    let changed = |change: fn(&mut Tree)| {
        let mut image = plain(&DataType::Utf8);
        image.change(change);
        image
    };
    changed(|tree| tree.set_word(1, 0, 1)).rejects("the first vector starts at");
    changed(|tree| tree.set_word(1, 2, u32::MAX)).rejects("vector 1 starts at");
    changed(|tree| tree.set_word(1, 5, 0)).rejects("vector 2 starts at");
    changed(|tree| tree.set_word(1, 4, 12 * 2048 - 1)).rejects("unequal starts");
    changed(|tree| tree.buffers[1].clear()).rejects("starts of 0 vectors");
    changed(|tree| tree.nodes[1].physical = 3).rejects("2500 lengths of type I32");
    changed(|tree| tree.nodes[1].len = 1).error();
    changed(|tree| tree.set_word(2, 7, 13)).rejects("lengths of the vector");
    changed(|tree| tree.buffers[2].fill(0xff)).rejects("lengths of the vector");
    changed(|tree| tree.buffers[0].truncate(29_999)).error();
    changed(|tree| tree.buffers[0].clear()).error();
}

#[test]
fn damaged_utf8_is_an_error() {
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let mut image = plain(&data_type);
        image.change(|tree| tree.buffers[0][12 * 1024] = 0xff);
        image.error();
        assert!(image.open().unwrap().value(1024).is_err(), "{data_type}");
        assert!(image.open().unwrap().value(1023).is_ok(), "{data_type}");

        // A symbol that no text has.
        let mut image = fsst(&data_type);
        image.change(|tree| *tree.buffers[0].last_mut().unwrap() = 0xff);
        image.error();
        assert!(image.open().unwrap().decompress().is_err(), "{data_type}");

        let array = strings(&data_type, &vec![b"same".to_vec(); 100], Nulls::None);
        let mut image = Image::with(&array, Encoding::Constant);
        image.change(|tree| tree.buffers[0][3] = 0xc3);
        image.error();
        assert!(image.open().unwrap().value(50).is_err(), "{data_type}");
    }
}

#[test]
fn lengths_that_cut_characters_are_an_error() {
    let values = vec!["éé".as_bytes().to_vec(); 20];
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let mut values = values.clone();
        values[0] = b"abcd".to_vec();
        let mut image = Image::with(&strings(&data_type, &values, Nulls::None), Encoding::Plain);
        image.change(|tree| {
            tree.set_word(2, 5, 3);
            tree.set_word(2, 6, 5);
        });
        image.error();
        assert!(image.open().unwrap().decompress().is_err(), "{data_type}");
    }
}

#[test]
fn values_of_another_width_are_an_error() {
    let mut image = plain(&DataType::FixedSizeBinary(12));
    image.change(|tree| {
        tree.set_word(2, 5, 11);
        tree.set_word(2, 6, 13);
    });
    image.rejects("a value of 11 bytes in a column of 12 bytes each");
    let error = image.open().unwrap().value(6).unwrap_err().to_string();
    assert!(error.contains("a value of 13 bytes"), "{error}");
}

/// A list, carried as an IPC stream.
fn carried() -> Image {
    let array = super::common::carried_arrays(20).remove(0);
    Image::with(&array, Encoding::Plain)
}

/// The IPC stream of an array.
fn stream_of(arrays: Vec<ArrayRef>) -> Vec<u8> {
    let names = arrays.iter().map(|array| ("", array.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(names).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn carried_streams_must_hold_what_the_column_says() {
    let list = super::common::carried_arrays(20).remove(0);
    let with = |stream: Vec<u8>| {
        let mut image = carried();
        image.change(|tree| tree.buffers[0] = stream);
        image
    };
    with(stream_of(vec![list.clone()])).read().unwrap();
    with(stream_of(vec![list.slice(0, 19)])).rejects("19 values in a node of 20");
    with(stream_of(vec![list.clone(), list.clone()]))
        .rejects("an IPC stream of 2 columns inside a chunk");
    with(Vec::new()).rejects("0 batches");
    with(stream_of(vec![list.clone()])[..64].to_vec()).error();
    with(vec![0xff; 4096]).error();
    with(vec![0x7f; 4096]).error();
}

#[test]
fn carried_streams_of_another_type_are_an_error() {
    let numbers = Arc::new(Int32Array::from_iter_values(0..20)) as ArrayRef;
    let mut image = carried();
    image.change(|tree| tree.buffers[0] = stream_of(vec![numbers]));
    let column = image.open().unwrap();
    assert!(column.decompress().is_err());
    assert!(column.value(3).is_err(), "one value of another type than the column's");
}

#[test]
fn carried_streams_in_another_column_are_an_error() {
    let mut image = carried();
    image.field =
        Image::of(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef), &Default::default())
            .field
            .with_data_type(image.field.data_type().clone());
    image.error();
    // Other nodes cannot be of this type.
    for encoding in 1..6 {
        let mut image = carried();
        image.change(|tree| tree.nodes[0].encoding = encoding);
        image.error();
    }
}
