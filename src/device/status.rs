//! Status words: what kernels find wrong with the chunks of a column.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gpu::fault::Fault;
use crate::gpu::{DeviceBuffer, Stream};

/// Status words to which kernels report chunks by their numbers.
pub(crate) fn status_words(stream: &Arc<dyn Stream>, count: usize) -> Result<DeviceBuffer> {
    let words = stream.allocate(8 * count)?;
    stream.fill(&words, 0, 8 * count, 0xff)?;
    Ok(words)
}

/// Waits for one of some status words.
///
/// # Errors
/// [`Error::Corrupt`] for the first chunk that is damaged, [`Error::Device`].
pub(crate) fn check_status(
    stream: &Arc<dyn Stream>,
    words: &DeviceBuffer,
    at: usize,
) -> Result<()> {
    let mut bytes = [0; 8];
    stream.download(words, 8 * at, &mut bytes)?;
    match u64::from_le_bytes(bytes) {
        u64::MAX => Ok(()),
        found => {
            let error = Error::corrupt(Fault::message(found as u32));
            Err(error.in_chunk((found >> 32) as usize))
        }
    }
}
