// Bytes of strings from FSST codes: lanepack/fsst.cuh. Those of text are checked on their way:
// utf8_codes.cuh.
//
// fsst_decode: a warp decodes up to 16 tiles, so a block 32,768 codes with one table.
// With more blocks a node than that takes, a warp has fewer tiles, but at least 4:
// a lone chunk then takes 13 us on an NVIDIA H200 instead of 31.
#include "arguments.cuh"
#include "lanepack/fsst.cuh"
#include "launch.cuh"
#include "utf8_codes.cuh"

namespace lanepack {

// Blocks of a multiprocessor: with seven, threads have 72 registers, too few for other architectures.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
constexpr u32 FSST_BLOCKS = 6;
#else
constexpr u32 FSST_BLOCKS = 7;
#endif

LANEPACK_KERNEL(fsst_decode, FSST_THREADS, FSST_BLOCKS, FsstArguments) {
    constexpr u32 WARPS = FSST_THREADS / WARP;
    constexpr u32 MOST = FSST_CODES / TILE / WARPS;
    constexpr u32 LEAST = FSST_CODES_LEAST / TILE / WARPS;
    static_assert(MOST < WARP, "a lane for every tile and one for the end");
    LANEPACK_SHARED(SymbolTable, table);
    LANEPACK_SHARED(uint4[WARPS * (STAGE / 16)], stages);
    LANEPACK_SHARED(u32[WARPS * TextCheck::QUEUE], queues);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u64 tiles = (node.size + TILE - 1) / TILE;
    const u64 warps = static_cast<u64>(args.blocks_per_node) * WARPS;
    const u32 count = min(max(static_cast<u32>((tiles + warps - 1) / warps), LEAST), MOST);
    if (static_cast<u64>(part.part) * WARPS * count >= tiles) return;
    table.load(node.buffer[0]);
    __syncthreads();
    const u32 warp = warp_in_block();
    const u32 first = (part.part * WARPS + warp) * count;
    uint4* stage = stages + warp * (STAGE / 16);
    u32 fault;
    if (args.offsets == nullptr) {
        fault = decode_tiles(table, node, first, count, args.out, stage);
    } else {
        const u64 row = args.nodes[args.node_count + part.node].at;
        const RowOffsets rows{args.offsets + row * args.offset_bytes, args.offset_bytes, node.rows};
        u32* queue = queues + warp * TextCheck::QUEUE;
        fault = decode_tiles(table, node, first, count, args.out, stage,
                             [&](u64 at) { return TextCheck(args.out, at, rows, queue, first == 0); });
    }
    if (threadIdx.x % WARP == 0 && fault != 0) report(args.status, part.node, static_cast<Fault>(fault));
}

}  // namespace lanepack
