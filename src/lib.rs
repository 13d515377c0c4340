//! Compressed Apache Arrow columns.
//!
//! lanepack compresses the columns of a [`RecordBatch`](arrow_array::RecordBatch)
//! with encodings that keep random access - FSST for strings, ALP for floats,
//! FastLanes frame of reference for integers - and carries them as ordinary
//! Arrow extension arrays, through IPC or any Arrow engine that has never heard
//! of lanepack.
//!
//! ```
//! use arrow_array::record_batch;
//! use lanepack::{Options, columns, compress, decompress};
//!
//! let batch = record_batch!(
//!     ("id", Int64, [1, 2, 3, 4]),
//!     ("price", Float64, [9.95, 12.5, 7.25, 12.5])
//! )?;
//! let compressed = compress(&batch, &Options::default())?;
//! for column in columns(&compressed)? {
//!     print!("{}", column.explain());
//! }
//! assert_eq!(decompress(&compressed)?, batch);
//! # Ok::<(), lanepack::Error>(())
//! ```
//!
//! # Which calls do I need?
//! Most programs need three: [`compress`], [`decompress`], and [`columns`] to look at what is
//! between them. Each task has as few of its own:
//!
//! | task | calls |
//! |---|---|
//! | compress a batch and get it back | [`compress`], [`decompress`] |
//! | see what was chosen, read single values | [`columns`], then [`CompressedColumn::explain`], [`encoding`](CompressedColumn::encoding), [`value`](CompressedColumn::value) |
//! | one array without a batch | [`compress_array`], [`CompressedColumn::decompress`] |
//! | write files, and read them in part | [`file::Writer`], [`file::File`] |
//! | write and read files and streams batch by batch | [`ipc::Writer`], [`ipc::Reader`] |
//! | filter, aggregate, gather what is compressed | [`scan::col`], [`scan::Scan::new`], [`filter`](scan::Scan::filter) |
//! | see what a scan would read, and in which order | [`Scan::explain`](scan::Scan::explain) |
//! | make it smaller, or faster to write | [`Options::with_effort`] with an [`Effort`] |
//! | let a GPU do it where that pays | [`Engine::auto`], [`Engine::compress`], [`Engine::decompress`] |
//! | keep columns compressed in GPU memory | [`Engine::cuda`], [`Engine::upload`], [`scan::Scan::on_device`] |
//! | read them by a CUDA kernel of your own | [`DeviceColumn::reader`], [`Kernel::for_columns`], [`Kernel::launch`] |
//! | hand them to other Arrow programs | [`CompressedColumn::to_arrow`], [`CompressedColumn::try_from_arrow`], [`ColumnType`] |
//!
//! An [`Engine`] says what does the work, the CPU or a GPU; the functions without one use the CPU.
//! What goes wrong is an [`Error`]. The byte format is docs/FORMAT.md in the repository.
//!
//! # Guarantees
//! - Every bit comes back: NaN payloads, -0.0, nulls, types, metadata.
//! - The same input and options give the same bytes, on any machine and any
//!   number of threads (of carried types, the same array: a slice and a copy of
//!   it may differ in bytes that mean nothing).
//! - Bytes from anywhere are safe to read: damage gives an error or, where only
//!   the checksum of a body could show it, wrong values; never undefined
//!   behaviour.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(target_endian = "big")]
compile_error!(
    "lanepack reads its little-endian buffers in place and needs a little-endian target"
);

mod arrow_type;
mod batch;
mod bloom;
mod cache;
mod calibrate;
mod checksum;
mod chunk;
mod column;
mod decode;
mod device;
mod encode;
mod encoding;
mod engine;
mod error;
mod extension;
mod fence;
pub mod file;
mod gpu;
mod interner;
pub mod ipc;
mod lanes;
mod memory;
mod model;
mod options;
mod ranges;
pub mod scan;
#[cfg(all(test, any(feature = "cuda", lanepack_simt)))]
#[path = "../tests/common/skipped.rs"]
mod skipped;
mod threads;
mod transfer;

/// The Arrow crates that lanepack was built with: arrays, buffers and schemas of another major
/// version are other types. A program that names these crates through here needs no dependency of
/// its own, and none that could be of another version.
///
/// ```
/// use lanepack::arrow::arrow_array::record_batch;
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// let compressed = lanepack::compress(&batch, &lanepack::Options::default())?;
/// assert_eq!(lanepack::decompress(&compressed)?, batch);
/// # Ok::<(), lanepack::Error>(())
/// ```
pub mod arrow {
    pub use {arrow_array, arrow_buffer, arrow_ipc, arrow_schema};
}

pub use batch::{columns, compress, compressed_schema, decompress, decompressed_schema};
pub use chunk::{
    ALIGNMENT, Chunk, Encoding, EncodingSet, FORMAT_VERSION, MAX_CHUNK_ROWS, Physical,
};
pub use column::{ColumnEncoding, CompressedColumn, EncodingGroup, compress_array};
pub use decode::DeviceNode;
pub use device::{
    ArrowDeviceArray, ArrowDeviceType, CompressedDeviceBatch, DeviceArray, DeviceColumn,
    PinnedBuffer,
};
pub use encoding::tree::{EncodingParameters, EncodingTree, NodeRole};
pub use engine::{
    Choice, ColumnArgument, ColumnReader, DeviceMemory, Engine, Kernel, OnDevice, Predicted,
    Reason, WorkShares,
};
pub use error::{Error, Place, Result};
pub use extension::{ColumnType, EXTENSION_NAME, is_compressed};
pub use gpu::{DeviceInfo, DevicePtr};
pub use options::{Effort, Lz, Options};

#[cfg(lanepack_simt)]
#[doc(hidden)]
pub use gpu::simt::Emulation;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guide are tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../docs/guide/engines.md")]
    struct Engines;
    #[doc = include_str!("../docs/guide/files.md")]
    struct Files;
    #[doc = include_str!("../docs/guide/gpus.md")]
    struct Gpus;
    #[doc = include_str!("../docs/guide/interop.md")]
    struct Interop;
    #[doc = include_str!("../docs/guide/kernels.md")]
    struct Kernels;
    #[doc = include_str!("../docs/guide/scans.md")]
    struct Scans;
    #[cfg(feature = "object_store")]
    #[doc = include_str!("../docs/guide/stores.md")]
    struct Stores;
}

/// The codecs' inner functions, for benches: not part of the public API.
#[cfg(feature = "_internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::column::planning::{PlanningTimes, time_planning};
    pub use crate::encoding::{alp, fsst};
    pub use crate::engine::measure;
    pub use crate::options::PlanLog;

    /// Bit-packing of vectors.
    pub mod lanes {
        pub use crate::lanes::{VECTOR, pack, unpack};
    }
}
