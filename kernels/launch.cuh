// Shapes of the launches, for kernels and host: src/gpu/kernels.rs reads these
// lines when the crate is compiled. Those of one encoding alone are in its source.
#pragma once

#include "lanepack/base.cuh"

namespace lanepack {

// Kernels over unit.cuh, as ffor_*: a block decodes whole vectors of so many bytes of values;
// dict_ffor_*, dict_pfor_*, dict_plain_*: of codes.
constexpr u32 UNIT_THREADS = 64;
constexpr u32 UNIT_BYTES = 8192;
// Kernels that copy, as plain_* and constant_*: bytes of values that a block writes.
constexpr u32 COPY_THREADS = 256;
constexpr u32 COPY_BYTES = 16384;
// dict_check: a warp takes a vector.
constexpr u32 DICT_CHECK_THREADS = 128;
// dict_shared_*: blocks that stay share all vectors; bytes of shared memory for a dictionary at
// least, and at most beside it.
constexpr u32 DICT_SHARED_THREADS = 768;
constexpr u32 DICT_SHARED_LEAST = 8192;
constexpr u32 DICT_SHARED_OTHER = 8192;
// dict_strings: a block takes a vector. dict_lengths: a thread takes a value.
constexpr u32 DICT_STRINGS_THREADS = 256;
// front_strings: a block takes a vector. front_lengths: a thread takes a value.
constexpr u32 FRONT_THREADS = 256;
// fsst_decode: codes that a block decodes at most, and, given more blocks, at least.
constexpr u32 FSST_THREADS = 128;
constexpr u32 FSST_CODES = 32768;
constexpr u32 FSST_CODES_LEAST = 8192;
// lz_*: a warp writes a segment.
constexpr u32 LZ_THREADS = 128;
// lz_find_*, lz_find_wide_*, lz_write: a warp takes a segment; lz_layout: a thread does, of the
// block's chunk; lz_borders: a thread does.
constexpr u32 LZ_FIND_THREADS = 128;
constexpr u32 LZ_WIDE_THREADS = 32;
constexpr u32 LZ_LAYOUT_THREADS = 128;
constexpr u32 LZ_WRITE_THREADS = 128;
// bytes_*
constexpr u32 BYTES_THREADS = 256;
constexpr u32 BYTES_BYTES = 16384;
// bits: a thread makes 128 bits of the output; count_bits, copy_bits, gaps: a word of 32.
constexpr u32 BITS_THREADS = 256;
// offsets_*: a warp makes the offsets of a vector.
constexpr u32 OFFSETS_THREADS = 128;
// utf8: bytes that a block looks at.
constexpr u32 UTF8_THREADS = 256;
constexpr u32 UTF8_BYTES = 65536;
// views: a thread makes a view.
constexpr u32 VIEWS_THREADS = 256;
// fixed: a warp copies values.
constexpr u32 FIXED_THREADS = 256;
constexpr u32 FIXED_VALUES = 512;
// bounds_*, windows_* and other searches, alp_choose_*, rd_measure_*: a warp measures a vector.
constexpr u32 MEASURE_THREADS = 128;
// layout_*, alp_layout_*, rd_layout_*: a thread takes a vector of the block's chunk.
constexpr u32 LAYOUT_THREADS = 128;
// pack_*, pack_patched_*, alp_pack_*, rd_pack_*: PACK_LANES threads pack a vector.
constexpr u32 PACK_THREADS = 64;
constexpr u32 PACK_LANES = 8;
// alp_candidates_*: a block takes a chunk.
constexpr u32 CANDIDATES_THREADS = 256;
// rd_cut_*: a block takes a chunk, a warp a number of left bits.
constexpr u32 RD_CUT_THREADS = 512;
// sample_*, divisor_*: a block takes a chunk, a warp a vector of the sample.
constexpr u32 SAMPLE_THREADS = 512;
// distinct_find_*, distinct_strings_find_*: a warp takes a vector.
constexpr u32 DISTINCT_THREADS = 256;
// distinct_sort, distinct_merge, distinct_values_*, and those of strings: a block takes so many bytes
// of keys.
constexpr u32 DISTINCT_SORT_THREADS = 512;
constexpr u32 SORT_BYTES = 16384;
// distinct_codes: a thread takes so many rows.
constexpr u32 CODES_EACH = 4;
// distinct_strings_copy_*, front_copy_*: so many threads copy a value.
constexpr u32 COPIERS = 8;
// front_prefixes_*, front_copy_*.
constexpr u32 SPLIT_THREADS = 256;
// front_places_*: a block takes a chunk.
constexpr u32 SPLIT_PLACES_THREADS = 512;

// fsst_lengths_*: a block looks at a vector.
constexpr u32 FSST_VECTOR_THREADS = 256;
// fsst_pick_*, fsst_estimate_*: a warp finds a piece at a time.
constexpr u32 FSST_SAMPLE_THREADS = 256;
// fsst_train_count, fsst_train_candidates: blocks that share a table.
constexpr u32 FSST_TRAIN_THREADS = 256;
constexpr u32 FSST_COUNT_BLOCKS = 16;
constexpr u32 FSST_CANDIDATES_BLOCKS = 128;
// fsst_train_grow, fsst_train_refine: a block makes a table.
constexpr u32 FSST_CHOOSE_THREADS = 512;
// fsst_encode_*: blocks that a multiprocessor holds; dynamic shared memory of a block.
constexpr u32 FSST_ENCODE_THREADS = 320;
constexpr u32 FSST_ENCODE_BLOCKS = 2;
constexpr u32 FSST_ENCODE_SHARED = 77576;
// fsst_chunks, fsst_numbers: a block scans a chunk, or a group.
constexpr u32 FSST_CHUNKS_THREADS = 256;
constexpr u32 FSST_SCAN_THREADS = 256;
// fsst_place: a block takes a group of tiles.
constexpr u32 FSST_PLACE_THREADS = 256;

// string_*, gather_strings_*: a warp a vector; copy_spans: bytes of a block.
constexpr u32 STRINGS_THREADS = 128;
constexpr u32 SPAN_BYTES = 16384;

// select_*: a warp takes up to so many vectors.
constexpr u32 SELECT_THREADS = 256;
constexpr u32 SELECT_EACH = 4;
// code_ranges: a warp takes a dictionary.
constexpr u32 CODE_RANGES_THREADS = 128;
// probe_keys: values of a block.
constexpr u32 PROBE_THREADS = 256;
constexpr u32 PROBE_ROWS = 2048;
// remap_entries: an entry a thread.
constexpr u32 REMAP_THREADS = 256;
// list_groups: a slot a thread; gather_groups: a group a thread.
constexpr u32 LIST_GROUPS_THREADS = 256;
constexpr u32 GATHER_GROUPS_THREADS = 256;
// keep_*: a warp takes up to so many vectors; keep_places: one block.
constexpr u32 KEEP_THREADS = 256;
constexpr u32 KEEP_EACH = 4;
constexpr u32 KEEP_PLACES_THREADS = 512;
// join_selected: a word a thread.
constexpr u32 JOIN_THREADS = 256;
// count_selected: words that a block counts.
constexpr u32 COUNT_THREADS = 256;
constexpr u32 COUNT_WORDS = 4096;

// reduce_partials: a warp makes one aggregate of a chunk. packed_widths: a warp a node.
constexpr u32 REDUCE_THREADS = 128;
constexpr u32 WIDTHS_THREADS = 128;

}  // namespace lanepack
