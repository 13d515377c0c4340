//! Rules of dictionaries. With plain children the buffers are, of numbers, codes and values;
//! of strings starts, codes, bytes of the values, starts of the values, lengths.

use std::sync::Arc;

use arrow_array::*;
use lanepack::Encoding;

use super::damage::{Image, Read};

const NUMBERS: i64 = 7;

fn numbers() -> Image {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(|i| i % NUMBERS)));
    checked(Image::with(&array, Encoding::Dict))
}

fn strings() -> Image {
    let words = ["alpha", "beta", "gamma ray", "delta"];
    let value = |row: usize| (row % 9 != 5).then(|| words[row % 4]);
    let array: ArrayRef = Arc::new(StringArray::from_iter((0..1500).map(value)));
    let image = checked(Image::with(&array, Encoding::Dict));
    assert_eq!(image.tree().nodes[0].children, 3, "validity, codes, values");
    image
}

fn checked(image: Image) -> Image {
    assert_eq!(image.tree().nodes[0].encoding, Encoding::Dict as u8);
    image
}

#[test]
fn codes_without_a_value_are_errors() {
    for code in [NUMBERS as u32, 1 << 20, u32::MAX] {
        let mut image = numbers();
        image.change(|tree| tree.set_word(0, 1100, code));
        image.rejects(&format!("code {code} of a dictionary of {NUMBERS} values"));
    }
    let mut image = strings();
    image.change(|tree| {
        let codes = tree.buffers.iter().position(|buffer| buffer.len() == 6000).unwrap();
        tree.set_word(codes, 3, 77);
    });
    image.rejects("code 77 of a dictionary of 5 values");
}

#[test]
fn dictionaries_of_no_value_or_more_than_rows_are_rejected() {
    for len in [0, 1501, u64::MAX] {
        let mut image = numbers();
        image.change(|tree| {
            tree.nodes[2].len = len;
            tree.buffers[1] = vec![0; if len > 2000 { 0 } else { len as usize * 8 }];
        });
        assert!(image.error().contains("values"), "{}", image.error());
    }
}

#[test]
fn children_of_other_types_and_lengths_are_rejected() {
    for (node, physical, what) in [(1, 3, "codes of type I32"), (2, 8, "a dictionary of type U64")]
    {
        let mut image = numbers();
        image.change(|tree| tree.nodes[node].physical = physical);
        image.rejects(what);
    }
    let mut image = numbers();
    image.change(|tree| {
        tree.nodes[1].len = 1499;
        tree.buffers[0].truncate(1499 * 4);
    });
    image.rejects("1499 codes");
}

#[test]
fn types_without_a_dictionary_are_rejected() {
    // Boolean, 128 and 256 bits, carried.
    for physical in [0, 11, 12, 14] {
        let mut image = numbers();
        image.change(|tree| tree.nodes[0].physical = physical);
        assert!(image.read().is_err());
    }
}

#[test]
fn totals_that_lengths_do_not_add_up_to_are_errors() {
    for (total, what) in
        [(0, "starts"), (1, "starts"), (1 << 40, "are allowed"), (u64::MAX, "are allowed")]
    {
        let mut image = strings();
        image.change(|tree| tree.nodes[0].parameters[0] = total);
        let error = image.error();
        assert!(error.contains(what) || error.contains("bytes"), "{total}: {error}");
    }
    // A little more or less: starts stay in order.
    for change in [-1_i64, 1] {
        let mut image = strings();
        image.change(|tree| {
            let total = &mut tree.nodes[0].parameters[0];
            *total = total.checked_add_signed(change).unwrap();
        });
        assert!(image.error().contains("bytes") || image.error().contains("add up"));
    }
}

#[test]
fn dictionaries_in_dictionaries_are_rejected() {
    for child in [1, 2] {
        let mut image = numbers();
        image.change(|tree| {
            // The child becomes a dictionary of its own values: codes and values behind it.
            let mut inner = tree.nodes[child].clone();
            let codes = super::damage::Node { len: inner.len, ..tree.nodes[1].clone() };
            let values = inner.clone();
            inner = super::damage::Node {
                encoding: Encoding::Dict as u8,
                children: 2,
                buffers: 0,
                ..inner
            };
            let buffer = tree.buffers[child - 1].clone();
            tree.nodes[child] = inner;
            tree.nodes.extend([codes.clone(), values]);
            let codes = vec![0; codes.len as usize * 4];
            let other = tree.buffers[2 - child].clone();
            tree.buffers = vec![other, codes, buffer];
        });
        image.rejects("a dictionary in a dictionary");
    }
}

/// Lengths are compared with each other before they are with those of the root.
#[test]
fn absurd_lengths_below_the_root_are_rejected() {
    for len in [1 << 54, 1 << 60, u64::MAX] {
        let mut image = strings();
        image.change(|tree| {
            for node in tree.nodes.iter_mut().skip(1) {
                node.len = len;
            }
        });
        assert!(image.read().is_err());
    }
}

/// A few bytes must not make a reader allocate gigabytes: a value of 64 KiB in every row.
#[test]
fn values_are_no_longer_than_constants_on_average() {
    let long = "x".repeat(60_000);
    let value = |row: usize| if row == 7 { long.as_str() } else { "ten bytes!" };
    let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..5000).map(value)));
    let mut image = checked(Image::with(&array, Encoding::Dict));
    image.change(|tree| {
        let codes = tree.buffers.iter().position(|buffer| buffer.len() == 20_000).unwrap();
        (0..5000).for_each(|row| tree.set_word(codes, row, 1));
        tree.nodes[0].parameters[0] = 5000 * 60_000;
    });
    image.rejects("are allowed");
}
