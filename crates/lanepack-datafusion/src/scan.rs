//! A scan of some columns and rows of a table, as part of a plan.
//!
//! ```text
//! plan       filters --exact--> of the scan; others DataFusion applies
//! execution  a partition: which of its chunks bounds and filters leave --> a step for each chunk (with a GPU: for some)
//!            a step: the filters of joins and top-k, as they are by then; the kept rows of its chunks, by a thread
//!                    outside of the runtime, two steps at a time
//! ```
//!
//! Nothing is read before a stream is polled, as a join fills the filter of this side while it reads the other one.
//! Between steps no thread waits, and a stream that is dropped starts no other.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::{conjunction, reassign_expr_columns};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalSortExpr,
};
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType, apply_expression_roots,
};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use lanepack::scan::{Expr, Scan};

use crate::engine::EngineKind;
use crate::external;
use crate::files::Files;
use crate::filter;

/// The name of a column of numbers of rows, counted from the first row of the first file.
pub(crate) const ROW_NUMBERS: &str = "__lanepack_row";

/// Steps of a partition that run at a time: while what one has found is looked at, the next one reads.
const STEPS_AT_A_TIME: usize = 2;

/// A filter whose rows the scan keeps, and no others.
#[derive(Debug, Clone)]
struct Exact {
    /// Of the columns of the table.
    physical: Arc<dyn PhysicalExpr>,
    expr: Expr,
}

/// A scan of lanepack files.
///
/// `EXPLAIN` shows the columns, the filters that it applies, and whether there are others that joins or a top-k
/// will give (`dynamic_filters`); `EXPLAIN ANALYZE` the chunks that were read and not (`chunks_scanned`,
/// `chunks_pruned`) and their bytes (`bytes_scanned`).
#[derive(Debug, Clone)]
pub struct LanepackExec {
    files: Arc<Files>,
    /// The chunks of each partition.
    parts: Arc<[Vec<Range<usize>>]>,
    /// The columns that it gives, by their numbers in the table.
    columns: Vec<usize>,
    /// Whether it gives the numbers of rows behind these columns.
    has_row_numbers: bool,
    exact: Vec<Exact>,
    /// Filters that keep what others keep, which DataFusion applies, and maybe more.
    weaker: Vec<Expr>,
    /// Filters that change while the query runs.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows of a partition at most.
    limit: Option<usize>,
    /// The order of rows within each partition, in columns of the table.
    order: Vec<PhysicalSortExpr>,
    engine: EngineKind,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LanepackExec {
    pub(crate) fn try_new(
        files: Arc<Files>,
        parts: Vec<Vec<Range<usize>>>,
        columns: Vec<usize>,
        order: Vec<PhysicalSortExpr>,
        engine: EngineKind,
    ) -> Result<Self> {
        let parts: Arc<[Vec<Range<usize>>]> = parts.into();
        let schema = Arc::new(files.schema().project(&columns)?);
        let properties = properties_of(schema, parts.len(), &order);
        let (exact, weaker, dynamic, metrics) = Default::default();
        let (limit, has_row_numbers) = (None, false);
        Ok(Self {
            files,
            parts,
            columns,
            has_row_numbers,
            exact,
            weaker,
            dynamic,
            limit,
            order,
            engine,
            properties,
            metrics,
        })
    }

    /// The same with other columns of the table.
    pub(crate) fn with_columns(&self, columns: Vec<usize>) -> Result<Self> {
        let schema = Arc::new(self.files.schema().project(&columns)?);
        let properties = properties_of(schema, self.parts.len(), &self.order);
        Ok(Self { columns, properties, has_row_numbers: false, ..self.clone() })
    }

    /// The same with other columns, and the numbers of rows behind them.
    pub(crate) fn with_row_numbers(&self, columns: Vec<usize>) -> Result<Self> {
        let schema = self.files.schema().project(&columns)?;
        let numbers = Arc::new(Field::new(ROW_NUMBERS, DataType::UInt64, false));
        let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain([numbers]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let properties = properties_of(schema, self.parts.len(), &self.order);
        Ok(Self { columns, properties, has_row_numbers: true, ..self.clone() })
    }

    /// With an exact filter, of the columns of the table; none if lanepack has none that keeps the same rows.
    pub(crate) fn with_filter(&self, physical: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let expr = exact_filter(&self.files, physical)?;
        let mut scan = self.clone();
        scan.exact.push(Exact { physical: physical.clone(), expr });
        Some(scan)
    }

    /// With a filter that keeps the rows of another one, of the columns of the table, and maybe more; none if that may
    /// be all.
    pub(crate) fn with_weaker_filter(&self, physical: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let expr = weaker_filter(&self.files, physical)?;
        let mut scan = self.clone();
        scan.weaker.push(expr);
        Some(scan)
    }

    pub(crate) fn with_limit(&self, limit: Option<usize>) -> Self {
        Self { limit, ..self.clone() }
    }

    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The columns that it gives, by their numbers in the table.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub(crate) fn has_row_numbers(&self) -> bool {
        self.has_row_numbers
    }

    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }

    pub(crate) fn engine(&self) -> EngineKind {
        self.engine
    }

    pub(crate) fn has_dynamic_filters(&self) -> bool {
        !self.dynamic.is_empty()
    }

    /// Rows of its chunks, before filters.
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().flatten().map(|span| self.files.rows_of(span)).sum()
    }

    pub(crate) fn partitions(&self) -> usize {
        self.parts.len()
    }

    /// The same without some filters that change, by their identities; none if it has none of them.
    pub(crate) fn without_dynamic_filters(&self, ids: &[u64]) -> Option<Self> {
        let mut scan = self.clone();
        scan.dynamic.retain(|filter| !ids.iter().any(|id| has_id(filter, *id)));
        (scan.dynamic.len() < self.dynamic.len()).then_some(scan)
    }

    /// The exact filters, as text.
    pub(crate) fn filters_text(&self) -> String {
        let filters: Vec<String> = self.exact.iter().map(|exact| exact.expr.to_string()).collect();
        filters.join(" AND ")
    }

    /// A scan of some chunks by the exact filters and another one.
    pub(crate) fn scan_of(&self, chunks: Range<usize>, dynamic: Option<&Expr>) -> Scan<'_> {
        let scan = self.files.dataset().scan_chunks(chunks);
        let exact = self.exact.iter().map(|exact| &exact.expr);
        exact
            .chain(&self.weaker)
            .chain(dynamic)
            .fold(scan, |scan, filter| scan.filter(filter.clone()))
    }

    /// Filters of the columns that it gives, as filters of the table's.
    fn of_table(&self, filter: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        reassign_expr_columns(filter.clone(), self.files.schema()).ok()
    }

    /// The names of the columns that it gives and that are in files.
    fn own_names(&self) -> Vec<&str> {
        let own = self.columns.iter().filter(|column| !self.files.is_of_path(**column));
        own.map(|column| self.files.schema().field(*column).name().as_str()).collect()
    }

    /// The chunks of a partition that a scan of them has to read, at most so many for each step, and their bytes in the
    /// columns of the filters and in those that are named.
    pub(crate) fn steps<'a>(
        &self,
        partition: usize,
        scan: impl Fn(Range<usize>) -> Scan<'a>,
        names: &[&str],
        most: usize,
        metrics: &ReadMetrics,
    ) -> Result<Vec<(Range<usize>, u64)>> {
        let mut steps: Vec<(Range<usize>, u64)> = Vec::new();
        for span in &self.parts[partition] {
            let reads = scan(span.clone()).chunk_reads(names).map_err(external)?;
            metrics.pruned.add(span.len() - reads.len());
            // Steps have chunks of one file.
            let first = steps.len();
            for (chunk, bytes) in reads {
                match steps[first..].last_mut() {
                    Some((step, all)) if step.end == chunk && step.len() < most => {
                        step.end = chunk + 1;
                        *all += bytes;
                    }
                    _ => steps.push((chunk..chunk + 1, bytes)),
                }
            }
        }
        Ok(steps)
    }

    /// The kept rows of a step, as many as the limit allows, and the first of its chunks.
    fn step(
        &self,
        step: (Range<usize>, u64),
        dynamic: &DynamicFilters,
        metrics: &ReadMetrics,
    ) -> Result<(usize, RecordBatch)> {
        let (chunks, chunk) = (step.0.clone(), step.0.start);
        let dynamic = dynamic.now(&self.files)?;
        let names = self.own_names();
        let keeps_all = self.exact.is_empty() && self.weaker.is_empty() && dynamic.is_none();
        if names.is_empty() && keeps_all && !self.has_row_numbers {
            let options =
                RecordBatchOptions::new().with_row_count(Some(self.files.rows_of(&chunks)));
            let none =
                RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &options);
            return Ok((chunk, none?));
        }
        let engine = self.engine.engine()?;
        let scan = self.scan_of(chunks, dynamic.as_ref());
        let found = match self.limit {
            Some(limit) => scan.clone().limit(limit).gather(&names, &engine),
            None => scan.gather(&names, &engine),
        };
        let mut found = found.map_err(external)?;
        if self.has_row_numbers {
            let numbers = scan.rows(&engine).map_err(external)?;
            let before = self.files.rows_of(&(0..chunk)) as u64;
            let numbers: UInt64Array = numbers.unary(|number| before + number);
            found = with_column(&found, ROW_NUMBERS, Arc::new(numbers))?;
        }
        match dynamic {
            None => metrics.count(&step),
            // Chunks may be excluded since the steps were made.
            Some(_) => metrics.count_reads(&step, &scan.chunk_reads(&names).map_err(external)?),
        }
        Ok((chunk, found))
    }

    /// Some rows of a batch of the file that a chunk is in, with the columns of its path.
    fn output(&self, found: &RecordBatch, chunk: usize, rows: Range<usize>) -> Result<RecordBatch> {
        let mut own = found.columns().iter().map(|array| array.slice(rows.start, rows.len()));
        let columns = self.columns.iter().map(|column| -> Result<ArrayRef> {
            if self.files.is_of_path(*column) {
                return self.files.value_of_path(*column, chunk).to_array_of_size(rows.len());
            }
            match own.next() {
                Some(array) => Ok(array),
                None => internal_err!("lanepack gave fewer columns than asked for"),
            }
        });
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        // The numbers of rows, if there are any.
        columns.extend(own);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema(), columns, &options)?)
    }

    /// The batches of what a step has found, of at most so many rows each.
    fn outputs(&self, chunk: usize, found: &RecordBatch, most: usize) -> Vec<Result<RecordBatch>> {
        let starts = (0..found.num_rows()).step_by(most);
        let end = |start: usize| found.num_rows().min(start + most);
        starts.map(|start| self.output(found, chunk, start..end(start))).collect()
    }

    /// The same with other chunks in a partition.
    pub(crate) fn with_part(&self, partition: usize, spans: Vec<Range<usize>>) -> Self {
        let mut parts = self.parts.to_vec();
        parts[partition] = spans;
        Self { parts: parts.into(), ..self.clone() }
    }

    /// The filters that change.
    pub(crate) fn dynamic_filters(&self) -> DynamicFilters {
        DynamicFilters { physical: self.dynamic.clone(), known: Mutex::default() }
    }

    /// Statistics of the rows that filters keep, as DataFusion estimates them.
    fn estimated(&self) -> Result<Statistics> {
        let all = self.files.statistics().clone();
        let rows = self.rows();
        // Of files that conditions of their paths leave.
        let all = match all.num_rows == Precision::Exact(rows) {
            true => all,
            false => Statistics { num_rows: Precision::Exact(rows), ..all.to_inexact() },
        };
        if self.exact.is_empty() {
            return Ok(all);
        }
        let everything: Vec<usize> = (0..self.files.schema().fields().len()).collect();
        let unfiltered = Self { exact: Vec::new(), limit: None, ..self.with_columns(everything)? };
        let filters = self.exact.iter().map(|exact| exact.physical.clone());
        let filtered = FilterExec::try_new(conjunction(filters), Arc::new(unfiltered))?;
        let estimated = StatisticsContext::new().compute(&filtered, &StatisticsArgs::new())?;
        Ok(Arc::unwrap_or_clone(estimated).to_inexact())
    }
}

/// Whether an expression is another one, or has it as a part.
fn has_id(expr: &Arc<dyn PhysicalExpr>, id: u64) -> bool {
    expr.expression_id() == Some(id) || expr.children().into_iter().any(|child| has_id(child, id))
}

/// A batch with a column more.
fn with_column(batch: &RecordBatch, name: &str, column: ArrayRef) -> Result<RecordBatch> {
    let field = Arc::new(Field::new(name, column.data_type().clone(), false));
    let fields: Vec<FieldRef> = batch.schema().fields().iter().cloned().chain([field]).collect();
    let columns = batch.columns().iter().cloned().chain([column]).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn properties_of(
    schema: SchemaRef,
    partitions: usize,
    order: &[PhysicalSortExpr],
) -> Arc<PlanProperties> {
    let mut ordering = Vec::new();
    for sort in order {
        // Rows are in the order of the first of several columns, too.
        let Ok(expr) = reassign_expr_columns(sort.expr.clone(), &schema) else { break };
        ordering.push(PhysicalSortExpr { expr, options: sort.options });
    }
    let mut equivalences = EquivalenceProperties::new(schema);
    if let Some(ordering) = LexOrdering::new(ordering) {
        equivalences.add_ordering(ordering);
    }
    let partitioning = Partitioning::UnknownPartitioning(partitions);
    let (emission, bounded) = (EmissionType::Incremental, Boundedness::Bounded);
    let properties = PlanProperties::new(equivalences, partitioning, emission, bounded);
    // `execute` sees to it.
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

/// What a filter keeps, as an exact filter of lanepack that fits the files.
pub(crate) fn exact_filter(files: &Files, physical: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    let expr = filter::exact(physical, files.own_schema())?;
    files.dataset().scan().filter(expr.clone()).check().is_ok().then_some(expr)
}

/// A filter of lanepack that keeps the rows of another one and fits the files.
pub(crate) fn weaker_filter(files: &Files, physical: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    let expr = filter::weaker(physical, files.own_schema())?;
    files.dataset().scan().filter(expr.clone()).check().is_ok().then_some(expr)
}

/// Filters that joins and top-k change while a query runs, and what they were last.
#[derive(Debug)]
pub(crate) struct DynamicFilters {
    physical: Vec<Arc<dyn PhysicalExpr>>,
    known: Mutex<Option<(u64, Option<Expr>)>>,
}

impl DynamicFilters {
    /// A filter that keeps what all of them keep by now.
    pub fn now(&self, files: &Files) -> Result<Option<Expr>> {
        if self.physical.is_empty() {
            return Ok(None);
        }
        let generations = self.physical.iter().map(snapshot_generation);
        let generation = generations.fold(0, u64::wrapping_add);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, filter)) = known.as_ref()
            && *of == generation
        {
            return Ok(filter.clone());
        }
        let mut filter = None;
        for physical in &self.physical {
            let now = snapshot_physical_expr(physical.clone())?;
            // It is a help: DataFusion tests what does not fit the columns.
            if let Some(expr) = weaker_filter(files, &now) {
                filter = Some(match filter {
                    None => expr,
                    Some(before) => Expr::and(before, expr),
                });
            }
        }
        *known = Some((generation, filter.clone()));
        Ok(filter)
    }
}

/// What of a partition is read.
#[derive(Debug, Clone)]
pub(crate) struct ReadMetrics {
    scanned: Count,
    pruned: Count,
    bytes: Count,
    /// What calls have taken that the CPU and GPUs did.
    times: [Time; 2],
}

impl ReadMetrics {
    pub fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            scanned: counter("chunks_scanned"),
            pruned: counter("chunks_pruned"),
            bytes: counter("bytes_scanned"),
            times: [time("time_cpu"), time("time_gpu")],
        }
    }

    /// Does something by an engine, and adds its time to that of the device that the engine took.
    pub fn timed<T>(&self, engine: EngineKind, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.times[usize::from(engine.took_gpu())].add_elapsed(start);
        done
    }

    /// Counts a step of whose chunks some are read.
    pub fn count_reads(&self, (chunks, _): &(Range<usize>, u64), reads: &[(usize, u64)]) {
        self.scanned.add(reads.len());
        self.pruned.add(chunks.len() - reads.len());
        self.bytes.add(reads.iter().map(|(_, bytes)| *bytes as usize).sum());
    }

    /// Counts a step.
    pub fn count(&self, (chunks, bytes): &(Range<usize>, u64)) {
        self.scanned.add(chunks.len());
        self.bytes.add(*bytes as usize);
    }
}

/// Has a thread outside of the runtime do something.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(work).join().await;
    done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

impl DisplayAs for LanepackExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let filters = self.filters_text();
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "format=lanepack")?;
            if !filters.is_empty() {
                writeln!(f, "filter={filters}")?;
            }
            return Ok(());
        }
        write!(
            f,
            "LanepackExec: files={}, partitions={}, columns=[{}]",
            self.files.count_of(self.parts.iter().flatten()),
            self.parts.len(),
            names.join(", ")
        )?;
        if !filters.is_empty() {
            write!(f, ", filter={filters}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if !self.weaker.is_empty() {
            let filters: Vec<String> = self.weaker.iter().map(ToString::to_string).collect();
            write!(f, ", weaker_filter={}", filters.join(" AND "))?;
        }
        if self.has_dynamic_filters() {
            let filters: Vec<String> = self.dynamic.iter().map(ToString::to_string).collect();
            write!(f, ", dynamic_filters=[{}]", filters.join(", "))?;
        }
        write!(f, "{}", self.engine.suffix())
    }
}

impl ExecutionPlan for LanepackExec {
    fn name(&self) -> &str {
        "LanepackExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let exact = self.exact.iter().map(|exact| &exact.physical);
        apply_expression_roots(exact.chain(&self.dynamic), f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.parts.len() {
            return internal_err!("partition {partition} of {}", self.parts.len());
        }
        let (scan, schema) = (Arc::new(self.clone()), self.schema());
        let batch_rows = context.session_config().batch_size().max(1);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let metrics = ReadMetrics::new(&self.metrics, partition);
        let dynamic = Arc::new(self.dynamic_filters());
        let start = async move {
            let (of_plan, of_metrics, filters) = (scan.clone(), metrics.clone(), dynamic.clone());
            let steps = apart(move || {
                let now = filters.now(&of_plan.files)?;
                let most = of_plan.engine.chunks_of_step();
                let scan = |chunks: Range<usize>| of_plan.scan_of(chunks, now.as_ref());
                of_plan.steps(partition, scan, &of_plan.own_names(), most, &of_metrics)
            });
            let (steps, of_output, time) =
                (steps.await?, scan.clone(), baseline.elapsed_compute().clone());
            let found = futures::stream::iter(steps)
                .map(move |step| {
                    let (scan, metrics, dynamic) = (scan.clone(), metrics.clone(), dynamic.clone());
                    let time = time.clone();
                    apart(move || {
                        let _timer = time.timer();
                        metrics.timed(scan.engine, || scan.step(step, &dynamic, &metrics))
                    })
                })
                .buffered(STEPS_AT_A_TIME);
            let mut left = of_output.limit.unwrap_or(usize::MAX);
            let batches = found.map_ok(move |(chunk, found)| {
                let found = found.slice(0, found.num_rows().min(left));
                left -= found.num_rows();
                let outputs = of_output.outputs(chunk, &found, batch_rows);
                let rows = found.num_rows();
                baseline.record_output(rows);
                (left, futures::stream::iter(outputs))
            });
            // No step is begun behind the one that reaches the limit.
            let batches = futures::stream::unfold(
                (Box::pin(batches), false),
                |(mut batches, ended)| async move {
                    if ended {
                        return None;
                    }
                    match batches.next().await? {
                        Ok((left, outputs)) => Some((Ok(outputs), (batches, left == 0))),
                        Err(error) => Some((Err(error), (batches, true))),
                    }
                },
            );
            Ok::<_, DataFusionError>(batches.try_flatten())
        };
        let batches = futures::stream::once(start).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let all = self.estimated()?;
        let statistics = match args.partition() {
            None => all,
            Some(partition) => {
                let rows: usize =
                    self.parts[partition].iter().map(|span| self.files.rows_of(span)).sum();
                let of_all = self.rows().max(1);
                let kept = *all.num_rows.get_value().unwrap_or(&of_all);
                let share = (kept as u128 * rows as u128 / of_all as u128) as usize;
                let mut part = all.to_inexact();
                part.num_rows = match self.exact.is_empty() {
                    true => Precision::Exact(rows),
                    false => Precision::Inexact(share),
                };
                part
            }
        };
        let mut statistics = statistics.project(Some(&self.columns));
        if self.has_row_numbers {
            statistics.column_statistics.push(ColumnStatistics::new_unknown());
        }
        let statistics = match self.dynamic.is_empty() && self.weaker.is_empty() {
            true => statistics,
            false => statistics.to_inexact(),
        };
        let partitions = args.partition().map_or(self.parts.len(), |_| 1);
        statistics.with_fetch(self.limit, 0, partitions).map(Arc::new)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let least = [limit, self.limit].into_iter().flatten().min();
        Some(Arc::new(self.with_limit(least)))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit.filter(|_| self.parts.len() == 1)
    }

    /// Leaves out columns, and puts them in another order; others are computed by the projection.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.has_row_numbers {
            return Ok(None);
        }
        let mut columns = Vec::new();
        for one in projection.expr() {
            let Some(column) = one.expr.downcast_ref::<Column>() else { return Ok(None) };
            if column.name() != one.alias {
                return Ok(None);
            }
            columns.push(self.columns[column.index()]);
        }
        let mut distinct = columns.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < columns.len() {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.with_columns(columns)?)))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // Rows behind a limit are not those of a limit behind a filter.
        if self.limit.is_some() {
            return Ok(FilterPushdownPropagation::all_unsupported(result));
        }
        let mut scan = self.clone();
        let (mut answers, mut changed) = (Vec::new(), false);
        for pushed in result.parent_filters {
            let filter = self.of_table(&pushed.filter);
            let answer = match filter {
                Some(filter)
                    if DynamicFilterTracking::classify(&filter).contains_dynamic_filter() =>
                {
                    scan.dynamic.push(filter);
                    changed = true;
                    PushedDown::No
                }
                Some(filter) => match scan.with_filter(&filter) {
                    Some(filtered) => {
                        scan = filtered;
                        changed = true;
                        PushedDown::Yes
                    }
                    None => {
                        if let Some(filtered) = scan.with_weaker_filter(&filter) {
                            scan = filtered;
                            changed = true;
                        }
                        PushedDown::No
                    }
                },
                None => PushedDown::No,
            };
            answers.push(answer);
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(match changed {
            true => propagation.with_updated_node(Arc::new(scan)),
            false => propagation,
        })
    }
}
