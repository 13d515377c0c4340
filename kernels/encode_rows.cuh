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

// Slots that a thread has at a time, 32 apart.
constexpr u32 ROWS_EACH = 8;

// A thread's part of ROWS_EACH * 32 slots of a vector.
template <class T>
struct FilledRows {
    // Slot of the first value; the others are WARP apart.
    u32 slot;
    T values[ROWS_EACH];
    // Whether values are others than those of the slots before, slot 0's always, and whether
    // they are valid: a bit each.
    u32 begins;
    u32 valid;
};

// Calls `visit(rows)` for all slots of a vector, some at a time, a warp together. Slots that are
// null or past the end have the value before them, the first ones the first valid value; where
// there is none, all have `other`. As `fill_nulls` of src/encoding/io.rs.
template <class T, class Visit>
LANEPACK_DEVICE void each_filled(const Source& source, u64 vector, const ValidRows& valid, T other,
                                 const Visit& visit) {
    const u32 lane = threadIdx.x % WARP;
    const VectorReader<T> reader(source, vector);
    T carry = valid.first < VECTOR ? reader.value(valid.first) : other;
#pragma unroll 1
    for (u32 first = 0; first < VECTOR; first += ROWS_EACH * WARP) {
        FilledRows<T> rows;
        rows.slot = first + lane;
        rows.begins = 0;
        rows.valid = 0;
        // All are on their way at the same time.
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u32 word = __shfl_sync(FULL, valid.word, first / WARP + k);
            rows.valid |= (word >> lane & 1) << k;
            rows.values[k] = (word >> lane & 1) != 0 ? reader.value(rows.slot + k * WARP) : T{0};
        }
#pragma unroll
        for (u32 k = 0; k < ROWS_EACH; k++) {
            const u32 word = __ballot_sync(FULL, (rows.valid >> k & 1) != 0);
            T value = rows.values[k];
            if (word != FULL) {
                const u32 upto = word & FULL >> (WARP - 1 - lane);
                const u32 from = upto == 0 ? 0 : WARP - 1 - static_cast<u32>(__clz(static_cast<i32>(upto)));
                const T filled = of_lane(value, from);
                value = upto == 0 ? carry : filled;
            }
            const T shifted = of_lane(value, (lane + WARP - 1) % WARP);
            const T before = lane == 0 ? carry : shifted;
            if (rows.slot + k * WARP == 0 || value != before) rows.begins |= 1u << k;
            rows.values[k] = value;
            carry = of_lane(value, WARP - 1);
        }
        visit(rows);
    }
}

// Which of some rows have values that must be looked at: valid ones, of equal neighbours the
// first. What leads up to the first valid value is like it.
template <class T>
LANEPACK_DEVICE u32 different(const FilledRows<T>& rows, const ValidRows& valid) {
    const u32 number = (valid.first - rows.slot) / WARP;
    const bool has_first = valid.first >= rows.slot && (valid.first - rows.slot) % WARP == 0 && number < ROWS_EACH;
    return rows.valid & (rows.begins | (has_first ? 1u << number : 0));
}

// Bits of the bitmaps in which values of a sample and of a vector are counted, as powers of two.
constexpr u32 COUNTED_BITS = 17;
constexpr u32 COUNTED_OF_VECTOR_BITS = 13;
constexpr u64 MULTIPLIER = 0x9e3779b97f4a7c15;
// Bytes of a string that hashes look at.
constexpr u32 HASHED = 1024;

// How hashes go on; as src/encoding/dict/distinct.rs.
LANEPACK_DEVICE u64 folded(u64 word) { return word ^ word >> 32; }

// Bitmaps of a block that looks at a chunk's sampled vectors, a warp at one of them; zeros first.
struct Counters {
    static constexpr u32 WARPS = SAMPLE_THREADS / WARP;
    static constexpr u32 WORDS = 1 << (COUNTED_BITS - 5);
    static constexpr u32 VECTOR_WORDS = 1 << (COUNTED_OF_VECTOR_BITS - 5);
    static_assert(WARPS == SAMPLED_VECTORS, "a warp a vector");
    // WORDS, then VECTOR_WORDS for each warp.
    static constexpr u32 ALL_WORDS = WORDS + WARPS * VECTOR_WORDS;
    u32* bitmaps;

    LANEPACK_DEVICE explicit Counters(u32* bitmaps_) : bitmaps(bitmaps_) {
        for (u32 i = threadIdx.x; i < ALL_WORDS; i += SAMPLE_THREADS) bitmaps[i] = 0;
        __syncthreads();
    }

    LANEPACK_DEVICE void count(u64 hash) const {
        const u64 number = hash * MULTIPLIER;
        set(bitmaps, static_cast<u32>(number >> (64 - COUNTED_BITS)));
        set(bitmaps + WORDS + threadIdx.x / WARP * VECTOR_WORDS,
            static_cast<u32>(number >> (64 - COUNTED_OF_VECTOR_BITS)));
    }

    LANEPACK_DEVICE static void set(u32* bitmap, u32 bit) { atomicOr(&bitmap[bit / 32], 1u << bit % 32); }

    // This thread's share of what has been counted: of the sample, of all vectors.
    LANEPACK_DEVICE uint2 counted() const {
        uint2 sums = make_uint2(0, 0);
        for (u32 i = threadIdx.x; i < ALL_WORDS; i += SAMPLE_THREADS) {
            const u32 bits = static_cast<u32>(__popc(bitmaps[i]));
            if (i < WORDS) sums.x += bits;
            else sums.y += bits;
        }
        return sums;
    }
};

// The sampled vectors of a chunk.
struct SampledRows {
    // Values that a dictionary would have a code for, how many distinct ones were counted, and
    // the sum of those of each vector.
    u32 values;
    u32 distinct;
    u32 of_vectors;
    // Runs, and the rows they stand for.
    u32 runs;
    u32 rows;
    u32 zero;
};
static_assert(sizeof(SampledRows) == 24, "mirrored");

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

    // The key in a slot as it was once: once there is one, it stays.
    LANEPACK_DEVICE u64 seen(u32 slot) const { return __ldca(keys + slot); }

    // What to do with `key` and a slot in which `before` was seen: the key there by now; NONE if
    // there was none, which then is `key`; and `key` if there are too many already.
    LANEPACK_DEVICE u64 claim(u32 slot, u64 before, u64 key, const u32* count) const {
        if (before != NONE) return before;
        // Another multiprocessor may have put one in since the first-level cache was filled.
        const u64 now = __ldcv(keys + slot);
        if (now != NONE) return now;
        if (__ldcv(count) > most) return key;
        return atomicCAS(keys + slot, NONE, key);
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

}  // namespace lanepack
