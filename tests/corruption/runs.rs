//! Rules of runs. With plain children the nodes are the runs, their values and their lengths;
//! the buffers the first runs of vectors, the values and the lengths.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::Encoding;

use super::common::{Nulls, Shape, array_of};
use super::damage::{Image, Node, Read, Tree};

const TYPES: [DataType; 5] =
    [DataType::UInt8, DataType::Int16, DataType::Float32, DataType::UInt32, DataType::Int64];

/// 1,500 values in runs of 50 and, cut at the second vector, of 26 and 24: 21 and 10 runs.
fn runs(data_type: &DataType) -> Image {
    let values = || (0..1500_i64).map(|row| row / 50);
    let array: ArrayRef = match data_type {
        DataType::UInt8 => Arc::new(UInt8Array::from_iter_values(values().map(|i| i as u8))),
        DataType::Int16 => Arc::new(Int16Array::from_iter_values(values().map(|i| i as i16))),
        DataType::UInt32 => Arc::new(UInt32Array::from_iter_values(values().map(|i| i as u32))),
        DataType::Float32 => Arc::new(Float32Array::from_iter_values(values().map(|i| i as f32))),
        _ => Arc::new(Int64Array::from_iter_values(values())),
    };
    let image = Image::with(&array, Encoding::Rle);
    let tree = image.tree();
    let nodes: Vec<(u8, u64)> = tree.nodes.iter().map(|node| (node.encoding, node.len)).collect();
    assert_eq!(nodes, [(7, 1500), (0, 31), (0, 31)]);
    assert_eq!([tree.word(0, 0), tree.word(0, 1)], [0, 21]);
    image
}

fn with(data_type: &DataType, change: impl FnOnce(&mut Tree)) -> Image {
    let mut image = runs(data_type);
    image.change(change);
    image
}

/// With constants as children, of which there may be any number, and these first runs.
fn constants(count: u64, first: [u32; 2]) -> Image {
    with(&DataType::Int64, |tree| {
        for node in &mut tree.nodes[1..] {
            *node = Node { encoding: 1, len: count, buffers: 0, ..node.clone() };
        }
        tree.buffers.truncate(1);
        (0..2).for_each(|vector| tree.set_word(0, vector, first[vector]));
    })
}

#[test]
fn first_runs_of_another_number_of_vectors_are_rejected() {
    for data_type in TYPES {
        for len in [0, 4, 12, 16] {
            let image = with(&data_type, |tree| tree.buffers[0].resize(len, 0));
            image.rejects(&format!("first runs of {} vectors, 2 expected", len / 4));
        }
        for len in [1, 7, 9] {
            with(&data_type, |tree| tree.buffers[0].resize(len, 0)).rejects("4-byte words");
        }
    }
}

#[test]
fn vectors_without_runs_or_with_more_than_values_are_rejected() {
    for data_type in TYPES {
        let first =
            |vector: usize, run: u32| with(&data_type, |tree| tree.set_word(0, vector, run));
        first(0, 1).rejects("the first vector begins with run 1, 0 expected");
        first(0, u32::MAX).rejects("0 expected");
        first(1, 0).rejects("vector 0 of 1024 values has runs 0..0");
        first(1, 31).rejects("vector 1 of 476 values has runs 31..31");
        first(1, 32).rejects("vector 1 of 476 values has runs 32..31");
        first(1, u32::MAX).rejects("vector 0 of 1024 values has runs");
    }
    constants(2, [0, 1]).rejects("of 1024");
    constants(1500, [0, 1025]).rejects("vector 0 of 1024 values has runs 0..1025");
    constants(1500, [0, 1023]).rejects("vector 1 of 476 values has runs 1023..1500");
    constants(1499, [0, 1024]).rejects("the runs of vector 0");
}

#[test]
fn runs_of_another_number_or_type_are_rejected() {
    for count in [0, 1501] {
        constants(count, [0, 21]).rejects(&format!("{count} runs of 1500 values"));
    }
    // More than a node may have.
    for count in [1 << 32, u64::MAX] {
        constants(count, [0, 21]).rejects(&format!("a constant node of {count} values"));
    }
    for count in [0, 30, 32] {
        let mut image = constants(31, [0, 21]);
        image.change(|tree| tree.nodes[2].len = count);
        image.rejects(&format!("{count} lengths of type U16 for 31 runs"));
    }
    for (physical, what) in [(2, "I16"), (5, "U8"), (7, "U32"), (8, "U64")] {
        let mut image = constants(31, [0, 21]);
        image.change(|tree| tree.nodes[2].physical = physical);
        image.rejects(&format!("31 lengths of type {what}"));
    }
    for (physical, what) in [(0, "Bool"), (3, "I32"), (8, "U64"), (10, "F64")] {
        let mut image = constants(31, [0, 21]);
        image.change(|tree| tree.nodes[1].physical = physical);
        image.rejects(&format!("runs of type {what} of values of type I64"));
    }
}

/// Lengths may be packed: they are looked at when they are used.
#[test]
fn lengths_that_do_not_add_up_are_errors() {
    let lengths = |data_type: &DataType, changes: &[(usize, u16)]| {
        with(data_type, |tree| {
            for (run, length) in changes {
                tree.buffers[2][run * 2..][..2].copy_from_slice(&length.to_le_bytes());
            }
        })
    };
    for data_type in TYPES {
        lengths(&data_type, &[(5, 51), (6, 49)]).read().unwrap();
        lengths(&data_type, &[(5, 51)])
            .rejects("the runs of vector 0 have 1025 values, 24 at least, of 1024");
        lengths(&data_type, &[(5, 100), (6, 0)])
            .rejects("the runs of vector 0 have 1024 values, 0 at least, of 1024");
        lengths(&data_type, &[(20, 23), (21, 27)]).rejects("have 1023 values, 23 at least");
        lengths(&data_type, &[(21, 27)]).rejects("the runs of vector 1 have 477 values");
        lengths(&data_type, &[(30, u16::MAX)]).rejects("the runs of vector 1");
        lengths(&data_type, &[(0, 0)]).rejects("have 974 values, 0 at least");
    }
    constants(31, [0, 21]).rejects("the runs of vector 0");
}

/// 1,500 values in runs of 2, marked by bits: the buffers are first runs, bits and values.
#[test]
fn bits_that_are_not_those_of_runs_are_errors() {
    let pairs: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500_i64).map(|row| row / 2)));
    let with = |change: &dyn Fn(&mut Tree)| {
        let mut image = Image::with(&pairs, Encoding::Rle);
        let tree = image.tree();
        assert_eq!((tree.nodes.len(), tree.buffers[1].len()), (2, 188));
        image.change(change);
        image
    };
    with(&|_| {}).read().unwrap();
    // Bits behind the last value.
    with(&|tree| tree.buffers[1][187] |= 0xf0).read().unwrap();
    with(&|tree| tree.buffers[1][0] = 0b0101_0011).read().unwrap();
    with(&|tree| tree.buffers[1][0] = 0b0101_0110).rejects("512 runs of vector 0 begin, 512");
    with(&|tree| tree.buffers[1][0] = 0b0101_0111).rejects("513 runs of vector 0 begin, 512");
    with(&|tree| tree.buffers[1][128] = 0).rejects("234 runs of vector 1 begin, 238");
    with(&|tree| tree.buffers[1][187] = 0).rejects("236 runs of vector 1 begin, 238");
    for len in [0, 187, 189, 192] {
        with(&|tree| tree.buffers[1].resize(len, 0))
            .rejects(&format!("{len} bytes of bits where runs begin, 188 expected"));
    }
}

#[test]
fn runs_of_runs_are_rejected() {
    let inner = Node { encoding: 7, children: 2, buffers: 1, len: 2, ..Node::default() };
    let constant = |physical: u8, len: u64| Node { encoding: 1, physical, len, ..Node::default() };
    let of = |physical: u8| Node { physical, ..inner.clone() };
    let zero = vec![0; 4];
    // As values, as lengths, and as the codes of values that a dictionary has.
    let mut image = constants(2, [0, 1]);
    image.change(|tree| {
        tree.nodes[1] = of(4);
        tree.nodes.extend([constant(4, 1), constant(6, 1)]);
        tree.buffers.push(zero.clone());
    });
    image.rejects("runs of runs");
    let mut image = constants(2, [0, 1]);
    image.change(|tree| {
        tree.nodes[2] = of(6);
        tree.nodes.extend([constant(6, 1), constant(6, 1)]);
        tree.buffers.push(zero.clone());
    });
    image.rejects("lengths encoded as rle, which is not allowed");
    let mut image = constants(2, [0, 1]);
    image.change(|tree| {
        tree.nodes[1] = Node { encoding: 6, children: 2, ..constant(4, 2) };
        tree.nodes.extend([of(7), constant(4, 1), constant(7, 1), constant(6, 1)]);
        tree.buffers.push(zero);
    });
    image.rejects("runs of runs");
}

#[test]
fn another_shape_is_rejected() {
    for parameter in [0, 1] {
        with(&DataType::Int64, |tree| tree.nodes[0].parameters[parameter] = 1)
            .rejects("rle node with unused parameters");
    }
    let image = with(&DataType::Int64, |tree| {
        tree.nodes[0].children = 1;
        tree.nodes.truncate(2);
        tree.buffers.truncate(2);
    });
    image.rejects("rle node with 1 children and 1 buffers, 1 and 2 expected");
    let image = with(&DataType::Int64, |tree| tree.nodes[2].encoding = 8);
    image.error();
    let image = with(&DataType::Int64, |tree| {
        tree.nodes[0].buffers = 0;
        tree.buffers.remove(0);
    });
    image.rejects("rle node with 2 children and 0 buffers");
}

#[test]
fn types_without_runs_are_rejected() {
    // Boolean, 128 and 256 bits, byte strings, carried.
    for physical in [0, 11, 12, 13, 14] {
        with(&DataType::Int64, |tree| tree.nodes[0].physical = physical).error();
    }
}

#[test]
fn lengths_beyond_an_address_are_rejected() {
    // As a limb, whose length is compared after its own rules.
    for len in [u64::MAX, u64::MAX - 1023, 1 << 63, 1 << 32] {
        for count in [0, 1, 2, len] {
            let decimals = array_of(&DataType::Decimal128(38, 4), 1500, Shape::Narrow, Nulls::None);
            let mut image = Image::with(&decimals, Encoding::Limbs);
            image.change(|tree| {
                tree.nodes.truncate(1);
                tree.nodes[0].children = 1;
                let node = Node { encoding: 7, physical: 4, len, ..Node::default() };
                tree.nodes.push(Node { children: 2, buffers: 1, ..node });
                let child = Node { encoding: 1, len: count, ..Node::default() };
                tree.nodes.push(Node { physical: 4, ..child.clone() });
                tree.nodes.push(Node { physical: 6, ..child });
                tree.buffers = vec![vec![0; 8]];
            });
            image.error();
        }
    }
}
