//! Strings with offsets: lengths and samples from the device, symbol tables from the
//! host, codes from the device.
//!
//! ```text
//! group    lengths, picked segments --> host trains a table
//! window   lengths, bounds, what the table makes of a sample of each chunk --> host plans
//!          codes to scratch, lengths of codes              --> host knows sizes
//!          codes, starts, tiles and lengths to bodies
//! ```
//!
//! A *group* shares a table, as on the CPU. A *window* is a part of a group of at most
//! [`window_bytes`] bytes (but a whole chunk): its scratch is two bytes of codes for each
//! byte of values, and 8 bytes a row, whatever the data. Two windows are under way at a
//! time, so that the host waits for one while the device works on the other.
//!
//! Chunks for which the group's table slips get a table and a window of their own.

mod bodies;
mod lengths;
mod window;

use std::ops::Range;
use std::sync::{Arc, mpsc};

use arrow_schema::{DataType, FieldRef};

use super::launch::Launcher;
use super::source::Bits;
use super::write::Parts;
use crate::encoding::Encoding;
use crate::encoding::fsst::{self, Symbols};
use crate::engine::Context;
use crate::engine::array::DeviceArray;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels::{self, Kernel};
use crate::options::Options;
use bodies::Started;
use lengths::{CAPACITY, Lengths, RUN_BYTES, Table, lengths_bytes, pick, read_sample, train};
use window::{Window, codes_bytes};

/// A column of strings in device memory.
pub(super) struct StringColumn {
    pub rows: usize,
    offsets: u64,
    /// Bytes of an offset.
    width: usize,
    values: u64,
    valid: Option<Bits>,
    pub memory: Vec<Arc<DeviceBuffer>>,
}

impl StringColumn {
    /// An array that lies on the device. Kernels read units of 32 bytes: what begins or
    /// ends elsewhere is copied.
    pub fn new(launcher: &mut Launcher<'_>, field: &FieldRef, array: &DeviceArray) -> Result<Self> {
        let (validity, slices) = array.slices();
        let mut memory: Vec<Arc<DeviceBuffer>> = Vec::new();
        let mut address_of = |slice: &crate::engine::array::DeviceSlice| -> Result<u64> {
            let (buffer, at) = (slice.buffer(), slice.address() - slice.buffer().address());
            if buffer.is_padded() && slice.address().is_multiple_of(32) {
                memory.push(buffer.clone());
                return Ok(slice.address());
            }
            let copy = Arc::new(launcher.stream.allocate(slice.len())?);
            launcher.stream.copy(buffer, at as usize, &copy, 0, slice.len())?;
            memory.push(copy.clone());
            Ok(copy.address())
        };
        let (offsets, values) = (address_of(&slices[0])?, address_of(&slices[1])?);
        memory.extend(validity.map(|slice| slice.buffer().clone()));
        Ok(Self {
            rows: array.len(),
            offsets,
            width: match field.data_type() {
                DataType::LargeUtf8 | DataType::LargeBinary => 8,
                _ => 4,
            },
            values,
            valid: validity.map(|slice| Bits::at(slice.address(), 0)),
            memory,
        })
    }

    /// The kernel for the column's offsets.
    fn by_width(&self, kernels: [Kernel; 2]) -> Kernel {
        kernels[usize::from(self.width == 8)]
    }

    /// What kernels see of some rows, which begin at a multiple of 1,024.
    fn window(&self, rows: &Range<usize>, chunk_rows: usize) -> abi::FsstWindow {
        let valid = self.valid.unwrap_or(Bits { address: 0, bit: 0 });
        abi::FsstWindow {
            values: self.values,
            offsets: self.offsets + (rows.start * self.width) as u64,
            valid: valid.address,
            first_bit: u64::from(valid.bit) + rows.start as u64,
            rows: rows.len() as u32,
            chunk_rows: chunk_rows as u32,
            run_bytes: RUN_BYTES as u32,
            ..Default::default()
        }
    }
}

/// Bytes of values of a window.
pub(super) fn window_bytes(is_host: bool) -> usize {
    // On the emulation few, so that tests see several windows.
    if is_host { 160 << 10 } else { 256 << 20 }
}

/// Offsets where chunks begin, and at the end of the last.
fn borders(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    chunk_rows: usize,
) -> Result<Vec<u64>> {
    let chunks = column.rows.div_ceil(chunk_rows);
    let scratch = launcher.allocate((chunks + 1) * 8)?;
    let arguments = abi::StringBoundsArguments {
        window: column.window(&(0..column.rows), chunk_rows),
        borders: scratch.address(),
        ..Default::default()
    };
    let kernel = column.by_width(kernels::STRING_OFFSETS);
    launcher.launch(kernel, (chunks + 1).div_ceil(kernel.block), &arguments)?;
    let pending = launcher.result(&scratch, 0, chunks + 1)?;
    launcher.read(&pending)
}

/// Rows of chunks, with the borders of their bytes.
fn part(borders: &[u64], chunks: Range<usize>) -> Vec<u64> {
    borders[chunks.start..=chunks.end].to_vec()
}

/// Compresses a column of strings; none if it has 2^32 rows, or a chunk so many bytes
/// that a value may be too long for a length of 32 bits.
pub(super) fn encode(
    context: &Context,
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    options: &Options,
    window_bytes: usize,
) -> Result<Option<Parts>> {
    if column.rows == 0 {
        return Ok(Some(Vec::new()));
    }
    if u32::try_from(column.rows).is_err() {
        return Ok(None);
    }
    let (chunk_rows, group_chunks) = (options.chunk_rows, options.group_chunks());
    let borders = borders(launcher, column, chunk_rows)?;
    if borders.windows(2).any(|pair| i32::try_from(pair[1] - pair[0]).is_err()) {
        return Ok(None);
    }
    let chunks = borders.len() - 1;
    let rows = |chunks: &Range<usize>| {
        chunks.start * chunk_rows..(chunks.end * chunk_rows).min(column.rows)
    };
    let raw = |chunks: &Range<usize>| (borders[chunks.end] - borders[chunks.start]) as usize;
    let groups: Vec<Range<usize>> = (0..chunks)
        .step_by(group_chunks)
        .map(|start| start..(start + group_chunks).min(chunks))
        .collect();

    let lengths_of = |chunks: &Range<usize>| lengths_bytes(rows(chunks).len(), raw(chunks));
    let window_of =
        |chunks: Range<usize>| lengths_of(&chunks) + codes_bytes(rows(&chunks).len(), raw(&chunks));
    let windows = groups.iter().flat_map(|group| windows_of(&borders, group, window_bytes));
    let largest = windows.map(window_of).max().unwrap_or(0);
    context.require(groups.iter().map(lengths_of).sum::<usize>() + 2 * largest)?;

    // All samples are under way before the first is waited for, and all tables before
    // the first is used.
    let mut picked = Vec::new();
    for group in &groups {
        let lengths = Lengths::start(launcher, column, rows(group), chunk_rows, raw(group))?;
        let sample = match options.allows(Encoding::Fsst) {
            true => Some(pick(launcher, column, &lengths, CAPACITY)?),
            false => None,
        };
        picked.push((lengths, sample));
    }
    let (sender, receiver) = mpsc::channel();
    rayon::in_place_scope(|tasks| {
        let mut lengths = Vec::new();
        for (number, (mut group, sample)) in picked.into_iter().enumerate() {
            group.read(launcher)?;
            let pays = fsst::pays(group.bytes(), group.rows.len());
            let sample = match sample.filter(|_| pays) {
                Some(sample) => Some(read_sample(launcher, column, &group, sample)?),
                None => None,
            };
            lengths.push(group);
            let sender = sender.clone();
            // Nobody listens any more where an error has ended this.
            tasks.spawn(move |_| drop(sender.send((number, sample.as_ref().and_then(train)))));
        }
        drop(sender);
        let mut out = Vec::new();
        // Scopes of windows, each of which is let go of when its bodies are being written.
        let mut scope = 0;
        let mut before: Option<(usize, Started)> = None;
        let mut tables: Vec<Option<Arc<Symbols>>> = vec![None; groups.len()];
        let mut is_trained = vec![false; groups.len()];
        for (number, (group, lengths)) in groups.iter().zip(lengths).enumerate() {
            while !is_trained[number] {
                match receiver.try_recv() {
                    Ok((number, symbols)) => {
                        is_trained[number] = true;
                        tables[number] = symbols;
                    }
                    // A task that has panicked, which ends this when all are done.
                    Err(mpsc::TryRecvError::Disconnected) => is_trained[number] = true,
                    // Trains itself if all threads are busy with other things.
                    Err(mpsc::TryRecvError::Empty) => match rayon::yield_local() {
                        Some(rayon::Yield::Executed) => {}
                        _ => std::thread::yield_now(),
                    },
                }
            }
            launcher.mark("train")?;
            // Serves all windows of the group.
            launcher.scope = 0;
            let table = match tables[number].take() {
                Some(symbols) => Some(Table::upload(launcher, symbols)?),
                None => None,
            };
            let windows = windows_of(&borders, group, window_bytes);
            let mut whole = (windows.len() == 1).then_some(lengths);
            for chunks in windows {
                scope += 1;
                launcher.scope = scope;
                let lengths = match whole.take() {
                    Some(lengths) => lengths,
                    None => {
                        Lengths::start(launcher, column, rows(&chunks), chunk_rows, raw(&chunks))?
                    }
                };
                let table = table.clone();
                let borders = part(&borders, chunks);
                let window = Window::start(launcher, column, lengths, table, borders, options)?;
                let started = window.encode(launcher, column)?;
                if let Some((scope, before)) = before.replace((scope, started)) {
                    launcher.scope = scope;
                    out.push(before.write(launcher, column)?);
                    launcher.release(scope);
                }
            }
        }
        if let Some((scope, before)) = before {
            launcher.scope = scope;
            out.push(before.write(launcher, column)?);
            launcher.release(scope);
        }
        launcher.scope = 0;
        Ok(Some(out))
    })
}

/// The chunks of a group in windows.
fn windows_of(borders: &[u64], group: &Range<usize>, bytes: usize) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    for chunk in group.clone() {
        match windows.last_mut() {
            Some(window) if (borders[chunk + 1] - borders[window.start]) as usize <= bytes => {
                window.end = chunk + 1;
            }
            _ => windows.push(chunk..chunk + 1),
        }
    }
    windows
}
