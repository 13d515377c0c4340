//! What the arguments of a launch point to, copied to the device in one piece.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::Result;
use crate::gpu::{DeviceBuffer, DevicePtr, Stream};

/// What arguments point to, one behind the other, each at a multiple of 64 bytes.
#[derive(Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
}

/// Where values are stored among parameters.
#[derive(Debug)]
pub(crate) struct Offset<T> {
    bytes: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Offset<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Offset<T> {}

impl<T> Offset<T> {
    /// The values, where the parameters are in a buffer.
    pub fn within(self, parameters: &DeviceBuffer) -> DevicePtr<T> {
        parameters.pointer_at(self.bytes)
    }
}

impl Parameters {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds values.
    pub fn push<T: Pod>(&mut self, values: &[T]) -> Offset<T> {
        let at = self.reserve(values.len());
        self.fill(at, values);
        at
    }

    /// Room for so many values, zeros for now.
    pub fn reserve<T: Pod>(&mut self, count: usize) -> Offset<T> {
        let bytes = self.bytes.len();
        self.bytes.resize((bytes + count * size_of::<T>()).next_multiple_of(64), 0);
        Offset { bytes, of: PhantomData }
    }

    /// Puts values where there is room.
    pub fn fill<T: Pod>(&mut self, at: Offset<T>, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.bytes[at.bytes..][..bytes.len()].copy_from_slice(bytes);
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
