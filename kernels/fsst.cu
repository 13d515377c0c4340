// Strings' bytes: codes of fsst, and bytes of plain and constant nodes.
#include "arguments.cuh"
#include "lanepack/fsst.cuh"
#include "launch.cuh"

namespace lanepack {

LANEPACK_KERNEL(fsst_decode, FSST_THREADS, 1, BytesArguments) {
    LANEPACK_SHARED(SymbolTable, table);
    LANEPACK_SHARED(uint4[FSST_THREADS * RING_STRIDE / 16], rings);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 first = part.part * (FSST_CODES / TILE);
    if (static_cast<u64>(first) * TILE >= node.size) return;
    table.load(node.buffer[0]);
    __syncthreads();
    u8* ring = reinterpret_cast<u8*>(rings) + threadIdx.x * RING_STRIDE;
    bool not_ascii = false;
    const u32 fault = decode_tile(table, node, first + threadIdx.x, args.out, ring, not_ascii);
    if (fault != 0) report(args.status, part.node, static_cast<Fault>(fault));
    if (not_ascii) args.not_ascii[part.node] = 1;
}

}  // namespace lanepack
