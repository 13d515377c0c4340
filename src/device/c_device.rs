//! Export through the Arrow C Device data interface, so that other GPU libraries
//! (cuDF, PyArrow, ...) take a decompressed column without a copy.
//!
//! arrow-rs has the C Data interface but not the device one; this file holds the
//! two C structs and the release callback, and can be swapped for arrow-rs's own
//! when that exists. Layout and rules:
//! <https://arrow.apache.org/docs/format/CDeviceDataInterface.html>. Types go through
//! the ordinary C schema, `arrow_schema::ffi::FFI_ArrowSchema`.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use arrow_schema::DataType;

use super::Context;
use super::array::{DeviceArray, DeviceSlice};
use crate::error::{Error, Place, Result};
use crate::gpu::DevicePtr;
use crate::gpu::Event;

/// `ArrowDeviceType`: where the buffers of an exported array lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(i32)]
pub enum ArrowDeviceType {
    /// Host memory (the emulation that tests use).
    Cpu = 1,
    /// Memory of an NVIDIA GPU.
    Cuda = 2,
}

/// `struct ArrowArray` of the Arrow C Data interface.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowDeviceArray` of the Arrow C Device data interface: an array whose
/// buffers lie in device memory. It releases what it holds when dropped, unless a
/// consumer has moved it (and set `release` to null).
///
/// `sync_event` points to a `cudaEvent_t` (which is a `CUevent`) that the consumer
/// waits for before it reads, or is null.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowDeviceArray {
    pub(crate) array: ArrowArray,
    device_id: i64,
    device_type: i32,
    sync_event: *mut c_void,
    reserved: [i64; 3],
}

// The layout of the C structs on 64-bit targets.
const _: () = assert!(size_of::<ArrowArray>() == 80 && size_of::<ArrowDeviceArray>() == 128);

// SAFETY: nobody else has what the pointers lead to; the interface lets any thread
// release it.
unsafe impl Send for ArrowDeviceArray {}
// SAFETY: through a shared reference the struct and what it points to are only read.
unsafe impl Sync for ArrowDeviceArray {}

/// What an exported array keeps alive; `buffers` is pointed at.
struct Exported {
    buffers: Vec<*const c_void>,
    _memory: Vec<DeviceSlice>,
    _ready: Arc<dyn Event>,
}

/// Frees what an exported array holds; called once, by whoever holds the struct.
unsafe extern "C" fn release(array: *mut ArrowArray) {
    if array.is_null() {
        return;
    }
    // SAFETY: not null, and the interface lets only the holder of the struct call this.
    let array = unsafe { &mut *array };
    array.release = None;
    // SAFETY: `private_data` came from `Box::into_raw` in `DeviceArray::export`, and
    // `release` is now unset, so that nobody gets here again.
    drop(unsafe { Box::from_raw(array.private_data.cast::<Exported>()) });
}

impl Drop for ArrowDeviceArray {
    fn drop(&mut self) {
        if let Some(release) = self.array.release {
            // SAFETY: `release` is set, so the array has neither been released nor moved.
            unsafe { release(&mut self.array) };
        }
    }
}

impl ArrowDeviceArray {
    /// Moves an array out of a C struct that a producer has filled in; the struct is
    /// marked as released.
    ///
    /// # Safety
    /// `source` points to a `struct ArrowDeviceArray` that follows the interface, and
    /// that nobody else uses meanwhile.
    pub unsafe fn take(source: *mut Self) -> Self {
        // SAFETY: the caller's promise; the copy is the only one to be released, as the
        // interface says of moves.
        unsafe {
            let array = source.read();
            (*source).array.release = None;
            array
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.array.length as usize
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.array.length == 0
    }

    /// Nulls among the values; none if the producer has not counted them.
    pub fn null_count(&self) -> Option<usize> {
        usize::try_from(self.array.null_count).ok()
    }

    /// Its buffers in device memory, the validity bitmap first (null if no value is null);
    /// none once it has been released or moved.
    pub fn buffer_pointers(&self) -> Vec<DevicePtr<u8>> {
        if self.array.release.is_none() {
            return Vec::new();
        }
        let count = self.array.n_buffers as usize;
        // SAFETY: `release` is set, so the array's `Exported` lives, and `buffers` leads to
        // the `n_buffers` pointers in it.
        let buffers = unsafe { std::slice::from_raw_parts(self.array.buffers, count) };
        buffers.iter().map(|buffer| DevicePtr::from_address(*buffer as u64)).collect()
    }

    /// Where the handle of the event stands that a consumer waits for, a `cudaEvent_t`;
    /// null on a host.
    pub fn sync_event(&self) -> *mut c_void {
        self.sync_event
    }

    /// Which kind of device it lies on, and its number.
    pub fn device(&self) -> (ArrowDeviceType, i64) {
        let kind = if self.device_type == ArrowDeviceType::Cuda as i32 {
            ArrowDeviceType::Cuda
        } else {
            ArrowDeviceType::Cpu
        };
        (kind, self.device_id)
    }
}

/// Where arrays of a device lie.
pub(crate) fn kind_of(context: &Context) -> ArrowDeviceType {
    if context.device().is_host() { ArrowDeviceType::Cpu } else { ArrowDeviceType::Cuda }
}

/// What an array of the interface states.
pub(crate) struct Parts {
    /// The validity first.
    pub buffers: Vec<DevicePtr<u8>>,
    /// Rows before the first.
    pub offset: usize,
    /// None if nobody has counted.
    pub null_count: Option<usize>,
}

impl ArrowDeviceArray {
    /// What it states, checked as far as it shows.
    pub(crate) fn parts(&self) -> Result<Parts> {
        let array = &self.array;
        let mismatch = |what: &str| {
            Err(Error::Mismatch { place: Place::default(), what: format!("a device array {what}") })
        };
        if array.release.is_none() {
            return mismatch("that has been released");
        }
        if array.n_children != 0 || !array.dictionary.is_null() {
            return mismatch("with children or a dictionary");
        }
        let (length, offset) = (usize::try_from(array.length), usize::try_from(array.offset));
        let (Ok(length), Ok(offset)) = (length, offset) else {
            return mismatch("of negative length or offset");
        };
        if !(1..=3).contains(&array.n_buffers)
            || array.null_count > array.length
            || offset.checked_add(length).is_none_or(|rows| rows > isize::MAX as usize / 64)
        {
            return mismatch("whose numbers of buffers, rows or nulls cannot be");
        }
        let null_count = usize::try_from(array.null_count).ok();
        Ok(Parts { buffers: self.buffer_pointers(), offset, null_count })
    }
}

impl DeviceArray {
    /// The array for another library, without a copy; its memory is freed when
    /// that library releases it. The type travels apart, as the `ArrowSchema` that
    /// arrow's `FFI_ArrowSchema` makes of [`DeviceArray::data_type`].
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) or
    /// [`Error::DeviceMemory`](crate::Error::DeviceMemory), for view types only:
    /// their last buffer is made here.
    pub fn export(self) -> Result<ArrowDeviceArray> {
        let (validity, slices) = self.slices();
        let mut memory: Vec<DeviceSlice> = slices.to_vec();
        let mut ready = self.ready().clone();
        if matches!(self.data_type(), DataType::Utf8View | DataType::BinaryView) {
            // The interface has the lengths of the data buffers behind them, as i64.
            let lengths: Vec<i64> = slices[1..].iter().map(|slice| slice.len() as i64).collect();
            let (buffer, event) = self.context().with_stream(|stream| {
                stream.wait(ready.as_ref())?;
                let buffer = stream.allocate(lengths.len() * 8)?;
                stream.upload(bytemuck::cast_slice(&lengths), &buffer, 0)?;
                Ok((Arc::new(buffer), stream.record()?))
            })?;
            memory.push(buffer.into());
            ready = event;
        }
        let pointer =
            |slice: &DeviceSlice| slice.pointer::<u8>().address() as usize as *const c_void;
        let mut buffers = vec![validity.map_or(null(), pointer)];
        buffers.extend(memory.iter().map(pointer));
        memory.extend(validity.cloned());
        let kind = kind_of(self.context());
        // Points into the event, which `_ready` keeps where it is.
        let sync_event = ready.handle();
        let exported = Box::new(Exported { buffers, _memory: memory, _ready: ready });
        let array = ArrowArray {
            length: self.len() as i64,
            null_count: self.null_count() as i64,
            offset: 0,
            n_buffers: exported.buffers.len() as i64,
            n_children: 0,
            buffers: exported.buffers.as_ptr(),
            children: null_mut(),
            dictionary: null_mut(),
            release: Some(release),
            private_data: null_mut(),
        };
        Ok(ArrowDeviceArray {
            array: ArrowArray { private_data: Box::into_raw(exported).cast(), ..array },
            device_id: self.device().ordinal as i64,
            device_type: kind as i32,
            sync_event,
            reserved: [0; 3],
        })
    }
}
