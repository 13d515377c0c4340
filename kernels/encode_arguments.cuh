// Arguments of the kernels that encode, one struct for all kernels of an encoding;
// mirrored on the host.
#pragma once

#include "lanepack/format.cuh"

namespace lanepack {

// A vector of a window of strings, and one entry behind the last.
struct FsstVector {
    // Bytes and segments of its values, nulls left out.
    u64 bytes;
    u32 segments;
    // Its first run.
    u32 run;
};
static_assert(sizeof(FsstVector) == 16, "mirrored");

// A run: about run_bytes of the bytes of a vector, encoded by one thread.
struct FsstRun {
    // Where its codes are, in units of 16 bytes.
    u32 unit;
    // Code bytes, and the bytes they stand for.
    u32 codes;
    u32 bytes;
    u32 zero;
};
static_assert(sizeof(FsstRun) == 16, "mirrored");

// Where a run begins.
struct FsstRunStart {
    static constexpr u32 INSIDE = 1u << 31;

    // Its first segment's first byte, from the window's first one on.
    u64 start;
    // The row of that segment.
    u32 row;
    // Segments of the run begin less than so many bytes from there on; INSIDE is set
    // if the first one is not its value's first.
    u32 span;
};
static_assert(sizeof(FsstRunStart) == 16, "mirrored");

// Code bytes and value bytes: of a chunk, or before a run in its chunk.
struct FsstPlace {
    u64 codes;
    u64 bytes;
};
static_assert(sizeof(FsstPlace) == 16, "mirrored");

// Where the buffers of a chunk go. Codes begin at a multiple of 4, starts and tiles of 8.
struct FsstOutput {
    u8* codes;
    u8* starts;
    u8* tiles;
};
static_assert(sizeof(FsstOutput) == 24, "mirrored");

// What a sample of a group of vectors comes to.
struct FsstSample {
    // All bytes and segments of the group.
    u64 bytes;
    u64 segments;
    // Of what is picked: bytes, segments, code bytes (fsst_estimate only), and the
    // least and greatest code bytes of a segment.
    u64 picked_bytes;
    u64 picked_codes;
    u32 picked;
    u32 least;
    u32 most;
    // 1 if the first segment is picked because no other would be (fsst_pick only).
    u32 first_only;
};
static_assert(sizeof(FsstSample) == 48, "mirrored");

// A picked segment.
struct FsstSegment {
    // Its first byte in `values`, and its place in the sample.
    u64 from;
    u32 at;
    u32 length;
};
static_assert(sizeof(FsstSegment) == 16, "mirrored");

// Consecutive rows of a column of strings, all but the column's last of whole chunks:
// V vectors, B bytes from the first offset to the last, R = B / run_bytes + V runs.
struct FsstWindow {
    // Bytes of the column, at a multiple of 32; units of 32 bytes that hold some of
    // the window's are read as a whole.
    const u8* values;
    // rows + 1 offsets into `values`, u32 or i64: those of the window; units of 16 bytes that hold some
    // of them are read as a whole.
    const void* offsets;
    // A bit per row, from bit first_bit on; or null.
    const u8* valid;
    u64 first_bit;
    // The serialised table, at a multiple of 8.
    const u8* table;
    // A number for each row.
    u32* value_lengths;
    u32* code_lengths;
    // V + 1.
    FsstVector* vectors;
    // R.
    FsstRunStart* run_starts;
    FsstRun* runs;
    FsstPlace* places;
    // 2 B + 16 (R + 1) bytes, at a multiple of 16.
    u8* codes;
    // B / 32 + R / 4 + 2.
    u16* marks;
    // One for each chunk.
    FsstPlace* chunks;
    const FsstOutput* outputs;
    u32 rows;
    u32 chunk_rows;
    // 64 to 2,048; 256 to 512 is fastest.
    u32 run_bytes;
    // fsst_index only.
    u32 blocks_per_chunk;
    // 0, which the compiler must not know.
    u32 zero;
    u32 zero_too;
};
static_assert(sizeof(FsstWindow) == 144, "mirrored");

// Offset `index` of the window, as it stands there.
template <class Offset>
LANEPACK_DEVICE Offset offset_of(const FsstWindow& args, u32 index) {
    return reinterpret_cast<const Offset*>(args.offsets)[index];
}

LANEPACK_DEVICE bool is_valid(const FsstWindow& args, u32 row) {
    if (args.valid == nullptr) return true;
    const u64 bit = args.first_bit + row;
    return (args.valid[bit / 8] >> bit % 8 & 1) != 0;
}

LANEPACK_DEVICE u32 vectors_of(u32 rows) { return rows / VECTOR + (rows % VECTOR != 0); }

// A sample of each group of vectors of a window: `window` needs values, offsets,
// valid, first_bit, rows, value_lengths, vectors and, to estimate, the table.
struct FsstSampling {
    FsstWindow window;
    // One for each group.
    FsstSample* samples;
    // For each vector, how many segments of its group come before.
    u64* numbers;
    // For each vector, segments and bytes picked; behind fsst_pick_places, before it.
    uint2* picks;
    // For each group, `capacity` bytes at a distance of as many, and a segment for every
    // 1 to 1,024 of them: what does not fit is counted and left out.
    u8* bytes;
    FsstSegment* segments;
    u32 group_vectors;
    u32 budget;
    u32 capacity;
    u32 segment_capacity;
    // fsst_estimate: look only at groups of which nothing is picked, and there at their
    // first segment.
    u32 first_only;
    u32 zero;
};
static_assert(sizeof(FsstSampling) == 208, "mirrored");

// Bytes of a bound: as many as the longest that is stored, and a character more.
constexpr u32 STRING_HEAD = 72;

// Bounds of the values of a chunk.
struct StringBounds {
    // The first bytes of the least and the greatest, and their lengths.
    u8 heads[2][STRING_HEAD];
    u32 length[2];
    // Whether there is a valid value, and whether all are equal.
    u32 has;
    u32 is_single;
    // The least one's first byte in the column's values.
    u64 from;
};
static_assert(sizeof(StringBounds) == 168, "mirrored");

// string_*: `window` needs values, offsets, valid, first_bit, rows and chunk_rows.
struct StringBoundsArguments {
    FsstWindow window;
    // For each vector, the rows of its least and greatest value.
    uint2* extremes;
    // For each chunk.
    StringBounds* bounds;
    // Offsets where chunks begin, and at the end of the last.
    u64* borders;
};
static_assert(sizeof(StringBoundsArguments) == 168, "mirrored");

// Bytes to be copied, to a multiple of 16; units of 16 bytes that hold some of them are
// read as a whole.
struct ByteSpan {
    const u8* from;
    u8* to;
    u64 bytes;
};
static_assert(sizeof(ByteSpan) == 24, "mirrored");
struct SpansArguments {
    const ByteSpan* spans;
    u32 blocks_per_span;
    u32 zero;
};
static_assert(sizeof(SpansArguments) == 16, "mirrored");

// A vector whose values are copied: its first row, and where its bytes go.
struct GatherVector {
    u8* to;
    u32 row;
    u32 zero;
};
static_assert(sizeof(GatherVector) == 16, "mirrored");
// `window` as for string_*.
struct GatherArguments {
    FsstWindow window;
    const GatherVector* vectors;
    u32 count;
    u32 zero;
};
static_assert(sizeof(GatherArguments) == 160, "mirrored");

}  // namespace lanepack
