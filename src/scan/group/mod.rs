//! Groups of the rows that a scan keeps, and aggregates of each.
//!
//! ```text
//! vector   rows --codes of keys--> numbers (key.rs) --table--> groups, in the order they come first
//!                                                              | values of each aggregate
//! thread   a table and states of its own (states.rs)  <--------+
//! call     tables of all threads, merged; keys and states as arrays, in the order asked for
//! ```
//!
//! Distinct values are counted as groups: a second pass over the rows has the key whose values are counted
//! behind the others, and its groups are counted by those of the first (asked.rs).
//!
//! Sums of integers are exact whatever the order, sums of floats too (exact.rs), so results do not
//! depend on threads, chunks or engines.

mod asked;
mod exact;
mod explain;
mod key;
mod states;

use std::fmt;
use std::sync::Arc;

use ahash::RandomState;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use hashbrown::HashTable;

pub(super) use asked::Asked;
pub(super) use key::{GroupKey, KeySource, lock};
pub(super) use states::{Found, States};

use super::aggregate::{Aggregate, Plan};
use super::bind::{Binder, no_column};
use super::device::DeviceScan;
use super::expr::Expr;
use super::predicate::Predicate;
use super::{Scan, bounds_on_device};
use crate::device::Context;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// The rows of a scan by groups: [`Scan::group_by`].
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::scan::{Scan, col, sum};
/// use lanepack::{Engine, Options, compress};
///
/// let sales = record_batch!(
///     ("shop", Utf8, ["a", "b", "a", "c"]),
///     ("price", Int64, [5, 7, 1, 2])
/// )?;
/// let sales = compress(&sales, &Options::default())?;
/// let most = Scan::new(&sales)
///     .group_by([col("shop")])
///     .order_by([("sum(price)", true)])
///     .limit(2)
///     .aggregate(&[sum(col("price"))], &Engine::cpu())?;
/// assert_eq!(most, record_batch!(("shop", Utf8, ["b", "a"]), ("sum(price)", Int64, [7, 6]))?);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GroupBy<'a> {
    scan: Scan<'a>,
    keys: Vec<Expr>,
    /// Columns of the result, and whether they descend.
    order: Vec<(String, bool)>,
    limit: Option<usize>,
    most: usize,
}

/// Groups that a call may make unless it is told another limit.
const MOST_GROUPS: usize = 1 << 26;

impl<'a> Scan<'a> {
    /// The rows that are kept, in groups that have the same values of some columns, columns of lookups
    /// among them. Nulls are a group of their own; floats are the same if their bits are.
    #[must_use]
    pub fn group_by(self, keys: impl IntoIterator<Item = Expr>) -> GroupBy<'a> {
        let keys = keys.into_iter().collect();
        GroupBy { scan: self, keys, order: Vec::new(), limit: None, most: MOST_GROUPS }
    }
}

impl GroupBy<'_> {
    /// Orders the groups by columns of the result (keys and aggregates by their names), each with
    /// whether it descends; nulls come first, groups that are equal there in the order of their keys.
    /// Without this, groups come in the ascending order of their keys.
    #[must_use]
    pub fn order_by<S: Into<String>>(
        mut self,
        columns: impl IntoIterator<Item = (S, bool)>,
    ) -> Self {
        self.order = columns.into_iter().map(|(name, descends)| (name.into(), descends)).collect();
        self
    }

    /// Gives only the first groups.
    #[must_use]
    pub fn limit(mut self, groups: usize) -> Self {
        self.limit = Some(groups);
        self
    }

    /// Groups that a call may make before it is an error; 67,108,864 unless this is called.
    #[must_use]
    pub fn with_group_limit(mut self, groups: usize) -> Self {
        self.most = groups;
        self
    }

    /// The groups: a batch with a row for each, the keys and then the aggregates.
    ///
    /// Sums of floats are what adding all values exactly and rounding once gives.
    ///
    /// # Errors
    /// As [`Scan::aggregate`]; [`Error::Expression`] for keys that are no columns with an order, and
    /// columns of the order that the result does not have; [`Error::Unsupported`] for keys whose values
    /// take more than 128 bits together; [`Error::TooLarge`] for more groups than the limit.
    pub fn aggregate(&self, aggregates: &[Aggregate], engine: &Engine) -> Result<RecordBatch> {
        let bind = |binder: &mut Binder<'_>| Asked::new(&self.keys, aggregates, binder);
        let (tables, asked) = match self.scan.resident(engine)? {
            Some(context) => self.on_device(bind, context)?,
            None => {
                let (scan, mut asked) = self.scan.bind(bind)?;
                let column = |of: usize| (scan.bounds(of), scan.has_nulls(of));
                asked.fit(&column, scan.rows())?;
                let tables = asked.tables(self.most, |filter, grouping| {
                    scan.groups(filter, grouping, engine).map(Some)
                });
                (tables?.expect("the CPU finds all groups"), asked)
            }
        };
        self.result(asked.result(tables)?, asked.keys.len())
    }

    /// The groups of a batch in the memory of a GPU.
    fn on_device(
        &self,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<Asked>,
        context: &Arc<Context>,
    ) -> Result<(Vec<GroupTable>, Asked)> {
        self.scan.on(context, bind, Asked::reads, &mut (), |scan, predicate, asked| {
            self.found(scan, predicate, asked)
        })
    }

    /// The groups that a GPU finds in columns in its memory, or the CPU of the rows that it has found.
    fn found(
        &self,
        scan: &mut DeviceScan<'_>,
        predicate: &Predicate,
        mut asked: Asked,
    ) -> Result<(Vec<GroupTable>, Asked)> {
        let columns = scan.columns;
        let column = |of: usize| (bounds_on_device(columns[of]), columns[of].null_count() > 0);
        let within = |filter: Option<&Predicate>| predicate.clone().and(filter);
        if !scan.keeps_nothing(predicate) {
            scan.code_strings(asked.all_keys())?;
        }
        asked.fit(&column, scan.rows)?;
        let tables = asked.tables(self.most, |filter, grouping| {
            scan.groups_by_kernels(&within(filter), grouping)
        });
        if let Some(tables) = tables? {
            return Ok((tables, asked));
        }
        // The CPU finds them, with codes of its own.
        scan.plan_anew();
        asked.all_keys().for_each(|key| key.with_codes(None));
        asked.fit(&column, scan.rows)?;
        let tables = asked.tables(self.most, |filter, grouping| {
            scan.groups_by_host(&within(filter), grouping).map(Some)
        });
        Ok((tables?.expect("the CPU finds all groups"), asked))
    }

    /// The rows in their order, of a batch whose first columns are `keys`.
    fn result(&self, groups: RecordBatch, keys: usize) -> Result<RecordBatch> {
        let schema = groups.schema();
        let by = |column: &ArrayRef, descending: bool| SortColumn {
            values: column.clone(),
            options: Some(SortOptions { descending, nulls_first: true }),
        };
        let mut order = Vec::with_capacity(self.order.len() + keys);
        for (name, descends) in &self.order {
            let index =
                schema.index_of(name).map_err(|_| no_column(name, schema.fields().iter()))?;
            order.push(by(groups.column(index), *descends));
        }
        order.extend(groups.columns()[..keys].iter().map(|column| by(column, false)));
        if order.is_empty() {
            let rows = self.limit.map_or(groups.num_rows(), |limit| limit.min(groups.num_rows()));
            return Ok(groups.slice(0, rows));
        }
        let indices = lexsort_to_indices(&order, self.limit)?;
        Ok(arrow_select::take::take_record_batch(&groups, &indices)?)
    }
}

/// What rows are grouped by, and what is wanted of groups.
#[derive(Clone, Copy)]
pub(super) struct Grouping<'a> {
    pub keys: &'a [&'a GroupKey],
    pub plans: &'a [&'a Plan],
    pub numbering: &'a Numbering,
    /// Groups at most.
    pub most: usize,
}

impl Grouping<'_> {
    pub fn table(&self) -> GroupTable {
        GroupTable::new(self.plans, self.numbering, self.most)
    }

    /// Keys and aggregates, as work that is predicted counts them.
    pub fn effort(&self) -> usize {
        self.keys.len() + self.plans.len()
    }

    /// The columns whose values are read.
    pub fn reads(&self) -> Vec<usize> {
        let of_plans = self.plans.iter().flat_map(|plan| plan.columns_read());
        self.keys.iter().flat_map(|key| key.columns()).chain(of_plans).collect()
    }
}

/// Strides of keys, so that their codes make one number.
#[derive(Debug, Clone)]
pub(super) struct Numbering {
    pub strides: Vec<u128>,
    /// All numbers.
    pub all: u128,
}

impl Numbering {
    pub fn new(keys: &[&GroupKey]) -> Result<Self> {
        let (mut strides, mut all) = (Vec::with_capacity(keys.len()), 1_u128);
        for key in keys {
            strides.push(all);
            all = all.checked_mul(key.codes().max(1)).ok_or_else(|| {
                Error::unsupported("values of the keys of groups take more than 128 bits together (floats all of theirs): group by fewer columns")
            })?;
        }
        Ok(Self { strides, all })
    }
}

/// Groups by their numbers, in the order in which they came.
pub(super) struct GroupTable {
    index: Index,
    numbers: Vec<u128>,
    pub states: Vec<States>,
    most: usize,
}

enum Index {
    /// For each number one more than its group, 0 if there is none.
    Dense(Vec<u32>),
    Hashed(HashTable<u32>, RandomState),
}

/// Numbers that have a dense index: a quarter of a megabyte for each thread.
const DENSE: u128 = 1 << 16;

impl GroupTable {
    pub fn new(plans: &[&Plan], numbering: &Numbering, most: usize) -> Self {
        let index = match numbering.all <= DENSE {
            true => Index::Dense(vec![0; numbering.all as usize]),
            false => Index::Hashed(HashTable::new(), RandomState::new()),
        };
        let states = plans.iter().map(|plan| States::new(plan)).collect();
        Self { index, numbers: Vec::new(), states, most }
    }

    /// Whether it has a place for each number.
    fn is_indexed(&self) -> bool {
        matches!(self.index, Index::Dense(_))
    }

    /// The group of a number, which is less than all of them; a new one if there is none.
    fn group(&mut self, number: u128) -> Result<u32> {
        let new = self.numbers.len();
        let group = match &mut self.index {
            Index::Dense(groups) => {
                let group = &mut groups[number as usize];
                if *group == 0 {
                    *group = new as u32 + 1;
                }
                *group - 1
            }
            Index::Hashed(table, hasher) => {
                let numbers = &self.numbers;
                let hash = hasher.hash_one(number);
                match table.find(hash, |group| numbers[*group as usize] == number) {
                    Some(group) => *group,
                    None => {
                        let again = |group: &u32| hasher.hash_one(numbers[*group as usize]);
                        table.insert_unique(hash, new as u32, again);
                        new as u32
                    }
                }
            }
        };
        if group as usize == new {
            if new >= self.most.min(u32::MAX as usize) {
                let what = format!(
                    "more than {new} groups: `GroupBy::with_group_limit` sets another limit"
                );
                return Err(Error::too_large(what));
            }
            self.numbers.push(number);
        }
        Ok(group)
    }

    /// The groups of some numbers, with room for their states.
    pub fn groups(&mut self, numbers: &[u128], groups: &mut Vec<u32>) -> Result<()> {
        groups.clear();
        for number in numbers {
            groups.push(self.group(*number)?);
        }
        self.grow();
        Ok(())
    }

    fn grow(&mut self) {
        let count = self.numbers.len();
        self.states.iter_mut().for_each(|states| states.grow(count));
    }

    /// Adds the groups of another table.
    pub fn merge(mut self, other: Self) -> Result<Self> {
        let mut groups = Vec::with_capacity(other.numbers.len());
        self.groups(&other.numbers, &mut groups)?;
        for (own, other) in self.states.iter_mut().zip(other.states) {
            own.merge(other, &groups);
        }
        Ok(self)
    }

    /// Number of groups.
    fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The keys of the groups.
    fn keys(&self, keys: &[GroupKey]) -> Result<Vec<ArrayRef>> {
        let (mut arrays, mut stride) = (Vec::with_capacity(keys.len()), 1_u128);
        for key in keys {
            let codes = key.codes().max(1);
            let code = |number: &u128| {
                let code = number / stride % codes;
                let value = if key.has_nulls { code.checked_sub(1) } else { Some(code) };
                value.map(|value| value as u64)
            };
            let of_key: Vec<Option<u64>> = self.numbers.iter().map(code).collect();
            arrays.push(key.array(&of_key)?);
            stride = stride.saturating_mul(codes);
        }
        Ok(arrays)
    }

    /// For each group how many groups `others` has that are parts of it, and in which the key that it has
    /// more, `key`, is not null. Numbers of groups are less than `all`.
    fn parts_in(&mut self, others: &Self, key: &GroupKey, all: u128) -> Result<Vec<i64>> {
        let mut numbers = Vec::with_capacity(others.numbers.len());
        let is_null = |number: &u128| key.has_nulls && number / all == 0;
        numbers.extend(others.numbers.iter().filter(|number| !is_null(number)).map(|of| of % all));
        let mut groups = Vec::with_capacity(numbers.len());
        self.groups(&numbers, &mut groups)?;
        let mut counts = vec![0; self.len()];
        groups.into_iter().for_each(|group| counts[group as usize] += 1);
        Ok(counts)
    }
}

impl fmt::Debug for GroupTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupTable").field("groups", &self.numbers.len()).finish_non_exhaustive()
    }
}
