//! The crate's one error type.
//!
//! Lower layers know what is wrong, upper layers know where: an error is made
//! without a place, and gains its chunk and its column on the way up.

use std::fmt;

use arrow_schema::ArrowError;

/// Result with lanepack's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in a file or batch something was found. Any part may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Name of the file.
    pub file: Option<String>,
    /// Name of the column.
    pub column: Option<String>,
    /// Index of the chunk in the column, from 0.
    pub chunk: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "file {file:?}: ")?;
        }
        match (&self.column, self.chunk) {
            (Some(column), Some(chunk)) => write!(f, "column {column:?}, chunk {chunk}: "),
            (Some(column), None) => write!(f, "column {column:?}: "),
            (None, Some(chunk)) => write!(f, "chunk {chunk}: "),
            (None, None) => Ok(()),
        }
    }
}

/// Everything that can go wrong in lanepack.
///
/// Match on what the program can do something about; [`Error::place`] says where it was found. All
/// errors convert to and from [`ArrowError`].
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::{Error, columns};
///
/// let batch = record_batch!(("id", Int64, [1, 2, 3]))?;
/// match columns(&batch) {
///     Err(Error::NotLanepack { place, .. }) => assert_eq!(place.column.as_deref(), Some("id")),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that break a rule of the format.
    #[error("{place}corrupt data: {what}")]
    #[non_exhaustive]
    Corrupt {
        /// Where it was found.
        place: Place,
        /// The rule that is broken, with what was expected and found.
        what: String,
    },
    /// A checksum that does not match its bytes.
    #[error("{place}checksum of the {part}: expected {expected:#018x}, found {found:#018x}")]
    #[non_exhaustive]
    Checksum {
        /// Where it was found.
        place: Place,
        /// `"header"`, `"bounds"`, `"body"`, `"index"` or `"filter"`.
        part: &'static str,
        /// The checksum that is stated: by the header of a chunk, or by the index of a file.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// A format version that this build does not read.
    #[error("{place}format version {found}, this build reads version {supported}")]
    #[non_exhaustive]
    Version {
        /// Where it was found.
        place: Place,
        /// The version found.
        found: u64,
        /// The version that this build reads.
        supported: u64,
    },
    /// A file, field or array without compressed columns.
    #[error("{place}not compressed by lanepack: expected {expected}, found {found}")]
    #[non_exhaustive]
    NotLanepack {
        /// Where it was found.
        place: Place,
        /// What compressed columns have there.
        expected: String,
        /// What was there, and what reads it.
        found: String,
    },
    /// Work that lanepack does not do on such data, or not on this engine.
    #[error("{place}{what}")]
    #[non_exhaustive]
    Unsupported {
        /// Where it was found.
        place: Place,
        /// What it was, why it is not done, and what does it.
        what: String,
    },
    /// Data that do not fit the type they are asked for in.
    #[error("{place}{what}")]
    #[non_exhaustive]
    TooLarge {
        /// Where it was found.
        place: Place,
        /// What does not fit, with both sizes.
        what: String,
    },
    /// Values that would take more memory than the caller allows.
    #[error(
        "{place}values take {needed} bytes of {total} in all, the limit is {limit}; \
         `Engine::with_memory_limit` and `ipc::Reader::with_memory_limit` set another"
    )]
    #[non_exhaustive]
    MemoryLimit {
        /// The column that takes most.
        place: Place,
        /// Bytes of its values.
        needed: u64,
        /// Bytes of the values of all columns.
        total: u64,
        /// Bytes allowed, see [`Engine::with_memory_limit`](crate::Engine::with_memory_limit).
        limit: u64,
    },
    /// A row past the end of a column.
    #[error("{place}row {row} of a column of {rows} rows")]
    #[non_exhaustive]
    OutOfRange {
        /// Where it was found.
        place: Place,
        /// The row asked for.
        row: usize,
        /// The rows there are.
        rows: usize,
    },
    /// Arrays that do not fit a schema or each other.
    #[error("{place}{what}")]
    #[non_exhaustive]
    Mismatch {
        /// Where it was found.
        place: Place,
        /// What was expected and found.
        what: String,
    },
    /// A setting outside its range.
    #[error("option {name}: {what}")]
    #[non_exhaustive]
    Options {
        /// Name of the setting of [`Options`](crate::Options): that of its setter without `with_`.
        name: &'static str,
        /// What is allowed and what was given.
        what: String,
    },
    /// A chunk that did not decode to what went in ([`Options::with_verify`](crate::Options::with_verify)).
    #[error("{place}does not decode to its input; this is a bug in lanepack, please report it")]
    #[non_exhaustive]
    Verify {
        /// Where it was found.
        place: Place,
    },
    /// An expression that does not fit the columns, or cannot be computed.
    #[error("{what}")]
    #[non_exhaustive]
    Expression {
        /// What is wrong, with the expression or column it is about.
        what: String,
    },
    /// There is no GPU that can be used.
    #[error("no usable GPU: {what}")]
    #[non_exhaustive]
    NoDevice {
        /// What is missing: a driver, a device, a newer one.
        what: String,
    },
    /// Not enough memory on a device.
    #[error(
        "{place}{needed} bytes of device memory needed, {free} of {total} are free on {device}"
    )]
    #[non_exhaustive]
    DeviceMemory {
        /// What the memory was for.
        place: Place,
        /// Bytes asked for.
        needed: u64,
        /// Bytes that were free.
        free: u64,
        /// Bytes that the device has.
        total: u64,
        /// The device's name.
        device: String,
    },
    /// A call of the driver that failed, or a kernel that did.
    #[error("{place}device error: {what}")]
    #[non_exhaustive]
    Device {
        /// What it was working on.
        place: Place,
        /// What failed: the call or kernel, and what the driver said.
        what: String,
    },
    /// An error of arrow-rs.
    #[error("{place}{source}")]
    #[non_exhaustive]
    Arrow {
        /// Where it was found.
        place: Place,
        /// The error.
        source: ArrowError,
    },
    /// An error of a reader or writer.
    #[error("{place}{source}")]
    #[non_exhaustive]
    Io {
        /// What was read or written.
        place: Place,
        /// The error.
        source: std::io::Error,
    },
}

impl Error {
    /// Bytes that break the rule `what`.
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { place: Place::default(), what: what.into() }
    }

    pub(crate) fn not_lanepack(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::NotLanepack {
            place: Place::default(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// An expression that is wrong.
    pub(crate) fn expression(what: impl Into<String>) -> Self {
        Self::Expression { what: what.into() }
    }

    /// A call of the driver, or a kernel, that failed.
    pub(crate) fn device(what: impl Into<String>) -> Self {
        Self::Device { place: Place::default(), what: what.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported { place: Place::default(), what: what.into() }
    }

    pub(crate) fn too_large(what: impl Into<String>) -> Self {
        Self::TooLarge { place: Place::default(), what: what.into() }
    }

    /// The error, found in chunk `index`.
    pub(crate) fn in_chunk(mut self, index: usize) -> Self {
        if let Some(place) = self.place_mut() {
            place.chunk.get_or_insert(index);
        }
        self
    }

    /// The error, whose chunk counts from the one behind `count` others.
    pub(crate) fn after_chunks(mut self, count: usize) -> Self {
        if let Some(chunk) = self.place_mut().and_then(|place| place.chunk.as_mut()) {
            *chunk += count;
        }
        self
    }

    /// The error, whose chunk has another number.
    pub(crate) fn with_chunks(mut self, number: impl FnOnce(usize) -> usize) -> Self {
        if let Some(chunk) = self.place_mut().and_then(|place| place.chunk.as_mut()) {
            *chunk = number(*chunk);
        }
        self
    }

    /// The error, found in the column `name`.
    pub(crate) fn in_column(mut self, name: &str) -> Self {
        if let Some(place) = self.place_mut() {
            place.column.get_or_insert_with(|| name.to_owned());
        }
        self
    }

    /// The error, found in the file `name`.
    pub(crate) fn in_file(mut self, name: &str) -> Self {
        if let Some(place) = self.place_mut() {
            place.file.get_or_insert_with(|| name.to_owned());
        }
        self
    }

    /// Where the error was found; none for errors that have no place.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Corrupt { place, .. }
            | Self::Checksum { place, .. }
            | Self::Version { place, .. }
            | Self::NotLanepack { place, .. }
            | Self::Unsupported { place, .. }
            | Self::TooLarge { place, .. }
            | Self::MemoryLimit { place, .. }
            | Self::OutOfRange { place, .. }
            | Self::Mismatch { place, .. }
            | Self::Verify { place }
            | Self::DeviceMemory { place, .. }
            | Self::Device { place, .. }
            | Self::Arrow { place, .. }
            | Self::Io { place, .. } => Some(place),
            Self::Options { .. } | Self::Expression { .. } | Self::NoDevice { .. } => None,
        }
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Corrupt { place, .. }
            | Self::Checksum { place, .. }
            | Self::Version { place, .. }
            | Self::NotLanepack { place, .. }
            | Self::Unsupported { place, .. }
            | Self::TooLarge { place, .. }
            | Self::MemoryLimit { place, .. }
            | Self::OutOfRange { place, .. }
            | Self::Mismatch { place, .. }
            | Self::Verify { place }
            | Self::DeviceMemory { place, .. }
            | Self::Device { place, .. }
            | Self::Arrow { place, .. }
            | Self::Io { place, .. } => Some(place),
            Self::Options { .. } | Self::Expression { .. } | Self::NoDevice { .. } => None,
        }
    }
}

impl From<ArrowError> for Error {
    /// An error of lanepack that has passed through Arrow's comes out as it was.
    fn from(source: ArrowError) -> Self {
        let arrow = |source| Self::Arrow { place: Place::default(), source };
        match source {
            ArrowError::ExternalError(inner) => match inner.downcast::<Self>() {
                Ok(error) => *error,
                Err(inner) => arrow(ArrowError::ExternalError(inner)),
            },
            source => arrow(source),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Self {
        Self::Io { place: Place::default(), source }
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        match error {
            Error::Arrow { source, .. } => source,
            other => Self::ExternalError(Box::new(other)),
        }
    }
}

/// `Err(corrupt)` with a formatted rule unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::error::Error::corrupt(format!($($what)+)));
        }
    };
}
pub(crate) use ensure;
