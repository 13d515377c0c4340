// Keys of plain values, looked up (lanepack/lookup.cuh): of dictionaries, whose values are asked before
// their codes are, and of columns where no kernel is compiled for a query.
//
//   probe_keys      a bit for each value, whether a lookup has it and its code passes
//   remap_entries   entries with codes that are left of a lookup's columns, without gaps
#include "arguments.cuh"
#include "launch.cuh"
#include "value_bits.cuh"

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

// Entry `slot` of entries of some bytes.
LANEPACK_DEVICE u64 entry_at(const u8* entries, u32 bytes, u64 slot) {
    switch (bytes) {
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
    const u8* entries = args.is_hashed != 0 ? args.hashed.entries : args.dense.entries;
    return has_code(args.set, CodeField{args.shift, args.mask}.of(entry_at(entries, args.entry_bytes, slot)));
}

LANEPACK_KERNEL(probe_keys, PROBE_THREADS, 1, ProbeArguments) {
    put_value_bits(args, [&](const Node& node, u32 row) { return passes(args, key_at(args, node, row)); });
}

LANEPACK_KERNEL(remap_entries, REMAP_THREADS, 1, RemapArguments) {
    const u64 slot = static_cast<u64>(blockIdx.x) * REMAP_THREADS + threadIdx.x;
    if (slot >= args.count) return;
    const u64 from = entry_at(args.from, args.from_bytes, slot);
    u64 to = 0;
    for (u32 i = 0; i < args.field_count; i++) {
        const RemappedField field = args.fields[i];
        to |= static_cast<u64>(__ldg(field.codes + (from >> field.from_shift & field.mask))) << field.to_shift;
    }
    switch (args.to_bytes) {
        case 1: args.to[slot] = static_cast<u8>(to); break;
        case 2: reinterpret_cast<u16*>(args.to)[slot] = static_cast<u16>(to); break;
        case 4: reinterpret_cast<u32*>(args.to)[slot] = static_cast<u32>(to); break;
        default: reinterpret_cast<u64*>(args.to)[slot] = to;
    }
}

}  // namespace lanepack
