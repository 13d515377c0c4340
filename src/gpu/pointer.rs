//! Device addresses.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

/// The address of values of type `T` in device memory: `T*` or `const T*` in a kernel's source.
///
/// A number that only kernels read through. Null by default; arithmetic does not check that the
/// memory is there.
///
/// ```
/// use lanepack::DevicePtr;
///
/// let third = DevicePtr::<u32>::from_address(0x1000).add(3);
/// assert_eq!(third.address(), 0x100c);
/// assert!(DevicePtr::<u64>::NULL.is_null());
/// ```
#[repr(transparent)]
pub struct DevicePtr<T> {
    address: u64,
    // No value of `T` is owned or borrowed.
    of: PhantomData<fn() -> T>,
}

impl<T> DevicePtr<T> {
    /// The address 0, where nothing is stored.
    pub const NULL: Self = Self::from_address(0);

    /// The pointer to an address.
    pub const fn from_address(address: u64) -> Self {
        Self { address, of: PhantomData }
    }

    /// The address.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Whether this is the address 0.
    pub const fn is_null(self) -> bool {
        self.address == 0
    }

    /// The same address of values of another type.
    pub const fn cast<U>(self) -> DevicePtr<U> {
        DevicePtr::from_address(self.address)
    }

    /// The address `count` values further on.
    pub const fn add(self, count: usize) -> Self {
        self.byte_add(count * size_of::<T>())
    }

    /// How many bytes this is behind `start`, which is not behind it.
    pub(crate) const fn bytes_from(self, start: Self) -> usize {
        (self.address - start.address) as usize
    }

    /// The address `bytes` bytes further on.
    pub const fn byte_add(self, bytes: usize) -> Self {
        Self::from_address(self.address + bytes as u64)
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> Default for DevicePtr<T> {
    fn default() -> Self {
        Self::NULL
    }
}

impl<T> PartialEq for DevicePtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for DevicePtr<T> {}

impl<T> Hash for DevicePtr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}

impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

// SAFETY: a `u64` beside a field without bytes; all zeros are the address 0.
unsafe impl<T> Zeroable for DevicePtr<T> {}

// SAFETY: a `u64` beside a field without bytes (`repr(transparent)`), so that there is no padding and
// every pattern of bits is a value; it is never dereferenced by the host.
unsafe impl<T: 'static> Pod for DevicePtr<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_values_or_bytes() {
        let pointer = DevicePtr::<[u32; 2]>::from_address(64);
        assert_eq!(pointer.add(2).address(), 80);
        assert_eq!(pointer.byte_add(2).address(), 66);
        assert_eq!(pointer.cast::<u8>().add(2).address(), 66);
        assert_eq!(DevicePtr::<u8>::default(), DevicePtr::NULL);
        assert_eq!(format!("{:?}", pointer), "0x40");
    }
}
