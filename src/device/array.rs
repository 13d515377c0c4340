//! Decompressed Arrow arrays in device memory, and their way to the host.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::Context;
use super::pinned::ResultMemory;
use crate::column::physical_of;
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DeviceInfo, DevicePtr, Event, Stream};

/// A decompressed Arrow array whose buffers lie in device memory, in Arrow's
/// layout. Everything that Arrow asks of an array has been checked.
///
/// ```no_run
/// use arrow_array::{ArrayRef, Int64Array};
/// use lanepack::Engine;
/// use std::sync::Arc;
///
/// let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
/// let on_device = Engine::cuda(0)?.copy_to_device(&array)?;
/// assert_eq!(&on_device.to_host()?, &array);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceArray {
    context: Arc<Context>,
    data_type: DataType,
    len: usize,
    null_count: usize,
    validity: Option<DeviceSlice>,
    buffers: Vec<DeviceSlice>,
    /// When the buffers have been written.
    ready: Arc<dyn Event>,
}

/// A part of a buffer.
#[derive(Debug, Clone)]
pub(crate) struct DeviceSlice {
    buffer: Arc<DeviceBuffer>,
    range: Range<usize>,
}

impl DeviceSlice {
    pub fn of(buffer: &Arc<DeviceBuffer>, range: Range<usize>) -> Self {
        debug_assert!(range.end <= buffer.len());
        Self { buffer: buffer.clone(), range }
    }

    /// Its first byte, on the device, as a pointer to values.
    pub fn pointer<T>(&self) -> DevicePtr<T> {
        self.buffer.pointer_at(self.range.start)
    }

    /// The buffer that it is a part of.
    pub fn buffer(&self) -> &Arc<DeviceBuffer> {
        &self.buffer
    }

    /// Where in its buffer it begins.
    pub fn start(&self) -> usize {
        self.range.start
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }
}

impl From<Arc<DeviceBuffer>> for DeviceSlice {
    fn from(buffer: Arc<DeviceBuffer>) -> Self {
        let range = 0..buffer.len();
        Self { buffer, range }
    }
}

/// The buffers of an array in host memory as a device has them: from row 0 on, and no
/// more than its rows.
pub(crate) struct HostBuffers {
    null_count: usize,
    pub validity: Option<Buffer>,
    pub buffers: Vec<Buffer>,
}

impl HostBuffers {
    /// Those of an array of fixed-width values, booleans, or strings with offsets. They
    /// are the array's own, but for bitmaps that do not begin at a byte, and offsets that
    /// do not begin at 0.
    pub fn of(array: &ArrayRef) -> Result<Self> {
        let bits =
            |bits: &BooleanBuffer| bits.sliced().slice_with_length(0, bits.len().div_ceil(8));
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let data = array.to_data();
        let values = |width: usize| {
            data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
        };
        let buffers = match physical_of(array.data_type()).bits() {
            Some(1) => vec![bits(array.as_boolean().values())],
            Some(width) => vec![values(width / 8)],
            None => match array.data_type() {
                DataType::Utf8 | DataType::Binary => strings::<i32>(&data),
                DataType::LargeUtf8 | DataType::LargeBinary => strings::<i64>(&data),
                other => {
                    let what = format!("values of {other} in device memory");
                    return Err(Error::unsupported(what));
                }
            },
        };
        let null_count = nulls.map_or(0, NullBuffer::null_count);
        let validity = nulls.map(|nulls| bits(nulls.inner()));
        Ok(Self { null_count, validity, buffers })
    }

    /// Copies them to the device.
    pub fn upload(
        &self,
        context: &Arc<Context>,
        stream: &Arc<dyn Stream>,
        data_type: &DataType,
        len: usize,
    ) -> Result<DeviceArray> {
        let on_device = self.allocate(context, stream, data_type, len)?;
        let from = self.validity.iter().chain(&self.buffers);
        for (bytes, slice) in from.zip(on_device.validity.iter().chain(&on_device.buffers)) {
            stream.upload(bytes, &slice.buffer, slice.range.start)?;
        }
        Ok(DeviceArray { ready: stream.record()?, ..on_device })
    }

    /// An array on the device with room for them. Kernels read units of 32 bytes, of which
    /// the last ends in zeros: what is there has no influence, but tools that look for reads
    /// of what nobody has written cannot know.
    pub fn allocate(
        &self,
        context: &Arc<Context>,
        stream: &Arc<dyn Stream>,
        data_type: &DataType,
        len: usize,
    ) -> Result<DeviceArray> {
        let allocate = |bytes: &Buffer| -> Result<DeviceSlice> {
            let (len, padded) = (bytes.len(), bytes.len().next_multiple_of(READ_UNIT));
            let buffer = Arc::new(stream.allocate(padded)?);
            stream.fill(&buffer, len, padded - len, 0)?;
            Ok(DeviceSlice::of(&buffer, 0..len))
        };
        let validity = self.validity.as_ref().map(allocate).transpose()?;
        let buffers = self.buffers.iter().map(allocate).collect::<Result<_>>()?;
        let (context, data_type) = (context.clone(), data_type.clone());
        let (null_count, ready) = (self.null_count, stream.record()?);
        Ok(DeviceArray::new(context, data_type, len, null_count, validity, buffers, ready))
    }
}

/// Bytes of memory that a kernel reads at once at most.
pub(crate) const READ_UNIT: usize = 32;

/// Offsets, which begin at 0, and the bytes that they count.
fn strings<O: OffsetSizeTrait + bytemuck::Pod>(data: &ArrayData) -> Vec<Buffer> {
    // Arrays without rows may come without offsets.
    if data.is_empty() {
        return vec![Buffer::from_vec(vec![O::default()]), Buffer::default()];
    }
    let offsets = &data.buffer::<O>(0)[..data.len() + 1];
    let (first, last) = (offsets[0], offsets[data.len()]);
    let len = last.as_usize() - first.as_usize();
    let bytes = data.buffers()[1].slice_with_length(first.as_usize(), len);
    let width = size_of::<O>();
    let offsets = if first == O::default() {
        data.buffers()[0].slice_with_length(data.offset() * width, (data.len() + 1) * width)
    } else {
        Buffer::from_vec(offsets.iter().map(|offset| *offset - first).collect::<Vec<O>>())
    };
    vec![offsets, bytes]
}

/// An array in host memory.
///
/// # Safety
/// The buffers are what arrays of this type and length have.
pub(crate) unsafe fn array_of(
    data_type: &DataType,
    len: usize,
    nulls: Option<NullBuffer>,
    buffers: Vec<Buffer>,
) -> ArrayRef {
    let builder = ArrayData::builder(data_type.clone()).len(len).nulls(nulls).buffers(buffers);
    // SAFETY: the caller's promise.
    make_array(unsafe { builder.build_unchecked() })
}

impl DeviceArray {
    /// Copies an array of fixed-width values, booleans, or strings with offsets to the
    /// device.
    pub(crate) fn upload(context: &Arc<Context>, array: &ArrayRef) -> Result<Self> {
        let host = HostBuffers::of(array)?;
        context.with_stream(|stream| host.upload(context, stream, array.data_type(), array.len()))
    }

    pub(crate) fn new(
        context: Arc<Context>,
        data_type: DataType,
        len: usize,
        null_count: usize,
        validity: Option<DeviceSlice>,
        buffers: Vec<DeviceSlice>,
        ready: Arc<dyn Event>,
    ) -> Self {
        Self { context, data_type, len, null_count, validity, buffers, ready }
    }

    /// The Arrow type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nulls among the values.
    pub fn null_count(&self) -> usize {
        self.null_count
    }

    /// The device that it lies on.
    pub fn device(&self) -> &DeviceInfo {
        self.context.device().info()
    }

    /// Pointer to and bytes of the validity bitmap in device memory; none if no
    /// value is null.
    pub fn validity(&self) -> Option<(DevicePtr<u8>, usize)> {
        self.validity.as_ref().map(|slice| (slice.pointer(), slice.len()))
    }

    /// Pointers to and bytes of the other buffers in device memory, in the order
    /// of Arrow's columnar format: values; offsets and bytes; views and their
    /// buffers. They stay valid as long as the array.
    pub fn buffers(&self) -> impl ExactSizeIterator<Item = (DevicePtr<u8>, usize)> {
        self.buffers.iter().map(|slice| (slice.pointer(), slice.len()))
    }

    /// Copies the array to host memory, page-locked within the engine's limit
    /// ([`Engine::with_pinned_limit`](crate::Engine::with_pinned_limit)).
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if a copy fails.
    pub fn to_host(&self) -> Result<ArrayRef> {
        self.context.with_stream(|stream| {
            stream.wait(self.ready.as_ref())?;
            let download = |slice: &DeviceSlice| -> Result<Buffer> {
                let memory = ResultMemory::new(self.context.pool(), slice.len());
                let written = memory
                    .all()
                    .write(|target| stream.download_to(&slice.buffer, slice.range.start, target))?;
                Ok(memory.finish(vec![written]))
            };
            let nulls = match &self.validity {
                None => None,
                Some(slice) => {
                    Some(NullBuffer::new(BooleanBuffer::new(download(slice)?, 0, self.len)))
                }
            };
            let buffers = self.buffers.iter().map(download).collect::<Result<Vec<_>>>()?;
            // SAFETY: of arrays of others by the contracts of `from_raw` and `import`.
            // Else the kernels wrote every value of every buffer; offsets rise from 0 to
            // the number of bytes because `offsets_*` clamps them and `keep_strings` writes
            // sums of what `keep_lengths` has bounded, views point into their
            // chunk's buffer because they are made of those offsets, and a `DeviceArray`
            // exists only if the report of `utf8` and of the decoders named no fault.
            Ok(unsafe { array_of(&self.data_type, self.len, nulls, buffers) })
        })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn slices(&self) -> (Option<&DeviceSlice>, &[DeviceSlice]) {
        (self.validity.as_ref(), &self.buffers)
    }

    pub(crate) fn ready(&self) -> &Arc<dyn Event> {
        &self.ready
    }
}
