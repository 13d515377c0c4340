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

// sample_*: a block a chunk.
struct SampleArguments {
    Source source;
    SampledRows* chunks;
};

}  // namespace lanepack
