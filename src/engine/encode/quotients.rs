//! The quotients of chunks whose values have a common divisor: `kernels/encode_gcd.cu`.

use super::asked::Asked;
use super::launch::{Launcher, Pending};
use super::words::Words;
use crate::encoding::gcd;
use crate::encoding::plan::Context;
use crate::error::Result;
use crate::gpu::abi::encode as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Chunks of words that have been divided.
pub(super) struct Quotients {
    /// Of each chunk; 0 of those that have none.
    divisors: Vec<u64>,
    /// For each chunk whether a value is no multiple.
    misfits: Pending<u32>,
}

impl Quotients {
    /// Starts dividing chunks by what is not 0, and measuring the quotients.
    ///
    /// Scratch: as much as the words.
    pub fn start(
        launcher: &mut Launcher<'_>,
        words: &Words,
        divisors: Vec<u64>,
        context: &Context<'_>,
    ) -> Result<(Self, Words)> {
        let source = *words.source();
        let quotients = launcher.allocate(source.rows as usize * words.value())?.address();
        let bytes = divisors.len() * 4;
        let misfits = launcher.allocate(bytes)?;
        launcher.stream.fill(&misfits, 0, bytes, 0)?;
        let arguments = abi::DivisorArguments {
            source,
            divisors: launcher.upload(&divisors)?,
            totals: words.totals(),
            quotients,
            misfits: misfits.address(),
        };
        let kernel = kernels::QUOTIENTS[usize::from(words.value() == 8)];
        let vectors = (source.rows as usize).div_ceil(VECTOR);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        let misfits = launcher.result(&misfits, 0, divisors.len())?;
        let rows = |(chunk, divisor): (usize, &u64)| match divisor {
            0 => 0,
            _ => words.rows(chunk) as u32,
        };
        let rows = divisors.iter().enumerate().map(rows).collect();
        let physical = gcd::unsigned(words.physical());
        let derived = abi::Source { values: quotients, order: abi::UNSIGNED, stride: 1, ..source };
        let asked = Asked::of_quotients(context, physical);
        let derived = Words::derived(launcher, physical, derived, rows, asked)?;
        Ok((Self { divisors, misfits }, derived))
    }

    /// Waits, and drops chunks that have values that are no multiples.
    pub fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        let misfits = launcher.read(&self.misfits)?;
        for (divisor, misfit) in self.divisors.iter_mut().zip(misfits) {
            *divisor *= u64::from(misfit == 0);
        }
        Ok(())
    }

    /// The chunks.
    pub fn chunks(&self) -> impl Iterator<Item = usize> {
        (0..self.divisors.len()).filter(|chunk| self.divisors[*chunk] > 0)
    }

    /// What a chunk has been divided by.
    pub fn divisor(&self, chunk: usize) -> u64 {
        self.divisors[chunk]
    }
}
