//! Plans of scans that have been bound: for the CPU by the filters of all chunks, for a GPU by what a
//! planned scan has kept.

use arrow_schema::Field;
use rayon::prelude::*;

use super::text::Names;
use super::{FilterStep, Part, QueryPlan, StepOrder};
use crate::column::{CompressedColumn, physical_of};
use crate::device::DeviceColumn;
use crate::encoding::Physical;
use crate::error::Result;
use crate::ranges::{Key, Share};
use crate::scan::bounds::{self, ChunkFacts};
use crate::scan::cpu::Filter;
use crate::scan::device::{DeviceScan, Planned};
use crate::scan::host::HostScan;
use crate::scan::predicate::Predicate;

/// A column that a scan uses.
pub(super) struct UsedColumn<'a> {
    pub field: &'a Field,
    /// Compressed bytes of each chunk.
    bytes: Vec<usize>,
}

impl UsedColumn<'_> {
    fn all_bytes(&self) -> usize {
        self.bytes.iter().sum()
    }
}

/// The plan of the CPU, which reads columns `reads` beside those of the filter.
pub(in crate::scan) fn on_cpu(scan: &HostScan<'_>, reads: &[usize]) -> Result<QueryPlan> {
    let columns: Vec<&CompressedColumn> = scan.columns.iter().map(AsRef::as_ref).collect();
    let of_chunk = |(index, rows): (usize, &usize)| -> Result<(Option<bool>, StepOrder)> {
        let filter = Filter::new(&scan.predicate, &columns, index, *rows)?;
        Ok((filter.constant(), filter.order()))
    };
    let chunks: Vec<_> =
        scan.chunk_rows.par_iter().enumerate().map(of_chunk).collect::<Result<_>>()?;
    let used: Vec<UsedColumn<'_>> = columns
        .iter()
        .map(|column| UsedColumn {
            field: column.field(),
            bytes: column.chunks().iter().map(|chunk| chunk.body().len()).collect(),
        })
        .collect();
    let bytes_of_chunk = |(index, (constant, order)): (usize, &(Option<bool>, StepOrder))| {
        let read = [columns_of_order(order), reads.to_vec()].concat();
        match constant {
            Some(false) => 0,
            _ => distinct(read).into_iter().map(|column| used[column].bytes[index]).sum(),
        }
    };
    let bytes_read: usize = chunks.iter().enumerate().map(bytes_of_chunk).sum();
    let ordered_chunk = chunks.iter().position(|(constant, _)| constant.is_none());
    let none = StepOrder::default();
    let order = ordered_chunk.map_or(&none, |chunk| &chunks[chunk].1);
    Ok(QueryPlan {
        chunks_skipped: chunks.iter().filter(|(constant, _)| *constant == Some(false)).count(),
        bytes_read,
        ordered_chunk,
        ..plan(scan.chunk_rows.iter().sum(), chunks.len(), (&used, order), &scan.predicate, reads)
    })
}

/// The plan of a GPU, of what a planned scan has kept.
pub(in crate::scan) fn on_device(
    scan: &DeviceScan<'_>,
    predicate: &Predicate,
    planned: &Planned,
    reads: &[usize],
) -> QueryPlan {
    let used: Vec<UsedColumn<'_>> = scan
        .columns
        .iter()
        .map(|column| UsedColumn {
            field: column.field(),
            bytes: column.chunks().iter().map(|chunk| chunk.body_len()).collect(),
        })
        .collect();
    let chunks = scan.columns.first().map_or(0, |column| column.chunks().len());
    let is_excluded = |chunk: &usize| {
        let facts = |column: usize| facts(scan.columns[column], *chunk);
        bounds::of_predicate(predicate, &facts) == Share::None
    };
    let plan = plan(scan.rows, chunks, (&used, &planned.order()), predicate, reads);
    QueryPlan {
        chunks_skipped: (0..chunks).filter(is_excluded).count(),
        bytes_read: if scan.keeps_nothing(predicate) { 0 } else { plan.bytes_stored },
        kernels: planned.kernels.clone(),
        stages: planned.stages.max(1),
        passes: planned.passes(),
        device: Some(scan.info().clone()),
        ..plan
    }
}

fn facts(column: &DeviceColumn, chunk: usize) -> ChunkFacts {
    let (data_type, chunk) = (column.field().data_type(), &column.chunks()[chunk]);
    ChunkFacts {
        rows: chunk.rows(),
        nulls: chunk.null_count(),
        statistics: chunk.statistics(data_type),
        key: Key::of(data_type),
        is_carried: physical_of(data_type) == Physical::Arrow,
    }
}

/// What plans of all processors have.
fn plan(
    rows: usize,
    chunks: usize,
    (used, order): (&[UsedColumn<'_>], &StepOrder),
    predicate: &Predicate,
    reads: &[usize],
) -> QueryPlan {
    let mut of_filter = Vec::new();
    columns_of(predicate, &mut of_filter);
    let stored = distinct([of_filter, reads.to_vec()].concat());
    QueryPlan {
        rows,
        chunks,
        chunks_skipped: 0,
        bytes_read: 0,
        bytes_stored: stored.into_iter().map(|column| used[column].all_bytes()).sum(),
        steps: order.parts().into_iter().map(|(depth, part)| step(depth, part, used)).collect(),
        ordered_chunk: None,
        groups: None,
        aggregates: Vec::new(),
        kernels: Vec::new(),
        stages: 1,
        passes: 1,
        device: None,
        choice: None,
    }
}

fn step(depth: usize, part: &Part, used: &[UsedColumn<'_>]) -> FilterStep {
    let joined = |text: &str| FilterStep {
        text: text.to_owned(),
        depth,
        columns: Vec::new(),
        bytes: 0,
        share: None,
    };
    match part {
        Part::All => joined("all of"),
        Part::Any => joined("one of"),
        Part::Not => joined("not"),
        Part::Leaf(predicate) => {
            let mut columns = Vec::new();
            columns_of(predicate, &mut columns);
            let columns = distinct(columns);
            let share = match predicate {
                Predicate::Probe(probe) => Some(probe.share()),
                _ => None,
            };
            FilterStep {
                text: Names(used).predicate(predicate),
                depth,
                columns: columns.iter().map(|of| used[*of].field.name().clone()).collect(),
                bytes: columns.iter().map(|of| used[*of].all_bytes()).sum(),
                share,
            }
        }
    }
}

fn columns_of_order(order: &StepOrder) -> Vec<usize> {
    let mut columns = Vec::new();
    for (_, part) in order.parts() {
        if let Part::Leaf(predicate) = part {
            columns_of(predicate, &mut columns);
        }
    }
    columns
}

/// Adds the columns of a predicate, of which it reads values or whether they are null.
pub(in crate::scan) fn columns_of(predicate: &Predicate, columns: &mut Vec<usize>) {
    match predicate {
        Predicate::Constant(_) => {}
        Predicate::IsValid(column) | Predicate::Test(column, _) => columns.push(*column),
        Predicate::Compare(_, pair, _) => pair.iter().for_each(|number| number.columns(columns)),
        Predicate::Probe(probe) => columns.push(probe.join.column),
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().for_each(|part| columns_of(part, columns));
        }
        Predicate::Not(inner) => columns_of(inner, columns),
    }
}

fn distinct(mut columns: Vec<usize>) -> Vec<usize> {
    columns.sort_unstable();
    columns.dedup();
    columns
}
