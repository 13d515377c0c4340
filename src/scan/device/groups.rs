//! Groups of the rows that a scan keeps, on a GPU.
//!
//! ```text
//! few numbers of groups   one kernel for filter, keys and aggregates, into a table indexed by the
//! (`DENSE_BYTES`)         numbers (kernels/lanepack/groups.cuh); the table comes to the host
//! others, strings of      rows by the GPU, groups by the CPU, for which the columns are copied as
//! their own, bounds of    they are
//! more than 64 bits
//! ```

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, i256};
use rayon::prelude::*;

use super::source::{GroupLayout, GroupWords, Output};
use super::{DeviceScan, aggregate};
use crate::column::CompressedColumn;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::scan::cpu::{self, Filter};
use crate::scan::group::{Found, GroupTable, Grouping, KeySource};
use crate::scan::join::JoinedColumn;
use crate::scan::predicate::Predicate;

/// Bytes of a table that is indexed by the numbers of groups. On the emulation few, so that tests see
/// both ways.
fn dense_bytes(is_host: bool) -> u128 {
    if is_host { 256 << 10 } else { 64 << 20 }
}

/// Rows whose values may be added up in digits of 32 bits.
const MOST_ROWS: usize = 1 << 31;

impl DeviceScan<'_> {
    /// The groups of the rows that a predicate keeps; waits for them. Keys have no codes of strings.
    pub fn groups(&mut self, predicate: &Predicate, grouping: Grouping<'_>) -> Result<GroupTable> {
        match self.groups_by_kernels(predicate, grouping)? {
            Some(table) => Ok(table),
            None => {
                let mask = self.select(predicate)?.mask()?;
                self.groups_on_host(mask.values(), grouping)
            }
        }
    }

    /// The same; none if no kernel finds them: there are too many, or they take too much of its memory,
    /// or nothing compiles one.
    pub fn groups_by_kernels(
        &mut self,
        predicate: &Predicate,
        grouping: Grouping<'_>,
    ) -> Result<Option<GroupTable>> {
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
        let words =
            GroupLayout::new(grouping.plans, self.columns, self.rows).map(|layout| layout.words);
        let Some(words) = words else { return false };
        let bytes = grouping.numbering.all.saturating_mul(8 * words as u128);
        !has_others && bytes <= dense_bytes(self.device().is_host()) && self.rows < MOST_ROWS
    }

    fn groups_at_once(
        &mut self,
        predicate: &Predicate,
        grouping: Grouping<'_>,
    ) -> Result<Option<GroupTable>> {
        let layout = GroupLayout::new(grouping.plans, self.columns, self.rows)
            .expect("kernels compute the aggregates");
        // Numbers of groups are few.
        let groups = grouping.numbering.all as usize;
        let table = Arc::new(self.stream.allocate(groups * layout.words * 8)?);
        let output = Output::Groups { grouping, layout: &layout, table: &table };
        let Ok(made) = self.made(predicate, grouping.reads(), None, &output)? else {
            return Ok(None);
        };
        self.fill(&table, groups, &layout)?;
        let query = made.query(self.columns);
        let reports = query.rows(self.stream, made.within(), &[&table], self.marks)?;
        let mut words = vec![0_u64; groups * layout.words];
        self.stream.download(&table, 0, bytemuck::cast_slice_mut(&mut words))?;
        self.check_reports(&made, reports)?;
        found(&words, groups, &layout, grouping).map(Some)
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
        cpu::group::tables(starts.len(), grouping, |index, table| {
            let filter = Filter::of_bits(kept, starts[index], rows_of(index));
            cpu::group::chunk(grouping, &filter, &columns, index, table)
                .map_err(|error| error.in_chunk(index))
        })
    }
}

/// The groups that a table has.
fn found(
    words: &[u64],
    groups: usize,
    layout: &GroupLayout,
    grouping: Grouping<'_>,
) -> Result<GroupTable> {
    let word = |at: usize, group: usize| words[at * groups + group];
    let kept: Vec<usize> = (0..groups).filter(|group| word(0, *group) > 0).collect();
    let mut table = grouping.table();
    let numbers: Vec<u128> = kept.iter().map(|group| *group as u128).collect();
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
