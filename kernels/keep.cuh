// What kernels that keep some rows share: which vectors a warp takes, and where their kept
// rows go.
#pragma once

#include "arguments.cuh"
#include "lanepack/kept.cuh"
#include "lanepack/strings.cuh"
#include "lanepack/values.cuh"
#include "launch.cuh"

namespace lanepack {

// The bits of a vector's rows in the bitmap.
LANEPACK_DEVICE VectorBits kept_bits(const KeepArguments& args, const Node& node, u32 vector) {
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    return {args.bitmap, node.at + static_cast<u64>(vector) * VECTOR, rows, args.rows};
}

// A warp takes `args.each` vectors: calls `keep(node, vector, kept, place)` for those with
// kept rows, of which the first goes to `place`.
template <class Keep>
LANEPACK_DEVICE void keep_vectors(const KeepArguments& args, const Keep& keep) {
    const u32 chunk = blockIdx.x >> args.node_shift;
    const Node& node = args.nodes[chunk];
    const u32 part = blockIdx.x & ((1u << args.node_shift) - 1);
    const u32 first = (part * (KEEP_THREADS / WARP) + warp_in_block()) * args.each;
    const u32 end = min(first + args.each, vectors_of(node));
#pragma unroll 1
    for (u32 vector = first; vector < end; vector++) {
        const KeptRows kept(kept_bits(args, node, vector));
        if (kept.count == 0) continue;
        keep(node, vector, kept, args.places[chunk] + args.before[chunk * args.stride + vector]);
    }
}

// The lengths of a vector's values.
struct KeptLengths {
    VectorValues<u32, LENGTH_ENCODINGS | 1u << DICT> lengths;
    Exceptions<u32> exceptions;
    u64 bytes;
    u32 constant;
    bool is_constant;

    LANEPACK_DEVICE KeptLengths(const Node& strings, const Node& node, u32 vector)
        : bytes(value_start(strings, vector + 1) - value_start(strings, vector)),
          constant(static_cast<u32>(strings.size)),
          is_constant(strings.encoding == CONSTANT) {
        exceptions = exceptional_lengths(node, vector);
        if (!is_constant) lengths = {node, vector};
    }

    // Of the thread's string `i`.
    LANEPACK_DEVICE u32 of(u32 i) const {
        if (is_constant) return constant;
        u32 length;
        if (exceptions.count > 0 && exceptions.find(slot_of_length(threadIdx.x % WARP, i), length)) return length;
        return lengths.at(step_position(threadIdx.x % WARP) + i);
    }

    // The bytes of those of the thread's strings that a word has.
    LANEPACK_DEVICE u64 sum(u32 word) const {
        u64 sum = 0;
#pragma unroll 1
        for (; word != 0; word &= word - 1) sum += of(static_cast<u32>(__ffs(static_cast<int>(word))) - 1);
        return sum;
    }

    // Whether the vector can have so many bytes: lengths may say more.
    LANEPACK_DEVICE bool hold(u64 sum) const { return sum <= bytes; }
};

}  // namespace lanepack
