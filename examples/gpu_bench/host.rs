//! From host memory to host memory.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use lanepack::{Engine, Error};

use super::{HOST_RUNS, WARM_UP, median};

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

/// Bytes of Arrow's buffers per second.
pub struct Rates {
    /// From ordinary memory to ordinary memory.
    pub ordinary: f64,
    /// From page-locked memory to page-locked memory.
    pub pinned: f64,
    /// Whether every result was as it should be.
    pub same: bool,
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
    let mut rate = |engine: &Engine, batch: &RecordBatch| -> Result<f64, Error> {
        let mut runs: Vec<Duration> = Vec::new();
        for run in 0..WARM_UP + HOST_RUNS {
            let start = Instant::now();
            let result = work(engine, batch)?;
            let time = start.elapsed();
            // Each is dropped before the next one, whose memory is then there.
            if run >= WARM_UP {
                runs.push(time);
            }
            if run == 0 || run + 1 == WARM_UP + HOST_RUNS {
                same &= is_right(&result);
            }
        }
        Ok(bytes as f64 / median(runs).as_secs_f64())
    };
    let ordinary = rate(&engines.ordinary, batch)?;
    let pinned = rate(&engines.pinned, &engines.pinned.pinned(batch)?)?;
    Ok(Rates { ordinary, pinned, same })
}
