// FFOR on the device: vectors of an ffor node, and one lane of them as an iterator.
//
//   buffer 0   packed words of the vectors
//   buffer 1   V x base | zeros to a multiple of 4 bytes | V x place
#pragma once

#include "lanes.cuh"

namespace lanepack {

// The places of the vectors of an ffor node, and its bases.
template <class T>
LANEPACK_DEVICE const u32* ffor_places(const Node& node) {
    return reinterpret_cast<const u32*>(node.buffer[1] + (vectors_of(node) * sizeof(T) + 3) / 4 * 4);
}
template <class T>
LANEPACK_DEVICE const T* ffor_bases(const Node& node) {
    return reinterpret_cast<const T*>(node.buffer[1]);
}

// A vector of an ffor node.
template <class T>
struct FforVector {
    Packed<T> packed;
    T base;

    LANEPACK_DEVICE FforVector(const Node& node, u32 vector) {
        const u32 place = __ldg(ffor_places<T>(node) + vector);
        base = __ldg(ffor_bases<T>(node) + vector);
        packed = packed_at<T>(node, place);
    }
};

// The values of lane `lane` of vector `vector` of an ffor node, in rows 0 to
// ROWS<T> - 1; the one of row r has position index(r, lane) in the vector.
template <class T>
struct FforLane {
    PackedLane<T> packed;
    T base;

    LANEPACK_DEVICE FforLane(const Node& node, u32 vector, u32 lane) {
        const FforVector<T> parameters(node, vector);
        packed = PackedLane<T>(parameters.packed, lane,
                               reinterpret_cast<const T*>(node.buffer[1]));
        base = parameters.base;
    }

    LANEPACK_DEVICE T next() { return static_cast<T>(base + packed.next()); }
};

// Sums of the Ts of two words, each modulo 2^ROWS<T>.
template <class T>
LANEPACK_DEVICE u32 add_word(u32 a, u32 b) {
    if constexpr (sizeof(T) == 4) return a + b;
    const u32 top = repeat<T>(1u << (ROWS<T> - 1));
    return ((a & ~top) + (b & ~top)) ^ ((a ^ b) & top);
}

// What ffor does to packed values: adds the base.
template <class T>
struct AddBase {
    T base;

    LANEPACK_DEVICE T value(T packed) const { return static_cast<T>(base + packed); }

    LANEPACK_DEVICE uint4 piece(uint4 packed) const {
        if constexpr (sizeof(T) == 8) {
            const u64 x = base + join(packed.x, packed.y);
            const u64 y = base + join(packed.z, packed.w);
            return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                         static_cast<u32>(y >> 32)};
        } else {
            const u32 all = repeat<T>(base);
            return uint4{add_word<T>(packed.x, all), add_word<T>(packed.y, all),
                         add_word<T>(packed.z, all), add_word<T>(packed.w, all)};
        }
    }
};

}  // namespace lanepack
