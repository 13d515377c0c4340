//! Plans of queries: what a scan would do, and with what, without doing it.
//!
//! ```text
//! CPU   the filter of each chunk (cpu/mod.rs)            order.rs: parts in their order
//! GPU   the kernels of a planned scan (device/plan.rs)      |        text.rs: parts as text
//!                                                           v
//!                                          QueryPlan --display.rs--> text
//! ```
//!
//! What is told comes from what scans: the steps of a chunk's filter, the writer of a kernel's source.

mod display;
mod order;
mod query;
mod text;

use std::time::Duration;

pub(in crate::scan) use order::{Part, StepOrder};
pub(in crate::scan) use query::{columns_of, on_cpu, on_device};

use super::Scan;
use super::aggregate::{Aggregate, Plan};
use super::bind::Binder;
use super::{bounds_of, bounds_on_device, plans};
use crate::device::Context;
use crate::engine::{Choice, Engine};
use crate::error::Result;
use crate::gpu::DeviceInfo;

/// What a scan would do: [`Scan::explain`], [`GroupBy::explain`](super::GroupBy::explain).
///
/// Its text ([`Display`](std::fmt::Display)) has a line or a table for each part.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::scan::{Scan, col, sum};
/// use lanepack::{Engine, Options, compress};
///
/// let batch = record_batch!(
///     ("day", Int32, (0..4096).map(|row| row / 10).collect::<Vec<_>>()),
///     ("price", Int64, (0..4096).map(|row| row * 7919 % 1000).collect::<Vec<_>>())
/// )?;
/// let packed = compress(&batch, &Options::default().with_chunk_rows(1024))?;
/// let scan = Scan::new(&packed).filter(col("price").lt(500).and(col("day").lt(150)));
/// let plan = scan.explain(&[sum(col("price"))], &Engine::cpu())?;
/// assert_eq!((plan.chunks(), plan.chunks_skipped()), (4, 2));
/// assert!(plan.bytes_read() < plan.bytes_stored());
/// println!("{plan}");
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct QueryPlan {
    rows: usize,
    chunks: usize,
    chunks_skipped: usize,
    bytes_read: usize,
    bytes_stored: usize,
    steps: Vec<FilterStep>,
    ordered_chunk: Option<usize>,
    groups: Option<GroupPlan>,
    aggregates: Vec<String>,
    kernels: Vec<KernelPlan>,
    stages: usize,
    passes: usize,
    device: Option<DeviceInfo>,
    choice: Option<Choice>,
}

/// A step of a filter: a test of rows, or how deeper steps behind it are joined.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilterStep {
    /// The test as it is run: `lo_orderdate IN lookup d_datekey of 365 keys`. Tests of one column are one
    /// test, with bounds that belong to the rows that are kept. Of joined steps `all of`, `one of` or
    /// `not`.
    pub text: String,
    /// Steps that this one is part of.
    pub depth: usize,
    /// The columns that it reads, keys of lookups among them.
    pub columns: Vec<String>,
    /// Compressed bytes of these columns in all chunks.
    pub bytes: usize,
    /// The share of rows that is expected to pass, which the order of steps depends on. Known of lookups:
    /// the share of the rows of its source that a lookup has, times that of its column's values that pass.
    pub share: Option<f64>,
}

/// How groups are found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupPlan {
    /// What rows are grouped by, and how many values each may have, null included. Strings without
    /// dictionaries have as many as there are rows.
    pub keys: Vec<(String, u128)>,
    /// All combinations of the values: groups at most.
    pub numbers: u128,
    /// Where groups are looked up.
    pub table: GroupTableKind,
}

/// Where groups are looked up: [`GroupPlan::table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupTableKind {
    /// A table with a place for each combination of keys, in the shared memory of each block of a kernel.
    SharedMemory,
    /// The same in the memory of the GPU.
    DeviceMemory,
    /// A hash table in the memory of the GPU, which grows by running the kernel again.
    DeviceHashed,
    /// A table with a place for each combination of keys, of each thread of the CPU.
    HostIndexed,
    /// A hash table of each thread of the CPU.
    HostHashed,
}

/// A kernel that a scan starts on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelPlan {
    /// Its name; `scan` is the one that is made for the query.
    pub name: String,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread, if the device tells.
    pub registers: Option<u32>,
    /// Bytes of shared memory of a block, if the device tells.
    pub shared_bytes: Option<u32>,
    /// Bytes of local memory of a thread: spilled registers and indexed arrays; if the device tells.
    pub local_bytes: Option<u32>,
    /// Where its code has come from.
    pub origin: KernelOrigin,
}

/// Where the code of a kernel has come from: [`KernelPlan::origin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelOrigin {
    /// It is one of lanepack's own.
    BuiltIn,
    /// The engine's device has had it already.
    Memory,
    /// It has been in the cache folder.
    Cache,
    /// It was compiled for this plan, which has taken so long; scans of this shape need not wait again.
    Compiled(Duration),
}

impl QueryPlan {
    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Chunks of the batch.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Chunks in which no row can pass, by the bounds in their headers; on the CPU also by dictionaries.
    /// The CPU reads nothing else of them. A GPU decides by the bounds of each vector: of such a chunk it
    /// reads these, and what tests before the excluding one need.
    pub fn chunks_skipped(&self) -> usize {
        self.chunks_skipped
    }

    /// Compressed bytes that are read at most: of the used columns all chunks; on the CPU without chunks
    /// that are skipped, and in each chunk without columns whose tests are decided by bounds. Vectors that
    /// are not unpacked, because no row is left or their bounds decide, are counted. Columns that are only
    /// gathered are not.
    pub fn bytes_read(&self) -> usize {
        self.bytes_read
    }

    /// Compressed bytes of the columns that the filter, groups and aggregates use.
    pub fn bytes_stored(&self) -> usize {
        self.bytes_stored
    }

    /// The steps of the filter in the order in which they are evaluated: rows that a step drops later
    /// ones do not look at. None if all rows are kept, or none.
    ///
    /// The CPU orders steps in each chunk by what they cost with the chunk's encodings; this is the order
    /// of [`QueryPlan::ordered_chunk`], others may differ, and lack steps that bounds decide.
    pub fn steps(&self) -> &[FilterStep] {
        &self.steps
    }

    /// The chunk whose order [`QueryPlan::steps`] have: on the CPU the first in which bounds do not decide
    /// everything.
    pub fn ordered_chunk(&self) -> Option<usize> {
        self.ordered_chunk
    }

    /// How groups are found, if rows are grouped.
    pub fn groups(&self) -> Option<&GroupPlan> {
        self.groups.as_ref()
    }

    /// The aggregates as they are written.
    pub fn aggregates(&self) -> &[String] {
        &self.aggregates
    }

    /// The kernels of a GPU that find rows, groups and aggregates, in their order. Those that prepare a
    /// first scan, count rows or gather values are not listed.
    pub fn kernels(&self) -> &[KernelPlan] {
        &self.kernels
    }

    /// Parts of the batch that a GPU decodes and scans one after the other, because kernels do not read
    /// all chunks as they are stored; [`QueryPlan::kernels`] are those of one part. 1 if they do.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// Passes over the rows: one more for each count of distinct values. Steps are those of the first.
    /// [`QueryPlan::bytes_read`] counts once what passes of groups read.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// The GPU that steps and kernels are of; none if they are the CPU's.
    pub fn device(&self) -> Option<&DeviceInfo> {
        self.device.as_ref()
    }

    /// What the engine would run on; none of a batch in GPU memory, which is scanned there.
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }
}

impl Scan<'_> {
    /// What [`Scan::aggregate`] would do with this engine, or without aggregates [`Scan::count`],
    /// [`Scan::mask`], [`Scan::rows`] and [`Scan::gather`], as far as they find rows.
    ///
    /// Nothing is scanned. What a first scan prepares is prepared: kernels are compiled, dictionaries are
    /// tested, tables of lookups are copied to the device.
    ///
    /// A batch in host memory is uploaded if one GPU is to scan all of it, and the plan is the GPU's. If it
    /// is shared by several processors the steps are the CPU's; [`QueryPlan::choice`] says who takes part.
    ///
    /// # Errors
    /// As [`Scan::aggregate`], but for what only a look at values shows.
    pub fn explain(&self, aggregates: &[Aggregate], engine: &Engine) -> Result<QueryPlan> {
        let (distinct, others): (Vec<_>, Vec<_>) =
            aggregates.iter().cloned().partition(|aggregate| aggregate.distinct().is_some());
        if !distinct.is_empty() {
            // Found as groups are, after the others.
            let plan = self.clone().group_by([]).explain(&distinct, engine)?;
            let plan = match others.is_empty() {
                true => plan,
                false => self.explain(&others, engine)?.before(plan),
            };
            return Ok(QueryPlan { groups: None, ..plan }.with_aggregates(aggregates));
        }
        let plan = match self.resident(engine)? {
            Some(context) => self.explain_on(context, aggregates)?,
            None => {
                let (source, mut plans) = self.bind(|binder| plans(aggregates, binder))?;
                let scan = source.read_all()?;
                let reads = columns_of_plans(&plans);
                let (choice, context) =
                    engine.planned(|| scan.work(engine, &values_of(&plans), plans.len()));
                let plan = match context {
                    Some(context) => self.explain_on(&context, aggregates)?,
                    None => {
                        let bounds = |of: usize| bounds_of(scan.columns[of].as_ref());
                        plans.iter_mut().try_for_each(|plan| plan.fit(&bounds))?;
                        on_cpu(&scan, &reads)?
                    }
                };
                plan.with_choice(choice)
            }
        };
        Ok(plan.with_aggregates(aggregates))
    }

    /// The plan of a GPU.
    fn explain_on(
        &self,
        context: &std::sync::Arc<Context>,
        aggregates: &[Aggregate],
    ) -> Result<QueryPlan> {
        let bind = |binder: &mut Binder<'_>| plans(aggregates, binder);
        let reads = |plans: &Vec<Plan>| values_of(plans);
        self.on(context, bind, reads, &mut (), |scan, predicate, mut plans| {
            let bounds = |of: usize| bounds_on_device(scan.columns[of]);
            plans.iter_mut().try_for_each(|plan| plan.fit(&bounds))?;
            let planned = scan.plan();
            match plans.is_empty() {
                true => drop(scan.select(predicate)?),
                false => {
                    drop(scan.aggregate(predicate, &plans.iter().collect::<Vec<_>>())?);
                }
            }
            Ok(on_device(scan, predicate, &planned.take(), &columns_of_plans(&plans)))
        })
    }
}

impl QueryPlan {
    pub(in crate::scan) fn with_aggregates(self, aggregates: &[Aggregate]) -> Self {
        Self { aggregates: aggregates.iter().map(ToString::to_string).collect(), ..self }
    }

    pub(in crate::scan) fn with_groups(self, groups: GroupPlan, passes: usize) -> Self {
        Self { groups: Some(groups), passes, ..self }
    }

    /// This one, and another of the same rows behind it.
    fn before(self, other: Self) -> Self {
        Self {
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_stored: self.bytes_stored.max(other.bytes_stored),
            kernels: [self.kernels, other.kernels].concat(),
            passes: self.passes + other.passes,
            ..self
        }
    }

    pub(in crate::scan) fn with_choice(self, choice: Choice) -> Self {
        Self { choice: Some(choice), ..self }
    }
}

/// The columns whose values aggregates read.
fn values_of(plans: &[Plan]) -> Vec<usize> {
    plans.iter().flat_map(Plan::columns_read).collect()
}

/// The columns of which aggregates read values, or whether they are null.
pub(in crate::scan) fn columns_of_plans(plans: &[Plan]) -> Vec<usize> {
    let mut columns = values_of(plans);
    for plan in plans {
        columns.extend(plan.input.columns());
        if let Some(filter) = &plan.filter {
            columns_of(&filter.predicate, &mut columns);
        }
    }
    columns
}
