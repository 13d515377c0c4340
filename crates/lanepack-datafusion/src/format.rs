//! Files that `COPY ... TO 'x.lanepack'` writes.
//!
//! Batches go to a thread that compresses and writes: to a file of the system, which takes its name once it is
//! complete, or to an upload of a store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{GetExt, Statistics, config_err, exec_err, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::get_writer_schema;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{
    FileOpener, FileScanConfig, FileSink, FileSinkConfig, FileSource,
};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, SendableRecordBatchStream,
};
use lanepack::file::{LocalFile, ObjectWriter, Writer};
use lanepack::{Effort, Options};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tokio::sync::mpsc::Receiver;

use crate::external;
use crate::scan::apart;
use crate::table::{EXTENSION, is_system};

/// The format in `COPY ... STORED AS LANEPACK`, and of files whose name ends in `.lanepack`.
#[derive(Debug, Default)]
pub struct LanepackFormatFactory {}

impl GetExt for LanepackFormatFactory {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }
}

impl FileFormatFactory for LanepackFormatFactory {
    /// With the options of `COPY`: `effort` (`fast`, `balanced`, `small`) and `chunk_rows`.
    fn create(
        &self,
        _: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(LanepackFormat { options: options_of(options)? }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(LanepackFormat { options: Options::default() })
    }
}

fn options_of(given: &HashMap<String, String>) -> Result<Options> {
    let mut options = Options::default();
    for (key, value) in given {
        let name = key.strip_prefix("format.").unwrap_or(key);
        // Of DataFusion.
        if name.starts_with("execution.") {
            continue;
        }
        options = match name {
            "effort" => options.with_effort(match value.to_ascii_lowercase().as_str() {
                "fast" => Effort::Fast,
                "balanced" => Effort::Balanced,
                "small" => Effort::Small,
                _ => {
                    return config_err!("effort is 'fast', 'balanced' or 'small', found '{value}'");
                }
            }),
            "chunk_rows" => match value.parse() {
                Ok(rows) => options.with_chunk_rows(rows),
                Err(_) => return config_err!("chunk_rows is a number of rows, found '{value}'"),
            },
            _ => {
                return config_err!(
                    "lanepack files have options effort and chunk_rows, found '{name}'"
                );
            }
        };
    }
    // What is out of range is an error of the first writer as well, but after the query has begun.
    let some = Schema::new(vec![Field::new("some", DataType::Int32, true)]);
    Writer::try_new(Vec::new(), &some, options.clone()).map_err(external)?;
    Ok(options)
}

/// Writes files of lanepack. Tables are made by [`LanepackTableFactory`](crate::LanepackTableFactory).
#[derive(Debug)]
pub struct LanepackFormat {
    options: Options,
}

#[async_trait]
impl FileFormat for LanepackFormat {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        match compression.is_compressed() {
            false => Ok(self.get_ext()),
            true => exec_err!("lanepack files are compressed by lanepack alone"),
        }
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        _: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        not_impl_err!("tables of lanepack files are made by LanepackTable")
    }

    async fn infer_stats(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        _: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&schema))
    }

    async fn create_physical_plan(
        &self,
        _: &dyn Session,
        _: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("tables of lanepack files are made by LanepackTable")
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.insert_op != InsertOp::Append {
            return not_impl_err!("files of lanepack are not overwritten by INSERT");
        }
        let sink = LanepackSink { config, options: self.options.clone() };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(NoSource { table_schema, metrics: ExecutionPlanMetricsSet::new() })
    }
}

/// The source that a [`FileFormat`] has to have, though plans of lanepack have none.
#[derive(Debug, Clone)]
struct NoSource {
    table_schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for NoSource {
    fn create_file_opener(
        &self,
        _: Arc<dyn ObjectStore>,
        _: &FileScanConfig,
        _: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        not_impl_err!("tables of lanepack files are made by LanepackTable")
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        EXTENSION
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Writes batches to files: as many as DataFusion divides them into.
#[derive(Debug)]
struct LanepackSink {
    config: FileSinkConfig,
    options: Options,
}

impl DisplayAs for LanepackSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LanepackSink(to={})", self.config.original_url)
    }
}

#[async_trait]
impl DataSink for LanepackSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl FileSink for LanepackSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        _: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        mut files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let is_local = is_system(store.as_ref());
        let schema = get_writer_schema(&self.config);
        let mut tasks: JoinSet<Result<(Output, u64)>> = JoinSet::new();
        while let Some((path, batches)) = files.recv().await {
            let (schema, options, store) = (schema.clone(), self.options.clone(), store.clone());
            match is_local {
                true => {
                    let path = std::path::Path::new("/").join(path.as_ref());
                    tasks.spawn(to_file(path, batches, schema, options))
                }
                false => tasks.spawn(to_object(store, path, batches, schema, options)),
            };
        }
        let (mut outputs, mut all_rows, mut failure) = (Vec::new(), 0, None);
        while let Some(task) = tasks.join_next().await {
            match task.map_err(joining).flatten() {
                Ok((output, rows)) => {
                    outputs.push(output);
                    all_rows += rows;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // Where batches end early their query has failed, which only this tells.
        let failure = match demux.join_unwind().await.map_err(joining).flatten() {
            Err(error) => failure.or(Some(error)),
            Ok(()) => failure,
        };
        let mut failure = failure;
        for output in outputs {
            match failure {
                None => failure = output.finish().await.err(),
                Some(_) => output.abort().await,
            }
        }
        failure.map_or(Ok(all_rows), Err)
    }
}

fn joining(error: tokio::task::JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// A file that has all its rows, but not its end.
enum Output {
    File(Box<Writer<LocalFile>>),
    Object(Box<ObjectWriter>),
}

impl Output {
    async fn finish(self) -> Result<()> {
        match self {
            Self::File(mut writer) => apart(move || writer.finish().map_err(external)).await,
            Self::Object(mut writer) => writer.finish().await.map_err(external),
        }
    }

    /// Leaves nothing of it.
    async fn abort(self) {
        match self {
            // It goes with the writer.
            Self::File(_) => {}
            // The failure that it is given up for is what callers want to know.
            Self::Object(writer) => drop(writer.abort().await),
        }
    }
}

/// Writes the rows of a file of the system. There may be many files, so none has a thread while it waits.
async fn to_file(
    path: std::path::PathBuf,
    mut batches: Receiver<RecordBatch>,
    schema: SchemaRef,
    options: Options,
) -> Result<(Output, u64)> {
    let create = move || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| {
                DataFusionError::from(error).context(folder.display().to_string())
            })?;
        }
        Writer::create(&path, &schema, options).map_err(external)
    };
    let (mut writer, mut rows) = (Box::new(apart(create).await?), 0);
    while let Some(batch) = batches.recv().await {
        rows += batch.num_rows() as u64;
        let write = move || writer.write(&batch).map(|()| writer).map_err(external);
        writer = apart(write).await?;
    }
    let flush = move || writer.flush().map(|()| writer).map_err(external);
    Ok((Output::File(apart(flush).await?), rows))
}

/// Writes the rows of an object of a store.
async fn to_object(
    store: Arc<dyn ObjectStore>,
    path: Path,
    mut batches: Receiver<RecordBatch>,
    schema: SchemaRef,
    options: Options,
) -> Result<(Output, u64)> {
    let mut writer = ObjectWriter::try_new(store, &path, &schema, options).map_err(external)?;
    let mut rows = 0;
    while let Some(batch) = batches.recv().await {
        rows += batch.num_rows() as u64;
        if let Err(error) = writer.write(&batch).await {
            // What cannot be removed either is less of interest than why.
            drop(writer.abort().await);
            return Err(external(error));
        }
    }
    Ok((Output::Object(Box::new(writer)), rows))
}
