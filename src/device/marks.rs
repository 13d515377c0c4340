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

/// Marks are dropped, unless somebody measures this thread's calls.
impl Marks for () {
    fn mark(&mut self, stream: &Arc<dyn Stream>, kernel: &'static str) -> Result<()> {
        #[cfg(feature = "_internals")]
        recorded::mark(stream, kernel)?;
        #[cfg(not(feature = "_internals"))]
        let _ = (stream, kernel);
        Ok(())
    }
}

/// Marks of all calls of a thread, for benches.
#[cfg(feature = "_internals")]
pub(crate) mod recorded {
    use std::cell::RefCell;
    use std::sync::Arc;

    use crate::error::Result;
    use crate::gpu::{Event, Stream};

    /// Marks with their events, in order.
    type Recorded = Vec<(&'static str, Arc<dyn Event>)>;

    thread_local! {
        static RECORDED: RefCell<Option<Recorded>> = const { RefCell::new(None) };
    }

    pub(super) fn mark(stream: &Arc<dyn Stream>, kernel: &'static str) -> Result<()> {
        RECORDED.with_borrow_mut(|recorded| {
            if let Some(recorded) = recorded {
                recorded.push((kernel, stream.record()?));
            }
            Ok(())
        })
    }

    /// Does some work; the marks of its calls on this thread.
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (T, Recorded) {
        RECORDED.set(Some(Vec::new()));
        let result = work();
        (result, RECORDED.take().unwrap_or_default())
    }
}
