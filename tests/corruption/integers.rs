//! Rules of the encodings of integers that are made of others or have exceptions: delta, pfor,
//! gcd.

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
            |deltas| deltas.len = 131_072,
            |deltas| deltas.physical += 4,
            |deltas| deltas.physical = if deltas.physical == 4 { 3 } else { 4 },
        ];
        for change in changes {
            let mut image = steps(&data_type);
            image.change(|tree| {
                // A constant may be of any length up to a chunk's.
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

/// 1,500 integers of which rows 3, 700 and 1400 are exceptions. Buffers: packed, vectors
/// (2 bases, 2 places, 2 locators), exceptions.
fn outliers(data_type: &DataType) -> Image {
    let value = |i: i64| if matches!(i, 3 | 700 | 1400) { 120 } else { i % 2 };
    let values = || (0..1500_i64).map(value);
    let array: ArrayRef = match data_type {
        DataType::UInt8 => Arc::new(UInt8Array::from_iter_values(values().map(|i| i as u8))),
        DataType::Int16 => Arc::new(Int16Array::from_iter_values(values().map(|i| i as i16))),
        DataType::UInt32 => Arc::new(UInt32Array::from_iter_values(values().map(|i| i as u32))),
        _ => Arc::new(Int64Array::from_iter_values(values())),
    };
    let image = Image::with(&array, Encoding::Pfor);
    assert_eq!(image.tree().nodes[0].parameters[0], 3);
    image
}

/// Bytes of a value.
fn size(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap()
}

/// Words of the vectors' buffer before the places.
fn places(data_type: &DataType) -> usize {
    (2 * size(data_type)).div_ceil(4)
}

/// Changes locators of a chunk with exceptions.
fn with_locators(data_type: &DataType, change: impl Fn(&mut [u32; 2])) -> Image {
    let mut image = outliers(data_type);
    let at = places(data_type) + 2;
    image.change(|tree| {
        let mut locators = [tree.word(1, at), tree.word(1, at + 1)];
        assert_eq!(locators.map(|locator| locator & 0x7ff), [2, 1]);
        change(&mut locators);
        tree.set_word(1, at, locators[0]);
        tree.set_word(1, at + 1, locators[1]);
    });
    image
}

#[test]
fn pfor_rejects_widths_above_the_type_and_places_that_do_not_follow() {
    for data_type in STEPS {
        let (at, bits) = (places(&data_type), 8 * size(&data_type) as u32);
        let mut image = outliers(&data_type);
        image.change(|tree| tree.set_word(1, at, (bits + 1) << 24));
        image.rejects(&format!("width {}, at most {bits} is allowed", bits + 1));
        let mut image = outliers(&data_type);
        image.change(|tree| tree.set_word(1, at + 1, 1 << 24));
        image.rejects("vector 1: packed data at unit 0, 1 expected");
        let mut image = outliers(&data_type);
        image.change(|tree| tree.buffers[0].extend([0; 128]));
        image.rejects("packed buffer of");
    }
}

#[test]
fn pfor_rejects_parameters_of_another_length() {
    for data_type in STEPS {
        let len = outliers(&data_type).tree().buffers[1].len();
        for other in (0..len).chain([len + 1, len + 4]) {
            let mut image = outliers(&data_type);
            image.change(|tree| tree.buffers[1].resize(other, 0));
            image.rejects("bytes of vector parameters");
        }
    }
}

#[test]
fn pfor_rejects_counts_of_exceptions_that_disagree() {
    for data_type in STEPS {
        for count in [0, 1, 2, 4, u64::MAX] {
            let mut image = outliers(&data_type);
            image.change(|tree| tree.nodes[0].parameters[0] = count);
            image.rejects("the vectors count 3");
        }
        with_locators(&data_type, |locators| locators[1] += 1).rejects("the vectors count 4");
    }
}

#[test]
fn pfor_rejects_a_chunk_without_exceptions() {
    for data_type in STEPS {
        let mut image = with_locators(&data_type, |locators| *locators = [0; 2]);
        image.change(|tree| {
            tree.nodes[0].parameters[0] = 0;
            tree.buffers[2].clear();
        });
        image.rejects("the vectors count 0, at least 1 is expected");
    }
}

#[test]
fn pfor_rejects_blocks_that_do_not_follow() {
    for data_type in STEPS {
        let with = |change: fn(&mut [u32; 2])| with_locators(&data_type, change);
        with(|locators| locators[1] += 1 << 11).rejects("vector 1: exceptions at unit");
        with(|locators| locators[1] &= 0x7ff).rejects("vector 1: exceptions at unit 0");
        with(|locators| locators[0] |= 0xffff_f800).rejects("vector 0: exceptions at unit");
        let mut image = with(|locators| locators[0] = 1 << 11);
        image.change(|tree| tree.nodes[0].parameters[0] = 1);
        image.rejects("vector 0 has an offset but no exceptions");
        for count in [1025, 2047] {
            let mut image = with_locators(&data_type, |locators| locators[0] = count);
            image.change(|tree| tree.nodes[0].parameters[0] = u64::from(count) + 1);
            image.rejects("exceptions in a vector of 1024 values");
        }
    }
}

#[test]
fn pfor_rejects_slots_out_of_order_or_past_the_vector() {
    for data_type in STEPS {
        let at = 2 * size(&data_type);
        let with = |slots: [u16; 2]| {
            let mut image = outliers(&data_type);
            image.change(|tree| {
                tree.buffers[2][at..at + 4].copy_from_slice(&slots.map(u16::to_le_bytes).concat());
            });
            image
        };
        with([3, 700]).read().unwrap();
        with([700, 700]).rejects("behind slot");
        with([700, 3]).rejects("behind slot");
        for slot in [1024, u16::MAX] {
            with([3, slot]).rejects(&format!("exception in slot {slot} of 1024"));
        }
    }
}

#[test]
fn pfor_rejects_blocks_cut_short_or_too_long() {
    for data_type in STEPS {
        let len = outliers(&data_type).tree().buffers[2].len();
        for other in (0..len).chain([len + 1, len + 8]) {
            let mut image = outliers(&data_type);
            image.change(|tree| tree.buffers[2].resize(other, 0));
            image.rejects("exceptions");
        }
    }
}

#[test]
fn pfor_rejects_what_is_no_integer() {
    for physical in [0, 9, 10, 11, 12, 13, 14] {
        let mut image = outliers(&DataType::Int64);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
}

/// 1,500 multiples of 60, from 7 on. Nodes: gcd, its quotients; buffers: those of the quotients.
fn divided(data_type: &DataType) -> Image {
    let values = || (0..1500_i64).map(|i| 7 + i * i % 400 * 60);
    let array: ArrayRef = match data_type {
        DataType::UInt32 => Arc::new(UInt32Array::from_iter_values(values().map(|i| i as u32))),
        _ => Arc::new(Int64Array::from_iter_values(values())),
    };
    let options = Options::default().with_encodings([Encoding::Gcd, Encoding::Ffor]);
    let image = Image::of(&array, &options);
    let tree = image.tree();
    let nodes: Vec<u8> = tree.nodes.iter().map(|node| node.encoding).collect();
    assert_eq!(nodes, [12, 2]);
    assert_eq!(tree.nodes[0].parameters, [60, 7]);
    image
}

#[test]
fn gcd_rejects_divisors_and_offsets_of_other_types() {
    for data_type in [DataType::UInt32, DataType::Int64] {
        for divisor in [0, 1] {
            let mut image = divided(&data_type);
            image.change(|tree| tree.nodes[0].parameters[0] = divisor);
            image.rejects("at least 2 is needed");
        }
    }
    let mut image = divided(&DataType::UInt32);
    image.change(|tree| tree.nodes[0].parameters[0] = 1 << 32);
    image.rejects("divisor 4294967296 of integers of 32 bits");
    let mut image = divided(&DataType::UInt32);
    image.change(|tree| tree.nodes[0].parameters[1] = 1 << 32);
    image.rejects("offset 4294967296 of integers of 32 bits");
}

#[test]
fn gcd_rejects_quotients_of_another_type_or_length() {
    for data_type in [DataType::UInt32, DataType::Int64] {
        let changes: [fn(&mut Node); 4] = [
            |quotients| quotients.len = 1499,
            |quotients| quotients.len = 2048,
            |quotients| quotients.physical -= 4,
            |quotients| quotients.physical = if quotients.physical == 8 { 7 } else { 8 },
        ];
        for change in changes {
            let mut image = divided(&data_type);
            image.change(|tree| change(&mut tree.nodes[1]));
            image.error();
        }
    }
}

#[test]
fn gcd_rejects_quotients_that_are_divided_or_repeated() {
    let mut image = divided(&DataType::Int64);
    image.change(|tree| {
        let inner = Node { physical: 8, ..tree.nodes[0].clone() };
        tree.nodes.insert(1, inner);
    });
    image.rejects("quotients encoded as gcd, which is not allowed");
    let mut image = divided(&DataType::Int64);
    image.change(|tree| {
        let inner = Node { encoding: 6, physical: 8, len: 1500, children: 2, ..Node::default() };
        let codes = Node { encoding: 1, physical: 7, len: 1500, ..Node::default() };
        let value = Node { encoding: 1, physical: 8, len: 1, ..Node::default() };
        tree.nodes = vec![tree.nodes[0].clone(), inner, codes, value];
        tree.buffers.clear();
    });
    image.rejects("quotients encoded as dict, which is not allowed");
}

#[test]
fn gcd_rejects_another_shape_and_what_is_no_integer() {
    let mut image = divided(&DataType::Int64);
    image.change(|tree| {
        tree.nodes[0].buffers = 1;
        tree.buffers.insert(0, vec![0; 8]);
    });
    image.rejects("gcd node with 1 children and 1 buffers");
    for physical in [0, 1, 2, 5, 6, 9, 10, 11, 12, 13, 14] {
        let mut image = divided(&DataType::Int64);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
}

/// Products wrap, on any engine.
#[test]
fn gcd_reads_quotients_that_are_too_great() {
    let mut image = divided(&DataType::Int64);
    image.change(|tree| {
        let plain = Node { encoding: 0, physical: 8, len: 1500, buffers: 1, ..Node::default() };
        tree.nodes[1] = plain;
        tree.buffers = vec![vec![0xff; 1500 * 8]];
    });
    let values = image.read().unwrap();
    let expected = Int64Array::from(vec![7 - 60; 1500]);
    assert_eq!(&values, &(Arc::new(expected) as ArrayRef));
}
