//! Columns to be compressed: Arrow buffers in device memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, FieldRef};

use crate::column::physical_of;
use crate::encoding::Physical;
use crate::engine::array::DeviceArray;
use crate::error::Result;
use crate::gpu::abi::encode as abi;
use crate::gpu::{DeviceBuffer, Event, Stream};
use crate::lanes::VECTOR;

/// Where a bitmap begins: the address of a word of 32 bits, and a bit of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    pub address: u64,
    pub bit: u32,
}

impl Bits {
    /// The bit `bit` of the bytes from `address` on.
    fn at(address: u64, bit: usize) -> Self {
        let bit = (address % 4) * 8 + bit as u64;
        Self { address: address / 4 * 4 + bit / 32 * 4, bit: (bit % 32) as u32 }
    }
}

/// An Arrow array of fixed-width values or bits in device memory.
#[derive(Debug)]
pub(super) struct Column {
    pub field: FieldRef,
    pub rows: usize,
    /// Address of row 0, for values of whole bytes.
    pub values: u64,
    /// Where row 0 is, for booleans.
    pub bits: Bits,
    /// None if all rows are valid.
    pub valid: Option<Bits>,
    /// What the addresses lead to.
    pub memory: Vec<Arc<DeviceBuffer>>,
    /// When it has been written.
    pub ready: Option<Arc<dyn Event>>,
}

impl Column {
    /// Copies an array to the device.
    pub fn upload(stream: &Arc<dyn Stream>, field: &FieldRef, array: &ArrayRef) -> Result<Self> {
        let mut memory = Vec::new();
        let mut upload = |bytes: &[u8]| -> Result<u64> {
            let buffer = stream.allocate(bytes.len())?;
            stream.upload(bytes, &buffer, 0)?;
            let address = buffer.address();
            memory.push(Arc::new(buffer));
            Ok(address)
        };
        let mut upload_bits = |bits: &BooleanBuffer| -> Result<Bits> {
            let (first, last) = (bits.offset() / 8, (bits.offset() + bits.len()).div_ceil(8));
            let address = upload(&bits.inner().as_slice()[first..last])?;
            Ok(Bits::at(address, bits.offset() % 8))
        };
        let valid = match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => Some(upload_bits(nulls.inner())?),
            None => None,
        };
        let nowhere = Bits { address: 0, bit: 0 };
        let (values, bits) = match physical_of(array.data_type()).bits() {
            Some(1) => (0, upload_bits(array.as_boolean().values())?),
            width => {
                let width = width.unwrap_or(0) / 8;
                let data = array.to_data();
                let range = data.offset() * width..(data.offset() + data.len()) * width;
                (upload(&data.buffers()[0].as_slice()[range])?, nowhere)
            }
        };
        let (field, rows) = (field.clone(), array.len());
        Ok(Self { field, rows, values, bits, valid, memory, ready: None })
    }

    /// An array that lies on the device.
    pub fn of(field: &FieldRef, array: &DeviceArray) -> Self {
        let (validity, slices) = array.slices();
        let first = slices[0].address();
        let all = validity.into_iter().chain(slices);
        Self {
            field: field.clone(),
            rows: array.len(),
            values: first,
            bits: Bits::at(first, 0),
            valid: validity.map(|slice| Bits::at(slice.address(), 0)),
            memory: all.map(|slice| slice.buffer().clone()).collect(),
            ready: Some(array.ready().clone()),
        }
    }

    pub fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    pub fn physical(&self) -> Physical {
        physical_of(self.data_type())
    }

    /// What kernels see of it, in chunks of `chunk_rows` rows.
    pub fn source(&self, chunk_rows: usize) -> abi::Source {
        let valid = self.valid.unwrap_or(Bits { address: 0, bit: 0 });
        abi::Source {
            values: self.values,
            valid: valid.address,
            rows: self.rows as u64,
            valid_at: valid.bit,
            stride: 1,
            chunk_vectors: (chunk_rows / VECTOR) as u32,
            order: abi::UNSIGNED,
        }
    }
}
