// CUDA's vector types with CUDA's alignments, their make_ functions, and the
// indices of threads and blocks.
//
// A type of 16 bytes or less whose size is a power of two is aligned to its size,
// so that UndefinedBehaviorSanitizer reports a wide access through a pointer that
// a GPU would fault on.
#pragma once

#define LANEPACK_VECTORS(scalar, name, align2, align4)                                                        \
    struct name##1 {                                                                                          \
        scalar x;                                                                                             \
    };                                                                                                        \
    struct alignas(align2) name##2 {                                                                          \
        scalar x, y;                                                                                          \
    };                                                                                                        \
    struct name##3 {                                                                                          \
        scalar x, y, z;                                                                                       \
    };                                                                                                        \
    struct alignas(align4) name##4 {                                                                          \
        scalar x, y, z, w;                                                                                    \
    };                                                                                                        \
    constexpr name##1 make_##name##1(scalar x) { return {x}; }                                                \
    constexpr name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                                   \
    constexpr name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }                      \
    constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

LANEPACK_VECTORS(signed char, char, 2, 4)
LANEPACK_VECTORS(unsigned char, uchar, 2, 4)
LANEPACK_VECTORS(short, short, 4, 8)
LANEPACK_VECTORS(unsigned short, ushort, 4, 8)
LANEPACK_VECTORS(int, int, 8, 16)
LANEPACK_VECTORS(unsigned int, uint, 8, 16)
LANEPACK_VECTORS(long long, longlong, 16, 16)
LANEPACK_VECTORS(unsigned long long, ulonglong, 16, 16)
LANEPACK_VECTORS(float, float, 8, 16)
LANEPACK_VECTORS(double, double, 16, 16)
#undef LANEPACK_VECTORS

struct dim3 {
    unsigned int x = 1, y = 1, z = 1;
};

namespace lanepack::simt {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// Where a thread stands in its grid; grids and blocks have one dimension.
struct Position {
    uint3 thread;
    uint3 block;
    dim3 block_size;
    dim3 grid_size;
};

// The thread that runs now. Not C++'s thread_local, whose accesses go through a
// wrapper function; nor by the usual model, which asks where it lies at each access, and
// AddressSanitizer looks at each of these: programs have it, and objects that they load.
extern __thread const Position* position __attribute__((tls_model("initial-exec")));

}  // namespace lanepack::simt

// References to const: a kernel cannot write them, as in CUDA.
#define threadIdx (::lanepack::simt::position->thread)
#define blockIdx (::lanepack::simt::position->block)
#define blockDim (::lanepack::simt::position->block_size)
#define gridDim (::lanepack::simt::position->grid_size)
constexpr int warpSize = 32;
