//! What is stored in device memory: arrays, compressed columns and batches, and what a device is used
//! with: streams, page-locked host memory, parameters and status words of launches.
//!
//! ```text
//! array.rs      an Arrow array               c_device.rs   the Arrow C Device data interface
//! column.rs     compressed columns, batches  pinned.rs     page-locked host memory
//! landing.rs    chunks of files, copied there while they are read
//! ```

pub(crate) mod array;
pub(crate) mod c_device;
pub(crate) mod column;
pub(crate) mod groups;
pub(crate) mod landing;
pub(crate) mod marks;
pub(crate) mod parameters;
pub(crate) mod pinned;
pub(crate) mod status;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use array::DeviceArray;
pub use c_device::{ArrowDeviceArray, ArrowDeviceType};
pub use column::{CompressedDeviceBatch, DeviceColumn};
pub(crate) use landing::{LandedChunk, Landing, PART_BYTES};
pub(crate) use marks::Marks;
pub use pinned::PinnedBuffer;

use crate::error::{Error, Place, Result};
use crate::gpu::{Device, DeviceBuffer, Priority, Stream};
use pinned::Pool;
use status::check_status;

/// A device, and streams that nobody uses at the moment.
#[derive(Debug)]
pub(crate) struct Context {
    device: Arc<dyn Device>,
    /// By priority.
    streams: [Mutex<Vec<Arc<dyn Stream>>>; Priority::COUNT],
    /// That of kernels of users, once there is one.
    ordered: Mutex<Option<Arc<dyn Stream>>>,
    /// The status words that they may have reported damage to.
    watched: Mutex<Vec<Watched>>,
    /// Page-locked host memory.
    pool: Arc<Pool>,
}

impl Context {
    pub(crate) fn new(device: Arc<dyn Device>) -> Arc<Self> {
        let pool = Pool::new(&device);
        Arc::new(Self {
            device,
            streams: Default::default(),
            ordered: Mutex::default(),
            watched: Mutex::default(),
            pool,
        })
    }

    /// An error if the device has less memory free than work is going to need.
    pub(crate) fn require(&self, needed: usize) -> Result<()> {
        let (info, free) = (self.device.info(), self.device.free_memory()?);
        if needed as u64 <= free {
            return Ok(());
        }
        Err(Error::DeviceMemory {
            place: Place::default(),
            needed: needed as u64,
            free,
            total: info.memory,
            device: info.name.clone(),
        })
    }

    /// Runs `work` with a stream of its own.
    pub(crate) fn with_stream<T>(
        &self,
        work: impl FnOnce(&Arc<dyn Stream>) -> Result<T>,
    ) -> Result<T> {
        self.with_stream_of(Priority::Usual, work)
    }

    /// As [`Context::with_stream`], with a stream of some priority.
    pub(crate) fn with_stream_of<T>(
        &self,
        priority: Priority,
        work: impl FnOnce(&Arc<dyn Stream>) -> Result<T>,
    ) -> Result<T> {
        let stream = self.lend_stream(priority)?;
        let result = work(&stream);
        self.give_back(priority, stream);
        result
    }

    /// A stream that nobody else uses until it is given back.
    fn lend_stream(&self, priority: Priority) -> Result<Arc<dyn Stream>> {
        let idle = self.idle_streams(priority).pop();
        idle.map_or_else(|| self.device.stream(priority), Ok)
    }

    fn give_back(&self, priority: Priority, stream: Arc<dyn Stream>) {
        self.idle_streams(priority).push(stream);
    }

    fn idle_streams(&self, priority: Priority) -> MutexGuard<'_, Vec<Arc<dyn Stream>>> {
        self.streams[priority as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    pub(crate) fn device(&self) -> &dyn Device {
        self.device.as_ref()
    }

    /// Page-locked host memory.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

/// The status word of a reader that launches have used.
#[derive(Debug)]
struct Watched {
    status: Arc<DeviceBuffer>,
    column: String,
}

impl Context {
    /// The stream of kernels of users and of their memory.
    pub(crate) fn ordered(&self) -> Result<Arc<dyn Stream>> {
        let mut ordered = self.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = ordered.as_ref() {
            return Ok(stream.clone());
        }
        Ok(ordered.insert(self.device.stream(Priority::Usual)?).clone())
    }

    /// Has the next call that waits read the status word of a reader of a column.
    pub(crate) fn watch(&self, status: &Arc<DeviceBuffer>, column: &str) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !watched.iter().any(|watched| Arc::ptr_eq(&watched.status, status)) {
            watched.push(Watched { status: status.clone(), column: column.to_owned() });
        }
    }

    /// Waits for the kernels of users. An error if one has failed or has found a column damaged.
    pub(crate) fn settle(&self) -> Result<Arc<dyn Stream>> {
        let stream = self.ordered()?;
        // Names the kernel where one has failed.
        stream.synchronize()?;
        let watched =
            std::mem::take(&mut *self.watched.lock().unwrap_or_else(PoisonError::into_inner));
        for Watched { status, column } in &watched {
            check_status(&stream, status, 0).map_err(|error| error.in_column(column))?;
        }
        Ok(stream)
    }
}
