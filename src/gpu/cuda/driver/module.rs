//! Kernels: modules that were loaded, and the functions in them.

use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

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
        // -1 unless something else was asked for.
        let carveout = Arc::new(Mutex::new(-1));
        Ok(Function { raw, name: name.into(), module: self.clone(), carveout })
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
    /// The share of shared memory that the driver was asked for, in percent.
    carveout: Arc<Mutex<i32>>,
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

    /// Asks the driver to leave room for `bytes` in the first-level cache where blocks of so many threads run,
    /// each with `shared` bytes that it asks for, if that is possible with two blocks on a multiprocessor; 0
    /// leaves it to the driver. It is a hint: what the driver says of it changes nothing.
    pub fn prefer_cache(&self, threads: u32, shared: u32, bytes: usize) {
        use sys::CUfunction_attribute as Attribute;
        let percent = match bytes {
            0 => -1,
            _ => {
                let registers = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS);
                let declared = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
                let (Ok(registers), Ok(declared)) = (registers, declared) else { return };
                let memory = &self.module.context.on_chip;
                memory.carveout(threads, registers, declared.saturating_add(shared), bytes)
            }
        };
        // Held until the driver knows it, so that both agree.
        let mut known = self.carveout.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == percent {
            return;
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: the function is of a loaded module; the driver locks what it must.
        if unsafe { result::function::set_function_attribute(self.raw, attribute, percent) }.is_ok()
        {
            *known = percent;
        }
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

/// The memory of a multiprocessor that is shared memory or first-level cache, and its registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnChipMemory {
    /// Bytes of shared memory at most.
    pub shared: u32,
    /// Bytes of these that the driver takes for each block.
    pub reserved: u32,
    pub registers: u32,
}

impl OnChipMemory {
    /// Bytes that are cache in any case: 256 KiB in all where 228 may be shared (compute capability 9.0),
    /// 192 where 164 may be (8.0).
    const CACHE: u32 = 28 << 10;
    /// Bytes of the cache for what kernels read beside: columns, entries.
    const OTHERS: usize = 16 << 10;
    /// What may be shared memory, in KiB (CUDA C++ Programming Guide, "Compute Capability 9.0"); smaller
    /// multiprocessors have the first of these.
    const SIZES: [u32; 10] = [0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

    /// How much is to be shared memory, in percent of the most: what as many blocks take as leave `cached`
    /// bytes of cache, two at least. If two take more, -1: the driver chooses.
    fn carveout(&self, threads: u32, registers: u32, shared: u32, cached: usize) -> i32 {
        let of_warps = registers.next_multiple_of(8) * threads.next_multiple_of(32);
        let most = self.registers / of_warps.max(1);
        let of_block = shared + self.reserved;
        let size_of = |blocks: u32| {
            let fits = |size: &u32| blocks * of_block <= size << 10 && size << 10 <= self.shared;
            Self::SIZES.into_iter().find(fits).map(|size| size << 10)
        };
        let leaves_enough = |size: &u32| {
            (self.shared + Self::CACHE - size) as usize >= cached.saturating_add(Self::OTHERS)
        };
        let sizes = (2..=most).rev().filter_map(size_of);
        match sizes.into_iter().find(leaves_enough) {
            // Rounded down: the driver takes the next size from there on.
            Some(size) => (size * 100 / self.shared) as i32,
            None => -1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_blocks_leave_room_in_the_cache() {
        let h100 = OnChipMemory { shared: 228 << 10, reserved: 1024, registers: 65_536 };
        let percent = |shared, cached| h100.carveout(256, 48, shared, cached);
        // Five blocks, which registers allow, take 97 KiB: 156 are left with 100, which is 43.9 %.
        assert_eq!(percent(18_304, 100 << 10), 43);
        // Three blocks take 58, so that 192 are left.
        assert_eq!(percent(18_304, 150 << 10), 28);
        // Two blocks of these take too much.
        assert_eq!(percent(60 << 10, 150 << 10), -1);
        assert_eq!(percent(18_304, 240 << 10), -1);
        assert_eq!(percent(18_304, usize::MAX), -1);
        // Without shared memory nearly all of it is cache.
        assert_eq!(percent(0, 100 << 10), 3);
        let a100 = OnChipMemory { shared: 164 << 10, ..h100 };
        assert_eq!(a100.carveout(256, 48, 10_000, 100 << 10), 39);
    }
}
