// What kernels that make bitmaps of a column's rows share: which vectors a warp takes,
// what becomes of its verdicts, and of which rows any are wanted.
#pragma once

#include "arguments.cuh"
#include "lanepack/steps.cuh"
#include "launch.cuh"

namespace lanepack {

LANEPACK_DEVICE VectorBits bits_of(const SelectArguments& args, const Node& node, u32 vector) {
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    return {args.out, node.at + static_cast<u64>(vector) * VECTOR, rows, args.rows};
}

// A warp takes `args.each` vectors. `prepare(node, first, count)` is called before them,
// and `test(node, vector, i, live)` gives the word of thread s's step of vector i of these;
// `live` is the word of the rows whose verdicts can change the bitmap.
template <class Prepare, class Test>
LANEPACK_DEVICE void select_rows(const SelectArguments& args, const Prepare& prepare, const Test& test) {
    const u32 chunk = blockIdx.x >> args.node_shift;
    const Node& node = args.nodes[chunk];
    const u32 part = blockIdx.x & ((1u << args.node_shift) - 1);
    const u32 first = (part * (SELECT_THREADS / WARP) + warp_in_block()) * args.each;
    const u32 vectors = vectors_of(node);
    if (first >= vectors) return;
    const u32 count = min(args.each, vectors - first);
    prepare(node, first, count);
    const u32 word = step_word(threadIdx.x % WARP);
#pragma unroll 1
    for (u32 i = 0; i < count; i++) {
        const u32 vector = first + i;
        u32 live = bits_before(word * 32, node.rows - vector * VECTOR);
        if (args.combine != COMBINE_SET) {
            const u32 before = bits_of(args, node, vector).read();
            live &= args.combine == COMBINE_AND ? before : ~before;
            if (!__any_sync(FULL, live != 0)) continue;
        }
        u32 found = test(node, vector, i, live);
        if (args.negate != 0) found = ~found;
        if (args.validity != nullptr) {
            found &= bits_word(args.validity[chunk], vector * (VECTOR / 32) + word);
        }
        // Whole vectors that begin with a word of the bitmap are stored as they are.
        const Node& now = again(node);
        if (args.combine == COMBINE_SET && now.at % 32 == 0 && (vector + 1) * VECTOR <= now.rows) {
            args.out[now.at / 32 + vector * (VECTOR / 32) + word] = found;
            continue;
        }
        const VectorBits bits = bits_of(args, now, vector);
        found &= bits_before(word * 32, bits.rows);
        if (args.combine == COMBINE_AND) found &= bits.read();
        if (args.combine == COMBINE_OR) found |= bits.read();
        bits.write(found);
    }
}

}  // namespace lanepack
