// Distinct values of chunks, of words and of strings: hash tables that keys are put into, and what
// was found sorted.
//
//   find     a warp takes a vector: keys into the table of the chunk, and for each row the slot of
//            its value
//   sort     blocks sort tiles of what was found in shared memory, then merge them, runs of one
//            length at a time: each block a tile of the result, whose bounds in both runs it finds
//            by binary search
//   codes    the place of each row's value among the sorted ones, by its slot
//
// A lookup waits for the second-level cache, so each thread has several under way.
#pragma once

#include "encode_rows.cuh"

namespace lanepack {

// A chunk whose distinct values are looked for.
struct DistinctTable {
    static constexpr u64 NONE = ~u64{0};
    // A hash table of 2^slot_bits keys and one more, NONE at first; and the code of each, 0 at
    // first. Keys of words are these in the order domain, NONE itself in the last slot; of
    // strings the high half of their hash, and the row of one of them in the chunk.
    u64* keys;
    u32* codes;
    // What was found, room for `most`: keys of words, of strings the row and above it the slot.
    u64* found;
    // What was found, sorted, and as much room again.
    u8* sorted;
    u8* spare;
    u32 chunk;
    u32 slot_bits;
    // More are too many.
    u32 most;
    // Rows of the chunk.
    u32 rows;

    LANEPACK_DEVICE u32 slots() const { return 1u << slot_bits; }
    LANEPACK_DEVICE u32 after(u32 slot) const { return (slot + 1) & (slots() - 1); }

    // Where the search for a hash begins.
    LANEPACK_DEVICE u32 slot_of(u64 hash) const { return static_cast<u32>(hash * MULTIPLIER >> (64 - slot_bits)); }

    // The key in a slot as it was once: once there is one, it stays.
    LANEPACK_DEVICE u64 seen(u32 slot) const { return __ldca(keys + slot); }

    // The key in a slot by now, which the first-level cache may not know; NONE if there is none,
    // which then is `key`.
    LANEPACK_DEVICE u64 claim(u32 slot, u64 key) const {
        const u64 now = __ldcv(keys + slot);
        return now != NONE ? now : atomicCAS(keys + slot, NONE, key);
    }
};

// Whether there are too many values already, for a warp.
LANEPACK_DEVICE bool has_too_many(const DistinctTable& table, const u32* count) {
    return __shfl_sync(FULL, __ldcv(count), 0) > table.most;
}

// Rows of a thread whose keys are being put into a table, so many at a time.
template <u32 EACH>
struct Insertions {
    u64 keys[EACH];
    u32 slots[EACH];
    // What was seen in the slot.
    u64 seen[EACH];
    // A bit for each row that is still to be put in.
    u32 pending;

    // Puts keys in, a warp together. `is_equal(k, other)` tells whether a key in a slot is that of row
    // k, `found(k)` gives what is added for a new one. Returns false, and stops early, if the table has
    // more than `most` values.
    template <class IsEqual, class Found>
    LANEPACK_DEVICE bool run(const DistinctTable& table, u32* count, const IsEqual& is_equal, const Found& found) {
        // Tables with room have a free slot near; other warps may have filled one.
        constexpr u32 STEPS = 32;
        for (u32 i = 0; __any_sync(FULL, pending != 0); i++) {
            if (i % STEPS == STEPS - 1 && has_too_many(table, count)) return false;
            if (i == table.slots()) return false;
            u64 now[EACH];
#pragma unroll
            for (u32 k = 0; k < EACH; k++) {
                now[k] = seen[k];
                if ((pending >> k & 1) != 0 && now[k] == DistinctTable::NONE) now[k] = table.claim(slots[k], keys[k]);
            }
            u32 added = 0;
#pragma unroll
            for (u32 k = 0; k < EACH; k++) {
                if ((pending >> k & 1) == 0) continue;
                if (now[k] == DistinctTable::NONE) added |= 1u << k;
                if (now[k] == DistinctTable::NONE || is_equal(k, now[k])) {
                    pending &= ~(1u << k);
                } else {
                    slots[k] = table.after(slots[k]);
                    seen[k] = table.seen(slots[k]);
                }
            }
            if (!__any_sync(FULL, added != 0)) continue;
            const u32 own = static_cast<u32>(__popc(added));
            const u32 upto = sum_upto(own);
            u32 first = 0;
            if (threadIdx.x % WARP == WARP - 1) first = atomicAdd(count, upto);
            first = __shfl_sync(FULL, first, WARP - 1);
            u32 number = first + upto - own;
#pragma unroll
            for (u32 k = 0; k < EACH; k++) {
                if ((added >> k & 1) == 0) continue;
                if (number < table.most) table.found[number] = found(k);
                number++;
            }
            if (first + __shfl_sync(FULL, upto, WARP - 1) > table.most) return false;
        }
        return true;
    }
};

// The slot of rows whose vector has no valid value: their code is 0.
constexpr u32 NO_SLOT = FULL;

// Keys that a block sorts in shared memory.
template <class Key>
constexpr u32 SORT_TILE = SORT_BYTES / sizeof(Key);

// For how many of `count` keys in ascending order `is_less(key)` holds.
template <class Key, class IsLess>
LANEPACK_DEVICE u32 count_less(const Key* keys, u32 count, const IsLess& is_less) {
    u32 low = 0;
    u32 high = count;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (is_less(keys[middle])) low = middle + 1;
        else high = middle;
    }
    return low;
}

// A block sorts up to SORT_TILE keys, `load(i)`, no two of which are equal, by merges of runs of 1,
// 2, 4, ...: a key's place is its own in its run and that among the keys of the other.
template <class Key, class Load, class Less>
LANEPACK_DEVICE void sort_tile(u32 count, const Load& load, const Less& less, Key* out) {
    LANEPACK_SHARED(u64[2 * SORT_BYTES / 8], memory);
    Key* from = reinterpret_cast<Key*>(&memory[0]);
    Key* to = from + SORT_TILE<Key>;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) from[i] = load(i);
    __syncthreads();
    for (u32 run = 1; run < count; run *= 2) {
        for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
            const Key key = from[i];
            const u32 start = i / (2 * run) * 2 * run;
            const bool is_left = i - start < run;
            const u32 other = is_left ? min(start + run, count) : start;
            const u32 length = min(other + run, count) - other;
            const u32 before = count_less(from + other, length, [&](const Key& one) { return less(one, key); });
            to[(is_left ? i : i - run) + before] = key;
        }
        __syncthreads();
        Key* const sorted = to;
        to = from;
        from = sorted;
    }
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) out[i] = from[i];
}

// How many of the first `place` keys of two runs together are of the left one, found by a warp.
template <class Key, class Less>
LANEPACK_DEVICE u32 split_of(const Key* left, u32 left_count, const Key* right, u32 right_count, u32 place,
                             const Less& less) {
    u32 low = place > right_count ? place - right_count : 0;
    u32 high = min(place, left_count);
    const u32 lane = threadIdx.x % WARP;
    // Those of the left run that belong there come first.
    while (low < high) {
        const u32 step = (high - low + WARP - 1) / WARP;
        const u32 probe = low + lane * step;
        const bool belongs = probe < high && less(left[probe], right[place - 1 - probe]);
        const u32 belonging = static_cast<u32>(__popc(__ballot_sync(FULL, belongs)));
        if (belonging == 0) return low;
        low += (belonging - 1) * step + 1;
        high = min(low + step - 1, high);
    }
    return low;
}

// A block merges its tile of sorted runs of `run` keys.
template <class Key, class Less>
LANEPACK_DEVICE void merge_tile(const Key* from, u32 count, u32 tile, u32 run, const Less& less, Key* to) {
    LANEPACK_SHARED(u64[SORT_BYTES / 8], memory);
    LANEPACK_SHARED(u32[2], splits);
    Key* const keys = reinterpret_cast<Key*>(&memory[0]);
    const u32 first = tile * SORT_TILE<Key>;
    const u32 start = first / (2 * run) * 2 * run;
    const Key* const left = from + start;
    const u32 left_count = min(run, count - start);
    const Key* const right = left + left_count;
    const u32 right_count = min(run, count - start - left_count);
    const u32 begin = first - start;
    const u32 end = min(begin + SORT_TILE<Key>, left_count + right_count);
    const u32 warp = warp_in_block();
    if (warp < 2) {
        const u32 split = split_of(left, left_count, right, right_count, warp == 0 ? begin : end, less);
        if (threadIdx.x % WARP == 0) splits[warp] = split;
    }
    __syncthreads();
    const u32 of_left = splits[1] - splits[0];
    const Key* const rest = right + (begin - splits[0]);
    for (u32 i = threadIdx.x; i < end - begin; i += blockDim.x) {
        keys[i] = i < of_left ? left[splits[0] + i] : rest[i - of_left];
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < end - begin; i += blockDim.x) {
        const Key key = keys[i];
        const bool is_left = i < of_left;
        const Key* const others = is_left ? keys + of_left : keys;
        const u32 length = is_left ? end - begin - of_left : of_left;
        const u32 before = count_less(others, length, [&](const Key& one) { return less(one, key); });
        to[first + (is_left ? i : i - of_left) + before] = key;
    }
}

// distinct_find_*, distinct_values_*, distinct_sort and distinct_merge.
struct DistinctArguments {
    Source source;
    const DistinctTable* tables;
    // For each table: distinct values, more than `most` if there are too many.
    u32* counts;
    // For each row of the column the slot of its value, then its code; for each chunk so many
    // vectors of distinct values.
    u32* codes;
    u8* values;
    u64 seed;
    u32 blocks_per_table;
    u32 value_vectors;
    // Keys of the runs that are merged, and whether they go to `spare`.
    u32 run;
    u32 to_spare;
};

// distinct_codes.
struct DistinctCodesArguments {
    const DistinctTable* tables;
    u32* codes;
    u32 chunk_rows;
    u32 blocks_per_table;
};

}  // namespace lanepack
