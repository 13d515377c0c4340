//! A window: what its chunks are like, how each is stored, and its codes.

use std::sync::Arc;

use super::StringColumn;
use super::bodies::Started;
use super::lengths::{
    Arrays, CAPACITY, Lengths, RUN_BYTES, Table, estimate, pick, read_sample, sampled, train,
};
use crate::encoding::fsst::{self, Sampled, Symbols};
use crate::encoding::{Encoding, Estimate, Physical, constant, plan};
use crate::engine::encode::launch::{Launcher, Pending};
use crate::engine::encode::source::Column;
use crate::engine::encode::words::Words;
use crate::engine::encode::write;
use crate::error::Result;
use crate::gpu::abi::encode::Source;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;
use crate::options::Options;

/// The scope of what only helps to choose a table.
pub(super) const TRIAL: usize = usize::MAX;

/// A window that has been looked at.
pub(super) struct Window {
    pub(super) lengths: Lengths,
    pub(super) table: Option<Table>,
    pub(super) value_words: Words,
    pub(super) bounds: Pending<abi::StringBounds>,
    /// Valid rows of each chunk, if there may be nulls.
    pub(super) counts: Option<Pending<[u32; 2]>>,
    pub(super) samples: Option<Pending<abi::FsstSample>>,
    pub(super) validity: Option<Column>,
    /// Offsets where chunks begin, and the end of the last.
    pub(super) borders: Vec<u64>,
    pub(super) options: Options,
}

/// How a chunk is stored.
#[derive(Clone)]
pub(super) enum Choice {
    Constant,
    Plain,
    /// With the codes of a job, of which it is this chunk.
    Fsst(usize, usize),
}

/// Rows whose codes are made with one table.
pub(super) struct Encoded {
    pub(super) lengths_window: abi::FsstWindow,
    pub(super) table: Table,
    pub(super) code_words: Words,
    pub(super) chunks: Pending<abi::FsstPlace>,
    /// What is read back.
    pub(super) totals: Vec<abi::FsstPlace>,
    pub(super) runs: usize,
}

impl Window {
    pub(super) fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: Lengths,
        table: Option<Table>,
        borders: Vec<u64>,
        options: &Options,
    ) -> Result<Self> {
        let chunk_vectors = options.chunk_rows / VECTOR;
        let chunks = borders.len() - 1;
        let vectors = lengths.vector_count();
        let mut arrays = Arrays::default();
        let extremes = arrays.add(vectors * 8);
        let bounds_at = arrays.add(chunks * size_of::<abi::StringBounds>());
        let scratch = launcher.allocate(arrays.len)?;
        let arguments = abi::StringBoundsArguments {
            window: lengths.window,
            extremes: scratch.address() + extremes as u64,
            bounds: scratch.address() + bounds_at as u64,
            borders: 0,
        };
        let kernel = column.by_width(kernels::STRING_EXTREMES);
        launcher.launch(kernel, vectors.div_ceil(kernel.block), &arguments)?;
        launcher.launch(column.by_width(kernels::STRING_BOUNDS), chunks, &arguments)?;
        let bounds = launcher.result(&scratch, bounds_at, chunks)?;
        let samples = match &table {
            Some(table) => Some(estimate(launcher, column, &lengths, table, chunk_vectors)?),
            None => None,
        };
        let source = Source {
            values: lengths.window.value_lengths,
            rows: lengths.rows.len() as u64,
            stride: 1,
            chunk_vectors: chunk_vectors as u32,
            ..Default::default()
        };
        let value_words = Words::measure(launcher, Physical::U32, source, false)?;
        let validity = column.valid.map(|valid| {
            let (rows, memory) = (lengths.rows.len(), column.memory.clone());
            let valid = valid.at_row(lengths.rows.start);
            Column::of_validity(memory, valid, rows)
        });
        let counts = match &validity {
            Some(validity) => Some(write::count_bits(launcher, validity, options.chunk_rows)?),
            None => None,
        };
        let options = options.clone();
        Ok(Self {
            lengths,
            table,
            value_words,
            bounds,
            counts,
            samples,
            validity,
            borders,
            options,
        })
    }

    pub(super) fn chunk_vectors(&self) -> usize {
        self.options.chunk_rows / VECTOR
    }

    pub(super) fn chunks(&self) -> usize {
        self.borders.len() - 1
    }

    /// Rows of a chunk.
    pub(super) fn rows(&self, chunk: usize) -> usize {
        (self.lengths.rows.len() - chunk * self.options.chunk_rows).min(self.options.chunk_rows)
    }

    /// The vectors of a chunk.
    pub(super) fn vectors(&self, chunk: usize) -> &[abi::FsstVector] {
        let all = &self.lengths.vectors[chunk * self.chunk_vectors()..];
        &all[..self.rows(chunk).div_ceil(VECTOR)]
    }

    /// Bytes of a chunk's valid values.
    pub(super) fn bytes(&self, chunk: usize) -> usize {
        self.vectors(chunk).iter().map(|vector| vector.bytes as usize).sum()
    }

    /// Plans every chunk and starts making codes.
    pub(super) fn encode(
        mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
    ) -> Result<Started> {
        self.lengths.read(launcher)?;
        self.value_words.read(launcher)?;
        let bounds = launcher.read(&self.bounds)?;
        let samples = match &self.samples {
            Some(samples) => launcher.read(samples)?,
            None => vec![abi::FsstSample::default(); self.chunks()],
        };
        let valid = match &self.counts {
            Some(counts) => {
                launcher.read(counts)?.iter().map(|[valid, _]| *valid as usize).collect()
            }
            None => (0..self.chunks()).map(|chunk| self.rows(chunk)).collect(),
        };
        // Chunks with a table of their own, and all others that have codes.
        let mut own: Vec<(Table, Lengths)> = Vec::new();
        let mut choices = Vec::new();
        for (chunk, sample) in samples.iter().enumerate() {
            let shared = sampled(sample).and_then(|sampled| Some((self.table.clone()?, sampled)));
            let fsst = self.table_for(launcher, column, chunk, &bounds[chunk], shared)?;
            let choice = self.choose(chunk, &bounds[chunk], fsst.as_ref());
            choices.push(match (choice, fsst) {
                (Encoding::Fsst, Some((table, _, Some(lengths)))) => {
                    own.push((table, lengths));
                    // The number of the job, once it is known whether there is a shared one.
                    Choice::Fsst(own.len(), 0)
                }
                (Encoding::Fsst, _) => Choice::Fsst(0, chunk),
                (Encoding::Constant, _) => Choice::Constant,
                _ => Choice::Plain,
            });
        }
        launcher.mark("plan")?;
        let has_shared = choices.iter().any(|choice| matches!(choice, Choice::Fsst(0, _)));
        let mut encoded = Vec::new();
        if let (true, Some(table)) = (has_shared, &self.table) {
            let table = table.clone();
            encoded.push(self.codes(launcher, column, &self.lengths, table)?);
        }
        for (table, lengths) in &own {
            encoded.push(self.codes(launcher, column, lengths, table.clone())?);
        }
        if !has_shared {
            for choice in &mut choices {
                if let Choice::Fsst(job, _) = choice {
                    *job -= 1;
                }
            }
        }
        Ok(Started { window: self, choices, encoded, bounds, valid })
    }

    /// The table for a chunk, what it makes of the chunk's sample, and, if the table is
    /// its own, its lengths; as `symbols_for` of the CPU.
    pub(super) fn table_for(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunk: usize,
        bounds: &abi::StringBounds,
        shared: Option<(Table, Sampled)>,
    ) -> Result<Option<(Table, Sampled, Option<Lengths>)>> {
        let (rows, bytes) = (self.rows(chunk), self.bytes(chunk));
        let is_constant = self.options.allows(Encoding::Constant) && is_single(bounds);
        if is_constant || !self.options.allows(Encoding::Fsst) || !fsst::pays(bytes, rows) {
            return Ok(None);
        }
        if let Some((table, sampled)) = &shared
            && !table.symbols.slips(sampled.codes, sampled.bytes)
        {
            return Ok(Some((table.clone(), *sampled, None)));
        }
        let start = self.lengths.rows.start + chunk * self.options.chunk_rows;
        let raw = (self.borders[chunk + 1] - self.borders[chunk]) as usize;
        let chunk_rows = self.options.chunk_rows;
        let mut lengths = Lengths::start(launcher, column, start..start + rows, chunk_rows, raw)?;
        // What is tried is let go of at once: there may be many such chunks.
        let scope = std::mem::replace(&mut launcher.scope, TRIAL);
        let own = self.own_table(launcher, column, &lengths);
        launcher.scope = scope;
        launcher.release(TRIAL);
        let Some((symbols, own)) = own? else {
            return Ok(shared.map(|(table, sampled)| (table, sampled, None)));
        };
        match shared {
            Some((table, sampled)) if !fsst::makes_up(own.codes, sampled.codes) => {
                Ok(Some((table, sampled, None)))
            }
            _ => {
                lengths.read(launcher)?;
                Ok(Some((Table::upload(launcher, symbols)?, own, Some(lengths))))
            }
        }
    }

    /// A table trained on rows, and what it makes of a sample of them.
    pub(super) fn own_table(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
    ) -> Result<Option<(Arc<Symbols>, Sampled)>> {
        let picked = pick(launcher, column, lengths, CAPACITY)?;
        let sample = read_sample(launcher, column, lengths, picked)?;
        let Some(symbols) = train(&sample) else { return Ok(None) };
        let table = Table::upload(launcher, symbols.clone())?;
        let samples = estimate(launcher, column, lengths, &table, self.chunk_vectors())?;
        Ok(sampled(&launcher.read(&samples)?[0]).map(|sampled| (symbols, sampled)))
    }

    /// Chooses a chunk's encoding, as [`plan::plan`] does.
    pub(super) fn choose(
        &self,
        chunk: usize,
        bounds: &abi::StringBounds,
        fsst: Option<&(Table, Sampled, Option<Lengths>)>,
    ) -> Encoding {
        let (rows, bytes) = (self.rows(chunk), self.bytes(chunk));
        let vectors = rows.div_ceil(VECTOR);
        let lengths = self.value_words.plan(chunk, &self.options).bytes;
        let length = bounds.length[0] as usize;
        let estimates = [
            (Encoding::Constant, is_single(bounds).then_some(length)),
            (Encoding::Plain, Some(bytes + vectors * 8 + lengths)),
            (
                Encoding::Fsst,
                fsst.map(|(table, sampled, _)| {
                    fsst::estimated_bytes(table.symbols.table(), *sampled, rows, bytes, lengths)
                }),
            ),
        ];
        let allowed = estimates.into_iter().filter(|(encoding, _)| self.options.allows(*encoding));
        plan::choose(allowed.filter_map(|(encoding, bytes)| Some((encoding, Estimate::of(bytes?)))))
            .encoding
    }

    /// Starts making the codes of some rows.
    pub(super) fn codes(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        table: Table,
    ) -> Result<Encoded> {
        let bytes = lengths.raw_bytes;
        let runs = bytes / RUN_BYTES + lengths.vector_count();
        let chunks = lengths.rows.len().div_ceil(self.options.chunk_rows);
        let mut arrays = Arrays::default();
        let runs_at = arrays.add(runs * 16);
        let places = arrays.add(runs * 16);
        let codes = arrays.add(2 * bytes + 16 * (runs + 1));
        let marks = arrays.add(2 * (bytes / 32 + runs / 4 + 2));
        let chunks_at = arrays.add(chunks * size_of::<abi::FsstPlace>());
        let scratch = launcher.allocate(arrays.len)?;
        let at = |at: usize| scratch.address() + at as u64;
        let window = abi::FsstWindow {
            table: table.address,
            runs: at(runs_at),
            places: at(places),
            codes: at(codes),
            marks: at(marks),
            chunks: at(chunks_at),
            ..lengths.window
        };
        let kernel = column.by_width(kernels::FSST_ENCODE);
        launcher.launch(kernel, runs.div_ceil(kernel.block), &window)?;
        launcher.launch(kernels::FSST_CHUNKS, chunks, &window)?;
        let source = Source {
            values: window.code_lengths,
            rows: lengths.rows.len() as u64,
            stride: 1,
            chunk_vectors: self.chunk_vectors() as u32,
            ..Default::default()
        };
        let code_words = Words::measure(launcher, Physical::U32, source, false)?;
        Ok(Encoded {
            lengths_window: window,
            table,
            code_words,
            chunks: launcher.result(&scratch, chunks_at, chunks)?,
            totals: Vec::new(),
            runs,
        })
    }
}

/// Whether a chunk is one value for all rows, of a length that a constant may have.
pub(super) fn is_single(bounds: &abi::StringBounds) -> bool {
    let length = bounds.length[0] as usize;
    bounds.has == 0 || (bounds.is_single != 0 && length <= constant::MAX_VALUE_BYTES)
}

/// About the bytes of scratch that the codes of rows need ([`Window::codes`]).
pub(super) fn codes_bytes(rows: usize, raw_bytes: usize) -> usize {
    let runs = raw_bytes / RUN_BYTES + rows.div_ceil(VECTOR);
    48 * runs + 2 * raw_bytes + raw_bytes / 16 + runs / 2
}
