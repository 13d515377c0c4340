//! Gcd: what the values of chunks have in common, and their quotients, which are words as others
//! (`kernels/encode_gcd.cu`).

use super::{Derived, Measurement};
use crate::chunk::EncodedNode;
use crate::encode::asked::Asked;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::tree::{Look, Plans, Tree};
use crate::encode::words::Words;
use crate::encode::write::{Job, Part};
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Estimate, Physical, gcd};
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
    pub fn scratch_bytes(asked: Asked, chunks: usize) -> usize {
        if asked.has(Encoding::Gcd) { chunks * 8 } else { 0 }
    }

    /// Starts looking for them, in words of `value` bytes.
    pub fn find(
        launcher: &mut Launcher<'_>,
        source: Source,
        value: usize,
        chunks: usize,
        asked: Asked,
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

    /// Whether none have been read.
    pub fn is_empty(&self) -> bool {
        self.divisors.is_empty()
    }

    /// What a sample of a chunk's values can be divided by; 0 or 1 if nothing.
    pub fn of(&self, chunk: usize) -> u64 {
        self.divisors.get(chunk).copied().unwrap_or(0)
    }
}

/// The divisor of a chunk whose quotients may be less than `limit` bytes.
pub(super) fn promised(words: &Words, chunk: usize, limit: usize) -> Option<u64> {
    let divisor = words.divisor(chunk);
    Some(divisor).filter(|divisor| gcd::may_pay(*divisor, words.rows(chunk), limit))
}

impl Tree {
    /// Adds the estimates of quotients, where they may be the least.
    pub(in crate::encode) fn plan_quotients(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let divisor = |look: &Option<Look>| look.as_ref().and_then(|look| look.promises.divisor);
        let divisors: Vec<u64> = looks.iter().map(|look| divisor(look).unwrap_or(0)).collect();
        if divisors.iter().all(|divisor| *divisor == 0) {
            return Ok(());
        }
        let below = context.below();
        let (mut quotients, derived) =
            Quotients::start(launcher, self.words(number), divisors, &below)?;
        let child = self.add(derived);
        self.words_mut(child).read(launcher)?;
        quotients.read(launcher)?;
        let chunks: Vec<usize> = quotients.chunks().collect();
        self.derive(number, Encoding::Gcd, quotients, &[child]);
        let estimate = |_, children, _| Estimate { children, ..Estimate::of([]) };
        let children = [(child, Plans::NONE)];
        self.add_estimates((Encoding::Gcd, chunks), estimate, children, &below, looks);
        Ok(())
    }
}

/// Chunks of words that have been divided.
struct Quotients {
    /// Of each chunk; 0 of those that have none.
    divisors: Vec<u64>,
    /// For each chunk whether a value is no multiple.
    misfits: Pending<u32>,
}

impl Quotients {
    /// Starts dividing chunks by what is not 0, and measuring the quotients.
    ///
    /// Scratch: as much as the words.
    fn start(
        launcher: &mut Launcher<'_>,
        words: &Words,
        divisors: Vec<u64>,
        context: &Context<'_>,
    ) -> Result<(Self, Words)> {
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
        let asked = Asked::by(context, physical).without(Encoding::Gcd).without_sample();
        let derived = Words::derived(launcher, physical, derived, rows, asked)?;
        Ok((Self { divisors, misfits }, derived))
    }

    /// Waits, and drops chunks that have values that are no multiples.
    fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        let misfits = launcher.read(&self.misfits)?;
        for (divisor, misfit) in self.divisors.iter_mut().zip(misfits) {
            *divisor *= u64::from(misfit == 0);
        }
        Ok(())
    }

    /// The chunks.
    fn chunks(&self) -> impl Iterator<Item = usize> {
        (0..self.divisors.len()).filter(|chunk| self.divisors[*chunk] > 0)
    }
}

impl Derived for Quotients {
    fn fill(
        &self,
        words: &Words,
        chunk: usize,
        _: &Plan,
        _: &dyn Fn(usize) -> Part,
        node: &mut EncodedNode<Part>,
    ) -> Result<()> {
        let [offset, _] = words.bounds(chunk).unwrap_or_default();
        node.parameters = [self.divisors[chunk], offset];
        Ok(())
    }

    fn write(&self, _: &mut Launcher<'_>, _: &Words, _: &[Job]) -> Result<()> {
        Err(Error::device("buffers of quotients"))
    }
}
