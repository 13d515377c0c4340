// CUDA's device language on the host: kernels compiled by g++ run as fibers.
//
// Every CUDA thread is a fiber with a stack of its own. The threads of a block
// share one OS thread and meet at rendezvous points (block.h): barriers and warp
// collectives. Between those the lanes and warps of a block run in an order drawn
// from a seed, so that a result that needs a missing barrier comes out wrong for
// some seed; blocks too start in such an order, on several OS threads. What can
// never go on (a mask naming a lane that exited or waits elsewhere, a barrier that
// live threads miss) is an error with kernel, block and threads, not a hang.
// Lanes meet only at the same source line: CUDA leaves anything else undefined.
//
// AddressSanitizer sees accesses beyond device buffers and shared variables, and
// UndefinedBehaviorSanitizer vector accesses through misaligned pointers; memory
// that was never written holds 0xA5. Shared variables are aligned to their type
// and to no more.
//
// It cannot show: races that the memory model allows but no order of whole
// stretches between rendezvous points does, register pressure and spills, bank
// conflicts, coalescing, and time. A thread that spins on a flag of its own block
// hangs unless it calls __nanosleep; one that spins on another block must have
// drawn a ticket from an atomic counter, as on a GPU.
//
// Processor time on an AMD EPYC: 17 ns per lane for a shuffle or a barrier, 350,000
// blocks of 128 threads a second; 40 ns and 210,000 with sanitizers, where ffor
// decodes 240 MB/s on two cores. Lost: a switch that ends in a jump, which misleads
// the prediction of returns (43 ns instead of 17); ucontext (270 ns).
#pragma once

#include "types.h"

#include "atomics.h"
#include "collectives.h"
#include "intrinsics.h"
#include "kernel.h"
#include "memory.h"
#include "packed.h"

// CUDA's qualifiers. __shared__ is missing on purpose: the emulation can only see
// variables that are declared with LANEPACK_SHARED.
#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

#define LANEPACK_DEVICE inline

#define LANEPACK_SHARED(type, name)                                                                           \
    static const char name##_declaration = 0;                                                                 \
    ::lanepack::Same<type>& name =                                                                            \
        ::lanepack::simt::shared<::lanepack::Same<type>>(&name##_declaration, #name)

#define LANEPACK_DYNAMIC_SHARED(type, name)                                                                   \
    static const char name##_declaration = 0;                                                                 \
    ::lanepack::Same<type>& name =                                                                            \
        ::lanepack::simt::dynamic_shared<::lanepack::Same<type>>(&name##_declaration, #name)

#define LANEPACK_KERNEL(name, threads, blocks, Arguments)                                                     \
    extern "C" void lanepack_kernel_##name(const Arguments& args);                                            \
    static_assert((threads) > 0 && (threads) <= 1024 && (blocks) > 0, "no GPU launches such a block");        \
    [[gnu::used]] static ::lanepack::simt::Kernel lanepack_entry_##name{                                      \
        #name, threads, #Arguments, sizeof(Arguments), alignof(Arguments), [](const void* arguments) {        \
            lanepack_kernel_##name(*static_cast<const Arguments*>(arguments));                                \
        }};                                                                                                   \
    extern "C" void lanepack_kernel_##name([[maybe_unused]] const Arguments& args)

namespace lanepack::simt {

// The block's memory for a declaration: the same for all its threads.
void* shared(const void* declaration, const char* name, unsigned long size, unsigned long alignment);

// The same for memory that the launch gives beyond the static limit.
void* dynamic_shared(const void* declaration, const char* name, unsigned long size, unsigned long alignment);

template <class T>
T& shared(const void* declaration, const char* name) {
    static_assert(__is_trivially_constructible(T), "shared memory is never constructed");
    return *static_cast<T*>(shared(declaration, name, sizeof(T), alignof(T)));
}

template <class T>
T& dynamic_shared(const void* declaration, const char* name) {
    static_assert(__is_trivially_constructible(T), "shared memory is never constructed");
    return *static_cast<T*>(dynamic_shared(declaration, name, sizeof(T), alignof(T)));
}

}  // namespace lanepack::simt
