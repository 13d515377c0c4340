//! Aggregates over joins that scans compute by lookups (`lanepack.push_joins`).

mod common;

use std::path::Path;

use arrow::array::*;
use common::*;
use datafusion::prelude::SessionContext;
use lanepack_datafusion::SessionContextExt;

/// Days 0 to 99 with labels, a null key and a null label.
fn days() -> RecordBatch {
    let key = |day: i64| (day != 50).then_some(day);
    let label = |day: i64| (day % 9 > 0).then(|| format!("label {}", day % 5));
    record_batch!(
        ("day_key", Int64, (0..100).map(key).collect::<Vec<_>>()),
        ("label", Utf8, (0..100).map(label).collect::<Vec<_>>()),
        ("name", Utf8, (0..100).map(|day| format!("item {day}")).collect::<Vec<_>>()),
        ("number", Int64, (0..100_i64).collect::<Vec<_>>())
    )
    .unwrap()
}

/// `sales` in a file and `memory`, with the table `days`.
async fn joined(folder: &Path, partitions: usize) -> SessionContext {
    let path = folder.join("sales.lanepack");
    if !path.exists() {
        write(&path, &[sales()], 1024);
    }
    let context = session(partitions);
    rows(&context, "SET lanepack.push_joins = true").await;
    context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
    register_in_memory(&context, "memory", &[sales()]);
    register_in_memory(&context, "days", &[days()]);
    context
}

async fn same(context: &SessionContext, query: &str) {
    let expected = rows(context, &query.replace("sales", "memory")).await;
    assert!(!expected.is_empty(), "{query}");
    assert_eq!(rows(context, query).await, expected, "{query}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_are_lookups() {
    let folder = tempfile::tempdir().unwrap();
    for partitions in [1, 3] {
        let context = joined(folder.path(), partitions).await;
        for (query, joins) in [
            (
                "SELECT label, count(*), sum(price) FROM sales, days WHERE day = day_key \
                 GROUP BY label ORDER BY label",
                "joins=[day = day_key]",
            ),
            (
                "SELECT sum(price), min(number) FROM days JOIN sales ON day_key = day AND price > number",
                "joins=[day = day_key], filter=price > number",
            ),
            (
                "SELECT d.name, max(s.name), count(*) FROM sales s, days d WHERE day = day_key \
                 AND d.label <> 'label 2' GROUP BY d.name ORDER BY d.name",
                "name#2",
            ),
            (
                "SELECT count(*), sum(price) FROM sales WHERE day IN (SELECT day_key FROM days WHERE number < 30)",
                "joins=[semi day = day_key]",
            ),
            (
                "SELECT count(*), sum(price) FROM sales WHERE NOT EXISTS \
                 (SELECT 1 FROM days WHERE day_key = day AND number < 30)",
                "joins=[anti day = day_key]",
            ),
            (
                "SELECT a.label, b.label, count(*) FROM sales, days a, days b WHERE day = a.day_key \
                 AND price = b.day_key AND a.number < b.number GROUP BY a.label, b.label ORDER BY 1, 2",
                "price = day_key",
            ),
            (
                "SELECT sum(CASE WHEN label LIKE '%3' THEN price ELSE 0 END), \
                 sum(CASE WHEN label = 'label 1' THEN 1 ELSE 0 END), \
                 count(CASE WHEN label = 'label 1' THEN 1 END) FROM sales, days WHERE day = day_key",
                "joins=[day = day_key]",
            ),
        ] {
            same(&context, query).await;
            let plan = plan(&context, query).await;
            assert!(plan.contains(joins), "{query}: {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_are_no_lookups_are_those_of_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    for partitions in [1, 3] {
        let context = joined(folder.path(), partitions).await;
        let twice = "(SELECT number % 10 AS twice, label FROM days)";
        let query = format!(
            "SELECT label, count(*) FROM sales, {twice} t WHERE day = twice GROUP BY label ORDER BY label"
        );
        same(&context, &query).await;
        let explained = rows(&context, &format!("EXPLAIN ANALYZE {query}")).await.concat();
        assert!(explained.contains(&format!("partitions_left={partitions}")), "{explained}");
        // The names of items are groups: too many for their rows.
        same(
            &context,
            "SELECT s.name, count(*) FROM sales s, days WHERE day = day_key GROUP BY s.name ORDER BY s.name",
        )
        .await;
        for query in [
            "SELECT count(*) FROM sales s, days d WHERE s.name = d.name",
            "SELECT count(*) FROM sales, days WHERE day = day_key AND price = number",
            "SELECT label, count(*) FROM sales LEFT JOIN days ON day = day_key GROUP BY label ORDER BY label",
            "SELECT count(*) FROM sales WHERE day NOT IN (SELECT number FROM days)",
            "SELECT count(*), sum(price) FROM sales, days WHERE day = day_key AND number > 1000",
        ] {
            same(&context, query).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_left_ends() {
    let folder = tempfile::tempdir().unwrap();
    let values = |chunk: i64| match chunk {
        21 => vec![i64::MAX / 300; 1024],
        _ => (0..1024).map(|row| row * chunk).collect(),
    };
    let batch = |chunk: i64| {
        let keys: Vec<i64> = (0..1024).map(|row| row % 3).collect();
        record_batch!(("day", Int64, keys), ("value", Int64, values(chunk))).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..24).map(batch).collect();
    write(&folder.path().join("sales.lanepack"), &batches, 1024);
    let context = session(2);
    rows(&context, "SET lanepack.push_joins = true").await;
    let path = folder.path().join("sales.lanepack");
    context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
    register_in_memory(&context, "memory", &batches);
    register_in_memory(&context, "days", &[days()]);
    let query = "SELECT number, sum(value) FROM sales, days WHERE day = day_key GROUP BY number ORDER BY number";
    same(&context, query).await;
    let explained = rows(&context, &format!("EXPLAIN ANALYZE {query}")).await.concat();
    assert!(explained.contains("partitions_left=1"), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_paths_are_not_those_of_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let context = joined(folder.path(), 2).await;
    let place = folder.path().join("parts").display().to_string();
    for statement in [
        format!(
            "COPY (SELECT day, price, concat('path ', CAST(day % 2 AS VARCHAR)) AS label FROM sales) \
             TO '{place}/' STORED AS LANEPACK PARTITIONED BY (label)"
        ),
        format!(
            "CREATE EXTERNAL TABLE parts STORED AS LANEPACK LOCATION '{place}/' PARTITIONED BY (label)"
        ),
    ] {
        rows(&context, &statement).await;
    }
    let query = "SELECT p.label, d.label, count(*) FROM parts p, days d WHERE day = day_key \
                 GROUP BY p.label, d.label ORDER BY 1, 2";
    let found = rows(&context, query).await;
    assert!(found.iter().all(|row| row.starts_with("path ")) && found.len() > 8, "{found:?}");
}
