// Values in the order of Arrow's compute kernels as unsigned numbers of the same
// size, the *order domain*: what bounds and tests are stated in.
//
//   unsigned   as they are
//   signed     the sign bit flipped
//   float      all bits of negative ones flipped, the sign bit of others: IEEE 754 total order
#pragma once

#include "lanes.cuh"

namespace lanepack {

constexpr u32 UNSIGNED = 0;
constexpr u32 SIGNED = 1;
constexpr u32 FLOAT = 2;

// A word in the order domain, and back.
template <class T>
LANEPACK_DEVICE T ordered(T word, u32 order) {
    const T top = static_cast<T>(T{1} << (ROWS<T> - 1));
    if (order == UNSIGNED) return word;
    // The signs of floats decide about all bits.
    const T rest = order == FLOAT && (word & top) != 0 ? static_cast<T>(~top) : T{0};
    return static_cast<T>(word ^ (top | rest));
}
template <class T>
LANEPACK_DEVICE T unordered(T word, u32 order) {
    const T top = static_cast<T>(T{1} << (ROWS<T> - 1));
    if (order == UNSIGNED) return word;
    if (order == FLOAT && (word & top) == 0) return static_cast<T>(~word);
    return static_cast<T>(word ^ top);
}

// Values from `low` to `high`, both included, in the order domain, with no more bits than
// values have.
struct Range {
    u64 low;
    u64 high;
};

}  // namespace lanepack
