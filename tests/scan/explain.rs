//! Plans of scans: what is printed, and that it is what scans do.

use arrow_array::{RecordBatch, record_batch};
use lanepack::scan::{
    Expr, GroupTableKind, Lookup, QueryPlan, Scan, avg, col, count_distinct, count_rows, lit, max,
    sum,
};
use lanepack::{Engine, Options, compress};

/// Facts whose days ascend, in chunks of 1,024 rows.
fn facts() -> RecordBatch {
    let rows = 0..8192_i64;
    let batch = record_batch!(
        ("day", Int32, rows.clone().map(|row| (row / 8) as i32).collect::<Vec<_>>()),
        ("shop", Int64, rows.clone().map(|row| row * 7919 % 100).collect::<Vec<_>>()),
        ("price", Int64, rows.clone().map(|row| row * 104_729 % 5000).collect::<Vec<_>>()),
        ("name", Utf8, rows.clone().map(|row| format!("item {}", row % 50)).collect::<Vec<_>>()),
        (
            "weight",
            Float64,
            rows.map(|row| (row % 3 > 0).then_some(row as f64 / 8.0)).collect::<Vec<_>>()
        )
    );
    compress(&batch.unwrap(), &Options::default().with_chunk_rows(1024)).unwrap()
}

/// Every fourth shop, with its city and size.
fn shops() -> Lookup {
    let batch = record_batch!(
        ("id", Int64, (0..25).map(|shop| shop * 4).collect::<Vec<_>>()),
        ("city", Utf8, (0..25).map(|shop| ["Oslo", "Rome", "Bern"][shop % 3]).collect::<Vec<_>>()),
        ("size", Int32, (0..25).map(|shop| shop * 10).collect::<Vec<_>>())
    );
    Lookup::try_new(&batch.unwrap(), "id").unwrap()
}

/// Days of a month.
fn days() -> Lookup {
    Lookup::try_new(
        &record_batch!(("date", Int32, (300..330).collect::<Vec<_>>())).unwrap(),
        "date",
    )
    .unwrap()
}

fn texts(plan: &QueryPlan) -> Vec<&str> {
    plan.steps().iter().map(|step| step.text.as_str()).collect()
}

fn steps_of(facts: &RecordBatch, filter: Expr) -> Vec<String> {
    let plan = Scan::new(facts).filter(filter).explain(&[], &Engine::cpu()).unwrap();
    texts(&plan).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_plan_says_what_is_read_tested_and_grouped() {
    let (facts, shops, days) = (facts(), shops(), days());
    let plan = Scan::new(&facts)
        .join(col("shop"), &shops)
        .semi_join(col("day"), &days)
        .filter(col("price").lt(2500).and(col("city").eq("Oslo")))
        .group_by([col("city"), col("day")])
        .explain(&[sum(col("price") * 2), count_rows()], &Engine::cpu())
        .unwrap();
    let expected = "\
by          CPU: asked for
rows        8192 in 8 chunks, 7 skipped
bytes       at most 1792 read of 14336 stored
filter of chunk 2                                  expected  columns  stored B
  price <= 2499                                           -  price    5632
  shop IN lookup id of 25 keys with city = \"Oslo\"    33.3 %  shop     7680
  day IN lookup date of 30 keys                     100.0 %  day      1024
  shop IN lookup id of 25 keys                      100.0 %  shop     7680
groups      city (3), day (1024): at most 3072, by the CPU in indexed tables
aggregates  sum(price * 2), count(*)
";
    assert_eq!(plan.to_string(), expected);
    // Chunk 2 has days 256 to 383.
    assert_eq!((plan.ordered_chunk(), plan.chunks_skipped()), (Some(2), 7));
}

#[test]
fn bytes_are_those_of_chunks_and_columns_that_are_read() {
    let facts = facts();
    let columns = lanepack::columns(&facts).unwrap();
    let bytes = |column: usize, chunks: std::ops::Range<usize>| -> usize {
        columns[column].chunks()[chunks].iter().map(|chunk| chunk.body().len()).sum()
    };
    let explain = |scan: Scan<'_>, aggregates: &[_]| {
        let plan = scan.explain(aggregates, &Engine::cpu()).unwrap();
        (plan.chunks_skipped(), plan.bytes_read(), plan.bytes_stored())
    };
    // Days of the last three chunks: of those all pass, so only aggregates read anything.
    let last = || Scan::of(&columns).filter(col("day").gt_eq(5 * 128));
    assert_eq!(explain(last(), &[]), (5, 0, bytes(0, 0..8)));
    let expected = (5, bytes(2, 5..8), bytes(0, 0..8) + bytes(2, 0..8));
    assert_eq!(explain(last(), &[sum(col("price"))]), expected);
    // In the middle of a chunk its days are read.
    let later = Scan::of(&columns).filter(col("day").gt_eq(5 * 128 + 1));
    assert_eq!(explain(later, &[]), (5, bytes(0, 5..6), bytes(0, 0..8)));
    let all = Scan::of(&columns);
    assert_eq!(explain(all.clone(), &[count_rows()]), (0, 0, 0));
    assert_eq!(explain(all, &[max(col("name"))]), (0, bytes(3, 0..8), bytes(3, 0..8)));
    let none = Scan::of(&columns).filter(col("day").lt(-1));
    assert_eq!(explain(none.clone(), &[]), (8, 0, bytes(0, 0..8)));
    let text = none.explain(&[], &Engine::cpu()).unwrap().to_string();
    assert!(text.contains("filter      no row\n"), "{text}");
}

#[test]
fn steps_read_as_tests() {
    let facts = facts();
    for (filter, expected) in [
        (col("price").not_eq(7), "price <> 7"),
        (col("price").in_list([7, 9, 4000]), "price IN (7, 9, 4000)"),
        (col("price").gt(7).and(col("price").lt(4000)), "price BETWEEN 8 AND 3999"),
        (col("weight").gt_eq(2.5), "weight >= 2.5"),
        (col("name").starts_with("item 1"), r#"name LIKE "item 1" || '%'"#),
        (col("name").not_like("%m 4_"), r#"name NOT LIKE "%m 4_""#),
        (col("name").eq("item 3"), r#"name = "item 3""#),
        (
            col("name").gt("item 3").and(col("name").lt_eq("item 4")),
            r#"name > "item 3" AND name <= "item 4""#,
        ),
        (col("weight").is_not_null(), "weight IS NOT NULL"),
        ((col("price") + col("shop") * 3).lt(col("day") - lit(2)), "price + (shop * 3) < day - 2"),
    ] {
        assert_eq!(steps_of(&facts, filter), [expected]);
    }
}

#[test]
fn steps_of_joined_tests_are_nested() {
    let facts = facts();
    let filter = (col("price").lt(10)).or(col("weight").gt(1.0).and(col("shop").eq(5)));
    let plan = Scan::new(&facts).filter(filter).explain(&[], &Engine::cpu()).unwrap();
    let steps: Vec<(usize, &str)> =
        plan.steps().iter().map(|step| (step.depth, step.text.as_str())).collect();
    let expected = [
        (0, "one of"),
        (1, "price <= 9"),
        (1, "all of"),
        (2, "shop = 5"),
        (2, "weight >= 1.0000000000000002"),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn joins_say_what_they_keep() {
    let facts = facts();
    let scan = || Scan::new(&facts).join(col("shop"), &shops());
    let explain = |scan: Scan<'_>| scan.explain(&[], &Engine::cpu()).unwrap();
    let plan = explain(scan().filter(col("size").gt(100)));
    let joined = "shop IN lookup id of 25 keys";
    assert_eq!(texts(&plan), [&format!("{joined} with 14 of 25 values of size"), joined]);
    assert_eq!(plan.steps()[0].share, Some(14.0 / 25.0));
    assert_eq!(plan.steps()[0].columns, ["shop"]);
    let plan = explain(Scan::new(&facts).anti_join(col("shop"), &shops()));
    assert_eq!(texts(&plan), ["not", joined]);
    let plan = explain(scan().filter((col("size") * 2).gt(col("price"))));
    assert_eq!(texts(&plan), ["size * 2 > price", joined, joined]);
}

#[test]
fn groups_say_where_they_are_looked_up() {
    let facts = facts();
    let groups = |keys: &[&str]| {
        let groups = Scan::new(&facts).group_by(keys.iter().map(|key| col(*key)));
        let plan = groups.explain(&[avg(col("weight"))], &Engine::cpu()).unwrap();
        plan.groups().unwrap().clone()
    };
    let found = groups(&["shop"]);
    assert_eq!((found.numbers, found.table), (100, GroupTableKind::HostIndexed));
    let found = groups(&["shop", "price", "name"]);
    assert_eq!(found.keys[1..], [("price".to_owned(), 5000), ("name".to_owned(), 8192)]);
    assert_eq!((found.numbers, found.table), (100 * 5000 * 8192, GroupTableKind::HostHashed));
    assert_eq!(groups(&[]).numbers, 1);
    let aggregates = [count_distinct(col("name")), sum(col("price")).filter(col("weight").gt(2.0))];
    let by_shop = Scan::new(&facts).group_by([col("shop")]);
    let plan = by_shop.explain(&aggregates, &Engine::cpu()).unwrap();
    assert_eq!((plan.passes(), plan.groups().unwrap().numbers), (2, 100));
    assert_eq!(
        plan.aggregates(),
        ["count(DISTINCT name)", "sum(price) FILTER (WHERE weight > 2.0)"]
    );
    // All but days.
    let stored: usize = lanepack::columns(&facts).unwrap()[1..]
        .iter()
        .flat_map(|column| column.chunks())
        .map(|chunk| chunk.body().len())
        .sum();
    assert_eq!((plan.bytes_read(), plan.bytes_stored()), (stored, stored));
    let plan = Scan::new(&facts).explain(&aggregates, &Engine::cpu()).unwrap();
    assert_eq!((plan.passes(), plan.groups().is_none()), (2, true));
}

#[test]
fn what_is_an_error_for_scans_is_one_for_plans() {
    let facts = facts();
    let engine = Engine::cpu();
    let scan = Scan::new(&facts);
    assert!(scan.clone().filter(col("none").eq(1)).explain(&[], &engine).is_err());
    assert!(scan.explain(&[sum(col("name"))], &engine).is_err());
    assert!(scan.group_by([col("none")]).explain(&[], &engine).is_err());
}
