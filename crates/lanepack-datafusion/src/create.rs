//! What a session gains: `CREATE EXTERNAL TABLE`, `COPY`, the rule for aggregates, and methods that open files.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::{DataFrame, SessionContext};

use crate::aggregate::PushAggregates;
use crate::engine::LanepackOptions;
use crate::format::LanepackFormatFactory;
use crate::late::TakeLate;
use crate::table::{LanepackTable, TableOptions, divided_schema};

/// Makes tables of `CREATE EXTERNAL TABLE ... STORED AS LANEPACK LOCATION '...'`, with columns or those of the
/// files, `PARTITIONED BY` columns whose values are in paths (`year=1994/`), and `WITH ORDER`.
#[derive(Debug, Default)]
pub struct LanepackTableFactory {}

#[async_trait]
impl TableProviderFactory for LanepackTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        if let Some(option) = command.options.keys().next() {
            return plan_err!("tables of lanepack files have no options, found '{option}'");
        }
        let path_columns = &command.table_partition_cols;
        let (schema, path_fields) = divided_schema(command.schema.as_arrow(), path_columns)?;
        let options = TableOptions {
            schema,
            path_fields,
            order: command.order_exprs.clone(),
            definition: command.definition.clone(),
        };
        let table = LanepackTable::open_with(session, &command.locations, options).await?;
        Ok(Arc::new(table))
    }
}

/// Teaches a session lanepack: tables (`STORED AS LANEPACK`), files that `COPY` writes, the setting
/// `lanepack.engine`, and aggregates that are computed where files are scanned.
///
/// ```
/// use datafusion::prelude::SessionContext;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("days.lanepack");
/// let context = SessionContext::new();
/// lanepack_datafusion::register(&context);
/// let copy = format!("COPY (VALUES (1, 'Monday'), (2, 'Tuesday')) TO '{}'", file.display());
/// context.sql(&copy).await?.collect().await?;
/// let create = format!("CREATE EXTERNAL TABLE days STORED AS LANEPACK LOCATION '{}'", file.display());
/// context.sql(&create).await?.collect().await?;
/// let found = context.sql("SELECT column2 FROM days WHERE column1 = 2").await?.collect().await?;
/// assert_eq!(found[0].num_rows(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register(context: &SessionContext) {
    let shared = context.state_ref();
    let mut state = shared.write();
    let is_known = state.table_factories().contains_key("LANEPACK");
    if is_known {
        return;
    }
    let session_id = state.session_id().to_owned();
    let mut rules = state.physical_optimizers().to_vec();
    let of_top_k = rules.iter().rposition(|rule| rule.name() == "FilterPushdown(Post)");
    rules.insert(of_top_k.unwrap_or(rules.len()), Arc::new(TakeLate::default()));
    rules.push(Arc::new(PushAggregates::default()));
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(session_id)
        .with_physical_optimizer_rules(rules)
        .build();
    let extensions = &mut state.config_mut().options_mut().extensions;
    if extensions.get::<LanepackOptions>().is_none() {
        extensions.insert(LanepackOptions::default());
    }
    let factories = state.table_factories_mut();
    factories.insert("LANEPACK".to_owned(), Arc::new(LanepackTableFactory::default()));
    // It is only refused if there is such a format already.
    let _ = state.register_file_format(Arc::new(LanepackFormatFactory::default()), false);
}

/// Files of lanepack by methods of a session, as others have them for Parquet.
#[async_trait]
pub trait SessionContextExt {
    /// The rows of files: a file, a folder (ending in `/`) or a pattern.
    ///
    /// # Errors
    /// As [`LanepackTable::open`].
    async fn read_lanepack(&self, place: &str) -> Result<DataFrame>;

    /// Gives files a name in SQL.
    ///
    /// # Errors
    /// As [`LanepackTable::open`], or if there is a table of this name.
    async fn register_lanepack(&self, name: &str, place: &str) -> Result<()>;
}

#[async_trait]
impl SessionContextExt for SessionContext {
    async fn read_lanepack(&self, place: &str) -> Result<DataFrame> {
        let table = LanepackTable::open(&self.state(), &[place]).await?;
        self.read_table(Arc::new(table))
    }

    async fn register_lanepack(&self, name: &str, place: &str) -> Result<()> {
        let table = LanepackTable::open(&self.state(), &[place]).await?;
        self.register_table(name, Arc::new(table))?;
        Ok(())
    }
}
