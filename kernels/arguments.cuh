// Arguments of the kernels in this folder, one struct each. Those of one encoding alone are in its
// source. The host's structs are generated from these (build/arguments.rs).
#pragma once

#include "lanepack/lookup.cuh"
#include "lanepack/node.cuh"

namespace lanepack {

// Values of 8 to 64 bits to memory: ffor_*, alp_*, plain_*, constant_* and others without a status.
struct WordsArguments {
    const Node* nodes;
    // At a multiple of 256 bytes; `at` of a node counts values.
    u8* out;
    u32 blocks_per_node;
    u32 zero;
};

// The same with a status, of values that damaged data may lack: dict_* and others; lengths:
// front_lengths.
struct DictArguments {
    // As lanepack/dict.cuh or the kernel's source has them.
    const Node* nodes;
    // As in WordsArguments.
    u8* out;
    u64* status;
    u32 blocks_per_node;
    u32 zero;
};

// The same from shared memory: dict_shared_*.
struct DictSharedArguments {
    const Node* nodes;
    u8* out;
    u64* status;
    u32 node_count;
    // Of the longest node.
    u32 vectors_per_node;
    // Values of a dictionary that shared memory has room for.
    u32 shared_values;
    u32 zero;
};

// Strings of dictionaries by their codes to memory: dict_strings; and those of front coding:
// front_strings, buffer 0 of whose nodes has prefixes, and buffer 1 offsets of suffixes.
struct DictStringsArguments {
    // Buffer 0: the codes, plain. Buffer 1: u64 offsets of the dictionary's values among
    // those of all dictionaries, and of the end of the last. `at` counts rows; `size` values.
    const Node* nodes;
    // The values of all dictionaries.
    const u8* values;
    // Bytes and offsets of all rows.
    u8* out;
    const u8* offsets;
    u64* status;
    // As in BytesArguments.
    u32* not_ascii;
    u32 blocks_per_node;
    // Bytes of an offset of a row, 4 or 8.
    u32 offset_bytes;
};

// Bits to a bitmap that begins as zeros: bits.
struct BitsArguments {
    const Node* nodes;
    u32* out;
    // For each node, the number of set bits is added here.
    u32* counts;
    u32 blocks_per_node;
    u32 zero;
};

// Bytes of strings: bytes_plain, bytes_constant; and of all values: lz_*. `at` of a node
// counts bytes.
struct BytesArguments {
    const Node* nodes;
    // At a multiple of 256 bytes.
    u8* out;
    u64* status;
    // For each node, set to 1 if a byte above 127 is written.
    u32* not_ascii;
    u32 blocks_per_node;
    u32 zero;
};

// Bytes of strings from FSST codes: fsst_decode.
struct FsstArguments {
    // The nodes, `at` counting bytes, and of text behind them, as many, `at` counting rows.
    const Node* nodes;
    // At a multiple of 256 bytes.
    u8* out;
    u64* status;
    // The offset of every row, if the bytes are text, which is checked; else null.
    const u8* offsets;
    u32 node_count;
    u32 blocks_per_node;
    // Bytes of an offset, 4 or 8.
    u32 offset_bytes;
    u32 zero;
};

// Lengths of strings to Arrow offsets: offsets_32, offsets_64.
struct OffsetsArguments {
    // The nodes of the strings, `at` counting bytes, and behind them, as many,
    // the nodes of their value lengths, `at` counting rows.
    const Node* nodes;
    u8* out;
    u64* status;
    u32 node_count;
    u32 blocks_per_node;
};

struct Range;

// Verdicts on the rows of a column to a bitmap: select_*.
struct SelectArguments {
    // `at` counts rows; row 0 is bit 0 of the bitmap.
    const Node* nodes;
    // For each node that of its validity; null if all rows are valid.
    const Node* validity;
    // select_bits: not used.
    const Range* ranges;
    u32* out;
    // Of the whole column: what the last word has behind them becomes zero.
    u64 rows;
    u32 range_count;
    // UNSIGNED, SIGNED or FLOAT.
    u32 order;
    u32 combine;
    // Whether rows are wanted that do not pass; nulls are never.
    u32 negate;
    // 2^node_shift blocks take a node: no division for every few vectors.
    u32 node_shift;
    // Vectors of a warp, at most SELECT_EACH.
    u32 each;
};

struct StringsTest;

// Verdicts on strings: select_literals, select_automaton.
struct SelectStringsArguments {
    // Without ranges.
    SelectArguments select;
    // For each node that of its stored lengths, and its test.
    const Node* lengths;
    const StringsTest* tests;
    u64* status;
};

struct CodeRange;

// The codes that pass, of dictionaries whose values have been tested: code_ranges.
struct CodeRangesArguments {
    // `at` counts bits; `parameter` is the chunk's number where there are tests.
    const Node* nodes;
    const u32* bitmap;
    CodeRange* ranges;
    // For each chunk its test of codes, or null.
    StringsTest* tests;
    u32 count;
    u32 zero;
};

// Words in ranges, of plain values: values_in_ranges.
struct ValuesInRangesArguments {
    // Plain; `at` counts bits, and is a multiple of 32.
    const Node* nodes;
    u32* out;
    const Range* ranges;
    u32 range_count;
    // UNSIGNED, SIGNED or FLOAT.
    u32 order;
    u32 value_bytes;
    u32 blocks_per_node;
};

// Keys that a lookup has, of plain values: probe_keys.
struct ProbeArguments {
    // Plain; `at` counts bits, and is a multiple of 32.
    const Node* nodes;
    u32* out;
    // One of both.
    DenseKeys dense;
    HashedKeys hashed;
    // A bit for each code of a column of the lookup that passes, or null; and where the code is.
    const u32* set;
    u64 shift;
    u64 mask;
    u32 is_hashed;
    // Bytes of an entry, and of a value.
    u32 entry_bytes;
    u32 value_bytes;
    u32 is_signed;
    u32 blocks_per_node;
    u32 zero;
};

// Where the codes of a column are in entries, and which codes they become.
struct RemappedField {
    const u32* codes;
    u64 from_shift;
    u64 mask;
    u64 to_shift;
};

// Entries of a lookup with other codes: remap_entries.
struct RemapArguments {
    const u8* from;
    u8* to;
    const RemappedField* fields;
    // Entries.
    u64 count;
    u32 field_count;
    // Bytes of an entry.
    u32 from_bytes;
    u32 to_bytes;
    u32 zero;
};

// Slots of a hash table of groups: list_groups.
struct ListGroupsArguments {
    const u64* numbers;
    u32* slots;
    u32* count;
    u32 slot_count;
    u32 zero;
};

// Groups in some slots of a hash table, `words` words each beside their numbers: gather_groups.
struct GatherGroupsArguments {
    const u64* numbers;
    const u64* table;
    const u32* slots;
    u64* out;
    u32 slot_count;
    u32 count;
    u32 words;
    u32 zero;
};

struct WideRange;

// Verdicts on values of 128 and 256 bits: select_wide.
struct SelectWideArguments {
    // Without ranges.
    SelectArguments select;
    // For each node four: those of its words, and behind them ones without rows.
    const Node* words;
    const WideRange* ranges;
    u32 range_count;
    // Words of a value: 2 or 4.
    u32 count;
};

// One bitmap joined with another: join_selected.
struct JoinArguments {
    const u32* from;
    u32* out;
    u64 bits;
    u32 combine;
    // Whether the bits of `from` that are zero count as set.
    u32 negate;
};

// The number of set bits: count_selected.
struct CountArguments {
    const u32* bitmap;
    u64* count;
    u64 bits;
};

// What scans make of the partials of a chunk: reduce_partials.
struct Reduction {
    // The first partial of the aggregate, and what it is: see kernels/scan.cu.
    u32 first;
    u32 kind;
};

// Partials of vectors to those of chunks: reduce_partials.
struct ReduceArguments {
    // As in `ScanHead`.
    const u64* partials;
    // Partial p of chunk c: out[p * chunks + c].
    u64* out;
    // A node of each chunk, for its rows.
    const Node* nodes;
    const Reduction* reductions;
    u32 count;
    u32 chunks;
    u32 stride;
    u32 zero;
};

// The widths of packed vectors: packed_widths.
struct WidthsArguments {
    const Node* nodes;
    // Bit w - 1 is set for width w.
    u64* out;
    // Trees, `stride` nodes apart: looked at is number `node` of those of a shape.
    u32 count;
    // Bytes of a value.
    u32 size;
    u32 stride;
    u32 node;
    u32 shape;
    u32 zero;
};

// Values of the rows that a bitmap keeps: keep_*.
struct KeepArguments {
    // `at` counts rows; row 0 is bit 0 of the bitmap.
    const Node* nodes;
    u32* bitmap;
    // What is kept of each node before its vectors, `stride` numbers for a node, and of all
    // nodes before each; behind the last what is kept of all. Rows; keep_lengths: bytes.
    u64* before;
    u64* places;
    // keep_counts, keep_lengths: not used. keep_strings: offsets, but for the last.
    u8* out;
    u64 rows;
    u32 stride;
    // keep_counts, keep_lengths: a block takes a node. Else as in SelectArguments.
    u32 node_shift;
    u32 each;
    u32 zero;
};

struct KeepLengthsArguments {
    KeepArguments keep;
    // For each node that of its value lengths.
    const Node* lengths;
    u64* status;
};

struct KeepPlacesArguments {
    u64* places;
    u32 count;
    u32 zero;
};

struct KeepWideArguments {
    KeepArguments keep;
    // As in SelectWideArguments.
    const Node* words;
};

struct KeepStringsArguments {
    KeepArguments keep;
    // For each node those of its stored and of its value lengths.
    const Node* stored_lengths;
    const Node* value_lengths;
    // What keep_lengths and keep_places have found.
    const u64* bytes_before;
    const u64* byte_places;
    u8* bytes;
    u64* status;
    // Bytes of an offset, 4 or 8.
    u32 offset_bytes;
    u32 zero;
};

// What was decoded of strings: utf8 checks it, views and fixed make other arrays of it.
struct StringsArguments {
    // `at` counts rows.
    const Node* nodes;
    // All bytes, and the offset of every row and behind the last one.
    const u8* bytes;
    const u8* offsets;
    // views: 16 bytes a row. fixed: `width` bytes a row. utf8: not used.
    u8* out;
    // fixed: the validity bitmap, or null. Else not used.
    const u32* valid;
    u64* status;
    // utf8: the flags that the decoders have set. Else not used.
    const u32* not_ascii;
    u32 blocks_per_node;
    // Bytes of an offset, 4 or 8.
    u32 offset_bytes;
    // fixed: bytes of a value. Else not used.
    u32 width;
    u32 zero;
};

}  // namespace lanepack
