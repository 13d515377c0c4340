//! Strings with offsets: everything that plans need is measured for the whole column at
//! once, then codes are made in spans.
//!
//! ```text
//! column   lengths, samples --> tables trained --> what they make of a sample of each chunk
//!          constants, bits of lengths, repetitions            --> host plans all chunks
//!          dictionaries and front coding, where a sample promises something (`dict.rs`,
//!          `front.rs`): strings that are derived from the column's (`derived.rs`)
//!          bounds, which nobody waits for                     --> read at the end
//! span     codes to scratch, lengths of codes                 --> host knows sizes
//!          codes, starts, tiles and lengths to bodies
//! ```
//!
//! A *group* of chunks shares a table, as on the CPU; chunks for which it slips get one of
//! their own. A *span* is a stretch of chunks with the same table of at most
//! [`span_bytes`] bytes (but a whole chunk): its scratch is two bytes of codes for each
//! byte of values, whatever the data, and there are up to three at a time.
//!
//! Each kind of work has a stream of its own (`launch.rs`): what others wait for comes first
//! wherever there is room, then codes, one span's after another's, then bodies beside the
//! next span's codes, and bounds where nothing else is. Codes of the first spans are
//! made before the host knows the plan: as soon as tables are trained, as if all chunks had
//! codes ([`EarlyCodes`]). If it turns out otherwise they are thrown away.

mod bodies;
mod chunks;
mod codes;
mod derived;
mod dict;
mod front;
mod lengths;
mod plan;
mod statistics;
mod tables;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};

use super::launch::{Launcher, Pending, Scope, StreamRole};
use super::measurements::Measurements;
use super::source::Bits;
use super::words::Words;
use super::write::Parts;
use crate::chunk::MAX_CHUNK_ROWS;
use crate::column::is_text;
use crate::device::Context;
use crate::device::array::DeviceArray;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::gpu::kernels::{self, ByOffset, Kernel};
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::options::Options;
use bodies::{Stretch, bounds_of};
pub(super) use chunks::Family;
use codes::Codes;
use lengths::Lengths;
use plan::{ChunkChoice, MeasuredColumn, PendingColumn};

/// A column of strings in device memory.
pub(super) struct StringColumn {
    pub rows: usize,
    offsets: DevicePtr<u8>,
    /// Bytes of an offset.
    width: usize,
    values: DevicePtr<u8>,
    /// Bytes of values, at least.
    value_bytes: usize,
    valid: Option<Bits>,
    /// If chunks are leaves of nested arrays, what is known of them.
    leaves: Option<Leaves>,
    /// Whether values are text.
    is_text: bool,
    /// Multiprocessors of the device.
    multiprocessors: usize,
    pub memory: Vec<Arc<DeviceBuffer>>,
}

/// Leaves of nested arrays, each a chunk of strings, or several chunks one behind the other. Rows
/// behind those of a chunk are null, up to where the next begins. Nulls of leaves are columns of
/// their own.
#[derive(Clone)]
pub(super) struct Leaves {
    /// Rows of each chunk.
    pub rows: Arc<[u32]>,
    /// The same on the device.
    pub on_device: DevicePtr<u32>,
    /// The chunks of each leaf.
    pub chunks: Arc<[Range<usize>]>,
}

impl StringColumn {
    /// An array that lies on the device. Kernels read units of 32 bytes: what begins or
    /// ends elsewhere is copied.
    pub fn new(launcher: &mut Launcher<'_>, field: &FieldRef, array: &DeviceArray) -> Result<Self> {
        let (validity, slices) = array.slices();
        let mut memory: Vec<Arc<DeviceBuffer>> = Vec::new();
        let mut pointer_to = |slice: &crate::device::array::DeviceSlice| -> Result<DevicePtr<u8>> {
            let (buffer, pointer) = (slice.buffer(), slice.pointer::<u8>());
            if buffer.is_padded() && pointer.address().is_multiple_of(32) {
                memory.push(buffer.clone());
                return Ok(pointer);
            }
            let copy = Arc::new(launcher.stream.allocate(slice.len())?);
            launcher.stream.copy(buffer, slice.start(), &copy, 0, slice.len())?;
            memory.push(copy.clone());
            Ok(copy.pointer())
        };
        let (offsets, values) = (pointer_to(&slices[0])?, pointer_to(&slices[1])?);
        memory.extend(validity.map(|slice| slice.buffer().clone()));
        Ok(Self {
            rows: array.len(),
            offsets,
            width: match field.data_type() {
                DataType::LargeUtf8 | DataType::LargeBinary => 8,
                _ => 4,
            },
            values,
            value_bytes: slices[1].len(),
            is_text: is_text(field.data_type()),
            multiprocessors: array.context().device().info().multiprocessors as usize,
            valid: validity.map(|slice| Bits::at(slice.pointer(), 0)),
            leaves: None,
            memory,
        })
    }

    /// Leaves of nested arrays, of all of which there are so many rows: `offsets` of 32 bits, and
    /// `values` with so many bytes, which zeros follow.
    pub fn of_leaves(
        rows: usize,
        [offsets, values]: [Arc<DeviceBuffer>; 2],
        value_bytes: usize,
        valid: Option<Bits>,
        leaves: Leaves,
        is_text: bool,
        multiprocessors: usize,
    ) -> Self {
        Self {
            rows,
            offsets: offsets.pointer(),
            width: 4,
            values: values.pointer(),
            value_bytes,
            valid,
            leaves: Some(leaves),
            is_text,
            multiprocessors,
            memory: vec![offsets, values],
        }
    }

    /// Rows, from a multiple of 1,024 on, that have so many bytes of values.
    pub fn slice(&self, rows: Range<usize>, value_bytes: usize) -> Self {
        Self {
            rows: rows.len(),
            offsets: self.offsets.add(rows.start * self.width),
            value_bytes,
            valid: self.valid.map(|valid| valid.at_row(rows.start)),
            leaves: None,
            memory: Vec::new(),
            ..*self
        }
    }

    /// The kernel for the column's offsets.
    fn by_width<A>(&self, kernels: ByOffset<A>) -> Kernel<A> {
        kernels[usize::from(self.width == 8)]
    }
}

impl StringColumn {
    /// What kernels see of it.
    fn view(&self, chunk_rows: usize) -> abi::StringsView {
        let valid = self.valid.unwrap_or(Bits { start: DevicePtr::NULL, bit: 0 });
        abi::StringsView {
            values: self.values,
            offsets: self.offsets,
            valid: valid.start.cast(),
            first_bit: u64::from(valid.bit),
            rows: self.rows as u32,
            chunk_rows: chunk_rows as u32,
            leaf_rows: self.leaves.as_ref().map_or(DevicePtr::NULL, |leaves| leaves.on_device),
            ..Default::default()
        }
    }

    /// Rows of each chunk.
    fn rows_of_chunks(&self, chunk_rows: usize) -> Vec<u32> {
        match &self.leaves {
            Some(leaves) => leaves.rows.to_vec(),
            None => {
                let rows = |first: usize| (self.rows - first).min(chunk_rows) as u32;
                (0..self.rows).step_by(chunk_rows).map(rows).collect()
            }
        }
    }

    /// The chunks that share a symbol table.
    fn groups(&self, options: &Options) -> Vec<Range<usize>> {
        match &self.leaves {
            Some(leaves) => leaves.chunks.to_vec(),
            None => options.groups(self.rows.div_ceil(options.chunk_rows)),
        }
    }

    /// Starts measuring the lengths of some chunks' values or codes.
    fn measure_lengths(
        &self,
        launcher: &mut Launcher<'_>,
        source: abi::Source,
        chunks: Range<usize>,
        options: &Options,
    ) -> Result<Words> {
        let asked = Measurements::of_lengths(options);
        match &self.leaves {
            Some(leaves) => {
                let rows = leaves.rows[chunks].to_vec();
                Words::derived(launcher, Physical::U32, source, rows, asked)
            }
            None => Words::measure(launcher, Physical::U32, source, asked),
        }
    }
}

/// Blocks that encode so many blocks' worth of runs: no more than the device holds at a
/// time, as they take runs while there are any.
fn encode_blocks(column: &StringColumn, needed: usize) -> usize {
    needed.min(column.multiprocessors * kernels::ENCODE_BLOCKS)
}

/// Bytes of values of a span.
pub(super) fn span_bytes(is_host: bool) -> usize {
    // On the emulation few, so that tests see several spans.
    if is_host { 160 << 10 } else { 256 << 20 }
}

/// Offsets where chunks begin, and at the end of the last.
fn borders(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    chunk_rows: usize,
) -> Result<Pending<u64>> {
    let chunks = column.rows.div_ceil(chunk_rows);
    let scratch = launcher.allocate((chunks + 1) * 8)?;
    let arguments = abi::StringBoundsArguments {
        view: column.view(chunk_rows),
        borders: scratch.pointer(),
        ..Default::default()
    };
    let kernel = column.by_width(kernels::STRING_OFFSETS);
    launcher.launch(kernel, (chunks + 1).div_ceil(kernel.block), &arguments)?;
    launcher.result(&scratch, 0, chunks + 1)
}

/// Compresses a column of strings; none if it has about 2^32 rows, or a chunk so many bytes
/// that a value may be too long for a length of 32 bits.
pub(super) fn encode(
    context: &Context,
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    options: &Options,
    span_bytes: usize,
) -> Result<Option<Parts>> {
    if column.rows == 0 {
        return Ok(Some(Vec::new()));
    }
    // Kernels count rows, up to whole chunks, in 32 bits.
    if u32::try_from(column.rows + MAX_CHUNK_ROWS).is_err() {
        return Ok(None);
    }
    let chunk_rows = options.chunk_rows;
    let groups = column.groups(options).len();
    let tables = if options.allows(Encoding::Fsst) { groups } else { 0 };
    // Measures and tables, and the codes of spans that are not a single chunk. Rows with
    // codes have more than a byte on average.
    let span_rows = column.rows.min(span_bytes);
    let in_spans = codes::scratch_bytes(span_rows, column.value_bytes.min(span_bytes));
    context.require(
        lengths::scratch_bytes(column.rows, column.value_bytes)
            + tables::scratch_bytes(tables)
            + SPANS * in_spans,
    )?;
    let borders = borders(launcher, column, chunk_rows)?;
    let (borders, pending) = if i32::try_from(column.value_bytes).is_ok() {
        let pending = PendingColumn::start(launcher, column, options)?;
        (launcher.read(&borders)?, pending)
    } else {
        let borders = launcher.read(&borders)?;
        if borders.windows(2).any(|pair| i32::try_from(pair[1] - pair[0]).is_err()) {
            return Ok(None);
        }
        (borders, PendingColumn::start(launcher, column, options)?)
    };
    let early = EarlyCodes::start(launcher, column, &pending, &borders, options, span_bytes)?;
    let mut measured = pending.read(launcher, column)?;
    launcher.release(Scope::SampledPrefixes);
    launcher.mark("wait")?;
    let choices = measured.choose(launcher, column, &borders)?;
    let tables = choices.iter().map(|choice| Some(choice.table.as_ref()?.pointer));
    let spans = spans(tables, &borders, span_bytes);
    let early = early.codes_of(launcher, &measured.strings.lengths, &spans)?;
    // Those that are a single chunk.
    let mut large: Vec<usize> = (spans.iter())
        .filter(|span| span.table.is_some())
        .map(|span| span.bytes(&borders))
        .filter(|bytes| *bytes > span_bytes)
        .collect();
    if !large.is_empty() {
        large.sort_unstable_by(|one, other| other.cmp(one));
        let scratch = |bytes: &usize| codes::scratch_bytes(chunk_rows, *bytes);
        context.require(large.iter().take(SPANS).map(scratch).sum())?;
    }
    launcher.mark("plan")?;
    let mut parts = encode_spans(launcher, column, &measured, &choices, &borders, spans, early)?;
    let bounds = launcher.read(&measured.bounds)?;
    debug_assert_eq!(bounds.len(), parts.iter().map(|(_, planned)| planned.len()).sum::<usize>());
    let planned = parts.iter_mut().flat_map(|(_, planned)| planned);
    for (planned, bounds) in planned.zip(&bounds) {
        planned.bounds = bounds_of(bounds);
    }
    Ok(Some(parts))
}

/// Codes of what may be the first spans, made while the host waits for what it plans with:
/// as if all chunks had codes with the tables of their groups.
struct EarlyCodes(Vec<(Span, Codes)>);

impl EarlyCodes {
    /// So many spans' codes take longer than planning.
    const SPANS: usize = 2;

    fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        pending: &PendingColumn,
        borders: &[u64],
        options: &Options,
        span_bytes: usize,
    ) -> Result<Self> {
        let Some((tables, _)) = &pending.tables else { return Ok(Self(Vec::new())) };
        let groups = pending.lengths.groups.iter().enumerate();
        let tables = groups
            .flat_map(|(group, chunks)| chunks.clone().map(move |_| Some(tables.pointer(group))));
        let spans = spans(tables, borders, span_bytes).into_iter().take(Self::SPANS);
        let started = (spans.enumerate())
            // Whether there is memory for more is known later.
            .take_while(|(_, span)| span.bytes(borders) <= span_bytes)
            .map(|(number, span)| {
                launcher.scope = Scope::Part(number);
                let codes =
                    Codes::start(launcher, column, &pending.lengths, &span, borders, options)?;
                Ok((span, codes))
            })
            .collect::<Result<_>>()?;
        launcher.scope = Scope::Column;
        Ok(Self(started))
    }

    /// The codes, if these are the first spans; else what they have left is undone.
    fn codes_of(
        self,
        launcher: &mut Launcher<'_>,
        lengths: &Lengths,
        spans: &[Span],
    ) -> Result<impl Iterator<Item = Codes> + use<>> {
        let is_right = self.0.len() <= spans.len()
            && self.0.iter().zip(spans).all(|((early, _), span)| early == span);
        let Self(mut started) = self;
        if !is_right {
            launcher.switch(StreamRole::Long);
            for (number, (_, codes)) in started.drain(..).enumerate() {
                lengths.clear_codes(launcher, codes.runs.vectors())?;
                launcher.release(Scope::Part(number));
            }
        }
        Ok(started.into_iter().map(|(_, codes)| codes))
    }
}

/// Makes the codes of spans and writes their bodies.
fn encode_spans(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    measured: &MeasuredColumn,
    choices: &[ChunkChoice],
    borders: &[u64],
    spans: Vec<Span>,
    mut early: impl Iterator<Item = Codes>,
) -> Result<Parts> {
    let mut out = Vec::new();
    // Each span has a scope, which is let go of when its bodies are being written.
    let mut write = |launcher: &mut Launcher<'_>, (number, stretch): (usize, Stretch)| {
        launcher.switch(StreamRole::After);
        launcher.scope = Scope::Part(number);
        out.push(stretch.write(launcher, column, measured, choices, borders)?);
        launcher.release(Scope::Part(number));
        Ok::<_, Error>(())
    };
    let mut started: VecDeque<(usize, Stretch)> = VecDeque::new();
    for (number, span) in spans.into_iter().enumerate() {
        let mut start = || {
            if let Some(codes) = early.next() {
                return Ok(codes);
            }
            launcher.scope = Scope::Part(number);
            let strings = &measured.strings;
            let (lengths, options) = (&strings.lengths, &strings.options);
            Codes::start(launcher, column, lengths, &span, borders, options)
        };
        let codes = match &choices[span.chunks.start].table {
            Some(table) => Some((table.clone(), start()?)),
            None => None,
        };
        let chunks = span.chunks;
        started.push_back((number, Stretch { chunks, codes }));
        if started.len() == SPANS
            && let Some(first) = started.pop_front()
        {
            write(launcher, first)?;
        }
    }
    for stretch in started {
        write(launcher, stretch)?;
    }
    launcher.scope = Scope::Column;
    launcher.join()?;
    Ok(out)
}

/// Spans that are under way at a time.
const SPANS: usize = 3;

/// A stretch of chunks that have codes with one table, or none.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    chunks: Range<usize>,
    table: Option<DevicePtr<u8>>,
}

impl Span {
    /// Bytes from the first offset to the last.
    fn bytes(&self, borders: &[u64]) -> usize {
        (borders[self.chunks.end] - borders[self.chunks.start]) as usize
    }
}

/// Chunks, given the table of each, in spans of at most so many bytes, but single chunks.
fn spans(
    tables: impl Iterator<Item = Option<DevicePtr<u8>>>,
    borders: &[u64],
    bytes: usize,
) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (chunk, table) in tables.enumerate() {
        let joins = |span: &Span| {
            let together = (borders[chunk + 1] - borders[span.chunks.start]) as usize;
            span.table == table && together <= bytes
        };
        match spans.last_mut() {
            Some(span) if joins(span) => span.chunks.end = chunk + 1,
            _ => spans.push(Span { chunks: chunk..chunk + 1, table }),
        }
    }
    spans
}
