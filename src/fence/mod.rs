//! The fence around arrow-rs, which takes on trust what may be hostile: messages of Arrow IPC
//! (`message.rs`), their schemas (`schema.rs`) and batches (`batch.rs`) are checked before it sees
//! them. Should it panic nevertheless, that becomes an error.

mod batch;
mod message;
mod schema;

use arrow_schema::ArrowError;

pub(crate) use message::{check_message, check_stream, message_of};
pub(crate) use schema::schema_of;

use crate::error::{Error, Result};

/// Runs code of arrow-rs on what may be hostile, or too much. The checks above refuse what is
/// known to make arrow-ipc panic; should it or `concat` fail another assertion, that becomes an
/// error here that begins with "refused by arrow", and does not reach the caller (unless the
/// program is built with `panic = "abort"`). Callers use nothing afterwards that the closure may
/// have left half-done.
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
