//! Arrays that others have put into device memory: by address, or through the Arrow C
//! Device data interface. Nothing is copied but bitmaps that begin inside a byte.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::DataType;

use super::Engine;
use crate::column::physical_of;
use crate::device::Context;
use crate::device::array::{DeviceArray, DeviceSlice};
use crate::device::c_device::ArrowDeviceArray;
use crate::encode;
use crate::error::{Error, Place, Result};
use crate::gpu::{DeviceBuffer, DevicePtr, Event, Stream};

/// Buffers of an array, without the validity: bits, or bytes of each value; or offsets
/// of so many bytes, and the bytes they count.
#[derive(Clone, Copy)]
enum Layout {
    Bits,
    Fixed(usize),
    Offsets(usize),
}

fn layout_of(data_type: &DataType) -> Result<Layout> {
    Ok(match (data_type, physical_of(data_type).bits()) {
        (_, Some(1)) => Layout::Bits,
        (_, Some(bits)) => Layout::Fixed(bits / 8),
        (DataType::Utf8 | DataType::Binary, _) => Layout::Offsets(4),
        (DataType::LargeUtf8 | DataType::LargeBinary, _) => Layout::Offsets(8),
        (DataType::FixedSizeBinary(width), _) => Layout::Fixed(*width as usize),
        _ => return mismatch(format!("arrays of {data_type} are not taken from device memory")),
    })
}

fn mismatch<T>(what: String) -> Result<T> {
    Err(Error::Mismatch { place: Place::default(), what })
}

impl DeviceArray {
    /// An array whose buffers others have put into the memory of `engine`'s GPU: values
    /// or bits, or offsets and bytes, from bit 0 on as in Arrow's columnar format.
    /// Pointers come with lengths in bytes. `owner` is dropped when the memory is no
    /// longer used, which may wait for the GPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU; [`Error::Mismatch`] for types
    /// other than fixed-width ones and strings with offsets, and for buffers that are
    /// too few, too short or not aligned to their values.
    ///
    /// # Safety
    /// The pointers lead to as many bytes of the GPU's memory as is said, which have
    /// been written and stay as they are until `owner` is dropped. Offsets rise, the
    /// last one is the number of bytes; Utf8 is UTF-8; `null_count` is right.
    pub unsafe fn from_raw(
        engine: &Engine,
        data_type: &DataType,
        (len, null_count): (usize, usize),
        validity: Option<(DevicePtr<u8>, usize)>,
        buffers: &[(DevicePtr<u8>, usize)],
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let context = engine.context()?;
        let needed = match layout_of(data_type)? {
            Layout::Bits => vec![(len.div_ceil(8), 1)],
            Layout::Fixed(width) => vec![(len.saturating_mul(width), alignment(width))],
            Layout::Offsets(width) => {
                vec![(len.saturating_add(1).saturating_mul(width), width), (0, 1)]
            }
        };
        if needed.len() != buffers.len() {
            let (needed, found) = (needed.len(), buffers.len());
            return mismatch(format!("{found} buffers for {data_type}, {needed} expected"));
        }
        if null_count > len || (null_count > 0 && validity.is_none()) {
            return mismatch(format!("{null_count} nulls among {len} rows without a bitmap"));
        }
        let validity = validity.filter(|_| null_count > 0);
        let bitmap = validity.map(|buffer| (buffer, (len.div_ceil(8), 1)));
        let all = bitmap.into_iter().chain(buffers.iter().copied().zip(needed.iter().copied()));
        for ((start, found), (needed, align)) in all.clone() {
            if found < needed {
                return mismatch(format!(
                    "a buffer of {found} bytes for {len} rows of {data_type}, {needed} needed"
                ));
            }
            if found > 0 && !start.address().is_multiple_of(align as u64) {
                return mismatch(format!(
                    "a buffer of {data_type} at {start:?}, no multiple of {align}"
                ));
            }
        }
        let owner = Arc::new(owner);
        context.with_stream(|stream| {
            let adopt = |(start, bytes): (DevicePtr<u8>, usize)| -> Result<DeviceSlice> {
                // SAFETY: the caller's promise; every buffer keeps the owner.
                let buffer = unsafe { stream.adopt(start, bytes, Box::new(owner.clone())) }?;
                Ok(Arc::new(buffer).into())
            };
            let validity = validity.map(adopt).transpose()?;
            // No more than the rows have, but of the bytes of strings all.
            let cut =
                |(&(start, found), &(needed, _)): (&(DevicePtr<u8>, usize), &(usize, usize))| {
                    adopt((start, if needed == 0 { found } else { needed }))
                };
            let buffers = buffers.iter().zip(&needed).map(cut).collect::<Result<_>>()?;
            let (data_type, ready) = (data_type.clone(), stream.record()?);
            let context = context.clone();
            Ok(Self::new(context, data_type, len, null_count, validity, buffers, ready))
        })
    }

    /// An array that another library hands over through the Arrow C Device data
    /// interface. Work on it waits for its event; it is released when the memory is no
    /// longer used, which may wait for the GPU.
    ///
    /// # Errors
    /// As [`DeviceArray::from_raw`], and [`Error::Mismatch`] for arrays that lie
    /// elsewhere; [`Error::DeviceMemory`], [`Error::Device`].
    ///
    /// # Safety
    /// The array is one that the interface describes, of this type.
    pub unsafe fn import(
        engine: &Engine,
        array: ArrowDeviceArray,
        data_type: &DataType,
    ) -> Result<Self> {
        let context = engine.context()?;
        let layout = layout_of(data_type)?;
        let (kind, ordinal) = array.device();
        let info = context.device().info();
        if kind != crate::device::c_device::kind_of(context) || ordinal != info.ordinal as i64 {
            return mismatch(format!(
                "an array on {kind:?} {ordinal}, the engine has {} {}",
                info.name, info.ordinal
            ));
        }
        let parts = array.parts()?;
        let rows = parts.offset..parts.offset + array.len();
        context.with_stream(|stream| {
            if !array.sync_event().is_null() {
                // SAFETY: the interface: a pointer to an event of the array's device.
                let event = *unsafe { &*array.sync_event().cast::<*mut std::ffi::c_void>() };
                // SAFETY: as above.
                unsafe { stream.wait_for_handle(event) }?;
            }
            let len = array.len();
            let null_count = parts.null_count;
            let owner = Arc::new(array);
            let adopt = |start: DevicePtr<u8>, bytes: usize| -> Result<Arc<DeviceBuffer>> {
                // SAFETY: the interface: buffers have the bytes that type and length ask
                // for, and live until the array is released.
                let buffer = unsafe { stream.adopt(start, bytes, Box::new(owner.clone())) }?;
                Ok(Arc::new(buffer))
            };
            let bits = |start: DevicePtr<u8>| -> Result<DeviceSlice> {
                let all = adopt(start, rows.end.div_ceil(8))?;
                bits_from(context, stream, &all, &rows)
            };
            let expect = |count: usize| match parts.buffers.len() {
                found if found == count => Ok(()),
                found => mismatch(format!("{found} buffers for {data_type}, {count} expected")),
            };
            let aligned = |start: DevicePtr<u8>, align: usize| match start.address() % align as u64
            {
                0 => Ok(()),
                _ => {
                    mismatch(format!("values of {data_type} at {start:?}, no multiple of {align}"))
                }
            };
            let values = |width: usize| -> Result<DeviceSlice> {
                aligned(parts.buffers[1], alignment(width))?;
                let all = adopt(parts.buffers[1], rows.end * width)?;
                Ok(DeviceSlice::of(&all, rows.start * width..rows.end * width))
            };
            let buffers = match layout {
                Layout::Bits => {
                    expect(2)?;
                    vec![bits(parts.buffers[1])?]
                }
                Layout::Fixed(width) => {
                    expect(2)?;
                    vec![values(width)?]
                }
                Layout::Offsets(width) => {
                    expect(3)?;
                    aligned(parts.buffers[1], width)?;
                    if rows.end == 0 {
                        // There may be no offsets at all.
                        let offset = Arc::new(stream.allocate(width)?);
                        stream.fill(&offset, 0, width, 0)?;
                        let none = Arc::new(stream.allocate(0)?);
                        let ready: Arc<dyn Event> = stream.record()?;
                        let (data_type, context) = (data_type.clone(), context.clone());
                        let buffers = vec![offset.into(), none.into()];
                        return Ok(Self::new(context, data_type, 0, 0, None, buffers, ready));
                    }
                    let all = adopt(parts.buffers[1], (rows.end + 1) * width)?;
                    let mut last = [0; 8];
                    stream.download(&all, rows.end * width, &mut last[..width])?;
                    let bytes = usize::try_from(u64::from_le_bytes(last)).unwrap_or(usize::MAX);
                    let offsets = DeviceSlice::of(&all, rows.start * width..(rows.end + 1) * width);
                    vec![offsets, adopt(parts.buffers[2], bytes)?.into()]
                }
            };
            let has_nulls = !parts.buffers[0].is_null() && null_count != Some(0);
            let validity = if has_nulls { Some(bits(parts.buffers[0])?) } else { None };
            let null_count = match (&validity, null_count) {
                (None, _) => 0,
                (Some(_), Some(count)) => count,
                (Some(validity), None) => {
                    len - encode::count_valid(context, stream, validity, len)?
                }
            };
            let ready: Arc<dyn Event> = stream.record()?;
            let data_type = data_type.clone();
            Ok(Self::new(context.clone(), data_type, len, null_count, validity, buffers, ready))
        })
    }
}

/// The largest power of two that a value of so many bytes is a multiple of, up to 8:
/// what Arrow's values are aligned to.
fn alignment(width: usize) -> usize {
    1 << width.trailing_zeros().min(3)
}

/// The bits `rows` of a bitmap, from bit 0 on: a copy if they begin inside a byte.
fn bits_from(
    context: &Arc<Context>,
    stream: &Arc<dyn Stream>,
    bitmap: &Arc<DeviceBuffer>,
    rows: &Range<usize>,
) -> Result<DeviceSlice> {
    if rows.start.is_multiple_of(8) {
        return Ok(DeviceSlice::of(bitmap, rows.start / 8..rows.end.div_ceil(8)));
    }
    encode::moved_bits(context, stream, bitmap, rows)
}

#[cfg(all(test, lanepack_simt))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow_array::{
        ArrayRef, BooleanArray, Float64Array, Int16Array, RecordBatch, StringArray, UInt16Array,
    };
    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::{Encoding, Options, compress};

    fn arrays() -> Vec<ArrayRef> {
        let null = |row: usize| row % 5 == 2;
        vec![
            Arc::new(Int16Array::from_iter(
                (0..3000).map(|row| (!null(row)).then_some(row as i16)),
            )),
            Arc::new(BooleanArray::from_iter(
                (0..3000).map(|row| (!null(row)).then_some(row % 3 == 0)),
            )),
            Arc::new(Float64Array::from_iter_values((0..3000).map(|row| row as f64 / 4.0))),
        ]
    }

    #[test]
    fn an_array_that_was_exported_comes_back() {
        let engine = Engine::simt(1, 1 << 30);
        for array in arrays() {
            let exported = engine.copy_to_device(&array).unwrap().export().unwrap();
            // SAFETY: exported just now, of this type.
            let back = unsafe { DeviceArray::import(&engine, exported, array.data_type()) };
            assert_eq!(&back.unwrap().to_host().unwrap(), &array);
        }
        assert_eq!(engine.free_memory().unwrap(), 1 << 30);
    }

    /// Offsets at which bitmaps begin inside bytes and words, and nulls that nobody counted.
    #[test]
    fn an_array_of_others_may_begin_at_any_row() {
        let engine = Engine::simt(2, 1 << 30);
        for array in arrays() {
            for offset in [0, 1, 8, 13, 32, 1029] {
                let mut exported = engine.copy_to_device(&array).unwrap().export().unwrap();
                exported.array.offset = offset as i64;
                exported.array.length -= offset as i64;
                exported.array.null_count = -1;
                // SAFETY: a slice of what was exported, of this type.
                let back = unsafe { DeviceArray::import(&engine, exported, array.data_type()) };
                let back = back.unwrap();
                let expected = array.slice(offset, array.len() - offset);
                assert_eq!(back.null_count(), expected.null_count());
                assert_eq!(&back.to_host().unwrap(), &expected);
                let field = Field::new("column", array.data_type().clone(), true);
                let schema = Arc::new(Schema::new(vec![field]));
                let options = Options::default().with_chunk_rows(1024).with_verify(true);
                let packed = engine.compress_arrays(&schema, &[back], &options).unwrap();
                let batch = arrow_array::RecordBatch::try_new(schema, vec![expected]).unwrap();
                assert_eq!(packed.download().unwrap(), compress(&batch, &options).unwrap());
            }
        }
    }

    #[test]
    fn strings_of_others_come_back() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "", "bcd", "ef"]));
        let engine = Engine::simt(3, 1 << 30);
        let packed = crate::compress_array(&text, &Options::default()).unwrap();
        let (field, storage) = packed.to_arrow("text");
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = arrow_array::RecordBatch::try_new(schema, vec![Arc::new(storage)]).unwrap();
        let array = engine.upload(&batch).unwrap().decompress().unwrap().remove(0);
        let mut exported = array.export().unwrap();
        exported.array.offset = 1;
        exported.array.length = 3;
        // SAFETY: a slice of what was exported, of this type.
        let back = unsafe { DeviceArray::import(&engine, exported, text.data_type()) };
        assert_eq!(&back.unwrap().to_host().unwrap(), &text.slice(1, 3));
    }

    /// Memory of the host, which is that of the emulation.
    fn host_pointer<T>(values: *const T) -> DevicePtr<u8> {
        DevicePtr::from_address(values.expose_provenance() as u64)
    }

    /// Buffers longer than the rows ask for, values that begin anywhere.
    #[test]
    fn strings_of_others_are_compressed() {
        let engine = Engine::simt(6, 1 << 30);
        let text: Vec<String> = (0..3000).map(|row| format!("text {}", row % 77)).collect();
        let array = StringArray::from(text);
        let field = Field::new("column", DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let expected: ArrayRef = Arc::new(array.clone());
        let batch = arrow_array::RecordBatch::try_new(schema.clone(), vec![expected]).unwrap();
        let expected = compress(&batch, &Options::default()).unwrap();
        for shift in [0, 1, 31] {
            let mut offsets = array.value_offsets().to_vec();
            offsets.resize(offsets.len() + 29, -1);
            let mut bytes = vec![b'x'; shift];
            bytes.extend_from_slice(array.value_data());
            let pointer = |bytes: &[u8]| host_pointer(bytes.as_ptr());
            let buffers = [
                (pointer(bytemuck::cast_slice(&offsets)), offsets.len() * 4),
                (pointer(&bytes[shift..]), array.value_data().len()),
            ];
            let owner = (offsets, bytes);
            // SAFETY: the emulation's memory is the host's; the owner holds the buffers.
            let array = unsafe {
                DeviceArray::from_raw(&engine, &DataType::Utf8, (3000, 0), None, &buffers, owner)
            };
            let packed = engine.compress_arrays(&schema, &[array.unwrap()], &Options::default());
            assert_eq!(packed.unwrap().download().unwrap(), expected);
        }
    }

    #[test]
    fn strings_without_rows_may_lack_offsets() {
        let engine = Engine::simt(7, 1 << 30);
        let none: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
        let exported = engine.copy_to_device(&none).unwrap().export().unwrap();
        // SAFETY: exported just now, of this type.
        let back = unsafe { DeviceArray::import(&engine, exported, none.data_type()) };
        assert_eq!(&back.unwrap().to_host().unwrap(), &none);
    }

    #[test]
    fn memory_by_address_is_given_back_when_it_is_no_longer_used() {
        struct Owner(#[allow(dead_code, reason = "kept")] Vec<u32>, Arc<AtomicUsize>);
        impl Drop for Owner {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
        let engine = Engine::simt(4, 1 << 30);
        let dropped = Arc::new(AtomicUsize::new(0));
        let values: Vec<u32> = (0..5000).map(|row| row * 3).collect();
        let (start, bytes) = (host_pointer(values.as_ptr()), values.len() * 4);
        let owner = Owner(values, dropped.clone());
        let buffers = [(start, bytes)];
        let data_type = DataType::UInt32;
        // SAFETY: the emulation's memory is the host's; the owner holds the values.
        let array =
            unsafe { DeviceArray::from_raw(&engine, &data_type, (5000, 0), None, &buffers, owner) };
        let array = array.unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("column", data_type, false)]));
        let packed = engine.compress_arrays(&schema, &[array], &Options::default()).unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        let back = packed.decompress().unwrap()[0].to_host().unwrap();
        let expected: ArrayRef =
            Arc::new(arrow_array::UInt32Array::from_iter_values((0..5000).map(|row| row * 3)));
        assert_eq!(&back, &expected);
    }

    /// Memory that ends with the values, and begins at no multiple of 8.
    #[test]
    fn memory_by_address_is_looked_at_for_what_comes_again() {
        let engine = Engine::simt(6, 1 << 30);
        let noise = |row: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
        let values: Vec<u16> = (0..5003).map(|row| noise(row % 700)).collect();
        let (start, bytes) = (host_pointer(values.as_ptr()), values.len() * 2);
        let options = Options::default().with_encodings([Encoding::Lz]);
        for first in [0, 1, 3] {
            let rows = 5003 - first;
            let buffers = [(start.add(2 * first), bytes - 2 * first)];
            let data_type = DataType::UInt16;
            // SAFETY: the emulation's memory is the host's; the values live on.
            let array = unsafe {
                DeviceArray::from_raw(&engine, &data_type, (rows, 0), None, &buffers, ())
            };
            let schema = Arc::new(Schema::new(vec![Field::new("column", data_type, false)]));
            let packed = engine.compress_arrays(&schema, &[array.unwrap()], &options).unwrap();
            let array: ArrayRef = Arc::new(UInt16Array::from(values[first..].to_vec()));
            let batch = RecordBatch::try_new(schema, vec![array]).unwrap();
            let expected = compress(&batch, &options).unwrap();
            assert_eq!(crate::columns(&expected).unwrap()[0].encoding().to_string(), "lz");
            assert!(packed.download().unwrap() == expected, "from row {first} on");
        }
    }

    #[test]
    fn buffers_that_do_not_fit_are_errors() {
        let engine = Engine::simt(5, 1 << 30);
        type Buffers = &'static [(u64, usize)];
        let pointer = |(address, len): &(u64, usize)| (DevicePtr::from_address(*address), *len);
        let cases: [(DataType, [usize; 2], Buffers, &str); 6] = [
            (DataType::Int32, [10, 0], &[], "0 buffers"),
            (DataType::Int32, [10, 0], &[(256, 39)], "39 bytes for 10 rows"),
            (DataType::Int32, [10, 0], &[(258, 40)], "no multiple of 4"),
            (DataType::Int32, [10, 1], &[(256, 40)], "without a bitmap"),
            (DataType::Utf8, [10, 0], &[(256, 40), (0, 0)], "44 needed"),
            (DataType::Utf8View, [10, 0], &[(256, 160)], "not taken"),
        ];
        for (data_type, [len, nulls], buffers, what) in cases {
            let buffers: Vec<_> = buffers.iter().map(pointer).collect();
            // SAFETY: refused before anything is read.
            let array = unsafe {
                DeviceArray::from_raw(&engine, &data_type, (len, nulls), None, &buffers, ())
            };
            let error = array.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        // SAFETY: as above.
        let none = unsafe {
            DeviceArray::from_raw(
                &Engine::cpu(),
                &DataType::Int8,
                (0, 0),
                None,
                &[(DevicePtr::NULL, 0)],
                (),
            )
        };
        assert!(matches!(none, Err(Error::NoDevice { .. })));
    }
}
