//! Dict: the distinct values of chunks, and the code of every row, which are words as others
//! (`kernels/encode_dict.cu`).

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;

use super::{DerivedChunks, Deriver};
use crate::chunk::{EncodedNode, MAX_CHUNK_ROWS};
use crate::encode::launch::Launcher;
use crate::encode::measurements::Measurements;
use crate::encode::words::Words;
use crate::encode::write::{Job, PendingBuffer};
use crate::encoding::dict::SampledValues;
use crate::encoding::plan::{Context, Plan};
use crate::encoding::statistics::SAMPLED_VECTORS;
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::{DeviceBuffer, DevicePtr, abi, kernels};
use crate::lanes::VECTOR;

/// Hash tables of chunks.
pub(in crate::encode) struct HashTables {
    tables: Vec<abi::DistinctTable>,
    /// Distinct values of each, once they have been read.
    counts: Vec<u32>,
}

/// Fewest slots of a table, as a power of two.
const LEAST_SLOT_BITS: u32 = 5;

/// A chunk whose distinct values are looked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::encode) struct DistinctSearch {
    pub chunk: usize,
    pub rows: usize,
    /// More values are too many.
    pub most: usize,
}

impl HashTables {
    /// Looks for the distinct values of some chunks; waits. `find` starts the kernel, given tables
    /// and their counts.
    ///
    /// Scratch: 12 bytes for each of at most four times as many slots as values are wanted,
    /// and 8 for each of these.
    pub fn find(
        launcher: &mut Launcher<'_>,
        searches: &[DistinctSearch],
        find: impl FnOnce(
            &mut Launcher<'_>,
            DevicePtr<abi::DistinctTable>,
            DevicePtr<u32>,
        ) -> Result<()>,
    ) -> Result<Self> {
        let (tables, counts) = allocate(launcher, searches)?;
        let uploaded = launcher.upload(&tables)?;
        find(launcher, uploaded, counts.pointer())?;
        let counts = launcher.read(&launcher.result(&counts, 0, tables.len())?)?;
        Ok(Self { tables, counts })
    }

    /// Copies them to the device.
    pub fn upload(&self, launcher: &mut Launcher<'_>) -> Result<DevicePtr<abi::DistinctTable>> {
        launcher.upload(&self.tables)
    }

    /// For each chunk its distinct values; none where they are too many, or there are none.
    pub fn found(&self) -> impl Iterator<Item = (usize, Option<usize>)> {
        self.tables.iter().zip(&self.counts).map(|(table, count)| {
            let count = Some(*count).filter(|count| (1..=table.most).contains(count));
            (table.chunk as usize, count.map(|count| count as usize))
        })
    }

    /// Keeps those of some chunks, which ascend.
    pub fn keep(&mut self, chunks: &[usize]) {
        let all =
            std::mem::take(&mut self.tables).into_iter().zip(std::mem::take(&mut self.counts));
        (self.tables, self.counts) =
            all.filter(|(table, _)| chunks.binary_search(&(table.chunk as usize)).is_ok()).unzip();
    }

    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// The chunks.
    pub fn chunks(&self) -> impl Iterator<Item = usize> {
        self.tables.iter().map(|table| table.chunk as usize)
    }

    /// Room for sorting what has been found, by so many bytes each.
    pub fn allocate_sorted(&mut self, launcher: &mut Launcher<'_>, key: usize) -> Result<()> {
        let bytes = self.counts.iter().map(|count| *count as usize * key).sum();
        let mut sorted = launcher.allocate(bytes)?.pointer::<u8>();
        let mut spare = launcher.allocate(bytes)?.pointer::<u8>();
        for (table, count) in self.tables.iter_mut().zip(&self.counts) {
            (table.sorted, table.spare) = (sorted, spare);
            sorted = sorted.add(*count as usize * key);
            spare = spare.add(*count as usize * key);
        }
        Ok(())
    }

    /// The launches that sort tiles of so many keys and merge them: keys of the runs that are
    /// merged, 0 at first, and whether the result goes to the spare room, as that of the last does
    /// not.
    pub fn passes(&self, tile: usize) -> impl Iterator<Item = (u32, bool)> + use<> {
        let merges = self.most().div_ceil(tile).next_power_of_two().ilog2();
        (0..=merges).map(move |pass| {
            let run = if pass == 0 { 0 } else { tile << (pass - 1) };
            (run as u32, (merges - pass) % 2 == 1)
        })
    }

    /// Starts making the codes of the rows of a column from the slots of their values.
    pub fn start_codes(
        &self,
        launcher: &mut Launcher<'_>,
        tables: DevicePtr<abi::DistinctTable>,
        codes: DevicePtr<u32>,
        chunk_rows: usize,
    ) -> Result<()> {
        let kernel = kernels::DISTINCT_CODES;
        let blocks = chunk_rows.div_ceil(kernel.block);
        let arguments = abi::DistinctCodesArguments {
            tables,
            codes,
            chunk_rows: chunk_rows as u32,
            blocks_per_table: blocks as u32,
        };
        launcher.launch(kernel, self.len() * blocks, &arguments)
    }

    /// Most distinct values of one.
    pub fn most(&self) -> usize {
        self.counts.iter().max().copied().unwrap_or(0) as usize
    }

    /// Distinct values of each.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }
}

/// Empty tables, and where their values are counted.
fn allocate(
    launcher: &mut Launcher<'_>,
    searches: &[DistinctSearch],
) -> Result<(Vec<abi::DistinctTable>, Arc<DeviceBuffer>)> {
    let (mut slots, mut room) = (0, 0);
    let place = |search: &DistinctSearch| {
        let slot_bits = (2 * search.most).next_power_of_two().ilog2().max(LEAST_SLOT_BITS);
        let place = (slot_bits, slots, room);
        slots += (1 << slot_bits) + 1;
        room += search.most;
        place
    };
    let places: Vec<(u32, usize, usize)> = searches.iter().map(place).collect();
    let mut filled = |bytes: usize, byte: u8| -> Result<Arc<DeviceBuffer>> {
        let buffer = launcher.allocate(bytes)?;
        launcher.stream.fill(&buffer, 0, bytes, byte)?;
        Ok(buffer)
    };
    let keys = filled(slots * 8, 0xff)?.pointer::<u64>();
    let codes = filled(slots * 4, 0)?.pointer::<u32>();
    let counts = filled(searches.len() * 4, 0)?;
    let found = launcher.allocate(room * 8)?.pointer::<u64>();
    let table = |(search, (slot_bits, slot, at)): (&DistinctSearch, _)| abi::DistinctTable {
        keys: keys.add(slot),
        codes: codes.add(slot),
        found: found.add(at),
        chunk: search.chunk as u32,
        slot_bits,
        most: search.most as u32,
        rows: search.rows as u32,
        ..Default::default()
    };
    let tables: Vec<abi::DistinctTable> = searches.iter().zip(places).map(table).collect();
    Ok((tables, counts))
}

impl abi::SampledRows {
    /// What this says of distinct values of a chunk of so many rows.
    pub fn counted(&self, rows: usize) -> SampledValues {
        SampledValues {
            values: self.values as usize,
            distinct: self.distinct as usize,
            of_vectors: self.of_vectors as usize,
            vectors: rows.div_ceil(VECTOR).min(SAMPLED_VECTORS),
        }
    }
}

/// Chunks of words whose distinct values have been found.
struct Distinct {
    tables: HashTables,
    /// What has been found in each chunk.
    found: BTreeMap<usize, Option<usize>>,
    /// For each row the slot of its value.
    codes: DevicePtr<u32>,
    seed: u64,
}

impl Distinct {
    /// Looks for those of some chunks; waits.
    fn find(
        launcher: &mut Launcher<'_>,
        words: &Words,
        searches: &[DistinctSearch],
    ) -> Result<Self> {
        let source = *words.source();
        let codes = launcher.allocate(source.rows as usize * 4)?.pointer();
        let kernel = words.by_width(kernels::DISTINCT_FIND);
        let blocks = (source.chunk_vectors as usize).div_ceil(kernel.block);
        let seed = RandomState::new().hash_one(0);
        let tables = HashTables::find(launcher, searches, |launcher, tables, counts| {
            let arguments = arguments(words, tables, [counts, codes], seed, blocks);
            launcher.launch(kernel, searches.len() * blocks, &arguments)
        })?;
        let found = tables.found().collect();
        Ok(Self { tables, found, codes, seed })
    }

    /// Starts making codes and distinct values, and measuring both.
    fn words(
        &mut self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        context: &Context<'_>,
    ) -> Result<[Words; 2]> {
        let source = *words.source();
        let value_vectors = self.tables.most().div_ceil(VECTOR);
        let rows = value_vectors * VECTOR * words.chunks();
        let values = launcher.allocate(rows * words.value())?.pointer();
        let counts = launcher.upload(self.tables.counts())?;
        self.tables.allocate_sorted(launcher, size_of::<u64>())?;
        let tables = self.tables.upload(launcher)?;
        let tile = kernels::DISTINCT_SORT.block;
        let blocks = self.tables.most().div_ceil(tile);
        let arguments = abi::DistinctArguments {
            values,
            value_vectors: value_vectors as u32,
            ..arguments(words, tables, [counts, self.codes], self.seed, blocks)
        };
        let all_blocks = self.tables.len() * blocks;
        for (run, to_spare) in self.tables.passes(tile) {
            let to_spare = u32::from(to_spare);
            let arguments = abi::DistinctArguments { run, to_spare, ..arguments };
            let kernel = if run == 0 { kernels::DISTINCT_SORT } else { kernels::DISTINCT_MERGE };
            launcher.launch(kernel, all_blocks, &arguments)?;
        }
        launcher.launch(words.by_width(kernels::DISTINCT_VALUES), all_blocks, &arguments)?;
        let chunk_rows = source.chunk_vectors as usize * VECTOR;
        self.tables.start_codes(launcher, tables, self.codes, chunk_rows)?;
        let mut coded = vec![0; words.chunks()];
        let mut counted = vec![0; words.chunks()];
        for (chunk, count) in self.tables.chunks().zip(self.tables.counts()) {
            coded[chunk] = words.rows(chunk) as u32;
            counted[chunk] = *count;
        }
        let derived = abi::Source { valid: DevicePtr::NULL, valid_at: 0, stride: 1, ..source };
        let codes = abi::Source { values: self.codes.cast(), order: abi::UNSIGNED, ..derived };
        let chunk_vectors = value_vectors as u32;
        let values = abi::Source { values, rows: rows as u64, chunk_vectors, ..derived };
        let physical = words.physical();
        let of_codes = Measurements::of_codes(context);
        let of_values = Measurements::by(context, physical);
        Ok([
            Words::derived(launcher, Physical::U32, codes, coded, of_codes)?,
            Words::derived(launcher, physical, values, counted, of_values)?,
        ])
    }
}

/// What kernels see, given tables, counts and codes, of which so many blocks belong to a table.
fn arguments(
    words: &Words,
    tables: DevicePtr<abi::DistinctTable>,
    [counts, codes]: [DevicePtr<u32>; 2],
    seed: u64,
    blocks: usize,
) -> abi::DistinctArguments {
    abi::DistinctArguments {
        source: *words.source(),
        tables,
        counts,
        codes,
        seed,
        blocks_per_table: blocks as u32,
        ..Default::default()
    }
}

/// Whether chunks may become dictionaries.
pub(super) fn is_sought(context: &Context<'_>) -> bool {
    context.may_nest() && context.options.allows(Encoding::Dict) && !context.in_dictionary
}

pub(super) struct Dict;

impl Deriver for Dict {
    fn encoding(&self) -> Encoding {
        Encoding::Dict
    }

    fn below<'a>(&self, context: &Context<'a>) -> Context<'a> {
        context.in_dictionary()
    }

    /// The argument is how many distinct values are not too many.
    fn search(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        asked: &[(usize, u64)],
        _: &Context<'_>,
    ) -> Result<Box<dyn DerivedChunks>> {
        // Words of few bits have few values.
        let all = 1 << (words.value() * 8).min(MAX_CHUNK_ROWS.ilog2() as usize);
        let search = |(chunk, most): &(usize, u64)| DistinctSearch {
            chunk: *chunk,
            rows: words.rows(*chunk),
            most: (*most as usize).min(all),
        };
        let searches: Vec<DistinctSearch> = asked.iter().map(search).collect();
        Ok(Box::new(Distinct::find(launcher, words, &searches)?))
    }
}

/// Nodes of words have nothing but their children.
impl DerivedChunks for Distinct {
    fn found(&self, chunk: usize) -> Option<Option<usize>> {
        self.found.get(&chunk).copied()
    }

    fn children(
        &mut self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        chunks: &[usize],
        below: &Context<'_>,
    ) -> Result<Vec<Words>> {
        self.tables.keep(chunks);
        self.words(launcher, words, below).map(Vec::from)
    }

    fn fill(
        &self,
        _: &Words,
        _: usize,
        _: &Plan,
        _: &dyn Fn(usize) -> PendingBuffer,
        _: &mut EncodedNode<PendingBuffer>,
    ) -> Result<()> {
        Ok(())
    }

    fn write(&self, _: &mut Launcher<'_>, _: &Words, _: &[Job]) -> Result<()> {
        Err(Error::device("buffers of a dictionary of words"))
    }
}
