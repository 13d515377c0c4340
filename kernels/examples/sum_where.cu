// A kernel of a user (examples/fused_scan.rs): sum(price) where quantity < bound, over two
// compressed columns that are decoded in registers and never written anywhere.
//
// Vectors of 64-bit values have 16 lanes of 64 rows, so half a warp takes a vector: a thread
// marks the rows of its lane whose quantity passes, then adds up their prices.
#include "lanepack/alp.cuh"
#include "lanepack/ffor.cuh"

using namespace lanepack;

struct SumWhere {
    // Of each column one node for each chunk, and one for the nulls in it.
    const Node* quantity;
    const Node* quantity_validity;
    const Node* price;
    const Node* price_validity;
    // Zeros before the launch.
    double* sum;
    u64* count;
    i64 bound;
    u64 blocks_per_node;
};

constexpr u32 THREADS = 256;

// A lane of a vector, and the rows of that: the last vector of a chunk may be short.
struct Place {
    u32 vector, lane, rows;
};

// Gives `take` each value of a lane and its row: of chunks that `Lane` unpacks, that hold
// one value so often, or that are stored plain.
template <class Lane, class Take>
LANEPACK_DEVICE void each_value(const Node& node, u32 packed, Place place, Take take) {
    if (node.encoding == packed) {
        Lane values(node, place.vector, place.lane);
        for (u32 row = 0; row < ROWS<u64>; row++) {
            const u64 value = values.next();
            if (index(row, place.lane) < place.rows) take(row, value);
        }
    } else {
        const u64* plain = reinterpret_cast<const u64*>(node.buffer[0]) + place.vector * VECTOR;
        for (u32 row = 0; row < ROWS<u64>; row++) {
            const u32 position = index(row, place.lane);
            if (position < place.rows) take(row, node.encoding == CONSTANT ? node.parameter : plain[position]);
        }
    }
}

// The rows of a lane that are not null, a bit each.
LANEPACK_DEVICE u64 valid_rows(const Node& node, Place place) {
    if (node.encoding == CONSTANT) return node.parameter != 0 ? ~u64{0} : 0;
    u64 valid = 0;
    for (u32 row = 0; row < ROWS<u64>; row++) {
        const u32 position = index(row, place.lane);
        if (position >= place.rows) continue;
        const u32 byte = node.buffer[0][(place.vector * VECTOR + position) / 8];
        valid |= static_cast<u64>(byte >> position % 8 & 1) << row;
    }
    return valid;
}

LANEPACK_KERNEL(sum_where, THREADS, 1, SumWhere) {
    const Part part = part_of_block(static_cast<u32>(args.blocks_per_node));
    const Node& quantity = args.quantity[part.node];
    const Node& price = args.price[part.node];
    const u32 thread = part.part * THREADS + threadIdx.x;
    const u32 vector = thread / LANES<u64>;
    double sum = 0;
    u32 count = 0;
    if (vector < vectors_of(price)) {
        const Place place = {vector, thread % LANES<u64>, min(price.rows - vector * VECTOR, VECTOR)};
        u64 kept = 0;
        each_value<FforLane<u64>>(quantity, FFOR, place, [&](u32 row, u64 value) {
            kept |= static_cast<u64>(static_cast<i64>(value) < args.bound) << row;
        });
        kept &= valid_rows(args.quantity_validity[part.node], place);
        kept &= valid_rows(args.price_validity[part.node], place);
        each_value<AlpLane<u64>>(price, ALP, place, [&](u32 row, u64 bits) {
            if ((kept >> row & 1) != 0) sum += __longlong_as_double(static_cast<i64>(bits));
        });
        count = static_cast<u32>(__popcll(kept));
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(FULL, sum, distance);
    }
    count = __reduce_add_sync(FULL, count);
    if (threadIdx.x % WARP == 0) {
        atomicAdd(args.sum, sum);
        atomicAdd(args.count, static_cast<u64>(count));
    }
}
