//! From host memory to host memory.

use std::time::Instant;

use arrow_array::RecordBatch;
use lanepack::{Engine, Error};

use super::runs::Runs;
use super::{HOST_RUNS, WARM_UP};

/// The engine that is measured, and one whose results lie in ordinary memory.
pub struct Engines {
    pub pinned: Engine,
    pub ordinary: Engine,
}

impl Engines {
    pub fn new(device: usize) -> Result<Self, Error> {
        let ordinary = Engine::cuda(device)?.with_pinned_limit(0);
        Ok(Self { pinned: Engine::cuda(device)?, ordinary })
    }
}

/// Times from host to host.
pub struct Rates {
    /// Bytes of Arrow's buffers.
    pub bytes: usize,
    /// From ordinary memory to ordinary memory.
    pub ordinary: Runs,
    /// From page-locked memory to page-locked memory.
    pub pinned: Runs,
    /// Whether every result was as it should be.
    pub same: bool,
}

impl Rates {
    /// Bytes per second.
    pub fn rate(&self, runs: &Runs) -> f64 {
        self.bytes as f64 / runs.median().as_secs_f64()
    }
}

/// Measures `work` on a batch, which reads or makes `bytes` bytes of Arrow's buffers.
pub fn rates(
    engines: &Engines,
    batch: &RecordBatch,
    bytes: usize,
    work: impl Fn(&Engine, &RecordBatch) -> Result<RecordBatch, Error>,
    is_right: impl Fn(&RecordBatch) -> bool,
) -> Result<Rates, Error> {
    let mut same = true;
    let mut runs = |engine: &Engine, batch: &RecordBatch| -> Result<Runs, Error> {
        let mut run = 0;
        Runs::measure(HOST_RUNS, || {
            let start = Instant::now();
            let result = work(engine, batch)?;
            let time = start.elapsed();
            // Each is dropped before the next one, whose memory is then there.
            if run == 0 || run + 1 == WARM_UP + HOST_RUNS {
                same &= is_right(&result);
            }
            run += 1;
            Ok(time)
        })
    };
    let ordinary = runs(&engines.ordinary, batch)?;
    let pinned = runs(&engines.pinned, &engines.pinned.pinned(batch)?)?;
    Ok(Rates { bytes, ordinary, pinned, same })
}
