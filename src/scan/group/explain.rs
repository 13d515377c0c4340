//! Plans of groups.

use std::sync::Arc;

use super::asked::Asked;
use super::{GroupBy, GroupKey, Numbering};
use crate::device::Context;
use crate::engine::Engine;
use crate::error::Result;
use crate::scan::aggregate::Aggregate;
use crate::scan::bind::Binder;
use crate::scan::explain::{self, GroupPlan, GroupTableKind, QueryPlan};
use crate::scan::{bounds_of, bounds_on_device};

impl GroupBy<'_> {
    /// What [`GroupBy::aggregate`] would do with this engine. As [`Scan::explain`](crate::scan::Scan::explain);
    /// rows of the result and their order are not planned.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use lanepack::scan::{GroupTableKind, Scan, col, count_rows};
    /// use lanepack::{Engine, Options, compress};
    ///
    /// let sales = record_batch!(("shop", Int16, [3, 7, 3]), ("price", Int64, [5, 7, 1]))?;
    /// let sales = compress(&sales, &Options::default())?;
    /// let by_shop = Scan::new(&sales).filter(col("price").gt(2)).group_by([col("shop")]);
    /// let plan = by_shop.explain(&[count_rows()], &Engine::cpu())?;
    /// let groups = plan.groups().unwrap();
    /// assert_eq!((groups.numbers, groups.table), (5, GroupTableKind::HostIndexed));
    /// assert_eq!(plan.steps()[0].text, "price >= 3");
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`GroupBy::aggregate`], but for what only a look at values shows.
    pub fn explain(&self, aggregates: &[Aggregate], engine: &Engine) -> Result<QueryPlan> {
        let bind = |binder: &mut Binder<'_>| Asked::new(&self.keys, aggregates, binder);
        let plan = match self.scan.resident(engine)? {
            Some(context) => self.explain_on(bind, context, true)?,
            None => {
                let (source, mut asked) = self.scan.bind(bind)?;
                let scan = source.read_all()?;
                let effort = aggregates.len() + asked.keys.len();
                let (choice, context) =
                    engine.planned(|| scan.work(engine, &asked.reads(), effort));
                let plan = match context {
                    Some(context) => self.explain_on(bind, &context, false)?,
                    None => {
                        let column = |of: usize| {
                            let column = scan.columns[of].as_ref();
                            (bounds_of(column), column.null_count() > 0)
                        };
                        asked.fit(&column, scan.rows())?;
                        let plan = explain::on_cpu(&scan, &asked.columns())?;
                        self.with_groups(plan, &asked, None)?
                    }
                };
                plan.with_choice(choice)
            }
        };
        Ok(plan.with_aggregates(aggregates))
    }

    /// The plan of a GPU, of a batch in its memory or in that of the host.
    fn explain_on(
        &self,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<Asked>,
        context: &Arc<Context>,
        is_resident: bool,
    ) -> Result<QueryPlan> {
        self.scan.on(context, bind, Asked::reads, &mut (), |scan, predicate, mut asked| {
            let planned = scan.plan();
            match is_resident {
                true => asked = self.found(scan, predicate, asked)?.1,
                false => {
                    let columns = scan.columns;
                    let column =
                        |of: usize| (bounds_on_device(columns[of]), columns[of].null_count() > 0);
                    asked.fit(&column, scan.rows)?;
                    asked.tables(self.most, |filter, grouping| {
                        scan.groups(&predicate.clone().and(filter), grouping).map(Some)
                    })?;
                }
            }
            let planned = planned.take();
            let plan = explain::on_device(scan, predicate, &planned, &asked.columns());
            self.with_groups(plan, &asked, planned.table)
        })
    }

    /// A plan with its groups, which a kernel finds in a table of some kind, or the CPU.
    fn with_groups(
        &self,
        plan: QueryPlan,
        asked: &Asked,
        kind: Option<GroupTableKind>,
    ) -> Result<QueryPlan> {
        let (mut passes, mut first) = (0, None);
        asked.tables(self.most, |_, grouping| {
            let table = grouping.table();
            passes += 1;
            first.get_or_insert(match table.is_indexed() {
                true => GroupTableKind::HostIndexed,
                false => GroupTableKind::HostHashed,
            });
            Ok(Some(table))
        })?;
        let keys: Vec<&GroupKey> = asked.keys.iter().collect();
        let numbers = Numbering::new(&keys)?.all;
        let keys = keys.iter().map(|key| (key.field().name().clone(), key.codes())).collect();
        let table = kind.or(first).unwrap_or(GroupTableKind::HostIndexed);
        Ok(plan.with_groups(GroupPlan { keys, numbers, table }, passes))
    }
}
