//! Compressed batches in Arrow IPC files and streams.
//!
//! [`Writer`] takes ordinary batches, gathers small ones to full chunks,
//! compresses them and writes ordinary IPC; [`Reader`] gives ordinary batches
//! back. Both leave the format to arrow-ipc. Any Arrow implementation can read,
//! slice and rewrite the files in between; if it moves bodies off their 64-byte
//! alignment, reading moves them back.
//!
//! Footers of files, and an empty batch at the end of streams, have the numbers of rows and batches,
//! by which the reader finds messages that are missing or there twice (docs/FORMAT.md, "Counts").

mod counts;
mod read;
mod source;
mod write;

pub use read::Reader;
pub use source::{FileSource, Source, StreamSource};
pub use write::Writer;
