//! Dict: the distinct values of chunks, and the code of every row, which are words as others
//! (`kernels/encode_dict.cu`).

use std::sync::Arc;

use ahash::RandomState;

use super::Derived;
use crate::chunk::{EncodedNode, MAX_CHUNK_ROWS};
use crate::encode::asked::Asked;
use crate::encode::launch::Launcher;
use crate::encode::tree::{Look, Tree, limit};
use crate::encode::words::Words;
use crate::encode::write::{Job, Part};
use crate::encoding::dict::{self, Counted};
use crate::encoding::plan::{Context, Plan, SAMPLED_VECTORS};
use crate::encoding::{Encoding, Estimate, Physical};
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

    /// Keeps those that have been read and of which `pays` says so, given chunk and count.
    pub fn keep(&mut self, pays: impl Fn(usize, usize) -> bool) {
        let all =
            std::mem::take(&mut self.tables).into_iter().zip(std::mem::take(&mut self.counts));
        (self.tables, self.counts) = all
            .filter(|(table, count)| {
                (1..=table.most).contains(count) && pays(table.chunk as usize, *count as usize)
            })
            .unzip();
    }

    pub fn len(&self) -> usize {
        self.tables.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
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
    pub fn counted(&self, rows: usize) -> Counted {
        Counted {
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
        Ok(Self { tables, codes, seed })
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
        let of_codes = Asked::of_codes(context);
        let of_values = Asked::by(context, physical);
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

/// What a sample says of the distinct values of a chunk whose dictionary may be less than `limit`
/// bytes.
pub(super) fn promised(
    words: &Words,
    chunk: usize,
    limit: usize,
    context: &Context<'_>,
) -> Option<Counted> {
    let rows = words.rows(chunk);
    let sample = words.sample(chunk).filter(|_| limit > 0 && is_sought(context));
    sample.map(|sample| sample.counted(rows)).filter(|counted| {
        let pays = counted.may_pay(rows, counted.distinct, limit, dict::saves);
        counted.repeats() && pays && counted.most(rows) > 0
    })
}

impl Tree {
    /// Adds the estimates of dictionaries, where they may be the least.
    pub(in crate::encode) fn plan_dictionaries(
        &mut self,
        launcher: &mut Launcher<'_>,
        number: usize,
        context: &Context<'_>,
        looks: &mut [Option<Look>],
    ) -> Result<()> {
        let words = self.words(number);
        // Words of few bits have few values.
        let all = 1 << (words.value() * 8).min(MAX_CHUNK_ROWS.ilog2() as usize);
        let promised = |look: &Option<Look>| {
            let look = look.as_ref()?;
            look.promises.repeated.map(|counted| (counted, limit(&look.estimates)))
        };
        let asked = looks.iter().enumerate().filter_map(|(chunk, look)| {
            // Quotients may promise less than when the chunk was looked at.
            let ((counted, limit), rows) = (promised(look)?, words.rows(chunk));
            let pays = counted.may_pay(rows, counted.distinct, limit, dict::saves);
            pays.then(|| DistinctSearch { chunk, rows, most: counted.most(rows).min(all) })
        });
        let asked: Vec<DistinctSearch> = asked.collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut found = Distinct::find(launcher, words, &asked)?;
        found.tables.keep(|chunk, count| {
            promised(&looks[chunk]).is_some_and(|(counted, limit)| {
                counted.may_pay(words.rows(chunk), count, limit, dict::saves)
            })
        });
        if found.tables.is_empty() {
            return Ok(());
        }
        let below = context.in_dictionary();
        let children = found.words(launcher, words, &below)?.map(|words| self.add(words));
        self.derive(number, Encoding::Dict, NoBuffers, &children);
        let chunks: Vec<usize> = found.tables.chunks().collect();
        let [codes, values] = children;
        let children = [
            (codes, self.plan(launcher, codes, &below)?),
            (values, self.plan(launcher, values, &below)?),
        ];
        let estimate = |_, children, _| Estimate { children, ..Estimate::of([]) };
        self.add_estimates((Encoding::Dict, chunks), estimate, children, &below, looks);
        Ok(())
    }
}

/// Nodes of words have nothing but their children.
struct NoBuffers;

impl Derived for NoBuffers {
    fn fill(
        &self,
        _: &Words,
        _: usize,
        _: &Plan,
        _: &dyn Fn(usize) -> Part,
        _: &mut EncodedNode<Part>,
    ) -> Result<()> {
        Ok(())
    }

    fn write(&self, _: &mut Launcher<'_>, _: &Words, _: &[Job]) -> Result<()> {
        Err(Error::device("buffers of a dictionary of words"))
    }
}
