//! Rules of lz. Nodes: lz, of Binary also the lengths; buffers: literals, matches, flags,
//! segments, of Binary also starts and what the lengths have.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::*;
use lanepack::{Encoding, Lz, Options};

use super::common::Rng;
use super::damage::{Image, Node, Read, Tree};

const LITERALS: usize = 0;
const MATCHES: usize = 1;
const FLAGS: usize = 2;
const SEGMENTS: usize = 3;

/// Words of which most come again: four segments of 2,048 symbols of 8 bytes, the last short.
fn words() -> Image {
    let word = |row: u64| (row * row % 61).wrapping_mul(0x9e37_79b9_7f4a_7c15) | (row % 2);
    let array: ArrayRef = Arc::new(UInt64Array::from_iter_values((0..7000).map(word)));
    let options = Options::default().with_encodings([Encoding::Lz]);
    let image = Image::of(&array, &options.with_lz(Lz::default().with_level(3)));
    let tree = image.tree();
    assert_eq!((tree.nodes.len(), tree.nodes[0].encoding), (1, 14));
    assert_eq!(tree.nodes[0].parameters, [56_000, 8 | 1 << 8 | 2048 << 16]);
    assert_eq!(tree.buffers[SEGMENTS].len(), 48);
    image
}

/// Values of 0 to 99 bytes in three segments, the second of which has no matches.
fn blobs() -> Image {
    let mut state = 1_u64;
    let mut bytes: Vec<u8> = Vec::new();
    for at in 0..5000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let is_random = (2048..4096).contains(&at);
        bytes.push(if is_random { (state >> 40) as u8 } else { b"abcdefghi, "[at % 11] });
    }
    let mut at = 0;
    let values = (0..101).map_while(|row: usize| {
        let start = at;
        at = bytes.len().min(at + row * 37 % 100);
        (start < bytes.len()).then(|| &bytes[start..at])
    });
    let values: Vec<&[u8]> = values.collect();
    let array: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
    let options = Options::default().with_encodings([Encoding::Lz]);
    let image = Image::of(&array, &options.with_lz(Lz::default().with_level(4)));
    let tree = image.tree();
    let encodings: Vec<u8> = tree.nodes.iter().map(|node| node.encoding).collect();
    assert_eq!(encodings, [14, 0]);
    assert_eq!(tree.word(SEGMENTS, 4), tree.word(SEGMENTS, 7), "no matches in segment 1");
    image
}

#[track_caller]
fn rejects(mut image: Image, change: impl FnOnce(&mut Tree), what: &str) {
    image.change(change);
    image.rejects(what);
}

#[test]
fn parameters_out_of_range_are_errors() {
    let shape = |symbol: u64, offset: u64, segment: u64| symbol | offset << 8 | segment << 16;
    for (parameter, what) in [
        (shape(3, 1, 2048), "symbols of 3 bytes"),
        (shape(0, 1, 2048), "symbols of 0 bytes"),
        (shape(16, 1, 2048), "symbols of 16 bytes"),
        (shape(8, 0, 2048), "offsets of 0"),
        (shape(8, 3, 2048), "offsets of 3"),
        (shape(8, 1, 0), "segments of 0 symbols"),
        (shape(8, 1, 2047), "segments of 2047 symbols"),
        (shape(8, 1, 64), "segments of 64 symbols"),
        (shape(8, 1, 1 << 14), "segments of 16384 symbols"),
        (shape(8, 1, 1 << 47), "symbols of 8 bytes"),
        (u64::MAX, "symbols of 255 bytes"),
    ] {
        rejects(words(), |tree| tree.nodes[0].parameters[1] = parameter, what);
    }
    for bytes in [0, 55_999, 56_008, 1 << 32, u64::MAX] {
        let mut image = words();
        image.change(|tree| tree.nodes[0].parameters[0] = bytes);
        assert!(image.error().contains("bytes"), "{bytes}: {}", image.error());
    }
    for bytes in [4999, 5001, 1 << 31, 1 << 32, u64::MAX] {
        let mut image = blobs();
        image.change(|tree| tree.nodes[0].parameters[0] = bytes);
        image.error();
    }
}

#[test]
fn streams_of_another_length_are_errors() {
    for buffer in [LITERALS, MATCHES, FLAGS, SEGMENTS] {
        for image in [words(), blobs()] {
            for change in [
                (|bytes: &mut Vec<u8>| _ = bytes.pop()) as fn(&mut Vec<u8>),
                |bytes| bytes.push(0),
                |bytes| bytes.truncate(bytes.len().saturating_sub(8)),
                |bytes| bytes.extend([0; 12]),
                Vec::clear,
            ] {
                let mut image = image.clone();
                image.change(|tree| change(&mut tree.buffers[buffer]));
                image.error();
            }
        }
    }
}

#[test]
fn segments_that_do_not_follow_each_other_are_errors() {
    for (word, what) in [(0, "segment 0 begins"), (1, "segment 0 begins"), (2, "segment 0 begins")]
    {
        rejects(words(), |tree| tree.set_word(SEGMENTS, word, 1), what);
    }
    // The flags of a segment are as many as its items.
    let of_flags = |tree: &mut Tree| tree.set_word(SEGMENTS, 3, tree.word(SEGMENTS, 3) + 1);
    rejects(words(), of_flags, "segment 1 begins");
    for place in [4, 5] {
        let end = |tree: &mut Tree| tree.set_word(SEGMENTS, place, u32::MAX);
        rejects(words(), end, "literals and");
        rejects(words(), |tree| tree.set_word(SEGMENTS, place + 3, 0), "ends before it begins");
    }
    // Fewer literals than symbols, and no match.
    let fewer = |tree: &mut Tree| tree.set_word(SEGMENTS, 8, tree.word(SEGMENTS, 8) - 1);
    rejects(blobs(), fewer, "of segment 1");
}

/// What only decoding shows.
#[test]
fn items_that_do_not_make_a_segment_are_errors() {
    #[track_caller]
    fn breaks(image: &Image, change: impl FnOnce(&mut Tree)) {
        let mut image = image.clone();
        image.change(change);
        let column = image.open().unwrap();
        let error = column.decompress().unwrap_err().to_string();
        assert!(error.contains("the streams of segment 0 do not fit"), "{error}");
        assert!(column.value(1).is_err());
        // Segments do not look at each other.
        column.value(column.len() - 1).unwrap();
    }
    for image in [words(), blobs()] {
        let tree = image.tree();
        let first =
            tree.buffers[FLAGS].iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        let first = first.enumerate().find(|(_, flag)| *flag == 1).unwrap().0;
        let matches = tree.buffers[MATCHES].len() / 2;
        // The first match begins before the segment.
        breaks(&image, |tree| tree.buffers[MATCHES][0] = first as u8);
        breaks(&image, |tree| tree.buffers[MATCHES][0] = 255);
        // One flag more or less.
        breaks(&image, |tree| tree.buffers[FLAGS][first / 8] &= !(1 << (first % 8)));
        breaks(&image, |tree| tree.buffers[FLAGS][0] |= 2);
        // Lengths that add up to more or fewer symbols.
        breaks(&image, |tree| tree.buffers[MATCHES][matches] ^= 1);
        breaks(&image, |tree| tree.buffers[MATCHES][matches] ^= 0x80);
    }
}

#[test]
fn lengths_and_starts_are_those_of_strings() {
    rejects(blobs(), |tree| tree.nodes[1].physical = 3, "lengths of type I32");
    rejects(blobs(), |tree| tree.set_word(4, 0, 1), "the first vector starts at");
    let mut image = blobs();
    image.change(|tree| tree.set_word(5, 1, tree.word(5, 1) + 1));
    let column = image.open().unwrap();
    assert!(column.decompress().unwrap_err().to_string().contains("add up"));
}

#[test]
fn types_without_bytes_of_their_own_are_rejected() {
    for (physical, what) in [(0, "does not fit"), (11, "does not fit"), (12, "does not fit")] {
        rejects(words(), |tree| tree.nodes[0].physical = physical, what);
    }
}

#[test]
fn nodes_below_others_are_not_lz() {
    let mut image = words();
    image.change(|tree| {
        let rows = tree.nodes[0].len;
        let dict = Node { encoding: 6, physical: 8, len: rows, children: 2, ..Node::default() };
        let codes = Node { encoding: 1, physical: 7, len: rows, ..Node::default() };
        tree.nodes = vec![dict, codes, tree.nodes[0].clone()];
    });
    image.rejects("lz below dict");
}

/// Lists that are carried as an IPC stream, which is compressed.
fn carried() -> Image {
    let lists = (0..2000_i64).map(|row| Some((0..row % 5).map(move |at| Some(row / 3 * at % 77))));
    Image::with(
        &(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)) as _),
        Encoding::Lz,
    )
}

#[test]
fn carried_arrays_have_no_validity_besides_their_own() {
    let mut image = carried();
    image.change(|tree| {
        (tree.nodes[0].flags, tree.nodes[0].children) = (1, 1);
        tree.nodes.push(Node { encoding: 1, len: 2000, parameters: [1, 0], ..Node::default() });
    });
    image.rejects("a carried array has a validity bitmap");
}

/// What a damaged segment becomes is read as a stream all the same.
#[test]
fn damaged_streams_of_carried_arrays_are_errors_or_other_values() {
    let image = carried();
    let mut rng = Rng(3);
    let (mut errors, mut others) = (0, 0);
    for case in 0..600 {
        let mut image = image.clone();
        image.change(|tree| {
            let buffer = &mut tree.buffers[case % 4];
            let at = rng.below(buffer.len() as u64) as usize;
            buffer[at] ^= 1 << rng.below(8);
        });
        match image.read() {
            Ok(_) => others += 1,
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 100 && others > 10, "{errors} errors, {others} others");
}
