//! Kernels: modules that were loaded, and the functions in them.

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::super::failure::{During, no_device, reason};
use super::Context;
use crate::error::{Error, Result};
use crate::gpu::{DeviceInfo, Resources, Shape};

/// Kernels loaded on a device.
pub(in crate::gpu::cuda) struct Module {
    raw: sys::CUmodule,
    pub(super) context: Arc<Context>,
}

// SAFETY: a module handle may be used by any thread; the driver locks what it must.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?})", self.raw)
    }
}

impl Module {
    /// Loads a fatbin, a cubin, or PTX that ends with a zero byte.
    pub fn new(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Self>> {
        context.bind()?;
        // SAFETY: images come from nvcc (built in), from NVRTC, or from a cache file
        // whose checksum has been compared, and are complete.
        let raw = unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(|error| {
            let DeviceInfo { name, compute_capability: (major, minor), driver, .. } = &context.info;
            no_device(format!(
                "the kernels do not load on {name} (compute capability {major}.{minor}, driver \
                 for CUDA {driver}): {}",
                reason(error)
            ))
        })?;
        Ok(Arc::new(Self { raw, context: context.clone() }))
    }

    /// The kernel of this name.
    pub fn function(self: &Arc<Self>, name: &str) -> Result<Function> {
        self.context.bind()?;
        let text = CString::new(name).map_err(|_| Error::device("a kernel's name has a NUL"))?;
        // SAFETY: the module is loaded, and stays so as long as the function.
        let raw = unsafe { result::module::get_function(self.raw, text) }
            .during(&format!("kernel {name}"))?;
        Ok(Function { raw, name: name.into(), module: self.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let unload = || {
            // Streams may still run its kernels.
            result::ctx::synchronize().during("cuCtxSynchronize")?;
            // SAFETY: loaded by `new`, unloaded once; functions hold it, and none of
            // them runs any more.
            unsafe { result::module::unload(self.raw) }.during("cuModuleUnload")
        };
        self.context.defer(self.context.bind().and_then(|()| unload()));
    }
}

/// A kernel.
#[derive(Clone)]
pub(in crate::gpu::cuda) struct Function {
    pub(super) raw: sys::CUfunction,
    pub(super) name: Arc<str>,
    pub(super) module: Arc<Module>,
}

// SAFETY: a function handle may be used by any thread, as long as its module is loaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// What launches of it have to fit.
    pub fn shape(&self) -> Result<Shape> {
        let threads =
            self.attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        Ok(Shape { threads, arguments: self.argument_bytes() })
    }

    /// What it takes of a multiprocessor.
    pub fn resources(&self) -> Result<Resources> {
        use sys::CUfunction_attribute as Attribute;
        let told = |attribute| self.attribute(attribute).map(Some);
        Ok(Resources {
            registers: told(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            shared: told(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local: told(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        })
    }

    fn attribute(&self, attribute: sys::CUfunction_attribute) -> Result<u32> {
        self.module.context.bind()?;
        // SAFETY: the function is of a loaded module.
        let value = unsafe { result::function::get_function_attribute(self.raw, attribute) }
            .during(&format!("kernel {}", self.name))?;
        Ok(value.unsigned_abs())
    }

    /// Bytes of its first argument, which drivers tell since CUDA 12.4.
    fn argument_bytes(&self) -> Option<usize> {
        // SAFETY: the library has been loaded (`load`); the symbol is only looked for.
        let found =
            unsafe { sys::culib().get::<unsafe extern "C" fn()>(b"cuFuncGetParamInfo").is_ok() };
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the driver has the function, which writes two integers.
        let told = found.then(|| unsafe {
            sys::cuFuncGetParamInfo(self.raw, 0, &raw mut offset, &raw mut size).result()
        });
        told.filter(Result::is_ok).map(|_| size)
    }

    /// Makes sure that a launch may ask for so many bytes of shared memory, beside what the
    /// kernel itself declares.
    pub(super) fn allow_shared(&self, bytes: u32) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let what = || format!("kernel {}: {bytes} bytes of shared memory", self.name);
        let declared = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the function is of a loaded module.
        let declared = unsafe { result::function::get_function_attribute(self.raw, declared) }
            .during(&what())?;
        let most = self.module.context.info.shared_memory.saturating_sub(declared.unsigned_abs());
        if bytes > most {
            return Err(Error::device(format!("{}, of {most} that a block can have", what())));
        }
        // The same for all launches: a smaller one at the same time takes nothing away.
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is of a loaded module; the driver locks what it must.
        unsafe { result::function::set_function_attribute(self.raw, attribute, most as i32) }
            .during(&what())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name)
    }
}
