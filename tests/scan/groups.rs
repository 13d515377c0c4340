//! Filters of aggregates, distinct counts, parts of dates, computed keys of groups, and kept rows in an
//! order.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, Date32Array, Date64Array, Decimal128Array, Int64Array, RecordBatch,
    TimestampNanosecondArray, TimestampSecondArray, record_batch,
};
use lanepack::scan::{
    Aggregate, Expr, Literal, Scan, avg, col, count, count_distinct, count_rows, lit, max, min, sum,
};
use lanepack::{Engine, Error, Options, compress};

fn packed(batch: &RecordBatch) -> RecordBatch {
    compress(batch, &Options::default()).unwrap()
}

fn one_column(name: &str, values: ArrayRef) -> RecordBatch {
    packed(&RecordBatch::try_from_iter_with_nullable([(name, values, true)]).unwrap())
}

fn sales() -> RecordBatch {
    packed(
        &record_batch!(
            ("shop", Utf8, [Some("b"), Some("a"), None, Some("a"), Some("b"), Some("b")]),
            ("price", Int64, [Some(5), Some(7), Some(1), Some(7), None, Some(5)]),
            ("weight", Float64, [0.5, -0.0, 0.0, f64::NAN, f64::NAN, 0.5])
        )
        .unwrap(),
    )
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
}

fn message<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn distinct_values_are_those_that_are_not_null() {
    let (sales, engine) = (sales(), Engine::cpu());
    let asked = [
        count_distinct(col("price")),
        count_rows(),
        count_distinct(col("shop")).named("shops"),
        // The two zeros differ, NaN is one value.
        count_distinct(col("weight")),
        sum(col("price")),
        count_distinct(col("price") % 2).filter(col("shop").eq("a")),
    ];
    let all = Scan::new(&sales).aggregate(&asked, &engine).unwrap();
    let expected = record_batch!(
        ("count(DISTINCT price)", Int64, [3]),
        ("count(*)", Int64, [6]),
        ("shops", Int64, [2]),
        ("count(DISTINCT weight)", Int64, [4]),
        ("sum(price)", Int64, [25]),
        ("count(DISTINCT price % 2) FILTER (WHERE shop = \"a\")", Int64, [1])
    );
    assert_eq!(all.columns(), expected.as_ref().unwrap().columns());
    let names = |batch: &RecordBatch| -> Vec<String> {
        batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(names(&all), names(&expected.unwrap()));

    let by_shop = Scan::new(&sales).group_by([col("shop")]).aggregate(&asked, &engine).unwrap();
    assert_eq!(numbers(&by_shop, "count(DISTINCT price)"), [1, 1, 1].map(Some));
    assert_eq!(numbers(&by_shop, "count(*)"), [1, 2, 3].map(Some));
    assert_eq!(numbers(&by_shop, "shops"), [0, 1, 1].map(Some));
    assert_eq!(numbers(&by_shop, "count(DISTINCT weight)"), [1, 2, 2].map(Some));
    let filtered = by_shop.columns().last().unwrap().as_primitive::<Int64Type>();
    assert_eq!(filtered.values(), &[0, 1, 0]);

    let none = Scan::new(&sales).filter(col("price").gt(100)).aggregate(&asked, &engine).unwrap();
    assert_eq!(numbers(&none, "count(DISTINCT price)"), [Some(0)]);
    // Values count as groups.
    let few = Scan::new(&sales).group_by([]).with_group_limit(2);
    let error = message(few.aggregate(&[count_distinct(col("price"))], &engine));
    assert!(error.contains("more than 2 groups"), "{error}");
    let error = message(Scan::new(&sales).aggregate(&[count_distinct(lit(1))], &engine));
    assert!(error.contains("the same in all rows"), "{error}");
}

#[test]
fn filters_of_aggregates_keep_groups_without_rows() {
    let (sales, engine) = (sales(), Engine::cpu());
    let dear = || col("price").gt(5);
    let asked: Vec<Aggregate> = vec![
        count_rows().filter(dear()).named("rows"),
        sum(col("price")).filter(dear()).named("sum"),
        min(col("weight")).filter(dear()).filter(col("weight").lt(0.0)).named("least"),
        max(col("shop")).filter(dear()).named("last"),
        avg(col("price")).filter(lit(false)).named("none"),
        count(col("price")).filter(lit(true)).named("all"),
    ];
    let by_shop = Scan::new(&sales).group_by([col("shop")]).aggregate(&asked, &engine).unwrap();
    assert_eq!(numbers(&by_shop, "rows"), [0, 2, 0].map(Some));
    assert_eq!(numbers(&by_shop, "sum"), [None, Some(14), None]);
    assert_eq!(numbers(&by_shop, "all"), [1, 2, 2].map(Some));
    assert_eq!(by_shop.column_by_name("none").unwrap().null_count(), 3);
    let last = by_shop.column_by_name("last").unwrap().as_string::<i32>();
    assert_eq!(last.iter().collect::<Vec<_>>(), [None, Some("a"), None]);
    // -0.0 is less than 0.0.
    let least = by_shop.column_by_name("least").unwrap();
    assert_eq!(least.null_count(), 2);

    let all = Scan::new(&sales).aggregate(&asked, &engine).unwrap();
    assert_eq!(numbers(&all, "rows"), [Some(2)]);
    assert_eq!(numbers(&all, "all"), [Some(5)]);
    let wrong = [count_rows().filter(col("price"))];
    let error = message(Scan::new(&sales).aggregate(&wrong, &engine));
    assert!(error.contains("neither true nor false"), "{error}");
}

#[test]
fn years_of_all_types_are_compared_and_grouped() {
    // 1969-12-31, 1970-01-01, 1999-12-31, 2000-01-01, 2000-02-29, 2001-01-01, null.
    let days = [Some(-1), Some(0), Some(10_956), Some(10_957), Some(11_016), Some(11_323), None];
    let times = |unit: i64| -> Vec<Option<i64>> {
        // A moment before the next day.
        days.map(|day| day.map(|day: i64| (day + 1) * 86_400 * unit - 1)).to_vec()
    };
    let engine = Engine::cpu();
    let columns: [ArrayRef; 4] = [
        Arc::new(Date32Array::from_iter(days.map(|day| day.map(|day| day as i32)))),
        Arc::new(Date64Array::from(times(1000))),
        Arc::new(TimestampSecondArray::from(times(1)).with_timezone("UTC")),
        Arc::new(TimestampNanosecondArray::from(times(1_000_000_000))),
    ];
    for values in columns {
        let what = values.data_type().clone();
        let packed = one_column("day", values);
        let rows = |expr: Expr| {
            let rows = Scan::new(&packed).filter(expr).rows(&engine).unwrap();
            rows.values().to_vec()
        };
        assert_eq!(rows(col("day").year().eq(2000)), [3, 4], "{what}");
        assert_eq!(rows(col("day").year().not_eq(2000)), [0, 1, 2, 5], "{what}");
        assert_eq!(rows(col("day").year().lt(1970)), [0], "{what}");
        assert_eq!(rows(col("day").year().lt_eq(1970)), [0, 1], "{what}");
        assert_eq!(rows(col("day").year().gt(1999)), [3, 4, 5], "{what}");
        assert_eq!(rows(lit(2000).lt_eq(col("day").year())), [3, 4, 5], "{what}");
        assert_eq!(rows(col("day").year().in_list([1999, 2001])), [2, 5], "{what}");
        assert_eq!(rows(col("day").year().is_null()), [6], "{what}");
        assert_eq!(rows(!col("day").year().between(1970, 2000)), [0, 5], "{what}");
        // Years that no column of the type has.
        assert_eq!(rows(col("day").year().lt(1_000_000_000)), [0, 1, 2, 3, 4, 5], "{what}");
        for year in [i64::MIN, i64::MAX] {
            assert_eq!(rows(col("day").year().eq(year)), Vec::<u64>::new(), "{what}");
        }
        assert_eq!(rows(col("day").month().eq(12).and(col("day").day().eq(31))), [0, 2], "{what}");
        assert_eq!(rows((col("day").year() * 100 + col("day").month()).eq(200_002)), [4], "{what}");
        let years = Scan::new(&packed).group_by([col("day").year()]);
        let years = years.aggregate(&[count_rows()], &engine).unwrap();
        let expected = [None, Some(1969), Some(1970), Some(1999), Some(2000), Some(2001)];
        assert_eq!(numbers(&years, "year(day)"), expected, "{what}");
    }
}

#[test]
fn parts_of_what_has_no_date_are_errors() {
    let engine = Engine::cpu();
    let error = |packed: &RecordBatch, expr: Expr| {
        message(Scan::new(packed).filter(expr.eq(2000)).count(&engine))
    };
    let sales = sales();
    let wrong = error(&sales, col("price").year());
    assert!(wrong.contains("Int64") && wrong.contains("dates and timestamps"), "{wrong}");
    let wrong = error(&sales, (col("price") + 1).month());
    assert!(wrong.contains("only columns have a month"), "{wrong}");
    let zoned = TimestampSecondArray::from(vec![0]).with_timezone("+02:00");
    let wrong = error(&one_column("at", Arc::new(zoned)), col("at").day());
    assert!(wrong.contains("time zone \"+02:00\""), "{wrong}");
}

#[test]
fn keys_of_groups_may_be_computed_if_they_are_exact() {
    let engine = Engine::cpu();
    let prices = Decimal128Array::from(vec![Some(150), None, Some(-25), Some(150)]);
    let prices = Arc::new(prices.with_precision_and_scale(5, 2).unwrap());
    let packed = one_column("price", prices);
    let groups =
        |key: Expr| Scan::new(&packed).group_by([key]).aggregate(&[count_rows()], &engine).unwrap();
    let by_price = groups(col("price"));
    assert_eq!(by_price.schema().field(0).data_type(), &arrow_schema::DataType::Decimal128(5, 2));
    assert_eq!(numbers(&by_price, "count(*)"), [1, 1, 2].map(Some));
    let doubled = groups(col("price") * 2);
    let expected = Decimal128Array::from(vec![None, Some(-50), Some(300)]);
    assert_eq!(
        doubled.column(0).as_ref(),
        &expected.with_precision_and_scale(38, 2).unwrap() as &dyn arrow_array::Array
    );

    let sales = sales();
    let error =
        |key: Expr| message(Scan::new(&sales).group_by([key]).aggregate(&[count_rows()], &engine));
    let wrong = error(col("weight") * 2.0);
    assert!(wrong.contains("weight * 2.0: computed floats have no groups"), "{wrong}");
    let wrong = error(lit(3));
    assert!(wrong.contains("the same in all rows"), "{wrong}");
    let wrong = error(col("price") + Literal::Null);
    assert!(wrong.contains("null in every row"), "{wrong}");
    let wide = one_column("wide", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])));
    let wrong =
        message(Scan::new(&wide).group_by([col("wide") * 3]).aggregate(&[count_rows()], &engine));
    assert!(wrong.contains("more than 64 bits"), "{wrong}");
}

#[test]
fn rows_come_in_the_order_that_was_asked_for() {
    let (sales, engine) = (sales(), Engine::cpu());
    let scan = || Scan::new(&sales);
    let prices = |rows: RecordBatch| numbers(&rows, "price");
    let order = scan().order_by([("price", true), ("shop", false)]);
    let rows = order.gather(&["shop", "price"], &engine).unwrap();
    let expected = record_batch!(
        ("shop", Utf8, [Some("b"), Some("a"), Some("a"), Some("b"), Some("b"), None]),
        ("price", Int64, [None, Some(7), Some(7), Some(5), Some(5), Some(1)])
    );
    assert_eq!(rows.columns(), expected.unwrap().columns());
    let kept = scan().filter(col("price").gt(1)).order_by([("price", false)]);
    assert_eq!(
        prices(kept.clone().limit(3).gather(&["price"], &engine).unwrap()),
        [5, 5, 7].map(Some)
    );
    assert_eq!(prices(kept.clone().limit(0).gather(&["price"], &engine).unwrap()), []);
    assert_eq!(prices(kept.limit(9).gather(&["price"], &engine).unwrap()), [5, 5, 7, 7].map(Some));
    let first = scan().limit(2).gather(&["price"], &engine).unwrap();
    assert_eq!(prices(first), [5, 7].map(Some));
    let first = scan().filter(col("shop").eq("a")).limit(1).gather(&["price"], &engine).unwrap();
    assert_eq!(prices(first), [Some(7)]);
    // Rows without columns have a number.
    assert_eq!(scan().limit(2).gather::<&str>(&[], &engine).unwrap().num_rows(), 2);
    let order = scan().order_by([("price", false)]);
    assert_eq!(order.gather::<&str>(&[], &engine).unwrap().num_rows(), 6);
    assert_eq!(order.limit(4).gather::<&str>(&[], &engine).unwrap().num_rows(), 4);
    let unknown = scan().order_by([("size", true)]).limit(1).gather(&["price"], &engine);
    assert!(message(unknown).contains("no column \"size\""));
}
