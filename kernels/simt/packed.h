// CUDA's operations on the bytes or halves of a 32-bit word (`__vadd4`, `__vcmpeq2`, ...).
#pragma once

#include "types.h"

namespace lanepack::simt {

// `op` of each pair of parts, in the parts of the result.
template <class Part, class Op>
unsigned by_parts(unsigned x, unsigned y, Op op) {
    constexpr unsigned width = 8 * sizeof(Part);
    unsigned result = 0;
    for (unsigned at = 0; at < 32; at += width) {
        const unsigned part = static_cast<unsigned>(op(static_cast<Part>(x >> at), static_cast<Part>(y >> at)));
        result |= (part & (0xffffffffu >> (32 - width))) << at;
    }
    return result;
}

}  // namespace lanepack::simt

#define LANEPACK_PARTS(name, part, result)                                                                    \
    inline unsigned name(unsigned left, unsigned right) {                                                     \
        return ::lanepack::simt::by_parts<part>(left, right, [](part x, part y) { return result; });          \
    }
#define LANEPACK_SIGNLESS(parts, part)                                                                        \
    LANEPACK_PARTS(__vadd##parts, unsigned part, x + y)                                                       \
    LANEPACK_PARTS(__vsub##parts, unsigned part, x - y)                                                       \
    LANEPACK_PARTS(__vcmpeq##parts, unsigned part, x == y ? -1 : 0)                                           \
    LANEPACK_PARTS(__vcmpne##parts, unsigned part, x != y ? -1 : 0)
#define LANEPACK_ORDERED(sign, parts, part)                                                                   \
    LANEPACK_PARTS(__vcmplt##sign##parts, part, x < y ? -1 : 0)                                               \
    LANEPACK_PARTS(__vcmple##sign##parts, part, x <= y ? -1 : 0)                                              \
    LANEPACK_PARTS(__vcmpgt##sign##parts, part, x > y ? -1 : 0)                                               \
    LANEPACK_PARTS(__vcmpge##sign##parts, part, x >= y ? -1 : 0)                                              \
    LANEPACK_PARTS(__vmin##sign##parts, part, x < y ? x : y)                                                  \
    LANEPACK_PARTS(__vmax##sign##parts, part, x > y ? x : y)

LANEPACK_SIGNLESS(4, char)
LANEPACK_SIGNLESS(2, short)
LANEPACK_ORDERED(u, 4, unsigned char)
LANEPACK_ORDERED(s, 4, signed char)
LANEPACK_ORDERED(u, 2, unsigned short)
LANEPACK_ORDERED(s, 2, short)

#undef LANEPACK_PARTS
#undef LANEPACK_SIGNLESS
#undef LANEPACK_ORDERED
