// A kernel of a user: the sum of the valid values above a bound of a Float64 column,
// decoded in registers and never written anywhere.
//
// A vector of doubles has 16 lanes of 64 rows, so half a warp takes a vector.
#include "lanepack/alp.cuh"

struct SumAboveArguments {
    const lanepack::Node* nodes;     // one for each chunk
    const lanepack::Node* validity;  // one for each chunk
    double* sum;                     // zero before the launch
    double bound;
    lanepack::u32 blocks_per_node;
    lanepack::u32 zero;
};

// Whether a row is valid: a bit, or a constant for all.
LANEPACK_DEVICE bool is_valid(const lanepack::Node& validity, lanepack::u32 row) {
    if (validity.encoding == lanepack::CONSTANT) return validity.parameter != 0;
    return (validity.buffer[0][row / 8] >> row % 8 & 1) != 0;
}

LANEPACK_KERNEL(sum_above, 256, 1, SumAboveArguments) {
    using namespace lanepack;
    constexpr u32 VECTORS = 256 / 16;  // of a block
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const Node& validity = args.validity[part.node];
    const u32 first = (part.part * VECTORS + threadIdx.x / 16) * VECTOR;
    const u32 lane = threadIdx.x % 16;
    double sum = 0;
    auto add = [&](u32 row, u64 bits) {
        const double value = __longlong_as_double(static_cast<i64>(bits));
        if (value > args.bound && is_valid(validity, row)) sum += value;
    };
    if (first < node.rows) {
        const u32 rows = min(node.rows - first, VECTOR);  // the last vector may be short
        if (node.encoding == ALP) {
            AlpLane<u64> values(node, first / VECTOR, lane);
            for (u32 row = 0; row < 64; ++row) {
                const u64 bits = values.next();
                const u32 position = index(row, lane);
                if (position < rows) add(first + position, bits);
            }
        } else {
            // The other two encodings of floats.
            const u64* plain = reinterpret_cast<const u64*>(node.buffer[0]);
            for (u32 position = lane; position < rows; position += 16) {
                add(first + position, node.encoding == CONSTANT ? node.parameter : plain[first + position]);
            }
        }
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(FULL, sum, distance);
    }
    if (threadIdx.x % WARP == 0) atomicAdd(args.sum, sum);
}
