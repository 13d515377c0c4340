// A kernel of a user: the sum of the values above a bound of a Float64 column
// that is compressed with ALP, decoded in registers and never written anywhere.
//
// A vector of doubles has 16 lanes of 64 rows, so half a warp takes a vector.
#include "lanepack/alp.cuh"

struct SumAboveArguments {
    const lanepack::Node* nodes;  // one for each chunk
    double* sum;                  // zero before the launch
    double bound;
    lanepack::u32 blocks_per_node;
    lanepack::u32 zero;
};

LANEPACK_KERNEL(sum_above, 256, 1, SumAboveArguments) {
    using namespace lanepack;
    constexpr u32 VECTORS = 256 / 16;  // of a block
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part * VECTORS + threadIdx.x / 16;
    const u32 lane = threadIdx.x % 16;
    double sum = 0;
    if (vector * VECTOR < node.rows) {
        const u32 rows = node.rows - vector * VECTOR;  // the last vector may be short
        AlpLane<u64> values(node, vector, lane);
        for (u32 row = 0; row < 64; ++row) {
            const double value = __longlong_as_double(static_cast<i64>(values.next()));
            if (index(row, lane) < rows && value > args.bound) sum += value;
        }
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(FULL, sum, distance);
    }
    if (threadIdx.x % WARP == 0) atomicAdd(args.sum, sum);
}
