// Barriers and warp collectives under CUDA's names. Each is one rendezvous: a
// lane leaves its value with the block (block.h) and goes on when all lanes that
// the mask names have left theirs.
//
// The last parameter of each is the caller's place in the source, for messages
// and because lanes may only meet at the same one.
#pragma once

#include "types.h"

namespace lanepack::simt {

struct Site {
    const char* file;
    int line;

    static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

enum class Op : u8 {
    syncthreads,
    syncthreads_count,
    syncthreads_and,
    syncthreads_or,
    syncwarp,
    shfl,
    shfl_up,
    shfl_down,
    shfl_xor,
    ballot,
    any,
    all,
    match_any,
    match_all,
    reduce_add,
    reduce_min,
    reduce_max,
    reduce_min_signed,
    reduce_max_signed,
    reduce_and,
    reduce_or,
    reduce_xor,
};

// Waits for all live threads of the block.
u32 barrier(Op op, bool predicate, Site site);

// Waits for the lanes of `mask`. `source` is the lane whose value a shuffle gives.
u64 collective(Op op, u32 mask, u64 value, u32 source, Site site);

// Lets other lanes run.
void pass();

// Ends the launch with an error about the current thread.
[[noreturn]] void fail(const char* what, Site site);

template <class T>
u64 bits(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "collectives exchange values of 32 or 64 bits");
    u64 result = 0;
    __builtin_memcpy(&result, &value, sizeof(T));
    return result;
}

template <class T>
T shuffle(Op op, u32 mask, T value, u32 source, Site site) {
    const u64 result = collective(op, mask, bits(value), source, site);
    T out;
    __builtin_memcpy(&out, &result, sizeof(T));
    return out;
}

inline u32 lane() { return position->thread.x % 32; }

inline void check_width(int width, Site site) {
    if (width < 1 || width > 32 || (width & (width - 1)) != 0) fail("shuffle of a width that is no power of two", site);
}

}  // namespace lanepack::simt

#define LANEPACK_SITE ::lanepack::simt::Site site = ::lanepack::simt::Site::here()

inline void __syncthreads(LANEPACK_SITE) { ::lanepack::simt::barrier(::lanepack::simt::Op::syncthreads, true, site); }
inline int __syncthreads_count(int predicate, LANEPACK_SITE) {
    return static_cast<int>(
        ::lanepack::simt::barrier(::lanepack::simt::Op::syncthreads_count, predicate != 0, site));
}
inline int __syncthreads_and(int predicate, LANEPACK_SITE) {
    return static_cast<int>(::lanepack::simt::barrier(::lanepack::simt::Op::syncthreads_and, predicate != 0, site));
}
inline int __syncthreads_or(int predicate, LANEPACK_SITE) {
    return static_cast<int>(::lanepack::simt::barrier(::lanepack::simt::Op::syncthreads_or, predicate != 0, site));
}
inline void __syncwarp(unsigned mask = 0xffffffffu, LANEPACK_SITE) {
    ::lanepack::simt::collective(::lanepack::simt::Op::syncwarp, mask, 0, 0, site);
}
inline void __nanosleep(unsigned) { ::lanepack::simt::pass(); }
[[noreturn]] inline void __trap(LANEPACK_SITE) { ::lanepack::simt::fail("__trap", site); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, LANEPACK_SITE) {
    using namespace lanepack::simt;
    check_width(width, site);
    const u32 within = static_cast<u32>(width) - 1;
    return shuffle(Op::shfl, mask, value, (lane() & ~within) | (static_cast<u32>(source) & within), site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, LANEPACK_SITE) {
    using namespace lanepack::simt;
    check_width(width, site);
    const u32 place = lane() & (static_cast<u32>(width) - 1);
    return shuffle(Op::shfl_up, mask, value, distance <= place ? lane() - distance : lane(), site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, LANEPACK_SITE) {
    using namespace lanepack::simt;
    check_width(width, site);
    const u32 place = lane() & (static_cast<u32>(width) - 1);
    const bool inside = distance < static_cast<u32>(width) - place;
    return shuffle(Op::shfl_down, mask, value, inside ? lane() + distance : lane(), site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, LANEPACK_SITE) {
    using namespace lanepack::simt;
    check_width(width, site);
    // A lane of an earlier part of the warp can be reached, one of a later cannot.
    const u32 source = lane() ^ static_cast<u32>(flip), last = lane() | (static_cast<u32>(width) - 1);
    return shuffle(Op::shfl_xor, mask, value, source <= last ? source : lane(), site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, LANEPACK_SITE) {
    return static_cast<unsigned>(
        ::lanepack::simt::collective(::lanepack::simt::Op::ballot, mask, predicate != 0, 0, site));
}
inline int __any_sync(unsigned mask, int predicate, LANEPACK_SITE) {
    return static_cast<int>(::lanepack::simt::collective(::lanepack::simt::Op::any, mask, predicate != 0, 0, site));
}
inline int __all_sync(unsigned mask, int predicate, LANEPACK_SITE) {
    return static_cast<int>(::lanepack::simt::collective(::lanepack::simt::Op::all, mask, predicate != 0, 0, site));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, LANEPACK_SITE) {
    using namespace lanepack::simt;
    return static_cast<unsigned>(collective(Op::match_any, mask, bits(value), 0, site));
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all, LANEPACK_SITE) {
    using namespace lanepack::simt;
    const unsigned result = static_cast<unsigned>(collective(Op::match_all, mask, bits(value), 0, site));
    *all = result != 0;
    return result;
}

#define LANEPACK_REDUCE(name, type, op)                                                                       \
    inline type __reduce_##name##_sync(unsigned mask, type value, LANEPACK_SITE) {                            \
        return static_cast<type>(::lanepack::simt::collective(::lanepack::simt::Op::op, mask,                 \
                                                              static_cast<unsigned>(value), 0, site));        \
    }
LANEPACK_REDUCE(add, unsigned, reduce_add)
LANEPACK_REDUCE(add, int, reduce_add)
LANEPACK_REDUCE(min, unsigned, reduce_min)
LANEPACK_REDUCE(min, int, reduce_min_signed)
LANEPACK_REDUCE(max, unsigned, reduce_max)
LANEPACK_REDUCE(max, int, reduce_max_signed)
LANEPACK_REDUCE(and, unsigned, reduce_and)
LANEPACK_REDUCE(or, unsigned, reduce_or)
LANEPACK_REDUCE(xor, unsigned, reduce_xor)
#undef LANEPACK_REDUCE
