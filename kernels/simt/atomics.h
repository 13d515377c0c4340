// Atomic operations, for exactly the types that CUDA has them for, as atomics of
// the host: blocks run on several OS threads. They return the value before.
//
// They and the fences are sequentially consistent, which is stronger than CUDA's
// relaxed ones: a missing fence does not show.
#pragma once

#include "collectives.h"

namespace lanepack::simt {

// CUDA faults on an atomic of a misaligned address, a host does not.
template <class T>
T* aligned(T* address, Site site) {
    if (reinterpret_cast<unsigned long>(address) % sizeof(T) != 0) fail("atomic at a misaligned address", site);
    return address;
}

template <class T, class Next>
T replace(T* address, Next next, Site site) {
    T before;
    __atomic_load(aligned(address, site), &before, __ATOMIC_SEQ_CST);
    for (;;) {
        T after = next(before);
        if (__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return before;
        }
    }
}

}  // namespace lanepack::simt

#define LANEPACK_FETCH(name, type, builtin)                                                                   \
    inline type name(type* address, type value, LANEPACK_SITE) {                                              \
        return builtin(::lanepack::simt::aligned(address, site), value, __ATOMIC_SEQ_CST);                    \
    }
#define LANEPACK_REPLACE(name, type, after)                                                                   \
    inline type name(type* address, type value, LANEPACK_SITE) {                                              \
        return ::lanepack::simt::replace(address, [value]([[maybe_unused]] type before) { return after; }, site); \
    }
#define LANEPACK_CAS(type)                                                                                    \
    inline type atomicCAS(type* address, type expected, type value, LANEPACK_SITE) {                          \
        __atomic_compare_exchange_n(::lanepack::simt::aligned(address, site), &expected, value, false,        \
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                      \
        return expected;                                                                                      \
    }
#define LANEPACK_BITWISE(type)                                                                                \
    LANEPACK_FETCH(atomicAnd, type, __atomic_fetch_and)                                                       \
    LANEPACK_FETCH(atomicOr, type, __atomic_fetch_or)                                                         \
    LANEPACK_FETCH(atomicXor, type, __atomic_fetch_xor)                                                       \
    LANEPACK_FETCH(atomicExch, type, __atomic_exchange_n)                                                     \
    LANEPACK_CAS(type)
#define LANEPACK_MINMAX(type)                                                                                 \
    LANEPACK_REPLACE(atomicMin, type, before < value ? before : value)                                        \
    LANEPACK_REPLACE(atomicMax, type, before > value ? before : value)

LANEPACK_FETCH(atomicAdd, int, __atomic_fetch_add)
LANEPACK_FETCH(atomicAdd, unsigned, __atomic_fetch_add)
LANEPACK_FETCH(atomicAdd, unsigned long long, __atomic_fetch_add)
LANEPACK_REPLACE(atomicAdd, float, before + value)
LANEPACK_REPLACE(atomicAdd, double, before + value)
LANEPACK_FETCH(atomicSub, int, __atomic_fetch_sub)
LANEPACK_FETCH(atomicSub, unsigned, __atomic_fetch_sub)
LANEPACK_BITWISE(int)
LANEPACK_BITWISE(unsigned)
LANEPACK_BITWISE(unsigned long long)
LANEPACK_REPLACE(atomicExch, float, value)
LANEPACK_CAS(unsigned short)
LANEPACK_MINMAX(int)
LANEPACK_MINMAX(unsigned)
LANEPACK_MINMAX(long long)
LANEPACK_MINMAX(unsigned long long)

#undef LANEPACK_FETCH
#undef LANEPACK_REPLACE
#undef LANEPACK_CAS
#undef LANEPACK_BITWISE
#undef LANEPACK_MINMAX

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
