//! Joins with lookups and groups, compared with a loop over rows.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, record_batch};
use lanepack::scan::{Expr, Lookup, Scan, col, count_rows, lit, sum};
use lanepack::{Engine, Error, Options, compress};
use proptest::prelude::*;

use super::star::{asked, check, star, text};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn joins_and_groups_are_those_of_a_loop_over_rows(star in star(), asked in asked()) {
        check(&star, &asked, &Engine::cpu(), false)?;
    }
}

fn facts() -> RecordBatch {
    let batch = record_batch!(
        ("key", Int64, [Some(1), Some(2), None, Some(9), Some(2)]),
        ("value", Int64, [10, 20, 30, 40, i64::MAX])
    );
    compress(&batch.unwrap(), &Options::default()).unwrap()
}

fn message(result: Result<RecordBatch, Error>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn a_key_that_comes_twice_is_an_error_that_names_it() {
    let batch = record_batch!(("id", Int64, [7, 5, 7]), ("name", Utf8, ["a", "b", "c"])).unwrap();
    let error = Lookup::try_new(&batch, "id").unwrap_err();
    assert_eq!(
        error.to_string(),
        "key 7 of column \"id\" comes twice: rows of a lookup need unique keys"
    );
    // A slice has its own rows.
    assert_eq!(Lookup::try_new(&batch.slice(1, 2), "id").unwrap().len(), 2);
    // Nulls are no keys, so there may be several.
    let batch = record_batch!(("id", Int64, [Some(7), None, None])).unwrap();
    assert_eq!(Lookup::try_new(&batch, "id").unwrap().len(), 1);
}

#[test]
fn lookups_that_do_not_fit_are_errors() {
    let engine = Engine::cpu();
    let facts = facts();
    let scan = || Scan::new(&facts);
    let ids = record_batch!(("id", Int64, [1, 2]), ("value", Utf8, ["a", "b"])).unwrap();
    let named_alike = Lookup::try_new(&ids, "id").unwrap();
    let joined = scan().join(col("key"), &named_alike);
    assert!(message(joined.gather(&["key"], &engine)).contains("the name of another column"));
    // Rows alone need no names.
    assert_eq!(scan().semi_join(col("key"), &named_alike).count(&engine).unwrap(), 3);

    let floats = record_batch!(("id", Float64, [1.0, 2.0])).unwrap();
    let error = Lookup::try_new(&floats, "id").unwrap_err().to_string();
    assert!(error.contains("keys of type Float64"), "{error}");
    assert!(Lookup::try_new(&ids, "name").unwrap_err().to_string().contains("no column \"name\""));

    let days = Lookup::try_new(
        &RecordBatch::try_from_iter([(
            "day",
            std::sync::Arc::new(arrow_array::Date32Array::from(vec![1, 2])) as _,
        )])
        .unwrap(),
        "day",
    )
    .unwrap();
    let error = scan().semi_join(col("key"), &days).count(&engine).unwrap_err().to_string();
    assert!(error.contains("Int64") && error.contains("Date32"), "{error}");
    let error = scan().semi_join(col("key") + 1, &days).count(&engine).unwrap_err().to_string();
    assert!(error.contains("only columns are keys of joins"), "{error}");
}

#[test]
fn an_empty_lookup_has_no_keys() {
    let engine = Engine::cpu();
    let facts = facts();
    let empty =
        record_batch!(("id", Int64, [1, 2]), ("name", Utf8, ["a", "b"])).unwrap().slice(0, 0);
    let empty = Lookup::try_new(&empty, "id").unwrap();
    assert!(empty.is_empty());
    let scan = || Scan::new(&facts);
    assert_eq!(scan().join(col("key"), &empty).count(&engine).unwrap(), 0);
    assert_eq!(scan().anti_join(col("key"), &empty).count(&engine).unwrap(), 5);
    let left = scan().left_join(col("key"), &empty);
    assert_eq!(left.gather(&["name"], &engine).unwrap().column(0).null_count(), 5);
    let groups = left.group_by([col("name")]).aggregate(&[count_rows()], &engine).unwrap();
    assert_eq!(groups.num_rows(), 1);
    let none = scan().join(col("key"), &empty).group_by([col("name")]);
    assert_eq!(none.aggregate(&[count_rows()], &engine).unwrap().num_rows(), 0);
}

#[test]
fn unsigned_keys_above_the_range_match_nothing() {
    let engine = Engine::cpu();
    let facts = record_batch!(("key", UInt64, [1, u64::MAX, 3])).unwrap();
    let facts = compress(&facts, &Options::default()).unwrap();
    let positive = record_batch!(("id", Int64, [1, 3])).unwrap();
    let lookup = Lookup::try_new(&positive, "id").unwrap();
    assert_eq!(Scan::new(&facts).semi_join(col("key"), &lookup).count(&engine).unwrap(), 2);
    // -1 has the bits of the greatest unsigned number.
    let negative = Lookup::try_new(&record_batch!(("id", Int64, [-1])).unwrap(), "id").unwrap();
    assert!(Scan::new(&facts).semi_join(col("key"), &negative).count(&engine).is_err());
    let huge = record_batch!(("id", UInt64, [u64::MAX])).unwrap();
    assert!(Lookup::try_new(&huge, "id").is_err());
}

#[test]
fn sums_that_do_not_fit_and_groups_past_the_limit_are_errors() {
    let engine = Engine::cpu();
    let facts = facts();
    let by_key = Scan::new(&facts).group_by([col("key")]);
    let error = message(by_key.aggregate(&[sum(col("value"))], &engine));
    assert!(error.contains("9223372036854775827") && error.contains("Int64"), "{error}");
    let error = message(by_key.clone().with_group_limit(3).aggregate(&[count_rows()], &engine));
    assert!(error.contains("more than 3 groups"), "{error}");
    assert_eq!(
        by_key.with_group_limit(4).aggregate(&[count_rows()], &engine).unwrap().num_rows(),
        4
    );
}

#[test]
fn groups_come_in_the_order_that_was_asked_for() {
    let engine = Engine::cpu();
    let batch = record_batch!(
        ("shop", Utf8, [Some("b"), Some("a"), None, Some("a"), Some("c"), Some("b")]),
        ("price", Int64, [1, 5, 9, 2, 7, 6])
    );
    let packed = compress(&batch.unwrap(), &Options::default()).unwrap();
    let by_shop = || Scan::new(&packed).group_by([col("shop")]);
    let shops = |groups: RecordBatch| -> Vec<Option<String>> {
        (0..groups.num_rows()).map(|row| text(groups.column(0), row)).collect()
    };
    let some = |name: &str| Some(name.to_owned());
    let total = [sum(col("price")).named("total")];
    assert_eq!(
        shops(by_shop().aggregate(&total, &engine).unwrap()),
        [None, some("a"), some("b"), some("c")]
    );
    // Three shops have 7.
    let order = by_shop().order_by([("total", true)]);
    assert_eq!(
        shops(order.aggregate(&total, &engine).unwrap()),
        [None, some("a"), some("b"), some("c")]
    );
    let order = by_shop().order_by([("total", false), ("shop", true)]).limit(2);
    assert_eq!(shops(order.aggregate(&total, &engine).unwrap()), [some("c"), some("b")]);
    assert!(by_shop().limit(0).aggregate(&total, &engine).unwrap().num_rows() == 0);
    let error = message(by_shop().order_by([("sum", true)]).aggregate(&total, &engine));
    assert!(error.contains("no column \"sum\" among \"shop\", \"total\""), "{error}");
}

#[test]
fn groups_of_every_type_of_key_have_its_ends_and_null() {
    use arrow_array::*;
    use std::sync::Arc;
    let engine = Engine::cpu();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![None, Some(false), Some(true)])),
        Arc::new(Int8Array::from(vec![None, Some(i8::MIN), Some(0), Some(i8::MAX)])),
        Arc::new(UInt16Array::from(vec![None, Some(0), Some(u16::MAX)])),
        Arc::new(Int64Array::from(vec![None, Some(i64::MIN), Some(-1), Some(i64::MAX)])),
        Arc::new(UInt64Array::from(vec![None, Some(0), Some(u64::MAX)])),
        Arc::new(Float64Array::from(vec![
            None,
            Some(f64::NEG_INFINITY),
            Some(-0.0),
            Some(0.0),
            Some(f64::NAN),
        ])),
        Arc::new(Date32Array::from(vec![None, Some(i32::MIN), Some(i32::MAX)])),
        Arc::new(TimestampSecondArray::from(vec![None, Some(i64::MIN), Some(i64::MAX)])),
        Arc::new(Decimal32Array::from(vec![None, Some(-999_999_999), Some(999_999_999)])),
        Arc::new(Decimal64Array::from(vec![None, Some(-5), Some(5)])),
        Arc::new(StringArray::from(vec![None, Some(""), Some("a"), Some("b")])),
        Arc::new(StringViewArray::from(vec![None, Some(""), Some("longer than an inline view")])),
        Arc::new(BinaryArray::from(vec![None, Some(&b""[..]), Some(&b"\xff\xfe"[..])])),
        Arc::new(LargeStringArray::from(vec![None, Some(""), Some("a")])),
        Arc::new(BinaryViewArray::from(vec![None, Some(&b""[..]), Some(&[7; 40][..])])),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [None, Some([0_u8; 3]), Some([255; 3])].into_iter(),
                3,
            )
            .unwrap(),
        ),
    ];
    for array in arrays {
        // Each value in several rows, in another order.
        let rows: Vec<u32> =
            (0..3).flat_map(|_| (0..array.len() as u32).rev()).chain([0]).collect();
        let values = arrow_select::take::take(&array, &UInt32Array::from(rows), None).unwrap();
        let batch = RecordBatch::try_from_iter_with_nullable([("key", values, true)]).unwrap();
        let packed = compress(&batch, &Options::default()).unwrap();
        let groups = Scan::new(&packed).group_by([col("key")]);
        let groups = groups.aggregate(&[count_rows()], &engine).unwrap();
        assert_eq!(groups.column(0), &array, "{}", array.data_type());
        let counts = groups.column(1).as_primitive::<Int64Type>().values().to_vec();
        let expected: Vec<i64> = (0..array.len()).map(|row| 3 + i64::from(row == 0)).collect();
        assert_eq!(counts, expected, "{}", array.data_type());
    }
}

#[test]
fn tests_that_are_true_for_null_keep_rows_without_a_row_of_the_lookup() {
    let engine = Engine::cpu();
    let facts = facts();
    let ranks = record_batch!(("id", Int64, [1, 2]), ("rank", Int64, [Some(5), None])).unwrap();
    let ranks = Lookup::try_new(&ranks, "id").unwrap();
    let count = |filter: Expr| {
        Scan::new(&facts).left_join(col("key"), &ranks).filter(filter).count(&engine).unwrap()
    };
    let nothing = || col("rank").in_list(Vec::<i64>::new());
    assert_eq!(count(nothing()), 0);
    assert_eq!(count(!nothing()), 5);
    assert_eq!(count(nothing().is_null()), 0);
    // One is equal whatever the other is.
    assert_eq!(count(lit(7).in_list([col("rank"), lit(7)])), 5);
    assert_eq!(count(lit(5).in_list([col("rank"), lit(7)])), 1);
    assert_eq!(count(col("rank").is_null()), 4);
    assert_eq!(count(col("rank").not_eq(4)), 1);
}

#[test]
fn numbers_of_lookups_are_bounded_by_their_valid_values() {
    let engine = Engine::cpu();
    let facts = facts();
    let units = record_batch!(("id", Int64, [1, 2]), ("units", Int64, [Some(2), None])).unwrap();
    let units = Lookup::try_new(&units, "id").unwrap();
    let joined = Scan::new(&facts).join(col("key"), &units);
    let total = joined.aggregate(&[sum(col("value") / col("units"))], &engine).unwrap();
    assert_eq!(text(total.column(0), 0).as_deref(), Some("5"));
    let none = Scan::new(&facts).join(col("key"), &units).filter(col("units").is_null());
    let total = none.aggregate(&[sum(col("value") / col("units"))], &engine).unwrap();
    assert_eq!(text(total.column(0), 0), None);
}

#[test]
fn entries_of_64_bits_have_all_columns() {
    let rows = 1 << 16;
    let of = |column: i64| {
        std::sync::Arc::new(arrow_array::Int64Array::from_iter_values(
            (0..rows).map(move |row| row * 7 + column),
        )) as arrow_array::ArrayRef
    };
    let constant = std::sync::Arc::new(arrow_array::Int64Array::from(vec![9; rows as usize]));
    let mut columns: Vec<(String, arrow_array::ArrayRef)> =
        (0..5).map(|column| (format!("c{column}"), of(column))).collect();
    columns.push(("last".to_owned(), constant));
    let batch = RecordBatch::try_from_iter(columns.clone()).unwrap();
    let lookup = Lookup::try_new(&batch, "c0").unwrap();
    let engine = Engine::cpu();
    let facts = record_batch!(("key", Int64, [7 * 65_535, 7, 3])).unwrap();
    let facts = compress(&facts, &Options::default()).unwrap();
    let scan = Scan::new(&facts).join(col("key"), &lookup);
    let found = scan.gather(&["c1", "c2", "c3", "c4", "last"], &engine).unwrap();
    let first: Vec<_> = found.columns().iter().map(|array| text(array, 0).unwrap()).collect();
    assert_eq!(first, ["458746", "458747", "458748", "458749", "9"]);
    columns.push(("c5".to_owned(), of(5)));
    let error = Lookup::try_new(&RecordBatch::try_from_iter(columns).unwrap(), "c0").unwrap_err();
    assert!(error.to_string().contains("more than 64 bits"), "{error}");
}

#[test]
fn gathered_columns_of_lookups_count_for_the_memory_limit() {
    let engine = Engine::cpu().with_memory_limit(1 << 20);
    let long = "x".repeat(1 << 16);
    let texts = record_batch!(("id", Int64, [1, 2]), ("text", Utf8, [long.as_str(), ""])).unwrap();
    let texts = Lookup::try_new(&texts, "id").unwrap();
    let keys = std::sync::Arc::new(arrow_array::Int64Array::from(vec![1; 1000]));
    let facts = RecordBatch::try_from_iter([("key", keys as arrow_array::ArrayRef)]).unwrap();
    let facts = compress(&facts, &Options::default()).unwrap();
    let scan = Scan::new(&facts).join(col("key"), &texts);
    let error = scan.gather(&["text"], &engine).unwrap_err();
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    assert_eq!(scan.count(&engine).unwrap(), 1000);
}
