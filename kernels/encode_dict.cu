// Dictionaries of words: the distinct values of chunks in ascending order, and the code of every
// row; the same as src/encoding/dict/distinct.rs.
//
//   sample            a block a chunk, a warp a vector: what a sample of its vectors promises
//   (host)            asks for chunks where codes may take less than what else there is
//   distinct_find     a warp a vector: every value into its chunk's hash table
//   distinct_sort     a block a table: what was found, sorted, in which merges find their places
//                     by binary search
//   distinct_values   a block a table: the words of the dictionary, and codes into the table
//   distinct_codes    a warp a vector: the code of every row
//
// Codes and dictionaries are words as others from there on: measured, planned and packed. Tables
// lie in global memory, but those in use at a time in the second-level cache: a lookup is one
// sector, and those of 256 rows of a warp begin together. Their seed differs from run to run, and
// with it where keys lie; no output depends on it.
//
// distinct_find on an NVIDIA H200, 1.05 GB of u64: of 200 values 984 us, of 30,000 13,600, which
// wait for the second-level cache. Tried: one lookup of a warp at a time, all past the first-level
// cache, and the count read before each, 2,517 and 10,054; first looks in the first-level cache
// and a compare-and-swap where it has none, 1,654 and 19,180.
#include "encode_rows.cuh"

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

    // Puts a key in; `before` was seen in `slot`, where the search for it begins.
    LANEPACK_DEVICE void insert(u64 key, u32 slot, u64 before, u32* count) const {
        if (key == DistinctTable::NONE) {
            if (atomicExch(table.codes + table.slots(), 1u) == 0) table.add(key, count);
            return;
        }
        // A table that is full ends the search, too.
        for (u32 i = 0; i < table.slots(); i++) {
            const u64 now = table.claim(slot, before, key, count);
            if (now == DistinctTable::NONE) return table.add(key, count);
            if (now == key) return;
            slot = table.after(slot);
            before = table.seen(slot);
        }
    }

    // The slot of a key that is there, where `slot` is the first and has `found`.
    LANEPACK_DEVICE u32 find(u64 key, u32 slot, u64 found) const {
        if (key == DistinctTable::NONE) return table.slots();
        for (u32 i = 0; i < table.slots() && found != key; i++) {
            slot = table.after(slot);
            found = __ldg(table.keys + slot);
        }
        return slot;
    }
};

// A warp of a block that works on vectors of a table's chunk.
struct TableVector {
    const DistinctTable& table;
    u32* count;
    // In the chunk.
    u32 index;
    u64 vector;

    LANEPACK_DEVICE explicit TableVector(const DistinctArguments& args)
        : table(args.tables[blockIdx.x / args.blocks_per_table]),
          count(args.counts + blockIdx.x / args.blocks_per_table),
          index(blockIdx.x % args.blocks_per_table * (DISTINCT_THREADS / WARP) + warp_in_block()),
          vector(static_cast<u64>(table.chunk) * args.source.chunk_vectors + index) {}
};

template <class T>
LANEPACK_DEVICE void distinct_find(const DistinctArguments& args) {
    const TableVector at(args);
    if (at.index >= args.source.chunk_vectors || rows_of(args.source, at.vector) == 0) return;
    const KeyTable table{at.table, args.seed};
    const ValidRows valid(args.source, at.vector);
    each_filled<T>(args.source, at.vector, valid, 0, [&](const FilledRows<T>& rows) {
        u32 slots[ROWS_EACH];
        u64 seen[ROWS_EACH];
        // First looks are on their way at the same time; most find the key.
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            slots[k] = table.first_slot(ordered(rows.values[k], args.source.order));
            seen[k] = table.table.seen(slots[k]);
        }
        const u32 new_ones = different(rows, valid);
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u64 key = ordered(rows.values[k], args.source.order);
            if ((new_ones >> k & 1) != 0 && (seen[k] != key || key == DistinctTable::NONE)) {
                table.insert(key, slots[k], seen[k], at.count);
            }
        }
    });
}

LANEPACK_KERNEL(distinct_find_8, DISTINCT_THREADS, 3, DistinctArguments) { distinct_find<u8>(args); }
LANEPACK_KERNEL(distinct_find_16, DISTINCT_THREADS, 3, DistinctArguments) { distinct_find<u16>(args); }
LANEPACK_KERNEL(distinct_find_32, DISTINCT_THREADS, 3, DistinctArguments) { distinct_find<u32>(args); }
LANEPACK_KERNEL(distinct_find_64, DISTINCT_THREADS, 2, DistinctArguments) { distinct_find<u64>(args); }

LANEPACK_KERNEL(distinct_sort, DISTINCT_SORT_THREADS, 2, DistinctArguments) {
    const DistinctTable& table = args.tables[blockIdx.x];
    const u32 count = args.counts[blockIdx.x];
    if (count > table.most) return;
    sort_found(table, count, [](u64 key) { return key; }, [](u64 one, u64 other) { return one < other; });
}

template <class T>
LANEPACK_DEVICE void distinct_values(const DistinctArguments& args) {
    const DistinctTable& table = args.tables[blockIdx.x];
    const KeyTable keys{table, args.seed};
    const u32 count = args.counts[blockIdx.x];
    if (count > table.most) return;
    T* values = reinterpret_cast<T*>(args.values) + static_cast<u64>(table.chunk) * args.value_vectors * VECTOR;
    for (u32 i = threadIdx.x; i < count; i += DISTINCT_SORT_THREADS) {
        const u64 key = table.found[i];
        values[i] = unordered(static_cast<T>(key), args.source.order);
        const u32 slot = keys.first_slot(key);
        table.codes[keys.find(key, slot, __ldg(table.keys + slot))] = i;
    }
}

LANEPACK_KERNEL(distinct_values_8, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u8>(args); }
LANEPACK_KERNEL(distinct_values_16, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u16>(args); }
LANEPACK_KERNEL(distinct_values_32, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u32>(args); }
LANEPACK_KERNEL(distinct_values_64, DISTINCT_SORT_THREADS, 2, DistinctArguments) { distinct_values<u64>(args); }

template <class T>
LANEPACK_DEVICE void distinct_codes(const DistinctArguments& args) {
    const TableVector at(args);
    const u32 rows = at.index < args.source.chunk_vectors ? rows_of(args.source, at.vector) : 0;
    if (rows == 0) return;
    const KeyTable keys{at.table, args.seed};
    const ValidRows valid(args.source, at.vector);
    u32* codes = args.codes + at.vector * VECTOR;
    if (valid.first == VECTOR) {
        for (u32 slot = threadIdx.x % WARP; slot < rows; slot += WARP) codes[slot] = 0;
        return;
    }
    each_filled<T>(args.source, at.vector, valid, 0, [&](const FilledRows<T>& found) {
        u32 slots[ROWS_EACH];
        u64 seen[ROWS_EACH];
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            slots[k] = keys.first_slot(ordered(found.values[k], args.source.order));
            seen[k] = __ldg(at.table.keys + slots[k]);
        }
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            slots[k] = keys.find(ordered(found.values[k], args.source.order), slots[k], seen[k]);
        }
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u32 slot = found.slot + k * WARP;
            if (slot < rows) codes[slot] = __ldg(at.table.codes + slots[k]);
        }
    });
}

LANEPACK_KERNEL(distinct_codes_8, DISTINCT_THREADS, 4, DistinctArguments) { distinct_codes<u8>(args); }
LANEPACK_KERNEL(distinct_codes_16, DISTINCT_THREADS, 4, DistinctArguments) { distinct_codes<u16>(args); }
LANEPACK_KERNEL(distinct_codes_32, DISTINCT_THREADS, 4, DistinctArguments) { distinct_codes<u32>(args); }
LANEPACK_KERNEL(distinct_codes_64, DISTINCT_THREADS, 3, DistinctArguments) { distinct_codes<u64>(args); }

}  // namespace lanepack
