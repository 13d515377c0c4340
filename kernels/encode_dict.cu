// Dictionaries of words: the distinct values of chunks in ascending order, and the code of every
// row; the same as src/encoding/dict/distinct.rs.
//
//   sample            a block a chunk, a warp a vector: what a sample of its vectors promises
//   (host)            asks for chunks where codes may take less than what else there is
//   distinct_find     every value into its chunk's hash table, and the slot of every row
//   distinct_sort     what was found, sorted in tiles
//   distinct_merge    runs of these tiles, merged
//   distinct_values   the words of the dictionary, and codes into the table
//   distinct_codes    the code of every row, by its slot; of strings as well
//
// Codes and dictionaries are words as others from there on: measured, planned and packed. Tables
// are in global memory, those in use at a time in the second-level cache: a lookup is one
// sector. Their seed differs from run to run, and with it where keys lie; no output depends on it.
#include "distinct.cuh"

namespace lanepack {

template <class T>
LANEPACK_DEVICE void sample(const SampleArguments& args) {
    LANEPACK_SHARED(u32[Counters::ALL_WORDS], bitmaps);
    LANEPACK_SHARED(u32[5 * Counters::WARPS], sums);
    const Counters counters(&bitmaps[0]);
    const Source& source = args.source;
    const u64 first = static_cast<u64>(blockIdx.x) * source.chunk_vectors;
    const u32 vectors = (rows_of_chunk(source, blockIdx.x) + VECTOR - 1) / VECTOR;
    const u32 taken = min(vectors, SAMPLED_VECTORS);
    const u32 warp = warp_in_block();
    u32 values = 0;
    u32 runs = 0;
    u32 rows = 0;
    if (warp < taken) {
        const u64 vector = first + warp * vectors / taken;
        const ValidRows valid(source, vector);
        each_filled<T>(source, vector, valid, 0, [&](const FilledRows<T>& found) {
            values += static_cast<u32>(__popc(found.valid));
            runs += static_cast<u32>(__popc(found.begins));
            const u32 counted = different(found, valid);
#pragma unroll
            for (u32 k = 0; k < ROWS_EACH; k++) {
                if ((counted >> k & 1) != 0) counters.count(folded(found.values[k] * MULTIPLIER));
            }
        });
        if (threadIdx.x % WARP == 0) rows = rows_of(source, vector);
    }
    __syncthreads();
    const uint2 counted = counters.counted();
    u32 found[5] = {values, counted.x, counted.y, runs, rows};
    u32 all[5];
    block_sums_before(found, sums, all);
    if (threadIdx.x == 0) args.chunks[blockIdx.x] = SampledRows{all[0], all[1], all[2], all[3], all[4], 0};
}

LANEPACK_KERNEL(sample_8, SAMPLE_THREADS, 2, SampleArguments) { sample<u8>(args); }
LANEPACK_KERNEL(sample_16, SAMPLE_THREADS, 2, SampleArguments) { sample<u16>(args); }
LANEPACK_KERNEL(sample_32, SAMPLE_THREADS, 2, SampleArguments) { sample<u32>(args); }
LANEPACK_KERNEL(sample_64, SAMPLE_THREADS, 2, SampleArguments) { sample<u64>(args); }

// A table of words.
struct KeyTable {
    const DistinctTable table;
    const u64 seed;

    LANEPACK_DEVICE u32 first_slot(u64 key) const { return table.slot_of(folded((key ^ seed) * MULTIPLIER)); }
};

template <class T>
LANEPACK_DEVICE void distinct_find(const DistinctArguments& args) {
    const DistinctTable table = args.tables[blockIdx.x / args.blocks_per_table];
    u32* const count = args.counts + blockIdx.x / args.blocks_per_table;
    const u32 index = blockIdx.x % args.blocks_per_table * (DISTINCT_THREADS / WARP) + warp_in_block();
    const u64 vector = static_cast<u64>(table.chunk) * args.source.chunk_vectors + index;
    if (index * VECTOR >= table.rows || has_too_many(table, count)) return;
    const u32 rows = min(table.rows - index * VECTOR, VECTOR);
    u32* const codes = args.codes + vector * VECTOR;
    const ValidRows valid(args.source, vector);
    if (valid.first == VECTOR) {
        for (u32 i = threadIdx.x % WARP; i < rows; i += WARP) codes[i] = NO_SLOT;
        return;
    }
    const KeyTable keys{table, args.seed};
    bool is_full = false;
    each_filled<T>(args.source, vector, valid, 0, [&](const FilledRows<T>& found) {
        if (is_full) return;
        Insertions<ROWS_EACH> rows_of_thread;
        rows_of_thread.pending = 0;
        // First looks are on their way at the same time; most find the key.
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u64 key = ordered(found.values[k], args.source.order);
            rows_of_thread.keys[k] = key;
            rows_of_thread.slots[k] = keys.first_slot(key);
            rows_of_thread.seen[k] = table.seen(rows_of_thread.slots[k]);
        }
        // All rows have a value of a valid one.
        u32 is_new = 0;
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u64 key = rows_of_thread.keys[k];
            if (key == DistinctTable::NONE) {
                rows_of_thread.slots[k] = table.slots();
                // Most rows may have it: they look first.
                u32* const has_none = table.codes + table.slots();
                if (__ldcv(has_none) == 0 && atomicExch(has_none, 1u) == 0) is_new = 1;
            } else if (rows_of_thread.seen[k] != key) {
                rows_of_thread.pending |= 1u << k;
            }
        }
        if (is_new != 0) {
            const u32 number = atomicAdd(count, 1u);
            if (number < table.most) table.found[number] = DistinctTable::NONE;
        }
        __syncwarp();
        is_full = !rows_of_thread.run(
            table, count, [&](u32 k, u64 other) { return other == rows_of_thread.keys[k]; },
            [&](u32 k) { return rows_of_thread.keys[k]; });
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u32 i = found.slot + k * WARP;
            if (i < rows) codes[i] = rows_of_thread.slots[k];
        }
    });
}

LANEPACK_KERNEL(distinct_find_8, DISTINCT_THREADS, 3, DistinctArguments) { distinct_find<u8>(args); }
LANEPACK_KERNEL(distinct_find_16, DISTINCT_THREADS, 3, DistinctArguments) { distinct_find<u16>(args); }
LANEPACK_KERNEL(distinct_find_32, DISTINCT_THREADS, 3, DistinctArguments) { distinct_find<u32>(args); }
LANEPACK_KERNEL(distinct_find_64, DISTINCT_THREADS, 2, DistinctArguments) { distinct_find<u64>(args); }

LANEPACK_DEVICE bool is_less(u64 one, u64 other) { return one < other; }

LANEPACK_KERNEL(distinct_sort, DISTINCT_SORT_THREADS, 2, DistinctArguments) {
    const DistinctTable table = args.tables[blockIdx.x / args.blocks_per_table];
    const u32 count = args.counts[blockIdx.x / args.blocks_per_table];
    const u32 first = blockIdx.x % args.blocks_per_table * SORT_TILE<u64>;
    if (first >= count) return;
    u64* const out = reinterpret_cast<u64*>(args.to_spare != 0 ? table.spare : table.sorted);
    sort_tile<u64>(min(count - first, SORT_TILE<u64>), [&](u32 i) { return table.found[first + i]; }, is_less, out + first);
}

LANEPACK_KERNEL(distinct_merge, DISTINCT_SORT_THREADS, 2, DistinctArguments) {
    const DistinctTable table = args.tables[blockIdx.x / args.blocks_per_table];
    const u32 count = args.counts[blockIdx.x / args.blocks_per_table];
    const u32 tile = blockIdx.x % args.blocks_per_table;
    if (tile * SORT_TILE<u64> >= count) return;
    u64* const sorted = reinterpret_cast<u64*>(table.sorted);
    u64* const spare = reinterpret_cast<u64*>(table.spare);
    const bool to_spare = args.to_spare != 0;
    merge_tile(to_spare ? sorted : spare, count, tile, args.run, is_less, to_spare ? spare : sorted);
}

template <class T>
LANEPACK_DEVICE void distinct_values(const DistinctArguments& args) {
    const DistinctTable table = args.tables[blockIdx.x / args.blocks_per_table];
    const KeyTable keys{table, args.seed};
    const u32 count = args.counts[blockIdx.x / args.blocks_per_table];
    T* const values = reinterpret_cast<T*>(args.values) + static_cast<u64>(table.chunk) * args.value_vectors * VECTOR;
    const u64* const sorted = reinterpret_cast<const u64*>(table.sorted);
    const u32 first = blockIdx.x % args.blocks_per_table * SORT_TILE<u64>;
    const u32 end = min(first + SORT_TILE<u64>, count);
    // Lookups of a thread are on their way at the same time.
    constexpr u32 EACH = SORT_TILE<u64> / DISTINCT_SORT_THREADS;
    u64 sought[EACH];
    u32 slots[EACH];
    u64 seen[EACH];
#pragma unroll
    for (u32 k = 0; k < EACH; k++) {
        const u32 i = first + threadIdx.x + k * DISTINCT_SORT_THREADS;
        sought[k] = i < end ? sorted[i] : DistinctTable::NONE;
        if (i < end) values[i] = unordered(static_cast<T>(sought[k]), args.source.order);
        slots[k] = keys.first_slot(sought[k]);
        seen[k] = __ldg(table.keys + slots[k]);
    }
#pragma unroll
    for (u32 k = 0; k < EACH; k++) {
        const u32 i = first + threadIdx.x + k * DISTINCT_SORT_THREADS;
        if (i >= end) break;
        u32 slot = slots[k];
        if (sought[k] == DistinctTable::NONE) {
            slot = table.slots();
        } else {
            for (u32 step = 0; step < table.slots() && seen[k] != sought[k]; step++) {
                slot = table.after(slot);
                seen[k] = __ldg(table.keys + slot);
            }
        }
        table.codes[slot] = i;
    }
}

LANEPACK_KERNEL(distinct_values_8, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u8>(args); }
LANEPACK_KERNEL(distinct_values_16, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u16>(args); }
LANEPACK_KERNEL(distinct_values_32, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u32>(args); }
LANEPACK_KERNEL(distinct_values_64, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u64>(args); }

// A thread takes CODES_EACH rows that follow each other.
LANEPACK_KERNEL(distinct_codes, DISTINCT_THREADS, 4, DistinctCodesArguments) {
    const DistinctTable table = args.tables[blockIdx.x / args.blocks_per_table];
    const u32 first = (blockIdx.x % args.blocks_per_table * DISTINCT_THREADS + threadIdx.x) * CODES_EACH;
    if (first >= table.rows) return;
    u32* const codes = args.codes + static_cast<u64>(table.chunk) * args.chunk_rows + first;
    const u32 rows = min(table.rows - first, CODES_EACH);
    u32 own[CODES_EACH];
#pragma unroll
    for (u32 k = 0; k < CODES_EACH; k++) own[k] = k < rows ? codes[k] : NO_SLOT;
#pragma unroll
    for (u32 k = 0; k < CODES_EACH; k++) own[k] = own[k] == NO_SLOT ? 0 : __ldg(table.codes + own[k]);
#pragma unroll
    for (u32 k = 0; k < CODES_EACH; k++) {
        if (k < rows) codes[k] = own[k];
    }
}

}  // namespace lanepack
