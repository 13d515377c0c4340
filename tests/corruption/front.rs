//! Rules of front coding. Nodes: front, prefixes, suffixes (plain), lengths of suffixes;
//! buffers: starts, prefixes, bytes of suffixes, their starts, their lengths.

use std::sync::Arc;

use arrow_array::*;
use lanepack::Encoding;

use super::damage::{Image, Read, Tree};

const PREFIXES: usize = 1;

/// Texts of 13 bytes, which share 9 to 12 with those before.
fn texts() -> Image {
    let texts = (0..1500).map(|row| format!("/item/{row:07}"));
    let image =
        Image::with(&(Arc::new(StringArray::from_iter_values(texts)) as ArrayRef), Encoding::Front);
    assert_eq!(image.tree().buffers[PREFIXES].len(), 6000);
    image
}

#[track_caller]
fn rejects(change: impl FnOnce(&mut Tree), what: &str) {
    let mut image = texts();
    image.change(change);
    image.rejects(what);
}

#[test]
fn prefixes_that_the_row_before_does_not_have_are_errors() {
    for prefix in [14, 1 << 20, u32::MAX] {
        rejects(|tree| tree.set_word(PREFIXES, 1100, prefix), "bytes of a row that has 13");
    }
}

#[test]
fn prefixes_in_the_first_row_of_a_block_are_errors() {
    for row in [0, 64, 1024, 1472] {
        rejects(|tree| tree.set_word(PREFIXES, row, 1), "begins with 1 bytes");
    }
}

#[test]
fn rows_that_do_not_add_up_are_errors() {
    // The last row has none behind it.
    rejects(|tree| tree.set_word(PREFIXES, 1499, 3), "add up");
    for change in [-1_i64, 1] {
        let mut image = texts();
        image.change(|tree| {
            let total = &mut tree.nodes[0].parameters[0];
            *total = total.checked_add_signed(change).unwrap();
        });
        assert!(image.error().contains("bytes") || image.error().contains("add up"));
    }
}

/// A few bytes must not make a reader allocate gigabytes.
#[test]
fn values_are_no_longer_than_1024_bytes_on_average() {
    for total in [1500 * 1024 + 1, 1 << 40, u64::MAX] {
        rejects(|tree| tree.nodes[0].parameters[0] = total, "are allowed");
    }
    rejects(|tree| tree.nodes[0].parameters[0] = 0, "bytes of suffixes");
}

#[test]
fn children_of_other_types_and_lengths_are_rejected() {
    rejects(|tree| tree.nodes[1].physical = 3, "prefixes of type I32");
    rejects(
        |tree| {
            tree.nodes[1].len = 1499;
            tree.buffers[PREFIXES].truncate(1499 * 4);
        },
        "1499 prefixes",
    );
}

#[test]
fn numbers_are_not_taken_apart() {
    for physical in [0, 4, 11, 14] {
        let mut image = texts();
        image.change(|tree| tree.nodes[0].physical = physical);
        assert!(image.read().is_err());
    }
}

/// What single values need of others is checked as well.
#[test]
fn single_values_of_damaged_rows_are_errors() {
    for prefix in [14, 5000, u32::MAX] {
        let mut image = texts();
        image.change(|tree| tree.set_word(PREFIXES, 100, prefix));
        assert!(image.open().unwrap().value(100).is_err());
    }
    let mut image = texts();
    image.change(|tree| tree.set_word(PREFIXES, 64, 2));
    for row in [64, 65, 100] {
        assert!(image.open().unwrap().value(row).is_err());
    }
}
