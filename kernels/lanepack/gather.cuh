// Values of the rows that a bitmap keeps, one behind the other, of columns whose trees no kernel
// is there for: what kernels that are compiled for them are put together from
// (src/scan/device/gather/trees.rs). Vectors without kept rows are not read.
#pragma once

#include "kept.cuh"
#include "readers.cuh"

namespace lanepack {

// Of kernels that are compiled for the trees of a column.
struct GatherArguments {
    // Trees, `nodes_each` nodes apart; `at` of the roots counts rows, row 0 is bit 0.
    const Node* nodes;
    // Which rows are kept.
    u32* bitmap;
    // Kept rows before each vector in its chunk, `stride` numbers a chunk, and before each chunk.
    const u64* before;
    const u64* places;
    // Value i goes to word `each_word` * i; bits go to a bitmap that begins as zeros.
    u8* out;
    u64* status;
    // Rows of the column.
    u64 rows;
    u32 stride;
    u32 nodes_each;
    // 2^node_shift blocks take a chunk, a warp `each` of its vectors.
    u32 node_shift;
    u32 each;
    u32 each_word;
    // Whether all are the sign of the word below.
    u32 is_sign;
};

// Calls `gather(tree, vector, kept, place)` for each vector with kept rows, of which the first goes
// to `place`.
template <class Gather>
LANEPACK_DEVICE void gather_vectors(const GatherArguments& args, const Gather& gather) {
    const u32 chunk = blockIdx.x >> args.node_shift;
    const Node* tree = args.nodes + chunk * args.nodes_each;
    const u32 part = blockIdx.x & ((1u << args.node_shift) - 1);
    const u32 first = (part * (blockDim.x / WARP) + warp_in_block()) * args.each;
    const u32 end = min(first + args.each, vectors_of(*tree));
#pragma unroll 1
    for (u32 vector = first; vector < end; vector++) {
        const u32 rows = min(tree->rows - vector * VECTOR, VECTOR);
        const KeptRows kept(VectorBits(args.bitmap, tree->at + static_cast<u64>(vector) * VECTOR, rows, args.rows));
        if (kept.count == 0) continue;
        gather(tree, vector, kept, args.places[chunk] + args.before[chunk * args.stride + vector]);
    }
}

LANEPACK_DEVICE void report_gathered(const GatherArguments& args, u32 fault) {
    if (fault != 0 && is_first_thread()) report(args.status, blockIdx.x >> args.node_shift, static_cast<Fault>(fault));
}

// Bits: booleans, or which rows are valid.
template <class Reader>
LANEPACK_DEVICE void gather_bits(const GatherArguments& args, typename Reader::State& state, Patches& patches) {
    u32 fault = 0;
    gather_vectors(args, [&](const Node* tree, u32 vector, const KeptRows& kept, u64 place) {
        const u32 word = Reader::bits(tree, vector, state, patches, fault);
        put_kept_bits(reinterpret_cast<u32*>(args.out), word, kept, place);
    });
    report_gathered(args, fault);
}

// Words, or one word of wide values; those that are the sign of the one below find that written.
template <class Reader>
LANEPACK_DEVICE void gather_words(const GatherArguments& args, typename Reader::State& state, Patches& patches) {
    using Word = typename Reader::Word;
    u32 fault = 0;
    gather_vectors(args, [&](const Node* tree, u32 vector, const KeptRows& kept, u64 place) {
        Word* out = reinterpret_cast<Word*>(args.out) + place * args.each_word;
        if (args.is_sign != 0 || tree->encoding == SIGN) {
            kept.each([&](u32, u32, u32 at) {
                Word* to = out + static_cast<u64>(at) * args.each_word;
                *to = static_cast<Word>(static_cast<i64>(to[-1]) >> 63);
            });
            return;
        }
        const typename Reader::Values values(tree, vector, state, patches, fault);
        kept.each([&](u32 step, u32, u32 at) { out[static_cast<u64>(at) * args.each_word] = values(step); });
    });
    report_gathered(args, fault);
}

}  // namespace lanepack
