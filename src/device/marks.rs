//! Marks between launches, by which benches measure kernels.

use std::sync::Arc;

use crate::error::Result;
use crate::gpu::Stream;

/// Receives a mark before the first launch and after each, to measure kernels.
pub(crate) trait Marks {
    /// Called behind the launch of `kernel`; with no name before the first one.
    fn mark(&mut self, stream: &Arc<dyn Stream>, kernel: &'static str) -> Result<()>;

    /// Whether kernels are to run one by one, even where they need not.
    fn is_serial(&self) -> bool {
        false
    }
}

/// Marks are dropped, unless somebody measures this thread's calls (`engine/measure.rs`).
impl Marks for () {
    fn mark(&mut self, stream: &Arc<dyn Stream>, kernel: &'static str) -> Result<()> {
        #[cfg(feature = "_internals")]
        crate::engine::measure::mark(stream, kernel)?;
        #[cfg(not(feature = "_internals"))]
        let _ = (stream, kernel);
        Ok(())
    }
}
