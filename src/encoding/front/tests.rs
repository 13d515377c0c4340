use std::sync::Arc;

use arrow_array::*;

use crate::scan::{Scan, col, max, min};
use crate::{CompressedColumn, Encoding, Engine, Options, compress, compress_array};

fn every() -> Options {
    Options::default().with_encodings(Encoding::ALL.iter().copied())
}

/// Compresses, and compares all values and some single ones.
#[track_caller]
fn check(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert_eq!(&column.decompress().unwrap(), array, "{}", column.explain());
    for row in (0..array.len()).step_by(37).chain([array.len() - 1]) {
        let value = column.value(row).unwrap().into_inner();
        assert_eq!(value.as_ref(), array.slice(row, 1).as_ref(), "row {row}");
    }
    column
}

fn paths(rows: usize) -> Vec<String> {
    (0..rows).map(|row| format!("/home/{}/{:04}/{}", row / 700, row / 9, row * row % 97)).collect()
}

fn front() -> Options {
    Options::default().with_encodings([Encoding::Front, Encoding::Fsst, Encoding::Ffor])
}

#[test]
fn strings_that_begin_as_those_before_are_taken_apart() {
    let texts = paths(5000);
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
    let column = check(&array, &every());
    assert!(
        column.encoding().to_string().starts_with("front("),
        "{}",
        column.encoding().to_string()
    );
    let size = |options: &Options| compress_array(&array, options).unwrap().compressed_bytes();
    assert!(size(&every()) * 10 < size(&every().without(Encoding::Front)) * 8);
}

#[test]
fn nulls_and_empty_strings_share_nothing() {
    let texts = paths(3000);
    for case in 0..5 {
        let value = |row: usize| match case {
            0 => (row != 0).then(|| texts[row].as_str()),
            1 => (row % 7 != 3).then(|| texts[row].as_str()),
            2 => (row > 1500).then(|| texts[row].as_str()),
            3 => Some(if row % 5 == 2 { "" } else { &texts[row] }),
            _ => (!(1024..2048).contains(&row)).then(|| texts[row].as_str()),
        };
        let array: ArrayRef = Arc::new(StringArray::from_iter((0..3000).map(value)));
        let column = check(&array, &front());
        assert!(
            column.encoding().to_string().starts_with("front("),
            "{case}: {}",
            column.encoding()
        );
        check(&(Arc::new(StringViewArray::from_iter((0..3000).map(value))) as ArrayRef), &front());
    }
}

/// Prefixes that end inside a character, as whole strings, and of hundreds of bytes.
#[test]
fn prefixes_of_any_length_come_back() {
    let value = |row: usize| match row / 100 % 4 {
        0 => format!("{}{}", "ä".repeat(row % 50), ["ä", "ö", "é", ""][row % 4]),
        1 => "the same".to_owned(),
        2 => "a".repeat(row % 150),
        _ => format!("{}{row}", "long prefix ".repeat(40)),
    };
    for rows in [1, 2, 63, 64, 65, 1023, 1024, 1025, 3000] {
        let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(value)));
        let column = check(&array, &front());
        assert!(
            rows < 1000 || column.encoding().to_string().starts_with("front("),
            "{}",
            column.encoding().to_string()
        );
    }
}

#[test]
fn dictionaries_of_strings_in_order_are_taken_apart() {
    let texts = paths(3000);
    let array: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..20_000).map(|row| &texts[row * row % 2999])));
    let column = check(&array, &every());
    assert!(
        column.encoding().to_string().contains(", front("),
        "{}",
        column.encoding().to_string()
    );
}

#[test]
fn scans_find_what_they_find_in_plain_strings() {
    let texts = paths(5000);
    let array = || Arc::new(StringArray::from_iter_values(&texts)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("s", array())]).unwrap();
    let packed = compress(&batch, &front()).unwrap();
    let plain = compress(&batch, &Options::default().with_encodings([Encoding::Plain])).unwrap();
    let some = [texts[77].clone(), texts[4001].clone(), "nowhere".to_owned(), "/".to_owned()];
    for filter in [
        col("s").eq(texts[1234].as_str()),
        !col("s").eq(texts[1234].as_str()),
        col("s").in_list(some.clone()),
        !col("s").in_list(some),
        col("s").starts_with("/home/3/"),
        col("s").like("%/02%5"),
        col("s").lt(texts[2222].as_str()),
        col("s").eq("/"),
    ] {
        let rows = |batch: &RecordBatch| {
            let scan = Scan::new(batch).filter(filter.clone());
            let rows = scan.rows(&Engine::cpu()).unwrap();
            let ends = scan.aggregate(&[min(col("s")), max(col("s"))], &Engine::cpu()).unwrap();
            (rows, ends)
        };
        assert_eq!(rows(&packed), rows(&plain));
    }
}
