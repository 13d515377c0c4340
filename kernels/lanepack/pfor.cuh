// PFOR on the device: vectors of a pfor node, and one lane of them as an iterator with
// exceptions patched.
//
//   buffer 0   packed words of the vectors
//   buffer 1   V x base | zeros to a multiple of 4 bytes | V x place | V x locator
//   buffer 2   blocks of exceptions
#pragma once

#include "exceptions.cuh"
#include "ffor.cuh"

namespace lanepack {

// The locator of a vector of a pfor node.
template <class T>
LANEPACK_DEVICE u32 pfor_locator(const Node& node, u32 vector) {
    return __ldg(ffor_places<T>(node) + vectors_of(node) + vector);
}

// A vector of a pfor node.
template <class T>
struct PforVector : FforVector<T> {
    using Step = AddBase<T>;
    static constexpr u32 MAX_WIDTH = ROWS<T>;

    u32 locator;

    LANEPACK_DEVICE PforVector(const Node& node, u32 vector)
        : FforVector<T>(node, vector), locator(pfor_locator<T>(node, vector)) {}

    LANEPACK_DEVICE Step step() const { return Step{this->base}; }
};

template <class T>
using PforLane = PatchedLane<T, PforVector<T>>;

}  // namespace lanepack
