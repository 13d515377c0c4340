//! The encoder of a part of a column, or of all of it, of numbers, wide values or booleans: measured,
//! planned, written.

use std::sync::Arc;

use arrow_schema::DataType;

use super::bits::{BitCounts, Bitmap, Bitmaps};
use super::encoders::Wide;
use super::launch::{Launcher, Pending};
use super::measurements::Measurements;
use super::missing::{self, Requests};
use super::source::Column;
use super::tree::{Tree, WordsPart};
use super::words::{self, Words};
use super::write::{self, Origin, Planned};
use crate::chunk::EncodedNode;
use crate::device::column::Bounds;
use crate::encoding::Physical;
use crate::encoding::plan;
use crate::encoding::statistics::Missing;
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, abi};
use crate::options::Options;

/// The number of a column's values among its words.
const VALUES: usize = 0;

/// A column whose values have been read once.
pub(super) struct PartEncoder {
    chunk_rows: usize,
    /// The values first, and what is derived from them.
    tree: Tree,
    /// Values of Float16 in their order, which is not that of their bits.
    halves: Option<Words>,
    /// The values, if they have more than 64 bits; `tree` then holds their words.
    wide: Option<Wide>,
    /// Valid rows and set bits of each chunk, if there may be nulls or values are bits.
    counts: Option<Pending<[u32; 2]>>,
    /// Bits of values, and of validity, once they are planned.
    booleans: Option<Bitmaps>,
    validity: Option<Bitmaps>,
}

impl PartEncoder {
    /// Bytes of device memory that [`PartEncoder::start`] and what follows need beside the
    /// result.
    pub fn scratch_bytes(column: &Column, options: &Options) -> usize {
        let (rows, physical) = (column.rows, column.physical());
        let words = |physical| {
            let asked = Measurements::by(&plan::Context::new(options, None), physical);
            words::scratch_bytes(physical, rows, options.chunk_rows, asked)
        };
        let counts = rows.div_ceil(options.chunk_rows) * 8;
        counts
            + match physical.bits().unwrap_or(0) {
                1 => 0,
                bits @ (128 | 256) => Wide::scratch_bytes(rows) + bits / 64 * words(Physical::U64),
                _ if column.data_type() == &DataType::Float16 => 2 * words(physical),
                _ => words(physical),
            }
    }

    /// Starts measuring a column.
    pub fn start(launcher: &mut Launcher<'_>, column: &Column, options: &Options) -> Result<Self> {
        let chunk_rows = options.chunk_rows;
        let tree = Tree::new(options);
        let mut encoder = Self {
            chunk_rows,
            tree,
            halves: None,
            wide: None,
            counts: None,
            booleans: None,
            validity: None,
        };
        if column.rows == 0 {
            return Ok(encoder);
        }
        let physical = column.physical();
        let has_nulls = column.valid.is_some() && column.leaves.is_none();
        if physical == Physical::Bool || has_nulls {
            encoder.counts = Some(write::count_bits(launcher, column, chunk_rows)?);
        }
        if physical == Physical::Bool {
            return Ok(encoder);
        }
        if physical.bits().is_some_and(|bits| bits > 64) {
            encoder.wide = Some(Wide::measure(launcher, column, chunk_rows)?);
            return Ok(encoder);
        }
        let source = abi::Source { order: abi::order_of(physical), ..column.source(chunk_rows) };
        let asked = Measurements::by(&plan::Context::new(options, None), physical);
        let words = Words::of_column(launcher, column, physical, source, asked)?;
        let context = plan::Context::new(options, None);
        encoder.tree.add(words.in_memory(column.is_padded), &context);
        if column.data_type() == &DataType::Float16 {
            let source = abi::Source { order: abi::FLOAT, ..source };
            encoder.halves =
                Some(Words::measure(launcher, physical, source, Measurements::BOUNDS)?);
        }
        Ok(encoder)
    }

    /// Waits, and plans every chunk.
    pub fn plan(
        &mut self,
        launcher: &mut Launcher<'_>,
        column: &Column,
        options: &Options,
    ) -> Result<Vec<Planned>> {
        let context = plan::Context::new(options, None);
        let is_wide = self.wide.is_some();
        let has_words = column.rows > 0 && column.physical() != Physical::Bool;
        if let Some(wide) = &mut self.wide {
            wide.read(launcher, column, &mut self.tree, &context)?;
        }
        if let Some(halves) = &mut self.halves {
            halves.read(launcher)?;
        }
        if has_words && !is_wide {
            self.tree.words_mut(VALUES).read(launcher)?;
        }
        let chunks = column.rows.div_ceil(self.chunk_rows);
        let counts: Vec<[u32; 2]> = match &self.counts {
            Some(counts) => launcher.read(counts)?,
            None => Vec::new(),
        };
        let chunk_rows = self.chunk_rows;
        let rows = |chunk: usize| column.rows_of(chunk, chunk_rows);
        // Whether rows are valid, as bits of which all are; none of chunks without nulls.
        let nulls = |chunk: usize| {
            let [valid, _] = *counts.get(chunk)?;
            let counted = BitCounts { valid: rows(chunk), set: valid as usize };
            (counted.set < counted.valid).then_some(counted)
        };
        let values = |chunk: usize| {
            let [valid, set] = *counts.get(chunk)?;
            Some(BitCounts { valid: valid as usize, set: set as usize })
        };
        let mut bitmaps = |which, of: &dyn Fn(usize) -> Option<BitCounts>| {
            let counted: Vec<Option<BitCounts>> = (0..chunks).map(of).collect();
            Bitmaps::measure(launcher, column, which, &counted, options)
        };
        if column.physical() == Physical::Bool {
            self.booleans = Some(bitmaps(Bitmap::Values, &values)?);
        }
        if column.valid.is_some() && column.leaves.is_none() {
            self.validity = Some(bitmaps(Bitmap::Validity, &nulls)?);
        }
        let chunk = |encoder: &Self,
                     index: usize,
                     requests: &Requests<(usize, WordsPart)>|
         -> Result<Option<Planned>> {
            let Self { tree, halves, wide, booleans, validity, .. } = encoder;
            let (root, bounds) = match wide {
                Some(wide) => {
                    let node = wide.node(index, tree, &context, requests)?;
                    (node, Bounds::Wide(wide.bounds(index)))
                }
                None if has_words => {
                    let ordered = halves.as_ref().unwrap_or(tree.words(VALUES));
                    let statistics = tree.chunk(VALUES, index, requests);
                    let node = match plan::plan_root(&statistics, &context) {
                        Ok(plan) => {
                            let node = tree.encode(VALUES, index, &plan, requests)?;
                            node.map(|node| (plan.bytes, node))
                        }
                        Err(Missing) => None,
                    };
                    (node, Bounds::Words(ordered.bounds(index)))
                }
                None => match (booleans, values(index)) {
                    (Some(booleans), Some(counted)) => {
                        let node = booleans.node(index, counted, requests)?;
                        (node, Bounds::Counts(counted.valid, counted.set))
                    }
                    _ => return Err(Error::device("booleans that have not been counted")),
                },
            };
            let mut null_count = 0;
            let of_validity = match (validity, nulls(index)) {
                (Some(validity), Some(counted)) => {
                    null_count = counted.valid - counted.set;
                    let node = validity.node(index, counted, requests)?;
                    let Some((_, node)) = node else { return Ok(None) };
                    Some(Box::new(node))
                }
                _ => None,
            };
            let Some((plan_bytes, root)) = root else { return Ok(None) };
            let root = EncodedNode { validity: of_validity, ..root };
            Ok(Some(Planned::new(&root, plan_bytes, null_count, bounds)))
        };
        missing::complete(launcher, self, chunks, chunk, Self::compute)
    }

    /// Computes what chunks miss of words, and of bits as bytes; waits.
    fn compute(
        &mut self,
        launcher: &mut Launcher<'_>,
        missing: Vec<(usize, (usize, WordsPart))>,
    ) -> Result<()> {
        let mut of_bits = [Vec::new(), Vec::new()];
        let mut of_words = Vec::with_capacity(missing.len());
        for one in missing {
            let (_, (number, _)) = one;
            match Bitmap::of_words(number) {
                Some(which) => of_bits[which as usize].push(one),
                None => of_words.push(one),
            }
        }
        self.tree.compute(launcher, of_words)?;
        let bitmaps = [&mut self.booleans, &mut self.validity].into_iter().zip(of_bits);
        for (bitmaps, missing) in bitmaps {
            if let (Some(bitmaps), false) = (bitmaps, missing.is_empty()) {
                bitmaps.compute(launcher, missing)?;
            }
        }
        Ok(())
    }

    /// Starts writing planned chunks.
    pub fn write(
        &self,
        launcher: &mut Launcher<'_>,
        column: &Column,
        planned: &[Planned],
    ) -> Result<Arc<DeviceBuffer>> {
        write::write(launcher, planned, |launcher, origin, encoding, jobs| {
            let bitmaps = Bitmap::of(origin).and_then(|which| match which {
                Bitmap::Values => self.booleans.as_ref(),
                Bitmap::Validity => self.validity.as_ref(),
            });
            match (origin, bitmaps, &self.wide) {
                (_, Some(bitmaps), _) => bitmaps.write(launcher, column, origin, encoding, jobs),
                (Origin::Words(_) | Origin::Transformed(_), ..) => {
                    self.tree.write(launcher, origin, encoding, jobs)
                }
                (Origin::Wide, _, Some(wide)) => wide.write(launcher, &write::targets(jobs)),
                _ => Err(Error::device(format!("a node of {origin:?} in a column without"))),
            }
        })
    }
}
