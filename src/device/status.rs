//! Status words: what kernels find wrong with the chunks of a column.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::gpu::fault::Fault;
use crate::gpu::{DeviceBuffer, DevicePtr, Stream};

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
    check_word(u64::from_le_bytes(bytes))
}

fn check_word(word: u64) -> Result<()> {
    match word {
        u64::MAX => Ok(()),
        found => {
            let error = Error::corrupt(Fault::message(found as u32));
            Err(error.in_chunk((found >> 32) as usize))
        }
    }
}

/// The status words of a launch, which are copied to the host once: with its results where these lie in
/// the same buffer.
#[derive(Debug)]
pub(crate) struct StatusWords {
    buffer: Arc<DeviceBuffer>,
    at: usize,
    count: usize,
    read: OnceLock<Vec<u64>>,
}

impl StatusWords {
    /// Words in a buffer of their own.
    pub fn new(stream: &Arc<dyn Stream>, count: usize) -> Result<Self> {
        Self::within(stream, &Arc::new(stream.allocate(8 * count)?), 0, count)
    }

    /// Words in a buffer, from byte `at` on.
    pub fn within(
        stream: &Arc<dyn Stream>,
        buffer: &Arc<DeviceBuffer>,
        at: usize,
        count: usize,
    ) -> Result<Self> {
        if count > 0 {
            stream.fill(buffer, at, 8 * count, 0xff)?;
        }
        Ok(Self { buffer: buffer.clone(), at, count, read: OnceLock::new() })
    }

    pub fn buffer(&self) -> &DeviceBuffer {
        &self.buffer
    }

    pub fn pointer(&self) -> DevicePtr<u64> {
        self.buffer.pointer_at(self.at)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the words, which have been copied with the results.
    pub fn set(&self, words: &[u64]) {
        assert_eq!(words.len(), self.count, "all status words");
        // If they had been read before, they were the same.
        self.read.get_or_init(|| words.to_vec());
    }

    /// Waits for the kernels, unless the words are known, and looks at one of them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for the first chunk that is damaged, [`Error::Device`].
    pub fn check(&self, stream: &Arc<dyn Stream>, word: usize) -> Result<()> {
        if self.read.get().is_none() {
            let mut words = vec![0_u64; self.count];
            stream.download(&self.buffer, self.at, bytemuck::cast_slice_mut(&mut words))?;
            self.set(&words);
        }
        check_word(self.read.get().expect("read above")[word])
    }
}
