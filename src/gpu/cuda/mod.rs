//! NVIDIA GPUs through the CUDA driver.
//!
//! Needs nothing of CUDA to build or to start: the driver's library is loaded when
//! devices are first asked for, and what is missing is an
//! [`Error::NoDevice`](crate::Error) that says so.
//!
//! `driver` holds everything `unsafe`, `failure` its errors; `staging` the copies
//! between host and device; `stream` what [`crate::gpu`] asks of a stream; where
//! kernels come from is `gpu/module.rs`.

mod driver;
mod failure;
mod staging;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use self::driver::{Context, Function, Module, PageLocked};
use self::staging::Staging;
use self::stream::CudaStream;
use super::{Device, DeviceInfo, HostMemory, Priority, Stream, module};
use crate::error::Result;

pub(crate) use self::failure::Version;

/// How many GPUs there are.
///
/// # Errors
/// [`Error::NoDevice`](crate::Error) if there is no driver, or one that is too old.
pub(crate) fn devices() -> Result<usize> {
    driver::devices()
}

/// The GPU of this number. All who open it at the same time share one context, its
/// kernels and its pinned memory; they go when the last one is dropped, with its
/// streams and buffers.
///
/// # Errors
/// [`Error::NoDevice`](crate::Error) that says what is missing: a driver, a newer
/// one, the device, a newer one, or a way to get kernels for it.
pub(crate) fn open(ordinal: usize) -> Result<Arc<dyn Device>> {
    static OPEN: Mutex<Vec<(usize, Weak<Shared>)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|(_, shared)| shared.strong_count() > 0);
    let found = open.iter().find(|(number, _)| *number == ordinal);
    if let Some(shared) = found.and_then(|(_, shared)| shared.upgrade()) {
        return Ok(Arc::new(CudaDevice { shared }));
    }
    let context = Context::new(ordinal)?;
    let image = module::image(context.info.compute_capability, context.driver)?;
    let shared = Arc::new(Shared::new(context, &image)?);
    open.push((ordinal, Arc::downgrade(&shared)));
    Ok(Arc::new(CudaDevice { shared }))
}

/// What the streams of a device have in common.
#[derive(Debug)]
struct Shared {
    kernels: RwLock<HashMap<&'static str, Function>>,
    module: Arc<Module>,
    staging: Staging,
    context: Arc<Context>,
}

impl Shared {
    fn new(context: Arc<Context>, image: &[u8]) -> Result<Self> {
        let module = Module::new(&context, image)?;
        let staging = Staging::new(&context);
        Ok(Self { kernels: RwLock::default(), module, staging, context })
    }

    /// The kernel of this name, which is looked up once.
    fn function(&self, name: &'static str) -> Result<Function> {
        if let Some(found) = self.kernels.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(found.clone());
        }
        let function = self.module.function(name)?;
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        Ok(kernels.entry(name).or_insert(function).clone())
    }
}

/// A GPU.
#[derive(Debug)]
struct CudaDevice {
    shared: Arc<Shared>,
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.context.info
    }

    fn free_memory(&self) -> Result<u64> {
        self.shared.context.free_memory()
    }

    fn stream(&self, priority: Priority) -> Result<Arc<dyn Stream>> {
        Ok(Arc::new(CudaStream::new(&self.shared, priority)?))
    }

    fn page_locked(&self, len: usize) -> Result<Box<dyn HostMemory>> {
        Ok(Box::new(PageLocked::new(&self.shared.context, len)?))
    }
}
