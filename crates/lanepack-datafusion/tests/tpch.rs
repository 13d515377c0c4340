//! The 22 queries of TPC-H over lanepack files give what they give over tables in memory.

mod common;

use std::path::Path;

use common::*;
use lanepack_datafusion::SessionContextExt;

const SCALE_FACTOR: f64 = 0.02;

fn queries() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tpch");
    let query = |number: usize| {
        let name = format!("q{number:02}");
        let text = std::fs::read_to_string(folder.join(format!("{name}.sql"))).unwrap();
        (name, text)
    };
    (1..=22).map(query).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_files_equal_those_over_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (in_memory, mut of_files) = (session(2), Vec::new());
    for (partitions, with_joins) in [(1, false), (4, false), (1, true), (4, true)] {
        let context = session(partitions);
        rows(&context, &format!("SET lanepack.push_joins = {with_joins}")).await;
        of_files.push(context);
    }
    for (name, batches) in tpch(SCALE_FACTOR) {
        let path = folder.path().join(format!("{name}.lanepack"));
        write(&path, &batches, 8192);
        register_in_memory(&in_memory, name, &batches);
        for context in &of_files {
            context.register_lanepack(name, path.to_str().unwrap()).await.unwrap();
        }
    }
    let mut with_rows = 0;
    for (name, query) in queries() {
        // Rows that are equal in the order that is asked for may come in any order.
        let mut expected = rows(&in_memory, &query).await;
        expected.sort_unstable();
        with_rows += usize::from(!expected.is_empty());
        for context in &of_files {
            let mut found = rows(context, &query).await;
            found.sort_unstable();
            assert_eq!(found, expected, "{name}");
        }
    }
    assert!(with_rows >= 19, "{with_rows} queries have rows");
}

#[tokio::test]
async fn plans_have_what_scans_do() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(2);
    for (name, batches) in tpch(0.001) {
        let path = folder.path().join(format!("{name}.lanepack"));
        write(&path, &batches, 1024);
        context.register_lanepack(name, path.to_str().unwrap()).await.unwrap();
    }
    for (name, query) in queries() {
        let plan = plan(&context, &query).await;
        let is_pushed = plan.contains("LanepackAggregateExec");
        // Those whose aggregates are of one table alone.
        let may_be = ["q01", "q06", "q15", "q17", "q18", "q20", "q22"];
        if ["q01", "q06", "q15"].contains(&name.as_str()) {
            assert!(is_pushed && !plan.contains("FilterExec: l_"), "{name}: {plan}");
        } else if !may_be.contains(&name.as_str()) {
            assert!(!is_pushed, "{name}: {plan}");
        }
        if ["q03", "q05", "q08", "q10"].contains(&name.as_str()) {
            assert!(plan.contains("dynamic_filters=["), "{name}: {plan}");
        }
        assert!(plan.contains("LanepackExec") || is_pushed, "{name}: {plan}");
    }
}
