//! Front coding: strings that begin as those before them.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{CompressedColumn, Effort, Encoding, Engine, Options, compress_array};

use super::cascades::all_encodings;
use super::common::image::Image;
use super::common::*;
use super::{assert_same, check, engines, packed, thinned};

fn options() -> Options {
    Options::default().with_encodings([
        Encoding::Front,
        Encoding::Fsst,
        Encoding::Dict,
        Encoding::Ffor,
    ])
}

/// Paths in order, some of which are those before, or all of them.
fn paths(rows: usize) -> Vec<Vec<u8>> {
    let path = |row: usize| match row / 200 % 5 {
        0 => format!("/usr/{:05}/{}", row / 3, row * row % 97),
        1 => "a name of many rows".repeat(1 + row / 700 % 3),
        2 => "é".repeat(row % 70) + ["", "ö", "ä"][row % 3],
        3 => format!("{}{row}", "long ".repeat(60)),
        _ => format!("/usr/share/{:03}", row / 2),
    };
    (0..rows).map(|row| path(row).into_bytes()).collect()
}

#[track_caller]
fn fronts(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    assert!(column.encoding().to_string().contains("front("), "{}", column.explain());
    column
}

/// Every kind of array, in chunks that end anywhere, with children of every kind.
#[test]
fn every_kind_of_strings() {
    let values = paths(3300);
    for engine in engines() {
        for data_type in [
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::BinaryView,
        ] {
            for nulls in [Nulls::None, Nulls::Random] {
                let array = strings(&data_type, &values, nulls);
                for options in [all_encodings(), options(), options().with_chunk_rows(1024)] {
                    fronts(&array, &options);
                    check(&engine, &array, &options);
                }
                let plain = Options::default().with_encodings([Encoding::Front]);
                check(&engine, &array.slice(0, 1200), &plain);
            }
        }
        let fixed: Vec<u8> = (0..2500).flat_map(|row| format!("{row:09}").into_bytes()).collect();
        let fixed: ArrayRef = Arc::new(FixedSizeBinaryArray::new(9, fixed.into(), None));
        fronts(&fixed, &options());
        check(&engine, &fixed, &options());
        for rows in [1, 2, 63, 64, 65, 1023, 1024, 1025] {
            check(&engine, &strings(&DataType::Utf8, &values[..rows], Nulls::None), &options());
        }
    }
}

/// Paths, each of them in a few rows.
fn looked_up(rows: usize) -> ArrayRef {
    let values = paths(900);
    let values: Vec<Vec<u8>> = (0..rows).map(|row| values[row * row * 7 % 899].clone()).collect();
    strings(&DataType::Utf8, &values, Nulls::Random)
}

#[test]
fn dictionaries_of_strings_in_order() {
    for engine in engines() {
        let column = fronts(&looked_up(5000), &options());
        assert!(column.encoding().to_string().starts_with("dict("), "{}", column.explain());
        check(&engine, &looked_up(5000), &options());
    }
}

#[test]
fn scans_and_kept_rows() {
    let in_order = strings(&DataType::Utf8, &paths(3300), Nulls::Random);
    let text = |row: usize| {
        let path = paths(row + 1).pop().unwrap();
        String::from_utf8(path).unwrap()
    };
    let some = || [text(7), text(450), text(2001), "é".to_owned(), "nowhere".to_owned()];
    let s = || col("price");
    let filters: Vec<Expr> = vec![
        s().eq(text(450).as_str()),
        !s().eq(text(450).as_str()),
        s().in_list(some()),
        !s().in_list(some()),
        s().like("/usr/%7%"),
        s().lt(text(2001).as_str()),
        s().is_null(),
        s().eq(text(7).as_str()).or(s().eq("")),
    ];
    for engine in engines() {
        for array in [&in_order, &looked_up(5000)] {
            for options in [options(), options().with_chunk_rows(2048)] {
                let packed = packed(&fronts(array, &options));
                let uploaded = engine.upload(&packed).unwrap();
                for filter in &filters {
                    let expected = Scan::new(&packed).filter(filter.clone());
                    let scan = Scan::on_device(&uploaded).filter(filter.clone());
                    let mask = expected.mask(&Engine::cpu()).unwrap();
                    assert!(scan.mask(&engine).unwrap() == mask, "{filter}");
                    let kept = expected.gather(&["price"], &Engine::cpu()).unwrap();
                    let found = scan.gather(&["price"], &engine).unwrap();
                    assert_same(found.column(0), kept.column(0), || filter.to_string());
                }
            }
        }
    }
}

/// Prefixes that the row before does not have, and in rows where there are none.
#[test]
fn prefixes_that_cannot_be_are_errors() {
    let texts = (0..1500).map(|row| format!("/item/{row:07}"));
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let intact = Image::with(&array, Encoding::Front);
    for engine in engines() {
        for (row, prefix) in [(1100, 14), (1100, u32::MAX), (64, 1), (0, 1), (1024, 5)] {
            let mut image = intact.clone();
            image.change(|tree| {
                assert_eq!(tree.buffers[1].len(), 6000, "plain prefixes");
                tree.set_word(1, row, prefix);
            });
            let packed = super::batch_of(image.field.clone(), image.storage());
            let expected = lanepack::decompress(&packed).unwrap_err().to_string();
            assert!(expected.contains("begins with"), "{row} {prefix}: {expected}");
            let uploaded = engine.upload(&packed).unwrap();
            let error = uploaded.decompress().unwrap_err().to_string();
            assert_eq!(error, expected, "{row} {prefix}");
            let literal = Literal::Arrow(array.slice(0, 1));
            let scan = Scan::on_device(&uploaded).filter(col("price").eq(literal));
            assert!(scan.mask(&engine).is_err(), "{row} {prefix}");
        }
    }
}

/// Checks that chunks become the trees that begin with these, and that their bytes are the CPU's.
#[track_caller]
fn check_trees(array: &ArrayRef, options: &Options, trees: &[&str]) {
    let explained = compress_array(array, options).unwrap().explain();
    for tree in trees {
        assert!(explained.contains(tree), "no {tree}: {explained}");
    }
    for engine in engines() {
        check(&engine, array, options);
    }
}

fn texts(texts: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

/// Prefixes in runs, of few values, and that grow.
#[test]
fn prefixes_of_every_encoding() {
    let small = Options::default().with_effort(Effort::Small);
    let customers = |row: usize| format!("Customer#{row:09}");
    check_trees(&texts((0..40_000).map(customers)), &small, &["front(rle("]);
    // Strings that leave one text at one of three places.
    let text = "lorem ipsum dolor sit amet, ".repeat(11);
    let few = |row: usize| {
        let letter = if row.is_multiple_of(2) { 'A' } else { 'B' };
        format!("{}{letter}{row:05}", &text[..[5, 40, 300][row * row % 7 % 3]])
    };
    check_trees(&texts((0..20_000).map(few)), &small, &["front(dict("]);
    let paths = |row: usize| format!("/usr/share/{:05}/{}", row / 9, row * 7919 % 100_000);
    check_trees(&texts((0..40_000).map(paths)), &small, &["front("]);
    let small = small.with_chunk_rows(4096);
    check_trees(&texts((0..12_289).map(paths)), &small, &["front(", "1 rows"]);
    // Of each block the values grow by a letter, so that prefixes do, too.
    let grows = |row: usize| format!("{}{}", "ab".repeat(row % 64), row * 7919 % 10);
    let few = Options::default().with_encodings([Encoding::Front, Encoding::Delta, Encoding::Ffor]);
    check_trees(&texts((0..9000).map(grows)), &few, &["front("]);
}

/// Suffixes that are one value, though strings differ: each is the one before and a letter.
#[test]
fn suffixes_of_one_value() {
    let value = |row: usize| "x".repeat(if row.is_multiple_of(64) { 1 } else { row % 64 + 1 });
    let few =
        Options::default().with_encodings([Encoding::Front, Encoding::Constant, Encoding::Ffor]);
    check_trees(&texts((0..3000).map(value)), &few, &["front(", "constant)"]);
    // All but the last.
    let last = |row: usize| if row == 2999 { "xy".to_owned() } else { value(row) };
    check_trees(&texts((0..3000).map(last)), &few, &["front("]);
    let long = |row: usize| "the same suffix".repeat(row % 64 + 1);
    check_trees(&texts((0..1500).map(long)), &few, &["front(", "constant)"]);
}

/// Chunks of one column that are front-coded beside others that are not, with symbol tables of
/// groups, of their own, and none.
#[test]
fn suffixes_with_tables_of_every_kind() {
    let text = |row: usize| match row / 2048 % 5 {
        0 => format!("/usr/share/doc/{:06}/copyright", row / 2),
        1 => format!("{:x}", (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        // What the group's table, trained on all, does badly.
        2 => format!("ÄÖÜß{:05}ÄÖÜß of {}", row / 3, "€".repeat(row % 3)),
        3 => format!("{}", row / 2 % 10),
        _ => format!("QWERTY{:07}ASDFGH{:07}", row / 7, row / 7 * 31),
    };
    let array = texts((0..20_480).map(text));
    for group_rows in [2048, 8192, 1 << 20] {
        let mut options = Options::default().with_effort(Effort::Small).with_chunk_rows(2048);
        options = options.with_group_rows(group_rows);
        check_trees(&array, &options, &["front("]);
        check_trees(&array, &options.clone().without(Encoding::Dict), &["front("]);
        check_trees(&array.slice(700, 9000), &options.clone().without(Encoding::Fsst), &["front("]);
    }
}

/// Nulls with bytes, at the first rows of blocks, and in most rows.
#[test]
fn nulls_among_front_coded_strings() {
    let all = StringArray::from_iter_values((0..9000).map(|row| format!("/a/path/{:06}", row / 3)));
    let (offsets, values, _) = all.into_parts();
    for is_valid in
        [|row: usize| !row.is_multiple_of(64), |row: usize| row % 64 > 5, |row| row % 700 > 2]
    {
        let nulls = NullBuffer::from_iter((0..9000).map(is_valid));
        let array = StringArray::new(offsets.clone(), values.clone(), Some(nulls));
        let array = Arc::new(array) as ArrayRef;
        for options in [options(), options().with_chunk_rows(2048)] {
            check_trees(&array, &options.clone().without(Encoding::Dict), &["front("]);
            check_trees(&array, &options, &[]);
        }
    }
}

/// Distinct strings that are front-coded, with tables of groups, of dictionaries' own, and none.
#[test]
fn dictionaries_that_are_front_coded() {
    let value = |row: usize| match row / 4096 {
        0 => format!("https://example.org/items/{:05}", row * 7919 % 700),
        1 => format!("{:04}", row * 7919 % 900),
        2 => format!("{}", row * 7919 % 3),
        _ => format!("the same name {:03} of a thing", row * 7919 % 400),
    };
    let array = texts((0..16_384).map(value));
    // Chunks with dictionaries behind one without, of which each has a table of its own.
    let behind = |row: usize| match row / 4096 {
        0 => format!("ÄÖÜß {:x} €", (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        1 => format!("https://example.org/items/{:05}", row * 7919 % 700),
        _ => format!("Les mêmes noms {:03} d'une chose", row * 7919 % 400),
    };
    let behind = texts((0..12_288).map(behind));
    for group_rows in [4096, 1 << 20] {
        let mut options = Options::default().with_effort(Effort::Small).with_chunk_rows(4096);
        options = options.with_group_rows(group_rows);
        check_trees(&array, &options, &["dict(", "front("]);
        check_trees(&array, &options.clone().without(Encoding::Fsst), &["dict(", "front("]);
        options = options.with_group_rows(group_rows);
        check_trees(&behind, &options, &["fsst(", "dict("]);
    }
}

/// More distinct strings than samples look at.
#[test]
fn dictionaries_of_many_front_coded_strings() {
    let words = ["apple tree", "banana", "cherry pie", "date palm", "elderberry", "fig"];
    let value = |row: usize| {
        let number = (row / 1024 * 170 + row % 170) * 7919 % 20_411;
        format!("{} of {number:05}", words[number / 4000 % 6])
    };
    let array = texts((0..122_880).map(value));
    check_trees(&array, &Options::default().with_effort(Effort::Small), &["dict(", "front("]);
}

/// Values that are too long for front coding, alone or all, and suffixes too long for constants.
#[test]
fn long_strings_are_front_coded_as_on_the_cpu() {
    let small = Options::default().with_effort(Effort::Small).without(Encoding::Lz);
    let long = "0123456789abcdef".repeat(2000);
    let one = |row: usize| match row {
        0 => "a".to_owned(),
        1..4 => long.clone(),
        _ => format!("/usr/share/{row:05}"),
    };
    check_trees(&texts((0..20).map(one)), &small, &[]);
    check_trees(&texts((0..2000).map(one)), &small, &["front("]);
    let all = |row: usize| format!("{}{row:05}", &long[..1200]);
    check_trees(&texts((0..200).map(all)), &small, &[]);
    let grows = |row: usize| long[..1100].repeat(row % 64 + 1);
    let rare = |row: usize| if row < 60 { grows(row) } else { String::new() };
    check_trees(&texts((0..4000).map(rare)), &small, &["front("]);
}

/// Suffixes of more bytes than a span has on the emulation, by one table.
#[test]
fn suffixes_of_many_spans() {
    let path = |row: usize| format!("/a/{:06}/{:030x}", row / 2, (row as u128 + 7).pow(6));
    let small = Options::default().with_effort(Effort::Small).with_chunk_rows(2048);
    check_trees(&texts((0..30_000).map(path)), &small, &["front("]);
}

/// Columns of strings that Effort::Small was made for.
#[test]
fn real_strings_of_small_effort() {
    let small = Options::default().with_effort(Effort::Small);
    for engine in engines() {
        let mut case = 0;
        for path in shared_files() {
            let batch = read_parquet(&path);
            let columns = batch.schema().fields().clone();
            for (field, array) in columns.iter().zip(batch.columns()) {
                if matches!(field.data_type(), DataType::Utf8 | DataType::Binary) {
                    let array = array.slice(0, array.len().min(6000));
                    if !thinned(&engine, case, 2) {
                        check(&engine, &array, &small);
                    }
                    if !thinned(&engine, case + 1, 2) {
                        check(&engine, &array, &small.clone().with_chunk_rows(2048));
                    }
                    case += 1;
                }
            }
        }
    }
}
