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
mod numa;
mod staging;
mod stream;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use self::driver::{Context, Function, PageLocked};
use self::staging::Staging;
use self::stream::CudaStream;
use super::compiled::Compiled;
use super::nvrtc::{Input, Nvrtc};
use super::{
    Device, DeviceInfo, HostMemory, Module, Origin, Priority, Resources, Shape, Stream, module,
};
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
    /// Lanepack's own.
    kernels: Kernels,
    /// Of others.
    compiled: Compiled<Kernels>,
    /// Loaded when something is compiled for the first time.
    nvrtc: Mutex<Option<Arc<Nvrtc>>>,
    staging: Staging,
    context: Arc<Context>,
}

impl Shared {
    fn new(context: Arc<Context>, image: &[u8]) -> Result<Self> {
        let kernels = Kernels::new(&context, image, Origin::BuiltIn)?;
        let staging = Staging::new(&context);
        let (compiled, nvrtc) = (Compiled::default(), Mutex::default());
        Ok(Self { kernels, compiled, nvrtc, staging, context })
    }

    /// The kernels of a source, compiled once.
    fn compile(&self, source: &str) -> Result<Arc<Kernels>> {
        self.compiled.get(source, || {
            let (nvrtc, capability) = (self.nvrtc()?, self.context.info.compute_capability);
            let input = Input::module(source, module::SOURCES);
            let (image, origin) = module::compile(&nvrtc, capability, &input)?;
            Kernels::new(&self.context, &image, origin)
        })
    }

    fn nvrtc(&self) -> Result<Arc<Nvrtc>> {
        let mut nvrtc = self.nvrtc.lock().unwrap_or_else(PoisonError::into_inner);
        if nvrtc.is_none() {
            *nvrtc = Some(Arc::new(Nvrtc::load(Some(self.context.driver))?));
        }
        Ok(nvrtc.as_ref().expect("loaded above").clone())
    }
}

/// Kernels of one source or image, looked up by name once each.
#[derive(Debug)]
struct Kernels {
    functions: RwLock<HashMap<String, Function>>,
    module: Arc<driver::Module>,
    origin: Origin,
}

impl Kernels {
    fn new(context: &Arc<Context>, image: &[u8], origin: Origin) -> Result<Self> {
        let module = driver::Module::new(context, image)?;
        Ok(Self { functions: RwLock::default(), module, origin })
    }

    fn function(&self, name: &str) -> Result<Function> {
        let functions = self.functions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = functions.get(name) {
            return Ok(found.clone());
        }
        drop(functions);
        let function = self.module.function(name)?;
        let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(functions.entry(name.to_owned()).or_insert(function).clone())
    }
}

impl Module for Kernels {
    fn shape(&self, kernel: &str) -> Result<Shape> {
        self.function(kernel)?.shape()
    }

    fn resources(&self, kernel: &str) -> Result<Resources> {
        self.function(kernel)?.resources()
    }

    fn origin(&self) -> Origin {
        self.origin
    }

    fn as_any(&self) -> &dyn Any {
        self
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

    #[cfg(feature = "_internals")]
    fn peak_memory(&self) -> Result<Option<u64>> {
        self.shared.context.peak_memory().map(Some)
    }

    fn stream(&self, priority: Priority) -> Result<Arc<dyn Stream>> {
        Ok(Arc::new(CudaStream::new(&self.shared, priority)?))
    }

    fn compile(&self, source: &str) -> Result<Arc<dyn Module>> {
        Ok(self.shared.compile(source)?)
    }

    fn compiled(&self) -> usize {
        self.shared.compiled.len()
    }

    fn has_compiled(&self, source: &str) -> bool {
        self.shared.compiled.has(source)
    }

    fn kernels(&self) -> Option<&dyn Module> {
        Some(&self.shared.kernels)
    }

    fn is_page_locked(&self, bytes: &[u8]) -> bool {
        self.shared.context.is_page_locked(bytes.as_ptr(), bytes.len())
    }

    fn page_locked(&self, len: usize) -> Result<Box<dyn HostMemory>> {
        Ok(Box::new(PageLocked::new(&self.shared.context, len)?))
    }
}
