//! Groups of the rows that a scan keeps, on a GPU.
//!
//! ```text
//! few numbers of groups   one kernel for filter, keys and aggregates, into a table indexed by the
//! (`dense_bytes`)         numbers (kernels/lanepack/groups.cuh); the table is copied to the host
//! others of 64 bits       the same, into a hash table; it begins small, and grows by running the kernel
//!                         again (`hashed_bytes`)
//! others, strings of      rows by the GPU, groups by the CPU, for which the columns are copied as
//! their own, bounds of    they are
//! more than 64 bits
//! ```

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, i256};
use rayon::prelude::*;

use super::select::Report;
use super::source::{GroupLayout, GroupMemory, GroupWords, Output, SlotMemory};
use super::{DeviceScan, MadeKernel, Planned, aggregate};
use crate::column::CompressedColumn;
use crate::device::status::StatusWords;
use crate::error::{Error, Result};
use crate::gpu::abi::{GatherGroupsArguments, ListGroupsArguments};
use crate::gpu::{DeviceBuffer, Launch, kernels};
use crate::scan::cpu::group::Tables;
use crate::scan::cpu::{self, Filter};
use crate::scan::explain::GroupTableKind;
use crate::scan::group::{Found, GroupTable, Grouping, KeySource};
use crate::scan::join::JoinedColumn;
use crate::scan::predicate::Predicate;

/// Bytes of a table that is indexed by the numbers of groups. On the emulation few, so that tests see
/// all ways.
fn dense_bytes(is_host: bool) -> u128 {
    if is_host { 256 << 10 } else { 64 << 20 }
}

/// Bytes of a hash table at first, and at most.
fn hashed_bytes(is_host: bool) -> [usize; 2] {
    if is_host { [16 << 10, 1 << 20] } else { [64 << 20, 1 << 30] }
}

/// Slots of a hash table at first: more are filled in vain where there are few groups.
const FIRST_SLOTS: usize = 1 << 20;

/// How many times as many slots a table has when there were too few.
const GROWTH: usize = 8;

/// Rows whose values may be added up in digits of 32 bits.
const MOST_ROWS: usize = 1 << 31;

/// A kernel that adds rows to a table.
struct Added {
    made: MadeKernel,
    status: Arc<StatusWords>,
}

impl DeviceScan<'_> {
    /// The groups of the rows that a predicate keeps; waits for them. Keys have no codes of strings.
    pub fn groups(&mut self, predicate: &Predicate, grouping: Grouping<'_>) -> Result<GroupTable> {
        match self.groups_by_kernels(predicate, grouping)? {
            Some(table) => Ok(table),
            None => {
                self.planned(Planned::retry);
                self.groups_by_host(predicate, grouping)
            }
        }
    }

    /// The same: kernels find the rows, the CPU their groups.
    pub fn groups_by_host(
        &mut self,
        predicate: &Predicate,
        grouping: Grouping<'_>,
    ) -> Result<GroupTable> {
        self.planned(Planned::begin_pass);
        let kept = self.select(predicate)?;
        if self.is_planned() {
            return Ok(grouping.table());
        }
        let mask = kept.mask()?;
        self.groups_on_host(mask.values(), grouping)
    }

    /// The same; none if no kernel finds them: there are too many, or they take too much of its memory,
    /// or nothing compiles one.
    pub fn groups_by_kernels(
        &mut self,
        predicate: &Predicate,
        grouping: Grouping<'_>,
    ) -> Result<Option<GroupTable>> {
        self.planned(Planned::begin_pass);
        if self.keeps_nothing(predicate) {
            return Ok(Some(grouping.table()));
        }
        self.check_chunks()?;
        if self.columns.is_empty() || !self.computes_groups(grouping) {
            return Ok(None);
        }
        let Some(stages) = self.stages()? else { return self.groups_at_once(predicate, grouping) };
        let mut table = grouping.table();
        for stage in &stages {
            match self.stage(stage, |scan| scan.groups_at_once(predicate, grouping))? {
                Some(found) => table = table.merge(found)?,
                None => return Ok(None),
            }
        }
        Ok(Some(table))
    }

    /// Whether it is known without a look that no row is kept.
    pub fn keeps_nothing(&self, predicate: &Predicate) -> bool {
        self.rows == 0 || matches!(predicate, Predicate::Constant(false))
    }

    /// Whether kernels find groups: numbers that a table is indexed by, and aggregates of words.
    fn computes_groups(&self, grouping: Grouping<'_>) -> bool {
        let has_others = grouping.keys.iter().any(|key| match &key.source {
            KeySource::Strings { .. } => true,
            // Kernels know null columns, not null numbers.
            KeySource::Number { number, .. } => {
                let mut joined = Vec::new();
                number.joined_columns(&mut joined);
                joined.into_iter().any(JoinedColumn::may_be_null)
            }
            _ => false,
        });
        let is_computed =
            GroupLayout::new(grouping.plans, self.columns, self.rows).is_some() && !has_others;
        is_computed && grouping.numbering.all < u64::MAX.into() && self.rows < MOST_ROWS
    }

    fn groups_at_once(
        &mut self,
        predicate: &Predicate,
        grouping: Grouping<'_>,
    ) -> Result<Option<GroupTable>> {
        let layout = GroupLayout::new(grouping.plans, self.columns, self.rows)
            .expect("kernels compute the aggregates");
        let is_host = self.device().is_host();
        let all = grouping.numbering.all;
        if all.saturating_mul(8 * layout.words as u128) <= dense_bytes(is_host) {
            let memory = match self.group_memory(&layout, all as usize, false) {
                // The CPU's memory may do.
                Err(Error::DeviceMemory { .. }) => return Ok(None),
                memory => memory?,
            };
            let Some(added) = self.add_groups(predicate, grouping, &layout, &memory)? else {
                return Ok(None);
            };
            if self.is_planned() {
                return Ok(Some(grouping.table()));
            }
            // The status words are behind those of the table.
            let mut words = vec![0_u64; memory.groups * layout.words + added.status.count()];
            self.stream.download(&memory.words, 0, bytemuck::cast_slice_mut(&mut words))?;
            let (words, of_status) = words.split_at(memory.groups * layout.words);
            added.status.set(of_status);
            self.check_added(&added)?;
            let own = |group: usize| group as u128;
            return found((memory.groups, own), words, &layout, grouping).map(Some);
        }
        let [first, most] = hashed_bytes(is_host)
            .map(|bytes| 1 << (bytes / (8 * (1 + layout.words))).max(1).ilog2());
        // Rows have no more groups than there are.
        let enough = (2 * self.rows).next_power_of_two();
        let mut slots: usize = first.min(FIRST_SLOTS).min(enough);
        loop {
            let memory = match self.group_memory(&layout, slots, true) {
                Err(Error::DeviceMemory { .. }) => return Ok(None),
                memory => memory?,
            };
            let Some(added) = self.add_groups(predicate, grouping, &layout, &memory)? else {
                return Ok(None);
            };
            if self.is_planned() {
                let kernels = [kernels::LIST_GROUPS.shape(), kernels::GATHER_GROUPS.shape()];
                self.plan_kernels(&kernels)?;
                return Ok(Some(grouping.table()));
            }
            self.check_added(&added)?;
            match self.hashed_groups(&memory, &layout, grouping) {
                Err(Error::DeviceMemory { .. }) => return Ok(None),
                Ok(None) => {}
                found => return found,
            }
            if slots == most {
                return Ok(None);
            }
            slots = (slots * GROWTH).min(most);
        }
    }

    /// A table without groups.
    fn group_memory(
        &self,
        layout: &GroupLayout,
        groups: usize,
        is_hashed: bool,
    ) -> Result<GroupMemory> {
        // Behind them a status word for each column, at most.
        let statuses = self.columns.len();
        let words = self.stream.allocate((groups * layout.words + statuses) * 8)?;
        self.fill(&words, groups, layout)?;
        let slots = match is_hashed {
            false => None,
            true => {
                let numbers = self.stream.allocate(groups * 8)?;
                self.stream.fill(&numbers, 0, groups * 8, 0xff)?;
                Some(SlotMemory { numbers: Arc::new(numbers), status: self.zeros(8)? })
            }
        };
        Ok(GroupMemory { words: Arc::new(words), groups, slots })
    }

    /// Starts to add the kept rows to a table; none if no kernel does.
    fn add_groups(
        &mut self,
        predicate: &Predicate,
        grouping: Grouping<'_>,
        layout: &GroupLayout,
        memory: &GroupMemory,
    ) -> Result<Option<Added>> {
        let output = Output::Groups { grouping, layout, memory };
        let Ok(made) = self.made(predicate, grouping.reads(), None, &output)? else {
            return Ok(None);
        };
        if self.is_planned() {
            let kind = match (made.source.has_shared_groups, &memory.slots) {
                (true, _) => GroupTableKind::SharedMemory,
                (false, None) => GroupTableKind::DeviceMemory,
                (false, Some(_)) => GroupTableKind::DeviceHashed,
            };
            self.planned(|planned| planned.keep_table(kind));
        }
        let (at, count) = (8 * memory.groups * layout.words, made.source.reporting.len());
        let status = Arc::new(StatusWords::within(self.stream, &memory.words, at, count)?);
        if !self.is_planned() {
            let query = made.query(self.columns);
            query.rows(self.stream, made.within(), &memory.buffers(), &status, self.marks)?;
        }
        Ok(Some(Added { made, status }))
    }

    /// Waits for the kernel that adds rows, unless its status words are known; an error if it has found a
    /// column damaged.
    fn check_added(&self, added: &Added) -> Result<()> {
        self.check_reports(&added.made, Report::of_each(&added.status))
    }

    /// The groups of a hash table; none if it was full.
    fn hashed_groups(
        &mut self,
        memory: &GroupMemory,
        layout: &GroupLayout,
        grouping: Grouping<'_>,
    ) -> Result<Option<GroupTable>> {
        let SlotMemory { numbers, status } = memory.slots.as_ref().expect("a hash table");
        let listed = self.stream.allocate(memory.groups * 4)?;
        let list = kernels::LIST_GROUPS;
        let arguments = ListGroupsArguments {
            numbers: numbers.pointer(),
            slots: listed.pointer(),
            count: status.pointer_at(4),
            slot_count: memory.groups as u32,
            zero: 0,
        };
        let buffers = [numbers.as_ref(), &listed, status];
        let blocks = memory.groups.div_ceil(list.block);
        self.marks.mark(self.stream, "")?;
        self.stream.launch(&Launch::new(list, blocks, &arguments, &buffers))?;
        self.marks.mark(self.stream, list.name)?;
        let mut found_words = [0_u32; 2];
        self.stream.download(status, 0, bytemuck::cast_slice_mut(&mut found_words))?;
        let [is_full, count] = found_words.map(|word| word as usize);
        if is_full != 0 {
            return Ok(None);
        }
        if count == 0 {
            return Ok(Some(grouping.table()));
        }
        let gathered = self.stream.allocate(count * (1 + layout.words) * 8)?;
        let gather = kernels::GATHER_GROUPS;
        let arguments = GatherGroupsArguments {
            numbers: numbers.pointer(),
            table: memory.words.pointer(),
            slots: listed.pointer(),
            out: gathered.pointer(),
            slot_count: memory.groups as u32,
            count: count as u32,
            words: layout.words as u32,
            zero: 0,
        };
        let buffers = [numbers.as_ref(), memory.words.as_ref(), &listed, &gathered];
        let blocks = count.div_ceil(gather.block);
        self.stream.launch(&Launch::new(gather, blocks, &arguments, &buffers))?;
        self.marks.mark(self.stream, gather.name)?;
        let mut words = vec![0_u64; count * (1 + layout.words)];
        self.stream.download(&gathered, 0, bytemuck::cast_slice_mut(&mut words))?;
        let (numbers, words) = words.split_at(count);
        found((count, |group: usize| numbers[group].into()), words, layout, grouping).map(Some)
    }

    /// Fills a table with the states of groups without rows.
    fn fill(&self, table: &DeviceBuffer, groups: usize, layout: &GroupLayout) -> Result<()> {
        let bytes = |words: usize| words * groups * 8;
        let parts = [
            (0, layout.sums, 0),
            (layout.sums, layout.least, 0xff),
            (layout.least, layout.words, 0),
        ];
        for (from, to, byte) in parts {
            if from < to {
                self.stream.fill(table, bytes(from), bytes(to - from), byte)?;
            }
        }
        Ok(())
    }

    /// Groups of some rows by the CPU.
    fn groups_on_host(&self, kept: &BooleanBuffer, grouping: Grouping<'_>) -> Result<GroupTable> {
        let columns: Vec<CompressedColumn> =
            self.columns.par_iter().map(|column| column.download()).collect::<Result<_>>()?;
        let columns: Vec<&CompressedColumn> = columns.iter().collect();
        let starts: Vec<usize> = match columns.first() {
            Some(first) => first.chunk_rows().map(|rows| rows.start).collect(),
            None => vec![0],
        };
        let all = self.rows;
        let rows_of =
            |index: usize| columns.first().map_or(all, |first| first.chunks()[index].rows());
        let tables = Tables::new(grouping);
        tables.add_chunks(starts.len(), |index, table| {
            let filter = Filter::of_bits(kept, starts[index], rows_of(index));
            cpu::group::chunk(grouping, &filter, &columns, index, table)
                .map_err(|error| error.in_chunk(index))
        })?;
        tables.merged()
    }
}

/// The groups that a table has, of how many it has words, and the number of each.
fn found(
    (groups, number): (usize, impl Fn(usize) -> u128),
    words: &[u64],
    layout: &GroupLayout,
    grouping: Grouping<'_>,
) -> Result<GroupTable> {
    let word = |at: usize, group: usize| words[at * groups + group];
    let kept: Vec<usize> = (0..groups).filter(|group| word(0, *group) > 0).collect();
    let mut table = grouping.table();
    let numbers: Vec<u128> = kept.iter().map(|group| number(*group)).collect();
    table.groups(&numbers, &mut Vec::new())?;
    for ((plan, place), states) in grouping.plans.iter().zip(&layout.places).zip(&mut table.states)
    {
        for (index, group) in kept.iter().enumerate() {
            let count = word(place.count, *group);
            let of = |at: usize| word(place.first + at, *group);
            let found = match place.kind {
                GroupWords::None => Found::Count(count),
                GroupWords::Narrow => Found::Integer(i256::from_i128((of(0) as i64).into()), count),
                GroupWords::Wide => {
                    let digits = (0..GroupWords::Wide.words()).map(of);
                    Found::Integer(from_digits(digits), count)
                }
                GroupWords::Floats => {
                    let digits = (0..GroupWords::Floats.words()).map(of);
                    Found::Floats(digits.collect(), count)
                }
                GroupWords::Least | GroupWords::Greatest => {
                    Found::State(aggregate::of_chunk(plan, 1, count, &of))
                }
            };
            states.put(index, found);
        }
    }
    Ok(table)
}

/// An integer of digits of 32 bits, each of which may be any number.
fn from_digits(digits: impl Iterator<Item = u64>) -> i256 {
    let digit = |(at, digit): (usize, u64)| {
        i256::from_i128((digit as i64).into())
            .wrapping_mul(i256::from_i128(1_i128 << 32).wrapping_pow(at as u32))
    };
    digits.enumerate().map(digit).fold(i256::ZERO, i256::wrapping_add)
}
