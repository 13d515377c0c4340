//! Chunks of a scan that are in memory, and what they come to: of the host ([`HostScan`]), or of a GPU that they
//! were read to ([`DeviceWindow`]).

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};

use super::aggregate::{Plan, State, joined};
use super::cpu::group::Tables;
use super::device::{self, DeviceScan, Selection};
use super::host::{HostScan, Part, bytes_of, gather_on_device};
use super::predicate::Predicate;
use crate::device::{Context, DeviceColumn};
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::Budget;

/// Chunks that are in memory.
pub(super) trait InMemory {
    /// See [`Scan::mask`](super::Scan::mask).
    fn mask(&self, engine: &Engine) -> Result<BooleanArray>;

    /// See [`Scan::count`](super::Scan::count).
    fn count(&self, engine: &Engine) -> Result<usize>;

    /// What the kept rows come to.
    fn aggregate(&self, plans: &[&Plan], engine: &Engine) -> Result<Aggregated>;

    /// Adds the groups of the kept rows, or of those that a filter keeps as well, to tables; nothing if that fails
    /// on a device.
    fn add_groups(
        &self,
        filter: Option<&Predicate>,
        tables: &Tables<'_>,
        engine: &Engine,
    ) -> Result<()>;

    /// See [`Scan::gather`](super::Scan::gather).
    fn gather(&self, wanted: &[usize], budget: &Budget, engine: &Engine) -> Result<RecordBatch>;
}

/// States of aggregates that are still those of parts: floats are added in the order of chunks.
pub(super) struct Aggregated(pub Vec<Part<Vec<State>, device::Found>>);

impl Aggregated {
    /// The states after these parts, which follow `before`.
    pub fn after(self, plans: &[&Plan], before: Vec<State>) -> Vec<State> {
        self.0.into_iter().fold(before, |states, part| match part {
            Part::Span(found) => found.after(plans, states),
            Part::Chunks(chunks) => joined(chunks, states),
        })
    }
}

/// Chunks that have been read, by whoever scans them.
pub(super) enum Window {
    Host(HostScan<'static>),
    Device(DeviceWindow),
}

/// Chunks in the memory of a GPU, which scans them.
pub(super) struct DeviceWindow {
    pub context: Arc<Context>,
    /// Those that the scan uses, by their numbers in predicates.
    pub columns: Vec<DeviceColumn>,
    pub predicate: Arc<Predicate>,
    pub rows: usize,
}

impl DeviceWindow {
    /// Does `work` with the columns, of which it needs the values of `reads`, and those that a filter needs.
    fn on<T>(
        &self,
        filter: &Predicate,
        reads: &[usize],
        work: impl FnOnce(&mut DeviceScan<'_>) -> Result<T>,
    ) -> Result<T> {
        let needed = device::needed(filter, reads, self.columns.len());
        let columns = device::readable(self.columns.iter(), &needed)?;
        device::on_columns(&self.context, &columns, self.rows, &mut (), work)
    }

    fn select<T>(&self, work: impl FnOnce(&Selection) -> Result<T>) -> Result<T> {
        self.on(&self.predicate, &[], |scan| work(&scan.select(&self.predicate)?))
    }
}

impl InMemory for DeviceWindow {
    fn mask(&self, _: &Engine) -> Result<BooleanArray> {
        self.select(Selection::mask)
    }

    fn count(&self, _: &Engine) -> Result<usize> {
        self.select(Selection::count)
    }

    fn aggregate(&self, plans: &[&Plan], _: &Engine) -> Result<Aggregated> {
        let reads: Vec<usize> = plans.iter().flat_map(|plan| plan.columns_read()).collect();
        let aggregate = |scan: &mut DeviceScan<'_>| scan.aggregate(&self.predicate, plans);
        let found = self.on(&self.predicate, &reads, aggregate)?;
        Ok(Aggregated(vec![Part::Span(found)]))
    }

    fn add_groups(
        &self,
        filter: Option<&Predicate>,
        tables: &Tables<'_>,
        _: &Engine,
    ) -> Result<()> {
        let (grouping, predicate) = (tables.grouping(), self.predicate.as_ref().clone());
        let predicate = predicate.and(filter);
        let groups = |scan: &mut DeviceScan<'_>| scan.groups(&predicate, grouping);
        tables.add(self.on(&predicate, &grouping.reads(), groups)?)
    }

    fn gather(&self, wanted: &[usize], budget: &Budget, _: &Engine) -> Result<RecordBatch> {
        let filter = &self.predicate;
        budget.one_part(bytes_of, |limit| {
            self.on(filter, wanted, |scan| gather_on_device(scan, filter, wanted, limit))
        })
    }
}
