// 64-bit limbs of 128- and 256-bit values to memory: limb_ffor, limb_plain, limb_constant.
//
//   out   | limb 0 | limb 1 | .. | limb 0 | limb 1 | ..      a value's limbs are neighbours
//
// A launch writes one limb of every value, the last launch also those above it,
// which repeat its sign: 128-bit values of one limb are stored 16 bytes at once, at 92 %
// of a device-to-device copy. One limb of two takes half of every 32 bytes: 31 %.
#include "arguments.cuh"
#include "unit.cuh"

namespace lanepack {

// limb_*.
struct LimbArguments {
    const Node* nodes;
    u64* out;
    u32 blocks_per_node;
    // Limbs of a value (2 or 4), which one this is, and how many this launch
    // writes: 1, or for the last limb also all above it, with its sign.
    u32 limbs;
    u32 limb;
    u32 fill;
};

struct StoreLimbs {
    u64* out;
    u32 rows;
    u32 limbs;
    u32 limb;
    u32 fill;

    LANEPACK_DEVICE StoreLimbs(const LimbArguments& args, const Node& node) {
        out = args.out + node.at * args.limbs;
        rows = node.rows;
        limbs = args.limbs;
        limb = args.limb;
        fill = args.fill;
    }

    LANEPACK_DEVICE void value(u32 row, u64 value) const {
        if (row >= rows) return;
        u64* to = out + static_cast<u64>(row) * limbs + limb;
        const u64 sign = static_cast<u64>(static_cast<i64>(value) >> 63);
        u32 i = 0;
        // Values begin at multiples of 16 bytes, so even limbs do.
        if (limb % 2 != 0) {
            to[0] = value;
            i = 1;
        }
        for (; i + 2 <= fill; i += 2) {
            __stcs(reinterpret_cast<ulonglong2*>(to + i), ulonglong2{i == 0 ? value : sign, sign});
        }
        if (i < fill) to[i] = i == 0 ? value : sign;
    }

    // Pieces are never stored as they are.
    LANEPACK_DEVICE bool is_whole(u32) const { return false; }
    LANEPACK_DEVICE void whole(u32, uint4) const {}

    // All threads of a warp together, with pieces that follow each other: threads
    // exchange values so that neighbours store neighbours (48 % without).
    LANEPACK_DEVICE void operator()(u32 row, uint4 piece) const {
        const u32 lane = threadIdx.x % WARP;
        const u64 even = join(piece.x, piece.y);
        const u64 odd = join(piece.z, piece.w);
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            const u32 from = (i * WARP + lane) / 2;
            const u64 a = __shfl_sync(FULL, even, from);
            const u64 b = __shfl_sync(FULL, odd, from);
            value(row - lane * 2 + i * WARP + lane, lane % 2 == 0 ? a : b);
        }
    }
};

LANEPACK_KERNEL(limb_ffor, UNIT_THREADS, 16, LimbArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_ffor_unit<u64>(node, part.part, {args.nodes, args.blocks_per_node}, StoreLimbs(args, node));
}

// A thread writes the limbs of COPY_BYTES / 8 / COPY_THREADS values.
template <class Value>
LANEPACK_DEVICE void limb_copy(const LimbArguments& args, const Value& value_at) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const StoreLimbs store(args, node);
#pragma unroll
    for (u32 i = 0; i < COPY_BYTES / 8 / COPY_THREADS; i++) {
        const u32 row = part.part * (COPY_BYTES / 8) + i * COPY_THREADS + threadIdx.x;
        if (row < node.rows) store.value(row, value_at(node, row));
    }
}

LANEPACK_KERNEL(limb_plain, COPY_THREADS, 1, LimbArguments) {
    limb_copy(args, [](const Node& node, u32 row) {
        return __ldcs(reinterpret_cast<const u64*>(node.buffer[0]) + row);
    });
}

LANEPACK_KERNEL(limb_constant, COPY_THREADS, 1, LimbArguments) {
    limb_copy(args, [](const Node& node, u32) { return node.parameter; });
}

}  // namespace lanepack
