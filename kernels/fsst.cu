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

LANEPACK_KERNEL(fsst_decode, FSST_THREADS, 5, FsstArguments) {
    constexpr u32 WARPS = FSST_THREADS / WARP;
    constexpr u32 MOST = FSST_CODES / TILE / WARPS;
    constexpr u32 LEAST = FSST_CODES_LEAST / TILE / WARPS;
    static_assert(MOST < WARP, "a lane for every tile and one for the end");
    LANEPACK_SHARED(SymbolTable, table);
    LANEPACK_SHARED(uint4[WARPS * (STAGE / 16)], stages);
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
        NoCheck check;
        fault = decode_tiles(table, node, first, count, args.out, stage, check);
    } else {
        const u64 row = args.nodes[args.node_count + part.node].at;
        const RowOffsets rows{args.offsets + row * args.offset_bytes, args.offset_bytes, node.rows};
        TextCheck check(args.out, rows, first == 0);
        fault = decode_tiles(table, node, first, count, args.out, stage, check);
        if (__any_sync(FULL, check.is_cut)) fault = fault == 0 ? FAULT_CHARACTER : fault;
        if (__any_sync(FULL, check.is_wrong)) fault = fault == 0 || fault == FAULT_CHARACTER ? FAULT_UTF8 : fault;
    }
    if (threadIdx.x % WARP == 0 && fault != 0) report(args.status, part.node, static_cast<Fault>(fault));
}

}  // namespace lanepack
