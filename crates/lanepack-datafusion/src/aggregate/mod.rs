//! Aggregates that are computed where files are scanned.
//!
//! ```text
//! AggregateExec: mode=Final                        AggregateExec: mode=Final
//!   ...                                              ...
//!   AggregateExec: mode=Partial            -->       LanepackAggregateExec: what is computed, by which filter and joins
//!     (ProjectionExec, HashJoinExec)                   plans of dimensions
//!     LanepackExec
//!
//! star.rs     what an aggregate reads: facts, dimensions      exec.rs    the plan and its steps
//! states.rs   what it computes                                mod.rs     the rule
//! ```
//!
//! [`PushAggregates`] replaces the part of an aggregate that comes before rows are exchanged, where lanepack computes
//! the same: states of counts, sums, least and greatest values and averages, by columns or without groups, of the rows
//! of files or of joins of these with small tables. Whether it does is asked before: the query runs over no chunks,
//! which tells the types of its columns.

mod exec;
mod star;
mod states;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::engine::joins_are_pushed;
use crate::scan::LanepackExec;
pub use exec::LanepackAggregateExec;
use star::Star;

/// Rows of facts for each row of dimensions, at least: a lookup costs more for each of its rows than a hash table of
/// DataFusion.
const FACTS_OF_DIMENSION: usize = 4;

/// Replaces partial aggregates over lanepack files; see the module.
#[derive(Debug, Default)]
pub struct PushAggregates {}

impl PhysicalOptimizerRule for PushAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let with_joins = joins_are_pushed(options);
        let replaced = plan.transform_up(|plan| {
            let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(plan));
            };
            let own = without_own_filter(aggregate)?;
            let pushed = pushed(own.as_ref().unwrap_or(aggregate), with_joins)?;
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
fn pushed(aggregate: &AggregateExec, with_joins: bool) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_single = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => true,
        _ => return Ok(None),
    };
    // Where each partition has groups of its own, the plan above may rely on that.
    let partitioning = &aggregate.properties().partitioning;
    let is_of_one = partitioning.partition_count() == 1;
    let is_by_groups = matches!(partitioning, Partitioning::Hash(..) | Partitioning::Range(_));
    if aggregate.limit_options().is_some() || !is_of_one && (is_single || is_by_groups) {
        return Ok(None);
    }
    let Some(star) = Star::below(aggregate.input())? else { return Ok(None) };
    let is_pushed = star.dimensions.is_empty() || with_joins && are_small(&star)?;
    if !is_pushed {
        return Ok(None);
    }
    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        star.plan.clone(),
        aggregate.input_schema(),
    )?;
    let Some(exec) = LanepackAggregateExec::of(Arc::new(partial), star) else { return Ok(None) };
    let exec: Arc<dyn ExecutionPlan> = Arc::new(exec);
    if !is_single {
        return Ok(Some(exec));
    }
    let input = match exec.properties().partitioning.partition_count() {
        1 => exec,
        _ => Arc::new(CoalescePartitionsExec::new(exec)),
    };
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        vec![None; aggregate.aggr_expr().len()],
        input,
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(last)))
}

/// Whether the dimensions of a star have far fewer rows than its facts, as DataFusion estimates them.
fn are_small(star: &Star) -> Result<bool> {
    let mut rows = 0_usize;
    for dimension in &star.dimensions {
        let estimated =
            StatisticsContext::new().compute(dimension.plan.as_ref(), &StatisticsArgs::new())?;
        let Some(own) = estimated.num_rows.get_value() else { return Ok(false) };
        rows = rows.saturating_add(*own);
    }
    Ok(rows <= star.facts.rows() / FACTS_OF_DIMENSION)
}
