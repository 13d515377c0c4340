// The device library's iterators, for src/engine/tests.rs: lanes of every type, and
// strings value by value.
#include "lanepack/alp.cuh"
#include "lanepack/ffor.cuh"
#include "lanepack/fsst.cuh"

namespace lanepack {

struct LanesArguments {
    const Node* nodes;
    u8* out;
};

// A block takes a node, a thread every 32nd lane of its vectors.
template <class T, class Lane>
LANEPACK_DEVICE void write_lanes(const LanesArguments& args) {
    const Node& node = args.nodes[blockIdx.x];
    T* out = reinterpret_cast<T*>(args.out) + node.at;
    for (u32 vector = 0; vector < vectors_of(node); ++vector) {
        for (u32 lane = threadIdx.x; lane < LANES<T>; lane += WARP) {
            Lane values(node, vector, lane);
            for (u32 row = 0; row < ROWS<T>; ++row) {
                const u32 position = vector * VECTOR + index(row, lane);
                const T value = values.next();
                if (position < node.rows) out[position] = value;
            }
        }
    }
}

LANEPACK_KERNEL(iterate_ffor_8, 32, 1, LanesArguments) { write_lanes<u8, FforLane<u8>>(args); }
LANEPACK_KERNEL(iterate_ffor_16, 32, 1, LanesArguments) { write_lanes<u16, FforLane<u16>>(args); }
LANEPACK_KERNEL(iterate_ffor_32, 32, 1, LanesArguments) { write_lanes<u32, FforLane<u32>>(args); }
LANEPACK_KERNEL(iterate_ffor_64, 32, 1, LanesArguments) { write_lanes<u64, FforLane<u64>>(args); }
LANEPACK_KERNEL(iterate_alp_32, 32, 1, LanesArguments) { write_lanes<u32, AlpLane<u32>>(args); }
LANEPACK_KERNEL(iterate_alp_64, 32, 1, LanesArguments) { write_lanes<u64, AlpLane<u64>>(args); }

// Where the codes and the bytes of a value begin, and how many they are.
struct ValuePlace {
    u32 codes_at;
    u32 codes;
    u32 bytes_at;
    u32 bytes;
};

struct ValuesArguments {
    const Node* node;
    const ValuePlace* places;
    u8* out;
    // Values that did not decode to their length.
    u32* wrong;
    u32 count;
    u32 zero;
};

LANEPACK_KERNEL(iterate_fsst, 64, 1, ValuesArguments) {
    LANEPACK_SHARED(SymbolTable, table);
    table.load(args.node->buffer[0]);
    __syncthreads();
    for (u32 value = threadIdx.x; value < args.count; value += 64) {
        const ValuePlace place = args.places[value];
        FsstValue pieces(table, args.node->buffer[1] + place.codes_at, place.codes);
        u32 written = 0;
        for (Piece piece; pieces.next(piece);) {
            for (u32 i = 0; i < piece.length && written < place.bytes; ++i, ++written) {
                args.out[place.bytes_at + written] = static_cast<u8>(piece.word >> 8 * i);
            }
        }
        if (!pieces.valid() || written != place.bytes) atomicAdd(args.wrong, 1u);
    }
}

}  // namespace lanepack
