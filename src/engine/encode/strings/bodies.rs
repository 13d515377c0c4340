//! The bodies of a stretch of chunks, once sizes are known.

use std::ops::Range;
use std::sync::Arc;

use super::StringColumn;
use super::codes::Codes;
use super::plan::{Choice, Known};
use super::tables::Table;
use crate::chunk::EncodedNode;
use crate::encoding::{Encoding, Physical, fsst};
use crate::engine::column::Bounds;
use crate::engine::encode::bits_node;
use crate::engine::encode::launch::Launcher;
use crate::engine::encode::write::{self, Job, Origin, Part, Planned, Written};
use crate::error::{Error, Result};
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Consecutive chunks, of which all have codes with one table, or none.
pub(super) struct Stretch {
    pub(super) chunks: Range<usize>,
    /// If they have codes.
    pub(super) codes: Option<(Arc<Table>, Codes)>,
}

/// The numbers of words: value lengths of the column, code lengths of the stretch.
const VALUE_LENGTHS: usize = 0;
const CODE_LENGTHS: usize = 1;

impl Stretch {
    /// Waits for sizes and starts writing bodies.
    pub(super) fn write(
        mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        known: &Known,
        choices: &[Choice],
        borders: &[u64],
    ) -> Result<(Written, Vec<Planned>)> {
        if let Some((_, codes)) = &mut self.codes {
            codes.read(launcher)?;
        }
        let planned: Vec<Planned> = (self.chunks.clone())
            .map(|chunk| self.planned(known, &choices[chunk], chunk))
            .collect::<Result<_>>()?;
        let written = write::write(launcher, &planned, |launcher, origin, encoding, jobs| {
            let targets = write::targets(jobs);
            match (origin, &known.validity, &self.codes) {
                (Origin::Words(VALUE_LENGTHS), ..) => {
                    known.value_words.write(launcher, encoding, &targets)
                }
                (Origin::Words(_), _, Some((_, codes))) => {
                    codes.code_words.write(launcher, encoding, &targets)
                }
                (Origin::Validity, Some(validity), _) => {
                    let chunk_rows = known.options.chunk_rows;
                    write::copy_bits(launcher, validity, chunk_rows, &targets, false)
                }
                (Origin::Strings, _, Some((table, codes))) => codes.write(launcher, table, jobs),
                (Origin::Strings, ..) => {
                    self.write_plain(launcher, column, known, choices, borders, jobs)
                }
                _ => Err(Error::device(format!("a node of {origin:?} in a column without"))),
            }
        })?;
        Ok((written, planned))
    }

    /// A chunk's node and nulls; its bounds are not known yet.
    fn planned(&self, known: &Known, choice: &Choice, chunk: usize) -> Result<Planned> {
        let (rows, bytes, options) = (known.rows(chunk), known.bytes(chunk), &known.options);
        let vectors = rows.div_ceil(VECTOR);
        let part = |len: usize| Part { len, origin: Origin::Strings, vector: 0 };
        let values = || {
            let plan = known.value_words.plan(chunk, options);
            known.value_words.node(chunk, &plan, VALUE_LENGTHS)
        };
        let starts = |wide: bool| part(vectors * if wide { 16 } else { 8 });
        let is_wide = |bytes: usize| u32::try_from(bytes).is_err();
        let mut root = match (choice, &self.codes) {
            (Choice::Constant, _) => {
                let mut node = EncodedNode::new(Encoding::Constant, Physical::Bytes, rows);
                node.buffers = vec![part(known.singles[chunk].length as usize)];
                node
            }
            (Choice::Plain, _) => {
                let mut node = EncodedNode::new(Encoding::Plain, Physical::Bytes, rows);
                node.buffers = vec![part(bytes), starts(is_wide(bytes))];
                node.children = vec![values()];
                node
            }
            (Choice::Fsst(table), Some((_, stretch))) => {
                let number = chunk - self.chunks.start;
                let codes = stretch.totals[number].codes as usize;
                let plan = stretch.code_words.plan(number, options);
                let mut node = EncodedNode::new(Encoding::Fsst, Physical::Bytes, rows);
                node.parameters[0] = bytes as u64;
                node.buffers = vec![
                    part(table.len),
                    part(codes),
                    starts(is_wide(bytes) || is_wide(codes)),
                    part(fsst::tiles_len(codes)),
                ];
                let lengths = stretch.code_words.node(number, &plan, CODE_LENGTHS);
                node.children = vec![lengths, values()];
                node
            }
            (Choice::Fsst(_), None) => return Err(Error::device("a chunk's codes are missing")),
        };
        let valid = known.valid[chunk];
        if valid < rows {
            let vector = (chunk * known.chunk_vectors()) as u64;
            let part = Part { len: rows.div_ceil(8), origin: Origin::Validity, vector };
            root.validity = Some(Box::new(bits_node(rows, rows, valid, part, options)));
        }
        Ok(Planned { root, null_count: rows - valid, bounds: Bounds::Strings(None) })
    }

    /// Starts writing constants and plain nodes, but for their children.
    fn write_plain(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        known: &Known,
        choices: &[Choice],
        borders: &[u64],
        jobs: &[Job],
    ) -> Result<()> {
        let mut spans = Vec::new();
        let mut gathered = Vec::new();
        for job in jobs {
            let chunk = self.chunks.start + job.chunk;
            if let Choice::Constant = choices[chunk] {
                let single = &known.singles[chunk];
                spans.push(abi::ByteSpan {
                    from: column.values + single.from,
                    to: job.buffers[0],
                    bytes: u64::from(single.length),
                });
                continue;
            }
            let bytes = known.bytes(chunk) as u64;
            let is_whole = borders[chunk + 1] - borders[chunk] == bytes;
            let mut starts: Vec<u64> = Vec::new();
            let mut start = 0;
            for (index, vector) in known.vectors(chunk).iter().enumerate() {
                starts.extend([start, start]);
                if !is_whole {
                    let row = (chunk * known.options.chunk_rows + index * VECTOR) as u32;
                    gathered.push(abi::GatherVector { to: job.buffers[0] + start, row, zero: 0 });
                }
                start += vector.bytes;
            }
            if is_whole {
                let from = column.values + borders[chunk];
                spans.push(abi::ByteSpan { from, to: job.buffers[0], bytes });
            }
            let starts: Vec<u8> = match u32::try_from(bytes) {
                Ok(_) => starts.iter().flat_map(|start| (*start as u32).to_le_bytes()).collect(),
                Err(_) => starts.iter().flat_map(|start| start.to_le_bytes()).collect(),
            };
            let (from, bytes) = (launcher.upload(&starts)?, starts.len() as u64);
            spans.push(abi::ByteSpan { from, to: job.buffers[1], bytes });
        }
        copy_spans(launcher, &spans)?;
        if gathered.is_empty() {
            return Ok(());
        }
        let kernel = column.by_width(kernels::GATHER_STRINGS);
        let arguments = abi::GatherArguments {
            window: known.lengths.window,
            vectors: launcher.upload(&gathered)?,
            count: gathered.len() as u32,
            zero: 0,
        };
        launcher.launch(kernel, gathered.len().div_ceil(kernel.block), &arguments)
    }
}

impl Codes {
    /// Starts copying codes to their chunks, with tables, starts and tiles.
    fn write(&self, launcher: &mut Launcher<'_>, table: &Table, jobs: &[Job]) -> Result<()> {
        let mut outputs = vec![abi::FsstOutput::default(); self.totals.len()];
        let mut spans = Vec::new();
        for job in jobs {
            let [to, codes, starts, tiles] = job.buffers;
            spans.push(abi::ByteSpan { from: table.address, to, bytes: table.len as u64 });
            outputs[job.chunk] = abi::FsstOutput { codes, starts, tiles };
        }
        let most = self.totals.iter().map(|totals| totals.codes).max().unwrap_or(0) as usize;
        let blocks = most.div_ceil(fsst::TILE * fsst::TILES_PER_GROUP).max(1);
        let window = abi::FsstWindow {
            outputs: launcher.upload(&outputs)?,
            blocks_per_chunk: blocks as u32,
            ..self.window
        };
        launcher.launch(kernels::FSST_PLACE, outputs.len() * blocks, &window)?;
        copy_spans(launcher, &spans)
    }
}

/// The bounds of a chunk.
pub(super) fn bounds_of(bounds: &abi::StringBounds) -> Bounds {
    let head = |which: usize| {
        let len = (bounds.length[which] as usize).min(abi::STRING_HEAD);
        bounds.heads[which][..len].to_vec()
    };
    Bounds::Strings((bounds.has != 0).then(|| [head(0), head(1)]))
}

/// Most blocks that copy a span: each span has as many as the longest.
const SPAN_BLOCKS: usize = 64;

fn copy_spans(launcher: &mut Launcher<'_>, spans: &[abi::ByteSpan]) -> Result<()> {
    let kernel = kernels::COPY_SPANS;
    let most = (SPAN_BLOCKS * kernel.block) as u64;
    let cut: Vec<abi::ByteSpan> = (spans.iter())
        .flat_map(|span| {
            (0..span.bytes).step_by(most as usize).map(|at| abi::ByteSpan {
                from: span.from + at,
                to: span.to + at,
                bytes: (span.bytes - at).min(most),
            })
        })
        .collect();
    let longest = cut.iter().map(|span| span.bytes).max().unwrap_or(0) as usize;
    let blocks = longest.div_ceil(kernel.block);
    if blocks == 0 {
        return Ok(());
    }
    let arguments = abi::SpansArguments {
        spans: launcher.upload(&cut)?,
        blocks_per_span: blocks as u32,
        zero: 0,
    };
    launcher.launch(kernel, cut.len() * blocks, &arguments)
}
