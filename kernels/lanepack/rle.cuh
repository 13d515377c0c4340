// Runs on the device: which run each slot of a vector belongs to.
//
//   buffer 0   the number of the first run of each vector
//   buffer 1   values of the runs, as they are
//   buffer 2   u16 starts of the runs, as they are
//   size       runs
//
//   bits       1 0 0 0 1 0 1 0 0 ...    a bit for each slot where a run begins, the first always
//   slot i     first run + bits before and at i - 1
//
// Whatever the starts are, slots get runs of their own vector.
#pragma once

#include "lanes.cuh"

namespace lanepack {

// The runs of a vector: shared memory of a warp.
struct RunBits {
    u32 bits[VECTOR / 32];
    // Bits before each word, less one.
    u32 before[VECTOR / 32];

    // Finds them; whether the starts are as they should be. All threads of a warp.
    LANEPACK_DEVICE bool load(const Node& node, u32 vector) {
        const u32 thread = threadIdx.x % WARP;
        const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
        const u32* firsts = reinterpret_cast<const u32*>(node.buffer[0]);
        const u32 first = __ldg(firsts + vector);
        const u32 end = vector + 1 < vectors_of(node) ? __ldg(firsts + vector + 1) : static_cast<u32>(node.size);
        const u16* starts = reinterpret_cast<const u16*>(node.buffer[2]);
        // Others may still read the runs before these.
        __syncwarp();
        bits[thread] = thread == 0 ? 1 : 0;
        __syncwarp();
        bool is_sound = __ldg(starts + first) == 0;
        for (u32 run = first + 1 + thread; run < end; run += WARP) {
            const u32 start = __ldg(starts + run);
            is_sound &= start > __ldg(starts + run - 1) && start < rows;
            atomicOr(&bits[start / 32 % (VECTOR / 32)], 1u << start % 32);
        }
        __syncwarp();
        const u32 own = static_cast<u32>(__popc(bits[thread]));
        before[thread] = first + sum_upto(own) - own - 1;
        __syncwarp();
        return __all_sync(FULL, is_sound);
    }

    // The run of a slot.
    LANEPACK_DEVICE u32 run_of(u32 slot) const {
        const u32 upto = bits[slot / 32] << (31 - slot % 32);
        return before[slot / 32] + static_cast<u32>(__popc(upto));
    }
};

}  // namespace lanepack
