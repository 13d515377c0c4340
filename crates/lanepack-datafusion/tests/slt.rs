//! Files of sqllogictest: a query, its result, and what of it is pushed down, by its plan.
//!
//! `LANEPACK_COMPLETE=1 cargo test -p lanepack-datafusion --test slt` writes results into the files; look at the
//! difference.

mod common;

use std::path::Path;

use common::*;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use lanepack_datafusion::SessionContextExt;
use sqllogictest::{
    AsyncDB, DBOutput, DefaultColumnType, Runner, default_column_validator, default_normalizer,
    default_validator,
};

/// A session with two partitions and the table `sales`, chunks of which have 1,024 rows.
struct Session {
    context: SessionContext,
    _folder: tempfile::TempDir,
}

impl Session {
    async fn new() -> Result<Self, DataFusionError> {
        let context = session(2);
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("sales.lanepack");
        write(&path, &[sales()], 1024);
        context.register_lanepack("sales", &path.display().to_string()).await?;
        Ok(Self { context, _folder: folder })
    }
}

#[async_trait::async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    /// A plan is a row for each line, with a dot for each step that it is indented by.
    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let is_plan = sql.trim_start().to_ascii_uppercase().starts_with("EXPLAIN ");
        let batches = self.context.sql(sql).await?.collect().await?;
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in batches.iter().flat_map(rows_of) {
            match row.strip_prefix("physical_plan|").filter(|_| is_plan) {
                Some(plan) => rows.extend(plan.lines().map(|line| {
                    let text = line.trim_start();
                    vec![format!("{}{text}", ".".repeat((line.len() - text.len()) / 2))]
                })),
                None if is_plan => {}
                None => rows.push(row.split('|').map(str::to_owned).collect()),
            }
        }
        let columns = rows.first().map_or(0, Vec::len);
        Ok(match columns {
            0 => DBOutput::StatementComplete(0),
            _ => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows },
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "lanepack"
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5);
    for path in paths {
        let mut runner = Runner::new(Session::new);
        match std::env::var_os("LANEPACK_COMPLETE") {
            Some(_) => runner
                .update_test_file(
                    &path,
                    " ",
                    default_validator,
                    default_normalizer,
                    default_column_validator,
                )
                .await
                .unwrap(),
            None => runner
                .run_file_async(&path)
                .await
                .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        }
    }
}
