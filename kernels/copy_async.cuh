// Copies from global to shared memory that pass through no registers: a thread goes on while they
// are under way, and waits for its own.
#pragma once

#include "lanepack/base.cuh"

namespace lanepack {

// Copies an X, of 4, 8 or 16 bytes.
template <class X>
LANEPACK_DEVICE void copy_async(X* to, const X* from) {
    static_assert(sizeof(X) == 4 || sizeof(X) == 8 || sizeof(X) == 16, "sizes that there are copies of");
#if defined(LANEPACK_SIMT)
    *to = *from;
#else
    const u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
    if constexpr (sizeof(X) == 16) {
        // Past the first-level cache.
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(X)) : "memory");
    }
#endif
}

LANEPACK_DEVICE void copies_done() {
#if !defined(LANEPACK_SIMT)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Asks for a line of 128 bytes to be brought to the second-level cache.
LANEPACK_DEVICE void prefetch(const void* line) {
#if defined(LANEPACK_SIMT)
    // A prefetch does not fault, a read past a buffer does.
    static_cast<void>(*static_cast<const volatile u8*>(line));
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#endif
}

}  // namespace lanepack
