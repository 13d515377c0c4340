//! The bodies of a window, once sizes are known.

use super::StringColumn;
use super::window::{Choice, Encoded, Window};
use crate::chunk::EncodedNode;
use crate::encoding::{Encoding, Physical, fsst};
use crate::engine::column::Bounds;
use crate::engine::encode::bits_node;
use crate::engine::encode::launch::Launcher;
use crate::engine::encode::write::{self, Job, Origin, Part, Planned, Written};
use crate::error::Result;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// A window whose codes are under way.
pub(super) struct Started {
    pub(super) window: Window,
    pub(super) choices: Vec<Choice>,
    pub(super) encoded: Vec<Encoded>,
    pub(super) bounds: Vec<abi::StringBounds>,
    pub(super) valid: Vec<usize>,
}

/// Words 0 are the value lengths, those behind them the code lengths of each job.
pub(super) const VALUE_LENGTHS: usize = 0;

impl Started {
    /// Waits for sizes and starts writing bodies.
    pub(super) fn write(
        mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
    ) -> Result<(Written, Vec<Planned>)> {
        for encoded in &mut self.encoded {
            encoded.totals = launcher.read(&encoded.chunks)?;
            encoded.code_words.read(launcher)?;
        }
        let planned: Vec<Planned> =
            (0..self.window.chunks()).map(|chunk| self.planned(chunk)).collect();
        let written = write::write(launcher, &planned, |launcher, origin, encoding, jobs| {
            let targets = write::targets(jobs);
            match (origin, &self.window.validity) {
                (Origin::Words(VALUE_LENGTHS), _) => {
                    self.window.value_words.write(launcher, encoding, &targets)
                }
                (Origin::Words(number), _) => {
                    self.encoded[number - 1].code_words.write(launcher, encoding, &targets)
                }
                (Origin::Validity, Some(validity)) => {
                    let chunk_rows = self.window.options.chunk_rows;
                    write::copy_bits(launcher, validity, chunk_rows, &targets, false)
                }
                _ => self.write_strings(launcher, column, encoding, jobs),
            }
        })?;
        Ok((written, planned))
    }

    /// A chunk's node, bounds and nulls.
    pub(super) fn planned(&self, chunk: usize) -> Planned {
        let window = &self.window;
        let (rows, bytes, options) = (window.rows(chunk), window.bytes(chunk), &window.options);
        let vectors = rows.div_ceil(VECTOR);
        let part = |len: usize| Part { len, origin: Origin::Strings, vector: 0 };
        let values = || {
            let plan = window.value_words.plan(chunk, options);
            window.value_words.node(chunk, &plan, VALUE_LENGTHS)
        };
        let bounds = &self.bounds[chunk];
        let starts = |wide: bool| part(vectors * if wide { 16 } else { 8 });
        let is_wide = |bytes: usize| u32::try_from(bytes).is_err();
        let mut root = match self.choices[chunk] {
            Choice::Constant => {
                let mut node = EncodedNode::new(Encoding::Constant, Physical::Bytes, rows);
                node.buffers = vec![part(bounds.length[0] as usize)];
                node
            }
            Choice::Plain => {
                let mut node = EncodedNode::new(Encoding::Plain, Physical::Bytes, rows);
                node.buffers = vec![part(bytes), starts(is_wide(bytes))];
                node.children = vec![values()];
                node
            }
            Choice::Fsst(job, number) => {
                let Encoded { table, code_words, totals, .. } = &self.encoded[job];
                let codes = totals[number].codes as usize;
                let plan = code_words.plan(number, options);
                let mut node = EncodedNode::new(Encoding::Fsst, Physical::Bytes, rows);
                node.parameters[0] = bytes as u64;
                node.buffers = vec![
                    part(table.len),
                    part(codes),
                    starts(is_wide(bytes) || is_wide(codes)),
                    part(fsst::tiles_len(codes)),
                ];
                node.children = vec![code_words.node(number, &plan, job + 1), values()];
                node
            }
        };
        let valid = self.valid[chunk];
        if valid < rows {
            let vector = (chunk * window.chunk_vectors()) as u64;
            let part = Part { len: rows.div_ceil(8), origin: Origin::Validity, vector };
            root.validity = Some(Box::new(bits_node(rows, rows, valid, part, options)));
        }
        let head = |which: usize| {
            let len = (bounds.length[which] as usize).min(abi::STRING_HEAD);
            bounds.heads[which][..len].to_vec()
        };
        let bounds = (bounds.has != 0).then(|| [head(0), head(1)]);
        Planned { root, null_count: rows - valid, bounds: Bounds::Strings(bounds) }
    }

    /// Starts writing nodes of one encoding, but for their children.
    pub(super) fn write_strings(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        let window = &self.window;
        let mut spans = Vec::new();
        let mut gathered = Vec::new();
        let mut outputs: Vec<Vec<abi::FsstOutput>> = (self.encoded.iter())
            .map(|encoded| vec![abi::FsstOutput::default(); encoded.totals.len()])
            .collect();
        for job in jobs {
            let chunk = job.chunk;
            let border = window.borders[chunk];
            match self.choices[chunk] {
                Choice::Constant => spans.push(abi::ByteSpan {
                    from: column.values + self.bounds[chunk].from,
                    to: job.buffers[0],
                    bytes: u64::from(self.bounds[chunk].length[0]),
                }),
                Choice::Plain => {
                    let bytes = window.bytes(chunk) as u64;
                    let is_whole = window.borders[chunk + 1] - border == bytes;
                    let mut starts: Vec<u64> = Vec::new();
                    let mut start = 0;
                    for (index, vector) in window.vectors(chunk).iter().enumerate() {
                        starts.extend([start, start]);
                        if !is_whole {
                            let row = chunk * window.options.chunk_rows + index * VECTOR;
                            let to = job.buffers[0] + start;
                            gathered.push(abi::GatherVector { to, row: row as u32, zero: 0 });
                        }
                        start += vector.bytes;
                    }
                    if is_whole {
                        let from = column.values + border;
                        spans.push(abi::ByteSpan { from, to: job.buffers[0], bytes });
                    }
                    let (from, len) = match u32::try_from(bytes) {
                        Ok(_) => {
                            let narrow: Vec<u32> =
                                starts.iter().map(|start| *start as u32).collect();
                            (launcher.upload(&narrow)?, narrow.len() * 4)
                        }
                        Err(_) => (launcher.upload(&starts)?, starts.len() * 8),
                    };
                    spans.push(abi::ByteSpan { from, to: job.buffers[1], bytes: len as u64 });
                }
                Choice::Fsst(number, index) => {
                    let table = &self.encoded[number].table;
                    let (from, bytes) = (table.address, table.len as u64);
                    spans.push(abi::ByteSpan { from, to: job.buffers[0], bytes });
                    outputs[number][index] = abi::FsstOutput {
                        codes: job.buffers[1],
                        starts: job.buffers[2],
                        tiles: job.buffers[3],
                    };
                }
            }
        }
        if encoding == Encoding::Fsst {
            for (encoded, outputs) in self.encoded.iter().zip(&outputs) {
                encoded.place(launcher, outputs)?;
            }
        }
        let longest = spans.iter().map(|span| span.bytes).max().unwrap_or(0) as usize;
        if longest > 0 {
            let blocks = longest.div_ceil(kernels::COPY_SPANS.block);
            let arguments = abi::SpansArguments {
                spans: launcher.upload(&spans)?,
                blocks_per_span: blocks as u32,
                zero: 0,
            };
            launcher.launch(kernels::COPY_SPANS, spans.len() * blocks, &arguments)?;
        }
        if !gathered.is_empty() {
            let kernel = column.by_width(kernels::GATHER_STRINGS);
            let arguments = abi::GatherArguments {
                window: window.lengths.window,
                vectors: launcher.upload(&gathered)?,
                count: gathered.len() as u32,
                zero: 0,
            };
            launcher.launch(kernel, gathered.len().div_ceil(kernel.block), &arguments)?;
        }
        Ok(())
    }
}

impl Encoded {
    /// Starts copying codes to their chunks, with starts and tiles.
    pub(super) fn place(
        &self,
        launcher: &mut Launcher<'_>,
        outputs: &[abi::FsstOutput],
    ) -> Result<()> {
        let most = self.totals.iter().map(|totals| totals.codes).max().unwrap_or(0) as usize;
        let tiles = most.div_ceil(fsst::TILE);
        let blocks = tiles.div_ceil(kernels::FSST_INDEX.block).max(1);
        let window = abi::FsstWindow {
            outputs: launcher.upload(outputs)?,
            blocks_per_chunk: blocks as u32,
            ..self.lengths_window
        };
        let place = kernels::FSST_PLACE;
        launcher.launch(place, self.runs.div_ceil(place.block), &window)?;
        launcher.launch(kernels::FSST_INDEX, outputs.len() * blocks, &window)
    }
}
