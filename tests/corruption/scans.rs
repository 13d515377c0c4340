//! Scans refuse what decompression refuses, with the same words.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_schema::Schema;
use lanepack::scan::{Scan, col, count, max};
use lanepack::{Encoding, Engine, Error, Options};

use super::common::bad::{Found, bad_input, great_quotients};
use super::damage::Image;

fn batch(image: &Image) -> RecordBatch {
    let schema = Schema::new(vec![image.field.clone()]);
    RecordBatch::try_new(schema.into(), vec![std::sync::Arc::new(image.storage())]).unwrap()
}

fn text<T>(name: &str, result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("{name}: read without an error"),
        Err(error @ Error::Corrupt { .. }) => error.to_string(),
        Err(error) => panic!("{name}: {error:?}"),
    }
}

#[test]
fn bad_input_is_one_error_for_decompression_filters_aggregates_and_gather() {
    let engine = Engine::cpu();
    for bad in bad_input() {
        let (name, packed) = (bad.name, batch(&bad.image));
        let expected = text(name, lanepack::decompress(&packed));
        assert!(expected.contains(bad.says), "{name}: {expected}");
        assert!(expected.starts_with("column \"price\", chunk 0: "), "{name}: {expected}");
        assert_eq!(bad.image.open().is_err(), bad.found == Found::Opening, "{name}");
        let scan = Scan::new(&packed);
        let filtered = scan.clone().filter(bad.filter);
        let found = [
            text(name, filtered.mask(&engine)),
            text(name, filtered.count(&engine)),
            text(name, filtered.rows(&engine)),
            text(name, filtered.aggregate(&[count(col("price"))], &engine)),
            text(name, filtered.gather(&["price"], &engine)),
            text(name, scan.aggregate(&[max(col("price"))], &engine)),
            text(name, scan.clone().group_by([]).aggregate(&[max(col("price"))], &engine)),
            text(name, scan.gather(&["price"], &engine)),
        ];
        for found in found {
            assert_eq!(found, expected, "{name}");
        }
        match scan.clone().group_by([col("price")]).aggregate(&[], &engine) {
            // Values of 128 bits and more have no groups.
            Err(Error::Expression { .. }) => {}
            groups => assert_eq!(text(name, groups), expected, "{name}"),
        }
    }
}

/// A column that has been scanned is checked again where the check has failed, and not where it
/// has not.
#[test]
fn codes_are_checked_by_the_first_scan_that_reads_them() {
    let engine = Engine::cpu();
    let is_read = |bad: &super::common::bad::Bad| bad.found == Found::Reading;
    for bad in bad_input().into_iter().filter(is_read) {
        let columns = [bad.image.open().unwrap()];
        let scan = Scan::of(&columns);
        // Statistics decide: nothing is read.
        assert_eq!(scan.clone().filter(col("price").is_null()).count(&engine).unwrap(), 0);
        for _ in 0..2 {
            text(bad.name, scan.clone().filter(bad.filter.clone()).mask(&engine));
        }
    }
}

/// Where no value of the dictionary passes, all codes are checked all the same.
#[test]
fn codes_are_checked_where_no_value_passes() {
    let engine = Engine::cpu();
    let mut count = 0;
    for bad in bad_input() {
        // Values are 0, 3, .., 18, or texts from "alpha" to "gamma".
        let filters = match bad.name {
            "the greatest code" => vec![col("price").eq(4), col("price").in_list([5, 7])],
            "codes of strings" => vec![col("price").eq("bb"), col("price").in_list(["c", "dd"])],
            _ => continue,
        };
        for filter in filters {
            let packed = batch(&bad.image);
            let expected = text(bad.name, lanepack::decompress(&packed));
            let found = text(bad.name, Scan::new(&packed).filter(filter).mask(&engine));
            assert_eq!(found, expected);
            count += 1;
        }
    }
    assert_eq!(count, 4);
}

/// Where all values of runs are decided together, the runs are checked all the same.
#[test]
fn runs_are_checked_where_their_values_are_decided() {
    let engine = Engine::cpu();
    let values = (0..100_000_i64).map(|row| row / 50 * 7919 % 997 * 1_000_000);
    let array: ArrayRef = std::sync::Arc::new(Int64Array::from_iter_values(values));
    let encodings = [Encoding::Rle, Encoding::Gcd, Encoding::Ffor];
    let options = Options::default().with_encodings(encodings);
    let mut image = Image::of(&array, &options);
    let encoding = lanepack::compress_array(&array, &options).unwrap().encoding().to_string();
    assert!(encoding.starts_with("rle(gcd("), "{encoding}");
    image.change(|tree| {
        // One run fewer of the first vector.
        let firsts = &mut tree.buffers[0];
        let second = u32::from_le_bytes(firsts[4..8].try_into().unwrap());
        firsts[4..8].copy_from_slice(&(second - 1).to_le_bytes());
    });
    let packed = batch(&image);
    let expected = text("runs", lanepack::decompress(&packed));
    for filter in [col("price").eq(1_500_000), col("price").lt(1_500_000), col("price").gt(1)] {
        assert_eq!(text("runs", Scan::new(&packed).filter(filter).mask(&engine)), expected);
    }
}

/// Products wrap when they are read; filters may take them for values that do not pass, and all
/// other rows for what they are.
#[test]
fn quotients_that_are_too_great_are_read_modulo_the_type() {
    let engine = Engine::cpu();
    for great in great_quotients() {
        let packed = batch(&great.image);
        let values = lanepack::decompress(&packed).unwrap().column(0).clone();
        let column = great.image.open().unwrap();
        for row in (0..values.len()).step_by(37) {
            let value = column.value(row).unwrap().into_inner();
            assert_eq!(value.as_ref(), values.slice(row, 1).as_ref(), "{}: {row}", great.name);
        }
        great.check(values.as_primitive::<Int64Type>(), |filter| {
            let filtered = Scan::new(&packed).filter(filter);
            let mask = filtered.mask(&engine).unwrap();
            let kept = filtered.gather(&["price"], &engine).unwrap();
            let expected = arrow_select::filter::filter(&values, &mask).unwrap();
            assert_eq!(kept.column(0), &expected, "{}", great.name);
            mask
        });
    }
}
