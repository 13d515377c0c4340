//! Scans that are planned: all is prepared as for a scan, kernels compiled, but in place of the launches
//! that would read the columns it is kept what they are.
//!
//! [`DeviceScan::plan`] makes a scan a planned one. What it gives then means nothing; what has been kept
//! says what would have been done.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::DeviceScan;
use super::select::{self, Combine};
use super::source::Source;
use crate::error::Result;
use crate::gpu::kernels::{self, KernelShape};
use crate::gpu::{DeviceBuffer, DeviceInfo, Module, Origin};
use crate::scan::explain::{GroupTableKind, KernelOrigin, KernelPlan, StepOrder};
use crate::scan::predicate::Predicate;

/// What a planned scan would do.
#[derive(Debug, Default)]
pub(in crate::scan) struct Planned {
    /// The steps of each pass over the rows: of groups there may be some.
    orders: Vec<StepOrder>,
    pub kernels: Vec<KernelPlan>,
    /// How many of the kernels are of passes before the last one.
    kernels_before: usize,
    /// Where the groups of the first pass are; none without a kernel that finds them.
    pub table: Option<GroupTableKind>,
    /// Parts of how many that are decoded and scanned one after the other, of which the first is planned.
    pub stages: usize,
}

impl Planned {
    /// The steps of the first pass.
    pub fn order(&self) -> StepOrder {
        self.orders.first().cloned().unwrap_or_default()
    }

    /// Passes over the rows.
    pub fn passes(&self) -> usize {
        self.orders.len().max(1)
    }

    pub fn begin_pass(&mut self) {
        self.orders.push(StepOrder::default());
        self.kernels_before = self.kernels.len();
    }

    /// Forgets the last pass: something else is done.
    pub fn retry(&mut self) {
        self.orders.pop();
        self.kernels.truncate(self.kernels_before);
    }

    pub fn keep_table(&mut self, kind: GroupTableKind) {
        if self.orders.len() == 1 {
            self.table = Some(kind);
        }
    }

    /// The steps of the last pass.
    fn last(&mut self) -> &mut StepOrder {
        if self.orders.is_empty() {
            self.begin_pass();
        }
        self.orders.last_mut().expect("one has begun")
    }
}

/// Shared with the parts of a scan, such as its stages; none of scans that are not planned.
pub(super) type Planning = Option<Rc<RefCell<Planned>>>;

impl DeviceScan<'_> {
    /// From now on keeps what would be done.
    pub fn plan(&mut self) -> Rc<RefCell<Planned>> {
        self.plan.insert(Rc::default()).clone()
    }

    /// What its device is.
    pub fn info(&self) -> &DeviceInfo {
        self.device().info()
    }

    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Forgets all that has been kept: something else is done.
    pub fn plan_anew(&self) {
        self.planned(|planned| *planned = Planned::default());
    }

    /// Keeps something, if the scan is planned.
    pub(super) fn planned(&self, keep: impl FnOnce(&mut Planned)) {
        if let Some(plan) = &self.plan {
            keep(&mut plan.borrow_mut());
        }
    }

    /// Does the work for a predicate; what is planned meanwhile are its parts.
    pub(super) fn within(
        &mut self,
        predicate: &Predicate,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.planned(|planned| planned.last().enter(predicate));
        let done = work(self);
        self.planned(|planned| planned.last().leave());
        done
    }

    /// The kernel of a source.
    ///
    /// # Errors
    /// As [`Device::compile`](crate::gpu::Device::compile).
    pub(super) fn compile(&self, source: &Source) -> Result<Arc<dyn Module>> {
        let device = self.device();
        let was_there = self.is_planned() && device.has_compiled(&source.text);
        let module = device.compile(&source.text)?;
        if let Some(plan) = &self.plan {
            let origin = match (was_there, module.origin()) {
                (true, _) => KernelOrigin::Memory,
                (false, Origin::BuiltIn) => KernelOrigin::BuiltIn,
                (false, Origin::Cache) => KernelOrigin::Cache,
                (false, Origin::Compiled(took)) => KernelOrigin::Compiled(took),
            };
            let shape = kernels::scan(source.warps, source.each).shape();
            let kernel = kernel_plan(shape, Some(module.as_ref()), origin)?;
            let mut planned = plan.borrow_mut();
            planned.kernels.push(kernel);
            planned.last().extend(&source.order.first());
        }
        Ok(module)
    }

    /// Keeps kernels of lanepack.
    pub(super) fn plan_kernels(&self, shapes: &[KernelShape]) -> Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        for shape in shapes {
            let kernel = kernel_plan(*shape, self.device().kernels(), KernelOrigin::BuiltIn)?;
            plan.borrow_mut().kernels.push(kernel);
        }
        Ok(())
    }

    /// Joins a bitmap, or if `negate` what it has not, with another.
    pub(super) fn join_bitmaps(
        &mut self,
        from: &Arc<DeviceBuffer>,
        negate: bool,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        if self.is_planned() {
            return self.plan_kernels(&[kernels::JOIN_SELECTED.shape()]);
        }
        select::join(self.stream, from, negate, how, bitmap, self.rows, self.marks)
    }
}

/// A kernel as plans have it.
fn kernel_plan(
    shape: KernelShape,
    module: Option<&dyn Module>,
    origin: KernelOrigin,
) -> Result<KernelPlan> {
    let of_module = module.map(|module| module.resources(shape.name)).transpose()?;
    let resources = of_module.unwrap_or_default();
    Ok(KernelPlan {
        name: shape.name.to_owned(),
        threads: shape.threads,
        registers: resources.registers,
        shared_bytes: resources.shared.map(|bytes| bytes + shape.shared),
        local_bytes: resources.local,
        origin,
    })
}
