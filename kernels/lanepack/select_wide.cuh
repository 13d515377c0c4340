// Selections of wide values, of 128 and 256 bits, whose words of 64 bits are nodes of their own or
// stored side by side.
//
//   value    | word 0 | word 1 | word 2 | word 3 |    a word that is not there is the sign
//   ranges   sorted, disjoint, both ends included; the sign of the last word flipped, so
//            that values compare as unsigned numbers, from the last word on
//
// Value by value: each word is unpacked by itself. Values of one word, which most columns
// have, are compared as the 64-bit integers that they are instead (select.cuh).
//
// All threads of a warp call this together, with the same vector.
#pragma once

#include "steps.cuh"
#include "values.cuh"

namespace lanepack {

// The words of both ends, the sign of the last one flipped. Of 128 bits the upper words are zero.
struct WideRange {
    u64 low[4];
    u64 high[4];
};

// The words of a vector's values. `words` has four nodes, of which those that are not there
// have no rows; a plain root has none.
template <u32 COUNT>
struct WideVector {
    VectorValues<u64, WORD_ENCODINGS> parts[COUNT];
    const u64* plain;
    u32 has;

    LANEPACK_DEVICE WideVector(const Node& root, const Node* words, u32 vector) : plain(nullptr), has(0) {
        if (root.encoding == PLAIN) {
            plain = reinterpret_cast<const u64*>(root.buffer[0]) + static_cast<u64>(vector) * VECTOR * COUNT;
            return;
        }
#pragma unroll
        for (u32 word = 0; word < COUNT; word++) {
            if (words[word].rows == 0) break;
            parts[word] = VectorValues<u64, WORD_ENCODINGS>(words[word], vector);
            has = word + 1;
        }
    }

    LANEPACK_DEVICE void at(u32 position, u64 (&value)[COUNT]) const {
#pragma unroll
        for (u32 word = 0; word < COUNT; word++) {
            if (plain != nullptr) {
                value[word] = __ldg(plain + position * COUNT + word);
            } else if (word < has) {
                value[word] = parts[word].at(position);
            } else {
                value[word] = word > 0 && static_cast<i64>(value[word - 1]) < 0 ? ~u64{0} : 0;
            }
        }
    }
};

// Whether a value of `COUNT` words is above another.
template <u32 COUNT>
LANEPACK_DEVICE bool is_above(const u64* value, const u64* other) {
#pragma unroll
    for (u32 word = COUNT; word-- > 0;) {
        const u64 its = __ldg(other + word);
        if (value[word] != its) return value[word] > its;
    }
    return false;
}

// Whether ranges hold a value.
template <u32 COUNT>
LANEPACK_DEVICE bool hold_wide(const WideRange* ranges, u32 count, const u64* value) {
    u32 first = 0;
#pragma unroll 1
    for (u32 end = count; first < end;) {
        const u32 middle = (first + end) / 2;
        if (is_above<COUNT>(value, ranges[middle].high)) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    if (first == count) return false;
    const u64* low = ranges[first].low;
    bool is_equal = true;
#pragma unroll
    for (u32 word = 0; word < COUNT; word++) is_equal &= value[word] == __ldg(low + word);
    return is_equal || is_above<COUNT>(value, low);
}

// The selection of the values of a vector that lie in ranges; `words` as for WideVector. Of
// rows past the end, and of nulls, it says anything.
template <u32 COUNT>
LANEPACK_DEVICE u32 select_wide(const Node& root, const Node* words, u32 vector, const WideRange* ranges, u32 count) {
    const u32 rows = min(root.rows - vector * VECTOR, VECTOR);
    const WideVector<COUNT> values(root, words, vector);
    u32 selection = 0;
#pragma unroll 1
    for (u32 step = 0; step < WARP; step++) {
        const u32 position = step_position(step) + threadIdx.x % WARP;
        if (position >= rows) continue;
        u64 value[COUNT];
        values.at(position, value);
        value[COUNT - 1] ^= u64{1} << 63;
        if (hold_wide<COUNT>(ranges, count, value)) selection |= 1u << step;
    }
    return selection;
}

}  // namespace lanepack
