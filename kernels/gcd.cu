// Multiples of a divisor from an offset on, from their quotients to memory: gcd.
//
// Quotients of ffor and pfor are unpacked by the code that unpacks these (unit.cuh), and
// multiplied on their way to memory; others are in memory already, as plain ones.
#include "arguments.cuh"
#include "store.cuh"
#include "unit.cuh"

namespace lanepack {

// A node of quotients that also has the divisor as its `size`, and the offset as its
// `parameter`.
template <class T>
struct Multiply {
    T divisor;
    T offset;

    LANEPACK_DEVICE explicit Multiply(const Node& node)
        : divisor(static_cast<T>(node.size)), offset(static_cast<T>(node.parameter)) {}

    LANEPACK_DEVICE T value(T quotient) const { return offset + divisor * quotient; }

    LANEPACK_DEVICE uint4 piece(uint4 quotients) const {
        if constexpr (sizeof(T) == 8) {
            const u64 x = value(join(quotients.x, quotients.y));
            const u64 y = value(join(quotients.z, quotients.w));
            return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                         static_cast<u32>(y >> 32)};
        } else {
            return uint4{value(quotients.x), value(quotients.y), value(quotients.z), value(quotients.w)};
        }
    }
};

template <class T>
struct StoreMultiples {
    StoreWords<T> words;
    Multiply<T> multiply;

    LANEPACK_DEVICE StoreMultiples(u8* to, const Node& node) : words(to, node), multiply(node) {}

    LANEPACK_DEVICE bool is_whole(u32 row) const { return words.is_whole(row); }
    LANEPACK_DEVICE void whole(u32 row, uint4 piece) const { words.whole(row, multiply.piece(piece)); }
    LANEPACK_DEVICE void operator()(u32 row, uint4 piece) const { words(row, multiply.piece(piece)); }
    LANEPACK_DEVICE void value(u32 row, T quotient) const { words.value(row, multiply.value(quotient)); }
};

template <class T>
LANEPACK_DEVICE void gcd_ffor(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_ffor_unit<T>(node, part.part, {args.nodes, args.blocks_per_node}, StoreMultiples<T>(args.out, node));
}

LANEPACK_KERNEL(gcd_ffor_32, UNIT_THREADS, 16, WordsArguments) { gcd_ffor<u32>(args); }
LANEPACK_KERNEL(gcd_ffor_64, UNIT_THREADS, 16, WordsArguments) { gcd_ffor<u64>(args); }

template <class T>
LANEPACK_DEVICE void gcd_pfor(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_patched_unit<T, PforVector<T>>(node, part.part, {args.nodes, args.blocks_per_node},
                                          StoreMultiples<T>(args.out, node));
}

LANEPACK_KERNEL(gcd_pfor_32, UNIT_THREADS, 18, WordsArguments) { gcd_pfor<u32>(args); }
LANEPACK_KERNEL(gcd_pfor_64, UNIT_THREADS, 18, WordsArguments) { gcd_pfor<u64>(args); }

// A warp writes 32 pieces that follow each other, UNIT_STEPS times.
template <class T>
LANEPACK_DEVICE void gcd_plain(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const StoreMultiples<T> store(args.out, node);
    const uint4* pieces = reinterpret_cast<const uint4*>(node.buffer[0]);
#pragma unroll
    for (u32 i = 0; i < UNIT_STEPS; i++) {
        const u32 piece = part.part * (UNIT_BYTES / 16) + i * UNIT_THREADS + threadIdx.x;
        // Buffers are padded to 64 bytes, so pieces can be read whole.
        const bool is_there = piece * PIECE<T> < node.rows;
        store(piece * PIECE<T>, is_there ? __ldcs(pieces + piece) : uint4{0, 0, 0, 0});
    }
}

LANEPACK_KERNEL(gcd_plain_32, UNIT_THREADS, 1, WordsArguments) { gcd_plain<u32>(args); }
LANEPACK_KERNEL(gcd_plain_64, UNIT_THREADS, 1, WordsArguments) { gcd_plain<u64>(args); }

}  // namespace lanepack
