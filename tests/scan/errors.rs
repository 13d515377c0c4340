//! Expressions that do not fit, and data that are damaged: errors that say so.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use lanepack::scan::{Expr, Literal, Scan, col, lit, max, sum};
use lanepack::{Engine, Error, Options, compress};

fn batch() -> RecordBatch {
    let list = ListArray::from_iter_primitive::<types::Int32Type, _, _>([
        Some(vec![Some(1)]),
        None,
        Some(vec![]),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("tiny", Arc::new(UInt8Array::from(vec![1, 2, 3]))),
        ("wide", Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX]))),
        ("price", Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5]))),
        ("half", Arc::new(Float32Array::from(vec![0.5, 1.5, 2.5]))),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        ("raw", Arc::new(BinaryArray::from_vec(vec![b"a", b"b", b"c"]))),
        ("flag", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("day", Arc::new(Date32Array::from(vec![1, 2, 3]))),
        ("list", Arc::new(list)),
        (
            "money",
            Arc::new(Decimal64Array::from(vec![1, 2, 3]).with_precision_and_scale(6, 2).unwrap()),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn error(expr: Expr) -> String {
    let packed = compress(&batch(), &Options::default()).unwrap();
    match Scan::new(&packed).filter(expr).mask(&Engine::cpu()) {
        Err(error @ Error::Expression { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn says_what_does_not_fit() {
    let second = Scalar::new(Arc::new(TimestampSecondArray::from(vec![5])) as ArrayRef);
    for (expr, part) in [
        (col("nmae").eq("a"), r#"no column "nmae" among "tiny", "wide""#),
        (col("tiny").eq(300), "300 does not fit UInt8"),
        (col("tiny").eq(-1), "-1 does not fit UInt8"),
        (col("wide").lt(i128::from(i64::MAX) + 1), "does not fit Int64"),
        (col("tiny").eq("a"), r#"the literal "a" is a text, the column is UInt8"#),
        (
            col("tiny").eq(1.5),
            "1.5 does not fit UInt8, whose values are the integers from 0 to 255",
        ),
        (col("day").eq(1.5), "1.5 is a float"),
        (
            col("money").eq(0.055),
            "0.055 does not fit Decimal64(6, 2), whose values have up to 6 digits, 2 behind the point",
        ),
        (col("money").eq(f64::NAN), "does not fit Decimal64(6, 2)"),
        (col("money").eq(1e300), "does not fit Decimal64(6, 2)"),
        (col("name").eq(5), "5 is an integer"),
        (col("name").eq(lit(b"a".as_slice())), "is binary"),
        (col("price").eq((1_i64 << 53) + 1), "does not fit Float64"),
        (col("half").eq(1e300), "does not fit Float32"),
        (col("money").eq(lit(Literal::decimal(12345, 3))), "does not fit Decimal64(6, 2)"),
        (col("money").eq(10_000_000), "does not fit Decimal64(6, 2)"),
        (col("day").eq(lit(second)), "does not fit Date32, whose values are whole days"),
        (col("tiny").contains("a"), "has no text to test"),
        (col("raw").like(b"a".as_slice()), "has no text to test"),
        (col("name").like("a\\"), "backslash"),
        (col("list").eq(5), "an integer, the column is List"),
        (col("list").eq(None::<i64>), "cannot be compared"),
        (col("price"), "`price` is neither true nor false"),
        (col("price") + 1, "`price + 1` is neither true nor false"),
        (col("flag").and(lit(5)), "`5` is neither true nor false"),
        ((col("name") + 1).gt(5), "cannot be computed with"),
        ((col("day") + 1).gt(5), "cannot be computed with"),
        (col("name").eq(col("raw")), "cannot be computed with"),
        ((col("price") + col("half")).gt(5.0), "Float64 and Float32"),
        ((col("price") + col("tiny")).gt(5.0), "Float64 and integers"),
        ((col("money") / 3).gt(5), "decimals are not divided"),
        ((col("price") % 3.0).gt(5.0), "no remainder"),
        ((lit(7) / col("wide")).gt(5), "the divisor could be zero"),
        ((col("wide") * col("wide") * col("wide")).gt(5), "could pass 128 bits"),
        (col("flag").eq(col("flag")), "cannot be computed with"),
    ] {
        let text = error(expr.clone());
        assert!(text.contains(part), "{expr}: {text}");
    }
}

#[test]
fn two_columns_of_one_name_are_no_column_to_scan() {
    let schema = Schema::new(vec![
        Field::new("x", DataType::Int32, false),
        Field::new("x", DataType::Int32, false),
    ]);
    let values = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let batch = RecordBatch::try_new(Arc::new(schema), vec![values(), values()]).unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let error = Scan::new(&packed).filter(col("x").eq(1)).count(&Engine::cpu()).unwrap_err();
    assert!(error.to_string().contains("more than one"), "{error}");
}

#[test]
fn sums_that_do_not_fit_are_errors() {
    let packed = compress(&batch(), &Options::default()).unwrap();
    let scan = Scan::new(&packed).filter(col("wide").gt(0));
    let twice = sum(col("wide") + col("wide"));
    let error = scan.aggregate(&[twice], &Engine::cpu()).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let error = scan.aggregate(&[max(col("list"))], &Engine::cpu()).unwrap_err();
    assert!(error.to_string().contains("no order"), "{error}");
}

#[test]
fn times_of_one_type_are_compared_with_each_other() {
    let days = |days: Vec<i32>| Arc::new(Date32Array::from(days)) as ArrayRef;
    let seconds = Arc::new(TimestampSecondArray::from(vec![1, 2, 3])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("a", days(vec![1, 5, 3])),
        ("b", days(vec![2, 4, 3])),
        ("t", seconds),
    ])
    .unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let scan = Scan::new(&packed);
    let rows = scan.clone().filter(col("a").lt(col("b"))).rows(&Engine::cpu()).unwrap();
    assert_eq!(rows.values(), &[0]);
    let mixed = scan.filter(col("a").lt(col("t"))).rows(&Engine::cpu());
    assert!(matches!(mixed, Err(Error::Expression { .. })));
    assert_eq!(batch.column(2).data_type(), &DataType::Timestamp(TimeUnit::Second, None));
}

#[test]
fn carried_columns_are_tested_for_null_and_gathered() {
    let packed = compress(&batch(), &Options::default()).unwrap();
    let scan = Scan::new(&packed).filter(col("list").is_not_null());
    assert_eq!(scan.rows(&Engine::cpu()).unwrap().values(), &[0, 2]);
    let gathered = scan.gather(&["list", "tiny"], &Engine::cpu()).unwrap();
    assert_eq!(gathered.num_rows(), 2);
    assert_eq!(gathered.column(0).len(), 2);
    assert_eq!(scan.gather::<&str>(&[], &Engine::cpu()).unwrap().num_rows(), 2);
}

#[test]
fn batches_without_columns_or_rows_are_scanned() {
    let empty = RecordBatch::try_from_iter([(
        "x",
        Arc::new(Int32Array::from(Vec::<i32>::new())) as ArrayRef,
    )])
    .unwrap();
    let packed = compress(&empty, &Options::default()).unwrap();
    let scan = Scan::new(&packed).filter(col("x").gt(1));
    assert_eq!(scan.mask(&Engine::cpu()).unwrap().len(), 0);
    assert_eq!(scan.gather(&["x"], &Engine::cpu()).unwrap().num_rows(), 0);
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let bare =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let packed = compress(&bare, &Options::default()).unwrap();
    assert_eq!(Scan::new(&packed).count(&Engine::cpu()).unwrap(), 7);
    let none = Scan::new(&packed).filter(lit(false));
    assert_eq!(none.mask(&Engine::cpu()).unwrap().true_count(), 0);
}

/// Literals are converted to the column's type where it has exactly their value.
#[test]
fn literals_of_other_types_are_converted() {
    let money = |values: [i64; 3]| {
        let array = Decimal64Array::from(values.to_vec()).with_precision_and_scale(6, 2).unwrap();
        Arc::new(array) as ArrayRef
    };
    let wide = Decimal128Array::from(vec![5_000_000, 50_000_000, 7]);
    let wide = Arc::new(wide.with_precision_and_scale(30, 6).unwrap()) as ArrayRef;
    let millis = Arc::new(TimestampMillisecondArray::from(vec![1000, 5000, 5001])) as ArrayRef;
    let zoned = TimestampMicrosecondArray::from(vec![1_000_000, 5_000_000, 5_000_001]);
    let zoned = Arc::new(zoned.with_timezone("UTC")) as ArrayRef;
    let longs = Arc::new(Int64Array::from(vec![1, 5, 7])) as ArrayRef;
    let floats = Arc::new(Float64Array::from(vec![0.5, 5.0, 0.1])) as ArrayRef;
    type Half = <types::Float16Type as ArrowPrimitiveType>::Native;
    let half = |value| Float16Array::from(vec![Half::from_f64(value)]);
    // More digits than an i128 has.
    let huge = |value: i64| {
        let power = arrow_buffer::i256::from_i128(10).wrapping_pow(45);
        let value = power.wrapping_mul(arrow_buffer::i256::from_i128(value.into()));
        Decimal256Array::from(vec![value]).with_precision_and_scale(50, 2).unwrap()
    };
    let [five_huge, six_huge, seven_huge] = [huge(5), huge(6), huge(7)];
    let all_huge = arrow_select::concat::concat(&[&five_huge, &six_huge, &seven_huge]).unwrap();
    let all_huge = arrow_cast::cast(&all_huge, &DataType::Decimal256(76, 2)).unwrap();
    let large = vec![134_217_728, 134_217_730, 9_223_372_036_854_774_784];
    let columns = [
        ("huge", all_huge),
        ("large", Arc::new(Int64Array::from(large)) as ArrayRef),
        ("money", money([5, 500, 7])),
        ("wide", wide),
        ("millis", millis),
        ("zoned", zoned),
        ("longs", longs),
        ("floats", floats),
    ];
    let packed =
        compress(&RecordBatch::try_from_iter(columns).unwrap(), &Options::default()).unwrap();
    let rows = |expr: Expr| {
        let found = Scan::new(&packed).filter(expr.clone()).rows(&Engine::cpu());
        found.map(|rows| rows.values().to_vec()).map_err(|error| error.to_string())
    };
    let five = Scalar::new(Int32Array::from(vec![5]));
    let decimal = Decimal256Array::from(vec![arrow_buffer::i256::from_i128(50)]);
    let decimal = Scalar::new(decimal.with_precision_and_scale(40, 1).unwrap());
    let second = Scalar::new(TimestampSecondArray::from(vec![5]));
    let nanos = |value| Scalar::new(TimestampNanosecondArray::from(vec![value]));
    let zoned = Scalar::new(TimestampSecondArray::from(vec![5]).with_timezone("UTC"));
    let none = Scalar::new(Int32Array::from(vec![None]));
    for (expr, expected) in [
        (col("money").between(0.05, 0.07), vec![0, 2]),
        (col("money").eq(5.0), vec![1]),
        (col("money").in_list([0.05, 0.07]), vec![0, 2]),
        (col("wide").eq(0.000_007), vec![2]),
        (col("longs").eq(5.0), vec![1]),
        (col("money").eq(five.clone()), vec![1]),
        (col("wide").gt_eq(five.clone()), vec![0, 1]),
        (col("floats").eq(five.clone()), vec![1]),
        (col("money").eq(decimal.clone()), vec![1]),
        (col("longs").eq(decimal.clone()), vec![1]),
        (col("money").eq(Scalar::new(Float32Array::from(vec![0.07]))), vec![2]),
        (col("money").eq(Scalar::new(half(0.07))), vec![2]),
        (col("large").eq(134_217_728.0), vec![0]),
        (col("large").eq(Scalar::new(Float32Array::from(vec![134_217_728.0]))), vec![0]),
        (col("large").gt(9_223_372_036_854_774_784.0), vec![]),
        (col("large").eq(9_223_372_036_854_774_784.0), vec![2]),
        (col("huge").eq(Scalar::new(huge(5))), vec![0]),
        (col("money").eq(Scalar::new(Float64Array::from(vec![0.07]))), vec![2]),
        (col("floats").eq(Scalar::new(Float32Array::from(vec![0.5]))), vec![0]),
        (col("longs").eq(none), vec![]),
        (col("millis").eq(second.clone()), vec![1]),
        (col("millis").gt(nanos(5_000_000_000)), vec![2]),
        (col("zoned").eq(zoned.clone()), vec![1]),
    ] {
        assert_eq!(rows(expr.clone()).as_ref(), Ok(&expected), "{expr}");
    }
    for (expr, part) in [
        (col("millis").eq(nanos(5_000_000_001)), "does not fit Timestamp(ms)"),
        (col("millis").eq(zoned), "a literal of Timestamp(s, \"UTC\") where Timestamp(ms) is"),
        (col("longs").eq(second), "where Int64 is"),
        (
            col("millis").eq(Scalar::new(DurationSecondArray::from(vec![None::<i64>]))),
            "a literal of Duration(s) where Timestamp(ms) is",
        ),
        (col("money").eq(0.07_f32), "does not fit Decimal64(6, 2)"),
        (col("longs").eq(Scalar::new(Float32Array::from(vec![0.5]))), "does not fit Int64"),
        (col("money").eq(Scalar::new(Int64Array::from(vec![10_000]))), "does not fit Decimal64"),
        (col("longs").eq(Scalar::new(StringArray::from(vec!["5"]))), "where Int64 is"),
    ] {
        let error = rows(expr.clone()).unwrap_err();
        assert!(error.contains(part), "{expr}: {error}");
    }
}

/// Dates are local times at midnight: days, milliseconds and timestamps without a zone compare.
#[test]
fn scalars_of_dates_and_timestamps_are_converted_where_both_have_the_value() {
    const DAY: i64 = 86_400;
    let seconds = [-DAY, 0, DAY, DAY + 1];
    let columns: [(&str, ArrayRef); 4] = [
        ("days", Arc::new(Date32Array::from(vec![-1, 0, 1, 2]))),
        ("millis", Arc::new(Date64Array::from_iter_values(seconds.map(|s| s * 1000)))),
        (
            "local",
            Arc::new(TimestampMicrosecondArray::from_iter_values(seconds.map(|s| s * 1_000_000))),
        ),
        ("zoned", Arc::new(TimestampSecondArray::from(seconds.to_vec()).with_timezone("UTC"))),
    ];
    let packed =
        compress(&RecordBatch::try_from_iter(columns).unwrap(), &Options::default()).unwrap();
    let rows = |expr: Expr| {
        let found = Scan::new(&packed).filter(expr.clone()).rows(&Engine::cpu());
        found.map(|rows| rows.values().to_vec()).map_err(|error| error.to_string())
    };
    let day = |day| Scalar::new(Date32Array::from(vec![day]));
    let milli = |milli| Scalar::new(Date64Array::from(vec![milli]));
    let nano = |nano| Scalar::new(TimestampNanosecondArray::from(vec![nano]));
    for (expr, expected) in [
        (col("local").eq(day(1)), vec![2]),
        (col("local").lt(day(0)), vec![0]),
        (col("millis").gt(day(1)), vec![3]),
        (col("millis").eq(nano((DAY + 1) * 1_000_000_000)), vec![3]),
        (col("local").eq(milli(-DAY * 1000)), vec![0]),
        (col("days").eq(milli(-DAY * 1000)), vec![0]),
        (col("days").gt_eq(nano(DAY * 1_000_000_000)), vec![2, 3]),
    ] {
        assert_eq!(rows(expr.clone()).as_ref(), Ok(&expected), "{expr}");
    }
    for (expr, part) in [
        (col("days").eq(milli(1)), "does not fit Date32"),
        (col("days").lt(nano(-1)), "does not fit Date32"),
        (col("millis").eq(nano(1)), "does not fit Date64"),
        (col("zoned").eq(day(1)), "a literal of Date32 where Timestamp(s, \"UTC\") is"),
        (col("days").eq(Scalar::new(Int32Array::from(vec![1]))), "where Date32 is"),
    ] {
        let error = rows(expr.clone()).unwrap_err();
        assert!(error.contains(part), "{expr}: {error}");
    }
}

/// A table of times, one column for each type, whose rows are 1995-03-14T23:59:59.5,
/// 1995-03-15 and 1995-03-15T10:30:00 or of those what the type holds.
fn times() -> RecordBatch {
    let millis: [i64; 3] = [795_225_599_500, 795_225_600_000, 795_263_400_000];
    let of_day = millis.map(|time| time % 86_400_000);
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "day",
            Arc::new(Date32Array::from(millis.map(|time| (time / 86_400_000) as i32).to_vec())),
        ),
        (
            "day64",
            Arc::new(Date64Array::from(millis.map(|time| time / 86_400_000 * 86_400_000).to_vec())),
        ),
        ("seconds", Arc::new(TimestampSecondArray::from(millis.map(|time| time / 1000).to_vec()))),
        ("millis", Arc::new(TimestampMillisecondArray::from(millis.to_vec()))),
        (
            "nanos",
            Arc::new(TimestampNanosecondArray::from(millis.map(|time| time * 1_000_000).to_vec())),
        ),
        (
            "zoned",
            Arc::new(
                TimestampMicrosecondArray::from(millis.map(|time| time * 1000).to_vec())
                    .with_timezone("+02:00"),
            ),
        ),
        (
            "named",
            Arc::new(
                TimestampMillisecondArray::from(millis.to_vec()).with_timezone("Europe/Paris"),
            ),
        ),
        ("utc", Arc::new(TimestampMillisecondArray::from(millis.to_vec()).with_timezone("UTC"))),
        ("clock", Arc::new(Time32MillisecondArray::from(of_day.map(|time| time as i32).to_vec()))),
        (
            "clock64",
            Arc::new(Time64NanosecondArray::from(of_day.map(|time| time * 1_000_000).to_vec())),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn texts_are_dates_and_times() {
    let packed = compress(&times(), &Options::default()).unwrap();
    let rows = |expr: Expr| {
        let found = Scan::new(&packed).filter(expr.clone()).rows(&Engine::cpu());
        found.map(|rows| rows.values().to_vec()).map_err(|error| error.to_string())
    };
    let scalar = Scalar::new(StringViewArray::from(vec!["1995-03-15"]));
    for (expr, expected) in [
        (col("day").eq("1995-03-15"), vec![1, 2]),
        (col("day").lt("1995-03-15"), vec![0]),
        (col("day").eq("1995-03-15T00:00:00"), vec![1, 2]),
        (col("day").in_list(["1995-03-14", "1970-01-01"]), vec![0]),
        (col("day").between("1995-03-14", "1995-03-15"), vec![0, 1, 2]),
        (col("day").eq(scalar), vec![1, 2]),
        (col("day64").eq("1995-03-15"), vec![1, 2]),
        (col("seconds").gt_eq("1995-03-15"), vec![1, 2]),
        (col("seconds").eq("1995-03-15 10:30:00"), vec![2]),
        (col("millis").eq("1995-03-14T23:59:59.5"), vec![0]),
        (col("millis").gt("1995-03-14T23:59:59.500000000"), vec![1, 2]),
        (col("nanos").gt("1995-03-14T23:59:59.500000001"), vec![1, 2]),
        // In the column's zone it is two hours later.
        (col("zoned").eq("1995-03-15T12:30:00"), vec![2]),
        (col("zoned").eq("1995-03-15T10:30:00Z"), vec![2]),
        (col("zoned").eq("1995-03-15T05:30:00-05:00"), vec![2]),
        (col("named").eq("1995-03-15T10:30:00Z"), vec![2]),
        (col("utc").gt_eq("1995-03-15"), vec![1, 2]),
        (col("clock").eq("10:30:00"), vec![2]),
        (col("clock").gt_eq("23:59:59.5"), vec![0]),
        (col("clock64").eq("00:00:00"), vec![1]),
    ] {
        assert_eq!(rows(expr.clone()).as_ref(), Ok(&expected), "{expr}");
    }
    for (expr, part) in [
        (col("day").eq("1995-03-15T10:30:00"), "a date without a time of day is needed"),
        (col("day").eq("15.3.1995"), "\"1995-03-15\" or"),
        (col("day").eq("1995-02-30"), "does not fit Date32"),
        (col("day").eq("1995-03-15T00:00:00Z"), "the column has no time zone"),
        (col("seconds").eq("1995-03-14T23:59:59.5"), "a multiple of 1000000000 ns is needed"),
        (col("nanos").eq("1995-03-14T23:59:59.5000000001"), "more than 9 digits of a second"),
        (col("nanos").eq("9999-01-01"), "does not fit Timestamp(ns)"),
        (col("named").eq("1995-03-15T10:30:00"), "write the offset, as in"),
        (col("named").eq("1995-03-15"), "as in \"1995-03-15T00:00:00Z\""),
        (col("clock").lt("23:59:60"), "a time before \"24:00:00\" is needed"),
        (col("clock").eq("10:30:00.0001"), "a multiple of 1000000 ns is needed"),
        (col("clock").eq("1995-03-15"), "a time such as \"10:30:00\" is needed"),
    ] {
        let error = rows(expr.clone()).unwrap_err();
        assert!(error.contains(part), "{expr}: {error}");
    }
}

#[test]
fn floats_are_never_rounded() {
    type Half = <types::Float16Type as ArrowPrimitiveType>::Native;
    let singles = [0.1_f32, 0.5, 1e30];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("half", Arc::new(Float16Array::from_iter_values(singles.map(Half::from_f32)))),
        ("single", Arc::new(Float32Array::from(singles.to_vec()))),
        ("double", Arc::new(Float64Array::from(vec![0.1, 0.5, f64::NAN]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let rows = |expr: Expr| {
        let found = Scan::new(&packed).filter(expr.clone()).rows(&Engine::cpu());
        found.map(|rows| rows.values().to_vec()).map_err(|error| error.to_string())
    };
    let decimal = |unscaled, scale| lit(Literal::decimal(unscaled, scale));
    for (expr, expected) in [
        (col("single").eq(0.1_f32), vec![0]),
        (col("single").eq(0.5), vec![1]),
        (col("single").gt(f64::INFINITY), vec![]),
        (col("double").eq(f64::NAN), vec![2]),
        (col("half").eq(0.5), vec![1]),
        (col("double").eq(decimal(5, 1)), vec![1]),
        (col("double").eq(decimal(500, 3)), vec![1]),
        (col("double").eq(decimal(5 * 10_i128.pow(36), 37)), vec![1]),
        (col("single").eq(decimal(-1, -2)), vec![]),
        (col("double").lt(decimal(9_007_199_254_740_994, 0)), vec![0, 1]),
        (col("double").lt(decimal(1, 0)), vec![0, 1]),
    ] {
        assert_eq!(rows(expr.clone()).as_ref(), Ok(&expected), "{expr}");
    }
    for (expr, part) in [
        (col("single").eq(0.1), "0.1 does not fit Float32, whose nearest value is 0.1_f32"),
        (col("half").eq(0.1), "whose nearest value is 0.0999755859375"),
        (col("single").eq(1e300), "does not fit Float32"),
        (col("double").eq(decimal(1, 1)), "1e-1 does not fit Float64, whose nearest value is 0.1"),
        (col("double").eq(decimal(9_007_199_254_740_993, 0)), "does not fit Float64"),
        (col("double").eq(decimal(i128::MAX, 127)), "does not fit Float64"),
        (col("double").eq(decimal(1, i8::MIN)), "does not fit Float64"),
        (col("single").eq(decimal(16_777_217, 0)), "nearest value is 16777216_f32"),
    ] {
        let error = rows(expr.clone()).unwrap_err();
        assert!(error.contains(part), "{expr}: {error}");
    }
}

#[test]
fn scalars_are_operands_of_arithmetic() {
    let batch = record_batch!(("x", Int64, [1, 2, 3]), ("y", Float64, [0.5, 1.5, 2.5])).unwrap();
    let packed = compress(&batch, &Options::default()).unwrap();
    let rows = |expr: Expr| {
        let found = Scan::new(&packed).filter(expr.clone()).rows(&Engine::cpu());
        found.map(|rows| rows.values().to_vec()).map_err(|error| error.to_string())
    };
    let two = || lit(Scalar::new(UInt8Array::from(vec![2])));
    let tenths = Decimal128Array::from(vec![15]).with_precision_and_scale(5, 1).unwrap();
    let half = || lit(Scalar::new(Float32Array::from(vec![0.5])));
    let none = || lit(Scalar::new(Int32Array::from(vec![None])));
    for (expr, expected) in [
        ((col("x") * two()).eq(4), vec![1]),
        ((col("x") + lit(Scalar::new(tenths))).gt(3), vec![1, 2]),
        ((col("y") + half()).eq(2.0), vec![1]),
        ((col("x") + none()).eq(2), vec![]),
        (none().is_null(), vec![0, 1, 2]),
        ((col("x") + none()).is_null(), vec![0, 1, 2]),
    ] {
        assert_eq!(rows(expr.clone()).as_ref(), Ok(&expected), "{expr}");
    }
    let text = lit(Scalar::new(StringArray::from(vec!["2"])));
    let error = rows((col("x") + text).eq(2)).unwrap_err();
    assert!(error.contains("cannot be computed with"), "{error}");
}
