//! SQL on lanepack files: what is pushed down to scans, what is written, and what goes wrong.

mod common;

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use common::*;
use datafusion::prelude::SessionContext;
use lanepack_datafusion::SessionContextExt;

/// A session with `sales` as a file and `memory` with the same rows in memory.
async fn both(folder: &Path) -> SessionContext {
    write(&folder.join("sales.lanepack"), &[sales()], 1024);
    over(folder, 2).await
}

/// The same of a file that is there, with so many partitions.
async fn over(folder: &Path, partitions: usize) -> SessionContext {
    let context = session(partitions);
    let path = folder.join("sales.lanepack");
    context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
    register_in_memory(&context, "memory", &[sales()]);
    context
}

/// The rows of a query over the file, which have to be those over the table in memory.
async fn same(context: &SessionContext, query: &str) -> Vec<String> {
    let expected = rows(context, &query.replace("sales", "memory")).await;
    let found = rows(context, query).await;
    assert_eq!(found, expected, "{query}");
    found
}

#[tokio::test]
async fn filters_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    for filter in [
        "day = 17",
        "day <> 17 AND day < 30",
        "day BETWEEN 100 AND 103 OR name = 'item 5'",
        "price IS NULL AND day < 20",
        "price IS NOT NULL AND NOT (day > 5)",
        "name LIKE 'item 9%7'",
        "name NOT LIKE '%1%' AND day < 50",
        "name LIKE '%_7_'",
        "name IN ('item 1', 'item 2', 'none')",
        "name NOT IN ('item 1', 'item 2') AND day < 10",
        "price IN (37, 74, NULL)",
        "starts_with(name, 'item 90')",
        "weight >= 24.5",
        "CAST(day AS BIGINT) + 5 > 1250",
        "day * 2 = 16",
        "price > day AND day < 40",
        "day < price",
    ] {
        let query = format!("SELECT day, price, name FROM sales WHERE {filter} ORDER BY day, name");
        same(&context, &query).await;
        let plan = plan(&context, &query).await;
        let is_left = plan.contains("FilterExec");
        assert!(!is_left || filter.contains("* 2"), "{filter}: {plan}");
    }
    // Those that lanepack does not have stay in the plan.
    for filter in
        ["upper(name) = 'ITEM 7'", "name ILIKE 'ITEM 7'", "weight * 2.0 > 49.0", "length(name) = 6"]
    {
        let query = format!("SELECT name FROM sales WHERE {filter} AND day < 900 ORDER BY name");
        same(&context, &query).await;
        assert!(plan(&context, &query).await.contains("FilterExec"), "{filter}");
    }
}

#[tokio::test]
async fn filters_that_are_not_exact_leave_out_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    for filter in [
        "day < 3 AND upper(name) = 'ITEM 31' OR day > 1240 AND lower(shop) = 'shop 3'",
        "(day = 7 OR day = 8 AND length(name) > 2) AND weight * 2.0 > 0.5",
        "day < 9 AND NOT (upper(name) = 'ITEM 31' AND day > 3)",
        "CASE WHEN day < 5 THEN upper(name) = 'ITEM 31' WHEN day > 1200 THEN true ELSE false END",
        "day < 0 AND upper(name) = 'ITEM 31' OR day > 9999 AND lower(shop) = 'shop 3'",
    ] {
        let query = format!("SELECT day, name FROM sales WHERE {filter} ORDER BY day, name");
        same(&context, &query).await;
        same(&context, &format!("SELECT count(*), sum(price) FROM sales WHERE {filter}")).await;
        same(
            &context,
            &format!("SELECT count(*) FROM (SELECT day FROM sales WHERE {filter} LIMIT 2)"),
        )
        .await;
        let explained = plan(&context, &query).await;
        assert!(explained.contains("FilterExec"), "{filter}: {explained}");
        let explained = rows(&context, &format!("EXPLAIN ANALYZE {query}")).await.concat();
        // DataFusion writes CASE as other functions, which scans do not know.
        let is_known = !filter.contains("CASE");
        assert_eq!(!explained.contains("chunks_pruned=0"), is_known, "{filter}: {explained}");
    }
}

#[tokio::test]
async fn aggregates_are_computed_by_scans() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    for aggregates in [
        "count(*), count(price), sum(price), min(price), max(price), avg(price)",
        "sum(weight), avg(weight), min(name), max(shop), min(weight)",
        "sum(price) FILTER (WHERE day < 100), count(*) FILTER (WHERE name LIKE '%1')",
        "sum(CAST(day AS BIGINT) * 2 + 1), max(day)",
    ] {
        for rest in [
            "",
            "WHERE day < 777",
            "WHERE day < -1",
            "GROUP BY shop ORDER BY shop",
            "WHERE day > 3 GROUP BY shop, day % 2 ORDER BY shop, day % 2",
        ] {
            let key = if rest.contains("shop") { "shop, " } else { "" };
            let query = format!("SELECT {key}{aggregates} FROM sales {rest}");
            same(&context, &query).await;
            let is_pushed = plan(&context, &query).await.contains("LanepackAggregateExec");
            assert_eq!(is_pushed, !rest.contains('%'), "{query}");
        }
    }
    // Distinct values, orders within groups and functions that lanepack does not have are left.
    for query in [
        "SELECT count(DISTINCT name), count(DISTINCT shop) FROM sales",
        "SELECT stddev(weight) > 0 FROM sales",
        "SELECT shop, array_agg(day ORDER BY day) FROM sales WHERE day < 5 GROUP BY shop ORDER BY shop",
        "SELECT shop, sum(price) FROM sales WHERE upper(name) = 'ITEM 9' GROUP BY shop ORDER BY shop",
    ] {
        same(&context, query).await;
        assert!(!plan(&context, query).await.contains("LanepackAggregateExec"), "{query}");
    }
    // Distinct values are groups of their own, which DataFusion counts.
    same(&context, "SELECT count(DISTINCT shop) FROM sales").await;
    // More groups than are worth it, whose replaced plan runs.
    same(&context, "SELECT name, day, sum(price) FROM sales GROUP BY name, day ORDER BY name, day")
        .await;
    let explained =
        rows(&context, "EXPLAIN ANALYZE SELECT name, sum(price) FROM sales GROUP BY name").await;
    assert!(explained.concat().contains("partitions_left=2"), "{explained:?}");
    let explained =
        rows(&context, "EXPLAIN ANALYZE SELECT shop, sum(price) FROM sales GROUP BY shop").await;
    assert!(explained.concat().contains("partitions_left=0"), "{explained:?}");
}

#[tokio::test]
async fn sums_that_do_not_fit_are_those_of_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.lanepack");
    let batch = record_batch!(("value", Int64, [i64::MAX, 1, 5])).unwrap();
    write(&path, std::slice::from_ref(&batch), 1024);
    let context = session(1);
    context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
    register_in_memory(&context, "memory", &[batch]);
    let explained = plan(&context, "SELECT sum(value) FROM sales").await;
    assert!(explained.contains("LanepackAggregateExec"), "{explained}");
    same(&context, "SELECT sum(value) FROM sales").await;
    same(&context, "SELECT avg(value) FROM sales").await;
}

#[tokio::test]
async fn counts_and_bounds_come_from_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    for query in
        ["SELECT count(*) FROM sales", "SELECT min(day), max(day), count(price) FROM sales"]
    {
        same(&context, query).await;
        let plan = plan(&context, query).await;
        assert!(!plan.contains("Lanepack"), "{query}: {plan}");
    }
    // Bounds of text are cut, those of floats have NaNs and signs of zero.
    for query in [
        "SELECT min(name) FROM sales",
        "SELECT max(weight) FROM sales",
        "SELECT min(day) FROM sales WHERE day > 3",
    ] {
        same(&context, query).await;
        assert!(plan(&context, query).await.contains("Lanepack"), "{query}");
    }
}

#[tokio::test]
async fn limits_and_chunks_that_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    assert_eq!(rows(&context, "SELECT name FROM sales LIMIT 7").await.len(), 7);
    assert_eq!(
        rows(&context, "SELECT name FROM sales WHERE day >= 1 LIMIT 3 OFFSET 2").await.len(),
        3
    );
    assert!(plan(&context, "SELECT name FROM sales LIMIT 7").await.contains("limit=7"));
    let explained =
        rows(&context, "EXPLAIN ANALYZE SELECT name FROM sales WHERE day = 0").await.concat();
    // Five chunks, of which the first has the row.
    assert!(
        explained.contains("chunks_scanned=1") && explained.contains("chunks_pruned=4"),
        "{explained}"
    );
    // The filter of a join, and that of a top-k.
    let query = "SELECT s.name FROM sales s JOIN (VALUES (3), (4)) AS v(day) ON s.day = v.day ORDER BY s.name";
    same(&context, query).await;
    let explained = rows(&context, &format!("EXPLAIN ANALYZE {query}")).await.concat();
    assert!(explained.contains("chunks_pruned=4"), "{explained}");
    same(&context, "SELECT day, name FROM sales ORDER BY day DESC, name LIMIT 5").await;
    same(&context, "SELECT day, name FROM sales ORDER BY weight DESC, day, name LIMIT 5").await;
    // Nothing of the columns, and no rows.
    assert_eq!(rows(&context, "SELECT count(*) FROM sales WHERE day = 9999").await, ["0"]);
    assert_eq!(
        rows(&context, "SELECT 1 FROM sales WHERE price = 37").await.len(),
        rows(&context, "SELECT 1 FROM memory WHERE price = 37").await.len()
    );
}

#[tokio::test]
async fn tables_are_created_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let copy = format!(
        "COPY (SELECT * FROM memory ORDER BY day) TO '{}' OPTIONS (effort 'small', chunk_rows 2048)",
        place("copy.lanepack")
    );
    assert_eq!(rows(&context, &copy).await, ["5000"]);
    let create = format!(
        "CREATE EXTERNAL TABLE copied STORED AS LANEPACK LOCATION '{}'",
        place("copy.lanepack")
    );
    rows(&context, &create).await;
    let all = "SELECT * FROM memory ORDER BY day, name, price";
    assert_eq!(rows(&context, &all.replace("memory", "copied")).await, rows(&context, all).await);
    // A folder of files by the values of a column, which is then in their paths.
    let copy =
        format!("COPY memory TO '{}' STORED AS LANEPACK PARTITIONED BY (shop)", place("by_shop/"));
    assert_eq!(rows(&context, &copy).await, ["5000"]);
    let create = format!(
        "CREATE EXTERNAL TABLE by_shop STORED AS LANEPACK PARTITIONED BY (shop) LOCATION '{}'",
        place("by_shop/")
    );
    rows(&context, &create).await;
    for query in [
        "SELECT shop, day, name FROM memory ORDER BY shop, day, name",
        "SELECT name, day FROM memory WHERE shop = 'shop 3' ORDER BY day, name",
        "SELECT shop, count(*), sum(price) FROM memory GROUP BY shop ORDER BY shop",
        "SELECT count(*) FROM memory WHERE shop IN ('shop 3', 'shop 4', 'none') AND day < 700",
        "SELECT shop FROM memory WHERE day = 3 AND shop > name ORDER BY shop",
        "SELECT DISTINCT shop FROM memory ORDER BY shop",
    ] {
        let expected = rows(&context, query).await;
        assert_eq!(rows(&context, &query.replace("memory", "by_shop")).await, expected, "{query}");
    }
    let explained = plan(&context, "SELECT name FROM by_shop WHERE shop = 'shop 3'").await;
    assert!(!explained.contains("FilterExec"), "{explained}");
    // An order that is declared spares a sort.
    let create = format!(
        "CREATE EXTERNAL TABLE ordered STORED AS LANEPACK WITH ORDER (day ASC NULLS LAST) LOCATION '{}'",
        place("copy.lanepack")
    );
    rows(&context, &create).await;
    let query = "SELECT day, name FROM ordered ORDER BY day ASC NULLS LAST LIMIT 9";
    let explained = plan(&context, query).await;
    assert!(!explained.contains("SortExec"), "{explained}");
    assert_eq!(rows(&context, query).await.len(), 9);
    let one = session(1);
    rows(&one, &create).await;
    let expected = rows(&context, "SELECT day, name FROM memory ORDER BY day, name").await;
    for limit in [1, 9, 6000] {
        let found = rows(
            &one,
            &format!("SELECT day, name FROM ordered ORDER BY day ASC NULLS LAST LIMIT {limit}"),
        )
        .await;
        assert_eq!(found.len(), limit.min(5000));
        let days = |rows: &[String]| {
            rows.iter().map(|row| row.split('|').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(days(&found), days(&expected[..found.len()]));
    }
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let error = |sql: String| {
        let context = context.clone();
        async move {
            let failed = match context.sql(&sql).await {
                Ok(frame) => frame.collect().await.err(),
                Err(error) => Some(error),
            };
            failed.unwrap_or_else(|| panic!("{sql} succeeded")).to_string()
        }
    };
    let create = |name: &str, at: &str| {
        format!("CREATE EXTERNAL TABLE {name} STORED AS LANEPACK LOCATION '{}'", place(at))
    };
    assert!(error(create("none", "none/")).await.contains("no .lanepack files at"));
    std::fs::write(place("text.lanepack"), "day,name\n1,2\n").unwrap();
    let said = error(create("text", "text.lanepack")).await;
    assert!(
        said.contains("text.lanepack") && said.contains("not compressed by lanepack"),
        "{said}"
    );
    // A file that was damaged: the error names file, column and chunk, and the session goes on.
    let mut bytes = std::fs::read(place("sales.lanepack")).unwrap();
    let at = bytes.len() / 2;
    bytes[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(place("damaged.lanepack"), &bytes).unwrap();
    rows(&context, &create("damaged", "damaged.lanepack")).await;
    let said = error("SELECT * FROM damaged".to_owned()).await;
    for part in ["damaged.lanepack", "column", "chunk"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(rows(&context, "SELECT count(*) FROM sales WHERE day = 3").await, ["4"]);
    // Files that differ in their columns.
    std::fs::create_dir(place("mixed")).unwrap();
    write(&folder.path().join("mixed/a.lanepack"), &[sales()], 1024);
    let other = record_batch!(("day", Utf8, ["x"])).unwrap();
    write(&folder.path().join("mixed/b.lanepack"), &[other], 1024);
    let said = error(create("mixed", "mixed/")).await;
    assert!(said.contains("b.lanepack") && said.contains("day"), "{said}");
    // A query that fails after some rows leaves no file, nor a part of one.
    let copy = format!(
        "COPY (SELECT 1 / (price - 37) AS x FROM memory) TO '{}'",
        place("failed.lanepack")
    );
    assert!(error(copy).await.to_lowercase().contains("divide by zero"));
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("failed"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    for wrong in ["effort 'best'", "chunk_rows 'many'", "chunk_rows 7", "level 3"] {
        let copy = format!("COPY memory TO '{}' OPTIONS ({wrong})", place("wrong.lanepack"));
        assert!(!error(copy).await.is_empty(), "{wrong}");
        assert!(!Path::new(&place("wrong.lanepack")).exists());
    }
    assert!(
        error("SET lanepack.engine = 'gpu'".to_owned()).await.contains("'auto', 'cpu' or 'cuda'")
    );
}

#[tokio::test]
async fn a_query_that_is_given_up_stops() {
    use futures::StreamExt;
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let frame = context.sql("SELECT name FROM sales").await.unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    drop(stream);
    assert_eq!(rows(&context, "SELECT count(*) FROM sales WHERE day < 2").await, ["8"]);
}

#[tokio::test]
async fn types_and_empty_files() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(3);
    let path = folder.path().join("empty.lanepack");
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8View, true),
    ]));
    write(&path, &[RecordBatch::new_empty(schema)], 1024);
    context.register_lanepack("empty", path.to_str().unwrap()).await.unwrap();
    assert!(rows(&context, "SELECT * FROM empty").await.is_empty());
    assert_eq!(rows(&context, "SELECT count(*), sum(a), max(b) FROM empty").await, ["0|NULL|NULL"]);
    assert!(rows(&context, "SELECT b, sum(a) FROM empty GROUP BY b").await.is_empty());
    // Nested columns and dictionaries come as they are.
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let dictionary: DictionaryArray<Int32Type> = [Some("x"), None, Some("y")].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("lists", Arc::new(lists)), ("codes", Arc::new(dictionary))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = folder.path().join("nested.lanepack");
    write(&path, std::slice::from_ref(&batch), 1024);
    context.register_lanepack("nested", path.to_str().unwrap()).await.unwrap();
    assert_eq!(rows(&context, "SELECT * FROM nested").await, rows_of(&batch));
    assert_eq!(rows(&context, "SELECT codes FROM nested WHERE codes = 'y'").await, ["y"]);
    assert_eq!(
        rows(&context, "SELECT codes, count(*) FROM nested GROUP BY codes ORDER BY codes").await,
        ["x|1", "y|1", "NULL|1"]
    );
}

#[tokio::test]
async fn files_that_lack_columns_have_nulls_there() {
    let folder = tempfile::tempdir().unwrap();
    let one = record_batch!(("a", Int32, [1, 2]), ("b", Int32, [3, 4])).unwrap();
    let other = record_batch!(("a", Int32, [5]), ("c", Int32, [6])).unwrap();
    write(&folder.path().join("one.lanepack"), &[one], 1024);
    write(&folder.path().join("other.lanepack"), &[other], 1024);
    let context = session(2);
    let place = folder.path().display();
    let create =
        format!("CREATE EXTERNAL TABLE t (b INT, a INT) STORED AS LANEPACK LOCATION '{place}/'");
    rows(&context, &create).await;
    assert_eq!(rows(&context, "SELECT * FROM t ORDER BY a").await, ["3|1", "4|2", "NULL|5"]);
    assert_eq!(rows(&context, "SELECT a FROM t WHERE b IS NULL").await, ["5"]);
    assert_eq!(rows(&context, "SELECT count(b), sum(b), max(a) FROM t").await, ["2|7|5"]);
}

#[tokio::test]
async fn paths_that_conditions_exclude_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let place = folder.path().join("shops").display().to_string();
    rows(&context, &format!("COPY memory TO '{place}' STORED AS LANEPACK PARTITIONED BY (shop)"))
        .await;
    for partitioned in ["shop", "shop VARCHAR"] {
        let create = format!(
            "CREATE OR REPLACE EXTERNAL TABLE shops STORED AS LANEPACK PARTITIONED BY ({partitioned}) LOCATION '{place}/'"
        );
        rows(&context, &create).await;
        for query in [
            "SELECT count(*), min(day), max(day), count(price) FROM sales WHERE shop = 'shop 4'",
            "SELECT count(*) FROM sales WHERE shop > 'shop 4' OR shop IS NULL",
            "SELECT count(*) FROM sales WHERE shop = 'none'",
            "SELECT sum(price) FROM sales WHERE shop = 'none'",
            "SELECT day FROM sales WHERE shop = 'shop 7' ORDER BY day LIMIT 3",
        ] {
            let expected = same(&context, query).await;
            assert_eq!(rows(&context, &query.replace("sales", "shops")).await, expected, "{query}");
        }
    }
    // Values that paths have to escape, and none.
    let values = "COPY (SELECT * FROM (VALUES (1, 'a/b'), (2, '100 %'), (3, NULL), (4, 'a=b')) AS v(id, kind)) \
                  TO '{place}' STORED AS LANEPACK PARTITIONED BY (kind)";
    let place = folder.path().join("kinds").display().to_string();
    let copied = context.sql(&values.replace("{place}", &place)).await.unwrap().collect().await;
    assert!(copied.is_ok(), "{copied:?}");
    let create = format!(
        "CREATE EXTERNAL TABLE kinds STORED AS LANEPACK PARTITIONED BY (kind) LOCATION '{place}/'"
    );
    rows(&context, &create).await;
    let found = rows(&context, "SELECT id, kind FROM kinds ORDER BY id").await;
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!((found[1].as_str(), found[3].as_str()), ("2|100 %", "4|a=b"));
}

#[tokio::test]
async fn folders_are_listed_again() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let place = format!("{}/", folder.path().join("many").display());
    for count in 1..=3 {
        let copy =
            format!("COPY (SELECT * FROM memory LIMIT 100) TO '{place}part{count}.lanepack'");
        rows(&context, &copy).await;
        let frame = context.read_lanepack(&place).await.unwrap();
        assert_eq!(frame.count().await.unwrap(), 100 * count);
    }
}

#[tokio::test]
async fn averages_of_groups_without_values_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let batch = record_batch!(
        ("shop", Utf8, ["a", "b", "a", "c"]),
        ("price", Int64, [Some(5), None, Some(2), None]),
        ("weight", Float64, [Some(0.5), None, None, Some(2.0)])
    )
    .unwrap();
    let path = folder.path().join("sales.lanepack");
    write(&path, std::slice::from_ref(&batch), 1024);
    let context = session(2);
    context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
    register_in_memory(&context, "memory", &[batch]);
    for what in [
        "avg(price), avg(weight), sum(price), count(price), min(weight)",
        "avg(CAST(price AS DECIMAL(12, 2)))",
        "avg(price) FILTER (WHERE shop = 'a'), sum(weight) FILTER (WHERE shop <> 'a')",
    ] {
        same(&context, &format!("SELECT shop, {what} FROM sales GROUP BY shop ORDER BY shop"))
            .await;
        same(&context, &format!("SELECT {what} FROM sales WHERE shop = 'b'")).await;
        same(&context, &format!("SELECT {what} FROM sales WHERE shop = 'none'")).await;
    }
}

#[tokio::test]
async fn zeros_and_nans_are_compared_as_datafusion_does() {
    let folder = tempfile::tempdir().unwrap();
    let values = [0.0, -0.0, 1.5, -1.5, f64::NAN, -f64::NAN, f64::INFINITY];
    let batch = record_batch!(
        ("id", Int32, (0..7).collect::<Vec<i32>>()),
        ("weight", Float64, values.to_vec()),
        ("light", Float32, values.map(|value| value as f32).to_vec())
    )
    .unwrap();
    let path = folder.path().join("sales.lanepack");
    write(&path, std::slice::from_ref(&batch), 1024);
    let context = session(1);
    context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
    register_in_memory(&context, "memory", &[batch]);
    for column in ["weight", "light"] {
        for operator in ["=", "<>", "<", "<=", ">", ">="] {
            for constant in ["0.0", "-0.0", "1.5", "'NaN'"] {
                for filter in [
                    format!("{column} {operator} arrow_cast({constant}, 'Float64')"),
                    format!("CAST({constant} AS DOUBLE) {operator} {column}"),
                    format!("{column} {operator} CAST({constant} AS REAL)"),
                ] {
                    same(&context, &format!("SELECT id FROM sales WHERE {filter} ORDER BY id"))
                        .await;
                }
            }
        }
        same(&context, &format!("SELECT id FROM sales WHERE {column} IN (0.0, 1.5) ORDER BY id"))
            .await;
        let joined = format!(
            "SELECT a.id, b.id FROM sales a JOIN sales b ON a.{column} = b.{column} ORDER BY a.id, b.id"
        );
        same(&context, &joined).await;
    }
    same(&context, "SELECT weight, count(*) FROM sales GROUP BY weight ORDER BY weight, count(*)")
        .await;
    same(&context, "SELECT id FROM sales WHERE weight = light ORDER BY id").await;
}

/// Scans of fewer chunks than partitions, which DataFusion gives rows to more partitions behind.
#[tokio::test]
async fn aggregates_of_few_chunks_are_pushed_down() {
    let folder = tempfile::tempdir().unwrap();
    let many: Vec<RecordBatch> = (0..4).map(|_| sales()).collect();
    let path = folder.path().join("sales.lanepack");
    write(&path, &many, 16_384);
    for engine in ["cpu", "auto"] {
        let context = session(8);
        rows(&context, &format!("SET lanepack.engine = '{engine}'")).await;
        context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
        register_in_memory(&context, "memory", &many);
        for query in [
            "SELECT shop, sum(price), avg(weight) FROM sales GROUP BY shop ORDER BY shop",
            "SELECT sum(price * day) FROM sales WHERE name LIKE '%3%'",
            "SELECT shop, count(*) FROM sales WHERE day > 9999 GROUP BY shop",
        ] {
            same(&context, query).await;
            let explained = plan(&context, query).await;
            let may_be = !query.contains('*') || query.contains("count");
            assert_eq!(explained.contains("LanepackAggregateExec"), may_be, "{explained}");
        }
        same(&context, "SELECT name, day FROM sales WHERE day < 3 ORDER BY name, day").await;
        same(&context, "SELECT count(*) FROM (SELECT name FROM sales OFFSET 19000)").await;
    }
}

#[tokio::test]
async fn copies_of_many_files_end() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let place = folder.path().join("days").display().to_string();
    let copy = format!(
        "COPY (SELECT day, name FROM memory) TO '{place}' STORED AS LANEPACK PARTITIONED BY (day)"
    );
    assert_eq!(rows(&context, &copy).await, ["5000"]);
    let create = format!(
        "CREATE EXTERNAL TABLE days STORED AS LANEPACK PARTITIONED BY (day INT) LOCATION '{place}/'"
    );
    rows(&context, &create).await;
    let query = "SELECT count(*), sum(day) FROM sales WHERE day BETWEEN 30 AND 900";
    assert_eq!(rows(&context, &query.replace("sales", "days")).await, rows(&context, query).await);
}

#[tokio::test]
async fn objects_of_stores_are_tables_and_copies() {
    let context = both(tempfile::tempdir().unwrap().path()).await;
    let store = Arc::new(object_store::memory::InMemory::new());
    let url = "memory://bucket".parse::<url::Url>().unwrap();
    context.register_object_store(&url, store);
    rows(&context, "COPY memory TO 'memory://bucket/sales/one.lanepack'").await;
    rows(&context, "COPY memory TO 'memory://bucket/sales/two.lanepack' OPTIONS (chunk_rows 2048)")
        .await;
    let create =
        "CREATE EXTERNAL TABLE stored STORED AS LANEPACK LOCATION 'memory://bucket/sales/'";
    rows(&context, create).await;
    assert_eq!(rows(&context, "SELECT count(*) FROM stored WHERE day = 17").await, ["8"]);
    let one = context.read_lanepack("memory://bucket/sales/one.lanepack").await.unwrap();
    assert_eq!(one.count().await.unwrap(), 5000);
    // A query that fails leaves nothing.
    let copy =
        "COPY (SELECT 1 / (price - 37) AS x FROM memory) TO 'memory://bucket/failed.lanepack'";
    assert!(context.sql(copy).await.unwrap().collect().await.is_err());
    assert!(context.read_lanepack("memory://bucket/failed.lanepack").await.is_err());
}

#[tokio::test]
async fn columns_are_read_late_for_the_rows_of_a_top_k() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let one = over(folder.path(), 1).await;
    let place = folder.path().join("shops").display().to_string();
    rows(&context, &format!("COPY memory TO '{place}' STORED AS LANEPACK PARTITIONED BY (shop)"))
        .await;
    for context in [&context, &one] {
        let create = format!(
            "CREATE EXTERNAL TABLE shops STORED AS LANEPACK PARTITIONED BY (shop) LOCATION '{place}/'"
        );
        rows(context, &create).await;
        for query in [
            "SELECT day, shop, price, weight, name FROM sales ORDER BY weight DESC, day LIMIT 3",
            "SELECT name, price, shop FROM sales WHERE price > 10 ORDER BY day DESC, name LIMIT 2",
            "SELECT name AS n, day + 1, shop FROM sales ORDER BY weight, day LIMIT 2 OFFSET 1",
            "SELECT price, name FROM sales WHERE name LIKE '%7' ORDER BY shop, day LIMIT 1",
            "SELECT max(name) FROM (SELECT name FROM sales ORDER BY weight, day LIMIT 2)",
        ] {
            let expected = same(context, query).await;
            let by_shop = query.replace("sales", "shops");
            assert_eq!(rows(context, &by_shop).await, expected, "{query}");
            let is_late = !query.contains("LIKE");
            let explained = plan(context, query).await;
            assert!(!is_late || explained.contains("LanepackTakeExec"), "{query}: {explained}");
        }
        // Few rows, or nothing that could be read late.
        for query in [
            "SELECT day, name FROM sales ORDER BY day, name LIMIT 10",
            "SELECT name, shop FROM sales ORDER BY day, name LIMIT 900",
        ] {
            same(context, query).await;
            assert!(!plan(context, query).await.contains("LanepackTakeExec"), "{query}");
        }
    }
}

#[tokio::test]
async fn least_values_keep_the_rows_of_other_aggregates() {
    let folder = tempfile::tempdir().unwrap();
    let context = both(folder.path()).await;
    let one = over(folder.path(), 1).await;
    for context in [&context, &one] {
        for query in [
            "SELECT min(day), max(day + 1) FROM sales",
            "SELECT min(day), max(price) FROM sales WHERE length(name) > 3",
            "SELECT max(day), min(upper(name)), count(*) FROM sales WHERE day > 2",
            "SELECT max(weight), min(name) FROM sales",
        ] {
            same(context, query).await;
            assert!(!plan(context, query).await.contains("dynamic_filters"), "{query}");
        }
    }
}

/// Sums that do not fit behind chunks of which they do.
#[tokio::test]
async fn chunks_that_are_left_are_those_of_the_replaced_plan() {
    let folder = tempfile::tempdir().unwrap();
    let rows_of_chunk = 1024;
    let values = |chunk: i64| match chunk {
        7 => vec![i64::MAX / 300; rows_of_chunk],
        _ => (0..rows_of_chunk as i64).map(|row| row * chunk).collect(),
    };
    let batch = |chunk: i64| {
        let keys: Vec<i64> = (0..rows_of_chunk as i64).map(|row| row % 3).collect();
        record_batch!(("key", Int64, keys), ("value", Int64, values(chunk))).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..24).map(batch).collect();
    let path = folder.path().join("sales.lanepack");
    write(&path, &batches, rows_of_chunk);
    for partitions in [1, 2] {
        let context = session(partitions);
        context.register_lanepack("sales", path.to_str().unwrap()).await.unwrap();
        register_in_memory(&context, "memory", &batches);
        for query in [
            "SELECT sum(value), count(*) FROM sales",
            "SELECT sum(value) FILTER (WHERE key = 1), avg(key) FROM sales",
            "SELECT key, sum(value), max(value) FROM sales GROUP BY key ORDER BY key",
        ] {
            same(&context, query).await;
            let explained = rows(&context, &format!("EXPLAIN ANALYZE {query}")).await.concat();
            assert!(explained.contains("partitions_left=1"), "{explained}");
        }
    }
}

#[tokio::test]
async fn declared_texts_and_long_binaries() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(2);
    let long = FixedSizeBinaryArray::try_from_iter((0..3_u8).map(|byte| vec![byte; 100])).unwrap();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("note", Arc::new(StringArray::from(vec!["a", "b", "c"]))), ("long", Arc::new(long))];
    write(&folder.path().join("t.lanepack"), &[RecordBatch::try_from_iter(columns).unwrap()], 1024);
    let place = folder.path().display();
    let create =
        format!("CREATE EXTERNAL TABLE t (note VARCHAR) STORED AS LANEPACK LOCATION '{place}/'");
    rows(&context, &create).await;
    assert_eq!(
        rows(&context, "SELECT note FROM t WHERE note > 'a' ORDER BY note").await,
        ["b", "c"]
    );
    let create = format!("CREATE EXTERNAL TABLE all_of_it STORED AS LANEPACK LOCATION '{place}/'");
    rows(&context, &create).await;
    assert_eq!(
        rows(&context, "SELECT count(long) FROM all_of_it WHERE long IS NOT NULL").await,
        ["3"]
    );
    for wrong in ["PARTITIONED BY (a, a)", "WITH ORDER (nobody)", "PARTITIONED BY (year)"] {
        let create =
            format!("CREATE EXTERNAL TABLE wrong STORED AS LANEPACK {wrong} LOCATION '{place}/'");
        let failed = match context.sql(&create).await {
            Ok(frame) => frame.collect().await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert!(failed.is_err(), "{wrong}");
    }
}
