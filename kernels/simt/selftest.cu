// Kernels that test the emulation itself (src/gpu/simt/tests.rs): compiled for
// the host only.

#include "lanepack/base.cuh"

namespace lanepack {
namespace {

struct SelfArguments {
    const u32* in;
    u32* out;
    u32 n;
    // What the kernel is to do: one of a few cases.
    u32 mode;
};

constexpr u32 THREADS = 128;

LANEPACK_DEVICE u32 global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace

LANEPACK_KERNEL(selftest_index, 48, 1, SelfArguments) {
    if (global_thread() < args.n) args.out[global_thread()] = blockIdx.x << 16 | gridDim.x << 8 | threadIdx.x;
}

// Eight results of a warp for each of its lanes.
LANEPACK_KERNEL(selftest_shuffle, 32, 1, SelfArguments) {
    const u32 lane = threadIdx.x, value = args.in[lane];
    u32* out = args.out + lane * 8;
    out[0] = __shfl_sync(FULL, value, 5);
    out[1] = __shfl_up_sync(FULL, value, 3);
    out[2] = __shfl_down_sync(FULL, value, 3, 8);
    out[3] = __shfl_xor_sync(FULL, value, 9);
    const double halves = __shfl_xor_sync(FULL, 0.5 * value, 1);
    out[4] = static_cast<u32>(2 * halves);
    const u64 wide = __shfl_sync(FULL, static_cast<u64>(value) << 33, static_cast<int>(31 - lane));
    out[5] = static_cast<u32>(wide >> 33);
    out[6] = __shfl_xor_sync(FULL, value, 8, 8);
    out[7] = __shfl_sync(0xffffu << (lane & 16), value, static_cast<int>(lane ^ 16));
}

LANEPACK_KERNEL(selftest_vote, 32, 1, SelfArguments) {
    const u32 lane = threadIdx.x, value = args.in[lane];
    u32* out = args.out + lane * 8;
    out[0] = __ballot_sync(FULL, value & 1);
    out[1] = static_cast<u32>(__any_sync(FULL, value == 77)) | static_cast<u32>(__all_sync(FULL, value < 100)) << 1;
    out[2] = __match_any_sync(FULL, value % 5);
    out[3] = __reduce_add_sync(FULL, value);
    out[4] = __reduce_max_sync(FULL, value) << 16 | __reduce_min_sync(FULL, value);
    out[5] = static_cast<u32>(__reduce_min_sync(FULL, static_cast<int>(value) - 50));
    out[6] = __reduce_and_sync(FULL, value | 64) ^ __reduce_xor_sync(FULL, value);
    int same = 0;
    out[7] = __match_all_sync(FULL, value >> 31, &same) + static_cast<u32>(same);
}

// A warp parts, each half exchanges on its own, and meets again; the odd lanes
// of it leave early, the others go on among themselves.
LANEPACK_KERNEL(selftest_divergence, 40, 1, SelfArguments) {
    const u32 lane = threadIdx.x;
    u32 sum = lane;
    if (lane < 16) {
        for (int step = 1; step < 16; step *= 2) sum += __shfl_xor_sync(0xffffu, sum, step);
    } else if (lane < 32) {
        sum = __reduce_add_sync(0xffff0000u, sum * 2);
    }
    __syncwarp();
    sum += __shfl_sync(FULL, sum, 0);
    args.out[lane] = sum;
    if (lane % 2 != 0) return;
    const u32 even = __ballot_sync(0x55555555u, 1);
    __syncthreads();
    args.out[lane] += even;
}

// Sums 128 values per block in shared memory. mode 1 leaves the barrier out.
LANEPACK_KERNEL(selftest_sum, THREADS, 1, SelfArguments) {
    LANEPACK_SHARED(u32[THREADS], part);
    const u32 thread = threadIdx.x;
    part[thread] = args.in[global_thread()];
    for (u32 step = THREADS / 2; step != 0; step /= 2) {
        if (args.mode == 0) __syncthreads();
        if (thread < step) part[thread] += part[thread + step];
    }
    if (thread == 0) args.out[blockIdx.x] = part[0];
}

LANEPACK_KERNEL(selftest_barrier, THREADS, 1, SelfArguments) {
    if (threadIdx.x >= 100) return;
    const u32 value = args.in[threadIdx.x];
    u32* out = args.out + threadIdx.x * 4;
    out[0] = static_cast<u32>(__syncthreads_count(value < 20));
    out[1] = static_cast<u32>(__syncthreads_and(value < 20));
    out[2] = static_cast<u32>(__syncthreads_or(value < 20));
    out[3] = static_cast<u32>(__syncthreads_count(value >= 20));
}

LANEPACK_KERNEL(selftest_atomics, THREADS, 1, SelfArguments) {
    const u32 thread = global_thread();
    atomicAdd(args.out, 1u);
    atomicMax(args.out + 1, thread);
    atomicMin(args.out + 2, thread);
    atomicXor(args.out + 3, thread);
    atomicAdd(reinterpret_cast<u64*>(args.out + 4), 1ull << 32 | 1);
    for (u32 before = args.out[6], seen; (seen = atomicCAS(args.out + 6, before, before + 2)) != before;) before = seen;
    atomicOr(args.out + 7, 1u << thread % 32);
}

// Shared variables as found: unwritten, at places of their own, aligned to their
// types and no more.
LANEPACK_KERNEL(selftest_shared, 32, 1, SelfArguments) {
    LANEPACK_SHARED(u8[7], bytes);
    LANEPACK_SHARED(u32[9], words);
    LANEPACK_SHARED(ulonglong2, wide);
    if (threadIdx.x != 0) return;
    args.out[0] = bytes[6] | static_cast<u32>(words[8] == 0xa5a5a5a5u) << 8 | static_cast<u32>(wide.y >> 48) << 16;
    args.out[1] = static_cast<u32>(reinterpret_cast<u64>(bytes) % 2);
    args.out[2] = static_cast<u32>(reinterpret_cast<u64>(words) % 8);
    args.out[3] = static_cast<u32>(reinterpret_cast<u64>(&wide) % 32);
    bytes[6] = 1;
    words[8] = 2;
    wide.y = 3;
}

// Integer and float functions, one result each.
LANEPACK_KERNEL(selftest_intrinsics, 1, 1, SelfArguments) {
    const u32 x = args.in[0], y = args.in[1];
    u32* out = args.out;
    out[0] = static_cast<u32>(__popc(x) << 24 | __clz(x) << 16 | __ffs(y) << 8 | __clz(0));
    out[1] = __brev(x);
    out[2] = __funnelshift_l(x, y, 12);
    out[3] = __funnelshift_r(x, y, 12);
    out[4] = __byte_perm(x, y, 0x3b74);
    out[5] = __vadd4(x, y);
    out[6] = __vcmpgtu4(x, y);
    out[7] = __vcmplts2(x, y);
    out[8] = __float_as_uint(__fmul_rn(1.5f, 2.0f));
    out[9] = static_cast<u32>(__double2int_rn(2.5)) | static_cast<u32>(__float2int_rz(1e20f) == 0x7fffffff) << 8 |
             static_cast<u32>(__double2ll_rn(-1e30) == __double2ll_rn(NAN)) << 9;
    out[10] = __umulhi(x, y);
    out[11] = static_cast<u32>(min(static_cast<int>(y), 7)) | max(x, 3u) << 8;
    const u64 wide = static_cast<u64>(x) << 32 | y;
    out[12] = static_cast<u32>(__clzll(wide) << 16 | __ffsll(static_cast<u64>(y) << 32) << 8 | __popcll(wide));
    out[13] = static_cast<u32>(__brevll(wide) >> 32);
    out[14] = __vsub2(x, y);
    out[15] = static_cast<u32>(__double_as_longlong(__dmul_rn(3.0, 0.25)) >> 32);
}

// What cannot go on: each mode another reason.
LANEPACK_KERNEL(selftest_stuck, 64, 1, SelfArguments) {
    const u32 lane = threadIdx.x;
    if (args.mode == 0) {
        // Two collectives, neither of which gets all lanes.
        if (lane < 16) {
            __shfl_sync(FULL, lane, 0);
        } else {
            __syncwarp();
        }
    } else if (args.mode == 1) {
        if (lane == 3) return;
        __ballot_sync(FULL, 1);
    } else if (args.mode == 2) {
        // A warp waits for lanes that wait at the barrier.
        if (lane != 40) __syncthreads();
        if (lane == 40) __any_sync(FULL, 1);
    } else if (args.mode == 3) {
        if (lane < 32) {
            __syncthreads();
        } else {
            __syncthreads();
        }
    } else if (args.mode == 4) {
        __syncwarp(1);
    } else {
        LANEPACK_SHARED(u8[(48 << 10) + 1], large);
        large[lane] = 0;
    }
}

// What only the sanitizers can see.
LANEPACK_KERNEL(selftest_wild, 32, 1, SelfArguments) {
    LANEPACK_SHARED(u32[33], before);
    LANEPACK_SHARED(u32[33], after);
    before[threadIdx.x] = 0;
    after[threadIdx.x] = 0;
    if (args.mode == 0) args.out[args.n + threadIdx.x] = 0;
    u32* words = before;
    if (args.mode == 1) words[args.n] = 1;
    if (args.mode == 2) args.out[0] = reinterpret_cast<const uint4*>(args.in + 1)->x;
    if (args.mode == 3) args.out[0] = args.in[args.n];
}

// Spins on a flag of another lane, and lets it run.
LANEPACK_KERNEL(selftest_spin, 32, 1, SelfArguments) {
    LANEPACK_SHARED(u32, flag);
    if (threadIdx.x == 0) atomicExch(&flag, 0u);
    __syncwarp();
    if (threadIdx.x == 7) atomicExch(&flag, 1u);
    while (atomicAdd(&flag, 0u) == 0) __nanosleep(20);
    args.out[threadIdx.x] = flag;
}

// For timing: n collectives, mode 1: n barriers.
LANEPACK_KERNEL(selftest_spend, THREADS, 1, SelfArguments) {
    u32 value = threadIdx.x;
    for (u32 round = 0; round < args.n; round++) {
        if (args.mode == 1) {
            __syncthreads();
        } else {
            value += __shfl_xor_sync(FULL, value, 1);
        }
    }
    if (threadIdx.x == 0) args.out[blockIdx.x] = value;
}

}  // namespace lanepack
