//! The bodies of a stretch of chunks, once sizes are known.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::StringColumn;
use super::codes::Codes;
use super::plan::{CODE_LENGTHS, Choice, DERIVED, Known, VALUE_LENGTHS, is_wide, part, starts};
use super::tables::Table;
use crate::chunk::EncodedNode;
use crate::device::column::Bounds;
use crate::encode::MIN_CHUNKS;
use crate::encode::bits::Which;
use crate::encode::launch::Launcher;
use crate::encode::write::{self, HostCopies, Job, Origin, Part, Planned};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{Encoding, Physical, Starts, fsst};
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::strings as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Consecutive chunks, of which all have codes with one table, or none.
pub(super) struct Stretch {
    pub(super) chunks: Range<usize>,
    /// If they have codes.
    pub(super) codes: Option<(Arc<Table>, Codes)>,
}

impl Stretch {
    /// Waits for sizes and starts writing bodies.
    pub(super) fn write(
        mut self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        known: &Known,
        choices: &[Choice],
        borders: &[u64],
    ) -> Result<(Arc<DeviceBuffer>, Vec<Planned>)> {
        if let Some((_, codes)) = &mut self.codes {
            codes.read(launcher)?;
        }
        let chunks = self.chunks.clone().into_par_iter().with_min_len(MIN_CHUNKS);
        let planned: Vec<Planned> = chunks
            .map(|chunk| self.planned(known, &choices[chunk], chunk))
            .collect::<Result<_>>()?;
        let bodies = write::write(launcher, &planned, |launcher, origin, encoding, jobs| {
            let targets = || write::targets(jobs);
            let words = |number: usize| match (number, &self.codes) {
                (VALUE_LENGTHS, _) => Ok(&known.value_words),
                (_, Some((_, codes))) => Ok(&codes.code_words),
                _ => Err(Error::device("lengths of codes in a stretch without")),
            };
            if let (Some(_), Some(validity), Some(bitmaps)) =
                (Which::of(origin), &known.validity, &known.bitmaps)
            {
                return bitmaps.write(launcher, validity, origin, encoding, jobs);
            }
            match (origin, encoding, &self.codes) {
                (Origin::Words(number) | Origin::Transformed(number), ..) if number >= DERIVED => {
                    known.dictionaries.write_codes(launcher, origin, encoding, jobs)
                }
                (Origin::Words(number), ..) => words(number)?.write(launcher, encoding, &targets()),
                (Origin::Transformed(number), ..) => {
                    words(number)?.write_transformed(launcher, encoding, &targets())
                }
                (Origin::Strings, Encoding::Fsst, Some((table, codes))) => {
                    codes.write(launcher, table, jobs)
                }
                (Origin::Host, ..) => {
                    known.dictionaries.write_dictionaries(launcher, self.chunks.start, jobs)
                }
                (Origin::Strings, Encoding::Dict, ..) => {
                    self.write_starts(launcher, known, jobs, STARTS_OF_DICT)
                }
                (Origin::Strings, Encoding::Lz, ..) => {
                    let first = self.chunks.start;
                    let of_chunks = jobs.iter().map(|job| (first + job.chunk, job));
                    known.compressed.write(launcher, of_chunks)?;
                    self.write_starts(launcher, known, jobs, STARTS_OF_LZ)
                }
                (Origin::Strings, Encoding::Constant | Encoding::Plain, ..) => {
                    self.write_plain(launcher, column, known, borders, jobs)
                }
                _ => Err(Error::device(format!("a node of {origin:?} in a column without"))),
            }
        })?;
        Ok((bodies, planned))
    }

    /// A chunk's node and nulls; its bounds are not known yet.
    fn planned(&self, known: &Known, choice: &Choice, chunk: usize) -> Result<Planned> {
        let (rows, options) = (known.rows(chunk), &known.options);
        let node = |plan: &Plan| match (plan.encoding, &self.codes) {
            (Encoding::Fsst, Some((table, codes))) => {
                let number = chunk - self.chunks.start;
                Ok(Some(codes.node(number, table, known, chunk, plan)?))
            }
            (Encoding::Fsst, None) => Err(Error::device("a chunk's codes are missing")),
            _ => known.node_without_codes(chunk, plan).map(Some),
        };
        let root = plan::first_kept(&choice.plan, node, |part: &Part| part.len)?;
        let Some(mut root) = root else {
            return Err(Error::device("strings without an encoding"));
        };
        let mut null_count = 0;
        if let (Some(bitmaps), Some(counted)) = (&known.bitmaps, known.nulls(chunk)) {
            null_count = counted.valid - counted.set;
            root.validity = Some(Box::new(bitmaps.node(chunk, rows, counted, options)?));
        }
        Ok(Planned::new(&root, null_count, Bounds::Strings(None)))
    }

    /// Starts writing constants and plain nodes, but for their children.
    fn write_plain(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        known: &Known,
        borders: &[u64],
        jobs: &[Job],
    ) -> Result<()> {
        let mut copies = Copies::default();
        let mut starts = HostCopies::default();
        for job in jobs {
            let chunk = self.chunks.start + job.chunk;
            let to = job.buffers[0];
            if job.encoding == Encoding::Constant {
                let single = &known.singles[chunk];
                let (from, bytes) = (column.values + single.from, u64::from(single.length));
                copies.spans.push(abi::ByteSpan { from, to, bytes });
                continue;
            }
            copies.add(column, known, borders, chunk, to);
            starts.add(job.buffers[1], &starts_of(known, chunk));
        }
        starts.start(launcher)?;
        copies.start(launcher, column, known)
    }
}

/// Copies of the bytes of chunks: as they are or, where nulls have bytes, too, vector by vector.
#[derive(Default)]
pub(super) struct Copies {
    spans: Vec<abi::ByteSpan>,
    vectors: Vec<abi::GatherVector>,
}

impl Copies {
    pub fn add(
        &mut self,
        column: &StringColumn,
        known: &Known,
        borders: &[u64],
        chunk: usize,
        mut to: u64,
    ) {
        let bytes = known.bytes(chunk) as u64;
        if borders[chunk + 1] - borders[chunk] == bytes {
            let from = column.values + borders[chunk];
            self.spans.push(abi::ByteSpan { from, to, bytes });
            return;
        }
        for (index, vector) in known.vectors(chunk).iter().enumerate() {
            let row = (chunk * known.options.chunk_rows + index * VECTOR) as u32;
            self.vectors.push(abi::GatherVector { to, row, zero: 0 });
            to += vector.bytes;
        }
    }

    pub fn start(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        known: &Known,
    ) -> Result<()> {
        write::copy_spans(launcher, &self.spans)?;
        if self.vectors.is_empty() {
            return Ok(());
        }
        let kernel = column.by_width(kernels::GATHER_STRINGS);
        let arguments = abi::GatherArguments {
            window: known.lengths.window,
            vectors: launcher.upload(&self.vectors)?,
            count: self.vectors.len() as u32,
            zero: 0,
        };
        launcher.launch(kernel, self.vectors.len().div_ceil(kernel.block), &arguments)
    }
}

/// Which buffer says where vectors of rows begin.
const STARTS_OF_DICT: usize = 0;
const STARTS_OF_LZ: usize = 4;

impl Stretch {
    /// Starts copying where the vectors of nodes' rows begin, to one of their buffers.
    fn write_starts(
        &self,
        launcher: &mut Launcher<'_>,
        known: &Known,
        jobs: &[Job],
        buffer: usize,
    ) -> Result<()> {
        let mut starts = HostCopies::default();
        for job in jobs {
            starts.add(job.buffers[buffer], &starts_of(known, self.chunks.start + job.chunk));
        }
        starts.start(launcher)
    }
}

/// Where the vectors of a chunk begin, whose values are stored as they are or not one by one.
fn starts_of(known: &Known, chunk: usize) -> Vec<u8> {
    let mut start = 0;
    let starts = known.vectors(chunk).iter().map(|vector| {
        let before = start;
        start += vector.bytes as usize;
        [before; 2]
    });
    Starts::encode(starts, [known.bytes(chunk); 2])
}

impl Codes {
    /// The node of chunk `chunk`, number `number` of the stretch.
    fn node(
        &self,
        number: usize,
        table: &Table,
        known: &Known,
        chunk: usize,
        plan: &Plan,
    ) -> Result<EncodedNode<Part>> {
        let (rows, bytes) = (known.rows(chunk), known.bytes(chunk));
        let codes = self.totals[number].codes as usize;
        let lengths = self.code_words.plan(number, &Context::new(&known.options, None));
        let lengths = self.code_words.encode(number, &lengths, &known.options, CODE_LENGTHS)?;
        let mut node = EncodedNode::new(Encoding::Fsst, Physical::Bytes, rows);
        node.parameters[0] = bytes as u64;
        node.buffers = vec![
            part(table.len),
            part(codes),
            starts(rows, is_wide(bytes) || is_wide(codes)),
            part(fsst::tiles_len(codes)),
        ];
        node.children = vec![lengths, known.value_lengths(chunk, &plan.children)?];
        Ok(node)
    }

    /// Starts copying codes to their chunks, with tables, starts and tiles.
    fn write(&self, launcher: &mut Launcher<'_>, table: &Table, jobs: &[Job]) -> Result<()> {
        let mut outputs = vec![abi::FsstOutput::default(); self.totals.len()];
        let mut spans = Vec::new();
        for job in jobs {
            let [to, codes, starts, tiles, ..] = job.buffers;
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
        write::copy_spans(launcher, &spans)
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
