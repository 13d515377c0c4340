//! What an aggregate reads: the rows of one scan, the facts, joined with dimensions.
//!
//! ```text
//! HashJoinExec: on=[(d_datekey, lo_orderdate)]       facts        scan of lineorder
//!   LanepackExec: date                         -->   dimensions   plan of date, by d_datekey = lo_orderdate
//!   HashJoinExec: on=[(p_partkey, lo_partkey)]                    plan of part, by p_partkey = lo_partkey
//!     LanepackExec: part                             schema       columns of the facts and of dimensions, each
//!     LanepackExec: lineorder                                     with a name of its own
//! ```
//!
//! Of an inner join the side with more rows in its files has the facts. DataFusion runs the plans of dimensions, and
//! lanepack makes lookups of their rows. A row of the facts has at most one row of a dimension: a key that comes twice
//! is found when the lookup is made. `Star::plan` has the same rows without lookups, by joins that collect the
//! dimensions; its partitions are those of the facts.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, partition, sort_to_indices, take};
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PhysicalExpr};
use lanepack::scan::{Expr, Lookup, Scan, col};

use crate::columns;
use crate::filter;
use crate::number::key_column;
use crate::scan::LanepackExec;

/// Rows of a join; see the module.
#[derive(Debug, Clone)]
pub(super) struct Star {
    pub facts: LanepackExec,
    pub dimensions: Vec<Dimension>,
    /// Conditions above joins, of columns of the schema.
    filters: Vec<(Arc<dyn PhysicalExpr>, Expr)>,
    /// The columns that expressions have.
    pub schema: SchemaRef,
    /// The columns of the plan, as expressions of those of the schema.
    output: Vec<Arc<dyn PhysicalExpr>>,
    /// The same rows by DataFusion.
    pub plan: Arc<dyn ExecutionPlan>,
}

/// A side of a join that becomes a lookup.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    /// Its rows, in any number of partitions.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The column of its keys.
    key: usize,
    /// The columns that expressions name, by their names in the schema of the star.
    columns: Vec<(usize, String)>,
    kind: DimensionKind,
    /// The column of the facts.
    of_facts: String,
}

/// Which rows of the facts a dimension keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DimensionKind {
    /// Those with a row of the dimension, whose columns are read.
    Inner,
    /// Those with a row of the dimension.
    Semi,
    /// Those without one.
    Anti,
}

impl Star {
    /// The star below an aggregate, if there is one.
    pub fn below(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if let Some(scan) = plan.downcast_ref::<LanepackExec>() {
            return Ok(Some(Self::of_scan(scan, plan)));
        }
        if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
            return match exchange.partitioning() {
                Partitioning::RoundRobinBatch(_) | Partitioning::Hash(..) => {
                    Self::below(exchange.input())
                }
                _ => Ok(None),
            };
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let Some(below) = Self::below(projection.input())? else { return Ok(None) };
            return below.projected(projection, plan);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let Some(below) = Self::below(filter.input())? else { return Ok(None) };
            return below.filtered(filter, plan);
        }
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) => Self::of_join(join),
            None => Ok(None),
        }
    }

    fn of_scan(scan: &LanepackExec, plan: &Arc<dyn ExecutionPlan>) -> Self {
        let fields = plan.schema();
        let names = fields.fields().iter().enumerate();
        let output = names
            .map(|(at, field)| Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>)
            .collect();
        Self {
            facts: scan.clone(),
            dimensions: Vec::new(),
            filters: Vec::new(),
            schema: scan.files().own_schema().clone(),
            output,
            plan: plan.clone(),
        }
    }

    fn projected(
        mut self,
        projection: &ProjectionExec,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Self>> {
        let output = projection.expr().iter().map(|one| self.of_output(&one.expr));
        self.output = output.collect::<Result<_>>()?;
        self.plan = with_input(plan, &self.plan)?;
        Ok(Some(self))
    }

    fn filtered(
        mut self,
        filter: &FilterExec,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Self>> {
        if filter.fetch().is_some() || !self.adds_filter(self.resolved(filter.predicate())) {
            return Ok(None);
        }
        if let Some(columns) = filter.projection() {
            self.output = columns.iter().map(|column| self.output[*column].clone()).collect();
        }
        self.plan = with_input(plan, &self.plan)?;
        Ok(Some(self))
    }

    /// Adds a condition of columns of the schema, if lanepack has one that keeps the same rows.
    fn adds_filter(&mut self, physical: Option<Arc<dyn PhysicalExpr>>) -> bool {
        let known = physical.and_then(|physical| {
            let own = filter::exact(&physical, &self.schema)?;
            Some((physical, own))
        });
        let is_known = known.is_some();
        self.filters.extend(known);
        is_known
    }

    fn of_join(join: &HashJoinExec) -> Result<Option<Self>> {
        let is_plain = join.null_equality() == NullEquality::NullEqualsNothing
            && !join.null_aware
            && join.fetch().is_none();
        let [on] = join.on() else { return Ok(None) };
        if !is_plain {
            return Ok(None);
        }
        let (kind, sides): (_, &[JoinSide]) = match join.join_type() {
            JoinType::Inner => (DimensionKind::Inner, &[JoinSide::Left, JoinSide::Right]),
            JoinType::LeftSemi => (DimensionKind::Semi, &[JoinSide::Left]),
            JoinType::RightSemi => (DimensionKind::Semi, &[JoinSide::Right]),
            JoinType::LeftAnti => (DimensionKind::Anti, &[JoinSide::Left]),
            JoinType::RightAnti => (DimensionKind::Anti, &[JoinSide::Right]),
            _ => return Ok(None),
        };
        let mut most: Option<(JoinSide, Self)> = None;
        for side in sides {
            let input = if *side == JoinSide::Left { join.left() } else { join.right() };
            let Some(star) = Self::below(input)? else { continue };
            if most.as_ref().is_none_or(|(_, other)| star.facts.rows() > other.facts.rows()) {
                most = Some((*side, star));
            }
        }
        let Some((side, star)) = most else { return Ok(None) };
        let (other, keys) = match side {
            JoinSide::Left => (join.right(), [&on.0, &on.1]),
            _ => (join.left(), [&on.1, &on.0]),
        };
        star.joined(join, kind, side, without_exchange(other), keys)
    }

    /// Joined with the other side of a join, whose facts are on `side`.
    fn joined(
        mut self,
        join: &HashJoinExec,
        kind: DimensionKind,
        side: JoinSide,
        other: Arc<dyn ExecutionPlan>,
        [of_facts, key]: [&Arc<dyn PhysicalExpr>; 2],
    ) -> Result<Option<Self>> {
        let own = self.facts.files().own_schema().clone();
        let of_facts = self.of_output(of_facts)?;
        let of_facts = reassign_expr_columns(of_facts, &own).ok();
        let of_facts = of_facts.and_then(|expr| key_column(&expr, &own));
        let (Some(of_facts), Some(key)) = (of_facts, key_column(key, &other.schema())) else {
            return Ok(None);
        };
        let of_facts = own.field(of_facts).name().clone();
        let mut fields: Vec<FieldRef> = self.schema.fields().iter().cloned().collect();
        let mut columns = Vec::new();
        let mut of_other: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for (at, field) in other.schema().fields().iter().enumerate() {
            let name = self.own_name(field.name(), &fields);
            of_other.push(Arc::new(Column::new(&name, fields.len())));
            fields.push(Arc::new(Field::clone(field).with_name(&name)));
            columns.push((at, name));
        }
        let of_own = std::mem::take(&mut self.output);
        let (left, right) = match side {
            JoinSide::Left => (of_own, of_other),
            _ => (of_other, of_own),
        };
        if let (DimensionKind::Inner, Some(condition)) = (kind, join.filter()) {
            // Its columns are those of both sides.
            let both = condition.column_indices().iter().map(|column| match column.side {
                JoinSide::Left => left.get(column.index).cloned(),
                JoinSide::Right => right.get(column.index).cloned(),
                JoinSide::None => None,
            });
            let Some(both) = both.collect::<Option<Vec<_>>>() else { return Ok(None) };
            self.schema = Arc::new(Schema::new(fields.clone()));
            self.output = both;
            if !self.adds_filter(self.resolved(condition.expression())) {
                return Ok(None);
            }
        } else if join.filter().is_some() {
            return Ok(None);
        }
        let all: Vec<Arc<dyn PhysicalExpr>> = match (kind, side) {
            (DimensionKind::Inner, _) => left.into_iter().chain(right).collect(),
            (_, JoinSide::Left) => left,
            _ => right,
        };
        self.output = match &join.projection {
            Some(columns) => columns.iter().map(|column| all[*column].clone()).collect(),
            None => all,
        };
        if kind == DimensionKind::Inner {
            self.schema = Arc::new(Schema::new(fields));
        } else {
            columns.clear();
        }
        let ids = join.dynamic_expressions_produced();
        let ids: Vec<u64> = ids.iter().filter_map(|filter| filter.expression_id()).collect();
        if let Some(facts) = self.facts.without_dynamic_filters(&ids) {
            self.facts = facts;
        }
        self.plan = collecting(join, side, &self.plan, &other)?;
        self.dimensions.push(Dimension { plan: other, key, columns, kind, of_facts });
        Ok(Some(self))
    }

    /// A name for a column of a dimension that no field has, and no column of the facts, among which those of paths are
    /// no fields.
    fn own_name(&self, name: &str, fields: &[FieldRef]) -> String {
        let of_facts = self.facts.files().schema().clone();
        let is_free = |name: &str| {
            let mut known = fields.iter().chain(of_facts.fields());
            known.all(|field| field.name() != name)
        };
        if is_free(name) {
            return name.to_owned();
        }
        let mut number = 2;
        while !is_free(&format!("{name}#{number}")) {
            number += 1;
        }
        format!("{name}#{number}")
    }

    /// An expression of the plan's columns, whose own columns are those of the schema, maybe with other numbers.
    fn of_output(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        columns::replaced(expr, |column| self.output.get(column))
    }

    /// An expression of the plan's columns as one of the schema's.
    pub fn resolved(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        reassign_expr_columns(self.of_output(expr).ok()?, &self.schema).ok()
    }

    /// Has dimensions give the columns alone that expressions of the schema read, and conditions.
    pub fn narrow(&mut self, exprs: &[Arc<dyn PhysicalExpr>]) {
        let used = self.columns_read(exprs);
        for dimension in &mut self.dimensions {
            dimension.columns.retain(|(_, name)| used.contains(name));
        }
    }

    /// The names of columns of the schema that expressions read, and conditions.
    fn columns_read(&self, exprs: &[Arc<dyn PhysicalExpr>]) -> BTreeSet<String> {
        let filters = self.filters.iter().map(|(physical, _)| physical);
        let columns = exprs.iter().chain(filters).flat_map(collect_columns);
        columns.map(|column| column.name().to_owned()).collect()
    }

    /// The columns of the facts that expressions of the schema read, and conditions and joins.
    pub fn reads(&self, exprs: &[Arc<dyn PhysicalExpr>]) -> Vec<String> {
        let mut names = self.columns_read(exprs);
        names.extend(self.dimensions.iter().map(|dimension| dimension.of_facts.clone()));
        let own = self.facts.files().own_schema();
        names.into_iter().filter(|name| own.field_with_name(name).is_ok()).collect()
    }

    /// A plan over the plan of the star with other plans of dimensions, maybe of some chunks in a partition, which then
    /// runs alone.
    pub fn replaced(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        part: Option<(usize, Vec<Range<usize>>)>,
        dimension: impl Fn(usize) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_down(|plan| {
            if let Some(at) = self.dimensions.iter().position(|own| Arc::ptr_eq(&own.plan, &plan)) {
                // Scans below are not those of the facts.
                return Ok(Transformed::new(dimension(at)?, true, TreeNodeRecursion::Jump));
            }
            let Some((partition, spans)) = &part else { return Ok(Transformed::no(plan)) };
            if let Some(facts) = plan.downcast_ref::<LanepackExec>() {
                let facts = facts.with_part(*partition, spans.clone());
                return Ok(Transformed::yes(Arc::new(facts) as _));
            }
            Ok(match plan.downcast_ref::<HashJoinExec>() {
                // Its filter of the facts would wait for the other partitions.
                Some(join) => Transformed::yes(join.builder().reset_state().build_exec()?),
                None => Transformed::no(plan),
            })
        });
        Ok(changed?.data)
    }

    /// Adds the joins and conditions to a scan of the facts.
    pub fn joins<'a>(&self, scan: Scan<'a>, lookups: &[Lookup]) -> Scan<'a> {
        let joins = self.dimensions.iter().zip(lookups);
        let scan = joins.fold(scan, |scan, (dimension, lookup)| {
            let key = col(&dimension.of_facts);
            match dimension.kind {
                DimensionKind::Inner => scan.join(key, lookup),
                DimensionKind::Semi => scan.semi_join(key, lookup),
                DimensionKind::Anti => scan.anti_join(key, lookup),
            }
        });
        self.filters.iter().fold(scan, |scan, (_, filter)| scan.filter(filter.clone()))
    }

    /// Lookups of no rows, which tell whether lanepack has what is asked for.
    pub fn empty_lookups(&self) -> lanepack::Result<Vec<Lookup>> {
        self.dimensions.iter().map(|dimension| dimension.lookup(&[])).collect()
    }

    /// Conditions, as text.
    pub fn conditions(&self) -> impl Iterator<Item = String> {
        self.filters.iter().map(|(_, filter)| filter.to_string())
    }

    /// Joins, as text.
    pub fn joins_text(&self) -> String {
        let joins = self.dimensions.iter().map(|dimension| {
            let schema = dimension.plan.schema();
            let kind = match dimension.kind {
                DimensionKind::Inner => "",
                DimensionKind::Semi => "semi ",
                DimensionKind::Anti => "anti ",
            };
            format!("{kind}{} = {}", dimension.of_facts, schema.field(dimension.key).name())
        });
        joins.collect::<Vec<_>>().join(", ")
    }
}

impl Dimension {
    /// A lookup of its rows.
    ///
    /// # Errors
    /// As [`Lookup::try_new`].
    pub fn lookup(&self, batches: &[RecordBatch]) -> lanepack::Result<Lookup> {
        let schema = self.plan.schema();
        let key = Field::clone(schema.field(self.key)).with_name("key");
        let others = self.columns.iter();
        let others = others.map(|(at, name)| Field::clone(schema.field(*at)).with_name(name));
        let fields: Vec<Field> = std::iter::once(key).chain(others).collect();
        let places: Vec<usize> =
            std::iter::once(self.key).chain(self.columns.iter().map(|(at, _)| *at)).collect();
        let narrow: std::result::Result<Vec<RecordBatch>, _> =
            batches.iter().map(|batch| batch.project(&places)).collect();
        let all = concat_batches(&Arc::new(schema.project(&places)?), &narrow?)?;
        let columns = match self.kind {
            DimensionKind::Inner => all.columns().to_vec(),
            // How often a key comes does not matter.
            _ => vec![distinct(all.column(0))?],
        };
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        // No column of the facts is hidden by the name of the key: it is none that expressions have.
        Lookup::try_new(&batch, "key")
    }
}

/// The distinct values of a column.
fn distinct(values: &ArrayRef) -> lanepack::Result<ArrayRef> {
    let sorted = take(values, &sort_to_indices(values, None, None)?, None)?;
    let firsts = partition(std::slice::from_ref(&sorted))?.ranges();
    let firsts: UInt32Array = firsts.iter().map(|range| range.start as u32).collect();
    Ok(take(&sorted, &firsts, None)?)
}

/// A plan without what hands its rows to other partitions, which nobody needs who collects them.
fn without_exchange(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let input = match plan.downcast_ref::<RepartitionExec>() {
        Some(exchange) => Some(exchange.input()),
        None => plan
            .downcast_ref::<CoalescePartitionsExec>()
            .filter(|collected| collected.fetch().is_none())
            .map(|collected| collected.input()),
    };
    input.map_or_else(|| plan.clone(), without_exchange)
}

fn with_input(
    plan: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.clone().replace_children(vec![input.clone()], options)
}

/// A join that collects its dimension, and whose partitions are those of the facts, which are on `side`.
fn collecting(
    join: &HashJoinExec,
    side: JoinSide,
    facts: &Arc<dyn ExecutionPlan>,
    dimension: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let collected: Arc<dyn ExecutionPlan> =
        Arc::new(CoalescePartitionsExec::new(dimension.clone()));
    if side == JoinSide::Right {
        return join
            .builder()
            .with_new_children(vec![collected, facts.clone()])?
            .with_partition_mode(PartitionMode::CollectLeft)
            .recompute_properties()
            .build_exec();
    }
    let join = join.builder().reset_state().with_new_children(vec![facts.clone(), collected])?;
    join.recompute_properties().build()?.swap_inputs(PartitionMode::CollectLeft)
}
