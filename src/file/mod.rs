//! Files of compressed columns that are read in part: an Arrow IPC file with an index.
//!
//! ```text
//! ARROW1 | schema | batch | batch | .. | end | index | footer | length, ARROW1
//!                    |                            |        |
//!                    |                            |        '- where the index is; blocks of batches
//!                    |                            '- of each chunk of each column: where it is, nulls, bounds
//!                    '- packed storage: for each column its chunks, header and body, one behind the other;
//!                       then membership filters, of columns that have some
//! ```
//!
//! [`Writer`] takes ordinary batches and writes packed chunks as it goes; the index stays in memory until the
//! end. [`File`] reads the footer and the index, then what is asked for: a [`Scan`](crate::scan::Scan) of a
//! file reads the columns that it uses, and of these the chunks that their bounds do not exclude. [`Dataset`]
//! does so with many files. With the feature `object_store` files may be objects of a store. Any Arrow
//! implementation opens such a file and shows its chunks; [`ipc::Reader`](crate::ipc::Reader) reads it batch
//! by batch.
//!
//! ```text
//! framing.rs   IPC messages and footer     index.rs    the index, as bytes and as arrays
//! write.rs     Writer                      local.rs    files that take their name once they are complete
//! read.rs      File                        dataset.rs  Dataset: many files as one
//! source.rs    where bytes come from       access.rs   calls that the two share: columns, chunks, rows
//! store.rs     object stores               verify.rs   whether a file is what it says
//! filter.rs    membership filters of chunks
//! ```

mod access;
mod dataset;
mod filter;
mod framing;
mod index;
mod local;
mod read;
mod source;
#[cfg(feature = "object_store")]
mod store;
mod verify;
mod write;

pub use access::ColumnStatistics;
pub use dataset::Dataset;
pub use local::LocalFile;
pub use read::File;
pub use source::ReadAt;
#[cfg(feature = "object_store")]
pub use store::{Object, ObjectWriter};
pub use write::Writer;
