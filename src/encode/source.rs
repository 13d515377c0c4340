//! Columns to be compressed: Arrow buffers in device memory.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use crate::column::physical_of;
use crate::device::array::DeviceArray;
use crate::encoding::Physical;
use crate::gpu::abi;
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

/// Where a bitmap begins: a word of 32 bits, and a bit of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    pub start: DevicePtr<u32>,
    pub bit: u32,
}

impl Bits {
    /// The bit of row `row`, a multiple of 32, if this is that of row 0.
    pub fn at_row(self, row: usize) -> Self {
        Self { start: self.start.byte_add(row / 8), ..self }
    }

    /// The bit `bit` of the bytes from `start` on.
    pub fn at(start: DevicePtr<u8>, bit: usize) -> Self {
        let bit = (start.address() % 4) as usize * 8 + bit;
        let word = DevicePtr::<u32>::from_address(start.address() / 4 * 4);
        Self { start: word.add(bit / 32), bit: (bit % 32) as u32 }
    }
}

/// An Arrow array of fixed-width values or bits in device memory.
#[derive(Debug)]
pub(super) struct Column {
    pub field: FieldRef,
    pub rows: usize,
    /// Row 0, for values of whole bytes.
    pub values: DevicePtr<u8>,
    /// Where row 0 is, for booleans.
    pub bits: Bits,
    /// None if all rows are valid.
    pub valid: Option<Bits>,
    /// Whether memory behind the values may be read.
    pub is_padded: bool,
    /// If chunks are leaves of nested arrays, the rows of each; rows behind them are null, up to
    /// where the next chunk begins. Nulls of leaves are columns of their own.
    pub leaves: Option<Arc<[u32]>>,
    /// What the pointers lead to.
    pub memory: Vec<Arc<DeviceBuffer>>,
}

impl Column {
    /// An array that lies on the device.
    pub fn new(field: &FieldRef, array: &DeviceArray) -> Self {
        let (validity, slices) = array.slices();
        let first = slices[0].pointer();
        let all = validity.into_iter().chain(slices);
        Self {
            field: field.clone(),
            rows: array.len(),
            values: first,
            bits: Bits::at(first, 0),
            valid: validity.map(|slice| Bits::at(slice.pointer(), 0)),
            is_padded: slices[0].buffer().is_padded(),
            leaves: None,
            memory: all.map(|slice| slice.buffer().clone()).collect(),
        }
    }

    /// Booleans from bit `bit` of `start` on.
    pub fn of_bits(
        memory: &Arc<DeviceBuffer>,
        start: DevicePtr<u8>,
        bit: usize,
        rows: usize,
    ) -> Self {
        let field = Arc::new(Field::new("", DataType::Boolean, false));
        let bits = Bits::at(start, bit);
        let memory = vec![memory.clone()];
        Self {
            field,
            rows,
            values: DevicePtr::NULL,
            bits,
            valid: None,
            is_padded: false,
            leaves: None,
            memory,
        }
    }

    /// Nothing but the validity of rows.
    pub fn of_validity(memory: Vec<Arc<DeviceBuffer>>, valid: Bits, rows: usize) -> Self {
        let field = Arc::new(Field::new("", DataType::Null, true));
        let bits = Bits { start: DevicePtr::NULL, bit: 0 };
        Self {
            field,
            rows,
            values: DevicePtr::NULL,
            bits,
            valid: Some(valid),
            is_padded: false,
            leaves: None,
            memory,
        }
    }

    /// Rows `start` to `start` + `rows`; `start` is a multiple of 1,024.
    pub fn slice(&self, start: usize, rows: usize) -> Self {
        debug_assert!(start.is_multiple_of(VECTOR) && self.leaves.is_none());
        let bytes = start * self.physical().bits().unwrap_or(0) / 8;
        let bits = |bits: Bits| bits.at_row(start);
        Self {
            field: self.field.clone(),
            rows,
            values: self.values.add(bytes),
            bits: bits(self.bits),
            valid: self.valid.map(bits),
            is_padded: self.is_padded,
            leaves: None,
            memory: self.memory.clone(),
        }
    }

    /// Rows of a chunk, if chunks begin at multiples of so many.
    pub fn rows_of(&self, chunk: usize, chunk_rows: usize) -> usize {
        match &self.leaves {
            Some(leaves) => leaves[chunk] as usize,
            None => (self.rows - chunk * chunk_rows).min(chunk_rows),
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
        let valid = self.valid.unwrap_or(Bits { start: DevicePtr::NULL, bit: 0 });
        abi::Source {
            values: self.values,
            valid: valid.start,
            rows: self.rows as u64,
            valid_at: valid.bit,
            stride: 1,
            chunk_vectors: (chunk_rows / VECTOR) as u32,
            order: abi::UNSIGNED,
            chunk_rows: DevicePtr::NULL,
        }
    }
}
