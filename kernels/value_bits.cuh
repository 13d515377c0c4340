// A bit for each value of plain nodes, of dictionaries for example.
#pragma once

#include "arguments.cuh"
#include "launch.cuh"

namespace lanepack {

// Sets the bit of each value of the block's node that `holds(node, row)` is true for, and clears the others:
// from bit number `at` of the node on, which is a multiple of 32.
template <class Arguments, class Holds>
LANEPACK_DEVICE void put_value_bits(const Arguments& args, const Holds& holds) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node node = args.nodes[part.node];
    const u32 from = part.part * PROBE_ROWS;
    for (u32 row = from + threadIdx.x; row < from + PROBE_ROWS; row += PROBE_THREADS) {
        const u32 word = __ballot_sync(FULL, row < node.rows && holds(node, row));
        if (row % WARP == 0 && row < node.rows) args.out[(node.at + row) / 32] = word;
    }
}

}  // namespace lanepack
