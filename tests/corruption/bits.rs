//! Rules of bits as bytes: nulls and booleans of which one kind is rare.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use lanepack::Options;

use super::damage::{Image, Node, Read};

const ROWS: usize = 20_000;

fn bits() -> BooleanBuffer {
    BooleanBuffer::from_iter((0..ROWS).map(|row| row % 3001 != 7))
}

/// Nodes: bits, its 2,500 bytes; buffers: those of the bytes.
fn booleans() -> Image {
    let image =
        Image::of(&(Arc::new(BooleanArray::new(bits(), None)) as ArrayRef), &Options::default());
    let nodes: Vec<u8> = image.tree().nodes.iter().map(|node| node.encoding).collect();
    assert_eq!(nodes, [13, 9]);
    image
}

#[test]
fn bits_reject_bytes_of_another_type_or_length() {
    let changes: [fn(&mut Node); 5] = [
        |bytes| bytes.len = 2499,
        |bytes| bytes.len = 2501,
        |bytes| bytes.len = 20_000,
        |bytes| bytes.physical = 1,
        |bytes| bytes.physical = 6,
    ];
    for change in changes {
        let mut image = booleans();
        image.change(|tree| change(&mut tree.nodes[1]));
        image.error();
    }
    let mut image = booleans();
    image.change(|tree| {
        tree.nodes[1] = Node { encoding: 1, physical: 5, len: 2501, ..Node::default() };
        tree.buffers.clear();
    });
    image.rejects("2501 bytes of type U8 for 20000 bits");
}

#[test]
fn bits_reject_bytes_of_other_encodings() {
    let mut image = booleans();
    image.change(|tree| {
        let inner = Node { encoding: 6, physical: 5, len: 2500, children: 2, ..Node::default() };
        let codes = Node { encoding: 1, physical: 7, len: 2500, ..Node::default() };
        let value = Node { encoding: 1, physical: 5, len: 1, ..Node::default() };
        tree.nodes = vec![tree.nodes[0].clone(), inner, codes, value];
        tree.buffers.clear();
    });
    image.rejects("bytes of bits encoded as dict, which is not allowed");
    let mut image = booleans();
    image.change(|tree| {
        let inner = Node { physical: 0, len: 2500, ..tree.nodes[0].clone() };
        tree.nodes.insert(1, inner);
    });
    image.error();
}

#[test]
fn bits_reject_another_shape_and_what_is_no_boolean() {
    let mut image = booleans();
    image.change(|tree| tree.nodes[0].parameters[0] = 1);
    image.rejects("bits node with unused parameters");
    let mut image = booleans();
    image.change(|tree| {
        tree.nodes[0].buffers = 1;
        tree.buffers.insert(0, vec![0; 8]);
    });
    image.rejects("bits node with 1 children and 1 buffers");
    for physical in 1..=14 {
        let mut image = booleans();
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
}

/// Bits behind the last row are nobody's.
#[test]
fn bits_past_the_end_are_ignored() {
    let rows = 20_001;
    let valid = NullBuffer::new(BooleanBuffer::from_iter((0..rows).map(|row| row != 77)));
    let array = Arc::new(Int32Array::new((0..rows).collect(), Some(valid))) as ArrayRef;
    let mut image = Image::of(&array, &Options::default());
    let intact = image.read().unwrap();
    let at = image.tree().nodes.iter().position(|node| node.encoding == 13).unwrap();
    let bytes = image.tree().nodes.iter().position(|node| node.physical == 5).unwrap();
    assert!(at < bytes);
    image.change(|tree| {
        // The bytes as they are: all rows valid but one, and ones behind the last row.
        let mut plain = vec![0xff_u8; 2501];
        plain[77 / 8] &= !(1 << (77 % 8));
        let buffers = |node: &Node| usize::from(node.buffers);
        let first: usize = tree.nodes[..bytes].iter().map(buffers).sum();
        let count = buffers(&tree.nodes[bytes]);
        tree.buffers.splice(first..first + count, [plain]);
        let node = Node { encoding: 0, physical: 5, len: 2501, buffers: 1, ..Node::default() };
        tree.nodes[bytes] = node;
    });
    assert_eq!(&image.read().unwrap(), &intact);
}
