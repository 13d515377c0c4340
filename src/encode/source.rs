//! Columns to be compressed: Arrow buffers in device memory.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use crate::column::physical_of;
use crate::device::array::DeviceArray;
use crate::encoding::Physical;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::encode as abi;
use crate::lanes::VECTOR;

/// Where a bitmap begins: the address of a word of 32 bits, and a bit of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    pub address: u64,
    pub bit: u32,
}

impl Bits {
    /// The bit of row `row`, a multiple of 8, if this is that of row 0.
    pub fn at_row(self, row: usize) -> Self {
        Self { address: self.address + row as u64 / 8, ..self }
    }

    /// The bit `bit` of the bytes from `address` on.
    pub fn at(address: u64, bit: usize) -> Self {
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
    /// Whether memory behind the values may be read.
    pub is_padded: bool,
    /// What the addresses lead to.
    pub memory: Vec<Arc<DeviceBuffer>>,
}

impl Column {
    /// An array that lies on the device.
    pub fn new(field: &FieldRef, array: &DeviceArray) -> Self {
        let (validity, slices) = array.slices();
        let first = slices[0].address();
        let all = validity.into_iter().chain(slices);
        Self {
            field: field.clone(),
            rows: array.len(),
            values: first,
            bits: Bits::at(first, 0),
            valid: validity.map(|slice| Bits::at(slice.address(), 0)),
            is_padded: slices[0].buffer().is_padded(),
            memory: all.map(|slice| slice.buffer().clone()).collect(),
        }
    }

    /// Booleans from bit `bit` of `address` on.
    pub fn of_bits(memory: &Arc<DeviceBuffer>, address: u64, bit: usize, rows: usize) -> Self {
        let field = Arc::new(Field::new("", DataType::Boolean, false));
        let bits = Bits::at(address, bit);
        let memory = vec![memory.clone()];
        Self { field, rows, values: 0, bits, valid: None, is_padded: false, memory }
    }

    /// Nothing but the validity of rows.
    pub fn of_validity(memory: Vec<Arc<DeviceBuffer>>, valid: Bits, rows: usize) -> Self {
        let field = Arc::new(Field::new("", DataType::Null, true));
        let bits = Bits { address: 0, bit: 0 };
        Self { field, rows, values: 0, bits, valid: Some(valid), is_padded: false, memory }
    }

    /// Rows `start` to `start` + `rows`; `start` is a multiple of 1,024.
    pub fn slice(&self, start: usize, rows: usize) -> Self {
        debug_assert!(start.is_multiple_of(VECTOR));
        let bytes = start * self.physical().bits().unwrap_or(0) / 8;
        let bits = |bits: Bits| bits.at_row(start);
        Self {
            field: self.field.clone(),
            rows,
            values: self.values + bytes as u64,
            bits: bits(self.bits),
            valid: self.valid.map(bits),
            is_padded: self.is_padded,
            memory: self.memory.clone(),
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
            chunk_rows: 0,
        }
    }
}
