//! Words of 8 to 64 bits: measured on the device, planned on the host, written by
//! the kernels of their encodings.
//!
//! Kernels measure what encodings of integers may need to know: bounds of all vectors, and of
//! those that estimates look at the window that is packed with exceptions, and the same of deltas.
//! Where a plan turns out to need them, those of the other vectors of its chunk are measured after
//! that, so that exact sizes are known, and a plan that did not keep what it promised is dropped,
//! before anything is written. Searching all vectors at once saves
//! that second step, but takes two and a half times as long as bounds alone, which is all that
//! most chunks need. What is derived from words, and promised by a sample of their rows, is the
//! business of `tree.rs`.

use std::sync::Arc;

use super::constants::{MEASURE_ALL, MEASURE_REST, MEASURE_SAMPLED};
use super::encoders::{AlpRdWords, DELTAS, Divisors, WordChunk, WordEncoder, word_encoder};
use super::launch::{Launcher, Pending};
use super::measurements::Measurements;
use super::source::Column;
use super::write::PendingBuffer;
use crate::chunk::{EncodedNode, aligned};
use crate::encoding::alp_rd::Cut;
use crate::encoding::lz::LzBytes;
use crate::encoding::plan::{self, Plan};
use crate::encoding::statistics::SAMPLED_VECTORS;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DevicePtr, abi};
use crate::lanes::VECTOR;
use crate::options::Options;

/// A column of words, or of the words of wide values, or of lengths of something else.
pub(super) struct Words {
    physical: Physical,
    source: abi::Source,
    pub asked: Measurements,
    /// Whether memory behind the values may be read.
    is_padded: bool,
    rows: usize,
    chunk_rows: usize,
    /// Rows of each chunk of words that are derived or leaves, which may have fewer.
    derived: Option<Vec<u32>>,
    scratch: Arc<DeviceBuffer>,
    pub at: Scratch,
    pending: Option<Pending<abi::ChunkTotals>>,
    pending_samples: Option<Pending<abi::SampledRows>>,
    /// For each chunk, if they are asked for.
    samples: Vec<abi::SampledRows>,
    divisors: Divisors,
    /// For each chunk; then for each chunk's deltas, if they are asked for.
    pub totals: Vec<abi::ChunkTotals>,
    /// For each chunk the encodings, as bits, for which all its vectors have been measured.
    measured: Vec<u32>,
    /// What is known of floats that may be cut.
    reals: Option<AlpRdWords>,
}

/// Where in the scratch each array begins, and its length.
///
/// For V vectors and C chunks of values of T bytes: (2 T + 4) V + 48 C bytes, with windows
/// (T + 8) V more; for deltas as much again and T V; for floats 24 V + 16 C more; for samples of
/// rows 24 C, for divisors 8 C; and each array up to 255 bytes more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scratch {
    values: Measures,
    pub deltas: Measures,
    candidates: usize,
    choices: usize,
    pub totals: usize,
    samples: usize,
    len: usize,
}

/// Those of [`abi::VectorMeasures`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measures {
    lows: usize,
    highs: usize,
    places: usize,
    bases: usize,
    patched_places: usize,
    locators: usize,
    pub starts: usize,
}

impl Scratch {
    fn new(value: usize, vectors: usize, chunks: usize, asked: Measurements) -> Self {
        let mut len = 0;
        let mut array = |is_there: bool, bytes: usize| {
            let at = len;
            len = (at + if is_there { bytes } else { 0 }).next_multiple_of(256);
            at
        };
        let [alp, patches, deltas] =
            [Encoding::Alp, Encoding::Pfor, Encoding::Delta].map(|encoding| asked.has(encoding));
        let mut measures = |is_there: bool, is_delta: bool| Measures {
            lows: array(is_there, vectors * value),
            highs: array(is_there, vectors * value),
            places: array(is_there, vectors * 4),
            bases: array(is_there && patches, vectors * value),
            patched_places: array(is_there && (patches || alp), vectors * 4),
            locators: array(is_there && (patches || alp), vectors * 4),
            starts: array(is_there && is_delta, vectors * value),
        };
        Self {
            values: measures(true, false),
            deltas: measures(deltas, true),
            candidates: array(alp, chunks * size_of::<abi::Candidates>()),
            choices: array(alp, vectors * size_of::<abi::AlpChoice>()),
            totals: array(true, (1 + usize::from(deltas)) * chunks * size_of::<abi::ChunkTotals>()),
            samples: array(asked.sample, chunks * size_of::<abi::SampledRows>()),
            len,
        }
    }
}

/// Bytes of scratch that measuring words needs.
pub(super) fn scratch_bytes(
    physical: Physical,
    rows: usize,
    chunk_rows: usize,
    asked: Measurements,
) -> usize {
    let value = physical.bits().unwrap_or(0) / 8;
    let (vectors, chunks) = (rows.div_ceil(VECTOR), rows.div_ceil(chunk_rows));
    let own = Scratch::new(value, vectors, chunks, asked).len;
    let is_cut = asked.has(Encoding::AlpRd);
    own + Divisors::scratch_bytes(asked, chunks)
        + if is_cut { AlpRdWords::scratch_bytes(rows, chunk_rows) } else { 0 }
}

impl Words {
    /// Starts measuring a column.
    pub fn measure(
        launcher: &mut Launcher<'_>,
        physical: Physical,
        source: abi::Source,
        asked: Measurements,
    ) -> Result<Self> {
        Self::start(launcher, physical, source, None, asked)
    }

    /// Starts measuring words of a column: its values or parts of them.
    pub fn of_column(
        launcher: &mut Launcher<'_>,
        column: &Column,
        physical: Physical,
        source: abi::Source,
        asked: Measurements,
    ) -> Result<Self> {
        match &column.leaves {
            Some(rows) => Self::derived(launcher, physical, source, rows.to_vec(), asked),
            None => Self::measure(launcher, physical, source, asked),
        }
    }

    /// The same words, in memory that is padded or not.
    pub fn in_memory(self, is_padded: bool) -> Self {
        Self { is_padded, ..self }
    }

    /// Starts measuring words that do not fill their chunks, so many of each: derived from others, or
    /// leaves.
    pub fn derived(
        launcher: &mut Launcher<'_>,
        physical: Physical,
        source: abi::Source,
        chunk_rows: Vec<u32>,
        asked: Measurements,
    ) -> Result<Self> {
        let source = abi::Source { chunk_rows: launcher.upload(&chunk_rows)?, ..source };
        Self::start(launcher, physical, source, Some(chunk_rows), asked)
    }

    fn start(
        launcher: &mut Launcher<'_>,
        physical: Physical,
        source: abi::Source,
        derived: Option<Vec<u32>>,
        asked: Measurements,
    ) -> Result<Self> {
        let rows = source.rows as usize;
        let chunk_rows = source.chunk_vectors as usize * VECTOR;
        let (vectors, chunks) = (rows.div_ceil(VECTOR), rows.div_ceil(chunk_rows));
        let value = physical.bits().unwrap_or(0) / 8;
        let at = Scratch::new(value, vectors, chunks, asked);
        let scratch = launcher.allocate(at.len)?;
        let mut words = Self {
            physical,
            source,
            asked,
            is_padded: false,
            rows,
            chunk_rows,
            derived,
            scratch,
            at,
            pending: None,
            pending_samples: None,
            samples: Vec::new(),
            divisors: Divisors::default(),
            totals: Vec::new(),
            measured: Vec::new(),
            reals: None,
        };
        let is_measured = |chunk: usize| match asked.whole {
            true => u32::MAX,
            false => words.measured_at_first(chunk),
        };
        words.measured = (0..chunks).map(is_measured).collect();
        if asked.has(Encoding::Alp) {
            let arguments = words.alp_arguments(DevicePtr::NULL, 0);
            let is_wide = usize::from(value == 8);
            launcher.launch(kernels::ALP_CANDIDATES[is_wide], chunks, &arguments)?;
            let choose = kernels::ALP_CHOOSE[is_wide];
            launcher.launch(choose, vectors.div_ceil(choose.block), &arguments)?;
            launcher.launch(kernels::ALP_LAYOUT[is_wide], chunks, &arguments)?;
        } else {
            let is_whole = asked.whole || chunk_rows <= SAMPLED_VECTORS * VECTOR;
            let which = if is_whole { MEASURE_ALL } else { MEASURE_SAMPLED };
            words.launch_measure(launcher, which, &[])?;
        }
        if asked.sample {
            let arguments = abi::SampleArguments { source, chunks: words.pointer(at.samples) };
            launcher.launch(words.by_width(kernels::SAMPLE), chunks, &arguments)?;
            words.pending_samples = Some(launcher.result(&words.scratch, at.samples, chunks)?);
        }
        words.divisors = Divisors::find(launcher, source, value, chunks, asked)?;
        if asked.has(Encoding::AlpRd) {
            let alp = if asked.has(Encoding::Alp) { words.totals() } else { DevicePtr::NULL };
            words.reals = Some(AlpRdWords::measure(launcher, physical, source, alp)?);
        }
        words.pending = Some(words.result(launcher)?);
        Ok(words)
    }

    /// What is known of a chunk's vectors after those that estimates look at.
    fn measured_at_first(&self, chunk: usize) -> u32 {
        match self.vectors(chunk) <= SAMPLED_VECTORS {
            true => u32::MAX,
            false => 0,
        }
    }

    /// What a node of a chunk needs that has not been measured of all vectors.
    pub fn lacks(&self, chunk: usize, encoding: Encoding) -> u32 {
        let needs_all = word_encoder(encoding).is_some_and(WordEncoder::needs_all_vectors);
        let needs = if needs_all { abi::encoding_bit(encoding as u16) } else { 0 };
        needs & !self.measured[chunk]
    }

    /// Starts measuring the other vectors of some chunks: for each what it lacks.
    pub fn measure_rest(
        &mut self,
        launcher: &mut Launcher<'_>,
        asked: &[abi::AskedChunk],
    ) -> Result<()> {
        self.launch_measure(launcher, MEASURE_REST, asked)?;
        for one in asked {
            self.measured[one.chunk as usize] |= one.asked;
        }
        self.pending = Some(self.result(launcher)?);
        Ok(())
    }

    /// Starts measuring vectors of some chunks, of all if none are named.
    fn launch_measure(
        &self,
        launcher: &mut Launcher<'_>,
        which: u32,
        asked: &[abi::AskedChunk],
    ) -> Result<()> {
        let source = self.source;
        let is_first = asked.is_empty();
        let chunks = if is_first { DevicePtr::NULL } else { launcher.upload(asked)? };
        let count = if is_first { self.chunks() } else { asked.len() };
        let vectors = match which {
            MEASURE_SAMPLED => SAMPLED_VECTORS,
            _ => source.chunk_vectors as usize,
        };
        let blocks_per_chunk = vectors.div_ceil(kernels::WINDOWS[0].block);
        let measure = abi::MeasureArguments {
            source,
            of: self.measures(),
            chunks,
            blocks_per_chunk: blocks_per_chunk as u32,
            which,
        };
        let has_windows = self.asked.has(Encoding::Pfor);
        // All vectors have bounds, which a search for windows finds, too.
        if is_first && !(has_windows && which == MEASURE_ALL) {
            let kernel = self.by_width(kernels::BOUNDS);
            launcher.launch(kernel, self.rows.div_ceil(VECTOR).div_ceil(kernel.block), &measure)?;
        }
        let mut search = |kernels: kernels::ByWidth<_>,
                          encoding: Encoding,
                          of: abi::VectorMeasures| {
            let what = abi::encoding_bit(encoding as u16);
            if !is_first && asked.iter().all(|chunk| chunk.asked & what == 0) {
                return Ok(());
            }
            if self.asked.has(encoding) {
                let arguments = abi::MeasureArguments { of, ..measure };
                launcher.launch(self.by_width(kernels), count * blocks_per_chunk, &arguments)?;
            }
            let layout = abi::LayoutArguments { source, of, chunks, which, what };
            launcher.launch(self.by_width(kernels::LAYOUT), count, &layout)
        };
        search(kernels::WINDOWS, Encoding::Pfor, self.measures())?;
        if self.asked.has(Encoding::Delta) {
            search(DELTAS, Encoding::Delta, self.delta_measures())?;
        }
        Ok(())
    }

    /// What chunks will come to.
    fn result(&self, launcher: &Launcher<'_>) -> Result<Pending<abi::ChunkTotals>> {
        let totals = self.chunks() * (1 + usize::from(self.asked.has(Encoding::Delta)));
        launcher.result(&self.scratch, self.at.totals, totals)
    }

    /// What is known of vectors as they are.
    pub fn measures(&self) -> abi::VectorMeasures {
        self.pointers(&self.at.values, self.at.totals)
    }

    pub fn pointers(&self, at: &Measures, totals: usize) -> abi::VectorMeasures {
        // Null if windows with exceptions are not asked for.
        let has_patches = self.asked.has(Encoding::Pfor);
        abi::VectorMeasures {
            lows: self.pointer(at.lows),
            highs: self.pointer(at.highs),
            places: self.pointer(at.places),
            bases: if has_patches { self.pointer(at.bases) } else { DevicePtr::NULL },
            patched_places: match has_patches {
                true => self.pointer(at.patched_places),
                false => DevicePtr::NULL,
            },
            locators: if has_patches { self.pointer(at.locators) } else { DevicePtr::NULL },
            starts: DevicePtr::NULL,
            totals: self.pointer(totals),
        }
    }

    /// Waits for the totals.
    pub fn read(&mut self, launcher: &Launcher<'_>) -> Result<()> {
        if let Some(reals) = &mut self.reals {
            reals.read(launcher)?;
        }
        if let Some(pending) = self.pending.take() {
            self.totals = launcher.read(&pending)?;
        }
        if let Some(pending) = self.pending_samples.take() {
            self.samples = launcher.read(&pending)?;
        }
        self.divisors.read(launcher)
    }

    pub fn physical(&self) -> Physical {
        self.physical
    }

    /// What kernels see of the values.
    pub fn source(&self) -> &abi::Source {
        &self.source
    }

    /// What chunks come to, on the device.
    pub fn totals(&self) -> DevicePtr<abi::ChunkTotals> {
        self.pointer(self.at.totals)
    }

    /// What a sample of a chunk's values can be divided by; 0 or 1 if nothing.
    pub fn divisor(&self, chunk: usize) -> u64 {
        self.divisors.of(chunk)
    }

    /// What a sample of a chunk's rows says, if it has any.
    pub fn sample(&self, chunk: usize) -> Option<&abi::SampledRows> {
        self.samples.get(chunk).filter(|sample| sample.rows > 0)
    }

    pub fn pointer<T>(&self, at: usize) -> DevicePtr<T> {
        self.scratch.pointer_at(at)
    }

    /// Bytes of a value.
    pub fn value(&self) -> usize {
        self.physical.bits().unwrap_or(0) / 8
    }

    /// The kernel of words as wide as these.
    pub fn by_width<A>(&self, kernels: kernels::ByWidth<A>) -> Kernel<A> {
        kernels[self.value().trailing_zeros() as usize]
    }

    pub fn chunks(&self) -> usize {
        self.rows.div_ceil(self.chunk_rows)
    }

    /// Rows of a chunk.
    pub fn rows(&self, chunk: usize) -> usize {
        match &self.derived {
            Some(rows) => rows[chunk] as usize,
            None => (self.rows - chunk * self.chunk_rows).min(self.chunk_rows),
        }
    }

    /// Vectors of a chunk.
    pub fn vectors(&self, chunk: usize) -> usize {
        self.rows(chunk).div_ceil(VECTOR)
    }

    /// What a chunk leaves of which other encodings take `limit` bytes, if that is most.
    pub fn lz_bytes(&self, chunk: usize, limit: usize) -> Option<LzBytes> {
        LzBytes::of_words(self.rows(chunk) * self.value(), self.value(), limit)
    }

    /// Where the bytes of some chunks are, at multiples of 8: where they came from or, with nulls,
    /// which become zeros, or in memory that does not suit, in scratch.
    pub fn bytes_of(
        &self,
        launcher: &mut Launcher<'_>,
        chunks: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<DevicePtr<u8>>> {
        let source = &self.source;
        let chunk_bytes = self.chunk_rows * self.value();
        let is_aligned = source.values.address().is_multiple_of(8);
        if source.valid.is_null() && self.is_padded && is_aligned {
            return Ok(chunks.map(|chunk| source.values.add(chunk * chunk_bytes)).collect());
        }
        let bytes = |chunk: usize| aligned(self.rows(chunk) * self.value());
        let mut to = launcher.allocate(chunks.clone().map(bytes).sum())?.pointer::<u8>();
        let targets: Vec<abi::Target> = chunks
            .map(|chunk| {
                let (vector, rows) = (self.first_vector(chunk), self.rows(chunk) as u32);
                let buffer = abi::Target::only(to);
                to = to.add(bytes(chunk));
                abi::Target { buffer, vector, rows, zero: 0 }
            })
            .collect();
        self.write(launcher, Encoding::Plain, &targets)?;
        Ok(targets.into_iter().map(|target| target.buffer[0]).collect())
    }

    /// The chunk of a vector.
    pub fn chunk_at(&self, vector: u64) -> usize {
        vector as usize * VECTOR / self.chunk_rows
    }

    /// Number of a chunk's first vector.
    pub fn first_vector(&self, chunk: usize) -> u64 {
        (chunk * self.chunk_rows / VECTOR) as u64
    }

    /// A chunk's node without parameters, buffers and children.
    pub fn empty_node(&self, chunk: usize, encoding: Encoding) -> EncodedNode<PendingBuffer> {
        EncodedNode::new(encoding, self.physical, self.rows(chunk))
    }

    /// Least and greatest valid value of a chunk.
    pub fn bounds(&self, chunk: usize) -> Option<[u64; 2]> {
        let totals = &self.totals[chunk];
        let order = self.source.order;
        (totals.low <= totals.high)
            .then(|| [totals.low, totals.high].map(|word| self.unordered(word, order)))
    }

    /// A word from its place in an order.
    pub fn unordered(&self, word: u64, order: u32) -> u64 {
        let bits = self.value() * 8;
        let (top, all) = (1 << (bits - 1), u64::MAX >> (64 - bits));
        match order {
            abi::UNSIGNED => word,
            abi::FLOAT if word & top == 0 => !word & all,
            _ => word ^ top,
        }
    }

    /// What is known of floats that may be cut.
    pub fn reals(&self) -> Option<&AlpRdWords> {
        self.reals.as_ref()
    }

    /// Where ALP-RD cuts a chunk's values, and the bits that its sample takes so.
    pub fn cut(&self, chunk: usize) -> Option<(Cut, usize)> {
        self.reals.as_ref()?.sampled_cut(chunk)
    }

    /// Encodes a chunk by plan or the next best, as [`plan::encode`] does: its node, which
    /// asks for these words by `number`.
    pub fn encode(
        &self,
        chunk: usize,
        plan: &Plan,
        options: &Options,
        number: usize,
    ) -> Result<EncodedNode<PendingBuffer>> {
        let node = |plan: &Plan| self.node(chunk, plan, options, number);
        let node = plan::first_kept(plan, node, |part: &PendingBuffer| part.len)?;
        node.ok_or_else(|| Error::device("words without an encoding"))
    }

    /// A chunk's node, none where its data turn out not to fit the plan.
    pub fn node(
        &self,
        chunk: usize,
        plan: &Plan,
        options: &Options,
        number: usize,
    ) -> Result<Option<EncodedNode<PendingBuffer>>> {
        debug_assert_eq!(self.lacks(chunk, plan.encoding), 0, "{} of a chunk", plan.encoding);
        let of = WordChunk { words: self, chunk, options, number };
        Self::encoder(plan.encoding)?.node(&of, plan)
    }

    /// Starts writing nodes of one encoding.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        encoding: Encoding,
        targets: &[abi::Target],
    ) -> Result<()> {
        Self::encoder(encoding)?.write(launcher, self, targets)
    }

    fn encoder(encoding: Encoding) -> Result<&'static dyn WordEncoder> {
        let none = || Error::device(format!("words are to be encoded as {encoding}"));
        word_encoder(encoding).ok_or_else(none)
    }

    pub fn pack_arguments(
        &self,
        of: abi::VectorMeasures,
        targets: DevicePtr<abi::Target>,
        blocks_per_target: usize,
        encoding: Encoding,
    ) -> abi::PackArguments {
        abi::PackArguments {
            source: self.source,
            targets,
            of,
            blocks_per_target: blocks_per_target as u32,
            is_patched: u32::from(encoding == Encoding::Pfor),
        }
    }

    pub fn alp_arguments(
        &self,
        targets: DevicePtr<abi::Target>,
        blocks_per_target: usize,
    ) -> abi::AlpArguments {
        abi::AlpArguments {
            source: self.source,
            candidates: self.pointer(self.at.candidates),
            choices: self.pointer(self.at.choices),
            lows: self.pointer(self.at.values.lows),
            highs: self.pointer(self.at.values.highs),
            places: self.pointer(self.at.values.patched_places),
            locators: self.pointer(self.at.values.locators),
            totals: self.pointer(self.at.totals),
            targets,
            blocks_per_target: blocks_per_target as u32,
            zero: 0,
        }
    }
}

/// Rows of the longest node.
pub(super) fn longest(targets: &[abi::Target]) -> usize {
    targets.iter().map(|target| target.rows as usize).max().unwrap_or(0)
}
