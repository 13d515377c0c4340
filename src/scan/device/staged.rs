//! Scans of columns of which kernels do not read all chunks as they are stored (LZ, front coding).
//!
//! ```text
//! chunks   | 0 1 2 | 3 4 5 | 6 7 |
//! stage      decode to scratch, scan as a column of its own, drop the scratch
//! ```
//!
//! Stages are neighbouring chunks whose decoded values take some MiB, so that memory does not grow
//! with the rows. Each gives a bitmap of its rows, or aggregates, which follow those of the stage
//! before. Later scans decode again.

use std::ops::Range;

use super::aggregate::Piece;
use super::{DeviceScan, NamedReport, Selection};
use crate::decode::concatenated;
use crate::device::DeviceColumn;
use crate::error::Result;
use crate::gpu::Device;
use crate::scan::aggregate::Plan;
use crate::scan::predicate::Predicate;

/// Bytes that the values of a stage take: on the emulation few, so that tests see stages.
fn stage_bytes(device: &dyn Device) -> usize {
    if device.is_host() { 32 << 10 } else { 64 << 20 }
}

/// Chunks of a stage at most: their rows are counted in 32 bits.
const MOST_CHUNKS: usize = 8192;

/// The chunks of each stage of columns, of which those that are decoded have the same chunks; none if
/// kernels read all of them as they are stored.
pub(super) fn stages(device: &dyn Device, columns: &[&DeviceColumn]) -> Option<Vec<Range<usize>>> {
    let decoded = columns.iter().map(|column| column.reads().decoded.as_slice());
    let decoded: Vec<&[usize]> = decoded.filter(|column| !column.is_empty()).collect();
    let chunks = decoded.first()?.len();
    let mut stages: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for chunk in 0..chunks {
        let bytes: usize = decoded.iter().map(|column| column[chunk]).sum();
        match stages.last_mut() {
            Some(stage) if used + bytes <= stage_bytes(device) && stage.len() < MOST_CHUNKS => {
                stage.end = chunk + 1;
                used += bytes;
            }
            _ => {
                stages.push(chunk..chunk + 1);
                used = bytes;
            }
        }
    }
    Some(stages)
}

impl DeviceScan<'_> {
    /// The stages of the columns, which must have the same chunks then.
    pub(super) fn stages(&self) -> Result<Option<Vec<Range<usize>>>> {
        if self.columns.iter().all(|column| column.reads().decoded.is_empty()) {
            return Ok(None);
        }
        self.check_chunks()?;
        let mut stages = stages(self.device(), self.columns);
        if let (true, Some(stages)) = (self.is_planned(), &mut stages) {
            // What is done for one is done for the others.
            self.planned(|planned| planned.stages = stages.len());
            stages.truncate(1);
        }
        Ok(stages)
    }

    /// Scans one stage.
    pub(super) fn stage<T>(
        &mut self,
        stage: &Range<usize>,
        work: impl FnOnce(&mut DeviceScan<'_>) -> Result<T>,
    ) -> Result<T> {
        let columns: Vec<DeviceColumn> =
            self.columns.iter().map(|column| column.of_chunks(stage.clone())).collect();
        let columns: Vec<&DeviceColumn> = columns.iter().collect();
        let (rows, plan) = (columns[0].len(), self.plan.clone());
        let scan = DeviceScan::new(self.context, self.stream, &columns, rows, self.marks);
        work(&mut DeviceScan { plan, ..scan }).map_err(|error| error.after_chunks(stage.start))
    }

    /// Finds the rows that a predicate keeps, stage by stage.
    pub(super) fn select_staged(
        &mut self,
        predicate: &Predicate,
        stages: &[Range<usize>],
    ) -> Result<Selection> {
        let mut bitmaps = Vec::new();
        let mut reports = Vec::new();
        for stage in stages {
            let found = self.stage(stage, |scan| scan.select_at_once(predicate))?;
            let behind = |report: NamedReport| NamedReport { first_chunk: stage.start, ..report };
            reports.extend(found.reports.into_iter().map(behind));
            bitmaps.push((found.bitmap, found.rows));
        }
        let bitmap = concatenated(self.stream, &bitmaps)?;
        Ok(Selection { stream: self.stream.clone(), bitmap, rows: self.rows, reports })
    }

    /// Aggregates that kernels compute, stage by stage.
    pub(super) fn aggregate_staged(
        &mut self,
        predicate: &Predicate,
        plans: &[&Plan],
        stages: &[Range<usize>],
    ) -> Result<Vec<Piece>> {
        let piece =
            |stage| self.stage(stage, |scan| scan.aggregate_at_once(predicate, plans, None));
        stages.iter().map(piece).collect()
    }
}
