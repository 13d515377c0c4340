// Values of a vector row by row, 32 at a time: for dictionaries and runs, which compare rows.
#pragma once

#include "encode.cuh"

namespace lanepack {

// Where a vector's valid rows begin, VECTOR if it has none, and which they are: lane i has those
// of slots 32 * i and on.
struct ValidRows {
    u32 word;
    u32 first;

    LANEPACK_DEVICE ValidRows(const Source& source, u64 vector) {
        const u32 lane = threadIdx.x % WARP;
        word = valid_rows(source, vector * VECTOR + lane * WARP);
        const u32 own = word == 0 ? VECTOR : lane * WARP + static_cast<u32>(__ffs(static_cast<i32>(word))) - 1;
        first = warp_min(own);
    }
};

template <class T>
LANEPACK_DEVICE T of_lane(T value, u32 lane) {
    if constexpr (sizeof(T) == 8) return __shfl_sync(FULL, value, lane);
    else return static_cast<T>(__shfl_sync(FULL, static_cast<u32>(value), lane));
}

// Calls `visit(slot, value, begins, is_valid)` for each slot of a vector, a warp together:
// `begins` says that the value is not that of the slot before. Slots that are null or past the
// end have the value before them, the first ones the first valid value; where there is none, all
// have `other`. As `fill_nulls` of src/encoding/io.rs.
template <class T, class Visit>
LANEPACK_DEVICE void each_filled(const Source& source, u64 vector, const ValidRows& valid, T other,
                                 const Visit& visit) {
    const u32 lane = threadIdx.x % WARP;
    const VectorReader<T> reader(source, vector);
    T carry = valid.first < VECTOR ? reader.value(valid.first) : other;
#pragma unroll 4
    for (u32 group = 0; group < VECTOR / WARP; group++) {
        const u32 slot = group * WARP + lane;
        const u32 word = __shfl_sync(FULL, valid.word, group);
        const bool is_valid = (word >> lane & 1) != 0;
        T value = is_valid ? reader.value(slot) : carry;
        if (word != FULL) {
            const u32 upto = word & FULL >> (WARP - 1 - lane);
            const u32 from = upto == 0 ? 0 : WARP - 1 - static_cast<u32>(__clz(static_cast<i32>(upto)));
            const T filled = of_lane(value, from);
            value = upto == 0 ? carry : filled;
        }
        const T shifted = of_lane(value, (lane + WARP - 1) % WARP);
        const T before = lane == 0 ? carry : shifted;
        visit(slot, value, slot == 0 || value != before, is_valid);
        carry = of_lane(value, WARP - 1);
    }
}

// Calls `visit(value)` for valid values of a vector, a warp together: once for equal neighbours.
template <class T, class Visit>
LANEPACK_DEVICE void each_different(const Source& source, u64 vector, const Visit& visit) {
    const ValidRows valid(source, vector);
    each_filled<T>(source, vector, valid, 0, [&](u32 slot, T value, bool begins, bool is_valid) {
        // What leads up to the first valid value is like it.
        if (is_valid && (begins || slot == valid.first)) visit(value);
    });
}

// Bits of the bitmap in which values are counted.
constexpr u32 COUNTED = 1 << 17;
constexpr u32 COUNTED_BITS = 17;
static_assert(COUNTED == 1 << COUNTED_BITS, "a power of two");
constexpr u64 MULTIPLIER = 0x9e3779b97f4a7c15;

// Where a word is counted, and how hashes of more words go on; as src/encoding/dict/distinct.rs.
LANEPACK_DEVICE u64 folded(u64 word) { return word ^ word >> 32; }
LANEPACK_DEVICE u32 counted_at(u64 hash) { return static_cast<u32>(hash * MULTIPLIER >> (64 - COUNTED_BITS)); }

// The sampled vectors of a chunk.
struct SampledRows {
    // Values that a dictionary would have a code for, and how many distinct ones were counted.
    u32 values;
    u32 distinct;
    // Runs, and the rows they stand for.
    u32 runs;
    u32 rows;
};
static_assert(sizeof(SampledRows) == 16, "mirrored");

// sample_*: a block a chunk.
struct SampleArguments {
    Source source;
    SampledRows* chunks;
};
static_assert(sizeof(SampleArguments) == 56, "mirrored");

// A chunk whose distinct values are looked for.
struct DistinctTable {
    static constexpr u64 NONE = ~u64{0};
    // A hash table of 2^slot_bits keys and one more, NONE at first; and the code of each, 0 at
    // first. Keys of words are these in the order domain, NONE itself in the last slot; of
    // strings the high half of their hash, and the row of one of them in the chunk.
    u64* keys;
    u32* codes;
    // What was found, and as much room again: keys of words, rows of strings.
    u64* found;
    u64* spare;
    u32 chunk;
    u32 slot_bits;
    // More are too many.
    u32 most;
    // Of strings: distinct values of the tables before.
    u32 first;

    LANEPACK_DEVICE u32 slots() const { return 1u << slot_bits; }
    LANEPACK_DEVICE u32 after(u32 slot) const { return (slot + 1) & (slots() - 1); }

    // Where the search for a hash begins.
    LANEPACK_DEVICE u32 slot_of(u64 hash) const { return static_cast<u32>(hash * MULTIPLIER >> (64 - slot_bits)); }

    // The key in a slot; NONE if there was none, which then is `key`.
    LANEPACK_DEVICE u64 claim(u32 slot, u64 key) const {
        const u64 before = __ldcv(keys + slot);
        return before == NONE ? atomicCAS(keys + slot, NONE, key) : before;
    }

    // `count` counts what is new; more than `most` are left out.
    LANEPACK_DEVICE void add(u64 what, u32* count) const {
        const u32 number = atomicAdd(count, 1u);
        if (number < most) found[number] = what;
    }
};
static_assert(sizeof(DistinctTable) == 48, "mirrored");

// Sorts what was found by merges of runs of 1, 2, 4, ...: a key's place is its own in its run and
// that among the keys of the other, found by binary search. No two are equal. `value(key)` is what
// compares, `less(value, value)` how. A block together.
template <class Value, class Less>
LANEPACK_DEVICE void sort_found(const DistinctTable& table, u32 count, const Value& value, const Less& less) {
    u64* from = table.found;
    u64* to = table.spare;
    for (u32 run = 1; run < count; run *= 2) {
        for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
            const u64 key = from[i];
            const auto own = value(key);
            const u32 start = i / (2 * run) * 2 * run;
            const bool is_left = i - start < run;
            const u32 other = is_left ? min(start + run, count) : start;
            u32 low = other;
            u32 high = min(other + run, count);
            while (low < high) {
                const u32 middle = low + (high - low) / 2;
                if (less(value(from[middle]), own)) low = middle + 1;
                else high = middle;
            }
            to[(is_left ? i : i - run) + (low - other)] = key;
        }
        __syncthreads();
        u64* sorted = to;
        to = from;
        from = sorted;
    }
    if (from == table.found) return;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) table.found[i] = from[i];
}

// distinct_find_* and distinct_codes_* (a warp a vector), distinct_sort and distinct_values_* (a
// block a table).
struct DistinctArguments {
    Source source;
    const DistinctTable* tables;
    // For each table: distinct values, more than `most` if there are too many.
    u32* counts;
    // For each row of the column its code; for each chunk so many vectors of distinct values.
    u32* codes;
    u8* values;
    u64 seed;
    u32 blocks_per_table;
    u32 value_vectors;
};
static_assert(sizeof(DistinctArguments) == 96, "mirrored");

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
    // For each chunk so many vectors of the runs' values, and where they start.
    u8* values;
    u16* starts;
    u32 run_vectors;
    u32 zero;
};
static_assert(sizeof(RunsArguments) == 104, "mirrored");

}  // namespace lanepack
