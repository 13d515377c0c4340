//! What a column's first scan makes for later ones: device node lists, dictionaries, and what the host
//! has to know of strings.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::check_decodable;
use super::codes::StringCodes;
use super::nodes::{
    ColumnNodes, KernelNodes, ReadBy, Reads, StringDictionaries, ValidityNodes, ValueNodes,
};
use super::stored::StoredStrings;
use crate::column::validity_of;
use crate::device::DeviceColumn;
use crate::error::Result;
use crate::gpu::Stream;

/// Node lists of a column, and what the host knows of it.
#[derive(Debug, Default)]
struct NodeCache {
    nodes: Cached<ColumnNodes>,
    /// The same with an index of short runs, if there are some.
    nodes_by_row: Cached<ColumnNodes>,
    /// The same of the validity alone.
    nodes_of_validity: Cached<ColumnNodes>,
    kernel_nodes: Cached<KernelNodes>,
    validity: Cached<ValidityNodes>,
    dictionaries: Cached<StringDictionaries>,
    value_nodes: Cached<ValueNodes>,
    codes: Cached<Option<Arc<StringCodes>>>,
    strings: OnceLock<StoredStrings>,
    reads: OnceLock<Reads>,
    validity_column: OnceLock<DeviceColumn>,
}

/// A value that is made once, unless making it fails.
#[derive(Debug)]
struct Cached<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Cached<T> {
    fn is_made(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The value, which is made now if there is none.
    fn get_or_make(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = &*cached {
            return Ok(there.clone());
        }
        Ok(cached.insert(Arc::new(make()?)).clone())
    }
}

impl DeviceColumn {
    fn node_cache(&self) -> &NodeCache {
        self.cached()
    }

    /// The trees of the column for kernels that are compiled for them, usable on a stream.
    pub(crate) fn scan_nodes(
        &self,
        stream: &Arc<dyn Stream>,
        read: ReadBy,
    ) -> Result<Arc<ColumnNodes>> {
        let make = || ColumnNodes::new(stream, self, 0..self.chunks().len(), read);
        let cached = match read {
            ReadBy::Validity => &self.node_cache().nodes_of_validity,
            ReadBy::Row if self.reads().has_index => &self.node_cache().nodes_by_row,
            // They are there, and have all that the others have.
            ReadBy::Vector if self.node_cache().nodes_by_row.is_made() => {
                &self.node_cache().nodes_by_row
            }
            ReadBy::Vector | ReadBy::Row => &self.node_cache().nodes,
        };
        let nodes = cached.get_or_make(make)?;
        stream.wait(nodes.ready.as_ref())?;
        Ok(nodes)
    }

    /// The dictionaries of strings of the column.
    pub(crate) fn dictionary_nodes(
        &self,
        stream: &Arc<dyn Stream>,
    ) -> Result<Arc<StringDictionaries>> {
        check_decodable(self)?;
        stream.wait(self.ready())?;
        self.node_cache().dictionaries.get_or_make(|| StringDictionaries::new(stream, self))
    }

    /// What makes values of the column's strings, kept as long as the column: for users who ask for
    /// it, and where nothing has to be decoded.
    pub(crate) fn value_nodes(&self, stream: &Arc<dyn Stream>) -> Result<Arc<ValueNodes>> {
        self.node_cache().value_nodes.get_or_make(|| ValueNodes::new(stream, self, |_| true))
    }

    /// The nodes of the column for kernels that are there.
    pub(crate) fn kernel_nodes(&self, stream: &Arc<dyn Stream>) -> Result<Arc<KernelNodes>> {
        stream.wait(self.ready())?;
        self.node_cache().kernel_nodes.get_or_make(|| KernelNodes::new(stream, self))
    }

    /// A column of booleans with the nulls of this one, whose values only the CPU reads; the CPU
    /// finds them the first time.
    pub(crate) fn validity_column(&self) -> Result<&DeviceColumn> {
        let cached = &self.node_cache().validity_column;
        if let Some(column) = cached.get() {
            return Ok(column);
        }
        let column = DeviceColumn::upload(self.context(), &validity_of(&self.download()?)?)?;
        // Another thread may have been faster, with the same.
        Ok(cached.get_or_init(|| column))
    }

    /// What kernels read of the column as it is stored.
    pub(crate) fn reads(&self) -> &Reads {
        self.node_cache().reads.get_or_init(|| Reads::of(self))
    }

    /// Codes of the column's strings, usable on a stream; none if many rows are in chunks without
    /// dictionaries, or these have many values. Copies the column to the host the first time.
    pub(crate) fn string_codes(
        &self,
        stream: &Arc<dyn Stream>,
    ) -> Result<Option<Arc<StringCodes>>> {
        let make = || Ok(StringCodes::of(stream, self)?.map(Arc::new));
        let codes = self.node_cache().codes.get_or_make(make)?;
        let Some(codes) = codes.as_ref() else { return Ok(None) };
        stream.wait(codes.ready.as_ref())?;
        Ok(Some(codes.clone()))
    }

    /// The nodes of the column's validity, usable on a stream.
    pub(crate) fn scan_validity(&self, stream: &Arc<dyn Stream>) -> Result<Arc<ValidityNodes>> {
        stream.wait(self.ready())?;
        self.node_cache().validity.get_or_make(|| ValidityNodes::new(stream, self))
    }

    /// What tests of strings have to know on the host: for each chunk how its strings are stored;
    /// waits for it the first time.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the column is nested or carried as
    /// Arrow IPC, [`Error::DeviceMemory`](crate::Error::DeviceMemory),
    /// [`Error::Device`](crate::Error::Device).
    pub(crate) fn stored_strings(&self, stream: &Arc<dyn Stream>) -> Result<&StoredStrings> {
        let cached = &self.node_cache().strings;
        if let Some(stored) = cached.get() {
            return Ok(stored);
        }
        let stored = StoredStrings::read(stream, self)?;
        // Another thread may have been faster, with the same.
        Ok(cached.get_or_init(|| stored))
    }
}
