//! What the arguments of a launch point to, copied to the device in one piece.

use std::sync::Arc;

use bytemuck::Pod;

use crate::error::Result;
use crate::gpu::{DeviceBuffer, Stream};

/// What arguments point to, one behind the other, each at a multiple of 64 bytes.
#[derive(Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
}

impl Parameters {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the values stand.
    pub fn push<T: Pod>(&mut self, values: &[T]) -> u64 {
        let at = self.reserve(size_of_val(values));
        self.fill(at, values);
        at
    }

    /// Room for so many bytes, zeros for now.
    pub fn reserve(&mut self, len: usize) -> u64 {
        let at = self.bytes.len();
        self.bytes.resize((at + len).next_multiple_of(64), 0);
        at as u64
    }

    /// Puts values where there is room.
    pub fn fill<T: Pod>(&mut self, at: u64, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Memory for them, whose address some may need to know.
    pub fn allocate(&self, stream: &Arc<dyn Stream>) -> Result<DeviceBuffer> {
        stream.allocate(self.bytes.len())
    }

    pub fn copy_to(&self, stream: &Arc<dyn Stream>, buffer: &DeviceBuffer) -> Result<()> {
        stream.upload(&self.bytes, buffer, 0)
    }

    pub fn upload(&self, stream: &Arc<dyn Stream>) -> Result<DeviceBuffer> {
        let buffer = self.allocate(stream)?;
        self.copy_to(stream, &buffer)?;
        Ok(buffer)
    }
}
