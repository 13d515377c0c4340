// Keys of plain values, looked up (lanepack/lookup.cuh): of dictionaries, whose values are asked before
// their codes are, and of columns where no kernel is compiled for a query.
//
//   probe_keys    a bit for each value, whether a lookup has it and its code passes
#include "arguments.cuh"
#include "launch.cuh"

namespace lanepack {

// The key of row `row`.
LANEPACK_DEVICE i64 key_at(const ProbeArguments& args, const Node& node, u32 row) {
    const u8* values = node.buffer[0];
    switch (args.value_bytes) {
        case 1: return args.is_signed != 0 ? i64{static_cast<i8>(__ldg(values + row))} : i64{__ldg(values + row)};
        case 2: {
            const u16 value = __ldg(reinterpret_cast<const u16*>(values) + row);
            return args.is_signed != 0 ? i64{static_cast<i16>(value)} : i64{value};
        }
        case 4: {
            const u32 value = __ldg(reinterpret_cast<const u32*>(values) + row);
            return args.is_signed != 0 ? i64{static_cast<i32>(value)} : i64{value};
        }
        default: return static_cast<i64>(__ldg(reinterpret_cast<const u64*>(values) + row));
    }
}

LANEPACK_DEVICE u64 entry_at(const ProbeArguments& args, u64 slot) {
    const u8* entries = args.is_hashed != 0 ? args.hashed.entries : args.dense.entries;
    switch (args.entry_bytes) {
        case 0: return 0;
        case 1: return __ldg(entries + slot);
        case 2: return __ldg(reinterpret_cast<const u16*>(entries) + slot);
        case 4: return __ldg(reinterpret_cast<const u32*>(entries) + slot);
        default: return __ldg(reinterpret_cast<const u64*>(entries) + slot);
    }
}

LANEPACK_DEVICE bool passes(const ProbeArguments& args, i64 key) {
    u64 slot;
    const bool has = args.is_hashed != 0 ? HashedLookup{args.hashed}.find(key, slot)
                                         : DenseLookup<u64>{args.dense}.find(key, slot);
    if (!has || args.set == nullptr) return has;
    return has_code(args.set, CodeField{args.shift, args.mask}.of(entry_at(args, slot)));
}

LANEPACK_KERNEL(probe_keys, PROBE_THREADS, 1, ProbeArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node node = args.nodes[part.node];
    const u32 from = part.part * PROBE_ROWS;
    for (u32 row = from + threadIdx.x; row < from + PROBE_ROWS; row += PROBE_THREADS) {
        const bool found = row < node.rows && passes(args, key_at(args, node, row));
        const u32 word = __ballot_sync(FULL, found);
        if (row % WARP == 0 && row < node.rows) args.out[(node.at + row) / 32] = word;
    }
}

}  // namespace lanepack
