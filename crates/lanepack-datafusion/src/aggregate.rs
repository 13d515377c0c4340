//! Aggregates that are computed where files are scanned.
//!
//! ```text
//! AggregateExec: mode=Final                        AggregateExec: mode=Final
//!   ...                                              ...
//!   AggregateExec: mode=Partial            -->       LanepackAggregateExec: what is computed, by which filter
//!     (ProjectionExec)
//!     LanepackExec
//! ```
//!
//! [`PushAggregates`] replaces the part of an aggregate that comes before rows are exchanged, where lanepack computes
//! the same: states of counts, sums, least and greatest values and averages, by columns or without groups. Whether it
//! does is asked before: the query runs over no chunks, which tells the types of its columns.
//!
//! A partition is scanned in steps of some chunks, each of which gives states: what comes of several DataFusion puts
//! together. The first step is one chunk. If it has so many groups that collecting them early does not shorten the
//! rest, or where lanepack gives up (a sum that does not fit its type, which DataFusion wraps; memory), the plan that
//! was replaced runs with the chunks that are left.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, is_null, nullif};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Schema};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, Partitioning, PhysicalExpr,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use lanepack::scan::{self, Aggregate, Expr, Scan};
use lanepack::{Engine, Error};

use crate::external;
use crate::filter;
use crate::number::number;
use crate::scan::{DynamicFilters, LanepackExec, ReadMetrics, apart};

/// Rows of the first chunk for each of its groups, at least: with more groups DataFusion collects them as fast.
const ROWS_OF_GROUP: usize = 8;
/// Groups of a step at most.
const MOST_GROUPS: usize = 1 << 18;
/// Chunks of a step that the CPU scans.
const CHUNKS_OF_STEP: usize = 8;

/// Replaces partial aggregates over lanepack files; see the module.
#[derive(Debug, Default)]
pub struct PushAggregates {}

impl PhysicalOptimizerRule for PushAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|plan| {
            let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(plan));
            };
            let own = without_own_filter(aggregate)?;
            let pushed = pushed(own.as_ref().unwrap_or(aggregate))?;
            let own = own.map(|own| Arc::new(own) as _);
            Ok(match pushed.or(own) {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(plan),
            })
        });
        Ok(replaced?.data)
    }

    fn name(&self) -> &str {
        "lanepack_push_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An aggregate of least or greatest values without the filter that it gives to scans below as it goes: rows that
/// cannot change these values, which may change others (`min(day), max(day + 1)`), or come before a value is known.
fn without_own_filter(aggregate: &AggregateExec) -> Result<Option<AggregateExec>> {
    let filters = aggregate.dynamic_expressions_produced();
    let ids: Vec<u64> = filters.iter().filter_map(|filter| filter.expression_id()).collect();
    if ids.is_empty() {
        return Ok(None);
    }
    let input = aggregate.input().clone().transform_up(|plan| {
        let scan = plan.downcast_ref::<LanepackExec>();
        Ok(match scan.and_then(|scan| scan.without_dynamic_filters(&ids)) {
            Some(scan) => Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(plan),
        })
    })?;
    if !input.transformed {
        return Ok(None);
    }
    let own = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input.data,
        aggregate.input_schema(),
    )?;
    Ok(Some(own.with_limit_options(aggregate.limit_options())))
}

/// What an aggregate is replaced by, if it is.
fn pushed(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_single = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => true,
        _ => return Ok(None),
    };
    let Some(input) = without_exchange(aggregate.input())? else { return Ok(None) };
    let is_of_one = input.properties().partitioning.partition_count() == 1;
    if aggregate.limit_options().is_some() || is_single && !is_of_one {
        return Ok(None);
    }
    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        aggregate.input_schema(),
    )?;
    let Some(exec) = LanepackAggregateExec::of(Arc::new(partial)) else { return Ok(None) };
    if !is_single {
        return Ok(Some(Arc::new(exec)));
    }
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        vec![None; aggregate.aggr_expr().len()],
        Arc::new(exec),
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(last)))
}

/// The input of an aggregate, if that is a scan, maybe below projections, without what hands its rows to more
/// partitions.
fn without_exchange(input: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if input.downcast_ref::<LanepackExec>().is_some() {
        return Ok(Some(input.clone()));
    }
    if let Some(exchange) = input.downcast_ref::<RepartitionExec>() {
        return match exchange.partitioning() {
            Partitioning::RoundRobinBatch(_) => without_exchange(exchange.input()),
            _ => Ok(None),
        };
    }
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some(below) = without_exchange(projection.input())? else { return Ok(None) };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    input.clone().replace_children(vec![below], options).map(Some)
}

/// A partial aggregate that is computed by scans.
///
/// `EXPLAIN` shows its groups, aggregates and filter; `EXPLAIN ANALYZE` the chunks that were scanned by it
/// (`chunks_scanned`, `chunks_pruned`, `bytes_scanned`), and how many partitions were left to the plan that it
/// replaces (`partitions_left`).
#[derive(Debug, Clone)]
pub struct LanepackAggregateExec {
    scan: LanepackExec,
    keys: Vec<Expr>,
    /// The states of DataFusion's functions, as aggregates of lanepack.
    states: Vec<Aggregate>,
    /// The columns that count what is averaged; behind each is its sum.
    counts_of_averages: Vec<usize>,
    /// The columns that it reads.
    reads: Vec<String>,
    replaced: Arc<AggregateExec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LanepackAggregateExec {
    /// What replaces a partial aggregate, if lanepack computes the same.
    fn of(aggregate: Arc<AggregateExec>) -> Option<Self> {
        let groups = aggregate.group_expr();
        let is_plain = groups.is_single() || groups.is_true_no_grouping();
        if !is_plain
            || aggregate.limit_options().is_some()
            || *aggregate.input_order_mode() != InputOrderMode::Linear
        {
            return None;
        }
        let (scan, through) = scan_below(aggregate.input())?;
        if scan.limit().is_some() {
            return None;
        }
        let schema = scan.files().own_schema().clone();
        let of_scan = |expr: &Arc<dyn PhysicalExpr>| {
            reassign_expr_columns(through.resolved(expr)?, &schema).ok()
        };
        let mut keys = Vec::new();
        for (expr, _) in groups.expr() {
            let key = of_scan(expr)?;
            // Groups of lanepack have the same bits, those of DataFusion may be -0.0 and 0.0.
            if key.data_type(&schema).ok()?.is_floating() {
                return None;
            }
            keys.push(number(&key, &schema)?.expr);
        }
        let (mut states, mut counts_of_averages) = (Vec::new(), Vec::new());
        for (function, condition) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            let condition = match condition {
                Some(condition) => Some(filter::exact(&of_scan(condition)?, &schema)?),
                None => None,
            };
            let arguments: Option<Vec<_>> = function.expressions().iter().map(of_scan).collect();
            let own = states_of(function, &arguments?, condition.as_ref(), &schema)?;
            if own.len() == 2 {
                counts_of_averages.push(keys.len() + states.len());
            }
            states.extend(own);
        }
        let read = through.columns_read(&aggregate);
        let is_own = |name: &String| schema.field_with_name(name).is_ok();
        let reads = read.into_iter().filter(is_own).collect();
        let properties = aggregate.properties().clone();
        let exec = Self {
            scan: scan.clone(),
            keys,
            states,
            counts_of_averages,
            reads,
            replaced: aggregate,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        exec.is_computed().then_some(exec)
    }

    /// Whether lanepack computes it, and gives columns of the types that are wanted.
    fn is_computed(&self) -> bool {
        let scan = self.scan.scan_of(0..0, None);
        let Ok(found) = self.compute(&scan, &Engine::cpu(), 1) else { return false };
        let schema = self.schema();
        let is_own = |(column, field): (&ArrayRef, &FieldRef)| {
            converts(column.data_type(), field.data_type())
        };
        found.num_columns() == schema.fields().len()
            && found.columns().iter().zip(schema.fields()).all(is_own)
    }

    /// The states of the rows of a scan.
    fn compute(
        &self,
        scan: &Scan<'_>,
        engine: &Engine,
        most_groups: usize,
    ) -> lanepack::Result<RecordBatch> {
        let named = self.states.iter().enumerate();
        let aggregates: Vec<Aggregate> =
            named.map(|(at, state)| state.clone().named(format!("state {at}"))).collect();
        match self.keys.is_empty() {
            true => scan.aggregate(&aggregates, engine),
            false => scan
                .clone()
                .group_by(self.keys.clone())
                .with_group_limit(most_groups)
                .aggregate(&aggregates, engine),
        }
    }

    /// The states of some chunks; none if the replaced plan is to find them.
    fn step(
        &self,
        chunks: Range<usize>,
        filters: &DynamicFilters,
        most: usize,
    ) -> Result<Option<RecordBatch>> {
        let (dynamic, engine) = (filters.now(self.scan.files())?, self.scan.engine().engine()?);
        let scan = self.scan.scan_of(chunks, dynamic.as_ref());
        match self.compute(&scan, &engine, most) {
            Ok(batch) => self.conformed(&batch).map(Some),
            Err(
                Error::TooLarge { .. }
                | Error::MemoryLimit { .. }
                | Error::Unsupported { .. }
                | Error::Expression { .. },
            ) => Ok(None),
            Err(error) => Err(external(error)),
        }
    }

    /// States as a batch of this plan.
    fn conformed(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let schema = self.schema();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| converted(column, field.data_type()));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        for count in &self.counts_of_averages {
            // DataFusion divides by counts that are not null.
            columns[*count] = nullif(&columns[*count], &is_null(&columns[count + 1])?)?;
        }
        Ok(RecordBatch::try_new(schema, columns)?)
    }

    /// The chunks of a partition, by steps.
    fn steps(
        &self,
        partition: usize,
        filters: &DynamicFilters,
        metrics: &ReadMetrics,
    ) -> Result<VecDeque<Step>> {
        let dynamic = filters.now(self.scan.files())?;
        let names: Vec<&str> = self.reads.iter().map(String::as_str).collect();
        let most = match self.scan.engine().is_cpu() {
            true => CHUNKS_OF_STEP,
            false => usize::MAX,
        };
        let steps = self.scan.steps(partition, (dynamic.as_ref(), &names), most, metrics)?;
        let mut steps: VecDeque<Step> = steps.into();
        match (self.keys.is_empty(), steps.pop_front()) {
            // There is a row of states even of no rows.
            (true, None) => steps.push_front((0..0, 0)),
            (false, Some((chunks, bytes))) if chunks.len() > 1 => {
                let second = chunks.start + 1;
                let of_one = bytes / chunks.len() as u64;
                steps.push_front((second..chunks.end, bytes - of_one));
                steps.push_front((chunks.start..second, of_one));
            }
            (_, first) => first.into_iter().for_each(|first| steps.push_front(first)),
        }
        Ok(steps)
    }

    /// Groups of a step at most, the first of which decides whether there are others.
    fn most_groups(&self, chunks: &Range<usize>, is_first: bool) -> usize {
        match is_first {
            true => (self.scan.files().rows_of(chunks) / ROWS_OF_GROUP).max(1),
            false => MOST_GROUPS,
        }
    }

    /// The replaced plan with some chunks in a partition.
    fn rest(
        &self,
        partition: usize,
        steps: impl Iterator<Item = Step>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let spans: Vec<Range<usize>> = steps.map(|(chunks, _)| chunks).collect();
        let plan: Arc<dyn ExecutionPlan> = self.replaced.clone();
        let changed = plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<LanepackExec>() {
                Some(scan) => {
                    let scan: Arc<dyn ExecutionPlan> =
                        Arc::new(scan.with_part(partition, spans.clone()));
                    Transformed::yes(scan)
                }
                None => Transformed::no(plan),
            })
        });
        Ok(changed?.data)
    }
}

/// Chunks, and bytes that are read of them.
type Step = (Range<usize>, u64);

/// A partition that is being scanned.
struct Running {
    exec: Arc<LanepackAggregateExec>,
    partition: usize,
    context: Arc<TaskContext>,
    steps: VecDeque<Step>,
    is_first: bool,
    filters: Arc<DynamicFilters>,
    baseline: BaselineMetrics,
    metrics: ReadMetrics,
    left: Count,
}

impl Running {
    async fn begin(
        exec: Arc<LanepackAggregateExec>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let metrics = ReadMetrics::new(&exec.metrics, partition);
        let baseline = BaselineMetrics::new(&exec.metrics, partition);
        let left = MetricBuilder::new(&exec.metrics).counter("partitions_left", partition);
        let filters = Arc::new(exec.scan.dynamic_filters());
        let (of_exec, of_filters, of_metrics) = (exec.clone(), filters.clone(), metrics.clone());
        let steps = apart(move || of_exec.steps(partition, &of_filters, &of_metrics)).await?;
        let is_first = true;
        Ok(Self { exec, partition, context, steps, is_first, filters, baseline, metrics, left })
    }

    /// The states of the next step, or of all that are left.
    async fn next(&mut self) -> Result<Option<SendableRecordBatchStream>> {
        let Some(step) = self.steps.pop_front() else { return Ok(None) };
        let (exec, filters, chunks) = (self.exec.clone(), self.filters.clone(), step.0.clone());
        let most = exec.most_groups(&chunks, std::mem::take(&mut self.is_first));
        let time = self.baseline.elapsed_compute().clone();
        let found = apart(move || {
            let _timer = time.timer();
            exec.step(chunks, &filters, most)
        });
        let Some(found) = found.await? else {
            self.left.add(1);
            let steps = std::iter::once(step).chain(std::mem::take(&mut self.steps));
            let rest = self.exec.rest(self.partition, steps)?;
            return rest.execute(self.partition, self.context.clone()).map(Some);
        };
        self.metrics.count(&step);
        self.baseline.record_output(found.num_rows());
        let most = self.context.session_config().batch_size().max(1);
        let slices = (0..found.num_rows()).step_by(most);
        let slices: Vec<Result<RecordBatch>> = slices
            .map(|start| Ok(found.slice(start, most.min(found.num_rows() - start))))
            .collect();
        let stream = futures::stream::iter(slices);
        Ok(Some(Box::pin(RecordBatchStreamAdapter::new(self.exec.schema(), stream))))
    }
}

/// What lies between a plan and a scan.
pub(crate) struct Through<'a>(Vec<&'a ProjectionExec>);

impl Through<'_> {
    /// The names of the scan's columns that an aggregate reads.
    fn columns_read(&self, aggregate: &AggregateExec) -> BTreeSet<String> {
        let of_functions = aggregate.aggr_expr().iter().flat_map(|function| function.expressions());
        let of_filters = aggregate.filter_expr().iter().flatten().cloned();
        let of_groups = aggregate.group_expr().expr().iter().map(|(expr, _)| expr.clone());
        let all = of_functions.chain(of_filters).chain(of_groups);
        let columns = all.filter_map(|expr| self.resolved(&expr));
        columns
            .flat_map(|expr| collect_columns(&expr))
            .map(|column| column.name().to_owned())
            .collect()
    }

    /// The projections, the highest first.
    pub fn projections(&self) -> impl DoubleEndedIterator<Item = &ProjectionExec> {
        self.0.iter().copied()
    }

    /// An expression of what lies above as one of the scan's columns.
    pub fn resolved(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        self.0.iter().try_fold(expr.clone(), |expr, projection| {
            let own = expr.transform(|expr| {
                Ok(match expr.downcast_ref::<Column>() {
                    Some(column) => match projection.expr().get(column.index()) {
                        // What replaces a column is not looked into.
                        Some(own) => {
                            Transformed::new(own.expr.clone(), true, TreeNodeRecursion::Jump)
                        }
                        None => return internal_err!("no column {column}"),
                    },
                    None => Transformed::no(expr),
                })
            });
            own.ok().map(|own| own.data)
        })
    }
}

/// The scan below a plan, and the projections above it, the highest first.
pub(crate) fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<(&LanepackExec, Through<'_>)> {
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

/// The states of a function of DataFusion, in their order.
fn states_of(
    function: &AggregateFunctionExpr,
    arguments: &[Arc<dyn PhysicalExpr>],
    condition: Option<&Expr>,
    schema: &Schema,
) -> Option<Vec<Aggregate>> {
    if function.is_distinct() || function.ignore_nulls() || !function.order_bys().is_empty() {
        return None;
    }
    let [argument] = arguments else { return None };
    let is_constant = argument.downcast_ref::<Literal>();
    let is_constant = is_constant.is_some_and(|literal| !literal.value().is_null());
    let value = || number(argument, schema).map(|number| number.expr);
    let column = || {
        let column = argument.downcast_ref::<Column>()?;
        schema.field_with_name(column.name()).ok()?;
        Some(scan::col(column.name()))
    };
    let aggregates = match function.fun().name() {
        "count" if is_constant => vec![scan::count_rows()],
        "count" => vec![scan::count(column()?)],
        "sum" => vec![scan::sum(value()?)],
        "min" => vec![scan::min(column()?)],
        "max" => vec![scan::max(column()?)],
        "avg" => {
            // Of integers DataFusion adds floats: exact, if they are added as integers.
            let added = match argument.downcast_ref::<CastExpr>() {
                Some(cast) if argument.data_type(schema).ok()? == DataType::Float64 => {
                    number(cast.expr(), schema)?.expr
                }
                _ => value()?,
            };
            vec![scan::count(added.clone()), scan::sum(added)]
        }
        _ => return None,
    };
    let fields = function.state_fields().ok()?;
    // Averages of others may have their states in another order.
    let is_known = match aggregates.len() {
        2 => *fields.first()?.data_type() == DataType::UInt64,
        _ => true,
    };
    if fields.len() != aggregates.len() || !is_known {
        return None;
    }
    let within = |aggregate: Aggregate| match condition {
        Some(condition) => aggregate.filter(condition.clone()),
        None => aggregate,
    };
    Some(aggregates.into_iter().map(within).collect())
}

/// Whether values of one type are given as another one without a change.
fn converts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from == to,
        // Counts.
        (DataType::Int64, DataType::UInt64) => true,
        // Sums of integers whose average is asked for.
        (DataType::Int64 | DataType::UInt64, DataType::Float64) => true,
        (from, to) => from == to,
    }
}

fn converted(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match (column.data_type(), to) {
        (from, to) if from == to => Ok(column.clone()),
        // Digits are checked where states are put together.
        (DataType::Decimal128(..), DataType::Decimal128(precision, scale)) => {
            let values = column.as_primitive::<Decimal128Type>();
            Ok(Arc::new(values.clone().with_precision_and_scale(*precision, *scale)?))
        }
        (_, to) => Ok(cast(column, to)?),
    }
}

impl DisplayAs for LanepackAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let states: Vec<String> = self.states.iter().map(ToString::to_string).collect();
        let filters = self.scan.filters_text();
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "gby={}", keys.join(", "))?;
            return writeln!(f, "aggr={}", states.join(", "));
        }
        write!(
            f,
            "LanepackAggregateExec: partitions={}, gby=[{}], aggr=[{}]",
            self.scan.partitions(),
            keys.join(", "),
            states.join(", ")
        )?;
        if !filters.is_empty() {
            write!(f, ", filter={filters}")?;
        }
        if self.scan.has_dynamic_filters() {
            f.write_str(", dynamic_filters=true")?;
        }
        write!(f, "{}", self.scan.engine().suffix())
    }
}

impl ExecutionPlan for LanepackAggregateExec {
    fn name(&self) -> &str {
        "LanepackAggregateExec"
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
        self.scan.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (exec, schema) = (Arc::new(self.clone()), self.schema());
        let start = async move {
            let running = Running::begin(exec, partition, context).await?;
            let streams = futures::stream::try_unfold(running, |mut running| async move {
                let next = running.next().await?;
                Ok::<_, DataFusionError>(next.map(|stream| (stream, running)))
            });
            Ok::<_, DataFusionError>(streams.try_flatten())
        };
        let batches = futures::stream::once(start).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
