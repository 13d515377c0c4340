//! Dictionaries of strings that kernels write: distinct values of every shape, tables that overflow,
//! symbol tables of groups and of dictionaries' own.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use lanepack::{Encoding, Options, compress_array};

use super::{check, engines};

fn strings(texts: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

/// Checks that chunks become the trees that begin with these, and that their bytes are the CPU's.
fn check_trees(array: &ArrayRef, options: &Options, trees: &[&str]) {
    let column = compress_array(array, options).unwrap();
    let explained = column.explain();
    for tree in trees {
        assert!(explained.contains(tree), "no {tree}: {explained}");
    }
    for engine in engines() {
        check(&engine, array, options);
    }
}

/// Values that begin alike in their first 1,024 bytes and more, beside short ones.
#[test]
fn values_that_differ_at_their_end() {
    let head = "0123456789abcdef".repeat(68);
    let value = |row: usize| match row % 3 {
        0 => format!("{head}{:02}", row * 7919 % 8),
        1 => format!("{}", row % 30),
        _ => String::new(),
    };
    let few = Options::default().with_encodings([Encoding::Dict, Encoding::Ffor, Encoding::Pfor]);
    check_trees(&strings((0..3000).map(value)), &few, &["dict("]);
}

/// The order of values with zero bytes, of beginnings of others, and of those that all begin alike.
#[test]
fn values_in_order() {
    let endings =
        ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "\u{10ffff}", "z/long/path/of/a/file"];
    for common in ["", "x", "/usr/lib", "/usr/lib/", "https://example.org/a/path/"] {
        let value = |row: usize| format!("{common}{}", endings[row * 31 % endings.len()]);
        check_trees(&strings((0..2500).map(value)), &Options::default(), &["dict("]);
    }
}

/// Nulls have bytes, of other values than valid rows.
#[test]
fn bytes_under_nulls() {
    let texts = (0..4000).map(|row| format!("value {} of a column", row * 7919 % 50));
    let all = StringArray::from_iter_values(texts);
    let nulls = NullBuffer::from_iter((0..4000).map(|row| row * 7919 % 50 % 4 != 1));
    let (offsets, values, _) = all.into_parts();
    let array: ArrayRef = Arc::new(StringArray::new(offsets, values, Some(nulls)));
    check_trees(&array, &Options::default().with_chunk_rows(2048), &["dict("]);
    check_trees(&array.slice(5, 3000), &Options::default(), &["dict("]);
}

/// Of 32 vectors those that samples look at have few values, the others more than tables have slots.
#[test]
fn more_values_than_tables_hold() {
    let value = |row: usize| match row / 1024 % 2 {
        0 => format!("value {}", row * 7919 % 20),
        _ => format!("value {}", row * 7919),
    };
    for engine in engines() {
        check(&engine, &strings((0..32 * 1024).map(value)), &Options::default());
    }
}

/// Chunks of a group without a symbol table, whose values are mostly empty: their dictionaries have
/// tables of their own, more of them than are trained at a time; then chunks with the table of
/// their group, dictionaries without codes, and chunks that are no dictionaries.
#[test]
fn symbol_tables_of_groups_and_of_dictionaries() {
    let long = |chunk: usize, number: usize| {
        format!(
            "customer {number:04} of the market {chunk:02}, and of the other markets as well, too"
        )
    };
    let value = |row: usize| {
        let (chunk, row) = (row / 1024, row % 1024);
        match chunk {
            0..40 if row % 50 == 0 => long(chunk, row / 50),
            0..40 => String::new(),
            40..44 => long(chunk, row * 7919 % 90),
            44 => char::from(b'a' + (row * 7919 % 20) as u8).to_string(),
            45 => long(chunk, row * 7919 % 300),
            46 => format!("{}", row * 7919),
            _ => long(chunk, row * 31 % 5),
        }
    };
    let mut options = Options::default().with_chunk_rows(1024);
    options = options.with_group_rows(4096);
    let array = strings((0..48 * 1024).map(value));
    check_trees(&array, &options, &["dict(ffor, fsst(", "dict(ffor, plain(", "dict(pfor, fsst("]);
}

/// Dictionaries of several vectors beside those of a few values.
#[test]
fn dictionaries_of_other_sizes() {
    let value = |row: usize| {
        let distinct = if row / 16_384 == 1 { 2500 } else { 400 };
        format!("name {:05} of many that are long enough", row * row * 7919 % distinct)
    };
    let options = Options::default().with_chunk_rows(16_384);
    let array = strings((0..40_000).map(value));
    check_trees(&array, &options, &["dict("]);
    let explained = compress_array(&array, &options).unwrap().explain();
    assert!(explained.matches(", fsst(").count() >= 3, "{explained}");
    let few = Options::default().with_encodings([Encoding::Dict, Encoding::Ffor]);
    check_trees(&strings((0..40_000).map(value)), &few, &["dict("]);
}
