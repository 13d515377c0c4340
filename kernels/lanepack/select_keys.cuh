// Selections by lookups: rows of a vector whose keys are in a table (lookup.cuh), by the tests of readers
// or row by row.
#pragma once

#include "lookup.cuh"
#include "reader.cuh"

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

template <class T, class Keys, bool IS_SIGNED, bool OF_ALL>
LANEPACK_DEVICE bool holds_word(T word, const KeyQuestion<Keys, IS_SIGNED, OF_ALL>& question) {
    // Shifted up and down again: with the sign.
    constexpr u32 ABOVE = 64 - ROWS<T>;
    const u64 bits = static_cast<u64>(word) << ABOVE;
    return has_key(question.keys, IS_SIGNED ? static_cast<i64>(bits) >> ABOVE : static_cast<i64>(bits >> ABOVE));
}

// Rows of a thread of which it is faster to unpack all keys in their order, and look up those of the rows:
// words are loaded once then, by all threads side by side.
constexpr u32 MANY_KEYS = 8;

// Whether a thread of the warp has so many. All threads of a warp.
LANEPACK_DEVICE bool are_many(u32 selection) { return __any_sync(FULL, static_cast<u32>(__popc(selection)) > MANY_KEYS); }

// The rows of a selection whose keys pass: `test(step)`. All threads of a warp.
template <class Test>
LANEPACK_DEVICE u32 select_keys(u32 selection, const Test& test) {
    if (are_many(selection)) return select_many_steps(selection, test);
    u32 kept = 0;
#pragma unroll 1
    while (selection != 0) {
        const u32 bit = selection & (u32{0} - selection);
        if (test(static_cast<u32>(__ffs(static_cast<int>(selection))) - 1)) kept |= bit;
        selection ^= bit;
    }
    return kept;
}

}  // namespace lanepack
