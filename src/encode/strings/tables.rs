//! Symbol tables, trained on the device on samples of the column, and what they make of
//! chunks.
//!
//! ```text
//! ranges --fsst_pick--> pieces --fsst_train_*, a few generations--> tables (stay there)
//! chunks --fsst_estimate, with a table each--> code bytes of a sample
//! ```
//!
//! All tables are trained at the same time, as one alone leaves most of a GPU idle.

use std::ops::Range;
use std::sync::Arc;

use super::StringColumn;
use super::lengths::{Arrays, Lengths};
use crate::encode::launch::{Launcher, Pending, Scope};
use crate::encoding::fsst::{self, SampledCodes, SymbolTable, Trained};
use crate::error::{Error, Result};
use crate::gpu::abi;
use crate::gpu::kernels::{self, Kernel};
use crate::gpu::{DeviceBuffer, DevicePtr};

/// Tables that are trained at a time.
const TRAINERS: usize = 32;

/// Bytes of scratch that training a table needs, but for its sample.
const TRAINER_BYTES: usize = size_of::<abi::FsstTrainer>();

/// Most blocks that pick the pieces of a table, and that estimate a chunk.
const PICK_BLOCKS: usize = 64;
const ESTIMATE_BLOCKS: usize = 4;

/// Bytes of scratch that training so many tables needs.
pub(super) fn scratch_bytes(tables: usize) -> usize {
    let piece = size_of::<abi::FsstPiece>();
    tables * size_of::<abi::FsstTrained>()
        + tables.min(TRAINERS) * (TRAINER_BYTES + fsst::MOST_SAMPLE * piece)
}

/// Memory for the training of tables, so many at a time, ready for the first ones.
pub(super) struct Trainers {
    scratch: Arc<DeviceBuffer>,
    count: usize,
    pieces: usize,
}

impl Trainers {
    pub(super) fn prepare(launcher: &mut Launcher<'_>, tables: usize) -> Result<Self> {
        let count = tables.min(TRAINERS);
        let mut arrays = Arrays::default();
        arrays.add(count * TRAINER_BYTES);
        let pieces = arrays.add(count * fsst::MOST_SAMPLE * size_of::<abi::FsstPiece>());
        let scratch =
            launcher.in_scope(Scope::Training, |launcher| launcher.allocate(arrays.len))?;
        let trainers = Self { scratch, count, pieces };
        trainers.clear(launcher)?;
        Ok(trainers)
    }

    fn clear(&self, launcher: &Launcher<'_>) -> Result<()> {
        launcher.stream.fill(&self.scratch, 0, self.count * TRAINER_BYTES, 0)
    }
}

/// A table in device memory.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) trained: Trained,
    pub(super) pointer: DevicePtr<u8>,
    pub(super) len: usize,
}

/// A table, and what it makes of a sample of a chunk.
#[derive(Debug, Clone)]
pub(super) struct TableSample {
    pub(super) table: Arc<Table>,
    pub(super) sampled: SampledCodes,
}

/// Symbol tables of groups of chunks.
#[derive(Clone, Copy)]
pub(super) struct GroupTables<'a> {
    pub(super) groups: &'a [Range<usize>],
    /// One for each group that has one.
    pub(super) tables: &'a [Option<Arc<Table>>],
    /// The first of all, which are stored contiguously.
    pub(super) first: DevicePtr<abi::FsstTrained>,
}

impl GroupTables<'_> {
    /// The group of a chunk.
    pub(super) fn group_of(&self, chunk: usize) -> usize {
        self.groups.partition_point(|group| group.end <= chunk)
    }

    /// The table of a chunk's group.
    pub(super) fn table_of(&self, chunk: usize) -> Option<&Arc<Table>> {
        self.tables.get(self.group_of(chunk))?.as_ref()
    }
}

/// Tables that are being trained, one for each range.
pub(super) struct Tables {
    trained: Arc<DeviceBuffer>,
    pending: Pending<abi::FsstTrained>,
}

impl Tables {
    /// Starts training a table for each range, whose `table` is its place among them.
    pub(super) fn train(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        ranges: &[abi::FsstRange],
        trainers: Trainers,
    ) -> Result<Self> {
        let bytes = ranges.len() * size_of::<abi::FsstTrained>();
        let trained = launcher.allocate(bytes)?;
        launcher.stream.fill(&trained, 0, bytes, 0)?;
        launcher.in_scope(Scope::Training, |launcher| {
            Self::start(launcher, column, lengths, ranges, &trainers, trained.pointer())
        })?;
        launcher.release(Scope::Training);
        let pending = launcher.result(&trained, 0, ranges.len())?;
        Ok(Self { trained, pending })
    }

    fn start(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        ranges: &[abi::FsstRange],
        trainers: &Trainers,
        trained: DevicePtr<abi::FsstTrained>,
    ) -> Result<()> {
        let capacity = fsst::MOST_SAMPLE;
        let all = launcher.upload(ranges)?;
        let pick = column.by_width(kernels::FSST_PICK);
        let most = column.rows + column.value_bytes / fsst::PIECE;
        let pick_blocks = most.div_ceil(pick.block).min(PICK_BLOCKS);
        for (batch, ranges) in ranges.chunks(trainers.count.max(1)).enumerate() {
            let first = batch * trainers.count;
            if batch > 0 {
                trainers.clear(launcher)?;
            }
            let sampling = abi::FsstSampling {
                view: lengths.view,
                before: lengths.before,
                ranges: all.add(first),
                pieces: trainers.scratch.pointer_at(trainers.pieces),
                trained,
                least: fsst::LEAST_SAMPLE as u32,
                most: fsst::MOST_SAMPLE as u32,
                capacity: capacity as u32,
                blocks_per_range: pick_blocks as u32,
                ..Default::default()
            };
            launcher.launch(pick, ranges.len() * pick_blocks, &sampling)?;
            let training = abi::FsstTraining {
                values: column.values,
                pieces: sampling.pieces,
                trained: trained.add(first),
                trainers: trainers.scratch.pointer(),
                capacity: capacity as u32,
                ..Default::default()
            };
            generations(launcher, ranges.len(), training)?;
        }
        Ok(())
    }

    /// Where a table will be.
    pub(super) fn pointer(&self, table: usize) -> DevicePtr<u8> {
        self.trained.pointer::<abi::FsstTrained>().add(table).cast()
    }

    /// Waits for the tables; none for ranges without any bytes worth it.
    pub(super) fn read(&self, launcher: &Launcher<'_>) -> Result<Vec<Option<Arc<Table>>>> {
        let trained = launcher.read(&self.pending)?;
        (trained.iter().enumerate())
            .map(|(index, trained)| {
                if trained.pieces == 0 {
                    return Ok(None);
                }
                let counts = trained.table.iter().take(8);
                let len = 8 + (1..).zip(counts).map(|(len, n)| len * *n as usize).sum::<usize>();
                (trained.table.get(..len))
                    .ok_or_else(|| format!("{len} bytes"))
                    .and_then(SymbolTable::try_from_bytes)
                    .map_err(|error| Error::device(format!("a trained table: {error}")))?;
                Ok(Some(Arc::new(Table {
                    trained: Trained { codes: trained.codes.into(), bytes: trained.bytes },
                    pointer: self.pointer(index),
                    len,
                })))
            })
            .collect()
    }

    /// Where the first of them will be, with the others behind it.
    pub(super) fn first(&self) -> DevicePtr<abi::FsstTrained> {
        self.trained.pointer()
    }
}

/// Tables of ranges' own, which are being trained, and what they make of samples.
pub(super) struct OwnTables {
    pub(super) tables: Tables,
    pub(super) samples: Pending<abi::FsstSample>,
}

impl OwnTables {
    /// Starts training a table for each range, whose `table` is its place among them.
    pub(super) fn train(
        launcher: &mut Launcher<'_>,
        column: &StringColumn,
        lengths: &Lengths,
        ranges: Vec<abi::FsstRange>,
    ) -> Result<Self> {
        let trainers = Trainers::prepare(launcher, ranges.len())?;
        let tables = Tables::train(launcher, column, lengths, &ranges, trainers)?;
        let samples = estimate(launcher, column, lengths, &ranges, tables.first())?;
        Ok(Self { tables, samples })
    }

    /// Waits for them.
    pub(super) fn read(self, launcher: &Launcher<'_>) -> Result<Vec<Option<TableSample>>> {
        let (tables, samples) = (self.tables.read(launcher)?, launcher.read(&self.samples)?);
        Ok(samples_of(tables, &samples).collect())
    }
}

/// What tables make of samples.
pub(super) fn samples_of(
    tables: Vec<Option<Arc<Table>>>,
    samples: &[abi::FsstSample],
) -> impl Iterator<Item = Option<TableSample>> {
    (tables.into_iter().zip(samples))
        .map(|(table, sample)| Some(TableSample { table: table?, sampled: sampled(sample)? }))
}

/// Starts encoding a sample of each range with its table; nothing is written. The tables are
/// stored contiguously from `tables` on.
pub(super) fn estimate(
    launcher: &mut Launcher<'_>,
    column: &StringColumn,
    lengths: &Lengths,
    ranges: &[abi::FsstRange],
    tables: DevicePtr<abi::FsstTrained>,
) -> Result<Pending<abi::FsstSample>> {
    let bytes = ranges.len() * size_of::<abi::FsstSample>();
    let samples = launcher.allocate(bytes)?;
    launcher.stream.fill(&samples, 0, bytes, 0)?;
    let arguments = abi::FsstSampling {
        view: lengths.view,
        before: lengths.before,
        ranges: launcher.upload(ranges)?,
        trained: tables,
        samples: samples.pointer(),
        capacity: fsst::ESTIMATE_PIECES as u32,
        blocks_per_range: ESTIMATE_BLOCKS as u32,
        ..Default::default()
    };
    let kernel = column.by_width(kernels::FSST_ESTIMATE);
    launcher.launch(kernel, ranges.len() * ESTIMATE_BLOCKS, &arguments)?;
    launcher.result(&samples, 0, ranges.len())
}

/// Starts the generations of some tables, as `SymbolTable::train` has them.
fn generations(
    launcher: &mut Launcher<'_>,
    tables: usize,
    training: abi::FsstTraining,
) -> Result<()> {
    let shared = |launcher: &mut Launcher<'_>, kernel: Kernel<_>, training: &abi::FsstTraining| {
        // Blocks cost the emulation much more than what they do.
        let blocks = if launcher.is_host() { 2 } else { kernel.block };
        let training = abi::FsstTraining { blocks_per_table: blocks as u32, ..*training };
        launcher.launch(kernel, tables * blocks, &training)
    };
    for share in fsst::SHARES {
        let training = abi::FsstTraining { share, ..training };
        shared(launcher, kernels::FSST_TRAIN_COUNT, &training)?;
        shared(launcher, kernels::FSST_TRAIN_CANDIDATES, &training)?;
        launcher.launch(kernels::FSST_TRAIN_GROW, tables, &training)?;
    }
    for refinement in 0..=fsst::REFINEMENTS {
        let is_last = u32::from(refinement == fsst::REFINEMENTS);
        let training = abi::FsstTraining { share: fsst::WHOLE, refines: 1, is_last, ..training };
        shared(launcher, kernels::FSST_TRAIN_COUNT, &training)?;
        if is_last == 0 {
            shared(launcher, kernels::FSST_TRAIN_CANDIDATES, &training)?;
        }
        launcher.launch(kernels::FSST_TRAIN_REFINE, tables, &training)?;
    }
    Ok(())
}

/// What a sample of a chunk came to; none if nothing was picked.
pub(super) fn sampled(sample: &abi::FsstSample) -> Option<SampledCodes> {
    (sample.pieces > 0).then_some(SampledCodes {
        bytes: sample.bytes as usize,
        codes: sample.codes as usize,
        least: !sample.least_inverted as usize,
        most: sample.most as usize,
    })
}
