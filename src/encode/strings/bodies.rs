//! The bodies of a stretch of chunks, once sizes are known.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::StringColumn;
use super::chunks::{
    Family, STARTS_OF_DICT, STARTS_OF_FRONT, STARTS_OF_LZ, StringChunks, string_form,
};
use super::codes::Codes;
use super::plan::{ChunkChoice, MeasuredColumn};
use super::tables::Table;
use crate::chunk::StringForm;
use crate::device::column::Bounds;
use crate::encode::MIN_CHUNKS;
use crate::encode::bits::Bitmap;
use crate::encode::launch::Launcher;
use crate::encode::write::{self, Job, Origin, PendingBuffer, Planned};
use crate::encoding::Encoding;
use crate::encoding::plan::{self, Plan};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr};
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
        measured: &MeasuredColumn,
        choices: &[ChunkChoice],
        borders: &[u64],
    ) -> Result<(Arc<DeviceBuffer>, Vec<Planned>)> {
        if let Some((_, codes)) = &mut self.codes {
            codes.read(launcher)?;
        }
        let chunks = self.chunks.clone().into_par_iter().with_min_len(MIN_CHUNKS);
        let planned: Vec<Planned> = chunks
            .map(|chunk| self.planned(measured, &choices[chunk], chunk))
            .collect::<Result<_>>()?;
        let bodies = write::write(launcher, &planned, |launcher, origin, encoding, jobs| {
            let targets = || write::targets(jobs);
            if let (Some(_), Some(validity), Some(bitmaps)) =
                (Bitmap::of(origin), &measured.validity, &measured.bitmaps)
            {
                return bitmaps.write(launcher, validity, origin, encoding, jobs);
            }
            let strings = &measured.strings;
            let family = match origin {
                Origin::Words(number) | Origin::Transformed(number) => Family::of(number),
                Origin::Strings(family) => family,
                _ => return Err(Error::device(format!("a node of {origin:?} in strings"))),
            };
            let is_words = !matches!(origin, Origin::Strings(_));
            match (family, is_words, &measured.fronts) {
                (Family::Column, true, _) => {
                    let words = match (origin, &self.codes) {
                        (Origin::Words(number) | Origin::Transformed(number), _)
                            if number == Family::Column.value_lengths() =>
                        {
                            &strings.value_words
                        }
                        (_, Some((_, codes))) => &codes.code_words,
                        _ => return Err(Error::device("lengths of codes in a stretch without")),
                    };
                    match origin {
                        Origin::Transformed(_) => {
                            words.write_transformed(launcher, encoding, &targets())
                        }
                        _ => words.write(launcher, encoding, &targets()),
                    }
                }
                (Family::Column, false, _) => {
                    self.write_strings(launcher, column, measured, borders, encoding, jobs)
                }
                (Family::Suffixes, true, Some(fronts)) => {
                    fronts.write_words(launcher, origin, encoding, jobs)
                }
                (Family::Suffixes, false, Some(fronts)) => {
                    fronts.write_suffixes(launcher, encoding, self.of_column(jobs))
                }
                (Family::Suffixes, _, None) => Err(Error::device("suffixes in a column without")),
                (Family::Distinct | Family::SuffixesOfDistinct, true, _) => {
                    measured.dictionaries.write_words(launcher, origin, encoding, jobs)
                }
                (Family::Distinct | Family::SuffixesOfDistinct, false, _) => {
                    let jobs = self.of_column(jobs);
                    measured.dictionaries.write_strings(launcher, family, encoding, jobs)
                }
            }
        })?;
        Ok((bodies, planned))
    }

    /// Starts writing nodes of the column's strings, but for their children.
    fn write_strings(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        measured: &MeasuredColumn,
        borders: &[u64],
        encoding: Encoding,
        jobs: &[Job],
    ) -> Result<()> {
        let (strings, of_column) = (&measured.strings, self.of_column(jobs));
        match string_form(encoding)? {
            StringForm::Codes => match &self.codes {
                Some((table, codes)) => {
                    let of_span = jobs.iter().map(|job| (job.chunk, job));
                    codes.runs.write(launcher, table, &codes.sizes, of_span)
                }
                None => Err(Error::device("codes of strings in a stretch without")),
            },
            StringForm::Prefixes => strings.write_starts(launcher, of_column, STARTS_OF_FRONT),
            StringForm::Lookup => strings.write_starts(launcher, of_column, STARTS_OF_DICT),
            StringForm::Segments => {
                measured.compressed.write(launcher, self.of_column(jobs))?;
                strings.write_starts(launcher, of_column, STARTS_OF_LZ)
            }
            StringForm::One => self.write_constants(launcher, column, measured, jobs),
            StringForm::Bytes => strings.write_plain(launcher, column, borders, of_column),
        }
    }

    /// A chunk's node and nulls; its bounds are not known yet.
    fn planned(
        &self,
        measured: &MeasuredColumn,
        choice: &ChunkChoice,
        chunk: usize,
    ) -> Result<Planned> {
        let node = |plan: &Plan| match (string_form(plan.encoding)?, &self.codes) {
            (StringForm::Codes, Some((table, codes))) => {
                let number = chunk - self.chunks.start;
                let bytes = codes.sizes[number].codes as usize;
                let lengths = (&codes.code_words, number);
                measured.strings.codes_node(chunk, table, bytes, lengths, plan).map(Some)
            }
            _ => measured.node_without_codes(chunk, plan).map(Some),
        };
        let root = plan::first_kept(&choice.plan, node, |part: &PendingBuffer| part.len)?;
        let Some(mut root) = root else {
            return Err(Error::device("strings without an encoding"));
        };
        let mut null_count = 0;
        if let Some(counted) = measured.nulls(chunk) {
            null_count = counted.valid - counted.set;
            root.validity = measured.validity_nodes.get(chunk).cloned().flatten().map(Box::new);
        }
        Ok(Planned::new(&root, choice.plan.bytes, null_count, Bounds::Strings(None)))
    }

    /// Starts writing constants.
    fn write_constants(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        measured: &MeasuredColumn,
        jobs: &[Job],
    ) -> Result<()> {
        let span = |job: &Job| {
            let single = &measured.singles[self.chunks.start + job.chunk];
            let from = column.values.add(single.from as usize);
            abi::ByteSpan { from, to: job.buffers[0], bytes: u64::from(single.length) }
        };
        write::copy_spans(launcher, &jobs.iter().map(span).collect::<Vec<_>>())
    }

    /// Jobs with the numbers of their chunks in the column.
    fn of_column<'j>(&self, jobs: &'j [Job]) -> impl Iterator<Item = (usize, &'j Job)> {
        let first = self.chunks.start;
        jobs.iter().map(move |job| (first + job.chunk, job))
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
        chunks: &StringChunks,
        borders: &[u64],
        chunk: usize,
        mut to: DevicePtr<u8>,
    ) {
        let bytes = chunks.bytes(chunk) as u64;
        if borders[chunk + 1] - borders[chunk] == bytes {
            let from = column.values.add(borders[chunk] as usize);
            self.spans.push(abi::ByteSpan { from, to, bytes });
            return;
        }
        for (index, vector) in chunks.vectors(chunk).iter().enumerate() {
            let row = ((chunk * chunks.chunk_vectors() + index) * VECTOR) as u32;
            self.vectors.push(abi::GatherVector { to, row, zero: 0 });
            to = to.add(vector.bytes as usize);
        }
    }

    pub fn start(
        &self,
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        chunks: &StringChunks,
    ) -> Result<()> {
        write::copy_spans(launcher, &self.spans)?;
        if self.vectors.is_empty() {
            return Ok(());
        }
        let kernel = column.by_width(kernels::GATHER_STRINGS);
        let arguments = abi::GatherStringsArguments {
            view: chunks.lengths.view,
            vectors: launcher.upload(&self.vectors)?,
            count: self.vectors.len() as u32,
            zero: 0,
        };
        launcher.launch(kernel, self.vectors.len().div_ceil(kernel.block), &arguments)
    }
}

/// The bounds of a chunk.
pub(super) fn bounds_of(bounds: &abi::StringBounds) -> Bounds {
    let head = |which: usize| {
        let (bytes, len) = (&bounds.heads[which], bounds.length[which] as usize);
        bytes[..len.min(bytes.len())].to_vec()
    };
    Bounds::Strings((bounds.has != 0).then(|| [head(0), head(1)]))
}
