//! Compressed batches in Arrow IPC files and streams.
//!
//! [`Writer`] takes ordinary batches, gathers small ones to full chunks,
//! compresses them and writes ordinary IPC; [`Reader`] gives ordinary batches
//! back. Both leave the format to arrow-ipc. Any Arrow implementation can read,
//! slice and rewrite the files in between; if it moves bodies off their 64-byte
//! alignment, reading moves them back.

mod check;
mod read;
mod write;

use arrow_schema::ArrowError;

pub(crate) use check::check_stream;
pub use read::{FileSource, Reader, Source, StreamSource};
pub use write::Writer;

use crate::error::{Error, Result};

/// Runs code of arrow-rs on what may be hostile, or too much. `check` refuses
/// what is known to make arrow-ipc panic; should it or `concat` fail another
/// assertion, that becomes an error here and does not reach the caller (unless
/// the program is built with `panic = "abort"`). Callers use nothing afterwards
/// that the closure may have left half-done.
pub(crate) fn fenced<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(panic) => {
            let why = (panic.downcast_ref::<String>().map(String::as_str))
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("a failed assertion");
            Err(Error::corrupt(format!("refused by arrow: {why}")))
        }
    }
}
