// ALP-RD on the device: vectors of an alp_rd node, and one lane of them as an iterator with
// exceptions patched.
//
//   packed      | code, up to 3 bits | right part, R bits |      one width for all vectors
//   value       | left part of the code | right part | S zero bits |
//
//   buffer 0    packed words of the vectors
//   buffer 1    8 x u16 left part | V x locator
//   buffer 2    blocks of exceptions
//   size        the node's parameter 1: R | left parts << 8 | S << 16
//
// The eight left parts lie in four registers; a permutation of bytes picks one of four.
#pragma once

#include "exceptions.cuh"

namespace lanepack {

// What turns packed values into the bits of floats.
template <class T>
struct AlpRdStep {
    // Left parts, two a word.
    uint4 left;
    u32 right;
    u32 zeros;

    AlpRdStep() = default;
    LANEPACK_DEVICE AlpRdStep(const u8* dictionary, u32 cut)
        : left(__ldg(reinterpret_cast<const uint4*>(dictionary))), right(cut & 0xff), zeros(cut >> 16 & 0xff) {}

    LANEPACK_DEVICE T value(T packed) const {
        const u32 code = static_cast<u32>(packed >> right);
        // Two words have four left parts: bytes 2 code and 2 code + 1, code modulo 4.
        const u32 bytes = (code & 3) * 0x22 + 0x10;
        const u32 low = __byte_perm(left.x, left.y, bytes);
        const u32 high = __byte_perm(left.z, left.w, bytes);
        const T part = static_cast<T>((code < 4 ? low : high) & 0xffff);
        return static_cast<T>((part << right | (packed & low_bits<T>(right))) << zeros);
    }
    LANEPACK_DEVICE uint4 piece(uint4 packed) const {
        if constexpr (sizeof(T) == 8) {
            const u64 x = value(join(packed.x, packed.y));
            const u64 y = value(join(packed.z, packed.w));
            return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                         static_cast<u32>(y >> 32)};
        } else {
            return uint4{value(packed.x), value(packed.y), value(packed.z), value(packed.w)};
        }
    }
};

// A vector of an alp_rd node.
template <class T>
struct AlpRdVector {
    using Step = AlpRdStep<T>;
    static constexpr u32 MAX_WIDTH = ROWS<T>;

    Packed<T> packed;
    const u8* dictionary;
    u32 cut;
    u32 locator;

    LANEPACK_DEVICE AlpRdVector(const Node& node, u32 vector) : dictionary(node.buffer[1]) {
        cut = static_cast<u32>(node.size);
        // The codes of n left parts have the bits of n - 1.
        const u32 count = cut >> 8 & 0xff;
        const u32 width = (cut & 0xff) + (32 - static_cast<u32>(__clz(static_cast<int>(count - 1))));
        packed = packed_at<T>(node, vector * width | width << 24);
        locator = node.parameter > 0 ? __ldg(reinterpret_cast<const u32*>(dictionary + 16) + vector) : 0;
    }

    LANEPACK_DEVICE Step step() const { return Step(dictionary, cut); }
};

template <class T>
using AlpRdLane = PatchedLane<T, AlpRdVector<T>>;

}  // namespace lanepack
