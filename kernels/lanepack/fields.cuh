// Packed values of a vector in registers: a thread has the 32 of its rows, in the order of rows,
// of values of 32 bits those of a lane, of 64 bits those of half a lane (steps.cuh).
//
//   words    w0          w1          w2          of one thread, W for its 32 values
//   fields   | f0  | f1  | f2  | f3  | f4  |
//
// Code is unrolled for each width up to 32: one load a word, all on their way together, and two
// instructions a field. With the width at run time these are two loads and nine instructions.
#pragma once

#include "exceptions.cuh"
#include "select_packed.cuh"

namespace lanepack {

template <u32 W, class Words>
LANEPACK_DEVICE void unpack_width(const Words& from, u32 (&fields)[WARP]) {
    u32 words[W];
#pragma unroll
    for (u32 row = 0; row < WARP; row++) {
        // The words that the field ends in, and the one before did not.
#pragma unroll
        for (u32 k = (row * W + 31) / 32; k < ((row + 1) * W + 31) / 32; k++) words[k] = from.load(k);
        fields[row] = at_top<W>(words, row) >> (32 - W);
    }
}

// The fields of this thread of a vector of at most 32 bits a value.
template <class T>
LANEPACK_DEVICE void unpack_fields(Packed<T> packed, u32 (&fields)[WARP]) {
    static_assert(sizeof(T) >= 4, "a thread has the rows of one lane");
    const ThreadWords<T> words(packed);
    switch (packed.width) {
#define LANEPACK_WIDTH(w) \
    case w: unpack_width<w>(words, fields); break;
#define LANEPACK_WIDTHS(w) LANEPACK_WIDTH(w) LANEPACK_WIDTH(w + 1) LANEPACK_WIDTH(w + 2) LANEPACK_WIDTH(w + 3)
        LANEPACK_WIDTHS(1) LANEPACK_WIDTHS(5) LANEPACK_WIDTHS(9) LANEPACK_WIDTHS(13)
        LANEPACK_WIDTHS(17) LANEPACK_WIDTHS(21) LANEPACK_WIDTHS(25) LANEPACK_WIDTHS(29)
#undef LANEPACK_WIDTHS
#undef LANEPACK_WIDTH
        default:
#pragma unroll
            for (u32 row = 0; row < WARP; row++) fields[row] = 0;
    }
}

}  // namespace lanepack
