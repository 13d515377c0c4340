// Runs of equal words: their values, their lengths, and the rows where they begin; the same as
// src/encoding/rle.rs.
//
//   runs_count    a warp a vector: its runs
//   runs_layout   a block a chunk: the number of each vector's first run, and how many there are
//   (host)        keeps chunks where runs may take less than what else there is
//   runs_write    a warp a vector: values and lengths, which are words as others from there on; bits
#include "encode_rows.cuh"

namespace lanepack {

// runs_count_*, runs_write_*: a warp takes a vector; runs_layout: a thread takes a vector of the
// block's chunk.
constexpr u32 RUNS_THREADS = 256;

// runs_count_* and runs_write_* (a warp a vector), runs_layout (a block a chunk).
struct RunsArguments {
    Source source;
    // What chunks come to, for their least value.
    const ChunkTotals* totals;
    // For each chunk whether its runs are looked for.
    const u32* asked;
    // For each vector its runs, then the number of the first in its chunk.
    u32* firsts;
    // For each chunk.
    u32* runs;
    // For each chunk so many vectors of the runs' values, and of their lengths.
    u8* values;
    u16* lengths;
    // A bit for each row: 1 where a run begins.
    u32* begins;
    u32 run_vectors;
    u32 zero;
};

// The vector of this warp; VECTOR rows or fewer, 0 if its chunk is not asked for.
struct RunVector {
    u64 index;
    u32 chunk;
    u32 rows;

    LANEPACK_DEVICE explicit RunVector(const RunsArguments& args) {
        index = static_cast<u64>(blockIdx.x) * (RUNS_THREADS / WARP) + warp_in_block();
        rows = 0;
        chunk = 0;
        if (index * VECTOR >= args.source.rows) return;
        chunk = static_cast<u32>(index / args.source.chunk_vectors);
        if (args.asked[chunk] != 0) rows = rows_of(args.source, index);
    }
};

// What vectors without a valid value are filled with: 0 if the chunk has none, too.
template <class T>
LANEPACK_DEVICE T least_of(const RunsArguments& args, u32 chunk) {
    const ChunkTotals& totals = args.totals[chunk];
    if (totals.low > totals.high) return 0;
    return unordered(static_cast<T>(totals.low), args.source.order);
}

template <class T>
LANEPACK_DEVICE void runs_count(const RunsArguments& args) {
    const RunVector at(args);
    if (at.rows == 0) return;
    u32 runs = 0;
    const ValidRows valid(args.source, at.index);
    each_filled<T>(args.source, at.index, valid, least_of<T>(args, at.chunk),
                   [&](const FilledRows<T>& rows) { runs += static_cast<u32>(__popc(rows.begins)); });
    runs = __reduce_add_sync(FULL, runs);
    if (threadIdx.x % WARP == 0) args.firsts[at.index] = runs;
}

LANEPACK_KERNEL(runs_count_8, RUNS_THREADS, 4, RunsArguments) { runs_count<u8>(args); }
LANEPACK_KERNEL(runs_count_16, RUNS_THREADS, 4, RunsArguments) { runs_count<u16>(args); }
LANEPACK_KERNEL(runs_count_32, RUNS_THREADS, 4, RunsArguments) { runs_count<u32>(args); }
LANEPACK_KERNEL(runs_count_64, RUNS_THREADS, 4, RunsArguments) { runs_count<u64>(args); }

LANEPACK_KERNEL(runs_layout, LAYOUT_THREADS, 1, RunsArguments) {
    LANEPACK_SHARED(u32[LAYOUT_THREADS / WARP], sums);
    const bool is_asked = args.asked[blockIdx.x] != 0;
    const u32 rows = is_asked ? rows_of_chunk(args.source, blockIdx.x) : 0;
    const bool is_one = threadIdx.x < (rows + VECTOR - 1) / VECTOR;
    u32* first = args.firsts + static_cast<u64>(blockIdx.x) * args.source.chunk_vectors + threadIdx.x;
    u32 total;
    const u32 before = block_sum_before(is_one ? *first : 0, sums, total);
    if (is_one) *first = before;
    if (threadIdx.x == 0) args.runs[blockIdx.x] = total;
}

template <class T>
LANEPACK_DEVICE void runs_write(const RunsArguments& args) {
    const RunVector at(args);
    if (at.rows == 0) return;
    const u32 thread = threadIdx.x % WARP;
    const u64 first = static_cast<u64>(at.chunk) * args.run_vectors * VECTOR + args.firsts[at.index];
    T* values = reinterpret_cast<T*>(args.values) + first;
    u16* lengths = args.lengths + first;
    u32 count = 0;
    // The rows from 32 * thread on where runs begin.
    u32 begins = 0;
    const ValidRows valid(args.source, at.index);
    each_filled<T>(args.source, at.index, valid, least_of<T>(args, at.chunk),
                   [&](const FilledRows<T>& rows) {
#pragma unroll
                       for (u32 k = 0; k < ROWS_EACH; k++) {
                           const bool is_first = (rows.begins >> k & 1) != 0;
                           const u32 all = __ballot_sync(FULL, is_first);
                           const u32 below = all & low_bits<u32>(rows.slot % WARP);
                           if (is_first) values[count + static_cast<u32>(__popc(below))] = rows.values[k];
                           count += static_cast<u32>(__popc(all));
                           if (rows.slot / WARP + k == thread) begins = all;
                       }
                   });
    args.begins[at.index * WARP + thread] = begins;
    // Where the first run of a later word begins.
    const u32 own = begins == 0 ? 0 : thread * WARP + static_cast<u32>(__ffs(static_cast<i32>(begins))) - 1;
    const u32 later = __ballot_sync(FULL, begins != 0) & ~(FULL >> (WARP - 1 - thread));
    const u32 next = later == 0 ? 0 : static_cast<u32>(__ffs(static_cast<i32>(later))) - 1;
    const u32 found = __shfl_sync(FULL, own, next);
    const u32 end = later == 0 ? at.rows : found;
    const u32 runs = static_cast<u32>(__popc(begins));
    u32 number = sum_upto(runs) - runs;
#pragma unroll 1
    for (u32 start = own; begins != 0; number++) {
        begins &= begins - 1;
        const u32 next_start = begins == 0 ? end : thread * WARP + static_cast<u32>(__ffs(static_cast<i32>(begins))) - 1;
        lengths[number] = static_cast<u16>(next_start - start);
        start = next_start;
    }
}

LANEPACK_KERNEL(runs_write_8, RUNS_THREADS, 4, RunsArguments) { runs_write<u8>(args); }
LANEPACK_KERNEL(runs_write_16, RUNS_THREADS, 4, RunsArguments) { runs_write<u16>(args); }
LANEPACK_KERNEL(runs_write_32, RUNS_THREADS, 4, RunsArguments) { runs_write<u32>(args); }
LANEPACK_KERNEL(runs_write_64, RUNS_THREADS, 4, RunsArguments) { runs_write<u64>(args); }

}  // namespace lanepack
