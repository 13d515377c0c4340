//! The kernels that the host starts: their names, and the shapes of their
//! launches, read from `kernels/launch.cuh` when the crate is compiled.
//!
//! Those of one encoding alone stand in its file of `decode/decoders` or
//! `encode/encoders`.

use std::marker::PhantomData;

use super::abi::{self, Arguments, Header, constant};
use crate::lanes::VECTOR;

/// A kernel whose argument is an `A`, with its launch shape. That the kernel of this name takes such
/// an argument is checked when the crate is compiled, and by the emulation with each launch.
#[derive(Debug)]
pub(crate) struct Kernel<A> {
    /// Name in the module.
    pub name: &'static str,
    /// Threads of a block.
    pub threads: u32,
    /// What a block works on at most, in the unit of the kernel: bytes, rows, ...
    pub block: usize,
    /// What it works on at least, given more blocks.
    pub least: usize,
    /// Bytes (or whatever the unit is) of one value of a node.
    pub value: usize,
    /// Bytes of shared memory that a block asks for beside what the kernel declares.
    pub shared: u32,
    /// What a node may touch more than its length, as it may begin anywhere.
    pub more: usize,
    argument: PhantomData<fn(&A)>,
}

impl<A> Clone for Kernel<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Kernel<A> {}

impl<A: Arguments> Kernel<A> {
    /// A kernel of so many threads a block, which takes `block` of something.
    pub const fn of(name: &'static str, threads: u32, block: usize) -> Self {
        assert!(abi::takes(name, A::NAME), "no kernel has this name and takes this argument");
        Self::at_run_time(name, threads, block)
    }

    /// The same of a kernel that is compiled at run time.
    pub const fn at_run_time(name: &'static str, threads: u32, block: usize) -> Self {
        let argument = PhantomData;
        Self { name, threads, block, least: block, value: 1, shared: 0, more: 0, argument }
    }

    /// The same with constants of `kernels/launch.cuh`.
    pub const fn new(name: &'static str, threads: &str, block: &str) -> Self {
        Self::of(name, shape(threads), shape(block) as usize)
    }

    /// The same whose blocks ask for so much shared memory.
    pub const fn with_shared(self, shared: u32) -> Self {
        Self { shared, ..self }
    }

    /// Blocks for each of `nodes` nodes, the longest of which has so many values:
    /// as many as that takes, more if there are too few to fill a GPU.
    pub fn blocks_per_node(self, nodes: usize, longest: usize) -> u32 {
        let len = longest * self.value + self.more;
        let needed = len.div_ceil(self.block).max(1);
        let most = len.div_ceil(self.least).max(1);
        needed.max(FILL.div_ceil(nodes.max(1))).min(most) as u32
    }

    /// How `nodes` nodes, the longest of which has so many vectors, are divided: 2^shift blocks take
    /// a node, a warp so many of its vectors. Of kernels whose blocks count vectors.
    pub fn division(self, nodes: usize, vectors: usize) -> Division {
        let blocks = self.blocks_per_node(nodes, vectors).next_power_of_two();
        let each = vectors.div_ceil(blocks as usize * self.least) as u32;
        Division { node_shift: blocks.ilog2(), each }
    }

    /// Its name and what a block of it takes.
    pub fn shape(self) -> KernelShape {
        KernelShape { name: self.name, threads: self.threads, shared: self.shared }
    }

    /// The kernel with its argument.
    pub fn bind(self, argument: &A) -> BoundKernel {
        BoundKernel {
            name: self.name,
            threads: self.threads,
            shared: self.shared,
            argument: bytemuck::bytes_of(argument).to_vec(),
            argument_type: A::NAME,
        }
    }
}

/// A kernel, whatever its argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelShape {
    pub name: &'static str,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory that a block asks for beside what the kernel declares.
    pub shared: u32,
}

/// How nodes are divided among the blocks and warps of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    /// 2^node_shift blocks take a node.
    pub node_shift: u32,
    /// Vectors of a warp.
    pub each: u32,
}

/// A kernel with the bytes of its argument, for lists of launches of kernels of different types.
#[derive(Debug)]
pub(crate) struct BoundKernel {
    pub name: &'static str,
    pub threads: u32,
    pub shared: u32,
    pub argument: Vec<u8>,
    /// As [`Arguments::NAME`].
    pub argument_type: &'static str,
}

/// Blocks that keep every multiprocessor of a large GPU busy.
const FILL: usize = 1000;

const LAUNCH: &Header = &Header::read(include_str!("../../kernels/launch.cuh"));

pub(crate) const fn shape(name: &str) -> u32 {
    constant(LAUNCH, name) as u32
}

/// A kernel that decodes whole vectors of values of `value` bytes.
pub(crate) const fn unit<A: Arguments>(name: &'static str, value: usize) -> Kernel<A> {
    Kernel { value, ..Kernel::new(name, "UNIT_THREADS", "UNIT_BYTES") }
}

/// A kernel that writes pieces of 16 bytes, the first of which may hold other values.
pub(crate) const fn copy<A: Arguments>(name: &'static str, value: usize) -> Kernel<A> {
    Kernel { value, more: 15, ..Kernel::new(name, "COPY_THREADS", "COPY_BYTES") }
}

/// Values of 8, 16, 32 and 64 bits.
pub(crate) type ByWidth<A> = [Kernel<A>; 4];

/// A kernel of which a block takes the vectors of so many rows.
pub(crate) const fn rows<A: Arguments>(name: &'static str, threads: u32, rows: usize) -> Kernel<A> {
    Kernel::of(name, threads, rows)
}
pub(crate) const DICT_STRINGS: Kernel<abi::DictStringsArguments> =
    rows("dict_strings", shape("DICT_STRINGS_THREADS"), VECTOR);
pub(crate) const DICT_LENGTHS: Kernel<abi::WordsArguments> =
    Kernel::new("dict_lengths", "DICT_STRINGS_THREADS", "DICT_STRINGS_THREADS");
pub(crate) const FRONT_STRINGS: Kernel<abi::DictStringsArguments> =
    rows("front_strings", shape("FRONT_THREADS"), VECTOR);
pub(crate) const FRONT_LENGTHS: Kernel<abi::DictArguments> =
    Kernel::new("front_lengths", "FRONT_THREADS", "FRONT_THREADS");

/// A kernel that takes whole vectors: `threads` of a block, `each` of them a vector.
pub(crate) const fn vectors<A: Arguments>(
    name: &'static str,
    threads: u32,
    each: usize,
) -> Kernel<A> {
    Kernel::of(name, threads, threads as usize / each)
}

pub(crate) const fn measure<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, shape("MEASURE_THREADS"), 32)
}

pub(crate) const fn pack<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, shape("PACK_THREADS"), shape("PACK_LANES") as usize)
}

/// A kernel of which a block takes a chunk.
pub(crate) const fn chunk<A: Arguments>(name: &'static str, threads: &str) -> Kernel<A> {
    Kernel::of(name, shape(threads), 1)
}

/// Blocks count vectors.
pub(crate) const BOUNDS: ByWidth<abi::MeasureArguments> =
    [measure("bounds_8"), measure("bounds_16"), measure("bounds_32"), measure("bounds_64")];
/// Blocks count vectors of a chunk.
pub(crate) const WINDOWS: ByWidth<abi::MeasureArguments> =
    [measure("windows_8"), measure("windows_16"), measure("windows_32"), measure("windows_64")];
/// Blocks count vectors.
pub(crate) const PACK: ByWidth<abi::PackArguments> =
    [pack("pack_8"), pack("pack_16"), pack("pack_32"), pack("pack_64")];
pub(crate) const PACK_PATCHED: ByWidth<abi::PackArguments> = [
    pack("pack_patched_8"),
    pack("pack_patched_16"),
    pack("pack_patched_32"),
    pack("pack_patched_64"),
];
pub(crate) const ALP_CHOOSE: [Kernel<abi::AlpArguments>; 2] =
    [measure("alp_choose_32"), measure("alp_choose_64")];
pub(crate) const ALP_PACK: [Kernel<abi::AlpArguments>; 2] =
    [pack("alp_pack_32"), pack("alp_pack_64")];
pub(crate) const RD_MEASURE: [Kernel<abi::AlpRdArguments>; 2] =
    [measure("rd_measure_32"), measure("rd_measure_64")];
pub(crate) const RD_PACK: [Kernel<abi::AlpRdArguments>; 2] =
    [pack("rd_pack_32"), pack("rd_pack_64")];

/// Blocks count chunks.
pub(crate) const LAYOUT: ByWidth<abi::LayoutArguments> = [
    chunk("layout_8", "LAYOUT_THREADS"),
    chunk("layout_16", "LAYOUT_THREADS"),
    chunk("layout_32", "LAYOUT_THREADS"),
    chunk("layout_64", "LAYOUT_THREADS"),
];
pub(crate) const ALP_CANDIDATES: [Kernel<abi::AlpArguments>; 2] = [
    chunk("alp_candidates_32", "CANDIDATES_THREADS"),
    chunk("alp_candidates_64", "CANDIDATES_THREADS"),
];
pub(crate) const ALP_LAYOUT: [Kernel<abi::AlpArguments>; 2] =
    [chunk("alp_layout_32", "LAYOUT_THREADS"), chunk("alp_layout_64", "LAYOUT_THREADS")];
pub(crate) const RD_CUT: [Kernel<abi::AlpRdArguments>; 2] =
    [chunk("rd_cut_32", "RD_CUT_THREADS"), chunk("rd_cut_64", "RD_CUT_THREADS")];
pub(crate) const RD_LAYOUT: [Kernel<abi::AlpRdArguments>; 2] =
    [chunk("rd_layout_32", "LAYOUT_THREADS"), chunk("rd_layout_64", "LAYOUT_THREADS")];

pub(crate) const SAMPLE: ByWidth<abi::SampleArguments> = [
    chunk("sample_8", "SAMPLE_THREADS"),
    chunk("sample_16", "SAMPLE_THREADS"),
    chunk("sample_32", "SAMPLE_THREADS"),
    chunk("sample_64", "SAMPLE_THREADS"),
];
const fn distinct<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, shape("DISTINCT_THREADS"), 32)
}
pub(crate) const DISTINCT_FIND: ByWidth<abi::DistinctArguments> = [
    distinct("distinct_find_8"),
    distinct("distinct_find_16"),
    distinct("distinct_find_32"),
    distinct("distinct_find_64"),
];
/// Blocks count keys.
const fn distinct_sort<A: Arguments>(name: &'static str, key: usize) -> Kernel<A> {
    each(name, "DISTINCT_SORT_THREADS", shape("SORT_BYTES") as usize / key)
}
const WORD_KEY: usize = size_of::<u64>();
pub(crate) const DISTINCT_SORT: Kernel<abi::DistinctArguments> =
    distinct_sort("distinct_sort", WORD_KEY);
pub(crate) const DISTINCT_MERGE: Kernel<abi::DistinctArguments> =
    distinct_sort("distinct_merge", WORD_KEY);
pub(crate) const DISTINCT_VALUES: ByWidth<abi::DistinctArguments> = [
    distinct_sort("distinct_values_8", WORD_KEY),
    distinct_sort("distinct_values_16", WORD_KEY),
    distinct_sort("distinct_values_32", WORD_KEY),
    distinct_sort("distinct_values_64", WORD_KEY),
];
/// Blocks count rows.
pub(crate) const DISTINCT_CODES: Kernel<abi::DistinctCodesArguments> = each(
    "distinct_codes",
    "DISTINCT_THREADS",
    shape("CODES_EACH") as usize * shape("DISTINCT_THREADS") as usize,
);

/// Blocks count bytes.
const fn copy_words<A: Arguments>(name: &'static str) -> Kernel<A> {
    Kernel::new(name, "COPY_THREADS", "COPY_BYTES")
}
pub(crate) const COPY: ByWidth<abi::CopyArguments> =
    [copy_words("copy_8"), copy_words("copy_16"), copy_words("copy_32"), copy_words("copy_64")];

/// Blocks count words of 32 bits.
pub(crate) const COUNT_BITS: Kernel<abi::CopyBitsArguments> =
    Kernel::new("count_bits", "BITS_THREADS", "BITS_THREADS");
pub(crate) const COPY_BITS: Kernel<abi::CopyBitsArguments> =
    Kernel::new("copy_bits", "BITS_THREADS", "BITS_THREADS");
/// With offsets of 32 and of 64 bits.
pub(crate) type ByOffset<A> = [Kernel<A>; 2];

/// A kernel of which a block takes so many values of something.
const fn each<A: Arguments>(name: &'static str, threads: &str, block: usize) -> Kernel<A> {
    Kernel { block, least: block, ..Kernel::new(name, threads, threads) }
}

/// Blocks count vectors.
const fn fsst_vector<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "FSST_VECTOR_THREADS", 1)
}
pub(crate) const FSST_LENGTHS: ByOffset<abi::StringsView> =
    [fsst_vector("fsst_lengths_32"), fsst_vector("fsst_lengths_64")];

/// Blocks count picks of a range.
const fn fsst_sample<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "FSST_SAMPLE_THREADS", shape("FSST_SAMPLE_THREADS") as usize / 32)
}
pub(crate) const FSST_PICK: ByOffset<abi::FsstSampling> =
    [fsst_sample("fsst_pick_32"), fsst_sample("fsst_pick_64")];
pub(crate) const FSST_ESTIMATE: ByOffset<abi::FsstSampling> =
    [fsst_sample("fsst_estimate_32"), fsst_sample("fsst_estimate_64")];

/// Blocks count parts of tables, as many of each as the kernel's `block` says.
pub(crate) const FSST_TRAIN_COUNT: Kernel<abi::FsstTraining> =
    each("fsst_train_count", "FSST_TRAIN_THREADS", shape("FSST_COUNT_BLOCKS") as usize);
pub(crate) const FSST_TRAIN_CANDIDATES: Kernel<abi::FsstTraining> =
    each("fsst_train_candidates", "FSST_TRAIN_THREADS", shape("FSST_CANDIDATES_BLOCKS") as usize);
/// Blocks count tables.
pub(crate) const FSST_TRAIN_GROW: Kernel<abi::FsstTraining> =
    each("fsst_train_grow", "FSST_CHOOSE_THREADS", 1);
pub(crate) const FSST_TRAIN_REFINE: Kernel<abi::FsstTraining> =
    each("fsst_train_refine", "FSST_CHOOSE_THREADS", 1);

/// Blocks count runs; this many of them a multiprocessor holds at a time.
pub(crate) const ENCODE_BLOCKS: usize = shape("FSST_ENCODE_BLOCKS") as usize;
const fn fsst_encode<A: Arguments>(name: &'static str) -> Kernel<A> {
    let threads = "FSST_ENCODE_THREADS";
    let runs = shape(threads) as usize;
    Kernel { shared: shape("FSST_ENCODE_SHARED"), ..each(name, threads, runs) }
}
pub(crate) const FSST_ENCODE: ByOffset<abi::StringsView> =
    [fsst_encode("fsst_encode_32"), fsst_encode("fsst_encode_64")];
/// Blocks count groups of tiles.
pub(crate) const FSST_PLACE: Kernel<abi::StringsView> = each("fsst_place", "FSST_PLACE_THREADS", 1);

const fn lz_find<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, shape("LZ_FIND_THREADS"), 32)
}
const fn lz_wide<A: Arguments>(name: &'static str) -> Kernel<A> {
    vectors(name, shape("LZ_WIDE_THREADS"), 32)
}
/// With offsets of one byte, and of two.
pub(crate) const LZ_FIND: [ByWidth<abi::LzArguments>; 2] = [
    [lz_find("lz_find_8"), lz_find("lz_find_16"), lz_find("lz_find_32"), lz_find("lz_find_64")],
    [
        lz_wide("lz_find_wide_8"),
        lz_wide("lz_find_wide_16"),
        lz_wide("lz_find_wide_32"),
        lz_wide("lz_find_wide_64"),
    ],
];
pub(crate) const LZ_BORDERS: Kernel<abi::LzArguments> =
    vectors("lz_borders", shape("LZ_WRITE_THREADS"), 1);
pub(crate) const LZ_WRITE: Kernel<abi::LzArguments> =
    vectors("lz_write", shape("LZ_WRITE_THREADS"), 32);
/// Blocks count chunks.
pub(crate) const LZ_LAYOUT: Kernel<abi::LzArguments> = chunk("lz_layout", "LZ_LAYOUT_THREADS");

/// Blocks count chunks, or groups of vectors.
pub(crate) const FSST_CHUNKS: Kernel<abi::StringsView> =
    each("fsst_chunks", "FSST_CHUNKS_THREADS", 1);
pub(crate) const FSST_NUMBERS: Kernel<abi::FsstSampling> =
    each("fsst_numbers", "FSST_SCAN_THREADS", 1);

/// Blocks count borders of chunks.
pub(crate) const STRING_OFFSETS: ByOffset<abi::StringBoundsArguments> = [
    Kernel::new("string_offsets_32", "STRINGS_THREADS", "STRINGS_THREADS"),
    Kernel::new("string_offsets_64", "STRINGS_THREADS", "STRINGS_THREADS"),
];
/// Blocks count vectors.
pub(crate) const STRING_EXTREMES: ByOffset<abi::StringBoundsArguments> = [
    vectors("string_extremes_32", shape("STRINGS_THREADS"), 32),
    vectors("string_extremes_64", shape("STRINGS_THREADS"), 32),
];
pub(crate) const STRING_FIRSTS: ByOffset<abi::StringBoundsArguments> = [
    vectors("string_firsts_32", shape("STRINGS_THREADS"), 32),
    vectors("string_firsts_64", shape("STRINGS_THREADS"), 32),
];
pub(crate) const GATHER_STRINGS: ByOffset<abi::GatherStringsArguments> = [
    vectors("gather_strings_32", shape("STRINGS_THREADS"), 32),
    vectors("gather_strings_64", shape("STRINGS_THREADS"), 32),
];
/// Blocks count chunks.
const fn string_bounds<A: Arguments>(name: &'static str) -> Kernel<A> {
    Kernel { threads: 32, ..each(name, "STRINGS_THREADS", 1) }
}
pub(crate) const STRING_BOUNDS: ByOffset<abi::StringBoundsArguments> =
    [string_bounds("string_bounds_32"), string_bounds("string_bounds_64")];
pub(crate) const STRING_SINGLES: ByOffset<abi::StringBoundsArguments> =
    [string_bounds("string_singles_32"), string_bounds("string_singles_64")];
/// Blocks count bytes.
pub(crate) const COPY_SPANS: Kernel<abi::SpansArguments> =
    Kernel::new("copy_spans", "STRINGS_THREADS", "SPAN_BYTES");

/// Blocks count chunks.
const fn sample_strings<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "SAMPLE_THREADS", 1)
}
pub(crate) const SAMPLE_STRINGS: ByOffset<abi::SampleStringsArguments> =
    [sample_strings("sample_strings_32"), sample_strings("sample_strings_64")];
/// Blocks count vectors.
pub(crate) const DISTINCT_STRINGS_FIND: ByOffset<abi::DistinctStringsArguments> =
    [distinct("distinct_strings_find_32"), distinct("distinct_strings_find_64")];
/// Blocks count distinct values.
pub(crate) const DISTINCT_STRINGS_COPY: ByOffset<abi::DistinctStringsArguments> =
    [distinct_copy("distinct_strings_copy_32"), distinct_copy("distinct_strings_copy_64")];
const fn distinct_copy<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "DISTINCT_THREADS", (shape("DISTINCT_THREADS") / shape("COPIERS")) as usize)
}
/// Blocks count chunks.
pub(crate) const FRONT_SAMPLE: ByOffset<abi::FrontArguments> =
    [sample_strings("front_sample_32"), sample_strings("front_sample_64")];
const fn front_places<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "SPLIT_PLACES_THREADS", 1)
}
pub(crate) const FRONT_PLACES: ByOffset<abi::FrontArguments> =
    [front_places("front_places_32"), front_places("front_places_64")];
/// Blocks count rows.
pub(crate) const FRONT_PREFIXES: ByOffset<abi::FrontArguments> = [
    Kernel::new("front_prefixes_32", "SPLIT_THREADS", "SPLIT_THREADS"),
    Kernel::new("front_prefixes_64", "SPLIT_THREADS", "SPLIT_THREADS"),
];
/// Blocks count suffixes.
pub(crate) const FRONT_COPY: ByOffset<abi::FrontArguments> =
    [front_copy("front_copy_32"), front_copy("front_copy_64")];
const fn front_copy<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "SPLIT_THREADS", (shape("SPLIT_THREADS") / shape("COPIERS")) as usize)
}
/// Blocks count tables.
const fn distinct_table<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "DISTINCT_SORT_THREADS", 1)
}
pub(crate) const DISTINCT_STRINGS_COMMON: ByOffset<abi::DistinctStringsArguments> =
    [distinct_table("distinct_strings_common_32"), distinct_table("distinct_strings_common_64")];
pub(crate) const DISTINCT_STRINGS_PLACES: ByOffset<abi::DistinctStringsArguments> =
    [distinct_table("distinct_strings_places_32"), distinct_table("distinct_strings_places_64")];
/// Blocks count keys.
const STRING_KEY: usize = size_of::<abi::TextKey>();
pub(crate) const DISTINCT_STRINGS_SORT: ByOffset<abi::DistinctStringsArguments> = [
    distinct_sort("distinct_strings_sort_32", STRING_KEY),
    distinct_sort("distinct_strings_sort_64", STRING_KEY),
];
pub(crate) const DISTINCT_STRINGS_MERGE: ByOffset<abi::DistinctStringsArguments> = [
    distinct_sort("distinct_strings_merge_32", STRING_KEY),
    distinct_sort("distinct_strings_merge_64", STRING_KEY),
];

/// Blocks count gaps.
pub(crate) const GAPS: Kernel<abi::GapsArguments> =
    Kernel::new("gaps", "BITS_THREADS", "BITS_THREADS");

/// Blocks count bits, a thread 128 of the output: those of a node begin anywhere in the first.
pub(crate) const BITS: Kernel<abi::BitsArguments> = Kernel {
    block: shape("BITS_THREADS") as usize * 128,
    least: shape("BITS_THREADS") as usize * 128,
    more: 127,
    ..Kernel::new("bits", "BITS_THREADS", "BITS_THREADS")
};

/// Blocks count vectors, of which a warp takes as many as the launch says, up to `each`.
const fn some_vectors<A: Arguments>(name: &'static str, threads: &str, each: &str) -> Kernel<A> {
    let warps = shape(threads) as usize / 32;
    let block = warps * shape(each) as usize;
    Kernel { block, least: warps, ..Kernel::new(name, threads, threads) }
}

const fn select<A: Arguments>(name: &'static str) -> Kernel<A> {
    some_vectors(name, "SELECT_THREADS", "SELECT_EACH")
}
pub(crate) const SELECT: ByWidth<abi::SelectArguments> =
    [select("select_8"), select("select_16"), select("select_32"), select("select_64")];
pub(crate) const SELECT_PFOR: ByWidth<abi::SelectArguments> = [
    select("select_pfor_8"),
    select("select_pfor_16"),
    select("select_pfor_32"),
    select("select_pfor_64"),
];
/// Of 32 and 64 bits.
pub(crate) const SELECT_REALS: [Kernel<abi::SelectArguments>; 2] =
    [select("select_reals_32"), select("select_reals_64")];
pub(crate) const SELECT_BITS: Kernel<abi::SelectArguments> = select("select_bits");
pub(crate) const SELECT_WIDE: Kernel<abi::SelectWideArguments> = select("select_wide");
pub(crate) const SELECT_LITERALS: Kernel<abi::SelectStringsArguments> = select("select_literals");
pub(crate) const SELECT_CODES: Kernel<abi::SelectStringsArguments> = select("select_codes");
/// Its launches ask for shared memory: 256 bytes for each state of the largest automaton.
pub(crate) const SELECT_AUTOMATON: Kernel<abi::SelectStringsArguments> = select("select_automaton");

const fn keep<A: Arguments>(name: &'static str) -> Kernel<A> {
    some_vectors(name, "KEEP_THREADS", "KEEP_EACH")
}
pub(crate) const KEEP: ByWidth<abi::KeepArguments> =
    [keep("keep_8"), keep("keep_16"), keep("keep_32"), keep("keep_64")];
pub(crate) const KEEP_WIDE: [Kernel<abi::KeepWideArguments>; 2] =
    [keep("keep_wide_128"), keep("keep_wide_256")];
pub(crate) const KEEP_BITS: Kernel<abi::KeepArguments> = keep("keep_bits");
pub(crate) const KEEP_STRINGS: Kernel<abi::KeepStringsArguments> = keep("keep_strings");
/// Blocks count vectors, as many as a chunk can have.
const fn keep_sums<A: Arguments>(name: &'static str) -> Kernel<A> {
    each(name, "KEEP_THREADS", crate::chunk::MAX_CHUNK_ROWS / crate::lanes::VECTOR)
}
pub(crate) const KEEP_COUNTS: Kernel<abi::KeepArguments> = keep_sums("keep_counts");
pub(crate) const KEEP_LENGTHS: Kernel<abi::KeepLengthsArguments> = keep_sums("keep_lengths");
/// One block.
pub(crate) const KEEP_PLACES: Kernel<abi::KeepPlacesArguments> =
    chunk("keep_places", "KEEP_PLACES_THREADS");

/// Blocks count words of 32 bits.
pub(crate) const JOIN_SELECTED: Kernel<abi::JoinArguments> =
    Kernel::new("join_selected", "JOIN_THREADS", "JOIN_THREADS");
/// Blocks count words of 32 bits.
pub(crate) const COUNT_SELECTED: Kernel<abi::CountArguments> =
    Kernel::new("count_selected", "COUNT_THREADS", "COUNT_WORDS");

/// Blocks count values of a node.
pub(crate) const PROBE_KEYS: Kernel<abi::ProbeArguments> =
    Kernel::new("probe_keys", "PROBE_THREADS", "PROBE_ROWS");

/// Blocks count values of a node.
pub(crate) const VALUES_IN_RANGES: Kernel<abi::ValuesInRangesArguments> =
    Kernel::new("values_in_ranges", "PROBE_THREADS", "PROBE_ROWS");

/// Blocks count entries.
pub(crate) const REMAP_ENTRIES: Kernel<abi::RemapArguments> =
    Kernel::new("remap_entries", "REMAP_THREADS", "REMAP_THREADS");

/// Blocks count slots.
pub(crate) const LIST_GROUPS: Kernel<abi::ListGroupsArguments> =
    Kernel::new("list_groups", "LIST_GROUPS_THREADS", "LIST_GROUPS_THREADS");
/// Blocks count groups.
pub(crate) const GATHER_GROUPS: Kernel<abi::GatherGroupsArguments> =
    Kernel::new("gather_groups", "GATHER_GROUPS_THREADS", "GATHER_GROUPS_THREADS");

/// A block of so many warps takes vectors of a chunk, as those of `SELECT`, a warp `each` of them at
/// most; its kernel is made for a query, and takes lists behind the head.
pub(crate) fn scan(warps: usize, each: usize) -> Kernel<abi::ScanHead> {
    of_warps("scan", warps, each)
}

/// The same of any kernel that is compiled at run time.
pub(crate) fn of_warps<A: Arguments>(name: &'static str, warps: usize, each: usize) -> Kernel<A> {
    Kernel { least: warps, ..Kernel::at_run_time(name, 32 * warps as u32, warps * each) }
}

/// Vectors of a warp at most: of any kernel of a query, where all columns are plain, and of one test of
/// strings.
pub(crate) const SCAN_EACH: usize = constant(SCAN_HEADER, "SCAN_EACH") as usize;
pub(crate) const SCAN_EACH_PLAIN: usize = constant(SCAN_HEADER, "SCAN_EACH_PLAIN") as usize;
pub(crate) const SCAN_EACH_STRINGS: usize = constant(SCAN_HEADER, "SCAN_EACH_STRINGS") as usize;
const SCAN_HEADER: &Header = &Header::read(include_str!("../../kernels/lanepack/scan.cuh"));
const fn warps<A: Arguments>(name: &'static str, threads: &str) -> Kernel<A> {
    let block = shape(threads) as usize / 32;
    Kernel { block, least: block, ..Kernel::new(name, threads, threads) }
}
/// Blocks count dictionaries.
pub(crate) const CODE_RANGES: Kernel<abi::CodeRangesArguments> =
    warps("code_ranges", "CODE_RANGES_THREADS");
/// Blocks count aggregates of chunks.
pub(crate) const REDUCE_PARTIALS: Kernel<abi::ReduceArguments> =
    warps("reduce_partials", "REDUCE_THREADS");
/// Blocks count nodes.
pub(crate) const PACKED_WIDTHS: Kernel<abi::WidthsArguments> =
    warps("packed_widths", "WIDTHS_THREADS");

/// Blocks count codes.
pub(crate) const FSST_DECODE: Kernel<abi::FsstArguments> = Kernel {
    least: shape("FSST_CODES_LEAST") as usize,
    ..Kernel::new("fsst_decode", "FSST_THREADS", "FSST_CODES")
};

/// Blocks count bytes.
pub(crate) const BYTES_PLAIN: Kernel<abi::BytesArguments> =
    Kernel { more: 15, ..Kernel::new("bytes_plain", "BYTES_THREADS", "BYTES_BYTES") };
pub(crate) const BYTES_CONSTANT: Kernel<abi::BytesArguments> =
    Kernel { more: 15, ..Kernel::new("bytes_constant", "BYTES_THREADS", "BYTES_BYTES") };

const fn offsets<A: Arguments>(name: &'static str) -> Kernel<A> {
    let vectors = shape("OFFSETS_THREADS") as usize / 32;
    Kernel {
        block: vectors * crate::lanes::VECTOR,
        least: vectors * crate::lanes::VECTOR,
        ..Kernel::new(name, "OFFSETS_THREADS", "OFFSETS_THREADS")
    }
}

pub(crate) const OFFSETS_32: Kernel<abi::OffsetsArguments> = offsets("offsets_32");
pub(crate) const OFFSETS_64: Kernel<abi::OffsetsArguments> = offsets("offsets_64");

/// Blocks count bytes.
pub(crate) const UTF8: Kernel<abi::StringsArguments> =
    Kernel { more: 31, ..Kernel::new("utf8", "UTF8_THREADS", "UTF8_BYTES") };
pub(crate) const VIEWS: Kernel<abi::StringsArguments> =
    Kernel::new("views", "VIEWS_THREADS", "VIEWS_THREADS");
pub(crate) const FIXED: Kernel<abi::StringsArguments> =
    Kernel::new("fixed", "FIXED_THREADS", "FIXED_VALUES");
