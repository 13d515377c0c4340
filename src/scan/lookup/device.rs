//! Lookups in the memory of a device, for kernels of queries (`kernels/lanepack/lookup.cuh`).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::keys::{Parts, PartsForm};
use super::{Numbers, Table};
use crate::device::Context;
use crate::error::Result;
use crate::gpu::abi::{DenseKeys, HashedKeys, ProbeArguments};
use crate::gpu::{DeviceBuffer, DevicePtr, Event, Stream};
use crate::ranges::Key;

/// The tables of a lookup in the memory of devices, each made when it is first asked for.
#[derive(Default)]
pub(crate) struct DeviceTables(Mutex<Vec<(Weak<Context>, Arc<DeviceTable>)>>);

/// The table of a lookup in the memory of a device.
pub(crate) struct DeviceTable {
    keys: Keys,
    /// Bytes of an entry; 0 if there are none.
    pub entry_bytes: usize,
    pub buffers: Vec<Arc<DeviceBuffer>>,
    ready: Arc<dyn Event>,
    /// Of columns that are computed with their numbers by code.
    numbers: Mutex<Vec<(usize, NumbersByCode)>>,
}

enum Keys {
    Dense(DenseKeys),
    Hashed(HashedKeys),
}

/// The numbers of a column of a lookup by code.
#[derive(Clone)]
pub(crate) struct NumbersByCode {
    pub buffer: Arc<DeviceBuffer>,
    /// Their type in a kernel's source.
    pub of: &'static str,
}

impl fmt::Debug for DeviceTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTables").finish_non_exhaustive()
    }
}

impl DeviceTables {
    /// One that a device has made.
    pub fn with(context: &Arc<Context>, table: DeviceTable) -> Self {
        Self(Mutex::new(vec![(Arc::downgrade(context), Arc::new(table))]))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Weak<Context>, Arc<DeviceTable>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The table in the memory of a device, where it is copied to when it is first asked for; work given
    /// to the stream from now on may use it.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
    pub fn on_device(
        &self,
        context: &Arc<Context>,
        stream: &Arc<dyn Stream>,
    ) -> Result<Arc<DeviceTable>> {
        let mut tables = self.on_devices.lock();
        tables.retain(|(of, _)| of.strong_count() > 0);
        let known = tables.iter().find(|(of, _)| of.as_ptr() == Arc::as_ptr(context));
        if let Some((_, table)) = known {
            stream.wait(table.ready.as_ref())?;
            return Ok(table.clone());
        }
        let table = Arc::new(DeviceTable::new(&self.keys.table()?.parts(), stream)?);
        tables.push((Arc::downgrade(context), table.clone()));
        Ok(table)
    }
}

impl DeviceTable {
    fn new(parts: &Parts<'_>, stream: &Arc<dyn Stream>) -> Result<Self> {
        let mut buffers = Vec::new();
        let mut upload = |bytes: &[u8]| -> Result<DevicePtr<u8>> {
            let buffer = Arc::new(stream.allocate(bytes.len())?);
            stream.upload(bytes, &buffer, 0)?;
            buffers.push(buffer);
            Ok(buffers[buffers.len() - 1].pointer())
        };
        let entries = upload(parts.entries)?;
        let keys = match parts.form {
            PartsForm::Dense { least, span, bits } => Keys::Dense(DenseKeys {
                bits: upload(bytemuck::cast_slice(bits))?.cast(),
                entries,
                least: least as u64,
                span,
            }),
            PartsForm::Hashed { slots, empty, shift, seed } => Keys::Hashed(HashedKeys {
                slots: upload(bytemuck::cast_slice(slots))?.cast(),
                entries,
                empty: empty as u64,
                seed,
                mask: slots.len() as u64 - 1,
                shift: shift.into(),
            }),
        };
        let (ready, numbers) = (stream.record()?, Mutex::default());
        Ok(Self { keys, entry_bytes: parts.entry_bytes, buffers, ready, numbers })
    }

    /// A table of keys that are close together.
    pub fn of_dense(
        keys: DenseKeys,
        entry_bytes: usize,
        buffers: Vec<Arc<DeviceBuffer>>,
        ready: Arc<dyn Event>,
    ) -> Self {
        Self { keys: Keys::Dense(keys), entry_bytes, buffers, ready, numbers: Mutex::default() }
    }

    /// The keys as words of a kernel's literals.
    pub fn words(&self) -> &[u64] {
        match &self.keys {
            Keys::Dense(keys) => bytemuck::cast_slice(std::slice::from_ref(keys)),
            Keys::Hashed(keys) => bytemuck::cast_slice(std::slice::from_ref(keys)),
        }
    }

    /// Bytes that are read to know which keys there are.
    pub fn key_bytes(&self) -> usize {
        match &self.keys {
            Keys::Dense(keys) => usize::try_from(keys.span / 8).unwrap_or(usize::MAX),
            Keys::Hashed(keys) => usize::try_from(8 * (keys.mask + 1)).unwrap_or(usize::MAX),
        }
    }

    /// Arguments of `probe_keys` that have the keys alone.
    pub fn probe_arguments(&self) -> ProbeArguments {
        match self.keys {
            Keys::Dense(dense) => ProbeArguments { dense, ..Default::default() },
            Keys::Hashed(hashed) => ProbeArguments { hashed, is_hashed: 1, ..Default::default() },
        }
    }

    /// The type in a kernel's source that looks up keys of a type, given the least and the greatest of
    /// the table.
    pub fn class(&self, key: Key, bounds: Option<(i64, i64)>) -> &'static str {
        let fits = |end: i64| key.of_integer(end.into()).is_some();
        match &self.keys {
            Keys::Hashed(_) => "HashedLookup",
            Keys::Dense(keys)
                if key.bits <= 32
                    && keys.span <= u32::MAX.into()
                    && bounds.is_none_or(|(least, greatest)| fits(least) && fits(greatest)) =>
            {
                "DenseLookup<u32>"
            }
            Keys::Dense(_) => "DenseLookup<u64>",
        }
    }

    /// The numbers of column `column` of its lookup, which are Float32 if `is_float`; copied when they are
    /// first asked for.
    pub fn numbers(
        &self,
        column: usize,
        (numbers, is_float): (&Numbers, bool),
        stream: &Arc<dyn Stream>,
    ) -> Result<NumbersByCode> {
        let mut all = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(of, _)| *of == column) {
            return Ok(known.clone());
        }
        let (of, bytes): (_, Vec<u8>) = match numbers {
            // Devices change NaN where they convert it.
            Numbers::Floats(values) if is_float => {
                let floats: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                ("float", bytemuck::cast_slice(&floats).to_vec())
            }
            Numbers::Floats(values) => ("double", bytemuck::cast_slice(values).to_vec()),
            Numbers::Integers(values) => {
                let narrow: Option<Vec<i64>> =
                    values.iter().map(|value| i64::try_from(*value).ok()).collect();
                match narrow {
                    Some(values) => ("i64", bytemuck::cast_slice(&values).to_vec()),
                    None => ("i128", values.iter().flat_map(|value| value.to_le_bytes()).collect()),
                }
            }
        };
        let buffer = Arc::new(stream.allocate(bytes.len())?);
        stream.upload(&bytes, &buffer, 0)?;
        // Other streams may use them from now on.
        stream.synchronize()?;
        let numbers = NumbersByCode { buffer, of };
        all.push((column, numbers.clone()));
        Ok(numbers)
    }
}
