// Groups of a hash table (GroupSlots of lanepack/groups.cuh) without the empty slots between them.
//
//   list_groups     the slots that have a group, in any order, and how many these are
//   gather_groups   their numbers and words, one array behind the other
#include "arguments.cuh"
#include "lanepack/groups.cuh"
#include "launch.cuh"

namespace lanepack {

LANEPACK_KERNEL(list_groups, LIST_GROUPS_THREADS, 1, ListGroupsArguments) {
    const u32 slot = blockIdx.x * LIST_GROUPS_THREADS + threadIdx.x;
    if (slot >= args.slot_count || __ldg(args.numbers + slot) == NO_GROUP) return;
    args.slots[atomicAdd(args.count, 1u)] = slot;
}

LANEPACK_KERNEL(gather_groups, GATHER_GROUPS_THREADS, 1, GatherGroupsArguments) {
    const u32 group = blockIdx.x * GATHER_GROUPS_THREADS + threadIdx.x;
    if (group >= args.count) return;
    const u32 slot = __ldg(args.slots + group);
    args.out[group] = __ldg(args.numbers + slot);
    for (u32 word = 0; word < args.words; word++) {
        const u64 value = __ldg(args.table + static_cast<u64>(word) * args.slot_count + slot);
        args.out[static_cast<u64>(word + 1) * args.count + group] = value;
    }
}

}  // namespace lanepack
