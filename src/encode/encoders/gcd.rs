//! Gcd: what the values of chunks have in common, and their quotients, which are words as others
//! (`kernels/encode_gcd.cu`).

use super::{DerivedChunks, Deriver, Measurement};
use crate::chunk::EncodedNode;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::measurements::Measurements;
use crate::encode::words::Words;
use crate::encode::write::{Job, PendingBuffer};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Physical, gcd};
use crate::error::{Error, Result};
use crate::gpu::abi::{Arguments, DivisorArguments, Header, Source, UNSIGNED, constant};
use crate::gpu::kernels::{Kernel, chunk, vectors};
use crate::lanes::VECTOR;

const SOURCE: &Header = &Header::read(include_str!("../../../kernels/encode_gcd.cu"));

/// Blocks count chunks.
const DIVISOR: [Kernel<DivisorArguments>; 2] =
    [chunk("divisor_32", "SAMPLE_THREADS"), chunk("divisor_64", "SAMPLE_THREADS")];
/// Blocks count vectors.
const fn quotients<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, constant(SOURCE, "QUOTIENTS_THREADS") as u32, 32)
}
const QUOTIENTS: [Kernel<DivisorArguments>; 2] =
    [quotients("quotients_32"), quotients("quotients_64")];

pub(super) const MEASUREMENT: Measurement = Measurement {
    encoding: Encoding::Gcd,
    suits: |physical| physical.is_integer() && matches!(physical.bits(), Some(32 | 64)),
    has_children: true,
    // 0 and 1 have no divisor.
    suits_codes: false,
};

/// What samples of chunks can be divided by, if that is asked for.
#[derive(Default)]
pub(in crate::encode) struct Divisors {
    pending: Option<Pending<u64>>,
    /// For each chunk, once they have been read.
    divisors: Vec<u64>,
}

impl Divisors {
    /// Bytes of scratch that finding them needs.
    pub fn scratch_bytes(asked: Measurements, chunks: usize) -> usize {
        if asked.has(Encoding::Gcd) { chunks * 8 } else { 0 }
    }

    /// Starts looking for them, in words of `value` bytes.
    pub fn find(
        launcher: &mut Launcher<'_>,
        source: Source,
        value: usize,
        chunks: usize,
        asked: Measurements,
    ) -> Result<Self> {
        if !asked.has(Encoding::Gcd) {
            return Ok(Self::default());
        }
        let scratch = launcher.allocate(chunks * 8)?;
        let divisors = scratch.pointer();
        let arguments = DivisorArguments { source, divisors, ..Default::default() };
        launcher.launch(DIVISOR[usize::from(value == 8)], chunks, &arguments)?;
        let pending = Some(launcher.result(&scratch, 0, chunks)?);
        Ok(Self { pending, divisors: Vec::new() })
    }

    /// Waits for them.
    pub fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        if let Some(pending) = self.pending.take() {
            self.divisors = launcher.read(&pending)?;
        }
        Ok(())
    }

    /// What a sample of a chunk's values can be divided by; 0 or 1 if nothing.
    pub fn of(&self, chunk: usize) -> u64 {
        self.divisors.get(chunk).copied().unwrap_or(0)
    }
}

pub(super) struct Gcd;

impl Deriver for Gcd {
    fn encoding(&self) -> Encoding {
        Encoding::Gcd
    }

    fn below<'a>(&self, context: &Context<'a>) -> Context<'a> {
        context.below()
    }

    /// The argument is the divisor.
    fn search(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        asked: &[(usize, u64)],
        below: &Context<'_>,
    ) -> Result<Box<dyn DerivedChunks>> {
        let mut divisors = vec![0; words.chunks()];
        asked.iter().for_each(|(chunk, divisor)| divisors[*chunk] = *divisor);
        Ok(Box::new(Quotients::find(launcher, words, divisors, below)?))
    }
}

/// Chunks of words that have been divided.
struct Quotients {
    /// Of each chunk; 0 of those that are not divided.
    divisors: Vec<u64>,
    /// For each chunk whether a value is no multiple.
    misfits: Vec<u32>,
    /// The quotients, which are being measured, until they are asked for.
    quotients: Option<Words>,
}

impl Quotients {
    /// Divides chunks by what is not 0, and starts measuring the quotients.
    ///
    /// Scratch: as much as the words.
    fn find(
        launcher: &mut Launcher<'_>,
        words: &Words,
        divisors: Vec<u64>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let source = *words.source();
        let quotients = launcher.allocate(source.rows as usize * words.value())?.pointer();
        let bytes = divisors.len() * 4;
        let misfits = launcher.allocate(bytes)?;
        launcher.stream.fill(&misfits, 0, bytes, 0)?;
        let arguments = DivisorArguments {
            source,
            divisors: launcher.upload(&divisors)?,
            totals: words.totals(),
            quotients,
            misfits: misfits.pointer(),
        };
        let kernel = QUOTIENTS[usize::from(words.value() == 8)];
        let vectors = (source.rows as usize).div_ceil(VECTOR);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        let misfits = launcher.result(&misfits, 0, divisors.len())?;
        let rows = |(chunk, divisor): (usize, &u64)| match divisor {
            0 => 0,
            _ => words.rows(chunk) as u32,
        };
        let rows = divisors.iter().enumerate().map(rows).collect();
        let physical: Physical = gcd::unsigned(words.physical());
        let derived = Source { values: quotients, order: UNSIGNED, stride: 1, ..source };
        // Nothing else is derived from quotients.
        let asked = Measurements::by(context, physical).without(Encoding::Gcd).without_sample();
        let quotients = Some(Words::derived(launcher, physical, derived, rows, asked)?);
        Ok(Self { divisors, misfits: launcher.read(&misfits)?, quotients })
    }
}

impl DerivedChunks for Quotients {
    fn found(&self, chunk: usize) -> Option<Option<usize>> {
        let is_divided = self.divisors[chunk] > 0;
        is_divided.then(|| (self.misfits[chunk] == 0).then_some(1))
    }

    fn children(
        &mut self,
        _: &mut Launcher<'_>,
        _: &Words,
        _: &[usize],
        _: &Context<'_>,
    ) -> Result<Vec<Words>> {
        Ok(self.quotients.take().into_iter().collect())
    }

    fn fill(
        &self,
        words: &Words,
        chunk: usize,
        _: &Plan,
        _: &dyn Fn(usize) -> PendingBuffer,
        node: &mut EncodedNode<PendingBuffer>,
    ) -> Result<()> {
        let [offset, _] = words.bounds(chunk).unwrap_or_default();
        node.parameters = [self.divisors[chunk], offset];
        Ok(())
    }

    fn write(&self, _: &mut Launcher<'_>, _: &Words, _: &[Job]) -> Result<()> {
        Err(Error::device("buffers of quotients"))
    }
}
