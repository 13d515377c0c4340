//! Decompressed Arrow arrays in device memory, and their way to the host.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::Context;
use crate::column::physical_of;
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DeviceInfo, Event};

/// A decompressed Arrow array whose buffers lie in device memory, in Arrow's
/// layout. Everything that Arrow asks of an array has been checked.
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

    /// Where it begins, on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address() + self.range.start as u64
    }

    /// The buffer that it is a part of.
    pub fn buffer(&self) -> &Arc<DeviceBuffer> {
        &self.buffer
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

/// Uploads offsets, which begin at 0, and the bytes that they count.
fn upload_strings<O: OffsetSizeTrait + bytemuck::Pod>(
    data: &ArrayData,
    upload: impl Fn(&[u8]) -> Result<DeviceSlice>,
) -> Result<Vec<DeviceSlice>> {
    // Arrays without rows may come without offsets.
    let zero = [O::default()];
    let offsets = if data.is_empty() { &zero[..] } else { &data.buffer::<O>(0)[..data.len() + 1] };
    let (first, last) = (offsets[0], offsets[data.len()]);
    let bytes = &data.buffers()[1].as_slice()[first.as_usize()..last.as_usize()];
    let offsets = if first == O::default() {
        upload(bytemuck::cast_slice(offsets))?
    } else {
        let moved: Vec<O> = offsets.iter().map(|offset| *offset - first).collect();
        upload(bytemuck::cast_slice(&moved))?
    };
    Ok(vec![offsets, upload(bytes)?])
}

impl DeviceArray {
    /// Copies an array of fixed-width values, booleans, or strings with offsets to the
    /// device.
    pub(super) fn upload(context: &Arc<Context>, array: &ArrayRef) -> Result<Self> {
        context.with_stream(|stream| {
            let upload = |bytes: &[u8]| -> Result<DeviceSlice> {
                let buffer = stream.allocate(bytes.len())?;
                stream.upload(bytes, &buffer, 0)?;
                Ok(Arc::new(buffer).into())
            };
            // From bit 0 on, a copy only if they begin elsewhere.
            let upload_bits =
                |bits: &BooleanBuffer| upload(&bits.sliced()[..bits.len().div_ceil(8)]);
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            let validity = nulls.map(|nulls| upload_bits(nulls.inner())).transpose()?;
            let data = array.to_data();
            let values = |width: usize| {
                let range = data.offset() * width..(data.offset() + data.len()) * width;
                upload(&data.buffers()[0].as_slice()[range])
            };
            let buffers = match physical_of(array.data_type()).bits() {
                Some(1) => vec![upload_bits(array.as_boolean().values())?],
                Some(bits) => vec![values(bits / 8)?],
                None => match array.data_type() {
                    DataType::Utf8 | DataType::Binary => upload_strings::<i32>(&data, upload)?,
                    DataType::LargeUtf8 | DataType::LargeBinary => {
                        upload_strings::<i64>(&data, upload)?
                    }
                    other => {
                        let what = format!("values of {other} in device memory");
                        return Err(Error::too_large(what));
                    }
                },
            };
            let null_count = nulls.map_or(0, NullBuffer::null_count);
            let (data_type, ready) = (array.data_type().clone(), stream.record()?);
            let context = context.clone();
            Ok(Self::new(context, data_type, array.len(), null_count, validity, buffers, ready))
        })
    }

    pub(super) fn new(
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
        self.context.device.info()
    }

    /// Address and bytes of the validity bitmap in device memory; none if no
    /// value is null.
    pub fn validity(&self) -> Option<(u64, usize)> {
        self.validity.as_ref().map(|slice| (slice.address(), slice.len()))
    }

    /// Addresses and bytes of the other buffers in device memory, in the order
    /// of Arrow's columnar format: values; offsets and bytes; views and their
    /// buffers. They stay valid as long as the array.
    pub fn buffers(&self) -> impl ExactSizeIterator<Item = (u64, usize)> {
        self.buffers.iter().map(|slice| (slice.address(), slice.len()))
    }

    /// Copies the array to host memory.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if a copy fails.
    pub fn to_host(&self) -> Result<ArrayRef> {
        self.context.with_stream(|stream| {
            stream.wait(self.ready.as_ref())?;
            let download = |slice: &DeviceSlice| -> Result<Buffer> {
                let mut bytes = MutableBuffer::from_len_zeroed(slice.len());
                stream.download(&slice.buffer, slice.range.start, bytes.as_slice_mut())?;
                Ok(bytes.into())
            };
            let nulls = match &self.validity {
                None => None,
                Some(slice) => {
                    Some(NullBuffer::new(BooleanBuffer::new(download(slice)?, 0, self.len)))
                }
            };
            let buffers = self.buffers.iter().map(download).collect::<Result<Vec<_>>>()?;
            let builder = ArrayData::builder(self.data_type.clone())
                .len(self.len)
                .nulls(nulls)
                .buffers(buffers);
            // SAFETY: of arrays of others by the contracts of `from_raw` and `import`. Else the kernels wrote every value of every buffer; offsets rise from 0 to
            // the number of bytes because `offsets_*` clamps them, views point into their
            // chunk's buffer because they are made of those offsets, and a `DeviceArray`
            // exists only if the report of `utf8` and of the decoders named no fault.
            Ok(make_array(unsafe { builder.build_unchecked() }))
        })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn slices(&self) -> (Option<&DeviceSlice>, &[DeviceSlice]) {
        (self.validity.as_ref(), &self.buffers)
    }

    pub(super) fn ready(&self) -> &Arc<dyn Event> {
        &self.ready
    }
}
