// Exceptions in selections: which of a thread's values they are, and what they change.
//
//   slot = lane * ROWS + row  ->  thread and step  ->  atomicOr of a bit in the thread's word
#pragma once

#include "exceptions.cuh"
#include "order.cuh"
#include "steps.cuh"

namespace lanepack {

// Shared memory of a warp, which may serve one column after the other.
struct Patches {
    u32 selected[WARP];
    u32 dropped[WARP];
};

// Judges the exceptions of a vector instead of what is packed in their slots.
// `holds(key)` says whether one is selected, given its value in the order domain of `order`.
template <class T, class Holds>
LANEPACK_DEVICE u32 patch_selection(u32 selection, const Exceptions<T>& exceptions, u32 order,
                                    const Holds& holds, Patches& patches) {
    if (exceptions.count == 0) return selection;
    const u32 thread = threadIdx.x % WARP;
    patches.selected[thread] = 0;
    patches.dropped[thread] = 0;
    __syncwarp();
    for (u32 number = thread; number < exceptions.count; number += WARP) {
        const u32 slot = __ldg(exceptions.slots + number);
        const bool is_inside = holds(ordered(__ldg(exceptions.values + number), order));
        u32 owner;
        u32 step;
        thread_and_step<T>(slot % ROWS<T>, slot / ROWS<T>, owner, step);
        atomicOr((is_inside ? patches.selected : patches.dropped) + owner, 1u << step);
    }
    __syncwarp();
    return (selection & ~patches.dropped[thread]) | patches.selected[thread];
}

// The steps of a thread's values that are exceptions. All threads of a warp.
template <class T>
LANEPACK_DEVICE u32 exceptional_steps(const Exceptions<T>& exceptions, Patches& patches) {
    return patch_selection(0, exceptions, UNSIGNED, [](T) { return true; }, patches);
}

}  // namespace lanepack
