//! What the driver says when something fails, as errors of this crate.

use std::fmt;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::CUresult;

use crate::error::{Error, Result};

/// A version of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// There is no device that can be used, and why.
pub(super) fn no_device(what: impl Into<String>) -> Error {
    Error::NoDevice { what: what.into() }
}

/// What the driver says of an error: its words, its name, and whether anything still works.
pub(super) fn reason(error: DriverError) -> String {
    use CUresult::*;
    let words = match error.error_string() {
        Ok(words) => words.to_string_lossy().into_owned(),
        Err(_) => "unknown error".to_owned(),
    };
    // These leave the context in a state in which every later call fails.
    let lost = matches!(
        error.0,
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
    );
    let lost = if lost {
        "; the context is lost, this process cannot use the device any more"
    } else {
        ""
    };
    format!("{words} ({:?}){lost}", error.0)
}

/// Names what failed.
pub(super) trait During<T> {
    fn during(self, what: &str) -> Result<T>;
}

impl<T> During<T> for Result<T, DriverError> {
    fn during(self, what: &str) -> Result<T> {
        self.map_err(|error| Error::device(format!("{what}: {}", reason(error))))
    }
}
