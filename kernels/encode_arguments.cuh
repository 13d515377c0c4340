// Arguments of the kernels that compress strings. The host's structs are generated from these
// (build/arguments.rs).
#pragma once

#include "lanepack/fsst_encode.cuh"

namespace lanepack {

// A vector of a column of strings, and one entry behind the last.
struct FsstVector {
    // Bytes and pieces of its values, nulls left out.
    u64 bytes;
    u32 pieces;
    // Its first run.
    u32 run;
};

// A run: about run_bytes of the bytes of a vector, encoded by one thread.
struct FsstRun {
    // Where its codes are, in units of 16 bytes.
    u32 unit;
    // Code bytes, and the bytes they stand for.
    u32 codes;
    u32 bytes;
    u32 zero;
};

// Units of codes, and codes between two marks.
constexpr u32 UNIT = 16;
constexpr u32 MARK = 64;
// Bits of a mark that count codes behind the multiple of 64 that it belongs to.
constexpr u32 MARK_CODE_BITS = 4;

// Where a run begins.
struct FsstRunStart {
    static constexpr u32 INSIDE = 1u << 31;

    // Its first segment's first byte, from the column's first one on.
    u64 start;
    // The row of that segment.
    u32 row;
    // Segments of the run begin less than so many bytes from there on; INSIDE is set
    // if the first one is not its value's first.
    u32 span;
};

// Code bytes and value bytes: of a chunk, or before a run in its chunk.
struct FsstPlace {
    u64 codes;
    u64 bytes;
};

// Where the buffers of a chunk go; null if it has no codes after all. Codes begin at a
// multiple of 16, starts and tiles of 8.
struct FsstOutput {
    u8* codes;
    u8* starts;
    u8* tiles;
    // Vectors of the chunk that have rows.
    u32 vectors;
    u32 zero;
};

// What stands before a vector in its group, and at the end of the group.
struct FsstBefore {
    u64 bytes;
    u64 pieces;
};

// Consecutive vectors of a group, of which a sample is taken, and the number of the
// table that is trained on it or tried on it.
struct FsstRange {
    u32 first_vector;
    u32 end_vector;
    u32 group;
    u32 table;
    u32 rows;
};

// A picked piece of a value: its first byte in `values`.
struct FsstPiece {
    u64 from;
    u32 length;
    u32 zero;
};

// What a table makes of a sample.
struct FsstSample {
    // Bytes of the pieces and of their codes.
    u64 bytes;
    u64 codes;
    u32 pieces;
    // The least (all bits inverted, so that zeros are where all begins) and greatest code
    // bytes of a piece.
    u32 least_inverted;
    u32 most;
    u32 zero;
};

// A trained table, at a multiple of 16.
struct FsstTrained {
    u8 table[MAX_TABLE];
    // Bytes of the sample and of its codes; pieces, 0 if there is no table.
    u64 bytes;
    u32 codes;
    u32 pieces;
};

// What the next byte or symbol is in the counts of training: a byte without a symbol,
// or 256 and a code.
constexpr u32 UNITS = 512;
// Places for candidates, more than twice as many as there can be: a candidate occurs once
// for every 12 KiB of sample at least, and twice, and each byte gives two at most.
constexpr u32 CANDIDATES = 65536;

// What training needs beside the sample, for each table.
struct FsstTrainer {
    // Candidates by hash, each as what it differs in from VACANT, what each would save, and
    // the places of those that there are.
    u64 keys[CANDIDATES];
    u32 gains[CANDIDATES];
    u32 places[CANDIDATES];
    // Of each unit after another, and of each unit. Zero between generations, as is what
    // else is counted.
    u32 pairs[UNITS * UNITS];
    u32 units[UNITS];
    // The table that is tried.
    u8 table[MAX_TABLE];
    // Of the pieces parsed with it.
    u32 bytes;
    u32 codes;
    u32 candidates;
    // Whether no more tables are to be tried.
    u32 is_done;
};

// A column of strings: V vectors, B bytes from the first offset to the last, R = B /
// run_bytes + V runs; and what is made of some of its chunks with one table: from
// first_vector to end_vector, with b bytes and r runs, at most b / run_bytes + 1 and one
// for each vector.
// Shared with the host.
struct StringsView {
    // Bytes, at a multiple of 32; units of 32 bytes that hold some of the column's are read
    // as a whole.
    const u8* values;
    // rows + 1 offsets into `values`, u32 or i64; units of 16 bytes that hold some of them
    // are read as a whole.
    const void* offsets;
    // A bit per row, from bit first_bit on; or null.
    const u8* valid;
    u64 first_bit;
    // Rows of each chunk, if chunks are leaves, which need not fill them; else null.
    const u32* leaf_rows;
    // MAX_TABLE bytes that begin with the serialised table, at a multiple of 8.
    const u8* table;
    // A number for each row, zeros up to a whole vector.
    u32* value_lengths;
    u32* code_lengths;
    // V + 1.
    FsstVector* vectors;
    // 32 for each vector: pieces of 32 rows each.
    u32* row_pieces;
    // R.
    FsstRunStart* run_starts;
    // r, from the first run of first_vector on.
    FsstRun* runs;
    FsstPlace* places;
    // 2 b + 16 (r + 2) bytes, at a multiple of 16.
    u8* codes;
    // b / 32 + r / 4 + 3.
    u16* marks;
    // As many as `codes` has tiles, and one for each chunk: the run that holds a tile's first
    // code. Those of a chunk stand where its codes do (tiles_of).
    u32* tile_runs;
    // One for each chunk from first_vector on.
    FsstPlace* chunks;
    const FsstOutput* outputs;
    // fsst_encode: how many runs have been taken; 0 before.
    u32* taken;
    u32 rows;
    u32 chunk_rows;
    // 64 to 2,048; 256 to 512 is fastest.
    u32 run_bytes;
    u32 first_vector;
    u32 end_vector;
    // fsst_place only.
    u32 blocks_per_chunk;
    // 0, which the compiler must not know.
    u32 zero;
    u32 zero_too;
};

// Samples are made of pieces of values: so many bytes each, from the value's begin on.
constexpr u32 SAMPLE_PIECE = 128;
// A sample has one in so many bytes, but at least `least` and at most `most` of an FsstSampling.
constexpr u32 SAMPLE_SHARE = 16;

LANEPACK_DEVICE u32 pieces_of(u32 length) { return length / SAMPLE_PIECE + (length % SAMPLE_PIECE != 0); }

// Offset `index` of the column, as it stands there.
template <class Offset>
LANEPACK_DEVICE Offset offset_of(const StringsView& args, u32 index) {
    return reinterpret_cast<const Offset*>(args.offsets)[index];
}

LANEPACK_DEVICE bool is_valid(const StringsView& args, u32 row) {
    if (args.valid == nullptr) return true;
    const u64 bit = args.first_bit + row;
    return (args.valid[bit / 8] >> bit % 8 & 1) != 0;
}

LANEPACK_DEVICE u32 vectors_of(u32 rows) { return rows / VECTOR + (rows % VECTOR != 0); }

// Samples of ranges: `view` needs values, offsets, rows, value_lengths, vectors and
// row_pieces.
// Shared with the host.
struct FsstSampling {
    StringsView view;
    // V and one for each group; a group's end stands between it and the next.
    FsstBefore* before;
    // fsst_numbers: groups.
    const FsstRange* ranges;
    // fsst_pick: `capacity` for each range.
    FsstPiece* pieces;
    // One for each table.
    FsstTrained* trained;
    // fsst_estimate: one for each range.
    FsstSample* samples;
    // Fewest and most bytes to pick of a range; 0 for as many pieces as there may be.
    u32 least;
    u32 most;
    // Most pieces of a range.
    u32 capacity;
    u32 blocks_per_range;
};

// Training of a table for each range of an FsstSampling, on its pieces.
// Shared with the host.
struct FsstTraining {
    const u8* values;
    const FsstPiece* pieces;
    FsstTrained* trained;
    FsstTrainer* trainers;
    // Pieces between those of two tables.
    u32 capacity;
    // A power of two for fsst_train_candidates.
    u32 blocks_per_table;
    // How many of 128 pieces are parsed.
    u32 share;
    // Whether candidates are to improve a table, rather than for a new one.
    u32 refines;
    // Whether it ends with this table.
    u32 is_last;
    u32 zero;
};

// Bytes of a bound: as many as the longest that is stored, and a character more.
constexpr u32 STRING_HEAD = 72;

// Bounds of the values of a chunk.
struct StringBounds {
    // The first bytes of the least and the greatest, and their lengths.
    u8 heads[2][STRING_HEAD];
    u32 length[2];
    // Whether there is a valid value.
    u32 has;
    u32 zero;
};

// Whether the valid values of a chunk are all equal, as none are, and the first: its first
// byte in the column's values, and its length.
struct StringSingle {
    u64 from;
    u32 length;
    u32 is_single;
};

// string_*: `view` needs values, offsets, valid, first_bit, rows and chunk_rows.
struct StringBoundsArguments {
    StringsView view;
    // For each vector, the row of its first value, and whether others differ from it.
    uint2* firsts;
    // For each chunk.
    StringSingle* singles;
    // For each vector, the rows of its least and greatest value.
    uint2* extremes;
    // For each chunk.
    StringBounds* bounds;
    // Offsets where chunks begin, and at the end of the last.
    u64* borders;
};

// Bytes to be copied, to a multiple of 16; units of 16 bytes that hold some of them are
// read as a whole.
struct ByteSpan {
    const u8* from;
    u8* to;
    u64 bytes;
};

// copy_spans.
struct SpansArguments {
    const ByteSpan* spans;
    u32 blocks_per_span;
    u32 zero;
};

// A vector whose values are copied: its first row, and where its bytes go.
struct GatherVector {
    u8* to;
    u32 row;
    u32 zero;
};

// gather_strings_*: `view` as for string_*.
struct GatherStringsArguments {
    StringsView view;
    const GatherVector* vectors;
    u32 count;
    u32 zero;
};

}  // namespace lanepack
