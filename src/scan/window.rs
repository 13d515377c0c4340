//! Chunks of a scan that are in memory, and what they come to: of the host ([`HostScan`]), or of a GPU that they
//! were read to ([`DeviceWindow`]).

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};

use super::aggregate::{Plan, State};
use super::device::{self, DeviceScan, Selection};
use super::group::{GroupTable, Grouping};
use super::host::{HostScan, gather_on_device};
use super::predicate::Predicate;
use crate::device::{Context, DeviceColumn};
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::MemoryLimit;

/// Chunks that are in memory.
pub(super) trait InMemory {
    /// See [`Scan::mask`](super::Scan::mask).
    fn mask(&self, engine: &Engine) -> Result<BooleanArray>;

    /// See [`Scan::count`](super::Scan::count).
    fn count(&self, engine: &Engine) -> Result<usize>;

    /// What the kept rows come to, after rows that came to `before`.
    fn aggregate(&self, plans: &[&Plan], before: Vec<State>, engine: &Engine)
    -> Result<Vec<State>>;

    /// The groups of the kept rows, or of those that a filter keeps as well.
    fn groups(
        &self,
        filter: Option<&Predicate>,
        grouping: Grouping<'_>,
        engine: &Engine,
    ) -> Result<GroupTable>;

    /// See [`Scan::gather`](super::Scan::gather).
    fn gather(&self, wanted: &[usize], limit: MemoryLimit, engine: &Engine) -> Result<RecordBatch>;
}

/// Chunks that have been read, by whoever scans them.
pub(super) enum Window {
    Host(HostScan<'static>),
    Device(DeviceWindow),
}

impl Window {
    pub fn in_memory(&self) -> &dyn InMemory {
        match self {
            Self::Host(scan) => scan,
            Self::Device(window) => window,
        }
    }
}

/// Chunks in the memory of a GPU, which scans them.
pub(super) struct DeviceWindow {
    pub context: Arc<Context>,
    /// Those that the scan uses, by their numbers in predicates.
    pub columns: Vec<DeviceColumn>,
    pub predicate: Predicate,
    pub rows: usize,
}

impl DeviceWindow {
    /// Does `work` with the columns, of which it needs the values of `reads`, and those that a filter needs.
    fn on<T>(
        &self,
        engine: &Engine,
        filter: &Predicate,
        reads: &[usize],
        work: impl FnOnce(&mut DeviceScan<'_>) -> Result<T>,
    ) -> Result<T> {
        engine.run_on(&self.context, || {
            let needed = device::needed(filter, reads, self.columns.len());
            let columns = device::readable(self.columns.iter(), &needed)?;
            device::on_columns(&self.context, &columns, self.rows, &mut (), work)
        })
    }

    fn select<T>(&self, engine: &Engine, work: impl FnOnce(&Selection) -> Result<T>) -> Result<T> {
        let none = &[];
        self.on(engine, &self.predicate, none, |scan| work(&scan.select(&self.predicate)?))
    }
}

impl InMemory for DeviceWindow {
    fn mask(&self, engine: &Engine) -> Result<BooleanArray> {
        self.select(engine, Selection::mask)
    }

    fn count(&self, engine: &Engine) -> Result<usize> {
        self.select(engine, Selection::count)
    }

    fn aggregate(
        &self,
        plans: &[&Plan],
        before: Vec<State>,
        engine: &Engine,
    ) -> Result<Vec<State>> {
        let reads: Vec<usize> = plans.iter().flat_map(|plan| plan.columns_read()).collect();
        let aggregate = |scan: &mut DeviceScan<'_>| scan.aggregate(&self.predicate, plans);
        Ok(self.on(engine, &self.predicate, &reads, aggregate)?.after(plans, before))
    }

    fn groups(
        &self,
        filter: Option<&Predicate>,
        grouping: Grouping<'_>,
        engine: &Engine,
    ) -> Result<GroupTable> {
        let predicate = self.predicate.clone().and(filter);
        self.on(engine, &predicate, &grouping.reads(), |scan| scan.groups(&predicate, grouping))
    }

    fn gather(&self, wanted: &[usize], limit: MemoryLimit, engine: &Engine) -> Result<RecordBatch> {
        let filter = &self.predicate;
        self.on(engine, filter, wanted, |scan| gather_on_device(scan, filter, wanted, limit))
    }
}
