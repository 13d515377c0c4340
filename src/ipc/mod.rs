//! Compressed batches in Arrow IPC files and streams.
//!
//! [`Writer`] takes ordinary batches, gathers small ones to full chunks,
//! compresses them and writes ordinary IPC; [`Reader`] gives ordinary batches
//! back. Both leave the format to arrow-ipc. Any Arrow implementation can read,
//! slice and rewrite the files in between; if it moves bodies off their 64-byte
//! alignment, reading moves them back.

mod counts;
mod read;
mod source;
mod write;

pub use read::Reader;
pub use source::{FileSource, Source, StreamSource};
pub use write::Writer;
