// Dictionaries on the device: the values by their codes.
//
//   buffers 0 to 2   those of the codes
//   buffer 3         the values of the dictionary, as they are
//   size             their number; from bit 32 on the encoding of the codes
//   parameter        that of the codes
#pragma once

#include "node.cuh"

namespace lanepack {

// The codes of a dict node, as a node of their own.
LANEPACK_DEVICE Node codes_of(const Node& node) {
    return Node{{node.buffer[0], node.buffer[1], node.buffer[2], nullptr},
                node.parameter,
                0,
                node.at,
                node.rows,
                static_cast<u16>(node.size >> 32), 0};
}

// The values of a dict node. Codes that have none get the last value.
template <class T>
struct Dictionary {
    const T* values;
    u32 last;

    Dictionary() = default;
    LANEPACK_DEVICE explicit Dictionary(const Node& node)
        : values(reinterpret_cast<const T*>(node.buffer[3])), last(static_cast<u32>(node.size) - 1) {}

    LANEPACK_DEVICE T at(u32 code) const { return __ldg(values + min(code, last)); }
};

}  // namespace lanepack
