// Selections by lookups: rows of a vector whose keys are in a table (lookup.cuh), by the tests of readers
// or row by row.
#pragma once

#include "lookup.cuh"
#include "reader.cuh"
#include "scan_rows.cuh"

namespace lanepack {

// Tests of readers (reader.cuh) take it in place of a `Question`: whether a lookup has the keys of the rows
// in `live`, or of all rows if `OF_ALL`. Verdicts on other rows are arbitrary.
template <class Keys, bool IS_SIGNED, bool OF_ALL>
struct KeyQuestion {
    const Keys& keys;
    u32 live;
};

// The question to values that are not those of rows.
template <class Keys, bool IS_SIGNED, bool OF_ALL>
LANEPACK_DEVICE KeyQuestion<Keys, IS_SIGNED, true> of_all(const KeyQuestion<Keys, IS_SIGNED, OF_ALL>& question) {
    return {question.keys, FULL};
}
template <class Keys, bool IS_SIGNED, bool OF_ALL>
LANEPACK_DEVICE u32 live_rows(const KeyQuestion<Keys, IS_SIGNED, OF_ALL>& question) {
    // Known to the compiler: the rest needs no predicates.
    return OF_ALL ? FULL : question.live;
}

// The key that a word is.
template <bool IS_SIGNED, class T>
LANEPACK_DEVICE i64 key_of(T word) {
    // Shifted up and down again: with the sign.
    constexpr u32 ABOVE = 64 - ROWS<T>;
    const u64 bits = static_cast<u64>(word) << ABOVE;
    return IS_SIGNED ? static_cast<i64>(bits) >> ABOVE : static_cast<i64>(bits >> ABOVE);
}

template <class T, class Keys, bool IS_SIGNED, bool OF_ALL>
LANEPACK_DEVICE bool holds_word(T word, const KeyQuestion<Keys, IS_SIGNED, OF_ALL>& question) {
    return has_key(question.keys, key_of<IS_SIGNED>(word));
}

// Whether none of the words from `least` to `least` + `span` can be a key of the lookup: a vector of these is
// not read.
template <class T, class Keys, bool IS_SIGNED, bool OF_ALL>
LANEPACK_DEVICE bool excludes_words(T least, T span, const KeyQuestion<Keys, IS_SIGNED, OF_ALL>& question) {
    const i64 low = key_of<IS_SIGNED>(least);
    const i64 high = key_of<IS_SIGNED>(static_cast<T>(least + span));
    // Where the sum passes the end of the type, nothing is known.
    return low <= high && question.keys.excludes(low, high);
}

// Rows of a thread of which it is faster to unpack all keys in their order, and look up those of the rows:
// words are loaded once then, by all threads side by side.
constexpr u32 MANY_KEYS = 8;

// Whether a thread of the warp has so many. All threads of a warp.
LANEPACK_DEVICE bool are_many(u32 selection) { return __any_sync(FULL, static_cast<u32>(__popc(selection)) > MANY_KEYS); }

// The rows of a selection whose keys pass: `test(step)`. Two rows of a thread are on their way at a time. All
// threads of a warp.
template <class Test>
LANEPACK_DEVICE u32 select_keys(u32 selection, const Test& test) {
    if (are_many(selection)) return select_many_steps(selection, test);
    u32 kept = 0;
#pragma unroll 1
    while (selection != 0) {
        const u32 first = selection & (u32{0} - selection);
        selection ^= first;
        const u32 second = selection & (u32{0} - selection);
        selection ^= second;
        const u32 step = static_cast<u32>(__ffs(static_cast<int>(first))) - 1;
        const u32 other = second != 0 ? static_cast<u32>(__ffs(static_cast<int>(second))) - 1 : step;
        const bool holds = test(step);
        const bool other_holds = test(other);
        if (holds) kept |= first;
        if (other_holds) kept |= second;
    }
    return kept;
}

// Few rows of a vector whose keys are looked up: a thread takes one of 32, whichever thread has them. Shared
// memory of a warp.
struct ListedKeys {
    u16 entries[FEW_ROWS];
    u32 kept[WARP];

    // The rows of a selection that has few whose keys pass: `test(row)`. All threads of a warp.
    template <class Test>
    LANEPACK_DEVICE u32 select(u32 selection, u32 vector, const Test& test) {
        const u32 thread = threadIdx.x % WARP;
        const u32 own = static_cast<u32>(__popc(selection));
        const u32 end = sum_upto(own);
        const u32 count = __shfl_sync(FULL, end, WARP - 1);
        // Other threads may still read what was here.
        __syncwarp();
        kept[thread] = 0;
#pragma unroll 1
        for (u32 at = end - own; at < end; at++) entries[at] = static_cast<u16>(next_step(selection) * WARP + thread);
        __syncwarp();
        if (count == 0) return 0;
        const u32 first = entries[min(thread, count - 1)];
        if (count <= WARP) {
            if (test(row_of_entry(vector, first)) && thread < count) keep(first);
        } else {
            const u32 second = entries[min(thread + WARP, count - 1)];
            const bool holds = test(row_of_entry(vector, first));
            const bool other_holds = test(row_of_entry(vector, second));
            if (holds) keep(first);
            if (other_holds && thread + WARP < count) keep(second);
        }
        __syncwarp();
        return kept[thread];
    }

private:
    LANEPACK_DEVICE void keep(u32 entry) { atomicOr(kept + entry % WARP, 1u << entry / WARP); }
};

}  // namespace lanepack
