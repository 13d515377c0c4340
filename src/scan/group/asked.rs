//! What a query asks of groups: the passes over the rows that find it, and the batch that has it.
//!
//! ```text
//! pass 0       keys             aggregates but those of distinct values
//! pass 1, ..   keys, a value    none: the groups that have a value are counted by the keys
//! ```

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema};

use super::{GroupKey, GroupTable, Grouping, Numbering};
use crate::error::Result;
use crate::scan::aggregate::{Aggregate, Plan, RowFilter};
use crate::scan::bind::Binder;
use crate::scan::explain;
use crate::scan::expr::Expr;
use crate::scan::predicate::Predicate;

/// Keys and aggregates that are checked against a schema.
pub(in crate::scan) struct Asked {
    pub keys: Vec<GroupKey>,
    plans: Vec<Plan>,
    distinct: Vec<Distinct>,
    /// Aggregates in the order that they were asked for.
    order: Vec<Wanted>,
}

/// An aggregate by its number.
enum Wanted {
    Plan(usize),
    Distinct(usize),
}

/// Distinct values that are counted.
struct Distinct {
    key: GroupKey,
    filter: Option<RowFilter>,
    name: String,
}

impl Asked {
    pub fn new(keys: &[Expr], aggregates: &[Aggregate], binder: &mut Binder<'_>) -> Result<Self> {
        let keys = keys.iter().map(|key| GroupKey::new(key, binder)).collect::<Result<_>>()?;
        let (mut plans, mut distinct, mut order) = (Vec::new(), Vec::new(), Vec::new());
        for aggregate in aggregates {
            match aggregate.distinct() {
                None => {
                    order.push(Wanted::Plan(plans.len()));
                    plans.push(Plan::new(aggregate, binder)?);
                }
                Some((expr, filter)) => {
                    order.push(Wanted::Distinct(distinct.len()));
                    let key = GroupKey::new(expr, binder)?;
                    let filter = RowFilter::new(filter, binder)?;
                    distinct.push(Distinct { key, filter, name: aggregate.name() });
                }
            }
        }
        Ok(Self { keys, plans, distinct, order })
    }

    /// The columns whose values are read.
    pub fn reads(&self) -> Vec<usize> {
        let of_keys = self.keys.iter().flat_map(GroupKey::columns);
        let of_plans = self.plans.iter().flat_map(Plan::columns_read);
        let mut columns: Vec<usize> = of_keys.chain(of_plans).collect();
        for Distinct { key, filter, .. } in &self.distinct {
            columns.extend(key.columns());
            if let Some(filter) = filter {
                filter.predicate.values_read(&mut |column| columns.push(column));
            }
        }
        columns
    }

    /// The columns whose values are read, or of which it is asked whether they are null.
    pub fn columns(&self) -> Vec<usize> {
        let filters = self.distinct.iter().filter_map(|distinct| distinct.filter.as_ref());
        let mut columns = explain::columns_of_plans(&self.plans);
        filters.for_each(|filter| explain::columns_of(&filter.predicate, &mut columns));
        columns.extend(self.reads());
        columns
    }

    /// All keys, those of distinct values behind the others.
    pub fn all_keys(&mut self) -> impl Iterator<Item = &mut GroupKey> {
        self.keys.iter_mut().chain(self.distinct.iter_mut().map(|distinct| &mut distinct.key))
    }

    /// Finds out how wide numbers are, given the least and the greatest integer of each column and
    /// whether it has nulls, and the number of rows.
    pub fn fit(
        &mut self,
        column: &impl Fn(usize) -> ((i256, i256), bool),
        rows: usize,
    ) -> Result<()> {
        let bounds = |of: usize| column(of).0;
        self.plans.iter_mut().try_for_each(|plan| plan.fit(&bounds))?;
        for filter in self.distinct.iter_mut().filter_map(|distinct| distinct.filter.as_mut()) {
            filter.predicate.fit(&bounds)?;
        }
        self.all_keys().try_for_each(|key| key.fit(column, rows))
    }

    /// The tables of all passes, of which `find` finds one each, given what it keeps of the rows and how
    /// these are grouped; none if it does not find one.
    pub fn tables(
        &self,
        most: usize,
        mut find: impl FnMut(Option<&Predicate>, Grouping<'_>) -> Result<Option<GroupTable>>,
    ) -> Result<Option<Vec<GroupTable>>> {
        let keys: Vec<&GroupKey> = self.keys.iter().collect();
        let plans: Vec<&Plan> = self.plans.iter().collect();
        let numbering = Numbering::new(&keys)?;
        let first = Grouping { keys: &keys, plans: &plans, numbering: &numbering, most };
        let mut tables = Vec::with_capacity(1 + self.distinct.len());
        tables.push(match keys.is_empty() && plans.is_empty() {
            // Without keys there is one group, whatever the rows.
            true => Some(first.table()),
            false => find(None, first)?,
        });
        for Distinct { key, filter, .. } in &self.distinct {
            if tables.last().is_some_and(Option::is_none) {
                break;
            }
            let keys: Vec<&GroupKey> = keys.iter().copied().chain([key]).collect();
            let numbering = Numbering::new(&keys)?;
            let grouping = Grouping { keys: &keys, plans: &[], numbering: &numbering, most };
            tables.push(find(filter.as_ref().map(|filter| &filter.predicate), grouping)?);
        }
        Ok(tables.into_iter().collect())
    }

    /// A row for each group: its keys and its aggregates.
    pub fn result(&self, tables: Vec<GroupTable>) -> Result<RecordBatch> {
        let mut tables = tables.into_iter();
        let mut groups = tables.next().expect("one of all keys");
        if self.keys.is_empty() && groups.len() == 0 {
            groups.groups(&[0], &mut Vec::new())?;
        }
        let all = Numbering::new(&self.keys.iter().collect::<Vec<_>>())?.all;
        let mut counts = Vec::with_capacity(self.distinct.len());
        for (distinct, table) in self.distinct.iter().zip(tables) {
            counts.push(groups.parts_in(&table, &distinct.key, all)?);
        }
        let rows = groups.len();
        let mut arrays = groups.keys(&self.keys)?;
        let mut fields: Vec<Field> = self.keys.iter().map(GroupKey::field).collect();
        let mut states: Vec<_> = groups.states.into_iter().map(Some).collect();
        for wanted in &self.order {
            match wanted {
                Wanted::Plan(at) => {
                    let states = states[*at].take().expect("each is asked for once");
                    arrays.push(self.plans[*at].finish_all(states.into_states())?);
                    fields.push(self.plans[*at].field());
                }
                Wanted::Distinct(at) => {
                    let counts = std::mem::take(&mut counts[*at]);
                    arrays.push(Arc::new(Int64Array::from(counts)) as ArrayRef);
                    fields.push(Field::new(&self.distinct[*at].name, DataType::Int64, false));
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
    }
}
