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
use crate::encoding::plan::{Context, Plan};
use crate::encoding::{Encoding, Estimate, Physical};
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::encode as abi;
use crate::gpu::kernels;
use crate::lanes::VECTOR;

/// Hash tables of chunks.
pub(in crate::encode) struct Tables {
    tables: Vec<abi::DistinctTable>,
    /// Distinct values of each, once they have been read.
    counts: Vec<u32>,
    seed: u64,
}

/// Fewest slots of a table, as a power of two.
const LEAST_SLOT_BITS: u32 = 5;

impl Tables {
    /// Empty tables for some chunks, of whose distinct values no more than so many are wanted;
    /// and where these are counted.
    ///
    /// Scratch: 12 bytes for each of at most four times as many slots as values are wanted,
    /// and 16 for each of these.
    pub fn allocate(
        launcher: &mut Launcher<'_>,
        asked: &[(usize, usize)],
    ) -> Result<(Self, Arc<DeviceBuffer>)> {
        let [mut keys, mut codes, mut found] = [0; 3];
        let mut tables: Vec<abi::DistinctTable> = (asked.iter())
            .map(|(chunk, most)| {
                let slot_bits = (2 * most).next_power_of_two().ilog2().max(LEAST_SLOT_BITS);
                let (chunk, most) = (*chunk as u32, *most as u32);
                let room = u64::from(most) * 8;
                let slots = (1 << slot_bits) + 1;
                let spare = found + room;
                let table = abi::DistinctTable {
                    keys,
                    codes,
                    found,
                    spare,
                    chunk,
                    slot_bits,
                    most,
                    first: 0,
                };
                keys += slots * 8;
                codes += slots * 4;
                found += 2 * room;
                table
            })
            .collect();
        let mut filled = |bytes: u64, byte: u8| -> Result<Arc<DeviceBuffer>> {
            let buffer = launcher.allocate(bytes as usize)?;
            launcher.stream.fill(&buffer, 0, bytes as usize, byte)?;
            Ok(buffer)
        };
        let keys = filled(keys, 0xff)?.address();
        let codes = filled(codes, 0)?.address();
        let counts = filled(asked.len() as u64 * 4, 0)?;
        let found = launcher.allocate(found as usize)?.address();
        for table in &mut tables {
            table.keys += keys;
            table.codes += codes;
            table.found += found;
            table.spare += found;
        }
        let seed = RandomState::new().hash_one(0);
        Ok((Self { tables, counts: Vec::new(), seed }, counts))
    }

    /// Copies them to the device; their address.
    pub fn upload(&self, launcher: &mut Launcher<'_>) -> Result<u64> {
        launcher.upload(&self.tables)
    }

    /// Waits for what has been counted.
    pub fn read(&mut self, launcher: &Launcher<'_>, counts: &Arc<DeviceBuffer>) -> Result<()> {
        self.counts = launcher.read(&launcher.result(counts, 0, self.tables.len())?)?;
        Ok(())
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

    /// Numbers all distinct values; how many there are.
    pub fn number_values(&mut self) -> usize {
        let mut first = 0;
        for (table, count) in self.tables.iter_mut().zip(&self.counts) {
            table.first = first;
            first += count;
        }
        first as usize
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

    /// Distinct values of each.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// Chunks of words whose distinct values have been found.
struct Distinct {
    tables: Tables,
}

impl Distinct {
    /// Looks for those of some chunks, of which no more than so many are wanted; waits.
    fn find(launcher: &mut Launcher<'_>, words: &Words, asked: &[(usize, usize)]) -> Result<Self> {
        let (tables, counts) = Tables::allocate(launcher, asked)?;
        let mut this = Self { tables };
        let kernel = words.by_width(kernels::DISTINCT_FIND);
        let arguments = this.arguments(launcher, words, counts.address())?;
        launcher.launch(kernel, this.blocks(&arguments), &arguments)?;
        this.tables.read(launcher, &counts)?;
        Ok(this)
    }

    /// Starts making codes and distinct values, and measuring both.
    fn words(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        context: &Context<'_>,
    ) -> Result<[Words; 2]> {
        let source = *words.source();
        let most = self.tables.counts().iter().max().copied().unwrap_or(0) as usize;
        let value_vectors = most.div_ceil(VECTOR);
        let rows = value_vectors * VECTOR * words.chunks();
        let values = launcher.allocate(rows * words.value())?.address();
        let codes = launcher.allocate(source.rows as usize * 4)?.address();
        let counts = launcher.upload(self.tables.counts())?;
        let arguments = abi::DistinctArguments {
            codes,
            values,
            value_vectors: value_vectors as u32,
            ..self.arguments(launcher, words, counts)?
        };
        launcher.launch(kernels::DISTINCT_SORT, self.tables.len(), &arguments)?;
        let kernel = words.by_width(kernels::DISTINCT_VALUES);
        launcher.launch(kernel, self.tables.len(), &arguments)?;
        let kernel = words.by_width(kernels::DISTINCT_CODES);
        launcher.launch(kernel, self.blocks(&arguments), &arguments)?;
        let mut coded = vec![0; words.chunks()];
        let mut counted = vec![0; words.chunks()];
        for (chunk, count) in self.tables.chunks().zip(self.tables.counts()) {
            coded[chunk] = words.rows(chunk) as u32;
            counted[chunk] = *count;
        }
        let derived = abi::Source { valid: 0, valid_at: 0, stride: 1, ..source };
        let codes = abi::Source { values: codes, order: abi::UNSIGNED, ..derived };
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

    fn arguments(
        &self,
        launcher: &mut Launcher<'_>,
        words: &Words,
        counts: u64,
    ) -> Result<abi::DistinctArguments> {
        let source = *words.source();
        let block = kernels::DISTINCT_FIND[0].block;
        Ok(abi::DistinctArguments {
            source,
            tables: self.tables.upload(launcher)?,
            counts,
            seed: self.tables.seed(),
            blocks_per_table: (source.chunk_vectors as usize).div_ceil(block) as u32,
            ..Default::default()
        })
    }

    /// Blocks of kernels that take vectors.
    fn blocks(&self, arguments: &abi::DistinctArguments) -> usize {
        self.tables.len() * arguments.blocks_per_table as usize
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
            pays.then(|| (chunk, counted.most(rows).min(all)))
        });
        let asked: Vec<(usize, usize)> = asked.collect();
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
