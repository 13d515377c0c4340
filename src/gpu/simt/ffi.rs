//! The C interface of the emulation (`kernels/simt/runtime.cpp`), made safe where it can be.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::NonNull;

use crate::gpu::Shape;

unsafe extern "C" {
    fn lanepack_simt_launch(
        object: *const c_void,
        name: *const c_char,
        blocks: u32,
        threads: u32,
        arguments: *const c_void,
        size: usize,
        arguments_type: *const c_char,
        seed: u64,
        error: *mut c_char,
        error_size: usize,
    ) -> bool;
    fn lanepack_simt_shape(
        object: *const c_void,
        name: *const c_char,
        threads: *mut u32,
        size: *mut usize,
    ) -> bool;
    fn lanepack_simt_allocate(size: usize, alignment: usize) -> *mut c_void;
    fn lanepack_simt_free(memory: *mut c_void);
    #[cfg(test)]
    fn lanepack_simt_kernels(names: *mut *const c_char, capacity: usize) -> usize;
}

/// The kernels of an object that has been loaded and stays so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object(NonNull<c_void>);

// SAFETY: leads to a table that nobody writes once the object is loaded.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// # Safety
    /// `table` comes from the `lanepack_simt_object` of an object that is never unloaded.
    pub unsafe fn new(table: NonNull<c_void>) -> Self {
        Self(table)
    }
}

/// Runs a kernel, of an object or of this program, to its end; gives what went wrong. Arguments come
/// with the name of their type in C++, if it is known.
///
/// # Safety
/// Every pointer in `arguments`, and in what they point to, must point to memory
/// that the kernel may use as it does and that no one else uses meanwhile.
pub(super) unsafe fn launch(
    object: Option<Object>,
    kernel: &str,
    blocks: u32,
    threads: u32,
    (arguments, arguments_type): (&[u8], Option<&str>),
    seed: u64,
) -> Result<(), String> {
    let Ok(name) = CString::new(kernel) else {
        return Err("the kernel's name has a zero byte".to_owned());
    };
    let Ok(arguments_type) = arguments_type.map(CString::new).transpose() else {
        return Err("the name of the argument's type has a zero byte".to_owned());
    };
    let mut error = [0; 1024];
    // SAFETY: objects stay loaded, names end in zero bytes, arguments and error come with their
    // lengths; what the arguments point to is the caller's promise.
    let done = unsafe {
        lanepack_simt_launch(
            object.map_or(std::ptr::null(), |object| object.0.as_ptr().cast_const()),
            name.as_ptr(),
            blocks,
            threads,
            arguments.as_ptr().cast(),
            arguments.len(),
            arguments_type.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            seed,
            error.as_mut_ptr(),
            error.len(),
        )
    };
    if done {
        return Ok(());
    }
    // SAFETY: `error` begins as zeros, and snprintf ends what it writes with one.
    let text = unsafe { CStr::from_ptr(error.as_ptr()) };
    Err(text.to_string_lossy().into_owned())
}

/// What launches of a kernel of an object have to fit; none if there is no such kernel.
pub(super) fn shape(object: Object, kernel: &str) -> Option<Shape> {
    let name = CString::new(kernel).ok()?;
    let (mut threads, mut size) = (0, 0);
    // SAFETY: the object stays loaded, the name ends in a zero byte; writes two integers.
    let found = unsafe {
        let object = object.0.as_ptr().cast_const();
        lanepack_simt_shape(object, name.as_ptr(), &raw mut threads, &raw mut size)
    };
    found.then_some(Shape { threads, arguments: Some(size) })
}

/// The names of all kernels of this program.
#[cfg(test)]
pub(super) fn kernels() -> Vec<String> {
    let mut names = vec![std::ptr::null(); 1 << 16];
    // SAFETY: writes at most the stated number of pointers.
    let count = unsafe { lanepack_simt_kernels(names.as_mut_ptr(), names.len()) };
    names[..count]
        .iter()
        // SAFETY: each of the first `count` is a C++ string literal.
        .map(|&name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
        .collect()
}

/// Memory from the host's heap.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<c_void>,
    size: usize,
}

// SAFETY: owns plain memory, which any thread may use and free; who reads and
// writes it when is for the users of `start` to order.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared `Memory` only tells its place and size.
unsafe impl Sync for Memory {}

impl Memory {
    /// `size` bytes that hold 0xA5, at a multiple of `alignment`; none if the host has no more.
    pub fn allocate(size: usize, alignment: usize) -> Option<Self> {
        assert!(alignment.is_power_of_two() && alignment >= 8);
        // SAFETY: posix_memalign takes powers of two from the size of a pointer on.
        let start = NonNull::new(unsafe { lanepack_simt_allocate(size, alignment) })?;
        Some(Self { start, size })
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr().cast()
    }

    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: came from `lanepack_simt_allocate` and is freed once.
        unsafe { lanepack_simt_free(self.start.as_ptr()) }
    }
}
