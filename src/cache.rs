//! The folder in which processes keep things for the next ones: compiled kernels, rates of the machine.

use std::env;
use std::path::PathBuf;

/// `LANEPACK_CACHE_DIR`, or `lanepack` in `XDG_CACHE_HOME` or in `~/.cache`; none if no variable says.
pub(crate) fn folder() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("LANEPACK_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("lanepack")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache").join("lanepack")))
}
