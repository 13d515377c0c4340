//! The plan of a partial aggregate that scans compute.
//!
//! ```text
//! first        plans of dimensions --rows--> lookups; one chunk of the facts tells whether groups are few
//! a partition  its chunks in steps --scans with lookups--> states, a batch or more for each step
//! ```
//!
//! What comes of several steps DataFusion puts together. The first step of a partition is one chunk. If it has so many
//! groups that collecting them early does not shorten the rest, or where lanepack gives up (a sum that does not fit
//! its type, which DataFusion wraps; memory), the plan that was replaced runs with the chunks that are left. With
//! dimensions this is decided once, before partitions begin, so that all of them share the tables of its joins; the
//! rows of dimensions are not read again.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PhysicalExpr, PlanProperties,
    execute_stream,
};
use futures::{StreamExt, TryStreamExt};
use lanepack::scan::{Aggregate, Expr, Lookup, Scan};
use lanepack::{Engine, Error};
use tokio::sync::OnceCell;

use super::star::{Dimension, Star};
use super::states::States;
use crate::external;
use crate::filter;
use crate::number::number;
use crate::scan::{DynamicFilters, ReadMetrics, apart};

/// Rows of the first chunk for each of its groups, at least: with more groups DataFusion collects them as fast.
const ROWS_OF_GROUP: usize = 8;
/// Groups of a step at most.
const MOST_GROUPS: usize = 1 << 18;
/// Chunks of a step that the CPU scans.
const CHUNKS_OF_STEP: usize = 8;

/// A partial aggregate that is computed by scans, maybe of rows that are joined with other plans.
///
/// `EXPLAIN` shows its groups, aggregates, joins and filter; `EXPLAIN ANALYZE` the chunks that were scanned by it
/// (`chunks_scanned`, `chunks_pruned`, `bytes_scanned`), and how many partitions were left to the plan that it
/// replaces (`partitions_left`).
#[derive(Debug, Clone)]
pub struct LanepackAggregateExec {
    star: Star,
    keys: Vec<Expr>,
    states: States,
    /// The columns of the facts that it reads.
    reads: Vec<String>,
    replaced: Arc<AggregateExec>,
    /// What partitions share, once one of them has begun.
    prepared: Arc<OnceCell<Prepared>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What is done before partitions begin.
#[derive(Debug)]
enum Prepared {
    /// Scans by these lookups. The rows of dimensions are kept for a partition that is left to the replaced plan.
    Lookups {
        lookups: Vec<Lookup>,
        rows: Vec<Vec<RecordBatch>>,
        _memory: Option<MemoryReservation>,
    },
    /// The replaced plan does it, over rows of dimensions.
    Replaced { plan: Arc<dyn ExecutionPlan>, _memory: MemoryReservation },
}

impl LanepackAggregateExec {
    /// What replaces a partial aggregate over a star's plan, if lanepack computes the same.
    pub(super) fn of(aggregate: Arc<AggregateExec>, mut star: Star) -> Option<Self> {
        let groups = aggregate.group_expr();
        let is_plain = groups.is_single() || groups.is_true_no_grouping();
        if !is_plain
            || aggregate.limit_options().is_some()
            || *aggregate.input_order_mode() != InputOrderMode::Linear
            || star.facts.limit().is_some()
        {
            return None;
        }
        let schema = star.schema.clone();
        let mut read: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let mut resolved = |expr: &Arc<dyn PhysicalExpr>| {
            let own = star.resolved(expr)?;
            read.push(own.clone());
            Some(own)
        };
        let mut keys = Vec::new();
        for (expr, _) in groups.expr() {
            let key = resolved(expr)?;
            // Groups of lanepack have the same bits, those of DataFusion may be -0.0 and 0.0.
            if key.data_type(&schema).ok()?.is_floating() {
                return None;
            }
            keys.push(number(&key, &schema)?.expr);
        }
        let mut states = States::default();
        for (function, condition) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            let condition = match condition {
                Some(condition) => Some(filter::exact(&resolved(condition)?, &schema)?),
                None => None,
            };
            let arguments: Option<Vec<_>> =
                function.expressions().iter().map(&mut resolved).collect();
            states.add(function, &arguments?, condition.as_ref(), &schema)?;
        }
        star.narrow(&read);
        let reads = star.reads(&read);
        let properties = aggregate.properties().clone();
        let exec = Self {
            star,
            keys,
            states,
            reads,
            replaced: aggregate,
            prepared: Arc::default(),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        exec.is_computed().then_some(exec)
    }

    /// Whether lanepack computes it, and gives columns of the types that are wanted.
    fn is_computed(&self) -> bool {
        let Ok(lookups) = self.star.empty_lookups() else { return false };
        let scan = self.scan_of(0..0, None, &lookups);
        let Ok(found) = self.compute(&scan, &Engine::cpu(), 1) else { return false };
        self.states.fit(&found, self.keys.len(), &self.schema())
    }

    /// A scan of some chunks of the facts, with joins and conditions.
    fn scan_of(
        &self,
        chunks: Range<usize>,
        dynamic: Option<&Expr>,
        lookups: &[Lookup],
    ) -> Scan<'_> {
        self.star.joins(self.star.facts.scan_of(chunks, dynamic), lookups)
    }

    /// The states of the rows of a scan.
    fn compute(
        &self,
        scan: &Scan<'_>,
        engine: &Engine,
        most_groups: usize,
    ) -> lanepack::Result<RecordBatch> {
        let named = self.states.aggregates.iter().enumerate();
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
        lookups: &[Lookup],
        most: usize,
    ) -> Result<Option<RecordBatch>> {
        let facts = &self.star.facts;
        let (dynamic, engine) = (filters.now(facts.files())?, facts.engine().engine()?);
        let scan = self.scan_of(chunks, dynamic.as_ref(), lookups);
        match self.compute(&scan, &engine, most) {
            Ok(found) => {
                let schema = self.schema();
                let columns = self.states.columns_of(&found, self.keys.len(), &schema)?;
                Ok(Some(RecordBatch::try_new(schema, columns)?))
            }
            Err(error) if is_left(&error) => Ok(None),
            Err(error) => Err(external(error)),
        }
    }

    /// The chunks of a partition, by steps.
    fn steps(
        &self,
        partition: usize,
        filters: &DynamicFilters,
        lookups: &[Lookup],
        metrics: &ReadMetrics,
    ) -> Result<VecDeque<Step>> {
        let facts = &self.star.facts;
        let dynamic = filters.now(facts.files())?;
        let names: Vec<&str> = self.reads.iter().map(String::as_str).collect();
        let most = match facts.engine().is_cpu() {
            true => CHUNKS_OF_STEP,
            false => usize::MAX,
        };
        let scan = |chunks: Range<usize>| self.scan_of(chunks, dynamic.as_ref(), lookups);
        let steps = facts.steps(partition, scan, &names, most, metrics)?;
        let mut steps: VecDeque<Step> = steps.into();
        let is_known = !self.star.dimensions.is_empty();
        match (self.keys.is_empty(), steps.pop_front()) {
            // There is a row of states even of no rows.
            (true, None) => steps.push_front((0..0, 0)),
            (false, Some((chunks, bytes))) if chunks.len() > 1 && !is_known => {
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
            true => (self.star.facts.files().rows_of(chunks) / ROWS_OF_GROUP).max(1),
            false => MOST_GROUPS,
        }
    }

    /// Has dimensions read and lookups made of them.
    async fn prepare(self: Arc<Self>, context: Arc<TaskContext>) -> Result<Prepared> {
        if self.star.dimensions.is_empty() {
            return Ok(Prepared::Lookups { lookups: Vec::new(), rows: Vec::new(), _memory: None });
        }
        let mut rows = Vec::new();
        let mut memory = None;
        let collected = self.star.dimensions.iter().map(|dimension| dimension.collected(&context));
        for (own, reservation) in futures::future::try_join_all(collected).await? {
            rows.push(own);
            let all = memory.get_or_insert_with(|| reservation.new_empty());
            all.grow(reservation.size());
        }
        let of_exec = self.clone();
        let (lookups, rows) = apart(move || Ok((of_exec.lookups(&rows)?, rows))).await?;
        match lookups {
            Some(lookups) => Ok(Prepared::Lookups { lookups, rows, _memory: memory }),
            None => {
                let plan = self.over(&rows, None)?;
                let reservation = memory.unwrap_or_else(|| reservation(&context));
                Ok(Prepared::Replaced { plan, _memory: reservation })
            }
        }
    }

    /// The lookups of rows of dimensions; none if the replaced plan is better.
    fn lookups(&self, rows: &[Vec<RecordBatch>]) -> Result<Option<Vec<Lookup>>> {
        let dimensions = self.star.dimensions.iter().zip(rows);
        let lookups = dimensions.map(|(dimension, rows)| dimension.lookup(rows));
        let lookups = match lookups.collect::<lanepack::Result<Vec<_>>>() {
            Ok(lookups) => lookups,
            Err(error) if is_left(&error) => return Ok(None),
            Err(error) => return Err(external(error)),
        };
        if self.keys.is_empty() {
            return Ok(Some(lookups));
        }
        let filters = self.star.facts.dynamic_filters();
        let metrics = ReadMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        for partition in 0..self.star.facts.partitions() {
            let steps = self.steps(partition, &filters, &lookups, &metrics)?;
            let Some((chunks, _)) = steps.front() else { continue };
            let first = chunks.start..chunks.start + 1;
            let most = self.most_groups(&first, true);
            return Ok(self.step(first, &filters, &lookups, most)?.map(|_| lookups));
        }
        Ok(Some(lookups))
    }

    /// The replaced plan over rows of dimensions, maybe with some chunks alone in a partition.
    fn over(
        &self,
        rows: &[Vec<RecordBatch>],
        part: Option<(usize, Vec<Range<usize>>)>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.star.replaced(self.replaced.clone(), part, |at| {
            let (rows, schema) = (&rows[at], self.star.dimensions[at].plan.schema());
            let source: Arc<dyn ExecutionPlan> =
                MemorySourceConfig::try_new_exec(std::slice::from_ref(rows), schema, None)?;
            Ok(source)
        })
    }
}

/// Whether an error says that lanepack does not compute something that DataFusion may.
fn is_left(error: &Error) -> bool {
    matches!(
        error,
        Error::TooLarge { .. }
            | Error::MemoryLimit { .. }
            | Error::Unsupported { .. }
            | Error::Expression { .. }
    )
}

fn reservation(context: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("LanepackAggregateExec").register(context.memory_pool())
}

impl Dimension {
    /// All its rows.
    async fn collected(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let memory = reservation(context);
        let mut batches = execute_stream(self.plan.clone(), context.clone())?;
        let mut rows = Vec::new();
        while let Some(batch) = batches.try_next().await? {
            memory.try_grow(batch.get_array_memory_size())?;
            rows.push(batch);
        }
        Ok((rows, memory))
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
    lookups: Arc<[Lookup]>,
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
        let filters = Arc::new(exec.star.facts.dynamic_filters());
        let prepare = || exec.clone().prepare(context.clone());
        let prepared = exec.prepared.get_or_try_init(prepare).await?;
        let lookups: Arc<[Lookup]> = match prepared {
            Prepared::Lookups { lookups, .. } => lookups.clone().into(),
            Prepared::Replaced { .. } => Arc::default(),
        };
        let is_replaced = matches!(prepared, Prepared::Replaced { .. });
        let (of_exec, of_filters, of_metrics) = (exec.clone(), filters.clone(), metrics.clone());
        let of_lookups = lookups.clone();
        let steps = match is_replaced {
            true => VecDeque::new(),
            false => {
                apart(move || of_exec.steps(partition, &of_filters, &of_lookups, &of_metrics))
                    .await?
            }
        };
        // Of dimensions it has been decided.
        let is_first = exec.star.dimensions.is_empty();
        Ok(Self {
            exec,
            partition,
            context,
            steps,
            is_first,
            filters,
            lookups,
            baseline,
            metrics,
            left,
        })
    }

    /// The states of the next step, or of all that are left.
    async fn next(&mut self) -> Result<Option<SendableRecordBatchStream>> {
        let Some(step) = self.steps.pop_front() else { return Ok(None) };
        let (exec, filters, chunks) = (self.exec.clone(), self.filters.clone(), step.0.clone());
        let most = exec.most_groups(&chunks, std::mem::take(&mut self.is_first));
        let (time, lookups) = (self.baseline.elapsed_compute().clone(), self.lookups.clone());
        let of_metrics = self.metrics.clone();
        let found = apart(move || {
            let _timer = time.timer();
            of_metrics
                .timed(exec.star.facts.engine(), || exec.step(chunks, &filters, &lookups, most))
        });
        let Some(found) = found.await? else {
            self.left.add(1);
            let steps = std::iter::once(step).chain(std::mem::take(&mut self.steps));
            let spans = steps.map(|(chunks, _)| chunks).collect();
            let rest = self.exec.over(self.rows(), Some((self.partition, spans)))?;
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

    /// The rows of dimensions.
    fn rows(&self) -> &[Vec<RecordBatch>] {
        match self.exec.prepared.get() {
            Some(Prepared::Lookups { rows, .. }) => rows,
            _ => &[],
        }
    }
}

/// The batches of a partition.
async fn batches(
    exec: Arc<LanepackAggregateExec>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let running = Running::begin(exec.clone(), partition, context.clone()).await?;
    if let Some(Prepared::Replaced { plan, .. }) = exec.prepared.get() {
        running.left.add(1);
        return plan.execute(partition, context);
    }
    let streams = futures::stream::try_unfold(running, |mut running| async move {
        let next = running.next().await?;
        Ok::<_, DataFusionError>(next.map(|stream| (stream, running)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, streams.try_flatten())))
}

impl DisplayAs for LanepackAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let states: Vec<String> = self.states.aggregates.iter().map(ToString::to_string).collect();
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "gby={}", keys.join(", "))?;
            return writeln!(f, "aggr={}", states.join(", "));
        }
        let facts = &self.star.facts;
        write!(
            f,
            "LanepackAggregateExec: partitions={}, gby=[{}], aggr=[{}]",
            facts.partitions(),
            keys.join(", "),
            states.join(", ")
        )?;
        if !self.star.dimensions.is_empty() {
            write!(f, ", joins=[{}]", self.star.joins_text())?;
        }
        let of_facts = Some(facts.filters_text()).filter(|text| !text.is_empty());
        let filters: Vec<String> = of_facts.into_iter().chain(self.star.conditions()).collect();
        if !filters.is_empty() {
            write!(f, ", filter={}", filters.join(" AND "))?;
        }
        if facts.has_dynamic_filters() {
            f.write_str(", dynamic_filters=true")?;
        }
        write!(f, "{}", facts.engine().suffix())
    }
}

impl ExecutionPlan for LanepackAggregateExec {
    fn name(&self) -> &str {
        "LanepackAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// The plans of dimensions.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.star.dimensions.iter().map(|dimension| &dimension.plan).collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.star.dimensions.len() {
            return internal_err!("{} plans for {}", children.len(), self.star.dimensions.len());
        }
        let replaced =
            self.star.replaced(self.replaced.clone(), None, |at| Ok(children[at].clone()))?;
        let Some(replaced) = replaced.downcast_ref::<AggregateExec>() else {
            return internal_err!("no aggregate");
        };
        let mut exec = Self { replaced: Arc::new(replaced.clone()), ..Arc::unwrap_or_clone(self) };
        for (dimension, plan) in exec.star.dimensions.iter_mut().zip(children) {
            dimension.plan = plan;
        }
        exec.prepared = Arc::default();
        exec.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(exec))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.star.facts.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = batches(Arc::new(self.clone()), partition, context);
        let batches = futures::stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
