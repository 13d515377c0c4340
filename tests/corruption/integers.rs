//! Rules of the encodings of integers that are made of others or patch them: delta.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::{Encoding, Options};

use super::common::{Nulls, Shape, array_of};
use super::damage::{Image, Node, Read};

/// 1,500 integers of nearly even steps. Nodes: delta, its child of 2,048 deltas; buffers:
/// two starts, then those of the child.
fn steps(data_type: &DataType) -> Image {
    let values = || (0..1500_i64).map(|i| i * 20 + i * i % 3);
    let array: ArrayRef = match data_type {
        DataType::UInt8 => Arc::new(UInt8Array::from_iter_values(values().map(|i| i as u8))),
        DataType::Int16 => Arc::new(Int16Array::from_iter_values(values().map(|i| i as i16))),
        DataType::UInt32 => Arc::new(UInt32Array::from_iter_values(values().map(|i| i as u32))),
        _ => Arc::new(Int64Array::from_iter_values(values())),
    };
    let options = Options::default().with_encodings([Encoding::Delta, Encoding::Ffor]);
    let image = Image::of(&array, &options);
    let nodes: Vec<u8> = image.tree().nodes.iter().map(|node| node.encoding).collect();
    assert_eq!(nodes, [8, 2]);
    image
}

const STEPS: [DataType; 4] = [DataType::UInt8, DataType::Int16, DataType::UInt32, DataType::Int64];

#[test]
fn delta_rejects_starts_of_another_length() {
    for data_type in STEPS {
        let changes: [fn(&mut Vec<u8>); 4] = [
            |starts| starts.push(0),
            |starts| starts.truncate(starts.len() - 1),
            |starts| starts.extend_from_within(..),
            Vec::clear,
        ];
        for change in changes {
            let mut image = steps(&data_type);
            image.change(|tree| change(&mut tree.buffers[0]));
            image.rejects("bytes of starts for 2 vectors");
        }
    }
}

#[test]
fn delta_rejects_deltas_of_another_type_or_length() {
    for data_type in STEPS {
        let signed = steps(&data_type).tree().nodes[1].physical;
        let changes: [fn(&mut Node); 6] = [
            |deltas| deltas.len = 1500,
            |deltas| deltas.len = 1024,
            |deltas| deltas.len = 3072,
            |deltas| deltas.len = u64::MAX,
            |deltas| deltas.physical += 4,
            |deltas| deltas.physical = if deltas.physical == 4 { 3 } else { 4 },
        ];
        for change in changes {
            let mut image = steps(&data_type);
            image.change(|tree| {
                // A constant may be of any length.
                let of = Node { encoding: 1, physical: signed, len: 2048, ..Node::default() };
                tree.nodes[1] = of;
                tree.buffers.truncate(1);
                change(&mut tree.nodes[1]);
            });
            image.rejects("deltas of type");
        }
    }
}

#[test]
fn delta_rejects_lengths_beyond_an_address() {
    // As a limb, whose length is compared after its own rules.
    for len in [u64::MAX, u64::MAX - 1023, 1 << 63, 1 << 32] {
        for deltas in [0, 2048, len] {
            let decimals = array_of(&DataType::Decimal128(38, 4), 1500, Shape::Narrow, Nulls::None);
            let mut image = Image::with(&decimals, Encoding::Limbs);
            image.change(|tree| {
                tree.nodes.truncate(1);
                tree.nodes[0].children = 1;
                let node = Node { encoding: 8, physical: 4, len, ..Node::default() };
                tree.nodes.push(Node { children: 1, buffers: 1, ..node });
                tree.nodes.push(Node { encoding: 1, physical: 4, len: deltas, ..Node::default() });
                tree.buffers = vec![vec![0; 16]];
            });
            image.error();
        }
    }
}

#[test]
fn delta_rejects_deltas_in_other_encodings() {
    let mut image = steps(&DataType::Int64);
    image.change(|tree| {
        let deltas = Node { encoding: 8, physical: 4, len: 2048, ..Node::default() };
        tree.nodes[1] = Node { children: 1, buffers: 1, ..deltas };
        tree.nodes.push(Node { encoding: 1, physical: 4, len: 2048, ..Node::default() });
        tree.buffers = vec![vec![0; 16], vec![0; 16]];
    });
    image.rejects("deltas encoded as delta, which is not allowed");
}

#[test]
fn delta_reads_plain_deltas() {
    let mut image = steps(&DataType::Int64);
    image.change(|tree| {
        let deltas = Node { encoding: 0, physical: 4, len: 2048, ..Node::default() };
        tree.nodes[1] = Node { buffers: 1, ..deltas };
        tree.buffers = vec![vec![0xff; 16], vec![0xff; 2048 * 8]];
    });
    let values = image.read().unwrap();
    let down = (0..1500).map(|row| -2 - row % 1024);
    assert_eq!(&values, &(Arc::new(Int64Array::from_iter_values(down)) as ArrayRef));
}

#[test]
fn delta_rejects_another_shape() {
    let mut image = steps(&DataType::Int64);
    image.change(|tree| tree.nodes[0].parameters[0] = 1);
    image.rejects("delta node with unused parameters");
    let mut image = steps(&DataType::Int64);
    image.change(|tree| {
        tree.nodes[0].children = 0;
        tree.nodes.truncate(1);
        tree.buffers.truncate(1);
    });
    image.rejects("delta node with 0 children");
}

#[test]
fn delta_rejects_what_is_no_integer() {
    for physical in [0, 9, 10, 11, 12, 13, 14] {
        let mut image = steps(&DataType::Int64);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
}
