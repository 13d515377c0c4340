// What all of lanepack's device code stands on: integer names, qualifiers, and
// the few things that nvcc, NVRTC and g++ spell differently.
//
// No standard headers are included, here or in any other header of this folder:
// NVRTC has none. Under nvcc and NVRTC the CUDA names (threadIdx, __shfl_sync,
// atomicAdd, uint4, ...) are built in; under g++ (LANEPACK_SIMT) they come from
// ../simt/simt.h, which runs every CUDA thread as a fiber on the host.
//
// Five spellings replace CUDA's own, so that the emulation can see them:
//
//   LANEPACK_DEVICE                     __device__ __forceinline__
//   LANEPACK_CONSTANT(type, name)       static __constant__ const type name; (also arrays: type = f64[19])
//   LANEPACK_SHARED(type, name)         __shared__ type name;      (also arrays: type = u8[128])
//   LANEPACK_DYNAMIC_SHARED(type, name) extern __shared__ memory of that type, one a kernel: its
//                                       launch asks for sizeof(type) bytes, MAX_DYNAMIC_SHARED at most
//   LANEPACK_KERNEL(name, threads, blocks, Arguments)
//                                       extern "C" __global__ __launch_bounds__(threads, blocks)
//                                       void name(const Arguments args)
//
// A kernel takes exactly one plain struct by value, called `args`.
#pragma once

#if defined(LANEPACK_SIMT)
#include "../simt/simt.h"
#else
#define LANEPACK_DEVICE __device__ __forceinline__
#define LANEPACK_SHARED(type, name) __shared__ ::lanepack::Same<type> name
#define LANEPACK_DYNAMIC_SHARED(type, name)          \
    extern __shared__ uint4 lanepack_dynamic_shared[]; \
    type& name = *reinterpret_cast<type*>(lanepack_dynamic_shared)
#define LANEPACK_KERNEL(name, threads, blocks, Arguments) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Arguments args)
#endif
#define LANEPACK_CONSTANT(type, name) static __constant__ const ::lanepack::Same<type> name

namespace lanepack {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using i128 = __int128;
using u128 = unsigned __int128;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8 && sizeof(void*) == 8,
              "lanepack's device code counts on these sizes");

// `Same<u8[128]>` is `u8[128]`: lets array types stand left of a name.
template <class T>
struct SameType {
    using Type = T;
};
template <class T>
using Same = typename SameType<T>::Type;

constexpr u32 WARP = 32;
constexpr u32 FULL = 0xffffffffu;

// Shared memory that every GPU since compute capability 8.0 gives a block that asks for it.
constexpr u32 MAX_DYNAMIC_SHARED = 99 << 10;

// The highest bit of every byte: set in none of ASCII.
constexpr u32 HIGH_BITS = 0x80808080u;

// The same pointer, of which the compiler knows nothing: what follows from it is read and
// computed again, rather than kept where registers are short.
template <class T>
LANEPACK_DEVICE const T& again(const T& object) {
    const T* pointer = &object;
#if !defined(LANEPACK_SIMT)
    asm volatile("" : "+l"(pointer));
#endif
    return *pointer;
}

// One, of which the compiler knows nothing: the number of bits of a mask that has this thread's
// bit. ptxas knows the value of a constant that passes through empty assembly.
LANEPACK_DEVICE u32 opaque_one() {
#if defined(LANEPACK_SIMT)
    return 1;
#else
    u32 own;
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
    return static_cast<u32>(__popc(own));
#endif
}

// A word that is seldom read again, of memory that kernels only read: it leaves what the first-level cache
// has there, such as the bits of a lookup.
LANEPACK_DEVICE u32 load_once(const u32* from) {
#if defined(LANEPACK_SIMT)
    return *from;
#else
    u32 word;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(word) : "l"(from));
    return word;
#endif
}

// Adds `bit`, which the selection lacks, if `holds`; `one` is `opaque_one()`. One multiplication,
// whose pipe is not that of comparisons; from C++ the compiler makes two instructions.
LANEPACK_DEVICE void collect(bool holds, u32 bit, u32 one, u32& selection) {
#if defined(LANEPACK_SIMT)
    if (holds) selection += one * bit;
#else
    asm("{\n\t.reg .pred holds;\n\tsetp.ne.u32 holds, %1, 0;\n\t@holds mad.lo.u32 %0, %2, %3, %0;\n\t}"
        : "+r"(selection)
        : "r"(static_cast<u32>(holds)), "r"(one), "r"(bit));
#endif
}

// The number of the warp in its block. The shuffle tells the compiler that the number is uniform
// over the warp: branches that depend on it need no code for divergent threads, which was a quarter
// of a query's kernel. All threads of a warp.
LANEPACK_DEVICE u32 warp_in_block() { return __shfl_sync(FULL, threadIdx.x / WARP, 0); }

// The sum over a warp's lanes up to the own one, by all of them.
template <class T>
LANEPACK_DEVICE T sum_upto(T own) {
#pragma unroll
    for (u32 step = 1; step < WARP; step *= 2) {
#if !defined(LANEPACK_SIMT)
        if constexpr (sizeof(T) == 4) {
            // The shuffle says which threads have another to add: two instructions.
            asm volatile(
                "{\n\t.reg .pred has;\n\t.reg .u32 other;\n\t"
                "shfl.sync.up.b32 other|has, %0, %1, 0, 0xffffffff;\n\t@has add.u32 %0, %0, other;\n\t}"
                : "+r"(own)
                : "r"(step));
            continue;
        }
#endif
        const T other = __shfl_up_sync(FULL, own, step);
        if (threadIdx.x % WARP >= step) own += other;
    }
    return own;
}

// 16 bytes from byte `at` on of the 32 in low and high.
LANEPACK_DEVICE uint4 bytes_from(uint4 low, uint4 high, u32 at) {
    u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 step = 2; step > 0; step /= 2) {
        if (at / 4 & step) {
#pragma unroll
            for (u32 i = 0; i + step < 8; i++) words[i] = words[i + step];
        }
    }
    const u32 shift = at % 4 * 8;
    return uint4{__funnelshift_r(words[0], words[1], shift), __funnelshift_r(words[1], words[2], shift),
                 __funnelshift_r(words[2], words[3], shift), __funnelshift_r(words[3], words[4], shift)};
}

}  // namespace lanepack
