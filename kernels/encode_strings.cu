// What compressing strings needs beside their codes: bounds of chunks, offsets at their
// borders, and bytes copied as they are.
//
//   string_offsets_*        offsets at the borders of chunks
//   string_extremes_*       a warp a vector: the rows of the least and the greatest value
//   string_bounds_*         a block a chunk: of those, the chunk's
//   string_firsts_*         a warp a vector: its first value, and whether others differ
//   string_singles_*        a block a chunk: whether all its values are equal
//   copy_spans              bytes from anywhere to multiples of 16
//   gather_strings_*        a warp a vector: values one behind the other, nulls left out
//
// Values compare by eight bytes at a time as numbers, the first of which are at hand.
//
// string_extremes runs beside codes and bodies, whose kernels wait for the room of its blocks; beside
// training it costs more than it takes alone, as a multiprocessor's split into cache and shared memory
// is fixed while a block without shared memory is there (docs/experiments.md).
#include "launch.cuh"
#include "texts.cuh"

namespace lanepack {

// Takes `other` if it comes before (sign -1) or behind (1) `text`, or there is none yet.
LANEPACK_DEVICE void take(Text& text, const Text& other, i32 sign) {
    if (other.row == NO_ROW) return;
    if (text.row == NO_ROW || compare(other, text) * sign > 0) text = other;
}

// Takes what all lanes have; the first one has the result.
LANEPACK_DEVICE void reduce(Text& text, i32 sign) {
#pragma unroll 1
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        const u64 bytes = __shfl_down_sync(FULL, reinterpret_cast<u64>(text.bytes), step);
        const u64 prefix = __shfl_down_sync(FULL, text.prefix, step);
        const u32 length = __shfl_down_sync(FULL, text.length, step);
        const u32 row = __shfl_down_sync(FULL, text.row, step);
        take(text, {reinterpret_cast<const u8*>(bytes), prefix, length, row}, sign);
    }
}

template <class Offset>
LANEPACK_DEVICE void string_offsets(const StringBoundsArguments& args) {
    const u32 border = blockIdx.x * STRINGS_THREADS + threadIdx.x;
    const u32 rows = args.view.rows;
    const u32 chunks = (rows + args.view.chunk_rows - 1) / args.view.chunk_rows;
    if (border > chunks) return;
    const StringReader<Offset> reader{args.view};
    args.borders[border] = reader.from(border == chunks ? rows : border * args.view.chunk_rows);
}

// The vector of a warp, and its rows: none behind the column's last.
struct VectorRows {
    u32 vector;
    u32 first;
    u32 end;

    LANEPACK_DEVICE explicit VectorRows(u32 rows)
        : vector(blockIdx.x * (STRINGS_THREADS / WARP) + warp_in_block()),
          first(min(vector * VECTOR, rows)),
          end(min(rows - first, VECTOR) + first) {}
};

template <class Offset>
LANEPACK_DEVICE void string_extremes(const StringBoundsArguments& args) {
    const VectorRows rows(args.view.rows);
    if (rows.first == rows.end) return;
    const StringReader<Offset> reader{args.view};
    Text least{nullptr, 0, 0, NO_ROW};
    Text most = least;
    for (u32 row = rows.first + threadIdx.x % WARP; row < rows.end; row += WARP) {
        if (!reader.is_valid(row)) continue;
        const Text text = text_at(reader, row);
        take(least, text, -1);
        take(most, text, 1);
    }
    __syncwarp();
    reduce(least, -1);
    reduce(most, 1);
    if (threadIdx.x % WARP == 0) args.extremes[rows.vector] = make_uint2(least.row, most.row);
}

template <class Offset>
LANEPACK_DEVICE void string_bounds(const StringBoundsArguments& args) {
    const u32 chunk_vectors = args.view.chunk_rows / VECTOR;
    const u32 first = blockIdx.x * chunk_vectors;
    const u32 end = min(first + chunk_vectors, vectors_of(args.view.rows));
    const StringReader<Offset> reader{args.view};
    Text least{nullptr, 0, 0, NO_ROW};
    Text most = least;
    for (u32 vector = first + threadIdx.x; vector < end; vector += WARP) {
        const uint2 rows = args.extremes[vector];
        if (rows.x == NO_ROW) continue;
        take(least, text_at(reader, rows.x), -1);
        take(most, text_at(reader, rows.y), 1);
    }
    __syncwarp();
    reduce(least, -1);
    reduce(most, 1);
    const u32 least_row = __shfl_sync(FULL, least.row, 0);
    const u32 most_row = __shfl_sync(FULL, most.row, 0);
    StringBounds& bounds = args.bounds[blockIdx.x];
    const bool has = least_row != NO_ROW;
    if (has) {
        least = text_at(reader, least_row);
        most = text_at(reader, most_row);
    } else {
        least.length = most.length = 0;
    }
    for (u32 i = threadIdx.x; i < STRING_HEAD; i += WARP) {
        bounds.heads[0][i] = i < least.length ? least.bytes[i] : 0;
        bounds.heads[1][i] = i < most.length ? most.bytes[i] : 0;
    }
    if (threadIdx.x == 0) {
        bounds.length[0] = least.length;
        bounds.length[1] = most.length;
        bounds.has = has ? 1 : 0;
        bounds.zero = 0;
    }
}

// Ends at the first rows that differ: soon where a chunk is no constant.
template <class Offset>
LANEPACK_DEVICE void string_firsts(const StringBoundsArguments& args) {
    const VectorRows rows(args.view.rows);
    if (rows.first == rows.end) return;
    const StringReader<Offset> reader{args.view};
    Text one{nullptr, 0, 0, NO_ROW};
    bool differ = false;
    for (u32 base = rows.first; base < rows.end && !differ; base += WARP) {
        const u32 row = base + threadIdx.x % WARP;
        const bool valid = row < rows.end && reader.is_valid(row);
        const u32 all = __ballot_sync(FULL, valid);
        if (all == 0) continue;
        if (one.row == NO_ROW) one = text_at(reader, base + static_cast<u32>(__ffs(static_cast<i32>(all))) - 1);
        differ = __any_sync(FULL, valid && compare(text_at(reader, row), one) != 0);
    }
    if (threadIdx.x % WARP == 0) args.firsts[rows.vector] = make_uint2(one.row, differ ? 1 : 0);
}

template <class Offset>
LANEPACK_DEVICE void string_singles(const StringBoundsArguments& args) {
    const u32 chunk_vectors = args.view.chunk_rows / VECTOR;
    const u32 first = blockIdx.x * chunk_vectors;
    const u32 end = min(first + chunk_vectors, vectors_of(args.view.rows));
    const StringReader<Offset> reader{args.view};
    u32 row = NO_ROW;
    bool differ = false;
    for (u32 vector = first + threadIdx.x; vector < end; vector += WARP) {
        const uint2 found = args.firsts[vector];
        row = min(row, found.x);
        differ = differ || found.y != 0;
    }
    row = __reduce_min_sync(FULL, row);
    differ = __any_sync(FULL, differ);
    Text one{nullptr, 0, 0, NO_ROW};
    if (row != NO_ROW) one = text_at(reader, row);
    for (u32 vector = first + threadIdx.x; vector < end && !differ; vector += WARP) {
        const u32 other = args.firsts[vector].x;
        differ = other != NO_ROW && compare(text_at(reader, other), one) != 0;
    }
    differ = __any_sync(FULL, differ);
    if (threadIdx.x == 0) {
        const u64 from = row != NO_ROW ? reader.from(row) : 0;
        args.singles[blockIdx.x] = {from, one.length, differ ? 0u : 1u};
    }
}

LANEPACK_KERNEL(string_offsets_32, STRINGS_THREADS, 1, StringBoundsArguments) { string_offsets<u32>(args); }
LANEPACK_KERNEL(string_offsets_64, STRINGS_THREADS, 1, StringBoundsArguments) { string_offsets<u64>(args); }
LANEPACK_KERNEL(string_extremes_32, STRINGS_THREADS, 12, StringBoundsArguments) { string_extremes<u32>(args); }
LANEPACK_KERNEL(string_extremes_64, STRINGS_THREADS, 12, StringBoundsArguments) { string_extremes<u64>(args); }
LANEPACK_KERNEL(string_bounds_32, 32, 1, StringBoundsArguments) { string_bounds<u32>(args); }
LANEPACK_KERNEL(string_bounds_64, 32, 1, StringBoundsArguments) { string_bounds<u64>(args); }
LANEPACK_KERNEL(string_firsts_32, STRINGS_THREADS, 1, StringBoundsArguments) { string_firsts<u32>(args); }
LANEPACK_KERNEL(string_firsts_64, STRINGS_THREADS, 1, StringBoundsArguments) { string_firsts<u64>(args); }
LANEPACK_KERNEL(string_singles_32, 32, 1, StringBoundsArguments) { string_singles<u32>(args); }
LANEPACK_KERNEL(string_singles_64, 32, 1, StringBoundsArguments) { string_singles<u64>(args); }

// A thread writes 16 bytes, SPAN_BYTES / STRINGS_THREADS / 16 times.
LANEPACK_KERNEL(copy_spans, STRINGS_THREADS, 1, SpansArguments) {
    const ByteSpan span = args.spans[blockIdx.x / args.blocks_per_span];
    const u64 first = static_cast<u64>(blockIdx.x % args.blocks_per_span) * SPAN_BYTES;
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(span.from) % 16);
    const uint4* from = reinterpret_cast<const uint4*>(span.from - shift);
#pragma unroll 4
    for (u32 i = 0; i < SPAN_BYTES / STRINGS_THREADS / 16; i++) {
        const u64 at = first + (i * STRINGS_THREADS + threadIdx.x) * 16;
        if (at >= span.bytes) continue;
        if (at + 16 <= span.bytes) {
            uint4 piece = __ldcs(from + at / 16);
            if (shift != 0) piece = bytes_from(piece, __ldcs(from + at / 16 + 1), shift);
            __stcs(reinterpret_cast<uint4*>(span.to + at), piece);
        } else {
            for (u64 byte = at; byte < span.bytes; byte++) span.to[byte] = span.from[byte];
        }
    }
}

template <class Offset>
LANEPACK_DEVICE void gather_strings(const GatherStringsArguments& args) {
    const u32 number = blockIdx.x * (STRINGS_THREADS / WARP) + warp_in_block();
    if (number >= args.count) return;
    const GatherVector vector = args.vectors[number];
    const StringReader<Offset> reader{args.view};
    const u32 lane = threadIdx.x % WARP;
    const u32 end = min(args.view.rows - vector.row, VECTOR) + vector.row;
    u8* to = vector.to;
    for (u32 row = vector.row; row < end; row++) {
        if (!reader.is_valid(row)) continue;
        const u8* from = args.view.values + reader.from(row);
        const u32 length = reader.length(row);
        for (u32 i = lane; i < length; i += WARP) to[i] = from[i];
        to += length;
    }
}

LANEPACK_KERNEL(gather_strings_32, STRINGS_THREADS, 1, GatherStringsArguments) { gather_strings<u32>(args); }
LANEPACK_KERNEL(gather_strings_64, STRINGS_THREADS, 1, GatherStringsArguments) { gather_strings<u64>(args); }

}  // namespace lanepack
