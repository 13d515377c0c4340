//! Columns that are read once it is known of which rows: `SELECT * ... ORDER BY day LIMIT 10`.
//!
//! ```text
//! SortPreservingMergeExec: fetch=10                LanepackTakeExec: the other columns of these rows
//!   SortExec: TopK(fetch=10)              -->        SortPreservingMergeExec: fetch=10
//!     LanepackExec: all columns                        SortExec: TopK(fetch=10)
//!                                                        LanepackExec: columns of the order, numbers of rows
//! ```
//!
//! [`TakeLate`] runs before filters of top-k are pushed down, so that the narrower scan gets them.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;

use crate::columns;
use crate::engine::EngineKind;
use crate::external;
use crate::files::Files;
use crate::scan::{LanepackExec, ROW_NUMBERS, apart};

/// Rows that a vector has: reading one of them decodes all.
const VECTOR: usize = 1024;

/// Has columns that neither an order nor filters need read after a top-k; see the module.
#[derive(Debug, Default)]
pub struct TakeLate {}

impl PhysicalOptimizerRule for TakeLate {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_down(|plan| {
            Ok(match late(&plan)? {
                Some(late) => Transformed::new(late, true, TreeNodeRecursion::Jump),
                None => Transformed::no(plan),
            })
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "lanepack_take_late"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What replaces a top-k over a scan, if reading columns late is less work.
fn late(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (merge, sort) = match plan.downcast_ref::<SortPreservingMergeExec>() {
        Some(merge) if merge.fetch().is_some() => (Some(merge), merge.input()),
        Some(_) => return Ok(None),
        None => (None, plan),
    };
    // The optimizer may have put a projection between them.
    let projection = sort.downcast_ref::<ProjectionExec>().filter(|_| merge.is_some());
    let sort = projection.map_or(sort, |projection| projection.input());
    let Some(sort) = sort.downcast_ref::<SortExec>() else { return Ok(None) };
    let Some((scan, through)) = scan_below(sort.input()) else { return Ok(None) };
    let Some(fetch) = sort.fetch() else { return Ok(None) };
    // Without a merge there is a top-k for each partition, whose rows are not the last ones.
    let is_last = merge.is_some() || scan.partitions() == 1;
    if !is_last || scan.limit().is_some() || scan.has_row_numbers() {
        return Ok(None);
    }
    let order: Option<Vec<_>> = sort
        .expr()
        .iter()
        .map(|sort| Some((through.resolved(&sort.expr)?, sort.options)))
        .collect();
    let Some(order) = order else { return Ok(None) };
    let of_order: Vec<usize> = order
        .iter()
        .flat_map(|(expr, _)| collect_columns(expr))
        .map(|column| column.index())
        .collect();
    let columns = scan.columns();
    let is_early = |at: &usize| of_order.contains(at) || scan.files().is_of_path(columns[*at]);
    let early: Vec<usize> = (0..columns.len()).filter(is_early).collect();
    if early.len() == columns.len() {
        return Ok(None);
    }
    let statistics = StatisticsContext::new().compute(scan, &StatisticsArgs::new())?;
    let kept = statistics.num_rows.get_value().copied().unwrap_or(0);
    if kept <= fetch.saturating_mul(VECTOR) {
        return Ok(None);
    }
    let narrow = scan.with_row_numbers(early.iter().map(|at| columns[*at]).collect())?;
    let schema = narrow.schema();
    let order = order.into_iter().map(|(expr, options)| {
        let expr = reassign_expr_columns(expr, &schema)?;
        Ok(PhysicalSortExpr { expr, options })
    });
    let Some(order) = LexOrdering::new(order.collect::<Result<Vec<_>>>()?) else { return Ok(None) };
    let sorted: Arc<dyn ExecutionPlan> = Arc::new(
        SortExec::new(order.clone(), Arc::new(narrow))
            .with_preserve_partitioning(sort.preserve_partitioning())
            .with_fetch(Some(fetch)),
    );
    let input = match merge {
        Some(merge) => {
            Arc::new(SortPreservingMergeExec::new(order, sorted).with_fetch(merge.fetch()))
        }
        None => sorted,
    };
    let mut plan: Arc<dyn ExecutionPlan> = Arc::new(LanepackTakeExec::try_new(input, scan)?);
    // Projections compute of the taken rows what they would have computed of all.
    for projection in through.projections().rev().chain(projection) {
        plan = Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), plan)?);
    }
    Ok(Some(plan))
}

/// The projections between a plan and a scan.
struct Through<'a>(Vec<&'a ProjectionExec>);

impl Through<'_> {
    /// The projections, the highest first.
    fn projections(&self) -> impl DoubleEndedIterator<Item = &ProjectionExec> {
        self.0.iter().copied()
    }

    /// An expression of the highest projection's columns as one of the scan's columns.
    fn resolved(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        self.0.iter().try_fold(expr.clone(), |expr, projection| {
            let made_of = |column: usize| projection.expr().get(column).map(|own| &own.expr);
            columns::replaced(&expr, made_of).ok()
        })
    }
}

/// The scan below a plan, and the projections above it, the highest first.
fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<(&LanepackExec, Through<'_>)> {
    let (mut plan, mut through) = (plan, Vec::new());
    loop {
        if let Some(scan) = plan.downcast_ref::<LanepackExec>() {
            return Some((scan, Through(through)));
        }
        let projection = plan.downcast_ref::<ProjectionExec>()?;
        through.push(projection);
        plan = projection.input();
    }
}

/// Reads columns of files for the rows whose numbers its input has.
#[derive(Debug, Clone)]
pub struct LanepackTakeExec {
    input: Arc<dyn ExecutionPlan>,
    files: Arc<Files>,
    /// The columns that it gives, by their numbers in the table, and where the input has them.
    columns: Vec<(usize, Option<usize>)>,
    engine: EngineKind,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LanepackTakeExec {
    /// Gives the columns of a scan.
    fn try_new(input: Arc<dyn ExecutionPlan>, scan: &LanepackExec) -> Result<Self> {
        let files = scan.files().clone();
        let known = input.schema();
        let place =
            |column: &usize| (*column, known.index_of(files.schema().field(*column).name()).ok());
        let columns: Vec<_> = scan.columns().iter().map(place).collect();
        let schema = scan.schema();
        let properties = properties_of(&input, &schema)?;
        let (engine, metrics) = (scan.engine(), ExecutionPlanMetricsSet::new());
        Ok(Self { input, files, columns, engine, properties, metrics })
    }

    /// The names of the columns that are read.
    fn late_names(&self) -> Vec<&str> {
        let late = self.columns.iter().filter(|(_, place)| place.is_none());
        late.map(|(column, _)| self.files.schema().field(*column).name().as_str()).collect()
    }

    fn taken(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Some(numbers) = batch.column_by_name(ROW_NUMBERS) else {
            return internal_err!("no numbers of rows");
        };
        let numbers = numbers.as_primitive::<UInt64Type>().values();
        let engine = self.engine.engine()?;
        let taken = self.files.dataset().take_columns(numbers, &self.late_names(), &engine);
        let taken = taken.map_err(external)?;
        let mut late = taken.columns().iter();
        let mut columns = Vec::with_capacity(self.columns.len());
        for (_, place) in &self.columns {
            let column = match place {
                Some(place) => Some(batch.column(*place)),
                None => late.next(),
            };
            match column {
                Some(column) => columns.push(column.clone()),
                None => return internal_err!("lanepack gave fewer columns than asked for"),
            }
        }
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}

/// Rows come as the input has them.
fn properties_of(
    input: &Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
) -> Result<Arc<PlanProperties>> {
    let mut equivalences = EquivalenceProperties::new(schema.clone());
    if let Some(order) = input.output_ordering() {
        let order = order.iter().map(|sort| {
            let expr = reassign_expr_columns(sort.expr.clone(), schema)?;
            Ok(PhysicalSortExpr { expr, options: sort.options })
        });
        if let Some(order) = LexOrdering::new(order.collect::<Result<Vec<_>>>()?) {
            equivalences.add_ordering(order);
        }
    }
    let own = input.properties();
    let (partitioning, emission) = (own.partitioning.clone(), own.emission_type);
    let properties = PlanProperties::new(equivalences, partitioning, emission, own.boundedness);
    Ok(Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)))
}

impl DisplayAs for LanepackTakeExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.late_names().join(", ");
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "columns={names}"),
            _ => write!(f, "LanepackTakeExec: columns=[{names}]"),
        }
    }
}

impl ExecutionPlan for LanepackTakeExec {
    fn name(&self) -> &str {
        "LanepackTakeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("LanepackTakeExec has one input");
        };
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => self.properties.clone(),
            ChildrenPropertiesMode::Recompute => properties_of(&input, &self.schema())?,
        };
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(Self { input, properties, metrics, ..Arc::unwrap_or_clone(self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (exec, schema) = (Arc::new(self.clone()), self.schema());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let batches = input.then(move |batch| {
            let (exec, baseline) = (exec.clone(), baseline.clone());
            async move {
                let batch = batch?;
                let time = baseline.elapsed_compute().clone();
                let taken = apart(move || {
                    let _timer = time.timer();
                    exec.taken(&batch)
                });
                let taken = taken.await?;
                baseline.record_output(taken.num_rows());
                Ok(taken)
            }
        });
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, Box::pin(batches)))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = inputs.first().map_or(Precision::Absent, |input| input.num_rows);
        Ok(Arc::new(Statistics { num_rows: rows, ..Statistics::new_unknown(&self.schema()) }))
    }
}
